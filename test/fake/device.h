/* SPDX-License-Identifier: MIT */
// What CUDA C has and C++ lacks, for kernels that run on the CPU. The fake NVRTC puts it before the text of a program; it includes
// nothing but fake.h, because a header of the C library would take longer to compile than a program.
typedef __SIZE_TYPE__ size_t;
#include "test/fake/fake.h"
extern "C" {
extern struct fake_place fake_place;
extern struct fake_hooks fake_hooks;
extern char tj_shared[];
#define FAKE_MATHS(f, T) \
	T fabs##f(T); \
	T sqrt##f(T); \
	T fma##f(T, T, T); \
	T floor##f(T); \
	T ceil##f(T); \
	T rint##f(T); \
	T trunc##f(T); \
	T ldexp##f(T, int);
FAKE_MATHS(f, float)
FAKE_MATHS(, double)
}
#define __global__
#define __device__ static
#define __forceinline__ inline
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx fake_place.thread
#define blockIdx fake_place.block
#define gridDim fake_place.grid
#define blockDim fake_place.size
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
template <class T> static inline T fake_shuffle(unsigned mask, T v, int lane, int site)
{
	unsigned long long w = 0;
	__builtin_memcpy(&w, &v, sizeof v);
	w = fake_hooks.shuffle(mask, w, lane, site);
	__builtin_memcpy(&v, &w, sizeof v);
	return v;
}
#define FAKE_LANE ((int)(threadIdx.x % 32))
#define __shfl_sync(mask, v, from) fake_shuffle(mask, v, from, __COUNTER__)
#define __shfl_down_sync(mask, v, n) fake_shuffle(mask, v, FAKE_LANE + (int)(n), __COUNTER__)
#define __shfl_up_sync(mask, v, n) fake_shuffle(mask, v, FAKE_LANE - (int)(n), __COUNTER__)
#define __shfl_xor_sync(mask, v, n) fake_shuffle(mask, v, FAKE_LANE ^ (int)(n), __COUNTER__)
static inline unsigned fake_ballot(unsigned mask, bool mine, int site)
{
	unsigned all = 0;
	for (int i = 0; i < 32; i++) all |= fake_shuffle(mask, (unsigned)mine, i, site) << i;
	return all;
}
#define __ballot_sync(mask, mine) fake_ballot(mask, mine, __COUNTER__)
#define __ffs(x) __builtin_ffs(x)
#define __syncthreads() fake_hooks.barrier(__COUNTER__)
#define __syncwarp() fake_hooks.sync_warp(~0u, __COUNTER__)
#define atomicCAS fake_hooks.swap
template <class To, class From> static inline To fake_bits(From v) { To t; __builtin_memcpy(&t, &v, sizeof t); return t; }
#define __int_as_float fake_bits<float, int>
#define __float_as_int fake_bits<int, float>
#define __longlong_as_double fake_bits<double, long long>
#define __double_as_longlong fake_bits<long long, double>
#define TJ_CONVERTS /* the only part of the prelude that differs: conversions by PTX */
typedef short fake_halves __attribute__((vector_size(16)));
typedef float fake_floats __attribute__((vector_size(16)));
static inline float tj_from_f16(unsigned short h) { const fake_halves v = { (short)h }; return __builtin_ia32_vcvtph2ps(v)[0]; }
static inline unsigned short tj_to_f16(float f) { const fake_floats v = { f }; return (unsigned short)__builtin_ia32_vcvtps2ph(v, 0)[0]; }
static inline float tj_from_bf16(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }
static inline unsigned short tj_to_bf16(float f)
{
	const unsigned u = (unsigned)__float_as_int(f);
	return f != f ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
