/* SPDX-License-Identifier: MIT */
/* Memos: what a context remembers of a function, namely the keys that it has met, found without a lock, and its own counters. */
#include "jit/ctx.h"
#include "jit/guard.h"

/* ---- memos: one for each context and function that it calls ---- */
static jit_memo *new_memo(tj_fn *f)
{
	jit_memo *s = rt_calloc(sizeof *s);
	uint32_t n = (uint32_t)f->opts.nin + f->nstate;
	if (!s || !(s->seen = rt_calloc((n + 1) * sizeof *s->seen))) {
		rt_free(s);
		return NULL;
	}
	s->fn = f;
	rt_lock(&f->table_lock);
	s->next = f->memos;
	if (s->next) s->next->prev = s;
	f->memos = s;
	rt_unlock(&f->table_lock);
	return s;
}

static void link_hit(jit_hit *h)
{
	jit_entry *e = h->entry;
	rt_lock(&e->fn->table_lock);
	h->next = e->known;
	if (h->next) h->next->prev = h;
	e->known = h;
	rt_unlock(&e->fn->table_lock);
}

/* Unlinks a hit; its counts are added to those of the entry. */
static void unlink_hit(jit_hit *h)
{
	jit_entry *e = h->entry;
	rt_lock(&e->fn->table_lock);
	if (h->prev) h->prev->next = h->next;
	else e->known = h->next;
	if (h->next) h->next->prev = h->prev;
	atomic_fetch_add(&e->hits, atomic_load(&h->hits));
	rt_unlock(&e->fn->table_lock);
}

static void free_hit(jit_hit *h)
{
	unlink_hit(h);
	jit_charge(h->entry, -(ptrdiff_t)h->bytes);
	jit_path_free(h->path);
	jit_entry_unref(h->entry);
	for (uint32_t i = 0; i < h->nlayout; i++) rt_layout_unref(h->layout[i]);
	rt_free(h);
}

static void forget_all(jit_memo *s)
{
	for (uint32_t i = 0; i < s->known.n; i++) free_hit(s->known.v[i]);
	s->known.n = 0;
	gd_table_free(&s->table);
	s->last = s->form = NULL;
}

static void free_memo(jit_memo *s)
{
	forget_all(s);
	rt_vec_free(&s->known);
	rt_vec_free(&s->scalar);
	rt_free(s->seen);
	rt_free(s);
}

jit_memo *jit_memo_make(tj_ctx *c, tj_fn *f)
{
	uint32_t i = f->index;
	if (i >= c->memo.n && !rt_reserve(&c->memo, i + 1 - c->memo.n)) return NULL;
	while (c->memo.n <= i) c->memo.v[c->memo.n++] = NULL;
	jit_memo *s = c->memo.v[i];
	if (s && s->fn == f) return s;
	if (s) free_memo(s); /* its function was freed */
	return c->memo.v[i] = new_memo(f);
}

/* The context ends: its counts are added to those of the functions. */
void jit_memos_free(tj_ctx *c)
{
	rt_lock(&c->engine->rt.lock); /* so that no function is freed meanwhile */
	for (uint32_t i = 0; i < c->memo.n; i++) {
		jit_memo *s = c->memo.v[i];
		tj_fn *f = s ? s->fn : NULL;
		if (f) {
			rt_lock(&f->table_lock);
			if (s->prev) s->prev->next = s->next;
			else f->memos = s->next;
			if (s->next) s->next->prev = s->prev;
#define X(what) atomic_fetch_add(&f->count.what, atomic_load(&s->what));
			JIT_MEMO_COUNTERS(X)
#undef X
			rt_unlock(&f->table_lock);
		}
		if (s) free_memo(s);
	}
	rt_unlock(&c->engine->rt.lock);
	rt_vec_free(&c->memo);
}

/* The function is freed while no call of it runs. Its memos stay in the contexts, empty. Under the lock of the engine. */
void jit_memos_drop(tj_fn *f)
{
	for (jit_memo *s = f->memos, *next; s; s = next) {
		next = s->next;
		forget_all(s);
		s->fn = NULL;
		s->prev = s->next = NULL;
	}
	f->memos = NULL;
}

/* ---- comparing with the last call, tensor by tensor ---- */
enum { SEEN_NUMBER = 64 }; /* beyond every rt_kind */
#define ANY_CONTENT UINT64_MAX /* the guard of the content was dropped */

/* The content id of an argument or a state variable. place: its index, state comes after the arguments. */
static inline uint64_t content_at(const tj_ctx *c, const tj_tensor *t, uint32_t place)
{
	if (t->flags & RT_CONSTANT) return t->seg;
	return c->taken.n ? c->taken.v[place].content : 0;
}

/* Each engine interns its layouts, so an equal pointer also means the same engine. */
static inline bool same_tensor(const jit_memo *s, uint32_t place, const tj_ctx *c, const tj_tensor *t)
{
	const jit_seen *m = &s->seen[place];
	if (rt_is_number(t)) return m->kind == SEEN_NUMBER + rt_is_int_number(t);
	if ((uintptr_t)t <= (uintptr_t)TJ_END) return false;
	return t->kind == m->kind && t->layout == m->layout && (!t->ctx || t->ctx == c) &&
	       (RT_LIKELY(!m->content && !(t->flags & RT_CONSTANT) && !c->taken.n) || content_at(c, t, place) == m->content ||
	        m->content == ANY_CONTENT) &&
	       (!m->self || m->self == t);
}

static bool same_scalars(const jit_memo *s, const tj_scalar *p)
{
	for (uint32_t i = 0; i < s->scalar.n; i++)
		if (s->scalar.v[i].kind != p[i].kind ||
		    (p[i].kind == TJ_SCALAR_I && s->scalar.v[i].i != p[i].i && !jit_drops_scalar(s->fn, i, p[i].i)))
			return false;
	return p[s->scalar.n].kind == TJ_SCALAR_END;
}

jit_hit *jit_same_as_last(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars)
{
	jit_hit *h = s->last;
	tj_fn *f = s->fn;
	if (!h || !in || atomic_load_explicit(&h->entry->dead, memory_order_relaxed)) return NULL;
	uint32_t nin = (uint32_t)f->opts.nin;
	for (uint32_t i = 0; i < nin; i++)
		if (!same_tensor(s, i, c, in[i])) return NULL;
	if (in[nin] != TJ_END) return NULL;
	for (uint32_t j = 0; j < f->nstate; j++)
		if (!same_tensor(s, nin + j, c, *f->state[j]) || s->seen[nin + j].self != *f->state[j]) return NULL;
	if (scalars ? !same_scalars(s, scalars) : s->scalar.n != 0) return NULL;
	return h;
}

/* jit_same_as_last() changes nothing, so it can run many times. */
jit_hit *jit_timed_check(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars)
{
	RT_DEFAULT_MODES;
	enum { TIMES = 64 };
	jit_hit *h = NULL;
	double start = rt_now_ms();
	for (int i = 0; i < TIMES; i++) h = jit_same_as_last(c, s, in, scalars);
	double ns = (rt_now_ms() - start) * 1e6 / TIMES;
	JIT_TICK(s, checks);
	atomic_fetch_add(&s->check_ps, (unsigned long long)(ns * 1e3));
	return h;
}

/* by_self: for cells and state in direct mode, whose identity counts: a trace differs when two of them are the same tensor. */
static jit_seen see(const tj_ctx *c, tj_fn *f, const tj_tensor *t, uint32_t place, bool by_self)
{
	if (rt_is_number(t)) return (jit_seen){ .kind = (uint8_t)(SEEN_NUMBER + rt_is_int_number(t)), .self = by_self ? t : NULL };
	uint64_t content = content_at(c, t, place);
	return (jit_seen){ t->layout, jit_drops_content(f, place, content, NULL) ? ANY_CONTENT : content, by_self ? t : NULL, t->kind };
}

static void remember(const tj_ctx *c, jit_memo *s, jit_hit *h, tj_list in, const tj_scalar *scalars)
{
	tj_fn *f = s->fn;
	bool direct = f->opts.mode == TJ_DIRECT;
	s->last = NULL;
	s->scalar.n = 0;
	for (const tj_scalar *p = scalars; p && p->kind != TJ_SCALAR_END; p++)
		if (!rt_push(&s->scalar, *p)) return;
	for (int i = 0; i < f->opts.nin; i++) s->seen[i] = see(c, f, in[i], (uint32_t)i, direct && !rt_is_number(in[i]) && in[i]->kind == RT_CELL);
	for (uint32_t j = 0; j < f->nstate; j++) s->seen[f->opts.nin + (int)j] = see(c, f, *f->state[j], (uint32_t)f->opts.nin + j, true);
	s->last = h;
}

/* ---- keys ---- */
static gd_arg arg_of(const tj_ctx *c, tj_fn *f, const tj_tensor *t, uint32_t place, const char *site)
{
	if (rt_is_number(t)) return (gd_arg){ .kind = rt_is_int_number(t) ? GD_INT : GD_FLOAT };
	uint64_t content = content_at(c, t, place);
	return (gd_arg){ t->layout, jit_drops_content(f, place, content, site) ? 0 : content, t->kind == RT_CELL ? GD_CELL : GD_VALUE };
}

static bool make_sig(const tj_ctx *c, rt_arena *mem, tj_fn *f, tj_list in, const tj_scalar *scalars, const char *site, gd_sig *s)
{
	uint32_t nscalar = 0;
	for (const tj_scalar *p = scalars; p && p->kind != TJ_SCALAR_END; p++) nscalar++;
	*s = (gd_sig){ .narg = (uint32_t)f->opts.nin, .settings = c->settings };
	s->arg = rt_arena_alloc(mem, (s->narg + 1) * sizeof *s->arg);
	s->ints = rt_arena_alloc(mem, (nscalar + 1) * sizeof *s->ints);
	if (!s->arg || !s->ints) return false;
	for (uint32_t i = 0; i < nscalar; i++) {
		if (scalars[i].kind == TJ_SCALAR_I) s->ints[s->nint++] = jit_drops_scalar(f, i, scalars[i].i) ? 0 : scalars[i].i;
		else s->nfloat |= 1u << i;
	}
	for (uint32_t i = 0; i < s->narg; i++) s->arg[i] = arg_of(c, f, in[i], i, site);
	return true;
}

/* Index of the first argument or state variable that is the same cell, with a hash table of addresses. */
typedef struct same_set { const tj_tensor **v; uint32_t *first, mask; } same_set;
static uint32_t first_same(same_set *s, const tj_tensor *t, uint32_t at)
{
	for (uint32_t i = (uint32_t)((uintptr_t)t >> 6);; i++) {
		uint32_t k = i & s->mask;
		if (s->v[k] == t) return s->first[k];
		if (s->v[k]) continue;
		s->v[k] = t;
		return s->first[k] = at;
	}
}

/* Appends to the words of the arguments: the state, and which cells are the same. */
static bool put_state(const tj_ctx *c, rt_arena *mem, tj_fn *f, tj_list in, uint32_t *word)
{
	uint32_t nin = (uint32_t)f->opts.nin, n = nin + f->nstate, cap = 16;
	while (cap < 2 * n) cap *= 2;
	same_set set = { rt_arena_alloc(mem, cap * sizeof *set.v), rt_arena_alloc(mem, cap * sizeof *set.first), cap - 1 };
	gd_sig s = { .narg = f->nstate, .arg = rt_arena_alloc(mem, (f->nstate + 1) * sizeof *s.arg) };
	if (!set.v || !set.first || !s.arg) return false;
	for (uint32_t j = 0; j < f->nstate; j++) {
		s.arg[j] = arg_of(c, f, *f->state[j], (uint32_t)f->opts.nin + j, NULL);
		if (rt_is_number(*f->state[j]))
			s.arg[j].content =
				(uint64_t)(uintptr_t)*f->state[j]; /* the body may read the number unnoticed, so it is part of the key */
	}
	gd_key(&s, word);
	word += gd_key_words(&s);
	for (uint32_t i = 0; i < n; i++) {
		const tj_tensor *t = i < nin ? in[i] : *f->state[i - nin];
		bool counts = !rt_is_number(t) && (i >= nin || t->kind == RT_CELL);
		*word++ = counts ? first_same(&set, t, i) : i;
	}
	return true;
}

/* The whole key: first the words of the arguments, then those of the state. */
static uint32_t *make_key(const tj_ctx *c, rt_arena *mem, tj_fn *f, const gd_sig *sig, tj_list in, uint32_t *n)
{
	bool direct = f->opts.mode == TJ_DIRECT;
	uint32_t own = gd_key_words(sig), more = direct ? 4 * f->nstate + 2 + (uint32_t)f->opts.nin + f->nstate : 0;
	uint32_t *word = rt_arena_alloc(mem, (own + more) * sizeof *word);
	if (!word) return NULL;
	gd_key(sig, word);
	*n = own + more;
	return !direct || put_state(c, mem, f, in, word + own) ? word : NULL;
}

/* ---- meeting a key ---- */
/* A hit that can stand for the form in place of h. */
static jit_hit *another_form(const jit_memo *s, const jit_hit *h)
{
	enum { LOOKS = 64 };
	for (uint32_t i = s->known.n, looks = 0; i-- > 0 && looks < LOOKS; looks++) {
		jit_hit *x = s->known.v[i];
		if (x != h && !atomic_load(&x->entry->dead) && jit_same_form(x, h)) return x;
	}
	return NULL;
}

static void drop_hit(jit_hit *h)
{
	jit_memo *s = h->memo;
	if (s->form == h) s->form = another_form(s, h); /* compares keys */
	gd_remove(&s->table, h->key);
	if (s->last == h) s->last = NULL;
	s->known.v[h->at] = s->known.v[--s->known.n];
	s->known.v[h->at]->at = h->at;
	free_hit(h);
}

/* Drops the hits of this context that lead to an entry which had to go, so that the entry is freed. */
static void forget(jit_memo *s, jit_entry *e)
{
	jit_hit *mine[4], *h;
	uint32_t n = 0;
	rt_lock(&e->fn->table_lock);
	for (h = e->known; h && n < RT_COUNT(mine); h = h->next)
		if (h->memo == s) mine[n++] = h;
	rt_unlock(&e->fn->table_lock);
	while (n) drop_hit(mine[--n]);
	jit_entry_unref(e);
}

/* Before a hit is added: looks at a few hits, drops those of entries that other contexts let go, and keeps their number in bounds: a key
 * has cells in it, so one entry can have many. */
enum { SWEPT = 4, HITS = 1024, HITS_AN_ENTRY = 4 };
static void sweep(jit_memo *s)
{
	rt_lock(&s->fn->table_lock);
	const uint32_t most = HITS + HITS_AN_ENTRY * s->fn->entry.n;
	rt_unlock(&s->fn->table_lock);
	for (int i = 0; i < SWEPT && s->known.n; i++) {
		if (s->broom >= s->known.n) s->broom = 0;
		jit_hit *h = s->known.v[s->broom];
		if (atomic_load_explicit(&h->entry->dead, memory_order_relaxed) || s->known.n > most) drop_hit(h);
		else s->broom++;
	}
}

/* Takes over the reference on e. The hit holds the layouts of the state, so that equal addresses mean equal layouts. */
static jit_hit *new_hit(tj_ctx *c, jit_memo *s, jit_entry *e, const uint32_t *word, uint32_t n)
{
	const tj_fn *f = s->fn;
	jit_hit *h = rt_calloc(sizeof *h + f->nstate * sizeof *h->layout);
	if (!h || !rt_reserve(&s->known, 1) || !(h->key = gd_insert(&s->table, word, n, h))) {
		rt_free(h);
		jit_entry_unref(e);
		jit_error(c, s->fn->site, TJ_ERR_NOMEM, "call", NULL, "out of memory");
		return NULL;
	}
	h->entry = e;
	for (uint32_t j = 0; j < f->nstate; j++)
		if (!rt_is_number(*f->state[j])) h->layout[h->nlayout++] = rt_layout_ref((*f->state[j])->layout);
	h->memo = s;
	h->at = s->known.n;
	s->known.v[s->known.n++] = h;
	link_hit(h);
	h->bytes = sizeof *h + 2 * n * sizeof *word;
	jit_charge(e, (ptrdiff_t)h->bytes);
	return h;
}

/* The hit of a key; NULL: the context has not met it, or its entry had to go. */
static jit_hit *find_hit(jit_memo *s, const uint32_t *word, uint32_t n)
{
	jit_hit *h = gd_find(&s->table, word, n);
	if (!h || !atomic_load_explicit(&h->entry->dead, memory_order_relaxed)) return h;
	drop_hit(h);
	return NULL;
}

jit_hit *jit_meet(tj_ctx *c, jit_memo *s, tj_list in, const tj_scalar *scalars, const char *site)
{
	gd_sig sig;
	tj_fn *f = s->fn;
	rt_arena *mem = &c->act.mem;
	uint32_t n = 0, *word = make_sig(c, mem, f, in, scalars, site, &sig) ? make_key(c, mem, f, &sig, in, &n) : NULL;
	jit_hit *h = NULL;
	if (word && (h = find_hit(s, word, n))) JIT_TICK(s, met);
	else if (word) {
		bool fresh = false;
		jit_entry *evicted = NULL, *e = jit_find_entry(c, f, &sig, word, site, &fresh, &evicted);
		if (evicted) forget(s, evicted);
		sweep(s);
		h = e ? new_hit(c, s, e, word, n) : NULL;
		if (fresh) JIT_TICK(s, fresh);
		else if (h) JIT_TICK(s, keyed);
	}
	if (!word) jit_error(c, site, TJ_ERR_NOMEM, "call", NULL, "out of memory");
	if (h) remember(c, s, h, in, scalars);
	rt_arena_reset(mem);
	return h;
}
