/* SPDX-License-Identifier: MIT */
/* The team: runs every unit exactly once, in pieces of at least the grain if there are enough units; also with threads that
 * cannot be created, start late or lose their core, and during forks. A test that needs its own team, or could hang, runs in
 * its own process. */
#include "lower/lower.h"
#include "runtime/exec.h"
#include "runtime/log.h"
#include "test/skip.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 100003, MANY = 1 << 20, SECONDS = 30, NAP_US = 200 };

/* ---- what creating a thread does ---- */
typedef int create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *env);
static atomic_int created, creations_left = MANY;
static bool refuse_attributes;
static atomic_bool hold; /* new threads do not begin */
static atomic_bool fork_then; /* when the next thread is created and asleep */
static pid_t forked = -1;

typedef struct beginning { void *(*f)(void *); void *env; } beginning;

static void *begin_late(void *p)
{
	beginning b = *(beginning *)p;
	free(p);
	while (atomic_load(&hold)) usleep(NAP_US);
	return b.f(b.env);
}

/* In front of the C library's. */
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *env)
{
	create *real = NULL;
	void *found = dlsym(RTLD_NEXT, "pthread_create");
	memcpy(&real, &found, sizeof found);
	if (refuse_attributes && a) return EINVAL;
	if (atomic_fetch_sub(&creations_left, 1) <= 0) return EAGAIN;
	atomic_fetch_add(&created, 1);
	if (atomic_exchange(&fork_then, false)) {
		int e = real(t, a, f, env);
		usleep(20000);
		forked = fork();
		return e;
	}
	if (!atomic_load(&hold)) return real(t, a, f, env);
	beginning *b = malloc(sizeof *b);
	*b = (beginning){ f, env };
	return real(t, a, begin_late, b);
}

/* ---- a process for a test ---- */
#define in_child(test) test_in_child(test, #test)
static void test_in_child(bool (*test)(void), const char *name)
{
	int status = -1;
	pid_t pid = fork();
	if (!pid) {
		alarm(SECONDS);
		exit(!test()); /* the team ends, too */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("%s: %s %d", name, WIFSIGNALED(status) ? "signal" : "exit",
		         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static char warning[512];
static int warnings;
static void warn(void *self, const char *line)
{
	(void)self;
	warnings++;
	snprintf(warning, sizeof warning, "%s", line);
}
static const rt_log_to to_warn = { .to = warn };

static rt_run with_team(int threads)
{
	return (rt_run){ .team = rt_team_get(threads), .log = &to_warn };
}

/* ---- every unit once ---- */
typedef struct count {
	atomic_int unit[MOST], pieces, short_pieces, wrong_pieces; /* no assertion leaves a thread of the team */
	atomic_int inside[8];  /* by number of the thread */
	int64_t n, grain;
	int nap;               /* us, of some pieces */
	int most;              /* threads; 0: any number */
} count;

static void add(void *env, int thread, int64_t begin, int64_t end)
{
	count *c = env;
	atomic_fetch_add(&c->pieces, 1);
	bool alone = atomic_fetch_add(&c->inside[thread & 7], 1) == 0;
	if (!alone || (c->most && thread >= c->most) || begin < 0 || begin >= end || end > c->n) {
		atomic_fetch_add(&c->wrong_pieces, 1);
		return;
	}
	if (end - begin < c->grain) atomic_fetch_add(&c->short_pieces, 1);
	for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->unit[i], 1);
	if (c->nap && (begin ^ c->n) % 3 == thread) usleep((useconds_t)((begin * 7 + c->n) % c->nap));
	atomic_fetch_sub(&c->inside[thread & 7], 1);
}

static bool sum_is_right(const count *c)
{
	bool ok = c->pieces >= 1 && !c->wrong_pieces;
	for (int64_t k = 0; k < MOST; k++) ok &= c->unit[k] == (k < c->n);
	return ok;
}

static bool run_once(const rt_run *r, int64_t n, int nap)
{
	count *c = calloc(1, sizeof *c);
	if (!c) return false;
	c->n = n, c->nap = nap;
	rt_team_run(r, n, 1, 1e6, add, c);
	bool ok = sum_is_right(c);
	free(c);
	return ok;
}

static void each_once(void **state)
{
	static const int64_t ns[] = { 1, 2, 3, 4, 7, 65, 1000, MOST }, grains[] = { 1, 16, 128, 1 << 20 };
	static const double times[] = { 0, 1e4, 1e6, 1e9 };
	rt_run r = with_team(3);
	(void)state;
	for (size_t i = 0; i < RT_COUNT(ns) * RT_COUNT(grains) * RT_COUNT(times); i++) {
		count *c = calloc(1, sizeof *c);
		assert_non_null(c);
		c->n = ns[i % RT_COUNT(ns)], c->grain = grains[i / RT_COUNT(ns) % RT_COUNT(grains)];
		rt_team_run(&r, c->n, c->grain, times[i / RT_COUNT(ns) / RT_COUNT(grains)], add, c);
		assert_true(sum_is_right(c));
		int size = c->n < rt_team_size(r.team) ? (int)c->n : rt_team_size(r.team);
		if (c->grain * 4 * size <= c->n) assert_in_range(c->short_pieces, 0, size); /* the last of each thread's */
		free(c);
	}
}

/* At most so many threads as the run allows. */
static void fewer(void **state)
{
	rt_run r = with_team(3);
	(void)state;
	for (r.threads = 1; r.threads <= 5; r.threads++)
		for (int i = 0; i < 50; i++) {
			count *c = calloc(1, sizeof *c);
			assert_non_null(c);
			c->n = 1000;
			c->most = r.threads;
			rt_team_run(&r, c->n, 1, 1e6, add, c);
			assert_true(sum_is_right(c));
			free(c);
		}
}

/* Several at a time, and regions inside regions, with threads that sleep now and then. */
static void *run_many(void *p)
{
	rt_run r = with_team(4);
	intptr_t ok = 1;
	for (int i = 0; i < 40; i++) ok &= run_once(&r, 1 + (i * 37 + (int)(intptr_t)p * 11) % 300, i % 4 ? 300 : 0);
	return (void *)ok;
}

static bool from_many_threads(void)
{
	pthread_t t[8];
	void *ok;
	bool all = true;
	for (intptr_t i = 0; i < 8; i++) all &= !pthread_create(&t[i], NULL, run_many, (void *)i);
	for (int i = 0; i < 8; i++) all &= !pthread_join(t[i], &ok) && ok;
	return all;
}

static void add_inside(void *env, int thread, int64_t begin, int64_t end)
{
	rt_run r = with_team(3);
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		if (run_once(&r, 50, 0)) atomic_fetch_add((atomic_int *)env, 1);
}

static bool regions_inside(void)
{
	rt_run r = with_team(3);
	atomic_int right = 0;
	for (int i = 0; i < 20; i++) rt_team_run(&r, 12, 1, 1e6, add_inside, &right);
	return right == 20 * 12;
}

static void many_callers(void **state)
{
	(void)state;
	in_child(from_many_threads);
	in_child(regions_inside);
}

/* ---- threads that there are ---- */
typedef struct meeting {
	atomic_int came, modes_wrong, signals_open, names_wrong;
} meeting;

/* Does not end before another thread is in the region, too. A region that runs serially because the team rests does not count. */
static void meet(void *env, int thread, int64_t begin, int64_t end)
{
	meeting *m = env;
	if (end - begin > 1) return;
	atomic_fetch_add(&m->came, 1);
	while (atomic_load(&m->came) < 2) usleep(NAP_US);
	if (!rt_fp_default(__builtin_ia32_stmxcsr())) atomic_fetch_add(&m->modes_wrong, 1);
	if (!thread) return;
	sigset_t blocked;
	char name[16] = "";
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	prctl(PR_GET_NAME, name);
	for (int i = 1; i < 32; i++)
		if (!sigismember(&blocked, i) && i != SIGKILL && i != SIGSTOP &&
		    !strchr((char[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, 0 }, i))
			atomic_fetch_add(&m->signals_open, 1);
	if (strcmp(name, "tj-team")) atomic_fetch_add(&m->names_wrong, 1);
}

static bool two_meet(void)
{
	rt_run r = with_team(2);
	meeting m = { 0 };
	unsigned modes = rt_fp_enter();
	while (!m.came) rt_team_run(&r, 2, 1, 1e6, meet, &m);
	rt_fp_leave(modes);
	return m.came == 2 && !m.modes_wrong && !m.signals_open && !m.names_wrong;
}

static bool odd_creator(void)
{
	sigset_t none, mine;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	__builtin_ia32_ldmxcsr(0x9fc0); /* flushes */
	bool ok = two_meet() && two_meet();
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	return ok && !sigismember(&mine, SIGUSR1) && !warnings;
}

static bool default_stacks(void)
{
	refuse_attributes = true;
	return two_meet() && !warnings;
}

static bool no_threads(void)
{
	rt_run r = with_team(3);
	bool ok = true;
	creations_left = 0;
	for (int i = 0; i < 3; i++) ok &= run_once(&r, 1000, 0);
	return ok && warnings == 1 && strstr(warning, "the team has only 1 of 3 threads: ") && strstr(warning, strerror(EAGAIN)) &&
	       rt_team_size(r.team) == 3;
}

static bool some_threads(void)
{
	rt_run r = with_team(5);
	bool ok = true;
	creations_left = 1;
	for (int i = 0; i < 50; i++) ok &= run_once(&r, 1000, 10);
	return ok && two_meet() && warnings == 1 && strstr(warning, "the team has only 2 of 5 threads: ");
}

static bool one_is_alone(void)
{
	rt_run r = with_team(1);
	return run_once(&r, 1000, 0) && created == 0 && rt_team_size(r.team) == 1;
}

static bool lazy(void)
{
	rt_run r = with_team(3);
	if (created) return false;
	bool ok = run_once(&r, 1000, 0) && run_once(&r, 1000, 0);
	return ok && created == 2;
}

static void creation(void **state)
{
	(void)state;
	in_child(odd_creator);
	in_child(default_stacks);
	in_child(no_threads);
	in_child(some_threads);
	in_child(one_is_alone);
	in_child(lazy);
}

/* ---- threads that come late ---- */
static bool ends_without(void)
{
	rt_run r = with_team(3);
	bool ok = true;
	atomic_store(&hold, true);
	for (int i = 0; i < 200; i++) ok &= run_once(&r, 1 + i, 0);
	atomic_store(&hold, false);
	return ok && two_meet() && run_once(&r, 1000, 10);
}

/* Between regions threads fall asleep. When some are late, the team rests for a while. */
static bool sleeps_between(void)
{
	rt_run r = with_team(3);
	bool ok = true;
	for (int i = 0; i < 60; i++) {
		ok &= run_once(&r, 30, i % 3 ? 0 : 2000);
		usleep((useconds_t)(i % 7 * 100));
	}
	return ok && two_meet();
}

static bool beside_spinners(void)
{
	enum { SPINNERS = 4 };
	pid_t pid[SPINNERS];
	rt_run r = with_team(2);
	bool ok = true;
	for (int i = 0; i < SPINNERS; i++)
		if (!(pid[i] = fork())) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(SECONDS);
			for (;;) __builtin_ia32_pause();
		}
	for (int i = 0; i < 300; i++) ok &= run_once(&r, 1 + i, 0);
	for (int i = 0; i < SPINNERS; i++) kill(pid[i], SIGKILL), waitpid(pid[i], NULL, 0);
	return ok;
}

static void late(void **state)
{
	(void)state;
	in_child(ends_without);
	in_child(sleeps_between);
	in_child(beside_spinners);
}

/* ---- forks ---- */
static atomic_bool stop;
static void *run_on(void *p)
{
	intptr_t ok = 1;
	(void)p;
	for (rt_run r = with_team(3); !atomic_load(&stop);) ok &= run_once(&r, 100, 20);
	return (void *)ok;
}

/* While regions run; the child has a team of its own. */
/* A fork while the team is made: the child's threads go to sleep like others. */
static bool forks_between(void)
{
	int status = 0;
	rt_run r = with_team(3);
	count *c = calloc(1, sizeof *c);
	c->n = 300;
	atomic_store(&fork_then, true);
	rt_team_run(&r, c->n, 1, 2e4, add, c); /* too short to wake threads for */
	bool ok = sum_is_right(c);
	usleep(20000);
	clock_t before = clock();
	usleep(100000);
	ok &= clock() - before < CLOCKS_PER_SEC / 200;
	free(c);
	if (!forked) _exit(!ok);
	return ok && waitpid(forked, &status, 0) == forked && !status;
}

static bool forks(void)
{
	pthread_t t;
	void *ok = NULL;
	int bad = 0, status;
	if (pthread_create(&t, NULL, run_on, NULL)) return false;
	for (int i = 0; i < 40; i++) {
		usleep((useconds_t)(i * 50));
		pid_t pid = fork();
		if (!pid) {
			alarm(SECONDS);
			rt_run r = with_team(3);
			_exit(!(run_once(&r, 1000, 0) && two_meet()));
		}
		bad += waitpid(pid, &status, 0) != pid || status != 0;
	}
	atomic_store(&stop, true);
	pthread_join(t, &ok);
	return ok && !bad;
}

static void fork_during_region(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	SKIP("a child under gcc 12's address sanitizer may find the lock of its allocator taken");
#endif
	in_child(forks);
	in_child(forks_between);
}

/* ---- the number of cores ---- */
static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static bool on_one_cpu(void)
{
	cpu_set_t set;
	sched_getaffinity(0, sizeof set, &set);
	for (int i = 0, kept = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && kept++) CPU_CLR(i, &set);
	return !sched_setaffinity(0, sizeof set, &set) && rt_cores("/nowhere") == 1;
}

static void cores(void **state)
{
	char root[] = "/tmp/tj_cores_XXXXXX", v1[64], command[64];
	(void)state;
	int all = rt_cores("/nowhere");
	assert_true(all >= 1);
	assert_non_null(mkdtemp(root));
	snprintf(v1, sizeof v1, "%s/cpu", root);
	assert_int_equal(mkdir(v1, 0700), 0);
	assert_int_equal(rt_cores(root), all);
	put(v1, "cpu.cfs_quota_us", "-1\n");
	put(v1, "cpu.cfs_period_us", "100000\n");
	assert_int_equal(rt_cores(root), all);
	put(v1, "cpu.cfs_quota_us", "20000\n");
	assert_int_equal(rt_cores(root), 1);
	put(root, "cpu.max", "100001 100000\n");
	assert_int_equal(rt_cores(root), all < 2 ? all : 2);
	put(root, "cpu.max", "50000 100000\n");
	assert_int_equal(rt_cores(root), 1);
	put(v1, "cpu.cfs_quota_us", "-1\n");
	put(root, "cpu.max", "max 100000\n");
	assert_int_equal(rt_cores(root), all);
	snprintf(command, sizeof command, "rm -rf %s", root);
	assert_int_equal(system(command), 0);
	in_child(on_one_cpu);
}

/* ---- little address space ---- */
static rlim_t room; /* MB of address space */

static bool no_room_for_llvm(void)
{
	const char *why = "";
	setrlimit(RLIMIT_AS, &(struct rlimit){ room << 20, room << 20 });
	return !lo_backend_find("llvm", &why) && strstr(why, "not enough address space");
}

static void shallow_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(tj_add(tj_exp(in[0]), in[0]), 0);
}

/* By the size of the address space, kernels or the evaluator run, or there is an error; the process never ends. */
static bool survives(void)
{
	setrlimit(RLIMIT_AS, &(struct rlimit){ room << 20, room << 20 });
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .threads = 1, .log_to = warn));
	if (!c) return true;
	bool ok = true;
	for (int n = 1; n < 4; n++) {
		tj_fn *f = tj_compile(c, shallow_body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1));
		const float *y = tj_data(tj_call1(f, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(n), tj_f(1)))));
		tj_status st = tj_check(c);
		ok &= st == TJ_ERR_NOMEM || (st == TJ_OK && y && *y > 0.99f / (float)n && *y < 1.01f / (float)n);
	}
	tj_close(c);
	return ok;
}

static void says_why(void **state)
{
	(void)state;
	if (SANITIZED) SKIP("the sanitizers need more address space than the test leaves");
	for (room = 40; room <= 300; room += 20) in_child(survives);
	room = 16;
	in_child(no_room_for_llvm);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(many_callers),       cmocka_unit_test(creation), cmocka_unit_test(late),
		                            cmocka_unit_test(fork_during_region), cmocka_unit_test(cores),    cmocka_unit_test(says_why),
		                            cmocka_unit_test(each_once),          cmocka_unit_test(fewer) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
