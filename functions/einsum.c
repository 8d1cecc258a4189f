/* SPDX-License-Identifier: MIT */
/* einsum: sums of products in Einstein's notation.
 *
 *   "bij,bjk->bik"  =>  each operand: repeated labels are diagonals, labels that nothing else has are summed
 *                       pairs of operands, in the order of the path: a product of matrices, or an elementwise product and its sum
 *                       the last operand: its axes in the order of the result
 */
#include "functions/functions.h"

#include <stdio.h>

enum { LABELS = 64, OPERANDS = 32, MOST_OPTIMAL = 12, AUTO_OPTIMAL = 8 };

typedef struct term { /* an operand, or what a pair of them has become */
	tj_tensor *x;
	int n;
	uint8_t label[TJ_MAX_RANK + 1];
	uint64_t set;                   /* of its labels */
} term;

typedef struct sum {
	const char *site;
	int nlabel, n, nout;
	char name[LABELS];              /* a letter; 0: an axis of an ellipsis */
	int64_t size[LABELS];
	int seen[LABELS];               /* in how many places of the operands */
	uint8_t dots[TJ_MAX_RANK];      /* the labels of the ellipsis, from its last axis */
	int ndots;
	uint8_t out[TJ_MAX_RANK + 1];
	uint64_t keep;                  /* the labels of the result */
	term t[OPERANDS];
} sum;

static uint64_t bit(int label) { return (uint64_t)1 << label; }

/* ---- the equation ---- */
static tj_tensor *wrong(const char *site, const char *equation, const char *what, int k)
{
	return tj_fail(TJ_ERR_ARG, "einsum", "as in tj_einsum(\"bij,bjk->bik\", TJ_LIST(a, b), NULL)", "%s, operand %d: \"%s\"", what, k,
	               equation);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int find_label(const sum *e, char c)
{
	for (int i = 0; i < e->nlabel; i++)
		if (e->name[i] == c) return i;
	return -1;
}

static int new_label(sum *e, char c)
{
	if (e->nlabel == LABELS) return -1;
	e->name[e->nlabel] = c;
	e->size[e->nlabel] = 1;
	return e->nlabel++;
}

/* Axis i of operand k has this label. */
static tj_tensor *put_label(sum *e, int k, int i, int label, const char *equation)
{
	const char *site = e->site;
	if (label < 0) return wrong(site, equation, "there are more than 64 labels", k);
	const int64_t n = tj_dim(e->t[k].x, i), had = e->size[label];
	if (n != had && n != 1 && had != 1) {
		const char text[] = { e->name[label] ? e->name[label] : '.', 0 };
		return tj_fail(TJ_ERR_SHAPE, "einsum", "an axis has one size in all operands, or 1",
		               "label %s is %lld, and %lld in operand %d: \"%s\"", text, (long long)had, (long long)n, k, equation);
	}
	if (n != 1) e->size[label] = n;
	e->seen[label]++;
	e->t[k].label[i] = (uint8_t)label;
	e->t[k].set |= bit(label);
	return NULL;
}

/* The labels of one operand, from *at on up to a comma, an arrow or the end. */
static tj_tensor *read_term(sum *e, int k, const char **at, const char *equation)
{
	const char *site = e->site, *p = *at;
	int letters = 0, dots = 0, i = 0;
	tj_tensor *bad = NULL;
	for (; *p && *p != ',' && *p != '-'; p++) {
		if (is_letter(*p)) letters++;
		else if (!strncmp(p, "...", 3)) dots++, p += 2;
		else if (*p != ' ') return wrong(site, equation, "a label is a letter", k);
	}
	term *t = &e->t[k];
	t->n = tj_rank(t->x);
	if (dots > 1) return wrong(site, equation, "one ellipsis for an operand", k);
	if (dots ? letters > t->n : letters != t->n)
		return tj_fail(TJ_ERR_SHAPE, "einsum", "one letter for each axis; \"...\" stands for the others",
		               "operand %d has %d axes, and %d labels: \"%s\"", k, t->n, letters, equation);
	for (p = *at; *p && *p != ',' && *p != '-' && !bad; p++) {
		if (*p == '.') {
			p += 2;
			const int rest = t->n - letters;
			while (e->ndots < rest) {
				const int label = new_label(e, 0);
				if (label < 0) return wrong(site, equation, "there are more than 64 labels", k);
				e->dots[e->ndots++] = (uint8_t)label;
			}
			for (int j = rest - 1; j >= 0 && !bad; j--) bad = put_label(e, k, i++, e->dots[j], equation);
		} else if (*p != ' ') {
			const int label = find_label(e, *p);
			bad = put_label(e, k, i++, label < 0 ? new_label(e, *p) : label, equation);
		}
	}
	*at = p;
	return bad;
}

static tj_tensor *put_out(sum *e, int label, const char *equation)
{
	const char *site = e->site;
	if (label < 0 || e->keep & bit(label))
		return wrong(site, equation, label < 0 ? "no operand has a label of the result" : "a label of the result is there twice",
		             e->n);
	if (e->nout == TJ_MAX_RANK) return wrong(site, equation, "the result has more than 16 axes", e->n);
	e->out[e->nout++] = (uint8_t)label;
	e->keep |= bit(label);
	return NULL;
}

static tj_tensor *put_dots(sum *e, const char *equation)
{
	tj_tensor *bad = NULL;
	for (int j = e->ndots - 1; j >= 0 && !bad; j--) bad = put_out(e, e->dots[j], equation);
	return bad;
}

/* Behind the arrow; without one: the ellipsis, then the labels that are there once, in the order of the alphabet. */
static tj_tensor *read_out(sum *e, const char *p, const char *equation)
{
	const char *site = e->site;
	tj_tensor *bad = NULL;
	if (!*p) {
		bad = put_dots(e, equation);
		for (int c = 'A'; c <= 'z' && !bad; c++) {
			const int label = is_letter((char)c) ? find_label(e, (char)c) : -1;
			if (label >= 0 && e->seen[label] == 1) bad = put_out(e, label, equation);
		}
		return bad;
	}
	if (p[0] != '-' || p[1] != '>') return wrong(site, equation, "an arrow is \"->\"", e->n);
	for (p += 2; *p && !bad; p++) {
		if (is_letter(*p)) bad = put_out(e, find_label(e, *p), equation);
		else if (!strncmp(p, "...", 3)) bad = put_dots(e, equation), p += 2;
		else if (*p != ' ') bad = wrong(site, equation, "a label is a letter", e->n);
	}
	return bad;
}

static tj_tensor *read_equation(sum *e, const char *site, const char *equation, tj_list list)
{
	tj_tensor *bad = NULL;
	const char *p = equation;
	*e = (sum){ .site = site, .n = fn_listed(list, OPERANDS) };
	if (!equation || !e->n || e->n > OPERANDS)
		return wrong(site, equation ? equation : "",
		             !equation ? "the equation is NULL"
		             : e->n    ? "there are more than 32 operands"
		                       : "there is no operand",
		             0);
	for (int k = 0; k < e->n; k++) {
		if ((bad = fn_bad(site, "einsum", "an operand", list[k]))) return bad;
		e->t[k].x = list[k];
		if (k && *p++ != ',') return wrong(site, equation, "there are fewer labels than operands", k);
		if ((bad = read_term(e, k, &p, equation))) return bad;
	}
	if (*p == ',') return wrong(site, equation, "there are more labels than operands", e->n);
	return read_out(e, p, equation);
}

/* ---- terms ---- */
static int axis_of(const term *t, int label)
{
	for (int i = 0; i < t->n; i++)
		if (t->label[i] == label) return i;
	return -1;
}

static void drop(term *t, int axis)
{
	memmove(t->label + axis, t->label + axis + 1, (size_t)(t->n - axis - 1));
	t->n--;
	t->set = 0;
	for (int i = 0; i < t->n; i++) t->set |= bit(t->label[i]);
}

/* tj_sum() makes i64 of integers; a sum of bool is whether any is true. */
static tj_tensor *summed(const char *site, tj_tensor *x, tj_dims axes)
{
	return tj_is_poison(x) || fn_is_float(tj_dtype_of(x)) ? tj_sum(x, axes, false) : tj_cast(tj_sum(x, axes, false), tj_dtype_of(x));
}

/* Sums over the labels that are not needed. */
static void reduce(const sum *e, term *t, uint64_t needed)
{
	const char *site = e->site;
	int64_t axes[TJ_MAX_RANK + 1];
	int n = 0;
	for (int i = 0; i < t->n; i++)
		if (!(needed & bit(t->label[i]))) axes[n++] = i;
	axes[n] = TJ_END_DIM;
	if (!n) return;
	t->x = summed(site, t->x, axes);
	while (n-- > 0) drop(t, (int)axes[n]);
}

/* One label, one axis: diagonals of repeated ones, and no axis of size 1 for a label that is larger. */
static void simplify(const sum *e, term *t)
{
	const char *site = e->site;
	for (int i = t->n; i-- > 0;)
		if (tj_dim(t->x, i) == 1 && e->size[t->label[i]] != 1) {
			t->x = tj_squeeze(t->x, TJ_AXES(i));
			drop(t, i);
		}
	for (int i = 0; i < t->n; i++)
		for (int j = i + 1; j < t->n; j++) {
			if (t->label[i] != t->label[j]) continue;
			const uint8_t label = t->label[i];
			t->x = tj_diagonal(t->x, 0, i, j);
			drop(t, j);
			drop(t, i);
			t->label[t->n++] = label;
			t->set |= bit(label);
			i = -1;
			break;
		}
}

/* The axes of t by label: those of `order`; those that it has not have size 1 if `all`, or are left out. */
static tj_tensor *arranged(const sum *e, const term *t, int n, const uint8_t *order, bool all)
{
	const char *site = e->site;
	int64_t axes[TJ_MAX_RANK + 1];
	fn_dims s = { 0 };
	int m = 0;
	for (int i = 0; i < n; i++) {
		const int a = axis_of(t, order[i]);
		if (a >= 0) axes[m++] = a;
		if (a >= 0 || all) fn_shape_add(&s, a < 0 ? 1 : tj_dim(t->x, a));
	}
	axes[m] = TJ_END_DIM;
	tj_tensor *x = tj_permute(t->x, axes);
	return m == s.n ? x : fn_reshape(site, x, &s);
}

/* ---- a pair ---- */
typedef struct labels { int n; uint8_t v[LABELS]; int64_t size; } labels;
static labels chosen(const sum *e, const term *t, uint64_t set)
{
	labels l = { .size = 1 };
	for (int i = 0; i < t->n; i++)
		if (set & bit(t->label[i])) l.v[l.n++] = t->label[i], l.size *= e->size[t->label[i]];
	return l;
}

static void add(labels *to, const labels *l)
{
	for (int i = 0; i < l->n; i++) to->v[to->n++] = l->v[i];
	to->size *= l->size;
}

/* [batch, rows, columns] of t, whose labels are those of the three. */
static tj_tensor *matrix(const sum *e, const term *t, const labels *batch, const labels *rows, const labels *columns)
{
	const char *site = e->site;
	labels all = *batch;
	add(&all, rows);
	add(&all, columns);
	tj_tensor *x = arranged(e, t, all.n, all.v, false);
	return batch->n ? tj_reshape(x, TJ_SHAPE(batch->size, rows->size, columns->size)) : tj_reshape(x, TJ_SHAPE(rows->size, columns->size));
}

static void finish(const sum *e, term *t, tj_tensor *x, const labels *l)
{
	const char *site = e->site;
	fn_dims s = { 0 };
	t->n = l->n < TJ_MAX_RANK ? l->n : TJ_MAX_RANK;
	t->set = 0;
	for (int i = 0; i < l->n; i++) fn_shape_add(&s, e->size[l->v[i]]);
	for (int i = 0; i < t->n; i++) t->label[i] = l->v[i], t->set |= bit(l->v[i]);
	t->x = fn_reshape(site, x, &s);
}

/* a and b as one. Labels that only one of them has, and nothing else needs, are summed before. */
static term joined(const sum *e, term a, term b, uint64_t needed)
{
	const char *site = e->site;
	term y = { .x = NULL };
	reduce(e, &a, needed | b.set);
	reduce(e, &b, needed | a.set);
	const uint64_t both = a.set & b.set, inner = both & ~needed;
	const labels batch = chosen(e, &a, both & needed), rows = chosen(e, &a, a.set & ~both), columns = chosen(e, &b, b.set & ~both),
		     depth = chosen(e, &a, inner);
	labels all = batch;
	add(&all, &rows);
	add(&all, &columns);
	if (inner && (rows.n || columns.n) && tj_dtype_of(a.x) != TJ_BOOL) {
		tj_tensor *left = matrix(e, &a, &batch, &rows, &depth), *right = matrix(e, &b, &batch, &depth, &columns);
		finish(e, &y, tj_matmul(left, right), &all);
		return y;
	}
	const int kept = all.n;
	add(&all, &depth);
	int64_t axes[LABELS + 1];
	for (int i = kept; i < all.n; i++) axes[i - kept] = i;
	axes[all.n - kept] = TJ_END_DIM;
	if (all.n > TJ_MAX_RANK)
		return y.x = tj_fail(TJ_ERR_LIMIT, "einsum", "multiply fewer operands at once",
		                     "a product has %d axes, at most %d are possible", all.n, TJ_MAX_RANK),
		       y;
	tj_tensor *x = tj_mul(arranged(e, &a, all.n, all.v, true), arranged(e, &b, all.n, all.v, true));
	if (inner) x = summed(site, x, axes);
	all.n = kept;
	finish(e, &y, x, &all);
	return y;
}

/* ---- the path ---- */
typedef struct step { int a, b; } step; /* operand b joins a; its place is then empty */

static double volume(const sum *e, uint64_t set)
{
	double v = 1;
	for (int i = 0; i < e->nlabel; i++)
		if (set >> i & 1) v *= (double)e->size[i];
	return v;
}

/* What the operands of `part` need from outside of it. */
static uint64_t outside(const sum *e, uint32_t part)
{
	uint64_t set = e->keep;
	for (int k = 0; k < e->n; k++)
		if (!(part >> k & 1)) set |= e->t[k].set;
	return set;
}

static uint64_t inside(const sum *e, uint32_t part)
{
	uint64_t set = 0;
	for (int k = 0; k < e->n; k++)
		if (part >> k & 1) set |= e->t[k].set;
	return set & outside(e, part);
}

/* The cheapest way for each set of operands, from smaller ones. Writes the steps of `part` and returns the operand where its value is. */
typedef struct way { double cost; uint32_t split; } way;
static int write_way(const way *w, uint32_t part, step *path, int *n)
{
	if (!(part & (part - 1))) return __builtin_ctz(part);
	const int x = write_way(w, w[part].split, path, n), y = write_way(w, part & ~w[part].split, path, n), a = x < y ? x : y;
	path[(*n)++] = (step){ a, x + y - a };
	return a;
}

static void best_path(const sum *e, step *path)
{
	way w[1 << MOST_OPTIMAL];
	int n = 0;
	for (uint32_t part = 1; part < 1u << e->n; part++) {
		w[part] = (way){ part & (part - 1) ? -1 : 0, 0 };
		for (uint32_t s = (part - 1) & part; s > (part & ~s); s = (s - 1) & part) {
			const double cost = w[s].cost + w[part & ~s].cost + volume(e, inside(e, s) | inside(e, part & ~s));
			if (w[part].cost < 0 || cost < w[part].cost) w[part] = (way){ cost, s };
		}
	}
	write_way(w, (1u << e->n) - 1, path, &n);
}

/* Each time the pair whose result is smallest beside its operands. */
static void greedy_path(const sum *e, step *path)
{
	uint32_t part[OPERANDS];
	bool gone[OPERANDS] = { false };
	for (int k = 0; k < e->n; k++) part[k] = 1u << k;
	for (int i = 0; i < e->n - 1; i++) {
		double least = 0;
		step best = { -1, -1 };
		for (int a = 0; a < e->n; a++)
			for (int b = a + 1; b < e->n && !gone[a]; b++) {
				if (gone[b]) continue;
				const double gain = volume(e, inside(e, part[a] | part[b])) - volume(e, inside(e, part[a])) - volume(e, inside(e, part[b]));
				if (best.a < 0 || gain < least) least = gain, best = (step){ a, b };
			}
		path[i] = best;
		part[best.a] |= part[best.b];
		gone[best.b] = true;
	}
}

static tj_tensor *find_path(const sum *e, const tj_einsum_opts *opts, step *path)
{
	const char *site = e->site;
	NN_OPTIONS(tj_einsum_opts, o, opts);
	const tj_path how = o.path;
	if ((unsigned)how > TJ_PATH_IN_ORDER)
		return tj_fail(TJ_ERR_ARG, "einsum", "TJ_PATH_AUTO, _GREEDY, _OPTIMAL or _IN_ORDER", "no such path: %d", (int)how);
	if (how == TJ_PATH_OPTIMAL && e->n > MOST_OPTIMAL)
		return tj_fail(TJ_ERR_LIMIT, "einsum", "TJ_PATH_GREEDY", "the best path of %d operands is not searched, of %d at most",
		               e->n, MOST_OPTIMAL);
	if (how == TJ_PATH_IN_ORDER)
		for (int i = 1; i < e->n; i++) path[i - 1] = (step){ 0, i };
	else if (how == TJ_PATH_OPTIMAL || (how == TJ_PATH_AUTO && e->n <= AUTO_OPTIMAL)) best_path(e, path);
	else greedy_path(e, path);
	return NULL;
}

/* ---- the functions ---- */
tj_tensor *tj_einsum_at(const char *site, const char *equation, tj_list list, const tj_einsum_opts *opts)
{
	sum e;
	step path[OPERANDS];
	uint32_t part[OPERANDS];
	tj_tensor *bad = read_equation(&e, site, equation, list);
	if (bad || (bad = find_path(&e, opts, path))) return bad;
	for (int k = 0; k < e.n; k++) {
		part[k] = 1u << k;
		simplify(&e, &e.t[k]);
		reduce(&e, &e.t[k], outside(&e, part[k]));
		if (tj_is_poison(e.t[k].x)) return e.t[k].x;
	}
	for (int i = 0; i < e.n - 1; i++) {
		const int a = path[i].a, b = path[i].b;
		part[a] |= part[b];
		e.t[a] = joined(&e, e.t[a], e.t[b], outside(&e, part[a]));
		e.t[b].set = 0;
		if (tj_is_poison(e.t[a].x)) return e.t[a].x;
	}
	return arranged(&e, &e.t[0], e.nout, e.out, true);
}

static void put_set(const sum *e, uint64_t set, char *to)
{
	int n = 0;
	for (int i = 0; i < e->nlabel; i++)
		if (set >> i & 1 && e->name[i]) to[n++] = e->name[i];
	for (int j = e->ndots - 1; j >= 0; j--)
		if (set >> e->dots[j] & 1) to[n++] = '.';
	to[n] = 0;
}

int tj_einsum_path_at(const char *site, const char *equation, tj_list list, const tj_einsum_opts *opts, char *text, size_t size)
{
	sum e;
	step path[OPERANDS];
	uint32_t part[OPERANDS];
	double total = 0;
	int n = 0;
	if (size) text[0] = 0;
	if (read_equation(&e, site, equation, list) || find_path(&e, opts, path)) return -1;
	for (int k = 0; k < e.n; k++) part[k] = 1u << k;
#define PUT(...) n += snprintf((size_t)n < size ? text + n : NULL, (size_t)n < size ? size - (size_t)n : 0, __VA_ARGS__)
	for (int i = 0; i < e.n - 1; i++) {
		char x[LABELS + 1], y[LABELS + 1], z[LABELS + 1];
		const uint64_t a = inside(&e, part[path[i].a]), b = inside(&e, part[path[i].b]);
		part[path[i].a] |= part[path[i].b];
		put_set(&e, a, x), put_set(&e, b, y), put_set(&e, inside(&e, part[path[i].a]), z);
		PUT("%d %d: %s,%s->%s %.6g\n", path[i].a, path[i].b, x, y, z, volume(&e, a | b));
		total += volume(&e, a | b);
	}
	PUT("%.6g multiplications\n", total);
#undef PUT
	return n;
}
