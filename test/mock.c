/* SPDX-License-Identifier: MIT */
/* The mock device: memory, queues, faults. */
#include "test/mock.h"
#include "runtime/bytes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLASSES = 40, SMALLEST = 8, POISON_MOST = 1 << 16 };
static const size_t SPACE = (size_t)64 << 30; /* of address space; a page gets memory when it is touched */

typedef enum kind { WRITE, COPY, ZERO, LAUNCH, WAIT_FOR } kind;
typedef struct work {
	kind kind;
	uint64_t serial;
	void *to, *bytes;        /* WRITE: a copy of what is written */
	const void *from;
	size_t size;             /* WRITE, ZERO: bytes; COPY: of an element */
	int rank;
	int64_t dim[TJ_MAX_RANK], from_stride[TJ_MAX_RANK], to_stride[TJ_MAX_RANK];
	rt_launch launch;        /* its arrays are copies */
	rt_mark mark;
} work;

struct rt_queue {
	uint64_t id, serial;     /* serial: number of the work that was added last */
	rt_vec(work) work;
	uint32_t next;           /* index of the first work that has not run */
	uint64_t failed;         /* serial of the launch that found a fault, 0: none */
	rt_err err;              /* the error of that fault */
	char site[256];
	struct rt_queue *other;
};

static struct {
	pthread_mutex_t lock;
	int fd, copy;            /* file of the memory; file of a copy for the child while the process forks */
	char *host, *there;      /* the two mappings */
	size_t end;              /* end of the memory that was ever given out */
	void *hole[CLASSES];     /* free blocks of 2^k bytes, linked by their first word, in `there` */
	struct rt_queue *queues;
	uint64_t ids, launches;
	int number;
} mock = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Noreturn static void die(const char *what, const void *p)
{
	fprintf(stderr, "mock device: %s (%p)\n", what, p);
	abort();
}

/* ---- memory ---- */
static char *there(const void *p)
{
	if ((const char *)p < mock.host || (const char *)p >= mock.host + mock.end) die("work on an address of the host", p);
	return mock.there + ((const char *)p - mock.host);
}

static void map_space(int fd)
{
	const int fixed = mock.host ? MAP_FIXED : 0;
	if (fd < 0) die("no memory", NULL);
	mock.host = mmap(mock.host, SPACE, PROT_NONE, MAP_SHARED | MAP_NORESERVE | fixed, fd, 0);
	mock.there = mmap(mock.there, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed, fd, 0);
	if (mock.host == MAP_FAILED || mock.there == MAP_FAILED) die("no addresses", NULL);
	mock.fd = fd;
}

static int new_memory(void)
{
	int fd = memfd_create("mock", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)SPACE)) die("no memory", NULL);
	return fd;
}

/* ---- fork: parent and child would share the memory, so the child gets a copy ---- */
static void before_fork(void)
{
	pthread_mutex_lock(&mock.lock);
	mock.copy = new_memory();
	for (off_t at = 0, end; (at = lseek(mock.fd, at, SEEK_DATA)) >= 0 && (end = lseek(mock.fd, at, SEEK_HOLE)) > at; at = end)
		if (pwrite(mock.copy, mock.there + at, (size_t)(end - at), at) != end - at) die("no memory for a child", NULL);
}

static void in_parent(void)
{
	close(mock.copy);
	pthread_mutex_unlock(&mock.lock);
}

static void in_child(void)
{
	close(mock.fd);
	map_space(mock.copy);
	pthread_mutex_unlock(&mock.lock);
}

static int class_of(size_t bytes)
{
	int k = SMALLEST;
	while (k < CLASSES && (size_t)1 << k < bytes) k++;
	return k;
}

/* The sizes of blocks are kept outside of them, one for each 256 bytes. */
static uint8_t *class_at(const void *p)
{
	static uint8_t *classes;
	if (!classes) classes = mmap(NULL, SPACE >> SMALLEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return &classes[(size_t)((const char *)p - mock.host) >> SMALLEST];
}

static void poison(void *p, int k, int byte)
{
	size_t bytes = (size_t)1 << k;
	memset(there(p), byte, bytes < POISON_MOST ? bytes : POISON_MOST);
}

static void *take(size_t bytes)
{
	int k = class_of(bytes);
	char *p = mock.hole[k];
	if (p) memcpy(&mock.hole[k], there(p), sizeof(void *));
	else {
		if (k >= CLASSES || mock.end + ((size_t)1 << k) > SPACE) return NULL;
		p = mock.host + mock.end;
		mock.end += (size_t)1 << k;
	}
	*class_at(p) = (uint8_t)k;
	poison(p, k, 0xAB); /* read as floats: small negative numbers */
	return p;
}

static void *mock_alloc(void *self, size_t bytes)
{
	(void)self;
	pthread_mutex_lock(&mock.lock);
	void *p = take(bytes);
	pthread_mutex_unlock(&mock.lock);
	return p;
}

static void mock_free(void *self, void *p)
{
	(void)self;
	pthread_mutex_lock(&mock.lock);
	int k = *class_at(p);
	if (!k) die("freed twice", p);
	*class_at(p) = 0;
	poison(p, k, 0xFF); /* NaNs, and indices out of range */
	memcpy(there(p), &mock.hole[k], sizeof(void *));
	mock.hole[k] = p;
	pthread_mutex_unlock(&mock.lock);
}

/* ---- running ---- */
static struct rt_queue *find(uint64_t id)
{
	struct rt_queue *q = mock.queues;
	while (q && q->id != id) q = q->other;
	return q;
}

static void run_kernel(struct rt_queue *q, const work *w)
{
	const rt_launch *l = &w->launch;
	int32_t fault = 0;
	if (l->unless_failed && q->failed) return;
	void **buf = malloc((l->nbuf + 1) * sizeof *buf), *scratch = malloc(l->scratch + 64), *shared = malloc(l->shared + 64);
	for (uint32_t i = 0; i < l->nbuf; i++) {
		const char *p = l->buf[i], *num = (const char *)l->num;
		const bool number = p >= num && p < num + l->nnum * sizeof *l->num;
		buf[i] = number ? (void *)(uintptr_t)p : there(p);
	}
	const mock_kargs a = { { buf, l->num, &fault, scratch, l->size }, shared };
	((rt_kernel_fn *)l->entry)(&a.k, 0, l->units);
	mock.launches++;
	free(shared);
	free(scratch);
	free(buf);
	if (!fault || q->failed) return;
	q->failed = w->serial;
	q->err = (rt_err){ .site = l->site };
	rt_fault_fail(&l->fault[fault - 1], &q->err);
	snprintf(q->site, sizeof q->site, "%s", q->err.site ? q->err.site : ""); /* the plan may be gone when this is reported */
	if (q->err.site) q->err.site = q->site;
}

static void drop(work *w)
{
	free(w->bytes);
	if (w->kind != LAUNCH) return;
	free((void *)(uintptr_t)w->launch.buf);
	free((void *)(uintptr_t)w->launch.num);
	free((void *)(uintptr_t)w->launch.size);
	free((void *)(uintptr_t)w->launch.fault);
}

static void run_to(struct rt_queue *q, uint64_t serial)
{
	RT_DEFAULT_MODES; /* a device has modes of its own, not those of the thread that waits */
	while (q && q->next < q->work.n && q->work.v[q->next].serial <= serial) {
		work w = q->work.v[q->next++];
		switch (w.kind) {
		case WRITE: memcpy(there(w.to), w.bytes, w.size); break;
		case ZERO: memset(there(w.to), 0, w.size); break;
		case COPY: rt_copy_strided(w.rank, w.dim, w.size, there(w.from), w.from_stride, there(w.to), w.to_stride); break;
		case LAUNCH: run_kernel(q, &w); break;
		case WAIT_FOR: run_to(find(w.mark.queue), w.mark.serial); break;
		}
		drop(&w);
	}
	if (q && q->next == q->work.n) q->next = q->work.n = 0;
}

/* ---- queues ---- */
static rt_queue *mock_open(void *self)
{
	(void)self;
	struct rt_queue *q = calloc(1, sizeof *q);
	pthread_mutex_lock(&mock.lock);
	q->id = ++mock.ids;
	q->other = mock.queues;
	mock.queues = q;
	pthread_mutex_unlock(&mock.lock);
	return q;
}

static void mock_close(rt_queue *q)
{
	pthread_mutex_lock(&mock.lock);
	run_to(q, UINT64_MAX);
	struct rt_queue **at = &mock.queues;
	while (*at != q) at = &(*at)->other;
	*at = q->other;
	pthread_mutex_unlock(&mock.lock);
	free(q->work.v);
	free(q);
}

static tj_status put(rt_queue *q, work w)
{
	pthread_mutex_lock(&mock.lock);
	w.serial = ++q->serial;
	if (q->work.n == q->work.cap) { /* not rt_push(), which tests make fail */
		q->work.cap = q->work.cap ? 2 * q->work.cap : 64;
		q->work.v = realloc(q->work.v, q->work.cap * sizeof *q->work.v);
		if (!q->work.v) die("no memory for work", q);
	}
	q->work.v[q->work.n++] = w;
	pthread_mutex_unlock(&mock.lock);
	return TJ_OK;
}

static void *copy_of(const void *p, size_t bytes)
{
	void *c = malloc(bytes + 1);
	if (!c) die("no memory for work", p);
	if (bytes) memcpy(c, p, bytes);
	return c;
}

static tj_status mock_write(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	(void)err;
	return bytes ? put(q, (work){ .kind = WRITE, .to = to, .bytes = copy_of(from, bytes), .size = bytes }) : TJ_OK;
}

static tj_status mock_read(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	(void)err;
	pthread_mutex_lock(&mock.lock);
	run_to(q, UINT64_MAX);
	if (bytes) memcpy(to, there(from), bytes);
	pthread_mutex_unlock(&mock.lock);
	return TJ_OK;
}

static tj_status mock_copy(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to,
                           const int64_t *to_stride, rt_err *err)
{
	(void)err;
	work w = { .kind = COPY, .rank = rank, .size = size, .from = from, .to = to };
	if (rank) {
		memcpy(w.dim, dim, (size_t)rank * sizeof *dim);
		memcpy(w.from_stride, from_stride, (size_t)rank * sizeof *dim);
		memcpy(w.to_stride, to_stride, (size_t)rank * sizeof *dim);
	}
	return put(q, w);
}

static tj_status mock_zero(rt_queue *q, void *to, size_t bytes, rt_err *err)
{
	(void)err;
	return bytes ? put(q, (work){ .kind = ZERO, .to = to, .size = bytes }) : TJ_OK;
}

static tj_status mock_launch(rt_queue *q, const rt_launch *l, rt_err *err)
{
	(void)err;
	work w = { .kind = LAUNCH, .launch = *l };
	void **buf = copy_of(l->buf, l->nbuf * sizeof *buf);
	uint64_t *num = copy_of(l->num, l->nnum * sizeof *num);
	for (uint32_t i = 0; i < l->nbuf; i++) {
		const char *p = buf[i], *first = (const char *)l->num;
		if (p >= first && p < first + l->nnum * sizeof *num) buf[i] = (char *)num + (p - first);
	}
	w.launch.buf = buf;
	w.launch.num = num;
	w.launch.size = copy_of(l->size, l->nsize * sizeof *l->size);
	w.launch.fault = copy_of(l->fault, l->nfault * sizeof *l->fault);
	return put(q, w);
}

static tj_status mock_wait(rt_queue *q, uint64_t *launch, rt_err *err)
{
	tj_status st = TJ_OK;
	pthread_mutex_lock(&mock.lock);
	run_to(q, UINT64_MAX);
	*launch = q->failed;
	if (q->failed) {
		st = q->err.code;
		if (err && err->code == TJ_OK) *err = q->err;
		q->failed = 0;
	}
	pthread_mutex_unlock(&mock.lock);
	return st;
}

static bool mock_failed(rt_queue *q)
{
	pthread_mutex_lock(&mock.lock);
	const bool failed = q->failed;
	pthread_mutex_unlock(&mock.lock);
	return failed;
}

static rt_mark mock_mark(rt_queue *q)
{
	pthread_mutex_lock(&mock.lock);
	const rt_mark m = { q->id, q->serial };
	pthread_mutex_unlock(&mock.lock);
	return m;
}

static void mock_wait_for(rt_queue *q, rt_mark m)
{
	if (m.queue && m.queue != q->id) put(q, (work){ .kind = WAIT_FOR, .mark = m });
}

static void mock_finish(void *self, rt_mark m)
{
	(void)self;
	pthread_mutex_lock(&mock.lock);
	run_to(find(m.queue), m.serial);
	pthread_mutex_unlock(&mock.lock);
}

static void mock_drain(void *self)
{
	(void)self;
	pthread_mutex_lock(&mock.lock);
	for (struct rt_queue *q = mock.queues; q; q = q->other) run_to(q, UINT64_MAX);
	pthread_mutex_unlock(&mock.lock);
}

/* ---- from outside ---- */
uint64_t mock_launches(void) { return mock.launches; }

uint64_t mock_pending(void)
{
	uint64_t n = 0;
	pthread_mutex_lock(&mock.lock);
	for (struct rt_queue *q = mock.queues; q; q = q->other) n += q->work.n - q->next;
	pthread_mutex_unlock(&mock.lock);
	return n;
}

int mock_device(void)
{
	static const rt_device device = {
		.name = "mock:0",
		.target = &mock_target,
		.alloc = mock_alloc,
		.free = mock_free,
		.open = mock_open,
		.close = mock_close,
		.write = mock_write,
		.read = mock_read,
		.copy = mock_copy,
		.zero = mock_zero,
		.launch = mock_launch,
		.wait = mock_wait,
		.failed = mock_failed,
		.mark = mock_mark,
		.wait_for = mock_wait_for,
		.finish = mock_finish,
		.drain = mock_drain,
	};
	pthread_mutex_lock(&mock.lock);
	if (!mock.number) {
		map_space(new_memory());
		pthread_atfork(before_fork, in_parent, in_child);
		mock.number = rt_device_add(&device);
	}
	pthread_mutex_unlock(&mock.lock);
	return mock.number;
}

/* TJ_DEVICE=mock:0 runs any test on it. */
__attribute__((constructor)) static void on_demand(void)
{
	const char *device = getenv("TJ_DEVICE");
	if (device && !strcmp(device, "mock:0")) mock_device();
}
