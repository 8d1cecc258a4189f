/* SPDX-License-Identifier: MIT */
/* relu(x) + sigmoid(x) becomes one kernel, which this program prints. */
#include <tj.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_relu(in[0]), tj_sigmoid(in[0]));
}

int main(void)
{
	float x[1000];
	for (int i = 0; i < 1000; i++) x[i] = (float)(i - 500) / 100;
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "relu_sigmoid", .nin = 1, .nout = 1));
	const float *y = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(1000), x))));
	printf("f(-1) = %.6f, f(1) = %.6f\n\nthe graph:\n", y[400], y[600]);
	tj_dump(f, TJ_DUMP_TABLE, stdout);
	printf("\nthe kernel:\n");
	tj_dump(f, TJ_DUMP_KERNELS, stdout);
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	printf("%llu kernel\n", (unsigned long long)n.kernels);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return n.kernels == 1 ? 0 : 1;
}
