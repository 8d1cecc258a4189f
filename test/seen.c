/* SPDX-License-Identifier: MIT */
/* What test/tools.sh looks at with gdb, perf, valgrind and tj top: one kernel of four lines, and a product. seen CALLS: so many calls; it
 * prints their number when half of them are done. */
#include <stdlib.h>
#include <tj.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_exp(in[0]);
	h = tj_mul(h, tj_sin(h));
	tj_tensor *s = tj_sum(h, TJ_AXES(1), true);
	out[0] = tj_div(h, s);
	out[1] = tj_matmul(h, in[0]);
}

int main(int argc, char **argv)
{
	enum { N = 192 };
	static float x[N * N];
	const long calls = argc > 1 ? atol(argv[1]) : 1;
	for (int i = 0; i < N * N; i++) x[i] = (float)(i % 997) / 500;
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "seen", .nin = 1, .nout = 2, .mode = TJ_DIRECT));
	tj_tensor *a = tj_from_data(c, TJ_F32, TJ_SHAPE(N, N), x), *y[2];
	for (long i = 0; i < calls; i++) {
		tj_scope *s = tj_push(c);
		tj_call(f, y, TJ_LIST(a));
		tj_pop(s);
		if (i == calls / 2) printf("%ld\n", calls), fflush(stdout);
	}
	const bool ok = tj_check(c) == TJ_OK;
	if (!ok) tj_perror(c, stderr);
	tj_close(c);
	return ok ? 0 : 1;
}
