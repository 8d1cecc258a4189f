/* SPDX-License-Identifier: MIT */
/* team: the one pool of threads. A region is one rt_team_run(): it cuts [0, n) into a share for each thread, and each share
 * into pieces. The caller works like the other threads. A thread that has finished its share takes pieces of other shares. So
 * a region can end before some threads have begun: its caller waits only for threads that are inside a piece.
 *
 * Each thread has a seat with its state; in parentheses, the thread that changes it:
 *
 *   IDLE    -> CALLED   a region begins                           (the caller)
 *   CALLED  -> BUSY     the thread takes part                     (the thread)
 *   CALLED  -> IDLE     the region ended without it               (the caller)
 *   BUSY    -> AWAITED  the caller sleeps until the thread is done (the caller)
 *   BUSY or AWAITED -> IDLE   there are no more pieces            (the thread)
 *   IDLE    -> ASLEEP   no region began for SPIN_NS               (the thread)
 *   ASLEEP  -> CALLED   a region begins, the bell wakes the thread (the caller)
 *   IDLE or ASLEEP -> ENDED   the library is unloaded
 */
#include "runtime/exec.h"
#include "runtime/log.h"
#include "runtime/profile.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MOST 1024
#define STACK_BYTES ((size_t)1 << 20) /* kernels need little, oneDNN some hundred KiB */
#define PIECES 4              /* the least number of pieces per thread: others can take over when a thread loses its core */
#define PIECES_MOST 32
/* wanted time of a piece in long regions: row sums of 4096 x 4096 take 3 % less time in 64 pieces than in 8 */
#define PIECE_NS 20e3

/* Waiting, in nanoseconds. */
#define SPIN_NS 200e3         /* an idle thread spins this long for the next region, then sleeps */
#define WAKE_NS 150e3         /* sleeping threads are woken for at least this much work, in regions less than SPIN_NS apart */
#define AWAIT_NS 200e3        /* a caller spins this long for a thread inside a piece, then sleeps: waking it takes up to 50 us */
#define LATE_NS 100e3         /* a wait longer than this, and than the rest of the region, means that a thread lost its core */
#define LOST_NS 20e3          /* a gap this long between two looks at the clock means that the spinning thread lost its core */
#define REST_MOST_NS 100e6    /* the longest time that the team rests */

enum { IDLE, CALLED, BUSY, AWAITED, ASLEEP, ENDED };

typedef struct region {
	void (*f)(void *env, int thread, int64_t begin, int64_t end);
	void *env;
	int64_t n, share, piece; /* units: in all, of a share, of a piece */
	int size;                /* number of shares */
	bool watched;            /* each thread tells team.watcher how long it worked */
} region;

typedef struct seat { /* one cache line: all that a thread needs to begin */
	_Alignas(64) atomic_uint state;
	atomic_int taken;  /* pieces of its share that threads have taken */
	atomic_int cpu;    /* the CPU on which the caller of the last region ran */
	region r;
} seat;

struct rt_team {
	int threads;             /* wanted number, the caller included; 0: not set yet */
	int workers;             /* number of threads made, in seats 1 to workers; -1: none made yet */
	atomic_bool taken;       /* a caller has the team */
	atomic_uint bell;        /* futex of sleeping threads; counts the times that they were woken */
	atomic_llong rest_until; /* time in ns until which regions run serially; 0: the team works */
	double rest, last_late;  /* ns: length of the last rest, and the time when it began */
	rt_recorder *watcher;    /* of the region that runs, if it is watched */
	double last, burst;      /* ns: time when the last region began; work of the latest regions, each less than SPIN_NS after the one before */
	seat seat[THREADS_MOST]; /* seat 0 is the caller's */
	pthread_t thread[THREADS_MOST];
};

static rt_team team = { .workers = -1 };
static pthread_once_t once = PTHREAD_ONCE_INIT;

static double now_ns(void)
{
	return rt_now_ms() * 1e6;
}

static void sleep_while(atomic_uint *word, unsigned value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, int most)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

/* ---- work ---- */
static int64_t piece_of(int64_t share, int64_t grain, double ns)
{
	int64_t coarse = (share + PIECES - 1) / PIECES;
	int64_t fine = (int64_t)ceil((double)share / fmin(fmax(ns / PIECE_NS, PIECES), PIECES_MOST));
	return fine >= grain ? fine : grain < coarse ? grain : coarse;
}

/* A thread takes the pieces of its own share first: these are the same at every call of a kernel, so their data may be in its
 * cache. Then it takes pieces of other shares. */
static void work(const region *r, int thread)
{
	const int64_t start = RT_UNLIKELY(r->watched) ? rt_now_ns() : 0;
	unsigned modes = rt_fp_enter();
	for (int k = 0; k < r->size; k++) {
		int owner = (thread + k) % r->size;
		int64_t b = owner * r->share, end = b + r->share < r->n ? b + r->share : r->n;
		for (;;) {
			int64_t i = b + atomic_fetch_add_explicit(&team.seat[owner].taken, 1, memory_order_relaxed) * r->piece;
			if (i >= end) break;
			r->f(r->env, thread, i, i + r->piece < end ? i + r->piece : end);
		}
	}
	rt_fp_leave(modes);
	if (RT_UNLIKELY(r->watched) && thread) rt_team_worked(team.watcher, start, rt_now_ns()); /* the caller tells of the whole step */
}

/* ---- a thread of the team ---- */
/* Does this spinning thread use a core that the caller or another program needs? */
static bool in_the_way(const seat *s, double since_last_look)
{
	return since_last_look > LOST_NS || sched_getcpu() == atomic_load_explicit(&s->cpu, memory_order_relaxed);
}

/* Spins while the state is IDLE, for SPIN_NS at most; returns the state. */
static unsigned look(seat *s)
{
	double start = now_ns(), last = start;
	for (;;) {
		for (int i = 0; i < 32; i++) {
			unsigned state = atomic_load_explicit(&s->state, memory_order_relaxed);
			if (state != IDLE) return state;
			__builtin_ia32_pause();
		}
		double now = now_ns();
		if (now - start > SPIN_NS || in_the_way(s, now - last)) return IDLE;
		last = now;
	}
}

static void sleep_till_called(seat *s)
{
	unsigned idle = IDLE, bell = atomic_load(&team.bell);
	if (!atomic_compare_exchange_strong(&s->state, &idle, ASLEEP)) return;
	while (atomic_load(&s->state) == ASLEEP) {
		sleep_while(&team.bell, bell);
		bell = atomic_load(&team.bell);
	}
}

static void *serve(void *p)
{
	seat *s = p;
	prctl(PR_SET_NAME, "tj-team");
	for (;;) {
		unsigned state = look(s);
		if (state == ENDED) return NULL;
		if (state == IDLE) sleep_till_called(s);
		if (state != CALLED || !atomic_compare_exchange_strong(&s->state, &state, BUSY)) continue;
		work(&s->r, (int)(s - team.seat));
		if (atomic_exchange(&s->state, IDLE) == AWAITED) wake(&s->state, 1);
	}
}

/* ---- beginning and end ---- */
/* With a stack of STACK_BYTES; with the system's default when the program's thread-local variables do not fit that. */
static int create(pthread_t *t, seat *s)
{
	pthread_attr_t a;
	int e = pthread_attr_init(&a);
	if (e) return e;
	e = pthread_attr_setstacksize(&a, STACK_BYTES);
	if (!e) e = pthread_create(t, &a, serve, s);
	pthread_attr_destroy(&a);
	return e == EINVAL ? pthread_create(t, NULL, serve, s) : e;
}

/* New threads inherit this mask: no signal handler of the user runs on them, except for faults of the thread itself. */
static void block_signals(sigset_t *before)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t most;
	sigfillset(&most);
	for (size_t i = 0; i < RT_COUNT(own); i++) sigdelset(&most, own[i]);
	pthread_sigmask(SIG_SETMASK, &most, before);
}

static void make_threads(rt_team *t, const rt_log_to *log)
{
	sigset_t before;
	int e = 0;
	block_signals(&before);
	for (t->workers = 0; t->workers < t->threads - 1; t->workers++)
		if ((e = create(&t->thread[t->workers + 1], &t->seat[t->workers + 1]))) break;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) rt_warn(log, "the team has only %d of %d threads: %s", t->workers + 1, t->threads, strerror(e));
}

/* The child of a fork() has only the thread that forked: its first region makes new threads. */
static void in_child(void)
{
	for (int i = 1; i < team.threads; i++)
		atomic_store(&team.seat[i].state, IDLE); /* all seats: another thread may have been creating threads */
	team.workers = -1;
	atomic_store(&team.rest_until, 0);
	atomic_store(&team.taken, false);
}

static void start(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* Ends the threads when the library is unloaded or the process exits. If a region still runs, they end with the process. */
__attribute__((destructor)) static void end(void)
{
	if (atomic_exchange(&team.taken, true)) return;
	for (int i = 1; i <= team.workers; i++) atomic_store(&team.seat[i].state, ENDED);
	atomic_fetch_add(&team.bell, 1);
	wake(&team.bell, INT_MAX);
	for (int i = 1; i <= team.workers; i++) pthread_join(team.thread[i], NULL);
	team.workers = 0;
}

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER; /* of the number of threads */

int rt_team_threads(void)
{
	rt_lock(&first);
	const int n = team.threads ? team.threads : rt_cores("/sys/fs/cgroup");
	rt_unlock(&first);
	return n;
}

rt_team *rt_team_get(int threads)
{
	pthread_once(&once, start);
	rt_lock(&first);
	if (!team.threads) {
		if (threads < 1) threads = rt_cores("/sys/fs/cgroup");
		team.threads = threads < THREADS_MOST ? threads : THREADS_MOST;
	}
	rt_unlock(&first);
	return &team;
}

int rt_team_size(const rt_team *t)
{
	return t ? t->threads : 1;
}

/* ---- a region ---- */
/* Calls a thread to a region. True: it sleeps and must be woken. Without `waking`, sleeping threads are not called. */
static bool call_to(seat *s, bool waking)
{
	unsigned state = IDLE;
	if (waking) return atomic_exchange(&s->state, CALLED) == ASLEEP;
	atomic_compare_exchange_strong(&s->state, &state, CALLED);
	return false;
}

static void open_region(rt_team *t, const region *r, bool waking)
{
	bool asleep = false;
	int cpu = sched_getcpu();
	atomic_store_explicit(&t->seat[0].taken, 0, memory_order_relaxed);
	for (int i = 1; i < r->size; i++) {
		seat *s = &t->seat[i];
		atomic_store_explicit(&s->taken, 0, memory_order_relaxed);
		atomic_store_explicit(&s->cpu, cpu, memory_order_relaxed);
		s->r = *r;
		asleep |= call_to(s, waking);
	}
	if (!asleep) return;
	atomic_fetch_add(&t->bell, 1);
	wake(&t->bell, INT_MAX);
}

/* Waking costs the caller up to 40 us. It pays for a long region, or for several regions shortly after each other. */
static bool worth_waking(rt_team *t, double now, double total_ns)
{
	t->burst = now - t->last < SPIN_NS ? t->burst + total_ns : total_ns;
	t->last = now;
	return t->burst >= WAKE_NS;
}

static bool inside(unsigned state)
{
	return state == BUSY || state == AWAITED;
}

/* Waits until the thread is outside of the region; returns the ns waited. */
static double close_seat(seat *s)
{
	unsigned state = atomic_load(&s->state);
	if (state == CALLED) atomic_compare_exchange_strong(&s->state, &state, IDLE); /* fails when it begins now */
	if (!inside(state)) return 0;
	double start = now_ns(), now = start;
	while (inside(state = atomic_load(&s->state))) {
		if (now - start < AWAIT_NS) __builtin_ia32_pause();
		else if (state == AWAITED || atomic_compare_exchange_strong(&s->state, &state, AWAITED)) sleep_while(&s->state, AWAITED);
		now = now_ns();
	}
	return now - start;
}

/* A machine may be busy with other programs: then serial work is faster than waiting for a thread that lost its core inside a
 * piece. So the team rests (regions run serially) for as long as was lost; if it rested shortly before, for twice that time. */
static void rest(rt_team *t, double lost)
{
	double now = now_ns();
	t->rest = now - t->last_late < 4 * t->rest ? fmin(2 * t->rest, REST_MOST_NS) : fmin(lost, REST_MOST_NS);
	t->last_late = now;
	atomic_store_explicit(&t->rest_until, (long long)(now + t->rest), memory_order_relaxed);
}

static bool resting(rt_team *t)
{
	long long until = atomic_load_explicit(&t->rest_until, memory_order_relaxed);
	if (RT_LIKELY(!until)) return false;
	if (now_ns() < (double)until) return true;
	atomic_store_explicit(&t->rest_until, 0, memory_order_relaxed);
	return false;
}

static void run(rt_team *t, region *r, double total_ns, int64_t grain)
{
	double start = now_ns(), waited = 0;
	r->share = (r->n + r->size - 1) / r->size;
	r->piece = piece_of(r->share, grain, total_ns / r->size);
	open_region(t, r, worth_waking(t, start, total_ns));
	work(r, 0);
	for (int i = 1; i < r->size; i++) waited += close_seat(&t->seat[i]);
	if (RT_UNLIKELY(r->watched) && waited > 0) {
		const int64_t end = rt_now_ns();
		rt_phase_note(t->watcher, RT_TEAM, end - (int64_t)waited, end, false);
	}
	if (waited > LATE_NS && waited > now_ns() - start - waited) rest(t, waited);
}

/* Takes the team for a region. False: it has one thread, rests, or is taken, for instance by the region that this one is in. */
static bool take(rt_team *t)
{
	return t && t->threads > 1 && !resting(t) && !atomic_exchange_explicit(&t->taken, true, memory_order_acquire);
}

void rt_team_run(const rt_run *on, int64_t n, int64_t grain, double total_ns,
                 void (*f)(void *env, int thread, int64_t begin, int64_t end), void *env)
{
	rt_team *t = on->team;
	if (n <= 0) return;
	if (n < 2 || total_ns < RT_SERIAL_NS || on->threads == 1 || !take(t)) {
		f(env, 0, 0, n); /* the caller has set MXCSR */
		return;
	}
	if (t->workers < 0) make_threads(t, on->log);
	const int most = on->threads && on->threads <= t->workers ? on->threads : t->workers + 1;
	region r = { .f = f, .env = env, .n = n, .size = n < most ? (int)n : most };
	if (RT_UNLIKELY(on->profile)) r.watched = (t->watcher = rt_pool_recorder(on->pool)) != NULL;
	if (r.size > 1) run(t, &r, total_ns, grain);
	else f(env, 0, 0, n);
	atomic_store_explicit(&t->taken, false, memory_order_release);
}
