/* SPDX-License-Identifier: MIT */
/* Metrics over a whole data set: the means of what a function gives for each batch, by the number of its items. */
#include "kit/nn/nn.h"

#include <tjdata.h>

enum { MOST_METRICS = 64 };

static int64_t add_batch(const char *site, tj_fn *f, tj_tensor **batch, double *sum, int n)
{
	double v[MOST_METRICS];
	tj_tensor *in[TJ_SAMPLE_FIELDS + 1];
	int fields = 0;
	while (fields < TJ_SAMPLE_FIELDS && batch[fields]) in[fields] = batch[fields], fields++;
	in[fields] = TJ_END;
	tj_tensor *y = tj_call1(f, in);
	if (tj_is_poison(y)) return -1;
	if (tj_numel(y) != n) {
		tj_fail(TJ_ERR_SHAPE, "tjnn_evaluate", "one element for each metric: tj_stack() joins them", "the result has %lld elements, not %d",
		        (long long)tj_numel(y), n);
		return -1;
	}
	if (tj_read(tj_cast(y, TJ_F64), v, (size_t)n * sizeof *v) != TJ_OK) return -1;
	const int64_t items = tj_dim(in[0], 0);
	for (int i = 0; i < n; i++) sum[i] += v[i] * (double)items;
	return items;
}

/* Sums of all ranks. */
static tj_status add_ranks(const char *site, tj_ctx *c, tj_comm *w, double *sum, int n)
{
	if (tj_comm_size(w) < 2) return TJ_OK;
	tj_tensor *all = tj_all_reduce(w, tj_from_data_on(c, TJ_CPU, TJ_F64, TJ_SHAPE(n), sum), TJ_REDUCE_SUM);
	return tj_is_poison(all) ? TJ_ERR_STATE : tj_read(all, sum, (size_t)n * sizeof *sum);
}

/* Sums over all batches; sum[n]: the items. A rank with an error takes part in the collective all the same. */
static tj_status sum_up(const char *site, tj_ctx *c, tj_fn *f, tj_loader *l, tj_comm *w, double *sum, int n)
{
	tj_tensor *batch[TJ_SAMPLE_FIELDS];
	int64_t items = 0;
	tj_status st = tj_loader_seek(l, 0, 0);
	for (bool more = st == TJ_OK; more && items >= 0;) {
		tj_scope *s = tj_push(c);
		more = tj_loader_next(l, batch, TJ_SAMPLE_FIELDS);
		if (more) items = add_batch(site, f, batch, sum, n);
		if (more && items > 0) sum[n] += (double)items;
		tj_pop(s);
	}
	if (st == TJ_OK) st = tj_check(c);
	tj_scope *s = tj_push(c);
	const tj_status joined = add_ranks(site, c, w, sum, n + 1);
	tj_pop(s);
	return st == TJ_OK ? joined : st;
}

tj_status tjnn_evaluate_at(const char *site, tj_fn *f, tj_loader *l, double *means, int n, const tjnn_evaluate_opts *opts)
{
	static const char op[] = "tjnn_evaluate";
	double sum[MOST_METRICS + 1] = { 0 };
	tj_ctx *c = tj_ctx_current();
	KIT_OPTIONS(tjnn_evaluate_opts, o, opts, TJ_ERR_ARG)
	if (!f || !l || !means || n < 1 || n > MOST_METRICS) {
		tj_fail(TJ_ERR_ARG, op, "", "%s", !f ? "no function" : !l ? "no loader" : means ? "1 to 64 metrics are possible" : "no room for means");
		return TJ_ERR_ARG;
	}
	for (int i = 0; i < n; i++) means[i] = 0;
	if (tj_in_body(c)) return tj_fail(TJ_ERR_STATE, op, "call it when tj_call() has returned", "tjnn_evaluate() in a body"), TJ_ERR_STATE;
	if (tj_check(c) != TJ_OK) return tj_fail(tj_last_error(c)->code, op, "", "an error came before it: %s", tj_last_error(c)->message),
	                                 TJ_ERR_STATE;
	if (o.averages && tjnn_optim_swap(o.averages) != TJ_OK) return TJ_ERR_STATE;
	tj_status st = sum_up(site, c, f, l, o.comm, sum, n);
	if (o.averages) tjnn_optim_swap(o.averages);
	if (st == TJ_OK && sum[n] == 0) tj_fail(st = TJ_ERR_ARG, op, "", "the loader has no items");
	else if (st != TJ_OK) {
		const tj_error *e = tj_last_error(c);
		tj_fail(st, op, e->hint, "%s", e->message);
	}
	for (int i = 0; st == TJ_OK && i < n; i++) means[i] = sum[i] / sum[n];
	return st;
}
