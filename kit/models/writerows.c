/* SPDX-License-Identifier: MIT */
/* writerows: the table of written.def, and which composites stay whole in a file. */
#include "kit/models/write.h"

const ow_row ow_rows[] = {
#define OW(name, becomes, types, fn) { #name, becomes, types, fn },
#define FLOATS  OW_F32 | OW_F64
#define NUMBERS OW_F32 | OW_F64 | OW_I32 | OW_I64
#include "kit/models/written.def"
#undef OW
	{ NULL, NULL, 0, NULL },
};

const ow_row *ow_find_row(const char *name)
{
	const ow_row *r = ow_rows;
	while (r->name && strcmp(r->name, name)) r++;
	return r->name ? r : NULL;
}

const ow_row *ow_row_of(const tj_node *n) { return ow_find_row(tj_node_op(n)); }

bool tj_onnx_writes(int i, const char **op, const char **becomes)
{
	const int n = (int)(sizeof ow_rows / sizeof *ow_rows) - 1;
	if (i < 0 || i >= n) return false;
	if (op) *op = ow_rows[i].name;
	if (becomes) *becomes = ow_rows[i].becomes;
	return true;
}

/* ---- composites ---- */
static bool is(const tj_node *n, const char *op) { return !strcmp(tj_node_op(n), op); }

static bool known_number(const tj_node *n, int k, double *v)
{
	tj_node *x = tj_node_input(n, k);
	const void *p = x && !strcmp(tj_node_op(x), "constant") && !tj_node_rank(x) ? tj_node_data(x) : NULL;
	if (!p || (tj_node_dtype(x) != TJ_F32 && tj_node_dtype(x) != TJ_F64)) return false;
	if (tj_node_dtype(x) == TJ_F64) memcpy(v, p, sizeof *v);
	else {
		float f;
		memcpy(&f, p, sizeof f);
		*v = (double)f;
	}
	return true;
}

/* Attributes from `first` on; `lists` of one number by axis, then the padding. */
static bool plain_window(const tj_node *n, int first, int lists, bool dilated)
{
	const int axes = (tj_node_attrs(n) - first) / (lists + 2);
	if (tj_node_rank(n) != axes + 2) return false;
	for (int d = 0; d < axes; d++) {
		const int64_t size = lists == 3 ? tj_node_attr(n, first + d) : INT64_MAX, dilation = tj_node_attr(n, first + (lists - 1) * axes + d);
		if (!dilated && dilation != 1) return false;
		for (int side = 0; side < 2; side++) {
			const int64_t pad = tj_node_attr(n, first + lists * axes + 2 * d + side);
			if (pad < 0 || (lists == 3 && pad >= size)) return false; /* runtimes take no window of padding alone */
		}
	}
	return true;
}

static bool pads_only(const tj_node *n)
{
	if (tj_node_attr(n, 0) == TJ_PAD_CIRCULAR) return false;
	for (int k = 1; k < tj_node_attrs(n); k++)
		if (tj_node_attr(n, k) < 0) return false;
	return true;
}

static bool some_elements(const tj_node *n)
{
	for (int d = 0; d < tj_node_rank(n); d++)
		if (!tj_node_dim(n, d)) return false;
	return true;
}

bool ow_keeps(void *self, const tj_node *n)
{
	const ow_row *r = ow_row_of(n);
	const tj_dtype t = tj_node_dtype(n);
	double a, b;
	(void)self;
	if (!r) return false;
	if (is(n, "pad")) return tj_node_rank(n) && pads_only(n);
	if (is(n, "nextafter")) return true; /* to be refused, or as parts where tjit does so, too */
	if (t < TJ_F16 || !some_elements(n) || !some_elements(tj_node_input(n, 0))) return false;
	if (r->types == OW_F32 && t == TJ_F64) return false;
	if (is(n, "conv") || is(n, "conv_transpose")) return plain_window(n, 1, 2, true);
	if (is(n, "max_pool")) return !tj_node_attr(n, 0) && plain_window(n, 1, 3, true);
	if (is(n, "avg_pool")) return !tj_node_attr(n, 0) && tj_node_attr(n, 1) <= 0 && plain_window(n, 2, 3, false);
	if (is(n, "softplus")) return known_number(n, 1, &a) && known_number(n, 2, &b) && a == 1 && b >= 20;
	if (is(n, "leaky_relu") || is(n, "elu") || is(n, "celu")) return known_number(n, 1, &a) && (!is(n, "celu") || a > 0);
	if (is(n, "layer_norm")) return known_number(n, 3, &a) && (double)(float)a == a;
	if (is(n, "softmax") || is(n, "log_softmax") || is(n, "mean")) return tj_node_rank(tj_node_input(n, 0)) > 0;
	return true;
}
