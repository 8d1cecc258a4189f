/* SPDX-License-Identifier: MIT */
/* A server for a layer that PyTorch has trained: nn.TransformerEncoderLayer(batch_first=True) in eval mode. The weights come from a file,
 * with PyTorch's names and layouts. Four threads serve requests of different batch and length, each in a context of its own; the function
 * and the weights belong to all. The answers have the bits that one thread gives. */
#include <tj.h>

#include <pthread.h>
#include <string.h>

enum { E = 32, HEADS = 4, HIDDEN = 64, MAX_BATCH = 5, MAX_LENGTH = 20, REQUESTS = 60, THREADS = 4 };
enum { LARGEST = 3 * E * E, MOST = MAX_BATCH * MAX_LENGTH * E };

enum { IN_W, IN_B, OUT_W, OUT_B, W1, B1, W2, B2, NORM1_W, NORM1_B, NORM2_W, NORM2_B, WEIGHTS };
static const struct { const char *name; int64_t rows, columns; /* columns 0: a vector */ } layout[WEIGHTS] = {
	{ "self_attn.in_proj_weight", 3 * E, E }, { "self_attn.in_proj_bias", 3 * E, 0 }, { "self_attn.out_proj.weight", E, E },
	{ "self_attn.out_proj.bias", E, 0 }, { "linear1.weight", HIDDEN, E }, { "linear1.bias", HIDDEN, 0 }, { "linear2.weight", E, HIDDEN },
	{ "linear2.bias", E, 0 }, { "norm1.weight", E, 0 }, { "norm1.bias", E, 0 }, { "norm2.weight", E, 0 }, { "norm2.bias", E, 0 },
};
static tj_tensor *weight[WEIGHTS];

static float small(void) /* from -0.5 to 0.5, the same on every machine */
{
	static uint32_t s = 7;
	s = s * 1664525u + 1013904223u;
	return (float)(s >> 8) * 0x1p-24f - 0.5f;
}

/* The file: for each tensor a line "name rows columns", then its floats. From Python: for n, t in layer.state_dict().items(): ... */
static void save(FILE *f)
{
	static float data[LARGEST];
	for (int i = WEIGHTS; i-- > 0;) { /* in any order */
		const int64_t n = layout[i].rows * (layout[i].columns ? layout[i].columns : 1);
		for (int k = 0; k < n; k++) data[k] = small() + (i == NORM1_W || i == NORM2_W);
		fprintf(f, "%s %d %d\n", layout[i].name, (int)layout[i].rows, (int)layout[i].columns);
		fwrite(data, sizeof *data, (size_t)n, f);
	}
}

static bool load(tj_ctx *c, FILE *f)
{
	static float data[LARGEST];
	char name[64];
	int rows, columns, i, found = 0;
	while (fscanf(f, "%63s %d %d", name, &rows, &columns) == 3 && fgetc(f) == '\n') {
		for (i = 0; i < WEIGHTS && strcmp(name, layout[i].name) != 0; i++);
		if (i == WEIGHTS || rows != layout[i].rows || columns != layout[i].columns) return false;
		const size_t n = (size_t)rows * (size_t)(columns ? columns : 1);
		if (fread(data, sizeof *data, n, f) != n) return false;
		weight[i] = tj_param(c, TJ_F32, columns ? TJ_SHAPE(rows, columns) : TJ_SHAPE(rows));
		tj_write(weight[i], data, n * sizeof *data);
		found++;
	}
	return found == WEIGHTS;
}

/* in: x [B,L,E], how many places of each row are real, i64 [B] */
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], **w = self, *place = tj_arange(TJ_I64, 0, tj_dim(x, 1), 1), *y;
	y = tj_multi_head_attention(x, x, x, HEADS, w[IN_W], w[OUT_W],
	                            TJ_OPTS(tj_multi_head_opts, .in_bias = w[IN_B], .out_bias = w[OUT_B],
	                                    .padding = tj_ge(place, tj_unsqueeze(in[1], 1)))); /* [B,L]: true is padding */
	x = tj_layer_norm(tj_add(x, y), w[NORM1_W], w[NORM1_B], 1e-5);
	y = tj_linear(tj_relu(tj_linear(x, w[W1], w[B1])), w[W2], w[B2]);
	out[0] = tj_layer_norm(tj_add(x, y), w[NORM2_W], w[NORM2_B], 1e-5);
}

typedef struct request { int64_t batch, length, real[MAX_BATCH]; float x[MOST], y[MOST]; } request;
static request requests[REQUESTS], before[REQUESTS];
typedef struct worker { tj_ctx *ctx; tj_fn *f; int first, step; tj_status status; } worker;

static void *serve(void *p)
{
	worker *w = p;
	tj_ctx_use(w->ctx); /* without it the thread has no context, and each op is poison */
	for (int i = w->first; i < REQUESTS; i += w->step) {
		request *r = &requests[i];
		tj_scope *s = tj_push(w->ctx);
		tj_tensor *x = tj_from_data(w->ctx, TJ_F32, TJ_SHAPE(r->batch, r->length, E), r->x);
		tj_tensor *real = tj_from_data(w->ctx, TJ_I64, TJ_SHAPE(r->batch), r->real);
		tj_read(tj_call1(w->f, TJ_LIST(x, real)), r->y, (size_t)(r->batch * r->length * E) * sizeof *r->y);
		tj_pop(s);
	}
	if ((w->status = tj_check(w->ctx)) != TJ_OK) tj_perror(w->ctx, stderr);
	return NULL;
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	FILE *file = tmpfile();
	if (!file) return perror("tmpfile"), 1;
	save(file), rewind(file);
	if (!load(c, file)) return fprintf(stderr, "this is no file of the layer\n"), 1;
	fclose(file);
	for (int i = 0; i < REQUESTS; i++) {
		request *r = &requests[i];
		r->batch = 1 + i % MAX_BATCH;
		r->length = 1 + i * 7 % MAX_LENGTH;
		for (int b = 0; b < r->batch; b++) r->real[b] = 1 + (i + b) % r->length;
		for (int k = 0; k < MOST; k++) r->x[k] = small();
	}
	/* Direct mode skips the body; the weights may still be written to between calls, for they are declared. */
	tj_tensor **state[WEIGHTS + 1];
	for (int i = 0; i < WEIGHTS; i++) state[i] = &weight[i];
	state[WEIGHTS] = TJ_END_VAR;
	tj_fn *f = tj_compile(c, layer, weight, TJ_OPTS(tj_compile_opts, .name = "layer", .nin = 2, .nout = 1, .mode = TJ_DIRECT, .state = state,
	                                                .shapes = "x: f32[B,L,32], real: i64[B]; B in 1..5; L in 1..20"));
	worker w[THREADS], alone = { c, f, 0, 1, TJ_OK };
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++) {
		w[i] = (worker){ tj_ctx_clone(c), f, i, THREADS, TJ_OK };
		pthread_create(&t[i], NULL, serve, &w[i]);
	}
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL), tj_close(w[i].ctx);
	memcpy(before, requests, sizeof before);
	serve(&alone);
	int differ = 0;
	for (int i = 0; i < REQUESTS; i++) {
		const request *r = &requests[i];
		differ += memcmp(before[i].y, r->y, (size_t)(r->batch * r->length * E) * sizeof *r->y) != 0;
	}
	const float *y = requests[REQUESTS - 1].y;
	printf("%d of %d answers differ between %d threads and one\n", differ, REQUESTS, THREADS);
	printf("the last one begins %.4f %.4f %.4f\n", (double)y[0], (double)y[1], (double)y[2]);
	tj_close(c);
	return differ != 0;
}
