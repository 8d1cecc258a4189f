/* strided: the last axis in a loop of its own for each size of element, the others by an odometer. */
#include "runtime/strided.h"

/* Bytes of any dtype. */
typedef uint8_t __attribute__((may_alias)) of1;
typedef uint16_t __attribute__((may_alias)) of2;
typedef uint32_t __attribute__((may_alias)) of4;
typedef uint64_t __attribute__((may_alias)) of8;

typedef struct row { int64_t n, from, to; size_t size; } row; /* steps in elements */

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

void rt_copy_strided(int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to, const int64_t *to_stride)
{
	int64_t at[TJ_MAX_RANK] = { 0 }, f = 0, t = 0, step = (int64_t)size;
	const int last = rank - 1;
	const row r = rank ? (row){ dim[last], from_stride[last], to_stride[last], size } : (row){ 1, 1, 1, size };
	for (int d = 0; d < rank; d++)
		if (!dim[d]) return;
	for (int d;;) {
		copy_row(&r, (const char *)from + f * step, (char *)to + t * step);
		for (d = last - 1; d >= 0; d--) {
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
