/* SPDX-License-Identifier: MIT */
/* What debuggers and profilers are told of generated code: the files of perf, gdb's list, frame tables. None of it changes a bit. */
#include "runtime/tools.h"
#include "test/kit.h"

#include <elf.h>
#include <execinfo.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

/* The environment is read once, so it is set before all else. */
static __attribute__((constructor)) void ask(void)
{
	snprintf(folder, sizeof folder, "/tmp/tjit-tools-XXXXXX");
	if (!mkdtemp(folder)) exit(1);
	setenv("TJ_PERF", "map,jitdump", 1);
	setenv("TJ_GDB", "1", 1);
	setenv("JITDUMPDIR", folder, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void map_path(char to[64], pid_t pid) { snprintf(to, 64, "/tmp/perf-%d.map", (int)pid); }

static int clean(void **state)
{
	char path[64];
	(void)state;
	map_path(path, getpid());
	unlink(path);
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- a function of several lines ---- */
enum { LINE_EXP = __LINE__ + 4, LINE_SIN, LINE_SUM, LINE_DIV };
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_exp(in[0]);
	h = tj_mul(h, tj_sin(h));
	tj_tensor *s = tj_sum(h, TJ_AXES(1), true);
	out[0] = tj_div(h, s);
}

enum { ROWS = 300, COLUMNS = 200 };
static tj_tensor *input(tj_ctx *c)
{
	static float x[ROWS * COLUMNS];
	for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 997) / 500;
	return tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, COLUMNS), x);
}

static const float *values(tj_ctx *c, const char *name)
{
	tj_fn *f = kit_fn(c, name, body, NULL, 1, 1);
	const float *y = tj_data(tj_call1(f, TJ_LIST(input(c))));
	kit_ok(c);
	return y;
}

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	char *s = malloc(*n + 1);
	assert_int_equal(fread(s, 1, *n, f), *n);
	s[*n] = 0;
	fclose(f);
	return s;
}

/* ---- the bits ---- */
static void test_same_bits(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(NULL), *e = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_ctx_use(e);
	const float *right = values(e, "bits");
	tj_ctx_use(c);
	assert_memory_equal(values(c, "bits"), right, ROWS * COLUMNS * sizeof *right);
	tj_close(c);
	tj_close(e);
}

/* ---- the map of perf ---- */
/* The address that a line of the map gives the name; 0: there is none. */
static unsigned long long mapped(const char *map, const char *name, unsigned long long *bytes)
{
	for (const char *s = map; *s; s += strcspn(s, "\n") + 1) {
		unsigned long long at = 0;
		char as[256];
		if (sscanf(s, "%llx %llx %255s", &at, bytes, as) == 3 && !strcmp(as, name)) return at;
	}
	return 0;
}

static void test_map(void **state)
{
	struct stat st;
	char path[64];
	size_t n;
	unsigned long long bytes = 0;
	(void)state;
	tj_ctx *c = tj_open(NULL);
	values(c, "mapped");
	map_path(path, getpid());
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	char *map = read_file(path, &n);
	assert_true(mapped(map, "tj_mapped_k0:exp+sin+mul+sum+div", &bytes) != 0);
	assert_true(bytes > 100);
	free(map);
	tj_close(c);
}

/* A child has another number, and a file of its own with what it has from its parent. */
static void test_fork(void **state)
{
	char path[64];
	size_t n;
	unsigned long long bytes, was;
	int status;
	(void)state;
	tj_ctx *c = tj_open(NULL);
	values(c, "parent");
	map_path(path, getpid());
	char *map = read_file(path, &n);
	assert_true((was = mapped(map, "tj_parent_k0:exp+sin+mul+sum+div", &bytes)) != 0);
	free(map);
	const pid_t child = fork();
	if (!child) {
		values(c, "child");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	map_path(path, child);
	map = read_file(path, &n);
	assert_true(mapped(map, "tj_parent_k0:exp+sin+mul+sum+div", &bytes) == was);
	assert_true(mapped(map, "tj_child_k0:exp+sin+mul+sum+div", &bytes) != 0);
	free(map);
	unlink(path);
	map_path(path, getpid());
	map = read_file(path, &n);
	assert_true(mapped(map, "tj_child_k0:exp+sin+mul+sum+div", &bytes) == 0);
	free(map);
	tj_close(c);
}

/* ---- jitdump, read by the words of its specification ---- */
static uint64_t word(const char *p, size_t bytes)
{
	uint64_t x = 0;
	memcpy(&x, p, bytes);
	return x;
}

typedef struct seen { /* records before a LOAD */
	bool lines[4], frames;
	uint64_t lines_of;
} seen;

static void see_lines(const char *p, const char *end, seen *s)
{
	static const int wanted[] = { LINE_EXP, LINE_SIN, LINE_SUM, LINE_DIV };
	s->lines_of = word(p, 8);
	const char *at = p + 16;
	for (uint64_t i = 0, n = word(p + 8, 8); i < n; i++) {
		assert_true(end - at > 16);
		for (int k = 0; k < 4; k++) s->lines[k] |= word(at + 8, 4) == (uint64_t)wanted[k];
		assert_string_equal(at + 16, __FILE__);
		at += 16 + strlen(at + 16) + 1;
	}
	assert_true(end - at >= 0 && end - at < 8);
}

/* The header of the frames: its table has one row, and both of its places are what they should be. */
static void see_frames(const char *p, const char *end, size_t code, seen *s)
{
	const uint64_t all = word(p, 8), head = word(p + 8, 8);
	const char *frames = p + 24, *h = frames + all - head;
	assert_true(frames + all <= end && head == 20);
	assert_memory_equal(h, "\1\x1b\3\x3b", 4);
	assert_int_equal((int32_t)word(h + 4, 4), -(int32_t)(all - head) - 4);
	assert_int_equal(word(h + 8, 4), 1);
	const char *fde = h + (int32_t)word(h + 16, 4);
	const size_t from_code = (code + 7) / 8 * 8;
	assert_int_equal((int32_t)word(h + 12, 4), -(int32_t)(from_code + (size_t)(h - frames)));
	assert_ptr_equal(fde - word(fde + 4, 4) + 4, frames);
	assert_int_equal((int32_t)word(fde + 8, 4), -(int32_t)(from_code + (size_t)(fde + 8 - frames)));
	assert_int_equal(word(fde + 12, 4), code);
	s->frames = true;
}

static void test_jitdump(void **state)
{
	char path[120];
	size_t n;
	(void)state;
	tj_ctx *c = tj_open(NULL);
	values(c, "dumped");
	snprintf(path, sizeof path, "%s/jit-%d.dump", folder, (int)getpid());
	char *all = read_file(path, &n);
	assert_int_equal(word(all, 4), 0x4a695444);
	assert_int_equal(word(all + 4, 4), 1);
	assert_int_equal(word(all + 8, 4), 40);
	assert_int_equal(word(all + 12, 4), EM_X86_64);
	assert_int_equal(word(all + 20, 4), getpid());
	seen s = { 0 };
	bool found = false;
	const char *frames = NULL, *frames_end = NULL;
	uint64_t time = 0;
	for (size_t at = 40; at < n;) {
		const char *p = all + at + 16;
		const size_t bytes = word(all + at + 4, 4);
		assert_true(bytes >= 16 && bytes % 8 == 0 && bytes <= n - at);
		assert_true(word(all + at + 8, 8) >= time);
		time = word(all + at + 8, 8);
		switch (word(all + at, 4)) {
		case 2: see_lines(p, all + at + bytes, &s); break;
		case 4: frames = p, frames_end = all + at + bytes; break;
		case 0: {
			const char *name = p + 40, *code = name + strlen(name) + 1;
			const uint64_t address = word(p + 16, 8), size = word(p + 24, 8);
			assert_int_equal(word(p, 4), getpid());
			if (frames) see_frames(frames, frames_end, size, &s);
			if (!strcmp(name, "tj_dumped_k0:exp+sin+mul+sum+div")) {
				found = true;
				assert_true(s.frames && s.lines[0] && s.lines[1] && s.lines[2] && s.lines[3]);
				assert_int_equal(s.lines_of, address);
				assert_memory_equal(code, (const void *)(uintptr_t)address, size);
			}
			s = (seen){ 0 };
			frames = NULL;
			break;
		}
		default: fail_msg("an unknown record");
		}
		at += bytes;
	}
	assert_true(found);
	free(all);
	tj_close(c);
}

/* ---- gdb's list ---- */
typedef struct entry { struct entry *next, *prev; const char *file; uint64_t bytes; } entry;
extern struct { uint32_t version, action; entry *relevant, *first; } __jit_debug_descriptor;

static const Elf64_Shdr *section_named(const char *elf, const char *name)
{
	const Elf64_Ehdr *h = (const void *)elf;
	const Elf64_Shdr *s = (const void *)(elf + h->e_shoff);
	for (int i = 0; i < h->e_shnum; i++)
		if (!strcmp(elf + s[h->e_shstrndx].sh_offset + s[i].sh_name, name)) return &s[i];
	fail_msg("no section %s", name);
	return NULL;
}

static const char *symbol(const char *elf)
{
	const Elf64_Sym *s = (const void *)(elf + section_named(elf, ".symtab")->sh_offset);
	return elf + section_named(elf, ".strtab")->sh_offset + s[1].st_name;
}

static int listed(const char *name)
{
	int n = 0;
	for (const entry *e = __jit_debug_descriptor.first; e; e = e->next) n += !strcmp(symbol(e->file), name);
	return n;
}

static void test_gdb(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(NULL);
	values(c, "listed");
	assert_int_equal(__jit_debug_descriptor.version, 1);
	assert_int_equal(__jit_debug_descriptor.action, 0);
	assert_int_equal(listed("tj_listed_k0"), 1);
	const char *elf = __jit_debug_descriptor.first->file;
	assert_memory_equal(elf, ELFMAG, SELFMAG);
	assert_true(section_named(elf, ".debug_line")->sh_size > 60 && section_named(elf, ".eh_frame")->sh_size > 24);
	tj_close(c);
	assert_int_equal(listed("tj_listed_k0"), 0);
	assert_null(__jit_debug_descriptor.first);
}

/* ---- unwinding ---- */
static uintptr_t code_from, code_to, here_from, here_to;
static volatile sig_atomic_t inside, through;

/* Interrupts a kernel: the frames above it must lead here. */
static void on_time(int signal)
{
	void *frame[64];
	bool in = false, out = false;
	(void)signal;
	const int n = backtrace(frame, 64);
	for (int i = 0; i < n; i++) {
		const uintptr_t at = (uintptr_t)frame[i];
		in |= at >= code_from && at < code_to;
		out |= in && at >= here_from && at < here_to;
	}
	inside += in;
	through += out;
}

static __attribute__((noinline)) void run_long(tj_ctx *c, tj_fn *f, tj_tensor *x)
{
	for (int i = 0; i < 20000 && inside < 5; i++) {
		tj_scope *s = tj_push(c);
		tj_call1(f, TJ_LIST(x));
		tj_pop(s);
	}
}

/* Interrupts calls of the function until five hits were inside its code of that name. */
static void unwind_from(tj_ctx *c, const char *name, tj_body *what, const char *code)
{
	char path[64];
	size_t n;
	unsigned long long bytes;
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	tj_fn *f = kit_fn(c, name, what, NULL, 1, 1);
	tj_tensor *x = input(c);
	tj_call1(f, TJ_LIST(x));
	map_path(path, getpid());
	char *map = read_file(path, &n);
	code_from = (uintptr_t)mapped(map, code, &bytes);
	assert_true(code_from != 0);
	code_to = code_from + bytes;
	free(map);
	inside = through = 0;
	assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
	run_long(c, f, x);
	setitimer(ITIMER_PROF, &off, NULL);
	kit_ok(c);
	assert_true(inside >= 5);
	assert_int_equal(through, inside);
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], tj_transpose(in[0], 0, 1));
}

static void test_unwind(void **state)
{
	void *first[4];
	void (*from)(tj_ctx *, tj_fn *, tj_tensor *) = run_long;
	(void)state;
	if (SANITIZED) SKIP("the sanitizer's own backtrace() takes over");
	memcpy(&here_from, &from, sizeof from);
	here_to = here_from + 4096;
	assert_true(backtrace(first, 4) > 0); /* opens libgcc_s, which a handler must not */
	signal(SIGPROF, on_time);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .threads = 1));
	unwind_from(c, "unwound", body, "tj_unwound_k0:exp+sin+mul+sum+div");
	const char *loader = getenv("TJ_LOADER");
	if (!loader || strcmp(loader, "orc") != 0) unwind_from(c, "tiles", product, "tj_tiles_k0.part1:matmul"); /* it calls a function */
	tj_close(c);
}

/* ---- kernels of one form, of two lines ---- */
static void pair(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(in[0]);
	out[1] = tj_exp(in[1]);
}

static void test_apart(void **state)
{
	static const float x[100], y[100];
	char path[64];
	size_t n;
	unsigned long long bytes;
	tj_tensor *out[2];
	(void)state;
	tj_ctx *c = tj_open(NULL);
	tj_call(kit_fn(c, "pair", pair, NULL, 2, 2), out,
	        TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(100), x), tj_from_data(c, TJ_F32, TJ_SHAPE(100), y)));
	kit_ok(c);
	map_path(path, getpid());
	char *map = read_file(path, &n);
	const unsigned long long first = mapped(map, "tj_pair_k0:exp", &bytes), second = mapped(map, "tj_pair_k1:exp", &bytes);
	free(map);
	assert_true(first && second && first != second);
	tj_close(c);
}

/* ---- the bytes ---- */
static void put_example(rt_text *t)
{
	static const unsigned char cfa[] = { 0x41, 0x0e, 0x10, 0x86, 0x02, 0x43, 0x0d, 0x06, 0x02, 0x80, 0xc6, 0x0c, 0x07, 0x08 };
	rt_piece piece[] = { { 0, 100, "tj_a_k0", "add", cfa, sizeof cfa }, { 128, 64, "tj_a_k0.part1", "", NULL, 0 } };
	rt_line_row row[] = { { 0, 0, 3 }, { 7, 1, 9 }, { 128, 0, 0 } };
	const char *file[] = { "a.c", "b.h" };
	rt_debug_put(t, &(rt_debug){ 2, 3, 2, piece, row, file });
}

static bool reads(const void *bytes, size_t n, size_t code)
{
	rt_arena mem = { 0 };
	rt_debug d;
	void *copy = malloc(n ? n : 1); /* so that sanitizers see its end */
	memcpy(copy, bytes, n);
	const bool ok = rt_debug_get(&mem, copy, n, code, &d);
	if (ok) /* all that it names is there */
		for (uint32_t i = 0; i < d.npiece; i++) {
			uint32_t first, end;
			rt_debug_rows(&d, &d.piece[i], &first, &end);
			for (; first < end; first++) assert_true(strlen(d.file[d.row[first].file]) < n);
			assert_true(strlen(d.piece[i].name) + strlen(d.piece[i].ops) < 2 * n);
			assert_true(rt_cfa_is_simple(d.piece[i].cfa, d.piece[i].ncfa));
			rt_text t = { 0 };
			rt_put_tool_name(&t, &d.piece[i]);
			assert_null(strchr(rt_str(&t), '\n'));
			rt_text_free(&t);
		}
	rt_arena_free(&mem);
	free(copy);
	return ok;
}

static void test_damaged(void **state)
{
	(void)state;
	rt_text t = { 0 };
	put_example(&t);
	assert_true(reads(t.s, t.n, 192));
	assert_false(reads(t.s, t.n, 191)); /* a function beyond its code */
	for (size_t n = 0; n < t.n; n++) assert_false(reads(t.s, n, 192));
	unsigned seed = 1;
	for (int i = 0; i < 20000; i++) {
		char *copy = malloc(t.n);
		memcpy(copy, t.s, t.n);
		for (int k = 0; k < 1 + i % 3; k++) {
			seed = seed * 1103515245 + 12345;
			copy[(seed >> 8) % t.n] = (char)(i % 2 ? seed >> 3 : seed % 2 ? 0xff : 0);
		}
		reads(copy, t.n, 192);
		free(copy);
	}
	rt_text_free(&t);
	assert_false(rt_cfa_is_simple((const unsigned char[]){ 0x0f, 1, 0x50 }, 3)); /* DW_CFA_def_cfa_expression */
	assert_false(rt_cfa_is_simple((const unsigned char[]){ 0x0c, 7 }, 2));
}

/* ---- files that others made ---- */
static void test_files(void **state)
{
	char path[120], other[120];
	(void)state;
	snprintf(path, sizeof path, "%s/target", folder);
	snprintf(other, sizeof other, "%s/link", folder);
	const int fd = rt_tool_file(path, 1 /* O_WRONLY */);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(rt_tool_file(other, 1), -1); /* a link could lead anywhere */
	unlink(other);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(rt_tool_file(other, 1), -1);
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(rt_tool_file(other, 1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bits), cmocka_unit_test(test_map),    cmocka_unit_test(test_fork),    cmocka_unit_test(test_jitdump),
		cmocka_unit_test(test_gdb),       cmocka_unit_test(test_unwind), cmocka_unit_test(test_apart),   cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, clean);
}
