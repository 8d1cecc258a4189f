/* SPDX-License-Identifier: MIT */
/* GGUF: a recorded file of the Python package, what is refused, what is written, blocks in matrix products, hostile files. */
#include "test/kit/hostile.h"

#include <math.h>
#include <tjfiles.h>

#include "test/kit/recorded_gguf.inc"
enum { TENSORS = sizeof recorded_hash / sizeof *recorded_hash };

static uint64_t fnv(const void *data, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
	return h;
}
static void put(hostile *h, const void *v, size_t n)
{
	memcpy(h->v, v, n);
	h->n = n;
	hostile_put(h);
}

/* ---- reading ---- */
static uint64_t hash_of(tj_tensor *t)
{
	const size_t bytes = (size_t)tj_numel(t) * tj_dtype_size(tj_dtype_of(t));
	return fnv(tj_data(t), bytes);
}

/* The integers and scales give the same bits. */
static tj_tensor *from_parts(tj_tensor *q, tj_tensor *scale, tj_tensor *min, int64_t group)
{
	const int64_t rows = tj_dim(q, 0), n = tj_dim(q, 1);
	tj_tensor *x = tj_reshape(tj_cast(q, TJ_F32), TJ_SHAPE(rows, n / group, group));
	x = tj_mul(x, tj_unsqueeze(scale, 2));
	if (min) x = tj_sub(x, tj_unsqueeze(min, 2));
	return tj_reshape(x, TJ_SHAPE(rows, n));
}

static void test_recorded(void **state)
{
	(void)state;
	hostile *h = hostile_begin(1);
	tj_ctx *c = kit_open();
	put(h, recorded, sizeof recorded);
	tj_gguf *g = tj_gguf_open(c, h->path);
	kit_ok(c);
	assert_int_equal(tj_gguf_count(g), TENSORS);
	for (int i = 0; i < TENSORS; i++) {
		const tj_gguf_entry *e = tj_gguf_at(g, i);
		assert_string_equal(e->name, recorded_hash[i].name);
		assert_string_equal(e->type, recorded_hash[i].type);
		assert_ptr_equal(e, tj_gguf_find(g, e->name));
		tj_tensor *t = tj_gguf_get(g, e->name);
		kit_ok(c);
		assert_true(tj_rank(t) == 2 && tj_dim(t, 0) == e->dim[0] && tj_dim(t, 1) == e->dim[1] && tj_dtype_of(t) == e->dtype);
		if (!e->group) assert_ptr_equal(tj_data(t), e->data); /* no copy */
		assert_int_equal(hash_of(e->dtype == TJ_BF16 ? tj_cast(t, TJ_F32) : t), recorded_hash[i].hash);
		tj_tensor *q, *scale, *min;
		if (!e->group) {
			assert_int_equal(tj_gguf_get_quantised(g, e->name, &q, &scale, &min), TJ_ERR_ARG);
			kit_error(c, TJ_ERR_ARG, "it has no scales");
			continue;
		}
		assert_int_equal(tj_gguf_get_quantised(g, e->name, &q, &scale, &min), TJ_OK);
		assert_int_equal(hash_of(from_parts(q, scale, min, e->group)), recorded_hash[i].hash);
		if (min) assert_int_equal(tj_gguf_get_quantised(g, e->name, &q, &scale, NULL), TJ_ERR_ARG);
		if (min) kit_error(c, TJ_ERR_ARG, "values, scales or mins are NULL");
	}
	assert_true(tj_is_poison(tj_gguf_get(g, "nothing")));
	kit_error(c, TJ_ERR_ARG, "no tensor nothing");
	tj_tensor *kept = tj_gguf_get(g, "int64");
	tj_gguf_close(g);
	assert_int_equal(((const int64_t *)tj_data(kept))[5], 3);
	tj_close(c);
	hostile_end(h);
}

static void test_values(void **state)
{
	(void)state;
	static const struct { const char *key; tj_gguf_type type; int64_t i; double f; } number[] = {
		{ "u8", TJ_GGUF_U8, 200, 200 }, { "i8", TJ_GGUF_I8, -100, -100 }, { "u16", TJ_GGUF_U16, 60000, 60000 },
		{ "i16", TJ_GGUF_I16, -30000, -30000 }, { "u32", TJ_GGUF_U32, 4000000000, 4e9 }, { "i32", TJ_GGUF_I32, -2000000000, -2e9 },
		{ "f32", TJ_GGUF_F32, 0, (double)0.1F }, { "bool", TJ_GGUF_BOOL, 1, 1 }, { "u64", TJ_GGUF_U64, -1, 0x1p64 },
		{ "i64", TJ_GGUF_I64, -(INT64_C(1) << 62), -0x1p62 }, { "f64", TJ_GGUF_F64, 0, 0.1 },
	};
	hostile *h = hostile_begin(1);
	tj_ctx *c = kit_open();
	put(h, recorded, sizeof recorded);
	tj_gguf *g = tj_gguf_open(c, h->path);
	for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
		const tj_gguf_value *v = tj_gguf_metadata(g, number[i].key);
		assert_true(v && v->type == number[i].type && v->i == number[i].i && v->f == number[i].f);
	}
	assert_string_equal(tj_gguf_metadata(g, "text")->text, "Gr\xC3\xBC\xC3\x9F" "e \xF0\x9F\x98\x80");
	assert_string_equal(tj_gguf_metadata(g, "general.architecture")->text, "test");
	const tj_gguf_value *v = tj_gguf_metadata(g, "texts");
	assert_true(v->type == TJ_GGUF_ARRAY && v->of == TJ_GGUF_TEXT && v->n == 3 && v->items[1].bytes == 0);
	assert_string_equal(v->items[2].text, "ccc");
	v = tj_gguf_metadata(g, "ints");
	assert_true(v->of == TJ_GGUF_I32 && ((const int32_t *)v->data)[1] == -2);
	v = tj_gguf_metadata(g, "bools");
	assert_true(v->of == TJ_GGUF_BOOL && v->n == 2 && ((const bool *)v->data)[0]);
	assert_null(tj_gguf_metadata(g, "none"));
	int64_t n = 0;
	while (tj_gguf_metadata_at(g, n)) n++;
	assert_int_equal(n, 17);
	kit_ok(c);
	tj_gguf_close(g);
	tj_close(c);
	hostile_end(h);
}

/* ---- a matrix product of blocks: it reads the integers ---- */
static tj_tensor *weight[3];
static int64_t group;
static void multiply(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], tj_transpose(from_parts(weight[0], weight[1], weight[2], group), 0, 1));
}
static void test_product(void **state)
{
	(void)state;
	char path[] = "/tmp/tj-gguf-XXXXXX";
	const int fd = mkstemp(path);
	assert_int_equal(write(fd, recorded, sizeof recorded), sizeof recorded);
	close(fd);
	for (int i = 8; i < TENSORS; i++) {
		tj_ctx *c = kit_open();
		tj_gguf *g = tj_gguf_open(c, path);
		const tj_gguf_entry *e = tj_gguf_at(g, i);
		tj_gguf_get_quantised(g, e->name, &weight[0], &weight[1], &weight[2]);
		group = e->group;
		tj_tensor *x = tj_normal(TJ_F32, TJ_SHAPE(3, e->dim[1]));
		tj_fn *f = kit_fn(c, "multiply", multiply, NULL, 1, 1);
		tj_tensor *y = tj_call1(f, TJ_LIST(x)), *plain = tj_matmul(x, tj_transpose(tj_gguf_get(g, e->name), 0, 1));
		assert_memory_equal(tj_data(y), tj_data(plain), 24);
		kit_ok(c);
		if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) assert_int_equal(kit_stats(f).kernels, 1);
		tj_gguf_close(g);
		tj_close(c);
	}
	unlink(path);
}

/* ---- writing ---- */
static void test_written(void **state)
{
	(void)state;
	char path[] = "/tmp/tj-gguf-XXXXXX";
	close(mkstemp(path));
	tj_ctx *c = kit_open();
	float *x = malloc(2048 * sizeof *x);
	for (int i = 0; i < 2048; i++) {
		x[i] = (float)((i * 7919 + 17) % 241 - 120) / 100.0F;
		x[i] = i % 512 < 32 ? 0 : i % 512 < 64 ? x[i] * 1e-6F : x[i];
	}
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(8, 256), x), *whole = tj_arange(TJ_I16, 0, 5, 1);
	const char *const names[] = { "a", "b", "c", "d", "e" }, *const types[] = { "Q8_0", "Q4_0", NULL, NULL, "F16" };
	const tj_gguf_value texts[] = { { .type = TJ_GGUF_TEXT, .text = "x" }, { .type = TJ_GGUF_TEXT, .text = "" } };
	const tj_gguf_value metadata[] = { { .key = "general.architecture", .type = TJ_GGUF_TEXT, .text = "none" },
		                           { .key = "list", .type = TJ_GGUF_ARRAY, .of = TJ_GGUF_TEXT, .n = 2, .items = texts },
		                           { .key = "numbers", .type = TJ_GGUF_ARRAY, .of = TJ_GGUF_F32, .n = 2, .data = x + 64 },
		                           { .key = "f", .type = TJ_GGUF_F32, .f = 0.5 },
		                           { .key = "general.alignment", .type = TJ_GGUF_U32, .i = 64 }, { 0 } };
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(t, t, t, whole, tj_cast(t, TJ_F16)), types, metadata), TJ_OK);
	tj_gguf *g = tj_gguf_open(c, path);
	kit_ok(c);
	assert_int_equal(fnv(tj_gguf_find(g, "a")->data, tj_gguf_find(g, "a")->bytes), written_q8_0);
	assert_int_equal(fnv(tj_gguf_find(g, "b")->data, tj_gguf_find(g, "b")->bytes), written_q4_0);
	assert_memory_equal(tj_data(tj_gguf_get(g, "c")), x, 2048 * sizeof *x);
	assert_int_equal(((const int16_t *)tj_data(tj_gguf_get(g, "d")))[4], 4);
	assert_true((uintptr_t)tj_gguf_find(g, "e")->data % 64 == 0);
	assert_string_equal(tj_gguf_metadata(g, "list")->items[0].text, "x");
	assert_true(((const float *)tj_gguf_metadata(g, "numbers")->data)[1] == x[65] && tj_gguf_metadata(g, "f")->f == 0.5);
	tj_gguf_close(g);
	const char *const twice[] = { "a", "a" };
	const char *const wrong[] = { "Q4_K", "F32", "Q8_0" };
	tj_tensor *odd = tj_narrow(t, 1, 0, 33);
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(t), wrong, NULL), TJ_ERR_DTYPE);
	kit_error(c, TJ_ERR_DTYPE, "f32 is not written as Q4_K");
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(whole), wrong + 1, NULL), TJ_ERR_DTYPE);
	kit_error(c, TJ_ERR_DTYPE, "i16 is not written as F32");
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(odd), wrong + 2, NULL), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "no whole blocks of 32");
	assert_int_equal(tj_gguf_save(path, twice, TJ_LIST(t, t), NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "two tensors of the name a");
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(tj_eq(t, t)), NULL, NULL), TJ_ERR_DTYPE);
	kit_error(c, TJ_ERR_DTYPE, "GGUF has no type for bool");
	tj_tensor *infinite = tj_full(TJ_F32, TJ_SHAPE(32), tj_f(INFINITY));
	assert_int_equal(tj_gguf_save(path, names, TJ_LIST(infinite), wrong + 2, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "not finite");
	g = tj_gguf_open(c, path); /* the good one is still there */
	assert_int_equal(tj_gguf_count(g), 5);
	tj_gguf_close(g);
	free(x);
	unlink(path);
	tj_close(c);
}

/* ---- wrong files ---- */
static void refused(hostile *h, tj_ctx *c, tj_status code, const char *why)
{
	hostile_put(h);
	assert_null(tj_gguf_open(c, h->path));
	kit_error(c, code, why);
}
static size_t find(const hostile *h, const char *text)
{
	return (size_t)((const unsigned char *)memmem(h->v, h->n, text, strlen(text)) - h->v);
}
static void test_refused(void **state)
{
	(void)state;
	hostile *h = hostile_begin(1);
	tj_ctx *c = kit_open();
#define WITH(code, why, ...) \
	do { \
		memcpy(h->v, recorded, h->n = sizeof recorded); \
		__VA_ARGS__; \
		refused(h, c, code, why); \
	} while (0)
	WITH(TJ_ERR_PARSE, "does not begin with GGUF", h->v[0] = 'g');
	WITH(TJ_ERR_PARSE, "version 1", h->v[4] = 1);
	WITH(TJ_ERR_PARSE, "big endian", h->v[4] = 0, h->v[7] = 3);
	WITH(TJ_ERR_PARSE, "more than there are bytes", h->v[12] = 1);
	WITH(TJ_ERR_PARSE, "more than there are bytes", h->v[22] = 1);
	WITH(TJ_ERR_PARSE, "longer than the file", h->v[30] = 1);
	WITH(TJ_ERR_PARSE, "two values for i8", h->v[find(h, "u8")] = 'i');
	WITH(TJ_ERR_PARSE, "a bool", h->v[find(h, "bool") + 8] = 2);
	WITH(TJ_ERR_PARSE, "value of type 13", h->v[find(h, "bool") + 4] = 13);
	WITH(TJ_ERR_PARSE, "a list", h->v[find(h, "ints") + 16] = 1);
	WITH(TJ_ERR_PARSE, "two tensors of the name int16", h->v[find(h, "int32") + 3] = '1', h->v[find(h, "int12") + 4] = '6');
	WITH(TJ_ERR_PARSE, "no UTF-8", h->v[find(h, "int32")] = 0xFF);
	WITH(TJ_ERR_PARSE, "no UTF-8", h->v[find(h, "int32")] = 0);
	WITH(TJ_ERR_LIMIT, "17 axes", h->v[find(h, "int32") + 5] = 17);
	WITH(TJ_ERR_LIMIT, "too large", h->v[find(h, "int32") + 15] = 0x7F, h->v[find(h, "int32") + 23] = 0x7F);
	WITH(TJ_ERR_PARSE, "are not in the file", h->v[find(h, "int32") + 11] = 1);
	WITH(TJ_ERR_DTYPE, "type 23, IQ4_XS", h->v[find(h, "int32") + 25] = 23);
	WITH(TJ_ERR_DTYPE, "type 99", h->v[find(h, "int32") + 25] = 99);
	WITH(TJ_ERR_PARSE, "no whole blocks of 32", h->v[find(h, "int32") + 25] = 2);
	WITH(TJ_ERR_PARSE, "no multiple of 32", h->v[find(h, "int32") + 29] = 1);
	WITH(TJ_ERR_PARSE, "overlap", h->v[find(h, "int32") + 29] = 0);
	WITH(TJ_ERR_PARSE, "not in the file", h->v[find(h, "int32") + 30] = 15);
	WITH(TJ_ERR_PARSE, "behind the end", h->v[find(h, "int32") + 35] = 1);
	for (size_t n = 0; n < sizeof recorded - 32; n++) { /* all beginnings; the end may be padding */
		memcpy(h->v, recorded, h->n = n);
		hostile_put(h);
		if (tj_gguf_open(c, h->path)) fail_msg("%zu bytes are taken", n);
		hostile_refused(c);
	}
	assert_null(tj_gguf_open(c, "/nowhere"));
	kit_error(c, TJ_ERR_IO, "/nowhere");
	tj_gguf_close(NULL);
	tj_close(c);
	hostile_end(h);
}

/* ---- random changes ---- */
static void read_all(tj_ctx *c, tj_gguf *g)
{
	for (int64_t i = 0; i < tj_gguf_count(g); i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *t = tj_gguf_get(g, tj_gguf_at(g, i)->name), *q[3];
		assert_false(tj_is_poison(t));
		if (tj_numel(t)) assert_true(hash_of(t) != 1);
		if (tj_gguf_at(g, i)->group) assert_int_equal(tj_gguf_get_quantised(g, tj_gguf_at(g, i)->name, &q[0], &q[1], &q[2]), TJ_OK);
		tj_pop(s);
	}
	size_t sum = 0;
	for (int64_t i = 0; tj_gguf_metadata_at(g, i); i++) {
		const tj_gguf_value *v = tj_gguf_metadata_at(g, i);
		sum += strlen(v->key) + (v->text ? strlen(v->text) : 0);
		for (int64_t k = 0; v->items && k < v->n; k++) sum += v->items[k].text ? strlen(v->items[k].text) : 1;
	}
	assert_true(sum < 1 << 20);
}
static void test_hostile(void **state)
{
	(void)state;
	hostile *h = hostile_begin(7);
	tj_ctx *c = kit_open();
	const long turns = hostile_turns(5000);
	long taken = 0;
	for (long i = 0; i < turns; i++) {
		hostile_make(h, recorded, sizeof recorded, 2100, "\1\2\3\4\10\11\14\20\30\40\377aG");
		tj_gguf *g = tj_gguf_open(c, h->path);
		if (g) taken++, read_all(c, g);
		else hostile_refused(c);
		tj_gguf_close(g);
	}
	assert_true(taken < turns);
	kit_ok(c);
	tj_close(c);
	hostile_end(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_recorded), cmocka_unit_test(test_values),  cmocka_unit_test(test_product),
		                            cmocka_unit_test(test_written),  cmocka_unit_test(test_refused), cmocka_unit_test(test_hostile) };
	KIT_RUN(tests);
}
