/* A CUDA driver without a GPU: libcuda.so.1 for tests, found by the same dlopen.
 *
 *   memory    a range of addresses that the host cannot access (PROT_NONE); kernels and copies use a second mapping of it.
 *             Fresh and freed memory is filled with garbage
 *   streams   run as late as they may: when somebody waits for them, or they are waited for by others
 *   kernels   shared objects that the fake NVRTC made (nvrtc.c). Each thread of a block is a fiber; a barrier and a shuffle switch to
 *             the next one, in an order that changes from launch to launch
 *
 * What a GPU would refuse gives the error code that it gives. What it would not notice ends the process with a message: a use of a
 * host address, a barrier or a shuffle that not all threads reach, a write beyond the shared memory that was asked for. */
#include "test/fake/fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_IMAGE = 200, NOT_FOUND = 500, INVALID_HANDLE = 400, TOO_MANY_RESOURCES = 701 };
enum { WARP = 32, MOST_THREADS = 1024, STACK = 128 << 10, SHARED_UNASKED = 48 << 10, SHARED_MOST = 227 << 10, SMALLEST = 256, ARCH_MAJOR = 9, ARCH_MINOR = 0 };
static const size_t SPACE = (size_t)32 << 30;

typedef unsigned long long address;

_Noreturn static void die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("fake CUDA: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static int context_mark;                    /* its address is the context */
static _Thread_local int depth;             /* of the stack of current contexts */

/* ---- memory ---- */
typedef struct block { size_t at, bytes; bool used; struct block *next; } block;
static struct { char *host, *there; size_t end; block *blocks; } memory;

static void map_memory(void)
{
	int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)SPACE)) die("no memory");
	memory.host = mmap(NULL, SPACE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	memory.there = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory.host == MAP_FAILED || memory.there == MAP_FAILED) die("no addresses");
}

static bool is_there(address p) { return p >= (uintptr_t)memory.host && p < (uintptr_t)memory.host + SPACE; }

static char *there(address p, size_t bytes)
{
	if (!is_there(p)) die("work on %#llx, an address of the host", p);
	const size_t at = (size_t)(p - (uintptr_t)memory.host);
	for (block *b = memory.blocks; b; b = b->next)
		if (at >= b->at && at + bytes <= b->at + b->bytes) {
			if (!b->used) die("work on memory that was freed, %#llx", p);
			return memory.there + at;
		}
	die("%zu bytes at %#llx are not inside of one allocation", bytes, p);
}

static int mem_alloc(address *p, size_t bytes)
{
	const size_t n = (bytes + SMALLEST - 1) / SMALLEST * SMALLEST;
	block *b = memory.blocks;
	if (!bytes) return INVALID_VALUE;
	while (b && (b->used || b->bytes != n)) b = b->next;
	if (!b) {
		if (memory.end + n + SMALLEST > SPACE) return OUT_OF_MEMORY;
		b = malloc(sizeof *b);
		*b = (block){ memory.end, n, false, memory.blocks };
		memory.blocks = b;
		memory.end += n + SMALLEST; /* a gap between any two */
	}
	b->used = true;
	memset(memory.there + b->at, 0xAB, n);
	*p = (uintptr_t)memory.host + b->at;
	return SUCCESS;
}

static int mem_free(address p)
{
	const size_t at = (size_t)(p - (uintptr_t)memory.host);
	for (block *b = memory.blocks; b; b = b->next)
		if (b->at == at && b->used) {
			memset(memory.there + b->at, 0xFF, b->bytes);
			b->used = false;
			return SUCCESS;
		}
	return INVALID_VALUE;
}

/* ---- fibers ---- */
typedef enum state { READY, AT_BARRIER, AT_SHUFFLE, DONE } state;
typedef struct fiber { void *sp; state state; unsigned long long value; int from; char *stack; } fiber;

static fiber fibers[MOST_THREADS];
static void *scheduler;
static int running, nthread;
static struct fake_place *place;            /* of the module: threadIdx and so on */
static void (*kernel_run)(void *);
static void *kernel_args;

void fake_switch(void **save, void *to);
__asm__(".text\n.globl fake_switch\n.hidden fake_switch\nfake_switch:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\nret\n");

static void back(state s)
{
	fibers[running].state = s;
	fake_switch(&fibers[running].sp, scheduler);
}

static void barrier(void) { back(AT_BARRIER); }

static unsigned long long shuffle(unsigned mask, unsigned long long value, int from)
{
	fiber *f = &fibers[running];
	if (mask != ~0u) die("a shuffle with the mask %#x", mask);
	f->value = value;
	f->from = from;
	back(AT_SHUFFLE);
	return f->value;
}

static void fiber_main(void)
{
	kernel_run(kernel_args);
	back(DONE);
	die("a fiber that is done runs");
}

static void prepare(int t)
{
	fiber *f = &fibers[t];
	if (!f->stack) f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void **sp = (void **)(f->stack + STACK - 64);
	*--sp = NULL;               /* alignment, as after a call */
	*--sp = (void *)(uintptr_t)fiber_main;
	sp -= 6;
	memset(sp, 0, 6 * sizeof *sp);
	f->sp = sp;
	f->state = READY;
}

static void resume(int t)
{
	running = t;
	place->thread.x = (unsigned)t;
	fake_switch(&scheduler, fibers[t].sp);
}

/* All 32 threads of a warp are at a shuffle. */
static void exchange(int first)
{
	unsigned long long value[WARP];
	for (int l = 0; l < WARP; l++) {
		if (fibers[first + l].state != AT_SHUFFLE) die("thread %d does not reach a shuffle of its warp", first + l);
		value[l] = fibers[first + l].value;
	}
	for (int l = 0; l < WARP; l++) {
		fiber *f = &fibers[first + l];
		const int from = f->from >= 0 ? f->from : l - f->from; /* -n: n lanes further up; a lane beyond the last reads itself */
		f->value = value[from < WARP ? from : l];
		f->state = READY;
	}
}

static void run_block(unsigned order)
{
	for (int t = 0; t < nthread; t++) prepare(t);
	for (int left = nthread; left;) {
		int waiting = 0;
		left = 0;
		for (int i = 0; i < nthread; i++) {
			const int t = (int)(((unsigned)i + order) % (unsigned)nthread);
			if (fibers[t].state == READY) resume(t);
			left += fibers[t].state != DONE;
			waiting += fibers[t].state == AT_BARRIER;
		}
		bool any = false;
		for (int w = 0; w < nthread; w += WARP) {
			int n = 0;
			for (int l = 0; l < WARP; l++) n += fibers[w + l].state == AT_SHUFFLE;
			if (n == WARP) exchange(w), any = true;
			else if (n && waiting + n >= left) die("only %d threads of a warp reach a shuffle", n);
		}
		if (any || !left) continue;
		if (waiting != left || left != nthread) die("%d of %d threads reach a barrier", waiting, nthread);
		for (int t = 0; t < nthread; t++) fibers[t].state = READY;
	}
}

/* ---- modules ---- */
typedef struct module { void *library; char path[64]; } module;
typedef struct function { module *m; void (*run)(void *); size_t bytes; int threads; size_t shared; struct fake_place *place; char name[128]; struct function *next; } function;
static function *functions;

static int module_load(void **out, const void *image)
{
	const struct fake_cubin *c = image;
	module *m = calloc(1, sizeof *m);
	if (memcmp(c->magic, FAKE_MAGIC, sizeof c->magic) != 0 || c->arch != ARCH_MAJOR * 10 + ARCH_MINOR) return INVALID_IMAGE;
	snprintf(m->path, sizeof m->path, "/tmp/fake-cuda-XXXXXX");
	int fd = mkstemp(m->path);
	if (fd < 0 || write(fd, c->code, c->bytes) != (ssize_t)c->bytes) die("no room for a module");
	close(fd);
	m->library = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
	if (!getenv("FAKE_CUDA_KEEP")) unlink(m->path);
	if (!m->library) die("%s", dlerror());
	struct fake_hooks *hooks = dlsym(m->library, "fake_hooks");
	if (!hooks) return INVALID_IMAGE;
	*hooks = (struct fake_hooks){ barrier, shuffle };
	*out = m;
	return SUCCESS;
}

static void *symbol_of(module *m, const char *name, const char *suffix)
{
	char s[200];
	snprintf(s, sizeof s, "%s%s", name, suffix);
	return dlsym(m->library, s);
}

static int module_function(void **out, void *mod, const char *name)
{
	function *f = calloc(1, sizeof *f);
	void *run = symbol_of(mod, name, "__run");
	if (!run) return NOT_FOUND;
	memcpy(&f->run, &run, sizeof run);
	f->m = mod;
	f->bytes = *(size_t *)symbol_of(mod, name, "__bytes");
	f->threads = *(int *)symbol_of(mod, name, "__threads");
	f->shared = SHARED_UNASKED;
	f->place = dlsym(((module *)mod)->library, "fake_place");
	snprintf(f->name, sizeof f->name, "%s", name);
	f->next = functions;
	functions = f;
	*out = f;
	return SUCCESS;
}

/* ---- streams ---- */
typedef enum kind { WRITE, READ, COPY, FILL, LAUNCH, RECORD, WAIT } kind;
typedef struct event { struct stream *stream; unsigned long long at; } event;
typedef struct work {
	kind kind;
	void *host;              /* WRITE: a copy; READ: where to; LAUNCH: a copy of the arguments */
	address to, from;
	size_t bytes;
	unsigned char byte;
	function *f;
	unsigned blocks, threads;
	size_t shared;
	struct stream *other;    /* WAIT: for its first `at` pieces of work */
	unsigned long long at;
} work;
typedef struct stream { work *work; size_t n, cap; unsigned long long done; bool running; struct stream *next; } stream;

static unsigned turn;

static void run_stream(stream *s, unsigned long long until);

/* Addresses of the device become those of the second mapping. Arguments are words of 64 bits. */
static void run_kernel(const work *w)
{
	unsigned long long *word = w->host;
	for (size_t i = 0; i < w->f->bytes / 8; i++)
		if (is_there(word[i])) word[i] = (uintptr_t)there(word[i], 1);
	if (getenv("FAKE_CUDA_LOG")) {
		fprintf(stderr, "%s: %u blocks of %u, arguments", w->f->name, w->blocks, w->threads);
		for (size_t i = 0; i < w->f->bytes / 8; i++) fprintf(stderr, " %#llx", word[i]);
		fputc('\n', stderr);
	}
	place = w->f->place;
	place->grid = (struct fake_xyz){ w->blocks, 1, 1 };
	kernel_run = w->f->run;
	kernel_args = word;
	nthread = (int)w->threads;
	char *shared = dlsym(w->f->m->library, "tj_shared");
	for (unsigned b = 0; b < w->blocks; b++) {
		place->block.x = (b + turn) % w->blocks; /* no order of blocks may be relied on */
		memset(shared, 0xCD, w->shared + 64);
		run_block(turn * 7 % w->threads);
		for (size_t i = w->shared; i < w->shared + 64; i++)
			if ((unsigned char)shared[i] != 0xCD) die("%s writes beyond its shared memory", w->f->name);
	}
	turn++;
}

static void run_one(const work *w)
{
	switch (w->kind) {
	case WRITE: memcpy(there(w->to, w->bytes), w->host, w->bytes); break;
	case READ: memcpy(w->host, there(w->from, w->bytes), w->bytes); break;
	case COPY: memcpy(there(w->to, w->bytes), there(w->from, w->bytes), w->bytes); break;
	case FILL: memset(there(w->to, w->bytes), w->byte, w->bytes); break;
	case LAUNCH: run_kernel(w); break;
	case WAIT: run_stream(w->other, w->at); break;
	case RECORD: break;
	}
	if (w->kind == WRITE || w->kind == LAUNCH) free(w->host);
}

/* Runs the first `until` pieces of work that the stream ever got. */
static void run_stream(stream *s, unsigned long long until)
{
	while (s->n && s->done < until) {
		const work w = s->work[0];
		memmove(s->work, s->work + 1, --s->n * sizeof w);
		run_one(&w);
		s->done++;
	}
}

static int put(stream *s, work w)
{
	if (!s) return INVALID_HANDLE;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->work = realloc(s->work, s->cap * sizeof w);
	}
	s->work[s->n++] = w;
	return SUCCESS;
}

static void *copy_of(const void *p, size_t bytes) { return memcpy(malloc(bytes + 1), p, bytes); }

/* ---- graphs: kernels in a row, with arguments of their own ---- */
typedef struct kernel_node { void *f; unsigned x, y, z, tx, ty, tz, shared; void **param, **extra, *kernel, *context; } kernel_node; /* as the driver's */
typedef struct graph { struct graph_node { kernel_node k; void *args; } *node[4096]; unsigned n; bool runs; } graph;
typedef struct graph_node graph_node;

static int check_launch(const kernel_node *k);

static int set_node(graph_node *n, const kernel_node *k)
{
	const int refused = check_launch(k);
	if (refused) return refused;
	free(n->args);
	n->k = *k;
	n->args = copy_of(k->param[0], ((const function *)k->f)->bytes);
	return SUCCESS;
}

static int add_node(void **out, graph *g, void *const *after, size_t n, const kernel_node *k)
{
	if (n > 1 || (n == 1) != (g->n > 0) || (n && after[0] != g->node[g->n - 1]) || g->n == 4096) return INVALID_VALUE; /* ours are rows */
	graph_node *x = calloc(1, sizeof *x);
	const int refused = set_node(x, k);
	if (refused) return free(x), refused;
	*out = g->node[g->n++] = x;
	return SUCCESS;
}

/* A graph that can be launched has nodes of its own; the first node has behind it where the copy is. */
static int instantiate(void **out, const graph *g)
{
	graph *x = calloc(1, sizeof *x);
	x->runs = true;
	for (unsigned i = 0; i < g->n; i++) {
		x->node[x->n++] = copy_of(g->node[i], sizeof(graph_node));
		x->node[i]->args = copy_of(g->node[i]->args, ((const function *)g->node[i]->k.f)->bytes);
		x->node[i]->k.extra = (void **)g->node[i]; /* the node of the program by which SetParams finds it */
	}
	*out = x;
	return SUCCESS;
}

static int set_exec_node(graph *x, const void *node, const kernel_node *k)
{
	for (unsigned i = 0; i < x->n; i++)
		if (x->node[i]->k.extra == node) {
			const int refused = set_node(x->node[i], k);
			x->node[i]->k.extra = (void **)(uintptr_t)node;
			return refused;
		}
	return INVALID_VALUE;
}

static int launch_graph(graph *x, stream *s)
{
	if (!x->runs) return INVALID_VALUE;
	for (unsigned i = 0; i < x->n; i++) {
		const kernel_node *k = &x->node[i]->k;
		function *f = k->f;
		put(s, (work){ .kind = LAUNCH, .host = copy_of(x->node[i]->args, f->bytes), .f = f, .blocks = k->x, .threads = k->tx, .shared = k->shared });
	}
	return s ? SUCCESS : INVALID_HANDLE;
}

static int drop_graph(graph *g)
{
	for (unsigned i = 0; i < g->n; i++) free(g->node[i]->args), free(g->node[i]);
	memset(g, 0xDD, sizeof *g);
	free(g);
	return SUCCESS;
}

/* ---- the API ---- */
#define NEED_CONTEXT() do { if (!started) return NOT_INITIALIZED; if (!depth) return INVALID_CONTEXT; } while (0)
#define LOCKED(result) do { pthread_mutex_lock(&lock); const int r_ = (result); pthread_mutex_unlock(&lock); return r_; } while (0)

static int api_init(unsigned flags)
{
	if (flags) return INVALID_VALUE;
	if (!started) map_memory();
	started = true;
	return SUCCESS;
}
static int api_version(int *v) { return *v = 13000, SUCCESS; }
static int api_count(int *n) { return *n = 1, SUCCESS; }
static int api_device(int *d, int ordinal) { return *d = ordinal, ordinal ? INVALID_VALUE : SUCCESS; }
static int api_attribute(int *v, int a, int d)
{
	*v = a == 75 ? ARCH_MAJOR : a == 76 ? ARCH_MINOR : 0;
	return d ? INVALID_VALUE : SUCCESS;
}
static int api_name(int code, const char **name)
{
	*name = code == SUCCESS ? "CUDA_SUCCESS" : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
	return SUCCESS;
}
static int api_retain(void **c, int d) { return *c = &context_mark, d ? INVALID_VALUE : SUCCESS; }
static int api_push(void *c) { return c == &context_mark ? depth++, SUCCESS : INVALID_CONTEXT; }
static int api_pop(void **c) { return depth ? depth--, *c = &context_mark, SUCCESS : INVALID_CONTEXT; }
static int api_current(void **c) { return *c = depth ? &context_mark : NULL, SUCCESS; }
static int api_pointer(void *value, int attribute, address p)
{
	NEED_CONTEXT();
	if (attribute != 9 || !is_there(p)) return INVALID_VALUE; /* 9: the number of its GPU */
	return *(int *)value = 0, SUCCESS;
}
static int api_memory(size_t *unused, size_t *all) { NEED_CONTEXT(); return *all = SPACE, *unused = SPACE - memory.end, SUCCESS; }
static int api_alloc(address *p, size_t n) { NEED_CONTEXT(); LOCKED(mem_alloc(p, n)); }
static int api_free(address p) { NEED_CONTEXT(); LOCKED(mem_free(p)); }
static int api_host_alloc(void **p, size_t n, unsigned flags) { NEED_CONTEXT(); (void)flags; return (*p = calloc(1, n + 8)) ? SUCCESS : OUT_OF_MEMORY; }
static int api_host_free(void *p) { NEED_CONTEXT(); free(p); return SUCCESS; }
static int api_host_pointer(address *p, void *h, unsigned flags) { NEED_CONTEXT(); (void)flags; return *p = (uintptr_t)h, SUCCESS; }
static int api_write(address to, const void *from, size_t n, void *s) { NEED_CONTEXT(); LOCKED(put(s, (work){ .kind = WRITE, .to = to, .host = copy_of(from, n), .bytes = n })); }
static int read_now(void *to, address from, size_t n, stream *s)
{
	if (!s) return INVALID_HANDLE;
	put(s, (work){ .kind = READ, .host = to, .from = from, .bytes = n });
	run_stream(s, ~0ull);
	return SUCCESS;
}
static int api_read(void *to, address from, size_t n, void *s) { NEED_CONTEXT(); LOCKED(read_now(to, from, n, s)); }
static int api_copy(address to, address from, size_t n, void *s) { NEED_CONTEXT(); LOCKED(put(s, (work){ .kind = COPY, .to = to, .from = from, .bytes = n })); }
static int api_fill(address to, unsigned char byte, size_t n, void *s) { NEED_CONTEXT(); LOCKED(put(s, (work){ .kind = FILL, .to = to, .byte = byte, .bytes = n })); }
static int api_stream(void **out, unsigned flags)
{
	NEED_CONTEXT();
	if (flags > 1) return INVALID_VALUE;
	stream *s = calloc(1, sizeof *s);
	*out = s;
	return SUCCESS;
}
static int drop_stream(stream *s)
{
	run_stream(s, ~0ull);
	free(s->work); /* the stream stays: events may name it */
	s->work = NULL;
	s->cap = 0;
	return SUCCESS;
}
static int api_drop_stream(void *s) { NEED_CONTEXT(); LOCKED(drop_stream(s)); }
static int sync_stream(stream *s) { return run_stream(s, ~0ull), SUCCESS; }
static int api_sync(void *s) { NEED_CONTEXT(); if (!s) return INVALID_HANDLE; LOCKED(sync_stream(s)); }
static int api_event(void **out, unsigned flags) { NEED_CONTEXT(); (void)flags; return *out = calloc(1, sizeof(event)), SUCCESS; }
static int api_drop_event(void *e) { NEED_CONTEXT(); free(e); return SUCCESS; }
static int record(event *e, stream *s)
{
	if (!s) return INVALID_HANDLE;
	put(s, (work){ .kind = RECORD });
	*e = (event){ s, s->done + s->n };
	return SUCCESS;
}
static int api_record(void *e, void *s) { NEED_CONTEXT(); LOCKED(record(e, s)); }
static int api_stream_wait(void *s, void *e, unsigned flags)
{
	NEED_CONTEXT();
	(void)flags;
	const event *x = e;
	if (!x->stream) return SUCCESS;
	LOCKED(put(s, (work){ .kind = WAIT, .other = x->stream, .at = x->at }));
}
static int sync_event(const event *e) { return e->stream ? run_stream(e->stream, e->at), SUCCESS : SUCCESS; }
static int api_event_sync(void *e) { NEED_CONTEXT(); LOCKED(sync_event(e)); }
static int api_load(void **m, const void *image) { NEED_CONTEXT(); LOCKED(module_load(m, image)); }
static int api_unload(void *m) { NEED_CONTEXT(); (void)m; return SUCCESS; } /* its functions are never called again */
static int api_function(void **f, void *m, const char *name) { NEED_CONTEXT(); LOCKED(module_function(f, m, name)); }
static int api_function_attribute(void *f, int a, int v)
{
	NEED_CONTEXT();
	if (a != 8 || v > SHARED_MOST) return INVALID_VALUE;
	((function *)f)->shared = (size_t)v;
	return SUCCESS;
}
static int check_launch(const kernel_node *k)
{
	const function *f = k->f;
	if (!k->x || !k->y || !k->z || k->x > 0x7fffffffu || k->y > 65535 || k->z > 65535 || !k->tx || k->ty != 1 || k->tz != 1 || k->tx > MOST_THREADS || k->extra) return INVALID_VALUE;
	if ((int)k->tx > f->threads || f->bytes > 4096) return TOO_MANY_RESOURCES;
	return k->shared > f->shared ? INVALID_VALUE : SUCCESS;
}
static int api_graph(void **g, unsigned flags) { NEED_CONTEXT(); return *g = calloc(1, sizeof(graph)), flags ? INVALID_VALUE : SUCCESS; }
static int api_drop_graph(void *g) { NEED_CONTEXT(); LOCKED(drop_graph(g)); }
static int api_add_node(void **node, void *g, void *const *after, size_t n, const kernel_node *k) { NEED_CONTEXT(); LOCKED(add_node(node, g, after, n, k)); }
static int api_instantiate(void **exec, void *g, unsigned long long flags) { NEED_CONTEXT(); (void)flags; LOCKED(instantiate(exec, g)); }
static int api_set_node(void *exec, void *node, const kernel_node *k) { NEED_CONTEXT(); LOCKED(set_exec_node(exec, node, k)); }
static int api_launch_graph(void *exec, void *s) { NEED_CONTEXT(); LOCKED(launch_graph(exec, s)); }
static int api_launch(void *fn, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void *s, void **param, void **extra)
{
	NEED_CONTEXT();
	function *f = fn;
	const int refused = check_launch(&(kernel_node){ fn, x, y, z, tx, ty, tz, shared, param, extra, NULL, NULL });
	if (refused) return refused;
	LOCKED(put(s, (work){ .kind = LAUNCH, .host = copy_of(param[0], f->bytes), .f = f, .blocks = x * y * z, .threads = tx, .shared = shared }));
}

EXPORT int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, void *result);
int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, void *result)
{
	static const struct { const char *name; void (*fn)(void); } api[] = {
#define X(name, fn) { name, (void (*)(void))fn },
		X("cuInit", api_init) X("cuDriverGetVersion", api_version) X("cuDeviceGetCount", api_count) X("cuDeviceGet", api_device)
		X("cuDeviceGetAttribute", api_attribute) X("cuGetErrorName", api_name) X("cuDevicePrimaryCtxRetain", api_retain)
		X("cuCtxPushCurrent", api_push) X("cuCtxPopCurrent", api_pop) X("cuMemAlloc", api_alloc) X("cuMemFree", api_free)
		X("cuCtxGetCurrent", api_current) X("cuPointerGetAttribute", api_pointer) X("cuMemGetInfo", api_memory)
		X("cuMemHostAlloc", api_host_alloc) X("cuMemFreeHost", api_host_free) X("cuMemHostGetDevicePointer", api_host_pointer)
		X("cuMemcpyHtoDAsync", api_write) X("cuMemcpyDtoHAsync", api_read) X("cuMemcpyDtoDAsync", api_copy) X("cuMemsetD8Async", api_fill)
		X("cuStreamCreate", api_stream) X("cuStreamDestroy", api_drop_stream) X("cuStreamSynchronize", api_sync) X("cuStreamWaitEvent", api_stream_wait)
		X("cuEventCreate", api_event) X("cuEventDestroy", api_drop_event) X("cuEventRecord", api_record) X("cuEventSynchronize", api_event_sync)
		X("cuModuleLoadData", api_load) X("cuModuleUnload", api_unload) X("cuModuleGetFunction", api_function)
		X("cuGraphCreate", api_graph) X("cuGraphDestroy", api_drop_graph) X("cuGraphExecDestroy", api_drop_graph) X("cuGraphAddKernelNode", api_add_node)
		X("cuGraphInstantiateWithFlags", api_instantiate) X("cuGraphExecKernelNodeSetParams", api_set_node) X("cuGraphLaunch", api_launch_graph)
		X("cuFuncSetAttribute", api_function_attribute) X("cuLaunchKernel", api_launch)
#undef X
	};
	(void)version, (void)flags, (void)result;
	for (size_t i = 0; i < sizeof api / sizeof *api; i++)
		if (!strcmp(api[i].name, name)) {
			memcpy(fn, &api[i].fn, sizeof *fn);
			return SUCCESS;
		}
	return NOT_FOUND;
}
