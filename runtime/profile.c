/* SPDX-License-Identifier: MIT */
/* profile: the time of each step of a plan, measured while it runs, and ranges for NVIDIA's profilers.
 *
 * A step on a GPU is measured by two events of its queue, and the host waits for the second one. So a measured call is slower than others;
 * the times of its kernels are not. */
#include "runtime/profile.h"
#include "runtime/cuda.h"
#include "runtime/fork.h"
#include "runtime/itt.h"

#include <dlfcn.h>
#include <pthread.h>

/* ---- ranges: NVTX ---- */
static struct { int (*push)(const char *name); int (*pop)(void); } nvtx;

static void open_nvtx(void)
{
	static const char *const names[] = { "libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", NULL };
	void *library = rt_toolkit_open(names, "/nvidia/nvtx/lib"), *push = NULL, *pop = NULL;
	if (library) push = dlsym(library, "nvtxRangePushA"), pop = dlsym(library, "nvtxRangePop");
	if (!push || !pop) return;
	memcpy(&nvtx.push, &push, sizeof push);
	memcpy(&nvtx.pop, &pop, sizeof pop);
}

void rt_range_begin(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, open_nvtx);
	if (nvtx.push) nvtx.push(name);
	rt_itt_begin(name);
}

void rt_range_end(void)
{
	if (nvtx.pop) nvtx.pop();
	rt_itt_end();
}

/* ---- times ---- */
rt_clock rt_step_begin(const rt_step *s, rt_run *r)
{
	const rt_device *d = rt_device_at(s->device);
	rt_err ignored = { 0 };
	rt_range_begin(s->name);
	rt_queue *q = d && d->clock ? rt_pool_queue(r->pool, s->device, &ignored) : NULL;
	if (q) d->clock(q, NULL);
	return (rt_clock){ q, d, rt_now_ms() };
}

void rt_step_end(const rt_step *s, rt_clock c)
{
	double ns = 0;
	if (c.queue) c.device->clock(c.queue, &ns);
	else ns = (rt_now_ms() - c.start) * 1e6;
	rt_range_end();
	__atomic_add_fetch(&s->time->runs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->time->ns, (uint64_t)ns, __ATOMIC_RELAXED);
}

void rt_put_time(rt_text *t, const rt_step *s)
{
	const uint64_t runs = __atomic_load_n(&s->time->runs, __ATOMIC_RELAXED);
	if (runs)
		rt_putf(t, " measured=%.2fus*%llu", (double)__atomic_load_n(&s->time->ns, __ATOMIC_RELAXED) / 1e3 / (double)runs,
		        (unsigned long long)runs);
}
