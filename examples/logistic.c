/* SPDX-License-Identifier: MIT */
/* Logistic regression to convergence by Newton's method. The gradient is tj_grad(); the Hessian is tj_vmap() of tj_jvp() of the gradient,
 * over the rows of an identity matrix. C solves the small system that they give. */
#include <tj.h>

#include <math.h>
#include <time.h>

enum { N = 400, D = 6 };

static void along(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *const *g = self; /* the gradient, and what it is taken by */
	out[0] = tj_jvp(g[0], TJ_LIST(g[1]), TJ_LIST(in[0]), TJ_UNUSED_ERROR);
}

/* in: x [N,D], label [N] (0 or 1), w [D]; out: loss, gradient [D], Hessian [D,D] */
static void newton(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = in[2], *score = tj_matmul(in[0], w), *g[2] = { NULL, w };
	(void)self;
	/* log(exp(0) + exp(s)) - label s, without overflow, and smooth at 0; a little weight decay makes the minimum unique */
	tj_tensor *both = tj_stack(TJ_LIST(tj_mul(score, tj_f(0)), score), 0),
		  *each = tj_sub(tj_logsumexp(both, TJ_AXES(0), false), tj_mul(in[1], score));
	out[0] = tj_add(tj_mean(each, TJ_ALL, false), tj_mul(tj_sum(tj_square(w), TJ_ALL, false), tj_f(1e-4)));
	tj_grad(g, out[0], TJ_LIST(w), NULL);
	out[1] = g[0];
	tj_vmap(out + 2, 1, along, TJ_LIST(tj_eye(TJ_F64, D, D)), g, NULL);
}

/* Solves h x = b by Cholesky's factors; h is positive definite, row-major, and is overwritten, as is b by x. */
static void solve(double *h, double *b)
{
	for (int i = 0; i < D; i++) {
		for (int j = 0; j <= i; j++) {
			double s = h[i * D + j];
			for (int k = 0; k < j; k++) s -= h[i * D + k] * h[j * D + k];
			h[i * D + j] = i == j ? sqrt(s) : s / h[j * D + j];
		}
		for (int k = 0; k < i; k++) b[i] -= h[i * D + k] * b[k];
		b[i] /= h[i * D + i];
	}
	for (int i = D; i-- > 0;) {
		for (int k = i + 1; k < D; k++) b[i] -= h[k * D + i] * b[k];
		b[i] /= h[i * D + i];
	}
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, newton, NULL, TJ_OPTS(tj_compile_opts, .name = "newton", .nin = 3, .nout = 3));
	double x[N * D], label[N], w[D] = { 0 }, norm = 1;
	uint64_t s = 3;
	for (int i = 0; i < N; i++) {
		double score = 0;
		for (int k = 0; k < D; k++) {
			s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			x[i * D + k] = k ? (double)(s >> 40) * 0x1p-23 - 1 : 1;
			score += x[i * D + k] * (k % 2 ? 3 : -1.5);
		}
		s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		label[i] = score + (double)(s >> 40) * 0x1p-22 - 2 > 0;
	}
	tj_tensor *data = tj_from_data(c, TJ_F64, TJ_SHAPE(N, D), x), *labels = tj_from_data(c, TJ_F64, TJ_SHAPE(N), label);
	for (int turn = 0; turn < 20 && norm > 1e-12; turn++) {
		tj_tensor *out[3];
		double step[D], h[D * D];
		const clock_t begin = clock();
		if (tj_call(f, out, TJ_LIST(data, labels, tj_from_data(c, TJ_F64, TJ_SHAPE(D), w))) != TJ_OK) return tj_perror(c, stderr), 1;
		tj_read(out[1], step, sizeof step);
		tj_read(out[2], h, sizeof h);
		fprintf(stderr, "time: %.2f ms\n", (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC);
		norm = 0;
		for (int i = 0; i < D; i++) norm = fmax(norm, fabs(step[i]));
		printf("turn %d: loss %.6f, largest gradient %.0e\n", turn, tj_item(out[0]), norm);
		solve(h, step);
		for (int i = 0; i < D; i++) w[i] -= step[i];
	}
	printf("w:");
	for (int i = 0; i < D; i++) printf(" %.4f", w[i]);
	printf("\n");
	tj_close(c);
	return norm > 1e-12;
}
