/* strided: elements of a tensor from one place to another, each side with strides of its own. */
#ifndef TJ_RUNTIME_STRIDED_H
#define TJ_RUNTIME_STRIDED_H

#include "runtime/base.h"

/* Strides in elements, of any sign; size: bytes of an element. The two places do not overlap. */
void rt_copy_strided(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to, const int64_t *to_stride);
/* The same into a row-major place. */
void rt_pack(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *stride, void *to);

#endif
