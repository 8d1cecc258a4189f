/* SPDX-License-Identifier: MIT */
/* shapes: ops that move elements, and what many ops use. */
#include "kit/models/models.h"

#define X ox_t(o, 0)

/* ---- shared ---- */
int ox_axis(int64_t axis, int rank)
{
	if (axis < -rank || axis >= rank) return -1;
	return (int)(axis < 0 ? axis + rank : axis);
}

int64_t ox_dims_of(tj_tensor *t, int64_t dim[TJ_MAX_RANK + 1])
{
	const int rank = tj_rank(t) < 0 ? 0 : tj_rank(t);
	for (int i = 0; i < rank; i++) dim[i] = tj_dim(t, i);
	dim[rank] = TJ_END_DIM;
	return rank;
}

bool ox_is_float(tj_tensor *t)
{
	const tj_dtype d = tj_dtype_of(t);
	return d == TJ_F32 || d == TJ_F64 || d == TJ_F16 || d == TJ_BF16;
}

tj_tensor *ox_like(const char *site, tj_tensor *x, tj_tensor *like)
{
	return x && tj_dtype_of(x) != tj_dtype_of(like) ? tj_cast(x, tj_dtype_of(like)) : x;
}

tj_tensor *ox_scalar(const char *site, tj_dtype dtype, double v) { return tj_full(dtype, TJ_0D, tj_f(v)); }

tj_tensor *ox_along(const char *site, tj_tensor *x, int axis, int rank)
{
	int64_t dim[TJ_MAX_RANK + 1];
	if (axis < 0 || axis >= rank || rank > TJ_MAX_RANK)
		return tj_fail_at(site, TJ_ERR_SHAPE, "onnx", NULL, "%d axes are too few or too many for this op", rank);
	for (int i = 0; i < rank; i++) dim[i] = 1;
	dim[axis] = tj_numel(x);
	dim[rank] = TJ_END_DIM;
	return tj_reshape(x, dim);
}

tj_tensor *ox_transposed(const char *site, tj_tensor *x) { return tj_transpose(x, -1, -2); }

tj_tensor *ox_negative_index(const char *site, tj_tensor *index, int64_t n)
{
	return tj_where(tj_lt(index, tj_i(0)), tj_add(index, ox_scalar(site, tj_dtype_of(index), (double)n)), index);
}

tj_tensor *ox_broadcast_to(const char *site, tj_tensor *x, int rank, const int64_t *dim)
{
	int64_t all[TJ_MAX_RANK + 1];
	for (int i = 0; i < rank; i++) {
		const int own = i - (rank - tj_rank(x));
		const int64_t d = own < 0 ? 1 : tj_dim(x, own);
		all[i] = d == 1 ? dim[i] : dim[i] == 1 ? d : dim[i];
	}
	all[rank] = TJ_END_DIM;
	return tj_expand(x, all);
}

static tj_tensor *bad_axis(ox_call *o, int64_t axis, int rank)
{
	return ox_fail(o, TJ_ERR_ARG, NULL, "axis %lld is not there: the tensor has %d axes", (long long)axis, rank);
}

/* Axes of the attribute, or of input k, ended and from 0 on; false: reported. *any: they are given. */
static bool axes_of(ox_call *o, int k, int rank, int64_t axes[TJ_MAX_RANK + 1], bool *any)
{
	int64_t n;
	const int64_t *v = ox_ints(o, "axes", &n);
	const ox_host *h = ox_has(o, k) ? ox_h(o, k) : NULL;
	if (o->r->failed) return false;
	if (h && h->i) v = h->i, n = h->n;
	*any = v != NULL;
	if (n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_LIMIT, NULL, "there are %lld axes", (long long)n), false;
	for (int64_t i = 0; i < n; i++)
		if ((axes[i] = ox_axis(v[i], rank)) < 0) return bad_axis(o, v[i], rank), false;
	axes[n] = TJ_END_DIM;
	return true;
}

/* ---- shapes as values ---- */
tj_tensor *ox_shape(ox_call *o, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	(void)site;
	const ox_value *v = ox_in(o, 0);
	if (v->t)
		ox_dims_of(v->t, dim);
	else if (v->h)
		memcpy(dim, v->h->dim, sizeof dim);
	else
		return ox_fail(o, TJ_ERR_ARG, NULL, "its input is no tensor");
	const int64_t rank = v->t ? tj_rank(v->t) : v->h->rank;
	int64_t start = ox_int(o, "start", 0), end = ox_int(o, "end", rank);
	start = start < 0 ? start + rank : start, end = end < 0 ? end + rank : end;
	start = start < 0 ? 0 : start > rank ? rank : start, end = end < start ? start : end > rank ? rank : end;
	const int64_t n = end - start;
	ox_host *h = ox_new_host(&o->r->arena, TJ_I64, 1, &n);
	if (!h) return ox_room(o, SIZE_MAX);
	memcpy(h->i, dim + start, (size_t)n * sizeof *dim);
	o->out[0].h = h;
	return NULL;
}

tj_tensor *ox_size(ox_call *o, const char *site)
{
	(void)site;
	ox_host *h = ox_new_host(&o->r->arena, TJ_I64, 0, NULL);
	if (!h) return ox_room(o, SIZE_MAX);
	h->i[0] = tj_numel(X);
	o->out[0].h = h;
	return NULL;
}

tj_tensor *ox_identity(ox_call *o, const char *site)
{
	(void)site;
	o->out[0] = *ox_in(o, 0);
	return NULL;
}

tj_tensor *ox_constant(ox_call *o, const char *site)
{
	const char *const names[] = { "value", "value_float", "value_int", "value_floats", "value_ints" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const ox_attr *a = ox_attribute(o, names[i]);
		if (!a) continue;
		tj_dtype dtype;
		const bool list = a->type == OX_A_FLOATS || a->type == OX_A_INTS, floats = a->type == OX_A_FLOAT || a->type == OX_A_FLOATS;
		if (a->type == OX_A_TENSOR) {
			if (a->t && a->t->host) return o->out[0].h = a->t->host, NULL;
			if (!a->t || !ox_dtype(a->t->type, &dtype) || dtype == TJ_BOOL) break;
			return tj_constant(o->r->c, dtype, a->t->dim, a->t->data);
		}
		if (a->type == OX_A_STRING || a->type > OX_A_INTS || a->type == OX_A_GRAPH) break;
		ox_host *h = ox_new_host(&o->r->arena, floats ? TJ_F32 : TJ_I64, list, &a->n);
		if (!h) return ox_room(o, SIZE_MAX);
		for (int64_t k = 0; k < h->n; k++) {
			if (floats)
				h->f[k] = (double)(list ? a->floats[k] : a->f);
			else
				h->i[k] = list ? a->ints[k] : a->i;
		}
		o->out[0].h = h;
		return NULL;
	}
	return ox_fail(o, TJ_ERR_DTYPE, NULL, "it has no value that tjit has a dtype for");
}

/* ---- views ---- */
tj_tensor *ox_reshape(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const ox_host *s = ox_h(o, 1);
	int64_t dim[TJ_MAX_RANK + 1];
	if (!s || !s->i || s->n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_SHAPE, NULL, "its shape is no list of integers");
	for (int i = 0; i < s->n; i++) dim[i] = s->i[i] || ox_int(o, "allowzero", 0) ? s->i[i] : tj_dim(x, i);
	dim[s->n] = TJ_END_DIM;
	return tj_reshape(x, dim);
}

tj_tensor *ox_flatten(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t axis = ox_int(o, "axis", 1), rows = 1, columns = 1;
	if (axis < 0) axis += tj_rank(x);
	for (int i = 0; i < tj_rank(x); i++) *(i < axis ? &rows : &columns) *= tj_dim(x, i);
	return tj_reshape(x, TJ_SHAPE(rows, columns));
}

tj_tensor *ox_squeeze(ox_call *o, const char *site)
{
	int64_t axes[TJ_MAX_RANK + 1];
	bool any;
	tj_tensor *x = X;
	if (!axes_of(o, 1, tj_rank(x), axes, &any)) return NULL;
	return tj_squeeze(x, any ? axes : TJ_ALL);
}

tj_tensor *ox_unsqueeze(ox_call *o, const char *site)
{
	int64_t axes[TJ_MAX_RANK + 1], dim[TJ_MAX_RANK + 1], n;
	bool any, one[TJ_MAX_RANK] = { 0 };
	tj_tensor *x = X;
	const ox_host *h = ox_has(o, 1) ? ox_h(o, 1) : NULL;
	ox_ints(o, "axes", &n);
	const int64_t rank = tj_rank(x) + (h ? h->n : n);
	if (tj_is_poison(x)) return x;
	if (rank > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_LIMIT, NULL, "its result has %lld axes", (long long)rank);
	if (!axes_of(o, 1, (int)rank, axes, &any)) return NULL;
	for (int i = 0; axes[i] != TJ_END_DIM; i++) one[axes[i]] = true;
	for (int i = 0, own = 0; i < rank; i++) dim[i] = one[i] ? 1 : tj_dim(x, own++);
	dim[rank] = TJ_END_DIM;
	return tj_reshape(x, dim);
}

tj_tensor *ox_transpose(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t n, axes[TJ_MAX_RANK + 1];
	const int rank = tj_rank(x);
	const int64_t *perm = ox_ints(o, "perm", &n);
	if (perm && n != rank) return ox_fail(o, TJ_ERR_ARG, NULL, "perm has %lld entries for %d axes", (long long)n, rank);
	for (int i = 0; i < rank; i++) axes[i] = perm ? perm[i] : rank - 1 - i;
	axes[rank] = TJ_END_DIM;
	return tj_permute(x, axes);
}

tj_tensor *ox_expand(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const ox_host *s = ox_h(o, 1);
	int64_t dim[TJ_MAX_RANK];
	if (!s || !s->i || s->n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_SHAPE, NULL, "its shape is no list of integers");
	const int rank = s->n > tj_rank(x) ? (int)s->n : tj_rank(x);
	for (int i = 0; i < rank; i++) dim[i] = i < rank - s->n ? 1 : s->i[i - (rank - s->n)];
	return ox_broadcast_to(site, x, rank, dim);
}

/* ---- parts ---- */
static tj_tensor *slice_axis(ox_call *o, tj_tensor *x, int64_t axis, int64_t start, int64_t stop, int64_t step)
{
	const char *site = o->site;
	const int a = ox_axis(axis, tj_rank(x));
	if (a < 0) return bad_axis(o, axis, tj_rank(x));
	if (!step) return ox_fail(o, TJ_ERR_ARG, NULL, "a step is 0");
	const int64_t n = tj_dim(x, a);
	if (stop == INT64_MIN || (step < 0 && stop < -n)) stop = TJ_END_DIM; /* down to the first */
	if (start < -n) start = -n; /* the first: ONNX says so for negative steps, too, unlike Python */
	return tj_slice(x, a, start, stop, step);
}

tj_tensor *ox_slice(ox_call *o, const char *site)
{
	(void)site;
	tj_tensor *x = X;
	const ox_host *h[5] = { NULL };
	int64_t n[5] = { 0 };
	const int64_t *v[5] = { NULL };
	static const char *const names[] = { NULL, "starts", "ends", "axes", NULL };
	for (int k = 1; k < 5; k++) {
		if (o->n->opset < 10 && names[k])
			v[k] = ox_ints(o, names[k], &n[k]);
		else if (ox_has(o, k) && (h[k] = ox_h(o, k)) && h[k]->i)
			v[k] = h[k]->i, n[k] = h[k]->n;
		if (o->r->failed) return NULL;
	}
	if (!v[1] || !v[2] || n[1] != n[2] || (v[3] && n[3] != n[1]) || (v[4] && n[4] != n[1]))
		return ox_fail(o, TJ_ERR_ARG, NULL, "starts, ends, axes and steps have different lengths");
	for (int64_t i = 0; i < n[1] && !tj_is_poison(x); i++)
		x = slice_axis(o, x, v[3] ? v[3][i] : i, v[1][i], v[2][i], v[4] ? v[4][i] : 1);
	return x;
}

tj_tensor *ox_split(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int axis = ox_axis(ox_int(o, "axis", 0), tj_rank(x));
	int64_t n, at = 0;
	const int64_t *v = ox_ints(o, "split", &n);
	const ox_host *h = ox_has(o, 1) ? ox_h(o, 1) : NULL;
	if (o->r->failed) return NULL;
	if (axis < 0) return bad_axis(o, ox_int(o, "axis", 0), tj_rank(x));
	if (h && h->i) v = h->i, n = h->n;
	if (v && n != o->n->nout) return ox_fail(o, TJ_ERR_ARG, NULL, "%lld parts, and %d outputs", (long long)n, o->n->nout);
	const int64_t all = tj_dim(x, axis), parts = o->n->nout, each = (all + parts - 1) / parts;
	for (int k = 0; k < parts; k++) {
		int64_t size = v ? v[k] : all - at < each ? all - at : each;
		if (size < 0 || size > all - at)
			return ox_fail(o, TJ_ERR_SHAPE, NULL, "the parts do not fit axis %d of %lld", axis, (long long)all);
		ox_put(o, k, tj_slice(x, axis, at, at + size, 1));
		at += size;
	}
	return NULL;
}

static tj_tensor *joined(ox_call *o, tj_tensor *(*join)(const char *, tj_list, int), int axis)
{
	tj_tensor **v = ox_room(o, ((size_t)o->n->nin + 1) * sizeof(tj_tensor *));
	int n = 0;
	if (!v) return NULL;
	for (int k = 0; k < o->n->nin; k++)
		if (ox_has(o, k)) v[n++] = ox_t(o, k);
	v[n] = TJ_END;
	return n == 1 ? v[0] : join(o->site, v, axis);
}

tj_tensor *ox_concat(ox_call *o, const char *site)
{
	(void)site;
	return joined(o, tj_cat_at, ox_small(o, "axis", 0));
}

tj_tensor *ox_tile(ox_call *o, const char *site)
{
	const ox_host *s = ox_h(o, 1);
	int64_t dim[TJ_MAX_RANK + 1];
	if (!s || !s->i || s->n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_SHAPE, NULL, "its counts are no list of integers");
	memcpy(dim, s->i, (size_t)s->n * sizeof *dim);
	dim[s->n] = TJ_END_DIM;
	return tj_tile(X, dim);
}

/* Pads of all axes: before each, then behind each. */
tj_tensor *ox_pad(ox_call *o, const char *site)
{
	tj_tensor *x = X, *value = tj_f(ox_float(o, "value", 0));
	int64_t n, pads[2 * TJ_MAX_RANK + 1] = { 0 };
	const int rank = tj_rank(x);
	const int64_t *v = ox_ints(o, "pads", &n);
	const ox_host *h = ox_has(o, 1) ? ox_h(o, 1) : NULL, *axes = ox_has(o, 3) ? ox_h(o, 3) : NULL;
	if (o->r->failed) return NULL;
	if (h && h->i) v = h->i, n = h->n;
	const int64_t count = axes ? axes->n : rank;
	if (!v || n != 2 * count || (axes && !axes->i))
		return ox_fail(o, TJ_ERR_ARG, NULL, "%lld pads for %lld axes", (long long)n, (long long)count);
	for (int64_t i = 0; i < count; i++) {
		const int a = ox_axis(axes ? axes->i[i] : i, rank);
		if (a < 0) return bad_axis(o, axes ? axes->i[i] : i, rank);
		pads[2 * a] = v[i];
		pads[2 * a + 1] = v[count + i];
	}
	pads[2 * rank] = TJ_END_DIM;
	const char *mode = ox_string(o, "mode", "constant");
	if (ox_has(o, 2))
		value = tj_reshape(ox_t(o, 2), TJ_0D);
	else if (!ox_is_float(x))
		value = tj_i(0);
	if (!strcmp(mode, "constant"))
		return tj_dtype_of(x) == TJ_BOOL && !ox_has(o, 2)
		               ? tj_cast(tj_pad(tj_cast(x, TJ_U8), pads, TJ_PAD_CONSTANT, tj_i(0)), TJ_BOOL)
		               : tj_pad(x, pads, TJ_PAD_CONSTANT, value);
	return tj_pad(x, pads,
	              !strcmp(mode, "reflect") ? TJ_PAD_REFLECT
	              : !strcmp(mode, "edge")  ? TJ_PAD_REPLICATE
	                                       : TJ_PAD_CIRCULAR,
	              NULL);
}

/* ---- blocks ---- */
tj_tensor *ox_depth_to_space(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int64_t b = ox_int(o, "blocksize", 1), n = tj_dim(x, 0), c = tj_dim(x, 1), h = tj_dim(x, 2), w = tj_dim(x, 3);
	if (b < 1 || b > INT16_MAX || tj_rank(x) != 4 || c % (b * b))
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "blocksize %lld does not fit", (long long)b);
	const bool dcr = ox_is(o, "mode", "DCR", "DCR");
	x = dcr ? tj_reshape(x, TJ_SHAPE(n, b, b, c / (b * b), h, w)) : tj_reshape(x, TJ_SHAPE(n, c / (b * b), b, b, h, w));
	x = dcr ? tj_permute(x, TJ_AXES(0, 3, 4, 1, 5, 2)) : tj_permute(x, TJ_AXES(0, 1, 4, 2, 5, 3));
	return tj_reshape(x, TJ_SHAPE(n, c / (b * b), h * b, w * b));
}

tj_tensor *ox_space_to_depth(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int64_t b = ox_int(o, "blocksize", 1), n = tj_dim(x, 0), c = tj_dim(x, 1), h = tj_dim(x, 2), w = tj_dim(x, 3);
	if (b < 1 || b > INT16_MAX || tj_rank(x) != 4 || h % b || w % b)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "blocksize %lld does not fit", (long long)b);
	x = tj_reshape(x, TJ_SHAPE(n, c, h / b, b, w / b, b));
	x = ox_is(o, "mode", "DCR", "CRD") ? tj_permute(x, TJ_AXES(0, 1, 3, 5, 2, 4)) : tj_permute(x, TJ_AXES(0, 3, 5, 1, 2, 4));
	return tj_reshape(x, TJ_SHAPE(n, c * b * b, h / b, w / b));
}

tj_tensor *ox_trilu(ox_call *o, const char *site)
{
	int64_t d = 0;
	if (ox_has(o, 1) && !ox_number(o, 1, &d)) return NULL;
	return ox_int(o, "upper", 1) ? tj_triu(X, d) : tj_tril(X, d);
}

tj_tensor *ox_center_crop_pad(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const ox_host *s = ox_h(o, 1);
	int64_t axes[TJ_MAX_RANK + 1], pads[2 * TJ_MAX_RANK + 1] = { 0 };
	bool any;
	int64_t n;
	const int rank = tj_rank(x);
	ox_ints(o, "axes", &n);
	if (o->r->failed || !axes_of(o, 9, rank, axes, &any)) return NULL;
	if (!s || !s->i || s->n != (any ? n : rank)) return ox_fail(o, TJ_ERR_ARG, NULL, "its shape does not fit its axes");
	for (int i = 0; i < s->n; i++) {
		const int a = any ? (int)axes[i] : i;
		if (s->i[i] < 0 || s->i[i] > INT32_MAX) return ox_fail(o, TJ_ERR_ARG, NULL, "a size of %lld", (long long)s->i[i]);
		const int64_t had = tj_dim(x, a), want = s->i[i], more = want - had;
		if (more < 0)
			x = tj_slice(x, a, -more / 2, -more / 2 + want, 1);
		else
			pads[2 * a] = more / 2, pads[2 * a + 1] = more - more / 2;
	}
	pads[2 * rank] = TJ_END_DIM;
	return tj_pad(x, pads, TJ_PAD_CONSTANT, tj_i(0));
}

tj_tensor *ox_reverse_sequence(ox_call *o, const char *site)
{
	tj_tensor *x = X, *lengths = ox_t(o, 1);
	const int rank = tj_rank(x), batch = ox_axis(ox_int(o, "batch_axis", 1), rank), time = ox_axis(ox_int(o, "time_axis", 0), rank);
	if (batch < 0 || time < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its axes are not there: the tensor has %d", rank);
	const int64_t n = tj_dim(x, time);
	int64_t dim[TJ_MAX_RANK + 1];
	tj_tensor *t = ox_along(site, tj_arange(TJ_I64, 0, n, 1), time, rank), *l = ox_along(site, lengths, batch, rank);
	tj_tensor *index = tj_where(tj_lt(t, l), tj_sub(tj_sub(l, t), tj_i(1)), t);
	ox_dims_of(x, dim);
	return tj_gather(x, time, ox_broadcast_to(site, index, rank, dim));
}
