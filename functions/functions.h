/* SPDX-License-Identifier: MIT */
/* nn: functions of tj.h that are made of other functions of tj.h, as the layers of networks are. The files of this folder include only
 * <tj.h> and this header. They check what the ops below them would report in other words than the caller's; ops report the rest. */
#ifndef TJ_NN_H
#define TJ_NN_H

#include <tj.h>

#include <stddef.h>
#include <string.h>

/* Errors are reported at the line that called the function of this folder, which each has as its parameter `site`: the macros over ops pass
 * that on. */
#undef TJ_SITE
#define TJ_SITE site

/* A copy of the options that the caller gave, whose struct may be older and so shorter than ours; zeros without any. The function returns
 * poison if the struct never had this size. */
#define NN_OPTIONS(type, o, opts)                                                                             \
	type o = { 0 };                                                                                       \
	if (opts) {                                                                                           \
		tj_tensor *odd_ = fn_bad_size(site, #type, (opts)->size);                                     \
		if (odd_) return odd_;                                                                        \
		memcpy(&o, opts, (opts)->size && (opts)->size < sizeof o ? (opts)->size : sizeof o);          \
	}

/* ---- operand.c ---- */
tj_tensor *fn_bad_size(const char *site, const char *type, size_t size); /* of options; 0: all that this header has */
/* NULL: x is a tensor or a number that can be looked at. Else what the caller returns: poison, after the error if x is NULL or no tensor.
 */
tj_tensor *fn_bad(const char *site, const char *op, const char *name, tj_tensor *x);
tj_tensor *fn_bad_float(const char *site, const char *op, const char *name, tj_tensor *x); /* as fn_bad(), and x must be a float */
tj_tensor *fn_bad_index(const char *site, const char *op, const char *name, tj_tensor *x); /* as fn_bad(), and x must be no float */
/* As fn_bad() for x of [N,C,...] with n axes behind the channels, or [C,...]. */
tj_tensor *fn_bad_spatial(const char *site, const char *op, tj_tensor *x, int n);
tj_tensor *fn_batched(const char *site, tj_tensor *x, int n);                 /* with an axis of examples */
tj_tensor *fn_as_was(const char *site, tj_tensor *y, tj_tensor *x, int n);    /* y without one if x, the operand, had none */
tj_tensor *fn_widened(const char *site, tj_tensor *x);                       /* f32 if x is f16 or bf16 */
/* the same in a function with .autocast, else x: for what PyTorch computes in f32 there */
tj_tensor *fn_high(const char *site, tj_tensor *x);
/* A site for ops that get an index of the caller's: an error of it names `op`. from_end: below 0 it counts from the end. */
const char *fn_index_site(const char *site, const char *op, bool from_end);
/* Zero, i64 [1], on the device of `like`, which is a fault of `site` (tj_site_for()) unless `right`, a bool without axes, is true. */
tj_tensor *fn_zero_if(const char *site, tj_tensor *like, tj_tensor *right);
bool fn_is_float(tj_dtype t);
/* "f32[2,3]", for messages. text is valid until the end of the expression that calls fn_type_of() */
typedef struct fn_type { char text[240]; } fn_type;
fn_type fn_type_of(const tj_tensor *x);
bool fn_is_narrow(tj_dtype t); /* f16, bf16: computed in f32 */
tj_dims fn_shape(const tj_tensor *x, int64_t *to); /* the sizes of x, as a list; to: of TJ_MAX_RANK + 1 */
/* NULL, and *a is the axis counted from the front; else what the caller returns. A 0-d x has axes 0 and -1. */
tj_tensor *fn_bad_axis(const char *site, const char *op, tj_tensor *x, int64_t axis, int *a);
/* Sizes of up to TJ_MAX_RANK + 1 axes: one more than a tensor may have, so that an op reports it. */
typedef struct fn_dims { int n; int64_t dim[TJ_MAX_RANK + 2]; } fn_dims;
fn_dims fn_shape_of(tj_tensor *x);
fn_dims fn_shape_ones(int n);
void fn_shape_add(fn_dims *s, int64_t size);       /* at the end */
tj_tensor *fn_reshape(const char *site, tj_tensor *x, const fn_dims *s);
tj_tensor *fn_expand(const char *site, tj_tensor *x, const fn_dims *s);
tj_tensor *fn_number(const char *site, tj_tensor *like, double v);          /* a number of the category of `like` */
tj_tensor *fn_filled(const char *site, tj_tensor *like, tj_dtype t, const fn_dims *s, tj_tensor *v); /* full, on the device of `like` */
tj_tensor *fn_arange(const char *site, tj_tensor *like, int64_t n);         /* i64 0 .. n - 1, on its device */
/* i64; what is below 0 counts from the end of an axis of size n */
tj_tensor *fn_wrapped(const char *site, tj_tensor *index, int64_t n);
tj_tensor *fn_along(const char *site, tj_tensor *x, int axis, int rank);    /* a 1-d x along an axis of `rank` axes, the others of size 1 */
int fn_listed(tj_list list, int most);                                      /* number of tensors, at most `most` + 1 */
/* i64, of x's shape: the place of each element in its picture, the last n axes, row by row */
tj_tensor *fn_places(const char *site, tj_tensor *x, int n);
int fn_entries(tj_dims list, int most); /* number of entries, at most `most` + 1; 0 for NULL */

/* ---- loss.c ---- */
tj_tensor *fn_bad_reduction(const char *site, const char *op, tj_loss_reduction r);
/* in the dtype of x, whose axis 0 counts examples */
tj_tensor *fn_reduced(const char *site, tj_tensor *loss, tj_loss_reduction r, tj_tensor *x);

/* ---- resize.c ---- */
/* The weight of the k-th of 4 elements around a place, for cubic interpolation; part: how far behind the second one it is, 0 to 1. */
tj_tensor *fn_cubic(const char *site, tj_tensor *part, int k, double a);

#endif
