/* SPDX-License-Identifier: MIT */
/* The gradient of each example of a batch, in one call: tj_grad() inside tj_vmap(). Their norms are clipped before they are averaged, as
 * private training does (Abadi et al., "Deep Learning with Differential Privacy", 2016). */
#include <tj.h>

#include <math.h>
#include <time.h>

enum { BATCH = 64, IN = 20, HIDDEN = 32, PARAMS = 3 };
typedef struct model { tj_tensor *p[PARAMS + 1]; } model; /* [IN,H] [H] [H] */

static tj_tensor *loss_of(const model *m, tj_tensor *x, tj_tensor *y)
{
	tj_tensor *h = tj_tanh(tj_add(tj_matmul(x, m->p[0]), m->p[1]));
	return tj_square(tj_sub(tj_matmul(h, m->p[2]), y));
}

/* in: x [IN], y []; out: the gradients, and the square of their norm */
static void one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_grad(out, loss_of(m, in[0], in[1]), m->p, NULL);
	for (int i = 0; i < PARAMS; i++) {
		tj_tensor *square = tj_sum(tj_square(out[i]), TJ_ALL, false);
		out[PARAMS] = i ? tj_add(out[PARAMS], square) : square;
	}
}

/* in: x [B,IN], y [B]; out: the norms [B], the mean of the gradients by p[0] and that of the clipped ones, the gradient of the mean loss */
static void all(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *each[PARAMS + 1], *whole[PARAMS];
	tj_vmap(each, PARAMS + 1, one, TJ_LIST(in[0], in[1]), self, NULL);
	out[0] = tj_sqrt(each[PARAMS]);
	tj_tensor *scale = tj_reshape(tj_minimum(tj_div(tj_f(1), out[0]), tj_f(1)), TJ_SHAPE(BATCH, 1, 1)); /* no norm above 1 */
	out[1] = tj_mean(each[0], TJ_AXES(0), false);
	out[2] = tj_mean(tj_mul(each[0], scale), TJ_AXES(0), false);
	tj_grad(whole, tj_mean(loss_of(m, in[0], in[1]), TJ_ALL, false), m->p, NULL);
	out[3] = whole[0];
}

static double norm(const double *v)
{
	double s = 0;
	for (int i = 0; i < IN * HIDDEN; i++) s += v[i] * v[i];
	return sqrt(s);
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	const int64_t *shape[] = { TJ_SHAPE(IN, HIDDEN), TJ_SHAPE(HIDDEN), TJ_SHAPE(HIDDEN) };
	model m = { .p[PARAMS] = TJ_END };
	double x[BATCH * IN], y[BATCH], v[IN * HIDDEN], apart = 0;
	uint64_t s = 4;
#define NUMBER() ((double)((s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) >> 40) * 0x1p-23 - 1)
	for (int i = 0; i < PARAMS; i++) {
		m.p[i] = tj_param(c, TJ_F64, shape[i]);
		for (int k = 0; k < tj_numel(m.p[i]); k++) v[k] = 0.3 * NUMBER();
		tj_write(m.p[i], v, (size_t)tj_numel(m.p[i]) * sizeof *v);
	}
	for (int i = 0; i < BATCH * IN; i++) x[i] = NUMBER();
	for (int i = 0; i < BATCH; i++) y[i] = i == 7 ? 9 : NUMBER(); /* example 7 is not like the others */
	tj_fn *f = tj_compile(c, all, &m, TJ_OPTS(tj_compile_opts, .name = "samples", .nin = 2, .nout = 4));
	tj_tensor *out[4];
	for (int call = 0; call < 2; call++) {
		const clock_t begin = clock();
		if (tj_call(f, out,
		            TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(BATCH, IN), x), tj_from_data(c, TJ_F64, TJ_SHAPE(BATCH), y))) != TJ_OK)
			return tj_perror(c, stderr), 1;
		fprintf(stderr, "time: call %d: %.2f ms\n", call, (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC);
	}
	const double *norms = tj_data(out[0]), *mean = tj_data(out[1]), *whole = tj_data(out[3]);
	int largest = 0;
	for (int i = 1; i < BATCH; i++) largest = norms[i] > norms[largest] ? i : largest;
	for (int i = 0; i < IN * HIDDEN; i++) apart = fmax(apart, fabs(mean[i] - whole[i]));
	printf("largest norm: %.3f, of example %d\n", norms[largest], largest);
	printf("mean of the gradients: the gradient of the mean, %s\n", apart < 1e-14 ? "within 1e-14" : "no");
	printf("its norm %.4f, with each clipped to 1: %.4f\n", norm(mean), norm(tj_data(out[2])));
	tj_close(c);
	return 0;
}
