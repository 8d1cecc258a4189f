/* SPDX-License-Identifier: MIT */
/* The file of a report: of TJ_REPORT when the last context is closed or the process exits, of tj_report() at once. docs/REPORT.md
 * describes its fields. */
#include "jit/call.h"
#include "jit/claim.h"
#include "jit/report.h"
#include "runtime/file.h"
#include "runtime/matmul.h"
#include "runtime/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* EACH, ALL, FREED: bytes of a text, of all texts, of what is said of freed functions. */
enum { VERSION = 1, EACH = 256 << 10, ALL = 8 << 20, FREED = 32 << 20 };
enum { TEXTS = 8 }; /* plans of a function whose kernels are compiled for their texts, though all of them share code */

typedef struct jit_reporting {
	jit_engine *engine;
	struct jit_reporting *prev, *next; /* list of all that are open, under open_lock */
	char *path;
	unsigned process;        /* rt_fork_depth() of the process that opened the engine: a forked child writes nothing */
	atomic_bool written;
	atomic_size_t left;      /* room for texts: bytes */
	_Atomic(const char *) llvm; /* its version; NULL: it was not needed */
	atomic_uint settings;    /* of the context that was closed last */
	pthread_mutex_t lock;    /* of what follows; no other lock is taken under it */
	rt_json freed;           /* elements of an array: functions that were freed */
	uint32_t forgotten;      /* number of those for which there was no room */
} jit_reporting;

/* ---- the settings ---- */
static void put_settings(uint32_t s, rt_json *j)
{
	static const struct { const char *name; uint32_t bit; } flags[] = {
		{ "allow_tf32", RT_ALLOW_TF32 },        { "allow_reduced_precision", RT_ALLOW_REDUCED },
		{ "no_split_sums", RT_NO_SPLIT_SUMS },  { "allow_nondeterministic", RT_ALLOW_NONDETERMINISTIC },
		{ "autotune", RT_AUTOTUNE },            { "no_epilogues", RT_NO_EPILOGUES },
	};
	rt_json_open(j, "settings", '{');
	for (size_t i = 0; i < RT_COUNT(flags); i++) rt_json_bool(j, flags[i].name, s & flags[i].bit);
	rt_json_str(j, "products", s & RT_PRODUCTS_OWN ? "own" : s & RT_PRODUCTS_LIBRARY ? "library" : "auto");
	rt_json_str(j, "attention", s & RT_ATTENTION_MATH      ? "math"
	                            : s & RT_ATTENTION_FUSED   ? "fused"
	                            : s & RT_ATTENTION_LIBRARY ? "library"
	                                                       : "auto");
	rt_json_close(j, '}');
}

static void put_options(jit_engine *e, rt_json *j)
{
	rt_json_open(j, "options", '{');
	rt_json_str(j, "backend", e->backend_name);
	rt_json_str(j, "device", rt_device_name(e->device));
	rt_json_int(j, "threads", rt_team_size(e->rt.team));
	rt_json_count(j, "audit", e->audit);
	rt_json_bool(j, "profile", e->profile);
	rt_json_bool(j, "time_guards", e->timed);
	rt_json_bool(j, "check", e->rt.check);
	rt_json_str(j, "cache", rt_store_folder(e->store));
	rt_json_close(j, '}');
}

static void put_environment(rt_json *j)
{
	rt_json_open(j, "environment", '[');
	for (char **v = environ; v && *v; v++)
		if (!strncmp(*v, "TJ_", 3)) rt_json_str(j, NULL, *v);
	rt_json_close(j, ']');
}

/* ---- versions ---- */
static void put_version(rt_json *j, const char *name, const char *version, const char *why)
{
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "name", name);
	rt_json_str(j, "version", version);
	if (!version && why) rt_json_str(j, "why", why);
	rt_json_close(j, '}');
}

/* Only those that the run needed. llvm: its version; NULL: it was not needed */
static void put_versions(const char *llvm, uint32_t settings, rt_json *j)
{
	rt_json_open(j, "libraries", '[');
	if (llvm) put_version(j, "LLVM", llvm, NULL);
	if (settings & RT_PRODUCTS_LIBRARY) put_version(j, "oneDNN", rt_onednn_version(), "it is not there");
	for (int d = RT_CPU + 1; d < RT_DEVICES && rt_device_at(d); d++) put_version(j, rt_device_name(d), rt_device_at(d)->name, NULL);
	rt_json_close(j, ']');
}

static void put_machine(rt_json *j)
{
	const tj_machine *m = tj_this_machine();
	rt_json_open(j, "machine", '{');
	rt_json_str(j, "cpu", m->cpu);
	rt_json_int(j, "family", m->family);
	rt_json_int(j, "model", m->model);
	rt_json_int(j, "stepping", m->stepping);
	rt_json_str(j, "capability", m->capability);
	rt_json_int(j, "vector_bits", m->vector_bits);
	rt_json_int(j, "cpus", m->cpus);
	rt_json_int(j, "allowed", m->allowed);
	rt_json_open(j, "caches", '[');
	for (int i = 0; i < 3; i++) rt_json_int(j, NULL, m->cache[i]);
	rt_json_close(j, ']');
	rt_json_close(j, '}');
}

/* ---- the whole ---- */
static void put_functions(jit_engine *e, jit_room *room, const rt_json *freed, rt_json *j)
{
	rt_json_open(j, "functions", '[');
	if (freed && freed->text.n) rt_json_part(j, NULL, &freed->text);
	for (uint32_t i = 0;; i++) { /* under rt.lock no function may be lowered: others may be made meanwhile, but none is freed */
		uint32_t k = 0;
		rt_lock(&e->rt.lock);
		tj_fn *f = e->fns;
		for (const tj_fn *x = e->fns; x; x = x->next) k++;
		for (uint32_t skip = i < k ? k - 1 - i : 0; f && skip; skip--) f = f->next;
		rt_unlock(&e->rt.lock);
		if (i >= k || !f) break;
		jit_report_fn(f, room, j); /* the oldest first */
	}
	rt_json_close(j, ']');
}

static void put_report(jit_engine *e, uint32_t settings, const char *llvm, jit_room *room, const jit_reporting *r, rt_json *j)
{
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "schema", "tjit report");
	rt_json_int(j, "version", VERSION);
	rt_json_str(j, "tjit", TJ_VERSION);
	rt_json_str(j, "build", rt_build());
	rt_json_str(j, "program", program_invocation_short_name);
	rt_json_int(j, "process", getpid());
	rt_json_int(j, "written", (int64_t)time(NULL)); /* seconds since 1970 */
	put_machine(j);
	put_versions(llvm, settings, j);
	put_settings(settings, j);
	put_options(e, j);
	put_environment(j);
	put_functions(e, room, r ? &r->freed : NULL, j);
	if (r && r->forgotten) rt_json_count(j, "functions_left_out", r->forgotten);
	rt_json_close(j, '}');
	rt_puts(&j->text, "\n");
}

/* why: of an error. */
static tj_status write_file(const rt_json *j, const char *path, const char **why)
{
	rt_text beside = { 0 };
	rt_putf(&beside, "%s.%d.part", path, (int)getpid());
	const bool oom = j->text.oom || beside.oom;
	const bool ok = !oom && rt_replace_file(path, beside.s, 0666, false, j->text.s, j->text.n);
	*why = oom ? "out of memory" : strerror(errno);
	rt_text_free(&beside);
	return ok ? TJ_OK : oom ? TJ_ERR_NOMEM : TJ_ERR_IO;
}

/* ---- TJ_REPORT ---- */
/* "%p" is the number of the process. The n-th engine of the process writes "run.2.json" for "run.json". */
static char *path_of(const char *asked, unsigned n)
{
	rt_text t = { 0 };
	const char *base = strrchr(asked, '/'), *dot = strrchr(base ? base : asked, '.');
	for (const char *s = asked; *s; s++) {
		if (s == dot && n > 1) rt_putf(&t, ".%u", n);
		if (s[0] == '%' && s[1] == 'p') rt_putf(&t, "%d", (int)getpid()), s++;
		else rt_putn(&t, s, 1);
	}
	if (!dot && n > 1) rt_putf(&t, ".%u", n);
	if (!t.oom) return t.s;
	rt_text_free(&t);
	return NULL;
}

static jit_room room_of(jit_reporting *r) { return (jit_room){ .kept = true, .each = EACH, .left = atomic_load(&r->left) }; }

static bool is_over(const jit_reporting *r) { return !r || atomic_load(&r->written) || r->process != rt_fork_depth(); }

static void write_report(jit_engine *e)
{
	jit_reporting *r = e->report;
	rt_json j = { 0 };
	int cancel;
	if (is_over(r) || atomic_exchange(&r->written, true)) return;
	jit_room room = room_of(r);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	put_report(e, atomic_load(&r->settings), atomic_load(&r->llvm), &room, r, &j);
	const char *why;
	if (write_file(&j, r->path, &why) != TJ_OK) rt_warn(&e->rt.log, "TJ_REPORT: %s: %s", r->path, why);
	rt_text_free(&j.text);
	pthread_setcancelstate(cancel, NULL);
}

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static jit_reporting *open_ones;

static void exiting(void)
{
	RT_DEFAULT_MODES;
	rt_lock(&open_lock);
	for (jit_reporting *r = open_ones; r; r = r->next) write_report(r->engine);
	rt_unlock(&open_lock);
}

static void watch_exit(void) { atexit(exiting); }

jit_reporting *jit_report_new(jit_engine *e, const char *path)
{
	static atomic_uint engines;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	jit_reporting *r = rt_calloc(sizeof *r);
	char *own = r ? path_of(path, atomic_fetch_add(&engines, 1) + 1) : NULL;
	if (!own) {
		rt_free(r);
		return NULL;
	}
	r->path = own;
	r->process = rt_fork_depth();
	atomic_init(&r->left, ALL);
	pthread_mutex_init(&r->lock, NULL);
	pthread_once(&once, watch_exit);
	r->engine = e;
	rt_lock(&open_lock);
	if ((r->next = open_ones)) r->next->prev = r;
	open_ones = r;
	rt_unlock(&open_lock);
	return r;
}

static const char *llvm_version(const jit_engine *e)
{
	const char *why;
	const lo_backend *b = strcmp(e->backend_name, "llvm") ? NULL : lo_backend_find("llvm", &why);
	return b ? b->version : NULL;
}

void jit_report_plan(tj_fn *f, jit_plan *p)
{
	jit_reporting *r = f->engine->report;
	rt_json j = { 0 };
	if (is_over(r) || !p->n || p->exec->run != rt_plan_run) return;
	jit_room room = room_of(r);
	const size_t before = room.left;
	room.texts = p->exec->compiled || p->exec->loaded || atomic_load(&f->count.plans) <= TEXTS;
	jit_report_lowered(f, p, &room, &j, NULL);
	atomic_fetch_sub(&r->left, before - room.left <= atomic_load(&r->left) ? before - room.left : 0);
	atomic_store(&r->llvm, llvm_version(f->engine));
	p->lowered = j.text.oom || !j.text.n ? NULL : rt_alloc(sizeof *p->lowered);
	if (p->lowered) *p->lowered = j.text;
	else rt_text_free(&j.text);
}

void jit_report_keep(tj_fn *f)
{
	jit_reporting *r = f->engine->report;
	if (is_over(r)) return;
	RT_DEFAULT_MODES;
	rt_json j = { 0 };
	jit_room room = room_of(r);
	jit_report_fn(f, &room, &j);
	rt_lock(&r->lock);
	if (j.text.oom || r->freed.text.n > FREED) r->forgotten++;
	else rt_json_part(&r->freed, NULL, &j.text);
	rt_unlock(&r->lock);
	rt_text_free(&j.text);
}

void jit_report_settings(const tj_ctx *c)
{
	if (c->engine->report) atomic_store(&c->engine->report->settings, c->settings);
}

void jit_report_end(jit_engine *e)
{
	jit_reporting *r = e->report;
	if (!r) return;
	write_report(e);
	rt_lock(&open_lock);
	if (r->prev) r->prev->next = r->next;
	else open_ones = r->next;
	if (r->next) r->next->prev = r->prev;
	rt_unlock(&open_lock);
	pthread_mutex_destroy(&r->lock);
	rt_text_free(&r->freed.text);
	rt_free(r->path);
	rt_free(r);
	e->report = NULL;
}

/* ---- tj_report() ---- */
tj_status tj_report_at(const char *site, tj_ctx *c, const char *path, const tj_report_opts *opts)
{
	RT_DEFAULT_MODES;
	JIT_COME_IN(in, c, site);
	JIT_OPTIONS(tj_report_opts, o, opts);
	if (!in || jit_refuses_in_body(c, site, "report")) return TJ_ERR_STATE;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "report", JIT_SIZES, o.size), TJ_ERR_ARG;
	if (!path || !*path) return jit_error(c, site, TJ_ERR_ARG, "report", "name a file", "path is %s", path ? "empty" : "NULL"), TJ_ERR_ARG;
	jit_room room = { .texts = !o.no_code, .each = EACH, .left = o.text_bytes ? (size_t)o.text_bytes : ALL };
	rt_json j = { 0 };
	put_report(c->engine, c->settings, room.texts ? llvm_version(c->engine) : NULL, &room, NULL, &j);
	const char *why;
	const tj_status st = write_file(&j, path, &why);
	rt_text_free(&j.text);
	if (st != TJ_OK)
		jit_error(c, site, st, "report", st == TJ_ERR_NOMEM ? NULL : "name a file in a folder that this process may write to", "%s: %s",
		          path, why);
	return st;
}
