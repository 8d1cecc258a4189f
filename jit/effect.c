/* SPDX-License-Identifier: MIT */
#include "jit/effect.h"

#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "runtime/host.h"

static const char op[] = "host_call";

int64_t tj_host_function_at(const char *site, tj_ctx *c, const char *name, tj_host_fn *call, const tj_host_opts *opts)
{
	JIT_COME_IN(in, c, site);
	JIT_OPTIONS(tj_host_opts, o, opts);
	if (!in || jit_refuses_in_body(c, site, "host_function")) return 0;
	if (!call) return jit_error(c, site, TJ_ERR_ARG, "host_function", NULL, "no function"), 0;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "host_function", JIT_SIZES, o.size), 0;
	if (!name || !*name) return jit_error(c, site, TJ_ERR_ARG, "host_function", "errors of the function name it", "no name"), 0;
	if (o.gradient && !rt_host_is_of(c->engine, o.gradient))
		return jit_error(c, site, TJ_ERR_ARG, "host_function", "define the function that computes it first; 0: none",
		                 ".gradient is %lld, which is no function of this engine", (long long)o.gradient),
		       0;
	const rt_host h = { (char *)(uintptr_t)name, call, o.env, o.free, o.early, o.gradient };
	const int64_t n = rt_host_add(c->engine, &h);
	if (!n) jit_error(c, site, TJ_ERR_NOMEM, "host_function", NULL, "out of memory");
	return n;
}

/* What stands for the host call before this one: a handle of the call's own, since the program's may be gone. */
static tj_tensor *before(const tj_ctx *c)
{
	const jit_act *a = c->active ? &c->act : NULL;
	return a && a->effect && a->effect->seg == a->seg ? a->effect : rt_number_i(0);
}

static bool remember(jit_act *a, const tj_tensor *t)
{
	tj_tensor *h = rt_arena_alloc(&a->mem, sizeof *h);
	if (!h) return false;
	*h = *t;
	a->effect = h;
	return true;
}

static tj_tensor *with_operands(tj_ctx *c, const char *site, int n, tj_tensor *const *list, int nattr, const int64_t *attr)
{
	tj_tensor **in = rt_alloc(((size_t)n + 1) * sizeof *in), *t = &c->rt.poison;
	jit_act *a = jit_active(c);
	if (!in) return jit_error(c, site, TJ_ERR_NOMEM, op, NULL, "out of memory");
	if (a && a->callback.n)
		jit_in_callback(c, site, op, "call it outside, and pass the result in: here it would run any number of times");
	else if (jit_admit_all(c, site, op, n, list, in) == JIT_OK) {
		in[n] = before(c);
		t = jit_run_event(c, site, IR_host_call, n + 1, in, nattr, attr);
		if (a && t->kind == RT_PENDING && !remember(a, t)) t = jit_error(c, site, TJ_ERR_NOMEM, op, NULL, "out of memory");
	}
	rt_free(in);
	return t;
}

tj_tensor *jit_host_call(const char *site, const int64_t *attr, tj_dims shape, tj_list list)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	int64_t all[TJ_MAX_RANK + 2] = { attr[0], attr[1] };
	int n = 0, nattr = 2;
	rt_host h;
	if (!c) return jit_no_context(site, op);
	if (!shape) return jit_error(c, site, TJ_ERR_ARG, op, "TJ_SHAPE(2, 3), or TJ_0D", "the shape is NULL");
	for (; shape[nattr - 2] != TJ_END_DIM; nattr++) {
		if (nattr - 2 == TJ_MAX_RANK) return jit_error(c, site, TJ_ERR_LIMIT, op, NULL, "more than %d sizes", TJ_MAX_RANK);
		all[nattr] = shape[nattr - 2];
	}
	while (list && list[n] != TJ_END && n < UINT16_MAX - 1) n++;
	if (!list || list[n] != TJ_END) return jit_error(c, site, TJ_ERR_ARG, op, "TJ_LIST(a, b), or TJ_NONE", "the list has no end");
	if (!rt_host_find(attr[1], &h))
		return jit_error(c, site, TJ_ERR_ARG, op, "tj_host_function() gives its number", "there is no function %lld",
		                 (long long)attr[1]);
	return with_operands(c, site, n, list, nattr, all);
}
