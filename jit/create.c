/* SPDX-License-Identifier: MIT */
/* New tensors: from data, constants, over memory of the caller, cells; on the device of the context or on a given one. */
#include "jit/call.h"
#include "jit/handle.h"
#include "runtime/bytes.h"

#include <stdlib.h>

/* Rank of a list of sizes; -1 when a size is negative or there are too many. */
static int read_shape(tj_dims shape, int64_t *dim)
{
	int rank = 0;
	if (!shape) return -1;
	for (; shape[rank] != TJ_END_DIM; rank++) {
		if (rank == TJ_MAX_RANK || shape[rank] < 0) return -1;
		dim[rank] = shape[rank];
	}
	return rank;
}

static const rt_layout *new_layout(tj_ctx *c, const char *site, const char *op, tj_dtype dtype, int device, tj_dims shape)
{
	int64_t dim[TJ_MAX_RANK];
	if ((unsigned)dtype >= TJ_DTYPE_COUNT) {
		jit_error(c, site, TJ_ERR_DTYPE, op, rt_dtype_advice(NULL, 0), "%d is not a dtype", (int)dtype);
		return NULL;
	}
	int rank = read_shape(shape, dim);
	if (rank < 0) {
		jit_error(c, site, TJ_ERR_SHAPE, op, "TJ_SHAPE(2, 3), TJ_0D", "not a shape: NULL, a negative size, or more than %d sizes", TJ_MAX_RANK);
		return NULL;
	}
	const rt_layout *l = rt_layout_get(&c->engine->rt.layouts, dtype, device, rank, dim, NULL);
	if (!l) jit_error(c, site, TJ_ERR_SHAPE, op, NULL, "the number of bytes overflows");
	return l;
}

static tj_device default_device(const tj_ctx *c) { return c ? c->engine->device : TJ_CPU; }

static tj_tensor *from_data(const char *site, tj_ctx *c, const char *op, tj_device device, tj_dtype dtype, tj_dims shape, const void *data,
                            uint8_t flags)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context(site, op);
	if (jit_refuses(c, site, op)) return &c->rt.poison;
	jit_active(c);
	const rt_layout *l = jit_device_exists(c, site, op, device) ? new_layout(c, site, op, dtype, device, shape) : NULL;
	if (!l) return &c->rt.poison;
	if (!data && l->numel) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_ARG, op, "tj_full() makes a tensor of one value", "data is NULL");
	}
	rt_err err = { 0 };
	rt_buffer *b = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	if (!b) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_NOMEM, op, rt_usage_hint(device), "no memory for %lld bytes", (long long)l->bytes);
	}
	tj_status st = rt_buffer_write(c->rt.pool, b, data, (size_t)l->bytes, &err);
	tj_tensor *t = jit_new_value(c, c->rt.scope, l, b, b->data);
	if (st != TJ_OK) return jit_report(c, site, &err);
	if (!t) return jit_error(c, site, TJ_ERR_NOMEM, op, NULL, "out of memory");
	t->flags = flags;
	if (flags & RT_CONSTANT) t->seg = jit_constant_id(c->engine, l, data);
	return t;
}

tj_tensor *tj_from_data_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "from_data", default_device(c), dtype, shape, data, 0);
}

tj_tensor *tj_from_data_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "from_data", device, dtype, shape, data, 0);
}

tj_tensor *tj_constant_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "constant", default_device(c), dtype, shape, data, RT_CONSTANT);
}

tj_tensor *tj_constant_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "constant", device, dtype, shape, data, RT_CONSTANT);
}

/* What is wrong with memory to be wrapped; NULL: nothing. The offset of an element must be within the largest possible C object. */
static const char *bad_memory(const rt_layout *l, tj_dims strides, const void *data)
{
	int64_t span = 0, part;
	if (!data && l->numel) return "data is NULL";
	if ((uintptr_t)data % tj_dtype_size((tj_dtype)l->dtype)) return "the memory is not aligned to its elements";
	for (int d = 0; strides && d < l->rank; d++) {
		if (strides[d] == TJ_END_DIM) return "there are fewer strides than sizes: give one for each axis, in elements; NULL means row-major";
		if (l->numel && (__builtin_mul_overflow(l->dim[d] - 1, llabs(strides[d]), &part) || __builtin_add_overflow(span, part, &span)))
			return "the strides reach too far: the offset of an element overflows";
	}
	if (strides && strides[l->rank] != TJ_END_DIM) return "there are more strides than sizes";
	return span > INT64_MAX / 16 ? "the strides reach too far: the offset of an element overflows" : NULL;
}

tj_tensor *tj_wrap_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, tj_dims strides, const void *data,
                      void (*release)(void *env), void *env)
{
	return tj_wrap_on_at(site, c, TJ_CPU, dtype, shape, strides, data, release, env);
}

tj_tensor *tj_wrap_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, tj_dims strides, const void *data,
                         void (*release)(void *env), void *env)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context(site, "wrap");
	if (jit_refuses(c, site, "wrap")) return &c->rt.poison;
	jit_active(c);
	const rt_layout *l = jit_device_exists(c, site, "wrap", device) ? new_layout(c, site, "wrap", dtype, device, shape) : NULL, *strided;
	if (!l) return &c->rt.poison;
	const char *wrong = bad_memory(l, strides, data);
	if (!wrong && l->numel && device != TJ_CPU && !rt_device_owns(device, data)) wrong = "data is not memory of the device";
	if (wrong) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_ARG, "wrap", NULL, "%s", wrong);
	}
	strided = strides ? rt_layout_get(&c->engine->rt.layouts, dtype, device, l->rank, l->dim, strides) : rt_layout_ref(l);
	rt_layout_unref(l);
	rt_buffer *b = strided ? rt_buffer_borrow(device, (void *)(uintptr_t)data, release, env) : NULL;
	tj_scope *s = c->rt.scope;
	tj_tensor *t = b ? rt_raw_handle(&c->rt, s) : NULL;
	if (t) return jit_fill_value(t, strided, b, b->data);
	rt_layout_unref(strided);
	rt_free(b); /* without calling release(): the memory stays that of the caller */
	return jit_error(c, site, TJ_ERR_NOMEM, "wrap", NULL, "out of memory");
}

static tj_tensor *param(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context(site, "param");
	if (jit_refuses(c, site, "param")) return &c->rt.poison;
	if (jit_active(c)) return jit_error(c, site, TJ_ERR_STATE, "param", "make cells before the call", "a cell cannot be made in a body");
	const rt_layout *l = jit_device_exists(c, site, "param", device) ? new_layout(c, site, "param", dtype, device, shape) : NULL;
	if (!l) return &c->rt.poison;
	rt_err err = { 0 };
	rt_buffer *b = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	bool zero = b && rt_buffer_zero(c->rt.pool, b, (size_t)l->bytes, &err) == TJ_OK;
	rt_held *h = zero ? rt_held_new(&c->engine->rt) : NULL;
	if (!h) {
		rt_buffer_unref(b, c->rt.allocator);
		rt_layout_unref(l);
		return err.code ? jit_report(c, site, &err) : jit_error(c, site, TJ_ERR_NOMEM, "param", NULL, "out of memory");
	}
	h->t.kind = RT_CELL;
	h->t.dtype = l->dtype;
	h->t.rank = l->rank;
	h->t.layout = l;
	h->t.buf = b;
	h->t.data = b->data;
	return &h->t;
}

tj_tensor *tj_param_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape)
{
	return param(site, c, default_device(c), dtype, shape);
}
tj_tensor *tj_param_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape)
{
	return param(site, c, device, dtype, shape);
}
