/* SPDX-License-Identifier: MIT */
/* tj_custom_grad() and tj_grad_hook(): gradients of the user's own, of any order, with several results, and inside and around tj_vmap();
 * what is refused. */
#include "test/kit.h"

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

static tj_fn *made(tj_ctx *c, int mode, tj_body *body, int nin, int nout)
{
	return tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = nin, .nout = nout, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
}

/* Calls the body with (1.2, -0.7, 2.6) three times in each mode. */
#define EACH(body, ...)                                                          \
	for (int mode = 0; mode < 2; mode++) {                                         \
		tj_ctx *c = kit_open();                                                      \
		tj_fn *f = made(c, mode, body, 1, 1);                                        \
		for (int call = 0; call < 3; call++) {                                       \
			tj_tensor *out;                                                            \
			assert_int_equal(tj_call(f, &out, TJ_LIST(F32(c, 1.25f, -0.75f, 2.5f))), TJ_OK); \
			kit_ok(c);                                                                 \
			assert_f32(out, __VA_ARGS__);                                              \
		}                                                                            \
		tj_close(c);                                                                 \
	}

/* ---- straight through ---- */
static void rounds(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_round(in[0]); }
static void passes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[2]; }
static tj_tensor *rounded(tj_tensor *x)
{
	tj_tensor *y;
	tj_custom_grad(&y, 1, rounds, passes, TJ_LIST(x), NULL);
	return y;
}
static void straight(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, total(tj_square(rounded(in[0]))), TJ_LIST(in[0]), NULL);
}
static void through(void **s) { (void)s; EACH(straight, 2, -2, 4) }

static void forward_only(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(rounded(in[0]), tj_f(3)); }
static void no_gradient(void **s) { (void)s; EACH(forward_only, 3, -3, 6) }

static void along(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_jvp(tj_square(rounded(in[0])), TJ_LIST(in[0]), TJ_LIST(in[0]), TJ_UNUSED_ERROR);
}
static void tangents(void **s) { (void)s; EACH(along, 2.5f, 1.5f, 10) }

/* ---- forward has such values, too ---- */
static void outer(tj_tensor **out, tj_tensor *const *in, void *self) /* 2 round(x) + x */
{
	(void)self;
	out[0] = tj_add(tj_mul(rounded(in[0]), tj_f(2)), in[0]);
}
static void outer_slope(tj_tensor **out, tj_tensor *const *in, void *self) /* asks in there: 2 round(x), by the rounding's own rule */
{
	(void)self;
	tj_grad(out, total(tj_square(rounded(in[0]))), TJ_LIST(in[0]), NULL);
}
static void five(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(tj_mul(in[2], in[0]), tj_f(5)); }
static tj_tensor *nested_in(tj_tensor *x, tj_body *forward)
{
	tj_tensor *y;
	tj_custom_grad(&y, 1, forward, five, TJ_LIST(x), NULL);
	return y;
}
static void nested_once(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(nested_in(in[0], outer)), TJ_LIST(in[0]), NULL);
}
static void nested_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *g;
	(void)self;
	tj_grad(&g, total(nested_in(in[0], outer)), TJ_LIST(in[0]), NULL);
	tj_grad(out, total(g), TJ_LIST(in[0]), NULL);
}
static void slope_value(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = nested_in(in[0], outer_slope); }
static void slope_gradient(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(nested_in(in[0], outer_slope)), TJ_LIST(in[0]), NULL);
}
static void nested_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = nested_in(in[0], outer), out[1] = nested_in(in[0], outer_slope);
}
/* of ys, 2 round(x), and of the carry in one turn: 5 x each */
static void scanned_nested(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h, *ys;
	(void)self;
	tj_scan(&h, &ys, 1, nested_turn, TJ_LIST(in[0]), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 1));
	tj_grad(out, tj_add(total(h), total(ys)), TJ_LIST(in[0]), NULL);
}
static void one_nested(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, tj_mul(nested_in(in[0], outer), in[0]), TJ_LIST(in[0]), NULL);
}
static void mapped_nested(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_vmap(out, 1, one_nested, TJ_LIST(in[0]), NULL, NULL);
}
static void in_forward(void **s)
{
	(void)s;
	EACH(nested_once, 6.25f, -3.75f, 12.5f)
	EACH(nested_twice, 5, 5, 5)
	EACH(slope_value, 2, -2, 4)
	EACH(slope_gradient, 6.25f, -3.75f, 12.5f)
	EACH(scanned_nested, 12.5f, -7.5f, 25)
	EACH(mapped_nested, 1.25f * 6.25f + 3.25f, 0.75f * 3.75f - 2.75f, 2.5f * 12.5f + 6.5f)
}

/* ---- a rule in terms of its result: higher orders go through the result's own gradient ---- */
static void cubes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(tj_square(in[0]), in[0]); }
/* 3 y / x */
static void of_cube(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_mul(in[2], tj_div(tj_mul(in[1], tj_f(3)), in[0]));
}
static void third_order(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *g;
	(void)self;
	tj_custom_grad(&y, 1, cubes, of_cube, TJ_LIST(in[0]), NULL);
	for (int order = 0; order < 2; order++) {
		tj_grad(&g, total(y), TJ_LIST(in[0]), NULL);
		y = g;
	}
	out[0] = y;
}
static void orders(void **s) { (void)s; EACH(third_order, 7.5f, -4.5f, 15) } /* 6 x */

/* ---- several operands and results, one of each without a gradient ---- */
static void both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], in[2]);
	out[1] = tj_add(in[0], in[2]);
}
/* in: x, index, w, then x w, x + w, then their gradients */
static void of_both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[5], tj_f(10)), in[6]);
	out[1] = in[1];
	out[2] = tj_sub(in[5], in[6]);
}
static void one_of_them(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y[2], *g[2], *w = tj_mul(in[0], tj_f(2));
	(void)self;
	tj_custom_grad(y, 2, both, of_both, TJ_LIST(in[0], tj_cast(in[0], TJ_I64), w), NULL);
	tj_grad(g, total(y[0]), TJ_LIST(in[0], w), NULL);
	out[0] = tj_add(g[0], tj_mul(g[1], tj_f(100))); /* 10 + 2 * 1, and 1 */
}
static void two_of_them(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y[2], *g[1], *w = tj_mul(in[0], tj_f(2));
	(void)self;
	tj_custom_grad(y, 2, both, of_both, TJ_LIST(in[0], tj_cast(in[0], TJ_I64), w), NULL);
	tj_grad(g, total(tj_add(y[0], tj_mul(y[1], tj_f(3)))), TJ_LIST(in[0]), NULL);
	out[0] = g[0]; /* 10 + 3 + 2 (1 - 3) */
}
static void several(void **s)
{
	(void)s;
	EACH(one_of_them, 112, 112, 112)
	EACH(two_of_them, 9, 9, 9)
}

/* ---- examples ---- */
static void sample(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, tj_square(rounded(in[0])), TJ_LIST(in[0]), NULL);
}
static void inside(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_vmap(out, 1, sample, TJ_LIST(in[0]), NULL, NULL); }
static void scaled(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_square(rounded(tj_mul(in[0], self))); }
static void around_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *w = tj_slice(in[0], 0, 2, 3, 1);
	(void)self;
	tj_vmap(&y, 1, scaled, TJ_LIST(in[0]), w, NULL); /* round(1.25 * 2.5) = 3, -2, 6 */
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
}
static void captured_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *w = tj_slice(in[0], 0, 2, 3, 1);
	(void)self;
	tj_vmap(&y, 1, scaled, TJ_LIST(in[0]), rounded(w), NULL);
	tj_grad(out, total(y), TJ_LIST(w), NULL);
}
static void examples(void **s)
{
	(void)s;
	EACH(inside, 2, -2, 4)
	EACH(around_body, 15, -10, 70.5f) /* the last one is w, too */
	EACH(captured_body, 2 * (1.25f * 2 + 0.75f * 2 + 2.5f * 5)) /* w = 2: round(2.5), round(-1.5), round(5) */
}

/* ---- a backward in another float ---- */
static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }
static void of_product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[3], tj_transpose(in[1], 0, 1));
	out[1] = tj_matmul(tj_transpose(in[0], 0, 1), in[3]);
}
static void mixed_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *x = tj_reshape(in[0], TJ_SHAPE(1, 3)), *w = tj_reshape(in[0], TJ_SHAPE(3, 1));
	(void)self;
	tj_custom_grad(&y, 1, product, of_product, TJ_LIST(x, w), NULL);
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
}
static void mixed(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *g =
		tj_call1(tj_compile(c, mixed_body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .autocast = TJ_BF16)),
	                 TJ_LIST(F32(c, 1.25f, -0.75f, 2.5f)));
	kit_ok(c);
	assert_int_equal(tj_dtype_of(g), TJ_F32);
	assert_f32(g, 2.5f, -1.5f, 5);
	tj_close(c);
}

/* ---- hooks ---- */
static void clips(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_clamp(in[0], tj_f(-2), tj_f(2)); }
static void adds_x(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_add(in[0], tj_mul(in[1], *(tj_tensor **)self)); }
static void clipped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = tj_grad_hook(in[0], clips, NULL), *ten = tj_f(10);
	(void)self;
	x = tj_grad_hook(x, adds_x, &ten); /* sees the gradient first */
	tj_grad(out, total(tj_add(tj_square(x), x)), TJ_LIST(in[0]), NULL); /* 2 x + 1 + 10 x, then within 2 */
}
static void hooks(void **s) { (void)s; EACH(clipped, 2, -2, 2) }

/* ---- by name: a layer names its values, the function that is called has the hooks ---- */
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	char name[40];
	snprintf(name, sizeof name, "%s.in", (const char *)self);
	tj_tensor *x = tj_grad_name(in[0], name);
	memset(name, '?', sizeof name); /* it was copied */
	out[0] = tj_square(x);
}

static void doubles(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }

/* y = (x^2)^2, or with a turn more by a scan. */
typedef struct names { tj_fn *inner[2]; bool scans, looks; } names;
static void turn(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, layer(out, in, "scanned"); }
static void named(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const names *n = self;
	tj_tensor *h = tj_call1(n->inner[0], TJ_LIST(in[0]));
	if (n->looks) tj_item(total(h));
	tj_tensor *y = tj_call1(n->inner[1], TJ_LIST(h));
	if (n->scans) tj_scan(&y, NULL, 0, turn, TJ_LIST(y), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 1));
	tj_grad(out, total(y), TJ_LIST(in[0], tj_grad_named("l1.in"), tj_grad_named("l2.in")), NULL);
}

static void by_name(void **s)
{
	(void)s;
	static tj_tensor *tenth;
	static const struct {
		const char *label;
		tj_named_hook hook[4];
		float l2[2], l1[2], x[2];
	} all[] = {
		/* of x = 1, 2: gradients by h, by the hooked x, by x */
		{ "none", { { 0 } }, { 2, 8 }, { 4, 32 }, { 4, 32 } },
		{ "other names",
		  { { "l", doubles, NULL }, { "l1.inn", doubles, NULL }, { "1.in", doubles, NULL }, { 0 } },
		  { 2, 8 },
		  { 4, 32 },
		  { 4, 32 } },
		{ "one", { { "l2.in", doubles, NULL }, { 0 } }, { 2, 8 }, { 8, 64 }, { 8, 64 } },
		{ "first", { { "l1.in", doubles, NULL }, { 0 } }, { 2, 8 }, { 4, 32 }, { 8, 64 } },
		{ "all", { { "*", doubles, NULL }, { 0 } }, { 2, 8 }, { 8, 64 }, { 16, 128 } },
		{ "stars", { { "l*.in", doubles, NULL }, { "*1*n*", doubles, NULL }, { 0 } }, { 2, 8 }, { 8, 64 }, { 32, 256 } },
		{ "in order",
		  { { "l1*", clips, NULL }, { "*1.in", adds_x, &tenth }, { 0 } },
		  { 2, 8 },
		  { 4, 32 },
		  { 2, 2 } }, /* + x / 10, then within 2 */
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (int way = 0; way < 6; way++) {
			tj_ctx *c = kit_open();
			tj_tensor *out[3];
			names n = { .scans = way == 1, .looks = way == 2 || way == 4 };
			tenth = tj_f(0.1);
			n.inner[0] = kit_fn(c, "layer", layer, "l1", 1, 1), n.inner[1] = kit_fn(c, "layer", layer, "l2", 1, 1);
			const tj_compile_opts o = { .size = sizeof o,
				                    .name = "named",
				                    .nin = 1,
				                    .nout = 3,
				                    .mode = way == 3 || way == 4 ? TJ_DIRECT : TJ_VERIFY,
				                    .grad_hooks = all[i].hook };
			tj_fn *f = tj_compile(c, named, &n, &o);
			for (int k = 0; k < 4; k++) {
				if (way == 5) {
					tj_tensor *x = F32(c, 1, 2);
					tj_trace_begin(c, &o);
					named(out, (tj_tensor *[]){ x, TJ_END }, &n);
					if (tj_trace_end(c, out, 3) != TJ_OK) fail_msg("%s, way %d: %s", all[i].label, way, (tj_check(c), tj_last_error(c)->message));
				} else if (tj_call(f, out, TJ_LIST(F32(c, 1, 2))) != TJ_OK)
					fail_msg("%s, way %d: %s", all[i].label, way, (tj_check(c), tj_last_error(c)->message));
				kit_ok(c);
				/* x^8 has more slope, and the name in the scan matches "*" alone */
				if (way == 1 && i != 6) {
					const float more = 2 * (i == 4 ? 2 : 1);
					assert_f32(out[2], all[i].l2[0] * more, all[i].l2[1] * more * 16);
					assert_f32(out[1], all[i].l1[0] * more, all[i].l1[1] * more * 16);
					assert_f32(out[0], all[i].x[0] * more, all[i].x[1] * more * 16);
				} else if (way != 1) {
					assert_f32(out[2], all[i].l2[0], all[i].l2[1]);
					assert_f32(out[1], all[i].l1[0], all[i].l1[1]);
					assert_f32(out[0], all[i].x[0], all[i].x[1]);
				}
			}
			if (way < 5) assert_int_equal(kit_stats(f).recordings, way == 2 || way == 4 ? 2 : 1);
			tj_close(c);
		}
}

static void names_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = tj_grad_name(tj_sin(in[0]), "h"), *b = tj_grad_name(tj_mul(a, a), "h");
	(void)self;
	tj_grad(out, total(tj_mul(b, tj_f(3))), TJ_LIST(tj_grad_named("h")), NULL);
	assert_ptr_equal(tj_grad_name(in[0], "argument"), in[0]);
	tj_grad(out + 1, total(tj_mul(tj_grad_named("argument"), tj_f(2))), TJ_LIST(in[0]), NULL);
}

/* The scope of the value ends, and its place is taken by another one. */
static void pops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_scope *s = tj_push(tj_ctx_current());
	tj_tensor *h = tj_grad_name(tj_exp(in[0]), "inner"), *y = tj_escape(tj_mul(h, h));
	tj_pop(s);
	s = tj_push(tj_ctx_current());
	tj_mul(tj_sin(in[0]), tj_f(3));
	if (self) tj_item(total(y));
	tj_grad(out, total(y), TJ_LIST(tj_grad_named("inner")), NULL);
	out[0] = tj_escape(out[0]);
	tj_pop(s);
}

static void in_a_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	(void)self;
	tj_scan(&y, NULL, 0, turn, TJ_LIST(in[0]), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 2));
	tj_grad(out, total(y), TJ_LIST(tj_grad_named("scanned.in")), NULL);
}
static void names_sine(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad_name(tj_mul(in[0], tj_f(2)), "double");
	out[0] = tj_sin(tj_grad_name(in[0], "sine"));
}
/* A name in a callback keeps no value of it beyond the callback. */
static void names_in_a_callback(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	if (self) tj_checkpoint(&y, 1, names_sine, TJ_LIST(in[0]), NULL);
	else tj_cond(&y, 1, tj_any(tj_ge(in[0], tj_f(0)), TJ_ALL, false), names_sine, names_sine, TJ_LIST(in[0]), NULL);
	tj_item(total(y));
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
}
static void asks_behind_a_checkpoint(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	(void)self;
	tj_checkpoint(&y, 1, names_sine, TJ_LIST(tj_exp(in[0])), NULL);
	tj_item(total(y));
	tj_grad(out, total(y), TJ_LIST(tj_grad_named("double")), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}
static void unknown_name(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad_name(in[0], "x"), out[0] = tj_grad_named("X");
}
static void null_name(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_grad_name(in[0], NULL); }
static void empty_name(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_grad_name(in[0], ""); }
static void name_of_number(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, (void)self, out[0] = tj_grad_name(tj_f(1), "x"); }
static void name_of_ints(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_grad_name(tj_cast(in[0], TJ_I64), "x");
}
static void hook_of_ints(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_grad_hook(tj_cast(in[0], TJ_I64), clips, NULL);
}
static void hook_of_null(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in, (void)self, out[0] = tj_grad_hook(NULL, clips, NULL);
}
static void gives_total(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = total(in[0]); }
static void gives_ints(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cast(in[0], TJ_I32); }
static void gives_f64(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(tj_cast(in[0], TJ_F64), tj_f(2)); }
static void hook_of_total(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_grad_hook(in[0], gives_total, NULL);
}
static void hook_to_ints(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_grad_hook(in[0], gives_ints, NULL); }
static void hook_to_f64(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_grad_hook(in[0], gives_f64, NULL)), TJ_LIST(in[0]), NULL);
}

static void names_refused(void **s)
{
	static const struct { tj_body *body; tj_status code; const char *op, *message;
	} cases[] = {
		{ in_a_turn, TJ_ERR_STATE, "grad_named", "\"scanned.in\" is a value of a callback of tj_scan at " },
		{ asks_behind_a_checkpoint, TJ_ERR_STATE, "grad_named", "\"double\" is a value of a callback of tj_checkpoint at " },
		{ unknown_name, TJ_ERR_ARG, "grad_named", "has named no value \"X\"" },
		{ null_name, TJ_ERR_ARG, "grad_name", "the name is NULL" },
		{ empty_name, TJ_ERR_ARG, "grad_name", "the name is empty" },
		{ name_of_number, TJ_ERR_ARG, "grad_name", "is a number" },
		{ name_of_ints, TJ_ERR_DTYPE, "grad_name", "the operand is of i64" },
		{ hook_of_ints, TJ_ERR_DTYPE, "grad_hook", "the operand is of i64" },
		{ hook_of_null, TJ_ERR_ARG, "grad_hook", "operand 0 is NULL" },
		{ hook_of_total, TJ_ERR_SHAPE, "grad_hook", "but the hook gives f32[]" },
		{ hook_to_ints, TJ_ERR_DTYPE, "grad_hook", "but the hook gives i32[3]" },
	};
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[1];
		if (tj_call(kit_fn(c, "refused", cases[i].body, NULL, 1, 1), out, TJ_LIST(F32(c, 1, 2, 3))) == TJ_OK)
			fail_msg("case %zu is not refused", i);
		kit_error(c, cases[i].code, cases[i].message);
		assert_string_equal(tj_last_error(c)->op, cases[i].op);
		assert_non_null(strstr(tj_last_error(c)->site, "test_custom.c:"));
		tj_close(c);
	}
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 0, 0);
	tj_tensor *out[2];
	assert_int_equal(tj_call(kit_fn(c, "twice", names_twice, NULL, 1, 2), out, TJ_LIST(x)), TJ_OK);
	assert_f32(out[0], 3, 3);
	assert_f32(out[1], 2, 2);
	for (int looks = 0; looks < 2; looks++) assert_f32(tj_call1(kit_fn(c, "pops", pops, looks ? c : NULL, 1, 1), TJ_LIST(x)), 2, 2);
	for (int kept = 0; kept < 2; kept++)
		assert_f32(tj_call1(kit_fn(c, "in_a_callback", names_in_a_callback, kept ? c : NULL, 1, 1), TJ_LIST(x)), 1, 1);
	assert_f32(tj_call1(kit_fn(c, "wide", hook_to_f64, NULL, 1, 1), TJ_LIST(x)), 2, 2);
	kit_ok(c);
	assert_ptr_equal(tj_grad_name(x, "x"), x);
	assert_true(tj_is_poison(tj_grad_named("x")));
	kit_error(c, TJ_ERR_STATE, "values have names in bodies only");
	tj_close(c);
}

/* ---- in backward, each operand is a tensor of its own ---- */
static void wave(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(tj_sin(in[0]), tj_square(in[1])); }
static void wave_back(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	wave(&y, in, self);
	tj_grad(out, y, TJ_LIST(in[0], in[1]), TJ_OPTS(tj_grad_opts, .cotangent = in[3]));
}
static void wave_back_by_jvp(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *one = tj_ones(TJ_F32, TJ_0D);
	wave(&y, in, self);
	for (int i = 0; i < 2; i++) out[i] = tj_mul(in[3], tj_jvp(y, TJ_LIST(in[i]), TJ_LIST(one), TJ_UNUSED_ERROR));
}
enum { TWICE, FIRST_DEPENDS, SECOND_DEPENDS, KEPT, IN_COND, IN_SCAN, BEHIND_TRUTH, DEPENDENT_WAYS };
static struct { int way; bool plain, by_jvp; } dependent;

static void wave_of(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *z = dependent.way == TWICE ? x : tj_cos(x);
	const tj_list both = dependent.way == FIRST_DEPENDS ? TJ_LIST(z, x) : TJ_LIST(x, z);
	if (dependent.way == BEHIND_TRUTH) tj_truth(z);
	if (dependent.plain) wave(out, both, self);
	else tj_custom_grad(out, 1, wave, dependent.by_jvp ? wave_back_by_jvp : wave_back, both, self);
	if (dependent.way == BEHIND_TRUTH) tj_truth(out[0]);
}
static void of_waves(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	if (dependent.way == KEPT) tj_checkpoint(&y, 1, wave_of, TJ_LIST(in[0]), self);
	else if (dependent.way == IN_COND) tj_cond(&y, 1, tj_gt(in[0], tj_f(0)), wave_of, wave_of, TJ_LIST(in[0]), self);
	else if (dependent.way == IN_SCAN)
		tj_scan(&y, NULL, 0, wave_of, TJ_LIST(in[0]), TJ_NONE, self, TJ_OPTS(tj_scan_opts, .length = 2));
	else wave_of(&y, in, self);
	tj_grad(out, y, TJ_LIST(in[0]), NULL);
	tj_grad(out + 1, out[0], TJ_LIST(in[0]), NULL);
	out[2] = tj_jvp(y, TJ_LIST(in[0]), TJ_LIST(tj_ones(TJ_F32, TJ_0D)), TJ_UNUSED_ERROR);
}

static void dependent_operands(void **s)
{
	(void)s;
	for (int i = 0; i < 2 * DEPENDENT_WAYS; i++) {
		tj_ctx *c = kit_open();
		double got[2][3];
		dependent.way = i / 2;
		dependent.by_jvp = i & 1;
		for (int plain = 0; plain < 2; plain++) {
			tj_tensor *out[3];
			dependent.plain = plain;
			tj_call(kit_fn(c, "of_waves", of_waves, NULL, 1, 3), out, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(0.7))));
			kit_ok(c);
			for (int k = 0; k < 3; k++) got[plain][k] = tj_item(out[k]);
		}
		for (int k = 0; k < 3; k++)
			if (!(got[0][k] - got[1][k] < 1e-5 && got[1][k] - got[0][k] < 1e-5)) fail_msg("way %d: %d is %g, not %g", i, k, got[0][k], got[1][k]);
		tj_close(c);
	}
}

/* ---- refused ---- */
static void wrong_shape(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = total(in[2]); }
static void wrong_dtype(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cast(in[2], TJ_I64); }
static void sets_none(tj_tensor **out, tj_tensor *const *in, void *self) { (void)out, (void)in, (void)self; }
static void nests(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = rounded(in[2]); }

#define REFUSED(name, call) static void name(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)in, call; }
REFUSED(shape, tj_custom_grad(out, 1, rounds, wrong_shape, TJ_LIST(in[0]), NULL))
REFUSED(dtype, tj_custom_grad(out, 1, rounds, wrong_dtype, TJ_LIST(in[0]), NULL))
REFUSED(none, tj_custom_grad(out, 1, rounds, sets_none, TJ_LIST(in[0]), NULL))
REFUSED(number, tj_custom_grad(out, 1, rounds, passes, TJ_LIST(tj_f(1)), NULL))
REFUSED(no_operands, tj_custom_grad(out, 1, rounds, passes, TJ_NONE, NULL))
REFUSED(no_backward, tj_custom_grad(out, 1, rounds, NULL, TJ_LIST(in[0]), NULL))
REFUSED(no_hook, out[0] = tj_grad_hook(in[0], NULL, NULL))
REFUSED(nested, tj_custom_grad(out, 1, rounds, nests, TJ_LIST(in[0]), NULL))

static void refusals(void **s)
{
	static const struct { tj_body *body; tj_status code; const char *message;
	} cases[] = {
		{ shape, TJ_ERR_SHAPE, "but backward gives f32[]" },   { dtype, TJ_ERR_DTYPE, "backward gives i64[3]" },
		{ none, TJ_ERR_ARG, "`backward` did not set out[0]" }, { number, TJ_ERR_ARG, "operand 0 is a number" },
		{ no_backward, TJ_ERR_ARG, "a callback is NULL" },     { no_hook, TJ_ERR_ARG, "the hook is NULL" },
		{ no_operands, TJ_ERR_ARG, "it has no operands" },     { nested, TJ_ERR_STATE, "`backward` of tj_custom_grad cannot have" }
	};
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[1];
		assert_int_not_equal(tj_call(kit_fn(c, "refused", cases[i].body, NULL, 1, 1), out, TJ_LIST(F32(c, 1, 2, 3))), TJ_OK);
		kit_error(c, cases[i].code, cases[i].message);
		tj_close(c);
	}
}

static void outside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1.25f, 2);
	assert_f32(rounded(x), 1, 2);
	assert_ptr_equal(tj_grad_hook(x, clips, NULL), x);
	kit_ok(c);
	assert_true(tj_is_poison(tj_grad_hook(tj_f(1), clips, NULL)));
	kit_error(c, TJ_ERR_ARG, "the operand is a number");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(through),       cmocka_unit_test(in_forward), cmocka_unit_test(no_gradient),
		                            cmocka_unit_test(tangents),      cmocka_unit_test(orders),     cmocka_unit_test(several),
		                            cmocka_unit_test(examples),      cmocka_unit_test(hooks),      cmocka_unit_test(by_name),
		                            cmocka_unit_test(names_refused),
		                            cmocka_unit_test(dependent_operands), cmocka_unit_test(mixed),      cmocka_unit_test(refusals),
		                            cmocka_unit_test(outside) };
	KIT_RUN(tests);
}
