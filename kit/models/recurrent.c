/* SPDX-License-Identifier: MIT */
/* recurrent: RNN, GRU and LSTM, a tj_scan() over the turns; one turn is taken without it. */
#include "kit/models/models.h"

#include <math.h>

enum { DIRECTIONS = 2, ACTS = 3 };
typedef enum kind { RNN, GRU, LSTM } kind;
typedef struct act {
	const char *name;
	double alpha, beta;
} act;

/* One direction of one node. */
typedef struct cell {
	const char *site;
	kind kind;
	tj_weight r;                 /* [gates*H,H] */
	tj_tensor *rb, *p, *lengths; /* its bias [gates*H] or NULL, peepholes [3*H] or NULL, i64[N,1] or NULL */
	int64_t hidden;
	double clip; /* 0: none */
	bool linear_before_reset, input_forget;
	act act[ACTS];
} cell;

static tj_tensor *activated(const cell *c, int k, tj_tensor *x)
{
	const char *site = c->site, *f = c->act[k].name;
	const double a = c->act[k].alpha, b = c->act[k].beta;
	if (c->clip > 0) x = tj_clamp(x, tj_f(-c->clip), tj_f(c->clip));
	if (!strcasecmp(f, "Sigmoid")) return tj_sigmoid(x);
	if (!strcasecmp(f, "Tanh")) return tj_tanh(x);
	if (!strcasecmp(f, "Relu")) return tj_relu(x);
	if (!strcasecmp(f, "LeakyRelu")) return tj_leaky_relu(x, isnan(a) ? 0.01 : a);
	if (!strcasecmp(f, "ThresholdedRelu")) return tj_threshold(x, isnan(a) ? 1 : a, 0);
	if (!strcasecmp(f, "Elu")) return tj_elu(x, isnan(a) ? 1 : a);
	if (!strcasecmp(f, "Softsign")) return tj_softsign(x);
	if (!strcasecmp(f, "Softplus")) return tj_softplus(x, 1, 20);
	if (!strcasecmp(f, "Affine")) return tj_add(tj_mul(x, tj_f(isnan(a) ? 1 : a)), tj_f(isnan(b) ? 0 : b));
	if (!strcasecmp(f, "ScaledTanh")) return tj_mul(tj_tanh(tj_mul(x, tj_f(isnan(b) ? 1 : b))), tj_f(isnan(a) ? 1 : a));
	if (!strcasecmp(f, "HardSigmoid"))
		return tj_clamp(tj_add(tj_mul(x, tj_f(isnan(a) ? 0.2 : a)), tj_f(isnan(b) ? 0.5 : b)), tj_f(0), tj_f(1));
	return tj_fail(TJ_ERR_ARG, "onnx", NULL, "the activation %.40s is not known", f);
}

/* Gate k of [N,gates*H] or of [gates*H]. */
static tj_tensor *gate(const cell *c, tj_tensor *x, int k)
{
	return tj_slice_at(c->site, x, tj_rank(x) - 1, k * c->hidden, (k + 1) * c->hidden, 1);
}

static tj_tensor *product(const cell *c, tj_tensor *h) { return tj_weight_matmul_at(c->site, h, &c->r); }

/* With gates from on, up to the one before `end`, of r. */
static tj_tensor *product_of(const cell *c, tj_tensor *h, int from, int end)
{
	tj_weight w = c->r;
	w.n = (end - from) * c->hidden;
	w.values = tj_slice_at(c->site, w.values, 0, from * c->hidden, end * c->hidden, 1);
	if (w.scale) w.scale = tj_slice_at(c->site, w.scale, 0, from * c->hidden, end * c->hidden, 1);
	return tj_weight_matmul_at(c->site, h, &w);
}

static tj_tensor *biased(const cell *c, tj_tensor *x) { return c->rb ? tj_add_at(c->site, x, c->rb) : x; }

/* x: [N,gates*H], the input times W' with its bias. */
static void lstm(const cell *c, tj_tensor *x, tj_tensor *h, tj_tensor *s, tj_tensor **h_next, tj_tensor **s_next)
{
	const char *site = c->site;
	tj_tensor *g = biased(c, tj_add(x, product(c, h))), *i = gate(c, g, 0), *o = gate(c, g, 1), *f = gate(c, g, 2);
	if (c->p) i = tj_add(i, tj_mul(gate(c, c->p, 0), s)), f = tj_add(f, tj_mul(gate(c, c->p, 2), s));
	i = activated(c, 0, i);
	f = c->input_forget ? tj_sub(tj_f(1), i) : activated(c, 0, f);
	*s_next = tj_add(tj_mul(f, s), tj_mul(i, activated(c, 1, gate(c, g, 3))));
	if (c->p) o = tj_add(o, tj_mul(gate(c, c->p, 1), *s_next));
	*h_next = tj_mul(activated(c, 0, o), activated(c, 2, *s_next));
}

static tj_tensor *gru(const cell *c, tj_tensor *x, tj_tensor *h)
{
	const char *site = c->site;
	const int64_t n = c->hidden;
	tj_tensor *g = tj_add(tj_slice(x, 1, 0, 2 * n, 1), product_of(c, h, 0, 2));
	if (c->rb) g = tj_add(g, tj_slice(c->rb, 0, 0, 2 * n, 1));
	tj_tensor *z = activated(c, 0, gate(c, g, 0)), *r = activated(c, 0, gate(c, g, 1)), *b = c->rb ? gate(c, c->rb, 2) : NULL, *in;
	if (c->linear_before_reset) {
		in = product_of(c, h, 2, 3);
		in = tj_mul(r, b ? tj_add(in, b) : in);
	} else {
		in = product_of(c, tj_mul(r, h), 2, 3);
		in = b ? tj_add(in, b) : in;
	}
	tj_tensor *next = activated(c, 1, tj_add(gate(c, x, 2), in));
	return tj_add(tj_mul(tj_sub(tj_f(1), z), next), tj_mul(z, h));
}

/* in: h, s, time i64[]; then x. out: h, s, time; then y. Examples that are shorter keep their state, and y is 0. */
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cell *c = self;
	const char *site = c->site;
	tj_tensor *h = in[0], *s = in[1], *x = in[3], *h_next, *s_next = s;
	if (c->kind == LSTM)
		lstm(c, x, h, s, &h_next, &s_next);
	else if (c->kind == GRU)
		h_next = gru(c, x, h);
	else
		h_next = activated(c, 0, biased(c, tj_add(x, product(c, h))));
	tj_tensor *y = h_next;
	if (c->lengths) {
		tj_tensor *runs = tj_lt(in[2], c->lengths);
		y = tj_where(runs, h_next, tj_f(0));
		h_next = tj_where(runs, h_next, h);
		s_next = tj_where(runs, s_next, s);
	}
	out[0] = h_next, out[1] = s_next, out[2] = tj_add(in[2], tj_i(1)), out[3] = y;
}

/* x [L,N,gates*H]. With lengths, a reversed sequence has been reversed before. */
static bool sequence(const cell *c, tj_tensor *x, tj_tensor *h, tj_tensor *s, bool reverse, tj_tensor **y, tj_tensor **last)
{
	const char *site = c->site;
	tj_tensor *carry[3], *ys[1] = { NULL }, *time = tj_full(TJ_I64, TJ_0D, tj_i(0));
	if (tj_dim(x, 0) == 1) {
		tj_tensor *const in[] = { h, s, time, tj_select(x, 0, 0) };
		tj_tensor *out[4];
		turn(out, in, (void *)(uintptr_t)c);
		*y = tj_unsqueeze(out[3], 0), last[0] = out[0], last[1] = out[1];
		return !tj_is_poison(*y);
	}
	const tj_status st = tj_scan(carry, ys, 1, turn, TJ_LIST(h, s, time), TJ_LIST(x), (void *)(uintptr_t)c,
	                             TJ_OPTS(tj_scan_opts, .reverse = reverse));
	*y = ys[0], last[0] = carry[0], last[1] = carry[1];
	return st == TJ_OK;
}

/* ---- the node ---- */
static bool activations(ox_call *o, kind k, int direction, act to[ACTS])
{
	static const char *const usual[3][ACTS] = { { "Tanh", "Tanh", "Tanh" },
		                                    { "Sigmoid", "Tanh", "Tanh" },
		                                    { "Sigmoid", "Tanh", "Tanh" } };
	const int each = k == LSTM ? 3 : k == GRU ? 2 : 1;
	const ox_attr *a = ox_attribute(o, "activations"), *alpha = ox_attribute(o, "activation_alpha"),
		      *beta = ox_attribute(o, "activation_beta");
	if (a && a->type != OX_A_STRINGS) a = NULL; /* of a function, where its type is not checked */
	if (a && a->n % each) return ox_fail(o, TJ_ERR_ARG, NULL, "%lld activations", (long long)a->n), false;
	for (int i = 0; i < each; i++) {
		const int64_t at = direction * each + i;
		to[i] = (act){ a && at < a->n ? a->strings[at] : usual[k][i], NAN, NAN };
		if (alpha && alpha->type == OX_A_FLOATS && at < alpha->n) to[i].alpha = (double)alpha->floats[at];
		if (beta && beta->type == OX_A_FLOATS && at < beta->n) to[i].beta = (double)beta->floats[at];
	}
	return true;
}

/* Each example reversed in its own length. */
static tj_tensor *reversed(const char *site, tj_tensor *x, tj_tensor *lengths)
{
	if (!lengths) return tj_flip(x, TJ_AXES(0));
	int64_t dim[TJ_MAX_RANK + 1];
	ox_dims_of(x, dim);
	tj_tensor *t = ox_along(site, tj_arange(TJ_I64, 0, dim[0], 1), 0, 3), *l = tj_reshape(lengths, TJ_SHAPE(1, -1, 1));
	tj_tensor *index = tj_where(tj_lt(t, l), tj_sub(tj_sub(l, t), tj_i(1)), t);
	return tj_gather(x, 0, ox_broadcast_to(site, index, 3, dim));
}

static tj_tensor *part(const char *site, tj_tensor *x, int direction) { return x ? tj_select(x, 0, direction) : NULL; }

/* W or R, input 1 or 2. */
static tj_weight weight_of(ox_call *o, int k, int direction)
{
	const tj_weight *q = o->n->weight[k - 1];
	tj_weight w = q ? *q : (tj_weight){ .transposed = true, .values = ox_t(o, k) };
	w.values = part(o->site, w.values, direction), w.scale = part(o->site, w.scale, direction);
	return w;
}

/* One direction: y [L,N,H] and the last states [N,H]. */
static bool direction(ox_call *o, kind k, int d, bool back, tj_tensor *x, tj_tensor **y, tj_tensor **last)
{
	const char *site = o->site;
	const tj_weight w = weight_of(o, 1, d);
	tj_tensor *b = part(site, ox_t(o, 3), d), *h = ox_t(o, 5), *s = k == LSTM ? ox_t(o, 6) : NULL;
	const bool layout = ox_int(o, "layout", 0);
	cell c = { .site = site,
		   .kind = k,
		   .r = weight_of(o, 2, d),
		   .p = k == LSTM ? part(site, ox_t(o, 7), d) : NULL,
		   .clip = ox_float(o, "clip", 0),
		   .linear_before_reset = ox_int(o, "linear_before_reset", 0),
		   .input_forget = ox_int(o, "input_forget", 0) };
	c.hidden = tj_dim(ox_t(o, 2), 2);
	if (!activations(o, k, d, c.act) || tj_is_poison(c.r.values)) return false;
	const int64_t n = tj_dim(x, 1), rows = tj_dim(w.values, 0);
	tj_tensor *zero = tj_full(tj_dtype_of(x), TJ_SHAPE(n, c.hidden), tj_f(0)),
		  *lengths = ox_t(o, 4) ? tj_cast(ox_t(o, 4), TJ_I64) : NULL;
	if (lengths) c.lengths = tj_reshape(lengths, TJ_SHAPE(n, 1));
	h = h ? tj_select(h, layout, d) : zero, s = s ? tj_select(s, layout, d) : zero;
	x = tj_weight_matmul(x, &w); /* of all turns at once */
	if (b) x = tj_add(x, tj_slice(b, 0, 0, rows, 1)), c.rb = tj_slice(b, 0, rows, 2 * rows, 1);
	if (b && (k != GRU || !c.linear_before_reset)) x = tj_add(x, c.rb), c.rb = NULL;
	const bool moved = back && lengths;
	if (moved) x = reversed(site, x, lengths);
	if (!sequence(&c, x, h, s, back && !moved, y, last)) return false;
	if (moved) *y = reversed(site, *y, lengths);
	return true;
}

static tj_tensor *recurrent(ox_call *o, kind k)
{
	const char *site = o->site, *way = ox_string(o, "direction", "forward");
	tj_tensor *x = ox_t(o, 0), *y[DIRECTIONS + 1], *h[DIRECTIONS + 1], *s[DIRECTIONS + 1];
	const bool layout = ox_int(o, "layout", 0), both = !strcmp(way, "bidirectional");
	const int n = both ? 2 : 1;
	if (tj_rank(x) != 3 || tj_rank(ox_t(o, 1)) != 3 || tj_rank(ox_t(o, 2)) != 3 || tj_dim(ox_t(o, 1), 0) != n)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x, W and R have 3 axes, and W %d directions", n);
	if (layout) x = tj_permute(x, TJ_AXES(1, 0, 2));
	for (int d = 0; d < n; d++) {
		tj_tensor *last[2];
		if (!direction(o, k, d, d || !strcmp(way, "reverse"), x, &y[d], last)) return o->r->failed = true, NULL;
		h[d] = last[0], s[d] = last[1];
	}
	y[n] = h[n] = s[n] = TJ_END;
	tj_tensor *all = tj_stack(y, 1), *hn = tj_stack(h, 0), *sn = k == LSTM && ox_wants(o, 2) ? tj_stack(s, 0) : NULL;
	ox_put(o, 1, layout ? tj_permute(hn, TJ_AXES(1, 0, 2)) : hn);
	if (sn) ox_put(o, 2, layout ? tj_permute(sn, TJ_AXES(1, 0, 2)) : sn);
	return layout ? tj_permute(all, TJ_AXES(2, 0, 1, 3)) : all;
}

tj_tensor *ox_rnn(ox_call *o, const char *site) { return (void)site, recurrent(o, RNN); }
tj_tensor *ox_gru(ox_call *o, const char *site) { return (void)site, recurrent(o, GRU); }
tj_tensor *ox_lstm(ox_call *o, const char *site) { return (void)site, recurrent(o, LSTM); }
