/* SPDX-License-Identifier: MIT */
/* The tokeniser: words of GPT-2's pattern, training, every text comes back, and files that are right or broken. */
#include "kit/data/data.h"
#undef TJ_SITE
#define TJ_SITE __FILE__ ":" TJ_STR(__LINE__)
#include "test/kit/hostile.h"

static void words(void **s)
{
	static const char text[] = "Hello world, it's  2 o'clock!\n\n x_1\t\ty 'll we'll we're IT'S 3rd caf\303\251 \303\274ber\n  ";
	static const char *const want[] = {
		"Hello", " world", ",",  " it",  "'s", " ",   " 2",  " o", "'", "clock", "!",   "\n\n", " x", "_", "1", "\t", "\t", "y",
		" '",    "ll",     " we", "'ll", " we", "'re", " IT", "'",  "S", " 3",    "rd",  " caf\303\251", " \303\274ber", "\n  " };
	const char *at = text, *end = text + sizeof text - 1;
	kit_why w;
	kit_pattern *p = kit_words_pattern(&w);
	kit_words x = { .pattern = p };
	(void)s;
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		const size_t n = kit_words_next(&x, text, sizeof text - 1, (size_t)(at - text));
		if (n != strlen(want[i]) || memcmp(at, want[i], n) != 0) fail_msg("word %zu: \"%.*s\", not \"%s\"", i, (int)n, at, want[i]);
		at += n;
	}
	assert_ptr_equal(at, end);
	kit_words_end(&x);
	static const char odd[] = "a\377\302\240\342\200\203b \343\201\202\357\274\222\314\201\360\237\230\200 \355\240\200z";
	/* a, FF, a blank of Latin-1, EM SPACE, b, a blank and a letter, a digit, a mark and an emoji, a blank, 3 bytes, z */
	static const size_t size[] = { 1, 1, 2, 3, 1, 4, 3, 6, 1, 3, 1 };
	x = (kit_words){ .pattern = p };
	for (size_t i = 0, k = 0; k < sizeof odd - 1; k += size[i++]) assert_int_equal(kit_words_next(&x, odd, sizeof odd - 1, k), size[i]);
	kit_words_end(&x);
	x = (kit_words){ 0 }; /* without the library */
	assert_int_equal(kit_words_next(&x, "ab cd", 5, 0), 2);
	assert_int_equal(kit_words_next(&x, "caf\303\251", 5, 0), 0);
	kit_pattern_close(p);
}

static void names_of_bytes(void **s)
{
	bool had[256] = { false };
	(void)s;
	for (int i = 0; i < 256; i++) {
		char name[3], back[3];
		const unsigned char b = kit_byte_at(i);
		assert_false(had[b]);
		had[b] = true;
		assert_int_equal(kit_bytes_named(name, kit_byte_name(b, name), back), 1);
		assert_int_equal((unsigned char)back[0], b);
	}
	assert_true(kit_byte_at(0) == '!' && kit_byte_at(188) == 0 && kit_byte_at(220) == ' ' && kit_byte_at(255) == 0xad);
	char name[3], to[8];
	assert_true(kit_byte_name(' ', name) == 2 && !memcmp(name, "\304\240", 2));
	assert_int_equal(kit_bytes_named("a b", 3, to), -1);
	assert_int_equal(kit_bytes_named("\305\204", 2, to), -1);
	assert_int_equal(kit_bytes_named("\303", 1, to), -1);
	assert_int_equal(kit_bytes_named("\342\202\254", 3, to), -1);
}

static const char poem[] = "the cat sat on the mat. the cat ate the rat; that rat sat on that mat!\n"
                           "the then there theme other bother aaaa aaa\n";
enum { POEM = sizeof poem - 1 };

static void is_token(const tj_bpe *b, int64_t id, const char *want)
{
	size_t n = 0;
	const char *s = tj_bpe_token(b, id, &n);
	if (!s || n != strlen(want) || memcmp(s, want, n) != 0) fail_msg("token %d is \"%.*s\", not \"%s\"", (int)id, (int)n, s ? s : "", want);
}

static void trained(void **s)
{
	tj_ctx *c = tj_open(NULL);
	(void)s;
	tj_bpe *b = tj_bpe_train(c, poem, POEM, 400), *again = tj_bpe_train(c, poem, POEM, 400), *less = tj_bpe_train(c, poem, POEM, 260);
	kit_ok(c);
	assert_true(tj_bpe_count(b) > 270 && tj_bpe_count(b) < 400 && tj_bpe_count(less) == 260); /* no pair comes twice any more */
	assert_int_equal(tj_bpe_count(again), tj_bpe_count(b));
	is_token(b, 256, "th");
	is_token(b, 257, "at");
	is_token(b, 258, "the");
	tj_bpe *tie = tj_bpe_train(c, "ab cd ab cd", 11, 400); /* three pairs come twice: the lowest ids are first */
	is_token(tie, 256, "ab");
	is_token(tie, 257, "cd");
	is_token(tie, 258, " cd");
	assert_int_equal(tj_bpe_count(tie), 259);
	tj_bpe_close(tie);
	for (int64_t i = 0; i < tj_bpe_count(b); i++) {
		size_t n, m;
		const char *x = tj_bpe_token(b, i, &n), *y = tj_bpe_token(again, i, &m);
		assert_true(n == m && !memcmp(x, y, n));
	}
	assert_true(!tj_bpe_token(b, -1, NULL) && !tj_bpe_token(b, tj_bpe_count(b), NULL) && !tj_bpe_token(NULL, 0, NULL));
	tj_tensor *ids = tj_bpe_encode(b, poem, POEM);
	assert_true(tj_dtype_of(ids) == TJ_I32 && tj_numel(ids) < POEM / 2);
	size_t n;
	char *text = tj_bpe_decode(b, ids, &n);
	assert_int_equal(n, POEM);
	assert_string_equal(text, poem);
	free(text);
	assert_null(tj_bpe_train(c, poem, POEM, 255));
	kit_error(c, TJ_ERR_ARG, "256 at least");
	assert_null(tj_bpe_train(c, NULL, 3, 300));
	kit_error(c, TJ_ERR_ARG, "the text is NULL");
	tj_bpe *none = tj_bpe_train(c, NULL, 0, 300);
	assert_int_equal(tj_bpe_count(none), 256);
	assert_int_equal(tj_numel(tj_bpe_encode(none, "", 0)), 0);
	text = tj_bpe_decode(b, tj_full(TJ_I64, TJ_SHAPE(2), tj_i(1 << 20)), NULL);
	assert_null(text);
	kit_error(c, TJ_ERR_INDEX, "id 1048576 at place 0");
	assert_null(tj_bpe_decode(b, tj_full(TJ_I64, TJ_SHAPE(2), tj_i(-5)), NULL));
	kit_error(c, TJ_ERR_INDEX, "id -5 at place 0");
	assert_null(tj_bpe_decode(b, F32(c, 1), NULL));
	kit_error(c, TJ_ERR_DTYPE, "ids are integers");
	tj_bpe_close(none);
	tj_bpe_close(less);
	tj_bpe_close(again);
	tj_bpe_close(b);
	tj_bpe_close(NULL);
	kit_ok(c);
	tj_close(c);
}

/* Any bytes come back, also one word of them all. */
static void any_bytes(void **s)
{
	enum { MOST = 3000 };
	static char text[MOST], back[MOST];
	static int32_t ids[MOST];
	tj_ctx *c = tj_open(NULL);
	tj_bpe *b = tj_bpe_train(c, poem, POEM, 400);
	uint64_t r = 88172645463325252u;
	(void)s;
	for (int turn = 0; turn < 600; turn++) {
		const size_t n = turn == 7 ? MOST : r % 200;
		for (size_t i = 0; i < n; i++) {
			r ^= r << 13, r ^= r >> 7, r ^= r << 17;
			text[i] = turn == 7 ? 'a' : turn % 3 ? (char)(r >> 30) : "the cat's \n12aaaat"[(r >> 30) % 18];
		}
		const int64_t k = tj_bpe_ids(b, text, n, ids, MOST);
		assert_true(k >= 0 && k <= (int64_t)n);
		assert_int_equal(tj_bpe_text(b, ids, k, back, MOST), n);
		assert_memory_equal(text, back, n);
		assert_int_equal(tj_bpe_ids(b, text, n, NULL, 0), k);
		assert_int_equal(tj_bpe_text(b, ids, k, back, 1), n);
	}
	assert_int_equal(tj_bpe_text(b, (int32_t[]){ 70000 }, 1, back, 1), -1);
	assert_int_equal(tj_bpe_ids(NULL, text, 1, ids, 1), -1);
	tj_bpe_close(b);
	tj_close(c);
}

/* ---- files ---- */
typedef struct pair { char encoder[48], merges[48]; } pair;

static pair make_pair(void)
{
	pair p = { "/tmp/test_bpe_json.XXXXXX", "/tmp/test_bpe_vocab.XXXXXX" };
	close(mkstemp(p.encoder));
	close(mkstemp(p.merges));
	return p;
}

static void drop_pair(const pair *p)
{
	unlink(p->encoder);
	unlink(p->merges);
}

static char *all_of(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *v = calloc(1, 1 << 16);
	*n = fread(v, 1, (1 << 16) - 1, f);
	fclose(f);
	return v;
}

static void saved(void **s)
{
	static int32_t ids[POEM], other[POEM];
	const pair p = make_pair(), q = make_pair();
	tj_ctx *c = tj_open(NULL);
	(void)s;
	tj_bpe *b = tj_bpe_train(c, poem, POEM, 300);
	assert_int_equal(tj_bpe_save(b, p.encoder, p.merges), TJ_OK);
	tj_bpe *d = tj_bpe_open(c, p.encoder, p.merges);
	kit_ok(c);
	assert_int_equal(tj_bpe_count(d), tj_bpe_count(b));
	const int64_t n = tj_bpe_ids(b, poem, POEM, ids, POEM);
	assert_int_equal(tj_bpe_ids(d, poem, POEM, other, POEM), n);
	assert_memory_equal(ids, other, (size_t)n * sizeof *ids);
	assert_int_equal(tj_bpe_save(d, q.encoder, q.merges), TJ_OK);
	for (int i = 0; i < 2; i++) {
		size_t k, m;
		char *x = all_of(i ? p.encoder : p.merges, &k), *y = all_of(i ? q.encoder : q.merges, &m);
		assert_true(k == m && !memcmp(x, y, k) && (i || !memcmp(x, "#version: 0.2\nt h\na t\nth e\n", 26)));
		free(x);
		free(y);
	}
	assert_int_equal(tj_bpe_save(b, "/nowhere/x", p.merges), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere/x");
	assert_int_equal(tj_bpe_save(NULL, p.encoder, p.merges), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "NULL");
	tj_bpe_close(b);
	tj_bpe_close(d);
	drop_pair(&p);
	drop_pair(&q);
	tj_close(c);
}

/* The tokens of all bytes, and then `more`. */
static void put_encoder(const char *path, const char *more)
{
	FILE *f = fopen(path, "wb");
	fputc('{', f);
	for (int i = 0; i < 256; i++) {
		char name[4] = "";
		kit_byte_name(kit_byte_at(i), name);
		fprintf(f, "%s\"%s%s\": %d", i ? ", " : "", *name == '"' || *name == '\\' ? "\\" : "", name, i);
	}
	fprintf(f, "%s}", more);
	fclose(f);
}

static void put_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");
	fputs(text, f);
	fclose(f);
}

/* A special token is decoded, and no text becomes it; merges count by rank, not by place. */
static void opened(void **s)
{
	const pair p = make_pair();
	tj_ctx *c = tj_open(NULL);
	int32_t ids[40];
	char text[40];
	(void)s;
	put_encoder(p.encoder, ", \"bc\": 256, \"ab\": 257, \"abc\": 258, \"a b\": 259, \"<|end|>\": 260");
	put_text(p.merges, "#version: 0.2\r\nb c\r\na b\na bc\n");
	tj_bpe *b = tj_bpe_open(c, p.encoder, p.merges);
	kit_ok(c);
	assert_int_equal(tj_bpe_ids(b, "abc", 3, ids, 40), 1);
	assert_int_equal(ids[0], 258);
	assert_int_equal(tj_bpe_ids(b, "ab", 2, ids, 40), 1);
	assert_int_equal(ids[0], 257);
	assert_true(tj_bpe_ids(b, "a b", 3, ids, 40) == 3 && ids[1] == 220);
	assert_int_equal(tj_bpe_text(b, (int32_t[]){ 259, 260 }, 2, text, 40), 10);
	assert_memory_equal(text, "a b<|end|>", 10);
	tj_bpe_close(b);
	drop_pair(&p);
	tj_close(c);
}

static void refused(void **s)
{
	static const struct { const char *more, *merges, *why; } cases[] = {
		{ "", "a b c\n", "line 1: it is not two tokens" },
		{ "", "ab\n", "line 1: it is not two tokens" },
		{ "", "a \n", "line 1: it is not two tokens" },
		{ "", "\n\nab c\n", "line 3: its first token is not in the vocabulary" },
		{ "", "a b\n", "line 1: what its tokens make is not" },
		{ ", \"ab\": 256", "a b\na b\n", "line 2: it is there twice" },
		{ ", \"ab\": 257", "", "are not 0 to 256" },
		{ ", \"ab\": -1", "", "are not 0 to 256" },
		{ ", \"ab\": 3", "", "are not 0 to 256" },
		{ ", \"ab\": \"x\"", "", "are not 0 to 256" },
		{ ", \"\": 256", "", "token 256 has no text" },
		{ ", \"ab\": 256, \"ab\": 257", "", "duplicate" },
	};
	const pair p = make_pair();
	tj_ctx *c = tj_open(NULL);
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_encoder(p.encoder, cases[i].more);
		put_text(p.merges, cases[i].merges);
		assert_null(tj_bpe_open(c, p.encoder, p.merges));
		kit_error(c, TJ_ERR_PARSE, cases[i].why);
	}
	static const char *const texts[] = { "", "[]", "{}", "{\"a\": 0}", "{\"\\u0000\": 0}", "3" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		put_text(p.encoder, texts[i]);
		assert_null(tj_bpe_open(c, p.encoder, p.merges));
		kit_error(c, TJ_ERR_PARSE, p.encoder);
	}
	assert_null(tj_bpe_open(c, "/nowhere/x", p.merges));
	kit_error(c, TJ_ERR_IO, "/nowhere/x");
	drop_pair(&p);
	tj_close(c);
}

/* Random changes of both files. */
static void random_changes(void **s)
{
	const long turns = hostile_turns(3000);
	const pair p = make_pair();
	tj_ctx *c = tj_open(NULL);
	tj_bpe *b = tj_bpe_train(c, poem, POEM, 280);
	size_t n[2];
	long read = 0;
	(void)s;
	assert_int_equal(tj_bpe_save(b, p.encoder, p.merges), TJ_OK);
	char *file[2] = { all_of(p.encoder, &n[0]), all_of(p.merges, &n[1]) };
	hostile *h = hostile_begin(6);
	for (long i = 0; i < turns; i++) {
		const int k = i & 1;
		hostile_make(h, file[k], n[k], 0, "0123456789[]{}:,\"\\u \nth\304\240");
		tj_bpe *d = tj_bpe_open(c, k ? p.encoder : h->path, k ? h->path : p.merges);
		if (!d) {
			hostile_refused(c);
			continue;
		}
		int32_t ids[POEM];
		char text[POEM];
		const int64_t m = tj_bpe_ids(d, poem, POEM, ids, POEM);
		assert_true(m > 0 && m <= POEM && tj_bpe_text(d, ids, m, text, POEM) == POEM);
		assert_memory_equal(text, poem, POEM);
		tj_bpe_close(d);
		read++;
	}
	assert_in_range(read, 1, turns);
	hostile_end(h);
	free(file[0]);
	free(file[1]);
	tj_bpe_close(b);
	drop_pair(&p);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words),  cmocka_unit_test(names_of_bytes), cmocka_unit_test(trained), cmocka_unit_test(any_bytes),
		cmocka_unit_test(saved),  cmocka_unit_test(opened),         cmocka_unit_test(refused), cmocka_unit_test(random_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
