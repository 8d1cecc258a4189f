/* SPDX-License-Identifier: MIT */
/* quantise: which weights of a model become small integers. */
#include "kit/models/models.h"

#include <math.h>

enum { LEAST = 1024 }; /* elements: smaller weights gain nothing */
static const char op[] = "onnx_open";

typedef struct choice {
	const char *site;
	tj_model *m;
	const tj_onnx_opts *o;
	ox_quantised **end; /* where the next one is linked in */
} choice;

static const ox_attr *attribute(const ox_node *n, const char *name)
{
	for (int i = 0; i < n->nattr; i++)
		if (!strcmp(n->attr[i].name, name)) return &n->attr[i];
	return NULL;
}

static int64_t whole(const ox_node *n, const char *name, int64_t preset)
{
	const ox_attr *a = attribute(n, name);
	return a && a->type == OX_A_INT ? a->i : preset;
}

static bool all_are(const ox_node *n, const char *name, int64_t value)
{
	const ox_attr *a = attribute(n, name);
	for (int64_t i = 0; a && i < a->n; i++)
		if (a->type == OX_A_INTS && a->ints[i] != value) return false;
	return true;
}

/* The literal that an input is, also through Identity, and through a Transpose of two axes, which turns *transposed over. */
static ox_tensor *literal_of(const tj_model *m, int value, bool *transposed)
{
	for (int i = 0; value >= 0 && i < 4; i++) {
		if (m->literal[value]) return m->literal[value];
		const ox_node *n = m->maker[value];
		if (!n || !n->row || n->nin < 1 || *n->row->domain) return NULL;
		if (!strcmp(n->op, "Transpose")) {
			const ox_attr *perm = attribute(n, "perm");
			if (n->in[0] < 0 || !m->literal[n->in[0]] || m->literal[n->in[0]]->rank != 2) return NULL;
			if (!perm || (perm->type == OX_A_INTS && perm->n == 2 && perm->ints[0] == 1)) *transposed = !*transposed;
		} else if (strcmp(n->op, "Identity")) return NULL;
		value = n->in[0];
	}
	return NULL;
}

/* Windows of 1 that take all channels and leave the sizes as they are. */
static bool is_pointwise(const ox_node *n, const ox_tensor *t)
{
	for (int i = 2; i < t->rank; i++)
		if (t->dim[i] != 1) return false;
	return t->rank > 2 && whole(n, "group", 1) == 1 && all_are(n, "strides", 1) && all_are(n, "pads", 0);
}

/* Does a node multiply by input 1, or 1 and 2, and how do they lie? */
static int weights_of(const choice *c, const ox_node *n, bool *transposed)
{
	if (!n->row || *n->row->domain) return 0;
	*transposed = strcmp(n->op, "MatMul");
	if (!strcmp(n->op, "MatMul")) return 1;
	if (!strcmp(n->op, "Gemm")) return *transposed = whole(n, "transB", 0), 1;
	if (!strcmp(n->op, "RNN") || !strcmp(n->op, "GRU") || !strcmp(n->op, "LSTM")) return 2;
	return !strcmp(n->op, "Conv") && c->o->quantise == TJ_QUANTISE_DYNAMIC;
}

static bool is_left(const choice *c, const ox_node *n)
{
	const char *const *s = c->o->quantise_except;
	while (s && *s && strcmp(*s, n->name)) s++;
	return s && *s;
}

/* The largest group up to `most` that divides k; 0: none has 16 elements. */
static int64_t divisor(int64_t k, int64_t most)
{
	enum { LEAST_GROUP = 16 };
	int64_t g = most < k ? most : k;
	while (g >= LEAST_GROUP && k % g) g--;
	return g >= LEAST_GROUP ? g : 0;
}

/* The kind and the group that k allows. */
static void suit(const tj_onnx_opts *o, int64_t k, tj_quantise *how, int64_t *group)
{
	*how = o->quantise, *group = 0;
	if (*how == TJ_QUANTISE_I4) *group = k % 2 ? 0 : divisor(k / 2, o->quantise_group ? o->quantise_group : OX_USUAL_GROUP);
	if (*how == TJ_QUANTISE_I4 && !*group) *how = TJ_QUANTISE_I8;
	if (*how == TJ_QUANTISE_I8 && o->quantise_group) *group = divisor(k, o->quantise_group);
}

static ox_quantised *make(choice *c, const ox_node *n, ox_tensor *t, bool transposed)
{
	tj_model *m = c->m;
	ox_quantised *q = ox_take(&m->arena, sizeof *q);
	tj_tensor ***freeze = realloc(m->freeze, ((size_t)m->nfreeze + 3) * sizeof *freeze);
	if (freeze) m->freeze = freeze;
	if (!q || !freeze) return tj_fail_at(c->site, TJ_ERR_NOMEM, op, NULL, "out of memory"), NULL;
	const bool conv = !strcmp(n->op, "Conv");
	tj_quantise how;
	int64_t group, dim[3] = { t->dim[0], t->dim[1], TJ_END_DIM };
	suit(c->o, t->dim[conv ? 1 : transposed ? t->rank - 1 : t->rank - 2], &how, &group);
	tj_scope *s = tj_push_at(c->site, m->c);
	tj_tensor *w = conv ? tj_reshape_at(c->site, t->t, dim) : t->t;
	bool ok = tj_quantise_weight_at(c->site, w, transposed, how, group, &q->w) == TJ_OK;
	if (ok) {
		q->w.values = tj_retain_at(c->site, q->w.values), q->w.scale = tj_retain_at(c->site, q->w.scale);
		m->freeze[m->nfreeze++] = &q->w.values, m->freeze[m->nfreeze++] = &q->w.scale;
		m->freeze[m->nfreeze] = (tj_tensor **)(uintptr_t)TJ_END_VAR;
		const uint64_t bytes = (uint64_t)tj_numel(q->w.values) + (uint64_t)tj_numel(q->w.scale) * 4;
		q->about = (tj_quantised){ n->name, n->op, how, q->w.group, q->w.k, q->w.n, bytes, t->bytes };
	}
	tj_pop_at(c->site, s);
	if (!ok) return NULL;
	*c->end = q, c->end = &q->next;
	return q;
}

/* A weight with a NaN or an infinity stays as it is. */
static bool all_finite(const ox_tensor *t)
{
	bool finite = true;
	float v;
	for (size_t at = 0; finite && at < t->bytes; at += sizeof v) {
		memcpy(&v, t->data + at, sizeof v);
		finite = isfinite(v);
	}
	return finite;
}

static bool choose(choice *c, ox_node *n)
{
	bool transposed;
	const int inputs = weights_of(c, n, &transposed);
	for (int k = 1; k <= inputs && k < n->nin; k++) {
		bool t = transposed;
		ox_tensor *w = literal_of(c->m, n->in[k], &t);
		if (!w || w->type != OX_FLOAT || !w->t || w->rank < 2 || w->bytes < LEAST * sizeof(float)) continue;
		const bool conv = !strcmp(n->op, "Conv");
		if (conv ? !is_pointwise(n, w) : inputs == 2 ? w->rank != 3 || !t : false) continue;
		if (c->o->quantise == TJ_QUANTISE_DYNAMIC && w->dim[conv ? 1 : t ? w->rank - 1 : w->rank - 2] > OX_MOST_K) continue;
		if (!w->small[t] && !all_finite(w)) continue;
		if (!w->small[t] && !(w->small[t] = make(c, n, w, t))) return false;
		n->weight[k - 1] = &w->small[t]->w;
	}
	return true;
}

static bool choose_all(choice *c, ox_graph *g)
{
	for (int i = 0; i < g->nnode; i++) {
		ox_node *n = &g->node[i];
		for (int k = 0; k < n->nattr; k++)
			if (n->attr[k].g && !choose_all(c, n->attr[k].g)) return false;
		if (!is_left(c, n) && !choose(c, n)) return false;
	}
	return true;
}

static bool has_node(const ox_graph *g, const char *name)
{
	for (int i = 0; i < g->nnode; i++) {
		if (!strcmp(g->node[i].name, name)) return true;
		for (int k = 0; k < g->node[i].nattr; k++)
			if (g->node[i].attr[k].g && has_node(g->node[i].attr[k].g, name)) return true;
	}
	return false;
}

bool ox_quantise(const char *site, tj_model *m, const tj_onnx_opts *o)
{
	choice c = { site, m, o, &m->small };
	if (o->quantise == TJ_QUANTISE_NONE && !o->quantise_group && !o->quantise_except) return true;
	if (o->quantise < TJ_QUANTISE_DYNAMIC || o->quantise > TJ_QUANTISE_I4 || o->quantise_group < 0 ||
	    (o->quantise_group && o->quantise == TJ_QUANTISE_DYNAMIC))
		return tj_fail_at(site, TJ_ERR_ARG, op, "set .quantise; groups are for I8 and I4", ".quantise is %d with groups of %lld",
		                  (int)o->quantise, (long long)o->quantise_group),
		       false;
	for (int i = 0; o->quantise_except && o->quantise_except[i]; i++)
		if (!has_node(m->graph, o->quantise_except[i]))
			return tj_fail_at(site, TJ_ERR_ARG, op, "tj show lists nodes", ".quantise_except: no node is named %.80s", o->quantise_except[i]), false;
	return choose_all(&c, m->graph);
}

const tj_quantised *tj_model_quantised(const tj_model *m, int i)
{
	const ox_quantised *q = m && i >= 0 ? m->small : NULL;
	for (; q && i > 0; i--) q = q->next;
	return q ? &q->about : NULL;
}
