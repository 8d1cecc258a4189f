/* SPDX-License-Identifier: MIT */
/* Models: the cells of a module's fields, and what is made of the walk over them. */
#include "kit/nn/nn.h"

#include <fnmatch.h>
#include <inttypes.h>

int64_t nn_elements(const tjnn_slot *s)
{
	int64_t n = 1;
	for (int i = 0; i < s->rank; i++)
		if (__builtin_mul_overflow(n, s->dim[i], &n)) return -1;
	return n;
}

bool nn_trained(const tjnn_model *m, int64_t i) { return !m->slots.at[i].buffer && !m->slots.at[i].same_as && !m->frozen[i]; }

static void list_params(tjnn_model *m)
{
	m->nparams = 0;
	for (int64_t i = 0; i < m->slots.n; i++)
		if (nn_trained(m, i)) {
			m->which[m->nparams] = i;
			m->params[m->nparams++] = *m->slots.at[i].var;
		}
	m->params[m->nparams] = TJ_END;
}

bool nn_refuses(const char *site, const tjnn_model *m, const char *op, bool bodies)
{
	const bool gone = m && nn_life_gone(m->life), body = m && !gone && !bodies && tj_in_body(tj_ctx_current());
	if (!m) tj_fail(TJ_ERR_ARG, op, "did tjnn_open() fail?", "no model");
	if (gone) tj_fail(TJ_ERR_STATE, op, "tjnn_close() comes before tj_close()", "the context of the model was closed");
	if (body) tj_fail(TJ_ERR_STATE, op, "call it when tj_call() has returned", "%s() is not allowed in a body", op);
	return !m || gone || body;
}

/* ---- opening ---- */
static tj_status make_cell(const char *site, tjnn_model *m, const tjnn_slot *s, const char *device)
{
	const int64_t n = nn_elements(s);
	if (s->same_as) return *s->var = *m->slots.at[nn_slots_find(&m->slots, s->same_as)].var, TJ_OK;
	if (n < 0 || n > INT64_MAX / 16) {
		tj_fail(TJ_ERR_LIMIT, "tjnn_open", "", "%s has too many elements", s->name);
		return TJ_ERR_LIMIT;
	}
	tj_tensor *t = device ? tj_param_on(m->ctx, tj_find_device(device), s->dtype, s->dim) : tj_param(m->ctx, s->dtype, s->dim);
	if (tj_is_poison(t)) return TJ_ERR_NOMEM;
	*s->var = t;
	return nn_write_initial(site, s, s->init, m->seed);
}

static void release_cells(const char *site, tjnn_model *m, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const tjnn_slot *s = &m->slots.at[i];
		if (!s->same_as && *s->var && !nn_life_gone(m->life)) tj_release(*s->var);
		*s->var = NULL;
	}
}

static tj_status make_cells(const char *site, tjnn_model *m, const char *device)
{
	tj_status st = TJ_OK;
	for (int64_t i = 0; i < m->slots.n; i++) *m->slots.at[i].var = NULL;
	for (int64_t i = 0; st == TJ_OK && i < m->slots.n; i++) st = make_cell(site, m, &m->slots.at[i], device);
	if (st != TJ_OK) release_cells(site, m, m->slots.n);
	return st;
}

static void free_model(tjnn_model *m)
{
	nn_slots_free(&m->slots);
	free(m->frozen);
	free(m->vars);
	free(m->params);
	free(m->which);
	free(m);
}

tjnn_model *tjnn_open_at(const char *site, tj_ctx *c, tjnn_layers *layers, void *self, const tjnn_open_opts *opts)
{
	tj_ctx *was = c ? tj_ctx_use(c) : NULL;
	KIT_OPTIONS(tjnn_open_opts, o, opts, NULL)
	tjnn_model *m = calloc(1, sizeof *m);
	if (!c || !layers || !m) {
		free(m);
		tj_fail(c && layers ? TJ_ERR_NOMEM : TJ_ERR_ARG, "tjnn_open", "", "%s",
		        !c        ? "no context"
		        : !layers ? "no layers function"
		                  : "out of memory");
		return NULL;
	}
	m->ctx = c;
	m->seed = o.seed;
	tj_status st = nn_walk(site, layers, self, o.dtype == TJ_BOOL ? TJ_F32 : o.dtype, true, &m->slots);
	const size_t n = (size_t)m->slots.n + 1;
	if (st == TJ_OK && o.dtype && o.dtype < TJ_F16) {
		st = TJ_ERR_DTYPE;
		tj_fail(st, "tjnn_open", "f32, f64, bf16 or f16", "parameters of %s", tj_dtype_name(o.dtype));
	}
	if (st == TJ_OK && o.device && tj_find_device(o.device) < 0) {
		st = TJ_ERR_DEVICE;
		tj_fail(st, "tjnn_open", "tj_devices() lists them; tj info says why one is missing", "there is no device \"%s\"", o.device);
	}
	if (st == TJ_OK) {
		m->frozen = calloc(n, sizeof *m->frozen);
		m->vars = malloc(n * sizeof *m->vars);
		m->params = malloc(n * sizeof *m->params);
		m->which = malloc(n * sizeof *m->which);
		if (!m->frozen || !m->vars || !m->params || !m->which) {
			st = TJ_ERR_NOMEM;
			tj_fail(st, "tjnn_open", "", "out of memory");
		}
	}
	if (st == TJ_OK) st = make_cells(site, m, o.device);
	if (st == TJ_OK && !(m->life = nn_life_begin(site, c, &m->slots))) st = TJ_ERR_NOMEM, release_cells(site, m, m->slots.n);
	if (st != TJ_OK) return free_model(m), tj_ctx_use(was), NULL;
	for (int64_t i = 0; i < m->slots.n; i++) m->vars[i] = m->slots.at[i].var;
	m->vars[m->slots.n] = TJ_END_VAR;
	list_params(m);
	if (was) tj_ctx_use(was);
	return m;
}

void tjnn_close_at(const char *site, tjnn_model *m)
{
	if (!m) return;
	if (m->optim) nn_optim_detach(site, m->optim);
	release_cells(site, m, m->slots.n);
	nn_life_end(site, m->life);
	free_model(m);
}

/* ---- looking ---- */
int64_t tjnn_count(const tjnn_model *m) { return m ? m->slots.n : 0; }
const tjnn_slot *tjnn_at(const tjnn_model *m, int64_t i) { return m && i >= 0 && i < m->slots.n ? &m->slots.at[i] : NULL; }
const tjnn_slot *tjnn_find(const tjnn_model *m, const char *name) { return m && name ? tjnn_at(m, nn_slots_find(&m->slots, name)) : NULL; }
tj_vars tjnn_vars(const tjnn_model *m) { return m ? m->vars : NULL; }
tj_list tjnn_params(const tjnn_model *m) { return m ? m->params : NULL; }
tj_ctx *tjnn_context(const tjnn_model *m) { return m ? m->ctx : NULL; }

int64_t tjnn_numel(const tjnn_model *m, bool trainable)
{
	int64_t sum = 0;
	for (int64_t i = 0; i < tjnn_count(m); i++) {
		const tjnn_slot *s = &m->slots.at[i];
		if (!s->buffer && !s->same_as && !(trainable && m->frozen[i])) sum += nn_elements(s);
	}
	return sum;
}

bool tjnn_frozen(const tjnn_model *m, const char *name)
{
	const tjnn_slot *s = tjnn_find(m, name);
	return s && m->frozen[s - m->slots.at];
}

/* ---- by pattern ---- */
/* How many parameters match; -1, with an error, if none does. */
static int64_t matches(const char *site, const tjnn_model *m, const char *op, const char *pattern)
{
	int64_t n = 0;
	if (nn_refuses(site, m, op, false)) return -1;
	if (!pattern) return tj_fail(TJ_ERR_ARG, op, "\"*\" matches all", "no pattern"), -1;
	for (int64_t i = 0; i < m->slots.n; i++) n += !m->slots.at[i].buffer && !fnmatch(pattern, m->slots.at[i].name, 0);
	if (n) return n;
	tj_fail(TJ_ERR_ARG, op, "tjnn_summary() prints the names; * stands for any characters", "no parameter has a name like \"%s\"",
	        pattern);
	return -1;
}

int64_t nn_owner(const tjnn_model *m, int64_t i)
{
	return m->slots.at[i].same_as ? nn_slots_find(&m->slots, m->slots.at[i].same_as) : i;
}

int64_t tjnn_freeze_at(const char *site, tjnn_model *m, const char *pattern, bool frozen)
{
	const int64_t n = matches(site, m, "tjnn_freeze", pattern);
	if (n < 0) return n;
	if (m->optim && (nn_optim_swapped(m->optim) || nn_optim_spread(m->optim))) {
		tj_fail(TJ_ERR_STATE, "tjnn_freeze", "tjnn_optim_swap() swaps back; with .spread open another optimiser afterwards",
		        nn_optim_swapped(m->optim) ? "the averages are in place of the parameters" : "the state of the optimiser is spread");
		return -1;
	}
	for (int64_t i = 0; i < m->slots.n; i++)
		if (!m->slots.at[i].buffer && !fnmatch(pattern, m->slots.at[i].name, 0)) m->frozen[nn_owner(m, i)] = frozen;
	for (int64_t i = 0; i < m->slots.n; i++) m->frozen[i] = m->frozen[nn_owner(m, i)];
	list_params(m);
	return m->optim && nn_optim_follow(site, m->optim) != TJ_OK ? -1 : n;
}

int64_t tjnn_reset_at(const char *site, tjnn_model *m, const char *pattern, tjnn_init init)
{
	const int64_t n = matches(site, m, "tjnn_reset", pattern);
	for (int k = 0; k < 2; k++) /* all fit, before the first is written */
		for (int64_t i = 0; n > 0 && i < m->slots.n; i++) {
			const tjnn_slot *s = &m->slots.at[nn_owner(m, i)];
			if (s->buffer || fnmatch(pattern, m->slots.at[i].name, 0)) continue;
			const char *why = nn_misfit(s, init);
			if (why) tj_fail(TJ_ERR_ARG, "tjnn_reset", "", "the initial value of %s: %s", s->name, why);
			if (why || (k && nn_write_initial(site, s, init, m->seed) != TJ_OK)) return -1;
		}
	return n;
}

/* ---- the table ---- */
const char *nn_shape_text(int rank, const int64_t *dim, char *to, size_t room)
{
	size_t at = (size_t)snprintf(to, room, "[");
	for (int i = 0; i < rank && at < room; i++) at += (size_t)snprintf(to + at, room - at, i ? ",%" PRId64 : "%" PRId64, dim[i]);
	if (at < room) snprintf(to + at, room - at, "]");
	return to;
}

void tjnn_summary(const tjnn_model *m, FILE *f)
{
	if (!m || !f) return;
	char shape[400];
	int width = 4;
	double bytes = 0;
	for (int64_t i = 0; i < m->slots.n; i++) {
		const int n = (int)strlen(m->slots.at[i].name);
		if (n > width) width = n;
	}
	fprintf(f, "%-*s  %-5s %-20s %12s\n", width, "name", "dtype", "shape", "elements");
	for (int64_t i = 0; i < m->slots.n; i++) {
		const tjnn_slot *s = &m->slots.at[i];
		fprintf(f, "%-*s  %-5s %-20s %12" PRId64 "%s%s%s\n", width, s->name, tj_dtype_name(s->dtype),
		        nn_shape_text(s->rank, s->dim, shape, sizeof shape), nn_elements(s),
		        s->buffer      ? "  buffer"
		        : m->frozen[i] ? "  frozen"
		                       : "",
		        s->same_as ? "  = " : "", s->same_as ? s->same_as : "");
		if (!s->same_as) bytes += (double)nn_elements(s) * (double)tj_dtype_size(s->dtype);
	}
	fprintf(f, "%" PRId64 " parameters, %" PRId64 " trainable; %.2f MB with the buffers\n", tjnn_numel(m, false), tjnn_numel(m, true),
	        bytes / 1e6);
}
