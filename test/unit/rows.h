/* SPDX-License-Identifier: MIT */
/* Tests of functions that are made of ops, as rows of a file that the test program names by ROWS before it includes this one:
 *
 *   ROW(expression, dtype, shape, values...)       the expression's values, known from elsewhere. Run at once and in a compiled
 *                                                  function: no step may
 *                                                  be the evaluator's
 *   SLOPE(expression, shape, lo, hi)               of X, an f64 tensor with numbers from lo to hi: its gradients to order 3 are those by
 *                                                  differences, and
 *                                                  tj_vmap() gives what each example gives
 *   BAD(expression, code, part)                    it is an error with this code, and with `part` in its message
 *
 * An expression may use c, the context. A row without elements has one value, 0. HOST(expression, ...) is a row whose value depends on
 * data in its size: it may run on the host. */
#include "test/unit/literals.h"

enum { MOST_VALUES = 512 };

/* ---- the three lists ---- */
#define ROW(e, t, shape, ...) if (n == i++) return e;
#define HOST ROW
#define SLOPE(e, shape, lo, hi)
#define BAD(e, code, part)
static tj_tensor *row_value(int n, tj_ctx *c)
{
	int i = 0;
	(void)c;
#include ROWS
	return NULL;
}
#undef ROW
#undef HOST

typedef struct known { const char *text; bool host; tj_dtype dtype; int rank; int64_t dim[TJ_MAX_RANK]; double v[MOST_VALUES]; } known;
static void know(known *k, const char *text, bool host, tj_dtype t, tj_dims shape, const double *v, size_t n)
{
	int64_t numel = 1;
	*k = (known){ .text = text, .host = host, .dtype = t };
	for (; shape[k->rank] != TJ_END_DIM; k->rank++) numel *= k->dim[k->rank] = shape[k->rank];
	if ((numel ? numel : 1) != (int64_t)n || n > MOST_VALUES) fail_msg("%s: %zu values", text, n);
	memcpy(k->v, v, n * sizeof *v);
}
#define KNOW(host, text, t, shape, ...) \
	if (n == i++) \
		return know(k, text, host, t, shape, (const double[]){ 0, __VA_ARGS__ } + 1, \
		            sizeof((const double[]){ 0, __VA_ARGS__ }) / sizeof(double) - 1), \
		       true;
#define ROW(e, t, shape, ...) KNOW(false, #e, t, shape, __VA_ARGS__)
#define HOST(e, t, shape, ...) KNOW(true, #e, t, shape, __VA_ARGS__)
static bool row_known(int n, known *k)
{
	int i = 0;
#include ROWS
	return false;
}
#undef ROW
#undef HOST
#undef SLOPE

typedef struct slope { const char *text; int rank; int64_t dim[TJ_MAX_RANK + 1]; double lo, hi; } slope;
#define ROW(e, t, shape, ...)
#define HOST ROW
#define SLOPE(e, shape, l, h) if (n == i++) return k->text = #e, k->lo = l, k->hi = h, memcpy(k->dim, shape, sizeof shape), true;
static bool slope_known(int n, slope *k)
{
	int i = 0;
	*k = (slope){ .rank = 0 };
	(void)n, (void)i;
#include ROWS
	return false;
}
#undef SLOPE
#define SLOPE(e, shape, lo, hi) if (n == i++) return e;
static tj_tensor *slope_value(int n, tj_ctx *c, tj_tensor *X)
{
	int i = 0;
	(void)c, (void)n, (void)i, (void)X;
#include ROWS
	return NULL;
}
#undef SLOPE
#undef BAD
#define SLOPE(e, shape, lo, hi)
#define BAD(e, code, part) if (n == i++) return (void)(e), *text = #e, *status = code, *says = part, true;
static bool bad_value(int n, tj_ctx *c, const char **text, tj_status *status, const char **says)
{
	int i = 0;
	(void)c, (void)n, (void)i, (void)text, (void)status, (void)says;
#include ROWS
	return false;
}

/* ---- values ---- */
static bool near_to(double a, double b, double bound) { return a == b || (a != a && b != b) || fabs(a - b) <= bound * fmax(1, fabs(b)); }

static void check_known(tj_ctx *c, tj_tensor *y, const known *k, const char *how)
{
	kit_ok(c);
	bool same = tj_rank(y) == k->rank && tj_dtype_of(y) == k->dtype;
	for (int i = 0; same && i < k->rank; i++) same = tj_dim(y, i) == k->dim[i];
	if (!same) {
		char text[200];
		int at = snprintf(text, sizeof text, "%s[", tj_dtype_name(tj_dtype_of(y)));
		for (int i = 0; i < tj_rank(y); i++) at += snprintf(text + at, sizeof text - (size_t)at, "%lld,", (long long)tj_dim(y, i));
		fail_msg("%s %s: it is %s]", how, k->text, text);
	}
	const double *v = tj_data(tj_cast(y, TJ_F64)), bound = k->dtype == TJ_F64 ? 1e-13 : 2e-6;
	kit_ok(c);
	for (int64_t i = 0; i < tj_numel(y); i++)
		if (!near_to(v[i], k->v[i], bound)) fail_msg("%s %s: element %lld is %.17g, not %.17g", how, k->text, (long long)i, v[i], k->v[i]);
}

typedef struct request { int n, order; tj_ctx *c; } request;
static void row_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const request *q = self;
	(void)in;
	out[0] = row_value(q->n, q->c);
}

static void rows(void **state)
{
	known k;
	(void)state;
	for (int n = 0; row_known(n, &k); n++) {
		tj_ctx *c = kit_open();
		request q = { .n = n, .c = c };
		tj_tensor *y;
		check_known(c, row_value(n, c), &k, "at once");
		tj_fn *f = kit_fn(c, "row", row_body, &q, 0, 1);
		for (int turn = 0; turn < 2; turn++) {
			if (tj_call(f, &y, TJ_NONE) != TJ_OK) fail_msg("%s: %s", k.text, (tj_check(c), tj_last_error(c)->message));
			check_known(c, y, &k, "compiled");
		}
		if (!k.host && !kit_elsewhere() && !strcmp(kit_backend, "llvm") && kit_stats(f).eval_steps)
			fail_msg("%s: the evaluator ran %d steps", k.text, (int)kit_stats(f).eval_steps);
		tj_close(c);
	}
}

/* ---- gradients ---- */
static tj_tensor *weighted(tj_ctx *c, tj_tensor *y)
{
	double w[MOST_VALUES];
	int64_t dim[TJ_MAX_RANK + 1], n = tj_numel(y);
	if (n > MOST_VALUES) fail_msg("too many values");
	for (int i = 0; i < tj_rank(y); i++) dim[i] = tj_dim(y, i);
	dim[tj_rank(y) < 0 ? 0 : tj_rank(y)] = TJ_END_DIM;
	for (int64_t i = 0; i < n; i++) w[i] = 0.5 + fmod((double)(i + 1) * 0.61803398875, 1);
	return tj_sum(tj_mul(y, tj_from_data(c, TJ_F64, dim, w)), TJ_ALL, false);
}

/* The weighted sum of the value (order 1), or of the gradient of order - 1; and the gradient of that. */
static void slope_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const request *q = self;
	tj_tensor *y = weighted(q->c, slope_value(q->n, q->c, in[0])), *g = y;
	for (int order = 1;; order++) {
		tj_grad(&g, y, TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
		if (order == q->order) break;
		y = weighted(q->c, g);
	}
	out[0] = y;
	out[1] = g;
}

static void call_slope(tj_ctx *c, tj_fn *f, const slope *k, const double *x, double *y, double *g, int64_t n)
{
	tj_scope *s = tj_push(c);
	tj_tensor *out[2];
	if (tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, k->dim, x))) != TJ_OK)
		fail_msg("%s: %s", k->text, (tj_check(c), tj_last_error(c)->message));
	*y = tj_item(out[0]);
	if (g) tj_read(out[1], g, (size_t)n * sizeof *g);
	tj_pop(s);
}

static int64_t draw(const slope *k, double *x, uint64_t seed)
{
	int64_t n = 1;
	for (int i = 0; k->dim[i] != TJ_END_DIM; i++) n *= k->dim[i];
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		x[i] = k->lo + (k->hi - k->lo) * (double)(seed >> 11) * 0x1p-53;
	}
	return n;
}

static void check_slope(tj_ctx *c, const slope *k, int number, int order)
{
	enum { STEPS = 4 };
	static const double at[] = { 1, -1, 2, -2 }, weight[] = { 8, -8, -1, 1 };
	const double H = 1e-3;
	double x[MOST_VALUES], g[MOST_VALUES], y;
	request q = { number, order, c };
	tj_fn *f = kit_fn(c, "slope", slope_body, &q, 1, 2);
	const int64_t n = draw(k, x, (uint64_t)number + 1);
	call_slope(c, f, k, x, &y, g, n);
	for (int64_t i = 0; i < n; i++) {
		double sum = 0;
		const double was = x[i];
		for (int s = 0; s < STEPS; s++) {
			x[i] = was + at[s] * H;
			call_slope(c, f, k, x, &y, NULL, 0);
			sum += weight[s] * y;
		}
		x[i] = was;
		sum /= 12 * H;
		if (!near_to(g[i], sum, 2e-6)) fail_msg("%s: order %d, element %d is %.12g, by differences %.12g", k->text, order, (int)i, g[i], sum);
	}
	tj_fn_free(f);
}

static void slopes(void **state)
{
	slope k;
	(void)state;
	for (int n = 0; slope_known(n, &k); n++) {
		tj_ctx *c = kit_open();
		for (int order = 1; order <= 3; order++) check_slope(c, &k, n, order);
		tj_close(c);
	}
}

/* ---- batches ---- */
static void one_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const request *q = self;
	out[0] = slope_value(q->n, q->c, in[0]);
}

static void batch_body(tj_tensor **out, tj_tensor *const *in, void *self) { tj_vmap(out, 1, one_body, TJ_LIST(in[0]), self, NULL); }

static void batches(void **state)
{
	slope k, all;
	(void)state;
	for (int n = 0; slope_known(n, &k); n++) {
		tj_ctx *c = kit_open();
		double x[MOST_VALUES];
		tj_tensor *y, *one;
		request q = { .n = n, .c = c };
		all = k;
		memmove(all.dim + 1, k.dim, sizeof k.dim - sizeof *k.dim);
		all.dim[0] = 2;
		const int64_t size = draw(&all, x, (uint64_t)n + 5) / 2;
		if (tj_call(kit_fn(c, "batch", batch_body, &q, 1, 1), &y, TJ_LIST(tj_from_data(c, TJ_F64, all.dim, x))) != TJ_OK)
			fail_msg("%s: %s", k.text, (tj_check(c), tj_last_error(c)->message));
		tj_fn *f = kit_fn(c, "one", one_body, &q, 1, 1);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(tj_call(f, &one, TJ_LIST(tj_from_data(c, TJ_F64, k.dim, x + i * size))), TJ_OK);
			const double *a = (const double *)tj_data(y) + i * tj_numel(one), *b = tj_data(one);
			assert_int_equal(tj_numel(y), 2 * tj_numel(one));
			for (int64_t e = 0; e < tj_numel(one); e++)
				if (!near_to(a[e], b[e], 1e-12)) fail_msg("%s: example %d, element %d is %.17g, alone %.17g", k.text, i, (int)e, a[e], b[e]);
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- errors ---- */
static void errors(void **state)
{
	const char *text, *says;
	tj_status status;
	(void)state;
	tj_ctx *c = kit_open();
	for (int n = 0; bad_value(n, c, &text, &status, &says); n++) {
		const tj_status got = tj_check(c);
		if (got != status || !strstr(tj_last_error(c)->message, says))
			fail_msg("%s: %s: %s", text, tj_strerror(got), got ? tj_last_error(c)->message : "");
		if (!strstr(tj_last_error(c)->site, "test/unit/")) fail_msg("%s: site %s", text, tj_last_error(c)->site);
	}
	tj_close(c);
}

#define ROWS_TESTS cmocka_unit_test(rows), cmocka_unit_test(slopes), cmocka_unit_test(batches), cmocka_unit_test(errors)
