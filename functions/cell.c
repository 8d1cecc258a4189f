/* SPDX-License-Identifier: MIT */
/* Linear layers, and the cells of recurrent networks, with PyTorch's layouts of weights: [outputs, inputs], gates one after the other. */
#include "functions/functions.h"

#include <math.h>

/* ---- what may be wrong ---- */
/* t has these sizes; optional: NULL is fine. NULL, or poison. */
static tj_tensor *bad_sizes(const char *site, const char *name, const char *what, tj_tensor *t, int rank, const int64_t *dim)
{
	tj_tensor *bad = fn_bad(site, name, what, t);
	if (bad) return bad;
	bool fits = tj_rank(t) == rank;
	for (int i = 0; fits && i < rank; i++) fits = tj_dim(t, i) == dim[i];
	if (fits) return NULL;
	if (rank == 1) return tj_fail(TJ_ERR_SHAPE, name, "one number for each output", "%s is not [%lld] but %s", what, (long long)dim[0],
	                               fn_type_of(t).text);
	return tj_fail(TJ_ERR_SHAPE, name, "weights are [outputs, inputs]", "%s is not [%lld,%lld] but %s", what, (long long)dim[0],
	               (long long)dim[1], fn_type_of(t).text);
}

/* ---- linear, bilinear ---- */
/* x W' + b, rounded once; b may be NULL */
static tj_tensor *affine(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias)
{
	tj_tensor *w = tj_transpose(weight, 0, 1);
	const tj_dtype t = tj_dtype_of(x);
	if (!bias) return tj_matmul(x, w);
	if (!fn_is_narrow(t) || tj_dtype_of(w) != t) return tj_add(tj_matmul(x, w), bias);
	return tj_cast(tj_add(tj_matmul(tj_cast(x, TJ_F32), tj_cast(w, TJ_F32)), bias), t);
}

tj_tensor *tj_linear_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias)
{
	static const char name[] = "linear";
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (!bad) bad = fn_bad(site, name, "the weight", weight);
	if (bad) return bad;
	if (tj_rank(weight) != 2) return tj_fail(TJ_ERR_SHAPE, name, "[outputs, inputs]", "the weight has %d axes", tj_rank(weight));
	if (tj_rank(x) < 1 || tj_dim(x, -1) != tj_dim(weight, 1))
		return tj_fail(TJ_ERR_SHAPE, name, "the weight is [outputs, inputs]",
		               "the last axis of x has size %lld, the weight is for %lld inputs: x is %s, the weight %s",
		               (long long)(tj_rank(x) ? tj_dim(x, -1) : 0), (long long)tj_dim(weight, 1), fn_type_of(x).text,
		               fn_type_of(weight).text);
	if (bias && (bad = bad_sizes(site, name, "the bias", bias, 1, (int64_t[]){ tj_dim(weight, 0) }))) return bad;
	return affine(site, x, weight, bias);
}

/* y[o] = sum over i, j of a[i] W[o,i,j] b[j] */
tj_tensor *tj_bilinear_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *weight, tj_tensor *bias)
{
	static const char name[] = "bilinear";
	int64_t shape[TJ_MAX_RANK + 2];
	tj_tensor *bad = fn_bad(site, name, "a", a);
	if (!bad) bad = fn_bad(site, name, "b", b);
	if (!bad) bad = fn_bad(site, name, "the weight", weight);
	if (bad) return bad;
	const int rank = tj_rank(a);
	bool fits = rank >= 1 && rank == tj_rank(b) && tj_rank(weight) == 3 && tj_dim(a, -1) == tj_dim(weight, 1) &&
	            tj_dim(b, -1) == tj_dim(weight, 2);
	for (int i = 0; fits && i < rank - 1; i++) fits = tj_dim(a, i) == tj_dim(b, i);
	if (!fits) return tj_fail(TJ_ERR_SHAPE, name, "a is [...,I], b [...,J], the weight [O,I,J]", "the operands do not fit");
	const int64_t out = tj_dim(weight, 0), in = tj_dim(weight, 1), other = tj_dim(weight, 2);
	if (bias && (bad = bad_sizes(site, name, "the bias", bias, 1, &out))) return bad;
	tj_tensor *w = tj_reshape(tj_transpose(weight, 0, 1), TJ_SHAPE(in, out * other));
	fn_shape(a, shape);
	shape[rank - 1] = out;
	shape[rank] = other;
	shape[rank + 1] = TJ_END_DIM;
	const tj_dtype t = tj_dtype_of(a);
	const bool whole = !fn_is_float(t) && t == tj_dtype_of(b) && t == tj_dtype_of(weight) &&
	                   (!bias || t == tj_dtype_of(bias)); /* its sums are i64, which wrap to t */
	tj_tensor *y = tj_reshape(tj_matmul(fn_widened(site, a), fn_widened(site, w)), shape);
	y = tj_sum(tj_mul(y, tj_unsqueeze(b, -2)), TJ_AXES(-1), false);
	if (bias) y = tj_add(y, bias);
	return fn_is_narrow(t) || whole ? tj_cast(y, t) : y;
}

/* ---- cells ---- */
/* x [N,I] or [I], h [N,H] or [H], weights [gates * H, I] and [gates * H, H], biases [gates * H] or NULL. NULL, or poison. */
static tj_tensor *bad_cell(const char *site, const char *name, int gates, tj_tensor *x, tj_tensor *h, const tj_cell *w)
{
	tj_tensor *bad = w ? NULL : tj_fail(TJ_ERR_ARG, name, "&(tj_cell){ w_ih, w_hh, b_ih, b_hh }", "there are no weights");
	if (!bad) bad = fn_bad(site, name, "x", x);
	if (!bad) bad = fn_bad(site, name, "h", h);
	if (bad) return bad;
	const int rank = tj_rank(x);
	if (rank < 1 || rank > 2 || tj_rank(h) != rank || (rank == 2 && tj_dim(x, 0) != tj_dim(h, 0)))
		return tj_fail(TJ_ERR_SHAPE, name, "x is [N,inputs], h [N,width]; or both without N", "x and h do not fit");
	const int64_t in = tj_dim(x, -1), width = tj_dim(h, -1), all = gates * width;
	bad = bad_sizes(site, name, "w_ih", w->w_ih, 2, (int64_t[]){ all, in });
	if (!bad) bad = bad_sizes(site, name, "w_hh", w->w_hh, 2, (int64_t[]){ all, width });
	if (!bad && w->b_ih) bad = bad_sizes(site, name, "b_ih", w->b_ih, 1, &all);
	if (!bad && w->b_hh) bad = bad_sizes(site, name, "b_hh", w->b_hh, 1, &all);
	return bad;
}

/* Part i of the gates in y. */
static tj_tensor *gate(const char *site, tj_tensor *y, int i, int64_t width) { return tj_slice(y, -1, i * width, (i + 1) * width, 1); }

static tj_tensor *elman(const char *site, const char *name, bool relu, tj_tensor *x, tj_tensor *h, const tj_cell *w)
{
	tj_tensor *bad = bad_cell(site, name, 1, x, h, w);
	if (bad) return bad;
	tj_tensor *sum = tj_add(affine(site, x, w->w_ih, w->b_ih), affine(site, h, w->w_hh, w->b_hh));
	return relu ? tj_relu(sum) : tj_tanh(sum);
}

tj_tensor *tj_rnn_tanh_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w)
{
	return elman(site, "rnn_tanh_cell", false, x, h, w);
}
tj_tensor *tj_rnn_relu_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w)
{
	return elman(site, "rnn_relu_cell", true, x, h, w);
}

/* Gates: input, forget, cell, output. */
tj_tensor *tj_lstm_cell_at(const char *site, tj_tensor *x, tj_tensor *h, tj_tensor *c, const tj_cell *w, tj_tensor **c_next)
{
	static const char name[] = "lstm_cell";
	tj_tensor *bad = bad_cell(site, name, 4, x, h, w);
	if (!bad) bad = fn_bad(site, name, "c", c);
	if (!bad && (tj_rank(c) != tj_rank(h) || tj_dim(c, 0) != tj_dim(h, 0) || tj_dim(c, -1) != tj_dim(h, -1)))
		bad = tj_fail(TJ_ERR_SHAPE, name, "both are [N,width]", "c has not the shape of h");
	if (!bad && !c_next) bad = tj_fail(TJ_ERR_ARG, name, "the address of a variable", "c_next is NULL");
	if (bad) {
		if (c_next) *c_next = bad;
		return bad;
	}
	const int64_t n = tj_dim(h, -1);
	tj_tensor *all = tj_add(affine(site, x, w->w_ih, w->b_ih), affine(site, h, w->w_hh, w->b_hh));
	tj_tensor *kept = tj_mul(tj_sigmoid(gate(site, all, 1, n)), c),
		  *new = tj_mul(tj_sigmoid(gate(site, all, 0, n)), tj_tanh(gate(site, all, 2, n)));
	*c_next = tj_add(kept, new);
	return tj_mul(tj_sigmoid(gate(site, all, 3, n)), tj_tanh(*c_next));
}

/* Gates: reset, update, new. The reset gate multiplies what h gives to the new one, with its bias. */
tj_tensor *tj_gru_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w)
{
	tj_tensor *bad = bad_cell(site, "gru_cell", 3, x, h, w);
	if (bad) return bad;
	const int64_t n = tj_dim(h, -1);
	tj_tensor *of_x = affine(site, x, w->w_ih, w->b_ih), *of_h = affine(site, h, w->w_hh, w->b_hh);
	tj_tensor *reset = tj_sigmoid(tj_add(gate(site, of_x, 0, n), gate(site, of_h, 0, n))),
		  *update = tj_sigmoid(tj_add(gate(site, of_x, 1, n), gate(site, of_h, 1, n)));
	tj_tensor *new = tj_tanh(tj_add(gate(site, of_x, 2, n), tj_mul(reset, gate(site, of_h, 2, n))));
	return tj_add(new, tj_mul(update, tj_sub(h, new)));
}

/* ---- embedding_bag ---- */
typedef struct bags {
	const char *site;
	tj_bag_opts o;
	tj_tensor *index, *weight, *counts; /* counts: bool of the index's shape, or NULL: all do */
} bags;

static const char name_of_bags[] = "embedding_bag";

static tj_tensor *rows(const bags *q)
{
	const char *site = q->site;
	const char *named = tj_site_for(site, name_of_bags, "an element of the index is out of range; the number of embeddings is ", NULL);
	tj_tensor *e = fn_widened(site, tj_embedding_at(named, q->weight, q->index));
	return q->o.weights ? tj_mul(e, tj_unsqueeze(q->o.weights, -1)) : e;
}

static tj_tensor *shared(const char *site, tj_tensor *sum, tj_tensor *n)
{
	return tj_div(sum, tj_unsqueeze(tj_cast(tj_maximum(n, tj_i(1)), tj_dtype_of(sum)), -1));
}

/* index [B,N]: a bag is a row. Of equal largest ones the first has the gradient. */
static tj_tensor *of_rows(const bags *q)
{
	const char *site = q->site;
	tj_tensor *e = rows(q), *in = q->counts ? tj_unsqueeze(q->counts, -1) : NULL;
	const int64_t n = tj_dim(q->index, 1);
	if (q->o.mode == TJ_BAG_MAX && n) {
		tj_tensor *most = tj_max_with_indices(in ? tj_where(in, e, tj_f(-INFINITY)) : e, 1, false, NULL);
		return in ? tj_where(tj_any(in, TJ_AXES(1), false), most, tj_f(0)) : most;
	}
	tj_tensor *sum = tj_sum(in ? tj_where(in, e, tj_f(0)) : e, TJ_AXES(1), false);
	if (q->o.mode != TJ_BAG_MEAN) return sum;
	return shared(site, sum,
	              q->counts ? tj_sum(q->counts, TJ_AXES(1), false)
	                        : tj_to(tj_full(TJ_I64, TJ_SHAPE(tj_dim(q->index, 0)), tj_i(n)), tj_device_of(sum)));
}

/* i64 [1]: 0; a fault unless the offsets, i64, ascend from 0 to at most n. */
static tj_tensor *right_offsets(const char *site, tj_tensor *offsets, int64_t n)
{
	const int64_t count = tj_dim(offsets, 0);
	tj_tensor *end = tj_to(tj_full(TJ_I64, TJ_SHAPE(1), tj_i(n)), tj_device_of(offsets)),
		  *next = tj_cat(TJ_LIST(tj_slice(offsets, 0, 1, count, 1), end), 0),
		  *first = tj_eq(tj_slice(offsets, 0, 0, 1, 1), tj_i(0));
	return fn_zero_if(tj_site_for(site, name_of_bags, "the offsets do not ascend from 0 to at most the number of elements",
	                              "the first offset is 0; each says where its bag begins, so none is below the one before it"),
	                  offsets, tj_all(tj_logical_and(tj_ge(next, offsets), first), TJ_ALL, false));
}

/* index [N]: a bag goes from its offset to the next one. What does not count goes to a bag behind the last one. */
static tj_tensor *of_offsets(const bags *q)
{
	const char *site = q->site;
	const int64_t n = tj_dim(q->index, 0), count = tj_dim(q->o.offsets, 0), width = tj_dim(q->weight, 1);
	const tj_device d = tj_device_of(q->weight);
	tj_tensor *e = rows(q),
		  *bag = tj_sub(
			  tj_searchsorted(q->o.offsets, tj_cast(tj_to(tj_arange(TJ_I64, 0, n, 1), d), tj_dtype_of(q->o.offsets)), true),
			  tj_i(1));
	if (count) bag = tj_add(bag, right_offsets(site, tj_cast(q->o.offsets, TJ_I64), n));
	if (q->counts) bag = tj_where(q->counts, bag, tj_i(count));
	tj_tensor *to = tj_expand(tj_unsqueeze(bag, 1), TJ_SHAPE(n, width)),
		  *none = tj_to(tj_zeros(tj_dtype_of(e), TJ_SHAPE(count + 1, width)), d);
	tj_tensor *y = q->o.mode == TJ_BAG_MAX ? tj_scatter_reduce(none, 0, to, e, TJ_REDUCE_AMAX, false) : tj_scatter_add(none, 0, to, e);
	if (q->o.mode == TJ_BAG_MEAN) {
		tj_tensor *ones = tj_to(tj_ones(TJ_I64, TJ_SHAPE(n)), d);
		y = shared(site, y, tj_scatter_add(tj_to(tj_zeros(TJ_I64, TJ_SHAPE(count + 1)), d), 0, bag, ones));
	}
	return tj_slice(y, 0, 0, count, 1);
}

static tj_tensor *bad_bags(const char *site, const char *name, tj_tensor *index, tj_tensor *weight, const tj_bag_opts *o)
{
	tj_tensor *bad = fn_bad_index(site, name, "the index", index);
	if (!bad) bad = fn_bad_float(site, name, "the weight", weight);
	if (!bad && o->offsets) bad = fn_bad(site, name, "the offsets", o->offsets);
	if (!bad && o->weights) bad = fn_bad(site, name, ".weights", o->weights);
	if (bad) return bad;
	if (tj_rank(weight) != 2) return tj_fail(TJ_ERR_SHAPE, name, "[number of embeddings, width]", "the weight has %d axes", tj_rank(weight));
	if (tj_rank(index) != (o->offsets ? 1 : 2))
		return tj_fail(TJ_ERR_SHAPE, name, "[bags, elements]; or [elements], and .offsets, where each bag begins",
		               "the index has %d axes", tj_rank(index));
	if (o->offsets && (tj_rank(o->offsets) != 1 || fn_is_float(tj_dtype_of(o->offsets))))
		return tj_fail(TJ_ERR_SHAPE, name, "integers [bags], from 0, ascending", "the offsets have other axes, or another dtype");
	if ((unsigned)o->mode > TJ_BAG_MAX)
		return tj_fail(TJ_ERR_ARG, name, "TJ_BAG_SUM, TJ_BAG_MEAN or TJ_BAG_MAX", "there is no mode %d", (int)o->mode);
	if (o->weights && o->mode != TJ_BAG_SUM) return tj_fail(TJ_ERR_ARG, name, "TJ_BAG_SUM", ".weights are for sums alone");
	bool fits = !o->weights || tj_rank(o->weights) == tj_rank(index);
	for (int i = 0; fits && o->weights && i < tj_rank(index); i++) fits = tj_dim(o->weights, i) == tj_dim(index, i);
	return fits ? NULL : tj_fail(TJ_ERR_SHAPE, name, "one weight for each element of the index", ".weights has not the shape of the index");
}

tj_tensor *tj_embedding_bag_at(const char *site, tj_tensor *index, tj_tensor *weight, const tj_bag_opts *opts)
{
	bags q = { .site = site, .index = index, .weight = weight };
	NN_OPTIONS(tj_bag_opts, o, opts);
	tj_tensor *bad = bad_bags(site, name_of_bags, index, weight, &o);
	if (bad) return bad;
	q.o = o;
	if (o.pads) q.counts = tj_ne(index, tj_i(o.padding_index));
	tj_tensor *y = o.offsets ? of_offsets(&q) : of_rows(&q);
	return fn_is_narrow(tj_dtype_of(weight)) ? tj_cast(y, tj_dtype_of(weight)) : y;
}
