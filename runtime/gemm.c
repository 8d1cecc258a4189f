/* gemm: our own kernels. Measured GF/s, first column: oneDNN's sgemm, second column: this file (Zen 4, oneDNN 2.6):
 *
 * Tiles, on one core:
 *   [m,768] x [768,3072], m = 4, 9, 12            86 83 105           114 114 113
 *   16^3  64^3  256^3                             23 99 114           98 113 118
 *   [384,384] x [384,64], [1024,64] x [64,64]     107 104             118 115
 *
 * Strips, on two cores, with B in the third cache or in memory:
 *   [m,768] x [768,3072], m = 1, 2                71 74               84 146
 *   [m,4096] x [4096,4096], m = 1, 4, 12, 16      22 48 95 115        23 80 150 145
 *
 * Strips against tiles: [1,768] x [768,3072] with gelu takes 59.4 us by strips and 64.0 us by tiles; with 256 bits, 62.0 and 63.5 us.
 *
 * f32 reads B in place: packing gains nothing when B is read once or twice, or is small and stays in the second cache. For a large
 * B and many rows packing pays, and oneDNN packs.
 *
 * f64 has tiles only, and packs its operands: 46 GF/s on one core while B is in a near cache, 36 from 256^3 on; plain loops: 6. */
#include "runtime/gemm.h"
#include "runtime/alloc.h"

#include <immintrin.h>

#define PAGE_BYTES 4096
#define PAGE (PAGE_BYTES / 4) /* floats */
#define LINE_BYTES 64
#define STRIP_STACK ((size_t)(RT_STRIP_ROWS + 2) * PAGE_BYTES + (16 << 10)) /* bytes of the stack that strips need */
#define GROUP_ROWS 6        /* the most rows of a group: the last of STRIP_ROWS */
#define STRIP_KS 12         /* steps of k that a block of rows takes before the next block takes them */
#define AHEAD 256           /* columns; distance of prefetches */

/* The start of a strip of C in `space`: half a page from B, by addresses modulo a page. If it were just behind B, the CPU
 * would take each load of B for a load of what was just stored, and run at half the speed. */
static float *half_a_page_off(float *space, const float *b)
{
	return space + ((uintptr_t)b - (uintptr_t)space + PAGE_BYTES / 2) % PAGE_BYTES / LINE_BYTES * (LINE_BYTES / 4);
}

/* Number of rows of block i, when `rows` are divided evenly into `blocks`; *from: its first row. */
static int64_t rows_of(int64_t rows, int64_t blocks, int64_t i, int64_t *from)
{
	*from = i * rows / blocks;
	return (i + 1) * rows / blocks - *from;
}

/* ---- 512 bits: 32 registers ---- */
#define T float
#define W 16
#define TARGET "avx512f"
#define VEC __m512
#define MASK __mmask16
#define ZERO _mm512_setzero_ps
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPREAD _mm512_set1_ps
#define MULADD _mm512_fmadd_ps
#define FIRST(n) ((__mmask16)((1u << (n)) - 1))
#define LOAD_SOME(m, p) _mm512_maskz_loadu_ps(m, p)
#define STORE_SOME(m, p, v) _mm512_mask_storeu_ps(p, m, v)
#define ROWS(X) X(1, 8, 4) X(2, 8, 4) X(3, 4, 2) X(4, 4, 2) X(5, 4, 2) X(6, 4, 2) X(7, 3, 2) X(8, 3, 2)
#define STRIP_ROWS(X) X(1, 6) X(2, 6) X(3, 6) X(4, 6) X(5, 4) X(6, 4)
#define STRIP_ROWS_APART(X) X(1, 12) X(2, 12)
#include "runtime/gemm.inc"

/* ---- 256 bits: 16 registers ---- */
#define T float
#define W 8
#define TARGET "avx2,fma"
#define VEC __m256
#define MASK __m256i
#define ZERO _mm256_setzero_ps
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPREAD _mm256_set1_ps
#define MULADD _mm256_fmadd_ps
#define FIRST(n) _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define LOAD_SOME(m, p) _mm256_maskload_ps(p, m)
#define STORE_SOME(m, p, v) _mm256_maskstore_ps(p, m, v)
#define ROWS(X) X(1, 12, 4) X(2, 4, 2) X(3, 3, 2) X(4, 3, 2) X(5, 2, 1) X(6, 2, 1)
#define STRIP_ROWS(X) X(1, 6) X(2, 5) X(3, 3) X(4, 2) X(5, 2) X(6, 2)
#define STRIP_ROWS_APART(X) X(1, 12)
#include "runtime/gemm.inc"

/* ---- f64: a product is rounded before it is added, as in the evaluator. Zen multiplies and adds in separate units, in parallel. ---- */
#define T double
#define W 8
#define TARGET "avx512f"
#define VEC __m512d
#define MASK __mmask8
#define ZERO _mm512_setzero_pd
#define LOAD _mm512_loadu_pd
#define STORE _mm512_storeu_pd
#define SPREAD _mm512_set1_pd
#define MULADD(x, y, s) _mm512_add_pd(s, _mm512_mul_pd(x, y))
#define FIRST(n) ((__mmask8)((1u << (n)) - 1))
#define LOAD_SOME(m, p) _mm512_maskz_loadu_pd(m, p)
#define STORE_SOME(m, p, v) _mm512_mask_storeu_pd(p, m, v)
#define ROWS(X) X(1, 8, 4) X(2, 8, 4) X(3, 4, 2) X(4, 4, 2) X(5, 4, 2) X(6, 4, 2) X(7, 3, 1) X(8, 3, 1)
#include "runtime/gemm.inc"

#define T double
#define W 4
#define TARGET "avx2"
#define VEC __m256d
#define MASK __m256i
#define ZERO _mm256_setzero_pd
#define LOAD _mm256_loadu_pd
#define STORE _mm256_storeu_pd
#define SPREAD _mm256_set1_pd
#define MULADD(x, y, s) _mm256_add_pd(s, _mm256_mul_pd(x, y))
#define FIRST(n) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))
#define LOAD_SOME(m, p) _mm256_maskload_pd(p, m)
#define STORE_SOME(m, p, v) _mm256_maskstore_pd(p, m, v)
#define ROWS(X) X(1, 8, 4) X(2, 4, 2) X(3, 3, 1) X(4, 2, 1) X(5, 2, 1) X(6, 2, 1)
#include "runtime/gemm.inc"

/* ---- choice of kernel ---- */
typedef struct kernel {
	void (*block)(const rt_gemm *g, int64_t rows, const float *a, const float *b, float *c, int64_t n);
	void (*strips)(const rt_gemm *g, const float *a, const float *b, float *c, int64_t n);
	int64_t width;              /* floats of a vector */
	int64_t rows, rows_of_many; /* the most rows of a block: when there is one block; when there are several */
} kernel;

static bool has_512(const rt_gemm *g) { return g->policy->bits >= 512 && __builtin_cpu_supports("avx512f"); }

static const kernel *kernel_of(const rt_gemm *g)
{
	static const kernel wide = { block_float16, strips_float16, 16, 8, 6 }, narrow = { block_float8, strips_float8, 8, 6, 6 };
	if (has_512(g)) return &wide;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &narrow : NULL;
}

bool rt_gemm_takes(const rt_gemm *g)
{
	return (g->b_col == 1 || g->n == 1) && kernel_of(g);
}

static bool in_memory(const rt_gemm *g)
{
	return 4.0 * (double)g->k * (double)g->b_row > RT_THIRD_CACHE;
}

/* Is B so far away (third cache or memory) that strips, which read it in sequence, are faster than tiles? Tiles read short
 * rows nearly in sequence, too. */
static bool far(const rt_gemm *g)
{
	const rt_policy *p = g->policy;
	double bytes = 4.0 * (double)g->k * (double)g->n;
	if (g->m > p->far_rows) return false;
	if (p->strips_from) return bytes > (double)p->strips_from;
	return g->b_row >= AHEAD && ((g->m < p->near_rows && bytes > (double)p->second_cache) || in_memory(g));
}

/* With few columns, most lanes of a vector are unused. */
bool rt_gemm_wants(const rt_gemm *g)
{
	const rt_policy *p = g->policy;
	if (!rt_gemm_takes(g)) return false;
	if (g->n < 4) return (double)g->m * (double)g->n * (double)g->k <= p->tiny;
	return ((g->m <= p->few_rows || far(g)) && g->n >= 16) || 4.0 * (double)g->n * (double)g->k <= (double)p->small_b;
}

static void run_near(const kernel *f, const rt_gemm *g, const float *a, const float *b, float *c, int64_t n)
{
	int64_t most = g->m <= f->rows ? f->rows : f->rows_of_many, blocks = (g->m + most - 1) / most;
	for (int64_t i = 0; i < blocks; i++) {
		int64_t from, rows = rows_of(g->m, blocks, i, &from);
		f->block(g, rows, a + from * g->a_row, b, c + from * g->c_row, n);
	}
}

/* Strip after strip; of one or two rows, a strip is two pages wide. Tiles take the rest that is narrower than a vector. */
static void run_far(const kernel *f, const rt_gemm *g, const float *a, const float *b, float *c)
{
	for (int64_t j = 0, n; j < g->n; j += n) {
		n = g->m <= 2 ? 2 * PAGE : PAGE;
		if (n > g->n - j) n = g->n - j;
		if (n >= f->width) n -= n % f->width;
		if (n < f->width) run_near(f, g, a, b + j, c + j, n);
		else f->strips(g, a, b + j, c + j, n);
	}
}

void rt_gemm_run(const rt_gemm *g, const float *a, const float *b, float *c)
{
	const kernel *f = kernel_of(g);
	if (far(g) && rt_stack_left() > STRIP_STACK) run_far(f, g, a, b, c);
	else run_near(f, g, a, b, c, g->n);
}

/* ---- f64 ---- */
/* Panels of A and B are packed, so that tiles read both in sequence, where that pays (packs()). Between two parts of k the sums
 * are stored in C as f64, which rounds nothing. */
enum { PACK_K = 128, PACK_ROWS = 96, PACK_COLUMNS = 768 };

typedef struct kernel64 {
	void (*block)(const rt_gemm *g, int64_t rows, const double *a, const double *b, double *c, int64_t n);
	int64_t rows, columns; /* size of the main tile */
} kernel64;

static const kernel64 *kernel64_of(const rt_gemm *g)
{
	static const kernel64 wide = { block_double8, 8, 24 }, narrow = { block_double4, 6, 8 };
	if (has_512(g)) return &wide;
	return __builtin_cpu_supports("avx2") ? &narrow : NULL;
}

bool rt_gemm64_takes(const rt_gemm *g) { return kernel64_of(g) != NULL; }

static void copy(double *to, const double *from, int64_t n)
{
	if (n == 24) memcpy(to, from, 24 * sizeof *to); /* a constant length needs no call */
	else if (n == 8) memcpy(to, from, 8 * sizeof *to);
	else memcpy(to, from, (size_t)n * sizeof *to);
}

/* Copies n rows (or columns) of a matrix to panels of `width` of them, each panel [k][width]. Strides in elements: step: to the
 * next row or column; k_step: to the next k. */
static void pack(double *to, const double *from, int64_t n, int64_t step, int64_t nk, int64_t k_step, int64_t width)
{
	for (int64_t k = 0; step == 1 && k < nk; k++)
		for (int64_t p = 0; p < n; p += width) copy(to + p * nk + k * width, from + p + k * k_step, n - p < width ? n - p : width);
	for (int64_t i = 0; step != 1 && i < n; i++) {
		double *x = to + i / width * width * nk + i % width;
		const double *y = from + i * step;
		for (int64_t k = 0; k < nk; k++) x[k * width] = y[k * k_step];
	}
}

/* A part of C, rows x columns, from packed A and B; g->k steps. */
static void run_panels(const kernel64 *f, rt_gemm *g, int64_t rows, int64_t columns, const double *a, const double *b, double *c)
{
	for (int64_t j = 0; j < columns; j += f->columns) {
		int64_t n = columns - j < f->columns ? columns - j : f->columns;
		for (int64_t i = 0; i < rows; i += f->rows)
			f->block(g, rows - i < f->rows ? rows - i : f->rows, a + i * g->k, b + j * g->k, c + i * g->c_row + j, n);
	}
}

/* pa: room for PACK_K steps of most_rows rows of A, then of most_columns columns of B. Both are multiples of a tile's. */
static void run_packed(const kernel64 *f, const rt_gemm *g, const double *a, const double *b, double *c, double *pa, int64_t most_rows,
                       int64_t most_columns)
{
	double *pb = pa + most_rows * PACK_K;
	for (int64_t j = 0; j < g->n; j += most_columns)
		for (int64_t k = 0; k < g->k || !k; k += PACK_K) {
			int64_t columns = g->n - j < most_columns ? g->n - j : most_columns, nk = g->k - k < PACK_K ? g->k - k : PACK_K;
			rt_gemm part = { .k = nk, .a_row = 1, .a_col = f->rows, .b_row = f->columns, .c_row = g->c_row, .more = k > 0 };
			pack(pb, b + k * g->b_row + j * g->b_col, columns, g->b_col, nk, g->b_row, f->columns);
			for (int64_t i = 0; i < g->m; i += most_rows) {
				int64_t rows = g->m - i < most_rows ? g->m - i : most_rows;
				pack(pa, a + i * g->a_row + k * g->a_col, rows, g->a_row, nk, g->a_col, f->rows);
				run_panels(f, &part, rows, columns, pa, pb, c + i * g->c_row + j);
			}
		}
}

static bool packs(const rt_gemm *g, const kernel64 *f)
{
	if (g->b_col != 1 && g->n > 1) return true;
	return g->m > 2 * f->rows && 8 * g->k * g->n > g->policy->second_cache / 8;
}

static void run_in_place(const kernel64 *f, const rt_gemm *g, const double *a, const double *b, double *c)
{
	for (int64_t i = 0; i < g->m; i += f->rows)
		f->block(g, g->m - i < f->rows ? g->m - i : f->rows, a + i * g->a_row, b, c + i * g->c_row, g->n);
}

/* When out of memory: packs for one tile at a time, on the stack. Not inlined, because callers should not need that stack. */
static __attribute__((noinline)) void run_packed_here(const kernel64 *f, const rt_gemm *g, const double *a, const double *b, double *c)
{
	_Alignas(LINE_BYTES) double few[PACK_K * (8 + 24)];
	run_packed(f, g, a, b, c, few, f->rows, f->columns);
}

void rt_gemm64_run(const rt_gemm *g, const double *a, const double *b, double *c)
{
	const kernel64 *f = kernel64_of(g);
	if (!packs(g, f)) {
		run_in_place(f, g, a, b, c);
		return;
	}
	double *space = rt_alloc_aligned(LINE_BYTES, sizeof *space * PACK_K * (PACK_ROWS + PACK_COLUMNS));
	if (space) run_packed(f, g, a, b, c, space, PACK_ROWS, PACK_COLUMNS);
	else run_packed_here(f, g, a, b, c);
	rt_free(space);
}
