/* SPDX-License-Identifier: MIT */
/* What was compiled: the decisions of lowering, and what a boundary costs. The text is made again when it is wanted; nothing of it is kept.
 */
#include "jit/ctx.h"
#include "jit/guard.h"
#include "jit/note.h"

/* ---- decisions of lowering ---- */
static const char *const kinds[] = { [LO_NOTE_FUSION] = "fusion",
	                             [LO_NOTE_MEMORY] = "memory",
	                             [LO_NOTE_STORED] = "stored",
	                             [LO_NOTE_EVALUATOR] = "evaluator",
	                             [LO_NOTE_LIBRARY] = "library",
	                             [LO_NOTE_DEVICE] = "device" };

static void put_bytes(int64_t n, rt_text *t)
{
	if (n < 1024) rt_putf(t, "%d bytes", (int)n);
	else if (n < 1 << 20) rt_putf(t, "%.1f KiB", (double)n / 1024);
	else rt_putf(t, "%.1f MiB", (double)n / (1 << 20));
}

static void put_stored(const lo_note *n, rt_text *t)
{
	rt_puts(t, "is stored, ");
	put_bytes(n->bytes, t);
	if (*n->other) rt_putf(t, ", for %s at %s: ", n->other, n->other_site ? n->other_site : "?");
	else rt_puts(t, ", ");
}

const char *jit_decision_kind(const lo_note *n) { return kinds[n->kind]; }

void jit_put_decision(const lo_note *n, rt_text *t)
{
	if (n->kind == LO_NOTE_FUSION)
		rt_putf(t, "is not part of the kernel that computes %s at %s: ", n->other, n->other_site ? n->other_site : "?");
	else if (n->kind == LO_NOTE_MEMORY)
		rt_putf(t, "is computed again in the kernel that computes %s at %s: ", n->other, n->other_site ? n->other_site : "?");
	else if (n->kind == LO_NOTE_STORED) put_stored(n, t);
	else rt_putf(t, "is computed by %s%s: ", n->kind == LO_NOTE_LIBRARY ? "" : "the ", n->other);
	rt_puts(t, n->why);
	if (*n->hint) rt_putf(t, "; %s", n->hint);
	if (n->kind != LO_NOTE_FUSION || !n->bytes) return;
	rt_puts(t, ", ");
	put_bytes(n->bytes, t);
}

void jit_each_decision(tj_fn *f, const jit_plan *p, lo_tell *see, void *self)
{
	lo_opts o;
	ir_graph g;
	rt_err err = { 0 };
	if (!p->exec || !p->n) return;
	ir_unpacked(p->graph, &g);
	jit_lower_opts(f, f->engine, p->settings, &o);
	o.into = p->into;
	lo_notes(&g, &o, p->exec, see, self, &err);
}

typedef struct lines { rt_text *to, last; unsigned times; } lines;

static void put_last(lines *l)
{
	if (!l->times) return;
	rt_puts(l->to, rt_str(&l->last));
	if (l->times > 1) rt_putf(l->to, " (%u times)", l->times);
	rt_puts(l->to, "\n");
	rt_text_free(&l->last);
}

/* Equal lines in a row, as of an op that was taken apart, are one. */
static void put_line(void *self, const lo_note *n)
{
	lines *l = self;
	rt_text t = { 0 };
	rt_putf(&t, "%s: %s at %s ", kinds[n->kind], n->op, n->site ? n->site : "?");
	jit_put_decision(n, &t);
	if (l->times && !strcmp(rt_str(&t), rt_str(&l->last))) {
		l->times++;
		rt_text_free(&t);
		return;
	}
	put_last(l);
	l->last = t;
	l->times = 1;
}

void jit_put_decisions(tj_fn *f, const jit_plan *p, rt_text *t)
{
	lines l = { .to = t };
	jit_each_decision(f, p, put_line, &l);
	put_last(&l);
}

typedef struct telling { tj_fn *f; const jit_entry *e; const jit_node *boundary; } telling;

static void tell_decision(void *self, const lo_note *n)
{
	const telling *x = self;
	rt_text t = { 0 };
	rt_putf(&t, "%s: %s ", x->f->name, n->op);
	jit_put_decision(n, &t);
	tj_reason r = jit_new_reason(x->f->name, kinds[n->kind], n->site ? n->site : "?", n->hint, rt_str(&t));
	r.expected = n->op;
	r.found = n->other;
	r.trace = (int)x->e->number;
	r.segment = (int)x->boundary->segment->number;
	jit_tell(x->f, n->kind == LO_NOTE_FUSION || n->kind == LO_NOTE_STORED ? RT_LOG_FUSION : RT_LOG_PLAN, &r);
	rt_text_free(&t);
}

/* ---- boundaries ---- */
const char *jit_way_around(int op)
{
	switch (op) {
	case JIT_TRUTH: return "tj_where() chooses without a boundary";
	case JIT_ITEM: return "keep the value as a 0-d tensor, or read it after the call";
	case JIT_NONZERO: case JIT_MASKED_SELECT: case JIT_UNIQUE: return "tj_where() keeps the size the same and needs no boundary";
	default: return "return the tensor in out[] and read it after the call";
	}
}

void jit_put_boundary(const jit_node *b, const jit_plan *p, rt_text *t)
{
	long long bytes = 0;
	if (b->op == JIT_RETURN) return;
	for (uint32_t i = 0; i < p->n; i++) bytes += p->value[i].layout->bytes;
	rt_putf(t, "%s ends segment %u: the pending ops run here, and %u values (%lld bytes) are stored for it and for later segments; %s",
	        jit_event_name(b->op), b->segment->number, p->n, bytes, jit_way_around(b->op));
}

/* ---- mixed precision ---- */
/* Reports, once for a function, that its narrow products cost as much as those of f32. Kept for tj_explain(). */
static void tell_widened(tj_fn *f, const jit_entry *e, const jit_node *b)
{
	const jit_node *n = b;
	const char *why = NULL;
	if (f->opts.backend || !atomic_load_explicit(&f->count.kernels, memory_order_relaxed) ||
	    atomic_load_explicit(&f->widened, memory_order_relaxed))
		return;
	while (n && !why) {
		const bool product = n->op == IR_matmul && n->mode & JIT_AUTOCAST && n->layout->device == TJ_CPU;
		why = product ? lo_widened((tj_dtype)n->layout->dtype, n->mode & IR_FAST) : NULL;
		if (!why) n = n->parent;
	}
	if (!why || atomic_exchange(&f->widened, true)) return;
	const char *dtype = tj_dtype_name((tj_dtype)n->layout->dtype);
	rt_text t = { 0 };
	rt_putf(&t, "%s: products in %s convert their operands to f32 as they are read: %s", f->name, dtype, why);
	tj_reason r = jit_new_reason(f->name, "autocast", n->site ? n->site : "?", why, rt_str(&t));
	r.event = (int)n->seq;
	r.trace = (int)e->number;
	r.segment = (int)b->segment->number;
	jit_note(f, RT_LOG_PLAN, &r);
	rt_text_free(&t);
}

void jit_tell_segment(tj_fn *f, const jit_entry *e, const jit_node *b, const jit_plan *p)
{
	const rt_log_to *l = &f->engine->rt.log;
	jit_log_guards(f, e, b);
	tell_widened(f, e, b);
	if (!f->opts.on_note && !rt_logs(l, RT_LOG_FUSION) && !rt_logs(l, RT_LOG_PLAN)) return;
	rt_text t = { 0 };
	rt_putf(&t, "%s: ", f->name);
	jit_put_boundary(b, p, &t);
	if (b->op != JIT_RETURN) {
		tj_reason r = jit_new_reason(f->name, "boundary", b->site ? b->site : "?", jit_way_around(b->op), rt_str(&t));
		r.event = (int)b->seq;
		r.trace = (int)e->number;
		r.segment = (int)b->segment->number;
		jit_tell(f, RT_LOG_PLAN, &r);
	}
	rt_text_free(&t);
	jit_each_decision(f, p, tell_decision, &(telling){ f, e, b });
}
