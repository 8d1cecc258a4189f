/* SPDX-License-Identifier: MIT */
/* losses: the two losses of ONNX. */
#include "kit/models/models.h"

#define X ox_t(o, 0)

/* -x[target] with weights, reduced. logs: [N,C,...]. */
static tj_tensor *likelihood(ox_call *o, const char *site, tj_tensor *logs)
{
	tj_tensor *target = ox_t(o, 1), *weight = ox_t(o, 2), *w;
	const char *how = ox_string(o, "reduction", "mean");
	const bool ignores = ox_attribute(o, "ignore_index") != NULL;
	const int64_t ignored = ox_int(o, "ignore_index", 0);
	tj_tensor *at = tj_cast(target, TJ_I64), *counts = NULL;
	if (ignores) {
		counts = tj_ne(at, tj_i(ignored));
		at = tj_where(counts, at, tj_i(0));
	}
	tj_tensor *loss = tj_neg(tj_squeeze(tj_gather(logs, 1, tj_unsqueeze(at, 1)), TJ_AXES(1)));
	if (weight)
		w = tj_index(weight, TJ_AXES(0), TJ_LIST(at));
	else
		w = tj_full(tj_dtype_of(loss), TJ_0D, tj_f(1));
	if (counts) w = tj_where(counts, w, ox_scalar(site, tj_dtype_of(loss), 0));
	loss = tj_mul(loss, w);
	if (counts) loss = tj_where(counts, loss, ox_scalar(site, tj_dtype_of(loss), 0));
	if (!strcmp(how, "none")) return loss;
	if (!strcmp(how, "sum") || (!weight && !counts))
		return !strcmp(how, "sum") ? tj_sum(loss, TJ_ALL, false) : tj_mean(loss, TJ_ALL, false);
	return tj_div(tj_sum(loss, TJ_ALL, false), tj_sum(tj_expand_as(w, loss), TJ_ALL, false));
}

tj_tensor *ox_negative_log_likelihood_loss(ox_call *o, const char *site) { return likelihood(o, site, X); }

tj_tensor *ox_softmax_cross_entropy_loss(ox_call *o, const char *site)
{
	tj_tensor *logs = tj_log_softmax(X, 1);
	ox_put(o, 1, logs);
	return likelihood(o, site, logs);
}
