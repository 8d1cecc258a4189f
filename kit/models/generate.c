/* SPDX-License-Identifier: MIT */
/* generate: tensors that are made of numbers: ranges, constants, windows, random numbers. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)

static bool shape_of(ox_call *o, int k, int64_t dim[TJ_MAX_RANK + 1])
{
	const ox_host *s = ox_h(o, k);
	if (!s || !s->i || s->n > TJ_MAX_RANK)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "its shape is no list of up to %d integers", TJ_MAX_RANK), false;
	memcpy(dim, s->i, (size_t)s->n * sizeof *dim);
	dim[s->n] = TJ_END_DIM;
	return true;
}

tj_tensor *ox_constant_of_shape(ox_call *o, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	const ox_attr *a = ox_attribute(o, "value");
	tj_dtype dtype = TJ_F32;
	if (!shape_of(o, 0, dim)) return NULL;
	if (!a) return tj_full(dtype, dim, tj_f(0));
	if (!a->t || !ox_dtype(a->t->type, &dtype) || a->t->bytes != tj_dtype_size(dtype))
		return ox_fail(o, TJ_ERR_ARG, NULL, "its value is not one element");
	const unsigned char truth = *a->t->data != 0;
	return tj_expand(tj_constant(o->r->c, dtype, TJ_0D, dtype == TJ_BOOL ? &truth : a->t->data), dim); /* folded, and never filled */
}

/* start, start + delta, ... before limit: the host needs all three, since they say how many. */
tj_tensor *ox_range(ox_call *o, const char *site)
{
	const ox_host *a = ox_h(o, 0), *b = ox_h(o, 1), *d = ox_h(o, 2);
	if (!a || !b || !d || a->n != 1 || b->n != 1 || d->n != 1 || !a->i != !b->i || !a->i != !d->i)
		return ox_fail(o, TJ_ERR_ARG, NULL, "start, limit and delta are numbers of one dtype");
	const double delta = d->f ? d->f[0] : (double)d->i[0],
		     count = a->f ? ceil((b->f[0] - a->f[0]) / delta) : ceil(((double)b->i[0] - (double)a->i[0]) / delta);
	if (!(delta != 0) || !(count < 0x1p40)) return ox_fail(o, TJ_ERR_ARG, NULL, "delta %g does not lead to the limit", delta);
	const int64_t n = count > 0 ? (int64_t)count : 0;
	if (a->i) return tj_cast(tj_add(tj_mul(tj_arange(TJ_I64, 0, n, 1), tj_i(d->i[0])), tj_i(a->i[0])), a->dtype);
	const tj_dtype in = a->dtype == TJ_F64 ? TJ_F64 : TJ_F32;
	return tj_cast(tj_add(tj_mul(tj_cast(tj_arange(TJ_I64, 0, n, 1), in), tj_f(delta)), tj_f(a->f[0])), a->dtype);
}

static tj_dtype dtype_of(ox_call *o, const char *name, tj_dtype preset)
{
	tj_dtype t;
	return ox_dtype(ox_int(o, name, 0), &t) ? t : preset;
}

tj_tensor *ox_eye_like(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int64_t rows = tj_dim(x, 0), columns = tj_dim(x, 1), k = ox_int(o, "k", 0);
	if (tj_rank(x) != 2) return ox_fail(o, TJ_ERR_SHAPE, NULL, "x has %d axes, and no 2", tj_rank(x));
	tj_tensor *hit =
		tj_eq(tj_sub(tj_unsqueeze(tj_arange(TJ_I64, 0, columns, 1), 0), tj_unsqueeze(tj_arange(TJ_I64, 0, rows, 1), 1)), tj_i(k));
	return tj_cast(hit, dtype_of(o, "dtype", tj_dtype_of(x)));
}

/* ---- windows ---- */
static tj_tensor *window(ox_call *o, const char *site, double a, double b, double c)
{
	const ox_host *n = ox_h(o, 0);
	if (!n || !n->i || n->n != 1 || n->i[0] < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its size is no number");
	const double v[] = { a, b, c };
	return tj_general_cosine_window(dtype_of(o, "output_datatype", TJ_F32), n->i[0], ox_int(o, "periodic", 1), v, c != 0 ? 3 : 2);
}

tj_tensor *ox_hann_window(ox_call *o, const char *site) { return window(o, site, 0.5, 0.5, 0); }
tj_tensor *ox_hamming_window(ox_call *o, const char *site) { return window(o, site, 25.0 / 46, 21.0 / 46, 0); }
tj_tensor *ox_blackman_window(ox_call *o, const char *site) { return window(o, site, 0.42, 0.5, 0.08); }

/* ---- random numbers: those of the context, whatever seed the node has ---- */
static bool random_shape(ox_call *o, int64_t dim[TJ_MAX_RANK + 1])
{
	int64_t n;
	const int64_t *v = ox_ints(o, "shape", &n);
	if (!v) return ox_dims_of(X, dim), true;
	if (n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_LIMIT, NULL, "%lld axes", (long long)n), false;
	memcpy(dim, v, (size_t)n * sizeof *dim);
	dim[n] = TJ_END_DIM;
	return true;
}

static tj_dtype random_dtype(ox_call *o) { return dtype_of(o, "dtype", ox_has(o, 0) && ox_is_float(X) ? tj_dtype_of(X) : TJ_F32); }

tj_tensor *ox_random_uniform(ox_call *o, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	if (!random_shape(o, dim)) return NULL;
	return tj_random_uniform(random_dtype(o), dim, tj_f(ox_float(o, "low", 0)), tj_f(ox_float(o, "high", 1)));
}

tj_tensor *ox_random_normal(ox_call *o, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	if (!random_shape(o, dim)) return NULL;
	return tj_random_normal(random_dtype(o), dim, tj_f(ox_float(o, "mean", 0)), tj_f(ox_float(o, "scale", 1)));
}

tj_tensor *ox_bernoulli(ox_call *o, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	tj_tensor *p = X;
	ox_dims_of(p, dim);
	return tj_bernoulli(dtype_of(o, "dtype", tj_dtype_of(p)), dim, p);
}

tj_tensor *ox_multinomial(ox_call *o, const char *site)
{
	return tj_cast(tj_multinomial(tj_softmax(X, 1), ox_int(o, "sample_size", 1), true), dtype_of(o, "dtype", TJ_I32));
}
