/* SPDX-License-Identifier: MIT */
/* Optimisers: gradients of a loss, clipped and accumulated, move the parameters by their rules. All of it is ops of the body that is
 * traced, so forward, backward and update are one plan; what changes from step to step is in cells. */
#include "kit/nn/optim.h"

#include <float.h>
#include <stdio.h>

const nn_slots *nn_optim_slots(const tjnn_optim *o) { return &o->slots; }
bool nn_optim_swapped(const tjnn_optim *o) { return o->swapped; }

bool nn_optim_averages(const tjnn_optim *o) { return o->o.ema > 0; }

tj_comm *nn_optim_comm(const tjnn_optim *o) { return o->o.comm; }
int64_t nn_optim_accumulates(const tjnn_optim *o) { return o->o.accumulate > 1 ? o->o.accumulate : 1; }
const tj_scaler *nn_optim_scaler(const tjnn_optim *o) { return o->o.scaler; }
bool nn_optim_spread(const tjnn_optim *o) { return o->owner != NULL; }
nn_life *nn_optim_life(const tjnn_optim *o) { return o->life; }
const tjnn_model *nn_optim_model(const tjnn_optim *o) { return o->model; }

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
		tj_tensor *sum = tj_add(*nn_part_of(o, i)->sum, g[i]);
		tj_assign(*nn_part_of(o, i)->sum, tj_where(last, tj_f(0), sum));
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

/* Those of a parameter that has missed steps count its own. */
static nn_scalars scalars_of(const char *site, const nn_part *p, const nn_scalars *of_rule, tj_tensor *now)
{
	nn_scalars s = *of_rule;
	if (!p->missed) return s;
	s.t = tj_sub(s.t, *p->missed);
	if (p->product) s.product = *p->product;
	nn_rule_scalars(site, &s);
	if (p->product) assign_if(site, now, *p->product, s.product);
	return s;
}

/* The parameter behind the step, and its state, which is assigned. */
static tj_tensor *moved_by_rule(const char *site, const tjnn_optim *o, const nn_scalars *rules, int64_t i, tj_tensor *now, tj_tensor *g)
{
	const nn_part *p = nn_part_of(o, i);
	const nn_scalars s = scalars_of(site, p, &rules[p->rule], now);
	tj_tensor *state[NN_STATES];
	for (int k = 0; k < p->states; k++) state[k] = *p->state[k];
	tj_tensor *moved = nn_rule_move(site, &s, o->model->params[i], g, state);
	for (int k = 0; k < p->states; k++) assign_if(site, now, *p->state[k], state[k]);
	return moved;
}

static bool move_all(const char *site, const tjnn_optim *o, const nn_scalars *s, tj_tensor *now, tj_tensor **g)
{
	const int64_t n = o->model->nparams;
	for (int64_t i = 0; i < n; i++)
		if (nn_is_own(o, i)) g[i] = moved_by_rule(site, o, s, i, now, g[i]);
	if (o->owner && !nn_share_moved(site, o->o.comm, o->model, o->owner, g)) return false;
	for (int64_t i = 0; i < n; i++) {
		const nn_part *p = nn_part_of(o, i);
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

bool nn_optim_refuses(const char *site, const tjnn_optim *o, const char *op)
{
	if (o && o->model) return nn_refuses(site, o->model, op, true);
	tj_fail(o ? TJ_ERR_STATE : TJ_ERR_ARG, op, o ? "tjnn_optim_close() comes before tjnn_close()" : "did tjnn_optim_open() fail?", "%s",
	        o ? "the model was closed, and with it the optimiser" : "no optimiser");
	return true;
}

static bool refused(const char *site, const tjnn_optim *o, const char *op)
{
	if (nn_optim_refuses(site, o, op)) return true;
	if (o->swapped)
		tj_fail(TJ_ERR_STATE, op, "tjnn_optim_swap() puts the parameters back", "the averages are in place of the parameters");
	return o->swapped;
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
		const int n = nn_rule_states(&o->rule[nn_part_of(o, i)->rule], s->rank, kind);
		for (int k = 0; k < n; k++) {
			char name[NN_NAME + 32];
			tj_tensor *mine = nn_is_own(o, i) ? *nn_part_of(o, i)->state[k] : tj_full(s->dtype, s->dim, tj_f(0));
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
	if (nn_optim_refuses(site, o, op)) return NULL;
	double *rate = malloc((size_t)(o->groups + 1) * sizeof *rate);
	if (rate) return memcpy(rate, o->rate, (size_t)(o->groups + 1) * sizeof *rate);
	tj_fail(TJ_ERR_NOMEM, op, "", "out of memory");
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
int64_t tjnn_optim_steps_at(const char *site, tjnn_optim *o)
{
	return !o || nn_optim_refuses(site, o, "tjnn_optim_steps") ? 0 : (int64_t)tj_item(*o->step);
}
tj_vars tjnn_optim_vars(const tjnn_optim *o) { return o && o->model ? o->vars : NULL; }

void nn_optim_exchange(tjnn_optim *o)
{
	tjnn_model *m = o->model;
	for (int64_t i = 0; i < m->nparams; i++) {
		tj_tensor **var = m->slots.at[m->which[i]].var, **average = nn_part_of(o, i)->average, *is = *var;
		m->params[i] = *var = *average;
		*average = is;
	}
	for (int64_t k = 0; k < m->slots.n; k++) *m->slots.at[k].var = *m->slots.at[nn_owner(m, k)].var;
	o->swapped = !o->swapped;
}

tj_status tjnn_optim_swap_at(const char *site, tjnn_optim *o)
{
	if (nn_optim_refuses(site, o, "tjnn_optim_swap") || nn_refuses(site, o->model, "tjnn_optim_swap", false)) return TJ_ERR_STATE;
	if (o->o.ema == 0) {
		tj_fail(TJ_ERR_STATE, "tjnn_optim_swap", "set .ema of tjnn_optim_opts", "the optimiser keeps no averages");
		return TJ_ERR_STATE;
	}
	nn_optim_exchange(o);
	return TJ_OK;
}
