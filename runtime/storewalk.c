/* SPDX-License-Identifier: MIT */
/* storewalk: visits or removes all entries of the disk cache. */
#include "runtime/codes.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

static tj_status list_all(rt_store *s, bool everything, rt_files *all, rt_err *err)
{
	const char *folder = rt_store_folder(s);
	char path[PATH_MAX];
	if (!folder) return rt_fail(err, TJ_ERR_IO, "cache", "the disk cache is off: %s", rt_store_why(s));
	for (unsigned i = 0; i < RT_STORE_FANOUT; i++) {
		snprintf(path, sizeof path, "%.*s/%02x", PATH_MAX - 8, folder, i);
		if (!rt_store_list(path, everything, all)) return rt_fail(err, TJ_ERR_IO, "cache", "%s: %s", path, strerror(errno));
	}
	return TJ_OK;
}

tj_status rt_store_walk(rt_store *s, bool read, rt_store_visit *f, void *env, rt_err *err)
{
	rt_files all = { 0 };
	tj_status st = list_all(s, false, &all, err);
	bool on = st == TJ_OK;
	for (uint32_t i = 0; on && i < all.n; i++) {
		rt_store_entry e = { .path = all.v[i].path, .bytes = all.v[i].bytes, .used = all.v[i].used / 1000000000, .kind = -1 };
		void *bytes = NULL;
		rt_span body;
		size_t n = 0;
		if (read) e.miss = rt_store_read(e.path, &bytes, &n);
		if (bytes) e.miss = rt_store_check(bytes, n, &e.kind, &e.key, &body);
		if (!read || bytes || e.miss != RT_MISS_ABSENT) on = f(env, &e);
		rt_free(bytes);
	}
	rt_files_free(&all);
	return st;
}

tj_status rt_store_clear(rt_store *s, uint64_t *n, uint64_t *bytes, rt_err *err)
{
	rt_files all = { 0 };
	tj_status st = list_all(s, true, &all, err);
	*n = *bytes = 0;
	if (s->codes) rt_codes_clear(s->codes); /* what is compiled from now on is written */
	for (uint32_t i = 0; st == TJ_OK && i < all.n; i++) {
		if (!unlink(all.v[i].path)) {
			++*n;
			*bytes += all.v[i].bytes;
		} else if (errno != ENOENT) st = rt_fail(err, TJ_ERR_IO, "cache", "%s: %s", all.v[i].path, strerror(errno));
	}
	rt_files_free(&all);
	return st;
}
