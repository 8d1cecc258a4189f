/* jit: the walk of a call.
 *
 *   tj_call -> find the entry -> run the body, each event matched or recorded -> at a boundary: seal -> lower ->
 *   generate -> run -> at the return: commit
 *
 * An event is anything the body asks for. The events between two boundaries are a segment; an entry (one argument
 * signature) holds a trie of events, and every segment starts at its root with all earlier values as externals.
 * Nodes of the trie are immutable once published, but for a few atomics. */
#ifndef TJ_JIT_JIT_H
#define TJ_JIT_JIT_H

#include "guards/guards.h"
#include "ir/ir.h"
#include "lower/target.h"
#include "runtime/barrier.h"
#include "runtime/bytes.h"
#include "runtime/tensor.h"

/* ---- trace ------------------------------------------------------------------------------------- */

/* Events that are no ops. Control flow is IR_cond, IR_while or IR_scan, its callbacks in order, each CALLBACK, PARAMs, what
 * it asks for, YIELD, and an IR_get for each result. PARAM and IR_get have their type in the attributes: {which, dtype, device, size...}.
 * Right behind an op that has several results is an IR_get for each that is wanted. */
#define JIT_EVENTS(X)                                                                                                     \
	X(ASSIGN, "assign")     /* cell, value */                                                                            \
	X(RETAIN, "retain")     /* value: kept beyond the call */                                                            \
	X(CALLBACK, "callback") X(PARAM, "parameter") X(YIELD, "yield")                                                      \
	/* boundaries: the values the host must see */                                                                       \
	X(TRUTH, "truth") X(ITEM, "item") X(DATA, "data") X(NONZERO, "nonzero") X(MASKED_SELECT, "masked_select")            \
	X(UNIQUE, "unique") X(RETURN, "return")
typedef enum jit_event_kind {
	JIT_EVENT_BASE = IR_OP_COUNT - 1, /* event kinds are numbered behind the ops */
#define X(kind, name) JIT_##kind,
	JIT_EVENTS(X)
#undef X
} jit_event_kind;

/* A cell's content as of one commit; buf is a reference. */
typedef struct jit_taken { rt_held *cell; rt_buffer *buf; void *data; uint64_t version; } jit_taken;

/* An operand of an event: kind in the top 3 bits. */
typedef uint32_t jit_ref;
enum { JIT_EV, JIT_EXT, JIT_FLOAT, JIT_INT, JIT_CELL }; /* event number, external slot, number slot, number slot, cell slot */
#define JIT_REF(kind, i) ((jit_ref)(kind) << 29 | (i))
#define JIT_KIND(r) ((r) >> 29)
#define JIT_IDX(r) ((r) & 0x1FFFFFFF)

/* What an external must be when it is first met. */
typedef struct jit_ext {
	const rt_layout *layout; /* reference held */
	uint64_t content;        /* serial of a constant's content, else 0 */
	bool cell;
	bool loose;              /* the guard on its content was dropped */
} jit_ext;

typedef struct jit_node {
	uint16_t op, nsrc, nattr;
	uint8_t mode;            /* of an op: as in ir_node */
	uint8_t draws;           /* random numbers: 1. These five are matched as one word, see next_is() */
	uint32_t seq;            /* number in the segment */
	uint16_t nmet;           /* externals first met here */
	rt_head value;           /* of a handle of the result */
	uint32_t next, nnum, ncell; /* externals, numbers, cells before this event */
	uint32_t loose;          /* guards that were dropped: a bit for each attribute, and JIT_LOOSE_NUMBERS */
	const rt_layout *layout; /* of the result; reference held; NULL when there is none */
	const char *site;
	struct jit_node *parent, *sibling;
	_Atomic(struct jit_node *) child;
	struct jit_segment *segment; /* boundaries: what was compiled */
	const int64_t *attr;     /* raw, as the user gave them; these three point behind the node */
	const jit_ext *met;
	const jit_ref *src;
} jit_node;
_Static_assert(offsetof(jit_node, op) == 0 && offsetof(jit_node, nsrc) == 2 && offsetof(jit_node, nattr) == 4 && offsetof(jit_node, mode) == 6 && offsetof(jit_node, draws) == 7 &&
               offsetof(jit_node, seq) == 8, "next_is() compares the first five as one word");

enum { JIT_LOOSE_ATTRS = 30 }; /* of an event, that may be dropped */
#define JIT_LOOSE_NUMBERS (1u << 30)
#define JIT_LOOSE_TOLD (1u << 31) /* audit told of this event */

/* A value that no event shows: step `step` of what event seq computes (ir/inner.c). Its name in its segment is JIT_INNER | its index there: it stands
 * wherever the number of an event of an earlier segment does. */
enum { JIT_INNER = 1 << 28 };
typedef struct jit_inner { uint32_t seq, step; const rt_layout *layout; } jit_inner; /* layout: a reference held; NULL: nobody asked yet */

/* What a segment's plan yields: values by event number, or by name. */
typedef struct jit_value { uint32_t seq; jit_inner inner; const rt_layout *layout; } jit_value; /* inner: which, of a name; without its layout */
typedef struct jit_plan {
	atomic_int refs;
	rt_exec *exec;
	uint32_t n;
	jit_value *value;        /* sorted by seq */
	ir_graph graph;          /* what was lowered, for dumps: the texts of all that came of it are made when asked for; set up when n > 0 */
	struct jit_plan *older;  /* that this one took the place of: lives as long as the segment, for whoever is about to take it */
	atomic_bool audited;     /* its values were compared with the evaluator's */
} jit_plan;

typedef struct jit_segment {
	uint32_t number;         /* in its entry, by the order of compilation */
	_Atomic(jit_plan *) plan;
	rt_vec(uint32_t) keep;   /* event numbers and names; only grows */
	rt_vec(jit_inner) inner; /* by name; only grows: a name stays what it is. Under fn->compile */
	atomic_uint hits, misses;
	atomic_uint taken[2];    /* TRUTH: how often each way */
	atomic_uint after[2];    /* TRUTH: 1 + number of the segment that last followed each way */
} jit_segment;

/* ---- entries, functions ------------------------------------------------------------------------ */
/* Signatures that differ in sizes alone: an entry with symbols. Each of its sizes has a trace of its own, and all share code. */
typedef struct jit_general {
	atomic_int refs;         /* the function's, its sizes' */
	uint32_t number;
	gd_sig sig;              /* the first one's */
	uint32_t *moved;         /* by argument: the dimensions whose sizes are symbols, a bit each */
	uint32_t met;            /* sizes, ever */
} jit_general;

typedef struct jit_entry {   /* at one size */
	atomic_int refs;         /* the table's, activations', last hits' */
	atomic_bool dead;        /* evicted */
	struct tj_fn *fn;
	gd_sig sig;
	uint32_t number;         /* of the general entry */
	uint32_t nth;            /* of its sizes */
	jit_general *general;
	jit_node root;
	rt_vec(jit_node *) sealed; /* boundaries in the order of compilation; under fn->compile */
	struct jit_hit *met;     /* the contexts' keys that lead here; under fn->table_lock */
	atomic_ullong hits, stamp; /* hits: of keys that are gone */
} jit_entry;

/* Counted by each context for itself, without contention; and by the function for contexts that are gone. */
#define JIT_SLOT_COUNTERS(X) X(calls) X(hits) X(boundaries) X(direct) X(audits) X(met) X(keyed) X(fresh) X(nested) X(refused) X(faults) X(checks) X(check_ps) X(events) X(event_ps)
typedef struct jit_counters {
#define X(what) atomic_ullong what;
	JIT_SLOT_COUNTERS(X)
#undef X
	atomic_ullong recordings, side_exits, recomputed, failures, evictions;
	atomic_ullong plans, kernels, library_calls, eval_steps, code_bytes, compiles, compiled, shared;
	_Atomic(double) trace_ms, lower_ms, codegen_ms;
} jit_counters;

enum { JIT_REASONS = 32 };
typedef struct jit_line { char *text; uint32_t times; } jit_line;
typedef struct jit_ring { /* what was told last; under the function's table_lock */
	jit_line line[JIT_REASONS];
	uint32_t n, told;        /* different lines; with those that came again */
} jit_ring;
struct tj_fn {
	struct jit_engine *engine;
	tj_body *body;
	void *self;
	char *name;
	const char *site;
	tj_compile_opts opts;
	tj_tensor ***state;      /* addresses of declared variables: .state, then .freeze */
	uint32_t nstate, nfreeze;
	tj_pass *pass;
	uint32_t npass;
	uint32_t index;          /* place in the contexts' slots; one that is free again may be used again */
	atomic_bool follow;      /* DIRECT: back to verify for good */
	atomic_bool told;        /* that a nested call of it ignores its int_div_zero */
	atomic_uint parted;      /* how often numbers of one line that had been equal were not */
	pthread_mutex_t table_lock, compile;
	gd_table table;
	rt_vec(jit_entry *) entry;
	rt_vec(jit_general *) general;
	uint32_t next_entry;
	gd_spec *spec;           /* of .shapes; NULL: none */
	lo_family *family;       /* code shared over sizes; NULL: .dynamic is OFF */
	jit_ring reasons, notes;
	struct jit_asked *asked; /* .guard_filter about guards of the key: by argument, state, scalar; NULL: there is no filter */
	rt_vec(const char *) sized; /* lines that gave tensors of sizes which depend on data, and were told of; under table_lock */
	jit_counters count;
	struct jit_slot *slots;  /* of the contexts that call it; under table_lock */
	tj_fn *prev, *next;
};

/* ---- slots: what a context knows of a function ------------------------------------------------- */
typedef struct jit_seen { /* an argument, or state, of the last call */
	const rt_layout *layout;
	uint64_t content;
	const tj_tensor *self;   /* where identity counts, else NULL */
	uint8_t kind;
} jit_seen;

typedef struct jit_hit { /* a key that the context has met */
	jit_entry *entry;        /* reference held */
	struct jit_hit *prev, *next; /* of the entry */
	atomic_ullong hits;      /* by its context alone */
	struct jit_path *path;   /* DIRECT: what runs instead of the body; NULL: not followed yet */
	bool deep;               /* too many segments for direct mode */
	uint32_t nlayout;
	const rt_layout *layout[]; /* of the state; references held */
} jit_hit;

typedef struct jit_slot {
	tj_fn *fn;               /* NULL: it is gone */
	atomic_bool busy;        /* a call runs */
	jit_hit *last;           /* what `seen` was */
	jit_seen *seen;          /* arguments, then state */
	rt_vec(tj_scalar) scalar;
	gd_table table;          /* key -> hit */
	rt_vec(jit_hit *) known;
	uint32_t until_audit;
#define X(what) atomic_ullong what;
	JIT_SLOT_COUNTERS(X)
#undef X
	struct jit_slot *prev, *next; /* of the function */
} jit_slot;

/* ---- an activation: one running top-level call in one context ---------------------------------- */
/* An event that may fault, and that another line asked for than the one in the trace: errors name the line that ran. */
typedef struct jit_stray { uint32_t seq; const char *site; } jit_stray;

typedef struct jit_bound { /* an external of the running segment */
	tj_tensor *h;
	const rt_layout *layout;
	const void *data;        /* NULL: a value that its segment's plan did not keep */
	rt_buffer *buf;
	uint64_t seg;            /* PENDING: which value, for when h is popped before the boundary; CELL: its version then */
	uint32_t seq;
	bool pending;
	bool owned;              /* a reference on buf is held */
	bool taken;              /* CELL: this segment is the first of the call that meets it */
} jit_bound;

typedef enum jit_from_kind { JIT_FROM_ARG, JIT_FROM_STATE, JIT_FROM_VALUE, JIT_FROM_NUMBER } jit_from_kind;
typedef struct jit_from { /* DIRECT: where a tensor comes from */
	uint8_t kind;
	bool last;               /* VALUE: nobody uses it afterwards */
	uint16_t seg;            /* VALUE: of the call's segments */
	uint32_t index;          /* argument, state variable, value of the segment's plan */
} jit_from;

/* DIRECT: where a number comes from: kind in the top 4 bits. */
enum { JIT_CONST, JIT_ARG, JIT_SCALAR, JIT_EXPR, JIT_KEY, JIT_ORDINAL };
#define JIT_FROM(kind, i) ((uint32_t)(kind) << 28 | (uint32_t)(i))
typedef struct jit_operand { uint32_t from; tj_tensor *number; } jit_operand; /* number: what it was; in a segment, its bits */
typedef struct jit_late_expr { uint16_t op; uint8_t nsrc; bool callback; jit_operand src[3]; } jit_late_expr; /* callback: of control flow; it may not run */

typedef struct jit_done {  /* an executed segment */
	uint64_t serial;
	jit_node *boundary;
	jit_plan *plan;          /* reference held */
	rt_buffer **buf;         /* by value of the plan */
	void **data;
	jit_bound *ext;          /* what it ran with, for recomputing; each owned. None after the return */
	uint32_t next, nnum;
	uint64_t *num;
	jit_from *ext_from;      /* DIRECT: where externals and numbers came from */
	jit_operand *num_from;
	uint32_t next_from, nnum_from;
	uint32_t nexpr;          /* numbers computed from numbers up to here */
	jit_stray *stray;        /* DIRECT */
	uint32_t nstray;
	bool bit;                /* TRUTH: the way it went */
} jit_done;

typedef struct jit_assigned { /* a cell and its current version */
	rt_held *cell;
	tj_tensor *version;
	uint64_t was;            /* the cell's version number when it was first met */
} jit_assigned;

typedef struct jit_callback { /* a callback of control flow that is being traced */
	tj_scope *scope;         /* its own */
	const char *op, *site;
	uint32_t first;          /* its first event */
} jit_callback;
typedef struct jit_sized { /* what nonzero, masked_select, unique gave to the running call */
	const rt_buffer *buf;
	const char *op, *site;
	int64_t size;            /* of axis 0: it depends on data */
} jit_sized;
typedef struct jit_span { uint32_t first, end; } jit_span;

/* A thread: what others look at who want its contexts (claim.c). */
enum { JIT_INSIDE = 4 };
typedef struct jit_thread {
	_Atomic(const tj_ctx *) inside[JIT_INSIDE]; /* the contexts that it is inside of, outermost first; deeper ones are not noted */
	uint32_t depth;          /* of calls into the library; its own business */
	struct jit_thread *next; /* of the records that are free */
} jit_thread;
#define JIT_NOT_NEAR ((const jit_thread *)1)

typedef struct jit_act {
	tj_ctx *ctx;
	tj_fn *fn;
	jit_slot *slot;
	jit_hit *hit;
	jit_entry *entry;        /* the hit's */
	struct jit_learn *learn; /* DIRECT: what is learned on the way; NULL: nothing */
	uint64_t serial;         /* first segment's; unique in the context */
	const jit_thread *near;  /* the thread whose events may try the short way (jit_event()); JIT_NOT_NEAR: none may */
	uint32_t bodies;         /* running now: the call's own, nested ones, callbacks */
	_Atomic uint32_t left;   /* level of the outermost body that was left without returning; 0: none was */
	const char *left_name;
	uint32_t floor;          /* the thread's depth where the innermost body began */
	tj_scope *scope;         /* the call's own */
	bool failed;
	bool broken;             /* a plan failed in mid-body: what was pending is lost, so that nobody may go on */
	bool alone;              /* from the plan of the return to the commit: no other context is there */
	uint32_t levels;         /* segments that learned */
	bool recorded;           /* something of this call did not match */
	const char *reader;      /* what needs a value that was not kept; NULL: the return */
	double away;             /* TJ_TIME_GUARDS: nanoseconds at boundaries, events up to them */
	uint64_t followed;
	bool hints;              /* values know their external slot: not while direct mode marks placeholders */
	int depth;               /* nested calls */
	uint8_t mode;            /* of the innermost running function: IR_FAST */
	const tj_scalar *scalars;
	uint64_t ordinal;        /* random numbers drawn before the call */
	uint64_t taken;          /* errors of the context that were checked before the call */
	rt_vec(const char *) sites; /* of nested calls, outermost first */

	/* the running segment */
	jit_node *cursor, *fresh; /* last event; first private one, or NULL while all matched */
	uint64_t seg;
	uint32_t seq;
	rt_vec(jit_bound) ext;
	rt_vec(uint64_t) num;
	rt_vec(rt_held *) cell;
	rt_vec(jit_stray) stray;
	unsigned long long since; /* commits_ended before the segment took its first cell */
	uint32_t ntaken;         /* cells bound in this segment, and those that were unbound again; 0: `since` is not valid */
	rt_vec(uint32_t) index;  /* hash of those externals by handle that keep no hint: cap a power of two; slot + 1 */
	uint32_t loose;          /* how many those are */
	bool indexed;            /* index holds them */
	rt_vec(jit_callback) callback; /* that run now, outermost first */
	rt_vec(jit_span) closed; /* events of callbacks that have returned: values nobody else may use */

	rt_vec(jit_taken) read;  /* cells that C read by tj_item() and its like */
	rt_vec(jit_sized) sized;
	rt_vec(jit_assigned) assigned;
	rt_vec(jit_done) done;
	rt_vec(rt_buffer *) hold; /* released at the end of the call */
	rt_vec(rt_held *) retained; /* by this call, still pending */
	rt_vec(rt_held *) released; /* by this call: dropped at its end */
	jit_segment *truth;      /* the TRUTH that the running segment follows, and its bit */
	bool bit;
	double started;          /* recording: time of the first private event */
	rt_arena mem;            /* freed at the end of the call */
} jit_act;

static inline uint8_t jit_mode(const tj_fn *f) { return f->opts.numerics == TJ_FAST ? IR_FAST : 0; }
/* Of an event: what is no op has none. */
static inline uint8_t jit_mode_of(const jit_act *a, int op) { return op < IR_OPS ? a->mode : 0; }

/* ---- direct mode: the path of a call without its body ------------------------------------------ */
enum { JIT_MAX_LEVELS = 16 };
typedef struct jit_assign { jit_from cell, value; } jit_assign;
typedef struct jit_path { /* a segment; what needs room in a call has it here: a path is its context's own */
	rt_arena mem;            /* everything below, and this */
	jit_plan *plan;          /* reference held */
	const jit_node *boundary;
	const char *site;
	uint32_t next, nnum, expr0, nexpr;
	jit_from *ext;
	jit_operand *num;
	jit_late_expr *expr;
	jit_stray *stray;
	uint32_t nstray;
	bool late;               /* some number is not constant */
	bool branches;           /* ends in TRUTH: the bit of `truth` chooses the way; else in RETURN */
	jit_from truth;
	struct jit_path *way[2]; /* NULL: not followed yet */
	uint32_t nout, nassign;
	jit_from *out;
	jit_operand *out_num;
	jit_assign *assign;
	uint32_t *into;          /* value -> 1 + assign whose cell it may overwrite */
	rt_buffer **over;        /* scratch: that cell's buffer */
	uint64_t draws;          /* random events of the whole call */
	jit_bound *bound;        /* scratch: externals, numbers, values */
	const void **ptr;
	uint64_t *bits;
	rt_buffer **buf;
	void **data;
} jit_path;

typedef struct jit_learn { /* DIRECT: what a call that follows the body learns */
	tj_tensor *const *in;    /* the arguments */
	tj_tensor **state;       /* the declared variables' tensors */
	rt_vec(uint32_t) src;    /* JIT_FROM of the running event's operands */
	rt_vec(uint32_t) from;   /* of the running segment's numbers, by slot */
	rt_vec(jit_late_expr) expr;
	uint64_t ordinal;        /* random numbers drawn before the call */
} jit_learn;

/* ---- contexts and engine ----------------------------------------------------------------------- */
struct tj_ctx {
	rt_ctx rt;               /* first: a tj_ctx is one */
	struct jit_engine *engine;
	jit_act act;             /* kept between calls: its arrays */
	bool active;
	_Atomic(jit_thread *) owner;  /* the thread that used the context last */
	_Atomic(const char *) last_call; /* its site */
	atomic_flag claim_lock;  /* of the thread that takes the context over */
	atomic_uint alone;       /* rt_fork_depth() while a run relies on this being the only context; else 0 or less */
	const tj_into *into;     /* where the outputs of the running call go, by output; NULL: to memory of the library */
	uint32_t busy;           /* functions of the user's, called back, that run now: they may not use the context */
	jit_learn learn;
	rt_vec(tj_tensor *) late; /* numbers that a direct call computed */
	rt_vec(jit_taken) taken; /* while other contexts may commit: by argument, then state */
	rt_vec(jit_slot *) slot; /* by index of the function */
	rt_vec(struct jit_outside *) outside; /* control flow outside of compiled functions */
	uint32_t ordinal;        /* among the engine's contexts */
};

typedef struct jit_engine {
	rt_engine rt;            /* first */
	int device;              /* where tensors are made */
	char *backend_name;
	const lo_target *target; /* what plans are lowered for; NULL: the evaluator */
	bool target_found;
	pthread_mutex_t target_lock;
	tj_fn *fns;              /* under rt.lock */
	uint64_t *used;          /* bits: indices of functions; under rt.lock */
	uint32_t nused;          /* words */
	uint32_t audit;
	bool timed;              /* TJ_TIME_GUARDS */
	void (*log_to)(void *self, const char *line);
	void *log_self;
	char *dump;              /* TJ_DUMP: a folder; NULL: none */
	atomic_uint dumped;
	rt_vec(tj_pass) pass;    /* of every function; under rt.lock */
	uint64_t seed;
	atomic_uint clones;
	struct jit_eager *eager;
	gd_table constants;      /* content -> its serial; under rt.lock */
	struct jit_engine *prev, *next; /* of the process */
} jit_engine;

/* ctx.c */
extern _Thread_local tj_ctx *jit_thread_ctx __attribute__((tls_model("initial-exec"), visibility("hidden")));
const lo_target *jit_target(jit_engine *e); /* NULL: the evaluator */
const lo_backend *jit_backend(jit_engine *e); /* opens the target's back end; NULL: it is not there, or the evaluator was asked for */
/* lo_build(). Warns when the back end is not there, once for an engine; from then on the evaluator runs all its plans. */
tj_status jit_lower(jit_engine *e, const ir_graph *g, lo_opts *o, rt_exec **out, rt_err *err);
tj_tensor *jit_error(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...) RT_PRINTF(6, 7); /* returns poison */
tj_tensor *jit_report(tj_ctx *c, const char *site, const rt_err *e); /* the same from an rt_err */
tj_tensor *jit_no_context(void);

/* claim.c: one thread at a time. */
extern _Thread_local jit_thread *jit_me __attribute__((tls_model("initial-exec"), visibility("hidden"))); /* NULL until its first use of a context */
void jit_disown(tj_ctx *c); /* a context that no thread has used yet */
bool jit_take_over(tj_ctx *c);
tj_ctx *jit_come_in_anew(tj_ctx *c, const char *site);

static inline void jit_note_in(tj_ctx *c)
{
	uint32_t i = jit_me->depth++;
	if (RT_LIKELY(i < JIT_INSIDE)) atomic_store_explicit(&jit_me->inside[i], c, memory_order_relaxed);
	rt_barrier_light();
}
/* Back to a depth of before: what was left by longjmp() does not go out by itself. */
static inline void jit_go_out_to(jit_thread *t, uint32_t depth)
{
	for (uint32_t i = depth; i < JIT_INSIDE; i++) atomic_store_explicit(&t->inside[i], NULL, memory_order_release);
	t->depth = depth;
}
static inline void jit_go_out(tj_ctx *const *c)
{
	uint32_t i = *c ? --jit_me->depth : JIT_INSIDE;
	if (RT_LIKELY(i < JIT_INSIDE)) atomic_store_explicit(&jit_me->inside[i], NULL, memory_order_release);
}
/* The calling thread is inside of c, until jit_go_out(); NULL: c is NULL, or another thread is inside, and both are told. */
static inline tj_ctx *jit_come_in(tj_ctx *c, const char *site)
{
	if (RT_UNLIKELY(!c)) return NULL;
	if (RT_UNLIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) != jit_me)) return jit_come_in_anew(c, site);
	jit_note_in(c);
	if (RT_LIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	jit_go_out(&c);
	return jit_come_in_anew(c, site);
}
/* For what takes a few instructions: not noted, so that only a thread which takes the context over just then goes unseen. */
static inline tj_ctx *jit_look_in(tj_ctx *c, const char *site)
{
	if (RT_LIKELY(c && atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	tj_ctx *in = c ? jit_come_in_anew(c, site) : NULL;
	jit_go_out(&in);
	return in;
}
/* At the head of every function of tj.h that uses a context: `in` is it, or NULL when the function must refuse. To the end of the block. */
#define JIT_COME_IN(in, c, site) tj_ctx *const in __attribute__((cleanup(jit_go_out))) = jit_come_in(c, site)
#define JIT_CURRENT(in, site) JIT_COME_IN(in, jit_thread_ctx, site)
/* Around what relies on this being the engine's only context; true: it is, until jit_alone_end(). */
static inline void jit_alone_end(tj_ctx *c) { atomic_store_explicit(&c->alone, 0, memory_order_release); }
static inline bool jit_alone_begin(tj_ctx *c)
{
	atomic_store_explicit(&c->alone, rt_fork_depth(), memory_order_relaxed);
	rt_barrier_light();
	if (RT_LIKELY(atomic_load_explicit(&c->engine->rt.contexts, memory_order_acquire) == 1)) return true; /* and what the last one to go had written is seen */
	jit_alone_end(c);
	return false;
}
bool jit_alone_wait(tj_ctx *c); /* until nobody relies on it any more; false: the calling thread itself does */

/* Around a function of the user's that is called back while the context is at work: what it asks of the context is refused. */
typedef struct jit_pause { tj_ctx *c; const jit_thread *near; } jit_pause;
static inline jit_pause jit_calls_back(void)
{
	jit_pause p = { jit_thread_ctx, NULL };
	if (!p.c) return p;
	p.c->busy++;
	p.near = p.c->act.near;
	p.c->act.near = JIT_NOT_NEAR;
	return p;
}
static inline void jit_called_back(const jit_pause *p)
{
	if (!p->c) return;
	p->c->busy--;
	p->c->act.near = p->near;
}
#define JIT_CALLS_BACK const jit_pause pause __attribute__((cleanup(jit_called_back), unused)) = jit_calls_back()

/* body.c: noticing when the body does not return. */
void jit_run_body(jit_act *a, const char *name, tj_body *body, tj_tensor **out, tj_tensor *const *in, void *self);

/* call.c */
jit_act *jit_active(tj_ctx *c); /* the running activation; drops one whose body was left without returning */

/* constant.c */
uint64_t jit_constant_id(jit_engine *e, const rt_layout *l, const void *data); /* equal ids: equal dtype, sizes and bytes. Equal contents have equal ids until 4,096 others came. Never 0 */
void jit_constants_free(jit_engine *e);

/* handle.c */
typedef enum jit_admit { JIT_OK, JIT_POISON } jit_admit;
jit_admit jit_admit_all(tj_ctx *c, const char *site, const char *op, int nsrc, tj_tensor *const *src, tj_tensor **in);
ir_meta jit_meta(const tj_tensor *t);
ir_meta jit_layout_meta(const rt_layout *l);
tj_tensor *jit_new_value(tj_ctx *c, tj_scope *s, const rt_layout *layout, rt_buffer *buf, void *data); /* takes over the references */
tj_tensor *jit_share(tj_ctx *c, tj_scope *s, const tj_tensor *t); /* a second handle of the same value, in scope s; NULL: out of memory */

/* scope.c */
void jit_leaves_trace(jit_act *a, const char *what, const char *site); /* beyond the call, which is not for direct mode then; a: or NULL */

/* number.c */
tj_tensor *jit_fitting(const char *site, tj_dtype t, tj_tensor *value); /* of tj_full(): a number that t cannot hold is an error, now and in direct mode */
typedef enum jit_zero_div { JIT_ZERO_DIV_ERROR, JIT_ZERO_DIV_0, JIT_ZERO_DIV_LATER } jit_zero_div; /* an integer division of numbers by zero: LATER faults when it runs */
tj_tensor *jit_number_op(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, jit_zero_div z); /* numbers alone; NULL: not for this op, or LATER */

/* event.c, record.c */
const char *jit_event_name(int op);
bool jit_creates(int nsrc, const ir_meta *src); /* operands are numbers, or none: the result is made where the engine's tensors are */
tj_tensor *jit_event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
/* Of an op that has several results: the first; to: where the n others go, NULL: not wanted. */
tj_tensor *jit_events(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, int n, tj_tensor **const *to);
jit_node *jit_step(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr); /* match or record; NULL on error */
jit_node *jit_record(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
bool jit_bind_number(jit_act *a, int k, tj_tensor *h);
bool jit_same_number(const jit_act *a, uint32_t i, int k, const tj_tensor *h);
int jit_find_ext(const jit_act *a, const tj_tensor *h);
bool jit_bind_ext(jit_act *a, tj_tensor *h, jit_ext *met); /* appends to a->ext; met, when not NULL, is filled, holding no reference */
void jit_unbind_ext(jit_act *a, uint32_t n);
void jit_index_ext(jit_act *a, uint32_t from); /* enters a->ext[from..] into the index */
void jit_put_numbers(char *was, char *is, size_t room, bool is_int, uint64_t before, uint64_t now); /* so that they look different */
void jit_explain_exit(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
bool jit_same_node(const jit_node *a, const jit_node *b);
void jit_free_node(jit_node *n);
void jit_free_trie(jit_node *first);

tj_tensor *jit_result(jit_act *a, const jit_node *n); /* a handle of the event's value; NULL: out of memory */

/* flow.c */
bool jit_closed(const jit_act *a, uint32_t seq); /* a value of a callback that has returned */
bool jit_in_callback(tj_ctx *c, const char *site, const char *op, const char *hint); /* an error, and true: op may not stand in a callback */
bool jit_callback_pops(const jit_act *a, const tj_scope *s); /* s is older than the running callback */
void jit_outside_free(tj_ctx *c);

/* sized.c */
enum { JIT_SIZED_LINES = 64 }; /* of a function, that are remembered */
const jit_sized *jit_find_sized(const jit_act *a, const rt_buffer *b); /* NULL: its size is none that depends on data */
const jit_sized *jit_find_size(const jit_act *a, int64_t size);
bool jit_sized_news(tj_fn *f, const char *site); /* it was not told yet */


/* inner.c */
const jit_node *jit_flow_of(const jit_node *yield); /* the control flow that a YIELD belongs to */
uint32_t jit_inner_name(jit_segment *s, uint32_t seq, uint32_t step); /* an old or a new one; 0: out of memory. Under fn->compile */
/* An inner value of what computed t, a value of an earlier segment of the running call; poison after an error. It is kept from now on,
 * and computed once more where the plan that ran did not. */
uint32_t jit_event_of(const jit_act *a, const jit_segment *s, uint32_t name); /* the event that computes a named value */
tj_tensor *jit_inner_of(jit_act *a, const char *site, const tj_tensor *t, uint32_t step);

/* segment.c */
jit_done *jit_find_done(jit_act *a, uint64_t serial); /* the segment of the running call; NULL: it is none of them */
void jit_end_segments(jit_act *a); /* gives up every value and reference of the activation's segments */
bool jit_boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src); /* runs what is pending */
bool jit_find_value(jit_act *a, const tj_tensor *h, const rt_layout **layout, rt_buffer **buf, void **data); /* of an earlier segment */
bool jit_recover(jit_act *a, const tj_tensor *h); /* recomputes what its plan did not keep */
void jit_start_segment(jit_act *a);
void jit_hold(void *act, rt_buffer *b); /* keeps a buffer to the end of the call: it may be an operand of what is pending */
void jit_follow(tj_ctx *c, const tj_tensor *t, bool bit); /* notes which way a TRUTH went */

int jit_find_in_plan(const jit_plan *p, uint32_t seq);
typedef struct jit_inputs { /* of a plan */
	const jit_bound *ext;
	uint32_t next;
	const uint64_t *num;
	rt_buffer **into;        /* by value: memory of the caller that it is computed in, a reference; NULL: none */
	rt_buffer *const *over;  /* by value: a cell's buffer that it may overwrite when `owners` references are all there are; NULL: none */
	int owners;
	const jit_node *boundary; /* for errors: the segment's last event, and its strays */
	const jit_stray *stray;
	uint32_t nstray;
} jit_inputs;
/* Runs x in order with the work of other contexts' queues on the same buffers. in: by external, NULL where it is none; out: by output. */
tj_status jit_run_on_devices(const rt_exec *x, rt_run *r, uint32_t nin, rt_buffer *const *in, rt_buffer *const *out);
bool jit_run_plan(tj_ctx *c, const char *site, const jit_plan *p, const jit_inputs *in, const void **ptr, rt_buffer **buf, void **data); /* ptr, buf, data: room */

/* into.c: tj_call_into() */
/* The plan may compute this value where output `output` goes: then into[value] is set. false: out of memory. */
bool jit_into_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t value, int output, rt_buffer **into);
bool jit_into_settle(tj_ctx *c, const char *site, const tj_fn *f, tj_scope *scope, tj_tensor **out); /* handles of that scope; before the commit; false: the error is told */

/* learn.c */
tj_tensor *jit_late(jit_act *a, uint32_t from, tj_tensor *number);
tj_tensor *jit_late_op(jit_act *a, int op, int nsrc, tj_tensor *const *src, tj_tensor *result);
void jit_learn_operands(jit_act *a, int n);
void jit_learn_number(jit_act *a, uint32_t slot, uint32_t from);
void jit_learn_segment(jit_act *a, jit_done *d);
void jit_learn_end(jit_act *a, tj_tensor *const *res);
void jit_learn_stop(jit_act *a, const char *site, const char *fmt, ...) RT_PRINTF(3, 4);
void jit_path_free(jit_path *p);

/* symbols.c */
void jit_put_general(tj_fn *f, const jit_general *g, rt_text *t);

/* dump.c */
void jit_dump_plan(tj_fn *f, const char *where, const jit_plan *p);

/* passes.c */
bool jit_run_passes(tj_fn *f, ir_graph *g, rt_err *err); /* *g is replaced */
bool jit_hook(tj_fn *f, ir_graph *g, rt_exec **x, rt_err *err); /* *x NULL: the graph goes on to the context's back end */

/* audit.c */
bool jit_audit_values(tj_dtype t, int64_t n, const void *got, const void *want, const char *what, rt_err *err); /* bit for bit, NaNs as one; both row-major */
bool jit_audit_due(const jit_act *a, const jit_plan *p); /* under TJ_AUDIT */
bool jit_audit(tj_ctx *c, const jit_done *d, const jit_inputs *in, void *const *data); /* the plan's values are the evaluator's; else an error, and false */

/* direct.c */
bool jit_direct(tj_ctx *c, jit_slot *s, jit_hit *h, const char *site, tj_list in, const tj_scalar *scalars, tj_tensor **out, tj_status *status); /* false: the body must be followed */

/* build.c */
jit_plan *jit_build(const jit_act *a, jit_node *boundary, const uint32_t *want, uint32_t nwant, const jit_bound *ext, rt_err *err); /* ext: whose constants are folded */
void jit_plan_unref(jit_plan *p);
void jit_put_plan(tj_fn *f, const jit_plan *p, tj_dump_what what, rt_text *t); /* any dump but the trace */
bool jit_graph(ir_graph *g, jit_node *boundary, const jit_plan *p); /* what the plan was made of; the caller frees g */
bool jit_inner_layout(const jit_act *a, jit_node *boundary, const jit_inner *v, const rt_layout **out, rt_err *err); /* a new reference */
const lo_opts *jit_lower_opts(tj_fn *f, jit_engine *e, lo_opts *o);

/* cell.c */
uint64_t jit_content_id(tj_fn *f, const tj_tensor *t); /* of a constant, or of a tensor in .freeze; 0: content may differ */
tj_tensor *jit_version(jit_act *a, tj_tensor *cell); /* the handle that stands for it now */
void jit_take_cell(jit_taken *t); /* t->cell as it is committed now */
void jit_take_cells(tj_ctx *c, jit_taken *t, uint32_t n); /* the same for several, all as of one commit; elements without a cell stay empty */
/* t->cell as the call met it first, whoever commits meanwhile; true: in an earlier segment than the running one. */
bool jit_met_cell(jit_act *a, jit_taken *t);
void jit_bind_cell(jit_act *a, jit_bound *b); /* of b->h */
bool jit_read_cell(jit_act *a, jit_taken *t); /* jit_met_cell() for C, which sees the value: the call keeps to it, and holds the reference */
bool jit_one_commit(jit_act *a); /* all cells that the segment met first become those of one commit; false: out of memory */
typedef struct jit_write { rt_held *cell; rt_buffer *buf; uint64_t was; } jit_write; /* buf: a reference; what the cell was when the call met it */
tj_status jit_write_cells(tj_ctx *c, jit_write *w, uint32_t n, bool alone, rt_err *err); /* all or none; takes the references over */
rt_buffer *jit_content(tj_ctx *c, const rt_layout *l, rt_buffer *b, void *data, rt_err *err); /* row-major from its start: b itself, or a copy; a reference */
tj_status jit_commit(jit_act *a, rt_err *err);

/* fn.c */
jit_entry *jit_find_entry(tj_ctx *c, tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site, bool *fresh); /* a reference; NULL: the error is told */
lo_moving jit_moving(const jit_act *a, const jit_bound *ext, uint32_t next, rt_arena *mem); /* which sizes are symbols */
uint32_t jit_max_sizes(const tj_fn *f);
void jit_entry_unref(jit_entry *e);
void jit_drop_empty(jit_entry *e);

/* note.c: what is told, in words: to the log, to callbacks, to tj_explain() */
enum { JIT_WHERE = 160 };
char *jit_where(char *to, const tj_fn *f, const jit_entry *e, int segment); /* "f/0.2/1", with room for JIT_WHERE; segment -1: none */
void jit_reason(tj_fn *f, const tj_reason *r);               /* .on_recompile */
void jit_note(tj_fn *f, rt_topic topic, const tj_reason *n); /* .on_note */
void jit_tell_segment(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p); /* what was compiled; not under a lock */
void jit_put_decisions(tj_fn *f, const jit_plan *p, rt_text *t); /* a line each */
void jit_put_boundary(const jit_node *b, const jit_plan *p, rt_text *t); /* what it cost; nothing at a return */

/* guard.c: guards one by one; those that were dropped */
typedef void jit_see_guard(void *self, const tj_guard *g, bool dropped);
void jit_each_entry_guard(tj_fn *f, const jit_entry *e, jit_see_guard *see, void *self);
void jit_each_node_guard(tj_fn *f, const jit_node *n, jit_see_guard *see, void *self);
void jit_log_guards(tj_fn *f, const jit_entry *e, const jit_node *boundary); /* NULL: those of the entry */
bool jit_make_asked(tj_fn *f);
void jit_filter_node(tj_fn *f, jit_node *n); /* which is private yet */
bool jit_drops_content(tj_fn *f, uint32_t place, uint64_t content, const char *site); /* of an argument, or of state behind them */
bool jit_drops_scalar(tj_fn *f, uint32_t k, int64_t value);
void jit_audit_key(tj_ctx *c, tj_fn *f, const char *site, tj_list in, const tj_scalar *scalars); /* what the key leaves out */
/* An event does not match by this alone; true: that guard was dropped. */
bool jit_loose_attr(const jit_node *n, int k, int64_t found);
bool jit_loose_content(const jit_act *a, const jit_ext *want, const tj_tensor *h);
bool jit_loose_number(const jit_act *a, const jit_node *n, uint32_t slot, const tj_tensor *h);

/* slot.c */
jit_slot *jit_slot_make(tj_ctx *c, tj_fn *f); /* NULL: out of memory */
void jit_slots_free(tj_ctx *c);
void jit_slots_drop(tj_fn *f);
jit_hit *jit_timed_check(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars); /* the same, measured */
jit_hit *jit_same_as_last(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars); /* the last hit when it holds, else NULL */
jit_hit *jit_meet(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars, const char *site); /* by key; NULL: the error is told */

/* eager.c */
/* out: the results that are wanted, a bit each in `want`; poison after an error */
void jit_eager(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, uint32_t want, tj_tensor **out);
void jit_eager_free(struct jit_eager *t);

/* A run of an executable in the context. */
static inline rt_run jit_run(const tj_ctx *c, const void *const *ext, const uint64_t *num, void *const *out, rt_err *err)
{
	rt_run r = c->rt.run;
	r.ext = ext;
	r.num = num;
	r.out = out;
	r.err = err;
	return r;
}

#define JIT_COUNT(f, what) atomic_fetch_add_explicit(&(f)->count.what, 1, memory_order_relaxed)
/* By the slot's context alone. */
#define JIT_TICK(s, what) atomic_store_explicit(&(s)->what, atomic_load_explicit(&(s)->what, memory_order_relaxed) + 1, memory_order_relaxed)

static inline jit_slot *jit_slot_of(const tj_ctx *c, const tj_fn *f)
{
	jit_slot *s = f->index < c->slot.n ? c->slot.v[f->index] : NULL;
	return s && s->fn == f ? s : NULL;
}

#endif
