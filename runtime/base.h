/* SPDX-License-Identifier: MIT */
/* base: used by all folders: allocation, growable arrays, arenas, text, dtypes, errors. */
#ifndef TJ_RUNTIME_BASE_H
#define TJ_RUNTIME_BASE_H

#include "runtime/fork.h"
#include "tj.h"

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#define RT_LIKELY(x) __builtin_expect(!!(x), 1)
#define RT_UNLIKELY(x) __builtin_expect(!!(x), 0)
enum { RT_LINE = 64 }; /* bytes of a cache line; the alignment of buffers */
#define RT_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define RT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- alloc.c: all allocations of the library, so that tests can count them and make the k-th fail. */
void *rt_alloc(size_t bytes);  /* NULL when out of memory, never for 0 bytes */
void *rt_calloc(size_t bytes); /* zeroed */
void *rt_realloc(void *p, size_t bytes);
void rt_free(void *p);
bool rt_has_room(size_t bytes); /* are this many bytes of address space free, in one piece? */
char *rt_strdup(const char *s);

/* A lock for a few instructions. */
static inline void rt_spin(atomic_flag *f)
{
	for (int i = 0; atomic_flag_test_and_set_explicit(f, memory_order_acquire); i++)
		if (i < 1000) __builtin_ia32_pause();
		else sched_yield(); /* its holder may have lost the core */
}
static inline void rt_unspin(atomic_flag *f) { atomic_flag_clear_explicit(f, memory_order_release); }

/* ---- alloc.c: growable arrays, struct { T *v; uint32_t n, cap; } ---- */
#define rt_vec(T)                                                                                  \
	struct {                                                                                       \
		T *v;                                                                                      \
		uint32_t n, cap;                                                                           \
	}
bool rt_grow(void **v, uint32_t *cap, uint32_t need, size_t elem);
/* Makes room for k more elements; false when out of memory, and then the array is unchanged. */
#define rt_reserve(a, k) ((a)->n + (k) <= (a)->cap || rt_grow((void **)&(a)->v, &(a)->cap, (a)->n + (k), sizeof *(a)->v))
#define rt_push(a, x) (rt_reserve(a, 1) ? ((a)->v[(a)->n++] = (x), true) : false)
#define rt_vec_free(a) (rt_free((a)->v), (a)->v = NULL, (a)->n = (a)->cap = 0)

/* ---- alloc.c: arena: zeroed memory that never moves and is freed in one call. */
typedef struct rt_arena {
	struct rt_chunk *top;
	size_t used, total; /* bytes: used of the top chunk; held in all chunks */
} rt_arena;
void *rt_arena_alloc(rt_arena *a, size_t bytes); /* 16-byte aligned, zeroed; NULL when out of memory */
void rt_arena_room(rt_arena *a, size_t bytes); /* an empty arena takes so many bytes at first, not 1 KiB */
size_t rt_arena_used(const rt_arena *a);
char *rt_arena_strdup(rt_arena *a, const char *s);
void rt_arena_reset(rt_arena *a); /* empties it, but keeps one chunk */
void rt_arena_free(rt_arena *a);

/* ---- text.c: a growable string. When an allocation fails `oom` is set, and later appends do nothing. */
typedef struct rt_text {
	char *s; /* zero-terminated; NULL while empty */
	size_t n, cap;
	bool oom;
} rt_text;
void rt_putf(rt_text *t, const char *fmt, ...) RT_PRINTF(2, 3);
void rt_puts(rt_text *t, const char *s);
void rt_putn(rt_text *t, const char *s, size_t n);
void rt_put_float(rt_text *t, double v); /* C hex float, exact; inf, -inf, nan */
double rt_read_float(const char *s, char **end); /* strtod() with a decimal point, whatever the locale */
/* The bytes of the UTF-8 character at s, 1 to 4, of at most n (SIZE_MAX: a NUL ends the text); 0: there is none. */
size_t rt_utf8(const char *s, size_t n);
void rt_text_free(rt_text *t);
const char *rt_str(const rt_text *t); /* never NULL */

/* ---- dtypes ---- */
typedef enum rt_cat { RT_BOOL, RT_INT, RT_FLOAT } rt_cat;
typedef enum rt_class { RT_I, RT_F, RT_D } rt_class; /* the C type that computes a dtype: int64_t, float, double */
rt_cat rt_dtype_cat(tj_dtype t);
rt_class rt_dtype_class(tj_dtype t);
/* The dtype that ops on t compute in: f32 for f16 and bf16, which only store values; else t. A dtype is narrow when it is
 * computed in another one: each op widens its operands, and rounds its result once. */
tj_dtype rt_compute_dtype(tj_dtype t);
static inline bool rt_is_narrow(tj_dtype t) { return rt_compute_dtype(t) != t; }
int rt_dtype_bits(tj_dtype t);        /* bits of a value: 1 for bool; for floats, bits of the mantissa */
int64_t rt_dtype_min(tj_dtype t);     /* t: bool or an integer dtype */
int64_t rt_dtype_max(tj_dtype t);
static inline bool rt_is_signed(tj_dtype t) { return rt_dtype_min(t) < 0; }
/* The low bits of v as a value of an integer dtype or bool. */
static inline int64_t rt_wrap(tj_dtype t, uint64_t v)
{
	int spare = 64 - rt_dtype_bits(t);
	return rt_is_signed(t) ? (int64_t)(v << spare) >> spare : (int64_t)(v << spare >> spare);
}
int rt_dtype_parse(const char *s, size_t n); /* -1: no dtype has this name */
/* A hint for a text that is not the name of a dtype: what to use for a dtype that other libraries have, as u16 or complex64, and for any
 * other text the list of dtypes. With NULL, which is for a number that is not a dtype: the list, too. */
const char *rt_dtype_advice(const char *s, size_t n);
/* rt_fp_enter() sets the default rounding and flush modes and returns the caller's; rt_fp_leave() restores these. If the
 * modes are the default ones already, this costs a load and a compare, and the sticky exception flags are not restored. */
enum { RT_MXCSR = 0x1f80 /* to nearest, nothing flushed, exceptions masked */, RT_MXCSR_FLAGS = 0x3f };
static inline bool rt_fp_default(unsigned csr) { return (csr | RT_MXCSR_FLAGS) == (RT_MXCSR | RT_MXCSR_FLAGS); }
static inline unsigned rt_fp_enter(void)
{
	unsigned was = __builtin_ia32_stmxcsr();
	if (RT_UNLIKELY(!rt_fp_default(was))) __builtin_ia32_ldmxcsr(RT_MXCSR);
	__asm__ volatile("" ::: "memory"); /* later loads and arithmetic must not move above this */
	return was;
}
static inline void rt_fp_leave(unsigned was)
{
	__asm__ volatile("" ::: "memory");
	if (RT_UNLIKELY(!rt_fp_default(was))) __builtin_ia32_ldmxcsr(was);
}
static inline void rt_fp_end(const unsigned *was) { rt_fp_leave(*was); }
/* Sets the default modes from here to the end of the block. Entry points use it before they trace, fold, compile, run or
 * convert floats; all functions below them rely on these modes. Nothing uses the x87 unit. */
#define RT_DEFAULT_MODES const unsigned rt_modes __attribute__((cleanup(rt_fp_end), unused)) = rt_fp_enter()

static inline bool rt_is_float(tj_dtype t) { return rt_dtype_cat(t) == RT_FLOAT; }

/* Product of sizes; false when it does not fit int64_t or a size is negative. */
bool rt_numel(int rank, const int64_t *dim, int64_t *numel);

uint64_t rt_hash(const void *p, size_t bytes, uint64_t seed); /* XXH3 */
void rt_hash128(const void *p, size_t bytes, uint64_t out[2]); /* long enough that equal hashes are taken for equal bytes */
double rt_now_ms(void);
/* ---- stack.c ---- */
size_t rt_stack_left(void); /* free bytes of this thread's stack; SIZE_MAX where that is not known */
enum { RT_LEAST_STACK = 256 << 10, RT_ENOUGH_STACK = 512 << 10 };
/* Runs f(env) on this stack when RT_ENOUGH_STACK bytes are free, else on a new thread, and waits for it. If no thread can be
 * created, it runs f here when RT_LEAST_STACK bytes are free, else it returns false. */
bool rt_with_stack(void (*f)(void *env), void *env);
enum { RT_SIDES = 8 };
/* Runs f(env[0]) here and the other f(env[i]) at the same time, n of them, on new threads; here, too, when no thread can be created.
 * Returns when all have. n <= RT_SIDES. */
void rt_side_by_side(int n, void (*f)(void *env), void *const *env);

/* ---- an error on its way to the context; set by the function that finds it. The first error stays. ---- */
typedef struct rt_err {
	tj_status code;
	const char *op;   /* literal or interned */
	const char *site; /* literal, or NULL */
	char message[512];
	char hint[256];
	int64_t size;            /* TJ_ERR_INDEX found by a run: size of the axis; rt_fault_fail() sets it */
	bool late;               /* found by earlier work on another device, at its own site */
} rt_err;
/* Sets e to "no error". Cheaper than = { 0 }, which also clears the texts. */
static inline void rt_no_err(rt_err *e)
{
	e->code = TJ_OK;
	e->late = false;
	e->op = e->site = NULL;
	e->message[0] = e->hint[0] = 0;
}
tj_status rt_fail(rt_err *e, tj_status code, const char *op, const char *fmt, ...) RT_PRINTF(4, 5);
void rt_hint(rt_err *e, const char *fmt, ...) RT_PRINTF(2, 3);

/* An error that depends on a value, found in a run. The evaluator, kernels and library calls share its text. */
typedef struct rt_fault {
	const char *site, *op;
	tj_status code;
	int64_t size;     /* TJ_ERR_INDEX: size of the axis */
} rt_fault;
/* site.c: a site made by tj_site_for() gives the error its op, message and hint. */
tj_status rt_fault_fail(const rt_fault *f, rt_err *err);

#endif
