/* SPDX-License-Identifier: MIT */
/* Square roots by Newton's iteration until all of them have converged: a loop in the graph by tj_while, and a C loop over
 * tj_truth. Both are traced and compiled once, whatever the number of turns. */
#include <string.h>
#include <tj.h>

/* carry: the guess x, the distance it last moved, the number of turns; a is captured */
static void moving(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_gt(in[1], tj_f(1e-6));
}

static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = self, *x = tj_mul(tj_add(in[0], tj_div(a, in[0])), tj_f(0.5));
	out[0] = x;
	out[1] = tj_amax(tj_abs(tj_sub(x, in[0])), TJ_ALL, false);
	out[2] = tj_add(in[2], tj_i(1));
}

static void in_graph(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[3];
	(void)self;
	tj_while(r, moving, turn, TJ_LIST(in[0], tj_f(1), tj_i(0)), in[0], TJ_OPTS(tj_while_opts, .max_turns = 100));
	out[0] = r[0];
	out[1] = r[2];
}

static void in_c(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[3] = { in[0], tj_f(1), tj_full(TJ_I64, TJ_0D, tj_i(0)) }, *next[3], *more;
	(void)self;
	for (moving(&more, r, NULL); tj_truth(more); moving(&more, r, NULL)) {
		turn(next, r, in[0]);
		memcpy(r, next, sizeof r);
	}
	out[0] = r[0];
	out[1] = r[2];
}

static void run(tj_ctx *c, const char *name, tj_body *body)
{
	const float data[3][3] = { { 1, 2, 3 }, { 100, 10000, 2 }, { 1e-3f, 1e6f, 49 } };
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = name, .nin = 1, .nout = 2));
	tj_stats s = { .size = sizeof s };
	uint64_t first = 0;
	for (int i = 0; i < 3; i++) {
		tj_tensor *y[2];
		if (tj_call(f, y, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3), data[i]))) != TJ_OK) return;
		const float *x = tj_data(y[0]);
		printf("%s: %-9.6g %-9.6g %-9.6g %d turns\n", name, x[0], x[1], x[2], (int)tj_item_i(y[1]));
		tj_fn_stats(f, &s);
		if (i == 0) first = s.recordings;
	}
	printf("%s: %llu traces after the first call, %llu after the third; %llu boundaries\n", name, (unsigned long long)first,
	       (unsigned long long)s.recordings, (unsigned long long)s.boundaries);
}

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	run(c, "while", in_graph);
	run(c, "C loop", in_c);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
