/* SPDX-License-Identifier: MIT */
/* Executed segments of the running call: their values, and the inputs that they ran with. */
#include "jit/call.h"

jit_done *jit_find_done(jit_act *a, uint64_t serial)
{
	uint32_t lo = 0, hi = a->done.n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (a->done.v[mid].serial < serial) lo = mid + 1;
		else hi = mid;
	}
	return lo < a->done.n && a->done.v[lo].serial == serial ? &a->done.v[lo] : NULL;
}

bool jit_find_value(jit_act *a, const tj_tensor *h, const rt_layout **layout, rt_buffer **buf, void **data)
{
	jit_done *d = jit_find_done(a, h->seg);
	int i = d ? jit_find_in_plan(d->plan, h->seq) : -1;
	if (i < 0) return false;
	*layout = d->plan->value[i].layout;
	*buf = d->buf[i];
	*data = d->data[i];
	return true;
}

/* Drops the values of a plan and the reference on the plan. */
void jit_drop_values(jit_act *a, jit_plan *p, rt_buffer **buf)
{
	for (uint32_t i = 0; buf && i < p->n; i++)
		if (buf[i]) rt_buffer_unref(buf[i], a->ctx->rt.allocator);
	jit_plan_unref(p);
}

void jit_drop_done(jit_act *a, jit_done *d)
{
	jit_drop_values(a, d->plan, d->buf);
	for (uint32_t i = 0; i < d->next; i++)
		if (d->ext[i].owned) rt_buffer_unref(d->ext[i].buf, a->ctx->rt.allocator);
}
