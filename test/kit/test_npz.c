/* SPDX-License-Identifier: MIT */
/* Zip files of NumPy: what it writes is read, it reads what is written, and broken files give an error. */
#include "test/kit/hostile.h"

#include <tjfiles.h>

/* savez(w=f32 [2,3], n=i64 [], f=i16 [2,2] in Fortran order) of NumPy 2.4.6, and savez_compressed() */
static const char stored[] =
	"PK\003\004-\000\000\000\000\000\000\000!\000O\351\000*\377\377\377\377\377\377\377\377\005\000\024\000w.npy\001\000"
	"\020\000\230\000\000\000\000\000\000\000\230\000\000\000\000\000\000\000\223NUMPY\001\000v\000{'descr': '<f4', '"
	"fortran_order': False, 'shape': (2, 3), }                                                          \012\000\000\000"
	"\000\000\000\200\077\000\000\000@\000\000@@\000\000\200@\000\000\240@PK\003\004-\000\000\000\000\000\000\000!\000"
	"\265\277\031\246\377\377\377\377\377\377\377\377\005\000\024\000n.npy\001\000\020\000\210\000\000\000\000\000\000"
	"\000\210\000\000\000\000\000\000\000\223NUMPY\001\000v\000{'descr': '<i8', 'fortran_order': False, 'shape': (), "
	"}                                                              \012\373\377\377\377\377\377\377\377PK\003\004-\000"
	"\000\000\000\000\000\000!\000\353\235\244\026\377\377\377\377\377\377\377\377\005\000\024\000f.npy\001\000\020\000"
	"\210\000\000\000\000\000\000\000\210\000\000\000\000\000\000\000\223NUMPY\001\000v\000{'descr': '<i2', 'fortran_"
	"order': True, 'shape': (2, 2), }                                                           \012\000\000\002\000\001"
	"\000\003\000PK\001\002-\003-\000\000\000\000\000\000\000!\000O\351\000*\230\000\000\000\230\000\000\000\005\000\000"
	"\000\000\000\000\000\000\000\000\000\200\001\000\000\000\000w.npyPK\001\002-\003-\000\000\000\000\000\000\000!\000"
	"\265\277\031\246\210\000\000\000\210\000\000\000\005\000\000\000\000\000\000\000\000\000\000\000\200\001\317\000"
	"\000\000n.npyPK\001\002-\003-\000\000\000\000\000\000\000!\000\353\235\244\026\210\000\000\000\210\000\000\000\005"
	"\000\000\000\000\000\000\000\000\000\000\000\200\001\216\001\000\000f.npyPK\005\006\000\000\000\000\003\000\003\000"
	"\231\000\000\000M\002\000\000\000\000";
static const char deflated[] =
	"PK\003\004-\000\000\000\010\000\000\000!\000O\351\000*\377\377\377\377\377\377\377\377\005\000\024\000w.npy\001\000"
	"\020\000\230\000\000\000\000\000\000\000U\000\000\000\000\000\000\000\233\354\027\352\033\020\311\310P\306P\255\236"
	"\222Z\234\\\244n\245\240n\223f\242\256\243\240\236\226_TR\224\230\027\237_\224\222\012\022wK\314)N\005\212\027g$"
	"\026\244\002\371\032F:\012\306\232:\012\265\012d\003.\0060h\260\007\022\016@\004\304\015@\274\300\001\000PK\003\004"
	"-\000\000\000\010\000\000\000!\000\265\277\031\246\377\377\377\377\377\377\377\377\005\000\024\000n.npy\001\000\020"
	"\000\210\000\000\000\000\000\000\000F\000\000\000\000\000\000\000\233\354\027\352\033\020\311\310P\306P\255\236\222"
	"Z\234\\\244n\245\240n\223i\241\256\243\240\236\226_TR\224\230\027\237_\224\222\012\022wK\314)N\005\212\027g$\026"
	"\244\002\371\032\232:\012\265\012\024\001\256\337\377!\000\000PK\003\004-\000\000\000\010\000\000\000!\000\353\235"
	"\244\026\377\377\377\377\377\377\377\377\005\000\024\000f.npy\001\000\020\000\210\000\000\000\000\000\000\000M\000"
	"\000\000\000\000\000\000\233\354\027\352\033\020\311\310P\306P\255\236\222Z\234\\\244n\245\240n\223i\244\256\243"
	"\240\236\226_TR\224\230\027\237_\224\222\012\022\017)*M\005\012\027g$\026\244\002\271\032F:\012F\232:\012\265\012"
	"\344\003.\006\006&\006F\006f\006\000PK\001\002-\003-\000\000\000\010\000\000\000!\000O\351\000*U\000\000\000\230"
	"\000\000\000\005\000\000\000\000\000\000\000\000\000\000\000\200\001\000\000\000\000w.npyPK\001\002-\003-\000\000"
	"\000\010\000\000\000!\000\265\277\031\246F\000\000\000\210\000\000\000\005\000\000\000\000\000\000\000\000\000\000"
	"\000\200\001\214\000\000\000n.npyPK\001\002-\003-\000\000\000\010\000\000\000!\000\353\235\244\026M\000\000\000\210"
	"\000\000\000\005\000\000\000\000\000\000\000\000\000\000\000\200\001\011\001\000\000f.npyPK\005\006\000\000\000\000"
	"\003\000\003\000\231\000\000\000\215\001\000\000\000\000";
enum { STORED = sizeof stored - 1, DEFLATED = sizeof deflated - 1 };

static void put_file(hostile *h, const void *v, size_t n)
{
	memcpy(h->v, v, n);
	h->n = n;
	hostile_put(h);
}

static void numpy_wrote(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (int packed = 0; packed < 2; packed++) {
		put_file(h, packed ? deflated : stored, packed ? DEFLATED : STORED);
		tj_npz *z = tj_npz_open(c, h->path);
		kit_ok(c);
		assert_int_equal(tj_npz_count(z), 3);
		assert_string_equal(tj_npz_name(z, 1), "n");
		assert_true(!tj_npz_name(z, 3) && !tj_npz_name(z, -1));
		assert_f32(tj_npz_get(z, "w"), 0, 1, 2, 3, 4, 5);
		assert_int_equal(tj_item_i(tj_npz_get(z, "n")), -5);
		tj_tensor *f = tj_npz_get(z, "f");
		assert_true(tj_dtype_of(f) == TJ_I16 && tj_dim(f, 1) == 2 && ((const int16_t *)tj_data(f))[1] == 1);
		assert_true(tj_is_poison(tj_npz_get(z, "x")));
		kit_error(c, TJ_ERR_ARG, "it has no array x");
		assert_true(tj_is_poison(tj_npz_get(z, NULL)));
		kit_error(c, TJ_ERR_ARG, "the name is NULL");
		tj_npz_close(z);
	}
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

/* The numbers of the directory in the zip64 record, as in files of 4 GiB. */
static void zip64(void **s)
{
	enum { END = 22 };
	unsigned char large[56] = "PK\6\6\54", locator[20] = "PK\6\7", end[END];
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (int broken = 0; broken < 2; broken++) {
		const size_t n = STORED - END;
		memcpy(end, stored + n, END);
		memcpy(large + 32, end + 10, 2);
		memcpy(large + 40, end + 12, 4);
		memcpy(large + 48, end + 16, 4);
		memset(end + 8, 255, 12);
		memcpy(locator + 8, (unsigned char[]){ (unsigned char)(n & 255), (unsigned char)(n >> 8) }, 2);
		locator[8] ^= (unsigned char)broken;
		memcpy(h->v, stored, n);
		memcpy(h->v + n, large, sizeof large);
		memcpy(h->v + n + sizeof large, locator, sizeof locator);
		memcpy(h->v + n + sizeof large + sizeof locator, end, END);
		h->n = n + sizeof large + sizeof locator + END;
		hostile_put(h);
		tj_npz *z = tj_npz_open(c, h->path);
		if (broken) kit_error(c, TJ_ERR_PARSE, "its zip64 record is missing");
		else assert_f32(tj_npz_get(z, "w"), 0, 1, 2, 3, 4, 5);
		tj_npz_close(z);
	}
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void round_trips(void **s)
{
	char path[] = "/tmp/test_npz.XXXXXX";
	const char *names[TJ_DTYPE_COUNT + 2];
	tj_tensor *t[TJ_DTYPE_COUNT + 3];
	tj_ctx *c = tj_open(NULL);
	int n = 0;
	(void)s;
	close(mkstemp(path));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 0, 3, 0, 5, 6 });
	for (; n < TJ_DTYPE_COUNT; n++) names[n] = tj_dtype_name((tj_dtype)n), t[n] = tj_transpose(tj_cast(x, (tj_dtype)n), 0, 1);
	names[n] = "folder/none", t[n++] = tj_full(TJ_F64, TJ_SHAPE(3, 0, 2), tj_f(0));
	names[n] = "large", t[n++] = tj_arange(TJ_I64, 0, 100000, 1);
	t[n] = TJ_END;
	for (int packed = 0; packed < 2; packed++) {
		assert_int_equal(tj_npz_save(path, names, t, packed), TJ_OK);
		tj_npz *z = tj_npz_open(c, path);
		kit_ok(c);
		assert_int_equal(tj_npz_count(z), n);
		for (int i = 0; i < n; i++) {
			tj_tensor *y = tj_npz_get(z, names[i]);
			assert_true(tj_dtype_of(y) == tj_dtype_of(t[i]) && tj_rank(y) == tj_rank(t[i]) && tj_numel(y) == tj_numel(t[i]));
			assert_true(tj_truth(tj_all(tj_eq(y, t[i]), TJ_ALL, false)));
		}
		tj_npz_close(z);
	}
	assert_int_equal(tj_npz_save(path, names, TJ_NONE, false), TJ_OK);
	tj_npz *z = tj_npz_open(c, path);
	assert_true(z && !tj_npz_count(z));
	tj_npz_close(z);
	kit_ok(c);
	tj_close(c);
	unlink(path);
}

static void not_saved(void **s)
{
	static const struct { const char *names[2], *why; } cases[] = {
		{ { "a", "a" }, "a is there twice" }, { { "a", NULL }, "name 1 is NULL" },      { { "a", "" }, "name 1 is empty" },
		{ { "a", "../b" }, "\"..\"" },        { { "a", "/b" }, "a '/' at its begin" }, { { "a", "b\\c" }, "a '\\'" } };
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(tj_npz_save("/tmp/test_npz_none", cases[i].names, TJ_LIST(F32(c, 1), F32(c, 2)), false), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, cases[i].why);
		assert_int_equal(access("/tmp/test_npz_none", F_OK), -1);
	}
	tj_close(c);
}

/* ---- what is refused ---- */
static size_t find(const hostile *h, const char *what, size_t n, int which)
{
	for (size_t i = 0; i + n <= h->n; i++)
		if (!memcmp(h->v + i, what, n) && !which--) return i;
	fail_msg("%s is not in the file", what);
	return 0;
}

static void refuses(tj_ctx *c, hostile *h, const char *why)
{
	hostile_put(h);
	tj_npz *z = tj_npz_open(c, h->path);
	if (z) {
		for (int64_t i = 0; i < tj_npz_count(z); i++) tj_npz_get(z, tj_npz_name(z, i));
		tj_npz_close(z);
	}
	assert_true(tj_check(c) != TJ_OK);
	if (!strstr(tj_last_error(c)->message, why)) fail_msg("\"%s\" is not in \"%s\"", why, tj_last_error(c)->message);
}

static void refused(void **s)
{
	/* in the which-th place where `what` stands, n bytes from `at` on become `to` */
	static const struct { const char *what; int which, at, n; const char *to, *why; } cases[] = {
		{ "PK\5\6", 0, 0, 1, "X", "no directory of a zip file" },
		{ "PK\5\6", 0, 4, 1, "\1", "several parts" },
		{ "PK\5\6", 0, 10, 2, "\xff\xff", "its zip64 record is missing" },
		{ "PK\5\6", 0, 10, 1, "\x7f", "its directory does not lie in the file" },
		{ "PK\5\6", 0, 10, 1, "\4", "its directory does not lie in the file" },
		{ "PK\5\6", 0, 16, 2, "\xff\xff", "its directory does not lie in the file" },
		{ "PK\1\2", 0, 0, 1, "X", "its directory is broken" },
		{ "PK\1\2", 2, 28, 2, "\0\2", "its directory is broken" },
		{ "PK\1\2", 0, 8, 1, "\1", "it is encrypted" },
		{ "PK\1\2", 0, 10, 1, "\14", "it is packed by method 12" },
		{ "PK\1\2", 0, 16, 1, "\0", "its checksum is wrong" },
		{ "PK\1\2", 0, 20, 1, "\1", "1 bytes cannot become" },
		{ "PK\1\2", 0, 24, 4, "\xff\xff\xff\xff", "its zip64 field is too short" },
		{ "PK\1\2", 0, 42, 1, "\1", "it has no header" },
		{ "PK\1\2", 1, 42, 2, "\0\0", "overlap" },
		{ "PK\1\2", 0, 46, 1, "/", "leads out of the file" },
		{ "PK\1\2", 0, 46, 2, "..", "leads out of the file" },
		{ "PK\1\2", 0, 46, 1, "\0", "has a zero byte" },
		{ "PK\1\2", 0, 46, 1, "n", "it has n twice" },
		{ "PK\1\2", 0, 48, 1, "X", "which is no .npy file" },
		{ "\x93NUMPY", 0, 0, 1, "X", "it is no .npy file" },
		{ "(2, 3)", 0, 1, 1, "3", "it ends too early" },
		{ "(2, 3)", 0, 1, 1, "1", "something follows" },
	};
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_file(h, stored, STORED);
		memcpy(h->v + find(h, cases[i].what, strlen(cases[i].what), cases[i].which) + cases[i].at, cases[i].to, (size_t)cases[i].n);
		refuses(c, h, cases[i].why);
	}
	put_file(h, deflated, DEFLATED); /* more bytes than deflate can make of these */
	memcpy(h->v + find(h, "PK\1\2", 4, 0) + 24, "\xff\xff\xff\0", 4);
	refuses(c, h, "cannot become 16777215");
	for (size_t n = 0; n < STORED; n++) { /* each beginning of a good file */
		memcpy(h->v, stored, n);
		h->n = n;
		refuses(c, h, "it is no .npz file");
	}
	tj_close(c);
	hostile_end(h);
}

/* Random changes: none crashes. */
static void random_changes(void **s)
{
	const long turns = hostile_turns(10000);
	long read = 0;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(9);
	(void)s;
	for (long i = 0; i < turns; i++) {
		if (i & 1) hostile_make(h, deflated, DEFLATED, 0, "PK\1\2\3\4\5\6\7\10\377(),'<fiV0123456789");
		else hostile_make(h, stored, STORED, 0, "PK\1\2\3\4\5\6\7\10\377(),'<fiV0123456789");
		tj_npz *z = tj_npz_open(c, h->path);
		if (!z) {
			hostile_refused(c);
			continue;
		}
		for (int64_t k = 0; k < tj_npz_count(z); k++) {
			tj_scope *scope = tj_push(c);
			tj_tensor *t = tj_npz_get(z, tj_npz_name(z, k));
			if (tj_is_poison(t)) hostile_refused(c);
			else assert_non_null(tj_data(t)), read++;
			tj_pop(scope);
		}
		tj_npz_close(z);
	}
	assert_in_range(read, 1, 3 * turns);
	tj_close(c);
	hostile_end(h);
}

static void numpy_reads(void **s)
{
	static const char *const names[] = { "a", "b/c" };
	tj_ctx *c = tj_open(NULL);
	(void)s;
	if (system("python3 -c 'import numpy' 2>/dev/null")) SKIP("python3 has no numpy");
	for (int packed = 0; packed < 2; packed++) {
		assert_int_equal(tj_npz_save("/tmp/test_npz_py.npz", names, TJ_LIST(F32(c, 1, 2.5), tj_full(TJ_BOOL, TJ_SHAPE(2, 1), tj_i(1))),
		                             packed), TJ_OK);
		assert_int_equal(system("python3 -c \"import numpy, zipfile; t = numpy.load('/tmp/test_npz_py.npz'); "
		                        "assert t['a'].tolist() == [1, 2.5] and t['b/c'].tolist() == [[True], [True]]; "
		                        "assert zipfile.ZipFile('/tmp/test_npz_py.npz').testzip() is None\""), 0);
	}
	unlink("/tmp/test_npz_py.npz");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numpy_wrote), cmocka_unit_test(zip64),          cmocka_unit_test(round_trips), cmocka_unit_test(not_saved),
		cmocka_unit_test(refused),     cmocka_unit_test(random_changes), cmocka_unit_test(numpy_reads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
