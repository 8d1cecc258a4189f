/* nn: functions of tj.h that are made of other functions of tj.h, as the layers of networks are. The files of this folder include only <tj.h> and
 * this header. They check what the ops below them would report in other words than the caller's; ops report the rest. */
#ifndef TJ_NN_H
#define TJ_NN_H

#include <tj.h>

#include <stddef.h>
#include <string.h>

/* Errors are reported at the line that called the function of this folder, which each has as its parameter `site`: the macros over ops pass that on. */
#undef TJ_SITE
#define TJ_SITE site

/* A copy of the options that the caller gave, whose struct may be older and so shorter than ours; zeros without any. */
#define NN_OPTIONS(type, o, opts) type o = { 0 }; if (opts) memcpy(&o, opts, (opts)->size && (opts)->size < sizeof o ? (opts)->size : sizeof o)

/* ---- operand.c ---- */
/* NULL: x is a tensor or a number that can be looked at. Else what the caller returns: poison, after the error if x is NULL or no tensor. */
tj_tensor *nn_bad(const char *site, const char *op, const char *name, tj_tensor *x);
/* The same for x of [N,C,...] with n axes behind the channels, or [C,...]. */
tj_tensor *nn_bad_spatial(const char *site, const char *op, tj_tensor *x, int n);
tj_tensor *nn_batched(const char *site, tj_tensor *x, int n);                 /* with an axis of examples */
tj_tensor *nn_as_was(const char *site, tj_tensor *y, tj_tensor *x, int n);    /* y without one if x, the operand, had none */
bool nn_is_float(tj_dtype t);
tj_dims nn_shape(const tj_tensor *x, int64_t *to); /* the sizes of x, as a list; to: of TJ_MAX_RANK + 1 */
int nn_entries(tj_dims list, int most); /* number of entries, at most `most` + 1; 0 for NULL */

#endif
