/* SPDX-License-Identifier: MIT */
/* profiling: whether calls are profiled, and what they tell. Switched on and off for all contexts of an engine, by any of its threads; so a
 * call looks at one byte of the engine (jit_engine.watch), and the rest is up to the thread of the context. */
#ifndef TJ_JIT_PROFILING_H
#define TJ_JIT_PROFILING_H

#include "jit/ctx.h"
#include "runtime/profile.h"

#define JIT_NO_FUNCTION "ops outside of functions"

/* profiling.c */
/* Around a call of a function, if the engine watches; function stays until the end. */
void jit_watch_begin(tj_ctx *c, rt_frame *f, const char *function);
void jit_watch_end(tj_ctx *c, rt_frame *f);
void jit_watch_no_more(tj_ctx *c); /* c is told to measure, and its profile has ended */
static inline rt_recorder *jit_recorder(const tj_ctx *c) { return rt_pool_recorder(c->rt.pool); } /* NULL: nothing is recorded now */
static inline bool jit_watches(const tj_ctx *c)
{
	return RT_UNLIKELY(atomic_load_explicit(&c->engine->watch, memory_order_relaxed) & JIT_WATCH_PROFILE);
}

/* Around a compile, whose parts tell of themselves by rt_recording. */
typedef struct jit_compiling { rt_recorder *recorder, *was; rt_frame frame; } jit_compiling;
void jit_compile_begin(const tj_ctx *c, jit_compiling *x);
void jit_compile_end(jit_compiling *x);

void jit_profile_close(jit_engine *e);
void jit_profile_forked(jit_engine *e); /* in a child of fork() */

/* profenv.c: TJ_PROFILE; value: of that variable. True: steps are measured, and nothing else. */
bool jit_profile_env(jit_engine *e, const char *value);
rt_profile *jit_env_profile(void); /* NULL: there is none */

/* averages.c: rows of a report, by one of the columns of the public header. */
typedef struct jit_rows { rt_vec(tj_profile_row) of; rt_arena mem; } jit_rows;
bool jit_average(const rt_report *x, const tj_profile_view *v, jit_rows *rows); /* false: out of memory */
void jit_rows_free(jit_rows *rows);

/* proftable.c */
void jit_put_profile(rt_text *t, const rt_report *x, const tj_profile_view *v, const jit_rows *rows);

#endif
