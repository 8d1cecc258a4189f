/* SPDX-License-Identifier: MIT */
/* stream: work that waits, and the order in which it runs.
 *
 *   numbers of the work of a stream:   known ........ ran ............ end
 *                                      (dropped)  has run, but the host   waits
 *                                                 does not know it
 *
 * FAKE_CUDA_SEED=0: work runs when somebody waits for it, so as late as it may. Else any stream may run a piece of its work at any call. */
#include "test/fake/driver.h"

#include <stdlib.h>
#include <string.h>

typedef enum kind { WRITE, READ, COPY, FILL, LAUNCH, LIBRARY, RECORD, WAIT } kind;
typedef struct work {
	kind kind;
	void *host;              /* WRITE: from where; READ: to where; LAUNCH, LIBRARY: a copy of the arguments */
	void (*run)(void *job);  /* LIBRARY: of another fake library */
	bool owned;              /* WRITE: host is a copy */
	address to, from;
	size_t bytes;            /* LAUNCH, LIBRARY: of the arguments */
	unsigned char byte;
	function *f;
	struct fake_xyz grid, threads;
	size_t shared;
	struct stream *other;    /* WAIT: until its number `at` has run */
	uint64_t at;
} work;
typedef struct stream { work *work; size_t cap; uint64_t known, ran, end; bool dropped; struct stream *next; } stream;
typedef struct event { stream *stream; uint64_t at; bool dropped; struct event *next; } event;

static stream *streams; /* structs stay for ever, so that the use of a handle that was destroyed is found */
static event *events;

static work *at(stream *s, uint64_t n) { return &s->work[n - s->known]; }
static bool is_open(const stream *s) { return s && !s->dropped; }

/* ---- running ---- */
static void run_one(const work *w)
{
	switch (w->kind) {
	case WRITE: memcpy(fake_there(w->to, w->bytes), w->host, w->bytes); break;
	case READ: memcpy(w->host, fake_there(w->from, w->bytes), w->bytes); break;
	case COPY: memcpy(fake_there(w->to, w->bytes), fake_there(w->from, w->bytes), w->bytes); break;
	case FILL: memset(fake_there(w->to, w->bytes), w->byte, w->bytes); break;
	case LAUNCH: {
		uint64_t word[MOST_ARGUMENTS / 8 + 1]; /* the original addresses are needed until the work is known to be done */
		memcpy(word, w->host, w->bytes);
		fake_launch_run(w->f, w->grid, w->threads, w->shared, word);
		break;
	}
	case LIBRARY: w->run(w->host); break;
	case WAIT: case RECORD: break;
	}
}

static bool can_run(stream *s)
{
	if (s->ran == s->end) return false;
	const work *w = at(s, s->ran);
	return w->kind != WAIT || w->other->ran >= w->at;
}

static void step(stream *s)
{
	run_one(at(s, s->ran));
	s->ran++;
}

static void step_any(void)
{
	stream *can[64];
	unsigned n = 0;
	for (stream *s = streams; s && n < 64; s = s->next)
		if (can_run(s)) can[n++] = s;
	if (n) step(can[fake_random() % n]);
}

static void run_until(stream *s, uint64_t until)
{
	while (s->ran < until) {
		const work *w = at(s, s->ran);
		if (fake_seed() && fake_random() % 2) step_any();
		else if (w->kind == WAIT && w->other->ran < w->at) run_until(w->other, w->at);
		else step(s);
	}
}

/* Now the host knows that the first `until` pieces of work have run, and so that those they waited for have. */
static void know(stream *s, uint64_t until)
{
	if (until <= s->known) return;
	const uint64_t n = until - s->known;
	work *done = malloc(n * sizeof *done);
	memcpy(done, s->work, n * sizeof *done);
	memmove(s->work, s->work + n, (s->end - until) * sizeof *done);
	s->known = until;
	for (uint64_t i = 0; i < n; i++) {
		if (done[i].kind == WAIT) know(done[i].other, done[i].at);
		if (done[i].kind == LAUNCH || done[i].kind == LIBRARY || done[i].owned) free(done[i].host);
	}
	free(done);
}

static void finish(stream *s, uint64_t until)
{
	run_until(s, until);
	know(s, until);
}

void fake_streams_all(void)
{
	for (stream *s = streams; s; s = s->next) finish(s, s->end);
}

static int put(stream *s, work w)
{
	if (!is_open(s)) return INVALID_HANDLE;
	if (s->end - s->known == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->work = realloc(s->work, s->cap * sizeof w);
	}
	*at(s, s->end++) = w;
	while (fake_seed() && fake_random() % 3 == 0) step_any();
	return SUCCESS;
}

/* ---- work ---- */
static void *copy_of(const void *p, size_t bytes) { return memcpy(malloc(bytes + 1), p, bytes); }

int fake_put_write(void *s, address to, const void *from, size_t bytes)
{
	if (!is_open(s)) return INVALID_HANDLE;
	fake_there(to, bytes);
	const bool late = fake_is_pinned(from, bytes); /* pinned memory is read when the copy runs, other memory before the call returns */
	return put(s, (work){ .kind = WRITE,
	                      .to = to,
	                      .host = late ? (void *)(uintptr_t)from : copy_of(from, bytes),
	                      .owned = !late,
	                      .bytes = bytes });
}

int fake_put_read(void *s, void *to, address from, size_t bytes)
{
	stream *x = s;
	if (!is_open(x)) return INVALID_HANDLE;
	fake_there(from, bytes);
	put(x, (work){ .kind = READ, .host = to, .from = from, .bytes = bytes });
	if (!fake_is_pinned(to, bytes)) finish(x, x->end);
	return SUCCESS;
}

int fake_put_copy(void *s, address to, address from, size_t bytes)
{
	return put(s, (work){ .kind = COPY, .to = to, .from = from, .bytes = bytes });
}
int fake_put_fill(void *s, address to, unsigned char byte, size_t bytes)
{
	return put(s, (work){ .kind = FILL, .to = to, .byte = byte, .bytes = bytes });
}

int fake_put_launch(void *s, function *f, struct fake_xyz grid, struct fake_xyz threads, size_t shared, void **param)
{
	size_t bytes = 0;
	const int code = fake_launch_check(f, grid, threads, shared, &bytes);
	if (code || !is_open(s)) return code ? code : INVALID_HANDLE;
	return put(s, (work){ .kind = LAUNCH,
	                      .host = copy_of(param[0], bytes),
	                      .bytes = bytes,
	                      .f = f,
	                      .grid = grid,
	                      .threads = threads,
	                      .shared = shared });
}

int fake_put_library(void *s, void (*run)(void *job), const void *job, size_t bytes)
{
	return put(s, (work){ .kind = LIBRARY, .run = run, .host = copy_of(job, bytes), .bytes = bytes });
}

/* ---- who uses what ---- */
static bool meets(uintptr_t p, size_t bytes, uintptr_t from, uintptr_t to) { return p < to && p + bytes > from; }

static const char *user(const work *w, uintptr_t from, uintptr_t to)
{
	const uint64_t *word = w->host;
	switch (w->kind) {
	case WRITE: return meets(w->to, w->bytes, from, to) || meets((uintptr_t)w->host, w->bytes, from, to) ? "a copy to the device" : NULL;
	case READ: return meets(w->from, w->bytes, from, to) || meets((uintptr_t)w->host, w->bytes, from, to) ? "a copy to the host" : NULL;
	case COPY: return meets(w->to, w->bytes, from, to) || meets(w->from, w->bytes, from, to) ? "a copy" : NULL;
	case FILL: return meets(w->to, w->bytes, from, to) ? "a fill" : NULL;
	case LAUNCH: case LIBRARY:
		for (size_t i = 0; i < w->bytes / 8; i++)
			if (word[i] >= from && word[i] < to) return w->kind == LAUNCH ? "a kernel" : "a product";
		return NULL;
	case RECORD: case WAIT: break;
	}
	return NULL;
}

const char *fake_user_of(uintptr_t from, uintptr_t to)
{
	const char *who = NULL;
	for (stream *s = streams; s; s = s->next)
		for (uint64_t i = s->known; i < s->end && !who; i++) who = user(at(s, i), from, to);
	return who;
}

const char *fake_user_of_module(const module *m)
{
	for (stream *s = streams; s; s = s->next)
		for (uint64_t i = s->known; i < s->end; i++)
			if (at(s, i)->kind == LAUNCH && fake_module_of(at(s, i)->f) == m) return "a kernel";
	return NULL;
}

/* ---- handles ---- */
int fake_stream(void **out)
{
	stream *s = calloc(1, sizeof *s);
	s->next = streams;
	streams = s;
	*out = s;
	return SUCCESS;
}

int fake_stream_drop(void *h)
{
	stream *s = h;
	if (!is_open(s)) return INVALID_HANDLE;
	finish(s, s->end);
	free(s->work);
	s->work = NULL;
	s->cap = 0;
	s->dropped = true;
	return SUCCESS;
}

int fake_stream_sync(void *h)
{
	stream *s = h;
	if (!is_open(s)) return INVALID_HANDLE;
	finish(s, s->end);
	return SUCCESS;
}

int fake_stream_query(void *h)
{
	stream *s = h;
	if (!is_open(s)) return INVALID_HANDLE;
	if (fake_random() % 4 == 0) run_until(s, s->end); /* who asks often must see an end */
	if (s->ran < s->end) return NOT_READY;
	know(s, s->end);
	return SUCCESS;
}

int fake_event(void **out)
{
	event *e = calloc(1, sizeof *e);
	e->next = events;
	events = e;
	*out = e;
	return SUCCESS;
}

int fake_event_drop(void *h)
{
	event *e = h;
	if (!e || e->dropped) return INVALID_HANDLE;
	e->dropped = true;
	return SUCCESS;
}

int fake_event_record(void *h, void *s)
{
	event *e = h;
	if (!e || e->dropped || !is_open(s)) return INVALID_HANDLE;
	put(s, (work){ .kind = RECORD });
	e->stream = s;
	e->at = e->stream->end;
	return SUCCESS;
}

int fake_stream_wait(void *s, void *h)
{
	const event *e = h;
	if (!e || e->dropped || !is_open(s)) return INVALID_HANDLE;
	return e->stream ? put(s, (work){ .kind = WAIT, .other = e->stream, .at = e->at }) : SUCCESS;
}

int fake_event_sync(void *h)
{
	const event *e = h;
	if (!e || e->dropped) return INVALID_HANDLE;
	if (e->stream) finish(e->stream, e->at);
	return SUCCESS;
}

int fake_event_query(void *h)
{
	const event *e = h;
	if (!e || e->dropped) return INVALID_HANDLE;
	if (!e->stream) return SUCCESS;
	if (fake_random() % 4 == 0) run_until(e->stream, e->at);
	if (e->stream->ran < e->at) return NOT_READY;
	know(e->stream, e->at);
	return SUCCESS;
}

int fake_event_elapsed(float *ms, const void *from, const void *to)
{
	const event *a = from, *b = to;
	if (!a || !b || a->dropped || b->dropped || !a->stream || !b->stream) return INVALID_HANDLE;
	if (a->stream->ran < a->at || b->stream->ran < b->at) return NOT_READY;
	*ms = (float)(b->at - a->at);
	return SUCCESS;
}

void fake_stream_count(int *nstream, int *nevent)
{
	*nstream = *nevent = 0;
	for (const stream *s = streams; s; s = s->next) *nstream += !s->dropped;
	for (const event *e = events; e; e = e->next) *nevent += !e->dropped;
}
