/* SPDX-License-Identifier: MIT */
/* Many sizes: which traces are kept when there is no room for all, in how much memory; and the table in which they are found. */
#include "guards/guards.h"
#include "test/kit.h"

enum { SIZES = 16 }; /* .max_entries = 1 holds so many sizes */

static void rows(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(tj_mul(tj_softmax(in[0], -1), tj_add(in[0], tj_f(1))), TJ_AXES(-1), false);
}

static tj_fn *many(tj_ctx *c, int max_entries, size_t max_bytes, tj_mode mode)
{
	tj_fn *f = tj_compile(c, rows, NULL, TJ_OPTS(tj_compile_opts, .name = "many", .nin = 1, .nout = 1, .max_entries = max_entries,
	                                             .max_bytes = max_bytes, .mode = mode));
	assert_non_null(f);
	return f;
}

/* Calls with a size; true if nothing was traced for it. */
static bool found(tj_ctx *c, tj_fn *f, int64_t m, int64_t n)
{
	tj_scope *s = tj_push(c);
	float v[4 * 400];
	for (int64_t i = 0; i < m * n; i++) v[i] = (float)(i % 13) * 0.25f - (float)(i % 7);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(m, n), v), *y, *in[] = { x, TJ_END };
	const uint64_t before = kit_stats(f).recordings;
	tj_tensor *compiled = tj_call1(f, in);
	rows(&y, in, NULL);
	assert_memory_equal(tj_data(compiled), tj_data(y), (size_t)m * sizeof(float));
	kit_ok(c);
	tj_pop(s);
	return kit_stats(f).recordings == before;
}

/* A cycle of sizes that is longer than the room: most of what there is room for is found again, not nothing. */
static void cycles(void **state)
{
	(void)state;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++)
		for (int length = SIZES + 1; length < 5 * SIZES; length += 13) {
			tj_ctx *c = kit_open();
			tj_fn *f = many(c, 1, 0, (tj_mode)mode);
			int again = 0;
			for (int turn = 0; turn < 12; turn++)
				for (int n = 0; n < length; n++) again += found(c, f, 3, 2 + n);
			const int most = 11 * (SIZES - 1);
			if (again < most / 4 || again > most)
				fail_msg("a cycle of %d sizes, room for %d: %d of at most %d calls found a trace", length, SIZES, again, most);
			assert_int_equal(kit_stats(f).sizes, SIZES);
			tj_close(c);
		}
}

/* After the program has gone over to other sizes, these are found. */
static void changes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = many(c, 1, 0, TJ_VERIFY);
	for (int turn = 0; turn < 6; turn++)
		for (int n = 0; n < 40; n++) found(c, f, 3, 2 + n);
	int again = 0;
	for (int turn = 0; turn < 60; turn++)
		for (int n = 0; n < 10; n++) again += found(c, f, 4, 100 + n) && turn >= 50;
	assert_true(again >= 95);
	tj_close(c);
}

/* A size that is called between all others stays. */
static void in_use(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = many(c, 1, 0, TJ_DIRECT);
	found(c, f, 2, 2);
	found(c, f, 2, 2);
	for (int n = 3; n < 200; n++) {
		found(c, f, 2, n);
		assert_true(found(c, f, 2, 2));
	}
	tj_close(c);
}

/* .max_bytes holds, and .bytes counts what is there: nothing is left when all sizes are gone. */
static void bytes(void **state)
{
	(void)state;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		enum { MOST = 64 << 10 };
		tj_fn *f = many(c, 0, MOST, (tj_mode)mode);
		uint64_t largest = 0;
		for (int n = 2; n < 350; n++) {
			const uint64_t before = kit_stats(f).bytes;
			found(c, f, 2, n);
			if (mode == TJ_DIRECT) found(c, f, 2, n);
			const tj_stats st = kit_stats(f);
			if (st.bytes > before && st.bytes - before > largest) largest = st.bytes - before;
			if (st.bytes > MOST + largest) fail_msg("%llu bytes, %d are allowed", (unsigned long long)st.bytes, MOST);
		}
		const tj_stats st = kit_stats(f);
		if (st.evictions < 200 || st.sizes < 4 || st.bytes < MOST / 2)
			fail_msg("%llu evictions, %llu sizes, %llu bytes", (unsigned long long)st.evictions, (unsigned long long)st.sizes,
			         (unsigned long long)st.bytes);
		const uint64_t each = st.bytes / st.sizes;
		if (!strcmp(kit_backend, "llvm") && (each < 2048 || each > 8192)) fail_msg("%llu bytes a size", (unsigned long long)each);
		tj_close(c);
	}
}

/* Two contexts: one lets traces go that the other one knows, which then traces anew. */
static void two_contexts(void **state)
{
	(void)state;
	tj_ctx *c = kit_open(), *d = tj_ctx_clone(c);
	tj_fn *f = many(c, 1, 0, TJ_DIRECT);
	for (int turn = 0; turn < 4; turn++)
		for (int n = 0; n < 30; n++) {
			tj_ctx_use(turn % 2 ? d : c);
			found(turn % 2 ? d : c, f, 2, 2 + n);
			tj_ctx_use(turn % 2 ? c : d);
			found(turn % 2 ? c : d, f, 2, 2 + n / 2);
		}
	assert_true(kit_stats(f).sizes <= SIZES);
	tj_ctx_use(d);
	tj_close(d);
	tj_ctx_use(c);
	tj_close(c);
}

/* ---- the table of keys, against a plain array ---- */
enum { KEYS = 300, STEPS = 20000 };
static uint32_t seed = 1;
static uint32_t draw(void) { return (seed = seed * 1664525 + 1013904223) >> 8; }

static void table(void **state)
{
	(void)state;
	gd_table t = { 0 };
	const uint32_t *key[KEYS] = { NULL };
	char entry[KEYS];
	for (int i = 0; i < STEPS; i++) {
		const uint32_t k = draw() % KEYS, word[2] = { k * 7919, k % 3 }, n = 1 + k % 2;
		assert_ptr_equal(gd_find(&t, word, n), key[k] ? &entry[k] : NULL);
		if (!key[k]) assert_non_null(key[k] = gd_insert(&t, word, n, &entry[k]));
		else {
			gd_remove(&t, key[k]);
			key[k] = NULL;
		}
		if (i % 1000) continue;
		for (uint32_t x = 0; x < KEYS; x++) {
			const uint32_t w[2] = { x * 7919, x % 3 };
			assert_ptr_equal(gd_find(&t, w, 1 + x % 2), key[x] ? &entry[x] : NULL);
		}
	}
	assert_true(t.cap <= 1024); /* removed keys take no room */
	gd_table_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycles),       cmocka_unit_test(changes), cmocka_unit_test(in_use), cmocka_unit_test(bytes),
		cmocka_unit_test(two_contexts), cmocka_unit_test(table),
	};
	KIT_RUN(tests);
}
