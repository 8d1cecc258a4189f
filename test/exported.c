/* SPDX-License-Identifier: MIT */
/* A program for test/export.sh: three models, traced and exported, or imported. Prints a number for the bits of their results at several
 * sizes, and whether something was compiled.
 *   exported write folder        exported run folder        exported time folder: traced and imported calls in turns
 *   exported objects folder: object files and headers of what `write` wrote, for embedded.c */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tj.h>

enum { WIDTH = 64, HEADS = 4, LAYERS = 2, CONTEXT = 48, MOST = 1 << 18 };
static float numbers[MOST];
static tj_tensor *weight[8 * LAYERS + 4];

static tj_tensor *normed(tj_tensor *x) { return tj_layer_norm_over(x, TJ_SHAPE(WIDTH), NULL, NULL, 1e-5); }

/* A step of a small GPT: in[0] the new token's embedding [WIDTH]; in[1], in[2] keys and values so far [LAYERS, T, WIDTH]. */
static void gpt(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t t = tj_dim(in[1], 1);
	tj_tensor *x = tj_reshape(in[0], TJ_SHAPE(1, WIDTH)), *k[LAYERS + 1], *v[LAYERS + 1];
	for (int l = 0; l < LAYERS; l++) {
		tj_tensor **w = weight + 8 * l, *h = normed(x), *q = tj_matmul(h, w[0]);
		tj_tensor *keys = tj_cat(TJ_LIST(tj_select(in[1], 0, l), tj_matmul(h, w[1])), 0);
		tj_tensor *values = tj_cat(TJ_LIST(tj_select(in[2], 0, l), tj_matmul(h, w[2])), 0);
		tj_tensor *kh = tj_permute(tj_reshape(keys, TJ_SHAPE(t + 1, HEADS, WIDTH / HEADS)), TJ_SHAPE(1, 2, 0));
		tj_tensor *vh = tj_permute(tj_reshape(values, TJ_SHAPE(t + 1, HEADS, WIDTH / HEADS)), TJ_SHAPE(1, 0, 2));
		tj_tensor *p = tj_matmul(tj_reshape(q, TJ_SHAPE(HEADS, 1, WIDTH / HEADS)), kh);
		tj_tensor *y = tj_matmul(tj_softmax(tj_mul(p, tj_f(1 / sqrt(WIDTH / HEADS))), 2), vh);
		x = tj_add(x, tj_matmul(tj_reshape(y, TJ_SHAPE(1, WIDTH)), w[3]));
		x = tj_add(x, tj_matmul(tj_gelu(tj_matmul(normed(x), w[4])), w[5]));
		k[l] = keys, v[l] = values;
	}
	k[LAYERS] = v[LAYERS] = TJ_END;
	out[0] = tj_softmax(tj_matmul(normed(x), weight[8 * LAYERS]), 1);
	out[1] = tj_stack(k, 0);
	out[2] = tj_stack(v, 0);
}

/* Digits: two convolutions, pools, a linear layer; any batch. */
static void digits(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_max_pool2d(tj_relu(tj_conv2d(in[0], weight[8 * LAYERS + 1], NULL, NULL)), TJ_SHAPE(2, 2), NULL);
	y = tj_max_pool2d(tj_relu(tj_conv2d(y, weight[8 * LAYERS + 2], NULL, NULL)), TJ_SHAPE(2, 2), NULL);
	out[0] = tj_log_softmax(tj_matmul(tj_reshape(y, TJ_SHAPE(tj_dim(in[0], 0), -1)), weight[8 * LAYERS + 3]), 1);
}

static void options(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *s = in[0], *k = in[1], *r = tj_f(0.03), *v = in[2];
	tj_tensor *d1 = tj_div(tj_add(tj_log(tj_div(s, k)), tj_add(r, tj_mul(tj_f(0.5), tj_mul(v, v)))), v), *d2 = tj_sub(d1, v);
	tj_tensor *n1 = tj_mul(tj_f(0.5), tj_erfc(tj_mul(d1, tj_f(-0.7071067811865476))));
	tj_tensor *n2 = tj_mul(tj_f(0.5), tj_erfc(tj_mul(d2, tj_f(-0.7071067811865476))));
	out[0] = tj_sub(tj_mul(s, n1), tj_mul(tj_mul(k, tj_exp(tj_neg(r))), n2));
}

typedef struct model {
	const char *name, *shapes;
	tj_body *body;
	int nin, nout, sizes[5];
	int64_t dims[3][4]; /* -1: the size that varies */
} model;

static const model models[] = {
	{ "gpt",
	  "x: f32[64], k: f32[2,T,64], v: f32[2,T,64]; T in 1..48",
	  gpt,
	  3,
	  3,
	  { 1, 2, 17, CONTEXT },
	  { { WIDTH }, { LAYERS, -1, WIDTH }, { LAYERS, -1, WIDTH } } },
	{ "digits", "x: f32[B,1,28,28]; B in 1..16", digits, 1, 1, { 1, 3, 16 }, { { -1, 1, 28, 28 } } },
	{ "options", "s: f32[N], k: f32[N], v: f32[N]; N in 1..1000", options, 3, 1, { 1, 10, 1000 }, { { -1 }, { -1 }, { -1 } } },
};

static tj_tensor *param(tj_ctx *c, tj_dims dims)
{
	static int at;
	tj_tensor *t = tj_param(c, TJ_F32, dims);
	const size_t n = (size_t)tj_numel(t);
	float *v = malloc(n * sizeof *v);
	for (size_t i = 0; i < n; i++) v[i] = numbers[(size_t)(at + 3 * (int)i) % MOST] / 8;
	at += 1001;
	tj_write(t, v, n * sizeof *v);
	free(v);
	return t;
}

static void make_weights(tj_ctx *c)
{
	for (int l = 0; l < LAYERS; l++)
		for (int i = 0; i < 6; i++)
			weight[8 * l + i] = i == 4   ? param(c, TJ_SHAPE(WIDTH, 4 * WIDTH))
			                    : i == 5 ? param(c, TJ_SHAPE(4 * WIDTH, WIDTH))
			                             : param(c, TJ_SHAPE(WIDTH, WIDTH));
	weight[8 * LAYERS] = param(c, TJ_SHAPE(WIDTH, 100));
	weight[8 * LAYERS + 1] = param(c, TJ_SHAPE(8, 1, 5, 5));
	weight[8 * LAYERS + 2] = param(c, TJ_SHAPE(16, 8, 5, 5));
	weight[8 * LAYERS + 3] = param(c, TJ_SHAPE(256, 10));
}

static void inputs(tj_ctx *c, const model *m, int size, tj_tensor **in)
{
	for (int i = 0; i < m->nin; i++) {
		int64_t dims[5];
		int r = 0;
		for (; r < 4 && m->dims[i][r]; r++) dims[r] = m->dims[i][r] == -1 ? size : m->dims[i][r];
		dims[r] = TJ_END_DIM;
		in[i] = tj_from_data(c, TJ_F32, dims, numbers + 13 * i);
	}
	in[m->nin] = TJ_END;
}

static int run(tj_ctx *c, const model *m, tj_fn *f)
{
	static char bytes[4 * MOST];
	unsigned long long h = 14695981039346656037u;
	for (int i = 0; m->sizes[i]; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *in[4], *out[4];
		inputs(c, m, m->sizes[i], in);
		if (tj_call(f, out, in) != TJ_OK) return 1;
		for (int k = 0; k < m->nout; k++) {
			const size_t n = 4 * (size_t)tj_numel(out[k]);
			tj_read(out[k], bytes, n);
			for (size_t b = 0; b < n; b++) h = (h ^ (unsigned char)bytes[b]) * 1099511628211u;
		}
		tj_pop(s);
	}
	tj_stats st = { .size = sizeof st };
	tj_fn_stats(f, &st);
	printf("%s %016llx compiled %llu\n", m->name, h, (unsigned long long)st.compiled);
	return tj_check(c) != TJ_OK;
}

static double best_of(tj_ctx *c, const model *m, tj_fn *f, int times)
{
	double best = 1e9;
	tj_tensor *in[4], *out[4];
	inputs(c, m, m->sizes[2] ? m->sizes[2] : m->sizes[1], in);
	for (int i = 0; i < times; i++) {
		struct timespec a, b;
		tj_scope *s = tj_push(c);
		clock_gettime(CLOCK_MONOTONIC, &a);
		tj_call(f, out, in);
		clock_gettime(CLOCK_MONOTONIC, &b);
		tj_pop(s);
		const double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
		if (us < best) best = us;
	}
	return best;
}

static void measure(tj_ctx *c, const model *m, tj_fn *traced, tj_fn *imported)
{
	double a = 1e9, b = 1e9;
	for (int turn = 0; turn < 7; turn++) {
		const double x = best_of(c, m, traced, 300), y = best_of(c, m, imported, 300);
		a = x < a ? x : a;
		b = y < b ? y : b;
	}
	printf("%s: traced %.2f us, imported %.2f us, ratio %.3f\n", m->name, a, b, b / a);
}

static bool object_of(tj_ctx *c, const char *folder, const char *name)
{
	char from[600], to[600], header[600];
	snprintf(from, sizeof from, "%s/%s.tjx", folder, name);
	snprintf(to, sizeof to, "%s/%s.o", folder, name);
	snprintf(header, sizeof header, "%s/%s.h", folder, name);
	return tj_export_object(c, from, to, TJ_OPTS(tj_object_opts, .name = name, .header = header)) == TJ_OK;
}

static bool maps(const char *what)
{
	char line[600];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f)) found |= strstr(line, what) != NULL;
	if (f) fclose(f);
	return found;
}

int main(int argc, char **argv)
{
	if (argc < 3) return 2;
	tj_ctx *c = tj_open(NULL);
	int failed = 0;
	for (int i = 0; i < MOST; i++) numbers[i] = 0.01f + (float)((i * 37) % 101) / 60;
	if (strcmp(argv[1], "run") && strcmp(argv[1], "objects")) make_weights(c);
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const model *m = &models[i];
		char path[600];
		if (!strcmp(argv[1], "objects")) {
			failed |= !object_of(c, argv[2], m->name);
			continue;
		}
		snprintf(path, sizeof path, "%s/%s.tjx", argv[2], m->name);
		tj_fn *f = !strcmp(argv[1], "run") ? tj_import(c, path, NULL)
		                                   : tj_compile(c, m->body, NULL,
		                                                TJ_OPTS(tj_compile_opts, .name = m->name, .nin = m->nin, .nout = m->nout,
		                                                        .shapes = m->shapes));
		if (!strcmp(argv[1], "time")) {
			measure(c, m, f, tj_import(c, path, NULL));
			continue;
		}
		failed |= !f || run(c, m, f);
		if (!strcmp(argv[1], "write")) failed |= tj_export(f, path, NULL) != TJ_OK;
	}
	if (failed) tj_check(c), fprintf(stderr, "%s: %s (%s)\n", tj_last_error(c)->op, tj_last_error(c)->message, tj_last_error(c)->hint);
	if (!failed && strcmp(argv[1], "write") && strcmp(argv[1], "time") && maps("libtj-llvm")) failed = 1, printf("a compiler was opened\n");
	tj_close(c);
	return failed;
}
