/* SPDX-License-Identifier: MIT */
/* Reading and writing by index, shapes, joins, ranges: functions/indexing.c, functions/shapes.c, functions/ranges.c, functions/bounded.c.
 */
#include "test/unit/literals.h"

/* Functions with several results, of which a row is one. */
static tj_tensor *split(tj_tensor *x, tj_dims sizes, int axis, int i)
{
	tj_tensor *out[8];
	return tj_split(x, sizes, axis, out), out[i];
}

static tj_tensor *chunk(tj_tensor *x, int n, int axis, int i, int count)
{
	tj_tensor *out[8];
	assert_int_equal(tj_chunk(x, n, axis, out), count);
	if (count < n) assert_null(out[count]);
	return out[i];
}

static tj_tensor *unbind(tj_tensor *x, int axis, int n, int i)
{
	tj_tensor *out[8];
	return tj_unbind(x, axis, n, out), out[i];
}

static tj_tensor *mesh(tj_ctx *c, bool xy, int i)
{
	tj_tensor *out[3];
	return tj_meshgrid(TJ_LIST(FS(S(3), 1, 2, 3), FS(S(2), 4, 5), FS(S(1), 6)), xy, out), out[i];
}

static tj_tensor *together(tj_ctx *c, int i)
{
	tj_tensor *out[2];
	return tj_broadcast_tensors(TJ_LIST(FS(S(2, 1), 1, 2), FS(S(3), 5, 6, 7)), out), out[i];
}

static tj_tensor *unravel(tj_tensor *index, tj_dims shape, int i)
{
	tj_tensor *out[TJ_MAX_RANK];
	return tj_unravel_index(index, shape, out), out[i];
}

static tj_tensor *found(tj_tensor *x, int64_t size)
{
	tj_tensor *count;
	return tj_nonzero_static(x, size, -1, &count), count;
}

static tj_tensor *values_found(tj_tensor *x, int64_t size)
{
	tj_tensor *count;
	return tj_unique_static(x, size, tj_i(0), &count), count;
}

#define ROWS "test/unit/indexing.inc"
#include "test/unit/rows.h"

/* An index into an axis of size 0 is out of range, whatever the dtype and however little is computed. */
typedef tj_tensor *scatters(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
static scatters *const all_scatters[] = { tj_scatter_at, tj_scatter_add_at, tj_scatter_prod_at, tj_scatter_amax_at, tj_scatter_amin_at };
static void scatter_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	scatters *const *f = self;
	out[0] = (*f)(TJ_SITE, in[0], 1, in[1], in[2]);
}

static void into_an_empty_axis(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *index = tj_full(TJ_I64, TJ_SHAPE(3, 2), tj_i(0)), *y;
	for (size_t k = 0; k < sizeof all_scatters / sizeof *all_scatters; k++)
		for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
			tj_tensor *in[] = { tj_full((tj_dtype)t, TJ_SHAPE(3, 0), tj_i(0)), index, tj_full((tj_dtype)t, TJ_SHAPE(3, 2), tj_i(1)), TJ_END };
			tj_read(all_scatters[k](TJ_SITE, in[0], 1, index, in[2]), NULL, 0);
			kit_error(c, TJ_ERR_INDEX, "axis of size 0");
			tj_fn *f = kit_fn(c, "empty", scatter_body, (void *)&all_scatters[k], 3, 1);
			if (tj_call(f, &y, in) == TJ_OK) tj_sync(c);
			kit_error(c, TJ_ERR_INDEX, "axis of size 0");
			tj_fn_free(f);
		}
	tj_close(c);
}

/* ---- every integer dtype is an index, and bool as 0 and 1 ---- */
enum { USES = 12, NOT_BOOL = 11 };
/* x f32 [200,2], index [2,2] of 0 and 1 but for `last`, its last element. Each result is what an i64 index of the same numbers gives. */
static tj_tensor *use(int k, tj_tensor *x, tj_tensor *index)
{
	tj_tensor *line = tj_reshape(index, TJ_SHAPE(-1)), *columns = tj_slice(index, 0, 0, 1, 1), *ones = tj_ones(TJ_F32, TJ_SHAPE(2, 2));
	tj_tensor *scores = tj_slice(tj_transpose(x, 0, 1), 0, 0, 1, 1), *target = tj_slice(line, 0, 3, 4, 1);
	switch (k) {
	case 0: return tj_gather(x, 0, index);
	case 1: return tj_index_select(x, 0, line);
	case 2: return tj_embedding(x, index);
	case 3: return tj_scatter_add(x, 0, index, ones);
	case 4: return tj_one_hot(index, 200);
	case 5: return tj_bincount(line, NULL, 0, 200);
	case 6: return tj_cross_entropy_loss(scores, target, NULL);
	case 7: return tj_embedding_bag(index, x, NULL);
	case 8: return tj_take(x, index);
	case 9: return tj_take_along_dim(x, index, 0);
	case 10: return tj_index_fill(x, 1, tj_reshape(columns, TJ_SHAPE(2)), tj_f(7));
	default: return tj_index(x, TJ_ALL, TJ_LIST(index));
	}
}

static void use_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = use(*(const int *)self, in[0], in[1]);
}

/* last: of the index. What an i64 index gives, another dtype gives, too, called as it is and compiled. */
static void same_as_i64(tj_ctx *c, tj_tensor *x, int k, tj_dtype t, int64_t last)
{
	const int64_t at[] = { 0, 1, 1, last };
	tj_tensor *wide = tj_from_data(c, TJ_I64, TJ_SHAPE(2, 2), at), *in[] = { x, tj_cast(wide, t), TJ_END }, *y;
	tj_fn *f = kit_fn(c, "use", use_body, &k, 2, 1);
	tj_tensor *want = use(k, x, wide);
	assert_false(tj_is_poison(want));
	assert_true(tj_truth(tj_equal(use(k, x, in[1]), want)));
	assert_int_equal(tj_call(f, &y, in), TJ_OK);
	assert_true(tj_truth(tj_equal(y, want)));
	tj_fn_free(f);
}

static void every_integer_is_an_index(void **state)
{
	static const tj_dtype types[] = { TJ_BOOL, TJ_U8, TJ_I8, TJ_I16, TJ_I32 };
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_reshape(tj_cast(tj_arange(TJ_I64, 0, 400, 1), TJ_F32), TJ_SHAPE(200, 2));
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int k = 0; k < USES; k++) {
			const bool from_end = k >= 8 && types[i] != TJ_BOOL && types[i] != TJ_U8; /* -1 of 200 or 400: more than an i8 holds */
			if (k < NOT_BOOL || types[i] != TJ_BOOL) same_as_i64(c, x, k, types[i], from_end ? -1 : 1);
			if (k < 8 && types[i] == TJ_U8) same_as_i64(c, x, k, types[i], 199); /* more than an i8 holds */
		}
	tj_tensor *fraction = tj_full(TJ_F32, TJ_SHAPE(2, 2), tj_f(0.5));
	for (int k = 0; k < USES; k++) {
		if (k == 6) continue; /* probabilities */
		assert_true(tj_is_poison(use(k, x, fraction)));
		kit_error(c, TJ_ERR_DTYPE, "f32");
	}
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS, cmocka_unit_test(into_an_empty_axis), cmocka_unit_test(every_integer_is_an_index) };
	KIT_RUN(tests);
}
