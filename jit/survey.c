/* SPDX-License-Identifier: MIT */
/* survey: the counters of all functions of an engine. */
#include "jit/survey.h"

#include <stdlib.h>

static void add(jit_survey *s, tj_fn *f)
{
	rt_lock(&f->table_lock);
	const tj_stats n = jit_fn_counts(f);
	rt_unlock(&f->table_lock);
	const jit_row row = { rt_arena_strdup(&s->mem, f->name), rt_arena_strdup(&s->mem, f->site ? f->site : ""), 1, n };
	if (!row.name || !row.site || !rt_push(&s->row, row)) s->oom = true;
}

/* Under the lock of the engine no function is freed. */
void jit_survey_engine(jit_survey *s, jit_engine *e)
{
	rt_lock(&e->rt.lock);
	for (tj_fn *f = e->fns; f; f = f->next) add(s, f);
	rt_unlock(&e->rt.lock);
}

static int by_name(const void *x, const void *y)
{
	const jit_row *a = x, *b = y;
	const int name = strcmp(a->name, b->name);
	return name ? name : strcmp(a->site, b->site);
}

static void join(jit_row *to, const jit_row *r)
{
	tj_stats *a = &to->sum;
	const tj_stats *b = &r->sum;
	to->functions += r->functions;
	a->calls += b->calls, a->hits += b->hits, a->direct += b->direct, a->recordings += b->recordings, a->side_exits += b->side_exits;
	a->failures += b->failures, a->evictions += b->evictions, a->signatures += b->signatures, a->plans += b->plans, a->sizes += b->sizes;
	a->kernels += b->kernels, a->compiled += b->compiled, a->loaded += b->loaded, a->shared += b->shared;
	a->library_calls += b->library_calls, a->eval_steps += b->eval_steps, a->code_bytes += b->code_bytes, a->bytes += b->bytes;
	a->trace_ms += b->trace_ms, a->lower_ms += b->lower_ms, a->codegen_ms += b->codegen_ms;
}

void jit_survey_sort(jit_survey *s)
{
	uint32_t n = 0;
	if (s->row.n) qsort(s->row.v, s->row.n, sizeof *s->row.v, by_name);
	for (uint32_t i = 0; i < s->row.n; i++) {
		if (n && !by_name(&s->row.v[n - 1], &s->row.v[i])) join(&s->row.v[n - 1], &s->row.v[i]);
		else s->row.v[n++] = s->row.v[i];
	}
	s->row.n = n;
}

void jit_survey_free(jit_survey *s)
{
	rt_vec_free(&s->row);
	rt_arena_free(&s->mem);
}

void jit_put_utf8(rt_text *t, const char *s, void (*put)(rt_text *t, const char *s, size_t n))
{
	for (size_t n; *s; s += n ? n : 1) {
		n = rt_utf8(s, SIZE_MAX);
		put(t, n ? s : "?", n ? n : 1);
	}
}
