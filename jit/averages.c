/* SPDX-License-Identifier: MIT */
/* The rows of a profile, by kernel, line, op or function.
 *
 * A kernel computes several ops of several lines at once, and nothing can measure them apart. So by line and by op its time, bytes and
 * arithmetic are shared out as lowering estimates the work (rt_fact.share). */
#include "jit/profiling.h"

#include <stdlib.h>

typedef struct sums {
	const char *name, *function, *where;
	int device;
	rt_sum sum;
	uint32_t last;           /* 1 + the row added last */
	rt_vec(const char *) op; /* LINE: its ops */
} sums;
typedef struct table {
	rt_vec(sums) of;
	uint32_t *at, room;      /* a hash table of 1 + indices */
	rt_arena *mem;
	bool oom;
} table;

static bool enlarge(table *t)
{
	const uint32_t room = t->room ? 2 * t->room : 256;
	uint32_t *at = rt_arena_alloc(t->mem, room * sizeof *at);
	if (!at) return false;
	for (uint32_t i = 0; i < t->of.n; i++) {
		uint32_t k = (uint32_t)rt_hash(t->of.v[i].name, strlen(t->of.v[i].name), 0) % room;
		while (at[k]) k = (k + 1) % room;
		at[k] = i + 1;
	}
	t->at = at;
	t->room = room;
	return true;
}

static sums *find(table *t, const char *name)
{
	if (2 * (t->of.n + 1) > t->room && !enlarge(t)) return t->oom = true, NULL;
	uint32_t k = (uint32_t)rt_hash(name, strlen(name), 0) % t->room;
	for (; t->at[k]; k = (k + 1) % t->room)
		if (!strcmp(t->of.v[t->at[k] - 1].name, name)) return &t->of.v[t->at[k] - 1];
	if (!rt_push(&t->of, ((sums){ .name = name, .function = "", .where = "" }))) return t->oom = true, NULL;
	t->at[k] = t->of.n;
	return &t->of.v[t->of.n - 1];
}

static void add_name(table *t, sums *s, const char *op)
{
	for (uint32_t i = 0; i < s->op.n; i++)
		if (!strcmp(s->op.v[i], op)) return;
	t->oom |= !rt_push(&s->op, op);
}

/* The names of its ops as `where`. */
static void name_ops(table *t, sums *s)
{
	rt_text text = { 0 };
	for (uint32_t i = 0; i < s->op.n; i++) rt_putf(&text, "%s%s", i ? " " : "", s->op.v[i]);
	const char *kept = text.oom ? NULL : rt_arena_strdup(t->mem, rt_str(&text));
	s->where = kept ? kept : "";
	rt_text_free(&text);
	rt_vec_free(&s->op);
}

/* Adds a part of a row; its runs count once. op: of this line, or NULL. */
static void add(table *t, const char *name, const rt_row *row, const rt_sum *x, double part, const char *op)
{
	sums *s = find(t, name);
	if (!s) return;
	if (op) add_name(t, s, op);
	rt_sum *to = &s->sum;
	if (s->last != row->number + 1) to->count.runs += x->count.runs;
	s->last = row->number + 1;
	s->device = row->device;
	to->count.self += (uint64_t)((double)x->count.self * part);
	to->count.total += (uint64_t)((double)x->count.total * part);
	to->read += x->read * part;
	to->written += x->written * part;
	to->flops += x->flops * part;
	to->least_ns += x->least_ns * part;
}

static void add_row(table *t, const tj_profile_view *v, const rt_row *row, const rt_sum *x)
{
	if (v->by == TJ_BY_KERNEL) {
		const sums s = { .name = row->name, .function = row->function, .where = row->where, .device = row->device, .sum = *x };
		t->oom |= !rt_push(&t->of, s);
		return;
	}
	if (v->by == TJ_BY_FUNCTION) add(t, row->function, row, x, 1, NULL);
	else if (!row->nop) add(t, v->by == TJ_BY_OP ? row->name : "?", row, x, 1, NULL);
	for (uint32_t i = 0; v->by != TJ_BY_FUNCTION && i < row->nop; i++) {
		const rt_fact *f = &row->op[i];
		const bool line = v->by == TJ_BY_LINE;
		add(t, !line ? f->name : f->site ? f->site : "?", row, x, (double)f->share, line ? f->name : NULL);
	}
}

/* Runs of the steps become calls of the functions. */
static void count_calls(table *t, const rt_report *x)
{
	for (uint32_t i = 0; i < t->of.n; i++) t->of.v[i].sum.count.runs = 0;
	for (const rt_function *f = x->function; f; f = f->next) {
		sums *s = f->count.runs ? find(t, f->name) : NULL;
		if (!s) continue;
		s->sum.count.runs = f->count.runs;
		s->sum.count.total = f->count.total;
		s->sum.count.most = f->count.most;
		s->sum.count.least = 0;
	}
}

static tj_profile_row row_of(const sums *s, const tj_profile_view *v, double all)
{
	const rt_count *c = &s->sum.count;
	const double self = (double)c->self / 1e6, runs = c->runs ? (double)c->runs : 1;
	const bool parts = v->by == TJ_BY_LINE || v->by == TJ_BY_OP;
	return (tj_profile_row){ .size = sizeof(tj_profile_row), .kind = TJ_ROW_STEP, .device = s->device, .name = s->name,
		                 .function = s->function, .where = s->where, .calls = c->runs, .self_ms = self, .total_ms = (double)c->total / 1e6,
		                 .least_us = parts ? 0 : (double)c->least / 1e3, .mean_us = (parts ? self * 1e3 : (double)c->total / 1e3) / runs,
		                 .most_us = parts ? 0 : (double)c->most / 1e3, .share = all > 0 ? (double)c->self / all : 0,
		                 .read_bytes = s->sum.read, .written_bytes = s->sum.written, .flops = s->sum.flops,
		                 .limit = c->self ? s->sum.least_ns / (double)c->self : 0 };
}

/* Time beyond the limit; all of it where that is not known. */
static double loss(const tj_profile_row *r) { return r->limit < 1 ? r->self_ms * (1 - r->limit) : 0; }

static double value(const tj_profile_row *r, tj_profile_sort by)
{
	switch (by) {
	case TJ_SORT_SELF: case TJ_SORT_NAME: return r->self_ms;
	case TJ_SORT_TOTAL: return r->total_ms;
	case TJ_SORT_CALLS: return (double)r->calls;
	case TJ_SORT_MEAN: return r->mean_us;
	case TJ_SORT_BYTES: return r->read_bytes + r->written_bytes;
	case TJ_SORT_FLOPS: return r->flops;
	case TJ_SORT_LOSS: return loss(r);
	}
	return 0;
}

static int in_order(const void *a, const void *b, void *by)
{
	const tj_profile_row *x = a, *y = b;
	const tj_profile_sort sort = *(const tj_profile_sort *)by;
	const double p = value(x, sort), q = value(y, sort);
	const int names = strcmp(x->name, y->name);
	return sort == TJ_SORT_NAME && names ? names : p < q ? 1 : p > q ? -1 : names;
}

/* ---- other rows ---- */
static bool add_host(const rt_report *x, jit_rows *rows)
{
	static const char *const names[RT_PHASES] = { [RT_CALL] = "guards, bodies, results", [RT_TRACE] = "tracing", [RT_LOWER] = "lowering",
		                                      [RT_CODEGEN] = "code generation", [RT_CACHE] = "disk cache",
		                                      [RT_TEAM] = "waiting for the team", [RT_QUEUE] = "waiting for queues" };
	bool ok = true;
	for (int i = 0; i < RT_PHASES; i++) {
		const rt_count *c = &x->phase[i];
		if (!c->runs) continue;
		const tj_profile_row r = { .size = sizeof r, .kind = TJ_ROW_HOST, .name = names[i], .function = "", .where = "", .calls = c->runs,
			                   .self_ms = (double)c->self / 1e6, .total_ms = (double)c->total / 1e6, .least_us = (double)c->least / 1e3,
			                   .mean_us = (double)c->self / 1e3 / (double)c->runs, .most_us = (double)c->most / 1e3 };
		ok &= rt_push(&rows->of, r);
	}
	return ok;
}

static bool add_memory(const rt_report *x, jit_rows *rows)
{
	bool ok = true;
	for (const rt_area *a = x->area; a; a = a->next) {
		const tj_profile_row r = { .size = sizeof r, .kind = TJ_ROW_MEMORY, .device = a->device, .name = a->function, .function = a->full,
			                   .where = a->site, .memory = a->bytes };
		ok &= rt_push(&rows->of, r);
	}
	return ok;
}

bool jit_average(const rt_report *x, const tj_profile_view *v, jit_rows *rows)
{
	table t = { .mem = &rows->mem };
	tj_profile_sort sort = v->sort;
	double all = 0;
	for (uint32_t i = 0; i < x->nrow; i++) {
		if (!x->sum[i].count.runs) continue;
		all += (double)x->sum[i].count.self;
		add_row(&t, v, x->row[i], &x->sum[i]);
	}
	if (v->by == TJ_BY_FUNCTION) count_calls(&t, x);
	for (uint32_t i = 0; i < t.of.n; i++)
		if (v->by == TJ_BY_LINE) name_ops(&t, &t.of.v[i]);
	bool ok = !t.oom && rt_reserve(&rows->of, t.of.n + 1);
	for (uint32_t i = 0; ok && i < t.of.n; i++) rows->of.v[rows->of.n++] = row_of(&t.of.v[i], v, all);
	rt_vec_free(&t.of);
	if (ok && rows->of.n) qsort_r(rows->of.v, rows->of.n, sizeof *rows->of.v, in_order, &sort);
	if (v->top && rows->of.n > (uint32_t)v->top) rows->of.n = (uint32_t)v->top;
	return ok && (v->rows_only || (add_host(x, rows) && add_memory(x, rows)));
}

void jit_rows_free(jit_rows *rows)
{
	rt_vec_free(&rows->of);
	rt_arena_free(&rows->mem);
}
