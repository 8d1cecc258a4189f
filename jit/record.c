/* SPDX-License-Identifier: MIT */
/* Recording: nodes behind the last matched event, private until their boundary succeeds; then they become part of the trace. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/guard.h"
#include "jit/handle.h"

/* ---- operands ---- */

/* The operands of an event as references. New externals and cells are appended to the activation and described in met. */
typedef struct operands { jit_ref *src; jit_ext *met; int nmet; int op; const char *site; } operands;

/* The slot of an equal number that the same line gave the same op before (a constant in a loop). Both share the slot, so that
 * common subexpressions are found; a guard of this event checks that they stay equal. After PARTED_MOST failures of such
 * guards, numbers of the function get slots of their own. */
enum { LOOK_BACK = 256, PARTED_MOST = 4 };
static int equal_number(const jit_act *a, const operands *o, int k, const tj_tensor *h)
{
	int left = LOOK_BACK;
	if (!o->site || o->op >= IR_OPS || atomic_load_explicit(&a->fn->parted, memory_order_relaxed) >= PARTED_MOST) return -1;
	for (const jit_node *n = a->cursor; n->parent && left--; n = n->parent) {
		if (n->op != o->op || n->site != o->site || k >= n->nsrc) continue;
		jit_ref r = n->src[k];
		if (JIT_KIND(r) == (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT) && jit_same_number(a, JIT_IDX(r), k, h)) return (int)JIT_IDX(r);
	}
	return -1;
}

static bool cell_ref(jit_act *a, int k, tj_tensor *h, operands *o, jit_ref *out)
{
	(void)k;
	const int64_t at = jit_find_cell(&a->cell_at, a->cell.v, sizeof *a->cell.v, a->cell.n, rt_held_of(h));
	if (at >= 0) {
		*out = JIT_REF(JIT_CELL, (uint32_t)at);
		return true;
	}
	*out = JIT_REF(JIT_CELL, a->cell.n);
	o->met[o->nmet++] = (jit_ext){ h->layout, 0, true, false };
	return rt_push(&a->cell, rt_held_of(h));
}

static bool operand_ref(jit_act *a, int k, tj_tensor *h, operands *o, jit_ref *out)
{
	if (rt_is_number(h)) {
		int same = equal_number(a, o, k, h);
		*out = JIT_REF(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT, same >= 0 ? (uint32_t)same : a->num.n);
		return same >= 0 || jit_bind_number(a, k, h);
	}
	if (h->kind == RT_PENDING && h->seg == a->seg) {
		*out = JIT_REF(JIT_EV, h->seq);
		return true;
	}
	int slot = jit_find_ext(a, h);
	if (slot >= 0) {
		*out = JIT_REF(JIT_EXT, (uint32_t)slot);
		return true;
	}
	*out = JIT_REF(JIT_EXT, a->ext.n);
	if (!jit_bind_ext(a, h, &o->met[o->nmet])) return false;
	o->nmet++;
	jit_index_ext(a, a->ext.n - 1);
	return true;
}

/* An ASSIGN has the value first, then the cell, so that a new cell is the last element of met. */
static bool make_refs(jit_act *a, int op, int nsrc, tj_tensor *const *src, operands *o)
{
	for (int k = 0; k < nsrc; k++)
		if (!(op == JIT_ASSIGN && k == 1 ? cell_ref : operand_ref)(a, k, src[k], o, &o->src[k])) return false;
	return true;
}

/* ---- the result ---- */
/* No operand is a tensor: the result is made on the device of the engine. */
static bool creates(int nsrc, const ir_meta *src)
{
	for (int k = 0; k < nsrc; k++)
		if (!src[k].weak) return false;
	return true;
}

static bool infer(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr,
                  const rt_layout **out)
{
	rt_err err = { 0 };
	ir_meta m, *meta = rt_arena_alloc(&a->mem, ((size_t)nsrc + 2) * sizeof *meta);
	if (!meta) return jit_error(a->ctx, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory"), false;
	for (int k = 0; k < nsrc; k++) meta[k] = jit_meta(src[k]);
	const tj_dtype to = jit_autocast(a->mode, op, nsrc, meta);
	for (int k = 0; k < nsrc; k++)
		if (ir_autocasts(&meta[k], to)) meta[k].dtype = (uint8_t)to;
	if (ir_ops[op].flags & IR_RNG) {
		meta[nsrc] = meta[nsrc + 1] = (ir_meta){ .dtype = TJ_I64, .weak = true };
		nsrc += 2;
	}
	if (ir_infer((ir_op)op, nsrc, meta, nattr, attr, &m, NULL, NULL, NULL, &err) != TJ_OK) return jit_report(a->ctx, site, &err), false;
	if (creates(nsrc, meta) && !m.weak && op != IR_to) m.device = (uint8_t)a->ctx->engine->device;
	if (ir_ops[op].nresult > 1) return true; /* each of its IR_gets has one */
	*out = rt_layout_get(&a->ctx->engine->rt.layouts, (tj_dtype)m.dtype, m.device, m.rank, m.dim, NULL);
	if (!*out) jit_error(a->ctx, site, TJ_ERR_SHAPE, ir_ops[op].name, NULL, "the size of the result overflows");
	return *out != NULL;
}

/* The type of a PARAM or an IR_get is in its attributes. */
static bool declared(jit_act *a, const char *site, int op, int nattr, const int64_t *attr, const rt_layout **out)
{
	if (op != JIT_PARAM && op != IR_get) return true;
	*out = rt_layout_get(&a->ctx->engine->rt.layouts, (tj_dtype)attr[1], (int)attr[2], nattr - 3, attr + 3, NULL);
	if (!*out) jit_error(a->ctx, site, TJ_ERR_SHAPE, jit_event_name(op), NULL, "the size of the result overflows");
	return *out != NULL;
}

static void start_recording(jit_act *a)
{
	a->started = rt_now_ms();
	JIT_COUNT(a->fn, recordings);
	if (!a->recorded && atomic_load(&a->cursor->child)) JIT_COUNT(a->fn, side_exits);
	a->recorded = true;
}

jit_node *jit_record(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	const rt_layout *layout = NULL;
	if (op < IR_OPS ? !infer(a, site, op, nsrc, src, nattr, attr, &layout) : !declared(a, site, op, nattr, attr, &layout)) return NULL;
	uint32_t next = a->ext.n, nnum = a->num.n, ncell = a->cell.n;
	operands o = { rt_arena_alloc(&a->mem, (size_t)(nsrc + 1) * sizeof *o.src),
		       rt_arena_alloc(&a->mem, (size_t)(nsrc + 1) * sizeof *o.met), 0, op, site };
	jit_node *n = NULL;
	if (nsrc <= UINT16_MAX && o.src && o.met && make_refs(a, op, nsrc, src, &o)) n = jit_new_node(nsrc, nattr, o.nmet);
	if (!n) {
		rt_layout_unref(layout);
		jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory");
		return NULL;
	}
	if (nattr) memcpy((int64_t *)(uintptr_t)n->attr, attr, (size_t)nattr * sizeof *attr);
	if (nsrc) memcpy((jit_ref *)(uintptr_t)n->src, o.src, (size_t)nsrc * sizeof *o.src);
	if (o.nmet) memcpy((jit_ext *)(uintptr_t)n->met, o.met, (size_t)o.nmet * sizeof *o.met);
	for (int i = 0; i < o.nmet; i++) rt_layout_ref(n->met[i].layout);
	n->op = (uint16_t)op;
	n->mode = jit_mode_of(a, op);
	n->draws = op < IR_OPS && ir_ops[op].flags & IR_RNG;
	n->seq = a->seq;
	if (layout) n->value = (rt_head){ RT_PENDING, layout->dtype, layout->rank, 0, a->seq };
	n->next = next;
	n->nnum = nnum;
	n->ncell = ncell;
	n->layout = layout;
	n->site = site;
	n->parent = a->cursor;
	jit_filter_node(a->fn, n);
	if (a->fresh) atomic_store_explicit(&a->cursor->child, n, memory_order_relaxed); /* both are private */
	else {
		start_recording(a);
		a->fresh = n;
	}
	return n;
}
