/* SPDX-License-Identifier: MIT */
/* Compiled functions: making and freeing them. */
#include "jit/call.h"
#include "jit/guard.h"
#include "jit/program.h"
#include "jit/report.h"

enum { DEFAULT_BYTES = 128 << 20 };

/* The smallest free function index: contexts keep their memos in an array by index. Under the lock of the engine. */
static bool take_index(jit_engine *e, uint32_t *index)
{
	uint32_t w = 0;
	while (w < e->nused && !~e->used[w]) w++;
	if (w == e->nused) {
		uint64_t *more = rt_realloc(e->used, (w + 1) * sizeof *more);
		if (!more) return false;
		e->used = more;
		e->used[e->nused++] = 0;
	}
	uint32_t bit = (uint32_t)__builtin_ctzll(~e->used[w]);
	e->used[w] |= UINT64_C(1) << bit;
	*index = w * 64 + bit;
	return true;
}

static void give_index(jit_engine *e, uint32_t index) { e->used[index / 64] &= ~(UINT64_C(1) << index % 64); }

/* Copies the addresses in .state and .freeze; false: out of memory. */
static bool copy_vars(tj_fn *f, const tj_compile_opts *o)
{
	const tj_vars list[2] = { o->state, o->freeze };
	uint32_t n[2] = { 0, 0 };
	for (int k = 0; k < 2; k++)
		while (list[k] && list[k][n[k]] != TJ_END_VAR) n[k]++;
	f->state = rt_calloc((n[0] + n[1] + 1) * sizeof *f->state);
	if (!f->state) return false;
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < n[k]; i++) f->state[f->nstate++] = list[k][i];
	f->nfreeze = n[1];
	return true;
}

static bool copy_passes(tj_fn *f, const tj_compile_opts *o)
{
	while (o->passes && o->passes[f->npass].run) f->npass++;
	f->pass = rt_calloc((f->npass + 1) * sizeof *f->pass);
	if (f->pass && f->npass) memcpy(f->pass, o->passes, f->npass * sizeof *f->pass);
	return f->pass != NULL;
}

static bool copy_hooks(tj_fn *f, const tj_compile_opts *o)
{
	uint32_t n = 0;
	while (o->grad_hooks && o->grad_hooks[n].name) n++;
	f->hook = rt_calloc((n + 1) * sizeof *f->hook);
	if (f->hook && n) memcpy(f->hook, o->grad_hooks, n * sizeof *f->hook);
	return f->hook != NULL;
}

static void free_fn(tj_fn *f)
{
	if (!f) return;
	lo_family_free(f->family);
	lo_shelf_free(f->shelf);
	rt_store_free(f->store);
	rt_free(f->spec);
	rt_free(f->pass);
	rt_free(f->hook);
	rt_free(f->asked);
	rt_vec_free(&f->sized);
	rt_free(f->state);
	rt_free(f->name);
	rt_free(f);
}

/* A copy of the name without control characters, since it becomes part of lines of text. */
static char *copy_name(const char *name)
{
	char *s = rt_strdup(name ? name : "fn");
	for (char *p = s; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127) *p = '?';
	return s;
}

/* Recursive: while a function is compiled, a pass, a back end or the log may call tj_explain() and tj_fn_stats() of it. */
static void init_lock(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

static tj_fn *new_fn(tj_ctx *c, const char *site, tj_body *body, void *self, const tj_compile_opts *o)
{
	tj_fn *f = rt_calloc(sizeof *f);
	bool shares = o->dynamic != TJ_DYNAMIC_OFF;
	if (!f || !(f->name = copy_name(o->name)) || !copy_vars(f, o) || !copy_passes(f, o) || !copy_hooks(f, o) ||
	    (shares && !(f->family = lo_family_new())) || !(f->shelf = lo_shelf_new())) {
		free_fn(f);
		return NULL;
	}
	f->engine = c->engine;
	f->body = body;
	f->self = self;
	f->opts = *o;
	f->site = site;
	if (!jit_make_asked(f)) {
		free_fn(f);
		return NULL;
	}
	if (!f->opts.max_bytes) f->opts.max_bytes = DEFAULT_BYTES;
	rt_lock(&c->engine->rt.lock);
	if (!take_index(c->engine, &f->index)) {
		rt_unlock(&c->engine->rt.lock);
		free_fn(f);
		return NULL;
	}
	init_lock(&f->table_lock);
	init_lock(&f->compile);
	f->next = c->engine->fns;
	if (f->next) f->next->prev = f;
	c->engine->fns = f;
	rt_unlock(&c->engine->rt.lock);
	return f;
}

/* What is wrong with the options; NULL: nothing. */
static const char *mistake(const tj_compile_opts *o, tj_body *body, const char **hint)
{
	const tj_vars vars[2] = { o->state, o->freeze };
	*hint = "pass the function to compile";
	if (!body) return "body is NULL";
	*hint = "set .nin and .nout";
	if (o->nin < 0 || o->nout < 0 || o->nin > 65535 || o->nout > 65535) return ".nin and .nout are between 0 and 65535";
	*hint = "use the names of tj.h";
	if ((unsigned)o->mode > TJ_DIRECT) return ".mode is not a tj_mode";
	if ((unsigned)o->numerics > TJ_FAST) return ".numerics is not a tj_numerics";
	if ((unsigned)o->int_div_zero > TJ_ZERO) return ".int_div_zero is not a tj_int_div_zero";
	if ((unsigned)o->dynamic > TJ_DYNAMIC_ON) return ".dynamic is not a tj_dynamic";
	*hint = "leave it out to inherit that of the caller";
	if (o->autocast != TJ_BOOL && o->autocast != TJ_F16 && o->autocast != TJ_BF16 && o->autocast != TJ_F32)
		return ".autocast is not TJ_BF16, TJ_F16 or TJ_F32 (none)";
	*hint = "0: as many as fit in .max_bytes";
	if (o->max_entries < 0) return ".max_entries is negative";
	*hint = "list addresses of variables: TJ_VARS(&w, &b)";
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; vars[k] && vars[k][i] != TJ_END_VAR; i++)
			if (!vars[k][i]) return k ? ".freeze lists NULL" : ".state lists NULL";
	return NULL;
}

tj_fn *tj_compile_at(const char *site, tj_ctx *c, tj_body *body, void *self, const tj_compile_opts *opts)
{
	JIT_OPTIONS(tj_compile_opts, o, opts);
	const char *hint;
	if (!c || jit_refuses(c, site, "compile")) return NULL;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "compile", JIT_SIZES, o.size), NULL;
	if (opts && opts->size && opts->size < offsetof(tj_compile_opts, mode)) {
		jit_error(c, site, TJ_ERR_ARG, "compile", "make the options with TJ_OPTS(tj_compile_opts, ...)",
		          ".size is %zu, too small to hold .nout", opts->size);
		return NULL;
	}
	const char *wrong = mistake(&o, body, &hint);
	if (wrong) {
		jit_error(c, site, TJ_ERR_ARG, "compile", hint, "%s", wrong);
		return NULL;
	}
	rt_err err = { 0 };
	gd_spec *spec = o.shapes ? gd_spec_parse(o.shapes, (uint32_t)o.nin, &err) : NULL;
	if (o.shapes && !spec) return jit_report(c, site, &err), NULL;
	tj_fn *f = new_fn(c, site, body, self, &o);
	if (f) f->spec = spec;
	else {
		rt_free(spec);
		jit_error(c, site, TJ_ERR_NOMEM, "compile", NULL, "out of memory");
	}
	return f;
}

/* f is nested in a call of a context that this thread is inside of. Of other threads the user makes sure. */
static bool is_nested(const tj_fn *f)
{
	for (int i = 0; jit_me && i < JIT_INSIDE; i++) {
		const tj_ctx *c = atomic_load(&jit_me->inside[i]);
		for (uint32_t k = 0; c && c->active && k < c->act.callers.n; k++)
			if (c->act.callers.v[k].fn == f) return true;
	}
	return false;
}

static bool is_running(tj_fn *f)
{
	bool busy = is_nested(f);
	rt_lock(&f->table_lock);
	for (jit_memo *s = f->memos; s; s = s->next) busy |= atomic_load(&s->busy);
	rt_unlock(&f->table_lock);
	return busy;
}

void jit_fn_free(tj_fn *f)
{
	jit_engine *e = f->engine;
	jit_report_keep(f);
	rt_lock(&e->rt.lock);
	if (f->prev) f->prev->next = f->next;
	else e->fns = f->next;
	if (f->next) f->next->prev = f->prev;
	jit_memos_drop(f);
	give_index(e, f->index);
	rt_unlock(&e->rt.lock);
	for (uint32_t i = 0; i < f->entry.n; i++) {
		atomic_store(&f->entry.v[i]->dead, true);
		jit_entry_unref(f->entry.v[i]);
	}
	for (uint32_t i = 0; i < f->general.n; i++) jit_general_unref(f->general.v[i]);
	rt_vec_free(&f->general);
	rt_vec_free(&f->entry);
	gd_table_free(&f->table);
	gd_table_free(&f->kinds);
	jit_keep_free(f);
	for (int i = 0; i < JIT_REASONS; i++) {
		rt_free(f->reasons.line[i].text);
		rt_free(f->notes.line[i].text);
	}
	pthread_mutex_destroy(&f->table_lock);
	pthread_mutex_destroy(&f->compile);
	free_fn(f);
}

void tj_fn_free_at(const char *site, tj_fn *f)
{
	if (!f) return;
	JIT_CURRENT_IF_ANY(c, site);
	if (c && f->engine == c->engine && jit_refuses(c, site, "fn_free")) return;
	if (c) jit_active(c); /* ends a call of f whose body was left without returning */
	if (f->of_line) {
		if (c) jit_error(c, site, TJ_ERR_STATE, "fn_free", "it is freed with its context", "%s stands for a line with tj_trace_begin()", f->name);
		return;
	}
	jit_program *p = f->program;
	if (!is_running(f)) {
		jit_fn_free(f);
		for (uint32_t i = 0; c && p && p->cell && i < p->var.n; i++) tj_release_at(site, p->cell[i]);
	} else if (c) jit_error(c, site, TJ_ERR_STATE, "fn_free", "free it after its last call has returned", "a call of %s is running", f->name);
}
