/* SPDX-License-Identifier: MIT */
/* relu, then `if (sum > 0) x = x * 2`: as a C `if` on a value, and in the graph by tj_cond. */
#include <tj.h>

static void by_truth(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_relu(in[0]);
	if (tj_truth(tj_gt(tj_sum(x, TJ_ALL, false), tj_f(0)))) x = tj_mul(x, tj_f(2)); /* the pending ops run here */
	out[0] = x;
}

static void twice(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }
static void same(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[0]; }

static void by_cond(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_relu(in[0]);
	tj_cond(out, 1, tj_gt(tj_sum(x, TJ_ALL, false), tj_f(0)), twice, same, TJ_LIST(x), NULL);
}

static void run(tj_ctx *c, const char *name, tj_body *body)
{
	const float data[2][3] = { { 1, -2, 3 }, { -1, -2, -3 } };
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = name, .nin = 1, .nout = 1));
	for (int i = 0; i < 4; i++) {
		const float *y = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3), data[i % 2]))));
		printf("%s: %g %g %g\n", name, y[0], y[1], y[2]);
	}
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	printf("%s: %llu plans for both ways, %llu boundaries in 4 calls\n", name, (unsigned long long)s.plans, (unsigned long long)s.boundaries);
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	run(c, "truth", by_truth);
	run(c, "cond", by_cond);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
