/* SPDX-License-Identifier: MIT */
/* f32, then f64, then bf16, then another size: each is traced again, and the library says why. */
#include <tj.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mean(tj_square(in[0]), TJ_ALL, false);
}

static void why(void *self, const tj_reason *r)
{
	(void)self;
	printf("traced again by %s: %s was %s, is %s\n", r->site, r->kind, r->expected, r->found);
}

int main(void)
{
	const float x[] = { 1, 2, 3, 4 };
	const double z[] = { 1, 2, 3, 4 };
	const tj_bf16 h[] = { tj_to_bf16(1), tj_to_bf16(2), tj_to_bf16(3), tj_to_bf16(4) };
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "mean_square", .nin = 1, .nout = 1, .on_recompile = why));
	for (int i = 0; i < 2; i++) {
		printf("f32: %g\n", tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4), x)))));
		printf("f64: %g\n", tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(4), z)))));
		printf("bf16: %g\n", tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_BF16, TJ_SHAPE(4), h)))));
		printf("three: %g\n", tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3), x)))));
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
