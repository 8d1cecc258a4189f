/* backend: the plug-in's one symbol. Kernels of a plan -> text of one module -> object -> code. */
#include "codegen_llvm/cg.h"

static void put_module_head(const lo_compile *job, const struct cg_target *t, rt_text *out)
{
	rt_putf(out, "; %s: %d kernels, %d-bit vectors\n", job->name ? job->name : "plan", job->nkernel, cg_width());
	rt_putf(out, "target datalayout = \"%s\"\ntarget triple = \"x86_64-unknown-linux-gnu\"\n\n", cg_layout(t));
}

static tj_status print(lo_compile *job, const struct cg_target *t, int bits, rt_text *out, rt_err *err)
{
	put_module_head(job, t, out);
	for (int i = 0; i < job->nkernel; i++) {
		tj_status st = cg_kernel(job->kernel[i], bits, out, err);
		if (st != TJ_OK) return st;
	}
	rt_putf(out, "attributes #0 = { nounwind \"prefer-vector-width\"=\"%d\" }\n", bits);
	return out->oom ? rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory") : TJ_OK;
}

static tj_status compile(lo_compile *job, rt_err *err)
{
	double start = rt_now_ms();
	int bits = cg_width();
	rt_text text = { 0 };
	void *object = NULL;
	job->code = NULL;
	job->text = NULL;
	struct cg_target *t = cg_target_get(bits, err);
	if (!t) return err->code;
	tj_status st = print(job, t, bits, &text, err);
	if (st == TJ_OK) st = cg_object(t, text.s, text.n, &object, err);
	if (st == TJ_OK) st = cg_link(object, job, &job->code, err);
	if (job->keep_text) job->text = text.s; /* also when it failed: it says why */
	else rt_text_free(&text);
	job->codegen_ms = rt_now_ms() - start;
	return st;
}

static const lo_backend backend = { .name = "llvm", .missing = cg_missing, .compile = compile, .width = cg_width };

TJ_API const lo_backend *tj_llvm_backend(void);
const lo_backend *tj_llvm_backend(void) { return &backend; }
