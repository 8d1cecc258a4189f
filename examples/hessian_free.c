/* SPDX-License-Identifier: MIT */
/* Newton's method without a Hessian: the directions come from conjugate gradients, which only need the Hessian times a vector. That is
 * tj_jvp() of tj_grad(): it costs a few evaluations of the function, whatever the number of its variables, here 2,000. */
#include <tj.h>

#include <math.h>
#include <string.h>
#include <time.h>

enum { N = 2000, MOST = 400 };

/* Rosenbrock's function of pairs: the sum of 100 (b - a^2)^2 + (1 - a)^2 */
static tj_tensor *rosenbrock(tj_tensor *x)
{
	tj_tensor *a = tj_slice(x, 0, 0, N, 2), *b = tj_slice(x, 0, 1, N, 2);
	return tj_sum(tj_add(tj_mul(tj_square(tj_sub(b, tj_square(a))), tj_f(100)), tj_square(tj_sub(tj_f(1), a))), TJ_ALL, false);
}

/* in: x; out: the value and its gradient */
static void slope(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = rosenbrock(in[0]);
	tj_grad(out + 1, out[0], TJ_LIST(in[0]), NULL);
}

/* in: x, v; out: the Hessian at x, times v */
static void curve(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *g;
	(void)self;
	tj_grad(&g, rosenbrock(in[0]), TJ_LIST(in[0]), NULL);
	out[0] = tj_jvp(g, TJ_LIST(in[0]), TJ_LIST(in[1]), TJ_UNUSED_ERROR);
}

static double x[N], g[N], p[N], d[N], r[N], hp[N];

static double dot(const double *a, const double *b)
{
	double s = 0;
	for (int i = 0; i < N; i++) s += a[i] * b[i];
	return s;
}

static double value(tj_ctx *c, tj_fn *f, const double *at, double *grad)
{
	tj_scope *s = tj_push(c);
	tj_tensor *out[2];
	double v = NAN;
	if (tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), at))) == TJ_OK) {
		v = tj_item(out[0]);
		tj_read(out[1], grad, sizeof g);
	}
	tj_pop(s);
	return v;
}

/* Sets d: near -H^-1 g, and downhill. Gives the number of products. */
static int direction(tj_ctx *c, tj_fn *f)
{
	const double goal = fmin(0.25, sqrt(dot(g, g))) * sqrt(dot(g, g));
	int turns = 0;
	memset(d, 0, sizeof d);
	for (int i = 0; i < N; i++) p[i] = r[i] = -g[i];
	for (double rr = dot(r, r), before = rr; turns < MOST && sqrt(rr) > goal; before = rr) {
		tj_scope *s = tj_push(c);
		tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x), tj_from_data(c, TJ_F64, TJ_SHAPE(N), p))), hp, sizeof hp);
		tj_pop(s);
		turns++;
		const double bend = dot(p, hp);
		if (!(bend > 0)) {
			if (turns == 1) memcpy(d, p, sizeof d);
			break;
		}
		for (int i = 0; i < N; i++) {
			d[i] += rr / bend * p[i];
			r[i] -= rr / bend * hp[i];
		}
		rr = dot(r, r);
		for (int i = 0; i < N; i++) p[i] = r[i] + rr / before * p[i];
	}
	return turns;
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, slope, NULL, TJ_OPTS(tj_compile_opts, .name = "slope", .nin = 1, .nout = 2));
	tj_fn *h = tj_compile(c, curve, NULL, TJ_OPTS(tj_compile_opts, .name = "curve", .nin = 2, .nout = 1));
	const clock_t begin = clock();
	int turn = 0, products = 0;
	for (int i = 0; i < N; i++) x[i] = i % 2 ? 1 : -1.2 + 1e-3 * i;
	double v = value(c, f, x, g);
	for (; turn < 200 && sqrt(dot(g, g)) > 1e-9; turn++) {
		double step = 1, down, next, was[N];
		products += direction(c, h);
		down = dot(g, d);
		memcpy(was, x, sizeof x);
		for (;; step /= 2) { /* until it goes down enough */
			for (int i = 0; i < N; i++) x[i] = was[i] + step * d[i];
			next = value(c, f, x, g);
			if (next <= v + 1e-4 * step * down || step < 1e-12) break;
		}
		v = next;
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	fprintf(stderr, "time: %d turns, %d products, %.0f ms\n", turn, products, (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC);
	printf("%s: value %.1e, gradient %s\n", v < 1e-15 && turn < 100 ? "converged" : "stopped", v < 1e-15 ? 0 : v,
	       sqrt(dot(g, g)) < 1e-9 ? "below 1e-9" : "too large");
	tj_close(c);
	return 0;
}
