/* SPDX-License-Identifier: MIT */
/* Messages. Lines go to the log, structs to the callbacks of the program, and the last ones are kept for tj_explain(). */
#include "jit/claim.h"
#include "jit/note.h"

char *jit_where(char *to, const tj_fn *f, const jit_entry *e, int segment)
{
	char nth[16] = "", last[16] = "";
	if (e->nth) snprintf(nth, sizeof nth, ".%u", e->nth);
	if (segment >= 0) snprintf(last, sizeof last, "/%d", segment);
	snprintf(to, JIT_WHERE, "%.100s/%u%s%s", f->name, e->number, nth, last);
	return to;
}

static jit_line *find_line(jit_ring *ring, const char *text)
{
	for (int i = 0; i < JIT_REASONS; i++)
		if (ring->line[i].text && !strcmp(ring->line[i].text, text)) return &ring->line[i];
	return NULL;
}

/* A line and a copy of the reason, in one block. */
static jit_line new_line(const tj_fn *f, const char *line, const tj_reason *r)
{
	jit_line l = { .times = 1 };
	const char *const from[] = { line, r->kind, r->expected, r->found, r->site ? r->site : "?", r->hint, r->text };
	const char **const to[] = { NULL, &l.r.kind, &l.r.expected, &l.r.found, &l.r.site, &l.r.hint, &l.r.text };
	size_t bytes = 0;
	for (size_t i = 0; i < RT_COUNT(from); i++) bytes += strlen(from[i]) + 1;
	char *at = l.text = rt_alloc(bytes);
	if (!at) return l;
	l.r = *r;
	l.r.fn = f->name;
	for (size_t i = 0; i < RT_COUNT(from); i++) {
		const size_t n = strlen(from[i]) + 1;
		memcpy(at, from[i], n);
		if (to[i]) *to[i] = at;
		at += n;
	}
	return l;
}

static void keep(tj_fn *f, jit_ring *ring, const tj_reason *r)
{
	char line[700];
	snprintf(line, sizeof line, "%s: %s", r->site ? r->site : "?", r->text);
	rt_lock(&f->table_lock);
	jit_line *same = find_line(ring, line);
	if (same) same->times++;
	else {
		jit_line *oldest = &ring->line[ring->n++ % JIT_REASONS];
		rt_free(oldest->text);
		*oldest = new_line(f, line, r);
	}
	ring->told++;
	rt_unlock(&f->table_lock);
}

static void log_it(tj_fn *f, rt_topic topic, const tj_reason *r)
{
	char where[160];
	int n = snprintf(where, sizeof where, "%s", f->name);
	if (n >= (int)sizeof where) n = (int)sizeof where - 1;
	if (r->trace >= 0) n += snprintf(where + n, sizeof where - (size_t)n, "/%d", r->trace);
	if (r->trace >= 0 && r->segment >= 0 && n < (int)sizeof where) snprintf(where + n, sizeof where - (size_t)n, "/%d", r->segment);
	rt_log(&f->engine->rt.log, topic, "[%s] %s: %s", where, r->site ? r->site : "?", r->text);
}

tj_reason jit_new_reason(const char *fn, const char *kind, const char *site, const char *hint, const char *text)
{
	return (tj_reason){ .fn = fn, .kind = kind, .arg = -1, .dim = -1, .event = -1, .expected = "", .found = "", .site = site, .hint = hint,
	                    .text = text, .state = -1, .trace = -1, .segment = -1 };
}

void jit_reason(tj_fn *f, const tj_reason *r)
{
	log_it(f, RT_LOG_RECOMPILES, r);
	keep(f, &f->reasons, r);
	JIT_CALLS_BACK;
	if (f->opts.on_recompile) f->opts.on_recompile(f->opts.on_recompile_self, r);
}

void jit_tell(tj_fn *f, rt_topic topic, const tj_reason *n)
{
	log_it(f, topic, n);
	JIT_CALLS_BACK;
	if (f->opts.on_note) f->opts.on_note(f->opts.on_note_self, n);
}

void jit_note(tj_fn *f, rt_topic topic, const tj_reason *n)
{
	keep(f, &f->notes, n);
	jit_tell(f, topic, n);
}

void jit_put_numbers(char *was, char *is, size_t room, bool is_int, uint64_t before, uint64_t now)
{
	const uint64_t bits[2] = { before, now };
	char *const to[2] = { was, is };
	for (int digits = 9; digits <= 17; digits += 8) { /* enough digits to show the difference */
		for (int i = 0; i < 2; i++)
			if (is_int) snprintf(to[i], room, "%lld", (long long)bits[i]);
			else snprintf(to[i], room, "%.*g", digits, rt_double(bits[i]));
		if (strcmp(was, is) != 0) return;
	}
}
