/* SPDX-License-Identifier: MIT */
/* Weights of 8 bits with scales, one for each row or for each group of its elements: a matrix product multiplies by the scales while it
 * reads the weights, so they never exist as floats. The results have the bits of the evaluator, which computes one op after the other. */
#include <tj.h>

#include <stdint.h>
#include <string.h>

enum { ROWS = 20, IN = 768, OUT = 608 };
typedef struct layer { tj_tensor *weight, *scale; int64_t group; } layer; /* weight: i8[OUT,IN]; scale: f32[OUT,IN/group] */

static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	tj_tensor *w = tj_reshape(tj_cast(l->weight, TJ_F32), TJ_SHAPE(OUT, IN / l->group, l->group));
	w = tj_reshape(tj_mul(w, tj_unsqueeze(l->scale, 2)), TJ_SHAPE(OUT, IN));
	out[0] = tj_matmul(in[0], tj_transpose(w, 0, 1));
}

static tj_tensor *values(tj_ctx *c, tj_dtype t, tj_dims shape, int64_t n)
{
	static int8_t small[OUT * IN];
	static float real[OUT * IN];
	tj_tensor *p = tj_param(c, t, shape);
	for (int64_t i = 0; i < n; i++) small[i] = (int8_t)(i * 37 % 251), real[i] = (float)(1 + i * 17 % 101) / 128;
	if (t == TJ_I8) tj_write(p, small, (size_t)n);
	else tj_write(p, real, (size_t)n * sizeof *real);
	return p;
}

/* One row, and several, of a new context; to: the results. Returns the compiled function. */
static tj_fn *compute(tj_ctx *c, int64_t group, bool frozen, float *to)
{
	static layer l; /* the function keeps its address */
	l = (layer){ values(c, TJ_I8, TJ_SHAPE(OUT, IN), OUT * IN), values(c, TJ_F32, TJ_SHAPE(OUT, IN / group), OUT * IN / group), group };
	tj_fn *f = tj_compile(
		c, forward, &l,
		TJ_OPTS(tj_compile_opts, .name = "forward", .nin = 1, .nout = 1, .freeze = frozen ? TJ_VARS(&l.weight, &l.scale) : NULL));
	for (int rows = 1; rows <= ROWS; rows += ROWS - 1, to += OUT) {
		tj_tensor *x = values(c, TJ_F32, TJ_SHAPE(rows, IN), rows * IN);
		tj_read(tj_call1(f, TJ_LIST(x)), to, (size_t)rows * OUT * sizeof *to);
	}
	return f;
}

int main(void)
{
	static const int64_t group[] = { IN, 64, 96, 24 };
	static float y[(1 + ROWS) * OUT], want[(1 + ROWS) * OUT];
	for (int g = 0; g < 4; g++) {
		tj_ctx *plain = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		compute(plain, group[g], false, want);
		for (int frozen = 0; frozen < 2; frozen++) {
			tj_ctx *c = tj_open(NULL);
			tj_fn *f = compute(c, group[g], frozen, y);
			tj_stats n = { .size = sizeof n };
			tj_fn_stats(f, &n);
			printf("a scale for %3d weights, %s: %s, %d kernel%s\n", (int)group[g], frozen ? "frozen  " : "as cells",
			       memcmp(y, want, sizeof want) ? "other bits" : "the evaluator's bits", (int)(n.kernels / n.plans), n.kernels > n.plans ? "s" : "");
			if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
			tj_close(c);
		}
		tj_close(plain);
	}
	return 0;
}
