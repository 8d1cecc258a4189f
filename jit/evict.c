/* SPDX-License-Identifier: MIT */
/* Which traces of a function stay, when they would take more memory than .max_bytes. Each step takes as long for any number of traces.
 *
 * THE HAND goes round over all traces. One that was used again since it last came by stays; the first one that was not is dropped. So what
 * is in use stays, as if the least recently used one were dropped.
 *
 * GUESTS  A program that goes round and round through more sizes than there is room for would lose each size just before it needs it
 * again, and find none. How it is told: a dropped size leaves a mark behind, its ghost. If one new size in eight finds its own ghost, the
 * program is of that kind. From then on a new size is a guest: it stays until eight more have come, and goes then, unless it was used
 * again. The other sizes are left alone: of a cycle of n sizes in room for m, m - 8 are found each time round. One new size in sixteen is
 * taken in for good all the same, so that what is kept follows the program when it changes. */
#include "jit/fn.h"

enum { GHOSTS = 1024, GHOSTS_AN_ENTRY = 4, CYCLES = 64 / 8, NO_GUEST = 16, LOOKS = 64 };

/* ---- bytes ---- */
void jit_charge(jit_entry *e, ptrdiff_t bytes)
{
	tj_fn *f = e->fn;
	rt_lock(&f->table_lock);
	e->bytes += (size_t)bytes;
	if (!atomic_load(&e->dead)) f->keep.bytes += (size_t)bytes;
	rt_unlock(&f->table_lock);
}

bool jit_full(const tj_fn *f)
{
	const uint64_t most = (uint64_t)f->opts.max_entries * JIT_MOST_SIZES;
	return f->entry.n && (f->keep.bytes >= f->opts.max_bytes || (most && f->family && f->entry.n >= most));
}

/* ---- ghosts ---- */
static uint32_t *ghost_of(jit_keep *k, const jit_entry *e, uint32_t *mark)
{
	const uint64_t hash = gd_sig_hash(&e->sig);
	*mark = (uint32_t)(hash >> 32) | 1;
	return k->nghost ? &k->ghost[hash & (k->nghost - 1)] : NULL;
}

/* Without memory for them there are no guests. */
static void make_ghosts(tj_fn *f)
{
	uint32_t n = GHOSTS;
	while (n < (1u << 24) && n < GHOSTS_AN_ENTRY * f->entry.n) n *= 2;
	if (f->keep.nghost || !(f->keep.ghost = rt_calloc(n * sizeof *f->keep.ghost))) return;
	f->keep.nghost = n;
}

static void leave_ghost(tj_fn *f, const jit_entry *e)
{
	uint32_t mark, *ghost;
	make_ghosts(f);
	if ((ghost = ghost_of(&f->keep, e, &mark))) *ghost = mark;
}

void jit_welcome(jit_entry *e)
{
	jit_keep *k = &e->fn->keep;
	uint32_t mark, *ghost = ghost_of(k, e, &mark);
	const bool known = ghost && *ghost == mark;
	if (known) *ghost = 0;
	k->again = k->again << 1 | known;
	if ((known || __builtin_popcountll(k->again) >= CYCLES) && k->nguest < JIT_GUESTS && ++k->came % NO_GUEST) k->guest[k->nguest++] = e;
}

void jit_keep_free(tj_fn *f) { rt_free(f->keep.ghost); }

/* ---- which one goes ---- */
static void leave_guests(jit_keep *k, const jit_entry *e)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->nguest; i++)
		if (k->guest[i] != e) k->guest[n++] = k->guest[i];
	k->nguest = n;
}

static bool is_guest(const jit_keep *k, const jit_entry *e)
{
	for (uint32_t i = 0; i < k->nguest; i++)
		if (k->guest[i] == e) return true;
	return false;
}

/* The oldest guest, once there are enough; those that were used are guests no more. */
static jit_entry *oldest_guest(jit_keep *k)
{
	while (k->nguest == JIT_GUESTS) {
		jit_entry *e = k->guest[0];
		leave_guests(k, e);
		if (!jit_entry_hits(e)) return e;
	}
	return NULL;
}

jit_entry *jit_choose_victim(tj_fn *f)
{
	jit_keep *k = &f->keep;
	jit_entry *guest = oldest_guest(k);
	if (guest) return guest;
	for (int i = 0; f->entry.n; i++) {
		if (k->hand >= f->entry.n) k->hand = 0;
		jit_entry *e = f->entry.v[k->hand];
		const uint64_t hits = jit_entry_hits(e);
		k->hand++; /* also past a victim, in whose place another trace will be */
		if ((hits == e->seen && !is_guest(k, e)) || i == LOOKS) return e;
		e->seen = hits;
	}
	return NULL;
}

/* ---- taking out ---- */
void jit_drop_general(tj_fn *f, jit_general *g)
{
	if (g->key) gd_remove(&f->kinds, g->key);
	f->general.v[g->at] = f->general.v[--f->general.n];
	f->general.v[g->at]->at = g->at;
	jit_general_unref(g);
}

static void unlink_size(jit_entry *e)
{
	jit_general *g = e->general;
	if (e->newer) e->newer->older = e->older;
	else g->newest = e->older;
	if (e->older) e->older->newer = e->newer;
	else g->oldest = e->newer;
	if (!--g->n) jit_drop_general(e->fn, g);
}

void jit_take_out(jit_entry *e)
{
	tj_fn *f = e->fn;
	gd_remove(&f->table, e->key);
	e->key = NULL;
	f->entry.v[e->at] = f->entry.v[--f->entry.n];
	f->entry.v[e->at]->at = e->at;
	f->keep.bytes -= e->bytes;
	leave_guests(&f->keep, e);
	atomic_store(&e->dead, true);
	unlink_size(e);
	jit_entry_unref(e);
}

void jit_evict(jit_entry *e)
{
	leave_ghost(e->fn, e);
	jit_take_out(e);
}
