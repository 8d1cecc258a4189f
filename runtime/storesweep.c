/* SPDX-License-Identifier: MIT */
/* storesweep: keeps each subfolder of the disk cache within its share. No lock: other processes may write and remove at the same time, and
 * a file that is gone is no error. */
#include "runtime/store.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool ends(const char *s, const char *end)
{
	const size_t n = strlen(s), m = strlen(end);
	return n > m && !strcmp(s + n - m, end);
}

static bool is_entry(const char *name)
{
	if (strspn(name, "0123456789abcdef") != 30 || name[30] != '.') return false;
	for (int i = 0; rt_store_kind_name(i); i++)
		if (!strcmp(name + 31, rt_store_kind_name(i))) return true;
	return false;
}

/* Of a process that was killed while it wrote. */
static bool is_left(const char *name, const struct stat *st)
{
	return *name == '.' && ends(name, ".tmp") && time(NULL) - st->st_mtime > RT_STORE_AGE;
}

static bool add(rt_files *all, const char *path, const struct stat *st)
{
	rt_file f = { .path = rt_strdup(path), .bytes = (size_t)st->st_size, .used = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec };
	if (f.path && rt_push(all, f)) return true;
	rt_free(f.path);
	return false;
}

void rt_files_free(rt_files *all)
{
	for (uint32_t i = 0; i < all->n; i++) rt_free(all->v[i].path);
	rt_vec_free(all);
}

bool rt_store_list(const char *subfolder, bool everything, rt_files *all)
{
	char path[PATH_MAX];
	struct stat st;
	DIR *d = opendir(subfolder);
	bool ok = d || errno == ENOENT;
	for (const struct dirent *e; d && ok && (e = readdir(d));) {
		const int n = snprintf(path, sizeof path, "%s/%s", subfolder, e->d_name);
		if (n <= 0 || n >= (int)sizeof path || lstat(path, &st) || !S_ISREG(st.st_mode)) continue;
		if (is_entry(e->d_name)) ok = add(all, path, &st);
		else if (is_left(e->d_name, &st) || (everything && *e->d_name == '.' && ends(e->d_name, ".tmp"))) unlink(path);
	}
	if (d) closedir(d);
	return ok;
}

static int oldest_first(const void *x, const void *y)
{
	const rt_file *a = x, *b = y;
	return (a->used > b->used) - (a->used < b->used);
}

void rt_store_sweep(rt_store *s, const char *subfolder)
{
	rt_files all = { 0 };
	size_t bytes = 0, share = s->most / RT_STORE_FANOUT;
	rt_store_list(subfolder, false, &all);
	for (uint32_t i = 0; i < all.n; i++) bytes += all.v[i].bytes;
	if (bytes > share) {
		qsort(all.v, all.n, sizeof *all.v, oldest_first);
		for (uint32_t i = 0; i + 1 < all.n && bytes > share / 8 * 7; i++) {
			bytes -= all.v[i].bytes;
			unlink(all.v[i].path);
		}
		rt_log(s->log, RT_LOG_CACHE, "disk: %s is full: the entries used least recently are removed", subfolder);
	}
	rt_files_free(&all);
}
