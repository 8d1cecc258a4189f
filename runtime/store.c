/* SPDX-License-Identifier: MIT */
/* store: entries of the disk cache are read whole, and written beside their place and renamed. A file is not synced: after a crash of the
 * machine it may be damaged, and then its checksum says so. */
#include "runtime/file.h"
#include "runtime/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SWEEPS = 8 /* one of so many entries sweeps its subfolder */ };

/* ---- reading files ---- */
static rt_miss read_file(int fd, void **file, size_t *bytes)
{
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return RT_MISS_DENIED;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH)) return RT_MISS_DENIED;
	if (st.st_size <= 0 || st.st_size > RT_STORE_LARGEST) return RT_MISS_LENGTH;
	char *to = rt_alloc((size_t)st.st_size);
	if (!to) return RT_MISS_MEMORY;
	if (!rt_read_all(fd, to, (size_t)st.st_size)) {
		rt_free(to);
		return RT_MISS_LENGTH;
	}
	struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
	if (time(NULL) - st.st_mtime > RT_STORE_AGE) (void)!futimens(fd, now); /* fails where the folder is read-only */
	*file = to;
	*bytes = (size_t)st.st_size;
	return RT_MISS_ABSENT;
}

rt_miss rt_store_read(const char *path, void **file, size_t *bytes)
{
	const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) return errno == ENOENT ? RT_MISS_ABSENT : RT_MISS_DENIED;
	const rt_miss m = read_file(fd, file, bytes);
	close(fd);
	return m;
}

/* ---- names ---- */
typedef struct place { char path[PATH_MAX], subfolder[PATH_MAX]; bool sweeps; } place;

/* False: the folder's name is too long. */
static bool place_of(const rt_store *s, rt_store_kind kind, rt_span key, place *p)
{
	uint64_t h[2], all[3 + RT_BUILD_BYTES / 8];
	rt_hash128(key.at, key.bytes, all);
	all[2] = kind;
	memcpy(all + 3, rt_build(), RT_BUILD_BYTES);
	rt_hash128(all, sizeof all, h);
	p->sweeps = h[1] % SWEEPS == 0;
	const unsigned number = (unsigned)(h[0] >> 56);
	const int n = snprintf(p->subfolder, sizeof p->subfolder, "%s/%02x", s->folder, number);
	const int m = snprintf(p->path, sizeof p->path, "%s/%02x/%014llx%016llx.%s", s->folder, number,
	                       (unsigned long long)(h[0] & ~0ull >> 8), (unsigned long long)h[1], rt_store_kind_name((int)kind));
	return n > 0 && n < PATH_MAX && m > 0 && m < PATH_MAX - 64;
}

/* ---- reading ---- */
void rt_store_miss(rt_store *s, rt_store_kind kind, rt_span key, rt_miss why)
{
	place p;
	atomic_fetch_add(&s->miss[why], 1);
	if (why == RT_MISS_OFF || !place_of(s, kind, key, &p)) return;
	rt_log(s->log, RT_LOG_CACHE, "disk: no %s %s: %s", rt_store_kind_name((int)kind), p.path + strlen(s->folder) + 1,
	       rt_miss_text(why));
	const bool damage = why != RT_MISS_ABSENT && why != RT_MISS_MEMORY && why != RT_MISS_FORMAT && why != RT_MISS_BUILD;
	if (damage && !atomic_exchange(&s->told_of_damage, true))
		rt_warn(s->log, "an entry of the disk cache is not used, and made again: %s: %s", p.path, rt_miss_text(why));
}

bool rt_store_get(rt_store *s, rt_store_kind kind, rt_span key, void **file, rt_span *body)
{
	place p;
	size_t bytes = 0;
	int of = -1;
	rt_span its = { 0 };
	*file = NULL;
	if (s->in_memory && rt_store_find(s, kind, key, body)) return atomic_fetch_add(&s->hits, 1), true;
	if (s->in_memory && s->next) return rt_store_get(s->next, kind, key, file, body);
	if (!rt_store_folder(s) || !place_of(s, kind, key, &p)) return rt_store_miss(s, kind, key, RT_MISS_OFF), false;
	rt_miss m = rt_store_read(p.path, file, &bytes);
	const bool there = m == RT_MISS_ABSENT && *file;
	if (there) m = rt_store_check(*file, bytes, &of, &its, body);
	if (there && m == RT_MISS_ABSENT && (of != (int)kind || its.bytes != key.bytes || memcmp(its.at, key.at, key.bytes) != 0))
		m = RT_MISS_KEY;
	if (there && m == RT_MISS_ABSENT) {
		atomic_fetch_add(&s->hits, 1);
		atomic_fetch_add(&s->read_bytes, bytes);
		return true;
	}
	rt_free(*file);
	*file = NULL;
	rt_store_miss(s, kind, key, m);
	return false;
}

/* ---- writing ---- */
static bool write_entry(const place *p, const void *bytes, size_t n)
{
	static _Atomic unsigned number;
	char beside[PATH_MAX];
	if (mkdir(p->subfolder, 0700) && errno != EEXIST) return false;
	const int len = snprintf(beside, PATH_MAX, "%s/.%ld.%u.tmp", p->subfolder, (long)getpid(), atomic_fetch_add(&number, 1));
	if (len <= 0 || len >= PATH_MAX) return errno = ENAMETOOLONG, false;
	return rt_replace_file(p->path, beside, 0600, false, bytes, n);
}

void rt_store_put(rt_store *s, rt_store_kind kind, rt_span key, rt_span body)
{
	place p;
	size_t n;
	if (s->in_memory && s->keeps) {
		if (rt_store_take(s, kind, key, body)) atomic_fetch_add(&s->stored, 1);
		else atomic_fetch_add(&s->failed, 1);
		return;
	}
	if (s->in_memory && s->next) {
		rt_store_put(s->next, kind, key, body);
		return;
	}
	if (!rt_store_writes(s) || !place_of(s, kind, key, &p)) return;
	unsigned char *bytes = rt_store_entry_of(kind, key, body, &n);
	if (!bytes) return;
	if (write_entry(&p, bytes, n)) {
		atomic_fetch_add(&s->stored, 1);
		atomic_fetch_add(&s->written_bytes, n);
		if (p.sweeps || n > s->most / RT_STORE_FANOUT / SWEEPS) rt_store_sweep(s, p.subfolder);
	} else {
		const char *why = strerror(errno);
		atomic_fetch_add(&s->failed, 1);
		rt_log(s->log, RT_LOG_CACHE, "disk: not written: %s: %s", p.path, why);
		if (!atomic_exchange(&s->told_of_writing, true)) rt_warn(s->log, "the disk cache cannot be written: %s: %s", p.path, why);
	}
	rt_free(bytes);
}

rt_store_counts rt_store_count(rt_store *s)
{
	rt_store_counts c = { .hits = atomic_load(&s->hits), .stored = atomic_load(&s->stored), .failed = atomic_load(&s->failed),
		              .read_bytes = atomic_load(&s->read_bytes), .written_bytes = atomic_load(&s->written_bytes) };
	for (int i = 0; i < RT_MISSES; i++) c.miss[i] = atomic_load(&s->miss[i]);
	return c;
}
