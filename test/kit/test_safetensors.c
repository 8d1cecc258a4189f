/* SPDX-License-Identifier: MIT */
/* Files of safetensors: what Python's package writes is read and written byte for byte; broken files give an error. */
#include "test/kit/hostile.h"

#include <tjfiles.h>

/* save({"w": f32 [2,3], "b": i64 [2], "m": bool [3], "h": f16 [1,1], "s": u8 []}, metadata={"who": "\u00e9", "format": "np"}) of
 * safetensors 0.8.0 */
static const char recorded[] =
	"@\001\000\000\000\000\000\000{\"__metadata__\":{\"who\":\"\303\251\",\"format\":\"np\"},\"b\":{\"dtype\":\"I64\",\"s"
	"hape\":[2],\"data_offsets\":[0,16]},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]},\"h\":{\"dtyp"
	"e\":\"F16\",\"shape\":[1,1],\"data_offsets\":[40,42]},\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[42,43]}"
	",\"m\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[43,46]}}\001\000\000\000\000\000\000\000\376\377\377\377\377"
	"\377\377\377\000\000\000\000\000\000\200\077\000\000\000@\000\000@@\000\000\200@\000\000\240@\000>\007\001\000\001";
enum { RECORDED = sizeof recorded - 1 };

static void put_file(hostile *h, const void *v, size_t n)
{
	memcpy(h->v, v, n);
	h->n = n;
	hostile_put(h);
}

/* A file with this header and so many bytes of zeros. */
static void made(hostile *h, const char *header, size_t bytes)
{
	const size_t n = strlen(header);
	memset(h->v, 0, sizeof h->v);
	h->v[0] = (unsigned char)(n & 255);
	h->v[1] = (unsigned char)(n >> 8);
	memcpy(h->v + 8, header, n);
	h->n = 8 + n + bytes;
	hostile_put(h);
}

static void python_wrote(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	put_file(h, recorded, RECORDED);
	tj_safetensors *f = tj_safetensors_open(c, h->path);
	kit_ok(c);
	assert_int_equal(tj_safetensors_count(f), 5);
	const tj_safetensors_entry *e = tj_safetensors_at(f, 1);
	assert_true(!strcmp(e->name, "w") && e->dtype == TJ_F32 && e->rank == 2 && e->dim[0] == 2 && e->dim[1] == 3);
	assert_true(e->dim[2] == TJ_END_DIM && e->bytes == 24 && tj_safetensors_find(f, "w") == e);
	assert_true(!tj_safetensors_at(f, 5) && !tj_safetensors_at(f, -1) && !tj_safetensors_find(f, "x"));
	assert_string_equal(tj_safetensors_metadata(f, "who"), "\303\251");
	assert_null(tj_safetensors_metadata(f, "whom"));
	assert_string_equal(tj_safetensors_metadata_key(f, 1), "format");
	assert_true(!tj_safetensors_metadata_key(f, 2) && !tj_safetensors_metadata_key(f, -1));
	tj_tensor *w = tj_safetensors_get(f, "w"), *b = tj_safetensors_get(f, "b"), *m = tj_safetensors_get(f, "m");
	tj_tensor *half = tj_safetensors_get(f, "h"), *u = tj_safetensors_get(f, "s");
	assert_true(tj_data(w) == e->data); /* no copy */
	assert_true(tj_is_poison(tj_safetensors_get(f, "x")));
	kit_error(c, TJ_ERR_ARG, "it has no tensor x");
	tj_safetensors_close(f);
	assert_f32(w, 0, 1, 2, 3, 4, 5); /* after the close */
	assert_true(((const int64_t *)tj_data(b))[1] == -2 && tj_item(half) == 1.5 && tj_item_i(u) == 7 && tj_rank(u) == 0);
	assert_memory_equal(tj_data(m), "\1\0\1", 3);
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void as_python_writes(void **s)
{
	char path[] = "/tmp/test_safetensors.XXXXXX";
	static const char *const names[] = { "w", "s", "b", "m", "h" }, *const metadata[] = { "who", "\303\251", "format", "np", NULL };
	tj_ctx *c = tj_open(NULL);
	(void)s;
	close(mkstemp(path));
	tj_list all = TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 0, 1, 2, 3, 4, 5 }), tj_from_data(c, TJ_U8, TJ_0D, "\7"),
	                      tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 1, -2 }), tj_from_data(c, TJ_BOOL, TJ_SHAPE(3), "\1\0\1"),
	                      tj_cast(tj_full(TJ_F32, TJ_SHAPE(1, 1), tj_f(1.5)), TJ_F16));
	assert_int_equal(tj_safetensors_save(path, names, all, metadata), TJ_OK);
	char v[RECORDED + 8];
	FILE *f = fopen(path, "rb");
	assert_int_equal(fread(v, 1, sizeof v, f), RECORDED);
	fclose(f);
	assert_memory_equal(v, recorded, RECORDED);
	/* over its own file: the map of the old one stays */
	tj_safetensors *t = tj_safetensors_open(c, path);
	tj_tensor *w = tj_safetensors_get(t, "w");
	assert_int_equal(tj_safetensors_save(path, names, TJ_LIST(tj_mul(w, tj_f(2))), NULL), TJ_OK);
	assert_f32(w, 0, 1, 2, 3, 4, 5);
	tj_safetensors_close(t);
	t = tj_safetensors_open(c, path);
	assert_f32(tj_safetensors_get(t, "w"), 0, 2, 4, 6, 8, 10);
	tj_safetensors_close(t);
	kit_ok(c);
	tj_close(c);
	unlink(path);
}

/* All dtypes, sizes of 0, views, and no tensor at all. */
static void round_trips(void **s)
{
	char path[] = "/tmp/test_safetensors.XXXXXX";
	const char *names[TJ_DTYPE_COUNT + 3];
	tj_tensor *t[TJ_DTYPE_COUNT + 4];
	tj_ctx *c = tj_open(NULL);
	(void)s;
	close(mkstemp(path));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 0, 3, 0, 5, 6 });
	for (int i = 0; i < TJ_DTYPE_COUNT; i++) {
		names[i] = tj_dtype_name((tj_dtype)i);
		t[i] = tj_transpose(tj_cast(x, (tj_dtype)i), 0, 1);
	}
	int n = TJ_DTYPE_COUNT;
	names[n] = "none", t[n++] = tj_full(TJ_F64, TJ_SHAPE(3, 0, 2), tj_f(0));
	names[n] = "", t[n++] = tj_full(TJ_I16, TJ_SHAPE(0), tj_i(0));
	names[n] = "a \"b\"\n/\303\251", t[n++] = x;
	t[n] = TJ_END;
	assert_int_equal(tj_safetensors_save(path, names, t, NULL), TJ_OK);
	tj_safetensors *f = tj_safetensors_open(c, path);
	kit_ok(c);
	assert_int_equal(tj_safetensors_count(f), n);
	for (int i = 0; i < n; i++) {
		tj_tensor *y = tj_safetensors_get(f, names[i]);
		assert_true(tj_dtype_of(y) == tj_dtype_of(t[i]) && tj_rank(y) == tj_rank(t[i]) && tj_numel(y) == tj_numel(t[i]));
		assert_true(tj_truth(tj_all(tj_eq(y, t[i]), TJ_ALL, false)));
		assert_true((uintptr_t)tj_safetensors_find(f, names[i])->data % tj_dtype_size(tj_dtype_of(y)) == 0);
	}
	tj_safetensors_close(f);
	assert_int_equal(tj_safetensors_save(path, names, TJ_NONE, NULL), TJ_OK);
	f = tj_safetensors_open(c, path);
	assert_true(f && !tj_safetensors_count(f) && !tj_safetensors_metadata(f, "x"));
	tj_safetensors_close(f);
	kit_ok(c);
	tj_close(c);
	unlink(path);
}

/* Elements at odd places, and bools of other values, are copied. */
static void copies(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	made(h, "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
	     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]}}   ", 11);
	memcpy(h->v + h->n - 11, "\2\0\377", 3);
	memcpy(h->v + h->n - 8, (float[]){ 4, 5 }, 8);
	hostile_put(h);
	tj_safetensors *f = tj_safetensors_open(c, h->path);
	kit_ok(c);
	assert_memory_equal(tj_data(tj_safetensors_get(f, "a")), "\1\0\1", 3);
	assert_f32(tj_safetensors_get(f, "b"), 4, 5);
	tj_safetensors_close(f);
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void refused(void **s)
{
	static const struct { const char *header, *why; size_t bytes; } cases[] = {
		{ "", "does not begin with {", 0 },
		{ " {}", "does not begin with {", 0 },
		{ "[]", "does not begin with {", 0 },
		{ "{\"a\":1}", "tensor a: it is no object", 0 },
		{ "{", "its header, at byte", 0 },
		{ "{} x", "its header, at byte", 0 },
		{ "{}", "3 bytes at its end belong to no tensor", 3 },
		{ "{\"a\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[0,2]}}", "tensor a: its dtype U16 is not one of tjit", 2 },
		{ "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", "its dtype F8_E4M3", 1 },
		{ "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", "its dtype is no text", 1 },
		{ "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", "its dtype is no text", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", "its shape is no list", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "no whole number from 0", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", "no whole number from 0", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", "it has 17 axes", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "no list of two", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "no list of two", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", "no list of two", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", "are not in the 1 bytes", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", "are not in the 1 bytes", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", "are not in the 1 bytes", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,99999999999999999999]}}", "its header, at byte", 1 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]}}", "it has 3 bytes of data, which", 3 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", "it has 4 bytes of data, which", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387905],\"data_offsets\":[0,0]}}", "it has 0 bytes of data, which", 0 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", "its data begin behind", 2 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
		  "tensor b: its data begin in front of", 1 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
		  "duplicate", 2 },
		{ "{\"__metadata__\":3}", "its __metadata__ is no object", 0 },
		{ "{\"__metadata__\":{\"k\":3}}", "its __metadata__ has k, which is no text", 0 },
	};
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		made(h, cases[i].header, cases[i].bytes);
		assert_null(tj_safetensors_open(c, h->path));
		tj_check(c);
		if (!strstr(tj_last_error(c)->message, cases[i].why))
			fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].header, cases[i].why, tj_last_error(c)->message);
	}
	for (size_t n = 0; n < RECORDED; n++) { /* each beginning of a good file */
		put_file(h, recorded, n);
		assert_null(tj_safetensors_open(c, h->path));
		kit_error(c, TJ_ERR_PARSE, h->path);
	}
	char deep[9000];
	memcpy(deep, "{\"a\":", 5);
	memset(deep + 5, '[', sizeof deep - 6);
	deep[sizeof deep - 1] = 0;
	made(h, deep, 0);
	assert_null(tj_safetensors_open(c, h->path));
	kit_error(c, TJ_ERR_PARSE, "depth");
	made(h, "{}", 0);
	h->v[5] = 1; /* a header of a terabyte */
	hostile_put(h);
	assert_null(tj_safetensors_open(c, h->path));
	kit_error(c, TJ_ERR_PARSE, "its header would have 1099511627778 bytes");
	assert_null(tj_safetensors_open(c, "/tmp"));
	kit_error(c, TJ_ERR_IO, "no regular file");
	tj_close(c);
	hostile_end(h);
}

static void not_saved(void **s)
{
	tj_ctx *c = tj_open(NULL);
	(void)s;
	tj_list two = TJ_LIST(F32(c, 1), F32(c, 2));
	static const struct { const char *names[3], *metadata[4], *why; } cases[] = {
		{ { "a", "a" }, { NULL }, "a is there twice" },
		{ { "a", NULL }, { NULL }, "name 1 is NULL" },
		{ { "a", "__metadata__" }, { NULL }, "cannot have the name" },
		{ { "a", "\377" }, { NULL }, "no UTF-8" },
		{ { "a", "b" }, { "k", NULL }, "the key k of metadata has no value" },
		{ { "a", "b" }, { "k", "\377", NULL }, "no UTF-8" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *path = "/tmp/test_safetensors_none";
		assert_int_equal(tj_safetensors_save(path, cases[i].names, two, cases[i].metadata), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, cases[i].why);
		assert_int_equal(access(path, F_OK), -1);
	}
	tj_close(c);
}

/* Random changes: none crashes, and what is read lies in the file. */
static void random_changes(void **s)
{
	const long turns = hostile_turns(20000);
	long read = 0;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(5);
	(void)s;
	for (long i = 0; i < turns; i++) {
		hostile_make(h, recorded, RECORDED, 328, "0123456789[]{}:,\"FUIB_ \\u\n");
		tj_safetensors *f = tj_safetensors_open(c, h->path);
		if (!f) {
			hostile_refused(c);
			continue;
		}
		tj_scope *scope = tj_push(c);
		for (int64_t k = 0; k < tj_safetensors_count(f); k++) {
			const tj_safetensors_entry *e = tj_safetensors_at(f, k);
			assert_true(e->bytes <= h->n);
			assert_non_null(tj_data(tj_safetensors_get(f, e->name)));
		}
		kit_ok(c);
		tj_safetensors_close(f);
		tj_pop(scope);
		read++;
	}
	assert_in_range(read, 1, turns);
	tj_close(c);
	hostile_end(h);
}

/* Python's package reads what we write, where it is there. */
static void python_reads(void **s)
{
	tj_ctx *c = tj_open(NULL);
	(void)s;
	if (system("python3 -c 'import numpy, safetensors' 2>/dev/null")) SKIP("python3 has no numpy or no safetensors");
	static const char *const names[] = { "w", "none" }, *const metadata[] = { "k", "v", NULL };
	assert_int_equal(tj_safetensors_save("/tmp/test_safetensors_py", names, TJ_LIST(F32(c, 1, 2.5), tj_full(TJ_I32, TJ_SHAPE(0, 3), tj_i(0))),
	                                     metadata), TJ_OK);
	assert_int_equal(system("python3 -c \"from safetensors.numpy import load_file; t = load_file('/tmp/test_safetensors_py'); "
	                        "assert t['w'].tolist() == [1, 2.5] and t['none'].shape == (0, 3)\""), 0);
	unlink("/tmp/test_safetensors_py");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_wrote), cmocka_unit_test(as_python_writes), cmocka_unit_test(round_trips),
		cmocka_unit_test(copies),       cmocka_unit_test(refused),          cmocka_unit_test(not_saved),
		cmocka_unit_test(random_changes), cmocka_unit_test(python_reads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
