/* SPDX-License-Identifier: MIT */
/* storenames: the tables of store.h as text. */
#include "runtime/store.h"

static const char *const miss_names[] = {
#define X(NAME, text, doc) text,
	RT_MISS_MAP(X)
#undef X
};
static const char *const miss_texts[] = {
#define X(NAME, text, doc) doc,
	RT_MISS_MAP(X)
#undef X
};
static const char *const kind_names[] = {
#define X(NAME, text) text,
	RT_STORE_KINDS_MAP(X)
#undef X
};
const char *rt_miss_name(rt_miss m) { return miss_names[m]; }
const char *rt_miss_text(rt_miss m) { return miss_texts[m]; }
const char *rt_store_kind_name(int kind) { return kind >= 0 && kind < RT_STORE_KINDS ? kind_names[kind] : NULL; }
