/* SPDX-License-Identifier: MIT */
/* trace: the events of the bodies, recorded.
 *
 *   tj_call -> find the entry -> run the body, each event matched or recorded -> at a boundary: seal -> lower ->
 *   generate -> run -> at the return: commit
 *
 * An event is one thing that a body asks of the library. The events between two boundaries are a segment. An entry (one
 * argument signature) holds a trie of events. Every segment starts at the root of the trie; the values of earlier segments
 * are its externals. A published node of the trie never changes, except for a few atomics.
 *
 * The headers of jit/, from below: what is kept (trace.h, fn.h, memo.h), what a call holds (cell.h, direct.h, act.h, ctx.h), who may
 * come in (claim.h), and by subject what is done: call.h, handle.h, event.h, segment.h, compile.h, note.h, guard.h, outside.h. */
#ifndef TJ_JIT_TRACE_H
#define TJ_JIT_TRACE_H

#include "ir/ir.h"
#include "runtime/tensor.h"

/* Events that are no ops. Control flow is recorded as: IR_cond, IR_while, IR_scan, CUSTOM or VMAP; then its callbacks in order, each as
 * CALLBACK, PARAMs, the events of the callback, YIELD; then an IR_get for each result. The attributes of PARAM and IR_get are their type:
 * {which, dtype, device, size...}. An op with several results is followed by an IR_get for each result that the caller wants. */
/* clang-format off */
#define JIT_EVENTS(X) \
	X(ASSIGN, "assign") /* cell, value */ \
	X(RETAIN, "retain") /* value; it outlives the call */ \
	X(GRAD, "grad")     /* value, perhaps a cotangent, tensors; then an IR_get for each of these, as after an op with several results */ \
	X(JVP, "jvp")       /* value, tensors, as many tangents; then an IR_get */ \
	X(BEFORE, "before") /* externals of an earlier segment of the call that a GRAD or JVP goes through (earlier.h) */ \
	X(LINK, "link")     /* an external; it is a value of such a segment: {place, event} */ \
	X(CALLBACK, "callback") X(PARAM, "parameter") X(YIELD, "yield") \
	X(CUSTOM, "custom_grad")    /* tensors; then two callbacks, the second one with these tensors, the results of the first and their */ \
	                            /* gradients as PARAMs; then an IR_get for each result */ \
	X(CHECKPOINT, "checkpoint") /* nothing; then a callback, then an IR_get for each result */ \
	X(VMAP, "vmap")             /* tensors whose axis 0 counts the examples; then a callback, then an IR_get for each result */ \
	/* boundaries: the host needs their operands */ \
	X(TRUTH, "truth") X(ITEM, "item") X(DATA, "data") X(NONZERO, "nonzero") X(MASKED_SELECT, "masked_select") X(UNIQUE, "unique") \
	X(RETURN, "return")
/* clang-format on */
typedef enum jit_event_kind {
	JIT_EVENT_BASE = IR_OP_COUNT - 1, /* event kinds are numbered behind the ops */
#define X(kind, name) JIT_##kind,
	JIT_EVENTS(X)
#undef X
} jit_event_kind;

/* An operand of an event: kind in the top 3 bits. */
typedef uint32_t jit_ref;
/* the index is an event number, an external slot, a number slot (twice), a cell slot */
enum { JIT_EV, JIT_EXT, JIT_FLOAT, JIT_INT, JIT_CELL };
#define JIT_REF(kind, i) ((jit_ref)(kind) << 29 | (i))
#define JIT_KIND(r) ((r) >> 29)
#define JIT_IDX(r) ((r) & 0x1FFFFFFF)

/* MODES  An event has the modes of a node (ir.h), and .autocast of its function: the graph has casts for it instead. */
enum { JIT_BF16 = 1 << 6, JIT_F16 = 1 << 7, JIT_AUTOCAST = JIT_BF16 | JIT_F16 };
_Static_assert((int)IR_MODES <= (int)JIT_BF16, "the bits are apart");

/* What an external must be where its segment uses it first. */
typedef struct jit_ext {
	const rt_layout *layout; /* reference held */
	uint64_t content;        /* serial of a constant's content, else 0 */
	bool cell;
	bool loose;              /* the guard of its content was dropped */
} jit_ext;

typedef struct jit_node {
	uint16_t op, nsrc, nattr;
	uint8_t mode;            /* of an op: see MODES; else 0 */
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
_Static_assert(offsetof(jit_node, op) == 0 && offsetof(jit_node, nsrc) == 2 && offsetof(jit_node, nattr) == 4 &&
                       offsetof(jit_node, mode) == 6 && offsetof(jit_node, draws) == 7 && offsetof(jit_node, seq) == 8,
               "next_is() compares the first five as one word");

enum { JIT_LOOSE_ATTRS = 30 }; /* only guards of the first 30 attributes can be dropped */
#define JIT_LOOSE_NUMBERS (1u << 30)
#define JIT_LOOSE_TOLD (1u << 31) /* the audit has reported this event */

/* An inner value: step `step` of the computation of event seq (ir/inner.c); no event has it as its result. Its name is JIT_INNER | its
 * index in jit_segment.inner; a name may be used in place of an event number of an earlier segment. */
enum { JIT_INNER = 1 << 28 };
/* layout: a reference is held; NULL until it is first needed */
typedef struct jit_inner { uint32_t seq, step; const rt_layout *layout; } jit_inner;

/* A value that a plan computes. seq: its event number, or the name of an inner value. */
/* inner: set when seq is a name; its layout is not used */
typedef struct jit_value { uint32_t seq; jit_inner inner; const rt_layout *layout; } jit_value;
/* A value of an earlier segment that a plan reads besides the externals of the trace. place: of that segment among those that the BEFOREs
 * name. */
typedef struct jit_residual { uint32_t place, seq; } jit_residual;
typedef struct jit_plan {
	atomic_int refs;
	rt_exec *exec;
	const char *fn;          /* name of the function, which outlives its plans */
	uint32_t n;
	jit_value *value;        /* sorted by seq */
	ir_packed *graph;        /* the graph that was lowered; dumps lower it again to make their text. NULL when n is 0 */
	uint32_t settings;       /* under which it was lowered */
	struct lo_content *content; /* by slot of the graph, as it was lowered: ids alone */
	uint32_t ncontent;
	rt_text *lowered;        /* for TJ_REPORT: the plan as data; NULL: none */
	int *into;               /* by value: the external that is the cell to which the value is assigned, or -1; NULL: not known */
	jit_residual *residual;  /* read as the externals behind those of the trace */
	uint32_t nresidual;
	struct jit_plan *older;  /* the plan that this one replaced; kept while the segment lives, since another thread may be about to take
	                            a reference */
	atomic_bool audited;     /* its values were compared with those of the evaluator */
} jit_plan;

typedef struct jit_segment {
	uint32_t number;         /* index in jit_entry.sealed: the order of compilation */
	_Atomic(jit_plan *) plan;
	rt_vec(uint32_t) keep;   /* event numbers and names of the values that the plan computes for later; only grows */
	rt_vec(jit_inner) inner; /* index: name without JIT_INNER; only grows, so that names stay valid. Under fn->compile */
	atomic_uint hits, misses;
	atomic_uint chosen[2];   /* of a TRUTH: how often it was false, true */
	atomic_uint after[2];    /* of a TRUTH: 1 + number of the segment that last followed false, true; 0: none */
} jit_segment;

/* The dtype to which .autocast casts floats of the event, see ir_autocast(). meta: of its operands. */
static inline tj_dtype jit_autocast(uint8_t mode, int op, int nsrc, const ir_meta *meta)
{
	return mode & JIT_AUTOCAST && op < IR_OPS ? ir_autocast((ir_op)op, mode & JIT_BF16 ? TJ_BF16 : TJ_F16, nsrc, meta) : TJ_BOOL;
}

/* trace.c */
const char *jit_event_name(int op);
const char *jit_autocast_name(uint8_t mode); /* "TJ_BF16"; "none" */
jit_node *jit_new_node(int nsrc, int nattr, int nmet);
size_t jit_node_bytes(const jit_node *n);
bool jit_same_node(const jit_node *a, const jit_node *b);
const jit_node *jit_flow_of(const jit_node *yield); /* the control flow that a YIELD belongs to */
void jit_free_node(jit_node *n);
void jit_free_trie(jit_node *first);
int jit_find_in_plan(const jit_plan *p, uint32_t seq);
void jit_plan_unref(jit_plan *p);
/* The plan of the segment; a reference. */
static inline jit_plan *jit_take_plan(jit_segment *s)
{
	jit_plan *p = atomic_load(&s->plan);
	atomic_fetch_add(&p->refs, 1);
	return p;
}

#endif
