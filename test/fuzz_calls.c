/* SPDX-License-Identifier: MIT */
/* fuzz_calls: the functions of fuzz -layers. Each has a caller that draws its other operands and its parameters from the step's dice, so
 * that they fit the first operand x in most cases; those that do not fit are errors, which programs meet now and then. */
#include "test/fuzz_layers.h"

#include <math.h>
#include <string.h>

typedef tj_tensor *T;
typedef machine M;

/* ---- drawing ---- */
static int64_t below(M *m, int64_t n) { return gen_below(&m->dice, n); }
static bool chance(M *m, int percent) { return gen_chance(&m->dice, percent); }
static int64_t from_to(M *m, int64_t lo, int64_t hi) { return lo + below(m, hi - lo + 1); }
static int64_t dim(T x, int i) { return tj_dim(x, i); }
static int rank(T x) { return tj_rank(x); }
static bool is_float(T x) { return rt_is_float(tj_dtype_of(x)); }

static int axis(M *m, T x)
{
	const int n = rank(x) > 0 ? rank(x) : 1, a = (int)below(m, n);
	return chance(m, 30) ? a - n : a;
}
static int64_t size_at(T x, int a) { return rank(x) ? dim(x, a) : 1; }

typedef struct dims { int64_t v[TJ_MAX_RANK + 1]; } dims;
static dims shape_of(T x)
{
	dims d;
	const int n = rank(x) < 0 ? 0 : rank(x);
	for (int i = 0; i < n; i++) d.v[i] = dim(x, i);
	d.v[n] = TJ_END_DIM;
	return d;
}
static dims with(T x, int a, int64_t n) /* the shape of x with another size on axis a */
{
	dims d = shape_of(x);
	if (rank(x) > 0) d.v[a < 0 ? a + rank(x) : a] = n;
	return d;
}
static dims without(T x, int a)
{
	dims d = shape_of(x);
	if (rank(x) <= 0) return d;
	if (a < 0) a += rank(x);
	memmove(d.v + a, d.v + a + 1, sizeof *d.v * (size_t)(rank(x) - a));
	return d;
}
static dims some_axes(M *m, T x)
{
	dims d;
	int n = 0;
	for (int i = 0; i < rank(x); i++)
		if (chance(m, 50)) d.v[n++] = chance(m, 30) ? i - rank(x) : i;
	if (!n && rank(x) > 0) d.v[n++] = below(m, rank(x));
	d.v[n] = TJ_END_DIM;
	return d;
}
#define AXES(m, x) (chance(m, 30) ? TJ_ALL : some_axes(m, x).v)

static gen_content content_of(M *m)
{
	static const gen_content c[] = { GEN_PLAIN, GEN_PLAIN,   GEN_PLAIN, GEN_PLAIN, GEN_PLAIN,   GEN_PLAIN, GEN_INTS,
		                         GEN_INTS,  GEN_SPECIAL, GEN_FIRST, GEN_LAST,  GEN_NEGZERO, GEN_TINY };
	return c[below(m, RT_COUNT(c))];
}
tj_tensor *layer_of(M *m, tj_dtype t, tj_dims shape)
{
	return layer_operand(m, (wanted){ .dtype = t, .shape = shape, .content = content_of(m) });
}
static T cell_of(M *m, tj_dtype t, tj_dims shape)
{
	return layer_operand(m, (wanted){ .dtype = t, .shape = shape, .content = GEN_NONZERO, .cell = true });
}
static T index_of(M *m, tj_dims shape, int64_t lo, int64_t hi)
{
	static const tj_dtype any[] = { TJ_I64, TJ_I64, TJ_I32, TJ_I32, TJ_I16, TJ_I8 };
	const tj_dtype t = hi < INT8_MAX ? any[below(m, 6)] : chance(m, 50) ? TJ_I64 : TJ_I32;
	if (chance(m, 1)) hi++; /* perhaps out of range */
	return layer_operand(m, (wanted){ .dtype = t, .shape = shape, .content = GEN_INDEX, .lo = lo, .hi = hi < lo ? lo : hi });
}
static bool same_shape(T x, tj_dims shape)
{
	int n = 0;
	while (shape[n] != TJ_END_DIM) n++;
	bool same = rank(x) == n;
	for (int i = 0; same && i < n; i++) same = dim(x, i) == shape[i];
	return same;
}
/* A tensor of this dtype and shape: one that is there, or a new one. */
static T some(M *m, tj_dtype t, tj_dims shape)
{
	for (int tries = 0; tries < 4 && m->nvalue; tries++) {
		T y = m->value[below(m, m->nvalue)];
		if (tj_dtype_of(y) == t && same_shape(y, shape)) return y;
	}
	return layer_of(m, t, shape);
}
static T like(M *m, T x) { return some(m, tj_dtype_of(x), shape_of(x).v); }
static T row(M *m, T x, int64_t n) { return some(m, tj_dtype_of(x), TJ_SHAPE(n)); }
static T row_or_none(M *m, T x, int64_t n) { return chance(m, 50) ? row(m, x, n) : NULL; }
static T mask(M *m, tj_dims shape) { return layer_operand(m, (wanted){ .dtype = TJ_BOOL, .shape = shape, .content = GEN_PLAIN }); }
static double real(M *m)
{
	static const double v[] = { 0, 1, -1, 0.5, 2, 3, 0.25, 1e-3, 1.5, -0.75, 10 };
	return v[below(m, RT_COUNT(v))];
}
static double positive(M *m)
{
	static const double v[] = { 1, 0.5, 2, 3, 0.25, 1e-5, 1.5, 0.1 };
	return v[below(m, RT_COUNT(v))];
}
static double order(M *m) /* of a norm */
{
	static const double v[] = { 2, 2, 2, 1, 1, 0, 3, INFINITY, -INFINITY, 0.5, 1.5 };
	return v[below(m, RT_COUNT(v))];
}
static T number(M *m) { return chance(m, 50) ? tj_f(real(m)) : tj_i(from_to(m, -3, 9)); }
static tj_dtype float_dtype(M *m)
{
	static const tj_dtype t[] = { TJ_F32, TJ_F32, TJ_F64, TJ_F16, TJ_BF16 };
	return t[below(m, RT_COUNT(t))];
}
static tj_dtype any_dtype(M *m) { return (tj_dtype)below(m, TJ_DTYPE_COUNT); }
static int64_t short_size(M *m, int64_t size) { return 1 + below(m, size < 1 ? 1 : size < 3 ? size : 3); }
static T unit(T x) { return tj_sigmoid(x); } /* floats from 0 to 1 */

/* ---- reading and writing by index ---- */
static T f_scatter_reduce(M *m, T x)
{
	const int a = axis(m, x);
	dims d = with(x, a, from_to(m, 1, 6));
	T i = index_of(m, d.v, 0, size_at(x, a) - 1);
	return tj_scatter_reduce(x, a, i, some(m, tj_dtype_of(x), d.v), (tj_reduction)below(m, 5), chance(m, 50));
}
static T by_index(M *m, T x, int which)
{
	const int a = axis(m, x);
	const int64_t n = which == 3 || size_at(x, a) > 0 ? from_to(m, 1, 5) : 0;
	T i = index_of(m, TJ_SHAPE(n), which == 3 ? -size_at(x, a) : 0, size_at(x, a) - 1);
	if (which == 3) return tj_index_fill(x, a, i, chance(m, 50) ? number(m) : some(m, tj_dtype_of(x), TJ_0D));
	dims d = with(x, a, n);
	T src = some(m, tj_dtype_of(x), d.v);
	if (which == 0) return tj_index_add(x, a, i, src);
	if (which == 1) return tj_index_copy(x, a, i, src);
	return tj_index_reduce(x, a, i, src, (tj_reduction)below(m, 5), chance(m, 50));
}
static T f_index_add(M *m, T x) { return by_index(m, x, 0); }
static T f_index_copy(M *m, T x) { return by_index(m, x, 1); }
static T f_index_reduce(M *m, T x) { return by_index(m, x, 2); }
static T f_index_fill(M *m, T x) { return by_index(m, x, 3); }
static T indexed(M *m, T x, bool put)
{
	const int a = (int)below(m, rank(x)), b = (int)below(m, rank(x));
	const int64_t n = from_to(m, 1, 5), k = chance(m, 40) ? from_to(m, 1, 3) : 0;
	const bool accumulate = chance(m, 50);
	T v = put ? (chance(m, 60) ? number(m) : some(m, tj_dtype_of(x), TJ_0D)) : NULL;
	if (chance(m, 15)) { /* a mask: a boundary */
		T s = mask(m, TJ_SHAPE(dim(x, a)));
		return put ? tj_index_put(x, TJ_AXES(a), TJ_LIST(s), v, accumulate) : tj_index(x, TJ_AXES(a), TJ_LIST(s));
	}
	T i = index_of(m, k ? TJ_SHAPE(k, n) : TJ_SHAPE(n), -dim(x, a), dim(x, a) - 1);
	if (a == b) return put ? tj_index_put(x, TJ_AXES(a), TJ_LIST(i), v, accumulate) : tj_index(x, TJ_AXES(a), TJ_LIST(i));
	T j = index_of(m, TJ_SHAPE(chance(m, 30) ? 1 : n), -dim(x, b), dim(x, b) - 1);
	return put ? tj_index_put(x, TJ_AXES(a, b), TJ_LIST(i, j), v, accumulate) : tj_index(x, TJ_AXES(a, b), TJ_LIST(i, j));
}
static T f_index(M *m, T x) { return indexed(m, x, false); }
static T f_index_put(M *m, T x) { return indexed(m, x, true); }
static T f_take(M *m, T x) { return tj_take(x, index_of(m, TJ_SHAPE(from_to(m, 1, 4), from_to(m, 1, 4)), -tj_numel(x), tj_numel(x) - 1)); }
static T f_put(M *m, T x)
{
	const int64_t n = from_to(m, 1, 6);
	T i = index_of(m, TJ_SHAPE(n), -tj_numel(x), tj_numel(x) - 1);
	return tj_put(x, i, row(m, x, n), chance(m, 50));
}
static T f_take_along_dim(M *m, T x)
{
	const int a = axis(m, x);
	if (chance(m, 20)) return tj_take_along_dim(x, index_of(m, TJ_SHAPE(5), 0, tj_numel(x) - 1), TJ_END_DIM);
	dims d = with(x, a, from_to(m, 1, 5));
	if (chance(m, 40)) d = with(x, a, 1);
	return tj_take_along_dim(x, index_of(m, d.v, -size_at(x, a), size_at(x, a) - 1), a);
}
static T f_masked_scatter(M *m, T x)
{
	T s = mask(m, shape_of(x).v);
	return tj_masked_scatter(x, s, row(m, x, tj_numel(x) - (chance(m, 3) ? 1 : 0)));
}
static T f_select(M *m, T x)
{
	const int a = axis(m, x);
	return tj_select(x, a, from_to(m, -dim(x, a), dim(x, a) - 1));
}
static T f_narrow(M *m, T x)
{
	const int a = axis(m, x);
	const int64_t n = below(m, dim(x, a) + 1);
	return tj_narrow(x, a, below(m, dim(x, a) - n + 1), n);
}
static T f_slice_scatter(M *m, T x)
{
	const int a = axis(m, x);
	const int64_t from = below(m, dim(x, a) + 1), to = chance(m, 40) ? TJ_END_DIM : from_to(m, -2, dim(x, a)), by = from_to(m, 1, 3);
	return tj_slice_scatter(x, some(m, tj_dtype_of(x), shape_of(tj_slice(x, a, from, to, by)).v), a, from, to, by);
}
static T f_select_scatter(M *m, T x)
{
	const int a = axis(m, x);
	const int64_t i = from_to(m, -dim(x, a), dim(x, a) - 1);
	return tj_select_scatter(x, some(m, tj_dtype_of(x), without(x, a).v), a, i);
}
static T f_diagonal_scatter(M *m, T x)
{
	const int64_t d = from_to(m, -2, 2);
	const int a = (int)below(m, rank(x)), b = (a + 1) % rank(x);
	return tj_diagonal_scatter(x, some(m, tj_dtype_of(x), shape_of(tj_diagonal(x, d, a, b)).v), d, a, b);
}

/* ---- shapes and joins ---- */
static T f_movedim(M *m, T x)
{
	const int64_t a = below(m, rank(x)), b = below(m, rank(x)), c = (a + 1) % rank(x), d = (b + 1) % rank(x);
	return rank(x) > 1 && chance(m, 50) ? tj_movedim(x, TJ_AXES(a, c), TJ_AXES(b, d)) : tj_movedim(x, TJ_AXES(a), TJ_AXES(b));
}
static T f_atleast(M *m, T x) { return chance(m, 33) ? tj_atleast_1d(x) : chance(m, 50) ? tj_atleast_2d(x) : tj_atleast_3d(x); }
static T f_flatten(M *m, T x)
{
	const int a = (int)below(m, rank(x));
	return tj_flatten(x, a, chance(m, 30) ? -1 : a + (int)below(m, rank(x) - a));
}
static T f_unflatten(M *m, T x)
{
	const int a = axis(m, x);
	int64_t by = from_to(m, 1, 4);
	while (dim(x, a) % by) by--;
	return chance(m, 50) ? tj_unflatten(x, a, TJ_SHAPE(by, -1)) : tj_unflatten(x, a, TJ_SHAPE(dim(x, a) / by, by));
}
static T f_expand_as(M *m, T x)
{
	dims d = shape_of(x);
	for (int i = 0; i < rank(x); i++)
		if (d.v[i] == 1) d.v[i] = from_to(m, 1, 4);
	return tj_expand_as(x, some(m, any_dtype(m), d.v));
}
static T f_view_as(M *m, T x)
{
	return tj_view_as(x, some(m, any_dtype(m), chance(m, 50) ? TJ_SHAPE(tj_numel(x)) : TJ_SHAPE(1, tj_numel(x), 1)));
}
static T f_rot90(M *m, T x)
{
	const int a = (int)below(m, rank(x));
	return tj_rot90(x, (int)from_to(m, -4, 5), a, (a + 1) % rank(x));
}
static T f_diag(M *m, T x) { return tj_diag(x, from_to(m, -2, 2)); }
static T f_diagflat(M *m, T x) { return tj_numel(x) > 40 ? tj_diag(tj_select(x, 0, 0), 0) : tj_diagflat(x, from_to(m, -2, 2)); }
static T f_block_diag(M *m, T x)
{
	T y = some(m, chance(m, 80) ? tj_dtype_of(x) : any_dtype(m), TJ_SHAPE(layer_size(m), from_to(m, 1, 4)));
	return chance(m, 50) ? tj_block_diag(TJ_LIST(x, y)) : tj_block_diag(TJ_LIST(y, x, x));
}
static T joined(M *m, T x, int which)
{
	T y = like(m, x), z = chance(m, 20) ? some(m, any_dtype(m), shape_of(x).v) : x;
	T *const l = (T[]){ x, y, z, TJ_END };
	return which == 0 ? tj_hstack(l) : which == 1 ? tj_vstack(l) : which == 2 ? tj_dstack(l) : tj_column_stack(l);
}
static T f_hstack(M *m, T x) { return joined(m, x, 0); }
static T f_vstack(M *m, T x) { return joined(m, x, 1); }
static T f_dstack(M *m, T x) { return joined(m, x, 2); }
static T f_column_stack(M *m, T x) { return joined(m, x, 3); }
static T f_split(M *m, T x)
{
	T out[4] = { NULL };
	const int a = axis(m, x);
	const int64_t n = below(m, dim(x, a) + 1);
	tj_split(x, TJ_SHAPE(n, dim(x, a) - n), a, out);
	return layer_also(m, out[0]), out[1];
}
static T f_chunk(M *m, T x)
{
	T out[4] = { NULL };
	const int n = (int)from_to(m, 1, 4), k = tj_chunk(x, n, axis(m, x), out);
	return layer_also(m, out[0]), out[k > 1 ? k - 1 : 0];
}
static T f_unbind(M *m, T x)
{
	T out[64] = { NULL };
	const int a = axis(m, x);
	const int64_t n = dim(x, a);
	if (n < 1 || n > 20) return layer_also(m, x), tj_flip(x, TJ_AXES(a));
	tj_unbind(x, a, (int)n, out);
	return layer_also(m, out[0]), out[n - 1];
}
static T f_broadcast_tensors(M *m, T x)
{
	T out[4] = { NULL };
	dims d = with(x, axis(m, x), 1);
	tj_broadcast_tensors(TJ_LIST(x, some(m, any_dtype(m), d.v)), out);
	return layer_also(m, out[1]), out[0];
}
static T f_meshgrid(M *m, T x)
{
	T out[4] = { NULL };
	const bool xy = chance(m, 50);
	tj_meshgrid(TJ_LIST(x, row(m, x, from_to(m, 1, 4))), xy, out);
	return layer_also(m, out[1]), out[0];
}
static T f_linspace(M *m, T x)
{
	(void)x;
	const tj_dtype t = chance(m, 80) ? float_dtype(m) : any_dtype(m);
	const double a = real(m), b = real(m);
	const int64_t n = layer_size(m);
	return chance(m, 50) ? tj_linspace(t, a, b, n) : tj_logspace(t, a, b, n, chance(m, 50) ? 10 : 2);
}
static T f_tril_indices(M *m, T x)
{
	(void)x;
	const int64_t r = layer_size(m), c = layer_size(m), d = from_to(m, -2, 2);
	return chance(m, 50) ? tj_tril_indices(r, c, d) : tj_triu_indices(r, c, d);
}
static T f_cartesian_prod(M *m, T x)
{
	T y = row(m, x, from_to(m, 1, 4));
	return chance(m, 20)   ? tj_cartesian_prod(TJ_LIST(x))
	       : chance(m, 50) ? tj_cartesian_prod(TJ_LIST(x, y))
	                       : tj_cartesian_prod(TJ_LIST(y, x, y));
}
static T f_combinations(M *m, T x) { return tj_combinations(dim(x, 0) > 9 ? tj_narrow(x, 0, 0, 9) : x, (int)below(m, 4), chance(m, 50)); }
static T f_vander(M *m, T x) { return tj_vander(x, below(m, 5), chance(m, 50)); }

/* ---- statistics ---- */
static T f_std(M *m, T x) { return tj_std(x, AXES(m, x), (double)below(m, 3), chance(m, 50)); }
static T f_var_mean(M *m, T x)
{
	T mean = NULL;
	const bool s = chance(m, 50);
	dims d = some_axes(m, x);
	T y = s ? tj_std_mean(x, d.v, 1, chance(m, 50), &mean) : tj_var_mean(x, TJ_ALL, (double)below(m, 2), chance(m, 50), &mean);
	return layer_also(m, mean), y;
}
static T f_aminmax(M *m, T x)
{
	T most = NULL, y = tj_aminmax(x, AXES(m, x), chance(m, 50), &most);
	return layer_also(m, most), y;
}
static T f_nansum(M *m, T x) { return chance(m, 50) ? tj_nansum(x, AXES(m, x), chance(m, 50)) : tj_nanmean(x, AXES(m, x), chance(m, 50)); }
static T f_count_nonzero(M *m, T x) { return tj_count_nonzero(x, AXES(m, x)); }
static T f_cov(M *m, T x)
{
	const int64_t n = rank(x) ? dim(x, -1) : 1;
	T f = chance(m, 30) ? index_of(m, TJ_SHAPE(n), 1, 3) : NULL, a = chance(m, 30) ? tj_abs(layer_of(m, TJ_F32, TJ_SHAPE(n))) : NULL;
	return tj_cov(x, (double)below(m, 2), f, a);
}
static T f_corrcoef(M *m, T x) { (void)m; return tj_corrcoef(x); }
static T f_norm(M *m, T x)
{
	const double p = order(m);
	return tj_norm(x, p, AXES(m, x), chance(m, 50));
}
static T f_dist(M *m, T x)
{
	T y = like(m, x);
	return tj_dist(x, y, order(m));
}
static T f_pairwise_distance(M *m, T x)
{
	T y = like(m, x);
	const double p = order(m);
	return tj_pairwise_distance(x, y, p, 1e-6, chance(m, 50));
}
static T f_renorm(M *m, T x)
{
	const int a = axis(m, x);
	const double p = chance(m, 60) ? 2 : 1;
	return tj_renorm(x, p, a, positive(m));
}
static T f_cdist(M *m, T x)
{
	dims d = with(x, -2, chance(m, 20) ? 30 : from_to(m, 1, 5));
	T y = some(m, tj_dtype_of(x), d.v);
	const double p = order(m);
	return tj_cdist(x, y, p, (tj_cdist_mode)below(m, 3));
}
static T f_pdist(M *m, T x) { return tj_pdist(x, order(m)); }
static T f_cosine_similarity(M *m, T x)
{
	T y = like(m, x);
	return tj_cosine_similarity(x, y, axis(m, x), 1e-8);
}
static int64_t line(M *m, T x) { return chance(m, 20) ? TJ_END_DIM : axis(m, x); }
static T ordered(M *m, T x, int which)
{
	T i = NULL, y;
	const int64_t a = line(m, x);
	const bool keep = chance(m, 50), want = chance(m, 70);
	const int64_t n = a == TJ_END_DIM ? tj_numel(x) : size_at(x, (int)a), k = from_to(m, 1, n < 1 ? 1 : n);
	T *const to = want ? &i : NULL;
	y = which == 0   ? tj_median(x, a, keep, to)
	    : which == 1 ? tj_nanmedian(x, a, keep, to)
	    : which == 2 ? tj_kthvalue(x, k, a, keep, to)
	                 : tj_mode(x, a, keep, to);
	if (want) layer_also(m, i);
	return y;
}
static T f_median(M *m, T x) { return ordered(m, x, 0); }
static T f_nanmedian(M *m, T x) { return ordered(m, x, 1); }
static T f_kthvalue(M *m, T x) { return ordered(m, x, 2); }
static T f_mode(M *m, T x) { return ordered(m, x, 3); }
static T f_quantile(M *m, T x)
{
	const int64_t a = line(m, x);
	const bool keep = chance(m, 50), nan = chance(m, 50);
	const tj_interpolation how = (tj_interpolation)below(m, 5);
	static const double at[] = { 0, 0.25, 0.5, 0.9, 1 };
	T q = chance(m, 60) ? tj_f(at[below(m, 5)]) : tj_cast(unit(layer_of(m, TJ_F32, TJ_SHAPE(3))), tj_dtype_of(x));
	return nan ? tj_nanquantile(x, q, a, keep, how) : tj_quantile(x, q, a, keep, how);
}
static T f_bincount(M *m, T x)
{
	T i = tj_remainder(tj_cast(tj_flatten(x, 0, -1), TJ_I64), tj_i(7));
	T w = chance(m, 50) ? layer_of(m, any_dtype(m), TJ_SHAPE(tj_numel(x))) : NULL;
	return tj_bincount(i, w, below(m, 4), chance(m, 70) ? 7 : 0);
}
static T f_histc(M *m, T x)
{
	const int64_t bins = from_to(m, 1, 6);
	return chance(m, 50) ? tj_histc(x, bins, -2, 2) : tj_histc(x, bins, 0, 0);
}
static T f_histogram(M *m, T x)
{
	const int64_t bins = from_to(m, 1, 5);
	T edges = chance(m, 50) ? tj_histogram_bin_edges(x, bins, -2, 2) : tj_linspace(tj_dtype_of(x), -1, 3, bins + 1);
	T w = chance(m, 30) ? like(m, x) : NULL;
	return tj_histogram(x, edges, w, chance(m, 50));
}
static T f_bin_edges(M *m, T x) { return tj_histogram_bin_edges(x, from_to(m, 1, 5), 0, 0); }
static T f_allclose(M *m, T x)
{
	T y = like(m, x);
	return chance(m, 50) ? tj_allclose(x, y, 1e-3, 1, chance(m, 50)) : tj_equal(x, y);
}
static T f_isin(M *m, T x)
{
	T y = some(m, chance(m, 80) ? tj_dtype_of(x) : any_dtype(m), TJ_SHAPE(from_to(m, 0, 5)));
	return tj_isin(x, y, chance(m, 50));
}
static T f_unique_consecutive(M *m, T x)
{
	T inverse = NULL, counts = NULL, y = tj_unique_consecutive(x, &inverse, &counts);
	return layer_also(m, inverse), layer_also(m, tj_sum(counts, TJ_ALL, false)), tj_sum(y, TJ_ALL, false);
}
static T f_diff(M *m, T x)
{
	const int a = axis(m, x), n = (int)below(m, 4);
	dims d = with(x, a, from_to(m, 1, 2));
	T before = chance(m, 30) ? some(m, tj_dtype_of(x), d.v) : NULL, after = chance(m, 30) ? some(m, tj_dtype_of(x), d.v) : NULL;
	return tj_diff(x, n, a, before, after);
}
static T spacing(M *m, T x, int a) { return chance(m, 50) ? tj_f(positive(m)) : chance(m, 60) ? row(m, x, dim(x, a)) : like(m, x); }
static T f_trapezoid(M *m, T x)
{
	const int a = axis(m, x);
	T s = spacing(m, x, a);
	return chance(m, 50) ? tj_trapezoid(x, s, a) : tj_cumulative_trapezoid(x, s, a);
}
static T f_gradient(M *m, T x)
{
	const int a = axis(m, x);
	T s = chance(m, 50) ? tj_f(positive(m)) : row(m, x, dim(x, a));
	return tj_gradient(x, s, a, (int)from_to(m, 1, 2));
}

/* ---- products ---- */
static tj_dtype beside_dtype(M *m, T x) { return chance(m, 90) ? tj_dtype_of(x) : any_dtype(m); }
static T f_mm(M *m, T x)
{
	T b = some(m, beside_dtype(m, x), TJ_SHAPE(dim(x, 1), layer_size(m)));
	return tj_mm(x, b);
}
static T f_mv(M *m, T x) { return tj_mv(x, some(m, beside_dtype(m, x), TJ_SHAPE(dim(x, 1)))); }
static T f_bmm(M *m, T x)
{
	T b = some(m, beside_dtype(m, x), TJ_SHAPE(dim(x, 0), dim(x, 2), layer_size(m)));
	return tj_bmm(x, b);
}
static T f_dot(M *m, T x) { return tj_dot(x, like(m, x)); }
static T f_vdot(M *m, T x) { return tj_vdot(x, like(m, x)); }
static T f_vecdot(M *m, T x)
{
	T y = some(m, beside_dtype(m, x), shape_of(x).v);
	return tj_vecdot(x, y, axis(m, x));
}
static T f_inner(M *m, T x)
{
	T b = some(m, beside_dtype(m, x), chance(m, 50) ? TJ_SHAPE(dim(x, -1)) : TJ_SHAPE(3, dim(x, -1)));
	return tj_inner(x, b);
}
static T f_outer(M *m, T x) { return tj_outer(x, some(m, beside_dtype(m, x), TJ_SHAPE(layer_size(m)))); }
static T f_kron(M *m, T x)
{
	T y = some(m, beside_dtype(m, x), chance(m, 50) ? TJ_SHAPE(2, 3) : TJ_SHAPE(2));
	return chance(m, 50) ? tj_kron(x, y) : tj_kron(y, x);
}
static T f_cross(M *m, T x)
{
	const int a = axis(m, x);
	dims d = with(x, a, 3);
	T p = some(m, tj_dtype_of(x), d.v);
	return tj_cross(p, some(m, beside_dtype(m, x), d.v), a);
}
static T f_tensordot(M *m, T x)
{
	const int a = axis(m, x);
	T b = some(m, beside_dtype(m, x), chance(m, 50) ? TJ_SHAPE(dim(x, a), layer_size(m)) : TJ_SHAPE(dim(x, a)));
	return tj_tensordot(x, b, TJ_AXES(a), TJ_AXES(0));
}
static T f_addmm(M *m, T x)
{
	const int64_t n = from_to(m, 1, 6);
	T b = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 1), n)), c = some(m, tj_dtype_of(x), chance(m, 50) ? TJ_SHAPE(n) : TJ_SHAPE(dim(x, 0), n));
	const double beta = is_float(x) ? real(m) : (double)below(m, 3);
	return tj_addmm(c, x, b, beta, is_float(x) ? real(m) : (double)below(m, 3));
}
static T f_addmv(M *m, T x)
{
	T b = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 1))), c = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 0)));
	return tj_addmv(c, x, b, real(m), 1);
}
static T f_addr(M *m, T x)
{
	const int64_t n = from_to(m, 1, 6);
	T b = row(m, x, n), c = some(m, tj_dtype_of(x), chance(m, 50) ? TJ_SHAPE(n) : TJ_SHAPE(dim(x, 0), n));
	return tj_addr(c, x, b, real(m), 2);
}
static T f_addbmm(M *m, T x)
{
	const int64_t n = from_to(m, 1, 5);
	T b = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 0), dim(x, 2), n)), c = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 1), n));
	const double beta = real(m), alpha = real(m);
	return chance(m, 50) ? tj_addbmm(c, x, b, beta, alpha) : tj_baddbmm(c, x, b, beta, alpha);
}
static T f_multi_dot(M *m, T x)
{
	const int64_t k = from_to(m, 1, 5);
	T b = some(m, tj_dtype_of(x), TJ_SHAPE(dim(x, 1), k)), c = some(m, tj_dtype_of(x), chance(m, 50) ? TJ_SHAPE(k) : TJ_SHAPE(k, 2));
	return tj_multi_dot(TJ_LIST(x, b, c));
}
static T square(T x) { return dim(x, 0) < dim(x, 1) ? tj_narrow(x, 1, 0, dim(x, 0)) : tj_narrow(x, 0, 0, dim(x, 1)); }
static T f_matrix_power(M *m, T x) { return tj_matrix_power(square(x), (int)below(m, 5)); }
static T f_matrix_norm(M *m, T x)
{
	static const double p[] = { 0, 1, -1, INFINITY, -INFINITY, 2, -2 };
	return tj_matrix_norm(x, p[below(m, is_float(x) ? 7 : 5)], chance(m, 50));
}
static T f_einsum(M *m, T x)
{
	static const char *const of[5][6] = { { 0 },
		                              { "i,i->", "i,j->ij", "i->", "i,ij->j", "i,i->i", "i,ij,j->" },
		                              { "ij,jk->ik", "ij->ji", "ij,j->i", "ij,ij->", "ij,jk,kl->il", "ij,kj" },
		                              { "bij,bjk->bik", "bij,kj->bki", "bij->b", "ijk,kl,l->ij", "ijk,ijk->k", "bij,jk,ikl->bl" },
		                              { "abij,abjk->abik", "abij->ba", "abcd,cd->ab", "abcd,dce->abe", "abcd,b->ac",
		                                "abcd,abcd->bd" } };
	const char *eq = of[rank(x)][below(m, 6)], *s = eq;
	int64_t sizes[128] = { 0 };
	T list[4] = { x };
	int n = 0;
	for (int i = 0; *s && *s != '-'; s++, i++) {
		if (*s == ',') break;
		sizes[(int)*s] = dim(x, i);
	}
	while (*s == ',') {
		dims d;
		int r = 0;
		for (s++; *s >= 'a'; s++) {
			if (!sizes[(int)*s]) sizes[(int)*s] = from_to(m, 1, 6);
			d.v[r++] = sizes[(int)*s];
		}
		d.v[r] = TJ_END_DIM;
		list[++n] = some(m, tj_dtype_of(x), d.v);
	}
	list[n + 1] = TJ_END;
	return tj_einsum(eq, list, TJ_OPTS(tj_einsum_opts, .path = (tj_path)below(m, 4)));
}

/* ---- special functions, windows ---- */
static T f_entr(M *m, T x) { return chance(m, 50) ? tj_entr(x) : tj_entr(tj_abs(x)); }
static T f_logit(M *m, T x) { return tj_logit(chance(m, 70) ? unit(x) : x, chance(m, 50) ? -1 : 1e-3); }
static T f_multigammaln(M *m, T x) { return tj_multigammaln(tj_add(tj_abs(x), tj_f(2)), (int)from_to(m, 1, 3)); }
static T f_window(M *m, T x)
{
	(void)x;
	const tj_dtype t = float_dtype(m);
	const int64_t n = layer_size(m);
	const bool p = chance(m, 50);
	const double a = positive(m);
	switch (below(m, 10)) {
	case 0: return tj_hann_window(t, n, p);
	case 1: return tj_hamming_window(t, n, p, 0.54, 0.46);
	case 2: return tj_blackman_window(t, n, p);
	case 3: return tj_nuttall_window(t, n, p);
	case 4: return tj_general_cosine_window(t, n, p, ((double[]){ a, 0.5, 0.1 }), 3);
	case 5: return tj_bartlett_window(t, n, p);
	case 6: return tj_kaiser_window(t, n, p, a);
	case 7: return tj_gaussian_window(t, n, p, a);
	case 8: return tj_exponential_window(t, n, p, a);
	default: return tj_cosine_window(t, n, p);
	}
}

/* ---- layers ---- */
static T f_linear(M *m, T x)
{
	const int64_t o = layer_size(m);
	T w = some(m, tj_dtype_of(x), TJ_SHAPE(o, dim(x, -1)));
	return tj_linear(x, w, row_or_none(m, x, o));
}
static T f_bilinear(M *m, T x)
{
	const int64_t o = from_to(m, 1, 4), j = from_to(m, 1, 5);
	dims d = with(x, -1, j);
	T b = some(m, tj_dtype_of(x), d.v), w = some(m, tj_dtype_of(x), TJ_SHAPE(o, dim(x, -1), j));
	return tj_bilinear(x, b, w, row_or_none(m, x, o));
}
static T cell(M *m, T x, int which)
{
	const int64_t h = from_to(m, 1, 6), g = which < 2 ? 1 : which == 2 ? 3 : 4;
	dims d = with(x, -1, h);
	T before = some(m, tj_dtype_of(x), d.v), c = which == 3 ? some(m, tj_dtype_of(x), d.v) : NULL, next = NULL, y;
	tj_cell w = { .w_ih = some(m, tj_dtype_of(x), TJ_SHAPE(g * h, dim(x, -1))), .w_hh = some(m, tj_dtype_of(x), TJ_SHAPE(g * h, h)) };
	if (chance(m, 50)) w.b_ih = row(m, x, g * h);
	if (chance(m, 50)) w.b_hh = row(m, x, g * h);
	if (which == 0) return tj_rnn_tanh_cell(x, before, &w);
	if (which == 1) return tj_rnn_relu_cell(x, before, &w);
	if (which == 2) return tj_gru_cell(x, before, &w);
	y = tj_lstm_cell(x, before, c, &w, &next);
	return layer_also(m, next), y;
}
static T f_rnn_tanh_cell(M *m, T x) { return cell(m, x, 0); }
static T f_rnn_relu_cell(M *m, T x) { return cell(m, x, 1); }
static T f_gru_cell(M *m, T x) { return cell(m, x, 2); }
static T f_lstm_cell(M *m, T x) { return cell(m, x, 3); }
static T f_embedding_bag(M *m, T x)
{
	const tj_bag_mode mode = (tj_bag_mode)below(m, 3);
	const int64_t bags = from_to(m, 1, 4), n = from_to(m, 1, 4);
	const bool flat = chance(m, 50);
	tj_bag_opts o = { .size = sizeof o, .mode = mode, .pads = chance(m, 40), .padding_index = below(m, dim(x, 0)) };
	T i = index_of(m, flat ? TJ_SHAPE(bags * n) : TJ_SHAPE(bags, n), 0, dim(x, 0) - 1);
	if (flat) o.offsets = tj_mul(tj_arange(TJ_I64, 0, bags, 1), tj_i(n - below(m, 2)));
	if (mode == TJ_BAG_SUM && chance(m, 40)) o.weights = flat ? row(m, x, bags * n) : some(m, tj_dtype_of(x), TJ_SHAPE(bags, n));
	return tj_embedding_bag(i, x, &o);
}
static T f_batch_norm(M *m, T x)
{
	const int64_t c = dim(x, 1);
	const bool training = chance(m, 60), keeps = !training || chance(m, 60);
	const tj_dtype t = tj_dtype_of(x);
	T mean = keeps ? cell_of(m, t, TJ_SHAPE(c)) : NULL, var = keeps ? cell_of(m, t, TJ_SHAPE(c)) : NULL, w = row_or_none(m, x, c),
	  b = row_or_none(m, x, c);
	return tj_batch_norm(x, mean, var, w, b, TJ_OPTS(tj_norm_opts, .training = training, .momentum = chance(m, 50) ? 0.3 : 0));
}
static T f_instance_norm(M *m, T x)
{
	const int64_t c = dim(x, 1);
	const bool keeps = chance(m, 40);
	T mean = keeps ? cell_of(m, tj_dtype_of(x), TJ_SHAPE(c)) : NULL, var = keeps ? cell_of(m, tj_dtype_of(x), TJ_SHAPE(c)) : NULL,
	  w = row_or_none(m, x, c), b = row_or_none(m, x, c);
	return tj_instance_norm(x, mean, var, w, b, TJ_OPTS(tj_norm_opts, .training = chance(m, 50), .eps = chance(m, 30) ? 1e-3 : 0));
}
static T f_group_norm(M *m, T x)
{
	const int64_t c = dim(x, 1);
	int64_t groups = from_to(m, 1, 4);
	while (c % groups) groups--;
	T w = row_or_none(m, x, c);
	return tj_group_norm(x, groups, w, row_or_none(m, x, c), 1e-5);
}
static T f_layer_norm_over(M *m, T x)
{
	const int n = (int)from_to(m, 1, rank(x));
	dims d = shape_of(x);
	tj_dims last = d.v + rank(x) - n;
	T w = chance(m, 50) ? some(m, tj_dtype_of(x), last) : NULL, b = chance(m, 50) ? some(m, tj_dtype_of(x), last) : NULL;
	return chance(m, 50) ? tj_layer_norm_over(x, last, w, b, 1e-5) : tj_rms_norm_over(x, last, w, 1e-5);
}
static T f_local_response_norm(M *m, T x) { return tj_local_response_norm(x, from_to(m, 1, 4), 1e-2, chance(m, 50) ? 0.75 : 1, 1); }
static T f_attention(M *m, T x)
{
	const int64_t s = layer_size(m), v = from_to(m, 1, 6), l = dim(x, -2);
	dims dk = with(x, -2, s), dv = dk;
	dv.v[rank(x) - 1] = v;
	T k = some(m, tj_dtype_of(x), dk.v), w = some(m, tj_dtype_of(x), dv.v);
	tj_attention_opts o = { .size = sizeof o,
		                .causal = chance(m, 40),
		                .causal_offset = chance(m, 30) ? s - l : 0,
		                .scale = chance(m, 30) ? 0.5 : 0,
		                .dropout = chance(m, 15) ? 0.3 : 0 };
	if (chance(m, 40)) o.mask = chance(m, 50) ? mask(m, TJ_SHAPE(l, s)) : some(m, tj_dtype_of(x), TJ_SHAPE(l, s));
	return tj_scaled_dot_product_attention(x, k, w, &o);
}

/* ---- losses ---- */
static tj_loss_reduction reduction(M *m) { return (tj_loss_reduction)below(m, 4); }
static T target(M *m, T x) { return chance(m, 10) ? some(m, tj_dtype_of(x), TJ_0D) : like(m, x); }
static T f_mse_loss(M *m, T x)
{
	T t = target(m, x);
	return chance(m, 50) ? tj_mse_loss(x, t, reduction(m)) : tj_l1_loss(x, t, reduction(m));
}
static T f_smooth_l1_loss(M *m, T x)
{
	T t = target(m, x);
	const double b = positive(m);
	return chance(m, 50) ? tj_smooth_l1_loss(x, t, b, reduction(m)) : tj_huber_loss(x, t, b, reduction(m));
}
static T f_kl_div(M *m, T x)
{
	T t = target(m, x);
	const bool l = chance(m, 50);
	return tj_kl_div(x, l ? t : unit(t), l, reduction(m));
}
static T f_poisson_nll_loss(M *m, T x)
{
	T t = target(m, x);
	const bool l = chance(m, 50), full = chance(m, 50);
	return tj_poisson_nll_loss(x, t, l, full, 1e-8, reduction(m));
}
static T f_gaussian_nll_loss(M *m, T x)
{
	T t = like(m, x), v = chance(m, 70) ? like(m, x) : some(m, tj_dtype_of(x), TJ_0D);
	return tj_gaussian_nll_loss(x, t, tj_abs(v), chance(m, 50), 1e-6, reduction(m));
}
static T signs(M *m, T x) { return tj_sign(tj_add(like(m, x), tj_f(0.01))); }
static T f_hinge_embedding_loss(M *m, T x)
{
	T t = signs(m, x);
	return chance(m, 50) ? tj_hinge_embedding_loss(x, t, 1, reduction(m)) : tj_soft_margin_loss(x, t, reduction(m));
}
static T f_margin_ranking_loss(M *m, T x)
{
	T y = like(m, x), t = signs(m, x);
	return tj_margin_ranking_loss(x, y, t, 0.5, reduction(m));
}
static T f_cosine_embedding_loss(M *m, T x)
{
	T y = like(m, x), t = tj_sign(tj_sub(layer_of(m, TJ_F32, without(x, -1).v), tj_f(0.01)));
	return tj_cosine_embedding_loss(x, y, tj_cast(t, tj_dtype_of(x)), 0.25, reduction(m));
}
static T f_triplet_margin_loss(M *m, T x)
{
	T a = like(m, x), b = like(m, x);
	return tj_triplet_margin_loss(x, a, b, 1, chance(m, 70) ? 2 : 1, chance(m, 50), reduction(m));
}
static T f_binary_cross_entropy(M *m, T x)
{
	T t = unit(like(m, x));
	tj_loss_opts o = { .size = sizeof o, .reduction = reduction(m) };
	if (chance(m, 30)) o.weight = like(m, x);
	if (chance(m, 50)) return tj_binary_cross_entropy(unit(x), t, &o);
	if (chance(m, 40)) o.pos_weight = row(m, x, dim(x, -1));
	return tj_binary_cross_entropy_with_logits(x, t, &o);
}
static T classes(M *m, T x, int which)
{
	const int a = rank(x) > 1 ? 1 : 0;
	tj_loss_opts o = { .size = sizeof o,
		           .reduction = (tj_loss_reduction)below(m, 3),
		           .ignore = chance(m, 40),
		           .ignore_index = chance(m, 50) ? 0 : -100 };
	if (chance(m, 40)) o.weight = row(m, x, dim(x, a));
	if (which == 1 && chance(m, 20)) return tj_cross_entropy_loss(x, tj_softmax(like(m, x), a), &o);
	T t = index_of(m, without(x, a).v, 0, dim(x, a) - 1);
	if (which == 0) return tj_nll_loss(tj_log_softmax(x, a), t, &o);
	if (chance(m, 30)) o.label_smoothing = 0.1;
	return tj_cross_entropy_loss(x, t, &o);
}
static T f_nll_loss(M *m, T x) { return classes(m, x, 0); }
static T f_cross_entropy_loss(M *m, T x) { return classes(m, x, 1); }
static T f_multi_margin_loss(M *m, T x)
{
	T t = index_of(m, rank(x) > 1 ? TJ_SHAPE(dim(x, 0)) : TJ_0D, 0, dim(x, -1) - 1);
	tj_loss_opts o = { .size = sizeof o, .reduction = (tj_loss_reduction)below(m, 3) };
	if (chance(m, 40)) o.weight = row(m, x, dim(x, -1));
	return tj_multi_margin_loss(x, t, (int)from_to(m, 1, 2), positive(m), &o);
}
static T f_multilabel_margin_loss(M *m, T x)
{
	return tj_multilabel_margin_loss(x, index_of(m, shape_of(x).v, -1, dim(x, -1) - 1), (tj_loss_reduction)below(m, 3));
}
static T f_multilabel_soft_margin_loss(M *m, T x)
{
	T t = unit(like(m, x));
	tj_loss_opts o = { .size = sizeof o, .reduction = (tj_loss_reduction)below(m, 3) };
	if (chance(m, 40)) o.weight = row(m, x, dim(x, -1));
	return tj_multilabel_soft_margin_loss(x, t, &o);
}
static T f_ctc_loss(M *m, T x)
{
	const int64_t steps = dim(x, 0), n = dim(x, 1), c = dim(x, 2), labels = from_to(m, 1, 4);
	T l = tj_log_softmax(x, 2), targets = index_of(m, TJ_SHAPE(n, labels), 1, c - 1), in = index_of(m, TJ_SHAPE(n), 1, steps),
	  of = index_of(m, TJ_SHAPE(n), 0, labels);
	return tj_ctc_loss(l, targets, in, of, 0, chance(m, 50), (tj_loss_reduction)below(m, 3));
}

/* ---- random numbers, dropout ---- */
static T f_dropout(M *m, T x)
{
	const double p = chance(m, 10) ? 1 : chance(m, 10) ? 0 : 0.4;
	const bool training = chance(m, 85);
	switch (rank(x) < 2 ? 2 * below(m, 2) : below(m, 4)) {
	case 0: return tj_dropout(x, p, training);
	case 1: return tj_feature_alpha_dropout(x, p, training);
	case 2: return tj_alpha_dropout(x, p, training);
	default:
		return rank(x) == 3   ? tj_dropout1d(x, p, training)
		       : rank(x) == 4 ? tj_dropout2d(x, p, training)
		       : rank(x) == 5 ? tj_dropout3d(x, p, training)
		                      : tj_dropout1d(x, p, training);
	}
}
static T f_bernoulli(M *m, T x)
{
	return chance(m, 50) ? tj_bernoulli(any_dtype(m), NULL, unit(x))
	                     : tj_bernoulli(any_dtype(m), TJ_SHAPE(layer_size(m), 3), tj_f(0.4));
}
static T f_randint(M *m, T x)
{
	(void)x;
	const int64_t n = layer_size(m);
	switch (below(m, 3)) {
	case 0: return tj_randint(any_dtype(m), TJ_SHAPE(n, 2), 0, 2);
	case 1: return tj_randperm(n);
	default: return tj_exponential(float_dtype(m), TJ_SHAPE(n), positive(m));
	}
}
static T f_random_normal(M *m, T x)
{
	dims d = shape_of(x);
	T a = chance(m, 50) ? x : tj_f(real(m)), b = tj_f(positive(m));
	return chance(m, 50) ? tj_random_normal(tj_dtype_of(x), d.v, a, b)
	                     : tj_random_uniform(tj_dtype_of(x), d.v, a, chance(m, 50) ? tj_add(x, tj_f(1)) : b);
}
static T f_multinomial(M *m, T x)
{
	const bool replacement = chance(m, 50);
	return tj_multinomial(tj_add(unit(x), tj_f(0.01)), replacement ? from_to(m, 1, 5) : from_to(m, 1, dim(x, -1)), replacement);
}
static T f_like(M *m, T x)
{
	return chance(m, 40)   ? tj_full_like(x, number(m))
	       : !is_float(x)  ? tj_ones_like(x)
	       : chance(m, 50) ? tj_rand_like(x)
	                       : tj_randn_like(x);
}

/* ---- convolution and pooling; x has n axes behind the channels, and perhaps an axis of examples ---- */
static T conv(M *m, T x, int n, bool transpose)
{
	const bool batch = rank(x) == n + 2;
	const int64_t c = dim(x, batch);
	int64_t groups = chance(m, 30) ? from_to(m, 1, 4) : 1, out = from_to(m, 1, 4);
	while (c % groups) groups--;
	tj_conv_opts o = { .size = sizeof o, .groups = groups };
	dims d;
	d.v[0] = transpose ? c : out * groups;
	d.v[1] = transpose ? out : c / groups;
	for (int i = 0; i < n; i++) {
		const int64_t k = short_size(m, dim(x, i + 1 + batch));
		d.v[i + 2] = k;
		o.stride[i] = from_to(m, 1, 2);
		o.dilation[i] = chance(m, 20) ? 2 : 1;
		o.padding[i] = o.dilation[i] > 1 ? 2 : below(m, k);
		if (transpose && o.stride[i] > 1) o.output_padding[i] = below(m, 2);
	}
	if (!transpose && chance(m, 15)) {
		o.same = true;
		for (int i = 0; i < n; i++) o.stride[i] = 1, o.padding[i] = 0;
	}
	if (!transpose && chance(m, 20)) o.padding_mode = (tj_pad_mode)below(m, 4);
	d.v[n + 2] = TJ_END_DIM;
	T w = some(m, tj_dtype_of(x), d.v), b = row_or_none(m, x, out * groups);
	if (transpose)
		return n == 1   ? tj_conv_transpose1d(x, w, b, &o)
		       : n == 2 ? tj_conv_transpose2d(x, w, b, &o)
		                : tj_conv_transpose3d(x, w, b, &o);
	return n == 1 ? tj_conv1d(x, w, b, &o) : n == 2 ? tj_conv2d(x, w, b, &o) : tj_conv3d(x, w, b, &o);
}
static T f_conv1d(M *m, T x) { return conv(m, x, 1, false); }
static T f_conv2d(M *m, T x) { return conv(m, x, 2, false); }
static T f_conv3d(M *m, T x) { return conv(m, x, 3, false); }
static T f_conv_transpose1d(M *m, T x) { return conv(m, x, 1, true); }
static T f_conv_transpose2d(M *m, T x) { return conv(m, x, 2, true); }
static T f_conv_transpose3d(M *m, T x) { return conv(m, x, 3, true); }

static tj_pool_opts window(M *m, T x, int n, dims *kernel, bool dilates)
{
	tj_pool_opts o = { .size = sizeof o, .ceil = chance(m, 30) };
	for (int i = 0; i < n; i++) {
		kernel->v[i] = short_size(m, dim(x, i - n));
		o.stride[i] = below(m, 3);
		o.dilation[i] = dilates && chance(m, 15) ? 2 : 1;
		o.padding[i] = below(m, kernel->v[i] / 2 + 1);
	}
	kernel->v[n] = TJ_END_DIM;
	return o;
}
static T max_pool(M *m, T x, int n)
{
	dims k;
	const tj_pool_opts o = window(m, x, n, &k, true);
	T i = NULL, y;
	if (chance(m, 50)) return n == 1 ? tj_max_pool1d(x, k.v, &o) : n == 2 ? tj_max_pool2d(x, k.v, &o) : tj_max_pool3d(x, k.v, &o);
	y = n == 1   ? tj_max_pool1d_with_indices(x, k.v, &o, &i)
	    : n == 2 ? tj_max_pool2d_with_indices(x, k.v, &o, &i)
	             : tj_max_pool3d_with_indices(x, k.v, &o, &i);
	layer_also(m, i);
	if (chance(m, 50)) return y;
	dims size = shape_of(x);
	tj_dims last = size.v + rank(x) - n;
	layer_also(m, y);
	return n == 1 ? tj_max_unpool1d(y, i, last) : n == 2 ? tj_max_unpool2d(y, i, last) : tj_max_unpool3d(y, i, last);
}
static T f_max_pool1d(M *m, T x) { return max_pool(m, x, 1); }
static T f_max_pool2d(M *m, T x) { return max_pool(m, x, 2); }
static T f_max_pool3d(M *m, T x) { return max_pool(m, x, 3); }
static T avg_pool(M *m, T x, int n)
{
	dims k;
	tj_pool_opts o = window(m, x, n, &k, false);
	o.exclude_padding = chance(m, 40);
	o.divisor = chance(m, 20) ? 3 : 0;
	return n == 1 ? tj_avg_pool1d(x, k.v, &o) : n == 2 ? tj_avg_pool2d(x, k.v, &o) : tj_avg_pool3d(x, k.v, &o);
}
static T f_avg_pool1d(M *m, T x) { return avg_pool(m, x, 1); }
static T f_avg_pool2d(M *m, T x) { return avg_pool(m, x, 2); }
static T f_avg_pool3d(M *m, T x) { return avg_pool(m, x, 3); }
static T lp_pool(M *m, T x, int n)
{
	dims k;
	tj_pool_opts o = window(m, x, n, &k, false);
	memset(o.padding, 0, sizeof o.padding);
	const double p = chance(m, 60) ? 2 : 1;
	return n == 1 ? tj_lp_pool1d(x, p, k.v, &o) : n == 2 ? tj_lp_pool2d(x, p, k.v, &o) : tj_lp_pool3d(x, p, k.v, &o);
}
static T f_lp_pool1d(M *m, T x) { return lp_pool(m, x, 1); }
static T f_lp_pool2d(M *m, T x) { return lp_pool(m, x, 2); }
static T f_lp_pool3d(M *m, T x) { return lp_pool(m, x, 3); }
static T adaptive(M *m, T x, int n)
{
	dims k;
	T i = NULL, y;
	for (int a = 0; a < n; a++) k.v[a] = short_size(m, 3);
	k.v[n] = TJ_END_DIM;
	switch (below(m, 3)) {
	case 0: return n == 1 ? tj_adaptive_max_pool1d(x, k.v) : n == 2 ? tj_adaptive_max_pool2d(x, k.v) : tj_adaptive_max_pool3d(x, k.v);
	case 1: return n == 1 ? tj_adaptive_avg_pool1d(x, k.v) : n == 2 ? tj_adaptive_avg_pool2d(x, k.v) : tj_adaptive_avg_pool3d(x, k.v);
	default: break;
	}
	y = n == 1   ? tj_adaptive_max_pool1d_with_indices(x, k.v, &i)
	    : n == 2 ? tj_adaptive_max_pool2d_with_indices(x, k.v, &i)
	             : tj_adaptive_max_pool3d_with_indices(x, k.v, &i);
	return layer_also(m, i), y;
}
static T f_adaptive_pool1d(M *m, T x) { return adaptive(m, x, 1); }
static T f_adaptive_pool2d(M *m, T x) { return adaptive(m, x, 2); }
static T f_adaptive_pool3d(M *m, T x) { return adaptive(m, x, 3); }

/* ---- shuffles, columns, sizes and places of pictures ---- */
static T f_pixel_shuffle(M *m, T x)
{
	const int64_t f = from_to(m, 1, 2);
	dims d = with(x, -3, f * f * from_to(m, 1, 2));
	return tj_pixel_shuffle(some(m, tj_dtype_of(x), d.v), f);
}
static T f_pixel_unshuffle(M *m, T x)
{
	const int64_t f = from_to(m, 1, 3);
	dims d = with(x, -1, f * from_to(m, 1, 3));
	d.v[rank(x) - 2] = f * from_to(m, 1, 3);
	return tj_pixel_unshuffle(some(m, tj_dtype_of(x), d.v), f);
}
static T f_channel_shuffle(M *m, T x)
{
	int64_t groups = from_to(m, 1, 4);
	while (dim(x, 1) % groups) groups--;
	return tj_channel_shuffle(x, groups);
}
static T f_im2col(M *m, T x)
{
	dims k;
	tj_pool_opts o = window(m, x, 2, &k, true);
	o.ceil = false;
	T y = tj_im2col(x, k.v, &o);
	if (chance(m, 50)) return y;
	layer_also(m, y);
	return tj_col2im(y, TJ_SHAPE(dim(x, -2), dim(x, -1)), k.v, &o);
}
static T f_interpolate(M *m, T x)
{
	const int n = rank(x) - 2;
	tj_sampling mode = (tj_sampling)below(m, 6);
	tj_interpolate_opts o = { .size = sizeof o, .mode = mode };
	if (mode == TJ_SAMPLE_CUBIC && n != 2) o.mode = TJ_SAMPLE_LINEAR;
	const bool smooth = o.mode == TJ_SAMPLE_LINEAR || o.mode == TJ_SAMPLE_CUBIC;
	if (smooth) o.align_corners = chance(m, 40), o.antialias = n == 2 && chance(m, 30);
	dims d;
	const bool scale = chance(m, 30);
	for (int i = 0; i < n; i++) {
		d.v[i] = from_to(m, 1, 9);
		o.scale[i] = scale ? (double)from_to(m, 3, 9) / 4 : 0;
	}
	d.v[n] = TJ_END_DIM;
	return tj_interpolate(x, scale ? NULL : d.v, &o);
}
static T f_grid_sample(M *m, T x)
{
	const int n = rank(x) - 2;
	const int64_t a = from_to(m, 1, 4), b = from_to(m, 1, 4);
	T g = some(m, tj_dtype_of(x), n == 2 ? TJ_SHAPE(dim(x, 0), a, b, 2) : TJ_SHAPE(dim(x, 0), a, b, 2, 3));
	static const tj_sampling modes[] = { TJ_SAMPLE_DEFAULT, TJ_SAMPLE_NEAREST, TJ_SAMPLE_LINEAR, TJ_SAMPLE_CUBIC };
	return tj_grid_sample(x, chance(m, 50) ? g : tj_tanh(g),
	                      TJ_OPTS(tj_grid_sample_opts, .mode = modes[below(m, n == 2 ? 4 : 3)], .padding = (tj_pad_mode)below(m, 3),
	                              .align_corners = chance(m, 50)));
}
static T f_affine_grid(M *m, T x)
{
	const bool deep = chance(m, 40);
	const int64_t n = dim(x, 0), h = from_to(m, 1, 5), w = from_to(m, 1, 5);
	T theta = some(m, tj_dtype_of(x), deep ? TJ_SHAPE(n, 3, 4) : TJ_SHAPE(n, 2, 3));
	return tj_affine_grid(theta, deep ? TJ_SHAPE(n, 1, 2, h, w) : TJ_SHAPE(n, 1, h, w), chance(m, 50));
}

/* ---- beside them, so that programs have what fuses ---- */
static T f_point(M *m, T x)
{
	T y = like(m, x);
	switch (below(m, 8)) {
	case 0: return tj_add(x, y);
	case 1: return tj_mul(x, number(m));
	case 2: return tj_relu(x);
	case 3: return tj_tanh(x);
	case 4: return tj_where(tj_gt(x, y), x, y);
	case 5: return tj_cast(x, any_dtype(m));
	case 6: return tj_sub(y, x);
	default: return tj_gelu(x);
	}
}
static T f_view(M *m, T x)
{
	const int a = axis(m, x);
	switch (below(m, 4)) {
	case 0: return tj_flip(x, TJ_AXES(a));
	case 1: return tj_transpose(x, a, (int)below(m, rank(x)));
	case 2: return tj_slice(x, a, 0, TJ_END_DIM, 2);
	default: return tj_unsqueeze(x, a);
	}
}
static T f_sum(M *m, T x) { return chance(m, 50) ? tj_sum(x, AXES(m, x), chance(m, 50)) : tj_softmax(x, axis(m, x)); }

/* ---- parts of numbers, places, special functions of two numbers ---- */
static T parts(M *m, T x, int which)
{
	T also = NULL, y = which == 0   ? tj_frexp(x, &also)
	                   : which == 1 ? tj_modf(x, &also)
	                                : tj_divmod(x, some(m, tj_dtype_of(x), chance(m, 50) ? TJ_0D : shape_of(x).v), &also);
	return layer_also(m, also), y;
}
static T f_frexp(M *m, T x) { return parts(m, x, 0); }
static T f_modf(M *m, T x) { return parts(m, x, 1); }
static T f_divmod(M *m, T x) { return parts(m, is_float(x) ? x : tj_cast(x, TJ_F32), 2); }
static T f_part(M *m, T x)
{
	switch (below(m, 6)) {
	case 0: return tj_logb(x);
	case 1: return tj_ilogb(x);
	case 2: return tj_spacing(x);
	case 3: return tj_isposinf(x);
	case 4: return tj_isneginf(x);
	default: return tj_round_decimals(x, (int)from_to(m, -2, 3));
	}
}
static T f_fdim(M *m, T x)
{
	T y = like(m, x);
	return chance(m, 50) ? tj_fdim(x, y) : tj_remainder_ieee(x, y);
}
static T f_repeat(M *m, T x)
{
	dims d = { { 0 } };
	const int n = rank(x) + (chance(m, 30) ? 1 : 0);
	for (int i = 0; i < n; i++) d.v[i] = from_to(m, chance(m, 5) ? 0 : 1, 3);
	d.v[n] = TJ_END_DIM;
	return tj_repeat(x, d.v);
}
static T f_unravel_index(M *m, T x)
{
	T out[3] = { NULL };
	(void)x;
	const int64_t r = from_to(m, 1, 4), c = layer_size(m);
	tj_unravel_index(index_of(m, TJ_SHAPE(from_to(m, 1, 5)), 0, r * c - 1), TJ_SHAPE(r, c), out);
	return layer_also(m, out[1]), out[0];
}
static T f_static(M *m, T x)
{
	T count = NULL;
	const int64_t size = from_to(m, 0, 8);
	T y = chance(m, 50) ? tj_nonzero_static(x, size, -1, &count) : tj_unique_static(x, size, number(m), &count);
	return layer_also(m, count), y;
}
static T f_histogramdd(M *m, T x)
{
	T edges = tj_linspace(tj_dtype_of(x), -2, 3, from_to(m, 2, 5));
	return tj_histogramdd(tj_narrow(x, -1, 0, 2), TJ_LIST(edges, edges), chance(m, 30) ? row(m, x, dim(x, 0)) : NULL, chance(m, 50));
}
static T f_igamma(M *m, T x)
{
	T a = tj_add(tj_abs(like(m, x)), tj_f(0.1));
	return chance(m, 50) ? tj_igamma(a, tj_abs(x)) : tj_igammac(a, tj_abs(x));
}
static T f_zeta(M *m, T x)
{
	T q = tj_add(tj_abs(like(m, x)), tj_f(0.5));
	return tj_zeta(tj_add(tj_abs(x), tj_f(1.5)), q);
}
static T f_polynomial(M *m, T x)
{
	const int n = (int)from_to(m, 0, 7);
	switch (below(m, 12)) {
	case 0: return tj_chebyshev_polynomial_t(x, n);
	case 1: return tj_chebyshev_polynomial_u(x, n);
	case 2: return tj_chebyshev_polynomial_v(x, n);
	case 3: return tj_chebyshev_polynomial_w(x, n);
	case 4: return tj_shifted_chebyshev_polynomial_t(x, n);
	case 5: return tj_shifted_chebyshev_polynomial_u(x, n);
	case 6: return tj_shifted_chebyshev_polynomial_v(x, n);
	case 7: return tj_shifted_chebyshev_polynomial_w(x, n);
	case 8: return tj_hermite_polynomial_h(x, n);
	case 9: return tj_hermite_polynomial_he(x, n);
	case 10: return tj_laguerre_polynomial_l(x, n);
	default: return tj_legendre_polynomial_p(x, n);
	}
}
static T f_multi_head_attention(M *m, T x)
{
	const int64_t e = dim(x, -1);
	const int heads = e % 2 ? 1 : 2;
	dims d = with(x, -2, layer_size(m));
	T k = chance(m, 40) ? x : some(m, tj_dtype_of(x), d.v), v = k;
	T in = some(m, tj_dtype_of(x), TJ_SHAPE(3 * e, e)), out = some(m, tj_dtype_of(x), TJ_SHAPE(e, e));
	tj_multi_head_opts o = {
		.size = sizeof o, .in_bias = row_or_none(m, x, 3 * e), .out_bias = row_or_none(m, x, e), .causal = chance(m, 30)
	};
	return tj_multi_head_attention(x, k, v, heads, in, out, &o);
}
static T f_drawn(M *m, T x)
{
	const tj_dtype t = tj_dtype_of(x);
	dims d = shape_of(x);
	switch (below(m, 5)) {
	case 0: return tj_geometric(t, d.v, 0.3);
	case 1: return tj_cauchy(t, d.v, real(m), positive(m));
	case 2: return tj_log_normal(t, d.v, 0.5, positive(m));
	case 3: return tj_gumbel_softmax(x, positive(m), chance(m, 50), axis(m, x));
	default: return tj_rrelu(x, 0.125, 0.5, chance(m, 70));
	}
}

/* ---- linear algebra ---- */
/* x as rows of square matrices: x x' + 8, x between -1 and 1, which has an inverse. */
static T square_of(M *m, T x)
{
	(void)m;
	const T z = tj_tanh(x), y = tj_matmul(z, tj_transpose(z, -2, -1));
	return tj_is_poison(y) ? y : tj_add(y, tj_mul(tj_eye(tj_dtype_of(y), tj_dim(y, rank(y) - 1), tj_dim(y, rank(y) - 1)), tj_i(8)));
}
static T f_linalg(M *m, T x)
{
	const T a = square_of(m, x);
	T part[3];
	switch (below(m, 11)) {
	case 0: return tj_solve(a, like(m, x));
	case 1: return tj_solve_triangular(a, like(m, x), chance(m, 50), chance(m, 50));
	case 2: return tj_cholesky_solve(like(m, x), tj_cholesky(a));
	case 3: return tj_inv(a);
	case 4: return tj_det(a);
	case 5: part[1] = tj_slogdet(a, &part[0]); return tj_add(part[1], part[0]);
	case 6: part[0] = tj_lu(x, &part[1], &part[2]); return part[below(m, 3)];
	case 7: return tj_lu_solve(tj_lu_packed(a), like(m, x));
	case 8: return chance(m, 50) ? tj_qr(x, &part[0]) : (tj_qr(x, &part[0]), part[0]);
	case 9: return tj_lstsq(tj_cat(TJ_LIST(a, x), -1), like(m, x));
	default: return tj_matrix_exp(tj_div(a, tj_i(16)));
	}
}

/* ---- transforms, complex numbers ---- */
static tj_fft_norm fft_norm(M *m) { return (tj_fft_norm)below(m, 3); }
static T pairs_with(M *m, T x) { return tj_complex(x, like(m, x)); }
static T f_complex(M *m, T x)
{
	const T z = pairs_with(m, x);
	switch (below(m, 8)) {
	case 0: return tj_complex_abs(z);
	case 1: return tj_angle(z);
	case 2: return tj_polar(x, like(m, x));
	case 3: return tj_complex_exp(z);
	case 4: return tj_complex_mul(z, tj_conj(z));
	case 5: return tj_complex_div(z, tj_add(pairs_with(m, x), tj_i(7)));
	case 6: return tj_real_part(z);
	default: return tj_imag_part(z);
	}
}
static T f_transform(M *m, T x)
{
	const int a = axis(m, x);
	const int64_t n = chance(m, 50) ? 0 : from_to(m, 1, 9);
	switch (below(m, 9)) {
	case 0: return tj_fft(pairs_with(m, x), n, a, fft_norm(m));
	case 1: return tj_ifft(pairs_with(m, x), n, a, fft_norm(m));
	case 2: return tj_rfft(x, n, a, fft_norm(m));
	case 3: return tj_irfft(pairs_with(m, x), n, a, fft_norm(m));
	case 4: return tj_hfft(pairs_with(m, x), n, a, fft_norm(m));
	case 5: return tj_ihfft(x, n, a, fft_norm(m));
	case 6: return tj_hilbert(x, n, a);
	case 7: return tj_dct(x, (int)from_to(m, 2, 3), n, a, fft_norm(m));
	default: return tj_idct(x, (int)from_to(m, 2, 3), n, a, fft_norm(m));
	}
}
static T f_transforms(M *m, T x)
{
	const dims a = some_axes(m, x);
	switch (below(m, 9)) {
	case 0: return tj_fftn(pairs_with(m, x), NULL, a.v, fft_norm(m));
	case 1: return tj_ifftn(pairs_with(m, x), NULL, a.v, fft_norm(m));
	case 2: return tj_rfftn(x, NULL, a.v, fft_norm(m));
	case 3: return tj_irfftn(pairs_with(m, x), NULL, a.v, fft_norm(m));
	case 4: return chance(m, 50) ? tj_fftshift(x, AXES(m, x)) : tj_ifftshift(x, AXES(m, x));
	case 7: return chance(m, 50) ? tj_fft2(pairs_with(m, x), fft_norm(m)) : tj_ifft2(pairs_with(m, x), fft_norm(m));
	case 8: return chance(m, 50) ? tj_rfft2(x, fft_norm(m)) : tj_irfft2(pairs_with(m, x), fft_norm(m));
	case 5: return tj_fftfreq(float_dtype(m), from_to(m, 0, 9), 0.5);
	default: return tj_rfftfreq(float_dtype(m), from_to(m, 0, 9), 0.25);
	}
}
static T f_spectra(M *m, T x)
{
	const int64_t n = from_to(m, 2, 6);
	const tj_stft_opts o = { .hop = from_to(m, 1, 3), .zeros = chance(m, 50), .not_centred = chance(m, 30), .both_sides = chance(m, 50),
		                 .normalized = chance(m, 50) };
	const T y = tj_stft(x, n, &o);
	return chance(m, 50) ? tj_istft(y, n, chance(m, 50) ? 0 : from_to(m, 1, 20), &o) : y;
}
static T f_fft_convolve(M *m, T x)
{
	return tj_fft_convolve(x, some(m, tj_dtype_of(x), with(x, -1, from_to(m, 1, 5)).v), (tj_convolve_mode)below(m, 3));
}

static T symmetric(T x) { return tj_add(x, tj_transpose(x, -2, -1)); }
static T f_eigh(M *m, T x)
{
	T s = symmetric(chance(m, 50) ? tj_matmul(x, tj_transpose(x, -2, -1)) : tj_narrow(tj_narrow(x, -1, 0, 1), -2, 0, 1)), v = NULL;
	const tj_spectral_opts o = { .upper = chance(m, 50), .degenerate = (tj_degenerate)below(m, 2) };
	const T l = chance(m, 30) ? tj_eigvalsh(s, &o) : tj_eigh(s, &o, &v);
	return v && chance(m, 50) ? v : l;
}
static T f_svd(M *m, T x)
{
	const tj_spectral_opts o = { .degenerate = (tj_degenerate)below(m, 2) };
	T s, vt, u = tj_svd(x, &o, &s, &vt);
	const T any[] = { u, s, vt, tj_svdvals(x) };
	return any[below(m, 4)];
}
static T f_pinv(M *m, T x)
{
	const tj_rank_opts o = { .atol = chance(m, 30) ? 0.5 : 0, .rtol = chance(m, 30) ? 0.125 : 0 };
	return chance(m, 60) ? tj_pinv(x, &o) : tj_matrix_rank(x, &o);
}
static T f_matrix_cond(M *m, T x)
{
	if (chance(m, 40)) return tj_nuclear_norm(x, chance(m, 50));
	return tj_matrix_cond(x, chance(m, 50) ? 2 : -2);
}

/* ---- sparse matrices: x is the values of a matrix [m,5] ---- */
static T offsets_of(M *m, T x, int64_t *rows)
{
	int64_t v[8] = { 0 };
	*rows = from_to(m, 0, 6);
	for (int64_t i = 0; i < *rows; i++) v[i + 1] = chance(m, 1) ? from_to(m, 0, 9) : from_to(m, v[i], dim(x, 0));
	return tj_from_data(m->c, TJ_I64, TJ_SHAPE(*rows + 1), v);
}
static T f_sparse(M *m, T x)
{
	enum { N = 5, K = 3 };
	const tj_dtype t = tj_dtype_of(x);
	int64_t rows;
	T o = offsets_of(m, x, &rows), c = index_of(m, shape_of(x).v, 0, N - 1), oo, cc, y;
	switch (below(m, 12)) {
	case 0: return tj_csr_matmul(o, c, x, chance(m, 50) ? some(m, t, TJ_SHAPE(N, K)) : some(m, t, TJ_SHAPE(N)));
	case 1: return tj_csr_matmul_transposed(o, c, x, N, chance(m, 50) ? some(m, t, TJ_SHAPE(rows, K)) : some(m, t, TJ_SHAPE(rows)));
	case 2: return tj_csr_sampled_matmul(o, c, some(m, t, TJ_SHAPE(rows, K)), some(m, t, TJ_SHAPE(K, N)));
	case 3: return tj_csr_to_dense(o, c, x, N);
	case 4: return tj_csr_transpose(o, c, x, N, &oo, &cc);
	case 5: return tj_csr_sum(o, c, x, N, (int)below(m, 2));
	case 6: return tj_csr_mask(o, c, some(m, t, TJ_SHAPE(rows, N)));
	case 7: return tj_coo_matmul(c, c, x, N, some(m, t, TJ_SHAPE(N)));
	case 8: return tj_coo_to_dense(c, c, x, N, N);
	case 9: return tj_csr_rows(o, from_to(m, 0, 9));
	case 10: return tj_coo_coalesce(c, index_of(m, shape_of(x).v, 0, N - 1), x, N, N, &oo, &cc);
	default:
		y = tj_csr_from_coo(c, index_of(m, shape_of(x).v, 0, N - 1), x, N, N, &oo, &cc);
		return chance(m, 50) ? y : tj_csr_to_dense(oo, cc, y, N);
	}
}
static T f_csr_softmax(M *m, T x)
{
	int64_t rows;
	const T o = offsets_of(m, x, &rows);
	return chance(m, 50) ? tj_csr_softmax(o, x) : tj_csr_log_softmax(o, x);
}
static T f_segment_reduce(M *m, T x)
{
	int64_t rows;
	const T o = offsets_of(m, x, &rows);
	return tj_segment_reduce(x, o, (tj_reduction)below(m, 5));
}
static T f_from_dense(M *m, T x)
{
	T o, c;
	if (chance(m, 30)) return tj_csr_from_dense(x, &o, &c);
	return tj_csr_from_dense_static(x, chance(m, 95) ? tj_numel(x) : 1, &o, &c);
}
static T f_prune_2_4(M *m, T x)
{
	const T w = layer_of(m, tj_dtype_of(x), with(x, -1, 8 * from_to(m, 0, 2)).v);
	T i, v = tj_compress_2_4(w, &i);
	if (rank(x) == 2 && chance(m, 30)) return tj_linear_2_4(w, v, i, NULL);
	return chance(m, 40) ? tj_prune_2_4(w) : chance(m, 50) ? v : tj_decompress_2_4(v, i);
}

/* ---- the table ---- */
enum {
	F = 1u << TJ_F16 | 1u << TJ_BF16 | 1u << TJ_F32 | 1u << TJ_F64,
	I = 1u << TJ_U8 | 1u << TJ_I8 | 1u << TJ_I16 | 1u << TJ_I32 | 1u << TJ_I64,
	N = F | I,
	A = N | 1u << TJ_BOOL
};
const layer_row layer_rows[] = {
#define ROW(name, least, most, dtypes) { #name, f_##name, least, most, dtypes },
	ROW(scatter_reduce, 1, 3, A) ROW(index_add, 1, 3, A) ROW(index_copy, 1, 3, A) ROW(index_reduce, 1, 3, A)
	ROW(index_fill, 0, 3, A) ROW(index, 1, 4, A) ROW(index_put, 1, 3, A)
	ROW(take, 1, 3, A) ROW(put, 1, 3, A) ROW(take_along_dim, 1, 3, A) ROW(masked_scatter, 1, 3, A) ROW(select, 1, 4, A)
	ROW(narrow, 1, 4, A) ROW(slice_scatter, 1, 3, A)
	ROW(select_scatter, 1, 3, A) ROW(diagonal_scatter, 2, 3, A)
	ROW(movedim, 1, 4, A) ROW(atleast, 0, 3, A) ROW(flatten, 1, 4, A) ROW(unflatten, 1, 3, A) ROW(expand_as, 1, 3, A)
	ROW(view_as, 0, 3, A) ROW(rot90, 2, 3, A) ROW(diag, 1, 2, A)
	ROW(diagflat, 1, 2, A) ROW(block_diag, 1, 2, A) ROW(hstack, 1, 3, A) ROW(vstack, 1, 3, A) ROW(dstack, 1, 3, A)
	ROW(column_stack, 1, 2, A) ROW(split, 1, 3, A) ROW(chunk, 1, 3, A)
	ROW(unbind, 1, 3, A) ROW(broadcast_tensors, 1, 3, A) ROW(meshgrid, 1, 1, A) ROW(linspace, 0, -1, A)
	ROW(tril_indices, 0, -1, A) ROW(cartesian_prod, 1, 1, A) ROW(combinations, 1, 1, A)
	ROW(vander, 1, 2, N)
	ROW(std, 0, 3, F) ROW(var_mean, 1, 3, F) ROW(aminmax, 0, 3, A) ROW(nansum, 0, 3, F) ROW(count_nonzero, 0, 3, A)
	ROW(cov, 1, 2, N) ROW(corrcoef, 1, 2, N) ROW(norm, 0, 3, N)
	ROW(dist, 0, 3, N) ROW(pairwise_distance, 1, 3, N) ROW(renorm, 2, 3, N) ROW(cdist, 2, 3, N) ROW(pdist, 2, 2, N)
	ROW(cosine_similarity, 1, 3, N) ROW(median, 0, 3, N) ROW(nanmedian, 0, 3, N)
	ROW(kthvalue, 0, 3, N) ROW(mode, 0, 3, A) ROW(quantile, 0, 3, F) ROW(bincount, 1, 2, N) ROW(histc, 1, 2, F)
	ROW(histogram, 1, 1, F) ROW(bin_edges, 1, 2, F) ROW(allclose, 0, 3, N)
	ROW(isin, 0, 2, A) ROW(unique_consecutive, 1, 2, A) ROW(diff, 1, 3, A) ROW(trapezoid, 1, 3, N) ROW(gradient, 1, 3, F)
	ROW(mm, 2, 2, N) ROW(mv, 2, 2, N) ROW(bmm, 3, 3, N) ROW(dot, 1, 1, N) ROW(vdot, 1, 3, N) ROW(vecdot, 1, 3, N)
	ROW(inner, 1, 3, N) ROW(outer, 1, 1, A) ROW(kron, 1, 2, A)
	ROW(cross, 1, 3, N) ROW(tensordot, 1, 3, N) ROW(addmm, 2, 2, N) ROW(addmv, 2, 2, F) ROW(addr, 1, 1, F) ROW(addbmm, 3, 3, F)
	ROW(multi_dot, 2, 2, N) ROW(matrix_power, 2, 2, N)
	ROW(matrix_norm, 2, 3, N) ROW(einsum, 1, 4, N) ROW(eigh, 2, 3, F) ROW(svd, 2, 3, F) ROW(pinv, 2, 3, F) ROW(matrix_cond, 2, 3, F)
	ROW(entr, 0, 3, N) ROW(logit, 0, 3, N) ROW(multigammaln, 0, 2, N) ROW(window, 0, -1, A)
	ROW(linear, 1, 3, N) ROW(bilinear, 1, 3, N) ROW(rnn_tanh_cell, 1, 2, F) ROW(rnn_relu_cell, 1, 2, F) ROW(gru_cell, 1, 2, F)
	ROW(lstm_cell, 1, 2, F) ROW(embedding_bag, 2, 2, F)
	ROW(batch_norm, 2, 4, F) ROW(instance_norm, 3, 4, F) ROW(group_norm, 2, 4, F) ROW(layer_norm_over, 1, 4, F)
	ROW(local_response_norm, 3, 4, F) ROW(attention, 2, 4, F)
	ROW(mse_loss, 0, 3, F) ROW(smooth_l1_loss, 0, 3, F) ROW(kl_div, 1, 3, F) ROW(poisson_nll_loss, 1, 3, N)
	ROW(gaussian_nll_loss, 1, 3, F) ROW(hinge_embedding_loss, 1, 3, F)
	ROW(margin_ranking_loss, 1, 3, N) ROW(cosine_embedding_loss, 1, 2, N) ROW(triplet_margin_loss, 1, 3, N)
	ROW(binary_cross_entropy, 1, 3, F) ROW(nll_loss, 1, 4, F) ROW(cross_entropy_loss, 1, 4, F)
	ROW(multi_margin_loss, 1, 2, F) ROW(multilabel_margin_loss, 1, 2, F) ROW(multilabel_soft_margin_loss, 1, 2, F)
	ROW(ctc_loss, 3, 3, F)
	ROW(dropout, 1, 5, F) ROW(bernoulli, 0, 3, N) ROW(randint, 0, -1, A) ROW(random_normal, 0, 3, F) ROW(multinomial, 1, 2, F)
	ROW(like, 0, 3, A)
	ROW(conv1d, 2, 3, N) ROW(conv2d, 3, 4, N) ROW(conv3d, 4, 5, N) ROW(conv_transpose1d, 2, 3, N)
	ROW(conv_transpose2d, 3, 4, N) ROW(conv_transpose3d, 4, 5, F)
	ROW(max_pool1d, 2, 3, A) ROW(max_pool2d, 3, 4, A) ROW(max_pool3d, 4, 5, A) ROW(avg_pool1d, 2, 3, F)
	ROW(avg_pool2d, 3, 4, F) ROW(avg_pool3d, 4, 5, F) ROW(lp_pool1d, 2, 3, F) ROW(lp_pool2d, 3, 4, F)
	ROW(lp_pool3d, 4, 5, F) ROW(adaptive_pool1d, 2, 3, F) ROW(adaptive_pool2d, 3, 4, F) ROW(adaptive_pool3d, 4, 5, F)
	ROW(pixel_shuffle, 3, 4, A) ROW(pixel_unshuffle, 3, 4, A) ROW(channel_shuffle, 3, 4, A) ROW(im2col, 3, 4, F)
	ROW(interpolate, 3, 5, F) ROW(grid_sample, 4, 5, F) ROW(affine_grid, 1, 2, F)
	ROW(frexp, 0, 3, F) ROW(modf, 0, 3, F) ROW(divmod, 0, 3, N) ROW(part, 0, 3, F) ROW(fdim, 0, 3, F) ROW(repeat, 0, 3, A)
	ROW(unravel_index, 0, -1, A) ROW(static, 0, 3, A) ROW(histogramdd, 2, 2, F)
	ROW(igamma, 0, 2, F) ROW(zeta, 0, 2, F) ROW(polynomial, 0, 3, F) ROW(multi_head_attention, 2, 3, F) ROW(drawn, 1, 3, F)
	ROW(linalg, 2, 3, F)
	ROW(complex, 0, 3, F) ROW(transform, 1, 3, F) ROW(transforms, 1, 3, F) ROW(spectra, 1, 2, F) ROW(fft_convolve, 1, 2, F)
	ROW(sparse, 1, 1, A) ROW(csr_softmax, 1, 1, F) ROW(segment_reduce, 1, 3, A) ROW(from_dense, 2, 2, A) ROW(prune_2_4, 1, 3, F)
	ROW(point, 0, 5, N) ROW(point, 0, 5, N) ROW(point, 0, 5, N) ROW(view, 1, 4, A) ROW(view, 1, 4, A) ROW(sum, 1, 4, N)
#undef ROW
};
const int layer_row_count = RT_COUNT(layer_rows);
