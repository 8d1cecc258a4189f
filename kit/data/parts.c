/* SPDX-License-Identifier: MIT */
/* parts: data sets of some items of another one: a range with a step, a list, a random part. Only a list is stored. */
#include "kit/data/data.h"

#include <math.h>
#include <stdlib.h>

typedef struct part {
	tj_dataset set, of;
	int64_t first, count, step;
	int64_t shuffled; /* items of `of`, in whose order of .seed the part is a range; 0: in their own order */
	uint64_t seed;
	int64_t index[];  /* of a list: step is 0 */
} part;

static int64_t part_length(void *self) { return ((const part *)self)->count; }

static int64_t place(const part *p, int64_t i)
{
	if (!p->step) return p->index[i];
	const int64_t at = p->first + i * p->step;
	return p->shuffled ? tj_shuffled(p->seed, 0, p->shuffled, at) : at;
}

static bool part_item(void *self, int64_t index, tj_sample *s)
{
	const part *p = self;
	return p->of.item(p->of.self, place(p, index), s);
}

static tj_dataset *failed(const char *site, const char *op, const kit_why *w)
{
	kit_report(site, op, NULL, w);
	return NULL;
}

/* With room for so many indices. n: the items of `of`. NULL: why */
static part *new_part(const tj_dataset *of, int64_t indices, int64_t *n, kit_why *w)
{
	part *p = indices < (int64_t)(SIZE_MAX / 16) ? calloc(1, sizeof *p + (size_t)indices * sizeof *p->index) : NULL;
	if (!p) return kit_no_memory(w), NULL;
	if (!kit_dataset_get(of, &p->of, w)) return free(p), NULL;
	p->set = (tj_dataset){ .self = p, .length = part_length, .item = part_item, .free = free };
	*n = p->of.length(p->of.self);
	return p;
}

/* ---- a range ---- */
tj_dataset *tj_dataset_part_at(const char *site, const tj_dataset *of, int64_t first, int64_t count, int64_t step)
{
	static const char op[] = "dataset_part";
	kit_why w = { 0 };
	int64_t n;
	part *p = new_part(of, 0, &n, &w);
	if (!p) return failed(site, op, &w);
	const bool sound = first >= 0 && first <= n && count >= -1 && step > 0;
	const int64_t most = sound && first < n ? (n - first - 1) / step + 1 : 0;
	p->first = first;
	p->step = step;
	p->count = count < 0 ? most : count;
	if (sound && p->count <= most) return &p->set;
	kit_no(&w, TJ_ERR_INDEX, "first is %lld, count %lld, step %lld, and the data set has %lld items", (long long)first, (long long)count,
	       (long long)step, (long long)n);
	free(p);
	return failed(site, op, &w);
}

/* ---- a list ---- */
tj_dataset *tj_dataset_subset_at(const char *site, const tj_dataset *of, const int64_t *index, int64_t count)
{
	static const char op[] = "dataset_subset";
	kit_why w = { 0 };
	int64_t n;
	if (count < 0 || (count && !index))
		return kit_no(&w, TJ_ERR_ARG, count < 0 ? "count is below 0" : "there is no list of indices"), failed(site, op, &w);
	part *p = new_part(of, count, &n, &w);
	if (!p) return failed(site, op, &w);
	for (; p->count < count; p->count++) {
		const int64_t i = index[p->count];
		if (i < 0 || i >= n) {
			kit_no(&w, TJ_ERR_INDEX, "index %lld is %lld, and the data set has %lld items", (long long)p->count, (long long)i, (long long)n);
			free(p);
			return failed(site, op, &w);
		}
		p->index[p->count] = i;
	}
	return &p->set;
}

/* ---- random parts ---- */
static bool check_fractions(const double *fraction, int n, kit_why *w)
{
	double sum = 0;
	for (int i = 0; i < n; i++) {
		if (!(fraction[i] >= 0 && fraction[i] <= 1)) return kit_no(w, TJ_ERR_ARG, "fraction %d is %g", i, fraction[i]);
		sum += fraction[i];
	}
	return fabs(sum - 1) <= 1e-9 || kit_no(w, TJ_ERR_ARG, "the fractions have the sum %.10g, not 1", sum);
}

/* Each is rounded down, and what is left goes to the first ones, one to each: as random_split() does. */
static void lengths_of(const double *fraction, int n, int64_t items, int64_t *length)
{
	int64_t left = items;
	for (int i = 0; i < n; i++) left -= length[i] = (int64_t)floor((double)items * fraction[i]);
	for (int i = 0; left > 0; i = (i + 1) % n, left--) length[i]++;
}

static bool check_lengths(const int64_t *length, int n, int64_t items, kit_why *w)
{
	int64_t left = items;
	for (int i = 0; i < n; i++) {
		if (length[i] < 0) return kit_no(w, TJ_ERR_ARG, "length %d is %lld", i, (long long)length[i]);
		if (length[i] > left) return kit_no(w, TJ_ERR_ARG, "the lengths have a larger sum than the %lld items", (long long)items);
		left -= length[i];
	}
	return !left || kit_no(w, TJ_ERR_ARG, "the lengths leave %lld of %lld items", (long long)left, (long long)items);
}

enum { MOST_PARTS = 64 };
tj_status tj_dataset_split_at(const char *site, const tj_dataset *of, int n, const double *fraction, const int64_t *length, uint64_t seed,
                              tj_dataset **out)
{
	kit_why w = { 0 };
	tj_dataset d;
	int64_t own[MOST_PARTS] = { 0 }, items = 0, first = 0;
	for (int i = 0; out && i < n; i++) out[i] = NULL;
	bool ok = (n > 0 && n <= MOST_PARTS && out) || kit_no(&w, TJ_ERR_ARG, "%d parts; 1 to %d are possible", n, MOST_PARTS);
	ok = ok && (!fraction != !length || kit_no(&w, TJ_ERR_ARG, "either fractions or lengths are needed"));
	ok = ok && kit_dataset_get(of, &d, &w);
	if (ok) items = d.length(d.self);
	if (ok && fraction && (ok = check_fractions(fraction, n, &w))) lengths_of(fraction, n, items, own);
	if (ok && length) memcpy(own, length, (size_t)n * sizeof *own);
	ok = ok && check_lengths(own, n, items, &w);
	for (int i = 0; ok && i < n; first += own[i++]) {
		part *p = new_part(of, 0, &items, &w);
		if (!(ok = p != NULL)) break;
		p->first = first, p->count = own[i], p->step = 1, p->shuffled = items, p->seed = seed;
		out[i] = &p->set;
	}
	if (ok) return TJ_OK;
	for (int i = 0; out && i < n; i++) tj_dataset_free(out[i]), out[i] = NULL;
	kit_report(site, "dataset_split", NULL, &w);
	return w.code;
}
