/* SPDX-License-Identifier: MIT */
/* The loader: one order for any number of workers and ranks, places that are found again, padding, errors, and ends at any time. */
#include "test/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tjdata.h>

/* ---- the order ---- */
static void is_a_permutation(void **s)
{
	static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 100, 127, 128, 129, 255, 256, 257, 1000, 4096, 4097, 10007 };
	static bool had[10007];
	(void)s;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int64_t epoch = 0; epoch < 3; epoch++) {
			const int64_t n = sizes[i];
			memset(had, 0, sizeof had);
			for (int64_t k = 0; k < n; k++) {
				const int64_t x = tj_shuffled(42, epoch, n, k);
				assert_true(x >= 0 && x < n && !had[x]);
				had[x] = true;
			}
		}
	for (int64_t k = 0; k < 1000; k++) { /* of more items than any memory holds */
		const int64_t x = tj_shuffled(1, 0, INT64_MAX, k);
		assert_true(x >= 0 && x != tj_shuffled(1, 0, INT64_MAX, k + 1));
	}
}

/* All orders of 4 items are as frequent as chance has it, and so is each place of each item of 50. */
static void is_fair(void **s)
{
	enum { SEEDS = 24000, N = 50 };
	static int orders[256], places[N][N];
	double chi = 0;
	(void)s;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		int order = 0;
		for (int k = 0; k < 4; k++) order = order * 4 + (int)tj_shuffled(seed, 3, 4, k);
		orders[order]++;
		for (int k = 0; k < N; k++) places[k][tj_shuffled(seed, 0, N, k)]++;
	}
	int seen = 0;
	for (int i = 0; i < 256; i++) {
		if (!orders[i]) continue;
		seen++;
		chi += (orders[i] - SEEDS / 24.) * (orders[i] - SEEDS / 24.) / (SEEDS / 24.);
	}
	assert_int_equal(seen, 24);
	assert_true(chi < 60); /* 23 degrees of freedom: above 60 once in 30,000 */
	chi = 0;
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) chi += (places[i][k] - SEEDS / (double)N) * (places[i][k] - SEEDS / (double)N) / (SEEDS / (double)N);
	assert_true(chi > 2401 - 350 && chi < 2401 + 350); /* 49 * 49 degrees of freedom, a deviation of 69 */
}

/* ---- a data set that counts ---- */
typedef struct counting { int64_t n, bad; atomic_int asked; } counting;

static int64_t counting_length(void *self) { return ((counting *)self)->n; }

/* Field 0: its index, 1: random bits, 2: three numbers. */
static bool counting_item(void *self, int64_t index, tj_sample *s)
{
	counting *x = self;
	int64_t *a = tj_sample_put(s, 0, TJ_I64, TJ_0D), *b = tj_sample_put(s, 1, TJ_I64, TJ_0D);
	float *v = tj_sample_put(s, 2, TJ_F32, TJ_SHAPE(3));
	atomic_fetch_add(&x->asked, 1);
	if (!a || !b || !v) return false;
	if (index == x->bad) return tj_sample_fail(s, "wave %d is damaged", (int)index);
	*a = index;
	*b = (int64_t)(tj_sample_random(s) >> 1);
	for (int i = 0; i < 3; i++) v[i] = (float)(index * 3 + i);
	return true;
}

static tj_dataset counting_set(counting *x)
{
	return (tj_dataset){ .self = x, .length = counting_length, .item = counting_item };
}

enum { MOST = 4096 };
typedef struct seen { int n, batches; int64_t index[MOST], bits[MOST]; } seen;

/* The rest of an epoch. */
static void take(tj_ctx *c, tj_loader *l, seen *to)
{
	for (bool more = true; more;) {
		tj_tensor *b[3];
		tj_scope *s = tj_push(c);
		if ((more = tj_loader_next(l, b, 3))) {
			const int64_t n = tj_dim(b[0], 0), *index = tj_data(b[0]);
			const float *v = tj_data(b[2]);
			assert_true(tj_rank(b[0]) == 1 && tj_rank(b[2]) == 2 && tj_dim(b[2], 1) == 3 && to->n + n <= MOST);
			for (int64_t i = 0; i < n; i++) assert_true(v[3 * i] == index[i] * 3 && v[3 * i + 2] == index[i] * 3 + 2);
			memcpy(to->index + to->n, index, (size_t)n * 8);
			memcpy(to->bits + to->n, tj_data(b[1]), (size_t)n * 8);
			to->n += (int)n;
			to->batches++;
		}
		tj_pop(s);
	}
}

static void one_order(void **s)
{
	static const struct { int workers, prefetch; } ways[] = { { 0, 0 }, { 1, 0 }, { 1, 1 }, { 3, 0 }, { 4, 2 }, { 2, 9 } };
	static seen first, other, epoch0;
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int shuffle = 0; shuffle < 2; shuffle++)
		for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
			counting x = { .n = 103, .bad = -1 };
			const tj_dataset d = counting_set(&x);
			tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 10, .shuffle = shuffle, .seed = 7, .epochs = 3,
			                                             .workers = ways[i].workers, .prefetch = ways[i].prefetch));
			kit_ok(c);
			assert_int_equal(tj_loader_batches(l), 11);
			seen *to = i ? &other : &first;
			*to = (seen){ 0 };
			for (int e = 0; e < 3; e++) {
				take(c, l, to);
				if (!e) epoch0 = *to;
			}
			assert_true(to->n == 309 && to->batches == 33 && epoch0.n == 103);
			take(c, l, to); /* no fourth epoch */
			assert_int_equal(to->n, 309);
			assert_memory_equal(to, &first, sizeof first);
			assert_true(shuffle == !!memcmp(to->index, to->index + 103, 103 * 8)); /* each epoch has an order of its own */
			assert_true(memcmp(to->bits, to->bits + 103, 103 * 8) != 0);           /* and random bits */
			assert_int_equal(x.asked, 309);
			tj_loader_close(l);
		}
	kit_ok(c);
	tj_close(c);
}

/* The ranks together have the order of one. */
static void ranks(void **s)
{
	static seen whole, part;
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int drop = 0; drop < 2; drop++) {
		counting x = { .n = 103, .bad = -1 };
		const tj_dataset d = counting_set(&x);
		tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 10, .shuffle = true, .seed = 7, .epochs = 1));
		whole = (seen){ 0 };
		take(c, l, &whole);
		tj_loader_close(l);
		for (int r = 0; r < 4; r++) {
			l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 10, .shuffle = true, .seed = 7, .epochs = 1, .workers = 2, .rank = r,
			                                  .ranks = 4, .drop_last = drop));
			part = (seen){ 0 };
			take(c, l, &part);
			assert_int_equal(part.batches, drop ? 2 : r < 3 ? 3 : 2); /* 10 or 11 batches */
			assert_int_equal(tj_loader_batches(l), part.batches);
			for (int k = 0; k < part.n; k++) assert_int_equal(part.index[k], whole.index[k / 10 * 40 + r * 10 + k % 10]);
			tj_loader_close(l);
		}
	}
	kit_ok(c);
	tj_close(c);
}

static void places(void **s)
{
	static seen whole, rest;
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int workers = 0; workers < 3; workers++) {
		counting x = { .n = 95, .bad = -1 };
		const tj_dataset d = counting_set(&x);
		tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 10, .shuffle = true, .workers = workers, .epochs = 2));
		whole = (seen){ 0 };
		take(c, l, &whole);
		take(c, l, &whole);
		int64_t epoch, batch;
		tj_loader_tell(l, &epoch, &batch);
		assert_true(epoch == 2 && batch == 0);
		for (int at = 20; at >= 0; at--) {
			assert_int_equal(tj_loader_seek(l, at / 10, at % 10), TJ_OK);
			tj_loader_tell(l, &epoch, &batch);
			assert_true(epoch == at / 10 && batch == at % 10);
			rest = (seen){ 0 };
			take(c, l, &rest);
			take(c, l, &rest);
			const int first = at / 10 * 95 + at % 10 * 10;
			assert_int_equal(rest.n, at == 20 ? 0 : 190 - first);
			assert_memory_equal(rest.index, whole.index + first, (size_t)rest.n * 8);
		}
		assert_int_equal(tj_loader_seek(l, 0, 10), TJ_OK); /* the end of the epoch */
		tj_tensor *b[3];
		assert_false(tj_loader_next(l, b, 3));
		assert_true(tj_loader_next(l, b, 3));
		assert_int_equal(tj_loader_seek(l, 0, 11), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "no batch 11 of epoch 0");
		assert_int_equal(tj_loader_seek(l, 3, 0), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "no batch 0 of epoch 3");
		tj_loader_close(l);
	}
	tj_close(c);
}

/* ---- ends and errors ---- */
static void early_ends(void **s)
{
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int i = 0; i < 120; i++) {
		counting x = { .n = 50, .bad = -1 };
		const tj_dataset d = counting_set(&x);
		tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 4, .workers = i % 4, .shuffle = true));
		tj_tensor *b[3];
		tj_scope *scope = tj_push(c);
		for (int k = 0; k < i % 7; k++) assert_true(tj_loader_next(l, b, 3));
		if (i % 5 == 4) assert_int_equal(tj_loader_seek(l, i, 3), TJ_OK);
		tj_loader_close(l);
		if (i % 7) assert_true(tj_item_i(tj_sum(b[0], TJ_ALL, false)) >= 0); /* a batch outlives its loader */
		tj_pop(scope);
	}
	tj_loader_close(NULL);
	tj_dataset_free(NULL);
	kit_ok(c);
	tj_close(c);
}

static void bad_item(void **s)
{
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int workers = 0; workers < 4; workers++) {
		counting x = { .n = 50, .bad = 23 };
		const tj_dataset d = counting_set(&x);
		tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 4, .workers = workers));
		tj_tensor *b[3];
		for (int k = 0; k < 5; k++) assert_true(tj_loader_next(l, b, 3)); /* what stands before it comes */
		assert_false(tj_loader_next(l, b, 3));
		kit_error(c, TJ_ERR_ARG, "item 23: wave 23 is damaged");
		assert_false(tj_loader_next(l, b, 3));
		kit_ok(c);
		int64_t epoch, batch;
		tj_loader_tell(l, &epoch, &batch);
		assert_true(epoch == 0 && batch == 5);
		assert_int_equal(tj_loader_seek(l, 0, 6), TJ_OK); /* on, behind it */
		for (int k = 6; k < 13; k++) assert_true(tj_loader_next(l, b, 3));
		assert_false(tj_loader_next(l, b, 3));
		kit_ok(c);
		tj_loader_close(l);
	}
	tj_close(c);
}

/* ---- what item() may do wrong ---- */
static int64_t four(void *self) { (void)self; return 4; }

static bool wrong_item(void *self, int64_t index, tj_sample *s)
{
	const int what = *(const int *)self;
	const int64_t huge[] = { INT64_MAX, TJ_END_DIM };
	if (index < 2) return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(2)) && memset(tj_sample_put(s, 1, TJ_U8, TJ_0D), 0, 1);
	switch (what) {
	case 0: return false;
	case 1: return true;
	case 2: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(3));
	case 3: return tj_sample_put(s, 0, TJ_F64, TJ_SHAPE(2));
	case 4: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(2));
	case 5: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(2)) && tj_sample_put(s, 1, TJ_U8, TJ_0D) && tj_sample_put(s, 2, TJ_U8, TJ_0D);
	case 6: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(2)) && tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(2));
	case 7: return tj_sample_put(s, 8, TJ_F32, TJ_SHAPE(2));
	case 8: return tj_sample_put(s, 0, (tj_dtype)99, TJ_SHAPE(2));
	case 9: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(-2));
	case 10: return tj_sample_put(s, 0, TJ_F32, huge);
	case 11: return tj_sample_put(s, 1, TJ_U8, TJ_0D);
	case 12: return tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
	case 13: return tj_sample_put(s, 0, TJ_F32, NULL);
	default: tj_sample_fail(s, "first"); return tj_sample_fail(s, "second");
	}
}

static void wrong_items(void **s)
{
	static const char *const why[] = { "item() returned false", "it has no field",
		                           "its field 0 is f32[3], and that of the first item of the batch f32[2]", "its field 0 is f64[2]",
		                           "it has 1 fields, and the first item of the batch 2", "it has field 2, which",
		                           "field 0 is put twice", "field 8: there are 0 to 7", "no dtype 99", "a size is below 0",
		                           "too many elements", "without a gap", "at most 15 axes", "the shape is NULL", "first" };
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (int what = 0; what < (int)(sizeof why / sizeof *why); what++)
		for (int workers = 0; workers < 2; workers++) {
			const tj_dataset d = { .self = &what, .length = four, .item = wrong_item };
			tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 4, .workers = workers));
			tj_tensor *b[8];
			assert_false(tj_loader_next(l, b, 8));
			assert_true(tj_check(c) != TJ_OK);
			const char *text = tj_last_error(c)->message;
			if (strncmp(text, "item 2: ", 8) != 0 || !strstr(text, why[what])) fail_msg("%d: \"%s\" is not in \"%s\"", what, why[what], text);
			tj_loader_close(l);
		}
	tj_close(c);
}

static void wrong_options(void **s)
{
	static const int64_t one[] = { 4, TJ_END_DIM }, same[] = { 4, 4, TJ_END_DIM };
	static const struct { tj_loader_opts o; const char *why; } cases[] = {
		{ { .batch = -1 }, ".batch is -1" },
		{ { .workers = -1 }, ".workers is -1" },
		{ { .workers = 100000 }, ".workers is 100000" },
		{ { .prefetch = -1 }, ".prefetch is -1" },
		{ { .rank = 1 }, ".rank is 1, and .ranks 1" },
		{ { .rank = -1, .ranks = 2 }, ".rank is -1" },
		{ { .ranks = -2 }, ".ranks -2" },
		{ { .epochs = -1 }, ".epochs is -1" },
		{ { .buckets = one }, ".buckets is for .pad" },
		{ { .pad = true, .buckets = same }, "they must rise" },
		{ { .pad_fields = 256 }, "beyond field 7" },
		{ { .size = 8 }, "no such struct has" },
	};
	tj_ctx *c = tj_open(NULL);
	counting x = { .n = 5 };
	const tj_dataset d = counting_set(&x), none = { .self = &x }, odd = { .size = 12 };
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_null(tj_loader_open(c, &d, &cases[i].o));
		kit_error(c, TJ_ERR_ARG, cases[i].why);
	}
	assert_null(tj_loader_open(c, &none, NULL));
	kit_error(c, TJ_ERR_ARG, "no length()");
	assert_null(tj_loader_open(c, &odd, NULL));
	kit_error(c, TJ_ERR_ARG, "12 bytes");
	assert_null(tj_loader_open(c, NULL, NULL));
	kit_error(c, TJ_ERR_ARG, "NULL");
	x.n = -3;
	assert_null(tj_loader_open(c, &d, NULL));
	kit_error(c, TJ_ERR_ARG, "length() returned -3");
	x.n = 0; /* epochs without a batch */
	tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .workers = 1));
	tj_tensor *b[3];
	assert_true(!tj_loader_next(l, b, 3) && !tj_loader_next(l, b, 3) && !tj_loader_batches(l));
	tj_loader_close(l);
	kit_ok(c);
	tj_close(c);
}

/* ---- padding ---- */
static bool ragged_item(void *self, int64_t index, tj_sample *s)
{
	const int64_t n = (index * 5 + 2) % 4; /* 2 3 0 1 */
	(void)self;
	int32_t *a = tj_sample_put(s, 0, TJ_I32, TJ_SHAPE(n));
	tj_f16 *b = tj_sample_put(s, 1, TJ_F16, TJ_SHAPE(2, n));
	uint8_t *k = tj_sample_put(s, 2, TJ_U8, TJ_0D);
	if (!a || !b || !k) return false;
	for (int64_t i = 0; i < n; i++) a[i] = (int32_t)(10 * index + i), b[i] = b[n + i] = tj_to_f16((double)(10 * index + i));
	*k = (uint8_t)n;
	return true;
}

static void padded(void **s)
{
	static const int32_t want[] = { 0, 1, -9, 10, 11, 12, -9, -9, -9, 30, -9, -9 };
	tj_ctx *c = tj_open(NULL);
	const tj_dataset d = { .length = four, .item = ragged_item };
	(void)s;
	for (int workers = 0; workers < 3; workers++) {
		tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 4, .workers = workers, .pad = true, .pad_values = { -9, 0.5 }));
		tj_tensor *b[3];
		for (int e = 0; e < 3; e++) {
			assert_true(tj_loader_next(l, b, 3));
			assert_true(tj_rank(b[0]) == 2 && tj_dim(b[0], 1) == 3 && tj_rank(b[1]) == 3 && tj_dim(b[1], 2) == 3 && tj_rank(b[2]) == 1);
			assert_memory_equal(tj_data(b[0]), want, sizeof want);
			assert_memory_equal(tj_data(b[2]), "\2\3\0\1", 4);
			const tj_f16 *h = tj_data(b[1]);
			for (int i = 0; i < 24; i++) {
				const int32_t v = want[i / 6 * 3 + i % 3];
				assert_true(tj_from_f16(h[i]) == (v == -9 ? 0.5 : v));
			}
			assert_false(tj_loader_next(l, b, 3));
		}
		tj_loader_close(l);
	}
	kit_ok(c);
	tj_close(c);
}

static void buckets(void **s)
{
	tj_ctx *c = tj_open(NULL);
	const tj_dataset d = { .length = four, .item = ragged_item };
	tj_tensor *b[3];
	(void)s;
	tj_loader *l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 2, .workers = 1, .pad = true, .buckets = TJ_SHAPE(2, 4, 8)));
	assert_true(tj_loader_next(l, b, 3));
	assert_true(tj_dim(b[0], 1) == 4 && tj_dim(b[1], 1) == 2 && tj_dim(b[1], 2) == 3); /* axis 0 of an item */
	assert_true(tj_loader_next(l, b, 3));
	assert_true(tj_dim(b[0], 1) == 2);
	tj_loader_close(l);
	l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 2, .pad = true, .pad_fields = 1, .buckets = TJ_SHAPE(2)));
	assert_false(tj_loader_next(l, b, 3));
	kit_error(c, TJ_ERR_SHAPE, "field 1 is f16[2,3], and that of the first item of the batch f16[2,2]"); /* not padded */
	tj_loader_close(l);
	l = tj_loader_open(c, &d, TJ_OPTS(tj_loader_opts, .batch = 2, .pad = true, .buckets = TJ_SHAPE(2)));
	assert_false(tj_loader_next(l, b, 3));
	kit_error(c, TJ_ERR_SHAPE, "field 0 has 3 rows, more than the last of .buckets");
	tj_loader_close(l);
	tj_close(c);
}

/* ---- ready data sets ---- */
static void arrays(void **s)
{
	tj_ctx *c = tj_open(NULL);
	tj_tensor *b[2];
	(void)s;
	tj_scope *scope = tj_push(c);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 2, 3, 4, 5, 6 });
	tj_tensor *y = tj_from_data(c, TJ_U8, TJ_SHAPE(3), "\7\10\11");
	tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(tj_transpose(x, 0, 1), y)); /* a view is copied */
	kit_ok(c);
	tj_pop(scope);
	tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 2, .workers = 2));
	assert_true(tj_loader_next(l, b, 2));
	assert_f32(b[0], 1, 4, 2, 5);
	assert_true(tj_loader_next(l, b, 2));
	assert_f32(b[0], 3, 6);
	assert_int_equal(tj_item_i(b[1]), 9);
	tj_loader_close(l);
	tj_dataset *part = tj_dataset_part(d, 1, -1, 1);
	l = tj_loader_open(c, part, TJ_OPTS(tj_loader_opts, .batch = 8));
	assert_true(tj_loader_next(l, b, 2));
	assert_f32(b[0], 2, 5, 3, 6);
	tj_loader_close(l);
	assert_null(tj_dataset_part(d, 1, 3, 1));
	kit_error(c, TJ_ERR_INDEX, "the data set has 3 items");
	tj_dataset_free(part);
	tj_dataset_free(d);
	assert_null(tj_dataset_arrays(c, TJ_LIST(F32(c, 1, 2), F32(c, 1))));
	kit_error(c, TJ_ERR_SHAPE, "tensor 1 has 1 items, and the first one 2");
	assert_null(tj_dataset_arrays(c, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(1)))));
	kit_error(c, TJ_ERR_SHAPE, "no axis 0");
	assert_null(tj_dataset_arrays(c, TJ_NONE));
	kit_error(c, TJ_ERR_ARG, "no tensor");
	tj_close(c);
}

static void windows(void **s)
{
	tj_ctx *c = tj_open(NULL);
	tj_tensor *b[2];
	(void)s;
	for (int t = TJ_U8; t <= TJ_I64; t++)
		for (int64_t n = 0; n < 12; n++) {
			tj_tensor *ids = tj_arange((tj_dtype)t, 0, (double)n, 1);
			tj_dataset *d = tj_dataset_windows(c, ids, 4, 3);
			kit_ok(c);
			tj_loader *l = tj_loader_open(c, d, NULL);
			assert_int_equal(tj_loader_batches(l), n < 5 ? 0 : (n - 5) / 3 + 1);
			for (int64_t k = 0; tj_loader_next(l, b, 2); k++)
				for (int64_t i = 0; i < 4; i++) {
					assert_int_equal(((const int64_t *)tj_data(b[0]))[i], 3 * k + i);
					assert_int_equal(((const int64_t *)tj_data(b[1]))[i], 3 * k + i + 1);
				}
			tj_loader_close(l);
			tj_dataset_free(d);
		}
	assert_null(tj_dataset_windows(c, F32(c, 1, 2), 1, 0));
	kit_error(c, TJ_ERR_DTYPE, "ids are integers");
	assert_null(tj_dataset_windows(c, tj_full(TJ_I32, TJ_SHAPE(2, 2), tj_i(0)), 1, 0));
	kit_error(c, TJ_ERR_SHAPE, "2 axes");
	assert_null(tj_dataset_windows(c, tj_full(TJ_I32, TJ_SHAPE(2), tj_i(0)), 0, 0));
	kit_error(c, TJ_ERR_ARG, "length is 0");
	tj_close(c);
}

static bool twice(void *env, const tj_sample *in, tj_sample *out)
{
	tj_dims shape;
	tj_dtype dtype;
	const float *x = tj_sample_get(in, 0, &dtype, &shape);
	float *y = tj_sample_put(out, 0, TJ_F32, TJ_SHAPE(shape[0] + 1));
	if (!y || dtype != TJ_F32 || tj_sample_get(in, 1, NULL, NULL)) return false;
	for (int64_t i = 0; i < shape[0]; i++) y[i] = 2 * x[i];
	y[shape[0]] = (float)(tj_sample_random(out) >> 62) + *(float *)env;
	return x[0] != 5 || tj_sample_fail(out, "five");
}

static void mapped(void **s)
{
	tj_ctx *c = tj_open(NULL);
	float add = 100;
	tj_tensor *b[1];
	(void)s;
	tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 1), (float[]){ 1, 2, 5 })));
	tj_dataset *m = tj_dataset_map(d, twice, &add);
	tj_loader *l = tj_loader_open(c, m, TJ_OPTS(tj_loader_opts, .batch = 2, .workers = 2));
	assert_true(tj_loader_next(l, b, 1));
	const float *v = tj_data(b[0]);
	assert_true(v[0] == 2 && v[2] == 4 && v[1] >= 100 && v[3] <= 103);
	assert_false(tj_loader_next(l, b, 1));
	kit_error(c, TJ_ERR_ARG, "item 2: five");
	tj_loader_close(l);
	assert_null(tj_dataset_map(d, NULL, NULL));
	kit_error(c, TJ_ERR_ARG, "function is NULL");
	tj_dataset_free(m);
	tj_dataset_free(d);
	kit_ok(c);
	tj_close(c);
}

/* The items of a set, whose item i is the number i. */
static int64_t numbers(tj_ctx *c, const tj_dataset *d, int64_t *to)
{
	tj_tensor *b[1];
	int64_t n = 0;
	tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .epochs = 1));
	while (tj_loader_next(l, b, 1)) to[n++] = tj_item_i(b[0]);
	tj_loader_close(l);
	kit_ok(c);
	return n;
}
#define assert_numbers(d, ...) \
	do { \
		const int64_t want_[] = { __VA_ARGS__ }; \
		int64_t got_[64]; \
		assert_int_equal(numbers(c, d, got_), sizeof want_ / 8); \
		assert_memory_equal(got_, want_, sizeof want_); \
	} while (0)

static void parts(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	const int64_t chosen[] = { 9, 0, 9, 3, 0, 11, 9, INT64_MAX };
	tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(tj_arange(TJ_I64, 0, 11, 1))), *p, *out[4];
	assert_numbers(p = tj_dataset_part(d, 1, -1, 3), 1, 4, 7, 10);
	tj_dataset_free(p);
	assert_numbers(p = tj_dataset_part(d, 2, 2, 5), 2, 7);
	tj_dataset_free(p);
	assert_int_equal(numbers(c, p = tj_dataset_part(d, 11, -1, 1), (int64_t[64]){ 0 }), 0);
	tj_dataset_free(p);
	assert_numbers(p = tj_dataset_subset(d, chosen, 4), 9, 0, 9, 3);
	tj_dataset_free(p);
	assert_null(tj_dataset_part(d, 1, 5, 3));
	kit_error(c, TJ_ERR_INDEX, "first is 1, count 5, step 3, and the data set has 11 items");
	assert_null(tj_dataset_part(d, 1, 1, 0));
	kit_error(c, TJ_ERR_INDEX, "step 0");
	assert_null(tj_dataset_subset(d, chosen + 4, 2));
	kit_error(c, TJ_ERR_INDEX, "index 1 is 11");
	const double fraction[] = { 0.5, 0.25, 0.25, 0 };
	const int64_t lengths[] = { 6, 3, 2, 0 }; /* floor: 5, 2, 2, 0, and two more */
	for (uint64_t seed = 0; seed < 20; seed++) {
		int64_t drawn[64], again[64], n = 0;
		assert_int_equal(tj_dataset_split(d, 4, fraction, NULL, seed, out), TJ_OK);
		for (int i = 0; i < 4; i++) {
			const int64_t got = numbers(c, out[i], drawn + n);
			assert_int_equal(got, lengths[i]);
			n += got;
			tj_dataset_free(out[i]);
		}
		uint64_t all = 0;
		for (int i = 0; i < 11; i++) all |= UINT64_C(1) << drawn[i];
		assert_int_equal(all, (1 << 11) - 1);
		assert_int_equal(tj_dataset_split(d, 4, NULL, lengths, seed, out), TJ_OK);
		for (int i = 0; i < 4; i++) {
			numbers(c, out[i], again);
			assert_memory_equal(again, drawn, (size_t)lengths[i] * 8);
			memmove(drawn, drawn + lengths[i], sizeof drawn - (size_t)lengths[i] * 8);
			tj_dataset_free(out[i]);
		}
	}
	assert_int_equal(tj_dataset_split(d, 3, fraction + 1, NULL, 0, out), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "the sum 0.5, not 1");
	assert_int_equal(tj_dataset_split(d, 2, NULL, lengths, 0, out), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "leave 2 of 11 items");
	assert_int_equal(tj_dataset_split(d, 2, NULL, chosen + 6, 0, out), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "larger sum");
	tj_dataset *many[65];
	assert_int_equal(tj_dataset_split(d, 65, fraction, NULL, 0, many), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "65 parts");
	assert_int_equal(tj_dataset_split(d, 1, NULL, NULL, 0, out), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "either");
	tj_dataset_free(d);
	tj_close(c);
}

/* Three fields, and room for two: nothing is written beyond it, and a seek brings the batch again. */
static void room(void **s)
{
	(void)s;
	for (int workers = 0; workers < 2; workers++) {
		tj_ctx *c = tj_open(NULL);
		tj_tensor *x = tj_arange(TJ_I64, 0, 6, 1), *mark = tj_i(7), *b[5] = { mark, mark, mark, mark, mark };
		tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(x, x, x));
		tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 2, .workers = workers));
		for (int n = 0; n < 3; n++) {
			assert_false(tj_loader_next(l, b, n));
			kit_error(c, TJ_ERR_ARG, "items have 3 fields");
			assert_ptr_equal(b[n], mark);
			assert_false(tj_loader_next(l, b, n)); /* until the seek */
			assert_int_equal(tj_loader_seek(l, 0, 0), TJ_OK);
		}
		b[4] = mark;
		assert_true(tj_loader_next(l, b, 4) && !b[3] && b[4] == mark && tj_item_i(tj_select(b[2], 0, 1)) == 1);
		tj_loader_close(l);
		tj_dataset_free(d);
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_a_permutation), cmocka_unit_test(is_fair),     cmocka_unit_test(one_order),     cmocka_unit_test(ranks),
		cmocka_unit_test(places),           cmocka_unit_test(early_ends),  cmocka_unit_test(bad_item),      cmocka_unit_test(wrong_items),
		cmocka_unit_test(wrong_options),    cmocka_unit_test(padded),      cmocka_unit_test(buckets),       cmocka_unit_test(arrays),
		cmocka_unit_test(windows),          cmocka_unit_test(mapped),     cmocka_unit_test(room),        cmocka_unit_test(parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
