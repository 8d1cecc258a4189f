/* SPDX-License-Identifier: MIT */
/* symbol: the list of sizes of a scheduled kernel, and its form: everything that does not depend on sizes.
 *
 *   dim 784                            dim s0
 *   load f32 b0 [0 + 1024*d0]    =>    load f32 b0 [0 + s1*d0]          size 784 1024
 *
 * Two kernels of one form, and their schedules, differ in sizes alone. Some facts about sizes change the generated code and so are
 * in the form: whether an extent or a coefficient is 0, 1 or more; and values beyond 31 bits, which never become symbols. */
#include "lower/symbol.h"
#include "lower/target.h"

static bool is_const(const lo_ins *in)
{
	return (in->op == LO_CONST || in->op == LO_SIZE) && in->dtype != TJ_BOOL && !rt_is_narrow((tj_dtype)in->dtype);
}

/* ---- the list ---- */
typedef struct list { lo_place *at; uint32_t n; } list;

static void add(list *l, int64_t *size, lo_place_kind kind, lo_ins *ins)
{
	if (l->at) l->at[l->n] = (lo_place){ size, ins, kind };
	l->n++;
}

/* Code is made for this size of tiles, which is a part of the form. */
static bool is_fixed(const lo_schedule *s) { return s->vec == LO_VEC_TILE && s->target->flat_tiles; }

uint32_t lo_places(lo_kernel *k, lo_schedule *s, lo_place *at)
{
	list l = { at, 0 };
	for (int i = 0; i < k->ndim; i++) add(&l, &k->dim[i], LO_AT_EXTENT, NULL);
	if (k->reduces) add(&l, &k->red, LO_AT_EXTENT, NULL);
	if (s->vec != LO_VEC_R && !is_fixed(s)) add(&l, &s->block, LO_AT_ANY, NULL);
	if (s->vec == LO_VEC_TILE && !is_fixed(s)) add(&l, &s->rows, LO_AT_ANY, NULL);
	for (uint32_t i = 0; i < s->kept.n; i++) {
		add(&l, &k->buf.v[s->kept.v[i].buf].elems, LO_AT_KEPT, NULL);
		add(&l, &s->kept.v[i].offset, LO_AT_KEPT, NULL);
	}
	for (uint32_t i = 0; i < k->index.n; i++) {
		lo_index *x = &k->index.v[i];
		add(&l, &x->offset, LO_AT_ANY, NULL);
		for (int d = 0; d < k->ndim; d++) add(&l, &x->coef[d], LO_AT_EXTENT, NULL);
		add(&l, &x->rcoef, LO_AT_EXTENT, NULL);
		for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) add(&l, &x->jump[j].by, LO_AT_ANY, NULL);
	}
	for (uint32_t i = 0; i < k->ins.n; i++) {
		lo_ins *in = &k->ins.v[i];
		if (in->dyn != LO_NOREF) add(&l, &in->dyn_stride, LO_AT_EXTENT, NULL);
		if (is_const(in)) add(&l, &in->imm, LO_AT_CONST, in);
	}
	return l.n;
}

/* ---- the form ---- */
static bool put(lo_words *w, uint64_t x) { return rt_push(w, x); }

/* The part of a size that belongs to the form. */
static uint64_t class_of(const lo_place *p)
{
	int64_t v = *p->size;
	if (p->kind == LO_AT_CONST) return 0;
	if (v > INT32_MAX || v < -INT32_MAX) return (uint64_t)v;
	return p->kind != LO_AT_EXTENT ? 3 : v == 0 || v == 1 ? (uint64_t)v : 2;
}

static uint64_t pack(uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return a << 48 ^ b << 32 ^ c << 16 ^ d; }

unsigned lo_amount(const lo_kernel *k, const lo_schedule *s)
{
	int64_t n = k->reduces && lo_size(k, k->red) ? lo_size(k, k->red) : 1;
	if (s->vec == LO_VEC_TILE) return 0;
	for (int i = 0; i < k->ndim; i++) n *= lo_size(k, k->dim[i]);
	return n >= s->target->far_elems ? 2 : s->vec != LO_VEC_R && n >= s->target->strip_elems;
}

/* Adds target and schedule, without sizes, to w; not unit_ns and grain, on which no code depends. */
static bool schedule_form(const lo_kernel *k, const lo_schedule *s, lo_words *w)
{
	bool ok = put(w, (uintptr_t)s->target) && put(w, pack(s->vec, lo_amount(k, s), s->kept.n, 0)) && put(w, (uint64_t)s->part);
	if (is_fixed(s)) ok = ok && put(w, (uint64_t)s->rows) && put(w, (uint64_t)s->block);
	for (uint32_t i = 0; ok && i < s->kept.n; i++) ok = put(w, pack(s->kept.v[i].buf, s->kept.v[i].where, 0, 0));
	return ok;
}

bool lo_form(const lo_kernel *k, const lo_schedule *s, const lo_place *at, uint32_t n, lo_words *w)
{
	bool ok = schedule_form(k, s, w) && put(w, pack((uint64_t)k->ndim, k->reduces, k->few, 0)) && put(w, k->fault_site.n);
	ok = ok && put(w, pack(k->buf.n, k->section.n, k->ins.n, k->index.n));
	for (uint32_t i = 0; ok && i < k->buf.n; i++)
		ok = put(w, pack(k->buf.v[i].dtype, k->buf.v[i].role, k->buf.v[i].aligned,
		                 lo_in_panels(k->buf.v[i].role) ? (uint64_t)k->buf.v[i].elems : 0));
	for (uint32_t i = 0; ok && i < k->section.n; i++) ok = put(w, pack(k->section.v[i].loop, k->section.v[i].first, k->section.v[i].count, 0));
	for (uint32_t i = 0; ok && i < k->index.n; i++) {
		ok = put(w, (uint64_t)k->index.v[i].group);
		for (int j = 0; ok && j < LO_JUMPS; j++) ok = put(w, (uint64_t)k->index.v[i].jump[j].every);
	}
	for (uint32_t i = 0; ok && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		bool access = in->op == LO_LOAD || in->op == LO_STORE || in->op == LO_PART;
		ok = put(w, pack(in->op, in->dtype, in->tree, in->nsrc)) && put(w, is_const(in) ? 0 : (uint64_t)in->imm);
		for (int j = 0; ok && j < in->nsrc; j++) ok = put(w, in->src[j]);
		if (access) ok = ok && put(w, (uint64_t)in->buf << 32 | in->index) && put(w, in->dyn);
	}
	for (uint32_t i = 0; ok && i < n; i++) ok = put(w, class_of(&at[i]));
	return ok && lo_site_words(k, w);
}

/* ---- to symbols and back ---- */
bool lo_make_symbol(lo_kernel *k, const lo_place *p)
{
	int64_t s = k->size.n;
	if (!rt_push(&k->size, *p->size)) return false;
	if (p->ins) p->ins->op = LO_SIZE;
	*p->size = p->ins ? s : LO_SYM(s);
	return true;
}

bool lo_may_be_symbol(const lo_place *p)
{
	uint64_t c = class_of(p);
	return c == 2 || c == 3 || p->kind == LO_AT_CONST;
}

bool lo_all_symbols(lo_kernel *k, lo_schedule *s)
{
	uint32_t n = lo_places(k, s, NULL);
	lo_place *at = rt_alloc((n + 1) * sizeof *at);
	bool ok = at != NULL;
	if (ok) lo_places(k, s, at);
	for (uint32_t i = 0; ok && i < n; i++) ok = !lo_may_be_symbol(&at[i]) || lo_make_symbol(k, &at[i]);
	rt_free(at);
	return ok;
}

void lo_no_symbols(lo_kernel *k, lo_schedule *s)
{
	uint32_t n = lo_places(k, s, NULL);
	lo_place *at = rt_alloc((n + 1) * sizeof *at);
	if (!at) return;
	lo_places(k, s, at);
	for (uint32_t i = 0; i < n; i++)
		if (at[i].kind != LO_AT_CONST) *at[i].size = lo_size(k, *at[i].size);
	for (uint32_t i = 0; i < k->ins.n; i++) {
		lo_ins *in = &k->ins.v[i];
		if (in->op != LO_SIZE) continue;
		in->op = LO_CONST;
		in->imm = k->size.v[in->imm];
	}
	k->size.n = 0;
	rt_free(at);
}
