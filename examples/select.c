/* SPDX-License-Identifier: MIT */
/* Boxes of a detector: those with a score above a threshold are kept, so later sizes depend on data. Each new count is traced once;
 * code is compiled for the first counts and used for all others. */
#include <tj.h>

enum { N = 8 };
typedef struct frame { float box[N][4], score[N]; int64_t label[N]; } frame; /* box: x0, y0, x1, y1 */

/* out: the boxes kept i64[k], their overlap (intersection over union) f32[k,k], the labels seen and how often */
static void detect(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const float *threshold = self;
	tj_tensor *pass = tj_gt(in[1], tj_f((double)*threshold));
	tj_tensor *at = tj_squeeze(tj_nonzero(pass), TJ_AXES(1)); /* the pending ops run here: the count is known from now on */
	tj_tensor *box = tj_index_select(in[0], 0, at);           /* [k, 4] */
	tj_tensor *lo = tj_slice(box, 1, 0, 2, 1), *hi = tj_slice(box, 1, 2, 4, 1);
	tj_tensor *lo2 = tj_maximum(tj_unsqueeze(lo, 0), tj_unsqueeze(lo, 1)), *hi2 = tj_minimum(tj_unsqueeze(hi, 0), tj_unsqueeze(hi, 1));
	tj_tensor *both = tj_prod(tj_relu(tj_sub(hi2, lo2)), TJ_AXES(2), false), *area = tj_prod(tj_sub(hi, lo), TJ_AXES(1), false);
	out[0] = at;
	out[1] = tj_div(both, tj_sub(tj_add(tj_unsqueeze(area, 0), tj_unsqueeze(area, 1)), both));
	out[2] = tj_unique_all(tj_masked_select(in[2], pass), NULL, NULL, &out[3]);
}

static uint32_t state = 7;
static float uniform(void) { return (float)((state = state * 1664525 + 1013904223) >> 8) / 16777216; }

static frame next_frame(void)
{
	frame f;
	for (int i = 0; i < N; i++) {
		f.box[i][0] = 10 * uniform(), f.box[i][1] = 10 * uniform();
		f.box[i][2] = f.box[i][0] + 1 + 5 * uniform(), f.box[i][3] = f.box[i][1] + 1 + 5 * uniform();
		f.score[i] = uniform();
		f.label[i] = (int64_t)(3 * uniform());
	}
	return f;
}

static void print_frame(tj_tensor **out)
{
	static const char *const name[] = { "cat", "dog", "owl" };
	const int k = (int)tj_numel(out[0]);
	const int64_t *at = tj_data(out[0]), *label = tj_data(out[2]), *count = tj_data(out[3]);
	const float *overlap = tj_data(out[1]);
	int a = 0, b = 1;
	for (int i = 0; i < k; i++) printf("%s%d", i ? " " : "boxes ", (int)at[i]);
	if (!k) printf("no box");
	for (int i = 0; i < tj_numel(out[2]); i++) printf(", %d %s", (int)count[i], name[label[i]]);
	for (int i = 0; i < k; i++)
		for (int j = i + 1; j < k; j++)
			if (overlap[i * k + j] > overlap[a * k + b]) a = i, b = j;
	if (k > 1 && overlap[a * k + b] > 0)
		printf("; %d and %d overlap most, by %.0f %%", (int)at[a], (int)at[b], 100 * (double)overlap[a * k + b]);
	printf("\n");
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	float threshold = 0.5f;
	tj_fn *f = tj_compile(c, detect, &threshold, TJ_OPTS(tj_compile_opts, .name = "detect", .nin = 3, .nout = 4));
	tj_stats early = { .size = sizeof early }, late = early;
	for (int i = 0; i < 100; i++) {
		tj_scope *s = tj_push(c);
		frame x = next_frame();
		tj_tensor *out[4];
		tj_status ok =
			tj_call(f, out,
		                TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(N, 4), x.box), tj_from_data(c, TJ_F32, TJ_SHAPE(N), x.score),
		                        tj_from_data(c, TJ_I64, TJ_SHAPE(N), x.label)));
		if (ok == TJ_OK && i < 5) print_frame(out);
		if (i == 49) tj_fn_stats(f, &early);
		tj_pop(s);
	}
	tj_fn_stats(f, &late);
	printf("the last 50 frames made code %d times\n", (int)(late.compiles - early.compiles));
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
