// What CUDA C has and C++ lacks, for kernels that run on the CPU. The fake NVRTC puts it before the text of a program.
#include "test/fake/fake.h"
#include <math.h>
#include <string.h>
extern "C" { struct fake_place fake_place; struct fake_hooks fake_hooks; __attribute__((aligned(64))) char tj_shared[(228 << 10) + 64]; }
#define __global__
#define __device__ static
#define __forceinline__ inline
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __grid_constant__
#define threadIdx fake_place.thread
#define blockIdx fake_place.block
#define gridDim fake_place.grid
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline void __syncthreads() { fake_hooks.barrier(); }
template <class T> static inline T fake_shuffle(unsigned mask, T v, int from)
{
	unsigned long long w = 0;
	memcpy(&w, &v, sizeof v);
	w = fake_hooks.shuffle(mask, w, from);
	memcpy(&v, &w, sizeof v);
	return v;
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from) { return fake_shuffle(mask, v, from); }
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, int n) { return fake_shuffle(mask, v, -n); }
static inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
static inline double __longlong_as_double(long long i) { double f; memcpy(&f, &i, 8); return f; }
static inline long long __double_as_longlong(double f) { long long i; memcpy(&i, &f, 8); return i; }
static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long was, unsigned long long v)
{
	const unsigned long long now = *p;
	if (now == was) *p = v;
	return now;
}
#define TJ_CONVERTS /* the only part of the prelude that differs: conversions by PTX */
static inline float tj_from_f16(unsigned short h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
static inline unsigned short tj_to_f16(float f) { const _Float16 x = (_Float16)f; unsigned short h; memcpy(&h, &x, 2); return h; }
static inline float tj_from_bf16(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }
static inline unsigned short tj_to_bf16(float f)
{
	const unsigned u = (unsigned)__float_as_int(f);
	return f != f ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
