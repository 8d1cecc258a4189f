/* SPDX-License-Identifier: MIT */
/* tj_pow() by numbers that are recorded as products and roots: values beside powl(), all edges, numbers that change between calls. */
#include "test/kit.h"

#include <fenv.h>
#include <math.h>

static const double listed[] = { 2, 0.5, -1, 3, -0.5, 1.5, -1.5, -2, 1, 4, -3 };
static const double edges[] = { 0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 2, -2.5, 0.3, 1e-20, -1e-20, 3e18, -3e18, 1e13, 6e-39, 1e-42,
	                            -1e-42, 3.3e38, 1.7, -0.9, 1e-7, 255, 1e10 };
enum { EDGES = sizeof edges / sizeof *edges, LISTED = sizeof listed / sizeof *listed };

static void by_number(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const double *e = self;
	out[0] = tj_pow(in[0], tj_f(*e));
	out[1] = *e == (int)*e ? tj_pow(in[0], tj_i((int)*e)) : out[0];
}

/* The error in units of the last place; 0 where both are NaN, or equal with equal signs. */
static double ulps(double got, long double want, bool narrow)
{
	if (want != want) return got != got ? 0 : INFINITY;
	const double near = narrow ? (double)(float)want : (double)want;
	if (got == near) return signbit(got) == signbit(near) ? 0 : INFINITY;
	if (isinf(near) || isinf(got)) return INFINITY;
	const int least = narrow ? -149 : -1074;
	int exp = ilogbl(want) - (narrow ? 23 : 52);
	return (double)(fabsl((long double)got - want) / ldexpl(1, exp < least ? least : exp));
}

static void values(void **s)
{
	(void)s;
	for (int narrow = 0; narrow < 2; narrow++)
		for (int i = 0; i < LISTED; i++) {
			double e = listed[i], x[EDGES], got[2][EDGES];
			float few[EDGES], is[2][EDGES];
			tj_ctx *c = kit_open();
			for (int k = 0; k < EDGES; k++) few[k] = (float)edges[k], x[k] = narrow ? (double)few[k] : edges[k];
			tj_tensor *y[2], *in = tj_from_data(c, narrow ? TJ_F32 : TJ_F64, TJ_SHAPE(EDGES), narrow ? (void *)few : (void *)x);
			tj_call(kit_fn(c, "power", by_number, &e, 1, 2), y, TJ_LIST(in));
			for (int o = 0; o < 2; o++) {
				tj_read(y[o], narrow ? (void *)is[o] : (void *)got[o], EDGES * (narrow ? 4 : 8));
				for (int k = 0; k < EDGES; k++) {
					const double v = narrow ? (double)is[o][k] : got[o][k], error = ulps(v, powl((long double)x[k], (long double)e), narrow);
					if (!(error <= 2.1)) fail_msg("pow(%a, %g) in %s is %a: %g ulp", x[k], e, narrow ? "f32" : "f64", v, error);
				}
			}
			kit_ok(c);
			tj_close(c);
		}
}

/* A program that traps floating-point exceptions, also inexact results, may call tj_pow(): the choice of steps raises none. */
static void in_a_program_that_traps(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	tj_tensor *x = F32(c, 4, 2);
	for (int i = 0; i < LISTED; i++) {
		feclearexcept(FE_ALL_EXCEPT);
		feenableexcept(FE_ALL_EXCEPT);
		tj_tensor *y = tj_pow(x, tj_f(listed[i]));
		fedisableexcept(FE_ALL_EXCEPT);
		assert_false(tj_is_poison(y));
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- a number that is another one in the next call ---- */
static int runs;
static void by_argument(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++;
	out[0] = tj_pow(in[0], tj_arg_f(0));
}

static void numbers_that_change(void **s)
{
	(void)s;
	static const double e[] = { 2, 2, 2, 2, 0.5, 0.5, 0.5, 0.5, 7, 7, 7, 7, 2.5, 3, 3, 3, 3, -1.5, -1.5, 2, 0, 1 };
	for (int audit = 0; audit < 2; audit++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = audit));
		tj_tensor *x = tj_from_data(c, TJ_F64, TJ_SHAPE(3), ((double[]){ 0.25, 4, 9 }));
		tj_fn *f = tj_compile(c, by_argument, NULL, TJ_OPTS(tj_compile_opts, .name = "power", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
		runs = 0;
		for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
			tj_tensor *y;
			tj_call_ex(f, &y, TJ_LIST(x), TJ_SCALARS(TJ_F(e[i])));
			const double *v = tj_data(y);
			for (int k = 0; k < 3; k++)
				if (fabs(v[k] - pow(k == 0 ? 0.25 : k == 1 ? 4 : 9, e[i])) > 1e-9 * fabs(v[k])) fail_msg("call %d: %g", (int)i, v[k]);
		}
		kit_ok(c);
		if (!audit && runs >= (int)(sizeof e / sizeof *e)) fail_msg("%s: %d runs", kit_backend ? kit_backend : "?", runs);
		tj_close(c);
	}
}

/* Gradients are those of the steps; they are near those of a power by a tensor, which is one op, also at the edges. */
static void sloped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const double *e = self;
	tj_grad(&out[0], tj_sum(tj_pow(in[0], tj_f(*e)), TJ_ALL, false), TJ_LIST(in[0]), NULL);
	tj_grad(&out[1], tj_sum(tj_pow(in[0], in[1]), TJ_ALL, false), TJ_LIST(in[0]), NULL);
}

static void gradients(void **s)
{
	(void)s;
	for (int i = 0; i < LISTED; i++) {
		double e = listed[i], x[] = { 0.3, 1, 2.5, 7, 0, -0.0, 1e-8, 1e9, -1e-8, -3, INFINITY, -INFINITY, 1e-30, 1e30 }, g[2][14], all[14];
		enum { N = 14 };
		for (int k = 0; k < N; k++) all[k] = e;
		tj_ctx *c = kit_open();
		tj_tensor *y[2];
		tj_call(kit_fn(c, "slope", sloped, &e, 2, 2), y,
		        TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x), tj_from_data(c, TJ_F64, TJ_SHAPE(N), all)));
		for (int o = 0; o < 2; o++) tj_read(y[o], g[o], sizeof g[o]);
		for (int k = 0; k < N; k++) {
			const bool same = g[0][k] == g[1][k] || (g[0][k] != g[0][k] && g[1][k] != g[1][k]);
			if (!same && !(fabs(g[0][k] - g[1][k]) <= 1e-12 * fabs(g[1][k])))
				fail_msg("slope of pow(%g, %g) is %g, not %g", x[k], e, g[0][k], g[1][k]);
		}
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(in_a_program_that_traps),
		                            cmocka_unit_test(numbers_that_change), cmocka_unit_test(gradients) };
	KIT_RUN(tests);
}
