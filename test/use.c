/* The public header as users use it, compiled as C11 and as C++17 under -pedantic. */
#include <tj.h>

typedef struct layer {
	tj_tensor *w, *b;
} layer;

static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = (const layer *)self;
	tj_tensor *h = tj_add(tj_matmul(in[0], l->w), l->b);
	out[0] = tj_sum(tj_reshape(tj_cat(TJ_LIST(h, tj_neg(h)), 0), TJ_SHAPE(-1, 2)), TJ_AXES(0), false);
	out[1] = tj_mul(h, tj_arg_f(0));
}

static int check(tj_ctx *c, const char *what, bool ok)
{
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	if (!ok) fprintf(stderr, "FAIL %s\n", what);
	return ok;
}

int main(void)
{
	const float w[] = { 1, 2, 3, 4 }, x[] = { 1, 1 };
	int passed = 0;
	tj_ctx *c = tj_open(NULL);
	layer l = { tj_param(c, TJ_F32, TJ_SHAPE(2, 2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_write(l.w, w, sizeof w);

#ifdef __cplusplus
	tj_compile_opts o = {};
#else
	tj_compile_opts o = { 0 };
#endif
	o.size = sizeof o;
	o.name = "forward";
	o.nin = 1;
	o.nout = 2;
	tj_fn *f = tj_compile(c, forward, &l, &o);
	tj_tensor *out[2] = { NULL, NULL }, *in = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 2), x);
	passed += check(c, "call", tj_call_ex(f, out, TJ_LIST(in), TJ_SCALARS(TJ_F(2), TJ_I(1))) == TJ_OK);
	const float *y = (const float *)tj_data(out[1]);
	passed += check(c, "value", y[0] == 8 && y[1] == 12);
	passed += check(c, "0-d", tj_rank(tj_full(TJ_F32, TJ_0D, tj_f(1))) == 0);
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, 3 - passed);
	return passed != 3;
}
