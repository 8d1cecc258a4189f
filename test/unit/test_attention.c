/* SPDX-License-Identifier: MIT */
/* tj_scaled_dot_product_attention() and tj_multi_head_attention(): values of PyTorch, masks, rows without keys, blocks against one piece,
 * memory, dropout, gradients, errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-12, #name)
#define ATTEND(q, k, v, ...) tj_scaled_dot_product_attention(q, k, v, TJ_OPTS(tj_attention_opts, __VA_ARGS__))
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }

static void values(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *q = x(0, TJ_SHAPE(2, 3, 4, 5)), *k = x(1, TJ_SHAPE(2, 3, 6, 5)), *v = x(2, TJ_SHAPE(2, 3, 6, 3));
	KNOWN(tj_scaled_dot_product_attention(q, k, v, NULL), attention);
	KNOWN(ATTEND(q, k, v, .mask = tj_gt(x(3, TJ_SHAPE(2, 1, 4, 6)), tj_f(-0.5))), attention_bool);
	KNOWN(ATTEND(q, k, v, .mask = x(3, TJ_SHAPE(4, 6))), attention_float);
	KNOWN(ATTEND(q, k, v, .causal = true), attention_causal);
	KNOWN(ATTEND(q, k, v, .causal = true, .causal_offset = 2), attention_last);
	KNOWN(ATTEND(q, k, v, .scale = 0.7), attention_scale);
	KNOWN(tj_scaled_dot_product_attention(x(0, TJ_SHAPE(4, 5)), x(1, TJ_SHAPE(6, 5)), x(2, TJ_SHAPE(6, 3)), NULL), attention_2d);
	KNOWN(ATTEND(x(0, TJ_SHAPE(2, 6, 4, 5)), k, v, .mask = x(3, TJ_SHAPE(6, 4, 6))), attention_grouped);
	kit_ok(c);
	tj_close(c);
}

/* ---- as layers: in[3] is a float mask ---- */
enum { PLAIN, CAUSAL, FLOAT, BOOL, BOTH, NEGATIVE, GROUPED, KINDS };
static void attend(tj_tensor **out, tj_tensor *const *in, void *self)
{
	switch (*(int *)self) {
	case CAUSAL: out[0] = ATTEND(in[0], in[1], in[2], .causal = true); break;
	case FLOAT: out[0] = ATTEND(in[0], in[1], in[2], .mask = in[3]); break;
	case BOOL: out[0] = ATTEND(in[0], in[1], in[2], .mask = tj_lt(tj_stop_gradient(in[3]), tj_f(0.3))); break;
	case BOTH: out[0] = ATTEND(in[0], in[1], in[2], .mask = in[3], .causal = true, .causal_offset = 1); break;
	case NEGATIVE: out[0] = ATTEND(in[0], in[1], in[2], .causal = true, .causal_offset = -2); break; /* two rows have no keys */
	default: out[0] = tj_scaled_dot_product_attention(in[0], in[1], in[2], NULL); break;
	}
}

static layer of_kind(int *kind, tj_dtype t)
{
	const int64_t heads = *kind == GROUPED ? 4 : 2;
	tj_ctx *c = tj_ctx_current();
	layer l = { .body = attend, .self = kind, .nin = *kind == FLOAT || *kind == BOOL || *kind == BOTH ? 4 : 3 };
	l.in[0] = layer_tensor(c, t, TJ_SHAPE(2, heads, 4, 3), 0);
	l.in[1] = layer_tensor(c, t, TJ_SHAPE(2, 2, 5, 3), 1);
	l.in[2] = layer_tensor(c, t, TJ_SHAPE(2, 2, 5, 2), 2);
	l.in[3] = layer_tensor(c, t, TJ_SHAPE(4, 5), 3);
	l.fixed[3] = *kind == BOOL;
	return l;
}

static void gradients(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++) {
		layer l = of_kind(&kind, TJ_F64);
		layer_check(&l, "attention");
		for (tj_dtype t = TJ_F16; t <= TJ_F32 && !strcmp(kit_backend, "llvm"); t++) {
			l = of_kind(&kind, t);
			layer_check(&l, "attention");
		}
	}
	kit_ok(c);
	tj_close(c);
}

/* Rows without keys: 0, and nothing of them gets into a gradient. */
static void dead(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = ATTEND(in[0], in[1], in[2], .mask = in[3], .causal = self != NULL);
	tj_grad(out + 1, tj_sum(out[0], TJ_ALL, false), TJ_LIST(in[0], in[1], in[2]), NULL);
}
static void rows_without_keys(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const uint8_t yes[] = { 0, 0, 0, 1, 0, 1, 0, 1, 0 };
	tj_tensor *q = x(0, TJ_SHAPE(3, 2)), *k = x(1, TJ_SHAPE(3, 2)), *v = x(2, TJ_SHAPE(3, 2)),
		  *mask = tj_from_data(c, TJ_BOOL, TJ_SHAPE(3, 3), yes);
	for (int way = 0; way < 4; way++) {
		tj_fn *f = kit_fn(c, "dead", dead, way & 1 ? &way : NULL, 4, 4);
		tj_tensor *y[4];
		assert_int_equal(tj_call(f, y, TJ_LIST(q, k, v, way & 2 ? tj_where(mask, tj_cast(tj_f(0), TJ_F64), tj_f(-INFINITY)) : mask)), TJ_OK);
		const double *o = tj_data(y[0]), *given = tj_data(v);
		for (int i = 0; i < 2; i++) assert_true(o[i] == 0 && ((const double *)tj_data(y[1]))[i] == 0); /* row 0 */
		for (int i = 0; i < 2; i++) assert_true(fabs(o[4 + i] - given[2 + i]) < 1e-15); /* row 2 sees key 1 alone */
		for (int k2 = 0; k2 < 4; k2++)
			for (int i = 0; i < 6; i++) assert_true(isfinite(((const double *)tj_data(y[k2]))[i]));
	}
	assert_int_equal(tj_numel(tj_scaled_dot_product_attention(q, x(0, TJ_SHAPE(0, 2)), x(0, TJ_SHAPE(0, 4)), NULL)), 12);
	const double *none = tj_data(tj_scaled_dot_product_attention(q, x(0, TJ_SHAPE(0, 2)), x(0, TJ_SHAPE(0, 4)), NULL));
	for (int i = 0; i < 12; i++) assert_true(none[i] == 0);
	assert_int_equal(tj_numel(tj_scaled_dot_product_attention(x(0, TJ_SHAPE(0, 2)), k, v, NULL)), 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- blocks ---- */
typedef struct pieces { bool whole, causal, mask; } pieces;
static void in_pieces(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const pieces *p = self;
	if (p->whole) { /* the same, as it would be written by hand */
		tj_tensor *s = tj_mul(tj_matmul(in[0], tj_transpose(in[1], -1, -2)), tj_f(0.5)), *at = tj_arange(TJ_I64, 0, tj_dim(s, -1), 1);
		if (p->mask) s = tj_add(s, in[3]);
		if (p->causal) s = tj_where(tj_le(at, tj_unsqueeze(tj_arange(TJ_I64, 0, tj_dim(s, -2), 1), 1)), s, tj_f(-INFINITY));
		out[0] = tj_matmul(tj_softmax(s, -1), in[2]);
	} else out[0] = ATTEND(in[0], in[1], in[2], .causal = p->causal, .mask = p->mask ? in[3] : NULL);
	tj_grad(out + 1, tj_sum(tj_mul(out[0], out[0]), TJ_ALL, false), TJ_LIST(in[0], in[1], in[2]), NULL);
}

static void blocks(void **state)
{
	(void)state;
	enum { L = 1100, S = 2000 };
	tj_ctx *c = kit_open();
	for (int way = strcmp(kit_backend, "eval") ? 0 : 3; way < 4; way++) {
		pieces p = { .causal = way & 1, .mask = way & 2 };
		tj_tensor *in[] = { tj_normal(TJ_F32, TJ_SHAPE(1, L, 4)), tj_normal(TJ_F32, TJ_SHAPE(1, S, 4)),
			            tj_normal(TJ_F32, TJ_SHAPE(1, S, 2)), tj_normal(TJ_F32, TJ_SHAPE(L, S)), TJ_END },
			  *y[4], *z[4];
		tj_fn *f = kit_fn(c, "blocks", in_pieces, &p, 4, 4);
		assert_int_equal(tj_call(f, y, in), TJ_OK);
		pieces all = { true, p.causal, p.mask };
		tj_fn *g = kit_fn(c, "whole", in_pieces, &all, 4, 4);
		assert_int_equal(tj_call(g, z, in), TJ_OK);
		assert_memory_equal(tj_data(y[0]), tj_data(z[0]), L * 2 * sizeof(float));
		for (int i = 1; i < 4; i++) {
			const float *a = tj_data(y[i]), *b = tj_data(z[i]);
			for (int64_t e = 0; e < tj_numel(y[i]); e++)
				if (fabsf(a[e] - b[e]) > 2e-4f) fail_msg("way %d, gradient %d, element %d: %g, not %g", way, i - 1, (int)e, (double)a[e], (double)b[e]);
		}
		if (!strcmp(kit_backend, "llvm")) {
			assert_int_equal(kit_stats(f).eval_steps, 0);
			if (!kit_elsewhere())
				assert_true(kit_stats(f).peak_bytes * 15 / 8 <
				            kit_stats(g).peak_bytes); /* a library on a GPU has 32 MiB to work in */
		}
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- the setting: one block, or never all scores of a head; the same bits ---- */
static const char *way_of(tj_ctx *c, tj_attention want, int64_t rows, tj_attention *got)
{
	const char *why = NULL;
	assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .attention = want)), TJ_OK);
	tj_scope *s = tj_push(c);
	tj_tensor *q = tj_zeros(TJ_F32, TJ_SHAPE(1, rows, 2));
	*got = tj_attention_method(q, q, &why);
	tj_pop(s);
	return why;
}

static void available(void **state)
{
	static const struct { tj_attention method; int64_t rows; const char *lacks;
	} cases[] = { { TJ_ATTENTION_AUTO, 1, NULL },  { TJ_ATTENTION_MATH, 1, NULL },  { TJ_ATTENTION_FUSED, 1, "fewer than two rows" },
		      { TJ_ATTENTION_FUSED, 2, NULL }, { TJ_ATTENTION_LIBRARY, 2, "no library computes attention" } };
	(void)state;
	tj_ctx *c = kit_open();
	const char *why = "";
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_tensor *q = tj_zeros(TJ_F32, TJ_SHAPE(1, cases[i].rows, 2));
		assert_int_equal(tj_attention_available(cases[i].method, q, q, NULL), !cases[i].lacks);
		assert_int_equal(tj_attention_available(cases[i].method, q, q, &why), !cases[i].lacks);
		assert_true(cases[i].lacks ? strstr(why, cases[i].lacks) != NULL : !why);
	}
	tj_tensor *q = tj_zeros(TJ_F32, TJ_SHAPE(2, 2)), *k = tj_zeros(TJ_I32, TJ_SHAPE(2, 2));
	assert_false(tj_attention_available((tj_attention)9, q, q, &why));
	kit_error(c, TJ_ERR_ARG, "method is 9");
	assert_non_null(strstr(tj_last_error(c)->hint, "TJ_ATTENTION_FUSED or TJ_ATTENTION_LIBRARY"));
	assert_false(tj_attention_available(TJ_ATTENTION_MATH, k, q, &why));
	assert_non_null(strstr(why, "tj_check() says which"));
	kit_error(c, TJ_ERR_DTYPE, "no float");
	kit_ok(c);
	tj_close(c);
}

/* Reasons in the order in which they are found; the call's own choice, which no setting changes. */
static void can_use(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const char *why = "";
	tj_tensor *q = tj_zeros(TJ_F32, TJ_SHAPE(1, 2, 4, 8)), *v = tj_zeros(TJ_F32, TJ_SHAPE(1, 2, 4, 6));
	tj_tensor *odd = tj_zeros(TJ_F32, TJ_SHAPE(1, 3, 4, 8));
	assert_true(tj_attention_can_use(TJ_ATTENTION_MATH, q, q, v, NULL, &why) && !why);
	assert_true(tj_attention_can_use(TJ_ATTENTION_FUSED, q, q, v, TJ_OPTS(tj_attention_opts, .causal = true), NULL));
	assert_false(tj_attention_can_use(TJ_ATTENTION_LIBRARY, q, q, v, NULL, &why));
	assert_non_null(strstr(why, kit_elsewhere() ? "all be f16" : "on the CPU"));
	assert_false(tj_attention_can_use(TJ_ATTENTION_MATH, q, odd, odd, NULL, &why));
	assert_non_null(strstr(why, "leading axes"));
	kit_ok(c);
	assert_false(tj_attention_can_use(TJ_ATTENTION_MATH, q, q, v, TJ_OPTS(tj_attention_opts, .mask = tj_zeros(TJ_I32, TJ_SHAPE(4, 4))), &why));
	kit_error(c, TJ_ERR_DTYPE, "the mask is i32");
	assert_false(tj_attention_can_use((tj_attention)9, q, q, v, NULL, &why));
	kit_error(c, TJ_ERR_ARG, "method is 9");
	assert_true(tj_is_poison(tj_scaled_dot_product_attention(q, q, v, TJ_OPTS(tj_attention_opts, .method = 9))));
	kit_error(c, TJ_ERR_ARG, ".method is 9");
	tj_close(c);
}

static void by_call(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_attention *method = self;
	out[0] = tj_scaled_dot_product_attention(in[0], in[0], in[0], TJ_OPTS(tj_attention_opts, .method = *method));
}

static void the_call(void **state)
{
	(void)state;
	enum { L = 96 };
	float y[2][3 * L * 8];
	int products[2] = { 0, 0 };
	tj_ctx *c = kit_open();
	tj_tensor *q = tj_normal(TJ_F32, TJ_SHAPE(3, L, 8)), *out;
	assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .attention = TJ_ATTENTION_FUSED)), TJ_OK);
	for (int i = 0; i < 2; i++) {
		tj_attention method = i ? TJ_ATTENTION_MATH : TJ_ATTENTION_FUSED;
		tj_fn *f = kit_fn(c, "attend", by_call, &method, 1, 1);
		assert_int_equal(tj_call(f, &out, TJ_LIST(q)), TJ_OK);
		char *graph = kit_dump(f, TJ_DUMP_GRAPH);
		for (const char *at = graph; (at = strstr(at, "= matmul ")); at++) products[i]++;
		free(graph);
		tj_read(out, y[i], sizeof y[i]);
	}
	assert_memory_equal(y[0], y[1], sizeof y[0]);
	assert_int_equal(products[1], 2);
	assert_true(products[0] >= 4);
	kit_ok(c);
	tj_close(c);
}

static void the_setting(void **state)
{
	(void)state;
	enum { L = 96 };
	static const tj_attention ways[] = { TJ_ATTENTION_MATH, TJ_ATTENTION_FUSED, TJ_ATTENTION_LIBRARY, TJ_ATTENTION_AUTO };
	uint64_t peak[4];
	float y[4][3 * L * 8];
	tj_ctx *c = kit_open();
	pieces p = { .causal = true };
	tj_tensor *q = tj_normal(TJ_F32, TJ_SHAPE(3, L, 8)), *out[4];
	tj_fn *f = kit_fn(c, "attend", in_pieces, &p, 3, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .attention = ways[i])), TJ_OK);
		tj_fn *g = kit_fn(c, "attend", in_pieces, &p, 3, 4);
		assert_int_equal(tj_call(g, out, TJ_LIST(q, q, q)), TJ_OK);
		peak[i] = kit_stats(g).peak_bytes;
		assert_int_equal(tj_call(f, out, TJ_LIST(q, q, q)), TJ_OK);
		assert_int_equal(kit_stats(f).recordings, (unsigned)i + 1);
		assert_int_equal(tj_read(out[0], y[i], sizeof y[i]), TJ_OK);
		assert_memory_equal(y[i], y[0], sizeof y[i]);
	}
	if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) assert_true(peak[1] < peak[0] && peak[2] == peak[0] && peak[3] == peak[0]);
	tj_attention got;
	assert_string_equal(way_of(c, TJ_ATTENTION_FUSED, 2, &got), "the settings ask for it");
	assert_int_equal(got, TJ_ATTENTION_FUSED);
	assert_string_equal(way_of(c, TJ_ATTENTION_MATH, 5000, &got), "the settings ask for it");
	assert_int_equal(got, TJ_ATTENTION_MATH);
	assert_string_equal(way_of(c, TJ_ATTENTION_LIBRARY, 2, &got), "no library computes attention; the scores are small");
	assert_int_equal(got, TJ_ATTENTION_MATH);
	assert_non_null(strstr(way_of(c, TJ_ATTENTION_AUTO, 513, &got), "more than 1 MiB"));
	assert_int_equal(got, TJ_ATTENTION_FUSED);
	assert_non_null(strstr(way_of(c, TJ_ATTENTION_AUTO, 512, &got), "at most"));
	assert_int_equal(got, TJ_ATTENTION_MATH);
	assert_non_null(strstr(way_of(c, TJ_ATTENTION_FUSED, 1, &got), "fewer than two rows"));
	assert_int_equal(got, TJ_ATTENTION_MATH);
	tj_scope *s = tj_push(c);
	assert_int_equal(tj_attention_method(tj_zeros(TJ_I32, TJ_SHAPE(2, 2)), q, NULL), TJ_ATTENTION_AUTO);
	kit_error(c, TJ_ERR_DTYPE, "no float");
	tj_pop(s);
	kit_ok(c);
	tj_close(c);
}

/* ---- memory grows with the number of places, not with its square ---- */
static void memory(void **state)
{
	(void)state;
	uint64_t peak[2];
	if (strcmp(kit_backend, "llvm") || kit_elsewhere()) return; /* it is a figure of plans; a library on a GPU has 32 MiB to work in */
	for (int i = 0; i < 2; i++) {
		const int64_t n = i ? 4096 : 2048;
		tj_ctx *c = kit_open();
		pieces p = { .causal = true };
		tj_tensor *q = tj_normal(TJ_F32, TJ_SHAPE(2, n, 16)), *y[4];
		tj_fn *f = kit_fn(c, "attend", in_pieces, &p, 3, 4);
		assert_int_equal(tj_call(f, y, TJ_LIST(q, q, q)), TJ_OK);
		peak[i] = kit_stats(f).peak_bytes;
		assert_true(peak[i] < (UINT64_C(24) << 20)); /* one matrix of scores: 32 MiB, 128 MiB */
		tj_close(c);
	}
	assert_true(peak[1] < 2 * peak[0]);
}

/* ---- dropout: of the weights; the gradient has the same mask, also in blocks ---- */
static void drops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = ATTEND(in[0], in[1], in[2], .dropout = 0.5);
	tj_grad(out + 1, tj_sum(tj_mul(out[0], in[3]), TJ_ALL, false), TJ_LIST(in[2]), NULL);
}
static void dropouts(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int large = 0; large < 1 + !strcmp(kit_backend, "llvm"); large++) {
		const int64_t n = large ? 1600 : 40;
		tj_tensor *q = tj_zeros(TJ_F32, TJ_SHAPE(n, 1)), *v = tj_normal(TJ_F32, TJ_SHAPE(n, 1)), *by = tj_normal(TJ_F32, TJ_SHAPE(n, 1)), *y[2];
		tj_fn *f = kit_fn(c, "drops", drops, NULL, 4, 2);
		assert_int_equal(tj_call(f, y, TJ_LIST(q, q, v, by)), TJ_OK);
		/* y = P v and g = P' by, with the same P if both are the same linear form */
		const double a = tj_item(tj_sum(tj_mul(tj_cast(y[0], TJ_F64), by), TJ_ALL, false)),
			     b = tj_item(tj_sum(tj_mul(tj_cast(y[1], TJ_F64), v), TJ_ALL, false));
		assert_true(fabs(a - b) < 1e-4 * (1 + fabs(a)));
		tj_tensor *sums = ATTEND(q, q, tj_ones_like(v), .dropout = 0.5); /* mean 1, and not all 1 */
		assert_true(fabs(tj_item(tj_mean(sums, TJ_ALL, false)) - 1) < 0.15 && tj_item(tj_var(sums, TJ_ALL, 1, false)) > 1e-4);
	}
	assert_true(tj_item(tj_amax(ATTEND(x(0, TJ_SHAPE(4, 5)), x(1, TJ_SHAPE(6, 5)), x(2, TJ_SHAPE(6, 3)), .dropout = 1), TJ_ALL, false)) == 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- in other functions ---- */
static void head(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = ATTEND(in[0], in[1], in[2], .causal = true); }
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], ATTEND(in[0], in[0], in[0], .causal = true));
	out[1] = out[0];
}
static void around(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *carry;
	(void)self;
	tj_vmap(out, 1, head, TJ_LIST(in[0], in[1], in[2]), NULL, NULL);
	tj_scan(&carry, out + 1, 1, turn, TJ_LIST(in[0]), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 3));
	tj_grad(out + 2, tj_sum(carry, TJ_ALL, false), TJ_LIST(in[0]), NULL);
}
static void inside_of_others(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *q = x(0, TJ_SHAPE(3, 4, 5)), *k = x(1, TJ_SHAPE(3, 6, 5)), *v = x(2, TJ_SHAPE(3, 6, 2)), *y[3], *one;
	assert_int_equal(tj_call(kit_fn(c, "around", around, NULL, 3, 3), y, TJ_LIST(q, k, v)), TJ_OK);
	one = ATTEND(q, k, v, .causal = true);
	assert_memory_equal(tj_data(y[0]), tj_data(one), sizeof(double) * 24);
	for (int i = 0; i < 60; i++) assert_true(isfinite(((const double *)tj_data(y[2]))[i]));
	kit_ok(c);
	tj_close(c);
}

/* ---- several heads ---- */
#define HEADS(q, k, v, n, ...) \
	tj_multi_head_attention(q, k, v, n, x(3, TJ_SHAPE(18, 6)), x(5, TJ_SHAPE(6, 6)), \
	                        TJ_OPTS(tj_multi_head_opts, .in_bias = x(4, TJ_SHAPE(18)), .out_bias = x(6, TJ_SHAPE(6)), __VA_ARGS__))
static void several_heads(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *q = x(0, TJ_SHAPE(2, 4, 6)), *k = x(1, TJ_SHAPE(2, 5, 6)), *v = x(2, TJ_SHAPE(2, 5, 6));
	tj_tensor *padding = tj_from_data(c, TJ_BOOL, TJ_SHAPE(2, 5), (uint8_t[]){ 0, 0, 0, 1, 1, 0, 1, 0, 0, 0 });
	KNOWN(HEADS(q, k, v, 2, .dropout = 0), heads);
	KNOWN(HEADS(q, q, q, 3, .causal = true), heads_self);
	KNOWN(HEADS(q, k, v, 2, .padding = padding), heads_padding);
	KNOWN(HEADS(q, k, v, 2, .padding = padding, .mask = tj_unflatten(x(7, TJ_SHAPE(4, 4, 5)), 0, TJ_SHAPE(2, 2))), heads_mask);
	KNOWN(HEADS(q, k, v, 2, .mask = tj_ge(x(7, TJ_SHAPE(4, 5)), tj_f(-0.5))), heads_bool);
	tj_tensor *more = HEADS(q, k, v, 2, .padding = padding, .bias_k = x(8, TJ_SHAPE(6)), .bias_v = x(9, TJ_SHAPE(6)));
	KNOWN(more, heads_bias);
	for (int i = 0; i < 2; i++) { /* an example without the axis; masks that say the same in other ways */
		tj_tensor *one[] = { tj_select(q, 0, i), tj_select(k, 0, i), tj_select(v, 0, i), tj_select(padding, 0, i) };
		tj_tensor *y[] = { HEADS(one[0], one[1], one[2], 2, .padding = one[3], .bias_k = x(8, TJ_SHAPE(6)),
			                 .bias_v = x(9, TJ_SHAPE(6))),
			           HEADS(one[0], one[1], one[2], 2, .mask = tj_logical_not(one[3]), .bias_k = x(8, TJ_SHAPE(6)),
			                 .bias_v = x(9, TJ_SHAPE(6))),
			           HEADS(one[0], one[1], one[2], 2, .mask = tj_where(one[3], tj_f(-INFINITY), tj_cast(tj_f(0), TJ_F64)),
			                 .bias_k = x(8, TJ_SHAPE(6)), .bias_v = x(9, TJ_SHAPE(6))) };
		for (int n = 0; n < 3; n++) assert_true(tj_truth(tj_allclose(y[n], tj_select(more, 0, i), 0, 1e-12, false)));
	}
	tj_tensor *causal = HEADS(q, q, q, 2, .causal = true, .bias_k = x(8, TJ_SHAPE(6)), .bias_v = x(9, TJ_SHAPE(6)));
	tj_tensor *masked = HEADS(q, q, q, 2, .mask = tj_tril(tj_ones(TJ_BOOL, TJ_SHAPE(4, 4)), 0), .bias_k = x(8, TJ_SHAPE(6)),
	                          .bias_v = x(9, TJ_SHAPE(6)));
	assert_true(tj_truth(tj_allclose(causal, masked, 0, 1e-12, false)));
	assert_int_equal(tj_numel(HEADS(x(0, TJ_SHAPE(0, 4, 6)), x(1, TJ_SHAPE(0, 5, 6)), x(2, TJ_SHAPE(0, 5, 6)), 2, .dropout = 0)), 0);
	for (tj_dtype t = TJ_F16; t <= TJ_F64; t++) {
		tj_tensor *in = tj_cast(q, t), *y = tj_multi_head_attention(in, in, in, 2, tj_cast(x(3, TJ_SHAPE(18, 6)), t),
		                                                            tj_cast(x(5, TJ_SHAPE(6, 6)), t), NULL);
		assert_int_equal(tj_dtype_of(y), t);
		assert_true(tj_truth(tj_allclose(tj_cast(y, TJ_F64),
		                                 tj_multi_head_attention(q, q, q, 2, x(3, TJ_SHAPE(18, 6)), x(5, TJ_SHAPE(6, 6)), NULL), 0,
		                                 t == TJ_BF16  ? 0.1
		                                 : t == TJ_F16 ? 0.02
		                                               : 1e-5,
		                                 false)));
	}
	kit_ok(c);
	tj_close(c);
}

static void heads_of(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_multi_head_attention(in[0], self ? in[0] : in[1], self ? in[0] : in[1], 2, in[2], in[3],
	                                 TJ_OPTS(tj_multi_head_opts, .causal = self != NULL, .bias_k = in[4], .bias_v = in[5]));
}

static void gradients_of_heads(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int way = 0; way < 2; way++) {
		layer l = { .body = heads_of, .self = way ? &way : NULL, .nin = 6 };
		const int64_t rows[] = { 3, way ? 3 : 2 };
		for (int i = 0; i < 2; i++) l.in[i] = layer_tensor(c, TJ_F64, TJ_SHAPE(2, rows[i], 4), i);
		l.in[2] = layer_tensor(c, TJ_F64, TJ_SHAPE(12, 4), 2);
		l.in[3] = layer_tensor(c, TJ_F64, TJ_SHAPE(4, 4), 3);
		for (int i = 4; i < 6; i++) l.in[i] = layer_tensor(c, TJ_F64, TJ_SHAPE(4), i);
		layer_check(&l, "heads");
	}
	kit_ok(c);
	tj_close(c);
}

static void errors_of_heads(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *q = x(0, TJ_SHAPE(2, 4, 6)), *k = x(1, TJ_SHAPE(2, 5, 6)), *w = x(3, TJ_SHAPE(18, 6)), *out = x(5, TJ_SHAPE(6, 6)),
		  *b = x(4, TJ_SHAPE(6));
	LAYER_REFUSED(tj_multi_head_attention(NULL, k, k, 2, w, out, NULL), ARG, "multi_head_attention", "q is NULL");
	LAYER_REFUSED(tj_multi_head_attention(q, tj_cast(k, TJ_I32), k, 2, w, out, NULL), DTYPE, "multi_head_attention", "k is i32, no float");
	LAYER_REFUSED(tj_multi_head_attention(q, tj_select(k, 0, 0), k, 2, w, out, NULL), SHAPE, "multi_head_attention", "k does not fit to q");
	LAYER_REFUSED(tj_multi_head_attention(b, b, b, 2, w, out, NULL), SHAPE, "multi_head_attention", "q has 1 axes");
	LAYER_REFUSED(tj_multi_head_attention(q, k, q, 2, w, out, NULL), SHAPE, "multi_head_attention", "5 keys and 4 values");
	LAYER_REFUSED(tj_multi_head_attention(q, k, k, 4, w, out, NULL), ARG, "multi_head_attention", "4 heads of width 6");
	LAYER_REFUSED(tj_multi_head_attention(q, k, k, 0, w, out, NULL), ARG, "multi_head_attention", "0 heads");
	LAYER_REFUSED(tj_multi_head_attention(q, k, k, 2, out, out, NULL), SHAPE, "multi_head_attention", "in_weight is not [18,6]");
	LAYER_REFUSED(tj_multi_head_attention(q, k, k, 2, w, w, NULL), SHAPE, "multi_head_attention", "out_weight is not [6,6]");
	LAYER_REFUSED(HEADS(q, k, k, 2, .bias_k = b), ARG, "multi_head_attention", "go together");
	LAYER_REFUSED(tj_multi_head_attention(q, k, k, 2, w, out, TJ_OPTS(tj_multi_head_opts, .in_bias = b)), SHAPE, "multi_head_attention",
	              ".in_bias is not [18]");
	LAYER_REFUSED(HEADS(q, k, k, 2, .padding = tj_zeros(TJ_BOOL, TJ_SHAPE(2, 4))), SHAPE, "multi_head_attention", ".padding does not fit");
	LAYER_REFUSED(HEADS(q, k, k, 2, .padding = tj_zeros(TJ_F32, TJ_SHAPE(2, 5))), DTYPE, "multi_head_attention", ".padding is f32");
	LAYER_REFUSED(HEADS(q, k, k, 2, .mask = tj_zeros(TJ_I32, TJ_SHAPE(4, 5))), DTYPE, "multi_head_attention", ".mask is i32");
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	static const char name[] = "scaled_dot_product_attention";
	tj_ctx *c = kit_open();
	tj_tensor *q = x(0, TJ_SHAPE(2, 4, 5)), *k = x(1, TJ_SHAPE(2, 6, 5)), *v = x(2, TJ_SHAPE(2, 6, 3));
	LAYER_REFUSED(tj_scaled_dot_product_attention(NULL, k, v, NULL), ARG, name, "q is NULL");
	LAYER_REFUSED(tj_scaled_dot_product_attention(q, k, tj_i(1), NULL), DTYPE, name, "v is i64, no float");
	LAYER_REFUSED(tj_scaled_dot_product_attention(q, x(0, TJ_SHAPE(6, 5)), v, NULL), SHAPE, name, "k has 2 axes, q has 3");
	LAYER_REFUSED(tj_scaled_dot_product_attention(q, x(1, TJ_SHAPE(2, 6, 4)), v, NULL), SHAPE, name, "q has width 5, k 4");
	LAYER_REFUSED(tj_scaled_dot_product_attention(q, k, x(1, TJ_SHAPE(2, 5, 4)), NULL), SHAPE, name, "there are 6 keys and 5 values");
	LAYER_REFUSED(tj_scaled_dot_product_attention(x(0, TJ_SHAPE(3, 4, 5)), k, v, NULL), SHAPE, name, "the leading axes");
	LAYER_REFUSED(tj_scaled_dot_product_attention(x(0, TJ_SHAPE(1, 2, 4, 5)), tj_unsqueeze(k, 1), tj_unsqueeze(v, 1), NULL), SHAPE,
	              name, "the leading axes");
	LAYER_REFUSED(ATTEND(q, k, v, .mask = tj_cast(q, TJ_I32)), DTYPE, name, "the mask is i32");
	LAYER_REFUSED(ATTEND(q, k, v, .mask = x(0, TJ_SHAPE(4, 5))), SHAPE, name, "the mask does not broadcast");
	LAYER_REFUSED(ATTEND(q, k, v, .mask = x(0, TJ_SHAPE(1, 2, 4, 6))), SHAPE, name, "the mask does not broadcast");
	LAYER_REFUSED(ATTEND(q, k, v, .dropout = 2), ARG, name, ".dropout is 2");
	LAYER_REFUSED(ATTEND(q, k, v, .causal_offset = 2), ARG, name, ".causal_offset is set without .causal");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(gradients),
		cmocka_unit_test(rows_without_keys),
		cmocka_unit_test(blocks),
		cmocka_unit_test(available), cmocka_unit_test(can_use), cmocka_unit_test(the_call), cmocka_unit_test(the_setting),
		cmocka_unit_test(memory),
		cmocka_unit_test(dropouts),
		cmocka_unit_test(inside_of_others),
		cmocka_unit_test(several_heads),
		cmocka_unit_test(gradients_of_heads),
		cmocka_unit_test(errors_of_heads),
		cmocka_unit_test(errors),
	};
	KIT_RUN(tests);
}
