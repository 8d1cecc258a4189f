/* SPDX-License-Identifier: MIT */
/* Readers of IDX, texts and CSV: what is right, what is refused, and random changes of files. */
#include "test/kit/hostile.h"

#include <locale.h>
#include <math.h>
#include <tjdata.h>
#include <zlib.h>

static void put_file(hostile *h, const void *v, size_t n)
{
	assert_true(n <= HOSTILE_MOST);
	memcpy(h->v, v, n);
	h->n = n;
	hostile_put(h);
}

static size_t pack(unsigned char *to, size_t room, const void *v, size_t n)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)v, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)room };
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return room - z.avail_out;
}

/* ---- IDX ---- */
static const char images[] = "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3" "\1\2\3\4\5\6\7\10\11\12\13\14";
enum { IMAGES = sizeof images - 1 };

static void idx(void **s)
{
	static const struct { int code; tj_dtype dtype; const char *v; double want; } types[] = {
		{ 9, TJ_I8, "\376", -2 },           { 11, TJ_I16, "\376\14", -500 },
		{ 12, TJ_I32, "\377\376\171\140", -100000 }, { 13, TJ_F32, "\277\300\0\0", -1.5 },
		{ 14, TJ_F64, "\300\4\0\0\0\0\0\0", -2.5 } };
	unsigned char packed[256], v[64];
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (int gz = 0; gz < 2; gz++) {
		if (gz) put_file(h, packed, pack(packed, sizeof packed, images, IMAGES));
		else put_file(h, images, IMAGES);
		tj_tensor *x = tj_idx_load(c, h->path);
		kit_ok(c);
		assert_true(tj_dtype_of(x) == TJ_U8 && tj_rank(x) == 3 && tj_dim(x, 0) == 2 && tj_dim(x, 2) == 3);
		assert_memory_equal(tj_data(x), images + 16, 12);
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		const size_t size = tj_dtype_size(types[i].dtype);
		memcpy(v, (char[]){ 0, 0, (char)types[i].code, 1, 0, 0, 0, 1 }, 8);
		memcpy(v + 8, types[i].v, size);
		put_file(h, v, 8 + size);
		tj_tensor *x = tj_idx_load(c, h->path);
		kit_ok(c);
		assert_true(tj_dtype_of(x) == types[i].dtype && tj_item(x) == types[i].want);
	}
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void bad_idx(void **s)
{
	static const struct { const char *v; size_t n; const char *why; } cases[] = {
		{ "", 0, "no IDX file" },
		{ "\0\1\10\1\0\0\0\0", 8, "no IDX file" },
		{ "\0\0\12\1\0\0\0\0", 8, "no dtype 10" },
		{ "\0\0\10\21", 4, "17 axes" },
		{ "\0\0\10\2\0\0\0\1", 8, "ends in its header" },
		{ "\0\0\10\1\0\0\0\3ab", 10, "ends too early" },
		{ "\0\0\10\1\377\377\377\377ab", 10, "ends too early" },
		{ "\0\0\16\3\377\377\377\377\377\377\377\377\377\377\377\377", 16, "too large" },
		{ "\0\0\10\1\0\0\0\1ab", 10, "something follows" },
		{ "\37\213\10\0\0\0\0\0\0\3\377", 11, "gz data are broken" },
	};
	unsigned char packed[300];
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_file(h, cases[i].v, cases[i].n);
		assert_true(tj_is_poison(tj_idx_load(c, h->path)));
		assert_true(tj_check(c) == TJ_ERR_PARSE || tj_last_error(c)->code == TJ_ERR_LIMIT);
		if (!strstr(tj_last_error(c)->message, cases[i].why)) fail_msg("%s: %s", cases[i].why, tj_last_error(c)->message);
	}
	size_t n = pack(packed, sizeof packed, images, IMAGES);
	packed[n] = 7;
	put_file(h, packed, n + 1);
	tj_idx_load(c, h->path);
	kit_error(c, TJ_ERR_PARSE, "1 bytes follow its gz data");
	put_file(h, packed, n - 9);
	tj_idx_load(c, h->path);
	assert_true(tj_check(c) == TJ_ERR_PARSE);
	n = pack(packed, sizeof packed, "\0\0\10\1\7\0\0\0", 8); /* 100 million elements of nothing */
	put_file(h, packed, n);
	tj_idx_load(c, h->path);
	kit_error(c, TJ_ERR_PARSE, "its shape needs 117440512 bytes");
	tj_idx_load(c, "/nowhere/x");
	kit_error(c, TJ_ERR_IO, "/nowhere/x: No such file");
	tj_close(c);
	hostile_end(h);
}

static void idx_changes(void **s)
{
	const long turns = hostile_turns(10000);
	unsigned char packed[256];
	const size_t n = pack(packed, sizeof packed, images, IMAGES);
	long read = 0;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(3);
	(void)s;
	for (long i = 0; i < turns; i++) {
		tj_scope *scope = tj_push(c);
		if (i & 1) hostile_make(h, packed, n, 0, "\1\2\3\10\37\213\377");
		else hostile_make(h, images, IMAGES, 16, "\1\2\3\10\11\13\14\15\16\37\213\377");
		tj_tensor *x = tj_idx_load(c, h->path);
		if (tj_is_poison(x)) hostile_refused(c);
		else assert_non_null(tj_data(x)), read++;
		tj_pop(scope);
	}
	assert_in_range(read, 1, turns);
	tj_close(c);
	hostile_end(h);
}

/* ---- texts ---- */
static void texts(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	tj_tensor *b[2];
	(void)s;
	put_file(h, "hello", 5);
	tj_tensor *t = tj_text_map(c, h->path);
	assert_true(tj_dtype_of(t) == TJ_U8 && tj_numel(t) == 5);
	assert_memory_equal(tj_data(t), "hello", 5);
	tj_dataset *d = tj_dataset_windows(c, t, 3, 1); /* bytes as tokens */
	tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 2, .workers = 1));
	assert_true(tj_loader_next(l, b, 2) && ((const int64_t *)tj_data(b[1]))[5] == 'o');
	tj_loader_close(l);
	tj_dataset_free(d);
	put_file(h, "", 0);
	t = tj_text_map(c, h->path);
	kit_ok(c);
	assert_int_equal(tj_numel(t), 0);
	tj_text_map(c, "/tmp");
	kit_error(c, TJ_ERR_IO, "no regular file");
	tj_close(c);
	hostile_end(h);
}

/* ---- CSV ---- */
static const char table[] = "\xef\xbb\xbfname,age,\"height, \"\"m\"\"\"\r\n"
                            "ann,31,1.75\r\n"
                            "\"bob \"\"b\"\"\",-2,\"2e-3\"\n"
                            "\"two\nlines\", 7 ,nan\n"
                            "ann,,";
enum { TABLE = sizeof table - 1 };

static void csv(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	put_file(h, table, TABLE);
	tj_csv *t = tj_csv_open(c, h->path, TJ_OPTS(tj_csv_opts, .fill = true, .empty = -7));
	kit_ok(c);
	assert_true(tj_csv_rows(t) == 4 && tj_csv_columns(t) == 3 && tj_csv_find(t, "age") == 1 && tj_csv_find(t, "x") == -1);
	assert_string_equal(tj_csv_name(t, 0), "name"); /* without the mark */
	assert_string_equal(tj_csv_name(t, 2), "height, \"m\"");
	assert_string_equal(tj_csv_cell(t, 1, 0), "bob \"b\"");
	assert_string_equal(tj_csv_cell(t, 2, 0), "two\nlines");
	assert_string_equal(tj_csv_cell(t, 3, 2), "");
	assert_true(!tj_csv_cell(t, 4, 0) && !tj_csv_cell(t, 0, 3) && !tj_csv_cell(t, -1, 0) && !tj_csv_name(t, 3));
	const int64_t *age = tj_data(tj_csv_numbers(t, 1, TJ_I64));
	assert_true(age[0] == 31 && age[1] == -2 && age[2] == 7 && age[3] == -7);
	assert_f32(tj_csv_numbers(t, 2, TJ_F32), 1.75f, 2e-3f, -7, -7);
	assert_true(((const double *)tj_data(tj_csv_numbers(t, 2, TJ_F64)))[1] == 2e-3);
	assert_null(tj_csv_category(t, 0, 0));
	const int64_t *k = tj_data(tj_csv_categories(t, 0));
	assert_true(k[0] == 0 && k[1] == 1 && k[2] == 2 && k[3] == 0);
	assert_string_equal(tj_csv_category(t, 0, 1), "bob \"b\"");
	assert_true(!tj_csv_category(t, 0, 3) && !tj_csv_category(t, 1, 0));
	tj_csv_numbers(t, 0, TJ_F32);
	kit_error(c, TJ_ERR_PARSE, "line 2, column 1: \"ann\" is no number");
	tj_csv_numbers(t, 2, TJ_I64);
	kit_error(c, TJ_ERR_PARSE, "\"1.75\" is no whole number");
	tj_csv_numbers(t, 3, TJ_F32);
	kit_error(c, TJ_ERR_INDEX, "no column 3: 0 to 2");
	tj_csv_numbers(t, 1, TJ_U8);
	kit_error(c, TJ_ERR_DTYPE, "not as u8");
	tj_csv_close(t);
	t = tj_csv_open(c, h->path, NULL);
	tj_csv_numbers(t, 1, TJ_I64);
	kit_error(c, TJ_ERR_PARSE, "line 6, column 2: \"\" is empty"); /* one cell has two lines */
	tj_csv_numbers(t, 2, TJ_F32);
	kit_error(c, TJ_ERR_PARSE, "line 4, column 3: \"nan\" is no number");
	tj_csv_close(t);
	put_file(h, "1e400;\n99999999999999999999;2\n1e-400;3\n", 37);
	t = tj_csv_open(c, h->path, TJ_OPTS(tj_csv_opts, .separator = ';', .no_header = true, .fill = true, .empty = NAN));
	assert_true(tj_csv_rows(t) == 3 && !tj_csv_name(t, 0));
	tj_csv_numbers(t, 0, TJ_F64);
	kit_error(c, TJ_ERR_PARSE, "line 1, column 1: \"1e400\" is too large");
	tj_csv_numbers(t, 0, TJ_I64);
	assert_true(tj_check(c) == TJ_ERR_PARSE);
	assert_true(isnan(tj_item(tj_amax(tj_csv_numbers(t, 1, TJ_F32), TJ_ALL, false))));
	tj_csv_numbers(t, 1, TJ_I64);
	kit_error(c, TJ_ERR_PARSE, "no integer");
	tj_csv_close(t);
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void bad_csv(void **s)
{
	static const struct { const char *text, *why; } cases[] = {
		{ "a,b\n1\n", "line 2: it has 1 cells, and the first line 2" },
		{ "a,b\n1,2,3\n", "line 2: it has 3 cells" },
		{ "a,b\n\n1,2", "line 2: it has 1 cells" },
		{ "a,\"b\n1,2\n", "line 1, column 2: a quote is not closed" },
		{ "a,\"b\"c\n", "line 1, column 2: something follows" },
		{ "a,b\n1,2\"\n", "line 2, column 2: a quote in a cell" },
	};
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_file(h, cases[i].text, strlen(cases[i].text));
		assert_null(tj_csv_open(c, h->path, NULL));
		kit_error(c, TJ_ERR_PARSE, cases[i].why);
	}
	put_file(h, "a\0b", 3);
	assert_null(tj_csv_open(c, h->path, NULL));
	kit_error(c, TJ_ERR_PARSE, "byte 1 is 0");
	assert_null(tj_csv_open(c, h->path, TJ_OPTS(tj_csv_opts, .separator = '"')));
	kit_error(c, TJ_ERR_ARG, "cannot be the separator");
	for (int i = 0; i < 2; i++) { /* no record, and none but the header */
		put_file(h, "x,y\n", i ? 4 : 0);
		tj_csv *t = tj_csv_open(c, h->path, NULL);
		assert_true(t && tj_csv_rows(t) == 0 && tj_csv_columns(t) == 2 * i);
		if (i) assert_int_equal(tj_numel(tj_csv_numbers(t, 1, TJ_F32)), 0);
		tj_csv_close(t);
	}
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

static void csv_changes(void **s)
{
	const long turns = hostile_turns(10000);
	long read = 0;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(4);
	(void)s;
	for (long i = 0; i < turns; i++) {
		hostile_make(h, table, TABLE, 0, "\",\n\r0123456789.-+einfax \t");
		tj_csv *t = tj_csv_open(c, h->path, TJ_OPTS(tj_csv_opts, .fill = i & 1, .no_header = i & 2));
		if (!t) {
			hostile_refused(c);
			continue;
		}
		tj_scope *scope = tj_push(c);
		for (int64_t k = 0; k < tj_csv_columns(t); k++) {
			for (int64_t r = 0; r < tj_csv_rows(t); r++) assert_true(strlen(tj_csv_cell(t, r, k)) <= h->n);
			if (tj_is_poison(tj_csv_numbers(t, k, k & 1 ? TJ_I64 : TJ_F32))) hostile_refused(c);
			assert_false(tj_is_poison(tj_csv_categories(t, k)));
		}
		tj_pop(scope);
		tj_csv_close(t);
		read++;
	}
	assert_in_range(read, 1, turns);
	tj_close(c);
	hostile_end(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idx), cmocka_unit_test(bad_idx), cmocka_unit_test(idx_changes), cmocka_unit_test(texts),
		cmocka_unit_test(csv), cmocka_unit_test(bad_csv), cmocka_unit_test(csv_changes),
	};
	setlocale(LC_ALL, "de_DE.UTF-8"); /* if it is there: numbers have a point all the same */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
