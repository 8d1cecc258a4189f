/* SPDX-License-Identifier: MIT */
/* Calls see weights that change between them: written to, assigned, or replaced by another tensor. */
#include <tj.h>

typedef struct model { tj_tensor *w; } model;

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	out[0] = tj_sum(tj_mul(in[0], m->w), TJ_ALL, false);
}

int main(void)
{
	const float x[] = { 1, 2, 3 }, ones[] = { 1, 1, 1 }, tens[] = { 10, 10, 10 };
	tj_ctx *c = tj_open(NULL);
	tj_tensor *a = tj_param(c, TJ_F32, TJ_SHAPE(3)), *b = tj_param(c, TJ_F32, TJ_SHAPE(3));
	tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(3), x);
	tj_write(a, ones, sizeof ones);
	tj_write(b, tens, sizeof tens);
	model m = { a };
	tj_fn *f = tj_compile(c, body, &m, TJ_OPTS(tj_compile_opts, .name = "dot", .nin = 1, .nout = 1));
	printf("ones:     %g\n", tj_item(tj_call1(f, TJ_LIST(in))));
	m.w = b;
	printf("swapped:  %g\n", tj_item(tj_call1(f, TJ_LIST(in))));
	tj_write(b, ones, sizeof ones);
	printf("written:  %g\n", tj_item(tj_call1(f, TJ_LIST(in))));
	tj_assign(b, tj_f(0.5));
	printf("assigned: %g\n", tj_item(tj_call1(f, TJ_LIST(in))));
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	printf("%llu plan for %llu calls\n", (unsigned long long)n.plans, (unsigned long long)n.calls);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
