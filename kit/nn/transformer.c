/* SPDX-License-Identifier: MIT */
/* Blocks of transformers: Vaswani and others, "Attention Is All You Need", 2017; with the norms first: Xiong and others, 2020. */
#include "kit/nn/nn.h"

/* What both blocks have; pointers into one of them. */
typedef struct parts {
	const tjnn_block_opts *o;
	const tjnn_linear *up, *down;
	bool training;
} parts;

static bool options(const char *site, tjnn_walk *w, const tjnn_block_opts *opts, tjnn_block_opts *to)
{
	KIT_COPIED(tjnn_block_opts, o, opts);
	if (!opts) tj_fail(TJ_ERR_ARG, "tjnn_block_layer", "set .width and .heads", "no options");
	if (!opts || kit_bad_size(site, "tjnn_block_opts", opts->size)) {
		nn_walk_failed(w);
		return false;
	}
	if (!(o.dropout >= 0 && o.dropout < 1)) {
		tj_fail(TJ_ERR_ARG, "tjnn_block_layer", "", "a dropout of %g: it is from 0 to below 1", o.dropout);
		nn_walk_failed(w);
		return false;
	}
	if (!o.hidden) o.hidden = 4 * o.width;
	*to = o;
	return true;
}

static void attention(const char *site, tjnn_walk *w, const char *name, tjnn_attention *m, const tjnn_block_opts *o)
{
	tjnn_attention_layer(w, name, m, o->width, o->heads,
	                     TJ_OPTS(tjnn_attention_layer_opts, .kv_heads = o->kv_heads, .rotary = o->rotary, .no_bias = o->no_bias));
}

static void norm(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, const tjnn_block_opts *o)
{
	tjnn_layer_norm_layer(w, name, m, TJ_SHAPE(o->width), !o->no_bias);
	if (o->eps != 0) m->eps = o->eps;
}

void tjnn_encoder_block_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_encoder_block *m, const tjnn_block_opts *opts)
{
	if (!nn_walk_struct(site, w, name, m, sizeof *m) || !options(site, w, opts, &m->opts)) return;
	tjnn_enter(w, "%s", name);
	attention(site, w, "self_attn", &m->self_attn, &m->opts);
	tjnn_linear_layer(w, "linear1", &m->linear1, m->opts.width, m->opts.hidden, !m->opts.no_bias);
	tjnn_linear_layer(w, "linear2", &m->linear2, m->opts.hidden, m->opts.width, !m->opts.no_bias);
	norm(site, w, "norm1", &m->norm1, &m->opts);
	norm(site, w, "norm2", &m->norm2, &m->opts);
	tjnn_leave(w);
}

void tjnn_decoder_block_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_decoder_block *m, const tjnn_block_opts *opts)
{
	if (!nn_walk_struct(site, w, name, m, sizeof *m) || !options(site, w, opts, &m->opts)) return;
	tjnn_block_opts plain = m->opts; /* positions of the memory are the encoder's */
	plain.rotary = 0;
	tjnn_enter(w, "%s", name);
	attention(site, w, "self_attn", &m->self_attn, &m->opts);
	attention(site, w, "multihead_attn", &m->multihead_attn, &plain);
	tjnn_linear_layer(w, "linear1", &m->linear1, m->opts.width, m->opts.hidden, !m->opts.no_bias);
	tjnn_linear_layer(w, "linear2", &m->linear2, m->opts.hidden, m->opts.width, !m->opts.no_bias);
	norm(site, w, "norm1", &m->norm1, &m->opts);
	norm(site, w, "norm2", &m->norm2, &m->opts);
	norm(site, w, "norm3", &m->norm3, &m->opts);
	tjnn_leave(w);
}

/* ---- apply ---- */
static tj_tensor *dropped(const char *site, const parts *p, tj_tensor *x)
{
	return p->training && p->o->dropout > 0 ? tj_dropout(x, p->o->dropout, true) : x;
}

static tj_tensor *feed_forward(const char *site, const parts *p, tj_tensor *x)
{
	x = tjnn_linear_apply(p->up, x);
	x = dropped(site, p, p->o->gelu ? tj_gelu(x) : tj_relu(x));
	return dropped(site, p, tjnn_linear_apply(p->down, x));
}

static tj_tensor *attend(const char *site, const parts *p, const tjnn_attention *m, tj_tensor *x, tj_tensor *to, const tjnn_attend *how)
{
	KIT_COPIED(tjnn_attend, o, how);
	o.dropout = p->training ? p->o->dropout : 0;
	return dropped(site, p, tjnn_attention_apply(m, x, to, to, &o));
}

tj_tensor *tjnn_encoder_block_apply_at(const char *site, const tjnn_encoder_block *m, tj_tensor *x, const tjnn_attend *how, bool training)
{
	if (!m || !m->linear1.weight) return nn_unvisited(site, m, "tjnn_encoder_block_apply");
	const parts p = { &m->opts, &m->linear1, &m->linear2, training };
	if (m->opts.norm_first) {
		tj_tensor *n = tjnn_norm_apply(&m->norm1, x, training);
		x = tj_add(x, attend(site, &p, &m->self_attn, n, n, how));
		return tj_add(x, feed_forward(site, &p, tjnn_norm_apply(&m->norm2, x, training)));
	}
	x = tjnn_norm_apply(&m->norm1, tj_add(x, attend(site, &p, &m->self_attn, x, x, how)), training);
	return tjnn_norm_apply(&m->norm2, tj_add(x, feed_forward(site, &p, x)), training);
}

tj_tensor *tjnn_decoder_block_apply_at(const char *site, const tjnn_decoder_block *m, tj_tensor *x, tj_tensor *memory,
                                       const tjnn_attend *how, const tjnn_attend *of_memory, bool training)
{
	if (!m || !m->linear1.weight) return nn_unvisited(site, m, "tjnn_decoder_block_apply");
	const parts p = { &m->opts, &m->linear1, &m->linear2, training };
	if (m->opts.norm_first) {
		tj_tensor *n = tjnn_norm_apply(&m->norm1, x, training);
		x = tj_add(x, attend(site, &p, &m->self_attn, n, n, how));
		x = tj_add(x, attend(site, &p, &m->multihead_attn, tjnn_norm_apply(&m->norm2, x, training), memory, of_memory));
		return tj_add(x, feed_forward(site, &p, tjnn_norm_apply(&m->norm3, x, training)));
	}
	x = tjnn_norm_apply(&m->norm1, tj_add(x, attend(site, &p, &m->self_attn, x, x, how)), training);
	x = tjnn_norm_apply(&m->norm2, tj_add(x, attend(site, &p, &m->multihead_attn, x, memory, of_memory)), training);
	return tjnn_norm_apply(&m->norm3, tj_add(x, feed_forward(site, &p, x)), training);
}
