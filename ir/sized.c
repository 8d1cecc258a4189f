/* SPDX-License-Identifier: MIT */
/* sized: ops whose result size depends on data. They are not nodes of a graph, since a plan knows every size before it runs. They
 * are plain loops over values on the host: one counts, a second one writes. jit/sized.c calls them between two segments. */
#include "ir/ir.h"

/* ---- rows: an index space walked along its last axis, over one value or two ---- */
typedef struct rows {
	int rank;               /* at least 1 */
	int64_t dim[TJ_MAX_RANK], step[2][TJ_MAX_RANK]; /* steps in bytes */
	const char *data[2];
} rows;
typedef struct row { const char *p[2]; int64_t n, step[2]; } row;
typedef void see_row(void *self, const row *r);

/* In both values, axes d - 1 and d can be walked as one axis. */
static bool joins(const rows *r, int d)
{
	for (int k = 0; k < 2; k++)
		if (r->step[k][d - 1] != r->step[k][d] * r->dim[d]) return false;
	return true;
}

/* Joins axes to make rows longer. The order of the elements stays the same. */
static void join_axes(rows *r)
{
	for (int d = r->rank - 1; d > 0; d--) {
		if (!joins(r, d)) continue;
		r->dim[d - 1] *= r->dim[d];
		for (int k = 0; k < 2; k++) r->step[k][d - 1] = r->step[k][d];
		r->rank--;
		for (int i = d; i < r->rank; i++) {
			r->dim[i] = r->dim[i + 1];
			for (int k = 0; k < 2; k++) r->step[k][i] = r->step[k][i + 1];
		}
	}
}

static void start_rows(rows *r, const ir_value *x, const ir_value *y)
{
	const ir_value *v[2] = { x, y ? y : x };
	*r = (rows){ .rank = x->meta.rank ? x->meta.rank : 1, .dim[0] = 1 };
	for (int k = 0; k < 2; k++) {
		int64_t size = (int64_t)tj_dtype_size((tj_dtype)v[k]->meta.dtype);
		r->data[k] = v[k]->data;
		for (int d = 0; d < x->meta.rank; d++) {
			r->dim[d] = x->meta.dim[d];
			r->step[k][d] = v[k]->stride[d] * size;
		}
	}
}

static void each_row(const rows *r, see_row *see, void *self)
{
	int64_t at[TJ_MAX_RANK] = { 0 }, left = 1;
	const int last = r->rank - 1;
	row w = { { r->data[0], r->data[1] }, r->dim[last], { r->step[0][last], r->step[1][last] } };
	for (int d = 0; d < last; d++) left *= r->dim[d];
	for (; left > 0 && w.n; left--) {
		see(self, &w);
		for (int d = last; d-- > 0;) {
			for (int k = 0; k < 2; k++) w.p[k] += r->step[k][d];
			if (++at[d] < r->dim[d]) break;
			for (int k = 0; k < 2; k++) w.p[k] -= r->step[k][d] * r->dim[d];
			at[d] = 0;
		}
	}
}

/* ---- elements as bits ---- */
#define UNSIGNED(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

static inline uint64_t load_bits(const char *p, size_t size)
{
	switch (size) {
#define X(bytes, type) case bytes: { type v; memcpy(&v, p, sizeof v); return v; }
	UNSIGNED(X)
#undef X
	default: return 0;
	}
}

static inline void store_bits(char *p, size_t size, uint64_t bits)
{
	switch (size) {
#define X(bytes, type) case bytes: { type v = (type)bits; memcpy(p, &v, sizeof v); return; }
	UNSIGNED(X)
#undef X
	default: return;
	}
}

/* A mask of the bits that are all 0 if and only if the element is zero. -0.0 is zero, NaN is not. */
static uint64_t value_bits(tj_dtype t)
{
	uint64_t all = UINT64_MAX >> (64 - 8 * tj_dtype_size(t));
	return rt_is_float(t) ? all >> 1 : all;
}

/* ---- nonzero ---- */
typedef struct nonzero { /* the writing loop needs the index of each element: its rows are not joined */
	size_t size;
	uint64_t mask;
	int64_t count, *out, *end;
	int rank;
	const int64_t *dim;
	int64_t at[TJ_MAX_RANK];
} nonzero;

static void count_row(void *self, const row *r)
{
	nonzero *z = self;
	const char *p = r->p[0];
	int64_t count = 0;
	switch (z->size) {
#define X(bytes, type) \
	case bytes: \
		for (int64_t i = 0; i < r->n; i++, p += r->step[0]) { \
			type v; \
			memcpy(&v, p, sizeof v); \
			count += (v & (type)z->mask) != 0; \
		} \
		break;
		UNSIGNED(X)
#undef X
	default: break;
	}
	z->count += count;
}

int64_t ir_count_nonzero(const ir_value *x)
{
	rows r;
	nonzero z = { .size = tj_dtype_size((tj_dtype)x->meta.dtype), .mask = value_bits((tj_dtype)x->meta.dtype) };
	start_rows(&r, x, NULL);
	join_axes(&r);
	each_row(&r, count_row, &z);
	return z.count;
}

static void write_row(void *self, const row *r)
{
	nonzero *z = self;
	const int last = z->rank - 1;
	const char *p = r->p[0];
	int64_t *out = z->out;
	for (int64_t i = 0; i < r->n && out < z->end;
	     i++, p += r->step[0]) { /* writes each index, then keeps it or not: a branch would be mispredicted */
		for (int d = 0; d < last; d++) out[d] = z->at[d];
		out[last] = i;
		out += (load_bits(p, z->size) & z->mask) != 0 ? z->rank : 0;
	}
	z->out = out;
	for (int d = last; d-- > 0 && ++z->at[d] == z->dim[d];) z->at[d] = 0;
}

void ir_nonzero(const ir_value *x, int64_t count, int64_t *out)
{
	rows r;
	nonzero z = { .size = tj_dtype_size((tj_dtype)x->meta.dtype),
		      .mask = value_bits((tj_dtype)x->meta.dtype),
		      .rank = x->meta.rank,
		      .dim = x->meta.dim };
	z.out = out;
	z.end = out + count * z.rank;
	start_rows(&r, x, NULL);
	if (z.rank) each_row(&r, write_row, &z);
}

/* ---- places ---- */
typedef struct places { int64_t at, *out, *end; } places;

static void place_row(void *self, const row *r)
{
	places *s = self;
	const char *m = r->p[0];
	int64_t *out = s->out;
	for (int64_t i = 0; i < r->n && out < s->end; i++, m += r->step[0]) {
		*out = s->at + i;
		out += *m != 0;
	}
	s->out = out;
	s->at += r->n;
}

void ir_places(const ir_value *mask, int64_t count, int64_t *out)
{
	rows r;
	places s = { 0, out, out + count };
	start_rows(&r, mask, NULL);
	join_axes(&r);
	each_row(&r, place_row, &s);
}

/* ---- masked_select ---- */
typedef struct selection { size_t size; bool is_bool; char *out, *end; } selection;

static void select_row(void *self, const row *r)
{
	selection *s = self;
	const char *p = r->p[0], *m = r->p[1];
	char *out = s->out;
	switch (s->size) {
#define X(bytes, type)                                                                   \
	case bytes:                                                                          \
		for (int64_t i = 0; i < r->n && out < s->end; i++, p += r->step[0], m += r->step[1]) { \
			type v;                                                                      \
			memcpy(&v, p, sizeof v);                                                     \
			if (s->is_bool) v = v != 0;                                                  \
			memcpy(out, &v, sizeof v);                                                   \
			out += *m ? sizeof v : 0;                                                    \
		}                                                                                \
		break;
	UNSIGNED(X)
#undef X
	default: break;
	}
	s->out = out;
}

void ir_masked_select(const ir_value *x, const ir_value *mask, int64_t count, void *out)
{
	rows r;
	selection s = { tj_dtype_size((tj_dtype)x->meta.dtype), x->meta.dtype == TJ_BOOL, out, NULL };
	s.end = s.out + count * (int64_t)s.size;
	start_rows(&r, x, mask);
	join_axes(&r);
	each_row(&r, select_row, &s);
}

/* ---- unique: elements become keys that sort as unsigned integers ----
 *
 * Integers: the sign bit is flipped. Floats: all bits of a negative number are flipped, else the sign bit. Both zeros have the same
 * key. All NaNs have the last key; elements with that key count as different values. */
static uint64_t key_of(tj_dtype t, uint64_t bits)
{
	const uint64_t all = UINT64_MAX >> (64 - 8 * tj_dtype_size(t)), sign = all ^ all >> 1;
	if (t == TJ_BOOL) return bits != 0;
	if (!rt_is_float(t)) return rt_is_signed(t) ? bits ^ sign : bits;
	const uint64_t infinity = t == TJ_F32   ? UINT64_C(0x7F800000)
	                          : t == TJ_F64 ? UINT64_C(0x7FF0000000000000)
	                          : t == TJ_F16 ? 0x7C00
	                                        : 0x7F80,
		       size = bits & ~sign;
	if (size > infinity) return all;
	if (!size) return sign;
	return bits & sign ? bits ^ all : bits ^ sign;
}

static uint64_t bits_of(tj_dtype t, uint64_t key)
{
	const uint64_t all = UINT64_MAX >> (64 - 8 * tj_dtype_size(t)), sign = all ^ all >> 1;
	if (!rt_is_float(t)) return rt_is_signed(t) ? key ^ sign : key;
	return key & sign ? key ^ sign : key ^ all;
}

typedef struct gather { ir_unique *u; int64_t n; bool zero; } gather;

static void gather_row(void *self, const row *r)
{
	gather *g = self;
	ir_unique *u = g->u;
	const size_t size = tj_dtype_size(u->dtype);
	const char *p = r->p[0];
	for (int64_t i = 0; i < r->n; i++, p += r->step[0]) {
		const uint64_t bits = load_bits(p, size), key = key_of(u->dtype, bits);
		if (!g->zero && rt_is_float(u->dtype) && key == key_of(u->dtype, 0)) {
			g->zero = true;
			u->minus_zero = bits != 0;
		}
		u->key[g->n] = key;
		if (u->index) u->index[g->n] = g->n;
		g->n++;
	}
}

/* Sorts by one byte of the keys, stably, from one half of the arrays into the other. */
static void sort_byte(ir_unique *u, int shift, const int64_t *count)
{
	int64_t at[256], sum = 0;
	for (int b = 0; b < 256; b++) {
		at[b] = sum;
		sum += count[b];
	}
	uint64_t *to = u->key == u->keys ? u->keys + u->n : u->keys;
	int64_t *index = u->index == u->indices ? u->indices + u->n : u->indices;
	for (int64_t i = 0; i < u->n; i++) {
		const int64_t k = at[u->key[i] >> shift & 255]++;
		to[k] = u->key[i];
		if (u->index) index[k] = u->index[i];
	}
	u->key = to;
	if (u->index) u->index = index;
}

static void sort_keys(ir_unique *u)
{
	int64_t count[8][256] = { 0 };
	const int bytes = (int)tj_dtype_size(u->dtype);
	for (int64_t i = 0; i < u->n; i++)
		for (int b = 0; b < bytes; b++) count[b][u->key[i] >> 8 * b & 255]++;
	for (int b = 0; b < bytes; b++)
		if (count[b][u->key[0] >> 8 * b & 255] < u->n) sort_byte(u, 8 * b, count[b]);
}

/* Sorted element i has the same value as the one before it. */
static bool repeats(const ir_unique *u, int64_t i)
{
	return i && u->key[i] == u->key[i - 1] && !(rt_is_float(u->dtype) && u->key[i] == UINT64_MAX >> (64 - 8 * tj_dtype_size(u->dtype)));
}

bool ir_unique_sort(ir_unique *u, const ir_value *x, bool indexed)
{
	rows r;
	gather g = { .u = u };
	*u = (ir_unique){ .dtype = (tj_dtype)x->meta.dtype };
	rt_numel(x->meta.rank, x->meta.dim, &u->n);
	const size_t bytes = ((size_t)u->n * 2 + 1) * sizeof(uint64_t);
	u->keys = u->key = rt_alloc(bytes);
	if (indexed) u->indices = u->index = rt_alloc(bytes);
	if (!u->keys || (indexed && !u->indices)) return ir_unique_free(u), false;
	start_rows(&r, x, NULL);
	join_axes(&r);
	each_row(&r, gather_row, &g);
	if (u->n) sort_keys(u);
	for (int64_t i = 0; i < u->n; i++) u->count += !repeats(u, i);
	return true;
}

void ir_unique_write(const ir_unique *u, void *value, int64_t *first, int64_t *inverse, int64_t *counts)
{
	const size_t size = tj_dtype_size(u->dtype);
	const uint64_t zero = key_of(u->dtype, 0);
	char *p = value;
	for (int64_t i = 0, k = -1; i < u->n; i++) {
		if (!repeats(u, i)) {
			k++;
			const bool minus = u->minus_zero && u->key[i] == zero;
			store_bits(p + k * (int64_t)size, size, minus ? UINT64_C(1) << (8 * size - 1) : bits_of(u->dtype, u->key[i]));
			if (first) first[k] = u->index[i];
			if (counts) counts[k] = 0;
		}
		if (inverse) inverse[u->index[i]] = k;
		if (counts) counts[k]++;
	}
}

void ir_unique_free(ir_unique *u)
{
	rt_free(u->keys);
	rt_free(u->indices);
	*u = (ir_unique){ 0 };
}
