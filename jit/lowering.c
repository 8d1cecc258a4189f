/* SPDX-License-Identifier: MIT */
/* What an engine lowers for: its target and back end, found when they are first needed. When the back end is missing, the evaluator runs
 * instead. */
#include "codegen_cuda/cuda.h"
#include "jit/ctx.h"

/* Not under target_lock: the log may call tj_explain(), which takes it. */
static void warn(jit_engine *e, const char *why)
{
	if (why) rt_warn(&e->rt.log, "back end %s: %s; the evaluator runs instead", e->backend_name, why);
}

const lo_target *jit_target(jit_engine *e)
{
	const char *why = NULL;
	rt_lock(&e->target_lock);
	if (!e->target_found) {
		if (strcmp(e->backend_name, "eval")) e->target = lo_target_find(e->backend_name, &why);
		if (why) e->target = NULL;
		e->target_found = true;
	}
	const lo_target *t = e->target;
	rt_unlock(&e->target_lock);
	warn(e, why);
	return RT_UNLIKELY(lo_backend_gone()) ? NULL : t;
}

/* The back end of the target is missing. Several threads may find that at the same time. */
static void lose_backend(jit_engine *e, const lo_target *t, const char *why)
{
	rt_lock(&e->target_lock);
	const bool lost = e->target == t && !lo_backend_gone();
	if (lost) e->target = NULL;
	rt_unlock(&e->target_lock);
	if (lost) warn(e, why);
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

const lo_opts *jit_lower_opts(tj_fn *f, jit_engine *e, uint32_t settings, lo_opts *o)
{
	*o = (lo_opts){ .name = f ? f->name : "op",
		        .target = jit_target(e),
		        .settings = settings,
		        .store = e->store,
		        .int_div_zero = f && f->opts.int_div_zero == TJ_ZERO };
	return o;
}

const char *const *tj_backends(void)
{
	static char text[2][160]; /* the text that the function returns */
	static const char *list[3];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	rt_lock(&lock);
	if (!list[0]) {
		const char *why = NULL;
		if (lo_backend_find("llvm", &why)) snprintf(text[0], sizeof text[0], "llvm");
		else snprintf(text[0], sizeof text[0], "llvm: %s", why);
		snprintf(text[1], sizeof text[1], "eval");
		list[1] = text[1];
		list[0] = text[0];
	}
	rt_unlock(&lock);
	return list;
}

/* ---- devices ---- */
int jit_device(const char *name)
{
	rt_device_on_demand(cu_open);
	return rt_device_parse(name, strlen(name));
}

bool jit_device_exists(tj_ctx *c, const char *site, const char *op, tj_device device)
{
	if (device == TJ_CPU || rt_device_at(device)) return true;
	jit_error(c, site, TJ_ERR_DEVICE, op, "tj_devices() lists them", "there is no device %d", device);
	return false;
}

const char *jit_device_why(const char *name)
{
	const char *why = !strncmp(name, "cuda", 4) ? rt_device_missing() : NULL;
	return why ? why : "tj_devices() lists those of this machine";
}

const char *const *tj_devices(void)
{
	static const char *list[RT_DEVICES + 2];
	static char reason[240];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	rt_lock(&lock);
	rt_device_on_demand(cu_open);
	const char *why = rt_device_missing();
	int n = 0;
	for (list[n++] = rt_device_name(RT_CPU); n < RT_DEVICES && rt_device_at(n); n++) list[n] = rt_device_name(n);
	if (why) {
		snprintf(reason, sizeof reason, "cuda: %s", why);
		list[n++] = reason;
	}
	list[n] = NULL;
	rt_unlock(&lock);
	return list;
}
