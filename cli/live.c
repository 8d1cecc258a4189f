/* SPDX-License-Identifier: MIT */
/* live: reads what a process with TJ_LIVE=1 shows of itself: a file in /dev/shm with a head and JSON (docs/DEBUGGING.md). What it says is
 * another process's, so all of it is checked, and it is never mapped for reading: it may be cut off at any time. */
#include "cli/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
enum { TEXT = 64, MOST = 16 << 20 /* bytes of the text */, STEP = 10000000 /* ns between two looks */ };
typedef struct head {
	char magic[8];
	uint32_t bell, serial;
	uint64_t until, bytes;
} head;

uint64_t cli_live_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void cli_live_sleep(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	while (nanosleep(&t, &t) && errno == EINTR) {}
}

/* ---- files ---- */
/* "tjit.1000.4711": a user and a process. */
static bool parse_name(const char *name, uid_t *user, long *pid)
{
	char *end;
	if (strncmp(name, "tjit.", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
	errno = 0;
	*user = (uid_t)strtoul(name + 5, &end, 10);
	if (*end != '.' || end[1] < '1' || end[1] > '9') return false;
	*pid = strtol(end + 1, &end, 10);
	return !*end && !errno;
}

static bool read_head(int fd, head *h)
{
	return pread(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h && !memcmp(h->magic, "tjlive1\n", sizeof h->magic) && h->bytes <= MOST;
}

/* Only a plain file that the user of the process alone can write is believed, and only while the process lives: it holds a lock. */
static cli_live_state state_of(int fd, uid_t user)
{
	struct stat st;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	head h;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != user || st.st_mode & 077 || st.st_nlink != 1) return CLI_LIVE_ODD;
	if (fcntl(fd, F_GETLK, &l)) return CLI_LIVE_ODD;
	if (l.l_type == F_UNLCK) return CLI_LIVE_GONE;
	return read_head(fd, &h) ? CLI_LIVE : CLI_LIVE_ODD;
}

void cli_live_each(bool (*f)(void *env, int fd, long pid, cli_live_state s), void *env)
{
	DIR *d = opendir(FOLDER);
	bool on = true;
	for (const struct dirent *e; d && on && (e = readdir(d));) {
		uid_t user;
		long pid;
		if (!parse_name(e->d_name, &user, &pid) || pid == getpid() || (user != geteuid() && geteuid())) continue;
		const int fd = openat(dirfd(d), e->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0) continue;
		const cli_live_state s = state_of(fd, user);
		struct stat st;
		if (s == CLI_LIVE_GONE && !fstat(fd, &st) && time(NULL) - st.st_mtime > 10) unlinkat(dirfd(d), e->d_name, 0);
		on = f(env, fd, pid, s);
		close(fd);
	}
	if (d) closedir(d);
}

/* ---- asking, and the answer ---- */
static bool put_at(int fd, const void *p, size_t n, size_t at) { return pwrite(fd, p, n, (off_t)at) == (ssize_t)n; }

static bool ask(int fd, uint64_t ns)
{
	head h;
	const uint64_t until = cli_live_now() + ns;
	if (!read_head(fd, &h) || !put_at(fd, &until, sizeof until, offsetof(head, until))) return false;
	h.bell++;
	if (!put_at(fd, &h.bell, sizeof h.bell, offsetof(head, bell))) return false;
	char *at = mmap(NULL, TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) return false;
	syscall(SYS_futex, at + offsetof(head, bell), FUTEX_WAKE, 1, NULL, NULL, 0);
	munmap(at, TEXT);
	return true;
}

/* NULL: it is being written, or is none. *serial: of what was read. */
static char *read_text(int fd, uint32_t *serial, size_t *n)
{
	head h, after;
	if (!read_head(fd, &h) || h.serial % 2 || h.serial == *serial || !h.bytes) return NULL;
	char *text = malloc(h.bytes);
	const bool whole = text && pread(fd, text, h.bytes, TEXT) == (ssize_t)h.bytes && read_head(fd, &after) && after.serial == h.serial;
	if (!whole) {
		free(text);
		return NULL;
	}
	*serial = h.serial;
	*n = h.bytes;
	return text;
}

/* ---- what it must have ---- */
static const char *const numbers[] = { "functions", "calls", "hits", "direct", "recordings", "side_exits", "failures", "evictions", "sizes",
	                               "plans", "kernels", "compiled", "loaded", "shared", "bytes", "code_bytes", "trace_us", "lower_us",
	                               "codegen_us", NULL };

static bool has(const json_t *o, const char *key, json_type type)
{
	const json_t *v = json_object_get(o, key);
	return v && json_typeof(v) == type && (type != JSON_INTEGER || json_integer_value(v) >= 0);
}

static bool is_function(const json_t *f)
{
	if (!has(f, "name", JSON_STRING) || !has(f, "site", JSON_STRING)) return false;
	for (int i = 0; numbers[i]; i++)
		if (!has(f, numbers[i], JSON_INTEGER)) return false;
	return true;
}

static bool is_whole(const json_t *d)
{
	size_t i;
	const json_t *x;
	if (!has(d, "program", JSON_STRING) || !has(d, "version", JSON_STRING) || !has(d, "pid", JSON_INTEGER)) return false;
	if (!has(d, "at_us", JSON_INTEGER) || !has(d, "threads", JSON_INTEGER) || !has(d, "memory", JSON_ARRAY)) return false;
	if (!has(d, "functions", JSON_ARRAY)) return false;
	json_array_foreach(json_object_get(d, "memory"), i, x)
		if (!has(x, "device", JSON_STRING) || !has(x, "bytes", JSON_INTEGER) || !has(x, "peak_bytes", JSON_INTEGER)) return false;
	json_array_foreach(json_object_get(d, "functions"), i, x)
		if (!is_function(x)) return false;
	return true;
}

json_t *cli_live_parse(const char *text, size_t n)
{
	json_t *d = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	if (d && is_whole(d)) return d;
	json_decref(d);
	return NULL;
}

json_t *cli_live_read(int fd, uint64_t wait_ns)
{
	head h;
	size_t n;
	if (!read_head(fd, &h)) return NULL;
	uint32_t serial = h.serial & ~(uint32_t)1;
	if (!ask(fd, wait_ns + 1000000000)) return NULL;
	for (uint64_t from = cli_live_now(); cli_live_now() - from < wait_ns;) {
		char *text = read_text(fd, &serial, &n);
		json_t *d = text ? cli_live_parse(text, n) : NULL;
		free(text);
		if (d) return d;
		cli_live_sleep(STEP);
	}
	return NULL;
}
