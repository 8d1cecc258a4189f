/* SPDX-License-Identifier: MIT */
/* L-BFGS with a line search for the strong Wolfe conditions: Nocedal and Wright, "Numerical Optimization", algorithms 3.5, 3.6 and 7.4.
 * The vectors are in C, in f64; loss and gradient are one compiled function of all parameters as one vector. */
#include "kit/nn/nn.h"

#include <math.h>

typedef struct point {
	double *x, *g, loss;
} point; /* parameters, gradient */

struct tjnn_lbfgs {
	const char *site; /* that opened it: of errors of the gradient */
	tjnn_model *model;
	nn_life *life, *of_model;
	tj_body *body;
	void *self;
	int nin;
	tjnn_lbfgs_opts o;
	tj_fn *f;
	int64_t n;                 /* elements */
	point now, next;           /* next: at the end of a line search */
	double *direction, *s, *y; /* s, y: history [.history,n], the newest at (pairs - 1) % .history */
	double *rho, *alpha;
	int64_t pairs, evaluations;
	tj_list in; /* of the running step */
};

/* ---- loss and gradient ---- */
/* in[0]: all parameters, f64 [n]; then the user's. out: the loss, the gradient f64 [n]. */
static void evaluate_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tjnn_lbfgs *o = self;
	tjnn_model *m = o->model;
	const char *site = o->site;
	tj_tensor **g = malloc((size_t)(m->nparams + 1) * sizeof *g);
	if (!g) {
		out[0] = out[1] = tj_fail(TJ_ERR_NOMEM, "tjnn_lbfgs", "", "out of memory");
		return;
	}
	for (int64_t i = 0, at = 0; i < m->nparams; i++) {
		const tjnn_slot *s = &m->slots.at[m->which[i]];
		const int64_t each = nn_elements(s);
		tj_assign(*s->var, tj_cast(tj_reshape(tj_slice(in[0], 0, at, at + each, 1), s->dim), s->dtype));
		at += each;
	}
	o->body(out, in + 1, o->self);
	if (tj_grad(g, out[0], m->params, NULL) == TJ_OK) {
		for (int64_t i = 0; i < m->nparams; i++) g[i] = tj_cast(tj_reshape(g[i], TJ_SHAPE(-1)), TJ_F64);
		g[m->nparams] = TJ_END;
		out[1] = tj_cat(g, 0);
	}
	free(g);
}

static bool evaluate(const char *site, tjnn_lbfgs *o, point *p)
{
	enum { MOST = 33 };
	tj_ctx *c = tj_ctx_current();
	tj_tensor *in[MOST + 1], *out[2];
	tj_scope *s = tj_push(c);
	in[0] = tj_to(tj_from_data_on(c, TJ_CPU, TJ_F64, TJ_SHAPE(o->n), p->x), tj_device_of(o->model->params[0]));
	for (int i = 0; i <= o->nin; i++) in[1 + i] = o->in[i];
	bool ok = tj_call(o->f, out, in) == TJ_OK;
	if (ok) {
		p->loss = tj_item(out[0]);
		ok = tj_read(out[1], p->g, (size_t)o->n * sizeof *p->g) == TJ_OK;
	}
	tj_pop(s);
	o->evaluations++;
	return ok;
}

/* ---- vectors ---- */
static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
	return sum;
}
static double largest(const double *a, int64_t n)
{
	double most = 0;
	for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(a[i]));
	return most;
}

/* Two loops over the history: the direction is -H g. */
static void find_direction(tjnn_lbfgs *o)
{
	const int64_t kept = o->pairs < o->o.history ? o->pairs : o->o.history, n = o->n;
	double *d = o->direction;
	for (int64_t i = 0; i < n; i++) d[i] = -o->now.g[i];
	for (int64_t k = o->pairs - 1; k >= o->pairs - kept; k--) {
		const int64_t at = k % o->o.history;
		o->alpha[at] = o->rho[at] * dot(o->s + at * n, d, n);
		for (int64_t i = 0; i < n; i++) d[i] -= o->alpha[at] * o->y[at * n + i];
	}
	if (kept) {
		const int64_t at = (o->pairs - 1) % o->o.history;
		const double scale = 1 / (o->rho[at] * dot(o->y + at * n, o->y + at * n, n));
		for (int64_t i = 0; i < n; i++) d[i] *= scale;
	}
	for (int64_t k = o->pairs - kept; k < o->pairs; k++) {
		const int64_t at = k % o->o.history;
		const double beta = o->rho[at] * dot(o->y + at * n, d, n);
		for (int64_t i = 0; i < n; i++) d[i] += (o->alpha[at] - beta) * o->s[at * n + i];
	}
}

/* A pair whose curvature is not above 0 would make H indefinite, and is left out. */
static void remember(tjnn_lbfgs *o)
{
	const int64_t at = o->pairs % o->o.history, n = o->n;
	double *s = o->s + at * n, *y = o->y + at * n;
	for (int64_t i = 0; i < n; i++) {
		s[i] = o->next.x[i] - o->now.x[i];
		y[i] = o->next.g[i] - o->now.g[i];
	}
	const double curvature = dot(s, y, n);
	if (!(curvature > 1e-10 * dot(y, y, n))) return;
	o->rho[at] = 1 / curvature;
	o->pairs++;
}

/* ---- line search ---- */
typedef struct trial {
	double t, loss, slope;
} trial;

static bool try_step(const char *site, tjnn_lbfgs *o, double t, trial *r)
{
	for (int64_t i = 0; i < o->n; i++) o->next.x[i] = o->now.x[i] + t * o->direction[i];
	if (!evaluate(site, o, &o->next)) return false;
	*r = (trial){ t, o->next.loss, dot(o->next.g, o->direction, o->n) };
	return true;
}

/* The minimum of the cubic through both, kept within the inner part of the interval. */
static double between(trial a, trial b)
{
	const double lo = fmin(a.t, b.t), hi = fmax(a.t, b.t), margin = 0.1 * (hi - lo);
	const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t), root = d1 * d1 - a.slope * b.slope;
	double t = (lo + hi) / 2;
	if (root >= 0) {
		const double d2 = copysign(sqrt(root), b.t - a.t),
			     c = b.t - (b.t - a.t) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
		if (isfinite(c)) t = c;
	}
	return fmin(fmax(t, lo + margin), hi - margin);
}

static bool too_high(const trial *start, const trial *r) { return !(r->loss <= start->loss + 1e-4 * r->t * start->slope); }
static bool flat(const trial *start, const trial *r) { return fabs(r->slope) <= -0.9 * start->slope; }

/* Leaves next at a point that fulfils the conditions, or at the best one that was seen. false: an evaluation failed. */
static bool search(const char *site, tjnn_lbfgs *o, double t)
{
	enum { TURNS = 25 };
	const trial start = { 0, o->now.loss, dot(o->now.g, o->direction, o->n) };
	trial low = start, high = { 0 }, r;
	bool bracketed = false;
	for (int i = 0; i < TURNS; i++) {
		if (!try_step(site, o, t, &r)) return false;
		if (too_high(&start, &r) || (i && !(r.loss < low.loss)))
			high = r, bracketed = true;
		else if (flat(&start, &r))
			return true;
		else {
			if (bracketed ? r.slope * (high.t - low.t) >= 0 : r.slope >= 0) high = low, bracketed = true;
			low = r;
		}
		if (bracketed && fabs(high.t - low.t) * largest(o->direction, o->n) < o->o.tolerance_change) break;
		t = !bracketed ? 2 * t : isfinite(high.loss) ? between(low, high) : (low.t + high.t) / 2;
	}
	return r.t == low.t || try_step(site, o, low.t, &r);
}

/* ---- the step ---- */
static bool refuses(const char *site, const tjnn_lbfgs *o, int64_t nin)
{
	static const char op[] = "tjnn_lbfgs_step";
	int64_t n = 0;
	if (!o) return tj_fail(TJ_ERR_ARG, op, "did tjnn_lbfgs_open() fail?", "no optimiser"), true;
	if (nn_life_over(o->of_model)) return tj_fail(TJ_ERR_STATE, op, "", "the model or its context was closed"), true;
	if (nn_refuses(site, o->model, op, false)) return true;
	if (nin != o->nin)
		return tj_fail(TJ_ERR_ARG, op, "as many as when it was opened", "%d arguments, %d are needed", (int)nin, o->nin), true;
	for (int64_t i = 0; i < o->model->nparams; i++) n += nn_elements(&o->model->slots.at[o->model->which[i]]);
	if (n != o->n) tj_fail(TJ_ERR_STATE, op, "open another optimiser", "parameters were frozen or thawed since it was opened");
	return n != o->n;
}

double tjnn_lbfgs_step_at(const char *site, tjnn_lbfgs *o, tj_list in)
{
	if (refuses(site, o, kit_length(in))) return NAN;
	o->in = in;
	for (int64_t i = 0, at = 0; i < o->model->nparams; i++) {
		const tjnn_slot *s = &o->model->slots.at[o->model->which[i]];
		const int64_t each = nn_elements(s);
		if (tj_read(tj_cast(*s->var, TJ_F64), o->now.x + at, (size_t)each * sizeof(double)) != TJ_OK) return NAN;
		at += each;
	}
	if (!evaluate(site, o, &o->now)) return NAN;
	for (int64_t i = 0; i < o->o.iterations && largest(o->now.g, o->n) > o->o.tolerance_grad; i++) {
		find_direction(o);
		const double slope = dot(o->now.g, o->direction, o->n), loss = o->now.loss;
		double sum = 0;
		for (int64_t k = 0; k < o->n; k++) sum += fabs(o->now.g[k]);
		if (!(slope < 0) || !isfinite(loss)) break;
		if (!search(site, o, o->pairs ? o->o.lr : fmin(1, 1 / sum) * o->o.lr)) return NAN;
		if (!(o->next.loss <= loss)) break;
		remember(o);
		const point was = o->now;
		o->now = o->next;
		o->next = was;
		double moved = 0;
		for (int64_t k = 0; k < o->n; k++) moved = fmax(moved, fabs(o->now.x[k] - o->next.x[k]));
		if (moved <= o->o.tolerance_change || fabs(loss - o->now.loss) < o->o.tolerance_change) break;
	}
	return evaluate(site, o, &o->now) ? o->now.loss : NAN; /* puts the parameters there */
}

int64_t tjnn_lbfgs_evaluations(const tjnn_lbfgs *o) { return o ? o->evaluations : 0; }

/* ---- opening ---- */
void tjnn_lbfgs_close_at(const char *site, tjnn_lbfgs *o)
{
	if (!o) return;
	double *const all[] = { o->now.x, o->now.g, o->next.x, o->next.g, o->direction, o->s, o->y, o->rho, o->alpha };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
	if (o->f && !nn_life_gone(o->life)) tj_fn_free(o->f);
	nn_life_end(site, o->life);
	nn_life_drop(o->of_model);
	free(o);
}

static bool take_memory(tjnn_lbfgs *o)
{
	const size_t n = (size_t)(o->n + 1), h = (size_t)o->o.history, each = sizeof(double);
	double **const one[] = { &o->now.x, &o->now.g, &o->next.x, &o->next.g, &o->direction };
	bool ok = true;
	for (size_t i = 0; i < sizeof one / sizeof *one; i++) ok &= (*one[i] = malloc(n * each)) != NULL;
	o->s = calloc(n * h, each);
	o->y = calloc(n * h, each);
	o->rho = calloc(h, each);
	o->alpha = calloc(h, each);
	return ok && o->s && o->y && o->rho && o->alpha;
}

tjnn_lbfgs *tjnn_lbfgs_open_at(const char *site, tjnn_model *m, tj_body *loss, void *self, int nin, const tjnn_lbfgs_opts *opts)
{
	KIT_OPTIONS(tjnn_lbfgs_opts, given, opts, NULL)
	if (nn_refuses(site, m, "tjnn_lbfgs_open", false)) return NULL;
	if (!loss || nin < 0 || nin > 32 || !m->nparams || given.history < 0 || given.iterations < 0 || !(given.lr >= 0)) {
		tj_fail(TJ_ERR_ARG, "tjnn_lbfgs_open", "", "%s",
		        !loss                 ? "no body"
		        : !m->nparams         ? "all parameters are frozen"
		        : nin < 0 || nin > 32 ? "0 to 32 arguments"
		                              : "sizes and the rate are 0 or more");
		return NULL;
	}
	tjnn_lbfgs *o = calloc(1, sizeof *o);
	if (o) {
		if (given.lr == 0) given.lr = 1;
		if (given.history == 0) given.history = 100;
		if (given.iterations == 0) given.iterations = 20;
		if (given.tolerance_grad == 0) given.tolerance_grad = 1e-7;
		if (given.tolerance_change == 0) given.tolerance_change = 1e-9;
		*o = (tjnn_lbfgs){ .site = site, .model = m, .body = loss, .self = self, .nin = nin, .o = given };
		o->of_model = nn_life_hold(m->life);
		o->life = nn_life_begin(site, m->ctx, NULL);
		for (int64_t i = 0; i < m->nparams; i++) o->n += nn_elements(&m->slots.at[m->which[i]]);
	}
	if (!o || !o->life || !take_memory(o))
		tj_fail(TJ_ERR_NOMEM, "tjnn_lbfgs_open", "", "out of memory");
	else
		o->f = tj_compile(m->ctx, evaluate_body, o, TJ_OPTS(tj_compile_opts, .name = "lbfgs", .nin = 1 + nin, .nout = 2));
	if (o && o->f) return o;
	tjnn_lbfgs_close(o);
	return NULL;
}
