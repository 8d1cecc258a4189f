/* SPDX-License-Identifier: MIT */
/* lower: results of plans against the evaluator, bit for bit; fusion, checked by the number of kernels; memory; outputs that
 * are views or may overwrite an external; faults; out of memory. Each plan runs with the steps of the evaluator, with an
 * interpreter of kernels, with and without fusion, and compiled if LLVM is installed. */
#include "lower/library.h"
#include "lower/symbol.h"
#include "lower/target.h"
#include "runtime/alloc.h"
#include "runtime/matmul.h"
#include "runtime/settings.h"

#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include "test/unit/interp.h"
#include "test/skip.h"
#include "test/unit/parsed.h"

enum { MAX_SLOTS = 10, MAX_OUTS = 4 };

/* ---- values ---- */
static uint64_t seed;
static uint32_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static ir_scalar random_value(tj_dtype t, bool whole)
{
	static const double special[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-42, 3e38 };
	double d = whole ? (double)(draw() % 9) - 4 : draw() % 20 == 0 ? special[draw() % 9] : ((int)(draw() % 2000) - 1000) / 250.0;
	switch (rt_dtype_class(t)) {
	case RT_F: return (ir_scalar){ .f = (float)d };
	case RT_D: return (ir_scalar){ .d = d };
	default: return (ir_scalar){ .i = t == TJ_BOOL ? (int64_t)(draw() & 1) : (int64_t)(draw() % 4) };
	}
}

typedef struct env {
	char *mem[MAX_SLOTS];
	const void *ext[MAX_SLOTS];
	uint64_t num[MAX_SLOTS];
	void *out[MAX_OUTS], *want[MAX_OUTS];
} env;

static void fill_input(env *e, const ir_graph *g, ir_ref r, bool whole)
{
	const ir_node *n = ir_at(g, r);
	int64_t slot = ir_attr(g, n)[0], low = 0, high = 0, size = (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	for (int i = 0; i < n->rank; i++) {
		int64_t reach = (ir_dims(g, n)[i] - 1) * ir_attr(g, n)[2 + i];
		*(reach < 0 ? &low : &high) += ir_dims(g, n)[i] ? reach : 0;
	}
	e->mem[slot] = malloc((size_t)((high - low + 1) * size));
	for (int64_t i = 0; i <= high - low; i++)
		interp_store(e->mem[slot] + i * size, (tj_dtype)n->dtype, random_value((tj_dtype)n->dtype, whole));
	e->ext[slot] = e->mem[slot] - low * size;
}

static size_t out_bytes(const ir_graph *g, uint32_t i)
{
	return (size_t)ir_numel(g, g->out.v[i]) * tj_dtype_size((tj_dtype)ir_at(g, g->out.v[i])->dtype);
}

static void open_env(env *e, const ir_graph *g, bool whole)
{
	*e = (env){ 0 };
	seed = 7;
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		if (n->op == IR_input && !e->mem[ir_attr(g, n)[0]]) fill_input(e, g, r, whole);
		if (n->op == IR_num) {
			ir_scalar v = n->dtype == TJ_F64 ? (ir_scalar){ .d = 1.25 } : (ir_scalar){ .i = 3 };
			memcpy(&e->num[ir_attr(g, n)[0]], &v, sizeof v);
		}
	}
	for (uint32_t i = 0; i < g->out.n; i++) {
		e->out[i] = malloc(out_bytes(g, i) + 1);
		e->want[i] = malloc(out_bytes(g, i) + 1);
	}
}

static void close_env(env *e)
{
	for (int i = 0; i < MAX_SLOTS; i++) free(e->mem[i]);
	for (int i = 0; i < MAX_OUTS; i++) free(e->out[i]), free(e->want[i]);
}

/* An output that is an external seen through strides, made row-major. */
static void copy_view(env *e, const rt_out *o, uint32_t i, size_t size)
{
	int64_t n = 1;
	for (int k = 0; k < o->rank; k++) n *= o->dim[k];
	for (int64_t at = 0; at < n; at++) {
		int64_t rest = at, from = o->offset;
		for (int k = o->rank - 1; k >= 0; k--) {
			from += rest % o->dim[k] * o->stride[k];
			rest /= o->dim[k];
		}
		memcpy((char *)e->out[i] + (size_t)at * size, (const char *)e->ext[o->same_ext] + from * (int64_t)size, size);
	}
}

static void compare(const ir_graph *g, const env *e, uint32_t i, const char *how)
{
	tj_dtype t = (tj_dtype)ir_at(g, g->out.v[i])->dtype;
	size_t size = tj_dtype_size(t);
	for (size_t at = 0; at < out_bytes(g, i); at += size) {
		ir_scalar a = interp_load((char *)e->out[i] + at, t), b = interp_load((char *)e->want[i] + at, t);
		bool nan = (t == TJ_F32 && a.f != a.f && b.f != b.f) || (t == TJ_F64 && a.d != a.d && b.d != b.d);
		if (nan || !memcmp((char *)e->out[i] + at, (char *)e->want[i] + at, size)) continue;
		fail_msg("%s: output %u, element %zu differs", how, i, at / size);
	}
}

static uint32_t settings; /* of every plan that built() makes: rt_setting */

static rt_exec *built(const ir_graph *g, const lo_target *t, bool no_fuse)
{
	lo_opts o = { .name = "t", .target = t, .settings = settings, .off = no_fuse ? LO_OFF(FUSE) : 0, .keep_text = true };
	rt_exec *x = NULL;
	rt_err err = { 0 };
	if (lo_build(g, &o, &x, &err) != TJ_OK) fail_msg("%s: %s", err.op, err.message);
	return x;
}

static tj_status run(const rt_exec *x, env *e, rt_err *err)
{
	rt_pool *pool = rt_pool_new();
	rt_run r = { .team = rt_team_get(2), .pool = pool, .ext = e->ext, .num = e->num, .out = e->out, .err = err };
	tj_status st = x->run(x, &r);
	rt_pool_free(pool);
	return st;
}

static void check_one(const ir_graph *g, env *e, const lo_target *t, bool no_fuse, const char *how)
{
	rt_exec *x = built(g, t, no_fuse);
	rt_err err = { 0 };
	for (uint32_t i = 0; i < g->out.n; i++) memset(e->out[i], 0xaa, out_bytes(g, i));
	if (run(x, e, &err) != TJ_OK) fail_msg("%s: %s", how, err.message);
	for (uint32_t i = 0; i < g->out.n; i++) {
		if (x->out[i].same_ext >= 0) copy_view(e, &x->out[i], i, tj_dtype_size((tj_dtype)ir_at(g, g->out.v[i])->dtype));
		compare(g, e, i, how);
	}
	rt_exec_unref(x);
}

static void check_all(const char *text, bool whole)
{
	ir_graph g = parsed(text);
	env e;
	rt_err err = { 0 };
	const lo_target *llvm = lo_backend_find("llvm", NULL) ? &lo_cpu : NULL;
	open_env(&e, &g, whole);
	if (ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err) != TJ_OK) fail_msg("eval: %s", err.message);
	check_one(&g, &e, NULL, false, "evaluator steps");
	check_one(&g, &e, interp_target(), false, "interpreted kernels");
	check_one(&g, &e, interp_target(), true, "interpreted kernels, not fused");
	if (llvm) check_one(&g, &e, llvm, false, "llvm");
	if (llvm) check_one(&g, &e, llvm, true, "llvm, not fused");
	close_env(&e);
	ir_graph_free(&g);
}

/* ---- cases ---- */
typedef struct plan_case {
	const char *name;
	int kernels, calls, copies; /* with fusion: kernels, library calls, evaluator steps */
	const char *text;
} plan_case;

static const plan_case cases[] = {
	{ "softmax", 1, 0, 0, "%0 = input f32[5,70] slot=0\n%1 = softmax f32[5,70] %0 axis=1\nret %1\n" },
	{ "softmax of a transposed value", 1, 0, 0, "%0 = input f32[9,33] slot=0 strides=1,9\n%1 = softmax f32[9,33] %0 axis=1\nret %1\n" },
	{ "softmax along columns", 1, 0, 0, "%0 = input f32[40,9] slot=0\n%1 = softmax f32[40,9] %0 axis=0\nret %1\n" },
	{ "layer_norm in f64", 1, 0, 0,
	  "%0 = input f64[3,50] slot=0\n%1 = input f64[50] slot=1\n%2 = const f64[] 0x1p-10\n%3 = layer_norm f64[3,50] %0 %1 %1 %2\nret %3\n" },
	{ "x - mean(x), both read", 1, 0, 0,
	  "%0 = input f32[6,40] slot=0\n%1 = mean f32[6,1] %0 keepdim=1 axes=1\n%2 = sub f32[6,40] %0 %1\nret %1 %2\n" },
	{ "two groups of reduced axes", 2, 0, 0, "%0 = input f32[4,5,6] slot=0\n%1 = sum f32[5] %0 keepdim=0 axes=0,2\nret %1\n" },
	{ "all axes, of a sum with a broadcast operand", 2, 0, 0,
	  "%0 = input f32[4,5,6] slot=0\n%1 = input f32[6] slot=1\n%2 = add f32[4,5,6] %0 %1\n%3 = sum f32[] %2 keepdim=0\nret %3\n" },
	{ "long rows", 1, 0, 0, "%0 = input f32[2,5000] slot=0\n%1 = sum f32[2] %0 keepdim=0 axes=1\nret %1\n" },
	{ "long columns", 1, 0, 0,
	  "%0 = input f32[700,3] slot=0\n%1 = sum f32[3] %0 keepdim=0 axes=0\n%2 = amin f32[3] %0 keepdim=0 axes=0\nret %1 %2\n" },
	{ "long columns searched", 1, 0, 0,
	  "%0 = input f64[2,650,3] slot=0\n%1 = max_with_indices %0 keepdim=1 axis=1\n%2 = get f64[2,1,3] %1 i=0\n%3 = get i64[2,1,3] %1 i=1\n"
	  "%4 = argmin i64[2,3] %0 keepdim=0 axis=1\nret %3 %2 %4\n" },
	{ "x - mean(x) of long columns, and a sum of integers", 2, 0, 0,
	  "%0 = input f32[530,2] slot=0\n%1 = mean f32[1,2] %0 keepdim=1 axes=0\n%2 = sub f32[530,2] %0 %1\n%3 = input i64[530,2] slot=1\n"
	  "%4 = sum i64[2] %3 keepdim=0 axes=0\nret %2 %4\n" },
	{ "every reduction", 1, 0, 0,
	  "%0 = input f32[7,33] slot=0\n%1 = prod f32[7] %0 keepdim=0 axes=1\n%2 = amin f32[7] %0 keepdim=0 axes=1\n"
	  "%3 = argmax i64[7] %0 keepdim=0 axis=1\n%4 = argmin i64[7] %0 keepdim=0 axis=1\nret %1 %2 %3 %4\n" },
	{ "values and indices, a point op in front and behind each", 1, 0, 0,
	  "%0 = input f32[70,33] slot=0\n%1 = exp f32[70,33] %0\n%2 = max_with_indices %1 keepdim=0 axis=1\n%3 = get f32[70] %2 i=0\n"
	  "%4 = get i64[70] %2 i=1\n"
	  "%5 = sqrt f32[70] %3\n%6 = bitwise_not i64[70] %4\nret %5 %6\n" },
	{ "values and indices of columns", 1, 0, 0,
	  "%0 = input f64[40,9] slot=0\n%1 = min_with_indices %0 keepdim=1 axis=0\n%2 = get f64[1,9] %1 i=0\n%3 = get i64[1,9] %1 i=1\n"
	  "ret %3 %2\n" },
	{ "values alone, then subtracted", 1, 0, 0,
	  "%0 = input f32[9,33] slot=0 strides=1,9\n%1 = max_with_indices %0 keepdim=1 axis=1\n%2 = get f32[9,1] %1 i=0\n"
	  "%3 = sub f32[9,33] %0 %2\nret %3\n" },
	{ "indices and argmax are one", 1, 0, 0,
	  "%0 = input u8[7,33] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=1\n%2 = get i64[7] %1 i=1\n%3 = get u8[7] %1 i=0\n"
	  "%4 = argmax i64[7] %0 keepdim=0 axis=1\nret %2 %3 %4\n" },
	{ "an extreme of no axes", 2, 0, 0,
	  "%0 = input f32[] slot=0\n%1 = exp f32[] %0\n%2 = max_with_indices %1 keepdim=0 axis=end\n%3 = get f32[] %2 i=0\n"
	  "%4 = get i64[] %2 i=1\nret %3 %4\n" },
	{ "extremes of nothing", 0, 0, 0,
	  "%0 = input f32[0,3] slot=0\n%1 = min_with_indices %0 keepdim=0 axis=1\n%2 = get f32[0] %1 i=0\n%3 = get i64[0] %1 i=1\nret %2 %3\n" },
	{ "integers sum to i64", 1, 0, 0,
	  "%0 = input u8[7,33] slot=0\n%1 = cast i64[7,33] %0 dtype=i64\n%2 = sum i64[7] %1 keepdim=0 axes=1\nret %2\n" },
	{ "reductions over nothing", 2, 0, 0,
	  "%0 = input f32[3,0] slot=0\n%1 = sum f32[3] %0 keepdim=0 axes=1\n%2 = prod f32[3] %0 keepdim=0 axes=1\nret %1 %2\n" },
	{ "empty values", 0, 0, 0, "%0 = input f32[3,0] slot=0\n%1 = exp f32[3,0] %0\nret %1\n" },
	{ "views of views", 1, 0, 0,
	  "%0 = input f32[6,8] slot=0\n%1 = neg f32[6,8] %0\n%2 = slice f32[3,8] %1 axis=0 start=5 stop=end step=-2\n"
	  "%3 = permute f32[8,3] %2 axes=1,0\n%4 = flip f32[8,3] %3 axes=1\n%5 = reshape f32[2,4,3] %4 shape=2,4,3\nret %5\n" },
	{ "a reshape that is not affine", 2, 0, 0,
	  "%0 = input f32[6,4] slot=0\n%1 = exp f32[6,4] %0\n%2 = permute f32[4,6] %1 axes=1,0\n%3 = reshape f32[3,8] %2 shape=3,8\n"
	  "%4 = sum f32[3] %3 keepdim=0 axes=1\nret %4\n" },
	{ "x and its flip", 2, 0, 0,
	  "%0 = input f32[30] slot=0\n%1 = exp f32[30] %0\n%2 = flip f32[30] %1 axes=0\n%3 = add f32[30] %1 %2\nret %3\n" },
	{ "cat of a value that others read", 3, 0, 0,
	  "%0 = input f32[3,4] slot=0\n%1 = input f32[3,2] slot=1\n%2 = exp f32[3,4] %0\n%3 = cat f32[3,10] %2 %1 %2 axis=1\n"
	  "%4 = neg f32[3,10] %3\nret %4 %2\n" },
	{ "one value returned twice", 1, 0, 0, "%0 = input f32[9] slot=0\n%1 = exp f32[9] %0\nret %1 %1\n" },
	{ "constants and numbers", 3, 0, 0,
	  "%0 = num f64 slot=0\n%1 = cast f32[] %0 dtype=f32\n%2 = full f32[4,3] %1 dtype=f32 shape=4,3\n%3 = const f32[2] 0x1p+0\n"
	  "%4 = arange i32[5] dtype=i32 start=3 stop=13 step=2\nret %2 %3 %4\n" },
	{ "causal mask", 1, 0, 0,
	  "%0 = input f32[2,6,6] slot=0\n%1 = arange i64[6] dtype=i64 start=0 stop=6 step=1\n%2 = reshape i64[6,1] %1 shape=6,1\n"
	  "%3 = le bool[6,6] %1 %2\n%4 = const f32[] -inf\n%5 = where f32[2,6,6] %3 %0 %4\n%6 = softmax f32[2,6,6] %5 axis=2\nret %6\n" },
	{ "random numbers", 1, 0, 0,
	  "%0 = num i64 slot=0\n%1 = num i64 slot=1\n%2 = normal f32[5,7] %0 %1 dtype=f32 shape=5,7\n%3 = transpose f32[7,5] %2 a=0 b=1\n"
	  "ret %3\n" },
	{ "embedding", 1, 0, 0,
	  "%0 = input f32[4,6] slot=0\n%1 = input i64[2,3] slot=1\n%2 = embedding f32[2,3,6] %0 %1\n%3 = neg f32[2,3,6] %2\nret %3\n" },
	{ "gather along the first axis", 1, 0, 0,
	  "%0 = input f32[5,6] slot=0\n%1 = input i64[2,6] slot=1\n%2 = gather f32[2,6] %0 %1 axis=0\nret %2\n" },
	{ "cross_entropy", 2, 0, 0, "%0 = input f32[6,4] slot=0\n%1 = input i64[6] slot=1\n%2 = cross_entropy f32[] %0 %1\nret %2\n" },
	{ "one_hot", 1, 0, 0, "%0 = input i64[6] slot=0\n%1 = one_hot i64[6,5] %0 n=5\nret %1\n" },
	{ "scatter_add", 0, 1, 0,
	  "%0 = input f32[5,3] slot=0\n%1 = input i64[4,3] slot=1\n%2 = input f32[4,3] slot=2\n%3 = scatter_add f32[5,3] %0 %1 %2 axis=0\n"
	  "ret %3\n" },
	{ "the other ways to scatter", 0, 4, 0,
	  "%0 = input f32[5,3] slot=0\n%1 = input i64[4,3] slot=1\n%2 = input f32[4,3] slot=2\n%3 = scatter f32[5,3] %0 %1 %2 axis=0\n"
	  "%4 = scatter_prod f32[5,3] %0 %1 %2 axis=0\n"
	  "%5 = scatter_amax f32[5,3] %0 %1 %2 axis=0\n%6 = scatter_amin f32[5,3] %0 %1 %2 axis=0\nret %3 %4 %5 %6\n" },
	{ "sums so far, in chunks", 0, 4, 0,
	  "%0 = input f32[9,2500] slot=0\n%1 = cumsum f32[9,2500] %0 axis=1\n%2 = cumprod f32[9,2500] %0 axis=1\n"
	  "%3 = input f64[2049,3] slot=1\n%4 = cumsum f64[2049,3] %3 axis=0\n"
	  "%5 = input i64[2,1100,70] slot=2\n%6 = cumprod i64[2,1100,70] %5 axis=1\nret %1 %2 %4 %6\n" },
	{ "recurrences", 0, 3, 0,
	  "%0 = input f32[3,1100] slot=0\n%1 = input f32[3,1100] slot=1\n%2 = linear_recurrence f32[3,1100] %0 %1 axis=1\n"
	  "%3 = linear_recurrence f32[3,1100] %0 %1 axis=0\n"
	  "%4 = input u8[5,64,2] slot=2\n%5 = linear_recurrence u8[5,64,2] %4 %4 axis=0\nret %2 %3 %5\n" },
	{ "the largest so far", 0, 3, 0,
	  "%0 = input f32[1100,65] slot=0\n%1 = cummax %0 axis=0\n%2 = get f32[1100,65] %1 i=0\n%3 = get i64[1100,65] %1 i=1\n"
	  "%4 = input i16[65,1100] slot=1\n%5 = cummin %4 axis=1\n%6 = get i64[65,1100] %5 i=1\nret %2 %3 %6\n" },
	{ "sorted rows", 1, 3, 0,
	  "%0 = input f32[3,700] slot=0\n%1 = sort %0 axis=1 descending=0\n%2 = get f32[3,700] %1 i=0\n%3 = input f32[9000] slot=1\n"
	  "%4 = sort %3 axis=0 descending=1\n%5 = get i64[9000] %4 i=1\n"
	  "%6 = input f64[5000,2] slot=2\n%7 = sort %6 axis=0 descending=1\n%8 = get f64[5000,2] %7 i=0\n%9 = get i64[5000,2] %7 i=1\n"
	  "ret %2 %5 %8 %9\n" },
	{ "sorted rows of narrow elements", 0, 4, 0,
	  "%0 = input i16[2,300] slot=0\n%1 = argsort i64[2,300] %0 axis=1 descending=0\n%2 = input u8[60,9] slot=1\n"
	  "%3 = sort %2 axis=0 descending=1\n%4 = get u8[60,9] %3 i=0\n"
	  "%5 = input f16[2,500] slot=2\n%6 = sort %5 axis=1 descending=0\n%7 = get f16[2,500] %6 i=0\n%8 = input i64[4,300] slot=3\n"
	  "%9 = sort %8 axis=1 descending=0\n%10 = get i64[4,300] %9 i=0\nret %1 %4 %7 %10\n" },
	{ "the first of each row", 1, 2, 0,
	  "%0 = input f32[3,5000] slot=0\n%1 = topk %0 axis=1 k=7 largest=1\n%2 = get f32[3,7] %1 i=0\n%3 = get i64[3,7] %1 i=1\n"
	  "%4 = input i8[900,2] slot=1\n%5 = topk %4 axis=0 k=100 largest=0\n%6 = get i64[100,2] %5 i=1\nret %2 %3 %6\n" },
	{ "the first of each row of doubles", 0, 3, 0,
	  "%0 = input f64[2,3000] slot=0\n%1 = topk %0 axis=1 k=2000 largest=0\n%2 = get f64[2,2000] %1 i=0\n"
	  "%3 = topk %0 axis=1 k=50 largest=1\n%4 = get i64[2,50] %3 i=1\n"
	  "%5 = input bf16[3000] slot=1\n%6 = topk %5 axis=0 k=1 largest=0\n%7 = get i64[1] %6 i=1\nret %2 %4 %7\n" },
	{ "some of each sorted row", 1, 2, 0,
	  "%0 = input f32[3,700] slot=0\n%1 = input i64[3,2] slot=1\n%2 = take_sorted %0 %1 axis=1\n%3 = get f32[3,2] %2 i=0\n"
	  "%4 = get i64[3,2] %2 i=1\n%5 = input f64[90,5] slot=2\n%6 = input i64[20,4] slot=3\n"
	  "%7 = take_sorted %5 %6 axis=0\n%8 = get f64[20,4] %7 i=0\nret %3 %4 %8\n" },
	{ "searches", 0, 2, 0,
	  "%0 = input f32[40] slot=0\n%1 = sort %0 axis=0 descending=0\n%2 = get f32[40] %1 i=0\n%3 = input f32[9,90] slot=1\n"
	  "%4 = searchsorted i64[9,90] %2 %3 right=1\nret %4\n" },
	{ "cumsum of a transposed value", 1, 1, 0,
	  "%0 = input f32[40,30] slot=0\n%1 = exp f32[40,30] %0\n%2 = transpose f32[30,40] %1 a=0 b=1\n%3 = cumsum f32[30,40] %2 axis=1\n"
	  "ret %3\n" },
	{ "matmul of doubles", 1, 0, 0,
	  "%0 = input f64[3,5] slot=0\n%1 = input f64[7,5] slot=1\n%2 = transpose f64[5,7] %1 a=0 b=1\n%3 = matmul f64[3,7] %0 %2\nret %3\n" },
	{ "matmul of integers", 1, 0, 0, "%0 = input i32[3,5] slot=0\n%1 = input i32[5,4] slot=1\n%2 = matmul i32[3,4] %0 %1\nret %2\n" },
	{ "a cast that a product reads, and others", 2, 0, 0,
	  "%0 = input bf16[5,300] slot=0\n%1 = cast f32[5,300] %0 dtype=f32\n%2 = input f32[300] slot=1\n%3 = matmul f32[5] %1 %2\nret %1 %3\n" },
	{ "softmax of many rows that lie across memory", 2, 0, 0,
	  "%0 = input f32[130,140] slot=0\n%1 = transpose f32[140,130] %0 a=0 b=1\n%2 = softmax f32[140,130] %1 axis=1\nret %2\n" },
	{ "a long way round: rows of an argument with strides, and its columns", 3, 0, 0,
	  "%0 = input f32[2,130,90] slot=0 strides=11700,1,130\n%1 = sum f32[2,130] %0 keepdim=0 axes=2\n"
	  "%2 = amax f32[2,90] %0 keepdim=0 axes=1\n%3 = exp f32[2,130,90] %0\nret %1 %2 %3\n" },
	{ "a long mean is shared", 2, 0, 0, "%0 = input f32[262149] slot=0\n%1 = mean f32[] %0 keepdim=0\n%2 = exp f32[] %1\nret %2\n" },
	{ "long rows, few of them, strided", 2, 0, 0,
	  "%0 = input f32[2,524291] slot=0\n%1 = slice f32[2,262146] %0 axis=1 start=0 stop=end step=2\n"
	  "%2 = sum f32[2,1] %1 keepdim=1 axes=1\nret %2\n" },
	{ "a long variance: two shared sums", 4, 0, 0,
	  "%0 = input f32[1,270000] slot=0\n%1 = const f32[] 1\n%2 = var f32[1] %0 %1 keepdim=0 axes=1\nret %2\n" },
	{ "extremes of a long row at once", 2, 0, 0,
	  "%0 = input f64[262145] slot=0\n%1 = amax f64[] %0 keepdim=0\n%2 = amin f64[] %0 keepdim=0\n%3 = prod f64[] %0 keepdim=0\n"
	  "ret %1 %2 %3\n" },
	{ "long sums of integers, and any", 2, 0, 0,
	  "%0 = input i32[262147] slot=0\n%1 = cast i64[262147] %0 dtype=i64\n%2 = sum i64[] %1 keepdim=0\n"
	  "%3 = cast bool[262147] %0 dtype=bool\n%4 = any bool[] %3 keepdim=0\n%5 = amin i32[] %0 keepdim=0\nret %2 %4 %5\n" },
	{ "a softmax of one long row", 5, 0, 0, "%0 = input f32[1,262145] slot=0\n%1 = softmax f32[1,262145] %0 axis=1\nret %1\n" },
	{ "extremes that ask for NaN", 1, 0, 0, /* the value that may be NaN is there before the other */
	  "%0 = input f32[3000] slot=0\n%1 = input f32[3000] slot=1\n%2 = isnan bool[3000] %0\n%3 = neg f32[3000] %1\n"
	  "%4 = maximum f32[3000] %3 %0\n%5 = where f32[3000] %2 %4 %1\nret %5\n" },
	{ "extremes that need not ask for NaN again", 1, 0, 0,
	  "%0 = input f32[3000] slot=0\n%1 = input f32[3000] slot=1\n%2 = maximum f32[3000] %0 %1\n%3 = mul f32[3000] %2 %0\n"
	  "%4 = minimum f32[3000] %3 %1\n%5 = sub f32[3000] %0 %4\n%6 = maximum f32[3000] %5 %1\nret %6\n" },
	{ "indices at another index of the sum that joins", 2, 0, 0,
	  "%0 = input f32[4,3] slot=0\n%1 = arange f32[12] dtype=f32 start=0 stop=12 step=1\n%2 = reshape f32[3,4] %1 shape=3,4\n"
	  "%3 = permute f32[4,3] %2 axes=1,0\n"
	  "%4 = neg f32[4,3] %3\n%5 = sum f32[] %0 keepdim=0\n%6 = mul f32[4,3] %0 %4\n%7 = add f32[4,3] %6 %5\nret %7\n" },
	{ "a 0-d value", 1, 0, 0, "%0 = input f32[] slot=0\n%1 = exp f32[] %0\nret %1\n" },
};

/* Small integers: products of f32 are exact in any order. kernels, calls: with the library. */
static const struct { plan_case own; int kernels, calls;
} products[] = {
	{ { "matrices", 1, 0, 0, "%0 = input f32[13,17] slot=0\n%1 = input f32[17,9] slot=1\n%2 = matmul f32[13,9] %0 %1\nret %2\n" },
	  0,
	  1 },
	{ { "vectors", 3, 0, 0,
	    "%0 = input f32[17] slot=0\n%1 = input f32[17,9] slot=1\n%2 = matmul f32[9] %0 %1\n%3 = transpose f32[9,17] %1 a=0 b=1\n"
	    "%4 = matmul f32[9] %3 %0\n%5 = matmul f32[] %0 %0\nret %2 %4 %5\n" },
	  0,
	  3 },
	{ { "batches that broadcast", 1, 0, 0,
	    "%0 = input f32[2,1,5,6] slot=0\n%1 = input f32[3,6,4] slot=1\n%2 = matmul f32[2,3,5,4] %0 %1\nret %2\n" },
	  0,
	  1 },
	{ { "heads cut out by strides", 1, 0, 0,
	    "%0 = input f32[2,7,12] slot=0\n%1 = reshape f32[2,7,3,4] %0 shape=2,7,3,4\n%2 = permute f32[2,3,7,4] %1 axes=0,2,1,3\n"
	    "%3 = permute f32[2,3,4,7] %1 axes=0,2,3,1\n%4 = matmul f32[2,3,7,7] %2 %3\nret %4\n" },
	  0,
	  1 },
	{ { "strides no library takes", 1, 0, 0,
	    "%0 = input f32[5,6] slot=0 strides=18,3\n%1 = input f32[6,4] slot=1 strides=4,0\n%2 = matmul f32[5,4] %0 %1\nret %2\n" },
	  2,
	  1 },
	{ { "negative strides", 1, 0, 0,
	    "%0 = input f32[5,6] slot=0\n%1 = flip f32[5,6] %0 axes=0,1\n%2 = input f32[6,4] slot=1\n%3 = matmul f32[5,4] %1 %2\nret %3\n" },
	  1,
	  1 },
	{ { "three chunks", 1, 0, 0, "%0 = input f32[7,600] slot=0\n%1 = input f32[600,40] slot=1\n%2 = matmul f32[7,40] %0 %1\nret %2\n" },
	  0,
	  1 },
	{ { "a row, three chunks", 1, 0, 0,
	    "%0 = input f32[600] slot=0\n%1 = input f32[600,70] slot=1\n%2 = matmul f32[70] %0 %1\nret %2\n" },
	  0,
	  1 },
	{ { "a panel of a vector and a column", 1, 0, 0,
	    "%0 = input f32[20,9] slot=0\n%1 = input f32[9,49] slot=1\n%2 = matmul f32[20,49] %0 %1\nret %2\n" },
	  0,
	  1 },
	{ { "K = 0", 1, 0, 0, "%0 = input f32[5,0] slot=0\n%1 = input f32[0,4] slot=1\n%2 = matmul f32[5,4] %0 %1\nret %2\n" }, 1, 0 },
	{ { "with bias and activation", 1, 0, 0,
	    "%0 = input f32[5,6] slot=0\n%1 = input f32[6,4] slot=1\n%2 = input f32[4] slot=2\n%3 = matmul f32[5,4] %0 %1\n"
	    "%4 = add f32[5,4] %3 %2\n%5 = relu f32[5,4] %4\nret %5\n" },
	  1,
	  1 },
	{ { "a view that gets a buffer for it after a sum has looked through the view", 2, 0, 0,
	    "%0 = input f32[2,3,4] slot=0\n%1 = permute f32[4,3,2] %0 axes=2,1,0\n%2 = input f32[4,2,5] slot=1\n%3 = matmul f32[4,3,5] %1 %2\n"
	    "%4 = flip f32[4,3,2] %1 axes=0,1,2\n%5 = permute f32[2,3,4] %4 axes=2,1,0\n%6 = sum f32[] %5 keepdim=0\nret %3 %6\n" },
	  2,
	  1 },
	{ { "a shared operand", 2, 0, 0, "%0 = input f32[4,4] slot=0\n%1 = matmul f32[4,4] %0 %0\n%2 = matmul f32[4,4] %1 %0\nret %2\n" },
	  0,
	  2 },
};

static void check_case(const plan_case *c, int kernels, int calls, bool whole)
{
	print_message("  %s%s\n", c->name, settings & RT_PRODUCTS_LIBRARY ? ", with the library" : "");
	check_all(c->text, whole);
	ir_graph g = parsed(c->text);
	rt_exec *x = built(&g, interp_target(), false);
	if ((int)x->kernels != kernels || (int)x->library_calls != calls || (int)x->eval_steps != c->copies)
		fail_msg("%s: %u kernels, %u library calls, %u evaluator steps", c->name, x->kernels, x->library_calls, x->eval_steps);
	rt_exec_unref(x);
	ir_graph_free(&g);
}

static void test_plans(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(cases); i++) check_case(&cases[i], cases[i].kernels, cases[i].calls, false);
}

/* On a machine without routines the evaluator computes their ops. A machine with a routine of its own runs it, for ops that it takes. */
static bool takes_none(const lo_low *L, ir_ref r, int k, const lo_access *a) { return (void)L, (void)r, (void)a, k > 0; }
static int own_runs;
static tj_status run_counted(const void *self, void *const *buf, rt_run *r) { return own_runs++, lo_scatter[0].code.run(self, buf, r); }

static void check_library(const lo_routine *const *library, uint32_t calls, uint32_t evals, uint32_t kernels)
{
	ir_graph g = parsed(
		"%0 = input f32[5,3] slot=0 strides=1,5\n%1 = input i64[4,3] slot=1\n%2 = input f32[4,3] slot=2\n"
		"%3 = scatter_add f32[5,3] %0 %1 %2 axis=0\nret %3\n");
	lo_target t = *interp_target();
	rt_err err = { 0 };
	env e;
	t.library = library;
	open_env(&e, &g, true);
	assert_int_equal(ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err), TJ_OK);
	check_one(&g, &e, &t, false, "a library");
	rt_exec *x = built(&g, &t, false);
	assert_true(x->library_calls == calls && x->eval_steps == evals && x->kernels == kernels);
	rt_exec_unref(x);
	close_env(&e);
	ir_graph_free(&g);
}

static void test_library(void **state)
{
	(void)state;
	lo_routine own = lo_scatter[0];
	own.code.run = run_counted;
	check_library(NULL, 0, 1, 0);
	check_library((const lo_routine *const[]){ &lo_matmul, NULL }, 0, 1, 0);
	check_library((const lo_routine *const[]){ &lo_matmul, &own, NULL }, 1, 0, 0);
	own.takes = takes_none;
	check_library((const lo_routine *const[]){ &own, NULL }, 1, 0, 1); /* a kernel makes the first operand row-major */
	assert_int_equal(own_runs, 2);
	for (tj_dtype d = 0; d < TJ_DTYPE_COUNT; d++) {
		assert_false(lo_bounded(IR_matmul, d, RT_CPU, 0) || lo_bounded(IR_matmul, d, RT_CPU, RT_PRODUCTS_OWN) ||
		             lo_bounded(IR_scatter_add, d, RT_CPU, RT_PRODUCTS_LIBRARY));
		assert_int_equal(lo_bounded(IR_matmul, d, RT_CPU, RT_PRODUCTS_LIBRARY), d == TJ_F32 && rt_onednn());
	}
}

static void test_products(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(products); i++) check_case(&products[i].own, products[i].own.kernels, products[i].own.calls, true);
}

/* The same, for a context that prefers the library. */
static void test_products_of_library(void **state)
{
	(void)state;
	if (!rt_onednn()) SKIP("oneDNN is missing");
	settings = RT_PRODUCTS_LIBRARY;
	for (size_t i = 0; i < RT_COUNT(products); i++) check_case(&products[i].own, products[i].kernels, products[i].calls, true);
	settings = 0;
}

/* ---- other machines: the same graphs, other schedules, the same bits ---- */
static lo_vec no_lanes(const lo_target *t, bool reduces, bool column)
{
	(void)t, (void)reduces, (void)column;
	return LO_VEC_NONE;
}

static lo_where keep_nothing(const lo_target *t, lo_vec vec, int64_t row, size_t *room)
{
	(void)t, (void)vec, (void)row;
	*room = 0;
	return LO_RECOMPUTED;
}

static lo_where keep_near(const lo_target *t, lo_vec vec, int64_t row, size_t *room)
{
	(void)vec;
	*room = (size_t)row;
	return row <= t->kept_bytes ? LO_REGISTERS : LO_SHARED;
}

static void few_to_a_unit(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	s->block = k->reduces ? 1 : t->lanes;
	s->unit_ns = t->op_ns * (double)k->ins.n;
}

static int64_t short_parts(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes)
{
	return column ? 2 * IR_TREE_COLUMN_ROWS : lo_enough_parts(t, k, column, lanes);
}

/* Small kernels without lanes, nothing kept, and threads share rows and columns that are not long. */
static const lo_target *small_target(void)
{
	static lo_target t;
	t = *interp_target();
	t.name = "small";
	t.weight = 12;
	t.members = 3;
	t.lanes = 7;
	t.few_rows = 64;
	t.split_row = 1 << 12;
	t.few_columns = 10;
	t.split_column = 500;
	t.splits_searches = true;
	t.part = short_parts;
	t.parts = 4;
	t.least_chunks = 1;
	t.most_chunks = 2;
	t.vec = no_lanes;
	t.keep = keep_nothing;
	t.units = few_to_a_unit;
	return &t;
}

/* A unit has registers for short rows, and memory of its own for longer ones; no reduction is in parts. */
static const lo_target *near_target(void)
{
	static lo_target t;
	t = *interp_target();
	t.name = "near";
	t.kept_bytes = 280;
	t.shared_bytes = INT64_MAX;
	t.split_row = INT64_MAX;
	t.vec = no_lanes;
	t.keep = keep_near;
	t.units = few_to_a_unit;
	return &t;
}

/* Kernels and schedules parse back to the same text. */
static void check_text(const ir_graph *g, const lo_target *t, rt_text *all)
{
	rt_err err = { 0 };
	rt_arena names = { 0 };
	if (lo_print_kernels(g, t, all, &err) != TJ_OK) fail_msg("%s: %s", t->name, err.message);
	char *copy = strdup(rt_str(all)), *next;
	for (char *at = strstr(copy, "kernel "); at; at = next) {
		lo_kernel k;
		lo_schedule s;
		rt_text again = { 0 };
		char *other = strstr(at, "\ncall "), *library = strstr(at, "\nlibrary ");
		if ((next = strstr(at, "\nkernel ")) != NULL) *next++ = 0;
		if (other) other[1] = 0;
		if (library) library[1] = 0;
		if (lo_parse(&k, &s, t, at, &names, &err) != TJ_OK || lo_verify(&k, &s, &err) != TJ_OK) fail_msg("%s\n%s", err.message, at);
		lo_print(&k, &s, &again);
		size_t n = strlen(at);
		assert_memory_equal(at, rt_str(&again), n);
		assert_string_equal(rt_str(&again) + n, next ? "\n" : "");
		rt_text_free(&again);
		lo_kernel_free(&k);
		lo_schedule_free(&s);
	}
	free(copy);
	rt_arena_free(&names);
}

static void check_target(const plan_case *c, const lo_target *t, rt_text *all)
{
	ir_graph g = parsed(c->text);
	env e;
	rt_err err = { 0 };
	open_env(&e, &g, false);
	if (ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err) != TJ_OK) fail_msg("eval: %s", err.message);
	check_one(&g, &e, t, false, t->name);
	check_one(&g, &e, t, true, t->name);
	check_text(&g, t, all);
	close_env(&e);
	ir_graph_free(&g);
}

static void test_targets(void **state)
{
	(void)state;
	const struct { const lo_target *t; const char *has[5], *never[5];
	} all[] = {
		{ interp_target(),
		  { "schedule cpu vec=r", "vec=d block=", " scratch at=0", "part=", "vec=tile block=" },
		  { "vec=none", "registers", "shared" } },
		{ small_target(),
		  { "schedule small vec=none", "block=7", "part=64", "part=2048", "f32 add pairs" },
		  { "vec=r", "vec=d", "keep b" } },
		{ near_target(),
		  { "schedule near vec=none", " registers\n", " shared at=0", "shared=", "schedule near vec=tile" },
		  { "part=", "scratch at=", "schedule cpu" } },
	};
	for (size_t i = 0; i < RT_COUNT(all); i++) {
		rt_text text = { 0 };
		for (size_t k = 0; k < RT_COUNT(cases); k++) {
			rt_text one = { 0 };
			check_target(&cases[k], all[i].t, &one);
			rt_puts(&text, rt_str(&one));
			rt_text_free(&one);
		}
		for (int k = 0; k < 5; k++) {
			if (all[i].has[k] && !strstr(rt_str(&text), all[i].has[k])) fail_msg("%s: no `%s`", all[i].t->name, all[i].has[k]);
			if (all[i].never[k] && strstr(rt_str(&text), all[i].never[k])) fail_msg("%s: `%s`", all[i].t->name, all[i].never[k]);
		}
		rt_text_free(&text);
	}
}

/* ---- values that are stored again for late products ---- */
/* x is computed from the product, and read by the product after it and by one far behind. In between are three products, and the gradient
 * `late`. */
#define STORED(x, late) \
	"%0 = input f32[24,40] slot=0\n%1 = input f32[40,40] slot=1\n%2 = input f32[40] slot=2\n%3 = matmul f32[24,40] %0 %1\n" x \
	"%10 = matmul f32[24,40] %9 %1\n%11 = matmul f32[24,40] %10 %1\n%12 = transpose f32[40,40] %1 a=0 b=1\n" \
	"%13 = matmul f32[24,40] %11 %12\n%14 = matmul f32[24,40] %13 %12\n" late

#define GELU \
	"%4 = mul f32[24,40] %3 %2\n%5 = tanh f32[24,40] %4\n%6 = const f32[] 0x1p+0\n%7 = add f32[24,40] %5 %6\n%8 = add f32[24,40] %3 %2\n" \
	"%9 = mul f32[24,40] %8 %7\n"
#define NORM \
	"%4 = sum f32[24,1] %3 keepdim=1 axes=1\n%5 = sub f32[24,40] %3 %4\n%6 = const f32[] 0x1p-1\n%7 = mul f32[24,40] %5 %6\n" \
	"%8 = mul f32[24,40] %7 %2\n%9 = add f32[24,40] %8 %2\n"
#define LATE "%18 = transpose f32[40,24] %9 a=0 b=1\n%19 = matmul f32[40,40] %18 %13\n"

static void test_stored_again(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		STORED(GELU, "%15 = mul f32[24,40] %14 %7\n%16 = mul f32[24,40] %15 %3\n" LATE "ret %16 %19\n"), /* by a product */
		STORED(GELU, "%15 = mul f32[24,40] %14 %7\n%16 = mul f32[24,40] %15 %3\n%17 = sum f32[40] %16 keepdim=0 axes=0\n" LATE
		             "ret %16 %17 %19\n"), /* by columns */
		STORED(NORM, "%15 = mul f32[24,40] %14 %7\n%16 = sum f32[24,1] %15 keepdim=1 axes=1\n%17 = sub f32[24,40] %14 %16\n" LATE
		             "ret %17 %19\n"), /* by rows */
	};
	static lo_target of[2];
	of[0] = *interp_target(), of[1] = lo_cpu;
	for (int k = 0; k < (lo_backend_find("llvm", NULL) ? 2 : 1); k++)
		for (size_t i = 0; i < RT_COUNT(graphs); i++) {
			env e;
			rt_err err = { 0 };
			ir_graph g = parsed(graphs[i]);
			of[k].again_bytes = 1 << 20;
			rt_exec *x = built(&g, &of[k], false);
			of[k].again_bytes = 0;
			rt_exec *y = built(&g, &of[k], false);
			assert_true(y->recomputed > x->recomputed && y->full.bytes <= x->full.bytes);
			rt_exec_unref(x);
			rt_exec_unref(y);
			open_env(&e, &g, false);
			assert_int_equal(ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err), TJ_OK);
			check_one(&g, &e, &of[k], false, "stored again");
			close_env(&e);
			ir_graph_free(&g);
		}
}

/* The kernel that computes a value first depends on the one that could store it again, as random graphs with other figures found: both need
 * an operand that the first one computes. */
static const char in_a_circle[] =
	"%0 = input f64[9,9] slot=0\n"
	"%1 = input f64[29,9] slot=1\n"
	"%2 = input f64[29,9] slot=2\n"
	"%3 = gelu f64[29,9] %2\n"
	"%4 = gelu f64[29,9] %3\n"
	"%5 = add f64[29,9] %4 %1\n"
	"%6 = input f64[9,9] slot=3\n"
	"%7 = input f64[9,9] slot=4\n"
	"%8 = matmul f64[9,9] %7 %0\n"
	"%9 = matmul f64[9,9] %8 %0\n"
	"%10 = const f64[] 0x1p+1\n"
	"%11 = matmul f64[9,9] %9 %0\n"
	"%12 = const f64[] 0x1p+0\n"
	"%13 = const f64[29,9] 0x1p+0\n"
	"%14 = const f64[] 0x1.6a09e667f3bcdp-1\n"
	"%15 = const f64[] -0x1p-1\n"
	"%16 = input f64[29,9] slot=5\n"
	"%17 = const f64[] 0x1.9884533d43651p-2\n"
	"%18 = mul f64[29,9] %16 %17\n"
	"%19 = const f64[] 0x1p-1\n"
	"%20 = input f64[29,9] slot=6\n"
	"%21 = mul f64[29,9] %3 %18\n"
	"%22 = add f64[29,9] %20 %21\n"
	"%23 = mul f64[29,9] %2 %14\n"
	"%24 = erf f64[29,9] %23\n"
	"%25 = mul f64[29,9] %2 %2\n"
	"%26 = mul f64[29,9] %25 %15\n"
	"%27 = exp f64[29,9] %26\n"
	"%28 = mul f64[29,9] %27 %17\n"
	"%29 = add f64[29,9] %24 %12\n"
	"%30 = mul f64[29,9] %29 %19\n"
	"%31 = mul f64[29,9] %2 %28\n"
	"%32 = add f64[29,9] %30 %31\n"
	"%33 = mul f64[29,9] %22 %32\n"
	"%34 = input f64[9,9] slot=7\n"
	"%35 = matmul f64[29,9] %33 %34\n"
	"%36 = input f64[29,9] slot=8\n"
	"%37 = mul f64[29,9] %35 %36\n"
	"%38 = matmul f64[29,9] %37 %34\n"
	"%39 = add f64[29,9] %13 %38\n"
	"ret %39 %11 %5\n";

static void test_stored_in_a_circle(void **state)
{
	(void)state;
	lo_target of[2] = { *interp_target(), lo_cpu };
	for (int k = 0; k < (lo_backend_find("llvm", NULL) ? 2 : 1); k++) {
		env e;
		rt_err err = { 0 };
		ir_graph g = parsed(in_a_circle);
		of[k].weight = 8, of[k].members = 16, of[k].redundant = 1, of[k].transposed = 16, of[k].far_step = 2;
		of[k].again_after = 3, of[k].stored_after = 1, of[k].again_bytes = 512, of[k].again_work = 3;
		rt_exec_unref(built(&g, &of[k], false));
		open_env(&e, &g, false);
		assert_int_equal(ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err), TJ_OK);
		check_one(&g, &e, &of[k], false, "in a circle");
		close_env(&e);
		ir_graph_free(&g);
	}
}

/* ---- outputs ---- */
static void test_same_ext(void **state)
{
	(void)state;
	ir_graph g = parsed(
		"%0 = input f32[4,6] slot=3\n%1 = transpose f32[6,4] %0 a=0 b=1\n%2 = slice f32[3,4] %1 axis=0 start=5 stop=end step=-2\n"
		"%3 = reshape f32[12] %2 shape=12\nret %2 %0 %3\n");
	rt_exec *x = built(&g, interp_target(), false);
	assert_int_equal(x->out[0].same_ext, 3);
	assert_int_equal(x->out[0].offset, 5);
	assert_int_equal(x->out[0].rank, 2);
	assert_int_equal(x->out[0].stride[0], -2);
	assert_int_equal(x->out[0].stride[1], 6);
	assert_int_equal(x->out[1].same_ext, 3);
	assert_int_equal(x->out[2].same_ext, -1); /* no strides show it */
	assert_int_equal(x->kernels, 1);
	rt_exec_unref(x);
	ir_graph_free(&g);
}

static int alias_of(const char *text)
{
	ir_graph g = parsed(text);
	rt_exec *x = built(&g, interp_target(), false);
	int slot = x->out[0].alias_ext;
	rt_exec_unref(x);
	ir_graph_free(&g);
	return slot;
}

/* The sums of a product are added to an external, in place: each of its elements is read and written once. */
#define ADDED \
	"%0 = input f32[27,30] slot=0\n%1 = input f32[30,40] slot=1\n%2 = matmul f32[27,40] %0 %1\n%3 = input f32[27,40] slot=2\n" \
	"%4 = add f32[27,40] %2 %3\nret %4\n"

static void test_in_place(void **state)
{
	(void)state;
	ir_graph g = parsed(ADDED);
	const lo_target *all[] = { interp_target(), lo_backend_find("llvm", NULL) ? &lo_cpu : NULL };
	for (int i = 0; i < 2 && all[i]; i++) {
		env e;
		rt_err err = { 0 };
		open_env(&e, &g, true);
		assert_int_equal(ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err), TJ_OK);
		rt_exec *x = built(&g, all[i], false);
		void *own = e.out[0];
		e.out[0] = e.mem[x->out[0].alias_ext];
		assert_int_equal(run(x, &e, &err), TJ_OK);
		compare(&g, &e, 0, "in place");
		e.out[0] = own;
		close_env(&e);
		rt_exec_unref(x);
	}
	ir_graph_free(&g);
}

static void test_alias(void **state)
{
	(void)state;
	assert_int_equal(alias_of("%0 = input f32[8] slot=0\n%1 = exp f32[8] %0\nret %1\n"), 0);
	assert_int_equal(alias_of("%0 = input f32[8,40] slot=0\n%1 = softmax f32[8,40] %0 axis=1\nret %1\n"), 0);
	/* read elsewhere than it is written */
	assert_int_equal(alias_of("%0 = input f32[8] slot=0\n%1 = flip f32[8] %0 axes=0\n%2 = add f32[8] %0 %1\nret %2\n"), -1);
	assert_int_equal(alias_of("%0 = input f32[8,8] slot=0\n%1 = transpose f32[8,8] %0 a=0 b=1\n%2 = neg f32[8,8] %1\nret %2\n"), -1);
	/* another dtype, shape, layout */
	assert_int_equal(alias_of("%0 = input f32[8] slot=0\n%1 = cast i32[8] %0 dtype=i32\nret %1\n"), -1);
	assert_int_equal(
		alias_of(
			"%0 = input f32[1,8] slot=0\n%1 = input f32[8] slot=1\n%2 = reshape f32[8] %0 shape=8\n%3 = neg f32[8] %2\nret %3\n"),
		-1);
	assert_int_equal(alias_of("%0 = input f32[8] slot=0 strides=2\n%1 = exp f32[8] %0\nret %1\n"), -1);
	/* returned as it is, too */
	assert_int_equal(alias_of("%0 = input f32[8] slot=0\n%1 = exp f32[8] %0\nret %1 %0\n"), -1);
	/* read by a later step */
	assert_int_equal(alias_of("%0 = input f32[4,4] slot=0\n%1 = exp f32[4,4] %0\n%2 = matmul f32[4,4] %1 %0\nret %1 %2\n"), -1);
	/* a product reads its operands again and again, what is added to it once */
	assert_int_equal(alias_of("%0 = input f32[4,4] slot=0\n%1 = input f32[4,4] slot=1\n%2 = matmul f32[4,4] %0 %1\nret %2\n"), -1);
	assert_int_equal(
		alias_of(
			"%0 = input f32[4,4] slot=0\n%1 = input f32[4,4] slot=1\n%2 = matmul f32[4,4] %0 %1\n%3 = add f32[4,4] %2 %0\nret %3\n"),
		-1);
	/* nor one that the columns of one row are computed from: its second chunk of 504 is read after sums of the first one are in the result */
	assert_int_equal(
		alias_of(
			"%0 = input f32[1,504] slot=0\n%1 = input f32[504,16] slot=1\n%2 = input f32[1,16] slot=2\n%3 = add f32[504,16] %1 %2\n"
			"%4 = matmul f32[1,16] %0 %3\nret %4\n"),
		-1);
	assert_int_equal(alias_of(ADDED), 2);
	/* something may still fail */
	assert_int_equal(alias_of("%0 = input i32[8] slot=0\n%1 = input i32[8] slot=1\n%2 = remainder i32[8] %0 %1\nret %2\n"), -1);
}

static void test_into(void **state)
{
	(void)state;
	ir_graph g = parsed("%0 = input f32[8] slot=0\n%1 = input f32[8] slot=1\n%2 = sub f32[8] %0 %1\nret %2\n");
	for (int want = -1; want < 2; want++) {
		lo_opts o = { .name = "t", .target = interp_target(), .into = &want };
		rt_exec *x;
		assert_int_equal(lo_build(&g, &o, &x, NULL), TJ_OK);
		assert_int_equal(x->out[0].alias_ext, want);
		rt_exec_unref(x);
	}
	ir_graph_free(&g);
}

/* ---- faults ---- */
static void check_fault(const char *text, tj_status code, const char *op)
{
	ir_graph g = parsed(text);
	env e;
	const lo_target *llvm = lo_backend_find("llvm", NULL) ? &lo_cpu : NULL, *const targets[] = { NULL, interp_target(), llvm };
	open_env(&e, &g, false);
	memset(e.mem[1], 0x7f, 8); /* an index out of range, in the first element */
	if (code == TJ_ERR_DIV) memset(e.mem[1], 0, 8);
	for (int k = 0; k < (llvm ? 3 : 2); k++) {
		rt_err err = { 0 };
		rt_exec *x = built(&g, targets[k], false);
		assert_int_equal(run(x, &e, &err), code);
		assert_int_equal(err.code, code);
		assert_string_equal(err.op, op);
		assert_string_equal(err.site, "user.c:5");
		rt_exec_unref(x);
	}
	close_env(&e);
	ir_graph_free(&g);
}

static void test_faults(void **state)
{
	(void)state;
	check_fault("%0 = input f32[4,6] slot=0\n%1 = input i64[3] slot=1\n%2 = embedding f32[3,6] %0 %1  # user.c:5\nret %2\n",
	            TJ_ERR_INDEX, "embedding");
	check_fault("%0 = input i64[3] slot=1\n%1 = one_hot i64[3,4] %0 n=4  # user.c:5\nret %1\n", TJ_ERR_INDEX, "one_hot");
	check_fault("%0 = input i64[3] slot=0\n%1 = input i64[3] slot=1\n%2 = floor_divide i64[3] %0 %1  # user.c:5\nret %2\n", TJ_ERR_DIV,
	            "floor_divide");
}

/* ---- memory ---- */
/* Two temporaries that are alive in one step must not share bytes, unless the step is the last to use one of them, the first to use
 * the other one, and these are all its bytes: then it writes over the first. Steps of a bundle run at the same time. */
static void check_layout(const rt_plan *p)
{
	uint32_t n = p->nbuf, left = 0;
	int *first = calloc(n, sizeof *first), *last = calloc(n, sizeof *last), *start = calloc(p->nstep + 1, sizeof *start);
	for (uint32_t i = 0; i < n; i++) first[i] = -1;
	for (uint32_t s = 0; s < p->nstep; s++) {
		start[s] = left ? start[s - 1] : (int)s;
		left = p->step[s].bundle ? p->step[s].bundle - 1 : left ? left - 1 : 0;
		for (uint32_t k = 0; k < p->step[s].nbuf; k++) {
			uint32_t b = p->step[s].at[k].buf;
			if (first[b] < 0) first[b] = (int)s;
			last[b] = (int)s;
		}
	}
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = a + 1; b < n; b++) {
			const rt_pbuf *x = &p->buf[a], *y = &p->buf[b];
			if (x->place != RT_AT_ARENA || y->place != RT_AT_ARENA || first[a] < 0 || first[b] < 0) continue;
			assert_int_equal(x->offset % 64, 0);
			assert_true((size_t)(x->offset + x->bytes) <= p->exec.arena_bytes[RT_CPU]);
			const bool over = (last[a] == first[b] || last[b] == first[a]) && x->offset == y->offset && x->bytes == y->bytes;
			const bool together = !over && start[first[a]] <= start[last[b]] && start[first[b]] <= start[last[a]];
			assert_false(together && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes);
		}
	free(first);
	free(last);
	free(start);
}

static void test_memory(void **state)
{
	(void)state;
	rt_text t = { 0 };
	rt_puts(&t, "%0 = input f32[40,40] slot=0\n"); /* a chain of products, and one value that lives through all */
	for (int i = 1; i <= 12; i++) rt_putf(&t, "%%%d = matmul f32[40,40] %%%d %%%d\n", i, i - 1, i > 1 ? 1 : 0);
	rt_puts(&t, "ret %12\n");
	ir_graph g = parsed(rt_str(&t));
	rt_exec *x = built(&g, interp_target(), true);
	check_layout((const rt_plan *)x);
	assert_int_equal(x->arena_bytes[RT_CPU], 3 * 6400);
	rt_exec_unref(x);
	ir_graph_free(&g);
	rt_text_free(&t);
	for (size_t i = 0; i < RT_COUNT(cases); i++)
		for (int k = 0; k < 3; k++) {
			g = parsed(cases[i].text);
			x = built(&g, k ? interp_target() : NULL, k == 2);
			check_layout((const rt_plan *)x);
			rt_exec_unref(x);
			ir_graph_free(&g);
		}
}

/* The k-th allocation fails, for each k: an error each time, nothing leaks, and at last a plan. */
static void test_want_of_memory(void **state)
{
	(void)state;
	ir_graph g = parsed("%0 = input f32[6,8] slot=0\n%1 = input f32[8,8] slot=1\n%2 = matmul f32[6,8] %0 %1\n%3 = softmax f32[6,8] %2 axis=1\n"
	                    "%4 = cat f32[12,8] %3 %0 axis=0\n%5 = input i64[12,3] slot=2\n%6 = gather f32[12,3] %4 %5 axis=1\nret %6 %3\n");
	for (int kernels = 0; kernels < 2; kernels++)
		for (long long k = 0;; k++) {
			lo_opts o = { .name = "t", .target = kernels ? interp_target() : NULL };
			rt_exec *x = NULL;
			rt_err err = { 0 };
			rt_alloc_fail_at(k);
			tj_status st = lo_build(&g, &o, &x, &err);
			rt_alloc_fail_at(-1);
			if (st == TJ_OK) {
				rt_exec_unref(x);
				assert_true(k > 10);
				break;
			}
			assert_int_equal(st, TJ_ERR_NOMEM);
			assert_null(x);
		}
	ir_graph_free(&g);
}

/* ---- text ---- */
static void test_text(void **state)
{
	(void)state;
	static const char product[] =
		"%0 = input i8[2,5,6] slot=0\n%1 = cast i32[2,5,6] %0 dtype=i32\n%2 = input i32[4,6] slot=1\n%3 = transpose i32[6,4] %2 a=0 b=1\n"
		"%4 = matmul i32[2,5,4] %1 %3\n%5 = neg i32[2,5,4] %4\nret %5\n";
	const struct { const char *graph; tj_dump_what what; const char *part; } all[] = {
		{ cases[0].text, TJ_DUMP_KERNELS, "reduce f32 max row" },
		{ cases[0].text, TJ_DUMP_PLAN, "1 kernels" },
		{ product, TJ_DUMP_KERNELS, "reduce i32 dot chain %1 %2\n" },
		{ product, TJ_DUMP_KERNELS, "vec=tile block=4 rows=10 " },
	};
	for (size_t i = 0; i < RT_COUNT(all); i++) {
		rt_text t = { 0 }, back = { 0 };
		ir_graph g = parsed(all[i].graph);
		rt_exec *x = built(&g, interp_target(), false);
		x->print(x, &t, all[i].what);
		if (!strstr(rt_str(&t), all[i].part)) fail_msg("\"%s\" is not in:\n%s", all[i].part, rt_str(&t));
		assert_true(t.n > 0);
		check_text(&g, interp_target(), &back);
		rt_text_free(&t);
		rt_text_free(&back);
		rt_exec_unref(x);
		ir_graph_free(&g);
	}
}

/* ---- code that kernels share ---- */
static int codes; /* that there are */
static void drop_code(rt_shared *c)
{
	codes--;
	free(c);
}

static void no_kernel(const rt_kargs *a, int64_t begin, int64_t end) { (void)a, (void)begin, (void)end; }

static tj_status counting_compile(lo_compile *job, rt_err *err)
{
	(void)err;
	rt_shared *c = malloc(sizeof *c);
	*c = (rt_shared){ .refs = 1, .destroy = drop_code };
	codes++;
	for (int i = 0; i < job->nkernel; i++) job->fn[i] = (rt_entry)no_kernel;
	job->code = c;
	return TJ_OK;
}

static const lo_backend *counting_find(const char *name, const char **why)
{
	static const lo_backend counting = { .name = "counting", .compile = counting_compile, .width = interp_width };
	(void)name, (void)why;
	return &counting;
}

static rt_exec *kernel_of_form(lo_family *f, unsigned form, int64_t size)
{
	rt_text t = { 0 };
	rt_exec *x = NULL;
	rt_err err = { 0 };
	rt_putf(&t, "%%0 = input f32[%lld] slot=0\n", (long long)size);
	for (int i = 0; i < 12; i++) rt_putf(&t, "%%%d = %s f32[%lld] %%%d\n", i + 1, form >> i & 1 ? "sin" : "exp", (long long)size, i);
	rt_puts(&t, "ret %12\n");
	ir_graph g = parsed(rt_str(&t));
	static lo_target counting;
	counting = lo_cpu;
	counting.find = counting_find;
	lo_opts o = { .name = "t", .target = &counting, .family = f };
	assert_int_equal(lo_build(&g, &o, &x, &err), TJ_OK);
	ir_graph_free(&g);
	rt_text_free(&t);
	return x;
}

static int looked; /* for a back end */
static const lo_backend *no_backend(const char *name, const char **why)
{
	looked += !strcmp(name, "none");
	*why = "nowhere";
	return NULL;
}

/* The back end is looked up when a kernel must be compiled; if there is none, the evaluator runs the plan. */
static void check_back_end(const char *text, uint32_t prefers, bool needed)
{
	lo_target t = lo_cpu;
	t.backend = "none";
	t.find = no_backend;
	ir_graph g = parsed(text);
	const char *missing = NULL;
	rt_exec *x = NULL;
	rt_err err = { 0 };
	env e;
	lo_opts o = { .name = "t", .target = &t, .settings = prefers, .missing = &missing };
	looked = 0;
	assert_int_equal(lo_build(&g, &o, &x, &err), TJ_OK);
	assert_int_equal(looked, needed);
	assert_true(needed ? missing && !strcmp(missing, "nowhere") : !missing);
	assert_int_equal(x->kernels, 0);
	assert_int_equal(x->library_calls, !needed);
	open_env(&e, &g, true);
	assert_int_equal(ir_eval(&g, e.ext, e.num, NULL, e.want, NULL, &err), TJ_OK);
	assert_int_equal(run(x, &e, &err), TJ_OK);
	compare(&g, &e, 0, "no back end");
	close_env(&e);
	rt_exec_unref(x);
	ir_graph_free(&g);
}

static void test_back_end_when_needed(void **state)
{
	(void)state;
	static const char product[] = "%0 = input f32[4,4] slot=0\n%1 = matmul f32[4,4] %0 %0\nret %1\n";
	check_back_end("%0 = input f32[4,4] slot=0\n%1 = exp f32[4,4] %0\n%2 = matmul f32[4,4] %1 %0\nret %2\n", RT_PRODUCTS_LIBRARY, true);
	check_back_end(product, 0, true);
	if (!rt_onednn()) SKIP("oneDNN is missing");
	check_back_end(product, RT_PRODUCTS_LIBRARY, false);
}

/* ---- what tells codes apart ---- */
#define ROWS(schedule, keep) \
	"kernel k\n  schedule " schedule "\n" keep "  buf b0 f32 in\n  buf b1 f32 out\n  buf b2 f32 kept elems=100\n  dim 3\n  red 100\n" \
	"  loop\n    %0 = load f32 b0 [0 + 100*d0 + 1*r]\n    %1 = reduce f32 max row %0\n" \
	"  loop\n    %2 = load f32 b0 [0 + 100*d0 + 1*r]\n    %3 = sub f32 %2 %1\n    store b2 [0 + 1*r] %3\n    %5 = reduce f32 add row %3\n" \
	"  loop\n    %6 = load f32 b2 [0 + 1*r]\n    %7 = div f32 %6 %5\n    store b1 [0 + 100*d0 + 1*r] %7\n"

static lo_kin *kin_of(const char *text, const lo_target *t)
{
	lo_kernel k;
	lo_schedule s;
	rt_arena names = { 0 };
	rt_err err = { 0 };
	if (lo_parse(&k, &s, t, text, &names, &err) != TJ_OK || lo_verify(&k, &s, &err) != TJ_OK) fail_msg("%s", err.message);
	lo_kin *kin = lo_kin_new(&k, &s);
	assert_non_null(kin);
	lo_kernel_free(&k);
	lo_schedule_free(&s);
	rt_arena_free(&names);
	return kin;
}

/* Code for one target or schedule is not used for another. The time of a unit is not part of the code. */
static void test_code_of_schedules(void **state)
{
	(void)state;
	lo_target twin = lo_cpu;
	static const char plain[] = ROWS("cpu vec=r ns=0x1p+5 scratch=464", "  keep b2 scratch at=0\n");
	const struct { const char *text; const lo_target *target; bool same; } others[] = {
		{ plain, &lo_cpu, true },
		{ ROWS("cpu vec=r grain=3 ns=0x1p+6 scratch=464", "  keep b2 scratch at=0\n"), &lo_cpu, true },
		{ plain, &twin, false },
		{ ROWS("cpu vec=none ns=0x1p+5 scratch=464", "  keep b2 scratch at=0\n"), &lo_cpu, false },
		{ ROWS("cpu vec=r ns=0x1p+5", "  keep b2 registers\n"), &lo_cpu, false },
		{ ROWS("cpu vec=r ns=0x1p+5 shared=464", "  keep b2 shared at=0\n"), &lo_cpu, false },
	};
	lo_kin *a = kin_of(plain, &lo_cpu);
	for (size_t i = 0; i < RT_COUNT(others); i++) {
		lo_kin *b = kin_of(others[i].text, others[i].target);
		if ((lo_same_form(a, b) && lo_code_fits(a, b)) != others[i].same) fail_msg("%s", others[i].text);
		lo_kin_free(b);
	}
	lo_kin_free(a);
}

/* Two targets in one family: each compiles its own kernel, and finds it again. */
static void test_code_of_targets(void **state)
{
	(void)state;
	lo_family *f = lo_family_new();
	lo_target one = lo_cpu, two = lo_cpu;
	one.find = two.find = counting_find;
	ir_graph g = parsed("%0 = input f32[40] slot=0\n%1 = exp f32[40] %0\nret %1\n");
	for (int i = 0; i < 4; i++) {
		lo_opts o = { .name = "t", .target = i % 2 ? &two : &one, .family = f };
		rt_exec *x = NULL;
		assert_int_equal(lo_build(&g, &o, &x, NULL), TJ_OK);
		assert_int_equal(x->compiled, i < 2);
		rt_exec_unref(x);
	}
	assert_int_equal(lo_family_counts(f).widened, 0);
	ir_graph_free(&g);
	lo_family_free(f);
	assert_int_equal(codes, 0);
}

/* A product whose loop and operands are those of a test. */
#define DOT(schedule, before, loop) \
	"kernel k\n  schedule " schedule \
	"\n  buf b0 f32 in\n  buf b1 f32 in\n  buf b2 f32 out\n  buf b3 f64 in\n  buf b4 i64 in\n  buf b5 bool in\n" \
	"  buf b6 f32 panels elems=16\n" \
	"  dim 3\n  dim 7\n  red 5\n" before "  loop\n    " loop "\n"
#define TILE "cpu vec=tile block=7 rows=3"
#define ROWS_OF_A "%0 = load f32 b0 [0 + 5*d0 + 1*r]\n    "
#define COLUMNS_OF_B "%1 = load f32 b1 [0 + 1*d1 + 7*r]\n    "

/* Kernels that the verifier must refuse. */
static void test_bad_schedules(void **state)
{
	(void)state;
	static const struct { const char *text, *why;
	} bad[] = {
		{ ROWS("cpu vec=r scratch=464", ""), "kept" },
		{ ROWS("cpu vec=r scratch=464", "  keep b1 scratch at=0\n"), "a kept buffer has no place" },
		{ ROWS("cpu vec=r scratch=464", "  keep b2 scratch at=0\n  keep b2 scratch at=0\n"), "kept" },
		{ ROWS("cpu vec=r block=2 scratch=464", "  keep b2 scratch at=0\n"), "a unit has several rows" },
		{ ROWS("cpu vec=r block=0 scratch=464", "  keep b2 scratch at=0\n"), "a unit has no elements" },
		{ ROWS("cpu vec=r grain=0 scratch=464", "  keep b2 scratch at=0\n"), "no grain" },
		{ ROWS("cpu vec=d block=3 scratch=464", "  keep b2 scratch at=0\n"), "a row tree has its lanes along r" },
		{ ROWS("cpu vec=r part=2049 scratch=464", "  keep b2 scratch at=0\n"), "not a part of r" },
		{ ROWS("cpu vec=r part=2048 scratch=464", "  keep b2 scratch at=0\n"), "in a kernel with parts" },
		{ ROWS("gpu vec=r scratch=464", "  keep b2 scratch at=0\n"), "a schedule of another target" },
		{ ROWS("cpu vec=x scratch=464", "  keep b2 scratch at=0\n"), "unknown word" },
		{ ROWS("cpu vec=r scratch=464", "  keep b2 recomputed\n"), "unknown word" },
		{ ROWS("cpu vec=r scratch=-1", "  keep b2 scratch at=0\n"), "a number of bytes is negative" },
		{ "kernel k\n  schedule cpu vec=r part=1024\n  buf b0 f32 in\n  buf b1 f32 out\n  dim 2\n  red 9000\n  loop\n"
		  "    %0 = load f32 b0 [0 + 9000*d0 + 1*r]\n    part add row b1 [0 + 1152*d0 + 1*r] %0\n",
		  "less than a chunk of the tree" },
		{ DOT("cpu vec=d block=7", "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1"), "a schedule without tiles" },
		{ DOT("cpu vec=tile block=7", "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1"),
		  "tiles, and they alone, have rows" },
		{ DOT("cpu vec=d block=7 rows=3", "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1"),
		  "tiles, and they alone, have rows" },
		{ DOT(TILE, "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot row %0 %1"),
		  "a product of matrices, and nothing else, is a chain" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = reduce f32 add chain %0"), "a product of matrices, and nothing else, is a chain" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f64 b3 [0 + 1*d1 + 7*r]\n    %2 = reduce f32 dot chain %0 %1"),
		  "its operands have no common dtype of numbers" },
		{ DOT(TILE, "",
		      "%0 = load bool b5 [0 + 5*d0 + 1*r]\n    %1 = load bool b5 [0 + 1*d1 + 7*r]\n    %2 = reduce bool dot chain %0 %1"),
		  "its operands have no common dtype of numbers" },
		{ DOT(TILE, "", ROWS_OF_A COLUMNS_OF_B "%2 = index i64 d0\n    %3 = reduce f32 dot chain %0 %1"),
		  "its loop has more than loads and plain primitives" },
		{ DOT(TILE, "",
		      ROWS_OF_A COLUMNS_OF_B "%2 = load i64 b4 [0 + 1*r]\n    %3 = div i64 %2 %2\n    %4 = reduce f32 dot chain %0 %1"),
		  "its loop has more than loads and plain primitives" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = const f32 0x1p+0\n    %2 = reduce f32 dot chain %0 %1"), "an operand is not in memory" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f32 b1 [0 + 1*d1 + 7*r/1]\n    %2 = reduce f32 dot chain %0 %1"),
		  "only products read groups of r" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f32 b1 [0 + 1*d1 + 7*r + 2*(r/1)]\n    %2 = reduce f32 dot chain %0 %1"),
		  "only loads of products jump" },
		{ DOT("cpu vec=d block=7", "", "%0 = load f32 b1 [0 + 1*d1 + 7*r/2]\n    %1 = reduce f32 max none %0"),
		  "only products read groups of r" },
		{ DOT(TILE, "",
		      ROWS_OF_A COLUMNS_OF_B
		      "%2 = load f32 b0 [1]\n    %3 = load f32 b0 [2]\n    %4 = load f32 b0 [3]\n    %5 = load f32 b0 [4]\n    %6 = load f32 b0 [5]\n    "
		      "%7 = load f32 b0 [6]\n    %8 = load f32 b0 [7]\n    %9 = reduce f32 dot chain %0 %1"),
		  "its loop has too many loads" },
		{ DOT(TILE, "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1\n    %3 = load f32 b0 [0 + 1*r]"),
		  "its loop has more than loads and plain primitives" },
		{ DOT(TILE, "  point\n    %0 = const f32 0x1p+0\n", COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1"),
		  "its loop reads a value from outside" },
		{ DOT(TILE, "",
		      "%0 = load i64 b4 [0 + 1*r]\n    " COLUMNS_OF_B
		      "%2 = load f32 b0 [0 + 5*d0] + %0*1\n    %3 = reduce f32 dot chain %2 %1"),
		  "its loop has more than loads and plain primitives" },
		{ DOT(TILE, "", "%0 = load f32 b0 [0 + 1*d1 + 7*r]\n    " COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1"),
		  "both operands depend on the last dimension" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f32 b6 [7 + 1*d1 + 7*r]\n    %2 = reduce f32 dot chain %0 %1"),
		  "panels hold a matrix" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f32 b6 [0 + 1*d1 + 8*r]\n    %2 = reduce f32 dot chain %0 %1"),
		  "panels hold a matrix" },
		{ DOT(TILE, "", ROWS_OF_A "%1 = load f32 b6 [0 + 1*d0 + 1*d1 + 7*r]\n    %2 = reduce f32 dot chain %0 %1"),
		  "panels hold a matrix" },
		{ DOT("cpu vec=d block=7", "", "%0 = load f32 b6 [0 + 1*d1 + 7*r]\n    %1 = reduce f32 max none %0"),
		  "panels hold a matrix" },
		{ DOT(TILE, "", ROWS_OF_A COLUMNS_OF_B "%2 = reduce f32 dot chain %0 %1\n  point\n    store b6 [0 + 1*d1 + 7*d0] %2"),
		  "stores to an input" },
	};
	for (size_t i = 0; i < RT_COUNT(bad); i++) {
		lo_kernel k;
		lo_schedule s;
		rt_arena names = { 0 };
		rt_err err = { 0 };
		if (lo_parse(&k, &s, &lo_cpu, bad[i].text, &names, &err) == TJ_OK) {
			assert_int_equal(lo_verify(&k, &s, &err), TJ_ERR_COMPILE);
			lo_kernel_free(&k);
			lo_schedule_free(&s);
		}
		if (!strstr(err.message, bad[i].why)) fail_msg("%s\nsays: %s", bad[i].text, err.message);
		rt_arena_free(&names);
	}
}

/* A function whose kernels never come again keeps some of their code, and the code that plans run. */
static void test_code_goes(void **state)
{
	(void)state;
	enum { FORMS = 2100, MOST = 1024 };
	lo_family *f = lo_family_new();
	rt_exec *first = kernel_of_form(f, 0, 40), *often = NULL;
	for (unsigned form = 1; form < FORMS; form++) {
		rt_exec_unref(kernel_of_form(f, form, 40));
		assert_true(codes <= MOST + 1);
		if (form % 500 == 0) rt_exec_unref(kernel_of_form(f, 1, 40)); /* met again: it stays */
	}
	assert_int_equal(codes, MOST + 1); /* that of `first` is out of the family */
	uint32_t before = lo_family_counts(f).compiled;
	often = kernel_of_form(f, 1, 40);
	assert_int_equal(lo_family_counts(f).compiled, before);
	rt_exec_unref(first);
	assert_int_equal(codes, MOST);
	lo_family_free(f);
	assert_int_equal(codes, 1);
	rt_exec_unref(often);
	assert_int_equal(codes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_products_of_library),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_same_ext),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_alias),
		cmocka_unit_test(test_into),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_want_of_memory),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_code_goes),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_stored_again),
		cmocka_unit_test(test_stored_in_a_circle),
		cmocka_unit_test(test_back_end_when_needed),
		cmocka_unit_test(test_code_of_schedules),
		cmocka_unit_test(test_code_of_targets),
		cmocka_unit_test(test_bad_schedules),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	interp_free();
	return failed;
}
