/* SPDX-License-Identifier: MIT */
/* direct: the path of a call without its body. */
#ifndef TJ_JIT_DIRECT_H
#define TJ_JIT_DIRECT_H

#include "jit/memo.h"

typedef struct jit_done jit_done;
typedef struct jit_stray jit_stray;

typedef enum jit_from_kind { JIT_FROM_ARG, JIT_FROM_STATE, JIT_FROM_VALUE, JIT_FROM_NUMBER } jit_from_kind;
typedef struct jit_from { /* DIRECT: where a tensor comes from */
	uint8_t kind;
	bool last;               /* VALUE: this is its last use */
	uint16_t seg;            /* VALUE: index in jit_act.done */
	uint32_t index;          /* of the argument, of the state variable, or of the value in its plan */
} jit_from;
static inline bool jit_same_from(const jit_from *x, const jit_from *y)
{
	return x->kind == y->kind && x->seg == y->seg && x->index == y->index;
}

/* DIRECT: where a number comes from: kind in the top 4 bits. */
enum { JIT_CONST, JIT_ARG, JIT_SCALAR, JIT_EXPR, JIT_KEY, JIT_ORDINAL };
#define JIT_FROM(kind, i) ((uint32_t)(kind) << 28 | (uint32_t)(i))
/* number: its handle; in jit_done.num_from and jit_path.num its bits */
typedef struct jit_operand { uint32_t from; tj_tensor *number; } jit_operand;
/* callback: belongs to a callback of control flow that is perhaps not executed. */
typedef struct jit_late_expr { uint16_t op; uint8_t nsrc; bool callback; jit_operand src[3]; } jit_late_expr;

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
	uint32_t *assign_of;     /* by value: 1 + index of the assign whose cell it may overwrite; 0: none */
	rt_held **over;          /* scratch, by value: that cell */
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

/* learn.c */
tj_tensor *jit_late(jit_act *a, uint32_t from, tj_tensor *number);
tj_tensor *jit_late_op(jit_act *a, int op, int nsrc, tj_tensor *const *src, tj_tensor *result);
void jit_learn_operands(jit_act *a, int n);
void jit_learn_number(jit_act *a, uint32_t slot, uint32_t from);
void jit_learn_segment(jit_act *a, jit_done *d);
void jit_learn_stop(jit_act *a, const char *site, const char *fmt, ...) RT_PRINTF(3, 4);
/* Reports why the body runs on every call from now on. */
void jit_learn_tell(jit_act *a, const char *kind, const char *site, const char *expected, const char *found, const char *hint,
                    const char *what);
bool jit_from_segment(jit_act *a, uint64_t serial, uint32_t seq, jit_from *out); /* where the value of an earlier segment comes from */
/* where any other tensor comes from; false: from no argument and no declared variable */
bool jit_from_outside(jit_act *a, const jit_bound *b, jit_from *out);
/* the line that first reads an external, and its op */
const char *jit_site_of_ext(const jit_node *boundary, uint32_t slot, const char **op);

/* path.c */
void jit_learn_end(jit_act *a, tj_tensor *const *res); /* after the return */
void jit_path_free(jit_path *p);

/* direct.c */
/* Runs the call without its body. false: the body must run. */
bool jit_direct(tj_ctx *c, jit_memo *s, jit_hit *h, const char *site, tj_list in, const tj_scalar *scalars, tj_tensor **out,
                tj_status *status);

/* form.c */
void jit_form_learned(jit_act *a); /* after a path was learned */
bool jit_has_form(const jit_memo *s, const jit_hit *h); /* the call may be replayed */
bool jit_same_form(const jit_hit *x, const jit_hit *y); /* the path of either can stand for both */
/* Asks for the events of a path at the sizes of the running call, in place of its body, and sets out. false: the body must run. */
bool jit_replay(jit_act *a, const jit_hit *form, tj_tensor **out, tj_tensor *const *args);

#endif
