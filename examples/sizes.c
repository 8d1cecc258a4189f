/* SPDX-License-Identifier: MIT */
/* One function with many sizes: what is compiled, and when; sizes with names. */
#include <stdlib.h>
#include <tj.h>

static void scores(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_sub(in[0], tj_mean(in[0], TJ_AXES(1), true));
	out[0] = tj_softmax(tj_mul(x, in[1]), -1);
}

static tj_tensor *ones(int64_t rows, int64_t cols) { return tj_full(TJ_F32, TJ_SHAPE(rows, cols), tj_f(1)); }

static void tell(void *self, const tj_reason *why)
{
	(void)self;
	printf("compiled again: %s\n", why->text);
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	tj_stats n = { .size = sizeof n };
	tj_fn *f = tj_compile(c, scores, NULL, TJ_OPTS(tj_compile_opts, .name = "scores", .nin = 2, .nout = 1, .on_recompile = tell));
	for (int i = 0; i < 500; i++) {
		tj_scope *s = tj_push(c);
		int64_t rows = 2 + i * 7 % 90, cols = 2 + i * 31 % 700;
		const float *y = tj_data(tj_call1(f, TJ_LIST(ones(rows, cols), ones(1, cols))));
		if (!y || y[0] * (float)cols < 0.999f || y[0] * (float)cols > 1.001f) printf("wrong at %d x %d\n", (int)rows, (int)cols);
		tj_pop(s);
	}
	tj_fn_stats(f, &n);
	printf("500 sizes: %d signature, %d compiles\n", (int)n.entries, (int)n.compiles);

	/* Named sizes are symbols from the start, and every call is checked against them. */
	tj_fn *g = tj_compile(c, scores, NULL, TJ_OPTS(tj_compile_opts, .name = "named", .nin = 2, .nout = 1, .on_recompile = tell,
	                                               .shapes = "x: f32[B,S], scale: f32[1,S]; B in 2..64; S%4==0"));
	for (int i = 2; i < 64; i += 5) tj_call1(g, TJ_LIST(ones(i, 4 * i), ones(1, 4 * i)));
	tj_fn_stats(g, &n);
	printf("named: %d sizes, %d compile\n", (int)n.sizes, (int)n.compiles);
	tj_dump(g, TJ_DUMP_SYMBOLS, stdout);
	tj_call1(g, TJ_LIST(ones(8, 30), ones(1, 30)));
	if (tj_check(c) != TJ_OK) tj_perror(c, stdout);
	tj_close(c);
	return 0;
}
