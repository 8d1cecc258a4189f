/* SPDX-License-Identifier: MIT */
/* emit: nodes, constants and shapes of the file that is written. */
#include "kit/models/write.h"

#include <math.h>

tj_dtype ow_dtype(const ow *w, ow_v v) { return v > 0 && v < w->nvalue ? w->value[v].dtype : TJ_F32; }

/* ---- attributes: AttributeProto ---- */
static size_t attribute(ow *w, const char *name, int type)
{
	const size_t at = ow_open(&w->attrs, 5);
	ow_put_text(&w->attrs, 1, name);
	ow_put_int(&w->attrs, 20, type);
	return at;
}

void ow_attr_int(ow *w, const char *name, int64_t v)
{
	const size_t at = attribute(w, name, OX_A_INT);
	ow_put_int(&w->attrs, 3, v);
	ow_close(&w->attrs, at);
}

void ow_attr_float(ow *w, const char *name, double v)
{
	const size_t at = attribute(w, name, OX_A_FLOAT);
	ow_put_float(&w->attrs, 2, (float)v);
	ow_close(&w->attrs, at);
}

void ow_attr_text(ow *w, const char *name, const char *v)
{
	const size_t at = attribute(w, name, OX_A_STRING);
	ow_put_text(&w->attrs, 4, v);
	ow_close(&w->attrs, at);
}

void ow_attr_ints(ow *w, const char *name, const int64_t *v, int n)
{
	const size_t at = attribute(w, name, OX_A_INTS);
	for (int i = 0; i < n; i++) ow_put_int(&w->attrs, 8, v[i]);
	ow_close(&w->attrs, at);
}

void ow_attr_graph(ow *w, const char *name, const ow_bytes *graph)
{
	const size_t at = attribute(w, name, OX_A_GRAPH);
	ow_put_bytes(&w->attrs, 6, graph->v, graph->n);
	w->attrs.oom |= graph->oom;
	ow_close(&w->attrs, at);
}

/* ---- nodes: NodeProto ---- */
void ow_emit(ow *w, const char *op, int n, const ow_v *in, int nout, ow_v *out)
{
	char name[64];
	const size_t at = ow_open(w->body, 1);
	while (n && !in[n - 1]) n--;
	for (int i = 0; i < n; i++) {
		ow_put_text(w->body, 1, in[i] ? w->value[in[i]].name : "");
		if (in[i]) w->value[in[i]].used = true;
	}
	for (int i = 0; i < nout; i++) ow_put_text(w->body, 2, out[i] ? w->value[out[i]].name : "");
	snprintf(name, sizeof name, "%s_%d", op, ++w->counter);
	ow_put_text(w->body, 3, name);
	ow_put_text(w->body, 4, op);
	ow_put(w->body, w->attrs.v, w->attrs.n);
	w->body->oom |= w->attrs.oom;
	w->attrs.n = 0;
	if (w->at && strcmp(tj_node_site(w->at), "?")) ow_put_text(w->body, 6, tj_node_site(w->at));
	ow_close(w->body, at);
}

ow_v ow_op(ow *w, const char *op, tj_dtype dtype, int n, const ow_v *in)
{
	ow_v v = ow_new_value(w, NULL, dtype);
	ow_emit(w, op, n, in, 1, &v);
	return v;
}

static bool compares(const char *op)
{
	static const char *const names[] = { "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Not" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(op, names[i])) return true;
	return false;
}

ow_v ow_op1(ow *w, const char *op, ow_v a) { return ow_op(w, op, compares(op) ? TJ_BOOL : ow_dtype(w, a), 1, &a); }
ow_v ow_op2(ow *w, const char *op, ow_v a, ow_v b)
{
	return ow_op(w, op, compares(op) ? TJ_BOOL : ow_dtype(w, a), 2, (ow_v[]){ a, b });
}

ow_v ow_cast(ow *w, ow_v a, tj_dtype to)
{
	if (!a || ow_dtype(w, a) == to) return a;
	ow_attr_int(w, "to", ox_type_of(to));
	return ow_op(w, "Cast", to, 1, &a);
}

/* Runtimes select f32, f64, i32, i64, u8 and i8; narrower floats keep their value in these. */
ow_v ow_where(ow *w, ow_v c, ow_v a, ow_v b)
{
	const tj_dtype t = ow_dtype(w, a), as = t == TJ_F16 || t == TJ_BF16 ? TJ_F32 : t == TJ_I16 ? TJ_I32 : t;
	if (t == TJ_BOOL) return ow_op2(w, "Or", ow_op2(w, "And", c, a), ow_op2(w, "And", ow_op1(w, "Not", c), b));
	return ow_cast(w, ow_op(w, "Where", as, 3, (ow_v[]){ c, ow_cast(w, a, as), ow_cast(w, b, as) }), t);
}

static void range_of(tj_dtype t, double *least, double *most)
{
	const int bits = (int)tj_dtype_size(t) * 8;
	*most = t == TJ_U8 ? 255 : ldexp(1, bits - 1) - 1;
	*least = t == TJ_U8 ? 0 : -ldexp(1, bits - 1);
}

ow_v ow_convert(ow *w, ow_v a, tj_dtype to)
{
	const tj_dtype from = ow_dtype(w, a);
	if (to == TJ_BOOL && from != TJ_BOOL) {
		const ow_v x = from == TJ_F16 || from == TJ_BF16 ? ow_cast(w, a, TJ_F32) : a;
		return ow_op1(w, "Not", ow_op2(w, "Equal", x, ow_const(w, ow_dtype(w, x), 0)));
	}
	if (!ow_is_float(from) || ow_is_float(to)) return ow_cast(w, a, to);
	const ow_v x = from == TJ_F64 ? a : ow_cast(w, a, TJ_F32);
	const tj_dtype t = ow_dtype(w, x);
	double least, most;
	range_of(to, &least, &most);
	const ow_v nan = ow_op1(w, "IsNaN", x), zero = ow_const(w, t, 0);
	const ow_v number = ow_where(w, nan, zero, x);
	const bool exact = tj_dtype_size(to) < 4 || (to == TJ_I32 && t == TJ_F64);
	if (exact) return ow_cast(w, ow_op(w, "Clip", t, 3, (ow_v[]){ number, ow_const(w, t, least), ow_const(w, t, most) }), to);
	/* The largest integer is no float: what is beyond it is chosen afterwards. */
	const ow_v high = ow_op2(w, "GreaterOrEqual", number, ow_const(w, t, -least)), low = ow_op2(w, "Less", number, ow_const(w, t, least));
	const ow_v inside = ow_cast(w, ow_where(w, high, zero, ow_where(w, low, zero, number)), to);
	const int64_t top = to == TJ_I32 ? INT32_MAX : INT64_MAX;
	return ow_where(w, high, ow_const_int(w, to, top), ow_where(w, low, ow_const_int(w, to, -top - 1), inside));
}

/* ---- what a graph takes and gives ---- */
ow_info ow_open_info(ow *w, ow_bytes *to, uint32_t field, ow_v v)
{
	ow_info i = { .value = ow_open(to, field) };
	ow_put_text(to, 1, w->value[v].name);
	i.type = ow_open(to, 2);
	i.tensor = ow_open(to, 1);
	ow_put_int(to, 1, ox_type_of(w->value[v].dtype));
	return i;
}

void ow_close_info(ow_bytes *to, ow_info i)
{
	ow_close(to, i.tensor);
	ow_close(to, i.type);
	ow_close(to, i.value);
}

void ow_put_info(ow *w, ow_bytes *to, uint32_t field, ow_v v, tj_node *like, int without)
{
	const ow_info i = ow_open_info(w, to, field, v);
	const size_t shape = ow_open(to, 2);
	for (int d = 0; like && d < tj_node_rank(like); d++) {
		ow_size s;
		if (d == without) continue;
		const size_t dim = ow_open(to, 1);
		if (!ow_dim_varies(w, like, d, &s)) ow_put_int(to, 1, ow_dim(like, d));
		ow_close(to, dim);
	}
	ow_close(to, shape);
	ow_close_info(to, i);
}

/* ---- constants: initializers, one for all that are equal ---- */
ow_v ow_initializer_of(ow *w, tj_dtype dtype, int rank, const int64_t *dim, const void *data, size_t bytes)
{
	for (int i = 0; i < w->ninit; i++) {
		const ow_initializer *x = &w->init[i];
		if (x->data && x->dtype == dtype && x->rank == rank && x->bytes == bytes &&
		    (!rank || !memcmp(x->dim, dim, (size_t)rank * sizeof *dim)) && (!bytes || !memcmp(x->data, data, bytes)))
			return x->value;
	}
	if (w->ninit == w->init_room) {
		const int room = w->init_room ? 2 * w->init_room : 64;
		ow_initializer *v = realloc(w->init, (size_t)room * sizeof *v);
		if (!v) return kit_no_memory(&w->why), 0;
		w->init = v;
		w->init_room = room;
	}
	void *copy = ox_take(&w->mem, bytes);
	if (!copy) return kit_no_memory(&w->why), 0;
	if (bytes) memcpy(copy, data, bytes);
	ow_initializer *x = &w->init[w->ninit];
	*x = (ow_initializer){ .dtype = dtype, .rank = rank, .bytes = bytes, .data = copy };
	if (rank) memcpy(x->dim, dim, (size_t)rank * sizeof *dim);
	w->ninit++;
	return x->value = ow_new_value(w, ow_name_new(w, "%%c%d", w->ninit - 1), dtype);
}

ow_v ow_i64s(ow *w, const int64_t *v, int n) { return ow_initializer_of(w, TJ_I64, 1, (int64_t[]){ n }, v, (size_t)n * sizeof *v); }
ow_v ow_i64(ow *w, int64_t v) { return ow_i64s(w, &v, 1); }

ow_v ow_const_int(ow *w, tj_dtype dtype, int64_t v)
{
	if (ow_is_float(dtype)) return ow_const(w, dtype, (double)v);
	const int8_t a = (int8_t)v;
	const int16_t b = (int16_t)v;
	const int32_t c = (int32_t)v;
	const void *p = dtype == TJ_I64 ? (const void *)&v : dtype == TJ_I32 ? (const void *)&c : dtype == TJ_I16 ? (const void *)&b : &a;
	return ow_initializer_of(w, dtype, 0, NULL, p, tj_dtype_size(dtype));
}

ow_v ow_const(ow *w, tj_dtype dtype, double v)
{
	const float f = (float)v;
	if (!ow_is_float(dtype)) return ow_const_int(w, dtype, (int64_t)v);
	if (dtype == TJ_F64) return ow_initializer_of(w, dtype, 0, NULL, &v, sizeof v);
	const ow_v x = ow_initializer_of(w, TJ_F32, 0, NULL, &f, sizeof f);
	return ow_cast(w, x, dtype);
}

/* ---- sizes ---- */
int64_t ow_dim(const tj_node *n, int axis) { return tj_node_dim(n, axis); }

/* The number at this place of the list, as a function of the sizes. */
static bool varies(ow *w, size_t at, ow_size *out)
{
	int64_t v[OW_SAMPLES];
	bool same = true;
	for (int k = 0; k < w->samples.n; k++) {
		v[k] = w->number[k][at];
		same &= v[k] == v[0];
	}
	if (same) return false;
	if (ow_fit(&w->samples, v, out)) return true;
	ow_refuse(w, w->at, "has a size that no expression of the sizes gives: %lld, %lld; write it with .static_sizes", (long long)v[0],
	          (long long)v[w->samples.n - 1]);
	*out = (ow_size){ .more = v[0], .part = 1 };
	return false;
}

bool ow_dim_varies(ow *w, tj_node *n, int axis, ow_size *out)
{
	const ow_node *x = ow_of(w, n);
	return x && varies(w, (size_t)x->first + (size_t)axis, out);
}

bool ow_attr_varies(ow *w, tj_node *n, int k, ow_size *out)
{
	const ow_node *x = ow_of(w, n);
	return x && varies(w, (size_t)x->first + (size_t)(tj_node_rank(n) + k), out);
}

static ow_v term(ow *w, ow_v sum, ow_v x, int64_t times)
{
	if (times != 1) x = ow_op2(w, "Mul", x, ow_i64(w, times));
	return sum ? ow_op2(w, "Add", sum, x) : x;
}

/* The nodes come before all others: in the graph itself, so that callbacks may use them, too. */
static ow_v compute_size(ow *w, const ow_size *s)
{
	ow_v sum = 0, product = 0;
	for (int i = 0; i < w->samples.symbols; i++) {
		if (s->times[i]) sum = term(w, sum, w->symbol_value[i], s->times[i]);
		for (int j = 0; j < s->power[i]; j++) product = product ? ow_op2(w, "Mul", product, w->symbol_value[i]) : w->symbol_value[i];
	}
	if (product) sum = term(w, sum, product, s->by);
	if (s->more) sum = ow_op2(w, "Add", sum, ow_i64(w, s->more));
	return s->part != 1 ? ow_op2(w, "Div", sum, ow_i64(w, s->part)) : sum;
}

ow_v ow_size_value(ow *w, const ow_size *s)
{
	for (int i = 0; i < w->nsize; i++)
		if (ow_same_size(&w->size[i].size, s)) return w->size[i].value;
	if (w->nsize == w->size_room) {
		const int room = w->size_room ? 2 * w->size_room : 16;
		ow_known_size *v = realloc(w->size, (size_t)room * sizeof *v);
		if (!v) return kit_no_memory(&w->why), 0;
		w->size = v;
		w->size_room = room;
	}
	ow_bytes *body = w->body;
	const ow_bytes attrs = w->attrs;
	const tj_node *at = w->at;
	w->body = &w->before;
	w->attrs = (ow_bytes){ 0 };
	w->at = NULL;
	const ow_v v = compute_size(w, s);
	free(w->attrs.v);
	w->body = body;
	w->attrs = attrs;
	w->at = at;
	w->size[w->nsize++] = (ow_known_size){ *s, v };
	return v;
}

ow_v ow_dim_value(ow *w, tj_node *n, int axis)
{
	ow_size s;
	return ow_dim_varies(w, n, axis, &s) ? ow_size_value(w, &s) : ow_i64(w, ow_dim(n, axis));
}

ow_v ow_attr_value(ow *w, tj_node *n, int k)
{
	ow_size s;
	return ow_attr_varies(w, n, k, &s) ? ow_size_value(w, &s) : ow_i64(w, tj_node_attr(n, k));
}

ow_v ow_shape_value(ow *w, tj_node *n)
{
	const int rank = tj_node_rank(n);
	int64_t dim[TJ_MAX_RANK];
	ow_v part[TJ_MAX_RANK];
	bool any = false;
	for (int d = 0; d < rank; d++) {
		ow_size s;
		any |= ow_dim_varies(w, n, d, &s);
		dim[d] = ow_dim(n, d);
	}
	if (!any) return ow_i64s(w, dim, rank);
	for (int d = 0; d < rank; d++) part[d] = ow_dim_value(w, n, d);
	if (rank == 1) return part[0];
	ow_attr_int(w, "axis", 0);
	return ow_op(w, "Concat", TJ_I64, rank, part);
}

void ow_put_size(const ow *w, const ow_size *s, char *to, size_t room)
{
	char t[200];
	size_t n = 0;
	const char *plus = "";
#define ADD(...) n += n < sizeof t ? (size_t)snprintf(t + n, sizeof t - n, __VA_ARGS__) : 0
	for (int i = 0; i < w->samples.symbols; i++) {
		if (!s->times[i]) continue;
		if (s->times[i] != 1) ADD("%s%lld*%s", plus, (long long)s->times[i], w->symbol[i]);
		else ADD("%s%s", plus, w->symbol[i]);
		plus = "+";
	}
	const char *star = "";
	if (s->by && s->by != 1) ADD("%s%lld", plus, (long long)s->by), star = "*", plus = "";
	for (int i = 0; s->by && i < w->samples.symbols; i++)
		for (int j = 0; j < s->power[i]; j++) ADD("%s%s%s", plus, star, w->symbol[i]), star = "*", plus = "";
	if (s->by) plus = "+";
	if (s->more > 0) ADD("%s%lld", plus, (long long)s->more);
	if (s->more < 0) ADD("%lld", (long long)s->more);
#undef ADD
	if (n >= sizeof t) n = sizeof t - 1;
	t[n] = 0;
	if (s->part == 1) snprintf(to, room, "%s", t);
	else snprintf(to, room, "(%s)/%lld", t, (long long)s->part);
}

/* ---- shapes of values ---- */
ow_v ow_reshape(ow *w, ow_v v, const int64_t *dim, int n) { return ow_op2(w, "Reshape", v, ow_i64s(w, dim, n)); }
ow_v ow_unsqueeze(ow *w, ow_v v, const int64_t *axis, int n) { return ow_op2(w, "Unsqueeze", v, ow_i64s(w, axis, n)); }
ow_v ow_squeeze(ow *w, ow_v v, const int64_t *axis, int n) { return ow_op2(w, "Squeeze", v, ow_i64s(w, axis, n)); }

ow_v ow_slice(ow *w, ow_v v, int axis, ow_v from, ow_v to, ow_v step)
{
	return ow_op(w, "Slice", ow_dtype(w, v), 5, (ow_v[]){ v, from, to, ow_i64(w, axis), step });
}

ow_v ow_reduce(ow *w, const char *op, ow_v v, const int64_t *axis, int n, bool keep)
{
	ow_attr_int(w, "keepdims", keep);
	return ow_op2(w, op, v, ow_i64s(w, axis, n));
}

ow_v ow_range(ow *w, ow_v n)
{
	const ow_v last = ow_squeeze(w, n, (int64_t[]){ 0 }, 1);
	return ow_op(w, "Range", TJ_I64, 3, (ow_v[]){ ow_const_int(w, TJ_I64, 0), last, ow_const_int(w, TJ_I64, 1) });
}
