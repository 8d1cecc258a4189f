/* SPDX-License-Identifier: MIT */
/* gpuproducts: matmul as a step of an NVIDIA GPU, by cuBLASLt (runtime/cublas.h), and which products kernels compute there instead
 * (codegen_cuda/product.c).
 *
 *   integers, or no cuBLASLt                       a kernel
 *   .products of the settings                      as it says
 *   windows of an image, strict, f32 or f64        a kernel, which reads the windows where they lie; for cuBLASLt they would be stored.
 *                                                  Not with
 *                                                  TF32, and not if so few tiles sum so much that the library had better split the sums
 *   others                                         cuBLASLt */
#include "ir/tree.h"
#include "lower/library.h"
#include "runtime/cublas.h"
#include "runtime/settings.h"

static const char *lacks(tj_dtype t)
{
	if (rt_dtype_cat(t) != RT_FLOAT) return "cuBLASLt has no products of integers";
	rt_lt_begin(); /* it loads while kernels are compiled */
	return rt_lt_missing();
}

/* The operand is a view of windows. */
static bool is_windows(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	for (; ir_ops[n->op].flags & IR_VIEW; n = ir_at(g, ir_src(g, n, 0)))
		if (n->op == IR_unfold) return true;
	return false;
}

/* Few sums, and so long that the multiprocessors without a tile would be missed more than the copy of the windows costs. */
static bool is_long(const ir_graph *g, const ir_node *n)
{
	enum { TILE = 64 * 64, BUSY = 64, LONG = 16 }; /* elements; tiles that keep half of a large GPU busy; chunks of the sum */
	const ir_node *a = ir_at(g, ir_src(g, n, 0));
	int64_t all = 1;
	for (int i = 0; i < n->rank; i++) all *= ir_dims(g, n)[i];
	return all < TILE * BUSY && ir_dims(g, a)[a->rank - 1] > LONG * IR_CHAIN;
}

static const char *kernels(const ir_graph *g, const ir_node *n, uint32_t settings)
{
	const tj_dtype t = (tj_dtype)n->dtype;
	if (!rt_is_float(t)) return lacks(t);
	if (settings & RT_PRODUCTS_OWN) return "the context's settings prefer the kernels of tjit";
	if (settings & RT_PRODUCTS_LIBRARY || n->mode & IR_FAST || rt_is_narrow(t) || (t == TJ_F32 && settings & RT_ALLOW_TF32)) return NULL;
	if (!(is_windows(g, ir_src(g, n, 0)) || is_windows(g, ir_src(g, n, 1))) || is_long(g, n)) return NULL;
	return "it reads the windows where they lie, in the order of strict mode; for cuBLASLt they would be stored";
}

static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	return ir_numel(L->g, r) == 0 || lo_matrix_leads(L, r, k, a);
}

static rt_blas_policy policy_of(uint32_t settings)
{
	return (rt_blas_policy){ .tf32 = settings & RT_ALLOW_TF32,
		                 .reduced = settings & RT_ALLOW_REDUCED,
		                 .any_order = settings & RT_ALLOW_NONDETERMINISTIC,
		                 .no_parts = settings & RT_NO_SPLIT_SUMS,
		                 .tries = settings & RT_AUTOTUNE ? RT_LT_TRIES : 0,
		                 .workspace = RT_BLAS_WORKSPACE };
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
	rt_blas_desc d = { .dtype = (tj_dtype)lo_node(L, s->ref)->dtype,
		           .device = lo_node(L, s->ref)->device,
		           .m = x.m,
		           .n = x.n,
		           .k = x.k,
		           .a_row = x.a_row,
		           .a_col = x.a_col,
		           .b_row = x.b_row,
		           .b_col = x.b_col,
		           .nbatch = x.nbatch,
		           .epilogue = bits_of(e),
		           .same_bits = e && e->exact,
		           .rest = t->rest,
		           .policy = policy_of(L->o->settings),
		           .of = L->o->name };
	memcpy(d.batch, x.batch, sizeof d.batch);
	memcpy(d.a_step, x.a_step, sizeof d.a_step);
	memcpy(d.b_step, x.b_step, sizeof d.b_step);
	t->device = (uint8_t)d.device;
	t->name = name_of(d.epilogue);
	t->self = rt_blas_new(&d, L->err);
	return t->self != NULL;
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	return rt_blas_run((rt_blas *)(uintptr_t)self,
	                   &(rt_blas_operands){ buf[A], buf[B], buf[C], buf[WORK], buf[BIAS], buf + FIRST_OF_REST }, r);
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

const lo_routine lo_gpu_matmul = { .op = IR_matmul,
	                           .bounded = 1u << RT_F | 1u << RT_D,
	                           .kernels = kernels,
	                           .epilogues = true,
	                           .workspace = workspace,
	                           .lacks = lacks,
	                           .takes = takes,
	                           .make = make,
	                           .code = { run, drop },
	                           .why = why };
