/* SPDX-License-Identifier: MIT */
/* infer: finds the dtype and the shape of a result from operands and attributes, and checks all that does not depend on data.
 *
 * TYPE RULES (a table in docs/OPS.md) give the dtype that each operand is cast to, and the dtype of the result. SHAPE RULES give the
 * sizes of the result and bring the attributes into normal form: axes counted from the front, sizes in place of -1, sets of axes
 * sorted. A normal form is itself a valid attribute with the same meaning.
 *
 * Promotion is PyTorch's. Operands fall into three groups: tensors with axes, 0-d tensors, and numbers. A later group matters only
 * if its category (bool < integer < float) is higher. */
#include "ir/rules.h"
#include "ir/window.h"

#define MAX_ATTR (TJ_MAX_RANK + 4)

typedef struct ask {
	const ir_opinfo *info;
	ir_op op;
	int nsrc, nattr;
	const ir_meta *src;
	const int64_t *attr; /* raw */
	ir_meta *out;
	int64_t *norm;       /* normal form, nnorm of them */
	int nnorm;
	uint8_t *want;       /* may be NULL */
	rt_err *err;
} ask;

/* ---- errors ---- */
void ir_put_meta(rt_text *t, const ir_meta *m)
{
	rt_puts(t, tj_dtype_name((tj_dtype)m->dtype));
	if (m->weak) return;
	rt_puts(t, "[");
	for (int i = 0; i < m->rank; i++) rt_putf(t, "%s%lld", i ? "," : "", (long long)m->dim[i]);
	rt_puts(t, "]");
	if (m->device != RT_CPU) rt_putf(t, "@%s", rt_device_name(m->device));
}

/* The attributes of a creation op: a dtype and sizes. */
static void put_wanted(rt_text *t, const ask *q)
{
	bool known = q->nattr && q->attr[0] >= 0 && q->attr[0] < TJ_DTYPE_COUNT;
	rt_puts(t, known ? tj_dtype_name((tj_dtype)q->attr[0]) : "?");
	for (int i = 1; i < q->nattr; i++) rt_putf(t, "%s%lld", i > 1 ? "," : "[", (long long)q->attr[i]);
	rt_puts(t, q->nattr > 1 ? "]" : "[]");
}

static int numbers_of(const ask *q) { return ir_classes[q->info->opclass].numbers; }

/* The first operands as "f32[2,3] x i64[4]", without those that C passes as double, such as a correction. */
static void put_operands(rt_text *t, const ask *q)
{
	if (q->info->opclass == IR_FULL || q->info->opclass == IR_RANDOM) {
		put_wanted(t, q);
		return;
	}
	const int n = q->nsrc - numbers_of(q);
	for (int k = 0; k < n && k < 4; k++) {
		if (k) rt_puts(t, " x ");
		ir_put_meta(t, &q->src[k]);
	}
	if (n > 4) rt_puts(t, " x ...");
}

/* what: operands (detail) */
RT_PRINTF(4, 5)
static bool fail(const ask *q, tj_status code, const char *what, const char *detail, ...)
{
	rt_text t = { 0 };
	char buf[200];
	va_list ap;
	va_start(ap, detail);
	vsnprintf(buf, sizeof buf, detail, ap);
	va_end(ap);
	put_operands(&t, q);
	rt_fail(q->err, code, q->info->name, "%s%s%s%s%s%s", what, t.n ? ": " : "", rt_str(&t),
	        buf[0] ? " (" : "", buf, buf[0] ? ")" : "");
	rt_text_free(&t);
	return false;
}

/* After fail(): what to do. */
static bool advise(const ask *q, const char *hint) { return rt_hint(q->err, "%s", hint), false; }

/* ---- promotion ---- */
/* The dtype that a and b promote to, by PyTorch's table. No order of dtypes gives this: i8 with u8 is i16, f16 with bf16 is f32. */
static tj_dtype join(tj_dtype a, tj_dtype b)
{
	enum { B1 = TJ_BOOL, U8 = TJ_U8, I8 = TJ_I8, IS = TJ_I16, IW = TJ_I32, IL = TJ_I64, HF = TJ_F16, BF = TJ_BF16, FS = TJ_F32, FD = TJ_F64 };
	static const uint8_t table[TJ_DTYPE_COUNT][TJ_DTYPE_COUNT] = {
		/*             bool u8  i8  i16 i32 i64 f16 bf16 f32 f64 */
		[TJ_BOOL] = { B1, U8, I8, IS, IW, IL, HF, BF, FS, FD },
		[TJ_U8]   = { U8, U8, IS, IS, IW, IL, HF, BF, FS, FD },
		[TJ_I8]   = { I8, IS, I8, IS, IW, IL, HF, BF, FS, FD },
		[TJ_I16]  = { IS, IS, IS, IS, IW, IL, HF, BF, FS, FD },
		[TJ_I32]  = { IW, IW, IW, IW, IW, IL, HF, BF, FS, FD },
		[TJ_I64]  = { IL, IL, IL, IL, IL, IL, HF, BF, FS, FD },
		[TJ_F16]  = { HF, HF, HF, HF, HF, HF, HF, FS, FS, FD },
		[TJ_BF16] = { BF, BF, BF, BF, BF, BF, FS, BF, FS, FD },
		[TJ_F32]  = { FS, FS, FS, FS, FS, FS, FS, FS, FS, FD },
		[TJ_F64]  = { FD, FD, FD, FD, FD, FD, FD, FD, FD, FD },
	};
	return (tj_dtype)table[a][b];
}

/* b matters only if its category is higher. -1: no dtype. */
static int combine(int a, int b)
{
	if (a < 0) return b;
	if (b < 0) return a;
	return rt_dtype_cat((tj_dtype)b) > rt_dtype_cat((tj_dtype)a) ? (int)join((tj_dtype)a, (tj_dtype)b) : a;
}

/* The dtype of a number that becomes a tensor. */
static tj_dtype settled(tj_dtype t) { return rt_is_float(t) ? TJ_F32 : t; }

tj_dtype ir_promote(const ir_meta *a, int n)
{
	int best[3] = { -1, -1, -1 }; /* with axes, 0-d, numbers */
	for (int k = 0; k < n; k++) {
		int *b = &best[a[k].weak ? 2 : a[k].rank == 0];
		tj_dtype t = a[k].weak ? settled((tj_dtype)a[k].dtype) : (tj_dtype)a[k].dtype;
		*b = *b < 0 ? (int)t : (int)join((tj_dtype)*b, t);
	}
	int r = combine(best[0], combine(best[1], best[2]));
	return r < 0 ? TJ_F32 : (tj_dtype)r;
}

static bool all_weak(const ask *q)
{
	for (int k = 0; k < q->nsrc; k++)
		if (!q->src[k].weak) return false;
	return q->nsrc > 0 && (q->info->flags & IR_POINT);
}

/* As ir_promote(), but floats are f64 when all operands are numbers. */
static tj_dtype promote(const ask *q, const ir_meta *a, int n)
{
	tj_dtype t = ir_promote(a, n);
	return q->out->weak && rt_is_float(t) ? TJ_F64 : t;
}

/* ---- type rules ---- */
static bool type_is(ask *q, tj_dtype t)
{
	q->out->dtype = (uint8_t)t;
	return true;
}

static void want_one(ask *q, int k, tj_dtype t)
{
	if (q->want) q->want[k] = (uint8_t)t;
}

static void want_all(ask *q, tj_dtype t)
{
	for (int k = 0; k < q->nsrc; k++) want_one(q, k, t);
}

static bool same_for_all(ask *q, tj_dtype t)
{
	want_all(q, t);
	return type_is(q, t);
}

static bool refuse(ask *q, const char *what, const char *hint)
{
	return fail(q, TJ_ERR_DTYPE, what, "%s", "") || advise(q, hint);
}

static bool type_promote(ask *q) { return same_for_all(q, promote(q, q->src, q->nsrc)); }

static bool type_numeric(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc);
	if (t == TJ_BOOL) return refuse(q, "bool is not accepted", "cast it first: tj_cast(x, TJ_I32)");
	return same_for_all(q, t);
}

static bool type_float(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc);
	return same_for_all(q, rt_is_float(t) ? t : q->out->weak ? TJ_F64 : TJ_F32);
}

/* As type_float; but a weight without axes that is a number, or has the dtype of computation of both ends, has that dtype, and does not
 * promote them. */
static bool type_lerp(ask *q)
{
	const ir_meta *w = &q->src[2];
	const tj_dtype ends = promote(q, q->src, 2), wide = rt_compute_dtype(ends);
	if (!rt_is_float(ends) || !(w->weak || (!w->rank && w->dtype == wide))) return type_float(q);
	same_for_all(q, ends);
	want_one(q, 2, wide);
	return true;
}

/* As type_float, but numbers have the dtype of computation: an eps of 1e-8 would be 0 in f16. */
static bool type_norm(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc - numbers_of(q));
	same_for_all(q, rt_is_float(t) ? t : TJ_F32);
	for (int k = q->nsrc - numbers_of(q); k < q->nsrc; k++) want_one(q, k, rt_compute_dtype((tj_dtype)q->out->dtype));
	return true;
}

/* As type_promote, but numbers have the dtype of computation. */
static bool type_with(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc - numbers_of(q));
	same_for_all(q, t);
	for (int k = q->nsrc - numbers_of(q); k < q->nsrc; k++) want_one(q, k, rt_compute_dtype(t));
	return true;
}

static bool type_close(ask *q) { return type_norm(q) && type_is(q, TJ_BOOL); }

static bool type_double(ask *q) { return same_for_all(q, TJ_F64); }

static bool type_floatonly(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc - numbers_of(q));
	return rt_is_float(t) ? type_norm(q) : refuse(q, "a float is needed", "cast it first: tj_cast(x, TJ_F32)");
}

static bool type_bits(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc);
	if (rt_is_float(t)) return refuse(q, "bool or integers are needed", "cast it first: tj_cast(x, TJ_I32)");
	return same_for_all(q, t);
}

static bool type_integer(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc);
	if (rt_dtype_cat(t) != RT_INT)
		return refuse(q, "integers are needed", "cast it first: tj_cast(x, TJ_I32)");
	return same_for_all(q, t);
}

/* Integers and an int number are compared in i64, so the number keeps its exact value. */
static tj_dtype exact(const ask *q, tj_dtype t)
{
	for (int k = 0; k < q->nsrc; k++)
		if (rt_dtype_cat(t) == RT_INT && q->src[k].weak) return TJ_I64;
	return t;
}

static bool type_compare(ask *q)
{
	want_all(q, exact(q, promote(q, q->src, q->nsrc)));
	return type_is(q, TJ_BOOL);
}

static bool type_search(ask *q)
{
	want_all(q, promote(q, q->src, q->nsrc));
	return type_is(q, TJ_I64);
}

static bool type_logic(ask *q) { return same_for_all(q, TJ_BOOL); }

static bool type_where(ask *q)
{
	same_for_all(q, promote(q, q->src + 1, 2));
	want_one(q, 0, TJ_BOOL);
	return true;
}

/* The dtype that the first attribute names; operands stay as they are. */
static bool type_attr(ask *q)
{
	if (q->nattr < 1 || q->attr[0] < 0 || q->attr[0] >= TJ_DTYPE_COUNT)
		return fail(q, TJ_ERR_ARG, "not a dtype", "%d", q->nattr ? (int)q->attr[0] : -1) || advise(q, rt_dtype_advice(NULL, 0));
	if (q->nsrc) want_one(q, 0, (tj_dtype)q->src[0].dtype);
	q->out->weak = false;
	return type_is(q, (tj_dtype)q->attr[0]);
}

static bool type_numbers(ask *q)
{
	if (!type_attr(q)) return false;
	return q->out->dtype != TJ_BOOL || refuse(q, "bool is not accepted", "pass an integer or a float dtype");
}

static bool type_random(ask *q)
{
	if (!type_attr(q)) return false;
	want_all(q, TJ_I64);
	return rt_is_float((tj_dtype)q->out->dtype) ||
	       refuse(q, "a float is needed", "pass TJ_F32, and cast the result");
}

/* Operands stay as they are; numbers become tensors. */
static bool type_given(ask *q)
{
	if (!type_attr(q)) return false;
	for (int k = 0; k < q->nsrc; k++) want_one(q, k, q->src[k].weak ? settled((tj_dtype)q->src[k].dtype) : (tj_dtype)q->src[k].dtype);
	return true;
}

static bool type_full(ask *q)
{
	if (!type_attr(q)) return false;
	want_all(q, (tj_dtype)q->out->dtype);
	return true;
}

static bool type_same(ask *q)
{
	return same_for_all(q, q->src[0].weak ? settled((tj_dtype)q->src[0].dtype) : (tj_dtype)q->src[0].dtype);
}

/* The other operands stay as they are, also where they are. */
static bool type_first(ask *q)
{
	type_same(q);
	for (int k = 1; k < q->nsrc; k++) want_one(q, k, (tj_dtype)q->src[k].dtype);
	q->out->device = q->src[0].device;
	return true;
}

static bool type_filled(ask *q)
{
	type_same(q);
	want_one(q, 1, TJ_BOOL);
	return true;
}

static bool type_sum(ask *q)
{
	tj_dtype t = promote(q, q->src, q->nsrc);
	return same_for_all(q, rt_is_float(t) ? t : TJ_I64);
}

static bool type_arg(ask *q)
{
	type_same(q);
	return type_is(q, TJ_I64);
}

static bool index_ok(ask *q, int k)
{
	if (rt_is_float((tj_dtype)q->src[k].dtype))
		return refuse(q, "an index must be an integer or bool", "cast it first: tj_cast(index, TJ_I64)");
	want_one(q, k, TJ_I64);
	return true;
}

static bool type_index(ask *q) { return type_same(q) && index_ok(q, 1); }

static bool type_csr(ask *q)
{
	const tj_dtype t = promote(q, q->src + 2, 2);
	if (!index_ok(q, 0) || !index_ok(q, 1)) return false;
	want_one(q, 2, t);
	want_one(q, 3, t);
	return type_is(q, t);
}

static bool type_loss(ask *q)
{
	if (!rt_is_float((tj_dtype)q->src[0].dtype))
		return refuse(q, "a float is needed", "cast it first: tj_cast(x, TJ_F32)");
	return type_index(q);
}

static bool type_scatter(ask *q)
{
	if (!type_same(q) || !index_ok(q, 1)) return false;
	if (q->src[2].dtype != q->out->dtype && !q->src[2].weak)
		return refuse(q, "the source must have the dtype of the operand", "cast it first with tj_cast()");
	return true;
}

static bool type_one_hot(ask *q) { return index_ok(q, 0) && type_is(q, TJ_I64); }

/* ---- helpers of the shape rules ---- */
static bool put(ask *q, int64_t v) { return q->norm[q->nnorm++] = v, true; }

static bool shape_from(ask *q, int rank, const int64_t *dim)
{
	if (rank > TJ_MAX_RANK) {
		return fail(q, TJ_ERR_LIMIT, "too many axes", "%d, at most %d", rank, TJ_MAX_RANK) || advise(q, "join axes with tj_reshape()");
	}
	q->out->rank = (uint8_t)rank;
	for (int i = 0; i < rank; i++) q->out->dim[i] = dim[i];
	return true;
}

/* An axis counted from either end; a 0-d operand has axes 0 and -1, as in PyTorch. */
static bool axis_in(const ask *q, int64_t a, int rank, int64_t *axis)
{
	int n = rank ? rank : 1;
	*axis = 0;
	if (a < -n || a >= n)
		return fail(q, TJ_ERR_ARG, "axis out of range", "axis %lld, rank %d", (long long)a, rank) ||
		       advise(q, "axes count from 0 at the front, and from -1 at the end");
	*axis = a < 0 ? a + n : a;
	return true;
}

/* Attributes from..nattr as a set of axes; none of them means all axes. */
static bool axes_in(const ask *q, int from, int rank, uint32_t *set)
{
	*set = 0;
	for (int k = from; k < q->nattr; k++) {
		int64_t a;
		if (!axis_in(q, q->attr[k], rank, &a)) return false;
		if (*set >> a & 1) return fail(q, TJ_ERR_ARG, "an axis is given twice", "axis %lld", (long long)a) || advise(q, "list each axis once");
		*set |= 1u << a;
	}
	if (q->nattr <= from) *set = (1u << rank) - 1;
	if (rank == 0) *set = 0;
	return true;
}

static void put_axes(ask *q, uint32_t set, int rank, bool none_for_all)
{
	if (none_for_all && set == (1u << rank) - 1) return;
	for (int i = 0; i < rank; i++)
		if (set >> i & 1) put(q, i);
}

uint32_t ir_reduced(ir_op op, int nattr, const int64_t *attr, int rank)
{
	uint32_t set = 0, all = (1u << rank) - 1;
	if (nattr == 1 || (ir_ops[op].opclass == IR_ARG && attr[1] == TJ_END_DIM)) return all;
	for (int k = 1; k < nattr; k++) set |= 1u << attr[k];
	return set & all;
}

/* Broadcasts dim[0..*rank), in place, with mdim[0..mrank), as in NumPy. */
static bool broadcast(const ask *q, int *rank, int64_t *dim, int mrank, const int64_t *mdim)
{
	int n = *rank > mrank ? *rank : mrank;
	int64_t out[TJ_MAX_RANK];
	for (int i = 1; i <= n; i++) {
		int64_t a = i <= *rank ? dim[*rank - i] : 1, b = i <= mrank ? mdim[mrank - i] : 1;
		if (a != b && a != 1 && b != 1) {
			fail(q, TJ_ERR_SHAPE, "shapes do not broadcast", "%lld and %lld on axis %d", (long long)a,
			     (long long)b, n - i);
			rt_hint(q->err, "sizes must be equal or 1, counted from the last axis; see tj_unsqueeze() and "
			                "tj_transpose()");
			return false;
		}
		out[n - i] = a == 1 ? b : a;
	}
	memcpy(dim, out, sizeof *out * (size_t)n);
	*rank = n;
	return true;
}

static bool sizes_ok(const ask *q, int n, const int64_t *dim)
{
	for (int i = 0; i < n; i++)
		if (dim[i] < 0)
			return fail(q, TJ_ERR_SHAPE, "a size is negative", "%lld on axis %d", (long long)dim[i], i) ||
			       advise(q, "sizes are 0 or more; tj_reshape() takes -1 once, tj_expand() for the axes of its operand");
	return true;
}

/* ---- shape rules ---- */
static bool shape_same(ask *q)
{
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, q->src[0].rank, q->src[0].dim);
}

static bool shape_broadcast(ask *q)
{
	int rank = 0;
	int64_t dim[TJ_MAX_RANK];
	for (int k = 0; k < q->nsrc; k++)
		if (!broadcast(q, &rank, dim, q->src[k].rank, q->src[k].dim)) return false;
	return shape_from(q, rank, dim);
}

/* As broadcast, but for the numbers. */
static bool shape_with(ask *q)
{
	int rank = 0;
	int64_t dim[TJ_MAX_RANK];
	for (int k = q->nsrc - numbers_of(q); k < q->nsrc; k++)
		if (q->src[k].rank) return fail(q, TJ_ERR_SHAPE, "a parameter must be a number or a 0-d tensor", "operand %d", k);
	for (int k = 0; k < q->nsrc - numbers_of(q); k++)
		if (!broadcast(q, &rank, dim, q->src[k].rank, q->src[k].dim)) return false;
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, rank, dim);
}

static bool shape_order(ask *q)
{
	if (q->attr[0] < 0 || q->attr[0] > IR_MOST_ORDER)
		return fail(q, TJ_ERR_ARG, "the order is out of range", "%lld, from 0 to %d", (long long)q->attr[0], IR_MOST_ORDER) ||
		       advise(q, "each gradient of polygamma has an order one higher");
	return shape_same(q);
}

/* The weight has one element, or one for each index of axis 1. */
static bool shape_prelu(ask *q)
{
	const ir_meta *x = &q->src[0], *w = &q->src[1];
	int64_t n = w->rank ? w->dim[0] : 1, channels = x->rank > 1 ? x->dim[1] : 1;
	if (w->rank > 1 || (n != 1 && n != channels))
		return fail(q, TJ_ERR_SHAPE, "the weight must have one element, or the size of axis 1", "%lld", (long long)channels) ||
		       advise(q, "for other shapes: tj_where(tj_gt(x, tj_i(0)), x, tj_mul(weight, x))");
	return shape_from(q, x->rank, x->dim);
}

static bool shape_axis(ask *q)
{
	int64_t a;
	if (numbers_of(q) && q->src[1].rank) return fail(q, TJ_ERR_SHAPE, "eps must be a number or a 0-d tensor", "%s", "");
	return axis_in(q, q->attr[0], q->src[0].rank, &a) && put(q, a) &&
	       shape_from(q, q->src[0].rank, q->src[0].dim);
}

static bool shape_pair_axis(ask *q)
{
	const ir_meta *a = &q->src[0], *b = &q->src[1];
	if (a->rank != b->rank || memcmp(a->dim, b->dim, sizeof *a->dim * a->rank) != 0)
		return fail(q, TJ_ERR_SHAPE, "the operands must have one shape", "%s", "tj_expand() broadcasts");
	return shape_axis(q);
}

/* Pairs of real and imaginary part along the last axis, which `axis` does not count. */
static bool shape_pairs(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a;
	if (x->rank < 2 || x->dim[x->rank - 1] != 2)
		return fail(q, TJ_ERR_SHAPE, "complex numbers are pairs: the last of at least two axes must have size 2", "%s", "") ||
		       advise(q, "tj_stack(TJ_LIST(re, im), -1) makes pairs; tj_rfft() takes real numbers");
	if (!axis_in(q, q->attr[0], x->rank - 1, &a)) return false;
	if (!x->dim[a]) return fail(q, TJ_ERR_SHAPE, "the axis has no elements", "axis %lld", (long long)a);
	return put(q, a) && shape_from(q, x->rank, x->dim);
}

static bool shape_rdft(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a;
	if (!x->rank) return fail(q, TJ_ERR_SHAPE, "it needs an axis", "%s", "");
	if (x->rank >= TJ_MAX_RANK) return fail(q, TJ_ERR_SHAPE, "the result would have too many axes", "%s", "");
	if (!axis_in(q, q->attr[0], x->rank, &a)) return false;
	if (!x->dim[a]) return fail(q, TJ_ERR_SHAPE, "the axis has no elements", "axis %lld", (long long)a);
	put(q, a);
	shape_from(q, x->rank, x->dim);
	q->out->dim[a] = x->dim[a] / 2 + 1;
	q->out->dim[q->out->rank++] = 2;
	return true;
}

static bool shape_inverse_rdft(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int64_t n = q->attr[1];
	if (!shape_pairs(q)) return false;
	const int64_t a = q->norm[0];
	if (n < 1 || n / 2 + 1 != x->dim[a])
		return fail(q, TJ_ERR_SHAPE, "n real numbers have n / 2 + 1 pairs", "n is %lld, axis %lld has %lld pairs", (long long)n, (long long)a,
		            (long long)x->dim[a]);
	q->out->rank--;
	q->out->dim[a] = n;
	return put(q, n);
}

static bool shape_sort(ask *q) { return shape_axis(q) && put(q, q->attr[1] != 0); }

static bool shape_topk(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a, k = q->attr[1], n = 1;
	if (!axis_in(q, q->attr[0], x->rank, &a)) return false;
	if (x->rank) n = x->dim[a];
	if (k < 0 || k > n || (!x->rank && !k))
		return fail(q, TJ_ERR_SHAPE, "k must be from 0 to the size of the axis", "k is %lld, the size %lld", (long long)k,
		            (long long)n);
	put(q, a), put(q, k), put(q, q->attr[2] != 0);
	shape_from(q, x->rank, x->dim);
	if (x->rank) q->out->dim[a] = k;
	return true;
}

static bool shape_search(ask *q)
{
	const ir_meta *s = &q->src[0], *v = &q->src[1];
	bool fits = s->rank == 1 || (s->rank && s->rank == v->rank);
	for (int i = 0; fits && s->rank > 1 && i < s->rank - 1; i++) fits = s->dim[i] == v->dim[i];
	if (!fits) return fail(q, TJ_ERR_SHAPE, "sorted must be 1-d, or have the leading sizes of values", "%s", "");
	return put(q, q->attr[0] != 0) && shape_from(q, v->rank, v->dim);
}

static bool shape_reshape(ask *q)
{
	int64_t have = 0, rest = 1, n = q->nattr;
	int hole = -1;
	int64_t dim[MAX_ATTR] = { 0 };
	rt_numel(q->src[0].rank, q->src[0].dim, &have);
	for (int i = 0; i < n; i++) {
		dim[i] = q->attr[i];
		if (dim[i] == -1 && hole >= 0)
			return fail(q, TJ_ERR_SHAPE, "two sizes are -1", "axes %d and %d", hole, i) || advise(q, "only one size may be -1");
		if (dim[i] == -1) {
			hole = i;
			dim[i] = 1;
		}
	}
	if (!sizes_ok(q, (int)n, dim)) return false;
	if (!rt_numel((int)n, dim, &rest)) return fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
	if (hole >= 0 && rest == 0)
		return fail(q, TJ_ERR_SHAPE, "the size for -1 is not determined", "another size is 0") || advise(q, "pass the size instead of -1");
	if (hole >= 0 ? have % rest != 0 : have != rest) {
		fail(q, TJ_ERR_SHAPE, "the number of elements differs", "%lld and %lld", (long long)have,
		     (long long)rest);
		rt_hint(q->err, "the product of the sizes must stay the same; one size may be -1");
		return false;
	}
	if (hole >= 0) dim[hole] = have / rest;
	for (int i = 0; i < n; i++) put(q, dim[i]);
	return shape_from(q, (int)n, dim);
}

static bool shape_expand(ask *q)
{
	const ir_meta *x = &q->src[0];
	int n = q->nattr, lead = n - x->rank;
	int64_t dim[MAX_ATTR] = { 0 };
	if (lead < 0)
		return fail(q, TJ_ERR_SHAPE, "the shape has fewer sizes than the operand has axes", "%d sizes", n) ||
		       advise(q, "pass one size for each axis; new axes come first");
	for (int i = 0; i < n; i++) {
		int64_t from = i < lead ? 1 : x->dim[i - lead];
		dim[i] = q->attr[i] == -1 && i >= lead ? from : q->attr[i];
		if (dim[i] != from && from != 1)
			return fail(q, TJ_ERR_SHAPE, "only axes of size 1 can be expanded", "axis %d: %lld to %lld", i,
			            (long long)from, (long long)dim[i]) || advise(q, "-1 keeps a size; tj_unsqueeze() adds an axis of size 1");
	}
	if (!sizes_ok(q, n, dim)) return false;
	for (int i = 0; i < n; i++) put(q, dim[i]);
	return shape_from(q, n, dim);
}

static bool shape_permute(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t dim[TJ_MAX_RANK];
	uint32_t set;
	if (q->nattr != x->rank) {
		fail(q, TJ_ERR_ARG, "permute needs every axis once", "%d axes given", q->nattr);
		rt_hint(q->err, "to swap two axes, use tj_transpose()");
		return false;
	}
	if (!axes_in(q, 0, x->rank, &set)) return false;
	for (int i = 0; i < x->rank; i++) {
		int64_t a = q->attr[i] < 0 ? q->attr[i] + x->rank : q->attr[i];
		dim[i] = x->dim[a];
		put(q, a);
	}
	return shape_from(q, x->rank, dim);
}

static bool shape_transpose(ask *q)
{
	int64_t a, b;
	if (!axis_in(q, q->attr[0], q->src[0].rank, &a) || !axis_in(q, q->attr[1], q->src[0].rank, &b))
		return false;
	put(q, a < b ? a : b);
	put(q, a < b ? b : a);
	shape_from(q, q->src[0].rank, q->src[0].dim);
	if (q->src[0].rank == 0) return true;
	q->out->dim[a] = q->src[0].dim[b];
	q->out->dim[b] = q->src[0].dim[a];
	return true;
}

static bool shape_squeeze(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t dim[TJ_MAX_RANK];
	uint32_t set;
	int n = 0;
	if (!axes_in(q, 0, x->rank, &set)) return false;
	for (int i = 0; i < x->rank; i++) {
		if (!(set >> i & 1) || (x->dim[i] != 1 && q->nattr == 0)) dim[n++] = x->dim[i];
		else if (x->dim[i] != 1)
			return fail(q, TJ_ERR_SHAPE, "only axes of size 1 can be dropped", "axis %d: %lld", i,
			            (long long)x->dim[i]) || advise(q, "tj_reshape() joins axes; a reduction removes one");
		else put(q, i);
	}
	return shape_from(q, n, dim);
}

static bool shape_unsqueeze(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a, dim[TJ_MAX_RANK + 1];
	if (!axis_in(q, q->attr[0], x->rank + 1, &a)) return false;
	for (int i = 0; i <= x->rank; i++) dim[i] = i < a ? x->dim[i] : i == a ? 1 : x->dim[i - 1];
	return put(q, a) && shape_from(q, x->rank + 1, dim);
}

/* Python's rule: a start or stop beyond the axis is clamped; TJ_END_DIM is an open end. */
static int64_t clamp_end(int64_t v, int64_t size, bool up, bool is_start)
{
	int64_t lo = up ? 0 : -1, hi = up ? size : size - 1;
	if (v == TJ_END_DIM) return is_start == up ? lo : hi;
	if (v < 0) v = v < -size ? lo : v + size;
	return v < lo ? lo : v > hi ? hi : v;
}

static bool shape_slice(ask *q)
{
	int64_t axis, step = q->attr[3], n = 0;
	const ir_meta *x = &q->src[0];
	if (x->rank == 0)
		return fail(q, TJ_ERR_SHAPE, "a 0-d tensor has no axis to slice", "%s", "") || advise(q, "tj_unsqueeze() gives it an axis");
	if (!axis_in(q, q->attr[0], x->rank, &axis)) return false;
	if (step == 0 || step == TJ_END_DIM)
		return fail(q, TJ_ERR_ARG, "the step is 0", "%s", "") || advise(q, "a step of 1 takes every element, -1 goes backwards");
	int64_t size = x->dim[axis];
	int64_t start = clamp_end(q->attr[1], size, step > 0, true),
			stop = clamp_end(q->attr[2], size, step > 0, false);
	if (step > 0 && stop > start) n = (stop - start - 1) / step + 1;
	if (step < 0 && stop < start) n = (start - stop - 1) / -step + 1;
	if (n <= 1) step = 1;
	if (n == 0) start = 0;
	stop = start + (n ? (n - 1) * step + (step > 0 ? 1 : -1) : 0);
	put(q, axis);
	put(q, start);
	put(q, stop < 0 ? TJ_END_DIM : stop);
	put(q, step);
	shape_from(q, x->rank, x->dim);
	q->out->dim[axis] = n;
	return true;
}

static bool shape_unfold(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int64_t size = q->attr[1], step = q->attr[2], dilation = q->attr[3];
	int64_t axis, span;
	if (x->rank == 0)
		return fail(q, TJ_ERR_SHAPE, "a 0-d tensor has no axis to unfold", "%s", "") ||
		       advise(q, "tj_unsqueeze() gives it an axis");
	if (!axis_in(q, q->attr[0], x->rank, &axis)) return false;
	if (size < 1 || step < 1 || dilation < 1)
		return fail(q, TJ_ERR_ARG, "size, step and dilation must be at least 1", "%lld, %lld, %lld", (long long)size,
		            (long long)step, (long long)dilation) ||
		       advise(q, "a step and a dilation of 1 take every element");
	if (__builtin_mul_overflow(size - 1, dilation, &span) || span >= x->dim[axis])
		return fail(q, TJ_ERR_SHAPE, "a window is larger than the axis", "axis %lld has %lld, a window spans (%lld - 1) * %lld + 1",
		            (long long)axis, (long long)x->dim[axis], (long long)size, (long long)dilation) ||
		       advise(q, "tj_pad() makes the axis longer");
	int64_t dim[TJ_MAX_RANK + 1];
	memcpy(dim, x->dim, sizeof *dim * x->rank);
	dim[axis] = (x->dim[axis] - span - 1) / step + 1;
	dim[x->rank] = size;
	put(q, axis);
	for (int k = 1; k < 4; k++) put(q, q->attr[k]);
	return shape_from(q, x->rank + 1, dim);
}

/* Half the axis. */
static bool shape_glu(ask *q)
{
	int64_t a;
	if (q->src[0].rank == 0)
		return fail(q, TJ_ERR_SHAPE, "a 0-d tensor has no axis to halve", "%s", "") || advise(q, "tj_unsqueeze() gives it an axis");
	if (!axis_in(q, q->attr[0], q->src[0].rank, &a)) return false;
	if (q->src[0].dim[a] % 2)
		return fail(q, TJ_ERR_SHAPE, "the size of the axis must be even", "%lld on axis %lld", (long long)q->src[0].dim[a], (long long)a) ||
		       advise(q, "the first half is multiplied by the sigmoid of the second one");
	shape_from(q, q->src[0].rank, q->src[0].dim);
	q->out->dim[a] /= 2;
	return put(q, a);
}

static bool shape_flip(ask *q)
{
	uint32_t set;
	if (!axes_in(q, 0, q->src[0].rank, &set)) return false;
	put_axes(q, set, q->src[0].rank, true);
	return shape_from(q, q->src[0].rank, q->src[0].dim);
}

static bool shape_cat(ask *q)
{
	int64_t axis, sum = 0;
	if (q->src[0].rank == 0) {
		fail(q, TJ_ERR_SHAPE, "0-d tensors cannot be joined", "%s", "");
		rt_hint(q->err, "tj_stack() joins along a new axis");
		return false;
	}
	if (!axis_in(q, q->attr[0], q->src[0].rank, &axis)) return false;
	for (int k = 0; k < q->nsrc; k++) {
		const ir_meta *x = &q->src[k];
		if (x->rank != q->src[0].rank)
			return fail(q, TJ_ERR_SHAPE, "ranks differ", "%d and %d, operand %d", q->src[0].rank, x->rank, k) ||
			       advise(q, "tj_unsqueeze() and tj_squeeze() add and drop axes");
		for (int i = 0; i < x->rank; i++)
			if (i != axis && x->dim[i] != q->src[0].dim[i])
				return fail(q, TJ_ERR_SHAPE, "sizes differ on an axis that is not joined",
				            "axis %d: %lld and %lld, operand %d", i, (long long)q->src[0].dim[i],
				            (long long)x->dim[i], k) || advise(q, "only the joined axis may differ in size; see tj_slice(), tj_expand()");
		if (__builtin_add_overflow(sum, x->dim[axis], &sum))
			return fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
	}
	shape_from(q, q->src[0].rank, q->src[0].dim);
	q->out->dim[axis] = sum;
	return put(q, axis);
}

static bool shape_stack(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a, dim[TJ_MAX_RANK + 1];
	if (!axis_in(q, q->attr[0], x->rank + 1, &a)) return false;
	for (int k = 1; k < q->nsrc; k++)
		if (q->src[k].rank != x->rank || memcmp(q->src[k].dim, x->dim, sizeof *x->dim * x->rank) != 0)
			return fail(q, TJ_ERR_SHAPE, "shapes differ", "operand %d", k) || advise(q, "tj_cat() joins tensors that differ in size along an axis");
	for (int i = 0; i <= x->rank; i++) dim[i] = i < a ? x->dim[i] : i == a ? q->nsrc : x->dim[i - 1];
	return put(q, a) && shape_from(q, x->rank + 1, dim);
}

static bool without(ask *q, uint32_t set, bool keepdim)
{
	int64_t dim[TJ_MAX_RANK];
	int n = 0;
	for (int i = 0; i < q->src[0].rank; i++) {
		if (!(set >> i & 1)) dim[n++] = q->src[0].dim[i];
		else if (keepdim) dim[n++] = 1;
	}
	return shape_from(q, n, dim);
}

static bool shape_reduce(ask *q)
{
	uint32_t set;
	if (!axes_in(q, 1, q->src[0].rank, &set)) return false;
	put(q, q->attr[0] != 0);
	put_axes(q, set, q->src[0].rank, true);
	return without(q, set, q->attr[0] != 0);
}

static bool not_empty(const ask *q, uint32_t set)
{
	for (int i = 0; i < q->src[0].rank; i++)
		if ((set >> i & 1) && q->src[0].dim[i] == 0)
			return fail(q, TJ_ERR_SHAPE, "there are no elements to reduce", "axis %d has size 0", i) ||
			       advise(q, "look at tj_dim() first: there is no result for an empty axis");
	return true;
}

static bool shape_reduce1(ask *q)
{
	uint32_t set;
	return axes_in(q, 1, q->src[0].rank, &set) && not_empty(q, set) && shape_reduce(q);
}

static bool shape_arg(ask *q)
{
	uint32_t set = (1u << q->src[0].rank) - 1;
	int64_t a = TJ_END_DIM;
	if (q->attr[1] != TJ_END_DIM) {
		if (!axis_in(q, q->attr[1], q->src[0].rank, &a)) return false;
		if (q->src[0].rank > 1) set = 1u << a;
	}
	put(q, q->attr[0] != 0);
	put(q, q->src[0].rank > 1 ? a : TJ_END_DIM); /* for one axis or none, flattening changes nothing */
	return not_empty(q, set) && without(q, set, q->attr[0] != 0);
}

/* ---- shape rules of ir/moves.c ---- */
static bool times(const ask *q, int64_t size, int64_t n, int64_t *product)
{
	if (n < 0)
		return fail(q, TJ_ERR_ARG, "a number of times is negative", "%lld", (long long)n) ||
		       advise(q, "0 gives an empty axis, 1 the operand itself");
	return !__builtin_mul_overflow(size, n, product) || fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
}

static bool shape_roll(ask *q) { return shape_axis(q) && put(q, q->attr[1]); }

static bool shape_repeat(ask *q)
{
	const ir_meta *x = &q->src[0];
	int64_t a, n = 0;
	if (!axis_in(q, q->attr[0], x->rank, &a) || !times(q, x->rank ? x->dim[a] : 1, q->attr[1], &n)) return false;
	put(q, a);
	put(q, q->attr[1]);
	shape_from(q, x->rank ? x->rank : 1, x->dim);
	q->out->dim[a] = n;
	return true;
}

static bool shape_tile(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int n = q->nattr, rank = n > x->rank ? n : x->rank;
	int64_t dim[TJ_MAX_RANK];
	for (int i = 0; i < rank; i++) {
		const int64_t size = i < rank - x->rank ? 1 : x->dim[i - (rank - x->rank)];
		if (!times(q, size, i < rank - n ? 1 : q->attr[i - (rank - n)], &dim[i])) return false;
	}
	for (int i = 0; i < n; i++) put(q, q->attr[i]);
	return shape_from(q, rank, dim);
}

/* Whether an axis of `size` has the elements that are repeated at its ends. */
static bool pad_ok(const ask *q, int axis, int64_t size, int64_t before, int64_t after)
{
	const int64_t mode = q->attr[0], more = before > after ? before : after;
	const bool mirrors = mode == TJ_PAD_REFLECT || mode == TJ_PAD_REPLICATE; /* of all elements, before some go */
	int64_t total;
	if (__builtin_add_overflow(size, before, &total) || __builtin_add_overflow(total, after, &total))
		return fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
	if (total < 0 || (!mirrors && ((before < 0 && size + before < 0) || (after < 0 && size + after < 0)))) {
		return fail(q, TJ_ERR_SHAPE, "more elements would go than there are", "axis %d has %lld", axis, (long long)size) ||
		       advise(q, "a negative number of elements leaves so many out");
	}
	const int64_t left = mirrors ? size : size + (before < 0 ? before : 0) + (after < 0 ? after : 0),
		      most = mode == TJ_PAD_REFLECT ? left - 1 : left;
	if (more > 0 && (mode == TJ_PAD_REPLICATE ? !size : mode != TJ_PAD_CONSTANT && more > most))
		return fail(q, TJ_ERR_SHAPE, "there are too few elements to repeat", "axis %d: %lld for %lld", axis, (long long)left,
		            (long long)more) ||
		       advise(q, "reflect takes at most one less than the size, circular the size");
	return true;
}

static bool shape_pad(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int n = q->nattr - 1, first = x->rank - n / 2;
	ir_meta m = *x;
	if (q->attr[0] < 0 || q->attr[0] > TJ_PAD_CIRCULAR)
		return fail(q, TJ_ERR_ARG, "no such mode", "%lld", (long long)q->attr[0]) ||
		       advise(q, "pass TJ_PAD_CONSTANT, TJ_PAD_REFLECT, TJ_PAD_REPLICATE or TJ_PAD_CIRCULAR");
	if (n % 2 || first < 0)
		return fail(q, TJ_ERR_ARG, "pads are pairs, one for each of the last axes", "%d numbers, rank %d", n, x->rank) ||
		       advise(q, "TJ_SHAPE(before, after) pads the last axis");
	if (q->src[1].rank)
		return fail(q, TJ_ERR_SHAPE, "the value must be a number or a 0-d tensor", "%s", "") ||
		       advise(q, "tj_cat() puts a tensor beside another one");
	for (int i = 0; i < n; i += 2) {
		if (!pad_ok(q, first + i / 2, m.dim[first + i / 2], q->attr[1 + i], q->attr[2 + i])) return false;
		m.dim[first + i / 2] += q->attr[1 + i] + q->attr[2 + i];
	}
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, m.rank, m.dim);
}

static bool is_matrix(const ask *q, int least)
{
	if (q->src[0].rank >= least) return true;
	return fail(q, TJ_ERR_SHAPE, least == 2 ? "at least two axes are needed" : "at least one axis is needed", "it has %d",
	            q->src[0].rank) ||
	       advise(q, "tj_unsqueeze() adds an axis");
}

static bool shape_matrix(ask *q) { return is_matrix(q, 2) && shape_same(q); }

static bool shape_square(ask *q)
{
	const ir_meta *x = &q->src[0];
	if (!is_matrix(q, 2)) return false;
	if (x->dim[x->rank - 2] == x->dim[x->rank - 1]) return shape_same(q);
	return fail(q, TJ_ERR_SHAPE, "the last two axes must have one size", "%lld and %lld", (long long)x->dim[x->rank - 2],
	            (long long)x->dim[x->rank - 1]);
}

static bool shape_solve(ask *q)
{
	const ir_meta *a = &q->src[0], *b = &q->src[1];
	if (!shape_square(q)) return false;
	if (b->rank != a->rank || b->dim[b->rank - 2] != a->dim[a->rank - 1])
		return fail(q, TJ_ERR_SHAPE, "[...,n,n] and [...,n,k] are needed", "%s", "tj_solve_triangular() takes more");
	for (int i = 0; i < a->rank - 2; i++)
		if (a->dim[i] != b->dim[i])
			return fail(q, TJ_ERR_SHAPE, "both batches must have one shape", "axis %d has %lld and %lld", i, (long long)a->dim[i],
			            (long long)b->dim[i]);
	q->nnorm = 0;
	return put(q, q->attr[0] != 0) && shape_from(q, b->rank, b->dim);
}

/* offsets [...,m + 1], columns [...,s], a, b; the last axes of a and b that are no batch: 1 or 2. */
static bool csr_operands(ask *q, int a_own, const char *what)
{
	const int own[] = { 1, 1, a_own, 2 }, batch = q->src[0].rank - 1;
	bool fits = batch >= 0 && q->src[0].dim[batch] > 0;
	for (int k = 0; fits && k < 4; k++) fits = q->src[k].rank == batch + own[k];
	for (int i = 0; i < batch && fits; i++)
		for (int k = 1; fits && k < 4; k++) fits = q->src[k].dim[i] == q->src[0].dim[i];
	if (fits && a_own == 1) fits = q->src[2].dim[batch] == q->src[1].dim[batch];
	q->nnorm = 0;
	return fits || fail(q, TJ_ERR_SHAPE, what, "%s", "leading sizes are equal");
}

static bool shape_csr(ask *q)
{
	const int batch = q->src[0].rank - 1;
	if (!csr_operands(q, 1, "[...,m + 1], [...,s], [...,s] and [...,n,k] are needed")) return false;
	shape_from(q, q->src[3].rank, q->src[3].dim);
	q->out->dim[batch] = q->src[0].dim[batch] - 1;
	return true;
}

static bool shape_csr_n(ask *q)
{
	const int batch = q->src[0].rank - 1;
	static const char what[] = "[...,m + 1], [...,s], [...,s] and [...,m,k] are needed";
	if (!csr_operands(q, 1, what)) return false;
	if (q->src[3].dim[batch] != q->src[0].dim[batch] - 1) return fail(q, TJ_ERR_SHAPE, what, "%s", "b has a row for each row");
	if (q->attr[0] < 0) return fail(q, TJ_ERR_ARG, "the size n is negative", "%lld", (long long)q->attr[0]);
	shape_from(q, q->src[3].rank, q->src[3].dim);
	q->out->dim[batch] = q->attr[0];
	return put(q, q->attr[0]);
}

static bool shape_csr_sampled(ask *q)
{
	const int batch = q->src[0].rank - 1;
	static const char what[] = "[...,m + 1], [...,s], [...,m,k] and [...,n,k] are needed";
	if (!csr_operands(q, 2, what)) return false;
	if (q->src[2].dim[batch] != q->src[0].dim[batch] - 1 || q->src[2].dim[batch + 1] != q->src[3].dim[batch + 1])
		return fail(q, TJ_ERR_SHAPE, what, "%s", "a has a row for each row, as long as those of b");
	return shape_from(q, q->src[1].rank, q->src[1].dim);
}

static bool shape_lu(ask *q)
{
	if (!is_matrix(q, 2)) return false;
	shape_same(q);
	q->out->dim[q->out->rank - 1]++;
	return true;
}

static bool shape_qr(ask *q)
{
	if (!is_matrix(q, 2)) return false;
	shape_same(q);
	int64_t *m = &q->out->dim[q->out->rank - 2], *n = m + 1;
	const int64_t k = *m < *n ? *m : *n;
	*m += *n;
	*n = k;
	return true;
}

static bool shape_eigh(ask *q)
{
	if (!shape_square(q)) return false;
	q->out->dim[q->out->rank - 2]++;
	q->nnorm = 0;
	return put(q, q->attr[0] != 0);
}

static bool shape_svd(ask *q)
{
	if (!shape_qr(q)) return false;
	q->out->dim[q->out->rank - 2]++;
	q->nnorm = 0;
	return put(q, q->attr[0] != 0);
}

static bool shape_diagonal(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int64_t k = q->attr[0];
	int64_t a, b, dim[TJ_MAX_RANK];
	int n = 0;
	if (!is_matrix(q, 2) || !axis_in(q, q->attr[1], x->rank, &a) || !axis_in(q, q->attr[2], x->rank, &b)) return false;
	if (a == b)
		return fail(q, TJ_ERR_ARG, "the axes of a diagonal are two", "axis %lld twice", (long long)a) ||
		       advise(q, "0 and 1 are those of a matrix");
	for (int i = 0; i < x->rank; i++)
		if (i != a && i != b) dim[n++] = x->dim[i];
	const int64_t rows = k < 0 ? (k < -x->dim[a] ? 0 : x->dim[a] + k) : x->dim[a],
		      columns = k > 0 ? (k > x->dim[b] ? 0 : x->dim[b] - k) : x->dim[b];
	dim[n] = rows < columns ? rows : columns;
	put(q, k);
	put(q, a);
	put(q, b);
	return shape_from(q, n + 1, dim);
}

static bool shape_diag_embed(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int64_t k = q->attr[0];
	int64_t dim[TJ_MAX_RANK + 1], size;
	if (!is_matrix(q, 1)) return false;
	if (k == INT64_MIN || __builtin_add_overflow(x->dim[x->rank - 1], k < 0 ? -k : k, &size))
		return fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
	memcpy(dim, x->dim, sizeof *dim * x->rank);
	dim[x->rank - 1] = dim[x->rank] = size;
	put(q, k);
	return shape_from(q, x->rank + 1, dim);
}

static bool shape_trace(ask *q)
{
	if (q->src[0].rank != 2)
		return fail(q, TJ_ERR_SHAPE, "a matrix is needed", "it has %d axes", q->src[0].rank) ||
		       advise(q, "tj_diagonal() and tj_sum() take other ranks");
	return shape_from(q, 0, NULL);
}

/* A 1-d operand is a row on the left, a column on the right; its axis leaves the result. */
static bool shape_matmul(ask *q)
{
	const ir_meta *a = &q->src[0], *b = &q->src[1];
	if (!a->rank || !b->rank) {
		fail(q, TJ_ERR_SHAPE, "both operands need at least one axis", "%s", "");
		rt_hint(q->err, "to scale by a 0-d tensor, use tj_mul()");
		return false;
	}
	int64_t ka = a->dim[a->rank - 1], kb = b->dim[b->rank == 1 ? 0 : b->rank - 2];
	if (ka != kb) {
		fail(q, TJ_ERR_SHAPE, "inner dimensions differ", "%lld and %lld", (long long)ka, (long long)kb);
		if (b->rank >= 2 && b->dim[b->rank - 1] == ka)
			rt_hint(q->err, "the right operand looks transposed; see tj_transpose()");
		else
			rt_hint(q->err,
			        "the last axis of the left operand and the second last axis of the right one must have the same size");
		return false;
	}
	int64_t dim[TJ_MAX_RANK + 2];
	int rank = a->rank > 2 ? a->rank - 2 : 0;
	memcpy(dim, a->dim, sizeof *dim * (size_t)rank);
	if (!broadcast(q, &rank, dim, b->rank > 2 ? b->rank - 2 : 0, b->dim)) return false;
	if (a->rank > 1) dim[rank++] = a->dim[a->rank - 2];
	if (b->rank > 1) dim[rank++] = b->dim[b->rank - 1];
	return shape_from(q, rank, dim);
}

/* ---- convolution and pooling ---- */
/* The sizes, strides and dilations are at least 1; of pools, no window lies in the padding alone. */
static bool window_ok(const ask *q, const ir_window *w)
{
	const bool pool = q->info->opclass != IR_CONV;
	for (int i = 0; i < w->n; i++) {
		const int64_t n = w->size[i], before = w->before[i], after = w->after[i], most = INT32_MAX;
		if (n < 1 || w->stride[i] < 1 || w->dilation[i] < 1)
			return fail(q, TJ_ERR_ARG, "size, stride and dilation of a window must be at least 1", "%lld, %lld, %lld",
			            (long long)n, (long long)w->stride[i], (long long)w->dilation[i]) ||
			       advise(q, "a stride and a dilation of 1 take every element");
		if (n > most || w->stride[i] > most || w->dilation[i] > most || before > most || after > most || before < -most || after < -most)
			return fail(q, TJ_ERR_LIMIT, "a window is too large", "at most %d", INT32_MAX) ||
			       advise(q, "strides, dilations and padding count elements");
		if (pool && (before < 0 || after < 0 || 2 * before > n || 2 * after > n))
			return fail(q, TJ_ERR_ARG, "the padding of a pool is at most half of its window",
			            "%lld and %lld, the window has %lld", (long long)before, (long long)after, (long long)n) ||
			       advise(q, "tj_pad() pads as far as is wanted");
	}
	return true;
}

static bool no_room(const ask *q, const ir_window *w, int i, int64_t size)
{
	return fail(q, TJ_ERR_SHAPE, "a window is larger than the axis",
	            "axis %d has %lld and %lld of padding, a window spans (%lld - 1) * %lld + 1", q->src[0].rank - w->n + i,
	            (long long)size, (long long)(w->before[i] + w->after[i]), (long long)w->size[i], (long long)w->dilation[i]) ||
	       advise(q, "more padding makes the axis longer");
}

static bool conv_operands_ok(const ask *q, bool transposed)
{
	const ir_meta *x = &q->src[0], *w = &q->src[1];
	const int64_t groups = q->attr[0];
	if (x->rank < 3 || x->rank > 2 + IR_WINDOW_AXES || w->rank != x->rank)
		return fail(q, TJ_ERR_SHAPE, "x [N,C,...] and a weight of the same rank are needed, with 1 to 3 axes behind",
		            "ranks %d and %d", x->rank, w->rank) ||
		       advise(q, "tj_unsqueeze() adds the axis of examples");
	if (q->nattr != 1 + 4 * (x->rank - 2))
		return fail(q, TJ_ERR_ARG, "the window has the wrong number of entries", "%d for %d axes", q->nattr - 1, x->rank - 2) ||
		       advise(q, "strides, dilations, and pairs of padding: 4 for each axis; tj_conv2d() fills them in");
	if (groups < 1 || x->dim[1] % groups || w->dim[0] % groups)
		return fail(q, TJ_ERR_SHAPE, "the groups do not divide the channels", "%lld groups, %lld and %lld channels",
		            (long long)groups, (long long)x->dim[1], (long long)w->dim[0]) ||
		       advise(q, "1 group takes all channels together");
	if (transposed ? w->dim[0] != x->dim[1] : w->dim[1] != x->dim[1] / groups)
		return fail(q, TJ_ERR_SHAPE, "the weight is for another number of channels", "%lld for %lld",
		            (long long)(transposed ? w->dim[0] : w->dim[1] * groups), (long long)x->dim[1]) ||
		       advise(q, transposed ? "the weight of conv_transpose is [C,O / groups,...]" : "the weight is [O,C / groups,...]");
	return true;
}

static bool shape_conv(ask *q)
{
	const ir_meta *x = &q->src[0];
	if (!conv_operands_ok(q, false)) return false;
	const ir_window w = ir_window_of(q->op, q->nattr, q->attr, q->src[1].dim + 2);
	int64_t dim[TJ_MAX_RANK] = { x->dim[0], q->src[1].dim[0] };
	if (!window_ok(q, &w)) return false;
	for (int i = 0; i < w.n; i++)
		if ((dim[2 + i] = ir_windows(&w, i, x->dim[2 + i])) < 1) return no_room(q, &w, i, x->dim[2 + i]);
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, x->rank, dim);
}

static bool shape_conv_transpose(ask *q)
{
	const ir_meta *x = &q->src[0];
	if (!conv_operands_ok(q, true)) return false;
	const ir_window w = ir_window_of(q->op, q->nattr, q->attr, q->src[1].dim + 2);
	int64_t dim[TJ_MAX_RANK] = { x->dim[0], q->src[1].dim[1] * q->attr[0] };
	if (!window_ok(q, &w)) return false;
	for (int i = 0; i < w.n; i++)
		if (x->dim[2 + i] < 1 || (dim[2 + i] = ir_transposed_size(&w, i, x->dim[2 + i])) < 1)
			return fail(q, TJ_ERR_SHAPE, "nothing is left of an axis", "axis %d would have %lld", 2 + i,
			            (long long)(x->dim[2 + i] < 1 ? 0 : dim[2 + i])) ||
			       advise(q, "padding takes away from the result of conv_transpose");
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, x->rank, dim);
}

/* Over the last axes: whatever comes before them is as it is. */
static bool shape_pool(ask *q)
{
	const ir_meta *x = &q->src[0];
	const int own = ir_classes[q->info->opclass].nattr, n = (q->nattr - own) / 5;
	int64_t dim[TJ_MAX_RANK];
	if ((q->nattr - own) % 5 || n < 1 || n > IR_WINDOW_AXES)
		return fail(q, TJ_ERR_ARG, "the window has the wrong number of entries", "%d", q->nattr - own) ||
		       advise(q,
		              "sizes, strides, dilations, and pairs of padding: 5 for each of 1 to 3 axes; tj_max_pool2d() fills them in");
	if (x->rank < n)
		return fail(q, TJ_ERR_SHAPE, "there are more windows than axes", "%d, rank %d", n, x->rank) ||
		       advise(q, "tj_unsqueeze() adds an axis");
	const ir_window w = ir_window_of(q->op, q->nattr, q->attr, NULL);
	if (!window_ok(q, &w)) return false;
	if (own > 1 && q->attr[1] < -1)
		return fail(q, TJ_ERR_ARG, "the divisor is below -1", "%lld", (long long)q->attr[1]) ||
		       advise(q, "0 counts elements and padding, -1 only elements");
	memcpy(dim, x->dim, sizeof *dim * x->rank);
	for (int i = 0; i < n; i++) {
		int64_t *size = &dim[x->rank - n + i];
		const int64_t had = *size;
		if ((*size = had ? ir_windows(&w, i, had) : 0) < 1) return no_room(q, &w, i, had);
	}
	put(q, q->attr[0] != 0);
	for (int k = 1; k < q->nattr; k++) put(q, q->attr[k]);
	return shape_from(q, x->rank, dim);
}

/* On every axis except `but` (-1: on all), index is not larger than m. Without axes a tensor counts as one with one element. */
static bool inside(const ask *q, const ir_meta *index, const ir_meta *m, int64_t but, const char *of)
{
	const int n = index->rank ? index->rank : 1;
	if (n != (m->rank ? m->rank : 1))
		return fail(q, TJ_ERR_SHAPE, "ranks differ", "the index has %d axes, the %s %d", index->rank, of,
		            m->rank) || advise(q, "tj_unsqueeze() and tj_expand() give the index more axes; tj_index_select() takes a 1-d index");
	for (int i = 0; i < n; i++) {
		const int64_t size = index->rank ? index->dim[i] : 1, most = m->rank ? m->dim[i] : 1;
		if (i != but && size > most)
			return fail(q, TJ_ERR_SHAPE, "the index is larger", "axis %d: the index has %lld, the %s %lld", i, (long long)size,
			            of, (long long)most) ||
			       advise(q, "tj_slice() the index on this axis");
	}
	return true;
}

static bool shape_gather(ask *q)
{
	int64_t a;
	return axis_in(q, q->attr[0], q->src[0].rank, &a) && put(q, a) &&
	       inside(q, &q->src[1], &q->src[0], a, "operand") && shape_from(q, q->src[1].rank, q->src[1].dim);
}

static bool shape_places(ask *q)
{
	const int n = q->src[1].rank, rank = q->src[0].rank;
	if (n != rank)
		return fail(q, TJ_ERR_SHAPE, "ranks differ", "the places have %d axes, the operand %d", n, rank) ||
		       advise(q, "tj_unsqueeze() and tj_expand() give the places more axes");
	return shape_gather(q);
}

static bool shape_scatter_add(ask *q)
{
	int64_t a;
	return axis_in(q, q->attr[0], q->src[0].rank, &a) && put(q, a) &&
	       inside(q, &q->src[1], &q->src[0], a, "operand") &&
	       inside(q, &q->src[1], &q->src[2], -1, "source") && shape_from(q, q->src[0].rank, q->src[0].dim);
}

static bool shape_index_select(ask *q)
{
	int64_t a;
	if (q->src[1].rank > 1) {
		fail(q, TJ_ERR_SHAPE, "the index must have at most one axis", "it has %d", q->src[1].rank);
		rt_hint(q->err, "tj_gather() and tj_embedding() take an index with more axes");
		return false;
	}
	if (!axis_in(q, q->attr[0], q->src[0].rank, &a)) return false;
	const int64_t n = q->src[1].rank ? q->src[1].dim[0] : 1;
	if (!q->src[0].rank && n != 1)
		return fail(q, TJ_ERR_SHAPE, "an index into a 0-d tensor has one element", "it has %lld", (long long)n) ||
		       advise(q, "tj_unsqueeze() gives the tensor an axis");
	shape_from(q, q->src[0].rank, q->src[0].dim);
	if (q->src[0].rank) q->out->dim[a] = n;
	return put(q, a);
}

static bool shape_embedding(ask *q)
{
	if (q->src[0].rank != 2)
		return fail(q, TJ_ERR_SHAPE, "the table must have two axes", "it has %d", q->src[0].rank) ||
		       advise(q, "tj_index_select() takes rows of tensors with other ranks");
	int64_t dim[TJ_MAX_RANK + 1];
	memcpy(dim, q->src[1].dim, sizeof *dim * q->src[1].rank);
	dim[q->src[1].rank] = q->src[0].dim[1];
	return shape_from(q, q->src[1].rank + 1, dim);
}

static bool shape_one_hot(ask *q)
{
	int64_t indices = 0;
	int64_t dim[TJ_MAX_RANK + 1];
	if (q->attr[0] < 0)
		return fail(q, TJ_ERR_ARG, "the count is negative", "%lld", (long long)q->attr[0]) ||
		       advise(q, "pass the number of classes");
	if (!q->attr[0] && (rt_numel(q->src[0].rank, q->src[0].dim, &indices), indices))
		return fail(q, TJ_ERR_ARG, "with 0 classes no index is in range", "0") || advise(q, "pass the number of classes");
	memcpy(dim, q->src[0].dim, sizeof *dim * q->src[0].rank);
	dim[q->src[0].rank] = q->attr[0];
	return put(q, q->attr[0]) && shape_from(q, q->src[0].rank + 1, dim);
}

/* The attributes are a dtype, then the sizes. The operands of FULL and RANDOM are 0-d. */
static bool shape_shape_of(ask *q)
{
	for (int k = 0; k < q->nsrc; k++)
		if (q->src[k].rank) {
			fail(q, TJ_ERR_SHAPE, "a number or a 0-d tensor is needed", "%s", "");
			rt_hint(q->err, "tj_expand() repeats a tensor along new axes");
			return false;
		}
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return sizes_ok(q, q->nattr - 1, q->attr + 1) && shape_from(q, q->nattr - 1, q->attr + 1);
}

static bool shape_given(ask *q)
{
	for (int k = 0; k < q->nattr; k++) put(q, q->attr[k]);
	return sizes_ok(q, q->nattr - 2, q->attr + 2) && shape_from(q, q->nattr - 2, q->attr + 2);
}

/* The first and the last of n values fit the dtype, and so do all between them. */
static bool values_fit(const ask *q, uint64_t n)
{
	tj_dtype t = (tj_dtype)q->out->dtype;
	const int64_t start = q->attr[1], end[] = { start, (int64_t)((uint64_t)start + (n - 1) * (uint64_t)q->attr[3]) };
	for (int k = 0; n && k < 2; k++) {
		if (ir_holds(t, (ir_scalar){ .i = end[k] }, true)) continue;
		fail(q, TJ_ERR_ARG, "a value does not fit", "%s cannot hold %lld", tj_dtype_name(t), (long long)end[k]);
		rt_hint(q->err, "use a wider dtype; tj_cast() then wraps values, if that is wanted");
		return false;
	}
	return true;
}

static bool shape_arange(ask *q)
{
	int64_t start = q->attr[1], stop = q->attr[2], step = q->attr[3];
	uint64_t n = 0;
	if (step == 0) return fail(q, TJ_ERR_ARG, "the step is 0", "%s", "") || advise(q, "a step of 1 counts up, -1 counts down");
	if (step > 0 && stop > start) n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
	if (step < 0 && stop < start) n = ((uint64_t)start - (uint64_t)stop - 1) / -(uint64_t)step + 1;
	if (n > INT64_MAX) return fail(q, TJ_ERR_LIMIT, "too many elements", "%s", "");
	if (!values_fit(q, n)) return false;
	for (int k = 0; k < 4; k++) put(q, q->attr[k]);
	return shape_from(q, 1, (int64_t[]){ (int64_t)n });
}

static bool shape_eye(ask *q)
{
	for (int k = 0; k < 3; k++) put(q, q->attr[k]);
	return sizes_ok(q, 2, q->attr + 1) && shape_from(q, 2, q->attr + 1);
}

static bool shape_norm(ask *q)
{
	const ir_meta *x = &q->src[0];
	if (x->rank == 0) return fail(q, TJ_ERR_SHAPE, "a 0-d tensor has no last axis", "%s", "") || advise(q, "tj_unsqueeze() gives it an axis");
	for (int k = 1; k < q->nsrc - 1; k++)
		if (q->src[k].rank != 1 || q->src[k].dim[0] != x->dim[x->rank - 1])
			return fail(q, TJ_ERR_SHAPE,
			            k == 1 ? "the weight must be 1-d, with the size of the last axis"
			                   : "the bias must be 1-d, with the size of the last axis",
			            "%lld", (long long)x->dim[x->rank - 1]);
	if (q->src[q->nsrc - 1].rank) return fail(q, TJ_ERR_SHAPE, "eps must be a number or a 0-d tensor", "%s", "");
	return shape_from(q, x->rank, x->dim);
}

static bool shape_cross_entropy(ask *q)
{
	const ir_meta *x = &q->src[0], *t = &q->src[1];
	if (x->rank != 2 || t->rank != 1 || x->dim[0] != t->dim[0]) {
		fail(q, TJ_ERR_SHAPE, "logits [N,C] and targets [N] are needed", "%s", "");
		rt_hint(q->err, "tj_reshape() gives them these shapes; one row for each sample");
		return false;
	}
	return shape_from(q, 0, NULL);
}

static bool shape_to(ask *q)
{
	int64_t device = q->attr[0];
	if (device < 0 || device >= RT_DEVICES || (device != RT_CPU && !rt_device_at((int)device))) {
		fail(q, TJ_ERR_DEVICE, "no such device", "%lld", (long long)device);
		rt_hint(q->err, "tj_find_device() gives the number of a device by its name; TJ_CPU is the CPU");
		return false;
	}
	q->out->weak = false;
	q->out->device = (uint8_t)device;
	put(q, device);
	return shape_from(q, q->src[0].rank, q->src[0].dim);
}

/* ---- tables ---- */
typedef bool rule(ask *q);
static rule *const type_rules[] = {
	[IR_TYPE_PROMOTE] = type_promote, [IR_TYPE_NUMERIC] = type_numeric, [IR_TYPE_FLOAT] = type_float, [IR_TYPE_LERP] = type_lerp,
	[IR_TYPE_NORM] = type_norm, [IR_TYPE_FLOATONLY] = type_floatonly, [IR_TYPE_BITS] = type_bits, [IR_TYPE_INTEGER] = type_integer,
	[IR_TYPE_COMPARE] = type_compare, [IR_TYPE_LOGIC] = type_logic, [IR_TYPE_WHERE] = type_where, [IR_TYPE_ATTR] = type_attr,
	[IR_TYPE_NUMBERS] = type_numbers, [IR_TYPE_RANDOM] = type_random, [IR_TYPE_SAME] = type_same, [IR_TYPE_SUM] = type_sum,
	[IR_TYPE_ARG] = type_arg, [IR_TYPE_INDEX] = type_index, [IR_TYPE_LOSS] = type_loss, [IR_TYPE_SCATTER] = type_scatter,
	[IR_TYPE_ONE_HOT] = type_one_hot, [IR_TYPE_FIRST] = type_first, [IR_TYPE_FILLED] = type_filled, [IR_TYPE_FULL] = type_full,
	[IR_TYPE_GIVEN] = type_given,
	[IR_TYPE_WITH] = type_with, [IR_TYPE_CLOSE] = type_close, [IR_TYPE_DOUBLE] = type_double, [IR_TYPE_SEARCH] = type_search,
	[IR_TYPE_CSR] = type_csr
};
static rule *const shape_rules[] = { [IR_SHAPE_BROADCAST] = shape_broadcast,
	                             [IR_SHAPE_SAME] = shape_same,
	                             [IR_SHAPE_TO] = shape_to,
	                             [IR_SHAPE_AXIS] = shape_axis,
	                             [IR_SHAPE_PAIR_AXIS] = shape_pair_axis,
	                             [IR_SHAPE_SORT] = shape_sort,
	                             [IR_SHAPE_TOPK] = shape_topk,
	                             [IR_SHAPE_PLACES] = shape_places,
	                             [IR_SHAPE_SEARCH] = shape_search,
	                             [IR_SHAPE_RESHAPE] = shape_reshape,
	                             [IR_SHAPE_EXPAND] = shape_expand,
	                             [IR_SHAPE_PERMUTE] = shape_permute,
	                             [IR_SHAPE_TRANSPOSE] = shape_transpose,
	                             [IR_SHAPE_SQUEEZE] = shape_squeeze,
	                             [IR_SHAPE_UNSQUEEZE] = shape_unsqueeze,
	                             [IR_SHAPE_SLICE] = shape_slice,
	                             [IR_SHAPE_FLIP] = shape_flip,
	                             [IR_SHAPE_CAT] = shape_cat,
	                             [IR_SHAPE_STACK] = shape_stack,
	                             [IR_SHAPE_REDUCE] = shape_reduce,
	                             [IR_SHAPE_REDUCE1] = shape_reduce1,
	                             [IR_SHAPE_ARG] = shape_arg,
	                             [IR_SHAPE_MATMUL] = shape_matmul,
	                             [IR_SHAPE_GATHER] = shape_gather,
	                             [IR_SHAPE_INDEX_SELECT] = shape_index_select,
	                             [IR_SHAPE_EMBEDDING] = shape_embedding,
	                             [IR_SHAPE_SCATTER_ADD] = shape_scatter_add,
	                             [IR_SHAPE_ONE_HOT] = shape_one_hot,
	                             [IR_SHAPE_SHAPE_OF] = shape_shape_of,
	                             [IR_SHAPE_GIVEN] = shape_given,
	                             [IR_SHAPE_ARANGE] = shape_arange,
	                             [IR_SHAPE_EYE] = shape_eye,
	                             [IR_SHAPE_NORM] = shape_norm,
	                             [IR_SHAPE_CROSS_ENTROPY] = shape_cross_entropy,
	                             [IR_SHAPE_ROLL] = shape_roll,
	                             [IR_SHAPE_SQUARE] = shape_square,
	                             [IR_SHAPE_SOLVE] = shape_solve,
	                             [IR_SHAPE_CSR] = shape_csr,
	                             [IR_SHAPE_CSR_N] = shape_csr_n,
	                             [IR_SHAPE_CSR_SAMPLED] = shape_csr_sampled,
	                             [IR_SHAPE_LU] = shape_lu,
	                             [IR_SHAPE_QR] = shape_qr,
	                             [IR_SHAPE_EIGH] = shape_eigh,
	                             [IR_SHAPE_SVD] = shape_svd,
	                             [IR_SHAPE_PAIRS] = shape_pairs,
	                             [IR_SHAPE_RDFT] = shape_rdft,
	                             [IR_SHAPE_INVERSE_RDFT] = shape_inverse_rdft,
	                             [IR_SHAPE_UNFOLD] = shape_unfold,
	                             [IR_SHAPE_REPEAT] = shape_repeat,
	                             [IR_SHAPE_TILE] = shape_tile,
	                             [IR_SHAPE_PAD] = shape_pad,
	                             [IR_SHAPE_MATRIX] = shape_matrix,
	                             [IR_SHAPE_DIAGONAL] = shape_diagonal,
	                             [IR_SHAPE_DIAG_EMBED] = shape_diag_embed,
	                             [IR_SHAPE_TRACE] = shape_trace,
	                             [IR_SHAPE_WITH] = shape_with,
	                             [IR_SHAPE_PRELU] = shape_prelu,
	                             [IR_SHAPE_GLU] = shape_glu,
	                             [IR_SHAPE_ORDER] = shape_order,
	                             [IR_SHAPE_CONV] = shape_conv,
	                             [IR_SHAPE_CONV_TRANSPOSE] = shape_conv_transpose,
	                             [IR_SHAPE_POOL] = shape_pool };

static bool counts_ok(const ask *q)
{
	const ir_classinfo *c = &ir_classes[q->info->opclass];
	int least = c->nattr, most = c->nattr + (c->list ? TJ_MAX_RANK : 0);
	if (q->info->nsrc == 255 ? q->nsrc < 1 : q->nsrc != q->info->nsrc)
		return fail(q, TJ_ERR_ARG, "wrong number of operands", "%d", q->nsrc);
	if (q->nattr > most && most > least)
		return fail(q, TJ_ERR_LIMIT, "too many axes or sizes", "at most %d", TJ_MAX_RANK);
	if (q->nattr < least || q->nattr > most)
		return fail(q, TJ_ERR_ARG, "wrong number of attributes", "%d", q->nattr);
	return true;
}

/* The number of elements and of bytes does not overflow. */
static bool size_ok(const ask *q)
{
	int64_t n, bytes;
	if (rt_numel(q->out->rank, q->out->dim, &n) &&
	    !__builtin_mul_overflow(n, (int64_t)tj_dtype_size((tj_dtype)q->out->dtype), &bytes))
		return true;
	return fail(q, TJ_ERR_LIMIT, "too many elements", "the product of the sizes overflows");
}

/* The result is on the operands' device. Numbers and 0-d tensors of the CPU go with operands on any device. */
static bool place(const ask *q)
{
	const ir_meta *first = NULL;
	for (int k = 0; k < q->nsrc; k++) {
		const ir_meta *m = &q->src[k];
		if (m->weak || (m->rank == 0 && m->device == RT_CPU)) continue;
		if (first && first->device != m->device) {
			fail(q, TJ_ERR_DEVICE, "operands are on two devices", "%s and %s", rt_device_name(first->device), rt_device_name(m->device));
			rt_hint(q->err, "move one of them with tj_to()");
			return false;
		}
		if (!first) first = m;
	}
	q->out->device = first ? first->device : RT_CPU;
	return true;
}

/* The type of result `which` by its rules. */
static bool infer_one(ask *q, int which)
{
	const ir_resultinfo *several = q->info->result;
	*q->out = (ir_meta){ 0 };
	q->nnorm = 0;
	if (!counts_ok(q)) return false;
	q->out->weak = all_weak(q);
	return place(q) && type_rules[several ? several[which].type : q->info->type](q) &&
	       shape_rules[several ? several[which].shape : q->info->shape](q) && size_ok(q);
}

tj_status ir_infer_result(ir_op op, int which, int nsrc, const ir_meta *src, int nattr, const int64_t *attr, ir_meta *out, rt_err *err)
{
	int64_t norm[MAX_ATTR + TJ_MAX_RANK];
	rt_err none = { 0 };
	if ((unsigned)op >= IR_OPS || which < 0 || which >= ir_ops[op].nresult)
		return rt_fail(err, TJ_ERR_ARG, "op", "no such result (%d)", which);
	ask q = { &ir_ops[op], op, nsrc, nattr, src, attr, out, norm, 0, NULL, err ? err : &none };
	return infer_one(&q, which) ? TJ_OK : q.err->code;
}

tj_status ir_infer(ir_op op, int nsrc, const ir_meta *src, int nattr, const int64_t *attr, ir_meta *out,
                   int64_t *norm, int *nnorm, uint8_t *want, rt_err *err)
{
	int64_t own[MAX_ATTR + TJ_MAX_RANK];
	rt_err none = { 0 };
	if ((unsigned)op >= IR_OPS) return rt_fail(err, TJ_ERR_ARG, "op", "no such op (%d)", (int)op);
	ask q = { &ir_ops[op], op, nsrc, nattr, src, attr, out, norm ? norm : own, 0, want, err ? err : &none };
	for (int i = q.info->nresult; i-- > 0;) /* result 0 comes last: its rule normalises the attributes of the node */
		if (!infer_one(&q, i)) return q.err->code;
	if (q.info->result) *out = IR_TUPLE;
	if (nnorm) *nnorm = q.nnorm;
	return TJ_OK;
}
