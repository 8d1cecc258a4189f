/* SPDX-License-Identifier: MIT */
/* A network that solves a differential equation: u'' = -pi^2 sin(pi x) on [0, 1], u(0) = u(1) = 0, whose solution is sin(pi x). The loss
 * has the second derivative of the network by its input, tj_grad() of tj_grad(), and training takes the gradient of that. */
#include <tj.h>

#include <math.h>
#include <time.h>

enum { POINTS = 64, WIDTH = 32, PARAMS = 4, STEPS = 1500 };
static const double PI = 3.14159265358979323846;

typedef struct model { tj_tensor *p[PARAMS + 1], *first[PARAMS], *second[PARAMS]; } model; /* [1,W] [W] [W,1] [1] */

/* x (1 - x) times a network: the boundary holds by itself. x [N,1] */
static tj_tensor *solution(const model *m, tj_tensor *x)
{
	tj_tensor *h = tj_tanh(tj_add(tj_mul(x, m->p[0]), m->p[1]));
	return tj_mul(tj_mul(x, tj_sub(tj_f(1), x)), tj_add(tj_matmul(h, m->p[2]), m->p[3]));
}

static tj_tensor *derivative(tj_tensor *u, tj_tensor *x)
{
	tj_tensor *d; /* u[i] depends on x[i] alone, so the sum keeps them apart */
	tj_grad(&d, tj_sum(u, TJ_ALL, false), TJ_LIST(x), NULL);
	return d;
}

/* in: x [N,1], rate, step number; out: the loss. Adam: Kingma and Ba, 2015. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *x = in[0], *grad[PARAMS], *bend = derivative(derivative(solution(m, x), x), x);
	tj_tensor *want = tj_mul(tj_sin(tj_mul(x, tj_f(PI))), tj_f(-PI * PI));
	out[0] = tj_mean(tj_square(tj_sub(bend, want)), TJ_ALL, false);
	tj_grad(grad, out[0], m->p, NULL);
	for (int i = 0; i < PARAMS; i++) {
		tj_tensor *first = tj_add(tj_mul(m->first[i], tj_f(0.9)), tj_mul(grad[i], tj_f(0.1)));
		tj_tensor *second = tj_add(tj_mul(m->second[i], tj_f(0.999)), tj_mul(tj_square(grad[i]), tj_f(0.001)));
		tj_tensor *mean = tj_div(first, tj_sub(tj_f(1), tj_pow(tj_f(0.9), in[2]))),
			  *square = tj_div(second, tj_sub(tj_f(1), tj_pow(tj_f(0.999), in[2])));
		tj_assign(m->p[i], tj_sub(m->p[i], tj_mul(in[1], tj_div(mean, tj_add(tj_sqrt(square), tj_f(1e-8))))));
		tj_assign(m->first[i], first);
		tj_assign(m->second[i], second);
	}
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = solution(self, in[0]); }

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	const int64_t *shape[] = { TJ_SHAPE(1, WIDTH), TJ_SHAPE(WIDTH), TJ_SHAPE(WIDTH, 1), TJ_SHAPE(1) };
	model m = { .p[PARAMS] = TJ_END };
	uint64_t s = 5;
	for (int i = 0; i < PARAMS; i++) {
		double v[WIDTH];
		m.p[i] = tj_param(c, TJ_F64, shape[i]);
		m.first[i] = tj_param(c, TJ_F64, shape[i]);
		m.second[i] = tj_param(c, TJ_F64, shape[i]);
		for (int k = 0; k < tj_numel(m.p[i]); k++) {
			s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			v[k] = ((double)(s >> 40) * 0x1p-23 - 1) * (i < 2 ? 3 : i == 2 ? 0.3 : 0);
		}
		tj_write(m.p[i], v, (size_t)tj_numel(m.p[i]) * sizeof *v);
	}
	double x[POINTS], worst = 0, loss = 0;
	for (int i = 0; i < POINTS; i++) x[i] = (i + 0.5) / POINTS;
	tj_tensor *points = tj_from_data(c, TJ_F64, TJ_SHAPE(POINTS, 1), x);
	tj_fn *f = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 3, .nout = 1));
	const clock_t begin = clock();
	for (int i = 1; i <= STEPS; i++) {
		tj_scope *scope = tj_push(c);
		tj_tensor *l = tj_call1(f, TJ_LIST(points, tj_f(i < STEPS / 2 ? 1e-2 : 1e-3), tj_f(i)));
		if (i == 1 || i == STEPS) printf("step %4d: loss %s\n", i, (loss = tj_item(l)) < 1e-2 ? "below 0.01" : loss > 1 ? "above 1" : "between");
		tj_pop(scope);
	}
	fprintf(stderr, "time: %.3f ms a step\n", (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC / STEPS);
	const double *u = tj_data(
		tj_call1(tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 1, .nout = 1)), TJ_LIST(points)));
	for (int i = 0; u && i < POINTS; i++) worst = fmax(worst, fabs(u[i] - sin(PI * x[i])));
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	printf("largest error of u: %s\n", worst < 1e-3 ? "below 0.001" : "too large");
	tj_close(c);
	return worst >= 1e-3;
}
