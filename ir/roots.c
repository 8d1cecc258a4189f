/* SPDX-License-Identifier: MIT */
/* roots: roots of unity, in double. The C library's sine and cosine differ between versions; these are made of additions, products and
 * fma() alone.
 *
 * An angle is a fraction k / n of a turn. It is brought into [0, 1/8] in integers, so what is left is exact. */
#include "ir/fft.h"

#include <math.h>

/* cos and sin of 2 pi num / den, at most 1/8 of a turn. The angle is two doubles: q, and r, what was rounded away. */
static ir_root near_zero(int64_t num, int64_t den)
{
	static const double turn = 0x1.921fb54442d18p+2, turn_low = 0x1.1a62633145c07p-52;
	const double n = (double)num, d = (double)den, p = turn * n, q = p / d;
	const double r = (fma(turn, n, -p) + turn_low * n + fma(-q, d, p)) / d, x = q * q;
	/* Taylor's series; the next terms are below 2^-58 */
	double s = 1 / 355687428096000.0, c = 1 / 20922789888000.0;
	s = s * x - 1 / 1307674368000.0, s = s * x + 1 / 6227020800.0, s = s * x - 1 / 39916800.0, s = s * x + 1 / 362880.0;
	s = s * x - 1 / 5040.0, s = s * x + 1 / 120.0, s = s * x - 1 / 6.0;
	c = c * x - 1 / 87178291200.0, c = c * x + 1 / 479001600.0, c = c * x - 1 / 3628800.0;
	c = c * x + 1 / 40320.0, c = c * x - 1 / 720.0, c = c * x + 1 / 24.0;
	const double half = x / 2, one = 1 - half;
	const double low = (1 - one) - half; /* of 1 - x/2 */
	return (ir_root){ one + (low + (x * x * c - q * r)), q + (q * x * s + r * one) };
}

ir_root ir_unit_root(int64_t k, int64_t n)
{
	const int64_t quarter = 4 * k / n, rest = 4 * k - quarter * n; /* rest / 4n of a turn behind a quarter */
	ir_root w = 2 * rest <= n ? near_zero(rest, 4 * n) : near_zero(n - rest, 4 * n);
	if (2 * rest > n) w = (ir_root){ w.im, w.re };
	switch (quarter & 3) {
	case 1: return (ir_root){ -w.im, w.re };
	case 2: return (ir_root){ -w.re, -w.im };
	case 3: return (ir_root){ w.im, -w.re };
	default: return w;
	}
}

/* The first eighth is computed, the others are mirrored: an eighth of the work, and the same bits. */
ir_root *ir_unit_roots(int64_t n)
{
	ir_root *w = n > 0 && n <= INT64_MAX / (int64_t)sizeof *w / 8 ? rt_alloc((size_t)n * sizeof *w) : NULL;
	for (int64_t k = 0; w && k < n; k++) {
		const int64_t quarter = 4 * k / n, rest = 4 * k - quarter * n;
		if (rest % 4 || n % 4 || quarter == 0) w[k] = ir_unit_root(k, n); /* else k - n/4 is a whole number */
		else w[k] = (ir_root){ -w[k - n / 4].im, w[k - n / 4].re };
	}
	return w;
}
