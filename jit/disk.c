/* SPDX-License-Identifier: MIT */
/* The disk cache as a program sees it: where it is, what it did, what is in it. */
#include "jit/call.h"
#include "jit/claim.h"

tj_status tj_cache_info_at(const char *site, tj_ctx *c, tj_cache_info *out)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "cache_info")) return TJ_ERR_STATE;
	if (!jit_has_room(c, site, "cache_info", out, out ? out->size : 0, "tj_cache_info i = { .size = sizeof i };"))
		return TJ_ERR_ARG;
	rt_store *s = c->engine->store;
	const rt_store_counts n = rt_store_count(s);
	tj_cache_info all = { .size = out->size, .folder = rt_store_folder(s), .why = rt_store_why(s), .writes = rt_store_writes(s),
		              .hits = n.hits, .stored = n.stored, .failed = n.failed, .read_bytes = n.read_bytes, .written_bytes = n.written_bytes,
		              .most_bytes = s->most };
	for (int i = 0; i < RT_MISSES; i++) all.misses += n.miss[i];
	memcpy(out, &all, all.size < sizeof all ? all.size : sizeof all);
	return TJ_OK;
}

bool tj_cache_miss(tj_ctx *c, int i, const char **name, const char **why, uint64_t *n)
{
	if (!c || i < 0 || i >= RT_MISSES) return false;
	if (name) *name = rt_miss_name((rt_miss)i);
	if (why) *why = rt_miss_text((rt_miss)i);
	if (n) *n = rt_store_count(c->engine->store).miss[i];
	return true;
}

typedef struct visitor {
	tj_cache_visit *visit;
	void *env;
} visitor;

static bool visit(void *env, const rt_store_entry *e)
{
	const visitor *v = env;
	const bool missed = e->miss != RT_MISS_ABSENT;
	rt_text about = { 0 };
	if (e->key.bytes) rt_putn(&about, e->key.at, e->key.bytes);
	const tj_cache_entry seen = { .path = e->path, .kind = rt_store_kind_name(e->kind), .about = e->key.bytes ? rt_str(&about) : NULL,
		                      .miss = missed ? rt_miss_name(e->miss) : NULL, .why = missed ? rt_miss_text(e->miss) : NULL,
		                      .bytes = e->bytes, .used = e->used };
	JIT_CALLS_BACK;
	const bool on = v->visit(v->env, &seen);
	rt_text_free(&about);
	return on;
}

static tj_status told(tj_ctx *c, const char *site, tj_status st, const rt_err *err)
{
	if (st != TJ_OK) jit_report(c, site, err);
	return st;
}

tj_status tj_cache_walk_at(const char *site, tj_ctx *c, bool verify, tj_cache_visit *f, void *env)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses_in_body(c, site, "cache_walk")) return TJ_ERR_STATE;
	if (!f) return jit_error(c, site, TJ_ERR_ARG, "cache_walk", "bool visit(void *env, const tj_cache_entry *e)", "visit is NULL"), TJ_ERR_ARG;
	visitor v = { f, env };
	rt_err err = { 0 };
	return told(c, site, rt_store_walk(c->engine->store, verify, visit, &v, &err), &err);
}

tj_status tj_cache_clear_at(const char *site, tj_ctx *c, uint64_t *files, uint64_t *bytes)
{
	JIT_COME_IN(in, c, site);
	uint64_t n = 0, all = 0;
	if (!in || jit_refuses_in_body(c, site, "cache_clear")) return TJ_ERR_STATE;
	rt_err err = { 0 };
	const tj_status st = rt_store_clear(c->engine->store, &n, &all, &err);
	if (files) *files = n;
	if (bytes) *bytes = all;
	return told(c, site, st, &err);
}
