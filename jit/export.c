/* SPDX-License-Identifier: MIT */
/* Export: a function becomes a file. Its body is captured at each combination of the sizes that may vary, these become one program, and
 * the program is compiled for each CPU that was asked for. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/program.h"
#include "jit/segment.h"
#include "lower/stored.h"

#include <stdlib.h>

enum { MOST = 1024 /* combinations of sizes */ };

typedef struct want { /* an argument */
	uint8_t kind, dtype, rank; /* kind: gd_kind */
	int8_t symbol[TJ_MAX_RANK]; /* -1: none */
	int64_t dim[TJ_MAX_RANK];
} want;

typedef struct job {
	tj_ctx *c;
	const char *site;
	tj_fn *f, *g;            /* g: the same body, in direct mode, with nothing of the user's */
	tj_export_opts o;
	uint32_t narg, nsymbol, n; /* n: combinations of sizes */
	want *arg;
	gd_symbol symbol[JIT_P_SYMBOLS];
	int64_t *sizes;          /* n times nsymbol */
	void *zeros;             /* memory for arguments */
	jit_program **at;        /* by combination */
	jit_handles of;          /* by variable */
	rt_text text;
	unsigned char *data;
	size_t data_bytes;
	int ncpu;
	rt_cpu cpu[JIT_PACK_CPUS];
	rt_store *code[JIT_PACK_CPUS];
} job;

static bool fail(job *j, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
static bool fail(job *j, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(j->c, j->site, code, "export", hint, fmt, ap);
	va_end(ap);
	return false;
}
static bool nomem(job *j) { return fail(j, TJ_ERR_NOMEM, NULL, "out of memory"); }
static bool told(job *j, const rt_err *err) { return jit_report(j->c, j->site, err), false; }

/* ---- the function and its arguments ---- */
static bool copy_function(job *j)
{
	tj_fn *f = j->f;
	tj_compile_opts o = f->opts;
	const uint32_t n = f->nstate - f->nfreeze;
	tj_tensor ***vars = rt_alloc((f->nstate + 2) * sizeof *vars);
	if (!vars) return nomem(j);
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
	j->g = tj_compile_at(j->site, j->c, f->body, f->self, &o);
	rt_free(vars);
	return j->g != NULL;
}

static bool is_plain(job *j)
{
	const tj_fn *f = j->f;
	if (f->program) return fail(j, TJ_ERR_STATE, "copy its file", "%s was imported", f->name);
	if (f->npass || f->opts.backend || j->c->engine->pass.n)
		return fail(j, TJ_ERR_STATE, "leave out .passes and .backend", "%s has passes or a back end of the program", f->name);
	if (f->opts.guard_filter) return fail(j, TJ_ERR_STATE, "leave out .guard_filter", "%s has guards that may be dropped", f->name);
	if (j->c->settings)
		return fail(j, TJ_ERR_STATE, "tj_set_settings(c, NULL)",
		            "the context has other settings than the default, which a file does not keep");
	return true;
}

/* ---- arguments ---- */
static bool want_tensor(want *w, tj_dtype dtype, int rank, const int64_t *dim, bool cell)
{
	w->kind = cell ? GD_CELL : GD_VALUE;
	w->dtype = (uint8_t)dtype;
	w->rank = (uint8_t)rank;
	for (int d = 0; d < rank; d++) w->dim[d] = dim[d], w->symbol[d] = -1;
	return true;
}

static bool as_given(job *j, const tj_tensor *t, uint32_t i)
{
	want *w = &j->arg[i];
	if (!t || t == TJ_END) return fail(j, TJ_ERR_ARG, "TJ_LIST(a, b)", ".inputs has fewer than %u tensors", j->narg);
	if (jit_is_number(t)) return w->kind = rt_is_int_number(t) ? GD_INT : GD_FLOAT, true;
	if (t->kind == RT_POISON) return fail(j, TJ_ERR_ARG, "look at tj_check()", "input %u is poison", i);
	return want_tensor(w, (tj_dtype)t->dtype, t->rank, t->layout->dim, t->kind == RT_CELL);
}

/* As in the last signature that f met. Under f->table_lock: other threads may call f. */
static bool as_met(job *j)
{
	const tj_fn *f = j->f;
	const gd_sig *sig = f->entry.n ? &f->entry.v[f->entry.n - 1]->sig : NULL;
	if (!sig && j->narg)
		return fail(j, TJ_ERR_STATE, "call it once, or give .inputs",
		            "%s was never called, so the sizes of its arguments are not known", f->name);
	if (sig && (sig->nint || sig->nfloat) && !j->o.scalars)
		return fail(j, TJ_ERR_ARG, ".scalars = TJ_SCALARS(TJ_F(1))", "calls of %s have scalars: say which", f->name);
	for (uint32_t i = 0; i < j->narg; i++) {
		const rt_layout *l = sig->arg[i].layout;
		if (l) want_tensor(&j->arg[i], (tj_dtype)l->dtype, l->rank, l->dim, sig->arg[i].kind == GD_CELL);
		else j->arg[i].kind = sig->arg[i].kind;
	}
	return true;
}

static bool find_arguments(job *j)
{
	bool ok = true;
	j->narg = (uint32_t)j->f->opts.nin;
	if (!(j->arg = rt_calloc((j->narg + 1) * sizeof *j->arg))) return nomem(j);
	for (uint32_t i = 0; ok && j->o.inputs && i < j->narg; i++) ok = as_given(j, j->o.inputs[i], i);
	if (j->o.inputs) return ok;
	rt_lock(&j->f->table_lock);
	ok = as_met(j);
	rt_unlock(&j->f->table_lock);
	return ok;
}

static int64_t dim_at(const job *j, uint32_t k, const want *w, int d)
{
	return w->symbol[d] < 0 ? w->dim[d] : j->sizes[k * j->nsymbol + (uint32_t)w->symbol[d]];
}

/* The arguments at combination k, of undefined content, in context c. */
static bool make_arguments(job *j, tj_ctx *c, uint32_t k, tj_tensor **in)
{
	for (uint32_t i = 0; i < j->narg; i++) {
		const want *w = &j->arg[i];
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

static void drop_arguments(const job *j, tj_tensor **in)
{
	for (uint32_t i = 0; i < j->narg; i++)
		if (j->arg[i].kind == GD_CELL) tj_release_at(j->site, in[i]);
}

/* ---- combinations of sizes ---- */
/* The symbols of .shapes that some argument has. */
static bool find_symbols(job *j)
{
	const gd_spec *s = j->f->spec;
	int8_t known[GD_SYMBOLS];
	memset(known, -1, sizeof known);
	for (uint32_t i = 0; s && i < s->narg && i < j->narg; i++) {
		want *w = &j->arg[i];
		for (int d = 0; s->arg[i].ranked && !s->arg[i].fixed && w->kind <= GD_CELL && d < w->rank && d < s->arg[i].rank; d++) {
			if (s->arg[i].dim[d].kind != GD_DIM_NAME) continue;
			const int64_t y = s->arg[i].dim[d].v;
			if (known[y] < 0 && j->nsymbol == JIT_P_SYMBOLS)
				return fail(j, TJ_ERR_LIMIT, "make some of them `static`", "more than %d sizes vary", JIT_P_SYMBOLS);
			if (known[y] < 0) {
				known[y] = (int8_t)j->nsymbol;
				j->symbol[j->nsymbol++] = s->symbol[y];
			}
			w->symbol[d] = known[y];
		}
	}
	return true;
}

/* If there are too many: the least ones of each symbol. The ranges in the file are those that were tried. */
static bool choose_sizes(job *j)
{
	const uint32_t most = j->o.most ? j->o.most : MOST;
	int64_t n = 1, each[JIT_P_SYMBOLS];
	for (uint32_t i = 0; i < j->nsymbol; i++) {
		each[i] = jit_symbol_count(&j->symbol[i]);
		if (!each[i]) return fail(j, TJ_ERR_ARG, "look at the ranges in .shapes", "no size %s is allowed", j->symbol[i].name);
		n = n > JIT_P_FAR / each[i] ? JIT_P_FAR : n * each[i];
	}
	const bool fewer = n > most;
	while (n > most) { /* fewer of the symbol that has most */
		uint32_t widest = 0;
		for (uint32_t i = 1; i < j->nsymbol; i++)
			if (each[i] > each[widest]) widest = i;
		each[widest] = each[widest] > 2 * (int64_t)most ? most : (each[widest] + 1) / 2;
		n = 1;
		for (uint32_t i = 0; i < j->nsymbol; i++) n = n > JIT_P_FAR / each[i] ? JIT_P_FAR : n * each[i];
	}
	for (uint32_t i = 0; i < j->nsymbol; i++) {
		j->symbol[i].most = jit_symbol_size(&j->symbol[i], each[i] - 1);
		if (fewer)
			rt_warn(&j->c->engine->rt.log,
			        "export of %s: %s may be up to %lld in the file; .most allows more combinations of sizes", j->f->name,
			        j->symbol[i].name, (long long)j->symbol[i].most);
	}
	j->n = (uint32_t)n;
	if (!(j->sizes = rt_calloc(((size_t)j->n * j->nsymbol + 1) * sizeof *j->sizes))) return nomem(j);
	for (uint32_t k = 0; k < j->n; k++) {
		int64_t left = k;
		for (uint32_t i = 0; i < j->nsymbol; i++) {
			j->sizes[k * j->nsymbol + i] = jit_symbol_size(&j->symbol[i], left % each[i]);
			left /= each[i];
		}
	}
	return true;
}

static bool make_zeros(job *j)
{
	size_t most = 64;
	for (uint32_t k = 0; k < j->n; k++)
		for (uint32_t i = 0; i < j->narg; i++) {
			const want *w = &j->arg[i];
			int64_t dims[TJ_MAX_RANK] = { 0 }, numel;
			if (w->kind > GD_CELL) continue;
			for (int d = 0; d < w->rank; d++) dims[d] = dim_at(j, k, w, d);
			if (!rt_numel(w->rank, dims, &numel))
				return fail(j, TJ_ERR_SHAPE, "look at .shapes", "argument %u is too large", i);
			if ((size_t)numel * tj_dtype_size((tj_dtype)w->dtype) > most)
				most = (size_t)numel * tj_dtype_size((tj_dtype)w->dtype);
		}
	j->zeros = calloc(1, most); /* pages that nobody touches */
	return j->zeros || nomem(j);
}

/* ---- the program ---- */
static bool capture_all(job *j)
{
	tj_tensor **in = rt_alloc((j->narg + 1) * sizeof *in);
	bool ok = in && (j->at = rt_calloc((j->n + 1) * sizeof *j->at));
	if (!ok) nomem(j);
	for (uint32_t k = 0; ok && k < j->n; k++) {
		tj_scope *s = tj_push_at(j->site, j->c);
		ok = s && make_arguments(j, j->c, k, in) && (j->at[k] = jit_capture(j->c, j->site, j->g, in, j->o.scalars, &j->of));
		if (ok) drop_arguments(j, in);
		if (s) tj_pop_at(j->site, s);
	}
	rt_free(in);
	return ok;
}

static bool prove(job *j)
{
	jit_program *p = j->at[0];
	const int64_t **sizes = rt_alloc((j->n + 1) * sizeof *sizes);
	rt_err err = { 0 };
	bool ok = sizes != NULL;
	for (uint32_t i = 0; ok && i < j->nsymbol; i++) ok = rt_push(&p->symbol, j->symbol[i]);
	for (uint32_t k = 0; ok && k < j->n; k++) sizes[k] = j->sizes + (size_t)k * j->nsymbol;
	if (!ok) nomem(j);
	ok = ok && (jit_prove(p, j->n, j->at, sizes, &err) || told(j, &err));
	rt_free(sizes);
	return ok;
}

/* ---- variables ---- */
static const char *name_of(job *j, uint32_t i)
{
	char own[32];
	const uint32_t n = j->f->nstate;
	uint32_t given = 0;
	while (j->o.names && j->o.names[given]) given++;
	if (i < given && i < n) return j->o.names[i];
	snprintf(own, sizeof own, i < n ? "state%u" : "captured%u", i < n ? i : i - n);
	return rt_arena_strdup(&j->at[0]->mem, own);
}

static bool is_assigned(const jit_program *p, uint32_t var)
{
	for (uint32_t i = 0; i < p->step.n; i++) {
		const jit_pstep *s = &p->step.v[i];
		if (s->op == JIT_ASSIGN && s->src[1].kind == JIT_P_VAR && s->src[1].index == var) return true;
	}
	return false;
}

/* Weights are what is in .freeze, what is no parameter, and parameters that are not declared and that the body does not assign. */
static bool read_vars(job *j)
{
	jit_program *p = j->at[0];
	const uint32_t first = j->f->nstate - j->f->nfreeze;
	size_t bytes = 0;
	for (uint32_t i = 0; i < p->var.n; i++) {
		jit_pvar *v = &p->var.v[i];
		if (i >= first && (i < j->f->nstate || !is_assigned(p, i))) v->cell = false;
		if (!(v->name = name_of(j, i))) return nomem(j);
		v->at = bytes;
		bytes += (v->bytes + JIT_PACK_ALIGN - 1) / JIT_PACK_ALIGN * JIT_PACK_ALIGN;
	}
	j->data_bytes = bytes;
	if (!(j->data = rt_calloc(bytes + 1))) return nomem(j);
	for (uint32_t i = 0; i < p->var.n; i++) {
		const jit_pvar *v = &p->var.v[i];
		if (v->bytes && tj_read_at(j->site, j->of.v[i], j->data + v->at, v->bytes) != TJ_OK) return false;
	}
	return true;
}

/* ---- code ---- */
static bool read_cpus(job *j)
{
	const char *s = j->o.cpus ? j->o.cpus : "x86-64-v3,x86-64-v4";
	for (size_t n; *s; s += n + (s[n] == ',')) {
		n = strcspn(s, ",");
		rt_cpu c = { 0 };
		if (n == 9 && !memcmp(s, "x86-64-v3", n)) c.bits = 256;
		else if (n == 9 && !memcmp(s, "x86-64-v4", n)) c.bits = 512;
		else if (n == 6 && !memcmp(s, "native", n)) c = rt_cpu_now();
		else return fail(j, TJ_ERR_ARG, "x86-64-v3, x86-64-v4, native", ".cpus: there is no \"%.*s\"", (int)n, s);
		if (j->ncpu == JIT_PACK_CPUS) return fail(j, TJ_ERR_LIMIT, "each once", "more than %d CPUs", JIT_PACK_CPUS);
		j->cpu[j->ncpu++] = c;
	}
	return true;
}

/* Compiles the plan of the events, and lets it be. */
static bool compile(void *env, jit_act *a, uint32_t n, tj_tensor *const *res)
{
	(void)env;
	jit_node *b = jit_step(a, a->fn->site, JIT_RETURN, (int)n, res, 0, NULL);
	return b && jit_one_commit(a) && (!a->fresh || jit_seal(a, b));
}

static bool compile_at_sizes(job *j, tj_ctx *c, tj_fn *f)
{
	tj_tensor **in = rt_alloc((j->narg + 1) * sizeof *in);
	bool ok = in || nomem(j);
	for (uint32_t k = 0; ok && k < j->n; k++) {
		tj_scope *s = tj_push_at(j->site, c);
		ok = s && make_arguments(j, c, k, in) && jit_call_dry(c, j->site, f, in, j->o.scalars, compile, NULL) == TJ_OK;
		if (ok) drop_arguments(j, in);
		if (s) tj_pop_at(j->site, s);
	}
	rt_free(in);
	return ok;
}

/* In an engine of its own, whose functions compile for that CPU and keep their code in a store. */
static bool compile_for(job *j, tj_ctx *c, const void *bytes, size_t n, int i)
{
	const char *why = NULL;
	const lo_backend *b = lo_backend_find("llvm", &why);
	if (!b) return fail(j, TJ_ERR_COMPILE, ".cpus = \"\" writes a file without code", "there is no compiler: %s", why);
	if (!lo_own_build(b)) return fail(j, TJ_ERR_COMPILE, "install both of one build", "libtj-llvm.so is of another build than the library");
	tj_fn *f = tj_import_memory_at(j->site, c, bytes, n, TJ_OPTS(tj_import_opts, .recompile = true));
	if (!f) return false;
	rt_store_free(f->store);
	f->store = j->code[i] = rt_store_in_memory(NULL, true, &c->engine->rt.log);
	f->cpu = j->cpu[i];
	const bool ok = (f->store || nomem(j)) && compile_at_sizes(j, c, f);
	f->store = NULL; /* the job has it */
	tj_fn_free_at(j->site, f);
	return ok;
}

static bool compile_all(job *j)
{
	size_t n;
	unsigned char *bytes =
		j->ncpu ? jit_pack_write((rt_span){ j->text.s, j->text.n }, (rt_span){ j->data, j->data_bytes }, 0, NULL, NULL, &n) : NULL;
	bool ok = bytes || !j->ncpu || nomem(j);
	for (int i = 0; ok && i < j->ncpu; i++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .cache = "off"));
		ok = c ? compile_for(j, c, bytes, n, i) : nomem(j);
		if (!ok && c && tj_check(c)) {
			const tj_error *e = tj_last_error(c);
			fail(j, e->code, e->hint, "%s: %s", e->op, e->message);
		}
		if (c) tj_close(c);
		tj_ctx_use(j->c);
	}
	rt_free(bytes);
	return ok;
}

/* ---- the file ---- */
static bool write_pack(job *j, const char *path)
{
	size_t n;
	unsigned char *bytes =
		jit_pack_write((rt_span){ j->text.s, j->text.n }, (rt_span){ j->data, j->data_bytes }, j->ncpu, j->cpu, j->code, &n);
	rt_err err = { 0 };
	const bool ok = bytes ? jit_write_file(path, bytes, n, &err) || told(j, &err) : nomem(j);
	rt_free(bytes);
	return ok;
}

static bool print(job *j)
{
	jit_program_print(j->at[0], &j->text);
	return !j->text.oom || nomem(j);
}

static void drop(job *j)
{
	if (j->g) tj_fn_free_at(j->site, j->g);
	for (uint32_t k = 0; j->at && k < j->n; k++) jit_program_free(j->at[k]);
	for (int i = 0; i < j->ncpu; i++) rt_store_free(j->code[i]);
	rt_vec_free(&j->of);
	rt_text_free(&j->text);
	rt_free(j->arg);
	rt_free(j->sizes);
	rt_free(j->at);
	rt_free(j->data);
	free(j->zeros);
}

tj_status tj_export_at(const char *site, tj_fn *f, const char *path, const tj_export_opts *opts)
{
	JIT_CURRENT(c, site);
	job j = { .c = c, .site = site, .f = f };
	JIT_OPTIONS(tj_export_opts, o, opts);
	if (!c || jit_refuses_in_body(c, site, "export")) return TJ_ERR_STATE;
	j.o = o;
	bool ok = !jit_odd_size(o.size) || fail(&j, TJ_ERR_ARG, JIT_SIZES, o.size);
	ok = ok && ((f && path) || fail(&j, TJ_ERR_ARG, "tj_export(f, \"step.tjx\", NULL)", f ? "path is NULL" : "the function is NULL"));
	ok = ok &&
	     (f->engine == c->engine || fail(&j, TJ_ERR_FOREIGN, "use a context of its engine", "%s belongs to another engine", f->name));
	ok = ok && is_plain(&j) && read_cpus(&j) && copy_function(&j) && find_arguments(&j) && find_symbols(&j) && choose_sizes(&j) &&
	     make_zeros(&j) && capture_all(&j) && prove(&j) && read_vars(&j) && print(&j) && compile_all(&j) && write_pack(&j, path);
	const tj_status st = ok ? TJ_OK : c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	drop(&j);
	return st;
}
