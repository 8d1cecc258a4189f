/* SPDX-License-Identifier: MIT */
/* Errors: the first error of a context, with the lines that led to it; poison, the result of what failed. */
#include "jit/claim.h"

_Thread_local tj_ctx *jit_thread_ctx;

/* Writes "loss.c:9 < train.c:41": the line of the error, then the lines of the callers. The line of an op of control flow is
 * that of its callbacks, too, and outside of functions that of a call: it is written once. */
static void chain(tj_ctx *c, const char *site, char *out, size_t room)
{
	size_t n = (size_t)snprintf(out, room, "%s", site ? site : "?");
	const char *last = site;
	if (!c->active) return;
	for (uint32_t i = c->act.callers.n; i-- > 0;) {
		const char *s = c->act.callers.v[i].site;
		const tj_fn *f = c->act.callers.v[i].fn;
		if ((!f || f->of_op) && s && last && !strcmp(s, last)) continue;
		last = s;
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

tj_tensor *jit_verror(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, va_list ap)
{
	rt_err e = { .code = code, .op = op };
	vsnprintf(e.message, sizeof e.message, fmt, ap);
	rt_hint(&e, "%s", hint ? hint : "");
	return jit_report(c, site, &e);
}

tj_tensor *jit_error(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tj_tensor *poison = jit_verror(c, site, code, op, hint, fmt, ap);
	va_end(ap);
	return poison;
}

bool jit_has_room(tj_ctx *c, const char *site, const char *op, const void *out, size_t size, const char *hint)
{
	if (out && size && !jit_odd_size(size)) return true;
	if (out) jit_error(c, site, TJ_ERR_ARG, op, hint, size ? ".size is %zu, which the struct never had" : "size is %zu", size);
	else jit_error(c, site, TJ_ERR_ARG, op, hint, "out is NULL");
	return false;
}

bool jit_refuse(tj_ctx *c, const char *site, const char *op)
{
	jit_error(c, site, TJ_ERR_STATE, op, "use a clone there, made by tj_ctx_clone() before the call, or do it after the call",
	          "the context is used in a function that one of its own calls called back");
	return true;
}

/* ---- errors without a context: the thread keeps the first one, in literals ---- */
static _Thread_local tj_error missed, told; /* since the last tj_check(); what that returned. TJ_OK: none */
static const char nameless[] = "ctx";

void jit_missed(tj_status code, const char *site, const char *op, const char *message, const char *hint)
{
	if (missed.code == TJ_OK) missed = (tj_error){ code, op, message, site ? site : "?", hint };
}

tj_ctx *jit_missing(const char *site)
{
	static const char message[] = "the context is NULL, or no context is current in this thread";
	const uint32_t n = jit_me ? jit_me->depth : 0;
	tj_ctx *c = n ? (tj_ctx *)(uintptr_t)atomic_load(&jit_me->inside[n < JIT_INSIDE ? n - 1 : JIT_INSIDE - 1]) : NULL;
	if (c) jit_error(c, site, TJ_ERR_STATE, nameless, "choose one with tj_ctx_use()", message);
	else
		jit_missed(TJ_ERR_STATE, site, nameless, message,
		           "tj_ctx_use(c) makes c current; each thread has its own current context, and a new thread has none");
	return NULL;
}

tj_tensor *jit_no_context(const char *site, const char *op)
{
	static tj_tensor poison = { .kind = RT_POISON, .dtype = TJ_F32 };
	if (missed.op == nameless && site && missed.site == site) missed.op = op;
	return &poison;
}

tj_status jit_take_missed(tj_ctx *c)
{
	if (RT_LIKELY(missed.code == TJ_OK)) return TJ_OK;
	told = missed;
	missed.code = TJ_OK;
	if (!c) return told.code;
	c->rt.last = (rt_err){ .code = told.code, .op = told.op };
	snprintf(c->rt.last.message, sizeof c->rt.last.message, "%s", told.message);
	rt_hint(&c->rt.last, "%s", told.hint);
	snprintf(c->rt.last_site, sizeof c->rt.last_site, "%s", told.site);
	return told.code;
}

static const tj_error *shown(tj_ctx *c, const rt_err *e, const char *site)
{
	if (e->code == TJ_OK) return NULL;
	c->rt.shown = (tj_error){ e->code, e->op ? e->op : "", e->message, site, e->hint };
	return &c->rt.shown;
}

const tj_error *tj_last_error(tj_ctx *c)
{
	if (c) return shown(c, &c->rt.last, c->rt.last_site);
	return told.code == TJ_OK ? NULL : &told;
}

/* Also when a call has just failed, and nobody has asked tj_check(). */
void tj_perror(tj_ctx *c, FILE *f)
{
	const tj_error *e = c ? shown(c, &c->rt.err, c->rt.site) : NULL;
	if (!e && missed.code != TJ_OK) e = &missed;
	if (!e) e = tj_last_error(c);
	if (!e || !f) return;
	fprintf(f, "%s: %s: %s\n", e->site, e->op, e->message);
	if (*e->hint) fprintf(f, "        hint: %s\n", e->hint);
}
