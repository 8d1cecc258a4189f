/* SPDX-License-Identifier: MIT */
/* eval: computes every op on plain host arrays, and so defines what it means. It is the oracle of the tests, the fallback, and the
 * constant folder.
 *
 * The code is meant to be obviously right, not fast: every function walks all indices of a shape with a cursor, finds each element
 * by its strides, and computes one scalar. No result depends on layout. Scalars are computed by ir/math.inc (point.c), reductions
 * by the tree (tree.c), matrix products by runtime/chain.c, composites by their decomposition (decomp.c). */
#include "ir/ir.h"
#include "ir/csr.h"
#include "ir/eigen.h"
#include "ir/packed.h"
#include "ir/tree.h"
#include "runtime/chain.h"
#include "runtime/host.h"

#include <math.h>
#include <stdlib.h>

typedef struct job {
	ir_op op;
	int which;     /* the result to compute, if the op has several */
	const int64_t *attr;
	int nattr, nsrc;
	const ir_value *src;
	ir_value *out; /* row-major */
	const ir_eval_opts *o;
	const char *site;
	rt_err *err;
} job;

static tj_status fault(const job *j, tj_status code, int64_t size)
{
	return rt_fault_fail(&(rt_fault){ j->site, ir_ops[j->op].name, code, size }, j->err);
}

static tj_status in_range(const job *j, int64_t index, int64_t size)
{
	if (index >= 0 && index < size) return TJ_OK;
	return fault(j, TJ_ERR_INDEX, size);
}

static tj_status nomem(const job *j)
{
	rt_fail(j->err, TJ_ERR_NOMEM, ir_ops[j->op].name, "out of memory");
	return TJ_ERR_NOMEM;
}

/* ---- elements ---- */
static void *element(const ir_value *v, int64_t at) { return (char *)v->data + at * (int64_t)tj_dtype_size((tj_dtype)v->meta.dtype); }
static ir_scalar load(const ir_value *v, int64_t at) { return ir_load((tj_dtype)v->meta.dtype, element(v, at)); }
static void store(const ir_value *v, int64_t at, ir_scalar x) { ir_store((tj_dtype)v->meta.dtype, element(v, at), x); }

/* ---- indices: for (cursor c = begin(rank, dim); c.more; next(&c)), in row-major order ---- */
typedef struct cursor {
	int rank;
	bool more;
	int64_t dim[TJ_MAX_RANK], at[TJ_MAX_RANK];
	int64_t count; /* row-major index of `at` */
} cursor;

static cursor begin(int rank, const int64_t *dim)
{
	cursor c = { .rank = rank, .more = true };
	for (int i = 0; i < rank; i++) {
		c.dim[i] = dim[i];
		if (dim[i] == 0) c.more = false;
	}
	return c;
}

static cursor over(const ir_value *v) { return begin(v->meta.rank, v->meta.dim); }

static void next(cursor *c)
{
	c->count++;
	for (int i = c->rank - 1; i >= 0; i--) {
		if (++c->at[i] < c->dim[i]) return;
		c->at[i] = 0;
	}
	c->more = false;
}

/* Offset in v, in elements, of the element at c. */
static int64_t offset(const ir_value *v, const cursor *c)
{
	int64_t o = 0;
	for (int i = 0; i < v->meta.rank; i++) o += c->at[i] * v->stride[i];
	return o;
}

/* The same with another index along one axis. A 0-d v has no axis. */
static int64_t offset_but(const ir_value *v, const cursor *c, int64_t axis, int64_t index)
{
	int64_t o = 0;
	for (int i = 0; i < v->meta.rank; i++) o += (i == axis ? index : c->at[i]) * v->stride[i];
	return o;
}

/* The same for a v that is broadcast: axes match from the last one, and size 1 is repeated. */
static int64_t offset_broadcast(const ir_value *v, const cursor *c)
{
	int64_t o = 0;
	int lead = c->rank - v->meta.rank;
	for (int i = 0; i < v->meta.rank; i++)
		if (v->meta.dim[i] != 1) o += c->at[lead + i] * v->stride[i];
	return o;
}

static tj_status copy_out(const ir_value *from, const ir_value *out)
{
	for (cursor c = over(from); c.more; next(&c)) store(out, c.count, load(from, offset(from, &c)));
	return TJ_OK;
}

/* ---- element by element ---- */
static tj_status eval_point(job *j)
{
	tj_dtype compute = (tj_dtype)j->src[j->op == IR_where].meta.dtype;
	rt_class cls = rt_dtype_class(compute);
	ir_point_fn *f = ir_point_get(j->op, cls);
	bool check = cls == RT_I && ir_divides(j->op);
	ir_scalar s[3];
	if (!f) return fault(j, TJ_ERR_DTYPE, 0);
	for (cursor c = over(j->out); c.more; next(&c)) {
		for (int k = 0; k < j->nsrc; k++) s[k] = load(&j->src[k], offset_broadcast(&j->src[k], &c));
		if (check && s[1].i == 0) {
			if (!j->o || !j->o->int_div_zero) return fault(j, TJ_ERR_DIV, 0);
			store(j->out, c.count, (ir_scalar){ 0 });
		} else {
			store(j->out, c.count, f(s, compute));
		}
	}
	return TJ_OK;
}

static tj_status eval_cast(job *j)
{
	const ir_value *x = &j->src[0];
	for (cursor c = over(x); c.more; next(&c))
		store(j->out, c.count,
		      ir_cast_scalar(load(x, offset(x, &c)), (tj_dtype)x->meta.dtype, (tj_dtype)j->out->meta.dtype));
	return TJ_OK;
}

/* ---- views: the operand with the sizes of the result and other strides, then copied ---- */
static tj_status eval_view(job *j)
{
	const ir_value *x = &j->src[0];
	const int64_t *attr = j->attr;
	int rank = j->out->meta.rank, lead = rank - x->meta.rank;
	ir_value v = { .meta = j->out->meta, .data = x->data };
	int64_t first = 0; /* offset of the view's element 0 from x's, in elements */
	if (!rank) return copy_out(x, j->out);
	switch (j->op) {
	case IR_reshape: case IR_squeeze: case IR_unsqueeze: case IR_optimization_barrier: return copy_out(x, j->out);
	case IR_expand:
		for (int i = 0; i < rank; i++)
			v.stride[i] = i < lead || x->meta.dim[i - lead] == 1 ? 0 : x->stride[i - lead];
		break;
	case IR_permute:
		for (int i = 0; i < rank; i++) v.stride[i] = x->stride[attr[i]];
		break;
	case IR_transpose:
		memcpy(v.stride, x->stride, sizeof v.stride);
		v.stride[attr[0]] = x->stride[attr[1]];
		v.stride[attr[1]] = x->stride[attr[0]];
		break;
	case IR_slice:
		memcpy(v.stride, x->stride, sizeof v.stride);
		v.stride[attr[0]] *= attr[3];
		first = attr[1] * x->stride[attr[0]];
		break;
	case IR_unfold:
		memcpy(v.stride, x->stride, sizeof v.stride);
		v.stride[attr[0]] *= attr[2];
		v.stride[rank - 1] = x->stride[attr[0]] * attr[3];
		break;
	default: /* flip */
		for (int i = 0; i < rank; i++) {
			bool flipped = j->nattr == 0;
			for (int k = 0; k < j->nattr; k++) flipped |= attr[k] == i;
			v.stride[i] = flipped ? -x->stride[i] : x->stride[i];
			if (flipped && x->meta.dim[i] > 0) first += (x->meta.dim[i] - 1) * x->stride[i];
		}
	}
	v.data = (char *)x->data + first * (int64_t)tj_dtype_size((tj_dtype)x->meta.dtype);
	return copy_out(&v, j->out);
}

static tj_status eval_cat(job *j)
{
	int64_t base = 0, axis = j->attr[0];
	for (int k = 0; k < j->nsrc; k++) {
		const ir_value *x = &j->src[k];
		for (cursor c = over(x); c.more; next(&c))
			store(j->out, offset_but(j->out, &c, axis, base + c.at[axis]), load(x, offset(x, &c)));
		base += x->meta.dim[axis];
	}
	return TJ_OK;
}

/* ---- reductions ---- */
static float add_f(float a, float b) { return a + b; }
static float mul_f(float a, float b) { return a * b; }
static float max_f(float a, float b) { return a > b || a != a ? a : b; }
static float min_f(float a, float b) { return a < b || a != a ? a : b; }
static double add_d(double a, double b) { return a + b; }
static double mul_d(double a, double b) { return a * b; }
static double max_d(double a, double b) { return a > b || a != a ? a : b; }
static double min_d(double a, double b) { return a < b || a != a ? a : b; }

static ir_scalar reduce_f(ir_op op, const float *x, int64_t n, bool column)
{
	float (*f)(float, float) = op == IR_sum ? add_f : op == IR_prod ? mul_f : op == IR_amax ? max_f : min_f;
	return (ir_scalar){ .f = ir_tree_f(x, n, 1, f, op == IR_prod ? 1 : 0, column) };
}

static ir_scalar reduce_d(ir_op op, const double *x, int64_t n, bool column)
{
	double (*f)(double, double) = op == IR_sum    ? add_d
	                              : op == IR_prod ? mul_d
	                              : op == IR_amax ? max_d
	                                              : min_d;
	return (ir_scalar){ .d = ir_tree_d(x, n, 1, f, op == IR_prod ? 1 : 0, column) };
}

/* Integers and bool: any order gives the same result. Sums and products wrap. */
static ir_scalar reduce_i(ir_op op, const int64_t *x, int64_t n)
{
	int64_t r = op == IR_prod || op == IR_all ? 1 : op == IR_amax ? INT64_MIN : op == IR_amin ? INT64_MAX : 0;
	for (int64_t i = 0; i < n; i++) switch (op) {
	case IR_sum: r = (int64_t)((uint64_t)r + (uint64_t)x[i]); break;
	case IR_prod: r = (int64_t)((uint64_t)r * (uint64_t)x[i]); break;
	case IR_amax: r = x[i] > r ? x[i] : r; break;
	case IR_amin: r = x[i] < r ? x[i] : r; break;
	case IR_any: r |= x[i]; break;
	default: r &= x[i]; break;
	}
	return (ir_scalar){ .i = r };
}

/* Ops that find one element: the first largest or smallest one. NaN beats every number. */
static bool looks_for_one(ir_op op) { return op == IR_argmax || op == IR_argmin || op == IR_max_with_indices || op == IR_min_with_indices; }
static bool looks_up(ir_op op) { return op == IR_argmax || op == IR_max_with_indices; }

/* a is chosen rather than b, which comes first. */
static bool beats(ir_op op, rt_class cls, ir_scalar a, ir_scalar b)
{
	if (cls == RT_I) return looks_up(op) ? a.i > b.i : a.i < b.i;
	double x = cls == RT_F ? (double)a.f : a.d, y = cls == RT_F ? (double)b.f : b.d;
	if (x != x || y != y) return x != x && y == y;
	return looks_up(op) ? x > y : x < y;
}

/* Copies into `row`, as float, double or int64_t, the elements of x along axes lo..hi; c has the indices of the other axes. */
static void collect(const ir_value *x, const cursor *c, int lo, int hi, void *row)
{
	rt_class cls = rt_dtype_class((tj_dtype)x->meta.dtype);
	cursor full = *c; /* c has a place for every axis of x */
	for (cursor r = begin(hi - lo, x->meta.dim + lo); r.more; next(&r)) {
		for (int i = lo; i < hi; i++) full.at[i] = r.at[i - lo];
		ir_scalar v = load(x, offset(x, &full));
		if (cls == RT_F) ((float *)row)[r.count] = v.f;
		else if (cls == RT_D) ((double *)row)[r.count] = v.d;
		else ((int64_t *)row)[r.count] = v.i;
	}
}

/* The chosen element, or its index. */
static ir_scalar first_best(ir_op op, bool element, rt_class cls, const void *row, int64_t n)
{
	int64_t best = 0;
	ir_scalar b = { 0 };
	for (int64_t i = 0; i < n; i++) {
		ir_scalar v;
		if (cls == RT_F) v.f = ((const float *)row)[i];
		else if (cls == RT_D) v.d = ((const double *)row)[i];
		else v.i = ((const int64_t *)row)[i];
		if (i > 0 && !beats(op, cls, v, b)) continue;
		b = v;
		best = i;
	}
	return element ? b : (ir_scalar){ .i = best };
}

/* Reduces axes lo..hi of x to size 1, into y, which is row-major. */
static tj_status reduce_group(const job *j, const ir_value *x, int lo, int hi, bool column, const ir_value *y)
{
	int64_t n = 0;
	rt_class cls = rt_dtype_class((tj_dtype)x->meta.dtype);
	rt_numel(hi - lo, x->meta.dim + lo, &n);
	void *row = rt_alloc((size_t)n * 8);
	if (!row) return nomem(j);
	for (cursor c = over(y); c.more; next(&c)) {
		ir_scalar r;
		collect(x, &c, lo, hi, row);
		if (looks_for_one(j->op)) r = first_best(j->op, ir_ops[j->op].result && !j->which, cls, row, n);
		else if (cls == RT_F) r = reduce_f(j->op, row, n, column);
		else if (cls == RT_D) r = reduce_d(j->op, row, n, column);
		else r = reduce_i(j->op, row, n);
		store(y, c.count, r);
	}
	rt_free(row);
	return TJ_OK;
}

/* Finds the last group lo..hi of adjacent reduced axes below `end`. */
static bool group_below(uint32_t set, int end, int *lo, int *hi)
{
	for (*hi = end; *hi > 0 && !(set >> (*hi - 1) & 1); --*hi) {}
	for (*lo = *hi; *lo > 0 && (set >> (*lo - 1) & 1); --*lo) {}
	return *lo < *hi;
}

/* Reduces one group of adjacent axes after another, the last group first: by the row tree if the group holds the last axis, else by
 * the column tree. An arg reduction has one group. Between groups the value keeps its rank; reduced axes have size 1. */
static tj_status eval_reduce(job *j)
{
	ir_value x = j->src[0];
	int rank = x.meta.rank, lo, hi;
	uint32_t set = ir_reduced(j->op, j->nattr, j->attr, rank);
	void *held = NULL;
	tj_status st = TJ_OK;
	if (!set) { /* a 0-d operand: one group of no axes, with one element */
		ir_value y = *j->out;
		return reduce_group(j, &x, 0, 0, false, &y);
	}
	for (int end = rank; st == TJ_OK && group_below(set, end, &lo, &hi); end = lo) {
		int a, b;
		int64_t n = 0;
		bool last = !group_below(set, lo, &a, &b);
		ir_value y = { .meta = x.meta };
		for (int i = lo; i < hi; i++) y.meta.dim[i] = 1;
		y.meta.dtype = j->out->meta.dtype;
		rt_numel(rank, y.meta.dim, &n);
		ir_contiguous(rank, y.meta.dim, y.stride);
		y.data = last ? j->out->data : rt_alloc((size_t)n * tj_dtype_size((tj_dtype)y.meta.dtype));
		st = y.data ? reduce_group(j, &x, lo, hi, hi < rank, &y) : nomem(j);
		rt_free(held);
		held = last ? NULL : y.data;
		x = y;
	}
	rt_free(held);
	return st;
}

static int64_t axis_size(const ir_value *v, int64_t axis) { return v->meta.rank ? v->meta.dim[axis] : 1; }

/* ---- along an axis: element i from elements 0 to i ---- */
typedef struct line { /* of elements along the axis */
	const job *j;
	const cursor *c;
	tj_dtype dtype;
	rt_class cls;
	int64_t n;
} line;

static ir_scalar at(const line *l, int k, int64_t i) { return load(&l->j->src[k], offset_but(&l->j->src[k], l->c, l->j->attr[0], i)); }
static void put(const line *l, int64_t i, ir_scalar y) { store(l->j->out, offset_but(l->j->out, l->c, l->j->attr[0], i), y); }

static void chunks(const line *l, ir_op op)
{
	ir_point_fn *f = ir_point_get(op, l->cls);
	ir_scalar before = { 0 }, own = { 0 };
	for (int64_t i = 0; i < l->n; i++) {
		own = i % IR_RUNNING ? f((ir_scalar[]){ own, at(l, 0, i) }, l->dtype) : at(l, 0, i);
		const ir_scalar y = i < IR_RUNNING ? own : f((ir_scalar[]){ before, own }, l->dtype);
		put(l, i, y);
		if (i % IR_RUNNING == IR_RUNNING - 1) before = y;
	}
}

static bool not_a_number(const line *l, ir_scalar x) { return l->cls == RT_F ? x.f != x.f : l->cls == RT_D && x.d != x.d; }

static void extremes(const line *l)
{
	ir_point_fn *reaches = ir_point_get(l->j->op == IR_cummax ? IR_ge : IR_le, l->cls);
	int64_t best = 0;
	for (int64_t i = 0; i < l->n; i++) {
		const ir_scalar x = at(l, 0, i), b = at(l, 0, best);
		if (not_a_number(l, x) || reaches((ir_scalar[]){ x, b }, l->dtype).i) best = i;
		put(l, i, l->j->which ? (ir_scalar){ .i = best } : at(l, 0, best));
	}
}

static void recurrence(const line *l)
{
	ir_scalar y = { 0 };
	for (int64_t i = 0; i < l->n; i++) {
		const ir_scalar a = at(l, 0, i), b = at(l, 1, i);
		if (!i) y = b;
		else if (l->cls == RT_F) y.f = fmaf(a.f, y.f, b.f);
		else if (l->cls == RT_D) y.d = fma(a.d, y.d, b.d);
		else y.i = (int64_t)((uint64_t)a.i * (uint64_t)y.i + (uint64_t)b.i);
		put(l, i, y);
		if (l->cls == RT_I) y = load(l->j->out, offset_but(l->j->out, l->c, l->j->attr[0], i)); /* wrapped */
	}
}

static tj_status eval_along(job *j)
{
	const ir_value *x = &j->src[0];
	line l = { .j = j, .dtype = (tj_dtype)x->meta.dtype, .cls = rt_dtype_class((tj_dtype)x->meta.dtype), .n = axis_size(x, j->attr[0]) };
	ir_value first = *x;
	if (l.n) first.meta.dim[j->attr[0]] = 1;
	for (cursor c = over(&first); c.more; next(&c)) {
		l.c = &c;
		if (j->op == IR_cumsum) chunks(&l, IR_add);
		else if (j->op == IR_cumprod) chunks(&l, IR_mul);
		else if (j->op == IR_linear_recurrence) recurrence(&l);
		else extremes(&l);
	}
	return TJ_OK;
}

/* ---- order ---- */
typedef struct place {
	ir_scalar v;
	int64_t i;
	rt_class cls;
	bool down;
} place;

/* Below 0: a comes before b. NaN counts as largest. */
static int by_value(rt_class cls, ir_scalar a, ir_scalar b)
{
	if (cls == RT_I) return (a.i > b.i) - (a.i < b.i);
	const double x = cls == RT_F ? (double)a.f : a.d, y = cls == RT_F ? (double)b.f : b.d;
	return x != x || y != y ? (x != x) - (y != y) : (x > y) - (x < y);
}

static int by_place(const void *p, const void *q)
{
	const place *a = p, *b = q;
	const int c = a->down ? by_value(a->cls, b->v, a->v) : by_value(a->cls, a->v, b->v);
	return c ? c : (a->i > b->i) - (a->i < b->i);
}

static void sort_line(const job *j, const cursor *c, bool down, place *all, int64_t n)
{
	const ir_value *x = &j->src[0];
	for (int64_t i = 0; i < n; i++)
		all[i] = (place){ load(x, offset_but(x, c, j->attr[0], i)), i, rt_dtype_class((tj_dtype)x->meta.dtype), down };
	qsort(all, (size_t)n, sizeof *all, by_place);
}

static void put_place(const job *j, const cursor *c, int64_t i, const place *p)
{
	store(j->out, offset_but(j->out, c, j->attr[0], i), j->which ? (ir_scalar){ .i = p->i } : p->v);
}

/* sort, topk: all of a line, and the first of it. */
static tj_status eval_sort(job *j)
{
	const ir_value *x = &j->src[0];
	const int64_t axis = j->attr[0], n = axis_size(x, axis), k = axis_size(j->out, axis);
	place *all = rt_alloc(sizeof *all * (size_t)(n + 1));
	if (!all) return nomem(j);
	ir_value first = *j->out;
	if (k) first.meta.dim[axis] = 1;
	for (cursor c = over(&first); c.more; next(&c)) {
		sort_line(j, &c, j->attr[j->op == IR_sort ? 1 : 2] != 0, all, n);
		for (int64_t i = 0; i < k; i++) put_place(j, &c, i, &all[i]);
	}
	rt_free(all);
	return TJ_OK;
}

/* The elements of a sorted line at the places. */
static tj_status eval_take_sorted(job *j)
{
	const ir_value *x = &j->src[0], *at = &j->src[1];
	const int64_t axis = j->attr[0], n = axis_size(x, axis), k = axis_size(j->out, axis);
	tj_status st = TJ_OK;
	place *all = rt_alloc(sizeof *all * (size_t)(n + 1));
	if (!all) return nomem(j);
	ir_value first = *j->out;
	if (k) first.meta.dim[axis] = 1;
	for (cursor c = over(&first); c.more && st == TJ_OK; next(&c)) {
		sort_line(j, &c, false, all, n);
		for (int64_t i = 0; i < k && st == TJ_OK; i++) {
			const int64_t to = load(at, offset_but(at, &c, axis, i)).i;
			if ((st = in_range(j, to, n)) == TJ_OK) put_place(j, &c, i, &all[to]);
		}
	}
	rt_free(all);
	return st;
}

/* By bisection, so that there is one answer for values that are not sorted, too. */
static tj_status eval_search(job *j)
{
	const ir_value *s = &j->src[0], *v = &j->src[1];
	const int last = s->meta.rank - 1;
	const rt_class cls = rt_dtype_class((tj_dtype)v->meta.dtype);
	for (cursor c = over(v); c.more; next(&c)) {
		const ir_scalar x = load(v, offset(v, &c));
		int64_t row = 0, lo = 0, hi = s->meta.dim[last];
		for (int d = 0; d < last; d++) row += c.at[d] * s->stride[d];
		while (lo < hi) {
			const int64_t mid = lo + (hi - lo) / 2;
			const int order = by_value(cls, load(s, row + mid * s->stride[last]), x);
			if (order < 0 || (j->attr[0] && order == 0)) lo = mid + 1;
			else hi = mid;
		}
		store(j->out, c.count, (ir_scalar){ .i = lo });
	}
	return TJ_OK;
}

/* ---- matmul ---- */
/* A vector becomes a matrix: a row if it is the left operand, a column if it is the right one. */
static ir_value as_matrix(const ir_value *v, bool left)
{
	ir_value m = *v;
	if (v->meta.rank > 1) return m;
	m.meta.rank = 2;
	m.meta.dim[left] = v->meta.dim[0];
	m.stride[left] = v->stride[0];
	m.meta.dim[!left] = 1;
	m.stride[!left] = 0;
	return m;
}

static tj_status eval_matmul(job *j)
{
	ir_value a = as_matrix(&j->src[0], true), b = as_matrix(&j->src[1], false), lead_a = a, lead_b = b;
	int ra = a.meta.rank, rb = b.meta.rank, batch = (ra > rb ? ra : rb) - 2;
	int64_t dim[TJ_MAX_RANK + 2];
	memcpy(dim, j->out->meta.dim, sizeof *dim * (size_t)batch);
	dim[batch] = a.meta.dim[ra - 2];
	dim[batch + 1] = b.meta.dim[rb - 1];
	lead_a.meta.rank = (uint8_t)(ra - 2);
	lead_b.meta.rank = (uint8_t)(rb - 2);
	const rt_chain x = { .dtype = (tj_dtype)j->out->meta.dtype,
		             .m = dim[batch],
		             .n = dim[batch + 1],
		             .k = a.meta.dim[ra - 1],
		             .a_row = a.stride[ra - 2],
		             .a_col = a.stride[ra - 1],
		             .b_row = b.stride[rb - 2],
		             .b_col = b.stride[rb - 1],
		             .c_row = dim[batch + 1],
		             .c_col = 1 };
	for (cursor c = begin(batch, dim); c.more; next(&c))
		rt_chain_run(&x, element(&a, offset_broadcast(&lead_a, &c)), element(&b, offset_broadcast(&lead_b, &c)),
		             element(j->out, c.count * x.m * x.n));
	return TJ_OK;
}

/* ---- indexing ---- */
static tj_status eval_gather(job *j)
{
	const ir_value *x = &j->src[0], *index = &j->src[1];
	int64_t axis = j->attr[0];
	for (cursor c = over(j->out); c.more; next(&c)) {
		int64_t i = load(index, offset(index, &c)).i;
		if (in_range(j, i, axis_size(x, axis)) != TJ_OK) return TJ_ERR_INDEX;
		store(j->out, c.count, load(x, offset_but(x, &c, axis, i)));
	}
	return TJ_OK;
}

static tj_status eval_index_select(job *j)
{
	const ir_value *x = &j->src[0], *index = &j->src[1];
	int64_t axis = j->attr[0];
	for (cursor c = over(j->out); c.more; next(&c)) {
		int64_t i = load(index, index->meta.rank ? c.at[axis] * index->stride[0] : 0).i;
		if (in_range(j, i, x->meta.dim[axis]) != TJ_OK) return TJ_ERR_INDEX;
		store(j->out, c.count, load(x, offset_but(x, &c, axis, i)));
	}
	return TJ_OK;
}

static tj_status eval_embedding(job *j)
{
	const ir_value *table = &j->src[0], *index = &j->src[1];
	for (cursor c = over(j->out); c.more; next(&c)) {
		int64_t i = load(index, offset(index, &c)).i; /* index has all axes of the result but the last */
		if (in_range(j, i, table->meta.dim[0]) != TJ_OK) return TJ_ERR_INDEX;
		store(j->out, c.count, load(table, i * table->stride[0] + c.at[c.rank - 1] * table->stride[1]));
	}
	return TJ_OK;
}

/* What the scatter ops do with the element and the source; IR_OPS: the source takes its place. */
static ir_op scattering(ir_op op)
{
	switch (op) {
	case IR_scatter_add: return IR_add;
	case IR_scatter_prod: return IR_mul;
	case IR_scatter_amax: return IR_maximum;
	case IR_scatter_amin: return IR_minimum;
	default: return IR_OPS;
	}
}

static tj_status eval_scatter(job *j)
{
	const ir_value *index = &j->src[1], *src = &j->src[2];
	tj_dtype t = (tj_dtype)j->out->meta.dtype;
	const ir_op op = scattering(j->op);
	ir_point_fn *joined = op == IR_OPS ? NULL : ir_point_get(op, rt_dtype_class(t));
	int64_t axis = j->attr[0];
	copy_out(&j->src[0], j->out);
	for (cursor c = over(index); c.more; next(&c)) {
		int64_t i = load(index, offset(index, &c)).i;
		if (in_range(j, i, axis_size(j->out, axis)) != TJ_OK) return TJ_ERR_INDEX;
		int64_t at = offset_but(j->out, &c, axis, i);
		ir_scalar v = load(src, offset(src, &c));
		store(j->out, at, joined ? joined((ir_scalar[]){ load(j->out, at), v }, t) : v);
	}
	return TJ_OK;
}

static tj_status eval_one_hot(job *j)
{
	const ir_value *index = &j->src[0];
	for (cursor c = over(index); c.more; next(&c)) {
		int64_t i = load(index, offset(index, &c)).i, n = j->attr[0];
		if (in_range(j, i, n) != TJ_OK) return TJ_ERR_INDEX;
		for (int64_t k = 0; k < n; k++) store(j->out, c.count * n + k, (ir_scalar){ .i = k == i });
	}
	return TJ_OK;
}

/* ---- creation ---- */
static tj_status eval_create(job *j)
{
	tj_dtype t = (tj_dtype)j->out->meta.dtype;
	for (cursor c = over(j->out); c.more; next(&c)) {
		ir_scalar v;
		if (j->op == IR_full) v = load(&j->src[0], 0);
		else if (j->op == IR_eye) v = ir_cast_scalar((ir_scalar){ .i = c.at[0] == c.at[1] }, TJ_I64, t);
		else if (j->op == IR_arange)
			v = ir_cast_scalar((ir_scalar){ .i = (int64_t)((uint64_t)j->attr[1] +
			                                                (uint64_t)c.count * (uint64_t)j->attr[3]) },
			                   TJ_I64, t);
		else
			v = ir_random(j->op, t, (uint64_t)load(&j->src[0], 0).i, (uint64_t)load(&j->src[1], 0).i,
			              (uint64_t)c.count);
		store(j->out, c.count, v);
	}
	return TJ_OK;
}

/* ---- functions of the program ---- */
/* The operand row-major, as the function gets it; *copy is to be freed. */
static bool as_host_value(const ir_value *v, void **copy, tj_host_value *to)
{
	int64_t stride[TJ_MAX_RANK], n = 0;
	const tj_dtype t = (tj_dtype)v->meta.dtype;
	rt_numel(v->meta.rank, v->meta.dim, &n);
	ir_contiguous(v->meta.rank, v->meta.dim, stride);
	*to = (tj_host_value){ t, v->meta.rank, v->meta.dim, v->data, (size_t)n * tj_dtype_size(t) };
	*copy = NULL;
	bool plain = true;
	for (int i = 0; i < v->meta.rank; i++) plain &= v->meta.dim[i] == 1 || v->stride[i] == stride[i];
	if (plain) return true;
	ir_value out = { .meta = v->meta, .data = *copy = rt_alloc(to->bytes + 1) };
	memcpy(out.stride, stride, sizeof stride);
	to->data = out.data;
	return out.data && copy_out(v, &out) == TJ_OK;
}

static tj_status call_host(const job *j, const rt_host *h, tj_host_value *in, void **copy)
{
	tj_host_value out;
	void *none;
	char why[TJ_HOST_WHY] = "";
	bool ok = as_host_value(j->out, &none, &out);
	for (int k = 0; k < j->nsrc - 1; k++) ok = as_host_value(&j->src[k], &copy[k], &in[k]) && ok;
	if (!ok) return nomem(j);
	const tj_status st = h->call(h->env, j->nsrc - 1, in, &out, why);
	if (st == TJ_OK || !j->err) return st;
	why[TJ_HOST_WHY - 1] = 0;
	if (!j->err->site) j->err->site = j->site;
	return rt_fail(j->err, (unsigned)st < TJ_STATUS_COUNT ? st : TJ_ERR_STATE, h->name, "%s", *why ? why : tj_strerror(st));
}

/* The last operand says only which call comes before. */
static tj_status eval_host(const job *j)
{
	rt_host h;
	if (!rt_host_find(j->attr[1], &h))
		return rt_fail(j->err, TJ_ERR_ARG, "host_call", "there is no function %lld of tj_host_function()", (long long)j->attr[1]);
	tj_host_value *in = rt_alloc(sizeof *in * (size_t)j->nsrc);
	void **copy = rt_calloc(sizeof *copy * (size_t)j->nsrc);
	const tj_status st = in && copy ? call_host(j, &h, in, copy) : nomem(j);
	for (int k = 0; copy && k < j->nsrc; k++) rt_free(copy[k]);
	rt_free(copy);
	rt_free(in);
	return st;
}

/* ---- composites: the op alone in a graph, decomposed ---- */
static tj_status build_alone(const job *j, ir_graph *g, ir_ref *src, const void **ext)
{
	g->raw = true;
	for (int k = 0; k < j->nsrc; k++) {
		src[k] = ir_input(g, k, &j->src[k].meta, j->src[k].stride, NULL);
		ext[k] = j->src[k].data;
	}
	ir_ret(g, ir_emit(g, j->op, j->nsrc, src, j->nattr, j->attr, j->site));
	if (g->err.code != TJ_OK && j->err && j->err->code == TJ_OK) *j->err = g->err;
	return g->err.code;
}

static tj_status eval_composite(job *j)
{
	ir_graph one, many;
	ir_ref *src = rt_alloc(sizeof *src * (size_t)j->nsrc);
	const void **ext = rt_alloc(sizeof *ext * (size_t)j->nsrc);
	void *out = j->out->data;
	ir_graph_init(&one);
	ir_graph_init(&many);
	tj_status st = src && ext ? build_alone(j, &one, src, ext) : nomem(j);
	if (st == TJ_OK) st = ir_pass_decomp(&one, &many, NULL, j->err);
	if (st == TJ_OK) st = ir_eval(&many, ext, NULL, NULL, &out, j->o, j->err);
	ir_graph_free(&one);
	ir_graph_free(&many);
	rt_free(src);
	rt_free(ext);
	return st;
}

static tj_status run(job *j);

static bool cast_to(const ir_value *from, tj_dtype t, ir_value *to)
{
	int64_t n = 0;
	*to = (ir_value){ .meta = from->meta };
	to->meta.dtype = (uint8_t)t;
	rt_numel(to->meta.rank, to->meta.dim, &n);
	ir_contiguous(to->meta.rank, to->meta.dim, to->stride);
	to->data = rt_alloc((size_t)n * tj_dtype_size(t));
	return to->data && eval_cast(&(job){ .op = IR_cast, .src = from, .out = to }) == TJ_OK;
}

static tj_status eval_factor(job *j)
{
	const tj_dtype t = (tj_dtype)j->out->meta.dtype;
	ir_value a = { .data = NULL }, b = { .data = NULL };
	tj_status st = cast_to(&j->src[0], t, &a) && (j->nsrc == 1 || cast_to(&j->src[1], t, &b)) ? TJ_OK : nomem(j);
	if (st == TJ_OK) st = ir_factor(j->op, &a.meta, a.data, b.data, &j->out->meta, j->out->data, j->nattr && j->attr[0], j->err);
	if (st != TJ_OK && j->err && !j->err->site) j->err->site = j->site;
	rt_free(a.data);
	rt_free(b.data);
	return st;
}

static tj_status eval_spectral(job *j)
{
	ir_value a = { .data = NULL };
	if (!cast_to(&j->src[0], (tj_dtype)j->out->meta.dtype, &a)) return nomem(j);
	const tj_status st = ir_spectral(j->op, &a.meta, a.data, &j->out->meta, j->out->data, j->err);
	if (st != TJ_OK && j->err && !j->err->site) j->err->site = j->site;
	rt_free(a.data);
	return st;
}

/* An op that accumulates narrow floats: widens the operands, computes, and rounds the result once. */
static tj_status eval_wide(job *j)
{
	ir_value src[4], out, *made[5] = { NULL };
	tj_status st = TJ_OK;
	job wide = *j;
	for (int k = 0; k < j->nsrc; k++) {
		tj_dtype t = (tj_dtype)j->src[k].meta.dtype;
		src[k] = j->src[k];
		if (!rt_is_narrow(t)) continue;
		made[k] = &src[k];
		if (!cast_to(&j->src[k], rt_compute_dtype(t), &src[k])) st = nomem(j);
	}
	wide.src = src;
	if (rt_is_narrow((tj_dtype)j->out->meta.dtype)) {
		made[4] = wide.out = &out;
		if (!cast_to(j->out, rt_compute_dtype((tj_dtype)j->out->meta.dtype), &out)) st = nomem(j);
	}
	if (st == TJ_OK) st = run(&wide);
	if (st == TJ_OK && made[4]) eval_cast(&(job){ .op = IR_cast, .src = &out, .out = j->out });
	for (int k = 0; k < 5; k++)
		if (made[k]) rt_free(made[k]->data);
	return st;
}

static tj_status run(job *j)
{
	const ir_opinfo *info = &ir_ops[j->op];
	if (ir_is_composite(j->op, (tj_dtype)j->out->meta.dtype)) return eval_composite(j);
	if (info->flags & IR_VIEW) return eval_view(j);
	if (j->op == IR_matmul) return eval_matmul(j); /* of narrow floats, too */
	if (info->flags & IR_ACCUM && rt_is_narrow((tj_dtype)j->src[j->nsrc - 1].meta.dtype)) return eval_wide(j);
	if (info->opclass == IR_REDUCE_ || info->opclass == IR_ARG) return eval_reduce(j);
	switch (j->op) {
	case IR_cast: return eval_cast(j);
	case IR_to: return copy_out(&j->src[0], j->out);
	case IR_cat: return eval_cat(j);
	case IR_gather: return eval_gather(j);
	case IR_index_select: return eval_index_select(j);
	case IR_embedding: return eval_embedding(j);
	case IR_scatter: case IR_scatter_add: case IR_scatter_prod: case IR_scatter_amax: case IR_scatter_amin: return eval_scatter(j);
	case IR_one_hot: return eval_one_hot(j);
	case IR_sort: case IR_topk: return eval_sort(j);
	case IR_take_sorted: return eval_take_sorted(j);
	case IR_searchsorted: return eval_search(j);
	case IR_cumsum: case IR_cumprod: case IR_cummax: case IR_cummin: case IR_linear_recurrence: return eval_along(j);
	case IR_full: case IR_arange: case IR_eye: case IR_uniform: case IR_normal: return eval_create(j);
	case IR_csr_product: case IR_csr_product_transposed: case IR_csr_sampled_product: return ir_csr(j->op, j->src, j->out, j->site, j->err);
	case IR_cholesky: case IR_solve_lower: case IR_lu_packed: case IR_qr_packed: return eval_factor(j);
	case IR_eigh_packed: case IR_svd_packed: return eval_spectral(j);
	case IR_host_call: return eval_host(j);
	default: return eval_point(j);
	}
}

tj_status ir_eval_op(ir_op op, int which, const int64_t *attr, int nattr, int nsrc, const ir_value *src, ir_value *out,
                     const ir_eval_opts *o, const char *site, rt_err *err)
{
	ir_meta small[8] = { { 0 } }, *meta = small;
	if (nsrc > (int)RT_COUNT(small)) meta = rt_alloc(sizeof *meta * (size_t)nsrc);
	if (!meta) return rt_fail(err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
	for (int k = 0; k < nsrc; k++) meta[k] = src[k].meta;
	tj_status st = ir_infer_result(op, which, nsrc, meta, nattr, attr, &out->meta, err);
	if (meta != small) rt_free(meta);
	if (st != TJ_OK) return st;
	ir_contiguous(out->meta.rank, out->meta.dim, out->stride);
	return run(&(job){ op, which, attr, nattr, nsrc, src, out, o, site, err });
}

/* ---- graphs ---- */
typedef struct state {
	const ir_graph *g;
	const void *const *ext;
	const uint64_t *num;
	const void *const *given;
	const ir_eval_opts *o;
	rt_err *err;
	ir_value *value;   /* by node */
	bool *owned;       /* value's data was allocated here */
	ir_ref *last;      /* the last user of a node; IR_NONE: an output */
	bool *live;
	ir_scalar *consts; /* by node */
} state;

/* Marks the nodes that must be computed, given the values from outside, and notes the last user of each. */
static void mark(state *s)
{
	for (uint32_t i = 0; i < s->g->out.n; i++) {
		s->live[s->g->out.v[i]] = true;
		s->last[s->g->out.v[i]] = IR_NONE;
	}
	for (ir_ref r = s->g->node.n; r-- > 0;) {
		const ir_node *n = ir_at(s->g, r);
		if (!s->live[r] || (s->given && s->given[r])) continue;
		for (int k = 0; k < n->nsrc; k++) {
			ir_ref a = ir_src(s->g, n, k);
			if (!s->live[a]) s->last[a] = r;
			s->live[a] = true;
		}
	}
}

static tj_status compute(state *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	ir_value *v = &s->value[r], small[8], *src = small;
	int64_t bytes = ir_numel(s->g, r) * (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	if (n->nsrc > RT_COUNT(small)) src = rt_alloc(sizeof *src * n->nsrc);
	v->data = rt_alloc((size_t)bytes);
	if (v->data) s->owned[r] = true;
	tj_status st = TJ_ERR_NOMEM;
	if (!v->data || !src) rt_fail(s->err, st, ir_ops[n->op].name, "out of memory");
	else {
		for (int k = 0; k < n->nsrc; k++) src[k] = s->value[ir_src(s->g, n, k)];
		st = run(&(job){ (ir_op)n->op, 0, ir_attr(s->g, n), n->nattr, n->nsrc, src, v, s->o, n->site, s->err });
	}
	if (src != small) rt_free(src);
	return st;
}

static int64_t bytes_of(const ir_meta *m)
{
	int64_t numel = 0;
	rt_numel(m->rank, m->dim, &numel);
	return numel * (int64_t)tj_dtype_size((tj_dtype)m->dtype);
}

/* Computes the results of an op one at a time. */
static tj_status eval_each(state *s, const ir_node *n, const ir_value *src, void *const *block)
{
	tj_status st = TJ_OK;
	for (int i = 0; st == TJ_OK && i < ir_results(s->g, n); i++) {
		ir_value v = { .meta = ir_result(s->g, n, i), .data = block[i] };
		ir_contiguous(v.meta.rank, v.meta.dim, v.stride);
		st = run(&(job){ (ir_op)n->op, i, ir_attr(s->g, n), n->nattr, n->nsrc, src, &v, s->o, n->site, s->err });
	}
	return st;
}

/* Several results go into one block: pointers to them, then the results. */
static tj_status compute_tuple(state *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	int results = ir_results(s->g, n);
	int64_t total = (int64_t)sizeof(void *) * results;
	for (int i = 0; i < results; i++) {
		const ir_meta m = ir_result(s->g, n, i);
		total += bytes_of(&m) + 8;
	}
	void **block = rt_alloc((size_t)total);
	ir_value *src = rt_alloc(sizeof *src * (n->nsrc + 1u));
	tj_status st = TJ_ERR_NOMEM;
	if (!block || !src) {
		rt_free(block);
		rt_fail(s->err, st, ir_ops[n->op].name, "out of memory");
	} else {
		char *at = (char *)(block + results);
		s->value[r].data = block;
		s->owned[r] = true;
		for (int i = 0; i < results; i++) {
			const ir_meta m = ir_result(s->g, n, i);
			block[i] = at;
			at += (bytes_of(&m) + 7) / 8 * 8;
		}
		for (int k = 0; k < n->nsrc; k++) src[k] = s->value[ir_src(s->g, n, k)];
		st = ir_is_flow(n->op) ? ir_eval_flow(s->g, r, src, s->num, block, s->o, s->err) : eval_each(s, n, src, block);
	}
	rt_free(src);
	return st;
}

/* Copies the result: the block is freed after its last reader. */
static tj_status compute_get(state *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	void *const *block = s->value[ir_src(s->g, n, 0)].data;
	size_t bytes = (size_t)ir_numel(s->g, r) * tj_dtype_size((tj_dtype)n->dtype);
	if (!(s->value[r].data = rt_alloc(bytes))) return rt_fail(s->err, TJ_ERR_NOMEM, "get", "out of memory");
	s->owned[r] = true;
	memcpy(s->value[r].data, block[ir_attr(s->g, n)[0]], bytes);
	return TJ_OK;
}

static tj_status visit(state *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	const int64_t *attr = ir_attr(s->g, n);
	ir_value *v = &s->value[r];
	v->meta = ir_meta_of(s->g, r);
	ir_contiguous(n->rank, v->meta.dim, v->stride);
	if (s->given && s->given[r]) {
		v->data = (void *)(uintptr_t)s->given[r];
		return TJ_OK;
	}
	switch (n->op) {
	case IR_input:
		v->data = (void *)(uintptr_t)s->ext[attr[0]];
		memcpy(v->stride, attr + 2, sizeof *v->stride * n->rank);
		return TJ_OK;
	case IR_num:
		v->data = (void *)(uintptr_t)&s->num[attr[0]];
		return TJ_OK;
	case IR_const: /* one element, with strides of 0 */
		v->data = &s->consts[r];
		store(v, 0, ir_const_value(s->g, n));
		memset(v->stride, 0, sizeof v->stride);
		return TJ_OK;
	case IR_data:
		v->data = s->g->data.v[attr[0]].bytes;
		return TJ_OK;
	case IR_get: return compute_get(s, r);
	default: return ir_is_tuple(n) ? compute_tuple(s, r) : compute(s, r);
	}
}

static void drop(state *s, ir_ref r)
{
	if (!s->owned[r]) return;
	rt_free(s->value[r].data);
	s->owned[r] = false;
}

static tj_status eval_nodes(state *s, void *const *out)
{
	tj_status st = TJ_OK;
	for (ir_ref r = 0; st == TJ_OK && r < s->g->node.n; r++) {
		if (!s->live[r]) continue;
		st = visit(s, r);
		const ir_node *n = ir_at(s->g, r);
		for (int k = 0; k < n->nsrc; k++)
			if (s->last[ir_src(s->g, n, k)] == r) drop(s, ir_src(s->g, n, k));
	}
	for (uint32_t i = 0; st == TJ_OK && i < s->g->out.n; i++) {
		ir_value dst = { .meta = s->value[s->g->out.v[i]].meta, .data = out[i] };
		copy_out(&s->value[s->g->out.v[i]], &dst);
	}
	for (ir_ref r = 0; r < s->g->node.n; r++) drop(s, r);
	return st;
}

tj_status ir_eval(const ir_graph *g, const void *const *ext, const uint64_t *num, const void *const *given,
                  void *const *out, const ir_eval_opts *o, rt_err *err)
{
	rt_arena mem = { 0 };
	uint32_t n = g->node.n;
	state s = { g, ext, num, given, o, err, NULL, NULL, NULL, NULL, NULL };
	tj_status st = TJ_ERR_NOMEM;
	s.value = rt_arena_alloc(&mem, sizeof *s.value * n);
	s.owned = rt_arena_alloc(&mem, sizeof *s.owned * n);
	s.last = rt_arena_alloc(&mem, sizeof *s.last * n);
	s.live = rt_arena_alloc(&mem, sizeof *s.live * n);
	s.consts = rt_arena_alloc(&mem, sizeof *s.consts * n);
	if (!s.value || !s.owned || !s.last || !s.live || !s.consts) rt_fail(err, st, "eval", "out of memory");
	else {
		mark(&s);
		st = eval_nodes(&s, out);
	}
	rt_arena_free(&mem);
	return st;
}
