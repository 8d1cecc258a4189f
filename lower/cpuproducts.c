/* cpuproducts: matmul as a step of the CPU. The run time chooses the routine that computes it (runtime/matmul.c), by the target's policy. */
#include "lower/library.h"
#include "runtime/settings.h"

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

/* dnnl_sgemm reads an operand with one unit stride and rows that do not overlap. Other dtypes use our own loops, which read
 * any strides. */
static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	return lo_node(L, r)->dtype != TJ_F32 || ir_numel(L->g, r) == 0 || lo_matrix_leads(L, r, k, a);
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
		.dtype = (tj_dtype)lo_node(L, s->ref)->dtype,
		.m = x.m,
		.n = x.n,
		.k = x.k,
		.batch = batch,
		.a_row = x.a_row,
		.a_col = x.a_col,
		.b_row = x.b_row,
		.b_col = x.b_col,
		.c_row = x.n,
		.policy = lo_target_of(L, s->ref)->policy(),
		.settings = L->o->settings,
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
	t->name = t->self ? rt_matmul_name(t->self) : "matmul";
	rt_free(off);
	return t->self != NULL;
}

static tj_status run(const void *self, void *const *buf, rt_run *r) { return rt_matmul_run(self, buf[0], buf[1], buf[2], r); }
static void drop(void *self) { rt_matmul_free(self); }

static void why(const rt_step *t, lo_note *n)
{
	n->other = rt_matmul_name(t->self);
	n->why = rt_matmul_why(t->self, &n->hint);
}

const lo_routine lo_matmul = { .op = IR_matmul, .bounded = 1u << RT_F, .when = RT_PRODUCTS_LIBRARY, .takes = takes, .make = make, .code = { run, drop }, .why = why };
