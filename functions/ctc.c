/* SPDX-License-Identifier: MIT */
/* ctc_loss: the probability of a row of labels, over all ways to stretch it over the steps (Graves et al., "Connectionist Temporal
 * Classification", 2006).
 *
 * A state is a label or a blank before, between or behind labels: blank a blank b blank. alpha[s] is the logarithm of the probability to be
 * in state s after the steps so far; a step stays, goes on by one state, or by two if that leaves out a blank between different labels. */
#include "functions/functions.h"

#include <math.h>

typedef struct ctc {
	const char *site;
	tj_tensor *skips;   /* bool [N,states]: the state may be reached from two before */
	tj_tensor *steps;   /* i64 [N,1]: that many count */
} ctc;

/* alpha of the state `by` before */
static tj_tensor *earlier(const char *site, tj_tensor *alpha, int64_t by)
{
	const int64_t states = tj_dim(alpha, 1), kept = states > by ? states - by : 0;
	return tj_pad(tj_slice(alpha, 1, 0, kept, 1), TJ_SHAPE(states - kept, 0), TJ_PAD_CONSTANT, tj_f(-INFINITY));
}

/* Carries alpha and the number of the step; takes the logarithms of each state's label. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const ctc *q = self;
	const char *site = q->site;
	tj_tensor *alpha = in[0], *two = tj_where(q->skips, earlier(site, alpha, 2), tj_f(-INFINITY));
	tj_tensor *next = tj_add(tj_logaddexp(tj_logaddexp(alpha, earlier(site, alpha, 1)), two), in[2]);
	out[0] = tj_where(tj_lt(in[1], q->steps), next, alpha);
	out[1] = tj_add(in[1], tj_i(1));
}

/* The label of each state, i64 [N,2 S + 1], and in *skips where two states may be passed. What lies behind a row's length is blank. */
static tj_tensor *states_of(const char *site, tj_tensor *targets, tj_tensor *lengths, int64_t blank, tj_tensor **skips)
{
	const int64_t n = tj_dim(targets, 0), s = tj_dim(targets, 1);
	const tj_device d = tj_device_of(targets);
	tj_tensor *blanks = tj_to(tj_full(TJ_I64, TJ_SHAPE(n, s + 1), tj_i(blank)), d);
	tj_tensor *label = tj_where(tj_lt(tj_to(tj_arange(TJ_I64, 0, s, 1), d), tj_unsqueeze(lengths, 1)), tj_cast(targets, TJ_I64), tj_i(blank));
	tj_tensor *pairs = tj_reshape(tj_stack(TJ_LIST(tj_slice(blanks, 1, 0, s, 1), label), -1), TJ_SHAPE(n, 2 * s));
	tj_tensor *all = tj_cat(TJ_LIST(pairs, tj_slice(blanks, 1, s, s + 1, 1)), 1);
	tj_tensor *before =
		s ? tj_cat(TJ_LIST(tj_to(tj_full(TJ_I64, TJ_SHAPE(n, 2), tj_i(blank)), d), tj_slice(all, 1, 0, 2 * s - 1, 1)), 1) : all;
	*skips = tj_logical_and(tj_ne(all, tj_i(blank)), tj_ne(all, before));
	return all;
}

/* x [T,N,C], wide */
static tj_tensor *losses(const char *site, tj_tensor *x, tj_tensor *targets, tj_tensor *steps, tj_tensor *lengths, int64_t blank)
{
	const int64_t t = tj_dim(x, 0), n = tj_dim(x, 1), states = 2 * tj_dim(targets, 1) + 1;
	ctc q = { .site = site, .steps = tj_unsqueeze(steps, 1) };
	tj_tensor *label = states_of(site, targets, lengths, blank, &q.skips);
	const char *named = tj_site_for(site, "ctc_loss", "a target is no class; the number of classes is ", "classes count from 0");
	tj_tensor *each = tj_gather_at(named, x, 2, tj_expand(tj_unsqueeze(label, 0), TJ_SHAPE(t, n, states))),
		  *place = tj_to(tj_arange(TJ_I64, 0, states, 1), tj_device_of(x));
	tj_tensor *first = tj_squeeze(tj_slice(each, 0, 0, 1, 1), TJ_AXES(0)), *none = tj_f(-INFINITY), *carry[2];
	first = tj_where(tj_lt(place, tj_i(2)), first, none);
	if (tj_is_poison(first) || tj_scan(carry, NULL, 0, step, TJ_LIST(first, tj_to(tj_full(TJ_I64, TJ_0D, tj_i(1)), tj_device_of(x))),
	                                   TJ_LIST(tj_slice(each, 0, 1, t, 1)), &q, NULL) != TJ_OK)
		return tj_is_poison(first) ? first : carry[0];
	tj_tensor *end = tj_unsqueeze(tj_mul(lengths, tj_i(2)), 1), *last = tj_logical_or(tj_eq(place, end), tj_eq(place, tj_sub(end, tj_i(1))));
	return tj_neg(tj_logsumexp(tj_where(last, carry[0], none), TJ_AXES(1), false));
}

/* ---- the call ---- */
/* Rows [N,labels] of targets that lie one behind the other. No target of more labels than steps can be reached, so rows are no longer. */
static tj_tensor *in_rows(const char *site, tj_tensor *targets, tj_tensor *lengths, int64_t steps)
{
	const int64_t n = tj_dim(lengths, 0), all = tj_numel(targets), labels = all < steps ? all : steps;
	if (!labels) return tj_reshape(targets, TJ_SHAPE(n, 0));
	tj_tensor *from = tj_sub(tj_cumsum(lengths, 0), lengths), *k = fn_arange(site, targets, labels),
		  *counts = tj_lt(k, tj_unsqueeze(lengths, 1));
	const char *named = tj_site_for(site, "ctc_loss", "the target lengths add up to more than the targets, whose number is ",
	                                "targets without rows lie one behind the other; each length counts those of one example");
	return tj_take_at(named, targets, tj_where(counts, tj_add(tj_unsqueeze(from, 1), k), tj_i(0)));
}

static tj_tensor *bad_lengths(const char *site, const char *name, const char *what, tj_tensor *t, int64_t n)
{
	tj_tensor *bad = fn_bad_index(site, name, what, t);
	if (bad) return bad;
	if (tj_rank(t) != 1 || tj_dim(t, 0) != n)
		return tj_fail(TJ_ERR_SHAPE, name, "one for each example", "%s are not [%lld]", what, (long long)n);
	return NULL;
}

tj_tensor *tj_ctc_loss_at(const char *site, tj_tensor *x, tj_tensor *targets, tj_tensor *input_lengths, tj_tensor *target_lengths,
                          int64_t blank, bool zero_infinity, tj_loss_reduction r)
{
	static const char name[] = "ctc_loss";
	tj_tensor *bad = fn_bad_float(site, name, "x", x);
	if (!bad) bad = fn_bad_index(site, name, "the targets", targets);
	if (!bad) bad = fn_bad_reduction(site, name, r);
	if (bad) return bad;
	if (tj_rank(x) != 3 || tj_dim(x, 0) < 1)
		return tj_fail(TJ_ERR_SHAPE, name, "[steps,N,classes], logarithms of probabilities", "x has %d axes, or no step",
		               tj_rank(x));
	const int64_t n = tj_dim(x, 1);
	if (tj_rank(targets) != 1 && (tj_rank(targets) != 2 || tj_dim(targets, 0) != n))
		return tj_fail(TJ_ERR_SHAPE, name,
		               "one row for each example; what is behind its length is not used. Or all labels in one row",
		               "the targets are not [%lld,labels]", (long long)n);
	if ((bad = bad_lengths(site, name, "the input lengths", input_lengths, n)) ||
	    (bad = bad_lengths(site, name, "the target lengths", target_lengths, n)))
		return bad;
	if (blank < 0 || blank >= tj_dim(x, 2))
		return tj_fail(TJ_ERR_ARG, name, "one of the classes, usually 0", "blank is %lld, there are %lld classes", (long long)blank,
		               (long long)tj_dim(x, 2));
	if (r == TJ_LOSS_BATCHMEAN)
		return tj_fail(TJ_ERR_ARG, name, "TJ_LOSS_MEAN divides each loss by its number of labels",
		               "TJ_LOSS_BATCHMEAN is for kl_div");
	tj_tensor *lengths = tj_cast(target_lengths, TJ_I64);
	if (tj_rank(targets) == 1) targets = in_rows(site, targets, lengths, tj_dim(x, 0));
	x = fn_high(site, x);
	tj_tensor *y = losses(site, fn_widened(site, x), targets, tj_cast(input_lengths, TJ_I64), lengths, blank);
	if (zero_infinity) y = tj_where(tj_eq(y, tj_f(INFINITY)), tj_f(0), y);
	if (r == TJ_LOSS_MEAN) y = tj_div(y, tj_cast(tj_maximum(lengths, tj_i(1)), tj_dtype_of(y)));
	return fn_reduced(site, y, r, x);
}
