/* SPDX-License-Identifier: MIT */
/* packed: cholesky, solve_lower, lu_packed, qr_packed: a matrix of a batch at a time (runtime/factor.c), and how results are packed. */
#include "ir/packed.h"
#include "runtime/factor.h"

typedef struct batch {
	ir_op op;
	tj_dtype t;
	int64_t n, rows, columns, k; /* matrices; of each; columns of the right side */
	size_t size;
	bool unit; /* solve_lower: the diagonal counts as ones */
} batch;

static void put(const batch *B, void *to, int64_t at, int64_t v)
{
	if (B->t == TJ_F64) ((double *)to)[at] = (double)v;
	else ((float *)to)[at] = (float)v;
}

/* a [rows,columns] becomes to [rows,columns + 1]. */
static void pack_lu(const batch *B, const char *a, const int32_t *pivot, int64_t *order, char *to)
{
	const size_t line = (size_t)B->columns * B->size;
	const int64_t steps = B->rows < B->columns ? B->rows : B->columns;
	for (int64_t i = 0; i < B->rows; i++) order[i] = i;
	for (int64_t i = 0; i < steps; i++) {
		const int64_t x = order[i];
		order[i] = order[pivot[i]];
		order[pivot[i]] = x;
	}
	for (int64_t i = 0; i < B->rows; i++) {
		memcpy(to + (size_t)i * (line + B->size), a + (size_t)i * line, line);
		put(B, to, i * (B->columns + 1) + B->columns, order[i]);
	}
}

/* q [rows,k] lies in front of r [k,columns], whose transpose comes behind it. */
static void pack_qr(const batch *B, const char *r, char *to, int64_t k)
{
	char *at = to + (size_t)(B->rows * k) * B->size;
	for (int64_t j = 0; j < B->columns; j++)
		for (int64_t i = 0; i < k; i++) memcpy(at + (size_t)(j * k + i) * B->size, r + (size_t)(i * B->columns + j) * B->size, B->size);
}

static tj_status one(const batch *B, int64_t i, char *a, const char *b, char *to, void *work, rt_err *err)
{
	const int64_t k = B->rows < B->columns ? B->rows : B->columns;
	switch (B->op) {
	case IR_cholesky:
		memcpy(to, a, (size_t)(B->rows * B->columns) * B->size);
		const int64_t bad = rt_cholesky(B->t, B->rows, to);
		if (!bad) return TJ_OK;
		rt_fail(err, TJ_ERR_SINGULAR, "cholesky", "matrix %lld of %lld is not positive definite: its leading %lld x %lld part is not",
		        (long long)i, (long long)B->n, (long long)bad, (long long)bad);
		rt_hint(err, "add a small multiple of the identity to it; a NaN in it counts as this, too");
		return TJ_ERR_SINGULAR;
	case IR_solve_lower:
		memcpy(to, b, (size_t)(B->rows * B->k) * B->size);
		rt_solve_lower(B->t, B->rows, B->k, a, to, B->unit);
		return TJ_OK;
	case IR_lu_packed: {
		int64_t *order = work;
		int32_t *pivot = (int32_t *)(order + B->rows);
		rt_lu(B->t, B->rows, B->columns, a, pivot, (char *)(order + 2 * B->rows));
		pack_lu(B, a, pivot, order, to);
		return TJ_OK;
	}
	default: {
		char *r = work;
		rt_qr(B->t, B->rows, B->columns, a, to, r, r + (size_t)(k * B->columns) * B->size);
		pack_qr(B, r, to, k);
		return TJ_OK;
	}
	}
}

static size_t work_of(const batch *B)
{
	const int64_t k = B->rows < B->columns ? B->rows : B->columns;
	if (B->op == IR_lu_packed) return (size_t)B->rows * 16 + (size_t)rt_lu_room(B->rows, B->columns) * B->size;
	if (B->op == IR_qr_packed) return (size_t)(k * B->columns + rt_qr_room(B->rows, B->columns)) * B->size;
	return 0;
}

tj_status ir_factor(ir_op op, const ir_meta *m, void *a, const void *b, const ir_meta *out, void *to, bool unit, rt_err *err)
{
	const tj_dtype t = (tj_dtype)out->dtype;
	batch B = { op, t, 1, m->dim[m->rank - 2], m->dim[m->rank - 1], out->dim[out->rank - 1], tj_dtype_size(t), unit };
	for (int i = 0; i < m->rank - 2; i++) B.n *= m->dim[i];
	const size_t step = (size_t)(B.rows * B.columns) * B.size, result = (size_t)(out->dim[out->rank - 2] * out->dim[out->rank - 1]) * B.size;
	void *work = rt_alloc(work_of(&B) + 1);
	tj_status st = work ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
	if (!result) B.n = 0;
	for (int64_t i = 0; i < B.n && st == TJ_OK; i++) {
		char *x = (char *)a + (size_t)i * step, *y = (char *)to + (size_t)i * result;
		st = one(&B, i, x, op == IR_solve_lower ? (const char *)b + (size_t)i * result : NULL, y, work, err);
	}
	rt_free(work);
	return st;
}
