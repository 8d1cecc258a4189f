/* SPDX-License-Identifier: MIT */
/* Functions as ONNX files: written, read again by tj_onnx_open() and compared bit for bit, at several sizes; what is refused; the file. The
 * ops one by one: test/models/out.c. */
#include "test/kit.h"

#include <math.h>
#include <sys/stat.h>
#include <tjmodel.h>
#include <unistd.h>

static char folder[] = "/tmp/onnxwrite-XXXXXX";
static char *path(const char *name)
{
	static char p[4][200];
	static int k;
	k = (k + 1) % 4;
	snprintf(p[k], sizeof p[k], "%s/%s", folder, name);
	return p[k];
}
static int make_folder(void **s) { return (void)s, mkdtemp(folder) ? 0 : -1; }
static int drop_folder(void **s)
{
	char command[64];
	(void)s;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void same(tj_tensor *a, tj_tensor *b)
{
	assert_int_equal(tj_dtype_of(a), tj_dtype_of(b));
	assert_int_equal(tj_rank(a), tj_rank(b));
	for (int d = 0; d < tj_rank(a); d++) assert_int_equal(tj_dim(a, d), tj_dim(b, d));
	const size_t n = (size_t)tj_numel(a) * tj_dtype_size(tj_dtype_of(a));
	if (n) assert_memory_equal(tj_data(a), tj_data(b), n);
}

static void written(tj_ctx *c, tj_fn *f, const char *file, const tj_onnx_write_opts *o)
{
	const tj_status st = tj_onnx_write(f, file, o);
	kit_ok(c);
	assert_int_equal(st, TJ_OK);
}

/* f and the file that it becomes give the same for these arguments. */
static void round_trip(tj_ctx *c, tj_fn *f, tj_list in, int nout, bool write)
{
	tj_tensor *want[8], *got[8];
	assert_int_equal(tj_call(f, want, in), TJ_OK);
	if (write) written(c, f, path("f.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = in));
	tj_model *m = tj_onnx_open(c, path("f.onnx"), NULL);
	kit_ok(c);
	assert_int_equal(tj_call(tj_model_fn(m), got, in), TJ_OK);
	kit_ok(c);
	for (int i = 0; i < nout; i++) same(got[i], want[i]);
	tj_model_close(m);
}

static tj_tensor *ramp(tj_ctx *c, int64_t rows, int64_t columns)
{
	float v[4096];
	for (int64_t i = 0; i < rows * columns; i++) v[i] = (float)((i * 37) % 101) / 16 - 3;
	return tj_from_data(c, TJ_F32, TJ_SHAPE(rows, columns), v);
}

/* ---- sizes ---- */
/* Numbers that follow from sizes in each way that is known: sums, products, quotients, 1 / n, roots, dtypes, slices, windows. */
static void sized(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t b = tj_dim(in[0], 0), t = tj_dim(in[0], 1);
	tj_tensor *x = tj_mul(in[0], tj_f(1.0 / (double)b)), *flat = tj_reshape(x, TJ_SHAPE(b * t));
	out[0] = tj_mul(tj_cat(TJ_LIST(flat, tj_slice(flat, 0, 0, t - 1, 1)), 0), tj_f(sqrt((double)t)));
	out[1] = tj_add(tj_sum(x, TJ_AXES(0), false), tj_cast(tj_arange(TJ_I64, 0, t, 1), TJ_F32));
	out[2] = tj_sum(tj_unfold(x, 1, 3, 2, 1), TJ_AXES(2), false); /* (t - 3) / 2 + 1 windows */
	out[3] = tj_expand(tj_full(TJ_I32, TJ_SHAPE(1, t + 2), tj_i(b + t)), TJ_SHAPE(2 * b, t + 2));
	out[4] = tj_slice(tj_flip(x, TJ_AXES(1)), 1, t - 2, TJ_END_DIM, -1);
	out[5] = tj_softmax(tj_div(tj_matmul(x, tj_transpose(x, 0, 1)), tj_f(sqrt((double)t))), -1);
}

static void sizes_vary(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f =
		tj_compile(c, sized, NULL,
	                   TJ_OPTS(tj_compile_opts, .name = "sized", .nin = 1, .nout = 6, .shapes = "x: f32[B,T]; B in 1..9; T in 4..64"));
	written(c, f, path("f.onnx"), NULL); /* it was never called: .shapes says all */
	static const int64_t sizes[][2] = { { 1, 4 }, { 2, 5 }, { 3, 3 + 8 }, { 7, 64 }, { 9, 9 } };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		tj_scope *scope = tj_push(c);
		round_trip(c, f, TJ_LIST(ramp(c, sizes[i][0], sizes[i][1])), 6, false);
		tj_pop(scope);
	}
	tj_model *m = tj_onnx_open(c, path("f.onnx"), NULL);
	assert_string_equal(tj_model_input(m, 0)->name, "x");
	assert_string_equal(tj_model_input(m, 0)->symbol[0], "B");
	assert_string_equal(tj_model_input(m, 0)->symbol[1], "T");
	tj_onnx_about about = { .size = sizeof about };
	tj_model_about(m, &about);
	assert_int_equal(about.opset, 18);
	assert_string_equal(about.producer, "tjit");
	assert_string_equal(about.graph, "sized");
	tj_model_close(m);
	written(c, f, path("g.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(ramp(c, 2, 6)), .static_sizes = true, .name = "one"));
	m = tj_onnx_open(c, path("g.onnx"), NULL);
	assert_int_equal(tj_model_input(m, 0)->dim[1], 6);
	assert_null(tj_model_input(m, 0)->symbol[1]);
	tj_model_close(m);
	tj_close(c);
}

/* Other ops at other sizes: no file can say that. */
static void forked(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_dim(in[0], 0) % 2 ? tj_neg(in[0]) : tj_add(in[0], tj_i(tj_dim(in[0], 0) == 6 ? 100 : 1));
}
static void odd_number(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(exp((double)tj_dim(in[0], 0))));
}

static void sizes_refused(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_body *const bodies[] = { forked, odd_number };
	const char *const why[] = { "the function computes other things at other sizes",
		                    "takes a constant that no expression of the sizes gives" };
	for (int i = 0; i < 2; i++) {
		tj_fn *f = tj_compile(c, bodies[i], NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .shapes = "x: f32[N]; N in 1..99"));
		assert_int_not_equal(tj_onnx_write(f, path("no.onnx"), NULL), TJ_OK);
		tj_check(c);
		if (!strstr(tj_last_error(c)->message, why[i])) fail_msg("%s", tj_last_error(c)->message);
		assert_non_null(strstr(tj_last_error(c)->message, "test_onnxwrite.c:"));
		assert_int_equal(access(path("no.onnx"), F_OK), -1);
		written(c, f, path("yes.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(F32(c, 1, 2, 3)), .static_sizes = true));
	}
	tj_close(c);
}

/* ---- control flow ---- */
static void larger(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_f(100)); }
static void doubled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_mul(in[0], tj_f(2));
	out[1] = tj_add(in[1], ((tj_tensor **)self)[0]);
}
static void up(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_f(1)), out[1] = in[0]; }
static void down(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_neg(in[0]), out[1] = tj_full(TJ_F32, TJ_SHAPE(3), tj_f(7));
}
static void running(tj_tensor **carry, tj_tensor *const *in, void *self)
{
	(void)self;
	carry[0] = tj_add(in[0], in[1]);
	carry[1] = tj_mul(carry[0], in[1]);
}

static void flow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *two[2] = { in[0], NULL }, *carry[1], *ys[1];
	(void)self;
	tj_tensor *first = tj_reshape(tj_slice(in[0], 0, 0, 1, 1), TJ_0D);
	tj_while(two, larger, doubled, TJ_LIST(tj_abs(first), in[0]), two, NULL);
	out[0] = two[0], out[1] = two[1];
	tj_cond(two, 2, tj_gt(first, tj_f(0)), up, down, TJ_LIST(in[0]), NULL);
	out[2] = two[0], out[3] = two[1];
	for (int reverse = 0; reverse < 2; reverse++) {
		tj_scan(carry, ys, 1, running, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(2), tj_f(1))), TJ_LIST(in[1]), NULL,
		        TJ_OPTS(tj_scan_opts, .reverse = reverse));
		out[4 + 2 * reverse] = carry[0], out[5 + 2 * reverse] = ys[0];
	}
}

static void control_flow(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "flow", flow, NULL, 2, 8);
	const float m[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4, 2), m);
	round_trip(c, f, TJ_LIST(F32(c, 3, -1, 2), x), 8, true);
	round_trip(c, f, TJ_LIST(F32(c, -3, -1, 2), x), 8, false);
	round_trip(c, f, TJ_LIST(F32(c, 300, -1, 2), x), 8, false); /* no turn */
	tj_close(c);
}

/* More carries than a machine word has bits. */
enum { CARRIES = 70 };
static void shifted(tj_tensor **carry, tj_tensor *const *in, void *self)
{
	(void)self;
	for (int i = 0; i < CARRIES; i++) carry[i] = i ? in[i - 1] : in[CARRIES];
}
static void queue(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *first[CARRIES + 1], *carry[CARRIES];
	(void)self;
	for (int i = 0; i < CARRIES; i++) first[i] = tj_add(tj_select(in[0], 0, 0), tj_f(i));
	first[CARRIES] = TJ_END;
	tj_scan(carry, NULL, 0, shifted, first, TJ_LIST(in[0]), NULL, NULL);
	out[0] = carry[CARRIES - 1], out[1] = carry[0];
}
static void many_carries(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	round_trip(c, kit_fn(c, "queue", queue, NULL, 1, 2), TJ_LIST(F32(c, 5, 3, 8, 1)), 2, true);
	tj_close(c);
}

/* Names that begin alike for long, and names like those that the writer gives. */
static void negated(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sub(tj_neg(in[0]), tj_mul(in[1], tj_f(3)));
	out[1] = tj_add(out[0], tj_f(0.5));
}
static void long_names(void **s)
{
	(void)s;
	char name[2][420];
	tj_ctx *c = kit_open();
	for (int i = 0; i < 2; i++) {
		memset(name[i], 'a', sizeof name[i]);
		strcpy(name[i] + sizeof name[i] - 2, i ? "y" : "x");
	}
	for (int round = 0; round < 2; round++) {
		const tj_onnx_write_opts o = { .size = sizeof o,
			                       .inputs = TJ_LIST(F32(c, 1, 2), F32(c, 3, 4)),
			                       .input_names = (const char *[]){ round ? "v3" : name[0], round ? "constant_0" : name[1], NULL },
			                       .output_names = (const char *[]){ "v4", "constant_1", NULL } };
		written(c, kit_fn(c, "f", negated, NULL, 2, 2), path("f.onnx"), &o);
		tj_model *m = tj_onnx_open(c, path("f.onnx"), NULL);
		kit_ok(c);
		for (int i = 0; i < 2; i++) assert_string_equal(tj_model_input(m, i)->name, o.input_names[i]);
		for (int i = 0; i < 2; i++) assert_string_equal(tj_model_output(m, i)->name, o.output_names[i]);
		tj_tensor *y[2];
		tj_call(tj_model_fn(m), y, o.inputs);
		assert_f32(y[0], -10, -14);
		tj_model_close(m);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- variables, gradients ---- */
typedef struct net {
	tj_tensor *w, *b, *steps;
} net;
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	net *n = self;
	tj_tensor *grad[1], *loss = tj_mean(tj_square(tj_sub(tj_matmul(in[0], n->w), n->b)), TJ_ALL, false);
	tj_grad(grad, loss, TJ_LIST(n->w), NULL);
	tj_assign(n->w, tj_sub(n->w, tj_mul(grad[0], tj_f(0.125))));
	tj_assign(n->steps, tj_add(n->steps, tj_i(1)));
	out[0] = loss;
}

static void variables(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	net n = { tj_param(c, TJ_F32, TJ_SHAPE(3, 2)), tj_param(c, TJ_F32, TJ_SHAPE(2)), tj_param(c, TJ_I64, TJ_0D) };
	const float w[] = { 1, 2, 3, 4, 5, 6 }, b[] = { 7, 8 };
	tj_write(n.w, w, sizeof w), tj_write(n.b, b, sizeof b);
	tj_fn *f = tj_compile(
		c, step, &n,
		TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 1, .state = TJ_VARS(&n.w, &n.steps), .freeze = TJ_VARS(&n.b)));
	tj_tensor *x = ramp(c, 5, 3), *got[3], *loss[1];
	const tj_onnx_write_opts o = { .size = sizeof o,
		                       .inputs = TJ_LIST(x),
		                       .names = (const char *[]){ "w", "steps", "b", NULL },
		                       .input_names = (const char *[]){ "x", NULL },
		                       .output_names = (const char *[]){ "loss", NULL } };
	written(c, f, path("f.onnx"), &o);
	tj_model *m = tj_onnx_open(c, path("f.onnx"), NULL);
	kit_ok(c);
	assert_string_equal(tj_model_output(m, 0)->name, "loss");
	assert_string_equal(tj_model_output(m, 1)->name, "w_next");
	assert_string_equal(tj_model_output(m, 2)->name, "steps_next");
	tj_call(tj_model_fn(m), got, TJ_LIST(x));
	kit_ok(c);
	const char *name;
	tj_tensor *t = NULL;
	for (int i = 0; (t = tj_model_initializer(m, i, &name)) && strcmp(name, "b");) i++;
	assert_non_null(t);
	assert_memory_equal(tj_data(t), b, sizeof b);
	tj_call(f, loss, TJ_LIST(x));
	same(got[0], loss[0]);
	assert_memory_equal(tj_data(got[1]), tj_data(tj_add(n.w, tj_f(0))), sizeof w);
	assert_int_equal(*(const int64_t *)tj_data(got[2]), 1);
	tj_model_close(m);
	tj_close(c);
}

/* ---- the file ---- */
static char *bytes_of(const char *file, size_t *n)
{
	FILE *f = fopen(file, "rb");
	assert_non_null(f);
	char *v = malloc(1 << 20);
	*n = fread(v, 1, 1 << 20, f);
	fclose(f);
	return v;
}

static void scaled(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], *(tj_tensor **)self); }

static void external(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(50)), *got[1], *want[1];
	tj_write(w, tj_data(tj_cast(tj_arange(TJ_I64, 0, 50, 1), TJ_F32)), 200);
	tj_fn *f = tj_compile(c, scaled, &w, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .freeze = TJ_VARS(&w)));
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(50), tj_f(0.5));
	written(c, f, path("e.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(x), .external = true));
	struct stat a;
	assert_int_equal(stat(path("e.onnx.data"), &a), 0);
	assert_int_equal(a.st_size, 200);
	tj_model *m = tj_onnx_open(c, path("e.onnx"), NULL);
	kit_ok(c);
	tj_call(tj_model_fn(m), got, TJ_LIST(x));
	tj_call(f, want, TJ_LIST(x));
	kit_ok(c);
	same(got[0], want[0]);
	tj_model_close(m);
	/* equal bytes each time; nothing else is left in the folder */
	size_t n[2];
	written(c, f, path("one.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(x)));
	char *p = bytes_of(path("one.onnx"), &n[0]);
	written(c, f, path("one.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(x)));
	char *q = bytes_of(path("one.onnx"), &n[1]);
	assert_int_equal(n[0], n[1]);
	assert_memory_equal(p, q, n[0]);
	free(p), free(q);
	tj_close(c);
}

/* ---- what is refused ---- */
static int lines;
static char told[400];
static void tell(void *self, const char *line)
{
	(void)self;
	if (!lines++) snprintf(told, sizeof told, "%s", line);
}

static void bad(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_lgamma(in[0]), tj_uniform(TJ_F32, TJ_SHAPE(3)));
	out[1] = tj_erfinv(in[0]);
}
static void looks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0))) ? tj_neg(in[0]) : in[0];
}

static void refuses_all_at_once(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2, 3);
	tj_fn *f = kit_fn(c, "bad", bad, NULL, 1, 2), *g = kit_fn(c, "looks", looks, NULL, 1, 1);
	assert_int_equal(tj_onnx_write(f, path("bad.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(x), .on_refused = tell)),
	                 TJ_ERR_ARG);
	assert_int_equal(lines, 3);
	assert_non_null(strstr(told, "test_onnxwrite.c:"));
	kit_error(c, TJ_ERR_ARG, "; and 2 more");
	assert_int_equal(access(path("bad.onnx"), F_OK), -1);
	assert_int_not_equal(tj_onnx_write(g, path("bad.onnx"), TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(x))), TJ_OK);
	kit_error(c, TJ_ERR_STATE, "truth at test/kit/test_onnxwrite.c:");
	assert_int_equal(tj_onnx_write(g, NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "path is NULL");
	assert_int_equal(tj_onnx_write(NULL, path("bad.onnx"), NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "the function is NULL");
	assert_int_equal(tj_onnx_write(g, path("bad.onnx"), &(tj_onnx_write_opts){ .size = 3 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "no such struct has 3 bytes");
	assert_int_not_equal(tj_onnx_write(g, path("bad.onnx"), NULL), TJ_OK); /* never called */
	kit_error(c, TJ_ERR_STATE, "was never called");
	tj_fn *h = tj_compile(c, scaled, &x, TJ_OPTS(tj_compile_opts, .name = "h", .nin = 1, .nout = 1));
	tj_tensor *kept = x = tj_retain(x);
	assert_int_equal(tj_onnx_write(h, "/nowhere/h.onnx", TJ_OPTS(tj_onnx_write_opts, .inputs = TJ_LIST(F32(c, 1, 2, 3)))), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "No such file or directory");
	tj_release(kept);
	tj_close(c);
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
	const char *op, *becomes, *at = strstr(text, "| op of tjit | becomes |");
	assert_non_null(at);
	int n = 0;
	for (; tj_onnx_writes(n, &op, &becomes); n++) {
		char row[200];
		snprintf(row, sizeof row, "| %s | %s |", op, *becomes ? becomes : "refused");
		if (!strstr(at, row)) fail_msg("docs/MODELS.md has no row \"%s\"", row);
	}
	int rows = -1; /* the line below the head */
	for (const char *line = strchr(at, '\n'); line && line[1] == '|'; line = strchr(line + 1, '\n')) rows++;
	assert_int_equal(rows, n);
	assert_false(tj_onnx_writes(-1, NULL, NULL));
}

int main(void)
{
	kit_backend = "eval";
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_vary),         cmocka_unit_test(sizes_refused), cmocka_unit_test(control_flow),
		cmocka_unit_test(many_carries),       cmocka_unit_test(long_names),
		cmocka_unit_test(variables),          cmocka_unit_test(external),      cmocka_unit_test(refuses_all_at_once),
		cmocka_unit_test(page_lists_the_ops),
	};
	return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
