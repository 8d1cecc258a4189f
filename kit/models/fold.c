/* SPDX-License-Identifier: MIT */
/* fold: ops on small tensors that the host knows: shapes, axes, numbers. Each function gives the values that the op of <tj.h> would give,
 * or false, and then that op runs. */
#include "kit/models/models.h"

#include <math.h>

/* ---- elements ---- */
static int64_t wrapped(tj_dtype t, uint64_t v)
{
	switch (t) {
	case TJ_BOOL: return v != 0;
	case TJ_U8: return (uint8_t)v;
	case TJ_I8: return (int8_t)(uint8_t)v;
	case TJ_I16: return (int16_t)(uint16_t)v;
	case TJ_I32: return (int32_t)(uint32_t)v;
	default: return (int64_t)v;
	}
}

static double rounded(tj_dtype t, double v)
{
	return t == TJ_F32    ? (double)(float)v
	       : t == TJ_F16  ? (double)tj_from_f16(tj_to_f16(v))
	       : t == TJ_BF16 ? (double)tj_from_bf16(tj_to_bf16(v))
	                      : v;
}

static ox_host *fresh(const ox_call *o, tj_dtype dtype, int rank, const int64_t *dim)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		if (dim[i] < 0 || (dim[i] && n > OX_HOST_MOST / dim[i]))
			return NULL;
		else
			n *= dim[i];
	return ox_new_host(&o->r->arena, dtype, rank, dim);
}

static bool give(ox_call *o, int k, const ox_host *h)
{
	if (!h) return false;
	if (k < o->n->nout) o->out[k] = (ox_value){ .h = h };
	return true;
}

/* ---- element by element ---- */
/* The element of h that stands at place `k` of a shape to which it broadcasts. */
static int64_t place(const ox_host *h, const ox_host *all, int64_t k)
{
	int64_t at = 0, step = 1;
	for (int i = all->rank; i--;) {
		const int64_t index = k % all->dim[i];
		const int own = i - (all->rank - h->rank);
		k /= all->dim[i];
		if (own < 0) continue;
		if (h->dim[own] != 1) at += index * step;
		step *= h->dim[own];
	}
	return at;
}

static bool broadcast(const ox_host *const *in, int n, int *rank, int64_t *dim)
{
	*rank = 0;
	for (int k = 0; k < n; k++) *rank = in[k]->rank > *rank ? in[k]->rank : *rank;
	for (int i = 0; i < *rank; i++) {
		dim[i] = 1;
		for (int k = 0; k < n; k++) {
			const int own = i - (*rank - in[k]->rank);
			const int64_t d = own < 0 ? 1 : in[k]->dim[own];
			if (d != 1 && dim[i] != 1 && dim[i] != d) return false;
			if (d != 1) dim[i] = d;
		}
	}
	return true;
}

static int64_t floor_mod(int64_t a, int64_t b)
{
	const int64_t r = a % b;
	return r && (r < 0) != (b < 0) ? r + b : r;
}

/* What an op of two operands computes; looked up once for all elements. */
typedef enum calculation {
	ADD, SUB, MUL, DIV, MOD, MIN, MAX, AND, OR, XOR, /* the rest compare */
	EQUAL, LESS, GREATER, LESS_OR_EQUAL, GREATER_OR_EQUAL
} calculation;

static calculation calculation_of(const char *op)
{
	static const char *const names[] = { "Add", "Sub", "Mul", "Div",   "Mod",  "Min",     "Max",         "And",
		                             "Or",  "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual" };
	int i = 0;
	while (strcmp(op, names[i])) i++;
	return (calculation)i;
}

static bool integer_op(calculation op, bool fmod, int64_t a, int64_t b, int64_t *y)
{
	const uint64_t x = (uint64_t)a, z = (uint64_t)b;
	switch (op) {
	case ADD: *y = (int64_t)(x + z); break;
	case SUB: *y = (int64_t)(x - z); break;
	case MUL: *y = (int64_t)(x * z); break;
	case DIV: *y = !b ? 0 : b == -1 ? (int64_t)(0 - x) : a / b; return b;
	case MOD: *y = !b || b == -1 ? 0 : fmod ? a % b : floor_mod(a, b); return b;
	case MIN: *y = a < b ? a : b; break;
	case MAX: *y = a > b ? a : b; break;
	case AND: *y = a && b; break;
	case OR: *y = a || b; break;
	case XOR: *y = !a != !b; break;
	case EQUAL: *y = a == b; break;
	case LESS: *y = a < b; break;
	case GREATER: *y = a > b; break;
	case LESS_OR_EQUAL: *y = a <= b; break;
	case GREATER_OR_EQUAL: *y = a >= b; break;
	}
	return true;
}

static bool float_op(calculation op, double a, double b, double *y)
{
	switch (op) {
	case ADD: *y = a + b; break;
	case SUB: *y = a - b; break;
	case MUL: *y = a * b; break;
	case DIV: *y = a / b; break;
	case MIN: *y = a < b ? a : b; return !isnan(a) && !isnan(b);
	case MAX: *y = a > b ? a : b; return !isnan(a) && !isnan(b);
	case EQUAL: *y = a == b; break;
	case LESS: *y = a < b; break;
	case GREATER: *y = a > b; break;
	case LESS_OR_EQUAL: *y = a <= b; break;
	case GREATER_OR_EQUAL: *y = a >= b; break;
	default: return false;
	}
	return true;
}

static const ox_host *binary(ox_call *o, const ox_host *a, const ox_host *b)
{
	const ox_host *const in[] = { a, b };
	const calculation op = calculation_of(o->n->op);
	const bool fmod = ox_int(o, "fmod", 0);
	int64_t dim[TJ_MAX_RANK];
	int rank;
	if (a->dtype != b->dtype || !broadcast(in, 2, &rank, dim)) return NULL;
	ox_host *y = fresh(o, op >= EQUAL ? TJ_BOOL : a->dtype, rank, dim);
	for (int64_t k = 0; y && k < y->n; k++) {
		const int64_t i = place(a, y, k), j = place(b, y, k);
		double f = 0;
		if (a->f ? !float_op(op, a->f[i], b->f[j], &f) : !integer_op(op, fmod, a->i[i], b->i[j], &y->i[k])) return NULL;
		if (!a->f)
			y->i[k] = wrapped(y->dtype, (uint64_t)y->i[k]);
		else if (y->f)
			y->f[k] = rounded(y->dtype, f);
		else
			y->i[k] = f != 0;
	}
	return y;
}

bool ox_fold_many(ox_call *o) /* Min, Max and those of two operands */
{
	const ox_host *y = ox_in(o, 0)->h;
	for (int k = 1; y && k < o->n->nin; k++) y = binary(o, y, ox_in(o, k)->h);
	return give(o, 0, y);
}

bool ox_fold_where(ox_call *o)
{
	const ox_host *const in[] = { ox_in(o, 0)->h, ox_in(o, 1)->h, ox_in(o, 2)->h };
	int64_t dim[TJ_MAX_RANK];
	int rank;
	if (in[1]->dtype != in[2]->dtype || !in[0]->i || !broadcast(in, 3, &rank, dim)) return false;
	ox_host *y = fresh(o, in[1]->dtype, rank, dim);
	for (int64_t k = 0; y && k < y->n; k++) {
		const ox_host *from = in[0]->i[place(in[0], y, k)] ? in[1] : in[2];
		if (y->f)
			y->f[k] = from->f[place(from, y, k)];
		else
			y->i[k] = from->i[place(from, y, k)];
	}
	return give(o, 0, y);
}

bool ox_fold_negative(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	ox_host *y = fresh(o, x->dtype, x->rank, x->dim);
	for (int64_t k = 0; y && k < y->n; k++) {
		if (x->f)
			y->f[k] = -x->f[k];
		else
			y->i[k] = wrapped(y->dtype, 0 - (uint64_t)x->i[k]);
	}
	return give(o, 0, y);
}

/* ---- casts ---- */
static const ox_host *cast_to(ox_call *o, const ox_host *x, tj_dtype to)
{
	ox_host *y = fresh(o, to, x->rank, x->dim);
	for (int64_t k = 0; y && k < y->n; k++) {
		if (y->f)
			y->f[k] = rounded(to, x->f ? x->f[k] : (double)x->i[k]);
		else if (x->i)
			y->i[k] = wrapped(to, (uint64_t)x->i[k]);
		else if (to == TJ_BOOL)
			y->i[k] = x->f[k] != 0;
		else if (!(fabs(x->f[k]) < 0x1p31))
			return NULL; /* saturates: the op does it */
		else if ((y->i[k] = (int64_t)x->f[k]) != wrapped(to, (uint64_t)(int64_t)x->f[k]))
			return NULL;
	}
	return y;
}

bool ox_fold_cast(ox_call *o)
{
	tj_dtype to;
	return ox_dtype(ox_int(o, "to", 0), &to) && give(o, 0, cast_to(o, ox_in(o, 0)->h, to));
}

bool ox_fold_cast_like(ox_call *o) { return give(o, 0, cast_to(o, ox_in(o, 0)->h, ox_in(o, 1)->h->dtype)); }

/* ---- shapes ---- */
static const ox_host *shaped(ox_call *o, const ox_host *x, int rank, const int64_t *dim)
{
	ox_host *y = fresh(o, x->dtype, rank, dim);
	if (!y || y->n != x->n) return NULL;
	memcpy(y->f ? (void *)y->f : y->i, x->f ? (const void *)x->f : x->i, (size_t)y->n * 8);
	return y;
}

/* Axes: of an attribute, or of input k, each from 0 on. false: an axis is out of range, or they are not known. */
static bool axes_of(ox_call *o, int k, int rank, bool *set, bool *any)
{
	int64_t n;
	const int64_t *v = ox_ints(o, "axes", &n);
	const ox_host *h = ox_has(o, k) ? ox_in(o, k)->h : NULL;
	if (h && (!h->i || h->rank > 1)) return false;
	if (h) v = h->i, n = h->n;
	*any = v != NULL;
	for (int64_t j = 0; v && j < n; j++) {
		const int64_t axis = v[j] < 0 ? v[j] + rank : v[j];
		if (axis < 0 || axis >= rank || set[axis]) return false;
		set[axis] = true;
	}
	return true;
}

bool ox_fold_unsqueeze(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	int64_t dim[TJ_MAX_RANK], n = 0;
	bool set[TJ_MAX_RANK] = { 0 }, any;
	const ox_host *axes = ox_has(o, 1) ? ox_in(o, 1)->h : NULL;
	if (!axes) ox_ints(o, "axes", &n);
	const int rank = x->rank + (int)(axes ? axes->n : n);
	if (rank > TJ_MAX_RANK || !axes_of(o, 1, rank, set, &any)) return false;
	for (int i = 0, own = 0; i < rank; i++) dim[i] = set[i] ? 1 : x->dim[own++];
	return give(o, 0, shaped(o, x, rank, dim));
}

bool ox_fold_squeeze(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	int64_t dim[TJ_MAX_RANK];
	bool set[TJ_MAX_RANK] = { 0 }, any;
	int rank = 0;
	if (!axes_of(o, 1, x->rank, set, &any)) return false;
	for (int i = 0; i < x->rank; i++) {
		if (set[i] && x->dim[i] != 1) return false;
		if (any ? !set[i] : x->dim[i] != 1) dim[rank++] = x->dim[i];
	}
	return give(o, 0, shaped(o, x, rank, dim));
}

bool ox_fold_reshape(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h, *s = ox_in(o, 1)->h;
	int64_t dim[TJ_MAX_RANK], known = 1;
	int open = -1;
	if (!s->i || s->rank != 1 || s->n > TJ_MAX_RANK || ox_int(o, "allowzero", 0)) return false;
	for (int i = 0; i < s->n; i++) {
		dim[i] = s->i[i];
		if (!dim[i] && i >= x->rank) return false;
		if (!dim[i]) dim[i] = x->dim[i];
		if (dim[i] == -1)
			open = i;
		else if (dim[i] < 0 || dim[i] > OX_HOST_MOST || known > OX_HOST_MOST)
			return false;
		else
			known *= dim[i];
	}
	if (open >= 0 && !known) return false;
	if (open >= 0) dim[open] = x->n / known;
	return give(o, 0, shaped(o, x, (int)s->n, dim));
}

bool ox_fold_identity(ox_call *o) { return give(o, 0, ox_in(o, 0)->h); }

bool ox_fold_size(ox_call *o)
{
	ox_host *y = fresh(o, TJ_I64, 0, NULL);
	if (y) y->i[0] = ox_in(o, 0)->h->n;
	return give(o, 0, y);
}

static void copy(const ox_host *x, int64_t from, ox_host *y, int64_t to, int64_t n)
{
	if (n > 0) memcpy(y->f ? (void *)(y->f + to) : y->i + to, x->f ? (const void *)(x->f + from) : x->i + from, (size_t)n * 8);
}

/* Outer and inner sizes around an axis. */
static void around(const ox_host *x, int axis, int64_t *outer, int64_t *inner)
{
	*outer = *inner = 1;
	for (int i = 0; i < axis; i++) *outer *= x->dim[i];
	for (int i = axis + 1; i < x->rank; i++) *inner *= x->dim[i];
}

bool ox_fold_gather(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h, *index = ox_in(o, 1)->h;
	const int axis = ox_axis(ox_int(o, "axis", 0), x->rank);
	int64_t dim[2 * TJ_MAX_RANK], outer, inner;
	const int rank = x->rank - 1 + index->rank;
	if (axis < 0 || !index->i || rank > TJ_MAX_RANK) return false;
	for (int i = 0; i < axis; i++) dim[i] = x->dim[i];
	for (int i = 0; i < index->rank; i++) dim[axis + i] = index->dim[i];
	for (int i = axis + 1; i < x->rank; i++) dim[i - 1 + index->rank] = x->dim[i];
	ox_host *y = fresh(o, x->dtype, rank, dim);
	around(x, axis, &outer, &inner);
	for (int64_t a = 0; y && a < outer; a++)
		for (int64_t k = 0; k < index->n; k++) {
			const int64_t i = index->i[k] < 0 ? index->i[k] + x->dim[axis] : index->i[k];
			if (i < 0 || i >= x->dim[axis]) return false; /* the op reports it */
			copy(x, (a * x->dim[axis] + i) * inner, y, (a * index->n + k) * inner, inner);
		}
	return give(o, 0, y);
}

bool ox_fold_concat(ox_call *o)
{
	const ox_host *first = ox_in(o, 0)->h;
	const int axis = ox_axis(ox_int(o, "axis", 0), first->rank);
	int64_t dim[TJ_MAX_RANK], outer, inner, at = 0;
	if (axis < 0) return false;
	memcpy(dim, first->dim, sizeof dim);
	dim[axis] = 0;
	for (int k = 0; k < o->n->nin; k++) {
		const ox_host *x = ox_in(o, k)->h;
		if (x->rank != first->rank || x->dtype != first->dtype) return false;
		for (int i = 0; i < x->rank; i++)
			if (i != axis && x->dim[i] != first->dim[i]) return false;
		dim[axis] += x->dim[axis];
	}
	ox_host *y = fresh(o, first->dtype, first->rank, dim);
	for (int k = 0; y && k < o->n->nin; k++) {
		const ox_host *x = ox_in(o, k)->h;
		around(x, axis, &outer, &inner);
		for (int64_t a = 0; a < outer; a++)
			copy(x, a * x->dim[axis] * inner, y, (a * dim[axis] + at) * inner, x->dim[axis] * inner);
		at += x->dim[axis];
	}
	return give(o, 0, y);
}

/* Only along the one axis of a list, which is what shapes are. */
bool ox_fold_slice(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h, *h[5] = { NULL };
	int64_t start, stop, step = 1, n;
	if (x->rank != 1) return false;
	for (int k = 1; k < 5; k++) h[k] = ox_has(o, k) ? ox_in(o, k)->h : NULL;
	if (o->n->opset < 10) {
		const int64_t *s = ox_ints(o, "starts", &n), *e = ox_ints(o, "ends", &n);
		if (!s || !e || n != 1) return false;
		start = *s, stop = *e;
	} else if (h[1] && h[2] && h[1]->i && h[2]->i && h[1]->n == 1 && h[2]->n == 1)
		start = h[1]->i[0], stop = h[2]->i[0];
	else
		return false;
	if (h[4] && h[4]->i && h[4]->n == 1) step = h[4]->i[0];
	const int64_t most = x->dim[0], low = step < 0 ? -1 : 0, high = step < 0 ? most - 1 : most;
	if (!step || step == INT64_MIN) return false;
	if (start < 0) start = start < -most ? 0 : start + most; /* unlike Python's for negative steps */
	if (stop < 0) stop = stop < -most ? low : stop + most;
	start = start > high ? high : start;
	stop = stop < low ? low : stop > high ? high : stop;
	const int64_t span = step > 0 ? stop - start : start - stop, pace = step > 0 ? step : -step;
	n = span > 0 ? (span - 1) / pace + 1 : 0;
	ox_host *y = fresh(o, x->dtype, 1, &n);
	for (int64_t k = 0; y && k < n; k++) copy(x, start + k * step, y, k, 1);
	return give(o, 0, y);
}

bool ox_fold_range(ox_call *o)
{
	const ox_host *a = ox_in(o, 0)->h, *b = ox_in(o, 1)->h, *d = ox_in(o, 2)->h;
	const int64_t most = 1 << 30;
	if (!a->i || !b->i || !d->i || a->n != 1 || b->n != 1 || d->n != 1 || !d->i[0] || a->i[0] > most || a->i[0] < -most ||
	    b->i[0] > most || b->i[0] < -most || d->i[0] > most || d->i[0] < -most)
		return false;
	const int64_t span = b->i[0] - a->i[0], step = d->i[0], n = span / step + (span % step != 0),
		      count = (span < 0) == (step < 0) && span ? n : 0;
	ox_host *y = fresh(o, a->dtype, 1, &count);
	for (int64_t k = 0; y && k < count; k++) y->i[k] = a->i[0] + k * step;
	return give(o, 0, y);
}

bool ox_fold_constant_of_shape(ox_call *o)
{
	const ox_host *s = ox_in(o, 0)->h;
	const ox_attr *a = ox_attribute(o, "value");
	if (!s->i || s->rank != 1 || s->n > TJ_MAX_RANK || (a && (!a->t || !a->t->host || a->t->host->n != 1))) return false;
	const ox_host *v = a ? a->t->host : NULL;
	ox_host *y = fresh(o, v ? v->dtype : TJ_F32, (int)s->n, s->i);
	for (int64_t k = 0; y && v && k < y->n; k++) copy(v, 0, y, k, 1);
	return give(o, 0, y);
}

bool ox_fold_expand(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h, *s = ox_in(o, 1)->h;
	int64_t dim[TJ_MAX_RANK];
	int rank;
	if (!s->i || s->rank != 1 || s->n > TJ_MAX_RANK) return false;
	ox_host like = { .rank = (int)s->n };
	memcpy(like.dim, s->i, (size_t)s->n * sizeof *dim);
	const ox_host *const in[] = { x, &like };
	if (!broadcast(in, 2, &rank, dim)) return false;
	ox_host *y = fresh(o, x->dtype, rank, dim);
	for (int64_t k = 0; y && k < y->n; k++) copy(x, place(x, y, k), y, k, 1);
	return give(o, 0, y);
}

/* ---- reductions of all elements ---- */
bool ox_fold_reduce(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	const char *const op = o->n->op + strlen("Reduce");
	const bool sum = !strcmp(op, "Sum"), product = !strcmp(op, "Prod"), largest = !strcmp(op, "Max");
	bool set[TJ_MAX_RANK] = { 0 }, any;
	if (x->rank > 1 || !x->i || !x->n || !axes_of(o, 1, x->rank, set, &any)) return false;
	if (x->rank && !set[0] && (any || ox_int(o, "noop_with_empty_axes", 0))) return false;
	int64_t one = 1, y = x->i[0];
	for (int64_t k = 1; k < x->n; k++) {
		const uint64_t a = (uint64_t)y, b = (uint64_t)x->i[k];
		if (sum || product)
			y = (int64_t)(sum ? a + b : a * b);
		else if (largest ? x->i[k] > y : x->i[k] < y)
			y = x->i[k];
	}
	ox_host *h = fresh(o, x->dtype, x->rank && ox_int(o, "keepdims", 1) ? 1 : 0, &one);
	if (h) h->i[0] = wrapped(x->dtype, (uint64_t)y);
	return give(o, 0, h);
}

bool ox_fold_not(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	ox_host *y = x->i ? fresh(o, TJ_BOOL, x->rank, x->dim) : NULL;
	for (int64_t k = 0; y && k < y->n; k++) y->i[k] = !x->i[k];
	return give(o, 0, y);
}

bool ox_fold_round_down_or_up(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h;
	ox_host *y = x->f ? fresh(o, x->dtype, x->rank, x->dim) : NULL;
	double (*const of)(double) = *o->n->op == 'F' ? floor : *o->n->op == 'C' ? ceil : sqrt;
	for (int64_t k = 0; y && k < y->n; k++) y->f[k] = rounded(y->dtype, of(x->f[k]));
	return give(o, 0, y);
}

bool ox_fold_split(ox_call *o)
{
	const ox_host *x = ox_in(o, 0)->h, *parts = ox_has(o, 1) ? ox_in(o, 1)->h : NULL;
	int64_t n, at = 0;
	const int64_t *v = ox_ints(o, "split", &n);
	if (parts) v = parts->i, n = parts->n;
	if (x->rank != 1 || !v || n != o->n->nout) return false;
	for (int k = 0; k < n; at += v[k++])
		if (v[k] < 0 || v[k] > x->n - at) return false;
	at = 0;
	for (int k = 0; k < n; at += v[k++]) {
		ox_host *y = fresh(o, x->dtype, 1, &v[k]);
		if (!y) return false;
		copy(x, at, y, 0, v[k]);
		give(o, k, y);
	}
	return true;
}
