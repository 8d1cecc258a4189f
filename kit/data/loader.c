/* SPDX-License-Identifier: MIT */
/* loader: threads that fill batches before they are asked for.
 *
 * The batches of all epochs, of this rank, have one number each: epoch * batches + batch. A worker takes the next number, fills that batch
 * and puts it into the slot number % ahead. The caller takes batches in the order of their numbers, so who filled which does not matter.
 *
 *         taken              issued      taken + ahead
 *     ------|------------------|-------------|---->      issued - taken batches are ready or being filled
 */
#include "kit/data/data.h"

#include <signal.h>
#include <stdlib.h>

enum { MOST_WORKERS = 1024, MOST_AHEAD = 1 << 16, PADDED = (1 << TJ_SAMPLE_FIELDS) - 1 };

/* What fills a batch: one for each thread. */
typedef struct filler {
	struct tj_loader *l;
	pthread_t thread;
	tj_sample sample;
	kit_field *items;  /* with .pad: the fields of all items of a batch, and their memory */
	kit_buffer *own;
} filler;

typedef enum state { EMPTY, READY, FAILED } state;
typedef struct slot {
	state state;
	kit_batch *batch;
	kit_why why;
} slot;

struct tj_loader {
	tj_ctx *c;
	tj_dataset d;
	tj_loader_opts o;
	int64_t n, batches, end;  /* items; batches of an epoch; the first number that is not there */
	int64_t epoch, batch;     /* of the next batch */
	bool failed;
	kit_pool *pool;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	slot *slot;
	int ahead, running, threads; /* running: fillers at work */
	int64_t taken, issued;
	bool quit, hold;             /* hold: no worker begins a batch */
	atomic_bool cancel;          /* batches that are being filled are not wanted any more */
	filler *filler;              /* of the workers, or one for the caller */
};

/* ---- one batch ---- */
static bool fill_item(filler *x, int64_t epoch, int64_t place, kit_why *w)
{
	const tj_loader *l = x->l;
	const int64_t index = l->o.shuffle ? tj_shuffled(l->o.seed, epoch, l->n, place) : place;
	tj_sample *s = &x->sample;
	const uint64_t random = kit_mix(kit_mix(kit_mix(l->o.seed, 0x6974656d), (uint64_t)epoch), (uint64_t)index);
	if (kit_sample_fill(s, &l->d, index, random)) return true;
	return kit_no(w, s->why.code, "item %lld: %s", (long long)index, s->why.text);
}

static bool fill_items(filler *x, kit_batch *b, int64_t epoch, int64_t first, kit_why *w)
{
	tj_sample *s = &x->sample;
	s->batch = b;
	for (int64_t i = 0; i < b->n; i++) {
		if (atomic_load_explicit(&x->l->cancel, memory_order_relaxed)) return kit_no(w, TJ_ERR_STATE, "not wanted");
		s->at = i;
		s->own = x->own + (s->apart ? i * TJ_SAMPLE_FIELDS : 0);
		if (!fill_item(x, epoch, first + i, w)) return false;
		if (s->apart) memcpy(x->items + i * TJ_SAMPLE_FIELDS, s->field, sizeof s->field);
	}
	return !s->apart || kit_pad(b, x->items, s->apart, &x->l->o, w);
}

/* NULL: why not. */
static kit_batch *fill_batch(filler *x, int64_t number, kit_why *w)
{
	tj_loader *l = x->l;
	const int64_t epoch = number / l->batches, all = number % l->batches * l->o.ranks + l->o.rank, first = all * l->o.batch;
	const int64_t left = l->n - first;
	kit_batch *b = kit_batch_take(l->pool, left < l->o.batch ? left : l->o.batch);
	if (!b) return kit_no_memory(w), NULL;
	if (fill_items(x, b, epoch, first, w)) return b;
	kit_batch_drop(b);
	return NULL;
}

/* ---- workers ---- */
static void *work(void *filler_)
{
	filler *x = filler_;
	tj_loader *l = x->l;
	pthread_mutex_lock(&l->lock);
	for (;;) {
		while (!l->quit && (l->hold || l->issued >= l->end || l->issued >= l->taken + l->ahead)) pthread_cond_wait(&l->work, &l->lock);
		if (l->quit) break;
		const int64_t number = l->issued++;
		l->running++;
		pthread_mutex_unlock(&l->lock);
		kit_why why = { 0 };
		kit_batch *b = fill_batch(x, number, &why);
		pthread_mutex_lock(&l->lock);
		l->running--;
		l->slot[number % l->ahead] = (slot){ b ? READY : FAILED, b, why };
		pthread_cond_broadcast(&l->done);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* No worker is at work, and no batch is ready. */
static void stop(tj_loader *l)
{
	atomic_store(&l->cancel, true);
	l->hold = true;
	while (l->running) pthread_cond_wait(&l->done, &l->lock);
	for (int i = 0; i < l->ahead; i++) {
		kit_batch_drop(l->slot[i].batch);
		l->slot[i] = (slot){ 0 };
	}
	atomic_store(&l->cancel, false);
}

/* Signals are for the program's own threads. */
static bool start(tj_loader *l, kit_why *w)
{
	sigset_t all, was;
	int e = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	while (l->threads < l->o.workers && !(e = pthread_create(&l->filler[l->threads].thread, NULL, work, &l->filler[l->threads]))) l->threads++;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return !e || kit_no(w, TJ_ERR_LIMIT, "thread %d of %d cannot be started: error %d", l->threads, l->o.workers, e);
}

/* ---- opening and closing ---- */
static bool check_buckets(tj_dims b, kit_why *w)
{
	for (int64_t before = 0; b && *b != TJ_END_DIM; before = *b++)
		if (*b <= before) return kit_no(w, TJ_ERR_ARG, ".buckets has %lld behind %lld; they must rise", (long long)*b, (long long)before);
	return true;
}

static bool check_options(tj_loader_opts *o, kit_why *w)
{
	if (!o->batch) o->batch = 1;
	if (!o->ranks) o->ranks = 1;
	if (!o->pad_fields) o->pad_fields = PADDED;
	if (o->batch < 0) return kit_no(w, TJ_ERR_ARG, ".batch is %lld", (long long)o->batch);
	if (o->workers < 0 || o->workers > MOST_WORKERS)
		return kit_no(w, TJ_ERR_ARG, ".workers is %d; 0 to %d are possible", o->workers, MOST_WORKERS);
	if (o->prefetch < 0 || o->prefetch > MOST_AHEAD)
		return kit_no(w, TJ_ERR_ARG, ".prefetch is %d; 0 to %d are possible", o->prefetch, MOST_AHEAD);
	if (o->ranks < 0 || o->rank < 0 || o->rank >= o->ranks)
		return kit_no(w, TJ_ERR_ARG, ".rank is %d, and .ranks %d", o->rank, o->ranks);
	if (o->epochs < 0) return kit_no(w, TJ_ERR_ARG, ".epochs is %lld", (long long)o->epochs);
	if (o->buckets && !o->pad) return kit_no(w, TJ_ERR_ARG, ".buckets is for .pad");
	if (o->pad_fields > PADDED) return kit_no(w, TJ_ERR_ARG, ".pad_fields has bits beyond field %d", TJ_SAMPLE_FIELDS - 1);
	return check_buckets(o->buckets, w);
}

static bool count(tj_loader *l, kit_why *w)
{
	const tj_loader_opts *o = &l->o;
	l->n = l->d.length(l->d.self);
	if (l->n < 0) return kit_no(w, TJ_ERR_ARG, "length() returned %lld", (long long)l->n);
	if (l->o.batch > l->n && l->n) l->o.batch = o->drop_last ? l->o.batch : l->n;
	const int64_t all = l->n / o->batch + (!o->drop_last && l->n % o->batch);
	l->batches = o->drop_last ? all / o->ranks : all / o->ranks + (o->rank < all % o->ranks);
	if (!o->epochs || __builtin_mul_overflow(l->batches, o->epochs, &l->end)) l->end = INT64_MAX;
	if (!l->batches) l->end = 0;
	return true;
}

static bool make_fillers(tj_loader *l, kit_why *w)
{
	const int n = l->o.workers ? l->o.workers : 1;
	const uint32_t apart = l->o.pad ? l->o.pad_fields : 0;
	const int64_t most = l->o.batch < l->n ? l->o.batch : l->n;
	const size_t items = apart && most ? (size_t)most : 1;
	l->ahead = l->o.prefetch ? l->o.prefetch : 2 * n;
	l->filler = calloc((size_t)n, sizeof *l->filler);
	l->slot = calloc((size_t)l->ahead, sizeof *l->slot);
	l->pool = kit_pool_open(l->ahead + 2);
	if (!l->filler || !l->slot || !l->pool) return kit_no_memory(w);
	for (int i = 0; i < n; i++) {
		filler *x = &l->filler[i];
		x->l = l;
		x->sample.apart = apart;
		x->own = items < SIZE_MAX / sizeof(kit_field) / TJ_SAMPLE_FIELDS ? calloc(items * TJ_SAMPLE_FIELDS, sizeof *x->own) : NULL;
		x->items = x->own && apart ? calloc(items * TJ_SAMPLE_FIELDS, sizeof *x->items) : NULL;
		if (!x->own || (apart && !x->items)) return kit_no_memory(w);
	}
	return true;
}

tj_loader *tj_loader_open_at(const char *site, tj_ctx *c, const tj_dataset *d, const tj_loader_opts *opts)
{
	KIT_OPTIONS(tj_loader_opts, o, opts, NULL)
	kit_why w = { 0 };
	tj_loader *l = calloc(1, sizeof *l);
	if (!l) return kit_no_memory(&w), kit_report(site, "loader_open", NULL, &w), NULL;
	l->c = c;
	l->o = o;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_cond_init(&l->done, NULL);
	if (check_options(&l->o, &w) && kit_dataset_get(d, &l->d, &w) && count(l, &w) && make_fillers(l, &w) && start(l, &w)) return l;
	kit_report(site, "loader_open", NULL, &w);
	tj_loader_close(l);
	return NULL;
}

static void free_filler(const tj_loader *l, filler *x)
{
	const int64_t most = l->o.batch < l->n ? l->o.batch : l->n, items = x->items && most ? most : 1;
	for (int64_t i = 0; x->own && i < items * TJ_SAMPLE_FIELDS; i++) free(x->own[i].data);
	free(x->own);
	free(x->items);
}

void tj_loader_close(tj_loader *l)
{
	if (!l) return;
	pthread_mutex_lock(&l->lock);
	if (l->slot) stop(l);
	l->quit = true;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
	for (int i = 0; i < l->threads; i++) pthread_join(l->filler[i].thread, NULL);
	for (int i = 0; l->filler && i < (l->o.workers ? l->o.workers : 1); i++) free_filler(l, &l->filler[i]);
	kit_pool_close(l->pool);
	pthread_cond_destroy(&l->work);
	pthread_cond_destroy(&l->done);
	pthread_mutex_destroy(&l->lock);
	free(l->filler);
	free(l->slot);
	free(l);
}

/* ---- the caller ---- */
static kit_batch *wait_for(tj_loader *l, int64_t number, kit_why *w)
{
	slot *s = &l->slot[number % l->ahead];
	pthread_mutex_lock(&l->lock);
	while (s->state == EMPTY) pthread_cond_wait(&l->done, &l->lock);
	kit_batch *b = s->batch;
	if (b) { /* a slot with an error stays */
		*s = (slot){ 0 };
		l->taken = number + 1;
		pthread_cond_signal(&l->work);
	} else {
		*w = s->why;
	}
	pthread_mutex_unlock(&l->lock);
	return b;
}

/* The batch gets one holder for each tensor. */
static bool give(const char *site, tj_loader *l, kit_batch *b, tj_tensor **batch)
{
	bool ok = true;
	for (int f = 0; f < TJ_SAMPLE_FIELDS && b->field[f].put; f++) {
		const kit_field *x = &b->field[f];
		int64_t dim[TJ_MAX_RANK + 1] = { b->n };
		memcpy(dim + 1, x->dim, ((size_t)x->rank + 1) * sizeof *dim);
		atomic_fetch_add(&b->holders, 1);
		batch[f] = tj_wrap_at(site, l->c, x->dtype, dim, NULL, x->data, kit_batch_drop, b);
		if (!tj_is_poison(batch[f])) continue;
		kit_batch_drop(b); /* after an error it is not called */
		ok = false;
	}
	kit_batch_drop(b);
	return ok;
}

static int fields_of(const kit_batch *b)
{
	int n = 0;
	while (n < TJ_SAMPLE_FIELDS && b->field[n].put) n++;
	return n;
}

/* A batch that the caller has no room for comes again after tj_loader_seek(). */
static bool has_room(const kit_batch *b, int room, kit_why *w)
{
	const int n = fields_of(b);
	return n <= room || kit_no(w, TJ_ERR_ARG, "items have %d fields, and there is room for %d tensor%s", n, room, room == 1 ? "" : "s");
}

bool tj_loader_next_at(const char *site, tj_loader *l, tj_tensor **batch, int room)
{
	static const char op[] = "loader_next";
	kit_why w = { 0 };
	if (!l || !batch) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", l ? "list of tensors" : "loader"), false;
	for (int f = 0; f < room; f++) batch[f] = NULL;
	if (l->failed || (l->o.epochs && l->epoch >= l->o.epochs)) return false;
	if (l->batch == l->batches) return l->epoch++, l->batch = 0, false;
	const int64_t number = l->epoch * l->batches + l->batch;
	kit_batch *b = l->o.workers ? wait_for(l, number, &w) : fill_batch(l->filler, number, &w);
	if (b && !has_room(b, room, &w)) kit_batch_drop(b), b = NULL;
	if (!b) return l->failed = true, kit_report(site, op, NULL, &w), false;
	l->batch++;
	return give(site, l, b, batch);
}

int64_t tj_loader_batches(const tj_loader *l)
{
	return l ? l->batches : 0;
}

void tj_loader_tell(const tj_loader *l, int64_t *epoch, int64_t *batch)
{
	if (epoch) *epoch = l ? l->epoch : 0;
	if (batch) *batch = l ? l->batch : 0;
}

tj_status tj_loader_seek_at(const char *site, tj_loader *l, int64_t epoch, int64_t batch)
{
	static const char op[] = "loader_seek";
	int64_t number;
	if (!l) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the loader is NULL"), TJ_ERR_ARG;
	if (epoch < 0 || (l->o.epochs && epoch > l->o.epochs) || batch < 0 || batch > l->batches ||
	    __builtin_mul_overflow(epoch, l->batches, &number) || __builtin_add_overflow(number, batch, &number)) {
		tj_fail_at(site, TJ_ERR_ARG, op, NULL, "there is no batch %lld of epoch %lld: an epoch has %lld", (long long)batch,
		           (long long)epoch, (long long)l->batches);
		return TJ_ERR_ARG;
	}
	pthread_mutex_lock(&l->lock);
	stop(l);
	l->issued = l->taken = number;
	l->hold = false;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
	l->epoch = epoch;
	l->batch = batch;
	l->failed = false;
	return TJ_OK;
}
