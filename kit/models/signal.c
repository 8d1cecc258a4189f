/* SPDX-License-Identifier: MIT */
/* signal: Fourier transforms, as products with the matrix of roots of unity. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)
enum { LONGEST = 4096 }; /* of a transform: the matrix has so many rows and columns */

/* cos or sin of 2 pi j k / n, [n,bins]. */
static tj_tensor *roots(ox_call *o, const char *site, int64_t n, int64_t bins, bool sine, tj_dtype dtype)
{
	double *v = ox_room(o, (size_t)(n * bins) * sizeof *v);
	if (!v) return NULL;
	for (int64_t j = 0; j < n; j++)
		for (int64_t k = 0; k < bins; k++) {
			const double a = 2 * acos(-1.0) * (double)(j * k % n) / (double)n;
			v[j * bins + k] = sine ? sin(a) : cos(a);
		}
	return tj_cast(tj_constant(o->r->c, TJ_F64, TJ_SHAPE(n, bins), v), dtype);
}

/* x [...,n,1 or 2] along its last axis but one, to [...,bins,2]. */
static tj_tensor *transform(ox_call *o, const char *site, tj_tensor *x, int64_t n, int64_t bins, bool inverse)
{
	const int axis = tj_rank(x) - 1;
	const tj_dtype dtype = tj_dtype_of(x) == TJ_F64 ? TJ_F64 : TJ_F32;
	if (n < 1 || n > LONGEST)
		return ox_fail(o, TJ_ERR_LIMIT, NULL, "a transform of length %lld; 1 to %d are possible", (long long)n, LONGEST);
	tj_tensor *c = roots(o, site, n, bins, false, dtype), *s = roots(o, site, n, bins, true, dtype);
	if (!c || !s) return NULL;
	if (inverse) s = tj_neg(s);
	x = tj_cast(x, dtype);
	tj_tensor *re = tj_select(x, axis, 0), *im = tj_dim(x, axis) == 2 ? tj_select(x, axis, 1) : NULL;
	tj_tensor *a = tj_matmul(re, c), *b = tj_neg(tj_matmul(re, s));
	if (im) a = tj_add(a, tj_matmul(im, s)), b = tj_add(b, tj_matmul(im, c));
	tj_tensor *y = tj_stack(TJ_LIST(a, b), axis);
	return inverse ? tj_div(y, tj_f((double)n)) : y;
}

/* An axis cut, or filled with zeros, to a length. */
static tj_tensor *resized(const char *site, tj_tensor *x, int axis, int64_t n)
{
	int64_t pads[2 * TJ_MAX_RANK + 1] = { 0 };
	const int64_t had = tj_dim(x, axis);
	if (n <= had) return tj_slice(x, axis, 0, n, 1);
	pads[2 * axis + 1] = n - had;
	pads[2 * tj_rank(x)] = TJ_END_DIM;
	return tj_pad(x, pads, TJ_PAD_CONSTANT, tj_f(0));
}

/* The other half of a spectrum of n bins of a real signal: bin n - k is the conjugate of bin k. */
static tj_tensor *completed(const char *site, tj_tensor *x, int64_t n)
{
	const int axis = tj_rank(x) - 2;
	const int64_t half = n / 2 + 1;
	x = resized(site, x, axis, half);
	tj_tensor *rest = tj_flip(tj_slice(x, axis, 1, n - half + 1, 1), TJ_AXES(axis));
	tj_tensor *conjugate = tj_stack(TJ_LIST(tj_select(rest, axis + 1, 0), tj_neg(tj_select(rest, axis + 1, 1))), axis + 1);
	return n > half ? tj_cat(TJ_LIST(x, conjugate), axis) : x;
}

tj_tensor *ox_dft(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int rank = tj_rank(x);
	const bool inverse = ox_int(o, "inverse", 0), half = ox_int(o, "onesided", 0), by_input = o->n->opset >= 20;
	int64_t length = -1, at = by_input ? -2 : ox_int(o, "axis", 1);
	if ((ox_has(o, 1) && !ox_number(o, 1, &length)) || (by_input && ox_has(o, 2) && !ox_number(o, 2, &at))) return NULL;
	const int axis = ox_axis(at, rank);
	if (rank < 2 || axis < 0 || axis == rank - 1) return ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there: x has %d", rank);
	const int64_t had = tj_dim(x, axis), n = ox_has(o, 1) ? length : inverse && half ? 2 * (had - 1) : had;
	if (n < 1 || n > LONGEST)
		return ox_fail(o, TJ_ERR_LIMIT, NULL, "a transform of length %lld; 1 to %d are possible", (long long)n, LONGEST);
	x = tj_movedim(x, TJ_AXES(axis), TJ_AXES(rank - 2));
	x = inverse && half ? completed(site, x, n) : resized(site, x, rank - 2, n);
	tj_tensor *y = transform(o, site, x, n, half && !inverse ? n / 2 + 1 : n, inverse);
	if (!y) return NULL;
	if (inverse && half) y = tj_slice(y, rank - 1, 0, 1, 1);
	return ox_like(site, tj_movedim(y, TJ_AXES(rank - 2), TJ_AXES(axis)), X);
}

tj_tensor *ox_stft(ox_call *o, const char *site)
{
	tj_tensor *x = X, *window = ox_t(o, 2);
	int64_t step, length = -1;
	if (!ox_number(o, 1, &step) || (ox_has(o, 3) && !ox_number(o, 3, &length))) return NULL;
	if (step < 1) return ox_fail(o, TJ_ERR_ARG, NULL, "frame_step is not 1 or more");
	if (tj_rank(x) == 2) x = tj_unsqueeze(x, 2);
	const int64_t n = ox_has(o, 3) ? length : window ? tj_dim(window, 0) : tj_dim(x, 1);
	if (tj_rank(x) != 3 || n < 1 || n > LONGEST)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "a signal [N,L,1 or 2] and frames of 1 to %d are needed", LONGEST);
	tj_tensor *f = tj_permute(tj_unfold(x, 1, n, step, 1), TJ_AXES(0, 1, 3, 2)); /* [N,frames,n,1 or 2] */
	if (window) f = tj_mul(f, tj_reshape(window, TJ_SHAPE(n, 1)));
	tj_tensor *y = transform(o, site, f, n, ox_int(o, "onesided", 1) ? n / 2 + 1 : n, false);
	return y ? ox_like(site, y, X) : NULL;
}

static double number(ox_call *o, int k)
{
	const ox_host *h = ox_h(o, k);
	return h && h->n == 1 ? h->f ? h->f[0] : (double)h->i[0] : NAN;
}

static double from_mel(double mel) { return 700 * expm1(mel / 2595 * log(10)); }
static double to_mel(double hertz) { return 2595 * log1p(hertz / 700) / log(10); }

tj_tensor *ox_mel_weight_matrix(ox_call *o, const char *site)
{
	const double bins = number(o, 0), length = number(o, 1), rate = number(o, 2), low = to_mel(number(o, 3)),
		     high = to_mel(number(o, 4));
	tj_dtype dtype = TJ_F32;
	ox_dtype(ox_int(o, "output_datatype", OX_FLOAT), &dtype);
	if (!(bins >= 1 && bins <= LONGEST && length >= 2 && length <= 2 * LONGEST && rate >= 1) || !(low >= 0 && high >= low && high < 1e4))
		return ox_fail(o, TJ_ERR_ARG, NULL, "its numbers are not possible");
	const int64_t n = (int64_t)bins, rows = (int64_t)length / 2 + 1;
	double *v = ox_room(o, (size_t)(rows * n) * sizeof *v), edge[3];
	if (!v) return NULL;
	for (int64_t i = 0; i < n; i++) {
		for (int k = 0; k < 3; k++) {
			edge[k] = floor((length + 1) * from_mel(low + (double)(i + k) * (high - low) / (bins + 2)) / rate);
			if (edge[k] > (double)rows - 1) edge[k] = (double)rows - 1;
		}
		if (edge[0] == edge[1]) v[(int64_t)edge[1] * n + i] = 1;
		for (double j = edge[0]; j <= edge[1] && edge[1] > edge[0]; j++)
			v[(int64_t)j * n + i] = (j - edge[0]) / (edge[1] - edge[0]);
		for (double j = edge[1]; j < edge[2]; j++) v[(int64_t)j * n + i] = (edge[2] - j) / (edge[2] - edge[1]);
	}
	return tj_cast(tj_constant(o->r->c, TJ_F64, TJ_SHAPE(rows, n), v), dtype);
}
