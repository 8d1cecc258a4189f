/* SPDX-License-Identifier: MIT */
/* square: products of small square matrices, whose rows and columns fill whole registers, as of [n,4,4] and [n,4,4].
 *
 *   a = a00 a01 a02 a03 a10 a11 ..          all of the left matrix, or some rows of it, as it lies
 *   sum = 0
 *   for k:  sum += a0k a0k a0k a0k a1k a1k ..  *  bk0 bk1 bk2 bk3 bk0 bk1 ..      a shuffle within rows; row k, again and again
 *
 * A tile takes a vector for each row, and a call. 2,000 products of 4 x 4 in f32: 7.1 to 2.1 us (Zen 5, one thread). */
#include "codegen_llvm/product.h"

enum { MOST_REGISTERS = 8 };

static int register_lanes(const cg_recipe *h) { return h->bits / 8 / (int)tj_dtype_size(h->product->t); }

/* A plain load, with that step of r and from item to item. */
static bool lies(const cg_recipe *h, int o, int64_t item, int64_t r)
{
	return !cg_computes(h, o) && !cg_is_grouped(h, o) && !h->product->operand[o].other.n && cg_item_dtype(h, o) == h->product->t &&
	       cg_item_step(h, o) == item && (!r || cg_r_step(h, o) == r);
}

bool cg_is_square(const cg_recipe *h)
{
	const cg_product *p = h->product;
	const lo_kernel *k = h->k;
	const int64_t n = k->dim[k->ndim - 1], lanes = register_lanes(h);
	if (p->direct == LO_NOREF || p->x.row < 0 || tj_dtype_size(p->t) < 4 || lo_is_sym(n) || n < 2 || n & (n - 1) || n > lanes) return false;
	if (p->x.panels || p->x.words || p->x.strips || p->pairs || p->bytes || p->across || k->red != n) return false;
	const int64_t rows = k->dim[p->x.row];
	if (lo_is_sym(rows) || h->s->rows != rows || h->s->block != n || rows * n % lanes || rows * n / lanes > MOST_REGISTERS) return false;
	const lo_index *out = &k->index.v[k->ins.v[p->direct].index];
	return lies(h, 0, n, 1) && lies(h, 1, 1, 0) && out->coef[p->x.row] == n && out->coef[k->ndim - 1] == 1;
}

static cg_str shuffle(cg *c, cg_str x, int from, int n, int k)
{
	const cg_product *p = cg_product_of(c);
	const int lanes = register_lanes(c->how);
	const cg_str r = cg_tmp(c), type = cg_type(p->t, from);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", r.s, type.s, x.s, type.s, lanes);
	for (int l = 0; l < lanes; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", k < 0 ? l % n : l / n * n + k);
	rt_puts(c->out, ">\n");
	return r;
}

void cg_multiply_square(cg *c, cg_str a, cg_str b, cg_str out)
{
	const cg_product *p = cg_product_of(c);
	const int n = (int)c->k->red, lanes = register_lanes(c->how), registers = (int)c->k->dim[p->x.row] * n / lanes;
	cg_str x[MOST_REGISTERS], sum[MOST_REGISTERS];
	for (int i = 0; i < registers; i++) {
		x[i] = cg_read(c, p->t, lanes, cg_elem(c, p->t, a, cg_int((int64_t)i * lanes)));
		sum[i] = cg_literal(p->t, 0, lanes);
	}
	for (int k = 0; k < n; k++) {
		const cg_str at = cg_elem(c, p->t, b, cg_op(c, "mul", cg_int(k), cg_int(cg_r_step(c->how, 1))));
		const cg_str row = shuffle(c, cg_read(c, p->t, n, at), n, n, -1);
		for (int i = 0; i < registers; i++) sum[i] = cg_multiply_add(c, p->t, lanes, shuffle(c, x[i], lanes, n, k), row, sum[i]);
	}
	for (int i = 0; i < registers; i++) cg_write(c, p->t, lanes, sum[i], cg_elem(c, p->t, out, cg_int((int64_t)i * lanes)));
}
