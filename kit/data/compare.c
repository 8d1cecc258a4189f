/* SPDX-License-Identifier: MIT */
/* compare: two models over a data set. */
#include <tjdata.h>
#include <tjmodel.h>

#include "kit/kit.h"

enum { MOST = 64 }; /* outputs of a model */
static const char op[] = "model_compare";

static int inputs(const tj_model *m)
{
	int n = 0;
	while (tj_model_input(m, n)) n++;
	return n;
}

static int outputs(const tj_model *m)
{
	int n = 0;
	while (tj_model_output(m, n)) n++;
	return n;
}

/* batch: of n fields; those beyond the inputs, as a label, are not used */
static tj_status compare_batch(const char *site, const tj_model *const m[2], tj_tensor **batch, int n, tj_difference *d)
{
	tj_tensor *out[2][MOST];
	const int nin = inputs(m[0]);
	if (n < nin) return tj_fail(TJ_ERR_ARG, op, NULL, "a batch has %d fields, and the model %d inputs", n, nin), TJ_ERR_ARG;
	batch[nin] = TJ_END;
	for (int i = 0; i < 2; i++) {
		const tj_status st = tj_call(tj_model_fn(m[i]), out[i], batch);
		if (st != TJ_OK) return st;
	}
	for (int k = 0; k < outputs(m[0]); k++) {
		const tj_status st = tj_difference_add(&d[k], out[0][k], out[1][k]);
		if (st != TJ_OK) return st;
	}
	return TJ_OK;
}

tj_status tj_model_compare_at(const char *site, const tj_model *want, const tj_model *got, tj_loader *data, int64_t batches,
                              tj_difference *d)
{
	const tj_model *const m[2] = { want, got };
	tj_ctx *c = tj_ctx_current();
	if (!want || !got || !data || !d) return tj_fail(TJ_ERR_ARG, op, NULL, "an argument is NULL"), TJ_ERR_ARG;
	if (inputs(want) != inputs(got) || outputs(want) != outputs(got) || inputs(want) > TJ_SAMPLE_FIELDS || outputs(want) > MOST)
		return tj_fail(TJ_ERR_ARG, op, NULL, "the models have %d and %d inputs, %d and %d outputs", inputs(want), inputs(got),
		               outputs(want), outputs(got)),
		       TJ_ERR_ARG;
	tj_status st = TJ_OK;
	bool more = true;
	for (int64_t i = 0; st == TJ_OK && more && (batches < 1 || i < batches); i++) {
		tj_tensor *batch[TJ_SAMPLE_FIELDS + 1] = { NULL };
		tj_scope *s = tj_push(c);
		int fields = 0;
		more = tj_loader_next(data, batch, TJ_SAMPLE_FIELDS);
		while (more && fields < TJ_SAMPLE_FIELDS && batch[fields]) fields++;
		if (more) st = compare_batch(site, m, batch, fields, d);
		tj_pop(s);
	}
	return st == TJ_OK ? tj_check(c) : st;
}
