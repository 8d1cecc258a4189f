/* SPDX-License-Identifier: MIT */
/* Direct mode: a call under a key whose path was learned runs the plans of the path; the body is skipped.
 *
 *   same key (memo.c) -> path: run the plan -> a TRUTH: read its value, take that way -> ... -> the return: outputs, commit
 *
 * At a way that was not learned yet, or a division of numbers by zero in a callback of control flow, the call stops and the
 * body runs instead. That is safe since nothing is committed before the return. */
#include "jit/claim.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

typedef struct direct {
	tj_ctx *c;
	const tj_fn *fn;
	const char *site;
	tj_list in;
	const tj_scalar *scalars;
	jit_path *level[JIT_MAX_LEVELS];
	uint32_t n;              /* number of levels whose plan ran */
	uint64_t ordinal;
	bool alone;              /* no other context may commit */
	bool unseen;             /* the path does not go on: the body must run */
} direct;

/* ---- operands ---- */
static tj_tensor *number_of(const direct *d, jit_operand o)
{
	uint32_t i = o.from & 0xFFFFFFF;
	switch (o.from >> 28) {
	case JIT_ARG: return d->in[i];
	case JIT_SCALAR: return rt_number_f(d->scalars[i].f);
	case JIT_EXPR: return d->c->late.v[i];
	default: return o.number;
	}
}

static uint64_t bits_of(const direct *d, jit_operand o)
{
	switch (o.from >> 28) {
	case JIT_KEY: return d->c->rt.key;
	case JIT_ORDINAL: return d->ordinal + (o.from & 0xFFFFFFF);
	default: return rt_number_bits(number_of(d, o));
	}
}

static jit_zero_div zero_div(const direct *d, const jit_late_expr *e)
{
	if (d->fn->opts.int_div_zero == TJ_ZERO) return JIT_ZERO_DIV_0;
	return e->callback ? JIT_ZERO_DIV_LATER : JIT_ZERO_DIV_ERROR;
}

/* Computes the late numbers; an error of one (division by zero) fails the call. */
static bool compute_late(direct *d, const jit_path *p)
{
	tj_ctx *c = d->c;
	if (p->expr0 + p->nexpr > c->late.n && !rt_reserve(&c->late, p->expr0 + p->nexpr - c->late.n)) return false;
	for (uint32_t i = 0; i < p->nexpr; i++) {
		const jit_late_expr *e = &p->expr[i];
		tj_tensor *src[3];
		for (int k = 0; k < e->nsrc; k++) src[k] = number_of(d, e->src[k]);
		tj_tensor *r = jit_number_op(c, p->site, (ir_op)e->op, e->nsrc, src, zero_div(d, e));
		d->unseen |= !r;
		if (!r || !rt_is_number(r)) return false;
		c->late.v[p->expr0 + i] = r;
	}
	if (c->late.n < p->expr0 + p->nexpr) c->late.n = p->expr0 + p->nexpr;
	return true;
}

/* The tensor of an argument or a state variable. place: its index; state comes after the arguments. */
static inline tj_tensor *tensor_of(const direct *d, const jit_from *f, uint32_t *place)
{
	bool state = f->kind == JIT_FROM_STATE;
	*place = state ? (uint32_t)d->fn->opts.nin + f->index : f->index;
	return state ? *d->fn->state[f->index] : d->in[f->index];
}

static inline void fetch(const direct *d, const jit_from *f, const rt_layout **l, rt_buffer **buf, void **data)
{
	if (f->kind == JIT_FROM_VALUE) {
		const jit_path *p = d->level[f->seg];
		*l = p->plan->value[f->index].layout;
		*buf = p->buf[f->index];
		*data = p->data[f->index];
		return;
	}
	uint32_t place;
	tj_tensor *t = tensor_of(d, f, &place);
	const jit_taken *k = RT_LIKELY(t->kind != RT_CELL || d->alone)
	                             ? NULL
	                             : &d->c->taken.v[place]; /* the content taken at the start, even if others commit meanwhile */
	*l = t->layout;
	*buf = k ? k->buf : t->buf;
	*data = k ? k->data : t->data;
}

/* ---- running ---- */

/* The new content of a cell is there without a copy once p, the level that runs, has run. */
static bool is_made(const direct *d, const jit_path *p, const jit_from *f)
{
	const bool own = f->kind == JIT_FROM_VALUE && f->seg + 1u == d->n;
	const rt_out *o = own ? &p->plan->exec->out[f->index] : NULL;
	const rt_layout *l = own ? p->plan->value[f->index].layout : NULL;
	rt_buffer *b;
	void *data;
	if (own && o->same_ext < 0) return true;
	if (own) return !o->offset && jit_is_content(d->c, l, p->bound[o->same_ext].buf, p->bound[o->same_ext].data);
	fetch(d, f, &l, &b, &data);
	return jit_is_content(d->c, l, b, data);
}

/* The cells that values may overwrite. None where the call can still fail after the run: then the cells must be as they were. */
static rt_held *const *cells_to_overwrite(const direct *d, const jit_path *p)
{
	uint32_t place;
	if (!p->nassign || !d->alone || d->c->into) return NULL; /* into: a wrong size is found after the run */
	for (uint32_t k = 0; k < p->nassign; k++)
		if (!is_made(d, p, &p->assign[k].value)) return NULL;
	for (uint32_t i = 0; i < p->plan->n; i++)
		p->over[i] = p->assign_of[i] ? rt_held_of(tensor_of(d, &p->assign[p->assign_of[i] - 1].cell, &place)) : NULL;
	return p->over;
}

/* Runs the last level; values that only the caller keeps are computed in memory of the caller. */
static bool run_into(direct *d, jit_path *p, jit_inputs *in)
{
	tj_ctx *c = d->c;
	rt_buffer *b;
	void *data;
	bool ok = (in->into = rt_calloc((p->plan->n + 1) * sizeof *in->into)) != NULL;
	for (uint32_t i = 0; i < p->next; i++) fetch(d, &p->ext[i], &p->bound[i].layout, &b, &data);
	for (uint32_t i = 0; ok && p->plan->exec && i < p->nout; i++) {
		const jit_from *f = &p->out[i];
		bool own = f->kind == JIT_FROM_VALUE && f->seg + 1u == d->n;
		for (uint32_t k = 0; own && k < p->nassign; k++)
			own = p->assign[k].value.kind != JIT_FROM_VALUE || p->assign[k].value.seg != f->seg ||
			      p->assign[k].value.index != f->index;
		if (own) ok = jit_into_place(c, p->plan, in, f->index, (int)i, in->into);
	}
	if (ok) ok = jit_run_plan(c, d->site, p->plan, in, p->ptr, p->buf, p->data);
	else jit_error(c, d->site, TJ_ERR_NOMEM, "call", NULL, "out of memory");
	for (uint32_t i = 0; in->into && i < p->plan->n; i++) rt_buffer_unref(in->into[i], c->rt.allocator);
	rt_free(in->into);
	return ok;
}

static bool run_level(direct *d, jit_path *p)
{
	RT_DEFAULT_MODES;
	const rt_layout *l;
	void *data;
	if (p->nexpr && !compute_late(d, p)) return false;
	for (uint32_t i = 0; i < p->next; i++) {
		fetch(d, &p->ext[i], &l, &p->bound[i].buf, &data);
		p->bound[i].data = data;
	}
	if (p->late)
		for (uint32_t i = 0; i < p->nnum; i++)
			if (p->num[i].from != JIT_FROM(JIT_CONST, 0)) p->bits[i] = bits_of(d, p->num[i]);
	d->level[d->n++] = p;
	jit_inputs in = { .ext = p->bound,
		          .next = p->next,
		          .num = p->bits,
		          .over = cells_to_overwrite(d, p),
		          .owners = 1,
		          .boundary = p->boundary,
		          .stray = p->stray,
		          .nstray = p->nstray };
	if (RT_UNLIKELY(d->c->into != NULL) && !p->branches) return run_into(d, p, &in);
	return jit_run_plan(d->c, d->site, p->plan, &in, p->ptr, p->buf, p->data);
}

/* ---- the return ---- */
static tj_tensor *make_output(direct *d, const jit_path *p, uint32_t i)
{
	const jit_from *f = &p->out[i];
	const rt_layout *l;
	rt_buffer *b;
	void *data;
	if (f->kind == JIT_FROM_NUMBER) return number_of(d, p->out_num[i]);
	fetch(d, f, &l, &b, &data);
	if (f->last) d->level[f->seg]->buf[f->index] = NULL;
	else rt_buffer_ref(b);
	tj_tensor *h = jit_new_value(d->c, d->c->rt.scope, rt_layout_ref(l), b, data);
	uint32_t place;
	const tj_tensor *t = f->kind == JIT_FROM_VALUE ? NULL : tensor_of(d, f, &place);
	if (h && t && t->flags & RT_CONSTANT) {
		h->flags |= RT_CONSTANT;
		h->seg = t->seg;
	}
	return h;
}

/* The cell of an assign and its version when the call met it. */
static rt_held *written_cell(const direct *d, const jit_from *f, uint64_t *was)
{
	uint32_t place;
	tj_tensor *t = tensor_of(d, f, &place);
	*was = d->alone ? rt_held_of(t)->version : d->c->taken.v[place].version;
	return rt_held_of(t);
}

/* The new contents of the cells. NULL: the error is reported. */
static jit_write *new_contents(direct *d, const jit_path *p)
{
	tj_ctx *c = d->c;
	rt_err err;
	rt_no_err(&err);
	jit_write *w = rt_arena_alloc(&c->act.mem, (p->nassign + 1) * sizeof *w);
	uint32_t n = 0;
	for (; w && n < p->nassign; n++) {
		const rt_layout *l;
		rt_buffer *b;
		void *data;
		fetch(d, &p->assign[n].value, &l, &b, &data);
		w[n].cell = written_cell(d, &p->assign[n].cell, &w[n].was);
		if (!(w[n].buf = jit_content(c, l, b, data, &err))) break;
	}
	if (w && n == p->nassign && jit_undo_begin(c, w, n, d->alone, &err) == TJ_OK) return w;
	jit_commit_drop(c, w, n);
	rt_fail(&err, TJ_ERR_NOMEM, "commit", "no memory for a new value of a cell");
	jit_report(c, d->site, &err);
	return NULL;
}

static bool commit(direct *d, const jit_path *p, jit_write *w)
{
	rt_err err;
	rt_no_err(&err);
	if (jit_write_cells(d->c, w, p->nassign, d->alone, &err) != TJ_OK) jit_report(d->c, d->site, &err);
	jit_undo_end(d->c, w, p->nassign);
	return err.code == TJ_OK;
}

static bool give(direct *d, const jit_path *p, tj_tensor **out)
{
	tj_tensor *few[4], **made = p->nout <= RT_COUNT(few) ? few : rt_arena_alloc(&d->c->act.mem, p->nout * sizeof *made);
	for (uint32_t i = 0; made && i < p->nout; i++)
		if (!(made[i] = make_output(d, p, i))) made = NULL;
	if (!made) jit_error(d->c, d->site, TJ_ERR_NOMEM, "call", NULL, "out of memory");
	jit_write *w = NULL;
	if (!made || (p->nassign && !(w = new_contents(d, p)))) return false;
	if (RT_UNLIKELY(d->c->into != NULL) && !jit_into_settle(d->c, d->site, d->fn, d->c->rt.scope, made))
		return jit_commit_drop(d->c, w, p->nassign), false;
	if (w && !commit(d, p, w)) return false;
	for (uint32_t i = 0; i < p->nout; i++) out[i] = made[i];
	return true;
}

static void drop_values(const direct *d)
{
	for (uint32_t k = 0; k < d->n; k++) {
		const jit_path *p = d->level[k];
		for (uint32_t i = 0; i < p->plan->n; i++)
			if (p->buf[i]) rt_buffer_unref(p->buf[i], d->c->rt.allocator);
	}
	if (!d->alone && !d->fn->nfreeze) jit_give_back(d->c); /* frozen ones stay: the body may run now, and must see the same contents */
}

/* With frozen cells: the key was made from taken contents, and the call uses these. False: another context was made since then, and cells
 * that were not taken may be of a later commit. */
static bool begin_frozen(direct *d)
{
	tj_ctx *c = d->c;
	d->alone = c->taken_alone && jit_alone_begin(c);
	if (!c->taken_alone || (d->alone && jit_taken_stay(c))) return true;
	if (d->alone) jit_alone_end(c);
	return false;
}

/* If no other context exists, the call uses cells in place. Else it takes all of them as of one commit. */
static bool begin(direct *d)
{
	tj_ctx *c = d->c;
	uint32_t nin = (uint32_t)d->fn->opts.nin, n = nin + d->fn->nstate;
	if (d->fn->nfreeze) return begin_frozen(d);
	d->alone = jit_alone_begin(c);
	if (RT_LIKELY(d->alone)) return true;
	if (!rt_reserve(&c->taken, n)) return false;
	c->taken.n = n;
	for (uint32_t i = 0; i < n; i++) {
		tj_tensor *t = i < nin ? d->in[i] : *d->fn->state[i - nin];
		c->taken.v[i] = (jit_taken){ .cell = !rt_is_number(t) && t->kind == RT_CELL ? rt_held_of(t) : NULL };
	}
	jit_take_cells(c, c->taken.v, n);
	return true;
}

static void end(direct *d)
{
	drop_values(d);
	if (d->alone) jit_alone_end(d->c);
	if (d->c->act.mem.used) rt_arena_reset(&d->c->act.mem);
}

/* False: the error is reported. */
static bool bit_of(const direct *d, const jit_from *f, bool *bit)
{
	RT_DEFAULT_MODES;
	rt_err err = { 0 };
	uint64_t element;
	const rt_layout *l;
	rt_buffer *b;
	void *data;
	fetch(d, f, &l, &b, &data);
	if (RT_UNLIKELY(l->device != TJ_CPU)) {
		if (rt_tensor_read(d->c->rt.pool, l, b, data, &element, &err) != TJ_OK) return jit_report(d->c, d->site, &err), false;
		data = &element;
	}
	*bit = ir_cast_scalar(ir_load((tj_dtype)l->dtype, data), (tj_dtype)l->dtype, TJ_BOOL).i != 0;
	return true;
}

/* Runs the levels of the path; returns the last one. NULL: an error, or the path does not go on (d->unseen). */
static jit_path *run_path(direct *d, jit_path *p)
{
	while (run_level(d, p)) {
		if (!p->branches) return p;
		bool bit;
		if (!bit_of(d, &p->truth, &bit)) return NULL;
		p = p->way[bit];
		if ((d->unseen = !p)) return NULL;
	}
	return NULL;
}

bool jit_direct(tj_ctx *c, jit_memo *s, jit_hit *h, const char *site, tj_list in, const tj_scalar *scalars, tj_tensor **out,
                tj_status *status)
{
	direct d; /* set field by field: clearing all levels would take as long as a small kernel */
	d.c = c;
	d.fn = s->fn;
	d.site = site;
	d.in = in;
	d.scalars = scalars;
	d.n = 0;
	d.unseen = false;
	d.ordinal = c->rt.ordinal;
	if (!begin(&d)) return false;
	atomic_store_explicit(&s->busy, true, memory_order_relaxed);
	jit_path *last = run_path(&d, h->path);
	bool ok = last && give(&d, last, out);
	if (ok) c->rt.ordinal = d.ordinal + last->draws;
	end(&d);
	atomic_store_explicit(&s->busy, false, memory_order_relaxed);
	if (d.unseen) return false;
	JIT_TICK(s, direct);
	if (ok) JIT_TICK(h, hits);
	else {
		JIT_TICK(s, faults);
		JIT_COUNT(s->fn, failures);
	}
	*status = ok ? TJ_OK : c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	atomic_store_explicit(&h->entry->stamp, ++c->rt.serial, memory_order_relaxed);
	return true;
}
