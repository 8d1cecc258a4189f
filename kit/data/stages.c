/* SPDX-License-Identifier: MIT */
/* stages: what a tokenizer.json says of normalisers, pre-tokenizers and decoders. Kinds that are not known are refused by name. */
#include "kit/data/tokenizer.h"

#include <stdlib.h>

static bool flag(const json_t *j, const char *key, bool missing)
{
	const json_t *v = json_object_get(j, key);
	return json_is_boolean(v) ? json_is_true(v) : missing;
}

static bool text_of(const json_t *j, const char *key, const char **to, kit_why *w)
{
	*to = json_string_value(json_object_get(j, key));
	return *to || kit_no(w, TJ_ERR_PARSE, "its %.40s has no text \"%s\"", json_string_value(json_object_get(j, "type")), key);
}

/* {"String": text} or {"Regex": text} */
static bool pattern_of(const json_t *j, kit_stage *s, kit_why *w)
{
	const json_t *p = json_object_get(j, "pattern"), *regex = json_object_get(p, "Regex");
	if (regex) return (s->pattern = kit_pattern_open(json_string_value(regex) ? json_string_value(regex) : "", json_string_length(regex), w));
	s->text = json_string_value(json_object_get(p, "String"));
	return (s->text && *s->text) || kit_no(w, TJ_ERR_PARSE, "a pattern is neither {\"String\": ...} nor {\"Regex\": ...}");
}

static bool behaviour_of(const json_t *j, kit_stage *s, kit_why *w)
{
	static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous" };
	const char *name = json_string_value(json_object_get(j, "behavior"));
	for (int i = 0; name && i < 5; i++)
		if (!strcmp(name, names[i])) return s->behaviour = (kit_behaviour)i, true;
	return kit_no(w, TJ_ERR_PARSE, "a behavior of it is %.40s", name ? name : "missing");
}

/* ---- each kind ---- */
static bool bert(const json_t *j, kit_stage *s, kit_why *w)
{
	(void)w;
	s->kind = KIT_BERT;
	s->clean = flag(j, "clean_text", true);
	s->chinese = flag(j, "handle_chinese_chars", true);
	s->lower = flag(j, "lowercase", true);
	s->accents = flag(j, "strip_accents", s->lower);
	return true;
}
static bool nfc(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_FORM, s->form = KIT_NFC, true; }
static bool nfd(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_FORM, s->form = KIT_NFD, true; }
static bool nfkc(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_FORM, s->form = KIT_NFKC, true; }
static bool nfkd(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_FORM, s->form = KIT_NFKD, true; }
static bool lower(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_LOWER, true; }
static bool accents(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_STRIP_ACCENTS, true; }
static bool strip(const json_t *j, kit_stage *s, kit_why *w)
{
	(void)w;
	s->kind = KIT_STRIP;
	s->left = flag(j, "strip_left", true);
	s->right = flag(j, "strip_right", true);
	return true;
}
static bool prepend(const json_t *j, kit_stage *s, kit_why *w) { return s->kind = KIT_PREPEND, text_of(j, "prepend", &s->text, w); }
static bool replace(const json_t *j, kit_stage *s, kit_why *w)
{
	s->kind = KIT_REPLACE;
	return pattern_of(j, s, w) && text_of(j, "content", &s->to, w);
}
static bool split(const json_t *j, kit_stage *s, kit_why *w)
{
	s->kind = KIT_SPLIT;
	s->invert = flag(j, "invert", false);
	return pattern_of(j, s, w) && behaviour_of(j, s, w);
}
static bool words(const json_t *j, kit_stage *s, kit_why *w)
{
	static const char pattern[] = "[\\w\\p{Join_Control}]+|[^\\w\\p{Join_Control}\\s]+"; /* \\w+|[^\\w\\s]+ of Rust */
	(void)j;
	*s = (kit_stage){ .kind = KIT_SPLIT, .behaviour = KIT_REMOVED, .invert = true };
	return (s->pattern = kit_pattern_open(pattern, sizeof pattern - 1, w));
}
static bool byte_level(const json_t *j, kit_stage *s, kit_why *w)
{
	s->kind = KIT_BYTE_LEVEL;
	s->prefix_space = flag(j, "add_prefix_space", true);
	s->own_pattern = flag(j, "use_regex", true);
	return !s->own_pattern || (s->pattern = kit_words_pattern(w));
}
static bool metaspace(const json_t *j, kit_stage *s, kit_why *w)
{
	const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
	s->kind = KIT_METASPACE;
	s->prepend = !scheme ? (flag(j, "add_prefix_space", true) ? 2 : 0) : !strcmp(scheme, "always") ? 2 : !strcmp(scheme, "first");
	s->split = flag(j, "split", true);
	return text_of(j, "replacement", &s->text, w);
}
static bool bert_pieces(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_BERT_PIECES, true; }
static bool blanks(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_BLANKS, true; }
static bool punctuation(const json_t *j, kit_stage *s, kit_why *w) { return s->kind = KIT_PUNCTUATION, behaviour_of(j, s, w); }
static bool digits(const json_t *j, kit_stage *s, kit_why *w)
{
	static const char pattern[] = "\\p{N}";
	s->kind = KIT_DIGITS;
	s->behaviour = flag(j, "individual_digits", false) ? KIT_ISOLATED : KIT_CONTIGUOUS;
	return (s->pattern = kit_pattern_open(pattern, sizeof pattern - 1, w));
}
static bool word_piece(const json_t *j, kit_stage *s, kit_why *w)
{
	s->kind = KIT_WORD_PIECE;
	s->cleanup = flag(j, "cleanup", true);
	return text_of(j, "prefix", &s->text, w);
}
static bool byte_fallback(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_BYTE_FALLBACK, true; }
static bool fuse(const json_t *j, kit_stage *s, kit_why *w) { return (void)j, (void)w, s->kind = KIT_FUSE, true; }
static bool strip_ends(const json_t *j, kit_stage *s, kit_why *w)
{
	s->kind = KIT_STRIP;
	s->start = json_integer_value(json_object_get(j, "start"));
	s->stop = json_integer_value(json_object_get(j, "stop"));
	return text_of(j, "content", &s->text, w);
}
static bool suffix(const json_t *j, kit_stage *s, kit_why *w) { return s->kind = KIT_SUFFIX, text_of(j, "suffix", &s->text, w); }

static const struct { kit_part part; const char *type; bool (*read)(const json_t *j, kit_stage *s, kit_why *w); } kinds[] = {
	{ KIT_NORMALIZER, "BertNormalizer", bert },     { KIT_NORMALIZER, "NFC", nfc },
	{ KIT_NORMALIZER, "NFD", nfd },                 { KIT_NORMALIZER, "NFKC", nfkc },
	{ KIT_NORMALIZER, "NFKD", nfkd },               { KIT_NORMALIZER, "Lowercase", lower },
	{ KIT_NORMALIZER, "StripAccents", accents },    { KIT_NORMALIZER, "Strip", strip },
	{ KIT_NORMALIZER, "Prepend", prepend },         { KIT_NORMALIZER, "Replace", replace },
	{ KIT_PRE_TOKENIZER, "Split", split },          { KIT_PRE_TOKENIZER, "Whitespace", words },
	{ KIT_PRE_TOKENIZER, "ByteLevel", byte_level }, { KIT_PRE_TOKENIZER, "Metaspace", metaspace },
	{ KIT_PRE_TOKENIZER, "BertPreTokenizer", bert_pieces }, { KIT_PRE_TOKENIZER, "WhitespaceSplit", blanks },
	{ KIT_PRE_TOKENIZER, "Punctuation", punctuation }, { KIT_PRE_TOKENIZER, "Digits", digits },
	{ KIT_DECODER, "ByteLevel", byte_level },       { KIT_DECODER, "Metaspace", metaspace },
	{ KIT_DECODER, "WordPiece", word_piece },       { KIT_DECODER, "ByteFallback", byte_fallback },
	{ KIT_DECODER, "Fuse", fuse },                  { KIT_DECODER, "Strip", strip_ends },
	{ KIT_DECODER, "Replace", replace },            { KIT_DECODER, "BPEDecoder", suffix },
};

static bool read_one(const json_t *j, kit_part part, kit_stages *to, int depth, kit_why *w)
{
	static const char *const names[] = { "normalizer", "pre_tokenizer", "decoder" };
	static const char *const lists[] = { "normalizers", "pretokenizers", "decoders" };
	const char *type = json_string_value(json_object_get(j, "type"));
	if (!type) return kit_no(w, TJ_ERR_PARSE, "its %s has no type", names[part]);
	if (!strcmp(type, "Sequence")) {
		const json_t *list = json_object_get(j, lists[part]);
		if (!json_is_array(list) || depth > 8) return kit_no(w, TJ_ERR_PARSE, "its %s is a Sequence without %s", names[part], lists[part]);
		for (size_t i = 0; i < json_array_size(list); i++)
			if (!read_one(json_array_get(list, i), part, to, depth + 1, w)) return false;
		return true;
	}
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (kinds[i].part != part || strcmp(type, kinds[i].type)) continue;
		kit_stage *more = realloc(to->v, (to->n + 1) * sizeof *more);
		if (!more) return kit_no_memory(w);
		to->v = more;
		to->v[to->n] = (kit_stage){ 0 };
		return kinds[i].read(j, &to->v[to->n++], w);
	}
	return kit_no(w, TJ_ERR_PARSE, "its %s has the type %.40s, which is not known here", names[part], type);
}

bool kit_stages_read(const json_t *j, kit_part part, kit_stages *to, kit_why *w)
{
	return !j || json_is_null(j) || read_one(j, part, to, 0, w);
}

void kit_stages_free(kit_stages *s)
{
	for (size_t i = 0; i < s->n; i++) kit_pattern_close(s->v[i].pattern);
	free(s->v);
	*s = (kit_stages){ 0 };
}
