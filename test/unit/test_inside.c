/* SPDX-License-Identifier: MIT */
/* In callbacks of tj_cond(), tj_while() and tj_scan(): tj_grad() and tj_jvp(), gradients of the user's, hooks, checkpoints. Against the
 * same program with its turns written out, against finite differences, in batches, across values that C has read; and what is refused. */
#include "test/unit/written.h"

/* ---- a descent: each turn asks for a gradient by its carry ---- */
static void descend(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *g, *loss = total(tj_square(tj_sub(tj_sin(tj_mul(in[0], j->w)), j->x)));
	tj_grad(&g, loss, TJ_LIST(in[0]), NULL);
	out[0] = tj_sub(in[0], tj_mul(g, tj_f(0.1)));
	out[1] = loss;
}

static tj_tensor *descent(job *j)
{
	tj_tensor *h = tj_mul(j->x, tj_f(0.3)), *losses = NULL, *all, *out[2];
	for (int64_t i = 0; j->plain && i < j->turns; i++) {
		descend(out, (tj_tensor *[]){ h, TJ_END }, j);
		h = out[0];
		losses = losses ? tj_add(losses, out[1]) : out[1];
	}
	if (j->plain) return tj_add(h, losses);
	tj_scan(&h, &all, 1, descend, TJ_LIST(h), TJ_NONE, j, TJ_OPTS(tj_scan_opts, .length = j->turns));
	return tj_add(h, total(all));
}

/* ---- Newton's method: the derivative along a tangent, in a loop that ends by its value ---- */
static tj_tensor *powers(const job *j, tj_tensor *h)
{
	return tj_sub(tj_mul(tj_mul(h, h), h), tj_add(tj_mul(j->x, j->x), tj_square(j->w)));
}
static void far_off(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_gt(tj_amax(tj_abs(powers(self, in[0])), TJ_ALL, false), tj_f(1e-3));
}
static void newton(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = powers(self, in[0]);
	out[0] = tj_sub(in[0], tj_div(y, tj_jvp(y, TJ_LIST(in[0]), TJ_LIST(tj_full(TJ_F64, TJ_SHAPE(N), tj_f(1))), TJ_UNUSED_ERROR)));
}

static tj_tensor *roots(job *j)
{
	tj_tensor *h = tj_add(tj_square(j->x), tj_f(1));
	for (int64_t i = 0; j->plain && i < j->turns; i++) newton(&h, (tj_tensor *[]){ h, TJ_END }, j);
	if (!j->plain) tj_while(&h, far_off, newton, TJ_LIST(h), j, TJ_OPTS(tj_while_opts, .max_turns = 20));
	return h;
}

/* ---- in a branch, by what it was given, by a value on the way, and by a tensor from outside ---- */
static void slope(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *h = tj_mul(in[0], j->w), *g[3];
	tj_grad(g, total(tj_mul(tj_exp(h), in[0])), TJ_LIST(in[0], h, j->w), NULL);
	out[0] = tj_add(tj_mul(g[0], g[1]), g[2]);
}
static void negated(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_neg(in[0]);
}

static tj_tensor *branch(job *j)
{
	tj_tensor *y;
	if (j->plain) slope(&y, (tj_tensor *[]){ j->x, TJ_END }, j);
	else tj_cond(&y, 1, tj_gt(total(j->x), tj_f(0)), slope, negated, TJ_LIST(j->x), j);
	return y;
}

/* ---- of each slice, by a tensor from outside; the same in a branch of the body ---- */
static void of_slice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_grad(&out[0], total(tj_tanh(tj_mul(tj_mul(in[0], j->w), j->w))), TJ_LIST(j->w), NULL);
}
static void slice_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *g;
	if (((job *)self)->plain) of_slice(&g, (tj_tensor *[]){ in[1], TJ_END }, self);
	else tj_cond(&g, 1, tj_gt(total(in[1]), tj_f(-50)), of_slice, negated, TJ_LIST(in[1]), self);
	out[0] = tj_add(in[0], tj_square(g));
}

static tj_tensor *slices(job *j)
{
	tj_tensor *rows = tj_stack(TJ_LIST(j->x, tj_sin(j->x), tj_square(j->x)), 0), *h = j->w;
	for (int i = 0; j->plain && i < 3; i++)
		slice_turn(&h, (tj_tensor *[]){ h, tj_squeeze(tj_slice(rows, 0, i, i + 1, 1), TJ_AXES(0)), TJ_END }, j);
	if (!j->plain) tj_scan(&h, NULL, 0, slice_turn, TJ_LIST(h), TJ_LIST(rows), j, NULL);
	return h;
}

/* ---- backward of the user's: 3 y instead of y / x .. so that it can be told from the derived one ---- */
static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], in[1]);
	out[1] = tj_sin(in[0]);
}
static void backward(tj_tensor **out, tj_tensor *const *in, void *self) /* in: a, b, a b, sin a, their gradients */
{
	const job *j = self;
	out[0] = tj_add(tj_mul(in[4], tj_mul(in[1], tj_f(3))), tj_mul(in[5], j->w));
	out[1] = tj_mul(in[4], tj_add(in[2], in[3]));
}
static void doubles(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(2));
}
static tj_tensor *own(const job *j, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *y[2];
	tj_custom_grad(y, 2, forward, backward, TJ_LIST(a, b), (void *)(uintptr_t)j);
	return tj_add(tj_grad_hook(y[0], doubles, NULL), tj_mul(y[1], a));
}
static void own_branch(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = own(self, tj_tanh(in[0]), ((job *)self)->x); }
static void own_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = own(self, in[0], ((job *)self)->w);
	if (((job *)self)->plain) own_branch(&h, (tj_tensor *[]){ h, TJ_END }, self);
	else tj_cond(&h, 1, tj_gt(total(in[0]), tj_f(-50)), own_branch, negated, TJ_LIST(h), self);
	out[0] = h;
}
static void counted_own(tj_tensor **out, tj_tensor *const *in, void *self)
{
	own_turn(out, in, self);
	out[1] = tj_add(in[1], tj_i(1));
}
static void few(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_lt(in[1], tj_i(((job *)self)->turns)); }

static tj_tensor *own_scan(job *j)
{
	tj_tensor *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) own_turn(&h, (tj_tensor *[]){ h, TJ_END }, j);
	if (!j->plain) tj_scan(&h, NULL, 0, own_turn, TJ_LIST(h), TJ_NONE, j, TJ_OPTS(tj_scan_opts, .length = j->turns));
	return h;
}

static tj_tensor *own_while(job *j)
{
	tj_tensor *h[2] = { j->x, tj_i(0) };
	for (int64_t i = 0; j->plain && i < j->turns; i++) own_turn(h, (tj_tensor *[]){ h[0], TJ_END }, j);
	if (!j->plain) tj_while(h, few, counted_own, TJ_LIST(h[0], h[1]), j, TJ_OPTS(tj_while_opts, .max_turns = 4));
	return h[0];
}

/* The gradient of such a value, asked for where it is. */
static void own_slope(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_grad(out, total(own(self, in[0], tj_cos(in[0]))), TJ_LIST(in[0]), NULL);
}
static tj_tensor *own_inside(job *j)
{
	tj_tensor *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) own_slope(&h, (tj_tensor *[]){ h, TJ_END }, j);
	if (!j->plain) tj_scan(&h, NULL, 0, own_slope, TJ_LIST(h), TJ_NONE, j, TJ_OPTS(tj_scan_opts, .length = j->turns));
	return h;
}

/* ---- checkpoints, one in another one, and one with a value that has a backward ---- */
static void part(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_sin(tj_mul(in[0], ((job *)self)->w)); }
static void parts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h;
	tj_checkpoint(&h, 1, part, TJ_LIST(in[0]), self);
	out[0] = own(self, tj_exp(tj_mul(h, tj_f(0.5))), in[0]);
}
static void part_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_checkpoint(out, 1, parts, TJ_LIST(in[0]), self);
	out[0] = tj_mul(out[0], tj_f(0.5));
}
static tj_tensor *checkpoints(job *j)
{
	tj_tensor *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) part_turn(&h, (tj_tensor *[]){ h, TJ_END }, j);
	if (!j->plain) tj_scan(&h, NULL, 0, part_turn, TJ_LIST(h), TJ_NONE, j, TJ_OPTS(tj_scan_opts, .length = j->turns));
	return h;
}

static const program programs[] = {
	{ "descent", descent, { 1, 4 }, 2 },    { "roots", roots, { 5 }, 1 },
	{ "branch", branch, { 0 }, 1 },         { "slices", slices, { 0 }, 1 },
	{ "own_scan", own_scan, { 1, 3 }, 2 },  { "own_while", own_while, { 0, 3 }, 2 },
	{ "own_inside", own_inside, { 2 }, 1 }, { "checkpoints", checkpoints, { 3 }, 1 },
};
enum { DERIVED = 4 }; /* the first ones have the gradients that their values have */

static void written_out(void **state) { (void)state, each_program(programs, RT_COUNT(programs), check_written_out); }
static void differences(void **state) { (void)state, each_program(programs, DERIVED, check_differences); }
static void elsewhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(programs); i++) check_elsewhere(&programs[i], programs[i].turns[programs[i].n - 1]);
}

/* ---- batches ---- */
enum { EXAMPLES = 3 };
static void example(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	tj_tensor *const by[] = { in[0], in[1], TJ_END };
	j->x = in[0], j->w = in[1];
	out[0] = total(j->p->run(j));
	tj_grad(out + 1, out[0], by, TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void all_examples(tj_tensor **out, tj_tensor *const *in, void *self)
{
	static const int axes[] = { 0, TJ_UNMAPPED };
	tj_vmap(out, 3, example, in, self, TJ_OPTS(tj_vmap_opts, .in_axes = axes));
}

static void batches(void **state)
{
	double x[EXAMPLES][N];
	static const int size[3] = { 1, N, N };
	(void)state;
	for (int e = 0; e < EXAMPLES; e++)
		for (int i = 0; i < N; i++) x[e][i] = 0.4 + 0.3 * i - 0.2 * e;
	for (size_t p = 0; p < RT_COUNT(programs); p++) {
		tj_ctx *c = tj_open(NULL);
		job j = { .p = &programs[p], .turns = programs[p].turns[programs[p].n - 1] };
		tj_fn *all = kit_fn(c, "all", all_examples, &j, 2, 3), *one = kit_fn(c, "one", example, &j, 2, 3);
		tj_tensor *out[3], *each[3], *w = tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_w);
		tj_call(all, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(EXAMPLES, N), x), w));
		kit_ok(c);
		for (int e = 0; e < EXAMPLES; e++) {
			assert_int_equal(tj_call(one, each, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x[e]), w)), TJ_OK);
			for (int i = 0; i < 3; i++)
				for (int k = 0; k < size[i]; k++) {
					const double have = ((const double *)tj_data(out[i]))[e * size[i] + k], want = ((const double *)tj_data(each[i]))[k];
					if (!(fabs(have - want) <= 1e-13 * fmax(1, fabs(want))))
						fail_msg("%s: result %d of example %d, element %d is %.17g, alone %.17g", programs[p].name,
						         i, e, k, have, want);
				}
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- C reads values between them and the request ---- */
static void read_between(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->x = in[0], j->w = in[1];
	tj_tensor *h = j->p->run(j);
	if (!j->plain) tj_item(total(h)); /* plain: nothing is read */
	const bool plain = j->plain;
	j->plain = false;
	j->x = tj_mul(h, tj_f(0.125));
	h = j->p->run(j);
	j->plain = plain;
	tj_grad(out, total(tj_square(h)), TJ_LIST(in[0], in[1]), NULL);
}

static void across_reads(void **state)
{
	(void)state;
	for (size_t p = 0; p < RT_COUNT(programs); p++)
		for (int mode = 0; mode < 2 && programs[p].run != branch && programs[p].run != slices;
		     mode++) { /* these ask by w, on which the second x depends */
			double v[2][2][N];
			for (int plain = 0; plain < 2; plain++) {
				job j = { .p = &programs[p], .turns = programs[p].turns[programs[p].n - 1] };
				tj_ctx *c = tj_open(NULL);
				tj_fn *f = tj_compile(c, read_between, &j,
				                      TJ_OPTS(tj_compile_opts, .name = programs[p].name, .nin = 2, .nout = 2,
				                              .mode = mode ? TJ_DIRECT : TJ_VERIFY));
				for (int k = 0; k < 3; k++) {
					tj_tensor *out[2];
					const bool was = j.plain = plain;
					tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_x), tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_w)));
					kit_ok(c);
					assert_true(j.plain == was);
					for (int i = 0; i < 2; i++) assert_int_equal(tj_read(out[i], v[plain][i], sizeof v[plain][i]), TJ_OK);
				}
				tj_close(c);
			}
			for (int i = 0; i < 2 * N; i++) {
				const double have = v[0][i / N][i % N], want = v[1][i / N][i % N];
				if (!(fabs(have - want) <= 1e-12 * fmax(1, fabs(want))))
					fail_msg("%s: gradient %d is %.17g, without a read %.17g", programs[p].name, i, have, want);
			}
		}
}

/* ---- by a tensor from outside: only if there is no other way ---- */
enum { BY_CARRY, BY_VALUE, BY_STOPPED, OUTSIDE, READ, UNUSED, LATE_VALUE, WAYS };
typedef struct way { int way; tj_tensor *w, *z, *y; } way;

static void asks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const way *a = self;
	tj_tensor *y = tj_mul(in[0], tj_f(3));
	if (a->way == BY_CARRY) y = tj_mul(in[0], a->w);
	if (a->way == BY_VALUE || a->way == LATE_VALUE) y = tj_mul(a->z, a->w);
	if (a->way == BY_STOPPED) y = tj_mul(tj_stop_gradient(tj_mul(a->z, in[0])), a->w);
	if (a->way == READ) y = tj_square(a->w);
	if (a->way == UNUSED) y = tj_full(TJ_F64, TJ_SHAPE(2), tj_f(3));
	if (a->way == OUTSIDE) y = a->y;
	tj_grad(out, total(y), TJ_LIST(a->w), NULL);
}

static void one_way(tj_tensor **out, tj_tensor *const *in, void *self)
{
	way a = { .way = *(int *)self };
	a.w = tj_mul(in[0], tj_f(2));
	if (a.way == READ) tj_item(total(a.w));
	a.z = tj_exp(a.w);
	if (a.way == LATE_VALUE) {
		a.w = in[0];
		a.z = tj_mul(in[0], tj_f(2));
		tj_item(total(a.z));
	}
	a.y = total(tj_square(a.w));
	tj_scan(out, NULL, 0, asks, TJ_LIST(in[0]), TJ_NONE, &a, TJ_OPTS(tj_scan_opts, .length = 2));
}

static void ways(void **state)
{
	static const char *const message[WAYS] = { "by a carry",
		                                   "by another value from outside",
		                                   NULL,
		                                   "by another value from outside",
		                                   NULL,
		                                   "does not depend on tensor 0",
		                                   "C has read a value" };
	(void)state;
	for (int i = 0; i < WAYS; i++) {
		tj_ctx *c = tj_open(NULL);
		tj_tensor *out, *x = tj_from_data(c, TJ_F64, TJ_SHAPE(2), ((double[]){ 0.5, 1 }));
		const tj_status st = tj_call(kit_fn(c, "way", one_way, &i, 1, 1), &out, TJ_LIST(x));
		if (message[i]) {
			kit_error(c, st, message[i]);
			assert_true(st == TJ_ERR_STATE || i == UNUSED);
			if (i == BY_CARRY) assert_non_null(strstr(tj_last_error(c)->hint, "tj_stop_gradient()"));
		} else {
			kit_ok(c);
			const double *v = tj_data(out), first = i == READ ? 2 : exp(1) * exp(1) * 0.5,
				     second = i == READ ? 4 : exp(2) * exp(2); /* 2 w, z * (z * x) */
			assert_true(fabs(v[0] - first) < 1e-13 && fabs(v[1] - second) < 1e-13);
		}
		tj_close(c);
	}
}

/* ---- a checkpoint saves memory inside of a turn ---- */
static void wide(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0];
	for (int i = 0; i < 6; i++) h = tj_sin(tj_matmul(h, self));
	out[0] = h;
}
typedef struct layers { tj_tensor *w; bool with; } layers;
static void layer_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layers *l = self;
	tj_tensor *h = in[0];
	for (int i = 0; i < 4; i++) {
		if (l->with) tj_checkpoint(&h, 1, wide, TJ_LIST(h), l->w);
		else wide(&h, (tj_tensor *[]){ h, TJ_END }, l->w);
	}
	out[0] = h;
}
static void layered(tj_tensor **out, tj_tensor *const *in, void *self)
{
	layers *l = self;
	tj_tensor *h;
	l->w = in[1];
	tj_scan(&h, NULL, 0, layer_turn, TJ_LIST(in[0]), TJ_NONE, l, TJ_OPTS(tj_scan_opts, .length = 2));
	tj_grad(out, total(h), TJ_LIST(in[0], in[1]), NULL);
}

static void less_memory(void **state)
{
	enum { ROWS = 256, WIDTH = 64 };
	float *first = NULL;
	int64_t peak[2];
	(void)state;
	for (int with = 0; with < 2; with++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .threads = 1));
		layers l = { .with = with };
		tj_tensor *out[2];
		tj_fn *f = kit_fn(c, "layered", layered, &l, 2, 2);
		tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(ROWS, WIDTH), tj_f(0.5)), tj_mul(tj_eye(TJ_F32, WIDTH, WIDTH), tj_f(1.1))));
		kit_ok(c);
		peak[with] = (int64_t)kit_stats(f).peak_bytes;
		float *v = malloc(ROWS * WIDTH * sizeof *v);
		assert_int_equal(tj_read(out[0], v, ROWS * WIDTH * sizeof *v), TJ_OK);
		if (with) assert_memory_equal(v, first, ROWS * WIDTH * sizeof *v);
		free(first);
		first = v;
		tj_close(c);
	}
	free(first);
	print_message("peak without checkpoints %lld KiB, with %lld KiB\n", (long long)peak[0] / 1024, (long long)peak[1] / 1024);
	assert_true(peak[1] * 10 < peak[0] * 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(written_out), cmocka_unit_test(differences),  cmocka_unit_test(elsewhere),
		                            cmocka_unit_test(batches),     cmocka_unit_test(across_reads), cmocka_unit_test(ways),
		                            cmocka_unit_test(less_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
