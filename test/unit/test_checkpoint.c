/* SPDX-License-Identifier: MIT */
/* tj_checkpoint(): the same bits as without, less memory; nested, in and around other transforms; what is refused. */
#include "test/kit.h"

#include <math.h>
#include <stdlib.h>

enum { DEEP = 24, N = 64, ROWS = 48 };

typedef struct net {
	tj_tensor *w[DEEP];
	int each;                /* layers in a checkpoint; 0: none */
	int nested;              /* layers in a checkpoint inside each */
	int from, to;
	int how;
} net;


/* ---- a deep network ---- */
static void layers(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *n = self;
	tj_tensor *x = in[0];
	if (n->nested && n->to - n->from > n->nested) {
		for (net part = *n; part.from < n->to; part.from = part.to) {
			part.to = part.from + n->nested < n->to ? part.from + n->nested : n->to;
			tj_checkpoint(&x, 1, layers, TJ_LIST(x), &part);
		}
	} else {
		for (int i = n->from; i < n->to; i++) x = tj_tanh(tj_matmul(x, n->w[i]));
	}
	out[0] = x;
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	net n = *(net *)self;
	tj_tensor *x = in[0], *wrt[DEEP + 1], *grad[DEEP];
	for (int i = 0; i < DEEP; i++) wrt[i] = n.w[i] = in[1 + i];
	wrt[DEEP] = TJ_END;
	n.to = DEEP;
	if (!n.each) {
		n.nested = 0;
		layers(&x, &x, &n);
	}
	for (n.from = 0; n.each && n.from < DEEP; n.from = n.to) {
		n.to = n.from + n.each < DEEP ? n.from + n.each : DEEP;
		tj_checkpoint(&x, 1, layers, TJ_LIST(x), &n);
	}
	out[DEEP] = tj_mean(tj_square(x), TJ_ALL, false);
	tj_grad(grad, out[DEEP], wrt, NULL);
	for (int i = 0; i < DEEP; i++) out[i] = grad[i];
}

typedef struct result { float v[DEEP][N * N], loss; int64_t peak, kernels; } result;

static void run_net(net n, tj_mode mode, result *r)
{
	tj_ctx *c = kit_open();
	tj_tensor *in[DEEP + 2], *out[DEEP + 1];
	tj_fn *f = tj_compile(c, step, &n, TJ_OPTS(tj_compile_opts, .name = "step", .nin = DEEP + 1, .nout = DEEP + 1, .mode = mode));
	tj_seed(c, 7);
	for (int i = 0; i <= DEEP; i++) in[i] = tj_mul(tj_normal(TJ_F32, TJ_SHAPE(i ? N : ROWS, N)), tj_f(i ? 1.2 / 8 : 1));
	in[DEEP + 1] = TJ_END;
	for (int call = 0; call < 2; call++) {
		assert_int_equal(tj_call(f, out, in), TJ_OK);
		kit_ok(c);
	}
	for (int i = 0; i < DEEP; i++) assert_int_equal(tj_read(out[i], r->v[i], sizeof r->v[i]), TJ_OK);
	assert_int_equal(tj_read(out[DEEP], &r->loss, sizeof r->loss), TJ_OK);
	tj_stats s = kit_stats(f);
	r->peak = (int64_t)s.peak_bytes;
	r->kernels = (int64_t)s.kernels;
	tj_close(c);
}

static void same_bits_less_memory(void **state)
{
	static result plain, with;
	setenv("TJ_THREADS", "2", 1); /* one thread goes through the rows of many small products at once, and keeps all that they compute */
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		run_net((net){ 0 }, mode ? TJ_DIRECT : TJ_VERIFY, &plain);
		const net all[] = { { .each = 4 }, { .each = 5 }, { .each = 12, .nested = 3 }, { .each = 24, .nested = 8 } };
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
			run_net(all[i], mode ? TJ_DIRECT : TJ_VERIFY, &with);
			assert_memory_equal(with.v, plain.v, sizeof plain.v);
			assert_memory_equal(&with.loss, &plain.loss, sizeof plain.loss);
			print_message("%d layers in a checkpoint, %d in one inside: peak %lld KiB, without %lld KiB; kernels %lld, %lld\n",
			              all[i].each, all[i].nested, (long long)with.peak / 1024, (long long)plain.peak / 1024,
			              (long long)with.kernels, (long long)plain.kernels);
			assert_true(with.peak * 3 < plain.peak * 2);
			assert_true(with.kernels > plain.kernels);
		}
	}
}

/* ---- one body in many places: its values and gradients are those that it has without a checkpoint ---- */
typedef enum place { ALONE, TWICE, IN_SCAN, IN_COND, IN_VMAP, IN_CUSTOM, SECOND, ALONG, PER_EXAMPLE, READ, PLACES } place;
static const char *const place_name[] = { "alone",
	                                  "twice",
	                                  "in a scan",
	                                  "in a cond",
	                                  "in vmap",
	                                  "in custom_grad's forward",
	                                  "second order",
	                                  "along tangents",
	                                  "gradients by example",
	                                  "read before the gradient" };

typedef struct shared { tj_tensor *w, *v, *index; tj_body *body; place at; bool with; } shared;

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

/* Bodies: x [3] to out[0] of [3]; out[1] is any float of one element. */
static void plain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *h = tj_tanh(tj_matmul(s->w, in[0]));
	out[0] = tj_mul(h, tj_exp(tj_mul(h, s->v)));
	out[1] = total(tj_mul(h, in[0]));
}

static void same_operand(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = in[0], out[1] = tj_full(TJ_F64, TJ_0D, tj_f(2));
}
static void one_result(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = out[1] = in[0], out[0] = tj_mul(tj_sin(in[0]), ((const shared *)self)->v), out[1] = total(out[0]);
}

static void with_indices(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *at, *most = tj_max_with_indices(tj_mul(s->w, in[0]), 1, false, &at);
	out[0] = tj_mul(tj_gather(in[0], 0, s->index), tj_exp(most));
	out[1] = total(tj_gather(tj_square(in[0]), 0, at));
}

static void with_noise(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *keep = tj_lt(tj_uniform(TJ_F64, TJ_SHAPE(3)), tj_f(0.5));
	out[0] = tj_where(keep, tj_exp(tj_mul(in[0], s->v)), tj_f(0));
	out[1] = total(tj_square(out[0]));
}

static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_tanh(tj_add(in[0], tj_mul(in[1], ((const shared *)self)->v)));
}
static void with_scan(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_scan(out, NULL, 0, turn, TJ_LIST(in[0]), TJ_LIST(s->w), self, NULL);
	out[1] = total(tj_sin(out[0]));
}

static void yes(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], ((const shared *)self)->v); }
static void no(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_exp(in[0]); }
static void with_cond(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_cond(out, 1, tj_gt(total(in[0]), tj_f(0)), yes, no, TJ_LIST(in[0]), self);
	out[1] = total(tj_sin(out[0]));
}

static void rounds(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_round(in[0]); }
static void passes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[2], tj_cos(in[0])); }
static void with_custom(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *y, *x = tj_mul(in[0], s->v);
	tj_custom_grad(&y, 1, rounds, passes, TJ_LIST(x), NULL);
	out[0] = tj_mul(y, in[0]);
	out[1] = total(tj_mul(y, s->v));
}

static void with_gradient(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *g;
	tj_grad(&g, total(tj_exp(tj_mul(in[0], s->v))), TJ_LIST(in[0]), NULL);
	out[0] = tj_sin(g);
	out[1] = total(tj_mul(g, in[0]));
}

static void element(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = total(tj_tanh(tj_mul(in[0], ((const shared *)self)->v)));
}
static void with_vmap(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const shared *s = self;
	tj_tensor *each;
	tj_vmap(&each, 1, element, TJ_LIST(tj_mul(s->w, in[0])), self, NULL);
	out[0] = tj_mul(each, in[0]);
	out[1] = total(each);
}

static void nests(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = tj_sin(in[0]);
	tj_checkpoint(out, 2, plain, TJ_LIST(x), self);
	out[0] = tj_mul(out[0], x);
}

static tj_body *const bodies[] = { plain,     same_operand, one_result,    with_indices, with_noise, with_scan,
	                           with_cond, with_custom,  with_gradient, with_vmap,    nests };
static const char *const body_name[] = { "plain",     "same_operand", "one_result",    "with_indices", "with_noise", "with_scan",
	                                 "with_cond", "with_custom",  "with_gradient", "with_vmap",    "nests" };

static tj_tensor *value(shared *s, tj_tensor *x, tj_tensor **more)
{
	tj_tensor *out[2];
	if (s->with) tj_checkpoint(out, 2, s->body, TJ_LIST(x), s);
	else s->body(out, (tj_tensor *[]){ x, TJ_END }, s);
	*more = out[1];
	return out[0];
}

static tj_tensor *once(shared *s, tj_tensor *x)
{
	tj_tensor *more, *y = value(s, x, &more);
	return tj_add(total(tj_square(y)), more);
}

static void one_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *more, *y = value(self, tj_add(in[0], in[1]), &more);
	out[0] = tj_tanh(y);
	out[1] = more;
}

static void one_side(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = once(self, in[0]); }
static void other_side(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = total(in[0]); }
static void by_example(tj_tensor **out, tj_tensor *const *in, void *self) { tj_grad(out, once(self, in[0]), TJ_LIST(in[0]), NULL); }
static void of_loss(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[2], tj_cos(in[0])); }

static tj_tensor *loss(shared *s, tj_tensor *x)
{
	tj_tensor *out[2], *g;
	switch (s->at) {
	case TWICE: return tj_add(once(s, tj_tanh(x)), once(s, x));
	case IN_SCAN:
		tj_scan(out, out + 1, 1, one_turn, TJ_LIST(x), TJ_LIST(s->w), s, NULL);
		return tj_add(total(out[0]), total(out[1]));
	case IN_COND:
		tj_cond(out, 1, tj_gt(total(x), tj_f(-99)), one_side, other_side, TJ_LIST(x), s);
		return out[0];
	case IN_VMAP:
		tj_vmap(out, 1, one_side, TJ_LIST(tj_mul(s->w, x)), s, NULL);
		return total(out[0]);
	case PER_EXAMPLE:
		tj_vmap(out, 1, by_example, TJ_LIST(tj_mul(s->w, x)), s, NULL);
		return total(tj_square(out[0]));
	case IN_CUSTOM:
		tj_custom_grad(out, 1, one_side, of_loss, TJ_LIST(x), s);
		return total(out[0]);
	case SECOND:
		tj_grad(&g, once(s, x), TJ_LIST(x), NULL);
		return total(tj_square(g));
	case READ:
		g = once(s, x);
		return tj_truth(tj_gt(g, tj_f(-99))) ? tj_sin(g) : g;
	case ALONG: return tj_jvp(once(s, x), TJ_LIST(x), TJ_LIST(tj_sin(x)), TJ_UNUSED_ZEROS);
	default: return once(s, x);
	}
}

/* in: x, w, v, index. */
static void gradients(tj_tensor **out, tj_tensor *const *in, void *self)
{
	shared s = *(shared *)self;
	tj_tensor *y;
	s.w = in[1], s.v = in[2], s.index = in[3];
	out[3] = y = loss(&s, in[0]);
	tj_grad(out, y, TJ_LIST(in[0], in[1], in[2]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static tj_tensor *f64(tj_tensor *t) { return tj_cast(t, TJ_F64); }

static void run_body(shared s, const char *name, int mode, double v[16])
{
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, gradients, &s,
	                      TJ_OPTS(tj_compile_opts, .name = "gradients", .nin = 4, .nout = 4, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
	tj_tensor *w = tj_reshape(f64(F32(c, -1.1f, -0.8f, -0.5f, -0.2f, 0.1f, 0.4f, 0.7f, 1, 1.3f)), TJ_SHAPE(3, 3)), *out[4];
	for (int call = 0; call < 2; call++) {
		tj_seed(c, 3);
		if (tj_call(f, out,
		            TJ_LIST(f64(F32(c, 0.4f, -0.7f, 1.3f)), w, f64(F32(c, 1.1f, 0.6f, -0.9f)), tj_cast(F32(c, 2, 0, 2), TJ_I64))) !=
		    TJ_OK)
			fail_msg("%s %s %s a checkpoint: %s", name, place_name[s.at], s.with ? "with" : "without", (tj_check(c), tj_last_error(c)->message));
	}
	static const int at[] = { 0, 3, 12, 15 }, n[] = { 3, 9, 3, 1 };
	for (int i = 0; i < 4; i++) assert_int_equal(tj_read(out[i], v + at[i], sizeof *v * (size_t)n[i]), TJ_OK);
	tj_close(c);
}

/* What a callback must not do, with a checkpoint in it or without. */
static bool refused(const shared *s)
{
	const bool region = s->at == IN_SCAN || s->at == IN_COND, mapped = s->at == IN_VMAP || s->at == PER_EXAMPLE;
	if (s->body == with_noise) return region || mapped || s->at == IN_CUSTOM;
	return (s->body == with_custom || s->body == with_gradient) && s->at == IN_CUSTOM;
}

static void everywhere(void **state)
{
	(void)state;
	for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
		for (int at = 0; at < PLACES; at++)
			for (int mode = 0; mode < 2; mode++) {
				double want[16], have[16];
				shared s = { .body = bodies[b], .at = (place)at };
				if (refused(&s)) continue;
				run_body(s, body_name[b], mode, want);
				s.with = true;
				run_body(s, body_name[b], mode, have);
				for (int i = 0; i < 16; i++)
					if (fabs(want[i] - have[i]) > 1e-13 * (1 + fabs(want[i])))
						fail_msg("%s %s: figure %d is %.17g, without a checkpoint %.17g", body_name[b],
						         place_name[at], i, have[i], want[i]);
			}
}

/* ---- what it costs, and what it refuses ---- */
static void only_forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	shared s = *(shared *)self;
	s.w = in[1], s.v = in[2];
	out[0] = value(&s, in[0], &out[1]);
}

static void nothing_without_a_gradient(void **state)
{
	(void)state;
	tj_stats st[2];
	for (int with = 0; with < 2; with++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[2];
		shared s = { .body = nests, .with = with };
		tj_fn *f = kit_fn(c, "forward", only_forward, &s, 3, 2);
		assert_int_equal(tj_call(f, out, TJ_LIST(f64(F32(c, 1, 2, 3)), tj_eye(TJ_F64, 3, 3), f64(F32(c, 1, 2, 3)))), TJ_OK);
		kit_ok(c);
		st[with] = kit_stats(f);
		tj_close(c);
	}
	assert_int_equal(st[0].kernels, st[1].kernels);
	assert_int_equal(st[0].peak_bytes, st[1].peak_bytes);
}

static void outside(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *x = f64(F32(c, 1, 2, 3)), *out[2], *want[2];
	shared s = { .w = tj_eye(TJ_F64, 3, 3), .v = x };
	double a[3], b[3];
	assert_int_equal(tj_checkpoint(out, 2, plain, TJ_LIST(x), &s), TJ_OK);
	plain(want, (tj_tensor *[]){ x, TJ_END }, &s);
	tj_read(out[0], a, sizeof a);
	tj_read(want[0], b, sizeof b);
	kit_ok(c);
	assert_memory_equal(a, b, sizeof a);
	tj_close(c);
}

static void any_batch(tj_tensor **out, tj_tensor *const *in, void *self)
{
	net n = { .each = 4, .to = 2 };
	tj_tensor *x = in[0];
	(void)self;
	n.w[0] = in[1], n.w[1] = in[2];
	tj_checkpoint(&x, 1, layers, TJ_LIST(x), &n);
	tj_grad(out, tj_sum(x, TJ_ALL, false), TJ_LIST(in[1], in[2]), NULL);
}

static void two_compiles_for_all_sizes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *out[2], *w = tj_normal(TJ_F32, TJ_SHAPE(8, 8));
	tj_fn *f = kit_fn(c, "any_batch", any_batch, NULL, 3, 2);
	for (int64_t rows = 3; rows < 30; rows += 2)
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(rows, 8), tj_f(0.5)), w, w)), TJ_OK);
	kit_ok(c);
	assert_true(kit_stats(f).compiles <= 2);
	tj_close(c);
}

static void reads(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_mul(in[0], tj_f(tj_item(tj_sum(in[0], TJ_ALL, false))));
}
static void nothing(tj_tensor **out, tj_tensor *const *in, void *self) { (void)out, (void)in, (void)self; }
static void wrong(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], tj_eye(TJ_F32, 9, 9)); }
static tj_body *now;
static void calls(tj_tensor **out, tj_tensor *const *in, void *self) { tj_checkpoint(out, 1, now, in, self); }

static void errors(void **state)
{
	(void)state;
	static const struct { tj_body *body; tj_status code; const char *part;
	} bad[] = {
		{ reads, TJ_ERR_STATE, "callback of tj_checkpoint" },
		{ nothing, TJ_ERR_ARG, "did not set out[0]" },
		{ wrong, TJ_ERR_SHAPE, "" },
		{ NULL, TJ_ERR_ARG, "a callback is NULL" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out = NULL;
		tj_fn *f = kit_fn(c, "calls", calls, NULL, 1, 1);
		now = bad[i].body;
		assert_true(tj_call(f, &out, TJ_LIST(F32(c, 1, 2))) != TJ_OK);
		kit_error(c, bad[i].code, bad[i].part);
		now = one_result;
		tj_close(c);
	}
	tj_ctx *c = kit_open();
	tj_tensor *out[1] = { NULL };
	assert_int_equal(tj_checkpoint(out, 0, plain, TJ_LIST(F32(c, 1)), NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "it has no results");
	assert_int_equal(tj_checkpoint(out, 1, plain, NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "a list is NULL");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_bits_less_memory),
		cmocka_unit_test(everywhere),
		cmocka_unit_test(nothing_without_a_gradient),
		cmocka_unit_test(outside),
		cmocka_unit_test(two_compiles_for_all_sizes),
		cmocka_unit_test(errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
