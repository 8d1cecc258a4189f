/* jit: how a call runs.
 *
 *   tj_call -> find the entry -> run the body, each event matched or recorded -> at a boundary: seal -> lower ->
 *   generate -> run -> at the return: commit
 *
 * An event is one thing that a body asks of the library. The events between two boundaries are a segment. An entry (one
 * argument signature) holds a trie of events. Every segment starts at the root of the trie; the values of earlier segments
 * are its externals. A published node of the trie never changes, except for a few atomics. */
#ifndef TJ_JIT_JIT_H
#define TJ_JIT_JIT_H

#include "guards/guards.h"
#include "ir/ir.h"
#include "lower/target.h"
#include "runtime/barrier.h"
#include "runtime/bytes.h"
#include "runtime/tensor.h"

/* ---- trace ------------------------------------------------------------------------------------- */

/* Events that are no ops. Control flow is recorded as: IR_cond, IR_while or IR_scan; then its callbacks in order, each as CALLBACK,
 * PARAMs, the events of the callback, YIELD; then an IR_get for each result. The attributes of PARAM and IR_get are their type:
 * {which, dtype, device, size...}. An op with several results is followed by an IR_get for each result that the caller wants. */
#define JIT_EVENTS(X)                                                                                                     \
	X(ASSIGN, "assign")     /* cell, value */                                                                            \
	X(RETAIN, "retain")     /* value; it outlives the call */                                                            \
	X(CALLBACK, "callback") X(PARAM, "parameter") X(YIELD, "yield")                                                      \
	/* boundaries: the host needs their operands */                                                                        \
	X(TRUTH, "truth") X(ITEM, "item") X(DATA, "data") X(NONZERO, "nonzero") X(MASKED_SELECT, "masked_select")            \
	X(UNIQUE, "unique") X(RETURN, "return")
typedef enum jit_event_kind {
	JIT_EVENT_BASE = IR_OP_COUNT - 1, /* event kinds are numbered behind the ops */
#define X(kind, name) JIT_##kind,
	JIT_EVENTS(X)
#undef X
} jit_event_kind;

/* The content of a cell at one commit; buf: a reference is held. */
typedef struct jit_taken { rt_held *cell; rt_buffer *buf; void *data; uint64_t version; } jit_taken;

/* An operand of an event: kind in the top 3 bits. */
typedef uint32_t jit_ref;
enum { JIT_EV, JIT_EXT, JIT_FLOAT, JIT_INT, JIT_CELL }; /* the index is an event number, an external slot, a number slot (twice), a cell slot */
#define JIT_REF(kind, i) ((jit_ref)(kind) << 29 | (i))
#define JIT_KIND(r) ((r) >> 29)
#define JIT_IDX(r) ((r) & 0x1FFFFFFF)

/* What an external must be where its segment uses it first. */
typedef struct jit_ext {
	const rt_layout *layout; /* reference held */
	uint64_t content;        /* serial of a constant's content, else 0 */
	bool cell;
	bool loose;              /* the guard of its content was dropped */
} jit_ext;

typedef struct jit_node {
	uint16_t op, nsrc, nattr;
	uint8_t mode;            /* of an op: see ir_node; else 0 */
	uint8_t draws;           /* 1: a random op. next_is() compares the fields from op to here as one word */
	uint32_t seq;            /* event number in the segment */
	uint16_t nmet;           /* number of externals that this event is the first to use */
	rt_head value;           /* first word of a handle of the result */
	uint32_t next, nnum, ncell; /* number of externals, numbers, cells that earlier events of the segment use */
	uint32_t loose;          /* dropped guards: a bit for each attribute, and JIT_LOOSE_NUMBERS */
	const rt_layout *layout; /* of the result; reference held; NULL: no result */
	const char *site;
	struct jit_node *parent, *sibling;
	_Atomic(struct jit_node *) child;
	struct jit_segment *segment; /* of a boundary: what was compiled; else NULL */
	const int64_t *attr;     /* as the user gave them. attr, met and src point to memory behind the node */
	const jit_ext *met;
	const jit_ref *src;
} jit_node;
_Static_assert(offsetof(jit_node, op) == 0 && offsetof(jit_node, nsrc) == 2 && offsetof(jit_node, nattr) == 4 && offsetof(jit_node, mode) == 6 && offsetof(jit_node, draws) == 7 &&
               offsetof(jit_node, seq) == 8, "next_is() compares the first five as one word");

enum { JIT_LOOSE_ATTRS = 30 }; /* only guards of the first 30 attributes can be dropped */
#define JIT_LOOSE_NUMBERS (1u << 30)
#define JIT_LOOSE_TOLD (1u << 31) /* the audit has reported this event */

/* An inner value: step `step` of the computation of event seq (ir/inner.c); no event has it as its result. Its name is JIT_INNER | its index in
 * jit_segment.inner; a name may be used in place of an event number of an earlier segment. */
enum { JIT_INNER = 1 << 28 };
typedef struct jit_inner { uint32_t seq, step; const rt_layout *layout; } jit_inner; /* layout: a reference is held; NULL until it is first needed */

/* A value that a plan computes. seq: its event number, or the name of an inner value. */
typedef struct jit_value { uint32_t seq; jit_inner inner; const rt_layout *layout; } jit_value; /* inner: set when seq is a name; its layout is not used */
typedef struct jit_plan {
	atomic_int refs;
	rt_exec *exec;
	uint32_t n;
	jit_value *value;        /* sorted by seq */
	ir_graph graph;          /* the graph that was lowered; dumps lower it again to make their text. Valid when n > 0 */
	struct jit_plan *older;  /* the plan that this one replaced; kept while the segment lives, since another thread may be about to take a reference */
	atomic_bool audited;     /* its values were compared with those of the evaluator */
} jit_plan;

typedef struct jit_segment {
	uint32_t number;         /* index in jit_entry.sealed: the order of compilation */
	_Atomic(jit_plan *) plan;
	rt_vec(uint32_t) keep;   /* event numbers and names of the values that the plan computes for later; only grows */
	rt_vec(jit_inner) inner; /* index: name without JIT_INNER; only grows, so that names stay valid. Under fn->compile */
	atomic_uint hits, misses;
	atomic_uint taken[2];    /* of a TRUTH: how often it was false, true */
	atomic_uint after[2];    /* of a TRUTH: 1 + number of the segment that last followed false, true; 0: none */
} jit_segment;

/* ---- entries, functions ------------------------------------------------------------------------ */
/* All signatures that differ only in sizes. Each has its own jit_entry and trace; they share code. */
typedef struct jit_general {
	atomic_int refs;         /* held by the function and by each entry */
	uint32_t number;
	gd_sig sig;              /* the first signature that was met */
	uint32_t *moved;         /* by argument: a bit for each dimension whose size is a symbol */
	uint32_t met;            /* number of entries ever made of it */
} jit_general;

typedef struct jit_entry {   /* one signature, sizes included */
	atomic_int refs;         /* held by the table, by activations and by hits */
	atomic_bool dead;        /* evicted */
	struct tj_fn *fn;
	gd_sig sig;
	uint32_t number;         /* that of `general` */
	uint32_t nth;            /* which of the entries of `general` it is: 0, 1, ... */
	jit_general *general;
	jit_node root;
	rt_vec(jit_node *) sealed; /* compiled boundaries, in the order of compilation; under fn->compile */
	struct jit_hit *met;     /* list of the hits of all contexts that lead to this entry; under fn->table_lock */
	atomic_ullong hits, stamp; /* hits: those of freed jit_hits. stamp: serial of the last call, to evict the oldest */
} jit_entry;

/* Each context has its own counters (jit_slot), without contention. When a context ends, its counts are added to those of the function. */
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
typedef struct jit_ring { /* the last messages; under fn->table_lock */
	jit_line line[JIT_REASONS];
	uint32_t n, told;        /* n: lines that were new. told: all lines, repeated ones included */
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
	uint32_t index;          /* in tj_ctx.slot; an index is used again after the function is freed */
	atomic_bool follow;      /* DIRECT: the body runs on every call from now on */
	atomic_bool told;        /* it was reported that a nested call ignores .int_div_zero of this function */
	atomic_uint parted;      /* number of side exits because two numbers of one line were no longer equal */
	pthread_mutex_t table_lock, compile;
	gd_table table;
	rt_vec(jit_entry *) entry;
	rt_vec(jit_general *) general;
	uint32_t next_entry;
	gd_spec *spec;           /* of .shapes; NULL: none */
	lo_family *family;       /* code shared by all sizes; NULL: .dynamic is OFF */
	jit_ring reasons, notes;
	struct jit_asked *asked; /* answers of .guard_filter for the guards of the key, by argument, state, scalar; NULL: no filter */
	rt_vec(const char *) sized; /* reported lines: their tensors have sizes that depend on data; under table_lock */
	jit_counters count;
	struct jit_slot *slots;  /* list of the slots of all contexts that call it; under table_lock */
	tj_fn *prev, *next;
};

/* ---- slots: what a context knows of a function ------------------------------------------------- */
typedef struct jit_seen { /* an argument or a state variable of the last call */
	const rt_layout *layout;
	uint64_t content;
	const tj_tensor *self;   /* NULL unless the key depends on which handle it is */
	uint8_t kind;
} jit_seen;

typedef struct jit_hit { /* a key that a context has met, and its entry */
	jit_entry *entry;        /* reference held */
	struct jit_hit *prev, *next; /* list jit_entry.met */
	atomic_ullong hits;      /* written by its context only */
	struct jit_path *path;   /* DIRECT: runs instead of the body; NULL: not learned yet */
	bool deep;               /* the call has too many segments for direct mode */
	uint32_t nlayout;
	const rt_layout *layout[]; /* of the state; references held */
} jit_hit;

typedef struct jit_slot {
	tj_fn *fn;               /* NULL: it was freed */
	atomic_bool busy;        /* a call of fn runs in the context */
	jit_hit *last;           /* the hit of the last call, whose operands `seen` describes */
	jit_seen *seen;          /* arguments, then state */
	rt_vec(tj_scalar) scalar;
	gd_table table;          /* key -> hit */
	rt_vec(jit_hit *) known;
	uint32_t until_audit;
#define X(what) atomic_ullong what;
	JIT_SLOT_COUNTERS(X)
#undef X
	struct jit_slot *prev, *next; /* list tj_fn.slots */
} jit_slot;

/* ---- an activation: one running top-level call in one context ---------------------------------- */
/* An event that may fault, and that another line asked for than the one in the trace. site: the line that ran, for errors. */
typedef struct jit_stray { uint32_t seq; const char *site; } jit_stray;

typedef struct jit_bound { /* an external of the running segment */
	tj_tensor *h;
	const rt_layout *layout;
	const void *data;        /* NULL: the plan of its segment did not keep the value */
	rt_buffer *buf;
	uint64_t seg;            /* pending: seg and seq name the value, since h may be popped before the boundary. CELL: its version when it was bound */
	uint32_t seq;
	bool pending;
	bool owned;              /* a reference on buf is held */
	bool taken;              /* CELL: no earlier segment of the call used it */
} jit_bound;

typedef enum jit_from_kind { JIT_FROM_ARG, JIT_FROM_STATE, JIT_FROM_VALUE, JIT_FROM_NUMBER } jit_from_kind;
typedef struct jit_from { /* DIRECT: where a tensor comes from */
	uint8_t kind;
	bool last;               /* VALUE: this is its last use */
	uint16_t seg;            /* VALUE: index in jit_act.done */
	uint32_t index;          /* of the argument, of the state variable, or of the value in its plan */
} jit_from;

/* DIRECT: where a number comes from: kind in the top 4 bits. */
enum { JIT_CONST, JIT_ARG, JIT_SCALAR, JIT_EXPR, JIT_KEY, JIT_ORDINAL };
#define JIT_FROM(kind, i) ((uint32_t)(kind) << 28 | (uint32_t)(i))
typedef struct jit_operand { uint32_t from; tj_tensor *number; } jit_operand; /* number: its handle; in jit_done.num_from and jit_path.num its bits */
/* callback: it stands in a callback of control flow, which may not run. */
typedef struct jit_late_expr { uint16_t op; uint8_t nsrc; bool callback; jit_operand src[3]; } jit_late_expr;

typedef struct jit_done {  /* an executed segment */
	uint64_t serial;
	jit_node *boundary;
	jit_plan *plan;          /* reference held */
	rt_buffer **buf;         /* by value of the plan */
	void **data;
	jit_bound *ext;          /* externals that it ran with, owned, for recomputing; none for a RETURN */
	uint32_t next, nnum;
	uint64_t *num;
	jit_from *ext_from;      /* DIRECT: where the externals and the numbers come from */
	jit_operand *num_from;
	uint32_t next_from, nnum_from;
	uint32_t nexpr;          /* length of jit_learn.expr when the segment ended */
	jit_stray *stray;        /* DIRECT */
	uint32_t nstray;
	bool bit;                /* TRUTH: its value */
} jit_done;

typedef struct jit_assigned { /* a cell and its current version */
	rt_held *cell;
	tj_tensor *version;
	uint64_t was;            /* version number of the cell when the call first met it */
} jit_assigned;

typedef struct jit_callback { /* a callback of control flow whose events are being traced */
	tj_scope *scope;         /* the scope of the callback */
	const char *op, *site;
	uint32_t first;          /* its first event */
} jit_callback;
typedef struct jit_sized { /* a result of nonzero, masked_select or unique in the running call */
	const rt_buffer *buf;
	const char *op, *site;
	int64_t size;            /* of axis 0; depends on data */
} jit_sized;
typedef struct jit_span { uint32_t first, end; } jit_span;

/* A thread, for other threads that want to use its contexts (claim.c). */
enum { JIT_INSIDE = 4 };
typedef struct jit_thread {
	_Atomic(const tj_ctx *) inside[JIT_INSIDE]; /* the contexts that it is inside of, outermost first; deeper ones are not noted */
	uint32_t depth;          /* of nested calls into the library; used by the thread itself only */
	struct jit_thread *next; /* list of free records */
} jit_thread;
#define JIT_NOT_NEAR ((const jit_thread *)1)

typedef struct jit_act {
	tj_ctx *ctx;
	tj_fn *fn;
	jit_slot *slot;
	jit_hit *hit;
	jit_entry *entry;        /* that of the hit */
	struct jit_learn *learn; /* DIRECT: learns the path of this call; NULL: this call does not learn */
	uint64_t serial;         /* of the first segment; unique in the context */
	const jit_thread *near;  /* the thread whose events may take the fast path of jit_event(); JIT_NOT_NEAR: none may */
	uint32_t bodies;         /* number of bodies that run now: of the call, of nested calls, callbacks */
	_Atomic uint32_t left;   /* level of the outermost body that was left without returning; 0: none was */
	const char *left_name;
	uint32_t floor;          /* depth of the thread when the innermost body began */
	tj_scope *scope;         /* the scope of the call */
	bool failed;
	bool broken;             /* a plan failed in mid-body: pending values are lost, and the call cannot go on */
	bool alone;              /* set from the plan of the return to the commit when the engine has no other context */
	uint32_t levels;         /* number of segments that learned */
	bool recorded;           /* an event of this call did not match and was recorded */
	const char *reader;      /* line that needs a value which was not kept; NULL: the return */
	double away;             /* TJ_TIME_GUARDS. away: ns spent at boundaries. followed: number of events so far */
	uint64_t followed;
	bool hints;              /* values keep their external slot in seq; false while direct mode marks placeholders there */
	int depth;               /* of nested calls */
	uint8_t mode;            /* of the innermost running function: IR_FAST or 0 */
	const tj_scalar *scalars;
	uint64_t ordinal;        /* random numbers that the context drew before the call */
	uint64_t taken;          /* c->rt.taken before the call: number of errors that the user has fetched */
	rt_vec(const char *) sites; /* lines of the running nested calls, outermost first */

	/* the running segment */
	jit_node *cursor, *fresh; /* cursor: last event. fresh: first event that is not published; NULL while all matched */
	uint64_t seg;
	uint32_t seq;
	rt_vec(jit_bound) ext;
	rt_vec(uint64_t) num;
	rt_vec(rt_held *) cell;
	rt_vec(jit_stray) stray;
	unsigned long long since; /* value of commits_ended before the segment bound its first cell; valid when ntaken > 0 */
	uint32_t ntaken;         /* cells bound in this segment, those included that were unbound again */
	rt_vec(uint32_t) index;  /* hash table: handle -> slot + 1, of the externals whose handle has no slot hint; cap is a power of two */
	uint32_t loose;          /* number of externals without a hint */
	bool indexed;            /* `index` is up to date */
	rt_vec(jit_callback) callback; /* running now, outermost first */
	rt_vec(jit_span) closed; /* events of callbacks that have returned; their values may not be used outside */

	rt_vec(jit_taken) read;  /* cells whose values the body has read (tj_item() and others) */
	rt_vec(jit_sized) sized;
	rt_vec(jit_assigned) assigned;
	rt_vec(jit_done) done;
	rt_vec(rt_buffer *) hold; /* released at the end of the call */
	rt_vec(rt_held *) retained; /* retained by this call, still pending */
	rt_vec(rt_held *) released; /* released by this call; unreferenced at its end */
	jit_segment *truth;      /* segment of the TRUTH before the running segment; bit: its value */
	bool bit;
	double started;          /* time when the first private event was recorded, ms */
	rt_arena mem;            /* freed at the end of the call */
} jit_act;

static inline uint8_t jit_mode(const tj_fn *f) { return f->opts.numerics == TJ_FAST ? IR_FAST : 0; }
/* The mode of an event; 0 for events that are no ops. */
static inline uint8_t jit_mode_of(const jit_act *a, int op) { return op < IR_OPS ? a->mode : 0; }

/* ---- direct mode: the path of a call without its body ------------------------------------------ */
enum { JIT_MAX_LEVELS = 16 };
typedef struct jit_assign { jit_from cell, value; } jit_assign;
typedef struct jit_path { /* a segment. The scratch arrays are here because only one context uses a path */
	rt_arena mem;            /* holds everything below and this struct */
	jit_plan *plan;          /* reference held */
	const jit_node *boundary;
	const char *site;
	uint32_t next, nnum, expr0, nexpr;
	jit_from *ext;
	jit_operand *num;
	jit_late_expr *expr;
	jit_stray *stray;
	uint32_t nstray;
	bool late;               /* a number is not constant */
	bool branches;           /* true: ends in a TRUTH, and the value of `truth` chooses the way. false: ends in RETURN */
	jit_from truth;
	struct jit_path *way[2]; /* NULL: not learned yet */
	uint32_t nout, nassign;
	jit_from *out;
	jit_operand *out_num;
	jit_assign *assign;
	uint32_t *into;          /* by value: 1 + index of the assign whose cell it may overwrite; 0: none */
	rt_buffer **over;        /* scratch, by value: the buffer of that cell */
	uint64_t draws;          /* number of random events of the whole call */
	jit_bound *bound;        /* scratch, as are ptr to data: externals, numbers, values */
	const void **ptr;
	uint64_t *bits;
	rt_buffer **buf;
	void **data;
} jit_path;

typedef struct jit_learn { /* DIRECT: state of a call that runs the body and learns its path */
	tj_tensor *const *in;    /* the arguments */
	tj_tensor **state;       /* tensors of the declared variables */
	rt_vec(uint32_t) src;    /* JIT_FROM of the operands of the running event */
	rt_vec(uint32_t) from;   /* JIT_FROM of the numbers of the running segment, by slot */
	rt_vec(jit_late_expr) expr;
	uint64_t ordinal;        /* random numbers that the context drew before the call */
} jit_learn;

/* ---- contexts and engine ----------------------------------------------------------------------- */
struct tj_ctx {
	rt_ctx rt;               /* first, so that a tj_ctx is an rt_ctx */
	struct jit_engine *engine;
	jit_act act;             /* its arrays are kept between calls */
	bool active;
	_Atomic(jit_thread *) owner;  /* the thread that used the context last */
	_Atomic(const char *) last_call; /* line of the last tj_call() */
	atomic_flag claim_lock;  /* held by a thread that takes the context over */
	atomic_uint alone;       /* rt_fork_depth() while a run relies on this being the only context of the engine; any other value: no run does */
	const tj_into *into;     /* by output: memory of the caller for the results of the running call; NULL: memory of the library */
	uint32_t busy;           /* number of running user functions that the library called (passes, hooks, filters, log); they may not use the context */
	jit_learn learn;
	rt_vec(tj_tensor *) late; /* numbers computed by the running direct call */
	rt_vec(jit_taken) taken; /* direct call while other contexts may commit: contents of the cells, by argument, then state */
	rt_vec(jit_slot *) slot; /* by tj_fn.index */
	rt_vec(struct jit_outside *) outside; /* functions compiled for control flow that stands outside of compiled functions */
	uint32_t ordinal;        /* number of the context in its engine; seeds its random numbers */
};

typedef struct jit_engine {
	rt_engine rt;            /* first */
	int device;              /* device on which new tensors are made */
	char *backend_name;
	const lo_target *target; /* target of lowering; NULL: the evaluator runs everything */
	bool target_found;
	pthread_mutex_t target_lock;
	tj_fn *fns;              /* under rt.lock */
	uint64_t *used;          /* bit set of used function indices; under rt.lock */
	uint32_t nused;          /* words in `used` */
	uint32_t audit;
	bool timed;              /* TJ_TIME_GUARDS */
	void (*log_to)(void *self, const char *line);
	void *log_self;
	char *dump;              /* TJ_DUMP: a folder; NULL: none */
	atomic_uint dumped;
	rt_vec(tj_pass) pass;    /* passes of every function; under rt.lock */
	uint64_t seed;
	atomic_uint clones;
	struct jit_eager *eager;
	gd_table constants;      /* content of a constant -> its serial; under rt.lock */
	struct jit_engine *prev, *next; /* list of all engines of the process */
} jit_engine;

/* error.c */
extern _Thread_local tj_ctx *jit_thread_ctx __attribute__((tls_model("initial-exec"), visibility("hidden")));
tj_tensor *jit_error(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...) RT_PRINTF(6, 7); /* returns poison */
tj_tensor *jit_report(tj_ctx *c, const char *site, const rt_err *e); /* the same, from an rt_err */
tj_tensor *jit_no_context(void);

/* lowering.c */
const lo_target *jit_target(jit_engine *e); /* NULL: the evaluator */
const lo_backend *jit_backend(jit_engine *e); /* opens the back end of the target; NULL: it is missing, or the user chose the evaluator */
const lo_opts *jit_lower_opts(tj_fn *f, jit_engine *e, lo_opts *o); /* f NULL: an op outside of functions */
/* Calls lo_build(). When the back end is missing, warns once for each engine; from then on the evaluator runs all its plans. */
tj_status jit_lower(jit_engine *e, const ir_graph *g, lo_opts *o, rt_exec **out, rt_err *err);

/* claim.c: only one thread at a time uses a context. */
/* The record of the calling thread; NULL until the thread first uses a context. */
extern _Thread_local jit_thread *jit_me __attribute__((tls_model("initial-exec"), visibility("hidden")));
void jit_disown(tj_ctx *c); /* no thread owns c from now on */
bool jit_take_over(tj_ctx *c);
tj_ctx *jit_come_in_anew(tj_ctx *c, const char *site);

static inline void jit_note_in(tj_ctx *c)
{
	uint32_t i = jit_me->depth++;
	if (RT_LIKELY(i < JIT_INSIDE)) atomic_store_explicit(&jit_me->inside[i], c, memory_order_relaxed);
	rt_barrier_light();
}
/* Goes back to an earlier depth: after a longjmp() no jit_go_out() ran. */
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
/* The calling thread is inside of c until jit_go_out(). NULL: c is NULL, or another thread is inside; then both threads get an error. */
static inline tj_ctx *jit_come_in(tj_ctx *c, const char *site)
{
	if (RT_UNLIKELY(!c)) return NULL;
	if (RT_UNLIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) != jit_me)) return jit_come_in_anew(c, site);
	jit_note_in(c);
	if (RT_LIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	jit_go_out(&c);
	return jit_come_in_anew(c, site);
}
/* For functions of a few instructions: the thread is not noted, so another thread that takes c over at the same moment is not detected. */
static inline tj_ctx *jit_look_in(tj_ctx *c, const char *site)
{
	if (RT_LIKELY(c && atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	tj_ctx *in = c ? jit_come_in_anew(c, site) : NULL;
	jit_go_out(&in);
	return in;
}
/* At the head of every function of tj.h that uses a context: `in` is c, or NULL when the function must refuse. Left at the end of the block. */
#define JIT_COME_IN(in, c, site) tj_ctx *const in __attribute__((cleanup(jit_go_out))) = jit_come_in(c, site)
#define JIT_CURRENT(in, site) JIT_COME_IN(in, jit_thread_ctx, site)
/* Around code that relies on c being the only context of the engine; true: it is, until jit_alone_end(). */
static inline void jit_alone_end(tj_ctx *c) { atomic_store_explicit(&c->alone, 0, memory_order_release); }
static inline bool jit_alone_begin(tj_ctx *c)
{
	atomic_store_explicit(&c->alone, rt_fork_depth(), memory_order_relaxed);
	rt_barrier_light();
	/* acquire: writes of a context that has ended are visible */
	if (RT_LIKELY(atomic_load_explicit(&c->engine->rt.contexts, memory_order_acquire) == 1)) return true;
	jit_alone_end(c);
	return false;
}
bool jit_alone_wait(tj_ctx *c); /* waits until no run relies on c being alone; false: a run of the calling thread does */

/* Around a user function that the library calls while the context is at work: the function may not use the context. */
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

/* act.c */
void jit_act_end(tj_ctx *c);
void jit_start_segment(jit_act *a);
jit_act *jit_drop_left(tj_ctx *c);
/* The running activation; drops one whose body was left without returning. */
static inline jit_act *jit_active(tj_ctx *c)
{
	if (RT_LIKELY(!c->active)) return NULL;
	return RT_UNLIKELY(atomic_load_explicit(&c->act.left, memory_order_relaxed)) ? jit_drop_left(c) : &c->act;
}
void jit_hold(void *act, rt_buffer *b); /* keeps a buffer until the call ends, since pending events may read it */
bool jit_in_callback(tj_ctx *c, const char *site, const char *op, const char *hint); /* true: a callback runs, where op is not allowed; the error is reported */
bool jit_closed(const jit_act *a, uint32_t seq); /* event seq is of a callback that has returned */

/* done.c */
jit_done *jit_find_done(jit_act *a, uint64_t serial); /* the segment of the running call; NULL: it has no such segment */
/* h: a value of an earlier segment; false: its plan did not keep it */
bool jit_find_value(jit_act *a, const tj_tensor *h, const rt_layout **layout, rt_buffer **buf, void **data);
void jit_drop_values(jit_act *a, jit_plan *p, rt_buffer **buf); /* and the reference on the plan */
void jit_drop_done(jit_act *a, jit_done *d);

/* constant.c */
/* Never 0. Equal ids mean equal dtype, sizes and bytes. Equal contents get equal ids until the table is full (4,096 constants) and cleared. */
uint64_t jit_constant_id(jit_engine *e, const rt_layout *l, const void *data);
void jit_constants_free(jit_engine *e);

/* handle.c */
/* A number, or one that direct mode follows (RT_LATE). */
static inline bool jit_is_number(const tj_tensor *t) { return rt_is_number(t) || (t && t != TJ_END && t->kind == RT_LATE); }
typedef enum jit_admit { JIT_OK, JIT_POISON } jit_admit;
jit_admit jit_admit_all(tj_ctx *c, const char *site, const char *op, int nsrc, tj_tensor *const *src, tj_tensor **in);
ir_meta jit_meta(const tj_tensor *t);
ir_meta jit_layout_meta(const rt_layout *l);
tj_tensor *jit_fill_value(tj_tensor *t, const rt_layout *layout, rt_buffer *buf, void *data); /* t: a raw handle. Takes over the references */
tj_tensor *jit_new_value(tj_ctx *c, tj_scope *s, const rt_layout *layout, rt_buffer *buf, void *data); /* takes over the references */
tj_tensor *jit_share(tj_ctx *c, tj_scope *s, const tj_tensor *t); /* a second handle of the same value, in scope s; NULL: out of memory */

/* scope.c */
void jit_leaves_trace(jit_act *a, const char *what, const char *site); /* `what` has an effect beyond the call, so that direct mode cannot run it; a may be NULL */

/* number.c */
/* For tj_full(): returns value, or an error if it is a number that dtype t cannot hold; direct mode checks late numbers again. */
tj_tensor *jit_fitting(const char *site, tj_dtype t, tj_tensor *value);
/* What an integer division of two numbers by zero gives: an error, 0, or an error only if the division runs. */
typedef enum jit_zero_div { JIT_ZERO_DIV_ERROR, JIT_ZERO_DIV_0, JIT_ZERO_DIV_LATER } jit_zero_div;
/* Computes an op whose operands are all numbers. NULL: it cannot compute this op, or the division is left for later (LATER). */
tj_tensor *jit_number_op(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, jit_zero_div z);

/* trace.c */
const char *jit_event_name(int op);
jit_node *jit_new_node(int nsrc, int nattr, int nmet);
bool jit_same_node(const jit_node *a, const jit_node *b);
const jit_node *jit_flow_of(const jit_node *yield); /* the control flow that a YIELD belongs to */
void jit_free_node(jit_node *n);
void jit_free_trie(jit_node *first);
int jit_find_in_plan(const jit_plan *p, uint32_t seq);
void jit_plan_unref(jit_plan *p);

/* external.c */
int jit_find_ext(const jit_act *a, const tj_tensor *h);
bool jit_bind_ext(jit_act *a, tj_tensor *h, jit_ext *met); /* appends to a->ext. met: NULL, or filled in; it holds no reference */
void jit_unbind_ext(jit_act *a, uint32_t n);
void jit_index_ext(jit_act *a, uint32_t from); /* adds a->ext[from..] to a->index where handles have no slot hint */
bool jit_bind_number(jit_act *a, int k, tj_tensor *h);
bool jit_same_number(const jit_act *a, uint32_t i, int k, const tj_tensor *h);

/* event.c, record.c, exit.c */
bool jit_creates(int nsrc, const ir_meta *src); /* no operand is a tensor: the result is made on the device of the engine */
tj_tensor *jit_event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
/* An op with several results: returns the first. to: addresses for the n others; NULL: that result is not wanted. */
tj_tensor *jit_events(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, int n, tj_tensor **const *to);
jit_node *jit_step(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr); /* match or record; NULL on error */
jit_node *jit_record(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
void jit_explain_exit(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);

tj_tensor *jit_result(jit_act *a, const jit_node *n); /* a new handle for the value of the event; NULL: out of memory */

/* outside.c */
void jit_outside_free(tj_ctx *c);

/* inner.c */
uint32_t jit_inner_name(jit_segment *s, uint32_t seq, uint32_t step); /* finds or makes the name; 0: out of memory. Under fn->compile */
uint32_t jit_event_of(const jit_act *a, const jit_segment *s, uint32_t name); /* the event that computes a named value */
/* An inner value of the op that computed t, a value of an earlier segment of the running call; poison after an error. Plans keep it from
 * now on; where the plan that ran did not, it is computed once more. */
tj_tensor *jit_inner_of(jit_act *a, const char *site, const tj_tensor *t, uint32_t step);

/* seal.c */
jit_node *jit_seal(jit_act *a, jit_node *n); /* the boundary as a part of the trace; NULL: the error is reported. The first thread that brings it compiles it */
/* The plan of the segment; a reference. */
static inline jit_plan *jit_take_plan(jit_segment *s)
{
	jit_plan *p = atomic_load(&s->plan);
	atomic_fetch_add(&p->refs, 1);
	return p;
}

/* segment.c */
bool jit_boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src); /* runs the pending events */
bool jit_recover(jit_act *a, const tj_tensor *h); /* recomputes h, which its plan did not keep */
void jit_follow(tj_ctx *c, const tj_tensor *t, bool bit); /* notes the value of a TRUTH */

/* run.c */
typedef struct jit_inputs { /* what a plan runs with */
	const jit_bound *ext;
	uint32_t next;
	const uint64_t *num;
	rt_buffer **into;        /* by value: memory of the caller for it, a reference; NULL: none */
	rt_buffer *const *over;  /* by value: buffer of a cell that it may overwrite when the buffer has no more than `owners` references; NULL: none */
	int owners;
	const jit_node *boundary; /* last event of the segment; boundary and strays are for errors */
	const jit_stray *stray;
	uint32_t nstray;
} jit_inputs;
/* Runs x after earlier work of other queues on the same buffers. in: by external, NULL: no buffer; out: by output. */
tj_status jit_run_on_devices(const rt_exec *x, rt_run *r, uint32_t nin, rt_buffer *const *in, rt_buffer *const *out);
/* ptr: scratch, in->next elements; buf, data: filled, p->n elements */
bool jit_run_plan(tj_ctx *c, const char *site, const jit_plan *p, const jit_inputs *in, const void **ptr, rt_buffer **buf, void **data);

/* into.c: outputs in memory of the caller */
/* Sets into[value] when the plan may compute the value in the memory that the caller gave for that output. false: out of memory. */
bool jit_into_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t value, int output, rt_buffer **into);
/* Copies outputs that the plan did not compute in place; before the commit. out: handles of `scope`. false: the error is reported */
bool jit_into_settle(tj_ctx *c, const char *site, const tj_fn *f, tj_scope *scope, tj_tensor **out);

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
void jit_put_plan(tj_fn *f, const jit_plan *p, tj_dump_what what, rt_text *t); /* any dump but the trace */
void jit_log_plan(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p); /* the log, and a folder of TJ_DUMP */

/* passes.c */
bool jit_run_passes(tj_fn *f, ir_graph *g, rt_err *err); /* *g is replaced */
bool jit_hook(tj_fn *f, ir_graph *g, rt_exec **x, rt_err *err); /* *x NULL: no hook took the graph; the back end of the context lowers it */

/* audit.c */
/* true: equal bits, where all NaNs are equal; got and want are row-major. */
bool jit_audit_values(tj_dtype t, int64_t n, const void *got, const void *want, const char *what, rt_err *err);
bool jit_audit_due(const jit_act *a, const jit_plan *p); /* TJ_AUDIT: the values of this run must be compared */
bool jit_audit(tj_ctx *c, const jit_done *d, const jit_inputs *in, void *const *data); /* false: a value differs from that of the evaluator; the error is reported */

/* direct.c */
/* Runs the call without its body. false: the body must run. */
bool jit_direct(tj_ctx *c, jit_slot *s, jit_hit *h, const char *site, tj_list in, const tj_scalar *scalars, tj_tensor **out, tj_status *status);

/* compile.c */
/* want: event numbers and names of the values to compute. ext: externals whose constants may be folded. */
jit_plan *jit_build(const jit_act *a, jit_node *boundary, const uint32_t *want, uint32_t nwant, const jit_bound *ext, rt_err *err);
bool jit_graph(ir_graph *g, jit_node *boundary, const jit_plan *p); /* builds the graph of the plan; the caller frees g */
bool jit_inner_layout(const jit_act *a, jit_node *boundary, const jit_inner *v, const rt_layout **out, rt_err *err); /* a new reference */

/* cell.c */
uint64_t jit_content_id(tj_fn *f, const tj_tensor *t); /* of a constant or a tensor in .freeze; 0: the content may change */
tj_tensor *jit_version(jit_act *a, tj_tensor *cell); /* the value that reading the cell gives now */
void jit_take_cell(jit_taken *t); /* fills t with the committed content of t->cell */
void jit_take_cells(tj_ctx *c, jit_taken *t, uint32_t n); /* the same for n cells, all as of one commit; elements without a cell stay empty */
/* Fills t with the content of t->cell when the call first met it, even if others have committed since. true: an earlier segment met it. */
bool jit_met_cell(jit_act *a, jit_taken *t);
void jit_bind_cell(jit_act *a, jit_bound *b); /* b->h is the cell */
/* jit_met_cell() when the body reads the value: later reads of the call give the same content; the call holds the reference */
bool jit_read_cell(jit_act *a, jit_taken *t);
bool jit_one_commit(jit_act *a); /* rebinds the cells that this segment met first, so that all have the content of one commit; false: out of memory */
typedef struct jit_write { rt_held *cell; rt_buffer *buf; uint64_t was; } jit_write; /* buf: a reference. was: version number of the cell when the call met it */
tj_status jit_write_cells(tj_ctx *c, jit_write *w, uint32_t n, bool alone, rt_err *err); /* all or none; takes the references over */
/* A reference on a buffer that is row-major from its start: b, or a copy. */
rt_buffer *jit_content(tj_ctx *c, const rt_layout *l, rt_buffer *b, void *data, rt_err *err);
rt_buffer *jit_replace(tj_ctx *c, rt_held *cell, rt_buffer *b); /* commits b as the content of one cell; returns the old content, a reference */
uint64_t jit_cell_version(rt_held *cell); /* its version number */
/* Writes over the content of a cell that nobody else can see; false: somebody can, and nothing was written. */
bool jit_overwrite(tj_ctx *c, rt_held *h, const void *data, size_t bytes, rt_err *err);

/* assign.c */
tj_status jit_commit(jit_act *a, rt_err *err);

/* entry.c */
/* Returns a reference; NULL: the error is reported. fresh: set when the entry is new. */
jit_entry *jit_find_entry(tj_ctx *c, tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site, bool *fresh);
lo_moving jit_moving(const jit_act *a, const jit_bound *ext, uint32_t next, rt_arena *mem); /* which sizes are symbols */
uint32_t jit_max_sizes(const tj_fn *f);
void jit_entry_unref(jit_entry *e);
void jit_general_unref(jit_general *g);
void jit_drop_empty(jit_entry *e);

/* note.c: messages to the log, to the user's functions and for tj_explain() */
enum { JIT_WHERE = 160 };
char *jit_where(char *to, const tj_fn *f, const jit_entry *e, int segment); /* writes "f/0.2/1", at most JIT_WHERE bytes; segment -1: none */
void jit_reason(tj_fn *f, const tj_reason *r);               /* .on_recompile */
void jit_note(tj_fn *f, rt_topic topic, const tj_reason *n); /* .on_note */
void jit_tell(tj_fn *f, rt_topic topic, const tj_reason *n); /* the same, but not kept for tj_explain() */
void jit_put_numbers(char *was, char *is, size_t room, bool is_int, uint64_t before, uint64_t now); /* writes both with as many digits as make them differ */

/* decision.c: what was compiled */
void jit_tell_segment(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p); /* reports what was compiled; the caller holds no lock */
void jit_put_decisions(tj_fn *f, const jit_plan *p, rt_text *t); /* a line each */
void jit_put_boundary(const jit_node *b, const jit_plan *p, rt_text *t); /* what the boundary cost; nothing at a return */

/* guard.c: lists guards, and drops those that the user's filter refuses */
typedef void jit_see_guard(void *self, const tj_guard *g, bool dropped);
void jit_each_entry_guard(tj_fn *f, const jit_entry *e, jit_see_guard *see, void *self);
void jit_each_node_guard(tj_fn *f, const jit_node *n, jit_see_guard *see, void *self);
void jit_log_guards(tj_fn *f, const jit_entry *e, const jit_node *boundary); /* boundary NULL: the guards of the entry */
bool jit_make_asked(tj_fn *f);
void jit_filter_node(tj_fn *f, jit_node *n); /* n is not published yet */
bool jit_drops_content(tj_fn *f, uint32_t place, uint64_t content, const char *site); /* place: argument, or number of arguments + state variable */
bool jit_drops_scalar(tj_fn *f, uint32_t k, int64_t value);
void jit_audit_key(tj_ctx *c, tj_fn *f, const char *site, tj_list in, const tj_scalar *scalars); /* reports dropped guards of the key that this call would fail */
/* Called when only this guard keeps an event from matching; true: the guard was dropped. */
bool jit_loose_attr(const jit_node *n, int k, int64_t found);
bool jit_loose_content(const jit_act *a, const jit_ext *want, const tj_tensor *h);
bool jit_loose_number(const jit_act *a, const jit_node *n, uint32_t slot, const tj_tensor *h);

/* slot.c */
jit_slot *jit_slot_make(tj_ctx *c, tj_fn *f); /* NULL: out of memory */
void jit_slots_free(tj_ctx *c);
void jit_slots_drop(tj_fn *f);
jit_hit *jit_timed_check(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars); /* jit_same_as_last(), measured */
jit_hit *jit_same_as_last(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars); /* the hit of the last call if this call has the same key, else NULL */
jit_hit *jit_meet(tj_ctx *c, jit_slot *s, tj_list in, const tj_scalar *scalars, const char *site); /* looks the key up; NULL: the error is reported */

/* eager.c */
/* want: a bit for each wanted result; out: those results, in order; poison after an error */
void jit_eager(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, uint32_t want, tj_tensor **out);
void jit_eager_free(struct jit_eager *t);

/* The arguments for running an executable in the context. */
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
/* Called only by the context of the slot. */
#define JIT_TICK(s, what) atomic_store_explicit(&(s)->what, atomic_load_explicit(&(s)->what, memory_order_relaxed) + 1, memory_order_relaxed)

static inline jit_slot *jit_slot_of(const tj_ctx *c, const tj_fn *f)
{
	jit_slot *s = f->index < c->slot.n ? c->slot.v[f->index] : NULL;
	return s && s->fn == f ? s : NULL;
}

#endif
