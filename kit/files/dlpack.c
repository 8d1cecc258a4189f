/* SPDX-License-Identifier: MIT */
/* DLPack: memory that tensors share with other libraries of the process. */
#include "kit/files/files.h"

#include <stdlib.h>
#include <tjdlpack.h>

static const struct { tj_dtype dtype; uint8_t code, bits; } types[] = {
	{ TJ_BOOL, kDLBool, 8 }, { TJ_U8, kDLUInt, 8 },   { TJ_I8, kDLInt, 8 },      { TJ_I16, kDLInt, 16 },  { TJ_I32, kDLInt, 32 },
	{ TJ_I64, kDLInt, 64 },  { TJ_F16, kDLFloat, 16 }, { TJ_BF16, kDLBfloat, 16 }, { TJ_F32, kDLFloat, 32 }, { TJ_F64, kDLFloat, 64 },
};
enum { TYPES = sizeof types / sizeof *types };

/* ---- export ---- */
typedef struct exported {
	DLManagedTensorVersioned m;
	DLManagedTensor legacy;
	tj_tensor *kept;  /* NULL: the memory is .copy */
	kit_buffer copy;
	int64_t shape[TJ_MAX_RANK + 1], strides[TJ_MAX_RANK + 1];
} exported;

static void drop(exported *e)
{
	if (e->kept) tj_release_at("DLPack deleter", e->kept);
	free(e->copy.data);
	free(e);
}
static void delete_one(DLManagedTensorVersioned *m) { drop(m->manager_ctx); }
static void delete_legacy(DLManagedTensor *m) { drop(m->manager_ctx); }

/* The elements where they lie, if that is row-major in memory that no commit of a cell changes: a view keeps them. */
static const void *share(const char *site, tj_ctx *c, const kit_tensor *t, exported *e)
{
	tj_scope *s = tj_push_at(site, c);
	tj_tensor *view = tj_retain_at(site, tj_reshape_at(site, t->t, t->dim));
	const void *p = tj_data_at(site, view);
	const bool in_place = !tj_is_poison(view) && p == tj_data_at(site, view); /* another copy each time */
	tj_pop_at(site, s);
	if (in_place) return e->kept = view, p;
	if (!tj_is_poison(view)) tj_release_at(site, view);
	return NULL;
}

static void describe(const kit_tensor *t, exported *e, const void *data)
{
	DLTensor *d = &e->m.dl_tensor;
	int64_t stride = 1;
	for (int i = t->rank; i--; stride *= t->dim[i] ? t->dim[i] : 1) e->shape[i] = t->dim[i], e->strides[i] = stride;
	*d = (DLTensor){ .data = (void *)(uintptr_t)data, .device = { kDLCPU, 0 }, .ndim = t->rank, .shape = e->shape, .strides = e->strides };
	for (int i = 0; i < TYPES; i++)
		if (types[i].dtype == t->dtype) d->dtype = (DLDataType){ types[i].code, types[i].bits, 1 };
	e->m.version = (DLPackVersion){ 1, 0 };
	e->m.manager_ctx = e->legacy.manager_ctx = e;
	e->m.deleter = delete_one;
	e->m.flags = e->kept ? DLPACK_FLAG_BITMASK_READ_ONLY : DLPACK_FLAG_BITMASK_IS_COPIED;
	e->legacy.dl_tensor = *d;
	e->legacy.deleter = delete_legacy;
}

static exported *export(const char *site, tj_tensor *t, bool shared)
{
	static const char op[] = "to_dlpack";
	kit_why w = { 0 };
	kit_tensor k;
	tj_ctx *c = tj_ctx_current();
	exported *e = NULL;
	if (!c || tj_in_body(c)) {
		tj_fail_at(site, TJ_ERR_STATE, op, "call it when tj_call() has returned", c ? "tj_to_dlpack() is not allowed in a body" : "no context");
		return NULL;
	}
	bool ok = kit_describe(site, t, &k, &w);
	if (ok && tj_device_of(t) != TJ_CPU)
		ok = kit_no(&w, TJ_ERR_DEVICE, "the tensor is on %s; tj_to() copies it to the CPU", tj_device_name(tj_device_of(t)));
	ok = ok && ((e = calloc(1, sizeof *e)) || kit_no_memory(&w));
	const void *data = ok && shared ? share(site, c, &k, e) : NULL;
	if (ok && !data && (ok = kit_fetch(site, &k, &e->copy, &w))) data = e->copy.data;
	if (ok) return describe(&k, e, data), e;
	if (*w.text) kit_report(site, op, NULL, &w);
	free(e);
	return NULL;
}

DLManagedTensorVersioned *tj_to_dlpack_at(const char *site, tj_tensor *t)
{
	exported *e = export(site, t, true);
	return e ? &e->m : NULL;
}

DLManagedTensor *tj_to_dlpack_legacy_at(const char *site, tj_tensor *t)
{
	exported *e = export(site, t, false);
	return e ? &e->legacy : NULL;
}

/* ---- import ---- */
typedef struct imported { /* what tj_wrap() gets */
	tj_dtype dtype;
	tj_device device;
	int64_t dim[TJ_MAX_RANK + 1], strides[TJ_MAX_RANK + 1];
	const char *data;
	int64_t n; /* elements */
} imported;

static bool read_dtype(const DLTensor *d, imported *x, kit_why *w)
{
	const DLDataType t = d->dtype;
	if (t.lanes != 1) return kit_no(w, TJ_ERR_DTYPE, "its elements are vectors of %d; tjit has none", t.lanes);
	for (int i = 0; i < TYPES; i++)
		if (types[i].code == t.code && types[i].bits == t.bits) return x->dtype = types[i].dtype, true;
	return kit_no(w, TJ_ERR_DTYPE, "its dtype, code %d of %d bits, is not one of tjit", t.code, t.bits);
}

static bool read_device(const DLTensor *d, imported *x, kit_why *w)
{
	char name[32] = "cpu";
	if (d->device.device_type == kDLCUDA) snprintf(name, sizeof name, "cuda:%d", (int)d->device.device_id);
	else if (d->device.device_type != kDLCPU && d->device.device_type != kDLCUDAHost)
		return kit_no(w, TJ_ERR_DEVICE, "it is on a device of type %d; tjit has CPUs (1, 3) and GPUs of CUDA (2)", (int)d->device.device_type);
	x->device = tj_find_device(name);
	return x->device >= 0 || kit_no(w, TJ_ERR_DEVICE, "it is on %s, which tjit does not have", name);
}

static bool read_shape(const DLTensor *d, imported *x, kit_why *w)
{
	if (d->ndim < 0 || d->ndim > TJ_MAX_RANK) return kit_no(w, TJ_ERR_LIMIT, "it has %d axes; %d are possible", (int)d->ndim, TJ_MAX_RANK);
	if (d->ndim && !d->shape) return kit_no(w, TJ_ERR_SHAPE, "its shape is NULL");
	x->n = 1;
	x->dim[d->ndim] = x->strides[d->ndim] = TJ_END_DIM;
	for (int i = d->ndim; i--;) {
		if (d->shape[i] < 0) return kit_no(w, TJ_ERR_SHAPE, "axis %d has size %lld", i, (long long)d->shape[i]);
		x->dim[i] = d->shape[i];
		x->strides[i] = d->strides ? d->strides[i] : x->n;
		if (__builtin_mul_overflow(x->n, d->shape[i] ? d->shape[i] : 1, &x->n) || x->n > INT64_MAX / 16)
			return kit_no(w, TJ_ERR_LIMIT, "it has too many elements");
	}
	for (int i = 0; i < d->ndim; i++)
		if (!d->shape[i]) x->n = 0;
	return true;
}

/* tjit's bools are 0 or 1, and those of others any byte. */
static bool check_bools(const imported *x, int rank, kit_why *w)
{
	if (x->dtype != TJ_BOOL || x->device != TJ_CPU) return true;
	for (int64_t i = 0; i < x->n; i++) {
		int64_t at = 0, rest = i;
		for (int k = rank; k--; rest /= x->dim[k]) at += rest % x->dim[k] * x->strides[k];
		if ((unsigned char)x->data[at] > 1) return kit_no(w, TJ_ERR_ARG, "its bool %lld is %d", (long long)i, (unsigned char)x->data[at]);
	}
	return true;
}

static bool read_tensor(const DLTensor *d, imported *x, kit_why *w)
{
	if (!read_dtype(d, x, w) || !read_device(d, x, w) || !read_shape(d, x, w)) return false;
	if (!d->data && x->n) return kit_no(w, TJ_ERR_ARG, "its data are NULL");
	x->data = d->data ? (const char *)d->data + d->byte_offset : NULL;
	if ((uintptr_t)x->data % tj_dtype_size(x->dtype))
		return kit_no(w, TJ_ERR_ARG, "its data are not aligned to %zu bytes", tj_dtype_size(x->dtype));
	return check_bools(x, d->ndim, w);
}

static tj_tensor *import(const char *site, tj_ctx *c, const DLTensor *d, void (*release)(void *), void *env)
{
	static const double nothing = 0;
	kit_why w = { 0 };
	imported x = { 0 };
	if (!read_tensor(d, &x, &w)) return kit_report(site, "from_dlpack", NULL, &w);
	const void *data = x.data ? (const void *)x.data : &nothing;
	return tj_wrap_on_at(site, c, x.device, x.dtype, x.dim, x.strides, data, release, env);
}

static void release_one(void *env)
{
	DLManagedTensorVersioned *m = env;
	if (m->deleter) m->deleter(m);
}
static void release_legacy(void *env)
{
	DLManagedTensor *m = env;
	if (m->deleter) m->deleter(m);
}

tj_tensor *tj_from_dlpack_at(const char *site, tj_ctx *c, DLManagedTensorVersioned *m)
{
	kit_why w = { 0 };
	if (!m) kit_no(&w, TJ_ERR_ARG, "it is NULL");
	else if (m->version.major != 1)
		kit_no(&w, TJ_ERR_ARG, "it has version %u.%u of DLPack; 1 is read", (unsigned)m->version.major, (unsigned)m->version.minor);
	return *w.text ? kit_report(site, "from_dlpack", NULL, &w) : import(site, c, &m->dl_tensor, release_one, m);
}

tj_tensor *tj_from_dlpack_legacy_at(const char *site, tj_ctx *c, DLManagedTensor *m)
{
	if (!m) return tj_fail_at(site, TJ_ERR_ARG, "from_dlpack", NULL, "it is NULL");
	return import(site, c, &m->dl_tensor, release_legacy, m);
}
