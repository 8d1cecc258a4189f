/* SPDX-License-Identifier: MIT */
/* From a path of the trace to a graph, from the graph to an executable. */
#include "jit/earlier.h"
#include "jit/claim.h"
#include "jit/compile.h"
#include "jit/handle.h"
#include "jit/note.h"
#include "jit/profiling.h"
#include "jit/report.h"
#include "runtime/bytes.h"

#include <stdlib.h>

/* ---- the graph of a path ---- */
typedef jit_builder builder;

enum { FOLD_BYTES = 4096 };  /* bytes; larger constants stay operands */

static void collect(builder *b, jit_node *boundary)
{
	for (jit_node *n = boundary; n->parent; n = n->parent) b->path[n->seq] = n;
}

/* A constant may be folded, since a guard checks its content. */
static ir_ref constant(builder *b, const jit_node *n, uint32_t slot, const ir_meta *m)
{
	rt_err ignored = { 0 };
	const rt_layout *l = n->met[slot - n->next].layout;
	const jit_bound *x = b->bound ? &b->bound[slot] : NULL;
	if (!x || !n->met[slot - n->next].content || l->bytes > FOLD_BYTES) return IR_NONE;
	jit_from declared;
	if (b->whole && jit_from_outside(b->whole, x, &declared)) return IR_NONE;
	void *bytes = rt_arena_alloc(b->mem, (size_t)l->bytes + 1);
	if (!bytes || !x->data || rt_tensor_read(b->pool, l, x->buf, x->data, bytes, &ignored) != TJ_OK) return IR_NONE;
	return ir_data_(&b->g, m, bytes, n->site);
}

static ir_ref input(builder *b, const jit_node *n, uint32_t slot)
{
	if (slot < n->next || b->ext[slot] != IR_NONE) return b->ext[slot];
	if (b->nparts && b->link[slot] && (b->ext[slot] = jit_part_value(b, slot)) != IR_NONE) return b->ext[slot];
	const jit_ext *met = &n->met[slot - n->next];
	const rt_layout *l = met->layout;
	const ir_meta m = jit_layout_meta(l);
	ir_ref r = constant(b, n, slot, &m);
	if (b->bound && met->content) b->content[slot] = (lo_content){ .id = met->content, .data = b->bound[slot].data, .cell = met->cell };
	if (r == IR_NONE) r = ir_input(&b->g, (int)slot, &m, l->contiguous ? NULL : rt_strides(l), n->site);
	return b->ext[slot] = b->wanted && b->wanted_ext[slot] ? ir_mark(&b->g, r, -1 - (int64_t)slot) : r;
}

static ir_ref met_input(builder *b, uint32_t slot) { return input(b, b->met[slot], slot); }

/* The node of an operand, in the graph of *home. */
static ir_ref home_of(builder *b, const jit_node *n, jit_ref r, const ir_frame **home)
{
	const uint32_t i = JIT_IDX(r);
	*home = JIT_KIND(r) == JIT_EXT ? &b->in.top : b->in.at;
	if (b->part) return jit_part_operand(b, n, r, home);
	switch (JIT_KIND(r)) {
	case JIT_EV: return *home = b->home[i], b->event[i];
	case JIT_EXT: return input(b, n, i);
	case JIT_FLOAT: return ir_num_(b->in.at->g, TJ_F64, (int)i, n->site);
	default: return ir_num_(b->in.at->g, TJ_I64, (int)i, n->site);
	}
}

/* The node of an operand, in the graph of b->in.at. */
static ir_ref operand_of(builder *b, const jit_node *n, jit_ref r)
{
	const ir_frame *home;
	const ir_ref x = home_of(b, n, r, &home);
	return ir_build_use(&b->in, home, x);
}

/* The operands of an event, and room for two more. */
static ir_ref *operands_of(builder *b, const jit_node *n)
{
	ir_ref *src = rt_arena_alloc(b->mem, (n->nsrc + 2u) * sizeof *src);
	for (int k = 0; src && k < n->nsrc; k++) src[k] = operand_of(b, n, n->src[k]);
	return src;
}

/* Casts the floats of an event in a function with .autocast. */
static bool autocast(builder *b, const jit_node *n, int nsrc, ir_ref *src)
{
	ir_graph *g = b->in.at->g;
	if (!(n->mode & JIT_AUTOCAST)) return true;
	ir_meta *meta = rt_arena_alloc(b->mem, ((size_t)nsrc + 1) * sizeof *meta);
	if (!meta) return false;
	for (int k = 0; k < nsrc; k++) {
		if (src[k] == IR_NONE) return false;
		meta[k] = ir_meta_of(g, src[k]);
	}
	const tj_dtype to = jit_autocast(n->mode, n->op, nsrc, meta);
	for (int k = 0; k < nsrc; k++)
		if (ir_autocasts(&meta[k], to)) src[k] = ir_cast(g, src[k], to, n->site);
	return true;
}

static bool emit_event(builder *b, const jit_node *n)
{
	int nsrc = n->nsrc;
	ir_ref *src = operands_of(b, n);
	if (!src) return false;
	if (ir_ops[n->op].flags & IR_RNG) {
		const int first = (int)(b->part ? b->part->number[n->nnum] : n->nnum);
		src[nsrc++] = ir_num_(b->in.at->g, TJ_I64, first, n->site);
		src[nsrc++] = ir_num_(b->in.at->g, TJ_I64, first + 1, n->site);
	}
	b->in.at->g->mode = n->mode & (IR_MODES - 1);
	if (!autocast(b, n, nsrc, src)) return false;
	b->event[n->seq] = ir_emit(b->in.at->g, (ir_op)n->op, nsrc, src, n->nattr, n->attr, n->site);
	if (ir_ops[n->op].nresult > 1) {
		b->made = b->event[n->seq];
		b->grad = NULL;
	}
	if (n->layout && b->event[n->seq] != IR_NONE && ir_at(b->in.at->g, b->event[n->seq])->device != n->layout->device)
		b->event[n->seq] = ir_to(b->in.at->g, b->event[n->seq], n->layout->device, n->site);
	return b->event[n->seq] != IR_NONE;
}

/* In a callback: src[first..end) are operands from outside, or its own ones. False, with an error, if the value depends on one of them in
 * another way, too. */
static bool whole(builder *b, const jit_node *n, const ir_ref *src, int first, int end)
{
	for (int k = first; k < end && (b->in.at->outer || b->open); k++) {
		const ir_frame *home;
		const ir_ref w = home_of(b, n, n->src[k], &home);
		if (src[0] == IR_NONE || src[k] == IR_NONE || w == IR_NONE) return false;
		if (ir_build_whole(&b->in, src[0], home, w, src[k]) && !jit_by_example(b, src[0], src[k])) continue;
		rt_err *err = &b->in.at->g->err;
		rt_fail(err, TJ_ERR_STATE, n->op == JIT_JVP ? "jvp" : "grad",
		        "tensor %d of those asked for is from outside of the callback, and the value depends on it by a carry, by an example or by "
		        "another value from outside, too",
		        k - first);
		rt_hint(err,
		        "ask outside of the callback; or pass the tensor to the callback, as a carry or operand; or let the other values go through "
		        "tj_stop_gradient()");
		err->site = n->site;
		return false;
	}
	return true;
}

/* A GRAD: expands into the nodes of the gradients. */
static bool emit_grad(builder *b, const jit_node *n)
{
	ir_ref *src = operands_of(b, n), cotangent = IR_NONE;
	const int first = n->attr[0] ? 2 : 1;
	b->event[n->seq] = IR_NONE;
	b->grad = rt_arena_alloc(b->mem, n->nsrc * sizeof *b->grad);
	if (!src || !b->grad || !whole(b, n, src, first, n->nsrc)) return false;
	if (n->attr[0]) cotangent = src[1];
	const ir_grad_ask q = {
		.y = src[0], .cotangent = cotangent, .n = n->nsrc - first, .wrt = src + first, .zeros = n->attr[1], .site = n->site
	};
	return ir_grad(b->in.at->g, &q, b->grad);
}

/* A JVP: expands into the nodes of the derivative. */
static bool emit_jvp(builder *b, const jit_node *n)
{
	const int count = (n->nsrc - 1) / 2;
	ir_ref *src = operands_of(b, n);
	b->event[n->seq] = IR_NONE;
	b->grad = rt_arena_alloc(b->mem, sizeof *b->grad);
	if (!src || !b->grad || !whole(b, n, src, 1, 1 + count)) return false;
	const ir_grad_ask q = { .y = src[0], .cotangent = IR_NONE, .n = count, .wrt = src + 1, .zeros = n->attr[0], .site = n->site };
	return ir_jvp(b->in.at->g, &q, src + 1 + count, b->grad);
}

/* An event that is no op computes nothing, but it may be the first to use an external. */
static void meet_externals(builder *b, const jit_node *n)
{
	for (int k = 0; k < n->nsrc; k++)
		if (JIT_KIND(n->src[k]) == JIT_EXT) input(b, n, JIT_IDX(n->src[k]));
	b->event[n->seq] = IR_NONE;
}

static bool emit(builder *b, const jit_node *n)
{
	if (jit_is_flow_event(n->op)) {
		ir_ref *src = operands_of(b, n);
		return src && jit_flow_event(b, n, src);
	}
	if (n->op == JIT_GRAD) return emit_grad(b, n);
	if (n->op == JIT_JVP) return emit_jvp(b, n);
	if (n->op < IR_OPS) return emit_event(b, n);
	if (!b->part) meet_externals(b, n);
	return true;
}

/* Notes what the GRADs and JVPs of the path ask for. */
static bool find_wanted(builder *b, uint32_t n, uint32_t next)
{
	for (uint32_t i = 0; i < n; i++) {
		const jit_node *x = b->path[i];
		int k, end;
		b->marked |= x->op == JIT_VMAP || x->op == JIT_CUSTOM || x->op == JIT_CHECKPOINT || x->op == JIT_JVP || x->op == JIT_GRAD;
		if (!jit_asks(x, &k, &end)) continue;
		b->request = x->site ? x->site : "?";
		if (!b->wanted) {
			b->wanted = rt_arena_alloc(b->mem, n);
			b->wanted_ext = rt_arena_alloc(b->mem, next + 1u);
			if (!b->wanted || !b->wanted_ext) return false;
			memset(b->wanted, 0, n);
			memset(b->wanted_ext, 0, next + 1u);
		}
		for (; k < end; k++) (JIT_KIND(x->src[k]) == JIT_EV ? b->wanted : b->wanted_ext)[JIT_IDX(x->src[k])] = true;
	}
	return true;
}

/* Marks have done their work once all gradients are there: leaves them out, so that what they kept apart folds and merges. */
static bool drop_marks(builder *b)
{
	ir_graph plain;
	if (!b->marked) return true;
	ir_graph_init(&plain);
	plain.off = b->g.off;
	bool ok = b->nparts ? jit_parts_cut(b, &plain) : ir_pass_dce(&b->g, &plain, NULL, &b->g.err) == TJ_OK;
	if (ok && !ir_drop_records(&plain)) ok = false, b->g.err = plain.err;
	if (!ok) {
		ir_graph_free(&plain);
		return false;
	}
	ir_graph_free(&b->g);
	b->g = plain;
	return true;
}

static bool build_path(builder *b, jit_node *boundary, rt_arena *mem)
{
	uint32_t n = boundary->seq + 1, next = boundary->next + boundary->nmet;
	b->mem = mem;
	b->input = met_input;
	b->path = rt_arena_alloc(mem, n * sizeof *b->path);
	b->event = rt_arena_alloc(mem, n * sizeof *b->event);
	b->ext = rt_arena_alloc(mem, (next + 1) * sizeof *b->ext);
	b->content = rt_arena_alloc(mem, (next + 1) * sizeof *b->content);
	b->home = rt_arena_alloc(mem, n * sizeof *b->home);
	ir_build_begin(&b->in, &b->g);
	if (!b->path || !b->event || !b->ext || !b->content || !b->home) return false;
	memset(b->content, 0, (next + 1) * sizeof *b->content);
	b->nslot = next;
	memset(b->ext, 0xFF, (next + 1) * sizeof *b->ext);
	collect(b, boundary);
	if (!find_wanted(b, n, next) || !jit_parts_find(b, n, next) || !jit_parts_emit(b, emit)) return false;
	for (uint32_t i = 0; i < n; i++) {
		const jit_node *x = b->path[i];
		b->home[i] = b->in.at;
		if (!emit(b, x)) return false;
		if (b->wanted && b->wanted[i]) b->event[i] = ir_mark(b->in.at->g, b->event[i], i);
	}
	return true;
}

/* The node of a value of the segment: an event, or an inner value. */
static ir_ref value_of(builder *b, uint32_t seq, const jit_inner *inner)
{
	if (!(seq & JIT_INNER)) return ir_build_use(&b->in, b->home[seq], b->event[seq]);
	return ir_inner(&b->g, ir_build_use(&b->in, b->home[inner->seq], b->event[inner->seq]), inner->step);
}

static bool build_graph(builder *b, jit_node *boundary, rt_arena *mem)
{
	bool ok = build_path(b, boundary, mem);
	if (!ok && b->in.at && b->g.err.code == TJ_OK) b->g.err = *ir_build_error(&b->in);
	return ok;
}

/* ---- the plan ---- */
static int by_seq(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	return a < b ? -1 : a > b;
}

/* The layout of output i: row-major, or with the strides of a view of an external. */
static const rt_layout *out_layout(rt_layouts *t, const ir_graph *g, const rt_exec *x, uint32_t i)
{
	ir_meta m = ir_meta_of(g, g->out.v[i]);
	const rt_out *o = &x->out[i];
	return rt_layout_get(t, (tj_dtype)m.dtype, m.device, m.rank, m.dim, o->same_ext >= 0 ? o->stride : NULL);
}

static bool fill_plan(jit_plan *p, tj_fn *f, const ir_graph *g, const jit_segment *s, const uint32_t *seq)
{
	p->value = rt_calloc((p->n + 1) * sizeof *p->value);
	if (!p->value) return false;
	for (uint32_t i = 0; i < p->n; i++) {
		p->value[i].seq = seq[i];
		if (seq[i] & JIT_INNER) p->value[i].inner = s->inner.v[seq[i] & ~JIT_INNER];
		p->value[i].inner.layout = NULL;
		if (!(p->value[i].layout = out_layout(&f->engine->rt.layouts, g, p->exec, i))) return false;
	}
	return true;
}

static void count(tj_fn *f, const rt_exec *x)
{
	JIT_COUNT(f, plans);
	atomic_fetch_add(&f->count.kernels, x->kernels);
	atomic_fetch_add(&f->count.compiles, x->compiled != 0);
	atomic_fetch_add(&f->count.compiled, x->compiled);
	atomic_fetch_add(&f->count.loaded, x->loaded);
	atomic_fetch_add(&f->count.shared, x->kernels - x->compiled - x->loaded);
	atomic_fetch_add(&f->count.library_calls, x->library_calls);
	atomic_fetch_add(&f->count.eval_steps, x->eval_steps);
	atomic_fetch_add(&f->count.code_bytes, x->code_bytes);
	atomic_store(&f->count.lower_ms, atomic_load(&f->count.lower_ms) + x->lower_ms);
	atomic_store(&f->count.codegen_ms, atomic_load(&f->count.codegen_ms) + x->codegen_ms);
}

static bool remember_residuals(const builder *b, jit_plan *p)
{
	if (!b->residual.n) return true;
	p->residual = rt_alloc(b->residual.n * sizeof *p->residual);
	if (!p->residual) return false;
	memcpy(p->residual, b->residual.v, b->residual.n * sizeof *p->residual);
	p->nresidual = b->residual.n;
	return true;
}

/* For dumps, which find the copies of constants by their ids. */
static bool remember_content(const builder *b, jit_plan *p)
{
	p->content = rt_calloc((b->nslot + 1) * sizeof *p->content);
	if (!p->content) return false;
	p->ncontent = b->nslot;
	for (uint32_t i = 0; i < b->nslot; i++) p->content[i].id = b->content[i].id;
	return true;
}

/* Finds the cells that values may be computed in: those to which they are assigned. */
static bool find_cells(const jit_act *a, const jit_node *boundary, const uint32_t *seq, jit_plan *p)
{
	bool *again = rt_calloc(boundary->ncell + 1u); /* by cell: assigned again later in the segment */
	p->into = rt_alloc((p->n + 1) * sizeof *p->into);
	for (uint32_t i = 0; p->into && i < p->n; i++) p->into[i] = -1;
	for (const jit_node *n = boundary; again && p->into && n->parent; n = n->parent) {
		if (n->op != JIT_ASSIGN) continue;
		const uint32_t cell = JIT_IDX(n->src[1]), value = JIT_IDX(n->src[0]);
		const uint32_t *at = JIT_KIND(n->src[0]) == JIT_EV && !again[cell] ? bsearch(&value, seq, p->n, sizeof *seq, by_seq) : NULL;
		if (at) p->into[at - seq] = jit_find_ext(a, &a->cell.v[cell]->t);
		again[cell] = true;
	}
	const bool ok = again && p->into;
	rt_free(again);
	return ok;
}

static bool lower(builder *b, tj_fn *f, jit_plan *p, const jit_segment *s, const uint32_t *seq, const lo_moving *moving, uint32_t *room,
                  rt_err *err)
{
	lo_opts o;
	jit_lower_opts(f, f->engine, p->settings, &o);
	o.family = f->family;
	o.moving = *moving;
	o.content = b->content;
	o.ncontent = b->nslot;
	o.run = b->run;
	o.shelf = f->shelf;
	o.into = p->into;
	o.room = room ? *room : 0;
	for (uint32_t i = 0; i < p->n; i++)
		if (!ir_ret(&b->g, value_of(b, seq[i], seq[i] & JIT_INNER ? &s->inner.v[seq[i] & ~JIT_INNER] : NULL))) return false;
	if (!drop_marks(b) || !remember_residuals(b, p)) return false;
	const jit_derived grads = { b->request, b->nparts != 0 };
	if (!jit_run_user(f, &grads, &b->g, &p->exec, err)) return false;
	const rt_cpu was = rt_cpu_as(f->cpu);
	lo_family *own = f->program && f->family ? lo_family_new() : NULL; /* what code a plan gets must not depend on plans before it */
	if (own) o.family = own;
	const bool lowered = p->exec || jit_lower(f->engine, &b->g, &o, &p->exec, err) == TJ_OK;
	rt_cpu_as(was);
	lo_family_free(own);
	if (!lowered) return false;
	if (room) *room = (uint32_t)p->exec->room;
	if (!remember_content(b, p)) return false;
	return fill_plan(p, f, &b->g, s, seq);
}

bool jit_graph(ir_graph *g, jit_node *boundary, const jit_plan *p)
{
	builder b = { .known = p->residual, .nknown = p->nresidual };
	rt_arena mem = { 0 };
	ir_graph_init(&b.g);
	bool ok = build_graph(&b, boundary, &mem);
	for (uint32_t i = 0; ok && i < p->n; i++) ok = ir_ret(&b.g, value_of(&b, p->value[i].seq, &p->value[i].inner));
	ok = ok && drop_marks(&b);
	ir_build_end(&b.in);
	if (ok && b.residual.n > p->nresidual) { /* without the contents of constants it reads more than the plan does */
		ir_graph_free(&b.g);
		ir_graph_init(&b.g);
		ir_graph lowered;
		ir_unpacked(p->graph, &lowered);
		ok = ir_pass_dce(&lowered, &b.g, NULL, &b.g.err) == TJ_OK;
	}
	rt_vec_free(&b.residual);
	*g = b.g;
	rt_arena_free(&mem);
	return ok;
}

/* Adds the new contents of the cells that the path assigns: by cell, the last assign. */
static bool ret_assigned(builder *b, uint32_t n, uint32_t ncell, uint32_t *assigned, uint32_t *nassigned)
{
	const jit_node **last = rt_arena_alloc(b->mem, (ncell + 1) * sizeof *last);
	if (!last) return false;
	memset(last, 0, (ncell + 1) * sizeof *last);
	for (uint32_t i = 0; i < n; i++)
		if (b->path[i]->op == JIT_ASSIGN) last[JIT_IDX(b->path[i]->src[1])] = b->path[i];
	for (uint32_t i = 0; i < ncell; i++) {
		if (!last[i]) continue;
		assigned[(*nassigned)++] = i;
		if (!ir_ret(&b->g, operand_of(b, last[i], last[i]->src[0]))) return false;
	}
	return true;
}

bool jit_graph_of_call(ir_graph *g, jit_act *a, jit_node *end, uint32_t *assigned, uint32_t *nassigned, rt_err *err)
{
	builder b = { .bound = a->ext.v, .pool = a->ctx->rt.pool, .whole = a };
	rt_arena mem = { 0 };
	ir_graph_init(&b.g);
	*nassigned = 0;
	bool ok = build_graph(&b, end, &mem);
	for (int k = 0; ok && k < end->nsrc; k++) ok = ir_ret(&b.g, operand_of(&b, end, end->src[k]));
	ok = ok && ret_assigned(&b, end->seq, end->ncell, assigned, nassigned) && drop_marks(&b);
	if (!ok && b.g.err.code != TJ_OK) *err = b.g.err;
	if (!ok) rt_fail(err, TJ_ERR_NOMEM, "graph", "out of memory");
	ir_build_end(&b.in);
	rt_vec_free(&b.residual);
	*g = b.g;
	rt_arena_free(&mem);
	return ok;
}

bool jit_inner_layout(const jit_act *a, jit_node *boundary, const jit_inner *v, const rt_layout **out, rt_err *err)
{
	builder b = { 0 };
	rt_arena mem = { 0 };
	ir_graph_init(&b.g);
	bool ok = build_graph(&b, boundary, &mem);
	ir_ref r = ok ? value_of(&b, JIT_INNER, v) : IR_NONE;
	const ir_meta m = r == IR_NONE ? (ir_meta){ 0 } : ir_meta_of(&b.g, r);
	*out = r == IR_NONE ? NULL : rt_layout_get(&a->ctx->engine->rt.layouts, (tj_dtype)m.dtype, m.device, m.rank, m.dim, NULL);
	if (!*out && b.g.err.code != TJ_OK) *err = b.g.err;
	if (!*out) rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory");
	ir_build_end(&b.in);
	ir_graph_free(&b.g);
	rt_vec_free(&b.residual);
	rt_arena_free(&mem);
	return *out != NULL;
}

/* The bytes of a plan, with those of the code that nothing else uses. */
static size_t bytes_of(const tj_fn *f, const jit_plan *p)
{
	return sizeof *p + p->n * sizeof *p->value + ir_packed_bytes(p->graph) + p->exec->bytes + (f->family ? 0 : p->exec->code_bytes);
}

jit_plan *jit_build(const jit_act *a, jit_node *boundary, const uint32_t *want, uint32_t nwant, const jit_bound *ext, rt_err *err)
{
	tj_fn *f = a->fn;
	const double begin = rt_now_ms();
	jit_compiling telling;
	builder b = { .bound = ext, .pool = a->ctx->rt.pool, .run = &a->ctx->rt.run };
	rt_arena mem = { 0 };
	jit_compile_begin(a->ctx, &telling);
	jit_plan *p = rt_calloc(sizeof *p);
	uint32_t *seq = rt_arena_alloc(&mem, (nwant + 1) * sizeof *seq);
	bool ok = p && seq;
	if (p) atomic_init(&p->refs, 1);
	if (p) p->settings = a->ctx->settings;
	if (p) p->fn = f->name;
	if (ok && nwant) {
		ir_graph_init(&b.g);
		memcpy(seq, want, nwant * sizeof *seq);
		qsort(seq, nwant, sizeof *seq, by_seq);
		for (uint32_t i = 0; i < nwant; i++)
			if (!i || seq[i] != seq[i - 1]) seq[p->n++] = seq[i];
		lo_moving moving = jit_moving(a, ext, boundary->next + boundary->nmet, &mem);
		jit_general *g = a->entry->general;
		uint32_t *room = boundary->segment->number < RT_COUNT(g->room) ? &g->room[boundary->segment->number] : NULL;
		ok = (ext != a->ext.v || find_cells(a, boundary, seq, p)) && build_graph(&b, boundary, &mem) &&
		     lower(&b, f, p, boundary->segment, seq, &moving, room, err);
		if (!ok && b.g.err.code != TJ_OK && err->code == TJ_OK) *err = b.g.err;
		ok = ok && (p->graph = ir_pack(&b.g));
		if (!ok) ir_graph_free(&b.g);
	}
	if (ok && p->exec) {
		p->exec->lower_ms = rt_now_ms() - begin - p->exec->codegen_ms; /* with the graph and the passes */
		count(f, p->exec);
		jit_charge(a->entry, bytes_of(f, p));
		jit_log_plan(f, a->entry, boundary, p);
		jit_report_plan(f, p);
	}
	if (!ok) {
		rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory");
		jit_plan_unref(p);
		p = NULL;
	}
	ir_build_end(&b.in);
	rt_vec_free(&b.residual);
	rt_arena_free(&mem);
	jit_compile_end(&telling);
	return p;
}
