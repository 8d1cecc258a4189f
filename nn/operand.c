/* What the functions of this folder look at before they call an op. */
#include "nn/nn.h"

tj_tensor *nn_bad(const char *site, const char *op, const char *name, tj_tensor *x)
{
	if (x && x != TJ_END && tj_is_poison(x)) return x;
	if (x && x != TJ_END && tj_rank(x) >= 0) return NULL;
	return tj_fail_at(site, TJ_ERR_ARG, op, "an operand is made by another op, or by tj_from_data()", x ? "%s is no tensor" : "%s is NULL", name);
}

tj_tensor *nn_bad_spatial(const char *site, const char *op, tj_tensor *x, int n)
{
	tj_tensor *bad = nn_bad(site, op, "x", x);
	if (bad || tj_rank(x) == n + 1 || tj_rank(x) == n + 2) return bad;
	return tj_fail_at(site, TJ_ERR_SHAPE, op, "axes of examples and channels come first: [N,C,...], or [C,...]", "x has %d axes, %d or %d are needed", tj_rank(x), n + 1, n + 2);
}

tj_tensor *nn_batched(const char *site, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_unsqueeze_at(site, x, 0) : x; }
tj_tensor *nn_as_was(const char *site, tj_tensor *y, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_squeeze_at(site, y, TJ_SHAPE(0)) : y; }

bool nn_is_float(tj_dtype t) { return t == TJ_F16 || t == TJ_BF16 || t == TJ_F32 || t == TJ_F64; }

tj_dims nn_shape(const tj_tensor *x, int64_t *to)
{
	const int rank = tj_rank(x) < 0 ? 0 : tj_rank(x);
	for (int i = 0; i < rank; i++) to[i] = tj_dim(x, i);
	to[rank] = TJ_END_DIM;
	return to;
}

int nn_entries(tj_dims list, int most)
{
	int n = 0;
	while (list && n <= most && list[n] != TJ_END_DIM) n++;
	return n;
}
