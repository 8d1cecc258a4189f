/* SPDX-License-Identifier: MIT */
/* family: kernels of one form share code. Target and schedule are a part of the form.
 *
 * Code compiled for one size stays as it is. When another size gives a kernel of the same form, the sizes that differ become
 * symbols, and code is compiled that takes them as arguments; later sizes use that code. A wrong guess about sizes costs a
 * compilation, never a result: a size that is not a symbol is a part of the code's key.
 *
 *   member   form   sizes          symbols         code
 *     0       #a    784 1024       -               for 784 x 1024 alone
 *     1       #a    500 1024       s0 = first      for any x 1024 */
#include "lower/symbol.h"

#include <pthread.h>

enum { MOST = 1024 }; /* members; one more replaces the least recently used one, whose code lives on in the plans that run it */

struct lo_family {
	pthread_mutex_t lock;
	rt_vec(lo_kin *) member;
	uint32_t round;
	uint64_t clock;
	lo_family_count count;
};

void lo_kin_free(lo_kin *m)
{
	if (!m) return;
	rt_shared_unref(m->code);
	rt_vec_free(&m->form);
	rt_free(m->size);
	rt_free(m->symbol);
	rt_free(m);
}

void lo_family_free(lo_family *f)
{
	if (!f) return;
	for (uint32_t i = 0; i < f->member.n; i++) lo_kin_free(f->member.v[i]);
	rt_vec_free(&f->member);
	pthread_mutex_destroy(&f->lock);
	rt_free(f);
}

lo_family *lo_family_new(void)
{
	lo_family *f = rt_calloc(sizeof *f);
	if (f) pthread_mutex_init(&f->lock, NULL);
	return f;
}

lo_family_count lo_family_counts(lo_family *f)
{
	rt_lock(&f->lock);
	lo_family_count c = f->count;
	rt_unlock(&f->lock);
	return c;
}

uint32_t lo_family_round(lo_family *f)
{
	rt_lock(&f->lock);
	uint32_t r = ++f->round;
	rt_unlock(&f->lock);
	return r;
}

/* ---- a kernel and its kin ---- */
static lo_place *places_of(lo_kernel *k, lo_schedule *s, uint32_t n)
{
	lo_place *at = rt_alloc((n + 1) * sizeof *at);
	if (at) lo_places(k, s, at);
	return at;
}

lo_kin *lo_kin_new(lo_kernel *k, lo_schedule *s)
{
	uint32_t n = lo_places(k, s, NULL);
	lo_kin *kin = rt_calloc(sizeof *kin);
	lo_place *at = places_of(k, s, n);
	if (kin) {
		kin->n = n;
		kin->size = rt_calloc((n + 1) * sizeof *kin->size);
		kin->symbol = rt_calloc(n + 1);
	}
	bool ok = kin && at && kin->size && kin->symbol && lo_form(k, s, at, n, &kin->form);
	for (uint32_t i = 0; ok && i < n; i++) kin->size[i] = *at[i].size;
	if (ok) kin->hash = rt_hash(kin->form.v, kin->form.n * sizeof *kin->form.v, n);
	else lo_kin_free(kin);
	rt_free(at);
	return ok ? kin : NULL;
}

bool lo_make_symbols(lo_kernel *k, lo_schedule *s, const lo_kin *kin)
{
	lo_place *at = places_of(k, s, kin->n);
	bool ok = at != NULL;
	for (uint32_t i = 0; ok && i < kin->n; i++) ok = !kin->symbol[i] || lo_make_symbol(k, &at[i]);
	rt_free(at);
	return ok;
}

bool lo_same_form(const lo_kin *a, const lo_kin *b)
{
	return a->hash == b->hash && a->n == b->n && a->form.n == b->form.n && !memcmp(a->form.v, b->form.v, a->form.n * sizeof *a->form.v);
}

bool lo_code_fits(const lo_kin *code, const lo_kin *k)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (!code->symbol[i] && code->size[i] != k->size[i]) return false;
	return true;
}

/* How many sizes differ and are not yet symbols of the member m; -1: s has another form. */
static int differ(const lo_kin *m, const lo_kin *s)
{
	int n = 0;
	if (!lo_same_form(m, s)) return -1;
	for (uint32_t i = 0; i < s->n; i++) n += !m->symbol[i] && m->size[i] != s->size[i];
	return n;
}

/* ---- sizes that move, by their values ---- */
static bool in_products(int64_t v, const int64_t *dim, int n, int depth)
{
	if (v == 1) return true;
	for (int i = 0; depth && i < n; i++)
		if (dim[i] > 1 && v % dim[i] == 0 && in_products(v / dim[i], dim, n, depth - 1)) return true;
	return false;
}

bool lo_moves(const lo_moving *m, int64_t v)
{
	bool multiple = false;
	for (int i = 0; i < m->nmoving; i++) multiple |= m->moving[i] > 1 && v && v % m->moving[i] == 0;
	return multiple && !in_products(v, m->fixed, m->nfixed, 3);
}

static double real_of(const lo_ins *in)
{
	float f;
	double d;
	uint32_t low = (uint32_t)in->imm;
	memcpy(&f, &low, sizeof f);
	memcpy(&d, &in->imm, sizeof d);
	return in->dtype == TJ_F32 ? (double)f : d;
}

/* The constant is a moving size n, or 1/n as in a mean. */
static bool const_moves(const lo_moving *m, const lo_ins *in)
{
	if (!rt_is_float((tj_dtype)in->dtype)) return in->imm > 1 && in->imm < INT32_MAX && lo_moves(m, in->imm);
	double d = real_of(in), inverse = d != 0 ? 1 / d : 0, n = d >= 2 ? d : inverse >= 2 ? (double)(int64_t)(inverse + 0.5) : 0;
	bool same = d >= 2 ? d == (double)(int64_t)d : n >= 2 && (in->dtype == TJ_F32 ? (float)(1 / n) == (float)d : 1 / n == d);
	return n >= 2 && n < INT32_MAX && same && lo_moves(m, (int64_t)n);
}

static void mark_moving(lo_kin *s, const lo_place *at, const lo_moving *m)
{
	for (uint32_t i = 0; i < s->n; i++) {
		int64_t v = s->size[i];
		if (at[i].kind == LO_AT_CONST) s->symbol[i] |= const_moves(m, at[i].ins);
		else s->symbol[i] |= (v > 1 || v < -1) && v <= INT32_MAX && v >= -INT32_MAX && lo_moves(m, v);
	}
}

/* Sizes that depend on symbols are symbols, too: a block depends on its extent, the rows of tiles on all extents, kept rows on r. */
static void mark_followers(lo_kin *kin, const lo_place *at, const lo_kernel *k, const lo_schedule *s)
{
	bool last = false, red = false, any = false;
	for (uint32_t i = 0; i < kin->n; i++) {
		any |= kin->symbol[i] && at[i].kind == LO_AT_EXTENT;
		last |= kin->symbol[i] && at[i].size == &k->dim[k->ndim - 1];
		red |= kin->symbol[i] && at[i].size == &k->red;
	}
	for (uint32_t i = 0; i < kin->n; i++)
		kin->symbol[i] |= ((last || red) && at[i].size == &s->block) ||
		                  (any && s->vec == LO_VEC_TILE && (at[i].size == &s->rows || at[i].size == &s->block)) ||
		                  (red && at[i].kind == LO_AT_KEPT);
}

/* ---- finding and adding ---- */
/* The member that needs the fewest new symbols, *least. If any: not one of the same round, because kernels of one plan are not the same
 * kernel at another size. */
static lo_kin *nearest(const lo_family *f, const lo_kin *s, int *least)
{
	lo_kin *best = NULL;
	for (uint32_t i = 0; i < f->member.n; i++) {
		int n = differ(f->member.v[i], s);
		if (n < 0 || (n > 0 && f->member.v[i]->round == s->round) || (best && n >= *least)) continue;
		best = f->member.v[i];
		*least = n;
		if (!n) break;
	}
	return best;
}

bool lo_family_meet(lo_family *f, uint32_t round, lo_kernel *k, lo_schedule *s, const lo_moving *moving, lo_kin *kin, rt_entry *fn,
                    rt_shared **code)
{
	lo_place *at = places_of(k, s, kin->n);
	int least = 0;
	if (!at) return false;
	kin->round = round;
	rt_lock(&f->lock);
	lo_kin *m = nearest(f, kin, &least);
	if (m) m->met = ++f->clock;
	if (m && !least) *fn = m->fn, *code = rt_shared_ref(m->code);
	for (uint32_t i = 0; m && i < kin->n; i++) kin->symbol[i] |= m->symbol[i] || m->size[i] != kin->size[i];
	if (*fn) memcpy(kin->symbol, m->symbol, kin->n);
	f->count.shared += *fn != NULL;
	f->count.widened += m && !*fn;
	rt_unlock(&f->lock);
	for (uint32_t i = 0; !*fn && moving->all && i < kin->n; i++) kin->symbol[i] |= lo_may_be_symbol(&at[i]);
	if (!*fn && (m || moving->always)) mark_moving(kin, at, moving);
	if (!*fn) mark_followers(kin, at, k, s);
	rt_free(at);
	return true;
}

void lo_family_twins(lo_family *f, uint32_t n)
{
	rt_lock(&f->lock);
	f->count.shared += n;
	rt_unlock(&f->lock);
}

static uint32_t oldest(const lo_family *f)
{
	uint32_t k = 0;
	for (uint32_t i = 1; i < f->member.n; i++)
		if (f->member.v[i]->met < f->member.v[k]->met) k = i;
	return k;
}

void lo_family_add(lo_family *f, lo_kin *m, rt_entry fn, rt_shared *code)
{
	int least = 1;
	lo_kin *leaves = m;
	m->fn = fn;
	m->code = rt_shared_ref(code);
	rt_lock(&f->lock);
	f->count.compiled++;
	m->met = ++f->clock;
	bool there = nearest(f, m, &least) && !least;
	if (!there && f->member.n < MOST) leaves = rt_push(&f->member, m) ? NULL : m;
	else if (!there) {
		uint32_t i = oldest(f);
		leaves = f->member.v[i];
		f->member.v[i] = m;
	}
	rt_unlock(&f->lock);
	lo_kin_free(leaves);
}
