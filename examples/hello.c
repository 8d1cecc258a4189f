/* SPDX-License-Identifier: MIT */
/* The first program: y = gelu(x W + b), traced once, then replayed. */
#include <tj.h>

typedef struct layer { tj_tensor *w, *b; } layer;

static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	out[0] = tj_gelu(tj_add(tj_matmul(in[0], l->w), l->b));
}

int main(void)
{
	const float w[] = { 1, 2, 3, 4, 5, 6 }, b[] = { -1, 1 }, x[] = { 1, 0, -1, 0.5f, 0.25f, 0 };
	tj_ctx *c = tj_open(NULL);
	layer l = { tj_param(c, TJ_F32, TJ_SHAPE(3, 2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_write(l.w, w, sizeof w);
	tj_write(l.b, b, sizeof b);
	tj_fn *f = tj_compile(c, forward, &l, TJ_OPTS(tj_compile_opts, .name = "forward", .nin = 1, .nout = 1));
	for (int i = 0; i < 3; i++) {
		tj_scope *s = tj_push(c);
		const float *y = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), x))));
		printf("%.4f %.4f %.4f %.4f\n", y[0], y[1], y[2], y[3]);
		tj_pop(s);
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	printf("%llu calls, %llu of them replayed\n", (unsigned long long)n.calls, (unsigned long long)n.hits);
	tj_close(c);
	return 0;
}
