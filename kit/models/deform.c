/* SPDX-License-Identifier: MIT */
/* deform: convolutions whose windows have moved elements: the elements are gathered, between four neighbours, then it is a product. */
#include "kit/models/models.h"

#define X ox_t(o, 0)

/* sizes: N examples, g groups of offsets, c channels in each, the picture [H,W], the kernel [kh,kw], the result [h,w] */
typedef struct sizes { int64_t n, g, c, H, W, kh, kw, h, w; } sizes;

/* Places of one axis [N,g,kh,kw,h,w]: those of an ordinary window, moved by the offsets of that axis. */
static tj_tensor *places(const char *site, const sizes *s, tj_tensor *offset, int axis, int64_t stride, int64_t dilation, int64_t pad)
{
	const int64_t k = axis ? s->kw : s->kh, n = axis ? s->w : s->h;
	tj_tensor *inside = ox_along(site, tj_mul(tj_arange(TJ_I64, 0, k, 1), tj_i(dilation)), 2 + axis, 6);
	tj_tensor *outside = ox_along(site, tj_sub(tj_mul(tj_arange(TJ_I64, 0, n, 1), tj_i(stride)), tj_i(pad)), 4 + axis, 6);
	return tj_add(tj_cast(tj_add(inside, outside), tj_dtype_of(offset)), tj_select(offset, 4, axis));
}

/* The elements of x [N,g,c,H*W] at whole places y, x, times their weight; zeros beside the picture: [N,g,c,kh*kw*h*w] */
static tj_tensor *neighbour(const char *site, const sizes *s, tj_tensor *x, tj_tensor *py, tj_tensor *px, tj_tensor *weight)
{
	tj_tensor *const zero = tj_f(0), *high = tj_f((double)(s->H - 1)), *wide = tj_f((double)(s->W - 1));
	tj_tensor *in = tj_logical_and(tj_logical_and(tj_ge(py, zero), tj_le(py, high)), tj_logical_and(tj_ge(px, zero), tj_le(px, wide)));
	tj_tensor *at = tj_add(tj_mul(tj_cast(tj_clamp(py, zero, high), TJ_I64), tj_i(s->W)), tj_cast(tj_clamp(px, zero, wide), TJ_I64));
	tj_dims flat = TJ_SHAPE(s->n, s->g, 1, -1);
	at = tj_expand(tj_reshape(at, flat), TJ_SHAPE(-1, -1, s->c, -1));
	weight = tj_where(in, weight, ox_scalar(site, tj_dtype_of(weight), 0));
	return tj_mul(tj_gather(x, 3, at), tj_reshape(weight, flat));
}

static tj_tensor *sampled(const char *site, const sizes *s, tj_tensor *x, tj_tensor *py, tj_tensor *px)
{
	tj_tensor *y0 = tj_floor(py), *x0 = tj_floor(px), *fy = tj_sub(py, y0), *fx = tj_sub(px, x0), *sum = NULL;
	for (int k = 0; k < 4; k++) {
		tj_tensor *wy = k & 2 ? fy : tj_sub(tj_f(1), fy), *wx = k & 1 ? fx : tj_sub(tj_f(1), fx);
		tj_tensor *part = neighbour(site, s, x, k & 2 ? tj_add(y0, tj_f(1)) : y0, k & 1 ? tj_add(x0, tj_f(1)) : x0, tj_mul(wy, wx));
		sum = sum ? tj_add(sum, part) : part;
	}
	return sum;
}

static int64_t entry(ox_call *o, const char *name, int k, int64_t preset)
{
	int64_t n;
	const int64_t *v = ox_ints(o, name, &n);
	return v && k < n ? v[k] : preset;
}

tj_tensor *ox_deform_conv(ox_call *o, const char *site)
{
	tj_tensor *x = X, *weight = ox_t(o, 1), *offset = ox_t(o, 2), *bias = ox_t(o, 3), *mask = ox_t(o, 4);
	const int64_t group = ox_int(o, "group", 1), g = ox_int(o, "offset_group", 1);
	if (tj_rank(x) != 4 || tj_rank(weight) != 4 || tj_rank(offset) != 4 || g < 1 || group < 1 || tj_dim(x, 1) % g || tj_dim(weight, 0) % group)
		return ox_fail(o, TJ_ERR_SHAPE, "x [N,C,H,W]", "its shapes or groups do not fit");
	const sizes s = { tj_dim(x, 0), g, tj_dim(x, 1) / g, tj_dim(x, 2), tj_dim(x, 3), tj_dim(weight, 2), tj_dim(weight, 3), tj_dim(offset, 2),
		          tj_dim(offset, 3) };
	const int64_t out = tj_dim(weight, 0), taps = s.kh * s.kw;
	offset = tj_reshape(offset, TJ_SHAPE(s.n, g, s.kh, s.kw, 2, s.h, s.w));
	tj_tensor *py = places(site, &s, offset, 0, entry(o, "strides", 0, 1), entry(o, "dilations", 0, 1), entry(o, "pads", 0, 0));
	tj_tensor *px = places(site, &s, offset, 1, entry(o, "strides", 1, 1), entry(o, "dilations", 1, 1), entry(o, "pads", 1, 0));
	tj_tensor *v = sampled(site, &s, tj_reshape(x, TJ_SHAPE(s.n, g, s.c, s.H * s.W)), py, px);
	if (mask) v = tj_mul(v, tj_reshape(mask, TJ_SHAPE(s.n, g, 1, taps * s.h * s.w)));
	v = tj_reshape(v, TJ_SHAPE(s.n, group, g * s.c / group * taps, s.h * s.w));
	tj_tensor *y = tj_matmul(tj_reshape(weight, TJ_SHAPE(group, out / group, -1)), v);
	y = tj_reshape(y, TJ_SHAPE(s.n, out, s.h, s.w));
	return bias ? tj_add(y, ox_along(site, bias, 1, 4)) : y;
}
