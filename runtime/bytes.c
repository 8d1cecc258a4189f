/* SPDX-License-Identifier: MIT */
/* Copies with strides on the host (the last axis by a loop for each element size, the others by counters), and copies between
 * devices. */
#include "runtime/bytes.h"
#include "runtime/device.h"

#include <immintrin.h>
#include <stdlib.h>

/* Elements of 1, 2, 4 or 8 bytes, of any dtype. */
typedef uint8_t __attribute__((may_alias)) of1;
typedef uint16_t __attribute__((may_alias)) of2;
typedef uint32_t __attribute__((may_alias)) of4;
typedef uint64_t __attribute__((may_alias)) of8;

typedef struct row { int64_t n, from, to; size_t size; } row; /* from, to: strides in elements */

static void copy_row(const row *r, const char *from, char *to)
{
	if (r->from == 1 && r->to == 1) {
		memcpy(to, from, (size_t)r->n * r->size);
		return;
	}
#define EACH(type) for (int64_t i = 0; i < r->n; i++) ((type *)to)[i * r->to] = ((const type *)from)[i * r->from]
	switch (r->size) {
	case 1: EACH(of1); break;
	case 2: EACH(of2); break;
	case 4: EACH(of4); break;
	default: EACH(of8);
	}
#undef EACH
}

enum { SHORT = 16, BLOCK = 512 }; /* elements: a last axis that is short; rows of the axis before it that are copied together */

/* Rows whose bytes lie in 16, as pixels that are reversed, which become adjacent: some of them are loaded, shuffled and stored at once.
 * Returns how many rows are done: no load or store goes beyond the last one. */
__attribute__((target("ssse3"))) static int64_t shuffle_rows(const row *last, const row *before, const char *from, char *to)
{
	const int64_t size = (int64_t)last->size, step = before->from * size, bytes = last->n * size;
	const int64_t first = last->from < 0 ? (last->n - 1) * last->from * size : 0, span = (last->n - 1) * llabs(last->from) * size + size;
	int64_t rows = 0, i = 0;
	char place[16];
	if (last->to != 1 || before->to != last->n || step < 1) return 0;
	while ((rows + 1) * bytes <= 16 && rows * step + span <= 16) rows++;
	if (rows < 2) return 0;
	for (int64_t b = 0; b < 16; b++) {
		const int64_t at = b / bytes, k = b % bytes / size;
		place[b] = (char)(at < rows ? at * step + k * last->from * size - first + b % size : 0);
	}
	const __m128i order = _mm_loadu_si128((const __m128i *)place);
	for (; (before->n - 1 - i) * step + span >= 16 && (before->n - i) * bytes >= 16; i += rows) {
		const __m128i x = _mm_loadu_si128((const __m128i *)(from + i * step + first));
		_mm_storeu_si128((__m128i *)(to + i * bytes), _mm_shuffle_epi8(x, order));
	}
	return i;
}

/* The last two axes, of which the last one is short: elements of many rows, one index of the last axis after the other. */
static void copy_short(const row *last, const row *before, const char *from, char *to)
{
	const int64_t size = (int64_t)last->size;
	for (int64_t i = __builtin_cpu_supports("ssse3") ? shuffle_rows(last, before, from, to) : 0; i < before->n; i += BLOCK) {
		row r = *before;
		if (r.n - i > BLOCK) r.n = BLOCK;
		else r.n -= i;
		for (int64_t k = 0; k < last->n; k++)
			copy_row(&r, from + (i * r.from + k * last->from) * size, to + (i * r.to + k * last->to) * size);
	}
}

void rt_copy_strided(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to,
                     const int64_t *to_stride)
{
	int64_t at[TJ_MAX_RANK] = { 0 }, f = 0, t = 0, step = (int64_t)size;
	const int last = rank - 1;
	const row r = rank ? (row){ dim[last], from_stride[last], to_stride[last], size } : (row){ 1, 1, 1, size };
	const bool brief = rank > 1 && dim[last] <= SHORT && dim[last - 1] > dim[last];
	const row before = brief ? (row){ dim[last - 1], from_stride[last - 1], to_stride[last - 1], size } : r;
	for (int d = 0; d < rank; d++)
		if (!dim[d]) return;
	for (int d;;) {
		const char *x = (const char *)from + f * step;
		if (brief) copy_short(&r, &before, x, (char *)to + t * step);
		else copy_row(&r, x, (char *)to + t * step);
		for (d = last - 1 - brief; d >= 0; d--) {
			f += from_stride[d];
			t += to_stride[d];
			if (++at[d] < dim[d]) break;
			f -= at[d] * from_stride[d];
			t -= at[d] * to_stride[d];
			at[d] = 0;
		}
		if (d < 0) return;
	}
}

void rt_pack(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *stride, void *to)
{
	int64_t row_major[TJ_MAX_RANK], n = 1;
	for (int d = rank; d-- > 0; n *= dim[d]) row_major[d] = n;
	rt_copy_strided(rank, dim, size, from, stride, to, row_major);
}

/* ---- devices ---- */
static tj_status no_memory(rt_err *err, int64_t bytes)
{
	return rt_fail(err, TJ_ERR_NOMEM, "copy", "no memory for %lld bytes", (long long)bytes);
}

tj_status rt_bytes_write(rt_pool *p, int device, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (RT_LIKELY(device == RT_CPU)) {
		if (bytes) memcpy(to, from, bytes);
		return TJ_OK;
	}
	rt_queue *q = rt_pool_queue(p, device, err);
	return q ? rt_device_at(device)->write(q, to, from, bytes, err) : err->code;
}

/* To the host; waits for the queue. */
static tj_status read_bytes(rt_pool *p, int device, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (RT_LIKELY(device == RT_CPU)) {
		if (bytes) memcpy(to, from, bytes);
		return TJ_OK;
	}
	rt_queue *q = rt_pool_queue(p, device, err);
	if (!q || rt_pool_settle(p, device, err) != TJ_OK) return err->code;
	return rt_device_at(device)->read(q, to, from, bytes, err);
}

tj_status rt_bytes_zero(rt_pool *p, int device, void *to, size_t bytes, rt_err *err)
{
	if (RT_LIKELY(device == RT_CPU)) {
		memset(to, 0, bytes);
		return TJ_OK;
	}
	rt_queue *q = rt_pool_queue(p, device, err);
	return q ? rt_device_at(device)->zero(q, to, bytes, err) : err->code;
}

static int64_t row_major_strides(const rt_elements *e, int64_t *stride)
{
	int64_t n = 1;
	for (int d = e->rank; d-- > 0; n *= e->dim[d]) stride[d] = n;
	return n;
}

/* Copies within the host or within one device. */
static tj_status copy_there(rt_pool *p, const rt_elements *e, const int64_t *row_major, void *to, rt_err *err)
{
	const int64_t *stride = e->stride ? e->stride : row_major;
	if (e->device == RT_CPU) {
		rt_copy_strided(e->rank, e->dim, e->size, e->data, stride, to, row_major);
		return TJ_OK;
	}
	rt_queue *q = rt_pool_queue(p, e->device, err);
	return q ? rt_device_at(e->device)->copy(q, e->rank, e->dim, e->size, e->data, stride, to, row_major, err) : err->code;
}

/* Copies from one device to another through the host; elements that are not row-major are first packed on their device. */
static tj_status carry(rt_pool *p, const rt_elements *e, const int64_t *row_major, size_t bytes, int device, void *to, rt_err *err)
{
	const bool pack = !rt_is_row_major(e->rank, e->dim, e->stride);
	const rt_device *from = rt_device_at(e->device);
	void *packed = pack && from ? rt_device_alloc(e->device, bytes) : NULL, *host = device == RT_CPU ? to : NULL;
	const void *at = e->data;
	tj_status st = pack && from && !packed ? no_memory(err, (int64_t)bytes) : TJ_OK;
	if (!host && (from || pack) && !(host = rt_alloc(bytes))) st = no_memory(err, (int64_t)bytes);
	if (st == TJ_OK && pack) st = copy_there(p, e, row_major, from ? packed : host, err), at = from ? packed : host;
	if (st == TJ_OK && from) st = read_bytes(p, e->device, host, at, bytes, err), at = host;
	if (st == TJ_OK && device != RT_CPU) st = rt_bytes_write(p, device, to, at, bytes, err);
	if (packed) {
		rt_err ignored = { 0 };
		if (st != TJ_OK) rt_pool_doubt(p, e->device);
		rt_pool_settle(p, e->device, st == TJ_OK ? err : &ignored); /* the copy may not have run yet */
		rt_device_free(e->device, packed, bytes);
	}
	if (host != to) rt_free(host);
	return st;
}

tj_status rt_bytes_copy(rt_pool *p, const rt_elements *e, int device, void *to, rt_err *err)
{
	int64_t row_major[TJ_MAX_RANK], n = row_major_strides(e, row_major);
	if (!n) return TJ_OK;
	if (e->device != device) return carry(p, e, row_major, (size_t)n * e->size, device, to, err);
	if (device == RT_CPU && rt_is_row_major(e->rank, e->dim, e->stride)) {
		memcpy(to, e->data, (size_t)n * e->size);
		return TJ_OK;
	}
	return copy_there(p, e, row_major, to, err);
}

/* ---- tensors ---- */
tj_status rt_buffer_write(rt_pool *p, rt_buffer *b, const void *from, size_t bytes, rt_err *err)
{
	tj_status st = rt_buffer_before(b, p, true, err);
	if (st == TJ_OK) st = rt_bytes_write(p, b->device, b->data, from, bytes, err);
	rt_buffer_after_host(b, p);
	return st;
}

tj_status rt_buffer_zero(rt_pool *p, rt_buffer *b, size_t bytes, rt_err *err)
{
	tj_status st = rt_buffer_before(b, p, true, err);
	if (st == TJ_OK) st = rt_bytes_zero(p, b->device, b->data, bytes, err);
	rt_buffer_after_host(b, p);
	return st;
}

static rt_elements elements(const rt_layout *l, const void *data)
{
	return (rt_elements){ l->device, l->rank, tj_dtype_size((tj_dtype)l->dtype), l->dim, l->contiguous ? NULL : rt_strides(l), data };
}

tj_status rt_tensor_read(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, void *to, rt_err *err)
{
	const rt_elements e = elements(l, data);
	if (RT_LIKELY(l->device == RT_CPU)) return rt_bytes_copy(p, &e, RT_CPU, to, err);
	tj_status st = rt_pool_settle(p, l->device, err); /* before the check for lost values: a fault that it finds may make this value lost */
	if (st == TJ_OK) st = rt_buffer_before(b, p, false, err);
	return st == TJ_OK ? rt_bytes_copy(p, &e, RT_CPU, to, err) : st; /* it has waited, so there is no read to mark */
}

tj_status rt_tensor_copy(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, rt_buffer *to, rt_err *err)
{
	const rt_elements e = elements(l, data);
	tj_status st = rt_buffer_before(to, p, true, err);
	if (st == TJ_OK && b) st = rt_buffer_before(b, p, false, err);
	if (st == TJ_OK) st = rt_bytes_copy(p, &e, to->device, to->data, err);
	if (b) rt_buffer_after(b, p, false);
	rt_buffer_after(to, p, true);
	return st;
}

const void *rt_tensor_see(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, void **copy, rt_err *err)
{
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)l->dtype);
	int64_t low = 0, high = 0;
	*copy = NULL;
	if (l->device == RT_CPU) return data;
	if (l->numel) rt_extent(l->rank, l->dim, rt_strides(l), &low, &high);
	const int64_t bytes = l->numel ? (high - low + 1) * size : 0;
	*copy = rt_alloc((size_t)bytes + 1);
	if (!*copy) return no_memory(err, bytes), NULL;
	if (rt_pool_settle(p, l->device, err) == TJ_OK && rt_buffer_before(b, p, false, err) == TJ_OK &&
	    read_bytes(p, l->device, *copy, (const char *)data + low * size, (size_t)bytes, err) == TJ_OK)
		return (const char *)*copy - low * size;
	rt_free(*copy);
	*copy = NULL;
	return NULL;
}
