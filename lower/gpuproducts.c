/* gpuproducts: matmul as a step of an NVIDIA GPU, by cuBLASLt (runtime/cublas.h). Products of integers have no kernel there: they move to
 * the CPU. */
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
	enum { TRIES = 8 };
	return (rt_blas_policy){ .tf32 = settings & RT_ALLOW_TF32, .reduced = settings & RT_ALLOW_REDUCED, .any_order = settings & RT_ALLOW_NONDETERMINISTIC,
		                     .no_parts = settings & RT_NO_SPLIT_SUMS, .tries = settings & RT_AUTOTUNE ? TRIES : 0, .workspace = RT_BLAS_WORKSPACE };
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	lo_product x;
	rt_at *at = lo_step_operands(p, t, 4);
	if (!at) return false;
	lo_product_of(L, s->ref, &x);
	memcpy(at, x.at, sizeof x.at);
	at[3].buf = s->work[lo_node(L, s->ref)->device];
	rt_blas_desc d = { .dtype = (tj_dtype)lo_node(L, s->ref)->dtype, .device = lo_node(L, s->ref)->device, .m = x.m, .n = x.n, .k = x.k, .a_row = x.a_row, .a_col = x.a_col,
		               .b_row = x.b_row, .b_col = x.b_col, .nbatch = x.nbatch, .policy = policy_of(L->o->settings) };
	memcpy(d.batch, x.batch, sizeof d.batch);
	memcpy(d.a_step, x.a_step, sizeof d.a_step);
	memcpy(d.b_step, x.b_step, sizeof d.b_step);
	rt_lt_begin(); /* kernels of the plan are compiled next: the library loads meanwhile */
	t->device = (uint8_t)d.device;
	t->name = "cublasLtMatmul";
	t->self = rt_blas_new(&d, L->err);
	return t->self != NULL;
}

static tj_status run(const void *self, void *const *buf, rt_run *r) { return rt_blas_run((rt_blas *)(uintptr_t)self, buf[0], buf[1], buf[2], buf[3], r); }
static void drop(void *self) { rt_blas_free(self); }

static void why(const rt_step *t, lo_note *n)
{
	n->other = rt_blas_name(t->self);
	n->why = rt_blas_why(t->self, &n->hint);
}

const lo_routine lo_gpu_matmul = { .op = IR_matmul, .bounded = 1u << RT_F | 1u << RT_D, .workspace = RT_BLAS_WORKSPACE + 256, .lacks = lacks, .takes = takes, .make = make,
	                               .code = { run, drop }, .why = why };
