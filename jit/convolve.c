/* Convolution and pooling as they are called in networks: the rows of ops.def with their lists filled in. */
#include "jit/claim.h"

enum { AXES = 3 };

/* Without the axis of examples, as PyTorch allows it. */
static tj_tensor *batched(const char *site, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_unsqueeze_at(site, x, 0) : x; }
static tj_tensor *as_was(const char *site, tj_tensor *y, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_squeeze_at(site, y, TJ_SHAPE(0)) : y; }

/* The context, if the operands may be looked at; else NULL, and *y is what to return. */
static tj_ctx *ready(tj_ctx *c, const char *site, const char *name, int n, tj_tensor *x, tj_tensor **y)
{
	if (!c) return *y = jit_no_context(), NULL;
	*y = &c->rt.poison;
	if (jit_refuses(c, site, name)) return NULL;
	if (!x) return *y = jit_error(c, site, TJ_ERR_ARG, name, "an operand is made by another op, or by tj_from_data()", "x is NULL"), NULL;
	if (tj_is_poison(x)) return NULL;
	if (tj_rank(x) == n + 1 || tj_rank(x) == n + 2) return c;
	return *y = jit_error(c, site, TJ_ERR_SHAPE, name, "axes of examples and channels come first: [N,C,...], or [C,...]", "x has %d axes, %d or %d are needed", tj_rank(x), n + 1, n + 2), NULL;
}

/* ---- convolution ---- */
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

static tj_tensor *conv(tj_ctx *c, const char *site, const char *name, int n, bool transposed, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts)
{
	tj_conv_opts o = { 0 };
	tj_tensor *y;
	const char *hint = NULL;
	if (!ready(c, site, name, n, x, &y)) return y;
	if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
	const char *wrong = mistake(&o, n, transposed, &hint);
	if (wrong) return jit_error(c, site, TJ_ERR_ARG, name, hint, "%s", wrong);
	if (!weight) return jit_error(c, site, TJ_ERR_ARG, name, "only the bias may be NULL", "the weight is NULL");
	if (tj_is_poison(weight) || (bias && tj_is_poison(bias))) return &c->rt.poison;
	if (tj_rank(weight) != n + 2) return jit_error(c, site, TJ_ERR_SHAPE, name, transposed ? "[C,O / groups,...]" : "[O,C / groups,...]", "the weight has %d axes, %d are needed", tj_rank(weight), n + 2);
	const int64_t groups = o.groups ? o.groups : 1, out = transposed ? tj_dim(weight, 1) * groups : tj_dim(weight, 0);
	if (bias && (tj_rank(bias) != 1 || tj_dim(bias, 0) != out)) return jit_error(c, site, TJ_ERR_SHAPE, name, "one number for each channel of the result", "the bias is not [%lld]", (long long)out);
	window w = conv_window(&o, n, !o.same);
	if (o.same) pad_to_same(&w, n, weight);
	tj_tensor *all = batched(site, x, n);
	if (o.padding_mode != TJ_PAD_CONSTANT) all = padded(site, all, &w, n, o.padding_mode);
	y = transposed ? tj_conv_transpose_at(site, all, weight, groups, w.list) : tj_conv_at(site, all, weight, groups, w.list);
	if (bias && !tj_is_poison(y)) y = with_bias(site, y, bias, n);
	return as_was(site, y, x, n);
}

#define CONV(n)                                                                                                                                       \
	tj_tensor *tj_conv##n##d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts)                     \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return conv(c, site, "conv" #n "d", n, false, x, weight, bias, opts);                                                                 \
	}                                                                                                                                             \
	tj_tensor *tj_conv_transpose##n##d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts)           \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return conv(c, site, "conv_transpose" #n "d", n, true, x, weight, bias, opts);                                                        \
	}
CONV(1)
CONV(2)
CONV(3)

/* ---- pools ---- */
static bool entries(tj_dims list, int n)
{
	int k = 0;
	while (list && k <= n && list[k] != TJ_END_DIM) k++;
	return k == n;
}

static tj_tensor *pool(tj_ctx *c, const char *site, const char *name, int n, bool mean, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts)
{
	tj_pool_opts o = { 0 };
	tj_tensor *y;
	window w;
	if (!ready(c, site, name, n, x, &y)) return y;
	if (!entries(kernel, n)) return jit_error(c, site, TJ_ERR_ARG, name, "as in tj_max_pool2d(x, TJ_SHAPE(3, 3), NULL)", "the window needs %d sizes", n);
	if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
	if (o.divisor < 0 || (o.divisor && o.exclude_padding)) return jit_error(c, site, TJ_ERR_ARG, name, "0 counts the elements", o.divisor < 0 ? ".divisor is negative" : ".divisor and .exclude_padding are both set");
	if (!mean && (o.divisor || o.exclude_padding)) return jit_error(c, site, TJ_ERR_ARG, name, "padding is never the largest", ".divisor and .exclude_padding are for avg_pool");
	for (int i = 0; i < n; i++) {
		w.list[i] = kernel[i];
		w.list[n + i] = given(o.stride, i, kernel[i]);
		w.list[2 * n + i] = given(o.dilation, i, 1);
		w.list[3 * n + 2 * i] = w.list[3 * n + 2 * i + 1] = o.padding[i];
	}
	w.list[5 * n] = TJ_END_DIM;
	return mean ? tj_avg_pool_at(site, x, w.list, o.ceil, o.exclude_padding ? -1 : o.divisor) : tj_max_pool_at(site, x, w.list, o.ceil);
}

/* The whole of the last n axes. Of equal largest elements the first one has the gradient. */
static tj_tensor *of_all(const char *site, bool mean, tj_tensor *x, int n)
{
	int64_t axes[AXES + 1], shape[TJ_MAX_RANK + 1];
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) axes[i] = first + i;
	axes[n] = TJ_END_DIM;
	if (mean) return tj_mean_at(site, x, axes, true);
	for (int i = 0; i < first + n; i++) shape[i] = i < first ? tj_dim(x, i) : 1;
	shape[first + n] = TJ_END_DIM;
	int64_t flat[TJ_MAX_RANK + 1];
	memcpy(flat, shape, sizeof flat);
	flat[first] = 1;
	for (int i = 0; i < n; i++) flat[first] *= tj_dim(x, first + i);
	flat[first + 1] = TJ_END_DIM;
	return tj_reshape_at(site, tj_max_with_indices_at(site, tj_reshape_at(site, x, flat), -1, false, NULL), shape);
}

/* Part i of an axis goes from i * size / parts, rounded down, to (i + 1) * size / parts, rounded up: so parts may overlap. All are read with the
 * length of the longest, up to their last element; what is read too often does not count. */
static tj_tensor *in_parts(const char *site, bool mean, tj_tensor *x, int axis, int64_t parts)
{
	const int64_t size = tj_dim(x, axis), most = (size + parts - 1) / parts + 1;
	const tj_device d = tj_device_of(x);
	int64_t shape[TJ_MAX_RANK + 2], behind[TJ_MAX_RANK + 2] = { parts, most };
	int rank = 0, ones = 2;
	tj_tensor *i = tj_to_at(site, tj_arange_at(site, TJ_I64, 0, parts, 1), d), *k = tj_to_at(site, tj_arange_at(site, TJ_I64, 0, most, 1), d);
	tj_tensor *from = tj_floor_divide_at(site, tj_mul_at(site, i, tj_i(size)), tj_i(parts));
	tj_tensor *to = tj_neg_at(site, tj_floor_divide_at(site, tj_mul_at(site, tj_add_at(site, i, tj_i(1)), tj_i(-size)), tj_i(parts)));
	tj_tensor *place = tj_add_at(site, tj_unsqueeze_at(site, from, 1), k), *last = tj_unsqueeze_at(site, tj_sub_at(site, to, tj_i(1)), 1);
	tj_tensor *at = tj_reshape_at(site, tj_minimum_at(site, place, last), TJ_SHAPE(parts * most));
	for (int a = 0; a < tj_rank(x); a++) {
		shape[rank++] = a == axis ? parts : tj_dim(x, a);
		if (a == axis) shape[rank++] = most;
		if (a > axis) behind[ones++] = 1;
	}
	shape[rank] = behind[ones] = TJ_END_DIM;
	tj_tensor *all = tj_reshape_at(site, tj_index_select_at(site, x, axis, at), shape);
	if (!mean) return tj_max_with_indices_at(site, all, axis + 1, false, NULL);
	tj_tensor *counts = tj_reshape_at(site, tj_le_at(site, place, last), behind);
	behind[1] = ones > 2 ? 1 : TJ_END_DIM;
	behind[ones - 1] = TJ_END_DIM; /* one for each part */
	return tj_div_at(site, tj_sum_at(site, tj_where_at(site, counts, all, tj_i(0)), TJ_SHAPE(axis + 1), false), tj_reshape_at(site, tj_sub_at(site, to, from), behind));
}

/* Whether windows of one size side by side give the sizes. */
static bool even(tj_tensor *x, int n, tj_dims sizes, window *w)
{
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) {
		const int64_t size = tj_dim(x, first + i);
		if (size % sizes[i]) return false;
		w->list[i] = w->list[n + i] = size / sizes[i];
		w->list[2 * n + i] = 1;
		w->list[3 * n + 2 * i] = w->list[3 * n + 2 * i + 1] = 0;
	}
	w->list[5 * n] = TJ_END_DIM;
	return true;
}

static tj_tensor *adaptive(tj_ctx *c, const char *site, const char *name, int n, bool mean, tj_tensor *x, tj_dims sizes)
{
	tj_tensor *y;
	window w;
	bool one = true;
	if (!ready(c, site, name, n, x, &y)) return y;
	if (!entries(sizes, n)) return jit_error(c, site, TJ_ERR_ARG, name, "as in tj_adaptive_avg_pool2d(x, TJ_SHAPE(7, 7))", "%d sizes of the result are needed", n);
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) {
		if (sizes[i] < 1) return jit_error(c, site, TJ_ERR_ARG, name, "1 is the pool of a whole axis", "size %d of the result is %lld", i, (long long)sizes[i]);
		if (tj_dim(x, first + i) < 1) return jit_error(c, site, TJ_ERR_SHAPE, name, "there is no result for an empty axis", "axis %d of x has size 0", first + i);
		one &= sizes[i] == 1;
	}
	const tj_dtype t = tj_dtype_of(x);
	if (mean && !rt_is_float(t)) return jit_error(c, site, TJ_ERR_DTYPE, name, "cast it first: tj_cast(x, TJ_F32)", "a mean of %s is no %s", tj_dtype_name(t), tj_dtype_name(t));
	if (one) return of_all(site, mean, x, n);
	if (even(x, n, sizes, &w)) return mean ? tj_avg_pool_at(site, x, w.list, false, 0) : tj_max_pool_at(site, x, w.list, false);
	y = mean && rt_is_narrow(t) ? tj_cast_at(site, x, TJ_F32) : x;
	for (int i = 0; i < n && !tj_is_poison(y); i++)
		if (tj_dim(y, first + i) != sizes[i]) y = in_parts(site, mean, y, first + i, sizes[i]);
	return tj_dtype_of(y) == t ? y : tj_cast_at(site, y, t);
}

#define POOLS(n)                                                                                                                                      \
	tj_tensor *tj_max_pool##n##d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts)                                     \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return pool(c, site, "max_pool" #n "d", n, false, x, kernel, opts);                                                                   \
	}                                                                                                                                             \
	tj_tensor *tj_avg_pool##n##d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts)                                     \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return pool(c, site, "avg_pool" #n "d", n, true, x, kernel, opts);                                                                    \
	}                                                                                                                                             \
	tj_tensor *tj_adaptive_max_pool##n##d_at(const char *site, tj_tensor *x, tj_dims sizes)                                                       \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return adaptive(c, site, "adaptive_max_pool" #n "d", n, false, x, sizes);                                                             \
	}                                                                                                                                             \
	tj_tensor *tj_adaptive_avg_pool##n##d_at(const char *site, tj_tensor *x, tj_dims sizes)                                                       \
	{                                                                                                                                             \
		JIT_CURRENT(c, site);                                                                                                                 \
		return adaptive(c, site, "adaptive_avg_pool" #n "d", n, true, x, sizes);                                                              \
	}
POOLS(1)
POOLS(2)
POOLS(3)
