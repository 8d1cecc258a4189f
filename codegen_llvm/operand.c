/* operand: the operands of a matrix product. */
#include "codegen_llvm/product.h"

int64_t cg_item_step(const cg *c, int o)
{
	const struct cg_product *p = c->product;
	const lo_index *x = &c->k->index.v[c->k->ins.v[p->x.load[o]].index];
	return o ? x->coef[c->k->ndim - 1] : p->x.row < 0 ? 0 : x->coef[p->x.row];
}

int64_t cg_r_step(const cg *c, int o) { return c->k->index.v[c->k->ins.v[c->product->x.load[o]].index].rcoef; }

cg_str cg_converted(cg *c, int o, int lanes, cg_str loaded)
{
	const struct cg_product *p = c->product;
	const int before = c->lanes;
	char copy[24];
	if (p->x.value[o] == p->x.load[o]) return loaded;
	snprintf(copy, sizeof copy, ".c%u", ++c->tmp);
	c->copy = copy;
	c->lanes = lanes;
	const uint8_t was = c->varies[p->x.load[o]];
	cg_val *v = &c->val[p->x.load[o]], old = *v;
	*v = (cg_val){ .name = loaded, .vec = lanes > 1, .place = CG_BODY };
	for (uint32_t i = p->x.load[o]; i <= p->x.value[o]; i++) {
		bool mine = i == p->x.load[o];
		for (uint32_t k = p->x.value[o]; !mine && c->k->ins.v[k].op == LO_CONVERT; k = c->k->ins.v[k].src[0]) mine = k == i;
		if (!mine) continue;
		c->varies[i] = lanes > 1;
		c->place[i] = CG_BODY;
		if (i != p->x.load[o]) cg_point(c, i);
	}
	cg_str r = c->val[p->x.value[o]].name;
	*v = old;
	c->varies[p->x.load[o]] = was;
	c->lanes = before;
	c->copy = "";
	return r;
}
