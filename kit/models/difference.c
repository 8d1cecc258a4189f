/* SPDX-License-Identifier: MIT */
/* difference: how far results are from those they stand for. */
#include "kit/models/models.h"

#include <math.h>

static double number(const void *v, tj_dtype t, int64_t k)
{
	switch (t) {
	case TJ_F32: return (double)((const float *)v)[k];
	case TJ_F64: return ((const double *)v)[k];
	case TJ_F16: return (double)tj_from_f16(((const tj_f16 *)v)[k]);
	case TJ_BF16: return (double)tj_from_bf16(((const tj_bf16 *)v)[k]);
	case TJ_I64: return (double)((const int64_t *)v)[k];
	case TJ_I32: return ((const int32_t *)v)[k];
	case TJ_I16: return ((const int16_t *)v)[k];
	case TJ_I8: return ((const int8_t *)v)[k];
	default: return ((const uint8_t *)v)[k];
	}
}

/* A NaN equals a NaN, an infinity one of its sign; any other pair with one of them is an infinite error. */
static double distance(double want, double got)
{
	const double d = fabs(got - want);
	return got == want || (isnan(got) && isnan(want)) ? 0 : isnan(d) ? INFINITY : d;
}

static void add_row(tj_difference *d, const kit_tensor *w, const kit_tensor *g, const void *want, const void *got, int64_t at, int64_t n)
{
	int64_t best = 0, same = 0;
	for (int64_t i = 0; i < n; i++) {
		const double a = number(want, w->dtype, at + i), b = number(got, g->dtype, at + i), e = distance(a, b);
		d->largest = fmax(d->largest, e);
		if (e || isfinite(a)) d->sum += e, d->errors += e * e, d->wanted += a * a, d->got += b * b, d->both += a * b;
		if (a > number(want, w->dtype, at + best)) best = i;
		if (b > number(got, g->dtype, at + same)) same = i;
	}
	if (n > 1) d->rows++, d->same += best == same;
}

tj_status tj_difference_add_at(const char *site, tj_difference *d, tj_tensor *want, tj_tensor *got)
{
	static const char op[] = "difference_add";
	kit_tensor w, g;
	kit_buffer a = { 0 }, b = { 0 };
	kit_why why = { 0 };
	if (!d) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "d is NULL"), TJ_ERR_ARG;
	bool ok = kit_describe(site, want, &w, &why) && kit_describe(site, got, &g, &why);
	bool same = ok && w.rank == g.rank;
	for (int i = 0; same && i < w.rank; i++) same = w.dim[i] == g.dim[i];
	if (ok && !same) ok = kit_no(&why, TJ_ERR_SHAPE, "the tensors have different shapes");
	ok = ok && kit_fetch(site, &w, &a, &why) && kit_fetch(site, &g, &b, &why);
	if (ok) {
		const int64_t all = (int64_t)(w.bytes / tj_dtype_size(w.dtype)), n = w.rank ? w.dim[w.rank - 1] : 1;
		for (int64_t at = 0; at < all; at += n) add_row(d, &w, &g, a.data, b.data, at, n);
		d->calls++, d->elements += all;
	} else kit_report(site, op, NULL, &why);
	free(a.data), free(b.data);
	return ok ? TJ_OK : why.code;
}

int tj_difference_text(const tj_difference *d, char *text, size_t room)
{
	const double lengths = sqrt(d->wanted) * sqrt(d->got);
	char rows[100] = "";
	if (d->rows)
		snprintf(rows, sizeof rows, ", same largest element in %.2f %% of %lld row%s", 100. * (double)d->same / (double)d->rows,
		         (long long)d->rows, d->rows > 1 ? "s" : "");
	return snprintf(text, room, "largest %.3g, mean %.3g, relative %.3g, cosine %.6f%s", d->largest,
	                d->elements ? d->sum / (double)d->elements : 0, d->wanted > 0 ? sqrt(d->errors / d->wanted) : sqrt(d->errors),
	                lengths > 0 ? d->both / lengths : d->wanted == d->got, rows);
}
