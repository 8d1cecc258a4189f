/* SPDX-License-Identifier: MIT */
/* Recurrent networks. What the gates get from x is one product for all steps; what they get from h is in the loop. */
#include "kit/nn/nn.h"

#include <stdio.h>

static int gates_of(tjnn_cell_kind kind) { return kind == TJNN_LSTM ? 4 : kind == TJNN_GRU ? 3 : 1; }

void tjnn_recurrent_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_recurrent *m, tjnn_cell_kind kind, int64_t in,
                             int64_t hidden, const tjnn_recurrent_opts *opts)
{
	static const char *const what[] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
	NN_OPTIONS(tjnn_recurrent_opts, o, opts)
	if (!o.layers) o.layers = 1;
	const int64_t sides = o.both ? 2 : 1, rows = gates_of(kind) * hidden;
	if (o.layers < 1 || o.layers > TJNN_MOST_CELLS / sides || in < 1 || hidden < 1 || (unsigned)kind > TJNN_LSTM) {
		tj_fail(TJ_ERR_ARG, "tjnn_recurrent_layer", "in and hidden are 1 or more", "%s: %lld layers; there can be 1 to %lld", name,
		        (long long)o.layers, (long long)(TJNN_MOST_CELLS / sides));
		nn_walk_failed(w);
		return;
	}
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->kind = kind, m->in = in, m->hidden = hidden, m->opts = o;
	tjnn_enter(w, "%s", name);
	for (int64_t i = 0; i < o.layers * sides; i++) {
		tj_cell *cell = &m->cell[i];
		tj_tensor **const var[] = { &cell->w_ih, &cell->w_hh, &cell->b_ih, &cell->b_hh };
		const int64_t columns = i < sides ? in : sides * hidden;
		for (int k = 0; k < (o.no_bias ? 2 : 4); k++) {
			const char *full = tjnn_name(w, "%s_l%d%s", what[k], (int)(i / sides), i % sides ? "_reverse" : "");
			tjnn_param(w, full, var[k], k > 1 ? TJ_SHAPE(rows) : TJ_SHAPE(rows, k ? hidden : columns),
			           nn_within((double)hidden));
		}
	}
	tjnn_leave(w);
}

/* ---- one step ---- */
typedef struct scan {
	const tjnn_recurrent *m;
	const tj_cell *cell;
	const char *site;
} scan;

static tj_tensor *gate(const char *site, const tjnn_recurrent *m, tj_tensor *all, int i)
{
	return tj_slice(all, -1, i * m->hidden, (i + 1) * m->hidden, 1);
}

/* in: h, for LSTM c; the gates from x [N,gates * hidden]. out: the same, then h as the result. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const scan *s = self;
	const tjnn_recurrent *m = s->m;
	const char *site = s->site;
	tj_tensor *h = in[0], *x = in[m->kind == TJNN_LSTM ? 2 : 1], *r = tj_linear(h, s->cell->w_hh, s->cell->b_hh);
	switch (m->kind) {
	case TJNN_RNN_TANH: h = tj_tanh(tj_add(x, r)); break;
	case TJNN_RNN_RELU: h = tj_relu(tj_add(x, r)); break;
	case TJNN_GRU: {
		tj_tensor *reset = tj_sigmoid(tj_add(gate(site, m, x, 0), gate(site, m, r, 0)));
		tj_tensor *keep = tj_sigmoid(tj_add(gate(site, m, x, 1), gate(site, m, r, 1)));
		tj_tensor *next = tj_tanh(tj_add(gate(site, m, x, 2), tj_mul(reset, gate(site, m, r, 2))));
		h = tj_add(tj_mul(tj_sub(tj_f(1), keep), next), tj_mul(keep, h));
		break;
	}
	case TJNN_LSTM: {
		tj_tensor *all = tj_add(x, r);
		tj_tensor *input = tj_sigmoid(gate(site, m, all, 0)), *forget = tj_sigmoid(gate(site, m, all, 1));
		tj_tensor *cell = tj_tanh(gate(site, m, all, 2)), *output = tj_sigmoid(gate(site, m, all, 3));
		out[1] = tj_add(tj_mul(forget, in[1]), tj_mul(input, cell));
		h = tj_mul(output, tj_tanh(out[1]));
		break;
	}
	}
	out[0] = h;
	out[m->kind == TJNN_LSTM ? 2 : 1] = h;
}

/* ---- apply ---- */
/* x [T,N,..] through one layer in one direction; h and c become the last ones. */
static tj_tensor *one_way(const char *site, const tjnn_recurrent *m, const tj_cell *cell, tj_tensor *x, tj_tensor **h, tj_tensor **c,
                          bool reverse)
{
	scan s = { m, cell, site };
	tj_tensor *y, *last[2], *gates = tj_linear(x, cell->w_ih, cell->b_ih);
	tj_list init = m->kind == TJNN_LSTM ? TJ_LIST(*h, *c) : TJ_LIST(*h);
	if (tj_scan(last, &y, 1, step, init, TJ_LIST(gates), &s, TJ_OPTS(tj_scan_opts, .reverse = reverse)) != TJ_OK) return y;
	*h = last[0];
	if (m->kind == TJNN_LSTM) *c = last[1];
	return y;
}

static tj_tensor *state(const char *site, const tjnn_recurrent *m, tj_tensor *all, int64_t i, tj_tensor *x)
{
	return all ? tj_select(all, 0, i) : tj_full_on(tj_device_of(x), tj_dtype_of(x), TJ_SHAPE(tj_dim(x, 1), m->hidden), tj_f(0));
}

static tj_tensor *bad_carry(const char *site, const tjnn_recurrent *m, tj_tensor *x, const tjnn_carry *carry)
{
	const int64_t needed[3] = { m->opts.layers * (m->opts.both ? 2 : 1), tj_dim(x, m->opts.time_first ? 1 : 0), m->hidden };
	tj_tensor *const all[2] = { carry->h, m->kind == TJNN_LSTM ? carry->c : NULL };
	for (int k = 0; k < 2; k++) {
		tj_tensor *t = all[k];
		if (!t || tj_is_poison(t)) continue;
		if (tj_rank(t) == 3 && tj_dim(t, 0) == needed[0] && tj_dim(t, 1) == needed[1] && tj_dim(t, 2) == needed[2]) continue;
		return tj_fail(TJ_ERR_SHAPE, "tjnn_recurrent_apply", "[layers,N,hidden]",
		               "%s of the carry has %d axes, of sizes %lld, %lld, %lld; %lld, %lld, %lld are needed", k ? "c" : "h", tj_rank(t),
		               (long long)tj_dim(t, 0), (long long)tj_dim(t, 1), (long long)tj_dim(t, 2), (long long)needed[0],
		               (long long)needed[1], (long long)needed[2]);
	}
	return NULL;
}

static tj_tensor *bad_operand(const char *site, const tjnn_recurrent *m, tj_tensor *x, const tjnn_carry *carry)
{
	if (!m || !m->cell[0].w_ih) return nn_unvisited(site, m, "tjnn_recurrent_apply");
	if (!x || tj_is_poison(x)) return x ? x : tj_fail(TJ_ERR_ARG, "tjnn_recurrent_apply", "", "x is NULL");
	if (tj_rank(x) == 3 && tj_dim(x, 2) == m->in) return carry ? bad_carry(site, m, x, carry) : NULL;
	return tj_fail(TJ_ERR_SHAPE, "tjnn_recurrent_apply", m->opts.time_first ? "[T,N,in]" : "[N,T,in]",
	               "x has %d axes, the last of size %lld; %lld is needed", tj_rank(x), (long long)tj_dim(x, -1), (long long)m->in);
}

tj_tensor *tjnn_recurrent_apply_at(const char *site, const tjnn_recurrent *m, tj_tensor *x, tjnn_carry *carry, bool training)
{
	tj_tensor *bad = bad_operand(site, m, x, carry), *h[TJNN_MOST_CELLS + 1], *c[TJNN_MOST_CELLS + 1];
	if (bad) return bad;
	const int64_t sides = m->opts.both ? 2 : 1, cells = m->opts.layers * sides;
	if (!m->opts.time_first) x = tj_transpose(x, 0, 1);
	for (int64_t i = 0; i < cells; i += sides) {
		tj_tensor *y[2];
		for (int64_t k = 0; k < sides; k++) {
			h[i + k] = state(site, m, carry ? carry->h : NULL, i + k, x);
			c[i + k] = m->kind == TJNN_LSTM ? state(site, m, carry ? carry->c : NULL, i + k, x) : NULL;
			y[k] = one_way(site, m, &m->cell[i + k], x, &h[i + k], &c[i + k], k == 1);
		}
		x = sides == 2 ? tj_cat(TJ_LIST(y[0], y[1]), -1) : y[0];
		if (training && m->opts.dropout > 0 && i + sides < cells) x = tj_dropout(x, m->opts.dropout, true);
	}
	h[cells] = c[cells] = TJ_END;
	if (carry) carry->h = tj_stack(h, 0);
	if (carry && m->kind == TJNN_LSTM) carry->c = tj_stack(c, 0);
	return m->opts.time_first ? x : tj_transpose(x, 0, 1);
}
