/* SPDX-License-Identifier: MIT */
/* Files of NumPy: what it writes is read, what is written is what it writes, and broken files give an error. */
#include "cli/npy.h"
#include "test/kit.h"

#include <sys/stat.h>
#include <unistd.h>

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

static bool reads(const file *f, npy_array *a, char why[NPY_WHY])
{
	FILE *m = fmemopen((void *)(uintptr_t)f->v, f->n ? f->n : 1, "rb");
	assert_non_null(m);
	if (!f->n) fgetc(m);
	const bool ok = npy_read(m, a, why);
	fclose(m);
	return ok;
}

/* The same from a file on the disk, whose size is known. */
static bool reads_file(const file *f, npy_array *a, char why[NPY_WHY])
{
	FILE *t = tmpfile();
	assert_non_null(t);
	assert_int_equal(fwrite(f->v, 1, f->n, t), f->n);
	rewind(t);
	const bool ok = npy_read(t, a, why);
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
			char why[NPY_WHY] = "";
			npy_array a;
			const file f = made(version,
			                    fortran ? "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
			                            : "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
			                    six, sizeof six);
			assert_true(reads(&f, &a, why) && a.dtype == TJ_F32 && a.rank == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.bytes == 24);
			assert_true(a.dim[2] == TJ_END_DIM && a.stride[2] == TJ_END_DIM);
			assert_true(fortran ? a.stride[0] == 1 && a.stride[1] == 2 : a.stride[0] == 3 && a.stride[1] == 1);
			assert_memory_equal(a.data, six, sizeof six);
			npy_free(&a);
			assert_true(reads_file(&f, &a, why));
			npy_free(&a);
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
		char why[NPY_WHY] = "";
		npy_array a;
		const file f = made(1, headers[i], six, sizeof six);
		if (!reads(&f, &a, why)) fail_msg("%s: %s", headers[i], why);
		npy_free(&a);
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
		char header[160], why[NPY_WHY] = "";
		npy_array a;
		snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", cases[i].shape);
		const file f = made(1, header, six, cases[i].bytes);
		if (!reads(&f, &a, why)) fail_msg("%s: %s", header, why);
		assert_true(a.rank == cases[i].rank && a.bytes == cases[i].bytes);
		npy_free(&a);
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
			char why[NPY_WHY] = "";
			npy_array a;
			const file f = made(1 + (int)(i % 3), cases[i].header, six, sizeof six);
			assert_false(disk ? reads_file(&f, &a, why) : reads(&f, &a, why));
			assert_null(a.data);
			if (!strstr(why, cases[i].why)) fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].header, cases[i].why, why);
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
	char why[NPY_WHY] = "";
	npy_array a;
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		file g = f;
		g.v[cases[i].at] = (unsigned char)cases[i].value;
		assert_false(reads(&g, &a, why));
		assert_non_null(strstr(why, cases[i].why));
	}
	for (; f.n--;) { /* each beginning of the file */
		assert_false(reads(&f, &a, why));
		assert_false(reads_file(&f, &a, why));
		if (!f.n) break;
	}
	f = made(2, "{}", NULL, 0);
	f.v[11] = 127; /* a header of 2 GB */
	assert_false(reads(&f, &a, why));
	assert_non_null(strstr(why, "more than any array needs"));
}

/* Random changes of files: none crashes, and what is read has no more bytes than the file. */
static void random_changes(void **s)
{
	enum { TURNS = 60000 };
	static const char *const headers[] = { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
		                               "{'descr': '|b1', 'fortran_order': True, 'shape': (24,), }",
		                               "{'descr': '<V2', 'fortran_order': False, 'shape': (3, 2, 2), }" };
	static const char likely[] = "0123456789(),'\"{}[]: <>|=bfuiV\0\xff\n";
	uint64_t r = 88172645463325252u;
	int read = 0;
	(void)s;
	for (int i = 0; i < TURNS; i++) {
		char why[NPY_WHY] = "";
		npy_array a;
		file f = made(1 + i % 3, headers[i / 3 % 3], six, sizeof six);
		const size_t header = f.n - sizeof six;
		for (int k = 0; k <= i % 4; k++) {
			r ^= r << 13, r ^= r >> 7, r ^= r << 17;
			unsigned char *at = &f.v[r % header];
			*at = r >> 32 & 1 ? (unsigned char)likely[(r >> 40) % (sizeof likely - 1)] : (unsigned char)(r >> 40);
		}
		if (i % 5 == 0) f.n = r % f.n + 1;
		if (!(i % 64 ? reads(&f, &a, why) : reads_file(&f, &a, why))) {
			assert_true(*why && !a.data);
			continue;
		}
		assert_true(a.bytes <= f.n && a.rank >= 0 && a.rank <= TJ_MAX_RANK && a.dim[a.rank] == TJ_END_DIM);
		npy_free(&a);
		read++;
	}
	assert_in_range(read, 1, TURNS - 1);
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
		char *text = NULL, why[NPY_WHY] = "";
		size_t n = 0, bytes = tj_dtype_size(cases[i].dtype);
		for (int k = 0; k < cases[i].rank; k++) bytes *= (size_t)cases[i].dim[k];
		FILE *m = open_memstream(&text, &n);
		assert_true(npy_write(m, cases[i].dtype, cases[i].rank, cases[i].dim, six, why));
		fclose(m);
		const file want = made(1, cases[i].header, six, bytes);
		assert_int_equal(n, want.n);
		assert_memory_equal(text, want.v, n);
		free(text);
	}
}

static void full_disk(void **s)
{
	char why[NPY_WHY] = "";
	FILE *f = fopen("/dev/full", "wb");
	(void)s;
	if (!f) SKIP("/dev/full is missing");
	assert_false(npy_write(f, TJ_F32, 1, (const int64_t[]){ 6 }, six, why));
	assert_non_null(strstr(why, "No space left"));
	fclose(f);
}

/* ---- tensors ---- */
static void tensors(void **s)
{
	char folder[] = "/tmp/test_npy.XXXXXX", path[64], link[64], why[NPY_WHY] = "";
	(void)s;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/x.npy", folder);
	snprintf(link, sizeof link, "%s/link.npy", folder);
	tj_ctx *c = tj_open(NULL);
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		tj_tensor *x = tj_cast(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), six), (tj_dtype)t);
		if (!npy_save(c, path, tj_transpose(x, 0, 1), why)) fail_msg("%s", why);
		tj_tensor *y = npy_load(c, path, why);
		if (!y) fail_msg("%s", why);
		assert_true(tj_dtype_of(y) == (tj_dtype)t && tj_rank(y) == 2 && tj_dim(y, 0) == 3 && tj_dim(y, 1) == 2);
		assert_true(tj_truth(tj_all(tj_eq(tj_transpose(y, 0, 1), x), TJ_ALL, false)));
	}
	struct stat st;
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(symlink("x.npy", link), 0);
	assert_true(npy_save(c, link, F32(c, 1, 2), why));
	assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode) && !stat(path, &st) && (st.st_mode & 0777) == 0640);
	const file fortran = made(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", six, sizeof six);
	FILE *f = fopen(path, "wb");
	assert_int_equal(fwrite(fortran.v, 1, fortran.n, f), fortran.n);
	fclose(f);
	assert_f32(npy_load(c, path, why), 1, 3, 5, 2, 4, 6);
	assert_null(npy_load(c, "/nowhere/x.npy", why));
	assert_non_null(strstr(why, "No such file"));
	assert_false(npy_save(c, "/nowhere/x.npy", F32(c, 1), why));
	assert_false(npy_save(c, "/dev/full", F32(c, 1), why));
	assert_non_null(strstr(why, "No space left"));
	assert_false(npy_save(c, path, tj_add(F32(c, 1, 2), F32(c, 1, 2, 3)), why)); /* poison: the file stays as it was */
	assert_non_null(strstr(why, "broadcast"));
	assert_f32(npy_load(c, path, why), 1, 3, 5, 2, 4, 6);
	kit_ok(c);
	tj_close(c);
	unlink(link);
	unlink(path);
	assert_int_equal(rmdir(folder), 0); /* no file was left beside it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),      cmocka_unit_test(spellings),      cmocka_unit_test(shapes),
		cmocka_unit_test(refused),       cmocka_unit_test(broken_prefix),  cmocka_unit_test(random_changes),
		cmocka_unit_test(as_numpy_writes), cmocka_unit_test(full_disk),    cmocka_unit_test(tensors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
