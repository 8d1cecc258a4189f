/* SPDX-License-Identifier: MIT */
/* Export: a function becomes a file. Its body is captured at each combination of the sizes that may vary, these become one program, and
 * the program is compiled for each CPU that was asked for. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/program.h"
#include "jit/sample.h"
#include "jit/segment.h"
#include "lower/stored.h"

enum { MOST = 1024 /* combinations of sizes */ };

typedef struct job {
	jit_sample s;
	tj_fn *g;                /* the same body, in direct mode, with nothing of the user's */
	tj_export_opts o;
	jit_program **at;        /* by combination */
	jit_handles of;          /* by variable */
	tj_scope *last;          /* of the last combination: what it holds is read later */
	rt_text text;
	unsigned char *data;
	size_t data_bytes;
	int ncpu;
	rt_cpu cpu[JIT_PACK_CPUS];
	rt_store *code[JIT_PACK_CPUS];
} job;

#define fail(j, ...) jit_sample_fail(&(j)->s, __VA_ARGS__)
static bool nomem(job *j) { return fail(j, TJ_ERR_NOMEM, NULL, "out of memory"); }
static bool told(job *j, const rt_err *err) { return jit_report(j->s.c, j->s.site, err), false; }

/* ---- the function ---- */
static bool is_plain(job *j)
{
	const tj_fn *f = j->s.f;
	if (f->program) return fail(j, TJ_ERR_STATE, "copy its file", "%s was imported", f->name);
	if (f->npass || f->opts.backend || j->s.c->engine->pass.n)
		return fail(j, TJ_ERR_STATE, "leave out .passes and .backend", "%s has passes or a back end of the program", f->name);
	if (f->opts.guard_filter) return fail(j, TJ_ERR_STATE, "leave out .guard_filter", "%s has guards that may be dropped", f->name);
	if (j->s.c->settings)
		return fail(j, TJ_ERR_STATE, "tj_set_settings(c, NULL)",
		            "the context has other settings than the default, which a file does not keep");
	return true;
}

/* ---- combinations of sizes ---- */
/* If there are too many: the least ones of each symbol. The ranges in the file are those that were tried. */
static bool choose_sizes(job *j)
{
	const uint32_t most = j->o.most ? j->o.most : MOST;
	int64_t n = 1, each[JIT_P_SYMBOLS];
	for (uint32_t i = 0; i < j->s.nsymbol; i++) {
		each[i] = jit_symbol_count(&j->s.symbol[i]);
		if (!each[i]) return fail(j, TJ_ERR_ARG, "look at the ranges in .shapes", "no size %s is allowed", j->s.symbol[i].name);
		n = n > JIT_P_FAR / each[i] ? JIT_P_FAR : n * each[i];
	}
	const bool fewer = n > most;
	while (n > most) { /* fewer of the symbol that has most */
		uint32_t widest = 0;
		for (uint32_t i = 1; i < j->s.nsymbol; i++)
			if (each[i] > each[widest]) widest = i;
		each[widest] = each[widest] > 2 * (int64_t)most ? most : (each[widest] + 1) / 2;
		n = 1;
		for (uint32_t i = 0; i < j->s.nsymbol; i++) n = n > JIT_P_FAR / each[i] ? JIT_P_FAR : n * each[i];
	}
	for (uint32_t i = 0; i < j->s.nsymbol; i++) {
		j->s.symbol[i].most = jit_symbol_size(&j->s.symbol[i], each[i] - 1);
		if (fewer)
			rt_warn(&j->s.c->engine->rt.log,
			        "export of %s: %s may be up to %lld in the file; .most allows more combinations of sizes", j->s.f->name,
			        j->s.symbol[i].name, (long long)j->s.symbol[i].most);
	}
	j->s.n = (uint32_t)n;
	if (!(j->s.sizes = rt_calloc(((size_t)j->s.n * j->s.nsymbol + 1) * sizeof *j->s.sizes))) return nomem(j);
	for (uint32_t k = 0; k < j->s.n; k++) {
		int64_t left = k;
		for (uint32_t i = 0; i < j->s.nsymbol; i++) {
			j->s.sizes[k * j->s.nsymbol + i] = jit_symbol_size(&j->s.symbol[i], left % each[i]);
			left /= each[i];
		}
	}
	return true;
}

/* ---- the program ---- */
static bool capture_all(job *j)
{
	tj_tensor **in = rt_alloc((j->s.narg + 1) * sizeof *in);
	bool ok = in && (j->at = rt_calloc((j->s.n + 1) * sizeof *j->at));
	if (!ok) nomem(j);
	for (uint32_t k = 0; ok && k < j->s.n; k++) {
		tj_scope *s = tj_push_at(j->s.site, j->s.c);
		ok = s && jit_sample_make(&j->s, j->s.c, k, in) && (j->at[k] = jit_capture(j->s.c, j->s.site, j->g, in, j->o.scalars, &j->of));
		if (ok) jit_sample_drop(&j->s, in);
		if (s && k + 1 < j->s.n) tj_pop_at(j->s.site, s);
		else j->last = s;
	}
	rt_free(in);
	return ok;
}

static bool prove(job *j)
{
	jit_program *p = j->at[0];
	const int64_t **sizes = rt_alloc((j->s.n + 1) * sizeof *sizes);
	rt_err err = { 0 };
	bool ok = sizes != NULL;
	for (uint32_t i = 0; ok && i < j->s.nsymbol; i++) ok = rt_push(&p->symbol, j->s.symbol[i]);
	for (uint32_t k = 0; ok && k < j->s.n; k++) sizes[k] = j->s.sizes + (size_t)k * j->s.nsymbol;
	if (!ok) nomem(j);
	ok = ok && (jit_prove(p, j->s.n, j->at, sizes, &err) || told(j, &err));
	rt_free(sizes);
	return ok;
}

/* ---- variables ---- */
static const char *name_of(job *j, uint32_t i)
{
	char own[32];
	const uint32_t n = j->s.f->nstate;
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
	const uint32_t first = j->s.f->nstate - j->s.f->nfreeze;
	size_t bytes = 0;
	for (uint32_t i = 0; i < p->var.n; i++) {
		jit_pvar *v = &p->var.v[i];
		if (i >= first && (i < j->s.f->nstate || !is_assigned(p, i))) v->cell = false;
		if (!(v->name = name_of(j, i))) return nomem(j);
		v->at = bytes;
		bytes += (v->bytes + JIT_PACK_ALIGN - 1) / JIT_PACK_ALIGN * JIT_PACK_ALIGN;
	}
	j->data_bytes = bytes;
	if (!(j->data = rt_calloc(bytes + 1))) return nomem(j);
	for (uint32_t i = 0; i < p->var.n; i++) {
		const jit_pvar *v = &p->var.v[i];
		if (v->bytes && tj_read_at(j->s.site, j->of.v[i], j->data + v->at, v->bytes) != TJ_OK) return false;
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
	tj_tensor **in = rt_alloc((j->s.narg + 1) * sizeof *in);
	bool ok = in || nomem(j);
	for (uint32_t k = 0; ok && k < j->s.n; k++) {
		tj_scope *s = tj_push_at(j->s.site, c);
		ok = s && jit_sample_make(&j->s, c, k, in) && jit_call_dry(c, j->s.site, f, in, j->o.scalars, compile, NULL) == TJ_OK;
		if (ok) jit_sample_drop(&j->s, in);
		if (s) tj_pop_at(j->s.site, s);
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
	tj_fn *f = tj_import_memory_at(j->s.site, c, bytes, n, TJ_OPTS(tj_import_opts, .recompile = true));
	if (!f) return false;
	rt_store_free(f->store);
	f->store = j->code[i] = rt_store_in_memory(NULL, true, &c->engine->rt.log);
	f->cpu = j->cpu[i];
	const bool ok = (f->store || nomem(j)) && compile_at_sizes(j, c, f);
	f->store = NULL; /* the job has it */
	tj_fn_free_at(j->s.site, f);
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
		tj_ctx_use(j->s.c);
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
	if (j->last) tj_pop_at(j->s.site, j->last);
	if (j->g) tj_fn_free_at(j->s.site, j->g);
	for (uint32_t k = 0; j->at && k < j->s.n; k++) jit_program_free(j->at[k]);
	for (int i = 0; i < j->ncpu; i++) rt_store_free(j->code[i]);
	rt_vec_free(&j->of);
	rt_text_free(&j->text);
	jit_sample_free(&j->s);
	rt_free(j->at);
	rt_free(j->data);
}

tj_status tj_export_at(const char *site, tj_fn *f, const char *path, const tj_export_opts *opts)
{
	JIT_CURRENT(c, site);
	job j = { .s = { .c = c, .site = site, .op = "export", .f = f } };
	JIT_OPTIONS(tj_export_opts, o, opts);
	if (!c || jit_refuses_in_body(c, site, "export")) return TJ_ERR_STATE;
	j.o = o;
	j.s.inputs = o.inputs, j.s.scalars = o.scalars;
	bool ok = !jit_odd_size(o.size) || fail(&j, TJ_ERR_ARG, JIT_SIZES, o.size);
	ok = ok && ((f && path) || fail(&j, TJ_ERR_ARG, "tj_export(f, \"step.tjx\", NULL)", f ? "path is NULL" : "the function is NULL"));
	ok = ok &&
	     (f->engine == c->engine || fail(&j, TJ_ERR_FOREIGN, "use a context of its engine", "%s belongs to another engine", f->name));
	ok = ok && is_plain(&j) && read_cpus(&j) && (j.g = jit_copy_function(c, site, f)) && jit_sample_arguments(&j.s) && choose_sizes(&j) &&
	     jit_sample_zeros(&j.s) && capture_all(&j) && prove(&j) && read_vars(&j) && print(&j) && compile_all(&j) && write_pack(&j, path);
	const tj_status st = ok ? TJ_OK : c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	drop(&j);
	return st;
}
