/* SPDX-License-Identifier: MIT */
/* A small GPT, trained over a text file: forward, tj_grad() and AdamW are one compiled step.
 *
 *   build/examples/gpt [--bf16] [text file] [steps] [device] [seed]      device: cpu (default), cuda, cuda:1 ...
 *
 * --bf16: mixed precision. Matrix products are computed in bf16, two at a time where the CPU can; the parameters and all else are f32.
 * 64 characters of context, 4 blocks of width 128 with 4 heads, 32 windows a step. The last tenth of the text is held out. */
#include <tj.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 64, WIDTH = 128, BLOCKS = 4, HEADS = 4, BATCH = 32, SAMPLE = 300, PARAMS = 5 + 8 * BLOCKS, COMPARE = 2 };

typedef struct block { tj_tensor *norm1, *shift1, *qkv, *join, *norm2, *shift2, *up, *down; } block;
typedef struct model {
	int64_t vocab;
	tj_tensor *token, *place, *norm, *shift, *head; /* [V,C] [T,C] [C] [C] [C,V] */
	block block[BLOCKS];
	tj_tensor *all[PARAMS + 1];                /* all of these, for tj_grad() */
	tj_tensor *first[PARAMS], *second[PARAMS]; /* AdamW: means of the gradient and of its square */
	tj_tensor *steps;                          /* how many it has made, f32 */
	int n;
	bool bf16;
	uint64_t seed;                             /* of the parameters and of the order of the text */
} model;

typedef struct text {
	int64_t *id, n, held_out; /* characters as numbers; training uses [0, held_out) */
	int64_t vocab;
	unsigned char of[256];    /* number -> character */
} text;

static double now_ms(void)
{
	struct timespec t;
	timespec_get(&t, TIME_UTC);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint64_t draw(uint64_t *state) { return (*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) >> 20; }

/* ---- the model ---- */
/* x [B,T,C] */
static tj_tensor *attend(const block *w, tj_tensor *x)
{
	const int64_t batch = tj_dim(x, 0), each = WIDTH / HEADS;
	tj_tensor *part[3], *all = tj_matmul(x, w->qkv);
	for (int i = 0; i < 3; i++)
		part[i] = tj_permute(tj_reshape(tj_slice(all, 2, i * WIDTH, (i + 1) * WIDTH, 1), TJ_SHAPE(batch, CONTEXT, HEADS, each)),
		                     TJ_AXES(0, 2, 1, 3));
	tj_tensor *y = tj_scaled_dot_product_attention(part[0], part[1], part[2],
	                                               TJ_OPTS(tj_attention_opts, .causal = true)); /* a place sees those up to itself */
	return tj_matmul(tj_reshape(tj_permute(y, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(batch, CONTEXT, WIDTH)), w->join);
}

/* idx [B,T] i64; returns the logits [B*T,V]. */
static tj_tensor *logits(const model *m, tj_tensor *idx)
{
	tj_tensor *x = tj_add(tj_embedding(m->token, idx), m->place);
	for (const block *w = m->block; w < m->block + BLOCKS; w++) {
		x = tj_add(x, attend(w, tj_layer_norm(x, w->norm1, w->shift1, 1e-5)));
		x = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_layer_norm(x, w->norm2, w->shift2, 1e-5), w->up)), w->down));
	}
	x = tj_matmul(tj_layer_norm(x, m->norm, m->shift, 1e-5), m->head);
	return tj_reshape(x, TJ_SHAPE(-1, m->vocab));
}

static tj_tensor *loss_of(const model *m, tj_tensor *idx, tj_tensor *target)
{
	return tj_cross_entropy(logits(m, idx), tj_reshape(target, TJ_SHAPE(-1)));
}

/* Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019. */
static void adamw(const model *m, tj_tensor *const *grad, tj_tensor *rate)
{
	const double keep1 = 0.9, keep2 = 0.999, decay = 0.01;
	tj_tensor *t = tj_add(m->steps, tj_f(1));
	tj_tensor *unbias1 = tj_sub(tj_f(1), tj_pow(tj_f(keep1), t)), *unbias2 = tj_sub(tj_f(1), tj_pow(tj_f(keep2), t));
	for (int i = 0; i < m->n; i++) {
		tj_tensor *p = m->all[i], *g = grad[i];
		tj_tensor *first = tj_add(tj_mul(m->first[i], tj_f(keep1)), tj_mul(g, tj_f(1 - keep1)));
		tj_tensor *second = tj_add(tj_mul(m->second[i], tj_f(keep2)), tj_mul(tj_square(g), tj_f(1 - keep2)));
		tj_tensor *by = tj_div(tj_div(first, unbias1), tj_add(tj_sqrt(tj_div(second, unbias2)), tj_f(1e-8)));
		tj_assign(p, tj_sub(tj_mul(p, tj_sub(tj_f(1), tj_mul(rate, tj_f(decay)))), tj_mul(by, rate)));
		tj_assign(m->first[i], first);
		tj_assign(m->second[i], second);
	}
	tj_assign(m->steps, t);
}

/* in: idx [B,T], target [B,T], rate (a number); out: the loss. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *grad[PARAMS];
	out[0] = loss_of(m, in[0], in[1]);
	if (tj_grad(grad, out[0], m->all, NULL) == TJ_OK) adamw(m, grad, in[2]);
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = loss_of(self, in[0], in[1]); }

/* in: idx [1,T]; out: the probabilities of the character behind them [V]. */
static void next_char(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *last = tj_slice(logits(self, in[0]), 0, CONTEXT - 1, CONTEXT, 1);
	out[0] = tj_reshape(tj_softmax(last, 1), TJ_SHAPE(-1));
}

/* ---- parameters ---- */
/* Normal with this deviation (a sum of 12 uniform numbers), the same for every run with this seed; deviation 0: `mean` everywhere. */
static tj_tensor *param(tj_ctx *c, model *m, tj_dims shape, float mean, float deviation, uint64_t *state)
{
	tj_tensor *p = tj_param(c, TJ_F32, shape);
	const int64_t n = tj_numel(p);
	float *v = malloc((size_t)n * sizeof *v);
	for (int64_t i = 0; v && i < n; i++) {
		float sum = -6;
		for (int k = 0; deviation > 0 && k < 12; k++) sum += (float)(draw(state) & 0xFFFFFF) * 0x1p-24f;
		v[i] = deviation > 0 ? mean + deviation * sum : mean;
	}
	if (v) tj_write(p, v, (size_t)n * sizeof *v);
	free(v);
	m->first[m->n] = tj_param(c, TJ_F32, shape);
	m->second[m->n] = tj_param(c, TJ_F32, shape);
	return m->all[m->n++] = p;
}

static model make_model(tj_ctx *c, int64_t vocab, bool bf16, uint64_t seed)
{
	uint64_t s = seed;
	model m = { .vocab = vocab, .bf16 = bf16, .seed = seed, .steps = tj_param(c, TJ_F32, TJ_0D) };
	m.token = param(c, &m, TJ_SHAPE(vocab, WIDTH), 0, 0.02f, &s);
	m.place = param(c, &m, TJ_SHAPE(CONTEXT, WIDTH), 0, 0.02f, &s);
	m.norm = param(c, &m, TJ_SHAPE(WIDTH), 1, 0, &s);
	m.shift = param(c, &m, TJ_SHAPE(WIDTH), 0, 0, &s);
	m.head = param(c, &m, TJ_SHAPE(WIDTH, vocab), 0, 0.02f, &s);
	for (block *w = m.block; w < m.block + BLOCKS; w++) {
		w->norm1 = param(c, &m, TJ_SHAPE(WIDTH), 1, 0, &s);
		w->shift1 = param(c, &m, TJ_SHAPE(WIDTH), 0, 0, &s);
		w->qkv = param(c, &m, TJ_SHAPE(WIDTH, 3 * WIDTH), 0, 0.02f, &s);
		w->join = param(c, &m, TJ_SHAPE(WIDTH, WIDTH), 0, 0.02f, &s);
		w->norm2 = param(c, &m, TJ_SHAPE(WIDTH), 1, 0, &s);
		w->shift2 = param(c, &m, TJ_SHAPE(WIDTH), 0, 0, &s);
		w->up = param(c, &m, TJ_SHAPE(WIDTH, 4 * WIDTH), 0, 0.02f, &s);
		w->down = param(c, &m, TJ_SHAPE(4 * WIDTH, WIDTH), 0, 0.02f, &s);
	}
	m.all[m.n] = TJ_END;
	return m;
}

/* ---- the text ---- */
static bool read_text(const char *path, text *t)
{
	FILE *f = fopen(path, "rb");
	unsigned char *raw = malloc(1 << 24);
	size_t n = f && raw ? fread(raw, 1, 1 << 24, f) : 0;
	int number[256];
	if (f) fclose(f);
	memset(number, -1, sizeof number);
	*t = (text){ .n = (int64_t)n, .held_out = (int64_t)n * 9 / 10, .id = malloc((n + 1) * sizeof *t->id) };
	for (size_t i = 0; t->id && i < n; i++) {
		if (number[raw[i]] < 0) {
			t->of[t->vocab] = raw[i];
			number[raw[i]] = (int)t->vocab++;
		}
		t->id[i] = number[raw[i]];
	}
	free(raw);
	return t->id && t->n - t->held_out > BATCH * CONTEXT + 1;
}

/* Windows of the text and the characters that follow each of theirs: one after the other from `at` on, or at random places if it is
 * negative. */
typedef struct batch { tj_tensor *idx, *target; } batch;
static batch make_batch(tj_ctx *c, const text *t, int64_t at, uint64_t *state)
{
	static int64_t idx[BATCH * CONTEXT], target[BATCH * CONTEXT];
	for (int b = 0; b < BATCH; b++) {
		const int64_t from = at >= 0 ? at + b * CONTEXT : (int64_t)(draw(state) % (uint64_t)(t->held_out - CONTEXT - 1));
		memcpy(idx + b * CONTEXT, t->id + from, CONTEXT * sizeof *idx);
		memcpy(target + b * CONTEXT, t->id + from + 1, CONTEXT * sizeof *idx);
	}
	return (batch){ tj_from_data(c, TJ_I64, TJ_SHAPE(BATCH, CONTEXT), idx), tj_from_data(c, TJ_I64, TJ_SHAPE(BATCH, CONTEXT), target) };
}

/* ---- training ---- */
/* Makes n of `steps` steps. Gives the ms of a step without the first, of which *first_ms is the time, and the losses of the first ones. */
static double train(tj_ctx *c, const text *t, const model *m, tj_fn *f, int64_t n, int64_t steps, double *first_ms, double *loss,
                    bool progress)
{
	uint64_t state = 6 + m->seed;
	double spent = 0, smooth = 0;
	for (int64_t i = 0; i < n; i++) {
		tj_scope *s = tj_push(c);
		batch b = make_batch(c, t, -1, &state);
		const double rate = 2e-3 * fmin(1, (double)(i + 1) / 20) * (1 - 0.9 * (double)i / (double)steps), t0 = now_ms();
		const double l = tj_item(tj_call1(f, TJ_LIST(b.idx, b.target, tj_f(rate))));
		*(i ? &spent : first_ms) += now_ms() - t0;
		if (i < COMPARE) loss[i] = l;
		smooth = i ? 0.95 * smooth + 0.05 * l : l;
		tj_pop(s);
		if (progress && (i % 50 == 49 || i == 0))
			printf("  step %5lld / %lld   loss %.4f\n", (long long)i + 1, (long long)steps, smooth), fflush(stdout);
		if (tj_check(c) != TJ_OK) {
			tj_perror(c, stderr);
			exit(1);
		}
	}
	return spent / (double)(n - 1);
}

static double held_out_loss(tj_ctx *c, const text *t, tj_fn *f)
{
	double sum = 0;
	int n = 0;
	for (int64_t at = t->held_out; at + BATCH * CONTEXT < t->n; at += BATCH * CONTEXT, n++) {
		tj_scope *s = tj_push(c);
		batch b = make_batch(c, t, at, NULL);
		sum += tj_item(tj_call1(f, TJ_LIST(b.idx, b.target)));
		tj_pop(s);
	}
	return n ? sum / n : NAN;
}

static void print_sample(tj_ctx *c, const text *t, tj_fn *f)
{
	int64_t window[CONTEXT];
	uint64_t state = 11;
	memcpy(window, t->id + t->held_out, sizeof window);
	for (int i = 0; i < SAMPLE; i++) {
		tj_scope *s = tj_push(c);
		const float *p = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(1, CONTEXT), window))));
		double u = (double)(draw(&state) & 0xFFFFFFFF) * 0x1p-32;
		int64_t k = 0;
		while (p && k < t->vocab - 1 && (u -= p[k]) > 0) k++;
		memmove(window, window + 1, (CONTEXT - 1) * sizeof *window);
		window[CONTEXT - 1] = k;
		putchar(t->of[k]);
		tj_pop(s);
	}
	putchar('\n');
}

static tj_fn *compile(tj_ctx *c, model *m, tj_body *body, const char *name, int nin)
{
	return tj_compile(c, body, m,
	                  TJ_OPTS(tj_compile_opts, .name = name, .nin = nin, .nout = 1, .autocast = m->bf16 ? TJ_BF16 : TJ_F32,
	                          .numerics = m->bf16 ? TJ_FAST : TJ_STRICT));
}

/* The same first steps by the evaluator: the largest difference of a loss. */
static double compare(const text *t, int64_t steps, const model *like, const double *loss)
{
	tj_ctx *was = tj_ctx_current(), *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	model m = make_model(c, t->vocab, like->bf16, like->seed);
	double other[COMPARE], worst = 0, first = 0;
	train(c, t, &m, compile(c, &m, step, "step", 3), COMPARE, steps, &first, other, false);
	for (int i = 0; i < COMPARE; i++) worst = fmax(worst, fabs(other[i] - loss[i]));
	tj_close(c);
	tj_ctx_use(was);
	return worst;
}

int main(int argc, char **argv)
{
	const bool bf16 = argc > 1 && !strcmp(argv[1], "--bf16");
	if (bf16) argv++, argc--;
	const char *path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
	const int64_t steps = argc > 2 ? atoll(argv[2]) : 300;
	const char *device = argc > 3 && strcmp(argv[3], "cuda") ? argv[3] : argc > 3 ? "cuda:0" : "cpu";
	text t;
	if (tj_find_device(device) < 0) return fprintf(stderr, "gpt: there is no device %s\n", device), 1;
	if (!read_text(path, &t) || steps < COMPARE) {
		fprintf(stderr, "gpt: cannot train on %s: it must be a readable text of at least %d characters, steps at least %d\n", path,
		        10 * (BATCH * CONTEXT + 2), COMPARE);
		return 1;
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	model m = make_model(c, t.vocab, bf16, argc > 4 ? (uint64_t)atoll(argv[4]) : 1);
	tj_fn *train_step = compile(c, &m, step, "step", 3), *test = compile(c, &m, evaluate, "evaluate", 2),
	      *next = compile(c, &m, next_char, "next_char", 1);

	printf("%s: %lld characters, %lld different; the last tenth is held out\n", path, (long long)t.n, (long long)t.vocab);
	double first = 0, loss[COMPARE], t0 = now_ms(), ms = train(c, &t, &m, train_step, steps, steps, &first, loss, true);
	const double seconds = (now_ms() - t0) / 1e3, held = held_out_loss(c, &t, test);
	printf("trained %lld steps in %.1f s; held-out loss %.4f nats a character\n\n", (long long)steps, seconds, held);
	print_sample(c, &t, next);

	tj_stats s = { .size = sizeof s };
	tj_fn_stats(train_step, &s);
	printf("\nthe step: %llu plan, %llu fused kernels, %llu library calls, %llu evaluator steps; first call %.0f ms (tracing %.1f, lowering "
	       "%.1f, code generation %.0f), then %.1f ms\n",
	       (unsigned long long)s.plans, (unsigned long long)s.kernels, (unsigned long long)s.library_calls,
	       (unsigned long long)s.eval_steps, first, s.trace_ms, s.lower_ms, s.codegen_ms, ms);
	const double worst = compare(&t, steps, &m, loss);
	printf("losses of the first %d steps: the evaluator's within %.2g\n", COMPARE, worst);
	free(t.id);
	tj_close(c);
	return worst < 1e-4 && held < loss[0] ? 0 : 1;
}
