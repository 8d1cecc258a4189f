/* Compiled functions: made and freed; which entry a call meets; the budget of entries; reasons. */
#include "jit/jit.h"

enum { DEFAULT_ENTRIES = 64, MAX_SEGMENTS = 256 };

/* ---- functions ---- */

/* Functions are numbered densely, so that a context finds what it knows of one by its number. Under the engine's lock. */
static bool take_index(jit_engine *e, uint32_t *index)
{
	uint32_t w = 0;
	while (w < e->nused && !~e->used[w]) w++;
	if (w == e->nused) {
		uint64_t *more = rt_realloc(e->used, (w + 1) * sizeof *more);
		if (!more) return false;
		e->used = more;
		e->used[e->nused++] = 0;
	}
	uint32_t bit = (uint32_t)__builtin_ctzll(~e->used[w]);
	e->used[w] |= UINT64_C(1) << bit;
	*index = w * 64 + bit;
	return true;
}

static void give_index(jit_engine *e, uint32_t index) { e->used[index / 64] &= ~(UINT64_C(1) << index % 64); }

/* The addresses in .state and .freeze; false: out of memory. */
static bool copy_vars(tj_fn *f, const tj_compile_opts *o)
{
	const tj_vars list[2] = { o->state, o->freeze };
	uint32_t n[2] = { 0, 0 };
	for (int k = 0; k < 2; k++)
		while (list[k] && list[k][n[k]] != TJ_END_VAR) n[k]++;
	f->state = rt_calloc((n[0] + n[1] + 1) * sizeof *f->state);
	if (!f->state) return false;
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < n[k]; i++) f->state[f->nstate++] = list[k][i];
	f->nfreeze = n[1];
	return true;
}

static bool copy_passes(tj_fn *f, const tj_compile_opts *o)
{
	while (o->passes && o->passes[f->npass].run) f->npass++;
	f->pass = rt_calloc((f->npass + 1) * sizeof *f->pass);
	if (f->pass && f->npass) memcpy(f->pass, o->passes, f->npass * sizeof *f->pass);
	return f->pass != NULL;
}

static void free_fn(tj_fn *f)
{
	if (!f) return;
	rt_free(f->pass);
	rt_free(f->state);
	rt_free(f->name);
	rt_free(f);
}

static tj_fn *new_fn(tj_ctx *c, const char *site, tj_body *body, void *self, const tj_compile_opts *o)
{
	tj_fn *f = rt_calloc(sizeof *f);
	if (!f || !(f->name = rt_strdup(o->name ? o->name : "fn")) || !copy_vars(f, o) || !copy_passes(f, o)) {
		free_fn(f);
		return NULL;
	}
	f->engine = c->engine;
	f->body = body;
	f->self = self;
	f->opts = *o;
	f->site = site;
	if (f->opts.max_entries <= 0) f->opts.max_entries = DEFAULT_ENTRIES;
	pthread_mutex_lock(&c->engine->rt.lock);
	if (!take_index(c->engine, &f->index)) {
		pthread_mutex_unlock(&c->engine->rt.lock);
		free_fn(f);
		return NULL;
	}
	pthread_mutex_init(&f->table_lock, NULL);
	pthread_mutex_init(&f->compile, NULL);
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

static bool is_running(tj_fn *f)
{
	bool busy = false;
	pthread_mutex_lock(&f->table_lock);
	for (jit_slot *s = f->slots; s; s = s->next) busy |= atomic_load(&s->busy);
	pthread_mutex_unlock(&f->table_lock);
	return busy;
}

void tj_fn_free_at(const char *site, tj_fn *f)
{
	if (!f) return;
	jit_engine *e = f->engine;
	tj_ctx *c = jit_current();
	if (is_running(f)) {
		if (c) jit_error(c, site, TJ_ERR_STATE, "fn_free", "free it after its last call returned", "a call of %s is running", f->name);
		return;
	}
	pthread_mutex_lock(&e->rt.lock);
	if (f->prev) f->prev->next = f->next;
	else e->fns = f->next;
	if (f->next) f->next->prev = f->prev;
	jit_slots_drop(f);
	give_index(e, f->index);
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
	free_fn(f);
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

/* The entry of a key that this context has not met: by the exact-key table, else a new one; a reference. */
jit_entry *jit_find_entry(tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site)
{
	uint32_t n = gd_key_words(sig), nearest = 0;
	gd_why why;
	bool fresh = false, explain = false;
	unsigned long long evicted = atomic_load(&f->count.evictions);
	pthread_mutex_lock(&f->table_lock);
	jit_entry *e = gd_find(&f->table, word, n);
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
