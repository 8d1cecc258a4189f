/* SPDX-License-Identifier: MIT */
/* sizes: how a number of a graph follows from the sizes that vary. It was seen at several combinations of them: at first all small, then
 * each symbol alone at other sizes, then all at others (tj_graph_of()). */
#include "kit/models/write.h"

#include <math.h>

static bool multiply(int64_t *a, int64_t b) { return !__builtin_mul_overflow(*a, b, a); }
static bool add(int64_t *a, int64_t b) { return !__builtin_add_overflow(*a, b, a); }

static bool value_at(const ow_samples *s, int k, const ow_size *e, int64_t *out)
{
	int64_t v = e->more, p = e->by;
	for (int i = 0; i < s->symbols; i++) {
		int64_t t = e->times[i];
		if (!multiply(&t, s->size[k][i]) || !add(&v, t)) return false;
		for (int j = 0; j < e->power[i]; j++)
			if (!multiply(&p, s->size[k][i])) return false;
	}
	if (!add(&v, p) || v < 0) return false;
	*out = v / e->part;
	return true;
}

static bool holds(const ow_samples *s, const int64_t *v, const ow_size *e)
{
	int64_t at;
	for (int k = 0; k < s->n; k++)
		if (!value_at(s, k, e, &at) || at != v[k]) return false;
	return true;
}

static bool is_constant(const ow_samples *s, const int64_t *v)
{
	for (int k = 1; k < s->n; k++)
		if (v[k] != v[0]) return false;
	return true;
}

/* The first sample in which symbol i has another size than in the first one. */
static int other(const ow_samples *s, int i)
{
	for (int k = 1; k < s->n; k++)
		if (s->size[k][i] != s->size[0][i]) return k;
	return -1;
}

/* more + sum of times[i] * S[i] */
static bool fit_sum(const ow_samples *s, const int64_t *v, ow_size *e)
{
	*e = (ow_size){ .more = v[0], .part = 1 };
	for (int i = 0; i < s->symbols; i++) {
		const int k = other(s, i);
		if (k < 0) continue;
		const int64_t step = s->size[k][i] - s->size[0][i];
		if ((v[k] - v[0]) % step) return false;
		e->times[i] = (v[k] - v[0]) / step;
		e->more -= e->times[i] * s->size[0][i];
	}
	return holds(s, v, e);
}

static int64_t product_at(const ow_samples *s, int k, const uint8_t *power)
{
	int64_t p = 1;
	for (int i = 0; i < s->symbols; i++)
		for (int j = 0; j < power[i]; j++)
			if (!multiply(&p, s->size[k][i])) return 0;
	return p;
}

/* What is left of v when its change by each symbol alone is taken away: in sample `all`, in which each has the size that it has in one of
 * the samples where it varies alone. */
static bool together(const ow_samples *s, const int64_t *v, int all, int64_t *out)
{
	*out = v[all] - v[0];
	for (int i = 0; i < s->symbols; i++) {
		int k = 1;
		for (bool alone = false; k < s->n; k++) {
			alone = s->size[k][i] == s->size[all][i];
			for (int j = 0; j < s->symbols; j++) alone &= j == i || s->size[k][j] == s->size[0][j];
			if (alone) break;
		}
		if (k == s->n) return false;
		*out -= v[k] - v[0];
	}
	return true;
}

/* The second difference by symbol i, times a number that follows from the samples alone. */
static bool bent(const ow_samples *s, const int64_t *v, int i, int64_t *out)
{
	const int k = other(s, i);
	int l = k + 1;
	while (k >= 0 && l < s->n && (s->size[l][i] == s->size[0][i] || s->size[l][i] == s->size[k][i])) l++;
	if (k < 0 || l >= s->n) return false;
	*out = (v[l] - v[0]) * (s->size[k][i] - s->size[0][i]) - (v[k] - v[0]) * (s->size[l][i] - s->size[0][i]);
	return true;
}

/* more + sum of times[i] * S[i] + by * the product of these symbols */
static bool fit_product(const ow_samples *s, const int64_t *v, const uint8_t *power, ow_size *e)
{
	int64_t p[OW_SAMPLES], rest[OW_SAMPLES], a = 0, b = 0;
	int of = 0, last = 0;
	for (int i = 0; i < s->symbols; i++)
		if (power[i]) of++, last = i;
	for (int k = 0; k < s->n; k++) p[k] = product_at(s, k, power);
	const bool ok =
		of == 1 ? bent(s, v, last, &a) && bent(s, p, last, &b) : together(s, v, s->n - 1, &a) && together(s, p, s->n - 1, &b);
	if (!ok || !b || a % b) return false;
	for (int k = 0; k < s->n; k++) {
		int64_t t = a / b;
		if (!multiply(&t, p[k])) return false;
		rest[k] = v[k] - t;
	}
	fit_sum(s, rest, e);
	e->by = a / b;
	memcpy(e->power, power, sizeof e->power);
	return holds(s, v, e);
}

static bool fit_products(const ow_samples *s, const int64_t *v, ow_size *e)
{
	for (unsigned mask = 1; mask < 1u << s->symbols; mask++)
		for (int square = -1; square < s->symbols; square++) {
			uint8_t power[OW_SYMBOLS] = { 0 };
			const bool one = !(mask & (mask - 1));
			if (square >= 0 ? !(mask >> square & 1) : one) continue;
			for (int i = 0; i < s->symbols; i++) power[i] = (uint8_t)((mask >> i & 1) + (i == square));
			if (fit_product(s, v, power, e)) return true;
		}
	return false;
}

/* (times * S[i] + more) / part: the windows of a pool */
static bool fit_quotient(const ow_samples *s, const int64_t *v, ow_size *e)
{
	enum { PARTS = 64, TIMES = 8 };
	for (int i = 0; i < s->symbols; i++)
		for (int64_t part = 2; part <= PARTS; part++)
			for (int64_t times = 1; times <= TIMES; times++)
				for (int64_t rest = 0; rest < part; rest++) {
					*e = (ow_size){ .more = v[0] * part - times * s->size[0][i] + rest, .part = part };
					e->times[i] = times;
					if (holds(s, v, e)) return true;
				}
	return false;
}

bool ow_fit(const ow_samples *s, const int64_t *v, ow_size *out)
{
	static const int64_t MOST = INT64_C(1) << 40; /* of what depends on sizes: differences and products of these fit */
	*out = (ow_size){ .more = v[0], .part = 1 };
	if (is_constant(s, v)) return true;
	for (int k = 0; k < s->n; k++)
		if (v[k] > MOST || v[k] < -MOST) return false;
	return fit_sum(s, v, out) || fit_products(s, v, out) || fit_quotient(s, v, out);
}

static double rounded(tj_dtype t, double v) { return t == TJ_F64 ? v : (double)(float)v; }

static double inverse_of(ow_form form, double v)
{
	switch (form) {
	case OW_INVERSE: return 1 / v;
	case OW_ROOT: return v * v;
	case OW_INVERSE_ROOT: return 1 / (v * v);
	default: return v;
	}
}

static double form_of(ow_form form, double n)
{
	switch (form) {
	case OW_INVERSE: return 1 / n;
	case OW_ROOT: return sqrt(n);
	case OW_INVERSE_ROOT: return 1 / sqrt(n);
	default: return n;
	}
}

bool ow_fit_float(const ow_samples *s, tj_dtype dtype, const double *v, ow_number *out)
{
	int64_t n[OW_SAMPLES];
	for (ow_form form = OW_REAL; form <= OW_INVERSE_ROOT; form++) {
		bool ok = true;
		for (int k = 0; ok && k < s->n; k++) {
			const double d = inverse_of(form, v[k]);
			ok = d > 0.5 && d < 0x1p53;
			n[k] = ok ? llround(d) : 0;
			ok = ok && rounded(dtype, form_of(form, (double)n[k])) == v[k];
		}
		out->form = form;
		if (ok && ow_fit(s, n, &out->size)) return true;
	}
	return false;
}

bool ow_same_size(const ow_size *a, const ow_size *b)
{
	return a->more == b->more && a->by == b->by && a->part == b->part && !memcmp(a->times, b->times, sizeof a->times) &&
	       !memcmp(a->power, b->power, sizeof a->power);
}
