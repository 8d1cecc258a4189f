/* SPDX-License-Identifier: MIT */
/* csr: products with a sparse matrix whose row i has the elements offsets[i] to before offsets[i + 1], in their order, in the plainest
 * way. Leading axes are a batch. */
#include "ir/csr.h"

typedef struct walk {
	ir_op op;
	const ir_value *offsets, *columns, *a, *b;
	ir_value *out;
	int64_t n, k;              /* rows of what columns count; elements of a row of dense matrices */
	int64_t at[4];             /* offsets of this example, of each operand */
	int64_t out_at;
	tj_dtype t;
	ir_point_fn *mul, *add;
} walk;

static ir_scalar load(const ir_value *v, int64_t at)
{
	const tj_dtype t = (tj_dtype)v->meta.dtype;
	return ir_load(t, (const char *)v->data + at * (int64_t)tj_dtype_size(t));
}
static ir_scalar one(const ir_value *v, int64_t at, int64_t i) { return load(v, at + i * v->stride[v->meta.rank - 1]); }
static ir_scalar two(const ir_value *v, int64_t at, int64_t i, int64_t j)
{
	return load(v, at + i * v->stride[v->meta.rank - 2] + j * v->stride[v->meta.rank - 1]);
}
static void *result(const walk *w, int64_t i) { return (char *)w->out->data + (w->out_at + i) * (int64_t)tj_dtype_size(w->t); }
static ir_scalar sum(const walk *w, ir_scalar a, ir_scalar b) { return w->add((ir_scalar[]){ a, b }, w->t); }
static ir_scalar times(const walk *w, ir_scalar a, ir_scalar b) { return w->mul((ir_scalar[]){ a, b }, w->t); }

/* row i of the result += element e * row j of b */
static void add_row(const walk *w, int64_t i, ir_scalar x, int64_t j)
{
	for (int64_t k = 0; k < w->k; k++) {
		void *to = result(w, i * w->k + k);
		ir_store(w->t, to, sum(w, ir_load(w->t, to), times(w, x, two(w->b, w->at[3], j, k))));
	}
}

static ir_scalar dot(const walk *w, int64_t i, int64_t j)
{
	const ir_scalar zero = ir_cast_scalar((ir_scalar){ .i = 0 }, TJ_I64, w->t);
	ir_scalar s[IR_CSR_SUMS];
	for (int k = 0; k < IR_CSR_SUMS; k++) s[k] = zero;
	for (int64_t k = 0; k < w->k; k++)
		s[k % IR_CSR_SUMS] = sum(w, s[k % IR_CSR_SUMS], times(w, two(w->a, w->at[2], i, k), two(w->b, w->at[3], j, k)));
	for (int h = IR_CSR_SUMS / 2; h; h /= 2)
		for (int k = 0; k < h; k++) s[k] = sum(w, s[k], s[k + h]);
	return s[0];
}

/* false: an index is out of range. */
static bool example(const walk *w)
{
	const int64_t m = w->offsets->meta.dim[w->offsets->meta.rank - 1] - 1, size = w->columns->meta.dim[w->columns->meta.rank - 1];
	for (int64_t i = 0; i < m; i++) {
		const int64_t from = one(w->offsets, w->at[0], i).i, to = one(w->offsets, w->at[0], i + 1).i;
		if (from < 0 || to < from || to > size) return false;
		for (int64_t e = from; e < to; e++) {
			const int64_t j = one(w->columns, w->at[1], e).i;
			if (j < 0 || j >= w->n) return false;
			if (w->op == IR_csr_product) add_row(w, i, one(w->a, w->at[2], e), j);
			else if (w->op == IR_csr_product_transposed) add_row(w, j, one(w->a, w->at[2], e), i);
			else ir_store(w->t, result(w, e), dot(w, i, j));
		}
	}
	return true;
}

/* Where example x of v begins; the last `own` axes are of one example. */
static int64_t begin_of(const ir_value *v, int own, int64_t x)
{
	int64_t at = 0;
	for (int i = v->meta.rank - own - 1; i >= 0; i--) {
		at += x % v->meta.dim[i] * v->stride[i];
		x /= v->meta.dim[i];
	}
	return at;
}

tj_status ir_csr(ir_op op, const ir_value *src, ir_value *out, const char *site, rt_err *err)
{
	const int batch = src[0].meta.rank - 1, rank = src[3].meta.rank;
	walk w = { .op = op, .offsets = &src[0], .columns = &src[1], .a = &src[2], .b = &src[3], .out = out, .t = (tj_dtype)out->meta.dtype };
	w.mul = ir_point_get(IR_mul, rt_dtype_class(w.t));
	w.add = ir_point_get(IR_add, rt_dtype_class(w.t));
	w.k = src[3].meta.dim[rank - 1];
	w.n = op == IR_csr_product_transposed ? out->meta.dim[rank - 2] : src[3].meta.dim[rank - 2];
	int64_t examples = 1, all = 0;
	rt_numel(batch, src[0].meta.dim, &examples);
	rt_numel(out->meta.rank, out->meta.dim, &all);
	memset(out->data, 0, (size_t)all * tj_dtype_size(w.t));
	for (int64_t x = 0; x < examples; x++) {
		for (int k = 0; k < 4; k++) w.at[k] = begin_of(&src[k], src[k].meta.rank - batch, x);
		w.out_at = x * (all / examples);
		if (!example(&w)) return rt_fault_fail(&(rt_fault){ site, ir_ops[op].name, TJ_ERR_INDEX, w.n }, err);
	}
	return TJ_OK;
}
