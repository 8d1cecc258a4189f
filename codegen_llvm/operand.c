/* operand: the operands of a matrix product. */
#include "codegen_llvm/product.h"

int64_t cg_item_step(const cg *c, int o)
{
	const struct cg_product *p = c->product;
	const lo_index *x = &c->k->index.v[c->k->ins.v[p->x.load[o]].index];
	return o ? x->coef[c->k->ndim - 1] : p->x.row < 0 ? 0 : x->coef[p->x.row];
}

int64_t cg_r_step(const cg *c, int o)
{
	if (o && c->product->x.panels) return c->product->panel;
	return c->k->index.v[c->k->ins.v[c->product->x.load[o]].index].rcoef;
}

tj_dtype cg_item_dtype(const cg *c, int o) { return (tj_dtype)c->k->ins.v[c->product->x.load[o]].dtype; }

static cg_str convert(cg *c, uint32_t value, uint32_t load, int lanes, cg_str loaded)
{
	if (value == load) return loaded;
	const uint32_t src = c->k->ins.v[value].src[0];
	cg_str from = convert(c, src, load, lanes, loaded), to = cg_tmp(c);
	cg_convert(c, to, (tj_dtype)c->k->ins.v[src].dtype, (tj_dtype)c->k->ins.v[value].dtype, lanes, from);
	return to;
}

cg_str cg_converted(cg *c, int o, int lanes, cg_str loaded)
{
	return convert(c, c->product->x.value[o], c->product->x.load[o], lanes, loaded);
}

cg_str cg_columns(cg *c, tj_dtype t, cg_str p, const cg_str *mask)
{
	const int w = c->product->w;
	cg_str v = mask ? cg_read_some(c, t, w, p, *mask) : cg_read(c, t, w, p);
	return t == c->product->t ? v : cg_converted(c, 1, w, v);
}
