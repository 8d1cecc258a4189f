/* SPDX-License-Identifier: MIT */
/* Functions of the program in a graph: each runs once, in the order of the lines, whatever else is folded, merged, dropped or compiled. */
#include "test/kit.h"

#include <unistd.h>

/* ---- a function that writes down its calls ---- */
typedef struct diary {
	char text[400];
	int calls, freed;
	int64_t say, twice, fails;
} diary;

static tj_status say(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	diary *d = env;
	float *to = out->data;
	(void)why;
	d->calls++;
	for (int k = 0; k < nin; k++)
		snprintf(d->text + strlen(d->text), sizeof d->text - strlen(d->text), "%g ", (double)*(const float *)in[k].data);
	if (to) *to = (float)d->calls;
	return TJ_OK;
}

/* f32 [n] -> f32 [n], doubled; checks what it gets */
static tj_status twice(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)env;
	if (nin != 1 || in[0].dtype != TJ_F32 || in[0].bytes != out->bytes)
		return snprintf(why, TJ_HOST_WHY, "%d operands", nin), TJ_ERR_SHAPE;
	for (size_t i = 0; i < out->bytes / sizeof(float); i++) ((float *)out->data)[i] = 2 * ((const float *)in[0].data)[i];
	return TJ_OK;
}

static tj_status fails(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)env, (void)nin, (void)out;
	if (*(const float *)in[0].data < 3) return *(float *)out->data = 0, TJ_OK;
	snprintf(why, TJ_HOST_WHY, "the line is cut");
	return TJ_ERR_IO;
}

static void freed(void *env) { ((diary *)env)->freed++; }

static tj_ctx *open_diary(diary *d)
{
	tj_ctx *c = kit_open();
	*d = (diary){ .calls = 0 };
	d->say = tj_host_function(c, "say", say, TJ_OPTS(tj_host_opts, .env = d, .free = freed));
	d->twice = tj_host_function(c, "twice", twice, NULL);
	d->fails = tj_host_function(c, "fails", fails, NULL);
	assert_true(d->say > 0 && d->twice > d->say && d->fails > d->twice);
	kit_ok(c);
	return c;
}

#define SAY(d, x) tj_host_call(TJ_F32, TJ_0D, (d)->say, TJ_LIST(x))

/* ---- order ---- */
/* Equal calls, a result that is not used, one whose operand is late, one in front of all else in another order. */
static void order(tj_tensor **out, tj_tensor *const *in, void *self)
{
	diary *d = self;
	tj_tensor *x = in[0], *late = tj_sum(tj_exp(tj_mul(x, tj_f(0))), TJ_ALL, false);
	SAY(d, late);
	SAY(d, tj_f(7));
	SAY(d, tj_f(7));
	tj_tensor *last = tj_host_call(TJ_F32, TJ_0D, d->say, TJ_LIST(tj_select(x, 0, 0), tj_select(x, 0, 1)));
	tj_host_call(TJ_BOOL, TJ_SHAPE(0), d->say, TJ_NONE);
	out[0] = tj_add(x, tj_mul(last, tj_f(0)));
}

static void test_order(void **state)
{
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		diary d;
		tj_ctx *c = open_diary(&d);
		tj_fn *f = tj_compile(c, order, &d,
		                      TJ_OPTS(tj_compile_opts, .name = "order", .nin = 1, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
		for (int i = 0; i < 4; i++) {
			*d.text = 0;
			d.calls = 0;
			assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 1, 2);
			kit_ok(c);
			assert_string_equal(d.text, "2 7 7 1 2 ");
			assert_int_equal(d.calls, 5);
		}
		if (mode) assert_true(kit_stats(f).direct > 0);
		assert_int_equal(kit_stats(f).plans, 1);
		tj_close(c);
		assert_int_equal(d.freed, 1);
	}
}

/* ---- values, with other ops around, in several segments ---- */
static void parts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	diary *d = self;
	tj_tensor *x = tj_add(in[0], tj_f(1)), *y = tj_host_call(TJ_F32, TJ_SHAPE(tj_dim(x, 0)), d->twice, TJ_LIST(tj_flip(x, TJ_AXES(0))));
	SAY(d, tj_select(y, 0, 0));
	tj_tensor *kept = tj_mul(y, tj_f(10)); /* read after the boundary: it is there without a second run */
	if (tj_truth(tj_gt(tj_select(y, 0, 0), tj_f(5)))) y = tj_neg(y);
	SAY(d, tj_select(y, 0, 0));
	out[0] = tj_add(kept, y);
}

static void test_segments(void **state)
{
	(void)state;
	diary d;
	tj_ctx *c = open_diary(&d);
	tj_fn *f = kit_fn(c, "parts", parts, &d, 1, 1);
	for (int i = 0; i < 3; i++) {
		d.calls = 0;
		*d.text = 0;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 54, 36); /* (6, 4): 60 - 6, 40 - 4 */
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 0, 1, 1))), 44, 44, 22);
		kit_ok(c);
		assert_int_equal(d.calls, 4);
		assert_string_equal(d.text, "6 -6 4 4 ");
	}
	assert_int_equal(kit_stats(f).recomputed, 0);
	/* outside of compiled functions */
	for (int i = 0; i < 4; i++) assert_f32(tj_host_call(TJ_F32, TJ_SHAPE(2), d.twice, TJ_LIST(F32(c, 1, 2))), 2, 4);
	kit_ok(c);
	tj_close(c);
}

/* ---- one that only starts something runs before earlier lines that it does not need ---- */
typedef struct race {
	int64_t start, done;
	int began;
	bool first;
} race;
static tj_status start(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)nin, (void)in, (void)out, (void)why;
	((race *)env)->began++;
	return TJ_OK;
}
static tj_status done(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	race *r = env;
	(void)nin, (void)in, (void)out, (void)why;
	r->first = r->began == 1;
	return TJ_OK;
}
static void races(tj_tensor **out, tj_tensor *const *in, void *self)
{
	race *r = self;
	tj_tensor *slow = tj_sort(tj_mul(in[0], tj_f(3)), 0, false, NULL);
	tj_host_call(TJ_F32, TJ_0D, r->start, TJ_LIST(tj_add(in[0], tj_f(1))));
	out[0] = slow;
	tj_host_call(TJ_F32, TJ_0D, r->done, TJ_LIST(slow));
}

static void test_early(void **state)
{
	(void)state;
	race r = { 0 };
	char *text;
	tj_ctx *c = kit_open();
	r.start = tj_host_function(c, "start", start, TJ_OPTS(tj_host_opts, .env = &r, .early = true));
	r.done = tj_host_function(c, "done", done, TJ_OPTS(tj_host_opts, .env = &r));
	tj_fn *f = kit_fn(c, "races", races, &r, 1, 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 3, 1, 2))), 3, 6, 9);
	kit_ok(c);
	assert_true(r.first);
	text = kit_dump(f, TJ_DUMP_PLAN);
	const char *a = strstr(text, "host_call"), *b = strstr(text, "sort");
	if (!kit_elsewhere() && !strcmp(kit_backend, "llvm") && !(a && b && a < b)) fail_msg("%s", text);
	free(text);
	tj_close(c);
}

/* ---- gradients: none, but one of the program's own ---- */
static void with_gradient(tj_tensor **out, tj_tensor *const *in, void *self)
{
	diary *d = self;
	tj_tensor *g, *loss = tj_sum(tj_square(in[0]), TJ_ALL, false);
	tj_grad(&g, loss, TJ_LIST(in[0]), NULL);
	out[0] = tj_host_call(TJ_F32, TJ_SHAPE(2), d->twice, TJ_LIST(g)); /* of a gradient: as in a training on many machines */
}
static void of_it(tj_tensor **out, tj_tensor *const *in, void *self)
{
	diary *d = self;
	tj_grad(out, tj_sum(tj_host_call(TJ_F32, TJ_SHAPE(2), d->twice, TJ_LIST(in[0])), TJ_ALL, false), TJ_LIST(in[0]), NULL);
}

static void test_gradients(void **state)
{
	(void)state;
	diary d;
	tj_ctx *c = open_diary(&d);
	assert_f32(tj_call1(kit_fn(c, "with", with_gradient, &d, 1, 1), TJ_LIST(F32(c, 1, 2))), 4, 8);
	kit_ok(c);
	assert_true(tj_is_poison(tj_call1(kit_fn(c, "of", of_it, &d, 1, 1), TJ_LIST(F32(c, 1, 2)))));
	assert_true(tj_check(c) != TJ_OK);
	assert_non_null(strstr(tj_last_error(c)->message, "the function twice has no gradient"));
	d.twice = tj_host_function(c, "twice", twice, TJ_OPTS(tj_host_opts, .gradient = d.twice));
	assert_f32(tj_call1(kit_fn(c, "of", of_it, &d, 1, 1), TJ_LIST(F32(c, 1, 2))), 2, 2);
	kit_ok(c);
	tj_close(c);
}

/* ---- what is refused ---- */
static void in_scan(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = out[1] = tj_add(in[0], SAY((diary *)self, in[1])); }
static void scans(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	tj_scan(out, &y, 1, in_scan, TJ_LIST(tj_cast(tj_f(0), TJ_F32)), TJ_LIST(in[0]), self, NULL);
}
static void one(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = SAY((diary *)self, in[0]); }
static void maps(tj_tensor **out, tj_tensor *const *in, void *self) { tj_vmap(out, 1, one, TJ_LIST(in[0]), self, NULL); }
static void checks(tj_tensor **out, tj_tensor *const *in, void *self) { tj_checkpoint(out, 1, one, TJ_LIST(in[0]), self); }
static const char *failing_line;
static void failing(tj_tensor **out, tj_tensor *const *in, void *self)
{
	failing_line = TJ_SITE, out[0] = tj_host_call(TJ_F32, TJ_0D, ((diary *)self)->fails, TJ_LIST(in[0]));
}

static void test_errors(void **state)
{
	(void)state;
	diary d;
	tj_ctx *c = open_diary(&d);
	tj_body *const refused[] = { scans, maps, checks };
	for (int i = 0; i < 3; i++) {
		assert_true(tj_is_poison(tj_call1(kit_fn(c, "f", refused[i], &d, 1, 1), TJ_LIST(F32(c, 1, 2)))));
		kit_error(c, TJ_ERR_STATE, "host_call in a callback of");
	}
	assert_int_equal(d.calls, 0);
	tj_fn *f = kit_fn(c, "failing", failing, &d, 1, 1);
	for (int i = 0; i < 3; i++) {
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), 0);
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(F32(c, 4)))));
		kit_error(c, TJ_ERR_IO, "the line is cut");
		assert_string_equal(tj_last_error(c)->op, "fails");
		assert_string_equal(tj_last_error(c)->site, failing_line); /* the line in the body */
	}
	assert_true(tj_is_poison(tj_host_call(TJ_F32, TJ_0D, 1 << 20, TJ_NONE)));
	kit_error(c, TJ_ERR_ARG, "there is no function 1048576");
	assert_true(tj_is_poison(tj_host_call(TJ_F32, NULL, d.say, TJ_NONE)));
	kit_error(c, TJ_ERR_ARG, "the shape is NULL");
	assert_true(tj_is_poison(tj_host_call((tj_dtype)99, TJ_0D, d.say, TJ_NONE)));
	kit_error(c, TJ_ERR_ARG, "not a dtype");
	assert_true(tj_is_poison(tj_host_call(TJ_F32, TJ_SHAPE(-1), d.say, TJ_NONE)));
	assert_true(tj_check(c) != TJ_OK);
	assert_int_equal(tj_host_function(c, "none", NULL, NULL), 0);
	kit_error(c, TJ_ERR_ARG, "no function");
	assert_int_equal(tj_host_function(c, NULL, twice, NULL), 0);
	kit_error(c, TJ_ERR_ARG, "no name");
	for (int64_t i = -1; i <= 1 << 20; i += (1 << 20) + 1) {
		assert_int_equal(tj_host_function(c, "f", twice, TJ_OPTS(tj_host_opts, .gradient = i)), 0);
		kit_error(c, TJ_ERR_ARG, "no function of this engine");
	}
	diary other;
	tj_ctx *d2 = open_diary(&other);
	assert_int_equal(tj_host_function(c, "f", twice, TJ_OPTS(tj_host_opts, .gradient = other.twice)), 0);
	kit_error(c, TJ_ERR_ARG, "no function of this engine");
	tj_close(d2);
	tj_ctx_use(c);
	assert_int_equal(tj_export(f, "/tmp/tj-host.tjx", NULL) == TJ_OK, 0);
	tj_check(c);
	unlink("/tmp/tj-host.tjx");
	const int64_t old = d.say;
	tj_close(c);
	c = kit_open();
	assert_true(tj_is_poison(tj_host_call(TJ_F32, TJ_0D, old, TJ_NONE)));
	kit_error(c, TJ_ERR_ARG, "there is no function");
	tj_close(c);
}

/* ---- audits run nothing twice; sizes that move ---- */
static void test_audit(void **state)
{
	(void)state;
	setenv("TJ_AUDIT", "1", 1);
	diary d;
	tj_ctx *c = open_diary(&d);
	unsetenv("TJ_AUDIT");
	tj_fn *f = tj_compile(c, order, &d, TJ_OPTS(tj_compile_opts, .name = "order", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	for (int i = 0; i < 4; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	kit_ok(c);
	assert_int_equal(d.calls, 20);
	tj_close(c);
}

static void test_sizes(void **state)
{
	(void)state;
	diary d;
	tj_ctx *c = open_diary(&d);
	tj_fn *f = tj_compile(c, parts, &d, TJ_OPTS(tj_compile_opts, .name = "parts", .nin = 1, .nout = 1, .dynamic = TJ_DYNAMIC_ON));
	for (int64_t n = 1; n < 9; n++) {
		float v[8];
		for (int64_t i = 0; i < n; i++) v[i] = (float)i;
		tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(n), v)));
		kit_ok(c);
		assert_true(tj_item(tj_select(y, 0, 0)) == (n > 2 ? 18. : 22.) * (double)n);
	}
	assert_int_equal(d.calls, 16);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),     cmocka_unit_test(test_segments), cmocka_unit_test(test_early),
		cmocka_unit_test(test_gradients), cmocka_unit_test(test_errors),   cmocka_unit_test(test_audit),
		cmocka_unit_test(test_sizes),
	};
	KIT_RUN(tests);
}
