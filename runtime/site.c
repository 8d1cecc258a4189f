/* SPDX-License-Identifier: MIT */
/* Sites that explain an index that is out of range. They are never freed: plans and errors of all engines have them. Lists of buckets only
 * grow, so they are read without a lock. */
#include "runtime/site.h"

#include "runtime/alloc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 256 };
static _Atomic(rt_site *) bucket[BUCKETS];

static _Atomic(rt_site *) *bucket_of(const char *text) { return &bucket[rt_hash(text, strlen(text), 0) % BUCKETS]; }

const rt_site *rt_site_find(const char *site)
{
	rt_site *s = site ? atomic_load_explicit(bucket_of(site), memory_order_acquire) : NULL;
	while (s && s->text != site) s = s->next;
	return s;
}

void rt_site_tell(rt_err *e, const char *site)
{
	const rt_site *s = rt_site_find(site);
	if (!s) return;
	e->op = s->op;
	if (s->sized) snprintf(e->message, sizeof e->message, "%s%lld", s->message, (long long)e->size);
	else snprintf(e->message, sizeof e->message, "%s", s->message);
	if (*s->hint) snprintf(e->hint, sizeof e->hint, "%s", s->hint);
}

tj_status rt_fault_fail(const rt_fault *f, rt_err *err)
{
	const bool first = err && err->code == TJ_OK;
	tj_status s = f->code == TJ_ERR_INDEX
	                      ? rt_fail(err, f->code, f->op, "an index is out of range for an axis of size %lld", (long long)f->size)
	                      : rt_fail(err, f->code, f->op, "%s", tj_strerror(f->code));
	if (first && s == TJ_ERR_INDEX) {
		err->size = f->size;
		rt_site_tell(err, f->site);
		rt_hint(err, "indices count from 0; tj.h marks by * the functions that take negative ones; tj_clamp() limits an index");
	}
	if (err && err->code == s && s == TJ_ERR_DIV) rt_hint(err, "in a function compiled with .int_div_zero = TJ_ZERO the result is 0");
	if (err && !err->site) err->site = f->site;
	return s;
}

static bool same(const rt_site *s, const rt_site *t)
{
	return !strcmp(s->text, t->text) && !strcmp(s->op, t->op) && !strcmp(s->message, t->message) && !strcmp(s->hint, t->hint);
}

/* A copy of all texts behind the struct, in one piece of memory. */
static rt_site *copy(const rt_site *s)
{
	const char *from[4] = { s->text, s->op, s->message, s->hint }, *to[4];
	size_t n = sizeof *s;
	for (int i = 0; i < 4; i++) n += strlen(from[i]) + 1;
	rt_site *t = rt_alloc(n);
	if (!t) return NULL;
	char *at = (char *)(t + 1);
	for (int i = 0; i < 4; i++) {
		to[i] = strcpy(at, from[i]);
		at += strlen(at) + 1;
	}
	*t = (rt_site){ .text = to[0], .op = to[1], .message = to[2], .hint = to[3] };
	n = strlen(t->message);
	t->sized = n && t->message[n - 1] == ' ';
	return t;
}

const char *tj_site_for(const char *site, const char *op, const char *message, const char *hint)
{
	if (!site || !op || !message || rt_site_find(site)) return site;
	const rt_site wanted = { .text = site, .op = op, .message = message, .hint = hint ? hint : "" };
	_Atomic(rt_site *) *b = bucket_of(site);
	rt_site *first = atomic_load_explicit(b, memory_order_acquire), *made = NULL;
	for (;;) {
		rt_site *s = first;
		while (s && !same(s, &wanted)) s = s->next;
		if (s || (!made && !(made = copy(&wanted)))) {
			rt_free(made);
			return s ? s->text : site;
		}
		made->next = first;
		if (atomic_compare_exchange_weak(b, &first, made)) return made->text;
	}
}
