/* SPDX-License-Identifier: MIT */
/* The batch transform (ir/vmap.c) against its meaning: each example must have the bits that it has alone. Every op with random operands,
 * random graphs, and control flow; by the evaluator and by compiled code. Then what it refuses. */
#include "test/gen.h"
#include "test/kit.h"
#include "test/skip.h"
#include "lower/lower.h"

#include <string.h>

enum { MOST_N = 4 };

/* ---- one graph ---- */
typedef struct trial {
	gen G;
	ir_graph g, b;           /* for one example; for all */
	int64_t n;
	uint32_t mapped;         /* by slot: a bit for each external whose axis 0 counts the examples */
	void *flat[32][MOST_N];  /* by mapped slot and example */
	gen_out one[MOST_N];     /* what each example gives */
} trial;

static int64_t slot_bytes(const gen_slot *s)
{
	int64_t n = 0;
	rt_numel(s->meta.rank, s->meta.dim, &n);
	return n * (int64_t)tj_dtype_size((tj_dtype)s->meta.dtype);
}

/* Draws the examples and evaluates each; false: one has a fault. */
static bool run_examples(trial *t)
{
	rt_err err = { 0 };
	for (int64_t e = 0; e < t->n; e++) {
		for (uint32_t s = 0; s < t->G.slot.n; s++) {
			if (!(t->mapped >> s & 1)) continue;
			if (e) gen_refill(&t->G, &t->G.slot.v[s]);
			t->flat[s][e] = gen_flat(&t->G.slot.v[s]);
		}
		if (!gen_out_new(&t->one[e], &t->g)) abort();
		if (gen_oracle(&t->G, false, NULL, &t->one[e], &err) != TJ_OK) return false;
	}
	return true;
}

/* t->b: the graph for all examples, without marks. */
static void make_batch(trial *t, const char *name)
{
	ir_graph h;
	rt_err err = { 0 };
	ir_ref *map = calloc(t->g.node.n + 1, sizeof *map), leaf[32], in[32], src[64], out[48], to[48];
	ir_vmap_ask q = { .n = t->n, .nout = (int)t->g.out.n, .leaf = leaf, .in = in, .out = out, .site = "t.c:1" };
	ir_graph_init(&h);
	for (ir_ref r = 0; r < t->g.node.n; r++) {
		const ir_node *n = ir_at(&t->g, r);
		const ir_meta m = ir_meta_of(&t->g, r);
		for (int k = 0; k < n->nsrc; k++) src[k] = map[ir_src(&t->g, n, k)];
		const int64_t slot = n->op == IR_input ? ir_attr(&t->g, n)[0] : -1;
		map[r] = slot >= 0 && t->mapped >> slot & 1 ? ir_leaf(&h, &m, "t.c:1") : ir_copy(&h, &t->g, r, src);
		if (slot < 0 || !(t->mapped >> slot & 1)) continue;
		ir_meta all = m;
		all.dim[0] = t->n;
		memcpy(all.dim + 1, m.dim, sizeof *m.dim * all.rank++);
		leaf[q.nin] = map[r];
		in[q.nin++] = ir_input(&h, (int)slot, &all, NULL, "t.c:1");
	}
	for (int i = 0; i < q.nout; i++) out[i] = map[t->g.out.v[i]];
	if (!ir_vmap(&h, &q, to, NULL)) fail_msg("%s: %s", name, h.err.message);
	for (int i = 0; i < q.nout; i++) ir_ret(&h, to[i]);
	ir_graph_init(&t->b);
	if (ir_pass_dce(&h, &t->b, NULL, &err) != TJ_OK || ir_verify(&t->b, &err) != TJ_OK) fail_msg("%s: %s", name, err.message);
	ir_graph_free(&h);
	free(map);
}

static void stack_slots(trial *t)
{
	for (uint32_t s = 0; s < t->G.slot.n; s++) {
		gen_slot *x = &t->G.slot.v[s];
		const int64_t bytes = slot_bytes(x);
		int64_t dim[TJ_MAX_RANK + 1] = { t->n };
		if (!(t->mapped >> s & 1)) continue;
		memcpy(dim + 1, x->meta.dim, sizeof *dim * x->meta.rank++);
		gen_resize(&t->G, x, dim);
		for (int64_t e = 0; e < t->n; e++) memcpy((char *)x->data + e * bytes, t->flat[s][e], (size_t)bytes);
	}
}

static void compare(const trial *t, const gen_out *got, const char *how, const char *name)
{
	for (uint32_t i = 0; i < t->g.out.n; i++) {
		const ir_ref r = t->g.out.v[i];
		const tj_dtype dtype = (tj_dtype)ir_at(&t->g, r)->dtype;
		const int64_t n = ir_numel(&t->g, r);
		int64_t at = 0;
		assert_int_equal(ir_numel(&t->b, t->b.out.v[i]), n * t->n);
		for (int64_t e = 0; e < t->n; e++) {
			const char *p = (const char *)got->data[i] + e * n * (int64_t)tj_dtype_size(dtype);
			if (gen_same(dtype, t->one[e].data[i], p, n, &at)) continue;
			rt_text text = { 0 };
			ir_print(&t->g, &text);
			rt_puts(&text, "for all:\n");
			ir_print(&t->b, &text);
			fail_msg("%s, %s: result %u of example %d differs at element %d\n%s", name, how, i, (int)e, (int)at, rt_str(&text));
		}
	}
}

/* How the batch runs: 0 by the evaluator, 1 compiled. */
static void check_run(trial *t, int compiled, const char *name)
{
	gen_out got;
	rt_err err = { 0 };
	t->G.g = &t->b;
	if (!gen_out_new(&got, &t->b)) abort();
	const gen_how how = { .target = &lo_cpu };
	const tj_status st = compiled ? gen_run(&t->G, &how, &got, &err) : gen_oracle(&t->G, false, NULL, &got, &err);
	if (st != TJ_OK) fail_msg("%s: %s: %s", name, err.op ? err.op : "?", err.message);
	compare(t, &got, compiled ? "compiled" : "evaluated", name);
	gen_out_free(&got);
}

static void close_trial(trial *t)
{
	for (int s = 0; s < 32; s++)
		for (int e = 0; e < MOST_N; e++) free(t->flat[s][e]);
	for (int e = 0; e < MOST_N; e++)
		if (t->one[e].data) gen_out_free(&t->one[e]);
	ir_graph_free(&t->b);
	t->G.g = &t->g; /* check_run() gave it the other one */
	gen_free(&t->G);
}

/* The graph t->g is complete. false: an example has a fault, or nothing can be mapped. */
static bool check(trial *t, bool compiled, const char *name)
{
	bool ok = t->G.slot.n > 0 && t->G.slot.n <= 32 && t->g.out.n && t->g.err.code == TJ_OK;
	for (uint32_t s = 0; s < t->G.slot.n; s++) ok &= t->G.slot.v[s].meta.rank < TJ_MAX_RANK - 1;
	ok = ok && t->mapped && run_examples(t);
	if (ok) {
		make_batch(t, name);
		stack_slots(t);
		check_run(t, 0, name);
		if (compiled) check_run(t, 1, name);
	}
	close_trial(t);
	return ok;
}

/* ---- random graphs ---- */
static const tj_dtype dtypes[] = { TJ_F32, TJ_F64, TJ_I64, TJ_BF16, TJ_I8, TJ_BOOL, TJ_I32, TJ_F16 };

static ir_ref random_input(gen *G, tj_dtype t)
{
	int64_t dim[TJ_MAX_RANK];
	const int rank = (int)gen_below(G, 4);
	for (int i = 0; i < rank; i++) dim[i] = gen_chance(G, 4) ? 0 : 1 + gen_below(G, 5);
	return gen_input(G, t, rank, dim, gen_chance(G, 70) ? GEN_PLAIN : GEN_SPECIAL, 0, 0);
}

/* The gradients of y by the floats among the externals are results, too. */
static void add_gradients(trial *t, ir_ref y)
{
	ir_ref wrt[32], grad[32];
	int n = 0;
	for (ir_ref r = 0; r < t->g.node.n && n < 32; r++)
		if (ir_at(&t->g, r)->op == IR_input && rt_is_float((tj_dtype)ir_at(&t->g, r)->dtype)) wrt[n++] = r;
	if (!n || !rt_is_float((tj_dtype)ir_at(&t->g, y)->dtype)) return;
	if (!ir_grad(&t->g, &(ir_grad_ask){ .y = y, .cotangent = IR_NONE, .n = n, .wrt = wrt, .zeros = true, .site = "t.c:3" }, grad))
		fail_msg("%s", t->g.err.message);
	for (int i = 0; i < n; i++)
		if (ir_at(&t->g, grad[i])->rank < TJ_MAX_RANK) ir_ret(&t->g, grad[i]);
}

/* op, applied to an input or to what some other ops gave. */
static bool draw(trial *t, uint64_t seed, ir_op op, int more)
{
	*t = (trial){ 0 };
	gen_init(&t->G, &t->g, seed);
	gen *G = &t->G;
	G->most = 4000;
	G->lib_f32 = true;
	G->numbers = true;
	t->n = gen_chance(G, 5) ? 1 : 2 + gen_below(G, MOST_N - 1);
	ir_ref x = random_input(G, dtypes[gen_below(G, RT_COUNT(dtypes))]);
	for (int i = 0; i < more; i++) {
		const ir_ref y = gen_op(G, (ir_op)gen_below(G, IR_OPS), x);
		if (y != IR_NONE && ir_at(G->g, y)->rank < TJ_MAX_RANK - 1) x = y;
	}
	const ir_ref y = gen_op(G, op, x);
	if (y == IR_NONE || ir_at(G->g, y)->rank == TJ_MAX_RANK) return false;
	ir_ret(G->g, y);
	for (int i = 0; i < G->nalso; i++) ir_ret(G->g, G->also[i]);
	if (gen_chance(G, 40)) add_gradients(t, y);
	for (uint32_t s = 0; s < G->slot.n && s < 32; s++) t->mapped |= gen_chance(G, 60) ? 1u << s : 0;
	return true;
}

static void every_op(void **state)
{
	(void)state;
	const int cases = left_out(1) ? 24 : 60;
	for (int op = 0; op < IR_OPS; op++) {
		int done = 0;
		for (uint64_t seed = 0; seed < 400 && done < cases; seed++) {
			trial t;
			if (!draw(&t, 1000 * (uint64_t)op + seed, (ir_op)op, seed % 4 == 3)) close_trial(&t);
			else done += check(&t, seed % 3 == 0, ir_ops[op].name);
		}
		const bool takes = op != IR_arange && op != IR_eye && op != IR_uniform &&
		                   op != IR_normal && /* the others have no operands that could be mapped */
		                   op != IR_host_call; /* refused */
		if (takes && done < 20) fail_msg("%s: only %d cases", ir_ops[op].name, done);
	}
}

static void random_graphs(void **state)
{
	(void)state;
	int done = 0;
	for (uint64_t seed = 0; seed < 1500; seed++) {
		trial t;
		char name[40];
		snprintf(name, sizeof name, "graph %d", (int)seed);
		if (!draw(&t, seed + 1000000, (ir_op)(seed % IR_OPS), 1 + (int)(seed % 7))) close_trial(&t);
		else done += check(&t, seed % 4 == 0, name);
	}
	assert_true(done > 500);
}

/* ---- graphs as text: which slots are mapped, then the graph ---- */
static const struct { uint32_t mapped; const char *text;
} texts[] = {
	/* cond: one way for all; another way for each */
#define COND \
	"%0 = input bool[] slot=0\n%1 = input f32[3] slot=1\n%2 = cond %0 %1\n  then:\n    %0 = input f32[3] slot=0\n    %1 = exp f32[3] %0\n" \
	"    %2 = sum f32[] %1 keepdim=0\n    ret %1 %2\n" \
	"  else:\n    %0 = input f32[3] slot=0\n    %1 = const f32[] 0x1p+0\n    ret %0 %1\n%3 = get f32[3] %2 i=0\n%4 = get f32[] %2 i=1\n" \
	"ret %3 %4\n"
	{ 1, COND },
	{ 2, COND },
	{ 3, COND },
/* scan: by carry, by slices, by captures, and a carry that a turn makes different for each example */
#define SCAN(reverse) \
	"%0 = input f32[2] slot=0\n%1 = input f32[4,2] slot=1\n%2 = input f32[2] slot=2\n%3 = const i64[] 0\n" \
	"%4 = scan %0 %3 %1 %2 carries=2 xs=1 length=4 reverse=" reverse \
	"\n  body:\n" \
	"    %0 = input f32[2] slot=0\n    %1 = input i64[] slot=1\n    %2 = input f32[2] slot=2\n    %3 = input f32[2] slot=3\n" \
	"    %4 = mul f32[2] %0 %3\n    %5 = add f32[2] %4 %2\n" \
	"    %6 = const i64[] 1\n    %7 = add i64[] %1 %6\n    %8 = sum f32[] %5 keepdim=0\n    ret %5 %7 %8\n%5 = get f32[2] %4 i=0\n" \
	"%6 = get i64[] %4 i=1\n%7 = get f32[4] %4 i=2\nret %5 %6 %7\n"
	/* the first turn makes one carry different, the next one the other */
	{ 4,
	  "%0 = input f32[] slot=0\n%1 = input f32[] slot=1\n%2 = input f32[3] slot=2\n%3 = scan %0 %1 %2 carries=2 xs=1 length=3 reverse=0\n"
	  "  body:\n    %0 = input f32[] slot=0\n    %1 = input f32[] slot=1\n"
	  "    %2 = input f32[] slot=2\n    %3 = add f32[] %0 %2\n    %4 = mul f32[] %1 %0\n    ret %3 %4\n%4 = get f32[] %3 i=0\n"
	  "%5 = get f32[] %3 i=1\nret %4 %5\n" },
	{ 1, SCAN("0") },
	{ 2, SCAN("0") },
	{ 4, SCAN("0") },
	{ 3, SCAN("1") },
	{ 7, SCAN("0") },
/* while: a counter, the same for all; then until each example is large */
#define COUNT \
	"%0 = input f32[2] slot=0\n%1 = const i64[] 0\n%2 = while %0 %1 max_turns=9\n  cond:\n    %0 = input i64[] slot=1\n" \
	"    %1 = const i64[] 5\n    %2 = lt bool[] %0 %1\n    ret %2\n" \
	"  body:\n    %0 = input f32[2] slot=0\n    %1 = input i64[] slot=1\n    %2 = exp f32[2] %0\n    %3 = sigmoid f32[2] %2\n" \
	"    %4 = const i64[] 1\n    %5 = add i64[] %1 %4\n    ret %3 %5\n" \
	"%3 = get f32[2] %2 i=0\n%4 = get i64[] %2 i=1\nret %3 %4\n"
	{ 1, COUNT },
#define UNTIL \
	"%0 = input f32[] slot=0\n%1 = const i64[] 0\n%2 = input f32[] slot=1\n%3 = while %0 %1 %2 max_turns=0\n  cond:\n" \
	"    %0 = input f32[] slot=0\n    %1 = const f32[] 0x1.9p+6\n    %2 = lt bool[] %0 %1\n" \
	"    ret %2\n  body:\n    %0 = input f32[] slot=0\n    %1 = input i64[] slot=1\n    %2 = input f32[] slot=2\n    %3 = abs f32[] %0\n" \
	"    %4 = abs f32[] %2\n    %5 = add f32[] %3 %4\n    %6 = const f32[] 0x1p+0\n" \
	"    %7 = add f32[] %5 %6\n    %8 = const i64[] 1\n    %9 = add i64[] %1 %8\n    ret %7 %9\n%4 = get f32[] %3 i=0\n" \
	"%5 = get i64[] %3 i=1\nret %4 %5\n"
	{ 1, UNTIL },
	{ 2, UNTIL },
	{ 3, UNTIL },
	/* a scan inside of a cond that goes another way for each */
	{ 3,
	  "%0 = input bool[] slot=0\n%1 = input f32[3,2] slot=1\n%2 = cond %0 %1\n  then:\n    %0 = input f32[3,2] slot=0\n"
	  "    %1 = const f32[2] 0x0p+0\n    %2 = scan %1 %0 carries=1 xs=1 length=3 reverse=0\n"
	  "      body:\n        %0 = input f32[2] slot=0\n        %1 = input f32[2] slot=1\n        %2 = add f32[2] %0 %1\n        ret %2\n"
	  "    %3 = get f32[2] %2 i=0\n    ret %3\n"
	  "  else:\n    %0 = input f32[3,2] slot=0\n    %1 = amax f32[2] %0 keepdim=0 axes=0\n    ret %1\n%3 = get f32[2] %2 i=0\nret %3\n" },
};

static void control_flow(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(texts); i++)
		for (uint64_t seed = 0; seed < 6; seed++) {
			trial t = { .n = 1 + (int64_t)seed % MOST_N, .mapped = texts[i].mapped };
			ir_graph g;
			rt_err err = { 0 };
			char name[40];
			snprintf(name, sizeof name, "text %d", (int)i);
			ir_graph_init(&g);
			if (ir_parse(&g, texts[i].text, &err) != TJ_OK) fail_msg("%s\n%s", texts[i].text, err.message);
			gen_init(&t.G, &t.g, seed + 77 * i);
			t.G.layout = GEN_ROW;
			for (ir_ref r = 0; r < g.node.n; r++) {
				const ir_meta m = ir_meta_of(&g, r);
				if (ir_at(&g, r)->op == IR_input) gen_input(&t.G, (tj_dtype)m.dtype, m.rank, m.dim, GEN_PLAIN, 0, 0);
			}
			ir_graph_free(&t.g);
			t.g = g;
			assert_true(check(&t, true, name));
		}
}

/* ---- what stays as it is, and what is refused ---- */
static void unchanged(void **state)
{
	(void)state;
	ir_graph g;
	ir_graph_init(&g);
	const ir_meta m = { .dtype = TJ_F32, .rank = 1, .dim = { 3 } }, all = { .dtype = TJ_F32, .rank = 2, .dim = { 5, 3 } };
	const ir_ref w = ir_input(&g, 0, &m, NULL, "t.c:1"), x = ir_input(&g, 1, &all, NULL, "t.c:2"), leaf = ir_leaf(&g, &m, "t.c:3"),
		     other = ir_leaf(&g, &m, "t.c:3");
	assert_int_not_equal(leaf, other);
	const ir_ref same = ir_op1(&g, IR_exp, w, "t.c:4"), y = ir_op2(&g, IR_add, same, leaf, "t.c:5");
	ir_ref to[2];
	bool batched[2];
	const ir_vmap_ask q = { .n = 5, .nin = 1, .nout = 2, .leaf = &leaf, .in = &x, .out = (ir_ref[]){ same, y }, .site = "t.c:6" };
	assert_true(ir_vmap(&g, &q, to, batched));
	assert_true(!batched[0] && batched[1] && to[0] == same);
	assert_int_equal(ir_src(&g, ir_at(&g, to[1]), 0), same); /* computed once for all */
	ir_graph_free(&g);
}

static void too_many_axes(void **state)
{
	(void)state;
	ir_graph g;
	ir_graph_init(&g);
	const ir_meta m = { .dtype = TJ_F32, .rank = TJ_MAX_RANK - 1, .dim = { 1, 1, 1, 1, 1, 1, 1 } };
	ir_meta all = m;
	all.dim[all.rank++] = 1;
	const ir_ref leaf = ir_leaf(&g, &m, "t.c:1"), x = ir_input(&g, 0, &all, NULL, "t.c:2");
	const ir_ref y = ir_emit(&g, IR_unsqueeze, 1, &leaf, 1, (int64_t[]){ 0 }, "t.c:3");
	ir_ref to;
	assert_false(ir_vmap(&g, &(ir_vmap_ask){ .n = 1, .nin = 1, .nout = 1, .leaf = &leaf, .in = &x, .out = &y, .site = "t.c:4" }, &to, NULL));
	assert_int_equal(g.err.code, TJ_ERR_LIMIT);
	assert_string_equal(g.err.site, "t.c:3");
	ir_graph_free(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_op), cmocka_unit_test(random_graphs), cmocka_unit_test(control_flow),
		                            cmocka_unit_test(unchanged), cmocka_unit_test(too_many_axes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
