/* SPDX-License-Identifier: MIT */
/* cublaslt: the library cuBLASLt, with prototypes of our own (cublas.h), and its handle for each GPU. */
#include "runtime/cublas.h"
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

typedef enum state { NOT_TRIED, THERE, MISSING } state;

static rt_lt lt;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all here */
static _Atomic state known;
static const char *missing;          /* valid when known is MISSING */
static atomic_bool begun, ending;    /* a thread was started to open it; the process exits */
static _Atomic double begun_ms;      /* rt_now_ms() then; 0: it was not */
static _Atomic(void *) handles[RT_DEVICES]; /* by GPU; set once */

static const char *switched_off(void)
{
	const char *v = getenv("TJ_CUBLASLT");
	return v && !strcmp(v, "off") ? "cuBLASLt is switched off by TJ_CUBLASLT=off" : NULL;
}

static const char *load(void)
{
	static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };
	if (switched_off()) return switched_off();
	if (atomic_load(&ending)) return "the process ends";
	void *library = rt_toolkit_open(names, "/nvidia/cublas/lib"), *symbol;
	if (!library)
		return "libcublasLt.so.13 (or .12) is not there: install the CUDA toolkit's cuBLAS, or set TJ_CUDA_PATH to the folder that has it";
#define X(name, type, params)                                                                                          \
	symbol = dlsym(library, #name);                                                                                    \
	if (!symbol) return "this cuBLASLt lacks " #name;                                                                  \
	memcpy(&lt.name, &symbol, sizeof lt.name);
	RT_LT(X)
#undef X
#define X(name, type, params)                      \
	symbol = dlsym(library, #name);            \
	memcpy(&lt.name, &symbol, sizeof lt.name);
	RT_LT_LOG(X)
#undef X
	return NULL;
}

const rt_lt *rt_lt_get(const char **why)
{
	*why = NULL;
	if (RT_LIKELY(atomic_load_explicit(&known, memory_order_acquire) == THERE)) return &lt;
	rt_lock(&lock); /* a fork() waits, so no child finds it half open */
	if (atomic_load(&known) == NOT_TRIED) {
		missing = load();
		atomic_store(&known, missing ? MISSING : THERE);
	}
	*why = missing;
	rt_unlock(&lock);
	return *why ? NULL : &lt;
}

/* Whether a library is there is known soon if it is not. One that is takes much longer to open. */
static void wait_a_little(void)
{
	enum { MOST_MS = 20 };
	const double since = atomic_load(&begun_ms);
	while (since > 0 && atomic_load(&known) == NOT_TRIED && rt_now_ms() - since < MOST_MS) nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

const char *rt_lt_missing(void)
{
	wait_a_little();
	const state s = atomic_load(&known);
	return s == MISSING ? missing : s == NOT_TRIED ? switched_off() : NULL;
}

/* ---- beside the compiler ---- */
static void *open_it(void *unused)
{
	const char *why;
	(void)unused;
	prctl(PR_SET_NAME, "tj-cublas");
	rt_lt_get(&why);
	return NULL;
}

/* A process that exits waits until the library is open: its handlers must not run meanwhile. */
static void end(void)
{
	atomic_store(&ending, true);
	rt_lock(&lock);
	rt_unlock(&lock);
}

void rt_lt_begin(void)
{
	pthread_t t;
	sigset_t all, before;
	if (atomic_load(&known) != NOT_TRIED || atomic_exchange(&begun, true) || atexit(end)) return;
	sigfillset(&all); /* no signal handler of the user runs on the thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_store(&begun_ms, rt_now_ms());
	if (!pthread_create(&t, NULL, open_it, NULL)) pthread_detach(t); /* else the run opens it */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- handles ---- */
static const char *create(int gpu)
{
	static char refused[120];
	void *h = NULL;
	const int status = *refused ? 0 : lt.cublasLtCreate(&h);
	if (!*refused && !status) {
		atomic_store(&handles[gpu], h);
		return NULL;
	}
	if (!*refused)
		snprintf(refused, sizeof refused, "cublasLtCreate gives %s: the library may be newer than the driver",
		         lt.cublasLtGetStatusName(status));
	missing = refused;
	atomic_store(&known, MISSING);
	return refused;
}

void *rt_lt_handle(int gpu, const char **why)
{
	*why = NULL;
	if (RT_UNLIKELY(!atomic_load_explicit(&handles[gpu], memory_order_acquire))) {
		rt_lock(&lock);
		if (!atomic_load(&handles[gpu])) *why = create(gpu);
		rt_unlock(&lock);
	}
	return atomic_load_explicit(&handles[gpu], memory_order_acquire);
}
