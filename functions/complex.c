/* SPDX-License-Identifier: MIT */
/* Complex numbers as pairs of real and imaginary part along a last axis of size 2, as PyTorch's view_as_real(). */
#include "functions/functions.h"

/* NULL: a is pairs of floats. */
static tj_tensor *bad_pairs(const char *site, const char *op, const char *name, tj_tensor *a)
{
	tj_tensor *bad = fn_bad(site, op, name, a);
	if (bad) return bad;
	if (tj_rank(a) >= 1 && tj_dim(a, tj_rank(a) - 1) == 2) return NULL;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_complex(re, im) makes them", "complex numbers are pairs, a last axis of size 2; %s is %s", name,
	               fn_type_of(a).text);
}

static tj_tensor *pairs(const char *site, tj_tensor *re, tj_tensor *im) { return tj_stack(TJ_LIST(re, im), -1); }
static tj_tensor *re_of(const char *site, tj_tensor *z) { return tj_select(z, -1, 0); }
static tj_tensor *im_of(const char *site, tj_tensor *z) { return tj_select(z, -1, 1); }

tj_tensor *tj_complex_at(const char *site, tj_tensor *re, tj_tensor *im)
{
	tj_tensor *bad = fn_bad_float(site, "complex", "re", re);
	if (bad || (bad = fn_bad_float(site, "complex", "im", im))) return bad;
	tj_tensor *part[2];
	return tj_broadcast_tensors(TJ_LIST(re, im), part) < 0 ? part[0] : pairs(site, part[0], part[1]);
}

tj_tensor *tj_real_part_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "real", "z", z);
	return bad ? bad : re_of(site, z);
}

tj_tensor *tj_imag_part_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "imag", "z", z);
	return bad ? bad : im_of(site, z);
}

tj_tensor *tj_conj_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "conj", "z", z);
	return bad ? bad : pairs(site, re_of(site, z), tj_neg(im_of(site, z)));
}

tj_tensor *tj_complex_abs_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "complex_abs", "z", z);
	return bad ? bad : tj_hypot(re_of(site, z), im_of(site, z));
}

tj_tensor *tj_angle_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "angle", "z", z);
	return bad ? bad : tj_atan2(im_of(site, z), re_of(site, z));
}

tj_tensor *tj_polar_at(const char *site, tj_tensor *abs, tj_tensor *angle)
{
	tj_tensor *bad = fn_bad_float(site, "polar", "abs", abs);
	if (bad || (bad = fn_bad_float(site, "polar", "angle", angle))) return bad;
	return pairs(site, tj_mul(abs, tj_cos(angle)), tj_mul(abs, tj_sin(angle)));
}

tj_tensor *tj_complex_exp_at(const char *site, tj_tensor *z)
{
	tj_tensor *bad = bad_pairs(site, "complex_exp", "z", z);
	return bad ? bad : tj_polar(tj_exp(re_of(site, z)), im_of(site, z));
}

tj_tensor *tj_complex_mul_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad = bad_pairs(site, "complex_mul", "a", a);
	if (bad || (bad = bad_pairs(site, "complex_mul", "b", b))) return bad;
	tj_tensor *x = re_of(site, a), *y = im_of(site, a), *u = re_of(site, b), *v = im_of(site, b);
	tj_tensor *re = tj_sub(tj_mul(x, u), tj_mul(y, v));
	return pairs(site, re, tj_add(tj_mul(x, v), tj_mul(y, u)));
}

/* Smith, "Algorithm 116: complex division", 1962: the smaller part of b is divided by the larger one, so that no square overflows. */
tj_tensor *tj_complex_div_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad = bad_pairs(site, "complex_div", "a", a);
	if (bad || (bad = bad_pairs(site, "complex_div", "b", b))) return bad;
	tj_tensor *x = re_of(site, a), *y = im_of(site, a), *u = re_of(site, b), *v = im_of(site, b);
	tj_tensor *wide = tj_ge(tj_abs(u), tj_abs(v)), *large = tj_where(wide, u, v), *small = tj_where(wide, v, u);
	tj_tensor *r = tj_div(small, large), *d = tj_add(large, tj_mul(small, r));
	tj_tensor *re = tj_where(wide, tj_add(x, tj_mul(y, r)), tj_add(tj_mul(x, r), y));
	tj_tensor *im = tj_where(wide, tj_sub(y, tj_mul(x, r)), tj_sub(tj_mul(y, r), x));
	return pairs(site, tj_div(re, d), tj_div(im, d));
}
