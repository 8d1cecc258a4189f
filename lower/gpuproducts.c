/* gpuproducts: matmul as a step of an NVIDIA GPU, by cuBLASLt (runtime/cublas.h). Products of integers are
 * sums there (devices.c). */
#include "lower/library.h"
#include "runtime/cublas.h"
#include "runtime/settings.h"

static const char *lacks(tj_dtype t)
{
	return rt_dtype_cat(t) != RT_FLOAT ? "cuBLASLt has no products of integers" : rt_lt_missing();
}

static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	return ir_numel(L->g, r) == 0 || lo_matrix_leads(L, r, k, a);
}

static rt_blas_policy policy_of(uint32_t settings)
{
	return (rt_blas_policy){ .tf32 = settings & RT_ALLOW_TF32, .reduced = settings & RT_ALLOW_REDUCED, .any_order = settings & RT_ALLOW_NONDETERMINISTIC,
		                     .no_parts = settings & RT_NO_SPLIT_SUMS, .tries = settings & RT_AUTOTUNE ? RT_LT_TRIES : 0, .workspace = RT_BLAS_WORKSPACE };
}

static uint32_t bits_of(const lo_epilogue *e)
{
	static const uint32_t activation[] = { [LO_ACT_NONE] = 0, [LO_ACT_RELU] = RT_LT_RELU, [LO_ACT_GELU] = RT_LT_GELU };
	return e ? (e->biased ? RT_LT_BIAS : 0) | activation[e->activation] : 0;
}

static const char *name_of(uint32_t epilogue)
{
	switch (epilogue) {
	case 0: return "cublasLtMatmul";
	case RT_LT_BIAS: return "cublasLtMatmul, bias";
	case RT_LT_RELU: return "cublasLtMatmul, relu";
	case RT_LT_GELU: return "cublasLtMatmul, gelu";
	case RT_LT_BIAS | RT_LT_RELU: return "cublasLtMatmul, bias, relu";
	default: return "cublasLtMatmul, bias, gelu";
	}
}

enum { A, B, C, WORK, BIAS, FIRST_OF_REST }; /* operands of the step; BIAS: if there is none, C again */

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	lo_product x;
	const lo_epilogue *const e = s->epilogue;
	rt_at *at = lo_step_operands(p, t, FIRST_OF_REST);
	if (!at) return false;
	lo_product_of(L, s->ref, &x);
	memcpy(at, x.at, sizeof x.at);
	at[WORK].buf = s->work[lo_node(L, s->ref)->device];
	at[BIAS] = e && e->biased ? e->bias : at[C];
	rt_blas_desc d = { .dtype = (tj_dtype)lo_node(L, s->ref)->dtype, .device = lo_node(L, s->ref)->device, .m = x.m, .n = x.n, .k = x.k, .a_row = x.a_row, .a_col = x.a_col,
		               .b_row = x.b_row, .b_col = x.b_col, .nbatch = x.nbatch, .epilogue = bits_of(e), .same_bits = e && e->exact, .rest = t->rest, .policy = policy_of(L->o->settings) };
	memcpy(d.batch, x.batch, sizeof d.batch);
	memcpy(d.a_step, x.a_step, sizeof d.a_step);
	memcpy(d.b_step, x.b_step, sizeof d.b_step);
	rt_lt_begin(); /* kernels of the plan are compiled next: the library loads meanwhile */
	t->device = (uint8_t)d.device;
	t->name = name_of(d.epilogue);
	t->self = rt_blas_new(&d, L->err);
	return t->self != NULL;
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	return rt_blas_run((rt_blas *)(uintptr_t)self, &(rt_blas_operands){ buf[A], buf[B], buf[C], buf[WORK], buf[BIAS], buf + FIRST_OF_REST }, r);
}
static void drop(void *self) { rt_blas_free(self); }

static int64_t workspace(const lo_low *L, ir_ref r)
{
	(void)L, (void)r;
	return RT_BLAS_WORKSPACE + 256;
}

static void why(const rt_step *t, lo_note *n)
{
	n->other = rt_blas_name(t->self);
	n->why = rt_blas_why(t->self, &n->hint);
}

const lo_routine lo_gpu_matmul = { .op = IR_matmul, .bounded = 1u << RT_F | 1u << RT_D, .epilogues = true, .workspace = workspace, .lacks = lacks, .takes = takes, .make = make,
	                               .code = { run, drop }, .why = why };
