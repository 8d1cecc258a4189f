/* SPDX-License-Identifier: MIT */
/* ir: types and shapes, text, evaluator, reduction tree, folds. Most cases are IR text that returns two values, the
 * computed and the known one. Their bits must be equal before and after folding; all NaNs are equal. */
#include "test/mock.h"
#include "ir/ir.h"
#include "runtime/alloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- promotion ---- */
static ir_meta meta(int dtype, int rank, bool weak)
{
	ir_meta m = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .weak = weak };
	for (int i = 0; i < rank; i++) m.dim[i] = 4;
	return m;
}

static tj_dtype promoted(ir_meta a, ir_meta b)
{
	ir_meta out;
	rt_err err = { 0 };
	assert_int_equal(ir_infer(IR_maximum, 2, (ir_meta[]){ a, b }, 0, NULL, &out, NULL, NULL, NULL, &err), TJ_OK);
	assert_int_equal(out.weak, a.weak && b.weak);
	return (tj_dtype)out.dtype;
}

/* The rows and columns as in TJ_DTYPE_MAP: what torch.promote_types() gives. */
enum { O = TJ_BOOL, U = TJ_U8, E = TJ_I8, S = TJ_I16, I = TJ_I32, L = TJ_I64, H = TJ_F16, B = TJ_BF16, F = TJ_F32, D = TJ_F64 };
static const uint8_t same_group[TJ_DTYPE_COUNT][TJ_DTYPE_COUNT] = {
	{ O, U, E, S, I, L, H, B, F, D }, { U, U, S, S, I, L, H, B, F, D }, { E, S, E, S, I, L, H, B, F, D }, { S, S, S, S, I, L, H, B, F, D },
	{ I, I, I, I, I, L, H, B, F, D }, { L, L, L, L, L, L, H, B, F, D }, { H, H, H, H, H, H, H, F, F, D }, { B, B, B, B, B, B, F, B, F, D },
	{ F, F, F, F, F, F, F, F, F, D }, { D, D, D, D, D, D, D, D, D, D } };
static const uint8_t with_0d[TJ_DTYPE_COUNT][TJ_DTYPE_COUNT] = {
	{ O, U, E, S, I, L, H, B, F, D }, { U, U, U, U, U, U, H, B, F, D }, { E, E, E, E, E, E, H, B, F, D }, { S, S, S, S, S, S, H, B, F, D },
	{ I, I, I, I, I, I, H, B, F, D }, { L, L, L, L, L, L, H, B, F, D }, { H, H, H, H, H, H, H, H, H, H }, { B, B, B, B, B, B, B, B, B, B },
	{ F, F, F, F, F, F, F, F, F, F }, { D, D, D, D, D, D, D, D, D, D } };
/* int, float */
static const uint8_t with_number[TJ_DTYPE_COUNT][2] = { { L, F }, { U, F }, { E, F }, { S, F }, { I, F },
	                                                { L, F }, { H, H }, { B, B }, { F, F }, { D, D } };

static void test_promotion(void **state)
{
	(void)state;
	for (int a = 0; a < TJ_DTYPE_COUNT; a++) {
		for (int b = 0; b < TJ_DTYPE_COUNT; b++) {
			assert_int_equal(promoted(meta(a, 1, false), meta(b, 2, false)), same_group[a][b]);
			assert_int_equal(promoted(meta(a, 0, false), meta(b, 0, false)), same_group[a][b]);
			assert_int_equal(promoted(meta(a, 1, false), meta(b, 0, false)), with_0d[a][b]);
			assert_int_equal(promoted(meta(b, 0, false), meta(a, 1, false)), with_0d[a][b]);
		}
		for (int f = 0; f < 2; f++)
			for (int rank = 0; rank < 2; rank++) {
				ir_meta number = meta(f ? TJ_F64 : TJ_I64, 0, true);
				assert_int_equal(promoted(meta(a, rank, false), number), with_number[a][f]);
				assert_int_equal(promoted(number, meta(a, rank, false)), with_number[a][f]);
			}
	}
	assert_int_equal(promoted(meta(TJ_I64, 0, true), meta(TJ_I64, 0, true)), TJ_I64);
	assert_int_equal(promoted(meta(TJ_I64, 0, true), meta(TJ_F64, 0, true)), TJ_F64);
	/* an i32 tensor, an f64 0-d tensor and a number: the category comes from the 0-d one */
	ir_meta three[] = { meta(TJ_I32, 1, false), meta(TJ_F64, 0, false), meta(TJ_F64, 0, true) };
	assert_int_equal(ir_promote(three, 3), TJ_F64);
}

/* ---- errors ---- */
static const struct refusal {
	const char *text, *message;
	tj_status code;
} refusals[] = {
	{ "%0 = input f32[64,128] slot=0\n%1 = input f32[256,10] slot=1\n%2 = matmul f32[64,10] %0 %1",
	  "inner dimensions differ: f32[64,128] x f32[256,10] (128 and 256)", TJ_ERR_SHAPE },
	{ "%0 = input f32[] slot=0\n%1 = matmul f32[] %0 %0", "both operands need at least one axis", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,3] slot=0\n%1 = input f32[4,3] slot=1\n%2 = add f32[4,3] %0 %1",
	  "shapes do not broadcast: f32[2,3] x f32[4,3] (2 and 4 on axis 0)", TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = input f32[2]@mock:0 slot=1\n%2 = add f32[2] %0 %1",
	  "operands are on two devices: f32[2] x f32[2]@mock:0 (cpu and mock:0)", TJ_ERR_DEVICE },
	{ "%0 = input f32[2] slot=0\n%1 = to f32[2] %0 device=tpu", "no such device", TJ_ERR_PARSE },
	{ "%0 = input f32[2]@mock:0 slot=0\n%1 = neg f32[2] %0", "the result is f32[2]@mock:0", TJ_ERR_PARSE },
	{ "%0 = input bool[2] slot=0\n%1 = neg bool[2] %0", "bool is not accepted: bool[2]", TJ_ERR_DTYPE },
	{ "%0 = input i32[2] slot=0\n%1 = mean i32[] %0 keepdim=0", "a float is needed: i32[2]", TJ_ERR_DTYPE },
	{ "%0 = input f32[2] slot=0\n%1 = bitwise_and f32[2] %0 %0", "bool or integers are needed", TJ_ERR_DTYPE },
	{ "%0 = input bool[2] slot=0\n%1 = shift_left bool[2] %0 %0", "integers are needed", TJ_ERR_DTYPE },
	{ "%0 = input f32[6] slot=0\n%1 = reshape f32[4] %0 shape=4", "number of elements differs: f32[6] (6 and 4)", TJ_ERR_SHAPE },
	{ "%0 = input f32[6] slot=0\n%1 = reshape f32[6] %0 shape=-1,-1", "two sizes are -1", TJ_ERR_SHAPE },
	{ "%0 = input f32[0] slot=0\n%1 = reshape f32[0] %0 shape=0,-1", "the size for -1 is not determined", TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = expand f32[3] %0 shape=3", "only axes of size 1 can be expanded", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,2] slot=0\n%1 = expand f32[2] %0 shape=2", "the shape has fewer sizes than the operand has axes",
	  TJ_ERR_SHAPE },
	{ "%0 = input f32[2,2] slot=0\n%1 = permute f32[2,2] %0 axes=0", "permute needs every axis once", TJ_ERR_ARG },
	{ "%0 = input f32[2,2] slot=0\n%1 = permute f32[2,2] %0 axes=0,0", "an axis is given twice", TJ_ERR_ARG },
	{ "%0 = input f32[2,2] slot=0\n%1 = transpose f32[2,2] %0 a=0 b=2", "axis out of range: f32[2,2] (axis 2, rank 2)", TJ_ERR_ARG },
	{ "%0 = input f32[2,2] slot=0\n%1 = squeeze f32[2] %0 axes=0", "only axes of size 1 can be dropped", TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = slice f32[2] %0 axis=0 start=0 stop=2 step=0", "the step is 0", TJ_ERR_ARG },
	{ "%0 = input f32[] slot=0\n%1 = slice f32[] %0 axis=0 start=0 stop=2 step=1", "no axis to slice", TJ_ERR_SHAPE },
	{ "%0 = input f32[] slot=0\n%1 = cat f32[2] %0 %0 axis=0", "0-d tensors cannot be joined", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,3] slot=0\n%1 = input f32[2,4] slot=1\n%2 = cat f32[4,3] %0 %1 axis=0",
	  "sizes differ on an axis that is not joined", TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = input f32[3] slot=1\n%2 = stack f32[2,2] %0 %1 axis=0", "shapes differ", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,0] slot=0\n%1 = amax f32[2] %0 keepdim=0 axes=1", "there are no elements to reduce", TJ_ERR_SHAPE },
	{ "%0 = input f32[0] slot=0\n%1 = argmin i64[] %0 keepdim=0 axis=end", "there are no elements to reduce", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,0] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=1", "there are no elements to reduce", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,3] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=2", "axis out of range", TJ_ERR_ARG },
	{ "%0 = input f32[2,3] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=1\n%2 = get f32[2] %1 i=2",
	  "max_with_indices has no result 2", TJ_ERR_ARG },
	{ "%0 = input f32[2,3] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=1\n%2 = get i64[2] %1 i=0", "the result is f32[2]",
	  TJ_ERR_PARSE },
	{ "%0 = input f32[2,3] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=1\n%2 = neg f32[2] %1",
	  "an operand has several results: pick one with get", TJ_ERR_ARG },
	{ "%0 = input f32[2,3] slot=0\n%1 = neg f32[2,3] %0\n%2 = get f32[2,3] %1 i=0", "neg has no result 0", TJ_ERR_ARG },
	{ "%0 = input f32[2] slot=0\n%1 = sum f32[] %0 keepdim=0 axes=0,-1", "an axis is given twice", TJ_ERR_ARG },
	{ "%0 = input f32[2] slot=0\n%1 = input f32[2] slot=1\n%2 = gather f32[2] %0 %1 axis=0", "an index must be an integer",
	  TJ_ERR_DTYPE },
	{ "%0 = input f32[2] slot=0\n%1 = input i64[2,2] slot=1\n%2 = gather f32[2] %0 %1 axis=0", "ranks differ", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,2] slot=0\n%1 = input i64[2,3] slot=1\n%2 = gather f32[2,3] %0 %1 axis=0", "the index is larger",
	  TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = input f32[2] slot=1\n%2 = take_sorted %0 %1 axis=0", "an index must be an integer",
	  TJ_ERR_DTYPE },
	{ "%0 = input f32[2] slot=0\n%1 = input i64[] slot=1\n%2 = take_sorted %0 %1 axis=0", "the places have 0 axes, the operand 1",
	  TJ_ERR_SHAPE },
	{ "%0 = input f32[2,2] slot=0\n%1 = input i64[2,3] slot=1\n%2 = take_sorted %0 %1 axis=0", "the index is larger", TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = input i64[2] slot=1\n%2 = input f64[2] slot=2\n%3 = scatter_add f32[2] %0 %1 %2 axis=0",
	  "the source must have the dtype of the operand", TJ_ERR_DTYPE },
	{ "%0 = input f32[2] slot=0\n%1 = input i64[2] slot=1\n%2 = embedding f32[2,2] %0 %1", "the table must have two axes",
	  TJ_ERR_SHAPE },
	{ "%0 = input f32[2] slot=0\n%1 = input i64[2] slot=1\n%2 = cross_entropy f32[] %0 %1", "logits [N,C] and targets [N]",
	  TJ_ERR_SHAPE },
	{ "%0 = input i32[2,2] slot=0\n%1 = input i64[2] slot=1\n%2 = cross_entropy f32[] %0 %1", "a float is needed", TJ_ERR_DTYPE },
	{ "%0 = input f32[2] slot=0\n%1 = full f32[2] %0 dtype=f32 shape=2", "a number or a 0-d tensor is needed", TJ_ERR_SHAPE },
	{ "%0 = num i64 slot=0\n%1 = uniform i32[2] %0 %0 dtype=i32 shape=2", "a float is needed", TJ_ERR_DTYPE },
	{ "%0 = arange bool[2] dtype=bool start=0 stop=2 step=1", "bool is not accepted", TJ_ERR_DTYPE },
	{ "%0 = arange i32[2] dtype=i32 start=0 stop=2 step=0", "the step is 0", TJ_ERR_ARG },
	{ "%0 = arange u8[10] dtype=u8 start=250 stop=260 step=1", "u8 cannot hold 259", TJ_ERR_ARG },
	{ "%0 = arange u8[3] dtype=u8 start=1 stop=-2 step=-1", "u8 cannot hold -1", TJ_ERR_ARG },
	{ "%0 = arange i16[2] dtype=i16 start=-32769 stop=-32767 step=1", "i16 cannot hold -32769", TJ_ERR_ARG },
	{ "%0 = arange i32[1] dtype=i32 start=2147483648 stop=2147483649 step=1", "i32 cannot hold 2147483648", TJ_ERR_ARG },
	{ "%0 = eye i32[2,2] dtype=i32 n=2 m=-2", "a size is negative", TJ_ERR_SHAPE },
	{ "%0 = input f32[2,4] slot=0\n%1 = input f32[2] slot=1\n%2 = input f32[] slot=2\n%3 = rms_norm f32[2,4] %0 %1 %2",
	  "the weight must be 1-d, with the size of the last axis", TJ_ERR_SHAPE },
	{ "%0 = input f32[4294967296,1] slot=0\n%1 = input f32[1,4294967296] slot=1\n%2 = add f32[1] %0 %1", "too many elements",
	  TJ_ERR_LIMIT },
	{ "%0 = input f32[] slot=0\n%1 = expand f32[1] %0 shape=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n%2 = unsqueeze f32[1] %1 axis=0",
	  "the result is", TJ_ERR_PARSE },
	{ "%0 = input f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] slot=0\n%1 = unsqueeze f32[1] %0 axis=0", "too many axes", TJ_ERR_LIMIT },
	{ "%0 = input u16[2] slot=0", "u16 is not a dtype", TJ_ERR_PARSE },
	{ "%0 = input f32[2] slot=0\n%1 = cast c64[2] %0 dtype=c64", "c64 is not a dtype", TJ_ERR_PARSE },
};

static void test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(refusals); i++) {
		ir_graph g;
		rt_err err = { 0 };
		ir_graph_init(&g);
		tj_status st = ir_parse(&g, refusals[i].text, &err);
		if (st != refusals[i].code || !strstr(err.message, refusals[i].message))
			fail_msg("%s\ngave %s: %s", refusals[i].text, tj_strerror(st), err.message);
		ir_graph_free(&g);
	}
}

/* The first error stays, carries the site, and later ops pass IR_NONE on. */
static void test_first_error(void **state)
{
	ir_graph g;
	ir_meta m = { .dtype = TJ_F32, .rank = 1, .dim = { 3 } }, n = { .dtype = TJ_F32, .rank = 1, .dim = { 4 } };
	(void)state;
	ir_graph_init(&g);
	ir_ref a = ir_input(&g, 0, &m, NULL, "a.c:1"), b = ir_input(&g, 1, &n, NULL, "a.c:2");
	ir_ref c = ir_op2(&g, IR_add, a, b, "a.c:3");
	assert_int_equal(c, IR_NONE);
	assert_int_equal(ir_op1(&g, IR_neg, c, "a.c:4"), IR_NONE);
	assert_int_equal(ir_op1(&g, IR_neg, a, "a.c:5"), IR_NONE);
	assert_false(ir_ret(&g, c));
	assert_int_equal(g.err.code, TJ_ERR_SHAPE);
	assert_string_equal(g.err.op, "add");
	assert_string_equal(g.err.site, "a.c:3");
	ir_graph_free(&g);
}

/* Raw attributes come out in normal form, and the normal form of that is itself. */
static void check_norm(ir_op op, ir_meta x, int nraw, const int64_t *raw, int nwant, const int64_t *want)
{
	int64_t norm[48], again[48];
	int n, m;
	ir_meta out, out2;
	rt_err err = { 0 };
	if (ir_infer(op, 1, &x, nraw, raw, &out, norm, &n, NULL, &err) != TJ_OK) fail_msg("%s: %s", ir_ops[op].name, err.message);
	assert_int_equal(n, nwant);
	for (int i = 0; i < n; i++) assert_int_equal(norm[i], want[i]);
	assert_int_equal(ir_infer(op, 1, &x, n, norm, &out2, again, &m, NULL, &err), TJ_OK);
	assert_int_equal(n, m);
	if (n) assert_memory_equal(norm, again, sizeof *norm * (size_t)n);
	assert_memory_equal(&out, &out2, sizeof out);
}
#define LIST(...) (int)RT_COUNT(((int64_t[]){ __VA_ARGS__ })), (const int64_t[]){ __VA_ARGS__ }
#define NO 0, NULL

static void test_normal_form(void **state)
{
	const int64_t e = TJ_END_DIM;
	ir_meta x = { .dtype = TJ_F32, .rank = 3, .dim = { 5, 1, 6 } };
	(void)state;
	check_norm(IR_reshape, x, LIST(-1, 10), LIST(3, 10));
	check_norm(IR_expand, x, LIST(2, -1, 4, -1), LIST(2, 5, 4, 6));
	check_norm(IR_permute, x, LIST(-1, 0, -2), LIST(2, 0, 1));
	check_norm(IR_transpose, x, LIST(-1, 0), LIST(0, 2));
	check_norm(IR_squeeze, x, NO, LIST(1));
	check_norm(IR_unsqueeze, x, LIST(-1), LIST(3));
	check_norm(IR_flip, x, LIST(-1, 0), LIST(0, 2));
	check_norm(IR_flip, x, LIST(2, 0, 1), NO);
	check_norm(IR_sum, x, LIST(7, 2, 0), LIST(1, 0, 2));
	check_norm(IR_sum, x, LIST(0, 2, 1, 0), LIST(0));
	check_norm(IR_argmax, x, LIST(0, -1), LIST(0, 2));
	check_norm(IR_argmax, x, LIST(0, e), LIST(0, e));
	check_norm(IR_max_with_indices, x, LIST(7, -1), LIST(1, 2));
	check_norm(IR_slice, x, LIST(0, e, e, 1), LIST(0, 0, 5, 1));
	check_norm(IR_slice, x, LIST(0, e, e, -1), LIST(0, 4, e, -1));
	check_norm(IR_slice, x, LIST(0, -3, 100, 2), LIST(0, 2, 5, 2));
	check_norm(IR_slice, x, LIST(0, 3, 1, 1), LIST(0, 0, 0, 1));
	check_norm(IR_slice, x, LIST(-1, -1, -100, -2), LIST(2, 5, 0, -2));
	check_norm(IR_slice, x, LIST(0, 3, 4, 7), LIST(0, 3, 4, 1));
	check_norm(IR_slice, x, LIST(0, -100, 100, INT64_MAX), LIST(0, 0, 1, 1));
	check_norm(IR_softmax, x, LIST(-3), LIST(0));
	x.rank = 0;
	check_norm(IR_sum, x, LIST(0, -1), LIST(0));
	check_norm(IR_softmax, x, LIST(-1), LIST(0));
	check_norm(IR_argmax, x, LIST(1, 0), LIST(1, e));
}

/* ---- text ---- */
static const char *const lines =
	"%0 = input f32[4,8] slot=0 strides=1,4  # a.c:1\n%1 = num f64 slot=0\n%2 = num f64 slot=1\n"
	"%3 = add f64 %1 %2\n";

static void print_parse_print(const char *text)
{
	ir_graph a, b;
	rt_text one = { 0 }, two = { 0 };
	rt_err err = { 0 };
	ir_graph_init(&a);
	ir_graph_init(&b);
	if (ir_parse(&a, text, &err) != TJ_OK) fail_msg("%s", err.message);
	if (ir_verify(&a, &err) != TJ_OK) fail_msg("%s", err.message);
	ir_print(&a, &one);
	if (ir_parse(&b, rt_str(&one), &err) != TJ_OK) fail_msg("%s", err.message);
	ir_print(&b, &two);
	assert_string_equal(rt_str(&one), rt_str(&two));
	assert_int_equal(a.node.n, b.node.n);
	rt_text_free(&one);
	rt_text_free(&two);
	ir_graph_free(&a);
	ir_graph_free(&b);
}

static void test_text_by_hash(void **state)
{
	ir_graph a, b;
	rt_text t = { 0 };
	rt_err err = { 0 };
	int32_t big[100] = { 1, 2, 3 };
	ir_meta m = { .dtype = TJ_I32, .rank = 1, .dim = { 100 } };
	(void)state;
	ir_graph_init(&a);
	ir_graph_init(&b);
	ir_ret(&a, ir_data_(&a, &m, big, NULL));
	ir_print(&a, &t);
	assert_non_null(strstr(rt_str(&t), "hash="));
	assert_int_equal(ir_parse(&b, rt_str(&t), &err), TJ_ERR_PARSE);
	ir_graph_free(&b);
	err = (rt_err){ 0 };
	ir_data_(&b, &m, big, NULL); /* at hand now; the node itself is one more */
	b.node.n = 0;
	b.ints.n = 0;
	memset(b.cse, 0, sizeof *b.cse * b.ncse);
	assert_int_equal(ir_parse(&b, rt_str(&t), &err), TJ_OK);
	rt_text_free(&t);
	ir_graph_free(&a);
	ir_graph_free(&b);
}

/* ---- values ---- */
static const char *const cases[] = {
#include "test/unit/ir_cases.inc"
};

static bool same_element(tj_dtype t, const char *a, const char *b)
{
	float f, g;
	double d, e;
	if (t == TJ_F32) {
		memcpy(&f, a, sizeof f);
		memcpy(&g, b, sizeof g);
		if (isnan(f) && isnan(g)) return true;
	} else if (t == TJ_F64) {
		memcpy(&d, a, sizeof d);
		memcpy(&e, b, sizeof e);
		if (isnan(d) && isnan(e)) return true;
	}
	return !memcmp(a, b, tj_dtype_size(t));
}

/* Outputs 0 and 1 of g are the same values. */
static void outputs_agree(const ir_graph *g, const char *text, const char *how)
{
	void *out[2];
	rt_err err = { 0 };
	uint64_t num[2] = { 0x3fe0000000000000, 3 }; /* 0.5 and 3 */
	int64_t n = ir_numel(g, g->out.v[0]);
	tj_dtype t = (tj_dtype)ir_at(g, g->out.v[0])->dtype;
	size_t size = tj_dtype_size(t);
	assert_int_equal(n, ir_numel(g, g->out.v[1]));
	for (int i = 0; i < 2; i++) out[i] = malloc((size_t)n * size + 1);
	if (ir_eval(g, NULL, num, NULL, out, NULL, &err) != TJ_OK) fail_msg("%s\n%s: %s: %s", text, how, err.op, err.message);
	for (int64_t i = 0; i < n; i++)
		if (!same_element(t, (char *)out[0] + (size_t)i * size, (char *)out[1] + (size_t)i * size))
			fail_msg("%s\n%s: element %lld differs", text, how, (long long)i);
	for (int i = 0; i < 2; i++) free(out[i]);
}

static void test_values(void **state)
{
	bool seen[IR_OP_COUNT] = { false };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(cases); i++) {
		ir_graph g, folded, simple;
		rt_err err = { 0 };
		ir_graph_init(&g);
		ir_graph_init(&folded);
		ir_graph_init(&simple);
		if (ir_parse(&g, cases[i], &err) != TJ_OK) fail_msg("%s\n%s", cases[i], err.message);
		for (ir_ref r = 0; r < g.node.n; r++) seen[ir_at(&g, r)->op] = true;
		print_parse_print(cases[i]);
		outputs_agree(&g, cases[i], "as written");
		assert_int_equal(ir_pass_dce(&g, &folded, NULL, &err), TJ_OK);
		assert_int_equal(ir_verify(&folded, &err), TJ_OK);
		outputs_agree(&folded, cases[i], "folded");
		assert_int_equal(ir_pass_decomp(&folded, &simple, NULL, &err), TJ_OK);
		assert_int_equal(ir_verify(&simple, &err), TJ_OK);
		outputs_agree(&simple, cases[i], "decomposed");
		ir_graph_free(&g);
		ir_graph_free(&folded);
		ir_graph_free(&simple);
	}
	for (int op = 0; op < IR_OP_COUNT; op++)
		if (!seen[op] && op != IR_input && op != IR_mark && op != IR_uniform && op != IR_normal && op != IR_host_call)
			fail_msg("no case for %s", ir_ops[op].name);
}

/* Faults, and that only demanded values fault. */
static tj_status run_text(const char *text, bool zero, void *out, rt_err *err)
{
	ir_graph g;
	ir_eval_opts o = { .int_div_zero = zero };
	ir_graph_init(&g);
	tj_status st = ir_parse(&g, text, err);
	if (st == TJ_OK) st = ir_eval(&g, NULL, NULL, NULL, &out, &o, err);
	err->op = NULL; /* of the graph */
	err->site = NULL;
	ir_graph_free(&g);
	return st;
}

static void test_faults(void **state)
{
	static const struct { const char *text, *message; tj_status code;
	} faults[] = {
		{ "%0 = data i32[2] {7,8}\n%1 = data i32[2] {2,0}\n%2 = floor_divide i32[2] %0 %1\nret %2", "integer division by zero",
		  TJ_ERR_DIV },
		{ "%0 = data i32[2] {7,8}\n%1 = data i32[2] {2,0}\n%2 = fmod i32[2] %0 %1\nret %2", "integer division by zero",
		  TJ_ERR_DIV },
		{ "%0 = data i32[2] {7,8}\n%1 = data i64[2] {0,2}\n%2 = gather i32[2] %0 %1 axis=0\nret %2",
		  "out of range for an axis of size 2", TJ_ERR_INDEX },
		{ "%0 = data i32[2] {7,8}\n%1 = data i64[2] {0,-1}\n%2 = take_sorted %0 %1 axis=0\n%3 = get i64[2] %2 i=1\nret %3",
		  "out of range for an axis of size 2", TJ_ERR_INDEX },
		{ "%0 = data i32[2] {7,8}\n%1 = data i64[2] {0,-1}\n%2 = index_select i32[2] %0 %1 axis=0\nret %2",
		  "out of range for an axis of size 2", TJ_ERR_INDEX },
		{ "%0 = data i32[2,2] {7,8,1,2}\n%1 = data i64[2] {0,5}\n%2 = embedding i32[2,2] %0 %1\nret %2", "axis of size 2",
		  TJ_ERR_INDEX },
		{ "%0 = data i32[2] {7,8}\n%1 = data i64[2] {0,5}\n%2 = scatter_add i32[2] %0 %1 %0 axis=0\nret %2", "axis of size 2",
		  TJ_ERR_INDEX },
		{ "%0 = data i64[2] {0,5}\n%1 = one_hot i64[2,5] %0 n=5\nret %1", "axis of size 5", TJ_ERR_INDEX },
		{ "%0 = data f32[2,2] {7,8,1,2}\n%1 = data i64[2] {0,2}\n%2 = cross_entropy f32[] %0 %1\nret %2", "axis of size 2",
		  TJ_ERR_INDEX },
	};
	int32_t out[16];
	(void)state;
	for (size_t i = 0; i < RT_COUNT(faults); i++) {
		rt_err err = { 0 };
		assert_int_equal(run_text(faults[i].text, false, out, &err), faults[i].code);
		assert_non_null(strstr(err.message, faults[i].message));
	}
	rt_err err = { 0 };
	assert_int_equal(run_text(faults[0].text, true, out, &err), TJ_OK);
	assert_int_equal(out[0], 3);
	assert_int_equal(out[1], 0);
	assert_int_equal(
		run_text("%0 = data i32[2] {7,8}\n%1 = data i32[2] {2,0}\n%2 = floor_divide i32[2] %0 %1\nret %0", false, out, &err),
		TJ_OK);
	assert_int_equal(
		run_text("%0 = data f32[2] {7,8}\n%1 = data f32[2] {2,0}\n%2 = floor_divide f32[2] %0 %1\nret %2", false, out, &err),
		TJ_OK);
}

/* Any strides: every op sees a transposed, reversed, repeated input as its copy. */
static void test_strides(void **state)
{
	float data[24], out[12], want[12];
	ir_meta m = { .dtype = TJ_F32, .rank = 2, .dim = { 4, 3 } };
	static const int64_t strides[][3] = { { 1, 4, 0 }, { 6, 2, 1 }, { -3, 1, 9 }, { 0, 1, 5 }, { 0, 0, 2 }, { 3, -1, 2 } }; /* last: offset */
	(void)state;
	for (int i = 0; i < 24; i++) data[i] = (float)i + 0.5f;
	for (size_t k = 0; k < RT_COUNT(strides); k++) {
		ir_graph g;
		rt_err err = { 0 };
		const void *ext[] = { data + strides[k][2] };
		void *to[] = { out };
		ir_graph_init(&g);
		ir_ret(&g, ir_op1(&g, IR_neg, ir_input(&g, 0, &m, strides[k], NULL), NULL));
		assert_int_equal(ir_eval(&g, ext, NULL, NULL, to, NULL, &err), TJ_OK);
		for (int i = 0; i < 12; i++) want[i] = -data[strides[k][2] + i / 3 * strides[k][0] + i % 3 * strides[k][1]];
		assert_memory_equal(out, want, sizeof out);
		ir_graph_free(&g);
	}
}

/* A given value replaces the node, and nodes that only it needs are not computed. */
static void test_given(void **state)
{
	ir_graph g;
	rt_err err = { 0 };
	float out, given = 42;
	void *to[] = { &out };
	const void *by_node[4] = { NULL, NULL, &given, NULL };
	(void)state;
	ir_graph_init(&g);
	assert_int_equal(
		ir_parse(&g,
	                 "%0 = input f32[1,4] slot=0\n%1 = input f32[4,1] slot=1\n%2 = matmul f32[1,1] %0 %1\n%3 = neg f32[1,1] %2\nret %3",
	                 &err),
		TJ_OK);
	assert_int_equal(ir_eval(&g, NULL, NULL, by_node, to, NULL, &err), TJ_OK);
	assert_true(out == -42);
	ir_graph_free(&g);
}

/* ---- the reduction tree, against its definition step by step ---- */
static float plus(float a, float b) { return a + b; }
static double plus_d(double a, double b) { return a + b; }

/* semantics: all of A in an array; step 2 level by level. */
static float by_definition(const float *x, int64_t n, int64_t lanes, int64_t rows)
{
	int64_t chunks = (n + lanes * rows - 1) / (lanes * rows);
	float *a = malloc(sizeof *a * (size_t)(chunks * lanes));
	bool *has = calloc((size_t)(chunks * lanes), 1);
	for (int64_t c = 0; c < chunks; c++)
		for (int64_t l = 0; l < lanes; l++)
			for (int64_t j = 0; j < rows; j++) {
				int64_t i = c * lanes * rows + j * lanes + l;
				if (i >= n) continue;
				a[c * lanes + l] = has[c * lanes + l] ? a[c * lanes + l] + x[i] : x[i];
				has[c * lanes + l] = true;
			}
	for (; chunks > 1; chunks = (chunks + 1) / 2)
		for (int64_t c = 0; c < chunks; c += 2)
			for (int64_t l = 0; l < lanes; l++) {
				int64_t to = c / 2 * lanes + l, p = c * lanes + l, q = p + lanes;
				bool right = c + 1 < chunks && has[q];
				float v = right ? a[p] + a[q] : a[p];
				has[to] = has[p];
				a[to] = v;
			}
	for (int64_t half = lanes / 2; half; half /= 2)
		for (int64_t l = 0; l < half; l++)
			if (has[l + half]) a[l] += a[l + half];
	float r = a[0];
	free(a);
	free(has);
	return r;
}

static void test_tree(void **state)
{
	static const int64_t sizes[] = { 1,    2,    3,    64,   100,  127,  128,   129,   255,   256,
		                         2047, 2048, 2049, 4096, 6144, 6145, 10240, 14336, 20000, 70001 };
	enum { MOST = 70001 };
	float *x = malloc(sizeof *x * MOST);
	uint32_t seed = 1;
	(void)state;
	for (int i = 0; i < MOST; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = ldexpf((float)(int32_t)seed, -(int)(seed >> 8) % 40 - 20);
	}
	for (size_t k = 0; k < RT_COUNT(sizes); k++) {
		assert_true(ir_tree_f(x, sizes[k], 1, plus, 0, false) == by_definition(x, sizes[k], 128, 16));
		assert_true(ir_tree_f(x, sizes[k], 1, plus, 0, true) == by_definition(x, sizes[k], 1, 32));
	}
	for (int i = 0; i < MOST; i++) x[i] = 1;
	assert_true(ir_tree_f(x, MOST, 1, plus, 0, false) == MOST);
	free(x);
	float minus_zero = -0.0f;
	assert_true(signbit(ir_tree_f(&minus_zero, 1, 1, plus, 0, false)));
	assert_true(ir_tree_f(NULL, 0, 1, plus, 7, false) == 7);
	/* f64: 64 lanes. The first and the 65th meet in a lane before the second joins. */
	double d[65] = { 0 };
	d[0] = 1e308, d[1] = 1, d[64] = -1e308;
	assert_true(ir_tree_d(d, 65, 1, plus_d, 0, false) == 1);
	d[0] = 1e16, d[1] = 1, d[2] = -1e16, d[64] = 0; /* 1e16 meets -1e16 only at lane step 2 */
	assert_true(ir_tree_d(d, 65, 1, plus_d, 0, false) == 1);
	assert_true(ir_tree_d(d, 65, 1, plus_d, 0, true) == 0);
}

/* Rows and columns are decided by axes: the same numbers, reduced as the last axis and as the first. */
static void test_reduce_class(void **state)
{
	enum { N = 300 };
	float x[N], row, column;
	(void)state;
	for (int i = 0; i < N; i++) x[i] = 1.0f / (float)(i + 1) * (i % 3 ? 1 : -1000);
	for (int kind = 0; kind < 2; kind++) {
		ir_graph g;
		rt_err err = { 0 };
		ir_meta m = { .dtype = TJ_F32, .rank = 2, .dim = { kind ? N : 1, kind ? 1 : N } };
		const void *ext[] = { x };
		void *to[] = { kind ? &column : &row };
		ir_graph_init(&g);
		ir_ret(&g, ir_reduce(&g, IR_sum, ir_input(&g, 0, &m, NULL, NULL), kind ? 1 : 2, false, NULL));
		assert_int_equal(ir_eval(&g, ext, NULL, NULL, to, NULL, &err), TJ_OK);
		ir_graph_free(&g);
	}
	assert_true(row == ir_tree_f(x, N, 1, plus, 0, false));
	assert_true(column == ir_tree_f(x, N, 1, plus, 0, true));
}

/* ---- random: a number depends on key, ordinal and index only ---- */
static void test_random(void **state)
{
	float a[64], b[64];
	rt_err err = { 0 };
	ir_graph g;
	void *to[] = { a, b };
	(void)state;
	ir_graph_init(&g);
	assert_int_equal(ir_parse(&g, "%0 = num i64 slot=0\n%1 = num i64 slot=1\n%2 = uniform f32[64] %0 %1 dtype=f32 shape=64\n"
	                              "%3 = uniform f32[8,8] %0 %1 dtype=f32 shape=8,8\nret %2 %3", &err), TJ_OK);
	assert_int_equal(ir_eval(&g, NULL, (const uint64_t[]){ 5, 1 }, NULL, to, NULL, &err), TJ_OK);
	assert_memory_equal(a, b, sizeof a);
	for (int i = 0; i < 64; i++) assert_true(a[i] >= 0 && a[i] < 1);
	assert_int_equal(ir_eval(&g, NULL, (const uint64_t[]){ 5, 2 }, NULL, to, NULL, &err), TJ_OK);
	assert_true(memcmp(a, (float[64]){ 0 }, sizeof a) != 0);
	ir_graph_free(&g);
}

/* ---- want of memory: the k-th allocation fails, for each k; nothing crashes, nothing leaks, the error says so ---- */
static tj_status whole_way(void)
{
	static const char *const text =
		"%0 = data f32[2,3] {1,2,3,4,5,6}\n%1 = softmax f32[2,3] %0 axis=1\n%2 = stack f32[2,2,3] %1 %0 axis=0\n"
		"%3 = sum f32[2] %2 keepdim=0 axes=1,2\n%4 = data f32[2] {1,2}\n%5 = mul f32[2] %4 %4\n%6 = add f32[2] %3 %5\nret %6\n";
	ir_graph a, b;
	rt_err err = { 0 };
	float out[2];
	void *to[] = { out };
	ir_graph_init(&a);
	ir_graph_init(&b);
	tj_status st = ir_parse(&a, text, &err);
	if (st == TJ_OK) st = ir_verify(&a, &err);
	if (st == TJ_OK) st = ir_eval(&a, NULL, NULL, NULL, to, NULL, &err);
	if (st == TJ_OK) st = ir_pass_decomp(&a, &b, NULL, &err);
	if (st == TJ_OK) st = ir_eval(&b, NULL, NULL, NULL, to, NULL, &err);
	ir_graph_free(&a);
	ir_graph_free(&b);
	return st;
}

static void test_no_memory(void **state)
{
	(void)state;
	tj_status st = TJ_ERR_NOMEM;
	int refused = 0;
	for (long long k = 0; k < 2000; k++) {
		rt_alloc_fail_at(k);
		st = whole_way();
		bool reached = rt_alloc_count() > k;
		rt_alloc_fail_at(-1);
		if (!reached) break;
		assert_true(st == TJ_OK || st == TJ_ERR_NOMEM); /* OK: a fold did not find memory and left the node as it was */
		refused += st == TJ_ERR_NOMEM;
	}
	assert_int_equal(st, TJ_OK);
	assert_true(refused > 20);
}

/* ---- depth: nothing recurses over the graph ---- */
static void test_deep(void **state)
{
	ir_graph g, h;
	rt_err err = { 0 };
	ir_meta m = { .dtype = TJ_F32 };
	float x = 1, out;
	const void *ext[] = { &x };
	void *to[] = { &out };
	(void)state;
	ir_graph_init(&g);
	ir_graph_init(&h);
	ir_ref r = ir_input(&g, 0, &m, NULL, NULL), one = r;
	for (int i = 0; i < 10000; i++) r = ir_op2(&g, IR_add, r, one, NULL);
	ir_ret(&g, r);
	assert_int_equal(ir_pass_decomp(&g, &h, NULL, &err), TJ_OK);
	assert_int_equal(h.node.n, 10001);
	assert_int_equal(ir_eval(&h, ext, NULL, NULL, to, NULL, &err), TJ_OK);
	assert_true(out == 10001);
	ir_graph_free(&g);
	ir_graph_free(&h);
}

static void test_lines(void **state)
{
	(void)state;
	print_parse_print(lines);
	print_parse_print("");
	print_parse_print("# a comment\n\n%7 = input u8[] slot=3\nret %7 %7\n");
}

/* Every rule is used by the cases above; a rule that never fires fails here. */
static void test_rules_fired(void **state)
{
	const char *const *names;
	const uint64_t *fired;
	(void)state;
	int n = ir_fold_rules(&names, &fired);
	for (int i = 0; i < n; i++)
		if (!fired[i]) fail_msg("no case for the rule %s", names[i]);
}

int main(void)
{
	mock_device(); /* texts name it */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_promotion), cmocka_unit_test(test_refusals), cmocka_unit_test(test_first_error),
		cmocka_unit_test(test_normal_form), cmocka_unit_test(test_lines), cmocka_unit_test(test_text_by_hash),
		cmocka_unit_test(test_values), cmocka_unit_test(test_faults), cmocka_unit_test(test_strides), cmocka_unit_test(test_given),
		cmocka_unit_test(test_tree), cmocka_unit_test(test_reduce_class), cmocka_unit_test(test_random),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_deep), cmocka_unit_test(test_rules_fired),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
