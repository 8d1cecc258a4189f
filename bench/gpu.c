/* gpu: cases for a GPU. Tensors are made there and stay there; calls are put into the queue one after the other, and the clock stops when all
 * have run. Each case is compared with a copy of as many bytes on the same device, or with the plain product of the library.
 *
 * Bytes are counted in two ways: those of the function, its inputs read once and its outputs written once; and those that its kernels move
 * (tj_stats.moved_bytes), temporaries and what is read twice included. */
#include "bench/bench.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 6, TINY = 80, LAYERS = 12 };

/* ---- bodies; self: the case ---- */
typedef struct gpu_case gpu_case;
#define BODY(name) static void name(tj_tensor **out, tj_tensor *const *in, void *self)
BODY(relu) { (void)self, out[0] = tj_relu(in[0]); }
BODY(gelu) { (void)self, out[0] = tj_gelu(in[0]); }
BODY(chain30)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < 15; i++) x = i % 3 ? tj_mul(tj_add(x, tj_f(0.5)), tj_f(0.75)) : tj_maximum(tj_sub(in[0], x), tj_f(-2));
	out[0] = x;
}
BODY(softmax) { (void)self, out[0] = tj_softmax(in[0], -1); }
BODY(rms_norm) { (void)self, out[0] = tj_rms_norm(in[0], in[1], 1e-5); }
BODY(layer_norm) { (void)self, out[0] = tj_layer_norm(in[0], in[1], in[2], 1e-5); }
BODY(add_rms_norm)
{
	(void)self;
	out[0] = tj_add(in[0], in[1]);
	out[1] = tj_rms_norm(out[0], in[2], 1e-5);
}
BODY(swiglu) { (void)self, out[0] = tj_mul(tj_silu(in[0]), in[1]); }
BODY(cross_entropy)
{
	(void)self;
	tj_tensor *picked = tj_gather(in[0], 1, tj_unsqueeze(in[1], 1));
	out[0] = tj_mean(tj_sub(tj_logsumexp(in[0], TJ_AXES(1), false), tj_squeeze(picked, TJ_AXES(1))), TJ_ALL, false);
}
BODY(sum_rows) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(1), false); }
BODY(sum_columns) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(0), false); }
BODY(sum_all) { (void)self, out[0] = tj_sum(in[0], TJ_ALL, false); }
BODY(transpose) { (void)self, out[0] = tj_add(tj_transpose(in[0], 0, 1), tj_f(1)); }
BODY(product) { (void)self, out[0] = tj_matmul(in[0], in[1]); }
BODY(linear_gelu) { (void)self, out[0] = tj_gelu_tanh(tj_add(tj_matmul(in[0], in[1]), in[2])); } /* TJ_FAST: one call of the library */
BODY(tiny) /* sums along rows and columns in turn: each is a kernel */
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < TINY; i++) x = tj_sub(x, tj_mul(tj_sum(x, TJ_AXES(i % 2), true), tj_f(1e-3)));
	out[0] = x;
}

/* A block of a transformer: x [T,D]; qkv [D,3D], projection [D,D], up [D,4D], down [4D,D], norm [D]. */
BODY(block)
{
	(void)self;
	const int64_t t = tj_dim(in[0], 0), d = tj_dim(in[0], 1), h = d >= 64 ? d / 64 : 2, w = d / h;
	tj_tensor *qkv = tj_matmul(tj_rms_norm(in[0], in[5], 1e-5), in[1]), *part[3];
	for (int i = 0; i < 3; i++) part[i] = tj_transpose(tj_reshape(tj_slice(qkv, 1, i * d, (i + 1) * d, 1), TJ_SHAPE(t, h, w)), 0, 1);
	tj_tensor *score = tj_softmax(tj_mul(tj_matmul(part[0], tj_transpose(part[1], 1, 2)), tj_f(0.125)), -1);
	tj_tensor *mixed = tj_reshape(tj_transpose(tj_matmul(score, part[2]), 0, 1), TJ_SHAPE(t, d));
	tj_tensor *x = tj_add(in[0], tj_matmul(mixed, in[2]));
	out[0] = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_rms_norm(x, in[5], 1e-5), in[3])), in[4]));
}

/* ---- cases ---- */
struct gpu_case {
	const char *name;
	tj_body *body;
	int nin, nout;
	tj_dtype dtype;
	int64_t p[2], small[2];      /* sizes, and those of the test */
	int64_t (*shape)(const int64_t *p, int k, int64_t *dim); /* sizes of operand k; returns its rank */
	double (*flops)(const int64_t *p); /* of products; NULL: the case is limited by memory */
	bool indices;                /* operand 1 is of i64, below p[1] */
};

static int64_t matrix(const int64_t *p, int k, int64_t *dim) { return (void)k, dim[0] = p[0], dim[1] = p[1], 2; }
static int64_t with_vectors(const int64_t *p, int k, int64_t *dim) { return k ? (dim[0] = p[1], 1) : matrix(p, k, dim); }
static int64_t two_and_vector(const int64_t *p, int k, int64_t *dim) { return k < 2 ? matrix(p, k, dim) : (dim[0] = p[1], 1); }
static int64_t with_rows(const int64_t *p, int k, int64_t *dim) { return k ? (dim[0] = p[0], 1) : matrix(p, k, dim); }
static int64_t square(const int64_t *p, int k, int64_t *dim) { return dim[0] = dim[1] = p[0], k < 2 ? 2 : 1; }
static int64_t of_block(const int64_t *p, int k, int64_t *dim)
{
	const int64_t d = p[1], size[IN][2] = { { p[0], d }, { d, 3 * d }, { d, d }, { d, 4 * d }, { 4 * d, d }, { d, 0 } };
	dim[0] = size[k][0], dim[1] = size[k][1];
	return k == 5 ? 1 : 2;
}
static double cube(const int64_t *p) { return 2.0 * (double)p[0] * (double)p[0] * (double)p[0]; }
static double block_flops(const int64_t *p) { return 24.0 * (double)p[0] * (double)p[1] * (double)p[1] + 4.0 * (double)p[0] * (double)p[0] * (double)p[1]; }

#define ROWS(name, body, nin, nout, dtype, n, shape) { name, body, nin, nout, dtype, { 4096, n }, { 5, (n) / 64 + 3 }, shape, NULL, false }
static const gpu_case cases[] = {
	{ "relu", relu, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, matrix, NULL, false },
	{ "gelu", gelu, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, matrix, NULL, false },
	{ "chain30", chain30, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, matrix, NULL, false },
	ROWS("softmax_1k", softmax, 1, 1, TJ_F32, 1024, matrix), ROWS("softmax_4k", softmax, 1, 1, TJ_F32, 4096, matrix),
	ROWS("softmax_12k", softmax, 1, 1, TJ_F32, 12672, matrix), ROWS("softmax_32k", softmax, 1, 1, TJ_F32, 32768, matrix),
	ROWS("softmax_131k", softmax, 1, 1, TJ_F32, 131072, matrix),
	ROWS("softmax_1k_bf16", softmax, 1, 1, TJ_BF16, 1024, matrix), ROWS("softmax_4k_bf16", softmax, 1, 1, TJ_BF16, 4096, matrix),
	ROWS("softmax_12k_bf16", softmax, 1, 1, TJ_BF16, 12672, matrix), ROWS("softmax_32k_bf16", softmax, 1, 1, TJ_BF16, 32768, matrix),
	ROWS("softmax_131k_bf16", softmax, 1, 1, TJ_BF16, 131072, matrix),
	ROWS("rms_norm_4k", rms_norm, 2, 1, TJ_F32, 4096, with_vectors), ROWS("rms_norm_8k", rms_norm, 2, 1, TJ_F32, 8192, with_vectors),
	ROWS("rms_norm_16k", rms_norm, 2, 1, TJ_F32, 16384, with_vectors),
	ROWS("layer_norm_4k", layer_norm, 3, 1, TJ_F32, 4096, with_vectors), ROWS("layer_norm_8k", layer_norm, 3, 1, TJ_F32, 8192, with_vectors),
	ROWS("layer_norm_16k", layer_norm, 3, 1, TJ_F32, 16384, with_vectors),
	ROWS("add_rms_norm_8k", add_rms_norm, 3, 2, TJ_F32, 8192, two_and_vector),
	{ "swiglu_bf16", swiglu, 2, 1, TJ_BF16, { 8192, 16384 }, { 5, 131 }, matrix, NULL, false },
	{ "cross_entropy", cross_entropy, 2, 1, TJ_F32, { 32768, 4096 }, { 33, 67 }, with_rows, NULL, true },
	{ "sum_rows", sum_rows, 1, 1, TJ_F32, { 16384, 16384 }, { 9, 517 }, matrix, NULL, false },
	{ "sum_columns", sum_columns, 1, 1, TJ_F32, { 16384, 16384 }, { 517, 9 }, matrix, NULL, false },
	{ "sum_columns_tall", sum_columns, 1, 1, TJ_F32, { 1 << 21, 64 }, { 3300, 5 }, matrix, NULL, false },
	{ "sum_all", sum_all, 1, 1, TJ_F32, { 16384, 16384 }, { 65, 517 }, matrix, NULL, false },
	{ "transpose", transpose, 1, 1, TJ_F32, { 8192, 8192 }, { 67, 45 }, matrix, NULL, false },
	{ "matmul_4096_bf16", product, 2, 1, TJ_BF16, { 4096, 4096 }, { 24, 24 }, square, cube, false },
	{ "linear_gelu_4096_bf16", linear_gelu, 3, 1, TJ_BF16, { 4096, 4096 }, { 24, 24 }, square, cube, false },
	{ "linear_gelu_8192_bf16", linear_gelu, 3, 1, TJ_BF16, { 8192, 8192 }, { 40, 40 }, square, cube, false },
	{ "tiny_80", tiny, 1, 1, TJ_F32, { 16, 16 }, { 4, 8 }, matrix, NULL, false },
	{ "block_bf16", block, 6, 1, TJ_BF16, { 4096, 2048 }, { 12, 16 }, of_block, block_flops, false },
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- operands, made on the device ---- */
typedef struct operand { const gpu_case *of; const int64_t *p; int k; tj_device device; } operand;
BODY(make_operand)
{
	const operand *o = self;
	int64_t dim[4];
	(void)in;
	dim[o->of->shape(o->p, o->k, dim)] = TJ_END_DIM;
	tj_tensor *u = tj_uniform(TJ_F32, dim);
	if (o->of->indices && o->k == 1) u = tj_cast(tj_mul(u, tj_f((double)o->p[1])), TJ_I64);
	else u = tj_cast(tj_sub(u, tj_f(0.5)), o->of->dtype);
	out[0] = tj_to(u, o->device);
}

typedef struct job { tj_ctx *c; tj_fn *f; tj_tensor *in[IN + 1]; double first_ms; } job;

static bool open_job(job *j, tj_ctx *c, const gpu_case *g, const int64_t *p, tj_device device)
{
	*j = (job){ .c = c };
	for (int k = 0; k < g->nin; k++) {
		operand o = { g, p, k, device };
		tj_fn *make = tj_compile(c, make_operand, &o, TJ_OPTS(tj_compile_opts, .name = "operand", .nout = 1));
		j->in[k] = tj_call1(make, TJ_NONE);
		tj_fn_free(make);
	}
	j->in[g->nin] = TJ_END;
	j->f = tj_compile(c, g->body, NULL, TJ_OPTS(tj_compile_opts, .name = g->name, .nin = g->nin, .nout = g->nout, .mode = TJ_DIRECT,
	                                            .numerics = g->body == linear_gelu ? TJ_FAST : TJ_STRICT));
	tj_sync(c);
	return tj_check(c) == TJ_OK;
}

static bool call(const job *j, tj_tensor **out)
{
	return tj_call(j->f, out, j->in) == TJ_OK;
}

/* Seconds of a call, when many are put into the queue. */
static double time_calls(const job *j, double seconds)
{
	double best = 0;
	tj_tensor *out[2];
	for (int n = 4; n < 1 << 20; n *= 2) {
		const double begin = bench_now();
		for (int i = 0; i < n; i++) {
			tj_scope *s = tj_push(j->c);
			if (!call(j, out)) return 0;
			tj_pop(s);
		}
		tj_sync(j->c);
		const double took = bench_now() - begin;
		if (!best || took / n < best) best = took / n;
		if (took > seconds) break;
	}
	return best;
}

/* ---- the limit: the driver copies as many bytes, half of them read and half written. An output that is an argument is copied so to the
 * memory of the caller. ---- */
BODY(argument) { (void)self, out[0] = in[0]; }

static double time_copy(tj_ctx *c, tj_device device, double bytes, double seconds)
{
	const int64_t half = (int64_t)(bytes / 2) + 1;
	tj_scope *s = tj_push(c);
	tj_tensor *from = tj_to(tj_full(TJ_U8, TJ_SHAPE(half), tj_i(1)), device), *to = tj_to(tj_full(TJ_U8, TJ_SHAPE(half), tj_i(2)), device), *out[1];
	const tj_into into[1] = { { (void *)(uintptr_t)tj_device_data(to), (size_t)half, device } };
	tj_fn *f = tj_compile(c, argument, NULL, TJ_OPTS(tj_compile_opts, .name = "copy", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	double best = 0;
	for (int n = 4; n < 1 << 16; n *= 2) {
		const double begin = bench_now();
		for (int i = 0; i < n; i++) {
			tj_scope *inner = tj_push(c);
			tj_call_into(f, out, TJ_LIST(from), NULL, into);
			tj_pop(inner);
		}
		if (tj_sync(c) != TJ_OK) break;
		const double took = bench_now() - begin;
		if (!best || took / n < best) best = took / n;
		if (took > seconds) break;
	}
	tj_fn_free(f);
	tj_pop(s);
	tj_empty_cache(c, device);
	return best;
}

/* What computes the function's first product, from its explanation. */
static void tell_product(tj_fn *f, char *how, size_t room)
{
	static const char before[] = "is computed by ";
	char *text = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&text, &n);
	if (!m) return;
	tj_explain(f, m);
	fclose(m);
	const char *at = strstr(text, before);
	if (at) snprintf(how, room, "%.*s", (int)strcspn(at + sizeof before - 1, ":"), at + sizeof before - 1);
	free(text);
}

/* What one call moves, and takes. */
typedef struct result {
	double us, first_ms, bytes, moved; /* moved: by kernels */
	double copy_us;                    /* of `bytes`; 0: not limited by memory */
	double singly_us, apart_us;        /* without graphs; with a kernel of its own behind the product; or 0 */
	char how[160];                     /* what computes the product */
} result;

static double bytes_of(tj_tensor *t) { return (double)tj_numel(t) * (double)tj_dtype_size(tj_dtype_of(t)); }

static double bytes_of_all(const gpu_case *g, const job *j, tj_tensor *const *out)
{
	double bytes = 0;
	for (int k = 0; k < g->nin; k++) bytes += bytes_of(j->in[k]);
	for (int k = 0; k < g->nout; k++) bytes += bytes_of(out[k]);
	return bytes;
}

static double moved_bytes(const job *j)
{
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(j->f, &s);
	return (double)s.moved_bytes;
}

static void put(const gpu_case *g, const result *r, bool json)
{
	const double rate = g->flops ? g->flops(g->p) / r->us / 1e6 : r->bytes / r->us / 1e3, of_copy = r->copy_us / r->us, more = r->moved / r->bytes;
	const char *unit = g->flops ? "TF/s" : "GB/s";
	if (json) {
		printf("{\"peer\": \"tjit\", \"case\": \"gpu_%s\", \"us\": %.3f, \"first_ms\": %.1f, \"%s\": %.1f, \"bytes\": %.0f, \"moved_bytes\": %.0f", g->name, r->us, r->first_ms, unit, rate, r->bytes, r->moved);
		if (!g->flops) printf(", \"copy_us\": %.3f, \"of_copy\": %.3f, \"moved_of_copy\": %.3f", r->copy_us, of_copy, of_copy * more);
		if (r->singly_us > 0) printf(", \"without_graph_us\": %.3f", r->singly_us);
		if (r->apart_us > 0) printf(", \"without_epilogue_us\": %.3f", r->apart_us);
		if (*r->how) printf(", \"product\": \"%s\"", r->how);
		printf("}\n");
	} else {
		printf("%-24s %12.2f us %10.1f %s %10.2f MB, kernels move %10.2f MB", g->name, r->us, rate, unit, r->bytes / 1e6, r->moved / 1e6);
		if (!g->flops) printf("; %3.0f %% and %3.0f %% of a copy", 100 * of_copy, 100 * of_copy * more);
		if (r->singly_us > 0) printf("; without a graph %.2f us", r->singly_us);
		if (r->apart_us > 0) printf("; with a kernel after the product %.2f us", r->apart_us);
		if (*r->how) printf("; %s", r->how);
		printf("; first call %.1f ms\n", r->first_ms);
	}
	fflush(stdout);
}

static bool run_case(tj_ctx *c, tj_device device, const gpu_case *g, double seconds, bool json)
{
	job j;
	result r = { 0 };
	tj_tensor *out[2];
	tj_scope *s = tj_push(c);
	bool ok = open_job(&j, c, g, g->p, device);
	const double begin = bench_now();
	ok = ok && call(&j, out) && tj_sync(c) == TJ_OK;
	r.first_ms = (bench_now() - begin) * 1e3;
	r.us = ok ? time_calls(&j, seconds) * 1e6 : 0;
	ok = ok && r.us > 0;
	if (ok) r.bytes = bytes_of_all(g, &j, out), r.moved = moved_bytes(&j);
	if (ok && g->body == tiny) {
		tj_set_settings(c, TJ_OPTS(tj_settings, .no_graphs = true));
		r.singly_us = time_calls(&j, seconds) * 1e6;
		tj_set_settings(c, NULL);
	}
	if (ok && g->body == linear_gelu) {
		tell_product(j.f, r.how, sizeof r.how);
		tj_set_settings(c, TJ_OPTS(tj_settings, .no_epilogues = true));
		ok = call(&j, out) && tj_sync(c) == TJ_OK; /* compiles */
		r.apart_us = time_calls(&j, seconds) * 1e6;
		tj_set_settings(c, NULL);
	}
	tj_fn_free(j.f);
	tj_pop(s);
	tj_empty_cache(c, device);
	if (ok && !g->flops) r.copy_us = time_copy(c, device, r.bytes, seconds / 4) * 1e6;
	if (ok) put(g, &r, json);
	if (tj_check(c) == TJ_OK && ok) return true;
	tj_perror(c, stderr);
	return false;
}

/* ---- the test: the CPU's results at small sizes; equal bits, but for products ---- */
static double *read_all(tj_tensor *t, int64_t *n)
{
	tj_tensor *wide = tj_cast(tj_to(t, TJ_CPU), TJ_F64);
	*n = tj_numel(wide);
	double *v = malloc((size_t)*n * sizeof *v + 1);
	if (tj_read(wide, v, (size_t)*n * sizeof *v) != TJ_OK) *n = -1;
	return v;
}

static bool same(tj_tensor *got, tj_tensor *want, double tolerance)
{
	int64_t n, m;
	double *x = read_all(got, &n), *y = read_all(want, &m);
	bool ok = n == m && n > 0;
	for (int64_t i = 0; ok && i < n; i++) {
		const double far = x[i] > y[i] ? x[i] - y[i] : y[i] - x[i], size = y[i] > 0 ? y[i] : -y[i];
		ok = far <= tolerance * (1 + size);
	}
	free(x);
	free(y);
	return ok;
}

static bool test_case(tj_ctx *c, tj_device device, const gpu_case *g)
{
	job there, here;
	tj_tensor *got[2], *want[2];
	tj_scope *s = tj_push(c);
	bool ok = open_job(&there, c, g, g->small, device);
	here = there;
	for (int k = 0; k < g->nin; k++) here.in[k] = tj_to(there.in[k], TJ_CPU);
	ok = ok && call(&here, want);
	for (int i = 0; ok && i < 6; i++) ok = call(&there, got); /* from the fourth call on, kernels run as a CUDA graph */
	for (int i = 0; ok && i < g->nout; i++) ok = same(got[i], want[i], g->flops ? 0.05 : 0);
	if (!ok) printf("FAIL %s: differs from the CPU\n", g->name);
	if (ok && !g->flops && moved_bytes(&there) < bytes_of_all(g, &there, got)) printf("FAIL %s: kernels move %.0f bytes, fewer than there are\n", g->name, moved_bytes(&there)), ok = false;
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr), ok = false;
	tj_fn_free(there.f);
	tj_pop(s);
	return ok;
}

int bench_gpu(const char *name, const char *pattern, double seconds, bool quick, bool json)
{
	int passed = 0, failed = 0;
	regex_t want;
	if (!strcmp(name, "cuda")) name = "cuda:0";
	const tj_device device = tj_find_device(name);
	if (device <= 0 || regcomp(&want, pattern, REG_EXTENDED | REG_NOSUB)) {
		const char *const *all = tj_devices();
		for (fprintf(stderr, "there is no device %s. Devices:", name); *all; all++) fprintf(stderr, "\n  %s", *all);
		fprintf(stderr, "\n");
		return 1;
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = name));
	for (int i = 0; i < CASES; i++) {
		if (regexec(&want, cases[i].name, 0, NULL, 0)) continue;
		const bool ok = quick ? test_case(c, device, &cases[i]) : run_case(c, device, &cases[i], seconds, json);
		passed += ok, failed += !ok;
	}
	tj_close(c);
	regfree(&want);
	if (quick) printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}
