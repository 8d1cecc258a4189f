/* SPDX-License-Identifier: MIT */
/* cpuproducts: matmul of f32 as a step of oneDNN (runtime/matmul.c), in contexts whose settings prefer the library. */
#include "lower/library.h"
#include "runtime/matmul.h"
#include "runtime/settings.h"

static const char *const preferred = "the context's settings prefer the library";

/* The offset of each batch in an operand, which may broadcast along batch axes. */
static void batch_offsets(const lo_product *x, const int64_t *step, int64_t batch, int64_t *offset)
{
	for (int64_t b = 0; b < batch; b++) {
		int64_t left = b, at = 0;
		for (int i = x->nbatch - 1; i >= 0; i--) {
			at += left % x->batch[i] * step[i];
			left /= x->batch[i];
		}
		offset[b] = at;
	}
}

static const char *lacks(tj_dtype t)
{
	if (t != TJ_F32) return "oneDNN is asked for products of f32 only";
	return rt_onednn() ? NULL : "oneDNN is missing or switched off (TJ_ONEDNN=off)";
}

/* dnnl_sgemm reads an operand with one unit stride and rows that do not overlap. */
static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	return ir_numel(L->g, r) == 0 || lo_matrix_leads(L, r, k, a);
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	lo_product x;
	int64_t batch = 1;
	rt_at *at = lo_step_operands(p, t, 3);
	if (!at) return false;
	lo_product_of(L, s->ref, &x);
	memcpy(at, x.at, sizeof x.at);
	for (int i = 0; i < x.nbatch; i++) batch *= x.batch[i];
	rt_matmul_desc d = {
		.m = x.m,
		.n = x.n,
		.k = x.k,
		.batch = batch,
		.a_row = x.a_row,
		.a_col = x.a_col,
		.b_row = x.b_row,
		.b_col = x.b_col,
		.c_row = x.n,
		.of = L->o->name,
	};
	int64_t *off = rt_alloc(sizeof *off * (3 * (size_t)batch + 1));
	if (!off) return false;
	batch_offsets(&x, x.a_step, batch, off);
	batch_offsets(&x, x.b_step, batch, off + batch);
	for (int64_t b = 0; b < batch; b++) off[2 * batch + b] = b * d.m * d.n;
	if (batch != 1) {
		d.a_batch = off;
		d.b_batch = off + batch;
		d.c_batch = off + 2 * batch;
	}
	t->self = rt_matmul_new(&d, L->err);
	t->name = "dnnl_sgemm";
	rt_free(off);
	return t->self != NULL;
}

static tj_status run(const void *self, void *const *buf, rt_run *r) { return rt_matmul_run(self, buf[0], buf[1], buf[2], r); }
static void drop(void *self) { rt_matmul_free(self); }

static void why(const rt_step *t, lo_note *n)
{
	n->other = t->name;
	n->why = preferred;
	n->hint = rt_onednn_version() ? rt_onednn_version() : "";
}

const lo_routine lo_matmul = { .op = IR_matmul,
	                       .bounded = 1u << RT_F,
	                       .when = RT_PRODUCTS_LIBRARY,
	                       .lacks = lacks,
	                       .takes = takes,
	                       .make = make,
	                       .code = { run, drop },
	                       .why = why };

const char *lo_widened(tj_dtype t, bool fast)
{
	if (t == TJ_F16) return "kernels multiply f32";
	if (t != TJ_BF16) return NULL;
	if (!rt_bf16_pairs()) return "this CPU has no vdpbf16ps, or its vectors of 512 bits are switched off";
	return fast || rt_bf16_in_order() ? NULL : "strict products have the evaluator's bits; TJ_FAST multiplies two bf16 at a time (vdpbf16ps)";
}

/* AUTO computes fast products by kernels, too: docs/PERFORMANCE.md has the measurements. */
const char *lo_products_by(tj_dtype t, bool fast, uint32_t settings, bool *library)
{
	const char *lacking = settings & RT_PRODUCTS_LIBRARY ? lacks(t) : NULL;
	*library = settings & RT_PRODUCTS_LIBRARY && !lacking;
	if (*library) return preferred;
	if (lacking) return lacking;
	if (settings & RT_PRODUCTS_OWN) return "the context's settings prefer the kernels of tjit";
	const char *widened = lo_widened(t, fast);
	if (widened) return widened;
	if (t == TJ_BF16) return "the default: kernels multiply two bf16 at a time (vdpbf16ps)";
	if (t != TJ_F32) return "no library is used for products of this dtype";
	if (!fast) return "the default: strict products have the evaluator's bits, which a library does not give";
	return "the default, also for fast products: docs/PERFORMANCE.md says for which ones oneDNN was measured to be quicker";
}
