/* SPDX-License-Identifier: MIT */
/* Direct mode: after one followed call the body is skipped. Declared state is read on each call; audit finds undeclared values. */
#include <tj.h>

typedef struct model { tj_tensor *w, *b; double scale; int ran; } model;

static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	m->ran++;
	out[0] = tj_mul(tj_add(tj_sum(tj_mul(in[0], m->w), TJ_ALL, false), m->b), tj_arg_f(0));
}

static void impure(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	m->ran++;
	out[0] = tj_mul(tj_sum(in[0], TJ_ALL, false), tj_f(m->scale)); /* a C variable: invisible when the body is skipped */
}

static void say(void *self, const tj_reason *r)
{
	(void)self;
	printf("  %s\n", r->text);
}

int main(void)
{
	const float x[] = { 1, 2, 3 }, ones[] = { 1, 1, 1 }, tens[] = { 10, 10, 10 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .audit = 3)); /* every third call runs the body to compare; TJ_AUDIT=3 does the same */
	tj_tensor *first = tj_param(c, TJ_F32, TJ_SHAPE(3)), *second = tj_param(c, TJ_F32, TJ_SHAPE(3));
	tj_write(first, ones, sizeof ones);
	tj_write(second, tens, sizeof tens);
	model m = { first, tj_param(c, TJ_F32, TJ_0D), 2, 0 };
	tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(3), x), *y;

	tj_fn *f = tj_compile(c, forward, &m, TJ_OPTS(tj_compile_opts, .name = "forward", .nin = 1, .nout = 1, .mode = TJ_DIRECT,
	                                              .state = TJ_VARS(&m.w, &m.b)));
	for (int i = 1; i <= 6; i++) {
		if (i == 4) m.w = second; /* a swapped weight is seen, and compiles nothing */
		if (tj_call_ex(f, &y, TJ_LIST(in), TJ_SCALARS(TJ_F(i))) == TJ_OK) printf("forward %d: %g\n", i, tj_item(y));
	}
	printf("the body ran %d times in 6 calls\n", m.ran);

	tj_fn *g = tj_compile(c, impure, &m,
	                      TJ_OPTS(tj_compile_opts, .name = "impure", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .on_recompile = say));
	for (int i = 1; i <= 5; i++) {
		if (i == 3) m.scale = 3;
		printf("impure %d, scale %g: %g\n", i, m.scale, tj_item(tj_call1(g, TJ_LIST(in))));
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
