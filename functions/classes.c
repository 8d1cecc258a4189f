/* SPDX-License-Identifier: MIT */
/* Losses of classes: x has a number for each class, target says which one is right. Narrow floats are computed in f32, and the result is
 * rounded once.
 *
 * A class is picked by comparing indices, not by tj_gather(): its gradient is then a choice for each element, and runs with that of the
 * softmax. That a target is in range is checked by a tj_gather() from zeros, which are added. */
#include "functions/functions.h"

typedef struct classes {
	const char *site, *name;
	const char *hint;       /* about a target that is no class */
	tj_tensor *x;           /* as it was given */
	tj_tensor *log;         /* logarithms of probabilities, wide */
	int axis;               /* of the classes */
	int64_t n;              /* number of classes */
	tj_tensor *target, *weight, *ignored; /* weight: [n,1,..], wide, or NULL; ignored: of the target's shape, or NULL */
} classes;

/* t [n] along the axis of the classes */
static tj_tensor *along(const classes *q, tj_tensor *t)
{
	const char *site = q->site;
	int64_t shape[TJ_MAX_RANK + 1];
	const int behind = tj_rank(q->x) - q->axis;
	for (int i = 0; i < behind; i++) shape[i] = i ? 1 : q->n;
	shape[behind] = TJ_END_DIM;
	return tj_reshape(t, shape);
}

/* Of x's shape: which class is the target. */
static tj_tensor *hit(const classes *q)
{
	const char *site = q->site;
	return tj_eq(along(q, tj_to(tj_arange(TJ_I64, 0, q->n, 1), tj_device_of(q->x))), tj_unsqueeze(q->target, q->axis));
}

static const char no_class[] = "an element of the target is no class; the number of classes is ",
		  ignorable[] = "classes count from 0; .ignore and .ignore_index leave out the targets of one number, such as -100";

/* Zeros of the target's shape; an error if it is no class and not ignored. */
static tj_tensor *checked(const classes *q)
{
	const char *site = tj_site_for(q->site, q->name, no_class, q->hint);
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *at = q->ignored ? tj_where(q->ignored, tj_i(0), q->target) : q->target,
		  *zeros = tj_to(tj_zeros(tj_dtype_of(q->log), TJ_SHAPE(q->n)), tj_device_of(q->x));
	return tj_reshape(tj_gather(zeros, 0, tj_reshape(at, TJ_SHAPE(-1))), fn_shape(q->target, shape));
}

/* The element of each row of `all`, which broadcasts to x, at its target. */
static tj_tensor *picked(const classes *q, tj_tensor *all)
{
	const char *site = q->site;
	return tj_sum(tj_where(hit(q), all, tj_f(0)), TJ_AXES(q->axis), false);
}

static tj_tensor *but_ignored(const classes *q, tj_tensor *y)
{
	const char *site = q->site;
	return q->ignored ? tj_where(q->ignored, tj_f(0), y) : y;
}

/* What the mean divides by: the weights of the targets, or their number. */
static tj_tensor *share(const classes *q)
{
	const char *site = q->site;
	if (q->weight) return tj_sum(but_ignored(q, picked(q, q->weight)), TJ_ALL, false);
	if (!q->ignored) return tj_f((double)tj_numel(q->target));
	return tj_cast(tj_sum(tj_logical_not(q->ignored), TJ_ALL, false), tj_dtype_of(q->log));
}

static tj_tensor *ended(const classes *q, tj_tensor *y, tj_loss_reduction r)
{
	const char *site = q->site;
	if (r != TJ_LOSS_NONE) y = tj_sum(y, TJ_ALL, false);
	if (r == TJ_LOSS_MEAN) y = tj_div(y, share(q));
	return tj_dtype_of(y) == tj_dtype_of(q->x) || tj_is_poison(y) ? y : tj_cast(y, tj_dtype_of(q->x));
}

/* The loss of each target; smoothing: this part of the target is spread over all classes. */
static tj_tensor *losses(const classes *q, double smoothing)
{
	const char *site = q->site;
	tj_tensor *right = tj_add(picked(q, q->log), checked(q)), *y = tj_neg(q->weight ? tj_mul(right, picked(q, q->weight)) : right);
	if (smoothing > 0) {
		tj_tensor *all = tj_neg(tj_sum(q->weight ? tj_mul(q->log, q->weight) : q->log, TJ_AXES(q->axis), false));
		y = tj_add(tj_mul(y, tj_f(1 - smoothing)), tj_mul(all, tj_f(smoothing / (double)q->n)));
	}
	return but_ignored(q, y);
}

/* ---- what may be wrong ---- */
static tj_tensor *bad_target(const classes *q, tj_tensor *target)
{
	const char *site = q->site;
	tj_tensor *bad = fn_bad_index(site, q->name, "the target", target);
	if (bad) return bad;
	bool fits = tj_rank(target) == tj_rank(q->x) - 1;
	for (int i = 0; fits && i < tj_rank(target); i++) fits = tj_dim(target, i) == tj_dim(q->x, i < q->axis ? i : i + 1);
	return fits ? NULL
	            : tj_fail(TJ_ERR_SHAPE, q->name, "x is [N,C], target [N]; x [N,C,...], target [N,...]; or x [C], target []",
	                      "the target has not the shape of x without the axis of the classes: x is %s, the target %s", fn_type_of(q->x).text,
	                      fn_type_of(target).text);
}

/* Sets all fields but log and what belongs to the target. NULL, or poison. */
static tj_tensor *bad_classes(classes *q, tj_tensor *x, const tj_loss_opts *o)
{
	const char *site = q->site;
	tj_tensor *bad = fn_bad_float(site, q->name, "x", x);
	if (!bad) bad = fn_bad_reduction(site, q->name, o->reduction);
	if (!bad && o->reduction == TJ_LOSS_BATCHMEAN)
		return tj_fail(TJ_ERR_ARG, q->name, "TJ_LOSS_MEAN is the mean over targets", "TJ_LOSS_BATCHMEAN is for kl_div");
	if (bad) return bad;
	if (tj_rank(x) < 1) return tj_fail(TJ_ERR_SHAPE, q->name, "[N,C], [N,C,...] or [C]", "x has no axis of classes");
	q->x = x = fn_high(site, x);
	q->axis = tj_rank(x) > 1;
	q->n = tj_dim(x, q->axis);
	if (q->n < 1) return tj_fail(TJ_ERR_SHAPE, q->name, "[N,C], [N,C,...] or [C]", "x has no classes");
	if (o->weight && (bad = fn_bad(site, q->name, "the weight", o->weight))) return bad;
	if (o->weight && (tj_rank(o->weight) != 1 || tj_dim(o->weight, 0) != q->n))
		return tj_fail(TJ_ERR_SHAPE, q->name, "one number for each class", "the weight is not [%lld]", (long long)q->n);
	if (o->weight) q->weight = along(q, fn_widened(site, o->weight));
	if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
		return tj_fail(TJ_ERR_ARG, q->name, "it is a part, from 0 to 1", ".label_smoothing is %g", o->label_smoothing);
	return NULL;
}

static void take_target(classes *q, tj_tensor *target, const tj_loss_opts *o)
{
	const char *site = q->site;
	q->target = target;
	q->ignored = o->ignore ? tj_eq(target, tj_i(o->ignore_index)) : NULL;
}

/* ---- nll_loss, cross_entropy_loss ---- */
tj_tensor *tj_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	classes q = { .site = site, .name = "nll_loss", .hint = ignorable };
	tj_tensor *bad = bad_classes(&q, x, &o);
	if (!bad) bad = bad_target(&q, target);
	if (bad) return bad;
	if (o.label_smoothing > 0) return tj_fail(TJ_ERR_ARG, q.name, "tj_cross_entropy_loss() smooths", ".label_smoothing is set");
	q.log = fn_widened(site, x);
	take_target(&q, target, &o);
	return ended(&q, losses(&q, 0), o.reduction);
}

/* target: probabilities of x's shape. The mean is over rows, whatever the weights are. */
static tj_tensor *of_probabilities(const classes *q, tj_tensor *target, const tj_loss_opts *o)
{
	const char *site = q->site;
	const double smoothing = o->label_smoothing;
	tj_tensor *t = fn_widened(site, target);
	if (smoothing > 0) t = tj_add(tj_mul(t, tj_f(1 - smoothing)), tj_f(smoothing / (double)q->n));
	tj_tensor *y = tj_mul(q->log, t);
	return fn_reduced(site, tj_neg(tj_sum(q->weight ? tj_mul(y, q->weight) : y, TJ_AXES(q->axis), false)), o->reduction, q->x);
}

tj_tensor *tj_cross_entropy_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	classes q = { .site = site, .name = "cross_entropy_loss", .hint = ignorable };
	tj_tensor *bad = bad_classes(&q, x, &o);
	if (!bad) bad = fn_bad(site, q.name, "the target", target);
	if (bad) return bad;
	const bool probable = fn_is_float(tj_dtype_of(target));
	bool fits = tj_rank(target) == tj_rank(x);
	for (int i = 0; probable && fits && i < tj_rank(x); i++) fits = tj_dim(target, i) == tj_dim(x, i);
	if (probable && (!fits || o.ignore))
		return tj_fail(TJ_ERR_SHAPE, q.name, "integers: classes; a float: a probability for each class",
		               fits ? ".ignore is for targets that are classes: x is %s, the target %s"
		                    : "a float target has not the shape of x: x is %s, the target %s",
		               fn_type_of(x).text, fn_type_of(target).text);
	if (!probable && (bad = bad_target(&q, target))) return bad;
	if (!probable && q.axis && tj_rank(x) == 2 && !o.weight && !o.ignore && !(o.label_smoothing > 0) && o.reduction == TJ_LOSS_MEAN)
		return tj_cross_entropy_at(tj_site_for(site, q.name, no_class, q.hint), x, target);
	q.log = tj_log_softmax(fn_widened(site, x), q.axis);
	if (probable) return of_probabilities(&q, target, &o);
	take_target(&q, target, &o);
	return ended(&q, losses(&q, o.label_smoothing), o.reduction);
}

/* ---- margins ---- */
tj_tensor *tj_multi_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, int p, double margin, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	classes q = { .site = site, .name = "multi_margin_loss", .hint = "classes count from 0" };
	tj_tensor *bad = fn_bad(site, q.name, "x", x);
	if (!bad) bad = fn_bad(site, q.name, "the target", target);
	if (!bad && !tj_rank(x)) x = tj_reshape(x, TJ_SHAPE(1)); /* one class */
	if (!bad && tj_rank(x) == 1 && tj_rank(target) == 1) x = tj_unsqueeze(x, 0); /* one example */
	if (!bad) bad = bad_classes(&q, x, &o);
	if (!bad) bad = bad_target(&q, target);
	if (bad) return bad;
	if (p != 1 && p != 2) return tj_fail(TJ_ERR_ARG, q.name, "the power of each violation: 1 or 2", "p is %d", p);
	if (tj_rank(x) > 2 || o.ignore || o.label_smoothing > 0)
		return tj_fail(TJ_ERR_ARG, q.name, "x is [N,C] or [C]",
		               tj_rank(x) > 2 ? "x has axes behind the classes"
		                              : ".ignore and .label_smoothing are for cross_entropy_loss");
	q.log = fn_widened(site, x);
	q.target = target;
	tj_tensor *right = tj_unsqueeze(tj_add(picked(&q, q.log), checked(&q)), q.axis),
		  *over = tj_relu(tj_add(tj_sub(q.log, right), tj_f(margin)));
	if (p == 2) over = tj_square(over);
	tj_tensor *y = tj_div(tj_sum(tj_where(hit(&q), tj_f(0), over), TJ_AXES(q.axis), false), tj_f((double)q.n));
	if (q.weight) y = tj_mul(y, picked(&q, q.weight));
	return fn_reduced(site, y, o.reduction, q.x);
}

/* Row by row: the sum over the targets j, up to the first -1, and the classes i that are none, of max(0, 1 - x[j] + x[i]) / C. */
tj_tensor *tj_multilabel_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r)
{
	static const char name[] = "multilabel_margin_loss";
	tj_tensor *bad = fn_bad_float(site, name, "x", x);
	if (!bad) bad = fn_bad_index(site, name, "the target", target);
	if (!bad) bad = fn_bad_reduction(site, name, r);
	if (bad) return bad;
	if (!tj_rank(x)) x = tj_reshape(x, TJ_SHAPE(1)), target = tj_reshape(target, TJ_SHAPE(-1)); /* one class */
	bool fits = tj_rank(x) == tj_rank(target) && (tj_rank(x) == 1 || tj_rank(x) == 2) && tj_dim(x, -1) > 0;
	for (int i = 0; fits && i < tj_rank(x); i++) fits = tj_dim(x, i) == tj_dim(target, i);
	if (!fits)
		return tj_fail(TJ_ERR_SHAPE, name, "both are [N,C] or [C]; -1 ends the classes of a row",
		               "x and the target have not the same one or two axes");
	const int64_t n = tj_dim(x, -1);
	x = fn_high(site, x);
	tj_tensor *wide = fn_widened(site, x), *is = tj_cast(tj_cumprod(tj_ge(target, tj_i(0)), -1), TJ_BOOL), *at = tj_where(is, target, tj_i(0));
	tj_tensor *place = tj_to(tj_arange(TJ_I64, 0, n, 1), tj_device_of(x)), *same = tj_eq(tj_unsqueeze(at, -1), place); /* [..,j,i] */
	tj_tensor *mine = tj_unsqueeze(tj_any(tj_logical_and(same, tj_unsqueeze(is, -1)), TJ_AXES(-2), false), -2);
	const char *named = tj_site_for(site, name, no_class, "classes count from 0; -1 ends those of a row");
	tj_tensor *over = tj_relu(tj_add(tj_sub(tj_unsqueeze(wide, -2), tj_unsqueeze(tj_gather_at(named, wide, -1, at), -1)), tj_f(1)));
	tj_tensor *counts = tj_logical_and(tj_unsqueeze(is, -1), tj_logical_not(mine));
	tj_tensor *y = tj_sum(tj_where(counts, over, tj_f(0)), TJ_AXES(-2, -1), false);
	return fn_reduced(site, tj_div(y, tj_f((double)n)), r, x);
}

/* The mean over classes of a binary cross entropy; target: 0 or 1 for each. */
tj_tensor *tj_multilabel_soft_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	const tj_loss_reduction r = o.reduction;
	if (o.pos_weight)
		return tj_fail(TJ_ERR_ARG, "multilabel_soft_margin_loss", "it is for binary_cross_entropy_with_logits",
		               ".pos_weight is set");
	o.reduction = TJ_LOSS_NONE;
	o.size = sizeof o;
	tj_tensor *bad = fn_bad_reduction(site, "multilabel_soft_margin_loss", r);
	if (bad) return bad;
	tj_tensor *y = tj_binary_cross_entropy_with_logits(x, target, &o);
	if (tj_is_poison(y)) return y;
	return fn_reduced(site, tj_rank(y) ? tj_mean(y, TJ_AXES(-1), false) : y, r, fn_high(site, x));
}
