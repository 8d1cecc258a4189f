/* SPDX-License-Identifier: MIT */
/* ONNX files: models that are written here, field by field; what is refused; broken files; the pages that list the ops. */
#include "test/kit/onnxfile.h"

#include <pthread.h>
#include <sys/stat.h>

/* y = relu(x [n,3] W + b), flattened by a shape that is computed: [n * 2]. */
static msg linear(void)
{
	msg g = { .n = 0 };
	const float w[] = { 1, 2, 3, 4, 5, 6 }, b[] = { 10, -100 };
	const int64_t minus = -1;
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(-1, 3));
	put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
	msg t[] = { tensor("w", FLOAT, TJ_SHAPE(3, 2), w, sizeof w), tensor("b", FLOAT, TJ_SHAPE(2), b, sizeof b),
		    tensor("minus", INT64, TJ_SHAPE(1), &minus, sizeof minus) };
	for (int i = 0; i < 3; i++) put_msg(&g, 5, &t[i]);
	put_node(&g, "Gemm", "/fc", "x w b", "h", 0, NULL);
	put_node(&g, "Relu", "/act", "h", "r", 0, NULL);
	put_node(&g, "Shape", "", "r", "s", 0, NULL);
	put_node(&g, "Concat", "", "minus", "m", 1, (msg[]){ an_int("axis", 0) });
	put_node(&g, "Slice", "", "s m minus minus", "two", 0, NULL); /* empty: s[-1:-1] */
	put_node(&g, "Concat", "", "two m", "shape", 1, (msg[]){ an_int("axis", 0) });
	put_node(&g, "Reshape", "/flat", "r shape", "y", 0, NULL);
	return model(&g, 13);
}

static void runs(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = linear();
	tj_model *o = opened(c, h, &m);
	tj_tensor *y = tj_call1(tj_model_fn(o), TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(1, 3), (float[]){ 1, 1, 1 })));
	kit_ok(c);
	assert_f32(y, 19, 0);
	y = tj_call1(tj_model_fn(o), TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 1, 1, 0, 0, 100 })));
	assert_f32(y, 19, 0, 510, 500);
	const tj_stats st = kit_stats(tj_model_fn(o));
	assert_int_equal(st.boundaries, 2); /* one for each call: shapes are values of the host */
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	tj_dump(tj_model_fn(o), TJ_DUMP_TRACE, f);
	fclose(f);
	if (!strstr(text, "/fc (Gemm)")) fail_msg("no name of the node in %s", text);
	free(text);
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

static void tells(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = linear();
	tj_model *o = opened(c, h, &m);
	const tj_onnx_value *x = tj_model_input(o, 0);
	assert_true(!strcmp(x->name, "x") && x->dtype == TJ_F32 && x->rank == 2 && x->dim[0] == -1 && x->dim[1] == 3 &&
	            x->dim[2] == TJ_END_DIM);
	assert_string_equal(x->symbol[0], "n");
	assert_true(!tj_model_input(o, 1) && !tj_model_input(o, -1) && !tj_model_output(o, 1) && !strcmp(tj_model_output(o, 0)->name, "y"));
	tj_onnx_about a = { .size = sizeof a };
	tj_model_about(o, NULL);
	tj_model_about(NULL, &a);
	assert_int_equal(a.nodes, 0);
	tj_model_about(o, &a);
	assert_true(a.ir == 8 && a.opset == 13 && a.nodes == 7 && a.initializers == 3 && a.weight_bytes == 40);
	assert_string_equal(a.producer, "test");
	const char *key, *value;
	assert_true(tj_model_metadata(o, 0, &key, &value) && !strcmp(key, "who") && !strcmp(value, "test_onnx") &&
	            !tj_model_metadata(o, 1, &key, &value));
	assert_true(!strcmp(tj_model_op(o, 0)->op, "Concat") && tj_model_op(o, 0)->nodes == 2 && !tj_model_op(o, 6));
	tj_model_close(o);
	tj_model_close(NULL);
	tj_close(c);
	hostile_end(h);
}

/* Without the walk of the nodes; exported, for every n; in two threads. */
static void directly(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = linear();
	file_of(h, &m);
	tj_model *o = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .mode = TJ_DIRECT, .name = "net"));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 3), (float[]){ 1, 1, 1 });
	for (int i = 0; i < 5; i++) assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(x)), 19, 0);
	assert_in_range(kit_stats(tj_model_fn(o)).direct, 1, 5);
	char path[] = "/tmp/test_onnx.XXXXXX";
	close(mkstemp(path));
	assert_int_equal(tj_export(tj_model_fn(o), path, NULL), TJ_OK);
	kit_ok(c);
	tj_fn *g = tj_import(c, path, TJ_OPTS(tj_import_opts, .recompile = true));
	kit_ok(c);
	x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 1, 1, 0, 0, 100 });
	assert_f32(tj_call1(g, TJ_LIST(x)), 19, 0, 510, 500);
	kit_ok(c);
	unlink(path);
	tj_fn_free(g);
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

/* A program bounds the sizes of a file: export tries no others, and a call beyond them names the input. */
static void bounds(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg g = { .n = 0 };
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(-1)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(1));
	put_node(&g, "ReduceMax", "/max", "x", "y", 0, NULL);
	msg m = model(&g, 13);
	tj_model *o = opened(c, h, &m);
	assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 3))), 3);
	assert_int_not_equal(tj_export(tj_model_fn(o), "/dev/null", NULL), TJ_OK); /* n is 0 */
	assert_int_not_equal(tj_check(c), TJ_OK);
	assert_non_null(strstr(tj_last_error(c)->site, "/max (ReduceMax)"));
	tj_model_close(o);
	assert_null(tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .sizes = "q in 1..2")));
	kit_error(c, TJ_ERR_ARG, "a condition on a name that no argument uses");
	assert_null(tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .sizes = "n in 1..2", .no_shapes = true)));
	kit_error(c, TJ_ERR_ARG, ".no_shapes");
	o = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .sizes = "n in 1..3"));
	assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 3))), 3);
	char path[] = "/tmp/test_onnx.XXXXXX";
	close(mkstemp(path));
	assert_int_equal(tj_export(tj_model_fn(o), path, TJ_OPTS(tj_export_opts, .cpus = "")), TJ_OK);
	tj_fn *f = tj_import(c, path, TJ_OPTS(tj_import_opts, .recompile = true));
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 5, 2))), 5);
	kit_ok(c);
	assert_true(tj_is_poison(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 2, 3, 4)))));
	kit_error(c, TJ_ERR_SHAPE, "argument 0 (x): dim 0: n is 4, not in 1..3");
	unlink(path);
	tj_fn_free(f);
	tj_model_close(o);
	g.n = 0; /* a node that reads what depends on data cannot be exported, and is named */
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(-1)), put_value(&g, 11, "to", INT64, TJ_SHAPE(1)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
	put_node(&g, "Reshape", "/to", "x to", "y", 0, NULL);
	m = model(&g, 13);
	o = opened(c, h, &m);
	tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 3), tj_full(TJ_I64, TJ_SHAPE(1), tj_i(2))));
	assert_int_not_equal(tj_export(tj_model_fn(o), "/dev/null", NULL), TJ_OK);
	kit_error(c, TJ_ERR_STATE, "/to (Reshape)");
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

/* Names that .shapes does not take, being too long or too many, are left out. */
static void odd_names(void **s)
{
	(void)s;
	static const char *const name[] = { "a_name_that_is_longer_than_31_letters", "7up", "static", "no name", "\xc3\xa9" };
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	for (int i = 0; i < 5; i++) {
		msg g = { .n = 0 };
		put_value(&g, 11, name[i], FLOAT, TJ_SHAPE(-1)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
		msg n = { .n = 0 };
		put_text(&n, 1, name[i]), put_text(&n, 2, "y"), put_text(&n, 4, "Abs"), put_msg(&g, 1, &n);
		msg m = model(&g, 13);
		tj_model *o = opened(c, h, &m);
		assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, -1))), 1);
		kit_ok(c);
		tj_model_close(o);
	}
	msg g = { .n = 0 };
	for (int i = 0; i < 40; i++) {
		msg v = { .n = 0 }, t = { .n = 0 }, d = { .n = 0 }, z = { .n = 0 }, k = { .n = 0 };
		char x[40];
		snprintf(x, sizeof x, i ? "size_%d" : "a_size_that_is_longer_than_31_letters", i), put_text(&d, 2, x);
		put_msg(&z, 1, &d), put_int(&t, 1, FLOAT), put_msg(&t, 2, &z), put_msg(&k, 1, &t);
		snprintf(x, sizeof x, "x%d", i), put_text(&v, 1, x), put_msg(&v, 2, &k), put_msg(&g, 11, &v);
	}
	put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
	put_node(&g, "Abs", "", "x39", "y", 0, NULL);
	msg m = model(&g, 13);
	tj_model_close(opened(c, h, &m));
	tj_close(c);
	hostile_end(h);
}

typedef struct worker {
	tj_ctx *c;
	tj_fn *f;
	bool ok;
} worker;

static void *work(void *self)
{
	worker *w = self;
	tj_ctx_use(w->c);
	w->ok = true;
	for (int i = 1; i < 40; i++) {
		tj_scope *s = tj_push(w->c);
		tj_tensor *y = tj_call1(w->f, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(i % 5 + 1, 3), tj_f(i))));
		const float *v = tj_data(y);
		w->ok &= tj_numel(y) == 2 * (i % 5 + 1) && v[0] == 9.0f * (float)i + 10;
		tj_pop(s);
	}
	tj_close(w->c);
	return NULL;
}

static void many_threads(void **s)
{
	(void)s;
	enum { THREADS = 3 };
	pthread_t thread[THREADS];
	worker w[THREADS];
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = linear();
	tj_model *o = opened(c, h, &m);
	hostile_end(h);
	for (int i = 0; i < THREADS; i++) {
		w[i] = (worker){ tj_ctx_clone(c), tj_model_fn(o), false };
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_true(w[i].ok);
	}
	tj_model_close(o);
	tj_close(c);
}

/* If: of a constant one branch is there; of data tj_cond(), since both branches say their shapes. */
static msg choice(void)
{
	msg g = { .n = 0 }, t = { .n = 0 }, e = { .n = 0 };
	put_value(&g, 11, "p", BOOLEAN, TJ_0D);
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(2));
	put_value(&g, 12, "y", FLOAT, TJ_SHAPE(2));
	put_node(&t, "Neg", "", "x", "a", 0, NULL), put_value(&t, 12, "a", FLOAT, TJ_SHAPE(2));
	put_node(&e, "Add", "", "x x", "b", 0, NULL), put_value(&e, 12, "b", FLOAT, TJ_SHAPE(2));
	put_node(&g, "If", "/if", "p", "y", 2, (msg[]){ a_graph("then_branch", &t), a_graph("else_branch", &e) });
	return model(&g, 16);
}

/* Loop: y = x doubled turns times; every turn gives x + 1, too. */
static msg turns(void)
{
	msg g = { .n = 0 }, b = { .n = 0 };
	const float one = 1;
	put_value(&g, 11, "turns", INT64, TJ_0D);
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(2));
	put_value(&g, 12, "y", FLOAT, TJ_SHAPE(2)), put_value(&g, 12, "all", FLOAT, TJ_SHAPE(-1, 2));
	put_value(&b, 11, "i", INT64, TJ_0D), put_value(&b, 11, "on", BOOLEAN, TJ_0D), put_value(&b, 11, "v", FLOAT, TJ_SHAPE(2));
	msg k = tensor("one", FLOAT, TJ_0D, &one, sizeof one);
	put_msg(&b, 5, &k);
	put_node(&b, "Identity", "", "on", "on2", 0, NULL);
	put_node(&b, "Add", "", "v v", "v2", 0, NULL);
	put_node(&b, "Add", "", "v one", "each", 0, NULL);
	put_value(&b, 12, "on2", BOOLEAN, TJ_0D), put_value(&b, 12, "v2", FLOAT, TJ_SHAPE(2)),
		put_value(&b, 12, "each", FLOAT, TJ_SHAPE(2));
	put_node(&g, "Loop", "/loop", "turns _ x", "y all", 1, (msg[]){ a_graph("body", &b) });
	return model(&g, 16);
}

static void control_flow(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = choice();
	tj_model *o = opened(c, h, &m);
	tj_tensor *x = F32(c, 1, -2), *out[2];
	assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(tj_full(TJ_BOOL, TJ_0D, tj_i(1)), x)), -1, 2);
	assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(tj_full(TJ_BOOL, TJ_0D, tj_i(0)), x)), 2, -4);
	assert_int_equal(kit_stats(tj_model_fn(o)).plans, 1); /* the condition is in the graph */
	tj_model_close(o);
	m = turns();
	o = opened(c, h, &m);
	for (int n = 0; n < 12; n += 3) {
		const tj_status st = tj_call(tj_model_fn(o), out, TJ_LIST(tj_full(TJ_I64, TJ_0D, tj_i(n)), x));
		kit_ok(c);
		assert_int_equal(st, TJ_OK);
		assert_f32(out[0], (float)(1 << n), (float)(-2 * (1 << n)));
		assert_true(tj_rank(out[1]) == 2 && tj_dim(out[1], 0) == n && tj_dim(out[1], 1) == 2);
		if (n) assert_f32(tj_select(out[1], 0, n - 1), (float)(1 << (n - 1)) + 1, (float)(-2 * (1 << (n - 1))) + 1);
	}
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

/* A local function: scaled(x) = x * Constant(value_int = @by) + Constant(value = @of), called twice. */
static msg functional(void)
{
	msg g = { .n = 0 }, f = { .n = 0 }, a = { .n = 0 }, o = { .n = 0 }, n = { .n = 0 };
	const int64_t hundred = 100;
	put_text(&a, 1, "value_int"), put_text(&a, 21, "by"), put_int(&a, 20, 2);
	put_text(&f, 1, "scaled"), put_text(&f, 10, "my"), put_text(&f, 4, "x"), put_text(&f, 5, "y");
	put_text(&n, 2, "k"), put_text(&n, 4, "Constant"), put_msg(&n, 5, &a), put_msg(&f, 7, &n);
	a.n = n.n = 0, put_text(&a, 1, "value"), put_text(&a, 21, "of"), put_int(&a, 20, 4);
	put_text(&n, 2, "c"), put_text(&n, 4, "Constant"), put_msg(&n, 5, &a), put_msg(&f, 7, &n);
	n.n = 0, put_text(&n, 1, "x"), put_text(&n, 1, "k"), put_text(&n, 2, "m"), put_text(&n, 4, "Mul"), put_msg(&f, 7, &n);
	n.n = 0, put_text(&n, 1, "m"), put_text(&n, 1, "c"), put_text(&n, 2, "y"), put_text(&n, 4, "Add"), put_msg(&f, 7, &n);
	put_int(&o, 2, 18), put_msg(&f, 9, &o);
	put_value(&g, 11, "x", INT64, TJ_SHAPE(2)), put_value(&g, 12, "z", INT64, TJ_SHAPE(2));
	for (int i = 0; i < 2; i++) {
		msg by = an_int("by", 3 + i), of = { .n = 0 }, t = tensor("", INT64, TJ_0D, &hundred, sizeof hundred);
		put_text(&of, 1, "of"), put_int(&of, 20, 4), put_msg(&of, 5, &t);
		n.n = 0, put_text(&n, 1, i ? "y" : "x"), put_text(&n, 2, i ? "z" : "y"), put_text(&n, 4, "scaled"), put_text(&n, 7, "my");
		put_msg(&n, 5, &by), put_msg(&n, 5, &of), put_msg(&g, 1, &n);
	}
	msg m = model(&g, 18);
	put_msg(&m, 25, &f);
	o.n = 0, put_text(&o, 1, "my"), put_int(&o, 2, 1), put_msg(&m, 8, &o);
	return m;
}

static void functions(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = functional();
	tj_model *t = opened(c, h, &m);
	tj_tensor *y = tj_call1(tj_model_fn(t), TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 1, -5 })));
	kit_ok(c);
	assert_true(((const int64_t *)tj_data(y))[0] == 512 && ((const int64_t *)tj_data(y))[1] == 440); /* (x * 3 + 100) * 4 + 100 */
	tj_model_close(t);
	tj_close(c);
	hostile_end(h);
}

/* ---- refusals ---- */
static void collect(void *env, const char *line)
{
	char *text = env;
	snprintf(text + strlen(text), 4000 - strlen(text), "%s\n", line);
}

static void refuses_all_at_once(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg g = { .n = 0 };
	char text[4000] = "";
	static const char *const parts[] = { "input t is string", "initializer u is uint16",
		                             "node /a (StringSplit, opset 20): the op is not supported",
		                             "node /b (Relu, opset 20): attribute what is not supported",
		                             "node /c (Relu, opset 20): it has 2 inputs" };
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(2)), put_value(&g, 11, "t", STRING, TJ_SHAPE(2)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(2));
	msg u = tensor("u", UINT16, TJ_SHAPE(1), "\1\0", 2);
	put_msg(&g, 5, &u);
	put_node(&g, "StringSplit", "/a", "t", "q", 0, NULL);
	put_node(&g, "Relu", "/b", "x", "z", 1, (msg[]){ an_int("what", 1) });
	put_node(&g, "Relu", "/c", "x z", "y", 0, NULL);
	msg m = model(&g, 20);
	file_of(h, &m);
	assert_null(tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .on_refused = collect, .on_refused_self = text)));
	kit_error(c, TJ_ERR_ARG, "input t is string, which is no dtype of tjit; and 4 more");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (!strstr(text, parts[i])) fail_msg("\"%s\" is not in\n%s", parts[i], text);
	tj_close(c);
	hostile_end(h);
}

static void bad_options(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	assert_null(tj_onnx_open(c, NULL, NULL));
	kit_error(c, TJ_ERR_ARG, "the path is NULL");
	assert_null(tj_onnx_open(c, "/nowhere/x.onnx", NULL));
	kit_error(c, TJ_ERR_IO, "/nowhere/x.onnx: No such file");
	assert_null(tj_onnx_open(c, "x.onnx", &(tj_onnx_opts){ .size = 12 }));
	kit_error(c, TJ_ERR_ARG, "no such struct has 12 bytes");
	tj_close(c);
}

/* An error of an op when the model runs names the node. */
static void errors_name_the_node(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = good_file();
	msg m = linear(), g = { .n = 0 };
	tj_model *o = opened(c, h, &m);
	assert_true(tj_is_poison(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 2, 3)))));
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_model_close(o);
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(-1)), put_value(&g, 11, "z", FLOAT, TJ_SHAPE(-1)),
		put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
	put_node(&g, "MatMul", "/mm", "x z", "y", 0, NULL);
	m = model(&g, 13);
	file_of(h, &m);
	o = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .no_shapes = true));
	assert_true(tj_is_poison(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 2), F32(c, 1, 2, 3)))));
	assert_int_equal(tj_check(c), TJ_ERR_SHAPE);
	if (!strstr(tj_last_error(c)->site, "/mm (MatMul)")) fail_msg("the site is %s", tj_last_error(c)->site);
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

/* ---- external data ---- */
static msg with_external(const char *location)
{
	msg g = { .n = 0 }, t = { .n = 0 };
	static const char *const pairs[][2] = { { "location", NULL }, { "offset", "4" }, { "length", "8" } };
	put_value(&g, 11, "x", FLOAT, TJ_SHAPE(2)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(2));
	put_int(&t, 1, 2), put_int(&t, 2, FLOAT), put_text(&t, 8, "w"), put_int(&t, 14, 1);
	for (int i = 0; i < 3; i++) {
		msg p = { .n = 0 };
		put_text(&p, 1, pairs[i][0]), put_text(&p, 2, i ? pairs[i][1] : location), put_msg(&t, 13, &p);
	}
	put_msg(&g, 5, &t);
	put_node(&g, "Add", "", "x w", "y", 0, NULL);
	return model(&g, 13);
}

static void write_file(const char *folder, const char *name, const void *v, size_t n)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(v, 1, n, f), n);
	fclose(f);
}

static void external_data(void **s)
{
	(void)s;
	static const struct {
		const char *location, *why;
	} bad[] = {
		{ "../secret", "not in the folder" },
		{ "/etc/hostname", "not in the folder" },
		{ "link", "a link" },
		{ "sub/../w.bin", "not in the folder" },
		{ "out/w.bin", "a link" },
		{ "", "not in the folder" },
		{ ".", "no regular file" },
		{ "none.bin", "No such file" },
		{ "short.bin", "beyond the 6 bytes" },
		{ "sub//w.bin", "not in the folder" },
	};
	char folder[] = "/tmp/test_onnx.XXXXXX", path[100], link[100];
	tj_ctx *c = tj_open(NULL);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/sub", folder), assert_int_equal(mkdir(path, 0700), 0);
	write_file(folder, "w.bin", (float[]){ 0, 10, 20 }, 12), write_file(folder, "sub/w.bin", (float[]){ 0, 30, 40 }, 12);
	write_file(folder, "short.bin", "abcdef", 6);
	snprintf(link, sizeof link, "%s/link", folder), assert_int_equal(symlink("w.bin", link), 0);
	snprintf(link, sizeof link, "%s/out", folder), assert_int_equal(symlink("sub", link), 0);
	snprintf(path, sizeof path, "%s/m.onnx", folder);
	for (int i = 0; i < 2; i++) {
		msg m = with_external(i ? "sub/w.bin" : "w.bin");
		write_file(folder, "m.onnx", m.v, m.n);
		tj_model *o = tj_onnx_open(c, path, NULL);
		kit_ok(c);
		assert_f32(tj_call1(tj_model_fn(o), TJ_LIST(F32(c, 1, 2))), i ? 31 : 11, i ? 42 : 22);
		tj_model_close(o);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		msg m = with_external(bad[i].location);
		write_file(folder, "m.onnx", m.v, m.n);
		assert_null(tj_onnx_open(c, path, NULL));
		assert_int_not_equal(tj_check(c), TJ_OK);
		if (!strstr(tj_last_error(c)->message, bad[i].why)) fail_msg("%s: %s", bad[i].location, tj_last_error(c)->message);
	}
	tj_close(c);
	snprintf(path, sizeof path, "rm -r %s", folder);
	assert_int_equal(system(path), 0);
}

/* ---- broken files ---- */
static void refused_files(void **s)
{
	(void)s;
	static const struct {
		const char *v;
		size_t n;
		const char *why;
	} bad[] = {
		{ "", 0, "no graph" },
		{ "\x08\x08", 2, "no graph" },
		{ "\x3a\x00", 2, "no IR version" },
		{ "\x08", 1, "cut or wrong" },
		{ "\x0b", 1, "cut or wrong" },
		{ "\x3a\x7f", 2, "cut or wrong" },
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "cut or wrong" },
		{ "\x00\x00", 2, "cut or wrong" },
		{ "\x12\x02\x61\x00\x3a\x00", 6, "no text" },
		{ "\x08\x08\x3a\x00\x3a\x00", 6, "two graphs" },
		{ "\x08\x08\x3a\x04\x62\x02\x0a\x00", 8, "nothing makes the output" },
	};
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memcpy(h->v, bad[i].v, bad[i].n);
		h->n = bad[i].n;
		hostile_put(h);
		assert_null(tj_onnx_open(c, h->path, NULL));
		kit_error(c, TJ_ERR_PARSE, bad[i].why);
	}
	const msg m = linear();
	for (size_t n = 0; n < m.n; n++) { /* no beginning of a file is one, but in front of its last fields */
		memcpy(h->v, m.v, n);
		h->n = n;
		hostile_put(h);
		tj_model *o = tj_onnx_open(c, h->path, NULL);
		if (!o) hostile_refused(c);
		tj_model_close(o);
	}
	tj_close(c);
	hostile_end(h);
}

/* Graphs in graphs, 40 deep. */
static void deep(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	msg g = { .n = 0 };
	for (int i = 0; i < 40; i++) {
		msg a = a_graph("body", &g);
		g.n = 0;
		put_node(&g, "Loop", "", "", "", 1, &a);
	}
	msg m = model(&g, 13);
	file_of(h, &m);
	assert_null(tj_onnx_open(c, h->path, NULL));
	kit_error(c, TJ_ERR_LIMIT, "nested deeper than 16");
	tj_close(c);
	hostile_end(h);
}

/* Random changes: none crashes, and what is read can be called or gives an error. */
static void random_changes(void **s)
{
	(void)s;
	const long times = hostile_turns(3000);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	hostile *h = hostile_begin(7);
	const msg good[] = { linear(), choice(), turns(), functional() };
	tj_tensor *x = F32(c, 1, 2), *n = tj_full(TJ_I64, TJ_0D, tj_i(2)), *p = tj_full(TJ_BOOL, TJ_0D, tj_i(1)), *out[16];
	tj_tensor *two = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 3), (float[]){ 1, 2, 3 }),
		  *whole = tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 1, 2 });
	long read = 0;
	for (long i = 0; i < times; i++) {
		const int k = (int)(i % 4);
		hostile_make(h, good[k].v, good[k].n, 0, "\x01\x02\x07\x08\x0a\x12\x1a\x22\x2a\x3a\x62\x7f");
		tj_model *o = tj_onnx_open(c, h->path, NULL);
		if (!o) {
			hostile_refused(c);
			continue;
		}
		read++;
		tj_scope *scope = tj_push(c);
		int nin = 0, nout = 0;
		while (tj_model_input(o, nin)) nin++;
		while (tj_model_output(o, nout)) nout++;
		if (nin == (k % 3 ? 2 : 1) && nout <= 16)
			tj_call(tj_model_fn(o), out, k == 0 ? TJ_LIST(two) : k == 1 ? TJ_LIST(p, x) : k == 2 ? TJ_LIST(n, x) : TJ_LIST(whole));
		tj_check(c);
		tj_pop(scope);
		tj_model_close(o);
	}
	assert_in_range(read, 1, times);
	tj_close(c);
	hostile_end(h);
}

/* ---- the page ---- */
static void page_lists_the_ops(void **s)
{
	(void)s;
	FILE *f = fopen("docs/MODELS.md", "r");
	if (!f) SKIP("docs/MODELS.md is not there");
	static char text[60000];
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	const char *domain, *op, *since, *at = strstr(text, "| op | since |");
	assert_non_null(at);
	int n = 0;
	for (; tj_onnx_supports(n, &domain, &op, &since); n++) {
		char row[200];
		snprintf(row, sizeof row, "| %s%s%s | %s |", domain, *domain ? "." : "", op, since);
		if (!strstr(at, row)) fail_msg("docs/MODELS.md has no row \"%s\"", row);
	}
	int rows = -1; /* the line below the head */
	for (const char *line = strchr(at, '\n'); line && line[1] == '|'; line = strchr(line + 1, '\n')) rows++;
	assert_int_equal(rows, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs),
		cmocka_unit_test(tells),
		cmocka_unit_test(directly),
		cmocka_unit_test(bounds),
		cmocka_unit_test(odd_names),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(control_flow),
		cmocka_unit_test(functions),
		cmocka_unit_test(refuses_all_at_once),
		cmocka_unit_test(bad_options),
		cmocka_unit_test(errors_name_the_node),
		cmocka_unit_test(external_data),
		cmocka_unit_test(refused_files),
		cmocka_unit_test(deep),
		cmocka_unit_test(random_changes),
		cmocka_unit_test(page_lists_the_ops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
