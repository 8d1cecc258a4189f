/* SPDX-License-Identifier: MIT */
/* Modules against PyTorch's: names, shapes, results and gradients, which record_modules.py has recorded. Walks, initial values, errors. */
#include "test/kit.h"

#include <math.h>
#include <tjnn.h>

typedef struct recorded {
	const char *name, *slots;
	int n;
	double value[64];
} recorded;
#include "test/kit/recorded_modules.inc"

enum { PARTS = 3, MOST = 64 };

/* ---- the same modules ---- */
typedef struct net {
	tjnn_linear linear;
	tjnn_embedding embedding;
	tjnn_conv conv;
	tjnn_norm norm;
	tjnn_attention attention;
	tjnn_encoder_block encoder;
	tjnn_decoder_block decoder;
	tjnn_recurrent recurrent;
	tjnn_sequential sequential;
	tjnn_model *model;
	int parts;
} net;

typedef struct module {
	const char *name;
	tjnn_layers *layers;
	void (*apply)(net *m, tj_tensor *const *in, tj_tensor **y);
	int parts;
	struct {
		int salt;
		int64_t dim[5];
	} in[3];
} module;

#define LAYERS(name, call) \
	static void name##_layers(tjnn_walk *w, void *self) \
	{ \
		net *m = self; \
		call; \
	}
#define APPLY(name, call) \
	static void name##_apply(net *m, tj_tensor *const *in, tj_tensor **y) { call; }

LAYERS(linear, tjnn_linear_layer(w, "m", &m->linear, 4, 3, true))
LAYERS(linear_no_bias, tjnn_linear_layer(w, "m", &m->linear, 4, 3, false))
APPLY(linear, y[0] = tjnn_linear_apply(&m->linear, in[0]))
LAYERS(embedding, tjnn_embedding_layer(w, "m", &m->embedding, 6, 4, 2))
static const int64_t places[] = { 0, 2, 5, 2, 1, 3 };
APPLY(embedding, (void)in; y[0] = tjnn_embedding_apply(&m->embedding, tj_constant(tj_ctx_current(), TJ_I64, TJ_SHAPE(2, 3), places)))
LAYERS(conv1d,
       tjnn_conv_layer(w, "m", &m->conv, 3, 4, TJ_SHAPE(3), true, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2), .padding = TJ_EACH(1))))
LAYERS(conv2d, tjnn_conv_layer(w, "m", &m->conv, 4, 6, TJ_SHAPE(3, 2), true, TJ_OPTS(tj_conv_opts, .padding = TJ_EACH(1), .groups = 2)))
LAYERS(conv3d, tjnn_conv_layer(w, "m", &m->conv, 2, 3, TJ_SHAPE(2, 2, 2), false, NULL))
LAYERS(conv_transpose2d, tjnn_conv_transpose_layer(w, "m", &m->conv, 4, 6, TJ_SHAPE(3, 3), true,
                                                   TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2), .padding = TJ_EACH(1),
                                                           .output_padding = TJ_EACH(1), .groups = 2)))
APPLY(conv, y[0] = tjnn_conv_apply(&m->conv, in[0]))
LAYERS(batch_norm, tjnn_batch_norm_layer(w, "m", &m->norm, 3))
LAYERS(instance_norm, tjnn_instance_norm_layer(w, "m", &m->norm, 3, true))
LAYERS(group_norm, tjnn_group_norm_layer(w, "m", &m->norm, 2, 4))
LAYERS(layer_norm, tjnn_layer_norm_layer(w, "m", &m->norm, TJ_SHAPE(3, 4), true))
LAYERS(rms_norm, tjnn_rms_norm_layer(w, "m", &m->norm, TJ_SHAPE(4)))
APPLY(norm, y[0] = tjnn_norm_apply(&m->norm, in[0], true))
APPLY(norm_eval, y[0] = tjnn_norm_apply(&m->norm, in[0], false))
LAYERS(attention, tjnn_attention_layer(w, "m", &m->attention, 8, 2, NULL))
LAYERS(attention_no_bias, tjnn_attention_layer(w, "m", &m->attention, 8, 2, TJ_OPTS(tjnn_attention_layer_opts, .no_bias = true)))
static const unsigned char padded[] = { 0, 0, 1, 1, 0, 1, 0, 0 };
static const tjnn_attend causal = { .size = sizeof causal, .causal = true };
APPLY(attention, y[0] = tjnn_attention_apply(&m->attention, in[0], in[0], in[0], NULL))
APPLY(attention_causal, y[0] = tjnn_attention_apply(&m->attention, in[0], in[0], in[0], &causal))
APPLY(attention_cross, tj_tensor *p = tj_constant(tj_ctx_current(), TJ_BOOL, TJ_SHAPE(2, 4), padded);
      y[0] = tjnn_attention_apply(&m->attention, in[0], in[1], in[2], TJ_OPTS(tjnn_attend, .padding = p)))
#define BLOCK(...) TJ_OPTS(tjnn_block_opts, .width = 8, .heads = 2, .hidden = 12, __VA_ARGS__)
LAYERS(encoder, tjnn_encoder_block_layer(w, "m", &m->encoder, BLOCK(.gelu = false)))
LAYERS(encoder_first, tjnn_encoder_block_layer(w, "m", &m->encoder, BLOCK(.norm_first = true, .gelu = true, .no_bias = true)))
LAYERS(decoder, tjnn_decoder_block_layer(w, "m", &m->decoder, BLOCK(.gelu = false)))
LAYERS(decoder_first, tjnn_decoder_block_layer(w, "m", &m->decoder, BLOCK(.norm_first = true)))
APPLY(encoder, y[0] = tjnn_encoder_block_apply(&m->encoder, in[0], NULL, true))
APPLY(encoder_first, y[0] = tjnn_encoder_block_apply(&m->encoder, in[0], &causal, true))
APPLY(decoder, y[0] = tjnn_decoder_block_apply(&m->decoder, in[0], in[1], &causal, NULL, true))
APPLY(decoder_first, y[0] = tjnn_decoder_block_apply(&m->decoder, in[0], in[1], NULL, NULL, true))
#define CELLS(...) TJ_OPTS(tjnn_recurrent_opts, __VA_ARGS__)
LAYERS(rnn_tanh, tjnn_recurrent_layer(w, "m", &m->recurrent, TJNN_RNN_TANH, 3, 4, NULL))
LAYERS(rnn_relu, tjnn_recurrent_layer(w, "m", &m->recurrent, TJNN_RNN_RELU, 3, 4, CELLS(.layers = 2, .both = true, .time_first = true)))
LAYERS(gru, tjnn_recurrent_layer(w, "m", &m->recurrent, TJNN_GRU, 3, 4, CELLS(.layers = 2, .both = true)))
LAYERS(lstm, tjnn_recurrent_layer(w, "m", &m->recurrent, TJNN_LSTM, 3, 4, CELLS(.layers = 2)))
LAYERS(lstm_both, tjnn_recurrent_layer(w, "m", &m->recurrent, TJNN_LSTM, 3, 4, CELLS(.both = true, .no_bias = true)))
APPLY(recurrent, tjnn_carry c = { 0 }; y[0] = tjnn_recurrent_apply(&m->recurrent, in[0], &c, true); y[1] = c.h; y[2] = c.c)
static const tjnn_spec chain[] = {
	{ .kind = TJNN_CONV2D, .in = 1, .out = 4, .kernel = 3, .padding = 1 },
	{ .kind = TJNN_BATCH, .out = 4 },
	{ .kind = TJNN_RELU },
	{ .kind = TJNN_RESIDUAL, .n = 2 },
	{ .kind = TJNN_CONV2D, .in = 4, .out = 4, .kernel = 3, .padding = 1 },
	{ .kind = TJNN_GELU },
	{ .kind = TJNN_MAX_POOL2D, .kernel = 2 },
	{ .kind = TJNN_CONV_TRANSPOSE2D, .in = 4, .out = 2, .kernel = 2, .stride = 2 },
	{ .kind = TJNN_AVG_POOL2D, .kernel = 2 },
	{ .kind = TJNN_FLATTEN },
	{ .kind = TJNN_LINEAR, .in = 8, .out = 3 },
	{ .kind = TJNN_TANH },
	{ .kind = TJNN_LAYER, .out = 3 },
	{ .kind = TJNN_END_SPEC },
};
LAYERS(sequential, tjnn_sequential_layer(w, "m", &m->sequential, chain))
APPLY(sequential, y[0] = tjnn_sequential_apply(&m->sequential, in[0], true))

#define D(...) \
	{ \
		__VA_ARGS__, TJ_END_DIM \
	}
static const module modules[] = {
	{ "linear", linear_layers, linear_apply, 1, { { 7, D(2, 5, 4) } } },
	{ "linear_no_bias", linear_no_bias_layers, linear_apply, 1, { { 7, D(2, 4) } } },
	{ "embedding", embedding_layers, embedding_apply, 1, { { 7, D(1) } } },
	{ "conv1d", conv1d_layers, conv_apply, 1, { { 7, D(2, 3, 9) } } },
	{ "conv2d", conv2d_layers, conv_apply, 1, { { 7, { 2, 4, 5, 6, TJ_END_DIM } } } },
	{ "conv3d", conv3d_layers, conv_apply, 1, { { 7, { 1, 2, 3, 4, 3 } } } },
	{ "conv_transpose2d", conv_transpose2d_layers, conv_apply, 1, { { 7, D(2, 4, 3, 4) } } },
	{ "batch_norm", batch_norm_layers, norm_apply, 1, { { 7, D(2, 3, 4, 5) } } },
	{ "batch_norm_eval", batch_norm_layers, norm_eval_apply, 1, { { 7, D(5, 3) } } },
	{ "instance_norm", instance_norm_layers, norm_apply, 1, { { 7, D(2, 3, 4, 5) } } },
	{ "group_norm", group_norm_layers, norm_apply, 1, { { 7, D(2, 4, 3, 3) } } },
	{ "layer_norm", layer_norm_layers, norm_apply, 1, { { 7, D(2, 3, 4) } } },
	{ "rms_norm", rms_norm_layers, norm_apply, 1, { { 7, D(2, 3, 4) } } },
	{ "attention", attention_layers, attention_apply, 1, { { 7, D(2, 3, 8) } } },
	{ "attention_causal", attention_no_bias_layers, attention_causal_apply, 1, { { 7, D(2, 3, 8) } } },
	{ "attention_cross", attention_layers, attention_cross_apply, 1, { { 7, D(2, 3, 8) }, { 8, D(2, 4, 8) }, { 9, D(2, 4, 8) } } },
	{ "encoder", encoder_layers, encoder_apply, 1, { { 7, D(2, 3, 8) } } },
	{ "encoder_first", encoder_first_layers, encoder_first_apply, 1, { { 7, D(2, 3, 8) } } },
	{ "decoder", decoder_layers, decoder_apply, 1, { { 7, D(2, 3, 8) }, { 8, D(2, 4, 8) } } },
	{ "decoder_first", decoder_first_layers, decoder_first_apply, 1, { { 7, D(2, 3, 8) }, { 8, D(2, 4, 8) } } },
	{ "rnn_tanh", rnn_tanh_layers, recurrent_apply, 2, { { 7, D(2, 5, 3) } } },
	{ "rnn_relu", rnn_relu_layers, recurrent_apply, 2, { { 7, D(5, 2, 3) } } },
	{ "gru", gru_layers, recurrent_apply, 2, { { 7, D(2, 5, 3) } } },
	{ "lstm", lstm_layers, recurrent_apply, 3, { { 7, D(2, 5, 3) } } },
	{ "lstm_both", lstm_both_layers, recurrent_apply, 3, { { 7, D(2, 5, 3) } } },
	{ "sequential", sequential_layers, sequential_apply, 1, { { 7, D(2, 1, 4, 4) } } },
};

/* ---- elements as record_modules.py has them ---- */
static double value(int64_t i, int salt) { return (double)((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100; }
static int salt_of(const char *name)
{
	int sum = 0;
	for (; *name; name++) sum += (unsigned char)*name;
	return sum % 97;
}

static tj_tensor *filled(tj_ctx *c, const int64_t *dim, int rank, int salt)
{
	static double v[1 << 12];
	int64_t shape[TJ_MAX_RANK + 1], n = 1;
	for (int i = 0; i < rank; i++) n *= shape[i] = dim[i];
	shape[rank] = TJ_END_DIM;
	for (int64_t i = 0; i < n; i++) v[i] = value(i, salt);
	return tj_from_data(c, TJ_F64, shape, v);
}

static void fill_model(tj_ctx *c, tjnn_model *m)
{
	for (int64_t i = 0; i < tjnn_count(m); i++) {
		const tjnn_slot *s = tjnn_at(m, i);
		if (s->dtype != TJ_F64) continue;
		tj_tensor *t = filled(c, s->dim, s->rank, salt_of(s->name));
		tj_assign(*s->var, strstr(s->name, "running_var") ? tj_add(tj_abs(t), tj_f(0.1)) : tj_mul(t, tj_f(0.5)));
	}
}

static void sums(tj_tensor *t, double *out)
{
	const int64_t n = tj_numel(t);
	const double *v = tj_data(tj_cast(t, TJ_F64));
	out[0] = out[1] = 0;
	for (int64_t i = 0; i < n; i++) {
		out[0] += v[i] / (double)(i + 1);
		out[1] += v[i] * sin((double)(i + 1));
	}
}

/* in: the inputs; out: the parts of the result, then the gradient by each parameter. */
typedef struct run {
	net *net;
	const module *of;
} run;
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const run *r = self;
	tj_tensor *y[PARTS], *loss = NULL;
	r->of->apply(r->net, in, y);
	for (int i = 0; i < r->of->parts; i++) {
		if (tj_is_poison(y[i])) return;
		tj_tensor *k = tj_reshape(tj_cos(tj_arange(TJ_F64, 0, tj_numel(y[i]), 1)), TJ_SHAPE(-1));
		tj_tensor *one = tj_sum(tj_mul(tj_flatten(y[i], 0, -1), k), TJ_ALL, false);
		loss = loss ? tj_add(loss, one) : one;
		out[i] = y[i];
	}
	tj_grad(out + r->of->parts, loss, tjnn_params(r->net->model), NULL);
}

static const recorded *find(const char *name)
{
	for (size_t i = 0; i < sizeof all_recorded / sizeof *all_recorded; i++)
		if (!strcmp(all_recorded[i].name, name)) return &all_recorded[i];
	fail_msg("%s was not recorded", name);
	return NULL;
}

static void names_of(const tjnn_model *m, char *to)
{
	*to = 0;
	for (int64_t i = 0; i < tjnn_count(m); i++) {
		const tjnn_slot *s = tjnn_at(m, i);
		to += sprintf(to, "%s%s[", i ? " " : "", s->name);
		for (int k = 0; k < s->rank; k++) to += sprintf(to, "%s%d", k ? "," : "", (int)s->dim[k]);
		to += sprintf(to, "]");
	}
}

static void compare(const module *of)
{
	const recorded *want = find(of->name);
	net n = { 0 };
	char names[4096];
	double got[64];
	int at = 0, nin = 0, param = 0;
	tj_tensor *in[4], *out[MOST];
	tj_ctx *c = kit_open();
	n.model = tjnn_open(c, of->layers, &n, TJ_OPTS(tjnn_open_opts, .dtype = TJ_F64));
	kit_ok(c);
	names_of(n.model, names);
	assert_string_equal(names, want->slots);
	fill_model(c, n.model);
	if (!strcmp(of->name, "embedding"))
		tj_assign(n.embedding.weight,
		          tj_index_fill(n.embedding.weight, 0, tj_from_data(c, TJ_I64, TJ_SHAPE(1), &places[1]), tj_f(0)));
	for (; nin < 3 && of->in[nin].salt; nin++) {
		int rank = 0;
		while (rank < 5 && of->in[nin].dim[rank] != TJ_END_DIM) rank++;
		in[nin] = filled(c, of->in[nin].dim, rank, of->in[nin].salt);
	}
	in[nin] = TJ_END;
	int64_t params = 0;
	while (tjnn_params(n.model)[params] != TJ_END) params++;
	run r = { &n, of };
	tj_fn *f = tj_compile(c, body, &r, TJ_OPTS(tj_compile_opts, .name = of->name, .nin = nin, .nout = of->parts + (int)params));
	tj_call(f, out, in);
	kit_ok(c);
	for (int i = 0; i < of->parts; i++, at += 2) sums(out[i], got + at);
	for (int64_t i = 0; i < tjnn_count(n.model); i++, at += 2) {
		const tjnn_slot *s = tjnn_at(n.model, i);
		sums(s->buffer ? *s->var : out[of->parts + param++], got + at);
	}
	assert_int_equal(at, want->n);
	for (int i = 0; i < at; i++)
		if (!(fabs(got[i] - want->value[i]) <= 1e-11 * (1 + fabs(want->value[i]))))
			fail_msg("%s: value %d is %.17g, PyTorch's %.17g", of->name, i, got[i], want->value[i]);
	tjnn_close(n.model);
	tj_close(c);
}

static void test_pytorch(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) compare(&modules[i]);
	assert_int_equal(sizeof modules / sizeof *modules, sizeof all_recorded / sizeof *all_recorded);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pytorch) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
