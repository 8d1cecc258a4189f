/* SPDX-License-Identifier: MIT */
/* tools: the list of code that debuggers and profilers know, and who is told. */
#include "runtime/tools.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned asked;
static rt_told *all;     /* the newest first */

/* ---- settings ---- */
/* The tools that TJ_PERF names, separated by commas; *odd: it has another word. */
static unsigned perf_tools(const char *v, bool *odd)
{
	unsigned tools = 0;
	while (v && *v) {
		const size_t n = strcspn(v, ",");
		if (n == 3 && !strncmp(v, "map", n)) tools |= RT_TOOL_MAP;
		else if (n == 7 && !strncmp(v, "jitdump", n)) tools |= RT_TOOL_JITDUMP;
		else *odd = true;
		v += n + (v[n] == ',');
	}
	return tools;
}

static void forked(void);

static void read_env(void)
{
	const char *gdb = secure_getenv("TJ_GDB");
	bool odd = false;
	asked = perf_tools(secure_getenv("TJ_PERF"), &odd) | (gdb && !strcmp(gdb, "1") ? RT_TOOL_GDB : 0);
	if (asked & (RT_TOOL_MAP | RT_TOOL_JITDUMP)) pthread_atfork(NULL, NULL, forked);
}

unsigned rt_tools(void)
{
	pthread_once(&once, read_env);
	return asked;
}

void rt_tools_check(const rt_log_to *log)
{
	const char *perf = secure_getenv("TJ_PERF"), *gdb = secure_getenv("TJ_GDB");
	bool odd = false;
	perf_tools(perf, &odd);
	if (odd) rt_warn(log, "TJ_PERF=%s has a word that is neither map nor jitdump; that word is ignored", perf);
	if (gdb && *gdb && strcmp(gdb, "1") != 0 && strcmp(gdb, "0") != 0) rt_warn(log, "TJ_GDB=%s is neither 0 nor 1; it is ignored", gdb);
}

/* ---- the list ---- */
static rt_told *new_told(const void *code, size_t bytes, const void *debug, size_t n)
{
	rt_told *t = rt_calloc(sizeof *t);
	rt_arena mem = { 0 };
	void *copy = t ? rt_arena_alloc(&mem, n + 1) : NULL;
	rt_debug *d = copy ? rt_arena_alloc(&mem, sizeof *d) : NULL;
	if (d) memcpy(copy, debug, n);
	if (!d || !rt_debug_get(&mem, copy, n, bytes, d)) {
		rt_arena_free(&mem);
		rt_free(t);
		return NULL;
	}
	*t = (rt_told){ .code = code, .bytes = bytes, .debug = d, .mem = mem };
	return t;
}

static void add(rt_told *t)
{
	const unsigned tools = rt_tools();
	if ((t->next = all)) all->prev = t;
	all = t;
	if (!t->unwound) rt_unwind_add(t);
	if (tools & RT_TOOL_MAP) rt_perfmap_add(t);
	if (tools & RT_TOOL_JITDUMP) rt_jitdump_add(t);
	if (tools & RT_TOOL_GDB) rt_gdb_add(t);
}

static rt_told *tell(const void *code, size_t bytes, const void *debug, size_t debug_bytes, bool unwound)
{
	rt_told *t = rt_tools() && debug_bytes ? new_told(code, bytes, debug, debug_bytes) : NULL;
	if (!t) return NULL;
	t->unwound = unwound;
	rt_lock(&lock);
	add(t);
	rt_unlock(&lock);
	return t;
}

static void forget(rt_told *t)
{
	rt_lock(&lock);
	if (t->next) t->next->prev = t->prev;
	if (t->prev) t->prev->next = t->next;
	else all = t->next;
	rt_unwind_remove(t);
	if (t->gdb) rt_gdb_remove(t);
	rt_unlock(&lock);
	rt_arena_free(&t->mem);
	rt_free(t);
}

/* The child has another number, so it has files of its own, with all code that it has from its parent. The gate of fork() is closed: no
 * other thread has the lock. */
static void forked(void)
{
	rt_told *t = all;
	if (asked & RT_TOOL_MAP) rt_perfmap_forked();
	if (asked & RT_TOOL_JITDUMP) rt_jitdump_forked();
	while (t && t->next) t = t->next;
	for (; t; t = t->prev) {
		if (asked & RT_TOOL_MAP) rt_perfmap_add(t);
		if (asked & RT_TOOL_JITDUMP) rt_jitdump_add(t);
	}
}

const rt_teller rt_own_teller = { tell, forget };
static const rt_teller *teller = &rt_own_teller;

void rt_tell_through(const rt_teller *t) { teller = t; }
rt_told *rt_tell(const void *code, size_t bytes, const void *debug, size_t n, bool unwound)
{
	return n ? teller->tell(code, bytes, debug, n, unwound) : NULL;
}


void rt_forget(rt_told *t)
{
	if (t) teller->forget(t);
}
