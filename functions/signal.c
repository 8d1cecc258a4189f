/* SPDX-License-Identifier: MIT */
/* Signals: spectra of windows and back, cosine transforms, the analytic signal, convolution by transforms. */
#include "functions/functions.h"

#include <math.h>

/* ---- spectra of windows ---- */
typedef struct windows {
	int64_t n, hop, length; /* of the transform; from window to window; of the window itself */
	bool centred, whole;    /* whole: all n frequencies; else n / 2 + 1 */
	bool normalized;
	tj_pad_mode mode;
	tj_tensor *window;      /* n elements, or NULL */
} windows;

static tj_tensor *bad_windows(const char *site, const char *op, int64_t n, const tj_stft_opts *opts, tj_tensor *like, windows *w)
{
	NN_OPTIONS(tj_stft_opts, o, opts);
	*w = (windows){ .n = n, .hop = o.hop ? o.hop : n / 4, .length = o.length ? o.length : n, .centred = !o.not_centred };
	w->whole = o.both_sides, w->normalized = o.normalized, w->mode = o.zeros ? TJ_PAD_CONSTANT : TJ_PAD_REFLECT, w->window = o.window;
	if (n < 1 || w->hop < 1 || w->length < 1 || w->length > n)
		return tj_fail(TJ_ERR_ARG, op, "sizes are 1 or more, and the window no longer than the transform",
		               "a transform of %lld, a window of %lld, steps of %lld", (long long)n, (long long)w->length, (long long)w->hop);
	if (!w->window && w->length == n) return NULL;
	if (!w->window) w->window = tj_ones(tj_dtype_of(like), TJ_SHAPE(w->length));
	tj_tensor *bad = fn_bad(site, op, ".window", w->window);
	if (bad) return bad;
	if (tj_rank(w->window) != 1 || tj_dim(w->window, 0) != w->length)
		return tj_fail(TJ_ERR_SHAPE, op, "one number for each element", "a window of %lld is %s", (long long)w->length,
		               fn_type_of(w->window).text);
	const int64_t before = (n - w->length) / 2;
	if (w->length < n) w->window = tj_pad(w->window, TJ_SHAPE(before, n - w->length - before), TJ_PAD_CONSTANT, tj_i(0));
	return NULL;
}

/* x [n] or [N,n] -> [frequencies, windows, 2] or [N, ...] */
tj_tensor *tj_stft_at(const char *site, tj_tensor *x, int64_t n, const tj_stft_opts *opts)
{
	static const char op[] = "stft";
	windows w;
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (bad || (bad = bad_windows(site, op, n, opts, x, &w))) return bad;
	const int rank = tj_rank(x);
	if (rank < 1 || rank > 2) return tj_fail(TJ_ERR_SHAPE, op, "[n] or [N,n]", "x is %s", fn_type_of(x).text);
	if (w.centred) x = tj_pad(x, TJ_SHAPE(n / 2, n / 2), w.mode, tj_i(0));
	if (tj_is_poison(x)) return x;
	if (tj_dim(x, rank - 1) < n)
		return tj_fail(TJ_ERR_SHAPE, op, "no window fits", "%lld elements, a window of %lld", (long long)tj_dim(x, rank - 1), (long long)n);
	tj_tensor *part = tj_unfold(x, rank - 1, n, w.hop, 1); /* [N,windows,n] */
	if (w.window) part = tj_mul(part, w.window);
	tj_tensor *y = w.whole ? tj_fft(tj_complex(part, tj_zeros_like(part)), 0, -1, TJ_FFT_BACKWARD) : tj_rfft(part, 0, -1, TJ_FFT_BACKWARD);
	if (w.normalized) y = tj_mul(y, tj_f(1 / sqrt((double)n)));
	return tj_transpose(y, -3, -2);
}

/* Windows [N,windows,n] added where they were: column k of all windows goes to k, k + hop and so on. */
static tj_tensor *overlapped(const char *site, tj_tensor *part, int64_t hop)
{
	const int64_t rows = tj_dim(part, 0), count = tj_dim(part, 1), n = tj_dim(part, 2), all = (count - 1) * hop + n;
	tj_tensor *picture = tj_transpose(part, 1, 2); /* [N,n,windows]: columns of a picture of one row */
	tj_tensor *y = tj_col2im(picture, TJ_SHAPE(1, all), TJ_SHAPE(1, n), TJ_OPTS(tj_pool_opts, .stride = { 1, hop }));
	return tj_reshape(y, TJ_SHAPE(rows, all));
}

tj_tensor *tj_istft_at(const char *site, tj_tensor *x, int64_t n, int64_t length, const tj_stft_opts *opts)
{
	static const char op[] = "istft";
	windows w;
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (bad || (bad = bad_windows(site, op, n, opts, x, &w))) return bad;
	const int rank = tj_rank(x);
	if (rank < 3 || rank > 4 || tj_dim(x, rank - 1) != 2 || tj_dim(x, rank - 3) != (w.whole ? n : n / 2 + 1))
		return tj_fail(TJ_ERR_SHAPE, op, "[N,frequencies,windows,2], as tj_stft() gives it with the same options", "x is %s",
		               fn_type_of(x).text);
	if (rank == 3) x = tj_unsqueeze(x, 0);
	x = tj_transpose(x, 1, 2);
	if (w.normalized) x = tj_mul(x, tj_f(sqrt((double)n)));
	tj_tensor *part = w.whole ? tj_real_part(tj_ifft(x, 0, -1, TJ_FFT_BACKWARD)) : tj_irfft(x, n, -1, TJ_FFT_BACKWARD);
	tj_tensor *ones = tj_ones_like(tj_narrow(part, 0, 0, 1)), *weight = w.window ? tj_mul(ones, tj_square(w.window)) : ones;
	tj_tensor *y = overlapped(site, w.window ? tj_mul(part, w.window) : part, w.hop), *sum = overlapped(site, weight, w.hop);
	if (tj_is_poison(y) || tj_is_poison(sum)) return tj_is_poison(y) ? y : sum;
	const int64_t all = tj_dim(y, 1), from = w.centred ? n / 2 : 0;
	int64_t to = length ? from + length : all - from;
	if (length < 0) return tj_fail(TJ_ERR_ARG, op, "0: as many as there are", "%lld elements", (long long)length);
	const int64_t there = to < all ? to : all;
	if (there <= from) return tj_fail(TJ_ERR_SHAPE, op, "nothing is left behind the padding", "%lld elements in all", (long long)all);
	sum = tj_slice(sum, 1, from, there, 1);
	/* where all windows are 0 the signal is lost */
	const char *lost = tj_site_for(site, op, "the squares of the windows that overlap at an element add up to almost 0",
	                               "choose a window without zeros, smaller steps, or .centred");
	tj_tensor *sound = tj_all(tj_gt(sum, tj_f(1e-11)), TJ_ALL, false);
	y = tj_div(tj_slice(y, 1, from, there, 1), sum);
	y = tj_add(y, tj_cast(fn_zero_if(lost, y, sound), tj_dtype_of(y)));
	if (to > all) y = tj_pad(y, TJ_SHAPE(0, to - all), TJ_PAD_CONSTANT, tj_i(0));
	return rank == 3 ? tj_squeeze(y, TJ_AXES(0)) : y;
}

/* ---- cosine transforms ---- */
/* The elements of an axis of n times w(k) = exp(-i pi k / 2n), as pairs: cosines and sines along that axis of `rank`. */
static void quarter_turns(const char *site, tj_tensor *like, int64_t n, double step, tj_tensor **c, tj_tensor **s)
{
	tj_tensor *k = tj_mul(tj_cast(tj_arange(TJ_I64, 0, n, 1), TJ_F64), tj_f(step));
	*c = tj_cast(tj_cos(k), tj_dtype_of(like));
	*s = tj_cast(tj_sin(k), tj_dtype_of(like));
}

/* Along the last axis. Makhoul, "A fast cosine transform in one and two dimensions", 1980: of the even elements, then the odd ones from the
 * end, one transform of real numbers. */
static tj_tensor *dct2(const char *site, tj_tensor *x)
{
	const int last = tj_rank(x) - 1;
	const int64_t n = tj_dim(x, last), h = n / 2 + 1;
	tj_tensor *even = tj_slice(x, last, 0, n, 2), *odd = n > 1 ? tj_flip(tj_slice(x, last, 1, n, 2), TJ_AXES(last)) : NULL, *c, *s;
	tj_tensor *y = tj_rdft(odd ? tj_cat(TJ_LIST(even, odd), last) : even, last);
	quarter_turns(site, x, h, 1.57079632679489661923 / (double)n, &c, &s);
	/* w(k) (re + i im): the real part is element k, the imaginary one minus element n - k */
	tj_tensor *re = tj_real_part(y), *im = tj_imag_part(y);
	tj_tensor *front = tj_mul(tj_add(tj_mul(re, c), tj_mul(im, s)), tj_f(2)), *back = tj_mul(tj_sub(tj_mul(re, s), tj_mul(im, c)), tj_f(2));
	if (n == 1) return front;
	return tj_cat(TJ_LIST(front, tj_flip(tj_slice(back, last, 1, n - n / 2, 1), TJ_AXES(last))), last);
}

/* The transpose of dct2 over 2n, but for element 0, which counts half: dct3(x)[j] = x[0] + 2 sum of x[k] cos(pi (2j + 1) k / 2n). */
static tj_tensor *dct3(const char *site, tj_tensor *x)
{
	const int last = tj_rank(x) - 1;
	const int64_t n = tj_dim(x, last), h = n / 2 + 1;
	tj_tensor *c, *s;
	if (n == 1) return x;
	quarter_turns(site, x, h, 1.57079632679489661923 / (double)n, &c, &s);
	/* pairs (x[k] - i x[n - k]) exp(i pi k / 2n), x[n] = 0 */
	tj_tensor *front = tj_slice(x, last, 0, h, 1), *back = tj_flip(tj_slice(x, last, n - h + 1, n, 1), TJ_AXES(last));
	back = tj_cat(TJ_LIST(tj_zeros_like(tj_slice(x, last, 0, 1, 1)), back), last);
	tj_tensor *re = tj_add(tj_mul(front, c), tj_mul(back, s)), *im = tj_sub(tj_mul(front, s), tj_mul(back, c));
	tj_tensor *v = tj_inverse_rdft(tj_stack(TJ_LIST(re, im), -1), n, last);
	const int64_t up = (n + 1) / 2; /* elements 0, 2, ... are the first ones, 1, 3, ... the others from the end */
	tj_tensor *even = tj_slice(v, last, 0, up, 1), *odd = tj_flip(tj_slice(v, last, up, n, 1), TJ_AXES(last));
	if (n % 2) odd = tj_cat(TJ_LIST(odd, tj_zeros_like(tj_slice(x, last, 0, 1, 1))), last);
	return tj_slice(tj_flatten(tj_stack(TJ_LIST(even, odd), -1), last, last + 1), last, 0, n, 1);
}

static tj_tensor *cosines(const char *site, const char *op, tj_tensor *x, int type, int64_t n, int axis, tj_fft_norm norm, bool inverse)
{
	int a;
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (bad || (bad = fn_bad_axis(site, op, x, axis, &a))) return bad;
	if (type != 2 && type != 3) return tj_fail(TJ_ERR_ARG, op, "2 is what is called the DCT, 3 its inverse", "type %d", type);
	if (norm < TJ_FFT_BACKWARD || norm > TJ_FFT_FORWARD)
		return tj_fail(TJ_ERR_ARG, op, "TJ_FFT_BACKWARD, _ORTHO or _FORWARD", "norm %d is none", (int)norm);
	if (!tj_rank(x)) return tj_fail(TJ_ERR_SHAPE, op, "it needs an axis", "x is a scalar");
	const int64_t is = tj_dim(x, a), last = tj_rank(x) - 1;
	if (!n) n = is;
	if (n < 1) return tj_fail(TJ_ERR_ARG, op, "0 takes the size that there is", "%lld elements", (long long)n);
	x = tj_transpose(x, a, last);
	if (n < is) x = tj_slice(x, last, 0, n, 1);
	if (n > is) x = tj_pad(x, TJ_SHAPE(0, n - is), TJ_PAD_CONSTANT, tj_i(0));
	if (inverse) type = 5 - type;
	const double part = norm == TJ_FFT_ORTHO ? 1 / sqrt(2.0 * (double)n) : (norm == TJ_FFT_FORWARD) != inverse ? 1 / (2.0 * (double)n) : 1;
	tj_tensor *ends = NULL; /* orthogonal: element 0 counts sqrt 2 less */
	if (norm == TJ_FFT_ORTHO) {
		tj_tensor *root = tj_cast(tj_f(1.41421356237309504880), tj_dtype_of(x)), *one = tj_cast(tj_f(1), tj_dtype_of(x));
		ends = tj_where(tj_eq(tj_arange(TJ_I64, 0, n, 1), tj_i(0)), root, one);
	}
	if (ends && type == 3) x = tj_mul(x, ends);
	x = type == 2 ? dct2(site, x) : dct3(site, x);
	if (ends && type == 2) x = tj_div(x, ends);
	return tj_transpose(part == 1 ? x : tj_mul(x, tj_f(part)), a, last);
}

tj_tensor *tj_dct_at(const char *site, tj_tensor *x, int type, int64_t n, int axis, tj_fft_norm norm)
{
	return cosines(site, "dct", x, type, n, axis, norm, false);
}
tj_tensor *tj_idct_at(const char *site, tj_tensor *x, int type, int64_t n, int axis, tj_fft_norm norm)
{
	return cosines(site, "idct", x, type, n, axis, norm, true);
}

/* ---- the analytic signal ---- */
tj_tensor *tj_hilbert_at(const char *site, tj_tensor *x, int64_t n, int axis)
{
	static const char op[] = "hilbert";
	int a;
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (bad || (bad = fn_bad_axis(site, op, x, axis, &a))) return bad;
	tj_tensor *y = tj_rfft(x, n, a, TJ_FFT_BACKWARD);
	if (tj_is_poison(y)) return y;
	const int64_t all = n ? n : tj_dim(x, a), half = tj_dim(y, a);
	/* frequencies above 0 count twice, those below 0 not at all */
	tj_tensor *k = tj_arange(TJ_I64, 0, half, 1), *once = tj_logical_or(tj_eq(k, tj_i(0)), tj_eq(tj_mul(k, tj_i(2)), tj_i(all)));
	tj_tensor *by = tj_cast(tj_where(once, tj_i(1), tj_i(2)), tj_dtype_of(x));
	int64_t column[TJ_MAX_RANK + 2] = { half };
	int rest = tj_rank(y) - a;
	for (int i = 1; i < rest; i++) column[i] = 1;
	column[rest] = TJ_END_DIM;
	return tj_ifft(tj_mul(y, tj_reshape(by, column)), all, a, TJ_FFT_BACKWARD);
}

/* ---- convolution ---- */
/* The least size from n on that has no prime factor above 5, so that its transform is fast. */
static int64_t fast_size(int64_t n)
{
	for (;; n++) {
		int64_t rest = n;
		for (int p = 2; p <= 5; p++)
			while (rest % p == 0) rest /= p;
		if (rest == 1) return n;
	}
}

tj_tensor *tj_fft_convolve_at(const char *site, tj_tensor *x, tj_tensor *kernel, tj_convolve_mode mode)
{
	static const char op[] = "fft_convolve";
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (bad || (bad = fn_bad_float(site, op, "kernel", kernel))) return bad;
	if (tj_rank(x) < 1 || tj_rank(kernel) < 1 || !tj_dim(x, tj_rank(x) - 1) || !tj_dim(kernel, tj_rank(kernel) - 1))
		return tj_fail(TJ_ERR_SHAPE, op, "[..,n] and [..,m], neither of them empty", "%s and %s", fn_type_of(x).text, fn_type_of(kernel).text);
	if (mode < TJ_CONVOLVE_FULL || mode > TJ_CONVOLVE_VALID)
		return tj_fail(TJ_ERR_ARG, op, "TJ_CONVOLVE_FULL, _SAME or _VALID", "mode %d is none", (int)mode);
	const int64_t n = tj_dim(x, tj_rank(x) - 1), m = tj_dim(kernel, tj_rank(kernel) - 1), all = n + m - 1, size = fast_size(all);
	tj_tensor *a = tj_rfft(x, size, -1, TJ_FFT_BACKWARD), *b = tj_rfft(kernel, size, -1, TJ_FFT_BACKWARD);
	tj_tensor *y = tj_irfft(tj_complex_mul(a, b), size, -1, TJ_FFT_BACKWARD);
	const int64_t most = n > m ? n : m, least = n > m ? m : n;
	const int64_t from = mode == TJ_CONVOLVE_FULL ? 0 : mode == TJ_CONVOLVE_SAME ? (all - n) / 2 : least - 1;
	const int64_t count = mode == TJ_CONVOLVE_FULL ? all : mode == TJ_CONVOLVE_SAME ? n : most - least + 1;
	return tj_slice(y, -1, from, from + count, 1);
}
