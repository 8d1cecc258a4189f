/* SPDX-License-Identifier: MIT */
/* usage: counts the memory of each device, and limits it. */
#include "runtime/device.h"
#include "runtime/fork.h"

#include <stdatomic.h>

static struct { atomic_size_t used, peak, limit; atomic_ullong made; } usages[RT_DEVICES];

bool rt_usage_take(int device, size_t bytes)
{
	const size_t limit = atomic_load_explicit(&usages[device].limit, memory_order_relaxed),
		     now = atomic_fetch_add(&usages[device].used, bytes) + bytes;
	if (limit && now > limit) {
		rt_usage_give(device, bytes);
		return false;
	}
	atomic_fetch_add_explicit(&usages[device].made, 1, memory_order_relaxed);
	size_t peak = atomic_load_explicit(&usages[device].peak, memory_order_relaxed);
	while (peak < now && !atomic_compare_exchange_weak(&usages[device].peak, &peak, now)) {}
	return true;
}

void rt_usage_give(int device, size_t bytes) { atomic_fetch_sub(&usages[device].used, bytes); }

rt_usage rt_usage_of(int device)
{
	return (rt_usage){ atomic_load(&usages[device].used), atomic_load(&usages[device].peak), atomic_load(&usages[device].limit),
		           atomic_load(&usages[device].made) };
}

const char *rt_usage_hint(int device)
{
	if (device != RT_CPU && rt_fork_depth() != 1)
		return "a forked process cannot use a GPU that its parent has opened; open it in the child only, or use threads";
	return atomic_load(&usages[device].limit) ? "tj_limit_memory() has set a limit on this device" : NULL;
}

void rt_usage_limit(int device, size_t bytes) { atomic_store(&usages[device].limit, bytes); }
void rt_usage_reset_peak(int device) { atomic_store(&usages[device].peak, atomic_load(&usages[device].used)); }

void *rt_device_alloc(int device, size_t bytes)
{
	const rt_device *d = rt_device_at(device);
	if (!d || !rt_usage_take(device, bytes)) return NULL;
	void *p = d->alloc(d->self, bytes);
	if (!p) rt_usage_give(device, bytes);
	return p;
}

void rt_device_free(int device, void *p, size_t bytes)
{
	const rt_device *d = rt_device_at(device);
	if (!p) return;
	d->free(d->self, p);
	rt_usage_give(device, bytes);
}
