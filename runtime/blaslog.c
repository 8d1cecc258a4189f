/* SPDX-License-Identifier: MIT */
/* blaslog: what cuBLASLt says of itself, for TJ_LOG=library. The library has one log for the process, whose function is called by any
 * thread in it: each keeps its own lines. They are written when the library has returned, since it may hold a lock while it logs. */
#include "runtime/cublas.h"
#include "runtime/log.h"

#include <pthread.h>

enum { QUIET = 0, API = 5 }; /* levels of cublasLtLoggerSetLevel() */

static _Thread_local rt_text *lines; /* NULL: the thread does not listen */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listeners;                /* number of threads that listen; under lock */

static void keep(int level, const char *function, const char *message)
{
	(void)level;
	if (lines) rt_putf(lines, "%s: %s\n", function ? function : "cuBLASLt", message ? message : "");
}

void rt_lt_listen(const rt_lt *lt, const rt_log_to *log)
{
	if (lines || !rt_logs(log, RT_LOG_LIBRARY) || !lt->cublasLtLoggerSetCallback || !lt->cublasLtLoggerSetLevel) return;
	if (!(lines = rt_calloc(sizeof *lines))) return;
	rt_lock(&lock);
	if (!listeners++) {
		lt->cublasLtLoggerSetCallback(keep);
		lt->cublasLtLoggerSetLevel(API);
	}
	rt_unlock(&lock);
}

void rt_lt_heard(const rt_lt *lt, const rt_log_to *log, const char *of)
{
	rt_text *t = lines;
	if (!t) return;
	lines = NULL;
	rt_lock(&lock);
	if (!--listeners) lt->cublasLtLoggerSetLevel(QUIET);
	rt_unlock(&lock);
	rt_log_text(log, RT_LOG_LIBRARY, of, rt_str(t));
	rt_text_free(t);
	rt_free(t);
}
