/* SPDX-License-Identifier: MIT */
/* ulp_more: measures the errors of functions of two operands, and of functions that are made of several ops.
 *
 *   ulp_more [-n inputs of a row and a dtype] [name...]
 *
 * Inputs are samples; MPFR computes each exact result. A row of the table is a function on a part of its inputs, with its bounds. Where a
 * result is a difference of larger numbers, as x - tanh(x) near 0, no bound in ulp of the result holds; there the error is counted in ulp
 * of the number that `unit` gives, and the row says so. */
#include <tj.h>

#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 12, BITS = 400 };
#define WRONG 1e9 /* error of a result that is NaN or infinite where the exact one is not, in ulps */
#define D MPFR_RNDN

/* ---- the functions, and exact ones ---- */
typedef tj_tensor *call_fn(tj_tensor *a, tj_tensor *b);
typedef void exact_fn(mpfr_t r, const mpfr_t a, const mpfr_t b);

#define ONE(name, call) static tj_tensor *name##_(tj_tensor *a, tj_tensor *b) { (void)b; return call; }
#define TWO(name) static tj_tensor *name##_(tj_tensor *a, tj_tensor *b) { return tj_##name(a, b); }
TWO(pow)
TWO(atan2) TWO(hypot) TWO(logaddexp) TWO(logaddexp2) TWO(xlogy) TWO(xlog1py) ONE(silu, tj_silu(a)) ONE(gelu, tj_gelu(a))
	ONE(gelu_tanh, tj_gelu_tanh(a)) ONE(mish, tj_mish(a)) ONE(softplus, tj_softplus(a, 1, 20)) ONE(logsigmoid, tj_logsigmoid(a))
		ONE(softsign, tj_softsign(a)) ONE(tanhshrink, tj_tanhshrink(a)) ONE(elu, tj_elu(a, 1)) ONE(selu, tj_selu(a))
			ONE(entr, tj_entr(a)) ONE(logit, tj_logit(a, -1))

				static void e_pow(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	mpfr_pow(r, a, b, D);
}
static void e_atan2(mpfr_t r, const mpfr_t a, const mpfr_t b) { mpfr_atan2(r, a, b, D); }
static void e_hypot(mpfr_t r, const mpfr_t a, const mpfr_t b) { mpfr_hypot(r, a, b, D); }
static void add_exp(mpfr_t r, const mpfr_t a, const mpfr_t b, bool two)
{
	mpfr_t ln2;
	mpfr_init2(ln2, BITS);
	mpfr_sub(r, a, b, D);
	mpfr_abs(r, r, D);
	mpfr_neg(r, r, D);
	two ? mpfr_exp2(r, r, D) : mpfr_exp(r, r, D);
	mpfr_log1p(r, r, D);
	mpfr_const_log2(ln2, D);
	if (two) mpfr_div(r, r, ln2, D);
	mpfr_add(r, r, mpfr_cmp(a, b) > 0 ? a : b, D);
	mpfr_clear(ln2);
}
static void e_logaddexp(mpfr_t r, const mpfr_t a, const mpfr_t b) { add_exp(r, a, b, false); }
static void e_logaddexp2(mpfr_t r, const mpfr_t a, const mpfr_t b) { add_exp(r, a, b, true); }
static void e_xlogy(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	mpfr_log(r, b, D);
	mpfr_mul(r, r, a, D);
}
static void e_xlog1py(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	mpfr_log1p(r, b, D);
	mpfr_mul(r, r, a, D);
}
/* a / (1 + exp(-z)) */
static void gated(mpfr_t r, const mpfr_t a, const mpfr_t z)
{
	mpfr_neg(r, z, D);
	mpfr_exp(r, r, D);
	mpfr_add_ui(r, r, 1, D);
	mpfr_div(r, a, r, D);
}
static void e_silu(mpfr_t r, const mpfr_t a, const mpfr_t b) { (void)b, gated(r, a, a); }
static void e_gelu(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_sqrt_ui(r, 2, D);
	mpfr_div(r, a, r, D);
	mpfr_neg(r, r, D);
	mpfr_erfc(r, r, D);
	mpfr_mul(r, r, a, D);
	mpfr_div_ui(r, r, 2, D);
}
/* (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z)) */
static void e_gelu_tanh(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_t z, k;
	mpfr_inits2(BITS, z, k, (mpfr_ptr)0);
	mpfr_set_str(k, "0.044715", 10, D);
	mpfr_pow_ui(z, a, 3, D);
	mpfr_mul(z, z, k, D);
	mpfr_add(z, z, a, D);
	mpfr_const_pi(k, D);
	mpfr_ui_div(k, 8, k, D);
	mpfr_sqrt(k, k, D);
	mpfr_mul(z, z, k, D);
	gated(r, a, z);
	mpfr_clears(z, k, (mpfr_ptr)0);
}
static void log1p_exp(mpfr_t r, const mpfr_t a)
{
	mpfr_exp(r, a, D);
	if (mpfr_inf_p(r)) mpfr_set(r, a, D);
	else mpfr_log1p(r, r, D);
}
/* Above the threshold it is a, by definition. */
static void e_softplus(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	if (mpfr_cmp_ui(a, 20) > 0) mpfr_set(r, a, D);
	else log1p_exp(r, a);
}
static void e_mish(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	log1p_exp(r, a);
	mpfr_tanh(r, r, D);
	mpfr_mul(r, r, a, D);
}
static void e_logsigmoid(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_t m;
	mpfr_init2(m, BITS);
	mpfr_neg(m, a, D);
	log1p_exp(r, m);
	mpfr_neg(r, r, D);
	mpfr_clear(m);
}
static void e_softsign(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_abs(r, a, D);
	mpfr_add_ui(r, r, 1, D);
	mpfr_div(r, a, r, D);
}
/* Near 0 by the series: x^3 (1 / 3 - 2 x^2 / 15 + 17 x^4 / 315). */
static void e_tanhshrink(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	if (!mpfr_zero_p(a) && mpfr_get_exp(a) < -30) {
		mpfr_t s;
		mpfr_init2(s, BITS);
		mpfr_sqr(s, a, D);
		mpfr_mul_ui(r, s, 17, D);
		mpfr_div_ui(r, r, 315, D);
		mpfr_mul_ui(r, r, 15, D);
		mpfr_sub_ui(r, r, 2, D);
		mpfr_div_ui(r, r, 15, D);
		mpfr_mul(r, r, s, D);
		mpfr_set_ui(s, 1, D);
		mpfr_div_ui(s, s, 3, D);
		mpfr_add(r, r, s, D);
		mpfr_pow_ui(s, a, 3, D);
		mpfr_mul(r, r, s, D);
		mpfr_clear(s);
		return;
	}
	mpfr_tanh(r, a, D);
	mpfr_sub(r, a, r, D);
}
static void e_elu(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	if (mpfr_sgn(a) > 0) mpfr_set(r, a, D);
	else mpfr_expm1(r, a, D);
}
static void e_selu(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	mpfr_t k;
	mpfr_init2(k, BITS);
	e_elu(r, a, b);
	mpfr_set_str(k, "1.6732632423543772", 10, D);
	if (mpfr_sgn(a) <= 0) mpfr_mul(r, r, k, D);
	mpfr_set_str(k, "1.0507009873554805", 10, D);
	mpfr_mul(r, r, k, D);
	mpfr_clear(k);
}
static void e_entr(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_log(r, a, D);
	mpfr_mul(r, r, a, D);
	mpfr_neg(r, r, D);
}
static void e_logit(mpfr_t r, const mpfr_t a, const mpfr_t b)
{
	(void)b;
	mpfr_ui_sub(r, 1, a, D);
	mpfr_div(r, a, r, D);
	mpfr_log(r, r, D);
}

/* ---- the table ---- */
typedef enum sample { ANY, BELOW /* -1100 to 0 */, UNIT_, PAIRS, LOG_PAIRS, ZEROS, ZEROS2 } sample;
typedef enum unit { RESULT, OPERAND, LARGER, ONE_, LEAST } unit; /* in whose ulps the error is counted, if it is larger than the result */

typedef struct at { double a, b, r, least; } at; /* operands, the exact result, the least normal number */
static bool all(at q) { return (void)q, true; }
static bool positive(at q) { return q.a >= 0; }
static bool negative(at q) { return q.a < 0; }
static bool far(at q) { return fabs(q.a) >= 1; }
static bool near(at q) { return fabs(q.a) < 1; }
static bool large(at q) { return fabs(q.r) >= fmax(fabs(q.a), fabs(q.b)) / 2; }
static bool small(at q) { return !large(q); }
static bool logarithm(at q) { return q.b > 0; }
static bool logarithm1(at q) { return q.b > -1; }
static bool inside(at q) { return q.a > 0; }
static bool ends(at q) { return q.a > 0 && q.a < 1 && fabs(q.a - 0.5) >= 0.25; }
/* x is so large that f(x), of which the result is |x| times, is normal; or not. */
static bool normal(at q) { return q.a >= 0 || fabs(q.r) >= 2 * fabs(q.a) * q.least; }
static bool subnormal(at q) { return !normal(q); }
static bool middle(at q) { return fabs(q.a - 0.5) < 0.25; }

static const struct row {
	const char *name, *where;
	call_fn *call;
	exact_fn *exact;
	bool (*in)(at q);
	sample sample;
	unit unit;
	double bound[2]; /* f32, f64 */
} rows[] = {
	{ "pow", "", pow_, e_pow, positive, PAIRS, RESULT, { 0.51, 1.25 } },
	{ "atan2", "", atan2_, e_atan2, all, PAIRS, RESULT, { 2, 2 } },
	{ "hypot", "", hypot_, e_hypot, all, PAIRS, RESULT, { 0.51, 1.1 } },
	{ "xlogy", "", xlogy_, e_xlogy, logarithm, LOG_PAIRS, RESULT, { 2, 2 } },
	{ "xlog1py", "", xlog1py_, e_xlog1py, logarithm1, LOG_PAIRS, RESULT, { 2, 2 } },
	{ "entr", "", entr_, e_entr, inside, ANY, RESULT, { 2, 2 } },
	{ "softsign", "", softsign_, e_softsign, all, ANY, RESULT, { 2, 2 } },
	{ "silu", "", silu_, e_silu, normal, ANY, RESULT, { 3.5, 3 } },
	{ "silu", "sigmoid(x) is subnormal, in ulp of x times the least normal number", silu_, e_silu, subnormal, BELOW, LEAST, { 2, 2 } },
	{ "mish", "", mish_, e_mish, normal, ANY, RESULT, { 4, 4 } },
	{ "mish", "exp(x) is subnormal, in ulp of x times the least normal number", mish_, e_mish, subnormal, BELOW, LEAST, { 2, 2 } },
	{ "softplus", "", softplus_, e_softplus, all, ANY, RESULT, { 2, 2 } },
	{ "logsigmoid", "", logsigmoid_, e_logsigmoid, all, ANY, RESULT, { 2, 2 } },
	{ "elu", "", elu_, e_elu, all, ANY, RESULT, { 1, 1 } },
	{ "selu", "", selu_, e_selu, all, ANY, RESULT, { 2.5, 2.5 } },
	{ "gelu", "x >= 0", gelu_, e_gelu, positive, ANY, RESULT, { 2, 2 } },
	{ "gelu", "x < 0, in ulp of x", gelu_, e_gelu, negative, ANY, OPERAND, { 1, 1 } },
	{ "gelu_tanh", "x >= 0", gelu_tanh_, e_gelu_tanh, positive, ANY, RESULT, { 2, 2 } },
	{ "gelu_tanh", "x < 0, in ulp of x", gelu_tanh_, e_gelu_tanh, negative, ANY, OPERAND, { 1.25, 1.25 } },
	{ "tanhshrink", "|x| >= 1", tanhshrink_, e_tanhshrink, far, ANY, RESULT, { 6, 3 } },
	{ "tanhshrink", "|x| < 1, in ulp of x", tanhshrink_, e_tanhshrink, near, ANY, OPERAND, { 2, 1 } },
	{ "logit", "|x - 0.5| >= 0.25", logit_, e_logit, ends, UNIT_, RESULT, { 1.5, 1.5 } },
	{ "logit", "|x - 0.5| < 0.25, in ulp of 1", logit_, e_logit, middle, UNIT_, ONE_, { 1.5, 1.5 } },
	{ "logaddexp", "|y| >= max(|a|, |b|) / 2", logaddexp_, e_logaddexp, large, LOG_PAIRS, RESULT, { 3.5, 3.5 } },
	{ "logaddexp", "near its zeros, in ulp of the larger operand", logaddexp_, e_logaddexp, small, ZEROS, LARGER, { 1.5, 1.5 } },
	{ "logaddexp2", "|y| >= max(|a|, |b|) / 2", logaddexp2_, e_logaddexp2, large, LOG_PAIRS, RESULT, { 4, 4 } },
	{ "logaddexp2", "near its zeros, in ulp of the larger operand", logaddexp2_, e_logaddexp2, small, ZEROS2, LARGER, { 2, 2 } },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- samples ---- */
static uint64_t state;
static uint64_t next(void)
{
	uint64_t z = state += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static double unit_number(void) { return (double)(next() >> 11) * 0x1p-53; }
static double usual(void) { return ldexp(unit_number() * 2 - 1, (int)(next() % 16) - 8); }

/* Of all finite numbers of the dtype, by their bits. */
static double any(bool wide)
{
	for (;;) {
		const uint64_t b = next();
		const uint32_t h = (uint32_t)(b >> 32);
		double d;
		float f;
		memcpy(&d, &b, sizeof d);
		memcpy(&f, &h, sizeof f);
		if (!wide) d = (double)f;
		if (isfinite(d)) return d;
	}
}

static void draw(sample s, bool wide, double *a, double *b)
{
	const bool half = next() & 1;
	*a = half ? any(wide) : usual();
	*b = half ? any(wide) : usual();
	if (s == BELOW) *a = -1100 * unit_number();
	if (s == UNIT_) *a = half ? unit_number() : ldexp(unit_number(), -(int)(next() % 64));
	if (s == PAIRS && next() % 4 == 0) *b = *a * (1 + ldexp(unit_number() - 0.5, -(int)(next() % 30)));
	if (s == LOG_PAIRS) {
		*a = usual();
		if (next() % 4 == 0) *b = *a + ldexp(unit_number() - 0.5, -(int)(next() % 20));
	}
	if (s == ZEROS) *a = -3 * unit_number(), *b = log1p(-exp(*a)) + ldexp(unit_number() - 0.5, -(int)(next() % 30));
	if (s == ZEROS2) *a = -3 * unit_number(), *b = log2(1 - exp2(*a)) + ldexp(unit_number() - 0.5, -(int)(next() % 30));
	if (!wide) *a = (double)(float)*a, *b = (double)(float)*b;
	if (!isfinite(*a)) *a = 1;
	if (!isfinite(*b)) *b = -1;
}

/* ---- errors ---- */
static double ulp_at(double v, bool wide)
{
	const int e = v == 0 || !isfinite(v) ? -2000 : ilogb(v), least = wide ? -1022 : -126;
	return ldexp(1, (e < least ? least : e) - (wide ? 52 : 23));
}

typedef struct worst { double ulps, a, b; int64_t n; double result, result_a; } worst; /* result: in ulps of the result, and where */

static void judge(const struct row *w, bool wide, double a, double b, double got, worst *x)
{
	static mpfr_t ma, mb, r;
	static bool made;
	if (!made) mpfr_inits2(BITS, ma, mb, r, (mpfr_ptr)0), made = true;
	mpfr_set_d(ma, a, D);
	mpfr_set_d(mb, b, D);
	w->exact(r, ma, mb);
	const double want = wide ? mpfr_get_d(r, D) : (double)mpfr_get_flt(r, D);
	const double least = wide ? 0x1p-1022 : 0x1p-126;
	if (!w->in((at){ a, b, want, least })) return;
	x->n++;
	double u = 0, own = 0;
	if (isnan(got) || isnan(want) || isinf(got) || isinf(want)) u = own = got == want ? 0 : WRONG;
	else {
		const double size = w->unit == OPERAND  ? fabs(a)
		                    : w->unit == LARGER ? fmax(fabs(a), fabs(b))
		                    : w->unit == ONE_   ? 1
		                    : w->unit == LEAST  ? fabs(a) * least
		                                        : 0;
		mpfr_sub_d(r, r, got, D);
		own = fabs(mpfr_get_d(r, D)) / ulp_at(want, wide);
		u = fabs(mpfr_get_d(r, D)) / ulp_at(fmax(fabs(want), size), wide);
	}
	if (u > x->ulps) x->ulps = u, x->a = a, x->b = b;
	if (own > x->result) x->result = own, x->result_a = a;
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = ((const struct row *)self)->call(in[0], in[1]); }

static bool run(tj_ctx *c, const struct row *w, bool wide, int64_t inputs)
{
	static double a[BLOCK], b[BLOCK];
	static float fa[BLOCK], fb[BLOCK];
	worst x = { 0 };
	tj_fn *f = tj_compile(c, body, (void *)w, TJ_OPTS(tj_compile_opts, .name = w->name, .nin = 2, .nout = 1));
	const tj_dtype t = wide ? TJ_F64 : TJ_F32;
	for (int64_t done = 0; done < inputs; done += BLOCK) {
		for (int i = 0; i < BLOCK; i++) {
			draw(w->sample, wide, &a[i], &b[i]);
			fa[i] = (float)a[i], fb[i] = (float)b[i];
		}
		tj_scope *s = tj_push(c);
		tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, t, TJ_SHAPE(BLOCK), wide ? (void *)a : fa),
		                                   tj_from_data(c, t, TJ_SHAPE(BLOCK), wide ? (void *)b : fb)));
		const void *got = tj_data(y);
		if (tj_is_poison(y)) printf("FAIL %s: %s\n", w->name, tj_check(c) ? tj_last_error(c)->message : "");
		for (int i = 0; i < BLOCK && !tj_is_poison(y); i++)
			judge(w, wide, a[i], b[i], wide ? ((const double *)got)[i] : (double)((const float *)got)[i], &x);
		tj_pop(s);
	}
	tj_fn_free(f);
	const bool ok = x.n && x.ulps <= w->bound[wide];
	printf("%-4s %s %-10s %-58s %.3f ulp at %.9g, %.9g; of the result %.3g at %.9g; %lld inputs, bound %g\n", ok ? "ok" : "FAIL",
	       wide ? "f64" : "f32", w->name, w->where, x.ulps, x.a, x.b, x.result, x.result_a, (long long)x.n, w->bound[wide]);
	fflush(stdout);
	return ok;
}

int main(int argc, char **argv)
{
	int64_t inputs = 1 << 20;
	int first = 1, passed = 0, failed = 0;
	if (argc > 2 && !strcmp(argv[1], "-n")) inputs = atoll(argv[2]), first = 3;
	tj_ctx *c = tj_open(NULL);
	for (int wide = 0; wide < 2; wide++)
		for (int i = 0; i < ROWS; i++) {
			bool wanted = first == argc;
			for (int k = first; k < argc; k++) wanted |= !strcmp(argv[k], rows[i].name);
			state = (uint64_t)(2 * i + wide); /* the same samples, whichever rows are run */
			if (wanted) run(c, &rows[i], wide, inputs) ? passed++ : failed++;
		}
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}
