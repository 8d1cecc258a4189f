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

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS, cmocka_unit_test(into_an_empty_axis) };
	KIT_RUN(tests);
}
