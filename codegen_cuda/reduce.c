/* SPDX-License-Identifier: MIT */
/* reduce: accumulators in the fixed order of ir/tree.c, by the functions of prelude.c.
 *
 * Each thread has lanes of the tree of its own: a<i>[s * elems + j] is lane s * step + elems * (thread of the warp) + j. f<i> combines two.
 * Complete chunks go to a stack k<i>, where equal blocks of 2^k chunks are combined, as a binary counter m<i> carries. At the end of the
 * row the blocks of each warp are folded, then those of the warps (each has 2^k chunks), then the lanes are halved by shuffles. A thread
 * that goes down a column has one lane.
 *
 * Absent elements count as the identity (-0.0 for sums), which changes no bits. Searches and integers need no order: each thread
 * has one value. A search has its index beside it, i<i>; the two results of one search (argmax and atmax) have one accumulator. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

typedef struct acc {
	uint32_t ins, i;         /* the REDUCE or PART; the first one of the same search, which names the accumulator: ins, if there is none */
	tj_dtype t;              /* of the operand */
	lo_red red;
	bool search, ordered, part;
	int sets, elems;         /* sizes of a<i> */
	int64_t lanes, chunk;    /* of the tree; lanes: of a row tree only. Not ordered: chunk 0 */
} acc;

static bool is_upward(const lo_ins *in) { return in->imm == LO_RED_ARGMAX || in->imm == LO_RED_ATMAX; }

static uint32_t first_search(const cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	for (uint32_t j = c->at->first; j < i; j++) {
		const lo_ins *x = &c->k->ins.v[j];
		if (x->op == in->op && x->imm >= LO_RED_ARGMAX && in->imm >= LO_RED_ARGMAX && x->src[0] == in->src[0] &&
		    is_upward(x) == is_upward(in))
			return j;
	}
	return i;
}

static acc acc_of(const cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	acc a = { .ins = i,
		  .i = first_search(c, i),
		  .t = (tj_dtype)c->k->ins.v[in->src[0]].dtype,
		  .red = (lo_red)in->imm,
		  .search = in->imm >= LO_RED_ARGMAX,
		  .part = in->op == LO_PART,
		  .sets = 1,
		  .elems = 1 };
	a.chunk = cu_chunk_of(c->k, in);
	a.ordered = a.chunk != 0;
	if (!a.ordered || c->shape.walk != CU_ROWS) return a;
	a.lanes = ir_tree_lanes(a.t);
	a.sets = (int)(a.lanes / c->shape.step);
	a.elems = c->shape.elems;
	return a;
}

#define EACH_RESULT(c, a)                                                                       \
	for (uint32_t i_ = (c)->at->first; i_ < (c)->at->first + (c)->at->count; i_++)              \
		for (bool once_ = (c)->k->ins.v[i_].op == LO_REDUCE || (c)->k->ins.v[i_].op == LO_PART; once_; once_ = false) \
			for (acc a = acc_of(c, i_); once_; once_ = false)
#define EACH_ACC(c, a) EACH_RESULT(c, a) if (a.ins == a.i)

/* ---- arithmetic ---- */
static void put_identity(rt_text *t, const acc *a) { cu_bits(t, a->t, lo_identity(a->red, a->t)); }

static void put_combine(rt_text *t, const acc *a, const char *x, const char *y)
{
	static const lo_op op[] = { [LO_RED_ADD] = LO_ADD, [LO_RED_MUL] = LO_MUL, [LO_RED_AND] = LO_AND, [LO_RED_OR] = LO_OR };
	const char sign = a->red == LO_RED_MAX ? '>' : '<';
	const char *const src[3] = { x, y, "" };
	if (a->red == LO_RED_MAX || a->red == LO_RED_MIN) {
		rt_putf(t, "(%s %c %s)", x, sign, y);
		if (rt_is_float(a->t)) rt_putf(t, " | (%s != %s)", x, x);
		rt_putf(t, " ? %s : %s", x, y);
	} else cu_prim(t, op[a->red], a->t, src);
}

/* "to = x op y;" as one line */
static void combine_line(cu *c, const acc *a, const char *to, const char *x, const char *y)
{
	cu_line(c, "%s = ", to);
	put_combine(c->out, a, x, y);
	rt_puts(c->out, ";\n");
}

static int size_of(const acc *a) { return a->sets * a->elems; }

static const char *upward(const cu *c, const acc *a) { return is_upward(&c->k->ins.v[a->i]) ? "true" : "false"; }

/* Takes the value and the index of another thread, `other` and `at`, if they are better. */
static void take_other(cu *c, const acc *a)
{
	const uint32_t i = a->i;
	if (a->search) cu_line(c, "if (at >= 0 && tj_beats<%s>(other, at, a%u[0], i%u)) a%u[0] = other, i%u = at;\n", upward(c, a), i, i, i, i);
	else {
		char here[24];
		snprintf(here, sizeof here, "a%u[0]", i);
		combine_line(c, a, here, here, "other");
	}
}

/* ---- the counter ---- */
/* Blocks on the stack of a thread, at most. */
static int levels(const cu *c, const acc *a)
{
	if (!a->ordered) return 0;
	int64_t mine = (c->shape.per ? c->shape.per : CU_MOST_PER) * (c->shape.chunk / a->chunk);
	const int64_t rows = a->chunk / c->shape.step;
	if (c->shape.per == 1 && mine * rows > c->shape.rows) mine = (c->shape.rows - 1) / rows + 1;
	int n = 0;
	while ((int64_t)1 << n < mine) n++;
	return n ? n + 1 : 0;
}

void cu_acc_begin(cu *c)
{
	EACH_ACC(c, a) {
		const char *type = cu_type(a.t);
		cu_line(c, "%s a%u[%d];\n", type, a.i, size_of(&a));
		if (a.search) cu_line(c, "long long i%u = -1;\n", a.i);
		cu_line(c, "const %s none%u = ", type, a.i);
		put_identity(c->out, &a), rt_puts(c->out, ";\n");
		cu_line(c, "tj_fill(a%u, none%u);\n", a.i, a.i);
		if (!a.ordered) continue;
		cu_line(c, "const auto f%u = [](%s x, %s y) { return ", a.i, type, type);
		put_combine(c->out, &a, "x", "y"), rt_puts(c->out, "; };\n");
		if (levels(c, &a)) cu_line(c, "%s k%u[%d][%d]; int m%u = 0;\n", type, a.i, levels(c, &a), size_of(&a), a.i);
	}
}

void cu_acc_update(cu *c, uint32_t i)
{
	acc a = acc_of(c, i);
	char to[48], v[16];
	if (a.ins != a.i) return;
	const uint32_t src = c->k->ins.v[i].src[0];
	snprintf(v, sizeof v, "v%u", src);
	if (a.search) {
		cu_line(c, "if (tj_beats<%s>(%s, r, a%u[0], i%u)) a%u[0] = %s, i%u = r;\n", upward(c, &a), v, i, i, i, v, i);
		return;
	}
	if (a.sets > 1) snprintf(to, sizeof to, "a%u[q %% %d * %d + j]", i, a.sets, a.elems);
	else snprintf(to, sizeof to, "a%u[%s]", i, a.elems > 1 ? "j" : "0");
	combine_line(c, &a, to, to, v);
}

static void flush(cu *c, const acc *a) { cu_line(c, "tj_carry(k%u, m%u, a%u, none%u, f%u);\n", a->i, a->i, a->i, a->i, a->i); }

/* A tree with smaller chunks than the loop's is flushed inside of it, every few rows of lanes. */
static bool flushes_inside(const cu *c, const acc *a) { return a->chunk < c->shape.chunk; }

void cu_acc_row(cu *c)
{
	EACH_ACC(c, a)
		if (levels(c, &a) && flushes_inside(c, &a)) {
			cu_line(c, "if ((y0 + q + 1) %% %lld == 0) ", (long long)(a.chunk / c->shape.step));
			flush(c, &a);
		}
}

void cu_acc_flush(cu *c)
{
	EACH_ACC(c, a)
		if (levels(c, &a) && !flushes_inside(c, &a)) flush(c, &a);
}

/* ---- the end of a pass ---- */
/* The thread's place among the slots of a warp, and the bytes of shared memory that a unit has of each kind; all columns of a block share
 * theirs. */
static const char *slot(const cu *c) { return c->shape.walk == CU_ROWS ? "lane" : "who"; }
static size_t all_units(const cu *c, size_t bytes) { return c->shape.walk == CU_ROWS ? bytes : bytes * (size_t)c->shape.units; }

static size_t stack_at(const cu *c, const acc *a)
{
	size_t n = 0;
	for (uint32_t i = c->at->first; i < a->i; i++) n += c->k->ins.v[i].op == LO_REDUCE || c->k->ins.v[i].op == LO_PART;
	return all_units(c, cu_join_bytes(&c->shape)) + n * all_units(c, cu_stack_bytes(&c->shape));
}

/* What is left on the stack of each warp, then all warps. */
static void fold(cu *c, const acc *a)
{
	if (levels(c, a)) cu_line(c, "tj_fold(k%u, m%u, a%u, f%u);\n", a->i, a->i, a->i, a->i);
	if (c->shape.warps > 1)
		cu_line(c, "tj_join<%d, %d>(a%u, (%s *)own, mine, %s, f%u);\n", c->shape.warps, c->shape.span, a->i, cu_type(a->t), slot(c),
		        a->i);
}

void cu_acc_pass(cu *c)
{
	EACH_ACC(c, a) {
		if (!a.ordered) continue;
		fold(c, &a);
		if (c->shape.per) continue;
		cu_line(c, "if (passes) {\n");
		cu_line(c, "if (mine == 0) tj_push<%d>(a%u, (%s *)(own + %zu), %s, pass, none%u, f%u);\n", c->shape.span, a.i, cu_type(a.t),
		        stack_at(c, &a), slot(c), a.i, a.i);
		cu_line(c, "else tj_fill(a%u, none%u);\n", a.i, a.i);
		cu_line(c, "m%u = 0;\n", a.i);
		cu_line(c, "}\n");
		cu_line(c,
		        "if (passes && mine == 0 && first + per * %d >= chunks) tj_pop<%d>(a%u, (const %s *)(own + %zu), %s, pass + 1, f%u);\n",
		        c->shape.warps, c->shape.span, a.i, cu_type(a.t), stack_at(c, &a), slot(c), a.i);
	}
	if (!c->shape.per) cu_line(c, "pass++;\n");
}

/* ---- the end of a row ---- */
static const char *shuffled(tj_dtype t) { return t == TJ_I64 || rt_is_float(t) ? cu_type(t) : "int"; }

/* Without order: the values of all threads of a row, then of the warps. The first thread of the unit has the result. */
static void gather(cu *c, const acc *a)
{
	const char *type = cu_type(a->t);
	const size_t indices = all_units(c, (size_t)c->shape.warps * sizeof(double));
	if (c->shape.walk == CU_ROWS) {
		cu_line(c, "TJ_UNROLL for (int h = %d; h >= 1; h /= 2) {\n", c->shape.span / 2);
		cu_line(c, "const %s other = (%s)tj_across((%s)a%u[0], h);\n", type, type, shuffled(a->t), a->i);
		if (a->search) cu_line(c, "const long long at = tj_across(i%u, h);\n", a->i);
		take_other(c, a);
		cu_line(c, "}\n");
	}
	if (c->shape.warps < 2) return;
	const char *one = c->shape.walk == CU_ROWS ? "lane == 0" : "true";
	char place[24] = "";
	if (c->shape.walk == CU_COLUMNS) snprintf(place, sizeof place, " * %d + who", c->shape.span);
	cu_line(c, "if (%s) ((%s *)own)[mine%s] = a%u[0]", one, type, place, a->i);
	if (a->search) rt_putf(c->out, ", ((long long *)(own + %zu))[mine%s] = i%u", indices, place, a->i);
	rt_puts(c->out, ";\n");
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "if (%s && mine == 0) TJ_ROLLED for (int h = 1; h < %d; h++) {\n", one, c->shape.warps);
	cu_line(c, "const %s other = ((%s *)own)[h%s];\n", type, type, place);
	if (a->search) cu_line(c, "const long long at = ((long long *)(own + %zu))[h%s];\n", indices, place);
	take_other(c, a);
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
}

/* Lanes of several sets are halved in registers, then those of the threads by shuffles: all threads of the first warp have the result. */
static void halve(cu *c, const acc *a)
{
	for (int n = a->sets / 2; n >= 1; n /= 2)
		cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) a%u[j] = f%u(a%u[j], a%u[j + %d]);\n", n * a->elems, a->i, a->i, a->i,
		        a->i, n * a->elems);
	cu_line(c, "a%u[0] = tj_halve<%d, %d>(a%u, f%u);\n", a->i, c->shape.span, a->elems, a->i, a->i);
}

/* From the first warp to all threads of the unit. */
static void spread(cu *c, const acc *a, tj_dtype t, const char *value)
{
	const char *type = cu_type(t), *place = c->shape.walk == CU_ROWS ? "0" : "who";
	if (c->shape.warps < 2) cu_line(c, "const %s v%u = %s;\n", type, a->ins, value);
	else {
		cu_line(c, "if (%smine == 0) ((%s *)own)[%s] = %s;\n", c->shape.walk == CU_ROWS ? "lane == 0 && " : "", type, place, value);
		cu_line(c, "__syncthreads();\n");
		cu_line(c, "const %s v%u = ((%s *)own)[%s];\n", type, a->ins, type, place);
		cu_line(c, "__syncthreads();\n");
	}
}

/* Here r numbers what all parts leave (LO_PART). */
static void store_part(cu *c, const acc *a, const char *value)
{
	const lo_ins *in = &c->k->ins.v[a->ins];
	if (!a->lanes) cu_line(c, "if (lead) { const ix r = part; *(");
	else {
		cu_line(c, "if (live && mine == 0) TJ_UNROLL for (int s = 0; s < %d; s++) TJ_UNROLL for (int j = 0; j < %d; j++) {\n", a->sets, a->elems);
		cu_line(c, "const ix r = part * %lldll + s * %lld + lane * %d + j;\n", (long long)a->lanes, (long long)c->shape.step, a->elems);
		cu_line(c, "*(");
	}
	cu_pointer(c, in);
	if (!a->lanes) rt_putf(c->out, ") = %s; }\n", value);
	else {
		rt_putf(c->out, ") = a%u[s * %d + j];\n", a->i, a->elems);
		cu_line(c, "}\n");
	}
}

void cu_acc_end(cu *c)
{
	EACH_RESULT(c, a) {
		char value[24];
		const bool index = lo_is_index(a.red);
		snprintf(value, sizeof value, index ? "i%u" : "a%u[0]", a.i);
		if (!a.ordered && a.ins == a.i) gather(c, &a);
		if (a.part) {
			store_part(c, &a, value);
			continue;
		}
		if (a.ordered && c->shape.walk == CU_ROWS) halve(c, &a);
		spread(c, &a, index ? TJ_I64 : a.t, value);
	}
}
