/* Contexts and the engine: open, clone, use, close; the current context of a thread; errors. */
#include "jit/jit.h"

#include <limits.h>
#include <stdlib.h>

_Thread_local tj_ctx *jit_thread_ctx;

tj_ctx *tj_ctx_current(void) { return jit_thread_ctx; }

tj_ctx *tj_ctx_use(tj_ctx *c)
{
	tj_ctx *was = jit_thread_ctx;
	jit_thread_ctx = c;
	return was;
}

/* ---- engine ---- */

/* In a child of fork() all rt_lock()s are free, but a cell that another thread was reading is still locked by its flag. */
static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static jit_engine *engines;

static void forked_child(void)
{
	for (jit_engine *e = engines; e; e = e->next)
		for (rt_held *h = e->rt.held; h; h = h->next) atomic_flag_clear(&h->lock);
}

static void enlist(jit_engine *e)
{
	rt_lock(&engines_lock);
	rt_fork_child(forked_child);
	if ((e->next = engines)) e->next->prev = e;
	engines = e;
	rt_unlock(&engines_lock);
}

static void delist(jit_engine *e)
{
	rt_lock(&engines_lock);
	if (e->prev) e->prev->next = e->next;
	else if (engines == e) engines = e->next;
	if (e->next) e->next->prev = e->prev;
	rt_unlock(&engines_lock);
}

/* Warns about a variable with an unknown value, and ignores it: the environment must not make a program fail. */
static bool env_set(const rt_log_to *log, const char *name)
{
	const char *v = getenv(name);
	if (!v || !*v || !strcmp(v, "0")) return false;
	if (!strcmp(v, "1")) return true;
	rt_warn(log, "%s=%s is neither 0 nor 1; it is ignored", name, v);
	return false;
}

static int env_count(const rt_log_to *log, const char *name)
{
	const char *v = getenv(name);
	char *end = NULL;
	long n = v && *v ? strtol(v, &end, 10) : 0;
	if (!v || !*v) return 0;
	if (!*end && n >= 0 && n <= INT_MAX) return (int)n;
	rt_warn(log, "%s=%s is not a number of 0 or more; it is ignored", name, v);
	return 0;
}

static void check_env_cpu(const rt_log_to *log)
{
	const char *v = getenv("TJ_CPU");
	if (v && *v && strcmp(v, "512") && strcmp(v, "256") && strcmp(v, "128")) rt_warn(log, "TJ_CPU=%s is not 512, 256 or 128; it is ignored", v);
}

/* runtime/onednn.c reads it when the first product is planned. */
static void check_env_onednn(const rt_log_to *log)
{
	const char *v = getenv("TJ_ONEDNN");
	if (v && *v && strcmp(v, "off")) rt_warn(log, "TJ_ONEDNN=%s is not \"off\"; it is ignored", v);
}

static void read_env_log(rt_log_to *log)
{
	rt_err err = { 0 };
	if (!rt_log_parse(log, getenv("TJ_LOG"), &err)) rt_warn(log, "TJ_LOG: %s; %s", err.message, err.hint);
}

static void close_engine(jit_engine *e)
{
	delist(e);
	while (e->fns) tj_fn_free(e->fns);
	jit_eager_free(e->eager);
	jit_constants_free(e);
	rt_held_free_all(&e->rt);
	rt_layouts_free(&e->rt.layouts);
	pthread_mutex_destroy(&e->rt.lock);
	pthread_mutex_destroy(&e->rt.commit_lock);
	pthread_mutex_destroy(&e->target_lock);
	rt_vec_free(&e->pass);
	rt_free(e->dump);
	rt_free(e->backend_name);
	rt_free(e->used);
	rt_free(e);
}

static void log_line(void *self, const char *line)
{
	const jit_engine *e = self;
	JIT_CALLS_BACK;
	e->log_to(e->log_self, line);
}

static jit_engine *open_engine(const tj_open_opts *o)
{
	jit_engine *e = rt_calloc(sizeof *e);
	if (!e) return NULL;
	rt_layouts_init(&e->rt.layouts);
	pthread_mutex_init(&e->rt.lock, NULL);
	pthread_mutex_init(&e->rt.commit_lock, NULL);
	pthread_mutex_init(&e->target_lock, NULL);
	enlist(e);
	atomic_init(&e->rt.contexts, 0);
	atomic_init(&e->rt.serial, 1);
	e->log_to = o->log_to;
	e->log_self = o->log_self;
	e->rt.log = (rt_log_to){ .to = o->log_to ? log_line : NULL, .self = e };
	e->rt.check = env_set(&e->rt.log, "TJ_CHECK") || o->check;
	rt_barrier_init();
	e->rt.team = rt_team_get(o->threads > 0 ? o->threads : env_count(&e->rt.log, "TJ_THREADS"));
	e->timed = env_set(&e->rt.log, "TJ_TIME_GUARDS") || o->time_guards;
	e->audit = (uint32_t)(o->audit > 0 ? o->audit : env_count(&e->rt.log, "TJ_AUDIT"));
	e->seed = o->seed;
	const char *device = o->device ? o->device : getenv("TJ_DEVICE");
	e->device = device && *device ? tj_find_device(device) : TJ_CPU;
	if (e->device < 0) {
		rt_warn(&e->rt.log, "there is no device %s; tensors are made on the CPU", device);
		e->device = TJ_CPU;
	}
	const char *name = o->backend ? o->backend : getenv("TJ_BACKEND");
	e->backend_name = rt_strdup(name && *name ? name : "llvm");
	const char *dump = o->dump ? o->dump : getenv("TJ_DUMP");
	e->dump = dump && *dump ? rt_strdup(dump) : NULL;
	if (!e->backend_name || (dump && *dump && !e->dump)) {
		close_engine(e);
		return NULL;
	}
	check_env_cpu(&e->rt.log);
	check_env_onednn(&e->rt.log);
	if (!o->log) read_env_log(&e->rt.log);
	return e;
}

/* ---- the target of lowering ---- */
static void evaluate_instead(jit_engine *e, const char *why)
{
	rt_warn(&e->rt.log, "back end %s: %s; the evaluator runs instead", e->backend_name, why);
	e->target = NULL;
}

const lo_target *jit_target(jit_engine *e)
{
	rt_lock(&e->target_lock);
	if (!e->target_found) {
		const char *why = NULL;
		if (strcmp(e->backend_name, "eval")) e->target = lo_target_find(e->backend_name, &why);
		if (why) evaluate_instead(e, why);
		e->target_found = true;
	}
	const lo_target *t = e->target;
	rt_unlock(&e->target_lock);
	return RT_UNLIKELY(lo_backend_gone()) ? NULL : t;
}

/* The back end of the target is missing. Several threads may find that at the same time. */
static void lose_backend(jit_engine *e, const lo_target *t, const char *why)
{
	rt_lock(&e->target_lock);
	if (e->target == t && !lo_backend_gone()) evaluate_instead(e, why);
	rt_unlock(&e->target_lock);
}

/* LLVM is loaded (8 ms, 48 MiB) when the first kernel must be compiled. */
const lo_backend *jit_backend(jit_engine *e)
{
	const char *why = NULL;
	const lo_target *t = jit_target(e);
	const lo_backend *b = t ? t->find(t->backend, &why) : NULL;
	if (t && !b) lose_backend(e, t, why);
	return b;
}

tj_status jit_lower(jit_engine *e, const ir_graph *g, lo_opts *o, rt_exec **out, rt_err *err)
{
	const char *why = NULL;
	o->missing = &why;
	tj_status st = lo_build(g, o, out, err);
	if (why) lose_backend(e, o->target, why);
	return st;
}

/* ---- contexts ---- */
static uint64_t mix(uint64_t seed, uint64_t ordinal)
{
	uint64_t in[2] = { seed, ordinal };
	return ordinal ? rt_hash(in, sizeof in, 0) : seed;
}

static tj_ctx *open_on(jit_engine *e)
{
	tj_ctx *c = rt_calloc(sizeof *c);
	if (!c) return NULL;
	if (!rt_ctx_init(&c->rt, c, &e->rt)) {
		rt_ctx_free(&c->rt);
		rt_free(c);
		return NULL;
	}
	atomic_fetch_add(&e->rt.contexts, 1);
	c->engine = e;
	c->ordinal = atomic_fetch_add(&e->clones, 1);
	c->rt.key = mix(e->seed, c->ordinal);
	c->act.near = JIT_NOT_NEAR;
	jit_disown(c);
	return c;
}

tj_ctx *tj_open(const tj_open_opts *opts)
{
	tj_open_opts o = { 0 };
	if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
	jit_engine *e = open_engine(&o);
	if (!e) return NULL;
	tj_ctx *c = open_on(e);
	if (!c) {
		close_engine(e);
		return NULL;
	}
	rt_err err = { 0 };
	if (o.log && !rt_log_parse(&e->rt.log, o.log, &err)) jit_report(c, "tj_open", &err);
	jit_thread_ctx = c;
	return c;
}

tj_ctx *tj_ctx_clone(tj_ctx *c)
{
	tj_ctx *clone = c ? open_on(c->engine) : NULL;
	if (!clone || jit_alone_wait(c)) return clone;
	tj_close(clone);
	jit_error(c, "tj_ctx_clone", TJ_ERR_STATE, "ctx_clone", "clone before the call", "tj_ctx_clone() is not allowed in a function that a running call called back");
	return NULL;
}

static void free_act(jit_act *a)
{
	rt_vec_free(&a->sites);
	rt_vec_free(&a->ext);
	rt_vec_free(&a->num);
	rt_vec_free(&a->cell);
	rt_vec_free(&a->stray);
	rt_vec_free(&a->index);
	rt_vec_free(&a->callback);
	rt_vec_free(&a->closed);
	rt_vec_free(&a->sized);
	rt_vec_free(&a->read);
	rt_vec_free(&a->assigned);
	rt_vec_free(&a->done);
	rt_vec_free(&a->hold);
	rt_vec_free(&a->retained);
	rt_vec_free(&a->released);
	rt_arena_free(&a->mem);
}

void tj_close(tj_ctx *c)
{
	if (!jit_look_in(c, "tj_close")) return;
	if (c->busy) {
		jit_error(c, "tj_close", TJ_ERR_STATE, "close", "close it after the call has returned", "tj_close() is not allowed in a function that was called back: the context stays open");
		return;
	}
	if (jit_active(c)) {
		jit_error(c, "tj_close", TJ_ERR_STATE, "close", "close it after tj_call() has returned", "tj_close() is not allowed in a body: the context stays open");
		c->act.failed = true;
		return;
	}
	jit_engine *e = c->engine;
	jit_outside_free(c);
	jit_slots_free(c);
	rt_vec_free(&c->learn.src);
	rt_vec_free(&c->learn.from);
	rt_vec_free(&c->learn.expr);
	rt_vec_free(&c->late);
	rt_vec_free(&c->taken);
	free_act(&c->act);
	rt_ctx_free(&c->rt);
	if (jit_thread_ctx == c) jit_thread_ctx = NULL;
	rt_free(c);
	if (atomic_fetch_sub(&e->rt.contexts, 1) == 1) close_engine(e);
}

void tj_seed_at(const char *site, tj_ctx *c, uint64_t seed)
{
	JIT_COME_IN(in, c, site);
	if (!in) return;
	jit_leaves_trace(jit_active(c), "seed", site);
	c->engine->seed = seed;
	c->rt.key = mix(seed, c->ordinal);
	c->rt.ordinal = 0;
}

tj_status tj_log_topics(tj_ctx *c, const char *topics)
{
	rt_err err = { 0 };
	if (!c) return TJ_ERR_STATE;
	if (rt_log_parse(&c->engine->rt.log, topics, &err)) return TJ_OK;
	jit_report(c, "tj_log_topics", &err);
	return err.code;
}

/* ---- errors ---- */

/* Writes "loss.c:9 < train.c:41": the line of the error, then the lines of the callers. */
static void chain(tj_ctx *c, const char *site, char *out, size_t room)
{
	size_t n = (size_t)snprintf(out, room, "%s", site ? site : "?");
	if (!c->active) return;
	for (uint32_t i = c->act.sites.n; i-- > 0;) {
		const char *s = c->act.sites.v[i];
		if (s && n + strlen(s) + 8 > room) { /* room for " < " and the mark */
			if (n < room) snprintf(out + n, room - n, " ...");
			return;
		}
		if (s) n += (size_t)snprintf(out + n, room - n, " < %s", s);
	}
}

tj_tensor *jit_report(tj_ctx *c, const char *site, const rt_err *e)
{
	char where[sizeof c->rt.site];
	chain(c, e->site ? e->site : site, where, sizeof where);
	rt_err with = *e;
	with.site = NULL;
	rt_ctx_error(&c->rt, &with, where);
	if (c->active) c->act.failed = true;
	return &c->rt.poison;
}

tj_tensor *jit_error(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...)
{
	rt_err e = { .code = code, .op = op };
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e.message, sizeof e.message, fmt, ap);
	va_end(ap);
	rt_hint(&e, "%s", hint ? hint : "");
	return jit_report(c, site, &e);
}

/* The result of an op when the thread has no context, in which an error could be kept. */
tj_tensor *jit_no_context(void)
{
	static tj_tensor poison = { .kind = RT_POISON, .dtype = TJ_F32 };
	return &poison;
}

tj_status tj_check(tj_ctx *c)
{
	if (!c) return TJ_ERR_STATE;
	bool mine = RT_LIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me) || jit_take_over(c);
	if (mine) jit_active(c); /* reports a body that was left without returning */
	if (RT_UNLIKELY(atomic_load_explicit(&c->rt.refused, memory_order_relaxed))) return rt_ctx_take_refused(&c->rt);
	if (!mine || RT_LIKELY(c->rt.err.code == TJ_OK)) return TJ_OK;
	c->rt.last = c->rt.err;
	memcpy(c->rt.last_site, c->rt.site, sizeof c->rt.site);
	c->rt.err = (rt_err){ 0 };
	c->rt.taken++;
	return c->rt.last.code;
}

const tj_error *tj_last_error(tj_ctx *c)
{
	const rt_err *e = c ? &c->rt.last : NULL;
	if (!e || e->code == TJ_OK) return NULL;
	c->rt.shown = (tj_error){ e->code, e->op ? e->op : "", e->message, c->rt.last_site, e->hint };
	return &c->rt.shown;
}

void tj_perror(tj_ctx *c, FILE *f)
{
	const tj_error *e = tj_last_error(c);
	if (!e || !f) return;
	fprintf(f, "%s: %s: %s\n", e->site, e->op, e->message);
	if (*e->hint) fprintf(f, "        hint: %s\n", e->hint);
}

const char *const *tj_backends(void)
{
	static char text[2][160];
	static const char *list[3];
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	rt_lock(&once);
	if (!list[0]) {
		const char *why = NULL;
		if (lo_backend_find("llvm", &why)) snprintf(text[0], sizeof text[0], "llvm");
		else snprintf(text[0], sizeof text[0], "llvm: %s", why);
		snprintf(text[1], sizeof text[1], "eval");
		list[1] = text[1];
		list[0] = text[0];
	}
	rt_unlock(&once);
	return list;
}
