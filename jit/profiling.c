/* SPDX-License-Identifier: MIT */
/* Profiles of a program: their begin and end, and which contexts they watch.
 *
 *   tj_profile_begin()  the engine has a profile, and says that it watches        any thread
 *   the next call       makes a recorder for the context, and runs plans with it  the thread of the context
 *   tj_profile_end()    the engine watches no more, the profile takes nothing     any thread
 *   a later run         the context forgets its recorder
 *
 * TJ_PROFILE makes one profile for all engines of the process, from the first tj_open() on. */
#include "jit/profiling.h"
#include "jit/claim.h"
#include "jit/call.h"
#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- watching ---- */
static void set_watch(jit_engine *e, bool on)
{
	if (on) atomic_fetch_or(&e->watch, JIT_WATCH_PROFILE);
	else atomic_fetch_and(&e->watch, (unsigned char)~JIT_WATCH_PROFILE);
}

/* Another profile, or none, from now on. Returns the one before. */
static rt_profile *exchange(jit_engine *e, rt_profile *p)
{
	rt_lock(&e->rt.lock);
	rt_profile *was = e->profiling;
	e->profiling = p;
	atomic_fetch_add(&e->profiles, 1);
	rt_unlock(&e->rt.lock);
	set_watch(e, p && rt_profile_on(p));
	return was;
}

static rt_profile *profile_of(jit_engine *e)
{
	rt_lock(&e->rt.lock);
	rt_profile *p = rt_profile_ref(e->profiling);
	rt_unlock(&e->rt.lock);
	return p;
}

static void attach(tj_ctx *c, unsigned profiles)
{
	rt_profile *p = profile_of(c->engine);
	rt_recorder_free(c->recorder);
	c->recorder = p ? rt_recorder_new(p, c->ordinal) : NULL; /* without memory its work is missing in the profile */
	c->profiles = profiles;
	rt_profile_unref(p);
}

void jit_watch_no_more(tj_ctx *c)
{
	rt_pool_record(c->rt.pool, NULL);
	c->rt.run.profile = c->engine->profile;
}

void jit_watch_begin(tj_ctx *c, rt_frame *f, const char *function)
{
	const unsigned profiles = atomic_load(&c->engine->profiles);
	if (c->profiles != profiles) attach(c, profiles);
	rt_recorder *r = c->recorder && rt_recorder_on(c->recorder) ? c->recorder : NULL;
	jit_watch_no_more(c);
	if (!r) return;
	rt_pool_record(c->rt.pool, r);
	c->rt.run.profile = true;
	rt_call_begin(r, f, function);
}

void jit_watch_end(tj_ctx *c, rt_frame *f)
{
	rt_recorder *r = jit_recorder(c);
	if (r) rt_call_end(r, f);
}

void jit_compile_begin(const tj_ctx *c, jit_compiling *x)
{
	x->recorder = jit_recorder(c);
	x->was = rt_recording;
	rt_recording = x->recorder;
	if (x->recorder) rt_frame_begin(x->recorder, &x->frame);
}

void jit_compile_end(jit_compiling *x)
{
	rt_recording = x->was;
	if (x->recorder) rt_phase_end(x->recorder, &x->frame, RT_LOWER);
}

void jit_profile_close(jit_engine *e) { rt_profile_unref(e->profiling); }

void jit_profile_forked(jit_engine *e)
{
	if (e->profiling) rt_profile_forked(e->profiling);
}

/* ---- what it shows ---- */
static bool write_text(const char *path, const rt_text *t)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0) return false;
	bool ok = rt_write_all(fd, rt_str(t), t->n);
	const int why = errno;
	if (close(fd) && ok) return false;
	if (!ok) errno = why;
	return ok;
}

static void visit_rows(const jit_rows *rows, const tj_profile_view *v)
{
	for (uint32_t i = 0; i < rows->of.n; i++)
		if (!v->visit(v->self, &rows->of.v[i])) return;
}

static tj_status show(rt_profile *p, const tj_profile_view *v, rt_err *err)
{
	rt_report x;
	jit_rows rows = { 0 };
	rt_text t = { 0 };
	if (!rt_report_make(p, &x)) return rt_fail(err, TJ_ERR_NOMEM, "profile", "out of memory");
	bool ok = jit_average(&x, v, &rows);
	if (ok && (v->out || v->path)) jit_put_profile(&t, &x, v, &rows);
	ok = ok && !t.oom;
	if (ok && v->out) fputs(rt_str(&t), v->out);
	if (ok && v->path && !write_text(v->path, &t)) rt_fail(err, TJ_ERR_IO, "profile", "%s cannot be written: %s", v->path, strerror(errno));
	if (ok && v->visit) {
		JIT_CALLS_BACK;
		visit_rows(&rows, v);
	}
	jit_rows_free(&rows);
	rt_report_free(&x);
	rt_text_free(&t);
	return ok ? err->code : rt_fail(err, TJ_ERR_NOMEM, "profile", "out of memory");
}

/* ---- the functions of the public header ---- */
static tj_status wrong(tj_ctx *c, const char *site, tj_status code, const char *hint, const char *message)
{
	jit_error(c, site, code, "profile", hint, "%s", message);
	return code;
}

tj_status tj_profile_begin_at(const char *site, tj_ctx *c, const tj_profile_opts *opts)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "profile_begin")) return TJ_ERR_STATE;
	JIT_OPTIONS(tj_profile_opts, o, opts);
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "profile", JIT_SIZES, o.size), TJ_ERR_ARG;
	if (o.timeline_bytes < 0) return wrong(c, site, TJ_ERR_ARG, "0 means 1 GiB an hour", ".timeline_bytes is negative");
	if (jit_active(c)) return wrong(c, site, TJ_ERR_STATE, "begin it before the call", "tj_profile_begin() is not allowed in a body");
	rt_profile *before = profile_of(c->engine);
	const bool runs = before && rt_profile_on(before) && before != jit_env_profile();
	rt_profile_unref(before);
	if (runs) return wrong(c, site, TJ_ERR_STATE, "call tj_profile_end() first", "a profile runs already");
	rt_err err = { 0 };
	const rt_limits limits = o.no_limits ? (rt_limits){ 0 } : rt_limits_of(&c->rt.run);
	rt_profile *p = rt_profile_new(&limits, o.timeline, o.timeline_bytes, &err);
	if (!p) return jit_report(c, site, &err), err.code;
	rt_profile_unref(exchange(c->engine, p));
	return TJ_OK;
}

static tj_status show_at(tj_ctx *c, const char *site, const tj_profile_view *view)
{
	JIT_OPTIONS(tj_profile_view, v, view);
	rt_err err = { 0 };
	if (jit_odd_size(v.size)) return jit_error(c, site, TJ_ERR_ARG, "profile", JIT_SIZES, v.size), TJ_ERR_ARG;
	if ((unsigned)v.by > TJ_BY_FUNCTION || (unsigned)v.sort > TJ_SORT_NAME || v.top < 0)
		return wrong(c, site, TJ_ERR_ARG, "tj.h lists them", ".by, .sort or .top has no such value");
	rt_profile *p = profile_of(c->engine);
	if (!p) return wrong(c, site, TJ_ERR_STATE, "call tj_profile_begin() first", "there is no profile");
	const tj_status st = show(p, &v, &err);
	rt_profile_unref(p);
	if (st != TJ_OK) jit_report(c, site, &err);
	return st;
}

tj_status tj_profile_show_at(const char *site, tj_ctx *c, const tj_profile_view *view)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "profile_show")) return TJ_ERR_STATE;
	return show_at(c, site, view);
}

tj_status tj_profile_end_at(const char *site, tj_ctx *c, const tj_profile_view *view)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "profile_end")) return TJ_ERR_STATE;
	rt_profile *p = profile_of(c->engine);
	const bool runs = p && rt_profile_on(p) && p != jit_env_profile();
	if (runs) {
		set_watch(c->engine, false);
		rt_profile_stop(p);
	}
	rt_profile_unref(p);
	if (!runs) return wrong(c, site, TJ_ERR_STATE, "call tj_profile_begin() first", "no profile runs");
	return view ? show_at(c, site, view) : TJ_OK;
}
