/* SPDX-License-Identifier: MIT */
/* target: LLVM target machines: each thread has its own, one for each vector width. */
#include "codegen_llvm/cg.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct cg_target {
	LLVMTargetMachineRef machine;
	char *layout, *tuning;
} cg_target;

typedef struct cg_thread { cg_target at[3]; } cg_thread; /* 128, 256, 512 bits */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool ready;
static bool fast; /* TJ_CODEGEN=fast */

/* For TJ_CODEGEN=fast. Of the load of a float that a select takes, the instruction selector that LLVM 19 has for its lowest level makes an
 * operand of 16 bytes, which reads beyond a buffer. The usual selector does not. */
static void avoid_fast_selector(void)
{
	static const char *const options[] = { "tjit", "-fast-isel=false" };
	LLVMParseCommandLineOptions((int)RT_COUNT(options), options, NULL);
}

/* ---- a thread's machines ---- */
static void drop_thread(void *p)
{
	cg_thread *t = p;
	for (size_t i = 0; i < RT_COUNT(t->at); i++) {
		if (t->at[i].machine) LLVMDisposeTargetMachine(t->at[i].machine);
		if (t->at[i].layout) LLVMDisposeMessage(t->at[i].layout);
		if (t->at[i].tuning) LLVMDisposeMessage(t->at[i].tuning);
	}
	rt_free(t);
}

static void start(void)
{
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
	const char *codegen = getenv("TJ_CODEGEN");
	if ((fast = codegen && !strcmp(codegen, "fast"))) avoid_fast_selector();
	ready = pthread_key_create(&key, drop_thread) == 0;
}

static LLVMTargetMachineRef make_machine(int bits, rt_err *err)
{
	char *message = NULL;
	const char *triple = "x86_64-unknown-linux-gnu", *cpu = bits == 512 ? "x86-64-v4" : "x86-64-v3";
	LLVMTargetMachineRef m = NULL;
	LLVMTargetRef target;
	if (LLVMGetTargetFromTriple(triple, &target, &message))
		rt_fail(err, TJ_ERR_COMPILE, "codegen", "%s", message);
	else
		m = LLVMCreateTargetMachine(target, triple, cpu, "", fast ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault, LLVMRelocPIC,
		                            LLVMCodeModelSmall);
	LLVMDisposeMessage(message);
	return m;
}

static cg_thread *thread(rt_err *err)
{
	pthread_once(&once, start);
	cg_thread *t = ready ? pthread_getspecific(key) : NULL;
	if (t) return t;
	if (ready && (t = rt_calloc(sizeof *t)) != NULL && pthread_setspecific(key, t) == 0) return t;
	rt_free(t);
	rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	return NULL;
}

cg_target *cg_target_get(int bits, rt_err *err)
{
	cg_thread *t = thread(err);
	if (!t) return NULL;
	cg_target *at = &t->at[bits == 512 ? 2 : bits == 256 ? 1 : 0];
	if (at->machine) return at;
	if (!(at->machine = make_machine(bits, err))) {
		rt_fail(err, TJ_ERR_COMPILE, "codegen", "LLVM has no machine for this CPU");
		return NULL;
	}
	LLVMTargetDataRef data = LLVMCreateTargetDataLayout(at->machine);
	at->layout = LLVMCopyStringRepOfTargetData(data);
	LLVMDisposeTargetData(data);
	at->tuning = LLVMGetHostCPUName();
	return at;
}

const char *cg_layout(const cg_target *t) { return t->layout; }
const char *cg_tuning(const cg_target *t) { return t->tuning; }

/* ---- text to object ---- */
static tj_status emit(cg_target *t, LLVMModuleRef m, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out, rt_err *err)
{
	char *message = NULL;
	if (!LLVMTargetMachineEmitToMemoryBuffer(t->machine, m, type, &message, out)) return TJ_OK;
	rt_fail(err, TJ_ERR_COMPILE, "codegen", "LLVM: %s", message);
	LLVMDisposeMessage(message);
	return TJ_ERR_COMPILE;
}

static tj_status compile(cg_target *t, const char *text, size_t n, LLVMCodeGenFileType type, LLVMMemoryBufferRef *to, rt_err *err)
{
	LLVMContextRef context = LLVMContextCreate();
	LLVMMemoryBufferRef in = LLVMCreateMemoryBufferWithMemoryRange(text, n, "kernels", true), out = NULL;
	LLVMModuleRef m = NULL;
	char *message = NULL;
	tj_status st = TJ_ERR_COMPILE;
	if (LLVMParseIRInContext(context, in, &m, &message)) {
		rt_fail(err, TJ_ERR_COMPILE, "codegen", "LLVM: %s", message);
		LLVMDisposeMessage(message);
	} else {
		st = emit(t, m, type, &out, err);
		LLVMDisposeModule(m);
	}
	LLVMContextDispose(context);
	*to = out;
	return st;
}

tj_status cg_object_of(cg_target *t, const char *text, size_t n, void **object, size_t *bytes, rt_err *err)
{
	LLVMMemoryBufferRef out;
	tj_status st = compile(t, text, n, LLVMObjectFile, &out, err);
	*object = out;
	*bytes = st == TJ_OK ? LLVMGetBufferSize(out) : 0;
	return st;
}

const void *cg_file_bytes(void *object) { return LLVMGetBufferStart(object); }
void cg_drop_file(void *object) { LLVMDisposeMemoryBuffer(object); }

char *cg_assembly_of(cg_target *t, const char *text, size_t n, rt_err *err)
{
	LLVMMemoryBufferRef out;
	rt_text s = { 0 };
	if (compile(t, text, n, LLVMAssemblyFile, &out, err) != TJ_OK) return NULL;
	rt_putn(&s, LLVMGetBufferStart(out), LLVMGetBufferSize(out));
	LLVMDisposeMemoryBuffer(out);
	if (s.oom) rt_text_free(&s);
	return s.s;
}
