/* SPDX-License-Identifier: MIT */
/* data: a plan as data, for reports: what notes.c, show.c and the dumps say as text. docs/REPORT.md describes the fields.
 *
 * Nothing of it is stored: the graph is lowered once more, and this looks at each plan before its passes are forgotten. */
#include "lower/low.h"

typedef struct seen { const rt_plan *p; rt_json json; } seen;
typedef struct looking {
	const lo_data_opts *d;
	rt_vec(seen) of;         /* plans of regions come before the plan that has them */
	bool oom;
} looking;

/* ---- nodes ---- */
/* By node: the step that computes it; the number of steps: none does. */
static uint32_t *find_steps(lo_low *L)
{
	const uint32_t none = L->step.n;
	uint32_t *group = lo_mem(L, (L->group.n + 1) * sizeof *group), *of = lo_mem(L, (L->g->node.n + 1) * sizeof *of);
	if (L->oom) return NULL;
	for (uint32_t i = 0; i < L->group.n; i++) group[i] = none;
	for (ir_ref r = 0; r < L->g->node.n; r++) of[r] = none;
	for (uint32_t i = L->step.n; i-- > 0;) {
		const lo_step *s = &L->step.v[i];
		if (s->kind == LO_STEP_KERNEL || s->epilogue) group[s->group] = i;
		if (s->kind != LO_STEP_KERNEL && s->kind != LO_STEP_COPY) of[s->ref] = i;
	}
	for (ir_ref r = 0; r < L->g->node.n; r++) {
		uint32_t id = L->val[r].group;
		if (of[r] == none && id != LO_NOGROUP && lo_group_at(L, &id)) of[r] = group[id];
		if (of[r] == none && lo_node(L, r)->op == IR_get) of[r] = of[ir_src(L->g, lo_node(L, r), 0)];
	}
	return of;
}

static const char *how(const lo_low *L, ir_ref r)
{
	const lo_val *v = &L->val[r];
	const ir_node *n = lo_node(L, r), *of = n->op == IR_get ? lo_node(L, ir_src(L->g, n, 0)) : n;
	switch ((lo_how)v->how) {
	case LO_LEAF: return "leaf";
	case LO_VIEW: return "view";
	case LO_FUSE: return v->light ? "everywhere" : "kernel"; /* a light value is computed wherever it is read */
	case LO_LIB: return "library";
	case LO_CALL: return ir_is_flow(of->op) ? "flow" : "evaluator";
	case LO_CAT: return "joined";
	}
	return "";
}

static void put_value(const lo_low *L, const ir_node *n, rt_json *j)
{
	const ir_scalar v = ir_const_value(L->g, n);
	if (!rt_is_float((tj_dtype)n->dtype)) rt_json_int(j, "value", v.i);
	else rt_json_number(j, "value", rt_dtype_class((tj_dtype)n->dtype) == RT_F ? (double)v.f : v.d);
}

static void put_node(lo_low *L, ir_ref r, uint32_t step, rt_json *j)
{
	const ir_node *n = lo_node(L, r);
	const ir_meta m = ir_meta_of(L->g, r);
	rt_text type = { 0 }, attrs = { 0 };
	if (!ir_is_tuple(n)) ir_put_meta(&type, &m);
	if (n->op != IR_const && n->op != IR_data) ir_put_attrs(L->g, n, &attrs);
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "op", ir_ops[n->op].name);
	rt_json_str(j, "type", rt_str(&type));
	rt_json_str(j, "how", how(L, r));
	if (n->site) rt_json_str(j, "site", n->site);
	if (attrs.n) rt_json_str(j, "attrs", attrs.s + 1); /* behind the blank */
	if (n->op == IR_const) put_value(L, n, j);
	if (step < L->step.n) rt_json_count(j, "step", step);
	if (n->mode & IR_FAST) rt_json_bool(j, "fast", true);
	if (L->val[r].own) rt_json_bool(j, "stored", true);
	rt_json_open(j, "src", '[');
	for (int k = 0; k < n->nsrc; k++) rt_json_count(j, NULL, ir_src(L->g, n, k));
	rt_json_close(j, ']');
	rt_json_close(j, '}');
	j->text.oom |= type.oom | attrs.oom;
	rt_text_free(&type);
	rt_text_free(&attrs);
}

static void put_nodes(lo_low *L, rt_json *j)
{
	const uint32_t *step = find_steps(L);
	rt_json_open(j, "nodes", '[');
	for (ir_ref r = 0; step && r < L->g->node.n; r++) put_node(L, r, step[r], j);
	rt_json_close(j, ']');
	rt_json_open(j, "out", '[');
	for (uint32_t i = 0; i < L->g->out.n; i++) rt_json_count(j, NULL, L->g->out.v[i]);
	rt_json_close(j, ']');
}

/* ---- texts ---- */
/* How much of the text there is room for: whole lines. */
static size_t room_for(const looking *x, const char *s, size_t n)
{
	size_t room = *x->d->left < x->d->most ? *x->d->left : x->d->most;
	if (n <= room) return n;
	while (room && s[room - 1] != '\n') room--;
	return room;
}

static void put_text(looking *x, rt_json *j, const char *key, const char *cut, const char *s)
{
	if (!s) return;
	const size_t n = strlen(s), room = room_for(x, s, n);
	*x->d->left -= room;
	if (room) rt_json_strn(j, key, s, room);
	if (room < n) rt_json_count(j, cut, n - room);
}

static void put_texts(lo_low *L, looking *x, uint32_t i, rt_json *j)
{
	const lo_step *s = &L->step.v[i];
	if (!s->built) return;
	if (!L->text) { /* nothing was compiled */
		rt_text t = { 0 };
		lo_print(&s->built->k, &s->built->s, &t);
		put_text(x, j, "kernel", "kernel_cut", t.s);
		j->text.oom |= t.oom;
		rt_text_free(&t);
		return;
	}
	put_text(x, j, "kernel", "kernel_cut", L->text[i].kernel);
	put_text(x, j, "code", "code_cut", L->text[i].code);
	put_text(x, j, "assembly", "assembly_cut", L->text[i].assembly);
	if (L->text[i].shares != i) rt_json_count(j, "shares", L->text[i].shares);
}

/* ---- steps ---- */
static const char *const kinds[] = { [LO_STEP_KERNEL] = "kernel", [LO_STEP_LIBRARY] = "library", [LO_STEP_CALL] = "evaluator",
	                             [LO_STEP_COPY] = "copy",     [LO_STEP_FLOW] = "flow",       [LO_STEP_TO] = "copy" };

static void put_regions(const looking *x, const rt_step *t, rt_json *j)
{
	if (!t->flow) return;
	rt_json_open(j, "regions", '[');
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < x->of.n; i++)
			if (t->flow->region[k] && &x->of.v[i].p->exec == t->flow->region[k]) rt_json_part(j, NULL, &x->of.v[i].json.text);
	rt_json_close(j, ']');
}

static void put_list(rt_json *j, const char *key, const uint32_t *v, uint32_t n)
{
	rt_json_open(j, key, '[');
	for (uint32_t i = 0; i < n; i++) rt_json_count(j, NULL, v[i]);
	rt_json_close(j, ']');
}

static void put_again(const lo_low *L, const lo_step *s, rt_json *j)
{
	if (s->kind != LO_STEP_KERNEL || !L->group.v[s->group]->again.n) return;
	rt_json_open(j, "again", '[');
	for (uint32_t k = 0; k < L->group.v[s->group]->again.n; k++) rt_json_count(j, NULL, L->group.v[s->group]->again.v[k]->value);
	rt_json_close(j, ']');
}

static void put_step(lo_low *L, looking *x, const rt_plan *p, uint32_t i, rt_json *j)
{
	const lo_step *s = &L->step.v[i];
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "name", p->step[i].name);
	rt_json_str(j, "kind", kinds[s->kind]);
	if (s->bundle) rt_json_count(j, "beside", s->bundle - 1);
	if (s->follows) rt_json_bool(j, "follows", true);
	if (s->epilogue) rt_json_bool(j, "epilogue", true);
	if (s->apart) rt_json_str(j, "apart", s->apart);
	put_list(j, "reads", s->reads.v, s->reads.n);
	put_list(j, "writes", s->writes.v, s->writes.n);
	put_again(L, s, j);
	put_texts(L, x, i, j);
	put_regions(x, &p->step[i], j);
	rt_json_close(j, '}');
}

/* ---- memory ---- */
/* By buffer: the node that owns it; the number of nodes: none does. late: by buffer, it holds the value a second time. */
static ir_ref *find_owners(lo_low *L, bool *late)
{
	ir_ref *of = lo_mem(L, (L->buf.n + 1) * sizeof *of);
	for (uint32_t b = 0; of && b < L->buf.n; b++) of[b] = L->g->node.n;
	for (ir_ref r = L->g->node.n; of && r-- > 0;) {
		const lo_val *v = &L->val[r];
		if (v->buf != LO_NOBUF) of[v->buf] = r;
		if (v->leaf != LO_NOBUF) of[v->leaf] = r;
		if (v->late != LO_NOBUF) of[v->late] = r, late[v->late] = true;
	}
	return of;
}

static void put_buffer(const lo_low *L, uint32_t i, ir_ref owner, bool late, rt_json *j)
{
	static const char *const places[] = { "argument", "output", "temporary", "constant", "number" };
	const lo_buffer *b = &L->buf.v[i];
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "place", places[b->place]);
	rt_json_int(j, "bytes", b->bytes);
	if (b->device != RT_CPU) rt_json_str(j, "device", rt_device_name(b->device));
	if (b->place != RT_AT_ARENA) rt_json_count(j, "index", b->index);
	else rt_json_int(j, "offset", b->offset);
	if (b->over != LO_NOBUF) rt_json_count(j, "over", b->over);
	if (b->first >= 0) rt_json_int(j, "first", b->first);
	if (b->last >= 0) rt_json_int(j, "last", b->last);
	if (owner < L->g->node.n) rt_json_count(j, "node", owner);
	if (late) rt_json_bool(j, "late", true);
	rt_json_close(j, '}');
}

static void put_memory(lo_low *L, rt_json *j)
{
	bool *late = lo_mem(L, L->buf.n + 1);
	const ir_ref *owner = late ? find_owners(L, late) : NULL;
	rt_json_open(j, "buffers", '[');
	for (uint32_t i = 0; owner && i < L->buf.n; i++) put_buffer(L, i, owner[i], late[i], j);
	rt_json_close(j, ']');
	rt_json_open(j, "memory", '{');
	rt_json_count(j, "step", L->full_step);
	rt_json_count(j, "bytes", L->full.bytes);
	rt_json_count(j, "kept", L->full.kept);
	rt_json_count(j, "kept_bytes", L->full.kept_bytes);
	rt_json_count(j, "recomputed", L->recomputed);
	rt_json_open(j, "arenas", '[');
	for (int d = 0; d < RT_DEVICES; d++) {
		if (!L->arena_bytes[d]) continue;
		rt_json_open(j, NULL, '{');
		rt_json_str(j, "device", rt_device_name(d));
		rt_json_int(j, "bytes", L->arena_bytes[d]);
		rt_json_close(j, '}');
	}
	rt_json_close(j, ']');
	rt_json_close(j, '}');
}

/* ---- a plan ---- */
static void see(void *env, lo_low *L, const rt_plan *p)
{
	looking *x = env;
	seen s = { .p = p };
	rt_json_open(&s.json, NULL, '{');
	put_nodes(L, &s.json);
	rt_json_open(&s.json, "steps", '[');
	for (uint32_t i = 0; i < L->step.n; i++) put_step(L, x, p, i, &s.json);
	rt_json_close(&s.json, ']');
	put_memory(L, &s.json);
	rt_json_close(&s.json, '}');
	x->oom |= L->oom | s.json.text.oom;
	if (rt_push(&x->of, s)) return;
	x->oom = true;
	rt_text_free(&s.json.text);
}

tj_status lo_put_data(const ir_graph *g, const lo_opts *o, const lo_data_opts *d, rt_json *to, const char *key, rt_err *err)
{
	looking x = { .d = d };
	lo_opts own = *o;
	rt_exec *made = NULL;
	own.keep_text = own.keep_assembly = own.keep_each = d->texts;
	own.see = see;
	own.see_env = &x;
	const tj_status st = lo_build(g, &own, &made, err);
	if (st == TJ_OK) rt_exec_unref(made);
	if (st == TJ_OK && x.of.n) rt_json_part(to, key, &x.of.v[x.of.n - 1].json.text);
	to->text.oom |= x.oom;
	for (uint32_t i = 0; i < x.of.n; i++) rt_text_free(&x.of.v[i].json.text);
	rt_vec_free(&x.of);
	return st;
}
