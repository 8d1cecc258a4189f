/* SPDX-License-Identifier: MIT */
/* Handles errors and goes on: each error names the op, the shapes and the line, and the context goes on working. */
#include <tj.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], in[1]);
}

static void report(tj_ctx *c, const char *what)
{
	printf("%s\n", what);
	if (tj_check(c) == TJ_OK) printf("    no error\n");
	else tj_perror(c, stdout);
}

int main(void)
{
	float data[64 * 128] = { 0 };
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "product", .nin = 2, .nout = 1));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(64, 128), data), *w = tj_from_data(c, TJ_F32, TJ_SHAPE(64, 10), data);

	tj_call1(f, TJ_LIST(x, w));
	report(c, "a product of shapes that do not fit:");
	tj_call1(f, TJ_LIST(x, NULL));
	report(c, "a NULL in a list:");
	tj_add(tj_exp(NULL), x);
	report(c, "an error deep in an expression:");
	tj_scope *s = tj_push(c);
	tj_tensor *t = tj_mul(x, tj_f(2));
	tj_pop(s);
	tj_neg(t);
	report(c, "a tensor used after its scope was popped:");
	const int64_t index[] = { 0, 64 };
	tj_index_select(x, 0, tj_from_data(c, TJ_I64, TJ_SHAPE(2), index));
	report(c, "an index out of range:");
	tj_call1(f, TJ_LIST(tj_transpose(x, 0, 1), w));
	report(c, "and a call that is right:");
	tj_close(c);
	return 0;
}
