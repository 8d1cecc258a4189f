/* SPDX-License-Identifier: MIT */
/* Optimisers: gradients of a loss, clipped and accumulated, move the parameters by their rules. All of it is ops of the body that is
 * traced, so forward, backward and update are one plan; what changes from step to step is in cells. */
#include "kit/nn/nn.h"

#include <float.h>
#include <fnmatch.h>
#include <stdio.h>

typedef struct part { /* of a parameter; pointers into cell[] */
	int64_t rule;
	int states; /* 0: another rank has them, if .spread */
	tj_tensor **state[NN_STATES], **sum /* of gradients; NULL: not accumulated */, **average;
} part;

struct tjnn_optim {
	tjnn_model *model;
	tjnn_optim_opts o;
	tjnn_rule *rule; /* of the groups, then that of all others */
	char **pattern;
	int64_t groups;            /* rules: one more */
	double *rate;              /* what the cell of rates has, by rule */
	part *part;                /* by parameter */
	nn_slots slots;            /* of cell[], as far as a checkpoint has them: all */
	tj_tensor **cell, ***vars; /* vars: those of the model, then of cell[], then TJ_END_VAR */
	int64_t cells, room;
	tj_tensor **step, **rates; /* f64 []; f64 [rules] */
	tj_tensor **count;         /* i64 []: gradients in the sums */
	tj_tensor **product;       /* f64 [rules]: see nn_scalars; NULL: no rule needs it */
	int *owner;                /* rank that moves a parameter; NULL: each does */
	bool swapped;
};

const nn_slots *nn_optim_slots(const tjnn_optim *o) { return &o->slots; }
bool nn_optim_swapped(const tjnn_optim *o) { return o->swapped; }

bool nn_optim_averages(const tjnn_optim *o) { return o->o.ema > 0; }

tj_comm *nn_optim_comm(const tjnn_optim *o) { return o->o.comm; }
int64_t nn_optim_accumulates(const tjnn_optim *o) { return o->o.accumulate > 1 ? o->o.accumulate : 1; }
const tj_scaler *nn_optim_scaler(const tjnn_optim *o) { return o->o.scaler; }
bool nn_optim_spread(const tjnn_optim *o) { return o->owner != NULL; }
static bool is_own(const tjnn_optim *o, int64_t i) { return !o->owner || o->owner[i] == tj_comm_rank(o->o.comm); }

/* ---- opening ---- */
static int64_t rule_of(const tjnn_optim *o, const char *name)
{
	for (int64_t i = 0; i < o->groups; i++)
		if (!fnmatch(o->pattern[i], name, 0)) return i;
	return o->groups;
}

static bool copy_groups(tjnn_optim *o, tjnn_rule rule, const tjnn_group *g)
{
	while (g && g[o->groups].pattern) o->groups++;
	const int64_t n = o->groups;
	o->rule = calloc((size_t)n + 1, sizeof *o->rule);
	o->rate = calloc((size_t)n + 1, sizeof *o->rate);
	o->pattern = calloc((size_t)n + 1, sizeof *o->pattern);
	if (!o->rule || !o->rate || !o->pattern) return false;
	for (int64_t i = 0; i <= n; i++) {
		o->rule[i] = i < n ? g[i].rule : rule;
		o->rate[i] = o->rule[i].lr;
		if (i < n && !(o->pattern[i] = strdup(g[i].pattern))) return false;
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
	s.name = strdup(name);
	*s.var = tj_param_on(o->model->ctx, tj_device_of(*o->model->slots.at[0].var), dtype, shape);
	if (!s.name || tj_is_poison(*s.var) || (value != 0 && nn_write_initial(site, &s, s.init, 0) != TJ_OK))
		return free((void *)(uintptr_t)s.name), NULL;
	o->slots.at[o->slots.n++] = s;
	o->cells++;
	return s.var;
}

static bool add_part(const char *site, tjnn_optim *o, int64_t i)
{
	const tjnn_slot *s = &o->model->slots.at[o->model->which[i]];
	const char *name[NN_STATES];
	part *p = &o->part[i];
	p->rule = rule_of(o, s->name);
	const tjnn_rule *r = &o->rule[p->rule];
	p->states = is_own(o, i) ? nn_rule_states(r, s->rank, name) : 0;
	for (int k = 0; k < p->states; k++)
		if (!(p->state[k] = add_cell(site, o, name[k], s->name, s->dtype, s->dim, r->method == TJNN_ADAGRAD ? r->initial : 0)))
			return false;
	if (o->o.accumulate > 1 && !(p->sum = add_cell(site, o, "grad", s->name, s->dtype, s->dim, 0))) return false;
	return o->o.ema == 0 || (p->average = add_cell(site, o, "ema", s->name, s->dtype, s->dim, 0));
}

static bool add_cells(const char *site, tjnn_optim *o)
{
	const tjnn_model *m = o->model;
	const int64_t rules = o->groups + 1;
	o->room = m->nparams * (NN_STATES + 2) + 4;
	o->cell = calloc((size_t)o->room, sizeof *o->cell);
	o->slots.at = calloc((size_t)o->room, sizeof *o->slots.at);
	o->part = calloc((size_t)m->nparams + 1, sizeof *o->part);
	o->vars = malloc((size_t)(m->slots.n + o->room + 1) * sizeof *o->vars);
	if (!o->cell || !o->slots.at || !o->part || !o->vars) return false;
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
		if (!add_part(site, o, i)) return false;
	memcpy(o->vars, m->vars, (size_t)m->slots.n * sizeof *o->vars);
	for (int64_t i = 0; i < o->cells; i++) o->vars[m->slots.n + i] = &o->cell[i];
	o->vars[m->slots.n + o->cells] = TJ_END_VAR;
	return true;
}

static const char *misfit(const tjnn_model *m, const tjnn_optim_opts *o, const tjnn_rule *rule)
{
	if (m->optim) return "the model has an optimiser already";
	if (!m->nparams) return "the model has no parameter that is not frozen";
	if (o->spread && !o->comm) return ".spread needs a communicator, .comm";
	if (!(o->clip_norm >= 0) || !(o->clip_value >= 0) || o->accumulate < 0 || !(o->ema >= 0 && o->ema < 1))
		return ".clip_norm, .clip_value and .accumulate are 0 or more, .ema is from 0 to below 1";
	for (const tjnn_group *g = o->groups; g && g->pattern; g++)
		if (nn_rule_misfit(&g->rule)) return nn_rule_misfit(&g->rule);
	return nn_rule_misfit(rule);
}

tjnn_optim *tjnn_optim_open_at(const char *site, tjnn_model *m, tjnn_rule rule, const tjnn_optim_opts *opts)
{
	KIT_OPTIONS(tjnn_optim_opts, o, opts, NULL)
	if (!m) return tj_fail(TJ_ERR_ARG, "tjnn_optim_open", "did tjnn_open() fail?", "no model"), NULL;
	const char *why = misfit(m, &o, &rule);
	if (why) return tj_fail(TJ_ERR_ARG, "tjnn_optim_open", "", "%s", why), NULL;
	tj_ctx *was = tj_ctx_use(m->ctx);
	tjnn_optim *p = calloc(1, sizeof *p);
	if (p) {
		p->model = m;
		p->o = o;
	}
	if (!p || !copy_groups(p, rule, o.groups) || !add_cells(site, p)) {
		tj_fail(TJ_ERR_NOMEM, "tjnn_optim_open", "", "out of memory");
		tjnn_optim_close(p);
		p = NULL;
	} else {
		m->optim = p;
	}
	tj_ctx_use(was);
	return p;
}

void tjnn_optim_close_at(const char *site, tjnn_optim *o)
{
	if (!o) return;
	if (o->swapped) tjnn_optim_swap(o);
	for (int64_t i = 0; i < o->cells; i++) tj_release(o->cell[i]);
	for (int64_t i = 0; o->pattern && i < o->groups; i++) free(o->pattern[i]);
	if (o->model->optim == o) o->model->optim = NULL;
	nn_slots_free(&o->slots);
	free(o->pattern);
	free(o->rule);
	free(o->rate);
	free(o->part);
	free(o->owner);
	free(o->cell);
	free(o->vars);
	free(o);
}

/* ---- gradients ---- */
static void clip_values(const char *site, const tjnn_optim *o, tj_tensor **g)
{
	tj_tensor *least = tj_f(-o->o.clip_value), *most = tj_f(o->o.clip_value);
	for (int64_t i = 0; o->o.clip_value > 0 && i < o->model->nparams; i++) g[i] = tj_clamp(g[i], least, most);
}

/* PyTorch's clip_grad_norm_(): the norm of the norms of all. */
static void clip_norm(const char *site, const tjnn_optim *o, tj_tensor **g)
{
	tj_tensor *sum = NULL;
	if (o->o.clip_norm == 0) return;
	for (int64_t i = 0; i < o->model->nparams; i++) {
		tj_tensor *one = tj_sum(tj_square(tj_dtype_of(g[i]) == TJ_F64 ? g[i] : tj_cast(g[i], TJ_F32)), TJ_ALL, false);
		sum = sum ? tj_add(sum, one) : one;
	}
	tj_tensor *scale = tj_minimum(tj_div(tj_f(o->o.clip_norm), tj_add(tj_sqrt(sum), tj_f(1e-6))), tj_f(1));
	for (int64_t i = 0; i < o->model->nparams; i++) g[i] = tj_mul(g[i], tj_cast(scale, tj_dtype_of(g[i])));
}

/* Adds the gradients to the sums. Gives what is in them, and whether parameters move now: NULL is always. */
static tj_tensor *accumulated(const char *site, const tjnn_optim *o, tj_tensor **g)
{
	if (o->o.accumulate < 2) return NULL;
	tj_tensor *n = tj_add(*o->count, tj_i(1)), *last = tj_ge(n, tj_i(o->o.accumulate));
	for (int64_t i = 0; i < o->model->nparams; i++) {
		tj_tensor *sum = tj_add(*o->part[i].sum, g[i]);
		tj_assign(*o->part[i].sum, tj_where(last, tj_f(0), sum));
		g[i] = tj_div(sum, tj_f((double)o->o.accumulate));
	}
	tj_assign(*o->count, tj_where(last, tj_i(0), n));
	return last;
}

/* ---- moving ---- */
static void assign_if(const char *site, tj_tensor *now, tj_tensor *cell, tj_tensor *value)
{
	tj_assign(cell, now ? tj_where(now, value, cell) : value);
}

static void scalars(const char *site, const tjnn_optim *o, tj_tensor *t, nn_scalars *s)
{
	for (int64_t i = 0; i <= o->groups; i++) {
		s[i] = (nn_scalars){ .rule = &o->rule[i], .lr = tj_select(*o->rates, 0, i), .t = t };
		if (o->product) s[i].product = tj_select(*o->product, 0, i);
		nn_rule_scalars(site, &s[i]);
	}
}

/* The parameter behind the step, and its state, which is assigned. */
static tj_tensor *moved_by_rule(const char *site, const tjnn_optim *o, const nn_scalars *s, int64_t i, tj_tensor *now, tj_tensor *g)
{
	const part *p = &o->part[i];
	tj_tensor *state[NN_STATES];
	for (int k = 0; k < p->states; k++) state[k] = *p->state[k];
	tj_tensor *moved = nn_rule_move(site, &s[p->rule], o->model->params[i], g, state);
	for (int k = 0; k < p->states; k++) assign_if(site, now, *p->state[k], state[k]);
	return moved;
}

static bool move_all(const char *site, const tjnn_optim *o, const nn_scalars *s, tj_tensor *now, tj_tensor **g)
{
	const int64_t n = o->model->nparams;
	for (int64_t i = 0; i < n; i++)
		if (is_own(o, i)) g[i] = moved_by_rule(site, o, s, i, now, g[i]);
	if (o->owner && !nn_share_moved(site, o->o.comm, o->model, o->owner, g)) return false;
	for (int64_t i = 0; i < n; i++) {
		const part *p = &o->part[i];
		assign_if(site, now, o->model->params[i], g[i]);
		if (!p->average) continue;
		tj_tensor *mean = tj_add(*p->average, tj_mul(tj_sub(g[i], *p->average), tj_f(1 - o->o.ema)));
		assign_if(site, now, *p->average, tj_where(tj_eq(s->t, tj_f(1)), g[i], mean)); /* the first one is the parameter */
	}
	return true;
}

static tj_status update(const char *site, tjnn_optim *o, tj_tensor **g)
{
	const int64_t rules = o->groups + 1;
	nn_scalars *s = malloc((size_t)rules * sizeof *s);
	tj_tensor **product = malloc((size_t)(rules + 1) * sizeof *product);
	if (!s || !product) return free(s), free(product), tj_fail(TJ_ERR_NOMEM, "tjnn_optim_step", "", "out of memory"), TJ_ERR_NOMEM;
	bool ok = !o->o.comm || nn_reduce_gradients(site, o->o.comm, g, o->model->nparams, o->o.bucket_bytes);
	tj_tensor *now = accumulated(site, o, g);
	if (o->o.scaler) {
		tj_tensor *finite = tj_unscale(o->o.scaler, g, (int)o->model->nparams);
		tj_scaler_update(o->o.scaler, now ? tj_logical_or(finite, tj_logical_not(now)) : finite);
		now = now ? tj_logical_and(now, finite) : finite;
	}
	clip_values(site, o, g);
	clip_norm(site, o, g);
	tj_tensor *t = tj_add(*o->step, tj_f(1));
	scalars(site, o, t, s);
	ok = move_all(site, o, s, now, g) && ok;
	for (int64_t i = 0; i < rules; i++) product[i] = s[i].product;
	product[rules] = TJ_END;
	if (o->product) assign_if(site, now, *o->product, tj_stack(product, 0));
	assign_if(site, now, *o->step, t);
	free(s);
	free(product);
	return ok ? TJ_OK : TJ_ERR_NOMEM;
}

static bool refused(const char *site, const tjnn_optim *o, const char *op)
{
	if (!o)
		tj_fail(TJ_ERR_ARG, op, "did tjnn_optim_open() fail?", "no optimiser");
	else if (o->swapped)
		tj_fail(TJ_ERR_STATE, op, "tjnn_optim_swap() puts the parameters back", "the averages are in place of the parameters");
	return !o || o->swapped;
}

tj_status tjnn_optim_step_at(const char *site, tjnn_optim *o, tj_tensor *loss)
{
	if (refused(site, o, "tjnn_optim_step")) return TJ_ERR_STATE;
	tj_tensor **g = malloc((size_t)(o->model->nparams + 1) * sizeof *g);
	if (!g) return tj_fail(TJ_ERR_NOMEM, "tjnn_optim_step", "", "out of memory"), TJ_ERR_NOMEM;
	tj_status st = tj_grad(g, o->o.scaler ? tj_scale_loss(o->o.scaler, loss) : loss, o->model->params, NULL);
	if (st == TJ_OK) st = update(site, o, g);
	free(g);
	return st;
}

tj_status tjnn_optim_update_at(const char *site, tjnn_optim *o, tj_list grad)
{
	if (refused(site, o, "tjnn_optim_update")) return TJ_ERR_STATE;
	const int64_t n = kit_length(grad);
	if (n != o->model->nparams) {
		tj_fail(TJ_ERR_ARG, "tjnn_optim_update", "one for each of tjnn_params()", "%lld gradients for %lld parameters",
		        (long long)n, (long long)o->model->nparams);
		return TJ_ERR_ARG;
	}
	tj_tensor **g = malloc((size_t)(n + 1) * sizeof *g);
	if (!g) return tj_fail(TJ_ERR_NOMEM, "tjnn_optim_update", "", "out of memory"), TJ_ERR_NOMEM;
	memcpy(g, grad, (size_t)n * sizeof *g);
	const tj_status st = update(site, o, g);
	free(g);
	return st;
}

/* ---- state that is spread ---- */
void nn_optim_gather(const char *site, const tjnn_optim *o, void (*see)(void *env, const char *name, tj_tensor *value), void *env)
{
	for (int64_t i = 0; o->owner && i < o->model->nparams; i++) {
		const tjnn_slot *s = &o->model->slots.at[o->model->which[i]];
		const char *kind[NN_STATES];
		const int n = nn_rule_states(&o->rule[o->part[i].rule], s->rank, kind);
		for (int k = 0; k < n; k++) {
			char name[NN_NAME + 32];
			tj_tensor *mine = is_own(o, i) ? *o->part[i].state[k] : tj_full(s->dtype, s->dim, tj_f(0));
			snprintf(name, sizeof name, "optim.%s.%s", kind[k], s->name);
			see(env, name, tj_broadcast(o->o.comm, mine, o->owner[i]));
		}
	}
}

/* ---- rates, averages ---- */
static int64_t rule_index(const tjnn_optim *o, int64_t group) { return group == -1 ? o->groups : group; }

/* One write for all rates; none if they are what they were. */
static tj_status write_rates(const char *site, tjnn_optim *o, const double *rate)
{
	const size_t bytes = (size_t)(o->groups + 1) * sizeof *rate;
	if (!memcmp(rate, o->rate, bytes)) return TJ_OK;
	const tj_status st = tj_write(*o->rates, rate, bytes);
	if (st == TJ_OK) memcpy(o->rate, rate, bytes);
	return st;
}

tj_status nn_optim_read_rates(const char *site, tjnn_optim *o)
{
	return tj_read(*o->rates, o->rate, (size_t)(o->groups + 1) * sizeof *o->rate);
}

/* A copy of the rates, to be changed; NULL after an error. The caller frees it. */
static double *copied_rates(const char *site, const tjnn_optim *o, const char *op)
{
	double *rate = o ? malloc((size_t)(o->groups + 1) * sizeof *rate) : NULL;
	if (rate) return memcpy(rate, o->rate, (size_t)(o->groups + 1) * sizeof *rate);
	tj_fail(o ? TJ_ERR_NOMEM : TJ_ERR_ARG, op, "", "%s", o ? "out of memory" : "no optimiser");
	return NULL;
}

tj_status tjnn_optim_set_rate_at(const char *site, tjnn_optim *o, int64_t group, double lr)
{
	double *rate = copied_rates(site, o, "tjnn_optim_set_rate");
	tj_status st = TJ_ERR_ARG;
	if (rate && (group < -1 || group >= o->groups || !(lr >= 0)))
		tj_fail(TJ_ERR_ARG, "tjnn_optim_set_rate", "", "%s", lr >= 0 ? "there is no such group" : "a rate is 0 or more");
	else if (rate) {
		rate[rule_index(o, group)] = lr;
		st = write_rates(site, o, rate);
	}
	free(rate);
	return st;
}

tj_status nn_optim_schedule(const char *site, tjnn_optim *o, const tjnn_schedule *s, int64_t step)
{
	double *rate = copied_rates(site, o, "tjnn_schedule_set");
	bool ok = rate;
	for (int64_t i = 0; ok && i <= o->groups; i++) {
		rate[i] = tjnn_schedule_at(s, o->rule[i].lr, step);
		ok = rate[i] >= 0 && rate[i] <= DBL_MAX;
		if (!ok) tj_fail(TJ_ERR_ARG, "tjnn_schedule_set", "", "a rate of %g at step %lld", rate[i], (long long)step);
	}
	const tj_status st = ok ? write_rates(site, o, rate) : TJ_ERR_ARG;
	free(rate);
	return st;
}

tj_status nn_optim_reduce(const char *site, tjnn_optim *o, double factor, double min)
{
	double *rate = copied_rates(site, o, "tjnn_plateau_look");
	for (int64_t i = 0; rate && i <= o->groups; i++) {
		const double less = rate[i] * factor < min ? min : rate[i] * factor;
		if (rate[i] - less > 1e-8) rate[i] = less; /* PyTorch's eps */
	}
	const tj_status st = rate ? write_rates(site, o, rate) : TJ_ERR_ARG;
	free(rate);
	return st;
}

double tjnn_optim_rate(const tjnn_optim *o, int64_t group)
{
	return o && group >= -1 && group < o->groups ? o->rate[rule_index(o, group)] : 0;
}
int64_t tjnn_optim_steps_at(const char *site, tjnn_optim *o) { return o ? (int64_t)tj_item(*o->step) : 0; }
tj_vars tjnn_optim_vars(const tjnn_optim *o) { return o ? o->vars : NULL; }

tj_status tjnn_optim_swap_at(const char *site, tjnn_optim *o)
{
	if (!o || o->o.ema == 0) {
		tj_fail(TJ_ERR_STATE, "tjnn_optim_swap", o ? "set .ema of tjnn_optim_opts" : "did tjnn_optim_open() fail?", "%s",
		        o ? "the optimiser keeps no averages" : "no optimiser");
		return TJ_ERR_STATE;
	}
	tjnn_model *m = o->model;
	for (int64_t i = 0; i < m->nparams; i++) {
		const tjnn_slot *s = &m->slots.at[m->which[i]];
		tj_tensor *is = *s->var, *other = *o->part[i].average;
		for (int64_t k = 0; k < m->slots.n; k++)
			if (&m->slots.at[k] == s || (m->slots.at[k].same_as && !strcmp(m->slots.at[k].same_as, s->name)))
				*m->slots.at[k].var = other;
		*o->part[i].average = is;
		m->params[i] = other;
	}
	o->swapped = !o->swapped;
	return TJ_OK;
}
