/* SPDX-License-Identifier: MIT */
/* Losses of values: each element of x against one of target. Narrow floats are computed in f32, and the result is rounded once, or stays
 * f32 with .autocast. */
#include "functions/functions.h"

#include <math.h>

/* ---- operands ---- */
/* In some losses integers and bool count as f32. */
static tj_tensor *as_float(const char *site, tj_tensor *x)
{
	return !x || x == TJ_END || tj_rank(x) < 0 || fn_is_float(tj_dtype_of(x)) ? x : tj_cast(x, TJ_F32);
}

static bool same_shape(const tj_tensor *a, const tj_tensor *b)
{
	bool same = tj_rank(a) == tj_rank(b);
	for (int i = 0; same && i < tj_rank(a); i++) same = tj_dim(a, i) == tj_dim(b, i);
	return same;
}

/* Shapes that only broadcast are a mistake: [N] against [N,1] would give N * N losses. A target without axes is one for all. */
static tj_tensor *bad_pair(const char *site, const char *op, tj_tensor *x, tj_tensor *target)
{
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (!bad) bad = fn_bad(site, op, "the target", target);
	if (bad || same_shape(x, target) || !tj_rank(target)) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_reshape(), tj_squeeze() or tj_expand() makes them equal",
	               "x and the target have different shapes: %s and %s",
	               fn_type_of(x).text, fn_type_of(target).text);
}

tj_tensor *fn_bad_reduction(const char *site, const char *op, tj_loss_reduction r)
{
	return (unsigned)r <= TJ_LOSS_BATCHMEAN ? NULL : tj_fail(TJ_ERR_ARG, op, "TJ_LOSS_MEAN, for example", "there is no reduction %d", (int)r);
}

/* The losses of all elements as r says, in the dtype of x. */
tj_tensor *fn_reduced(const char *site, tj_tensor *loss, tj_loss_reduction r, tj_tensor *x)
{
	tj_tensor *y = loss;
	if (r == TJ_LOSS_MEAN) y = tj_mean(loss, TJ_ALL, false);
	else if (r != TJ_LOSS_NONE) y = tj_sum(loss, TJ_ALL, false);
	if (r == TJ_LOSS_BATCHMEAN && tj_rank(x) > 0) y = tj_div(y, tj_f((double)tj_dim(x, 0)));
	return tj_dtype_of(y) == tj_dtype_of(x) || tj_is_poison(y) ? y : tj_cast(y, tj_dtype_of(x));
}

/* What the losses of pairs begin with: name, and x and target made wide, or the poison that they return. */
#define PAIR(op)                                                                                 \
	static const char name[] = op;                                                           \
	tj_tensor *bad = bad_pair(site, name, x, target);                                        \
	if (!bad) bad = fn_bad_reduction(site, name, r);                                         \
	if (bad) return bad;                                                                     \
	x = fn_high(site, x);                                                                    \
	tj_tensor *const given = x;                                                              \
	x = fn_widened(site, x), target = fn_widened(site, target)

static tj_tensor *at_least_0(const char *site, tj_tensor *x) { return tj_relu(x); }

/* ---- distances of numbers ---- */
tj_tensor *tj_mse_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r)
{
	PAIR("mse_loss");
	return fn_reduced(site, tj_square(tj_sub(x, target)), r, given);
}

tj_tensor *tj_l1_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r)
{
	PAIR("l1_loss");
	return fn_reduced(site, tj_abs(tj_sub(x, target)), r, given);
}

/* d^2 / 2 up to the limit, then a line with the slope `limit`; all divided by `by` */
static tj_tensor *rounded_corner(const char *site, tj_tensor *x, tj_tensor *target, double limit, double by)
{
	tj_tensor *d = tj_sub(x, target), *size = tj_abs(d), *line = tj_mul(tj_sub(size, tj_f(limit / 2)), tj_f(limit / by));
	return tj_where(tj_lt(size, tj_f(limit)), tj_mul(tj_mul(d, d), tj_f(0.5 / by)), line);
}

tj_tensor *tj_smooth_l1_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double beta, tj_loss_reduction r)
{
	PAIR("smooth_l1_loss");
	if (!(beta >= 0)) return tj_fail(TJ_ERR_ARG, name, "from this distance on the loss is a line; 1 is usual", "beta is %g", beta);
	return fn_reduced(site, beta > 0 ? rounded_corner(site, x, target, beta, beta) : tj_abs(tj_sub(x, target)), r, given);
}

tj_tensor *tj_huber_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double delta, tj_loss_reduction r)
{
	PAIR("huber_loss");
	if (!(delta > 0)) return tj_fail(TJ_ERR_ARG, name, "from this distance on the loss is a line; 1 is usual", "delta is %g", delta);
	return fn_reduced(site, rounded_corner(site, x, target, delta, 1), r, given);
}

/* ---- probabilities ---- */
/* log(x), or -100 where that is less; the gradient is 0 there */
static tj_tensor *log_of(const char *site, tj_tensor *x)
{
	tj_tensor *none = tj_lt(x, tj_f(3.7200759760208361e-44)); /* exp(-100) */
	return tj_where(none, tj_f(-100), tj_log(tj_where(none, tj_f(1), x)));
}

/* The same of 1 - x, without cancellation. */
static tj_tensor *log_of_rest(const char *site, tj_tensor *x)
{
	tj_tensor *all = tj_ge(x, tj_f(1));
	return tj_where(all, tj_f(-100), tj_log1p(tj_neg(tj_where(all, tj_f(0), x))));
}

static tj_tensor *bad_weight(const char *site, const char *op, const char *what, tj_tensor *weight)
{
	return weight ? fn_bad(site, op, what, weight) : NULL;
}

tj_tensor *tj_binary_cross_entropy_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	const tj_loss_reduction r = o.reduction;
	PAIR("binary_cross_entropy");
	if ((bad = bad_weight(site, name, "the weight", o.weight))) return bad;
	tj_tensor *yes = tj_mul(target, log_of(site, x)), *no = tj_mul(tj_sub(tj_f(1), target), log_of_rest(site, x)),
		  *y = tj_neg(tj_add(yes, no));
	return fn_reduced(site, o.weight ? tj_mul(y, o.weight) : y, r, given);
}

tj_tensor *tj_binary_cross_entropy_with_logits_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts)
{
	NN_OPTIONS(tj_loss_opts, o, opts);
	const tj_loss_reduction r = o.reduction;
	PAIR("binary_cross_entropy_with_logits");
	if ((bad = bad_weight(site, name, "the weight", o.weight)) || (bad = bad_weight(site, name, "the positive weight", o.pos_weight)))
		return bad;
	tj_tensor *log = tj_logsigmoid(x);
	if (o.pos_weight) log = tj_mul(log, tj_add(tj_mul(tj_sub(o.pos_weight, tj_f(1)), target), tj_f(1)));
	tj_tensor *y = tj_sub(tj_mul(tj_sub(tj_f(1), target), x), log);
	return fn_reduced(site, o.weight ? tj_mul(y, o.weight) : y, r, given);
}

tj_tensor *tj_kl_div_at(const char *site, tj_tensor *x, tj_tensor *target, bool log_target, tj_loss_reduction r)
{
	PAIR("kl_div");
	tj_tensor *y = log_target ? tj_mul(tj_exp(target), tj_sub(target, x)) : tj_sub(tj_xlogy(target, target), tj_mul(target, x));
	return fn_reduced(site, y, r, given);
}

/* log(target!) by Stirling's formula, for targets above 1 */
static tj_tensor *log_factorial(const char *site, tj_tensor *target)
{
	tj_tensor *large = tj_gt(target, tj_f(1)), *t = tj_where(large, target, tj_f(1));
	tj_tensor *y = tj_add(tj_sub(tj_mul(t, tj_log(t)), t), tj_mul(tj_log(tj_mul(t, tj_f(6.283185307179586))), tj_f(0.5)));
	return tj_where(large, y, tj_f(0));
}

tj_tensor *tj_poisson_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, bool log_input, bool full, double eps,
                                  tj_loss_reduction r)
{
	x = as_float(site, x);
	PAIR("poisson_nll_loss");
	tj_tensor *y = log_input ? tj_sub(tj_exp(x), tj_mul(target, x)) : tj_sub(x, tj_mul(target, tj_log(tj_add(x, tj_f(eps)))));
	return fn_reduced(site, full ? tj_add(y, log_factorial(site, target)) : y, r, given);
}

/* The variance is at least eps; its gradient goes on as if it were not limited. */
tj_tensor *tj_gaussian_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_tensor *var, bool full, double eps,
                                   tj_loss_reduction r)
{
	PAIR("gaussian_nll_loss");
	if ((bad = fn_bad(site, name, "the variance", var))) return bad;
	if (tj_rank(var) && tj_rank(var) == tj_rank(x) - 1) var = tj_unsqueeze(var, -1);
	bool fits = !tj_rank(var) || tj_rank(var) == tj_rank(x);
	for (int i = 0; fits && i < tj_rank(var); i++) fits = tj_dim(var, i) == tj_dim(x, i) || tj_dim(var, i) == 1;
	if (!fits) return tj_fail(TJ_ERR_SHAPE, name, "one for each element, or for each row", "the variance does not broadcast to x");
	var = fn_widened(site, var);
	tj_tensor *v = tj_add(var, tj_stop_gradient(tj_sub(tj_maximum(var, tj_f(eps)), var)));
	tj_tensor *y = tj_mul(tj_add(tj_log(v), tj_div(tj_square(tj_sub(x, target)), v)), tj_f(0.5));
	return fn_reduced(site, full ? tj_add(y, tj_f(0.91893853320467274178)) : y, r, given); /* log(2 pi) / 2 */
}

/* ---- margins ---- */
tj_tensor *tj_hinge_embedding_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double margin, tj_loss_reduction r)
{
	PAIR("hinge_embedding_loss");
	tj_tensor *far = tj_where(tj_ne(target, tj_i(1)), at_least_0(site, tj_sub(tj_f(margin), x)), tj_f(0));
	return fn_reduced(site, tj_add(far, tj_where(tj_ne(target, tj_i(-1)), x, tj_f(0))), r, given);
}

tj_tensor *tj_soft_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r)
{
	PAIR("soft_margin_loss");
	return fn_reduced(site, tj_neg(tj_logsigmoid(tj_mul(x, target))), r, given);
}

tj_tensor *tj_margin_ranking_loss_at(const char *site, tj_tensor *x, tj_tensor *other, tj_tensor *target, double margin,
                                     tj_loss_reduction r)
{
	x = as_float(site, x), other = as_float(site, other);
	PAIR("margin_ranking_loss");
	if ((bad = bad_pair(site, name, given, other))) return bad;
	other = fn_widened(site, other);
	return fn_reduced(site, at_least_0(site, tj_sub(tj_f(margin), tj_mul(target, tj_sub(x, other)))), r, given);
}

/* ---- rows: the last axis ---- */
/* The operands of a row's loss have one shape, and x an axis. */
static tj_tensor *bad_rows(const char *site, const char *op, tj_tensor *x, tj_tensor *y)
{
	tj_tensor *bad = fn_bad_float(site, op, "x", x);
	if (!bad) bad = fn_bad_float(site, op, "the other operand", y);
	if (bad) return bad;
	if (!same_shape(x, y) || tj_rank(x) < 1)
		return tj_fail(TJ_ERR_SHAPE, op, "[...,width] and [...,width]", "the operands have different shapes, or no axis");
	return NULL;
}

tj_tensor *tj_cosine_embedding_loss_at(const char *site, tj_tensor *x, tj_tensor *other, tj_tensor *target, double margin,
                                       tj_loss_reduction r)
{
	static const char name[] = "cosine_embedding_loss";
	x = as_float(site, x), other = as_float(site, other);
	tj_tensor *bad = bad_rows(site, name, x, other);
	if (!bad) bad = fn_bad(site, name, "the target", target);
	if (!bad) bad = fn_bad_reduction(site, name, r);
	if (bad) return bad;
	bool fits = !tj_rank(target) || tj_rank(target) == tj_rank(x) - 1;
	for (int i = 0; fits && i < tj_rank(target); i++) fits = tj_dim(target, i) == tj_dim(x, i);
	if (!fits)
		return tj_fail(TJ_ERR_SHAPE, name, "one number for each row: 1 or -1",
		               "the target has not the shape of x without the last axis");
	x = fn_high(site, x);
	tj_tensor *a = fn_widened(site, x), *b = fn_widened(site, other);
	const tj_dims last = TJ_AXES(-1);
	tj_tensor *dot = tj_sum(tj_mul(a, b), last, false), *u = tj_add(tj_sum(tj_square(a), last, false), tj_f(1e-12)),
		  *v = tj_add(tj_sum(tj_square(b), last, false), tj_f(1e-12));
	tj_tensor *cosine = tj_div(dot, tj_sqrt(tj_mul(u, v)));
	tj_tensor *near = tj_where(tj_eq(target, tj_i(1)), tj_sub(tj_f(1), cosine), tj_f(0));
	return fn_reduced(site, tj_add(near, tj_where(tj_eq(target, tj_i(-1)), at_least_0(site, tj_sub(cosine, tj_f(margin))), tj_f(0))), r, x);
}

/* (sum |a - b + eps|^p)^(1 / p) over the last axis; the gradient is 0 where it is 0 */
static tj_tensor *distance(const char *site, tj_tensor *a, tj_tensor *b, double p)
{
	tj_tensor *d = tj_add(tj_sub(a, b), tj_f(1e-6));
	const tj_dims last = TJ_AXES(-1);
	if (p == 1) return tj_sum(tj_abs(d), last, false);
	if (isinf(p)) return tj_amax(tj_abs(d), last, false);
	tj_tensor *sum = tj_sum(p == 2 ? tj_square(d) : tj_pow(tj_abs(d), tj_f(p)), last, false), *none = tj_eq(sum, tj_f(0)),
		  *some = tj_where(none, tj_f(1), sum);
	return tj_where(none, tj_f(0), p == 2 ? tj_sqrt(some) : tj_pow(some, tj_f(1 / p)));
}

tj_tensor *tj_triplet_margin_loss_at(const char *site, tj_tensor *anchor, tj_tensor *positive, tj_tensor *negative, double margin, double p,
                                     bool swap, tj_loss_reduction r)
{
	static const char name[] = "triplet_margin_loss";
	anchor = as_float(site, anchor), positive = as_float(site, positive), negative = as_float(site, negative);
	tj_tensor *bad = bad_rows(site, name, anchor, positive);
	if (!bad) bad = bad_rows(site, name, anchor, negative);
	if (!bad) bad = fn_bad_reduction(site, name, r);
	if (bad) return bad;
	if (!(p >= 1)) return tj_fail(TJ_ERR_ARG, name, "2 is the usual distance, INFINITY the largest difference", "p is %g, not 1 or more", p);
	anchor = fn_high(site, anchor);
	tj_tensor *a = fn_widened(site, anchor), *b = fn_widened(site, positive), *c = fn_widened(site, negative);
	tj_tensor *near = distance(site, a, b, p), *far = distance(site, a, c, p);
	if (swap) far = tj_minimum(far, distance(site, b, c, p));
	return fn_reduced(site, at_least_0(site, tj_add(tj_sub(near, far), tj_f(margin))), r, anchor);
}
