/* SPDX-License-Identifier: MIT */
/* Helpers of the unit tests: cmocka, a context for each back end, tensors from literals, comparisons. */
#ifndef TJ_TEST_KIT_H
#define TJ_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tj.h>

#include "test/skip.h"

/* Some tests make wrong code on purpose: it must not stay in the cache of who runs them by hand. */
static __attribute__((constructor)) void kit_no_cache(void) { setenv("TJ_CACHE", "off", 0); }

/* The back end under test; KIT_RUN sets it for each round. */
static const char *kit_backend;

static inline tj_ctx *kit_open(void) { return tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend)); }
static inline tj_ctx *kit_clone(tj_ctx *c) /* makes the clone the current context of the calling thread */
{
	tj_ctx *d = tj_ctx_clone(c);
	if (d) tj_ctx_use(d);
	return d;
}
static inline void kit_ok(tj_ctx *c)
{
	if (tj_check(c) == TJ_OK) return;
	const tj_error *e = tj_last_error(c);
	fail_msg("%s: %s: %s", e->site, e->op, e->message);
}
/* The next error must have this code, and `part` in its message. */
static __attribute__((noinline, unused)) void kit_error(tj_ctx *c, tj_status code, const char *part)
{
	assert_string_equal(tj_strerror(tj_check(c)), tj_strerror(code));
	const tj_error *e = tj_last_error(c);
	if (!strstr(e->message, part)) fail_msg("\"%s\" is not in \"%s\"", part, e->message);
	if (!strstr(e->site, ".c:")) fail_msg("no file:line in \"%s\"", e->site);
}

#define F32(c, ...) kit_f32(c, sizeof((float[]){ __VA_ARGS__ }) / sizeof(float), (float[]){ __VA_ARGS__ })
static inline tj_tensor *kit_f32(tj_ctx *c, size_t n, const float *v) { return tj_from_data(c, TJ_F32, TJ_SHAPE((int64_t)n), v); }
static inline tj_tensor *kit_param(tj_ctx *c, float v)
{
	tj_tensor *p = tj_param(c, TJ_F32, TJ_0D);
	tj_write(p, &v, sizeof v);
	return p;
}

static inline tj_fn *kit_fn(tj_ctx *c, const char *name, tj_body *body, void *self, int nin, int nout)
{
	return tj_compile(c, body, self, TJ_OPTS(tj_compile_opts, .name = name, .nin = nin, .nout = nout));
}
static inline tj_stats kit_stats(tj_fn *f)
{
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	return s;
}

/* tj_explain() and tj_dump() as strings; the caller frees them. */
static __attribute__((noinline, unused)) char *kit_print(tj_fn *f, bool dump, tj_dump_what what)
{
	char *s = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&s, &n);
	assert_non_null(m);
	if (dump) tj_dump(f, what, m);
	else tj_explain(f, m);
	fclose(m);
	return s;
}
static inline char *kit_explain(tj_fn *f) { return kit_print(f, false, TJ_DUMP_GRAPH); }
static inline char *kit_dump(tj_fn *f, tj_dump_what what) { return kit_print(f, true, what); }

#define assert_f32(t, ...) kit_equal(t, sizeof((float[]){ __VA_ARGS__ }) / sizeof(float), (float[]){ __VA_ARGS__ })
static inline void kit_equal(tj_tensor *t, size_t n, const float *want)
{
	assert_int_equal(tj_numel(t), n);
	const float *v = tj_data(t);
	for (size_t i = 0; i < n; i++)
		if (!(v[i] == want[i] || (v[i] != v[i] && want[i] != want[i]))) fail_msg("element %zu is %a, not %a", i, (double)v[i], (double)want[i]);
}

/* TJ_DEVICE puts tensors on another device. Some expectations hold only on the CPU: types in texts, immediate faults, views in the
 * evaluator. */
static inline bool kit_elsewhere(void) { return getenv("TJ_DEVICE") != NULL; }
/* A call whose fault another device finds after it has returned: this waits for it. */
static inline tj_status kit_call(tj_ctx *c, tj_fn *f, tj_tensor **out, tj_tensor *const *in)
{
	tj_status st = tj_call(f, out, in);
	return st == TJ_OK && kit_elsewhere() ? tj_sync(c) : st;
}

/* The last line of a test program: runs its tests on each back end. */
#define KIT_RUN(tests)                                                                          \
	do {                                                                                        \
		int failed = 0;                                                                         \
		kit_backend = "eval", failed += cmocka_run_group_tests_name("eval", tests, NULL, NULL); \
		kit_backend = "llvm", failed += cmocka_run_group_tests_name("llvm", tests, NULL, NULL); \
		return failed != 0;                                                                     \
	} while (0)

#endif
