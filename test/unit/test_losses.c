/* SPDX-License-Identifier: MIT */
/* Losses of functions/loss.c and functions/classes.c: values of PyTorch, gradients to the third order, compiled code, targets out of range,
 * errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-12, #name)
#define OPTS(...) TJ_OPTS(tj_loss_opts, __VA_ARGS__)
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }
static tj_tensor *ints(tj_dims shape, const int64_t *v) { return tj_from_data(tj_ctx_current(), TJ_I64, shape, v); }
static tj_tensor *signs(tj_tensor *t) { return tj_where(tj_gt(t, tj_f(0)), tj_f(1), tj_f(-1)); }

static void values(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(4, 3)), *b = x(1, TJ_SHAPE(4, 3)), *p = tj_sigmoid(a), *t = tj_sigmoid(b), *sign = signs(b);
	KNOWN(tj_mse_loss(a, b, TJ_LOSS_NONE), mse_none);
	KNOWN(tj_mse_loss(a, b, TJ_LOSS_MEAN), mse_mean);
	KNOWN(tj_mse_loss(a, b, TJ_LOSS_SUM), mse_sum);
	KNOWN(tj_l1_loss(a, b, TJ_LOSS_MEAN), l1);
	KNOWN(tj_smooth_l1_loss(a, b, 0.5, TJ_LOSS_NONE), smooth_l1);
	KNOWN(tj_smooth_l1_loss(a, b, 0, TJ_LOSS_MEAN), l1);
	KNOWN(tj_huber_loss(a, b, 0.5, TJ_LOSS_NONE), huber);
	KNOWN(tj_binary_cross_entropy(p, t, OPTS(.weight = tj_abs(x(2, TJ_SHAPE(3))), .reduction = TJ_LOSS_NONE)), bce);
	const double end[] = { 0, 1, 0, 1 }, other[] = { 0, 1, 1, 0 };
	KNOWN(tj_binary_cross_entropy(tj_from_data(c, TJ_F64, TJ_SHAPE(4), end), tj_from_data(c, TJ_F64, TJ_SHAPE(4), other),
	                              OPTS(.reduction = TJ_LOSS_NONE)),
	      bce_ends);
	KNOWN(tj_binary_cross_entropy_with_logits(
		      tj_mul(a, tj_f(9)), t,
		      OPTS(.weight = tj_abs(x(2, TJ_SHAPE(3))), .pos_weight = tj_abs(x(3, TJ_SHAPE(3))), .reduction = TJ_LOSS_NONE)),
	      bce_logits);
	KNOWN(tj_kl_div(a, t, false, TJ_LOSS_BATCHMEAN), kl);
	KNOWN(tj_kl_div(a, b, true, TJ_LOSS_NONE), kl_log);
	KNOWN(tj_kl_div(tj_slice(a, 0, 0, 1, 1), tj_from_data(c, TJ_F64, TJ_SHAPE(1, 3), (double[]){ 0, 0.5, 0.5 }), false, TJ_LOSS_NONE),
	      kl_zero);
	KNOWN(tj_poisson_nll_loss(a, tj_mul(t, tj_f(5)), true, true, 1e-8, TJ_LOSS_NONE), poisson);
	KNOWN(tj_poisson_nll_loss(p, tj_mul(t, tj_f(5)), false, false, 1e-3, TJ_LOSS_SUM), poisson_plain);
	KNOWN(tj_gaussian_nll_loss(a, b, p, true, 1e-6, TJ_LOSS_NONE), gaussian);
	tj_tensor *first = tj_slice(p, 1, 0, 1, 1);
	KNOWN(tj_gaussian_nll_loss(a, b, first, false, 0.5, TJ_LOSS_MEAN), gaussian_row);
	KNOWN(tj_gaussian_nll_loss(a, b, tj_squeeze(first, TJ_AXES(1)), false, 0.5, TJ_LOSS_MEAN), gaussian_row);
	KNOWN(tj_hinge_embedding_loss(a, sign, 0.5, TJ_LOSS_NONE), hinge);
	KNOWN(tj_soft_margin_loss(a, sign, TJ_LOSS_NONE), soft_margin);
	KNOWN(tj_margin_ranking_loss(a, b, tj_flip(sign, TJ_AXES(0)), 0.2, TJ_LOSS_NONE), ranking);
	KNOWN(tj_cosine_embedding_loss(a, b, ints(TJ_SHAPE(4), (int64_t[]){ 1, -1, -1, 1 }), 0.1, TJ_LOSS_NONE), cosine);
	KNOWN(tj_triplet_margin_loss(a, b, x(2, TJ_SHAPE(4, 3)), 1, 2, false, TJ_LOSS_NONE), triplet);
	KNOWN(tj_triplet_margin_loss(a, b, x(2, TJ_SHAPE(4, 3)), 1.5, 3, true, TJ_LOSS_NONE), triplet_swap);
	kit_ok(c);
	tj_close(c);
}

static void classes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(3, 4, 2)), *y = ints(TJ_SHAPE(3, 2), (int64_t[]){ 0, 3, 2, 2, 1, 0 }),
		  *w = tj_add(tj_abs(x(5, TJ_SHAPE(4))), tj_f(0.1)), *rows = x(0, TJ_SHAPE(3, 4));
	tj_tensor *column[] = { tj_squeeze(tj_slice(y, 1, 0, 1, 1), TJ_AXES(1)), tj_squeeze(tj_slice(y, 1, 1, 2, 1), TJ_AXES(1)) };
	KNOWN(tj_nll_loss(a, y, OPTS(.weight = w)), nll);
	KNOWN(tj_nll_loss(a, y, OPTS(.weight = w, .ignore = true, .ignore_index = 2, .reduction = TJ_LOSS_NONE)), nll_ignore);
	KNOWN(tj_nll_loss(x(0, TJ_SHAPE(4)), tj_cast(tj_full(TJ_I64, TJ_0D, tj_i(2)), TJ_I32), NULL), nll_one);
	KNOWN(tj_cross_entropy_loss(a, y, NULL), ce);
	KNOWN(tj_cross_entropy_loss(rows, column[0], NULL), ce_rows);
	KNOWN(tj_cross_entropy_loss(a, y, OPTS(.weight = w, .ignore = true, .ignore_index = 2, .label_smoothing = 0.2)), ce_all);
	tj_tensor *some = tj_where(tj_eq(y, tj_i(2)), tj_i(-100), y); /* what is ignored need not be a class */
	KNOWN(tj_cross_entropy_loss(a, some, OPTS(.weight = w, .ignore = true, .ignore_index = -100, .label_smoothing = 0.2)), ce_all);
	KNOWN(tj_cross_entropy_loss(a, y, OPTS(.ignore = true, .ignore_index = 2, .label_smoothing = 0.2, .reduction = TJ_LOSS_NONE)), ce_smooth);
	KNOWN(tj_cross_entropy_loss(a, y, OPTS(.weight = w, .label_smoothing = 0.1, .reduction = TJ_LOSS_SUM)), ce_sum);
	KNOWN(tj_cross_entropy_loss(a, tj_softmax(x(1, TJ_SHAPE(3, 4, 2)), 1), OPTS(.weight = w, .label_smoothing = 0.3)), ce_probable);
	KNOWN(tj_multi_margin_loss(rows, column[1], 2, 0.8, OPTS(.weight = w, .reduction = TJ_LOSS_NONE)), multi_margin);
	KNOWN(tj_multi_margin_loss(x(0, TJ_SHAPE(4)), tj_full(TJ_I64, TJ_0D, tj_i(2)), 1, 1, NULL), multi_margin_one);
	tj_tensor *one = x(0, TJ_SHAPE(4)), *zero = tj_full(TJ_F64, TJ_0D, tj_f(0.5));
	assert_int_equal(tj_rank(tj_multi_margin_loss(one, tj_full(TJ_I64, TJ_SHAPE(1), tj_i(2)), 1, 1, OPTS(.reduction = TJ_LOSS_NONE))), 1);
	assert_true(tj_item(tj_multi_margin_loss(one, tj_full(TJ_I64, TJ_SHAPE(1), tj_i(2)), 1, 1, NULL)) ==
	            tj_item(tj_multi_margin_loss(one, tj_full(TJ_I64, TJ_0D, tj_i(2)), 1, 1, NULL)));
	assert_true(tj_item(tj_multi_margin_loss(zero, tj_full(TJ_I64, TJ_0D, tj_i(0)), 1, 1, NULL)) == 0);
	assert_true(tj_item(tj_multilabel_margin_loss(zero, tj_full(TJ_I64, TJ_0D, tj_i(0)), TJ_LOSS_SUM)) == 0);
	KNOWN(tj_multilabel_margin_loss(rows, ints(TJ_SHAPE(3, 4), (int64_t[]){ 3, 0, -1, 1, -1, 2, 2, 2, 1, 2, 3, 0 }), TJ_LOSS_NONE),
	      multilabel_margin);
	KNOWN(tj_multilabel_soft_margin_loss(rows, tj_cast(tj_gt(x(1, TJ_SHAPE(3, 4)), tj_f(0)), TJ_F64),
	                                     OPTS(.weight = w, .reduction = TJ_LOSS_NONE)),
	      multilabel_soft);
	kit_ok(c);
	tj_close(c);
}

/* ---- ctc ---- */
/* what is behind a length may be anything */
static const int64_t labels[] = { 1, 2, 2, 3, 4, 1, -7, 99, 3, 3, 3, 3 }, steps[] = { 8, 5, 6 }, counts[] = { 4, 2, 4 };
static void ctc(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_ctx *c = tj_ctx_current();
	tj_tensor *l = tj_constant(c, TJ_I64, TJ_SHAPE(3, 4), labels), *t = tj_constant(c, TJ_I64, TJ_SHAPE(3), steps),
		  *n = tj_constant(c, TJ_I64, TJ_SHAPE(3), counts);
	out[0] = tj_ctc_loss(tj_log_softmax(tj_mul(in[0], tj_f(2)), 2), l, t, n, 0, self != NULL, self ? TJ_LOSS_MEAN : TJ_LOSS_NONE);
}
static void sequences(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *in = x(0, TJ_SHAPE(8, 3, 5)), *y, *log = tj_log_softmax(tj_mul(in, tj_f(2)), 2);
	bool zero;
	ctc(&y, &in, NULL);
	KNOWN(y, ctc);
	ctc(&y, &in, &zero);
	KNOWN(y, ctc_zero);
	const int64_t other[] = { 1, 4, 3, 0, 1, 4, 3, 3, 1 }, long_[] = { 8, 8, 7 }, few[] = { 3, 0, 2 };
	KNOWN(tj_ctc_loss(log, tj_cast(ints(TJ_SHAPE(3, 3), other), TJ_I32), ints(TJ_SHAPE(3), long_), ints(TJ_SHAPE(3), few), 2, false,
	                  TJ_LOSS_SUM),
	      ctc_blank);
	/* targets one behind the other; the last has more labels than there are steps */
	const int64_t row[] = { 1, 4, 3, 3, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4 },
		      rows_[] = { 1, 4, 3, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4 }, many[] = { 3, 2, 9 };
	tj_tensor *apart =
		tj_ctc_loss(log, ints(TJ_SHAPE(3, 9), rows_), ints(TJ_SHAPE(3), long_), ints(TJ_SHAPE(3), many), 2, false, TJ_LOSS_NONE);
	y = tj_ctc_loss(log, ints(TJ_SHAPE(14), row), ints(TJ_SHAPE(3), long_), ints(TJ_SHAPE(3), many), 2, false, TJ_LOSS_NONE);
	assert_memory_equal(tj_data(y), tj_data(apart), 3 * sizeof(double));
	assert_true(isinf(((const double *)tj_data(y))[2]));
	/* no labels: all steps are blank */
	y = tj_ctc_loss(log, tj_zeros(TJ_I64, TJ_SHAPE(3, 0)), ints(TJ_SHAPE(3), steps), tj_zeros(TJ_I64, TJ_SHAPE(3)), 0, false, TJ_LOSS_NONE);
	double sum = 0;
	for (int i = 0; i < 8; i++) sum -= ((const double *)tj_data(log))[i * 15];
	assert_true(fabs(((const double *)tj_data(y))[0] - sum) < 1e-12);
	layer l = { .body = ctc, .self = &zero, .nin = 1, .in = { in }, .orders = 2 };
	layer_check(&l, "ctc_loss");
	LAYER_REFUSED(
		tj_ctc_loss(log, ints(TJ_SHAPE(2, 1), steps), ints(TJ_SHAPE(3), steps), ints(TJ_SHAPE(3), counts), 0, false, TJ_LOSS_SUM),
		SHAPE, "ctc_loss", "the targets are not [3,labels]");
	LAYER_REFUSED(tj_ctc_loss(log, ints(TJ_SHAPE(3, 4), labels), ints(TJ_SHAPE(3), steps), in, 0, false, TJ_LOSS_SUM), DTYPE,
	              "ctc_loss", "the dtype of the target lengths is f64");
	LAYER_REFUSED(
		tj_ctc_loss(log, ints(TJ_SHAPE(3, 4), labels), ints(TJ_SHAPE(3), steps), ints(TJ_SHAPE(3), counts), 5, false, TJ_LOSS_SUM),
		ARG, "ctc_loss", "blank is 5, there are 5 classes");
	kit_ok(c);
	tj_close(c);
}

/* ---- as layers: in[0] and in[1] of one shape [3,4], in[2] [3,4], in[3] [4] ---- */
enum {
	MSE,
	L1,
	SMOOTH,
	HUBER,
	BCE,
	BCE_LOGITS,
	KL,
	KL_LOG,
	POISSON,
	POISSON_PLAIN,
	GAUSSIAN,
	HINGE,
	SOFT,
	RANKING,
	COSINE,
	TRIPLET,
	TRIPLET_3,
	NLL,
	CE,
	CE_PLAIN,
	CE_PROBABLE,
	MULTI,
	MULTILABEL,
	MULTILABEL_SOFT,
	KINDS
};
static tj_tensor *loss(tj_tensor *a, tj_tensor *b, tj_tensor *third, tj_tensor *w, int kind)
{
	tj_ctx *c = tj_ctx_current();
	const tj_loss_opts all = {
		.size = sizeof all, .weight = tj_add(tj_square(w), tj_f(0.1)), .ignore = true, .ignore_index = 3, .label_smoothing = 0.1
	};
	tj_tensor *y = tj_constant(c, TJ_I64, TJ_SHAPE(3), (int64_t[]){ 2, 0, 3 }),
		  *sign = tj_constant(c, TJ_F32, TJ_SHAPE(3, 4), (float[]){ 1, -1, -1, 1, 1, 1, -1, -1, 1, -1, 1, -1 });
	switch (kind) {
	case MSE: return tj_mse_loss(a, b, TJ_LOSS_MEAN);
	case L1: return tj_l1_loss(a, b, TJ_LOSS_NONE);
	case SMOOTH: return tj_smooth_l1_loss(a, b, 0.5, TJ_LOSS_SUM);
	case HUBER: return tj_huber_loss(a, b, 0.5, TJ_LOSS_MEAN);
	case BCE: return tj_binary_cross_entropy(tj_sigmoid(a), tj_sigmoid(b), OPTS(.weight = w));
	case BCE_LOGITS: return tj_binary_cross_entropy_with_logits(a, b, OPTS(.weight = w, .pos_weight = third));
	case KL: return tj_kl_div(a, tj_sigmoid(b), false, TJ_LOSS_BATCHMEAN);
	case KL_LOG: return tj_kl_div(a, b, true, TJ_LOSS_NONE);
	case POISSON: return tj_poisson_nll_loss(a, tj_sigmoid(b), true, true, 1e-8, TJ_LOSS_MEAN);
	case POISSON_PLAIN: return tj_poisson_nll_loss(tj_square(a), b, false, false, 1e-1, TJ_LOSS_NONE);
	case GAUSSIAN: return tj_gaussian_nll_loss(a, b, tj_add(tj_square(third), tj_f(0.3)), true, 1e-6, TJ_LOSS_MEAN);
	case HINGE: return tj_hinge_embedding_loss(a, sign, 0.5, TJ_LOSS_MEAN);
	case SOFT: return tj_soft_margin_loss(a, sign, TJ_LOSS_MEAN);
	case RANKING: return tj_margin_ranking_loss(a, b, sign, 0.5, TJ_LOSS_MEAN);
	case COSINE: return tj_cosine_embedding_loss(a, b, tj_constant(c, TJ_F32, TJ_SHAPE(3), (float[]){ 1, -1, 1 }), 0.1, TJ_LOSS_NONE);
	case TRIPLET: return tj_triplet_margin_loss(a, b, third, 1, 2, true, TJ_LOSS_MEAN);
	case TRIPLET_3: return tj_triplet_margin_loss(a, b, third, 2, 3, false, TJ_LOSS_NONE);
	case NLL: return tj_nll_loss(a, y, OPTS(.weight = w));
	case CE: return tj_cross_entropy_loss(a, y, &all);
	case CE_PLAIN: return tj_cross_entropy_loss(a, y, NULL);
	case CE_PROBABLE: return tj_cross_entropy_loss(a, b, OPTS(.weight = w, .label_smoothing = 0.1));
	case MULTI: return tj_multi_margin_loss(a, y, 2, 0.8, OPTS(.weight = w));
	case MULTILABEL:
		return tj_multilabel_margin_loss(
			a, tj_constant(c, TJ_I64, TJ_SHAPE(3, 4), (int64_t[]){ 3, 0, -1, 1, -1, 2, 2, 2, 1, 2, 3, 0 }), TJ_LOSS_MEAN);
	default: return tj_multilabel_soft_margin_loss(a, b, OPTS(.weight = w));
	}
}
static void losses(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = loss(in[0], in[1], in[2], in[3], *(int *)self); }

static void gradients(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++)
		for (tj_dtype t = TJ_F64; t >= TJ_F16; t--) {
			char what[32];
			snprintf(what, sizeof what, "loss %d of %s", kind, tj_dtype_name(t));
			if (t != TJ_F64 && !strcmp(kit_backend, "eval")) continue;
			layer l = { .body = losses,
				    .self = &kind,
				    .nin = 4,
				    .in = { layer_tensor(c, t, TJ_SHAPE(3, 4), 0), layer_tensor(c, t, TJ_SHAPE(3, 4), 1),
				            layer_tensor(c, t, TJ_SHAPE(3, 4), 2), layer_tensor(c, t, TJ_SHAPE(4), 3) } };
			layer_check(&l, what);
			assert_int_equal(tj_dtype_of(loss(l.in[0], l.in[1], l.in[2], l.in[3], kind)), t);
		}
	kit_ok(c);
	tj_close(c);
}

/* Ends of the range: no NaN, and no gradient that is not finite. */
static void ends(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_binary_cross_entropy(in[0], in[1], OPTS(.reduction = TJ_LOSS_SUM));
	tj_grad(out + 1, out[0], TJ_LIST(in[0]), NULL);
	out[2] = tj_binary_cross_entropy_with_logits(in[2], in[1], OPTS(.reduction = TJ_LOSS_SUM));
	tj_grad(out + 3, out[2], TJ_LIST(in[2]), NULL);
}
static void special(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *y[4], *empty = tj_zeros(TJ_F32, TJ_SHAPE(0, 3));
	assert_int_equal(tj_call(kit_fn(c, "ends", ends, NULL, 3, 4), y,
	                         TJ_LIST(F32(c, 0, 1, 0, 1), F32(c, 0, 1, 1, 0), F32(c, -1e30f, 1e30f, -1000, 1000))),
	                 TJ_OK);
	assert_f32(y[0], 200);
	for (int i = 0; i < 4; i++) assert_true(isfinite(((const float *)tj_data(y[1]))[i]) && isfinite(((const float *)tj_data(y[3]))[i]));
	assert_f32(y[2], 2000);
	assert_f32(y[3], 0, 0, -1, 1);
	assert_f32(tj_mse_loss(empty, empty, TJ_LOSS_MEAN), NAN);
	assert_f32(tj_mse_loss(empty, empty, TJ_LOSS_SUM), 0);
	assert_f32(tj_mse_loss(F32(c, 1, 3), tj_f(1), TJ_LOSS_NONE), 0, 4);
	assert_f32(tj_cross_entropy_loss(tj_zeros(TJ_F32, TJ_SHAPE(1, 3)), ints(TJ_SHAPE(1), (int64_t[]){ 1 }),
	                                 OPTS(.ignore = true, .ignore_index = 1)),
	           NAN); /* the mean of nothing */
	layer_near(tj_triplet_margin_loss(F32(c, 1, 2), F32(c, 1, 2), F32(c, 4, 6), 5, INFINITY, false, TJ_LOSS_MEAN), 1,
	           (double[]){ 1.000002 }, 1e-6, "triplet");
	kit_ok(c);
	tj_close(c);
}

/* Of integers, as PyTorch has them: in f32. */
static void of_integers(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = tj_cast(ints(TJ_SHAPE(3), (int64_t[]){ 3, -2, 5 }), TJ_I16), *b = ints(TJ_SHAPE(3), (int64_t[]){ 1, 4, 5 }),
		  *y = ints(TJ_SHAPE(3), (int64_t[]){ 1, -1, 1 });
	tj_tensor *rows = ints(TJ_SHAPE(2, 3), (int64_t[]){ 3, -2, 5, 1, 1, 2 }), *more = tj_add(rows, tj_i(1)), *twice = tj_mul(rows, tj_i(2));
	assert_int_equal(tj_dtype_of(tj_margin_ranking_loss(a, b, y, 0.5, TJ_LOSS_MEAN)), TJ_F32);
	layer_near(tj_margin_ranking_loss(a, b, y, 0.5, TJ_LOSS_NONE), 3, (double[]){ 0, 0, 0.5 }, 1e-6, "margin_ranking");
	layer_near(tj_poisson_nll_loss(a, b, true, false, 1e-8, TJ_LOSS_NONE), 3,
	           (double[]){ 17.08553695678711, 8.135334968566895, 123.41316223144531 }, 1e-6, "poisson_nll");
	layer_near(tj_triplet_margin_loss(rows, more, twice, 1, 2, false, TJ_LOSS_NONE), 2, (double[]){ 0, 0.2825608253479004 }, 1e-6,
	           "triplet_margin");
	layer_near(tj_cosine_embedding_loss(rows, more, ints(TJ_SHAPE(2), (int64_t[]){ 1, -1 }), 0.3, TJ_LOSS_NONE), 2,
	           (double[]){ 0.01955568790435791, 0.6901475787162781 }, 1e-6, "cosine_embedding");
	layer_near(tj_cosine_embedding_loss(tj_gt(rows, tj_i(0)), tj_gt(more, tj_i(0)), tj_gt(tj_slice(a, 0, 0, 2, 1), tj_i(0)), 0.3,
	                                    TJ_LOSS_SUM),
	           1, (double[]){ 0 }, 1e-6, "cosine_embedding");
	kit_ok(c);
	tj_close(c);
}

static void out_of_range(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = *(bool *)self ? tj_nll_loss(in[0], in[1], NULL) : tj_cross_entropy_loss(in[0], in[1], OPTS(.label_smoothing = 0.1));
}
static void faults(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < 2; kind++) {
		bool nll = kind;
		tj_fn *f = kit_fn(c, "out_of_range", out_of_range, &nll, 2, 1);
		tj_tensor *y = NULL, *a = tj_zeros(TJ_F32, TJ_SHAPE(2, 3));
		for (int64_t t = -1; t <= 3; t += 4) {
			assert_int_equal(kit_call(c, f, &y, TJ_LIST(a, ints(TJ_SHAPE(2), (int64_t[]){ 1, t }))), TJ_ERR_INDEX);
			kit_error(c, TJ_ERR_INDEX, "no class; the number of classes is 3");
			assert_string_equal(tj_last_error(c)->op, nll ? "nll_loss" : "cross_entropy_loss");
			assert_non_null(strstr(tj_last_error(c)->hint, ".ignore"));
		}
		assert_int_equal(tj_call(f, &y, TJ_LIST(a, ints(TJ_SHAPE(2), (int64_t[]){ 1, 2 }))), TJ_OK);
	}
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(2, 3)), *b = x(0, TJ_SHAPE(2, 1)), *y = ints(TJ_SHAPE(2), (int64_t[]){ 0, 1 }), *w = x(0, TJ_SHAPE(2));
	LAYER_REFUSED(tj_mse_loss(a, b, TJ_LOSS_MEAN), SHAPE, "mse_loss", "x and the target have different shapes");
	LAYER_REFUSED(tj_mse_loss(a, NULL, TJ_LOSS_MEAN), ARG, "mse_loss", "the target is NULL");
	LAYER_REFUSED(tj_l1_loss(y, y, TJ_LOSS_MEAN), DTYPE, "l1_loss", "x is i64, no float");
	LAYER_REFUSED(tj_l1_loss(a, a, (tj_loss_reduction)9), ARG, "l1_loss", "there is no reduction 9");
	LAYER_REFUSED(tj_smooth_l1_loss(a, a, -1, TJ_LOSS_MEAN), ARG, "smooth_l1_loss", "beta is -1");
	LAYER_REFUSED(tj_huber_loss(a, a, 0, TJ_LOSS_MEAN), ARG, "huber_loss", "delta is 0");
	LAYER_REFUSED(tj_gaussian_nll_loss(a, a, x(0, TJ_SHAPE(3, 3)), false, 1e-6, TJ_LOSS_MEAN), SHAPE, "gaussian_nll_loss",
	              "the variance does not broadcast");
	LAYER_REFUSED(tj_margin_ranking_loss(a, b, a, 0, TJ_LOSS_MEAN), SHAPE, "margin_ranking_loss", "different shapes");
	LAYER_REFUSED(tj_cosine_embedding_loss(a, a, b, 0, TJ_LOSS_MEAN), SHAPE, "cosine_embedding_loss", "the target has not the shape");
	LAYER_REFUSED(tj_cosine_embedding_loss(a, b, y, 0, TJ_LOSS_MEAN), SHAPE, "cosine_embedding_loss", "the operands have different shapes");
	LAYER_REFUSED(tj_triplet_margin_loss(a, a, a, 1, 0.5, false, TJ_LOSS_MEAN), ARG, "triplet_margin_loss", "p is 0.5");
	LAYER_REFUSED(tj_nll_loss(a, a, NULL), DTYPE, "nll_loss", "the dtype of the target is f64");
	LAYER_REFUSED(tj_nll_loss(a, ints(TJ_SHAPE(3), (int64_t[]){ 0, 1, 1 }), NULL), SHAPE, "nll_loss", "the target has not the shape");
	LAYER_REFUSED(tj_nll_loss(a, y, OPTS(.weight = w)), SHAPE, "nll_loss", "the weight is not [3]");
	LAYER_REFUSED(tj_nll_loss(a, y, OPTS(.label_smoothing = 0.1)), ARG, "nll_loss", ".label_smoothing is set");
	LAYER_REFUSED(tj_nll_loss(a, y, OPTS(.reduction = TJ_LOSS_BATCHMEAN)), ARG, "nll_loss", "BATCHMEAN");
	LAYER_REFUSED(tj_cross_entropy_loss(a, y, OPTS(.label_smoothing = 1.5)), ARG, "cross_entropy_loss", ".label_smoothing is 1.5");
	LAYER_REFUSED(tj_cross_entropy_loss(a, b, NULL), SHAPE, "cross_entropy_loss", "a float target has not the shape of x");
	LAYER_REFUSED(tj_cross_entropy_loss(a, a, OPTS(.ignore = true)), SHAPE, "cross_entropy_loss", ".ignore is for targets that are classes");
	LAYER_REFUSED(tj_cross_entropy_loss(tj_zeros(TJ_F32, TJ_SHAPE(2, 0)), y, NULL), SHAPE, "cross_entropy_loss", "x has no classes");
	LAYER_REFUSED(tj_multi_margin_loss(a, y, 3, 1, NULL), ARG, "multi_margin_loss", "p is 3");
	LAYER_REFUSED(tj_multilabel_margin_loss(a, y, TJ_LOSS_MEAN), SHAPE, "multilabel_margin_loss", "same one or two axes");
	LAYER_REFUSED(tj_multilabel_soft_margin_loss(a, a, OPTS(.pos_weight = w)), ARG, "multilabel_soft_margin_loss", ".pos_weight is set");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values),      cmocka_unit_test(classes), cmocka_unit_test(sequences),
		                            cmocka_unit_test(gradients),   cmocka_unit_test(special), cmocka_unit_test(faults),
		                            cmocka_unit_test(of_integers), cmocka_unit_test(errors) };
	KIT_RUN(tests);
}
