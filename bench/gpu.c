/* SPDX-License-Identifier: MIT */
/* gpu: cases for a GPU. Tensors are made there and stay there; calls are put into the queue one after the other, and the clock stops when
 * all have run. Each case is compared with a copy of as many bytes on the same device, or with the plain product of the library.
 *
 * Bytes are counted in two ways: those of the function, its inputs read once and its outputs written once; and those that its kernels move
 * (tj_stats.moved_bytes), temporaries and what is read twice included. */
#include "bench/gpu.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

bool gpu_call(const gpu_job *j, tj_tensor **out) { return tj_call(j->f, out, j->in) == TJ_OK; }

double gpu_time(const gpu_job *j, double seconds)
{
	double best = 0;
	tj_tensor *out[GPU_OUT];
	for (int n = 4; n < 1 << 20; n *= 2) {
		const double begin = bench_now();
		for (int i = 0; i < n; i++) {
			tj_scope *s = tj_push(j->c);
			if (!gpu_call(j, out)) return 0;
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
	tj_tensor *from = tj_to(tj_full(TJ_U8, TJ_SHAPE(half), tj_i(1)), device),
		  *to = tj_to(tj_full(TJ_U8, TJ_SHAPE(half), tj_i(2)), device), *out[1];
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

/* What one call moves, and takes. */
typedef struct result {
	double us, first_ms, bytes, moved; /* moved: by kernels */
	double flops;                      /* of products; 0: limited by memory */
	double copy_us;                    /* of `bytes`, if limited by memory */
	double singly_us, kernels;         /* singly: without graphs; or 0 */
	gpu_ways ways;                     /* of a case with one product; else n is 0 */
} result;

static double bytes_of(tj_tensor *t) { return (double)tj_numel(t) * (double)tj_dtype_size(tj_dtype_of(t)); }

static double bytes_of_all(const gpu_case *g, const gpu_job *j, tj_tensor *const *out)
{
	double bytes = 0;
	for (int k = 0; k < g->nin; k++) bytes += bytes_of(j->in[k]);
	for (int k = 0; k < g->nout; k++) bytes += bytes_of(out[k]);
	return bytes;
}

static tj_stats stats_of(const gpu_job *j)
{
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(j->f, &s);
	return s;
}
static double moved_bytes(const gpu_job *j) { return (double)stats_of(j).moved_bytes; }

static void put(const gpu_case *g, const result *r, bool json)
{
	const double rate = g->flops ? r->flops / r->us / 1e6 : r->bytes / r->us / 1e3, of_copy = r->copy_us / r->us, more = r->moved / r->bytes;
	const char *unit = g->flops ? "TF/s" : "GB/s";
	if (json) {
		printf("{\"peer\": \"tjit\", \"case\": \"gpu_%s\", \"us\": %.3f, \"first_ms\": %.1f, \"%s\": %.1f, \"bytes\": %.0f, "
		       "\"moved_bytes\": %.0f",
		       g->name, r->us, r->first_ms, unit, rate, r->bytes, r->moved);
		if (!g->flops) printf(", \"copy_us\": %.3f, \"of_copy\": %.3f, \"moved_of_copy\": %.3f", r->copy_us, of_copy, of_copy * more);
		if (r->singly_us > 0)
			printf(", \"kernels\": %.0f, \"kernel_us\": %.3f, \"without_graph_us\": %.3f", r->kernels, r->us / r->kernels,
			       r->singly_us);
		if (r->ways.n) gpu_put_ways(&r->ways, json);
		printf("}\n");
	} else {
		printf("%-24s %12.2f us %10.1f %s %10.2f MB, kernels move %10.2f MB", g->name, r->us, rate, unit, r->bytes / 1e6, r->moved / 1e6);
		if (!g->flops) printf("; %3.0f %% and %3.0f %% of a copy", 100 * of_copy, 100 * of_copy * more);
		if (r->singly_us > 0) printf("; %.0f kernels, %.2f us for each; without a graph %.2f us", r->kernels, r->us / r->kernels, r->singly_us);
		printf("; first call %.1f ms", r->first_ms);
		if (r->ways.n) gpu_put_ways(&r->ways, json);
		printf("\n");
	}
	fflush(stdout);
}

static bool time_case(const gpu_job *j, const gpu_case *g, double seconds, result *r)
{
	if (g->plain) {
		const bool ok = gpu_open_ways(&r->ways, j, g) && gpu_time_ways(&r->ways, seconds);
		r->us = r->ways.self.us;
		gpu_close_ways(&r->ways);
		return ok;
	}
	r->us = gpu_time(j, seconds) * 1e6;
	if (g->graphs) {
		tj_set_settings(j->c, TJ_OPTS(tj_settings, .no_graphs = true));
		r->singly_us = gpu_time(j, seconds) * 1e6;
		tj_set_settings(j->c, NULL);
	}
	return r->us > 0;
}

static bool run_case(tj_ctx *c, tj_device device, const gpu_case *g, const bench_gpu_opts *o)
{
	gpu_job j;
	const int64_t *const p = o->small ? g->small : g->p;
	result r = { .flops = g->flops ? g->flops(p) : 0 };
	tj_tensor *out[GPU_OUT];
	tj_scope *s = tj_push(c);
	bool ok = gpu_open(&j, c, g, p, device);
	const double begin = bench_now();
	ok = ok && gpu_call(&j, out) && tj_sync(c) == TJ_OK;
	r.first_ms = (bench_now() - begin) * 1e3;
	if (ok) r.bytes = bytes_of_all(g, &j, out), r.moved = moved_bytes(&j), r.kernels = (double)stats_of(&j).kernels;
	ok = ok && time_case(&j, g, o->seconds, &r);
	tj_fn_free(j.f);
	tj_pop(s);
	tj_empty_cache(c, device);
	if (ok && !g->flops) r.copy_us = time_copy(c, device, r.bytes, o->seconds / 4) * 1e6;
	if (ok) put(g, &r, o->json);
	return ok;
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

bool gpu_same(tj_tensor *got, tj_tensor *want, double tolerance)
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

static bool test_ways(const gpu_job *j, const gpu_case *g)
{
	gpu_ways w;
	const bool ok = gpu_open_ways(&w, j, g) && gpu_test_ways(&w, g->name, 0.05);
	gpu_close_ways(&w);
	return ok;
}

static bool test_case(tj_ctx *c, tj_device device, const gpu_case *g)
{
	gpu_job there, here;
	tj_tensor *got[GPU_OUT], *want[GPU_OUT];
	tj_scope *s = tj_push(c);
	bool ok = gpu_open(&there, c, g, g->small, device);
	here = there;
	for (int k = 0; k < g->nin; k++) here.in[k] = tj_to(there.in[k], TJ_CPU);
	ok = ok && gpu_call(&here, want);
	for (int i = 0; ok && i < 6; i++) ok = gpu_call(&there, got); /* from the fourth call on, kernels run as a CUDA graph */
	for (int i = 0; ok && i < g->nout; i++) ok = gpu_same(got[i], want[i], g->flops ? 0.05 : 0);
	if (!ok) printf("FAIL %s: differs from the CPU\n", g->name);
	if (ok && !g->flops && moved_bytes(&there) < bytes_of_all(g, &there, got))
		printf("FAIL %s: kernels move %.0f bytes, fewer than there are\n", g->name, moved_bytes(&there)), ok = false;
	ok = ok && (!g->plain || test_ways(&there, g));
	tj_fn_free(there.f);
	tj_pop(s);
	return ok;
}

/* ---- all ---- */
static bool run_one(tj_ctx *c, tj_device device, const gpu_case *g, const bench_gpu_opts *o)
{
	const bool ok = g->compile ? o->quick ? gpu_test_compile(c, device, g) : gpu_compile_times(c, device, g, o)
	                           : o->quick ? test_case(c, device, g) : run_case(c, device, g, o);
	if (tj_check(c) == TJ_OK) return ok;
	tj_perror(c, stderr);
	return false;
}

int bench_gpu(const bench_gpu_opts *o)
{
	int passed = 0, failed = 0;
	regex_t want;
	const char *const name = strcmp(o->device, "cuda") ? o->device : "cuda:0";
	const tj_device device = tj_find_device(name);
	if (device <= 0 || regcomp(&want, o->pattern, REG_EXTENDED | REG_NOSUB)) {
		const char *const *all = tj_devices();
		for (fprintf(stderr, "there is no device %s. Devices:", name); *all; all++) fprintf(stderr, "\n  %s", *all);
		fprintf(stderr, "\n");
		return 1;
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = name));
	for (int i = 0; i < gpu_ncases; i++) {
		if (regexec(&want, gpu_cases[i].name, 0, NULL, 0)) continue;
		const bool ok = run_one(c, device, &gpu_cases[i], o);
		passed += ok, failed += !ok;
	}
	tj_close(c);
	regfree(&want);
	if (o->quick || o->small) printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}
