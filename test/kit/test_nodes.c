/* SPDX-License-Identifier: MIT */
/* ONNX files whose nodes ask for what cannot be: each is an error that names the node. test/models/mutate.py found most of them. */
#include "test/kit/onnxfile.h"

#include <math.h>

/* A tensor as a word: f2,3 floats of this shape, all 0.5; f nothing behind it: one float; r2,3: 0, 1, 2, ...; i2,3: a list of integers;
 * I7: one integer; b: one truth value; e: an empty list of integers; _ left out. */
static void put_input(msg *g, const char *word, int k)
{
	char name[8];
	int64_t v[64] = { 0 }, dim[TJ_MAX_RANK + 1];
	float f[256];
	int n = 0, all = 1;
	for (const char *s = word + 1; *s; s += *s == ',') v[n++] = strtoll(s, (char **)(uintptr_t)&s, 10);
	snprintf(name, sizeof name, "%c", 'a' + k);
	const bool floats = *word == 'f' || *word == 'r';
	for (int i = 0; floats && i < n; i++) dim[i] = v[i], all *= (int)v[i];
	dim[floats ? n : 0] = TJ_END_DIM;
	assert_true(all <= 256);
	for (int i = 0; i < all; i++) f[i] = *word == 'f' ? 0.5f : (float)i;
	if (*word == 'i' || *word == 'e') dim[0] = n, dim[1] = TJ_END_DIM;
	const msg t = floats         ? tensor(name, FLOAT, dim, f, 4 * (size_t)all)
	              : *word == 'b' ? tensor(name, BOOLEAN, dim, "\1", 1)
	                             : tensor(name, INT64, dim, v, 8 * (size_t)(*word == 'I' ? 1 : n));
	if (*word != '_') put_msg(g, 5, &t);
}

/* name=1 an integer, name:1,2 a list, name~0.5 a float, name'text a text */
static msg attribute(const char *word, size_t n)
{
	msg a = { .n = 0 };
	char text[200];
	snprintf(text, sizeof text, "%.*s", (int)n, word);
	char *const value = strpbrk(text, "=:~'"), kind = *value;
	*value = 0;
	put_text(&a, 1, text);
	put_int(&a, 20, kind == '=' ? 2 : kind == ':' ? 7 : kind == '~' ? 1 : 3);
	const float f = strtof(value + 1, NULL);
	if (kind == '=') put_int(&a, 3, strtoll(value + 1, NULL, 10));
	if (kind == '~') put_varint(&a, 2 << 3 | 5), put_byte(&a, 0), a.n--;
	for (size_t i = 0; kind == '~' && i < 4; i++) put_byte(&a, ((const unsigned char *)&f)[i]);
	if (kind == '\'') put_text(&a, 4, value + 1);
	for (char *s = value + 1; kind == ':' && *s; s += *s == ',') put_int(&a, 8, strtoll(s, &s, 10));
	return a;
}

typedef struct wrong {
	int opset;
	const char *op, *in, *attrs, *out, *why;
} wrong;

static const wrong cases[] = {
	{ 13, "Split", "f4", "", "", "it has no outputs" },
	{ 13, "Shape", "f4", "", "", "it has no outputs" },
	{ 13, "If", "_", "", "y", "input 0 is left out" },
	{ 13, "Scan", "_", "num_scan_inputs=1", "y", "input 0 is left out" },
	{ 16, "Scan", "f4", "num_scan_inputs=-2147483648", "y", "does not fit" },
	{ 11, "Range", "I0 f I1", "", "y", "of one dtype" },
	{ 11, "Range", "f i1 I1", "", "y", "of one dtype" },
	{ 14, "Trilu", "f2,2 i1,2", "", "y", "not one number" },
	{ 18, "CenterCropPad", "f2,2 i1,2", "axes:0", "y", "does not fit its axes" },
	{ 18, "CenterCropPad", "f2,2 i1,2,3", "", "y", "does not fit its axes" },
	{ 10, "ReverseSequence", "f2,2 i1,2", "time_axis=7", "y", "not there" },
	{ 18, "Pad", "f2,2 i1,1 _ f1", "", "y", "2 pads for 1 axes" },
	{ 13, "DepthToSpace", "f1,4,1,1", "blocksize=4294967296", "y", "does not fit" },
	{ 13, "SpaceToDepth", "f1,4,1,1", "blocksize=4294967296", "y", "does not fit" },
	{ 10, "MatMulInteger", "i1,2 i1,2 i1,2", "", "y", "too few" },
	{ 11, "OneHot", "i1 f3 f2", "", "y", "not one number" },
	{ 11, "OneHot", "i1 I-3 f2", "", "y", "its depth is -3" },
	{ 11, "OneHot", "f1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 I3 f2", "", "y", "axes" },
	{ 13, "Squeeze", "f1 i-9223372036854775808", "", "y", "not there" },
	{ 11, "MaxPool", "f1,1,4,4", "kernel_shape:2,2 pads:0,0,0,9223372036854775807", "y", "beyond" },
	{ 11, "MaxPool", "f1,1,4,4", "kernel_shape:2,2 pads:1,1", "y", "pads has 2 numbers, not 4" },
	{ 11, "AveragePool", "f1,1,4,4", "", "y", "kernel_shape" },
	{ 11, "ConvTranspose", "f1,1,4 f1,1,2", "output_padding:9223372036854775807", "y", "output_padding" },
	{ 11, "ConvTranspose", "f1,1,4 f1,1,2", "output_shape:-9223372036854775808", "y", "output_shape" },
	{ 11, "ConvTranspose", "f1,1,4 f1,1,2", "strides:9223372036854775807", "y", "strides" },
	{ 11, "MaxUnpool", "f1,1,2 i0,1 i1,1,-9223372036854775808", "kernel_shape:2", "y", "elements along" },
	{ 11, "MaxUnpool", "f1,1,2 i0,1 f3", "kernel_shape:2", "y", "no list of 3" },
	{ 18, "Col2Im", "f1,4,4 i4611686018427387904,4 i2,2", "", "y", "beyond" },
	{ 18, "Col2Im", "f1,4,4 i3,3 i9,9", "", "y", "does not fit its picture" },
	{ 18, "Resize", "f1,1,4,4 _ f4", "mode'linear antialias=1", "y", "" },
	{ 11, "Upsample", "f1,1,4,4 f4", "", "y", "" },
	{ 16, "RoiAlign", "f1,1,4,4 f1,4 i0", "sampling_ratio=9223372036854775807", "y", "places" },
	{ 16, "RoiAlign", "f1,1,4,4 f1,4 i0", "sampling_ratio=2 output_height=4611686018427387904", "y", "bins" },
	{ 16, "RoiAlign", "f1,1,4,4 f1,4 i0", "sampling_ratio=2 output_width=-1", "y", "bins" },
	{ 20, "DFT", "f1,4,1 e", "", "y", "not one number" },
	{ 17, "STFT", "f1,9,1 e f3", "", "y", "not one number" },
	{ 17, "MelWeightMatrix", "I4 I16 I8000 I-100 I4000", "", "y", "not possible" },
	{ 13, "Concat", "f2,2 f2,2", "axis=4294967296", "y", "axis" },
	{ 12, "GatherND", "f2,2 i1", "batch_dims=4294967297", "y", "does not fit" },
	{ 21, "QuantizeLinear", "f1,4 f1,2", "axis=1 block_size=2147483648", "y", "" },
	{ 14, "Trilu", "f2,2 I9223372036854775807", "", "y", "" },
	{ 14, "Trilu", "f2,2 I-9223372036854775808", "", "y", "" },
};

static const char *failed(tj_ctx *c)
{
	return tj_check(c) == TJ_OK ? "" : tj_last_error(c)->message;
}

/* A model of one node, whose inputs are initializers. */
static msg one_node(const wrong *w)
{
	msg g = { .n = 0 }, attr[8];
	char names[32] = "";
	int nin = 0, nattr = 0;
	for (const char *p = w->in; *p; p += *p == ' ', nin++) {
		char word[80];
		const size_t n = strcspn(p, " ");
		snprintf(word, sizeof word, "%.*s", (int)n, p);
		put_input(&g, word, nin);
		sprintf(names + strlen(names), "%s%c", nin ? " " : "", *word == '_' ? '_' : 'a' + nin);
		p += n;
	}
	for (const char *p = w->attrs; *p; p += strcspn(p, " "), p += *p == ' ') attr[nattr++] = attribute(p, strcspn(p, " "));
	put_node(&g, w->op, "/n", names, w->out, nattr, attr);
	put_value(&g, 12, *w->out ? "y" : "a", FLOAT, TJ_SHAPE(1));
	return model(&g, w->opset);
}

static void wrong_nodes(void **s)
{
	(void)s;
	hostile *h = good_file();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const wrong *w = &cases[i];
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		const msg m = one_node(w);
		file_of(h, &m);
		tj_tensor *y = NULL;
		tj_model *o = tj_onnx_open(c, h->path, NULL);
		if (o && tj_call(tj_model_fn(o), &y, TJ_NONE) == TJ_OK) tj_data(y);
		const char *why = failed(c);
		if (!strstr(why, w->why) || (*w->why && !*why)) fail_msg("%s(%s) %s: \"%s\", not \"%s\"", w->op, w->in, w->attrs, why, w->why);
		tj_model_close(o);
		tj_close(c);
	}
	hostile_end(h);
}

/* Results that random graphs against onnxruntime showed wrong. */
static void right_nodes(void **s)
{
	(void)s;
	static const struct {
		wrong node;
		int n;
		double y[6];
	} rows[] = {
		/* ONNX clamps a start to 0 for negative steps, too; of integers the host computes it */
		{ { 13, "Slice", "r3 i-100 i-100 i0 i-2", "", "y", "" }, 1, { 0 } },
		{ { 13, "Slice", "i5,6,7 i-100 i-100 i0 i-2", "", "y", "" }, 1, { 5 } },
		{ { 13, "Slice", "r3 i9 i-100 i0 i-2", "", "y", "" }, 2, { 2, 0 } },
		/* with ceil_mode no window begins behind x and the padding before it, however wide the padding is */
		{ { 19, "AveragePool", "f1,1,6", "kernel_shape:3 pads:2,2 strides:2 ceil_mode=1 count_include_pad=1", "y", "" }, 4,
		  { 0.5 / 3, 0.5, 0.5, 1.0 / 3 } },
		{ { 19, "AveragePool", "r1,1,6", "kernel_shape:3 pads:2,2 strides:2 ceil_mode=1", "y", "" }, 4, { 0, 1, 3, 4.5 } },
		{ { 19, "MaxPool", "r1,1,6", "kernel_shape:3 pads:2,2 strides:2 ceil_mode=1", "y", "" }, 4, { 0, 2, 4, 5 } },
		{ { 13, "ThresholdedRelu", "r3", "", "y", "" }, 3, { 0, 0, 2 } },
		/* an axis of one element is the first one */
		{ { 19, "Resize", "r1,1,1,3 _ _ i1,1,1,1", "mode'cubic coordinate_transformation_mode'pytorch_half_pixel", "y", "" }, 1, { 0 } },
	};
	hostile *h = good_file();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		const msg m = one_node(&rows[i].node);
		tj_model *o = opened(c, h, &m);
		tj_tensor *y = tj_cast(tj_call1(tj_model_fn(o), TJ_NONE), TJ_F64);
		const double *v = tj_data(y);
		kit_ok(c);
		assert_int_equal(tj_numel(y), rows[i].n);
		for (int k = 0; k < rows[i].n; k++)
			if (fabs(v[k] - rows[i].y[k]) > 1e-6) fail_msg("%s, row %zu: element %d is %g, not %g", rows[i].node.op, i, k, v[k], rows[i].y[k]);
		tj_model_close(o);
		tj_close(c);
	}
	hostile_end(h);
}

/* ---- control flow ---- */
static msg identity_graph(int nin, int nout)
{
	static const char *const in[] = { "p", "q", "r", "s" };
	msg g = { .n = 0 };
	for (int i = 0; i < nin; i++) put_value(&g, 11, in[i], FLOAT, TJ_SHAPE(-1));
	for (int i = 0; i < nout; i++) put_value(&g, 12, nin ? in[i % nin] : "a", FLOAT, TJ_SHAPE(-1));
	return g;
}

static void runs_wrong(hostile *h, const msg *g, const char *why)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	const msg m = model(g, 16);
	tj_tensor *y = NULL;
	file_of(h, &m);
	tj_model *o = tj_onnx_open(c, h->path, NULL);
	if (o) tj_call(tj_model_fn(o), &y, TJ_NONE);
	const char *got = failed(c);
	if (!strstr(got, why)) fail_msg("\"%s\", not \"%s\"", got, why);
	tj_model_close(o);
	tj_close(c);
}

static void wrong_flow(void **s)
{
	(void)s;
	static const struct {
		const char *a, *b, *in, *why;
		int nin, nout;
	} loops[] = {
		{ "I3", "b", "a b", "does not fit", 3, 1 },
		{ "I3", "b", "a b", "does not fit", 2, 0 },
		{ "I3", "f2", "a b", "", 2, 2 },
		{ "I3", "e", "a b", "", 2, 2 },
		{ "f", "b", "a b", "", 2, 2 },
		{ "I9223372036854775807", "b", "a b", "turns", 2, 2 },
		{ "I3", "b", "a b _", "", 3, 2 },
	};
	hostile *h = good_file();
	for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
		msg g = { .n = 0 }, body = identity_graph(loops[i].nin, 0);
		for (int k = 0; k < loops[i].nout; k++) put_value(&body, 12, k ? "p" : "q", k ? INT64 : BOOLEAN, TJ_0D);
		put_input(&g, loops[i].a, 0), put_input(&g, loops[i].b, 1);
		put_node(&g, "Loop", "/l", loops[i].in, "y", 1, (msg[]){ a_graph("body", &body) });
		put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
		runs_wrong(h, &g, loops[i].why);
	}
	static const char *const conditions[] = { "f", "e", "f2" };
	for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
		msg g = { .n = 0 };
		const msg branch = identity_graph(0, 1);
		put_input(&g, conditions[i], 0);
		put_node(&g, "If", "/i", "a", "y", 2, (msg[]){ a_graph("then_branch", &branch), a_graph("else_branch", &branch) });
		put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
		runs_wrong(h, &g, "not one truth value");
	}
	for (int nin = 0; nin < 4; nin++) {
		msg g = { .n = 0 };
		const msg body = identity_graph(nin, nin);
		put_input(&g, "f3,2", 0), put_input(&g, "f", 1);
		put_node(&g, "Scan", "/s", "b a", "x y", 2, (msg[]){ a_graph("body", &body), attribute("num_scan_inputs=1", 17) });
		put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
		runs_wrong(h, &g, nin == 2 ? "" : "does not fit");
	}
	hostile_end(h);
}

/* A number that the host knows is used in the callback of a loop first, then behind it: the tensor of the callback is gone by then. */
static void outer_values(void **s)
{
	(void)s;
	msg g = { .n = 0 }, body = { .n = 0 };
	put_input(&g, "I12", 0), put_input(&g, "b", 1), put_input(&g, "i1,2", 2), put_input(&g, "i5,7", 3);
	put_value(&body, 11, "i", INT64, TJ_0D), put_value(&body, 11, "go", BOOLEAN, TJ_0D), put_value(&body, 11, "x", INT64, TJ_SHAPE(2));
	put_value(&body, 12, "on", BOOLEAN, TJ_0D), put_value(&body, 12, "z", INT64, TJ_SHAPE(2));
	put_node(&body, "Identity", "", "go", "on", 0, NULL), put_node(&body, "Add", "", "x d", "z", 0, NULL);
	put_node(&g, "Loop", "/l", "a b c", "sum", 1, (msg[]){ a_graph("body", &body) });
	put_node(&g, "Mul", "/m", "sum d", "y", 0, NULL);
	put_value(&g, 12, "y", INT64, TJ_SHAPE(2));
	hostile *h = good_file();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	const msg m = model(&g, 16);
	tj_model *o = opened(c, h, &m);
	const int64_t *y = tj_data(tj_call1(tj_model_fn(o), TJ_NONE));
	kit_ok(c);
	assert_true(y[0] == (1 + 12 * 5) * 5 && y[1] == (2 + 12 * 7) * 7);
	tj_model_close(o);
	tj_close(c);
	hostile_end(h);
}

/* ---- functions ---- */
/* A function whose one node is given; "f" calls it with attributes. */
static msg calling(const msg *node, int nin, int nattr, const msg *attr)
{
	msg g = { .n = 0 }, f = { .n = 0 }, o = { .n = 0 }, n = { .n = 0 };
	put_text(&f, 1, "F"), put_text(&f, 10, "my"), put_text(&f, 4, "a"), put_text(&f, 4, "b"), put_text(&f, 4, "c"), put_text(&f, 5, "y");
	put_msg(&f, 7, node), put_int(&o, 2, 9), put_msg(&f, 9, &o);
	o.n = 0, put_text(&o, 1, "my"), put_int(&o, 2, 1), put_msg(&f, 9, &o);
	put_input(&g, "f1,1,4", 0), put_input(&g, "f1,4,4", 1), put_input(&g, "f1,4,1", 2);
	for (int i = 0; i < nin; i++) put_text(&n, 1, (const char *[]){ "a", "b", "c" }[i]);
	put_text(&n, 2, "y"), put_text(&n, 4, "F"), put_text(&n, 7, "my");
	for (int i = 0; i < nattr; i++) put_msg(&n, 5, &attr[i]);
	put_msg(&g, 1, &n), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(-1));
	msg m = model(&g, 16);
	put_msg(&m, 25, &f), put_msg(&m, 8, &o);
	return m;
}

static void wrong_functions(void **s)
{
	(void)s;
	static const struct {
		const char *op, *attr, *given;
		int nin, least;
		const char *why;
	} calls[] = {
		{ "Upsample", "scales", "scales:1,1,2", 1, 1, "" },
		{ "RNN", "activations", "activations:1", 3, 3, "" },
		{ "RNN", "activation_alpha", "activation_alpha'x", 3, 3, "" },
		{ "Add", "x", "x=1", 1, 2, "input 1 has no value" },
	};
	hostile *h = good_file();
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		msg n = { .n = 0 }, ref = { .n = 0 };
		for (int k = 0; k < calls[i].least; k++) put_text(&n, 1, (const char *[]){ "a", "b", "c" }[k]);
		put_text(&n, 2, "y"), put_text(&n, 4, calls[i].op);
		put_text(&ref, 1, calls[i].attr), put_text(&ref, 21, calls[i].attr), put_int(&ref, 20, 8);
		if (strcmp(calls[i].op, "Add")) put_msg(&n, 5, &ref);
		const msg a = attribute(calls[i].given, strlen(calls[i].given)), m = calling(&n, calls[i].nin, 1, &a);
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		tj_tensor *y = NULL;
		file_of(h, &m);
		tj_model *o = tj_onnx_open(c, h->path, NULL);
		if (o) tj_call(tj_model_fn(o), &y, TJ_NONE);
		const char *why = failed(c);
		if (!strstr(why, calls[i].why)) fail_msg("%s: \"%s\"", calls[i].op, why);
		tj_model_close(o);
		tj_close(c);
	}
	hostile_end(h);
}

/* Functions that call others: `deep` of them in a chain, each calling the next one `times` times. */
static void chains(void **s)
{
	(void)s;
	static const struct {
		int deep, times;
		const char *why;
	} cases_of[] = { { 20, 1, "" }, { 40, 2, "more than 4194304 nodes" }, { 101, 1, "more than 100 deep" } };
	hostile *h = good_file();
	for (int k = 0; k < 3; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		msg g = { .n = 0 };
		static unsigned char all[60000];
		size_t at = 0;
		put_input(&g, "f", 0), put_value(&g, 12, "y", FLOAT, TJ_0D);
		msg call = { .n = 0 };
		put_text(&call, 1, "a"), put_text(&call, 2, "y"), put_text(&call, 4, "F0"), put_text(&call, 7, "my"), put_msg(&g, 1, &call);
		msg m = model(&g, 16), o = { .n = 0 };
		put_text(&o, 1, "my"), put_int(&o, 2, 1), put_msg(&m, 8, &o);
		memcpy(all, m.v, m.n), at = m.n;
		for (int i = 0; i <= cases_of[k].deep; i++) {
			msg f = { .n = 0 }, whole = { .n = 0 }, v = { .n = 0 };
			char name[16];
			snprintf(name, sizeof name, "F%d", i);
			put_text(&f, 1, name), put_text(&f, 10, "my"), put_text(&f, 4, "a"), put_text(&f, 5, "y");
			put_int(&v, 2, 16), put_msg(&f, 9, &v), put_msg(&f, 9, &o);
			for (int t = 0; t < (i < cases_of[k].deep ? cases_of[k].times : 1); t++) {
				msg n = { .n = 0 };
				snprintf(name, sizeof name, "F%d", i + 1);
				put_text(&n, 1, "a"), put_text(&n, 2, "y"), put_text(&n, 4, i < cases_of[k].deep ? name : "Abs");
				if (i < cases_of[k].deep) put_text(&n, 7, "my");
				put_msg(&f, 7, &n);
			}
			put_msg(&whole, 25, &f);
			memcpy(all + at, whole.v, whole.n), at += whole.n;
		}
		assert_true(at <= HOSTILE_MOST);
		memcpy(h->v, all, h->n = at);
		hostile_put(h);
		tj_tensor *y = NULL;
		tj_model *t = tj_onnx_open(c, h->path, NULL);
		if (t) tj_call(tj_model_fn(t), &y, TJ_NONE);
		const char *why = failed(c);
		if (!strstr(why, cases_of[k].why) || (*why && !*cases_of[k].why)) fail_msg("chain %d: \"%s\"", k, why);
		tj_model_close(t);
		tj_close(c);
	}
	hostile_end(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_nodes),  cmocka_unit_test(right_nodes),     cmocka_unit_test(wrong_flow),
		cmocka_unit_test(outer_values), cmocka_unit_test(wrong_functions), cmocka_unit_test(chains),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
