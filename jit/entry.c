/* SPDX-License-Identifier: MIT */
/* Entries: the signatures that a function was called with. Finding the entry of a call, the reason for a new one, the budget of entries. */
#include "jit/ctx.h"
#include "jit/guard.h"
#include "jit/note.h"

enum { SIZES = 16, MAX_SEGMENTS = 256 };

static void free_sig(gd_sig *s)
{
	for (uint32_t i = 0; s->arg && i < s->narg; i++) rt_layout_unref(s->arg[i].layout);
	rt_free(s->arg);
	rt_free(s->ints);
}

static bool copy_sig(gd_sig *to, const gd_sig *s)
{
	*to = *s;
	to->arg = rt_calloc((s->narg + 1) * sizeof *to->arg);
	to->ints = rt_calloc((s->nint + 1) * sizeof *to->ints);
	if (!to->arg || !to->ints) return false;
	if (s->nint) memcpy(to->ints, s->ints, s->nint * sizeof *s->ints);
	for (uint32_t i = 0; i < s->narg; i++) {
		to->arg[i] = s->arg[i];
		if (s->arg[i].layout) rt_layout_ref(s->arg[i].layout);
	}
	return true;
}

void jit_general_unref(jit_general *g)
{
	if (atomic_fetch_sub(&g->refs, 1) != 1) return;
	free_sig(&g->sig);
	rt_free(g->moved);
	rt_free(g);
}

void jit_entry_unref(jit_entry *e)
{
	if (!e || atomic_fetch_sub(&e->refs, 1) != 1) return;
	jit_node *first = atomic_load(&e->root.child);
	if (first) jit_free_trie(first);
	rt_vec_free(&e->sealed);
	free_sig(&e->sig);
	jit_general_unref(e->general);
	rt_free(e);
}

static jit_entry *new_entry(tj_fn *f, jit_general *g, const gd_sig *sig)
{
	jit_entry *e = rt_calloc(sizeof *e);
	if (!e) return NULL;
	atomic_init(&e->refs, 1);
	e->fn = f;
	e->number = g->number;
	if (!copy_sig(&e->sig, sig)) {
		free_sig(&e->sig);
		rt_free(e);
		return NULL;
	}
	atomic_fetch_add(&g->refs, 1);
	e->general = g;
	return e;
}

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
	char text[256];
	if ((atomic_load(&f->count.evictions) - 1) % EVICTIONS_TOLD) return;
	snprintf(text, sizeof text,
	         "%s: more than .max_entries = %d signatures%s: the least recently used trace is dropped and will be %s again; "
	         "raise .max_entries, or pad arguments to fewer sizes",
	         f->name, f->opts.max_entries, f->family ? " or 16 times as many sizes" : "", f->family ? "traced" : "compiled");
	tj_reason r = jit_new_reason(f->name, "eviction", site, "raise .max_entries", text);
	jit_reason(f, &r);
}

/* The entry whose guards fail on the fewest arguments, and its first failure. */
static bool nearest_entry(tj_fn *f, const gd_sig *sig, gd_why *why, uint32_t *number)
{
	int best = -1;
	for (uint32_t i = 0; i < f->general.n; i++) {
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

static jit_general *new_general(tj_fn *f, const gd_sig *sig)
{
	jit_general *g = rt_reserve(&f->general, 1) ? rt_calloc(sizeof *g) : NULL;
	if (!g) return NULL;
	atomic_init(&g->refs, 1);
	g->number = f->next_entry;
	g->moved = rt_calloc((sig->narg + 1) * sizeof *g->moved);
	if (!copy_sig(&g->sig, sig) || !g->moved) return jit_general_unref(g), NULL;
	f->next_entry++;
	mark_named(f, g);
	return f->general.v[f->general.n++] = g;
}

static void drop_general(tj_fn *f, jit_general *g)
{
	for (uint32_t i = 0; i < f->entry.n; i++)
		if (f->entry.v[i]->general == g) return;
	for (uint32_t i = 0; i < f->general.n; i++)
		if (f->general.v[i] == g) f->general.v[i] = f->general.v[--f->general.n];
	jit_general_unref(g);
}

/* The general entry of the signature, or NULL. moves: set when a size that was always the same has changed. */
static jit_general *find_general(tj_fn *f, const gd_sig *sig, bool *moves)
{
	*moves = false;
	for (uint32_t i = 0; f->family && i < f->general.n; i++) {
		jit_general *g = f->general.v[i];
		if (!gd_same_but_sizes(&g->sig, sig, f->spec)) continue;
		for (uint32_t k = 0; k < sig->narg; k++) {
			uint32_t bits = gd_moved(&g->sig.arg[k], &sig->arg[k]);
			*moves |= (bits & ~g->moved[k]) != 0;
			g->moved[k] |= bits;
		}
		return g;
	}
	return NULL;
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

uint32_t jit_max_sizes(const tj_fn *f) { return (uint32_t)f->opts.max_entries * (f->family ? SIZES : 1); }

/* ---- the table ---- */
static void take_out(tj_fn *f, uint32_t i)
{
	jit_entry *e = f->entry.v[i];
	gd_remove(&f->table, e);
	f->entry.v[i] = f->entry.v[--f->entry.n];
	atomic_store(&e->dead, true);
	drop_general(f, e->general);
	jit_entry_unref(e);
}

/* The log may call f again, so lines are written after table_lock is released: until then they are kept here. */
typedef struct line { char text[200]; } line;
static void write_line(const tj_fn *f, const line *l)
{
	if (*l->text) rt_log(&f->engine->rt.log, RT_LOG_CACHE, "%s", l->text);
}

static void evict_oldest(tj_fn *f, line *l)
{
	uint32_t oldest = 0;
	for (uint32_t i = 1; i < f->entry.n; i++)
		if (atomic_load(&f->entry.v[i]->stamp) < atomic_load(&f->entry.v[oldest]->stamp)) oldest = i;
	JIT_COUNT(f, evictions);
	char where[JIT_WHERE];
	snprintf(l->text, sizeof l->text, "[%s] evicted: more sizes than %d times .max_entries = %d",
	         jit_where(where, f, f->entry.v[oldest], -1), SIZES, f->opts.max_entries);
	take_out(f, oldest);
}

/* Evicts all sizes of the least recently used general entry. */
static void evict_general(tj_fn *f, line *l)
{
	jit_general *oldest = NULL;
	unsigned long long least = 0;
	for (uint32_t i = 0; i < f->general.n; i++) {
		unsigned long long last = 0;
		for (uint32_t k = 0; k < f->entry.n; k++)
			if (f->entry.v[k]->general == f->general.v[i] && atomic_load(&f->entry.v[k]->stamp) > last) last = atomic_load(&f->entry.v[k]->stamp);
		if (oldest && last >= least) continue;
		oldest = f->general.v[i];
		least = last;
	}
	JIT_COUNT(f, evictions);
	snprintf(l->text, sizeof l->text, "[%.100s/%u] evicted: more than .max_entries = %d signatures", f->name, oldest->number,
	         f->opts.max_entries);
	for (uint32_t k = f->entry.n; k-- > 0;)
		if (f->entry.v[k]->general == oldest) take_out(f, k);
}

/* Makes an entry for a new key. Under table_lock. */
static jit_entry *add_entry(tj_fn *f, jit_general *g, const gd_sig *sig, const uint32_t *word, uint32_t n, line *l)
{
	if (!g && f->general.n >= (uint32_t)f->opts.max_entries) evict_general(f, l);
	if (g && f->entry.n >= jit_max_sizes(f)) evict_oldest(f, l);
	if (!g && !(g = new_general(f, sig))) return NULL;
	jit_entry *e = rt_reserve(&f->entry, 1) ? new_entry(f, g, sig) : NULL;
	if (e && !gd_insert(&f->table, word, n, e)) {
		jit_entry_unref(e);
		e = NULL;
	}
	if (e) {
		e->nth = g->made++;
		f->entry.v[f->entry.n++] = e;
	} else drop_general(f, g);
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

/* The entry of a key that this context has not met: from the table of exact keys, else a new one; a reference. */
jit_entry *jit_find_entry(tj_ctx *c, tj_fn *f, const gd_sig *sig, const uint32_t *word, const char *site, bool *made)
{
	uint32_t n = gd_key_words(sig), nearest = 0;
	gd_why why = { .cause = GD_SAME };
	rt_err err = { 0 };
	bool fresh = false, explain = false, moves = false;
	jit_general *g = NULL;
	line evicted_line = { "" };
	if (f->spec && !gd_spec_check(f->spec, sig, f->site, &err)) return jit_report(c, site, &err), NULL;
	unsigned long long evicted = atomic_load(&f->count.evictions);
	rt_lock(&f->table_lock);
	jit_entry *e = gd_find(&f->table, word, n);
	if (!e) {
		g = find_general(f, sig, &moves);
		if (g) gd_compare(&g->sig, sig, &why);
		else explain = nearest_entry(f, sig, &why, &nearest);
		e = add_entry(f, g, sig, word, n, &evicted_line);
		fresh = e != NULL;
	}
	if (e) atomic_fetch_add(&e->refs, 1);
	rt_unlock(&f->table_lock);
	write_line(f, &evicted_line);
	if (!e) return jit_error(c, site, TJ_ERR_NOMEM, "call", NULL, "out of memory"), NULL;
	if (atomic_load(&f->count.evictions) != evicted) explain_eviction(f, site);
	if (fresh && explain) explain_new_entry(f, e->number, &why, nearest, site);
	if (fresh && g && moves) explain_size(f, g, &why, site);
	char where[JIT_WHERE];
	if (fresh)
		rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s] new %s, %u arguments", jit_where(where, f, e, -1), g ? "size" : "signature",
		       sig->narg);
	if (fresh) jit_log_guards(f, e, NULL);
	*made = fresh;
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
	for (uint32_t i = 0; i < f->entry.n; i++) {
		if (f->entry.v[i] != e || (empty && atomic_load(&e->root.child))) continue;
		if (full) {
			JIT_COUNT(f, evictions);
			dropped = true;
		}
		take_out(f, i);
		break;
	}
	rt_unlock(&f->table_lock);
	if (!dropped) return;
	rt_log(&f->engine->rt.log, RT_LOG_CACHE, "[%s/%u] dropped: more than %d segments", f->name, e->number, MAX_SEGMENTS);
	explain_budget(f, e); /* e is valid: the running call holds a reference */
}
