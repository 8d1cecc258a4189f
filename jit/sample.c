/* SPDX-License-Identifier: MIT */
/* Arguments that stand for those of a call: of the right types, with undefined content. */
#include "jit/sample.h"
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"

#include <stdlib.h>

bool jit_sample_fail(jit_sample *j, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(j->c, j->site, code, j->op, hint, fmt, ap);
	va_end(ap);
	return false;
}
static bool nomem(jit_sample *j) { return jit_sample_fail(j, TJ_ERR_NOMEM, NULL, "out of memory"); }

/* ---- arguments ---- */
static bool want_tensor(jit_want *w, tj_dtype dtype, int rank, const int64_t *dim, bool cell)
{
	w->kind = cell ? GD_CELL : GD_VALUE;
	w->dtype = (uint8_t)dtype;
	w->rank = (uint8_t)rank;
	for (int d = 0; d < rank; d++) w->dim[d] = dim[d], w->symbol[d] = -1;
	return true;
}

static bool as_given(jit_sample *j, const tj_tensor *t, uint32_t i)
{
	jit_want *w = &j->arg[i];
	if (!t || t == TJ_END) return jit_sample_fail(j, TJ_ERR_ARG, "TJ_LIST(a, b)", ".inputs has fewer than %u tensors", j->narg);
	if (jit_is_number(t)) return w->kind = rt_is_int_number(t) ? GD_INT : GD_FLOAT, true;
	if (t->kind == RT_POISON) return jit_sample_fail(j, TJ_ERR_ARG, "look at tj_check()", "input %u is poison", i);
	return want_tensor(w, (tj_dtype)t->dtype, t->rank, t->layout->dim, t->kind == RT_CELL);
}

/* As in the last signature that f met. Under f->table_lock: other threads may call f. */
static bool as_met(jit_sample *j, const gd_sig *sig)
{
	if ((sig->nint || sig->nfloat) && !j->scalars)
		return jit_sample_fail(j, TJ_ERR_ARG, ".scalars = TJ_SCALARS(TJ_F(1))", "calls of %s have scalars: say which", j->f->name);
	for (uint32_t i = 0; i < j->narg; i++) {
		const rt_layout *l = sig->arg[i].layout;
		if (l) want_tensor(&j->arg[i], (tj_dtype)l->dtype, l->rank, l->dim, sig->arg[i].kind == GD_CELL);
		else j->arg[i].kind = sig->arg[i].kind;
	}
	return true;
}

/* As .shapes has them, if it says all of it. Sizes that it names are set later. */
static bool as_declared(jit_sample *j)
{
	const gd_spec *s = j->f->spec;
	bool ok = !j->narg || (s && s->narg >= j->narg);
	for (uint32_t i = 0; ok && i < j->narg; i++) {
		const gd_arg_spec *a = &s->arg[i];
		int64_t dim[TJ_MAX_RANK] = { 0 };
		ok = a->ranked && a->dtype >= 0;
		for (int d = 0; ok && d < a->rank; d++) {
			ok = a->dim[d].kind == GD_DIM_SIZE || (a->dim[d].kind == GD_DIM_NAME && !a->fixed);
			if (a->dim[d].kind == GD_DIM_SIZE) dim[d] = a->dim[d].v;
		}
		if (ok) want_tensor(&j->arg[i], (tj_dtype)a->dtype, a->rank, dim, false);
	}
	return ok || jit_sample_fail(j, TJ_ERR_STATE, "call it once, or give .inputs",
	                             "%s was never called, so the sizes of its arguments are not known", j->f->name);
}

/* Of an imported function that was never called: numbers, too. */
static bool as_imported(jit_sample *j)
{
	const jit_program *p = j->f->program;
	for (uint32_t i = 0; i < j->narg; i++) {
		const jit_parg *a = &p->arg.v[i];
		int64_t dim[TJ_MAX_RANK] = { 0 };
		for (int d = 0; d < a->rank; d++) dim[d] = jit_pconst(&a->dim[d]) ? a->dim[d].more : 0;
		if (a->kind <= GD_CELL) want_tensor(&j->arg[i], (tj_dtype)a->dtype, a->rank, dim, a->kind == GD_CELL);
		else j->arg[i].kind = a->kind;
	}
	return true;
}

static bool find_arguments(jit_sample *j)
{
	bool ok = true, met;
	j->narg = (uint32_t)j->f->opts.nin;
	if (!(j->arg = rt_calloc((j->narg + 1) * sizeof *j->arg))) return nomem(j);
	for (uint32_t i = 0; ok && j->inputs && i < j->narg; i++) ok = as_given(j, j->inputs[i], i);
	if ((j->known = j->inputs != NULL)) return ok;
	rt_lock(&j->f->table_lock);
	j->known = met = j->f->entry.n > 0;
	if (met) ok = as_met(j, &j->f->entry.v[j->f->entry.n - 1]->sig);
	rt_unlock(&j->f->table_lock);
	return met ? ok : j->f->program ? as_imported(j) : as_declared(j);
}

static int64_t dim_at(const jit_sample *j, uint32_t k, const jit_want *w, int d)
{
	return w->symbol[d] < 0 ? w->dim[d] : j->sizes[k * j->nsymbol + (uint32_t)w->symbol[d]];
}

/* The arguments at combination k, of undefined content, in context c. */
bool jit_sample_make(jit_sample *j, tj_ctx *c, uint32_t k, tj_tensor **in)
{
	for (uint32_t i = 0; i < j->narg; i++) {
		const jit_want *w = &j->arg[i];
		int64_t dims[TJ_MAX_RANK + 1];
		for (int d = 0; d < w->rank; d++) dims[d] = dim_at(j, k, w, d);
		dims[w->rank] = TJ_END_DIM;
		if (w->kind == GD_INT) in[i] = rt_number_i(1);
		else if (w->kind == GD_FLOAT) in[i] = rt_number_f(1);
		else if (w->kind == GD_CELL) in[i] = tj_param_on_at(j->site, c, TJ_CPU, (tj_dtype)w->dtype, dims);
		else in[i] = tj_wrap_on_at(j->site, c, TJ_CPU, (tj_dtype)w->dtype, dims, NULL, j->zeros, NULL, NULL);
		if (!rt_is_number(in[i]) && tj_is_poison(in[i])) return false;
	}
	in[j->narg] = TJ_END;
	return true;
}

void jit_sample_drop(const jit_sample *j, tj_tensor **in)
{
	for (uint32_t i = 0; i < j->narg; i++)
		if (j->arg[i].kind == GD_CELL) tj_release_at(j->site, in[i]);
}

/* The symbols of .shapes that some argument has. */
static bool find_symbols(jit_sample *j)
{
	const gd_spec *s = j->f->spec;
	int8_t known[GD_SYMBOLS];
	memset(known, -1, sizeof known);
	for (uint32_t i = 0; s && i < s->narg && i < j->narg; i++) {
		jit_want *w = &j->arg[i];
		for (int d = 0; s->arg[i].ranked && !s->arg[i].fixed && w->kind <= GD_CELL && d < w->rank && d < s->arg[i].rank; d++) {
			if (s->arg[i].dim[d].kind != GD_DIM_NAME) continue;
			const int64_t y = s->arg[i].dim[d].v;
			if (known[y] < 0 && j->nsymbol == JIT_P_SYMBOLS)
				return jit_sample_fail(j, TJ_ERR_LIMIT, "make some of them `static`", "more than %d sizes vary", JIT_P_SYMBOLS);
			if (known[y] < 0) {
				known[y] = (int8_t)j->nsymbol;
				j->symbol[j->nsymbol++] = s->symbol[y];
			}
			w->symbol[d] = known[y];
		}
	}
	return true;
}

bool jit_sample_zeros(jit_sample *j)
{
	size_t most = 64;
	for (uint32_t k = 0; k < j->n; k++)
		for (uint32_t i = 0; i < j->narg; i++) {
			const jit_want *w = &j->arg[i];
			int64_t dims[TJ_MAX_RANK] = { 0 }, numel;
			if (w->kind > GD_CELL) continue;
			for (int d = 0; d < w->rank; d++) dims[d] = dim_at(j, k, w, d);
			if (!rt_numel(w->rank, dims, &numel))
				return jit_sample_fail(j, TJ_ERR_SHAPE, "look at .shapes", "argument %u is too large", i);
			if ((size_t)numel * tj_dtype_size((tj_dtype)w->dtype) > most)
				most = (size_t)numel * tj_dtype_size((tj_dtype)w->dtype);
		}
	j->zeros = calloc(1, most); /* pages that nobody touches */
	return j->zeros || nomem(j);
}

bool jit_sample_arguments(jit_sample *j) { return find_arguments(j) && find_symbols(j); }

void jit_sample_free(jit_sample *j)
{
	rt_free(j->arg);
	rt_free(j->sizes);
	free(j->zeros);
}

tj_fn *jit_copy_function(tj_ctx *c, const char *site, tj_fn *f)
{
	tj_compile_opts o = f->opts;
	const uint32_t n = f->nstate - f->nfreeze;
	tj_tensor ***vars = rt_alloc((f->nstate + 2) * sizeof *vars);
	if (!vars) return jit_error(c, site, TJ_ERR_NOMEM, "compile", NULL, "out of memory"), NULL;
	for (uint32_t i = 0; i < n; i++) vars[i] = f->state[i];
	vars[n] = TJ_END_VAR;
	for (uint32_t i = n; i < f->nstate; i++) vars[i + 1] = f->state[i];
	vars[f->nstate + 1] = TJ_END_VAR;
	o.size = sizeof o;
	o.mode = TJ_DIRECT;
	o.name = f->name;
	o.state = vars;
	o.freeze = vars + n + 1;
	o.shapes = f->spec ? f->spec->text : NULL;
	o.passes = NULL, o.on_recompile = NULL, o.on_note = NULL, o.guard_filter = NULL;
	o.grad_hooks = f->hook;
	tj_fn *g = tj_compile_at(site, c, f->body, f->self, &o);
	rt_free(vars);
	return g;
}

/* The same tensor, or a constant with the same content. */
static bool same(const tj_tensor *a, const tj_tensor *b)
{
	return a == b || (a->flags & b->flags & RT_CONSTANT && a->data == b->data && a->layout == b->layout);
}

static tj_tensor *hold(jit_act *a, tj_tensor *t)
{
	if (t->kind == RT_CELL || t->flags & RT_HEAP) return t;
	tj_tensor *h = jit_new_value(a->ctx, a->scope->parent, rt_layout_ref(t->layout), rt_buffer_ref(t->buf), t->data);
	if (h) h->flags |= RT_CONSTANT;
	return h;
}

tj_tensor *jit_sample_variable(jit_act *a, const char *site, const char *op, const jit_handles *of, tj_tensor *t, uint32_t *index)
{
	for (*index = 0; *index < of->n; ++*index)
		if (same(of->v[*index], t)) return of->v[*index];
	if (t->kind != RT_CELL && !(t->flags & (RT_HEAP | RT_CONSTANT)))
		return jit_error(a->ctx, site, TJ_ERR_STATE, op, "pass it as an argument, tj_retain() it, or make it a parameter",
		                 "the body reads a tensor of a scope around it"),
		       NULL;
	tj_tensor *h = hold(a, t);
	return h ? h : (jit_error(a->ctx, site, TJ_ERR_NOMEM, op, NULL, "out of memory"), NULL);
}
