/* SPDX-License-Identifier: MIT */
/* Attention of several heads: projections, positions that turn, and a cache of keys and values for decoding. */
#include "kit/nn/nn.h"

#include <math.h>

void tjnn_attention_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_attention *m, int64_t width, int64_t heads,
                             const tjnn_attention_layer_opts *opts)
{
	NN_OPTIONS(tjnn_attention_layer_opts, o, opts)
	const int64_t kv = o.kv_heads ? o.kv_heads : heads;
	if (heads < 1 || width % heads || kv < 1 || heads % kv || (o.rotary != 0 && width / heads % 2)) {
		tj_fail(TJ_ERR_ARG, "tjnn_attention_layer",
		        "heads divide the width, .kv_heads the heads; with .rotary the width of a head is even",
		        "%s: width %lld, %lld heads, %lld of keys", name, (long long)width, (long long)heads, (long long)kv);
		nn_walk_failed(w);
		return;
	}
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->width = width, m->heads = heads, m->kv_heads = kv, m->rotary = o.rotary;
	const int64_t rows = (heads + 2 * kv) * (width / heads);
	tjnn_enter(w, "%s", name);
	tjnn_param(w, "in_proj_weight", &m->in_proj_weight, TJ_SHAPE(rows, width), tjnn_scaled(TJNN_XAVIER_UNIFORM, 1));
	if (!o.no_bias) tjnn_param(w, "in_proj_bias", &m->in_proj_bias, TJ_SHAPE(rows), tjnn_constant(0));
	nn_linear(site, w, "out_proj", &m->out_proj, width, width, !o.no_bias, tjnn_constant(0));
	tjnn_leave(w);
}

/* ---- positions ---- */
tj_tensor *tjnn_rotary_at(const char *site, tj_tensor *x, tj_tensor *first, double base)
{
	const int64_t places = tj_dim(x, -2), width = tj_dim(x, -1), half = width / 2;
	if (tj_is_poison(x)) return x;
	if (tj_rank(x) < 2 || width % 2) return tj_fail(TJ_ERR_SHAPE, "tjnn_rotary", "[...,places,width]", "the width of pairs is even");
	const tj_device device = tj_device_of(x);
	tj_tensor *i = tj_cast(tj_arange_on(device, TJ_I64, 0, half, 1), TJ_F32);
	tj_tensor *turn = tj_exp(tj_mul(i, tj_f(-2 * log(base) / (double)width)));
	tj_tensor *place = tj_cast(tj_add(tj_arange_on(device, TJ_I64, 0, places, 1), first), TJ_F32);
	tj_tensor *angle = tj_mul(tj_unsqueeze(place, 1), turn); /* [places,half] */
	tj_tensor *c = tj_cast(tj_cos(angle), tj_dtype_of(x)), *s = tj_cast(tj_sin(angle), tj_dtype_of(x));
	tj_tensor *a = tj_slice(x, -1, 0, half, 1), *b = tj_slice(x, -1, half, width, 1);
	return tj_cat(TJ_LIST(tj_sub(tj_mul(a, c), tj_mul(b, s)), tj_add(tj_mul(b, c), tj_mul(a, s))), -1);
}

/* ---- the cache ---- */
tj_status tjnn_kv_cache_open_at(const char *site, tj_ctx *c, tjnn_kv_cache *k, const tjnn_attention *m, int64_t batch, int64_t places)
{
	if (!k) return tj_fail(TJ_ERR_ARG, "tjnn_kv_cache_open", "", "no cache"), TJ_ERR_ARG;
	*k = (tjnn_kv_cache){ 0 };
	if (!m || !m->in_proj_weight) {
		nn_unvisited(site, m, "tjnn_kv_cache_open");
		return TJ_ERR_STATE;
	}
	const tj_device device = tj_device_of(m->in_proj_weight);
	const tj_dtype dtype = tj_dtype_of(m->in_proj_weight);
	const tj_dims shape = TJ_SHAPE(batch, m->kv_heads, places, m->width / m->heads);
	k->k = tj_param_on(c, device, dtype, shape);
	k->v = tj_param_on(c, device, dtype, shape);
	k->length = tj_param_on(c, device, TJ_I64, TJ_0D);
	if (!tj_is_poison(k->k) && !tj_is_poison(k->v) && !tj_is_poison(k->length)) return TJ_OK;
	tjnn_kv_cache_close(k);
	return TJ_ERR_NOMEM;
}

tj_status tjnn_kv_cache_clear_at(const char *site, tjnn_kv_cache *k)
{
	if (k && k->length) return tj_write(k->length, &(int64_t){ 0 }, sizeof(int64_t));
	tj_fail(TJ_ERR_STATE, "tjnn_kv_cache_clear", "tjnn_kv_cache_open() makes its cells", "the cache is not open");
	return TJ_ERR_STATE;
}

void tjnn_kv_cache_close_at(const char *site, tjnn_kv_cache *k)
{
	if (!k) return;
	tj_tensor *const all[] = { k->k, k->v, k->length };
	for (int i = 0; i < 3; i++)
		if (all[i] && !tj_is_poison(all[i])) tj_release(all[i]);
	*k = (tjnn_kv_cache){ 0 };
}

/* Puts k and v behind what is there, and gives all places of both. Returns bool [rows,places]: which of them each row sees. */
static tj_tensor *into_cache(const char *site, tjnn_kv_cache *cache, tj_tensor **k, tj_tensor **v)
{
	const int64_t rows = tj_dim(*k, 2), places = tj_dim(cache->k, 2);
	const tj_device device = tj_device_of(*k);
	tj_tensor *at = tj_add(tj_arange_on(device, TJ_I64, 0, rows, 1), cache->length);
	site = tj_site_for(site, "tjnn_attention_apply", "there are more places than the cache has",
	                   "tjnn_kv_cache_open() takes how many there are; tjnn_kv_cache_clear() begins anew");
	*k = tj_index_copy(cache->k, 2, at, tj_cast(*k, tj_dtype_of(cache->k)));
	*v = tj_index_copy(cache->v, 2, at, tj_cast(*v, tj_dtype_of(cache->v)));
	tj_assign(cache->k, *k);
	tj_assign(cache->v, *v);
	tj_assign(cache->length, tj_add(cache->length, tj_i(rows)));
	return tj_le(tj_arange_on(device, TJ_I64, 0, places, 1), tj_unsqueeze(at, 1));
}

/* ---- apply ---- */
/* [N,L,heads * each] -> [N,heads,L,each] */
static tj_tensor *apart(const char *site, tj_tensor *x, int64_t heads, int64_t each)
{
	return tj_is_poison(x) ? x : tj_transpose(tj_reshape(x, TJ_SHAPE(tj_dim(x, 0), tj_dim(x, 1), heads, each)), 1, 2);
}

/* q, k, v of all heads; of self-attention by one product. */
static void project(const char *site, const tjnn_attention *m, tj_tensor *const *in, tj_tensor **out)
{
	const int64_t each = m->width / m->heads, heads[3] = { m->heads, m->kv_heads, m->kv_heads };
	tj_tensor *all = in[0] == in[1] && in[1] == in[2] ? tj_linear(in[0], m->in_proj_weight, m->in_proj_bias) : NULL;
	int64_t from = 0;
	for (int i = 0; i < 3; i++) {
		const int64_t to = from + heads[i] * each;
		tj_tensor *bias = !all && m->in_proj_bias ? tj_slice(m->in_proj_bias, 0, from, to, 1) : NULL;
		out[i] = apart(site,
		               all ? tj_slice(all, -1, from, to, 1) : tj_linear(in[i], tj_slice(m->in_proj_weight, 0, from, to, 1), bias),
		               heads[i], each);
		from = to;
	}
}

static tj_tensor *mask_of(const char *site, const tjnn_attend *o)
{
	if (!o->padding) return o->mask;
	tj_tensor *real = tj_logical_not(tj_reshape(o->padding, TJ_SHAPE(tj_dim(o->padding, 0), 1, 1, tj_dim(o->padding, 1))));
	if (!o->mask) return real;
	return tj_dtype_of(o->mask) == TJ_BOOL ? tj_logical_and(o->mask, real) : tj_where(real, o->mask, tj_f(-INFINITY));
}

static tj_tensor *bad_cache(const char *site, const tjnn_attention *m, tj_tensor *const *in, const tjnn_kv_cache *k)
{
	if (!k->k || !k->v || !k->length)
		return tj_fail(TJ_ERR_STATE, "tjnn_attention_apply", "tjnn_kv_cache_open() makes its cells", "the cache is not open");
	const int64_t is[3] = { tj_dim(k->k, 0), tj_dim(k->k, 1), tj_dim(k->k, 3) };
	const int64_t needed[3] = { tj_dim(in[1], 0), m->kv_heads, m->width / m->heads };
	if (!memcmp(is, needed, sizeof is)) return NULL;
	return tj_fail(TJ_ERR_SHAPE, "tjnn_attention_apply", "tjnn_kv_cache_open() takes the layer and the number of examples",
	               "the cache is for %lld examples, %lld heads of %lld; %lld, %lld, %lld are needed", (long long)is[0], (long long)is[1],
	               (long long)is[2], (long long)needed[0], (long long)needed[1], (long long)needed[2]);
}

static tj_tensor *bad_operand(const char *site, const tjnn_attention *m, tj_tensor *const *in, const tjnn_attend *o)
{
	static const char *const what[] = { "q", "k", "v" };
	if (!m || !m->in_proj_weight) return nn_unvisited(site, m, "tjnn_attention_apply");
	for (int i = 0; i < 3; i++) {
		if (!in[i] || tj_is_poison(in[i]))
			return in[i] ? in[i] : tj_fail(TJ_ERR_ARG, "tjnn_attention_apply", "", "%s is NULL", what[i]);
		if (tj_rank(in[i]) != 3 || tj_dim(in[i], 2) != m->width)
			return tj_fail(TJ_ERR_SHAPE, "tjnn_attention_apply", "[N,places,width]",
			               "%s has %d axes, the last of size %lld; the width is %lld", what[i], tj_rank(in[i]),
			               (long long)tj_dim(in[i], -1), (long long)m->width);
	}
	if (o->padding && (tj_rank(o->padding) != 2 || tj_dtype_of(o->padding) != TJ_BOOL))
		return tj_fail(TJ_ERR_SHAPE, "tjnn_attention_apply", "", ".padding is bool [N,S]");
	if (o->cache && (o->mask || o->padding))
		return tj_fail(TJ_ERR_ARG, "tjnn_attention_apply", "", ".cache goes with neither .mask nor .padding");
	return o->cache ? bad_cache(site, m, in, o->cache) : NULL;
}

tj_tensor *tjnn_attention_apply_at(const char *site, const tjnn_attention *m, tj_tensor *q, tj_tensor *k, tj_tensor *v,
                                   const tjnn_attend *opts)
{
	if (opts && kit_bad_size(site, "tjnn_attend", opts->size)) return tj_fail(TJ_ERR_ARG, "tjnn_attention_apply", "", "wrong options");
	KIT_COPIED(tjnn_attend, o, opts);
	tj_tensor *in[3] = { q, k, v }, *bad = bad_operand(site, m, in, &o), *x[3];
	if (bad) return bad;
	tj_tensor *first = o.cache ? o.cache->length : tj_i(0);
	project(site, m, in, x);
	for (int i = 0; m->rotary != 0 && i < 2; i++) x[i] = tjnn_rotary(x[i], first, m->rotary);
	tj_attention_opts how = { .size = sizeof how, .mask = mask_of(site, &o), .causal = o.causal && !o.cache, .dropout = o.dropout };
	if (o.cache) how.mask = into_cache(site, o.cache, &x[1], &x[2]);
	tj_tensor *y = tj_transpose(tj_scaled_dot_product_attention(x[0], x[1], x[2], &how), 1, 2);
	if (tj_is_poison(y)) return y;
	return tjnn_linear_apply(&m->out_proj, tj_reshape(y, TJ_SHAPE(tj_dim(q, 0), tj_dim(q, 1), m->width)));
}
