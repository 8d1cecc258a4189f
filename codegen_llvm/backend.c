/* backend: the plug-in's one symbol. Kernels of a plan -> text -> one object -> code. Kernels that are equal but for their
 * names are compiled once, and not at all when another plan has them. */
#include "codegen_llvm/cg.h"

typedef struct unit { /* a kernel of the job */
	rt_text text;       /* its function */
	cg_key key;
	int same;           /* an earlier kernel that equals it, or -1 */
	bool there;         /* found among those that exist */
} unit;

typedef struct plan_code {
	rt_code code;
	uint32_t n;
	cg_object *object[];
} plan_code;

static void destroy(rt_code *code)
{
	plan_code *p = (plan_code *)code;
	for (uint32_t i = 0; i < p->n; i++) cg_drop(p->object[i]);
	rt_free(p);
}

static void hold(plan_code *p, cg_object *o)
{
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->object[i] != o) continue;
		cg_drop(o); /* one reference is enough */
		return;
	}
	p->object[p->n++] = o;
	p->code.bytes += cg_object_bytes(o);
}

/* ---- text ---- */
static void put_head(rt_text *out, const lo_compile *job, const struct cg_target *t, int bits)
{
	rt_putf(out, "; %s: %d kernels, %d-bit vectors\n", job->name ? job->name : "plan", job->nkernel, bits);
	rt_putf(out, "target datalayout = \"%s\"\ntarget triple = \"x86_64-unknown-linux-gnu\"\n\n", cg_layout(t));
}

static void put_foot(rt_text *out, int bits) { rt_putf(out, "attributes #0 = { nounwind \"prefer-vector-width\"=\"%d\" }\n", bits); }

static int equal_before(const unit *u, int k)
{
	for (int i = 0; i < k; i++)
		if (u[i].same < 0 && u[i].key.n == u[k].key.n && !memcmp(u[i].key.text, u[k].key.text, u[k].key.n)) return i;
	return -1;
}

static tj_status print(const lo_compile *job, unit *u, int bits, rt_err *err)
{
	for (int k = 0; k < job->nkernel; k++) {
		tj_status st = cg_kernel(job->kernel[k], bits, &u[k].text, err);
		if (st != TJ_OK) return st;
		const char *body = strchr(u[k].text.s, '\n'); /* the name stands in the first line */
		u[k].key = (cg_key){ .text = body, .n = u[k].text.n - (size_t)(body - u[k].text.s), .bits = bits };
		u[k].same = equal_before(u, k);
	}
	return TJ_OK;
}

/* The whole plan, for people: also what is not compiled now. */
static char *dump(const lo_compile *job, const unit *u, const struct cg_target *t, int bits)
{
	rt_text out = { 0 };
	put_head(&out, job, t, bits);
	for (int k = 0; k < job->nkernel; k++)
		if (u[k].same < 0) rt_puts(&out, rt_str(&u[k].text));
		else rt_putf(&out, "; %s is %s\n\n", job->kernel[k]->name, job->kernel[u[k].same]->name);
	put_foot(&out, bits);
	if (out.oom) rt_text_free(&out);
	return out.s;
}

/* ---- the new ones ---- */
typedef struct fresh { int n; const char **name; cg_key *key; rt_kernel_fn **fn; rt_text text; } fresh;

static tj_status build(fresh *f, struct cg_target *t, plan_code *p, rt_err *err)
{
	void *object;
	size_t bytes;
	tj_status st = cg_object_of(t, f->text.s, f->text.n, &object, &bytes, err);
	if (st != TJ_OK) return st;
	cg_library *l = cg_link(object, f->n, f->name, f->fn, err);
	if (!l) return err->code;
	cg_object *o = cg_keep(l, bytes, f->n, f->key, f->fn);
	if (o) {
		hold(p, o);
		return TJ_OK;
	}
	cg_unlink(l);
	return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
}

static tj_status compile_new(lo_compile *job, const unit *u, struct cg_target *t, int bits, plan_code *p, rt_err *err)
{
	size_t n = (size_t)job->nkernel + 1;
	fresh f = { .name = rt_calloc(n * sizeof *f.name), .key = rt_calloc(n * sizeof *f.key), .fn = rt_calloc(n * sizeof *f.fn) };
	tj_status st = TJ_OK;
	put_head(&f.text, job, t, bits);
	for (int k = 0; f.name && f.key && f.fn && k < job->nkernel; k++) {
		if (u[k].there || u[k].same >= 0) continue;
		rt_puts(&f.text, rt_str(&u[k].text));
		f.name[f.n] = job->kernel[k]->name;
		f.key[f.n++] = u[k].key;
	}
	put_foot(&f.text, bits);
	if (!f.name || !f.key || !f.fn || f.text.oom) st = rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	else if (f.n) st = build(&f, t, p, err);
	for (int k = 0, i = 0; st == TJ_OK && k < job->nkernel; k++)
		if (!u[k].there && u[k].same < 0) job->fn[k] = f.fn[i++];
	rt_free(f.name);
	rt_free(f.key);
	rt_free(f.fn);
	rt_text_free(&f.text);
	return st;
}

/* ---- a job ---- */
static tj_status compile_units(lo_compile *job, unit *u, int bits, plan_code *p, rt_err *err)
{
	struct cg_target *t = cg_target_get(bits, err);
	if (!t) return err->code;
	tj_status st = print(job, u, bits, err);
	if (st != TJ_OK) return st;
	if (job->keep_text) job->text = dump(job, u, t, bits);
	for (int k = 0; k < job->nkernel; k++) {
		cg_object *o = u[k].same < 0 ? cg_find(u[k].key, &job->fn[k]) : NULL;
		u[k].there = o != NULL;
		if (o) hold(p, o);
	}
	st = compile_new(job, u, t, bits, p, err);
	for (int k = 0; k < job->nkernel; k++)
		if (u[k].same >= 0) job->fn[k] = job->fn[u[k].same];
	return st;
}

static tj_status compile(lo_compile *job, rt_err *err)
{
	double start = rt_now_ms();
	size_t n = (size_t)job->nkernel + 1;
	unit *u = rt_calloc(n * sizeof *u);
	plan_code *p = rt_calloc(sizeof *p + n * sizeof *p->object);
	job->code = NULL;
	job->text = NULL;
	tj_status st = u && p ? compile_units(job, u, cg_width(), p, err) : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	for (int k = 0; u && k < job->nkernel; k++) rt_text_free(&u[k].text);
	rt_free(u);
	if (p) p->code = (rt_code){ .refs = 1, .bytes = p->code.bytes, .destroy = destroy };
	if (st == TJ_OK) job->code = &p->code;
	else if (p) destroy(&p->code);
	job->codegen_ms = rt_now_ms() - start;
	return st;
}

static const lo_backend backend = { .name = "llvm", .missing = cg_missing, .compile = compile, .width = cg_width };

TJ_API const lo_backend *tj_llvm_backend(void);
const lo_backend *tj_llvm_backend(void) { return &backend; }
