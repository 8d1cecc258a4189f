/* SPDX-License-Identifier: MIT */
/* many: one function called with very many sizes, as a server is: the first call of each size, a later one, and the memory of a size.
 *
 *   tj-bench --many [N]        N pairs of lengths (default 100,000); sum(softmax(x) * (x + 1)) + sum(y), six ops
 *
 * The data are small, so that the time of a call is that of finding or making its code. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void pairs(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_sum(tj_mul(tj_softmax(in[0], -1), tj_add(in[0], tj_f(1))), TJ_ALL, false);
	out[0] = tj_add(h, tj_sum(in[1], TJ_ALL, false));
}

/* Calls f once with each of side^2 pairs of lengths; microseconds a call. false: a call failed. */
static bool turn(tj_ctx *c, tj_fn *f, int64_t side, float *x, double *us)
{
	const int64_t n = side * side;
	const double start = bench_now();
	for (int64_t i = 0; i < n; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *a = tj_wrap(c, TJ_F32, TJ_SHAPE(1 + i / side), NULL, x, NULL, NULL);
		tj_call1(f, TJ_LIST(a, tj_wrap(c, TJ_F32, TJ_SHAPE(1 + i % side), NULL, x, NULL, NULL)));
		tj_pop(s);
	}
	*us = (bench_now() - start) * 1e6 / (double)n;
	return tj_check(c) == TJ_OK;
}

static bool run(const char *name, tj_mode mode, const char *shapes, size_t max_bytes, int64_t side, float *x, bool json)
{
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, pairs, NULL, TJ_OPTS(tj_compile_opts, .name = "many", .nin = 2, .nout = 1, .mode = mode, .shapes = shapes,
	                                             .max_bytes = max_bytes));
	double us[3] = { 0 };
	bool ok = f != NULL;
	for (int i = 0; ok && i < 3; i++) ok = turn(c, f, side, x, &us[i]);
	if (!ok) tj_perror(c, stderr);
	tj_stats st = { .size = sizeof st };
	if (f) tj_fn_stats(f, &st);
	const double kib = st.sizes ? (double)st.bytes / (double)st.sizes / 1024 : 0;
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"many_%s\", \"sizes\": %lld, \"first_us\": %.1f, \"later_us\": %.2f, \"kept\": %llu, "
	              "\"kib_a_size\": %.2f, \"compiles\": %llu}\n"
	            : "many_%-22s %lld sizes: %6.1f us the first call of each, %6.2f later; %llu kept, %.2f KiB each; %llu compiles\n",
	       name, (long long)(side * side), us[0], us[2], (unsigned long long)st.sizes, kib, (unsigned long long)st.compiles);
	tj_close(c);
	return ok;
}

int bench_many(long long n, bool json)
{
	const int64_t side = (int64_t)ceil(sqrt((double)(n > 0 ? n : 100000)));
	const size_t count = (size_t)side;
	float *x = malloc(count * sizeof *x);
	for (size_t i = 0; x && i < count; i++) x[i] = (float)(i % 7);
	const bool ok = x && run("verify", TJ_VERIFY, NULL, (size_t)4 << 30, side, x, json) &&
	                run("direct", TJ_DIRECT, NULL, (size_t)4 << 30, side, x, json) &&
	                run("direct_shapes", TJ_DIRECT, "x: f32[A], y: f32[B]", (size_t)4 << 30, side, x, json) &&
	                run("verify_128_MiB", TJ_VERIFY, NULL, 0, side, x, json) &&
	                run("direct_shapes_128_MiB", TJ_DIRECT, "x: f32[A], y: f32[B]", 0, side, x, json);
	free(x);
	return ok ? 0 : 1;
}
