/* SPDX-License-Identifier: MIT */
/* Mixed precision: with .autocast results are those of a function that casts by hand, bit for bit. */
#include "test/kit.h"

#include "ir/ir.h"
#include "runtime/exec.h"

static tj_fn *with(tj_ctx *c, tj_body *body, void *self, int nin, int nout, tj_dtype autocast)
{
	return tj_compile(c, body, self, TJ_OPTS(tj_compile_opts, .name = "mixed", .nin = nin, .nout = nout, .autocast = autocast));
}

static void assert_same(tj_tensor *a, tj_tensor *b)
{
	const size_t bytes = (size_t)tj_numel(a) * tj_dtype_size(tj_dtype_of(a));
	assert_int_equal(tj_dtype_of(a), tj_dtype_of(b));
	assert_int_equal(tj_numel(a), tj_numel(b));
	assert_memory_equal(tj_data(a), tj_data(b), bytes);
}

/* ---- the lists ---- */
static bool is_one_of(const char *name, const char *const *list)
{
	while (*list && strcmp(*list, name)) list++;
	return *list;
}

static void lists(void **s)
{
	(void)s;
	static const char *const low[] = { "matmul", "conv", "conv_transpose", "prelu", NULL }, *const widest[] = {
		"scatter_add", "scatter", "scatter_prod", "scatter_amax", "scatter_amin", NULL
	};
	static const char *const high[] = { "pow",      "reciprocal",  "rsqrt",      "exp",      "log",           "expm1",
		                            "log1p",    "sum",         "prod",       "mean",     "logsumexp",     "var",
		                            "softmax",  "log_softmax", "layer_norm", "rms_norm", "cross_entropy", "log2",
		                            "log10",    "tan",         "asin",       "acos",     "sinh",          "cosh",
		                            "softplus", "softmin",     "normalize",  "cumsum",   "cumprod",       "logcumsumexp",
		                            "erfinv",   "dft",         "inverse_dft", "rdft",    "inverse_rdft",  "cholesky",
		                            "solve_lower", "lu_packed",  "qr_packed", "eigh_packed", "svd_packed", NULL };
	for (int op = 0; op < IR_OPS; op++) {
		const int want = is_one_of(ir_ops[op].name, low)      ? IR_LOW
		                 : is_one_of(ir_ops[op].name, high)   ? IR_HIGH
		                 : is_one_of(ir_ops[op].name, widest) ? IR_WIDEST
		                                                      : 0;
		if ((ir_ops[op].flags & (IR_LOW | IR_HIGH | IR_WIDEST)) != want) fail_msg("%s is in another class", ir_ops[op].name);
	}
}

/* An op of two operands [2,2], in the dtypes that it gets. */
enum { OPS = 30, PAIRS = 5 };
static const tj_dtype given[PAIRS][2] = {
	{ TJ_F32, TJ_F32 }, { TJ_BF16, TJ_BF16 }, { TJ_F16, TJ_F32 }, { TJ_F16, TJ_BF16 }, { TJ_F64, TJ_F64 }
};
static tj_tensor *op_of(int i, tj_tensor *a, tj_tensor *b, tj_tensor *k)
{
	switch (i) {
	case 0: return tj_matmul(a, b);
	case 1: return tj_pow(a, tj_f(2));
	case 2: return tj_reciprocal(a);
	case 3: return tj_rsqrt(a);
	case 4: return tj_exp(a);
	case 5: return tj_log(a);
	case 6: return tj_expm1(a);
	case 7: return tj_log1p(a);
	case 8: return tj_sum(a, TJ_AXES(0), false);
	case 9: return tj_prod(a, TJ_ALL, false);
	case 10: return tj_mean(a, TJ_AXES(1), true);
	case 11: return tj_logsumexp(a, TJ_ALL, false);
	case 12: return tj_var(a, TJ_AXES(0), 1, false);
	case 13: return tj_softmax(a, 1);
	case 14: return tj_log_softmax(a, 0);
	case 15: return tj_layer_norm(a, tj_reshape(tj_slice(b, 0, 0, 1, 1), TJ_SHAPE(2)), tj_reshape(tj_slice(b, 0, 1, 2, 1), TJ_SHAPE(2)), 1e-5);
	case 16: return tj_rms_norm(a, tj_reshape(tj_slice(b, 0, 0, 1, 1), TJ_SHAPE(2)), 1e-5);
	case 17: return tj_cross_entropy(a, tj_reshape(tj_slice(k, 0, 0, 1, 1), TJ_SHAPE(2)));
	case 18: return tj_add(a, b);
	case 19: return tj_where(tj_lt(a, b), a, b);
	case 20: return tj_cat(TJ_LIST(a, b), 0);
	case 21: return tj_stack(TJ_LIST(a, b), 0);
	case 22: return tj_relu(a);
	case 23: return tj_gelu(a);
	case 24: return tj_tanh(a);
	case 25: return tj_amax(a, TJ_ALL, false);
	case 26: return tj_transpose(a, 0, 1);
	case 27: return tj_max_with_indices(a, 1, false, NULL);
	case 28: return tj_prelu(a, tj_reshape(tj_slice(b, 0, 0, 1, 1), TJ_SHAPE(2)));
	default: return tj_scatter_add(a, 0, k, b);
	}
}

static void all_ops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	for (int i = 0; i < OPS; i++) out[i] = op_of(i, in[0], in[1], in[2]);
}

static bool is_low(int i) { return i == 0 || i == 28; }
static bool is_high(int i) { return i >= 1 && i <= 17; }

typedef struct by_hand { tj_dtype low; } by_hand;
static tj_dtype target(int i, tj_dtype low, tj_tensor *a, tj_tensor *b)
{
	if (tj_dtype_of(a) == TJ_F64) return TJ_BOOL;
	if (i == OPS - 1) return tj_dtype_of(a) == tj_dtype_of(b) ? TJ_BOOL : TJ_F32;
	return is_low(i) ? low : is_high(i) ? TJ_F32 : TJ_BOOL;
}

static void cast_by_hand(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const by_hand *h = self;
	for (int i = 0; i < OPS; i++) {
		const tj_dtype to = target(i, h->low, in[0], in[1]);
		out[i] = to == TJ_BOOL ? op_of(i, in[0], in[1], in[2]) : op_of(i, tj_cast(in[0], to), tj_cast(in[1], to), in[2]);
	}
}

static void classes(void **s)
{
	(void)s;
	static const tj_dtype low[] = { TJ_BF16, TJ_F16 };
	for (int l = 0; l < 2; l++)
		for (int p = 0; p < PAIRS; p++) {
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
			tj_tensor *a[OPS], *b[OPS], *k = tj_from_data(c, TJ_I64, TJ_SHAPE(2, 2), ((int64_t[]){ 1, 0, 0, 1 }));
			tj_tensor *x = tj_cast(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), ((double[]){ 0.1, 1.7, 2.3, 0.9 })), given[p][0]);
			tj_tensor *y = tj_cast(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), ((double[]){ 1.1, -0.3, 0.7, 3.3 })), given[p][1]);
			by_hand h = { low[l] };
			tj_fn *f = with(c, all_ops, NULL, 3, OPS, low[l]), *g = with(c, cast_by_hand, &h, 3, OPS, TJ_BOOL);
			for (int call = 0; call < 2; call++) {
				assert_int_equal(tj_call(f, a, TJ_LIST(x, y, k)), TJ_OK);
				assert_int_equal(tj_call(g, b, TJ_LIST(x, y, k)), TJ_OK);
				for (int i = 0; i < OPS; i++) assert_same(a[i], b[i]);
			}
			kit_ok(c);
			tj_close(c);
		}
}

/* ---- losses, norms and distances that are made of ops: with a narrow operand in a function with .autocast they are what they are of it in
 * f32 ---- */
enum { MADE = 30 };
static tj_tensor *made_of(int i, tj_tensor *a, tj_tensor *b, tj_tensor *k)
{
	tj_tensor *p = tj_sigmoid(b), *ones = tj_sub(tj_cast(tj_mul(k, tj_i(2)), TJ_F32), tj_f(1)),
		  *row = tj_reshape(tj_slice(k, 0, 0, 1, 1), TJ_SHAPE(2)), *by_row = tj_reshape(tj_slice(ones, 0, 0, 1, 1), TJ_SHAPE(2));
	switch (i) {
	case 0: return tj_mse_loss(a, b, TJ_LOSS_MEAN);
	case 1: return tj_l1_loss(a, b, TJ_LOSS_SUM);
	case 2: return tj_smooth_l1_loss(a, b, 1, TJ_LOSS_NONE);
	case 3: return tj_huber_loss(a, b, 0.5, TJ_LOSS_MEAN);
	case 4: return tj_binary_cross_entropy(tj_clamp(a, tj_f(0.25), tj_f(0.75)), p, NULL);
	case 5: return tj_binary_cross_entropy_with_logits(a, p, NULL);
	case 6: return tj_kl_div(a, p, false, TJ_LOSS_BATCHMEAN);
	case 7: return tj_poisson_nll_loss(a, b, true, false, 1e-8, TJ_LOSS_MEAN);
	case 8: return tj_gaussian_nll_loss(a, b, p, false, 1e-6, TJ_LOSS_MEAN);
	case 9: return tj_hinge_embedding_loss(a, ones, 1, TJ_LOSS_NONE);
	case 10: return tj_soft_margin_loss(a, ones, TJ_LOSS_MEAN);
	case 11: return tj_margin_ranking_loss(a, b, ones, 0.5, TJ_LOSS_MEAN);
	case 12: return tj_cosine_embedding_loss(a, b, by_row, 0.1, TJ_LOSS_MEAN);
	case 13: return tj_triplet_margin_loss(a, b, p, 1, 2, false, TJ_LOSS_MEAN);
	case 14: return tj_nll_loss(a, row, NULL);
	case 15: return tj_cross_entropy_loss(a, row, NULL);
	case 16: return tj_multi_margin_loss(a, row, 1, 1, NULL);
	case 17: return tj_multilabel_margin_loss(a, k, TJ_LOSS_MEAN);
	case 18: return tj_multilabel_soft_margin_loss(a, tj_cast(k, TJ_F32), NULL);
	case 19:
		return tj_ctc_loss(tj_reshape(a, TJ_SHAPE(2, 1, 2)), tj_full(TJ_I64, TJ_SHAPE(1, 1), tj_i(1)),
		                   tj_full(TJ_I64, TJ_SHAPE(1), tj_i(2)), tj_full(TJ_I64, TJ_SHAPE(1), tj_i(1)), 0, false, TJ_LOSS_MEAN);
	case 20: return tj_group_norm(a, 1, NULL, NULL, 1e-5);
	case 21: return tj_layer_norm_over(a, TJ_SHAPE(2), NULL, NULL, 1e-5);
	case 22: return tj_rms_norm_over(a, TJ_SHAPE(2), NULL, 1e-5);
	case 23: return tj_norm(a, 2, TJ_ALL, false);
	case 24: return tj_dist(a, b, 2);
	case 25: return tj_pairwise_distance(a, b, 2, 1e-6, false);
	case 26: return tj_renorm(a, 2, 0, 0.5);
	case 27: return tj_cdist(a, b, 2, TJ_CDIST_EXACT);
	case 28: return tj_pdist(a, 1);
	default: return tj_cosine_similarity(a, b, 1, 1e-8);
	}
}

/* self: the dtype that the first operand is cast to before. */
static void all_made(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_dtype to = *(const tj_dtype *)self;
	for (int i = 0; i < MADE; i++) out[i] = made_of(i, tj_cast(in[0], to), in[1], in[2]);
}

static void asks_dtype(tj_tensor **out, tj_tensor *const *in, void *self)
{
	*(tj_dtype *)self = tj_autocast_dtype(), out[0] = tj_neg(in[0]);
}
static void asks_nested(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_fn **f = self;
	for (int i = 0; i < 3; i++) out[i] = tj_call1(f[i], TJ_LIST(in[0]));
}

static void made_of_ops(void **s)
{
	static const tj_dtype low[] = { TJ_BF16, TJ_F16 }, wide = TJ_F32;
	(void)s;
	for (int l = 0; l < 2; l++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		tj_tensor *a[MADE], *b[MADE], *n[MADE], *k = tj_from_data(c, TJ_I64, TJ_SHAPE(2, 2), ((int64_t[]){ 1, 0, 0, 1 }));
		tj_tensor *x = tj_cast(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 0.1f, 1.7f, 2.3f, 0.9f })), low[l]);
		tj_tensor *y = tj_cast(tj_cast(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1.1f, 0.3f, 0.7f, 3.3f })), low[l]), TJ_F32);
		assert_int_equal(tj_call(with(c, all_made, (void *)(uintptr_t)&low[l], 3, MADE, low[l]), a, TJ_LIST(x, y, k)), TJ_OK);
		assert_int_equal(tj_call(with(c, all_made, (void *)(uintptr_t)&wide, 3, MADE, TJ_BOOL), b, TJ_LIST(x, y, k)), TJ_OK);
		assert_int_equal(tj_call(with(c, all_made, (void *)(uintptr_t)&low[l], 3, MADE, TJ_BOOL), n, TJ_LIST(x, y, k)), TJ_OK);
		for (int i = 0; i < MADE; i++) {
			if (tj_dtype_of(a[i]) != TJ_F32) fail_msg("function %d gives %s", i, tj_dtype_name(tj_dtype_of(a[i])));
			assert_same(a[i], b[i]);
			if (i != 11 && i != 24 && i != 25 && i != 27 && i != 29 && i != 13 && tj_dtype_of(n[i]) != low[l])
				fail_msg("without .autocast function %d gives %s", i, tj_dtype_name(tj_dtype_of(n[i])));
		}
		tj_dtype got[4] = { 0 };
		tj_fn *f[3] = { with(c, asks_dtype, &got[0], 1, 1, TJ_BOOL), with(c, asks_dtype, &got[1], 1, 1, TJ_F32),
			        with(c, asks_dtype, &got[2], 1, 1, low[!l]) };
		assert_int_equal(tj_call(with(c, asks_nested, f, 1, 3, low[l]), a, TJ_LIST(y)), TJ_OK);
		assert_true(got[0] == low[l] && got[1] == TJ_F32 && got[2] == low[!l]);
		tj_call1(with(c, asks_dtype, &got[3], 1, 1, TJ_BOOL), TJ_LIST(y));
		assert_true(got[3] == TJ_F32 && tj_autocast_dtype() == TJ_F32);
		kit_ok(c);
		tj_close(c);
	}
	assert_int_equal(tj_autocast_dtype(), TJ_F32);
}

/* The words of the manual, without the model above. */
static void dtypes_in_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_dtype low = *(tj_dtype *)self;
	tj_tensor *y = tj_matmul(in[0], in[0]), *wide = tj_cast(in[0], TJ_F64);
	assert_int_equal(tj_dtype_of(y), low);
	assert_int_equal(tj_dtype_of(tj_relu(y)), low);
	assert_int_equal(tj_dtype_of(tj_mul(y, tj_f(2))), low);
	assert_int_equal(tj_dtype_of(tj_add(y, in[0])), TJ_F32);
	assert_int_equal(tj_dtype_of(tj_softmax(y, 1)), TJ_F32);
	assert_int_equal(tj_dtype_of(tj_sum(y, TJ_ALL, false)), TJ_F32);
	assert_int_equal(tj_dtype_of(tj_amax(y, TJ_ALL, false)), low);
	assert_int_equal(tj_dtype_of(tj_exp(wide)), TJ_F64);
	assert_int_equal(tj_dtype_of(tj_matmul(wide, in[0])), TJ_F64);
	out[1] = tj_matmul(in[0], wide);
	assert_int_equal(tj_dtype_of(tj_sum(tj_cast(y, TJ_I32), TJ_ALL, false)), TJ_I64);
	out[0] = y;
}

static void seen_in_body(void **s)
{
	(void)s;
	for (int l = 0; l < 2; l++) {
		tj_ctx *c = kit_open();
		tj_dtype low = l ? TJ_F16 : TJ_BF16;
		tj_fn *f = with(c, dtypes_in_body, &low, 1, 2, low);
		tj_tensor *out[2], *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 + 0x1p-20f }));
		assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
		assert_int_equal(tj_dtype_of(out[0]), low);
		assert_true(((const double *)tj_data(out[1]))[3] == 22 + 0x1p-17 + 0x1p-40); /* beside f64 nothing is rounded */
		assert_int_equal(tj_dtype_of(tj_matmul(x, x)), TJ_F32); /* outside of functions nothing is cast */
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- options ---- */
static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[0]); }

static void refused(void **s)
{
	(void)s;
	static const int bad[] = { TJ_I32, TJ_U8, TJ_F64, TJ_DTYPE_COUNT, -1 };
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_null(with(c, product, NULL, 1, 1, (tj_dtype)bad[i]));
		kit_error(c, TJ_ERR_ARG, ".autocast is not TJ_BF16, TJ_F16 or TJ_F32");
	}
	tj_close(c);
}

/* ---- nested calls ---- */
typedef struct inner { tj_fn *unset, *off, *f16; } inner;
static void calls_all(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const inner *f = self;
	out[0] = tj_call1(f->unset, TJ_LIST(in[0]));
	out[1] = tj_call1(f->off, TJ_LIST(in[0]));
	out[2] = tj_call1(f->f16, TJ_LIST(in[0]));
	out[3] = tj_matmul(in[0], in[0]);
}

static void nested(void **s)
{
	(void)s;
	for (int outer = 0; outer < 2; outer++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		inner in = { with(c, product, NULL, 1, 1, TJ_BOOL), with(c, product, NULL, 1, 1, TJ_F32), with(c, product, NULL, 1, 1, TJ_F16) };
		tj_fn *f = with(c, calls_all, &in, 1, 4, outer ? TJ_BF16 : TJ_BOOL);
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 + 0x1p-9f })), *out[4];
		for (int call = 0; call < 3; call++) {
			assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
			assert_int_equal(tj_dtype_of(out[0]), outer ? TJ_BF16 : TJ_F32); /* inherited */
			assert_int_equal(tj_dtype_of(out[1]), TJ_F32);
			assert_int_equal(tj_dtype_of(out[2]), TJ_F16);
			assert_int_equal(tj_dtype_of(out[3]), outer ? TJ_BF16 : TJ_F32);
			assert_f32(out[1], 7, 10 + 0x1p-8f, 15 + 3 * 0x1p-9f, 22 + 0x1p-6f + 0x1p-18f);
		}
		assert_int_equal(tj_dtype_of(tj_call1(in.unset, TJ_LIST(x))), TJ_F32); /* called by itself it has none */
		assert_int_equal(kit_stats(f).recordings, 1);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- a trace holds for its setting ---- */
static void calls_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_cast(tj_call1(*(tj_fn **)self, TJ_LIST(in[0])), TJ_F32);
}

static void matched(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *kind[3] = { with(c, product, NULL, 1, 1, TJ_F32), with(c, product, NULL, 1, 1, TJ_BF16),
		           with(c, product, NULL, 1, 1, TJ_F16) },
	      *now = NULL;
	tj_fn *f = with(c, calls_one, &now, 1, 1, TJ_BOOL);
	const float v = 1 + 0x1p-9f, square = 1 + 0x1p-8f + 0x1p-18f;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1), &v);
	for (int call = 0; call < 6; call++) {
		now = kind[call % 3];
		assert_f32(tj_call1(f, TJ_LIST(x)), call % 3 == 0 ? square : call % 3 == 1 ? 1 : 1 + 0x1p-8f);
	}
	kit_ok(c);
	assert_int_equal(kit_stats(f).recordings, 3);
	char *told = kit_explain(f);
	assert_non_null(strstr(told, "autocast differs: expected none, found TJ_BF16"));
	assert_non_null(strstr(told, "give both functions the same"));
	assert_null(strstr(told, "autocast: "));
	free(told);
	told = kit_explain(kind[1]);
	assert_non_null(strstr(told, "autocast: TJ_BF16\n"));
	free(told);
	tj_close(c);
}

static bool count_guard(void *self, const tj_guard *g)
{
	int *n = self;
	if (strcmp(g->kind, "autocast")) return true;
	n[0]++;
	n[1] += strstr(g->text, "the autocast of a nested call: TJ_BF16") && !g->droppable && g->event >= 0;
	return false; /* asks for it to be dropped: it is kept */
}

static void filtered(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *now = with(c, product, NULL, 1, 1, TJ_BF16);
	int seen[2] = { 0 };
	tj_fn *f = tj_compile(c, calls_one, &now,
	                      TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .guard_filter = count_guard, .guard_filter_self = seen));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1), ((float[]){ 2 }));
	assert_f32(tj_call1(f, TJ_LIST(x)), 4);
	assert_int_equal(seen[0], 1);
	assert_int_equal(seen[1], 1);
	kit_ok(c);
	tj_close(c);
}

/* A nested call that fails gives the setting back. */
static void bad_product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_matmul(in[0], tj_reshape(in[0], TJ_SHAPE(1, 4)));
}
static void calls_bad(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r;
	tj_call(*(tj_fn **)self, &r, TJ_LIST(in[0]));
	tj_check(tj_ctx_current());
	out[0] = tj_matmul(in[0], in[0]);
	assert_int_equal(tj_dtype_of(out[0]), TJ_F32);
}

static void given_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *bad = with(c, bad_product, NULL, 1, 1, TJ_BF16), *f = with(c, calls_bad, &bad, 1, 1, TJ_BOOL);
	tj_tensor *r, *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 }));
	tj_call(f, &r, TJ_LIST(x));
	tj_check(c);
	assert_int_not_equal(tj_call(bad, &r, TJ_LIST(x)), TJ_OK);
	kit_error(c, TJ_ERR_SHAPE, "bf16[2,2]");
	assert_int_equal(tj_dtype_of(tj_matmul(x, x)), TJ_F32);
	tj_close(c);
}

/* ---- control flow ---- */
static void then_(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[0]); }
static void else_(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], tj_transpose(in[0], 0, 1)); }
static void branches(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_cond(&out[0], 1, tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), then_, else_, TJ_LIST(in[0]), NULL);
}
static void go(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(tj_amax(in[0], TJ_ALL, false), tj_f(100)); }
static void square(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], in[0]);
	if (self) out[0] = tj_cast(out[0], TJ_F32);
}
static void turns(tj_tensor **out, tj_tensor *const *in, void *self) { tj_while(&out[0], go, square, TJ_LIST(in[0]), self, NULL); }

static void flow(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
	tj_fn *f = with(c, branches, NULL, 1, 1, TJ_BF16), *g = with(c, turns, c, 1, 1, TJ_BF16), *bad = with(c, turns, NULL, 1, 1, TJ_BF16);
	tj_tensor *r, *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 + 0x1p-9f }));
	for (int call = 0; call < 2; call++) {
		assert_int_equal(tj_dtype_of(r = tj_call1(f, TJ_LIST(x))), TJ_BF16);
		assert_f32(tj_cast(r, TJ_F32), 7, 10, 15, 22);
		assert_f32(tj_call1(g, TJ_LIST(x)), 199, 290, 436, 632); /* rounded to 8 bits */
	}
	kit_ok(c);
	tj_call1(bad, TJ_LIST(x)); /* the carry would change its dtype */
	assert_int_equal(tj_check(c), TJ_ERR_DTYPE);
	tj_close(c);
}

/* ---- casts are shared ---- */
static void uses_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = *(tj_tensor **)self, *loss = tj_sum(tj_square(tj_matmul(tj_relu(tj_matmul(in[0], w)), w)), TJ_ALL, false);
	out[0] = loss;
	tj_grad(&out[1], loss, TJ_LIST(w), NULL);
}

static int count(const char *text, const char *part)
{
	int n = 0;
	for (; (text = strstr(text, part)) != NULL; text++) n++;
	return n;
}

static void cast_once(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(3, 3)), *out[2];
	tj_fn *f = with(c, uses_twice, &w, 1, 2, TJ_BF16);
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(2, 3), tj_f(1));
	assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
	assert_int_equal(tj_dtype_of(out[1]), TJ_F32);
	char *graph = kit_dump(f, TJ_DUMP_GRAPH);
	assert_int_equal(count(graph, "cast bf16[3,3]"), 1); /* two products and their gradients share it */
	free(graph);
	kit_ok(c);
	tj_close(c);
}

/* ---- gradients ---- */
static tj_tensor *net(tj_tensor *x, tj_tensor *w, tj_tensor *b, tj_dtype low)
{
	if (low == TJ_BOOL) return tj_mean(tj_square(tj_softmax(tj_add(tj_matmul(x, w), b), 1)), TJ_ALL, false);
	return tj_mean(tj_square(tj_softmax(tj_add(tj_matmul(tj_cast(x, low), tj_cast(w, low)), b), 1)), TJ_ALL, false);
}

static void gradient(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = net(in[0], in[1], in[2], self ? *(tj_dtype *)self : TJ_BOOL);
	tj_grad(out + 1, out[0], TJ_LIST(in[0], in[1], in[2]), NULL);
}

static void gradients(void **s)
{
	(void)s;
	for (int l = 0; l < 2; l++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		tj_dtype low = l ? TJ_F16 : TJ_BF16;
		tj_fn *f = with(c, gradient, NULL, 3, 4, low), *hand = with(c, gradient, &low, 3, 4, TJ_F32);
		tj_tensor *a[4], *b[4], *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 0.1f, 1.7f, 2.3f, 0.9f }));
		tj_tensor *w = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1.1f, -0.3f, 0.7f, 0.2f })), *bias = F32(c, 0.3f, -0.1f);
		assert_int_equal(tj_call(f, a, TJ_LIST(x, w, bias)), TJ_OK);
		assert_int_equal(tj_call(hand, b, TJ_LIST(x, w, bias)), TJ_OK);
		for (int i = 0; i < 4; i++) {
			assert_int_equal(tj_dtype_of(a[i]), TJ_F32);
			assert_same(a[i], b[i]);
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- a note when nothing is gained ---- */
static void keep_note(void *self, const tj_reason *n)
{
	if (strcmp(n->kind, "autocast")) return;
	char *text = self;
	assert_int_equal(*text, 0); /* told once */
	snprintf(text, 256, "%s", n->text);
}

static void told(void **s)
{
	(void)s;
	const bool compiles = !strcmp(kit_backend, "llvm") && !kit_elsewhere(), has_pairs = rt_bf16_pairs();
	static const tj_dtype low[] = { TJ_F32, TJ_F16, TJ_BF16, TJ_BF16 };
	const char *why[] = { "", "f16 convert their operands to f32 as they are read: kernels multiply f32",
		              rt_bf16_in_order() ? ""
		              : has_pairs        ? "TJ_FAST multiplies two bf16"
		                                 : "this CPU has no vdpbf16ps",
		              has_pairs ? "" : "this CPU has no vdpbf16ps" };
	for (int i = 0; i < 4; i++) {
		tj_ctx *c = kit_open();
		char text[256] = "";
		tj_fn *f = tj_compile(c, product, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .autocast = low[i],
		                              .numerics = i == 3 ? TJ_FAST : TJ_STRICT, .on_note = keep_note, .on_note_self = text));
		for (int n = 2; n < 5; n++) tj_call1(f, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(n, n), tj_f(1))));
		kit_ok(c);
		if (!strstr(text, compiles ? why[i] : "") || !*text != (!compiles || !*why[i])) fail_msg("\"%s\" is not in \"%s\"", why[i], text);
		char *told = kit_explain(f);
		assert_int_equal(strstr(told, "convert their operands") != NULL, *text != 0);
		free(told);
		tj_close(c);
	}
}

/* ---- direct mode, frozen weights ---- */
static void linear(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_sum(tj_matmul(in[0], *(tj_tensor **)self), TJ_AXES(1), false);
}

static void direct(void **s)
{
	(void)s;
	for (int frozen = 0; frozen < 2; frozen++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 3));
		tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(2, 2)), *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1 + 0x1p-9f, 2, 3, 4 }));
		tj_vars vars = TJ_VARS(&w);
		tj_fn *f = tj_compile(c, linear, &w,
		                      TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .mode = TJ_DIRECT, .state = frozen ? NULL : vars,
		                              .freeze = frozen ? vars : NULL, .autocast = TJ_BF16));
		tj_write(w, ((float[]){ 1, 0, 0, 1 }), 16);
		for (int call = 0; call < 6; call++) assert_f32(tj_call1(f, TJ_LIST(x)), 3, 7);
		tj_write(w, ((float[]){ 2, 0, 0, 1 }), 16);
		for (int call = 0; call < 6; call++) assert_f32(tj_call1(f, TJ_LIST(x)), 4, 10);
		assert_true(kit_stats(f).direct > 4);
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),      cmocka_unit_test(classes), cmocka_unit_test(made_of_ops), cmocka_unit_test(seen_in_body),
		cmocka_unit_test(refused),    cmocka_unit_test(nested),  cmocka_unit_test(matched),     cmocka_unit_test(filtered),
		cmocka_unit_test(given_back), cmocka_unit_test(flow),    cmocka_unit_test(cast_once),   cmocka_unit_test(gradients),
		cmocka_unit_test(told),       cmocka_unit_test(direct),
	};
	KIT_RUN(tests);
}
