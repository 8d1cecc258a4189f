/* SPDX-License-Identifier: MIT */
/* The devices of this process: a table to which devices are added, never removed. */
#include "runtime/device.h"

#include <stdatomic.h>

static _Atomic(const rt_device *) devices[RT_DEVICES]; /* [RT_CPU] stays NULL */

/* Code is shared between kernels of one target, so two devices must not have the same. */
static bool is_taken(const struct lo_target *t)
{
	for (int i = RT_CPU + 1; t && i < RT_DEVICES; i++)
		if (rt_device_at(i) && rt_device_at(i)->target == t) return true;
	return false;
}

int rt_device_add(const rt_device *d)
{
	if (is_taken(d->target)) return -1;
	for (int i = RT_CPU + 1; i < RT_DEVICES; i++) {
		const rt_device *none = NULL;
		if (atomic_compare_exchange_strong(&devices[i], &none, d)) return i;
	}
	return -1;
}

const rt_device *rt_device_at(int device)
{
	return device > RT_CPU && device < RT_DEVICES ? atomic_load_explicit(&devices[device], memory_order_acquire) : NULL;
}

bool rt_device_owns(int device, const void *p)
{
	const rt_device *d = rt_device_at(device);
	return d && (!d->owns || d->owns(d->self, p));
}

const char *rt_device_name(int device)
{
	const rt_device *d = rt_device_at(device);
	return d ? d->name : device == RT_CPU ? "cpu" : "?";
}

static _Atomic(rt_device_opener *) opener;
void rt_device_on_demand(rt_device_opener *open) { atomic_store(&opener, open); }

const char *rt_device_missing(void)
{
	rt_device_opener *open = atomic_load(&opener);
	return open ? open() : NULL;
}

int rt_device_parse(const char *name, size_t n)
{
	if (n > 4 && !memcmp(name, "cuda", 4)) (void)rt_device_missing();
	for (int i = 0; i < RT_DEVICES; i++) {
		const char *known = rt_device_name(i);
		if (strlen(known) == n && !memcmp(known, name, n) && *known != '?') return i;
	}
	return -1;
}
