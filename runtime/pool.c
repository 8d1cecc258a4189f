/* SPDX-License-Identifier: MIT */
/* pool: memory and device queues that a context lends to the plans it runs. */
#include "runtime/alloc.h"
#include "runtime/device.h"
#include "runtime/exec.h"

typedef struct block {
	void *p;
	size_t bytes;
} block;

typedef struct lost { uint64_t first, last; } lost; /* serials of a queue: the failed launch; the wait that reported it */

typedef struct station { /* a context's state on a device other than the CPU */
	rt_queue *queue;       /* NULL: not used yet */
	block arena;
	bool doubt;            /* since the last wait, a kernel that may find a fault was put into the queue */
	rt_vec(lost) lost;
	lost rest;             /* one range around all for which there was no room; last 0: none */
} station;

struct rt_pool {
	block arena, scratch;
	int doubts;            /* number of stations in doubt */
	rt_settled *settled;   /* NULL: nobody wants to know */
	void *env;
	struct rt_recorder *recorder;
	station on[RT_DEVICES];
};

rt_pool *rt_pool_new(void)
{
	return rt_calloc(sizeof(rt_pool));
}

static void leave(int device, station *s)
{
	const rt_device *d = rt_device_at(device);
	rt_err ignored = { 0 };
	uint64_t launch;
	d->wait(s->queue, &launch, &ignored);
	rt_device_free(device, s->arena.p, s->arena.bytes);
	d->close(s->queue);
	rt_vec_free(&s->lost);
}

void rt_pool_free(rt_pool *p)
{
	if (!p) return;
	for (int i = 0; i < RT_DEVICES; i++)
		if (p->on[i].queue) leave(i, &p->on[i]);
	rt_free(p->arena.p);
	rt_free(p->scratch.p);
	rt_free(p);
}

/* At least this many bytes. Grows by half at least, so that a slowly growing shape does not allocate on every call. */
static void *need(block *b, size_t bytes)
{
	if (bytes <= b->bytes && b->p) return b->p;
	size_t want = bytes < b->bytes + b->bytes / 2 ? b->bytes + b->bytes / 2 : bytes;
	void *p = rt_alloc_data(want);
	if (!p) return NULL;
	rt_free(b->p);
	b->p = p;
	b->bytes = want;
	return p;
}

struct rt_recorder *rt_pool_recorder(const rt_pool *p) { return p->recorder; }
void rt_pool_record(rt_pool *p, struct rt_recorder *r) { p->recorder = r; }

void *rt_pool_arena(rt_pool *p, size_t bytes)
{
	return need(&p->arena, bytes);
}

void *rt_pool_scratch(rt_pool *p, int threads, size_t bytes)
{
	return need(&p->scratch, (size_t)threads * ((bytes + RT_LINE - 1) / RT_LINE * RT_LINE));
}

/* ---- devices ---- */
rt_queue *rt_pool_queue(rt_pool *p, int device, rt_err *err)
{
	station *s = &p->on[device];
	const rt_device *d = rt_device_at(device);
	if (!s->queue && d) s->queue = d->open(d->self);
	if (!s->queue) rt_fail(err, TJ_ERR_NOMEM, "device", "no queue can be opened on %s", rt_device_name(device));
	return s->queue;
}

/* the CPU's is not counted as memory of tensors */
size_t rt_pool_held(const rt_pool *p, int device) { return device == RT_CPU ? 0 : p->on[device].arena.bytes; }

void rt_pool_empty(rt_pool *p, int device)
{
	const rt_device *d = rt_device_at(device);
	block *const mine[] = { &p->arena, &p->scratch };
	for (int i = 0; i < 2 && device == RT_CPU; i++) {
		rt_free(mine[i]->p);
		*mine[i] = (block){ 0 };
	}
	station *s = &p->on[device];
	if (!d || !s->arena.p) return;
	d->finish(d->self, d->mark(s->queue)); /* work in the queue may use it */
	rt_device_free(device, s->arena.p, s->arena.bytes);
	s->arena = (block){ 0 };
}

void *rt_pool_arena_on(rt_pool *p, int device, size_t bytes)
{
	rt_err ignored = { 0 };
	const rt_device *d = rt_device_at(device);
	station *s = &p->on[device];
	bytes = bytes ? bytes : RT_LINE;
	if (bytes <= s->arena.bytes && s->arena.p) return s->arena.p;
	void *fresh = rt_pool_queue(p, device, &ignored) ? rt_device_alloc(device, bytes) : NULL;
	if (!fresh) return NULL;
	if (s->arena.p) {
		d->finish(d->self, d->mark(s->queue)); /* work in the queue may use the old arena */
		rt_device_free(device, s->arena.p, s->arena.bytes);
	}
	s->arena = (block){ fresh, bytes };
	return fresh;
}

tj_status rt_pool_sync(rt_pool *p, rt_err *err)
{
	tj_status st = TJ_OK;
	for (int i = RT_CPU + 1; i < RT_DEVICES; i++) {
		if (p->on[i].queue) rt_pool_doubt(p, i);
		const tj_status one = rt_pool_settle(p, i, st == TJ_OK ? err : &(rt_err){ 0 });
		if (st == TJ_OK) st = one;
	}
	return st;
}

void rt_pool_doubt(rt_pool *p, int device)
{
	p->doubts += !p->on[device].doubt;
	p->on[device].doubt = true;
}

tj_status rt_pool_settle(rt_pool *p, int device, rt_err *err)
{
	station *s = &p->on[device];
	const rt_device *d = rt_device_at(device);
	uint64_t launch = 0;
	if (!s->doubt) return TJ_OK;
	s->doubt = false;
	p->doubts--;
	const uint64_t last = d->mark(s->queue).serial;
	const bool first = err && err->code == TJ_OK;
	tj_status st = d->wait(s->queue, &launch, err);
	if (st != TJ_OK && first) err->late = true;
	if (st != TJ_OK && launch && !rt_push(&s->lost, ((lost){ launch, last }))) { /* out of memory: rather too much is lost than too little */
		if (!s->rest.last) s->rest.first = launch;
		s->rest.last = last;
	}
	if (p->settled) p->settled(p->env, device, st == TJ_OK ? 0 : launch);
	return st;
}

int rt_pool_in_doubt(const rt_pool *p)
{
	int one = RT_CPU;
	for (int i = RT_CPU + 1; i < RT_DEVICES && p->doubts; i++)
		if (p->on[i].doubt) one = one == RT_CPU ? i : -1;
	return one;
}

bool rt_pool_failed(const rt_pool *p)
{
	for (int i = RT_CPU + 1; i < RT_DEVICES && p->doubts; i++)
		if (p->on[i].doubt && rt_device_at(i)->failed(p->on[i].queue)) return true;
	return false;
}

rt_mark rt_pool_flag(rt_pool *p, int device)
{
	const rt_device *d = rt_device_at(device);
	if (d->flag) d->flag(p->on[device].queue);
	return d->mark(p->on[device].queue);
}

bool rt_pool_passed(rt_pool *p, int device, rt_mark m)
{
	const rt_device *d = rt_device_at(device);
	d->finish(d->self, m);
	return !d->failed(p->on[device].queue);
}

void rt_pool_relax(rt_pool *p)
{
	rt_err none = { 0 };
	for (int i = RT_CPU + 1; i < RT_DEVICES && p->doubts; i++)
		if (p->on[i].doubt && rt_pool_passed(p, i, rt_device_at(i)->mark(p->on[i].queue))) rt_pool_settle(p, i, &none);
	if (p->settled) p->settled(p->env, RT_CPU, 0);
}

void rt_pool_when_settled(rt_pool *p, rt_settled *f, void *env)
{
	p->settled = f;
	p->env = env;
}

tj_status rt_pool_settle_all(rt_pool *p, rt_err *err)
{
	tj_status st = TJ_OK;
	for (int i = RT_CPU + 1; i < RT_DEVICES; i++)
		if (p->on[i].doubt && st == TJ_OK) st = rt_pool_settle(p, i, err);
	return st;
}

bool rt_pool_lost(const rt_pool *p, int device, rt_mark m)
{
	const station *s = &p->on[device];
	if ((!s->lost.n && !s->rest.last) || m.queue != rt_device_at(device)->mark(s->queue).queue) return false;
	for (uint32_t i = 0; i < s->lost.n; i++)
		if (m.serial >= s->lost.v[i].first && m.serial <= s->lost.v[i].last) return true;
	return s->rest.last && m.serial >= s->rest.first && m.serial <= s->rest.last;
}
