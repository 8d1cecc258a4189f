/* SPDX-License-Identifier: MIT */
/* interpolate, grid_sample, affine_grid (functions/resize.c, functions/sample.c): values of PyTorch, gradients to the third order, compiled
 * code, many sizes, errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-11, #name)
#define RESIZED(x, size, ...) tj_interpolate(x, size, TJ_OPTS(tj_interpolate_opts, __VA_ARGS__))
#define SAMPLED(x, grid, ...) tj_grid_sample(x, grid, TJ_OPTS(tj_grid_sample_opts, __VA_ARGS__))
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }

static void sizes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(1, 2, 5, 4)), *b = x(0, TJ_SHAPE(1, 2, 9, 7));
	KNOWN(tj_interpolate(a, TJ_SHAPE(8, 3), NULL), resize_nearest);
	KNOWN(RESIZED(a, TJ_SHAPE(8, 3), .mode = TJ_SAMPLE_NEAREST_EXACT), resize_exact);
	KNOWN(RESIZED(a, TJ_SHAPE(3, 3), .mode = TJ_SAMPLE_AREA), resize_area);
	KNOWN(RESIZED(a, NULL, .mode = TJ_SAMPLE_LINEAR, .scale = { 1.7, 0.8 }), resize_scale);
	KNOWN(RESIZED(a, NULL, .scale = { 1.7, 0.8 }), resize_scale_nearest);
	KNOWN(RESIZED(a, TJ_SHAPE(8, 3), .mode = TJ_SAMPLE_LINEAR), resize_linear_0);
	KNOWN(RESIZED(a, TJ_SHAPE(8, 3), .mode = TJ_SAMPLE_LINEAR, .align_corners = true), resize_linear_1);
	KNOWN(RESIZED(b, TJ_SHAPE(4, 8), .mode = TJ_SAMPLE_LINEAR, .antialias = true), resize_linear_anti_0);
	KNOWN(RESIZED(b, TJ_SHAPE(4, 8), .mode = TJ_SAMPLE_LINEAR, .antialias = true, .align_corners = true), resize_linear_anti_1);
	KNOWN(RESIZED(a, TJ_SHAPE(8, 3), .mode = TJ_SAMPLE_CUBIC), resize_cubic_0);
	KNOWN(RESIZED(a, TJ_SHAPE(8, 3), .mode = TJ_SAMPLE_CUBIC, .align_corners = true), resize_cubic_1);
	KNOWN(RESIZED(b, TJ_SHAPE(4, 8), .mode = TJ_SAMPLE_CUBIC, .antialias = true), resize_cubic_anti_0);
	KNOWN(RESIZED(b, TJ_SHAPE(4, 8), .mode = TJ_SAMPLE_CUBIC, .antialias = true, .align_corners = true), resize_cubic_anti_1);
	KNOWN(RESIZED(x(0, TJ_SHAPE(2, 1, 4)), TJ_SHAPE(7), .mode = TJ_SAMPLE_LINEAR), resize_1d);
	KNOWN(RESIZED(x(0, TJ_SHAPE(1, 1, 3, 2, 4)), TJ_SHAPE(2, 5, 3), .mode = TJ_SAMPLE_LINEAR, .align_corners = true), resize_3d);
	KNOWN(RESIZED(a, TJ_SHAPE(1, 1), .mode = TJ_SAMPLE_LINEAR, .align_corners = true), resize_one);
	const uint8_t *v =
		tj_data(tj_interpolate(tj_from_data(c, TJ_U8, TJ_SHAPE(1, 1, 2), (uint8_t[]){ 7, 9 }), TJ_SHAPE(5), NULL)); /* any dtype */
	for (int i = 0; i < 5; i++) assert_int_equal(v[i], i < 3 ? 7 : 9);
	kit_ok(c);
	tj_close(c);
}

static void grids(void **state)
{
	(void)state;
	static const double *const known[3][3][2] = {
		/* mode, padding, aligned */
		{ { known_grid_linear_zeros_0, known_grid_linear_zeros_1 },
		  { known_grid_linear_border_0, known_grid_linear_border_1 },
		  { known_grid_linear_reflection_0, known_grid_linear_reflection_1 } },
		{ { known_grid_nearest_zeros_0, known_grid_nearest_zeros_1 },
		  { known_grid_nearest_border_0, known_grid_nearest_border_1 },
		  { known_grid_nearest_reflection_0, known_grid_nearest_reflection_1 } },
		{ { known_grid_cubic_zeros_0, known_grid_cubic_zeros_1 },
		  { known_grid_cubic_border_0, known_grid_cubic_border_1 },
		  { known_grid_cubic_reflection_0, known_grid_cubic_reflection_1 } },
	};
	static const tj_sampling mode[] = { TJ_SAMPLE_DEFAULT, TJ_SAMPLE_NEAREST, TJ_SAMPLE_CUBIC };
	static const tj_pad_mode padding[] = { TJ_PAD_CONSTANT, TJ_PAD_REPLICATE, TJ_PAD_REFLECT };
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(2, 3, 4, 5)), *grid = tj_mul(x(1, TJ_SHAPE(2, 3, 4, 2)), tj_f(1.3));
	for (int m = 0; m < 3; m++)
		for (int p = 0; p < 3; p++)
			for (int align = 0; align < 2; align++) {
				char what[64];
				snprintf(what, sizeof what, "mode %d, padding %d, align %d", m, p, align);
				layer_near(SAMPLED(a, grid, .mode = mode[m], .padding = padding[p], .align_corners = align), 72, known[m][p][align], 1e-11, what);
			}
	KNOWN(SAMPLED(x(0, TJ_SHAPE(2, 1, 3, 4, 2)), tj_mul(x(1, TJ_SHAPE(2, 2, 3, 1, 3)), tj_f(1.2)), .padding = TJ_PAD_REFLECT), grid_3d);
	KNOWN(SAMPLED(x(0, TJ_SHAPE(1, 1, 1, 3)), tj_mul(x(1, TJ_SHAPE(1, 2, 2, 2)), tj_f(1.3)), .padding = TJ_PAD_REFLECT,
	              .align_corners = true),
	      grid_one);
	KNOWN(tj_affine_grid(x(0, TJ_SHAPE(2, 2, 3)), TJ_SHAPE(2, 1, 3, 4), false), affine_0);
	KNOWN(tj_affine_grid(x(0, TJ_SHAPE(2, 2, 3)), TJ_SHAPE(2, 1, 3, 4), true), affine_1);
	KNOWN(tj_affine_grid(x(0, TJ_SHAPE(1, 3, 4)), TJ_SHAPE(1, 1, 2, 3, 1), false), affine_3d_0);
	KNOWN(tj_affine_grid(x(0, TJ_SHAPE(1, 3, 4)), TJ_SHAPE(1, 1, 2, 3, 1), true), affine_3d_1);
	/* the grid of the identity gives the picture */
	tj_tensor *one = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2, 3), (double[]){ 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0 });
	for (int align = 0; align < 2; align++)
		layer_near(SAMPLED(a, tj_affine_grid(one, TJ_SHAPE(2, 3, 4, 5), align), .align_corners = align), 120, tj_data(a), 1e-12,
		           "identity");
	tj_tensor *ends = tj_from_data(c, TJ_F64, TJ_SHAPE(1, 1, 1, 2), (double[]){ 1, INFINITY }),
		  *last = tj_from_data(c, TJ_F64, TJ_SHAPE(1, 1, 1, 2), (double[]){ 1, 0 });
	for (int p = TJ_PAD_CONSTANT; p <= TJ_PAD_REPLICATE; p++)
		assert_true(tj_item(SAMPLED(ends, last, .padding = (tj_pad_mode)p, .align_corners = true)) == INFINITY); /* no 0 * inf */
	tj_tensor *line = tj_reshape(ends, TJ_SHAPE(1, 1, 2)), *same = RESIZED(line, NULL, .mode = TJ_SAMPLE_LINEAR, .scale = { 1.2 });
	assert_memory_equal(tj_data(same), tj_data(line), 2 * sizeof(double)); /* an axis that keeps its size is copied */
	tj_tensor *front = tj_flip(tj_pad(line, TJ_SHAPE(3, 0), TJ_PAD_REPLICATE, tj_i(0)), TJ_AXES(2)); /* inf, 1, 1, 1, 1 */
	layer_near(tj_slice(RESIZED(front, TJ_SHAPE(2), .mode = TJ_SAMPLE_LINEAR, .antialias = true), 2, 1, 2, 1), 1, (double[]){ 1 },
	           1e-12, "beyond the filter");
	assert_int_equal(
		tj_numel(SAMPLED(tj_zeros(TJ_F64, TJ_SHAPE(0, 3, 4, 5)), tj_zeros(TJ_F64, TJ_SHAPE(0, 2, 2, 2)), .align_corners = true)),
		0);
	kit_ok(c);
	tj_close(c);
}

/* ---- as layers ---- */
enum {
	NEAREST,
	EXACT,
	LINEAR,
	ALIGNED,
	CUBIC,
	ANTI,
	ANTI_CUBIC,
	AREA,
	GRID,
	GRID_BORDER,
	GRID_REFLECT,
	GRID_CUBIC,
	GRID_NEAREST,
	AFFINE,
	KINDS
};
static void of_kind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	switch (*(int *)self) {
	case NEAREST: out[0] = tj_interpolate(in[0], TJ_SHAPE(7, 3), NULL); break;
	case EXACT: out[0] = RESIZED(in[0], NULL, .mode = TJ_SAMPLE_NEAREST_EXACT, .scale = { 1.5, 0.7 }); break;
	case LINEAR: out[0] = RESIZED(in[0], TJ_SHAPE(7, 3), .mode = TJ_SAMPLE_LINEAR); break;
	case ALIGNED: out[0] = RESIZED(in[0], TJ_SHAPE(7, 3), .mode = TJ_SAMPLE_LINEAR, .align_corners = true); break;
	case CUBIC: out[0] = RESIZED(in[0], TJ_SHAPE(7, 3), .mode = TJ_SAMPLE_CUBIC); break;
	case ANTI: out[0] = RESIZED(in[0], TJ_SHAPE(2, 3), .mode = TJ_SAMPLE_LINEAR, .antialias = true); break;
	case ANTI_CUBIC: out[0] = RESIZED(in[0], TJ_SHAPE(2, 3), .mode = TJ_SAMPLE_CUBIC, .antialias = true); break;
	case AREA: out[0] = RESIZED(in[0], TJ_SHAPE(2, 3), .mode = TJ_SAMPLE_AREA); break;
	case GRID: out[0] = tj_grid_sample(in[0], in[1], NULL); break;
	case GRID_BORDER: out[0] = SAMPLED(in[0], in[1], .padding = TJ_PAD_REPLICATE, .align_corners = true); break;
	case GRID_REFLECT: out[0] = SAMPLED(in[0], in[1], .padding = TJ_PAD_REFLECT); break;
	case GRID_CUBIC: out[0] = SAMPLED(in[0], in[1], .mode = TJ_SAMPLE_CUBIC); break;
	case GRID_NEAREST: out[0] = SAMPLED(in[0], in[1], .mode = TJ_SAMPLE_NEAREST); break;
	default: out[0] = tj_grid_sample(in[0], tj_affine_grid(in[1], TJ_SHAPE(2, 2, 3, 2), false), NULL); break;
	}
}

static void gradients(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++)
		for (tj_dtype t = TJ_F64; t >= (strcmp(kit_backend, "eval") ? TJ_F16 : TJ_F64); t--) {
			char what[32];
			snprintf(what, sizeof what, "case %d of %s", kind, tj_dtype_name(t));
			layer l = { .body = of_kind,
				    .self = &kind,
				    .nin = kind >= GRID ? 2 : 1,
				    .in = { layer_tensor(c, t, TJ_SHAPE(2, 2, 4, 5), 0),
				            kind == AFFINE ? layer_tensor(c, t, TJ_SHAPE(2, 2, 3), 1)
				                           : layer_tensor(c, t, TJ_SHAPE(2, 2, 3, 2), 1) } };
			layer_check(&l, what);
		}
	kit_ok(c);
	tj_close(c);
}

/* ---- other sizes make no other code ---- */
static void doubled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = RESIZED(in[0], TJ_SHAPE(2 * tj_dim(in[0], 2), 2 * tj_dim(in[0], 3)), .mode = TJ_SAMPLE_LINEAR);
}
static void sweep(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, doubled, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .name = "doubled", .dynamic = TJ_DYNAMIC_ON));
	uint64_t compiles = 0;
	for (int64_t n = 5; n < 40; n += 7) {
		tj_tensor *a = tj_normal(TJ_F32, TJ_SHAPE(1, 3, n, n + 1)), *y = tj_call1(f, TJ_LIST(a)),
			  *z = RESIZED(a, TJ_SHAPE(2 * n, 2 * n + 2), .mode = TJ_SAMPLE_LINEAR);
		assert_memory_equal(tj_data(y), tj_data(z), sizeof(float) * (size_t)tj_numel(z));
		if (n < 13) compiles = kit_stats(f).compiles;
		assert_int_equal(kit_stats(f).compiles, compiles);
	}
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = x(0, TJ_SHAPE(1, 2, 4, 5)), *i = tj_cast(a, TJ_I32), *grid = x(1, TJ_SHAPE(1, 2, 3, 2));
	LAYER_REFUSED(tj_interpolate(NULL, TJ_SHAPE(2, 2), NULL), ARG, "interpolate", "x is NULL");
	LAYER_REFUSED(tj_interpolate(a, TJ_SHAPE(2), NULL), ARG, "interpolate", "2 sizes of the result are needed");
	LAYER_REFUSED(tj_interpolate(a, NULL, NULL), ARG, "interpolate", "the scale of axis 2 is 0");
	LAYER_REFUSED(RESIZED(a, TJ_SHAPE(2, 2), .scale = { 2, 2 }), ARG, "interpolate", "size and .scale are both set");
	LAYER_REFUSED(RESIZED(a, NULL, .scale = { 0.1, 2 }), ARG, "interpolate", "axis 2 of the result would be empty");
	LAYER_REFUSED(RESIZED(i, TJ_SHAPE(2, 2), .mode = TJ_SAMPLE_LINEAR), DTYPE, "interpolate", "x is i32, no float");
	LAYER_REFUSED(RESIZED(a, TJ_SHAPE(2, 2), .align_corners = true), ARG, "interpolate", ".align_corners is set");
	LAYER_REFUSED(RESIZED(a, TJ_SHAPE(2, 2), .mode = TJ_SAMPLE_AREA, .antialias = true), ARG, "interpolate", ".antialias is set");
	LAYER_REFUSED(RESIZED(a, TJ_SHAPE(2, 2), .mode = (tj_sampling)9), ARG, "interpolate", "there is no mode 9");
	LAYER_REFUSED(tj_interpolate(x(0, TJ_SHAPE(4, 5)), TJ_SHAPE(2), NULL), SHAPE, "interpolate", "x has 2 axes");
	LAYER_REFUSED(tj_interpolate(tj_zeros(TJ_F32, TJ_SHAPE(1, 1, 0)), TJ_SHAPE(2), NULL), SHAPE, "interpolate", "axis 2 of x is empty");
	LAYER_REFUSED(tj_grid_sample(a, x(0, TJ_SHAPE(1, 2, 3, 3)), NULL), SHAPE, "grid_sample", "the grid does not fit x");
	LAYER_REFUSED(tj_grid_sample(i, grid, NULL), DTYPE, "grid_sample", "x is i32");
	LAYER_REFUSED(SAMPLED(a, grid, .mode = TJ_SAMPLE_AREA), ARG, "grid_sample", "mode 5 is not for this function");
	LAYER_REFUSED(SAMPLED(a, grid, .padding = TJ_PAD_CIRCULAR), ARG, "grid_sample", "padding 3 is not for this function");
	LAYER_REFUSED(SAMPLED(x(0, TJ_SHAPE(1, 2, 4, 5, 6)), x(0, TJ_SHAPE(1, 1, 1, 1, 3)), .mode = TJ_SAMPLE_CUBIC), ARG, "grid_sample",
	              "TJ_SAMPLE_CUBIC has two axes");
	LAYER_REFUSED(tj_affine_grid(a, TJ_SHAPE(1, 1, 2, 2), false), SHAPE, "affine_grid", "theta is not [1,2,3]");
	LAYER_REFUSED(tj_affine_grid(x(0, TJ_SHAPE(1, 2, 3)), TJ_SHAPE(1, 2), false), ARG, "affine_grid", "size has not 4 or 5 entries");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sizes), cmocka_unit_test(grids), cmocka_unit_test(gradients),
		                            cmocka_unit_test(sweep), cmocka_unit_test(errors) };
	KIT_RUN(tests);
}
