/* operand: the operands of a matrix product. */
#include "codegen_llvm/product.h"

int64_t cg_item_step(const cg *c, int o)
{
	const struct cg_product *p = c->product;
	const lo_index *x = &c->k->index.v[c->k->ins.v[p->x.load[o]].index];
	return o ? x->coef[c->k->ndim - 1] : p->x.row < 0 ? 0 : x->coef[p->x.row];
}

int64_t cg_r_step(const cg *c, int o) { return c->k->index.v[c->k->ins.v[c->product->x.load[o]].index].rcoef; }

/* The conversions are written here as well, for any number of lanes; what is known of them for the sections stays as it was. */
static cg_str convert(cg *c, uint32_t i, uint32_t load, cg_str loaded)
{
	const cg_val val = c->val[i];
	const uint8_t varies = c->varies[i], place = c->place[i];
	cg_str name = loaded;
	c->varies[i] = c->lanes > 1;
	c->place[i] = CG_BODY;
	if (i == load) c->val[i] = (cg_val){ .name = loaded, .vec = c->lanes > 1, .place = CG_BODY };
	else {
		const uint32_t src = c->k->ins.v[i].src[0];
		const cg_val from = c->val[src];
		const uint8_t from_varies = c->varies[src];
		c->val[src] = (cg_val){ .name = convert(c, src, load, loaded), .vec = c->lanes > 1, .place = CG_BODY };
		c->varies[src] = c->lanes > 1;
		cg_point(c, i);
		name = c->val[i].name;
		c->val[src] = from;
		c->varies[src] = from_varies;
	}
	c->val[i] = val;
	c->varies[i] = varies;
	c->place[i] = place;
	return name;
}

cg_str cg_converted(cg *c, int o, int lanes, cg_str loaded)
{
	const struct cg_product *p = c->product;
	const int before = c->lanes;
	const char *copy = c->copy;
	char own[24];
	snprintf(own, sizeof own, ".c%u", ++c->tmp);
	c->copy = own;
	c->lanes = lanes;
	cg_str r = convert(c, p->x.value[o], p->x.load[o], loaded);
	c->lanes = before;
	c->copy = copy;
	return r;
}
