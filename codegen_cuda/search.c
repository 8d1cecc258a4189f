/* SPDX-License-Identifier: MIT */
/* searchsorted: a kernel written by hand. A thread takes a value and bisects its row of `sorted`, as ir/eval.c does, so that values that
 * are not sorted have the same answer. Operands are row-major: sorted [outer or 1, n], values [outer, m]. NaN counts as largest.
 *
 *   sorted   row of value i: i / m, or the only one      |  1  3  3  7  NaN |
 *   values   i                                              3             left: 1, right: 3
 *
 * The text depends on the dtype alone; sizes are arguments. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"

/* in the order of the struct in the text. own: elements from one row of sorted to the next, or 0 */
typedef struct sizes { int64_t n, m, own, right, count; } sizes;
enum { SORTED, VALUES, OUT, OPERANDS };
enum { WORDS = sizeof(sizes) / sizeof(int64_t) };

static const char kernel[] =
	"struct tj_searchsorted_args { const T *sorted, *values; long long *out; long long n, m, own, right, count; unsigned long long units; };\n"
	"template <class V> __device__ __forceinline__ bool before(V a, V b) { return a < b || (a == a && b != b); }\n"
	"extern \"C\" __global__ void __launch_bounds__(256) tj_searchsorted(const __grid_constant__ tj_searchsorted_args a)\n{\n"
	"\tfor (long long i = blockIdx.x * 256ll + threadIdx.x; i < a.count; i += gridDim.x * 256ll) {\n"
	"\t\tconst T *const row = a.sorted + (a.own ? i / a.m * a.own : 0), x = a.values[i];\n"
	"\t\tlong long lo = 0, hi = a.n;\n"
	"\t\twhile (lo < hi) {\n"
	"\t\t\tconst long long mid = lo + (hi - lo) / 2;\n"
	"\t\t\tconst T s = row[mid];\n"
	"\t\t\tif (a.right ? !before(VALUE(x), VALUE(s)) : before(VALUE(s), VALUE(x))) lo = mid + 1;\n"
	"\t\t\telse hi = mid;\n\t\t}\n"
	"\t\ta.out[i] = lo;\n\t}\n}\n";

cu_written cu_search_text(tj_dtype t, rt_text *out)
{
	rt_text types = { 0 };
	rt_putf(&types, "typedef %s T;\n#define VALUE(x) %s\n", cu_memory(t),
	        t == TJ_F16    ? "tj_from_f16(x)"
	        : t == TJ_BF16 ? "tj_from_bf16(x)"
	        : t == TJ_BOOL ? "(x != 0)"
	                       : "x");
	cu_written_text(kernel, &types, out);
	rt_text_free(&types);
	return (cu_written){ .name = "tj_searchsorted", .threads = CU_THREADS, .units = CU_THREADS, .operands = OPERANDS, .words = WORDS };
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	sizes *z = rt_arena_alloc(&p->mem, sizeof *z);
	if (!z || !lo_put_operands(L, p, s, t)) return false;
	const lo_call *e = t->self;
	const ir_meta *from = &e->src[SORTED].meta, *v = &e->src[VALUES].meta;
	*z = (sizes){ .n = from->dim[from->rank - 1],
		      .m = v->rank ? v->dim[v->rank - 1] : 1,
		      .right = e->attr[0] != 0,
		      .count = ir_numel(L->g, s->ref) };
	z->own = from->rank > 1 ? z->n : 0;
	t->moved = cu_bytes_of(e);
	rt_text text = { 0 };
	const cu_written w = cu_search_text((tj_dtype)v->dtype, &text);
	const bool ok = cu_put_launches(L, p, s, t, &w, &text, 1, &(cu_launch){ z->count, (const int64_t *)z });
	rt_text_free(&text);
	return ok;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "a kernel of its own";
	n->why = "each step of a search needs the one before it";
}

const lo_routine cu_searchsorted = { .op = IR_searchsorted, .lacks = cu_lacks, .takes = cu_takes_row_major, .make = make, .why = why };
