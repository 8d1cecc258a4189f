/* SPDX-License-Identifier: MIT */
/* storedir: where the disk cache is. What is in it becomes code, so it must belong to the user, and nobody else may write there. */
#include "runtime/codes.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t MOST = (size_t)1 << 30; /* bytes of all entries, if TJ_CACHE_MB says nothing else */

rt_store *rt_store_new(const char *told, const rt_log_to *log)
{
	rt_store *s = rt_calloc(sizeof *s);
	if (!s) return NULL;
	const char *env = getenv("TJ_CACHE"), *mb = getenv("TJ_CACHE_MB");
	if (!told || !*told) told = env ? env : "";
	const long n = mb ? strtol(mb, NULL, 10) : 0;
	s->most = n > 0 && n <= LONG_MAX >> 20 ? (size_t)n << 20 : MOST;
	s->log = log;
	s->told = rt_strdup(told);
	s->codes = rt_codes_new();
	pthread_mutex_init(&s->lock, NULL);
	if (s->told && s->codes) return s;
	rt_store_free(s);
	return NULL;
}

void rt_store_free(rt_store *s)
{
	if (!s) return;
	for (uint32_t i = 0; i < s->entry.n; i++)
		if (s->entry.v[i].owned) rt_free((void *)(uintptr_t)s->entry.v[i].bytes);
	rt_vec_free(&s->entry);
	rt_codes_free(s->codes);
	pthread_mutex_destroy(&s->lock);
	rt_free(s->told);
	rt_free(s->folder);
	rt_free(s);
}

/* Makes the folder and those above it. */
static bool make_folders(char *path)
{
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		const bool failed = mkdir(path, 0700) && errno != EEXIST;
		*at = '/';
		if (failed) return false;
	}
	return !mkdir(path, 0700) || errno == EEXIST;
}

static char *joined(const char *folder, const char *more)
{
	rt_text t = { 0 };
	rt_putf(&t, "%s%s", folder, more);
	if (t.oom) rt_text_free(&t);
	return t.s;
}

/* Folders of the environment must be absolute, as the XDG rules say. */
static char *usual_folder(rt_store *s)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (xdg && *xdg == '/') return joined(xdg, "/tjit");
	if (home && *home == '/') return joined(home, "/.cache/tjit");
	snprintf(s->why, sizeof s->why, "neither XDG_CACHE_HOME nor HOME names a folder; TJ_CACHE=folder does");
	return NULL;
}

static bool trusted(rt_store *s, const char *path)
{
	struct stat st;
	if (stat(path, &st)) snprintf(s->why, sizeof s->why, "%.120s: %s", path, strerror(errno));
	else if (!S_ISDIR(st.st_mode)) snprintf(s->why, sizeof s->why, "%.120s is no folder", path);
	else if (st.st_uid != geteuid() && (s->writes || st.st_uid))
		snprintf(s->why, sizeof s->why, "%.120s belongs to another user", path);
	else if (st.st_mode & (S_IWGRP | S_IWOTH)) snprintf(s->why, sizeof s->why, "others may write to %.120s (chmod go-w)", path);
	else return true;
	return false;
}

/* Sets folder, or why. */
static void look(rt_store *s)
{
	const char *told = s->told;
	bool refused = false;
	s->looked = true;
	if (getauxval(AT_SECURE)) {
		snprintf(s->why, sizeof s->why, "the program has more rights than its user");
		return;
	}
	if (!strcmp(told, "off") || !strcmp(told, "0")) {
		snprintf(s->why, sizeof s->why, "switched off");
		return;
	}
	s->writes = strncmp(told, "ro:", 3) != 0;
	char *path = !*told ? usual_folder(s) : joined(s->writes ? told : told + 3, ""), *real = NULL;
	if (path && s->writes && !make_folders(path)) snprintf(s->why, sizeof s->why, "%.120s: %s", path, strerror(errno));
	else if (path && !(real = realpath(path, NULL))) snprintf(s->why, sizeof s->why, "%.120s: %s", path, strerror(errno));
	else if (real && trusted(s, real)) s->folder = rt_strdup(real);
	else refused = real != NULL;
	if (refused || (*told && !s->folder)) rt_warn(s->log, "the disk cache is off: %s", s->why);
	else if (!s->folder) rt_log(s->log, RT_LOG_CACHE, "the disk cache is off: %s", s->why);
	else if (s->writes && access(real, W_OK)) {
		s->writes = false;
		snprintf(s->why, sizeof s->why, "%.120s: %s", real, strerror(errno));
		rt_log(s->log, RT_LOG_CACHE, "nothing is written to the disk cache: %s", s->why);
	}
	free(real);
	rt_free(path);
}

static void look_once(rt_store *s)
{
	if (s->in_memory) return;
	rt_lock(&s->lock);
	if (!s->looked) look(s);
	rt_unlock(&s->lock);
}

const char *rt_store_folder(rt_store *s) { return look_once(s), s->folder; }
bool rt_store_used(rt_store *s) { return s->in_memory || rt_store_folder(s); }
const char *rt_store_why(rt_store *s) { return look_once(s), *s->why ? s->why : NULL; }
bool rt_store_writes(rt_store *s)
{
	if (s->in_memory) return s->keeps || (s->next && rt_store_writes(s->next));
	return look_once(s), s->folder && s->writes;
}
