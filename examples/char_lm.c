/* SPDX-License-Identifier: MIT */
/* A character-level language model, trained over a text file: forward, the gradients written by hand with tensor
 * ops, and the update of the parameters are one compiled step.
 *
 *   build/examples/char_lm [text file] [steps] [device]      device: cpu (default), cuda, cuda:1 ...
 *
 * 8 characters -> 24 numbers each -> 256 tanh -> the next character (Bengio et al. 2003, "A Neural Probabilistic
 * Language Model"). Plain SGD, batch 256, falling rate. The last tenth of the text is held out. */
#include <tj.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 8, EMBED = 24, HIDDEN = 256, BATCH = 256, COMPARE = 20, SAMPLE = 300 };

typedef struct model {
	int64_t vocab;
	tj_tensor *emb, *w1, *b1, *w2, *b2; /* [V,24] [192,256] [256] [256,V] [V] */
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

/* ---- the model ---- */

/* in: idx [B,8] i64.  h [B,256], x [B,192]; returns the logits [B,V]. */
static tj_tensor *logits(const model *m, tj_tensor *idx, tj_tensor **x, tj_tensor **h)
{
	*x = tj_reshape(tj_embedding(m->emb, idx), TJ_SHAPE(-1, CONTEXT * EMBED));
	*h = tj_tanh(tj_add(tj_matmul(*x, m->w1), m->b1));
	return tj_add(tj_matmul(*h, m->w2), m->b2);
}

/* p <- p - rate * g */
static void descend(tj_tensor *p, tj_tensor *g, tj_tensor *rate) { tj_assign(p, tj_sub(p, tj_mul(g, rate))); }

/* in: idx [B,8], target [B], rate (a number); out: the loss. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *idx = in[0], *target = in[1], *rate = in[2], *x, *h;
	tj_tensor *z = logits(m, idx, &x, &h);
	out[0] = tj_cross_entropy(z, target);

	int64_t batch = tj_dim(idx, 0);
	tj_tensor *hot = tj_cast(tj_one_hot(target, m->vocab), TJ_F32);
	tj_tensor *dz = tj_div(tj_sub(tj_softmax(z, 1), hot), tj_f((double)batch));                                    /* [B,V] */
	tj_tensor *da = tj_mul(tj_matmul(dz, tj_transpose(m->w2, 0, 1)), tj_sub(tj_f(1), tj_mul(h, h)));               /* [B,256] */
	tj_tensor *de = tj_reshape(tj_matmul(da, tj_transpose(m->w1, 0, 1)), TJ_SHAPE(batch * CONTEXT, EMBED));        /* [B*8,24] */
	tj_tensor *row = tj_expand(tj_reshape(idx, TJ_SHAPE(batch * CONTEXT, 1)), TJ_SHAPE(batch * CONTEXT, EMBED));
	tj_tensor *demb = tj_scatter_add(tj_full(TJ_F32, TJ_SHAPE(m->vocab, EMBED), tj_f(0)), 0, row, de);             /* [V,24] */
	tj_tensor *dw2 = tj_matmul(tj_transpose(h, 0, 1), dz), *dw1 = tj_matmul(tj_transpose(x, 0, 1), da);

	descend(m->w2, dw2, rate);
	descend(m->b2, tj_sum(dz, TJ_AXES(0), false), rate);
	descend(m->w1, dw1, rate);
	descend(m->b1, tj_sum(da, TJ_AXES(0), false), rate);
	descend(m->emb, demb, rate);
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x, *h;
	out[0] = tj_cross_entropy(logits(self, in[0], &x, &h), in[1]);
}

/* in: idx [1,8]; out: the probabilities of the next character [V]. */
static void next_char(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x, *h;
	out[0] = tj_reshape(tj_softmax(logits(self, in[0], &x, &h), 1), TJ_SHAPE(-1));
}

/* Uniform in +-bound, the same for every run. */
static tj_tensor *init(tj_ctx *c, tj_dims shape, double bound, uint64_t *state)
{
	tj_tensor *p = tj_param(c, TJ_F32, shape);
	int64_t n = tj_numel(p);
	if (n < 0) return p;
	float *v = malloc((size_t)n * sizeof *v);
	for (int64_t i = 0; v && i < n; i++) {
		*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		v[i] = (float)(bound * ((double)(*state >> 40) / (double)(1 << 23) - 1));
	}
	if (v) tj_write(p, v, (size_t)n * sizeof *v);
	free(v);
	return p;
}

static model make_model(tj_ctx *c, int64_t vocab)
{
	uint64_t state = 1;
	model m = { .vocab = vocab };
	m.emb = init(c, TJ_SHAPE(vocab, EMBED), 0.1, &state);
	m.w1 = init(c, TJ_SHAPE(CONTEXT * EMBED, HIDDEN), 1 / sqrt(CONTEXT * EMBED), &state);
	m.b1 = tj_param(c, TJ_F32, TJ_SHAPE(HIDDEN));
	m.w2 = init(c, TJ_SHAPE(HIDDEN, vocab), 1 / sqrt(HIDDEN), &state);
	m.b2 = tj_param(c, TJ_F32, TJ_SHAPE(vocab));
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
	return t->id && t->n - t->held_out > 2 * CONTEXT;
}

/* Windows of 8 characters and the character after each, from `at` on, or at random places if `at` is negative. */
static void fill(const text *t, int64_t at, uint64_t *state, int64_t *idx, int64_t *target)
{
	for (int b = 0; b < BATCH; b++) {
		*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		int64_t from = at >= 0 ? at + b : (int64_t)((*state >> 20) % (uint64_t)(t->held_out - CONTEXT - 1));
		memcpy(idx + b * CONTEXT, t->id + from, CONTEXT * sizeof *idx);
		target[b] = t->id[from + CONTEXT];
	}
}

typedef struct batch { tj_tensor *idx, *target; } batch;
static batch make_batch(tj_ctx *c, const text *t, int64_t at, uint64_t *state)
{
	static int64_t idx[BATCH * CONTEXT], target[BATCH];
	fill(t, at, state, idx, target);
	return (batch){ tj_from_data(c, TJ_I64, TJ_SHAPE(BATCH, CONTEXT), idx), tj_from_data(c, TJ_I64, TJ_SHAPE(BATCH), target) };
}

static double rate_at(int64_t i, int64_t steps) { return 0.5 * (1 - 0.9 * (double)i / (double)steps); }

/* ---- training ---- */
typedef double run_step(tj_ctx *c, void *self, batch b, double rate); /* returns the loss */

static double run_compiled(tj_ctx *c, void *fn, batch b, double rate)
{
	(void)c;
	return tj_item(tj_call1(fn, TJ_LIST(b.idx, b.target, tj_f(rate))));
}

static double run_op_by_op(tj_ctx *c, void *m, batch b, double rate)
{
	(void)c;
	tj_tensor *out;
	step(&out, TJ_LIST(b.idx, b.target, tj_f(rate)), m);
	return tj_item(out);
}

/* Runs n steps from the start. Gives the ms of a step and, if wanted, the loss of each step. */
static double train(tj_ctx *c, const text *t, run_step *run, void *self, int64_t n, int64_t steps, double *loss, bool progress)
{
	uint64_t state = 7;
	double spent = 0, smooth = 0;
	for (int64_t i = 0; i < n; i++) {
		tj_scope *s = tj_push(c);
		batch b = make_batch(c, t, -1, &state);
		double t0 = now_ms(), l = run(c, self, b, rate_at(i, steps));
		if (i > 4 || n < 8) spent += now_ms() - t0; /* the first ones compile */
		if (loss) loss[i] = l;
		smooth = i ? 0.99 * smooth + 0.01 * l : l;
		tj_pop(s);
		if (progress && (i % 500 == 499 || i == 0))
			printf("  step %6lld / %lld   loss %.4f\n", (long long)i + 1, (long long)steps, smooth), fflush(stdout);
		if (tj_check(c) != TJ_OK) {
			tj_perror(c, stderr);
			exit(1);
		}
	}
	return spent / (double)(n < 8 ? n : n - 5);
}

static double held_out_loss(tj_ctx *c, const text *t, tj_fn *f)
{
	double sum = 0;
	int n = 0;
	uint64_t state = 1;
	for (int64_t at = t->held_out; at + BATCH + CONTEXT < t->n; at += BATCH, n++) {
		tj_scope *s = tj_push(c);
		batch b = make_batch(c, t, at, &state);
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
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		double u = (double)(state >> 11) * 0x1p-53;
		int64_t k = 0;
		while (k < t->vocab - 1 && (u -= p[k]) > 0) k++;
		memmove(window, window + 1, (CONTEXT - 1) * sizeof *window);
		window[CONTEXT - 1] = k;
		putchar(t->of[k]);
		tj_pop(s);
	}
	putchar('\n');
}

/* The same first steps in another engine: computed by the evaluator, or op by op. */
static double compare(const text *t, const char *backend, const char *device, bool op_by_op, int64_t steps, const double *loss,
                      double *worst)
{
	tj_ctx *was = tj_ctx_current(), *c = tj_open(TJ_OPTS(tj_open_opts, .backend = backend, .device = device));
	model m = make_model(c, t->vocab);
	double other[COMPARE];
	tj_fn *f = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 3, .nout = 1));
	double ms = train(c, t, op_by_op ? run_op_by_op : run_compiled, op_by_op ? (void *)&m : (void *)f, COMPARE, steps, other, false);
	*worst = 0;
	for (int i = 0; i < COMPARE; i++) *worst = fmax(*worst, fabs(other[i] - loss[i]));
	tj_close(c);
	tj_ctx_use(was);
	return ms;
}

static int no_device(const char *device)
{
	fprintf(stderr, "char_lm: there is no device %s; there are:\n", device);
	for (const char *const *name = tj_devices(); *name; name++) fprintf(stderr, "  %s\n", *name);
	return 1;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
	int64_t steps = argc > 2 ? atoll(argv[2]) : 4000;
	const char *device = argc > 3 && strcmp(argv[3], "cuda") ? argv[3] : argc > 3 ? "cuda:0" : "cpu";
	text t;
	if (tj_find_device(device) < 0) return no_device(device);
	if (!read_text(path, &t) || steps < COMPARE) {
		fprintf(stderr, "char_lm: cannot train on %s: it must be a readable text of some hundred characters, steps at least %d\n", path, COMPARE);
		return 1;
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	model m = make_model(c, t.vocab);
	tj_fn *train_step = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 3, .nout = 1));
	tj_fn *test = tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 2, .nout = 1));
	tj_fn *next = tj_compile(c, next_char, &m, TJ_OPTS(tj_compile_opts, .name = "next_char", .nin = 1, .nout = 1));

	printf("%s: %lld characters, %lld different; the last tenth is held out\n", path, (long long)t.n, (long long)t.vocab);
	double *loss = calloc((size_t)steps, sizeof *loss), t0 = now_ms();
	double ms = train(c, &t, run_compiled, train_step, steps, steps, loss, true);
	double seconds = (now_ms() - t0) / 1e3;
	printf("trained %lld steps in %.1f s; held-out loss %.4f nats a character\n\n", (long long)steps, seconds, held_out_loss(c, &t, test));
	print_sample(c, &t, next);

	tj_stats s = { .size = sizeof s };
	tj_fn_stats(train_step, &s);
	printf("\nthe step: %llu plan, %llu fused kernels, %llu library calls, %llu evaluator steps\n", (unsigned long long)s.plans,
	       (unsigned long long)s.kernels, (unsigned long long)s.library_calls, (unsigned long long)s.eval_steps);
	printf("guards: %llu of %llu calls hit; compiled in %.1f ms (tracing %.2f, lowering %.2f, code generation %.2f)\n",
	       (unsigned long long)s.hits, (unsigned long long)s.calls, s.trace_ms + s.lower_ms + s.codegen_ms, s.trace_ms, s.lower_ms,
	       s.codegen_ms);

	double worst_ops, worst_eval;
	double ops = compare(&t, NULL, device, true, steps, loss, &worst_ops), eval = compare(&t, "eval", "cpu", false, steps, loss, &worst_eval);
	printf("a step: compiled %.3f ms, op by op %.3f ms, evaluator %.1f ms\n", ms, ops, eval);
	printf("losses of the first %d steps: op by op within %.2g, evaluator within %.2g of the compiled ones\n", COMPARE, worst_ops, worst_eval);
	free(loss);
	free(t.id);
	tj_close(c);
	return worst_ops < 1e-4 && worst_eval < 1e-4 ? 0 : 1;
}
