/* Reading and writing by index, shapes, joins, ranges: nn/indexing.c, nn/shapes.c, nn/ranges.c. */
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

#define ROWS "test/unit/indexing.inc"
#include "test/unit/rows.h"

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS };
	KIT_RUN(tests);
}
