/* SPDX-License-Identifier: MIT */
/* A profile as text: one table of steps, one of the work of the host, one of memory. */
#include "jit/profiling.h"

enum { NAME_LEAST = 28, NAME_MOST = 48 }; /* columns */

static int width_of(const jit_rows *rows)
{
	size_t most = NAME_LEAST;
	for (uint32_t i = 0; i < rows->of.n; i++) most = strlen(rows->of.v[i].name) > most ? strlen(rows->of.v[i].name) : most;
	return most < NAME_MOST ? (int)most : NAME_MOST;
}

/* three digits and a unit, in nine columns */
static void put_ms(rt_text *t, double ms)
{
	if (ms >= 1e5) rt_putf(t, " %7.1f s", ms / 1e3);
	else if (ms >= 100) rt_putf(t, " %6.1f ms", ms);
	else if (ms >= 0.1) rt_putf(t, " %6.2f ms", ms);
	else rt_putf(t, " %6.2f us", ms * 1e3);
}

static void put_bytes(rt_text *t, double b)
{
	if (b >= 1 << 30) rt_putf(t, "%.1f GiB", b / (1 << 30));
	else if (b >= 1 << 20) rt_putf(t, "%.1f MiB", b / (1 << 20));
	else if (b >= 1 << 10) rt_putf(t, "%.1f KiB", b / (1 << 10));
	else rt_putf(t, "%.0f bytes", b);
}

/* a rate in seven columns; nothing if it is 0 */
static void put_rate(rt_text *t, double x)
{
	if (x <= 0) rt_puts(t, "       ");
	else if (x >= 100) rt_putf(t, " %6.0f", x);
	else if (x >= 0.095) rt_putf(t, " %6.1f", x);
	else rt_puts(t, "   <0.1");
}

static void put_limits(rt_text *t, const rt_limits *l)
{
	if (!l->threads) return;
	rt_putf(t, "this machine, %d thread%s:", l->threads, l->threads == 1 ? "" : "s");
	if (l->byte_ns[RT_FAR] > 0) {
		rt_putf(t, " reads %.0f GB/s from memory,", 1 / l->byte_ns[RT_FAR]);
		for (int i = RT_MIDDLE; i >= RT_NEAR; i--) {
			rt_putf(t, " %.0f GB/s of up to ", 1 / l->byte_ns[i]);
			put_bytes(t, (double)l->bytes[i]);
			rt_puts(t, ",");
		}
	}
	if (l->flop_ns > 0) rt_putf(t, " computes %.0f GF/s of f32, %.0f of f64", 1 / l->flop_ns, 0.5 / l->flop_ns);
	rt_puts(t, "\n");
}

static void put_head(rt_text *t, const rt_report *x)
{
	double calls = 0, steps = 0;
	uint64_t n = 0;
	for (const rt_function *f = x->function; f; f = f->next) n += f->count.runs, calls += (double)f->count.total;
	for (uint32_t i = 0; i < x->nrow; i++) steps += (double)x->sum[i].count.self;
	rt_putf(t, "profile of %.1f ms: %llu call%s took %.1f ms, %.1f ms of it in %s steps\n", rt_profile_ms(x->profile),
	        (unsigned long long)n, n == 1 ? "" : "s", calls / 1e6, steps / 1e6, n == 1 ? "its" : "their");
	put_limits(t, rt_profile_limits(x->profile));
	const uint64_t lost = rt_profile_lost(x->profile);
	if (lost) rt_putf(t, "memory was short: %llu times something is not counted\n", (unsigned long long)lost);
	rt_puts(t, "\n");
}

static const char *what(tj_profile_by by)
{
	static const char *const names[] = { "kernel", "line", "op", "function" };
	return names[by];
}

static void put_step(rt_text *t, const tj_profile_row *r, const tj_profile_view *v, int width)
{
	const double self = r->self_ms * 1e6;
	rt_putf(t, "%-*s", width, r->name);
	put_ms(t, r->self_ms);
	rt_putf(t, " %5.1f%%", 100 * r->share);
	if (v->by == TJ_BY_KERNEL || v->by == TJ_BY_FUNCTION) put_ms(t, r->total_ms);
	rt_putf(t, " %9llu", (unsigned long long)r->calls);
	put_ms(t, r->mean_us / 1e3);
	put_rate(t, self > 0 ? (r->read_bytes + r->written_bytes) / self : 0);
	put_rate(t, self > 0 ? r->flops / self : 0);
	if (r->limit > 0) rt_putf(t, " %5.0f%%", 100 * r->limit);
	else if (*r->where) rt_puts(t, "       ");
	if (r->device != TJ_CPU) rt_putf(t, "  on %s", rt_device_name(r->device));
	if (*r->where) rt_putf(t, "  %s", r->where);
	rt_puts(t, "\n");
}

static void put_steps(rt_text *t, const tj_profile_view *v, const jit_rows *rows)
{
	const int width = width_of(rows);
	const bool total = v->by == TJ_BY_KERNEL || v->by == TJ_BY_FUNCTION;
	rt_putf(t, "%-*s      self  share%s     calls      mean   GB/s   GF/s  limit%s\n", width, what(v->by), total ? "     total" : "",
	        v->by == TJ_BY_KERNEL || v->by == TJ_BY_LINE ? "  computes" : "");
	for (uint32_t i = 0; i < rows->of.n; i++)
		if (rows->of.v[i].kind == TJ_ROW_STEP) put_step(t, &rows->of.v[i], v, width);
}

static void put_host(rt_text *t, const jit_rows *rows)
{
	bool any = false;
	for (uint32_t i = 0; i < rows->of.n; i++) {
		const tj_profile_row *r = &rows->of.v[i];
		if (r->kind != TJ_ROW_HOST) continue;
		if (!any) rt_putf(t, "\n%-*s      self            calls      mean\n", NAME_LEAST, "work of the host");
		any = true;
		rt_putf(t, "%-*s", NAME_LEAST, r->name);
		put_ms(t, r->self_ms);
		rt_putf(t, "        %9llu", (unsigned long long)r->calls);
		put_ms(t, r->mean_us / 1e3);
		if (!strncmp(r->name, "waiting", 7)) rt_puts(t, "  a part of the steps above");
		rt_puts(t, "\n");
	}
}

static void put_memory(rt_text *t, const jit_rows *rows)
{
	bool any = false;
	for (uint32_t i = 0; i < rows->of.n; i++) {
		const tj_profile_row *r = &rows->of.v[i];
		if (r->kind != TJ_ROW_MEMORY) continue;
		if (!any) rt_putf(t, "\n%-*s temporaries of the segments that end at\n", NAME_LEAST, "memory");
		any = true;
		rt_putf(t, "%-*s ", NAME_LEAST, r->name);
		put_bytes(t, (double)r->memory);
		if (r->device != TJ_CPU) rt_putf(t, " on %s", rt_device_name(r->device));
		rt_putf(t, "  %s", r->where);
		if (*r->function) rt_putf(t, ", most of them at %s", r->function);
		rt_puts(t, "\n");
	}
}

void jit_put_profile(rt_text *t, const rt_report *x, const tj_profile_view *v, const jit_rows *rows)
{
	if (!v->rows_only) put_head(t, x);
	put_steps(t, v, rows);
	put_host(t, rows);
	put_memory(t, rows);
}
