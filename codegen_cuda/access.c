/* access: addresses, loads and stores.
 *
 * Inside the loop over a thread's elements, loads and stores of adjacent elements are taken out of the loop: as arrays x<i> that
 * are read before it, and y<i> that are written behind it, with one access of 16 bytes where the address allows it. */
#include "codegen_cuda/cu.h"

/* The coefficient along the dimension of a thread's elements. */
static int64_t along(const cu *c, const lo_ins *in)
{
	const lo_index *x = &c->k->index.v[in->index];
	return c->shape.rows ? x->rcoef : x->coef[c->k->ndim - 1];
}

static bool is_adjacent(const cu *c, const lo_ins *in) { return c->in_elems && in->dyn == LO_NOREF && along(c, in) == 1; }

/* Every thread's first element lies at a multiple of `elems` elements. */
static bool is_aligned(const cu *c, const lo_ins *in)
{
	const lo_buf *b = &c->k->buf.v[in->buf];
	const lo_index *x = &c->k->index.v[in->index];
	if (b->role == LO_KEPT) return true;
	bool ok = b->aligned && !lo_is_sym(x->offset) && x->offset % c->shape.elems == 0;
	for (int i = 0; i < c->k->ndim - !c->shape.rows; i++) ok &= !lo_is_sym(x->coef[i]) && x->coef[i] % c->shape.elems == 0;
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
		if (first && !c->shape.rows && i == last) put_term(c, x->coef[i], "e", -1);
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

/* ---- before and behind the loop over elements ---- */
void cu_early_loads(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op != LO_LOAD || !is_adjacent(c, in)) continue;
		cu_line(c, "%s x%u[%d]; tj_load<%s>(x%u, ", cu_memory((tj_dtype)in->dtype), i, c->shape.elems, is_aligned(c, in) ? "true" : "false", i);
		put_pointer(c, in, true);
		rt_puts(c->out, ", n);\n");
	}
}

void cu_declare_stores(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op == LO_STORE && is_adjacent(c, in)) cu_line(c, "%s y%u[%d];\n", cu_memory((tj_dtype)in->dtype), i, c->shape.elems);
	}
}

void cu_late_stores(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op != LO_STORE || !is_adjacent(c, in)) continue;
		cu_line(c, "tj_store<%s>(", is_aligned(c, in) ? "true" : "false");
		put_pointer(c, in, true);
		rt_putf(c->out, ", y%u, n);\n", i);
	}
}

/* ---- one access ---- */
void cu_load(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cu_line(c, "const %s v%u = ", cu_type((tj_dtype)in->dtype), i);
	if (is_adjacent(c, in)) rt_putf(c->out, "x%u[j]", i);
	else rt_puts(c->out, "*("), put_pointer(c, in, false), rt_puts(c->out, ")");
	rt_puts(c->out, in->dtype == TJ_BOOL ? " != 0;\n" : ";\n");
}

void cu_store(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cu_line(c, "%s", c->shape.rows && !c->in_elems ? "if (lead) " : "");
	if (is_adjacent(c, in)) rt_putf(c->out, "y%u[j]", i);
	else rt_puts(c->out, "*("), put_pointer(c, in, false), rt_puts(c->out, ")");
	rt_putf(c->out, " = v%u;\n", in->src[0]);
}

void cu_part_pointer(cu *c, const lo_ins *in) { put_pointer(c, in, false); }
