/* SPDX-License-Identifier: MIT */
/* lowering: times of tracing and lowering of large graphs, and how they grow with the graph. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 48, WEIGHTS = 8, PARAMS = 5 + WEIGHTS * MOST_BLOCKS };
enum { BATCH = 2, CONTEXT = 16, WIDTH = 64, HEADS = 4, EACH = WIDTH / HEADS, VOCAB = 32 };
enum { CHAIN = 10000, BRANCHES = 5000, ROUNDS = 40, TURNS = 5 };

/* A program of `size` blocks, ops, branches or rounds. */
typedef struct program {
	int size;
	int n;                                       /* of param */
	tj_tensor *param[PARAMS + 1], *first[PARAMS], *second[PARAMS], *steps; /* gpt: AdamW's means, and how many steps it has made */
} program;

/* ---- a training step of a GPT: as in examples/gpt.c, with a block for each 8 parameters ---- */
static tj_tensor *head(tj_tensor *all, int i)
{
	tj_tensor *part = tj_reshape(tj_slice(all, 2, i * WIDTH, (i + 1) * WIDTH, 1), TJ_SHAPE(BATCH, CONTEXT, HEADS, EACH));
	return tj_permute(part, TJ_AXES(0, 2, 1, 3));
}

static tj_tensor *attend(tj_tensor *const *w, tj_tensor *x)
{
	tj_tensor *all = tj_matmul(x, w[2]), *at = tj_arange(TJ_I64, 0, CONTEXT, 1);
	tj_tensor *score = tj_mul(tj_matmul(head(all, 0), tj_transpose(head(all, 1), -1, -2)), tj_f(1 / sqrt((double)EACH)));
	tj_tensor *earlier = tj_le(at, tj_unsqueeze(at, 1));
	tj_tensor *y = tj_matmul(tj_softmax(tj_where(earlier, score, tj_f(-INFINITY)), -1), head(all, 2));
	return tj_matmul(tj_reshape(tj_permute(y, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(BATCH, CONTEXT, WIDTH)), w[3]);
}

static tj_tensor *loss_of(const program *p, tj_tensor *idx, tj_tensor *target)
{
	tj_tensor *const *m = p->param;
	tj_tensor *x = tj_add(tj_embedding(m[0], idx), m[1]);
	for (int i = 0; i < p->size; i++) {
		tj_tensor *const *w = m + 5 + WEIGHTS * i;
		x = tj_add(x, attend(w, tj_layer_norm(x, w[0], w[1], 1e-5)));
		x = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_layer_norm(x, w[4], w[5], 1e-5), w[6])), w[7]));
	}
	x = tj_matmul(tj_layer_norm(x, m[2], m[3], 1e-5), m[4]);
	return tj_cross_entropy(tj_reshape(x, TJ_SHAPE(-1, VOCAB)), tj_reshape(target, TJ_SHAPE(-1)));
}

static void adamw(const program *m, tj_tensor *const *grad, tj_tensor *rate)
{
	const double keep1 = 0.9, keep2 = 0.999;
	tj_tensor *t = tj_add(m->steps, tj_f(1));
	tj_tensor *unbias1 = tj_sub(tj_f(1), tj_pow(tj_f(keep1), t)), *unbias2 = tj_sub(tj_f(1), tj_pow(tj_f(keep2), t));
	for (int i = 0; i < m->n; i++) {
		tj_tensor *p = m->param[i], *g = grad[i];
		tj_tensor *first = tj_add(tj_mul(m->first[i], tj_f(keep1)), tj_mul(g, tj_f(1 - keep1)));
		tj_tensor *second = tj_add(tj_mul(m->second[i], tj_f(keep2)), tj_mul(tj_square(g), tj_f(1 - keep2)));
		tj_tensor *by = tj_div(tj_div(first, unbias1), tj_add(tj_sqrt(tj_div(second, unbias2)), tj_f(1e-8)));
		tj_assign(p, tj_sub(tj_mul(p, tj_sub(tj_f(1), tj_mul(rate, tj_f(0.01)))), tj_mul(by, rate)));
		tj_assign(m->first[i], first);
		tj_assign(m->second[i], second);
	}
	tj_assign(m->steps, t);
}

static void gpt(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const program *p = self;
	tj_tensor *grad[PARAMS];
	out[0] = loss_of(p, in[0], in[1]);
	if (tj_grad(grad, out[0], p->param, NULL) == TJ_OK) adamw(p, grad, tj_f(1e-3));
}

static void param(tj_ctx *c, program *p, tj_dims shape)
{
	p->first[p->n] = tj_param(c, TJ_F32, shape);
	p->second[p->n] = tj_param(c, TJ_F32, shape);
	p->param[p->n++] = tj_param(c, TJ_F32, shape);
}

static void gpt_params(tj_ctx *c, program *p)
{
	p->steps = tj_param(c, TJ_F32, TJ_0D);
	param(c, p, TJ_SHAPE(VOCAB, WIDTH));
	param(c, p, TJ_SHAPE(CONTEXT, WIDTH));
	param(c, p, TJ_SHAPE(WIDTH));
	param(c, p, TJ_SHAPE(WIDTH));
	param(c, p, TJ_SHAPE(WIDTH, VOCAB));
	for (int i = 0; i < p->size; i++) {
		param(c, p, TJ_SHAPE(WIDTH));
		param(c, p, TJ_SHAPE(WIDTH));
		param(c, p, TJ_SHAPE(WIDTH, 3 * WIDTH));
		param(c, p, TJ_SHAPE(WIDTH, WIDTH));
		param(c, p, TJ_SHAPE(WIDTH));
		param(c, p, TJ_SHAPE(WIDTH));
		param(c, p, TJ_SHAPE(WIDTH, 4 * WIDTH));
		param(c, p, TJ_SHAPE(4 * WIDTH, WIDTH));
	}
	p->param[p->n] = TJ_END;
}

/* ---- long and wide graphs ---- */
static tj_tensor *link(tj_tensor *x, tj_tensor *y, int i) { return i % 3 == 0 ? tj_mul(x, y) : i % 3 == 1 ? tj_add(x, y) : tj_tanh(x); }

static void chain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	for (int i = 0; i < ((const program *)self)->size; i++) x = link(x, in[1], i);
	out[0] = x;
}

static void chain_grad(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *grad[2];
	chain(out, in, self);
	if (tj_grad(grad, tj_sum(out[0], TJ_ALL, false), TJ_LIST(in[0], in[1]), NULL) == TJ_OK) out[0] = tj_add(grad[0], grad[1]);
}

static void fan_out(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *sum = tj_exp(in[0]), *x = sum;
	for (int i = 0; i < ((const program *)self)->size; i++) sum = tj_add(sum, tj_maximum(tj_mul(x, tj_f(0.5)), tj_i(i)));
	out[0] = sum;
}

static void fan_grad(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *grad[1];
	fan_out(out, in, self);
	if (tj_grad(grad, tj_sum(out[0], TJ_ALL, false), TJ_LIST(in[0]), NULL) == TJ_OK) out[0] = grad[0];
}

/* Each branch is a small tensor of its own. */
static void fan_sums(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = tj_exp(in[0]), *sum = tj_f(0);
	for (int i = 0; i < ((const program *)self)->size; i++) sum = tj_add(sum, tj_tanh(tj_sum(tj_mul(x, tj_i(i)), TJ_ALL, false)));
	out[0] = sum;
}

/* The branches do not meet again: each is an output of its own. */
static void fan_apart(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = tj_exp(in[0]);
	for (int i = 0; i < ((const program *)self)->size; i++) out[i] = tj_mul(x, tj_add(in[1], tj_i(i)));
}

static tj_tensor *mix(tj_tensor *x, tj_tensor *y, int i)
{
	tj_tensor *odd = tj_bitwise_xor(tj_mul(x, tj_i(0x9E3779B1)), tj_shift_right(x, tj_i(7 + i % 9)));
	tj_tensor *even = tj_add(tj_shift_left(x, tj_i(5)), tj_bitwise_xor(x, y));
	return tj_where(tj_eq(tj_bitwise_and(x, tj_i(1)), tj_i(0)), even, odd);
}

static void selects(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = tj_cast(in[0], TJ_I64), *y = tj_cast(in[1], TJ_I64);
	for (int i = 0; i < ((const program *)self)->size; i++) x = mix(x, y, i);
	out[0] = tj_cast(x, TJ_F32);
}

static void selects_f32(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *y = in[1];
	for (int i = 0; i < ((const program *)self)->size; i++)
		x = tj_where(tj_lt(x, tj_f(i)), tj_add(tj_mul(x, y), tj_f(1)), tj_sub(tj_mul(x, x), y));
	out[0] = x;
}

/* ---- measuring ---- */
typedef struct row { const char *name; tj_body *body; int size, nout; } row;
static const row rows[] = {
	{ "gpt_3", gpt, 3, 1 }, { "gpt_6", gpt, 6, 1 }, { "gpt_12", gpt, 12, 1 }, { "gpt_24", gpt, 24, 1 }, { "gpt_48", gpt, 48, 1 },
	{ "chain_2500", chain, CHAIN / 4, 1 }, { "chain_10000", chain, CHAIN, 1 },
	{ "chain_grad_2500", chain_grad, CHAIN / 4, 1 }, { "chain_grad_10000", chain_grad, CHAIN, 1 },
	{ "fan_out_1250", fan_out, BRANCHES / 4, 1 }, { "fan_out_5000", fan_out, BRANCHES, 1 },
	{ "fan_grad_1250", fan_grad, BRANCHES / 4, 1 }, { "fan_grad_5000", fan_grad, BRANCHES, 1 },
	{ "fan_sums_1250", fan_sums, BRANCHES / 4, 1 }, { "fan_sums_5000", fan_sums, BRANCHES, 1 },
	{ "fan_apart_1250", fan_apart, BRANCHES / 4, BRANCHES / 4 }, { "fan_apart_5000", fan_apart, BRANCHES, BRANCHES },
	{ "selects_20", selects, ROUNDS / 2, 1 }, { "selects_40", selects, ROUNDS, 1 },
	{ "selects_f32_20", selects_f32, ROUNDS / 2, 1 }, { "selects_f32_40", selects_f32, ROUNDS, 1 },
};

typedef struct figures { double trace_ms, lower_ms, codegen_ms, first_ms; int nodes, kernels, compiled; } figures;

/* Lines of the graph's text that are a node. */
static int nodes_of(tj_fn *f)
{
	char *text = NULL;
	size_t size = 0;
	int n = 0;
	FILE *m = open_memstream(&text, &size);
	if (!m) return 0;
	tj_dump(f, TJ_DUMP_GRAPH, m);
	fclose(m);
	for (const char *s = text; s && (s = strstr(s, "%")); s++) n += s == text || s[-1] == '\n';
	free(text);
	return n;
}

static void measure(tj_ctx *c, const row *r, program *p, tj_tensor *const *in, figures *x)
{
	tj_tensor **out = calloc((size_t)r->nout + 1, sizeof *out);
	tj_scope *s = tj_push(c);
	tj_fn *f = tj_compile(c, r->body, p, TJ_OPTS(tj_compile_opts, .name = r->name, .nin = 2, .nout = r->nout));
	tj_stats n = { .size = sizeof n };
	const double begin = bench_now();
	tj_call(f, out, in);
	*x = (figures){ .first_ms = (bench_now() - begin) * 1e3 };
	tj_fn_stats(f, &n);
	x->trace_ms = n.trace_ms, x->lower_ms = n.lower_ms, x->codegen_ms = n.codegen_ms;
	x->kernels = (int)n.kernels, x->compiled = (int)n.compiled;
	x->nodes = nodes_of(f);
	tj_fn_free(f);
	tj_pop(s);
	free(out);
}

static void put(const row *r, const figures *x, bool json)
{
	const double each = (x->trace_ms + x->lower_ms) * 1e3 / (x->nodes ? x->nodes : 1);
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"lower_%s\", \"nodes\": %d, \"trace_ms\": %.3f, \"lower_ms\": %.3f, \"us_a_node\": %.3f, "
	              "\"codegen_ms\": %.2f, \"first_ms\": %.2f, \"kernels\": %d, \"compiled\": %d}\n"
	            : "%-18s %6d nodes: trace %8.2f ms, lower %9.2f ms, %7.2f us a node; code generation %8.1f ms, first call %9.1f ms; %5d "
	              "kernels, %4d compiled\n",
	       r->name, x->nodes, x->trace_ms, x->lower_ms, each, x->codegen_ms, x->first_ms, x->kernels, x->compiled);
	fflush(stdout);
}

/* The quickest of a few turns, each with a function of its own; one if that takes long. */
static bool run_row(const row *r, const bench_lowering_opts *o)
{
	tj_ctx *was = tj_ctx_current(), *c = tj_open(NULL);
	program p = { .size = r->size };
	tj_tensor *in[3] = { NULL, NULL, TJ_END };
	static const float v[BATCH * CONTEXT] = { 0.5f };
	static const int64_t id[BATCH * CONTEXT] = { 1 };
	figures best = { 0 }, x;
	for (int i = 0; i < 2; i++)
		in[i] = r->body == gpt ? tj_from_data(c, TJ_I64, TJ_SHAPE(BATCH, CONTEXT), id)
		                       : tj_from_data(c, TJ_F32, TJ_SHAPE(BATCH * CONTEXT), v);
	if (r->body == gpt) gpt_params(c, &p);
	double begin = bench_now();
	for (int i = 0; i < (o->quick ? 1 : TURNS) && (!i || bench_now() - begin < o->seconds); i++) {
		measure(c, r, &p, in, &x);
		if (!i || x.lower_ms < best.lower_ms) best = x;
	}
	const bool good = tj_check(c) == TJ_OK;
	if (good) put(r, &best, o->json);
	else tj_perror(c, stderr);
	tj_close(c);
	tj_ctx_use(was);
	return good;
}

int bench_lowering(const bench_lowering_opts *o)
{
	int failed = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (o->want(o->env, rows[i].name)) failed += !run_row(&rows[i], o);
	}
	return failed != 0;
}
