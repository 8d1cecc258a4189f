/* SPDX-License-Identifier: MIT */
/* models: small networks whose training step (forward, tj_grad(), AdamW) is one body; the parameters are cells. bench/training.py has the
 * same networks for the peers, test/unit/test_training.c compares their losses with PyTorch's. */
#ifndef TJ_BENCH_MODELS_H
#define TJ_BENCH_MODELS_H

#include <tj.h>

enum { MODEL_PARAMS = 200 };

typedef struct model model;
typedef struct model_sizes {
	int64_t batch, length;    /* length: places of a sequence, or patches */
	int64_t in, width;        /* in: features of x, or 0 if x are numbers of characters */
	int64_t depth, heads;     /* depth: blocks or hidden layers */
	int64_t classes;          /* 0: the target is a tensor like x */
} model_sizes;

/* A row of the table. */
typedef struct model_kind {
	const char *name;
	void (*params)(model *m);
	tj_tensor *(*loss)(const model *m, tj_tensor *x, tj_tensor *target); /* NULL: the gradients are cells, too */
	model_sizes full, small;  /* small: for tests */
} model_kind;
extern const model_kind model_kinds[];
extern const int model_nkinds;

struct model {
	const model_kind *kind;
	model_sizes size;
	tj_ctx *ctx;
	tj_dtype dtype;
	int n;                    /* of parameters */
	tj_tensor *param[MODEL_PARAMS + 1], *first[MODEL_PARAMS], *second[MODEL_PARAMS]; /* AdamW's means of the gradient and of its square */
	tj_tensor *grad[MODEL_PARAMS]; /* cells; only without a loss */
	tj_tensor *steps;         /* how many it has made */
	tj_tensor *x, *target;    /* the batch; of every step the same */
	tj_tensor *list[3];       /* the arguments of model_step() */
};

/* The parameters and the batch are numbers that depend only on their places: no random state, the same in any language. x, target: of the
 * present scope. */
model *model_open(tj_ctx *c, const model_kind *kind, bool small, tj_dtype dtype);
void model_step(tj_tensor **out, tj_tensor *const *in, void *self); /* a body: in x and target; out the loss */
void model_close(model *m);

#endif
