/* SPDX-License-Identifier: MIT */
/* GPUs beside other libraries: waiting, streams, and the memory of devices. */
#include "jit/claim.h"
#include "jit/call.h"

tj_status tj_sync_at(const char *site, tj_ctx *c)
{
	JIT_COME_IN(in, c, site);
	rt_err err = { 0 };
	if (!in || jit_refuses_in_body(c, site, "sync")) return TJ_ERR_STATE;
	if (rt_pool_sync(c->rt.pool, &err) != TJ_OK) jit_report(c, site, &err);
	return err.code;
}

/* ---- streams ---- */
static rt_queue *queue_of(tj_ctx *c, const char *site, const char *op, tj_device device)
{
	rt_err err = { 0 };
	if (!jit_device_exists(c, site, op, device)) return NULL;
	const rt_device *d = rt_device_at(device);
	if (!d || !d->stream) {
		jit_error(c, site, TJ_ERR_DEVICE, op, "it is for GPUs", "%s has no streams", rt_device_name(device));
		return NULL;
	}
	rt_queue *q = rt_pool_queue(c->rt.pool, device, &err);
	if (!q) jit_report(c, site, &err);
	return q;
}

void *tj_stream_at(const char *site, tj_ctx *c, tj_device device)
{
	JIT_COME_IN(in, c, site);
	rt_queue *q = in && !jit_refuses_in_body(c, site, "stream") ? queue_of(c, site, "stream", device) : NULL;
	return q ? rt_device_at(device)->stream(q) : NULL;
}

tj_status tj_set_stream_at(const char *site, tj_ctx *c, tj_device device, void *stream)
{
	JIT_COME_IN(in, c, site);
	rt_err err = { 0 };
	if (!in || jit_refuses_in_body(c, site, "set_stream")) return TJ_ERR_STATE;
	rt_queue *q = queue_of(c, site, "set_stream", device);
	if (!q) return TJ_ERR_DEVICE;
	if (rt_device_at(device)->use_stream(q, stream, &err) != TJ_OK) jit_report(c, site, &err);
	return err.code;
}

/* ---- memory ---- */
static rt_allocator *allocator_of(const tj_ctx *c, tj_device device)
{
	return device == TJ_CPU ? c->rt.allocator : c->rt.allocator_on[device];
}

tj_status tj_memory_stats_at(const char *site, tj_ctx *c, tj_device device, tj_memory *out)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "memory_stats")) return TJ_ERR_STATE;
	if (!jit_device_exists(c, site, "memory_stats", device)) return TJ_ERR_DEVICE;
	if (!jit_has_room(c, site, "memory_stats", out, out ? out->size : 0, "tj_memory m = { .size = sizeof m };")) return TJ_ERR_ARG;
	const rt_usage u = rt_usage_of(device);
	const rt_device *d = rt_device_at(device);
	size_t unused = 0, all = 0;
	if (d && d->memory && !d->memory(d->self, &unused, &all)) unused = all = 0;
	rt_allocator *a = allocator_of(c, device);
	const tj_memory m = { .size = out->size,
		              .allocated = u.used,
		              .cached = (a ? rt_allocator_held(a) : 0) + rt_pool_held(c->rt.pool, device),
		              .peak = u.peak,
		              .limit = u.limit,
		              .allocations = u.made,
		              .free = unused,
		              .total = all };
	memcpy(out, &m, m.size < sizeof m ? m.size : sizeof m);
	return TJ_OK;
}

tj_status tj_limit_memory_at(const char *site, tj_ctx *c, tj_device device, uint64_t bytes)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "limit_memory")) return TJ_ERR_STATE;
	if (!jit_device_exists(c, site, "limit_memory", device)) return TJ_ERR_DEVICE;
	rt_usage_limit(device, bytes);
	return TJ_OK;
}

tj_status tj_empty_cache_at(const char *site, tj_ctx *c, tj_device device)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses_in_body(c, site, "empty_cache")) return TJ_ERR_STATE;
	if (!jit_device_exists(c, site, "empty_cache", device)) return TJ_ERR_DEVICE;
	rt_ctx_relax(&c->rt, device);
	rt_pool_empty(c->rt.pool, device);
	return TJ_OK;
}

tj_status tj_reset_peak_at(const char *site, tj_ctx *c, tj_device device)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "reset_peak")) return TJ_ERR_STATE;
	if (!jit_device_exists(c, site, "reset_peak", device)) return TJ_ERR_DEVICE;
	rt_usage_reset_peak(device);
	return TJ_OK;
}
