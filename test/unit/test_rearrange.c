/* SPDX-License-Identifier: MIT */
/* Shuffles, windows as columns, and pools with places (functions/rearrange.c): values of PyTorch, inverses, gradients to the third order,
 * compiled code, errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-12, #name)
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }
static const tj_pool_opts odd = { .size = sizeof odd, .stride = { 2, 1 }, .padding = { 1, 2 }, .dilation = { 1, 2 } };

static void same(tj_tensor *a, tj_tensor *b)
{
	assert_int_equal(tj_numel(a), tj_numel(b));
	assert_memory_equal(tj_data(a), tj_data(b), sizeof(double) * (size_t)tj_numel(a));
}

static void values(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *y = x(0, TJ_SHAPE(2, 8, 2, 3)), *picture = x(0, TJ_SHAPE(2, 3, 5, 6)), *at;
	KNOWN(tj_pixel_shuffle(y, 2), pixel_shuffle);
	same(tj_pixel_unshuffle(tj_pixel_shuffle(y, 2), 2), y);
	KNOWN(tj_pixel_unshuffle(x(0, TJ_SHAPE(2, 2, 4, 6)), 2), pixel_unshuffle);
	KNOWN(tj_channel_shuffle(x(0, TJ_SHAPE(2, 6, 2, 2)), 2), channel_shuffle);
	same(tj_channel_shuffle(tj_channel_shuffle(y, 2), 4), y);
	tj_tensor *columns = tj_im2col(picture, TJ_SHAPE(3, 2), &odd), *one = tj_squeeze(tj_slice(picture, 0, 1, 2, 1), TJ_AXES(0));
	KNOWN(columns, im2col);
	KNOWN(tj_col2im(x(1, TJ_SHAPE(tj_dim(columns, 0), tj_dim(columns, 1), tj_dim(columns, 2))), TJ_SHAPE(5, 6), TJ_SHAPE(3, 2), &odd), col2im);
	same(tj_im2col(one, TJ_SHAPE(3, 2), &odd), tj_squeeze(tj_slice(columns, 0, 1, 2, 1), TJ_AXES(0)));
	same(tj_col2im(tj_im2col(one, TJ_SHAPE(5, 3), TJ_OPTS(tj_pool_opts, .stride = { 1, 3 })), TJ_SHAPE(5, 6), TJ_SHAPE(5, 3),
	               TJ_OPTS(tj_pool_opts, .stride = { 1, 3 })),
	     one); /* windows side by side */
	tj_tensor *beside = tj_col2im(tj_from_data(c, TJ_F64, TJ_SHAPE(3, 2), (double[]){ 1, 2, 3, 4, 5, 6 }), TJ_SHAPE(1, 1),
	                              TJ_SHAPE(3, 1), TJ_OPTS(tj_pool_opts, .padding = { 2, 0 }, .stride = { 2, 1 }));
	assert_true(tj_numel(beside) == 1 && tj_item(beside) == 7); /* all windows have places that lie in the padding alone */
	KNOWN(tj_lp_pool2d(picture, 2, TJ_SHAPE(3, 2), TJ_OPTS(tj_pool_opts, .stride = { 2, 2 }, .ceil = true)), lp_pool);
	KNOWN(tj_lp_pool1d(tj_abs(x(0, TJ_SHAPE(2, 3, 7))), 3, TJ_SHAPE(3), TJ_OPTS(tj_pool_opts, .stride = { 2 })), lp_pool_1d);
	KNOWN(tj_max_pool2d_with_indices(picture, TJ_SHAPE(3, 2),
	                                 TJ_OPTS(tj_pool_opts, .stride = { 2, 1 }, .padding = { 1, 0 }, .dilation = { 1, 2 }), &at),
	      pool);
	KNOWN(at, pool_at);
	tj_tensor *small = tj_max_pool2d_with_indices(picture, TJ_SHAPE(2, 2), NULL, &at);
	KNOWN(tj_max_unpool2d(small, at, TJ_SHAPE(5, 6)), unpool);
	tj_max_pool3d_with_indices(x(0, TJ_SHAPE(3, 4, 5, 6)), TJ_SHAPE(2, 2, 2), NULL, &at);
	KNOWN(at, pool_3d_at);
	same(tj_max_pool2d_with_indices(picture, TJ_SHAPE(3, 3), TJ_OPTS(tj_pool_opts, .padding = { 1, 1 }), &at),
	     tj_max_pool2d(picture, TJ_SHAPE(3, 3), TJ_OPTS(tj_pool_opts, .padding = { 1, 1 })));
	tj_tensor *which,
		*beyond = tj_max_pool2d_with_indices(tj_from_data(c, TJ_F64, TJ_SHAPE(1, 1, 3), (double[]){ 1, 2, 3 }), TJ_SHAPE(2, 1),
	                                             TJ_OPTS(tj_pool_opts, .padding = { 1, 0 }, .dilation = { 2, 1 }),
	                                             &which); /* places -1 and 1 of an axis of 1 */
	assert_true(isinf(tj_item(tj_slice(beyond, 2, 0, 1, 1))) && tj_item_i(tj_slice(which, 2, 0, 1, 1)) == 2);
	tj_tensor *line = tj_max_pool1d_with_indices(x(0, TJ_SHAPE(3, 6)), TJ_SHAPE(2), NULL, &at);
	tj_tensor *wide = tj_max_pool1d_with_indices(tj_from_data(c, TJ_F64, TJ_SHAPE(1, 2), (double[]){ 1, 2 }), TJ_SHAPE(4),
	                                             TJ_OPTS(tj_pool_opts, .stride = { 3 }, .ceil = true), &which); /* begins inside */
	assert_true(tj_numel(wide) == 1 && tj_item(wide) == 2 && tj_item_i(which) == 1);
	assert_int_equal(tj_rank(line), 2);
	assert_int_equal(tj_rank(tj_max_unpool1d(line, at, TJ_SHAPE(6))), 2);
	kit_ok(c);
	tj_close(c);
}

/* y are elements of x [2,3,5,6], those at the places `at`, and the pool without indices. */
static void found(tj_tensor *picture, tj_tensor *y, tj_tensor *at, tj_tensor *pool)
{
	tj_tensor *rows = tj_reshape(picture, TJ_SHAPE(2, 3, 30)), *places = tj_reshape(at, TJ_SHAPE(2, 3, -1));
	same(tj_cast(y, TJ_F64), tj_cast(pool, TJ_F64));
	same(tj_cast(tj_gather(rows, 2, places), TJ_F64), tj_cast(y, TJ_F64));
}

static void places(void **state)
{
	static const tj_pool_opts ceil = { .size = sizeof ceil, .stride = { 2, 3 }, .padding = { 1, 0 }, .dilation = { 2, 1 }, .ceil = true };
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *picture = x(0, TJ_SHAPE(2, 3, 5, 6)), *at;
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		tj_tensor *p = tj_cast(tj_mul(picture, tj_f(50)), t), *y = tj_max_pool2d_with_indices(p, TJ_SHAPE(2, 4), &ceil, &at);
		found(p, y, at, tj_max_pool2d(p, TJ_SHAPE(2, 4), &ceil));
		y = tj_adaptive_max_pool2d_with_indices(p, TJ_SHAPE(3, 4), &at);
		found(p, y, at, tj_adaptive_max_pool2d(p, TJ_SHAPE(3, 4)));
	}
	/* nothing is larger than the padding: the first element of the window */
	tj_tensor *low = tj_full(TJ_F32, TJ_SHAPE(1, 3), tj_f(-INFINITY)), *least = tj_full(TJ_U8, TJ_SHAPE(1, 3), tj_i(0));
	const tj_pool_opts padded = { .size = sizeof padded, .padding = { 1 } };
	tj_max_pool1d_with_indices(low, TJ_SHAPE(2), &padded, &at);
	same(tj_cast(at, TJ_F64), tj_from_data(c, TJ_F64, TJ_SHAPE(2), (double[]){ 0, 1 }));
	tj_max_pool1d_with_indices(least, TJ_SHAPE(2), &padded, &at);
	same(tj_cast(at, TJ_F64), tj_from_data(c, TJ_F64, TJ_SHAPE(2), (double[]){ 0, 1 }));
	kit_ok(c);
	tj_close(c);
}

enum { SHUFFLE, UNSHUFFLE, CHANNELS, COLUMNS, PICTURE, LP, POOL, UNPOOL, KINDS };
static void of_kind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *at;
	switch (*(int *)self) {
	case SHUFFLE: out[0] = tj_pixel_shuffle(in[0], 2); break;
	case UNSHUFFLE: out[0] = tj_pixel_unshuffle(in[0], 2); break;
	case CHANNELS: out[0] = tj_channel_shuffle(in[0], 2); break;
	case COLUMNS: out[0] = tj_im2col(in[0], TJ_SHAPE(3, 2), &odd); break;
	case PICTURE:
		out[0] = tj_col2im(tj_reshape(in[0], TJ_SHAPE(2, 4, 16)), TJ_SHAPE(8, 8), TJ_SHAPE(2, 2),
		                   TJ_OPTS(tj_pool_opts, .stride = { 2, 2 }));
		break;
	case LP: out[0] = tj_lp_pool2d(in[0], 2, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .stride = { 1, 1 })); break;
	case POOL: out[0] = tj_max_pool2d_with_indices(in[0], TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .stride = { 1, 1 }), &at); break;
	default:
		out[0] = tj_max_pool2d_with_indices(in[0], TJ_SHAPE(2, 2), NULL, &at),
		out[0] = tj_max_unpool2d(tj_square(out[0]), at, TJ_SHAPE(4, 4));
		break;
	}
}

static void gradients(void **state)
{
	(void)state;
	static const char *const name[] = { "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col",
		                            "col2im",        "lp_pool",         "max_pool",        "max_unpool" };
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++)
		for (tj_dtype t = TJ_F64; t >= (strcmp(kit_backend, "eval") ? TJ_F16 : TJ_F64); t--) {
			layer l = { .body = of_kind, .self = &kind, .nin = 1, .in = { layer_tensor(c, t, TJ_SHAPE(2, 4, 4, 4), 0) } };
			layer_check(&l, name[kind]);
		}
	kit_ok(c);
	tj_close(c);
}

/* ---- a result whose rows are no parts of the rows that a kernel computes: its buffer is copied, not indexed by the evaluator ---- */
static void reshaped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *p = tj_softmax(in[0], 1);
	out[0] = tj_reshape(p, TJ_SHAPE(4, 15));
	out[1] = tj_sum(p, TJ_AXES(0), false);
}
static void other_rows(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(6, 10)), *y[2];
	tj_fn *f = kit_fn(c, "reshaped", reshaped, NULL, 1, 2);
	assert_int_equal(tj_call(f, y, TJ_LIST(a)), TJ_OK);
	same(y[0], tj_softmax(a, 1));
	if (!strcmp(kit_backend, "llvm")) assert_int_equal(kit_stats(f).eval_steps, 0);
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(2, 6, 5, 4)), *at, *i = tj_cast(a, TJ_I64);
	LAYER_REFUSED(tj_pixel_shuffle(a, 2), SHAPE, "pixel_shuffle", "the factor 2 does not divide [6,5,4]");
	LAYER_REFUSED(tj_pixel_shuffle(a, (int64_t)1 << 32), SHAPE, "pixel_shuffle", "the factor 4294967296 does not divide [6,5,4]");
	assert_int_equal(tj_dim(tj_tril_indices(2, 3, INT64_MAX), 1), 6);
	assert_int_equal(tj_dim(tj_triu_indices(2, 3, INT64_MIN), 1), 6);
	assert_int_equal(tj_dim(tj_triu_indices((int64_t)1 << 40, 2, 0), 1), 3);
	LAYER_REFUSED(tj_pixel_unshuffle(a, 2), SHAPE, "pixel_unshuffle", "the factor 2 does not divide [6,5,4]");
	LAYER_REFUSED(tj_pixel_shuffle(a, 0), ARG, "pixel_shuffle", "the factor is 0");
	LAYER_REFUSED(tj_pixel_shuffle(x(0, TJ_SHAPE(4, 4)), 2), SHAPE, "pixel_shuffle", "x has 2 axes");
	LAYER_REFUSED(tj_channel_shuffle(a, 4), SHAPE, "channel_shuffle", "4 groups do not divide 6 channels");
	LAYER_REFUSED(tj_im2col(a, TJ_SHAPE(3), NULL), ARG, "im2col", "the window needs 2 sizes");
	LAYER_REFUSED(tj_im2col(a, TJ_SHAPE(6, 2), NULL), SHAPE, "im2col", "a window is larger than the picture");
	LAYER_REFUSED(tj_im2col(a, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .ceil = true)), ARG, "im2col", ".ceil");
	LAYER_REFUSED(tj_im2col(a, TJ_SHAPE(2, 0), NULL), ARG, "im2col", "the window is none along axis 1");
	LAYER_REFUSED(tj_col2im(x(0, TJ_SHAPE(1, 8, 9)), TJ_SHAPE(4, 5), TJ_SHAPE(2, 2), NULL), SHAPE, "col2im",
	              "x has [8,9], the picture has 12 windows of 4 places");
	LAYER_REFUSED(tj_col2im(a, TJ_SHAPE(4, 5), TJ_SHAPE(2, 2), NULL), SHAPE, "col2im", "x has 4 axes");
	LAYER_REFUSED(tj_lp_pool2d(a, 0, TJ_SHAPE(2, 2), NULL), ARG, "lp_pool2d", "p is 0");
	LAYER_REFUSED(tj_lp_pool2d(i, 2, TJ_SHAPE(2, 2), NULL), DTYPE, "lp_pool2d", "x is i64");
	LAYER_REFUSED(tj_max_pool2d_with_indices(a, TJ_SHAPE(2, 2), NULL, NULL), ARG, "max_pool2d_with_indices", "indices is NULL");
	LAYER_REFUSED(tj_max_pool2d_with_indices(a, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .padding = { 2 }), &at), ARG,
	              "max_pool2d_with_indices", "the window is none along axis 0");
	assert_true(tj_is_poison(at));
	LAYER_REFUSED(tj_max_pool2d_with_indices(a, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .divisor = 2), &at), ARG,
	              "max_pool2d_with_indices", "are for avg_pool");
	LAYER_REFUSED(tj_adaptive_max_pool2d_with_indices(a, TJ_SHAPE(2), &at), ARG, "adaptive_max_pool2d_with_indices",
	              "2 sizes of the result are needed");
	assert_true(tj_is_poison(at));
	LAYER_REFUSED(tj_max_unpool2d(a, x(0, TJ_SHAPE(2, 6, 5, 3)), TJ_SHAPE(10, 8)), SHAPE, "max_unpool2d",
	              "the indices have not the shape of x");
	LAYER_REFUSED(tj_max_unpool2d(a, i, TJ_SHAPE(10)), ARG, "max_unpool2d", "2 sizes of the result are needed");
	assert_true(tj_is_poison(tj_max_unpool2d(a, tj_full_like(i, tj_i(9)), TJ_SHAPE(3, 3)))); /* beyond the picture */
	kit_error(c, TJ_ERR_INDEX, "");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(places), cmocka_unit_test(gradients),
		                            cmocka_unit_test(other_rows), cmocka_unit_test(errors) };
	KIT_RUN(tests);
}
