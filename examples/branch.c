/* SPDX-License-Identifier: MIT */
/* A C `if` on a tensor: both branches are traced, and both are in the printed graph. */
#include <tj.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_relu(in[0]);
	if (tj_truth(tj_gt(tj_sum(x, TJ_ALL, false), tj_f(3)))) x = tj_mul(x, tj_f(2));
	out[0] = tj_add(x, tj_f(1));
}

int main(void)
{
	const float small[] = { 1, -1, 0 }, large[] = { 4, -1, 2 };
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "branch", .nin = 1, .nout = 1));
	for (int i = 0; i < 4; i++) {
		const float *y = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3), i % 2 ? large : small))));
		printf("%g %g %g\n", y[0], y[1], y[2]);
	}
	tj_dump(f, TJ_DUMP_GRAPH, stdout);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
