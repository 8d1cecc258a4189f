/* SPDX-License-Identifier: MIT */
/* fuzz: runs random valid graphs on every executor, and compares the results with the evaluator, bit for bit.
 *
 *   fuzz [-n graphs] [-s seed] [-w 512|256|128|all|rotate] [-d device] [-own] [-off pass|each] [-figures] [-modes] [-grad] [-api] [-sizes]
 * [-layers] [-rare] [-counts] [-dry] [-o folder] [-v]
 *
 * A graph has 1 to 40 ops (ten on average), inputs of ranks 0 to 6 and any layout, special values, run-time numbers. Several
 * graphs share one compile. Executors: the plan of the evaluator; LLVM at each width (rotate: at one width, another for each
 * compile), in one thread, and with the team and outputs that overwrite externals; LLVM without fusion. -off: LLVM without one
 * pass, or without each pass in turn. -figures: lowers for CPUs with other limits and figures. -modes: some nodes are fast; values
 * that depend on none of them are compared. -own: kernels compute the products of floats on a GPU, too. -grad: gradients are outputs, also
 * of loops (fuzz_loops.c). -sizes: runs each graph at several sizes, which share code. -api: random programs with cells, branches and ops
 * outside of compiled functions instead (fuzz_api.c); with -sizes, their calls differ in size; with -grad, they ask for gradients across
 * values that C has read (fuzz_reads.c).
 *
 * -layers: random programs of the functions that are made of ops instead (fuzz_layers.c); with -grad, with gradients.
 * -rare: most inputs of a graph are i8, or i16. -counts: prints how often each op had each dtype, and which of these pairs came up less
 * than 100 times in 100,000 graphs (fuzz_counts.c). -dry: only makes the graphs and counts them: 2,000 a second.
 *
 * Prints counts of what was run; a long run fails when they are not as expected. A failing graph is reduced to a few nodes
 * of small sizes, and written to a folder as a golden without expectations. `fuzz -n 1 -s SEED` runs it again. */
#include "test/fuzz.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 6, WORKERS = 2, PATIENCE_S = 120, MOST = 3000, LARGE = 20000, MOST_RESIZED = 300000, HELD_FROM = 500 };

fuzz_options fuzz_opt = { .n = 500, .seed = 1, .found = "test/fuzz-found" };

static const char *const pass_name[LO_PASS_COUNT] = {
#define X(name, text) text,
	LO_PASSES(X)
#undef X
};

/* Seconds for a batch. The CUDA that runs on the CPU compiles each kernel with the system's compiler. */
static unsigned patience(void) { return fuzz_opt.device ? 4 * PATIENCE_S : PATIENCE_S; }

/* ---- a random graph ---- */
static int64_t any_size(gen *G)
{
	static const int64_t s[] = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65 };
	static const int64_t large[] = { 129, 257, 1025, 2049, 4100, 5000 };
	if (gen_chance(G, 2)) return 0;
	if (G->most >= LARGE && gen_chance(G, 25)) return large[gen_below(G, RT_COUNT(large))];
	return gen_chance(G, 25) ? 1 : s[gen_below(G, RT_COUNT(s))];
}

static ir_ref any_input(gen *G, int rank)
{
	static const int ranks[] = { 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6 };
	static const tj_dtype types[] = { TJ_F32, TJ_F32, TJ_F32, TJ_F32, TJ_F64, TJ_I64, TJ_I32, TJ_U8, TJ_BOOL, TJ_F16, TJ_BF16 };
	int64_t dim[TJ_MAX_RANK], n = 1;
	if (rank < 0) rank = ranks[gen_below(G, RT_COUNT(ranks))];
	for (int i = 0; i < rank; i++) {
		dim[i] = any_size(G);
		if (n * dim[i] > G->most) dim[i] = 1 + gen_below(G, 3);
		if (n * dim[i] > G->most) dim[i] = 1;
		n *= dim[i] ? dim[i] : 1;
	}
	tj_dtype t = gen_chance(G, G->rare != TJ_BOOL ? 95 : 30) ? gen_dtype(G) : types[gen_below(G, RT_COUNT(types))];
	return rank && gen_chance(G, 6) ? gen_data(G, t, rank, dim) : gen_input_any(G, t, rank, dim);
}

static void add_value(gen *G, ir_ref r)
{
	if (!rt_push(&G->value, r)) abort();
}

/* Prefers recent values to old ones: that makes chains, which fuse. */
static ir_ref any_value(gen *G)
{
	uint32_t n = G->value.n, back = gen_chance(G, 65) && n > 3 ? 3 : n;
	return G->value.v[n - 1 - (uint32_t)gen_below(G, back)];
}

static bool usable(ir_op op)
{
	return !(fuzz_opt.api && ((ir_ops[op].flags & IR_RNG)));
}

/* An op applied to its own result, for the fold rules that look for such pairs. */
static ir_ref twice(gen *G)
{
	static const ir_op ops[] = { IR_neg, IR_logical_not, IR_bitwise_not, IR_flip, IR_permute, IR_transpose, IR_expand, IR_slice, IR_reshape,
		                         IR_cast, IR_unsqueeze, IR_squeeze };
	ir_op op = ops[gen_below(G, RT_COUNT(ops))];
	ir_ref r = gen_op(G, op, any_value(G)), again = r == IR_NONE ? r : gen_op(G, op, r);
	if (again != IR_NONE) add_value(G, r);
	return again != IR_NONE ? again : r;
}

static ir_ref any_op(gen *G)
{
	ir_ref two = gen_chance(G, 8) ? twice(G) : IR_NONE;
	if (two != IR_NONE) return two;
	for (int tries = 0; tries < 30; tries++) {
		ir_op op = (ir_op)gen_below(G, IR_OPS);
		if (!usable(op)) continue;
		ir_ref first = any_value(G);
		if (G->rare != TJ_BOOL && gen_chance(G, 50)) add_value(G, first = any_input(G, -1)); /* ops on floats leave few values of this dtype */
		ir_ref r = gen_op(G, op, first);
		for (int again = 0; r == IR_NONE && again < 6; again++) {
			ir_ref x = again < 2 ? any_value(G) : any_input(G, again == 4 || again == 5 ? 2 : -1);
			r = gen_op(G, op, x);
			if (r != IR_NONE && again >= 2) add_value(G, x);
		}
		if (r != IR_NONE) return r;
	}
	return IR_NONE;
}

static int how_many(gen *G)
{
	int most = fuzz_opt.api && fuzz_opt.sizes ? 7 : 17; /* each program runs with several signatures: keep it small, to run more of them */
	return gen_chance(G, 5) ? 20 + (int)gen_below(G, 21) : 1 + (int)gen_below(G, most);
}

/* A row-major input of which each element of an output of its size reads two: the output must not overwrite it. */
static void beside_itself(gen *G)
{
	static const ir_op views[] = { IR_flip, IR_transpose, IR_flip, IR_softmax, IR_relu };
	int64_t n = 2 + gen_below(G, 22), dim[2] = { n, n };
	int layout = G->layout;
	G->layout = GEN_ROW;
	ir_ref x = gen_input(G, TJ_F32, 2, dim, GEN_PLAIN, 0, 0), was = x;
	G->layout = layout;
	x = gen_op(G, views[gen_below(G, RT_COUNT(views))], x);
	if (x != IR_NONE) gen_join(G, gen_chance(G, 50) ? IR_sub : IR_mul, x, was);
}

/* The same ops on many slices of an input, each with its own numbers: kernels that may share code. */
static void many_alike(gen *G)
{
	static const ir_op ops[] = { IR_exp, IR_neg, IR_sum, IR_argmax, IR_softmax };
	int64_t dim[2] = { 18 + gen_below(G, 20), 1 + gen_below(G, 9) };
	ir_op op = ops[gen_below(G, RT_COUNT(ops))];
	ir_ref x = gen_input(G, gen_chance(G, 80) ? TJ_F32 : TJ_I32, 2, dim, GEN_PLAIN, 0, 0);
	for (int k = 18 + (int)gen_below(G, 10); k > 0; k--) {
		ir_ref r = gen_op(G, IR_slice, x);
		if (r != IR_NONE && gen_chance(G, 70)) r = gen_join(G, IR_add, r, gen_number(G, false, false));
		if (r != IR_NONE) gen_op(G, op, r);
	}
}

/* -grad: a small network. Its gradient reads late, behind products, what was computed early: kernels compute such values again, or store
 * them again. */
static void layers(gen *G)
{
	static const ir_op points[] = { IR_tanh, IR_sigmoid, IR_gelu, IR_relu, IR_erf, IR_silu, IR_square, IR_sin, IR_softplus, IR_abs },
			   joins[] = { IR_mul, IR_add, IR_sub, IR_maximum };
	static const tj_dtype types[] = { TJ_F32, TJ_F32, TJ_F32, TJ_F64, TJ_BF16, TJ_F16 };
	const tj_dtype t = types[gen_below(G, RT_COUNT(types))];
	const int64_t x[2] = { 1 + gen_below(G, 40), 2 + gen_below(G, 20) }, w[2] = { x[1], x[1] };
	ir_ref h = gen_input(G, t, 2, x, GEN_PLAIN, 0, 0), was = h, weight = gen_input(G, t, 2, w, GEN_PLAIN, 0, 0);
	for (int k = 2 + (int)gen_below(G, 4); k > 0 && h != IR_NONE && weight != IR_NONE; k--) {
		h = gen_join(G, IR_matmul, h, weight);
		for (int i = (int)gen_below(G, 3); i > 0 && h != IR_NONE; i--) h = gen_op(G, points[gen_below(G, RT_COUNT(points))], h);
		if (h != IR_NONE && gen_chance(G, 40))
			h = gen_join(G, joins[gen_below(G, RT_COUNT(joins))], h, gen_chance(G, 70) ? was : gen_number(G, false, false));
		if (h != IR_NONE && gen_chance(G, 15)) gen_op(G, IR_slice, h); /* a part is an output */
		if (gen_chance(G, 40)) was = h;
		if (gen_chance(G, 30)) weight = gen_input(G, t, 2, w, GEN_PLAIN, 0, 0);
	}
}

/* -grad: the sum of all outputs from `out` on that are floats, differentiated by all inputs from `slot` on that are floats. The gradients
 * become outputs; mostly the values do not stay outputs. */
static void differentiate(gen *G, uint32_t out, uint32_t slot)
{
	ir_graph *g = G->g;
	rt_vec(ir_ref) wrt = { 0 };
	ir_ref y = IR_NONE;
	for (ir_ref r = 0; r < g->node.n; r++)
		if (ir_at(g, r)->op == IR_input && ir_attr(g, ir_at(g, r))[0] >= slot && rt_is_float((tj_dtype)ir_at(g, r)->dtype) &&
		    !rt_push(&wrt, r))
			abort();
	for (uint32_t i = out; i < g->out.n; i++) {
		ir_ref r = g->out.v[i];
		if (!rt_is_float((tj_dtype)ir_at(g, r)->dtype)) continue;
		const int rank = ir_at(g, r)->rank;
		r = ir_cast(g, r, ir_at(g, r)->dtype == TJ_F64 ? TJ_F64 : TJ_F32, NULL);
		if (rank) r = ir_reduce(g, IR_sum, r, (1u << rank) - 1, false, NULL);
		y = y == IR_NONE ? r : ir_op2(g, IR_add, y, r, NULL);
	}
	ir_ref *grad = calloc(wrt.n + 1, sizeof *grad);
	if (!grad) abort();
	if (y != IR_NONE && wrt.n) {
		if (!ir_grad(g, &(ir_grad_ask){ .y = y, .cotangent = IR_NONE, .n = (int)wrt.n, .wrt = wrt.v, .zeros = true, .site = "fuzz.c:1" }, grad)) {
			fprintf(stderr, "%s: %s\n", g->err.op, g->err.message);
			abort();
		}
		if (gen_chance(G, 70)) g->out.n = out;
		for (uint32_t i = 0; i < wrt.n; i++) {
			const ir_meta a = ir_meta_of(g, wrt.v[i]), b = ir_meta_of(g, grad[i]);
			if (a.dtype != b.dtype || a.rank != b.rank || b.weak || memcmp(a.dim, b.dim, sizeof *a.dim * a.rank)) abort();
			ir_ret(g, grad[i]);
		}
	}
	free(grad);
	rt_vec_free(&wrt);
}

void fuzz_graph(gen *G, uint64_t seed)
{
	uint32_t first = G->step.n, slot = G->slot.n, out = G->g->out.n;
	G->rng = seed * 0x2545F4914F6CDD1Du + 99;
	G->value.n = 0;
	if (fuzz_opt.rare) G->rare = seed % 2 ? TJ_I8 : TJ_I16;
	if (!fuzz_opt.api) G->most = seed % 12 == 5 ? LARGE : MOST;
	G->spread = seed % 3 ? 4 : 15;
	if (!fuzz_opt.api && seed % 4 == 1) G->zeros = true; /* stays true for the rest of the batch, which does no harm */
	for (int k = 1 + (int)gen_below(G, 3); k > 0; k--) add_value(G, any_input(G, -1));
	for (int k = how_many(G); k > 0; k--) {
		G->g->mode = fuzz_opt.modes && gen_chance(G, 15) ? IR_FAST : 0;
		ir_ref r = any_op(G);
		if (r != IR_NONE) add_value(G, r);
	}
	G->g->mode = 0;
	if (gen_chance(G, 20)) beside_itself(G);
	if (!fuzz_opt.api && gen_chance(G, 3)) many_alike(G);
	if (fuzz_opt.grad && !fuzz_opt.api && gen_chance(G, 20)) layers(G);
	for (uint32_t i = first; i < G->step.n; i++) {
		ir_ref r = G->step.v[i].result;
		bool used = false;
		if (gen_is_tuple(G, &G->step.v[i])) continue;
		for (uint32_t k = i + 1; k < G->step.n; k++)
			for (int s = 0; s < G->step.v[k].nsrc; s++) used |= G->step.v[k].src[s] == r;
		if (!used || gen_chance(G, 15)) ir_ret(G->g, r);
	}
	if (fuzz_opt.grad && !fuzz_opt.device && !fuzz_opt.sizes && gen_chance(G, 20)) fuzz_loop(G, G->value.v[gen_below(G, G->value.n)]);
	if (fuzz_opt.grad) differentiate(G, out, slot);
}

/* ---- executors ---- */
typedef struct executor { char name[48]; gen_how how; int width; } executor;

static int widths_run(void) { return fuzz_opt.rotate ? 1 : fuzz_opt.nwidth; }

/* The same graph with each requested pass left out. */
static int executors(void) { return fuzz_opt.device ? 3 : fuzz_opt.llvm ? 2 + 2 * widths_run() + __builtin_popcount(fuzz_opt.off) : 1; }

static int nth_pass(int n)
{
	for (int i = 0; i < LO_PASS_COUNT; i++)
		if (fuzz_opt.off >> i & 1 && n-- == 0) return i;
	return 0;
}

static int width_of(uint64_t seed) { return fuzz_opt.width[seed / BATCH % (uint64_t)fuzz_opt.nwidth]; }

/* The CPU with other limits and figures, mostly small ones: kernels and schedules differ then, results must not. */
static const lo_target *other_cpu(uint64_t seed)
{
	enum { TARGETS = 16 };
	static lo_target target[TARGETS];
	uint64_t which = seed / BATCH % TARGETS, r = rt_hash(&which, sizeof which, 1);
	lo_target *t = &target[which];
	if (t->name) return t;
	*t = *fuzz_opt.llvm;
	t->weight = 8 << (r & 3);
	t->members = 2 << (r >> 2 & 3);
	t->redundant = (int)(r >> 4 & 7);
	t->few_rows = 1 << (r >> 7 & 7);
	t->long_row = 16 << (r >> 10 & 7);
	t->split_row = 64 << (r >> 13 & 7);
	t->few_columns = 1 << (r >> 16 & 7);
	t->split_column = 64 << (r >> 13 & 3);
	t->far_step = 2 << (r >> 16 & 3);
	t->transposed = 16 << (r >> 18 & 7);
	t->kept_bytes = r >> 21 & 3 ? 64 << (r >> 22 & 15) : 0;
	t->kept_rows = 8 << (r >> 26 & 3);
	t->unit_bytes = 64 << (r >> 28 & 7);
	t->unit_ns = 10 << (r >> 31 & 7);
	t->lanes = 1 << (r >> 34 & 7);
	t->tile_rows = 16 << (r >> 37 & 3);
	t->parts = 1 + (int64_t)(r >> 39 & 7);
	t->least_chunks = 1 << (r >> 42 & 1);
	t->most_chunks = t->least_chunks << (r >> 43 & 3);
	t->strip_elems = 1 << (r >> 45 & 15);
	t->far_elems = t->strip_elems << (r >> 49 & 7);
	t->far_bytes = 256 << (r >> 52 & 15);
	t->again_after = (int)(r >> 56 & 3);
	t->stored_after = (int)(r >> 60 & 3);
	t->again_bytes = 16 << (r >> 58 & 15);
	t->again_work = 3 << (r >> 62);
	t->least_part = 1 << (which & 3);
	t->least_border = 1 << (which & 7);
	t->least_axis = 2 << (which & 1);
	return t;
}

/* The CPU, on which values of few elements are taken apart and cut at borders, too: graphs here are small. */
static const lo_target *cut_cpu(void)
{
	static lo_target target;
	if (target.name) return &target;
	target = *fuzz_opt.llvm;
	target.least_part = 1, target.least_border = 16, target.least_axis = 3;
	return &target;
}

/* 0: the evaluator's plan; then LLVM without fusion; then each width, in one thread and by the team; then without passes. */
static executor executor_at(int i, uint64_t seed)
{
	executor e = { .name = "eval" };
	int pass = i - 2 - 2 * widths_run();
	if (i == 0) return e;
	e.how.target = fuzz_opt.figures ? other_cpu(seed) : fuzz_opt.llvm && seed / BATCH % 2 ? cut_cpu() : fuzz_opt.llvm;
	if (fuzz_opt.device) {
		e.how.device = gen_device(fuzz_opt.device);
		if (i == 2) e.how.off = LO_OFF(FUSE);
		snprintf(e.name, sizeof e.name, "%.30s%s", fuzz_opt.device, i == 2 ? " unfused" : "");
		return e;
	}
	e.width = i == 1 || pass >= 0 || fuzz_opt.rotate ? width_of(seed) : fuzz_opt.width[(i - 2) / 2];
	if (i == 1) e.how.off = LO_OFF(FUSE);
	if (pass >= 0) e.how.off = (uint16_t)(1u << nth_pass(pass));
	e.how.team = i > 1 && pass < 0 && i % 2;
	e.how.in_place = e.how.team || pass >= 0;
	snprintf(e.name, sizeof e.name, "llvm%d%s%s%s", e.width, i == 1 ? " unfused" : "", pass >= 0 ? " without " : "",
	         pass >= 0 ? pass_name[nth_pass(pass)] : e.how.team ? " team, in place" : "");
	return e;
}

/* The team runs every other batch: it shares the code of the serial run, but compiles it again. */
static bool skipped(const executor *e, uint64_t seed) { return e->how.team && seed / BATCH % 2 != 0; }

/* What went wrong in a graph on an executor; "" if nothing did. */
static void check_on(gen *G, const executor *e, rt_text *why)
{
	gen_out got, want;
	gen_how how = e->how;
	rt_err err = { 0 };
	uint32_t bad;
	char lib[200];
	char width[16];
	snprintf(width, sizeof width, "%d", e->width);
	if (e->width) setenv("TJ_CPU", width, 1);
	bool *inexact = malloc(G->g->node.n + 1);
	if (!inexact || !gen_out_new(&got, G->g) || !gen_out_new(&want, G->g)) abort();
	ir_inexact(G->g, inexact);
	how.int_div_zero = G->zeros;
	tj_status st = gen_run(G, &how, &got, &err);
	if (st != TJ_OK) rt_putf(why, "%s: %s: %s", e->name, err.op ? err.op : "?", err.message);
	else if ((st = gen_oracle(G, G->zeros, &got, &want, &err)) != TJ_OK)
		rt_putf(why, "evaluator: %s: %s", err.op ? err.op : "?", err.message);
	else if (!gen_margins_ok(&got, &bad)) rt_putf(why, "%s: output %u: writes outside of its destination", e->name, bad);
	else if (!gen_lib_ok(G, &got, lib, sizeof lib)) rt_putf(why, "%s: %s", e->name, lib);
	for (uint32_t i = 0; st == TJ_OK && !why->n && i < got.n; i++) {
		ir_ref r = G->g->out.v[i];
		int64_t at = 0;
		tj_dtype t = (tj_dtype)ir_at(G->g, r)->dtype;
		if (inexact[r]) continue;
		if (gen_same(t, want.data[i], got.data[i], ir_numel(G->g, r), &at)) continue;
		rt_putf(why, "%s: output %u (%%%u %s), element %lld is ", e->name, i, r, ir_ops[ir_at(G->g, r)->op].name, (long long)at);
		gen_put_element(why, t, got.data[i], at);
		rt_puts(why, ", the evaluator has ");
		gen_put_element(why, t, want.data[i], at);
	}
	free(inexact);
	gen_out_free(&got);
	gen_out_free(&want);
}

/* ---- other sizes ---- */
/* The live graph with `to` for each size `from`, and new contents of inputs; false if the ops do not allow these sizes. */
static bool resized(gen *G, int64_t from, int64_t to, ir_graph *out)
{
	ir_graph *g = G->g;
	ir_ref *map = calloc(g->node.n + 1, sizeof *map), src[64];
	bool *live = calloc(g->node.n + 1, sizeof *live), ok = map && live;
	int layout = G->layout;
	if (ok) ir_live(g, live);
	ir_graph_init(out);
	G->g = out;
	for (ir_ref r = 0; ok && r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		int64_t attr[3 * TJ_MAX_RANK];
		ir_meta m = ir_meta_of(g, r);
		if (!live[r]) continue;
		for (int i = 0; i < m.rank; i++)
			if (m.dim[i] == from) m.dim[i] = to;
		if (n->op == IR_input) {
			const gen_slot *s = &G->slot.v[ir_attr(g, n)[0]];
			G->layout = GEN_ROW;
			map[r] = gen_input(G, (tj_dtype)m.dtype, m.rank, m.dim, s->content, s->lo, s->hi < to ? s->hi : to - 1);
			continue;
		}
		bool same = m.rank == n->rank && !memcmp(m.dim, ir_dims(g, n), m.rank * sizeof *m.dim);
		ok = n->nsrc < RT_COUNT(src) && (same || (n->op != IR_data && n->op != IR_const));
		for (int k = 0; ok && k < n->nsrc; k++) src[k] = map[ir_src(g, n, k)];
		for (int k = 0; k < n->nattr; k++) attr[k] = ir_attr(g, n)[k] == from ? to : ir_attr(g, n)[k];
		if (ok) map[r] = n->op < IR_OPS ? ir_emit(out, (ir_op)n->op, n->nsrc, src, n->nattr, attr, n->site) : ir_copy(out, g, r, src);
		ok = ok && map[r] != IR_NONE && ir_numel(out, map[r]) <= MOST_RESIZED; /* 2^n elements of axes of 2 may be 72^n */
	}
	for (uint32_t i = 0; ok && i < g->out.n; i++) ok = ir_ret(out, map[g->out.v[i]]);
	G->g = g;
	G->layout = layout;
	free(map);
	free(live);
	return ok;
}

/* A size of the graph's inputs; 0: there is none to change. */
static int64_t some_size(gen *G)
{
	for (int tries = 0; tries < 20; tries++) {
		const ir_node *n = ir_at(G->g, (ir_ref)gen_below(G, G->g->node.n));
		int64_t d = n->rank ? ir_dims(G->g, n)[gen_below(G, n->rank)] : 0;
		if (n->op == IR_input && d > 1) return d;
	}
	return 0;
}

/* False: an index that was in range is out of range at this size. */
static bool valid(gen *G)
{
	gen_out o;
	rt_err err = { 0 };
	if (!gen_out_new(&o, G->g)) abort();
	bool ok = gen_oracle(G, G->zeros, NULL, &o, &err) == TJ_OK;
	gen_out_free(&o);
	return ok;
}

/* Runs the graph, then the graph at other sizes, with the code of one family; the last time every size is a symbol. */
static void check_sizes(gen *G, uint64_t seed, fuzz_mix *mix, rt_text *why)
{
	enum { ROUNDS = 6 };
	executor e = executor_at(2, seed);
	for (int all = 0; all < 2 && !why->n; all++) {
		e.how.family = lo_family_new();
		e.how.symbols = all;
		if (!e.how.family) abort();
		check_on(G, &e, why);
		for (int k = 0; k < (all ? 1 : ROUNDS) && !why->n; k++) {
			ir_graph other, *was = G->g;
			int64_t from = some_size(G), to = gen_chance(G, 10) ? gen_below(G, 2) : 2 + gen_below(G, 70);
			if (!from) break;
			bool made = resized(G, from, to, &other);
			G->g = &other;
			if (made && valid(G)) {
				check_on(G, &e, why);
				if (why->n) rt_putf(why, " (size %lld as %lld)", (long long)from, (long long)to);
				mix->resized++;
			}
			G->g = was;
			ir_graph_free(&other);
		}
		lo_family_count n = lo_family_counts(e.how.family);
		mix->compiled += n.compiled;
		mix->shared += n.shared;
		lo_family_free(e.how.family);
	}
}

static void check_all(gen *G, uint64_t seed, rt_text *why)
{
	if (G->step.n && !gen_folds_ok(G, why)) return;
	gen_keep_lib(G);
	if (fuzz_opt.sizes) {
		check_sizes(G, seed, &(fuzz_mix){ 0 }, why);
		return;
	}
	for (int e = 0; e < executors() && !why->n; e++) {
		executor x = executor_at(e, seed);
		if (!skipped(&x, seed)) check_on(G, &x, why);
	}
}

/* ---- children: a crash is a failure like another ---- */
/* Graphs with such inputs alone, so that the plan may overwrite them: ops that may fault would forbid it. */
static void check_in_place(uint64_t seed, rt_text *why)
{
	gen G;
	ir_graph g;
	executor e = executor_at(1 + 2 * widths_run(), seed);
	gen_init(&G, &g, seed);
	G.most = MOST;
	for (int i = 0; i < 6; i++) beside_itself(&G);
	for (uint32_t i = 0; i < G.step.n; i++)
		if (i + 1 == G.step.n || G.step.v[i + 1].src[0] != G.step.v[i].result) ir_ret(&g, G.step.v[i].result);
	e.how.in_place = true;
	check_on(&G, &e, why);
	gen_free(&G);
}

typedef struct fuzz_child { pid_t pid; int fd; uint64_t seed; int n; } fuzz_child;

static int open_result(void)
{
	int fd = memfd_create("fuzz", 0);
	if (fd >= 0) return fd;
	perror("fuzz");
	exit(2);
}

/* Runs f in a child process; gives its verdict, or how the child died. */
fuzz_verdict fuzz_in_child(void (*f)(void *env, rt_text *why), void *env)
{
	fuzz_verdict v = { 0 };
	int fd = open_result(), status = 0;
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		rt_text why = { 0 };
		alarm(patience());
		f(env, &why);
		v.ok = !why.n;
		snprintf(v.why, sizeof v.why, "%s", rt_str(&why));
		_exit(write(fd, &v, sizeof v) != (ssize_t)sizeof v);
	}
	waitpid(pid, &status, 0);
	if (pread(fd, &v, sizeof v, 0) != (ssize_t)sizeof v) {
		v.ok = false;
		int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		snprintf(v.why, sizeof v.why, "%s", sig == SIGALRM ? "does not end" : sig ? strsignal(sig) : "exits");
	}
	close(fd);
	return v;
}

/* ---- cutting a failing graph down ---- */
typedef struct subject { gen *G; uint64_t seed; } subject;

static void check_subject(void *env, rt_text *why)
{
	subject *s = env;
	check_all(s->G, s->seed, why);
}

/* Two values that differ, or the same report: cutting must not lead to another failure. */
static bool same_kind(const char *a, const char *b)
{
	bool x = strstr(a, ", element "), y = strstr(b, ", element ");
	return x == y && (x || !strncmp(a, b, strcspn(a, "0123456789")));
}

/* The cut graph still fails as `why` says; `why` is empty at first. */
static bool fails(gen *G, uint64_t seed, char *why, size_t size)
{
	uint32_t nout = G->g->out.n;
	fuzz_verdict v = fuzz_in_child(check_subject, &(subject){ G, seed });
	G->g->out.n = nout;
	if (v.ok || (*why && !same_kind(why, v.why))) return false;
	snprintf(why, size, "%s", v.why);
	return true;
}

/* The shortest prefix of nodes that fails when its last node is the only output. */
static bool one_output(gen *G, uint64_t seed, char *why, size_t size)
{
	rt_vec(ir_ref) old = { 0 };
	for (uint32_t i = 0; i < G->g->out.n; i++)
		if (!rt_push(&old, G->g->out.v[i])) abort();
	for (ir_ref r = 0; r < G->g->node.n; r++) {
		const ir_node *n = ir_at(G->g, r);
		if ((n->op >= IR_OPS && n->op != IR_get) || n->weak || ir_is_tuple(n)) continue;
		G->g->out.n = 0;
		ir_ret(G->g, r);
		if (fails(G, seed, why, size)) return rt_vec_free(&old), true;
	}
	G->g->out.n = 0;
	for (uint32_t i = 0; i < old.n; i++) ir_ret(G->g, old.v[i]);
	rt_vec_free(&old);
	return false;
}

/* Drops outputs that the failure does not need. */
static void fewer_outputs(gen *G, uint64_t seed, char *why, size_t size)
{
	for (uint32_t i = 0; i < G->g->out.n && G->g->out.n > 1;) {
		ir_ref r = G->g->out.v[i], last = G->g->out.v[G->g->out.n - 1];
		G->g->out.v[i] = last;
		G->g->out.n--;
		if (fails(G, seed, why, size)) continue;
		G->g->out.v[i++] = r;
		G->g->out.v[G->g->out.n++] = last;
	}
}

/* The graph with node `cut` replaced by an input that holds its value from the evaluator. */
static bool replace(gen *G, ir_ref cut, ir_graph *to)
{
	ir_graph *g = G->g;
	ir_meta m = ir_meta_of(g, cut);
	ir_ref *map = calloc(g->node.n + 1, sizeof *map), src[64];
	bool *live = calloc(g->node.n + 1, sizeof *live), ok = map && live;
	gen_out o = { 0 };
	rt_err err = { 0 };
	uint32_t nout = g->out.n;
	int layout = G->layout;
	ir_ret(g, cut);
	ok = ok && gen_out_new(&o, g) && gen_oracle(G, G->zeros, NULL, &o, &err) == TJ_OK;
	g->out.n = nout;
	ir_live(g, live);
	ir_graph_init(to);
	G->layout = GEN_ROW;
	G->g = to;
	for (ir_ref r = 0; ok && r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		map[r] = IR_NONE;
		if (!live[r]) continue;
		if (r == cut) {
			map[r] = gen_input(G, (tj_dtype)m.dtype, m.rank, m.dim, GEN_PLAIN, 0, 0);
			if (o.bytes[nout]) memcpy(G->slot.v[G->slot.n - 1].data, o.data[nout], (size_t)o.bytes[nout]);
			continue;
		}
		ok = n->nsrc < RT_COUNT(src);
		for (int k = 0; ok && k < n->nsrc; k++) src[k] = map[ir_src(g, n, k)];
		if (ok) map[r] = ir_copy(to, g, r, src);
	}
	for (uint32_t i = 0; ok && i < nout; i++) ok = ir_ret(to, map[g->out.v[i]]);
	G->g = g;
	G->layout = layout;
	gen_out_free(&o);
	free(map);
	free(live);
	return ok;
}

static void cut_operands(gen *G, uint64_t seed, char *why, size_t size)
{
	for (ir_ref r = G->g->node.n; r-- > 0;) {
		ir_graph to, *was = G->g;
		if (r >= was->node.n || (ir_at(was, r)->op >= IR_OPS && ir_at(was, r)->op != IR_get) || ir_at(was, r)->weak ||
		    ir_is_tuple(ir_at(was, r)))
			continue;
		bool is_out = false, *live = calloc(was->node.n, sizeof *live);
		if (!live) abort();
		for (uint32_t i = 0; i < was->out.n; i++) is_out |= was->out.v[i] == r;
		ir_live(was, live);
		bool try = !is_out && live[r] && replace(G, r, &to);
		free(live);
		if (is_out || !try) continue;
		G->g = &to;
		bool still = fails(G, seed, why, size);
		G->g = was;
		if (!still) {
			ir_graph_free(&to);
			continue;
		}
		ir_graph_free(was);
		*was = to;
	}
}

/* ---- smaller sizes ---- */
static bool shrink(gen *G, int64_t from, int64_t to, uint64_t seed, char *why, size_t size)
{
	ir_graph small, *was = G->g;
	bool still = resized(G, from, to, &small);
	G->g = &small;
	still = still && fails(G, seed, why, size);
	G->g = was;
	if (!still) return ir_graph_free(&small), false;
	ir_graph_free(was);
	*was = small;
	return true;
}

/* Makes each size as small as the failure allows: tries 1, 2, 3, half of it, one less. */
static void shrink_sizes(gen *G, uint64_t seed, char *why, size_t size)
{
	for (int64_t d = 6000; d > 1; d--) {
		bool used = false;
		for (ir_ref r = 0; r < G->g->node.n; r++)
			for (int i = 0; i < ir_at(G->g, r)->rank; i++) used |= ir_dims(G->g, ir_at(G->g, r))[i] == d;
		const int64_t to[] = { 1, 2, 3, d / 2, d - 1 };
		for (size_t k = 0; used && k < RT_COUNT(to); k++)
			if (to[k] < d && shrink(G, d, to[k], seed, why, size)) break;
	}
}

static void write_found(const gen *G, const char *name, uint64_t seed, const char *why)
{
	rt_text t = { 0 };
	char path[512];
	rt_putf(&t, "# run: decomp,kernels\n# fuzz%s%s%s%s -n 1 -s %llu\n# ", fuzz_opt.figures ? " -figures" : "",
	        fuzz_opt.modes ? " -modes" : "", fuzz_opt.rare ? " -rare" : "", fuzz_opt.grad ? " -grad" : "", (unsigned long long)seed);
	for (const char *s = why; *s; s++) rt_putf(&t, *s == '\n' ? "\n# " : "%c", *s);
	rt_puts(&t, "\n");
	ir_print(G->g, &t);
	for (ir_ref r = 0; r < G->g->node.n; r++) {
		const ir_node *n = ir_at(G->g, r);
		if (n->op != IR_input || ir_numel(G->g, r) > 64) continue;
		const gen_slot *s = &G->slot.v[ir_attr(G->g, n)[0]];
		void *values = gen_flat(s);
		rt_putf(&t, "# slot %lld:", (long long)ir_attr(G->g, n)[0]);
		for (int64_t i = 0; values && i < ir_numel(G->g, r); i++) {
			rt_puts(&t, " ");
			gen_put_element(&t, (tj_dtype)s->meta.dtype, values, i);
		}
		free(values);
		rt_puts(&t, "\n");
	}
	for (uint32_t i = 0; i < G->num.n; i++) {
		double d;
		memcpy(&d, &G->num.v[i], sizeof d);
		rt_putf(&t, "# num %u: %a or %lld\n", i, d, (long long)G->num.v[i]);
	}
	mkdir(fuzz_opt.found, 0777);
	snprintf(path, sizeof path, "%s/%s.tj", fuzz_opt.found, name);
	FILE *f = fopen(path, "w");
	if (f) {
		fputs(rt_str(&t), f);
		fclose(f);
	}
	if (fuzz_opt.verbose) fputs(rt_str(&t), stdout);
	rt_text_free(&t);
}

/* Tests one graph alone; false: it fails. */
static bool alone(uint64_t seed)
{
	if (fuzz_opt.layers) return fuzz_layers_alone(seed);
	if (fuzz_opt.api) return fuzz_opt.grad ? fuzz_reads_alone(seed) : fuzz_api_alone(seed);
	gen G;
	ir_graph g, dce;
	rt_err err = { 0 };
	char why[700] = "", name[64];
	gen_init(&G, &g, seed);
	fuzz_graph(&G, seed);
	bool bad = fails(&G, seed, why, sizeof why);
	if (bad) {
		printf("FAIL seed %llu: %s\n", (unsigned long long)seed, why);
		if (strncmp(why, "simplified", 10)) G.step.n = 0; /* folding is not the cause: do not compare with the raw graph again */
		if (!G.step.n && !one_output(&G, seed, why, sizeof why)) fewer_outputs(&G, seed, why, sizeof why);
		if (!G.step.n) cut_operands(&G, seed, why, sizeof why);
		if (!G.step.n) shrink_sizes(&G, seed, why, sizeof why);
		G.step.n = 0;
		ir_graph_init(&dce);
		snprintf(name, sizeof name, "seed%llu", (unsigned long long)seed);
		if (ir_pass_dce(G.g, &dce, NULL, &err) == TJ_OK) {
			ir_graph *was = G.g;
			G.g = &dce;
			write_found(&G, name, seed, why);
			G.g = was;
		}
		ir_graph_free(&dce);
		printf("     %s/%s.tj: %s\n", fuzz_opt.found, name, why);
	}
	gen_free(&G);
	return !bad;
}

/* ---- batches ---- */
void fuzz_count(const gen *G, fuzz_mix *m, int graphs)
{
	m->graphs += (uint64_t)graphs;
	m->steps += G->step.n;
	m->inputs += G->slot.n;
	m->numbers += G->num.n;
	fuzz_count_dtypes(G, m);
	for (uint32_t i = 0; i < G->step.n; i++)
		if (G->step.v[i].op < IR_OPS) m->op[G->step.v[i].op]++;
	for (uint32_t i = 0; i < G->slot.n; i++) {
		int64_t want[TJ_MAX_RANK] = { 0 };
		const gen_slot *s = &G->slot.v[i];
		ir_contiguous(s->meta.rank, s->meta.dim, want);
		m->odd += s->meta.rank && memcmp(want, s->stride, sizeof *want * s->meta.rank) != 0;
		m->special += s->content > GEN_PLAIN && s->content < GEN_INTS;
	}
}

/* Once for this process. */
void fuzz_count_rules(fuzz_mix *m)
{
	const char *const *names;
	const uint64_t *fired;
	int n = ir_fold_rules(&names, &fired);
	for (int i = 0; i < n && i < FUZZ_RULES; i++) m->rule[i] = fired[i];
}

/* Counts the kinds of kernels from lines such as "group outer=8 red=64 row: amax sub exp". */
static void count_groups(const gen *G, uint64_t seed, fuzz_mix *m)
{
	rt_text t = { 0 };
	rt_err err = { 0 };
	if (lo_print_groups(G->g, fuzz_opt.figures && fuzz_opt.llvm ? other_cpu(seed) : &lo_cpu, &t, &err) == TJ_OK)
		for (char *save, *line = t.s ? strtok_r(t.s, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
			char *colon = strchr(line, ':'), *end = strstr(line, " ->");
			if (end) *end = 0;
			m->again += strstr(line, " again ") != NULL;
			bool many = colon && strchr(colon + 2, ' ');
			m->group[(strstr(line, " row") ? FUZZ_ROW : strstr(line, " column") ? FUZZ_COLUMN : FUZZ_POINT) + many]++;
		}
	rt_text_free(&t);
}

/* Each graph by itself: an op that allows no other size would stop the whole batch. */
static void run_sizes(uint64_t seed, int n, int fd)
{
	rt_text why = { 0 };
	fuzz_result r = { 0 };
	alarm(patience());
	for (int i = 0; i < n && !why.n; i++) {
		gen G;
		ir_graph g;
		gen_init(&G, &g, seed + (uint64_t)i);
		fuzz_graph(&G, seed + (uint64_t)i);
		fuzz_count(&G, &r.mix, 1);
		gen_keep_lib(&G);
		check_sizes(&G, seed + (uint64_t)i, &r.mix, &why);
		gen_free(&G);
	}
	fuzz_count_rules(&r.mix);
	r.ok = !why.n;
	_exit(write(fd, &r, sizeof r) != (ssize_t)sizeof r);
}

static void run_batch(uint64_t seed, int n, int fd)
{
	gen G;
	ir_graph g;
	rt_text why = { 0 };
	fuzz_result r = { 0 };
	alarm(patience());
	gen_init(&G, &g, seed);
	for (int i = 0; i < n; i++) fuzz_graph(&G, seed + (uint64_t)i);
	fuzz_count(&G, &r.mix, n);
	fuzz_count_rules(&r.mix);
	if (!fuzz_opt.dry) {
		count_groups(&G, seed, &r.mix);
		check_all(&G, seed, &why);
	}
	if (!why.n && fuzz_opt.llvm && !fuzz_opt.dry) check_in_place(seed, &why);
	if (why.n && fuzz_opt.verbose) printf("%s\n", rt_str(&why));
	fflush(stdout);
	r.ok = !why.n;
	_exit(write(fd, &r, sizeof r) != (ssize_t)sizeof r);
}

static void add_mix(fuzz_mix *all, const fuzz_mix *m)
{
	uint64_t *a = (uint64_t *)all;
	const uint64_t *b = (const uint64_t *)m;
	for (size_t i = 0; i < sizeof *m / sizeof *a; i++) a[i] += b[i];
}

typedef struct totals { fuzz_mix mix; int passed, failed; } totals;

static void progress(const totals *t)
{
	static time_t last;
	if (!isatty(1) || time(NULL) == last) return;
	last = time(NULL);
	printf("\r%6d of %d graphs, %d failed ", t->passed + t->failed, fuzz_opt.n, t->failed);
	fflush(stdout);
}

/* After a failure of a batch, runs its graphs one by one. A batch that fails only as a whole is a failure, too. */
static void finish(fuzz_child *c, int status, totals *t)
{
	fuzz_result r = { 0 };
	int bad = 0;
	bool got = WIFEXITED(status) && pread(c->fd, &r, sizeof r, 0) == (ssize_t)sizeof r;
	close(c->fd);
	c->pid = 0;
	add_mix(&t->mix, &r.mix);
	if (!got || !r.ok) {
		for (int i = 0; i < c->n; i++) bad += !alone(c->seed + (uint64_t)i);
		if (!bad) {
			printf("FAIL %d seeds from %llu together or in place, each alone passes: -v says more\n", c->n, (unsigned long long)c->seed);
			bad = 1;
		}
	}
	t->failed += bad;
	t->passed += c->n - bad;
	progress(t);
}

static void finish_one(fuzz_child *pool, totals *t)
{
	int status = 0;
	pid_t pid = wait(&status);
	for (int i = 0; i < WORKERS; i++)
		if (pid > 0 && pool[i].pid == pid) finish(&pool[i], status, t);
}

static void start(fuzz_child *pool, uint64_t seed, int n, totals *t)
{
	for (;;) {
		for (int i = 0; i < WORKERS; i++) {
			if (pool[i].pid) continue;
			pool[i] = (fuzz_child){ .fd = open_result(), .seed = seed, .n = n };
			fflush(stdout);
			if (!(pool[i].pid = fork()))
				(fuzz_opt.layers  ? fuzz_layers_batch
				 : fuzz_opt.api   ? (fuzz_opt.grad ? fuzz_reads_batch : fuzz_api_batch)
				 : fuzz_opt.sizes ? run_sizes
				                  : run_batch)(seed, n, pool[i].fd);
			return;
		}
		finish_one(pool, t);
	}
}

/* ---- the mix ---- */
static void put_count(int *col, const char *name, uint64_t n)
{
	const char *sep = *col ? ", " : "  ";
	if (*col > 110) {
		sep = ",\n  ";
		*col = 0;
	}
	*col += printf("%s%s %llu", sep, name, (unsigned long long)n);
}

/* What a long run must have met; gives the number of things that it has not met. */
static int check_mix(const fuzz_mix *m)
{
	const char *const *names;
	const uint64_t *fired;
	double g = m->graphs ? (double)m->graphs : 1, in = m->inputs ? (double)m->inputs : 1;
	const uint64_t often = (uint64_t)fuzz_opt.n / 50,
		       share = (uint64_t)fuzz_opt.n * 8 / (3 * IR_OPS); /* share: a third of an even one, of 8 ops a graph */
	int n = ir_fold_rules(&names, &fired), bad = 0;
	if (fuzz_opt.n < HELD_FROM || fuzz_opt.api || fuzz_opt.sizes || fuzz_opt.rare || fuzz_opt.dry) return 0;
#define HOLD(ok, ...) \
	if (!(ok)) printf("FAIL the mix: "), printf(__VA_ARGS__), printf("\n"), bad++
	for (int i = 0; i < IR_OPS; i++)
		HOLD(!usable((ir_op)i) || m->op[i] >= share, "%s ran %llu times", ir_ops[i].name, (unsigned long long)m->op[i]);
	for (int i = 0; i < n && i < FUZZ_RULES; i++) /* test_ir tests the rules that need two devices */
		HOLD(m->rule[i] || !strncmp(names[i], "to_", 3), "the rule %s never fired", names[i]);
	for (int i = 0; i < FUZZ_GROUPS; i++) HOLD(m->group[i] >= often, "%llu kernels of kind %d", (unsigned long long)m->group[i], i);
	HOLD(!fuzz_opt.grad || fuzz_opt.device || m->again >= (uint64_t)fuzz_opt.n / 20, "%llu kernels compute values again",
	     (unsigned long long)m->again);
	HOLD((double)m->steps / g >= 8, "%.1f ops a graph", (double)m->steps / g);
	HOLD((double)m->odd / in > 0.25, "few odd layouts");
	HOLD((double)m->special / in > 0.2, "few special values");
#undef HOLD
	return bad;
}

static void print_mix(const fuzz_mix *m)
{
	static const char *const kinds[FUZZ_GROUPS] = { "one op", "fused ops", "row reduction", "row reduction fused", "column reduction",
		                                            "column reduction fused" };
	const char *const *names;
	const uint64_t *fired;
	int n = ir_fold_rules(&names, &fired), least = IR_add, col = 0;
	if (fuzz_opt.api && fuzz_opt.grad) {
		printf("mix: %llu programs, %.1f steps each, %llu requests for gradients; %llu calls, %llu of them refused; %llu values read by C, "
		       "%llu times control flow in the graph, %llu cells assigned, %llu calls skipped the body, %llu audited\n",
		       (unsigned long long)m->graphs, (double)m->steps / (m->graphs ? (double)m->graphs : 1), (unsigned long long)m->varied,
		       (unsigned long long)m->calls, (unsigned long long)m->sized, (unsigned long long)m->branches,
		       (unsigned long long)m->flows, (unsigned long long)m->assigns, (unsigned long long)m->direct,
		       (unsigned long long)m->audits);
		return;
	}
	double g = m->graphs ? (double)m->graphs : 1, in = m->inputs ? (double)m->inputs : 1;
	printf("mix: %llu graphs, %.1f ops each; inputs: %.0f%% odd layouts, %.0f%% with special values; %llu numbers\n",
	       (unsigned long long)m->graphs, (double)m->steps / g, 100 * (double)m->odd / in, 100 * (double)m->special / in,
	       (unsigned long long)m->numbers);
	if (fuzz_opt.api)
		printf("     %llu branches, %llu times control flow in the graph, %llu sizes that depend on data, %llu cells assigned, %llu calls, "
		       "%llu programs changed between calls, %llu calls skipped the body\n",
		       (unsigned long long)m->branches, (unsigned long long)m->flows, (unsigned long long)m->sized,
		       (unsigned long long)m->assigns, (unsigned long long)m->calls, (unsigned long long)m->varied,
		       (unsigned long long)m->direct);
	if (m->resized)
		printf("     %llu runs at other sizes; %llu kernels compiled, %llu shared; %llu calls audited\n", (unsigned long long)m->resized,
		       (unsigned long long)m->compiled, (unsigned long long)m->shared, (unsigned long long)m->audits);
	for (int i = 0; i < IR_OPS; i++)
		if (usable((ir_op)i) && m->op[i] < m->op[least]) least = i;
	printf("ops, the rarest is %s with %llu:\n", ir_ops[least].name, (unsigned long long)m->op[least]);
	for (int i = 0; i < IR_OPS; i++) put_count(&col, ir_ops[i].name, m->op[i]);
	printf("\nfold rules:\n");
	col = 0;
	for (int i = 0; i < n && i < FUZZ_RULES; i++) put_count(&col, names[i], m->rule[i]);
	if (!fuzz_opt.api) printf("\nkernels:");
	for (int i = 0; i < FUZZ_GROUPS && !fuzz_opt.api; i++) printf("%s %s %llu", i ? "," : "", kinds[i], (unsigned long long)m->group[i]);
	if (!fuzz_opt.api) printf("; %llu compute values again", (unsigned long long)m->again);
	printf("\n");
}

/* ---- options ---- */
static void widths(const char *s)
{
	static const int all[] = { 512, 256, 128 };
	fuzz_opt.rotate = s && !strcmp(s, "rotate");
	if (s && strcmp(s, "all") && !fuzz_opt.rotate) fuzz_opt.width[fuzz_opt.nwidth++] = atoi(s);
	else if (s) {
		memcpy(fuzz_opt.width, all, sizeof all);
		fuzz_opt.nwidth = 3;
	} else fuzz_opt.width[fuzz_opt.nwidth++] = all[time(NULL) / 86400 % 3];
}

/* False: there is no such pass. */
static bool leave_out(const char *s)
{
	for (int i = 0; i < LO_PASS_COUNT; i++)
		if (!strcmp(s, "each") || !strcmp(s, pass_name[i])) fuzz_opt.off |= 1u << i;
	return fuzz_opt.off != 0;
}

static int usage(void)
{
	fprintf(stderr,
	        "usage: fuzz [-n graphs] [-s first seed] [-w 512|256|128|all|rotate] [-d device] [-own] [-off pass|each] [-figures] [-modes] "
	        "[-grad] [-api] [-sizes] [-layers] [-rare] [-counts] [-dry] [-o folder] [-e] [-v]\n"
	        "  -e  only the evaluator's plans     -v  prints failures whole     -dry  makes graphs and counts, runs none     passes:");
	for (int i = 0; i < LO_PASS_COUNT; i++) fprintf(stderr, " %s", pass_name[i]);
	fprintf(stderr, "\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *default_device = getenv("TJ_DEVICE");
	gen_on_gpu = default_device && !strncmp(default_device, "cuda", 4);
	const char *w = NULL, *why = "";
	totals t = { { 0 }, 0, 0 };
	fuzz_child pool[WORKERS] = { { 0 } };
	bool only_eval = false;
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;
		if (!strcmp(argv[i], "-n") && more) fuzz_opt.n = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-s") && more) fuzz_opt.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "-w") && more) w = argv[++i];
		else if (!strcmp(argv[i], "-o") && more) fuzz_opt.found = argv[++i];
		else if (!strcmp(argv[i], "-off") && more && leave_out(argv[i + 1])) i++;
		else if (!strcmp(argv[i], "-figures")) fuzz_opt.figures = true;
		else if (!strcmp(argv[i], "-modes")) fuzz_opt.modes = true;
		else if (!strcmp(argv[i], "-grad")) fuzz_opt.grad = true;
		else if (!strcmp(argv[i], "-api")) fuzz_opt.api = true;
		else if (!strcmp(argv[i], "-sizes")) fuzz_opt.sizes = true;
		else if (!strcmp(argv[i], "-layers")) fuzz_opt.layers = true;
		else if (!strcmp(argv[i], "-rare")) fuzz_opt.rare = true;
		else if (!strcmp(argv[i], "-counts")) fuzz_opt.counts = true;
		else if (!strcmp(argv[i], "-dry")) fuzz_opt.dry = true;
		else if (!strcmp(argv[i], "-e")) only_eval = true;
		else if (!strcmp(argv[i], "-d") && more) fuzz_opt.device = argv[++i], gen_on_gpu = !strncmp(fuzz_opt.device, "cuda", 4);
		else if (!strcmp(argv[i], "-own")) gen_own = true;
		else if (!strcmp(argv[i], "-v")) fuzz_opt.verbose = true;
		else return usage();
	}
	if (fuzz_opt.api && fuzz_opt.sizes) setenv("TJ_AUDIT", "3", 0);
	widths(w);
	if (!only_eval && !(fuzz_opt.llvm = lo_backend_find("llvm", &why) ? &lo_cpu : NULL)) {
		printf("FAIL no back end: %s\n0 passed, 1 failed, 0 skipped\n", why);
		return 1;
	}
	for (int at = 0; at < fuzz_opt.n; at += BATCH)
		start(pool, fuzz_opt.seed + (uint64_t)at, fuzz_opt.n - at < BATCH ? fuzz_opt.n - at : BATCH, &t);
	for (int i = 0; i < WORKERS; i++)
		while (pool[i].pid) finish_one(pool, &t);
	if (isatty(1)) printf("\r%60s\r", "");
	if (fuzz_opt.layers) t.failed += fuzz_print_layers(&t.mix);
	else print_mix(&t.mix);
	if (fuzz_opt.counts) fuzz_print_dtypes(&t.mix);
	if (!fuzz_opt.layers) t.failed += check_mix(&t.mix);
	printf("%d passed, %d failed, 0 skipped\n", t.passed, t.failed);
	return t.failed != 0;
}
