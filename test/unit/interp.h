/* SPDX-License-Identifier: MIT */
/* interp: kernels interpreted one index at a time. As a back end it tests lowering without a code generator; compiled
 * kernels are compared with it bit for bit. Reductions go through the evaluator's tree. */
#ifndef TEST_INTERP_H
#define TEST_INTERP_H

#include "ir/tree.h"
#include "lower/target.h"

#include <math.h>
#include <stdlib.h>

enum { INTERP_SLOTS = 256 };
typedef struct interp_job { lo_kernel k; lo_schedule s; } interp_job;
static interp_job interp_slot[INTERP_SLOTS];
static int interp_next;

typedef struct interp {
	const lo_kernel *k;
	const lo_schedule *s;
	const rt_kargs *a;
	int64_t d[LO_MAXDIM], r;
	int64_t begin, end, part; /* begin..end: the part of r that the unit computes; part: its number */
	ir_scalar *v; /* by instruction */
	char *shared, **registers; /* the latter by kept row */
} interp;

static int64_t interp_at(const interp *m, const lo_ins *i)
{
	const lo_index *x = &m->k->index.v[i->index];
	int64_t at = x->offset + x->rcoef * (x->group ? m->r / x->group : m->r);
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) at += x->jump[j].by * (m->r / x->jump[j].every);
	for (int k = 0; k < m->k->ndim; k++) at += x->coef[k] * m->d[k];
	return at + (i->dyn != LO_NOREF ? m->v[i->dyn].i * i->dyn_stride : 0);
}

/* The memory of a kept row. The interpreter has memory of its own for registers and shared rows, one row each. */
static char *interp_row(const interp *m, uint32_t buf)
{
	const lo_kept *x = lo_kept_at(m->s, buf);
	if (x->where == LO_SCRATCH) return (char *)m->a->scratch + x->offset;
	return x->where == LO_SHARED ? m->shared + x->offset : m->registers[x - m->s->kept.v];
}

static char *interp_ptr(const interp *m, const lo_ins *i)
{
	const lo_buf *b = &m->k->buf.v[i->buf];
	char *base = b->role == LO_KEPT ? interp_row(m, i->buf) : (char *)m->a->buf[i->buf];
	int64_t at = interp_at(m, i);
	if (lo_in_panels(b->role)) {
		lo_tiles t = { 0 };
		lo_tiles_of(m->k, &t);
		const int64_t columns = m->k->dim[m->k->ndim - 1], r = at / columns, c = at % columns;
		at = lo_panels_at(m->k->red, columns, b->elems, t.words ? lo_word_of(m->k, &t) : LO_SINGLE, r, c);
	}
	return base + at * (int64_t)tj_dtype_size((tj_dtype)i->dtype);
}

static ir_scalar interp_load(const char *p, tj_dtype t) { return ir_load(t, p); }

/* A load of the kernel. Words of bytes have 128 added (LO_BYTES). */
static ir_scalar interp_read(const interp *m, const lo_ins *i)
{
	ir_scalar x = interp_load(interp_ptr(m, i), (tj_dtype)i->dtype);
	if (m->k->buf.v[i->buf].role == LO_WORDS && i->dtype == TJ_I8) x.i = (int8_t)(x.i ^ 0x80);
	return x;
}
static void interp_store(char *p, tj_dtype t, ir_scalar v) { ir_store(t, p, v); }

/* An integer wrapped to its dtype. */
static int64_t interp_wrap(tj_dtype t, uint64_t x)
{
	if (t == TJ_BOOL) return (int64_t)(x & 1);
	unsigned up = 64 - 8 * (unsigned)tj_dtype_size(t);
	return rt_is_signed(t) ? (int64_t)(x << up) >> up : (int64_t)(x << up >> up);
}

static ir_scalar interp_int(const lo_ins *i, tj_dtype t, int64_t a, int64_t b)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b, w = 8 * tj_dtype_size(t),
	         u = w == 64 ? x : x & ((UINT64_C(1) << w) - 1), r = 0;
	switch (i->op) {
	case LO_ADD: r = x + y; break;
	case LO_SUB: r = x - y; break;
	case LO_MUL: r = x * y; break;
	case LO_DIV: r = (uint64_t)(a / b); break;
	case LO_REM: r = (uint64_t)(a % b); break;
	case LO_NEG: r = 0 - x; break;
	case LO_AND: r = x & y; break;
	case LO_OR: r = x | y; break;
	case LO_XOR: r = x ^ y; break;
	case LO_SHL: r = x << y; break;
	case LO_LSHR: r = u >> y; break;
	case LO_ASHR: r = t == TJ_U8 ? (uint64_t)((int8_t)a >> b) : (uint64_t)(a >> b); break;
	case LO_EQ: return (ir_scalar){ .i = a == b };
	case LO_NE: return (ir_scalar){ .i = a != b };
	case LO_LT: return (ir_scalar){ .i = a < b };
	case LO_LE: return (ir_scalar){ .i = a <= b };
	case LO_GT: return (ir_scalar){ .i = a > b };
	case LO_GE: return (ir_scalar){ .i = a >= b };
	default: break;
	}
	return (ir_scalar){ .i = interp_wrap(t, r) };
}

#define INTERP_FLOAT(name, T, F, f1, f2, f3, f4, f5, f6)                                   \
	static ir_scalar name(const lo_ins *i, T a, T b, T c)                                  \
	{                                                                                      \
		T r = 0;                                                                           \
		switch (i->op) {                                                                   \
		case LO_ADD: r = a + b; break;                                                     \
		case LO_SUB: r = a - b; break;                                                     \
		case LO_MUL: r = a * b; break;                                                     \
		case LO_DIV: r = a / b; break;                                                     \
		case LO_NEG: r = -a; break;                                                        \
		case LO_ABS: r = f1(a); break;                                                     \
		case LO_SQRT: r = f2(a); break;                                                    \
		case LO_FMA: r = f3(a, b, c); break;                                               \
		case LO_FLOOR: r = f4(a); break;                                                   \
		case LO_CEIL: r = f5(a); break;                                                    \
		case LO_RINT: r = f6(a); break;                                                    \
		case LO_TRUNC: r = (T)trunc((double)a); break;                                     \
		case LO_SCALE: r = (T)ldexp((double)a, b == b ? (int)b : 0); break;                \
		case LO_EQ: return (ir_scalar){ .i = a == b };                                     \
		case LO_NE: return (ir_scalar){ .i = a != b };                                     \
		case LO_LT: return (ir_scalar){ .i = a < b };                                      \
		case LO_LE: return (ir_scalar){ .i = a <= b };                                     \
		case LO_GT: return (ir_scalar){ .i = a > b };                                      \
		case LO_GE: return (ir_scalar){ .i = a >= b };                                     \
		default: break;                                                                    \
		}                                                                                  \
		return (ir_scalar){ .F = r };                                                      \
	}
INTERP_FLOAT(interp_f, float, f, fabsf, sqrtf, fmaf, floorf, ceilf, rintf)
INTERP_FLOAT(interp_d, double, d, fabs, sqrt, fma, floor, ceil, rint)

static ir_scalar interp_convert(ir_scalar v, tj_dtype from, tj_dtype to)
{
	if (rt_is_narrow(to)) return ir_cast_scalar(v, from, to);
	rt_class a = rt_dtype_class(from), b = rt_dtype_class(to);
	if (b == RT_F) return (ir_scalar){ .f = a == RT_F ? v.f : a == RT_D ? (float)v.d : (float)v.i };
	if (b == RT_D) return (ir_scalar){ .d = a == RT_F ? (double)v.f : a == RT_D ? v.d : (double)v.i };
	double x = a == RT_F ? (double)v.f : v.d;
	if (a == RT_I) return (ir_scalar){ .i = to == TJ_BOOL ? v.i != 0 : interp_wrap(to, (uint64_t)v.i) };
	return (ir_scalar){ .i = to == TJ_BOOL      ? x != 0
		                     : fabs(x) < 0x1p63 ? interp_wrap(to, (uint64_t)(int64_t)x)
		                                        : 0 };
}

static ir_scalar interp_bitcast(ir_scalar v, tj_dtype from, tj_dtype to)
{
	char bytes[8];
	interp_store(bytes, from, v);
	return interp_load(bytes, to);
}

static ir_scalar interp_fix(ir_scalar v, tj_dtype t)
{
	if (t == TJ_F32) return (ir_scalar){ .i = fabsf(v.f) < 0x1p31f ? (int32_t)v.f : INT32_MIN };
	return (ir_scalar){ .i = fabs(v.d) < 0x1p63 ? (int64_t)v.d : INT64_MIN };
}

static void interp_ins(interp *m, uint32_t id)
{
	const lo_ins *i = &m->k->ins.v[id];
	ir_scalar s[3] = { { 0 } };
	for (int k = 0; k < i->nsrc; k++) s[k] = m->v[i->src[k]];
	tj_dtype t = i->nsrc ? (tj_dtype)m->k->ins.v[i->src[0]].dtype : (tj_dtype)i->dtype;
	switch (i->op) {
	case LO_CONST:
		m->v[id] = rt_is_narrow((tj_dtype)i->dtype) ? ir_load((tj_dtype)i->dtype, &i->imm) : (ir_scalar){ .i = i->imm };
		return;
	case LO_NUM: memcpy(&m->v[id], &m->a->num[i->imm], 8); return;
	case LO_INDEX: m->v[id].i = i->imm == LO_R ? m->r : m->d[i->imm]; return;
	case LO_LOAD: m->v[id] = interp_read(m, i); return;
	case LO_STORE: interp_store(interp_ptr(m, i), (tj_dtype)i->dtype, s[0]); return;
	case LO_FAULT:
		if (s[0].i && !*m->a->fault) *m->a->fault = (int32_t)i->imm + 1;
		return;
	case LO_SELECT: m->v[id] = s[0].i ? s[1] : s[2]; return;
	case LO_CONVERT: m->v[id] = interp_convert(s[0], t, (tj_dtype)i->dtype); return;
	case LO_FIX: m->v[id] = interp_fix(s[0], t); return;
	case LO_BITCAST: m->v[id] = interp_bitcast(s[0], t, (tj_dtype)i->dtype); return;
	case LO_REDUCE: case LO_PART: return; /* after the loop */
	default: break;
	}
	switch (rt_dtype_class(t)) {
	case RT_I: m->v[id] = interp_int(i, t, s[0].i, s[1].i); return;
	case RT_F: m->v[id] = interp_f(i, s[0].f, s[1].f, s[2].f); return;
	case RT_D: m->v[id] = interp_d(i, s[0].d, s[1].d, s[2].d); return;
	}
}

static float interp_addf(float a, float b) { return a + b; }
static float interp_mulf(float a, float b) { return a * b; }
static float interp_maxf(float a, float b) { return a > b || a != a ? a : b; }
static float interp_minf(float a, float b) { return a < b || a != a ? a : b; }
static double interp_addd(double a, double b) { return a + b; }
static double interp_muld(double a, double b) { return a * b; }
static double interp_maxd(double a, double b) { return a > b || a != a ? a : b; }
static double interp_mind(double a, double b) { return a < b || a != a ? a : b; }

static double interp_wide(tj_dtype t, ir_scalar v) { return rt_dtype_class(t) == RT_F ? (double)v.f : v.d; }

static bool interp_beats(tj_dtype t, int64_t red, ir_scalar a, ir_scalar b)
{
	bool max = red == LO_RED_ARGMAX || red == LO_RED_ATMAX || red == LO_RED_MAX;
	if (rt_dtype_class(t) == RT_I) return max ? a.i > b.i : a.i < b.i;
	double x = interp_wide(t, a), y = interp_wide(t, b);
	if (x != x || y != y) return x != x && y == y;
	return max ? x > y : x < y;
}

/* row: the operand for each r */
static ir_scalar interp_reduce(const lo_kernel *k, const lo_ins *i, const ir_scalar *row)
{
	static float (*const ff[])(float, float) = { interp_addf, interp_mulf, interp_maxf, interp_minf };
	static double (*const fd[])(double, double) = { interp_addd, interp_muld, interp_maxd, interp_mind };
	tj_dtype t = (tj_dtype)k->ins.v[i->src[0]].dtype;
	ir_scalar best = row[0];
	int64_t at = 0;
	if (i->imm <= LO_RED_MIN && rt_dtype_class(t) != RT_I) {
		float *f = malloc(sizeof *f * (size_t)k->red);
		double *d = malloc(sizeof *d * (size_t)k->red);
		for (int64_t r = 0; r < k->red; r++)
			rt_dtype_class(t) == RT_F ? (void)(f[r] = row[r].f) : (void)(d[r] = row[r].d);
		bool column = i->tree == LO_TREE_COLUMN;
		if (rt_dtype_class(t) == RT_F)
			best = (ir_scalar){ .f = ir_tree_f(f, k->red, 1, ff[i->imm], 0, column) };
		else best = (ir_scalar){ .d = ir_tree_d(d, k->red, 1, fd[i->imm], 0, column) };
		free(f);
		free(d);
		return best;
	}
	for (int64_t r = 1; r < k->red; r++) switch (i->imm) {
	case LO_RED_ADD: best.i = interp_wrap(t, (uint64_t)best.i + (uint64_t)row[r].i); break;
	case LO_RED_MUL: best.i = interp_wrap(t, (uint64_t)best.i * (uint64_t)row[r].i); break;
	case LO_RED_AND: best.i &= row[r].i; break;
	case LO_RED_OR: best.i |= row[r].i; break;
	default:
		if (!interp_beats(t, i->imm, row[r], best)) break;
		best = row[r];
		at = r;
	}
	return i->imm == LO_RED_ARGMAX || i->imm == LO_RED_ARGMIN ? (ir_scalar){ .i = at } : best;
}

/* A product, in chunks: row and other have the operands for each r. */
static ir_scalar interp_dot(const lo_kernel *k, const lo_ins *i, const ir_scalar *row, const ir_scalar *other)
{
	tj_dtype t = (tj_dtype)k->ins.v[i->src[0]].dtype;
	ir_scalar total = { .i = 0 };
	for (int64_t at = 0; at < k->red; at += IR_CHAIN) {
		float f = 0;
		double d = 0;
		uint64_t u = 0;
		for (int64_t r = at; r < at + IR_CHAIN && r < k->red; r++) switch (rt_dtype_class(t)) {
		case RT_F: f = fmaf(row[r].f, other[r].f, f); break;
		case RT_D: d = fma(row[r].d, other[r].d, d); break;
		case RT_I: u += (uint64_t)row[r].i * (uint64_t)other[r].i; break;
		}
		switch (rt_dtype_class(t)) {
		case RT_F: total.f = at ? total.f + f : f; break;
		case RT_D: total.d = at ? total.d + d : d; break;
		case RT_I: total.i = interp_wrap(t, (uint64_t)total.i + u); break;
		}
	}
	return total;
}

/* ---- parts: each lane by itself, and then the lanes halved ---- */
static ir_scalar interp_two(const lo_ins *i, tj_dtype t, ir_scalar a, ir_scalar b)
{
	static float (*const ff[])(float, float) = { interp_addf, interp_mulf, interp_maxf, interp_minf };
	static double (*const fd[])(double, double) = { interp_addd, interp_muld, interp_maxd, interp_mind };
	if (rt_dtype_class(t) == RT_F) return (ir_scalar){ .f = ff[i->imm](a.f, b.f) };
	return (ir_scalar){ .d = fd[i->imm](a.d, b.d) };
}

/* One lane: `rows` values at a time one after the other, then adjacent ones paired. -1 elements: none there. */
static bool interp_lane(const lo_ins *i, tj_dtype t, const ir_scalar *x, int64_t n, int64_t lane, int64_t lanes, int64_t rows,
                        ir_scalar *out)
{
	int64_t chunks = 0;
	ir_scalar *c = malloc(sizeof *c * (size_t)(n / lanes + 2));
	for (int64_t at = lane; at < n; at += lanes * rows) {
		c[chunks] = x[at];
		for (int64_t j = 1; j < rows && at + j * lanes < n; j++) c[chunks] = interp_two(i, t, c[chunks], x[at + j * lanes]);
		chunks++;
	}
	bool any = chunks > 0;
	for (; chunks > 1; chunks = (chunks + 1) / 2)
		for (int64_t k = 0; k < chunks; k += 2) c[k / 2] = k + 1 < chunks ? interp_two(i, t, c[k], c[k + 1]) : c[k];
	if (any) *out = c[0];
	free(c);
	return any;
}

static ir_scalar interp_neutral(const lo_ins *i, tj_dtype t)
{
	static const double none[] = { -0.0, 1, -INFINITY, INFINITY };
	return rt_dtype_class(t) == RT_F ? (ir_scalar){ .f = (float)none[i->imm] } : (ir_scalar){ .d = none[i->imm] };
}

static ir_scalar interp_parts(const lo_kernel *k, const lo_ins *i, const ir_scalar *row)
{
	tj_dtype t = (tj_dtype)k->ins.v[i->src[0]].dtype;
	int64_t lanes = lo_part_lanes(i); /* 1 for LO_TREE_PAIRS */
	ir_scalar v[IR_TREE_LANES(sizeof(float))];
	for (int64_t l = 0; l < lanes; l++)
		if (!interp_lane(i, t, row, k->red, l, lanes, 1, &v[l])) v[l] = interp_neutral(i, t);
	for (int64_t half = lanes / 2; half >= 1; half /= 2)
		for (int64_t l = 0; l < half; l++) v[l] = interp_two(i, t, v[l], v[l + half]);
	return v[0];
}

/* row: the n operands of part m->part, each m->s->part long */
static void interp_part(interp *m, const lo_ins *i, const ir_scalar *row, int64_t n)
{
	tj_dtype t = (tj_dtype)i->dtype;
	int64_t lanes = lo_part_lanes(i);
	for (int64_t l = 0; l < lanes && lanes > 1; l++) {
		ir_scalar v;
		if (!interp_lane(i, t, row, n, l, lanes, IR_TREE_ROWS, &v)) v = interp_neutral(i, t);
		m->r = m->part * lanes + l;
		interp_store(interp_ptr(m, i), t, v);
	}
	m->r = m->part;
	lo_kernel part = *m->k;
	part.red = n;
	if (lanes > 1) return;
	ir_scalar v = interp_reduce(&part, i, row);
	if (i->imm == LO_RED_ARGMAX || i->imm == LO_RED_ARGMIN) v.i += m->part * m->s->part;
	interp_store(interp_ptr(m, i), t, v);
}

static void interp_loop(interp *m, const lo_section *s)
{
	const lo_kernel *k = m->k;
	int64_t n = m->end - m->begin;
	ir_scalar *rows = malloc(sizeof *rows * (size_t)(2 * n * s->count + 1)), *others = rows + n * s->count; /* of src[0], and of src[1] */
	for (m->r = m->begin; m->r < m->end; m->r++)
		for (uint32_t i = 0; i < s->count; i++) {
			const lo_ins *x = &k->ins.v[s->first + i];
			interp_ins(m, s->first + i);
			if (x->op == LO_REDUCE || x->op == LO_PART) rows[i * n + m->r - m->begin] = m->v[x->src[0]];
			if (x->op == LO_REDUCE && x->imm == LO_RED_DOT) others[i * n + m->r - m->begin] = m->v[x->src[1]];
		}
	for (uint32_t i = 0; i < s->count; i++) {
		const lo_ins *x = &k->ins.v[s->first + i];
		if (x->op == LO_PART) interp_part(m, x, rows + i * n, n);
		else if (x->op == LO_REDUCE && x->imm == LO_RED_DOT) m->v[s->first + i] = interp_dot(k, x, rows + i * n, others + i * n);
		else if (x->op == LO_REDUCE)
			m->v[s->first + i] = (x->tree >= LO_TREE_PARTS ? interp_parts : interp_reduce)(k, x, rows + i * n);
	}
	m->r = 0;
	free(rows);
}

static void interp_index(interp *m)
{
	for (uint32_t s = 0; s < m->k->section.n; s++) {
		const lo_section *x = &m->k->section.v[s];
		if (x->loop) interp_loop(m, x);
		else for (uint32_t i = 0; i < x->count; i++) interp_ins(m, x->first + i);
	}
}

/* Buffers are aligned where the kernel says so: a back end may use accesses that need it. */
static void interp_check_buffers(const lo_kernel *k, const rt_kargs *a)
{
	for (uint32_t b = 0; b < k->buf.n; b++)
		if (k->buf.v[b].role != LO_KEPT && k->buf.v[b].aligned && (uintptr_t)a->buf[b] % 64) {
			fprintf(stderr, "interp: buffer b%u of %s is not aligned\n", b, k->name);
			abort();
		}
}

/* Units of tiles: not the rectangles of C that compiled code takes, but equal shares of all indices, in order. So any number of units
 * computes each index once. */
static void interp_tiles(interp *m, int64_t begin, int64_t end)
{
	int64_t points = 1, units = lo_units(m->k, m->s);
	for (int i = 0; i < m->k->ndim; i++) points *= m->k->dim[i];
	m->begin = 0;
	m->end = m->k->red;
	for (int64_t at = points * begin / units; at < points * end / units; at++) {
		int64_t rest = at;
		for (int i = m->k->ndim - 1; i >= 0; i--) {
			m->d[i] = rest % m->k->dim[i];
			rest /= m->k->dim[i];
		}
		interp_index(m);
	}
}

/* The units begin..end-1. */
static void interp_units(const lo_kernel *k, const lo_schedule *s, const rt_kargs *a, int64_t begin, int64_t end)
{
	interp m = { .k = k,
		     .s = s,
		     .a = a,
		     .v = calloc(k->ins.n + 1, sizeof *m.v),
		     .shared = malloc(s->shared + 1),
		     .registers = calloc(s->kept.n + 1u, sizeof *m.registers) };
	for (uint32_t i = 0; i < s->kept.n; i++) m.registers[i] = malloc((size_t)k->buf.v[s->kept.v[i].buf].elems * 8 + 1);
	int last = k->ndim - 1;
	interp_check_buffers(k, a);
	if (s->vec == LO_VEC_TILE) {
		interp_tiles(&m, begin, end);
		end = begin;
	}
	int64_t size = s->block, pieces = (k->dim[last] - 1) / size + 1;
	for (int64_t u = begin; u < end; u++) {
		int64_t parts = lo_parts(k, s), w = u / parts;
		m.part = u % parts;
		m.begin = m.part * s->part;
		m.end = s->part && m.begin + s->part < k->red ? m.begin + s->part : k->red;
		int64_t rest = w / pieces, from = w % pieces * size,
		        to = from + size < k->dim[last] ? from + size : k->dim[last];
		for (int i = last - 1; i >= 0; i--) {
			m.d[i] = rest % k->dim[i];
			rest /= k->dim[i];
		}
		for (m.d[last] = from; m.d[last] < to; m.d[last]++) interp_index(&m);
	}
	for (uint32_t i = 0; i < s->kept.n; i++) free(m.registers[i]);
	free(m.registers);
	free(m.shared);
	free(m.v);
}

static void interp_run(int slot, const rt_kargs *a, int64_t begin, int64_t end)
{
	interp_units(&interp_slot[slot].k, &interp_slot[slot].s, a, begin, end);
}

#define X1(n) static void interp_k##n(const rt_kargs *a, int64_t b, int64_t e) { interp_run(0x##n, a, b, e); }
#define X16(n) X1(n##0) X1(n##1) X1(n##2) X1(n##3) X1(n##4) X1(n##5) X1(n##6) X1(n##7) X1(n##8) X1(n##9) X1(n##a) X1(n##b) \
	X1(n##c) X1(n##d) X1(n##e) X1(n##f)
#define X256                                                                                                 \
	X16(0)                                                                                                   \
	X16(1) X16(2) X16(3) X16(4) X16(5) X16(6) X16(7) X16(8) X16(9) X16(a) X16(b) X16(c) X16(d) X16(e) X16(f)
X256
#undef X1
#define X1(n) interp_k##n,
static rt_kernel_fn *const interp_fn[INTERP_SLOTS] = { X256 };
#undef X1
#undef X16
#undef X256

#define INTERP_COPY(field) \
	do { \
		c.field.v = malloc(sizeof *c.field.v * (from.field.n + 1u)); \
		if (from.field.n) memcpy(c.field.v, from.field.v, sizeof *c.field.v * from.field.n); \
		c.field.cap = from.field.n; \
	} while (0)

static interp_job interp_copy(const lo_kernel *k, const lo_schedule *s)
{
	const interp_job from = { *k, *s };
	interp_job c = from;
	INTERP_COPY(k.buf);
	INTERP_COPY(k.section);
	INTERP_COPY(k.ins);
	INTERP_COPY(k.index);
	INTERP_COPY(k.fault_site);
	INTERP_COPY(k.fault_code);
	INTERP_COPY(k.site);
	INTERP_COPY(s.kept);
	return c;
}

static void interp_drop(interp_job *j)
{
	lo_kernel_free(&j->k);
	lo_schedule_free(&j->s);
}

static tj_status interp_compile(lo_compile *job, rt_err *err)
{
	(void)err;
	for (int i = 0; i < job->nkernel; i++) {
		int slot = interp_next++ % INTERP_SLOTS; /* plans live for one case only */
		interp_drop(&interp_slot[slot]);
		interp_slot[slot] = interp_copy(job->kernel[i], job->schedule[i]);
		job->fn[i] = (rt_entry)interp_fn[slot];
	}
	return TJ_OK;
}

static int interp_width(void) { return 64; }
static const lo_backend interp_backend = { .name = "interp", .compile = interp_compile, .width = interp_width };
static const lo_backend *interp_find(const char *name, const char **why)
{
	(void)name, (void)why;
	return &interp_backend;
}

/* The CPU, with kernels interpreted. */
__attribute__((unused)) static const lo_target *interp_target(void)
{
	static lo_target t;
	if (t.name) return &t;
	t = lo_cpu;
	t.backend = "interp";
	t.find = interp_find;
	return &t;
}

__attribute__((unused)) static void interp_free(void)
{
	for (int i = 0; i < INTERP_SLOTS; i++) interp_drop(&interp_slot[i]);
	memset(interp_slot, 0, sizeof interp_slot);
}

#endif
