/* SPDX-License-Identifier: MIT */
/* Convolution as it is called in networks: the rows conv and conv_transpose of ops.def with their lists filled in. */
#include "functions/functions.h"

enum { AXES = 3 };

typedef struct window { int64_t list[5 * AXES + 1]; } window;

/* A field of the options by axis: 0 is the default. */
static int64_t given(const int64_t *field, int i, int64_t by_default) { return field[i] ? field[i] : by_default; }

static window conv_window(const tj_conv_opts *o, int n, bool pads)
{
	window w;
	for (int i = 0; i < n; i++) {
		w.list[i] = given(o->stride, i, 1);
		w.list[n + i] = given(o->dilation, i, 1);
		w.list[2 * n + 2 * i] = pads ? o->padding[i] : 0;
		w.list[2 * n + 2 * i + 1] = pads ? o->padding[i] - o->output_padding[i] : 0;
	}
	w.list[4 * n] = TJ_END_DIM;
	return w;
}

/* `same`: the result has the size of x; what is odd comes behind. */
static void pad_to_same(window *w, int n, tj_tensor *weight)
{
	for (int i = 0; i < n; i++) {
		const int64_t all = w->list[n + i] * (tj_dim(weight, 2 + i) - 1);
		w->list[2 * n + 2 * i] = all / 2;
		w->list[2 * n + 2 * i + 1] = all - all / 2;
	}
}

/* What is wrong with the options, and a hint; NULL: nothing. */
static const char *mistake(const tj_conv_opts *o, int n, bool transposed, const char **hint)
{
	for (int i = 0; i < n; i++) {
		const int64_t stride = given(o->stride, i, 1), dilation = given(o->dilation, i, 1), out = o->output_padding[i];
		*hint = "negative padding is not padding: tj_slice() the operand";
		if (o->padding[i] < 0) return ".padding is negative";
		*hint = "set .padding";
		if (o->same && stride != 1) return ".same needs a stride of 1";
		*hint = "it adds to one side of the result of conv_transpose what a stride left out";
		if (out && !transposed) return ".output_padding is for conv_transpose";
		if (out < 0 || (out && out >= stride && out >= dilation)) return ".output_padding is not below the stride or the dilation";
		*hint = ".same and .padding say the same thing in two ways: choose one";
		if (o->same && o->padding[i]) return ".same and .padding are both set";
	}
	*hint = "only TJ_PAD_CONSTANT, which pads with zeros";
	if (transposed && (o->same || o->padding_mode != TJ_PAD_CONSTANT)) return ".same and .padding_mode are not for conv_transpose";
	return NULL;
}

/* Moves the padding of the window into x, with elements of x. */
static tj_tensor *padded(const char *site, tj_tensor *x, window *w, int n, tj_pad_mode mode)
{
	int64_t pads[2 * AXES + 1];
	for (int i = 0; i < 2 * n; i++) {
		pads[i] = w->list[2 * n + i];
		w->list[2 * n + i] = 0;
	}
	pads[2 * n] = TJ_END_DIM;
	return tj_pad_at(site, x, pads, mode, tj_i(0));
}

static tj_tensor *with_bias(const char *site, tj_tensor *y, tj_tensor *bias, int n)
{
	int64_t shape[] = { tj_dim(bias, 0), 1, 1, 1, TJ_END_DIM };
	shape[n + 1] = TJ_END_DIM;
	return tj_add_at(site, y, tj_reshape_at(site, bias, shape));
}

/* What is wrong with the operands, reported: poison. NULL: nothing. */
static tj_tensor *misfit(const char *site, const char *name, int n, bool transposed, tj_tensor *x, tj_tensor *weight, tj_tensor *bias,
                         int64_t groups)
{
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (!bad) bad = fn_bad(site, name, "the weight", weight);
	if (!bad && bias) bad = fn_bad(site, name, "the bias", bias);
	if (bad) return bad;
	if (tj_rank(weight) != n + 2)
		return tj_fail_at(site, TJ_ERR_SHAPE, name, transposed ? "[C,O / groups,...]" : "[O,C / groups,...]",
		                  "the weight has %d axes, %d are needed", tj_rank(weight), n + 2);
	const int64_t out = transposed ? tj_dim(weight, 1) * groups : tj_dim(weight, 0);
	if (bias && (tj_rank(bias) != 1 || tj_dim(bias, 0) != out))
		return tj_fail_at(site, TJ_ERR_SHAPE, name, "one number for each channel of the result", "the bias is not [%lld]",
		                  (long long)out);
	return NULL;
}

static tj_tensor *without_bias(const char *site, int n, bool transposed, tj_tensor *x, tj_tensor *weight, int64_t groups,
                               const tj_conv_opts *o)
{
	window w = conv_window(o, n, !o->same);
	if (o->same) pad_to_same(&w, n, weight);
	if (o->padding_mode != TJ_PAD_CONSTANT) x = padded(site, x, &w, n, o->padding_mode);
	return transposed ? tj_conv_transpose_at(site, x, weight, groups, w.list) : tj_conv_at(site, x, weight, groups, w.list);
}

static tj_tensor *conv(const char *site, const char *name, int n, bool transposed, tj_tensor *x, tj_tensor *weight, tj_tensor *bias,
                       const tj_conv_opts *opts)
{
	NN_OPTIONS(tj_conv_opts, o, opts);
	const char *hint = NULL, *wrong = mistake(&o, n, transposed, &hint);
	const int64_t groups = o.groups ? o.groups : 1;
	if (wrong) return tj_fail_at(site, TJ_ERR_ARG, name, hint, "%s", wrong);
	tj_tensor *y = misfit(site, name, n, transposed, x, weight, bias, groups);
	if (y) return y;
	const tj_dtype t = tj_dtype_of(x);
	const bool wide = bias && fn_is_narrow(t) && tj_dtype_of(weight) == t; /* so that product and bias are rounded together, once */
	if (wide) x = tj_cast_at(site, x, TJ_F32), weight = tj_cast_at(site, weight, TJ_F32);
	y = without_bias(site, n, transposed, fn_batched(site, x, n), weight, groups, &o);
	if (bias && !tj_is_poison(y)) y = with_bias(site, y, bias, n);
	return fn_as_was(site, wide ? tj_cast_at(site, y, t) : y, x, n);
}

#define CONV(n) \
	tj_tensor *tj_conv##n##d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts) \
	{ \
		return conv(site, "conv" #n "d", n, false, x, weight, bias, opts); \
	} \
	tj_tensor *tj_conv_transpose##n##d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, \
	                                      const tj_conv_opts *opts) \
	{ \
		return conv(site, "conv_transpose" #n "d", n, true, x, weight, bias, opts); \
	}
CONV(1)
CONV(2)
CONV(3)

