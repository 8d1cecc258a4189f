/* SPDX-License-Identifier: MIT */
/* files: all parsers of files under libFuzzer; `make fuzz-files` builds and runs it. FUZZ in the environment names the parser.
 *
 * The program has map.c's functions itself: a map is a copy of the input in a block of just so many bytes, so that the address sanitizer
 * sees each read beyond its end. Nothing is computed; the context is opened anew from time to time, since some memory is freed only when it
 * is closed. An input of which two files are made has a byte FE between them. */
#include "kit/data/data.h"
#include "kit/files/files.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tjdata.h>
#include <tjfiles.h>
#include <tjmodel.h>

#undef TJ_SITE
#define TJ_SITE "files.c:1"

/* ---- the input ---- */
static struct {
	const uint8_t *v;
	size_t n;
} file[2]; /* of the paths "0" and "1" */

struct kit_map {
	atomic_int holders;
	size_t n;
	unsigned char *v; /* a block of its own: what follows it is poisoned */
};

kit_map *kit_map_open(const char *path, kit_why *w)
{
	const int k = !path ? -1 : !strcmp(path, "0") ? 0 : !strcmp(path, "1") ? 1 : -1;
	kit_map *m = k < 0 ? NULL : calloc(1, sizeof *m);
	if (!m) return kit_no(w, TJ_ERR_IO, "no such file"), NULL;
	atomic_init(&m->holders, 1);
	m->n = file[k].n;
	m->v = malloc(m->n);
	memcpy(m->v, file[k].v, m->n);
	return m;
}

const void *kit_map_data(const kit_map *m, size_t *bytes)
{
	*bytes = m->n;
	return m->v;
}

kit_map *kit_map_hold(kit_map *m)
{
	atomic_fetch_add(&m->holders, 1);
	return m;
}

void kit_map_drop(void *map)
{
	kit_map *m = map;
	if (!m || atomic_fetch_sub(&m->holders, 1) > 1) return;
	free(m->v);
	free(m);
}

static size_t read_input(void *env, void *to, size_t bytes, kit_why *w)
{
	size_t *at = env;
	(void)w;
	if (bytes > file[0].n - *at) bytes = file[0].n - *at;
	memcpy(to, file[0].v + *at, bytes);
	*at += bytes;
	return bytes;
}

static volatile unsigned sum; /* all that a parser gave is read */
static void touch(const void *v, size_t n)
{
	for (size_t i = 0; i < n; i++) sum += ((const unsigned char *)v)[i];
}
static void touch_text(const char *s) { touch(s, s ? strlen(s) + 1 : 0); }
static void touch_tensor(tj_tensor *t)
{
	if (!tj_is_poison(t)) touch(tj_data(t), (size_t)tj_numel(t) * tj_dtype_size(tj_dtype_of(t)));
}

/* ---- the parsers ---- */
static void onnx(tj_ctx *c)
{
	tj_model *m = tj_onnx_open(c, "0", NULL);
	for (int i = 0; m && tj_model_input(m, i); i++) touch_text(tj_model_input(m, i)->name);
	for (int i = 0; m && tj_model_output(m, i); i++) touch_text(tj_model_output(m, i)->name);
	tj_model_close(m);
}

static void safetensors(tj_ctx *c)
{
	tj_safetensors *f = tj_safetensors_open(c, "0");
	for (int64_t i = 0; f && i < tj_safetensors_count(f); i++) touch_tensor(tj_safetensors_get(f, tj_safetensors_at(f, i)->name));
	for (int64_t i = 0; f && tj_safetensors_metadata_key(f, i); i++)
		touch_text(tj_safetensors_metadata(f, tj_safetensors_metadata_key(f, i)));
	tj_safetensors_close(f);
}

static void npy(tj_ctx *c)
{
	size_t at = 0;
	kit_why w = { 0 };
	kit_npy a;
	kit_source s = { read_input, &at, c && file[0].n % 2 ? (int64_t)file[0].n : -1 };
	if (!kit_npy_read(&s, &a, &w)) return;
	touch(a.data, a.bytes);
	free(a.data);
}

static void npz(tj_ctx *c)
{
	tj_npz *z = tj_npz_open(c, "0");
	for (int64_t i = 0; z && i < tj_npz_count(z); i++) touch_tensor(tj_npz_get(z, tj_npz_name(z, i)));
	tj_npz_close(z);
}

static void gguf(tj_ctx *c)
{
	tj_gguf *g = tj_gguf_open(c, "0");
	for (int64_t i = 0; g && i < tj_gguf_count(g); i++) {
		tj_tensor *values, *scales, *mins = NULL;
		const char *name = tj_gguf_at(g, i)->name;
		touch_tensor(tj_gguf_get(g, name));
		if (tj_gguf_get_quantised(g, name, &values, &scales, &mins) == TJ_OK) touch_tensor(values), touch_tensor(scales);
	}
	tj_gguf_close(g);
}

static void tokenizer(tj_ctx *c)
{
	static const char text[] = "The quick br\xC3\xB6wn fox <s> it's 12 \xE6\x88\x91 a\xCC\x81\n\n of\xFF";
	size_t bytes;
	tj_tokenizer *t = tj_tokenizer_open(c, "0");
	if (!t) return;
	for (int64_t i = 0, n = tj_tokenizer_count(t); i < n && i < 300; i++) touch_text(tj_tokenizer_token(t, i));
	tj_tensor *ids = tj_tokenizer_encode(t, text, sizeof text - 1, true);
	char *back = tj_is_poison(ids) ? NULL : tj_tokenizer_decode(t, ids, true, &bytes);
	if (back) touch(back, bytes + 1);
	free(back);
	int32_t all[64];
	for (int i = 0; i < 64; i++) all[i] = i;
	back = tj_tokenizer_decode(t, tj_from_data(c, TJ_I32, TJ_SHAPE(64), all), false, &bytes);
	if (back) touch(back, bytes + 1);
	free(back);
	tj_tokenizer_close(t);
}

static void bpe(tj_ctx *c)
{
	static const char text[] = "the poem of the h\xC3\xA4nd is 12 \xFF\n";
	int32_t ids[sizeof text];
	char back[4 * sizeof text];
	tj_bpe *b = tj_bpe_open(c, "0", "1");
	if (!b) return;
	const int64_t n = tj_bpe_ids(b, text, sizeof text, ids, sizeof text), m = tj_bpe_text(b, ids, n < 0 ? 0 : n, back, sizeof back);
	if (n >= 0 && (m != (int64_t)sizeof text || memcmp(back, text, sizeof text))) abort(); /* each text comes back */
	tj_bpe_close(b);
}

static void csv(tj_ctx *c)
{
	tj_csv *t = tj_csv_open(c, "0", TJ_OPTS(tj_csv_opts, .fill = file[0].n & 1, .no_header = file[0].n & 2));
	for (int64_t k = 0; t && k < tj_csv_columns(t) && k < 20; k++) {
		touch_text(tj_csv_name(t, k));
		for (int64_t r = 0; r < tj_csv_rows(t); r++) touch_text(tj_csv_cell(t, r, k));
		touch_tensor(tj_csv_numbers(t, k, k & 1 ? TJ_I64 : TJ_F32));
		touch_tensor(tj_csv_categories(t, k));
	}
	tj_csv_close(t);
}

static void idx(tj_ctx *c) { touch_tensor(tj_idx_load(c, "0")); }
static void picture(tj_ctx *c) { touch_tensor(tj_image_load(c, "0", (int)(file[0].n % 5))); }

static const struct {
	const char *name;
	void (*parse)(tj_ctx *c);
	int turns; /* between two openings of the context */
} parsers[] = { { "onnx", onnx, 500 },           { "safetensors", safetensors, 5000 }, { "npy", npy, 100000 },   { "npz", npz, 5000 },
	        { "gguf", gguf, 5000 },          { "tokenizer", tokenizer, 5000 },     { "bpe", bpe, 100000 },   { "csv", csv, 5000 },
	        { "idx", idx, 5000 },            { "png", picture, 5000 },             { "jpeg", picture, 5000 } };

int LLVMFuzzerTestOneInput(const uint8_t *v, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *v, size_t n)
{
	static tj_ctx *c;
	static int turn, which = -1;
	const char *name = getenv("FUZZ");
	for (int i = 0; which < 0 && i < (int)(sizeof parsers / sizeof *parsers); i++)
		if (name && !strcmp(parsers[i].name, name)) which = i;
	if (which < 0) fprintf(stderr, "FUZZ names no parser\n"), exit(2);
	if (turn++ % parsers[which].turns == 0) {
		if (c) tj_close(c);
		c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	}
	const uint8_t *cut = memchr(v, 0xFE, n);
	file[0].v = file[1].v = v, file[0].n = n, file[1].n = 0;
	if (parsers[which].parse == bpe && cut) file[0].n = (size_t)(cut - v), file[1].v = cut + 1, file[1].n = n - file[0].n - 1;
	tj_scope *s = tj_push(c);
	parsers[which].parse(c);
	if (tj_check(c) == TJ_ERR_NOMEM) abort(); /* memory is taken only in proportion to the input */
	tj_pop(s);
	return 0;
}
