/* SPDX-License-Identifier: MIT */
/* Profiles: the rows against what the calls are known to do, and the timeline as a reader of JSON sees it (jansson). */
#include "test/kit.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { M = 32, K = 64, N = 16, CALLS = 7 };

/* ---- rows ---- */
typedef struct rows { tj_profile_row v[64]; char text[64][3][256]; int n; } rows;

static bool keep_row(void *self, const tj_profile_row *row)
{
	rows *r = self;
	const char *from[3] = { row->name, row->function, row->where };
	assert_true(r->n < 64);
	assert_int_equal(row->size, sizeof *row);
	for (int i = 0; i < 3; i++) snprintf(r->text[r->n][i], sizeof r->text[r->n][i], "%s", from[i]);
	r->v[r->n] = *row;
	r->v[r->n].name = r->text[r->n][0], r->v[r->n].function = r->text[r->n][1], r->v[r->n].where = r->text[r->n][2];
	r->n++;
	return true;
}

static rows *rows_of(tj_ctx *c, tj_profile_by by, tj_profile_sort sort)
{
	static rows r;
	r.n = 0;
	assert_int_equal(tj_profile_show(c, TJ_OPTS(tj_profile_view, .by = by, .sort = sort, .visit = keep_row, .self = &r)), TJ_OK);
	return &r;
}

/* The row of this kind whose name or text ends in `end`; fails if there is none. */
static const tj_profile_row *row_of(const rows *r, tj_profile_kind kind, const char *end)
{
	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < 3; k++) {
			const size_t n = strlen(r->text[i][k]), e = strlen(end);
			if (r->v[i].kind == kind && n >= e && !strcmp(r->text[i][k] + n - e, end)) return &r->v[i];
		}
	fail_msg("no row of kind %d ends in %s", (int)kind, end);
	return NULL;
}

/* ---- what is profiled ---- */
static const char *at_line(int line)
{
	static char s[4][64];
	static int i;
	snprintf(s[i = (i + 1) % 4], sizeof s[0], "test_profile.c:%d", line);
	return s[i];
}

enum { NET = __LINE__ + 1, PRODUCT = NET + 3, EXP = NET + 4 }; /* lines */
static void net(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_matmul(in[0], in[1]);
	out[0] = tj_exp(h);
}

static void call_net(tj_ctx *c, tj_fn *f, int times)
{
	static float zero[K * (M > N ? M : N)];
	tj_tensor *a = tj_from_data(c, TJ_F32, TJ_SHAPE(M, K), zero), *b = tj_from_data(c, TJ_F32, TJ_SHAPE(K, N), zero);
	for (int i = 0; i < times; i++) {
		tj_scope *s = tj_push(c);
		tj_call1(f, TJ_LIST(a, b));
		tj_pop(s);
	}
}

static void begin(tj_ctx *c, const char *timeline)
{
	assert_int_equal(tj_profile_begin(c, TJ_OPTS(tj_profile_opts, .no_limits = true, .timeline = timeline)), TJ_OK);
}

static void rows_are_what_ran(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	begin(c, NULL);
	call_net(c, f, CALLS);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	call_net(c, f, 3); /* not in the profile */
	double share = 0, flops = 0, bytes = 0;
	const rows *r = rows_of(c, TJ_BY_KERNEL, TJ_SORT_SELF);
	for (int i = 0; i < r->n && r->v[i].kind == TJ_ROW_STEP; i++) {
		assert_int_equal(r->v[i].calls, CALLS);
		assert_true(r->v[i].least_us <= r->v[i].mean_us && r->v[i].mean_us <= r->v[i].most_us);
		assert_string_equal(r->v[i].function, "net");
		assert_true(!i || r->v[i].self_ms <= r->v[i - 1].self_ms);
		share += r->v[i].share;
		flops += r->v[i].flops;
		bytes += r->v[i].read_bytes + r->v[i].written_bytes;
	}
	assert_true(share > 0.999 && share < 1.001);
	assert_true(flops >= 2.0 * M * K * N * CALLS);
	assert_true(flops < 2.0 * M * K * N * CALLS * 1.5); /* with those of exp */
	assert_true(bytes >= 4.0 * (M * K + K * N + M * N) * CALLS && bytes <= 4.0 * (M * K + K * N + 3 * M * N) * CALLS);
	assert_int_equal(row_of(r, TJ_ROW_HOST, "guards, bodies, results")->calls, CALLS);
	assert_int_equal(row_of(r, TJ_ROW_HOST, "tracing")->calls, 1);
	assert_true(row_of(r, TJ_ROW_HOST, "lowering")->self_ms > 0);
	assert_int_equal(row_of(rows_of(c, TJ_BY_LINE, TJ_SORT_SELF), TJ_ROW_STEP, at_line(PRODUCT))->calls, CALLS);
	const double of_exp = row_of(rows_of(c, TJ_BY_LINE, TJ_SORT_NAME), TJ_ROW_STEP, at_line(EXP))->self_ms;
	r = rows_of(c, TJ_BY_OP, TJ_SORT_SELF);
	assert_true(row_of(r, TJ_ROW_STEP, "exp")->self_ms == of_exp && of_exp > 0);
	assert_true(row_of(r, TJ_ROW_STEP, "matmul")->flops >= 2.0 * M * K * N * CALLS * 0.9);
	r = rows_of(c, TJ_BY_FUNCTION, TJ_SORT_TOTAL);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "net")->calls, CALLS);
	assert_true(row_of(r, TJ_ROW_STEP, "net")->total_ms >= row_of(r, TJ_ROW_STEP, "net")->self_ms);
	kit_ok(c);
	tj_close(c);
}

/* ---- as text, in a file; sorted, cut off ---- */
static void text_and_files(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-profile-XXXXXX", text[4096] = "";
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	close(mkstemp(path));
	begin(c, NULL);
	call_net(c, f, CALLS);
	char *printed = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&printed, &n);
	assert_int_equal(tj_profile_end(c, TJ_OPTS(tj_profile_view, .by = TJ_BY_LINE, .top = 1, .out = m, .path = path)), TJ_OK);
	fclose(m);
	FILE *in = fopen(path, "r");
	text[fread(text, 1, sizeof text - 1, in)] = 0;
	fclose(in);
	unlink(path);
	assert_string_equal(text, printed); /* .top: one line of the two */
	assert_true(!strstr(text, at_line(PRODUCT)) != !strstr(text, at_line(EXP)));
	assert_non_null(strstr(text, "7 calls"));
	assert_non_null(strstr(text, "work of the host"));
	assert_int_equal(tj_profile_show(c, TJ_OPTS(tj_profile_view, .path = "/nowhere/table")), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere/table");
	assert_int_equal(tj_profile_begin(c, TJ_OPTS(tj_profile_opts, .timeline = "/nowhere/t.json")), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere/t.json");
	free(printed);
	tj_close(c);
}

/* ---- when it is not allowed ---- */
static void begins(tj_tensor **out, tj_tensor *const *in, void *self)
{
	assert_int_equal(tj_profile_begin(self, NULL), TJ_ERR_STATE);
	out[0] = in[0];
}

static void order_of_calls(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_int_equal(tj_profile_end(c, NULL), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "no profile runs");
	assert_int_equal(tj_profile_show(c, NULL), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "there is no profile");
	begin(c, NULL);
	assert_int_equal(tj_profile_begin(c, NULL), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "runs already");
	assert_int_equal(tj_profile_show(c, TJ_OPTS(tj_profile_view, .by = (tj_profile_by)9)), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".by");
	assert_int_equal(tj_profile_show(c, &(tj_profile_view){ .size = 3 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size");
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	assert_int_equal(tj_profile_end(c, NULL), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "no profile runs");
	assert_int_equal(tj_profile_begin(c, TJ_OPTS(tj_profile_opts, .timeline_bytes = -1)), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".timeline_bytes");
	tj_call1(kit_fn(c, "begins", begins, c, 1, 1), TJ_LIST(F32(c, 1)));
	kit_error(c, TJ_ERR_STATE, "not allowed in a body");
	begin(c, NULL); /* begins anew */
	assert_int_equal(rows_of(c, TJ_BY_KERNEL, TJ_SORT_SELF)->n, 0);
	tj_close(c); /* without an end */
}

/* ---- control flow, lines between two calls, ops outside of functions, nested calls ---- */
static void below(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_i(5)); }
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_tanh(in[1]);
}
static void loop(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	tj_while(r, below, turn, TJ_LIST(tj_i(0), in[0]), self, NULL);
	out[0] = r[1];
}
static void outer(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_neg(tj_call1(*(tj_fn **)self, TJ_LIST(in[0]))); }

static void steps_in_regions(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "loop", loop, NULL, 1, 1), *g = kit_fn(c, "outer", outer, &f, 1, 1);
	begin(c, NULL);
	for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	const rows *r = rows_of(c, TJ_BY_OP, TJ_SORT_SELF);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "tanh")->calls, 15);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "while")->calls, 3);
	assert_true(row_of(r, TJ_ROW_STEP, "while")->total_ms > row_of(r, TJ_ROW_STEP, "while")->self_ms);
	tj_call1(g, TJ_LIST(F32(c, 1, 2, 3)));
	r = rows_of(c, TJ_BY_FUNCTION, TJ_SORT_SELF);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "outer")->calls, 1);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "loop")->calls, 3); /* a nested call is a part of the outer one */
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	kit_ok(c);
	tj_close(c);
}

static void without_functions(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2, 3), *y = NULL;
	begin(c, NULL);
	const int line = __LINE__ + 1;
	for (int i = 0; i < 5; i++) y = tj_sqrt(x);
	const int other = __LINE__ + 1;
	for (int i = 0; i < 4; i++) y = tj_sqrt(x); /* the same plan, another line */
	for (int i = 0; i < 2; i++) {
		tj_trace_begin(c, TJ_OPTS(tj_compile_opts, .name = "between"));
		tj_tensor *keep[1] = { tj_cos(y) };
		assert_int_equal(tj_trace_end(c, keep, 1), TJ_OK);
	}
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	y = tj_sqrt(x); /* not in it */
	const rows *r = rows_of(c, TJ_BY_LINE, TJ_SORT_CALLS);
	assert_int_equal(row_of(r, TJ_ROW_STEP, at_line(line))->calls, 5);
	assert_int_equal(row_of(r, TJ_ROW_STEP, at_line(other))->calls, 4);
	r = rows_of(c, TJ_BY_FUNCTION, TJ_SORT_CALLS);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "ops outside of functions")->calls, 9);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "between")->calls, 2);
	kit_ok(c);
	tj_close(c);
}

/* ---- a body that is left; many plans ---- */
static jmp_buf out_of_here;
static void leaves(tj_tensor **out, tj_tensor *const *in, void *self)
{
	if (*(bool *)self) longjmp(out_of_here, 1);
	out[0] = tj_exp(in[0]);
}

static void a_body_that_is_left(void **s)
{
	(void)s;
	static bool leave;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "leaves", leaves, &leave, 1, 1);
	begin(c, NULL);
	leave = true;
	if (!setjmp(out_of_here)) tj_call1(f, TJ_LIST(F32(c, 1)));
	assert_int_equal(tj_check(c), TJ_ERR_BODY);
	leave = false;
	for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(F32(c, 1)));
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	assert_int_equal(row_of(rows_of(c, TJ_BY_OP, TJ_SORT_SELF), TJ_ROW_STEP, "exp")->calls, 3);
	kit_ok(c);
	tj_close(c);
}

static void rows_outlive_plans(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	begin(c, NULL);
	for (int k = 0; k < 60; k++) {
		tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
		call_net(c, f, 2);
		tj_fn_free(f);
	}
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	const rows *r = rows_of(c, TJ_BY_OP, TJ_SORT_SELF);
	assert_int_equal(row_of(r, TJ_ROW_STEP, "matmul")->calls, 120);
	kit_ok(c);
	tj_close(c);
}

/* ---- threads ---- */
typedef struct worker { pthread_t thread; tj_ctx *c; tj_fn *f; int times; } worker;
static void *work(void *p)
{
	worker *w = p;
	tj_ctx_use(w->c);
	call_net(w->c, w->f, w->times);
	return NULL;
}

enum { WORKERS = 4 };
static void run_workers(tj_ctx *c, tj_fn *f, worker *w, int times)
{
	for (int i = 0; i < WORKERS; i++) {
		w[i] = (worker){ .c = tj_ctx_clone(c), .f = f, .times = times };
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
}

static void join_workers(worker *w)
{
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		kit_ok(w[i].c);
		tj_close(w[i].c);
	}
}

static void contexts_of_threads(void **s)
{
	(void)s;
	worker w[WORKERS];
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	begin(c, NULL);
	run_workers(c, f, w, 50);
	join_workers(w);
	assert_int_equal(row_of(rows_of(c, TJ_BY_FUNCTION, TJ_SORT_SELF), TJ_ROW_STEP, "net")->calls, WORKERS * 50);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	assert_int_equal(row_of(rows_of(c, TJ_BY_OP, TJ_SORT_SELF), TJ_ROW_STEP, "matmul")->calls, WORKERS * 50);
	tj_close(c);
}

/* Profiles begin, are looked at and end while threads call. */
static void while_others_work(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-timeline-XXXXXX";
	worker w[WORKERS];
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	close(mkstemp(path));
	run_workers(c, f, w, 2000);
	for (int k = 0; k < 20; k++) {
		begin(c, k % 2 ? path : NULL);
		usleep(500);
		rows_of(c, TJ_BY_LINE, TJ_SORT_LOSS);
		usleep(500);
		assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
		rows_of(c, TJ_BY_KERNEL, TJ_SORT_BYTES);
	}
	join_workers(w);
	unlink(path);
	kit_ok(c);
	tj_close(c);
}

/* ---- the timeline ---- */
/* All of the file, with what a killed process left out. NULL: no JSON, which fails the test. */
static json_t *read_timeline(const char *path, bool killed)
{
	json_error_t e;
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	char *text = malloc(1 << 26);
	size_t n = fread(text, 1, (1 << 26) - 4, in);
	fclose(in);
	if (killed) text[n++] = ']';
	json_t *j = json_loadb(text, n, 0, &e);
	free(text);
	if (!j) fail_msg("%s:%d: %s", path, e.line, e.text);
	return j;
}

static const char *text_of(const json_t *e, const char *key) { return json_string_value(json_object_get(e, key)); }
static double number_of(const json_t *e, const char *key) { return json_number_value(json_object_get(e, key)); }

/* What the format asks of each event. */
static void check_event(const json_t *e)
{
	const char *ph = text_of(e, "ph");
	assert_non_null(ph);
	assert_non_null(strchr("MXCi", *ph));
	assert_true(json_is_integer(json_object_get(e, "pid")) && json_is_integer(json_object_get(e, "tid")));
	assert_true(json_is_number(json_object_get(e, "ts")) && number_of(e, "ts") >= 0);
	assert_non_null(text_of(e, "name"));
	if (*ph == 'X') {
		assert_true(number_of(e, "dur") >= 0);
		assert_true(json_is_object(json_object_get(e, "args")));
		assert_true(!json_object_get(e, "bind_id") || json_object_get(e, "flow_in") || json_object_get(e, "flow_out"));
	}
	if (*ph == 'C') assert_true(json_is_number(json_object_get(json_object_get(e, "args"), "bytes")));
	if (*ph == 'M') assert_true(json_is_string(json_object_get(json_object_get(e, "args"), "name")));
}

typedef struct span { double start, end; json_int_t lane; } span;
static int by_lane(const void *a, const void *b)
{
	const span *x = a, *y = b;
	if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
	if (x->start != y->start) return x->start < y->start ? -1 : 1;
	return x->end < y->end ? 1 : x->end > y->end ? -1 : 0;
}

/* Spans of a lane lie in each other or apart; the names of all lanes are told. */
static void check_lanes(const json_t *events)
{
	size_t n = 0, i;
	json_t *e;
	span *v = malloc((json_array_size(events) + 1) * sizeof *v), *open[64];
	json_array_foreach(events, i, e)
		if (*text_of(e, "ph") == 'X')
			v[n++] = (span){ number_of(e, "ts"), number_of(e, "ts") + number_of(e, "dur"), json_integer_value(json_object_get(e, "tid")) };
	qsort(v, n, sizeof *v, by_lane);
	int depth = 0;
	for (i = 0; i < n; i++) {
		while (depth && (open[depth - 1]->lane != v[i].lane || open[depth - 1]->end <= v[i].start + 0.0011)) depth--;
		if (depth && v[i].end > open[depth - 1]->end + 0.0021) /* digits behind the third are cut off */
			fail_msg("a span of lane %lld crosses another", (long long)v[i].lane);
		assert_true(depth < 64);
		open[depth++] = &v[i];
		if (i && v[i].lane == v[i - 1].lane) continue;
		bool named = false;
		size_t k;
		json_array_foreach(events, k, e)
			named |= *text_of(e, "ph") == 'M' && json_integer_value(json_object_get(e, "tid")) == v[i].lane;
		assert_true(named);
	}
	free(v);
}

/* How many events have this name and category; checks that each that belongs to a call finds it. */
static int count_events(const json_t *events, const char *cat, const char *name)
{
	int found = 0;
	size_t i, k;
	json_t *e, *other;
	json_array_foreach(events, i, e) {
		const char *c = text_of(e, "cat");
		if (!c || strcmp(c, cat) != 0 || !strstr(text_of(e, "name"), name)) continue;
		found++;
		if (!json_object_get(e, "flow_in")) continue;
		bool call = false;
		json_array_foreach(events, k, other)
			call |= json_object_get(other, "flow_out") && !strcmp(text_of(other, "bind_id"), text_of(e, "bind_id"));
		assert_true(call);
	}
	return found;
}

static void a_timeline(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-timeline-XXXXXX";
	size_t i;
	json_t *e;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net \"quoted\" \xff", net, NULL, 2, 1), *g = kit_fn(c, "loop", loop, NULL, 1, 1);
	close(mkstemp(path));
	begin(c, path);
	call_net(c, f, CALLS);
	tj_call1(g, TJ_LIST(F32(c, 1, 2, 3)));
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	json_t *events = read_timeline(path, false);
	json_array_foreach(events, i, e) check_event(e);
	check_lanes(events);
	assert_int_equal(count_events(events, "call", "net \"quoted\" ?"), CALLS);
	assert_true(count_events(events, "host", "tracing") >= 1);
	assert_true(count_events(events, "host", "lowering") >= 1);
	assert_true(count_events(events, "memory", "memory of cpu") >= 1);
	const char *of = strcmp(kit_backend, "eval") ? "kernel" : "evaluator";
	assert_true(count_events(events, of, "") >= CALLS);
	bool line = false;
	json_array_foreach(events, i, e) {
		const char *what = text_of(json_object_get(e, "args"), "computes");
		line |= what && strstr(what, "matmul") && strstr(what, at_line(PRODUCT));
	}
	assert_true(line);
	json_decref(events);
	unlink(path);
	kit_ok(c);
	tj_close(c);
}

static void a_budget(void **s)
{
	(void)s;
	enum { BUDGET = 200 << 10 };
	char path[] = "/tmp/tj-timeline-XXXXXX";
	struct stat st;
	size_t i;
	json_t *e;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	close(mkstemp(path));
	assert_int_equal(tj_profile_begin(c, TJ_OPTS(tj_profile_opts, .no_limits = true, .timeline = path, .timeline_bytes = BUDGET)), TJ_OK);
	for (int k = 0; k < 10; k++) call_net(c, f, 500), usleep(10000);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	json_t *events = read_timeline(path, false);
	json_array_foreach(events, i, e) check_event(e);
	assert_int_equal(count_events(events, "timeline", "left out"), 1);
	stat(path, &st);
	assert_true(st.st_size > BUDGET / 2 && st.st_size < BUDGET / 2 + 4096 * 1024); /* what threads had told before it was noticed */
	assert_int_equal(row_of(rows_of(c, TJ_BY_FUNCTION, TJ_SORT_SELF), TJ_ROW_STEP, "net")->calls, 5000); /* counts have no budget */
	json_decref(events);
	unlink(path);
	tj_close(c);
}

/* ---- other processes ---- */
static int end_of(pid_t child)
{
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void a_process_that_is_killed(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-timeline-XXXXXX";
	size_t i;
	json_t *e;
	if (!strcmp(kit_backend, "eval")) return; /* once is enough */
	close(mkstemp(path));
	const pid_t child = fork();
	if (!child) {
		tj_ctx *c = kit_open();
		tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
		begin(c, path);
		call_net(c, f, 20);
		usleep(100000);
		call_net(c, f, 5000); /* rings are filled */
		raise(SIGKILL);
	}
	assert_true(WIFSIGNALED(end_of(child)));
	json_t *events = read_timeline(path, true);
	json_array_foreach(events, i, e) check_event(e);
	assert_true(count_events(events, "call", "net") >= 20);
	json_decref(events);
	unlink(path);
}

static void a_child_of_a_fork(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-timeline-XXXXXX";
	size_t i;
	json_t *e;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	close(mkstemp(path));
	begin(c, path);
	call_net(c, f, CALLS);
	const pid_t child = fork();
	if (!child) {
		call_net(c, f, 3);
		rows *r = rows_of(c, TJ_BY_FUNCTION, TJ_SORT_SELF);
		const bool right = row_of(r, TJ_ROW_STEP, "net")->calls == 3 && tj_profile_end(c, NULL) == TJ_OK;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(end_of(child), 0);
	call_net(c, f, CALLS);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	json_t *events = read_timeline(path, false);
	json_array_foreach(events, i, e) check_event(e);
	assert_int_equal(count_events(events, "call", "net"), 2 * CALLS); /* nothing of the child */
	json_decref(events);
	unlink(path);
	kit_ok(c);
	tj_close(c);
}

static void from_the_environment(void **s)
{
	(void)s;
	char folder[] = "/tmp/tj-profile-XXXXXX", files[128], table[64], line[64], text[8192] = "";
	size_t i;
	json_t *e;
	if (!strcmp(kit_backend, "eval")) return;
	assert_non_null(mkdtemp(folder));
	snprintf(files, sizeof files, "%s/t.%%p.txt,%s/t.json", folder, folder);
	const pid_t child = fork();
	if (!child) {
		setenv("TJ_PROFILE", files, 1);
		for (int k = 0; k < 2; k++) { /* two engines, one profile */
			tj_ctx *c = kit_open();
			call_net(c, kit_fn(c, k ? "second" : "first", net, NULL, 2, 1), CALLS);
			if (k) tj_close(c);
		}
		exit(0);
	}
	assert_int_equal(end_of(child), 0);
	snprintf(table, sizeof table, "%s/t.%d.txt", folder, (int)child);
	FILE *in = fopen(table, "r");
	assert_non_null(in);
	text[fread(text, 1, sizeof text - 1, in)] = 0;
	fclose(in);
	unlink(table);
	assert_non_null(strstr(text, "14 calls"));
	assert_non_null(strstr(text, "test_profile.c:"));
	assert_non_null(strstr(text, "reads")); /* the machine's limits */
	snprintf(line, sizeof line, "%s/t.json", folder);
	json_t *events = read_timeline(line, false);
	json_array_foreach(events, i, e) check_event(e);
	assert_int_equal(count_events(events, "call", "first") + count_events(events, "call", "second"), 2 * CALLS);
	json_decref(events);
	unlink(line);
	rmdir(folder);
}

/* ---- a GPU ---- */
static void queues(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-timeline-XXXXXX";
	size_t i;
	json_t *e;
	if (tj_find_device("cuda:0") < 0) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .backend = kit_backend));
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	close(mkstemp(path));
	begin(c, path);
	call_net(c, f, CALLS);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	const rows *r = rows_of(c, TJ_BY_OP, TJ_SORT_SELF);
	if (strcmp(kit_backend, "eval")) {
		assert_int_equal(row_of(r, TJ_ROW_STEP, "matmul")->device, tj_find_device("cuda:0"));
		assert_true(row_of(r, TJ_ROW_HOST, "waiting for queues")->calls > 0);
	}
	json_t *events = read_timeline(path, false);
	bool queue = false;
	json_array_foreach(events, i, e) {
		check_event(e);
		const char *name = text_of(json_object_get(e, "args"), "name");
		queue |= name && strstr(name, "cuda:0, queue of context");
	}
	assert_true(queue || !strcmp(kit_backend, "eval"));
	check_lanes(events);
	json_decref(events);
	unlink(path);
	kit_ok(c);
	tj_close(c);
}

/* ---- what machines can do ---- */
static void limits(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "net", net, NULL, 2, 1);
	assert_int_equal(tj_profile_begin(c, NULL), TJ_OK);
	call_net(c, f, CALLS);
	assert_int_equal(tj_profile_end(c, NULL), TJ_OK);
	const rows *r = rows_of(c, TJ_BY_KERNEL, TJ_SORT_LOSS);
	for (int i = 0; i < r->n && r->v[i].kind == TJ_ROW_STEP; i++)
		if (r->v[i].flops > 0 && !SANITIZED) assert_true(r->v[i].limit > 0 && r->v[i].limit < 2);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_what_ran),     cmocka_unit_test(text_and_files),           cmocka_unit_test(order_of_calls),
		cmocka_unit_test(steps_in_regions),      cmocka_unit_test(without_functions),        cmocka_unit_test(a_body_that_is_left),
		cmocka_unit_test(rows_outlive_plans),    cmocka_unit_test(contexts_of_threads),      cmocka_unit_test(while_others_work),
		cmocka_unit_test(a_timeline),            cmocka_unit_test(a_budget),                 cmocka_unit_test(a_process_that_is_killed),
		cmocka_unit_test(a_child_of_a_fork),     cmocka_unit_test(from_the_environment),     cmocka_unit_test(queues),
		cmocka_unit_test(limits),
	};
	KIT_RUN(tests);
}
