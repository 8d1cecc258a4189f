/* SPDX-License-Identifier: MIT */
/* scatter_add and its like: a kernel written by hand, bit for bit the evaluator's: what happens to one element follows the order of the
 * index, without atomics.
 *
 *   columns   all axes of the result but the scattered one. Columns do not share elements. A block takes up to 256 adjacent ones
 *   slots     the places along the scattered axis. A block takes a range of them, and keeps columns times slots in shared memory
 *   groups    with fewer than 256 columns, threads are left: group g of a column has slots g, g + groups, ...
 *
 * So one thread has an element from the first source to the last. Each block walks the whole index and looks for its own slots. Where
 * the columns of a block have one index (the gradient of an embedding), its threads look at 256 entries at once, and then all of them join
 * the hits, one after the other; else each thread walks the index of its column.
 *
 * The text depends on the op and the dtype alone; sizes are arguments. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"
#include "lower/library.h"

enum { TILE = 16 << 10, WANTED = 512 }; /* bytes of the elements that a block keeps; blocks that are wanted, if there are enough slots */
enum { BASE, INDEX, SRC, OUT, OPERANDS };
_Static_assert(TJ_MAX_RANK == 16 && CU_THREADS == 256, "the text has fifteen axes, and 256 threads");

/* In the order of the struct in the text. */
typedef struct axis { int64_t dim, inside, step[OPERANDS]; } axis; /* inside: its length in the index */
typedef struct sizes {
	int64_t n, size, slots, shift, shared, tiles, step[OPERANDS]; /* step: along the scattered axis */
	int64_t naxis;
	axis column[TJ_MAX_RANK - 1]; /* the innermost first */
} sizes;
enum { WORDS = sizeof(sizes) / sizeof(int64_t) };

static const char kernel[] =
	"struct tj_axis { long long dim, inside, base, index, src, out; };\n"
	"struct tj_scatter_add_args {\n\tconst T *base; const long long *index; const T *src; T *out;\n"
	"\tlong long n, size, slots, shift, shared, tiles, base_step, index_step, src_step, out_step, naxis;\n\ttj_axis axis[15];\n"
	"\tunsigned long long units, launch;\n\ttj_faults *fault;\n};\n"
	"extern \"C\" __global__ void __launch_bounds__(256) tj_scatter_add(const __grid_constant__ tj_scatter_add_args a)\n{\n"
	"\tT *const sum = (T *)tj_shared, *const held = sum + tile; /* held: of 256 entries of the index, where the block has one column */\n"
	"\tint *const place = (int *)(held + 256); /* their slots in the block's range; -1: not in it */\n"
	"\tunsigned *const hits = (unsigned *)(place + 256);\n"
	"\tconst int shift = (int)a.shift, w = threadIdx.x & ((1 << shift) - 1), g = threadIdx.x >> shift, groups = 256 >> shift;\n"
	"\tfor (long long u = blockIdx.x; u < (long long)a.units; u += gridDim.x) {\n"
	"\t\tconst long long first = u / a.tiles * a.slots;\n"
	"\t\tconst int slots = (int)(a.size - first < a.slots ? a.size - first : a.slots);\n"
	"\t\tlong long rest = u % a.tiles, base = first * a.base_step, index = 0, src = 0, out = first * a.out_step;\n"
	"\t\tbool live = true, inside = true, some = true; /* the column exists; it has an index; a column of the block has one */\n"
	"\t\tfor (int d = 0; d < (int)a.naxis; d++) {\n"
	"\t\t\tconst tj_axis &x = a.axis[d];\n"
	"\t\t\tconst int s = d ? 0 : shift;\n"
	"\t\t\tconst long long pieces = ((x.dim - 1) >> s) + 1, from = rest % pieces << s, at = d ? from : from + w;\n"
	"\t\t\trest /= pieces;\n"
	"\t\t\tlive &= at < x.dim;\n\t\t\tinside &= at < x.inside;\n\t\t\tsome &= from < x.inside;\n"
	"\t\t\tbase += at * x.base;\n\t\t\tindex += at * x.index;\n\t\t\tsrc += at * x.src;\n\t\t\tout += at * x.out;\n\t\t}\n"
	"\t\tif (live) for (int v = g; v < slots; v += groups) sum[v << shift | w] = a.base[base + v * a.base_step];\n"
	"\t\tif (a.shared) {\n"
	"\t\t\tfor (long long n0 = 0; some && n0 < a.n; n0 += 256) {\n"
	"\t\t\t\tconst long long n = n0 + threadIdx.x, at = n < a.n ? a.index[index + n * a.index_step] : first;\n"
	"\t\t\t\tif (at < 0 || at >= a.size) tj_fault(a.fault, a.launch, 1);\n"
	"\t\t\t\tconst bool hit = n < a.n && at >= first && at < first + slots;\n"
	"\t\t\t\tconst unsigned all = __ballot_sync(~0u, hit);\n"
	"\t\t\t\t__syncthreads(); /* the last entries have been added */\n"
	"\t\t\t\tplace[threadIdx.x] = hit ? (int)(at - first) : -1;\n"
	"\t\t\t\tif (!shift && hit) held[threadIdx.x] = a.src[src + n * a.src_step];\n"
	"\t\t\t\tif (threadIdx.x % 32 == 0) hits[threadIdx.x / 32] = all;\n"
	"\t\t\t\t__syncthreads();\n"
	"\t\t\t\tfor (int q = 0; q < 8; q++) for (unsigned m = hits[q]; m; m &= m - 1) {\n"
	"\t\t\t\t\tconst int j = q * 32 + __ffs((int)m) - 1, v = place[j];\n"
	"\t\t\t\t\tif (inside && (v & (groups - 1)) == g) sum[v << shift | w] = joined(sum[v << shift | w], shift ? a.src[src + (n0 + j) * "
	"a.src_step] : held[j]);\n"
	"\t\t\t\t}\n\t\t\t}\n"
	"\t\t} else if (inside) _Pragma(\"unroll 4\") for (long long n = 0; n < a.n; n++) {\n"
	"\t\t\tconst long long at = a.index[index + n * a.index_step];\n"
	"\t\t\tif (at < 0 || at >= a.size) tj_fault(a.fault, a.launch, 1);\n"
	"\t\t\tif (at < first || at >= first + slots || ((at - first) & (groups - 1)) != g) continue;\n"
	"\t\t\tT *const to = &sum[(int)(at - first) << shift | w];\n"
	"\t\t\t*to = joined(*to, a.src[src + n * a.src_step]);\n"
	"\t\t}\n"
	"\t\tif (live) for (int v = g; v < slots; v += groups) a.out[out + v * a.out_step] = sum[v << shift | w];\n"
	"\t}\n}\n";

/* Integers wrap as unsigned; which of two is larger depends on their sign. */
static const char *type_of(ir_op op, tj_dtype t)
{
	static const char *const with_sign[] = { [1] = "signed char", [2] = "short", [4] = "int", [8] = "long long" };
	if (op == IR_scatter) return cu_unsigned(t);
	if (rt_is_float(t)) return cu_memory(t);
	return (op == IR_scatter_amax || op == IR_scatter_amin) && rt_is_signed(t) ? with_sign[tj_dtype_size(t)] : cu_unsigned(t);
}

/* The element a, joined with the source b. bool adds as or. */
static const char *join_of(ir_op op, tj_dtype t)
{
	const bool truth = t == TJ_BOOL;
	switch (op) {
	case IR_scatter_add: return truth ? "(a | b) != 0" : "a + b";
	case IR_scatter_prod: return truth ? "(a && b)" : tj_dtype_size(t) == 2 && !rt_is_float(t) ? "(unsigned)a * b" : "a * b";
	case IR_scatter_amax: return truth ? "(a | b) != 0" : "b > a || b != b ? b : a";
	case IR_scatter_amin: return truth ? "(a && b)" : "b < a || b != b ? b : a";
	default: return truth ? "b != 0" : "b";
	}
}

/* Shared memory: the elements, 256 entries of the index and their slots, and a word of hits for each warp. */
cu_written cu_scatter_text(ir_op op, tj_dtype t, rt_text *out)
{
	rt_text types = { 0 };
	rt_putf(&types, "typedef %s T;\nenum { tile = %d };\n", type_of(op, t), (int)(TILE / tj_dtype_size(t)));
	rt_putf(&types, "__device__ __forceinline__ T joined(T a, T b) { return (T)(%s); }\n", join_of(op, t));
	cu_written_text(kernel, &types, out);
	rt_text_free(&types);
	return (cu_written){ .name = "tj_scatter_add", .threads = CU_THREADS, .units = 1, .operands = OPERANDS, .words = WORDS, .faults = true,
		                 .own = TILE + CU_THREADS * (tj_dtype_size(t) + sizeof(int)) + CU_THREADS / CU_WARP * sizeof(unsigned) };
}

/* ---- how a launch shares out the work ---- */
/* in continues x: the two are one axis. */
static bool merges(const axis *x, const axis *in)
{
	bool one = in->dim == in->inside;
	for (int k = 0; k < OPERANDS; k++) one &= x->step[k] == in->dim * in->step[k];
	return one;
}

static void add_axis(sizes *z, axis x)
{
	axis *in = z->naxis ? &z->column[z->naxis - 1] : NULL;
	if (x.dim == 1) return;
	if (x.inside <= 1) x.step[INDEX] = x.step[SRC] = 0;
	if (!in || !merges(&x, in)) {
		z->column[z->naxis++] = x;
		return;
	}
	in->inside *= x.inside;
	in->dim *= x.dim;
}

/* Slots of a block: as many as fit, but no more than give all multiprocessors work; each group has as many as the others. */
static int64_t slots_of(const sizes *z, int64_t most)
{
	const int64_t groups = CU_THREADS >> z->shift;
	int64_t n = z->size * z->tiles / WANTED + 1;
	n = (n + groups - 1) / groups * groups;
	return n < most ? n : most;
}

static void measure(const lo_call *e, tj_dtype t, sizes *z)
{
	const ir_meta *base = &e->src[BASE].meta, *index = &e->src[INDEX].meta;
	const int axis_at = base->rank ? (int)e->attr[0] : -1;
	int64_t stride[TJ_MAX_RANK + 1] = { 0 };
	const int64_t *const step[OPERANDS] = { e->src[BASE].stride, e->src[INDEX].stride, e->src[SRC].stride, stride };
	*z = (sizes){ .n = 1, .size = 1, .tiles = 1 };
	ir_contiguous(base->rank, base->dim, stride);
	for (int d = base->rank - 1; d >= 0; d--) {
		axis x = { base->dim[d], index->dim[d], { 0 } };
		for (int k = 0; k < OPERANDS; k++) x.step[k] = step[k][d];
		if (d != axis_at) add_axis(z, x);
		else z->n = x.inside, z->size = x.dim, memcpy(z->step, x.step, sizeof z->step);
	}
	for (int d = 0; d < base->rank; d++) z->n = index->dim[d] ? z->n : 0; /* no elements at all */
	if (!z->naxis) z->column[z->naxis++] = (axis){ 1, 1, { 0 } };
	while (z->shift < 8 && 1 << z->shift < z->column[0].dim) z->shift++;
	z->shared = z->column[0].step[INDEX] == 0;
	for (int d = 0; d < z->naxis; d++) z->tiles *= d ? z->column[d].dim : ((z->column[0].dim - 1) >> z->shift) + 1;
	z->slots = slots_of(z, (TILE / (int64_t)tj_dtype_size(t)) >> z->shift);
}

/* ---- the step: a kernel of the plan like any other ---- */
static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	(void)r, (void)k;
	return lo_node(L, a->base)->op != IR_num; /* such a number is not in memory of the GPU */
}

/* Bytes that it reads of an operand: the elements at the places of the index, those that an axis repeats once. */
static int64_t moved(const lo_call *e, int k)
{
	const ir_value *v = &e->src[k];
	int64_t n = (int64_t)tj_dtype_size((tj_dtype)v->meta.dtype);
	for (int d = 0; d < v->meta.rank; d++) n *= v->stride[d] || !v->meta.dim[d] ? e->src[INDEX].meta.dim[d] : 1;
	return n;
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_op op = (ir_op)lo_node(L, s->ref)->op;
	const tj_dtype dtype = (tj_dtype)lo_node(L, s->ref)->dtype;
	sizes *z = rt_arena_alloc(&p->mem, sizeof *z);
	rt_fault *fault = rt_arena_alloc(&p->mem, sizeof *fault);
	if (!z || !fault || !lo_put_operands(L, p, s, t)) return false;
	const lo_call *e = t->self;
	measure(e, dtype, z);
	*fault = (rt_fault){ e->site, ir_ops[op].name, TJ_ERR_INDEX, z->size };
	const int64_t ranges = z->size ? (z->size - 1) / z->slots + 1 : 1;
	t->fault = fault;
	t->nfault = 1;
	t->moved = 2 * e->bytes + moved(e, INDEX) + moved(e, SRC);
	rt_text text = { 0 };
	const cu_written w = cu_scatter_text(op, dtype, &text);
	const bool ok = cu_put_launches(L, p, s, t, &w, &text, 1, &(cu_launch){ z->tiles * ranges, (const int64_t *)z });
	rt_text_free(&text);
	return ok;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "a kernel of its own";
	n->why = "a thread has an element and follows the order of the index, so the result is always the same";
}

#define SCATTER(name) { .op = IR_##name, .lacks = cu_lacks, .takes = takes, .make = make, .why = why }
const lo_routine cu_scatter[CU_SCATTERS] = { SCATTER(scatter_add), SCATTER(scatter), SCATTER(scatter_prod), SCATTER(scatter_amax),
	                                     SCATTER(scatter_amin) };
