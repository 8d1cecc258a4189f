/* SPDX-License-Identifier: MIT */
/* The trace: its nodes and plans, made, compared, freed. */
#include "jit/trace.h"

const char *jit_event_name(int op)
{
	static const char *const names[] = {
#define X(kind, name) name,
		JIT_EVENTS(X)
#undef X
	};
	return op < IR_OP_COUNT ? ir_ops[op].name : names[op - IR_OP_COUNT];
}

const char *jit_autocast_name(uint8_t mode) { return mode & JIT_BF16 ? "TJ_BF16" : mode & JIT_F16 ? "TJ_F16" : "none"; }

/* ---- nodes ---- */
jit_node *jit_new_node(int nsrc, int nattr, int nmet)
{
	size_t attr = sizeof(jit_node), met = attr + (size_t)nattr * sizeof(int64_t);
	size_t src = met + (size_t)nmet * sizeof(jit_ext), all = src + (size_t)nsrc * sizeof(jit_ref);
	char *p = rt_calloc(all);
	if (!p) return NULL;
	jit_node *n = (jit_node *)(void *)p;
	n->attr = (const int64_t *)(void *)(p + attr);
	n->met = (const jit_ext *)(void *)(p + met);
	n->src = (const jit_ref *)(void *)(p + src);
	n->nsrc = (uint16_t)nsrc;
	n->nattr = (uint16_t)nattr;
	n->nmet = (uint16_t)nmet;
	return n;
}

size_t jit_node_bytes(const jit_node *n)
{
	return sizeof *n + n->nattr * sizeof *n->attr + n->nmet * sizeof *n->met + n->nsrc * sizeof *n->src;
}

bool jit_same_node(const jit_node *x, const jit_node *y)
{
	if (x->op != y->op || x->mode != y->mode || x->nsrc != y->nsrc || x->nattr != y->nattr || x->nmet != y->nmet ||
	    x->layout != y->layout)
		return false;
	if (x->nattr && memcmp(x->attr, y->attr, x->nattr * sizeof *x->attr)) return false;
	if (x->nsrc && memcmp(x->src, y->src, x->nsrc * sizeof *x->src)) return false;
	for (int i = 0; i < x->nmet; i++)
		if (x->met[i].layout != y->met[i].layout || x->met[i].content != y->met[i].content || x->met[i].cell != y->met[i].cell) return false;
	return true;
}

const jit_node *jit_flow_of(const jit_node *yield)
{
	int depth = 0;
	for (const jit_node *n = yield; n; n = n->parent) {
		depth += n->op == JIT_YIELD;
		depth -= n->op == JIT_CALLBACK;
		if (!depth && (ir_is_flow(n->op) || n->op == JIT_VMAP || n->op == JIT_CUSTOM || n->op == JIT_CHECKPOINT)) return n;
	}
	return NULL;
}

void jit_free_node(jit_node *n)
{
	for (int i = 0; i < n->nmet; i++) rt_layout_unref(n->met[i].layout);
	rt_layout_unref(n->layout);
	if (n->segment) {
		for (jit_plan *p = atomic_load(&n->segment->plan), *older; p; p = older) {
			older = p->older;
			jit_plan_unref(p);
		}
		for (uint32_t i = 0; i < n->segment->inner.n; i++) rt_layout_unref(n->segment->inner.v[i].layout);
		rt_vec_free(&n->segment->inner);
		rt_vec_free(&n->segment->keep);
		rt_free(n->segment);
	}
	rt_free(n);
}

/* Frees a trie without recursion: the children of a node take its place in the list. */
void jit_free_trie(jit_node *first)
{
	for (jit_node *n = first, *next; n; n = next) {
		next = n->sibling;
		jit_node *child = atomic_load(&n->child), *last = child;
		while (last && last->sibling) last = last->sibling;
		if (last) {
			last->sibling = next;
			next = child;
		}
		jit_free_node(n);
	}
}

/* ---- plans ---- */
int jit_find_in_plan(const jit_plan *p, uint32_t seq)
{
	uint32_t lo = 0, hi = p->n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (p->value[mid].seq < seq) lo = mid + 1;
		else hi = mid;
	}
	return lo < p->n && p->value[lo].seq == seq ? (int)lo : -1;
}

void jit_plan_unref(jit_plan *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
	for (uint32_t i = 0; p->value && i < p->n; i++) rt_layout_unref(p->value[i].layout);
	if (p->exec) rt_exec_unref(p->exec);
	rt_free(p->value);
	rt_free(p->residual);
	rt_free(p->content);
	rt_free(p->into);
	if (p->lowered) rt_text_free(p->lowered);
	rt_free(p->lowered);
	ir_packed_free(p->graph);
	rt_free(p);
}
