/* SPDX-License-Identifier: MIT */
/* contents: what is in the file of an exported function. It is read as by an import, but nothing of it becomes a function. */
#include "jit/call.h"
#include "jit/handle.h"
#include "jit/program.h"

#include <ctype.h>

/* ---- parts; false: visit wants no more ---- */
typedef struct walk {
	tj_export_visit *visit;
	void *env;
	rt_text text;
	bool oom;
} walk;

/* With what is in w->text, if text is NULL. */
static bool part(walk *w, tj_export_part p)
{
	if (!p.text) p.text = rt_str(&w->text);
	w->oom = w->oom || w->text.oom;
	const bool more = !w->oom && w->visit(w->env, &p);
	rt_text_free(&w->text);
	w->text = (rt_text){ 0 };
	return more;
}

static bool sizes(walk *w, const jit_program *p)
{
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const gd_symbol *s = &p->symbol.v[i];
		rt_putf(&w->text, "%lld..%lld", (long long)s->least, (long long)s->most);
		if (s->mod > 1) rt_putf(&w->text, "; %s%%%lld==%lld", s->name, (long long)s->mod, (long long)s->rest);
		if (!part(w, (tj_export_part){ .kind = "size", .name = s->name })) return false;
	}
	return true;
}

static bool arguments(walk *w, const jit_program *p)
{
	char number[16];
	for (uint32_t i = 0; i < p->arg.n; i++) {
		snprintf(number, sizeof number, "%u", i);
		jit_put_parg(p, &p->arg.v[i], &w->text);
		if (!part(w, (tj_export_part){ .kind = "argument", .name = number })) return false;
	}
	for (uint32_t i = 0; i < p->scalar.n; i++) {
		const tj_scalar *s = &p->scalar.v[i];
		snprintf(number, sizeof number, "%u", i);
		if (s->kind == TJ_SCALAR_I) rt_putf(&w->text, "int %lld", (long long)s->i);
		else rt_puts(&w->text, "float");
		if (!part(w, (tj_export_part){ .kind = "scalar", .name = number })) return false;
	}
	return true;
}

static bool results(walk *w, const jit_program *p)
{
	char number[16];
	for (uint32_t i = 0; i < p->result.n; i++) {
		snprintf(number, sizeof number, "%u", i);
		jit_put_parg(p, &p->result.v[i], &w->text);
		if (!part(w, (tj_export_part){ .kind = "result", .name = number })) return false;
	}
	return true;
}

static bool variables(walk *w, const jit_program *p)
{
	for (uint32_t i = 0; i < p->var.n; i++) {
		const jit_pvar *v = &p->var.v[i];
		jit_put_pvar(v, &w->text);
		if (!part(w, (tj_export_part){ .kind = v->cell ? "state" : "weight", .name = v->name, .bytes = v->bytes })) return false;
	}
	return true;
}

static bool cpus(walk *w, const jit_pack *k)
{
	for (int i = 0; i < k->ncpu; i++) {
		jit_put_cpu(&k->cpu[i].cpu, &w->text);
		if (!part(w, (tj_export_part){ .kind = "cpu", .name = "", .count = k->cpu[i].n, .bytes = k->cpu[i].entries.bytes })) return false;
	}
	return true;
}

static bool all(walk *w, const jit_program *p, const jit_pack *k, size_t n)
{
	const tj_export_part file = { "file", k->version, k->build, !memcmp(k->build, rt_build(), strlen(rt_build())), n };
	if (!part(w, file) || !part(w, (tj_export_part){ .kind = "function", .name = p->name, .text = "", .count = p->nout })) return false;
	if (!sizes(w, p) || !arguments(w, p) || !results(w, p) || !variables(w, p) || !cpus(w, k)) return false;
	jit_program_print(p, &w->text);
	return part(w, (tj_export_part){ .kind = "program", .name = "", .count = p->step.n });
}

/* ---- the file ---- */
/* Its head is no text. */
static void make_plain(char *s)
{
	for (; *s; s++)
		if (*s & 0x80 || !isgraph((unsigned char)*s)) *s = '?';
}

bool jit_walk_pack(const void *bytes, size_t n, tj_export_visit *visit, void *env, rt_err *err)
{
	jit_pack k;
	walk w = { .visit = visit, .env = env };
	jit_program *p = jit_pack_read(bytes, n, &k, err) ? jit_program_parse(k.text.at, k.text.bytes, k.data.bytes, err) : NULL;
	if (!p) return false;
	make_plain(k.build);
	make_plain(k.version);
	all(&w, p, &k, n);
	if (w.oom) rt_fail(err, TJ_ERR_NOMEM, "export_walk", "out of memory");
	jit_program_free(p);
	return !w.oom;
}

tj_status tj_export_walk_at(const char *site, tj_ctx *c, const char *path, tj_export_visit *visit, void *env)
{
	rt_err err = { 0 };
	size_t n = 0;
	if (!c || jit_refuses_in_body(c, site, "export_walk")) return TJ_ERR_STATE;
	if (!path || !visit)
		return jit_error(c, site, TJ_ERR_ARG, "export_walk", "the path of a file that tj_export() wrote, and a function", "%s is NULL",
		                 path ? "visit" : "path"),
		       TJ_ERR_ARG;
	void *bytes = jit_read_file(path, &n, &err);
	if (!bytes || !jit_walk_pack(bytes, n, visit, env, &err)) jit_report(c, site, &err);
	rt_free(bytes);
	return err.code;
}
