/* SPDX-License-Identifier: MIT */
/* Entries: the signatures that a function was called with. Finding the entry of a call, the reason for a new one, the budget of entries
 * (evict.c chooses what goes). */
#include "jit/ctx.h"
#include "jit/guard.h"
#include "jit/note.h"

enum { MAX_SEGMENTS = 256, NEAREST = 64 };

/* ---- reasons ---- */
static void tell_cause(tj_fn *f, tj_reason *r, const gd_why *w, uint32_t trace)
{
	r->arg = w->arg;
	r->dim = w->dim;
	r->expected = w->expected;
	r->found = w->found;
	r->trace = (int)trace;
	jit_reason(f, r);
}

static void explain_new_entry(tj_fn *f, uint32_t trace, const gd_why *w, uint32_t nearest, const char *site)
{
	char text[512];
	int n = snprintf(text, sizeof text, "%s: ", f->name);
	size_t room = sizeof text - (size_t)n;
	if (w->cause == GD_SCALARS)
		snprintf(text + n, room, "scalars were %s, are %s (trace %u); %s", w->expected, w->found, nearest, gd_cause_hint(w->cause));
	else if (w->cause == GD_SCALAR)
		snprintf(text + n, room, "integer scalar %d was %s, is %s (trace %u); %s", w->arg, w->expected, w->found, nearest,
		         gd_cause_hint(w->cause));
	else if (w->dim >= 0)
		snprintf(text + n, room, "argument %d: dim %d was %s, is %s (trace %u); %s", w->arg, w->dim, w->expected, w->found, nearest,
		         gd_cause_hint(w->cause));
	else
		snprintf(text + n, room, "argument %d: %s was %s, is %s (trace %u); %s", w->arg, gd_cause_name(w->cause), w->expected,
		         w->found, nearest, gd_cause_hint(w->cause));
	tj_reason r = jit_new_reason(f->name, gd_cause_name(w->cause), site, gd_cause_hint(w->cause), text);
	tell_cause(f, &r, w, trace);
}

/* Dropped traces make calls slow: reported for the first one, then now and then. */
enum { EVICTIONS_TOLD = 64 };
static void explain_eviction(tj_fn *f, const char *site)
{
	static const char hint[] = "raise .max_bytes or .max_entries";
	char text[320];
	if ((atomic_load(&f->count.evictions) - 1) % EVICTIONS_TOLD) return;
	int n = snprintf(text, sizeof text, "%s: ", f->name);
	if (f->opts.max_entries)
		n += snprintf(text + n, sizeof text - (size_t)n, "more than .max_entries = %d signatures%s, or ", f->opts.max_entries,
		              f->family ? " or 16 times as many sizes" : "");
	snprintf(text + n, sizeof text - (size_t)n,
	         "traces of more than .max_bytes = %zu KiB: one that was not used lately is dropped and will be %s again; raise %s, or pad "
	         "arguments to fewer sizes",
	         f->opts.max_bytes >> 10, f->family ? "traced" : "compiled", f->opts.max_entries ? ".max_entries" : ".max_bytes");
	tj_reason r = jit_new_reason(f->name, "eviction", site, hint, text);
	jit_reason(f, &r);
}

/* The signature, of the last ones, whose guards fail on the fewest arguments, and its first failure. */
static bool nearest_entry(tj_fn *f, const gd_sig *sig, gd_why *why, uint32_t *number)
{
	int best = -1;
	for (uint32_t i = f->general.n > NEAREST ? f->general.n - NEAREST : 0; i < f->general.n; i++) {
		gd_why w;
		int differ = gd_compare(&f->general.v[i]->sig, sig, &w);
		if (best >= 0 && differ >= best) continue;
		best = differ;
		*why = w;
		*number = f->general.v[i]->number;
	}
	return best >= 0;
}

/* ---- general entries ---- */
/* Marks the sizes that the user declared to be symbols. */
static void mark_named(const tj_fn *f, jit_general *g)
{
	for (uint32_t i = 0; i < g->sig.narg; i++) {
		const rt_layout *l = g->sig.arg[i].layout;
		const gd_arg_spec *a = f->spec && i < f->spec->narg ? &f->spec->arg[i] : NULL;
		for (int d = 0; l && d < l->rank; d++) {
			bool named = a && a->ranked && a->dim[d].kind == GD_DIM_NAME, said = a && (a->fixed || a->ranked);
			if (named || (f->opts.dynamic == TJ_DYNAMIC_ON && !said)) g->moved[i] |= 1u << d;
		}
	}
}

static jit_general *new_general(tj_fn *f, const gd_sig *sig, const uint32_t *kind)
{
	jit_general *g = rt_reserve(&f->general, 1) ? rt_calloc(sizeof *g) : NULL;
	if (!g) return NULL;
	atomic_init(&g->refs, 1);
	g->number = f->next_entry;
	g->moved = rt_calloc((sig->narg + 1) * sizeof *g->moved);
	if (!jit_copy_sig(&g->sig, sig) || !g->moved) return jit_general_unref(g), NULL;
	if (kind && !(g->key = gd_insert(&f->kinds, kind, gd_kind_words(sig), g))) return jit_general_unref(g), NULL;
	f->next_entry++;
	mark_named(f, g);
	g->at = f->general.n;
	return f->general.v[f->general.n++] = g;
}

/* The general entry of the signature, or NULL. moves: set when a size that was always the same has changed. */
static jit_general *find_general(tj_fn *f, const gd_sig *sig, const uint32_t *kind, bool *moves)
{
	jit_general *g = kind ? gd_find(&f->kinds, kind, gd_kind_words(sig)) : NULL;
	*moves = false;
	for (uint32_t k = 0; g && k < sig->narg; k++) {
		uint32_t bits = gd_moved(&g->sig.arg[k], &sig->arg[k]);
		*moves |= (bits & ~g->moved[k]) != 0;
		g->moved[k] |= bits;
	}
	return g;
}

/* Adds the last sizes that depend on data, of those that the call has met so far, without repeats. */
enum { SIZED_MOST = 32 };
static int sized_moving(const jit_act *a, int64_t *moving)
{
	int n = 0;
	for (uint32_t i = a->sized.n; i-- > 0 && n < SIZED_MOST;) {
		bool new = true;
		for (int k = 0; k < n; k++) new &= moving[k] != a->sized.v[i].size;
		if (new) moving[n++] = a->sized.v[i].size;
	}
	return n;
}

/* An argument whose sizes move; or a tensor that looks like it. */
static bool moves(const jit_entry *e, const rt_layout *l)
{
	bool any = false;
	for (uint32_t i = 0; i < e->sig.narg; i++) any |= e->sig.arg[i].layout == l && e->general->moved[i];
	return any;
}

lo_moving jit_moving(const jit_act *a, const jit_bound *ext, uint32_t next, rt_arena *mem)
{
	tj_fn *f = a->fn;
	const jit_entry *e = a->entry;
	lo_moving m = { .always = f->opts.dynamic == TJ_DYNAMIC_ON || f->spec || e->nth > 0 || a->sized.n };
	int64_t *moving = rt_arena_alloc(mem, ((e->sig.narg + 1) * TJ_MAX_RANK + SIZED_MOST) * sizeof *moving);
	int64_t *fixed = rt_arena_alloc(mem, (e->sig.narg + next + 1) * TJ_MAX_RANK * sizeof *fixed);
	if (!f->family || !moving || !fixed) return m;
	m.nmoving = sized_moving(a, moving);
	rt_lock(&f->table_lock);
	for (uint32_t i = 0; i < e->sig.narg; i++) {
		const rt_layout *l = e->sig.arg[i].layout;
		for (int d = 0; l && d < l->rank; d++)
			if (e->general->moved[i] >> d & 1) moving[m.nmoving++] = l->dim[d];
			else fixed[m.nfixed++] = l->dim[d];
	}
	for (uint32_t i = 0; ext && i < next; i++) { /* captures: cells and retained tensors */
		if (!ext[i].h || !(ext[i].h->flags & RT_HEAP) || moves(e, ext[i].layout)) continue;
		for (int d = 0; d < ext[i].layout->rank; d++) fixed[m.nfixed++] = ext[i].layout->dim[d];
	}
	rt_unlock(&f->table_lock);
	m.moving = moving;
	m.fixed = fixed;
	return m;
}

/* ---- the table ---- */
/* The log may call f again, so lines are written after table_lock is released: until then they are kept here. */
typedef struct line { char text[200]; } line;
static void write_line(const tj_fn *f, const line *l)
{
	if (*l->text) rt_log(&f->engine->rt.log, RT_LOG_CACHE, "%s", l->text);
}

/* Makes room for one more size. The last one that went is *evicted, a reference. */
static void evict_sizes(tj_fn *f, line *l, jit_entry **evicted)
{
	jit_entry *e;
	while (jit_full(f) && (e = jit_choose_victim(f))) {
		char where[JIT_WHERE];
		JIT_COUNT(f, evictions);
		snprintf(l->text, sizeof l->text, "[%s] evicted: %u sizes take %zu KiB", jit_where(where, f, e, -1), f->entry.n, f->keep.bytes >> 10);
		jit_entry_unref(*evicted);
		*evicted = e;
		atomic_fetch_add(&e->refs, 1);
		jit_evict(e);
	}
}

/* Evicts all sizes of the least recently used signature. Each new signature costs a compile, so looking at all of them costs little. */
static void evict_general(tj_fn *f, line *l)
{
	jit_general *oldest = NULL;
	unsigned long long least = 0;
	for (uint32_t i = 0; i < f->general.n; i++) {
		unsigned long long last = 0;
		for (const jit_entry *e = f->general.v[i]->newest; e; e = e->older)
			if (atomic_load(&e->stamp) > last) last = atomic_load(&e->stamp);
		if (oldest && last >= least) continue;
		oldest = f->general.v[i];
		least = last;
	}
	JIT_COUNT(f, evictions);
	snprintf(l->text, sizeof l->text, "[%.100s/%u] evicted: more than .max_entries = %d signatures", f->name, oldest->number,
	         f->opts.max_entries);
	for (uint32_t n = oldest->n; n; n--) jit_evict(oldest->newest);
}

static void link_size(tj_fn *f, jit_general *g, jit_entry *e)
{
	e->nth = g->made++;
	e->at = f->entry.n;
	f->entry.v[f->entry.n++] = e;
	e->older = g->newest;
	if (e->older) e->older->newer = e;
	else g->oldest = e;
	g->newest = e;
	g->n++;
	f->keep.bytes += e->bytes;
	jit_welcome(e);
}

/* What a new key needs: its general entry, if there is one, and its words without sizes (NULL: .dynamic is OFF). */
typedef struct place { const uint32_t *word, *kind; uint32_t n; } place;

/* Makes an entry for a new key. Under table_lock. */
static jit_entry *add_entry(tj_fn *f, jit_general *g, const gd_sig *sig, const place *p, line *l, jit_entry **evicted)
{
	bool first = !g;
	if (first && f->opts.max_entries && f->general.n >= (uint32_t)f->opts.max_entries) evict_general(f, l);
	if (g) g->n++; /* holds it while sizes go */
	evict_sizes(f, l, evicted);
	if (g) g->n--;
	if (first && !(g = new_general(f, sig, p->kind))) return NULL;
	jit_entry *e = rt_reserve(&f->entry, 1) ? jit_new_entry(f, g, sig) : NULL;
	if (e && !(e->key = gd_insert(&f->table, p->word, p->n, e))) {
		jit_entry_unref(e);
		e = NULL;
	}
	if (e) link_size(f, g, e);
	else if (!g->n) jit_drop_general(f, g);
	return e;
}

/* A recompile is reported when a size changes for the first time, but not for further sizes. */
static void explain_size(tj_fn *f, jit_general *g, gd_why *w, const char *site)
{
	rt_text t = { 0 };
	rt_lock(&f->table_lock);
	gd_put_general(&t, &g->sig, g->moved, f->spec);
	rt_unlock(&f->table_lock);
	char text[640];
	static const char hint[] = "from now on the size is an argument of the code; declare it in .shapes to have that from the start";
	snprintf(text, sizeof text, "%s: argument %d: dim %d was %s, is %s (trace %u); %s: %s", f->name, w->arg, w->dim, w->expected,
	         w->found, g->number, hint, rt_str(&t));
	rt_log(&f->engine->rt.log, RT_LOG_DYNAMIC, "[%s/%u] %s: %s", f->name, g->number, site ? site : "?", rt_str(&t));
	rt_text_free(&t);
	tj_reason r = jit_new_reason(f->name, gd_cause_name(GD_SIZE), site, hint, text);
	tell_cause(f, &r, w, g->number);
}

/* The words of the key without sizes, in *out; false: out of memory. */
static bool make_kind(tj_ctx *c, const tj_fn *f, const gd_sig *sig, const uint32_t **out)
{
	uint32_t *w = f->family ? rt_arena_alloc(&c->act.mem, gd_kind_words(sig) * sizeof *w) : NULL;
	if (w) gd_kind_key(sig, f->spec, w);
	*out = w;
	return w || !f->family;
}

typedef struct found {       /* what is to be told of a new entry */
	gd_why why;
	uint32_t nearest;
	jit_general *general;    /* of which it is a further size; NULL: a new signature */
	bool explain, moves;
	line evicted;
} found;

/* Finds or makes the entry; a reference. Under table_lock. */
static jit_entry *find_or_add(tj_ctx *c, tj_fn *f, const gd_sig *sig, place *p, found *x, bool *fresh, jit_entry **evicted)
{
	jit_entry *e = gd_find(&f->table, p->word, p->n);
	*fresh = false;
	if (!e && make_kind(c, f, sig, &p->kind)) {
		x->general = find_general(f, sig, p->kind, &x->moves);
		if (x->general) gd_compare(&x->general->sig, sig, &x->why);
		else x->explain = nearest_entry(f, sig, &x->why, &x->nearest);
		e = add_entry(f, x->general, sig, p, &x->evicted, evicted);
		*fresh = e != NULL;
	}
	if (e) atomic_fetch_add(&e->refs, 1);
	return e;
}

/* The entry of a key that this context has not met: from the table of exact keys, else a new one; a reference. */
jit_entry *jit_find_entry(tj_ctx *c, tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site, bool *fresh, jit_entry **evicted)
{
	place p = { .word = word, .n = gd_key_words(sig) };
	found x = { .why = { .cause = GD_SAME } };
	rt_err err = { 0 };
	if (f->spec && !gd_spec_check(f->spec, sig, f->site, &err)) return jit_report(c, site, &err), NULL;
	unsigned long long evictions = atomic_load(&f->count.evictions);
	rt_lock(&f->table_lock);
	jit_entry *e = find_or_add(c, f, sig, &p, &x, fresh, evicted);
	rt_unlock(&f->table_lock);
	write_line(f, &x.evicted);
	if (!e) return jit_error(c, site, TJ_ERR_NOMEM, "call", NULL, "out of memory"), NULL;
	if (atomic_load(&f->count.evictions) != evictions) explain_eviction(f, site);
	if (!*fresh) return e;
	if (x.explain) explain_new_entry(f, e->number, &x.why, x.nearest, site);
	if (x.general && x.moves) explain_size(f, x.general, &x.why, site);
	char where[JIT_WHERE];
	rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s] new %s, %u arguments", jit_where(where, f, e, -1), x.general ? "size" : "signature",
	       sig->narg);
	jit_log_guards(f, e, NULL);
	return e;
}

/* Reports that an entry with more than MAX_SEGMENTS segments was dropped. */
static void explain_budget(tj_fn *f, const jit_entry *e)
{
	static const char turns[] =
		"a loop with a varying number of turns, or an attribute that grows, records a segment each time: make the value a tensor or a number";
	static const char sizes[] =
		"each size that depends on data records a segment, which shares its code: nothing need be done, but tj_where() would keep the size the "
		"same";
	char text[320];
	rt_lock(&f->compile);
	const char *site = e->sealed.n ? e->sealed.v[e->sealed.n - 1]->site : NULL;
	rt_unlock(&f->compile);
	rt_lock(&f->table_lock);
	const char *hint = f->sized.n ? sizes : turns;
	rt_unlock(&f->table_lock);
	snprintf(text, sizeof text, "%s: trace %u has more than %d segments: it is dropped and will be %s again; %s", f->name, e->number,
	         MAX_SEGMENTS, f->family ? "traced" : "compiled", hint);
	tj_reason r = jit_new_reason(f->name, "budget", site ? site : "?", hint, text);
	r.trace = (int)e->number;
	jit_reason(f, &r);
}

/* Drops an entry without a trace (after a call that failed) or with too many segments (after a call that recorded). */
void jit_drop_empty(jit_entry *e)
{
	tj_fn *f = e->fn;
	bool empty = !atomic_load(&e->root.child), full = __atomic_load_n(&e->sealed.n, __ATOMIC_RELAXED) > MAX_SEGMENTS;
	if (!empty && !full) return;
	bool dropped = false;
	rt_lock(&f->table_lock);
	if (!atomic_load(&e->dead) && (full || !atomic_load(&e->root.child))) {
		if (full) JIT_COUNT(f, evictions);
		dropped = full;
		jit_take_out(e);
	}
	rt_unlock(&f->table_lock);
	if (!dropped) return;
	rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s/%u] dropped: more than %d segments", f->name, e->number, MAX_SEGMENTS);
	explain_budget(f, e); /* e is valid: the running call holds a reference */
}
