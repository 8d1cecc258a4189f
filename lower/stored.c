/* SPDX-License-Identifier: MIT */
/* stored: code that the disk cache has, so that no compiler is opened for it, and new code that goes there. */
#include "lower/stored.h"
#include "lower/target.h"
#include "runtime/codes.h"

typedef struct body { /* before the code of an entry */
	uint32_t bits, features; /* of vectors; RT_HAS_ of what it may use */
	uint32_t entry;
	uint32_t debug;          /* bytes behind the code: what tools are told of it */
} body;

bool lo_own_build(const lo_backend *b) { return b->build && !strcmp(b->build(), rt_build()); }

lo_stored *lo_stored_open(rt_store *s, const lo_target *t, int n, const lo_kernel *const *k, const lo_schedule *const *how)
{
	if (!s || !t->key || rt_cpu_missing() || !rt_store_used(s)) return NULL;
	lo_stored *x = rt_calloc(sizeof *x + (size_t)n * sizeof *x->key);
	if (!x) return NULL;
	*x = (lo_stored){ .store = s, .n = n, .kernel = k };
	for (int i = 0; i < n; i++) t->key(k[i], how[i], &x->key[i]);
	return x;
}

void lo_stored_close(lo_stored *x)
{
	for (int i = 0; x && i < x->n; i++) rt_text_free(&x->key[i]);
	rt_free(x);
}

static rt_span key_of(const lo_stored *x, int i) { return (rt_span){ x->key[i].s, x->key[i].n }; }

/* The entry's code, which lies in *file; false: a miss. */
static bool read_code(lo_stored *x, int i, void **file, rt_blob *blob)
{
	rt_span is;
	body b;
	if (x->key[i].oom || !rt_store_get(x->store, RT_STORE_CODE, key_of(x, i), file, &is)) return false;
	if (is.bytes > sizeof b) {
		memcpy(&b, is.at, sizeof b);
		const size_t rest = is.bytes - sizeof b, debug = b.debug <= rest ? b.debug : rest;
		*blob = (rt_blob){ .code = (const unsigned char *)is.at + sizeof b, .bytes = rest - debug, .entry = b.entry };
		blob->debug = debug ? blob->code + blob->bytes : NULL, blob->debug_bytes = (uint32_t)debug;
		if (b.entry < blob->bytes && b.bits == (uint32_t)rt_vector_bits() && !(b.features & ~rt_features((int)b.bits))) return true;
	}
	rt_store_miss(x->store, RT_STORE_CODE, key_of(x, i), RT_MISS_CONTENT);
	return false;
}

/* Code of an exported file has no lines: tools are told its name alone, by `names`. */
static void name_code(const lo_stored *x, int i, rt_blob *b, rt_text *names)
{
	if (b->debug_bytes || !rt_tools()) return;
	rt_piece p = { .at = b->entry, .bytes = (uint32_t)b->bytes - b->entry, .name = x->kernel[i]->name, .ops = "" };
	rt_debug_put(names, &(rt_debug){ .npiece = 1, .piece = &p });
	if (!names->oom) b->debug = names->s, b->debug_bytes = (uint32_t)names->n;
}

/* Reads the code of kernels that have none, and maps all that is found. */
static void read_rest(lo_stored *x, rt_entry *fn, rt_shared **code)
{
	const size_t n = (size_t)x->n;
	void **file = rt_calloc(n * sizeof *file);
	rt_blob *blob = rt_calloc(n * sizeof *blob);
	rt_entry *at = rt_calloc(n * sizeof *at);
	rt_text *names = rt_calloc(n * sizeof *names);
	int *of = rt_calloc(n * sizeof *of), found = 0;
	rt_err ignored = { 0 };
	for (int i = 0; file && blob && at && names && of && i < x->n; i++)
		if (!fn[i] && read_code(x, i, &file[i], &blob[found])) name_code(x, i, &blob[found], &names[i]), of[found++] = i;
	rt_shared *all = found ? rt_code_map(found, blob, at, &ignored) : NULL;
	if (!all) found = 0; /* compiling will say why there is no memory */
	for (int i = 0; i < found; i++) {
		fn[of[i]] = at[i], code[of[i]] = rt_shared_ref(all);
		if (x->store->codes) rt_codes_add(x->store->codes, key_of(x, of[i]), at[i], all);
	}
	rt_shared_unref(all);
	for (int i = 0; file && i < x->n; i++) rt_free(file[i]);
	for (int i = 0; names && i < x->n; i++) rt_text_free(&names[i]);
	rt_free(names);
	rt_free(file);
	rt_free(blob);
	rt_free(at);
	rt_free(of);
}

void lo_stored_load(lo_stored *x, rt_entry *fn, rt_shared **code)
{
	int left = x->n;
	for (int i = 0; i < x->n; i++) {
		fn[i] = NULL, code[i] = NULL;
		if (!x->store->codes || x->key[i].oom || !rt_codes_find(x->store->codes, key_of(x, i), &fn[i], &code[i])) continue;
		atomic_fetch_add(&x->store->hits, 1);
		left--;
	}
	if (left) read_rest(x, fn, code);
}

void lo_stored_keep(lo_stored *x, int i, const lo_kernel *k, const rt_blob *blob, rt_entry fn, rt_shared *code)
{
	const int bits = rt_vector_bits();
	const body b = { .bits = (uint32_t)bits, .features = rt_features(bits) & rt_features_for(lo_uses(k)), .entry = blob->entry,
		         .debug = blob->debug_bytes };
	if (!blob->bytes || x->key[i].oom) return;
	if (x->store->codes) rt_codes_add(x->store->codes, key_of(x, i), fn, code);
	if (!rt_store_writes(x->store)) return;
	const size_t bytes = sizeof b + blob->bytes + blob->debug_bytes;
	unsigned char *all = rt_alloc(bytes);
	if (!all) return;
	memcpy(all, &b, sizeof b);
	memcpy(all + sizeof b, blob->code, blob->bytes);
	if (blob->debug_bytes) memcpy(all + sizeof b + blob->bytes, blob->debug, blob->debug_bytes);
	rt_store_put(x->store, RT_STORE_CODE, key_of(x, i), (rt_span){ all, bytes });
	rt_free(all);
}
