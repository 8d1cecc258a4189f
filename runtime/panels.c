/* panels: products of f16 and bf16, in f32, panel by panel. For each panel of C, rows x cols:
 *
 *   convert A[rows,k] and B[k,cols] to f32, in scratch memory of the thread
 *   compute their product in f32
 *   round it once, into C
 *
 * If A has few rows, and the rows of B are dense, a panel of B has STEPS rows, and the sums stay in f32 until the end of k. So B
 * is read once, in the order of memory. Reading it column by column would touch a new page for each number:
 * [1,4096] x [4096,4096] took 10.6 ms that way.
 *
 * The panels follow from the shape alone, so the result does not depend on the number of threads. */
#include "runtime/half.h"
#include "runtime/matmul.h"

#include <immintrin.h>
#include <math.h>
#include <stdatomic.h>

enum {
	ROWS = 256, COLS = 256,
	FEW_ROWS = 16, STEPS = 8, WIDE = 512, /* columns */
	NEAR = 64 << 10, /* floats; a panel of B of this size stays in the second cache */
	LINE = 16        /* floats */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* ---- conversion of n adjacent numbers from and to f32 ---- */
typedef void from_fn(float *to, const uint16_t *from, int64_t n);
typedef void to_fn(uint16_t *to, const float *from, int64_t n);

static void from_f16(float *to, const uint16_t *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++) to[i] = tj_from_f16((tj_f16){ from[i] });
}
static void from_bf16(float *to, const uint16_t *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++) to[i] = tj_from_bf16((tj_bf16){ from[i] });
}
static void to_f16(uint16_t *to, const float *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++) to[i] = tj_to_f16((double)from[i]).bits;
}
static void to_bf16(uint16_t *to, const float *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++) to[i] = tj_to_bf16((double)from[i]).bits;
}

#define V8 __attribute__((target("avx2,f16c")))
V8 static void from_f16_8(float *to, const uint16_t *from, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
	from_f16(to + i, from + i, n - i);
}
V8 static void from_bf16_8(float *to, const uint16_t *from, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + i)));
		_mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
	}
	from_bf16(to + i, from + i, n - i);
}
V8 static void to_f16_8(uint16_t *to, const float *from, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
	to_f16(to + i, from + i, n - i);
}
/* The same algorithm as in codegen_llvm/point.c. */
V8 static void to_bf16_8(uint16_t *to, const float *from, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(from + i);
		__m256i u = _mm256_castps_si256(v), low = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
		__m256i sum = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), low), quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
		__m256i r = _mm256_blendv_epi8(sum, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
		r = _mm256_srli_epi32(r, 16);
		r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x88);
		_mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_castsi256_si128(r));
	}
	to_bf16(to + i, from + i, n - i);
}

static from_fn *from_of(tj_dtype t)
{
	bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
	if (t == TJ_F16) return fast ? from_f16_8 : from_f16;
	return fast ? from_bf16_8 : from_bf16;
}

static to_fn *to_of(tj_dtype t)
{
	bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
	if (t == TJ_F16) return fast ? to_f16_8 : to_f16;
	return fast ? to_bf16_8 : to_bf16;
}

/* ---- few rows ---- */
/* c[j] += a[k] * b[k][j] for each row k of b, by fused multiply-adds in the order of k. rows: STEPS, or less at the end of k. */
typedef void add_fn(float *c, const float *a, const float *b, int64_t rows, int64_t cols);

static void add_rows(float *c, const float *a, const float *b, int64_t rows, int64_t cols)
{
	for (int64_t k = 0; k < rows; k++)
		for (int64_t j = 0; j < cols; j++) c[j] = fmaf(a[k], b[k * cols + j], c[j]);
}

__attribute__((target("avx2,fma"))) static void add_rows_8(float *c, const float *a, const float *b, int64_t rows, int64_t cols)
{
	__m256 x[STEPS];
	int64_t j = 0;
	for (int k = 0; k < STEPS && rows == STEPS; k++) x[k] = _mm256_set1_ps(a[k]);
	for (; rows == STEPS && j + 8 <= cols; j += 8) {
		__m256 sum = _mm256_loadu_ps(c + j);
		for (int k = 0; k < STEPS; k++) sum = _mm256_fmadd_ps(x[k], _mm256_loadu_ps(b + k * cols + j), sum);
		_mm256_storeu_ps(c + j, sum);
	}
	for (int64_t k = 0; k < rows; k++)
		for (int64_t i = j; i < cols; i++) c[i] = __builtin_fmaf(a[k], b[k * cols + i], c[i]);
}

static add_fn *add_of(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? add_rows_8 : add_rows; }

/* c[d->m,cols] = a[d->m,d->k] times the cols columns at b, STEPS of k at a time. space: room for STEPS rows of b in f32. */
static void few_rows(const rt_matmul_desc *d, const float *a, const uint16_t *b, float *c, float *space, int64_t cols, from_fn *from)
{
	add_fn *add = add_of();
	memset(c, 0, sizeof *c * (size_t)(d->m * cols));
	for (int64_t k = 0; k < d->k; k += STEPS) {
		int64_t steps = smaller(STEPS, d->k - k);
		/* The CPU does not prefetch the next rows by itself: they are short, and each is on another page. */
		for (int64_t i = 0; i < STEPS && k + STEPS + i < d->k; i++)
			for (int64_t j = 0; j < cols; j += 2 * LINE) __builtin_prefetch(b + (k + STEPS + i) * d->b_row + j);
		for (int64_t i = 0; i < steps; i++) from(space + i * cols, b + (k + i) * d->b_row, cols);
		for (int64_t r = 0; r < d->m; r++) add(c + r * cols, a + r * d->k + k, space, steps, cols);
	}
}

/* ---- panels ---- */
rt_panels rt_panels_of(const rt_matmul_desc *d)
{
	rt_panels p = { .rows = smaller(d->m, ROWS), .cols = smaller(d->n, COLS), .few = d->m <= FEW_ROWS && d->b_col == 1 };
	if (p.few) p.cols = smaller(d->n, WIDE);
	else if (d->m <= FEW_ROWS) p.cols = smaller(p.cols, up(NEAR / (d->k + 1) + 1, 2 * LINE));
	p.down = d->m ? (d->m + p.rows - 1) / p.rows : 0;
	p.across = d->n ? (d->n + p.cols - 1) / p.cols : 0;
	p.a = (size_t)up(p.rows * d->k, LINE);
	p.b = (size_t)up(p.cols * (p.few ? STEPS : d->k), LINE);
	p.bytes = (p.a + p.b + (size_t)up(p.rows * p.cols, LINE)) * sizeof(float);
	return p;
}

/* A part of a matrix, dense, in f32. row, col: its strides in elements, one of which is 1. */
typedef struct panel { float *data; int64_t row, col; } panel;

static panel widen(float *to, const uint16_t *x, int64_t rows, int64_t cols, int64_t row, int64_t col, bool transposed, from_fn *f)
{
	if (col != 1 && row == 1 && transposed) {
		for (int64_t j = 0; j < cols; j++) f(to + j * rows, x + j * col, rows);
		return (panel){ to, 1, rows };
	}
	for (int64_t i = 0; i < rows; i++) {
		if (col == 1) f(to + i * cols, x + i * row, cols);
		else for (int64_t j = 0; j < cols; j++) f(to + i * cols + j, x + i * row + j * col, 1);
	}
	return (panel){ to, cols, 1 };
}

/* ---- running ---- */
typedef struct panel_job {
	const rt_matmul *m;
	rt_operands x;
	char *scratch;
	size_t step;         /* bytes of scratch for each thread */
	atomic_bool failed;  /* oneDNN failed on a panel */
} panel_job;

/* One f32 product, on this thread. */
static bool product(const rt_gemm *g, const float *a, const float *b, float *c)
{
	if (rt_gemm_takes(g) && (rt_gemm_wants(g) || !rt_onednn())) {
		rt_gemm_run(g, a, b, c);
		return true;
	}
	if (rt_onednn() && rt_onednn_takes(g)) return rt_onednn_run(g, a, b, c);
	for (int64_t r = 0; r < g->m; r++) {
		for (int64_t n = 0; n < g->n; n++) c[r * g->c_row + n] = 0;
		for (int64_t k = 0; k < g->k; k++)
			for (int64_t n = 0; n < g->n; n++) c[r * g->c_row + n] += a[r * g->a_row + k * g->a_col] * b[k * g->b_row + n * g->b_col];
	}
	return true;
}

/* Panels begin..end-1 of all products, batch after batch. */
static bool run(const panel_job *j, float *scratch, int64_t begin, int64_t end)
{
	const rt_matmul_desc *d = &j->m->d;
	const rt_panels *p = &j->m->panels;
	const bool transposes = rt_onednn(); /* oneDNN takes a transposed B, our tiles do not */
	from_fn *from = from_of(d->dtype);
	to_fn *to = to_of(d->dtype);
	panel x = { NULL, 0, 0 };
	float *own = scratch + p->a + p->b;
	for (int64_t i = begin, was = -1; i < end; i++) {
		const int64_t strip = i / p->across, batch = strip / p->down, row = strip % p->down * p->rows, col = i % p->across * p->cols;
		const int64_t rows = smaller(p->rows, d->m - row), cols = smaller(p->cols, d->n - col);
		const uint16_t *y = (const uint16_t *)j->x.b + rt_batch_at(d->b_batch, batch) + col * d->b_col;
		uint16_t *out = (uint16_t *)j->x.c + rt_batch_at(d->c_batch, batch) + row * d->c_row + col;
		if (strip != was) x = widen(scratch, (const uint16_t *)j->x.a + rt_batch_at(d->a_batch, batch) + row * d->a_row, rows, d->k, d->a_row, d->a_col, !p->few, from);
		was = strip;
		if (p->few) few_rows(d, x.data, y, own, scratch + p->a, cols, from);
		else {
			const panel z = widen(scratch + p->a, y, d->k, cols, d->b_row, d->b_col, transposes, from);
			if (!product(&(rt_gemm){ rows, cols, d->k, x.row, x.col, z.row, cols, d->policy, z.col, false }, x.data, z.data, own)) return false;
		}
		for (int64_t r = 0; r < rows; r++) to(out + r * d->c_row, own + r * cols, cols);
	}
	return true;
}

static void run_panels(void *env, int thread, int64_t begin, int64_t end)
{
	panel_job *j = env;
	int before = rt_onednn_begin();
	if (!run(j, (float *)(void *)(j->scratch + (size_t)thread * j->step), begin, end)) atomic_store(&j->failed, true);
	rt_onednn_end(before);
}

tj_status rt_panels_run(const rt_matmul *m, rt_operands x, const rt_run *r)
{
	const rt_panels *p = &m->panels;
	panel_job j = { .m = m, .x = x, .step = (p->bytes + 63) / 64 * 64 };
	const int64_t n = m->d.batch * p->down * p->across;
	if (!(j.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), j.step))) return rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory for panels");
	rt_team_run(r, n, 1, m->ns * (double)m->d.batch, run_panels, &j);
	return atomic_load(&j.failed) ? rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory in oneDNN") : TJ_OK;
}
