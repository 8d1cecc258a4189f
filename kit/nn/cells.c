/* SPDX-License-Identifier: MIT */
/* The cells of an optimiser: which rule a parameter has, what state it keeps, and what changes when it is frozen or thawed. */
#include "kit/nn/optim.h"

#include <fnmatch.h>
#include <stdio.h>

/* ---- groups ---- */
bool tjnn_is_matrix(void *env, const tjnn_slot *slot)
{
	(void)env;
	return slot->rank >= 2;
}

static bool is_last(const tjnn_group *g) { return !g->pattern && !g->match; }
static bool matches(const tjnn_group *g, const tjnn_slot *s)
{
	return (!g->pattern || !fnmatch(g->pattern, s->name, 0)) && (!g->match || g->match(g->env, s));
}

static int64_t rule_of(const tjnn_optim *o, const tjnn_slot *s)
{
	for (int64_t i = 0; i < o->groups; i++)
		if (matches(&o->group[i], s)) return i;
	return o->groups;
}

/* A group without parameters, frozen ones included, is a mistake. */
static const tjnn_group *empty_group(const tjnn_model *m, const tjnn_group *g)
{
	for (; g && !is_last(g); g++) {
		bool any = false;
		for (int64_t i = 0; !any && i < m->slots.n; i++)
			any = !m->slots.at[i].buffer && !m->slots.at[i].same_as && matches(g, &m->slots.at[i]);
		if (!any) return g;
	}
	return NULL;
}

static bool copy_groups(tjnn_optim *o, tjnn_rule rule, const tjnn_group *g)
{
	while (g && !is_last(&g[o->groups])) o->groups++;
	const int64_t n = o->groups;
	o->rule = calloc((size_t)n + 1, sizeof *o->rule);
	o->rate = calloc((size_t)n + 1, sizeof *o->rate);
	o->group = calloc((size_t)n + 1, sizeof *o->group);
	if (!o->rule || !o->rate || !o->group) return false;
	for (int64_t i = 0; i <= n; i++) {
		o->rule[i] = i < n ? g[i].rule : rule;
		o->rate[i] = o->rule[i].lr;
		if (i == n) continue;
		o->group[i] = g[i];
		if (g[i].pattern && !(o->group[i].pattern = strdup(g[i].pattern))) return false;
	}
	return true;
}

/* A cell named "optim.KIND.OF", or "optim.KIND", of that shape, with `value` everywhere. Where there is one too many, NULL. */
static tj_tensor **add_cell(const char *site, tjnn_optim *o, const char *kind, const char *of, tj_dtype dtype, tj_dims shape, double value)
{
	char name[NN_NAME + 32];
	tjnn_slot s = { .buffer = true, .dtype = dtype, .init = tjnn_constant(value), .var = &o->cell[o->cells] };
	if (o->cells == o->room) return NULL;
	snprintf(name, sizeof name, of ? "optim.%s.%s" : "optim.%s", kind, of);
	for (; shape[s.rank] != TJ_END_DIM; s.rank++) s.dim[s.rank] = shape[s.rank];
	s.dim[s.rank] = TJ_END_DIM;
	s.name = name;
	*s.var = tj_param_on(o->model->ctx, tj_device_of(*o->model->slots.at[0].var), dtype, shape);
	if (tj_is_poison(*s.var)) return NULL;
	o->cells++;
	const bool ok = (value == 0 || nn_write_initial(site, &s, s.init, 0) == TJ_OK) && nn_slots_add(&o->slots, s);
	return ok ? s.var : NULL;
}

/* Of parameter i; own: another rank does not have its state. */
static bool add_part(const char *site, tjnn_optim *o, int64_t slot, bool own)
{
	const tjnn_slot *s = &o->model->slots.at[slot];
	const char *name[NN_STATES];
	nn_part *p = &o->part[slot];
	p->rule = rule_of(o, s);
	const tjnn_rule *r = &o->rule[p->rule];
	p->states = own ? nn_rule_states(r, s->rank, name) : 0;
	for (int k = 0; k < p->states; k++)
		if (!(p->state[k] = add_cell(site, o, name[k], s->name, s->dtype, s->dim, r->method == TJNN_ADAGRAD ? r->initial : 0)))
			return false;
	if (o->o.accumulate > 1 && !(p->sum = add_cell(site, o, "grad", s->name, s->dtype, s->dim, 0))) return false;
	if (o->o.ema > 0 && !(p->average = add_cell(site, o, "ema", s->name, s->dtype, s->dim, 0))) return false;
	return p->made = true;
}

static void list_vars(tjnn_optim *o)
{
	const int64_t first = o->model->slots.n;
	for (int64_t i = 0; i < o->cells; i++) o->vars[first + i] = &o->cell[i];
	o->vars[first + o->cells] = TJ_END_VAR;
}

static bool add_cells(const char *site, tjnn_optim *o)
{
	const tjnn_model *m = o->model;
	const int64_t rules = o->groups + 1;
	o->room = m->slots.n * (NN_STATES + 4) + 4; /* parameters may be thawed later */
	o->cell = calloc((size_t)o->room, sizeof *o->cell);
	o->part = calloc((size_t)m->slots.n + 1, sizeof *o->part);
	o->vars = malloc((size_t)(m->slots.n + o->room + 1) * sizeof *o->vars);
	if (!o->cell || !o->part || !o->vars) return false;
	if (o->o.spread && o->o.comm) {
		o->owner = malloc((size_t)m->nparams * sizeof *o->owner);
		if (!o->owner) return false;
		nn_find_owners(m, tj_comm_size(o->o.comm), o->owner);
	}
	bool product = false;
	for (int64_t i = 0; i < rules; i++) product |= o->rule[i].method == TJNN_NADAM;
	o->step = add_cell(site, o, "step", NULL, TJ_F64, TJ_0D, 0);
	o->rates = add_cell(site, o, "rates", NULL, TJ_F64, TJ_SHAPE(rules), 0);
	if (!o->step || !o->rates || tj_write(*o->rates, o->rate, (size_t)rules * sizeof *o->rate) != TJ_OK) return false;
	if (o->o.accumulate > 1 && !(o->count = add_cell(site, o, "count", NULL, TJ_I64, TJ_0D, 0))) return false;
	if (product && !(o->product = add_cell(site, o, "mu_product", NULL, TJ_F64, TJ_SHAPE(rules), 1))) return false;
	for (int64_t i = 0; i < m->nparams; i++)
		if (!add_part(site, o, m->which[i], nn_is_own(o, i))) return false;
	memcpy(o->vars, m->vars, (size_t)m->slots.n * sizeof *o->vars);
	list_vars(o);
	return true;
}

static const char *misfit(const tjnn_model *m, const tjnn_optim_opts *o, const tjnn_rule *rule)
{
	if (m->optim) return "the model has an optimiser already";
	if (!m->nparams) return "the model has no parameter that is not frozen";
	if (o->spread && !o->comm) return ".spread needs a communicator, .comm";
	if (!(o->clip_norm >= 0) || !(o->clip_value >= 0) || o->accumulate < 0 || !(o->ema >= 0 && o->ema < 1))
		return ".clip_norm, .clip_value and .accumulate are 0 or more, .ema is from 0 to below 1";
	for (const tjnn_group *g = o->groups; g && !is_last(g); g++)
		if (nn_rule_misfit(&g->rule)) return nn_rule_misfit(&g->rule);
	return nn_rule_misfit(rule);
}

tjnn_optim *tjnn_optim_open_at(const char *site, tjnn_model *m, tjnn_rule rule, const tjnn_optim_opts *opts)
{
	KIT_OPTIONS(tjnn_optim_opts, o, opts, NULL)
	if (nn_refuses(site, m, "tjnn_optim_open", false)) return NULL;
	const char *why = misfit(m, &o, &rule);
	if (why) return tj_fail(TJ_ERR_ARG, "tjnn_optim_open", "", "%s", why), NULL;
	const tjnn_group *empty = empty_group(m, o.groups);
	if (empty) {
		tj_fail(TJ_ERR_ARG, "tjnn_optim_open", "tjnn_summary() prints the names; * stands for any characters",
		        "group %lld has no parameter: none matches \"%s\"", (long long)(empty - o.groups),
		        empty->pattern ? empty->pattern : "its function");
		return NULL;
	}
	tj_ctx *was = tj_ctx_use(m->ctx);
	tjnn_optim *p = calloc(1, sizeof *p);
	if (p) {
		p->model = m;
		p->o = o;
	}
	if (!p || !(p->life = nn_life_begin(site, m->ctx, NULL)) || !copy_groups(p, rule, o.groups) || !add_cells(site, p)) {
		tj_fail(TJ_ERR_NOMEM, "tjnn_optim_open", "", "out of memory");
		tjnn_optim_close(p);
		p = NULL;
	} else {
		m->optim = p;
	}
	tj_ctx_use(was);
	return p;
}

void nn_optim_detach(const char *site, tjnn_optim *o)
{
	tjnn_model *m = o->model;
	if (!m) return;
	if (o->swapped) nn_optim_exchange(o);
	for (int64_t i = 0; i < o->cells && !nn_life_gone(m->life); i++) tj_release(o->cell[i]);
	o->cells = 0;
	if (m->optim == o) m->optim = NULL;
	o->model = NULL;
}

void tjnn_optim_close_at(const char *site, tjnn_optim *o)
{
	if (!o) return;
	nn_optim_detach(site, o);
	nn_life_end(site, o->life);
	for (int64_t i = 0; o->group && i < o->groups; i++) free((void *)(uintptr_t)o->group[i].pattern);
	nn_slots_free(&o->slots);
	free(o->group);
	free(o->rule);
	free(o->rate);
	free(o->part);
	free(o->owner);
	free(o->cell);
	free(o->vars);
	free(o);
}

/* ---- freezing while it is open ---- */
static bool add_number(const char *site, double x, tj_tensor **cell) { return cell && tj_write(*cell, &x, sizeof x) == TJ_OK; }

/* The cells of a parameter that does not make all steps. */
static bool count_apart(const char *site, tjnn_optim *o, int64_t slot, double missed)
{
	const char *name = o->model->slots.at[slot].name;
	nn_part *p = &o->part[slot];
	if (!p->missed && !(p->missed = add_cell(site, o, "missed", name, TJ_F64, TJ_0D, 0))) return false;
	if (o->rule[p->rule].method != TJNN_NADAM || p->product) return add_number(site, missed, p->missed);
	p->product = add_cell(site, o, "mu_product", name, TJ_F64, TJ_0D, 1);
	return p->product && add_number(site, missed, p->missed);
}

/* A parameter that was frozen when the optimiser opened begins as it would have begun there. */
static bool begin_late(const char *site, tjnn_optim *o, int64_t slot, double steps)
{
	nn_part *p = &o->part[slot];
	if (!add_part(site, o, slot, true)) return false;
	if (p->average && tj_assign(*p->average, *o->model->slots.at[slot].var) != TJ_OK) return false;
	return count_apart(site, o, slot, steps); /* also where it has missed none: a checkpoint may say otherwise */
}

static bool turn_off(const char *site, tjnn_optim *o, int64_t slot, double steps)
{
	nn_part *p = &o->part[slot];
	const bool first = !p->missed;
	const double missed = (first ? 0 : tj_item(*p->missed)) - steps;
	if (!count_apart(site, o, slot, missed)) return false;
	const double product = first && p->product ? tj_item(tj_select(*o->product, 0, p->rule)) : 1;
	return !first || !p->product || add_number(site, product, p->product);
}

tj_status nn_optim_follow(const char *site, tjnn_optim *o)
{
	const tjnn_model *m = o->model;
	tj_scope *scope = tj_push(m->ctx);
	const double steps = tj_item(*o->step);
	bool ok = true;
	for (int64_t i = 0; ok && i < m->slots.n; i++) {
		nn_part *p = &o->part[i];
		const bool off = !nn_trained(m, i);
		if (!p->made && !off) ok = begin_late(site, o, i, steps);
		else if (p->made && off && !p->off) ok = turn_off(site, o, i, steps);
		else if (p->made && !off && p->off) ok = add_number(site, tj_item(*p->missed) + steps, p->missed);
		p->off = p->made && off;
	}
	list_vars(o);
	tj_pop(scope);
	return ok ? TJ_OK : TJ_ERR_NOMEM;
}
