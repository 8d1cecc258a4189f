/* SPDX-License-Identifier: MIT */
/* Functions that the library calls back while a call runs: what they may do with a clone, and what is refused with the running context. */
#include "test/kit.h"

/* One place for each way in which a call of f calls the program back. */
typedef enum place { KEY_FILTER, EVENT_FILTER, ENGINE_PASS, PASS, BACKEND, RUN, ON_RECOMPILE, ON_NOTE, LOG, PLACES } place;
static const char *const place_name[] = {
	"filter of a key", "filter of an event", "pass of the engine", "pass", "back end", "run", "on_recompile", "on_note", "log_to"
};

typedef struct probe {
	tj_ctx *c, *clone;
	tj_fn *f, *outer;        /* outer calls f in its body */
	place at;
	void (*act)(struct probe *p); /* runs at `at`; NULL: nothing does */
	bool inside;             /* it runs now */
	bool in_f;               /* the body of f runs now */
	int acts, turn;
	tj_tensor *x, *cell, *held, *constant; /* of the context */
	tj_scope *scope;
	tj_fn *idle;             /* no call of it runs */
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
	if (p->at != RUN || tj_graph_outputs(g) != 1 || strcmp(tj_node_op(n), "neg") || tj_node_dtype(n) != TJ_F32 || tj_node_rank(n) != 1)
		return TJ_OK;
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
	tj_compile_opts o = { .size = sizeof o,
		              .name = "f",
		              .nin = 2,
		              .nout = 1,
		              .mode = mode,
		              .passes = passes,
		              .backend = backend,
		              .backend_self = p,
		              .on_recompile = on_recompile,
		              .on_recompile_self = p,
		              .on_note = on_note,
		              .on_note_self = p,
		              .guard_filter = filter,
		              .guard_filter_self = p,
		              .max_entries = 2,
		              .dynamic = TJ_DYNAMIC_OFF };
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

/* ---- every function of tj.h, with the running context ---- */
static char seen[4096]; /* names of the functions that were tried, between blanks */
static void note_seen(const char *name)
{
	char word[64];
	snprintf(word, sizeof word, " %s ", name);
	if (!strstr(seen, word)) strncat(seen, word, sizeof seen - strlen(seen) - 1);
}

static void refused(const probe *p, const char *name, bool failed)
{
	note_seen(name);
	tj_status s = tj_check(p->c);
	if (!failed || s != TJ_ERR_STATE || !strstr(tj_last_error(p->c)->message, "called back"))
		fail_msg("%s: %s() is not refused (%s)", place_name[p->at], name, tj_strerror(s));
	if (tj_check(p->c)) fail_msg("%s: %s() leaves a second error", place_name[p->at], name);
}

static void allowed(const probe *p, const char *name, bool worked)
{
	note_seen(name);
	if (!worked || tj_check(p->c)) fail_msg("%s: %s() is refused", place_name[p->at], name);
}

#define REFUSED(name, failed) refused(p, #name, failed)
#define REFUSED_VOID(name, ...) (name(__VA_ARGS__), refused(p, #name, true))
#define POISON(name, ...) refused(p, #name, tj_is_poison(name(__VA_ARGS__)))
#define ALLOWED(name, worked) allowed(p, #name, worked)

static tj_status any_pass(tj_graph *g, void *self) { return (void)self, g ? TJ_OK : TJ_ERR_ARG; }
static void same(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[0]; }

static void try_lifetimes(const probe *p)
{
	REFUSED(tj_ctx_clone, !tj_ctx_clone(p->c));
	REFUSED_VOID(tj_close, p->c);
	REFUSED_VOID(tj_seed, p->c, 1);
	REFUSED(tj_push, !tj_push(p->c));
	REFUSED_VOID(tj_pop, p->scope);
	POISON(tj_escape, p->x);
	POISON(tj_retain, p->x);
	REFUSED_VOID(tj_release, p->held);
	REFUSED_VOID(tj_release, p->cell);
	REFUSED(tj_compile, !tj_compile(p->c, same, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1)));
	REFUSED_VOID(tj_fn_free, p->idle);
	REFUSED_VOID(tj_fn_free, p->f);
	REFUSED(tj_add_pass, tj_add_pass(p->c, &(tj_pass){ "any", any_pass, NULL }) != TJ_OK);
	REFUSED(tj_log_topics, tj_log_topics(p->c, "") != TJ_OK);
}

static void try_tensors(const probe *p)
{
	float v = 0;
	tj_tensor *y[2];
	POISON(tj_from_data, p->c, TJ_F32, TJ_SHAPE(1), &v);
	POISON(tj_constant, p->c, TJ_F32, TJ_SHAPE(1), &v);
	POISON(tj_wrap, p->c, TJ_F32, TJ_SHAPE(1), NULL, &v, NULL, NULL);
	POISON(tj_param, p->c, TJ_F32, TJ_0D);
	POISON(tj_from_data_on, p->c, TJ_CPU, TJ_F32, TJ_SHAPE(1), &v);
	POISON(tj_constant_on, p->c, TJ_CPU, TJ_F32, TJ_SHAPE(1), &v);
	POISON(tj_wrap_on, p->c, TJ_CPU, TJ_F32, TJ_SHAPE(1), NULL, &v, NULL, NULL);
	POISON(tj_param_on, p->c, TJ_CPU, TJ_F32, TJ_0D);
	REFUSED(tj_device_data, !tj_device_data(p->x));
	REFUSED(tj_data, *(const float *)tj_data(p->x) == 0);
	REFUSED(tj_item, tj_item(p->cell) != tj_item(p->cell));
	REFUSED(tj_item_i, !tj_item_i(p->cell));
	REFUSED_VOID(tj_truth, p->cell);
	REFUSED(tj_read, tj_read(p->cell, &v, sizeof v) != TJ_OK);
	POISON(tj_nonzero, p->x);
	POISON(tj_masked_select, p->x, tj_i(1));
	POISON(tj_unique, p->x);
	REFUSED(tj_unique_all, tj_is_poison(tj_unique_all(p->x, &y[0], &y[1], NULL)) && tj_is_poison(y[0]) && tj_is_poison(y[1]));
	REFUSED(tj_assign, tj_assign(p->cell, tj_i(7)) != TJ_OK);
	REFUSED(tj_write, tj_write(p->cell, &v, sizeof v) != TJ_OK);
}

static void try_calls(const probe *p)
{
	REFUSED(tj_trace_begin, !tj_trace_begin(p->c, NULL));
	REFUSED(tj_trace_end, tj_trace_end(p->c, NULL, 0) == TJ_ERR_STATE);
	float v[8];
	tj_tensor *y = NULL, *out[1];
	REFUSED(tj_call, tj_call(p->idle, &y, TJ_LIST(p->x)) == TJ_ERR_STATE && !y);
	POISON(tj_call1, p->idle, TJ_LIST(p->x));
	REFUSED(tj_call_ex, tj_call_ex(p->idle, &y, TJ_LIST(p->x), NULL) == TJ_ERR_STATE && !y);
	REFUSED(tj_call_into, tj_call_into(p->idle, &y, TJ_LIST(p->x), NULL, (&(tj_into){ v, sizeof v, TJ_CPU })) == TJ_ERR_STATE && !y);
	POISON(tj_arg_f, 0);
	REFUSED(tj_arg_i, !tj_arg_i(0));
	REFUSED(tj_cond, tj_cond(out, 1, p->cell, same, same, TJ_LIST(p->x), NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_while, tj_while(out, same, same, TJ_LIST(p->cell), NULL, NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_grad, tj_grad(out, p->x, TJ_LIST(p->x), NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_scan, tj_scan(out, NULL, 0, same, TJ_LIST(p->cell), TJ_LIST(p->x), NULL, NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_vmap, tj_vmap(out, 1, same, TJ_LIST(p->x), NULL, NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_checkpoint, tj_checkpoint(out, 1, same, TJ_LIST(p->x), NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	REFUSED(tj_custom_grad, tj_custom_grad(out, 1, same, same, TJ_LIST(p->x), NULL) == TJ_ERR_STATE && tj_is_poison(out[0]));
	POISON(tj_grad_hook, p->x, same, NULL);
	POISON(tj_grad_name, p->x, "x");
	POISON(tj_grad_named, "x");
	POISON(tj_jvp, p->x, TJ_LIST(p->x), TJ_LIST(p->x), TJ_UNUSED_ZEROS);
}

static void try_scaler(const probe *p)
{
	tj_scaler made, s = { p->cell, p->cell, 2, 0.5, 1 };
	tj_tensor *g = p->x;
	REFUSED(tj_scaler_init, tj_scaler_init(p->c, &made, NULL) == TJ_ERR_STATE && tj_is_poison(made.scale) && tj_is_poison(made.good));
	POISON(tj_scale_loss, &s, p->x);
	REFUSED(tj_unscale, tj_is_poison(tj_unscale(&s, &g, 1)) && g == p->x);
	REFUSED(tj_scaler_update, tj_scaler_update(&s, p->cell) == TJ_ERR_STATE);
}

static void try_devices(const probe *p)
{
	tj_memory m = { .size = sizeof m };
	REFUSED(tj_sync, tj_sync(p->c) == TJ_ERR_STATE);
	REFUSED(tj_stream, !tj_stream(p->c, TJ_CPU));
	REFUSED(tj_set_stream, tj_set_stream(p->c, TJ_CPU, NULL) == TJ_ERR_STATE);
	REFUSED(tj_profile_begin, tj_profile_begin(p->c, NULL) == TJ_ERR_STATE);
	REFUSED(tj_profile_show, tj_profile_show(p->c, NULL) == TJ_ERR_STATE);
	REFUSED(tj_profile_end, tj_profile_end(p->c, NULL) == TJ_ERR_STATE);
	REFUSED(tj_memory_stats, tj_memory_stats(p->c, TJ_CPU, &m) == TJ_ERR_STATE && !m.allocated);
	REFUSED(tj_limit_memory, tj_limit_memory(p->c, TJ_CPU, 1) == TJ_ERR_STATE);
	REFUSED(tj_empty_cache, tj_empty_cache(p->c, TJ_CPU) == TJ_ERR_STATE);
	tj_settings set = { .size = sizeof set };
	REFUSED(tj_set_settings, tj_set_settings(p->c, NULL) == TJ_ERR_STATE);
	REFUSED(tj_get_settings, tj_get_settings(p->c, &set) == TJ_ERR_STATE);
	REFUSED(tj_product_library, !tj_product_library(p->c, TJ_F32, TJ_FAST).name);
	REFUSED(tj_reset_peak, tj_reset_peak(p->c, TJ_CPU) == TJ_ERR_STATE);
}

static bool look(void *env, const tj_export_part *e) { return (void)env, (void)e, false; }
static bool visit(void *env, const tj_cache_entry *e) { return (void)env, (void)e, false; }
static tj_status see(void *env, tj_graph *g) { return (void)env, (void)g, TJ_OK; }

static void try_files(const probe *p)
{
	tj_cache_info i = { .size = sizeof i };
	REFUSED(tj_report, tj_report(p->c, "/nowhere/r.json", NULL) == TJ_ERR_STATE);
	REFUSED(tj_export, tj_export(p->f, "/nowhere/f.tjx", NULL) == TJ_ERR_STATE);
	REFUSED(tj_export_object, tj_export_object(p->c, "/nowhere/f.tjx", "/nowhere/f.o", NULL) == TJ_ERR_STATE);
	REFUSED(tj_export_walk, tj_export_walk(p->c, "/nowhere/f.tjx", look, NULL) == TJ_ERR_STATE);
	REFUSED(tj_graph_of, tj_graph_of(p->f, see, NULL) == TJ_ERR_STATE);
	REFUSED(tj_import, !tj_import(p->c, "/nowhere/f.tjx", NULL));
	REFUSED(tj_import_memory, !tj_import_memory(p->c, "", 0, NULL));
	REFUSED(tj_cache_info, tj_cache_info(p->c, &i) == TJ_ERR_STATE);
	REFUSED(tj_metrics, tj_metrics(p->c, stderr) == TJ_ERR_STATE);
	REFUSED(tj_cache_walk, tj_cache_walk(p->c, false, visit, NULL) == TJ_ERR_STATE);
	REFUSED(tj_host_function, tj_host_function(p->c, "f", NULL, NULL) == 0);
	REFUSED(tj_cache_clear, tj_cache_clear(p->c, NULL, NULL) == TJ_ERR_STATE);
	ALLOWED(tj_graph_argument, !tj_graph_argument(NULL, 0, NULL)); /* only a graph of tj_graph_of() has these */
	ALLOWED(tj_graph_variable, !tj_graph_variable(NULL, 0, NULL));
	ALLOWED(tj_graph_size_of, !tj_graph_size_of(NULL, 0, NULL));
	ALLOWED(tj_graph_assigns, tj_graph_assigns(NULL, 0) == -1);
	ALLOWED(tj_graph_name, !*tj_graph_name(NULL));
	ALLOWED(tj_graph_last, !tj_graph_last(NULL));
	ALLOWED(tj_node_region, !tj_node_region(NULL, 0));
	ALLOWED(tj_node_source, !tj_node_source(NULL, NULL));
	ALLOWED(tj_cache_miss, tj_cache_miss(p->c, 0, NULL, NULL, NULL));
	ALLOWED(tj_fn_argument, !tj_fn_argument(p->f, 0, NULL)); /* f was not imported */
	ALLOWED(tj_fn_scalar, !tj_fn_scalar(p->f, 0, NULL));
	ALLOWED(tj_fn_results, tj_fn_results(p->f) == -1);
	ALLOWED(tj_fn_variable, !tj_fn_variable(p->f, 0, NULL, NULL, NULL));
}

/* An op of each class: they all come in by jit_event(). */
static void try_ops(const probe *p)
{
	POISON(tj_add, p->x, p->x);
	POISON(tj_add, tj_f(1), tj_f(2));
	POISON(tj_neg, p->x);
	POISON(tj_cast, p->x, TJ_I32);
	POISON(tj_to, p->x, TJ_CPU);
	POISON(tj_reshape, p->x, TJ_SHAPE(1, -1));
	POISON(tj_cat, TJ_LIST(p->x, p->x), 0);
	POISON(tj_sum, p->x, TJ_ALL, false);
	POISON(tj_max_with_indices, p->x, 0, false, NULL);
	POISON(tj_arange, TJ_F32, 0, 3, 1);
	POISON(tj_uniform, TJ_F32, TJ_SHAPE(2));
	REFUSED(tj_full, tj_is_poison(tj_full(TJ_F64, TJ_SHAPE(2), tj_i(1))));
	POISON(tj_softmax, p->x, 0);
	REFUSED(tj_fail, tj_is_poison(tj_fail(TJ_ERR_ARG, "own", NULL, "wrong")));
}

static void try_what_is_allowed(const probe *p)
{
	char text[64];
	ALLOWED(tj_check, tj_check(p->c) == TJ_OK);
	ALLOWED(tj_last_error, tj_last_error(p->c) != NULL);
	FILE *null = fmemopen(text, sizeof text, "w");
	tj_perror(p->c, null);
	ALLOWED(tj_perror, null != NULL);
	tj_explain(p->f, null);
	tj_explain(p->idle, null);
	ALLOWED(tj_explain, true);
	for (int what = TJ_DUMP_GRAPH; what <= TJ_DUMP_SYMBOLS; what++) tj_dump(p->f, (tj_dump_what)what, null);
	ALLOWED(tj_dump, true);
	fclose(null);
	ALLOWED(tj_fn_stats, kit_stats(p->f).calls > 0 || p->at == KEY_FILTER);
	ALLOWED(tj_ctx_current, tj_ctx_current() == p->c);
	tj_in_body(p->c);
	ALLOWED(tj_in_body, !tj_in_body(NULL));
	ALLOWED(tj_autocast_dtype, tj_autocast_dtype() == TJ_F32);
	ALLOWED(tj_ctx_use, tj_ctx_use(p->c) == p->c);
	tj_ctx *own = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval")); /* which is current now */
	assert_f32(tj_neg(F32(own, 1)), -1);
	kit_ok(own);
	tj_close(own);
	tj_ctx_use(p->c);
	ALLOWED(tj_open, own != NULL);
	ALLOWED(tj_f, !tj_is_poison(tj_f(1)));
	ALLOWED(tj_i, !tj_is_poison(tj_i(1)));
	ALLOWED(tj_is_poison, tj_is_poison(NULL));
	ALLOWED(tj_rank, tj_rank(p->x) == 1);
	ALLOWED(tj_dim, tj_dim(p->x, 0) == 2);
	ALLOWED(tj_numel, tj_numel(p->x) == 2);
	ALLOWED(tj_device_of, tj_device_of(p->x) >= 0);
	ALLOWED(tj_dtype_of, tj_dtype_of(p->x) == TJ_F32);
	ALLOWED(tj_dtype_name, !strcmp(tj_dtype_name(TJ_F32), "f32"));
	ALLOWED(tj_dtype_size, tj_dtype_size(TJ_F32) == 4);
	ALLOWED(tj_find_device, tj_find_device("cpu") == TJ_CPU);
	ALLOWED(tj_device_name, tj_device_name(TJ_CPU) != NULL);
	ALLOWED(tj_strerror, tj_strerror(TJ_OK) != NULL);
	ALLOWED(tj_site_for, tj_site_for("a.c:1", "op", "wrong", NULL) != NULL);
	ALLOWED(tj_version, tj_version() != NULL);
	ALLOWED(tj_version_number, tj_version_number() > 0);
	ALLOWED(tj_libraries, tj_libraries()[0].name != NULL);
	ALLOWED(tj_linalg_library, tj_linalg_library().why != NULL);
	ALLOWED(tj_this_machine, tj_this_machine()->cpus > 0);
	ALLOWED(tj_threads, tj_threads() > 0);
	ALLOWED(tj_devices, !strcmp(tj_devices()[0], "cpu"));
	ALLOWED(tj_backends, tj_backends()[0] != NULL);
	ALLOWED(tj_to_f16, tj_from_f16(tj_to_f16(1)) == 1);
	ALLOWED(tj_from_f16, true);
	ALLOWED(tj_to_bf16, tj_from_bf16(tj_to_bf16(1)) == 1);
	ALLOWED(tj_from_bf16, true);
}

static void try_all(probe *p)
{
	try_lifetimes(p);
	try_tensors(p);
	try_devices(p);
	try_files(p);
	try_calls(p);
	try_scaler(p);
	try_ops(p);
	try_what_is_allowed(p);
	p->act = NULL; /* once for each call */
}

static void what_a_callback_may_do(void **s)
{
	(void)s;
	for (place at = 0; at < PLACES; at++)
		for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
			probe p;
			float want;
			open_probe(&p, at, (tj_mode)mode);
			p.x = F32(p.c, 1, 2);
			p.cell = kit_param(p.c, 5);
			p.held = tj_retain(p.x);
			p.idle = kit_fn(p.c, "idle", same, NULL, 1, 1);
			p.scope = tj_push(p.c);
			for (int i = 0; i < TURNS; i++) {
				p.act = try_all;
				turn(p.f, p.c, i, &want); /* refused calls may make it fail */
				(void)tj_check(p.c);
				p.act = NULL;
				tj_tensor *y = turn(p.f, p.c, i, &want);
				kit_ok(p.c);
				assert_true(((const float *)tj_data(y))[0] == want);
			}
			if (!p.acts) fail_msg("%s was never called", place_name[at]);
			assert_f32(tj_call1(p.idle, TJ_LIST(p.cell)), 5);
			assert_f32(p.held, 1, 2);
			tj_pop(p.scope);
			tj_release(p.held);
			kit_ok(p.c);
			close_probe(&p);
		}
}

/* The body leaves another context current: refused is the one whose call runs. */
static tj_ctx *running;
static int compiles;
static tj_status uses_the_running(tj_graph *g, void *self)
{
	(void)g, (void)self;
	compiles++;
	tj_ctx *was = tj_ctx_use(running);
	assert_true(tj_is_poison(tj_full(TJ_F32, TJ_0D, tj_i(1))));
	kit_error(running, TJ_ERR_STATE, "called back");
	tj_ctx_use(was);
	return TJ_OK;
}
static void leaves_a_clone_current(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_neg(in[0]);
	tj_ctx_use(self);
}
static void the_running_context_need_not_be_current(void **s)
{
	(void)s;
	tj_ctx *c = running = kit_open(), *clone = tj_ctx_clone(c);
	const tj_pass passes[] = { { "uses", uses_the_running, NULL }, { 0 } };
	tj_fn *f = tj_compile(c, leaves_a_clone_current, clone, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .passes = passes));
	compiles = 0;
	tj_call1(f, TJ_LIST(F32(c, 1)));
	assert_int_equal(compiles, 1);
	assert_ptr_equal(tj_ctx_use(c), clone);
	kit_ok(clone);
	kit_ok(c);
	tj_close(clone);
	tj_close(c);
}

/* A call that is refused does not take the memory of the running one. */
static tj_status calls_into(tj_graph *g, void *self)
{
	float v;
	tj_tensor *y = NULL;
	(void)g;
	assert_int_equal(tj_call_into(*(tj_fn **)self, &y, TJ_NONE, NULL, (&(tj_into){ &v, sizeof v, TJ_CPU })), TJ_ERR_STATE);
	return TJ_OK;
}
static void negates(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_neg(in[0]); }
static void memory_of_the_caller_stays(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f;
	tj_tensor *y = NULL;
	float v[2] = { 0, 0 };
	const tj_pass passes[] = { { "into", calls_into, &f }, { 0 } };
	f = tj_compile(c, negates, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .passes = passes));
	assert_int_equal(tj_call_into(f, &y, TJ_LIST(F32(c, 1, 2)), NULL, (&(tj_into){ v, sizeof v, TJ_CPU })), TJ_OK);
	assert_true(v[0] == -1 && v[1] == -2);
	kit_error(c, TJ_ERR_STATE, "called back"); /* the call succeeded, and the refused one is still reported */
	tj_close(c);
}

/* A direct call cannot be cloned in, whether the context has other clones or not. */
static tj_ctx *of_run;
static tj_status run_clones(void *env, const tj_run *r)
{
	(void)env;
	assert_null(tj_ctx_clone(of_run));
	*(float *)r->out[0] = -*(const float *)r->in[0];
	return TJ_OK;
}
static tj_status clones_in_run(void *self, tj_graph *g, tj_compiled *out) { return (void)self, (void)g, out->run = run_clones, TJ_OK; }
static void no_clone_inside_of_a_direct_call(void **s)
{
	(void)s;
	for (int others = 0; others < 2; others++) {
		tj_ctx *c = of_run = kit_open(), *other = others ? tj_ctx_clone(c) : NULL;
		tj_fn *f =
			tj_compile(c, negates, NULL,
		                   TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .backend = clones_in_run));
		for (int i = 0; i < 3; i++) {
			assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), -1);
			assert_int_equal(tj_check(c), TJ_ERR_STATE);
		}
		assert_int_equal(kit_stats(f).direct, 2);
		tj_close(other);
		tj_close(c);
	}
}

/* Those of the header that stand before the ops, but for those that take a graph. */
static void no_function_is_left_out(void **s)
{
	(void)s;
	char line[1024], word[64];
	int n = 0;
	FILE *f = fopen("include/tj.h", "r");
	assert_non_null(f); /* tests run in the root of the repository */
	while (fgets(line, sizeof line, f) && !strstr(line, ">>> ops")) {
		char *end = strchr(line, '('), *name = end; /* the word before the parenthesis */
		if (strncmp(line, "TJ_API ", 7) || !end) continue;
		*end = 0;
		while (name > line && name[-1] != ' ' && name[-1] != '*') name--;
		if (!strncmp(name, "tj_graph_", 9) || !strncmp(name, "tj_node_", 8)) continue;
		if (strlen(name) > 3 && !strcmp(name + strlen(name) - 3, "_at")) name[strlen(name) - 3] = 0;
		snprintf(word, sizeof word, " %.60s ", name);
		if (!strstr(seen, word)) fail_msg("%s() is not in the table", name);
		n++;
	}
	fclose(f);
	assert_true(n > 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clones_may_call_the_function),
		cmocka_unit_test(no_function_is_freed_under_its_call),
		cmocka_unit_test(nor_in_its_body),
		cmocka_unit_test(what_a_callback_may_do),
		cmocka_unit_test(the_running_context_need_not_be_current),
		cmocka_unit_test(memory_of_the_caller_stays),
		cmocka_unit_test(no_clone_inside_of_a_direct_call),
		cmocka_unit_test(no_function_is_left_out),
	};
	KIT_RUN(tests);
}
