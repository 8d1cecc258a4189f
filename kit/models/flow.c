/* SPDX-License-Identifier: MIT */
/* flow: If, Loop and Scan. Where the host knows what is asked, and in short loops, this is control flow of C in the body: the trace has the
 * branch that is taken, or the turns one after the other. Else it is tj_cond(), tj_while() or tj_scan(), if the shapes of the carried
 * values stay as they are and no node needs to read a value; and else the host reads the condition, a boundary at each turn. */
#include "kit/models/models.h"

enum {
	UNROLLED = 8,          /* turns: longer loops are worth a region */
	MOST_UNROLLED = 10000, /* turns of a loop in the body: each is traced by itself */
	MOST_TURNS = 10000000  /* of a tj_while(): a file may ask for a loop without an end */
};

/* ---- what may stand in a region ---- */
static bool is_static(const ox_info *v)
{
	for (int i = 0; i < v->rank; i++)
		if (v->dim[i] < 0) return false;
	return v->rank >= 0;
}

static bool same_static(const ox_info *a, const ox_info *b)
{
	bool same = is_static(a) && is_static(b) && a->rank == b->rank && a->type == b->type;
	for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
	return same;
}

/* No node reads values but of constants. */
static bool is_region(const ox_run *r, const ox_graph *g)
{
	for (int i = 0; i < g->nnode; i++) {
		const ox_node *n = &g->node[i];
		if (!n->row || n->row->reads >> 31) return false;
		if (!strncmp(n->op, "Random", 6) || !strcmp(n->op, "Bernoulli") || !strcmp(n->op, "Multinomial") ||
		    !strcmp(n->op, "Dropout"))
			return false;
		for (int k = 0; k < n->nin && k < 31; k++)
			if (n->row->reads >> k & 1 && n->in[k] >= 0 && !r->m->literal[n->in[k]]) return false;
	}
	return true;
}

static bool run_graph(ox_run *r, const ox_graph *g, const char *site, tj_tensor **out, int first)
{
	const bool was = r->region;
	r->region = true;
	bool ok = ox_walk(r, g);
	for (int i = first; ok && i < g->nout; i++) {
		if ((out[i - first] = ox_tensor_of(r, &r->v[g->out[i].value], site))) continue;
		r->failed = true, tj_fail_at(site, TJ_ERR_STATE, "onnx", NULL, "%.80s is no tensor", g->out[i].name);
		ok = false;
	}
	r->region = was;
	return ok && !r->failed;
}

static const ox_graph *graph_of(const ox_call *o, const char *name)
{
	const ox_attr *a = ox_attribute(o, name);
	return a ? a->g : NULL;
}

/* ---- If ---- */
typedef struct branches {
	ox_run *r;
	const ox_graph *g[2];
	const char *site;
} branches;

static void branch(tj_tensor **out, branches *b, int k)
{
	if (run_graph(b->r, b->g[k], b->site, out, 0)) return;
	for (int i = 0; i < b->g[k]->nout; i++) out[i] = tj_fail_at(b->site, TJ_ERR_STATE, "If", NULL, "a branch failed");
}

static void then_branch(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, branch(out, self, 0); }
static void else_branch(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, branch(out, self, 1); }

static tj_tensor *take(ox_call *o, const ox_graph *g)
{
	if (!ox_walk(o->r, g)) return o->r->failed = true, NULL;
	for (int i = 0; i < g->nout && i < o->n->nout; i++) o->out[i] = o->r->v[g->out[i].value];
	return NULL;
}

tj_tensor *ox_if(ox_call *o, const char *site)
{
	branches b = { o->r, { graph_of(o, "then_branch"), graph_of(o, "else_branch") }, site };
	if (!b.g[0] || !b.g[1] || b.g[0]->nout != b.g[1]->nout || b.g[0]->nout < o->n->nout)
		return ox_fail(o, TJ_ERR_ARG, NULL, "its branches have different numbers of outputs");
	bool region = is_region(o->r, b.g[0]) && is_region(o->r, b.g[1]);
	for (int i = 0; i < b.g[0]->nout; i++) region &= same_static(&b.g[0]->out[i], &b.g[1]->out[i]);
	if (ox_in(o, 0)->h || !region) {
		const ox_host *h = ox_h(o, 0);
		return h && h->n == 1 ? take(o, b.g[!h->i[0]]) : ox_fail(o, TJ_ERR_ARG, NULL, "its condition is not one element");
	}
	tj_tensor **out = ox_room(o, (size_t)b.g[0]->nout * sizeof(tj_tensor *));
	if (!out || tj_cond(out, b.g[0]->nout, ox_t(o, 0), then_branch, else_branch, TJ_NONE, &b) != TJ_OK)
		return o->r->failed = true, NULL;
	for (int i = 0; i < o->n->nout; i++) ox_put(o, i, out[i]);
	return NULL;
}

/* ---- Loop ---- */
typedef struct loop {
	ox_call *o;
	const ox_graph *g;
	int carries, scans;
	ox_value *carry;    /* the carried values */
	tj_tensor ***turns; /* of each scan output: one tensor for each turn */
	int64_t room, n;
} loop;

static tj_tensor *truth(ox_call *o, bool v) { return tj_full_at(o->site, TJ_BOOL, TJ_0D, tj_i_at(o->site, v)); }

static ox_value known(ox_call *o, tj_dtype dtype, int64_t v)
{
	ox_host *h = ox_new_host(&o->r->arena, dtype, 0, NULL);
	if (h)
		h->i[0] = v;
	else
		ox_room(o, SIZE_MAX);
	return (ox_value){ .h = h };
}

static bool more_room(loop *l)
{
	if (l->n < l->room) return true;
	l->room = l->room ? 2 * l->room : 16;
	for (int k = 0; k < l->scans; k++) {
		tj_tensor **v = ox_room(l->o, ((size_t)l->room + 1) * sizeof(tj_tensor *));
		if (!v) return false;
		if (l->n) memcpy(v, l->turns[k], (size_t)l->n * sizeof(tj_tensor *));
		l->turns[k] = v;
	}
	return true;
}

/* One turn in the body; *on: whether the body's condition asks for another. */
static bool turn(loop *l, ox_value condition, bool *on)
{
	ox_run *r = l->o->r;
	const ox_graph *g = l->g;
	r->v[g->in[0].value] = known(l->o, TJ_I64, l->n);
	r->v[g->in[1].value] = condition;
	for (int i = 0; i < l->carries; i++) r->v[g->in[2 + i].value] = l->carry[i];
	if (r->failed || !ox_walk(r, g) || !more_room(l)) return false;
	ox_value next = r->v[g->out[0].value];
	for (int i = 0; i < l->carries; i++) l->carry[i] = r->v[g->out[1 + i].value];
	for (int k = 0; k < l->scans; k++) l->turns[k][l->n] = ox_tensor_of(r, &r->v[g->out[1 + l->carries + k].value], l->o->site);
	l->n++;
	const ox_host *h = ox_host_of(r, &next, l->o->site);
	*on = h && h->i && h->n && h->i[0];
	return h != NULL && !r->failed;
}

/* No turn at all: the shape of a slice is what the file says. */
static tj_tensor *nothing(loop *l, int k)
{
	const ox_info *v = &l->g->out[1 + l->carries + k];
	tj_dtype dtype = TJ_F32;
	int64_t dim[TJ_MAX_RANK + 2] = { 0 };
	ox_dtype(v->type, &dtype);
	const int rank = v->rank < 0 ? 0 : v->rank >= TJ_MAX_RANK ? TJ_MAX_RANK - 1 : v->rank;
	for (int i = 0; i < rank; i++) dim[1 + i] = v->dim[i] < 0 ? 0 : v->dim[i];
	dim[1 + rank] = TJ_END_DIM;
	return tj_full_at(l->o->site, dtype, dim, tj_i_at(l->o->site, 0));
}

static tj_tensor *give(loop *l)
{
	for (int i = 0; i < l->carries && i < l->o->n->nout; i++) l->o->out[i] = l->carry[i];
	for (int k = 0; k < l->scans; k++) {
		if (l->n) l->turns[k][l->n] = TJ_END;
		if (ox_wants(l->o, l->carries + k))
			ox_put(l->o, l->carries + k, l->n ? tj_stack_at(l->o->site, l->turns[k], 0) : nothing(l, k));
	}
	return NULL;
}

/* ---- Loop as a region: a scan when the body goes on in any case, a while when it has nothing to collect ---- */
static bool always(const ox_run *r, const ox_graph *g)
{
	const ox_tensor *t = r->m->literal[g->out[0].value];
	if (t && t->host && t->host->i && t->host->n == 1) return t->host->i[0];
	for (int i = 0; i < g->nnode; i++) { /* Identity(condition) */
		const ox_node *n = &g->node[i];
		if (n->nout == 1 && n->out[0] == g->out[0].value) return !strcmp(n->op, "Identity") && n->in[0] == g->in[1].value;
	}
	return g->out[0].value == g->in[1].value;
}

static void region_turn(tj_tensor **out, tj_tensor *const *in, loop *l, int first)
{
	ox_run *r = l->o->r;
	const ox_graph *g = l->g;
	const char *site = l->o->site;
	r->v[g->in[0].value] = (ox_value){ .t = in[0] };
	r->v[g->in[1].value] = (ox_value){ .t = first ? in[1] : truth(l->o, true) };
	for (int i = 0; i < l->carries; i++) r->v[g->in[2 + i].value] = (ox_value){ .t = in[1 + first + i] };
	out[0] = tj_add(in[0], tj_i(1));
	if (run_graph(r, g, site, out + 1, first ? 0 : 1)) return;
	for (int i = first ? 0 : 1; i < g->nout; i++)
		out[1 + i - (first ? 0 : 1)] = tj_fail_at(site, TJ_ERR_STATE, "Loop", NULL, "a turn failed");
}

static void scan_turn(tj_tensor **out, tj_tensor *const *in, void *self) { region_turn(out, in, self, 0); }
static void while_turn(tj_tensor **out, tj_tensor *const *in, void *self) { region_turn(out, in, self, 1); }
/* in: turns, condition, carries, the most turns */
static void while_goes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const loop *l = self;
	const char *site = l->o->site;
	out[0] = l->room < 0 ? in[1] : tj_logical_and(in[1], tj_lt(in[0], tj_i(l->room)));
}

static bool fits_region(loop *l)
{
	if (!is_region(l->o->r, l->g)) return false;
	for (int i = 0; i < l->carries; i++)
		if (!same_static(&l->g->in[2 + i], &l->g->out[1 + i])) return false;
	for (int k = 0; k < l->scans; k++)
		if (!is_static(&l->g->out[1 + l->carries + k])) return false;
	return true;
}

static tj_tensor *as_region(loop *l, int64_t most, bool scan)
{
	ox_call *o = l->o;
	const char *site = o->site;
	const int lead = scan ? 1 : 2;
	tj_tensor **in = ox_room(o, ((size_t)l->carries + 4) * sizeof(tj_tensor *)),
		  **out = ox_room(o, ((size_t)l->carries + 4) * sizeof(tj_tensor *));
	tj_tensor **ys = ox_room(o, ((size_t)l->scans + 1) * sizeof(tj_tensor *));
	if (!in || !out || !ys) return NULL;
	in[0] = tj_full(TJ_I64, TJ_0D, tj_i(0));
	if (!scan) in[1] = ox_has(o, 1) ? tj_reshape(ox_t(o, 1), TJ_0D) : truth(o, true);
	for (int i = 0; i < l->carries; i++) in[lead + i] = ox_tensor_of(o->r, &l->carry[i], site);
	in[lead + l->carries] = TJ_END;
	l->room = most;
	const tj_status st = scan ? tj_scan(out, ys, l->scans, scan_turn, in, TJ_NONE, l, TJ_OPTS(tj_scan_opts, .length = most))
	                          : tj_while(out, while_goes, while_turn, in, l, TJ_OPTS(tj_while_opts, .max_turns = MOST_TURNS));
	if (st != TJ_OK) return o->r->failed = true, NULL;
	for (int i = 0; i < l->carries && i < o->n->nout; i++) ox_put(o, i, out[lead + i]);
	for (int k = 0; k < l->scans; k++)
		if (l->carries + k < o->n->nout) ox_put(o, l->carries + k, ys[k]);
	return NULL;
}

static bool known_input(const ox_call *o, int k) { return !ox_has(o, k) || ox_in(o, k)->h; }

tj_tensor *ox_loop(ox_call *o, const char *site)
{
	loop l = { .o = o, .g = graph_of(o, "body"), .carries = o->n->nin - 2 };
	(void)site;
	if (l.carries < 0) l.carries = 0;
	if (!l.g || l.g->nin != 2 + l.carries || l.g->nout < 1 + l.carries)
		return ox_fail(o, TJ_ERR_ARG, NULL, "its body does not fit its inputs");
	l.scans = l.g->nout - 1 - l.carries;
	l.carry = ox_room(o, ((size_t)l.carries + 1) * sizeof *l.carry);
	l.turns = ox_room(o, ((size_t)l.scans + 1) * sizeof *l.turns);
	if (!l.carry || !l.turns) return NULL;
	for (int i = 0; i < l.carries; i++) l.carry[i] = ox_has(o, 2 + i) ? *ox_in(o, 2 + i) : (ox_value){ 0 };
	const bool count_known = known_input(o, 0), forever = always(o->r, l.g), fits = fits_region(&l);
	const ox_host *most = count_known || !fits ? ox_h(o, 0) : NULL;
	const int64_t m = most && most->i && most->n ? most->i[0] : -1;
	const bool goes = known_input(o, 1) && (!ox_has(o, 1) || ox_in(o, 1)->h->i[0]);
	if (o->r->failed) return NULL;
	if (fits && count_known && forever && goes && m > UNROLLED) return as_region(&l, m, true);
	if (fits && count_known && !forever && !l.scans) return as_region(&l, m, false);
	const ox_host *h = ox_has(o, 0) ? ox_h(o, 0) : NULL, *first = ox_has(o, 1) ? ox_h(o, 1) : NULL;
	bool on = !first || (first->i && first->n && first->i[0]);
	const int64_t turns = h && h->i && h->n ? h->i[0] : INT64_MAX;
	while (on && l.n < turns && !o->r->failed)
		if (l.n == MOST_UNROLLED)
			return ox_fail(o, TJ_ERR_LIMIT, NULL, "a loop whose values change their shapes has more than %d turns",
			               MOST_UNROLLED);
		else if (!turn(&l, known(o, TJ_BOOL, 1), &on))
			return o->r->failed = true, NULL;
	return give(&l);
}

/* ---- Scan ---- */
typedef struct scan {
	ox_call *o;
	const ox_graph *g;
	int states, xs;
} scan;

static void each(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const scan *s = self;
	for (int i = 0; i < s->g->nin; i++) s->o->r->v[s->g->in[i].value] = (ox_value){ .t = in[i] };
	if (run_graph(s->o->r, s->g, s->o->site, out, 0)) return;
	for (int i = 0; i < s->g->nout; i++) out[i] = tj_fail_at(s->o->site, TJ_ERR_STATE, "Scan", NULL, "a turn failed");
}

/* Along its axis, in its direction. */
static tj_tensor *arranged(ox_call *o, const char *axes, const char *directions, int k, tj_tensor *x, bool in)
{
	const char *site = o->site;
	int64_t n, m;
	const int64_t *a = ox_ints(o, axes, &n), *d = ox_ints(o, directions, &m);
	const int axis = ox_axis(a && k < n ? a[k] : 0, tj_rank(x));
	const bool back = d && k < m && d[k];
	if (axis < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "an axis is not there");
	if (in && axis) x = tj_movedim(x, TJ_AXES(axis), TJ_AXES(0));
	if (back) x = tj_flip(x, TJ_AXES(0));
	return !in && axis ? tj_movedim(x, TJ_AXES(0), TJ_AXES(axis)) : x;
}

/* Turn by turn in the body, when the region would read values. */
static bool step_by_step(scan *s, tj_tensor **state, tj_tensor **xs, tj_tensor **ys)
{
	ox_call *o = s->o;
	const char *site = o->site;
	const int64_t n = tj_dim(xs[0], 0);
	const int scans = s->g->nout - s->states;
	tj_tensor **all = ox_room(o, (size_t)scans * ((size_t)n + 1) * sizeof(tj_tensor *));
	tj_tensor **in = ox_room(o, ((size_t)s->g->nin + 1) * sizeof(tj_tensor *)),
		  **out = ox_room(o, ((size_t)s->g->nout + 1) * sizeof(tj_tensor *));
	if (!all || !in || !out || n < 1) return false;
	for (int64_t t = 0; t < n && !o->r->failed; t++) {
		for (int i = 0; i < s->states; i++) in[i] = state[i];
		for (int i = 0; i < s->xs; i++) in[s->states + i] = tj_select(xs[i], 0, t);
		each(out, in, s);
		for (int i = 0; i < s->states; i++) state[i] = out[i];
		for (int k = 0; k < scans; k++) all[k * (n + 1) + t] = out[s->states + k];
	}
	for (int k = 0; k < scans && !o->r->failed; k++) {
		all[k * (n + 1) + n] = TJ_END;
		ys[k] = tj_stack(all + k * (n + 1), 0);
	}
	return !o->r->failed;
}

tj_tensor *ox_scan(ox_call *o, const char *site)
{
	scan s = { o, graph_of(o, "body"), 0, (int)ox_int(o, "num_scan_inputs", 0) };
	const int skip = o->n->opset < 9; /* opset 8 has lengths in front, and an axis of examples */
	s.states = o->n->nin - skip - s.xs;
	if (!s.g || s.xs < 1 || s.states < 0 || s.g->nin != s.states + s.xs || s.g->nout < s.states || skip)
		return ox_fail(o, TJ_ERR_ARG, skip ? "Scan of opset 9 and later" : NULL, "its body does not fit its inputs");
	const int scans = s.g->nout - s.states;
	tj_tensor **init = ox_room(o, ((size_t)s.states + 1) * sizeof(tj_tensor *)),
		  **xs = ox_room(o, ((size_t)s.xs + 1) * sizeof(tj_tensor *));
	tj_tensor **carry = ox_room(o, ((size_t)s.states + 1) * sizeof(tj_tensor *)),
		  **ys = ox_room(o, ((size_t)scans + 1) * sizeof(tj_tensor *));
	if (!init || !xs || !carry || !ys) return NULL;
	for (int i = 0; i < s.states; i++) carry[i] = init[i] = ox_t(o, i);
	for (int i = 0; i < s.xs; i++) xs[i] = arranged(o, "scan_input_axes", "scan_input_directions", i, ox_t(o, s.states + i), true);
	init[s.states] = xs[s.xs] = TJ_END;
	if (o->r->failed) return NULL;
	if (is_region(o->r, s.g) ? tj_scan(carry, ys, scans, each, init, xs, &s, NULL) != TJ_OK : !step_by_step(&s, carry, xs, ys))
		return o->r->failed = true, NULL;
	for (int i = 0; i < s.states; i++) ox_put(o, i, carry[i]);
	for (int k = 0; k < scans && s.states + k < o->n->nout; k++)
		ox_put(o, s.states + k, arranged(o, "scan_output_axes", "scan_output_directions", k, ys[k], false));
	return NULL;
}

/* ---- optionals of a tensor ---- */
tj_tensor *ox_optional_has_element(ox_call *o, const char *site)
{
	(void)site;
	o->out[0] = known(o, TJ_BOOL, ox_has(o, 0) && (ox_in(o, 0)->t || ox_in(o, 0)->h));
	return NULL;
}

tj_tensor *ox_optional_get_element(ox_call *o, const char *site)
{
	(void)site;
	o->out[0] = *ox_in(o, 0);
	return NULL;
}
