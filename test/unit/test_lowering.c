/* SPDX-License-Identifier: MIT */
/* How lowering grows with the graph, by counts, not by times: places that searches for paths visit, and kernels that are compiled. The line
 * of values that these searches rely on (lower/paths.c). */
#include "lower/low.h"
#include "test/kit.h"
#include "test/mock.h"

enum { N = 16, OPS = 60, GRAPHS = 300, LAYERS = 20 };

/* ---- the line ---- */
static uint32_t unit_of(const lo_low *L, ir_ref r)
{
	return L->val[r].group == LO_NOGROUP ? LO_NOGROUP : lo_group_at(L, &(uint32_t){ L->val[r].group })->place;
}

/* Its readers compute it, so it has no place of its own. */
static bool in_readers(const lo_low *L, ir_ref r)
{
	const lo_val *v = &L->val[r];
	return v->group == LO_NOGROUP && (v->light || (v->how == LO_VIEW && !v->own && !v->solid));
}

/* Operands stand before their readers; seen: places behind `place` must be. */
static void check_readers(const lo_low *L, ir_ref r, ir_ref place)
{
	for (uint32_t i = L->nuser[r]; i < L->nuser[r + 1]; i++) {
		const ir_ref u = L->user[i], to = unit_of(L, u) == LO_NOGROUP ? u : unit_of(L, u);
		if (in_readers(L, u)) check_readers(L, u, place);
		else if (to != place) assert_true(L->line.label[place] < L->line.label[to]);
	}
}

static void check_line(lo_low *L, void *env)
{
	*(uint64_t *)env = L->line.visits;
	for (ir_ref r = 0; r < L->g->node.n; r++)
		if (!in_readers(L, r)) check_readers(L, r, unit_of(L, r) == LO_NOGROUP ? r : unit_of(L, r));
	ir_ref at = L->g->node.n;
	for (ir_ref i = 0; i < L->g->node.n; i++, at = L->line.next[at]) assert_true(L->line.label[at] < L->line.label[L->line.next[at]]);
	assert_true(L->line.next[at] == L->g->node.n);
}

/* Places that the searches of a lowering visit. */
static uint64_t visits(ir_graph *g)
{
	uint64_t n = 0;
	rt_err err = { 0 };
	assert_int_equal(g->err.code, TJ_OK);
	assert_int_equal(lo_dry_run(g, &(lo_opts){ .name = "f", .target = &lo_cpu }, false, check_line, &n, &err), TJ_OK);
	return n;
}

static ir_ref input(ir_graph *g, int slot, int rank)
{
	return ir_input(g, slot, &(ir_meta){ .dtype = TJ_F32, .rank = (uint8_t)rank, .dim = { N, N } }, NULL, NULL);
}

static uint32_t draw(uint64_t *state, uint32_t n)
{
	return (uint32_t)((*state = *state * 6364136223846793005u + 1442695040888963407u) >> 40) % n;
}

/* Ops over random earlier values: groups merge, refuse values, and values are stored for several of them. */
static void random_graph(ir_graph *g, uint64_t seed)
{
	ir_ref v[OPS] = { input(g, 0, 2), input(g, 1, 2) };
	for (int i = 2; i < OPS; i++) {
		const ir_ref a = v[draw(&seed, 3) ? i - 1 - (int)draw(&seed, i < 6 ? (uint32_t)i : 6) : (int)draw(&seed, (uint32_t)i)],
			     b = v[draw(&seed, (uint32_t)i)];
		switch (draw(&seed, 8)) {
		case 0: v[i] = ir_op2(g, IR_sub, a, ir_reduce(g, IR_amax, a, 2, true, NULL), NULL); break;
		case 1: v[i] = ir_op2(g, IR_mul, b, ir_reduce(g, IR_sum, a, 1, true, NULL), NULL); break;
		case 2: v[i] = ir_emit(g, IR_transpose, 1, &a, 2, (int64_t[]){ 0, 1 }, NULL); break;
		case 3: v[i] = draw(&seed, 3) ? ir_op1(g, IR_exp, a, NULL) : ir_op2(g, IR_matmul, a, b, NULL); break;
		default: v[i] = ir_op2(g, IR_add, a, b, NULL); break;
		}
	}
	for (int i = 1; i < 4; i++) ir_ret(g, v[OPS - i]);
}

static void line_stays_in_order(void **s)
{
	uint64_t most = 0;
	(void)s;
	for (uint64_t seed = 0; seed < GRAPHS; seed++) {
		ir_graph g;
		ir_graph_init(&g);
		random_graph(&g, seed);
		const uint64_t n = visits(&g);
		most = n > most ? n : most;
		ir_graph_free(&g);
	}
	assert_true(most > 0); /* some search had to look */
}

/* A chain of layers, its gradient by all weights, then an update of each: the last update is far behind its gradient in the graph. */
static uint64_t training_visits(int layers)
{
	ir_graph g;
	ir_graph_init(&g);
	ir_ref w[4 * LAYERS], to[4 * LAYERS], x = input(&g, 0, 2);
	for (int i = 0; i < layers; i++) {
		w[i] = input(&g, i + 1, 2);
		const ir_ref y = ir_op2(&g, IR_matmul, ir_op2(&g, IR_sub, x, ir_reduce(&g, IR_amax, x, 2, true, NULL), NULL), w[i], NULL);
		x = ir_op2(&g, IR_add, x, ir_op1(&g, IR_tanh, y, NULL), NULL);
	}
	assert_true(ir_grad(&g, &(ir_grad_ask){ .y = ir_reduce(&g, IR_sum, x, 3, false, NULL), .cotangent = IR_NONE, .n = layers, .wrt = w }, to));
	for (int i = 0; i < layers; i++)
		ir_ret(&g, ir_op2(&g, IR_sub, w[i], ir_op2(&g, IR_mul, to[i], ir_const_f(&g, TJ_F32, 0, NULL, 0.01), NULL), NULL));
	const uint64_t n = visits(&g);
	ir_graph_free(&g);
	return n;
}

static void searches_stay_near(void **s)
{
	(void)s;
	const uint64_t few = training_visits(LAYERS), many = training_visits(4 * LAYERS);
	assert_true(few > 0);
	if (many > 5 * few)
		fail_msg("%llu places visited for %d layers, %llu for %d", (unsigned long long)few, LAYERS, (unsigned long long)many,
		         4 * LAYERS);
}

/* ---- equal blocks ---- */
enum { WIDTH = 32, WEIGHTS = 3, MOST_BLOCKS = 12 };

typedef struct net { int blocks; tj_tensor *w[WEIGHTS * MOST_BLOCKS + 1], *m[WEIGHTS * MOST_BLOCKS]; } net;

/* Blocks with a norm, two products and a skip; a step of SGD with momentum. */
static void train(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *n = self;
	tj_tensor *x = in[0], *grad[WEIGHTS * MOST_BLOCKS];
	for (int i = 0; i < n->blocks; i++) {
		tj_tensor *const *w = n->w + WEIGHTS * i;
		x = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_rms_norm(x, w[0], 1e-5), w[1])), w[2]));
	}
	out[0] = tj_mean(tj_square(x), TJ_ALL, false);
	if (tj_grad(grad, out[0], n->w, NULL) != TJ_OK) return;
	for (int i = 0; i < WEIGHTS * n->blocks; i++) {
		tj_tensor *m = tj_add(tj_mul(n->m[i], tj_f(0.9)), grad[i]);
		tj_assign(n->m[i], m);
		tj_assign(n->w[i], tj_sub(n->w[i], tj_mul(m, tj_f(0.01))));
	}
}

static tj_stats train_once(int blocks)
{
	tj_ctx *c = kit_open();
	net n = { .blocks = blocks };
	float v[4 * WIDTH];
	for (int i = 0; i < 4 * WIDTH; i++) v[i] = (float)i / WIDTH;
	for (int i = 0; i < WEIGHTS * blocks; i++) {
		const tj_dims shape = i % WEIGHTS == 0 ? TJ_SHAPE(WIDTH) : i % WEIGHTS == 1 ? TJ_SHAPE(WIDTH, 2 * WIDTH) : TJ_SHAPE(2 * WIDTH, WIDTH);
		n.w[i] = tj_param(c, TJ_F32, shape);
		n.m[i] = tj_param(c, TJ_F32, shape);
	}
	n.w[WEIGHTS * blocks] = TJ_END;
	tj_fn *f = kit_fn(c, "train", train, &n, 1, 1);
	tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4, WIDTH), v))));
	kit_ok(c);
	const tj_stats s = kit_stats(f);
	tj_close(c);
	return s;
}

static void equal_blocks_share_code(void **s)
{
	(void)s;
	if (!strcmp(kit_backend, "eval")) return; /* it compiles nothing */
	const tj_stats few = train_once(MOST_BLOCKS / 2), many = train_once(MOST_BLOCKS);
	assert_true(many.kernels > few.kernels + MOST_BLOCKS);
	assert_int_equal(many.compiled, few.compiled);
}

/* ---- a value that is stored to many places ---- */
enum { PLACES = 100, ROW = 6 };

static tj_tensor *placed(int kind, tj_tensor *x)
{
	tj_tensor *square = tj_reshape(x, TJ_SHAPE(2, 3));
	switch (kind) {
	case 0: return x;                                                                                 /* an argument */
	case 1: return tj_mul(x, x);
	case 2: return tj_reshape(tj_transpose(tj_add(square, tj_f(1)), 0, 1), TJ_SHAPE(ROW));           /* a view */
	case 3: return tj_full(TJ_F32, TJ_SHAPE(ROW), tj_f(7));                                           /* a constant */
	case 4: return tj_cast(tj_arange(TJ_I64, 0, ROW, 1), TJ_F32);                                     /* computed wherever it is read */
	case 5: return tj_add(tj_sum(x, TJ_ALL, false), tj_mul(x, tj_f(0)));
	default: return tj_scatter_add(x, 0, tj_arange(TJ_I64, 0, ROW, 1), x);                            /* not computed by a kernel */
	}
}

static void place(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *v = placed(*(int *)self, in[0]), *all[PLACES + 2];
	for (int i = 0; i < PLACES; i++) all[i] = v;
	all[PLACES] = tj_neg(v);
	all[PLACES + 1] = TJ_END;
	out[0] = tj_cat(all, 0);
	out[1] = v;
}

static float want_of(int kind, int i)
{
	const float view[ROW] = { 2, 5, 3, 6, 4, 7 };
	const float want[] = { (float)(i + 1), (float)((i + 1) * (i + 1)), view[i], 7, (float)i, 21, (float)(2 * (i + 1)) };
	return want[kind];
}

static void many_places(void **s)
{
	(void)s;
	for (int kind = 0; kind < 7; kind++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[2];
		tj_fn *f = kit_fn(c, "place", place, &kind, 1, 2);
		tj_call(f, out, TJ_LIST(F32(c, 1, 2, 3, 4, 5, 6)));
		kit_ok(c);
		const float *all = tj_data(out[0]), *one = tj_data(out[1]);
		for (int i = 0; i < PLACES * ROW; i++) assert_true(all[i] == want_of(kind, i % ROW));
		for (int i = 0; i < ROW; i++) assert_true(one[i] == want_of(kind, i) && all[PLACES * ROW + i] == -one[i]);
		if (strcmp(kit_backend, "eval"))
			assert_true(kit_stats(f).kernels >
			            PLACES / 40); /* the compiler takes seconds for a kernel with thousands of stores */
		tj_close(c);
	}
}

/* ---- numbers, which every kernel of a device computes for itself ---- */
enum { ROUNDS = 60 };

/* Each round reads the number before it twice. */
static void schedule(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *n = tj_f(0.5);
	(void)self;
	for (int i = 0; i < ROUNDS; i++) n = tj_add(tj_sin(n), tj_mul(n, tj_f(0.25)));
	out[0] = tj_mul(in[0], n);
}

static float scheduled(const char *device)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .device = device));
	tj_fn *f = kit_fn(c, "schedule", schedule, NULL, 1, 1);
	const float y = ((const float *)tj_data(tj_call1(f, TJ_LIST(F32(c, 1, 2)))))[1];
	kit_ok(c);
	tj_close(c);
	return y;
}

static void numbers_are_asked_once(void **s)
{
	(void)s;
	mock_device();
	assert_true(scheduled("mock:0") == scheduled("cpu"));
}

int main(void)
{
	setenv("TJ_CACHE", "off", 1); /* kernels of an earlier run would not be compiled */
	const struct CMUnitTest tests[] = { cmocka_unit_test(line_stays_in_order), cmocka_unit_test(searches_stay_near),
		                            cmocka_unit_test(equal_blocks_share_code), cmocka_unit_test(many_places),
		                            cmocka_unit_test(numbers_are_asked_once) };
	KIT_RUN(tests);
}
