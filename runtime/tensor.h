/* tensor: handles, numbers in their bits, scopes, the engine and a context's part of the runtime. */
#ifndef TJ_RUNTIME_TENSOR_H
#define TJ_RUNTIME_TENSOR_H

#include "runtime/buffer.h"
#include "runtime/exec.h"
#include "runtime/layout.h"
#include "runtime/log.h"

/* ---- numbers: a handle whose bits are not a pointer ------------------------------------------------
 *
 * A pointer of user space has 16 zero bits on top. A handle of a number is ~d, d being the bits of a double: a
 * pointer would be a double of bits FFFFxxxxxxxxxxxx, a NaN that is never made. Integers take the other NaNs:
 *
 *   d = 7FF0000000000001 + v          0 <= v <= 2^51
 *   d = FFF0000000000001 + (-v - 1)   -2^51 <= v < 0
 *   d = FFFE000000000000              the one NaN
 */
#define RT_NAN_BITS UINT64_C(0xFFFE000000000000)
#define RT_INT_MAX (INT64_C(1) << 51)
typedef struct rt_number { bool is_int; union { double f; int64_t i; } u; } rt_number;

static inline uint64_t rt_bits(double f) { uint64_t b; memcpy(&b, &f, 8); return b; }
static inline double rt_double(uint64_t b) { double f; memcpy(&f, &b, 8); return f; }
static inline bool rt_is_number(const tj_tensor *t) { return (uintptr_t)t >> 48 != 0; }
static inline bool rt_is_int_number(const tj_tensor *t)
{
	uint64_t d = ~(uint64_t)(uintptr_t)t;
	return (d << 1 >> 53) == 0x7FF && d << 12 != 0 && d != RT_NAN_BITS;
}
static inline tj_tensor *rt_number_f(double f)
{
	return (tj_tensor *)(uintptr_t)~(f != f ? RT_NAN_BITS : rt_bits(f));
}
static inline tj_tensor *rt_number_i(int64_t v) /* |v| <= RT_INT_MAX */
{
	uint64_t d = v >= 0 ? UINT64_C(0x7FF0000000000001) + (uint64_t)v : UINT64_C(0xFFF0000000000001) + (uint64_t)(-v - 1);
	return (tj_tensor *)(uintptr_t)~d;
}
static inline int64_t rt_int_of(const tj_tensor *t)
{
	uint64_t d = ~(uint64_t)(uintptr_t)t;
	return d >> 63 ? -(int64_t)(d - UINT64_C(0xFFF0000000000001)) - 1 : (int64_t)(d - UINT64_C(0x7FF0000000000001));
}
static inline double rt_float_of(const tj_tensor *t)
{
	uint64_t d = ~(uint64_t)(uintptr_t)t;
	return d == RT_NAN_BITS ? __builtin_nan("") : rt_double(d);
}
/* The 64 bits a kernel sees: of the int64_t or of the double. */
static inline uint64_t rt_number_bits(const tj_tensor *t)
{
	return rt_is_int_number(t) ? (uint64_t)rt_int_of(t) : rt_bits(rt_float_of(t));
}

/* ---- handles --------------------------------------------------------------------------------------- */
typedef enum rt_kind {
	RT_DEAD,    /* its scope was popped */
	RT_VALUE,   /* data is there */
	RT_PENDING, /* event seq of segment seg: computed at the segment's boundary */
	RT_CELL,    /* mutable; data is the last committed version */
	RT_LATE,    /* a number of a call in direct mode whose value may differ the next time: seg is its handle, seq where it comes from */
	RT_POISON
} rt_kind;
enum {
	RT_CONSTANT = 1,         /* content may be folded */
	RT_HEAP = 2,             /* an rt_held: cells and retained tensors */
	RT_BORROWED = 4          /* layout and buffer are kept by another handle that outlives this one */
};

typedef struct rt_head { /* a handle's first word */
	uint8_t kind, dtype, rank, flags;
	uint32_t seq;
} rt_head;

struct tj_tensor {
	uint8_t kind, dtype, rank, flags;
	uint32_t seq;            /* PENDING; VALUE: external slot where a running call met it last, a hint */
	uint64_t seg;            /* PENDING: serial of the segment, unique in the context; CONSTANT: serial of the content */
	const rt_layout *layout; /* PENDING: owned by the trace; else a reference is held */
	rt_buffer *buf;          /* a reference is held; NULL while PENDING */
	void *data;              /* element 0 */
	tj_ctx *ctx;             /* owner; NULL: the engine */
	struct rt_engine *engine;
	void *row_major;         /* rt_buffer of tj_data() when the layout is not row-major */
};
_Static_assert(sizeof(rt_head) == 8 && offsetof(rt_head, seq) == offsetof(tj_tensor, seq) && offsetof(rt_head, flags) == offsetof(tj_tensor, flags) &&
               offsetof(tj_tensor, seg) == sizeof(rt_head), "an rt_head is the first word of a handle");
_Static_assert(sizeof(tj_tensor) == 64, "a handle is a cache line");

/* A tensor of the engine: a cell, or what tj_retain() gave. */
typedef struct rt_held {
	tj_tensor t;
	atomic_int refs;
	atomic_flag lock;        /* CELL: guards buf, data, version */
	uint64_t version;        /* CELL: commits so far */
	uint64_t content, content_version; /* a number for what it holds, given when somebody may fold it; of that version */
	struct rt_held *prev, *next;
} rt_held;
static inline rt_held *rt_held_of(tj_tensor *t) { return (rt_held *)t; }

/* ---- the engine: what contexts share ---- */
typedef struct rt_engine {
	atomic_int contexts;
	rt_layouts layouts;
	pthread_mutex_t lock;    /* held tensors, functions */
	pthread_mutex_t commit_lock; /* commits of cells, one after the other */
	rt_held *held, *free_held; /* free ones stay dead handles until they are used again: a second release is found */
	rt_log_to log;
	rt_team *team;
	atomic_ullong serial;    /* of contents, functions, ... */
	bool check;              /* TJ_CHECK=1 */
	char pad[64];            /* every call reads the counters below; what is written more often stays off their cache line */
	atomic_ullong commits_begun, commits_ended; /* equal: no cell is being written (jit/cell.c) */
} rt_engine;

/* ---- scopes: a list of chunks of handles each; a handle never moves ---- */
enum { RT_CHUNK = 63 };
typedef struct rt_handles {
	struct rt_handles *next;
	uint64_t pad[7];
	tj_tensor h[RT_CHUNK];
} rt_handles;

struct tj_scope {
	tj_ctx *ctx;
	tj_scope *parent;
	rt_handles *chunk;       /* newest first */
	uint32_t used;           /* of the newest */
	bool open;
	uint64_t act;            /* serial of the activation it was opened in, 0 outside */
};

/* A context's part of the runtime. */
typedef struct rt_ctx {
	rt_engine *engine;
	rt_cache *cache;         /* of buffers on the CPU */
	rt_cache *cache_on[RT_DEVICES]; /* on the other devices; NULL: not used yet */
	rt_pool *pool;
	rt_run run;              /* what every run of a plan has in common: copied, then given its operands and an rt_err */
	tj_scope *scope, *root;  /* innermost */
	tj_scope *free_scopes;   /* linked by parent */
	rt_handles *free_chunks, *dead_chunks;
	rt_handles *later_chunks; /* closed while a call runs, which may still know their handles by address */
	tj_tensor poison;
	uint64_t serial;         /* of segments and activations */
	uint64_t key, ordinal;   /* random numbers */
	rt_err err, last;        /* first error since the last check; the one it returned */
	uint64_t taken;          /* errors that were checked */
	char site[512], last_site[512];
	tj_error shown;
	atomic_bool refused;     /* another thread was refused: why, under the lock */
	atomic_flag refused_lock;
	rt_err refused_err;
	char refused_site[512];
} rt_ctx;

bool rt_ctx_init(rt_ctx *r, tj_ctx *self, rt_engine *e);
void rt_ctx_free(rt_ctx *r);
rt_buffer *rt_buffer_elsewhere(rt_ctx *r, int device, size_t bytes);
static inline rt_buffer *rt_buffer_on(rt_ctx *r, int device, size_t bytes) /* one reference; contents undefined; NULL when out of memory */
{
	return RT_LIKELY(device == RT_CPU) ? rt_buffer_new(r->cache, bytes) : rt_buffer_elsewhere(r, device, bytes);
}

tj_tensor *rt_more_handles(rt_ctx *r, tj_scope *s); /* the first one of another chunk, raw */
/* A handle as a dead one leaves it: ctx and engine are set, buf and row_major NULL; the caller writes the rest. */
static inline tj_tensor *rt_raw_handle(rt_ctx *r, tj_scope *s)
{
	return RT_LIKELY(s->chunk && s->used < RT_CHUNK) ? &s->chunk->h[s->used++] : rt_more_handles(r, s);
}
tj_tensor *rt_handle(rt_ctx *r, tj_scope *s); /* a new handle of the scope; NULL when out of memory; only ctx and engine are set */
tj_scope *rt_scope_push(rt_ctx *r, tj_ctx *self, uint64_t act);
/* Closes the innermost scope. Handles die; with keep set, their buffers are handed to keep() first. */
void rt_scope_pop(rt_ctx *r, void (*keep)(void *self, rt_buffer *b), void *self);
void rt_recycle(rt_ctx *r); /* later_chunks may be used again */
void rt_drop_handle(rt_ctx *r, tj_tensor *t); /* gives up layout and buffers; the handle is dead */

/* ---- engine-owned tensors ---- */
rt_held *rt_held_new(rt_engine *e);           /* one reference; kind and contents unset */
void rt_held_unref(rt_held *h, rt_cache *here);
void rt_held_free_all(rt_engine *e);

/* ---- a run-time error into the context ---- */
void rt_ctx_error(rt_ctx *r, const rt_err *e, const char *site); /* the first one stays */
void rt_ctx_refused(rt_ctx *r, const rt_err *e, const char *site); /* the same, by a thread that has no business here */
tj_status rt_ctx_take_refused(rt_ctx *r); /* the last error is that one now */

#endif
