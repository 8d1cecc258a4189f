/* SPDX-License-Identifier: MIT */
/* Import: the file of an exported function becomes a function. */
#include "jit/call.h"
#include "jit/handle.h"
#include "jit/program.h"
#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static tj_fn *fail(tj_ctx *c, const char *site, const rt_err *err)
{
	jit_report(c, site, err);
	return NULL;
}

/* ---- the file ---- */
void *jit_read_file(const char *path, size_t *n, rt_err *err)
{
	struct stat st;
	void *bytes = NULL;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) rt_fail(err, TJ_ERR_IO, "import", "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode)) rt_fail(err, TJ_ERR_IO, "import", "%s is no file", path);
	else if (!(bytes = rt_alloc((size_t)st.st_size + 1))) rt_fail(err, TJ_ERR_NOMEM, "import", "out of memory");
	else if (!rt_read_all(fd, bytes, *n = (size_t)st.st_size))
		rt_fail(err, TJ_ERR_IO, "import", "%s: %s", path, errno ? strerror(errno) : "it became shorter");
	if (fd >= 0) close(fd);
	if (err->code == TJ_OK) return bytes;
	rt_free(bytes);
	return NULL;
}

/* ---- code ---- */
/* Which of the file's code this CPU runs best; -1: none. */
static int best_cpu(const jit_pack *k)
{
	const int bits = rt_vector_bits();
	int best = -1;
	for (int i = 0; i < k->ncpu; i++) {
		const rt_cpu *x = &k->cpu[i].cpu, *b = best >= 0 ? &k->cpu[best].cpu : NULL;
		if (x->bits > bits || (x->bits != 512 && x->bits != 256 && x->bits != 128) || x->features & ~rt_features(x->bits)) continue;
		if (!b || x->bits > b->bits || (x->bits == b->bits && __builtin_popcount(x->features) > __builtin_popcount(b->features)))
			best = i;
	}
	return best;
}

void jit_put_cpu(const rt_cpu *cpu, rt_text *t)
{
	rt_putf(t, "%d bits", cpu->bits);
	for (int b = 0; rt_feature_name(b); b++)
		if (cpu->features >> b & 1) rt_putf(t, " +%s", rt_feature_name(b));
}

static void put_cpus(const jit_pack *k, rt_text *t)
{
	for (int i = 0; i < k->ncpu; i++) {
		rt_puts(t, i ? ", " : "");
		jit_put_cpu(&k->cpu[i].cpu, t);
	}
	if (!k->ncpu) rt_puts(t, "none");
}

/* Says why there is no code that fits. */
static bool no_code(const jit_pack *k, rt_err *err)
{
	rt_text t = { 0 };
	put_cpus(k, &t);
	if (memcmp(k->build, rt_build(), strlen(rt_build())) != 0)
		rt_fail(err, TJ_ERR_COMPILE, "import",
		        "the code in the file is of another build of tjit (%s) than this library (" TJ_VERSION ")", k->version);
	else
		rt_fail(err, TJ_ERR_COMPILE, "import", "the file has no code for this CPU, %d bits; it has code for: %s", rt_vector_bits(),
		        rt_str(&t));
	rt_hint(err, "import it with .recompile, or export it again");
	rt_text_free(&t);
	return false;
}

bool jit_take_code(rt_store *s, rt_span entries, uint32_t n)
{
	rt_span e;
	for (uint32_t i = 0; i < n; i++) {
		int kind;
		rt_span key, body;
		if (!jit_pack_entry(&entries, &e)) return false;
		if (rt_store_check(e.at, e.bytes, &kind, &key, &body) == RT_MISS_ABSENT &&
		    !rt_store_take(s, (rt_store_kind)kind, key, body))
			return false;
	}
	return true;
}

static bool give_code(tj_ctx *c, tj_fn *f, const jit_pack *k, bool recompile, rt_err *err)
{
	const bool own = !memcmp(k->build, rt_build(), strlen(rt_build()));
	const int best = own && !rt_cpu_missing() ? best_cpu(k) : -1;
	f->sealed = !recompile;
	if (!jit_target(c->engine)) return true; /* the evaluator needs none */
	if (best < 0) return recompile || no_code(k, err);
	f->cpu = k->cpu[best].cpu;
	f->store = rt_store_in_memory(recompile ? c->engine->store : NULL, true, &c->engine->rt.log);
	return (f->store && jit_take_code(f->store, k->cpu[best].entries, k->cpu[best].n)) ||
	       (rt_fail(err, TJ_ERR_NOMEM, "import", "out of memory"), false);
}

/* ---- variables ---- */
/* The cells, filled, and the lists of their addresses. */
static bool make_vars(tj_ctx *c, const char *site, jit_program *p, rt_span data, tj_tensor ****state, tj_tensor ****freeze)
{
	const uint32_t n = p->var.n;
	tj_tensor ***s = rt_arena_alloc(&p->mem, (n + 1) * sizeof *s), ***z = rt_arena_alloc(&p->mem, (n + 1) * sizeof *z);
	p->cell = rt_arena_alloc(&p->mem, (n + 1) * sizeof *p->cell);
	if (!s || !z || !p->cell) return false;
	*state = s, *freeze = z;
	for (uint32_t i = 0; i < n; i++) {
		const jit_pvar *v = &p->var.v[i];
		int64_t dims[TJ_MAX_RANK + 1];
		for (int d = 0; d < v->rank; d++) dims[d] = v->dim[d];
		dims[v->rank] = TJ_END_DIM;
		tj_tensor *cell = tj_param_on_at(site, c, TJ_CPU, (tj_dtype)v->dtype, dims);
		if (tj_is_poison(cell) || (v->bytes && tj_write_at(site, cell, (const char *)data.at + v->at, v->bytes) != TJ_OK))
			return false;
		p->cell[i] = cell;
		if (v->cell) *s++ = &p->cell[i];
		else *z++ = &p->cell[i];
	}
	*s = *z = TJ_END_VAR;
	return true;
}

/* ---- sizes ---- */
/* What .shapes of the function would say. */
static char *shapes_of(jit_program *p)
{
	rt_text t = { 0 };
	for (uint32_t i = 0; i < p->arg.n; i++) {
		const jit_parg *a = &p->arg.v[i];
		rt_puts(&t, i ? ", " : "");
		if (a->kind != GD_VALUE) {
			rt_puts(&t, "_");
			continue;
		}
		rt_putf(&t, "%s[", tj_dtype_name((tj_dtype)a->dtype));
		for (int d = 0; d < a->rank; d++) {
			const jit_psize *s = &a->dim[d];
			rt_puts(&t, d ? "," : "");
			if (jit_pconst(s) || (s->times == 1 && s->part == 1 && s->j < 0 && !s->more)) jit_put_psize(p, s, &t);
			else rt_puts(&t, "_");
		}
		rt_puts(&t, "]");
	}
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const gd_symbol *s = &p->symbol.v[i];
		rt_putf(&t, "; %s in %lld..%lld", s->name, (long long)s->least, (long long)s->most);
		if (s->mod > 1) rt_putf(&t, "; %s%%%lld==%lld", s->name, (long long)s->mod, (long long)s->rest);
	}
	char *copy = t.oom ? NULL : rt_arena_strdup(&p->mem, rt_str(&t));
	rt_text_free(&t);
	return copy;
}

static bool make_types(jit_program *p)
{
	if (!(p->type = rt_arena_alloc(&p->mem, (p->arg.n + 1) * sizeof *p->type))) return false;
	for (uint32_t i = 0; i < p->arg.n; i++) {
		rt_text t = { 0 };
		jit_put_parg(p, &p->arg.v[i], &t);
		p->type[i] = t.oom ? NULL : rt_arena_strdup(&p->mem, rt_str(&t));
		rt_text_free(&t);
		if (!p->type[i]) return false;
	}
	return true;
}

/* ---- the function ---- */
static void enlist(jit_engine *e, jit_program *p)
{
	rt_lock(&e->rt.lock);
	p->next = e->programs;
	e->programs = p;
	rt_unlock(&e->rt.lock);
}

static tj_fn *function_of(tj_ctx *c, const char *site, jit_program *p, const jit_pack *k, const tj_import_opts *o)
{
	tj_tensor ***state = NULL, ***freeze = NULL;
	rt_err err = { 0 };
	char *shapes = p->arg.n ? shapes_of(p) : NULL;
	if ((p->arg.n && !shapes) || !make_types(p) || !make_vars(c, site, p, k->data, &state, &freeze)) {
		rt_fail(&err, TJ_ERR_NOMEM, "import", "out of memory");
		return c->rt.err.code == TJ_OK ? fail(c, site, &err) : NULL;
	}
	tj_fn *f = tj_compile_at(site, c, jit_program_body, p,
	                         TJ_OPTS(tj_compile_opts, .name = o->name ? o->name : p->name, .nin = (int)p->arg.n, .nout = (int)p->nout,
	                                 .mode = TJ_DIRECT, .int_div_zero = (tj_int_div_zero)p->int_div_zero, .shapes = shapes,
	                                 .state = state, .freeze = freeze));
	if (!f) return NULL;
	f->program = p;
	if (give_code(c, f, k, o->recompile, &err)) return f;
	tj_fn_free_at(site, f);
	return fail(c, site, &err);
}

static tj_fn *import(tj_ctx *c, const char *site, const void *bytes, size_t n, const tj_import_opts *o)
{
	jit_pack k;
	rt_err err = { 0 };
	jit_program *p = jit_pack_read(bytes, n, &k, &err) ? jit_program_parse(k.text.at, k.text.bytes, k.data.bytes, &err) : NULL;
	if (!p) return fail(c, site, &err);
	enlist(c->engine, p);
	return function_of(c, site, p, &k, o);
}

tj_fn *tj_import_memory_at(const char *site, tj_ctx *c, const void *bytes, size_t n, const tj_import_opts *opts)
{
	JIT_OPTIONS(tj_import_opts, o, opts);
	if (!c || jit_refuses_in_body(c, site, "import")) return NULL;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "import", JIT_SIZES, o.size), NULL;
	if (!bytes) return jit_error(c, site, TJ_ERR_ARG, "import", "the bytes of a file that tj_export() wrote", "bytes is NULL"), NULL;
	void *copy = rt_alloc(n + 1); /* at a multiple of 8 */
	if (!copy) return jit_error(c, site, TJ_ERR_NOMEM, "import", NULL, "out of memory"), NULL;
	memcpy(copy, bytes, n);
	tj_fn *f = import(c, site, copy, n, &o);
	rt_free(copy);
	return f;
}

tj_fn *tj_import_at(const char *site, tj_ctx *c, const char *path, const tj_import_opts *opts)
{
	JIT_OPTIONS(tj_import_opts, o, opts);
	rt_err err = { 0 };
	size_t n = 0;
	if (!c || jit_refuses_in_body(c, site, "import")) return NULL;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "import", JIT_SIZES, o.size), NULL;
	if (!path) return jit_error(c, site, TJ_ERR_ARG, "import", "the path of a file that tj_export() wrote", "path is NULL"), NULL;
	void *bytes = jit_read_file(path, &n, &err);
	if (!bytes) return fail(c, site, &err);
	tj_fn *f = import(c, site, bytes, n, &o);
	rt_free(bytes);
	return f;
}

bool tj_fn_variable(tj_fn *f, int i, const char **name, tj_tensor **cell, bool *weight)
{
	const jit_program *p = f ? f->program : NULL;
	if (!p || i < 0 || (uint32_t)i >= p->var.n) return false;
	if (name) *name = p->var.v[i].name;
	if (cell) *cell = p->cell[i];
	if (weight) *weight = !p->var.v[i].cell;
	return true;
}

bool tj_fn_argument(tj_fn *f, int i, const char **type)
{
	const jit_program *p = f ? f->program : NULL;
	if (!p || i < 0 || (uint32_t)i >= p->arg.n) return false;
	if (type) *type = p->type[i];
	return true;
}

bool tj_fn_scalar(tj_fn *f, int i, tj_scalar *scalar)
{
	const jit_program *p = f ? f->program : NULL;
	if (!p || i < 0 || (uint32_t)i >= p->scalar.n) return false;
	if (scalar) *scalar = p->scalar.v[i];
	return true;
}

int tj_fn_results(tj_fn *f) { return f && f->program ? (int)f->program->nout : -1; }
