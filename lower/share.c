/* share: splits a long reduction of few rows into two kernels, so that threads share it. The target says what is long, and how long
 * a part is.
 *
 * requires a step whose kernel is built, before steps are ordered; the step keeps the first kernel, a new step has the second
 *
 *   kernel sum                            kernel parts                              kernel rest
 *                                           schedule part=131072
 *     red 16777216                          red 16777216                              red 16384
 *     loop                                  loop                                      loop
 *       %0 = load b0 [1*r]          =>        %0 = load b0 [1*r]                        %0 = load b0 [1*r]
 *       %1 = reduce add row %0                part add row b1 [0] %0                    %1 = reduce add parts %0
 *     point                                                                           point
 *       store b1 [0] %1                                                                 store b1 [0] %1
 *
 * A part is an aligned subtree of the row tree: 2^k chunks. Each unit of the first kernel reduces one part and stores the lanes
 * that the tree still has before it halves them. The tree `parts` continues from there, so the result has the same bits. */
#include "ir/tree.h"
#include "lower/low.h"

typedef struct copier {
	lo_low *L;
	const lo_built *from;
	lo_built *to;
	uint32_t *ins, *buf; /* from numbers in `from` to numbers in `to`; LO_NOREF: not copied */
} copier;

/* ---- what can be split ---- */
/* The kernel's loop section, if it has only one and keeps no rows; else NULL. */
static const lo_section *one_loop(const lo_kernel *k)
{
	const lo_section *loop = NULL;
	for (uint32_t s = 0; s < k->section.n; s++) {
		const lo_section *x = &k->section.v[s];
		if (!x->loop) continue;
		if (loop) return NULL;
		loop = x;
		for (uint32_t i = x->first; i < x->first + x->count; i++)
			if (k->ins.v[i].op == LO_STORE && k->buf.v[k->ins.v[i].buf].role == LO_KEPT) return NULL;
	}
	return loop;
}

/* Number of lanes that each reduction leaves of a part; 0: the numbers differ, or a reduction cannot be split. */
static int64_t lanes_of(const lo_kernel *k, const lo_section *loop)
{
	int64_t lanes = 0;
	for (uint32_t i = loop->first; i < loop->first + loop->count; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_REDUCE) continue;
		int64_t n = lo_part_lanes(in);
		if (in->imm >= LO_RED_ARGMAX || in->tree == LO_TREE_COLUMN || (lanes && n != lanes)) return 0;
		lanes = n;
	}
	return lanes;
}

static int64_t outer(const lo_kernel *k)
{
	int64_t n = 1;
	for (int i = 0; i < k->ndim; i++) n *= k->dim[i];
	return n;
}

/* ---- copying instructions ---- */
static uint32_t add_buf(copier *c, uint32_t low, lo_buf b)
{
	uint32_t n = c->to->nbuf;
	if (!rt_push(&c->to->k.buf, b)) c->L->oom = true;
	else c->to->buf[c->to->nbuf++] = low;
	return n;
}

static uint32_t put(copier *c, lo_ins in, const lo_index *x)
{
	lo_kernel *k = &c->to->k;
	in.index = k->index.n;
	if ((x && !rt_push(&k->index, *x)) || !rt_push(&k->ins, in)) c->L->oom = true;
	return k->ins.n - 1;
}

static void copy(copier *c, uint32_t i)
{
	const lo_kernel *k = &c->from->k;
	lo_ins in = k->ins.v[i];
	bool access = in.op == LO_LOAD || in.op == LO_STORE;
	if (access && c->buf[in.buf] == LO_NOREF) c->buf[in.buf] = add_buf(c, c->from->buf[in.buf], k->buf.v[in.buf]);
	if (access) in.buf = c->buf[in.buf];
	if (access && in.dyn != LO_NOREF) in.dyn = c->ins[in.dyn];
	for (int s = 0; s < in.nsrc; s++) in.src[s] = c->ins[in.src[s]];
	c->ins[i] = put(c, in, access ? &k->index.v[in.index] : NULL);
}

static void section(copier *c, bool loop, uint32_t first)
{
	lo_kernel *k = &c->to->k;
	lo_section s = { loop, first, k->ins.n - first };
	if (s.count && !rt_push(&k->section, s)) c->L->oom = true;
}

static copier begin(lo_low *L, const lo_built *from, uint32_t nred)
{
	uint32_t n = from->k.ins.n + 1, nbuf = from->k.buf.n + nred + 1;
	copier c = { L, from, lo_mem(L, sizeof *c.to), lo_mem(L, n * sizeof *c.ins), lo_mem(L, nbuf * sizeof *c.buf) };
	if (c.to) c.to->buf = lo_mem(L, nbuf * sizeof *c.to->buf);
	if (L->oom) return c;
	const lo_kernel *k = &from->k;
	for (uint32_t i = 0; i < k->buf.n; i++) c.buf[i] = LO_NOREF;
	c.to->k = (lo_kernel){ .name = k->name, .ndim = k->ndim, .reduces = true };
	c.to->s = (lo_schedule){ .target = from->s.target, .vec = from->s.vec, .block = 1 };
	memcpy(c.to->k.dim, k->dim, sizeof k->dim);
	for (uint32_t i = 0; i < k->fault_site.n; i++)
		if (!rt_push(&c.to->k.fault_site, k->fault_site.v[i]) || !rt_push(&c.to->k.fault_code, k->fault_code.v[i]))
			L->oom = true;
	c.to->fault = from->fault;
	return c;
}

/* ---- the two kernels ---- */
/* The index at which the lanes of an outer index begin; in_r: plus r, since those of all parts are adjacent. */
static lo_index lanes_at(const lo_kernel *k, int64_t each, bool in_r)
{
	lo_index x = { .rcoef = in_r };
	for (int i = k->ndim - 1; i >= 0; i--) {
		x.coef[i] = k->dim[i] > 1 ? each : 0;
		each *= k->dim[i];
	}
	return x;
}

static lo_built *make_parts(lo_low *L, const lo_built *b, const lo_section *loop, int64_t part, const uint32_t *low)
{
	const lo_kernel *k = &b->k;
	copier c = begin(L, b, loop->count);
	uint32_t nth = 0;
	if (L->oom) return c.to;
	int64_t each = ((k->red - 1) / part + 1) * lanes_of(k, loop);
	for (const lo_section *s = k->section.v; s <= loop; s++) {
		uint32_t first = c.to->k.ins.n;
		for (uint32_t i = s->first; i < s->first + s->count; i++) {
			lo_ins in = k->ins.v[i];
			if (in.op == LO_STORE && !s->loop) continue;
			if (in.op != LO_REDUCE) {
				copy(&c, i);
				continue;
			}
			lo_index x = lanes_at(k, each, false);
			in.op = LO_PART;
			in.src[0] = c.ins[in.src[0]];
			in.buf = add_buf(&c, low[nth++], (lo_buf){ .dtype = in.dtype, .role = LO_OUT, .aligned = true });
			put(&c, in, &x);
		}
		section(&c, s->loop, first);
	}
	c.to->k.red = k->red;
	c.to->s.part = part;
	c.to->s.unit_ns = b->s.unit_ns * (double)part / (double)k->red;
	return c.to;
}

static lo_built *make_rest(lo_low *L, const lo_built *b, const lo_section *loop, int64_t red, const uint32_t *low)
{
	const lo_kernel *k = &b->k;
	copier c = begin(L, b, loop->count);
	uint32_t nth = 0;
	if (L->oom) return c.to;
	for (uint32_t i = loop->first; i < loop->first + loop->count; i++) {
		lo_ins in = k->ins.v[i], load = { .op = LO_LOAD, .dtype = in.dtype, .dyn = LO_NOREF };
		if (in.op != LO_REDUCE) continue;
		lo_index x = lanes_at(k, red, true);
		load.buf = add_buf(&c, low[nth++], (lo_buf){ .dtype = in.dtype, .role = LO_IN, .aligned = true });
		in.src[0] = put(&c, load, &x);
		if (lo_part_lanes(&in) > 1) in.tree = LO_TREE_PARTS;
		c.ins[i] = put(&c, in, NULL);
	}
	section(&c, true, 0);
	uint32_t first = c.to->k.ins.n;
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = k->section.v[s].first; !k->section.v[s].loop && i < k->section.v[s].first + k->section.v[s].count; i++)
			if (k->ins.v[i].op != LO_FAULT || &k->section.v[s] > loop) copy(&c, i);
	section(&c, false, first);
	c.to->k.red = red;
	c.to->s.unit_ns = b->s.target->lane_ns * (double)red + b->s.target->join_ns;
	return c.to;
}

static void link(lo_low *L, lo_step *s, lo_built *b)
{
	s->built = b;
	s->reads.n = s->writes.n = 0;
	for (uint32_t i = 0; i < b->nbuf; i++) lo_touch(L, s, b->buf[i], b->k.buf.v[i].role == LO_OUT);
}

void lo_share(lo_low *L, const lo_target *t, uint32_t step)
{
	lo_built *b = L->step.v[step].built;
	const lo_kernel *k = &b->k;
	const lo_section *loop = b->s.vec != LO_VEC_D && outer(k) < t->few_rows ? one_loop(k) : NULL;
	int64_t lanes = loop ? lanes_of(k, loop) : 0, part = lanes ? t->part(t, k, lanes) : 0;
	if (!part || k->red < 2 * part || k->red < t->split_row) return;
	int64_t red = ((k->red - 1) / part + 1) * lanes;
	uint32_t *low = lo_mem(L, (loop->count + 1) * sizeof *low), n = 0;
	for (uint32_t i = loop->first; low && i < loop->first + loop->count; i++)
		if (k->ins.v[i].op == LO_REDUCE)
			low[n++] = lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA, .device = L->group.v[L->step.v[step].group]->device,
			                                      .bytes = red * outer(k) * (int64_t)tj_dtype_size((tj_dtype)k->ins.v[i].dtype) });
	lo_step second = { .kind = LO_STEP_KERNEL, .ref = IR_NONE, .group = L->step.v[step].group };
	if (L->oom) return;
	lo_built *parts = make_parts(L, b, loop, part, low), *rest = make_rest(L, b, loop, red, low);
	if (parts) link(L, &L->step.v[step], parts);
	if (rest) link(L, &second, rest);
	lo_kernel_free(&b->k);
	lo_schedule_free(&b->s);
	if (rt_push(&L->step, second)) return;
	L->oom = true;
	rt_vec_free(&second.reads);
	rt_vec_free(&second.writes);
	if (rest) lo_kernel_free(&rest->k);
}
