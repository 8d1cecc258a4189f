/* SPDX-License-Identifier: MIT */
/* Gradients through values of earlier segments. Each program is written once; one function reads values between its ops, and the other does
 * not. Both give the same bits, in both modes, call after call. */
#include "test/kit.h"

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

/* How the program that runs now looks at values: not at all, by tj_item(), by tj_truth(). */
enum { BLIND, ITEMS, TRUTHS, LOOKS };
typedef struct program { tj_body *body; int nin, nout; int look; tj_tensor *cell; } program;

static bool look(const program *p, tj_tensor *t)
{
	if (p->look == ITEMS) return tj_item(total(t)) > -1e30;
	return p->look == TRUTHS ? tj_truth(tj_gt(total(t), tj_f(-1e30))) : true;
}

/* ---- programs ---- */
static void chain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_square(in[0]);
	look(self, h);
	h = tj_exp(tj_mul(h, in[1]));
	look(self, h);
	h = tj_tanh(h);
	tj_grad(out, total(h), TJ_LIST(in[0], in[1]), NULL);
}

/* The value itself is read first, as a loss that is printed. */
static void loss(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_sigmoid(tj_mul(in[0], in[1])), *y = tj_mean(tj_square(tj_sub(h, in[0])), TJ_ALL, false);
	look(self, y);
	tj_grad(out, y, TJ_LIST(in[0], in[1], h), NULL);
}

/* Values on the way that are asked for: of one segment, of another one, and one that hides another. */
static void on_the_way(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = tj_mul(in[0], tj_f(2)), *u = tj_mul(w, in[1]);
	look(self, u);
	tj_tensor *v = tj_exp(u);
	look(self, v);
	tj_grad(out, total(tj_mul(v, w)), TJ_LIST(w, u, v, in[0]), NULL);
}

/* Second order: the first gradient is computed behind one boundary, and read. */
static void second(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(tj_square(in[0]), in[1]), *g;
	look(self, h);
	tj_grad(&g, total(tj_mul(h, in[0])), TJ_LIST(in[0]), NULL);
	look(self, g);
	tj_grad(out, total(tj_square(g)), TJ_LIST(in[0], in[1]), NULL);
	look(self, out[0]);
	tj_grad(out + 2, total(tj_sin(out[1])), TJ_LIST(in[0], in[1], h), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* The first request ends at a value of an older segment, the second one begins there. */
static void behind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_sin(tj_mul(in[0], in[1]));
	look(self, h);
	tj_tensor *y = tj_cos(h);
	look(self, y);
	tj_grad(out, total(y), TJ_LIST(h), NULL);
	tj_grad(out + 1, total(h), TJ_LIST(in[0], in[1]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* Two requests in one segment: the second one needs more of the earlier ones. */
static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = tj_exp(in[0]), *b = tj_sin(in[1]);
	look(self, a);
	tj_tensor *c = tj_mul(a, b);
	look(self, c);
	tj_grad(out, total(tj_square(c)), TJ_LIST(c, a), NULL);
	tj_grad(out + 2, total(tj_mul(out[1], b)), TJ_LIST(in[0], in[1]), NULL);
}

/* Views, reductions with indices, casts, constants, a product, and values that are not floats. */
static void ops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *m = tj_reshape(in[0], TJ_SHAPE(2, 2)), *t = tj_permute(m, TJ_AXES(1, 0)), *two = tj_full(TJ_F32, TJ_0D, tj_f(2));
	look(self, t);
	tj_tensor *p = tj_matmul(t, m), *q = tj_pow(p, two), *mask = tj_gt(p, tj_f(0));
	look(self, q);
	tj_tensor *s = tj_softmax(tj_where(mask, q, t), 1), *x = tj_amax(s, TJ_AXES(0), false), *d = tj_cast(tj_mul(x, x), TJ_F64);
	look(self, d);
	tj_tensor *y = tj_add(total(tj_cast(d, TJ_F32)), total(tj_mul(tj_expand(tj_slice(in[1], 0, 1, 2, 1), TJ_SHAPE(4)), in[0])));
	tj_grad(out, y, TJ_LIST(in[0], in[1], m), NULL);
}

/* Dropout: the mask of the gradient is the one of the value. */
static void drawn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *keep = tj_lt(tj_uniform(TJ_F32, TJ_SHAPE(4)), tj_f(0.5)), *h = tj_where(keep, tj_mul(in[0], in[1]), tj_f(0));
	tj_tensor *noise = tj_normal(TJ_F32, TJ_SHAPE(4));
	look(self, h);
	tj_grad(out, total(tj_mul(tj_square(h), noise)), TJ_LIST(in[0], in[1]), NULL);
}

static void half(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], self); }
static void bend(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sin(in[0]); }
static void turn(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_tanh(tj_mul(in[0], self)), out[1] = out[0]; }

/* Control flow in an earlier segment, with what its callbacks capture. */
static void flow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *h, *ys, *w = tj_exp(in[1]);
	look(self, w);
	tj_cond(&y, 1, tj_gt(total(in[0]), tj_f(0)), half, bend, TJ_LIST(in[0]), w);
	tj_scan(&h, &ys, 1, turn, TJ_LIST(y), TJ_NONE, w, TJ_OPTS(tj_scan_opts, .length = 3));
	look(self, ys);
	tj_grad(out, tj_add(total(tj_square(ys)), total(h)), TJ_LIST(in[0], in[1], y), NULL);
}

static void row(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(total(tj_square(in[0])), total(self)); }
static void forth(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_floor(in[0]); }
static void back(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[2], tj_square(in[0])); }

/* Examples, gradients of the user's own, what is stopped. */
static void marks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *z, *m = tj_reshape(in[0], TJ_SHAPE(2, 2)), *k = tj_exp(in[1]);
	look(self, k);
	tj_vmap(&y, 1, row, TJ_LIST(m), k, NULL);
	tj_custom_grad(&z, 1, forth, back, TJ_LIST(in[1]), NULL);
	tj_tensor *s = tj_stop_gradient(tj_mul(in[0], k));
	look(self, z);
	tj_grad(out, tj_add(total(tj_square(y)), total(tj_mul(tj_mul(z, s), in[0]))), TJ_LIST(in[0], in[1]), NULL);
}

/* Only tj_stop_gradient() reaches the tensor: its gradient is 0. */
static void stopped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(in[0], in[1]), *s = tj_stop_gradient(tj_exp(h));
	look(self, s);
	tj_grad(out, total(tj_mul(s, in[0])), TJ_LIST(in[0], in[1]), NULL);
}

/* A derivative along tangents. */
static void along(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(tj_sin(in[0]), in[1]);
	look(self, h);
	out[0] = tj_jvp(tj_exp(h), TJ_LIST(in[0], in[1]), TJ_LIST(in[1], in[0]), TJ_UNUSED_ERROR);
}

/* The cell is read, assigned and read again; each version has its own gradient. */
static void versions(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program *p = self;
	tj_tensor *h = tj_mul(p->cell, in[0]), *v;
	look(p, h);
	tj_grad(out, total(tj_square(h)), TJ_LIST(p->cell), NULL);
	tj_assign(p->cell, v = tj_mul(tj_exp(h), in[1]));
	look(p, out[0]);
	tj_tensor *y = total(tj_mul(tj_square(p->cell), h));
	look(p, y);
	tj_grad(out + 1, y, TJ_LIST(p->cell, in[0], in[1]), NULL);
	tj_assign(p->cell, in[0]);
}

/* Steps of descent: the gradient of each turn is asked for in the segment behind it, which also computes the next loss. */
static void descent(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = in[1];
	for (int i = 0; i < 5; i++) {
		tj_tensor *g, *l = total(tj_square(tj_sub(tj_mul(w, in[0]), tj_f(1))));
		look(self, l);
		tj_grad(&g, l, TJ_LIST(w), NULL);
		w = tj_sub(w, tj_mul(g, tj_f(0.0625)));
	}
	out[0] = w;
	tj_grad(out + 1, total(w), TJ_LIST(in[1]), NULL);
}

/* Values of popped scopes. */
static void scopes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program *p = self;
	tj_ctx *c = tj_ctx_current();
	tj_tensor *h = in[0];
	for (int i = 0; i < 4; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *k = tj_mul(in[1], tj_f(0.5 + i));
		look(p, k);
		h = tj_escape(tj_sin(tj_mul(tj_exp(k), h)));
		look(p, h);
		tj_pop(s);
	}
	tj_grad(out, total(h), TJ_LIST(in[0], in[1]), NULL);
}

static void inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(in[0], in[1]);
	look(self, h);
	out[0] = tj_exp(h);
	tj_grad(out + 1, total(out[0]), TJ_LIST(in[0]), NULL);
}

static void calls(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program *p = self;
	static tj_fn *f;
	tj_ctx *c = tj_ctx_current();
	tj_tensor *y[2];
	if (!in) f = NULL;
	if (!in) return;
	if (!f) f = tj_compile(c, inner, p, TJ_OPTS(tj_compile_opts, .name = "inner", .nin = 2, .nout = 2));
	if (tj_call(f, y, TJ_LIST(tj_sin(in[0]), in[1])) != TJ_OK) return;
	look(p, y[1]);
	tj_grad(out, total(tj_mul(y[0], y[1])), TJ_LIST(in[0], in[1]), NULL);
}

/* What a mask selects, between two looks, and selected once more; second order. */
static void selects(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(tj_sin(in[0]), in[1]);
	look(self, total(h));
	tj_tensor *v = tj_exp(tj_masked_select(h, tj_gt(in[0], tj_f(0))));
	look(self, total(v));
	tj_tensor *l = tj_add(total(tj_mul(tj_masked_select(v, tj_gt(v, tj_f(1))), total(in[1]))), total(v));
	tj_grad(out, l, TJ_LIST(in[0], in[1]), NULL);
	look(self, l);
	tj_grad(out + 2, total(tj_mul(out[0], in[1])), TJ_LIST(in[0], in[1]), NULL);
}

/* ---- both ways ---- */
enum { CALLS = 6, MOST = 5 };
static void run(program *p, int mode, const char *numerics, float result[][MOST][4])
{
	float v[2][4] = { { 0.5f, -1, 0.25f, 1.5f }, { 0.75f, 0.5f, -0.5f, 1 } };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = mode + 1));
	tj_tensor *cell = p->cell = tj_param(c, TJ_F32, TJ_SHAPE(4));
	tj_fn *f =
		tj_compile(c, p->body, p,
	                   TJ_OPTS(tj_compile_opts, .name = "program", .nin = p->nin, .nout = p->nout, .mode = mode ? TJ_DIRECT : TJ_VERIFY,
	                           .state = TJ_VARS(&p->cell), .autocast = numerics ? TJ_BF16 : 0));
	tj_write(cell, v[0], sizeof v[0]);
	for (int i = 0; i < CALLS; i++) {
		tj_tensor *out[MOST];
		v[0][1] += 0.125f;
		if (tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4), v[0]), tj_from_data(c, TJ_F32, TJ_SHAPE(4), v[1]))) != TJ_OK) kit_ok(c);
		for (int k = 0; k < p->nout; k++) memcpy(result[i][k], tj_data(out[k]), (size_t)tj_numel(out[k]) * sizeof(float));
	}
	kit_ok(c);
	if (mode && p->look == TRUTHS && p->body != scopes && p->body != calls && p->body != selects) assert_true(kit_stats(f).direct > 0);
	if (mode == 0) assert_true(kit_stats(f).plans <= 20);
	if (p->body == calls) calls(NULL, NULL, NULL);
	tj_close(c);
}

static void both_ways(void **s)
{
	static const program all[] = { { chain, 2, 2, 0, NULL },    { loss, 2, 3, 0, NULL },    { on_the_way, 2, 4, 0, NULL },
		                       { second, 2, 5, 0, NULL },   { twice, 2, 4, 0, NULL },   { behind, 2, 3, 0, NULL },
		                       { ops, 2, 3, 0, NULL },      { drawn, 2, 2, 0, NULL },   { flow, 2, 3, 0, NULL },
		                       { marks, 2, 2, 0, NULL },    { stopped, 2, 2, 0, NULL }, { along, 2, 1, 0, NULL },
		                       { versions, 2, 4, 0, NULL }, { descent, 2, 2, 0, NULL }, { scopes, 2, 2, 0, NULL },
		                       { calls, 2, 2, 0, NULL },    { selects, 2, 4, 0, NULL } };
	(void)s;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (int way = 0; way < 6; way++) {
			static float want[CALLS][MOST][4], got[CALLS][MOST][4];
			program p = all[i];
			const char *numerics = way >= 4 ? "bf16" : NULL;
			memset(want, 0, sizeof want);
			memset(got, 0, sizeof got);
			p.look = BLIND;
			run(&p, 0, numerics, want);
			p.look = 1 + way % 2;
			run(&p, way / 2 % 2, numerics, got);
			for (int call = 0; call < CALLS; call++)
				for (int k = 0; k < p.nout; k++)
					if (memcmp(want[call][k], got[call][k], sizeof want[call][k]))
						fail_msg("program %zu, way %d, call %d, result %d: %g is not %g", i, way, call, k,
						         (double)got[call][k][0], (double)want[call][k][0]);
		}
}

/* ---- loops and branches that depend on data ---- */
/* Squares and shrinks until the sum is small; the branch depends on the value. */
static char way[32];
static void turns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0], *w = in[1];
	(void)self;
	size_t n = 0;
	while (tj_item(total(h)) > 1) {
		way[n++] = tj_truth(tj_gt(total(h), tj_f(10))) ? '0' : '1';
		h = way[n - 1] == '0' ? tj_mul(h, tj_mul(w, w)) : tj_mul(tj_sin(h), w);
	}
	way[n] = 0;
	out[0] = h;
	tj_grad(out + 1, total(tj_square(h)), TJ_LIST(in[0], w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* The same turns, written out: '0' is the first branch. */
static void written_out(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0], *w = in[1];
	(void)self;
	for (const char *p = way; *p; p++) h = *p == '0' ? tj_mul(h, tj_mul(w, w)) : tj_mul(tj_sin(h), w);
	out[0] = h;
	tj_grad(out + 1, total(tj_square(h)), TJ_LIST(in[0], w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* Each number of turns has a plan of its own, and all of them are replayed. */
static void loops(void **s)
{
	static const float all[] = { 0.25f, 1.5f, 8, 12, 100, 40 };
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
	tj_fn *f = kit_fn(c, "turns", turns, NULL, 2, 3);
	uint64_t recordings = 0;
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
			tj_tensor *got[3], *want[3];
			tj_list in = TJ_LIST(F32(c, all[i], all[i] / 8), F32(c, 0.5f, 0.625f));
			assert_int_equal(tj_call(f, got, in), TJ_OK);
			tj_fn *g = kit_fn(c, "written", written_out, NULL, 2, 3);
			assert_int_equal(tj_call(g, want, in), TJ_OK);
			kit_ok(c);
			for (int k = 0; k < 3; k++) assert_memory_equal(tj_data(got[k]), tj_data(want[k]), 2 * sizeof(float));
			tj_fn_free(g);
			if (round == 1 && i == 5) recordings = kit_stats(f).recordings + kit_stats(f).recomputed + kit_stats(f).plans;
		}
	assert_int_equal(kit_stats(f).recordings + kit_stats(f).recomputed + kit_stats(f).plans, recordings);
	tj_close(c);
}

/* Trains for as many turns, and reads the loss before its gradient in each: the plans of all turns but the first ones are the same. */
static void trains(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const int64_t turns = tj_arg_i(0);
	for (int i = 0; i < turns; i++) {
		tj_tensor *g, *y = total(tj_square(tj_sub(tj_tanh(tj_mul(in[0], self)), tj_f(0.25))));
		tj_item(y);
		tj_grad(&g, y, TJ_LIST(self), NULL);
		tj_assign(self, tj_sub(self, tj_mul(g, tj_f(0.125))));
	}
	out[0] = tj_mul(self, tj_f(1));
}

static void trained(void **s)
{
	(void)s;
	float by_turn[2], at_once[2];
	uint64_t plans[2];
	for (int once = 0; once < 2; once++) {
		tj_ctx *c = kit_open();
		tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(2)), *out[1];
		tj_write(w, ((float[]){ 0.5f, -1 }), 8);
		tj_fn *f = kit_fn(c, "trains", trains, w, 1, 1);
		for (int k = 0; k < (once ? 1 : 40); k++)
			assert_int_equal(tj_call_ex(f, out, TJ_LIST(F32(c, 1, 2)), TJ_SCALARS(TJ_I(once ? 40 : 1))), TJ_OK);
		kit_ok(c);
		memcpy(once ? at_once : by_turn, tj_data(out[0]), 8);
		plans[once] = kit_stats(f).plans;
		tj_close(c);
	}
	assert_memory_equal(by_turn, at_once, 8);
	assert_in_range(plans[1], 1, 12);
}

/* ---- what is refused ---- */
static void assigned(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *h = tj_mul(w, in[0]);
	tj_assign(w, tj_neg(w));
	tj_item(total(h));
	tj_grad(out, total(tj_square(h)), TJ_LIST(w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void assigned_later(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *h = tj_mul(w, in[0]);
	tj_item(total(h));
	tj_assign(w, tj_neg(h));
	tj_grad(out, total(tj_square(h)), TJ_LIST(w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void assigned_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *other = tj_neg(in[0]);
	tj_assign(w, tj_mul(w, in[0]));
	tj_tensor *h = tj_exp(w);
	tj_item(total(h));
	tj_assign(w, other);
	tj_item(total(tj_square(h)));
	tj_grad(out, total(tj_square(h)), TJ_LIST(w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void unused(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_exp(in[0]);
	(void)self;
	tj_item(total(h));
	tj_grad(out, total(h), TJ_LIST(in[0], tj_square(in[0])), NULL);
}

/* So many segments that the earliest ones are dropped. */
static void long_loop(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0];
	tj_ctx *c = tj_ctx_current();
	(void)self;
	for (int i = 0; i < 100; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *k = tj_sin(h), *l;
		tj_item(total(k));
		l = tj_cos(k);
		tj_item(total(l));
		h = tj_escape(tj_mul(l, l));
		tj_pop(s);
	}
	tj_grad(out, total(h), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* What was stopped needs none of the earlier ones; nor does a value of the loop that is asked for. */
static void long_loop_stopped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0], *k = NULL;
	(void)self;
	for (int i = 0; i < 100; i++) {
		h = tj_sin(i == 98 ? tj_stop_gradient(h) : h);
		tj_item(total(h));
		k = i == 90 ? h : k;
	}
	tj_tensor *last = tj_mul(h, in[0]);
	tj_grad(out, total(last), TJ_LIST(in[0]), NULL);
	tj_grad(out + 1, total(h), TJ_LIST(k), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void met_once(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_exp(in[0]), *v = tj_square(tj_unique(h));
	(void)self;
	tj_item(total(v));
	tj_grad(out, total(v), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

/* A size that depends on a size: the way to w goes round both. */
static void selected_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *v = tj_masked_select(in[0], tj_gt(in[0], tj_f(0)));
	v = tj_masked_select(v, tj_gt(v, tj_f(1)));
	(void)self;
	tj_grad(out, tj_mul(total(v), total(in[1])), TJ_LIST(in[1]), NULL);
}

static void met_before(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *v = tj_unique(tj_square(in[0]));
	(void)self;
	tj_grad(out, total(tj_masked_select(v, tj_gt(v, tj_f(1)))), TJ_LIST(in[0]), NULL);
}

static void met_argument(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, tj_mul(total(in[0]), total(tj_unique(in[0]))), TJ_LIST(in[0]), NULL);
}

/* The gradient of sin in one turn needs what it needs in the turn before; that of the gradients needs another slice, too. */
static void turns_alike(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *g[4];
	(void)self;
	for (int i = 0; i < 4; i++) {
		tj_tensor *x = tj_mul(tj_select(in[0], 0, i), tj_i(1)), *y = tj_square(tj_square(x));
		tj_truth(tj_gt(x, tj_f(0)));
		tj_grad(&g[i], y, TJ_LIST(x), NULL);
	}
	tj_grad(out, total(tj_stack(TJ_LIST(g[0], g[1], g[2], g[3]), 0)), TJ_LIST(in[0]), NULL);
}

static void alike(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "alike", turns_alike, NULL, 1, 1);
	for (int call = 0; call < 2; call++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3, 4))), 12, 48, 108, 192);
	kit_ok(c);
	tj_close(c);
}

/* Two tensors of a callback that are computed alike, and a gradient by one of them: 2 x^2. */
static void by_one_of_two(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *u = tj_mul(in[0], tj_f(1)), *v = tj_mul(in[0], tj_f(1));
	(void)self;
	tj_grad(out, total(tj_mul(tj_square(u), v)), TJ_LIST(u), NULL);
}

static void equal_in_a_callback(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r;
	if (self) tj_scan(&r, NULL, 0, by_one_of_two, TJ_LIST(in[0]), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 1));
	else tj_cond(&r, 1, tj_gt(total(in[0]), tj_f(0)), by_one_of_two, by_one_of_two, TJ_LIST(in[0]), NULL);
	tj_item(total(r));
	tj_grad(out, total(r), TJ_LIST(in[0]), NULL);
}

static void equal_tensors(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int scan = 0; scan < 2; scan++)
		assert_f32(tj_call1(kit_fn(c, "equal", equal_in_a_callback, scan ? c : NULL, 1, 1), TJ_LIST(F32(c, 3, 1))), 12, 4);
	kit_ok(c);
	tj_close(c);
}

static void refusals(void **s)
{
	static const struct { tj_body *body; tj_status code; const char *message;
	} all[] = {
		{ assigned, TJ_ERR_STATE, "then assigned at test/unit/test_earlier.c:" },
		{ assigned_later, TJ_ERR_STATE, "then assigned at test/unit/test_earlier.c:" },
		{ assigned_twice, TJ_ERR_STATE, "then assigned at test/unit/test_earlier.c:" },
		{ unused, TJ_ERR_ARG, "does not depend on tensor 1" },
		{ long_loop, TJ_ERR_STATE, "were released" },
		{ met_once, TJ_ERR_STATE, "which has no gradient" },
		{ met_before, TJ_ERR_STATE, "which has no gradient" },
		{ met_argument, TJ_ERR_STATE, "which has no gradient" },
	};
	(void)s;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[2];
		if (tj_call(kit_fn(c, "refused", all[i].body, tj_param(c, TJ_F32, TJ_SHAPE(2)), 1, 2 - (all[i].body != unused)), out,
		            TJ_LIST(F32(c, 1, 2))) == TJ_OK)
			fail_msg("case %zu is not refused", i);
		kit_error(c, all[i].code, all[i].message);
		tj_close(c);
	}
}

static void far(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[2];
	assert_int_equal(tj_call(kit_fn(c, "far", long_loop_stopped, NULL, 1, 2), out, TJ_LIST(F32(c, 0, 0))), TJ_OK);
	kit_ok(c);
	assert_f32(out[0], 0, 0);
	assert_f32(out[1], 0, 0);
	tj_close(c);
}

static void past_sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[1];
	tj_fn *f = kit_fn(c, "selected_twice", selected_twice, NULL, 2, 1);
	assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 2, 3), F32(c, 1, 2))), TJ_OK);
	kit_ok(c);
	assert_f32(out[0], 5, 5);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(both_ways), cmocka_unit_test(loops),         cmocka_unit_test(trained),
		                            cmocka_unit_test(alike),     cmocka_unit_test(equal_tensors), cmocka_unit_test(refusals),
		                            cmocka_unit_test(far),       cmocka_unit_test(past_sizes) };
	KIT_RUN(tests);
}
