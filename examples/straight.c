/* SPDX-License-Identifier: MIT */
/* A layer whose weights are -1, 0 or 1 times a scale, trained by a straight-through estimator: forward rounds, and tj_custom_grad() passes
 * the gradient on as if it had not, where the weight is within the range. Without it the gradient of the rounding is 0, and nothing is
 * learned. */
#include <tj.h>

#include <math.h>
#include <time.h>

enum { IN = 16, OUT = 8, BATCH = 128, STEPS = 400 };

static void quantise(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_clamp(tj_round(in[0]), tj_f(-1), tj_f(1));
}

/* in: w, its rounded form, the gradient by that */
static void straight_through(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_where(tj_le(tj_abs(in[0]), tj_f(1.5)), in[2], tj_f(0));
}

typedef struct model { tj_tensor *w; bool plain; } model;

/* in: x [B,IN], y [B,OUT]; out: the loss */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *w, *grad;
	if (m->plain) quantise(&w, TJ_LIST(m->w), NULL);
	else tj_custom_grad(&w, 1, quantise, straight_through, TJ_LIST(m->w), NULL);
	out[0] = tj_mean(tj_square(tj_sub(tj_matmul(in[0], w), in[1])), TJ_ALL, false);
	tj_grad(&grad, out[0], TJ_LIST(m->w), NULL);
	tj_assign(m->w, tj_sub(m->w, tj_mul(grad, tj_f(0.5))));
}

static double number(uint64_t *s)
{
	*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(*s >> 40) * 0x1p-23 - 1;
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	double start[IN * OUT];
	float x[BATCH * IN], y[BATCH * OUT], first[IN * OUT];
	uint64_t s = 9;
	for (int i = 0; i < IN * OUT; i++) start[i] = (double)((int)((number(&s) + 1) * 1.5) - 1); /* the weights to be found */
	for (int i = 0; i < BATCH * IN; i++) x[i] = (float)number(&s);
	for (int b = 0; b < BATCH; b++)
		for (int o = 0; o < OUT; o++) {
			double sum = 0;
			for (int i = 0; i < IN; i++) sum += x[b * IN + i] * start[i * OUT + o];
			y[b * OUT + o] = (float)sum;
		}
	for (int i = 0; i < IN * OUT; i++) first[i] = (float)(0.3 * number(&s));
	for (int plain = 1; plain >= 0; plain--) {
		model m = { tj_param(c, TJ_F32, TJ_SHAPE(IN, OUT)), plain };
		tj_write(m.w, first, sizeof first);
		tj_fn *f = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = plain ? "plain" : "straight", .nin = 2, .nout = 1));
		double loss[2] = { 0 };
		const clock_t begin = clock();
		for (int i = 0; i < STEPS; i++) {
			tj_scope *scope = tj_push(c);
			loss[i > 0] = tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(BATCH, IN), x),
			                                          tj_from_data(c, TJ_F32, TJ_SHAPE(BATCH, OUT), y))));
			tj_pop(scope);
		}
		fprintf(stderr, "time: %.3f ms a step\n", (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC / STEPS);
		printf("%s: loss %.4f, then %.4f\n", plain ? "the gradient of the rounding" : "straight through", loss[0], loss[1]);
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
