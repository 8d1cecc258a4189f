/* team: the one OpenMP team. A lock around it: who cannot take it runs serial, with the same bits. After fork() the
 * child is serial, because its copy of the team has no threads. */
#include "runtime/exec.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#define THREADS_MOST 1024
#define PIECES 4              /* per thread, at least, so that one that lost its core does not hold up the rest ... */
#define PIECES_MOST 32
#define PIECE_NS 20e3         /* ... and more of long regions: row sums of 4096 x 4096 take 3 % less time in 64 pieces than in 8 */
#define LATE_NS 300e3         /* a short region this much later than expected waited for a core that was busy elsewhere */
#define SHORT_NS 1e6
#define LATE_RUN 3            /* after so many in a row ... */
#define REST 64               /* ... so many regions run serial before the team is tried again */

struct rt_team {
	int threads;
	atomic_bool forked; /* this process is a child of the one that made the team */
	pthread_mutex_t lock;
	atomic_int late, rest;
	struct { _Alignas(64) atomic_int taken; } share[THREADS_MOST]; /* of the running region: pieces taken of each thread's */
};

static rt_team team;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forked_child(void)
{
	atomic_store(&team.forked, true);
}

static void start(void)
{
	pthread_mutex_init(&team.lock, NULL);
	pthread_atfork(NULL, NULL, forked_child);
}

rt_team *rt_team_get(int threads)
{
	pthread_once(&once, start);
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
	rt_lock(&first);
	if (threads < 1) threads = omp_get_max_threads();
	if (!team.threads) team.threads = threads < THREADS_MOST ? threads : THREADS_MOST;
	rt_unlock(&first);
	return &team;
}

int rt_team_size(const rt_team *t)
{
	return !t || atomic_load_explicit(&((rt_team *)(uintptr_t)t)->forked, memory_order_relaxed) ? 1
	                                                                                            : t->threads;
}

/* The right to run more than one thread; false: a team of one, a forked child, inside a region, or taken. */
static bool take(rt_team *t)
{
	if (rt_team_size(t) < 2 || omp_in_parallel()) return false;
	return pthread_mutex_trylock(&t->lock) == 0;
}

static void give(rt_team *t)
{
	pthread_mutex_unlock(&t->lock);
}

typedef struct region {
	void (*f)(void *env, int thread, int64_t begin, int64_t end);
	void *env;
	int64_t n, share, piece; /* a thread's own units, and how many of them at a time */
	int size;
} region;

static int64_t piece_of(int64_t share, int64_t grain, double ns)
{
	int64_t coarse = (share + PIECES - 1) / PIECES;
	int64_t fine = (int64_t)ceil((double)share / fmin(fmax(ns / PIECE_NS, PIECES), PIECES_MOST));
	return fine >= grain ? fine : grain < coarse ? grain : coarse;
}

/* A thread's own pieces first, the same at every call of a kernel: what it left in its cache is there. Then those of
 * whoever is late. */
static void work(region *r, int thread)
{
	unsigned modes = rt_fp_enter();
	for (int k = 0; k < r->size; k++) {
		int owner = (thread + k) % r->size;
		int64_t b = owner * r->share, end = b + r->share < r->n ? b + r->share : r->n;
		for (;;) {
			int64_t i = b + atomic_fetch_add_explicit(&team.share[owner].taken, 1, memory_order_relaxed) * r->piece;
			if (i >= end) break;
			r->f(r->env, thread, i, i + r->piece < end ? i + r->piece : end);
		}
	}
	rt_fp_leave(modes);
}

/* On a machine that is busy elsewhere, serial is faster than waiting for a thread that has no core; the bits agree. */
static bool resting(rt_team *t)
{
	int left = t ? atomic_load_explicit(&t->rest, memory_order_relaxed) : 0;
	if (left > 0) atomic_store_explicit(&t->rest, left - 1, memory_order_relaxed);
	return left > 0;
}

static void note_time(rt_team *t, double expected_ns, double ns)
{
	if (expected_ns > SHORT_NS) return;
	int late = ns > expected_ns + LATE_NS ? atomic_load_explicit(&t->late, memory_order_relaxed) + 1 : 0;
	if (late >= LATE_RUN) {
		atomic_store_explicit(&t->rest, REST, memory_order_relaxed);
		late = LATE_RUN - 1; /* the next late one is enough */
	}
	atomic_store_explicit(&t->late, late, memory_order_relaxed);
}

void rt_team_run(rt_team *t, int64_t n, int64_t grain, double total_ns,
                 void (*f)(void *env, int thread, int64_t begin, int64_t end), void *env)
{
	if (n <= 0) return;
	if (n < 2 || total_ns < RT_SERIAL_NS || resting(t) || !take(t)) {
		f(env, 0, 0, n); /* the caller has set MXCSR */
		return;
	}
	int size = n < t->threads ? (int)n : t->threads;
	int64_t share = (n + size - 1) / size;
	region r = { f, env, n, share, piece_of(share, grain, total_ns / size), size };
	for (int i = 0; i < size; i++) atomic_store_explicit(&t->share[i].taken, 0, memory_order_relaxed);
	double start = rt_now_ms();
#pragma omp parallel num_threads(size)
	work(&r, omp_get_thread_num());
	note_time(t, total_ns, (rt_now_ms() - start) * 1e6);
	give(t);
}
