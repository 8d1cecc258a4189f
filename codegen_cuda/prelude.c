/* SPDX-License-Identifier: MIT */
/* prelude: the functions of CUDA C that the texts of kernels call. Those that a program calls stand once before its kernels. */
#include "codegen_cuda/cu.h"

/* What all kernels need, and accesses of 16 bytes at the most. An address that is not known to be aligned is looked at; it is the same for
 * all threads of a warp, modulo 16 bytes, so the branch is uniform. A store behind such a branch is PTX, since NVRTC 13 makes a store for
 * each element of it; its address is in global memory, because kept rows are known to be aligned. The fake NVRTC (TJ_CONVERTS) has no PTX.
 */
static const char accesses[] =
	"#define TJ_UNROLL _Pragma(\"unroll\")\n"
	"#define TJ_ROLLED _Pragma(\"unroll 1\")\n"
	"extern __shared__ __align__(16) char tj_shared[];\n"
	"struct tj_faults { unsigned long long first; volatile unsigned long long *word; };\n"
	"template <int bytes> struct tj_vector;\n"
	"template <> struct tj_vector<1> { typedef unsigned char type; };\n"
	"template <> struct tj_vector<2> { typedef unsigned short type; };\n"
	"template <> struct tj_vector<4> { typedef unsigned int type; };\n"
	"template <> struct tj_vector<8> { typedef uint2 type; };\n"
	"template <> struct tj_vector<16> { typedef uint4 type; };\n"
	"template <int n, class T> union tj_many {\n\tenum { vectors = n * sizeof(T) < 16 ? 1 : n * sizeof(T) / 16 };\n"
	"\ttypedef typename tj_vector<n * sizeof(T) / vectors>::type vector;\n\tT x[n];\n\tvector v[vectors];\n};\n"
	"template <bool aligned, int E, class T> __device__ __forceinline__ bool tj_whole(const T *p, int n) /* one access can take all E "
	"elements */\n{\n"
	"\treturn n == E && (aligned || (unsigned long long)p % sizeof(typename tj_many<E, T>::vector) == 0);\n}\n"
	"template <bool aligned, int E, class T> __device__ __forceinline__ void tj_load(T (&x)[E], const T *p, int n)\n{\n"
	"\tif (tj_whole<aligned, E>(p, n)) {\n\t\ttypedef tj_many<E, T> many;\n\t\tmany m;\n"
	"\t\tTJ_UNROLL for (int i = 0; i < many::vectors; i++) m.v[i] = ((const typename many::vector *)p)[i];\n"
	"\t\tTJ_UNROLL for (int j = 0; j < E; j++) x[j] = m.x[j];\n"
	"\t} else TJ_UNROLL for (int j = 0; j < E; j++) if (j < n) x[j] = p[j];\n}\n"
	"template <bool anywhere, class V> __device__ __forceinline__ void tj_put(V *p, V v) { *p = v; }\n"
	"#ifndef TJ_CONVERTS\n"
	"template <> __device__ __forceinline__ void tj_put<false, uint4>(uint4 *p, uint4 v) { asm volatile(\"st.global.v4.b32 [%0], {%1, %2, "
	"%3, %4};\" :: \"l\"(p), \"r\"(v.x), \"r\"(v.y), \"r\"(v.z), \"r\"(v.w) : \"memory\"); }\n"
	"template <> __device__ __forceinline__ void tj_put<false, uint2>(uint2 *p, uint2 v) { asm volatile(\"st.global.v2.b32 [%0], {%1, "
	"%2};\" :: \"l\"(p), \"r\"(v.x), \"r\"(v.y) : \"memory\"); }\n"
	"#endif\n"
	"template <bool aligned, int E, class T> __device__ __forceinline__ void tj_store(T *p, const T (&x)[E], int n)\n{\n"
	"\tif (tj_whole<aligned, E>(p, n)) {\n\t\ttypedef tj_many<E, T> many;\n\t\tmany m;\n"
	"\t\tTJ_UNROLL for (int j = 0; j < E; j++) m.x[j] = x[j];\n"
	"\t\tTJ_UNROLL for (int i = 0; i < many::vectors; i++) tj_put<aligned>((typename many::vector *)p + i, m.v[i]);\n"
	"\t} else TJ_UNROLL for (int j = 0; j < E; j++) if (j < n) p[j] = x[j];\n}\n";

/* Reductions in the order of ir/tree.c. a: the lanes of a thread; f(x, y): x op y, x from the left.
 *
 *   tj_carry   puts a complete chunk on the stack k: blocks of 2^l chunks, as a binary counter of m carries. Without branches: fewer
 *              registers
 *   tj_fold    a = what is left on the stack, from the right
 *   tj_join    a of the first warp = all warps' a, neighbours in pairs; `slot` is the thread's place in its warp
 *   tj_halve   the lanes of a group of `span` threads, E adjacent ones each: lane l with lane l + half, until one is left. In each of the
 *              first steps a thread gives half of its lanes away, so E lanes cost E - 1 shuffles, not E for each step:
 *
 *                thread t has lanes 4t to 4t+3  --xor 16-->  2 of 64 lanes  --xor 8-->  1 of 32 lanes  --xor 4, 2, 1, 16, 8-->  all have
 *                                               the result */
static const char trees[] =
	"template <int N, class T> __device__ __forceinline__ void tj_fill(T (&a)[N], T x) { TJ_UNROLL for (int j = 0; j < N; j++) a[j] = x; }\n"
	"template <int L, int N, class T, class F> __device__ __forceinline__ void tj_carry(T (&k)[L][N], int &m, T (&a)[N], T none, F f)\n{\n"
	"\tbool up = true;\n"
	"\tTJ_UNROLL for (int l = 0; l < L; l++) {\n\t\tconst bool full = m >> l & 1;\n"
	"\t\tTJ_UNROLL for (int j = 0; j < N; j++) {\n\t\t\tconst T both = f(k[l][j], a[j]);\n"
	"\t\t\tif (up & !full) k[l][j] = a[j];\n\t\t\tif (up & full) a[j] = both;\n\t\t}\n\t\tup &= full;\n\t}\n"
	"\tm++;\n\ttj_fill(a, none);\n}\n"
	"template <int L, int N, class T, class F> __device__ __forceinline__ void tj_fold(const T (&k)[L][N], int m, T (&a)[N], F f)\n{\n"
	"\tTJ_UNROLL for (int l = 0; l < L; l++) if (m >> l & 1) TJ_UNROLL for (int j = 0; j < N; j++) a[j] = f(k[l][j], a[j]);\n}\n"
	"template <int W, int span, int N, class T, class F> __device__ __forceinline__ void tj_join(T (&a)[N], T *area, int mine, int slot, F "
	"f)\n{\n"
	"\tTJ_ROLLED for (int h = 1; h < W; h *= 2) {\n"
	"\t\tif ((mine & (2 * h - 1)) == h) TJ_UNROLL for (int j = 0; j < N; j++) area[(mine * N + j) * span + slot] = a[j];\n"
	"\t\t__syncthreads();\n"
	"\t\tif ((mine & (2 * h - 1)) == 0) TJ_UNROLL for (int j = 0; j < N; j++) a[j] = f(a[j], area[((mine + h) * N + j) * span + slot]);\n"
	"\t\t__syncthreads();\n\t}\n}\n"
	"template <class T> __device__ __forceinline__ T tj_across(T x, int h) { return __shfl_sync(~0u, x, (int)threadIdx.x % 32 ^ h); }\n"
	"template <class T, class F> __device__ __forceinline__ T tj_pair(T mine, T other, int h, F f) \n{\n"
	"\tconst T x = threadIdx.x & h ? other : mine, y = threadIdx.x & h ? mine : other;\n\treturn f(x, y);\n}\n"
	"template <int span, int E, class T, int N, class F> __device__ __forceinline__ T tj_halve(const T (&a)[N], F f)\n{\n"
	"\tconst bool up = threadIdx.x & span / 2, high = threadIdx.x & span / 4;\n\tT x = a[0];\n"
	"\tif constexpr (E == 4) {\n"
	"\t\tconst T p = tj_pair(up ? a[2] : a[0], tj_across(up ? a[0] : a[2], span / 2), span / 2, f);\n"
	"\t\tconst T q = tj_pair(up ? a[3] : a[1], tj_across(up ? a[1] : a[3], span / 2), span / 2, f);\n"
	"\t\tx = tj_pair(high ? q : p, tj_across(high ? p : q, span / 4), span / 4, f);\n"
	"\t} else if constexpr (E == 2) x = tj_pair(up ? a[1] : a[0], tj_across(up ? a[0] : a[1], span / 2), span / 2, f);\n"
	"\tTJ_UNROLL for (int h = span / (2 * E); h >= 1; h /= 2) x = tj_pair(x, tj_across(x, h), h, f);\n"
	"\tTJ_UNROLL for (int h = span / 2; h > span / (2 * E); h /= 2) x = tj_pair(x, tj_across(x, h), h, f);\n"
	"\treturn x;\n}\n";

/* A row of more chunks than the warps of a unit take at a time is walked in passes. What all warps together have after each pass goes to a
 * stack in shared memory, as tj_carry does it. area: of the unit, for one slot. */
static const char passes[] =
	"enum { tj_levels = 20 };\n"
	"template <int span, int N, class T, class F> __device__ __forceinline__ void tj_push(T (&a)[N], T *area, int slot, int pass, T none, F "
	"f)\n{\n"
	"\tint l = 0;\n"
	"\tTJ_ROLLED for (; pass >> l & 1; l++) TJ_UNROLL for (int j = 0; j < N; j++) a[j] = f(area[(l * N + j) * span + slot], a[j]);\n"
	"\tTJ_UNROLL for (int j = 0; j < N; j++) area[(l * N + j) * span + slot] = a[j];\n"
	"\ttj_fill(a, none);\n}\n"
	"template <int span, int N, class T, class F> __device__ __forceinline__ void tj_pop(T (&a)[N], const T *area, int slot, int pass, F "
	"f)\n{\n"
	"\tTJ_ROLLED for (int l = 0; l < tj_levels; l++) if (pass >> l & 1) TJ_UNROLL for (int j = 0; j < N; j++) a[j] = f(area[(l * N + j) * "
	"span + slot], a[j]);\n}\n";

static const char searches[] =
	"template <class T> __device__ __forceinline__ bool tj_above(T a, T b) { return (a > b) | ((a != a) & (b == b)); }\n"
	"template <class T> __device__ __forceinline__ bool tj_below(T a, T b) { return (a < b) | ((a != a) & (b == b)); }\n"
	"template <bool up, class T, class U> __device__ __forceinline__ bool tj_beats(T a, long long i, U b, long long at) /* (a, i) comes "
	"before the best so far */\n{\n"
	"\tconst bool before = up ? tj_above<U>(a, b) : tj_below<U>(a, b), behind = up ? tj_above<U>(b, a) : tj_below<U>(b, a);\n"
	"\treturn (at < 0) | before | ((i < at) & !behind);\n}\n";

/* a 2^b in two exact factors, 2^h with h = b / 2, and 2^(b - h), as in codegen_llvm/point.c. b + 1.5 2^23 has b in its low bits. */
static const char scales[] =
	"__device__ __forceinline__ float tj_scale(float a, float b)\n{\n"
	"\tconst unsigned n = (unsigned)__float_as_int(b + 0x1.8p23f) << 23, h = (unsigned)((int)n >> 1) & 0xff800000u;\n"
	"\treturn a * __int_as_float((int)(h + 0x3f800000u)) * __int_as_float((int)(n - h + 0x3f800000u));\n}\n"
	"__device__ __forceinline__ double tj_scale(double a, double b)\n{\n"
	"\tconst unsigned long long n = (unsigned long long)__double_as_longlong(b + 0x1.8p52) << 52, h = (unsigned long long)((long long)n >> "
	"1) & 0xfff0000000000000ull;\n"
	"\treturn a * __longlong_as_double((long long)(h + 0x3ff0000000000000ull)) * __longlong_as_double((long long)(n - h + "
	"0x3ff0000000000000ull));\n}\n";

static const char faults[] =
	"__device__ __forceinline__ void tj_fault(tj_faults *f, unsigned long long launch, int number)\n{\n"
	"\tif (!atomicCAS(&f->first, 0ull, launch << 16 | number)) *f->word = launch << 16 | number;\n}\n";

/* a / b of numbers from 0 to 2^53, without a call: the host has computed 1 / b, and the quotient is off by one at most. */
static const char quotients[] =
	"__device__ __forceinline__ long long tj_div(long long a, long long b, double inverse)\n{\n"
	"\tconst long long q = (long long)((double)a * inverse), r = a - q * b;\n"
	"\treturn q + (r >= b) - (r < 0);\n}\n";

/* From and to the bits of f16 and bf16, by PTX; the fake NVRTC has its own. */
static const char wideners[] =
	"#ifndef TJ_CONVERTS\n"
	"__device__ __forceinline__ float tj_from_f16(unsigned short h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return "
	"f; }\n"
	"__device__ __forceinline__ float tj_from_bf16(unsigned short h) { return __int_as_float((int)h << 16); }\n"
	"#endif\n";
static const char narrowers[] =
	"#ifndef TJ_CONVERTS\n"
	"__device__ __forceinline__ unsigned short tj_to_f16(float f) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : "
	"\"f\"(f)); return h; }\n"
	"__device__ __forceinline__ unsigned short tj_to_bf16(float f) { unsigned short h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : "
	"\"f\"(f)); return h; }\n"
	"#endif\n";

/* call: stands in the text of each kernel that needs the piece. Every kernel with a reduction fills its accumulators. */
static const struct piece { const char *call, *text; } pieces[] = {
	{ "", accesses }, { "tj_fill(", trees }, { "tj_push<", passes }, { "tj_beats<", searches }, { "tj_scale(", scales },
	{ "tj_fault(", faults }, { "tj_div(", quotients }, { "tj_from_", wideners }, { "tj_to_", narrowers },
};

void cu_prelude(const char *kernels, rt_text *out)
{
	for (size_t i = 0; i < RT_COUNT(pieces); i++)
		if (strstr(kernels, pieces[i].call)) rt_puts(out, pieces[i].text);
	rt_puts(out, "\n");
}
