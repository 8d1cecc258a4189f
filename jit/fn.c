/* Compiled functions: made and freed; which entry a call meets; the budget of entries; reasons. */
#include "jit/jit.h"

enum { DEFAULT_ENTRIES = 64, MAX_SEGMENTS = 256 };

/* ---- functions ---- */
static tj_fn *new_fn(tj_ctx *c, const char *site, tj_body *body, void *self, const tj_compile_opts *o)
{
	tj_fn *f = rt_calloc(sizeof *f);
	char *name = rt_strdup(o->name ? o->name : "fn");
	if (!f || !name) {
		rt_free(f);
		rt_free(name);
		return NULL;
	}
	f->engine = c->engine;
	f->body = body;
	f->self = self;
	f->opts = *o;
	f->name = name;
	f->site = site;
	f->serial = atomic_fetch_add(&c->engine->rt.serial, 1);
	if (f->opts.max_entries <= 0) f->opts.max_entries = DEFAULT_ENTRIES;
	pthread_mutex_init(&f->table_lock, NULL);
	pthread_mutex_init(&f->compile, NULL);
	pthread_mutex_lock(&c->engine->rt.lock);
	f->next = c->engine->fns;
	if (f->next) f->next->prev = f;
	c->engine->fns = f;
	pthread_mutex_unlock(&c->engine->rt.lock);
	return f;
}

tj_fn *tj_compile_at(const char *site, tj_ctx *c, tj_body *body, void *self, const tj_compile_opts *opts)
{
	tj_compile_opts o = { 0 };
	if (!c) return NULL;
	if (opts) memcpy(&o, opts, opts->size && opts->size < sizeof o ? opts->size : sizeof o);
	if (!body || o.nin < 0 || o.nout < 0 || o.nin > 65535 || o.nout > 65535) {
		jit_error(c, site, TJ_ERR_ARG, "compile", body ? "set .nin and .nout" : "pass the function to compile", body ? ".nin and .nout are between 0 and 65535" : "body is NULL");
		return NULL;
	}
	tj_fn *f = new_fn(c, site, body, self, &o);
	if (!f) jit_error(c, site, TJ_ERR_NOMEM, "compile", NULL, "out of memory");
	return f;
}

void tj_fn_free_at(const char *site, tj_fn *f)
{
	if (!f) return;
	jit_engine *e = f->engine;
	tj_ctx *c = jit_current();
	if (atomic_load(&f->running)) {
		if (c) jit_error(c, site, TJ_ERR_STATE, "fn_free", "free it after its last call returned", "a call of %s is running", f->name);
		return;
	}
	pthread_mutex_lock(&e->rt.lock);
	if (f->prev) f->prev->next = f->next;
	else e->fns = f->next;
	if (f->next) f->next->prev = f->prev;
	pthread_mutex_unlock(&e->rt.lock);
	for (uint32_t i = 0; i < f->entry.n; i++) {
		atomic_store(&f->entry.v[i]->dead, true);
		jit_entry_unref(f->entry.v[i]);
	}
	rt_vec_free(&f->entry);
	gd_table_free(&f->table);
	for (int i = 0; i < JIT_REASONS; i++) rt_free(f->reason[i]);
	pthread_mutex_destroy(&f->table_lock);
	pthread_mutex_destroy(&f->compile);
	rt_free(f->name);
	rt_free(f);
}

/* ---- entries ---- */
static void free_sig(gd_sig *s)
{
	for (uint32_t i = 0; s->arg && i < s->narg; i++) rt_layout_unref(s->arg[i].layout);
	rt_free(s->arg);
	rt_free(s->ints);
}

void jit_entry_unref(jit_entry *e)
{
	if (!e || atomic_fetch_sub(&e->refs, 1) != 1) return;
	jit_node *first = atomic_load(&e->root.child);
	if (first) jit_free_trie(first);
	rt_vec_free(&e->sealed);
	free_sig(&e->sig);
	rt_free(e);
}

static jit_entry *new_entry(tj_fn *f, const gd_sig *sig)
{
	jit_entry *e = rt_calloc(sizeof *e);
	if (!e) return NULL;
	atomic_init(&e->refs, 1);
	e->fn = f;
	e->number = f->next_entry++;
	e->sig = *sig;
	e->sig.arg = rt_calloc((sig->narg + 1) * sizeof *e->sig.arg);
	e->sig.ints = rt_calloc((sig->nint + 1) * sizeof *e->sig.ints);
	if (!e->sig.arg || !e->sig.ints) {
		rt_free(e->sig.arg);
		rt_free(e->sig.ints);
		rt_free(e);
		return NULL;
	}
	if (sig->nint) memcpy(e->sig.ints, sig->ints, sig->nint * sizeof *sig->ints);
	for (uint32_t i = 0; i < sig->narg; i++) {
		e->sig.arg[i] = sig->arg[i];
		if (sig->arg[i].layout) rt_layout_ref(sig->arg[i].layout);
	}
	return e;
}

/* ---- reasons ---- */
void jit_reason(tj_fn *f, const tj_reason *r)
{
	rt_log(&f->engine->rt.log, RT_LOG_RECOMPILES, "[%s] %s: %s", f->name, r->site ? r->site : "?", r->text);
	char line[640];
	snprintf(line, sizeof line, "%s: %s", r->site ? r->site : "?", r->text);
	char *copy = rt_strdup(line);
	pthread_mutex_lock(&f->table_lock);
	char **slot = &f->reason[f->nreason % JIT_REASONS];
	rt_free(*slot);
	*slot = copy;
	f->nreason++;
	pthread_mutex_unlock(&f->table_lock);
	if (f->opts.on_recompile) f->opts.on_recompile(f->opts.on_recompile_self, r);
}

static void explain_new_entry(tj_fn *f, const gd_why *w, uint32_t nearest, const char *site)
{
	char text[512];
	int n = snprintf(text, sizeof text, "%s: ", f->name);
	size_t room = sizeof text - (size_t)n;
	if (w->cause == GD_SCALAR) snprintf(text + n, room, "integer scalar %d was %s, is %s (trace %u); %s", w->arg, w->expected, w->found, nearest, gd_cause_hint(w->cause));
	else if (w->dim >= 0) snprintf(text + n, room, "argument %d: dim %d was %s, is %s (trace %u); %s", w->arg, w->dim, w->expected, w->found, nearest, gd_cause_hint(w->cause));
	else snprintf(text + n, room, "argument %d: %s was %s, is %s (trace %u); %s", w->arg, gd_cause_name(w->cause), w->expected, w->found, nearest, gd_cause_hint(w->cause));
	jit_reason(f, &(tj_reason){ .fn = f->name, .kind = gd_cause_name(w->cause), .arg = w->arg, .dim = w->dim, .event = -1, .expected = w->expected,
	                            .found = w->found, .site = site, .hint = gd_cause_hint(w->cause), .text = text });
}

/* Dropping traces makes calls slow: said for the first one, and now and then. */
enum { EVICTIONS_TOLD = 64 };
static void explain_eviction(tj_fn *f, const char *site)
{
	char text[256];
	if ((atomic_load(&f->count.evictions) - 1) % EVICTIONS_TOLD) return;
	snprintf(text, sizeof text, "%s: more than .max_entries = %d signatures: the least recently used trace is dropped and will be compiled again; "
	         "raise .max_entries, or pad arguments to fewer sizes", f->name, f->opts.max_entries);
	jit_reason(f, &(tj_reason){ .fn = f->name, .kind = "eviction", .arg = -1, .dim = -1, .event = -1, .expected = "", .found = "", .site = site,
	                            .hint = "raise .max_entries", .text = text });
}

/* The entry whose guards fail on the fewest arguments, and its first failure. */
static bool nearest_entry(tj_fn *f, const gd_sig *sig, gd_why *why, uint32_t *number)
{
	int best = -1;
	for (uint32_t i = 0; i < f->entry.n; i++) {
		gd_why w;
		int differ = gd_compare(&f->entry.v[i]->sig, sig, &w);
		if (best >= 0 && differ >= best) continue;
		best = differ;
		*why = w;
		*number = f->entry.v[i]->number;
	}
	return best >= 0;
}

/* ---- the table ---- */
static void evict_oldest(tj_fn *f)
{
	uint32_t oldest = 0;
	for (uint32_t i = 1; i < f->entry.n; i++)
		if (atomic_load(&f->entry.v[i]->stamp) < atomic_load(&f->entry.v[oldest]->stamp)) oldest = i;
	jit_entry *e = f->entry.v[oldest];
	gd_remove(&f->table, e);
	f->entry.v[oldest] = f->entry.v[--f->entry.n];
	atomic_store(&e->dead, true);
	JIT_COUNT(f, evictions);
	rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s] trace %u evicted: more than .max_entries = %d signatures", f->name, e->number, f->opts.max_entries);
	jit_entry_unref(e);
}

static void forget(jit_last *l)
{
	jit_entry_unref(l->entry);
	rt_free(l->word);
	*l = (jit_last){ 0 };
}

void jit_forget_last(tj_ctx *c)
{
	for (int i = 0; i < JIT_LAST; i++) forget(&c->last[i]);
}

static jit_last *last_of(tj_ctx *c, const tj_fn *f) { return &c->last[f->serial % JIT_LAST]; }

static jit_entry *last_hit(tj_ctx *c, tj_fn *f, const uint32_t *word, uint32_t n)
{
	jit_last *l = last_of(c, f);
	if (l->fn != f || l->serial != f->serial || l->nword != n || memcmp(l->word, word, n * sizeof *word)) return NULL;
	return atomic_load_explicit(&l->entry->dead, memory_order_relaxed) ? NULL : l->entry;
}

static void remember(tj_ctx *c, tj_fn *f, const uint32_t *word, uint32_t n, jit_entry *e)
{
	jit_last *l = last_of(c, f);
	forget(l);
	uint32_t *copy = rt_alloc(n * sizeof *copy);
	if (!copy) return;
	memcpy(copy, word, n * sizeof *word);
	atomic_fetch_add(&e->refs, 1);
	*l = (jit_last){ f, f->serial, e, n, copy };
}

/* A new entry for a key that no guards admit. Under table_lock. */
static jit_entry *add_entry(tj_fn *f, const gd_sig *sig, const uint32_t *word, uint32_t n)
{
	if (f->entry.n >= (uint32_t)f->opts.max_entries) evict_oldest(f);
	jit_entry *e = rt_reserve(&f->entry, 1) ? new_entry(f, sig) : NULL;
	if (e && !gd_insert(&f->table, word, n, e)) {
		jit_entry_unref(e);
		e = NULL;
	}
	if (e) f->entry.v[f->entry.n++] = e;
	return e;
}

/* (0) the context's last hit, (1) the exact-key table, (3) a new entry; a reference. */
jit_entry *jit_find_entry(jit_act *a, const gd_sig *sig, const char *site)
{
	tj_fn *f = a->fn;
	uint32_t n = gd_key_words(sig), nearest = 0;
	uint32_t *word = rt_arena_alloc(&a->mem, n * sizeof *word);
	if (!word) return NULL;
	gd_key(sig, word);
	jit_entry *e = last_hit(a->ctx, f, word, n);
	if (!e) {
		gd_why why;
		bool fresh = false, explain = false;
		unsigned long long evicted = atomic_load(&f->count.evictions);
		pthread_mutex_lock(&f->table_lock);
		e = gd_find(&f->table, word, n);
		if (!e) {
			explain = nearest_entry(f, sig, &why, &nearest);
			e = add_entry(f, sig, word, n);
			fresh = e != NULL;
		}
		if (e) atomic_fetch_add(&e->refs, 1);
		pthread_mutex_unlock(&f->table_lock);
		if (!e) return NULL;
		if (atomic_load(&f->count.evictions) != evicted) explain_eviction(f, site);
		if (fresh && explain) explain_new_entry(f, &why, nearest, site);
		if (fresh) rt_log(&f->engine->rt.log, RT_LOG_GUARDS, "[%s/%u] new signature, %u arguments", f->name, e->number, sig->narg);
		remember(a->ctx, f, word, n, e);
	} else atomic_fetch_add(&e->refs, 1);
	atomic_store_explicit(&e->stamp, atomic_fetch_add_explicit(&f->engine->rt.serial, 1, memory_order_relaxed), memory_order_relaxed);
	return e;
}

/* After a call that failed: an entry that holds nothing goes. After a call that recorded: one that holds too much. */
void jit_drop_empty(jit_entry *e)
{
	tj_fn *f = e->fn;
	bool empty = !atomic_load(&e->root.child), full = e->sealed.n > MAX_SEGMENTS;
	if (!empty && !full) return;
	pthread_mutex_lock(&f->table_lock);
	for (uint32_t i = 0; i < f->entry.n; i++) {
		if (f->entry.v[i] != e || (empty && atomic_load(&e->root.child))) continue;
		gd_remove(&f->table, e);
		f->entry.v[i] = f->entry.v[--f->entry.n];
		atomic_store(&e->dead, true);
		if (full) {
			JIT_COUNT(f, evictions);
			rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s] trace %u dropped: more than %d segments", f->name, e->number, MAX_SEGMENTS);
		}
		jit_entry_unref(e);
		break;
	}
	pthread_mutex_unlock(&f->table_lock);
}
