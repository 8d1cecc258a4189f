/* SPDX-License-Identifier: MIT */
/* timeline: a file in Chrome's trace format, an array of JSON objects, written while the program runs.
 *
 *   a thread -> its ring -> drain(), by a thread of the timeline 50 times a second, or by a thread whose ring is full -> the file
 *
 * So memory is bounded, nothing is lost, and a process that is killed leaves a file that lacks the last moments and the final bracket,
 * which readers do not need. The size is bounded, too: a budget of bytes an hour. Half of it may be used at once. When it is used up,
 * spans are left out until there is enough for a while; compiles and memory are always there. */
#include "runtime/device.h"
#include "runtime/exec.h"
#include "runtime/file.h"
#include "runtime/log.h"

#include "runtime/alloc.h"
#include "runtime/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 20 * 1000 * 1000, FLUSH = 64 << 10, MANY_RINGS = 64, MOST_LABEL = 4096 };
#define BUDGET ((int64_t)1 << 30) /* bytes an hour; Perfetto opens a file of some GiB */
#define HOUR_NS 3600e9
#define RESUMES 256.0             /* a part of the budget: so much must be there before spans are taken again */

struct rt_timeline {
	pid_t pid;
	uint64_t id;                 /* of the timelines of the process: tells whether a thread's ring is of this one */
	int fd;
	int64_t start;
	double budget, left;         /* bytes */
	int64_t refilled;            /* when */
	atomic_bool taking;
	pthread_mutex_t lock;        /* of all below, and of `left` */
	rt_ring *ring;
	uint32_t nring;
	rt_text text;                /* not yet in the file */
	bool begun;                  /* an event was written */
	atomic_bool failed;          /* the file cannot be written */
	atomic_bool ended;           /* or it is the parent's: nothing is written any more */
	rt_vec(uint32_t) lane;       /* whose names were told */
	size_t used[RT_DEVICES];     /* bytes of memory told last */
	atomic_uint stop;            /* futex of the thread */
	pthread_t thread;
	bool threaded;
	char path[];
};

static _Thread_local struct { uint64_t timeline; rt_ring *ring; } mine;

/* ---- text: as vsnprintf() would, in a tenth of the time ---- */
static char *put(char *at, const char *s)
{
	const size_t n = strlen(s);
	memcpy(at, s, n);
	return at + n;
}

static char *put_int(char *at, int64_t v)
{
	char few[24];
	int n = 0;
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	if (v < 0) *at++ = '-';
	do few[n++] = (char)('0' + u % 10);
	while (u /= 10);
	while (n) *at++ = few[--n];
	return at;
}

/* microseconds, with three digits behind the point */
static char *put_us(char *at, int64_t ns)
{
	if (ns < 0) ns = 0;
	const int rest = (int)(ns % 1000);
	at = put_int(at, ns / 1000);
	*at++ = '.';
	*at++ = (char)('0' + rest / 100);
	*at++ = (char)('0' + rest / 10 % 10);
	*at++ = (char)('0' + rest % 10);
	return at;
}

/* Bytes that are no UTF-8 become '?'. */
void rt_put_json(rt_text *t, const char *s)
{
	rt_puts(t, "\"");
	for (const unsigned char *at = (const unsigned char *)s; *at;) {
		const size_t n = rt_utf8((const char *)at, SIZE_MAX);
		if (*at == '"' || *at == '\\') rt_putf(t, "\\%c", *at);
		else if (*at < 0x20 || *at == 0x7f) rt_putf(t, "\\u%04x", *at);
		else if (n) rt_putn(t, (const char *)at, n);
		else rt_puts(t, "?");
		at += n ? n : 1;
	}
	rt_puts(t, "\"");
}

/* ---- the file; under the lock ---- */
static void flush(rt_timeline *t)
{
	if (!t->text.n || t->failed) return;
	if (!rt_write_all(t->fd, t->text.s, t->text.n)) {
		t->failed = true;
		atomic_store(&t->taking, false);
		rt_warn(NULL, "the timeline %s ends here: %s", t->path, strerror(errno));
	}
	t->text.n = 0;
}

/* Room for n bytes at the end of the text, which begins with what separates events; NULL: out of memory, or the file has failed. */
static char *room(rt_timeline *t, size_t n)
{
	if (t->text.n >= FLUSH) flush(t);
	if (t->failed) return NULL;
	if (t->text.n + n + 8 > t->text.cap) {
		char *s = rt_realloc(t->text.s, t->text.n + n + 2 * FLUSH);
		if (!s) return NULL;
		t->text.s = s;
		t->text.cap = t->text.n + n + 2 * FLUSH;
	}
	char *at = put(t->text.s + t->text.n, t->begun ? ",\n" : "[\n");
	t->begun = true;
	return at;
}

static void wrote(rt_timeline *t, const char *end)
{
	const size_t n = (size_t)(end - t->text.s);
	t->left -= (double)(n - t->text.n);
	t->text.n = n;
}

static char *put_head(const rt_timeline *t, char *at, const char *ph, int64_t thread, int64_t when)
{
	at = put(put(put(at, "{\"ph\":\""), ph), "\",\"pid\":");
	at = put(put_int(at, t->pid), ",\"tid\":");
	at = put(put_int(at, thread), ",\"ts\":");
	return put_us(at, when - t->start);
}

static void put_name(rt_timeline *t, int64_t thread, const char *what, const char *name)
{
	rt_text json = { 0 };
	rt_put_json(&json, name);
	char *at = json.oom ? NULL : room(t, json.n + 256);
	if (at) {
		at = put(put_head(t, at, "M", thread, t->start), ",\"name\":\"");
		at = put(put(put(put(at, what), "\",\"args\":{\"name\":"), rt_str(&json)), "}}");
		wrote(t, at);
	}
	rt_text_free(&json);
}

static void put_instant(rt_timeline *t, const char *what, int64_t when)
{
	char *at = room(t, 512);
	if (!at) return;
	at = put(put_head(t, at, "i", t->pid, when), ",\"s\":\"p\",\"cat\":\"timeline\",\"name\":\"");
	wrote(t, put(put(at, what), "\"}"));
}

static void put_memory(rt_timeline *t, int device, size_t bytes, int64_t when)
{
	char *at = room(t, 512);
	if (!at || device >= RT_DEVICES) return;
	at = put(put_head(t, at, "C", t->pid, when), ",\"cat\":\"memory\",\"name\":\"memory of ");
	at = put(put(at, rt_device_name(device)), "\",\"args\":{\"bytes\":");
	wrote(t, put(put_int(at, (int64_t)bytes), "}}"));
	t->used[device] = bytes;
}

static void name_lane(rt_timeline *t, uint32_t lane)
{
	char name[128];
	const uint32_t context = lane & (RT_LANE_CONTEXTS - 1), device = (lane - RT_LANE_QUEUE) / RT_LANE_CONTEXTS;
	for (uint32_t i = 0; i < t->lane.n; i++)
		if (t->lane.v[i] == lane) return;
	if (!rt_push(&t->lane, lane)) return;
	if (lane < RT_LANE_QUEUE) snprintf(name, sizeof name, "context %u", context);
	else snprintf(name, sizeof name, "%s, queue of context %u", rt_device_name((int)device), context);
	put_name(t, lane, "thread_name", name);
}

static void put_span(rt_timeline *t, const rt_ring *r, const rt_event *e)
{
	if (e->lane) name_lane(t, e->lane);
	char *at = room(t, strlen(e->label) + 256);
	if (!at) return;
	at = put(put_head(t, at, "X", e->lane ? (int64_t)e->lane : r->thread, e->start), ",\"dur\":");
	at = put(put_us(at, e->end - e->start), ",");
	at = put(put(at, e->label), "}");
	if (e->flow) {
		at = put_int(put(at, ",\"bind_id\":\""), (int64_t)e->flow);
		at = put(at, e->begins ? "\",\"flow_out\":true" : "\",\"flow_in\":true");
	}
	wrote(t, put(at, "}"));
}

static void drain_ring(rt_timeline *t, rt_ring *r)
{
	unsigned tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	const unsigned head = atomic_load_explicit(&r->head, memory_order_acquire);
	if (!r->named && head != tail) put_name(t, r->thread, "thread_name", r->name), r->named = true;
	for (; tail != head; tail++) {
		const rt_event *e = &r->event[tail % RT_RING];
		if (e->kind == RT_SPAN) put_span(t, r, e);
		else put_memory(t, (int)e->lane, (size_t)e->end, e->start);
		if ((tail + 1) % 256 == 0) atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
	}
	atomic_store_explicit(&r->tail, tail, memory_order_release);
}

/* Its thread has ended, and all that it told is written. */
static bool is_over(const rt_ring *r)
{
	return atomic_load(&r->head) == atomic_load(&r->tail) && syscall(SYS_tgkill, getpid(), r->thread, 0) && errno == ESRCH;
}

static void free_ended(rt_timeline *t)
{
	for (rt_ring **at = &t->ring, *r; (r = *at);) {
		if (!is_over(r)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		t->nring--;
		rt_free(r);
	}
}

static void spend(rt_timeline *t, int64_t now)
{
	const bool taking = atomic_load_explicit(&t->taking, memory_order_relaxed);
	t->left += (double)(now - t->refilled) / HOUR_NS * t->budget / 2;
	t->refilled = now;
	if (t->failed || (taking ? t->left >= 0 : t->left < t->budget / RESUMES)) return;
	put_instant(t, taking ? "spans are left out from here on: .timeline_bytes are used up" : "spans are there again", now);
	atomic_store_explicit(&t->taking, !taking, memory_order_relaxed);
}

static void drain(rt_timeline *t)
{
	const int64_t now = rt_now_ns();
	for (rt_ring *r = t->ring; r; r = r->next) drain_ring(t, r);
	for (int d = 0; d < RT_DEVICES; d++) {
		const size_t used = d == RT_CPU || rt_device_at(d) ? rt_usage_of(d).used : 0;
		if (used != t->used[d]) put_memory(t, d, used, now);
	}
	if (t->nring > MANY_RINGS) free_ended(t);
	spend(t, now);
	flush(t);
}

/* ---- the thread ---- */
static void *serve(void *p)
{
	rt_timeline *t = p;
	prctl(PR_SET_NAME, "tj-timeline");
	while (!atomic_load(&t->stop)) {
		rt_lock(&t->lock);
		drain(t);
		rt_unlock(&t->lock);
		syscall(SYS_futex, &t->stop, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){ .tv_nsec = TICK_NS }, NULL, 0);
	}
	return NULL;
}

static bool start_thread(rt_timeline *t)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
	const bool started = !pthread_create(&t->thread, NULL, serve, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

rt_timeline *rt_timeline_open(const char *path, int64_t budget, int64_t start_ns, rt_err *err)
{
	static atomic_ullong last;
	rt_timeline *t = rt_calloc(sizeof *t + strlen(path) + 1);
	if (!t) return rt_fail(err, TJ_ERR_NOMEM, "profile", "out of memory"), NULL;
	t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (t->fd < 0) {
		rt_fail(err, TJ_ERR_IO, "profile", "the timeline %s cannot be written: %s", path, strerror(errno));
		rt_free(t);
		return NULL;
	}
	memcpy(t->path, path, strlen(path) + 1);
	t->pid = getpid();
	t->id = atomic_fetch_add(&last, 1) + 1;
	t->start = t->refilled = start_ns;
	t->budget = (double)(budget > 0 ? budget : BUDGET);
	t->left = t->budget / 2;
	atomic_init(&t->taking, true);
	pthread_mutex_init(&t->lock, NULL);
	put_name(t, t->pid, "process_name", program_invocation_short_name);
	t->threaded = start_thread(t); /* without it, full rings are emptied by their threads, and the rest at the end */
	return t;
}

void rt_timeline_end(rt_timeline *t)
{
	if (atomic_exchange(&t->ended, true)) return;
	atomic_store(&t->stop, 1);
	if (t->threaded) {
		syscall(SYS_futex, &t->stop, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		pthread_join(t->thread, NULL);
	}
	rt_lock(&t->lock);
	drain(t);
	if (!t->failed && !rt_write_all(t->fd, "\n]\n", 3)) rt_warn(NULL, "the timeline %s has no end: %s", t->path, strerror(errno));
	t->failed = true;
	atomic_store(&t->taking, false);
	close(t->fd);
	rt_unlock(&t->lock);
}

void rt_timeline_close(rt_timeline *t)
{
	if (!t) return;
	rt_timeline_end(t);
	for (rt_ring *r = t->ring, *next; r; r = next) {
		next = r->next;
		rt_free(r);
	}
	rt_vec_free(&t->lane);
	rt_text_free(&t->text);
	pthread_mutex_destroy(&t->lock);
	rt_free(t);
}

void rt_timeline_forget(rt_timeline *t)
{
	if (atomic_exchange(&t->ended, true)) return;
	t->failed = true;
	atomic_store(&t->taking, false);
	close(t->fd);
}

/* ---- telling ---- */
static rt_ring *enter(rt_timeline *t)
{
	rt_ring *r = rt_ring_new();
	if (!r) return NULL;
	rt_lock(&t->lock);
	r->next = t->ring;
	t->ring = r;
	t->nring++;
	rt_unlock(&t->lock);
	mine.timeline = t->id;
	return mine.ring = r;
}

void rt_timeline_tell(rt_timeline *t, const rt_event *e)
{
	if (!atomic_load_explicit(&t->taking, memory_order_relaxed) && (!e->always || t->failed)) return;
	rt_ring *r = RT_LIKELY(mine.timeline == t->id) ? mine.ring : enter(t);
	while (r && !rt_ring_put(r, e)) {
		rt_lock(&t->lock);
		drain_ring(t, r);
		rt_unlock(&t->lock);
	}
}
