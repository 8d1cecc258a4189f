/* SPDX-License-Identifier: MIT */
/* live: with TJ_LIVE=1 other processes of the user can watch this one (`tj top`). A file in memory, /dev/shm/tjit.UID.PID, has a head and
 * the counters as JSON. A thread sleeps until somebody who looks writes into the head how long, and rings its bell; then it writes the
 * counters four times a second. So calls do nothing for it, and while nobody looks nothing runs.
 *
 * It is not there unless asked for: a process would make a file and a thread that most runs never need, and the names of its functions
 * would be seen by whoever may read the user's files.
 *
 * The process reads and writes the file by calls, and maps it only for the bell: whatever others do to it cannot end the process. It has a
 * lock on it as long as it lives: who finds the file without one may remove it. */
#include "jit/survey.h"
#include "runtime/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
enum {
	OLD = 10,    /* seconds: a younger file without a lock is being made */
	LONGEST = 60 /* seconds that somebody may ask for at a time */
};
static const char MAGIC[8] = "tjlive1\n";
typedef struct head { /* docs/DEBUGGING.md describes it */
	char magic[8];
	uint32_t bell, serial;   /* bell: a futex, which who looks adds 1 to. serial: of the text; odd while it is written */
	uint64_t until;          /* ns of CLOCK_MONOTONIC: it is written until then */
	uint64_t bytes;          /* of the text, which begins at TEXT */
} head;
enum { TEXT = 64 };
_Static_assert(sizeof(head) <= TEXT, "the text is behind the head");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;      /* the process that has the file; a child has none at first */
static int fd = -1;
static uint32_t *bell;
static char path[64];

/* ---- files of processes that are gone ---- */
static bool is_gone(int at)
{
	struct stat st;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	if (fstat(at, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || time(NULL) - st.st_mtime < OLD) return false;
	return !fcntl(at, F_GETLK, &l) && l.l_type == F_UNLCK;
}

static void sweep(void)
{
	char mine[32];
	DIR *d = opendir(FOLDER);
	const size_t n = (size_t)snprintf(mine, sizeof mine, "tjit.%u.", (unsigned)geteuid());
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (strncmp(e->d_name, mine, n) != 0) continue;
		const int at = openat(dirfd(d), e->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (at >= 0 && is_gone(at)) unlinkat(dirfd(d), e->d_name, 0);
		if (at >= 0) close(at);
	}
	if (d) closedir(d);
}

/* ---- the text ---- */
static void add_engine(void *s, jit_engine *e) { jit_survey_engine(s, e); }

static bool put_at(const void *p, size_t n, off_t at)
{
	for (const char *from = p; n;) {
		const ssize_t put = pwrite(fd, from, n, at);
		if (put < 0 && errno == EINTR) continue;
		if (put <= 0) return false;
		from += put, at += put, n -= (size_t)put;
	}
	return true;
}

static bool publish(uint32_t serial)
{
	jit_survey s = { 0 };
	rt_text t = { 0 };
	jit_each_engine(add_engine, &s);
	jit_put_live(&t, &s);
	jit_survey_free(&s);
	const uint64_t bytes = t.n;
	bool ok = t.oom; /* then this time is left out */
	if (!ok) {
		serial |= 1;
		ok = put_at(&serial, sizeof serial, offsetof(head, serial)) && put_at(t.s, t.n, TEXT) &&
		     put_at(&bytes, sizeof bytes, offsetof(head, bytes));
		serial++;
		ok = ok && put_at(&serial, sizeof serial, offsetof(head, serial));
	}
	rt_text_free(&t);
	return ok;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Ends when the file is no longer what it was. */
static void *serve(void *unused)
{
	static const struct timespec pause = { .tv_nsec = 250000000 };
	(void)unused;
	prctl(PR_SET_NAME, "tj-live");
	for (head h; pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && !memcmp(h.magic, MAGIC, sizeof MAGIC);) {
		const uint64_t at = now();
		const bool looks = at < h.until && h.until - at <= (uint64_t)LONGEST * 1000000000;
		if (looks && !publish(h.serial)) return NULL;
		if (syscall(SYS_futex, bell, FUTEX_WAIT, h.bell, looks ? &pause : NULL, NULL, 0) && errno == EFAULT) return NULL;
	}
	return NULL;
}

/* ---- beginning and end ---- */
static void end(void)
{
	if (owner == getpid()) unlink(path);
}

static bool start_thread(void)
{
	sigset_t all, was;
	pthread_attr_t a;
	pthread_t t;
	if (pthread_attr_init(&a)) return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are for the program's own threads */
	const bool ok = !pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED) && !pthread_create(&t, &a, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&a);
	return ok;
}

static bool open_file(void)
{
	const struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	head h = { .bell = 0 };
	memcpy(h.magic, MAGIC, sizeof h.magic);
	snprintf(path, sizeof path, FOLDER "/tjit.%u.%d", (unsigned)geteuid(), (int)getpid());
	unlink(path); /* of an earlier process with this number */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, 0600) || fcntl(fd, F_SETLK, &l) || ftruncate(fd, TEXT) || !put_at(&h, sizeof h, 0)) return false;
	void *at = mmap(NULL, TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) return false;
	madvise(at, TEXT, MADV_DONTFORK);
	bell = (uint32_t *)((char *)at + offsetof(head, bell));
	return true;
}

static void begin(const rt_log_to *log)
{
	static bool at_exit;
	if (fd >= 0) close(fd); /* of the parent */
	fd = -1;
	sweep();
	const bool ok = open_file() && start_thread();
	const int why = errno;
	owner = getpid();
	if (!at_exit) at_exit = !atexit(end);
	if (ok) return;
	if (fd >= 0) unlink(path), close(fd);
	fd = -1;
	rt_warn(log, "TJ_LIVE=1: %s: %s; tj top cannot watch this process", path, strerror(why));
}

void jit_live_begin(const rt_log_to *log)
{
	const char *v = secure_getenv("TJ_LIVE");
	if (!v || strcmp(v, "1") != 0) {
		if (v && *v && strcmp(v, "0") != 0) rt_warn(log, "TJ_LIVE=%s is neither 0 nor 1; it is ignored", v);
		return;
	}
	rt_lock(&lock);
	if (owner != getpid()) begin(log);
	rt_unlock(&lock);
}
