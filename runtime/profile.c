/* SPDX-License-Identifier: MIT */
/* profile: the time of each step of a plan, measured while it runs, and ranges for NVIDIA's profilers. Kernels that share a region still
 * do, and share its time as their threads did.
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

/* ---- steps ---- */
typedef struct measuring {
	const rt_plan *plan;
	rt_run *run;
	rt_recorder *recorder;   /* NULL: the times are for dumps only */
	rt_tally *tally;
	const rt_runner *x;
	int64_t now;             /* when the last step ended */
} measuring;

static void add_time(const rt_step *s, int64_t ns)
{
	__atomic_add_fetch(&s->time->runs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->time->ns, (uint64_t)ns, __ATOMIC_RELAXED);
}

/* Waits for the step, which a queue runs. Returns its ns there; -1: the host ran it. */
static int64_t wait(measuring *m, rt_queue *q, const rt_device *d)
{
	double ns = 0;
	if (!q) return -1;
	const int64_t start = rt_now_ns();
	d->clock(q, &ns);
	if (m->tally) rt_phase_note(m->recorder, RT_QUEUE, start, rt_now_ns(), false);
	return (int64_t)ns;
}

static tj_status run_one(measuring *m, uint32_t i)
{
	const rt_step *s = &m->plan->step[i];
	const rt_device *d = rt_device_at(s->device);
	const rt_row *was = NULL;
	rt_frame f;
	rt_err ignored = { 0 };
	rt_range_begin(s->name);
	rt_queue *q = d && d->clock ? rt_pool_queue(m->run->pool, s->device, &ignored) : NULL;
	if (q) d->clock(q, NULL);
	if (m->tally) {
		rt_frame_from(m->recorder, &f, m->now);
		was = rt_tally_begin(m->recorder, m->tally, i);
	}
	const int64_t start = m->now;
	const tj_status st = m->x->step(m->x, i, NULL);
	const int64_t ns = wait(m, q, d);
	rt_range_end();
	m->now = rt_now_ns();
	add_time(s, ns < 0 ? m->now - start : ns);
	if (m->tally) rt_tally_end(m->recorder, m->tally, i, &f, m->now, ns, was);
	return st;
}

enum { FEW_STEPS = 32 };

static tj_status run_bundle(measuring *m, uint32_t i)
{
	const rt_step *s = &m->plan->step[i];
	const rt_row *was = NULL;
	rt_frame f;
	int64_t few[FEW_STEPS] = { 0 }, sum = 0;
	int64_t *spent = s->bundle <= FEW_STEPS ? few : rt_calloc(s->bundle * sizeof *spent);
	if (!spent) return rt_fail(m->run->err, TJ_ERR_NOMEM, s->name, "out of memory for measuring");
	rt_range_begin(s->name);
	if (m->tally) {
		rt_frame_from(m->recorder, &f, m->now);
		was = rt_tally_begin(m->recorder, m->tally, i);
	}
	const int64_t start = m->now;
	const tj_status st = m->x->step(m->x, i, spent);
	rt_range_end();
	m->now = rt_now_ns();
	for (uint32_t k = 0; k < s->bundle; k++) sum += spent[k];
	for (uint32_t k = 0; k < s->bundle; k++)
		add_time(s + k, sum ? (int64_t)((double)(m->now - start) * (double)spent[k] / (double)sum) : 0);
	if (m->tally) rt_tally_share(m->recorder, m->tally, i, s->bundle, &f, m->now, spent, was);
	if (spent != few) rt_free(spent);
	return st;
}

tj_status rt_run_measured(const rt_plan *p, rt_run *r, const rt_runner *x)
{
	measuring m = { .plan = p, .run = r, .recorder = rt_pool_recorder(r->pool), .x = x };
	tj_status st = TJ_OK;
	if (m.recorder) m.tally = rt_tally_of(m.recorder, p, r->site);
	m.now = rt_now_ns();
	for (uint32_t i = 0; i < p->nstep && st == TJ_OK; i += p->step[i].bundle ? p->step[i].bundle : 1)
		st = p->step[i].bundle ? run_bundle(&m, i) : run_one(&m, i);
	return st;
}

void rt_put_time(rt_text *t, const rt_step *s)
{
	const uint64_t runs = __atomic_load_n(&s->time->runs, __ATOMIC_RELAXED);
	if (runs)
		rt_putf(t, " measured=%.2fus*%llu", (double)__atomic_load_n(&s->time->ns, __ATOMIC_RELAXED) / 1e3 / (double)runs,
		        (unsigned long long)runs);
}
