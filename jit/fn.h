/* SPDX-License-Identifier: MIT */
/* fn: compiled functions, and their entries: the signatures that they were called with. */
#ifndef TJ_JIT_FN_H
#define TJ_JIT_FN_H

#include "guards/guards.h"
#include "jit/trace.h"
#include "lower/target.h"

typedef struct jit_act jit_act;
typedef struct jit_bound jit_bound;

enum { JIT_MOST_SIZES = 16 }; /* times .max_entries: the most sizes, if that is given */
/* All signatures that differ only in sizes. Each has its own jit_entry and trace; they share code. */
typedef struct jit_general {
	atomic_int refs;         /* held by the function and by each entry */
	uint32_t number;
	gd_sig sig;              /* the first signature that was met */
	uint32_t *moved;         /* by argument: a bit for each dimension whose size is a symbol */
	uint32_t made;           /* number of entries ever made of it */
	atomic_bool formless;    /* its paths do not hold at other sizes (form.c) */
	uint32_t room[4];        /* rt_exec.room of the last plan of each of its first segments; under fn->compile */
	uint32_t at, n;          /* its index in tj_fn.general; number of its entries there are */
	const uint32_t *key;     /* in tj_fn.kinds; NULL: .dynamic is OFF */
	struct jit_entry *oldest, *newest; /* list of its entries, in the order in which they were made */
} jit_general;

typedef struct jit_entry {   /* one signature, sizes included */
	atomic_int refs;         /* held by the table, by activations and by hits */
	atomic_bool dead;        /* evicted */
	struct tj_fn *fn;
	gd_sig sig;
	uint32_t number;         /* that of `general` */
	uint32_t nth;            /* which of the entries of `general` it is: 0, 1, ... */
	jit_general *general;
	struct jit_entry *older, *newer; /* in the list of `general` */
	uint32_t at;             /* its index in tj_fn.entry */
	const uint32_t *key;     /* in tj_fn.table */
	size_t bytes;            /* of its traces, plans and paths; under fn->table_lock */
	uint64_t seen;           /* number of its hits when the hand (evict.c) last came by */
	jit_node root;
	rt_vec(jit_node *) sealed; /* compiled boundaries, in the order of compilation; under fn->compile */
	struct jit_hit *known;   /* list of the hits of all contexts that lead to this entry; under fn->table_lock */
	atomic_ullong hits, stamp; /* hits: those of freed jit_hits. stamp: serial of the last call */
} jit_entry;

/* Each context has its own counters (jit_memo), without contention. When a context ends, its counts are added to those of the function. */
/* clang-format off */
#define JIT_MEMO_COUNTERS(X) \
	X(calls) X(hits) X(boundaries) X(direct) X(audits) X(met) X(keyed) X(fresh) X(nested) X(refused) X(faults) \
	X(checks) X(check_ps) X(events) X(event_ps)
/* clang-format on */
typedef struct jit_counters {
#define X(what) atomic_ullong what;
	JIT_MEMO_COUNTERS(X)
#undef X
	atomic_ullong replayed, recordings, side_exits, recomputed, failures, evictions;
	atomic_ullong plans, kernels, library_calls, eval_steps, code_bytes, compiles, compiled, loaded, shared;
	_Atomic(double) trace_ms, lower_ms, codegen_ms;
} jit_counters;

/* evict.c: which traces stay. All under fn->table_lock. */
enum { JIT_GUESTS = 8 };
typedef struct jit_keep {
	size_t bytes;            /* of all entries */
	uint32_t hand;           /* index in tj_fn.entry: where the search for a trace to drop goes on */
	jit_entry *guest[JIT_GUESTS]; /* see evict.c; the oldest first */
	uint32_t nguest;
	uint32_t *ghost, nghost; /* marks of dropped keys, by hash; a power of two */
	uint64_t again;          /* of the last 64 new keys: a bit for each that came again after it was dropped */
	uint32_t came;           /* number of new sizes that would be guests; one in NO_GUEST of them is none */
} jit_keep;

enum { JIT_REASONS = 32 };
typedef struct jit_line { /* text: "a.c:7: f: dim 0 was ..."; NULL: out of memory, and then r has no strings. r's strings lie behind text */
	char *text;
	uint32_t times;
	tj_reason r;
} jit_line;
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
	tj_named_hook *hook;     /* the last one has no name */
	uint32_t index;          /* in tj_ctx.memo; an index is used again after the function is freed */
	atomic_bool follow;      /* DIRECT: the body runs on every call from now on */
	bool of_op;              /* it stands for an op of control flow outside of functions, and is called at the line of the op */
	bool of_line;            /* it stands for a line with tj_trace_begin(), which owns it */
	atomic_bool told;        /* it was reported that a nested call ignores .int_div_zero of this function */
	char changed[80];        /* the pass or back end of the user that was the last to change values; "": none; under `compile` */
	atomic_bool widened;     /* it was reported that products of .autocast are computed in f32 */
	atomic_uint parted;      /* number of side exits because two numbers of one line were no longer equal */
	pthread_mutex_t table_lock, compile;
	gd_table table, kinds;   /* exact key -> jit_entry; key without sizes -> jit_general */
	rt_vec(jit_entry *) entry;
	rt_vec(jit_general *) general;
	jit_keep keep;
	uint32_t next_entry;
	gd_spec *spec;           /* of .shapes; NULL: none */
	lo_family *family;       /* code shared by all sizes; NULL: .dynamic is OFF */
	lo_shelf *shelf;         /* packed constants shared by all plans */
	struct jit_program
		*program; /* of an imported function: what its body asks for; the engine has it, see ctx.h. NULL: it has a body in C */
	rt_store *store;         /* of an imported function: the code of its file */
	rt_cpu cpu;              /* for which that code is; .bits 0: the one that runs */
	bool sealed;             /* no code is made for it: what its file does not have is an error */
	jit_ring reasons, notes;
	struct jit_asked *asked; /* answers of .guard_filter for the guards of the key, by argument, state, scalar; NULL: no filter */
	rt_vec(const char *) sized; /* reported lines: their tensors have sizes that depend on data; under table_lock */
	jit_counters count;
	struct jit_memo *memos;  /* list of the memos of all contexts that call it; under table_lock */
	tj_fn *prev, *next;
};
#define JIT_COUNT(f, what) atomic_fetch_add_explicit(&(f)->count.what, 1, memory_order_relaxed)

/* fn.c */
void jit_fn_free(tj_fn *f); /* no call of f runs */

/* entry.c */
/* Returns a reference; NULL: the error is reported. fresh: set when the entry is new. evicted: a reference to an entry that had to go for
 * it. */
jit_entry *jit_find_entry(tj_ctx *c, tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site, bool *fresh, jit_entry **evicted);
lo_moving jit_moving(const jit_act *a, const jit_bound *ext, uint32_t next, rt_arena *mem); /* which sizes are symbols */
void jit_drop_empty(jit_entry *e);

/* signature.c */
bool jit_copy_sig(gd_sig *to, const gd_sig *s);
jit_entry *jit_new_entry(tj_fn *f, jit_general *g, const gd_sig *sig); /* not yet in the table; NULL: out of memory */
void jit_entry_unref(jit_entry *e);
void jit_general_unref(jit_general *g);
unsigned long long jit_entry_hits(const jit_entry *e); /* of all contexts. Under table_lock */

/* evict.c. Under table_lock, but jit_charge() */
void jit_charge(jit_entry *e, ptrdiff_t bytes);       /* the entry holds so much more, or less */
bool jit_full(const tj_fn *f);                        /* a trace must go before a size is added */
jit_entry *jit_choose_victim(tj_fn *f);               /* which; NULL: there is none */
void jit_take_out(jit_entry *e);                      /* drops it; the reference of the table, too */
void jit_evict(jit_entry *e); /* the same, and its key is remembered for a while */
void jit_drop_general(tj_fn *f, jit_general *g);      /* it has no entries */
void jit_welcome(jit_entry *e);                       /* it was just added */
void jit_keep_free(tj_fn *f);

#endif
