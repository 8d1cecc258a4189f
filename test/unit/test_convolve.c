/* SPDX-License-Identifier: MIT */
/* Convolution and pooling against loops in C, over random sizes and options; as users call them; errors; symbolic sizes. */
#include "test/kit.h"

#include <math.h>

enum { AXES = 3, MOST = 40000 };

static uint64_t seed = 7;
static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* One convolution or pool: always three axes, of size 1 where x has fewer. */
typedef struct problem {
	int n;
	int64_t batch, groups, in, out;
	int64_t x[AXES], k[AXES], stride[AXES], padding[AXES], dilation[AXES], extra[AXES], y[AXES];
	bool ceil, exclude;
	int64_t divisor;
	double data[MOST], weight[MOST], bias[64], want[MOST];
} problem;
static problem p;

static int64_t volume(const int64_t *d) { return d[0] * d[1] * d[2]; }
static int64_t span(int i) { return (p.k[i] - 1) * p.dilation[i] + 1; }

static void draw(bool transposed)
{
	p.n = 1 + (int)below(3);
	p.batch = 1 + below(3);
	p.groups = 1 + below(3);
	p.in = p.groups * (1 + below(3));
	p.out = p.groups * (1 + below(3));
	for (int i = 0; i < AXES; i++) {
		const bool used = i >= AXES - p.n;
		p.k[i] = used ? 1 + below(3) : 1;
		p.stride[i] = used ? 1 + below(3) : 1;
		p.dilation[i] = used ? 1 + below(2) : 1;
		p.padding[i] = used ? below(transposed ? span(i) : 3) : 0;
		p.extra[i] = 0;
		p.x[i] = used ? span(i) + below(5) : 1;
		if (transposed) p.extra[i] = used && p.stride[i] > 1 ? below(p.stride[i]) : 0;
		p.y[i] = transposed ? (p.x[i] - 1) * p.stride[i] - 2 * p.padding[i] + span(i) + p.extra[i]
		                    : (p.x[i] + 2 * p.padding[i] - span(i)) / p.stride[i] + 1;
	}
	for (int i = 0; i < MOST; i++) p.data[i] = (double)below(9) - 4, p.weight[i] = (double)below(7) - 3;
	for (int i = 0; i < 64; i++) p.bias[i] = (double)below(5);
}

/* Calls f for each pair of an element of the small side and a place of its window, with the element of the large side, or -1 beside it. */
static void each_place(const int64_t *large, const int64_t *small, void (*f)(int64_t at, int64_t window, int64_t place, void *self),
                       void *self)
{
	for (int64_t w = 0; w < volume(small); w++)
		for (int64_t k = 0; k < volume(p.k); k++) {
			const int64_t i[] = { w / (small[1] * small[2]), w / small[2] % small[1], w % small[2] },
				      j[] = { k / (p.k[1] * p.k[2]), k / p.k[2] % p.k[1], k % p.k[2] };
			int64_t at = 0;
			for (int a = 0; a < AXES; a++) {
				const int64_t e = i[a] * p.stride[a] - p.padding[a] + j[a] * p.dilation[a];
				at = at < 0 || e < 0 || e >= large[a] ? -1 : at * large[a] + e;
			}
			f(at, w, k, self);
		}
}

typedef struct pair { const double *x, *weight; double *y; } pair;
static void multiply(int64_t at, int64_t window, int64_t place, void *self)
{
	const pair *t = self;
	if (at >= 0) t->y[window] += t->x[at] * t->weight[place];
}
static void multiply_back(int64_t at, int64_t window, int64_t place, void *self)
{
	const pair *t = self;
	if (at >= 0) t->y[at] += t->x[window] * t->weight[place];
}

static void expect_conv(bool transposed, bool biased)
{
	const int64_t ci = p.in / p.groups, co = p.out / p.groups, vx = volume(p.x), vy = volume(p.y), vk = volume(p.k);
	for (int64_t n = 0; n < p.batch; n++)
		for (int64_t o = 0; o < p.out; o++) {
			double *y = p.want + (n * p.out + o) * vy;
			for (int64_t i = 0; i < vy; i++) y[i] = biased ? p.bias[o] : 0;
			for (int64_t c = 0; c < ci; c++) {
				const int64_t channel = o / co * ci + c;
				pair t = { p.data + (n * p.in + channel) * vx, p.weight + (transposed ? channel * co + o % co : o * ci + c) * vk, y };
				if (transposed) each_place(p.y, p.x, multiply_back, &t);
				else each_place(p.x, p.y, multiply, &t);
			}
		}
}

/* ---- functions that are compiled ---- */
typedef struct call { int kind; bool biased; tj_conv_opts conv; tj_pool_opts pool; int64_t kernel[AXES + 1]; } call;

static void convolve(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const call *c = self;
	tj_tensor *b = c->biased ? in[2] : NULL;
	switch (tj_rank(in[1]) * 2 + (c->kind != 0)) {
	case 6: out[0] = tj_conv1d(in[0], in[1], b, &c->conv); break;
	case 7: out[0] = tj_conv_transpose1d(in[0], in[1], b, &c->conv); break;
	case 8: out[0] = tj_conv2d(in[0], in[1], b, &c->conv); break;
	case 9: out[0] = tj_conv_transpose2d(in[0], in[1], b, &c->conv); break;
	case 10: out[0] = tj_conv3d(in[0], in[1], b, &c->conv); break;
	default: out[0] = tj_conv_transpose3d(in[0], in[1], b, &c->conv); break;
	}
}

static void pooled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const call *c = self;
	switch ((tj_rank(in[0]) - 2) * 2 + c->kind) {
	case 2: out[0] = tj_max_pool1d(in[0], c->kernel, &c->pool); break;
	case 3: out[0] = tj_avg_pool1d(in[0], c->kernel, &c->pool); break;
	case 4: out[0] = tj_max_pool2d(in[0], c->kernel, &c->pool); break;
	case 5: out[0] = tj_avg_pool2d(in[0], c->kernel, &c->pool); break;
	case 6: out[0] = tj_max_pool3d(in[0], c->kernel, &c->pool); break;
	default: out[0] = tj_avg_pool3d(in[0], c->kernel, &c->pool); break;
	}
}

static void adapted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const call *c = self;
	switch ((tj_rank(in[0]) - 2) * 2 + c->kind) {
	case 2: out[0] = tj_adaptive_max_pool1d(in[0], c->kernel); break;
	case 3: out[0] = tj_adaptive_avg_pool1d(in[0], c->kernel); break;
	case 4: out[0] = tj_adaptive_max_pool2d(in[0], c->kernel); break;
	case 5: out[0] = tj_adaptive_avg_pool2d(in[0], c->kernel); break;
	case 6: out[0] = tj_adaptive_max_pool3d(in[0], c->kernel); break;
	default: out[0] = tj_adaptive_avg_pool3d(in[0], c->kernel); break;
	}
}

static tj_tensor *tensor(tj_ctx *c, const double *data, int lead, int64_t a, int64_t b, const int64_t *rest)
{
	const int64_t all[] = { a, b };
	int64_t shape[6];
	int rank = 0;
	for (int i = 2 - lead; i < 2; i++) shape[rank++] = all[i];
	for (int i = AXES - p.n; rest && i < AXES; i++) shape[rank++] = rest[i];
	shape[rank] = TJ_END_DIM;
	return tj_from_data(c, TJ_F64, shape, data);
}

static void same(tj_tensor *y, const double *want, int64_t n)
{
	static double got[MOST];
	assert_int_equal(tj_read(y, got, sizeof *got * (size_t)n), TJ_OK);
	assert_int_equal(tj_numel(y), n);
	for (int64_t i = 0; i < n; i++)
		if (fabs(got[i] - want[i]) > 1e-9) fail_msg("element %d of %d: %g, not %g", (int)i, (int)n, got[i], want[i]);
}

static void convs(void **state)
{
	(void)state;
	for (int turn = 0; turn < 120; turn++) {
		const bool transposed = turn & 1, biased = turn % 3 == 0;
		do draw(transposed);
		while (p.y[0] < 1 || p.y[1] < 1 || p.y[2] < 1);
		expect_conv(transposed, biased);
		call k = { .kind = transposed, .biased = biased, .conv = { .size = sizeof k.conv, .groups = p.groups } };
		for (int i = 0; i < p.n; i++) {
			const int a = AXES - p.n + i;
			k.conv.stride[i] = p.stride[a], k.conv.padding[i] = p.padding[a], k.conv.dilation[i] = p.dilation[a],
			k.conv.output_padding[i] = p.extra[a];
		}
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
		tj_fn *f = tj_compile(c, convolve, &k, TJ_OPTS(tj_compile_opts, .nin = 3, .nout = 1, .name = "convolve"));
		tj_tensor *x = tensor(c, p.data, 2, p.batch, p.in, p.x),
			  *w = tensor(c, p.weight, 2, transposed ? p.in : p.out, (transposed ? p.out : p.in) / p.groups, p.k);
		tj_tensor *b = tensor(c, p.bias, 1, 0, p.out, NULL);
		same(tj_call1(f, TJ_LIST(x, w, b)), p.want, p.batch * p.out * volume(p.y));
		if (p.batch == 1) same(tj_call1(f, TJ_LIST(tensor(c, p.data, 1, 1, p.in, p.x), w, b)), p.want, p.out * volume(p.y));
		assert_int_equal(tj_check(c), TJ_OK);
		tj_close(c);
	}
}

/* `same`, and padding with elements of x: against a conv of x that was padded by hand. */
static void paddings(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
	tj_tensor *x = tj_normal(TJ_F64, TJ_SHAPE(2, 3, 7, 6)), *w = tj_normal(TJ_F64, TJ_SHAPE(4, 3, 3, 4));
	double a[2 * 4 * 7 * 6], b[2 * 4 * 7 * 6];
	for (int mode = TJ_PAD_CONSTANT; mode <= TJ_PAD_CIRCULAR; mode++) {
		tj_tensor *y = tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .same = true, .padding_mode = (tj_pad_mode)mode));
		tj_tensor *z = tj_conv2d(tj_pad(x, TJ_SHAPE(1, 1, 1, 2), (tj_pad_mode)mode, tj_f(0)), w, NULL, NULL);
		assert_int_equal(tj_read(y, a, sizeof a), TJ_OK);
		assert_int_equal(tj_read(z, b, sizeof b), TJ_OK);
		assert_memory_equal(a, b, sizeof a);
		assert_int_equal(tj_dim(y, 2), 7);
		assert_int_equal(tj_dim(y, 3), 6);
	}
	tj_close(c);
}

/* ---- pools ---- */
typedef struct seen { const double *x; double most[MOST], sum[MOST], inside[MOST], all[MOST]; bool any[MOST]; } seen;
static seen found;
static void look(int64_t at, int64_t window, int64_t place, void *self)
{
	seen *t = self;
	(void)place;
	if (at < 0) return;
	t->sum[window] += t->x[at];
	t->inside[window]++;
	if (!t->any[window] || t->x[at] > t->most[window]) t->most[window] = t->x[at];
	t->any[window] = true;
}

static int64_t windows(int i)
{
	const int64_t room = p.x[i] + 2 * p.padding[i] - span(i), n = (p.ceil ? room + p.stride[i] - 1 : room) / p.stride[i] + 1;
	return p.ceil && (n - 1) * p.stride[i] >= p.x[i] + p.padding[i] ? n - 1 : n;
}

/* Places inside of x and the padding that was asked for: what lies behind through .ceil does not count. */
static double counted(int64_t window)
{
	const int64_t i[] = { window / (p.y[1] * p.y[2]), window / p.y[2] % p.y[1], window % p.y[2] };
	double n = 1;
	for (int a = 0; a < AXES; a++) {
		int64_t in = 0;
		for (int64_t j = 0; j < p.k[a]; j++) in += i[a] * p.stride[a] + j * p.dilation[a] < p.x[a] + 2 * p.padding[a];
		n *= (double)in;
	}
	return n;
}

static void pools(void **state)
{
	(void)state;
	for (int turn = 0; turn < 120; turn++) {
		const bool mean = turn & 1;
		draw(false);
		p.ceil = below(2);
		p.divisor = mean && below(4) == 0 ? 5 : 0;
		p.exclude = mean && below(2);
		call k = { .kind = mean, .pool = { .size = sizeof k.pool, .ceil = p.ceil, .exclude_padding = p.exclude, .divisor = p.divisor } };
		for (int i = 0; i < AXES; i++) {
			const int to = i - (AXES - p.n);
			p.padding[i] = i >= AXES - p.n ? below(p.k[i] / 2 + 1) : 0;
			p.y[i] = windows(i);
			if (to >= 0)
				k.kernel[to] = p.k[i], k.pool.stride[to] = p.stride[i], k.pool.padding[to] = p.padding[i],
				k.pool.dilation[to] = p.dilation[i];
		}
		k.kernel[p.n] = TJ_END_DIM;
		const int64_t vy = volume(p.y);
		for (int64_t r = 0; r < p.batch * p.in; r++) {
			memset(&found, 0, sizeof found);
			found.x = p.data + r * volume(p.x);
			each_place(p.x, p.y, look, &found);
			for (int64_t i = 0; i < vy; i++)
				p.want[r * vy + i] = mean           ? found.sum[i] / (p.divisor   ? (double)p.divisor
				                                                      : p.exclude ? found.inside[i]
				                                                                  : counted(i))
				                     : found.any[i] ? found.most[i]
				                                    : -INFINITY;
		}
		bool alone = false; /* with a dilation a window may lie beside x */
		for (int64_t i = 0; i < p.batch * p.in * vy; i++) alone |= !isfinite(p.want[i]);
		if (alone) continue;
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
		tj_fn *f = tj_compile(c, pooled, &k, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .name = "pooled"));
		same(tj_call1(f, TJ_LIST(tensor(c, p.data, 2, p.batch, p.in, p.x))), p.want, p.batch * p.in * vy);
		tj_close(c);
	}
}

static void adaptive_pools(void **state)
{
	(void)state;
	for (int turn = 0; turn < 60; turn++) {
		const bool mean = turn & 1;
		draw(false);
		call k = { .kind = mean };
		for (int i = 0; i < AXES; i++) {
			p.x[i] = i >= AXES - p.n ? 1 + below(9) : 1;
			p.y[i] = i >= AXES - p.n ? 1 + below(turn % 5 ? 5 : 1) : 1;
			if (i >= AXES - p.n) k.kernel[i - (AXES - p.n)] = p.y[i];
		}
		k.kernel[p.n] = TJ_END_DIM;
		for (int64_t r = 0; r < p.batch * p.in; r++)
			for (int64_t w = 0; w < volume(p.y); w++) {
				const int64_t i[] = { w / (p.y[1] * p.y[2]), w / p.y[2] % p.y[1], w % p.y[2] };
				double sum = 0, n = 0, most = -INFINITY;
				for (int64_t e = 0; e < volume(p.x); e++) {
					const int64_t at[] = { e / (p.x[1] * p.x[2]), e / p.x[2] % p.x[1], e % p.x[2] };
					bool in = true;
					for (int a = 0; a < AXES; a++) in &= at[a] >= i[a] * p.x[a] / p.y[a] && at[a] < ((i[a] + 1) * p.x[a] + p.y[a] - 1) / p.y[a];
					if (!in) continue;
					const double v = p.data[r * volume(p.x) + e];
					sum += v, n++, most = v > most ? v : most;
				}
				p.want[r * volume(p.y) + w] = mean ? sum / n : most;
			}
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
		tj_fn *f = tj_compile(c, adapted, &k, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .name = "adapted"));
		same(tj_call1(f, TJ_LIST(tensor(c, p.data, 2, p.batch, p.in, p.x))), p.want, p.batch * p.in * volume(p.y));
		tj_close(c);
	}
}

/* ---- the gradient by the weight, with so many channels that a kernel reads x with its channels last ---- */
typedef struct weighed { int n, c, groups, out, h, w, kh, kw, stride, pad, dilation; } weighed;

static void by_weight(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const weighed *k = self;
	tj_tensor *y = tj_conv2d(in[0], in[1], NULL, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(k->stride), .padding = TJ_EACH(k->pad),
	                                                     .dilation = TJ_EACH(k->dilation), .groups = k->groups));
	if (tj_grad(out, tj_sum(tj_mul(y, in[2]), TJ_ALL, false), TJ_LIST(in[1]), NULL) != TJ_OK) out[0] = y;
}

static double small(int64_t i) { return (double)(i * 7 % 11 - 5); }

/* of element (o, c, i, j) of the weight */
static double weight_gradient(const weighed *k, int64_t oh, int64_t ow, int o, int c, int i, int j)
{
	const int64_t in = k->c / k->groups, channel = o / (k->out / k->groups) * in + c;
	double sum = 0;
	for (int64_t n = 0; n < k->n; n++)
		for (int64_t y = 0; y < oh; y++)
			for (int64_t x = 0; x < ow; x++) {
				const int64_t r = y * k->stride - k->pad + i * k->dilation, col = x * k->stride - k->pad + j * k->dilation;
				if (r < 0 || r >= k->h || col < 0 || col >= k->w) continue;
				sum += small(((n * k->out + o) * oh + y) * ow + x) * small(((n * k->c + channel) * k->h + r) * k->w + col);
			}
	return sum;
}

static void gradients_by_weight(void **state)
{
	static const weighed of[] = {
		{ 2, 10, 1, 5, 7, 9, 2, 3, 1, 0, 1 },  { 3, 16, 1, 4, 8, 6, 3, 2, 2, 1, 1 }, { 2, 32, 1, 3, 9, 9, 3, 1, 1, 1, 2 },
		{ 2, 30, 3, 6, 6, 8, 3, 3, 1, 1, 1 }, { 1, 28, 1, 2, 8, 8, 2, 3, 1, 2, 3 }, { 2, 64, 2, 4, 5, 7, 1, 3, 3, 0, 1 },
		{ 3, 28, 1, 3, 14, 16, 2, 3, 1, 0, 1 }, /* three chunks of windows */
	};
	(void)state;
	for (size_t t = 0; t < sizeof of / sizeof *of; t++) {
		weighed k = of[t];
		const int64_t oh = (k.h + 2 * k.pad - (k.kh - 1) * k.dilation - 1) / k.stride + 1,
			      ow = (k.w + 2 * k.pad - (k.kw - 1) * k.dilation - 1) / k.stride + 1, in = k.c / k.groups;
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
		tj_fn *f = tj_compile(c, by_weight, &k, TJ_OPTS(tj_compile_opts, .nin = 3, .nout = 1, .name = "by_weight"));
		const int64_t nx = (int64_t)k.n * k.c * k.h * k.w, ny = (int64_t)k.n * k.out * oh * ow, nw = (int64_t)k.out * in * k.kh * k.kw;
		float *data = malloc(sizeof *data * (size_t)(nx + ny + nw));
		for (int64_t i = 0; i < nx; i++) data[i] = (float)small(i);
		for (int64_t i = 0; i < ny; i++) data[nx + i] = (float)small(i);
		for (int64_t i = 0; i < nw; i++) data[nx + ny + i] = 1;
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(k.n, k.c, k.h, k.w), data),
			  *w = tj_from_data(c, TJ_F32, TJ_SHAPE(k.out, in, k.kh, k.kw), data + nx + ny),
			  *dy = tj_from_data(c, TJ_F32, TJ_SHAPE(k.n, k.out, oh, ow), data + nx);
		const float *got = tj_data(tj_call1(f, TJ_LIST(x, w, dy)));
		assert_non_null(got);
		for (int64_t i = 0; i < nw; i++)
			assert_float_equal(got[i], weight_gradient(&k, oh, ow, (int)(i / (in * k.kh * k.kw)), (int)(i / (k.kh * k.kw) % in),
			                                            (int)(i / k.kw % k.kh), (int)(i % k.kw)),
			                   0);
		free(data);
		tj_close(c);
	}
}

/* ---- training a small network: a sweep of batches makes code twice at most ---- */
static void network(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_relu(tj_conv2d(in[0], in[1], in[2], TJ_OPTS(tj_conv_opts, .padding = TJ_EACH(1))));
	y = tj_max_pool2d(y, TJ_SHAPE(2, 2), NULL);
	y = tj_relu(tj_conv2d(y, in[3], NULL, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2), .padding = TJ_EACH(1), .groups = 2)));
	y = tj_adaptive_avg_pool2d(y, TJ_SHAPE(1, 1));
	out[0] = tj_mean(tj_square(y), TJ_ALL, false);
	tj_tensor *g[3];
	if (tj_grad(g, out[0], TJ_LIST(in[1], in[2], in[3]), NULL) != TJ_OK) return;
	for (int i = 0; i < 3; i++) out[1 + i] = g[i];
}

static void sweep(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
	tj_fn *f = tj_compile(c, network, NULL, TJ_OPTS(tj_compile_opts, .nin = 4, .nout = 4, .name = "network", .dynamic = TJ_DYNAMIC_ON));
	tj_fn *alone = tj_compile(c, network, NULL, TJ_OPTS(tj_compile_opts, .nin = 4, .nout = 4, .name = "alone"));
	tj_tensor *w = tj_normal(TJ_F32, TJ_SHAPE(4, 3, 3, 3)), *b = tj_normal(TJ_F32, TJ_SHAPE(4)), *v = tj_normal(TJ_F32, TJ_SHAPE(6, 2, 3, 3));
	uint64_t compiles = 0;
	for (int64_t n = 2; n < 12; n += 3) {
		tj_tensor *x = tj_normal(TJ_F32, TJ_SHAPE(n, 3, 12, 10)), *got[4], *want[4];
		float a[6 * 2 * 9], z[6 * 2 * 9];
		assert_int_equal(tj_call(f, got, TJ_LIST(x, w, b, v)), TJ_OK);
		assert_int_equal(tj_call(alone, want, TJ_LIST(x, w, b, v)), TJ_OK);
		for (int i = 0; i < 4; i++) {
			const size_t bytes = sizeof(float) * (size_t)tj_numel(got[i]);
			assert_int_equal(tj_read(got[i], a, bytes), TJ_OK);
			assert_int_equal(tj_read(want[i], z, bytes), TJ_OK);
			assert_memory_equal(a, z, bytes);
		}
		tj_stats s = { .size = sizeof s };
		tj_fn_stats(f, &s);
		if (n <= 5) compiles = s.compiles;
		assert_int_equal(s.compiles, compiles);
	}
	tj_close(c);
}

/* ---- errors ---- */
#define REFUSED(y, code, name, text)                                          \
	do {                                                                  \
		assert_true(tj_is_poison(y));                                 \
		kit_error(c, TJ_ERR_##code, text);                            \
		assert_string_equal(tj_last_error(c)->op, name);              \
		assert_true(*tj_last_error(c)->hint);                         \
	} while (0)

/* Rows that are long enough for products to read them where they lie: the evaluator's bits. */
static void long_rows(void **s)
{
	enum { MOST_BYTES = 1 << 20 };
	static const struct { int64_t x[4], weight[4], groups, stride, padding, dilation; int kind; } all[] = {
		{ { 2, 5, 9, 40 }, { 7, 5, 3, 3 }, 1, 1, 1, 1, 0 },
		{ { 1, 4, 33, 31 }, { 30, 2, 5, 3 }, 2, 1, 2, 2, 0 },
		{ { 3, 2, 30, 30 }, { 2, 2, 1, 4 }, 1, 1, 0, 1, 0 },
		{ { 2, 6, 21, 14 }, { 6, 8, 3, 3 }, 1, 2, 1, 1, 1 },
		{ { 1, 3, 8, 90 }, { 64, 3, 3, 5 }, 1, 1, 2, 1, 0 },
	};
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_BF16, TJ_I32, TJ_BF16, TJ_F16 };
	enum { TYPES = 6, BIASED = 4 }; /* from BIASED on with a bias */
	static char got[2][MOST_BYTES];
	(void)s;
	for (size_t i = 0; i < 5 * TYPES; i++) {
		size_t bytes[2] = { 0 };
		for (int eval = 0; eval < 2; eval++) {
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = eval ? "eval" : NULL));
			call how = { .kind = all[i / TYPES].kind, .biased = i % TYPES >= BIASED };
			for (int a = 0; a < 2; a++)
				how.conv.stride[a] = all[i / TYPES].stride, how.conv.padding[a] = all[i / TYPES].padding,
				how.conv.dilation[a] = all[i / TYPES].dilation;
			how.conv.groups = all[i / TYPES].groups;
			tj_fn *f = kit_fn(c, "f", convolve, &how, 2 + how.biased, 1);
			int64_t shape[2][5];
			for (int a = 0; a < 5; a++)
				shape[0][a] = a < 4 ? all[i / TYPES].x[a] : TJ_END_DIM,
				shape[1][a] = a < 4 ? all[i / TYPES].weight[a] : TJ_END_DIM;
			tj_tensor *in[4] = { NULL, NULL, TJ_END, TJ_END }, *out[1];
			for (int a = 0; a < 2; a++)
				in[a] = tj_cast(
					tj_mul(tj_sub(tj_uniform(TJ_F32, shape[a]), tj_f(0.5)), tj_f(types[i % TYPES] == TJ_I32 ? 100 : 1)),
					types[i % TYPES]);
			if (how.biased) in[2] = tj_uniform(types[i % TYPES], TJ_SHAPE(how.kind ? shape[1][1] * how.conv.groups : shape[1][0]));
			if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
			bytes[eval] = (size_t)tj_numel(out[0]) * tj_dtype_size(types[i % TYPES]);
			assert_true(bytes[eval] <= MOST_BYTES);
			assert_int_equal(tj_read(out[0], got[eval], bytes[eval]), TJ_OK);
			tj_close(c);
		}
		assert_int_equal(bytes[0], bytes[1]);
		if (memcmp(got[0], got[1], bytes[0])) fail_msg("case %d, %s", (int)(i / TYPES), tj_dtype_name(types[i % TYPES]));
	}
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend));
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(1, 4, 5, 5), tj_f(1)), *w = tj_full(TJ_F32, TJ_SHAPE(6, 4, 3, 3), tj_f(1)),
		  *i = tj_cast(x, TJ_I32);
	tj_tensor *bias = tj_full(TJ_F32, TJ_SHAPE(5), tj_f(1)), *large = tj_full(TJ_F32, TJ_SHAPE(6, 4, 7, 7), tj_f(1));
	REFUSED(tj_conv2d(NULL, w, NULL, NULL), ARG, "conv2d", "x is NULL");
	REFUSED(tj_conv2d(x, NULL, NULL, NULL), ARG, "conv2d", "the weight is NULL");
	REFUSED(tj_conv1d(x, w, NULL, NULL), SHAPE, "conv1d", "x has 4 axes, 2 or 3 are needed");
	REFUSED(tj_conv3d(tj_unsqueeze(x, 0), w, NULL, NULL), SHAPE, "conv3d", "the weight has 4 axes, 5 are needed");
	REFUSED(tj_conv2d(x, w, bias, NULL), SHAPE, "conv2d", "the bias is not [6]");
	REFUSED(tj_conv2d(x, large, NULL, NULL), SHAPE, "conv", "a window is larger than the axis");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .groups = 3)), SHAPE, "conv", "the groups do not divide the channels");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .groups = 2)), SHAPE, "conv", "the weight is for another number of channels");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .groups = -1)), SHAPE, "conv", "the groups do not divide the channels");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(-1))), ARG, "conv", "must be at least 1");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .padding = TJ_EACH(-1))), ARG, "conv2d", ".padding is negative");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .same = true, .stride = TJ_EACH(2))), ARG, "conv2d", ".same needs a stride of 1");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .same = true, .padding = TJ_EACH(1))), ARG, "conv2d",
	        ".same and .padding are both set");
	REFUSED(tj_conv2d(x, w, NULL, TJ_OPTS(tj_conv_opts, .output_padding = TJ_EACH(1))), ARG, "conv2d",
	        ".output_padding is for conv_transpose");
	REFUSED(tj_conv_transpose2d(x, tj_full(TJ_F32, TJ_SHAPE(4, 2, 3, 3), tj_f(1)), NULL,
	                            TJ_OPTS(tj_conv_opts, .output_padding = TJ_EACH(1))),
	        ARG, "conv_transpose2d", ".output_padding is not below");
	REFUSED(tj_conv_transpose2d(x, w, NULL, NULL), SHAPE, "conv_transpose", "the weight is for another number of channels");
	REFUSED(tj_conv_transpose2d(x, tj_full(TJ_F32, TJ_SHAPE(4, 2, 3, 3), tj_f(1)), NULL, TJ_OPTS(tj_conv_opts, .padding = TJ_EACH(4))),
	        SHAPE, "conv_transpose", "nothing is left of an axis");
	REFUSED(tj_conv(x, w, 1, TJ_SHAPE(1, 1)), ARG, "conv", "the window has the wrong number of entries");
	REFUSED(tj_max_pool2d(x, TJ_SHAPE(2), NULL), ARG, "max_pool2d", "the window needs 2 sizes");
	REFUSED(tj_max_pool2d(x, TJ_SHAPE(6, 6), NULL), SHAPE, "max_pool", "a window is larger than the axis");
	REFUSED(tj_max_pool2d(x, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .padding = TJ_EACH(2))), ARG, "max_pool", "at most half of its window");
	REFUSED(tj_max_pool2d(x, TJ_SHAPE(0, 2), NULL), ARG, "max_pool", "must be at least 1");
	REFUSED(tj_max_pool2d(x, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .divisor = 2)), ARG, "max_pool2d",
	        ".divisor and .exclude_padding are for avg_pool");
	REFUSED(tj_avg_pool2d(x, TJ_SHAPE(2, 2), TJ_OPTS(tj_pool_opts, .divisor = -2)), ARG, "avg_pool2d", ".divisor is negative");
	REFUSED(tj_avg_pool2d(i, TJ_SHAPE(2, 2), NULL), DTYPE, "avg_pool", "a float");
	REFUSED(tj_adaptive_avg_pool2d(i, TJ_SHAPE(2, 2)), DTYPE, "adaptive_avg_pool2d", "a mean of i32 is no i32");
	REFUSED(tj_adaptive_avg_pool2d(x, TJ_SHAPE(2, 0)), ARG, "adaptive_avg_pool2d", "size 1 of the result is 0");
	REFUSED(tj_adaptive_max_pool3d(x, TJ_SHAPE(2)), ARG, "adaptive_max_pool3d", "3 sizes of the result are needed");
	REFUSED(tj_max_pool1d(x, TJ_SHAPE(2), NULL), SHAPE, "max_pool1d", "x has 4 axes, 2 or 3 are needed");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(convs),          cmocka_unit_test(paddings), cmocka_unit_test(pools),
		                            cmocka_unit_test(adaptive_pools), cmocka_unit_test(sweep),    cmocka_unit_test(long_rows),
		                            cmocka_unit_test(errors), cmocka_unit_test(gradients_by_weight) };
	KIT_RUN(tests);
}
