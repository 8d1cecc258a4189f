/* SPDX-License-Identifier: MIT */
/* survey: the counters of all functions at one moment, for those who watch a process. Taking it waits for no compile. */
#ifndef TJ_JIT_SURVEY_H
#define TJ_JIT_SURVEY_H

#include "jit/ctx.h"

typedef struct jit_row { /* functions of one name and site */
	const char *name, *site;
	uint32_t functions;
	tj_stats sum;
} jit_row;
typedef struct jit_survey {
	rt_arena mem;            /* has the strings */
	rt_vec(jit_row) row;     /* sorted by name, then by site */
	bool oom;                /* rows are missing */
} jit_survey;

/* ---- survey.c ---- */
void jit_survey_engine(jit_survey *s, jit_engine *e); /* adds its functions; any thread */
void jit_survey_sort(jit_survey *s);                  /* sorts rows, and joins those of one name and site */
void jit_survey_free(jit_survey *s);
/* Appends text with bytes that are no UTF-8 as '?'. */
void jit_put_utf8(rt_text *t, const char *s, void (*put)(rt_text *t, const char *s, size_t n));

/* ---- explain.c ---- */
tj_stats jit_fn_counts(tj_fn *f); /* without what plans say; under table_lock */

/* ---- engines.c ---- */
void jit_enlist(jit_engine *e);
void jit_delist(jit_engine *e);
void jit_each_engine(void (*f)(void *env, jit_engine *e), void *env); /* of the process; f opens and closes none */

/* ---- livetext.c ---- */
void jit_put_live(rt_text *t, jit_survey *s); /* as JSON: docs/DEBUGGING.md has the keys */

/* ---- live.c ---- */
void jit_live_begin(const rt_log_to *log); /* with TJ_LIVE=1, at the first call in a process: others can watch it from now on */

#endif
