/* SPDX-License-Identifier: MIT */
/* The disk cache: what it keeps and finds, and that no file in it, whatever its bytes, is taken for code that it is not. */
#include "runtime/codes.h"
#include "test/kit.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/tjit-store-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- a store by itself ---- */
typedef struct said { int lines; char last[600]; } said;
static void listen(void *self, const char *line)
{
	said *s = self;
	s->lines++;
	snprintf(s->last, sizeof s->last, "%s", line);
}

static rt_log_to quiet;
static rt_store *open_store(const char *how)
{
	rt_store *s = rt_store_new(how ? how : folder, &quiet);
	assert_non_null(s);
	return s;
}

static rt_span span(const char *text) { return (rt_span){ text, strlen(text) }; }

static bool found(rt_store *s, const char *key, const char *body)
{
	void *file;
	rt_span is;
	if (!rt_store_get(s, RT_STORE_CODE, span(key), &file, &is)) return false;
	assert_int_equal(is.bytes, strlen(body));
	assert_memory_equal(is.at, body, is.bytes);
	rt_free(file);
	return true;
}

static uint64_t missed(rt_store *s, rt_miss m) { return rt_store_count(s).miss[m]; }

/* The path of the only entry. */
static char path[600];
static bool one(void *env, const rt_store_entry *e)
{
	++*(int *)env;
	snprintf(path, sizeof path, "%s", e->path);
	return true;
}
static int entries(rt_store *s)
{
	int n = 0;
	rt_err err = { 0 };
	assert_int_equal(rt_store_walk(s, false, one, &n, &err), TJ_OK);
	return n;
}

static void test_put_and_get(void **state)
{
	(void)state;
	rt_store *s = open_store(NULL);
	assert_false(found(s, "a", "one"));
	rt_store_put(s, RT_STORE_CODE, span("a"), span("one"));
	rt_store_put(s, RT_STORE_CODE, span("b"), span("two"));
	assert_true(found(s, "a", "one"));
	assert_true(found(s, "b", "two"));
	rt_store_put(s, RT_STORE_CODE, span("a"), span("three")); /* the last one holds */
	assert_true(found(s, "a", "three"));
	void *file;
	rt_span body;
	assert_false(rt_store_get(s, RT_STORE_CUBIN, span("a"), &file, &body)); /* another kind */
	assert_int_equal(entries(s), 2);
	rt_store_counts n = rt_store_count(s);
	assert_int_equal(n.hits, 3);
	assert_int_equal(n.stored, 3);
	assert_int_equal(n.miss[RT_MISS_ABSENT], 2);
	uint64_t files, bytes;
	rt_err err = { 0 };
	assert_int_equal(rt_store_clear(s, &files, &bytes, &err), TJ_OK);
	assert_int_equal(files, 2);
	assert_false(found(s, "b", "two"));
	rt_store_free(s);
}

/* ---- damage ---- */
static unsigned char *read_path(size_t *n)
{
	void *bytes = NULL;
	assert_int_equal(rt_store_read(path, &bytes, n), RT_MISS_ABSENT);
	assert_non_null(bytes);
	return bytes;
}

static void write_path(const void *bytes, size_t n)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
	chmod(path, 0600);
}

static const char BODY[] = "a body that is long enough to have a middle: 0123456789abcdefghijklmnopqrstuvwxyz";

/* Of the bytes as a file and as memory that ends where the entry does. */
static rt_miss checked(const void *bytes, size_t n)
{
	int kind;
	rt_span key, body;
	void *copy = malloc(n ? n : 1); /* the address sanitizer finds what is read beyond it */
	memcpy(copy, bytes, n);
	const rt_miss m = rt_store_check(copy, n, &kind, &key, &body);
	free(copy);
	return m;
}

static void test_every_byte_counts(void **state)
{
	(void)state;
	rt_store *s = open_store(NULL);
	size_t n;
	int seen[RT_MISSES] = { 0 };
	rt_store_put(s, RT_STORE_CODE, span("key"), span(BODY));
	assert_int_equal(entries(s), 1);
	unsigned char *bytes = read_path(&n);
	for (size_t i = 0; i < n; i++)
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (unsigned char)(1 << bit);
			const rt_miss m = checked(bytes, n);
			assert_int_not_equal(m, RT_MISS_ABSENT);
			seen[m]++;
			if (!bit) {
				write_path(bytes, n);
				assert_false(found(s, "key", BODY));
			}
			bytes[i] ^= (unsigned char)(1 << bit);
		}
	for (size_t i = 0; i < n; i++) {
		assert_int_not_equal(checked(bytes, i), RT_MISS_ABSENT);
		write_path(bytes, i);
		assert_false(found(s, "key", BODY));
	}
	assert_true(seen[RT_MISS_MAGIC] && seen[RT_MISS_FORMAT] && seen[RT_MISS_LENGTH] && seen[RT_MISS_CHECKSUM]);
	unsigned char *more = malloc(n + 1);
	memcpy(more, bytes, n);
	more[n] = 0;
	assert_int_equal(checked(more, n + 1), RT_MISS_LENGTH);
	free(more);
	write_path(bytes, n);
	assert_true(found(s, "key", BODY));
	rt_free(bytes);
	rt_store_free(s);
}

static uint64_t next(uint64_t *x) { return *x = *x * 6364136223846793005u + 1442695040888963407u; }

/* Several changes at once: bytes, lengths, pieces moved. */
static void test_mutations(void **state)
{
	(void)state;
	rt_store *s = open_store(NULL);
	size_t n;
	uint64_t seed = 1;
	rt_store_put(s, RT_STORE_CODE, span("key"), span(BODY));
	assert_int_equal(entries(s), 1);
	unsigned char *bytes = read_path(&n);
	const int rounds = getenv("TEST_SAMPLE") ? 50000 : 1000000;
	for (int i = 0; i < rounds; i++) {
		unsigned char to[512];
		size_t m = n;
		memcpy(to, bytes, n);
		for (uint64_t k = next(&seed) >> 62; k < 4; k++) {
			const size_t at = (size_t)(next(&seed) >> 33) % n, from = (size_t)(next(&seed) >> 33) % n, len = (size_t)(next(&seed) >> 60);
			if (next(&seed) >> 63) to[at] = (unsigned char)(next(&seed) >> 56);
			else if (at + len <= n && from + len <= n) memmove(to + at, to + from, len);
			if (!(next(&seed) >> 60)) m = (size_t)(next(&seed) >> 33) % (n + 1);
		}
		if (m == n && !memcmp(to, bytes, n)) continue;
		assert_int_not_equal(checked(to, m), RT_MISS_ABSENT);
	}
	rt_free(bytes);
	rt_store_free(s);
}

/* An entry as another build of the library would write it: its checksum is right. */
static void test_another_build(void **state)
{
	(void)state;
	enum { BUILD_AT = 16, SUM_AT = 64, HEAD = 80 }; /* of the head, runtime/store.c */
	rt_store *s = open_store(NULL);
	size_t n;
	uint64_t of[4];
	rt_store_put(s, RT_STORE_CODE, span("key"), span(BODY));
	assert_int_equal(entries(s), 1);
	unsigned char *bytes = read_path(&n);
	assert_memory_equal(bytes + BUILD_AT, rt_build(), 32);
	for (int i = 0; i < 2; i++) { /* first as it is, to see that the sum is computed as the store does */
		bytes[BUILD_AT] ^= (unsigned char)i;
		memset(bytes + SUM_AT, 0, 16);
		rt_hash128(bytes, HEAD, of);
		rt_hash128(bytes + HEAD, n - HEAD, of + 2);
		uint64_t sum[2];
		rt_hash128(of, sizeof of, sum);
		memcpy(bytes + SUM_AT, sum, sizeof sum);
		write_path(bytes, n);
		assert_int_equal(found(s, "key", BODY), !i);
	}
	assert_int_equal(missed(s, RT_MISS_BUILD), 1);
	rt_free(bytes);
	rt_store_free(s);
}

static void test_another_key(void **state)
{
	(void)state;
	char first[600];
	size_t n;
	rt_store *s = open_store(NULL);
	rt_store_put(s, RT_STORE_CODE, span("a"), span("one"));
	assert_int_equal(entries(s), 1);
	snprintf(first, sizeof first, "%s", path);
	unsigned char *bytes = read_path(&n);
	assert_int_equal(unlink(path), 0);
	rt_store_put(s, RT_STORE_CODE, span("b"), span("two"));
	assert_int_equal(entries(s), 1);
	write_path(bytes, n); /* the entry of a, under the name of b */
	assert_false(found(s, "b", "two"));
	assert_int_equal(missed(s, RT_MISS_KEY), 1);
	rt_free(bytes);
	rt_store_free(s);
}

/* ---- who may do what ---- */
static void test_modes(void **state)
{
	(void)state;
	rt_store *s = open_store(NULL);
	rt_store_put(s, RT_STORE_CODE, span("a"), span("one"));
	assert_int_equal(entries(s), 1);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	chmod(path, 0622);
	assert_false(found(s, "a", "one"));
	chmod(path, 0600);
	assert_true(found(s, "a", "one"));
	char elsewhere[700];
	snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
	assert_int_equal(rename(path, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, path), 0); /* a link */
	assert_false(found(s, "a", "one"));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
	assert_false(found(s, "a", "one"));
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_false(found(s, "a", "one"));
	assert_int_equal(missed(s, RT_MISS_DENIED), 4);
	rmdir(path);
	if (geteuid() == 0) {
		assert_int_equal(rename(elsewhere, path), 0);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_false(found(s, "a", "one"));
	} else SKIP("another owner: the tests do not run as root");
	rt_store_free(s);
}

static void test_folders(void **state)
{
	(void)state;
	said heard = { 0 };
	quiet = (rt_log_to){ .to = listen, .self = &heard };
	chmod(folder, 0777);
	rt_store *s = open_store(NULL);
	assert_null(rt_store_folder(s));
	assert_non_null(strstr(rt_store_why(s), "others may write"));
	rt_store_put(s, RT_STORE_CODE, span("a"), span("one"));
	assert_false(found(s, "a", "one"));
	assert_int_equal(missed(s, RT_MISS_OFF), 1);
	assert_int_equal(heard.lines, 1); /* told once */
	rt_store_free(s);
	chmod(folder, 0700);
	char below[100];
	snprintf(below, sizeof below, "%s/x/y/z", folder);
	s = open_store(below);
	rt_store_put(s, RT_STORE_CODE, span("a"), span("one"));
	assert_true(found(s, "a", "one"));
	rt_store_free(s);
	snprintf(below, sizeof below, "ro:%s/x/y/z", folder);
	s = open_store(below);
	assert_true(found(s, "a", "one"));
	rt_store_put(s, RT_STORE_CODE, span("b"), span("two"));
	assert_false(found(s, "b", "two"));
	rt_store_free(s);
	snprintf(below, sizeof below, "ro:%s/nowhere", folder);
	s = open_store(below);
	assert_null(rt_store_folder(s));
	rt_store_free(s);
	s = open_store("off");
	assert_null(rt_store_folder(s));
	assert_false(rt_store_writes(s));
	rt_store_free(s);
	if (geteuid() == 0) {
		assert_int_equal(chown(folder, 12345, 12345), 0);
		s = open_store(NULL);
		assert_null(rt_store_folder(s));
		assert_non_null(strstr(rt_store_why(s), "another user"));
		rt_store_free(s);
		assert_int_equal(chown(folder, 0, 0), 0);
	} else SKIP("a folder of another owner: the tests do not run as root");
	quiet = (rt_log_to){ 0 };
}

static void test_no_home(void **state)
{
	(void)state;
	unsetenv("TJ_CACHE");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	rt_store *s = open_store("");
	assert_null(rt_store_folder(s));
	rt_store_free(s);
	setenv("XDG_CACHE_HOME", "relative", 1); /* the rules say: ignore it */
	setenv("HOME", folder, 1);
	s = open_store("");
	char expected[100];
	snprintf(expected, sizeof expected, "%s/.cache/tjit", folder);
	assert_string_equal(rt_store_folder(s), expected);
	rt_store_free(s);
	setenv("TJ_CACHE", "off", 1);
}

/* A disk that is full, as far as the process can tell: files stay below a size. */
static void test_full(void **state)
{
	(void)state;
	struct rlimit old, few;
	said heard = { 0 };
	quiet = (rt_log_to){ .to = listen, .self = &heard };
	rt_store *s = open_store(NULL);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	few = (struct rlimit){ 100, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &few);
	rt_store_put(s, RT_STORE_CODE, span("a"), span(BODY));
	rt_store_put(s, RT_STORE_CODE, span("b"), span(BODY));
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(rt_store_count(s).failed, 2);
	assert_int_equal(heard.lines, 1);
	assert_non_null(strstr(heard.last, "cannot be written"));
	assert_int_equal(entries(s), 0);
	rt_store_put(s, RT_STORE_CODE, span("a"), span(BODY));
	assert_true(found(s, "a", BODY));
	rt_store_free(s);
	quiet = (rt_log_to){ 0 };
}

/* ---- size ---- */
static size_t total;
static bool add_size(void *env, const rt_store_entry *e)
{
	(void)env;
	total += e->bytes;
	return true;
}

static void test_eviction(void **state)
{
	(void)state;
	enum { BIG = 3000, COUNT = 4000 };
	char *body = malloc(BIG + 1), key[32];
	memset(body, 'x', BIG);
	body[BIG] = 0;
	setenv("TJ_CACHE_MB", "4", 1);
	rt_store *s = open_store(NULL);
	unsetenv("TJ_CACHE_MB");
	rt_err err = { 0 };
	for (int i = 0; i < COUNT; i++) { /* 12 MB */
		snprintf(key, sizeof key, "%d", i);
		rt_store_put(s, RT_STORE_CODE, span(key), span(body));
	}
	total = 0;
	assert_int_equal(rt_store_walk(s, false, add_size, NULL, &err), TJ_OK);
	if (total > 2 * (4 << 20) || total < 1 << 20) fail_msg("%zu bytes", total);
	assert_true(found(s, key, body)); /* the last one */
	free(body);
	rt_store_free(s);
}

static void used_apart(int64_t us)
{
	rt_store *s = open_store(NULL);
	char sub[700];
	s->most = RT_STORE_FANOUT * 1000; /* bytes: six of the entries below for each subfolder */
	assert_non_null(rt_store_folder(s));
	snprintf(sub, sizeof sub, "%s/aa", folder);
	mkdir(sub, 0700);
	char name[800];
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof name, "%s/%030x.code", sub, (i * 7) % 12 + 1);
		FILE *f = fopen(name, "w");
		for (int k = 0; k < 160; k++) fputc('x', f);
		fclose(f);
		const struct timeval then = { .tv_sec = 1000000 + i * us / 1000000, .tv_usec = i * us % 1000000 };
		utimes(name, (struct timeval[]){ then, then });
	}
	snprintf(name, sizeof name, "%s/.123.4.tmp", sub);
	fclose(fopen(name, "w"));
	struct timeval at[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	utimes(name, at);
	rt_store_sweep(s, sub);
	assert_int_equal(access(name, F_OK), -1); /* of a process that was killed */
	for (int i = 0; i < 12; i++) { /* seven eighths of its share stay: five */
		snprintf(name, sizeof name, "%s/%030x.code", sub, (i * 7) % 12 + 1);
		assert_int_equal(access(name, F_OK), i < 7 ? -1 : 0);
	}
	rt_store_free(s);
}

static void test_least_recently_used(void **state)
{
	(void)state;
	used_apart(3600 * 1000000LL);
	used_apart(1000); /* all within one second */
}

/* ---- code ---- */
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(tj_exp(in[0]), tj_add(in[0], tj_sin(in[1])));
}

static tj_stats run(const char *cache, float *to, tj_cache_info *info)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .cache = cache, .backend = "llvm"));
	tj_fn *f = kit_fn(c, "f", body, NULL, 2, 1);
	float x[40];
	for (int i = 0; i < 40; i++) x[i] = (float)i / 8 - 2;
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(40), x), *out[1];
	tj_call(f, out, TJ_LIST(t, t));
	tj_read(out[0], to, 40 * sizeof *to);
	kit_ok(c);
	tj_stats s = kit_stats(f);
	*info = (tj_cache_info){ .size = sizeof *info };
	tj_cache_info(c, info);
	info->folder = info->folder ? "on" : NULL;
	info->why = NULL;
	tj_close(c);
	return s;
}

static void test_code(void **state)
{
	(void)state;
	float first[40], second[40];
	tj_cache_info info;
	tj_stats s = run(folder, first, &info);
	assert_int_equal(s.compiled, 1);
	assert_int_equal(s.loaded, 0);
	assert_int_equal(info.stored, 1);
	s = run(folder, second, &info);
	assert_int_equal(s.compiled, 0);
	assert_int_equal(s.loaded, 1);
	assert_true(s.codegen_ms == 0);
	assert_int_equal(info.hits, 1);
	assert_int_equal(info.stored, 0);
	assert_memory_equal(first, second, sizeof first);
	s = run("off", second, &info);
	assert_int_equal(s.compiled, 1);
	assert_memory_equal(first, second, sizeof first);
}

static tj_cache_info info_of(tj_ctx *c)
{
	tj_cache_info info = { .size = sizeof info };
	assert_int_equal(tj_cache_info(c, &info), TJ_OK);
	return info;
}

/* A new function of the same body: how many kernels it loaded; its results are those of the first one. */
static uint64_t equal(tj_ctx *c, tj_fn **f)
{
	static float first[40];
	float x[40], y[40];
	for (int i = 0; i < 40; i++) x[i] = (float)i / 8 - 2;
	if (!*f) *f = kit_fn(c, "f", body, NULL, 2, 1);
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(40), x), *out[1];
	tj_call(*f, out, TJ_LIST(t, t));
	tj_read(out[0], y, sizeof y);
	kit_ok(c);
	if (!first[1]) memcpy(first, y, sizeof y);
	assert_memory_equal(first, y, sizeof y);
	return kit_stats(*f).loaded;
}

/* Functions with equal kernels: the code is read once, and lives as long as one of them. */
static void test_equal(void **state)
{
	(void)state;
	for (int warm = 0; warm < 2; warm++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .cache = folder, .backend = "llvm"));
		tj_fn *f[4] = { NULL };
		assert_int_equal(equal(c, &f[0]), warm);
		const uint64_t bytes = info_of(c).read_bytes;
		assert_true(warm ? bytes > 0 : !bytes);
		assert_int_equal(equal(c, &f[1]), 1);
		assert_int_equal(info_of(c).read_bytes, bytes);
		assert_int_equal(info_of(c).hits, warm + 1);
		tj_fn_free(f[0]);
		equal(c, &f[1]);
		assert_int_equal(tj_cache_clear(c, NULL, NULL), TJ_OK);
		equal(c, &f[1]);
		assert_int_equal(equal(c, &f[2]), 0); /* it is compiled and written again */
		assert_int_equal(info_of(c).stored, 2 - warm);
		tj_fn_free(f[1]);
		assert_int_equal(equal(c, &f[3]), 1);
		equal(c, &f[2]);
		tj_close(c);
	}
}

static int destroyed;
static void destroy(rt_shared *x) { (void)x, destroyed++; }
static void entry_of(void) {}

static void test_codes(void **state)
{
	(void)state;
	enum { N = 600, KEEPS = 512 };
	rt_codes *c = rt_codes_new();
	rt_shared code[N], *is;
	rt_entry fn = NULL;
	for (int round = 0; round < 2; round++) {
		destroyed = 0;
		for (int i = 0; i < N; i++) {
			code[i] = (rt_shared){ .refs = 1, .destroy = destroy };
			for (int twice = 0; twice < 2; twice++) rt_codes_add(c, (rt_span){ &i, sizeof i }, entry_of, &code[i]);
			rt_shared_unref(&code[i]);
		}
		assert_int_equal(destroyed, N - KEEPS);
		for (int i = 0; i < N; i++) {
			const bool there = rt_codes_find(c, (rt_span){ &i, sizeof i }, &fn, &is);
			assert_int_equal(there, i >= N - KEEPS);
			assert_true(!there || (is == &code[i] && fn == entry_of));
			if (there) rt_shared_unref(is);
		}
		assert_false(rt_codes_find(c, (rt_span){ &fn, 1 }, &fn, &is));
		if (!round) rt_codes_clear(c);
		else rt_codes_free(c);
		assert_int_equal(destroyed, N);
	}
}

/* An entry with a right checksum whose body is no code. */
static void test_content(void **state)
{
	(void)state;
	float first[40], second[40];
	tj_cache_info info;
	run(folder, first, &info);
	rt_store *s = open_store(NULL);
	assert_int_equal(entries(s), 1);
	size_t n;
	int kind;
	rt_span key, is;
	unsigned char *bytes = read_path(&n);
	assert_int_equal(rt_store_check(bytes, n, &kind, &key, &is), RT_MISS_ABSENT);
	unsigned char *other = malloc(is.bytes);
	for (int i = 0; i < 4; i++) { /* too short, another width, a feature that no CPU has, an entry beyond the code */
		memcpy(other, is.at, is.bytes);
		if (i) other[(size_t)(i - 1) * 4 + 2] = 0xff;
		rt_store_put(s, RT_STORE_CODE, key, (rt_span){ other, i ? is.bytes : 7 });
		tj_stats st = run(folder, second, &info);
		assert_int_equal(st.compiled, 1);
		assert_int_equal(st.loaded, 0);
		assert_memory_equal(first, second, sizeof first);
		st = run(folder, second, &info); /* it was written anew */
		assert_int_equal(st.loaded, 1);
	}
	free(other);
	rt_free(bytes);
	rt_store_free(s);
}

typedef struct walked { int n, whole; bool about; } walked;
static bool walk(void *env, const tj_cache_entry *e)
{
	walked *w = env;
	w->n++;
	w->whole += !e->miss;
	w->about |= e->about && strstr(e->about, "x86-64-v") && strstr(e->about, "kernel");
	return true;
}

static void test_walk(void **state)
{
	(void)state;
	float to[40];
	tj_cache_info info;
	run(folder, to, &info);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .cache = folder));
	walked w = { 0 };
	assert_int_equal(tj_cache_walk(c, true, walk, &w), TJ_OK);
	assert_int_equal(w.n, 1);
	assert_int_equal(w.whole, 1);
	assert_true(w.about);
	rt_store *s = open_store(NULL);
	entries(s);
	rt_store_free(s);
	assert_int_equal(truncate(path, 50), 0);
	w = (walked){ 0 };
	tj_cache_walk(c, true, walk, &w);
	assert_int_equal(w.n, 1);
	assert_int_equal(w.whole, 0);
	uint64_t files, bytes;
	assert_int_equal(tj_cache_clear(c, &files, &bytes), TJ_OK);
	assert_int_equal(files, 1);
	assert_int_equal(bytes, 50);
	assert_int_equal(tj_cache_walk(c, true, NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "visit");
	const char *name, *why;
	uint64_t n;
	int reasons = 0;
	while (tj_cache_miss(c, reasons, &name, &why, &n)) reasons++;
	assert_int_equal(reasons, RT_MISSES);
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .cache = "off"));
	assert_int_equal(tj_cache_walk(c, true, walk, &w), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "off");
	tj_close(c);
}

/* A child of fork() reads and writes the same folder. */
static void test_child(void **state)
{
	(void)state;
	float first[40], second[40];
	tj_cache_info info;
	run(folder, first, &info);
	const pid_t child = fork();
	if (!child) {
		const tj_stats s = run(folder, second, &info);
		_exit(s.loaded == 1 && !memcmp(first, second, sizeof first) ? 0 : 1);
	}
	int status = 1;
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_put_and_get), IN_FOLDER(test_every_byte_counts), IN_FOLDER(test_mutations),
		IN_FOLDER(test_another_key), IN_FOLDER(test_another_build), IN_FOLDER(test_modes), IN_FOLDER(test_folders),
		IN_FOLDER(test_no_home), IN_FOLDER(test_full), IN_FOLDER(test_eviction),
		IN_FOLDER(test_least_recently_used), IN_FOLDER(test_code), IN_FOLDER(test_equal),
		cmocka_unit_test(test_codes), IN_FOLDER(test_content), IN_FOLDER(test_walk),
		IN_FOLDER(test_child),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
