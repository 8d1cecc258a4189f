/* SPDX-License-Identifier: MIT */
/* Graphs: a function as graphs that a program reads, at several combinations of its sizes. A call without computing gives the events, which
 * become a graph as for a plan; then the program sees it, outside of the call. */
#include "ir/edit.h"
#include "jit/act.h"
#include "jit/call.h"
#include "jit/compile.h"
#include "jit/event.h"
#include "jit/sample.h"

typedef struct graphs {
	jit_sample s;
	tj_scalar *preset; /* of an imported function: its scalars */
	tj_fn *f;
	const jit_program *program; /* of an imported function; else NULL */
	tj_graph_opts o;
	uint32_t k; /* the combination of sizes */
	ir_graph g;
	rt_arena mem; /* of one graph */
	ir_source *input, *number;
	uint32_t ninput, nnumber;
	jit_handles var;               /* by variable */
	uint32_t *assigned, nassigned; /* variables */
} graphs;

static bool nomem(graphs *j) { return jit_sample_fail(&j->s, TJ_ERR_NOMEM, NULL, "out of memory"); }

/* ---- the graph of one call ---- */
static bool variable_of(graphs *j, jit_act *a, const jit_bound *b, ir_source *out)
{
	jit_from f;
	if (jit_from_outside(a, b, &f)) {
		*out = (ir_source){ .kind = f.kind == JIT_FROM_ARG ? IR_FROM_ARGUMENT : IR_FROM_VARIABLE, .index = f.index };
		return true;
	}
	out->kind = IR_FROM_VARIABLE;
	tj_tensor *h = jit_sample_variable(a, j->s.site, j->s.op, &j->var, b->h, &out->index);
	return h && (out->index < j->var.n || rt_push(&j->var, h) || nomem(j));
}

static ir_source number_of(const jit_act *a, uint32_t slot)
{
	const uint32_t from = slot < a->learn->from.n ? a->learn->from.v[slot] : JIT_FROM(JIT_KEY, 0);
	switch (from >> 28) {
	case JIT_CONST: return (ir_source){ .kind = IR_FROM_NUMBER, .bits = a->num.v[slot] };
	case JIT_ARG: return (ir_source){ .kind = IR_FROM_ARGUMENT, .index = from & 0xFFFFFFF };
	case JIT_SCALAR: return (ir_source){ .kind = IR_FROM_SCALAR, .index = from & 0xFFFFFFF };
	default: return (ir_source){ .kind = IR_FROM_NOWHERE };
	}
}

static bool find_sources(graphs *j, jit_act *a)
{
	j->ninput = a->ext.n;
	j->nnumber = a->num.n;
	j->input = rt_arena_alloc(&j->mem, (j->ninput + 1) * sizeof *j->input);
	j->number = rt_arena_alloc(&j->mem, (j->nnumber + 1) * sizeof *j->number);
	if (!j->input || !j->number) return nomem(j);
	for (uint32_t i = 0; i < j->ninput; i++)
		if (!variable_of(j, a, &a->ext.v[i], &j->input[i])) return false;
	for (uint32_t i = 0; i < j->nnumber; i++) j->number[i] = number_of(a, i);
	for (uint32_t i = 0; i < j->nassigned; i++) {
		ir_source s;
		if (!variable_of(j, a, &(jit_bound){ .h = &a->cell.v[j->assigned[i]]->t }, &s)) return false;
		if (s.kind != IR_FROM_VARIABLE)
			return jit_sample_fail(&j->s, TJ_ERR_STATE, "return the new value", "the body assigns to an argument");
		j->assigned[i] = s.index;
	}
	return true;
}

static bool see(void *env, jit_act *a, uint32_t n, tj_tensor *const *res)
{
	graphs *j = env;
	rt_err err = { 0 };
	if (!jit_is_whole(a, j->s.site, j->s.op)) return false;
	j->var.n = 0;
	for (uint32_t i = 0; i < j->f->nstate; i++)
		if (rt_is_number(*j->f->state[i]))
			return jit_sample_fail(&j->s, TJ_ERR_STATE, "pass it by tj_call_ex()", "a declared variable is a number");
		else if (!rt_push(&j->var, *j->f->state[i]))
			return nomem(j);
	jit_node *end = jit_step(a, j->f->site, JIT_RETURN, (int)n, res, 0, NULL);
	if (!end || !jit_one_commit(a)) return false;
	j->assigned = rt_arena_alloc(&j->mem, (end->ncell + 1u) * sizeof *j->assigned);
	if (!j->assigned) return nomem(j);
	if (!jit_graph_of_call(&j->g, a, end, j->assigned, &j->nassigned, &err)) return jit_report(a->ctx, j->s.site, &err), false;
	return find_sources(j, a);
}

/* ---- combinations of sizes: enough to see how a number depends on each of them, and on two together ---- */
enum { EACH = 4 };

/* The size that the arguments have, -1: they have none. */
static int64_t known_size(const jit_sample *s, int symbol)
{
	for (uint32_t i = 0; s->known && i < s->narg; i++)
		for (int d = 0; d < s->arg[i].rank; d++)
			if (s->arg[i].symbol[d] == symbol) return s->arg[i].dim[d];
	return -1;
}

/* The i-th of some sizes that a symbol may have: from the one that it has on, if that is known. None of them is 0 or 1 if it can be helped:
 * these are simplified away. */
static int64_t size_of(const jit_sample *j, uint32_t symbol, int64_t i)
{
	static const int64_t step[EACH] = { 0, 1, 3, 8 };
	const gd_symbol *s = &j->symbol[symbol];
	const int64_t n = jit_symbol_count(s), known = known_size(j, (int)symbol), least = known > 2 ? known : 2;
	int64_t first = 0;
	if (known > 2 && s->mod > 1)
		first = (known - jit_symbol_size(s, 0)) / s->mod;
	else if (known > 2)
		first = known - jit_symbol_size(s, 0);
	while (first + 1 < n && first < 64 && jit_symbol_size(s, first) < least) first++;
	if (first < 0 || first >= n) first = 0;
	const int64_t at = first + step[i];
	return jit_symbol_size(s, at < n ? at : i < n - first ? first + i : first >= i ? first - i : n - 1);
}

/* One base, then each symbol alone at three other sizes, then all together. Symbols begin at different places, so that equal sizes do not
 * hide which of them a number follows. */
static bool choose_sizes(graphs *j)
{
	jit_sample *s = &j->s;
	for (uint32_t i = 0; j->o.static_sizes && s->known && i < s->narg; i++) memset(s->arg[i].symbol, -1, sizeof s->arg[i].symbol);
	if (j->o.static_sizes && s->known) s->nsymbol = 0;
	const uint32_t m = s->nsymbol;
	s->n = m && !j->o.static_sizes ? 1 + m * (EACH - 1) + (m > 1 ? 3 : 0) : 1;
	if (!(s->sizes = rt_calloc(((size_t)s->n * m + 1) * sizeof *s->sizes))) return nomem(j);
	for (uint32_t i = 0; i < m; i++)
		if (!jit_symbol_count(&s->symbol[i]))
			return jit_sample_fail(s, TJ_ERR_ARG, "look at the ranges in .shapes", "no size %s is allowed", s->symbol[i].name);
	for (uint32_t k = 0; k < s->n; k++)
		for (uint32_t i = 0; i < m; i++) {
			const uint32_t alone = k ? (k - 1) / (EACH - 1) : m, turn = k ? (k - 1) % (EACH - 1) + 1 : 0;
			const uint32_t base = s->known ? 0 : i % EACH, all = k > m * (EACH - 1);
			s->sizes[k * m + i] = size_of(s, i, (base + (all || alone == i ? turn : 0)) % EACH);
		}
	return true;
}

/* ---- visits ---- */
static tj_status show(graphs *j, tj_graph_visit *visit)
{
	const ir_reading r = { j->input, j->number, j->ninput, j->nnumber, j->o.keeps, j->o.self, j };
	tj_graph g;
	tj_status st = TJ_ERR_COMPILE;
	if (ir_edit_read(&g, &j->g, &r)) st = visit(j->o.self, &g);
	if (g.err.code != TJ_OK) st = g.err.code, jit_report(j->s.c, j->s.site, &g.err);
	ir_edit_free(&g);
	return st;
}

static tj_status one(graphs *j, tj_graph_visit *visit, tj_tensor **in)
{
	tj_scope *s = tj_push_at(j->s.site, j->s.c);
	tj_status st = TJ_ERR_STATE;
	ir_graph_init(&j->g);
	if (s && jit_sample_make(&j->s, j->s.c, j->k, in)) {
		st = jit_call_dry(j->s.c, j->s.site, j->f, in, j->s.scalars, see, j);
		jit_sample_drop(&j->s, in);
	}
	if (st == TJ_OK) st = show(j, visit);
	if (s) tj_pop_at(j->s.site, s);
	ir_graph_free(&j->g);
	rt_arena_free(&j->mem);
	j->mem = (rt_arena){ 0 };
	return st;
}

static tj_status all(graphs *j, tj_graph_visit *visit)
{
	tj_tensor **in = rt_alloc((j->s.narg + 1) * sizeof *in);
	tj_status st = in ? TJ_OK : TJ_ERR_NOMEM;
	if (!in) nomem(j);
	for (j->k = 0; st == TJ_OK && j->k < j->s.n; j->k++) st = one(j, visit, in);
	rt_free(in);
	return st;
}

/* ---- the function: a copy with nothing of the user's, in direct mode ---- */
static bool is_plain(graphs *j, const tj_fn *f)
{
	if (f->npass || f->opts.backend || j->s.c->engine->pass.n)
		return jit_sample_fail(&j->s, TJ_ERR_STATE, "leave out .passes and .backend", "%s has passes or a back end of the program",
		                       f->name);
	if (f->opts.guard_filter)
		return jit_sample_fail(&j->s, TJ_ERR_STATE, "leave out .guard_filter", "%s has guards that may be dropped", f->name);
	return true;
}

tj_status tj_graph_of_at(const char *site, tj_fn *f, tj_graph_visit *visit, const tj_graph_opts *opts)
{
	JIT_CURRENT(c, site);
	JIT_OPTIONS(tj_graph_opts, o, opts);
	if (!c || jit_refuses_in_body(c, site, "graph")) return TJ_ERR_STATE;
	graphs j = { .s = { .c = c, .site = site, .op = "graph", .f = f, .inputs = o.inputs, .scalars = o.scalars }, .o = o };
	bool ok = !jit_odd_size(o.size) || jit_sample_fail(&j.s, TJ_ERR_ARG, JIT_SIZES, o.size);
	ok = ok &&
	     ((f && visit) || jit_sample_fail(&j.s, TJ_ERR_ARG, "tj_graph_of(f, visit, NULL)", "%s is NULL", f ? "visit" : "the function"));
	ok = ok && (f->engine == c->engine ||
	            jit_sample_fail(&j.s, TJ_ERR_FOREIGN, "use a context of its engine", "%s belongs to another engine", f->name));
	ok = ok && is_plain(&j, f) && jit_sample_arguments(&j.s);
	if (ok) j.program = f->program;
	if (ok && f->program && !j.s.scalars && f->program->scalar.n) {
		tj_scalar *s = j.preset = rt_alloc((f->program->scalar.n + 1) * sizeof *s);
		ok = s || nomem(&j);
		if (s) memcpy(s, f->program->scalar.v, f->program->scalar.n * sizeof *s), s[f->program->scalar.n].kind = TJ_SCALAR_END;
		j.s.scalars = s;
	}
	ok = ok && choose_sizes(&j) && jit_sample_zeros(&j.s) && (j.f = jit_copy_function(c, site, f));
	const tj_status st = ok ? all(&j, visit) : c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (j.f) tj_fn_free_at(site, j.f);
	rt_vec_free(&j.var);
	jit_sample_free(&j.s);
	rt_free(j.preset);
	return st;
}

/* ---- what the graph says of its function ---- */
static const graphs *of(const tj_graph *g) { return g && g->reading ? g->reading->of : NULL; }

const char *tj_graph_name(const tj_graph *g) { return of(g) ? of(g)->s.f->name : ""; }

bool tj_graph_argument(const tj_graph *g, int i, tj_graph_value *out)
{
	const graphs *j = of(g);
	if (!j || i < 0 || (uint32_t)i >= j->s.narg) return false;
	const jit_want *w = &j->s.arg[i];
	const gd_spec *s = j->s.f->spec;
	*out = (tj_graph_value){ .name = s && (uint32_t)i < s->narg ? s->arg[i].name : "", .rank = w->kind <= GD_CELL ? w->rank : -1 };
	out->dtype = w->kind <= GD_CELL ? (tj_dtype)w->dtype : w->kind == GD_INT ? TJ_I64 : TJ_F64;
	for (int d = 0; d < out->rank; d++) {
		out->vary[d] = j->o.static_sizes ? -1 : w->symbol[d];
		out->dim[d] = w->symbol[d] < 0 ? w->dim[d] : j->s.sizes[j->k * j->s.nsymbol + (uint32_t)w->symbol[d]];
	}
	out->dim[out->rank < 0 ? 0 : out->rank] = TJ_END_DIM;
	return true;
}

bool tj_graph_variable(const tj_graph *g, int i, tj_graph_value *out)
{
	const graphs *j = of(g);
	if (!j || i < 0 || (uint32_t)i >= j->var.n) return false;
	tj_tensor *t = j->var.v[i];
	const tj_fn *f = j->s.f;
	*out = (tj_graph_value){ .name = "", .dtype = (tj_dtype)t->dtype, .rank = t->rank, .t = t, .weight = true };
	for (int d = 0; d < t->rank; d++) out->dim[d] = t->layout->dim[d], out->vary[d] = -1;
	out->dim[t->rank] = TJ_END_DIM;
	for (uint32_t k = 0; k < j->nassigned; k++) out->weight &= j->assigned[k] != (uint32_t)i;
	if ((uint32_t)i < f->nstate - f->nfreeze) out->weight = false;
	if (j->program && (uint32_t)i < j->program->var.n) out->name = j->program->var.v[i].name, out->weight = !j->program->var.v[i].cell;
	return true;
}

bool tj_graph_size_of(const tj_graph *g, int i, tj_graph_size *out)
{
	const graphs *j = of(g);
	if (!j || i < 0 || (uint32_t)i >= j->s.nsymbol || j->o.static_sizes) return false;
	const gd_symbol *s = &j->s.symbol[i];
	*out = (tj_graph_size){ s->name, j->s.sizes[j->k * j->s.nsymbol + (uint32_t)i], s->least, s->most };
	return true;
}

int tj_graph_assigns(const tj_graph *g, int output)
{
	const graphs *j = of(g);
	const int64_t i = j ? (int64_t)output - (tj_graph_outputs(g) - (int64_t)j->nassigned) : -1;
	return j && !g->up && i >= 0 && i < j->nassigned ? (int)j->assigned[i] : -1;
}

bool tj_graph_last(const tj_graph *g) { return of(g) && of(g)->k + 1 == of(g)->s.n; }
