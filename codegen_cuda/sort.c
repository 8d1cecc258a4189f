/* SPDX-License-Identifier: MIT */
/* sort, topk: kernels written by hand. Elements become entries, which are sorted; no two of them are equal, so any sort is stable:
 *
 *   keys of up to 32 bits     key << 32 | index
 *   keys of 64 bits           key, index
 *
 * A key is unsigned and in the order wanted: equal elements (0.0 and -0.0, two NaNs) have equal keys, NaN has the last one, and `down`
 * flips all bits.
 * Operands are row-major: [outer, n, inner]. A line is what lies along the axis.
 *
 *   TILES   a block sorts a tile in shared memory, by a bitonic network: one line, several short ones (`per`), or a part of a long one,
 *           a run. It keeps
 *           no more than the k entries that are wanted
 *   MERGE   only of long lines: two neighbouring runs become one. Each entry finds its place by bisection in the other run. One launch
 *           for each level;
 *           the entries go from one half of the workspace to the other
 *
 *           line  |-------- n = 5 tiles --------|        runs  | 0 | 1 | 2 | 3 | 4 |  ->  | 0 1 | 2 3 | 4 |  ->  | 0 1 2 3 | 4 |  ->  |
 *                 0 1 2 3 4 |
 *
 * The last launch writes what was asked: indices, or the elements at these, so -0.0 and NaN keep their bits. The text depends on the
 * dtype and the result alone;
 * sizes are arguments. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"

/* bytes of the entries of a block; entries of a block, at least, and blocks that are wanted, where lines are short */
enum { TILE = 32 << 10, LEAST = 512, WANTED = 512, MOST_LAUNCHES = 40 };
enum { X, OUT, WORK, OPERANDS };

/* In the order of the struct in the text. pieces: blocks that a run takes in MERGE, 0: TILES; shift, width: log2 of the slots of a line, or
 * a run, in a tile, and of a tile; runs: of a line; kept: entries of a run, at most, that are kept; length: elements that a run comes from;
 * stride: entries of a line in the workspace; from, to: the halves of it; per: the bits of 1 / inner, 1 / runs, 1 / pieces. */
typedef struct sizes {
	int64_t n, k, inner, lines, down, pieces, shift, width, runs, kept, length, stride, from, to, per_inner, per_runs, per_piece;
} sizes;
enum { WORDS = sizeof(sizes) / sizeof(int64_t) };

static const char kernel[] =
	"typedef unsigned long long ull;\n"
	"struct tj_sort_args {\n\tconst U *x; R *y; E *work;\n"
	"\tlong long n, k, inner, lines, down, pieces, shift, width, runs, kept, length, stride, from, to;\n"
	"\tdouble per_inner, per_runs, per_piece;\n\tull units;\n};\n"
	"__device__ __forceinline__ long long tj_kept(const tj_sort_args &a, long long run) /* entries of a run */\n{\n"
	"\tconst long long all = a.n - run * a.length, n = all < a.length ? all : a.length;\n\treturn n < a.kept ? n : a.kept;\n}\n"
	"__device__ __forceinline__ void tj_give(const tj_sort_args &a, long long o, long long j, long long place, E e)\n{\n"
	"\tconst U *const x = a.x + o * a.n * a.inner + j;\n\t(void)x;\n"
	"\ta.y[(o * a.k + place) * a.inner + j] = GIVEN;\n}\n"
	"__device__ __forceinline__ long long tj_outer(const tj_sort_args &a, long long j) /* j / inner of an inner index and less than 4,096 "
	"more */\n{\n"
	"\treturn a.inner < 4096 ? (unsigned)j / (unsigned)a.inner : j >= a.inner;\n}\n"
	"__device__ __forceinline__ void tj_exchange(E *s, int n, int p, int k, int j)\n{\n"
	"\t_Pragma(\"unroll 2\") for (int q = threadIdx.x; q < n / 2; q += 256) {\n"
	"\t\tconst int lo = (q & ~(j - 1)) << 1 | (q & (j - 1)), hi = lo | j;\n"
	"\t\tconst E a = s[lo], b = s[hi];\n"
	"\t\tif (below(b, a) == !(lo & (p - 1) & k)) { s[lo] = b; s[hi] = a; }\n\t}\n}\n"
	"__device__ __forceinline__ void tj_tile(const tj_sort_args &a, long long u)\n{\n"
	"\tE *const s = (E *)tj_shared;\n"
	"\tconst int n = 1 << a.width, p = 1 << a.shift, more = a.width - a.shift, per = 1 << more;\n"
	"\tconst long long group = tj_div(u, a.runs, a.per_runs), run = u - group * a.runs, first = group << more, o0 = tj_div(first, a.inner, "
	"a.per_inner), j0 = first - o0 * a.inner;\n"
	"\tTJ_ROLLED for (int q = threadIdx.x; q < n; q += 256) { /* neighbouring threads read neighbouring elements */\n"
	"\t\tconst int l = a.inner > 1 ? q & (per - 1) : q >> a.shift, w = a.inner > 1 ? q >> more : q & (p - 1);\n"
	"\t\tconst long long i = run * p + w, j = j0 + l, o = tj_outer(a, j);\n"
	"\t\tE e = none();\n"
	"\t\tif (first + l < a.lines && i < a.n) {\n"
	"\t\t\tconst K key = key_of(a.x[((o0 + o) * a.n + i) * a.inner + j - o * a.inner]);\n"
	"\t\t\te = entry(a.down ? (K)~key : key, i);\n\t\t}\n"
	"\t\ts[l << a.shift | w] = e;\n\t}\n"
	"\tTJ_ROLLED for (int k = 2; k <= p; k *= 2) TJ_ROLLED for (int j = k / 2; j; j /= 2) {\n\t\t__syncthreads();\n"
	"\t\ttj_exchange(s, n, p, k, j);\n\t}\n"
	"\t__syncthreads();\n"
	"\tTJ_ROLLED for (int q = threadIdx.x; q < n; q += 256) {\n"
	"\t\tconst int l = a.inner > 1 ? q & (per - 1) : q >> a.shift, w = a.inner > 1 ? q >> more : q & (p - 1);\n"
	"\t\tconst long long j = j0 + l, o = tj_outer(a, j);\n"
	"\t\tif (first + l >= a.lines || w >= tj_kept(a, run)) continue;\n"
	"\t\tif (a.runs == 1) tj_give(a, o0 + o, j - o * a.inner, w, s[l << a.shift | w]);\n"
	"\t\telse a.work[a.to + (first + l) * a.stride + run * a.kept + w] = s[l << a.shift | w];\n\t}\n"
	"\t__syncthreads();\n}\n"
	"__device__ __forceinline__ void tj_merge(const tj_sort_args &a, long long u)\n{\n"
	"\tconst long long r = tj_div(u, a.pieces, a.per_piece), i = (u - r * a.pieces) * 256 + threadIdx.x, line = tj_div(r, a.runs, "
	"a.per_runs), run = r - line * a.runs, other = run ^ 1, runs = (a.runs + 1) >> 1;\n"
	"\tif (i >= tj_kept(a, run)) return;\n"
	"\tconst E *const own = a.work + a.from + line * a.stride + run * a.kept, *const far = a.work + a.from + line * a.stride + other * "
	"a.kept;\n"
	"\tconst long long most = 2 * a.length < a.k ? 2 * a.length : a.k; /* entries of the new runs that are kept */\n"
	"\tconst E e = own[i];\n"
	"\tlong long lo = 0, hi = other < a.runs ? tj_kept(a, other) : 0;\n"
	"\tif (hi > most - i) hi = most - i; /* behind this many it is not kept */\n"
	"\twhile (lo < hi) {\n\t\tconst long long mid = (lo + hi) >> 1;\n\t\tif (below(far[mid], e)) lo = mid + 1;\n\t\telse hi = mid;\n\t}\n"
	"\tif (i + lo >= most) return;\n"
	"\tif (runs == 1) {\n\t\tconst long long o = tj_div(line, a.inner, a.per_inner);\n\t\ttj_give(a, o, line - o * a.inner, i + lo, e);\n\t}\n"
	"\telse a.work[a.to + line * a.stride + (run >> 1) * most + i + lo] = e;\n}\n"
	"extern \"C\" __global__ void __launch_bounds__(256) tj_sort(const __grid_constant__ tj_sort_args a)\n{\n"
	"\tfor (long long u = blockIdx.x; u < (long long)a.units; u += gridDim.x) {\n"
	"\t\tif (!a.pieces) tj_tile(a, u);\n"
	"\t\telse tj_merge(a, u);\n\t}\n}\n";

/* ---- the text ---- */
static bool is_wide(tj_dtype t) { return tj_dtype_size(t) == 8; }

static const char packed[] =
	"typedef unsigned K;\ntypedef unsigned long long E;\n"
	"__device__ __forceinline__ E none() { return ~0ull; }\n"
	"__device__ __forceinline__ E entry(K key, long long i) { return (E)key << 32 | (E)i; }\n"
	"__device__ __forceinline__ bool below(E a, E b) { return a < b; }\n"
	"__device__ __forceinline__ long long at(E e) { return (long long)(e & 0xffffffffu); }\n";
static const char pairs[] =
	"typedef unsigned long long K;\nstruct alignas(16) E { unsigned long long key, at; };\n"
	"__device__ __forceinline__ E none() { return E{ ~0ull, ~0ull }; }\n"
	"__device__ __forceinline__ E entry(K key, long long i) { return E{ key, (unsigned long long)i }; }\n"
	"__device__ __forceinline__ bool below(E a, E b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }\n"
	"__device__ __forceinline__ long long at(E e) { return (long long)e.at; }\n";

/* The key of an element with the bits u. A negative float has all bits flipped, so that larger magnitudes are smaller; another one the
 * sign. */
static void put_key(tj_dtype t, rt_text *out)
{
	static const uint64_t infinite[TJ_DTYPE_COUNT] = {
		[TJ_F16] = 0x7c00, [TJ_BF16] = 0x7f80, [TJ_F32] = 0x7f800000, [TJ_F64] = 0x7ff0000000000000
	};
	const int bits = 8 * (int)tj_dtype_size(t);
	const unsigned long long sign = 1ull << (bits - 1), all = sign | (sign - 1);
	rt_puts(out, "__device__ __forceinline__ K key_of(U u)\n{\n");
	if (t == TJ_BOOL) rt_puts(out, "\treturn u != 0;\n");
	else if (!rt_is_float(t)) rt_putf(out, "\treturn (K)u ^ (K)0x%llxull;\n", rt_is_signed(t) ? sign : 0);
	else
		rt_putf(out,
		        "\tconst K sign = (K)0x%llxull, all = (K)0x%llxull, bits = u == sign ? 0 : u;\n\treturn (bits & ~sign) > (K)0x%llxull ? all : "
		        "bits ^ (bits & sign ? all : sign);\n",
		        sign, all, (unsigned long long)infinite[t]);
	rt_puts(out, "}\n");
}

cu_written cu_sort_text(int which, tj_dtype t, rt_text *out)
{
	rt_text types = { 0 };
	rt_putf(&types, "typedef %s U;\ntypedef %s R;\n#define GIVEN %s\n%s", cu_unsigned(t), which ? "long long" : "U",
	        which ? "at(e)" : "x[at(e) * a.inner]", is_wide(t) ? pairs : packed);
	put_key(t, &types);
	cu_written_text(kernel, &types, out);
	rt_text_free(&types);
	return (cu_written){ .name = "tj_sort", .threads = CU_THREADS, .units = 1, .own = TILE, .operands = OPERANDS, .words = WORDS };
}

/* ---- how the launches share out the work ---- */
static int64_t entry_bytes(tj_dtype t) { return is_wide(t) ? 16 : 8; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The sizes of the first launch. Short lines: several in a tile, but no more than leave all multiprocessors work. */
static sizes tiles_of(ir_op op, tj_dtype t, const int64_t *attr, const ir_meta *m)
{
	const cu_along x = cu_along_axis(m, attr[0]);
	const bool all = op == IR_sort;
	sizes z = { .n = x.n, .k = all ? x.n : attr[1], .inner = x.inner, .lines = x.outer * x.inner, .down = attr[all ? 1 : 2] != 0 };
	const int64_t most = TILE / entry_bytes(t);
	while (1ll << z.shift < least(x.n, most)) z.shift++;
	z.width = z.shift;
	while (1ll << z.width < most && (1ll << z.width < LEAST || z.lines >> (z.width - z.shift) > WANTED)) z.width++;
	z.length = 1ll << z.shift;
	z.runs = x.n ? (x.n - 1) / z.length + 1 : 1;
	z.kept = least(z.length, z.k);
	z.per_inner = cu_inverse(z.inner);
	z.per_runs = cu_inverse(z.runs);
	z.stride = z.runs * z.kept; /* of all runs but the last none is shorter than the most that is kept, so merged runs need no more */
	return z;
}

static int64_t half_of(const sizes *z) { return z->runs > 1 ? z->lines * z->stride : 0; }

/* The blocks of a launch. */
static int64_t units_of(const sizes *z)
{
	if (z->pieces) return z->lines * z->runs * z->pieces;
	const int64_t more = z->width - z->shift;
	return z->k ? ((z->lines + (1ll << more) - 1) >> more) * z->runs : 0;
}

/* The launch after z: its runs are merged. */
static sizes merge_of(const sizes *z, int64_t half)
{
	sizes m = *z;
	m.from = z->to;
	m.to = half - z->to;
	if (z->pieces) {
		m.runs = (z->runs + 1) / 2;
		m.per_runs = cu_inverse(m.runs);
		m.length = 2 * z->length;
		m.kept = least(m.length, m.k);
	}
	m.pieces = (m.kept - 1) / CU_THREADS + 1;
	m.per_piece = cu_inverse(m.pieces);
	return m;
}

static int64_t workspace(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	const ir_meta m = ir_meta_of(L->g, ir_src(L->g, n, 0));
	const sizes z = tiles_of((ir_op)n->op, (tj_dtype)m.dtype, ir_attr(L->g, n), &m);
	return 2 * half_of(&z) * entry_bytes((tj_dtype)m.dtype);
}

/* ---- the step ---- */
/* The operands of the node, its result and the workspace; without one the result again. */
static bool put_operands(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t, bool works)
{
	if (!lo_put_operands(L, p, s, t)) return false;
	const rt_at *own = t->at;
	rt_at *at = lo_step_operands(p, t, OPERANDS);
	if (!at) return false;
	at[X] = own[X];
	at[OUT] = at[WORK] = own[OUT];
	if (works) at[WORK] = (rt_at){ .buf = s->work[lo_node(L, s->ref)->device] };
	return true;
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_node *node = lo_node(L, s->ref);
	const ir_meta m = ir_meta_of(L->g, ir_src(L->g, node, 0));
	const tj_dtype dtype = (tj_dtype)m.dtype;
	sizes *z = rt_arena_alloc(&p->mem, MOST_LAUNCHES * sizeof *z);
	if (!z) return false;
	z[0] = tiles_of((ir_op)node->op, dtype, ir_attr(L->g, node), &m);
	const int64_t half = half_of(&z[0]);
	if (z->n > UINT32_MAX) return rt_fail(L->err, TJ_ERR_LIMIT, ir_ops[node->op].name, "the axis has more than 2^32 - 1 elements"), false;
	if (!put_operands(L, p, s, t, half > 0)) return false;
	cu_launch launch[MOST_LAUNCHES] = { { units_of(z), (const int64_t *)z } };
	const lo_call *e = t->self;
	t->moved = cu_bytes_of(e);
	int n = 1;
	for (int64_t runs = half ? z->runs : 1; runs > 1; runs = (runs + 1) / 2, n++) {
		z[n] = merge_of(&z[n - 1], half);
		launch[n] = (cu_launch){ units_of(&z[n]), (const int64_t *)&z[n] };
		t->moved += 2 * z->lines * z[n].runs * z[n].kept * entry_bytes(dtype);
	}
	rt_text text = { 0 };
	const cu_written w = cu_sort_text(ir_which(node), dtype, &text);
	const bool ok = cu_put_launches(L, p, s, t, &w, &text, n, launch);
	rt_text_free(&text);
	return ok;
}

static void why(const rt_step *t, lo_note *n)
{
	n->other = t->kind == RT_STEP_KERNEL
	                   ? "a kernel of its own"
	                   : "a kernel of its own, launched once to sort parts and once for each time that they are merged";
	n->why = "it moves elements by their values";
}

#define ROUTINE(of) \
	{ \
		.op = of, .workspace = workspace, .lacks = cu_lacks, .takes = cu_takes_row_major, .make = make, \
		.code = { cu_run_launches, NULL }, .why = why \
	}
const lo_routine cu_sort[CU_SORTS] = { ROUTINE(IR_sort), ROUTINE(IR_topk) };
