/* SPDX-License-Identifier: MIT */
/* A recurrent network over a sequence: by tj_scan, whose body is traced once, and unrolled by a C loop. The results are equal
 * bit for bit. */
#include <string.h>
#include <tj.h>

enum { T = 24, B = 4, X = 8, H = 16 };
typedef struct rnn { tj_tensor *w, *u, *b; } rnn;

/* h' = tanh(x w + h u + b); the new state is also the output. The products are sums over an axis, not tj_matmul(): a library may give
 * other last bits. */
static tj_tensor *product(tj_tensor *a, tj_tensor *w) { return tj_sum(tj_mul(tj_unsqueeze(a, 2), w), TJ_AXES(1), false); }

static void cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const rnn *m = self;
	out[0] = tj_tanh(tj_add(tj_add(product(in[1], m->w), product(in[0], m->u)), m->b));
	out[1] = out[0];
}

static void scanned(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_scan(out, out + 1, 1, cell, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(B, H), tj_f(0))), TJ_LIST(in[0]), self, NULL);
}

static void unrolled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2] = { tj_full(TJ_F32, TJ_SHAPE(B, H), tj_f(0)) }, *ys[T + 1];
	for (int t = 0; t < T; t++) {
		cell(r, TJ_LIST(r[0], tj_squeeze(tj_slice(in[0], 0, t, t + 1, 1), TJ_AXES(0))), self);
		ys[t] = r[1];
	}
	ys[T] = TJ_END;
	out[0] = r[0];
	out[1] = tj_stack(ys, 0);
}

static tj_fn *run(tj_ctx *c, const char *name, tj_body *body, rnn *m, tj_tensor *x, tj_tensor **y)
{
	tj_fn *f = tj_compile(c, body, m, TJ_OPTS(tj_compile_opts, .name = name, .nin = 1, .nout = 2));
	for (int i = 0; i < 3; i++) tj_call(f, y, TJ_LIST(x));
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	printf("%s: traced %llu time, %llu kernels\n", name, (unsigned long long)s.recordings, (unsigned long long)s.kernels);
	return f;
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	rnn m = { tj_mul(tj_normal(TJ_F32, TJ_SHAPE(X, H)), tj_f(0.3)), tj_mul(tj_normal(TJ_F32, TJ_SHAPE(H, H)), tj_f(0.3)),
		      tj_full(TJ_F32, TJ_SHAPE(H), tj_f(0.1)) };
	tj_tensor *x = tj_normal(TJ_F32, TJ_SHAPE(T, B, X)), *a[2], *b[2];
	run(c, "scan", scanned, &m, x, a);
	run(c, "loop", unrolled, &m, x, b);
	if (tj_check(c) != TJ_OK) {
		tj_perror(c, stderr);
		return 1;
	}
	const float *h = tj_data(a[0]);
	printf("the last state begins %.6f %.6f %.6f\n", h[0], h[1], h[2]);
	bool same = !memcmp(h, tj_data(b[0]), sizeof(float) * B * H) && !memcmp(tj_data(a[1]), tj_data(b[1]), sizeof(float) * T * B * H);
	printf("%d states of both are %s\n", T, same ? "equal bit for bit" : "different");
	tj_close(c);
	return !same;
}
