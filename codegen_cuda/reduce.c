/* reduce: accumulators in the fixed order of ir/tree.c.
 *
 * Each thread has lanes of the tree of its own: a<i>[s][j], lane s * step + elems * (thread of the warp) + j. Complete chunks go to
 * a stack k<i>, where equal blocks of 2^k chunks are combined, as a binary counter carries. At the end of the row the blocks of
 * each warp are folded, then those of the warps (each has 2^k chunks), then the lanes are halved by shuffles.
 *
 * Absent elements count as the identity (-0.0 for sums), which changes no bits. Searches and integers need no order: each thread
 * has one value. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

typedef struct acc {
	uint32_t i;              /* the REDUCE or PART */
	tj_dtype t;              /* of the operand */
	lo_red red;
	bool search, ordered, part;
	int sets, elems;         /* sizes of a<i> */
	int64_t lanes, chunk;    /* of the tree; lanes: of a row tree only. Not ordered: chunk 0 */
} acc;

static acc acc_of(const cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	acc a = { .i = i, .t = (tj_dtype)c->k->ins.v[in->src[0]].dtype, .red = (lo_red)in->imm, .search = in->imm >= LO_RED_ARGMAX, .part = in->op == LO_PART, .sets = 1, .elems = 1 };
	a.chunk = cu_chunk_of(c->k, in);
	a.ordered = a.chunk != 0;
	if (!a.ordered || !c->shape.rows) return a;
	a.lanes = ir_tree_lanes(a.t);
	a.sets = (int)(a.lanes / c->shape.step);
	a.elems = c->shape.elems;
	return a;
}

#define EACH_ACC(c, a)                                                                          \
	for (uint32_t i_ = (c)->at->first; i_ < (c)->at->first + (c)->at->count; i_++)              \
		for (bool once_ = (c)->k->ins.v[i_].op == LO_REDUCE || (c)->k->ins.v[i_].op == LO_PART; once_; once_ = false) \
			for (acc a = acc_of(c, i_); once_; once_ = false)

/* ---- arithmetic ---- */
static void put_identity(rt_text *t, const acc *a) { cu_bits(t, a->t, lo_identity(a->red, a->t)); }

static void put_combine(rt_text *t, const acc *a, const char *x, const char *y)
{
	static const lo_op op[] = { [LO_RED_ADD] = LO_ADD, [LO_RED_MUL] = LO_MUL, [LO_RED_AND] = LO_AND, [LO_RED_OR] = LO_OR };
	const char sign = a->red == LO_RED_MAX ? '>' : '<';
	const char *const src[3] = { x, y, "" };
	if (a->red == LO_RED_MAX || a->red == LO_RED_MIN) {
		rt_putf(t, "%s %c %s ", x, sign, y);
		if (rt_is_float(a->t)) rt_putf(t, "|| %s != %s ", x, x);
		rt_putf(t, "? %s : %s", x, y);
	} else cu_prim(t, op[a->red], a->t, src);
}

/* "to = x op y;" as one line */
static void combine_line(cu *c, const acc *a, const char *to, const char *x, const char *y)
{
	cu_line(c, "%s = ", to);
	put_combine(c->out, a, x, y);
	rt_puts(c->out, ";\n");
}

/* The head of a loop over the lanes of a thread, behind `when`. */
static void each_lane_if(cu *c, const acc *a, const char *when)
{
	cu_line(c, "%sTJ_UNROLL for (int s = 0; s < %d; s++) TJ_UNROLL for (int j = 0; j < %d; j++) {\n", when, a->sets, a->elems);
}

static void each_lane(cu *c, const acc *a) { each_lane_if(c, a, ""); }

static const char *upward(const acc *a) { return a->red == LO_RED_ARGMAX || a->red == LO_RED_ATMAX ? "true" : "false"; }

/* Takes the value and the index of another thread, `other` and `at`, if they are better. */
static void take_other(cu *c, const acc *a)
{
	const uint32_t i = a->i;
	if (a->search) cu_line(c, "if (at >= 0 && tj_beats<%s>(other, at, a%u[0][0], i%u)) a%u[0][0] = other, i%u = at;\n", upward(a), i, i, i, i);
	else {
		char here[24];
		snprintf(here, sizeof here, "a%u[0][0]", i);
		combine_line(c, a, here, here, "other");
	}
}

/* ---- the counter ---- */
/* Blocks on the stack of a thread, at most. */
static int levels(const cu *c, const acc *a)
{
	enum { STATIC = 31 };
	int64_t red = c->s->part ? c->s->part : c->k->red, warps = c->shape.rows ? c->shape.warps : 1;
	if (!a->ordered) return 0;
	if (lo_is_sym(red)) return STATIC;
	int64_t all = (red - 1) / a->chunk + 1, mine = (all - 1) / warps + 1;
	int n = 0;
	while ((int64_t)1 << n < mine) n++;
	return n ? n + 1 : 0;
}

static void put_reset(cu *c, const acc *a)
{
	each_lane(c, a);
	cu_line(c, "a%u[s][j] = ", a->i);
	put_identity(c->out, a);
	rt_puts(c->out, ";\n");
	cu_line(c, "}\n");
}

void cu_acc_begin(cu *c)
{
	EACH_ACC(c, a) {
		const char *type = cu_type(a.t);
		cu_line(c, "%s a%u[%d][%d];\n", type, a.i, a.sets, a.elems);
		if (a.search) cu_line(c, "long long i%u = -1;\n", a.i);
		if (levels(c, &a)) cu_line(c, "%s k%u[%d][%d][%d]; long long m%u = 0;\n", type, a.i, levels(c, &a), a.sets, a.elems, a.i);
		put_reset(c, &a);
	}
}

void cu_acc_update(cu *c, uint32_t i)
{
	acc a = acc_of(c, i);
	char to[48], v[16];
	const uint32_t src = c->k->ins.v[i].src[0];
	snprintf(v, sizeof v, "v%u", src);
	if (a.search) {
		cu_line(c, "if (tj_beats<%s>(%s, r, a%u[0][0], i%u)) a%u[0][0] = %s, i%u = r;\n", upward(&a), v, i, i, i, v, i);
		return;
	}
	if (a.sets > 1) snprintf(to, sizeof to, "a%u[y %% %d][j]", i, a.sets);
	else snprintf(to, sizeof to, "a%u[0][%s]", i, a.elems > 1 ? "j" : "0");
	combine_line(c, &a, to, to, v);
}

/* Called where a chunk of the widest tree ends; `y` is the number of the row of lanes in it. */
static void flush(cu *c, const acc *a)
{
	char here[40], at[40];
	snprintf(here, sizeof here, "a%u[s][j]", a->i);
	snprintf(at, sizeof at, "k%u[l][s][j]", a->i);
	each_lane(c, a);
	cu_line(c, "%s", levels(c, a) <= 6 ? "TJ_UNROLL " : "");
	rt_putf(c->out, "for (int l = 0; l < %d; l++) {\n", levels(c, a));
	c->indent++;
	cu_line(c, "if (!(m%u >> l & 1)) { %s = %s; break; }\n", a->i, at, here);
	combine_line(c, a, here, at, here);
	cu_line(c, "}\n");
	cu_line(c, "%s = ", here);
	put_identity(c->out, a);
	rt_puts(c->out, ";\n");
	cu_line(c, "}\n");
	cu_line(c, "m%u++;\n", a->i);
}

/* A tree with smaller chunks than the loop's is flushed inside of it, every few rows of lanes. */
static bool flushes_inside(const cu *c, const acc *a) { return c->shape.rows && a->chunk < c->shape.chunk; }

void cu_acc_row(cu *c)
{
	EACH_ACC(c, a) {
		if (!levels(c, &a) || !flushes_inside(c, &a)) continue;
		cu_line(c, "if ((y + 1) %% %lld == 0) {\n", (long long)(a.chunk / c->shape.step));
		flush(c, &a);
		cu_line(c, "}\n");
	}
}

void cu_acc_flush(cu *c)
{
	EACH_ACC(c, a)
		if (levels(c, &a) && !flushes_inside(c, &a)) flush(c, &a);
}

/* ---- the end of a row ---- */
/* Folds what is left on the stack, from the last block to the first. */
static void fold(cu *c, const acc *a)
{
	char here[40], at[40];
	snprintf(here, sizeof here, "a%u[s][j]", a->i);
	snprintf(at, sizeof at, "k%u[l][s][j]", a->i);
	if (!levels(c, a)) return;
	each_lane(c, a);
	cu_line(c, "%sfor (int l = 0; l < %d; l++)\n", levels(c, a) <= 6 ? "TJ_UNROLL " : "", levels(c, a));
	c->indent++;
	cu_line(c, "if (m%u >> l & 1) ", a->i);
	rt_putf(c->out, "%s = ", here);
	put_combine(c->out, a, at, here);
	rt_puts(c->out, ";\n");
	c->indent--;
	cu_line(c, "}\n");
}

static const char *shuffled(tj_dtype t) { return t == TJ_I64 || rt_is_float(t) ? cu_type(t) : "int"; }

/* a<i> of the other warps, pair by pair: the tree above blocks of 2^k chunks. */
static void join_warps(cu *c, const acc *a)
{
	char here[40], there[80];
	if (c->shape.warps < 2) return;
	snprintf(here, sizeof here, "a%u[s][j]", a->i);
	snprintf(there, sizeof there, "w%u[((mine + h) * %d + s) * %d + lane * %d + j]", a->i, a->sets, CU_WARP * a->elems, a->elems);
	cu_line(c, "%s *const w%u = (%s *)own;\n", cu_type(a->t), a->i, cu_type(a->t));
	cu_line(c, "TJ_UNROLL for (int h = 1; h < %d; h *= 2) {\n", c->shape.warps);
	each_lane_if(c, a, "if (mine % (2 * h) == h) ");
	cu_line(c, "w%u[(mine * %d + s) * %d + lane * %d + j] = %s;\n", a->i, a->sets, CU_WARP * a->elems, a->elems, here);
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
	each_lane_if(c, a, "if (mine % (2 * h) == 0) ");
	cu_line(c, "const %s other = %s;\n", cu_type(a->t), there);
	combine_line(c, a, here, here, "other");
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "}\n");
}

/* Lane l takes lane l + half, until one is left, in thread 0. */
static void halve(cu *c, const acc *a)
{
	char here[40], there[96];
	for (int64_t half = a->lanes / 2; half >= 1; half /= 2) {
		const int64_t step = c->shape.step;
		if (half >= step) {
			cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) {\n", a->elems);
			snprintf(here, sizeof here, "a%u[0][j]", a->i);
			snprintf(there, sizeof there, "a%u[%lld][j]", a->i, (long long)(half / step));
			combine_line(c, a, here, here, there);
		} else if (half >= a->elems) {
			cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) {\n", a->elems);
			snprintf(here, sizeof here, "a%u[0][j]", a->i);
			cu_line(c, "const %s other = (%s)__shfl_down_sync(~0u, (%s)%s, %lld);\n", cu_type(a->t), cu_type(a->t), shuffled(a->t), here, (long long)(half / a->elems));
			combine_line(c, a, here, here, "other");
		} else {
			cu_line(c, "TJ_UNROLL for (int j = 0; j < %lld; j++) {\n", (long long)half);
			snprintf(here, sizeof here, "a%u[0][j]", a->i);
			snprintf(there, sizeof there, "a%u[0][j + %lld]", a->i, (long long)half);
			combine_line(c, a, here, here, there);
		}
		cu_line(c, "}\n");
	}
}

/* Without order: the values of all threads of a warp, then of the warps. Thread 0 has the result. */
static void gather(cu *c, const acc *a)
{
	const char *type = cu_type(a->t);
	if (!c->shape.rows) return;
	cu_line(c, "TJ_UNROLL for (int h = %d; h >= 1; h /= 2) {\n", CU_WARP / 2);
	cu_line(c, "const %s other = (%s)__shfl_down_sync(~0u, (%s)a%u[0][0], h);\n", type, type, shuffled(a->t), a->i);
	if (a->search) cu_line(c, "const long long at = __shfl_down_sync(~0u, i%u, h);\n", a->i);
	take_other(c, a);
	cu_line(c, "}\n");
	if (c->shape.warps < 2) return;
	cu_line(c, "if (lane == 0) ((%s *)own)[mine] = a%u[0][0]", type, a->i);
	if (a->search) rt_putf(c->out, ", ((long long *)(own + %zu))[mine] = i%u", (size_t)c->shape.warps * 8, a->i);
	rt_puts(c->out, ";\n");
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "if (lane == 0 && mine == 0) for (int h = 1; h < %d; h++) {\n", c->shape.warps);
	cu_line(c, "const %s other = ((%s *)own)[h];\n", type, type);
	if (a->search) cu_line(c, "const long long at = ((long long *)(own + %zu))[h];\n", (size_t)c->shape.warps * 8);
	take_other(c, a);
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
}

/* From thread 0 to all threads of the unit. */
static void spread(cu *c, const acc *a, tj_dtype t, const char *value)
{
	const char *type = cu_type(t);
	if (!c->shape.rows) cu_line(c, "const %s v%u = %s;\n", type, a->i, value);
	else if (c->shape.warps < 2) cu_line(c, "const %s v%u = (%s)__shfl_sync(~0u, (%s)%s, 0);\n", type, a->i, type, shuffled(t), value);
	else {
		cu_line(c, "if (lane == 0 && mine == 0) *(%s *)own = %s;\n", type, value);
		cu_line(c, "__syncthreads();\n");
		cu_line(c, "const %s v%u = *(%s *)own;\n", type, a->i, type);
		cu_line(c, "__syncthreads();\n");
	}
}

static void store_part(cu *c, const acc *a)
{
	const lo_ins *in = &c->k->ins.v[a->i];
	if (!a->ordered || !c->shape.rows) {
		cu_line(c, "%s*(", c->shape.rows ? "if (lead) " : "");
		cu_part_pointer(c, in);
		rt_putf(c->out, " + part) = a%u[0][0];\n", a->i);
		return;
	}
	each_lane_if(c, a, c->shape.warps > 1 ? "if (mine == 0) " : "");
	cu_line(c, "*(");
	cu_part_pointer(c, in);
	rt_putf(c->out, " + part * %lldll + s * %lld + lane * %d + j) = a%u[s][j];\n", (long long)a->lanes, (long long)c->shape.step, a->elems, a->i);
	cu_line(c, "}\n");
}

void cu_acc_end(cu *c)
{
	EACH_ACC(c, a) {
		char value[24];
		fold(c, &a);
		if (a.ordered) join_warps(c, &a);
		if (a.ordered && !a.part && c->shape.rows) halve(c, &a);
		if (!a.ordered) gather(c, &a);
		if (a.part) {
			store_part(c, &a);
			continue;
		}
		const bool index = a.red == LO_RED_ARGMAX || a.red == LO_RED_ARGMIN;
		snprintf(value, sizeof value, index ? "i%u" : "a%u[0][0]", a.i);
		spread(c, &a, index ? TJ_I64 : a.t, value);
	}
}
