/* SPDX-License-Identifier: MIT */
/* DLPack both ways: memory is shared, deleters are called once, and what does not fit is refused. test/dlpack.sh asks NumPy and PyTorch. */
#include "test/kit.h"

#include <tjdlpack.h>

static int deleted;
static void count_one(DLManagedTensorVersioned *m) { (void)m, deleted++; }
static void count_legacy(DLManagedTensor *m) { (void)m, deleted++; }

static void test_export(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_scope *s = tj_push(c);
	tj_tensor *t = tj_from_data(c, TJ_I32, TJ_SHAPE(2, 3), (int32_t[]){ 1, 2, 3, 4, 5, 6 });
	DLManagedTensorVersioned *m = tj_to_dlpack(t), *turned = tj_to_dlpack(tj_transpose(t, 0, 1));
	DLManagedTensor *legacy = tj_to_dlpack_legacy(t);
	kit_ok(c);
	const DLTensor *d = &m->dl_tensor;
	assert_true(m->version.major == 1 && m->flags == DLPACK_FLAG_BITMASK_READ_ONLY && d->data == tj_data(t));
	assert_true(d->ndim == 2 && d->shape[0] == 2 && d->shape[1] == 3 && d->strides[0] == 3 && d->strides[1] == 1 && !d->byte_offset);
	assert_true(d->device.device_type == kDLCPU && d->dtype.code == kDLInt && d->dtype.bits == 32 && d->dtype.lanes == 1);
	assert_true(turned->flags == DLPACK_FLAG_BITMASK_IS_COPIED && turned->dl_tensor.shape[0] == 3 && turned->dl_tensor.strides[0] == 2);
	assert_memory_equal(turned->dl_tensor.data, ((const int32_t[]){ 1, 4, 2, 5, 3, 6 }), 24);
	assert_true(legacy->dl_tensor.data != tj_data(t));
	((int32_t *)legacy->dl_tensor.data)[0] = 9;
	tj_pop(s); /* the export lives on */
	assert_memory_equal(d->data, ((const int32_t[]){ 1, 2, 3, 4, 5, 6 }), 24);
	m->deleter(m);
	turned->deleter(turned);
	legacy->deleter(legacy);
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(2));
	tj_write(cell, (float[]){ 1, 2 }, 8);
	m = tj_to_dlpack(cell);
	tj_assign(cell, tj_add(cell, tj_f(1))); /* what was exported stays */
	tj_write(cell, (float[]){ 7, 8 }, 8);
	assert_memory_equal(m->dl_tensor.data, ((const float[]){ 1, 2 }), 8);
	m->deleter(m);
	tj_tensor *const odd[] = { tj_full(TJ_F16, TJ_0D, tj_f(1)), tj_full(TJ_BF16, TJ_SHAPE(0, 3), tj_f(1)), tj_eq(cell, cell), tj_i(4) };
	for (int i = 0; i < 4; i++) {
		m = tj_to_dlpack(odd[i]);
		kit_ok(c);
		assert_true(m->dl_tensor.ndim == tj_rank(odd[i]));
		m->deleter(m);
	}
	assert_null(tj_to_dlpack(NULL));
	assert_true(tj_check(c) != TJ_OK);
	tj_close(c);
}

static void in_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	assert_null(tj_to_dlpack(out[0] = in[0]));
}
static void test_body(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	assert_true(tj_is_poison(tj_call1(kit_fn(c, "body", in_body, NULL, 1, 1), TJ_LIST(F32(c, 1)))));
	kit_error(c, TJ_ERR_STATE, "not allowed in a body");
	tj_close(c);
}

static float memory[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static int64_t shape[17] = { 2, 3 }, strides[17] = { -4, 1 };
static DLManagedTensorVersioned good(void)
{
	return (DLManagedTensorVersioned){ .version = { 1, 3 },
		                           .deleter = count_one,
		                           .dl_tensor = { .data = memory,
		                                          .device = { kDLCPU, 0 },
		                                          .ndim = 2,
		                                          .dtype = { kDLFloat, 32, 1 },
		                                          .shape = shape,
		                                          .strides = strides,
		                                          .byte_offset = 16 } };
}

static void test_import(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int turn = 0; turn < 3; turn++) {
		DLManagedTensorVersioned m = good();
		DLManagedTensor legacy = { .dl_tensor = m.dl_tensor, .deleter = count_legacy };
		if (turn == 2) legacy.dl_tensor.strides = NULL, legacy.dl_tensor.byte_offset = 0, legacy.deleter = NULL;
		deleted = 0;
		tj_scope *s = tj_push(c);
		tj_tensor *t = turn ? tj_from_dlpack_legacy(c, &legacy) : tj_from_dlpack(c, &m);
		kit_ok(c);
		if (turn == 2) assert_f32(t, 0, 1, 2, 3, 4, 5);
		else assert_f32(t, 4, 5, 6, 0, 1, 2);
		tj_tensor *view = tj_retain(tj_select(t, 0, 1));
		tj_pop(s);
		if (turn < 2) assert_int_equal(deleted, 0); /* a view needs it */
		if (turn < 2) assert_f32(view, 0, 1, 2);
		tj_release(view);
		assert_int_equal(deleted, turn < 2);
	}
	DLManagedTensorVersioned m = good(), *back;
	m.dl_tensor.ndim = 0, m.dl_tensor.shape = NULL, m.dl_tensor.strides = NULL;
	back = tj_to_dlpack(tj_from_dlpack(c, &m));
	assert_true(back->dl_tensor.data == &memory[4] && back->dl_tensor.ndim == 0); /* there and back without a copy */
	back->deleter(back);
	tj_close(c);
}

static void test_refused(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	static unsigned char flags[2] = { 1, 2 };
	deleted = 0;
#define WITH(code, why, ...) \
	do { \
		DLManagedTensorVersioned m = good(); \
		DLTensor *d = &m.dl_tensor; \
		(void)d; \
		__VA_ARGS__; \
		assert_true(tj_is_poison(tj_from_dlpack(c, &m))); \
		kit_error(c, code, why); \
	} while (0)
	WITH(TJ_ERR_ARG, "version 2.3", m.version.major = 2);
	WITH(TJ_ERR_ARG, "version 0.3", m.version.major = 0);
	WITH(TJ_ERR_DTYPE, "vectors of 4", d->dtype.lanes = 4);
	WITH(TJ_ERR_DTYPE, "vectors of 0", d->dtype.lanes = 0);
	WITH(TJ_ERR_DTYPE, "code 5 of 64 bits", d->dtype.code = 5, d->dtype.bits = 64);
	WITH(TJ_ERR_DTYPE, "code 1 of 32 bits", d->dtype.code = kDLUInt);
	WITH(TJ_ERR_DEVICE, "type 8", d->device.device_type = 8);
	WITH(TJ_ERR_DEVICE, "cuda:99", d->device = (DLDevice){ kDLCUDA, 99 });
	WITH(TJ_ERR_LIMIT, "17 axes", d->ndim = 17);
	WITH(TJ_ERR_LIMIT, "-1 axes", d->ndim = -1);
	WITH(TJ_ERR_SHAPE, "shape is NULL", d->shape = NULL);
	WITH(TJ_ERR_SHAPE, "axis 1 has size -3", d->shape = ((int64_t[]){ 2, -3 }));
	WITH(TJ_ERR_LIMIT, "too many elements", d->shape = ((int64_t[]){ INT64_MAX, INT64_MAX }));
	WITH(TJ_ERR_ARG, "data are NULL", d->data = NULL);
	WITH(TJ_ERR_ARG, "not aligned", d->byte_offset = 2);
	WITH(TJ_ERR_ARG, "its bool 1 is 2", d->dtype = ((DLDataType){ kDLBool, 8, 1 }), d->ndim = 1, d->strides = NULL, d->data = flags,
	     d->byte_offset = 0);
	assert_true(tj_is_poison(tj_from_dlpack(c, NULL)) && tj_is_poison(tj_from_dlpack_legacy(c, NULL)));
	kit_error(c, TJ_ERR_ARG, "it is NULL");
	assert_int_equal(deleted, 0);
	DLManagedTensorVersioned m = good();
	m.dl_tensor.data = NULL, m.dl_tensor.shape = (int64_t[]){ 0, 3 }, m.dl_tensor.byte_offset = 0;
	assert_int_equal(tj_numel(tj_from_dlpack(c, &m)), 0);
	kit_ok(c);
	tj_close(c);
	assert_int_equal(deleted, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_export), cmocka_unit_test(test_body), cmocka_unit_test(test_import),
		                            cmocka_unit_test(test_refused) };
	KIT_RUN(tests);
}
