/* SPDX-License-Identifier: MIT */
/* Discrete Fourier transforms with PyTorch's arguments: a size, to which the operand is cut or filled with zeros, axes, and a factor.
 *
 * Complex numbers are pairs along a last axis, which no parameter counts. */
#include "functions/functions.h"

#include <math.h>

/* ---- what all of them do ---- */
static tj_tensor *bad_pairs(const char *site, const char *op, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad) return bad;
	if (tj_rank(x) >= 2 && tj_dim(x, tj_rank(x) - 1) == 2) return NULL;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_complex(re, im) makes pairs; tj_rfft() takes real numbers",
	               "complex numbers are pairs, a last axis of size 2; x is %s", fn_type_of(x).text);
}

/* The axis counted from the front, of the first `rank` axes. */
static tj_tensor *bad_axis(const char *site, const char *op, int rank, int64_t axis, int *a)
{
	if (axis >= -rank && axis < rank) {
		*a = (int)(axis < 0 ? axis + rank : axis);
		return NULL;
	}
	return tj_fail(TJ_ERR_ARG, op, "axes count from 0 at the front and from -1 at the end; that of the pairs is not counted",
	               "axis %lld, of %d", (long long)axis, rank);
}

/* n elements along the axis: x is cut, or zeros come behind it. */
static tj_tensor *resized(const char *site, tj_tensor *x, int a, int64_t n)
{
	const int64_t is = tj_dim(x, a);
	if (n < is) return tj_slice(x, a, 0, n, 1);
	if (n == is) return x;
	int64_t pads[2 * TJ_MAX_RANK + 1] = { 0 };
	const int axes = tj_rank(x) - a;
	pads[1] = n - is;
	pads[2 * axes] = TJ_END_DIM;
	return tj_pad(x, pads, TJ_PAD_CONSTANT, tj_i(0));
}

static double factor(tj_fft_norm norm, bool inverse, double n)
{
	if (norm == TJ_FFT_ORTHO) return 1 / sqrt(n);
	return (norm == TJ_FFT_FORWARD) != inverse ? 1 / n : 1;
}

static tj_tensor *scaled(const char *site, tj_tensor *x, double by) { return by == 1 ? x : tj_mul(x, tj_f(by)); }

static tj_tensor *bad_size(const char *site, const char *op, int64_t n)
{
	if (n >= 1) return NULL;
	return tj_fail(TJ_ERR_ARG, op, "0 takes the size that there is", "a transform needs 1 or more elements, %lld are given", (long long)n);
}

static tj_tensor *bad_norm(const char *site, const char *op, tj_fft_norm norm)
{
	if (norm >= TJ_FFT_BACKWARD && norm <= TJ_FFT_FORWARD) return NULL;
	return tj_fail(TJ_ERR_ARG, op, "TJ_FFT_BACKWARD, TJ_FFT_ORTHO or TJ_FFT_FORWARD", "norm %d is none", (int)norm);
}

/* Pairs to pairs along one axis; a checked axis. */
static tj_tensor *along(const char *site, tj_tensor *x, int a, int64_t n, bool inverse)
{
	x = resized(site, x, a, n);
	return inverse ? tj_inverse_dft(x, a) : tj_dft(x, a);
}

/* ---- one axis ---- */
static tj_tensor *complex_one(const char *site, const char *op, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm, bool inverse)
{
	int a = 0;
	tj_tensor *bad = bad_pairs(site, op, x);
	if (bad || (bad = bad_axis(site, op, tj_rank(x) - 1, axis, &a)) || (bad = bad_norm(site, op, norm))) return bad;
	if (!n) n = tj_dim(x, a);
	if ((bad = bad_size(site, op, n))) return bad;
	return scaled(site, along(site, x, a, n, inverse), factor(norm, inverse, (double)n));
}

tj_tensor *tj_fft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	return complex_one(site, "fft", x, n, axis, norm, false);
}
tj_tensor *tj_ifft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	return complex_one(site, "ifft", x, n, axis, norm, true);
}

static tj_tensor *real_one(const char *site, const char *op, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm, bool inverse)
{
	int a = 0;
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || (bad = bad_axis(site, op, tj_rank(x), axis, &a)) || (bad = bad_norm(site, op, norm))) return bad;
	if (!n) n = tj_dim(x, a);
	if ((bad = bad_size(site, op, n))) return bad;
	return scaled(site, tj_rdft(resized(site, x, a, n), a), factor(norm, inverse, (double)n));
}

tj_tensor *tj_rfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	return real_one(site, "rfft", x, n, axis, norm, false);
}

/* A Hermitian operand to n real numbers; 0: 2 (pairs - 1). */
static tj_tensor *to_real(const char *site, const char *op, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm, bool inverse)
{
	int a = 0;
	tj_tensor *bad = bad_pairs(site, op, x);
	if (bad || (bad = bad_axis(site, op, tj_rank(x) - 1, axis, &a)) || (bad = bad_norm(site, op, norm))) return bad;
	if (!n) n = 2 * (tj_dim(x, a) - 1);
	if ((bad = bad_size(site, op, n))) return bad;
	return scaled(site, tj_inverse_rdft(resized(site, x, a, n / 2 + 1), n, a), factor(norm, inverse, (double)n));
}

tj_tensor *tj_irfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	return to_real(site, "irfft", x, n, axis, norm, true);
}

/* The transform of a signal that is Hermitian is real: that of the conjugate pairs is the inverse. */
tj_tensor *tj_hfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	tj_tensor *bad = bad_pairs(site, "hfft", x);
	return bad ? bad : to_real(site, "hfft", tj_conj(x), n, axis, norm, false);
}
tj_tensor *tj_ihfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm)
{
	return tj_conj(real_one(site, "ihfft", x, n, axis, norm, true));
}

/* ---- several axes ---- */
typedef struct axes { int n, axis[TJ_MAX_RANK]; int64_t size[TJ_MAX_RANK]; double all; } axes;

/* Axes of the first `rank` and their sizes: given, or those of x. Without axes those that the sizes are for, the last ones. */
static tj_tensor *bad_axes(const char *site, const char *op, tj_tensor *x, int rank, tj_dims sizes, tj_dims list, axes *to)
{
	const int given = fn_entries(sizes, TJ_MAX_RANK), named = fn_entries(list, TJ_MAX_RANK);
	unsigned seen = 0;
	to->n = list ? named : sizes ? given : rank;
	to->all = 1;
	if (sizes && given != to->n) return tj_fail(TJ_ERR_ARG, op, "one for each axis", "%d sizes for %d axes", given, to->n);
	if (to->n > rank) return tj_fail(TJ_ERR_ARG, op, "that of the pairs is not counted", "%d axes, x has %d", to->n, rank);
	for (int i = 0; i < to->n; i++) {
		tj_tensor *bad = bad_axis(site, op, rank, list ? list[i] : i - to->n, &to->axis[i]);
		if (bad) return bad;
		if (seen >> to->axis[i] & 1) return tj_fail(TJ_ERR_ARG, op, "name each axis once", "axis %d comes twice", to->axis[i]);
		seen |= 1u << to->axis[i];
		to->size[i] = sizes && sizes[i] != 0 ? sizes[i] : tj_dim(x, to->axis[i]);
		if ((bad = bad_size(site, op, to->size[i]))) return bad;
		to->all *= (double)to->size[i];
	}
	return NULL;
}

static tj_tensor *complex_all(const char *site, const char *op, tj_tensor *x, tj_dims sizes, tj_dims list, tj_fft_norm norm, bool inverse)
{
	axes all;
	tj_tensor *bad = bad_pairs(site, op, x);
	if (bad || (bad = bad_axes(site, op, x, tj_rank(x) - 1, sizes, list, &all)) || (bad = bad_norm(site, op, norm))) return bad;
	for (int i = all.n; i-- > 0;) x = along(site, x, all.axis[i], all.size[i], inverse);
	return scaled(site, x, factor(norm, inverse, all.all));
}

tj_tensor *tj_fftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims list, tj_fft_norm norm)
{
	return complex_all(site, "fftn", x, sizes, list, norm, false);
}
tj_tensor *tj_ifftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims list, tj_fft_norm norm)
{
	return complex_all(site, "ifftn", x, sizes, list, norm, true);
}

tj_tensor *tj_rfftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims list, tj_fft_norm norm)
{
	static const char op[] = "rfftn";
	axes all;
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || (bad = bad_axes(site, op, x, tj_rank(x), sizes, list, &all)) || (bad = bad_norm(site, op, norm))) return bad;
	if (!all.n) return tj_fail(TJ_ERR_ARG, op, "tj_rfft() has one", "it needs an axis");
	const int last = all.n - 1;
	x = tj_rdft(resized(site, x, all.axis[last], all.size[last]), all.axis[last]);
	for (int i = last; i-- > 0;) x = along(site, x, all.axis[i], all.size[i], false);
	return scaled(site, x, factor(norm, false, all.all));
}

tj_tensor *tj_irfftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims list, tj_fft_norm norm)
{
	static const char op[] = "irfftn";
	axes all;
	tj_tensor *bad = bad_pairs(site, op, x);
	if (bad || (bad = bad_axes(site, op, x, tj_rank(x) - 1, sizes, list, &all)) || (bad = bad_norm(site, op, norm))) return bad;
	if (!all.n) return tj_fail(TJ_ERR_ARG, op, "tj_irfft() has one", "it needs an axis");
	const int last = all.n - 1, a = all.axis[last];
	const int64_t given = sizes ? sizes[last] : 0, n = given ? given : 2 * (tj_dim(x, a) - 1);
	if ((bad = bad_size(site, op, n))) return bad;
	for (int i = 0; i < last; i++) x = along(site, x, all.axis[i], all.size[i], true);
	x = tj_inverse_rdft(resized(site, x, a, n / 2 + 1), n, a);
	return scaled(site, x, factor(norm, true, all.all / (double)all.size[last] * (double)n));
}

static const int64_t last_two[] = { -2, -1, TJ_END_DIM };
tj_tensor *tj_fft2_at(const char *site, tj_tensor *x, tj_fft_norm norm) { return tj_fftn(x, NULL, last_two, norm); }
tj_tensor *tj_ifft2_at(const char *site, tj_tensor *x, tj_fft_norm norm) { return tj_ifftn(x, NULL, last_two, norm); }
tj_tensor *tj_rfft2_at(const char *site, tj_tensor *x, tj_fft_norm norm) { return tj_rfftn(x, NULL, last_two, norm); }
tj_tensor *tj_irfft2_at(const char *site, tj_tensor *x, tj_fft_norm norm) { return tj_irfftn(x, NULL, last_two, norm); }

/* ---- frequencies ---- */
static tj_tensor *bad_frequencies(const char *site, const char *op, tj_dtype t, int64_t n)
{
	if (!fn_is_float(t)) return tj_fail(TJ_ERR_DTYPE, op, "as in TJ_F32", "frequencies are floats, not %s", tj_dtype_name(t));
	return n < 0 ? tj_fail(TJ_ERR_ARG, op, "0 or more", "%lld elements", (long long)n) : NULL;
}

tj_tensor *tj_fftfreq_at(const char *site, tj_dtype dtype, int64_t n, double d)
{
	tj_tensor *bad = bad_frequencies(site, "fftfreq", dtype, n);
	if (bad || !n) return bad ? bad : tj_zeros(dtype, TJ_SHAPE(0));
	const int64_t up = (n + 1) / 2;
	tj_tensor *k = tj_cat(TJ_LIST(tj_arange(TJ_I64, 0, up, 1), tj_arange(TJ_I64, up - n, 0, 1)), 0);
	return tj_cast(tj_div(tj_cast(k, TJ_F64), tj_f((double)n * d)), dtype);
}

tj_tensor *tj_rfftfreq_at(const char *site, tj_dtype dtype, int64_t n, double d)
{
	tj_tensor *bad = bad_frequencies(site, "rfftfreq", dtype, n);
	if (bad || !n) return bad ? bad : tj_zeros(dtype, TJ_SHAPE(0));
	return tj_cast(tj_div(tj_cast(tj_arange(TJ_I64, 0, n / 2 + 1, 1), TJ_F64), tj_f((double)n * d)), dtype);
}

static tj_tensor *shifted(const char *site, const char *op, tj_tensor *x, tj_dims list, bool back)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad) return bad;
	const int n = list ? fn_entries(list, TJ_MAX_RANK) : tj_rank(x);
	for (int i = 0; i < n; i++) {
		int a;
		if ((bad = fn_bad_axis(site, op, x, list ? list[i] : i, &a))) return bad;
		const int64_t size = tj_rank(x) ? tj_dim(x, a) : 1;
		x = tj_roll(x, back ? (size + 1) / 2 : size / 2, a);
	}
	return x;
}

tj_tensor *tj_fftshift_at(const char *site, tj_tensor *x, tj_dims list) { return shifted(site, "fftshift", x, list, false); }
tj_tensor *tj_ifftshift_at(const char *site, tj_tensor *x, tj_dims list) { return shifted(site, "ifftshift", x, list, true); }
