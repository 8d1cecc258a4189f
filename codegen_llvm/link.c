/* SPDX-License-Identifier: MIT */
/* link: from objects to running code. By default each function becomes a blob (cut.c), which a file can keep and another process load;
 * with TJ_LOADER=orc LLVM links the object. */
#include "codegen_llvm/cg.h"

#include <pthread.h>
#include <stdlib.h>

struct cg_library {
	rt_shared *code;     /* one of the two */
	cg_dylib *dylib;
	int n;
	rt_text *debug;      /* by function: what tools are told of it; NULL: they do not ask */
	rt_told **told;      /* by function: with ORC, and if tools ask; else NULL */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool orc;

static void choose(void)
{
	const char *loader = getenv("TJ_LOADER");
	orc = loader && !strcmp(loader, "orc");
}

void cg_open_linker(void)
{
	pthread_once(&once, choose);
	if (orc) cg_orc_open();
}

static bool asks(int n, const char *const *text)
{
	size_t ops;
	return n && cg_ops_in(text[0], &ops);
}

static tj_status cut_all(cg_library *l, const void *object, size_t bytes, const char *const *name, const char *const *text, rt_blob *cut,
                         const cg_owns *owns, rt_err *err)
{
	uint64_t *own_at = rt_calloc((owns->n + 1) * sizeof *own_at);
	tj_status st = own_at ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	for (int i = 0; st == TJ_OK && i < l->n; i++) {
		st = cg_cut(object, bytes, name[i], owns, &cut[i], own_at, err);
		if (st == TJ_OK && l->debug) cg_debug_of(object, bytes, name[i], text[i], cut[i].entry, owns, own_at, &l->debug[i]);
	}
	rt_free(own_at);
	return st;
}

static rt_shared *map(cg_library *l, const void *object, size_t bytes, const char *const *name, const char *const *text, rt_blob *blob,
                      rt_entry *fn, const cg_owns *owns, rt_err *err)
{
	const int n = l->n;
	rt_blob *cut = rt_calloc((size_t)n * sizeof *cut);
	tj_status st = cut ? cut_all(l, object, bytes, name, text, cut, owns, err) : rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	if (st == TJ_OK) memcpy(blob, cut, (size_t)n * sizeof *cut);
	for (int i = 0; st == TJ_OK && l->debug && i < n; i++) blob[i].debug = l->debug[i].s, blob[i].debug_bytes = (uint32_t)l->debug[i].n;
	rt_shared *code = st == TJ_OK ? rt_code_map(n, blob, fn, err) : NULL;
	for (int i = 0; cut && i < n; i++) rt_free((void *)(uintptr_t)cut[i].code);
	rt_free(cut);
	return code;
}

/* What ORC linked lies elsewhere than in blobs. ORC itself tells the unwinder. */
static void tell_all(cg_library *l, const rt_entry *fn)
{
	for (int i = 0; l->debug && l->told && i < l->n; i++) {
		const unsigned char *code;
		rt_debug d;
		rt_arena mem = { 0 };
		memcpy(&code, &fn[i], sizeof code);
		if (rt_debug_get(&mem, l->debug[i].s, l->debug[i].n, UINT32_MAX, &d))
			l->told[i] = rt_tell(code, d.piece[0].bytes, l->debug[i].s, l->debug[i].n, true);
		rt_arena_free(&mem);
	}
}

static void link_by_orc(cg_library *l, void *object, size_t bytes, const char *const *name, const char *const *text, rt_entry *fn,
                        const cg_owns *owns, rt_err *err)
{
	for (int i = 0; l->debug && i < l->n; i++)
		cg_debug_of(cg_file_bytes(object), bytes, name[i], text[i], 0, owns, NULL, &l->debug[i]);
	l->dylib = cg_orc_link(object, l->n, name, fn, owns, err);
	if (l->dylib) tell_all(l, fn);
}

static void drop(cg_library *l)
{
	for (int i = 0; l->debug && i < l->n; i++) rt_text_free(&l->debug[i]);
	rt_free(l->debug);
	rt_free(l->told);
	rt_free(l);
}

cg_library *cg_link(void *object, size_t bytes, int n, const char *const *name, const char *const *text, rt_blob *blob, rt_entry *fn,
                    const cg_owns *owns, rt_err *err)
{
	cg_library *l = rt_calloc(sizeof *l);
	cg_open_linker();
	if (l) l->n = n;
	if (l && asks(n, text)) l->debug = rt_calloc((size_t)n * sizeof *l->debug), l->told = rt_calloc((size_t)n * sizeof(rt_told *));
	if (!l) rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	else if (orc) link_by_orc(l, object, bytes, name, text, fn, owns, err), object = NULL;
	else l->code = map(l, cg_file_bytes(object), bytes, name, text, blob, fn, owns, err);
	if (object) cg_drop_file(object);
	if (l && (l->code || l->dylib)) return l;
	if (l) drop(l);
	return NULL;
}

void cg_unlink(cg_library *l)
{
	for (int i = 0; l->told && i < l->n; i++) rt_forget(l->told[i]);
	if (l->dylib) cg_orc_unlink(l->dylib);
	rt_shared_unref(l->code);
	drop(l);
}
