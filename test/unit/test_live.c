/* SPDX-License-Identifier: MIT */
/* Counters for others: the text for Prometheus, read as strictly as its format is described; the file of TJ_LIVE=1, and what may happen to
 * it. */
#include "jit/survey.h"
#include "test/kit.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[0]);
}

/* ---- a reader of the text format 0.0.4 ---- */
enum { SERIES = 400 };
typedef struct series { char name[64], labels[300]; double value; } series;
static series seen[SERIES];
static int nseen;

static bool starts_name(char c) { return isalpha((unsigned char)c) || c == '_' || c == ':'; }
static bool in_name(char c) { return starts_name(c) || isdigit((unsigned char)c); }

static const char *read_name(const char *s, char to[64])
{
	size_t n = 0;
	assert_true(starts_name(*s));
	while (in_name(s[n])) n++;
	assert_true(n < 64);
	memcpy(to, s, n);
	to[n] = 0;
	return s + n;
}

/* {a="b",c="d"}; the values as they are written */
static const char *read_labels(const char *s, char to[300])
{
	char name[64], last[300] = "";
	const char *from = s++;
	while (*s != '}') {
		s = read_name(s, name);
		assert_true(!strstr(last, name) && !strchr(name, ':'));
		strcat(strcat(last, name), " ");
		assert_true(*s++ == '=' && *s++ == '"');
		for (; *s != '"'; s++) {
			assert_true(*s && *s != '\n');
			if (*s == '\\') assert_true(*++s == '\\' || *s == '"' || *s == 'n');
		}
		s++;
		assert_true(*s == ',' || *s == '}');
		if (*s == ',') assert_true(s[1] != '}' && s++);
	}
	assert_true((size_t)(s + 1 - from) < 300);
	memcpy(to, from, (size_t)(s + 1 - from));
	to[s + 1 - from] = 0;
	return s + 1;
}

static void read_sample(const char *line, const char *family, const char *type)
{
	series *s = &seen[nseen++];
	char *end;
	assert_true(nseen < SERIES);
	line = read_name(line, s->name);
	assert_string_equal(s->name, family); /* counters and gauges have one name */
	s->labels[0] = 0;
	if (*line == '{') line = read_labels(line, s->labels);
	assert_int_equal(*line++, ' ');
	s->value = strtod(line, &end);
	assert_true(end > line && *end == '\n');
	assert_true(isfinite(s->value) && s->value >= 0);
	for (int i = 0; i < nseen - 1; i++) assert_false(!strcmp(seen[i].name, s->name) && !strcmp(seen[i].labels, s->labels));
	const size_t n = strlen(family);
	assert_int_equal(!strcmp(type, "counter"), n > 6 && !strcmp(family + n - 6, "_total"));
}

/* Each family begins with HELP, then TYPE, and is in one piece. */
static void read_all(const char *text)
{
	char family[64] = "", all[4000] = " ", type[16] = "", name[64];
	nseen = 0;
	assert_true(*text && text[strlen(text) - 1] == '\n');
	for (; *text; text = strchr(text, '\n') + 1) {
		if (!strncmp(text, "# HELP ", 7)) {
			const char *s = read_name(text + 7, family);
			assert_true(*s == ' ' && s[1] != '\n');
			snprintf(name, sizeof name, " %.60s ", family);
			assert_null(strstr(all, name));
			strcat(all, name);
			*type = 0;
		} else if (!strncmp(text, "# TYPE ", 7)) {
			assert_true(!*type && sscanf(text + 7, "%63s %15s", name, type) == 2);
			assert_string_equal(name, family);
			assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge"));
		} else {
			assert_true(*text != '#' && *type);
			read_sample(text, family, type);
		}
	}
}

static double value_of(const char *name, const char *labels)
{
	for (int i = 0; i < nseen; i++)
		if (!strcmp(seen[i].name, name) && strstr(seen[i].labels, labels)) return seen[i].value;
	fail_msg("no %s{%s}", name, labels);
	return 0;
}

static void metrics(tj_ctx *c)
{
	char *s = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&s, &n);
	assert_int_equal(tj_metrics(c, m), TJ_OK);
	fclose(m);
	read_all(s);
	free(s);
}

static void test_metrics(void **state)
{
	static const char odd[] = "o\"d\\d name \xff\xc3\xa9";
	(void)state;
	tj_ctx *c = kit_open();
	metrics(c); /* no function yet */
	tj_fn *f = kit_fn(c, "f", twice, NULL, 1, 1);
	tj_fn *g = tj_compile_at("a\nb.c:1", c, twice, NULL, TJ_OPTS(tj_compile_opts, .name = odd, .nin = 1, .nout = 1));
	tj_fn *same[2];
	for (int i = 0; i < 2; i++) same[i] = kit_fn(c, "same", twice, NULL, 1, 1);
	for (int i = 0; i < 5; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	tj_call1(g, TJ_LIST(F32(c, 1)));
	for (int i = 0; i < 2; i++) tj_call1(same[i], TJ_LIST(F32(c, 1)));
	kit_ok(c);
	metrics(c);
	assert_true(value_of("tjit_calls_total", "function=\"f\"") == 6);
	assert_true(value_of("tjit_recordings_total", "function=\"f\"") == 2);
	assert_true(value_of("tjit_hits_total", "function=\"f\"") == 4);
	assert_true(value_of("tjit_calls_total", "function=\"o\\\"d\\\\d name ?\xc3\xa9\",site=\"a\\nb.c:1\"") == 1);
	assert_true(value_of("tjit_calls_total", "function=\"same\"") == 2); /* one line: added up */
	assert_true(value_of("tjit_compile_seconds_total", "function=\"f\"") > 0);
	assert_true(value_of("tjit_memory_bytes", "device=\"cpu\"") > 0);
	assert_true(value_of("tjit_build_info", "version=\"" TJ_VERSION "\"") == 1);
	assert_int_equal(tj_metrics(c, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "out is NULL");
	FILE *full = fopen("/dev/full", "w");
	setvbuf(full, NULL, _IONBF, 0);
	assert_int_equal(tj_metrics(c, full), TJ_ERR_IO);
	fclose(full);
	kit_error(c, TJ_ERR_IO, "could not be written");
	tj_close(c);
}

/* ---- the file ---- */
typedef struct head { char magic[8]; uint32_t bell, serial; uint64_t until, bytes; } head;
static char path[64];

static void path_of(pid_t pid) { snprintf(path, sizeof path, "/dev/shm/tjit.%u.%d", (unsigned)geteuid(), (int)pid); }

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void ring(int fd, uint64_t until)
{
	head *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(h != MAP_FAILED);
	h->until = until;
	__atomic_add_fetch(&h->bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &h->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	munmap(h, sizeof *h);
}

/* Waits for the next text; false: none comes. */
static bool next_text(int fd, uint32_t *serial, char *to, size_t room)
{
	for (int i = 0; i < 500; i++) {
		head h, after;
		assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
		if (h.serial % 2 == 0 && h.serial != *serial && h.bytes < room && pread(fd, to, h.bytes, 64) == (ssize_t)h.bytes) {
			to[h.bytes] = 0;
			assert_int_equal(pread(fd, &after, sizeof after, 0), sizeof after);
			if (after.serial == h.serial) return *serial = h.serial, true;
		}
		usleep(2000);
	}
	return false;
}

static void test_file(void **state)
{
	static char text[1 << 16];
	struct stat st;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	uint32_t serial = 0;
	(void)state;
	path_of(getpid());
	assert_int_equal(access(path, F_OK), -1); /* not before anybody asks */
	setenv("TJ_LIVE", "1", 1);
	tj_ctx *c = kit_open();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	tj_fn *f = kit_fn(c, "live\"", twice, NULL, 1, 1);
	for (int i = 0; i < 7; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	kit_ok(c);
	const pid_t watcher = fork(); /* another process: the lock is ours, and shows there */
	if (!watcher) {
		const int fd = open(path, O_RDWR);
		bool ok = !fcntl(fd, F_GETLK, &l) && l.l_type == F_WRLCK && l.l_pid == getppid();
		head h;
		usleep(400000);
		ok &= pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && h.serial == 0; /* nobody looks: nothing is written */
		ring(fd, now() + 2000000000);
		ok &= next_text(fd, &serial, text, sizeof text) && strstr(text, "\"name\": \"live\\\"\"") && strstr(text, "\"calls\": 7,");
		ok &= next_text(fd, &serial, text, sizeof text); /* it goes on */
		ring(fd, now());
		while (next_text(fd, &serial, text, sizeof text) && serial < 100) {}
		ok &= serial < 20; /* and ends */
		_exit(!ok);
	}
	int status;
	assert_int_equal(waitpid(watcher, &status, 0), watcher);
	assert_int_equal(status, 0);
	const pid_t child = fork(); /* its end leaves our file alone, and it makes one of its own */
	if (!child) {
		tj_ctx *d = kit_open();
		path_of(getpid());
		const bool there = !access(path, F_OK);
		tj_close(d);
		exit(!there);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	path_of(child);
	assert_int_equal(access(path, F_OK), -1);
	path_of(getpid());
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(truncate(path, 0), 0); /* the process goes on */
	const int fd = open(path, O_RDWR);
	assert_int_equal(ftruncate(fd, 64), 0);
	ring(fd, now() + 1000000000);
	usleep(50000);
	assert_int_equal(ftruncate(fd, 0), 0);
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_metrics), cmocka_unit_test(test_file) };
	unsetenv("TJ_LIVE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
