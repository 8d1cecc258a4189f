/* SPDX-License-Identifier: MIT */
/* affine: the index of a value inside a group, and how views change it.
 *
 * A map has, for each axis of the value, one expression over the group's atoms. A reshape may split an atom: that rewrites
 * every map of the group, so that all stay valid; atoms of r keep r = sum rstride * atom. */
#include "lower/walk.h"

lo_map *lo_map_new(lo_low *L, lo_group *G, int rank)
{
	lo_map *m = lo_mem(L, sizeof *m + sizeof *m->e * (size_t)(rank ? rank : 1));
	if (!m) return NULL;
	m->rank = rank;
	m->next = G->maps;
	G->maps = m;
	return m;
}

static bool expr_equal(const lo_group *G, const lo_expr *a, const lo_expr *b)
{
	if (a->off != b->off) return false;
	for (int i = 0; i < G->natom; i++)
		if (a->c[i] != b->c[i] && G->ext[i] > 1) return false;
	return true;
}

bool lo_map_equal(const lo_group *G, const lo_map *a, const lo_map *b)
{
	if (a->rank != b->rank) return false;
	for (int i = 0; i < a->rank; i++)
		if (!expr_equal(G, &a->e[i], &b->e[i])) return false;
	return true;
}

bool lo_add_atom(lo_group *G, int64_t ext, bool isr, int64_t rstride)
{
	if (G->natom == LO_ATOMS) return false;
	G->ext[G->natom] = ext;
	G->isr[G->natom] = isr;
	G->rstride[G->natom] = rstride;
	for (lo_map *m = G->maps; m; m = m->next)
		for (int i = 0; i < m->rank; i++) m->e[i].c[G->natom] = 0;
	G->natom++;
	return true;
}

bool lo_split(lo_group *G, int atom, int64_t low)
{
	if (low <= 1 || G->ext[atom] % low || G->ext[atom] == low) return low == 1 || G->ext[atom] == low;
	if (!lo_add_atom(G, low, G->isr[atom], G->rstride[atom])) return false;
	int lo = G->natom - 1;
	G->ext[atom] /= low;
	G->rstride[atom] *= low;
	for (lo_map *m = G->maps; m; m = m->next)
		for (int i = 0; i < m->rank; i++) {
			m->e[i].c[lo] = m->e[i].c[atom];
			m->e[i].c[atom] *= low;
		}
	return true;
}

lo_map *lo_map_identity(lo_low *L, lo_group *G, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	lo_map *m = lo_map_new(L, G, n->rank);
	for (int i = 0; m && i < n->rank; i++) {
		if (lo_dim(L, r)[i] == 1) continue;
		if (!lo_add_atom(G, lo_dim(L, r)[i], false, 0)) return NULL;
		m->e[i].c[G->natom - 1] = 1;
	}
	return m;
}

/* ---- questions ---- */
lo_expr lo_linear(const lo_group *G, const lo_map *m, const int64_t *stride)
{
	lo_expr e = { 0 };
	for (int i = 0; i < m->rank; i++) {
		e.off += m->e[i].off * stride[i];
		for (int a = 0; a < G->natom; a++) e.c[a] += m->e[i].c[a] * stride[i];
	}
	return e;
}

bool lo_in_r(const lo_group *G, const lo_expr *e)
{
	for (int a = 0; a < G->natom; a++)
		if (G->isr[a] && e->c[a] && G->ext[a] > 1) return true;
	return false;
}

bool lo_map_in_r(const lo_group *G, const lo_map *m)
{
	for (int i = 0; i < m->rank; i++)
		if (lo_in_r(G, &m->e[i])) return true;
	return false;
}

bool lo_fits_r(const lo_group *G, const lo_expr *e)
{
	int64_t k = 0;
	bool any = false;
	for (int a = 0; a < G->natom; a++) {
		if (!G->isr[a] || G->ext[a] <= 1) continue;
		if (e->c[a] % G->rstride[a]) return false;
		if (any && e->c[a] / G->rstride[a] != k) return false;
		k = e->c[a] / G->rstride[a];
		any = true;
	}
	return true;
}

bool lo_r_term(const lo_group *G, const lo_expr *e, int64_t *coef, int64_t *group)
{
	*coef = 0;
	*group = 1;
	for (int a = 0; a < G->natom; a++) /* the innermost atom of r on which e depends */
		if (G->isr[a] && G->ext[a] > 1 && e->c[a] && (!*coef || G->rstride[a] < *group)) *coef = e->c[a], *group = G->rstride[a];
	for (int a = 0; *coef && a < G->natom; a++)
		if (G->isr[a] && G->ext[a] > 1 && G->rstride[a] >= *group &&
		    (G->rstride[a] % *group || e->c[a] != G->rstride[a] / *group * *coef))
			return false;
	return true;
}

/* Digit i of r, counted from the innermost atom, has stride[i] in r and c[i] in e: e = c[0] * r + sum (c[i] - c[i - 1] * stride[i] /
 * stride[i - 1]) * (r / stride[i]). */
bool lo_r_jumps(const lo_group *G, const lo_expr *e, int64_t *coef, struct lo_jump *jump)
{
	int order[LO_ATOMS], n = 0, jumps = 0;
	for (int a = 0; a < G->natom; a++) {
		if (!G->isr[a] || G->ext[a] <= 1) continue;
		int i = n++;
		for (; i > 0 && G->rstride[order[i - 1]] > G->rstride[a]; i--) order[i] = order[i - 1];
		order[i] = a;
	}
	if (!n || G->rstride[order[0]] != 1) return false;
	*coef = e->c[order[0]];
	for (int i = 1; i < n; i++) {
		const int64_t stride = G->rstride[order[i]], times = G->ext[order[i - 1]], by = e->c[order[i]] - e->c[order[i - 1]] * times;
		if (stride != G->rstride[order[i - 1]] * times) return false;
		if (!by) continue;
		if (jumps == LO_JUMPS) return false;
		jump[jumps++] = (struct lo_jump){ stride, by };
	}
	return *coef != 0;
}

int64_t lo_outer(const lo_group *G)
{
	int64_t n = 1;
	for (int a = 0; a < G->natom; a++)
		if (!G->isr[a]) n *= G->ext[a];
	return n;
}

int lo_radix(const lo_group *G, const lo_expr *e, int64_t n, int *order)
{
	int count = 0;
	int64_t next = 1;
	if (e->off) return -1;
	for (int a = 0; a < G->natom; a++)
		if (e->c[a] && G->ext[a] > 1) order[count++] = a;
	for (int i = 0; i < count; i++) {
		for (int j = i + 1; j < count; j++)
			if (e->c[order[j]] < e->c[order[i]]) {
				int t = order[i];
				order[i] = order[j];
				order[j] = t;
			}
		if (e->c[order[i]] != next) return -1;
		next *= G->ext[order[i]];
	}
	return next == n ? count : -1;
}

/* ---- views ---- */
/* Divides e by size: *low is the remainder, *high the quotient. Splits an atom whose term lies on both sides. e must belong
 * to a map of the group, because splits rewrite it. */
static bool div_expr(lo_group *G, lo_expr *e, int64_t size, lo_expr *high, lo_expr *low)
{
	int64_t most;
	if (e->off < 0) return false;
	for (int a = 0; a < G->natom; a++) {
		int64_t c = e->c[a];
		if (!c || G->ext[a] <= 1 || c % size == 0) continue;
		if (c < 0) return false;
		if (c * (G->ext[a] - 1) < size || size % c || G->ext[a] % (size / c)) continue;
		if (!lo_split(G, a, size / c)) return false;
	}
	*high = *low = (lo_expr){ 0 };
	low->off = most = e->off % size;
	high->off = e->off / size;
	for (int a = 0; a < G->natom; a++) {
		if (!e->c[a] || G->ext[a] <= 1) continue;
		if (e->c[a] < 0) return false;
		if (e->c[a] % size == 0) high->c[a] = e->c[a] / size;
		else {
			low->c[a] = e->c[a];
			most += e->c[a] * (G->ext[a] - 1);
		}
	}
	return most < size;
}

/* Turns the row-major index w->e[0] over axes of sizes dim[0..n) into an index for each axis, in w's n further expressions.
 * w is a scratch map of G, so that splits also rewrite the axes that are done. */
static bool delinear(lo_group *G, lo_map *w, int n, const int64_t *dim)
{
	for (int i = n - 1; i >= 0; i--) {
		lo_expr high, low;
		if (dim[i] == 1) continue;
		if (!div_expr(G, &w->e[0], dim[i], &high, &low)) return false;
		w->e[1 + i] = low;
		w->e[0] = high;
	}
	for (int a = 0; a < G->natom; a++)
		if (w->e[0].c[a] && G->ext[a] > 1) return false;
	return w->e[0].off == 0;
}

/* Axes [i, i1) of the operand are axes [j, j1) of the view, in row-major order. */
static bool reshape_run(lo_low *L, lo_group *G, const lo_map *view, const int64_t *vdim, int j, int j1,
                        lo_map *m, const int64_t *dim, int i, int i1)
{
	lo_map *w = lo_map_new(L, G, i1 - i + 1);
	int64_t stride = 1;
	if (!w) return false;
	for (int k = j1 - 1; k >= j; k--) {
		w->e[0].off += view->e[k].off * stride;
		for (int a = 0; a < G->natom; a++) w->e[0].c[a] += view->e[k].c[a] * stride;
		stride *= vdim[k];
	}
	if (!delinear(G, w, i1 - i, dim + i)) return false;
	for (int k = i; k < i1; k++) m->e[k] = w->e[1 + k - i];
	return true;
}

static bool reshape(lo_low *L, lo_group *G, const lo_map *view, int vrank, const int64_t *vdim, lo_map *m,
                    int rank, const int64_t *dim)
{
	int i = 0, j = 0;
	while (i < rank) {
		if (dim[i] == 1) { i++; continue; }
		while (j < vrank && vdim[j] == 1) j++;
		int i1 = i + 1, j1 = j + 1;
		int64_t a = dim[i], b = j < vrank ? vdim[j] : 1;
		while (a != b) {
			if (a < b) {
				if (i1 >= rank) return false;
				a *= dim[i1++];
			} else {
				if (j1 >= vrank) return false;
				b *= vdim[j1++];
			}
		}
		if (!reshape_run(L, G, view, vdim, j, j1, m, dim, i, i1)) return false;
		i = i1;
		j = j1;
	}
	return true;
}

static void affine_of(lo_expr *e, int64_t offset, int64_t step, const lo_group *G)
{
	e->off = e->off * step + offset;
	for (int a = 0; a < G->natom; a++) e->c[a] *= step;
}

/* e, the number of a window, becomes the index of its element `inside`. */
static void windows(const lo_group *G, lo_expr *e, const lo_expr *inside, int64_t step, int64_t dilation)
{
	affine_of(e, 0, step, G);
	e->off += inside->off * dilation;
	for (int a = 0; a < G->natom; a++) e->c[a] += inside->c[a] * dilation;
}

static void slice(const lo_low *L, const lo_group *G, ir_ref view, lo_map *m)
{
	const ir_node *n = lo_node(L, view);
	const int64_t *attr = ir_attr(L->g, n), *dim = lo_dim(L, ir_src(L->g, n, 0));
	if (n->op == IR_slice) affine_of(&m->e[attr[0]], attr[1], attr[3], G);
	else
		for (int i = 0; i < n->rank; i++)
			if (lo_flips(L->g, n, i)) affine_of(&m->e[i], dim[i] - 1, -1, G);
}

lo_map *lo_map_broadcast(lo_low *L, lo_group *G, ir_ref operand, const lo_map *m)
{
	const ir_node *n = lo_node(L, operand);
	lo_map *o = lo_map_new(L, G, n->rank);
	int lead = m->rank - n->rank;
	for (int i = 0; o && i < n->rank; i++)
		if (lo_dim(L, operand)[i] != 1) o->e[i] = m->e[lead + i];
	return o;
}

lo_map *lo_map_view(lo_low *L, lo_group *G, ir_ref view, const lo_map *m)
{
	const ir_node *n = lo_node(L, view);
	ir_ref src = ir_src(L->g, n, 0);
	const int64_t *attr = ir_attr(L->g, n);
	int rank = lo_node(L, src)->rank;
	if (n->op == IR_expand) return lo_map_broadcast(L, G, src, m);
	lo_map *o = lo_map_new(L, G, rank);
	if (!o) return NULL;
	switch (n->op) {
	case IR_optimization_barrier:
		for (int i = 0; i < rank; i++) o->e[i] = m->e[i];
		return o;
	case IR_unfold:
		for (int i = 0; i < rank; i++) o->e[i] = m->e[i];
		windows(G, &o->e[attr[0]], &m->e[rank], attr[2], attr[3]);
		return o;
	case IR_permute:
		for (int i = 0; i < rank; i++) o->e[attr[i]] = m->e[i];
		return o;
	case IR_transpose: case IR_slice: case IR_flip:
		for (int i = 0; i < rank; i++) o->e[i] = m->e[i];
		if (n->op != IR_transpose) slice(L, G, view, o);
		else if (rank) {
			o->e[attr[0]] = m->e[attr[1]];
			o->e[attr[1]] = m->e[attr[0]];
		}
		return o;
	default:
		return reshape(L, G, m, n->rank, lo_dim(L, view), o, rank, lo_dim(L, src)) ? o : NULL;
	}
}

lo_map *lo_map_reduced(lo_low *L, lo_group *G, ir_ref operand, int lo, int hi, bool keepdim, const lo_map *m)
{
	int rank = lo_node(L, operand)->rank;
	lo_map *o = lo_map_new(L, G, rank), *w = lo_map_new(L, G, hi - lo + 1);
	if (!o || !w) return NULL;
	for (int a = 0; a < G->natom; a++)
		if (G->isr[a]) w->e[0].c[a] = G->rstride[a];
	if (!delinear(G, w, hi - lo, lo_dim(L, operand) + lo)) return NULL;
	for (int i = 0, j = 0; i < rank; i++) {
		if (i >= lo && i < hi) {
			o->e[i] = w->e[1 + i - lo];
			j += keepdim;
		} else o->e[i] = m->e[j++];
	}
	return o;
}
