/* SPDX-License-Identifier: MIT */
/* Orthogonal polynomials of a small degree, by their recurrences: p[k + 1] = (a x + b) p[k] - c p[k - 1]. */
#include "functions/functions.h"

enum { MOST_DEGREE = 128 };
typedef enum family { CHEBYSHEV, HERMITE, HERMITE_E, LAGUERRE, LEGENDRE } family;
typedef struct polynomial { family f; double scale, shift; bool shifted; } polynomial; /* degree 1: scale x + shift. shifted: of 2 x - 1 */

static tj_tensor *evaluated(const char *site, const char *name, const polynomial *p, tj_tensor *x, int n)
{
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	if (n < 0 || n > MOST_DEGREE) return tj_fail(TJ_ERR_ARG, name, "from 0 to 128", "the degree is %d", n);
	if (!fn_is_float(tj_dtype_of(x))) x = tj_cast(x, TJ_F32);
	const tj_dtype t = tj_dtype_of(x);
	x = fn_widened(site, x);
	if (p->shifted) x = tj_sub(tj_add(x, x), tj_f(1));
	tj_tensor *before = tj_ones_like(x), *now = tj_add(tj_mul(x, tj_f(p->scale)), tj_f(p->shift));
	for (int k = 1; k < n; k++) {
		const double a = p->f == LAGUERRE ? -1.0 / (k + 1) : p->f == LEGENDRE ? (2 * k + 1.0) / (k + 1) : p->f == HERMITE_E ? 1 : 2;
		const double b = p->f == LAGUERRE ? (2 * k + 1.0) / (k + 1) : 0;
		const double c = p->f == CHEBYSHEV ? 1 : p->f == HERMITE ? 2.0 * k : p->f == HERMITE_E ? k : (double)k / (k + 1);
		tj_tensor *factor = tj_mul(x, tj_f(a)), *next = tj_sub(tj_mul(b ? tj_add(factor, tj_f(b)) : factor, now), tj_mul(before, tj_f(c)));
		before = now;
		now = next;
	}
	tj_tensor *y = n ? now : before;
	return tj_is_poison(y) || tj_dtype_of(y) == t ? y : tj_cast(y, t);
}

#define POLYNOMIAL(name, ...)                                                                          \
	tj_tensor *tj_##name##_at(const char *site, tj_tensor *x, int n)                                   \
	{                                                                                                  \
		static const polynomial p = { __VA_ARGS__ };                                                   \
		return evaluated(site, #name, &p, x, n);                                                       \
	}
POLYNOMIAL(chebyshev_polynomial_t, CHEBYSHEV, 1, 0, false)
POLYNOMIAL(chebyshev_polynomial_u, CHEBYSHEV, 2, 0, false)
POLYNOMIAL(chebyshev_polynomial_v, CHEBYSHEV, 2, -1, false)
POLYNOMIAL(chebyshev_polynomial_w, CHEBYSHEV, 2, 1, false)
POLYNOMIAL(shifted_chebyshev_polynomial_t, CHEBYSHEV, 1, 0, true)
POLYNOMIAL(shifted_chebyshev_polynomial_u, CHEBYSHEV, 2, 0, true)
POLYNOMIAL(shifted_chebyshev_polynomial_v, CHEBYSHEV, 2, -1, true)
POLYNOMIAL(shifted_chebyshev_polynomial_w, CHEBYSHEV, 2, 1, true)
POLYNOMIAL(hermite_polynomial_h, HERMITE, 2, 0, false)
POLYNOMIAL(hermite_polynomial_he, HERMITE_E, 1, 0, false)
POLYNOMIAL(laguerre_polynomial_l, LAGUERRE, -1, 1, false)
POLYNOMIAL(legendre_polynomial_p, LEGENDRE, 1, 0, false)
