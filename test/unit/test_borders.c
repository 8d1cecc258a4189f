/* SPDX-License-Identifier: MIT */
/* Grids whose ops read beyond their edges, structures of a few fields, bytes: random programs of sizes at which lowering cuts them into
 * boxes and takes them apart, beside the evaluator, bit for bit. */
#include "test/kit.h"
#include "test/skip.h"

#include <math.h>

typedef struct program { uint32_t seed; int rank; int64_t dim[3]; } program;

static uint32_t draw(program *p, uint32_t n)
{
	p->seed = p->seed * 1664525u + 1013904223u;
	return (p->seed >> 8) % n;
}

/* x as it is seen from a few places away, with one of the borders */
static tj_tensor *shifted(program *p, tj_tensor *x)
{
	const int axis = (int)draw(p, (uint32_t)p->rank), by = (int)draw(p, 7) - 3;
	int64_t pads[7] = { 0 };
	if (draw(p, 3) == 0) return tj_roll(x, by, axis);
	for (int i = 0; i < p->rank; i++) {
		const bool here = i == axis || draw(p, 2);
		pads[2 * i] = here ? 3 : 0, pads[2 * i + 1] = here ? 3 : 0;
	}
	pads[2 * p->rank] = TJ_END_DIM;
	tj_tensor *y = tj_pad(x, pads, (tj_pad_mode)draw(p, 4), tj_f(0.5));
	for (int i = 0; i < p->rank; i++) {
		const int64_t from = pads[2 * i] ? 3 + (i == axis ? by : 0) : 0;
		y = tj_slice(y, i, from, from + p->dim[i], 1);
	}
	return draw(p, 6) ? y : tj_flip(y, draw(p, 2) ? TJ_ALL : TJ_AXES(axis));
}

static tj_tensor *weighted(program *p, tj_tensor *x)
{
	tj_tensor *sum = x;
	for (int n = 2 + (int)draw(p, 4); n > 0; n--) {
		tj_tensor *s = shifted(p, x);
		sum = draw(p, 4) == 0 ? tj_maximum(sum, s) : tj_add(sum, tj_mul(s, tj_f(0.25 + draw(p, 4))));
	}
	return sum;
}

static void grids(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program p = *(program *)self;
	tj_tensor *x = draw(&p, 3) ? in[0] : tj_exp(in[0]);
	out[0] = weighted(&p, x);
	out[1] = draw(&p, 2) ? weighted(&p, draw(&p, 2) ? out[0] : tj_mul(out[0], in[1])) : tj_sub(out[0], shifted(&p, in[1]));
	out[2] = draw(&p, 2) ? tj_sum(out[1], TJ_AXES(-1), false) : tj_cast(tj_clamp(out[1], tj_f(0), tj_f(255)), TJ_U8);
}

/* Points: reductions, products, fields, what broadcasts, and all of it joined again. */
static tj_tensor *field(tj_tensor *x, int64_t i) { return tj_select(x, -1, i); }
static void points(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program p = *(program *)self;
	const int64_t n = p.dim[1];
	tj_tensor *x = in[0], *y = in[1], *v[17];
	for (int step = 0; step < 3; step++) {
		tj_tensor *r = NULL;
		switch (draw(&p, 7)) {
		case 0: r = tj_sum(tj_mul(x, y), TJ_AXES(-1), true); break;
		case 1: r = tj_amax(x, TJ_AXES(-1), true); break;
		case 2: r = tj_prod(y, TJ_AXES(-1), true); break;
		case 3: r = tj_unsqueeze(tj_cast(draw(&p, 2) ? tj_argmin(x, -1, false) : tj_argmax(tj_sub(x, y), -1, false), TJ_F32), -1); break;
		case 4: r = tj_matmul(x, tj_slice(y, 0, 0, n, 1)); break;
		case 5: r = tj_unsqueeze(field(x, (int64_t)draw(&p, (uint32_t)n)), -1); break;
		default: r = tj_select(y, 0, 1);
		}
		x = draw(&p, 2) ? tj_add(x, r) : tj_sub(tj_mul(x, r), y);
	}
	for (int64_t i = 0; i < n; i++) v[i] = i % 2 ? field(x, i) : tj_sub(field(x, n - 1 - i), field(y, i));
	v[n] = TJ_END;
	out[0] = x;
	out[1] = tj_stack(v, -1);
	out[2] = tj_amin(tj_mul(x, y), TJ_AXES(0), false);
}

/* Small matrices: products, sums over two axes, running sums, what the rows of a softmax or a norm give. */
static void matrices(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program p = *(program *)self;
	const int64_t n = p.dim[1];
	tj_tensor *x = in[0], *y = in[1], *rows = tj_reshape(x, TJ_SHAPE(p.dim[0], n * n));
	for (int step = 0; step < 3; step++) {
		tj_tensor *r = NULL;
		switch (draw(&p, 8)) {
		case 0: r = tj_sum(tj_mul(x, y), TJ_AXES(1, 2), true); break;
		case 1: r = tj_amax(x, TJ_AXES(1, 2), true); break;
		case 2: r = tj_sum(x, draw(&p, 2) ? TJ_AXES(2) : TJ_AXES(1), true); break;
		case 3: r = tj_matmul(x, draw(&p, 2) ? y : tj_transpose(y, 1, 2)); break;
		case 4: r = tj_matmul(x, tj_slice(y, 2, 0, 1, 1)); break;
		case 5: r = draw(&p, 2) ? tj_cumsum(x, 2) : tj_cumprod(x, 1); break;
		case 6: r = tj_reshape(tj_softmax(rows, -1), TJ_SHAPE(p.dim[0], n, n)); break;
		default: r = tj_unsqueeze(tj_cast(tj_argmax(tj_reshape(x, TJ_SHAPE(p.dim[0], n * n)), -1, false), TJ_F32), -1), r = tj_unsqueeze(r, -1);
		}
		x = draw(&p, 2) ? tj_add(x, r) : tj_sub(tj_mul(x, r), y);
	}
	out[0] = x;
	out[1] = tj_squeeze(tj_matmul(tj_matmul(x, y), tj_slice(in[0], 2, 0, 1, 1)), TJ_AXES(2));
	out[2] = draw(&p, 2) ? tj_logsumexp(rows, TJ_AXES(1), false) : tj_select(tj_reshape(x, TJ_SHAPE(p.dim[0], n * n)), 1, n);
}

/* Bytes: narrow sums, distances, counts. */
static void bytes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program p = *(program *)self;
	tj_tensor *a = in[0], *b = in[1], *wide = tj_cast(a, draw(&p, 2) ? TJ_I32 : TJ_I64);
	tj_tensor *sum = tj_add(tj_mul(wide, tj_i(3)), tj_cast(b, TJ_I32));
	out[0] = tj_cast(draw(&p, 2) ? tj_shift_right(sum, tj_i(1)) : tj_bitwise_xor(sum, tj_i(0x155)), draw(&p, 2) ? TJ_U8 : TJ_I16);
	out[1] = tj_sum(draw(&p, 2) ? tj_abs(tj_sub(tj_cast(a, TJ_I32), tj_cast(b, TJ_I32))) : tj_lt(a, b), TJ_AXES(-1), false);
	if (draw(&p, 3) == 0) /* a table of bytes, read at bytes */
		out[0] = tj_index_select(tj_slice(tj_ravel(b), 0, 0, draw(&p, 2) ? 256 : 300, 1), 0, tj_add(tj_ravel(a), tj_i(draw(&p, 2))));
	if (draw(&p, 2)) { /* a table of n elements */
		static const int64_t sizes[] = { 1, 5, 16, 17, 32, 33, 64, 100, 130, 250 };
		const int64_t n = sizes[draw(&p, 10)];
		tj_tensor *table = tj_slice(tj_ravel(b), 0, 0, n, 1), *index = draw(&p, 2) ? a : tj_cast(a, draw(&p, 2) ? TJ_I32 : TJ_I64);
		if (draw(&p, 2)) table = tj_cast(table, draw(&p, 2) ? TJ_F32 : TJ_I32);
		out[1] = tj_index_select(table, 0, tj_remainder(tj_ravel(index), tj_i(n)));
	}
	out[2] = tj_bincount(tj_ravel(draw(&p, 2) ? a : tj_cast(a, TJ_I32)), NULL, 0, 256);
}

/* Pixels: columns in another order, some of them, joined with others; quotients. */
static tj_tensor *recoloured(program *p, tj_tensor *x)
{
	const int64_t n = tj_dim(x, 1);
	switch (draw(p, 7)) {
	case 0: return tj_flip(x, TJ_AXES(-1));
	case 1: return tj_cat(TJ_LIST(tj_slice(x, 1, 1, n, 1), tj_slice(x, 1, 0, 1, 1)), 1);
	case 2: return tj_cat(TJ_LIST(tj_slice(x, 1, n - 1, n, 1), tj_mul(tj_slice(x, 1, 0, n - 1, 1), tj_i(3))), 1);
	case 3: return tj_floor_divide(tj_add(x, tj_slice(x, 1, 0, 1, 1)), tj_i(1 + draw(p, 40)));
	case 4: return tj_remainder(tj_flip(x, TJ_AXES(-1)), tj_i(2 + draw(p, 40)));
	case 5: return tj_trunc_divide(tj_add(tj_mul(x, tj_slice(x, 1, n - 1, n, 1)), tj_i(127)), tj_i(1 + draw(p, 255)));
	default: return tj_transpose(tj_reshape(tj_transpose(x, 0, 1), TJ_SHAPE(n, tj_dim(x, 0))), 0, 1);
	}
}

static void pixels(tj_tensor **out, tj_tensor *const *in, void *self)
{
	static const tj_dtype wide[] = { TJ_U8, TJ_I16, TJ_I32, TJ_I64 };
	program p = *(program *)self;
	tj_tensor *x = tj_cast(in[0], wide[draw(&p, 4)]), *y = tj_cast(in[1], TJ_F32);
	for (int i = 0; i < 3; i++) x = recoloured(&p, x);
	out[0] = tj_cast(x, TJ_U8);
	out[1] = draw(&p, 2) ? tj_flip(in[1], TJ_AXES(-1)) : tj_add(tj_flip(y, TJ_AXES(draw(&p, 2))), tj_cast(x, TJ_F32));
	out[2] = draw(&p, 3) ? tj_mul(tj_slice(y, 1, 0, p.dim[1] - 1, 1), tj_f(0.5)) : tj_sum(recoloured(&p, x), TJ_AXES(-1), false);
}

/* Long chains in which each value is read twice: lowering looks at a few ways to a value, not at all of them. */
static void chains(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const program *p = self;
	tj_tensor *u = tj_roll(in[0], 1, 0), *v = tj_mul(in[1], tj_f(1e-3));
	for (int i = 0; i < 200; i++) {
		u = tj_add(tj_mul(u, tj_f(0.99)), in[0]);
		v = tj_add(tj_mul(v, tj_sum(v, p->seed % 2 ? TJ_AXES(-1) : TJ_ALL, true)), v);
	}
	out[0] = u, out[1] = v;
	out[2] = tj_sum(v, TJ_ALL, false);
}

/* Slices of bytes that are cast, of products, of stencils: each read at several places. Some have steps. */
static tj_tensor *taps(program *p, tj_tensor *x)
{
	const int axis = (int)draw(p, 2), n = 2 + (int)draw(p, 3), step = tj_dim(x, axis) < 60 || draw(p, 2) ? 1 : 2 + (int)draw(p, 2);
	const int64_t size = tj_dim(x, axis) - 2 * n;
	tj_tensor *sum = NULL;
	for (int k = 0; k < n; k++) {
		tj_tensor *t = tj_slice(x, axis, k * (1 + k % 2), k * (1 + k % 2) + size, step);
		if (draw(p, 2)) t = tj_mul(t, tj_f(0.5 * k - 1));
		sum = !sum ? t : draw(p, 3) ? tj_add(sum, t) : tj_maximum(t, sum);
	}
	return sum;
}

static void stencils(tj_tensor **out, tj_tensor *const *in, void *self)
{
	program p = *(program *)self;
	tj_tensor *x = tj_cast(in[0], draw(&p, 2) ? TJ_F32 : TJ_F64), *y = tj_cast(in[1], TJ_F32);
	if (draw(&p, 2)) x = tj_mul(tj_sub(x, tj_f(draw(&p, 9))), draw(&p, 2) ? y : tj_mean(y, TJ_AXES(draw(&p, 2)), true));
	if (draw(&p, 4) == 0) x = tj_exp(tj_mul(x, tj_f(-0.01)));
	tj_tensor *a = taps(&p, x), *b = taps(&p, draw(&p, 2) ? a : x);
	out[0] = draw(&p, 2) ? tj_cast(b, TJ_F32) : tj_cast(tj_clamp(b, tj_f(0), tj_f(255)), TJ_U8);
	out[1] = draw(&p, 3) ? tj_sum(tj_mul(a, a), draw(&p, 2) ? TJ_AXES(-1) : TJ_ALL, false) : tj_cast(x, TJ_F32);
	out[2] = tj_cast(taps(&p, draw(&p, 2) ? tj_transpose(b, 0, 1) : tj_floor_divide(tj_cast(in[0], TJ_I32), tj_i(1 + draw(&p, 4)))), TJ_F32);
}

static void fill(program *p, void *data, tj_dtype t, int64_t n)
{
	static const float odd[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN };
	for (int64_t i = 0; i < n; i++) {
		const uint32_t r = draw(p, 1000);
		if (t == TJ_U8 || t == TJ_BOOL) ((uint8_t *)data)[i] = (uint8_t)(draw(p, 3) ? r : 255);
		else ((float *)data)[i] = r < 10 ? odd[r % 5] : r < 60 ? 1 : r < 400 ? odd[r % 2] : ((float)r - 900) / 64;
	}
}

static void same(tj_body *body, program p, tj_dtype t, const char *what)
{
	enum { MOST = 6000 };
	static float data[2][MOST];
	static char got[2][3][8 * MOST];
	int64_t dim[4], n = 1;
	for (int i = 0; i < p.rank; i++) n *= dim[i] = p.dim[i];
	dim[p.rank] = TJ_END_DIM;
	program values = p;
	for (int k = 0; k < 2; k++) fill(&values, data[k], t, n);
	size_t size[3] = { 0 };
	for (int k = 0; k < 2; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = k ? kit_backend : "eval"));
		tj_tensor *y[3];
		tj_call(kit_fn(c, what, body, &p, 2, 3), y, TJ_LIST(tj_from_data(c, t, dim, data[0]), tj_from_data(c, t, dim, data[1])));
		for (int o = 0; o < 3; o++) {
			size[o] = (size_t)tj_numel(y[o]) * tj_dtype_size(tj_dtype_of(y[o]));
			assert_true(size[o] <= sizeof got[k][o]);
			tj_read(y[o], got[k][o], size[o]);
			for (size_t i = 0; tj_dtype_of(y[o]) == TJ_F32 && i < size[o] / 4; i++) { /* all NaN are one */
				float *v = (float *)got[k][o] + i;
				if (*v != *v) *v = NAN;
			}
		}
		kit_ok(c);
		tj_close(c);
	}
	for (int o = 0; o < 3; o++)
		if (memcmp(got[0][o], got[1][o], size[o])) fail_msg("%s: seed %u, output %d is not the evaluator's", what, p.seed, o);
}

static void use_width(int i)
{
	static const char *const width[] = { NULL, "256", "128" };
	if (width[i % 3]) setenv("TJ_CPU", width[i % 3], 1);
	else unsetenv("TJ_CPU");
}

/* n programs, or a few where the evaluator is beside itself. A sample of them under sanitizers, unless they are few. */
typedef program sized(int i);
static void each(tj_body *body, tj_dtype t, const char *what, int n, sized *program_at)
{
	enum { FEW = 36 };
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? n : 3); i++) {
		if (i && n > FEW && left_out((unsigned long)i)) continue;
		use_width(i / 3);
		same(body, program_at(i), t, what);
	}
	use_width(0);
}

static program grid(int i)
{
	program p = { (uint32_t)i * 7919u + 1, 1 + i % 3, { 0 } };
	for (int k = 0; k < p.rank; k++) p.dim[k] = p.rank == 1 ? 300 + draw(&p, 90) : p.rank == 2 ? 17 + draw(&p, 30) : 9 + draw(&p, 8);
	return p;
}

static program points_of(int i) { return (program){ (uint32_t)i * 6007u + 1, 2, { 130 + i, i % 5 ? 2 + i % 3 : i % 2 ? 8 : 16 } }; }
static program matrices_of(int i) { return (program){ (uint32_t)i * 4001u + 1, 3, { 70 + i, 2 + i % 3, 2 + i % 3 } }; }
static program pixels_of(int i) { return (program){ (uint32_t)i * 7013u + 1, 2, { 130 + i, 2 + i % 4 } }; }
static program bytes_of(int i) { return (program){ (uint32_t)i * 5003u + 1, 2, { 3 + i % 4, 200 + 37 * (i % 11) } }; }
static program picture(int i) { return (program){ (uint32_t)i * 3001u + 1, 2, { 30 + i % 4, 70 + 7 * (i % 11) } }; }

static void all_grids(void **s) { (void)s, each(grids, TJ_F32, "grids", 90, grid); }
static void all_points(void **s) { (void)s, each(points, TJ_F32, "points", 90, points_of); }
static void all_matrices(void **s) { (void)s, each(matrices, TJ_F32, "matrices", 60, matrices_of); }
static void all_pixels(void **s) { (void)s, each(pixels, TJ_U8, "pixels", 90, pixels_of); }
static void all_bytes(void **s) { (void)s, each(bytes, TJ_U8, "bytes", 120, bytes_of); }
static void all_stencils(void **s) { (void)s, each(stencils, TJ_U8, "stencils", 90, picture); }

/* Sizes that move are cut at the edges, too, and from the third one on code is there already. */
static void wave(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *p = tj_pad(x, TJ_SHAPE(0, 0, 2, 2), TJ_PAD_REFLECT, NULL);
	(void)self;
	tj_tensor *right = tj_slice(p, 1, 4, tj_dim(p, 1), 1), *left = tj_slice(p, 1, 0, tj_dim(x, 1), 1);
	out[0] = tj_sub(tj_add(tj_roll(x, 1, 0), tj_roll(x, -1, 0)), tj_mul(right, left));
}

static void sizes_move(void **s)
{
	enum { SIZES = 6, H = 40, W = 90 };
	static float x[2 * H * 2 * W], want[2 * H * 2 * W], got[2 * H * 2 * W];
	tj_ctx *c[2] = { tj_open(TJ_OPTS(tj_open_opts, .backend = "eval")), NULL };
	tj_fn *f[2] = { kit_fn(c[0], "wave", wave, NULL, 1, 1), NULL };
	c[1] = kit_open();
	f[1] = kit_fn(c[1], "wave", wave, NULL, 1, 1);
	uint64_t compiled[SIZES];
	(void)s;
	for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 37 % 101) - 50;
	for (int i = 0; i < SIZES; i++) {
		const int64_t h = H + 5 * i, w = W + 11 * i;
		for (int k = 0; k < 2; k++) {
			tj_ctx_use(c[k]);
			tj_tensor *y = tj_call1(f[k], TJ_LIST(tj_from_data(c[k], TJ_F32, TJ_SHAPE(h, w), x)));
			tj_read(y, k ? got : want, sizeof(float) * (size_t)(h * w));
			kit_ok(c[k]);
		}
		assert_memory_equal(want, got, sizeof(float) * (size_t)(h * w));
		compiled[i] = kit_stats(f[1]).compiled;
	}
	assert_int_equal(compiled[SIZES - 1], compiled[SIZES - 3]);
	tj_close(c[0]);
	tj_close(c[1]);
}

/* Windows that overlap: fields of several structures at once, a few places apart. */
static void windows(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const program *p = self;
	const int64_t step = 2 + p->seed % 3, size = 2 * step + p->seed / 3 % 3, n = (p->dim[1] - size) / step;
	tj_tensor *w = NULL;
	for (int64_t k = size - 1; k >= 0; k--) {
		tj_tensor *x = tj_slice(in[0], 1, k, k + n * step, step);
		w = !w ? x : k % 2 ? tj_maximum(w, x) : tj_add(w, x);
	}
	out[0] = w;
	out[1] = tj_cast(tj_mul(tj_cast(w, TJ_BF16), tj_cast(tj_slice(in[1], 1, 0, n * step, step), TJ_BF16)), TJ_F32);
	out[2] = tj_amax(w, TJ_AXES(0), false);
}

static void all_windows(void **s)
{
	(void)s;
	for (uint32_t i = 0; i < 18; i++) {
		use_width((int)i / 9);
		same(windows, (program){ i, 2, { 9, 130 } }, TJ_F32, "windows");
	}
	use_width(0);
}

/* Each byte of a bool that is not 0 is index 1. */
static void raw_bools(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *ones = tj_full_like(tj_cast(in[0], TJ_F32), tj_i(1));
	out[0] = tj_scatter_add(tj_zeros(TJ_F32, TJ_SHAPE(4)), 0, in[0], ones);
	out[1] = tj_bincount(in[0], NULL, 0, 2);
	out[2] = tj_index_select(in[1], 0, in[0]);
}

static void bools(void **s)
{
	(void)s;
	for (uint32_t i = 0; i < 2; i++) same(raw_bools, (program){ i, 1, { 700 } }, TJ_BOOL, "bools");
}

static void long_chains(void **s)
{
	(void)s;
	for (uint32_t i = 0; i < 2; i++) same(chains, (program){ i, 2, { 100, 3 } }, TJ_F32, "chains");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_grids),   cmocka_unit_test(all_points),   cmocka_unit_test(all_matrices),
		                            cmocka_unit_test(all_bytes),   cmocka_unit_test(long_chains),  cmocka_unit_test(bools),
		                            cmocka_unit_test(all_pixels),
		                            cmocka_unit_test(all_windows), cmocka_unit_test(all_stencils), cmocka_unit_test(sizes_move) };
	KIT_RUN(tests);
}
