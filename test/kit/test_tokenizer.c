/* SPDX-License-Identifier: MIT */
/* tokenizer.json: recorded files of the package tokenizers and what it makes of lines, errors, hostile files, long texts.
 * record_tokenizers.py compares 10,000 lines with each of thirteen tokenisers. */
#include "test/kit/hostile.h"

#include <tjdata.h>

#define FOLDER "test/kit/tokenizers/"

static size_t unescape(char *s, size_t n)
{
	char *to = s, *const begin = s, *const end = s + n;
	for (; s < end; s++)
		if (*s == '\\' && s + 1 < end) s++, *to++ = (char)(*s == 'n' ? '\n' : *s == 'r' ? '\r' : *s);
		else *to++ = *s;
	*to = 0;
	return (size_t)(to - begin);
}

typedef struct line { char *s; size_t n, room; } line; /* without its end */
static bool next_line(FILE *f, line *l)
{
	const ssize_t n = getline(&l->s, &l->room, f);
	if (n <= 0) return false;
	l->n = (size_t)n - 1;
	l->s[l->n] = 0;
	return true;
}

static void compare(tj_ctx *c, const tj_tokenizer *t, const char *text, size_t bytes, char *want)
{
	tj_tensor *ids = tj_tokenizer_encode(t, text, bytes, true);
	const int32_t *v = tj_data(ids);
	const int64_t n = tj_numel(ids);
	for (int64_t i = 0; i < n; i++)
		if (strtol(want, &want, 10) != v[i])
			fail_msg("id %lld is %d, \"%s\", before%.60s: %.80s", (long long)i, v[i], tj_tokenizer_token(t, v[i]), want, text);
	assert_int_equal(strspn(want, " "), strlen(want));
	kit_ok(c);
}

static void test_recorded(void **state)
{
	(void)state;
	static const char *const names[] = { "gpt2", "llama3", "llama2", "bert" };
	char path[100];
	line text = { 0 }, ids = { 0 }, back = { 0 };
	size_t bytes;
	for (int k = 0; k < 4; k++) {
		tj_ctx *c = kit_open();
		snprintf(path, sizeof path, FOLDER "%s.txt", names[k]);
		tj_tokenizer *t = tj_tokenizer_open(c, path);
		kit_ok(c);
		snprintf(path, sizeof path, FOLDER "%s-lines.txt", names[k]);
		FILE *f = fopen(path, "r");
		int lines = 0;
		for (; next_line(f, &text); lines++) {
			tj_scope *s = tj_push(c);
			assert_true(next_line(f, &ids) && next_line(f, &back));
			const size_t n = unescape(text.s, text.n), want = unescape(back.s, back.n);
			compare(c, t, text.s, n, ids.s);
			tj_tensor *x = tj_tokenizer_encode(t, text.s, n, true);
			char *got = tj_tokenizer_decode(t, tj_cast(x, TJ_I64), false, &bytes);
			kit_ok(c);
			assert_int_equal(bytes, want);
			assert_memory_equal(got, back.s, want);
			int32_t own[4];
			assert_int_equal(tj_tokenizer_ids(t, text.s, n, true, own, 4), tj_numel(x));
			free(got);
			tj_pop(s);
		}
		assert_true(lines > 20);
		fclose(f);
		tj_tokenizer_close(t);
		tj_close(c);
	}
	free(text.s), free(ids.s), free(back.s);
}

static void test_bytes(void **state) /* of byte pairs each text comes back; what is no UTF-8 becomes U+FFFD */
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tokenizer *t = tj_tokenizer_open(c, FOLDER "gpt2.txt");
	kit_ok(c);
	static const char odd[] = "a\xFF\xE2\x82z\xED\xA0\x80\0b";
	static const char sound[] = "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\0b";
	size_t bytes;
	char *text = tj_tokenizer_decode(t, tj_tokenizer_encode(t, odd, sizeof odd - 1, false), true, &bytes);
	assert_int_equal(bytes, sizeof sound - 1);
	assert_memory_equal(text, sound, sizeof sound);
	free(text);
	tj_tensor *part = tj_narrow(tj_tokenizer_encode(t, "\xE0\xA4\x95", 3, false), 0, 0, 1); /* of a character: its first byte */
	text = tj_tokenizer_decode(t, part, true, &bytes);
	assert_true(bytes >= 1 && (unsigned char)text[0] == 0xE0);
	free(text);
	assert_int_equal(tj_numel(tj_tokenizer_encode(t, "", 0, true)), 0);
	assert_int_equal(tj_tokenizer_id(t, "<|end|>"), 0);
	assert_string_equal(tj_tokenizer_token(t, 0), "<|end|>");
	assert_int_equal(tj_tokenizer_id(t, "no such token"), -1);
	assert_null(tj_tokenizer_token(t, tj_tokenizer_count(t)));
	tj_tensor *ids = tj_tokenizer_encode(t, "a<|end|>b", 9, false);
	assert_true(((const int32_t *)tj_data(ids))[1] == 0);
	text = tj_tokenizer_decode(t, ids, false, NULL);
	assert_string_equal(text, "ab");
	free(text);
	kit_ok(c);
	assert_null(tj_tokenizer_decode(t, tj_from_data(c, TJ_I32, TJ_SHAPE(1), (int32_t[]){ 99999 }), true, NULL));
	kit_error(c, TJ_ERR_INDEX, "id 99999 at place 0");
	tj_tokenizer_close(t);
	tj_close(c);
}

/* Twice the text takes about twice the time: of one word, of blanks, and of many words would never end otherwise. */
static void test_long(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	enum { N = 1 << 18 };
	char *text = malloc(N);
	for (int kind = 0; kind < 4; kind++) {
		for (int i = 0; i < N; i++)
			text[i] = (char)(kind == 0 ? 'a' + i % 3 : kind == 1 ? ' ' : kind == 2 ? "<of <" [i % 5] : 'a' + i * 7919 % 24 % 20);
		for (int m = 0; m < 3; m++) {
			tj_tokenizer *t = tj_tokenizer_open(c, m == 0 ? FOLDER "gpt2.txt" : m == 1 ? FOLDER "llama2.txt" : FOLDER "bert.txt");
			assert_true(tj_tokenizer_ids(t, text, N, false, NULL, 0) >= (m == 2 ? 0 : 1));
			tj_tokenizer_close(t);
		}
	}
	kit_ok(c);
	free(text);
	tj_close(c);
}

/* ---- wrong files ---- */
static void refused(hostile *h, tj_ctx *c, tj_status code, const char *why, const char *json)
{
	h->n = strlen(json);
	memcpy(h->v, json, h->n);
	hostile_put(h);
	assert_null(tj_tokenizer_open(c, h->path));
	kit_error(c, code, why);
}

static void test_refused(void **state)
{
	(void)state;
	hostile *h = hostile_begin(3);
	tj_ctx *c = kit_open();
	refused(h, c, TJ_ERR_PARSE, "no tokenizer.json", "{}");
	refused(h, c, TJ_ERR_PARSE, "at byte", "{");
	refused(h, c, TJ_ERR_PARSE, "its model is Unigram", "{\"model\":{\"type\":\"Unigram\"}}");
	refused(h, c, TJ_ERR_PARSE, "no vocab", "{\"model\":{\"type\":\"BPE\"}}");
	refused(h, c, TJ_ERR_PARSE, "no merges", "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}");
	refused(h, c, TJ_ERR_PARSE, "has no id", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"},\"merges\":[]}}");
	refused(h, c, TJ_ERR_PARSE, "has the id -1", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}");
	refused(h, c, TJ_ERR_PARSE, "has the id 9000000000", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9000000000},\"merges\":[]}}");
	refused(h, c, TJ_ERR_PARSE, "has the id 67108863", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":67108863},\"merges\":[]}}");
	refused(h, c, TJ_ERR_PARSE, "merge 0, a", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}");
	refused(h, c, TJ_ERR_PARSE, "no pair", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}");
	refused(h, c, TJ_ERR_PARSE, "unk_token is not", "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}");
#define WITH(part) "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}," part "}"
	refused(h, c, TJ_ERR_PARSE, "type Precompiled, which is not known", WITH("\"normalizer\":{\"type\":\"Precompiled\"}"));
	refused(h, c, TJ_ERR_PARSE, "has no type", WITH("\"decoder\":{}"));
	refused(h, c, TJ_ERR_PARSE, "a behavior of it is Odd",
	        WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}"));
	refused(h, c, TJ_ERR_PARSE, "the pattern (: at byte",
	        WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Removed\"}"));
	refused(h, c, TJ_ERR_PARSE, "at byte", /* half a character */
	        WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\C\"},\"behavior\":\"Removed\"}"));
	refused(h, c, TJ_ERR_PARSE, "without normalizers", WITH("\"normalizer\":{\"type\":\"Sequence\"}"));
	refused(h, c, TJ_ERR_PARSE, "no content, or no id", WITH("\"added_tokens\":[{\"id\":1}]"));
	refused(h, c, TJ_ERR_PARSE, "no place for the text", WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"));
	hostile_end(h);
	assert_null(tj_tokenizer_open(c, "/nowhere"));
	kit_error(c, TJ_ERR_IO, "/nowhere");
	tj_tokenizer_close(NULL);
	tj_close(c);
}

/* Bytes of a token may be a part of a character: a pattern passes them by. */
static void test_parts_of_characters(void **state)
{
	(void)state;
	hostile *h = hostile_begin(3);
	tj_ctx *c = kit_open();
	static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xC3\xA2\":1,\"\xC4\xA4\":2,\"\xC2\xAC\":3},\"merges\":[]},"
	                           "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},%s"
	                           "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\".\"},\"content\":\"b\"}]}}";
	for (int fused = 0; fused < 2; fused++) {
		h->n = (size_t)snprintf((char *)h->v, sizeof h->v, json, fused ? "{\"type\":\"Fuse\"}," : "");
		hostile_put(h);
		tj_tokenizer *t = tj_tokenizer_open(c, h->path);
		kit_ok(c);
		size_t n;
		char *text = tj_tokenizer_decode(t, tj_from_data(c, TJ_I32, TJ_SHAPE(5), (int32_t[]){ 0, 1, 2, 3, 1 }), true, &n);
		assert_string_equal(text, fused ? "bb\xE2" : "b\xE2\x82\xAC\xE2"); /* 1, 2, 3 are the bytes E2, 82, AC of a euro sign */
		free(text);
		tj_tokenizer_close(t);
	}
	tj_close(c);
	hostile_end(h);
}

/* A pattern that takes exponential time ends with an error. */
static void test_slow_pattern(void **state)
{
	(void)state;
	char path[] = "/tmp/tj-slow-XXXXXX", text[400];
	FILE *f = fdopen(mkstemp(path), "w");
	fputs(WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+)+$\"},\"behavior\":\"Removed\"}"), f);
	fclose(f);
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = 'b';
	tj_ctx *c = kit_open();
	tj_tokenizer *t = tj_tokenizer_open(c, path);
	kit_ok(c);
	assert_true(tj_is_poison(tj_tokenizer_encode(t, text, sizeof text, false)));
	kit_error(c, TJ_ERR_LIMIT, "takes too long");
	tj_tokenizer_close(t);
	tj_close(c);
	unlink(path);
}

static void test_hostile(void **state)
{
	(void)state;
	static char good[HOSTILE_MOST], text[] = "The quick br\xC3\xB6wn fox <s> it's 12 \xE6\x88\x91 a\xCC\x81\n\n of";
	const long turns = hostile_turns(2000);
	for (int k = 0; k < 2; k++) {
		FILE *f = fopen(k ? FOLDER "bert.txt" : FOLDER "gpt2.txt", "r");
		const size_t n = fread(good, 1, sizeof good, f);
		fclose(f);
		assert_true(n < sizeof good);
		tj_ctx *c = kit_open();
		tj_tokenizer *first = tj_tokenizer_open(c, FOLDER "bert.txt"); /* its libraries take memory, which is limited from here on */
		hostile *h = hostile_begin(11 + (uint64_t)k);
		for (long i = 0; i < turns; i++) {
			hostile_make(h, good, n, 1200, "0123456789[]{}:,\"abBLsSpu_ \\#");
			tj_tokenizer *t = tj_tokenizer_open(c, h->path);
			if (!t) {
				hostile_refused(c);
				continue;
			}
			tj_scope *s = tj_push(c);
			tj_tensor *ids = tj_tokenizer_encode(t, text, sizeof text - 1, true);
			char *back = tj_is_poison(ids) ? NULL : tj_tokenizer_decode(t, ids, true, NULL);
			free(back);
			tj_check(c);
			tj_pop(s);
			tj_tokenizer_close(t);
		}
		hostile_end(h);
		tj_tokenizer_close(first);
		tj_close(c);
	}
}

int main(void)
{
	kit_backend = "eval"; /* it computes nothing */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded),      cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_long),          cmocka_unit_test(test_refused),
		cmocka_unit_test(test_slow_pattern),  cmocka_unit_test(test_parts_of_characters),
		cmocka_unit_test(test_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
