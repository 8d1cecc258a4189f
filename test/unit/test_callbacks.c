/* Functions that the library calls back while a call runs: what they may do with a clone, and what is refused with the running context. */
#include "test/kit.h"

/* One place for each way in which a call of f calls the program back. */
typedef enum place { KEY_FILTER, EVENT_FILTER, ENGINE_PASS, PASS, BACKEND, RUN, ON_RECOMPILE, ON_NOTE, LOG, PLACES } place;
static const char *const place_name[] = { "filter of a key", "filter of an event", "pass of the engine", "pass", "back end", "run", "on_recompile", "on_note", "log_to" };

typedef struct probe {
	tj_ctx *c, *clone;
	tj_fn *f, *outer;        /* outer calls f in its body */
	place at;
	void (*act)(struct probe *p); /* runs at `at`; NULL: nothing does */
	bool inside;             /* it runs now */
	bool in_f;               /* the body of f runs now */
	int acts, turn;
} probe;

static void back(probe *p, place at)
{
	if (p->at != at || !p->act || p->inside) return;
	p->inside = true;
	p->acts++;
	p->act(p);
	p->inside = false;
}

static bool filter(void *self, const tj_guard *g) { return back(self, g->event < 0 ? KEY_FILTER : EVENT_FILTER), true; }
static tj_status engine_pass(tj_graph *g, void *self) { return back(self, ENGINE_PASS), g ? TJ_OK : TJ_ERR_ARG; }
static tj_status pass(tj_graph *g, void *self) { return back(self, PASS), g ? TJ_OK : TJ_ERR_ARG; }
static void on_recompile(void *self, const tj_reason *why) { back(self, why ? ON_RECOMPILE : PLACES); }
static void on_note(void *self, const tj_reason *note) { back(self, note ? ON_NOTE : PLACES); }
static void log_to(void *self, const char *line) { back(self, line ? LOG : PLACES); }

/* The back end of RUN: it takes the graph of one negation. */
typedef struct negation { probe *p; int64_t n; } negation;
static tj_status run(void *env, const tj_run *r)
{
	const negation *k = env;
	back(k->p, RUN);
	for (int64_t i = 0; i < k->n; i++) ((float *)r->out[0])[i] = -((const float *)r->in[0])[i];
	return TJ_OK;
}
static tj_status backend(void *self, tj_graph *g, tj_compiled *out)
{
	probe *p = self;
	back(p, BACKEND);
	tj_node *n = tj_graph_output(g, 0);
	if (p->at != RUN || tj_graph_outputs(g) != 1 || strcmp(tj_node_op(n), "neg") || tj_node_dtype(n) != TJ_F32 || tj_node_rank(n) != 1) return TJ_OK;
	negation *k = malloc(sizeof *k);
	*k = (negation){ p, tj_node_dim(n, 0) };
	*out = (tj_compiled){ run, free, k };
	return TJ_OK;
}

/* out = -in. The constant is for the filter of a key. y is read after a boundary, but not kept there: the plan is widened. */
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	probe *p = self;
	if (p->at == RUN) {
		out[0] = tj_neg(in[0]);
		return;
	}
	p->in_f = true;
	tj_tensor *x = tj_mul(in[0], in[1]), *y = tj_neg(x), *z = tj_exp(y);
	bool large = tj_truth(tj_gt(tj_sum(z, TJ_ALL, false), tj_f(1e9)));
	out[0] = large ? tj_sub(tj_f(0), tj_add(x, tj_f(0))) : y;
	p->in_f = false;
}

static void calls_f(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_call1(((probe *)self)->f, TJ_LIST(in[0], in[1])); }

static void open_probe(probe *p, place at, tj_mode mode)
{
	*p = (probe){ .at = at };
	p->c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = at == LOG ? "all" : NULL, .log_to = log_to, .log_self = p));
	p->clone = tj_ctx_clone(p->c);
	tj_add_pass(p->c, &(tj_pass){ "of the engine", engine_pass, p });
	const tj_pass passes[] = { { "own", pass, p }, { 0 } };
	tj_compile_opts o = { .size = sizeof o, .name = "f", .nin = 2, .nout = 1, .mode = mode, .passes = passes, .backend = backend, .backend_self = p,
	                      .on_recompile = on_recompile, .on_recompile_self = p, .on_note = on_note, .on_note_self = p, .guard_filter = filter, .guard_filter_self = p,
	                      .max_entries = 2, .dynamic = TJ_DYNAMIC_OFF };
	p->f = tj_compile(p->c, body, p, &o);
	o.name = "outer";
	o.int_div_zero = TJ_ZERO; /* that of f differs: .on_note of a nested call */
	p->outer = tj_compile(p->c, calls_f, p, &o);
	kit_ok(p->c);
}

static void close_probe(probe *p)
{
	p->act = NULL;
	tj_close(p->clone);
	tj_ctx_use(p->c);
	tj_close(p->c);
}

/* Calls a function with n elements of value v. */
static tj_tensor *call(tj_fn *f, tj_ctx *c, int n, float v)
{
	float x[8], one = 1;
	for (int i = 0; i < 8; i++) x[i] = v;
	return tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(n), x), tj_constant(c, TJ_F32, TJ_0D, &one)));
}

/* f calls the place at least once in each mode: new sizes, both branches, more signatures than .max_entries. */
enum { TURNS = 8 };
static tj_tensor *turn(tj_fn *f, tj_ctx *c, int i, float *want)
{
	const float v = i % 3 == 1 ? -30 : 2;
	*want = -v;
	return call(f, c, 1 + i % 4, v);
}

/* ---- a clone calls the function that is being called ---- */
static void clone_calls(probe *p)
{
	float want;
	tj_ctx *was = tj_ctx_use(p->clone);
	for (int i = 0; i < 3; i++) { /* the call of the context itself, and others */
		tj_scope *s = tj_push(p->clone);
		assert_true(((const float *)tj_data(turn(p->f, p->clone, p->turn + i, &want)))[0] == want);
		kit_ok(p->clone);
		tj_pop(s);
	}
	tj_ctx_use(was);
}

static void clones_may_call_the_function(void **s)
{
	(void)s;
	for (place at = 0; at < PLACES; at++)
		for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
			probe p;
			open_probe(&p, at, (tj_mode)mode);
			for (p.turn = 0; p.turn < TURNS; p.turn++) {
				float want;
				p.act = clone_calls;
				tj_tensor *y = turn(p.f, p.c, p.turn, &want);
				kit_ok(p.c);
				if (((const float *)tj_data(y))[0] != want) fail_msg("%s, turn %d", place_name[at], p.turn);
			}
			if (!p.acts) fail_msg("%s was never called", place_name[at]);
			free(kit_explain(p.f)); /* reads all segments */
			close_probe(&p);
		}
}

/* ---- a function is not freed under its call ---- */
static void frees(probe *p)
{
	tj_ctx *const ctx[] = { p->clone, NULL, p->c }, *was = tj_ctx_current();
	for (int i = 0; i < 3; i++) {
		tj_ctx_use(ctx[i]);
		tj_fn_free(p->f);
		if (ctx[i]) assert_int_equal(tj_check(ctx[i]), TJ_ERR_STATE);
	}
	tj_ctx_use((tj_ctx *)was);
}

static void frees_nested(probe *p)
{
	if (p->in_f) frees(p);
}

static void no_function_is_freed_under_its_call(void **s)
{
	(void)s;
	for (place at = 0; at < PLACES; at++)
		for (int kind = 0; kind < 4; kind++) { /* verify, direct; nested in these */
			probe p;
			float want;
			open_probe(&p, at, kind % 2 ? TJ_DIRECT : TJ_VERIFY);
			tj_fn *f = kind >= 2 ? p.outer : p.f;
			for (int i = 0; i < TURNS; i++) {
				p.act = kind >= 2 ? frees_nested : frees;
				turn(f, p.c, i, &want); /* it may fail, since the callback has made a mistake */
				(void)tj_check(p.c);
				p.act = NULL;
				tj_tensor *y = turn(f, p.c, i, &want);
				kit_ok(p.c);
				assert_true(((const float *)tj_data(y))[0] == want);
			}
			if (!p.acts) fail_msg("%s was never called", place_name[at]);
			close_probe(&p);
		}
}

typedef struct suicide { tj_fn *f, *outer; bool now; } suicide;
static void frees_itself(tj_tensor **out, tj_tensor *const *in, void *self)
{
	suicide *k = self;
	if (k->now) tj_fn_free(k->f);
	out[0] = tj_neg(in[0]);
}
static void calls_it(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_call1(((suicide *)self)->f, TJ_LIST(in[0])); }

static void nor_in_its_body(void **s)
{
	(void)s;
	suicide k = { 0 };
	tj_ctx *c = kit_open();
	k.f = kit_fn(c, "frees_itself", frees_itself, &k, 1, 1);
	k.outer = kit_fn(c, "calls_it", calls_it, &k, 1, 1);
	for (int i = 0; i < 8; i++) {
		k.now = i & 1;
		tj_tensor *y = tj_call1(i & 2 ? k.outer : k.f, TJ_LIST(F32(c, 1)));
		if (k.now) kit_error(c, TJ_ERR_STATE, "a call of frees_itself is running");
		else assert_f32(y, -1);
	}
	tj_fn_free(k.f); /* no call runs: it is freed */
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clones_may_call_the_function), cmocka_unit_test(no_function_is_freed_under_its_call), cmocka_unit_test(nor_in_its_body),
	};
	KIT_RUN(tests);
}
