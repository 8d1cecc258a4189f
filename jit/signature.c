/* SPDX-License-Identifier: MIT */
/* The memory of signatures and entries: made, held, freed. */
#include "jit/memo.h"

static void free_sig(gd_sig *s)
{
	for (uint32_t i = 0; s->arg && i < s->narg; i++) rt_layout_unref(s->arg[i].layout);
	rt_free(s->arg);
	rt_free(s->ints);
}

bool jit_copy_sig(gd_sig *to, const gd_sig *s)
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

jit_entry *jit_new_entry(tj_fn *f, jit_general *g, const gd_sig *sig)
{
	jit_entry *e = rt_calloc(sizeof *e);
	if (!e) return NULL;
	atomic_init(&e->refs, 1);
	e->fn = f;
	e->number = g->number;
	if (!jit_copy_sig(&e->sig, sig)) {
		free_sig(&e->sig);
		rt_free(e);
		return NULL;
	}
	atomic_fetch_add(&g->refs, 1);
	e->general = g;
	e->bytes = sizeof *e + sig->narg * sizeof *sig->arg + 2 * gd_key_words(sig) * sizeof(uint32_t);
	return e;
}

unsigned long long jit_entry_hits(const jit_entry *e)
{
	unsigned long long n = atomic_load(&e->hits);
	for (const jit_hit *h = e->known; h; h = h->next) n += atomic_load(&h->hits);
	return n;
}
