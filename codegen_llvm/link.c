/* SPDX-License-Identifier: MIT */
/* link: from objects to running code. By default each function becomes a blob (cut.c), which a file can keep and another process load;
 * with TJ_LOADER=orc LLVM links the object. */
#include "codegen_llvm/cg.h"

#include <pthread.h>
#include <stdlib.h>

struct cg_library { /* one of the two */
	rt_shared *code;
	cg_dylib *dylib;
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

static rt_shared *map(const void *object, size_t bytes, int n, const char *const *name, rt_blob *blob, rt_entry *fn, const cg_owns *owns,
                      rt_err *err)
{
	rt_blob *cut = rt_calloc((size_t)n * sizeof *cut);
	tj_status st = cut ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	for (int i = 0; st == TJ_OK && i < n; i++) st = cg_cut(object, bytes, name[i], owns, &cut[i], err);
	if (st == TJ_OK) memcpy(blob, cut, (size_t)n * sizeof *cut);
	rt_shared *code = st == TJ_OK ? rt_code_map(n, blob, fn, err) : NULL;
	for (int i = 0; cut && i < n; i++) rt_free((void *)(uintptr_t)cut[i].code);
	rt_free(cut);
	return code;
}

cg_library *cg_link(void *object, size_t bytes, int n, const char *const *name, rt_blob *blob, rt_entry *fn, const cg_owns *owns,
                    rt_err *err)
{
	cg_library *l = rt_calloc(sizeof *l);
	cg_open_linker();
	if (!l) rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	else if (orc) l->dylib = cg_orc_link(object, n, name, fn, owns, err), object = NULL;
	else l->code = map(cg_file_bytes(object), bytes, n, name, blob, fn, owns, err);
	if (object) cg_drop_file(object);
	if (l && (l->code || l->dylib)) return l;
	rt_free(l);
	return NULL;
}

void cg_unlink(cg_library *l)
{
	if (l->dylib) cg_orc_unlink(l->dylib);
	rt_shared_unref(l->code);
	rt_free(l);
}
