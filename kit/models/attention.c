/* SPDX-License-Identifier: MIT */
/* attention: attention in its kinds, and rotary embeddings. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)

/* [N,L,heads*E] as [N,heads,L,E] */
static tj_tensor *heads_apart(const char *site, tj_tensor *x, int64_t heads)
{
	if (tj_rank(x) != 3 || heads < 1) return x;
	return tj_permute(tj_reshape(x, TJ_SHAPE(tj_dim(x, 0), tj_dim(x, 1), heads, tj_dim(x, 2) / heads)), TJ_AXES(0, 2, 1, 3));
}

static tj_tensor *heads_together(const char *site, tj_tensor *x)
{
	return tj_reshape(tj_permute(x, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(tj_dim(x, 0), tj_dim(x, 2), -1));
}

/* Which keys each row sees, and what is added to its scores; both broadcast to [N,H,L,S], and may be NULL. */
typedef struct mask {
	tj_tensor *allowed, *add;
} mask;

static void restrict_to(const char *site, mask *m, tj_tensor *allowed)
{
	m->allowed = m->allowed ? tj_logical_and(m->allowed, allowed) : allowed;
}

static void causal_and_window(ox_call *o, mask *m, int64_t rows, int64_t keys, tj_tensor *offset)
{
	const char *site = o->site;
	const int64_t left = ox_int(o, "left_window_size", -1), right = ox_int(o, "right_window_size", -1);
	tj_tensor *i = tj_reshape(tj_arange(TJ_I64, 0, rows, 1), TJ_SHAPE(rows, 1)), *j = tj_arange(TJ_I64, 0, keys, 1);
	tj_tensor *behind = tj_sub(tj_add(i, offset), j); /* how many places the key is behind the row */
	if (ox_int(o, "is_causal", 0)) restrict_to(site, m, tj_ge(behind, tj_i(0)));
	if (left >= 0) restrict_to(site, m, tj_le(behind, tj_i(left)));
	if (right >= 0) restrict_to(site, m, tj_ge(behind, tj_i(-right)));
}

static mask masks(ox_call *o, tj_tensor *q, tj_tensor *k, int64_t past)
{
	const char *site = o->site;
	mask m = { NULL, NULL };
	tj_tensor *given = ox_t(o, 3), *real = ox_t(o, 6);
	const int64_t rows = tj_dim(q, 2), keys = tj_dim(k, 2);
	if (given) {
		const int64_t more = keys - tj_dim(given, -1);
		const bool boolean = tj_dtype_of(given) == TJ_BOOL;
		if (more > 0 && boolean)
			given = tj_cast(tj_pad(tj_cast(given, TJ_U8), TJ_SHAPE(0, more), TJ_PAD_CONSTANT, tj_i(0)), TJ_BOOL);
		else if (more > 0)
			given = tj_pad(given, TJ_SHAPE(0, more), TJ_PAD_CONSTANT, tj_f(-INFINITY));
		if (boolean)
			m.allowed = given;
		else
			m.add = given;
	}
	if (real) real = tj_reshape(tj_cast(real, TJ_I64), TJ_SHAPE(-1, 1, 1, 1));
	causal_and_window(o, &m, rows, keys, real && !past ? tj_sub(real, tj_i(rows)) : tj_i(past));
	if (real) restrict_to(site, &m, tj_lt(tj_arange(TJ_I64, 0, keys, 1), real));
	return m;
}

static tj_tensor *biased(const char *site, tj_tensor *scores, const mask *m)
{
	if (m->add) scores = tj_add(scores, ox_like(site, m->add, scores));
	return m->allowed ? tj_where(m->allowed, scores, ox_scalar(site, tj_dtype_of(scores), -INFINITY)) : scores;
}

/* Rows that see no key at all have probability 0 everywhere. */
static tj_tensor *without_blind_rows(const char *site, tj_tensor *p, const mask *m)
{
	if (!m->add && !m->allowed) return p;
	tj_tensor *bias = m->add ? m->add : ox_scalar(site, tj_dtype_of(p), 0);
	bias = m->allowed ? tj_where(m->allowed, bias, ox_scalar(site, tj_dtype_of(bias), -INFINITY)) : bias;
	tj_tensor *blind = tj_all(tj_isneginf(bias), TJ_AXES(-1), true);
	return tj_where(blind, ox_scalar(site, tj_dtype_of(p), 0), p);
}

static tj_tensor *repeated(const char *site, tj_tensor *x, int64_t heads)
{
	const int64_t own = tj_dim(x, 1);
	return own > 0 && own != heads && heads % own == 0 ? tj_repeat_interleave(x, heads / own, 1) : x;
}

static tj_tensor *step_by_step(ox_call *o, tj_tensor *q, tj_tensor *k, tj_tensor *v, const mask *m, double scale)
{
	const char *site = o->site;
	const double cap = ox_float(o, "softcap", 0);
	const int64_t mode = ox_int(o, "qk_matmul_output_mode", 0), precision = ox_int(o, "softmax_precision", 0);
	const tj_dtype dtype = tj_dtype_of(q);
	tj_tensor *s = ox_scalar(site, dtype, sqrt(scale)), *out;
	k = repeated(site, k, tj_dim(q, 1)), v = repeated(site, v, tj_dim(q, 1));
	tj_tensor *scores = tj_matmul(tj_mul(q, s), ox_transposed(site, tj_mul(k, s)));
	if (cap > 0) scores = tj_mul(tj_tanh(tj_div(scores, tj_f(cap))), tj_f(cap));
	out = scores;
	scores = biased(site, scores, m);
	if (mode == 2) out = scores;
	tj_dtype wide;
	if (precision && ox_dtype(precision, &wide)) scores = tj_cast(scores, wide);
	tj_tensor *p = ox_like(site, without_blind_rows(site, tj_softmax(scores, -1), m), q);
	ox_put(o, 3, mode == 3 ? p : out);
	return tj_matmul(p, v);
}

tj_tensor *ox_attention(ox_call *o, const char *site)
{
	tj_tensor *q = X, *k = ox_t(o, 1), *v = ox_t(o, 2), *past_k = ox_t(o, 4), *past_v = ox_t(o, 5), *y;
	const bool flat = tj_rank(q) == 3;
	const int64_t heads = ox_int(o, "kv_num_heads", 0);
	q = heads_apart(site, q, ox_int(o, "q_num_heads", 0)), k = heads_apart(site, k, heads), v = heads_apart(site, v, heads);
	if (tj_rank(q) != 4 || tj_rank(k) != 4 || tj_rank(v) != 4)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "q, k and v are not [N,heads,L,E]");
	const int64_t past = past_k ? tj_dim(past_k, 2) : 0;
	if (past_k) k = tj_cat(TJ_LIST(past_k, k), 2);
	if (past_v) v = tj_cat(TJ_LIST(past_v, v), 2);
	ox_put(o, 1, k);
	ox_put(o, 2, v);
	const mask m = masks(o, q, k, past);
	const double given = ox_float(o, "scale", 0), scale = given != 0 ? given : 1 / sqrt((double)tj_dim(q, 3));
	/* One mask, and nothing that is asked of the scores: the attention of tjit, which never has all scores. */
	if (ox_wants(o, 3) || ox_float(o, "softcap", 0) > 0 || ox_attribute(o, "softmax_precision") || tj_dtype_of(q) != TJ_F32 ||
	    (m.add && m.allowed))
		y = step_by_step(o, q, k, v, &m, scale);
	else
		y = tj_scaled_dot_product_attention(q, k, v,
		                                    TJ_OPTS(tj_attention_opts, .mask = m.allowed ? m.allowed : m.add, .scale = scale));
	return flat ? heads_together(site, y) : y;
}

/* A graph of the node that takes and gives one tensor. */
static tj_tensor *modified(ox_call *o, const char *name, tj_tensor *x)
{
	const ox_attr *a = ox_attribute(o, name);
	if (!a) return x;
	if (!a->g || a->g->nin != 1 || a->g->nout != 1) return ox_fail(o, TJ_ERR_ARG, NULL, "%s does not take and give one tensor", name);
	o->r->v[a->g->in[0].value] = (ox_value){ .t = x };
	return ox_walk(o->r, a->g) ? ox_tensor_of(o->r, &o->r->v[a->g->out[0].value], o->site)
	                           : ox_fail(o, TJ_ERR_STATE, NULL, "%s failed", name);
}

tj_tensor *ox_flex_attention(ox_call *o, const char *site)
{
	tj_tensor *q = X, *k = ox_t(o, 1), *v = ox_t(o, 2);
	tj_dtype wide = tj_dtype_of(q) == TJ_F64 ? TJ_F64 : TJ_F32;
	if (tj_rank(q) != 4 || tj_rank(k) != 4 || tj_rank(v) != 4)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "q, k and v are not [N,heads,L,E]");
	const double given = ox_float(o, "scale", 0), scale = given != 0 ? given : 1 / sqrt((double)tj_dim(q, 3));
	tj_tensor *s = ox_scalar(site, tj_dtype_of(q), sqrt(scale));
	k = repeated(site, k, tj_dim(q, 1)), v = repeated(site, v, tj_dim(q, 1));
	ox_dtype(ox_int(o, "softmax_precision", 0), &wide);
	tj_tensor *scores = modified(o, "score_mod", tj_cast(tj_matmul(tj_mul(q, s), ox_transposed(site, tj_mul(k, s))), wide));
	if (!scores) return NULL;
	tj_tensor *p = modified(o, "prob_mod", tj_softmax(tj_cast(scores, wide), -1));
	return p ? ox_like(site, tj_matmul(tj_cast(p, wide), tj_cast(v, wide)), v) : NULL;
}

/* ---- rotary embeddings ---- */
tj_tensor *ox_rotary_embedding(ox_call *o, const char *site)
{
	tj_tensor *x = X, *cosine = ox_t(o, 1), *sine = ox_t(o, 2), *at = ox_t(o, 3);
	const bool flat = tj_rank(x) == 3, between = ox_int(o, "interleaved", 0);
	x = heads_apart(site, x, ox_int(o, "num_heads", 0));
	if (tj_rank(x) != 4) return ox_fail(o, TJ_ERR_SHAPE, "num_heads says how a third axis is split", "x is not [N,heads,L,E]");
	const int64_t n = tj_dim(x, 0), all = tj_dim(x, 3), part = ox_int(o, "rotary_embedding_dim", 0), turned = part ? part : all,
		      half = turned / 2;
	if (at) cosine = tj_index(cosine, TJ_AXES(0), TJ_LIST(at)), sine = tj_index(sine, TJ_AXES(0), TJ_LIST(at));
	cosine = tj_unsqueeze(cosine, 1), sine = tj_unsqueeze(sine, 1); /* [N,1,L,half] */
	tj_tensor *r = tj_slice(x, 3, 0, turned, 1);
	tj_tensor *a = between ? tj_slice(r, 3, 0, TJ_END_DIM, 2) : tj_slice(r, 3, 0, half, 1);
	tj_tensor *b = between ? tj_slice(r, 3, 1, TJ_END_DIM, 2) : tj_slice(r, 3, half, turned, 1);
	tj_tensor *real = tj_sub(tj_mul(cosine, a), tj_mul(sine, b)), *imaginary = tj_add(tj_mul(sine, a), tj_mul(cosine, b));
	tj_tensor *y = between ? tj_reshape(tj_stack(TJ_LIST(real, imaginary), -1), TJ_SHAPE(n, tj_dim(x, 1), tj_dim(x, 2), turned))
	                       : tj_cat(TJ_LIST(real, imaginary), 3);
	if (turned < all) y = tj_cat(TJ_LIST(y, tj_slice(x, 3, turned, all, 1)), 3);
	return flat ? heads_together(site, y) : y;
}

/* ---- linear attention: a state [N,H,K,V] that each place decays, corrects and adds to ---- */
typedef struct linear {
	const char *site;
	bool gating, delta;
	int64_t heads;
	double scale;
} linear;

/* in: state; q [N,Hq,K], k [N,H,K], v [N,H,V], decay [N,H,1 or K], beta [N,1 or H,1] */
static void place(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const linear *l = self;
	const char *site = l->site;
	tj_tensor *state = in[0], *q = in[1], *k = in[2], *v = in[3];
	if (l->gating) state = tj_mul(state, tj_unsqueeze(tj_exp(in[4]), -1));
	if (l->delta) v = tj_mul(in[5], tj_sub(v, tj_sum(tj_mul(state, tj_unsqueeze(k, -1)), TJ_AXES(2), false)));
	state = tj_add(state, tj_mul(tj_unsqueeze(k, -1), tj_unsqueeze(v, -2)));
	tj_tensor *seen = repeated(site, state, l->heads);
	out[0] = state;
	out[1] = tj_mul(tj_sum(tj_mul(seen, tj_unsqueeze(q, -1)), TJ_AXES(2), false), tj_f(l->scale));
}

/* [N,T,heads*E] as [T,N,heads,E], f32 */
static tj_tensor *by_place(const char *site, tj_tensor *x, int64_t heads)
{
	tj_tensor *y = tj_reshape(tj_cast(x, TJ_F32), TJ_SHAPE(tj_dim(x, 0), tj_dim(x, 1), heads, -1));
	return tj_permute(y, TJ_AXES(1, 0, 2, 3));
}

tj_tensor *ox_linear_attention(ox_call *o, const char *site)
{
	tj_tensor *q = X, *k = ox_t(o, 1), *v = ox_t(o, 2), *past = ox_t(o, 3), *decay = ox_t(o, 4), *beta = ox_t(o, 5), *state, *y;
	const int64_t hq = ox_int(o, "q_num_heads", 0), h = ox_int(o, "kv_num_heads", 0);
	const char *rule = ox_string(o, "update_rule", "gated_delta");
	if (tj_rank(q) != 3 || tj_rank(k) != 3 || tj_rank(v) != 3 || hq < 1 || h < 1 || hq % h)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "q, k and v are not [N,T,heads*E], or their heads do not fit");
	linear l = { site, !strncmp(rule, "gated", 5), strstr(rule, "delta") != NULL, hq, ox_float(o, "scale", 0) };
	const int64_t n = tj_dim(q, 0), t = tj_dim(q, 1), dk = tj_dim(q, 2) / hq, dv = tj_dim(v, 2) / h;
	if ((l.gating && !decay) || (l.delta && !beta))
		return ox_fail(o, TJ_ERR_ARG, NULL, "update_rule %.40s needs a decay or a beta", rule);
	if (l.scale == 0) l.scale = 1 / sqrt((double)dk);
	state = past ? tj_cast(past, TJ_F32) : tj_full(TJ_F32, TJ_SHAPE(n, h, dk, dv), tj_f(0));
	tj_tensor *none = tj_full(TJ_F32, TJ_SHAPE(t, n, 1, 1), tj_f(0));
	tj_tensor *d = l.gating ? by_place(site, decay, h) : none;
	tj_tensor *b = l.delta ? by_place(site, beta, tj_dim(beta, 2)) : none;
	if (tj_scan(&state, &y, 1, place, TJ_LIST(state), TJ_LIST(by_place(site, q, hq), by_place(site, k, h), by_place(site, v, h), d, b),
	            &l, NULL) != TJ_OK)
		return o->r->failed = true, NULL;
	ox_put(o, 1, ox_like(site, state, past ? past : q));
	return ox_like(site, tj_reshape(tj_permute(y, TJ_AXES(1, 0, 2, 3)), TJ_SHAPE(n, t, hq * dv)), q);
}
