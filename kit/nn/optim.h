/* SPDX-License-Identifier: MIT */
/* optim: an optimiser and its cells, which optim.c moves and cells.c makes. */
#ifndef TJ_KIT_NN_OPTIM_H
#define TJ_KIT_NN_OPTIM_H

#include "kit/nn/nn.h"

typedef struct nn_part { /* of a slot of the model; pointers into cell[] */
	bool made;           /* else it was frozen so far */
	bool off;            /* it is frozen now */
	int64_t rule;
	int states;          /* 0: another rank has them, if .spread */
	tj_tensor **state[NN_STATES], **sum /* of gradients; NULL: not accumulated */, **average;
	tj_tensor **missed;  /* f64 []: steps that others made without it; while it is frozen, less those at which that began. NULL: 0 */
	tj_tensor **product; /* f64 []: as tjnn_optim.product, if steps were missed; else NULL */
} nn_part;

struct tjnn_optim {
	tjnn_model *model; /* NULL: it was closed */
	nn_life *life;
	tjnn_optim_opts o;
	tjnn_rule *rule;   /* of the groups, then that of all others */
	tjnn_group *group; /* copies; .pattern is the optimiser's */
	int64_t groups;    /* rules: one more */
	double *rate;      /* what the cell of rates has, by rule */
	nn_part *part;     /* by slot of the model */
	nn_slots slots;    /* of cell[], as far as a checkpoint has them: all */
	tj_tensor **cell, ***vars; /* vars: those of the model, then of cell[], then TJ_END_VAR */
	int64_t cells, room;
	tj_tensor **step, **rates; /* f64 []; f64 [rules] */
	tj_tensor **count;         /* i64 []: gradients in the sums */
	tj_tensor **product;       /* f64 [rules]: see nn_scalars; NULL: no rule needs it */
	int *owner;                /* rank that moves a parameter; NULL: each does */
	bool swapped;
};
static inline nn_part *nn_part_of(const tjnn_optim *o, int64_t param) { return &o->part[o->model->which[param]]; }
static inline bool nn_is_own(const tjnn_optim *o, int64_t i) { return !o->owner || o->owner[i] == tj_comm_rank(o->o.comm); }

#endif
