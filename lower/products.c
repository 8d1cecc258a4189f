/* products: matmul as a step. The run time chooses the routine that computes it (runtime/matmul.c), by the target's policy. */
#include "lower/library.h"

typedef struct side { /* an operand as [batch..., rows, cols] */
	int rank;
	int64_t dim[TJ_MAX_RANK + 1], stride[TJ_MAX_RANK + 1];
} side;

static side as_matrix(const lo_low *L, ir_ref r, const lo_access *a, bool left)
{
	const ir_node *n = lo_node(L, r);
	side s = { .rank = n->rank };
	memcpy(s.dim, lo_dim(L, r), sizeof *s.dim * n->rank);
	memcpy(s.stride, a->stride, sizeof *s.stride * n->rank);
	if (n->rank > 1) return s;
	s.rank = 2;
	s.dim[left] = lo_dim(L, r)[0];
	s.stride[left] = a->stride[0];
	s.dim[!left] = 1;
	s.stride[!left] = left ? s.dim[1] : 1;
	return s;
}

/* The offset of each batch in an operand, which may broadcast along batch axes. */
static bool batch_offsets(const side *s, int nbatch, const int64_t *dim, int64_t batch, int64_t *offset)
{
	int lead = nbatch - (s->rank - 2);
	bool any = false;
	for (int64_t b = 0; b < batch; b++) {
		int64_t left = b, at = 0;
		for (int i = nbatch - 1; i >= 0; i--) {
			if (i >= lead && s->dim[i - lead] != 1) at += left % dim[i] * s->stride[i - lead];
			left /= dim[i];
		}
		offset[b] = at;
		any |= at != 0;
	}
	return any;
}

/* dnnl_sgemm reads an operand with one unit stride and rows that do not overlap. Other dtypes use our own loops, which read
 * any strides. */
static bool takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	if (lo_node(L, r)->dtype != TJ_F32 || ir_numel(L->g, r) == 0) return true;
	side s = as_matrix(L, r, a, k == 0);
	int64_t rows = s.dim[s.rank - 2], cols = s.dim[s.rank - 1], row = s.stride[s.rank - 2],
	        col = s.stride[s.rank - 1];
	return ((col == 1 || cols == 1) && (rows == 1 || row >= cols)) ||
	       ((row == 1 || rows == 1) && (cols == 1 || col >= rows));
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_node *n = lo_node(L, s->ref);
	int64_t batch = 1, bdim[TJ_MAX_RANK];
	lo_access acc[2];
	side m[2];
	size_t size = tj_dtype_size((tj_dtype)n->dtype);
	rt_at *at = lo_step_operands(p, t, 3);
	if (!at) return false;
	for (int k = 0; k < 2; k++) {
		ir_ref r = ir_src(L->g, n, k);
		lo_access_of(L, r, &acc[k]);
		m[k] = as_matrix(L, r, &acc[k], k == 0);
		at[k] = (rt_at){ .buf = lo_buf_of(L, acc[k].base), .offset = acc[k].offset * (int64_t)size };
	}
	int nbatch = (m[0].rank > m[1].rank ? m[0].rank : m[1].rank) - 2;
	for (int i = 0; i < nbatch; i++) batch *= bdim[i] = lo_dim(L, s->ref)[i];
	at[2].buf = lo_buf_of(L, s->ref);
	int ra = m[0].rank, rb = m[1].rank;
	rt_matmul_desc d = {
		.dtype = (tj_dtype)n->dtype,
		.m = m[0].dim[ra - 2],
		.n = m[1].dim[rb - 1],
		.k = m[0].dim[ra - 1],
		.batch = batch,
		.a_row = m[0].stride[ra - 2],
		.a_col = m[0].stride[ra - 1],
		.b_row = m[1].stride[rb - 2],
		.b_col = m[1].stride[rb - 1],
	};
	d.c_row = d.n;
	d.policy = lo_target_of(L, s->ref)->policy();
	d.settings = L->o->settings;
	int64_t *off = rt_alloc(sizeof *off * (3 * (size_t)batch + 1));
	if (!off) return false;
	batch_offsets(&m[0], nbatch, bdim, batch, off);
	batch_offsets(&m[1], nbatch, bdim, batch, off + batch);
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

const lo_routine lo_matmul = { .op = IR_matmul, .bounded = 1u << RT_F, .takes = takes, .make = make, .code = { run, drop }, .why = why };
