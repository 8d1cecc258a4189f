/* SPDX-License-Identifier: MIT */
/* sample: arguments that stand for those of a call, at several combinations of the sizes that .shapes lets vary. */
#ifndef TJ_JIT_SAMPLE_H
#define TJ_JIT_SAMPLE_H

#include "jit/program.h"

typedef struct jit_want { /* an argument */
	uint8_t kind, dtype, rank; /* kind: gd_kind */
	int8_t symbol[TJ_MAX_RANK]; /* -1: none */
	int64_t dim[TJ_MAX_RANK];
} jit_want;

typedef struct jit_sample {
	tj_ctx *c;
	const char *site, *op;   /* op: for messages */
	tj_fn *f;
	tj_list inputs;          /* tensors as a call gets them; NULL: those of the last signature of f, or of the file that it comes from */
	const tj_scalar *scalars;
	uint32_t narg, nsymbol, n; /* n: combinations of sizes */
	jit_want *arg;
	bool known;              /* all their sizes are: of inputs, or of a signature; not of a file or of .shapes */
	gd_symbol symbol[JIT_P_SYMBOLS];
	int64_t *sizes;          /* n times nsymbol */
	void *zeros;             /* memory for arguments */
} jit_sample;

/* sample.c. Each returns false after an error, which is reported. */
bool jit_sample_fail(jit_sample *j, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
bool jit_sample_arguments(jit_sample *j); /* sets arg, and the symbols that they have */
bool jit_sample_zeros(jit_sample *j);     /* when sizes are set */
/* The arguments at combination k, of undefined content, in context c. */
bool jit_sample_make(jit_sample *j, tj_ctx *c, uint32_t k, tj_tensor **in);
void jit_sample_drop(const jit_sample *j, tj_tensor **in); /* what of them no scope frees */
void jit_sample_free(jit_sample *j);
/* What the running call reads from outside of itself: variable *index of `of`, which is the same tensor or a constant with the same
 * content. *index = of->n: none of them is, and the returned handle may become one. It lives until the scope around the call is popped,
 * since a constant that the body makes is gone with the call. NULL: an error, which is reported. */
tj_tensor *jit_sample_variable(jit_act *a, const char *site, const char *op, const jit_handles *of, tj_tensor *t, uint32_t *index);
/* The same body in direct mode, with nothing of the user's: no passes, filters and messages. NULL: the error is reported. */
tj_fn *jit_copy_function(tj_ctx *c, const char *site, tj_fn *f);

#endif
