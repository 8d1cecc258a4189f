/* SPDX-License-Identifier: MIT */
/* TJ_PROFILE=file,...: one profile for all engines of the process, from the first tj_open() to the end of the process. A file whose name
 * ends in .json gets the timeline, another one the tables. "%p" in a name is the number of the process; a child of fork() appends it. */
#include "jit/profiling.h"

#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { rt_profile *profile; char *table; pid_t process; bool tried; } env; /* table: a path, or NULL */

rt_profile *jit_env_profile(void)
{
	rt_lock(&lock);
	rt_profile *p = env.profile;
	rt_unlock(&lock);
	return p;
}

static bool ends_in(const char *s, size_t n, const char *end)
{
	const size_t k = strlen(end);
	return n >= k && !memcmp(s + n - k, end, k);
}

static char *path_of(const char *s, size_t n)
{
	rt_text t = { 0 };
	for (size_t i = 0; i < n; i++)
		if (s[i] == '%' && i + 1 < n && s[i + 1] == 'p') rt_putf(&t, "%ld", (long)getpid()), i++;
		else rt_putn(&t, s + i, 1);
	return t.s;
}

/* Under the lock; once. */
static void start(jit_engine *e, const char *value, const rt_run *run)
{
	char *timeline = NULL;
	rt_err err = { 0 };
	for (const char *at = value; *at;) {
		const size_t n = strcspn(at, ",");
		char **to = ends_in(at, n, ".json") ? &timeline : &env.table;
		rt_free(*to);
		*to = n ? path_of(at, n) : NULL;
		at += n + (at[n] == ',');
	}
	env.process = getpid();
	const rt_limits limits = rt_limits_of(run);
	env.profile = rt_profile_new(&limits, timeline, 0, &err);
	if (!env.profile) rt_warn(&e->rt.log, "TJ_PROFILE: %s", err.message);
	rt_free(timeline);
}

bool jit_profile_env(jit_engine *e, const char *value)
{
	if (!value || !*value || !strcmp(value, "0")) return false;
	if (!strcmp(value, "1")) return true;
	const rt_run run = { .team = e->rt.team };
	rt_lock(&lock);
	if (!env.tried) start(e, value, &run);
	env.tried = true;
	e->profiling = rt_profile_ref(env.profile);
	rt_unlock(&lock);
	if (!e->profiling) return false;
	atomic_fetch_add(&e->profiles, 1);
	atomic_fetch_or(&e->watch, JIT_WATCH_PROFILE);
	return false;
}

static void put_table(rt_text *t, const rt_report *x, tj_profile_by by)
{
	const tj_profile_view v = { .size = sizeof v, .by = by, .top = 40, .rows_only = by == TJ_BY_KERNEL };
	jit_rows rows = { 0 };
	if (t->n) rt_puts(t, "\n");
	if (jit_average(x, &v, &rows)) jit_put_profile(t, x, &v, &rows);
	jit_rows_free(&rows);
}

/* Threads of the program may still run: they find the profile stopped. */
__attribute__((destructor)) static void end(void)
{
	rt_text t = { 0 }, path = { 0 };
	rt_report x;
	rt_profile *p = jit_env_profile();
	if (!p) return;
	rt_profile_stop(p);
	if (env.table && rt_report_make(p, &x)) {
		rt_puts(&path, env.table);
		if (getpid() != env.process) rt_putf(&path, ".%ld", (long)getpid());
		put_table(&t, &x, TJ_BY_LINE);
		put_table(&t, &x, TJ_BY_KERNEL);
		FILE *out = t.oom || path.oom ? NULL : fopen(rt_str(&path), "we");
		if (out) fputs(rt_str(&t), out);
		if (!out || fclose(out)) rt_warn(NULL, "TJ_PROFILE: %s cannot be written", rt_str(&path));
		rt_report_free(&x);
	}
	rt_text_free(&t);
	rt_text_free(&path);
	rt_profile_unref(p);
}
