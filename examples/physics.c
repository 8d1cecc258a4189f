/* SPDX-License-Identifier: MIT */
/* A network that solves a differential equation: u'' = -pi^2 sin(pi x) on [0, 1], u(0) = u(1) = 0, whose solution is sin(pi x). The loss
 * has the second derivative of the network by its input, tj_grad() of tj_grad(), and training takes the gradient of that: first by Adam,
 * then by L-BFGS, which needs a loss without noise. */
#include <tjnn.h>

#include <math.h>
#include <time.h>

enum { POINTS = 64, WIDTH = 32, STEPS = 500, ITERATIONS = 400, SEED = 5 };

typedef struct net { tjnn_linear in, out; tjnn_optim *optim; } net;

static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_linear_layer(w, "in", &m->in, 1, WIDTH, true);
	tjnn_linear_layer(w, "out", &m->out, WIDTH, 1, true);
}

/* x (1 - x) times a network: the boundary holds by itself. x [N,1] */
static tj_tensor *solution(const net *m, tj_tensor *x)
{
	tj_tensor *u = tjnn_linear_apply(&m->out, tj_tanh(tjnn_linear_apply(&m->in, x)));
	return tj_mul(tj_mul(x, tj_sub(tj_f(1), x)), u);
}

static tj_tensor *derivative(tj_tensor *u, tj_tensor *x)
{
	tj_tensor *d; /* u[i] depends on x[i] alone, so the sum keeps them apart */
	tj_grad(&d, tj_sum(u, TJ_ALL, false), TJ_LIST(x), NULL);
	return d;
}

/* in: x [N,1]; out: how far the equation is from true */
static void loss(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const double pi = acos(-1);
	tj_tensor *x = in[0], *bend = derivative(derivative(solution(self, x), x), x);
	out[0] = tj_mean(tj_square(tj_add(bend, tj_mul(tj_sin(tj_mul(x, tj_f(pi))), tj_f(pi * pi)))), TJ_ALL, false);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	loss(out, in, self);
	tjnn_optim_step(m->optim, out[0]);
}

/* in: x; out: the largest error of u */
static void error(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_amax(tj_abs(tj_sub(solution(self, in[0]), tj_sin(tj_mul(in[0], tj_f(acos(-1)))))), TJ_ALL, false);
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	net m = { .optim = NULL };
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED, .dtype = TJ_F64));
	tjnn_reset(model, "in.*", tjnn_uniform(-3, 3)); /* bends all over [0, 1] */
	m.optim = tjnn_optim_open(model, tjnn_adam(1e-2), NULL);
	tjnn_lbfgs *newton = tjnn_lbfgs_open(model, loss, &m, 1, TJ_OPTS(tjnn_lbfgs_opts, .iterations = ITERATIONS, .tolerance_change = 1e-15));
	tj_fn *learn = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 1));
	tj_fn *test = tj_compile(c, error, &m, TJ_OPTS(tj_compile_opts, .name = "error", .nin = 1, .nout = 1));
	tj_list points = TJ_LIST(tj_unsqueeze(tj_linspace(TJ_F64, 0.5 / POINTS, 1 - 0.5 / POINTS, POINTS), 1));

	const clock_t begin = clock();
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = STEPS, .model = model, .optim = m.optim));
	while (tjnn_run_next(run, NULL, 0)) tjnn_run_log(run, "loss", tj_item(tj_call1(learn, points)));
	tj_status st = tjnn_run_close(run);
	const double by_adam = tj_item(tj_call1(test, points));
	const clock_t between = clock();
	const double last = tjnn_lbfgs_step(newton, points), by_both = tj_item(tj_call1(test, points));
	if (st == TJ_OK) st = tj_check(c);
	if (st != TJ_OK) return tj_perror(c, stderr), 1;

	fprintf(stderr, "time: %.3f s, then %.3f s\n", (double)(between - begin) / CLOCKS_PER_SEC, (double)(clock() - between) / CLOCKS_PER_SEC);
	printf("largest error of u, seed %d: %.1e after %d steps of Adam, %.1e after %lld evaluations for L-BFGS; the loss is %.1e\n", SEED,
	       by_adam, STEPS, by_both, (long long)tjnn_lbfgs_evaluations(newton), last);
	tjnn_lbfgs_close(newton);
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_close(c);
	return by_both >= 1e-6;
}
