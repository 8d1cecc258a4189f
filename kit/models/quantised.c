/* SPDX-License-Identifier: MIT */
/* quantised: weights as small integers with scales, and products with them. The host makes the integers; the products are made of ops, and
 * the compiler computes those in front of a product while it reads the integers. */
#include "kit/models/models.h"

#include <math.h>

static const char op[] = "quantise_weight";

/* A weight as `outer` matrices of k times n. */
typedef struct matrices {
	const float *from;
	int64_t outer, k, n, groups, group; /* group: elements of k that have one scale */
	bool transposed;                    /* k is the axis that is adjacent in memory */
} matrices;

static int64_t place(const matrices *m, int64_t o, int64_t k, int64_t n)
{
	return m->transposed ? (o * m->n + n) * m->k + k : (o * m->k + k) * m->n + n;
}

static int64_t scale_place(const matrices *m, int64_t o, int64_t g, int64_t n)
{
	return m->transposed ? (o * m->n + n) * m->groups + g : (o * m->groups + g) * m->n + n;
}

/* The element of the largest magnitude of each group, with its sign. false: one is no number. */
static bool find_largest(const matrices *m, float *most)
{
	bool finite = true;
	for (int64_t o = 0; o < m->outer; o++)
		for (int64_t i = 0; i < (m->transposed ? m->n : m->k); i++) /* in the order of memory */
			for (int64_t j = 0; j < (m->transposed ? m->k : m->n); j++) {
				const int64_t k = m->transposed ? j : i, n = m->transposed ? i : j;
				const float v = m->from[place(m, o, k, n)];
				float *at = &most[scale_place(m, o, k / m->group, n)];
				finite = finite && isfinite(v);
				if (fabsf(v) > fabsf(*at)) *at = v;
			}
	return finite;
}

static int rounded(float v, float scale, int least, int most)
{
	const float q = scale == 0 ? 0 : rintf(v / scale);
	return q < (float)least ? least : q > (float)most ? most : (int)q;
}

static void fill(const matrices *m, const float *scale, bool four, unsigned char *to)
{
	for (int64_t o = 0; o < m->outer; o++)
		for (int64_t i = 0; i < (m->transposed ? m->n : m->k); i++)
			for (int64_t j = 0; j < (m->transposed ? m->k : m->n); j++) {
				const int64_t k = m->transposed ? j : i, n = m->transposed ? i : j, half = m->k / 2, at = place(m, o, k, n);
				const float s = scale[scale_place(m, o, k / m->group, n)];
				const bool high = k >= half;
				if (!four)
					to[at] = (unsigned char)rounded(m->from[at], s, -127, 127);
				else {
					const matrices bytes = { .k = half, .n = m->n, .transposed = m->transposed };
					unsigned char *b = &to[place(&bytes, o, high ? k - half : k, n)];
					*b = (unsigned char)(*b | (unsigned)(rounded(m->from[at], s, -8, 7) + 8) << (high ? 4 : 0));
				}
			}
}

static tj_status described(const char *site, tj_tensor *w, tj_quantise how, int64_t group, matrices *m)
{
	static const char kinds[] = "0, or a number that divides k; of I4 k / 2; of DYNAMIC 0";
	const bool four = how == TJ_QUANTISE_I4;
	const int rank = tj_rank(w);
	if (tj_is_poison(w)) return tj_read_at(site, w, NULL, 0); /* reports it */
	if (tj_in_body(tj_ctx_current()))
		return tj_fail_at(site, TJ_ERR_STATE, op, "before the function is called", "the host computes it: not in a body"), TJ_ERR_STATE;
	if (how != TJ_QUANTISE_DYNAMIC && how != TJ_QUANTISE_I8 && !four)
		return tj_fail_at(site, TJ_ERR_ARG, op, "DYNAMIC, I8 or I4", "there is no kind %d", (int)how), TJ_ERR_ARG;
	if (tj_dtype_of(w) != TJ_F32)
		return tj_fail_at(site, TJ_ERR_DTYPE, op, "tj_cast()", "a weight is f32, not %s", tj_dtype_name(tj_dtype_of(w))), TJ_ERR_DTYPE;
	if (rank < 2) return tj_fail_at(site, TJ_ERR_SHAPE, op, NULL, "a weight has two or more axes, not %d", rank), TJ_ERR_SHAPE;
	m->outer = 1;
	for (int i = 0; i < rank - 2; i++) m->outer *= tj_dim(w, i);
	m->k = tj_dim(w, m->transposed ? rank - 1 : rank - 2), m->n = tj_dim(w, m->transposed ? rank - 2 : rank - 1);
	if (m->k < 1 || m->n < 1 || m->outer < 1 || (how == TJ_QUANTISE_DYNAMIC && m->k > OX_MOST_K))
		return tj_fail_at(site, TJ_ERR_SHAPE, op, NULL, "k is %lld, and n %lld; of DYNAMIC k is up to %d", (long long)m->k, (long long)m->n,
		                  OX_MOST_K),
		       TJ_ERR_SHAPE;
	if (four && !group) group = OX_USUAL_GROUP;
	if (group < 0 || (four && m->k % 2) || (group && (how == TJ_QUANTISE_DYNAMIC || (four ? m->k / 2 : m->k) % group)))
		return tj_fail_at(site, TJ_ERR_ARG, op, kinds, "groups of %lld do not fit k = %lld", (long long)group, (long long)m->k), TJ_ERR_ARG;
	m->group = group ? group : m->k, m->groups = m->k / m->group;
	return TJ_OK;
}

/* The sizes of w with k replaced; 0: without it. */
static void sizes(tj_tensor *w, bool transposed, int64_t k, int64_t to[TJ_MAX_RANK + 1])
{
	const int rank = tj_rank(w), axis = transposed ? rank - 1 : rank - 2;
	int n = 0;
	for (int i = 0; i < rank; i++)
		if (i != axis || k) to[n++] = i == axis ? k : tj_dim(w, i);
	to[n] = TJ_END_DIM;
}

tj_status tj_quantise_weight_at(const char *site, tj_tensor *w, bool transposed, tj_quantise how, int64_t group, tj_weight *out)
{
	matrices m = { .transposed = transposed };
	int64_t dim[TJ_MAX_RANK + 1];
	if (!out) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "out is NULL"), TJ_ERR_ARG;
	*out = (tj_weight){ .how = how, .transposed = transposed };
	tj_status st = described(site, w, how, group, &m);
	if (st != TJ_OK) return st;
	const bool four = how == TJ_QUANTISE_I4;
	const size_t count = (size_t)(m.outer * m.k * m.n), scales = (size_t)(m.outer * m.groups * m.n);
	float *from = malloc(count * sizeof *from), *scale = calloc(scales, sizeof *scale);
	unsigned char *values = calloc(four ? count / 2 : count, 1);
	if (!from || !scale || !values) st = TJ_ERR_NOMEM, tj_fail_at(site, st, op, NULL, "out of memory for %zu weights", count);
	if (st == TJ_OK) st = tj_read_at(site, w, from, count * sizeof *from);
	m.from = from;
	if (st == TJ_OK && !find_largest(&m, scale)) st = TJ_ERR_ARG, tj_fail_at(site, st, op, NULL, "the weight has a NaN or an infinity");
	if (st == TJ_OK) {
		for (size_t i = 0; i < scales; i++) scale[i] = four ? scale[i] / -8 : fabsf(scale[i]) / 127;
		fill(&m, scale, four, values);
		out->group = m.groups > 1 || four ? m.group : 0, out->k = m.k, out->n = m.n;
		sizes(w, transposed, four ? m.k / 2 : m.k, dim);
		out->values = kit_give(site, tj_ctx_current(), four ? TJ_U8 : TJ_I8, dim, NULL, values);
		sizes(w, transposed, out->group ? m.groups : 0, dim);
		out->scale = kit_give(site, tj_ctx_current(), TJ_F32, dim, NULL, scale);
		values = NULL, scale = NULL; /* the tensors have them */
		if (tj_is_poison(out->values) || tj_is_poison(out->scale))
			st = tj_read_at(site, tj_is_poison(out->values) ? out->values : out->scale, NULL, 0), out->values = out->scale = NULL;
	}
	free(from), free(scale), free(values);
	return st;
}

/* ---- products ---- */
/* f32 in the sizes of the integers times the scale of each group. */
static tj_tensor *grouped(const char *site, const tj_weight *w, tj_tensor *x, tj_tensor *scale)
{
	int64_t dim[TJ_MAX_RANK + 1], whole[TJ_MAX_RANK + 1];
	const int rank = tj_rank(x), axis = w->transposed ? rank - 1 : rank - 2;
	if (rank < 2 || rank >= TJ_MAX_RANK) return tj_fail_at(site, TJ_ERR_LIMIT, "weight_matmul", NULL, "a weight of %d axes has groups", rank);
	for (int i = 0; i < rank; i++) dim[i < axis ? i : i + 1] = whole[i] = tj_dim(x, i);
	whole[rank] = dim[rank + 1] = TJ_END_DIM;
	dim[axis] = whole[axis] / w->group, dim[axis + 1] = w->group;
	return tj_reshape(tj_mul(tj_reshape(x, dim), tj_unsqueeze(scale, axis + 1)), whole);
}

static tj_tensor *times(const char *site, const tj_weight *w, tj_tensor *x, tj_tensor *values)
{
	return tj_matmul(x, w->transposed ? tj_transpose(values, -1, -2) : values);
}

/* y times a scale for each column. */
static tj_tensor *scaled(const char *site, const tj_weight *w, tj_tensor *y)
{
	return tj_mul(y, tj_rank(w->scale) > 1 && tj_rank(y) > tj_rank(w->scale) ? tj_unsqueeze(w->scale, -2) : w->scale);
}

tj_tensor *ox_rounded(const char *site, tj_tensor *x, int axis, tj_tensor **scale)
{
	tj_tensor *s = tj_div(tj_amax(tj_abs(x), TJ_AXES(axis), true), tj_f(127));
	*scale = s;
	return tj_cast(tj_cast(tj_round(tj_div(x, tj_where(tj_eq(s, tj_f(0)), tj_f(1), s))), TJ_I8), TJ_I32);
}

static tj_tensor *of_integers(const char *site, tj_tensor *x, const tj_weight *w)
{
	tj_tensor *scale, *q = ox_rounded(site, x, -1, &scale);
	return scaled(site, w, tj_mul(tj_cast(times(site, w, q, tj_cast(w->values, TJ_I32)), TJ_F32), scale));
}

/* The halves of k lie in the low and in the high bits. */
static tj_tensor *of_halves(const char *site, tj_tensor *x, const tj_weight *w)
{
	const int axis = w->transposed ? -1 : -2;
	const int64_t half = tj_dim(w->values, axis), groups = half / w->group;
	tj_tensor *sum = NULL;
	for (int i = 0; i < 2; i++) {
		tj_tensor *bits = i ? tj_shift_right(w->values, tj_i(4)) : tj_bitwise_and(w->values, tj_i(15));
		tj_tensor *v = grouped(site, w, tj_sub(tj_cast(bits, TJ_F32), tj_f(8)), tj_narrow(w->scale, axis, i * groups, groups));
		tj_tensor *y = times(site, w, tj_narrow(x, -1, i * half, half), v);
		sum = sum ? tj_add(sum, y) : y;
	}
	return sum;
}

tj_tensor *tj_weight_matmul_at(const char *site, tj_tensor *x, const tj_weight *w)
{
	static const char name[] = "weight_matmul";
	if (!w || !w->values || (w->how != TJ_QUANTISE_NONE && !w->scale))
		return tj_fail_at(site, TJ_ERR_ARG, name, "tj_quantise_weight() makes one", "the weight has no values");
	if (tj_is_poison(x) || tj_is_poison(w->values) || w->how == TJ_QUANTISE_NONE) return times(site, w, x, w->values);
	if (tj_rank(x) < 1 || tj_dim(x, -1) != w->k || tj_rank(w->values) < 2)
		return tj_fail_at(site, TJ_ERR_SHAPE, name, NULL, "the last size of x is %lld, and k is %lld",
		                  (long long)(tj_rank(x) ? tj_dim(x, -1) : 1), (long long)w->k);
	x = tj_cast(x, TJ_F32);
	switch (w->how) {
	case TJ_QUANTISE_DYNAMIC: return of_integers(site, x, w);
	case TJ_QUANTISE_I8:
		if (!w->group) return scaled(site, w, times(site, w, x, tj_cast(w->values, TJ_F32)));
		return times(site, w, x, grouped(site, w, tj_cast(w->values, TJ_F32), w->scale));
	case TJ_QUANTISE_I4:
		if (w->group > 0) return of_halves(site, x, w);
		break;
	default: break;
	}
	return tj_fail_at(site, TJ_ERR_ARG, name, NULL, "there is no weight of kind %d with groups of %lld", (int)w->how, (long long)w->group);
}
