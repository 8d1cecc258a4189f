/* SPDX-License-Identifier: MIT */
/* tensor: handles, numbers in their bits, scopes, the engine and a context's part of the runtime. */
#ifndef TJ_RUNTIME_TENSOR_H
#define TJ_RUNTIME_TENSOR_H

#include "runtime/buffer.h"
#include "runtime/exec.h"
#include "runtime/layout.h"
#include "runtime/log.h"

/* ---- numbers: a handle whose bits are not a pointer ------------------------------------------------
 *
 * The upper 16 bits of a pointer of user space are zero. The handle of a number is ~d, where d are the bits of a double:
 * a pointer would be d = FFFFxxxxxxxxxxxx, a NaN that is never made. Integers use other NaNs:
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
/* The 64 bits that a kernel gets: those of the int64_t or of the double. */
static inline uint64_t rt_number_bits(const tj_tensor *t)
{
	return rt_is_int_number(t) ? (uint64_t)rt_int_of(t) : rt_bits(rt_float_of(t));
}

/* ---- handles --------------------------------------------------------------------------------------- */
typedef enum rt_kind {
	RT_DEAD,    /* its scope was popped */
	RT_VALUE,   /* data is valid */
	RT_PENDING, /* the result of event seq of segment seg; computed at the segment's boundary */
	RT_CELL,    /* mutable; data is the last committed version */
	RT_LATE,    /* a number in a call in direct mode, whose value may differ in the next call: seg is its handle, seq its origin */
	RT_POISON   /* the result of a failed op */
} rt_kind;
enum {
	RT_CONSTANT = 1,         /* content may be folded */
	RT_HEAP = 2,             /* an rt_held: a cell or a retained tensor */
	RT_BORROWED = 4          /* holds no references: those of another handle, which outlives this one, keep layout and buffer */
};

typedef struct rt_head { /* a handle's first word */
	uint8_t kind, dtype, rank, flags;
	uint32_t seq;
} rt_head;

struct tj_tensor {
	uint8_t kind, dtype, rank, flags;
	uint32_t seq;            /* PENDING: number of the event; VALUE: a hint, the external slot of its last use in a running call */
	uint64_t seg;            /* PENDING: serial of the segment, unique in the context; CONSTANT: serial of the content */
	const rt_layout *layout; /* PENDING: the trace's; else the handle holds a reference */
	rt_buffer *buf;          /* the handle holds a reference; NULL while PENDING */
	void *data;              /* element 0 */
	tj_ctx *ctx;             /* owner; NULL: the engine */
	struct rt_engine *engine;
	void *row_major;         /* rt_buffer with tj_data()'s copy of a tensor that is not row-major; NULL: none */
};
_Static_assert(sizeof(rt_head) == 8 && offsetof(rt_head, seq) == offsetof(tj_tensor, seq) &&
                       offsetof(rt_head, flags) == offsetof(tj_tensor, flags) && offsetof(tj_tensor, seg) == sizeof(rt_head),
               "an rt_head is the first word of a handle");
_Static_assert(sizeof(tj_tensor) == 64, "a handle is a cache line");

/* A tensor of the engine: a cell or a retained tensor. */
typedef struct rt_held {
	tj_tensor t;
	atomic_int refs;
	atomic_flag lock;        /* CELL: guards buf, data, version */
	uint64_t version;        /* CELL: number of its commits */
	uint32_t kept;           /* users that may look at it when it is dead, so it is not used again; engine.lock */
	uint64_t content, content_version; /* a serial that names its content, given when the content may be folded; valid for that version */
	struct rt_held *prev, *next;
} rt_held;
static inline rt_held *rt_held_of(tj_tensor *t) { return (rt_held *)t; }

/* ---- the engine: what contexts share ---- */
typedef struct rt_engine {
	atomic_int contexts;
	rt_layouts layouts;
	pthread_mutex_t lock;    /* held tensors, functions */
	pthread_mutex_t commit_lock; /* commits of cells, one after the other */
	rt_held *held, *free_held; /* in use; free. A free one is a dead handle until it is used again, so a second release is noticed */
	rt_log_to log;
	rt_team *team;
	atomic_ullong serial;    /* last serial given to a content, a function, ... */
	bool check;              /* TJ_CHECK=1 */
	char pad[64];            /* every call reads the counters below; fields that change more often must not share their cache line */
	atomic_ullong commits_begun, commits_ended; /* equal: no cell is being written (jit/cell.c) */
} rt_engine;

/* ---- scopes: each has a list of chunks of handles; a handle never moves ---- */
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
	uint32_t used;           /* handles used in the newest chunk */
	bool open;
	uint64_t act;            /* serial of the activation (a running call) that opened it; 0: opened outside of calls */
};

/* A context's part of the runtime. */
typedef struct rt_ctx {
	rt_engine *engine;
	rt_allocator *allocator; /* buffers on the CPU */
	rt_allocator *allocator_on[RT_DEVICES]; /* buffers on the other devices; NULL: not used yet */
	rt_pool *pool;
	rt_run run;              /* a template for runs of plans: copied, then completed with operands and an rt_err */
	tj_scope *scope, *root;  /* the innermost and the outermost scope */
	tj_scope *free_scopes;   /* linked by parent */
	rt_handles *free_chunks, *dead_chunks; /* dead_chunks: not used again (TJ_CHECK) */
	rt_handles *later_chunks; /* of scopes closed in a running call, which may still compare addresses of their handles */
	tj_tensor poison;
	uint64_t serial;         /* last serial of a segment or an activation */
	uint64_t key, ordinal;   /* random numbers: the key, and the number of random ops so far */
	rt_err err, last;        /* first error since the last tj_check(); the error that it returned */
	uint64_t fetched;        /* number of errors that tj_check() returned */
	char site[512], last_site[512]; /* sites of err and of last */
	tj_error shown;          /* last, as tj_last_error() shows it */
	atomic_bool refused;     /* another thread was refused; refused_lock guards the reason */
	atomic_flag refused_lock;
	rt_err refused_err;
	char refused_site[512];
} rt_ctx;

bool rt_ctx_init(rt_ctx *r, tj_ctx *self, rt_engine *e);
void rt_ctx_free(rt_ctx *r);
rt_buffer *rt_buffer_elsewhere(rt_ctx *r, int device, size_t bytes);
void rt_ctx_relax(rt_ctx *r, int device); /* frees what the context keeps of a device's memory; may wait */
static inline rt_buffer *rt_buffer_on(rt_ctx *r, int device, size_t bytes) /* one reference; contents undefined; NULL when out of memory */
{
	return RT_LIKELY(device == RT_CPU) ? rt_buffer_new(r->allocator, bytes) : rt_buffer_elsewhere(r, device, bytes);
}

tj_tensor *rt_more_handles(rt_ctx *r, tj_scope *s); /* the first handle of another chunk, as rt_raw_handle() returns it */
/* A new handle of the scope: ctx and engine are set, buf and row_major are NULL; the caller sets all other fields. */
static inline tj_tensor *rt_raw_handle(rt_ctx *r, tj_scope *s)
{
	return RT_LIKELY(s->chunk && s->used < RT_CHUNK) ? &s->chunk->h[s->used++] : rt_more_handles(r, s);
}
tj_tensor *rt_handle(rt_ctx *r, tj_scope *s); /* a new handle of the scope, zero except ctx and engine; NULL when out of memory */
tj_scope *rt_scope_push(rt_ctx *r, tj_ctx *self, uint64_t act);
/* Closes the innermost scope. Its handles die. If keep is not NULL, keep() first takes over the references to their buffers. */
void rt_scope_pop(rt_ctx *r, void (*keep)(void *self, rt_buffer *b), void *self);
void rt_recycle(rt_ctx *r); /* frees later_chunks for use */

/* ---- engine-owned tensors ---- */
rt_held *rt_held_new(rt_engine *e);           /* one reference; kind and contents unset */
void rt_held_unref(rt_held *h, rt_allocator *here);
/* Between keep and unkeep h is not used for another tensor when its last reference goes. rt_held_find(): a reference; false: there are none
 * left. */
void rt_held_keep(rt_held *h);
void rt_held_unkeep(rt_held *h);
bool rt_held_find(rt_held *h);
void rt_held_free_all(rt_engine *e);

/* ---- errors of a context ---- */
void rt_ctx_error(rt_ctx *r, const rt_err *e, const char *site); /* sets the context's error; the first one stays */
void rt_ctx_refused(rt_ctx *r, const rt_err *e, const char *site); /* the same from a thread that was refused */
tj_status rt_ctx_take_refused(rt_ctx *r); /* makes the refused thread's error r->last; returns its code */

#endif
