/* SPDX-License-Identifier: MIT */
/* cumsum, cumprod, cummax, cummin, linear_recurrence: a kernel written by hand, bit for bit the evaluator's. Operands are row-major:
 * [outer, n, inner]. What happens to one element follows the order of the axis, because sums of floats in another order have other bits.
 *
 *   line     the elements along the axis at one outer and one inner index
 *   chunk    a part of a line, which a thread walks alone. Sums and products have chunks of IR_RUNNING elements, as ir/eval.c says. An
 *            extreme and a
 *            sum of integers are exact in any order, so their lines are cut where there are few. A recurrence is one chunk
 *   steps    LINES: each chunk by itself. If there are several: CARRY: one thread goes along the ends of the chunks of a line, and makes
 *            them
 *            final. JOIN: all other elements are joined with the end of the chunk before theirs. Each is a launch of its own
 *
 *              x   | a  b  c  d | e  f  g  h | i  j ..
 *              LINES a  ab abc abcd  e  ef efg efgh  i ..   CARRY sets the 8th to abcd + efgh, JOIN the 5th to abcd + e, ...
 *
 * A warp takes 32 neighbouring chunks. If inner is large, neighbours are adjacent in memory, and each thread reads its own chunk. Else
 * (`staged`)
 * the warp loads W adjacent elements of each chunk into shared memory, each thread goes along its own W, and the warp stores the results.
 *
 *              memory   chunk 0: ........WWWW....   shared   row 0 of 32, W + 1 apart, so that threads use different banks
 *                       chunk 1: ........WWWW....            row 1
 *
 * The text depends on the op, the dtype and the result alone, and on whether it is staged; sizes are arguments. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"
#include "ir/tree.h"

/* STEPS: elements that a thread loads at a time; NEAR: an inner size whose rows are whole sectors */
enum { WARPS = 4, STEPS = 8, NEAR = 8, CUT = 256, LINES_ENOUGH = 1 << 13, MOST_CHUNKS = 1 << 12 };
enum { LINES, CARRY, JOIN, PHASES };

/* in the order of the struct in the text; shift: if there are several chunks, log2 of their length; count: chunks, lines or elements of
 * the launch; per: the bits of 1 / inner, 1 / chunks, 1 / (n - chunk) */
typedef struct sizes { int64_t n, inner, chunk, shift, chunks, count, phase, per_inner, per_chunks, per_rest; } sizes;
enum { WORDS = sizeof(sizes) / sizeof(int64_t) };

/* next: element v at i of a line, first of its chunk or not, becomes a part of s; w is the index of s. */
static const char arguments[] =
	"struct tj_cumulate_args { TJ_A const T *x; R *y; long long n, inner, chunk, shift, chunks, count, phase; double per_inner, per_chunks, "
	"per_rest; unsigned long long units; };\n"
	"__device__ __forceinline__ void next(T &s, long long &w, T v, T c, long long i, bool first) { if (first) s = v, w = i; else NEXT; }\n"
	"__device__ __forceinline__ void tj_ends(const tj_cumulate_args &a, const T *x, R *y)\n{\n"
	"\tR before = y[(a.chunk - 1) * a.inner];\n"
	"\tconst long long whole = a.n >> a.shift;\n\tfor (long long c = 1; c < whole; c += 8) {\n"
	"\t\tR *const end = y + ((c + 1) * a.chunk - 1) * a.inner, own[8];\n"
	"\t\tTJ_UNROLL for (int q = 0; q < 8; q++) if (c + q < whole) own[q] = end[q * a.chunk * a.inner];\n"
	"\t\tTJ_UNROLL for (int q = 0; q < 8; q++) if (c + q < whole) end[q * a.chunk * a.inner] = before = joined(x, a.inner, before, own[q]);\n"
	"\t}\n}\n"
	"__device__ __forceinline__ void tj_rest(const tj_cumulate_args &a, long long e)\n{\n"
	"\tconst long long row = tj_div(e, a.inner, a.per_inner), j = e - row * a.inner, o = tj_div(row, a.n - a.chunk, a.per_rest);\n"
	"\tconst long long i = a.chunk + row - o * (a.n - a.chunk), c = i >> a.shift, line = o * a.n * a.inner + j;\n"
	"\tR *const y = a.y + line;\n"
	"\tif ((i & (a.chunk - 1)) != a.chunk - 1) y[i * a.inner] = joined(a.x + line, a.inner, y[(c * a.chunk - 1) * a.inner], y[i * "
	"a.inner]);\n}\n";

static const char head[] =
	"extern \"C\" __global__ void __launch_bounds__(128, 4) tj_cumulate(const __grid_constant__ tj_cumulate_args a)\n{\n"
	"\tconst int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
	"\tfor (long long u = blockIdx.x * 4 + warp; u < (long long)a.units; u += gridDim.x * 4) {\n"
	"\t\tconst long long item = u * 32 + lane;\n"
	"\t\tconst bool live = item < a.count;\n"
	"\t\tif (chunked && a.phase == 1) {\n"
	"\t\t\tconst long long o = tj_div(item, a.inner, a.per_inner), line = item + o * (a.n - 1) * a.inner;\n"
	"\t\t\tif (live) tj_ends(a, a.x + line, a.y + line);\n\t\t\tcontinue;\n\t\t}\n"
	"\t\tif (chunked && a.phase == 2) {\n\t\t\tif (live) tj_rest(a, item);\n\t\t\tcontinue;\n\t\t}\n";

/* Items are chunks: [outer, chunks, inner]. */
static const char alone[] =
	"\t\tconst long long row = tj_div(item, a.inner, a.per_inner), j = item - row * a.inner, o = tj_div(row, a.chunks, a.per_chunks);\n"
	"\t\tconst long long from = (row - o * a.chunks) * a.chunk, at = (o * a.n + from) * a.inner + j, step = a.inner;\n"
	"\t\tconst long long len = !live ? 0 : a.n - from < a.chunk ? a.n - from : a.chunk;\n"
	"\t\tT s = 0;\n\t\tlong long w = 0;\n"
	"\t\tfor (long long i = 0; i < len; i += 8) {\n"
	"\t\t\tT v[8] = {}, c[8] = {};\n"
	"\t\t\tTJ_UNROLL for (int q = 0; q < 8; q++) if (i + q < len) { v[q] = a.x[at + (i + q) * step]; c[q] = SECOND(at + (i + q) * step); }\n"
	"\t\t\tTJ_UNROLL for (int q = 0; q < 8; q++) if (i + q < len) {\n"
	"\t\t\t\tnext(s, w, v[q], c[q], from + i + q, i + q == 0);\n"
	"\t\t\t\ta.y[at + (i + q) * step] = GIVEN;\n\t\t\t}\n"
	"\t\t}\n\t}\n}\n";

/* Items are chunks: [outer, inner, chunks]. Lanes / W rows are loaded by one access of the warp, 8 of them before the first is used. */
static const char staged_lines[] =
	"\t\tconst long long line = tj_div(item, a.chunks, a.per_chunks), from = (item - line * a.chunks) * a.chunk, o = tj_div(line, a.inner, "
	"a.per_inner);\n"
	"\t\tconst long long len = !live ? 0 : a.n - from < a.chunk ? a.n - from : a.chunk, mine = lane % W * a.inner;\n"
	"\t\tlong long at = (o * a.n + from) * a.inner + line - o * a.inner;\n"
	"\t\tT *const xs = (T *)(tj_shared + warp * own), *const cs = (T *)(tj_shared + warp * own + second);\n"
	"\t\tR *const ys = (R *)(tj_shared + warp * own + result);\n"
	"\t\tT s = 0;\n\t\tlong long w = 0;\n"
	"\t\tTJ_ROLLED for (long long i0 = 0; i0 < a.chunk; i0 += W, at += W * a.inner) {\n"
	"\t\t\tconst int m = i0 >= len ? 0 : len - i0 < W ? (int)(len - i0) : W;\n"
	"\t\t\tTJ_ROLLED for (int r0 = lane / W; r0 < 32; r0 += 8 * rows) {\n"
	"\t\t\t\tT v[8] = {}, c[8] = {};\n"
	"\t\t\t\tTJ_UNROLL for (int q = 0; q < 8; q++) {\n"
	"\t\t\t\t\tconst int n = __shfl_sync(~0u, m, r0 + q * rows);\n"
	"\t\t\t\t\tconst long long first = __shfl_sync(~0u, at, r0 + q * rows);\n"
	"\t\t\t\t\tif (lane % W < n) { v[q] = a.x[first + mine]; c[q] = SECOND(first + mine); }\n\t\t\t\t}\n"
	"\t\t\t\tTJ_UNROLL for (int q = 0; q < 8; q++) {\n"
	"\t\t\t\t\txs[(r0 + q * rows) * pitch + lane % W] = v[q];\n"
	"\t\t\t\t\tif (second) cs[(r0 + q * rows) * pitch + lane % W] = c[q];\n\t\t\t\t}\n"
	"\t\t\t}\n"
	"\t\t\t__syncwarp();\n"
	"\t\t\t_Pragma(\"unroll 4\") for (int k = 0; k < W; k++) if (k < m) {\n"
	"\t\t\t\tnext(s, w, xs[lane * pitch + k], cs[lane * pitch + k], from + i0 + k, i0 + k == 0);\n"
	"\t\t\t\tys[lane * pitch + k] = GIVEN;\n\t\t\t}\n"
	"\t\t\t__syncwarp();\n"
	"\t\t\t_Pragma(\"unroll 4\") for (int r = lane / W; r < 32; r += rows) {\n"
	"\t\t\t\tconst int n = __shfl_sync(~0u, m, r);\n"
	"\t\t\t\tconst long long first = __shfl_sync(~0u, at, r);\n"
	"\t\t\t\tif (lane % W < n) a.y[first + mine] = ys[r * pitch + lane % W];\n\t\t\t}\n"
	"\t\t\t__syncwarp();\n"
	"\t\t}\n\t}\n}\n";

/* ---- the text ---- */
static bool is_extreme(ir_op op) { return op == IR_cummax || op == IR_cummin; }

/* Integers wrap as unsigned; which of two is larger depends on their sign. */
static const char *type_of(ir_op op, tj_dtype t) { return rt_is_float(t) || is_extreme(op) ? cu_memory(t) : cu_unsigned(t); }

static const char *next_of(ir_op op, tj_dtype t)
{
	switch (op) {
	case IR_cumsum: return "s = s + v";
	case IR_cumprod: return "s = s * v";
	case IR_cummax: return "if (v != v || v >= s) s = v, w = i";
	case IR_cummin: return "if (v != v || v <= s) s = v, w = i";
	default:
		return t == TJ_F32             ? "s = fmaf(c, s, v)"
		       : t == TJ_F64           ? "s = fma(c, s, v)"
		       : tj_dtype_size(t) == 8 ? "s = c * s + v"
		                               : "s = (T)((unsigned)c * s + v)";
	}
}

/* The result at an element from that of its own chunk and that before the chunk. */
static const char *join_of(ir_op op, int which)
{
	switch (op) {
	case IR_cumsum: return "before + own";
	case IR_cumprod: return "before * own";
	case IR_cummax:
		return which ? "x[own * step] != x[own * step] || x[own * step] >= x[before * step] ? own : before"
		             : "own != own || own >= before ? own : before";
	case IR_cummin:
		return which ? "x[own * step] != x[own * step] || x[own * step] <= x[before * step] ? own : before"
		             : "own != own || own <= before ? own : before";
	default: return "own"; /* it has one chunk */
	}
}

/* W elements of a line, and their results, are at most 128 bytes. own: bytes of a warp; second, result: where its other tiles begin. */
typedef struct tiles { int w, own, second, result; } tiles;
static tiles tiles_of(ir_op op, int which, tj_dtype t)
{
	const int size = (int)tj_dtype_size(t), w = size > 4 || which ? 16 : 32, x = 32 * (w + 1) * size,
		  y = which ? 32 * (w + 1) * (int)sizeof(int64_t) : 0;
	const bool two = op == IR_linear_recurrence;
	return (tiles){ w, x + (two ? x : 0) + y, two ? x : 0, which ? x : 0 };
}

cu_written cu_cumulate_text(ir_op op, int which, tj_dtype t, bool staged, rt_text *out)
{
	const tiles s = tiles_of(op, which, t);
	rt_text types = { 0 }, kernel = { 0 };
	const bool two = op == IR_linear_recurrence;
	rt_putf(&types,
	        "typedef %s T;\ntypedef %s R;\n#define TJ_A %s\n#define SECOND(i) %s\n#define NEXT %s\n#define GIVEN %s\nenum { chunked = %d };\n",
	        type_of(op, t), which ? "long long" : "T", two ? "const T *a;" : "", two ? "a.a[i]" : "0", next_of(op, t),
	        which ? "w" : "s", !two);
	if (staged)
		rt_putf(&types, "enum { W = %d, pitch = W + 1, rows = 32 / W, own = %d, second = %d, result = %d };\n", s.w, s.own,
		        s.second, s.result);
	rt_putf(&types, "__device__ __forceinline__ R joined(const T *x, long long step, R before, R own) { return (R)(%s); }\n",
	        join_of(op, which));
	rt_putf(&kernel, "%s%s%s", arguments, head, staged ? staged_lines : alone);
	cu_written_text(rt_str(&kernel), &types, out);
	out->oom |= kernel.oom;
	rt_text_free(&types);
	rt_text_free(&kernel);
	return (cu_written){ .name = "tj_cumulate",
		             .threads = WARPS * CU_WARP,
		             .units = WARPS,
		             .own = staged ? (size_t)s.own : 0,
		             .operands = two ? 3 : 2,
		             .words = WORDS };
}

/* ---- the step ---- */
static int64_t chunk_of(ir_op op, tj_dtype t, const cu_along *x)
{
	int64_t chunk = CUT;
	if (op == IR_linear_recurrence) return x->n;
	if (!is_extreme(op) && rt_is_float(t)) return x->n < IR_RUNNING ? x->n : IR_RUNNING;
	while (x->n / chunk > MOST_CHUNKS) chunk *= 2;
	return x->n <= 2 * CUT || x->outer * x->inner >= LINES_ENOUGH ? x->n : chunk;
}

/* Fills the sizes of each launch; returns their number. */
static int measure(ir_op op, tj_dtype t, const cu_along *x, sizes *z)
{
	const int64_t chunk = chunk_of(op, t, x), lines = x->outer * x->inner;
	if (!lines || !x->n) return 0;
	z[0] = (sizes){ x->n, x->inner, chunk, 0, (x->n - 1) / chunk + 1, 0, LINES, cu_inverse(x->inner), 0, cu_inverse(x->n - chunk) };
	z->per_chunks = cu_inverse(z->chunks);
	while (1ll << z->shift < chunk) z->shift++;
	for (int i = 1; i < PHASES; i++) z[i] = z[0], z[i].phase = i;
	z[LINES].count = lines * z->chunks;
	z[CARRY].count = lines;
	z[JOIN].count = lines * (x->n - chunk);
	return z->chunks > 1 ? PHASES : 1;
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	sizes *z = rt_arena_alloc(&p->mem, PHASES * sizeof *z);
	cu_launch launch[PHASES];
	if (!z || !lo_put_operands(L, p, s, t)) return false;
	const lo_call *e = t->self;
	const tj_dtype dtype = (tj_dtype)e->src[0].meta.dtype;
	const cu_along x = cu_along_axis(&e->src[0].meta, e->attr[0]);
	const int n = measure(e->op, dtype, &x, z);
	for (int i = 0; i < n; i++) launch[i] = (cu_launch){ (z[i].count - 1) / CU_WARP + 1, (const int64_t *)&z[i] };
	t->moved = cu_bytes_of(e) + (n > 1 ? 2 * e->bytes : 0);
	rt_text text = { 0 };
	const cu_written w = cu_cumulate_text(e->op, e->which, dtype, x.inner < NEAR, &text);
	const bool ok = cu_put_launches(L, p, s, t, &w, &text, n, launch);
	rt_text_free(&text);
	return ok;
}

static void why(const rt_step *t, lo_note *n)
{
	n->other = t->kind == RT_STEP_KERNEL ? "a kernel of its own" : "three launches of a kernel of its own";
	n->why = "a thread follows the axis, or a part of it, so the result is that of the CPU";
}

#define ROUTINE(of) \
	{ \
		.op = of, .lacks = cu_lacks, .takes = cu_takes_row_major, .make = make, .code = { cu_run_launches, NULL }, .why = why \
	}
const lo_routine cu_cumulate[CU_CUMULATES] = { ROUTINE(IR_cumsum), ROUTINE(IR_cumprod), ROUTINE(IR_cummax), ROUTINE(IR_cummin),
	                                       ROUTINE(IR_linear_recurrence) };
