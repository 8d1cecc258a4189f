/* SPDX-License-Identifier: MIT */
/* access: addresses, loads and stores.
 *
 * Inside the loop over a thread's elements, loads and stores of adjacent elements are taken out of the loop: as arrays x<i> that
 * are read before it, and y<i> that are written behind it, with one access of 16 bytes where the address allows it.
 *
 * A row that several loops read is held: the first loop leaves it in shared memory, or in the registers x<i>; g<b> are kept rows in
 * registers. */
#include "codegen_cuda/cu.h"

/* The coefficient along the dimension of a thread's elements. */
static int64_t along(const cu *c, const lo_ins *in)
{
	const lo_index *x = &c->k->index.v[in->index];
	return c->shape.walk == CU_POINTS ? x->coef[c->k->ndim - 1] : x->rcoef;
}

static bool is_adjacent(const cu *c, const lo_ins *in) { return c->in_elems && in->dyn == LO_NOREF && along(c, in) == 1; }

/* A load that is issued before the loop over elements. A thread that goes down a column has one element. */
static bool is_early(const cu *c, const lo_ins *in)
{
	return in->op == LO_LOAD && (is_adjacent(c, in) || (c->in_elems && in->dyn == LO_NOREF && c->shape.walk == CU_COLUMNS));
}

static bool kept_in_registers(const cu *c, uint32_t buf)
{
	return c->k->buf.v[buf].role == LO_KEPT && lo_kept_at(c->s, buf)->where == LO_REGISTERS;
}

/* The load is done: its row is in registers. */
static bool is_here(const cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	const cu_held *h = cu_held_at(c->k, &c->shape, in);
	return kept_in_registers(c, in->buf) || (h && c->shape.in_registers && h->ins != i);
}

/* The array of a load: g<b> of a kept row, x<i> of the first load of a held row, else its own. */
static void put_array(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	const cu_held *h = c->shape.in_registers ? cu_held_at(c->k, &c->shape, in) : NULL;
	if (kept_in_registers(c, in->buf)) rt_putf(c->out, "g%u", in->buf);
	else rt_putf(c->out, "x%u", h ? h->ins : i);
	if (c->unroll) rt_puts(c->out, "[q]");
}

/* Every thread's first element lies at a multiple of `elems` elements. */
static bool is_aligned(const cu *c, const lo_ins *in)
{
	const lo_buf *b = &c->k->buf.v[in->buf];
	const lo_index *x = &c->k->index.v[in->index];
	if (b->role == LO_KEPT) return true;
	bool ok = b->aligned && !lo_is_sym(x->offset) && x->offset % c->shape.elems == 0;
	for (int i = 0; i < c->k->ndim - (c->shape.walk == CU_POINTS); i++) ok &= !lo_is_sym(x->coef[i]) && x->coef[i] % c->shape.elems == 0;
	return ok && (!c->s->part || c->s->part % c->shape.elems == 0);
}

static void put_term(cu *c, int64_t coef, const char *name, int i)
{
	if (!coef) return;
	rt_puts(c->out, " + ");
	if (coef != 1) {
		if (!c->narrow) rt_puts(c->out, "(long long)");
		cu_size(c, coef), rt_puts(c->out, " * ");
	}
	rt_puts(c->out, name);
	if (i >= 0) rt_putf(c->out, "%d", i);
}

/* The index of an access. first: that of the thread's first element. */
static void put_index(cu *c, const lo_ins *in, bool first)
{
	const lo_index *x = &c->k->index.v[in->index];
	const int last = c->k->ndim - 1;
	cu_size(c, x->offset);
	for (int i = 0; i <= last; i++)
		if (first && c->shape.walk == CU_POINTS && i == last) put_term(c, x->coef[i], "e", -1);
		else put_term(c, x->coef[i], "d", i);
	put_term(c, x->rcoef, first ? "r0" : "r", -1);
	if (in->dyn == LO_NOREF) return;
	rt_putf(c->out, " + v%u * ", in->dyn);
	if (lo_is_sym(in->dyn_stride)) cu_size(c, in->dyn_stride);
	else rt_putf(c->out, "%lldll", (long long)in->dyn_stride);
}

/* Elements of a kept row are numbered from the start of the row. */
static void put_pointer(cu *c, const lo_ins *in, bool first)
{
	const lo_buf *b = &c->k->buf.v[in->buf];
	if (b->role == LO_KEPT) {
		rt_putf(c->out, "(%s *)(own + %zu + ", cu_memory((tj_dtype)b->dtype), c->shape.own);
		cu_size(c, lo_kept_at(c->s, in->buf)->offset), rt_puts(c->out, ") + ");
	}
	else rt_putf(c->out, "b%u + ", in->buf);
	rt_puts(c->out, "(");
	put_index(c, in, first);
	rt_puts(c->out, ")");
}

/* Where a held row has element r0. */
static void put_held(cu *c, const cu_held *h)
{
	const char *type = cu_memory((tj_dtype)c->k->ins.v[h->ins].dtype);
	const bool shares = h->kept != LO_NOREF;
	rt_putf(c->out, "(%s *)(own + %zu) + r0", type, shares ? c->shape.own + (size_t)lo_kept_at(c->s, h->kept)->offset : h->offset);
}

/* ---- before and behind the loop over elements ---- */
void cu_held_rows(cu *c)
{
	const cu_shape *x = &c->shape;
	for (int h = 0; x->in_registers && h < x->nheld; h++)
		cu_line(c, "%s x%u[%d][%d];\n", cu_memory((tj_dtype)c->k->ins.v[x->held[h].ins].dtype), x->held[h].ins, x->rows, x->elems);
	for (uint32_t b = 0; b < c->k->buf.n; b++)
		if (kept_in_registers(c, b)) cu_line(c, "%s g%u[%d][%d];\n", cu_memory((tj_dtype)c->k->buf.v[b].dtype), b, x->rows, x->elems);
}

void cu_declare_loads(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!is_early(c, in) || is_here(c, i) || (c->shape.in_registers && cu_held_at(c->k, &c->shape, in))) continue;
		cu_line(c, "%s x%u", cu_memory((tj_dtype)in->dtype), i);
		if (c->unroll) rt_putf(c->out, "[%d]", c->unroll);
		rt_putf(c->out, "[%d];\n", c->shape.elems);
	}
}

bool cu_loads_early(const cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++)
		if (is_early(c, &c->k->ins.v[i]) && !is_here(c, i)) return true;
	return false;
}

static void load(cu *c, uint32_t i, const cu_held *from)
{
	const lo_ins *in = &c->k->ins.v[i];
	cu_line(c, "tj_load<%s>(", from || is_aligned(c, in) ? "true" : "false");
	put_array(c, i), rt_puts(c->out, ", ");
	if (from) put_held(c, from);
	else put_pointer(c, in, true);
	rt_puts(c->out, ", n);\n");
}

/* The first load of a held row leaves it in shared memory. Each thread reads there what it wrote, so no barrier is needed. */
void cu_early_loads(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const cu_held *h = is_early(c, &c->k->ins.v[i]) ? cu_held_at(c->k, &c->shape, &c->k->ins.v[i]) : NULL;
		if (!is_early(c, &c->k->ins.v[i]) || is_here(c, i)) continue;
		load(c, i, h && !c->shape.in_registers && h->ins != i ? h : NULL);
		if (!h || c->shape.in_registers || h->ins != i) continue;
		cu_line(c, "tj_store<true>("), put_held(c, h);
		rt_puts(c->out, ", "), put_array(c, i), rt_puts(c->out, ", n);\n");
	}
}

/* A store that is done behind the loop over elements. */
static bool is_late(const cu *c, const lo_ins *in)
{
	return in->op == LO_STORE && is_adjacent(c, in) && c->shape.walk != CU_COLUMNS && !kept_in_registers(c, in->buf);
}

/* Only live units store; kept rows are the unit's own. */
static const char *if_live(const cu *c, const lo_ins *in)
{
	return cu_shares(c) && c->k->buf.v[in->buf].role != LO_KEPT ? "if (live) " : "";
}

void cu_declare_stores(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (is_late(c, in)) cu_line(c, "%s y%u[%d];\n", cu_memory((tj_dtype)in->dtype), i, c->shape.elems);
	}
}

void cu_late_stores(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!is_late(c, in)) continue;
		cu_line(c, "%stj_store<%s>(", if_live(c, in), is_aligned(c, in) ? "true" : "false");
		put_pointer(c, in, true);
		rt_putf(c->out, ", y%u, n);\n", i);
	}
}

/* ---- one access ---- */
void cu_load(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cu_line(c, "const %s v%u = ", cu_type((tj_dtype)in->dtype), i);
	if (cu_is_tiled(c, in)) rt_putf(c->out, "tile%u[tx * %d + i]", i, CU_PITCH);
	else if (is_early(c, in)) put_array(c, i), rt_puts(c->out, "[j]");
	else {
		const bool once = cu_shares(c) && !c->in_elems;
		rt_puts(c->out, once ? "(live ? *(" : "*("), put_pointer(c, in, false), rt_puts(c->out, once ? ") : 0)" : ")");
	}
	rt_puts(c->out, in->dtype == TJ_BOOL ? " != 0;\n" : ";\n");
}

void cu_store(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	if (is_late(c, in)) cu_line(c, "y%u[j]", i);
	else if (kept_in_registers(c, in->buf)) cu_line(c, "g%u[q][j]", in->buf);
	else {
		cu_line(c, "%s*(", cu_shares(c) && !c->in_elems ? "if (lead) " : if_live(c, in));
		put_pointer(c, in, false), rt_puts(c->out, ")");
	}
	rt_putf(c->out, " = v%u;\n", in->src[0]);
}

void cu_pointer(cu *c, const lo_ins *in) { put_pointer(c, in, false); }
