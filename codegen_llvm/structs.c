/* SPDX-License-Identifier: MIT */
/* structs: arrays of structures. Loads of all fields of a structure, in neighbouring lanes, are whole vectors, taken apart by shuffles;
 * stores of all fields are put together and written as whole vectors.
 *
 *   x0 y0 z0 x1 | y1 z1 x2 y2 | z2 x3 y3 z3       three vectors of four elements in memory
 *   x0 x1 x2 x3 , y0 y1 y2 y3 , z0 z1 z2 z3       three vectors of lanes
 *
 * The first load of a structure reads all of its fields, the last store writes them. Nothing before or behind the fields is touched: a
 * structure whose first or last field is not used is no structure. But loads of structures may overlap: fields 0 to 5 of structures of
 * four are those of 0 to 3 and two of 2 to 5. 2^k fields are taken apart in k steps, each of which parts the even from the odd elements
 * of two vectors; others by one shuffle for each vector and field.
 *
 * dots of [1M,3]: 0.65 ms by lanes along r, 0.27 by loads of every third element, 0.21 with this (Zen 4, two threads). */
#include "codegen_llvm/cg.h"

static bool is_access(const lo_ins *in) { return in->op == LO_LOAD || in->op == LO_STORE; }

/* The access may be a field of a structure of *n elements. */
static bool may_be_field(const cg_recipe *h, uint32_t i, int64_t *n)
{
	const lo_ins *in = &h->k->ins.v[i];
	if (!is_access(in) || in->dyn != LO_NOREF || h->of[i].place != CG_BODY || h->of[i].rare || h->of[i].aside) return false;
	if (cg_lane_rows(h, in)) return false;
	if (in->op == LO_LOAD && h->k->buf.v[in->buf].role != LO_IN) return false;
	if (in->op == LO_STORE && h->k->buf.v[in->buf].role != LO_OUT) return false;
	*n = h->k->index.v[in->index].coef[h->k->ndim - 1];
	return !lo_is_sym(*n) && *n >= 2 && *n <= CG_FIELDS && !lo_is_sym(h->k->index.v[in->index].offset);
}

/* Fields of one structure: they differ in the offset only. */
static bool alike(const cg_recipe *h, uint32_t i, uint32_t k)
{
	const lo_ins *a = &h->k->ins.v[i], *b = &h->k->ins.v[k];
	const lo_index *x = &h->k->index.v[a->index], *y = &h->k->index.v[b->index];
	return a->op == b->op && a->buf == b->buf && a->dtype == b->dtype && x->rcoef == y->rcoef && !memcmp(x->coef, y->coef, sizeof x->coef);
}

enum { MOST_ALIKE = 64 }; /* accesses that are looked at together */

typedef struct fields { /* accesses that are alike, by rising offset, each offset once */
	int n;
	int64_t at[MOST_ALIKE];
	uint32_t by[MOST_ALIKE];
	bool taken[MOST_ALIKE]; /* by a structure */
} fields;

static void insert(fields *x, int64_t at, uint32_t by)
{
	int k = x->n;
	for (; k > 0 && x->at[k - 1] >= at; k--)
		if (x->at[k - 1] == at) return;
	if (x->n == MOST_ALIKE) return;
	memmove(x->at + k + 1, x->at + k, sizeof *x->at * (size_t)(x->n - k));
	memmove(x->by + k + 1, x->by + k, sizeof *x->by * (size_t)(x->n - k));
	x->at[k] = at, x->by[k] = by, x->n++;
}

static int find(const fields *x, int64_t at)
{
	for (int k = 0; k < x->n; k++)
		if (x->at[k] == at) return k;
	return -1;
}

/* Where a structure of n elements with field k begins: at the field if its last element is accessed, too. Loads may begin before it, among
 * fields that other structures have. false: there is none. */
static bool begins(const fields *x, int k, int64_t n, bool store, int64_t *least)
{
	if (store) {
		*least = x->at[k];
		return k + n <= x->n && x->at[k + n - 1] == *least + n - 1;
	}
	for (*least = x->at[k]; *least > x->at[k] - n; --*least)
		if (find(x, *least) >= 0 && find(x, *least + n - 1) >= 0) return true;
	return false;
}

static void find_structs(cg_recipe *h, fields *x, int64_t n, const lo_ins *in)
{
	int64_t least;
	for (int k = 0; k < x->n; k++) {
		if (x->taken[k] || !begins(x, k, n, in->op == LO_STORE, &least)) continue;
		cg_struct s = { .n = (int)n, .dtype = in->dtype, .store = in->op == LO_STORE, .first = LO_NOREF };
		for (int f = 0; f < CG_FIELDS; f++) {
			const int at = f < n ? find(x, least + f) : -1;
			s.field[f] = at < 0 || x->taken[at] ? LO_NOREF : x->by[at];
			if (s.field[f] == LO_NOREF) continue;
			x->taken[at] = true;
			if (s.field[f] < s.first) s.first = s.field[f];
			if (s.field[f] > s.last) s.last = s.field[f];
		}
		if (!rt_push(&h->structs, s)) h->oom = true;
	}
}

void cg_find_structs(cg_recipe *h)
{
	if (h->form != CG_ALONG_D || h->lanes == 1) return;
	bool *seen = rt_calloc(h->k->ins.n + 1u);
	if (!seen) h->oom = true;
	for (uint32_t j = 0; seen && j < h->k->section.n; j++) {
		const lo_section *sec = &h->k->section.v[j];
		for (uint32_t i = sec->first; i < sec->first + sec->count; i++) {
			fields x = { 0 };
			int64_t n, same;
			if (seen[i] || !may_be_field(h, i, &n)) continue;
			for (uint32_t k = i; k < sec->first + sec->count; k++) {
				if (!may_be_field(h, k, &same) || !alike(h, i, k)) continue;
				seen[k] = true;
				insert(&x, h->k->index.v[h->k->ins.v[k].index].offset, k);
			}
			find_structs(h, &x, n, &h->k->ins.v[i]);
		}
	}
	rt_free(seen);
	for (uint32_t i = 0; i < h->structs.n && !h->oom; i++)
		for (int f = 0; f < h->structs.v[i].n; f++)
			if (h->structs.v[i].field[f] != LO_NOREF) h->of[h->structs.v[i].field[f]].field = i + 1;
}

const cg_struct *cg_struct_of(const cg *c, uint32_t i) { return &c->how->structs.v[c->how->of[i].field - 1]; }

/* ---- shuffles of vectors of L lanes ---- */
typedef struct shape { /* of a vector */
	tj_dtype t;
	int lanes, piece;      /* piece: lanes that shuffles do not leave: those of 16 bytes, or all */
} shape;

/* AVX2 has one instruction for a shuffle within 16 bytes, and two or more for one across them. So the vectors of 2^k fields consist of
 * halves from different places, such that the structures of a half of the lanes are in these halves:
 *
 *   x0 y0 x1 y1 | x4 y4 x5 y5 , x2 y2 x3 y3 | x6 y6 x7 y7         two vectors of two pieces, in memory 0 2 and 1 3
 *   x0 x1 x2 x3 | x4 x5 x6 x7 , y0 y1 y2 y3 | y4 y5 y6 y7 */
static shape shape_of(const cg *c, const cg_struct *s)
{
	enum { PIECE = 16 };
	const tj_dtype t = s->dtype == TJ_BOOL ? TJ_U8 : s->dtype;
	const int lanes = cg_lanes_in_register(c->bits, c->lanes, t), size = (int)tj_dtype_size(t), n = s->n;
	const bool halves = c->bits == 256 && lanes * size == 2 * PIECE && !(n & (n - 1)) && (!c->masked || c->laps);
	return (shape){ t, lanes, halves ? PIECE / size : lanes };
}

static cg_str shuffle(cg *c, shape v, cg_str a, cg_str b, const int *from)
{
	const cg_str r = cg_tmp(c), type = cg_type(v.t, v.lanes);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, a.s, type.s, b.s, v.lanes);
	for (int l = 0; l < v.lanes; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", from[l]);
	rt_puts(c->out, ">\n");
	return r;
}

/* Element e of the pieces of two vectors, one behind the other, that lane l belongs to. */
static int of_pair(shape v, int l, int e)
{
	const int first = l - l % v.piece;
	return e < v.piece ? first + e : v.lanes + first + e - v.piece;
}

/* n vectors of elements in memory become n vectors, one of each field; n is 2^k. */
static void part_evenly(cg *c, shape v, cg_str *x, int n)
{
	int from[2][CG_WIDEST];
	cg_str half[2][CG_FIELDS / 2];
	if (n == 1) return;
	for (int l = 0; l < v.lanes; l++)
		for (int odd = 0; odd < 2; odd++) from[odd][l] = of_pair(v, l, 2 * (l % v.piece) + odd);
	for (int odd = 0; odd < 2; odd++) {
		for (int k = 0; k < n / 2; k++) half[odd][k] = shuffle(c, v, x[2 * k], x[2 * k + 1], from[odd]);
		part_evenly(c, v, half[odd], n / 2);
	}
	for (int k = 0; k < n; k++) x[k] = half[k % 2][k / 2];
}

static void join_evenly(cg *c, shape v, cg_str *x, int n)
{
	int from[2][CG_WIDEST];
	cg_str half[2][CG_FIELDS / 2];
	if (n == 1) return;
	for (int k = 0; k < n; k++) half[k % 2][k / 2] = x[k];
	for (int odd = 0; odd < 2; odd++) join_evenly(c, v, half[odd], n / 2);
	for (int l = 0; l < v.lanes; l++)
		for (int high = 0; high < 2; high++) from[high][l] = of_pair(v, l, (l % v.piece + high * v.piece) / 2 + l % 2 * v.piece);
	for (int k = 0; k < n / 2; k++)
		for (int high = 0; high < 2; high++) x[2 * k + high] = shuffle(c, v, half[0][k], half[1][k], from[high]);
}

/* Lane l is element[l] of vector which[l] of the n vectors x. Each shuffle puts the lanes of one more vector in; the first those of two. */
static cg_str collect(cg *c, shape v, const cg_str *x, int n, const int *which, const int *element)
{
	cg_str r = { "" };
	int from[CG_WIDEST];
	bool have[CG_WIDEST] = { 0 };
	for (int k = 0; k < n; k++) {
		bool any = false;
		for (int l = 0; l < v.lanes; l++) {
			any |= which[l] == k;
			from[l] = which[l] == k ? (r.s[0] ? v.lanes : 0) + element[l] : have[l] ? l : 0;
			if (which[l] == k && !r.s[0]) have[l] = true;
		}
		if (!any) continue;
		if (!r.s[0] && k + 1 < n) { /* the first two vectors in one shuffle */
			for (int l = 0; l < v.lanes; l++)
				if (which[l] == k + 1) from[l] = v.lanes + element[l], have[l] = true;
			r = shuffle(c, v, x[k], x[k + 1], from);
			k++;
			continue;
		}
		r = shuffle(c, v, r.s[0] ? r : x[k], x[k], from);
		for (int l = 0; l < v.lanes; l++) have[l] |= which[l] == k;
	}
	return r;
}

static void take_apart(cg *c, shape v, const cg_struct *s, cg_str *x)
{
	int which[CG_WIDEST], element[CG_WIDEST];
	cg_str memory[CG_FIELDS];
	if (!(s->n & (s->n - 1))) {
		part_evenly(c, v, x, s->n);
		return;
	}
	memcpy(memory, x, sizeof memory);
	for (int f = 0; f < s->n; f++) {
		if (s->field[f] == LO_NOREF) continue;
		for (int l = 0; l < v.lanes; l++) which[l] = (l * s->n + f) / v.lanes, element[l] = (l * s->n + f) % v.lanes;
		x[f] = collect(c, v, memory, s->n, which, element);
	}
}

static void put_together(cg *c, shape v, const cg_struct *s, cg_str *x)
{
	int which[CG_WIDEST], element[CG_WIDEST];
	cg_str field[CG_FIELDS];
	if (!(s->n & (s->n - 1))) {
		join_evenly(c, v, x, s->n);
		return;
	}
	memcpy(field, x, sizeof field);
	for (int k = 0; k < s->n; k++) {
		for (int e = 0; e < v.lanes; e++) which[e] = (k * v.lanes + e) % s->n, element[e] = (k * v.lanes + e) / s->n;
		x[k] = collect(c, v, field, s->n, which, element);
	}
}

/* ---- accesses ---- */
/* Lanes `first` and later of the mask, each as often as a structure has fields: for vector k of the n that they take. */
static cg_str mask_of(cg *c, const cg_struct *s, int first, int lanes, int k)
{
	const cg_str m = cg_tmp(c);
	rt_putf(c->out, "  %s = shufflevector <%d x i1> %s, <%d x i1> poison, <%d x i32> <", m.s, c->lanes, c->mask.s, c->lanes, lanes);
	for (int e = 0; e < lanes; e++) rt_putf(c->out, "%si32 %d", e ? ", " : "", first + (k * lanes + e) / s->n);
	rt_puts(c->out, ">\n");
	return m;
}

static int field_of(const cg_struct *s, uint32_t i)
{
	int f = 0;
	while (s->field[f] != i) f++;
	return f;
}

/* The address of the first field in lane 0; at: that of access i. */
static cg_str begin(cg *c, const cg_struct *s, uint32_t i, cg_str at)
{
	return cg_elem(c, shape_of(c, s).t, at, cg_int(-field_of(s, i)));
}

static cg_str load_halves(cg *c, shape v, int n, cg_str p)
{
	const cg_str low = cg_read(c, v.t, v.piece, p), high = cg_read(c, v.t, v.piece, cg_elem(c, v.t, p, cg_int(n * v.piece)));
	const cg_str r = cg_tmp(c), type = cg_type(v.t, v.piece);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> ", r.s, type.s, low.s, type.s, high.s, v.lanes);
	cg_iota(c->out, "i32", 1, v.lanes);
	rt_puts(c->out, "\n");
	return r;
}

static void load_all(cg *c, const cg_struct *s, cg_str *part, cg_str base)
{
	const shape v = shape_of(c, s);
	const tj_dtype t = v.t;
	const cg_str type = cg_type(t, c->lanes);
	cg_str x[CG_FIELDS];
	for (int f = 0; f < s->n; f++) part[f] = cg_fmt("poison");
	for (int first = 0; first < c->lanes; first += v.lanes) {
		for (int k = 0; k < s->n; k++) {
			const cg_str p = cg_elem(c, t, base, cg_int(first * s->n + k * v.piece));
			if (v.piece < v.lanes) x[k] = load_halves(c, v, s->n, p);
			else x[k] = c->masked && !c->laps ? cg_read_some(c, t, v.lanes, p, mask_of(c, s, first, v.lanes, k)) : cg_read(c, t, v.lanes, p);
		}
		take_apart(c, v, s, x);
		for (int f = 0; f < s->n; f++) {
			if (s->field[f] == LO_NOREF) continue;
			if (v.lanes == c->lanes) { part[f] = x[f]; continue; }
			const cg_str all = cg_tmp(c);
			rt_putf(c->out, "  %s = call %s @llvm.vector.insert.%s.%s(%s %s, %s %s, i64 %d)\n", all.s, type.s, cg_mangle(t, c->lanes).s,
			        cg_mangle(t, v.lanes).s, type.s, part[f].s, cg_type(t, v.lanes).s, x[f].s, first);
			part[f] = all;
		}
	}
}

cg_str cg_load_field(cg *c, uint32_t i, cg_str at)
{
	const cg_struct *s = cg_struct_of(c, i);
	cg_str *part = c->part[c->how->of[i].field - 1];
	if (cg_touches(s, i)) load_all(c, s, part, begin(c, s, i, at));
	return part[field_of(s, i)];
}

/* Vectors of halves become vectors of neighbours in memory: piece k of those of the first half, then of the second one. */
static void order_halves(cg *c, shape v, int n, cg_str *x)
{
	int from[2][CG_WIDEST];
	cg_str whole[CG_FIELDS];
	for (int l = 0; l < v.lanes; l++)
		for (int half = 0; half < 2; half++) from[half][l] = l % v.piece + half * v.piece + l / v.piece * v.lanes;
	for (int k = 0; k < n; k++) whole[k] = shuffle(c, v, x[k % (n / 2) * 2], x[k % (n / 2) * 2 + 1], from[k >= n / 2]);
	memcpy(x, whole, (size_t)n * sizeof *x);
}

static void store_all(cg *c, const cg_struct *s, const cg_str *part, cg_str base)
{
	const shape v = shape_of(c, s);
	const tj_dtype t = v.t;
	cg_str x[CG_FIELDS];
	for (int first = 0; first < c->lanes; first += v.lanes) {
		for (int f = 0; f < s->n; f++) {
			x[f] = part[f];
			if (v.lanes == c->lanes) continue;
			x[f] = cg_tmp(c);
			rt_putf(c->out, "  %s = call %s @llvm.vector.extract.%s.%s(%s %s, i64 %d)\n", x[f].s, cg_type(t, v.lanes).s,
			        cg_mangle(t, v.lanes).s, cg_mangle(t, c->lanes).s, cg_type(t, c->lanes).s, part[f].s, first);
		}
		put_together(c, v, s, x);
		if (v.piece < v.lanes) order_halves(c, v, s->n, x);
		for (int k = 0; k < s->n; k++) {
			const cg_str p = cg_elem(c, t, base, cg_int(first * s->n + k * v.lanes));
			if (c->laps) x[k] = cg_keep_absent(c, t, v.lanes, x[k], p, mask_of(c, s, first, v.lanes, k));
			if (c->masked && !c->laps) cg_write_some(c, t, v.lanes, x[k], p, mask_of(c, s, first, v.lanes, k));
			else cg_write(c, t, v.lanes, x[k], p);
		}
	}
}

void cg_store_field(cg *c, uint32_t i, cg_str at, cg_str value)
{
	const cg_struct *s = cg_struct_of(c, i);
	cg_str *part = c->part[c->how->of[i].field - 1];
	part[field_of(s, i)] = value;
	if (cg_touches(s, i)) store_all(c, s, part, begin(c, s, i, at));
}
