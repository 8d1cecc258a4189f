/* SPDX-License-Identifier: MIT */
/* Linear layers, recurrent cells and bags of embeddings (functions/cell.c): values of PyTorch, gradients to the third order, compiled code,
 * a cell in a scan, errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-12, #name)
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }
static tj_cell cell_of(int gates)
{
	return (tj_cell){ x(3, TJ_SHAPE(gates * 5, 4)), x(4, TJ_SHAPE(gates * 5, 5)), x(5, TJ_SHAPE(gates * 5)),
		          x(6, TJ_SHAPE(gates * 5)) };
}

static void values(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *in = x(0, TJ_SHAPE(3, 4)), *h = x(1, TJ_SHAPE(3, 5)), *next;
	KNOWN(tj_linear(x(0, TJ_SHAPE(2, 3, 4)), x(1, TJ_SHAPE(5, 4)), x(2, TJ_SHAPE(5))), linear);
	KNOWN(tj_bilinear(in, x(1, TJ_SHAPE(3, 2)), x(2, TJ_SHAPE(5, 4, 2)), x(3, TJ_SHAPE(5))), bilinear);
	tj_cell w = cell_of(1);
	KNOWN(tj_rnn_tanh_cell(in, h, &w), rnn);
	KNOWN(tj_rnn_relu_cell(in, h, &w), rnn_relu);
	w = cell_of(3);
	KNOWN(tj_gru_cell(in, h, &w), gru);
	tj_tensor *one = tj_gru_cell(tj_squeeze(tj_slice(in, 0, 0, 1, 1), TJ_AXES(0)), tj_squeeze(tj_slice(h, 0, 0, 1, 1), TJ_AXES(0)),
	                             &w); /* without N */
	assert_int_equal(tj_rank(one), 1);
	layer_near(one, 5, known_gru, 1e-12, "gru of one");
	w = cell_of(4);
	KNOWN(tj_lstm_cell(in, h, x(2, TJ_SHAPE(3, 5)), &w, &next), lstm_h);
	KNOWN(next, lstm_c);
	kit_ok(c);
	tj_close(c);
}

static const int64_t ids[] = { 1, 0, 4, 2, 2, 4 }, begins[] = { 0, 2, 2, 5 };
static void bags(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *table = x(0, TJ_SHAPE(5, 3)), *rows = tj_from_data(c, TJ_I64, TJ_SHAPE(2, 3), ids),
		  *flat = tj_from_data(c, TJ_I64, TJ_SHAPE(6), ids), *starts = tj_from_data(c, TJ_I64, TJ_SHAPE(4), begins);
	static const struct { const double *plain, *pads, *offsets, *offsets_pads;
	} known[] = {
		{ known_bag_sum, known_bag_pads_sum, known_bag_offsets_sum, known_bag_offsets_pads_sum },
		{ known_bag_mean, known_bag_pads_mean, known_bag_offsets_mean, known_bag_offsets_pads_mean },
		{ known_bag_max, known_bag_pads_max, known_bag_offsets_max, known_bag_offsets_pads_max },
	};
	for (int mode = TJ_BAG_SUM; mode <= TJ_BAG_MAX; mode++) {
		const tj_bag_opts o = { .size = sizeof o, .mode = (tj_bag_mode)mode },
				  pads = { .size = sizeof o, .mode = (tj_bag_mode)mode, .pads = true, .padding_index = 4 };
		const tj_bag_opts offsets = { .size = sizeof o, .mode = (tj_bag_mode)mode, .offsets = starts }, both = {
			.size = sizeof o, .mode = (tj_bag_mode)mode, .offsets = starts, .pads = true, .padding_index = 2
		};
		layer_near(tj_embedding_bag(rows, table, &o), 6, known[mode].plain, 1e-12, "bag");
		layer_near(tj_embedding_bag(rows, table, &pads), 6, known[mode].pads, 1e-12, "bag with padding");
		layer_near(tj_embedding_bag(flat, table, &offsets), 12, known[mode].offsets, 1e-12, "bag with offsets");
		layer_near(tj_embedding_bag(tj_cast(flat, TJ_I32), table, &both), 12, known[mode].offsets_pads, 1e-12, "bag with both");
		for (int i = 0; i < 3; i++) assert_true(((const double *)tj_data(tj_embedding_bag(tj_zeros(TJ_I64, TJ_SHAPE(1, 0)), table, &o)))[i] == 0);
	}
	static const int64_t wrong[][3] = { { 0, 2, 1 }, { 1, 2, 3 }, { -1, 0, 1 }, { 0, 1, 7 } };
	for (int k = 0; k < 4; k++) {
		tj_bag_opts o = { .offsets = tj_from_data(c, TJ_I64, TJ_SHAPE(3), wrong[k]) };
		for (int mode = 0; mode < 3; mode++) {
			o.mode = (tj_bag_mode)mode;
			tj_item(tj_sum(tj_embedding_bag(flat, table, &o), TJ_ALL, false));
			kit_error(c, TJ_ERR_INDEX, "the offsets do not ascend from 0");
			assert_string_equal(tj_last_error(c)->op, "embedding_bag");
		}
	}
	KNOWN(tj_embedding_bag(rows, table, TJ_OPTS(tj_bag_opts, .weights = x(1, TJ_SHAPE(2, 3)))), bag_weights);
	KNOWN(tj_embedding_bag(flat, table, TJ_OPTS(tj_bag_opts, .weights = x(1, TJ_SHAPE(6)), .offsets = starts)), bag_offsets_weights);
	kit_ok(c);
	tj_close(c);
}

/* ---- as layers ---- */
enum { LINEAR, BILINEAR, TANH, RELU, GRU, LSTM, BAG, BAG_MEAN, BAG_MAX, BAG_OFFSETS, KINDS };
static void of_kind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *next;
	tj_ctx *c = tj_ctx_current();
	const tj_cell w = { in[2], in[3], in[4], in[5] };
	const int kind = *(int *)self;
	tj_tensor *rows = tj_constant(c, TJ_I64, TJ_SHAPE(2, 3), ids), *flat = tj_constant(c, TJ_I64, TJ_SHAPE(6), ids),
		  *starts = tj_constant(c, TJ_I64, TJ_SHAPE(4), begins);
	switch (kind) {
	case LINEAR: out[0] = tj_linear(in[0], in[1], in[2]); break;
	case BILINEAR: out[0] = tj_bilinear(in[0], in[1], in[2], in[3]); break;
	case TANH: out[0] = tj_rnn_tanh_cell(in[0], in[1], &w); break;
	case RELU: out[0] = tj_rnn_relu_cell(in[0], in[1], &w); break;
	case GRU: out[0] = tj_gru_cell(in[0], in[1], &w); break;
	case LSTM: out[0] = tj_lstm_cell(in[0], in[1], in[1], &w, &next), out[0] = tj_add(out[0], next); break;
	case BAG: out[0] = tj_embedding_bag(rows, in[0], TJ_OPTS(tj_bag_opts, .weights = in[1], .pads = true, .padding_index = 4)); break;
	case BAG_MEAN: out[0] = tj_embedding_bag(rows, in[0], TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MEAN)); break;
	case BAG_MAX: out[0] = tj_embedding_bag(rows, in[0], TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MAX)); break;
	default: out[0] = tj_embedding_bag(flat, in[0], TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MEAN, .offsets = starts)); break;
	}
}

static void gradients(void **state)
{
	(void)state;
	static const int nin[] = { 3, 4, 6, 6, 6, 6, 2, 1, 1, 1 }, gates[] = { 0, 0, 1, 1, 3, 4 };
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++)
		for (tj_dtype t = TJ_F64; t >= (strcmp(kit_backend, "eval") ? TJ_F16 : TJ_F64); t--) {
			char what[32];
			snprintf(what, sizeof what, "case %d of %s", kind, tj_dtype_name(t));
			layer l = { .body = of_kind, .self = &kind, .nin = nin[kind] };
			const int g = kind <= LSTM ? gates[kind] : 0;
			l.in[0] = kind >= BAG ? layer_tensor(c, t, TJ_SHAPE(5, 3), 0) : layer_tensor(c, t, TJ_SHAPE(2, 3), 0);
			l.in[1] = kind == LINEAR ? layer_tensor(c, t, TJ_SHAPE(4, 3), 1) : layer_tensor(c, t, TJ_SHAPE(2, 3), 1);
			l.in[2] = kind == LINEAR     ? layer_tensor(c, t, TJ_SHAPE(4), 2)
			          : kind == BILINEAR ? layer_tensor(c, t, TJ_SHAPE(4, 3, 3), 2)
			                             : layer_tensor(c, t, TJ_SHAPE(3 * g, 3), 2);
			l.in[3] = kind == BILINEAR ? layer_tensor(c, t, TJ_SHAPE(4), 3) : layer_tensor(c, t, TJ_SHAPE(3 * g, 3), 3);
			l.in[4] = layer_tensor(c, t, TJ_SHAPE(3 * g), 4);
			l.in[5] = layer_tensor(c, t, TJ_SHAPE(3 * g), 5);
			layer_check(&l, what);
		}
	kit_ok(c);
	tj_close(c);
}

/* ---- a network over 20 steps, by a scan, against a loop ---- */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_lstm_cell(in[2], in[0], in[1], self, &out[1]);
	out[2] = out[0];
}
static void sequence(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_cell w = { in[1], in[2], in[3], NULL };
	tj_tensor *carry[2] = { tj_zeros(TJ_F32, TJ_SHAPE(2, 5)), tj_zeros(TJ_F32, TJ_SHAPE(2, 5)) };
	if (self) {
		for (int i = 0; i < 20; i++)
			carry[0] = tj_lstm_cell(tj_squeeze(tj_slice(in[0], 0, i, i + 1, 1), TJ_AXES(0)), carry[0], carry[1], &w, &carry[1]);
	} else {
		tj_tensor *all;
		tj_scan(carry, &all, 1, step, TJ_LIST(carry[0], carry[1]), TJ_LIST(in[0]), (void *)(uintptr_t)&w, NULL);
	}
	out[0] = carry[0];
	tj_grad(out + 1, tj_sum(tj_square(out[0]), TJ_ALL, false), TJ_LIST(in[1], in[2], in[3]), NULL);
}
static void scanned(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *y[4], *z[4],
		*in[] = { layer_tensor(c, TJ_F32, TJ_SHAPE(20, 2, 4), 0), layer_tensor(c, TJ_F32, TJ_SHAPE(20, 4), 1),
		          layer_tensor(c, TJ_F32, TJ_SHAPE(20, 5), 2), layer_tensor(c, TJ_F32, TJ_SHAPE(20), 3), TJ_END };
	int loop;
	assert_int_equal(tj_call(kit_fn(c, "scanned", sequence, NULL, 4, 4), y, in), TJ_OK);
	assert_int_equal(tj_call(kit_fn(c, "loop", sequence, &loop, 4, 4), z, in), TJ_OK);
	assert_memory_equal(tj_data(y[0]), tj_data(z[0]), 10 * sizeof(float));
	for (int i = 1; i < 4; i++)
		for (int64_t e = 0; e < tj_numel(y[i]); e++)
			assert_true(fabsf(((const float *)tj_data(y[i]))[e] - ((const float *)tj_data(z[i]))[e]) < 1e-5f);
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *in = x(0, TJ_SHAPE(3, 4)), *h = x(1, TJ_SHAPE(3, 5)), *next, *table = x(0, TJ_SHAPE(5, 3)),
		  *rows = tj_from_data(c, TJ_I64, TJ_SHAPE(2, 3), ids);
	tj_cell w = cell_of(4), other = cell_of(3);
	LAYER_REFUSED(tj_linear(in, x(0, TJ_SHAPE(5, 3)), NULL), SHAPE, "linear", "the last axis of x has size 4, the weight is for 3 inputs");
	LAYER_REFUSED(tj_linear(in, x(0, TJ_SHAPE(4)), NULL), SHAPE, "linear", "the weight has 1 axes");
	LAYER_REFUSED(tj_linear(in, x(0, TJ_SHAPE(5, 4)), x(0, TJ_SHAPE(4))), SHAPE, "linear", "the bias is not [5]");
	LAYER_REFUSED(tj_linear(NULL, h, NULL), ARG, "linear", "x is NULL");
	tj_tensor *bytes = tj_full(TJ_U8, TJ_SHAPE(1, 2), tj_i(20)),
		  *whole = tj_bilinear(bytes, bytes, tj_full(TJ_U8, TJ_SHAPE(1, 2, 2), tj_i(1)), NULL); /* 4 * 400, which wraps */
	assert_true(tj_dtype_of(whole) == TJ_U8 && tj_item_i(whole) == 64);
	LAYER_REFUSED(tj_bilinear(in, h, x(0, TJ_SHAPE(2, 4, 4)), NULL), SHAPE, "bilinear", "the operands do not fit");
	LAYER_REFUSED(tj_rnn_tanh_cell(in, h, NULL), ARG, "rnn_tanh_cell", "there are no weights");
	LAYER_REFUSED(tj_rnn_relu_cell(in, x(0, TJ_SHAPE(2, 5)), &w), SHAPE, "rnn_relu_cell", "x and h do not fit");
	LAYER_REFUSED(tj_gru_cell(in, h, &w), SHAPE, "gru_cell", "w_ih is not [15,4]");
	LAYER_REFUSED(tj_lstm_cell(in, h, h, &other, &next), SHAPE, "lstm_cell", "w_ih is not [20,4]");
	assert_true(tj_is_poison(next));
	LAYER_REFUSED(tj_lstm_cell(in, h, in, &w, &next), SHAPE, "lstm_cell", "c has not the shape of h");
	LAYER_REFUSED(tj_lstm_cell(in, h, h, &w, NULL), ARG, "lstm_cell", "c_next is NULL");
	LAYER_REFUSED(tj_embedding_bag(in, table, NULL), DTYPE, "embedding_bag", "the dtype of the index is f64");
	LAYER_REFUSED(tj_embedding_bag(rows, table, TJ_OPTS(tj_bag_opts, .offsets = rows)), SHAPE, "embedding_bag", "the index has 2 axes");
	LAYER_REFUSED(tj_embedding_bag(rows, table, TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MAX, .weights = in)), ARG, "embedding_bag",
	              ".weights are for sums alone");
	LAYER_REFUSED(tj_embedding_bag(rows, table, TJ_OPTS(tj_bag_opts, .weights = in)), SHAPE, "embedding_bag", ".weights has not the shape");
	LAYER_REFUSED(tj_embedding_bag(rows, x(0, TJ_SHAPE(5)), NULL), SHAPE, "embedding_bag", "the weight has 1 axes");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(bags), cmocka_unit_test(gradients),
		                            cmocka_unit_test(scanned), cmocka_unit_test(errors) };
	KIT_RUN(tests);
}
