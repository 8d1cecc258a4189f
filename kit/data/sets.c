/* SPDX-License-Identifier: MIT */
/* sets: data sets of tensors in memory, pieces of a text, and of another data set, changed by a function. */
#include "kit/data/data.h"

#include <stdlib.h>

void tj_dataset_free(tj_dataset *d)
{
	if (d && d->free) d->free(d->self);
}

/* The elements of a tensor, row-major, until unhold(). A tensor that lies so is kept, not copied. */
typedef struct held {
	tj_tensor *kept;
	kit_tensor t;
	kit_buffer copy;
	const char *data;
} held;

static bool hold(const char *site, tj_ctx *c, tj_tensor *t, held *h, kit_why *w)
{
	if (!kit_describe(site, t, &h->t, w)) return false;
	h->kept = tj_retain_at(site, t);
	tj_scope *s = tj_push_at(site, c);
	const void *p = tj_data_at(site, h->kept);
	const bool in_place = p == tj_data_at(site, h->kept); /* another copy each time */
	tj_pop_at(site, s);
	if (in_place && !tj_is_poison(h->kept)) return h->data = p, true;
	const bool ok = kit_fetch(site, &h->t, &h->copy, w);
	h->data = h->copy.data;
	return ok;
}

static void unhold(held *h)
{
	if (h->kept && !tj_is_poison(h->kept)) tj_release_at("tj_dataset_free()", h->kept);
	free(h->copy.data);
}

/* ---- arrays ---- */
typedef struct arrays {
	tj_dataset set;
	int n;
	held of[TJ_SAMPLE_FIELDS];
} arrays;

static int64_t arrays_length(void *self)
{
	return ((const arrays *)self)->of[0].t.dim[0];
}

static bool arrays_item(void *self, int64_t index, tj_sample *s)
{
	const arrays *a = self;
	for (int f = 0; f < a->n; f++) {
		const held *h = &a->of[f];
		const size_t bytes = h->t.bytes / (size_t)h->t.dim[0];
		void *to = tj_sample_put(s, f, h->t.dtype, h->t.dim + 1);
		if (!to) return false;
		memcpy(to, h->data + (size_t)index * bytes, bytes);
	}
	return true;
}

static void arrays_free(void *self)
{
	arrays *a = self;
	for (int f = 0; f < a->n; f++) unhold(&a->of[f]);
	free(a);
}

static bool collect(const char *site, tj_ctx *c, arrays *a, tj_list tensors, kit_why *w)
{
	if (!tensors || tensors[0] == TJ_END) return kit_no(w, TJ_ERR_ARG, "there is no tensor");
	for (; tensors[a->n] != TJ_END; a->n++) {
		held *h = &a->of[a->n];
		if (a->n == TJ_SAMPLE_FIELDS) return kit_no(w, TJ_ERR_LIMIT, "there are more than %d tensors", TJ_SAMPLE_FIELDS);
		if (!hold(site, c, tensors[a->n], h, w)) return a->n++, false;
		if (!h->t.rank) return a->n++, kit_no(w, TJ_ERR_SHAPE, "tensor %d has no axis 0, which counts items", a->n - 1);
		if (h->t.dim[0] != a->of[0].t.dim[0])
			return a->n++, kit_no(w, TJ_ERR_SHAPE, "tensor %d has %lld items, and the first one %lld", a->n - 1, (long long)h->t.dim[0],
			                      (long long)a->of[0].t.dim[0]);
	}
	return true;
}

static tj_dataset *failed(const char *site, const char *op, const kit_why *w)
{
	if (*w->text) kit_report(site, op, NULL, w);
	return NULL;
}

tj_dataset *tj_dataset_arrays_at(const char *site, tj_ctx *c, tj_list tensors)
{
	kit_why w = { 0 };
	arrays *a = calloc(1, sizeof *a);
	if (!a) return kit_no_memory(&w), failed(site, "dataset_arrays", &w);
	a->set = (tj_dataset){ .self = a, .length = arrays_length, .item = arrays_item, .free = arrays_free };
	if (collect(site, c, a, tensors, &w)) return &a->set;
	arrays_free(a);
	return failed(site, "dataset_arrays", &w);
}

/* ---- windows ---- */
typedef struct windows {
	tj_dataset set;
	held ids;
	int64_t length, stride;
} windows;

static int64_t windows_length(void *self)
{
	const windows *x = self;
	const int64_t n = x->ids.t.dim[0];
	return n <= x->length ? 0 : (n - 1 - x->length) / x->stride + 1; /* one more id than the length */
}

static void widen(int64_t *to, const char *from, int64_t n, tj_dtype dtype)
{
	switch (dtype) {
	case TJ_I64: memcpy(to, from, (size_t)n * 8); break;
	case TJ_I32: for (int64_t i = 0; i < n; i++) to[i] = ((const int32_t *)(const void *)from)[i]; break;
	case TJ_I16: for (int64_t i = 0; i < n; i++) to[i] = ((const int16_t *)(const void *)from)[i]; break;
	case TJ_I8: for (int64_t i = 0; i < n; i++) to[i] = ((const int8_t *)from)[i]; break;
	default: for (int64_t i = 0; i < n; i++) to[i] = ((const uint8_t *)from)[i]; break;
	}
}

static bool windows_item(void *self, int64_t index, tj_sample *s)
{
	const windows *x = self;
	const size_t size = tj_dtype_size(x->ids.t.dtype);
	const int64_t shape[2] = { x->length, TJ_END_DIM };
	for (int f = 0; f < 2; f++) {
		int64_t *to = tj_sample_put(s, f, TJ_I64, shape);
		if (!to) return false;
		widen(to, x->ids.data + (size_t)(index * x->stride + f) * size, x->length, x->ids.t.dtype);
	}
	return true;
}

static void windows_free(void *self)
{
	windows *x = self;
	unhold(&x->ids);
	free(x);
}

tj_dataset *tj_dataset_windows_at(const char *site, tj_ctx *c, tj_tensor *ids, int64_t length, int64_t stride)
{
	static const char op[] = "dataset_windows";
	kit_why w = { 0 };
	windows *x = calloc(1, sizeof *x);
	if (!x) return kit_no_memory(&w), failed(site, op, &w);
	*x = (windows){ .length = length, .stride = stride ? stride : length };
	x->set = (tj_dataset){ .self = x, .length = windows_length, .item = windows_item, .free = windows_free };
	bool ok = (length > 0 && stride >= 0) || kit_no(&w, TJ_ERR_ARG, "length is %lld, stride %lld", (long long)length, (long long)stride);
	ok = ok && hold(site, c, ids, &x->ids, &w);
	if (ok && x->ids.t.rank != 1) ok = kit_no(&w, TJ_ERR_SHAPE, "ids has %d axes, not 1", x->ids.t.rank);
	if (ok && (x->ids.t.dtype == TJ_BOOL || x->ids.t.dtype >= TJ_F16))
		ok = kit_no(&w, TJ_ERR_DTYPE, "ids is %s; ids are integers", tj_dtype_name(x->ids.t.dtype));
	if (ok) return &x->set;
	windows_free(x);
	return failed(site, op, &w);
}

/* ---- a map ---- */
typedef struct mapped {
	tj_dataset set, of;
	tj_sample_map *map;
	void *env;
} mapped;

static int64_t mapped_length(void *self)
{
	const mapped *m = self;
	return m->of.length(m->of.self);
}

static bool mapped_item(void *self, int64_t index, tj_sample *s)
{
	const mapped *m = self;
	kit_buffer own[TJ_SAMPLE_FIELDS] = { { 0 } };
	tj_sample in = { .own = own };
	bool ok = kit_sample_fill(&in, &m->of, index, tj_sample_random(s));
	if (!ok) tj_sample_fail(s, "%s", in.why.text);
	else ok = m->map(m->env, &in, s);
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) free(own[f].data);
	return ok;
}

tj_dataset *tj_dataset_map_at(const char *site, const tj_dataset *of, tj_sample_map *map, void *env)
{
	static const char op[] = "dataset_map";
	kit_why w = { 0 };
	mapped *m = calloc(1, sizeof *m);
	if (!m) return kit_no_memory(&w), failed(site, op, &w);
	*m = (mapped){ .map = map, .env = env };
	m->set = (tj_dataset){ .self = m, .length = mapped_length, .item = mapped_item, .free = free };
	if ((map || kit_no(&w, TJ_ERR_ARG, "the function is NULL")) && kit_dataset_get(of, &m->of, &w)) return &m->set;
	free(m);
	return failed(site, op, &w);
}
