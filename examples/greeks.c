/* SPDX-License-Identifier: MIT */
/* The price of a European call by Monte Carlo, and its Greeks by tj_grad(): one call gives the price, its derivatives by the spot, the
 * volatility and the rate, and the second derivative by the spot. Black and Scholes' formula stands beside them. The paths are drawn in
 * the call; tj_seed() before it gives the same paths again. Then Heston's model, whose volatility is random too: its paths are a
 * tj_scan(), and the gradient goes back through all steps. */
#include <tj.h>

#include <math.h>

enum { PATHS = 200000, STEPS = 40 };
static const double strike = 105, years = 1, pi = 3.14159265358979323846;

static tj_tensor *mean(tj_tensor *x) { return tj_mean(x, TJ_ALL, false); }

/* in: spot, volatility, rate (f64, no axes); out: price, delta, vega, rho, gamma */
static void black_scholes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *spot = in[0], *vol = in[1], *rate = in[2], *z = tj_normal(TJ_F64, TJ_SHAPE(PATHS / 2)), *smooth, *slope;
	(void)self;
	z = tj_cat(TJ_LIST(z, tj_neg(z)), 0); /* each path with its mirror image: a smaller error */
	tj_tensor *drift = tj_mul(tj_sub(rate, tj_mul(tj_square(vol), tj_f(0.5))), tj_f(years));
	tj_tensor *end = tj_mul(spot, tj_exp(tj_add(drift, tj_mul(tj_mul(vol, tj_f(sqrt(years))), z))));
	tj_tensor *discount = tj_exp(tj_mul(rate, tj_f(-years))), *gain = tj_sub(end, tj_f(strike));
	out[0] = tj_mul(discount, mean(tj_relu(gain)));
	tj_grad(out + 1, out[0], TJ_LIST(spot, vol, rate), NULL); /* three gradients: out[1] to out[3] */
	/* relu() has a kink, so its second derivative is 0 nearly everywhere. softplus() is like it, but smooth. */
	smooth = tj_mul(discount, mean(tj_softplus(gain, 1, 40)));
	tj_grad(&slope, smooth, TJ_LIST(spot), NULL);
	tj_grad(out + 4, slope, TJ_LIST(spot), NULL);
}

typedef struct model { tj_tensor *rate, *back, *level, *vol_of_vol; } model;

/* one step of all paths. Carries: log(price), variance; slices: two normal numbers for each path */
static void heston_step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	const double dt = years / STEPS, corr = -0.6;
	/* sqrt() has the slope inf at 0, and 0 * inf is NaN: so the variance stays a little above it */
	tj_tensor *v = tj_maximum(in[1], tj_f(1e-8)), *s = tj_mul(tj_sqrt(v), tj_f(sqrt(dt)));
	tj_tensor *w = tj_add(tj_mul(in[2], tj_f(corr)), tj_mul(in[3], tj_f(sqrt(1 - corr * corr))));
	out[0] = tj_add(in[0], tj_add(tj_mul(tj_sub(m->rate, tj_mul(v, tj_f(0.5))), tj_f(dt)), tj_mul(s, in[2])));
	out[1] = tj_add(in[1], tj_add(tj_mul(tj_mul(m->back, tj_sub(m->level, v)), tj_f(dt)), tj_mul(tj_mul(m->vol_of_vol, s), w)));
}

/* in: spot, variance, rate, speed of going back, long-term variance, volatility of the variance; out: price, and its derivatives by the
 * spot, the variance and the last one */
static void heston(tj_tensor **out, tj_tensor *const *in, void *self)
{
	enum { N = PATHS / 20 };
	model m = { in[2], in[3], in[4], in[5] };
	tj_tensor *z1 = tj_normal(TJ_F64, TJ_SHAPE(STEPS, N)), *end[2];
	tj_tensor *z2 = tj_normal(TJ_F64, TJ_SHAPE(STEPS, N)); /* a statement of its own: C may evaluate operands in any order */
	(void)self;
	tj_scan(end, NULL, 0, heston_step, TJ_LIST(tj_expand(tj_log(in[0]), TJ_SHAPE(N)), tj_expand(in[1], TJ_SHAPE(N))), TJ_LIST(z1, z2), &m,
	        NULL);
	out[0] = tj_mul(tj_exp(tj_mul(in[2], tj_f(-years))), mean(tj_relu(tj_sub(tj_exp(end[0]), tj_f(strike)))));
	tj_grad(out + 1, out[0], TJ_LIST(in[0], in[1], in[5]), NULL);
}

static tj_tensor *f64(double x) { return tj_full(TJ_F64, TJ_0D, tj_f(x)); }
static double normal_below(double x) { return 0.5 * erfc(-x / sqrt(2)); }

int main(void)
{
	const double s = 100, vol = 0.2, r = 0.03;
	const double d1 = (log(s / strike) + (r + vol * vol / 2) * years) / (vol * sqrt(years)), d2 = d1 - vol * sqrt(years);
	const double density = exp(-d1 * d1 / 2) / sqrt(2 * pi), cash = strike * exp(-r * years) * normal_below(d2);
	tj_ctx *c = tj_open(NULL);
	tj_tensor *out[5];
	tj_fn *f = tj_compile(c, black_scholes, NULL, TJ_OPTS(tj_compile_opts, .name = "black_scholes", .nin = 3, .nout = 5));
	printf("               price   delta     vega      rho   gamma\n");
	printf("formula     %8.3f %7.4f %8.3f %8.3f %7.4f\n", s * normal_below(d1) - cash, normal_below(d1), s * density * sqrt(years),
	       cash * years, density / (s * vol * sqrt(years)));
	tj_seed(c, 1);
	if (tj_call(f, out, TJ_LIST(f64(s), f64(vol), f64(r))) != TJ_OK) return tj_perror(c, stderr), 1;
	printf("Monte Carlo %8.3f %7.4f %8.3f %8.3f %7.4f\n", tj_item(out[0]), tj_item(out[1]), tj_item(out[2]), tj_item(out[3]), tj_item(out[4]));

	tj_fn *g = tj_compile(c, heston, NULL, TJ_OPTS(tj_compile_opts, .name = "heston", .nin = 6, .nout = 4));
	double price[3];
	for (int i = 0; i < 3; i++) { /* the same paths with another spot: the difference confirms delta */
		tj_seed(c, 2);
		if (tj_call(g, out, TJ_LIST(f64(s + (i - 1) * 0.001), f64(0.04), f64(r), f64(1.5), f64(0.05), f64(0.4))) != TJ_OK)
			return tj_perror(c, stderr), 1;
		price[i] = tj_item(out[0]);
		if (i == 1)
			printf("Heston      %8.3f %7.4f, by the variance %.3f, by its volatility %.3f\n", price[i], tj_item(out[1]),
			       tj_item(out[2]), tj_item(out[3]));
	}
	printf("delta by differences %.4f\n", (price[2] - price[0]) / 0.002);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
