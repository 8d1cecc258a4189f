/* SPDX-License-Identifier: MIT */
/* indexing: ops that read and write by index, sort, and find. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)

static int axis_of(ox_call *o, const char *name, int64_t preset, int rank)
{
	const int axis = ox_axis(ox_int(o, name, preset), rank);
	if (axis < 0)
		ox_fail(o, TJ_ERR_ARG, NULL, "axis %lld is not there: the tensor has %d axes", (long long)ox_int(o, name, preset), rank);
	return axis;
}

tj_tensor *ox_gather(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int axis = axis_of(o, "axis", 0, tj_rank(x));
	if (axis < 0) return NULL;
	const ox_host *h = ox_in(o, 1)->h;
	if (h && h->i && !h->rank) return tj_select(x, axis, h->i[0]);
	return tj_index(x, TJ_AXES(axis), TJ_LIST(ox_t(o, 1)));
}

tj_tensor *ox_gather_elements(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int axis = axis_of(o, "axis", 0, tj_rank(x));
	return axis < 0 ? NULL : tj_gather(x, axis, ox_negative_index(site, ox_t(o, 1), tj_dim(x, axis)));
}

/* ---- indices of several axes: as one index into these axes, flattened ---- */
/* index [...,k] of axes from `first` on: [...] of their places in row-major order. */
static tj_tensor *flat_index(const char *site, tj_tensor *x, int first, tj_tensor *index)
{
	const int k = (int)tj_dim(index, -1), last = tj_rank(index) - 1;
	tj_tensor *flat = NULL;
	index = tj_cast(index, TJ_I64);
	for (int j = 0; j < k; j++) {
		const int64_t n = tj_dim(x, first + j);
		tj_tensor *i = ox_negative_index(site, tj_select(index, last, j), n);
		flat = flat ? tj_add(tj_mul(flat, tj_i(n)), i) : i;
	}
	return flat;
}

static bool fits(ox_call *o, tj_tensor *x, int batch, tj_tensor *index)
{
	const int64_t k = tj_rank(index) > 0 ? tj_dim(index, -1) : -1;
	if (k >= 1 && batch >= 0 && batch < tj_rank(index) && k + batch <= tj_rank(x)) return true;
	ox_fail(o, TJ_ERR_SHAPE, NULL, "an index of %lld axes does not fit a tensor of %d", (long long)k, tj_rank(x));
	return false;
}

tj_tensor *ox_gather_nd(ox_call *o, const char *site)
{
	tj_tensor *x = X, *index = ox_t(o, 1);
	const int batch = ox_small(o, "batch_dims", 0), rank = tj_rank(x);
	if (!fits(o, x, batch, index)) return NULL;
	const int k = (int)tj_dim(index, -1), outer = tj_rank(index) - 1;
	int64_t dim[2 * TJ_MAX_RANK + 1], b = 1, rest = 1, m = 1;
	int n = 0;
	for (int i = 0; i < batch; i++) b *= tj_dim(x, i);
	for (int i = batch; i < outer; i++) m *= tj_dim(index, i);
	for (int i = 0; i < outer; i++) dim[n++] = tj_dim(index, i);
	for (int i = batch + k; i < rank; i++) rest *= dim[n++] = tj_dim(x, i);
	dim[n] = TJ_END_DIM;
	tj_tensor *at = tj_reshape(flat_index(site, x, batch, index), TJ_SHAPE(b, m, 1));
	x = tj_reshape(x, TJ_SHAPE(b, -1, rest));
	tj_tensor *y = b == 1 ? tj_index_select(x, 1, tj_reshape(at, TJ_SHAPE(m))) : tj_gather(x, 1, tj_expand(at, TJ_SHAPE(b, m, rest)));
	return tj_reshape(y, dim);
}

static bool reduction(ox_call *o, tj_reduction *how, bool *none)
{
	const char *s = ox_string(o, "reduction", "none");
	*none = !strcmp(s, "none");
	*how = !strcmp(s, "add") ? TJ_REDUCE_SUM : !strcmp(s, "mul") ? TJ_REDUCE_PROD : !strcmp(s, "max") ? TJ_REDUCE_AMAX : TJ_REDUCE_AMIN;
	if (*none || *how != TJ_REDUCE_AMIN || !strcmp(s, "min")) return true;
	return ox_fail(o, TJ_ERR_ARG, NULL, "reduction %.40s is not known", s), false;
}

tj_tensor *ox_scatter_nd(ox_call *o, const char *site)
{
	tj_tensor *x = X, *index = ox_t(o, 1), *src = ox_t(o, 2);
	tj_reduction how;
	bool none;
	int64_t dim[TJ_MAX_RANK + 1], rest = 1;
	if (!fits(o, x, 0, index) || !reduction(o, &how, &none)) return NULL;
	const int k = (int)tj_dim(index, -1);
	ox_dims_of(x, dim);
	for (int i = k; i < tj_rank(x); i++) rest *= dim[i];
	const int64_t m = tj_numel(index) / k;
	tj_tensor *at = tj_reshape(flat_index(site, x, 0, index), TJ_SHAPE(m));
	x = tj_reshape(x, TJ_SHAPE(-1, rest));
	src = tj_reshape(src, TJ_SHAPE(m, rest));
	x = none ? tj_index_copy(x, 0, at, src) : tj_index_reduce(x, 0, at, src, how, true);
	return tj_reshape(x, dim);
}

tj_tensor *ox_scatter_elements(ox_call *o, const char *site)
{
	tj_tensor *x = X, *src = ox_t(o, 2);
	tj_reduction how;
	bool none;
	const int axis = axis_of(o, "axis", 0, tj_rank(x));
	if (axis < 0 || !reduction(o, &how, &none)) return NULL;
	tj_tensor *index = ox_negative_index(site, ox_t(o, 1), tj_dim(x, axis));
	return none ? tj_scatter(x, axis, index, src) : tj_scatter_reduce(x, axis, index, src, how, true);
}

/* Rows of `update` go to places from write_indices[batch] on along an axis. */
tj_tensor *ox_tensor_scatter(ox_call *o, const char *site)
{
	tj_tensor *x = X, *update = ox_t(o, 1), *at = ox_t(o, 2);
	const int rank = tj_rank(x), axis = axis_of(o, "axis", -2, rank);
	int64_t dim[TJ_MAX_RANK + 1];
	if (axis < 0) return NULL;
	tj_tensor *index = ox_along(site, tj_arange(TJ_I64, 0, tj_dim(update, axis), 1), axis, rank);
	if (at) index = tj_add(index, ox_along(site, tj_cast(at, TJ_I64), 0, rank));
	if (ox_is(o, "mode", "linear", "circular")) index = tj_remainder(index, tj_i(tj_dim(x, axis)));
	ox_dims_of(update, dim);
	return tj_scatter(x, axis, ox_broadcast_to(site, index, rank, dim), update);
}

tj_tensor *ox_one_hot(ox_call *o, const char *site)
{
	tj_tensor *index = X, *values = ox_t(o, 2);
	int64_t n;
	if (!ox_number(o, 1, &n)) return NULL;
	const int rank = tj_rank(index) + 1, axis = axis_of(o, "axis", -1, rank);
	if (axis < 0) return NULL;
	if (n < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its depth is %lld", (long long)n);
	index = ox_negative_index(site, tj_cast(index, TJ_I64), n);
	tj_tensor *hit = tj_eq(tj_unsqueeze(index, axis), ox_along(site, tj_arange(TJ_I64, 0, n, 1), axis, rank));
	return tj_where(hit, tj_select(values, 0, 1), tj_select(values, 0, 0));
}

/* ---- order ---- */
tj_tensor *ox_top_k(ox_call *o, const char *site)
{
	tj_tensor *x = X, *index = NULL;
	const ox_host *h = ox_has(o, 1) ? ox_h(o, 1) : NULL;
	const int64_t k = h && h->i && h->n == 1 ? h->i[0] : ox_int(o, "k", -1);
	const int axis = axis_of(o, "axis", -1, tj_rank(x));
	if (axis < 0 || o->r->failed) return NULL;
	tj_tensor *y = tj_topk(x, k, axis, ox_int(o, "largest", 1), &index);
	ox_put(o, 1, index);
	return y;
}

static tj_tensor *arg(ox_call *o, bool largest)
{
	const char *site = o->site;
	tj_tensor *x = X;
	const int axis = axis_of(o, "axis", 0, tj_rank(x));
	const bool keep = ox_int(o, "keepdims", 1), last = ox_int(o, "select_last_index", 0);
	if (axis < 0) return NULL;
	if (last) x = tj_flip(x, TJ_AXES(axis));
	tj_tensor *y = largest ? tj_argmax(x, axis, keep) : tj_argmin(x, axis, keep);
	return last ? tj_sub(tj_i(tj_dim(x, axis) - 1), y) : y;
}

tj_tensor *ox_arg_max(ox_call *o, const char *site) { return (void)site, arg(o, true); }
tj_tensor *ox_arg_min(ox_call *o, const char *site) { return (void)site, arg(o, false); }

tj_tensor *ox_hardmax(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t dim[TJ_MAX_RANK + 1], rows = 1;
	const int rank = (int)ox_dims_of(x, dim), axis = axis_of(o, "axis", o->n->opset < 13 ? 1 : -1, rank);
	if (axis < 0) return NULL;
	for (int i = 0; i < axis; i++) rows *= dim[i];
	const bool flat = o->n->opset < 13;
	if (flat) x = tj_reshape(x, TJ_SHAPE(rows, -1));
	const int a = flat ? 1 : axis;
	tj_tensor *best = tj_argmax(x, a, true), *places = ox_along(site, tj_arange(TJ_I64, 0, tj_dim(x, a), 1), a, tj_rank(x));
	tj_tensor *y = tj_cast(tj_eq(places, best), tj_dtype_of(x));
	return flat ? tj_reshape(y, dim) : y;
}

/* ---- sizes that depend on data ---- */
tj_tensor *ox_non_zero(ox_call *o, const char *site)
{
	tj_tensor *y = tj_nonzero(X);
	return tj_permute(y, TJ_AXES(1, 0));
}

tj_tensor *ox_compress(ox_call *o, const char *site)
{
	tj_tensor *x = X, *condition = ox_t(o, 1);
	int axis = 0;
	if (ox_attribute(o, "axis"))
		axis = axis_of(o, "axis", 0, tj_rank(x));
	else
		x = tj_reshape(x, TJ_SHAPE(-1));
	if (axis < 0) return NULL;
	return tj_index_select(x, axis, tj_reshape(tj_nonzero(condition), TJ_SHAPE(-1)));
}

/* Rows along an axis as numbers that order and compare as the rows do: the place of each among the sorted rows. */
static tj_tensor *row_numbers(const char *site, tj_tensor *x)
{
	tj_tensor *key = NULL;
	for (int64_t k = 0; k < tj_dim(x, 1); k++) {
		tj_tensor *inverse = NULL;
		tj_unique_all(tj_select(x, 1, k), NULL, &inverse, NULL);
		key = key ? tj_add(tj_mul(key, tj_i(tj_dim(x, 0))), inverse) : inverse;
		if (k) tj_unique_all(key, NULL, &key, NULL);
	}
	return key;
}

tj_tensor *ox_unique(ox_call *o, const char *site)
{
	tj_tensor *x = X, *index = NULL, *inverse = NULL, *counts = NULL;
	const bool by_axis = ox_attribute(o, "axis") != NULL, sorted = ox_int(o, "sorted", 1);
	const int axis = by_axis ? axis_of(o, "axis", 0, tj_rank(x)) : 0;
	if (axis < 0) return NULL;
	tj_tensor *rows = by_axis ? tj_reshape(tj_movedim(x, TJ_AXES(axis), TJ_AXES(0)), TJ_SHAPE(tj_dim(x, axis), -1)) : NULL;
	tj_tensor *y = tj_unique_all(by_axis ? row_numbers(site, rows) : x, &index, &inverse, &counts);
	if (!sorted) {
		tj_tensor *order = tj_argsort(index, 0, false), *back = tj_argsort(order, 0, false);
		y = tj_index_select(y, 0, order);
		index = tj_index_select(index, 0, order);
		counts = tj_index_select(counts, 0, order);
		inverse = tj_index_select(back, 0, tj_reshape(inverse, TJ_SHAPE(-1)));
	}
	if (by_axis) y = tj_index_select(x, axis, index);
	ox_put(o, 1, index);
	ox_put(o, 2, tj_reshape(inverse, TJ_SHAPE(-1)));
	ox_put(o, 3, counts);
	return y;
}

/* ---- boxes that overlap: the host reads boxes and scores ---- */
typedef struct boxes {
	const float *v;
	bool center;
	double limit;
} boxes;

static void corners(const boxes *b, int64_t i, double c[4])
{
	const float *v = b->v + 4 * i;
	for (int k = 0; k < 2; k++) {
		const double p = (double)v[k], q = (double)v[k + 2];
		c[k] = b->center ? p - q / 2 : fmin(p, q);
		c[k + 2] = b->center ? p + q / 2 : fmax(p, q);
	}
}

static bool overlap(const boxes *b, int64_t i, int64_t j)
{
	double p[4], q[4], both = 1, one = 1, other = 1;
	corners(b, i, p);
	corners(b, j, q);
	for (int k = 0; k < 2; k++) {
		both *= fmax(0, fmin(p[k + 2], q[k + 2]) - fmax(p[k], q[k]));
		one *= p[k + 2] - p[k];
		other *= q[k + 2] - q[k];
	}
	return both > b->limit * (one + other - both);
}

/* Boxes of one class in the order of their scores, without those that overlap a taken one; returns how many. */
static int64_t select_boxes(const boxes *b, const float *score, int64_t n, int64_t most, double least, bool *gone, int64_t *taken)
{
	int64_t count = 0;
	for (int64_t i = 0; i < n; i++) gone[i] = (double)score[i] <= least;
	while (count < most) {
		int64_t best = -1;
		for (int64_t i = 0; i < n; i++)
			if (!gone[i] && (best < 0 || score[i] > score[best])) best = i;
		if (best < 0) break;
		taken[count++] = best;
		for (int64_t i = 0; i < n; i++) gone[i] = gone[i] || i == best || overlap(b, best, i);
	}
	return count;
}

static double number(ox_call *o, int k, double preset)
{
	const ox_host *h = ox_has(o, k) ? ox_h(o, k) : NULL;
	return h && h->n ? h->f ? h->f[0] : (double)h->i[0] : preset;
}

tj_tensor *ox_non_max_suppression(ox_call *o, const char *site)
{
	tj_tensor *box = X, *score = ox_t(o, 1);
	if (tj_rank(box) != 3 || tj_rank(score) != 3 || tj_dtype_of(box) != TJ_F32 || tj_dtype_of(score) != TJ_F32 || tj_dim(box, 2) != 4 ||
	    tj_dim(score, 2) != tj_dim(box, 1) || tj_dim(score, 0) != tj_dim(box, 0))
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "boxes f32[batch,n,4] and scores f32[batch,classes,n] are needed");
	const int64_t batches = tj_dim(box, 0), n = tj_dim(box, 1), classes = tj_dim(score, 1);
	const double least = number(o, 4, -INFINITY), most = number(o, 2, 0);
	const int64_t each = most >= (double)n ? n : most > 0 ? (int64_t)most : 0;
	const size_t bytes = (size_t)(batches * n) * 16, score_bytes = (size_t)(batches * classes * n) * 4;
	float *v = ox_room(o, bytes), *s = ox_room(o, score_bytes);
	bool *gone = ox_room(o, (size_t)n);
	int64_t *taken = ox_room(o, (size_t)n * 8), *out = ox_room(o, (size_t)(batches * classes * each) * 24), count = 0;
	if (o->r->failed || !out || tj_read(box, v, bytes) != TJ_OK || tj_read(score, s, score_bytes) != TJ_OK)
		return o->r->failed = true, NULL;
	for (int64_t b = 0; b < batches; b++)
		for (int64_t c = 0; c < classes; c++) {
			const boxes of = { v + b * n * 4, ox_int(o, "center_point_box", 0), number(o, 3, 0) };
			const int64_t m = select_boxes(&of, s + (b * classes + c) * n, n, each, least, gone, taken);
			for (int64_t k = 0; k < m; k++, count++) out[3 * count] = b, out[3 * count + 1] = c, out[3 * count + 2] = taken[k];
		}
	return tj_constant(o->r->c, TJ_I64, TJ_SHAPE(count, 3), out);
}
