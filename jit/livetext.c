/* SPDX-License-Identifier: MIT */
/* livetext: what others see of a process: its counters as JSON. */
#include "jit/survey.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

static void put_escaped(rt_text *t, const char *s, size_t n)
{
	if (n == 1 && (*s == '\\' || *s == '"')) rt_putf(t, "\\%c", *s);
	else if (n == 1 && ((unsigned char)*s < ' ' || *s == 0x7f)) rt_putf(t, "\\u%04x", (unsigned)*s);
	else rt_putn(t, s, n);
}

/* "key": or , "key": in an object that has members */
static void put_key(rt_text *t, const char *key)
{
	rt_putf(t, "%s\"%s\": ", t->n && t->s[t->n - 1] != '{' ? ", " : "", key);
}

static void put_string(rt_text *t, const char *key, const char *s)
{
	put_key(t, key);
	rt_puts(t, "\"");
	jit_put_utf8(t, s, put_escaped);
	rt_puts(t, "\"");
}

/* JSON's readers have 63 bits. */
static void put_number(rt_text *t, const char *key, uint64_t n)
{
	put_key(t, key);
	rt_putf(t, "%lld", (long long)(n > INT64_MAX ? INT64_MAX : n));
}

static uint64_t us(double ms) { return ms > 0 ? (uint64_t)(ms * 1e3) : 0; }

static void put_function(rt_text *t, const jit_row *r)
{
	const tj_stats *s = &r->sum;
	rt_puts(t, "\n    {");
	put_string(t, "name", r->name);
	put_string(t, "site", r->site);
	put_number(t, "functions", r->functions);
#define X(field) put_number(t, #field, s->field);
	X(calls) X(hits) X(direct) X(recordings) X(side_exits) X(failures) X(evictions) X(sizes) X(plans) X(kernels) X(compiled) X(loaded)
	X(shared) X(bytes) X(code_bytes)
#undef X
	put_number(t, "trace_us", us(s->trace_ms));
	put_number(t, "lower_us", us(s->lower_ms));
	put_number(t, "codegen_us", us(s->codegen_ms));
	rt_puts(t, "}");
}

static void put_memory(rt_text *t)
{
	put_key(t, "memory");
	rt_puts(t, "[");
	for (int d = 0; d < RT_DEVICES && (d == RT_CPU || rt_device_at(d)); d++) {
		const rt_usage u = rt_usage_of(d);
		rt_puts(t, d ? ", {" : "{");
		put_string(t, "device", rt_device_name(d));
		put_number(t, "bytes", u.used);
		put_number(t, "peak_bytes", u.peak);
		rt_puts(t, "}");
	}
	rt_puts(t, "]");
}

void jit_put_live(rt_text *t, jit_survey *s)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	jit_survey_sort(s);
	rt_puts(t, "{");
	put_number(t, "pid", (uint64_t)getpid());
	put_string(t, "program", program_invocation_short_name);
	put_string(t, "version", TJ_VERSION);
	put_number(t, "at_us", (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
	put_number(t, "threads", (uint64_t)rt_team_threads());
	put_memory(t);
	put_key(t, "functions");
	rt_puts(t, "[");
	for (uint32_t i = 0; i < s->row.n; i++) {
		if (i) rt_puts(t, ",");
		put_function(t, &s->row.v[i]);
	}
	rt_puts(t, "]}\n");
	t->oom |= s->oom;
}
