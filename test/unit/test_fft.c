/* SPDX-License-Identifier: MIT */
/* The discrete Fourier transforms: every size up to 40 and others with all kinds of factors, along each axis, beside the sum that defines
 * them, and beside the evaluator bit for bit. */
#include "test/kit.h"
#include "test/skip.h"

#include <math.h>

typedef struct job {
	tj_dtype t;
	int64_t outer, n, inner;
	enum { DFT, INVERSE_DFT, RDFT, INVERSE_RDFT, KINDS } kind;
} job;
static const char *const kind_name[] = { "dft", "inverse_dft", "rdft", "inverse_rdft" };

static int64_t in_count(const job *j) { return j->kind == INVERSE_RDFT ? j->n / 2 + 1 : j->n; }
static int64_t out_count(const job *j) { return j->kind == RDFT ? j->n / 2 + 1 : j->n; }
static int in_parts(const job *j) { return j->kind == RDFT ? 1 : 2; }
static int out_parts(const job *j) { return j->kind == INVERSE_RDFT ? 1 : 2; }
static size_t in_numel(const job *j) { return (size_t)(j->outer * in_count(j) * j->inner * in_parts(j)); }
static size_t out_numel(const job *j) { return (size_t)(j->outer * out_count(j) * j->inner * out_parts(j)); }

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	switch (j->kind) {
	case DFT: out[0] = tj_dft(in[0], 1); break;
	case INVERSE_DFT: out[0] = tj_inverse_dft(in[0], 1); break;
	case RDFT: out[0] = tj_rdft(in[0], 1); break;
	default: out[0] = tj_inverse_rdft(in[0], j->n, 1);
	}
}

/* ---- the sum ---- */
static double input(const job *j, int64_t o, int64_t k, int64_t i, int part)
{
	const uint64_t at = (uint64_t)(((o * in_count(j) + k) * j->inner + i) * in_parts(j) + part);
	return (double)((at + 1) * 0x9e3779b97f4a7c15u >> 44) / (1 << 19) - 1;
}

/* Both parts of element k of the operand; of the last kind those that are left out, too. */
static void operand(const job *j, int64_t o, int64_t k, int64_t i, long double *re, long double *im)
{
	const bool mirrored = j->kind == INVERSE_RDFT && k > j->n / 2;
	const int64_t at = mirrored ? j->n - k : k;
	*re = input(j, o, at, i, 0);
	*im = j->kind == RDFT || (j->kind == INVERSE_RDFT && (k == 0 || 2 * k == j->n)) ? 0 : input(j, o, at, i, 1);
	if (mirrored) *im = -*im;
}

enum { MOST = 1100 };
static long double cosine[MOST], sine[MOST]; /* of k / n of a turn */
static void turns(int64_t n)
{
	assert_true(n <= MOST);
	for (int64_t k = 0; k < n; k++) {
		const long double x = 2 * acosl(-1) * (long double)k / (long double)n;
		cosine[k] = cosl(x), sine[k] = sinl(x);
	}
}

/* The distance from the sums, relative to the root mean square. */
static double distance(const job *j, const double *got)
{
	const int sign = j->kind == DFT || j->kind == RDFT ? -1 : 1, step = j->n > 200 ? (int)(j->n / 7) : 1;
	long double all = 0, off = 0;
	turns(j->n);
	for (int64_t o = 0; o < j->outer; o++)
		for (int64_t i = 0; i < j->inner; i++)
			for (int64_t k = 0; k < out_count(j); k += step) {
				long double re = 0, im = 0, x, y;
				for (int64_t n = 0; n < j->n; n++) {
					const long double c = cosine[n * k % j->n], s = sign * sine[n * k % j->n];
					operand(j, o, n, i, &x, &y);
					re += x * c - y * s;
					im += x * s + y * c;
				}
				const double *g = got + ((o * out_count(j) + k) * j->inner + i) * out_parts(j);
				off += (g[0] - re) * (g[0] - re) + (out_parts(j) == 2 ? (g[1] - im) * (g[1] - im) : 0);
				all += re * re + (out_parts(j) == 2 ? im * im : 0);
			}
	return all > 0 ? (double)sqrtl(off / all) : (double)off;
}

/* ---- both executors ---- */
static void run(const char *backend, job *j, void *to)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = backend));
	const size_t n = in_numel(j);
	double *wide = malloc((n + 1) * sizeof *wide);
	float *narrow = malloc((n + 1) * sizeof *narrow);
	for (size_t k = 0; k < n; k++) {
		const size_t row = k / (size_t)(j->inner * in_parts(j)), rest = k % (size_t)(j->inner * in_parts(j));
		wide[k] = input(j, (int64_t)row / in_count(j), (int64_t)row % in_count(j), (int64_t)rest / in_parts(j), (int)rest % in_parts(j));
		narrow[k] = (float)wide[k];
	}
	int64_t dim[] = { j->outer, in_count(j), j->inner, in_parts(j) == 2 ? 2 : TJ_END_DIM, TJ_END_DIM };
	tj_tensor *x = tj_from_data(c, j->t, dim, j->t == TJ_F64 ? (void *)wide : (void *)narrow), *y;
	tj_fn *f = kit_fn(c, "transform", body, j, 1, 1);
	for (int turns = 0; turns < 2; turns++) tj_call(f, &y, TJ_LIST(x));
	tj_read(y, to, out_numel(j) * tj_dtype_size(j->t));
	kit_ok(c);
	tj_close(c);
	free(narrow);
	free(wide);
}

static void check(job j)
{
	const size_t n = out_numel(&j), bytes = n * tj_dtype_size(j.t);
	char *got = malloc(bytes + 8), *want = malloc(bytes + 8);
	double *wide = malloc((n + 1) * sizeof *wide);
	run(kit_backend, &j, got);
	run("eval", &j, want);
	if (memcmp(got, want, bytes))
		fail_msg("%s %s [%lld,%lld,%lld]: not the evaluator's bits", kind_name[j.kind], tj_dtype_name(j.t), (long long)j.outer,
		         (long long)j.n, (long long)j.inner);
	for (size_t i = 0; i < n; i++) wide[i] = j.t == TJ_F64 ? ((double *)got)[i] : ((float *)got)[i];
	const double off = distance(&j, wide), bound = (j.t == TJ_F64 ? 0x1p-53 : 0x1p-24) * (1 + 0.6 * log2((double)j.n)) * 3;
	if (!(off <= bound))
		fail_msg("%s %s [%lld,%lld,%lld]: %.3g from the sum, bound %.3g", kind_name[j.kind], tj_dtype_name(j.t), (long long)j.outer,
		         (long long)j.n, (long long)j.inner, off, bound);
	free(wide);
	free(want);
	free(got);
}

static void sizes(const int64_t *n, int count, int64_t outer, int64_t inner)
{
	static unsigned long turn;
	for (int i = 0; i < count * KINDS; i++) {
		if (left_out(turn++)) continue;
		check((job){ i % 3 ? TJ_F32 : TJ_F64, outer, n[i / KINDS], inner, (int)(i % KINDS) });
	}
}
#define SIZES(outer, inner, ...) sizes((const int64_t[]){ __VA_ARGS__ }, (int)RT_LENGTH(((const int64_t[]){ __VA_ARGS__ })), outer, inner)
#define RT_LENGTH(list) (sizeof list / sizeof *list)

static void every_size(void **s)
{
	(void)s;
	for (int64_t n = 1; n <= 40; n++) sizes(&n, 1, 1 + n % 3, 1 + n % 2 * 2);
}

static void factors(void **s) { (void)s, SIZES(1, 1, 81, 96, 100, 120, 125, 128, 143, 169, 210, 243, 256, 343, 360, 1000, 1024); }
static void primes(void **s) { (void)s, SIZES(1, 1, 67, 89, 101, 134, 201, 257, 509); }
static void many_rows(void **s) { (void)s, SIZES(40, 1, 4, 9, 16, 24, 64, 71); }
static void many_columns(void **s) { (void)s, SIZES(2, 33, 3, 8, 15, 20, 22, 64, 68, 73); }

/* ---- what is refused, and what is empty ---- */
#define FAILS(call, code, part) (assert_true(tj_is_poison(call)), kit_error(c, code, part))
static void refused(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
	tj_ctx_use(c);
	FAILS(tj_dft(tj_zeros(TJ_F32, TJ_SHAPE(4)), 0), TJ_ERR_SHAPE, "pairs");
	FAILS(tj_dft(tj_zeros(TJ_F32, TJ_SHAPE(4, 3)), 0), TJ_ERR_SHAPE, "pairs");
	FAILS(tj_dft(tj_zeros(TJ_F32, TJ_SHAPE(4, 2)), 1), TJ_ERR_ARG, "axis out of range");
	FAILS(tj_dft(tj_zeros(TJ_F32, TJ_SHAPE(0, 2)), 0), TJ_ERR_SHAPE, "no elements");
	FAILS(tj_rdft(tj_zeros(TJ_F32, TJ_SHAPE(3, 0)), 1), TJ_ERR_SHAPE, "no elements");
	FAILS(tj_rdft(tj_f(1), 0), TJ_ERR_SHAPE, "needs an axis");
	FAILS(tj_inverse_rdft(tj_zeros(TJ_F32, TJ_SHAPE(3, 2)), 6, 0), TJ_ERR_SHAPE, "n / 2 + 1");
	FAILS(tj_inverse_rdft(tj_zeros(TJ_F32, TJ_SHAPE(3, 2)), 0, 0), TJ_ERR_SHAPE, "n / 2 + 1");
	assert_int_equal(tj_numel(tj_dft(tj_zeros(TJ_F32, TJ_SHAPE(0, 5, 2)), 1)), 0);
	assert_int_equal(tj_numel(tj_rdft(tj_zeros(TJ_F32, TJ_SHAPE(0, 5)), 1)), 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- the functions above them, beside what defines them ---- */
enum { LONGEST = 64 };
static void numbers(double *x, int64_t n, unsigned seed)
{
	for (int64_t i = 0; i < n; i++) x[i] = (double)((seed = seed * 1664525u + 1013904223u) >> 9) / (1 << 22) - 1;
}

static tj_tensor *f64_of(tj_ctx *c, const double *x, int64_t n) { return tj_from_data(c, TJ_F64, TJ_SHAPE(n), x); }
static tj_tensor *pairs_of(tj_ctx *c, const double *x, int64_t n) { return tj_from_data(c, TJ_F64, TJ_SHAPE(n, 2), x); }

static void near(tj_tensor *y, const double *want, int64_t n, const char *what)
{
	double got[4 * LONGEST];
	assert_int_equal(tj_numel(y), n);
	tj_read(y, got, (size_t)n * sizeof *got);
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(got[i] - want[i]) <= 1e-13 * (1 + (double)n))) fail_msg("%s: element %d is %.17g, not %.17g", what, (int)i, got[i], want[i]);
}

static const double pi = 3.14159265358979323846;

static void cosine_transforms(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (int64_t n = 1; n <= 13; n++)
		for (int kind = 0; kind < 6; kind++) {
			const int type = 2 + kind % 2;
			const tj_fft_norm norm = (tj_fft_norm)(kind / 2);
			double x[LONGEST], want[LONGEST];
			numbers(x, n, (unsigned)n);
			for (int64_t k = 0; k < n; k++) {
				want[k] = type == 2 ? 0 : x[0] * (norm == TJ_FFT_ORTHO ? sqrt(2) : 1);
				for (int64_t j = type == 3; j < n; j++)
					want[k] += 2 * x[j] * cos(pi * (double)(type == 2 ? k * (2 * j + 1) : (2 * k + 1) * j) / (2 * (double)n));
				want[k] *= norm == TJ_FFT_ORTHO ? sqrt(0.5 / (double)n) : norm == TJ_FFT_FORWARD ? 0.5 / (double)n : 1;
				if (type == 2 && norm == TJ_FFT_ORTHO && k == 0) want[0] /= sqrt(2);
			}
			tj_tensor *in = f64_of(c, x, n), *y = tj_dct(in, type, 0, -1, norm);
			near(y, want, n, "dct");
			near(tj_idct(y, type, 0, 0, norm), x, n, "idct of dct");
		}
	kit_ok(c);
	tj_close(c);
}

static void sizes_and_factors(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (int64_t n = 1; n <= 9; n++)
		for (int kind = 0; kind < 6; kind++) { /* of 6 elements, cut or filled up */
			const bool inverse = kind % 2;
			const tj_fft_norm norm = (tj_fft_norm)(kind / 2);
			double x[12], want[2 * LONGEST];
			numbers(x, 12, (unsigned)n + 7);
			for (int64_t k = 0; k < n; k++) {
				double re = 0, im = 0, by = norm == TJ_FFT_ORTHO ? 1 / sqrt((double)n) : (norm == TJ_FFT_FORWARD) != inverse ? 1 / (double)n : 1;
				for (int64_t j = 0; j < n && j < 6; j++) {
					const double a = (inverse ? 2 : -2) * pi * (double)(j * k % n) / (double)n;
					re += x[2 * j] * cos(a) - x[2 * j + 1] * sin(a);
					im += x[2 * j] * sin(a) + x[2 * j + 1] * cos(a);
				}
				want[2 * k] = re * by, want[2 * k + 1] = im * by;
			}
			tj_tensor *in = pairs_of(c, x, 6);
			near(inverse ? tj_ifft(in, n, -1, norm) : tj_fft(in, n, 0, norm), want, 2 * n, "fft");
			tj_tensor *back = inverse ? tj_fft(tj_ifft(in, 0, 0, norm), 0, 0, norm) : tj_ifft(tj_fft(in, 0, 0, norm), 0, 0, norm);
			near(back, x, 12, "back");
		}
	kit_ok(c);
	tj_close(c);
}

static void several_axes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	double x[60], want[60];
	numbers(x, 60, 3);
	tj_tensor *in = tj_from_data(c, TJ_F64, TJ_SHAPE(3, 4, 5), x), *z = tj_complex(in, tj_flip(in, TJ_AXES(0)));
	tj_read(in, want, sizeof want);
	near(tj_irfftn(tj_rfftn(in, NULL, TJ_ALL, TJ_FFT_ORTHO), TJ_SHAPE(3, 4, 5), TJ_ALL, TJ_FFT_ORTHO), want, 60, "irfftn of rfftn");
	near(tj_real_part(tj_ifftn(tj_fftn(z, NULL, TJ_ALL, TJ_FFT_FORWARD), NULL, TJ_ALL, TJ_FFT_FORWARD)), want, 60, "ifftn of fftn");
	tj_tensor *whole = tj_fftn(tj_complex(in, tj_zeros_like(in)), NULL, TJ_AXES(0, 2), TJ_FFT_BACKWARD); /* its half is rfftn */
	double half[2 * 36];
	tj_read(tj_narrow(whole, 2, 0, 3), half, sizeof half);
	near(tj_rfftn(in, NULL, TJ_AXES(0, 2), TJ_FFT_BACKWARD), half, 72, "rfftn");
	near(tj_hfft(tj_ihfft(in, 0, 2, TJ_FFT_ORTHO), 5, 2, TJ_FFT_ORTHO), want, 60, "hfft of ihfft");
	kit_ok(c);
	tj_close(c);
}

static void signals(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	double x[LONGEST], y[8], want[2 * LONGEST];
	numbers(x, LONGEST, 11);
	numbers(y, 8, 12);
	for (int m = 0; m < 3; m++) { /* convolution of 20 and 8 */
		static const int first[] = { 0, 3, 7 }, count[] = { 27, 20, 13 };
		const int from = first[m], n = count[m];
		for (int i = 0; i < n; i++) {
			want[i] = 0;
			for (int k = 0; k < 8; k++)
				if (i + from - k >= 0 && i + from - k < 20) want[i] += y[k] * x[i + from - k];
		}
		near(tj_fft_convolve(f64_of(c, x, 20), f64_of(c, y, 8), (tj_convolve_mode)m), want, n, "fft_convolve");
	}
	tj_tensor *window = tj_hann_window(TJ_F64, 12, true);
	for (int k = 0; k < 4; k++) { /* there and back */
		const tj_stft_opts o = { .hop = 3, .window = k & 1 ? window : NULL, .length = k & 1 ? 12 : 16, .both_sides = k & 2,
			                 .normalized = k == 2 };
		near(tj_istft(tj_stft(f64_of(c, x, LONGEST), 16, &o), 16, LONGEST, &o), x, LONGEST, "istft of stft");
	}
	tj_tensor *h = tj_hilbert(f64_of(c, x, 21), 0, 0), *turned = tj_hilbert(tj_imag_part(h), 0, 0);
	near(tj_real_part(h), x, 21, "the real part of hilbert");
	double mean = 0;
	for (int i = 0; i < 21; i++) mean += x[i] / 21;
	for (int i = 0; i < 21; i++) want[i] = mean - x[i]; /* twice: the signal, negative, without its mean */
	near(tj_imag_part(turned), want, 21, "hilbert twice");
	kit_ok(c);
	tj_check(c);
	assert_true(tj_is_poison(tj_istft(tj_zeros(TJ_F64, TJ_SHAPE(3, 4, 2)), 9, 0, NULL)));
	kit_error(c, TJ_ERR_SHAPE, "x is f64[3,4,2]");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size), cmocka_unit_test(factors),      cmocka_unit_test(primes),
		cmocka_unit_test(many_rows),  cmocka_unit_test(many_columns), cmocka_unit_test(refused),
		cmocka_unit_test(cosine_transforms), cmocka_unit_test(sizes_and_factors), cmocka_unit_test(several_axes), cmocka_unit_test(signals),
	};
	KIT_RUN(tests);
}
