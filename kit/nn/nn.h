/* SPDX-License-Identifier: MIT */
/* nn: what the files of this folder share. */
#ifndef TJ_KIT_NN_H
#define TJ_KIT_NN_H

#include "kit/data/data.h"

#include <tjdist.h>
#include <tjnn.h>

#include <stdio.h>
#include <stdlib.h>

enum { NN_NAME = 256 }; /* bytes of a full name, with its end */

/* ---- walk.c ---- */
enum { NN_DEPTH = 64 }; /* modules within each other */
typedef struct nn_slots {
	tjnn_slot *at;
	int64_t n, room;
	kit_texts names;   /* of all; the number of a name is that of its slot */
	kit_numbers fields; /* the slot of a field, by its address */
} nn_slots;
/* The slots of a walk, with names of their own; nn_slots_free() frees them. An error leaves none. */
tj_status nn_walk(const char *site, tjnn_layers *layers, void *self, tj_dtype dtype, bool opens, nn_slots *out);
/* A layer of the library begins: what its struct had is of no account when a model opens; other walks find its tensors there. false: the
 * walk has failed, as for a layer without name or struct. */
bool nn_walk_struct(const char *site, tjnn_walk *w, const char *name, void *m, size_t size);
void nn_walk_failed(tjnn_walk *w); /* after an error of a layer: nothing more is looked at */
void nn_slots_free(nn_slots *s);
/* Takes a copy of s.name, which no other slot has. false: out of memory. */
bool nn_slots_add(nn_slots *all, tjnn_slot s);
int64_t nn_slots_find(const nn_slots *s, const char *name);           /* -1: there is none */
int64_t nn_slots_of_field(const nn_slots *s, tj_tensor *const *var); /* the first one in this field; -1: there is none */

/* Options of a layer function: with a wrong size the walk fails. */
#define NN_OPTIONS(type, o, opts) \
	if ((opts) && kit_bad_size(site, #type, (opts)->size)) { \
		nn_walk_failed(w); \
		return; \
	} \
	KIT_COPIED(type, o, opts);

/* ---- init.c ---- */
const char *nn_misfit(const tjnn_slot *s, tjnn_init init); /* NULL, or why it does not fit to the shape */
tj_status nn_write_initial(const char *site, const tjnn_slot *s, tjnn_init init, uint64_t seed); /* into the cell; init fits */

/* ---- life.c ---- */
/* What was opened in an engine: with the slots of a model its fields count as taken until it ends. NULL: the error is reported. */
typedef struct nn_life nn_life;
nn_life *nn_life_begin(const char *site, tj_ctx *c, const nn_slots *s);
bool nn_life_gone(const nn_life *l); /* the engine was closed: no tensor of it is there any more */
void nn_life_end(const char *site, nn_life *l);
nn_life *nn_life_hold(nn_life *l);   /* for another one that has to know when it is over; nn_life_drop() */
void nn_life_drop(nn_life *l);       /* NULL is fine */
bool nn_life_over(const nn_life *l); /* it was closed, or the engine was */
bool nn_is_taken(const void *m, size_t bytes); /* a field of an open model is in this memory */

/* ---- model.c ---- */
struct tjnn_model {
	tj_ctx *ctx;
	nn_life *life;
	nn_slots slots;
	bool *frozen;       /* by slot */
	tj_tensor ***vars;  /* of all slots; then TJ_END_VAR */
	tj_tensor **params; /* of those that are no buffers, not shared and not frozen; then TJ_END */
	int64_t *which;     /* the slot of each of these */
	int64_t nparams;
	uint64_t seed;
	tjnn_optim *optim; /* NULL: none is open */
};
int64_t nn_elements(const tjnn_slot *s);
int64_t nn_owner(const tjnn_model *m, int64_t i);  /* the slot whose tensor slot i has */
bool nn_trained(const tjnn_model *m, int64_t i);   /* it is one of .params */
/* There is no model, its context was closed, or a body runs and `bodies` is false: an error. */
bool nn_refuses(const char *site, const tjnn_model *m, const char *op, bool bodies);
const char *nn_shape_text(int rank, const int64_t *dim, char *to, size_t room); /* "[2,3]" in `to`, cut to its room */

/* ---- layers.c ---- */
tj_tensor *nn_unvisited(const char *site, const void *m, const char *op); /* poison: m is NULL, or no walk has made its tensors */
void nn_linear(const char *site, tjnn_walk *w, const char *name, tjnn_linear *m, int64_t in, int64_t out, bool bias, tjnn_init of_bias);
tjnn_init nn_within(double fan_in); /* +-1 / sqrt(fan_in): PyTorch's default for weights and biases */

/* ---- rules.c ---- */
enum { NN_STATES = 3 }; /* tensors of state that a parameter has at most */
/* The names of a rule's state for a parameter of this rank, PyTorch's; as many as there are. */
int nn_rule_states(const tjnn_rule *r, int rank, const char *name[NN_STATES]);
const char *nn_rule_misfit(const tjnn_rule *r); /* NULL, or what is wrong with it */
/* What all parameters of a rule share in a step; f64 without axes. */
typedef struct nn_scalars {
	const tjnn_rule *rule;
	tj_tensor *lr, *t;    /* the rate; the number of this step, from 1 */
	tj_tensor *product;   /* NADAM: of all mu so far, this one included */
	tj_tensor *a, *b, *c; /* what rules.c makes of these */
} nn_scalars;
void nn_rule_scalars(const char *site, nn_scalars *s); /* a, b, c from the others, product from that of the step before */
/* The parameter after the step; state[] becomes the state after it. */
tj_tensor *nn_rule_move(const char *site, const nn_scalars *s, tj_tensor *p, tj_tensor *g, tj_tensor **state);

/* ---- ranks.c ---- */
/* What rank 0 has, in all ranks; `bad` after an error. A collective; w may be NULL. */
int64_t nn_of_first(const char *site, tj_ctx *c, tj_comm *w, int64_t x, int64_t bad);
/* Replaces n gradients by their means over the ranks. Collectives start while earlier gradients are still computed. false: out of memory */
bool nn_reduce_gradients(const char *site, tj_comm *w, tj_tensor **g, int64_t n, int64_t bucket_bytes);
/* Which rank has the state of each parameter: about as many bytes each, neighbours together. */
void nn_find_owners(const tjnn_model *m, int ranks, int *owner);
/* moved[i] of parameters that this rank has becomes moved[i] of all, in all ranks. false: out of memory */
bool nn_share_moved(const char *site, tj_comm *w, const tjnn_model *m, const int *owner, tj_tensor **moved);

/* ---- cells.c ---- */
void nn_optim_detach(const char *site, tjnn_optim *o);      /* its model closes: it is good for tjnn_optim_close() alone */
tj_status nn_optim_follow(const char *site, tjnn_optim *o); /* parameters were frozen or thawed */

/* ---- optim.c ---- */
bool nn_optim_refuses(const char *site, const tjnn_optim *o, const char *op); /* there is none, or no model any more: an error */
nn_life *nn_optim_life(const tjnn_optim *o);
const tjnn_model *nn_optim_model(const tjnn_optim *o);                      /* NULL: it was closed */
void nn_optim_exchange(tjnn_optim *o);                                      /* averages and parameters */
tj_comm *nn_optim_comm(const tjnn_optim *o); /* NULL: it works alone */
int64_t nn_optim_accumulates(const tjnn_optim *o); /* gradients for each move, 1 or more */
/* Of a spread state: what the file has of other ranks is not this one's to load. */
bool nn_optim_spread(const tjnn_optim *o);
/* The state of all parameters, in all ranks: see(env, name, value) for each. A collective. */
void nn_optim_gather(const char *site, const tjnn_optim *o, void (*see)(void *env, const char *name, tj_tensor *value), void *env);

/* Cells of the optimiser, as slots: "optim.exp_avg.conv.weight". */
const nn_slots *nn_optim_slots(const tjnn_optim *o);
const tj_scaler *nn_optim_scaler(const tjnn_optim *o); /* NULL: none */
bool nn_optim_swapped(const tjnn_optim *o);
bool nn_optim_averages(const tjnn_optim *o);                                                        /* it keeps some */
tj_status nn_optim_read_rates(const char *site, tjnn_optim *o);                                     /* after its cell was written */
tj_status nn_optim_schedule(const char *site, tjnn_optim *o, const tjnn_schedule *s, int64_t step); /* each rate from that of its rule */
tj_status nn_optim_reduce(const char *site, tjnn_optim *o, double factor, double min);              /* each rate from what it is */

/* ---- progress.c ---- */
/* Steps on a terminal: one line, painted again ten times a second at most; elsewhere a line at every twentieth part. */
typedef struct nn_progress {
	FILE *to; /* NULL: none */
	bool terminal;
	int64_t first, steps;  /* the step that this process began with; all of them */
	double began, painted; /* seconds */
	char metrics[120];     /* "loss 1.2345  accuracy 0.981": the last value of each */
} nn_progress;
double nn_seconds(void); /* of a clock that never goes back */
void nn_progress_open(nn_progress *p, FILE *to, int64_t first, int64_t steps);
void nn_progress_metric(nn_progress *p, const char *name, double value);
void nn_progress_step(nn_progress *p, int64_t done, double rate);    /* `done` steps are made; rate NaN: none */
void nn_progress_end(nn_progress *p, int64_t done, const char *why); /* why: "" or what ended the run */

/* ---- metrics.c ---- */
/* metrics.csv, a line for each value, and TensorBoard's event files. */
typedef struct nn_metrics {
	FILE *csv, *events;
	double began;
} nn_metrics;
/* What was written of steps from `first` on is dropped: they are made again. */
tj_status nn_metrics_open(const char *site, nn_metrics *m, const char *folder, int64_t first, bool tensorboard);
void nn_metrics_value(nn_metrics *m, int64_t step, const char *name, double value);
void nn_metrics_flush(nn_metrics *m);
void nn_metrics_close(nn_metrics *m);

#endif
