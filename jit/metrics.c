/* SPDX-License-Identifier: MIT */
/* metrics: counters for Prometheus, in its text format 0.0.4. Counters end in _total, units are seconds and bytes, and each series is
 * there once: functions of one name and line are added up. */
#include "jit/call.h"
#include "jit/claim.h"
#include "jit/survey.h"

/* ---- the format ---- */
static void put_escaped(rt_text *t, const char *s, size_t n)
{
	if (n == 1 && (*s == '\\' || *s == '"')) rt_putf(t, "\\%c", *s);
	else if (n == 1 && *s == '\n') rt_puts(t, "\\n");
	else rt_putn(t, s, n);
}

static void put_label(rt_text *t, const char *name, const char *value)
{
	rt_putf(t, "%s%s=\"", t->n && t->s[t->n - 1] != '{' ? "," : "", name);
	jit_put_utf8(t, value, put_escaped);
	rt_puts(t, "\"");
}

static void head(rt_text *t, const char *name, const char *type, const char *help)
{
	rt_putf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Seconds, with a decimal point in every locale. */
static void put_seconds(rt_text *t, double ms)
{
	const unsigned long long us = ms > 0 ? (unsigned long long)(ms * 1e3) : 0;
	rt_putf(t, " %llu.%06llu\n", us / 1000000, us % 1000000);
}

/* ---- functions ---- */
/* clang-format off */
#define COUNTERS(X) \
	X(calls, "calls_total", "counter", "Calls of compiled functions.") \
	X(hits, "hits_total", "counter", "Calls that ran a trace that was there.") \
	X(direct, "direct_calls_total", "counter", "Calls that skipped the body.") \
	X(recordings, "recordings_total", "counter", "Traces recorded, the first one of each signature included.") \
	X(side_exits, "side_exits_total", "counter", "Calls that left their trace.") \
	X(failures, "failures_total", "counter", "Calls that failed.") \
	X(evictions, "evictions_total", "counter", "Traces dropped to make room.") \
	X(plans, "plans_total", "counter", "Plans made.") \
	X(kernels, "kernels_total", "counter", "Kernels of these plans.") \
	X(compiled, "kernels_compiled_total", "counter", "Kernels whose code was compiled.") \
	X(loaded, "kernels_loaded_total", "counter", "Kernels whose code was in the disk cache.") \
	X(shared, "kernels_shared_total", "counter", "Kernels that run the code of another one.") \
	X(sizes, "traces", "gauge", "Traces kept.") \
	X(bytes, "trace_bytes", "gauge", "Memory of traces and plans.")
/* clang-format on */

static void put_function(rt_text *t, const char *name, const jit_row *r)
{
	rt_putf(t, "tjit_%s{", name);
	put_label(t, "function", r->name);
	put_label(t, "site", r->site);
}

static void put_functions(rt_text *t, const jit_survey *s)
{
#define X(field, name, type, help)                                                            \
	head(t, "tjit_" name, type, help);                                                    \
	for (uint32_t i = 0; i < s->row.n; i++) {                                             \
		put_function(t, name, &s->row.v[i]);                                          \
		rt_putf(t, "} %llu\n", (unsigned long long)s->row.v[i].sum.field);            \
	}
	COUNTERS(X)
#undef X
}

static void put_phase(rt_text *t, const jit_row *r, const char *phase, double ms)
{
	put_function(t, "compile_seconds_total", r);
	put_label(t, "phase", phase);
	rt_puts(t, "}");
	put_seconds(t, ms);
}

static void put_times(rt_text *t, const jit_survey *s)
{
	head(t, "tjit_compile_seconds_total", "counter", "Time spent on making plans, by phase.");
	for (uint32_t i = 0; i < s->row.n; i++) {
		const jit_row *r = &s->row.v[i];
		put_phase(t, r, "trace", r->sum.trace_ms);
		put_phase(t, r, "lower", r->sum.lower_ms);
		put_phase(t, r, "codegen", r->sum.codegen_ms);
	}
}

/* ---- the process ---- */
static void put_devices(rt_text *t, const char *name, size_t field)
{
	for (int d = 0; d < RT_DEVICES && (d == RT_CPU || rt_device_at(d)); d++) {
		const rt_usage u = rt_usage_of(d);
		const unsigned long long value[] = { u.used, u.peak, u.made };
		rt_putf(t, "%s{", name);
		put_label(t, "device", rt_device_name(d));
		rt_putf(t, "} %llu\n", value[field]);
	}
}

static void put_memory(rt_text *t)
{
	head(t, "tjit_memory_bytes", "gauge", "Memory of tensors and temporaries.");
	put_devices(t, "tjit_memory_bytes", 0);
	head(t, "tjit_memory_peak_bytes", "gauge", "The most that it was.");
	put_devices(t, "tjit_memory_peak_bytes", 1);
	head(t, "tjit_allocations_total", "counter", "Allocations of such memory.");
	put_devices(t, "tjit_allocations_total", 2);
}

static void put_one(rt_text *t, const char *name, const char *help, uint64_t n)
{
	head(t, name, "counter", help);
	rt_putf(t, "%s %llu\n", name, (unsigned long long)n);
}

static void put_cache(rt_text *t, rt_store *s)
{
	const rt_store_counts n = rt_store_count(s);
	put_one(t, "tjit_cache_hits_total", "Kernels found in the disk cache.", n.hits);
	put_one(t, "tjit_cache_stored_total", "Kernels written to it.", n.stored);
	put_one(t, "tjit_cache_read_bytes_total", "Bytes read from it.", n.read_bytes);
	put_one(t, "tjit_cache_written_bytes_total", "Bytes written to it.", n.written_bytes);
	head(t, "tjit_cache_misses_total", "counter", "Kernels not found in it, by reason.");
	for (int i = RT_MISS_ABSENT; i < RT_MISSES; i++) {
		rt_puts(t, "tjit_cache_misses_total{");
		put_label(t, "reason", rt_miss_name((rt_miss)i));
		rt_putf(t, "} %llu\n", (unsigned long long)n.miss[i]);
	}
}

static tj_status print(tj_ctx *c, const char *site, const rt_text *t, bool oom, FILE *out)
{
	if (oom || t->oom) return jit_error(c, site, TJ_ERR_NOMEM, "metrics", NULL, "out of memory"), TJ_ERR_NOMEM;
	if (fwrite(t->s, 1, t->n, out) == t->n) return TJ_OK;
	return jit_error(c, site, TJ_ERR_IO, "metrics", NULL, "the text could not be written"), TJ_ERR_IO;
}

tj_status tj_metrics_at(const char *site, tj_ctx *c, FILE *out)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "metrics")) return TJ_ERR_STATE;
	if (!out) return jit_error(c, site, TJ_ERR_ARG, "metrics", "give a FILE that is open for writing", "out is NULL"), TJ_ERR_ARG;
	rt_text t = { 0 };
	jit_survey s = { 0 };
	jit_survey_engine(&s, c->engine);
	jit_survey_sort(&s);
	head(&t, "tjit_build_info", "gauge", "The version of the library; the value is 1.");
	rt_puts(&t, "tjit_build_info{");
	put_label(&t, "version", TJ_VERSION);
	rt_puts(&t, "} 1\n");
	put_functions(&t, &s);
	put_times(&t, &s);
	put_memory(&t);
	put_cache(&t, c->engine->store);
	const tj_status st = print(c, site, &t, s.oom, out);
	jit_survey_free(&s);
	rt_text_free(&t);
	return st;
}
