/* SPDX-License-Identifier: MIT */
/* The caching allocator. A bin holds free buffers of one size; there are four sizes for each power of two. */
#include "runtime/buffer.h"
#include "runtime/alloc.h"

enum { BINS = 4 * 48, HELD_MAX = 1 << 30, HELD_FREELY = 256 << 20 };

struct rt_allocator {
	int device;
	rt_buffer *bin[BINS];
	size_t held, least;             /* bytes in the bins now; the least since the last fresh buffer was made */
	size_t total, most_out;         /* bytes in the bins or in use; the most in use, a maximum that decays slowly */
	uint32_t turn;                  /* number of fresh buffers so far; the clock for the age of free buffers */
	bool closed;
	atomic_int users;               /* buffers that exist, plus one for the owner */
	_Atomic(rt_buffer *) back;      /* stack of buffers that other threads handed back */
};

/* 256, 320, 384, 448, 512, 640, ... bytes. */
static size_t bin_size(uint32_t bin) { return (size_t)(4 + bin % 4) << (6 + bin / 4); }
static uint32_t bin_of(size_t bytes)
{
	if (bytes <= 256) return 0;
	uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes - 1);       /* 2^log <= bytes - 1 */
	uint32_t quarter = (uint32_t)((bytes - 1) >> (log - 2)) & 3;
	return (log - 8) * 4 + quarter + 1;
}

rt_allocator *rt_allocator_new(int device)
{
	rt_allocator *c = rt_calloc(sizeof *c);
	if (!c) return NULL;
	atomic_init(&c->users, 1);
	c->device = device;
	return c;
}

static void drop_allocator(rt_allocator *c)
{
	if (atomic_fetch_sub_explicit(&c->users, 1, memory_order_acq_rel) == 1) rt_free(c);
}

/* All work on the buffer has run. */
static void finish(const rt_device *d, const rt_buffer *b)
{
	d->finish(d->self, b->written);
	d->finish(d->self, b->read);
}

static void free_data(rt_buffer *b)
{
	const rt_device *d = rt_device_at(b->device);
	if (RT_LIKELY(!d)) {
		rt_free(b->data);
		rt_usage_give(RT_CPU, b->bytes);
		return;
	}
	finish(d, b);
	rt_device_free(b->device, b->data, b->bytes);
}

static void destroy(rt_buffer *b)
{
	rt_allocator *home = b->home;
	free_data(b);
	rt_free(b);
	drop_allocator(home);
}

static void put(rt_allocator *c, rt_buffer *b)
{
	if (c->closed || (c->device == RT_CPU && c->held + b->bytes > HELD_MAX)) {
		c->total -= b->bytes;
		destroy(b);
		return;
	}
	c->held += b->bytes;
	b->turn = c->turn;
	b->next = c->bin[b->bin];
	c->bin[b->bin] = b;
}

static void take_back(rt_allocator *c)
{
	rt_buffer *b = atomic_exchange_explicit(&c->back, NULL, memory_order_acquire);
	for (rt_buffer *next; b; b = next) {
		next = b->next;
		put(c, b);
	}
}

/* Top of the stack of a closed allocator: buffers handed back later are freed at once. */
static rt_buffer closed_mark;

void rt_allocator_close(rt_allocator *c)
{
	if (!c) return;
	c->closed = true;
	rt_buffer *b = atomic_exchange_explicit(&c->back, &closed_mark, memory_order_acq_rel);
	for (rt_buffer *next; b; b = next) {
		next = b->next;
		destroy(b);
	}
	for (int i = 0; i < BINS; i++)
		while ((b = c->bin[i])) {
			c->bin[i] = b->next;
			destroy(b);
		}
	drop_allocator(c);
}

/* ---- freeing unused buffers ---- */
/* Frees buffers that came to their bin at least `age` fresh buffers ago. */
static void drop_old(rt_allocator *c, uint32_t age)
{
	for (int i = 0; i < BINS; i++)
		for (rt_buffer **at = &c->bin[i], *b; (b = *at);) {
			if (c->turn - b->turn < age) {
				at = &b->next;
				continue;
			}
			*at = b->next;
			c->held -= b->bytes;
			c->total -= b->bytes;
			destroy(b);
		}
}

/* Limits the bytes in the bins: without this, a program whose sizes change would hold a buffer of each size for ever. Runs only
 * when a fresh buffer is made. */
static void trim(rt_allocator *c)
{
	size_t out = c->total - c->least;
	c->most_out = out > c->most_out ? out : c->most_out - (c->most_out - out) / 64;
	c->turn++;
	size_t most = 2 * c->most_out > HELD_FREELY ? 2 * c->most_out : HELD_FREELY;
	bool much = c->held > most;
	for (uint32_t age = c->turn; much && c->held > most / 4 * 3; age /= 2) drop_old(c, age);
	c->least = c->held;
}

static void *alloc_data(const rt_allocator *c, size_t bytes)
{
	if (c->device != RT_CPU) return rt_device_alloc(c->device, bytes);
	if (!rt_usage_take(RT_CPU, bytes)) return NULL;
	void *data = rt_alloc_data(bytes);
	if (!data) rt_usage_give(RT_CPU, bytes);
	return data;
}

void rt_allocator_empty(rt_allocator *c)
{
	take_back(c);
	drop_old(c, 0);
	c->least = 0;
}

static rt_buffer *make(rt_allocator *c, uint32_t bin)
{
	rt_buffer *b = rt_alloc(sizeof *b);
	if (!b) return NULL;
	size_t bytes = bin_size(bin);
	*b = (rt_buffer){ .bin = bin, .bytes = bytes, .home = c, .device = (uint8_t)c->device, .lock = ATOMIC_FLAG_INIT };
	b->data = alloc_data(c, bytes);
	if (!b->data) {
		rt_free(b);
		return NULL;
	}
	atomic_fetch_add_explicit(&c->users, 1, memory_order_relaxed);
	c->total += bytes;
	return b;
}

static rt_buffer *fresh(rt_allocator *c, uint32_t bin)
{
	trim(c);
	rt_buffer *b = make(c, bin);
	if (b) return b;
	take_back(c);
	if (!c->held) return NULL;
	rt_allocator_empty(c);
	return make(c, bin);
}

rt_buffer *rt_buffer_new(rt_allocator *c, size_t bytes)
{
	if (bytes > (size_t)1 << 46) return NULL;
	uint32_t bin = bin_of(bytes);
	if (!c->bin[bin] && atomic_load_explicit(&c->back, memory_order_relaxed)) take_back(c);
	rt_buffer *b = c->bin[bin];
	if (b) {
		c->bin[bin] = b->next;
		c->held -= b->bytes;
		if (c->held < c->least) c->least = c->held;
	} else {
		b = fresh(c, bin);
	}
	if (b) atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

size_t rt_allocator_held(rt_allocator *c)
{
	take_back(c);
	return c->held;
}

static void hand_back(rt_allocator *home, rt_buffer *b)
{
	rt_buffer *top = atomic_load_explicit(&home->back, memory_order_acquire);
	do {
		if (top == &closed_mark) {
			destroy(b);
			return;
		}
		b->next = top;
	} while (!atomic_compare_exchange_weak_explicit(&home->back, &top, b, memory_order_release, memory_order_acquire));
}

rt_buffer *rt_buffer_borrow(int device, void *data, void (*release)(void *env), void *env)
{
	rt_buffer *b = rt_alloc(sizeof *b);
	if (b)
		*b = (rt_buffer){ .refs = 1,
			          .data = data,
			          .device = (uint8_t)device,
			          .lock = ATOMIC_FLAG_INIT,
			          .borrowed = true,
			          .release = release,
			          .env = env };
	return b;
}

static void give_back(rt_buffer *b)
{
	if (b->device != RT_CPU) finish(rt_device_at(b->device), b);
	if (b->release) b->release(b->env);
	rt_free(b);
}

void rt_buffer_unref(rt_buffer *b, rt_allocator *here)
{
	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
	if (RT_UNLIKELY(b->borrowed)) give_back(b);
	else if (b->home == here) put(here, b);
	else hand_back(b->home, b);
}

/* ---- work in queues ---- */
tj_status rt_buffer_before(rt_buffer *b, rt_pool *p, bool write, rt_err *err)
{
	const rt_device *d = rt_device_at(b->device);
	if (!d) return TJ_OK;
	rt_queue *q = rt_pool_queue(p, b->device, err);
	if (!q) return err->code;
	rt_spin(&b->lock);
	const rt_mark written = b->written, read = b->read;
	rt_unspin(&b->lock);
	d->wait_for(q, written);
	if (!write) return rt_buffer_sound(b, p, "device", err);
	d->wait_for(q, read);
	return TJ_OK;
}

bool rt_buffer_lost(rt_buffer *b, const rt_pool *p)
{
	rt_spin(&b->lock);
	const rt_mark written = b->written;
	const bool sure = b->sure, lost = b->lost;
	rt_unspin(&b->lock);
	return lost || (!sure && rt_pool_lost(p, b->device, written));
}

tj_status rt_buffer_sound(rt_buffer *b, const rt_pool *p, const char *op, rt_err *err)
{
	if (!rt_buffer_lost(b, p)) return TJ_OK;
	return rt_fail(err, TJ_ERR_STATE, op, "a value on %s is lost: computing it failed, and an earlier error reported that",
	               rt_device_name(b->device));
}

void rt_buffer_found(rt_buffer *b)
{
	rt_spin(&b->lock);
	b->sure = true;
	rt_unspin(&b->lock);
}

rt_buffer *rt_buffer_move(rt_buffer *b)
{
	rt_buffer *to = rt_alloc(sizeof *to);
	if (!to) return NULL;
	rt_spin(&b->lock);
	*to = (rt_buffer){ .refs = 1,
		           .bin = b->bin,
		           .bytes = b->bytes,
		           .home = b->home,
		           .data = b->data,
		           .device = b->device,
		           .lock = ATOMIC_FLAG_INIT,
		           .written = b->written,
		           .read = b->read,
		           .sure = true };
	b->lost = b->borrowed = true; /* borrowed: its end frees no memory */
	rt_unspin(&b->lock);
	return to;
}

void rt_buffer_after_host(rt_buffer *b, rt_pool *p)
{
	rt_buffer_after(b, p, true);
	if (b->device == RT_CPU) return;
	rt_spin(&b->lock);
	b->sure = true;
	rt_unspin(&b->lock);
}

void rt_buffer_after(rt_buffer *b, rt_pool *p, bool write)
{
	rt_err ignored = { 0 };
	const rt_device *d = rt_device_at(b->device);
	rt_queue *q = d ? rt_pool_queue(p, b->device, &ignored) : NULL;
	if (!q) return;
	rt_spin(&b->lock);
	if (write) b->written = d->mark(q), b->sure = false;
	else {
		d->wait_for(q, b->read); /* so that one mark stands for all reads, also those of other queues */
		b->read = d->mark(q);
	}
	rt_unspin(&b->lock);
}
