/* SPDX-License-Identifier: MIT */
/* bytes: the only functions that write, read, fill, copy and pack elements of tensors, on all devices. */
#ifndef TJ_RUNTIME_BYTES_H
#define TJ_RUNTIME_BYTES_H

#include "runtime/buffer.h"
#include "runtime/layout.h"

/* ---- on the host. Strides: in elements, of any sign; size: bytes of an element. `from` and `to` must not overlap. ---- */
void rt_copy_strided(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to,
                     const int64_t *to_stride);
/* The same, with a row-major `to`. */
void rt_pack(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *stride, void *to);

/* ---- on any device; work goes into the pool's queue of that device. Errors: out of memory, or a late fault of earlier work. ---- */
tj_status rt_bytes_write(rt_pool *p, int device, void *to, const void *from, size_t bytes, rt_err *err); /* from the host */

tj_status rt_bytes_zero(rt_pool *p, int device, void *to, size_t bytes, rt_err *err);

/* Elements of a tensor, to be copied row-major to the same or another device. */
typedef struct rt_elements {
	int device, rank;
	size_t size;              /* bytes of an element */
	const int64_t *dim, *stride; /* stride in elements; NULL: row-major */
	const void *data;         /* element 0 */
} rt_elements;
tj_status rt_bytes_copy(rt_pool *p, const rt_elements *from, int device, void *to, rt_err *err);

/* ---- the same for tensors; they wait for work of other queues on the buffers (rt_buffer_before). data: element 0 of a tensor with
 * layout l, in buffer b. ---- */
tj_status rt_buffer_write(rt_pool *p, rt_buffer *b, const void *from, size_t bytes, rt_err *err); /* from the host, to the buffer's start */
tj_status rt_buffer_zero(rt_pool *p, rt_buffer *b, size_t bytes, rt_err *err);
/* row-major, to the host */
tj_status rt_tensor_read(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, void *to, rt_err *err);
/* row-major, to the start of `to` */
tj_status rt_tensor_copy(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, rt_buffer *to, rt_err *err);
/* The address of element 0 of a tensor for the host to read, with the strides of l. On the CPU it is data. Else the tensor's bytes are
 * copied to *copy, which the caller rt_free()s. NULL: err is set. */
const void *rt_tensor_see(rt_pool *p, const rt_layout *l, rt_buffer *b, const void *data, void **copy, rt_err *err);

#endif
