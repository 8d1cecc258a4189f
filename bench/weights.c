/* SPDX-License-Identifier: MIT */
/* tj-weights: f32 rows times weights of f32, and of small integers that tj_quantise_weight() makes; a language model that decodes.
 *
 *   tj-weights ROWS K N        one product, the weights stored [k,n] and [n,k]
 *   tj-weights gpt [LAYERS]    one token through LAYERS (6) of the 22 layers of TinyLlama's sizes (1.1e9 weights), with its head of 32,000
 *
 * Weights are frozen, x is random. The times are the best of many calls. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tjmodel.h>

enum { WIDTH = 2048, HEADS = 32, HEAD = 64, KV = 4, INNER = 5632, WORDS = 32000, PAST = 256, MOST = 22 * 4 + 1 };
static const struct { const char *name; tj_quantise how; int64_t group; } kinds[] = {
	{ "f32", TJ_QUANTISE_NONE, 0 },    { "dynamic", TJ_QUANTISE_DYNAMIC, 0 }, { "i8", TJ_QUANTISE_I8, 0 },
	{ "i8, 64", TJ_QUANTISE_I8, 64 },  { "i4, 64", TJ_QUANTISE_I4, 64 },
};
typedef struct net { tj_weight w[MOST]; int n, layers; size_t bytes; } net;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void add_weight(tj_ctx *c, net *m, int kind, int64_t k, int64_t n, bool transposed)
{
	tj_weight *w = &m->w[m->n];
	tj_scope *s = tj_push(c);
	tj_tensor *v = tj_mul(tj_uniform(TJ_F32, transposed ? TJ_SHAPE(n, k) : TJ_SHAPE(k, n)), tj_f(0.05));
	if (kinds[kind].how == TJ_QUANTISE_NONE) *w = (tj_weight){ .transposed = transposed, .k = k, .n = n, .values = v };
	else if (tj_quantise_weight(v, transposed, kinds[kind].how, kinds[kind].group, w) != TJ_OK) tj_perror(c, stderr), exit(1);
	w->values = tj_retain(w->values);
	m->bytes += (size_t)tj_numel(w->values) * tj_dtype_size(tj_dtype_of(w->values));
	if (w->scale) w->scale = tj_retain(w->scale), m->bytes += (size_t)tj_numel(w->scale) * 4;
	m->n++;
	tj_pop(s);
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_weight_matmul(in[0], ((net *)self)->w); }

static tj_tensor *normal(tj_tensor *x) { return tj_rms_norm(x, tj_full(TJ_F32, TJ_SHAPE(WIDTH), tj_f(1)), 1e-5); }

/* in: x [1,WIDTH]; out: [1,WORDS]. The past is the same in all layers, of this token's own key and value. */
static void decode(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	tj_tensor *x = in[0];
	for (int i = 0; i < m->layers; i++) {
		const tj_weight *w = m->w + 4 * i;
		tj_tensor *qkv = tj_weight_matmul(normal(x), &w[0]); /* [1,(HEADS + 2 KV) HEAD] */
		tj_tensor *q = tj_reshape(tj_slice(qkv, 1, 0, HEADS * HEAD, 1), TJ_SHAPE(KV, HEADS / KV, HEAD));
		tj_tensor *k = tj_reshape(tj_slice(qkv, 1, HEADS * HEAD, (HEADS + KV) * HEAD, 1), TJ_SHAPE(KV, 1, HEAD));
		tj_tensor *v = tj_reshape(tj_slice(qkv, 1, (HEADS + KV) * HEAD, (HEADS + 2 * KV) * HEAD, 1), TJ_SHAPE(KV, 1, HEAD));
		k = tj_add(k, tj_reshape(in[1], TJ_SHAPE(KV, PAST, HEAD))), v = tj_add(v, tj_reshape(in[1], TJ_SHAPE(KV, PAST, HEAD)));
		tj_tensor *p = tj_softmax(tj_mul(tj_matmul(q, tj_transpose(k, 1, 2)), tj_f(0.125)), -1);
		x = tj_add(x, tj_weight_matmul(tj_reshape(tj_matmul(p, v), TJ_SHAPE(1, WIDTH)), &w[1]));
		tj_tensor *up = tj_weight_matmul(normal(x), &w[2]);
		up = tj_mul(tj_silu(tj_slice(up, 1, 0, INNER, 1)), tj_slice(up, 1, INNER, 2 * INNER, 1));
		x = tj_add(x, tj_weight_matmul(up, &w[3]));
	}
	out[0] = tj_weight_matmul(normal(x), &m->w[4 * m->layers]);
}

/* Microseconds. */
static double measure(tj_ctx *c, net *m, tj_body *body, tj_tensor *const *in, int nin)
{
	enum { TURNS = 200, SECONDS = 3 };
	tj_tensor **vars[2 * MOST + 1];
	int n = 0;
	for (int i = 0; i < m->n; i++) {
		vars[n++] = &m->w[i].values;
		if (m->w[i].scale) vars[n++] = &m->w[i].scale;
	}
	vars[n] = (tj_tensor **)(uintptr_t)TJ_END_VAR;
	tj_fn *f = tj_compile(c, body, m, TJ_OPTS(tj_compile_opts, .name = "f", .nin = nin, .nout = 1, .mode = TJ_DIRECT, .freeze = vars));
	double best = 1e9;
	const double begin = now();
	for (int i = 0; i < TURNS && (i < 5 || now() - begin < SECONDS); i++) {
		tj_scope *s = tj_push(c);
		const double a = now();
		tj_call1(f, in);
		const double t = now() - a;
		if (i && t < best) best = t;
		tj_pop(s);
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr), exit(1);
	return best * 1e6;
}

int main(int argc, char **argv)
{
	const bool gpt = argc > 1 && !strcmp(argv[1], "gpt");
	if (!gpt && argc != 4) return fprintf(stderr, "tj-weights ROWS K N | gpt [LAYERS]\n"), 2;
	for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
		for (int transposed = gpt; transposed < 2; transposed++) {
			static net m;
			tj_ctx *c = tj_open(NULL);
			m = (net){ .layers = gpt ? argc > 2 ? atoi(argv[2]) : 6 : 0 };
			if (m.layers * 4 + 1 > MOST || m.layers < 0) return 2;
			for (int i = 0; i < m.layers; i++) {
				add_weight(c, &m, (int)kind, WIDTH, (HEADS + 2 * KV) * HEAD, true), add_weight(c, &m, (int)kind, WIDTH, WIDTH, true);
				add_weight(c, &m, (int)kind, WIDTH, 2 * INNER, true), add_weight(c, &m, (int)kind, INNER, WIDTH, true);
			}
			const int64_t rows = gpt ? 1 : atoi(argv[1]), k = gpt ? WIDTH : atoi(argv[2]), n = gpt ? WORDS : atoi(argv[3]);
			add_weight(c, &m, (int)kind, k, n, transposed);
			tj_tensor *x = tj_normal(TJ_F32, TJ_SHAPE(rows, k)), *past = tj_normal(TJ_F32, TJ_SHAPE(KV * PAST * HEAD));
			const double us = measure(c, &m, gpt ? decode : product, gpt ? TJ_LIST(x, past) : TJ_LIST(x), gpt ? 2 : 1);
			printf("%-8s %s %9.0f us, %6.1f MB of weights, %5.1f GB/s\n", kinds[kind].name, transposed ? "[n,k]" : "[k,n]", us,
			       (double)m.bytes / 1e6, (double)m.bytes / us / 1e3);
			fflush(stdout);
			for (int i = 0; i < m.n; i++) tj_release(m.w[i].values), m.w[i].scale ? tj_release(m.w[i].scale) : (void)0;
			tj_close(c);
		}
	return 0;
}
