/* team: the one pool of threads. A region cuts [0, n) into a share for each thread, and each share into pieces. Its caller
 * works like the others, and whoever is done takes pieces of the others' shares. So a region ends without the threads that
 * have not begun: its caller waits only for those that are inside a piece.
 *
 * A seat per thread tells where its thread is:
 *
 *   IDLE    -> CALLED   a region begins                      (its caller)
 *   CALLED  -> BUSY     the thread takes part                (the thread)
 *   CALLED  -> IDLE     the region is over without it        (its caller)
 *   BUSY    -> AWAITED  its caller sleeps until it is done   (its caller)
 *   BUSY or AWAITED -> IDLE   it found no more pieces        (the thread)
 *   IDLE    -> ASLEEP   no region came for a while           (the thread)
 *   ASLEEP  -> CALLED   a region begins                      (its caller, who rings the bell)
 *   IDLE or ASLEEP -> ENDED   the library is unloaded
 */
#include "runtime/exec.h"
#include "runtime/log.h"

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
#define PIECES 4              /* per thread, at least: the others can take over when one loses its core */
#define PIECES_MOST 32
#define PIECE_NS 20e3         /* aim for pieces of this length in long regions: row sums of 4096 x 4096 take 3 % less time in 64 pieces than in 8 */

/* Waiting, in nanoseconds. */
#define SPIN_NS 200e3         /* a thread without a region looks for the next one so long, then sleeps */
#define WAKE_NS 150e3         /* of work, in regions with no longer gap than SPIN_NS: less is not worth waking those that sleep */
#define AWAIT_NS 200e3        /* a caller looks so long for a thread inside a piece, then sleeps: being woken takes up to 50 us */
#define LATE_NS 100e3         /* a wait longer than this, and longer than the rest of the region, means that the thread lost its core */
#define LOST_NS 20e3          /* a gap this long between two looks at the clock means that the spinning thread was descheduled */
#define REST_MOST_NS 100e6    /* longest rest */

enum { IDLE, CALLED, BUSY, AWAITED, ASLEEP, ENDED };

typedef struct region {
	void (*f)(void *env, int thread, int64_t begin, int64_t end);
	void *env;
	int64_t n, share, piece; /* units: of all, of a share, of a piece */
	int size;                /* shares */
} region;

typedef struct seat { /* all a thread needs to begin is one line of the cache */
	_Alignas(64) atomic_uint state;
	atomic_int taken;  /* pieces of its share, by whomever */
	atomic_int cpu;    /* on which the caller of the last region was */
	region r;
} seat;

struct rt_team {
	int threads;             /* wanted, the caller included; 0: not said yet */
	int workers;             /* that there are, in seats 1 to workers; -1: not made yet */
	atomic_bool taken;       /* by the caller of a region */
	atomic_uint bell;        /* counts regions for which a thread was woken; what sleeping threads wait on */
	atomic_llong rest_until; /* ns of the clock; 0: the team works */
	double rest, last_late;  /* ns: of the last rest, and the time at its start */
	double last, burst;      /* ns: when the last region began, and the work of those that came close upon each other */
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

/* A thread's own pieces first, the same at every call of a kernel: what it left in its cache is there. Then pieces that
 * other threads have not begun. */
static void work(const region *r, int thread)
{
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
}

/* ---- a thread of the team ---- */
/* Does it keep the caller, or another program, from running? */
static bool in_the_way(const seat *s, double since_last_look)
{
	return since_last_look > LOST_NS || sched_getcpu() == atomic_load_explicit(&s->cpu, memory_order_relaxed);
}

/* The state, when it is no longer IDLE or the thread has looked for long enough. */
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
/* With a stack of ours, or, when thread-local variables of the program do not fit it, of the system's. */
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

/* No handler of the user's runs on them, but for what a thread does itself. */
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
	if (e) rt_warn(log, "the team has %d of %d threads: %s", t->workers + 1, t->threads, strerror(e));
}

/* The child of a fork() has no threads but the one that forked: its team is made anew. */
static void in_child(void)
{
	for (int i = 1; i < team.threads; i++) atomic_store(&team.seat[i].state, IDLE); /* another thread may have been making them */
	team.workers = -1;
	atomic_store(&team.rest_until, 0);
	atomic_store(&team.taken, false);
}

static void start(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* When the library is unloaded, at the end of the process at the latest. If a region runs, the process ends with its threads. */
__attribute__((destructor)) static void end(void)
{
	if (atomic_exchange(&team.taken, true)) return;
	for (int i = 1; i <= team.workers; i++) atomic_store(&team.seat[i].state, ENDED);
	atomic_fetch_add(&team.bell, 1);
	wake(&team.bell, INT_MAX);
	for (int i = 1; i <= team.workers; i++) pthread_join(team.thread[i], NULL);
	team.workers = 0;
}

rt_team *rt_team_get(int threads)
{
	pthread_once(&once, start);
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
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
/* Does the thread have to be woken? Without waking, one that sleeps is not called. */
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

/* Waking costs the caller up to 40 us: a long region is worth it, or several that come close upon each other. */
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

/* Until the thread is outside of the region: how long that took, when it was not at once. */
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

/* On a machine that is busy elsewhere, serial is faster than waiting for a thread that lost its core inside a piece. The team
 * rests as long as was lost by that, and twice as long as the last time when that was not long ago. */
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
	if (waited > LATE_NS && waited > now_ns() - start - waited) rest(t, waited);
}

/* The right to run more than one thread; false: a team of one, inside a region, or taken. */
static bool take(rt_team *t)
{
	return t && t->threads > 1 && !resting(t) && !atomic_exchange_explicit(&t->taken, true, memory_order_acquire);
}

void rt_team_run(const rt_run *on, int64_t n, int64_t grain, double total_ns,
                 void (*f)(void *env, int thread, int64_t begin, int64_t end), void *env)
{
	rt_team *t = on->team;
	if (n <= 0) return;
	if (n < 2 || total_ns < RT_SERIAL_NS || !take(t)) {
		f(env, 0, 0, n); /* the caller has set MXCSR */
		return;
	}
	if (t->workers < 0) make_threads(t, on->log);
	region r = { .f = f, .env = env, .n = n, .size = n <= t->workers ? (int)n : t->workers + 1 };
	if (r.size > 1) run(t, &r, total_ns, grain);
	else f(env, 0, 0, n);
	atomic_store_explicit(&t->taken, false, memory_order_release);
}
