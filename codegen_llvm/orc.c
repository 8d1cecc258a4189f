/* SPDX-License-Identifier: MIT */
/* orc: LLVM's linker, for TJ_LOADER=orc: one LLJIT for the process. Each object has a JITDylib of its own, so that its
 * code can be freed. An emptied JITDylib is reused, because ORC's C interface cannot delete it. */
#include "codegen_llvm/cg.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <pthread.h>

struct cg_dylib { /* a JITDylib: in use, or empty and free for reuse */
	struct cg_dylib *next;
	LLVMOrcJITDylibRef dylib;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LLVMOrcLLJITRef jit;
static cg_dylib *waiting;
static unsigned libraries;
static char why_not[200];

static void start(void)
{
	LLVMErrorRef e = LLVMOrcCreateLLJIT(&jit, NULL);
	if (!e) return;
	char *message = LLVMGetErrorMessage(e);
	snprintf(why_not, sizeof why_not, "%s", message);
	LLVMDisposeErrorMessage(message);
	jit = NULL;
}

void cg_orc_open(void) { pthread_once(&once, start); }

static tj_status failed(rt_err *err, LLVMErrorRef e)
{
	char *message = LLVMGetErrorMessage(e);
	tj_status st = rt_fail(err, TJ_ERR_COMPILE, "link", "%s", message);
	LLVMDisposeErrorMessage(message);
	return st;
}

/* ---- libraries ---- */
static cg_dylib *borrow(void)
{
	char name[32];
	pthread_mutex_lock(&lock);
	cg_dylib *l = waiting;
	if (l) waiting = l->next;
	unsigned number = l ? 0 : libraries++;
	pthread_mutex_unlock(&lock);
	if (l || !(l = rt_calloc(sizeof *l))) return l;
	snprintf(name, sizeof name, "tj%u", number);
	l->dylib = LLVMOrcExecutionSessionCreateBareJITDylib(LLVMOrcLLJITGetExecutionSession(jit), name);
	return l;
}

void cg_orc_unlink(cg_dylib *l)
{
	LLVMErrorRef e = LLVMOrcJITDylibClear(l->dylib);
	if (e) { /* its code could not be freed: do not reuse it */
		LLVMConsumeError(e);
		rt_free(l);
		return;
	}
	pthread_mutex_lock(&lock);
	l->next = waiting;
	waiting = l;
	pthread_mutex_unlock(&lock);
}

/* ---- look-up ---- */
typedef struct answer {
	pthread_mutex_t lock;
	pthread_cond_t there;
	bool done;
	LLVMErrorRef error;
	int n;
	rt_entry *fn;
	LLVMOrcCLookupSet want;
} answer;

static void found(LLVMErrorRef error, LLVMOrcCSymbolMapPairs pair, size_t n, void *env)
{
	answer *a = env;
	pthread_mutex_lock(&a->lock);
	a->error = error;
	for (size_t i = 0; !error && i < n; i++)
		for (int k = 0; k < a->n; k++)
			if (a->want[k].Name == pair[i].Name) memcpy(&a->fn[k], &pair[i].Sym.Address, sizeof a->fn[k]);
	a->done = true;
	pthread_cond_signal(&a->there);
	pthread_mutex_unlock(&a->lock);
}

static tj_status look_up(cg_dylib *l, int n, const char *const *name, rt_entry *fn, rt_err *err)
{
	LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(jit);
	LLVMOrcCJITDylibSearchOrderElement order = { l->dylib, LLVMOrcJITDylibLookupFlagsMatchAllSymbols };
	answer a = { .lock = PTHREAD_MUTEX_INITIALIZER, .there = PTHREAD_COND_INITIALIZER, .n = n, .fn = fn };
	a.want = rt_calloc((size_t)n * sizeof *a.want);
	if (!a.want) return rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	for (int k = 0; k < n; k++) {
		fn[k] = NULL;
		a.want[k].Name = LLVMOrcLLJITMangleAndIntern(jit, name[k]);
		LLVMOrcRetainSymbolStringPoolEntry(a.want[k].Name); /* the look-up takes one */
	}
	LLVMOrcExecutionSessionLookup(session, LLVMOrcLookupKindStatic, &order, 1, a.want, (size_t)n, found, &a);
	pthread_mutex_lock(&a.lock);
	while (!a.done) pthread_cond_wait(&a.there, &a.lock);
	pthread_mutex_unlock(&a.lock);
	for (int k = 0; k < n; k++) LLVMOrcReleaseSymbolStringPoolEntry(a.want[k].Name);
	rt_free(a.want);
	if (a.error) return failed(err, a.error);
	for (int k = 0; k < n; k++)
		if (!fn[k]) return rt_fail(err, TJ_ERR_COMPILE, "link", "no symbol %s", name[k]);
	return TJ_OK;
}

/* ---- linking ---- */
static tj_status no_imports(LLVMMemoryBufferRef object, const cg_owns *owns, rt_err *err)
{
	const char *name = cg_imports(LLVMGetBufferStart(object), LLVMGetBufferSize(object), owns);
	return name ? rt_fail(err, TJ_ERR_COMPILE, "link", "a kernel imports %s", name) : TJ_OK;
}

/* Makes the functions that kernels call known in their library. */
static tj_status define(cg_dylib *l, const cg_owns *owns, rt_err *err)
{
	const LLVMJITSymbolFlags flags = { LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0 };
	if (!owns->n) return TJ_OK;
	LLVMOrcCSymbolMapPairs at = rt_calloc(owns->n * sizeof *at);
	if (!at) return rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	for (uint32_t i = 0; i < owns->n; i++)
		at[i] = (LLVMOrcCSymbolMapPair){ LLVMOrcLLJITMangleAndIntern(jit, owns->v[i].name.s), { (uintptr_t)owns->v[i].fn, flags } };
	LLVMErrorRef e = LLVMOrcJITDylibDefine(l->dylib, LLVMOrcAbsoluteSymbols(at, owns->n));
	rt_free(at);
	return e ? failed(err, e) : TJ_OK;
}

cg_dylib *cg_orc_link(void *object, int n, const char *const *name, rt_entry *fn, const cg_owns *owns, rt_err *err)
{
	cg_dylib *l = NULL;
	cg_orc_open();
	tj_status st = no_imports(object, owns, err);
	if (st == TJ_OK && !jit) st = rt_fail(err, TJ_ERR_COMPILE, "link", "no LLJIT: %s", why_not);
	if (st == TJ_OK && !(l = borrow())) st = rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	if (st != TJ_OK) {
		LLVMDisposeMemoryBuffer(object);
		return NULL;
	}
	LLVMErrorRef e = LLVMOrcLLJITAddObjectFile(jit, l->dylib, object);
	st = e ? failed(err, e) : define(l, owns, err);
	if (st == TJ_OK) st = look_up(l, n, name, fn, err);
	if (st == TJ_OK) return l;
	cg_orc_unlink(l);
	return NULL;
}
