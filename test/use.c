/* SPDX-License-Identifier: MIT */
/* The public header as in user code, compiled as C11 and as C++17 with -pedantic. */
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

/* An exception may pass through tj_call(): the body was left, and the context works on. */
#ifdef __cplusplus
static void throws(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_neg(in[0]);
	if (!self) throw 7;
}
static bool survives_exceptions(tj_ctx *c, tj_fn *other, tj_tensor *x)
{
	tj_tensor *y = NULL;
	bool ok = true;
	tj_compile_opts o = {};
	o.size = sizeof o;
	o.nin = o.nout = 1;
	tj_fn *f = tj_compile(c, throws, NULL, &o);
	for (int i = 0; i < 3; i++) {
		int caught = 0;
		try {
			tj_call1(f, TJ_LIST(x));
		} catch (int e) {
			caught = e;
		}
		ok = ok && caught == 7 && tj_check(c) == TJ_ERR_BODY;
	}
	tj_tensor *out[2] = { NULL, NULL };
	ok = ok && tj_call_ex(other, out, TJ_LIST(x), TJ_SCALARS(TJ_F(2), TJ_I(1))) == TJ_OK;
	y = tj_neg(x);
	return ok && tj_item(tj_sum(y, TJ_ALL, false)) == -2;
}
#else
static bool survives_exceptions(tj_ctx *c, tj_fn *other, tj_tensor *x) { return c && other && x; }
#endif

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
	passed += check(c, "exceptions", survives_exceptions(c, f, in));
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, 4 - passed);
	return passed != 4;
}
