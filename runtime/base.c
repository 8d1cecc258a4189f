/* SPDX-License-Identifier: MIT */
/* dtypes, status codes, sizes, hashes, time. */
#include "runtime/base.h"

#include <time.h>
#include <xxhash.h>

typedef struct dtype {
	const char *name;
	uint8_t size, cat, cls, bits, compute;
	int64_t min, max;
} dtype;

/* Properties of a dtype, from its C type. NONE(ctype) is never evaluated: _Generic uses only its type. */
#define NONE(ctype) (*(ctype *)0)
#define CLASS(ctype) _Generic(NONE(ctype), float: RT_F, tj_f16: RT_F, tj_bf16: RT_F, double: RT_D, default: RT_I)
#define COMPUTE(NAME, ctype) _Generic(NONE(ctype), tj_f16: TJ_F32, tj_bf16: TJ_F32, default: TJ_##NAME)
#define MANTISSA(ctype) _Generic(NONE(ctype), tj_f16: 11, tj_bf16: 8, float: 24, double: 53, default: 8 * sizeof(ctype))
#define SIGNED(ctype) _Generic(NONE(ctype), uint8_t: 0, default: 1)
#define TOP(ctype) (INT64_MAX >> (64 - 8 * sizeof(ctype)))
#define MIN(ctype) (SIGNED(ctype) ? -TOP(ctype) - 1 : 0)
#define MAX(ctype, cat) (RT_##cat == RT_BOOL ? 1 : SIGNED(ctype) ? TOP(ctype) : 2 * TOP(ctype) + 1)
static const dtype dtypes[TJ_DTYPE_COUNT] = {
#define X(NAME, text, ctype, category)                                                                                     \
	{ text, sizeof(ctype), RT_##category, CLASS(ctype), RT_##category == RT_BOOL ? 1 : MANTISSA(ctype), COMPUTE(NAME, ctype), \
	  MIN(ctype), MAX(ctype, category) },
	TJ_DTYPE_MAP(X)
#undef X
};

static bool known(tj_dtype t) { return (unsigned)t < TJ_DTYPE_COUNT; }
const char *tj_dtype_name(tj_dtype t) { return known(t) ? dtypes[t].name : "?"; }
size_t tj_dtype_size(tj_dtype t) { return known(t) ? dtypes[t].size : 0; }
rt_cat rt_dtype_cat(tj_dtype t) { return (rt_cat)dtypes[t].cat; }
rt_class rt_dtype_class(tj_dtype t) { return (rt_class)dtypes[t].cls; }
tj_dtype rt_compute_dtype(tj_dtype t) { return (tj_dtype)dtypes[t].compute; }

int rt_dtype_bits(tj_dtype t) { return dtypes[t].bits; }
int64_t rt_dtype_min(tj_dtype t) { return dtypes[t].min; }
int64_t rt_dtype_max(tj_dtype t) { return dtypes[t].max; }

int rt_dtype_parse(const char *s, size_t n)
{
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		if (strlen(dtypes[t].name) == n && !memcmp(dtypes[t].name, s, n)) return t;
	return -1;
}

/* Dtypes and names of dtypes that other libraries have, and what to use here. A name that ends in * stands for all that begin like it. */
static const struct elsewhere { const char *names, *use; } elsewhere[] = {
	{ "u16 uint16 ushort", "i32 holds every u16" },
	{ "u32 uint32 uint", "i64 holds every u32" },
	{ "u64 uint64 ulong", "i64 holds values below 2^63; f64 holds larger ones, rounded to 53 bits" },
	{ "i4 int4 u4 uint4 i2 int2 u2 uint2", "i8 holds every i4 and u4" },
	{ "i128 int128 u128 uint128", "i64 is the widest integer" },
	{ "f8* float8* fp8*", "f16 and bf16 hold every f8; i8 and a scale take as little memory" },
	{ "f80 f96 f128 float96 float128 longdouble", "f64 is the widest float" },
	{ "c32 complex32 chalf", "use two tensors of f16, the real and the imaginary parts, or one with a last axis of 2" },
	{ "c64 complex64 cfloat", "use two tensors of f32, the real and the imaginary parts, or one with a last axis of 2" },
	{ "c128 complex128 cdouble complex", "use two tensors of f64, the real and the imaginary parts, or one with a last axis of 2" },
	{ "boolean bool_ TJ_BOOL", "write bool" },
	{ "uint8 TJ_U8", "write u8" },
	{ "int8 TJ_I8", "write i8" },
	{ "int16 short TJ_I16", "write i16" },
	{ "int32 int TJ_I32", "write i32" },
	{ "int64 long TJ_I64", "write i64" },
	{ "float16 half fp16 TJ_F16", "write f16" },
	{ "bfloat16 TJ_BF16", "write bf16" },
	{ "float32 float fp32 TJ_F32", "write f32" },
	{ "float64 double fp64 TJ_F64", "write f64" },
};

static bool among(const char *names, const char *s, size_t n)
{
	for (size_t len; len = strcspn(names, " "), len; names += len + (names[len] == ' ')) {
		const bool begin = names[len - 1] == '*';
		if ((begin ? len - 1 <= n : len == n) && !memcmp(names, s, begin ? len - 1 : n)) return true;
	}
	return false;
}

const char *rt_dtype_advice(const char *s, size_t n)
{
	for (size_t i = 0; s && i < RT_COUNT(elsewhere); i++)
		if (among(elsewhere[i].names, s, n)) return elsewhere[i].use;
#define X(NAME, text, ctype, category) " " text
	return "the dtypes are" TJ_DTYPE_MAP(X) " (TJ_BOOL to TJ_F64); i32 holds every u16, i64 every u32; a complex number is two floats";
#undef X
}

const char *tj_version(void) { return TJ_VERSION; }
int tj_version_number(void) { return TJ_VERSION_NUMBER; }

const char *tj_strerror(tj_status s)
{
	static const char *const text[TJ_STATUS_COUNT] = {
#define X(name, msg) msg,
		TJ_STATUS_MAP(X)
#undef X
	};
	return (unsigned)s < TJ_STATUS_COUNT ? text[s] : "unknown status";
}

bool rt_numel(int rank, const int64_t *dim, int64_t *numel)
{
	int64_t n = 1;
	bool empty = false;
	for (int i = 0; i < rank; i++) {
		if (dim[i] < 0) return false;
		if (dim[i] == 0) empty = true;
		else if (__builtin_mul_overflow(n, dim[i], &n)) return false;
	}
	*numel = empty ? 0 : n;
	return true;
}

uint64_t rt_hash(const void *p, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(p, bytes, seed); }

void rt_hash128(const void *p, size_t bytes, uint64_t out[2])
{
	XXH128_hash_t h = XXH3_128bits(p, bytes);
	out[0] = h.low64;
	out[1] = h.high64;
}

double rt_now_ms(void)
{
	RT_DEFAULT_MODES; /* not all callers are below an entry point */
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- errors on their way to the context ---- */
tj_status rt_fail(rt_err *e, tj_status code, const char *op, const char *fmt, ...)
{
	if (!e || e->code != TJ_OK) return code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	e->code = code;
	e->op = op;
	e->hint[0] = 0;
	return code;
}

void rt_hint(rt_err *e, const char *fmt, ...)
{
	if (!e || e->hint[0]) return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof e->hint, fmt, ap);
	va_end(ap);
}
