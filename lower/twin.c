/* SPDX-License-Identifier: MIT */
/* twin: kernels of one plan that share code.
 *
 * requires built kernels, their steps in the plan, and aliases found; moves the differences between otherwise equal kernels
 * (numbers, offsets of buffers) from the kernels to their steps
 *
 *   x1 + 7, the second part of a cat             kernel                              its step
 *     load b0 [0 + 1*d0]                           load b0 [0 + 1*d0]
 *     num f64 1                            =>      num f64 0                           number 0 is number 1 of the plan
 *     store b1 [32 + 1*d0]                         store b1 [0 + 1*d0]                 b1 begins 32 elements later
 *
 * Kernels that are then equal are twins and share code. If more than MANY kernels of a plan differ in sizes alone, these sizes
 * become symbols, and the kernels are twins, too; if there are fewer, each has code with its sizes as constants. */
#include "lower/twin.h"

enum { MANY = 16 }; /* code generation takes 1 to 4 ms each */

/* ---- from the kernel to its step ---- */
static bool has_index(const lo_ins *in) { return in->op == LO_LOAD || in->op == LO_STORE || in->op == LO_PART; }

/* The least offset at which each buffer is accessed. */
static int64_t *least_offsets(lo_low *L, const lo_kernel *k)
{
	int64_t *least = lo_mem(L, (k->buf.n + 1) * sizeof *least);
	bool *met = lo_mem(L, k->buf.n + 1);
	for (uint32_t i = 0; !L->oom && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (!has_index(in) || k->buf.v[in->buf].role == LO_KEPT) continue;
		int64_t at = k->index.v[in->index].offset;
		if (!met[in->buf] || at < least[in->buf]) least[in->buf] = at;
		met[in->buf] = true;
	}
	return L->oom ? NULL : least;
}

static void move_offsets(lo_low *L, lo_kernel *k, rt_step *t)
{
	int64_t *least = least_offsets(L, k);
	uint32_t n = k->index.n;
	for (uint32_t i = 0; least && i < k->ins.n; i++) {
		lo_ins *in = &k->ins.v[i];
		if (!has_index(in)) continue;
		lo_index x = k->index.v[in->index];
		x.offset -= least[in->buf];
		uint32_t at = n; /* indices before n are the old ones, which are removed below */
		while (at < k->index.n && memcmp(&k->index.v[at], &x, sizeof x)) at++;
		if (at == k->index.n && !rt_push(&k->index, x)) L->oom = true;
		in->index = at - n;
	}
	if (L->oom) return;
	k->index.n -= n;
	memmove(k->index.v, k->index.v + n, k->index.n * sizeof *k->index.v);
	for (uint32_t b = 0; b < t->nbuf; b++) {
		const int64_t bytes = least[b] * (int64_t)tj_dtype_size((tj_dtype)k->buf.v[b].dtype);
		t->at[b].offset += bytes;
		k->buf.v[b].aligned &= bytes % RT_LINE == 0; /* of the new element 0 */
	}
}

/* The kernel's numbers are 0, 1, ... in the order in which it names them. */
static void move_numbers(lo_low *L, lo_kernel *k, rt_plan *p, rt_step *t)
{
	uint32_t slot[RT_FEW_NUMBERS], n = 0;
	bool moved = false;
	for (uint32_t i = 0, j; i < k->ins.n; i++) {
		if (k->ins.v[i].op != LO_NUM) continue;
		for (j = 0; j < n && slot[j] != (uint32_t)k->ins.v[i].imm; j++) {}
		if (j == RT_FEW_NUMBERS) return;
		if (j == n) slot[n++] = (uint32_t)k->ins.v[i].imm;
		moved |= slot[j] != j;
	}
	if (!moved) return;
	uint32_t *list = rt_arena_alloc(&p->mem, n * sizeof *list);
	if (!list) L->oom = true;
	for (uint32_t j = 0; list && j < n; j++) list[j] = slot[j];
	for (uint32_t i = 0, j; list && i < k->ins.n; i++) {
		if (k->ins.v[i].op != LO_NUM) continue;
		for (j = 0; slot[j] != (uint32_t)k->ins.v[i].imm; j++) {}
		k->ins.v[i].imm = j;
	}
	t->number = list;
	t->nnumber = list ? n : 0;
}

/* ---- kernels of one form ---- */
/* w[i].first: the first kernel of its form. w[i].next: the next one, or n. */
static bool find_forms(lo_low *L, lo_twin *w, uint32_t n)
{
	uint32_t room = 16;
	while (room < 2 * n) room *= 2;
	uint32_t *table = lo_mem(L, room * sizeof *table),
		 *last = lo_mem(L, (n + 1) * sizeof *last); /* table: hash table of the first kernel of each form, + 1 */
	for (uint32_t i = 0; !L->oom && i < n; i++) {
		uint32_t at = (uint32_t)w[i].kin->hash & (room - 1);
		while (table[at] && !lo_same_form(w[table[at] - 1].kin, w[i].kin)) at = (at + 1) & (room - 1);
		if (table[at]) w[last[table[at] - 1]].next = i;
		else table[at] = i + 1;
		w[i].first = table[at] - 1;
		w[i].next = n;
		last[w[i].first] = i;
	}
	return !L->oom;
}

/* More than MANY kernels of the form of kernel i, its first one, have different sizes. */
static bool many_sizes(const lo_twin *w, uint32_t i, uint32_t n)
{
	const lo_kin *met[MANY];
	uint32_t count = 0;
	for (; i < n; i = w[i].next) {
		uint32_t k = 0;
		while (k < count && !lo_code_fits(met[k], w[i].kin)) k++;
		if (k == MANY) return true;
		if (k == count) met[count++] = w[i].kin;
	}
	return false;
}

/* The sizes in which kernels of the form differ become symbols of all of them. */
static void spread(lo_twin *w, uint32_t first, uint32_t n)
{
	lo_kin *a = w[first].kin;
	for (uint32_t i = first; i < n; i = w[i].next)
		for (uint32_t s = 0; s < a->n; s++) a->symbol[s] |= w[i].kin->size[s] != a->size[s];
	for (uint32_t i = w[first].next; i < n; i = w[i].next) memcpy(w[i].kin->symbol, a->symbol, a->n);
}

/* ---- code ---- */
static bool set_sizes(rt_plan *p, const lo_kernel *k, rt_step *t)
{
	int64_t *size = rt_arena_alloc(&p->mem, (k->size.n + 1) * sizeof *size);
	if (size && k->size.n) memcpy(size, k->size.v, k->size.n * sizeof *size);
	t->size = size;
	t->nsize = k->size.n;
	return size != NULL;
}

/* The first kernel of the same form whose code fits kernel i: an earlier one, or i. */
static uint32_t code_of(lo_twin *w, uint32_t i)
{
	uint32_t *k = &w[i].first;
	while (*k < i && !lo_code_fits(w[*k].kin, w[i].kin)) k = &w[*k].next_code;
	if (*k > i) *k = i;
	return *k;
}

/* Chooses symbols and sizes of kernel i, and its code if that exists. */
static bool choose(lo_low *L, rt_plan *p, lo_twin *w, uint32_t i, uint32_t round)
{
	lo_twin *x = &w[i];
	lo_family *f = L->o->family;
	rt_shared *code = NULL;
	x->code = code_of(w, i);
	if (x->code != i) memcpy(x->kin->symbol, w[x->code].kin->symbol, x->kin->n);
	else if (f && !lo_family_meet(f, round, x->k, x->s, &L->o->moving, x->kin, &x->t->fn, &code)) return false;
	lo_hold(p, code);
	return lo_make_symbols(x->k, x->s, x->kin) && set_sizes(p, x->k, x->t);
}

bool lo_choose_code(lo_low *L, rt_plan *p, lo_twin *w, uint32_t n)
{
	lo_family *f = L->o->family;
	uint32_t round = f ? lo_family_round(f) : 0;
	for (uint32_t i = 0; i < n; i++) {
		move_offsets(L, w[i].k, w[i].t);
		move_numbers(L, w[i].k, p, w[i].t);
		w[i].next_code = n;
		w[i].kin = lo_kin_new(w[i].k, w[i].s);
		if (!w[i].kin || L->oom) return false;
	}
	if (!find_forms(L, w, n)) return false;
	for (uint32_t i = 0; f && i < n; i++)
		if (w[i].first == i && many_sizes(w, i, n)) spread(w, i, n);
	for (uint32_t i = 0; i < n; i++)
		if (!choose(L, p, w, i, round)) return false;
	return true;
}
