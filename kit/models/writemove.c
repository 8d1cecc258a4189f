/* SPDX-License-Identifier: MIT */
/* writemove: ops that move elements or take them by index, and those made of no tensor, as nodes. */
#include "kit/models/write.h"

#include <math.h>

ow_v ow_first(ow *w, tj_node *n, const ow_v *x) { return (void)w, (void)n, x[0]; }

/* ---- shapes ---- */
/* One size that varies may be left to the runtime: -1. */
ow_v ow_reshape_row(ow *w, tj_node *n, const ow_v *x)
{
	const int rank = tj_node_rank(n);
	int64_t dim[TJ_MAX_RANK];
	int varying = 0;
	bool empty = false;
	for (int d = 0; d < rank; d++) {
		ow_size s;
		const bool v = ow_dim_varies(w, n, d, &s);
		varying += v;
		dim[d] = v ? -1 : ow_dim(n, d);
		empty |= !dim[d];
	}
	if (varying <= 1 && !(varying && empty)) {
		const ow_v shape = ow_i64s(w, dim, rank);
		if (empty) ow_attr_int(w, "allowzero", 1);
		return ow_op2(w, "Reshape", x[0], shape);
	}
	const ow_v shape = ow_shape_value(w, n);
	ow_attr_int(w, "allowzero", 1);
	return ow_op2(w, "Reshape", x[0], shape);
}

/* Axes that keep their size are 1 in the shape, so that only those that grow depend on the sizes. */
ow_v ow_expand(ow *w, tj_node *n, const ow_v *x)
{
	tj_node *a = tj_node_input(n, 0);
	const int rank = tj_node_rank(n), lead = rank - tj_node_rank(a);
	int64_t dim[TJ_MAX_RANK];
	ow_v part[TJ_MAX_RANK];
	bool any = false;
	for (int d = 0; d < rank; d++) {
		ow_size s, t;
		const bool v = ow_dim_varies(w, n, d, &s),
			   keeps = d >= lead && (ow_dim_varies(w, a, d - lead, &t) || ow_dim(a, d - lead) != 1);
		dim[d] = keeps ? 1 : ow_dim(n, d);
		part[d] = v && !keeps ? ow_size_value(w, &s) : 0;
		any |= part[d] != 0;
	}
	ow_v shape = ow_i64s(w, dim, rank);
	if (any) {
		for (int d = 0; d < rank; d++)
			if (!part[d]) part[d] = ow_i64(w, dim[d]);
		if (rank > 1) ow_attr_int(w, "axis", 0);
		shape = rank > 1 ? ow_op(w, "Concat", TJ_I64, rank, part) : part[0];
	}
	return ow_op2(w, "Expand", x[0], shape);
}

ow_v ow_permute(ow *w, tj_node *n, const ow_v *x)
{
	const int rank = tj_node_rank(n);
	int64_t perm[TJ_MAX_RANK];
	if (!rank) return x[0];
	for (int d = 0; d < rank; d++) perm[d] = d;
	if (!strcmp(tj_node_op(n), "permute")) {
		for (int d = 0; d < rank; d++) perm[d] = tj_node_attr(n, d);
	} else {
		perm[tj_node_attr(n, 0)] = tj_node_attr(n, 1);
		perm[tj_node_attr(n, 1)] = tj_node_attr(n, 0);
	}
	ow_attr_ints(w, "perm", perm, rank);
	return ow_op1(w, "Transpose", x[0]);
}

static int axes_of(const tj_node *n, int first, int64_t *axis)
{
	int k = 0;
	for (int i = first; i < tj_node_attrs(n) && k < TJ_MAX_RANK; i++) axis[k++] = tj_node_attr(n, i);
	return k;
}

ow_v ow_squeeze_row(ow *w, tj_node *n, const ow_v *x)
{
	int64_t axis[TJ_MAX_RANK];
	const int k = axes_of(n, 0, axis);
	if (tj_node_rank(n) == tj_node_rank(tj_node_input(n, 0))) return x[0];
	return k ? ow_squeeze(w, x[0], axis, k) : ow_reshape_row(w, n, x);
}

ow_v ow_unsqueeze_row(ow *w, tj_node *n, const ow_v *x) { return ow_unsqueeze(w, x[0], (int64_t[]){ tj_node_attr(n, 0) }, 1); }

/* ---- parts ---- */
/* Element i is start + i * step. An end that is the end of the axis stays open. */
ow_v ow_slice_row(ow *w, tj_node *n, const ow_v *x)
{
	tj_node *a = tj_node_input(n, 0);
	const int axis = (int)tj_node_attr(n, 0);
	const int64_t step = tj_node_attr(n, 3);
	ow_size stop, dim;
	ow_v end = 0;
	if (tj_node_attr(n, 2) == TJ_END_DIM)
		end = ow_i64(w, step < 0 ? INT64_MIN : INT64_MAX);
	else {
		const bool v = ow_attr_varies(w, n, 2, &stop), u = ow_dim_varies(w, a, axis, &dim);
		const bool whole = step > 0 && v == u && (v ? ow_same_size(&stop, &dim) : tj_node_attr(n, 2) >= ow_dim(a, axis));
		end = whole ? ow_i64(w, INT64_MAX) : ow_attr_value(w, n, 2);
	}
	return ow_slice(w, x[0], axis, ow_attr_value(w, n, 1), end, ow_i64(w, step));
}

ow_v ow_flip(ow *w, tj_node *n, const ow_v *x)
{
	int64_t axis[TJ_MAX_RANK], start[TJ_MAX_RANK], stop[TJ_MAX_RANK], step[TJ_MAX_RANK];
	int k = axes_of(n, 0, axis);
	if (!tj_node_rank(n)) return x[0];
	if (!k)
		for (; k < tj_node_rank(n); k++) axis[k] = k;
	for (int i = 0; i < k; i++) start[i] = -1, stop[i] = INT64_MIN, step[i] = -1;
	const ow_v in[] = { x[0], ow_i64s(w, start, k), ow_i64s(w, stop, k), ow_i64s(w, axis, k), ow_i64s(w, step, k) };
	return ow_op(w, "Slice", tj_node_dtype(n), 5, in);
}

/* Element j of window i is i * step + j * dilation of the axis; the windows stay there, the elements become the last axis. */
ow_v ow_unfold(ow *w, tj_node *n, const ow_v *x)
{
	const int axis = (int)tj_node_attr(n, 0), rank = tj_node_rank(n);
	int64_t perm[TJ_MAX_RANK];
	ow_v window = ow_range(w, ow_dim_value(w, n, axis)), place = ow_range(w, ow_attr_value(w, n, 1));
	window = ow_op2(w, "Mul", window, ow_attr_value(w, n, 2));
	place = ow_op2(w, "Mul", place, ow_attr_value(w, n, 3));
	const ow_v index = ow_op2(w, "Add", ow_unsqueeze(w, window, (int64_t[]){ 1 }, 1), place);
	ow_attr_int(w, "axis", axis);
	const ow_v y = ow_op2(w, "Gather", x[0], index);
	for (int d = 0, k = 0; d < rank; d++)
		if (d != axis + 1) perm[k++] = d;
	perm[rank - 1] = axis + 1;
	ow_attr_ints(w, "perm", perm, rank);
	return ow_op1(w, "Transpose", y);
}

/* ---- joining ---- */
ow_v ow_cat(ow *w, tj_node *n, const ow_v *x)
{
	ow_attr_int(w, "axis", tj_node_attr(n, 0));
	return ow_op(w, "Concat", tj_node_dtype(n), tj_node_inputs(n), x);
}

/* Attributes: the mode, then for each of the last axes how many before and behind. */
ow_v ow_pad(ow *w, tj_node *n, const ow_v *x)
{
	static const char *const modes[] = { "constant", "reflect", "edge" };
	const int rank = tj_node_rank(n), k = (tj_node_attrs(n) - 1) / 2, mode = (int)tj_node_attr(n, 0);
	const tj_dtype t = tj_node_dtype(n), as = t == TJ_F16 || t == TJ_BF16 ? TJ_F32 : t == TJ_I16 ? TJ_I32 : t;
	int64_t pads[2 * TJ_MAX_RANK] = { 0 };
	for (int i = 0; i < k; i++) {
		pads[rank - k + i] = tj_node_attr(n, 1 + 2 * i);
		pads[2 * rank - k + i] = tj_node_attr(n, 2 + 2 * i);
	}
	const ow_v in[] = { ow_cast(w, x[0], as), ow_i64s(w, pads, 2 * rank), mode ? 0 : ow_cast(w, x[1], as) };
	ow_attr_text(w, "mode", modes[mode]);
	return ow_cast(w, ow_op(w, "Pad", as, 3, in), t);
}

/* ---- by index ---- */
static ow_v index_of(ow *w, ow_v v) { return ow_dtype(w, v) == TJ_I32 ? v : ow_cast(w, v, TJ_I64); }

ow_v ow_gather_row(ow *w, tj_node *n, const ow_v *x)
{
	const int64_t one[] = { 1 };
	const bool bare = !tj_node_rank(tj_node_input(n, 0)), none = !tj_node_rank(tj_node_input(n, 1));
	const ow_v a = bare ? ow_reshape(w, x[0], one, 1) : x[0], i = none ? ow_reshape(w, x[1], one, 1) : x[1], index = index_of(w, i);
	ow_attr_int(w, "axis", tj_node_attr(n, 0));
	const ow_v y = ow_op2(w, "GatherElements", a, index);
	return tj_node_rank(n) ? y : ow_reshape(w, y, one, 0);
}

ow_v ow_index_select(ow *w, tj_node *n, const ow_v *x)
{
	const bool embedding = !strcmp(tj_node_op(n), "embedding"), bare = !tj_node_rank(tj_node_input(n, 0));
	const int64_t one[] = { 1 };
	const ow_v a = bare ? ow_reshape(w, x[0], one, 1) : x[0];
	ow_v i = index_of(w, x[1]);
	if (!embedding && !tj_node_rank(tj_node_input(n, 1)) && tj_node_rank(n)) i = ow_reshape(w, i, one, 1);
	ow_attr_int(w, "axis", embedding ? 0 : tj_node_attr(n, 0));
	const ow_v y = ow_op2(w, "Gather", a, i);
	return tj_node_rank(n) ? y : ow_reshape(w, y, one, 0);
}

/* Elements of src beyond the index are not used; ONNX wants none. */
static ow_v cut(ow *w, tj_node *index, tj_node *src, ow_v v)
{
	for (int d = 0; d < tj_node_rank(index); d++) {
		ow_size s, t;
		const bool a = ow_dim_varies(w, index, d, &s), b = ow_dim_varies(w, src, d, &t);
		if (a == b && (a ? ow_same_size(&s, &t) : ow_dim(index, d) == ow_dim(src, d))) continue;
		v = ow_slice(w, v, d, ow_i64(w, 0), ow_dim_value(w, index, d), ow_i64(w, 1));
	}
	return v;
}

static ow_v scattered(ow *w, const tj_node *n, const char *reduction, ow_v a, ow_v i, ow_v s)
{
	ow_attr_int(w, "axis", tj_node_attr(n, 0));
	ow_attr_text(w, "reduction", reduction);
	return ow_op(w, "ScatterElements", ow_dtype(w, a), 3, (ow_v[]){ a, i, s });
}

/* A NaN counts as largest and as least: runtimes lose it. */
static ow_v scattered_extreme(ow *w, const tj_node *n, const char *reduction, ow_v a, ow_v i, ow_v s)
{
	const tj_dtype t = ow_dtype(w, a);
	const ow_v none = ow_const(w, t, strcmp(reduction, "max") ? INFINITY : -INFINITY), p = ow_op1(w, "IsNaN", a),
		   q = ow_op1(w, "IsNaN", s);
	const ow_v mark = scattered(w, n, "add", ow_cast(w, p, TJ_I32), i, ow_cast(w, q, TJ_I32));
	const ow_v y = scattered(w, n, reduction, ow_where(w, p, none, a), i, ow_where(w, q, none, s));
	return ow_where(w, ow_op2(w, "Greater", mark, ow_const_int(w, TJ_I32, 0)), ow_const(w, t, NAN), y);
}

ow_v ow_scatter(ow *w, tj_node *n, const ow_v *x)
{
	static const struct {
		const char *op, *reduction;
	} how[] = { { "scatter", "none" },
		    { "scatter_add", "add" },
		    { "scatter_prod", "mul" },
		    { "scatter_amax", "max" },
		    { "scatter_amin", "min" } };
	size_t k = 0;
	while (strcmp(how[k].op, tj_node_op(n))) k++;
	const tj_dtype t = tj_node_dtype(n);
	const bool bare = !tj_node_rank(n);
	const ow_row *r = ow_row_of(n);
	ow_v a = ow_work(w, r, x[0]), i = index_of(w, x[1]),
	     s = ow_cast(w, cut(w, tj_node_input(n, 1), tj_node_input(n, 2), x[2]), ow_dtype(w, a));
	const int64_t one[] = { 1 };
	if (bare) a = ow_reshape(w, a, one, 1), i = ow_reshape(w, i, one, 1), s = ow_reshape(w, s, one, 1);
	const bool extreme = k >= 3 && ow_is_float(t) && !w->o.finite;
	ow_v y = (extreme ? scattered_extreme : scattered)(w, n, how[k].reduction, a, i, s);
	if (bare) y = ow_reshape(w, y, one, 0);
	return t == TJ_BOOL ? ow_convert(w, y, t) : ow_cast(w, y, t);
}

ow_v ow_one_hot_row(ow *w, tj_node *n, const ow_v *x)
{
	const int64_t last = tj_node_rank(n) - 1;
	const ow_v i = ow_unsqueeze(w, ow_cast(w, x[0], TJ_I64), &last, 1), places = ow_range(w, ow_dim_value(w, n, (int)last));
	return ow_cast(w, ow_op2(w, "Equal", i, places), TJ_I64);
}

/* ---- made of no tensor ---- */
ow_v ow_full(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v shape = ow_shape_value(w, n);
	return ow_op2(w, "Expand", ow_convert(w, x[0], tj_node_dtype(n)), shape);
}

static ow_v number_at(ow *w, tj_node *n, int k) { return ow_squeeze(w, ow_attr_value(w, n, k), (int64_t[]){ 0 }, 1); }

ow_v ow_arange(ow *w, tj_node *n, const ow_v *x)
{
	(void)x;
	const ow_v in[] = { number_at(w, n, 1), number_at(w, n, 2), number_at(w, n, 3) };
	return ow_cast(w, ow_op(w, "Range", TJ_I64, 3, in), tj_node_dtype(n));
}

ow_v ow_eye(ow *w, tj_node *n, const ow_v *x)
{
	(void)x;
	const ow_v row = ow_unsqueeze(w, ow_range(w, ow_dim_value(w, n, 0)), (int64_t[]){ 1 }, 1),
		   column = ow_range(w, ow_dim_value(w, n, 1));
	const ow_v on = ow_op2(w, "Equal", row, column);
	return ow_is_float(tj_node_dtype(n)) ? ow_cast(w, ow_cast(w, on, TJ_F32), tj_node_dtype(n)) : ow_cast(w, on, tj_node_dtype(n));
}
