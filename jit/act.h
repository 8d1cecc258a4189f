/* SPDX-License-Identifier: MIT */
/* act: an activation, one running top-level call in one context. */
#ifndef TJ_JIT_ACT_H
#define TJ_JIT_ACT_H

#include "jit/cell.h"
#include "jit/direct.h"

typedef struct jit_thread jit_thread;
#define JIT_NOT_NEAR ((const jit_thread *)1)

/* An event that may fault, and that another line asked for than the one in the trace. site: the line that ran, for errors. */
typedef struct jit_stray { uint32_t seq; const char *site; } jit_stray;

typedef struct jit_bound { /* an external of the running segment */
	tj_tensor *h;
	const rt_layout *layout;
	const void *data;        /* NULL: the plan of its segment did not keep the value */
	rt_buffer *buf;
	uint64_t seg; /* pending: seg and seq name the value, since h may be popped before the boundary. CELL: its version when it was bound
	               */
	uint32_t seq;
	bool pending;
	bool cell, heap;         /* h is a cell; is a tensor that lives until the call ends, at least */
	bool owned;              /* a reference on buf is held */
	bool taken;              /* CELL: the call had not met it before this segment */
} jit_bound;

typedef struct jit_done {  /* an executed segment */
	uint64_t serial;
	jit_node *boundary;
	jit_plan *plan;          /* reference held */
	rt_buffer **buf;         /* by value of the plan */
	void **data;
	jit_bound *ext;          /* externals that it ran with, owned, for recomputing; none for a RETURN */
	uint32_t next, nnum, nmet; /* nmet: number of externals of the trace; residuals come behind them */
	uint64_t *num, *before;  /* before: as in jit_act */
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

/* a line, and the function that it calls; NULL: control flow */
typedef struct jit_caller { const char *site; const tj_fn *fn; } jit_caller;
typedef struct jit_callback { /* a callback of control flow whose events are being traced */
	tj_scope *scope;         /* the scope of the callback */
	const char *op, *site;
	uint32_t first;          /* its first event */
	bool region;             /* its events become a graph of their own; false: a callback of tj_vmap(), tj_custom_grad() or tj_checkpoint() */
	bool custom;             /* `backward` of tj_custom_grad() */
	bool once;               /* of tj_checkpoint(): its values are those of one run, so it may draw random numbers */
} jit_callback;
typedef struct jit_sized { /* a result of nonzero, masked_select or unique in the running call */
	const rt_buffer *buf;
	const char *op, *site;
	int64_t size;            /* of axis 0; depends on data */
	uint64_t seg;            /* serial of the segment that ended with the op */
} jit_sized;
typedef struct jit_alias { /* a second handle of a tensor: as an operand it stands for the first one */
	tj_tensor *h, *of;       /* of: the first handle, never one that is itself an alias; it lives as long as this entry */
} jit_alias;
typedef struct jit_named { /* a value that the running call gave a name (hooks.c) */
	const char *name;
	tj_tensor *t, *share;    /* share: lives as long as the call, or as `in`. t: the body's handle, if it is in scope and has `was` in it */
	tj_tensor was;
	jit_callback in;         /* the callback that computed the value; without .op: none did */
} jit_named;
typedef struct jit_span { uint32_t first, end; } jit_span;

typedef struct jit_act {
	tj_ctx *ctx;
	tj_fn *fn;
	jit_memo *memo;
	jit_hit *hit;
	jit_entry *entry;        /* that of the hit */
	struct jit_learn *learn; /* DIRECT: learns the path of this call; NULL: this call does not learn */
	const char *unfit;       /* the line that ended it; NULL: none */
	uint64_t serial;         /* of the first segment; unique in the context */
	const jit_thread *near;  /* the thread whose events may take the fast path of jit_event(); JIT_NOT_NEAR: none may */
	uint32_t bodies;         /* number of bodies that run now: of the call, of nested calls, callbacks */
	_Atomic uint32_t left;   /* level of the outermost body that was left without returning; 0: none was */
	const char *left_name;
	uint32_t floor;          /* depth of the thread when the innermost body began */
	tj_scope *scope;         /* the scope of the call */
	const char *open;        /* line of the tj_trace_begin() that began it; NULL: it is a call of a function */
	bool failed;
	bool broken;             /* a plan failed in mid-body: pending values are lost, and the call cannot go on */
	bool alone;              /* set from the plan of the return to the commit when the engine has no other context */
	uint32_t levels;         /* number of segments that learned */
	bool asked;              /* the body asked for a size: tj_dim(), tj_numel() */
	bool recorded;           /* an event of this call did not match and was recorded */
	const char *reader;      /* line that needs a value which was not kept; NULL: the return */
	double away;             /* TJ_TIME_GUARDS. away: ns spent at boundaries. followed: number of events so far */
	uint64_t followed;
	bool hints;              /* values keep their external slot in seq; false while direct mode marks placeholders there */
	int depth;               /* of nested calls */
	uint8_t mode;            /* of the innermost running function: as in jit_node */
	const tj_scalar *scalars;
	uint64_t ordinal;        /* random numbers that the context drew before the call */
	uint64_t fetched;        /* c->rt.fetched before the call: number of errors that the user has fetched */
	rt_vec(jit_caller) callers; /* the running nested calls and calls of control flow, outermost first */

	/* the running segment */
	jit_node *cursor, *fresh; /* cursor: last event. fresh: first event that is not published; NULL while all matched */
	uint64_t seg;
	uint32_t seq;
	tj_tensor *effect;       /* the last host call; of this segment if its seg is. NULL: none */
	rt_vec(jit_bound) ext;
	rt_vec(uint64_t) num;
	rt_vec(rt_held *) cell;
	rt_vec(jit_stray) stray;
	rt_vec(uint64_t) before; /* serials of the earlier segments that BEFOREs of this one name, by place */
	unsigned long long since; /* value of commits_ended before the segment bound its first cell; valid when ntaken > 0 */
	uint32_t ntaken;         /* cells bound in this segment, those included that were unbound again */
	rt_vec(uint32_t) index;  /* hash table: handle -> slot + 1, of the externals whose handle has no slot hint; cap is a power of two */
	uint32_t unhinted;       /* number of externals without a hint */
	bool indexed;            /* `index` is up to date */
	rt_vec(jit_callback) callback; /* running now, outermost first */
	rt_vec(jit_span) closed; /* events of callbacks that have returned; their values may not be used outside */

	rt_vec(jit_taken) read;  /* cells whose values the body has read (tj_item() and others) */
	rt_vec(jit_sized) sized;
	rt_vec(jit_named) named;
	rt_vec(jit_alias) alias; /* second handles of tensors that are no values of the call: gradients know a tensor by its handle */
	rt_vec(jit_assigned) assigned;
	jit_cellmap assigned_at, cell_at; /* of `assigned`, of `cell` */
	rt_vec(jit_done) done;
	bool pruned;             /* executed segments were dropped */
	rt_vec(rt_buffer *) hold; /* released at the end of the call */
	rt_vec(rt_held *) retained; /* retained by this call, still pending */
	rt_vec(rt_held *) released; /* released by this call; unreferenced at its end */
	jit_segment *truth;      /* segment of the TRUTH before the running segment; bit: its value */
	bool bit;
	double started;          /* time when the first private event was recorded, ms */
	rt_arena mem;            /* freed at the end of the call */
} jit_act;

/* the handle is of an open scope of the call; any: or of one around it */
bool jit_in_scope(const jit_act *a, const tj_tensor *h, bool any);

/* t, or the tensor that it is a second handle of */
static inline tj_tensor *jit_first_handle(const jit_act *a, tj_tensor *t)
{
	for (uint32_t i = 0; i < a->alias.n; i++)
		if (a->alias.v[i].h == t) return a->alias.v[i].of;
	return t;
}
bool jit_scope_has(const tj_scope *s, const tj_tensor *h);

/* The mode of a function that is called in a body with mode `outer`, 0 at the outermost call. .autocast is inherited unless it is set. */
static inline uint8_t jit_mode(const tj_fn *f, uint8_t outer)
{
	const uint8_t fast = f->opts.numerics == TJ_FAST ? IR_FAST : 0;
	const uint8_t cast = f->opts.autocast == TJ_BF16 ? JIT_BF16 : f->opts.autocast == TJ_F16 ? JIT_F16 : 0;
	return (uint8_t)(fast | (f->opts.autocast ? cast : outer & JIT_AUTOCAST));
}
/* The mode of an event; 0 for events that are no ops. */
static inline uint8_t jit_mode_of(const jit_act *a, int op) { return op < IR_OPS ? a->mode : 0; }

#endif
