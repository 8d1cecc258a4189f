/* SPDX-License-Identifier: MIT */
/* Attention: softmax(q k' * scale) v. Large matrices of scores are made in blocks of rows, each of which a gradient computes again, so that
 * no more than a block is in memory at a time. A row of the result has the same bits in any block. */
#include "functions/functions.h"

#include <math.h>

enum {
	BLOCK_BYTES = 4 << 20, /* of scores; up to twice of it may be one block */
	HEAD_BYTES = 1 << 20,  /* of scores; more of a head is never one block */
	LEAST_ROWS = 32        /* fewer rows would read k and v too often */
};

typedef struct attention {
	const char *site;
	tj_attention_opts o;
	bool masked;        /* in[3] is the mask */
	int64_t first;      /* row of q that in[0] begins with */
	int64_t groups;     /* heads of q for each of k and v */
	double scale;
} attention;

/* ---- one block ---- */
/* Heads of q that use the same head of k, as rows of one matrix: [..,Hq,r,E] -> [..,Hkv,groups * r,E]; back: the other way. */
static tj_tensor *regrouped(const attention *a, tj_tensor *x, bool back)
{
	const char *site = a->site;
	int64_t shape[TJ_MAX_RANK + 1];
	if (a->groups == 1 || tj_is_poison(x)) return x;
	fn_shape(x, shape);
	const int heads = tj_rank(x) - 3;
	shape[heads] = back ? shape[heads] * a->groups : shape[heads] / a->groups;
	shape[heads + 1] = back ? shape[heads + 1] / a->groups : shape[heads + 1] * a->groups;
	return tj_reshape(x, shape);
}

/* bool [r,S]: row i of q takes part with the keys up to i + offset; the kernel that reads it compares indices */
static tj_tensor *earlier(const attention *a, int64_t rows, int64_t keys, tj_device device)
{
	const char *site = a->site;
	const int64_t first = a->first + a->o.causal_offset;
	tj_tensor *row = tj_to(tj_unsqueeze(tj_arange(TJ_I64, first, first + rows, 1), 1), device);
	return tj_le(tj_to(tj_arange(TJ_I64, 0, keys, 1), device), row);
}

/* The scores with the masks; what takes no part is -inf. *dead: [..,r,1], rows without keys; NULL: there can be none. */
static tj_tensor *with_masks(const attention *a, tj_tensor *score, tj_tensor *mask, tj_tensor **dead)
{
	const char *site = a->site;
	const int64_t rows = tj_dim(score, -2), keys = tj_dim(score, -1);
	tj_tensor *seen = a->o.causal ? earlier(a, rows, keys, tj_device_of(score)) : NULL, *none = tj_f(-INFINITY);
	*dead = NULL;
	if (mask && tj_dtype_of(mask) == TJ_BOOL) seen = seen ? tj_logical_and(mask, seen) : mask;
	else if (mask) {
		if (tj_dtype_of(mask) != tj_dtype_of(score)) mask = tj_cast(mask, tj_dtype_of(score));
		if (seen) mask = tj_where(seen, mask, none);
		if (keys) *dead = tj_eq(tj_amax(mask, TJ_AXES(-1), true), none);
		return tj_add(score, mask);
	}
	if (!seen) return score;
	if (mask || a->first + a->o.causal_offset < 0) *dead = tj_logical_not(tj_any(seen, TJ_AXES(-1), true));
	return tj_where(seen, score, none);
}

/* in: q [..,r,E], k, v, and the mask of these rows. A row without keys is 0, and so is its gradient. f16 and bf16 are rounded once, at the
 * end. */
static void block(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const attention *a = self;
	const char *site = a->site;
	tj_tensor *dead, *q = regrouped(a, fn_widened(site, in[0]), false);
	tj_tensor *score = regrouped(a, tj_mul(tj_matmul(q, tj_transpose(fn_widened(site, in[1]), -1, -2)), tj_f(a->scale)), true);
	score = with_masks(a, score, a->masked ? in[3] : NULL, &dead);
	tj_tensor *p = tj_softmax(dead ? tj_where(dead, tj_f(0), score) : score, -1);
	if (dead) p = tj_where(dead, tj_f(0), p);
	if (a->o.dropout > 0) p = tj_dropout(p, a->o.dropout, true);
	tj_tensor *y = regrouped(a, tj_matmul(regrouped(a, p, false), fn_widened(site, in[2])), true);
	out[0] = fn_is_narrow(tj_dtype_of(in[0])) ? tj_cast(y, tj_dtype_of(in[0])) : y;
}

/* ---- all blocks ---- */
static tj_tensor *rows_of(const char *site, tj_tensor *x, int64_t from, int64_t to, int64_t all)
{
	return tj_rank(x) >= 2 && tj_dim(x, -2) == all && all > 1 ? tj_slice(x, -2, from, to, 1) : x;
}

/* Keys that the rows below `to` can see: a causal block needs no others. */
static int64_t keys_of(const attention *a, int64_t keys, int64_t to)
{
	const int64_t last = to + a->o.causal_offset;
	return !a->o.causal || last > keys ? keys : last < 1 ? 1 : last;
}

/* in: q, keys and values side by side, the mask. A block, and the keys and values again: the next block takes these. So a gradient, which
 * goes the other way, is done with one block before it computes another one again. */
static void link(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const attention *a = self;
	const char *site = a->site;
	const int64_t width = tj_dim(in[0], -1), all = tj_dim(in[1], -1), seen = keys_of(a, tj_dim(in[1], -2), a->first + tj_dim(in[0], -2));
	tj_tensor *pairs = tj_slice(in[1], -2, 0, seen, 1);
	block(out + 1,
	      (tj_tensor *const[]){ in[0], tj_slice(pairs, -1, 0, width, 1), tj_slice(pairs, -1, width, all, 1), a->masked ? in[2] : NULL },
	      self);
	out[0] = in[1];
}

/* From the last rows, which see the most keys, to the first ones. */
static tj_tensor *in_blocks(attention *a, tj_tensor *const *in, int64_t rows, int64_t each)
{
	enum { MOST = 256 };
	const char *site = a->site;
	const int64_t keys = tj_dim(in[1], -2);
	tj_tensor *part[MOST + 1], *pairs = tj_cat(TJ_LIST(in[1], in[2]), -1);
	if (each * MOST < rows) each = (rows + MOST - 1) / MOST;
	const int n = (int)((rows + each - 1) / each);
	for (int i = n - 1; i >= 0; i--) {
		const int64_t from = i * each, to = from + each < rows ? from + each : rows, seen = keys_of(a, keys, to);
		attention now = *a;
		tj_tensor *of[4] = { rows_of(site, in[0], from, to, rows), pairs, TJ_END, TJ_END }, *out[2];
		now.first = from;
		if (a->masked) {
			of[2] = rows_of(site, in[3], from, to, rows);
			if (tj_rank(of[2]) && tj_dim(of[2], -1) == keys && keys > 1) of[2] = tj_slice(of[2], -1, 0, seen, 1);
		}
		if (tj_checkpoint(out, 2, link, of, &now) != TJ_OK) return out[1];
		pairs = out[0];
		part[i] = out[1];
	}
	part[n] = TJ_END;
	return tj_cat(part, -2);
}

/* ---- what may be wrong ---- */
static bool broadcasts(tj_tensor *x, int axis, int64_t size)
{
	return tj_rank(x) < -axis || tj_dim(x, axis) == 1 || tj_dim(x, axis) == size;
}

static const char methods[] = "TJ_ATTENTION_AUTO, TJ_ATTENTION_MATH, TJ_ATTENTION_FUSED or TJ_ATTENTION_LIBRARY";

static tj_tensor *misfit(const char *site, const char *name, tj_tensor *const *in, const tj_attention_opts *o)
{
	static const char *const what[] = { "q", "k", "v" };
	tj_tensor *bad = NULL;
	for (int i = 0; i < 3; i++) {
		if ((bad = fn_bad(site, name, what[i], in[i]))) return bad;
		if (!fn_is_float(tj_dtype_of(in[i])))
			return tj_fail(TJ_ERR_DTYPE, name, "cast it first: tj_cast(x, TJ_F32)", "%s is %s, no float", what[i],
			               tj_dtype_name(tj_dtype_of(in[i])));
		if (tj_rank(in[i]) < 2) return tj_fail(TJ_ERR_SHAPE, name, "[...,places,width]", "%s has %d axes", what[i], tj_rank(in[i]));
		if (tj_rank(in[i]) != tj_rank(in[0]))
			return tj_fail(TJ_ERR_SHAPE, name, "tj_unsqueeze() adds an axis", "%s has %d axes, q has %d", what[i],
			               tj_rank(in[i]), tj_rank(in[0]));
	}
	if (tj_dim(in[0], -1) != tj_dim(in[1], -1))
		return tj_fail(TJ_ERR_SHAPE, name, "both are [...,places,width]", "q has width %lld, k %lld", (long long)tj_dim(in[0], -1),
		               (long long)tj_dim(in[1], -1));
	if (tj_dim(in[1], -2) != tj_dim(in[2], -2))
		return tj_fail(TJ_ERR_SHAPE, name, "each key has a value", "there are %lld keys and %lld values",
		               (long long)tj_dim(in[1], -2), (long long)tj_dim(in[2], -2));
	if (!(o->dropout >= 0 && o->dropout <= 1))
		return tj_fail(TJ_ERR_ARG, name, ".dropout is a probability, from 0 to 1", ".dropout is %g", o->dropout);
	if (o->method < TJ_ATTENTION_AUTO || o->method > TJ_ATTENTION_LIBRARY)
		return tj_fail(TJ_ERR_ARG, name, methods, ".method is %lld", (long long)o->method);
	if (o->causal_offset && !o->causal) return tj_fail(TJ_ERR_ARG, name, "set .causal", ".causal_offset is set without .causal");
	return NULL;
}

static tj_tensor *bad_mask(const char *site, const char *name, tj_tensor *mask, tj_tensor *const *in)
{
	tj_tensor *bad = fn_bad(site, name, "the mask", mask);
	if (bad) return bad;
	if (tj_dtype_of(mask) != TJ_BOOL && !fn_is_float(tj_dtype_of(mask)))
		return tj_fail(TJ_ERR_DTYPE, name, "bool: which take part; or a float that is added to the scores", "the mask is %s",
		               tj_dtype_name(tj_dtype_of(mask)));
	bool fits = tj_rank(mask) <= tj_rank(in[0]) && broadcasts(mask, -1, tj_dim(in[1], -2)) && broadcasts(mask, -2, tj_dim(in[0], -2));
	for (int i = -3; fits && -i <= tj_rank(in[0]); i--) fits = broadcasts(mask, i, tj_dim(in[0], i));
	return fits ? NULL
	            : tj_fail(TJ_ERR_SHAPE, name, "[...,places of q,places of k], or sizes of 1",
	                      "the mask does not broadcast to the scores");
}

/* Heads of q for each head of k and v; 0: the leading axes do not fit. */
static int64_t groups_of(tj_tensor *const *in)
{
	const int rank = tj_rank(in[0]);
	for (int i = 0; i < rank - 2; i++) {
		const int64_t q = tj_dim(in[0], i), k = tj_dim(in[1], i);
		if (tj_dim(in[2], i) != k || (q != k && (i != rank - 3 || k < 1 || q % k))) return 0;
	}
	const int64_t heads = rank < 3 ? 1 : tj_dim(in[1], -3);
	return rank < 3 || !heads ? 1 : tj_dim(in[0], -3) / heads;
}

/* ---- how it is computed ---- */
/* Bytes of a row of the scores of one head. */
static int64_t row_bytes(tj_tensor *q, tj_tensor *k)
{
	return tj_dim(k, -2) * (int64_t)tj_dtype_size(fn_is_narrow(tj_dtype_of(q)) ? TJ_F32 : tj_dtype_of(q));
}

static int64_t heads_of(tj_tensor *q)
{
	int64_t n = 1;
	for (int i = 0; i < tj_rank(q) - 2; i++) n *= tj_dim(q, i);
	return n;
}

/* NULL: the method can be used. */
static const char *lacks(tj_attention method, tj_tensor *q)
{
	if (method == TJ_ATTENTION_LIBRARY) return "no library computes attention";
	return method == TJ_ATTENTION_FUSED && tj_dim(q, -2) < 2 ? "q has fewer than two rows, so there are no blocks of them" : NULL;
}

/* own: what the call asks for; AUTO: the settings do. */
static tj_attention method_of(const char *site, tj_attention own, tj_tensor *q, tj_tensor *k, const char **why)
{
	tj_settings s = { .size = sizeof s };
	const int64_t rows = tj_dim(q, -2), head = rows * row_bytes(q, k);
	const bool got = own != TJ_ATTENTION_AUTO || tj_get_settings(tj_ctx_current(), &s) == TJ_OK;
	if (own != TJ_ATTENTION_AUTO) s.attention = own;
	const bool asked = got && (s.attention == TJ_ATTENTION_MATH || s.attention == TJ_ATTENTION_FUSED);
	if (asked && (*why = lacks(s.attention, q))) return TJ_ATTENTION_MATH;
	if (asked) return *why = own ? "the call asks for it" : "the settings ask for it", s.attention;
	const bool large = rows > 1 && (head > HEAD_BYTES || heads_of(q) * head > 2 * BLOCK_BYTES);
	if (s.attention == TJ_ATTENTION_LIBRARY)
		*why = large ? "no library computes attention; the scores are large"
		             : "no library computes attention; the scores are small";
	else
		*why = large ? "the scores take more than 8 MiB, or more than 1 MiB for a head"
		             : "the scores take at most 8 MiB, and 1 MiB for a head";
	return large ? TJ_ATTENTION_FUSED : TJ_ATTENTION_MATH;
}

/* The rows of q of a block: all of them, or at most half. */
static int64_t block_rows(tj_attention method, tj_tensor *q, tj_tensor *k)
{
	const int64_t rows = tj_dim(q, -2), row = row_bytes(q, k), all = heads_of(q) * row, parts = rows * row > HEAD_BYTES ? 4 : 2,
		      most = (rows + parts - 1) / parts;
	if (method == TJ_ATTENTION_MATH || rows < 2) return rows;
	const int64_t fit = all ? BLOCK_BYTES / all : rows, each = fit < LEAST_ROWS ? LEAST_ROWS : fit;
	return each < most ? each : most;
}

tj_attention tj_attention_method_at(const char *site, tj_tensor *q, tj_tensor *k, const char **why)
{
	static const char name[] = "attention_method";
	const char *unread;
	tj_tensor *in[] = { q, k, k, TJ_END };
	if (misfit(site, name, in, &(tj_attention_opts){ .size = sizeof(tj_attention_opts) })) return TJ_ATTENTION_AUTO;
	return method_of(site, TJ_ATTENTION_AUTO, q, k, why ? why : &unread);
}

bool tj_attention_available_at(const char *site, tj_attention method, tj_tensor *q, tj_tensor *k, const char **why)
{
	static const char name[] = "attention_available";
	const char *unread;
	tj_tensor *in[] = { q, k, k, TJ_END };
	if (!why) why = &unread;
	*why = "an error: tj_check() says which";
	if ((unsigned)method > TJ_ATTENTION_LIBRARY)
		tj_fail_at(site, TJ_ERR_ARG, name, methods, "method is %d", (int)method);
	else if (!misfit(site, name, in, &(tj_attention_opts){ .size = sizeof(tj_attention_opts) })) *why = lacks(method, q);
	return !*why;
}

/* What cuDNN's attention would not take, or that nothing calls it. */
static const char *not_by_library(tj_tensor *const *in, const tj_attention_opts *o)
{
	if (tj_device_of(in[0]) == TJ_CPU) return "the operands are on the CPU: cuDNN computes on NVIDIA GPUs";
	for (int i = 0; i < 3; i++)
		if (!fn_is_narrow(tj_dtype_of(in[i])) || tj_dtype_of(in[i]) != tj_dtype_of(in[0])) return "q, k and v must all be f16, or all bf16";
	if (tj_rank(in[0]) != 4) return "q, k and v must have four axes: examples, heads, places, width";
	if (tj_dim(in[0], -1) % 8 || tj_dim(in[2], -1) % 8) return "the widths must be multiples of 8";
	if (tj_dim(in[0], -1) > 128 || tj_dim(in[2], -1) > 128) return "the widths must be at most 128";
	if (o->mask && tj_dtype_of(o->mask) != TJ_BOOL && tj_dtype_of(o->mask) != tj_dtype_of(in[0]))
		return "the mask must be bool, or have q's dtype";
	if (o->causal && o->causal_offset) return ".causal_offset must be 0";
	return lacks(TJ_ATTENTION_LIBRARY, in[0]);
}

bool tj_attention_can_use_at(const char *site, tj_attention method, tj_tensor *q, tj_tensor *k, tj_tensor *v, const tj_attention_opts *opts,
                             const char **why)
{
	static const char name[] = "attention_can_use";
	const char *unread;
	tj_attention_opts o = { 0 };
	tj_tensor *in[] = { q, k, v, TJ_END };
	if (!why) why = &unread;
	*why = "an error: tj_check() says which";
	if (opts && fn_bad_size(site, "tj_attention_opts", opts->size)) return false;
	if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
	if ((unsigned)method > TJ_ATTENTION_LIBRARY) return tj_fail_at(site, TJ_ERR_ARG, name, methods, "method is %d", (int)method), false;
	if (misfit(site, name, in, &o) || (o.mask && bad_mask(site, name, o.mask, in))) return false;
	if (!groups_of(in)) *why = "the leading axes of q, k and v do not fit";
	else *why = method == TJ_ATTENTION_LIBRARY ? not_by_library(in, &o) : lacks(method, q);
	return !*why;
}

tj_tensor *tj_scaled_dot_product_attention_at(const char *site, tj_tensor *q, tj_tensor *k, tj_tensor *v, const tj_attention_opts *opts)
{
	static const char name[] = "scaled_dot_product_attention";
	NN_OPTIONS(tj_attention_opts, o, opts);
	tj_tensor *in[] = { q, k, v, o.mask, TJ_END }, *y, *bad = misfit(site, name, in, &o);
	if (!bad && o.mask) bad = bad_mask(site, name, o.mask, in);
	if (bad) return bad;
	const int64_t groups = groups_of(in), rows = tj_dim(q, -2), width = tj_dim(q, -1), keys = tj_dim(k, -2);
	o.causal_offset = o.causal_offset < -rows ? -rows : o.causal_offset > keys ? keys : o.causal_offset; /* further on nothing changes */
	if (!groups)
		return tj_fail(
			TJ_ERR_SHAPE, name,
			"all have the same leading axes; heads of q, the axis before the last two, may be a multiple of those of k and v",
			"the leading axes of q, k and v do not fit");
	attention a = { site, o, o.mask != NULL, 0, groups, o.scale != 0 ? o.scale : width ? 1 / sqrt((double)width) : 1 };
	const int64_t each = block_rows(method_of(site, (tj_attention)o.method, q, k, &(const char *){ NULL }), q, k);
	if (each < rows) return in_blocks(&a, in, rows, each);
	if (!o.mask) in[3] = TJ_END;
	block(&y, in, &a);
	return y;
}
