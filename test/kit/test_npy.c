/* SPDX-License-Identifier: MIT */
/* Files of NumPy: what it writes is read, what is written is what it writes, and broken files give an error. */
#include "kit/files/files.h"
#undef TJ_SITE
#define TJ_SITE __FILE__ ":" TJ_STR(__LINE__)
#include "test/kit/hostile.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MOST = 1 << 12 };
typedef struct file { unsigned char v[MOST]; size_t n; } file;

/* A file with this version, header and elements; the header is padded as NumPy does it. */
static file made(int version, const char *header, const void *data, size_t bytes)
{
	file f = { .n = version == 1 ? 10 : 12 };
	const size_t at = f.n, n = strlen(header);
	memcpy(f.v, "\x93NUMPY", 6);
	f.v[6] = (unsigned char)version;
	memcpy(f.v + at, header, n);
	for (f.n += n; (f.n + 1) % 64; f.n++) f.v[f.n] = ' ';
	f.v[f.n++] = '\n';
	f.v[8] = (unsigned char)((f.n - at) & 255);
	f.v[9] = (unsigned char)((f.n - at) >> 8);
	if (bytes) memcpy(f.v + f.n, data, bytes);
	f.n += bytes;
	return f;
}

static bool reads(const file *f, kit_npy *a, kit_why *why)
{
	FILE *m = fmemopen((void *)(uintptr_t)f->v, f->n ? f->n : 1, "rb");
	assert_non_null(m);
	if (!f->n) fgetc(m);
	kit_source source = kit_source_of(m);
	const bool ok = kit_npy_read(&source, a, why);
	fclose(m);
	return ok;
}

/* The same from a file on the disk, whose size is known. */
static bool reads_file(const file *f, kit_npy *a, kit_why *why)
{
	FILE *t = tmpfile();
	assert_non_null(t);
	assert_int_equal(fwrite(f->v, 1, f->n, t), f->n);
	rewind(t);
	kit_source source = kit_source_of(t);
	const bool ok = kit_npy_read(&source, a, why);
	fclose(t);
	return ok;
}

static const float six[] = { 1, 2, 3, 4, 5, 6 };

/* ---- what NumPy writes ---- */
static void versions(void **s)
{
	(void)s;
	for (int version = 1; version <= 3; version++)
		for (int fortran = 0; fortran < 2; fortran++) {
			kit_why why = { 0 };
			kit_npy a;
			const file f = made(version,
			                    fortran ? "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
			                            : "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
			                    six, sizeof six);
			assert_true(reads(&f, &a, &why) && a.dtype == TJ_F32 && a.rank == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.bytes == 24);
			assert_true(a.dim[2] == TJ_END_DIM && a.stride[2] == TJ_END_DIM);
			assert_true(fortran ? a.stride[0] == 1 && a.stride[1] == 2 : a.stride[0] == 3 && a.stride[1] == 1);
			assert_memory_equal(a.data, six, sizeof six);
			free(a.data);
			assert_true(reads_file(&f, &a, &why));
			free(a.data);
		}
}

/* Other spellings of the same header. */
static void spellings(void **s)
{
	static const char *const headers[] = { "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
		                               "{\"shape\": (2L, 3L), \"fortran_order\": False, \"descr\": \"<f4\"}",
		                               "  { 'shape' : ( 2 , 3 , ) ,\n 'descr' : '=f4' , 'fortran_order' : False , }  " };
	(void)s;
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
		kit_why why = { 0 };
		kit_npy a;
		const file f = made(1, headers[i], six, sizeof six);
		if (!reads(&f, &a, &why)) fail_msg("%s: %s", headers[i], why.text);
		free(a.data);
	}
}

static void shapes(void **s)
{
	static const struct { const char *shape; int rank; size_t bytes;
	} cases[] = { { "()", 0, 4 },
		      { "(1,)", 1, 4 },
		      { "(0,)", 1, 0 },
		      { "(3, 0, 2)", 3, 0 },
		      { "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", 16, 4 } };
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char header[160];
		kit_why why = { 0 };
		kit_npy a;
		snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", cases[i].shape);
		const file f = made(1, header, six, cases[i].bytes);
		if (!reads(&f, &a, &why)) fail_msg("%s: %s", header, why.text);
		assert_true(a.rank == cases[i].rank && a.bytes == cases[i].bytes);
		free(a.data);
	}
}

/* ---- what is refused ---- */
static void refused(void **s)
{
	static const struct { const char *header, *why;
	} cases[] = {
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", "it is big endian (>f4)" },
		{ "{'descr': '<u4', 'fortran_order': False, 'shape': (6,), }", "i64 those of u32" },
		{ "{'descr': '<c8', 'fortran_order': False, 'shape': (6,), }", "its dtype <c8 is not one of tjit: bool, u8" },
		{ "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "it has Python objects" },
		{ "{'descr': 4, 'fortran_order': False, 'shape': (6,), }", "its dtype is no text" },
		{ "{'descr': '|O8', 'fortran_order': False, 'shape': (6,), }", "not one of tjit" },
		{ "{'descr': '?f4', 'fortran_order': False, 'shape': (6,), }", "byte order" },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "records" },
		{ "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,), }", "neither True nor False" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", "its shape is no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", "its shape is no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }", "a size of its shape is no number" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "its shape is too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", "its shape is too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }", "its shape is too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", "more than 16 axes" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "it ends too early" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", "it ends too early" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "something follows its 20 bytes" },
		{ "{'descr': '<f4', 'fortran_order': False, }", "its header lacks shape" },
		{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", "the key descr twice" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", "the key x, which is not known" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } 1", "something follows its header" },
		{ "{'descr': '<f4' 'fortran_order': False, 'shape': (6,), }", "no dictionary" },
		{ "['descr']", "no dictionary" },
		{ "", "no dictionary" },
	};
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int disk = 0; disk < 2; disk++) {
			kit_why why = { 0 };
			kit_npy a;
			const file f = made(1 + (int)(i % 3), cases[i].header, six, sizeof six);
			assert_false(disk ? reads_file(&f, &a, &why) : reads(&f, &a, &why));
			assert_null(a.data);
			if (!strstr(why.text, cases[i].why)) fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].header, cases[i].why, why.text);
		}
}

static void broken_prefix(void **s)
{
	static const struct { size_t at; int value; const char *why;
	} cases[] = { { 0, 'X', "no .npy file" },
		      { 6, 0, "version 0.0" },
		      { 6, 4, "version 4.0" },
		      { 7, 1, "version 1.1" },
		      { 9, 255, "ends in its header" } };
	file f = made(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", six, sizeof six);
	kit_why why = { 0 };
	kit_npy a;
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		file g = f;
		g.v[cases[i].at] = (unsigned char)cases[i].value;
		assert_false(reads(&g, &a, &why));
		assert_non_null(strstr(why.text, cases[i].why));
	}
	for (; f.n--;) { /* each beginning of the file */
		assert_false(reads(&f, &a, &why));
		assert_false(reads_file(&f, &a, &why));
		if (!f.n) break;
	}
	f = made(2, "{}", NULL, 0);
	f.v[11] = 127; /* a header of 2 GB */
	assert_false(reads(&f, &a, &why));
	assert_non_null(strstr(why.text, "more than any array needs"));
}

/* Random changes of files: none crashes, and what is read has no more bytes than the file. */
static void random_changes(void **s)
{
	const long turns = hostile_turns(60000);
	static const char *const headers[] = { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
		                               "{'descr': '|b1', 'fortran_order': True, 'shape': (24,), }",
		                               "{'descr': '<V2', 'fortran_order': False, 'shape': (3, 2, 2), }" };
	static const char likely[] = "0123456789(),'\"{}[]: <>|=bfuiV\0\xff\n";
	uint64_t r = 88172645463325252u;
	long read = 0;
	(void)s;
	for (long i = 0; i < turns; i++) {
		kit_why why = { 0 };
		kit_npy a;
		file f = made(1 + (int)(i % 3), headers[i / 3 % 3], six, sizeof six);
		const size_t header = f.n - sizeof six;
		for (int k = 0; k <= i % 4; k++) {
			r ^= r << 13, r ^= r >> 7, r ^= r << 17;
			unsigned char *at = &f.v[r % header];
			*at = r >> 32 & 1 ? (unsigned char)likely[(r >> 40) % (sizeof likely - 1)] : (unsigned char)(r >> 40);
		}
		if (i % 5 == 0) f.n = r % f.n + 1;
		if (!(i % 64 ? reads(&f, &a, &why) : reads_file(&f, &a, &why))) {
			assert_true(*why.text && !a.data);
			continue;
		}
		assert_true(a.bytes <= f.n && a.rank >= 0 && a.rank <= TJ_MAX_RANK && a.dim[a.rank] == TJ_END_DIM);
		free(a.data);
		read++;
	}
	assert_in_range(read, 1, turns - 1);
}

/* ---- writing ---- */
static void as_numpy_writes(void **s)
{
	static const struct { tj_dtype dtype; int rank; int64_t dim[4]; const char *header;
	} cases[] = {
		{ TJ_F32, 2, { 2, 3 }, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" },
		{ TJ_F64, 1, { 3 }, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }" },
		{ TJ_I64, 0, { 0 }, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }" },
		{ TJ_BOOL, 1, { 4 }, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }" },
		{ TJ_U8, 3, { 2, 1, 2 }, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 2), }" },
		{ TJ_I8, 1, { 0 }, "{'descr': '|i1', 'fortran_order': False, 'shape': (0,), }" },
		{ TJ_I16, 1, { 2 }, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }" },
		{ TJ_I32, 1, { 2 }, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }" },
		{ TJ_F16, 1, { 2 }, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }" },
		{ TJ_BF16, 1, { 2 }, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }" },
	};
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[KIT_NPY_HEADER];
		size_t bytes = tj_dtype_size(cases[i].dtype);
		for (int k = 0; k < cases[i].rank; k++) bytes *= (size_t)cases[i].dim[k];
		const size_t n = kit_npy_header(cases[i].dtype, cases[i].rank, cases[i].dim, text);
		const file want = made(1, cases[i].header, six, bytes);
		assert_int_equal(n + bytes, want.n);
		assert_memory_equal(text, want.v, n);
	}
}

/* ---- tensors ---- */
typedef struct place { char folder[40], path[64], link[64]; } place;

static place make_place(void)
{
	place p = { .folder = "/tmp/test_npy.XXXXXX" };
	assert_non_null(mkdtemp(p.folder));
	snprintf(p.path, sizeof p.path, "%s/x.npy", p.folder);
	snprintf(p.link, sizeof p.link, "%s/link.npy", p.folder);
	return p;
}

static void drop_place(const place *p)
{
	unlink(p->link);
	unlink(p->path);
	assert_int_equal(rmdir(p->folder), 0); /* no file was left beside it */
}

static void tensors(void **s)
{
	const place p = make_place();
	(void)s;
	tj_ctx *c = tj_open(NULL);
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		tj_tensor *x = tj_cast(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), six), (tj_dtype)t);
		assert_int_equal(tj_npy_save(tj_transpose(x, 0, 1), p.path), TJ_OK);
		tj_tensor *y = tj_npy_load(c, p.path);
		assert_true(tj_dtype_of(y) == (tj_dtype)t && tj_rank(y) == 2 && tj_dim(y, 0) == 3 && tj_dim(y, 1) == 2);
		assert_true(tj_truth(tj_all(tj_eq(tj_transpose(y, 0, 1), x), TJ_ALL, false)));
	}
	const file fortran = made(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", six, sizeof six);
	FILE *f = fopen(p.path, "wb");
	assert_int_equal(fwrite(fortran.v, 1, fortran.n, f), fortran.n);
	fclose(f);
	assert_f32(tj_npy_load(c, p.path), 1, 3, 5, 2, 4, 6);
	kit_ok(c);
	tj_close(c);
	drop_place(&p);
}

static void errors(void **s)
{
	const place p = make_place();
	(void)s;
	tj_ctx *c = tj_open(NULL);
	assert_int_equal(tj_npy_save(F32(c, 1, 3), p.path), TJ_OK);
	assert_true(tj_is_poison(tj_npy_load(c, "/nowhere/x.npy")));
	kit_error(c, TJ_ERR_IO, "/nowhere/x.npy: No such file");
	assert_true(tj_is_poison(tj_npy_load(c, NULL)));
	kit_error(c, TJ_ERR_ARG, "the path is NULL");
	assert_int_equal(tj_npy_save(F32(c, 1), "/nowhere/x.npy"), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "No such file");
	assert_int_equal(tj_npy_save(F32(c, 1), p.folder), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "Is a directory");
	assert_int_equal(tj_npy_save(F32(c, 1), ""), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "the path is empty");
	if (!access("/dev/full", W_OK)) {
		assert_int_equal(tj_npy_save(F32(c, 1), "/dev/full"), TJ_ERR_IO);
		kit_error(c, TJ_ERR_IO, "No space left");
	}
	assert_true(tj_npy_save(tj_add(F32(c, 1, 2), F32(c, 1, 2, 3)), p.path) != TJ_OK); /* poison */
	kit_error(c, TJ_ERR_SHAPE, "broadcast");
	assert_true(tj_npy_save(tj_f(1), p.path) != TJ_OK);
	kit_error(c, TJ_ERR_ARG, "number");
	assert_true(tj_npy_save(NULL, p.path) != TJ_OK);
	assert_true(tj_check(c) != TJ_OK);
	assert_f32(tj_npy_load(c, p.path), 1, 3); /* as it was */
	kit_ok(c);
	tj_close(c);
	drop_place(&p);
}

/* ---- the one writer ---- */
static void replaced(void **s)
{
	const place p = make_place();
	struct stat st;
	(void)s;
	tj_ctx *c = tj_open(NULL);
	const mode_t mask = umask(027);
	assert_int_equal(tj_npy_save(F32(c, 1), p.path), TJ_OK);
	umask(mask);
	assert_true(!stat(p.path, &st) && (st.st_mode & 0777) == 0640); /* a new file has the rights of the umask */
	assert_int_equal(chmod(p.path, 0604), 0);
	assert_int_equal(symlink("x.npy", p.link), 0);
	assert_int_equal(tj_npy_save(F32(c, 1, 2), p.link), TJ_OK);
	assert_true(!lstat(p.link, &st) && S_ISLNK(st.st_mode) && !stat(p.path, &st) && (st.st_mode & 0777) == 0604);
	assert_f32(tj_npy_load(c, p.path), 1, 2);
	char was[64];
	assert_non_null(getcwd(was, sizeof was));
	assert_int_equal(chdir(p.folder), 0); /* a path without a folder */
	assert_int_equal(tj_npy_save(F32(c, 5), "x.npy"), TJ_OK);
	assert_int_equal(chdir(was), 0);
	assert_f32(tj_npy_load(c, p.path), 5);
	kit_ok(c);
	tj_close(c);
	drop_place(&p);
}

/* The disk is full after each number of bytes: the old file stays, and nothing beside it. */
static void full_disk(void **s)
{
	const place p = make_place();
	struct rlimit old, small;
	(void)s;
	tj_ctx *c = tj_open(NULL);
	assert_int_equal(tj_npy_save(F32(c, 1, 2, 3), p.path), TJ_OK);
	tj_tensor *large = tj_full(TJ_F32, TJ_SHAPE(1 << 14), tj_f(7));
	assert_non_null(tj_data(large));
	getrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t most = 0; most < 1 << 16; most += most < 200 ? 40 : 9000) {
		small = (struct rlimit){ most, old.rlim_max };
		setrlimit(RLIMIT_FSIZE, &small);
		const tj_status status = tj_npy_save(large, p.path);
		setrlimit(RLIMIT_FSIZE, &old);
		assert_int_equal(status, TJ_ERR_IO);
		kit_error(c, TJ_ERR_IO, "File too large");
		assert_f32(tj_npy_load(c, p.path), 1, 2, 3);
	}
	kit_ok(c);
	tj_close(c);
	drop_place(&p);
}

/* Where files without a name cannot get one, it is written under another name. Returns what is wrong. */
static int in_a_bare_root(tj_ctx *c, const char *folder)
{
	const struct rlimit small = { 100, 100 };
	if (chroot(folder) || chdir("/")) return 1;
	if (tj_npy_save(F32(c, 8), "/x.npy") != TJ_OK) return 2;
	setrlimit(RLIMIT_FSIZE, &small);
	if (tj_npy_save(F32(c, 9), "/x.npy") != TJ_ERR_IO || tj_check(c) != TJ_ERR_IO) return 3;
	return tj_item(tj_npy_load(c, "/x.npy")) == 8 ? 0 : 4;
}

static void without_proc(void **s)
{
	const place p = make_place();
	int status = 0;
	(void)s;
	if (geteuid()) {
		drop_place(&p);
		SKIP("chroot() is for root");
	}
	tj_ctx *c = tj_open(NULL);
	signal(SIGXFSZ, SIG_IGN);
	const pid_t child = fork();
	if (!child) _exit(in_a_bare_root(c, p.folder));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_f32(tj_npy_load(c, p.path), 8);
	kit_ok(c);
	tj_close(c);
	drop_place(&p); /* no file was left */
}

static void read_only_folder(void **s)
{
	const place p = make_place();
	(void)s;
	if (!geteuid() && seteuid(65534)) SKIP("root writes everywhere");
	tj_ctx *c = tj_open(NULL);
	const bool other = !getuid();
	if (other) { /* the folder is root's, and others may not write there */
		assert_int_equal(seteuid(0), 0);
		assert_int_equal(tj_npy_save(F32(c, 4), p.path), TJ_OK);
		chmod(p.folder, 0755);
		assert_int_equal(seteuid(65534), 0);
	} else {
		assert_int_equal(tj_npy_save(F32(c, 4), p.path), TJ_OK);
		chmod(p.folder, 0555);
	}
	assert_int_equal(tj_npy_save(F32(c, 1), p.path), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "Permission denied");
	assert_f32(tj_npy_load(c, p.path), 4);
	if (other) assert_int_equal(seteuid(0), 0);
	chmod(p.folder, 0755);
	kit_ok(c);
	tj_close(c);
	drop_place(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),   cmocka_unit_test(spellings),     cmocka_unit_test(shapes),
		cmocka_unit_test(refused),    cmocka_unit_test(broken_prefix), cmocka_unit_test(random_changes),
		cmocka_unit_test(as_numpy_writes), cmocka_unit_test(tensors),  cmocka_unit_test(errors),
		cmocka_unit_test(replaced),   cmocka_unit_test(full_disk),     cmocka_unit_test(without_proc),
		cmocka_unit_test(read_only_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
