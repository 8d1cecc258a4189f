/* SPDX-License-Identifier: MIT */
/* Contexts: an error when two threads use one; bodies that do not return; cells read as of one commit. */
#include "test/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Two threads that wait for each other at numbered points. */
typedef struct meeting { pthread_mutex_t lock; pthread_cond_t moved; int at; } meeting;
#define MEETING { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }
static void reach(meeting *m, int point)
{
	pthread_mutex_lock(&m->lock);
	m->at = point;
	pthread_cond_broadcast(&m->moved);
	pthread_mutex_unlock(&m->lock);
}
static void await(meeting *m, int point)
{
	pthread_mutex_lock(&m->lock);
	while (m->at < point) pthread_cond_wait(&m->moved, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

/* ---- one thread at a time ---- */
static void plus_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_f(1));
}

static void a_clone_is_current_nowhere(void **s)
{
	(void)s;
	tj_ctx *c = kit_open(), *d = tj_ctx_clone(c);
	assert_ptr_equal(tj_ctx_current(), c);
	assert_ptr_equal(tj_ctx_use(d), c);
	assert_f32(tj_neg(F32(d, 1)), -1);
	tj_close(d);
	assert_null(tj_ctx_current());
	tj_ctx_use(c);
	assert_f32(tj_neg(F32(c, 2)), -2);
	kit_ok(c);
	tj_close(c);
}

/* ---- the current context of a thread ---- */
static void closing_makes_the_former_current(void **s)
{
	(void)s;
	tj_ctx *c = kit_open(), *d = kit_open();
	tj_tensor *x = F32(c, 1);
	tj_close(d);
	assert_ptr_equal(tj_ctx_current(), c);
	assert_f32(tj_add(x, x), 2);
	d = kit_open();
	tj_ctx *e = kit_open();
	tj_close(d); /* in another order: e follows c now */
	assert_ptr_equal(tj_ctx_current(), e);
	tj_close(e);
	assert_ptr_equal(tj_ctx_current(), c);
	d = kit_open();
	tj_ctx_use(c);
	tj_close(d); /* not current */
	assert_ptr_equal(tj_ctx_current(), c);
	d = kit_open();
	tj_close(c);
	tj_close(d);
	assert_null(tj_ctx_current());
	d = kit_open();
	tj_ctx_use(NULL);
	e = kit_open();
	tj_close(e); /* none was current */
	assert_null(tj_ctx_current());
	tj_close(d);
	assert_int_equal(tj_check(NULL), TJ_OK);
}

static void *closes_it(void *p)
{
	tj_ctx_use(p);
	tj_close(p);
	return tj_ctx_current();
}

static void *opens_and_closes(void *p)
{
	(void)p;
	for (int i = 0; i < 200; i++) {
		tj_ctx *c = kit_open(), *d = kit_open();
		tj_close(i % 2 ? c : d);
		if (tj_ctx_current() != (i % 2 ? d : c)) return p;
		tj_close(i % 2 ? d : c);
		if (tj_ctx_current()) return p;
	}
	return NULL;
}

static void closing_in_another_thread(void **s)
{
	(void)s;
	pthread_t t[3];
	void *current;
	tj_ctx *c = kit_open(), *d = kit_open();
	pthread_create(&t[0], NULL, closes_it, d);
	pthread_join(t[0], &current);
	assert_null(current); /* c was current here, not there */
	tj_ctx *e = kit_open(); /* d, which was current, is closed */
	tj_close(e);
	assert_null(tj_ctx_current());
	tj_ctx_use(c);
	assert_f32(tj_neg(F32(c, 2)), -2);
	tj_close(c);
	for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, opens_and_closes, &current);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &current);
		assert_null(current);
	}
}

typedef struct forgetful { tj_ctx *c; tj_status first, second; char op[32], site[64], printed[300]; } forgetful;
static void *forgets_tj_ctx_use(void *p)
{
	forgetful *k = p;
	tj_tensor *x = F32(k->c, 1);
	tj_tensor *y = tj_add(x, x);
	tj_item(y);
	FILE *f = fmemopen(k->printed, sizeof k->printed, "w");
	tj_perror(k->c, f);
	fclose(f);
	k->first = tj_check(k->c); /* the context has no error: so it is the thread's */
	const tj_error *e = tj_last_error(k->c);
	snprintf(k->op, sizeof k->op, "%s", e ? e->op : "");
	snprintf(k->site, sizeof k->site, "%s", e ? e->site : "");
	k->second = tj_check(k->c);
	return NULL;
}

static void a_thread_without_a_context_is_told(void **s)
{
	(void)s;
	pthread_t t;
	forgetful k = { .c = kit_open() };
	pthread_create(&t, NULL, forgets_tj_ctx_use, &k);
	pthread_join(t, NULL);
	assert_int_equal(k.first, TJ_ERR_STATE);
	assert_string_equal(k.op, "add");
	assert_non_null(strstr(k.site, "test_contexts.c:"));
	assert_non_null(strstr(k.printed, "no context is current in this thread"));
	assert_non_null(strstr(k.printed, "hint: tj_ctx_use(c)"));
	assert_int_equal(k.second, TJ_OK);
	kit_ok(k.c); /* another thread's */
	tj_close(k.c);
}

typedef struct intruder {
	tj_ctx *c;
	tj_fn *f;
	tj_tensor *x;
	meeting m;
	bool refused;
} intruder;

static void waits_inside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	intruder *k = self;
	tj_tensor *y = tj_mul(in[0], tj_f(2));
	reach(&k->m, 1);
	await(&k->m, 2);
	out[0] = tj_add(y, tj_f(1));
}

/* Everything that a second thread may try while the first is in a body. */
static void *intrude(void *p)
{
	intruder *k = p;
	tj_tensor *out = NULL;
	float v = 0;
	await(&k->m, 1);
	tj_ctx_use(k->c);
	k->refused = tj_call(k->f, &out, TJ_LIST(k->x)) != TJ_OK && tj_is_poison(tj_add(k->x, tj_f(1))) && !tj_push(k->c) &&
	             tj_is_poison(F32(k->c, 1)) && tj_is_poison(tj_param(k->c, TJ_F32, TJ_0D)) && tj_assign(k->x, tj_f(1)) != TJ_OK &&
	             tj_write(k->x, &v, sizeof v) != TJ_OK && tj_read(k->x, &v, sizeof v) != TJ_OK && tj_is_poison(tj_retain(k->x));
	tj_item(k->x);
	tj_truth(k->x);
	tj_seed(k->c, 1);
	tj_close(k->c);
	reach(&k->m, 2);
	return NULL;
}

static void two_threads_are_told(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = kit_param(c, 3);
	intruder k = { .c = c, .f = kit_fn(c, "plus_one", plus_one, NULL, 1, 1), .x = x, .m = MEETING };
	tj_fn *f = kit_fn(c, "waits_inside", waits_inside, &k, 1, 1);
	for (int i = 0; i < 2; i++) { /* recorded, then matched */
		pthread_t t;
		k.m.at = 0;
		assert_int_equal(pthread_create(&t, NULL, intrude, &k), 0);
		tj_tensor *y = tj_call1(f, TJ_LIST(x));
		pthread_join(t, NULL);
		assert_true(k.refused);
		assert_f32(y, 7); /* the thread that owns the context goes on undisturbed */
		assert_int_equal(tj_check(c), TJ_ERR_STATE);
		const tj_error *e = tj_last_error(c);
		assert_non_null(strstr(e->message, "two threads use one context"));
		const char *first = strstr(e->message, ".c:"); /* the calls of both */
		assert_non_null(first && strstr(first + 1, ".c:") ? first : NULL);
		assert_non_null(strstr(e->hint, "tj_ctx_clone()"));
	}
	kit_ok(c);
	tj_close(c);
}

/* Two threads that hammer one context: each call is right or refused, and never do two run at a time. */
typedef struct hammer { tj_ctx *c; tj_fn *f; tj_tensor *x; int inside, overlaps, wrong, right; } hammer;
static void counts_inside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	hammer *h = self;
	if (__atomic_add_fetch(&h->inside, 1, __ATOMIC_SEQ_CST) != 1) __atomic_add_fetch(&h->overlaps, 1, __ATOMIC_SEQ_CST);
	out[0] = tj_add(in[0], tj_f(1));
	__atomic_sub_fetch(&h->inside, 1, __ATOMIC_SEQ_CST);
}
static void *hammers(void *p)
{
	hammer *h = p;
	tj_ctx_use(h->c);
	for (int i = 0; i < 20000; i++) {
		tj_tensor *y = NULL;
		float v = 0;
		if (tj_call(h->f, &y, TJ_LIST(h->x)) != TJ_OK || tj_read(y, &v, sizeof v) != TJ_OK) continue;
		__atomic_add_fetch(v == 4 ? &h->right : &h->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}
static void hammered(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	hammer h = { .c = c, .x = kit_param(c, 3) };
	pthread_t t[2];
	h.f = kit_fn(c, "counts_inside", counts_inside, &h, 1, 1);
	for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, hammers, &h), 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	assert_int_equal(h.overlaps, 0);
	assert_int_equal(h.wrong, 0);
	assert_true(h.right > 0);
	while (tj_check(c) != TJ_OK) assert_non_null(strstr(tj_last_error(c)->message, "two threads use one context"));
	assert_f32(tj_neg(h.x), -3);
	kit_ok(c);
	tj_close(c);
}

typedef struct relay { tj_ctx *c; tj_fn *f; tj_tensor *x; meeting m; int first, turns; bool bad; } relay;
static void *take_turns(void *p)
{
	relay *r = p;
	for (int i = r->first; i < r->turns; i += 2) {
		await(&r->m, i);
		tj_ctx_use(r->c);
		tj_scope *s = tj_push(r->c);
		r->bad |= tj_item(tj_call1(r->f, TJ_LIST(r->x))) != 4 || tj_item(tj_neg(r->x)) != -3;
		tj_pop(s);
		reach(&r->m, i + 1);
	}
	return NULL;
}

/* A context may serve any number of threads if it is handed over between calls. */
static void handed_over(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, plus_one, NULL, TJ_OPTS(tj_compile_opts, .name = "plus_one", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	static relay r[2];
	relay one = { .c = c, .f = f, .x = F32(c, 3), .m = MEETING, .turns = 400 };
	pthread_t t;
	r[0] = one; /* both use the meeting of the first */
	assert_int_equal(pthread_create(&t, NULL, take_turns, &r[0]), 0);
	for (int i = 1; i < one.turns; i += 2) {
		await(&r[0].m, i);
		tj_scope *sc = tj_push(c);
		assert_f32(tj_call1(f, TJ_LIST(one.x)), 4);
		tj_pop(sc);
		reach(&r[0].m, i + 1);
	}
	pthread_join(t, NULL);
	assert_false(r[0].bad);
	kit_ok(c);
	tj_close(c);
}

/* ---- bodies that do not return ---- */
static jmp_buf away, inner;

static void jumps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_f(1));
	if (self) longjmp(away, 1);
}

/* Its frame covers those of the body that was left, and does not write to them. */
static __attribute__((noinline)) tj_status assign_in_a_large_frame(tj_tensor *cell, float v)
{
	volatile char big[1 << 17];
	big[0] = 1;
	tj_status s = tj_assign(cell, tj_f(v));
	big[sizeof big - 1] = 1;
	return s;
}

static void large_frame_after_longjmp(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *volatile f = kit_fn(c, "jumps", jumps, c, 1, 1);
	tj_tensor *volatile x = F32(c, 1), *volatile cell = kit_param(c, 1);
	for (volatile int i = 0; i < 3; i++) {
		if (!setjmp(away)) tj_call1(f, TJ_LIST(x));
		assert_int_equal(assign_in_a_large_frame(cell, (float)(i + 5)), TJ_OK); /* outside of any call */
		kit_error(c, TJ_ERR_BODY, "a body of jumps was left without returning");
		assert_int_equal((int)tj_item(cell), i + 5);
	}
	if (!setjmp(away)) tj_call1(f, TJ_LIST(x));
	kit_error(c, TJ_ERR_BODY, "longjmp"); /* at once, also when nothing else was called since */
	kit_ok(c);
	tj_close(c);
}

static void jumps_out_of_the_inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_neg(in[0]);
	longjmp(inner, 1);
}
static void calls_inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *volatile x = in[0], *volatile y = in[0];
	tj_fn *volatile f = self;
	if (!setjmp(inner)) y = tj_call1((tj_fn *)f, TJ_LIST((tj_tensor *)x));
	out[0] = tj_mul((tj_tensor *)y, tj_f(2));
}
static void inner_body_left(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "inner", jumps_out_of_the_inner, NULL, 1, 1), *g = kit_fn(c, "outer", calls_inner, f, 1, 1);
	for (int i = 0; i < 3; i++) {
		assert_true(tj_is_poison(tj_call1(g, TJ_LIST(F32(c, 1)))));
		kit_error(c, TJ_ERR_BODY, "a body of inner was left");
	}
	assert_f32(tj_neg(F32(c, 1)), -1);
	kit_ok(c);
	tj_close(c);
}

static void branch_jumps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
	longjmp(away, 1);
}
static void callback_left(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *volatile x = F32(c, 1), *y = NULL;
	if (!setjmp(away)) tj_cond(&y, 1, tj_full(TJ_BOOL, TJ_0D, tj_i(1)), branch_jumps, branch_jumps, TJ_LIST((tj_tensor *)x), NULL);
	kit_error(c, TJ_ERR_BODY, "was left without returning");
	assert_f32(tj_neg((tj_tensor *)x), -1);
	kit_ok(c);
	tj_close(c);
}

static void ends_thread(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_neg(in[0]);
	pthread_exit(NULL);
}
static void *call_and_end(void *p)
{
	intruder *k = p;
	tj_ctx_use(k->c);
	tj_call1(k->f, TJ_LIST(k->x));
	return NULL;
}
static void thread_ended_inside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	intruder k = { .c = c, .f = kit_fn(c, "ends_thread", ends_thread, NULL, 1, 1), .x = F32(c, 1) };
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, call_and_end, &k), 0);
	pthread_join(t, NULL);
	kit_error(c, TJ_ERR_BODY, "a body of ends_thread was left"); /* tj_check() alone sees it */
	assert_f32(tj_neg(k.x), -1);
	kit_ok(c);
	tj_close(c);
}

static void closes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_close(self);
	out[0] = tj_neg(in[0]);
}
static void close_in_a_body(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "closes", closes, c, 1, 1);
	for (int i = 0; i < 2; i++) {
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(F32(c, 1)))));
		assert_int_equal(tj_check(c), TJ_ERR_STATE);
		assert_non_null(strstr(tj_last_error(c)->message, "tj_close() is not allowed in a body"));
	}
	assert_f32(tj_neg(F32(c, 1)), -1);
	kit_ok(c);
	tj_close(c);
}

/* ---- functions that are called back while the context is at work ---- */
typedef struct meddler { tj_ctx *c; tj_fn *f; tj_tensor *x; int tries, refused; bool ask; } meddler;
static void meddle(meddler *m)
{
	tj_tensor *y = NULL;
	m->tries++;
	if (m->ask) { /* what may be asked */
		char *s = kit_explain(m->f);
		free(s);
		kit_stats(m->f);
		return;
	}
	tj_item(tj_sum(tj_add(m->x, tj_f(1)), TJ_ALL, false));
	m->refused += tj_is_poison(tj_neg(m->x)) && tj_call(m->f, &y, TJ_LIST(m->x)) != TJ_OK;
	tj_close(m->c); /* stays open */
}
static bool meddling_filter(void *self, const tj_guard *g) { return meddle(self), g != NULL; }
static void meddling_note(void *self, const tj_reason *n)
{
	(void)n;
	meddle(self);
}
static tj_status meddling_pass(tj_graph *g, void *self)
{
	(void)g;
	meddle(self);
	return TJ_OK;
}
static void meddling_log(void *self, const char *line)
{
	(void)line;
	if (((meddler *)self)->f) meddle(self);
}
static void plus_one_with_a_boundary(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_f(tj_truth(tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(1e9))) ? 2 : 1));
}
static void called_back(void **s)
{
	(void)s;
	for (int kind = 0; kind < 10; kind++) {
		meddler m = { .ask = kind >= 5 };
		bool log = kind % 5 == 4;
		tj_ctx *c = m.c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = log ? "fusion,plan,guards" : NULL,
		                                  .log_to = log ? meddling_log : NULL, .log_self = &m));
		const tj_pass pass[] = { { "meddles", meddling_pass, &m }, { 0 } };
		tj_compile_opts o = { .size = sizeof o, .name = "meddled", .nin = 1, .nout = 1 };
		if (kind % 5 == 0) o.guard_filter = meddling_filter, o.guard_filter_self = &m;
		if (kind % 5 == 1) o.on_note = meddling_note, o.on_note_self = &m;
		if (kind % 5 == 2) o.on_recompile = meddling_note, o.on_recompile_self = &m;
		if (kind % 5 == 3) o.passes = pass;
		m.x = kit_param(c, 3);
		m.f = tj_compile(c, plus_one_with_a_boundary, NULL, &o);
		for (int i = 0; i < 4; i++) {
			tj_tensor *y = tj_call1(m.f, TJ_LIST(i == 2 ? F32(c, 1, 2) : m.x));
			tj_status st = tj_check(c);
			if (m.ask || !m.tries) assert_int_equal(st, TJ_OK);
			if (st != TJ_OK) assert_non_null(strstr(tj_last_error(c)->message, "called back"));
			else assert_int_equal((int)((const float *)tj_data(y))[0], i == 2 ? 2 : 4);
		}
		assert_true(m.ask || m.refused == m.tries);
		assert_true(m.tries > 0);
		m.f = NULL;
		tj_close(c);
	}
}

/* ---- escapes, and poison whose error is gone ---- */
static void escapes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_scope *a = tj_push(c), *b = tj_push(c), *d = tj_push(c);
	tj_tensor *t = tj_escape(tj_escape(F32(c, 7))); /* out of d, out of b */
	tj_tensor *u = F32(c, 8);
	tj_pop(d);
	tj_tensor *v = F32(c, 9);
	d = tj_push(c);
	v = tj_escape(v); /* of b, while d is open */
	tj_pop(d);
	tj_pop(b);
	assert_f32(t, 7);
	assert_f32(v, 9);
	tj_neg(u);
	assert_int_equal(tj_check(c), TJ_ERR_DEAD);
	tj_pop(a);
	tj_escape(F32(c, 1));
	kit_error(c, TJ_ERR_STATE, "root scope");
	tj_close(c);
}

static void stale_poison(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "plus_one", plus_one, NULL, 1, 1);
	tj_tensor *bad = tj_matmul(F32(c, 1, 2), F32(c, 1, 2, 3)), *y = NULL, *w = kit_param(c, 1);
	assert_int_equal(tj_check(c), TJ_ERR_SHAPE);
	assert_int_equal(tj_call(f, &y, TJ_LIST(bad)), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "an operand is poison");
	assert_int_equal(tj_assign(w, bad), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "an operand is poison");
	tj_add(tj_neg(bad), w); /* one error for the chain */
	kit_error(c, TJ_ERR_ARG, "an operand is poison");
	kit_ok(c);
	tj_close(c);
}

/* A call that fails has its error in its own context, also when the body used no context, or another one. */
typedef struct astray { tj_ctx *c, *clone; int kind; } astray;
static void goes_astray(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const astray *k = self;
	float v = 1;
	tj_ctx_use(k->kind == 5 ? k->clone : k->kind == 4 ? k->c : NULL);
	switch (k->kind) {
	case 0: out[0] = tj_full(TJ_F32, TJ_SHAPE(2), tj_i(1)); break;
	case 1: tj_item(in[0]), out[0] = in[0]; break;
	case 2: out[0] = tj_max_with_indices(in[0], 0, false, NULL); break;
	case 3: out[0] = in[0], tj_call(NULL, NULL, TJ_NONE); break;
	case 4: out[0] = tj_from_data(NULL, TJ_F32, TJ_0D, &v); break;
	default: out[0] = tj_matmul(F32(k->clone, 1), F32(k->clone, 1, 2)); break;
	}
	tj_ctx_use(k->c);
}
static void errors_of_a_body_that_left_its_context(void **s)
{
	(void)s;
	tj_ctx *c = kit_open(), *clone = tj_ctx_clone(c);
	astray k = { c, clone, 0 };
	tj_fn *f = kit_fn(c, "astray", goes_astray, &k, 1, 1);
	for (k.kind = 0; k.kind < 6; k.kind++) {
		tj_tensor *y = NULL;
		assert_int_equal(tj_call(f, &y, TJ_LIST(F32(c, 1, 2))), k.kind == 5 ? TJ_ERR_ARG : TJ_ERR_STATE);
		if (k.kind < 5) kit_error(c, TJ_ERR_STATE, "no context is current");
		else kit_error(c, TJ_ERR_ARG, "or is in another context");
		kit_ok(c);
	}
	assert_int_equal(tj_check(clone), TJ_ERR_SHAPE);
	tj_close(clone);
	tj_close(c);
}

/* ---- cells of one commit ---- */
typedef struct pair {
	tj_tensor *a, *b;
	tj_ctx *parent, *other;
	tj_fn *set;
	meeting *m;
	bool by_call, stop, bad;
	int wrong;
	tj_mode mode;
} pair;

static void set_both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)out;
	pair *p = self;
	tj_assign(p->a, in[0]);
	tj_assign(p->b, in[0]);
}

/* Another context commits between the two reads of the body; one that is made now when p->other is NULL. */
static void write_both(pair *p, float v)
{
	tj_ctx *made = p->other ? NULL : tj_ctx_clone(tj_ctx_current()), *was = tj_ctx_use(made ? made : p->other);
	if (p->by_call) tj_call(p->set, NULL, TJ_LIST(tj_f(v)));
	else {
		tj_write(p->a, &v, sizeof v);
		tj_write(p->b, &v, sizeof v);
	}
	tj_close(made);
	tj_ctx_use(was);
}

static void difference_around(tj_tensor **out, tj_tensor *const *in, void *self)
{
	pair *p = self;
	static float v = 1;
	tj_tensor *x = tj_add(p->a, in[0]);
	write_both(p, ++v);
	out[0] = tj_sub(x, p->b);
}

static void one_commit_in_a_segment(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	pair p = { .a = kit_param(c, 1), .b = kit_param(c, 1), .other = tj_ctx_clone(c) };
	p.set = tj_compile(c, set_both, &p, TJ_OPTS(tj_compile_opts, .name = "set_both", .nin = 1));
	tj_fn *f = kit_fn(c, "difference", difference_around, &p, 1, 1);
	for (int i = 0; i < 6; i++) {
		p.by_call = i & 1;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 0))), 0);
	}
	kit_ok(p.other);
	kit_ok(c);
	tj_close(p.other);
	tj_close(c);
}

/* A value that C has read stays as it was, and so does a value computed from it. */
static void reads_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	pair *p = self;
	static float v = 100;
	double seen = tj_item(p->a);
	write_both(p, ++v);
	p->bad |= tj_item(p->a) != seen;
	out[0] = tj_sub(tj_add(p->a, in[0]), tj_f(seen));
}
static void what_c_reads_stays(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	pair p = { .a = kit_param(c, 1), .b = kit_param(c, 1), .other = tj_ctx_clone(c) };
	tj_fn *f = kit_fn(c, "reads_twice", reads_twice, &p, 1, 1);
	for (int i = 0; i < 4; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 0))), 0);
	assert_false(p.bad);
	kit_ok(c);
	tj_close(p.other);
	tj_close(c);
}

/* C computes the new value from what it has read. Another context commits in between: the commit would be lost. */
static void read_and_assign(tj_tensor **out, tj_tensor *const *in, void *self)
{
	pair *p = self;
	(void)in;
	(void)out;
	double seen = tj_item(p->a);
	if (p->by_call) write_both(p, 10);
	tj_assign(p->a, tj_f(seen + 1));
}
static void what_c_read_is_old(void **s)
{
	(void)s;
	for (int frozen = 0; frozen < 2; frozen++) {
		tj_ctx *c = kit_open();
		pair p = { .a = kit_param(c, 1), .b = kit_param(c, 1), .other = tj_ctx_clone(c) };
		p.set = tj_compile(c, set_both, &p, TJ_OPTS(tj_compile_opts, .name = "set_both", .nin = 1));
		tj_fn *f = tj_compile(c, read_and_assign, &p,
		                      TJ_OPTS(tj_compile_opts, .name = "read_and_assign", .freeze = frozen ? TJ_VARS(&p.a) : NULL));
		assert_int_equal(tj_call(f, NULL, TJ_NONE), TJ_OK);
		assert_true(tj_item(p.a) == 2);
		p.by_call = true;
		assert_int_equal(tj_call(f, NULL, TJ_NONE), TJ_ERR_STATE);
		assert_int_equal(tj_check(c), TJ_ERR_STATE);
		assert_true(tj_item(p.a) == 10);
		kit_ok(p.other);
		tj_close(p.other);
		tj_close(c);
	}
}

static void difference(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	pair *p = self;
	out[0] = tj_sub(p->a, p->b);
}

static void *read_pairs(void *arg)
{
	pair *p = arg;
	tj_ctx *c = kit_clone(p->parent);
	tj_fn *f = tj_compile(c, difference, p,
	                      TJ_OPTS(tj_compile_opts, .name = "difference", .nout = 1, .mode = p->mode, .state = TJ_VARS(&p->a, &p->b)));
	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
		tj_scope *s = tj_push(c);
		p->wrong += tj_item(tj_call1(f, TJ_NONE)) != 0;
		p->wrong += tj_item(tj_sub(p->a, p->b)) != 0; /* an op outside of functions */
		tj_pop(s);
	}
	p->bad = tj_check(c) != TJ_OK;
	tj_close(c);
	return NULL;
}

/* A writer commits a = b = v all the time; a reader of both sees equal values. */
static void readers_beside_a_writer(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	pair p[3];
	pthread_t t[2];
	p[0] = (pair){ .a = kit_param(c, 1), .b = kit_param(c, 1), .parent = c, .mode = TJ_VERIFY };
	for (int i = 1; i < 3; i++) p[i] = p[0];
	p[1].mode = TJ_DIRECT;
	for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, read_pairs, &p[i]), 0);
	tj_fn *set = tj_compile(c, set_both, &p[2], TJ_OPTS(tj_compile_opts, .name = "set_both", .nin = 1));
	for (int i = 0; i < 60000; i++) assert_int_equal(tj_call(set, NULL, TJ_LIST(tj_f(i))), TJ_OK);
	for (int i = 0; i < 2; i++) {
		__atomic_store_n(&p[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(t[i], NULL);
		assert_false(p[i].bad);
		assert_int_equal(p[i].wrong, 0);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- frozen cells of one commit ---- */

/* Another context commits in mid-body: the call sees the cells as they were when it began. */
static void frozen_as_of_the_start(void **s)
{
	(void)s;
	for (int way = 0; way < 4; way++) {
		const int mode = way & 1 ? TJ_DIRECT : TJ_VERIFY;
		tj_ctx *c = kit_open();
		pair p = { .a = kit_param(c, 1), .b = kit_param(c, 1), .other = way & 2 ? NULL : tj_ctx_clone(c) };
		p.set = tj_compile(c, set_both, &p, TJ_OPTS(tj_compile_opts, .name = "set_both", .nin = 1));
		tj_fn *both = tj_compile(c, difference_around, &p,
		                         TJ_OPTS(tj_compile_opts, "both", 1, 1, .mode = (tj_mode)mode, .freeze = TJ_VARS(&p.a, &p.b)));
		tj_fn *one = tj_compile(
			c, difference_around, &p,
			TJ_OPTS(tj_compile_opts, "one", 1, 1, .mode = (tj_mode)mode, .state = TJ_VARS(&p.b), .freeze = TJ_VARS(&p.a)));
		for (int i = 0; i < 6; i++) {
			p.by_call = i & 1;
			assert_f32(tj_call1(both, TJ_LIST(F32(c, 0))), 0);
			if (p.other) assert_f32(tj_call1(one, TJ_LIST(F32(c, 0))), 0);
			float was = (float)tj_item(p.a);
			assert_f32(tj_call1(both, TJ_LIST(p.b)), was);
		}
		if (p.other) kit_ok(p.other);
		kit_ok(c);
		tj_close(p.other);
		tj_close(c);
	}
}

/* A reader beside a writer. The cells between a and b give the writer time to commit while the reader looks at them one by one. */
enum { WIDE = 64, BETWEEN = 30, FROZEN_CALLS = 1000 };
typedef struct frozen_reader {
	tj_ctx *parent;
	tj_tensor *cell[BETWEEN + 2], **frozen[BETWEEN + 3];
	tj_mode mode;
	bool bad, declared; /* declared: the last cell is in .state */
	int wrong;
	atomic_int *running;
} frozen_reader;

static void spread_of_frozen(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	frozen_reader *r = self;
	out[0] = tj_amax(tj_abs(tj_sub(r->cell[0], r->cell[BETWEEN + 1])), TJ_ALL, false);
}
static void *read_frozen(void *arg)
{
	frozen_reader *r = arg;
	tj_ctx *c = kit_clone(r->parent);
	tj_compile_opts o = { .size = sizeof o, .name = "frozen", .nout = 1, .mode = r->mode };
	tj_tensor **const *last = TJ_VARS(&r->cell[BETWEEN + 1]);
	for (int i = 0; i < BETWEEN + 2; i++) r->frozen[i] = &r->cell[i];
	r->frozen[BETWEEN + 2] = last[1];
	if (r->declared) {
		o.state = last;
		r->frozen[BETWEEN + 1] = last[1];
	}
	o.freeze = r->frozen;
	tj_fn *f = tj_compile(c, spread_of_frozen, r, &o);
	for (int i = 0; i < FROZEN_CALLS; i++) {
		tj_scope *s = tj_push(c);
		r->wrong += tj_item(tj_call1(f, TJ_NONE)) != 0;
		tj_pop(s);
	}
	r->bad = tj_check(c) != TJ_OK;
	tj_close(c);
	atomic_fetch_sub(r->running, 1);
	return NULL;
}
static void frozen_readers_beside_a_writer(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	atomic_int running = 4;
	frozen_reader r[4] = { { .parent = c, .running = &running } };
	pthread_t t[4];
	for (int i = 0; i < BETWEEN + 2; i++) r[0].cell[i] = tj_param(c, TJ_F32, TJ_SHAPE(WIDE));
	pair p = { .a = r[0].cell[0], .b = r[0].cell[BETWEEN + 1] };
	for (int i = 1; i < 4; i++) r[i] = r[0];
	for (int i = 0; i < 4; i++) {
		r[i].mode = i & 1 ? TJ_DIRECT : TJ_VERIFY;
		r[i].declared = i & 2;
		assert_int_equal(pthread_create(&t[i], NULL, read_frozen, &r[i]), 0);
	}
	tj_fn *set = tj_compile(c, set_both, &p, TJ_OPTS(tj_compile_opts, .name = "set_both", .nin = 1));
	for (int i = 0; atomic_load(&running); i++) assert_int_equal(tj_call(set, NULL, TJ_LIST(tj_f(i))), TJ_OK);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_false(r[i].bad);
		assert_int_equal(r[i].wrong, 0);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- a context that comes while the only other one runs ---- */
enum { MANY = 4096 };
static void spread(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	tj_tensor *w = *(tj_tensor **)self;
	out[0] = tj_sub(tj_amax(w, TJ_ALL, false), tj_amin(w, TJ_ALL, false));
}
static void *come_and_go(void *arg)
{
	pair *p = arg;
	float v[MANY];
	for (int k = 0; k < 300; k++) {
		for (int i = 0; i < MANY; i++) v[i] = (float)k;
		tj_ctx *c = kit_clone(p->parent);
		tj_write(p->a, v, sizeof v);
		tj_assign(p->a, tj_f(k + 0.5));
		p->bad |= tj_check(c) != TJ_OK;
		tj_close(c);
	}
	__atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
	return NULL;
}
static void clones_come_and_go(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		pair p = { .a = tj_param(c, TJ_F32, TJ_SHAPE(MANY)), .parent = c };
		tj_fn *f = tj_compile(c, spread, &p.a,
		                      TJ_OPTS(tj_compile_opts, .name = "spread", .nout = 1, .mode = (tj_mode)mode, .state = TJ_VARS(&p.a)));
		pthread_t t;
		for (int i = 0; i < 4; i++) assert_f32(tj_call1(f, TJ_NONE), 0);
		assert_int_equal(pthread_create(&t, NULL, come_and_go, &p), 0);
		while (!__atomic_load_n(&p.stop, __ATOMIC_ACQUIRE)) {
			tj_scope *sc = tj_push(c);
			p.wrong += tj_item(tj_call1(f, TJ_NONE)) != 0;
			tj_pop(sc);
		}
		pthread_join(t, NULL);
		assert_false(p.bad);
		assert_int_equal(p.wrong, 0);
		kit_ok(c);
		tj_close(c);
	}
}

static void clones_inside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_ctx *d = tj_ctx_clone(tj_ctx_current()); /* no run of a plan: nothing to wait for */
	*(bool *)self = d != NULL;
	tj_close(d);
	out[0] = tj_neg(in[0]);
}
static void clone_in_a_body(void **s)
{
	(void)s;
	bool made = false;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "clones_inside", clones_inside, &made, 1, 1);
	for (int i = 0; i < 2; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), -1);
	assert_true(made);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clone_is_current_nowhere),
		cmocka_unit_test(closing_makes_the_former_current),
		cmocka_unit_test(closing_in_another_thread),
		cmocka_unit_test(a_thread_without_a_context_is_told),
		cmocka_unit_test(two_threads_are_told),
		cmocka_unit_test(hammered),
		cmocka_unit_test(handed_over),
		cmocka_unit_test(large_frame_after_longjmp),
		cmocka_unit_test(inner_body_left),
		cmocka_unit_test(callback_left),
		cmocka_unit_test(thread_ended_inside),
		cmocka_unit_test(close_in_a_body),
		cmocka_unit_test(called_back),
		cmocka_unit_test(escapes),
		cmocka_unit_test(stale_poison),
		cmocka_unit_test(errors_of_a_body_that_left_its_context),
		cmocka_unit_test(one_commit_in_a_segment),
		cmocka_unit_test(what_c_reads_stays),
		cmocka_unit_test(what_c_read_is_old),
		cmocka_unit_test(readers_beside_a_writer),
		cmocka_unit_test(frozen_as_of_the_start),
		cmocka_unit_test(frozen_readers_beside_a_writer),
		cmocka_unit_test(clones_come_and_go),
		cmocka_unit_test(clone_in_a_body),
	};
	KIT_RUN(tests);
}
