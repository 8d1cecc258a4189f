/* SPDX-License-Identifier: MIT */
/* Contexts and the engine: open, clone, use, close; the current context of a thread. */
#include "jit/call.h"
#include "jit/handle.h"
#include "jit/outside.h"
#include "jit/profiling.h"
#include "jit/program.h"
#include "jit/report.h"
#include "jit/survey.h"
#include "runtime/host.h"
#include "runtime/lapack.h"

#include <limits.h>
#include <stdlib.h>

tj_ctx *tj_ctx_current(void) { return jit_thread_ctx; }

tj_ctx *tj_ctx_use(tj_ctx *c)
{
	tj_ctx *was = jit_thread_ctx;
	jit_thread_ctx = c;
	return was;
}

/* ---- the open contexts ---- */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static tj_ctx *open_ones;
static const void *this_thread(void) { return &jit_thread_ctx; }

static void enter_list(tj_ctx *c)
{
	rt_lock(&open_lock);
	if ((c->next = open_ones)) c->next->prev = c;
	open_ones = c;
	rt_unlock(&open_lock);
}

/* The thread's current context may have been closed by another thread: only one in the list is open. */
static void follow_current(tj_ctx *c)
{
	rt_lock(&open_lock);
	for (tj_ctx *x = open_ones; x; x = x->next)
		if (x == jit_thread_ctx && x != c) c->former = x;
	c->opener = this_thread();
	rt_unlock(&open_lock);
}

/* Returns the context that was current when this thread opened c; NULL: none was, it is closed, or another thread opened c. Contexts may be
 * closed in any order: one that was opened while c was current gets that context as its former one. */
static tj_ctx *leave_list(tj_ctx *c)
{
	rt_lock(&open_lock);
	if (c->prev) c->prev->next = c->next;
	else open_ones = c->next;
	if (c->next) c->next->prev = c->prev;
	for (tj_ctx *x = open_ones; x; x = x->next)
		if (x->former == c) x->former = x->opener == c->opener ? c->former : NULL;
	tj_ctx *former = c->opener == this_thread() ? c->former : NULL;
	rt_unlock(&open_lock);
	return former;
}

/* ---- engine ---- */
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
	if (v && *v && !rt_wanted_bits()) rt_warn(log, "TJ_CPU=%s is not 512, 256 or 128; it is ignored", v);
	v = getenv("TJ_CODEGEN");
	if (v && *v && strcmp(v, "fast")) rt_warn(log, "TJ_CODEGEN=%s is not fast; it is ignored", v);
}

/* Asked for by name: an unknown one is ignored, and nothing of it is opened here. */
static void choose_linalg(const char *name, const rt_log_to *log)
{
	if (rt_linalg_choose(name)) return;
	rt_warn(log, "TJ_LINALG=%s is not auto, own or lapack; it is ignored", name && *name ? name : getenv("TJ_LINALG"));
}

/* runtime/onednn.c and cublaslt.c read them when the first product is planned that they might compute. */
static void check_env_libraries(const rt_log_to *log)
{
	static const char *const switches[] = { "TJ_ONEDNN", "TJ_CUBLASLT" };
	for (size_t i = 0; i < RT_COUNT(switches); i++) {
		const char *v = getenv(switches[i]);
		if (v && *v && strcmp(v, "off")) rt_warn(log, "%s=%s is not \"off\"; it is ignored", switches[i], v);
	}
}

static void read_env_log(rt_log_to *log)
{
	rt_err err = { 0 };
	if (!rt_log_parse(log, getenv("TJ_LOG"), &err)) rt_warn(log, "TJ_LOG: %s; %s", err.message, err.hint);
}

static void close_engine(jit_engine *e)
{
	jit_report_end(e);
	jit_delist(e);
	while (e->fns) jit_fn_free(e->fns);
	jit_programs_free(e->programs);
	jit_eager_free(e->eager);
	jit_constants_free(e);
	jit_profile_close(e);
	rt_host_drop(e);
	rt_held_free_all(&e->rt);
	rt_layouts_free(&e->rt.layouts);
	pthread_mutex_destroy(&e->rt.lock);
	pthread_mutex_destroy(&e->rt.commit_lock);
	pthread_mutex_destroy(&e->target_lock);
	rt_vec_free(&e->pass);
	rt_free(e->dump);
	rt_store_free(e->store);
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
	jit_enlist(e);
	atomic_init(&e->rt.contexts, 0);
	atomic_init(&e->rt.serial, 1);
	e->log_to = o->log_to;
	e->log_self = o->log_self;
	e->rt.log = (rt_log_to){ .to = o->log_to ? log_line : NULL, .self = e };
	e->rt.check = env_set(&e->rt.log, "TJ_CHECK") || o->check;
	rt_barrier_init();
	e->rt.team = rt_team_get(o->threads > 0 ? o->threads : env_count(&e->rt.log, "TJ_THREADS"));
	e->profile = jit_profile_env(e, getenv("TJ_PROFILE")) || o->profile;
	e->timed = env_set(&e->rt.log, "TJ_TIME_GUARDS") || o->time_guards;
	if (e->timed) atomic_fetch_or(&e->watch, JIT_WATCH_GUARDS);
	e->audit = (uint32_t)(o->audit > 0 ? o->audit : env_count(&e->rt.log, "TJ_AUDIT"));
	e->seed = o->seed;
	const char *device = o->device ? o->device : getenv("TJ_DEVICE");
	e->device = device && *device ? jit_device(device) : TJ_CPU;
	if (e->device < 0) {
		rt_warn(&e->rt.log, "there is no device %s; tensors are made on the CPU: %s", device, jit_device_why(device));
		e->device = TJ_CPU;
	}
	const char *name = o->backend ? o->backend : getenv("TJ_BACKEND");
	e->backend_name = rt_strdup(name && *name ? name : "llvm");
	const char *dump = o->dump ? o->dump : getenv("TJ_DUMP");
	e->dump = dump && *dump ? rt_strdup(dump) : NULL;
	const char *report = o->report ? o->report : getenv("TJ_REPORT");
	e->report = report && *report ? jit_report_new(e, report) : NULL;
	e->store = rt_store_new(o->cache, &e->rt.log);
	if (!e->backend_name || !e->store || (dump && *dump && !e->dump) || (report && *report && !e->report)) {
		close_engine(e);
		return NULL;
	}
	check_env_cpu(&e->rt.log);
	check_env_libraries(&e->rt.log);
	rt_tools_check(&e->rt.log);
	jit_live_begin(&e->rt.log);
	choose_linalg(o->linalg, &e->rt.log);
	if (!o->log) read_env_log(&e->rt.log);
	return e;
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
	c->rt.run.profile = e->profile;
	c->ordinal = atomic_fetch_add(&e->clones, 1);
	c->rt.key = mix(e->seed, c->ordinal);
	c->act.near = JIT_NOT_NEAR;
	jit_undo_open(c);
	jit_disown(c);
	enter_list(c);
	return c;
}

/* The team is one for the process, so a later context can only have fewer threads. 0: all of them. */
static int fewer_threads(const tj_open_opts *o, const jit_engine *e)
{
	const int team = rt_team_size(e->rt.team);
	if (o->threads > team) rt_warn(&e->rt.log, "tj_open() asks for %d threads; the team of the process has %d", o->threads, team);
	return o->threads > 0 && o->threads < team ? o->threads : 0;
}

static tj_ctx *no_memory(void)
{
	jit_missed(TJ_ERR_NOMEM, "tj_open", "open", "out of memory", "");
	return NULL;
}

tj_ctx *tj_open(const tj_open_opts *opts)
{
	JIT_OPTIONS(tj_open_opts, o, opts);
	jit_engine *e = open_engine(&o);
	if (!e) return no_memory();
	tj_ctx *c = open_on(e);
	if (!c) {
		close_engine(e);
		return no_memory();
	}
	rt_err err = { 0 };
	c->rt.run.threads = fewer_threads(&o, e);
	if (jit_odd_size(o.size)) jit_error(c, "tj_open", TJ_ERR_ARG, "open", JIT_SIZES, o.size);
	if (o.log && !rt_log_parse(&e->rt.log, o.log, &err)) jit_report(c, "tj_open", &err);
	follow_current(c);
	jit_thread_ctx = c;
	return c;
}

tj_ctx *tj_ctx_clone(tj_ctx *c)
{
	if (c && jit_refuses(c, "tj_ctx_clone", "ctx_clone")) return NULL;
	tj_ctx *clone = c ? open_on(c->engine) : NULL;
	if (!clone) return NULL;
	clone->settings = c->settings;
	clone->rt.run.singly = c->rt.run.singly;
	clone->rt.run.threads = c->rt.run.threads;
	const bool in_call = !jit_alone_wait(c);
	if (!in_call && jit_undo_before_clone(c)) return clone;
	tj_close(clone);
	if (in_call)
		jit_error(c, "tj_ctx_clone", TJ_ERR_STATE, "ctx_clone", "clone before the call",
		          "tj_ctx_clone() is not allowed in a function that a running call called back");
	return NULL;
}

static void free_act(jit_act *a)
{
	rt_vec_free(&a->callers);
	rt_vec_free(&a->ext);
	rt_vec_free(&a->num);
	rt_vec_free(&a->cell);
	rt_vec_free(&a->stray);
	rt_vec_free(&a->before);
	rt_vec_free(&a->index);
	rt_vec_free(&a->callback);
	rt_vec_free(&a->closed);
	rt_vec_free(&a->sized);
	rt_vec_free(&a->named);
	rt_vec_free(&a->alias);
	rt_vec_free(&a->read);
	rt_vec_free(&a->assigned);
	rt_vec_free(&a->assigned_at.at);
	rt_vec_free(&a->cell_at.at);
	rt_vec_free(&a->done);
	rt_vec_free(&a->hold);
	rt_vec_free(&a->retained);
	rt_vec_free(&a->released);
	rt_arena_free(&a->mem);
}

bool tj_in_body(tj_ctx *c) { return c && jit_active(c); }

void tj_close(tj_ctx *c)
{
	if (!jit_look_in(c, "tj_close")) return;
	if (jit_refuses(c, "tj_close", "close")) return;
	jit_act *a = jit_active(c);
	if (a && a->open && !a->callers.n && !a->callback.n) jit_act_end(c); /* an open trace is dropped */
	else if (a) {
		jit_error(c, "tj_close", TJ_ERR_STATE, "close", "close it after tj_call() has returned",
		          "tj_close() is not allowed in a body: the context stays open");
		c->act.failed = true;
		return;
	}
	jit_engine *e = c->engine;
	jit_report_settings(c);
	jit_outside_free(c);
	jit_between_free(c);
	jit_memos_free(c);
	rt_vec_free(&c->learn.src);
	rt_vec_free(&c->learn.from);
	rt_vec_free(&c->learn.expr);
	rt_vec_free(&c->late);
	rt_vec_free(&c->taken);
	free_act(&c->act);
	jit_undo_close(c);
	rt_recorder_free(c->recorder);
	rt_ctx_free(&c->rt);
	tj_ctx *former = leave_list(c);
	if (jit_thread_ctx == c) jit_thread_ctx = former;
	rt_free(c);
	if (atomic_fetch_sub(&e->rt.contexts, 1) == 1) close_engine(e);
}

void tj_seed_at(const char *site, tj_ctx *c, uint64_t seed)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "seed")) return;
	jit_leaves_trace(jit_active(c), "seed", site);
	c->engine->seed = seed;
	c->rt.key = mix(seed, c->ordinal);
	c->rt.ordinal = 0;
}

tj_status tj_log_topics(tj_ctx *c, const char *topics)
{
	rt_err err = { 0 };
	if (!c || jit_refuses(c, "tj_log_topics", "log_topics")) return TJ_ERR_STATE;
	if (rt_log_parse(&c->engine->rt.log, topics, &err)) return TJ_OK;
	jit_report(c, "tj_log_topics", &err);
	return err.code;
}

/* A GPU has found a fault, and nobody has waited for it yet. */
static void report_late(tj_ctx *c)
{
	JIT_COME_IN(in, c, "tj_check");
	rt_err err = { 0 };
	if (in && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) jit_report(c, "tj_check", &err);
}

tj_status tj_check(tj_ctx *c)
{
	if (!c) return jit_take_missed(NULL);
	bool mine = RT_LIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me) || jit_take_over(c);
	if (mine && !jit_active(c) && !c->busy && c->rt.err.code == TJ_OK && RT_UNLIKELY(rt_pool_failed(c->rt.pool)))
		report_late(c); /* jit_active() reports a body that was left without returning */
	if (RT_UNLIKELY(atomic_load_explicit(&c->rt.refused, memory_order_relaxed))) return rt_ctx_take_refused(&c->rt);
	if (!mine) return jit_take_missed(NULL); /* another thread is in it */
	if (RT_LIKELY(c->rt.err.code == TJ_OK)) return jit_take_missed(c);
	c->rt.last = c->rt.err;
	memcpy(c->rt.last_site, c->rt.site, sizeof c->rt.site);
	c->rt.err = (rt_err){ 0 };
	c->rt.fetched++;
	return c->rt.last.code;
}
