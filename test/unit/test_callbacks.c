/* Functions that the library calls back while a call runs: what they may do with a clone, and what is refused with the running context. */
#include "test/kit.h"

/* One place for each way in which a call of f calls the program back. */
typedef enum place { KEY_FILTER, EVENT_FILTER, ENGINE_PASS, PASS, BACKEND, RUN, ON_RECOMPILE, ON_NOTE, LOG, PLACES } place;
static const char *const place_name[] = { "filter of a key", "filter of an event", "pass of the engine", "pass", "back end", "run", "on_recompile", "on_note", "log_to" };

typedef struct probe {
	tj_ctx *c, *clone;
	tj_fn *f, *other;
	place at;
	void (*act)(struct probe *p); /* runs at `at`; NULL: nothing does */
	bool inside;             /* it runs now */
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
	const probe *p = self;
	if (p->at == RUN) {
		out[0] = tj_neg(in[0]);
		return;
	}
	tj_tensor *x = tj_mul(in[0], in[1]), *y = tj_neg(x), *z = tj_exp(y);
	bool large = tj_truth(tj_gt(tj_sum(z, TJ_ALL, false), tj_f(1e9)));
	out[0] = large ? tj_sub(tj_f(0), tj_add(x, tj_f(0))) : y;
}

static void open_probe(probe *p, place at, tj_mode mode)
{
	*p = (probe){ .at = at };
	p->c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = at == LOG ? "all" : NULL, .log_to = log_to, .log_self = p));
	p->clone = tj_ctx_clone(p->c);
	tj_add_pass(p->c, &(tj_pass){ "of the engine", engine_pass, p });
	const tj_pass passes[] = { { "own", pass, p }, { 0 } };
	p->f = tj_compile(p->c, body, p, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 2, .nout = 1, .mode = mode, .passes = passes, .backend = backend, .backend_self = p,
	                                         .on_recompile = on_recompile, .on_recompile_self = p, .on_note = on_note, .on_note_self = p, .guard_filter = filter,
	                                         .guard_filter_self = p, .max_entries = 2, .dynamic = TJ_DYNAMIC_OFF));
	p->other = kit_fn(p->c, "other", body, p, 2, 1);
	kit_ok(p->c);
}

static void close_probe(probe *p)
{
	p->act = NULL;
	tj_close(p->clone);
	tj_ctx_use(p->c);
	tj_close(p->c);
}

/* Calls f with n elements of value v. */
static tj_tensor *call(const probe *p, tj_ctx *c, int n, float v)
{
	float x[8], one = 1;
	for (int i = 0; i < 8; i++) x[i] = v;
	tj_tensor *y = tj_call1(p->f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(n), x), tj_constant(c, TJ_F32, TJ_0D, &one)));
	return y;
}

/* f calls the place at least once in each mode: new sizes, both branches, more signatures than .max_entries. */
enum { TURNS = 12 };
static tj_tensor *turn(const probe *p, tj_ctx *c, int i, float *want)
{
	const float v = i % 3 == 1 ? -30 : 2;
	*want = -v;
	return call(p, c, 1 + i % 4, v);
}

/* ---- a clone calls the function that is being called ---- */
static void clone_calls(probe *p)
{
	float want;
	tj_ctx *was = tj_ctx_use(p->clone);
	for (int i = 0; i < 3; i++) { /* the call of the context itself, and others */
		tj_scope *s = tj_push(p->clone);
		assert_true(((const float *)tj_data(turn(p, p->clone, p->turn + i, &want)))[0] == want);
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
				tj_tensor *y = turn(&p, p.c, p.turn, &want);
				kit_ok(p.c);
				if (((const float *)tj_data(y))[0] != want) fail_msg("%s, turn %d", place_name[at], p.turn);
			}
			if (!p.acts) fail_msg("%s was never called", place_name[at]);
			free(kit_explain(p.f)); /* reads all segments */
			close_probe(&p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(clones_may_call_the_function) };
	KIT_RUN(tests);
}
