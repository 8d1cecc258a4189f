/* SPDX-License-Identifier: MIT */
/* operand: the operands of a matrix product: how they lie in memory, and what is computed as they are read.
 *
 *   %0 = load i8 b1 [0 + 768*d1 + 1*r]       the main load: the code that walks memory follows it
 *   %1 = convert f32 %0
 *   %2 = load f32 b2 [0 + 1*d1]              another load; numbers of the call are "scalars"
 *   %3 = mul f32 %1 %2
 *
 * Functions of the kernel's own get an address and two steps for each other load, as arguments, and the scalars. */
#include "codegen_llvm/product.h"

/* ---- how loads lie in memory ---- */
static const lo_index *index_of(const cg_recipe *h, uint32_t load) { return &h->k->index.v[h->k->ins.v[load].index]; }

static int64_t item_step(const cg_recipe *h, int o, uint32_t load)
{
	const int row = h->product->x.row;
	return o ? index_of(h, load)->coef[h->k->ndim - 1] : row < 0 ? 0 : index_of(h, load)->coef[row];
}

int64_t cg_item_step(const cg_recipe *h, int o) { return item_step(h, o, h->product->x.load[o]); }

int64_t cg_r_step(const cg_recipe *h, int o)
{
	if (o && h->product->x.panels) return h->product->panel;
	return index_of(h, h->product->x.load[o])->rcoef;
}

static tj_dtype memory_dtype(const cg_recipe *h, uint32_t load)
{
	const tj_dtype t = (tj_dtype)h->k->ins.v[load].dtype;
	return t == TJ_BOOL ? TJ_U8 : t;
}

tj_dtype cg_item_dtype(const cg_recipe *h, int o) { return memory_dtype(h, h->product->x.load[o]); }
static bool is_even(const lo_index *x) { return !x->group && !lo_jumps(x); }
bool cg_is_grouped(const cg_recipe *h, int o) { return !is_even(index_of(h, h->product->x.load[o])); }
bool cg_computes(const cg_recipe *h, int o) { return h->product->x.load[o] != h->product->x.value[o]; }

/* ---- addresses of many items: few registers are left beside vectors ---- */
void cg_strides(cg *c, cg_str bytes, cg_str *stride)
{
	for (int i = 0; i < CG_STRIDES; i++) stride[i] = cg_op(c, "mul", bytes, cg_int(2 * i + 1));
}

cg_str cg_multiple(cg *c, cg_str base, const cg_str *stride, int n)
{
	static const int shift[CG_MULTIPLES] = { 0, 0, 1, 0, 2, 0, 1, 0 };
	return n ? cg_elem(c, TJ_I8, base, cg_op(c, "shl", stride[(n >> shift[n]) / 2], cg_int(shift[n]))) : base;
}

void cg_put_items(cg *c, int o, cg_str first, int n, cg_str last, cg_str *number, cg_str *item)
{
	for (int i = 0; i < n; i++) {
		number[i] = cg_least(c, cg_op(c, "add", first, cg_int(i)), last);
		item[i] = cg_elem(c, cg_item_dtype(c->how, o), cg_fmt("%%from"), cg_op(c, "mul", number[i], cg_fmt("%%si")));
	}
}

/* ---- what is computed ---- */
static void find(cg_recipe *h, int o)
{
	const cg_product *p = h->product;
	cg_operand *x = &h->product->operand[o];
	for (uint32_t i = p->x.needs[o].first; i <= p->x.value[o]; i++) {
		const lo_op op = (lo_op)h->k->ins.v[i].op;
		if (!lo_needed(&p->x.needs[o], i) || (i == p->x.load[o] && !cg_is_grouped(h, o))) continue;
		if (op == LO_LOAD && !rt_push(&x->other, i)) h->oom = true;
		if ((op == LO_NUM || op == LO_SIZE) && !rt_push(&x->scalar, i)) h->oom = true;
	}
}

void cg_find_operands(cg_recipe *h)
{
	for (int o = 0; o < 2; o++) find(h, o);
}

static bool is_flat(int64_t step) { return step == 0 || step == 1; }

bool cg_items_adjacent(const cg_recipe *h, int o)
{
	const cg_operand *x = &h->product->operand[o];
	bool all = cg_item_step(h, o) == 1 && !index_of(h, h->product->x.load[o])->group;
	for (uint32_t i = 0; i < x->other.n; i++) all &= is_flat(item_step(h, o, x->other.v[i]));
	return all;
}

bool cg_steps_adjacent(const cg_recipe *h, int o)
{
	const cg_operand *x = &h->product->operand[o];
	bool all = cg_r_step(h, o) == 1 && !cg_is_grouped(h, o);
	for (uint32_t i = 0; i < x->other.n; i++) {
		const lo_index *at = index_of(h, x->other.v[i]);
		all &= !lo_jumps(at) && (at->group ? at->group % h->product->w == 0 : is_flat(at->rcoef));
	}
	return all;
}

bool cg_has_steps(const cg_recipe *h, uint32_t load)
{
	return load == h->product->x.load[1] && lo_jumps(index_of(h, load));
}

/* ---- arguments of functions ---- */
/* A step of 0 or 1 is a part of the text, any other one an argument. */
static void put_parameter(rt_text *t, const char *name, int o, uint32_t i, int64_t step)
{
	if (!is_flat(step)) rt_putf(t, ", i64 %%%s%d.%u", name, o, i);
}

static void put_argument(rt_text *t, int64_t step)
{
	if (!is_flat(step)) rt_putf(t, ", i64 %s", cg_int(step).s);
}

static cg_str times(cg *c, cg_str x, const char *name, int o, uint32_t i, int64_t step)
{
	if (is_flat(step)) return step ? x : cg_int(0);
	return cg_op(c, "mul", x, cg_fmt("%%%s%d.%u", name, o, i));
}

void cg_put_parameters(const cg *c, int o, rt_text *t)
{
	const cg_operand *x = &cg_product_of(c)->operand[o];
	for (uint32_t i = 0; i < x->other.n; i++) {
		const lo_index *at = index_of(c->how, x->other.v[i]);
		rt_putf(t, ", ptr %%o%d.%u", o, i);
		put_parameter(t, "oi", o, i, item_step(c->how, o, x->other.v[i]));
		if (cg_has_steps(c->how, x->other.v[i])) {
			rt_puts(t, ", ptr %steps");
			continue;
		}
		put_parameter(t, "ok", o, i, at->rcoef);
		if (!is_even(at)) rt_putf(t, ", i64 %%o0%d.%u", o, i);
		for (int j = 0; j < LO_JUMPS && at->jump[j].every; j++) rt_putf(t, ", i64 %%oj%d.%u.%d", o, i, j);
	}
	for (uint32_t i = 0; i < x->scalar.n; i++) rt_putf(t, ", %s %%os%d.%u", cg_type((tj_dtype)c->k->ins.v[x->scalar.v[i]].dtype, 1).s, o, i);
}

void cg_put_arguments(cg *c, int o, cg_str item, cg_str k, rt_text *t)
{
	const cg_operand *x = &cg_product_of(c)->operand[o];
	for (uint32_t i = 0; i < x->other.n; i++) {
		const lo_index *at = index_of(c->how, x->other.v[i]);
		const int64_t step = item_step(c->how, o, x->other.v[i]);
		cg_str to = cg_op(c, "mul", item, cg_int(step));
		if (is_even(at)) to = cg_op(c, "add", to, cg_op(c, "mul", k, cg_int(at->rcoef)));
		rt_putf(t, ", ptr %s", cg_elem(c, memory_dtype(c->how, x->other.v[i]), c->product->first[o][i], to).s);
		put_argument(t, step);
		if (cg_has_steps(c->how, x->other.v[i])) {
			rt_putf(t, ", ptr %s", c->product->steps.s);
			continue;
		}
		put_argument(t, at->rcoef);
		if (!is_even(at)) rt_putf(t, ", i64 %s", k.s);
		for (int j = 0; j < LO_JUMPS && at->jump[j].every; j++) rt_putf(t, ", i64 %s", cg_int(at->jump[j].by).s);
	}
	for (uint32_t i = 0; i < x->scalar.n; i++) {
		const tj_dtype type = (tj_dtype)c->k->ins.v[x->scalar.v[i]].dtype;
		rt_putf(t, ", %s %s", cg_type(type, 1).s, cg_use(c, x->scalar.v[i], false).s);
	}
}

/* ---- values ---- */
static cg_str from_memory(cg *c, uint32_t load, int lanes, cg_str v)
{
	if (c->k->ins.v[load].dtype != TJ_BOOL) return v;
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp ne %s %s, %s\n", r.s, cg_type(TJ_U8, lanes).s, v.s,
	        lanes > 1 ? cg_literal(TJ_U8, 0, lanes).s : "0"); /* any byte but 0 is true */
	return r;
}

/* Other load i at step k of r, but for the item. */
static cg_str other_step(cg *c, int o, uint32_t i, cg_str k)
{
	const uint32_t load = cg_product_of(c)->operand[o].other.v[i];
	const lo_index *x = index_of(c->how, load);
	if (cg_has_steps(c->how, load)) return cg_read(c, TJ_I64, 1, cg_elem(c, TJ_I64, cg_fmt("%%steps"), k));
	cg_str r = is_even(x) ? k : cg_op(c, "add", cg_fmt("%%o0%d.%u", o, i), k);
	cg_str to = times(c, x->group ? cg_op(c, "udiv", r, cg_int(x->group)) : r, "ok", o, i, x->rcoef);
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++)
		to = cg_op(c, "add", to, cg_op(c, "mul", cg_op(c, "udiv", r, cg_int(x->jump[j].every)), cg_fmt("%%oj%d.%u.%d", o, i, j)));
	return to;
}

void cg_put_steps(cg *c, cg_str first, cg_str n)
{
	const lo_index *x = index_of(c->how, cg_product_of(c)->x.load[1]);
	cg_loop k = cg_open(c, "step", cg_int(0), n, cg_int(1), true);
	const cg_str r = cg_op(c, "add", first, k.i);
	cg_str at = cg_op(c, "mul", r, cg_int(x->rcoef));
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++)
		at = cg_op(c, "add", at, cg_op(c, "mul", cg_op(c, "udiv", r, cg_int(x->jump[j].every)), cg_int(x->jump[j].by)));
	cg_write(c, TJ_I64, 1, at, cg_elem(c, TJ_I64, c->product->steps, k.i));
	cg_close(c, &k);
}

/* The number of the main load among the others, where it is one of them. */
static uint32_t main_of(const cg *c, int o)
{
	uint32_t i = 0;
	while (cg_product_of(c)->operand[o].other.v[i] != cg_product_of(c)->x.load[o]) i++;
	return i;
}

cg_str cg_main_step(cg *c, int o, cg_str k) { return cg_is_grouped(c->how, o) ? other_step(c, o, main_of(c, o), k) : cg_int(0); }

cg_str cg_main_row(cg *c, int o, cg_str k)
{
	const bool jumps = cg_is_grouped(c->how, o);
	const cg_str base = jumps ? cg_fmt("%%o%d.%u", o, main_of(c, o)) : cg_fmt("%%from");
	return cg_elem(c, cg_item_dtype(c->how, o), base, jumps ? cg_main_step(c, o, k) : cg_op(c, "mul", k, cg_fmt("%%sk")));
}

/* Other load i, for `lanes` items or steps of r from `item` and k on. */
static cg_str read_other(cg *c, int o, uint32_t i, const cg_at *at)
{
	const uint32_t load = cg_product_of(c)->operand[o].other.v[i];
	const lo_index *x = index_of(c->how, load);
	const tj_dtype t = memory_dtype(c->how, load);
	const int64_t step = at->along_r ? x->group ? 0 : x->rcoef : item_step(c->how, o, load);
	cg_str k = load == cg_product_of(c)->x.load[o] && at->step ? *at->step : other_step(c, o, i, at->k);
	cg_str to = cg_op(c, "add", times(c, at->item, "oi", o, i, item_step(c->how, o, load)), k);
	cg_str p = cg_elem(c, t, cg_fmt("%%o%d.%u", o, i), to);
	const int lanes = step ? at->lanes : 1;
	cg_str v = from_memory(c, load, lanes, lanes > 1 && at->mask ? cg_read_some(c, t, lanes, p, *at->mask) : cg_read(c, t, lanes, p));
	return lanes == at->lanes ? v : cg_splat(c, cg_type((tj_dtype)c->k->ins.v[load].dtype, 1).s, v, at->lanes);
}

static uint32_t number_of(const uint32_t *v, uint32_t value)
{
	uint32_t i = 0;
	while (v[i] != value) i++;
	return i;
}

static cg_str value(cg *c, int o, uint32_t i, const cg_at *at)
{
	struct cg_writer *w = c->product;
	const cg_product *p = &w->p;
	const cg_operand *x = &p->operand[o];
	const lo_ins *in = &c->k->ins.v[i];
	const tj_dtype t = (tj_dtype)in->dtype;
	cg_str src[3], name;
	if (w->memo[i].round == w->round) return w->memo[i].name;
	switch (in->op) {
	case LO_LOAD:
		name = i == p->x.load[o] && !cg_is_grouped(c->how, o) ? from_memory(c, i, at->lanes, at->loaded)
		                                                 : read_other(c, o, number_of(x->other.v, i), at);
		break;
	case LO_CONST: name = cg_literal(t, in->imm, at->lanes); break;
	case LO_NUM: case LO_SIZE: name = cg_splat(c, cg_type(t, 1).s, cg_fmt("%%os%d.%u", o, number_of(x->scalar.v, i)), at->lanes); break;
	default:
		for (int k = 0; k < in->nsrc; k++) src[k] = value(c, o, in->src[k], at);
		cg_prim(c, name = cg_tmp(c), in, at->lanes, src);
	}
	w->memo[i].round = w->round;
	w->memo[i].name = name;
	return name;
}

cg_str cg_computed(cg *c, int o, const cg_at *at)
{
	c->product->round++;
	return value(c, o, cg_product_of(c)->x.value[o], at);
}

void cg_read_as_it_lies(cg *c, bool on)
{
	cg_product *p = &c->product->p;
	p->columns_computed = !on;
	p->yt = on ? cg_item_dtype(c->how, 1) : p->t;
}

cg_str cg_columns(cg *c, cg_str p, cg_at at)
{
	const tj_dtype t = cg_product_of(c)->yt;
	at.lanes = cg_product_of(c)->w;
	at.loaded = at.mask ? cg_read_some(c, t, at.lanes, p, *at.mask) : cg_read(c, t, at.lanes, p);
	return cg_product_of(c)->columns_computed ? at.loaded : cg_computed(c, 1, &at);
}
