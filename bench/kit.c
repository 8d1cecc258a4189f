/* SPDX-License-Identifier: MIT */
/* Training steps written with the kit, for bench/kit.py, which has the same in PyTorch and JAX:
 *
 *   build/tj-kit [REGEX]     prints a line of JSON for each case: median time of a step, of the first one, most memory, losses
 *
 * cnn: [64,1,28,28], two convolutions and two linear layers. gpt: 4 blocks of width 128, 64 places, batch 32. lstm: 32 texts of 64
 * characters, width 128. vae: 784 to 20 and back, batch 64. diffusion: five convolutions with group norms on [64,1,16,16]. AdamW, f32. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <tjnn.h>

enum { VOCAB = 96, PLACES = 64, WIDTH = 128, BLOCKS = 4 };

typedef struct net {
	tjnn_sequential chain, decode;
	tjnn_embedding token, place;
	tjnn_encoder_block block[BLOCKS];
	tjnn_recurrent lstm;
	tjnn_linear head, mean, spread, time;
	tjnn_norm norm;
} net;

typedef struct bench {
	net net;
	const struct kind *kind;
	tjnn_optim *optim;
} bench;

typedef struct kind {
	const char *name;
	tjnn_layers *layers;
	tj_tensor *(*loss)(net *m, tj_tensor *const *in);
	int64_t dim[2][4]; /* of both arguments */
	int classes[2];    /* below 1: floats */
} kind;

/* ---- cnn ---- */
static const tjnn_spec cnn[] = {
	{ .kind = TJNN_CONV2D, .in = 1, .out = 32, .kernel = 3 },
	{ .kind = TJNN_RELU },
	{ .kind = TJNN_CONV2D, .in = 32, .out = 64, .kernel = 3 },
	{ .kind = TJNN_RELU },
	{ .kind = TJNN_MAX_POOL2D, .kernel = 2 },
	{ .kind = TJNN_FLATTEN },
	{ .kind = TJNN_LINEAR, .in = 9216, .out = 128 },
	{ .kind = TJNN_RELU },
	{ .kind = TJNN_LINEAR, .in = 128, .out = 10 },
	{ .kind = TJNN_END_SPEC },
};
static void cnn_layers(tjnn_walk *w, void *self) { tjnn_sequential_layer(w, "net", &((net *)self)->chain, cnn); }
static tj_tensor *cnn_loss(net *m, tj_tensor *const *in) { return tj_cross_entropy(tjnn_sequential_apply(&m->chain, in[0], true), in[1]); }

/* ---- gpt ---- */
static void gpt_layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_embedding_layer(w, "token", &m->token, VOCAB, WIDTH, -1);
	tjnn_embedding_layer(w, "place", &m->place, PLACES, WIDTH, -1);
	for (int i = 0; i < BLOCKS; i++) {
		tjnn_encoder_block_layer(w, tjnn_name(w, "block%d", i), &m->block[i],
		                         TJ_OPTS(tjnn_block_opts, .width = WIDTH, .heads = 4, .gelu = true, .norm_first = true));
	}
	tjnn_layer_norm_layer(w, "norm", &m->norm, TJ_SHAPE(WIDTH), true);
	tjnn_linear_layer(w, "head", &m->head, WIDTH, VOCAB, false);
}
static tj_tensor *gpt_loss(net *m, tj_tensor *const *in)
{
	tj_tensor *x = tj_add(tjnn_embedding_apply(&m->token, in[0]), m->place.weight);
	for (int i = 0; i < BLOCKS; i++) x = tjnn_encoder_block_apply(&m->block[i], x, TJ_OPTS(tjnn_attend, .causal = true), true);
	x = tjnn_linear_apply(&m->head, tjnn_norm_apply(&m->norm, x, true));
	return tj_cross_entropy(tj_reshape(x, TJ_SHAPE(-1, VOCAB)), tj_flatten(in[1], 0, -1));
}

/* ---- lstm ---- */
static void lstm_layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_embedding_layer(w, "token", &m->token, 64, 64, -1);
	tjnn_recurrent_layer(w, "lstm", &m->lstm, TJNN_LSTM, 64, WIDTH, NULL);
	tjnn_linear_layer(w, "head", &m->head, WIDTH, 64, true);
}
static tj_tensor *lstm_loss(net *m, tj_tensor *const *in)
{
	tj_tensor *y = tjnn_recurrent_apply(&m->lstm, tjnn_embedding_apply(&m->token, in[0]), NULL, true);
	return tj_cross_entropy(tj_reshape(tjnn_linear_apply(&m->head, y), TJ_SHAPE(-1, 64)), tj_flatten(in[1], 0, -1));
}

/* ---- vae ---- */
static const tjnn_spec up[] = { { .kind = TJNN_LINEAR, .in = 784, .out = 400 }, { .kind = TJNN_RELU }, { .kind = TJNN_END_SPEC } };
static const tjnn_spec down[] = {
	{ .kind = TJNN_LINEAR, .in = 20, .out = 400 },
	{ .kind = TJNN_RELU },
	{ .kind = TJNN_LINEAR, .in = 400, .out = 784 },
	{ .kind = TJNN_END_SPEC },
};
static void vae_layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_sequential_layer(w, "up", &m->chain, up);
	tjnn_linear_layer(w, "mean", &m->mean, 400, 20, true);
	tjnn_linear_layer(w, "spread", &m->spread, 400, 20, true);
	tjnn_sequential_layer(w, "down", &m->decode, down);
}
static tj_tensor *vae_loss(net *m, tj_tensor *const *in)
{
	tj_tensor *x = tj_sigmoid(in[0]), *h = tjnn_sequential_apply(&m->chain, x, true);
	tj_tensor *mean = tjnn_linear_apply(&m->mean, h), *log_var = tjnn_linear_apply(&m->spread, h);
	tj_tensor *z = tj_add(mean, tj_mul(tj_exp(tj_mul(log_var, tj_f(0.5))), tj_normal(TJ_F32, TJ_SHAPE(64, 20))));
	tj_tensor *y = tjnn_sequential_apply(&m->decode, z, true);
	tj_tensor *kl = tj_sub(tj_sub(tj_add(tj_f(1), log_var), tj_square(mean)), tj_exp(log_var));
	tj_tensor *loss = tj_sum(tj_sub(tj_softplus(y, 1, 20), tj_mul(x, y)), TJ_ALL, false); /* cross entropy of bits, with logits */
	return tj_div(tj_sub(loss, tj_mul(tj_sum(kl, TJ_ALL, false), tj_f(0.5))), tj_f(64));
}

/* ---- diffusion ---- */
#define LAYER(a, b) \
	{ .kind = TJNN_CONV2D, .in = a, .out = b, .kernel = 3, .padding = 1 }, { .kind = TJNN_GROUP, .out = b, .groups = 8 }, \
	{ \
		.kind = TJNN_SILU \
	}
static const tjnn_spec first[] = { LAYER(1, 32), LAYER(32, 64), { .kind = TJNN_END_SPEC } };
static const tjnn_spec rest[] = {
	LAYER(64, 64), LAYER(64, 32), { .kind = TJNN_CONV2D, .in = 32, .out = 1, .kernel = 3, .padding = 1 }, { .kind = TJNN_END_SPEC }
};
static void diffusion_layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_sequential_layer(w, "first", &m->chain, first);
	tjnn_linear_layer(w, "time", &m->time, 1, 64, true);
	tjnn_sequential_layer(w, "rest", &m->decode, rest);
}
static tj_tensor *diffusion_loss(net *m, tj_tensor *const *in)
{
	tj_tensor *t = tj_uniform(TJ_F32, TJ_SHAPE(64, 1)), *noise = tj_normal(TJ_F32, TJ_SHAPE(64, 1, 16, 16));
	tj_tensor *keep = tj_reshape(tj_cos(tj_mul(t, tj_f(1.5))), TJ_SHAPE(64, 1, 1, 1)), *mix = tj_sqrt(tj_sub(tj_f(1), tj_square(keep)));
	tj_tensor *x = tjnn_sequential_apply(&m->chain, tj_add(tj_mul(in[0], keep), tj_mul(noise, mix)), true);
	x = tj_add(x, tj_reshape(tjnn_linear_apply(&m->time, t), TJ_SHAPE(64, 64, 1, 1)));
	return tj_mse_loss(tjnn_sequential_apply(&m->decode, x, true), noise, TJ_LOSS_MEAN);
}

#define D(...) \
	{ \
		__VA_ARGS__, TJ_END_DIM \
	}
static const kind kinds[] = {
	{ "cnn", cnn_layers, cnn_loss, { { 64, 1, 28, 28 }, D(64) }, { 0, 10 } },
	{ "gpt", gpt_layers, gpt_loss, { D(32, PLACES), D(32, PLACES) }, { VOCAB, VOCAB } },
	{ "lstm", lstm_layers, lstm_loss, { D(32, 64), D(32, 64) }, { 64, 64 } },
	{ "vae", vae_layers, vae_loss, { D(64, 784), D(1) }, { 0, 0 } },
	{ "diffusion", diffusion_layers, diffusion_loss, { { 64, 1, 16, 16 }, D(1) }, { 0, 0 } },
};

/* ---- timing ---- */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
static int by_time(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	bench *b = self;
	out[0] = b->kind->loss(&b->net, in);
	tjnn_optim_step(b->optim, out[0]);
}

static tj_tensor *argument(tj_ctx *c, const kind *k, int i)
{
	int64_t shape[5], n = 1;
	int rank = 0;
	for (; rank < 4 && k->dim[i][rank] != TJ_END_DIM; rank++) n *= shape[rank] = k->dim[i][rank];
	shape[rank] = TJ_END_DIM;
	float *v = malloc((size_t)n * sizeof *v);
	for (int64_t j = 0; j < n; j++) v[j] = (float)((j * 7919 + i * 31) % 1009) / 1009;
	tj_tensor *t = tj_from_data(c, TJ_F32, shape, v);
	free(v);
	return tj_retain(k->classes[i] < 1 ? t : tj_cast(tj_floor(tj_mul(t, tj_f(k->classes[i]))), TJ_I64));
}

static int run(const kind *k)
{
	enum { WARM = 5, TIMES = 41 };
	static bench b;
	double us[TIMES], first = 0, loss = 0, last = 0;
	tj_ctx *c = tj_open(NULL);
	memset(&b, 0, sizeof b);
	b.kind = k;
	tjnn_model *m = tjnn_open(c, k->layers, &b.net, NULL);
	if (m) b.optim = tjnn_optim_open(m, tjnn_adamw(1e-3), NULL);
	tj_fn *f = tj_compile(c, step, &b, TJ_OPTS(tj_compile_opts, .name = k->name, .nin = 2, .nout = 1));
	tj_tensor *x = argument(c, k, 0), *y = argument(c, k, 1);
	for (int i = -WARM; i < TIMES; i++) {
		tj_scope *s = tj_push(c);
		const double t0 = now();
		last = tj_item(tj_call1(f, TJ_LIST(x, y)));
		if (i == -WARM) first = now() - t0, loss = last;
		if (i >= 0) us[i] = now() - t0;
		tj_pop(s);
	}
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	qsort(us, TIMES, sizeof *us, by_time);
	printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.0f, \"least_us\": %.0f, \"first_ms\": %.1f, \"rss_mb\": %.0f, \"params\": %lld, "
	       "\"first_loss\": %.5f, \"last_loss\": %.5f}\n",
	       k->name, us[TIMES / 2], us[0], first / 1e3, (double)u.ru_maxrss / 1024, (long long)tjnn_numel(m, true), loss, last);
	fflush(stdout);
	if (getenv("TJ_PROFILE")) tj_dump(f, TJ_DUMP_PLAN, stderr);
	tj_close(c);
	return 0;
}

int main(int argc, char **argv)
{
	regex_t r;
	int rc = 0;
	setenv("TJ_CACHE", "off", 0);
	if (regcomp(&r, argc > 1 ? argv[1] : ".", REG_EXTENDED | REG_NOSUB)) return 2;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!regexec(&r, kinds[i].name, 0, NULL, 0)) rc |= run(&kinds[i]);
	regfree(&r);
	return rc;
}
