/* SPDX-License-Identifier: MIT */
/* Attention of several heads: projections of queries, keys and values, tj_scaled_dot_product_attention(), and a projection of the result.
 */
#include "functions/functions.h"

/* of an example: rows of the queries, keys; `batched`: q has an axis of examples */
typedef struct heads { int64_t n, width, rows, keys; bool batched; } heads;

static tj_tensor *bad_weight(const char *site, const char *name, const char *what, tj_tensor *w, int64_t rows, int64_t columns)
{
	tj_tensor *bad = fn_bad_float(site, name, what, w);
	if (bad) return bad;
	if (tj_rank(w) == (columns ? 2 : 1) && tj_dim(w, 0) == rows && (!columns || tj_dim(w, 1) == columns)) return NULL;
	return columns ? tj_fail(TJ_ERR_SHAPE, name,
	                         "rows for outputs, columns for inputs; in_weight: those of q, k and v below each other",
	                         "%s is not [%lld,%lld]", what, (long long)rows, (long long)columns)
	               : tj_fail(TJ_ERR_SHAPE, name, "in_bias is [3 E], the others are [E]", "%s is not [%lld]", what, (long long)rows);
}

static tj_tensor *misfit(const char *site, const char *name, tj_tensor *const *in, int count, tj_tensor *in_weight, tj_tensor *out_weight,
                         const tj_multi_head_opts *o, heads *h)
{
	static const char *const what[] = { "q", "k", "v" };
	tj_tensor *bad = NULL;
	for (int i = 0; i < 3; i++) {
		if ((bad = fn_bad_float(site, name, what[i], in[i]))) return bad;
		if (tj_rank(in[i]) != 2 && tj_rank(in[i]) != 3)
			return tj_fail(TJ_ERR_SHAPE, name, "[N,places,E], or [places,E]", "%s has %d axes", what[i], tj_rank(in[i]));
		if (tj_rank(in[i]) != tj_rank(in[0]) || tj_dim(in[i], -1) != tj_dim(in[0], -1) ||
		    (tj_rank(in[i]) == 3 && tj_dim(in[i], 0) != tj_dim(in[0], 0)))
			return tj_fail(TJ_ERR_SHAPE, name, "all have the same examples and the same width E", "%s does not fit to q",
			               what[i]);
	}
	*h = (heads){ count, tj_dim(in[0], -1), tj_dim(in[0], -2), tj_dim(in[1], -2), tj_rank(in[0]) == 3 };
	if (tj_dim(in[2], -2) != h->keys)
		return tj_fail(TJ_ERR_SHAPE, name, "each key has a value", "there are %lld keys and %lld values", (long long)h->keys,
		               (long long)tj_dim(in[2], -2));
	if (count < 1 || h->width % count)
		return tj_fail(TJ_ERR_ARG, name, "the width is a multiple of their number", "%d heads of width %lld", count,
		               (long long)h->width);
	if ((bad = bad_weight(site, name, "in_weight", in_weight, 3 * h->width, h->width)) ||
	    (bad = bad_weight(site, name, "out_weight", out_weight, h->width, h->width)))
		return bad;
	const struct {
		const char *what;
		tj_tensor *t;
		int64_t size;
	} biases[] = { { ".in_bias", o->in_bias, 3 * h->width },
		       { ".out_bias", o->out_bias, h->width },
		       { ".bias_k", o->bias_k, h->width },
		       { ".bias_v", o->bias_v, h->width } };
	for (int i = 0; i < 4; i++)
		if (biases[i].t && (bad = bad_weight(site, name, biases[i].what, biases[i].t, biases[i].size, 0))) return bad;
	if (!o->bias_k != !o->bias_v) return tj_fail(TJ_ERR_ARG, name, "a key needs a value", ".bias_k and .bias_v go together");
	if (!o->padding) return NULL;
	if ((bad = fn_bad(site, name, ".padding", o->padding))) return bad;
	if (tj_dtype_of(o->padding) != TJ_BOOL)
		return tj_fail(TJ_ERR_DTYPE, name, "true: this key is padding", ".padding is %s, bool is needed",
		               tj_dtype_name(tj_dtype_of(o->padding)));
	if (tj_rank(o->padding) != h->batched + 1 || tj_dim(o->padding, -1) != h->keys ||
	    (h->batched && tj_dim(o->padding, 0) != tj_dim(in[0], 0)))
		return tj_fail(TJ_ERR_SHAPE, name, "[N,places of k], or [places of k]", ".padding does not fit to k");
	return NULL;
}

/* [..,places,E] -> [..,heads,places,E / heads] */
static tj_tensor *apart(const char *site, const heads *h, tj_tensor *x)
{
	int64_t shape[TJ_MAX_RANK + 3];
	fn_shape(x, shape);
	const int last = tj_rank(x) - 1;
	if (last < 0) return x;
	shape[last] = h->n;
	shape[last + 1] = h->width / h->n;
	shape[last + 2] = TJ_END_DIM;
	return tj_transpose(tj_reshape(x, shape), last - 1, last);
}

static tj_tensor *part(const char *site, tj_tensor *x, int axis, int64_t width, int i)
{
	return x ? tj_slice(x, axis, i * width, (i + 1) * width, 1) : NULL;
}

/* q, k, v of all heads. If they are one tensor, as in self-attention, it is one product. */
static void project(const char *site, const heads *h, tj_tensor *const *in, tj_tensor *w, tj_tensor *bias, tj_tensor **out)
{
	const bool one = in[0] == in[1] && in[1] == in[2];
	tj_tensor *all = one ? tj_linear(in[0], w, bias) : NULL;
	for (int i = 0; i < 3; i++)
		out[i] = one ? part(site, all, -1, h->width, i)
		             : tj_linear(in[i], part(site, w, 0, h->width, i), part(site, bias, 0, h->width, i));
}

/* k or v with one more place at the end, the same in each example. */
static tj_tensor *with_place(const char *site, tj_tensor *x, tj_tensor *more)
{
	if (!more || tj_is_poison(x)) return x;
	fn_dims s = fn_shape_of(x);
	s.dim[s.n - 2] = 1;
	return tj_cat(TJ_LIST(x, fn_expand(site, more, &s)), -2);
}

/* A mask of [..,S] that also lets the place behind the end take part. */
static tj_tensor *let_place(const char *site, tj_tensor *mask, bool more, int64_t keys)
{
	if (!more || !mask || tj_is_poison(mask)) return mask;
	fn_dims s = fn_shape_of(mask);
	if (!s.n) fn_shape_add(&s, 1);
	s.dim[s.n - 1] = keys;
	mask = fn_expand(site, mask, &s);
	s.dim[s.n - 1] = 1;
	return tj_cat(TJ_LIST(mask, fn_filled(site, mask, tj_dtype_of(mask), &s, tj_i(tj_dtype_of(mask) == TJ_BOOL))), -1);
}

/* What may take part: the mask, but for padding. */
static tj_tensor *both(const char *site, const heads *h, tj_tensor *mask, tj_tensor *padding)
{
	if (!padding) return mask;
	tj_tensor *real = tj_logical_not(padding);
	real = h->batched ? tj_reshape(real, TJ_SHAPE(tj_dim(padding, 0), 1, 1, h->keys)) : real;
	if (!mask) return real;
	return tj_dtype_of(mask) == TJ_BOOL ? tj_logical_and(mask, real) : tj_where(real, mask, tj_f(-1.0 / 0.0));
}

tj_tensor *tj_multi_head_attention_at(const char *site, tj_tensor *q, tj_tensor *k, tj_tensor *v, int count, tj_tensor *in_weight,
                                      tj_tensor *out_weight, const tj_multi_head_opts *opts)
{
	static const char name[] = "multi_head_attention";
	NN_OPTIONS(tj_multi_head_opts, o, opts);
	heads h;
	tj_tensor *in[] = { q, k, v }, *of[3], *bad = misfit(site, name, in, count, in_weight, out_weight, &o, &h);
	if (!bad && o.mask && !(bad = fn_bad(site, name, ".mask", o.mask)) && tj_dtype_of(o.mask) != TJ_BOOL &&
	    !fn_is_float(tj_dtype_of(o.mask)))
		bad = tj_fail(TJ_ERR_DTYPE, name, "bool: which take part; or a float that is added to the scores", ".mask is %s",
		              tj_dtype_name(tj_dtype_of(o.mask)));
	if (bad) return bad;
	project(site, &h, in, in_weight, o.in_bias, of);
	of[1] = with_place(site, of[1], o.bias_k);
	of[2] = with_place(site, of[2], o.bias_v);
	tj_tensor *mask = both(site, &h, o.mask, o.padding);
	if (o.causal && o.bias_k) { /* the place at the end is no later one */
		tj_tensor *row = tj_unsqueeze(fn_arange(site, q, h.rows), 1), *sees = tj_ge(row, fn_arange(site, q, h.keys));
		mask = !mask ? sees : tj_dtype_of(mask) == TJ_BOOL ? tj_logical_and(mask, sees) : tj_where(sees, mask, tj_f(-1.0 / 0.0));
	}
	tj_attention_opts a = { .size = sizeof a,
		                .mask = let_place(site, mask, o.bias_k != NULL, h.keys),
		                .causal = o.causal && !o.bias_k,
		                .dropout = o.dropout };
	tj_tensor *y = tj_scaled_dot_product_attention(apart(site, &h, of[0]), apart(site, &h, of[1]), apart(site, &h, of[2]), &a);
	int64_t shape[TJ_MAX_RANK + 1];
	return tj_linear(tj_reshape(tj_transpose(y, -3, -2), fn_shape(q, shape)), out_weight, o.out_bias);
}
