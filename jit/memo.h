/* SPDX-License-Identifier: MIT */
/* memo: what a context remembers of a function: the keys that it has met, and its own counters. */
#ifndef TJ_JIT_MEMO_H
#define TJ_JIT_MEMO_H

#include "jit/fn.h"

typedef struct jit_seen { /* an argument or a state variable of the last call */
	const rt_layout *layout;
	uint64_t content;
	const tj_tensor *self;   /* NULL unless the key depends on which handle it is */
	uint8_t kind;
} jit_seen;

typedef struct jit_hit { /* a key that a context has met, and its entry */
	jit_entry *entry;        /* reference held */
	struct jit_hit *prev, *next; /* list jit_entry.known */
	struct jit_memo *memo;   /* which knows it */
	uint32_t at;             /* its index in jit_memo.known */
	const uint32_t *key;     /* in jit_memo.table */
	atomic_ullong hits;      /* written by its context only */
	struct jit_path *path;   /* DIRECT: runs instead of the body; NULL: not learned yet */
	size_t bytes;            /* what the entry was charged for it and its path */
	bool deep;               /* the call has too many segments for direct mode */
	uint32_t nlayout;
	const rt_layout *layout[]; /* of the state; references held */
} jit_hit;

enum { JIT_PROOFS = 3 };
typedef struct jit_memo {
	tj_fn *fn;               /* NULL: it was freed */
	atomic_bool busy;        /* a call of fn runs in the context */
	jit_hit *last;           /* the hit of the last call, whose operands `seen` describes */
	jit_seen *seen;          /* arguments, then state */
	rt_vec(tj_scalar) scalar;
	gd_table table;          /* key -> hit */
	rt_vec(jit_hit *) known;
	uint32_t broom;          /* index in known: where the search for hits of dropped entries goes on */
	jit_hit *form;           /* whose path holds at other sizes (form.c); NULL: none is known */
	uint64_t proof[JIT_PROOFS]; /* hashes of the sizes at which calls had that path */
	uint8_t proofs;
	uint32_t until_audit;
#define X(what) atomic_ullong what;
	JIT_MEMO_COUNTERS(X)
#undef X
	struct jit_memo *prev, *next; /* list tj_fn.memos */
} jit_memo;
/* Called only by the context of the memo. */
#define JIT_TICK(s, what) \
	atomic_store_explicit(&(s)->what, atomic_load_explicit(&(s)->what, memory_order_relaxed) + 1, memory_order_relaxed)

/* memo.c */
jit_memo *jit_memo_make(tj_ctx *c, tj_fn *f); /* NULL: out of memory */
void jit_memos_free(tj_ctx *c);
void jit_memos_drop(tj_fn *f);
jit_hit *jit_timed_check(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars); /* jit_same_as_last(), measured */
/* the hit of the last call if this call has the same key, else NULL */
jit_hit *jit_same_as_last(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars);
/* looks the key up; NULL: the error is reported */
jit_hit *jit_meet(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars, const char *site);

#endif
