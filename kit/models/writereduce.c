/* SPDX-License-Identifier: MIT */
/* writereduce: reductions, running sums, order, products, windows and norms, as nodes. */
#include "kit/models/write.h"

#include <math.h>

/* ---- reductions: attributes keepdim, then axes; none: all ---- */
static int axes_of(const tj_node *n, int first, int64_t *axis)
{
	int k = 0;
	for (int i = first; i < tj_node_attrs(n) && k < TJ_MAX_RANK; i++) axis[k++] = tj_node_attr(n, i);
	if (k) return k;
	for (; k < tj_node_rank(tj_node_input(n, 0)); k++) axis[k] = k;
	return k;
}

static ow_v reduced(ow *w, tj_node *n, const char *op, ow_v v)
{
	int64_t axis[TJ_MAX_RANK];
	const int k = axes_of(n, 1, axis);
	return k ? ow_reduce(w, op, v, axis, k, tj_node_attr(n, 0) != 0) : v;
}

ow_v ow_reduce_row(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const tj_dtype t = tj_node_dtype(n);
	return ow_back(w, n, reduced(w, n, r->becomes, ow_work(w, r, ow_is_float(t) ? x[0] : ow_cast(w, x[0], t))));
}

/* Runtimes lose a NaN in a maximum, or find it only where it comes first. */
static bool keeps_nan(const ow *w, ow_v v) { return ow_is_float(ow_dtype(w, v)) && !w->o.finite; }

ow_v ow_extreme(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_work(w, r, x[0]);
	if (!keeps_nan(w, a)) return ow_back(w, n, reduced(w, n, r->becomes, a));
	const bool most = !strcmp(r->name, "amax");
	const tj_dtype t = ow_dtype(w, a);
	const ow_v is = ow_op1(w, "IsNaN", a),
		   y = reduced(w, n, r->becomes, ow_where(w, is, ow_const(w, t, most ? -INFINITY : INFINITY), a));
	const ow_v any = ow_op2(w, "Greater", reduced(w, n, "ReduceMax", ow_cast(w, is, TJ_I32)), ow_const_int(w, TJ_I32, 0));
	return ow_back(w, n, ow_where(w, any, ow_const(w, t, NAN), y));
}

/* any: some are true; all: none is false. */
ow_v ow_any(ow *w, tj_node *n, const ow_v *x)
{
	const bool all = !strcmp(tj_node_op(n), "all");
	ow_v b = ow_convert(w, x[0], TJ_BOOL);
	if (all) b = ow_op1(w, "Not", b);
	const ow_v count = reduced(w, n, "ReduceSum", ow_cast(w, b, TJ_I32)),
		   some = ow_op2(w, "Greater", count, ow_const_int(w, TJ_I32, 0));
	return all ? ow_op1(w, "Not", some) : some;
}

/* The place of the first largest, NaN counting as largest; attributes keepdim, axis or TJ_END_DIM. For min_with_indices and
 * max_with_indices also the element there. */
ow_v ow_arg(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const bool flat = tj_node_attr(n, 1) == TJ_END_DIM || !tj_node_rank(tj_node_input(n, 0)), both = strstr(r->name, "with") != NULL;
	const bool most = !strcmp(r->becomes, "ArgMax"), keep = tj_node_attr(n, 0) != 0;
	const int rank = tj_node_rank(tj_node_input(n, 0));
	const int64_t minus[] = { -1 };
	int64_t axis = flat ? 0 : tj_node_attr(n, 1), ones[TJ_MAX_RANK];
	const ow_v whole = flat ? ow_reshape(w, x[0], minus, 1) : x[0], a = ow_work(w, r, whole);
	ow_v i;
	if (keeps_nan(w, a)) {
		const ow_v is = ow_op1(w, "IsNaN", a), clean = ow_where(w, is, ow_const(w, ow_dtype(w, a), most ? -INFINITY : INFINITY), a);
		const ow_v mark = ow_cast(w, is, TJ_I32),
			   any = ow_op2(w, "Greater", ow_reduce(w, "ReduceMax", mark, &axis, 1, true), ow_const_int(w, TJ_I32, 0));
		ow_attr_int(w, "axis", axis);
		const ow_v of_nan = ow_op(w, "ArgMax", TJ_I64, 1, &mark);
		ow_attr_int(w, "axis", axis);
		i = ow_where(w, any, of_nan, ow_op(w, r->becomes, TJ_I64, 1, &clean));
	} else {
		ow_attr_int(w, "axis", axis);
		i = ow_op(w, r->becomes, TJ_I64, 1, &a);
	}
	ow_v value = 0;
	if (both) {
		ow_attr_int(w, "axis", axis);
		value = ow_op2(w, "GatherElements", whole, i);
	}
	for (int d = 0; d < rank; d++) ones[d] = 1;
	for (int k = 0; k < 2; k++) {
		ow_v *v = k ? &value : &i;
		if (!*v) continue;
		if (flat)
			*v = ow_reshape(w, *v, ones, keep ? rank : 0);
		else if (!keep)
			*v = ow_squeeze(w, *v, &axis, 1);
	}
	if (!both) return i;
	ow_result(w, n, 0, value);
	ow_result(w, n, 1, i);
	return 0;
}

/* ---- along an axis ---- */
ow_v ow_cumsum(ow *w, tj_node *n, const ow_v *x)
{
	const tj_dtype t = tj_node_dtype(n);
	const ow_v a = ow_work(w, ow_row_of(n), ow_is_float(t) ? x[0] : ow_cast(w, x[0], t));
	if (!tj_node_rank(n)) return ow_back(w, n, a);
	return ow_back(w, n, ow_op2(w, "CumSum", a, ow_const_int(w, TJ_I64, tj_node_attr(n, 0))));
}

/* ---- a Scan over the slices of an axis ---- */
typedef struct running {
	const char *op;
	ow_v state[3], element[2], next[3], out[2]; /* values of the body; state 0: the number of the slice */
	int nstate, nelement, nout;
} running;

static void turn(ow *w, running *r)
{
	const ow_v s = r->state[1], a = r->element[0];
	r->next[0] = ow_op2(w, "Add", r->state[0], ow_const_int(w, TJ_I64, 1));
	if (!strcmp(r->op, "cumprod"))
		r->next[1] = ow_op2(w, "Mul", s, a);
	else if (!strcmp(r->op, "linear_recurrence")) {
		const tj_dtype t = ow_dtype(w, s), as = t == TJ_F32 ? TJ_F64 : t; /* f64 holds the product of two f32 */
		const ow_v b = r->element[1], first = ow_op2(w, "Equal", r->state[0], ow_const_int(w, TJ_I64, 0));
		const ow_v y = ow_op2(w, "Add", ow_op2(w, "Mul", ow_cast(w, a, as), ow_cast(w, s, as)), ow_cast(w, b, as));
		r->next[1] = ow_where(w, first, b, ow_cast(w, y, t));
	} else {
		ow_v take = ow_op2(w, strcmp(r->op, "cummax") ? "LessOrEqual" : "GreaterOrEqual", a, s);
		if (ow_is_float(ow_dtype(w, a))) take = ow_op2(w, "Or", take, ow_op1(w, "IsNaN", a));
		r->next[1] = ow_where(w, take, a, s);
		r->next[2] = ow_where(w, take, r->state[0], r->state[2]);
	}
	for (int k = 0; k < r->nout; k++) r->out[k] = ow_op1(w, "Identity", r->next[1 + k]);
}

/* The body as a graph, with its inputs and outputs. */
static void body_of(ow *w, running *r, tj_node *of, int axis, ow_bytes *g)
{
	ow_bytes *outer = w->body;
	w->body = g;
	turn(w, r);
	w->body = outer;
	ow_put_text(g, 2, r->op);
	for (int i = 0; i < r->nstate; i++) ow_put_info(w, g, 11, r->state[i], i ? of : NULL, axis);
	for (int i = 0; i < r->nelement; i++) ow_put_info(w, g, 11, r->element[i], of, axis);
	for (int i = 0; i < r->nstate; i++) ow_put_info(w, g, 12, r->next[i], i ? of : NULL, axis);
	for (int i = 0; i < r->nout; i++) ow_put_info(w, g, 12, r->out[i], of, axis);
}

/* v, of the shape of a slice. */
static ow_v in_slice(ow *w, tj_node *n, int axis, ow_v v)
{
	ow_v part[TJ_MAX_RANK], shape = ow_i64s(w, NULL, 0);
	int k = 0;
	for (int d = 0; d < tj_node_rank(n); d++)
		if (d != axis) part[k++] = ow_dim_value(w, n, d);
	if (k > 1) ow_attr_int(w, "axis", 0);
	if (k) shape = k > 1 ? ow_op(w, "Concat", TJ_I64, k, part) : part[0];
	return ow_op2(w, "Expand", v, shape);
}

static double before_first(const char *op, tj_dtype t)
{
	if (!strcmp(op, "cumprod")) return 1;
	if (!strcmp(op, "linear_recurrence")) return 0;
	const double least = ow_is_float(t) ? -INFINITY : t == TJ_I64 ? -0x1p63 : -0x1p31;
	return !strcmp(op, "cummax") ? least : -least;
}

/* cummax, cummin: a NaN counts as largest or least, and the last of equals is taken. */
ow_v ow_running(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *row = ow_row_of(n);
	tj_node *a = tj_node_input(n, 0);
	const bool pick = !strcmp(row->name, "cummax") || !strcmp(row->name, "cummin"), pair = !strcmp(row->name, "linear_recurrence");
	const tj_dtype t = pick ? tj_node_dtype(a) : tj_node_dtype(n);
	const int64_t axis = tj_node_attr(n, 0), axes[] = { axis, axis };
	if (!tj_node_rank(a)) {
		if (!pick) return ow_cast(w, x[pair], t);
		ow_result(w, n, 0, x[0]);
		ow_result(w, n, 1, ow_const_int(w, TJ_I64, 0));
		return 0;
	}
	const ow_v e[2] = { ow_work(w, row, ow_is_float(t) || pick ? x[0] : ow_cast(w, x[0], t)), pair ? ow_work(w, row, x[1]) : 0 };
	const tj_dtype as = ow_dtype(w, e[0]);
	running r = { .op = row->name, .nstate = pick ? 3 : 2, .nelement = 1 + pair, .nout = 1 + pick };
	const ow_v least = as == TJ_I64 && !strcmp(row->name, "cummin")   ? ow_const_int(w, as, INT64_MAX)
	                   : as == TJ_I32 && !strcmp(row->name, "cummin") ? ow_const_int(w, as, INT32_MAX)
	                                                                  : ow_const(w, as, before_first(row->name, as));
	ow_v in[5] = { ow_const_int(w, TJ_I64, 0), in_slice(w, a, (int)axis, least) }, out[5] = { 0 };
	if (pick) in[2] = in_slice(w, a, (int)axis, ow_const_int(w, TJ_I64, 0));
	for (int i = 0; i < r.nstate; i++) r.state[i] = ow_new_value(w, NULL, i == 1 ? as : TJ_I64);
	for (int i = 0; i < r.nelement; i++) r.element[i] = ow_new_value(w, NULL, as), in[r.nstate + i] = e[i];
	for (int i = 0; i < r.nout; i++) out[r.nstate + i] = ow_new_value(w, NULL, i ? TJ_I64 : as);
	ow_bytes g = { 0 };
	body_of(w, &r, a, (int)axis, &g);
	ow_attr_int(w, "num_scan_inputs", r.nelement);
	ow_attr_ints(w, "scan_input_axes", axes, r.nelement);
	ow_attr_ints(w, "scan_output_axes", axes, r.nout);
	ow_attr_graph(w, "body", &g);
	free(g.v);
	for (int i = 0; i < r.nstate; i++) out[i] = ow_new_value(w, NULL, i == 1 ? as : TJ_I64);
	ow_emit(w, "Scan", r.nstate + r.nelement, in, r.nstate + r.nout, out);
	const ow_v y = ow_cast(w, out[r.nstate], t);
	if (!pick) return y;
	ow_result(w, n, 0, y);
	ow_result(w, n, 1, out[r.nstate + 1]);
	return 0;
}

/* ---- order: NaN counts as largest; equal elements keep their order ---- */
static void top(ow *w, ow_v a, int64_t axis, bool most, ow_v k, ow_v out[2])
{
	out[0] = ow_new_value(w, NULL, ow_dtype(w, a));
	out[1] = ow_new_value(w, NULL, TJ_I64);
	ow_attr_int(w, "axis", axis);
	ow_attr_int(w, "largest", most);
	ow_emit(w, "TopK", 2, (ow_v[]){ a, k }, 2, out);
}

ow_v ow_sort(ow *w, tj_node *n, const ow_v *x)
{
	const bool topk = !strcmp(tj_node_op(n), "topk");
	tj_node *a = tj_node_input(n, 0);
	const int64_t axis = tj_node_attr(n, 0), one[] = { 1 };
	const bool bare = !tj_node_rank(a), most = tj_node_attr(n, topk ? 2 : 1) != 0;
	const ow_v e = ow_work(w, ow_row_of(n), bare ? ow_reshape(w, x[0], one, 1) : x[0]);
	const ow_v k = topk ? ow_attr_value(w, n, 1) : bare ? ow_i64(w, 1) : ow_dim_value(w, a, (int)axis);
	ow_v out[2];
	top(w, e, bare ? 0 : axis, most, k, out);
	for (int i = 0; i < 2; i++)
		ow_result(w, n, i, ow_cast(w, bare ? ow_reshape(w, out[i], one, 0) : out[i], i ? TJ_I64 : tj_node_dtype(a)));
	return 0;
}

ow_v ow_take_sorted(ow *w, tj_node *n, const ow_v *x)
{
	tj_node *a = tj_node_input(n, 0);
	const int64_t axis = tj_node_attr(n, 0), one[] = { 1 };
	const bool bare = !tj_node_rank(a);
	const ow_v e = ow_work(w, ow_row_of(n), bare ? ow_reshape(w, x[0], one, 1) : x[0]);
	const ow_v place = ow_cast(w, bare ? ow_reshape(w, x[1], one, 1) : x[1], TJ_I64);
	ow_v out[2];
	top(w, e, bare ? 0 : axis, false, bare ? ow_i64(w, 1) : ow_dim_value(w, a, (int)axis), out);
	for (int i = 0; i < 2; i++) {
		ow_attr_int(w, "axis", bare ? 0 : axis);
		const ow_v y = ow_op2(w, "GatherElements", out[i], place);
		ow_result(w, n, i, ow_cast(w, bare ? ow_reshape(w, y, one, 0) : y, i ? TJ_I64 : tj_node_dtype(a)));
	}
	return 0;
}

/* How many elements come before the value; NaN comes last. */
ow_v ow_searchsorted(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const bool right = tj_node_attr(n, 0) != 0;
	const int64_t rank = tj_node_rank(n);
	ow_v s = ow_work(w, r, x[0]);
	const int64_t before[] = { tj_node_rank(tj_node_input(n, 0)) - 1 };
	const ow_v v = ow_unsqueeze(w, ow_work(w, r, x[1]), &rank, 1);
	if (before[0] > 0) s = ow_unsqueeze(w, s, before, 1);
	ow_v is = ow_op2(w, right ? "LessOrEqual" : "Less", s, v);
	if (ow_is_float(ow_dtype(w, s))) {
		const ow_v number = ow_op1(w, "Not", ow_op1(w, "IsNaN", s)), nan = ow_op1(w, "IsNaN", v);
		is = ow_op2(w, "Or", is, right ? nan : ow_op2(w, "And", number, nan));
	}
	return ow_reduce(w, "ReduceSum", ow_cast(w, is, TJ_I64), &rank, 1, false);
}

/* ---- windows: the pools' sizes, then strides, dilations, and the padding before and behind each axis ---- */
static void window(ow *w, const tj_node *n, int first, int axes, bool sizes)
{
	int64_t v[3][TJ_MAX_RANK] = { { 0 } }, pads[2 * TJ_MAX_RANK];
	const int lists = sizes ? 3 : 2;
	for (int l = 0; l < lists; l++)
		for (int d = 0; d < axes; d++) v[l][d] = tj_node_attr(n, first + l * axes + d);
	for (int d = 0; d < axes; d++) {
		pads[d] = tj_node_attr(n, first + lists * axes + 2 * d);
		pads[axes + d] = tj_node_attr(n, first + lists * axes + 2 * d + 1);
	}
	bool dilated = false;
	for (int d = 0; d < axes; d++) dilated |= v[lists - 1][d] != 1;
	if (sizes) ow_attr_ints(w, "kernel_shape", v[0], axes);
	ow_attr_ints(w, "strides", v[lists - 2], axes);
	if (dilated || strcmp(tj_node_op(n), "avg_pool")) ow_attr_ints(w, "dilations", v[lists - 1], axes);
	ow_attr_ints(w, "pads", pads, 2 * axes);
}

ow_v ow_conv_row(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const int axes = tj_node_rank(n) - 2;
	const ow_v a = ow_work(w, r, x[0]), b = ow_work(w, r, x[1]);
	ow_attr_int(w, "group", tj_node_attr(n, 0));
	window(w, n, 1, axes, false);
	return ow_back(w, n, ow_op2(w, r->becomes, a, b));
}

static ow_v pooled(ow *w, tj_node *n, ow_v a)
{
	const bool most = !strcmp(tj_node_op(n), "max_pool");
	const int first = most ? 1 : 2, axes = (tj_node_attrs(n) - first) / 5;
	window(w, n, first, axes, true);
	ow_attr_int(w, "ceil_mode", tj_node_attr(n, 0));
	if (!most) ow_attr_int(w, "count_include_pad", tj_node_attr(n, 1) == 0);
	return ow_op1(w, ow_row_of(n)->becomes, a);
}

ow_v ow_pool(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	if (strcmp(tj_node_op(n), "max_pool") || !keeps_nan(w, a)) return ow_back(w, n, pooled(w, n, a));
	const ow_v is = ow_op1(w, "IsNaN", a), mark = pooled(w, n, ow_cast(w, is, TJ_F32)), y = pooled(w, n, a);
	return ow_back(w, n, ow_where(w, ow_op2(w, "Greater", mark, ow_const(w, TJ_F32, 0)), ow_const(w, TJ_F32, NAN), y));
}

/* ---- composites along an axis ---- */
ow_v ow_along_axis(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_work(w, r, x[0]);
	ow_attr_int(w, "axis", tj_node_attr(n, 0));
	return ow_back(w, n, ow_op1(w, r->becomes, a));
}

ow_v ow_layer_norm(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v in[] = { ow_work(w, r, x[0]), ow_work(w, r, x[1]), ow_work(w, r, x[2]) };
	tj_node *e = tj_node_input(n, 3);
	double eps = 0;
	if (tj_node_dtype(e) == TJ_F64)
		memcpy(&eps, tj_node_data(e), sizeof eps);
	else {
		float f;
		memcpy(&f, tj_node_data(e), sizeof f);
		eps = (double)f;
	}
	ow_attr_int(w, "axis", -1);
	ow_attr_float(w, "epsilon", eps);
	return ow_back(w, n, ow_op(w, r->becomes, ow_dtype(w, in[0]), 3, in));
}
