/* SPDX-License-Identifier: MIT */
/* share: splits a long reduction of few rows, or of few columns, into two kernels, so that threads share it. The target says what is few
 * and long, and how long a part is.
 *
 * requires a step whose kernel is built, before steps are ordered; the step keeps the first kernel, a new step has the second
 *
 *   kernel sum                            kernel parts                              kernel rest
 *                                           schedule part=131072
 *     red 16777216                          red 16777216                              red 16384
 *     loop                                  loop                                      loop
 *       %0 = load b0 [1*r]          =>        %0 = load b0 [1*r]                        %0 = load b0 [1*r]
 *       %1 = reduce add row %0                part add row b1 [1*r] %0                  %1 = reduce add parts %0
 *     point                                                                           point
 *       store b1 [0] %1                                                                 store b1 [0] %1
 *
 * A part is an aligned subtree of the tree: 2^k chunks. Each unit of the first kernel reduces one part and stores the lanes that the
 * tree still has before it halves them; a column tree has one. The tree `parts` continues from there, for columns the tree `pairs`, so
 * the result has the same bits. What is left of the parts of a row lies side by side; of the parts of columns, as rows of columns.
 *
 * A search leaves the element of each part and its index. The second kernel finds the part, by its element, and loads the index:
 *
 *     loop                                  loop                                      loop
 *       %0 = load b0 [4*r]                    %0 = load b0 [4*r]                        %0 = load b2 [1*r]
 *       %1 = reduce argmax %0       =>        part argmax b1 [1*r] %0                   %1 = reduce argmax %0
 *                                             part atmax b2 [1*r] %0                  point
 *                                                                                       %2 = load b1 [0] + %1*1 */
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

/* Number of lanes that each reduction leaves of a part; 0: the numbers differ, or the target does not split a reduction. */
static int64_t lanes_of(const lo_target *t, const lo_kernel *k, const lo_section *loop)
{
	int64_t lanes = 0;
	for (uint32_t i = loop->first; i < loop->first + loop->count; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_REDUCE) continue;
		int64_t n = lo_part_lanes(in);
		if ((in->imm >= LO_RED_ARGMAX && !t->splits_searches) || (lanes && n != lanes)) return 0;
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

static int64_t part_block(const lo_built *b) { return b->s.vec != LO_VEC_R && b->s.target->part_blocks ? b->s.block : 1; }

static copier begin(lo_low *L, const lo_built *from, uint32_t nred)
{
	uint32_t n = from->k.ins.n + 1, nbuf = from->k.buf.n + nred + 1;
	copier c = { L, from, lo_mem(L, sizeof *c.to), lo_mem(L, n * sizeof *c.ins), lo_mem(L, nbuf * sizeof *c.buf) };
	if (c.to) c.to->buf = lo_mem(L, nbuf * sizeof *c.to->buf);
	if (L->oom) return c;
	const lo_kernel *k = &from->k;
	for (uint32_t i = 0; i < k->buf.n; i++) c.buf[i] = LO_NOREF;
	c.to->k = (lo_kernel){ .name = k->name, .ndim = k->ndim, .reduces = true };
	c.to->s = (lo_schedule){ .target = from->s.target, .vec = from->s.vec, .block = part_block(from) };
	memcpy(c.to->k.dim, k->dim, sizeof k->dim);
	for (uint32_t i = 0; i < k->fault_site.n; i++)
		if (!rt_push(&c.to->k.fault_site, k->fault_site.v[i]) || !rt_push(&c.to->k.fault_code, k->fault_code.v[i]))
			L->oom = true;
	c.to->fault = from->fault;
	if (!lo_copy_sites(&c.to->k, k)) L->oom = true;
	return c;
}

/* ---- what the parts leave ---- */
typedef struct left {
	uint32_t of;             /* the REDUCE */
	lo_ins in;               /* the PART; its source has its old number */
	uint32_t buf;            /* low buffer */
} left;
typedef struct parts {
	const lo_section *loop;
	int64_t part, red;       /* elements of a part; lanes of all parts: the r of the second kernel */
	lo_index at;             /* where they lie */
	left *left;
	uint32_t n;
} parts;

static lo_index place(const lo_kernel *k, bool column, int64_t red)
{
	lo_index x = { .rcoef = 1 };
	int64_t step = column ? 1 : red;
	for (int i = k->ndim - 1; i >= 0; i--) {
		x.coef[i] = k->dim[i] > 1 ? step : 0;
		step *= k->dim[i];
	}
	if (column) x.rcoef = step;
	return x;
}

static void leave(lo_low *L, parts *p, uint32_t step, uint32_t of, lo_ins in)
{
	const lo_kernel *k = &L->step.v[step].built->k;
	const int device = L->group.v[L->step.v[step].group]->device;
	const int64_t bytes = p->red * outer(k) * (int64_t)tj_dtype_size((tj_dtype)in.dtype);
	in.op = LO_PART;
	p->left[p->n++] = (left){ of, in, lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA, .device = device, .bytes = bytes }) };
}

/* The second kernel computes REDUCE i from what this PART leaves: for an index, from the elements that the search found. */
static bool feeds(const left *x, const lo_kernel *k, uint32_t i)
{
	const lo_ins *in = &k->ins.v[i];
	if (!lo_is_index(in->imm)) return x->of == i;
	return x->in.src[0] == in->src[0] && x->in.imm == in->imm - LO_RED_ARGMAX + LO_RED_ATMAX;
}

static const left *value_of(const parts *p, const lo_kernel *k, uint32_t i)
{
	for (uint32_t n = 0; n < p->n; n++)
		if (feeds(&p->left[n], k, i)) return &p->left[n];
	return NULL;
}

static void leave_all(lo_low *L, parts *p, uint32_t step)
{
	const lo_kernel *k = &L->step.v[step].built->k;
	for (uint32_t i = p->loop->first; i < p->loop->first + p->loop->count; i++)
		if (k->ins.v[i].op == LO_REDUCE) leave(L, p, step, i, k->ins.v[i]);
	for (uint32_t i = p->loop->first; i < p->loop->first + p->loop->count; i++) {
		lo_ins in = k->ins.v[i];
		if (in.op != LO_REDUCE || value_of(p, k, i)) continue;
		in.dtype = k->ins.v[in.src[0]].dtype;
		in.imm += LO_RED_ATMAX - LO_RED_ARGMAX;
		leave(L, p, step, i, in);
	}
}

/* ---- the two kernels ---- */
static lo_built *make_parts(lo_low *L, const lo_built *b, const parts *p)
{
	const lo_kernel *k = &b->k;
	copier c = begin(L, b, p->n);
	if (L->oom) return c.to;
	for (const lo_section *s = k->section.v; s <= p->loop; s++) {
		uint32_t first = c.to->k.ins.n;
		for (uint32_t i = s->first; i < s->first + s->count; i++) {
			const lo_op op = (lo_op)k->ins.v[i].op;
			if (op != LO_REDUCE && (op != LO_STORE || s->loop)) copy(&c, i);
			for (uint32_t n = 0; op == LO_REDUCE && n < p->n; n++) {
				lo_ins in = p->left[n].in;
				if (p->left[n].of != i) continue;
				in.src[0] = c.ins[in.src[0]];
				in.buf = add_buf(&c, p->left[n].buf, (lo_buf){ .dtype = in.dtype, .role = LO_OUT, .aligned = true });
				put(&c, in, &p->at);
			}
		}
		section(&c, s->loop, first);
	}
	c.to->k.red = k->red;
	c.to->s.part = p->part;
	c.to->s.unit_ns = b->s.unit_ns * (double)p->part / (double)k->red;
	return c.to;
}

/* Loads what a PART left, at r. */
static uint32_t load_left(copier *c, const parts *p, const left *x)
{
	lo_ins load = { .op = LO_LOAD, .dtype = x->in.dtype, .dyn = LO_NOREF };
	load.buf = add_buf(c, x->buf, (lo_buf){ .dtype = load.dtype, .role = LO_IN, .aligned = true });
	return put(c, load, &p->at);
}

/* Loads the index that the search found in the part whose number is the value `part`. */
static uint32_t load_index(copier *c, const parts *p, const left *x, uint32_t part)
{
	lo_index at = p->at;
	lo_ins load = { .op = LO_LOAD, .dtype = TJ_I64, .dyn = part, .dyn_stride = at.rcoef };
	load.buf = add_buf(c, x->buf, (lo_buf){ .dtype = TJ_I64, .role = LO_IN, .aligned = true });
	at.rcoef = 0;
	return put(c, load, &at);
}

static lo_tree rest_of_tree(const lo_ins *in)
{
	if (lo_part_lanes(in) > 1) return LO_TREE_PARTS;
	return in->tree == LO_TREE_COLUMN && rt_is_float((tj_dtype)in->dtype) ? LO_TREE_PAIRS : (lo_tree)in->tree;
}

static lo_built *make_rest(lo_low *L, const lo_built *b, const parts *p)
{
	const lo_kernel *k = &b->k;
	const lo_section *loop = p->loop;
	copier c = begin(L, b, p->n);
	uint32_t *at = lo_mem(L, (p->n + 1) * sizeof *at); /* by what is left: its load */
	if (L->oom) return c.to;
	for (uint32_t n = 0; n < p->n; n++)
		if (!lo_is_index(p->left[n].in.imm)) at[n] = load_left(&c, p, &p->left[n]);
	for (uint32_t i = loop->first; i < loop->first + loop->count; i++) {
		lo_ins in = k->ins.v[i];
		if (in.op != LO_REDUCE) continue;
		in.src[0] = at[value_of(p, k, i) - p->left];
		in.tree = (uint8_t)rest_of_tree(&in);
		c.ins[i] = put(&c, in, NULL);
	}
	section(&c, true, 0);
	uint32_t first = c.to->k.ins.n;
	for (uint32_t n = 0; n < p->n; n++)
		if (lo_is_index(p->left[n].in.imm)) c.ins[p->left[n].of] = load_index(&c, p, &p->left[n], c.ins[p->left[n].of]);
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = k->section.v[s].first; !k->section.v[s].loop && i < k->section.v[s].first + k->section.v[s].count; i++)
			if (k->ins.v[i].op != LO_FAULT || &k->section.v[s] > loop) copy(&c, i);
	section(&c, false, first);
	c.to->k.red = p->red;
	c.to->s.unit_ns = (b->s.target->lane_ns * (double)p->red + b->s.target->join_ns) * (double)c.to->s.block;
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
	const bool column = L->group.v[L->step.v[step].group]->column;
	if (b->s.vec == LO_VEC_TILE) return;
	const lo_section *loop = lo_is_shared(t, column, outer(k), k->red) ? one_loop(k) : NULL;
	int64_t lanes = loop ? lanes_of(t, k, loop) : 0, part = lanes ? t->part(t, k, column, lanes) : 0;
	if (!part || k->red < 2 * part) return;
	parts p = { .loop = loop, .part = part, .red = ((k->red - 1) / part + 1) * lanes };
	p.at = place(k, column, p.red);
	p.left = lo_mem(L, (2 * loop->count + 1) * sizeof *p.left);
	if (p.left) leave_all(L, &p, step);
	lo_step second = { .kind = LO_STEP_KERNEL, .ref = IR_NONE, .group = L->step.v[step].group };
	if (L->oom) return;
	lo_built *first = make_parts(L, b, &p), *rest = make_rest(L, b, &p);
	if (first) link(L, &L->step.v[step], first);
	if (rest) link(L, &second, rest);
	lo_kernel_free(&b->k);
	lo_schedule_free(&b->s);
	if (rt_push(&L->step, second)) return;
	L->oom = true;
	rt_vec_free(&second.reads);
	rt_vec_free(&second.writes);
	if (rest) lo_kernel_free(&rest->k);
}
