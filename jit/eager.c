/* SPDX-License-Identifier: MIT */
/* Ops outside compiled functions: each is lowered as a graph of one op. The evaluator does the first runs of an op; an op
 * that comes again is compiled with its sizes as arguments of the code, so that other sizes share it. */
#include "jit/claim.h"
#include "jit/compile.h"
#include "jit/handle.h"
#include "jit/outside.h"
#include "jit/profiling.h"
#include "runtime/bytes.h"
#include "runtime/site.h"

enum { COMPILE_AT = 3, SWEEP_AT = 2048 };

typedef struct unit { /* an op on operands of given layouts */
	uint32_t uses;
	rt_exec *exec;          /* of the evaluator, later the compiled one; each run holds its own reference */
	bool compiled, audited;
	const rt_layout *layout[IR_MOST_RESULTS]; /* of each output of exec */
	uint64_t stamp;
	const uint32_t *key;     /* in the table */
} unit;

struct jit_eager {
	pthread_mutex_t lock;
	gd_table table;
	rt_vec(unit *) unit;
	uint64_t clock, sweep;
	lo_family *family;
};

typedef struct asked {  /* an op as the user called it */
	const char *site;
	ir_op op;
	uint32_t want;          /* a bit for each result that is an output */
	int nsrc, nattr;
	tj_tensor *const *src;
	const int64_t *attr;
} asked;

/* exec, layout: references. audit: compare the results */
typedef struct taken { rt_exec *exec; const rt_layout *layout[IR_MOST_RESULTS]; bool audit; } taken;

/* ---- the table ---- */
static struct jit_eager *table_of(jit_engine *e)
{
	rt_lock(&e->rt.lock);
	if (!e->eager && (e->eager = rt_calloc(sizeof *e->eager))) {
		pthread_mutex_init(&e->eager->lock, NULL);
		e->eager->family = lo_family_new(); /* without it each size has code of its own */
	}
	rt_unlock(&e->rt.lock);
	return e->eager;
}

static void drop_layouts(const rt_layout **l)
{
	for (int i = 0; i < IR_MOST_RESULTS; i++) {
		rt_layout_unref(l[i]);
		l[i] = NULL;
	}
}

static void drop(unit *u)
{
	if (u->exec) rt_exec_unref(u->exec);
	drop_layouts(u->layout);
	rt_free(u);
}

void jit_eager_free(struct jit_eager *t)
{
	if (!t) return;
	for (uint32_t i = 0; i < t->unit.n; i++) drop(t->unit.v[i]);
	rt_vec_free(&t->unit);
	gd_table_free(&t->table);
	lo_family_free(t->family);
	pthread_mutex_destroy(&t->lock);
	rt_free(t);
}

/* Drops the units that were not used since the last sweep. */
static void sweep(struct jit_eager *t)
{
	if (t->unit.n < SWEEP_AT) return;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < t->unit.n; i++) {
		unit *u = t->unit.v[i];
		if (u->stamp > t->sweep && kept < SWEEP_AT / 2) t->unit.v[kept++] = u;
		else {
			gd_remove(&t->table, u->key);
			drop(u);
		}
	}
	t->unit.n = kept;
	t->sweep = t->clock;
}

static uint32_t make_key(rt_arena *mem, const asked *q, uint32_t settings, uint32_t **out)
{
	uint32_t n = 3 + 2 * (uint32_t)q->nattr + 4 * (uint32_t)q->nsrc, *w = *out = rt_arena_alloc(mem, n * sizeof *w);
	if (!w) return 0;
	*w++ = (uint32_t)q->op | q->want << 16;
	*w++ = (uint32_t)q->nattr;
	*w++ = settings;
	if (q->nattr) memcpy(w, q->attr, (size_t)q->nattr * sizeof *q->attr);
	w += 2 * q->nattr;
	for (int k = 0; k < q->nsrc; k++, w += 4) {
		bool number = rt_is_number(q->src[k]);
		w[0] = number ? (rt_is_int_number(q->src[k]) ? GD_INT : GD_FLOAT) : GD_VALUE;
		w[1] = number ? 0 : q->src[k]->layout->id;
	}
	return n;
}

/* ---- the one-op graph ---- */
static bool of_numbers(const asked *q)
{
	for (int k = 0; k < q->nsrc; k++)
		if (!rt_is_number(q->src[k])) return false;
	return true;
}

static bool emit_op(ir_graph *g, const asked *q, int device, rt_arena *mem)
{
	ir_ref *in = rt_arena_alloc(mem, ((size_t)q->nsrc + 2) * sizeof *in);
	if (!in) return false;
	for (int k = 0; k < q->nsrc; k++) {
		ir_meta m = jit_meta(q->src[k]);
		const rt_layout *l = rt_is_number(q->src[k]) ? NULL : q->src[k]->layout;
		in[k] = l ? ir_input(g, k, &m, l->contiguous ? NULL : rt_strides(l), q->site) : ir_num_(g, (tj_dtype)m.dtype, k, q->site);
	}
	if (ir_ops[q->op].flags & IR_RNG)
		for (int k = 0; k < 2; k++) in[q->nsrc + k] = ir_num_(g, TJ_I64, q->nsrc + k, q->site);
	ir_ref r = ir_emit(g, q->op, q->nsrc + (ir_ops[q->op].flags & IR_RNG ? 2 : 0), in, q->nattr, q->attr, q->site);
	if (r != IR_NONE && q->op != IR_to && !ir_is_tuple(ir_at(g, r)) && ir_at(g, r)->device != device && of_numbers(q))
		r = ir_to(g, r, device, q->site);
	if (r == IR_NONE || ir_ops[q->op].nresult == 1) return r != IR_NONE && ir_ret(g, r);
	for (int i = 0; i < ir_ops[q->op].nresult; i++)
		if (q->want >> i & 1) {
			ir_ref one = ir_get(g, r, i, q->site);
			if (one != IR_NONE && of_numbers(q)) one = ir_to(g, one, device, q->site);
			if (!ir_ret(g, one)) return false;
		}
	return true;
}

static bool layouts_of(tj_ctx *c, const ir_graph *g, const rt_exec *x, const rt_layout **layout)
{
	for (uint32_t i = 0; i < g->out.n; i++) {
		ir_meta m = ir_meta_of(g, g->out.v[i]);
		layout[i] = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)m.dtype, m.device, m.rank, m.dim,
		                          x->out[i].same_ext >= 0 ? x->out[i].stride : NULL);
		if (!layout[i]) return drop_layouts(layout), false;
	}
	return true;
}

/* Who computes the op. FIRST: the library for library ops, else the evaluator. */
typedef enum maker { EVALUATE, FIRST, COMPILE } maker;

static rt_exec *build(tj_ctx *c, maker by, const asked *q, const rt_layout **layout, rt_err *err)
{
	ir_graph g;
	rt_arena mem = { 0 };
	rt_exec *x = NULL;
	lo_opts o;
	ir_graph_init(&g);
	jit_lower_opts(NULL, c->engine, c->settings, &o);
	o.name = ir_ops[q->op].name;
	o.family = c->engine->eager->family;
	o.moving.all = true;
	if (by == EVALUATE || (by == FIRST && !(ir_ops[q->op].flags & IR_LIB))) o.target = NULL;
	if (emit_op(&g, q, c->engine->device, &mem) && jit_lower(c->engine, &g, &o, &x, err) == TJ_OK) {
		if (!layouts_of(c, &g, x, layout)) {
			rt_exec_unref(x);
			x = NULL;
		}
	} else if (err->code == TJ_OK) *err = g.err;
	if (!x) rt_fail(err, TJ_ERR_NOMEM, ir_ops[q->op].name, "out of memory");
	ir_graph_free(&g);
	rt_arena_free(&mem);
	return x;
}

static unit *add(struct jit_eager *t, const uint32_t *key, uint32_t n)
{
	unit *u = rt_calloc(sizeof *u);
	if (!u) return NULL;
	if (rt_reserve(&t->unit, 1) && (u->key = gd_insert(&t->table, key, n, u))) return t->unit.v[t->unit.n++] = u;
	rt_free(u);
	return NULL;
}

/* An operand is on a device; the evaluator would copy it to the host. */
static bool on_device(const asked *q)
{
	for (int k = 0; k < q->nsrc; k++)
		if (!rt_is_number(q->src[k]) && q->src[k]->layout->device != TJ_CPU) return true;
	return false;
}

/* Makes the executable of the unit, or replaces it by a compiled one. False: it has none. */
static bool make(tj_ctx *c, unit *u, const asked *q, rt_err *err)
{
	const rt_layout *l[IR_MOST_RESULTS] = { NULL };
	bool compile = u->exec != NULL || on_device(q);
	jit_compiling telling;
	jit_compile_begin(c, &telling);
	rt_exec *x = build(c, compile ? COMPILE : FIRST, q, l, err);
	jit_compile_end(&telling);
	if (!x && !u->exec) return false;
	u->compiled = compile;
	if (!x) {
		err->code = TJ_OK; /* the evaluator goes on */
		return true;
	}
	if (u->exec) rt_exec_unref(u->exec);
	drop_layouts(u->layout);
	u->exec = x;
	memcpy(u->layout, l, sizeof l);
	return true;
}

static unit *look_up(tj_ctx *c, struct jit_eager *t, const uint32_t *key, uint32_t n, const asked *q, rt_err *err)
{
	sweep(t);
	unit *u = gd_find(&t->table, key, n);
	if (!u && !(u = add(t, key, n))) return NULL;
	bool due = !u->exec || (!u->compiled && u->uses + 1 >= COMPILE_AT);
	if (!due || make(c, u, q, err)) return u;
	gd_remove(&t->table, u->key);
	t->unit.n--;
	drop(u);
	return NULL;
}

/* The executable of an op, made or compiled when due. */
static bool find(tj_ctx *c, const asked *q, taken *k, rt_err *err)
{
	struct jit_eager *t = table_of(c->engine);
	rt_arena mem = { 0 };
	uint32_t *key, n = t ? make_key(&mem, q, c->settings, &key) : 0;
	unit *u = NULL;
	if (n) {
		rt_lock(&t->lock);
		if ((u = look_up(c, t, key, n, q, err)) != NULL) {
			u->stamp = ++t->clock;
			u->uses++;
			*k = (taken){ .exec = rt_exec_ref(u->exec), .audit = c->engine->audit && u->compiled && !u->audited };
			for (int i = 0; i < u->exec->nout; i++) k->layout[i] = rt_layout_ref(u->layout[i]);
			u->audited |= k->audit;
		}
		rt_unlock(&t->lock);
	}
	if (!u) rt_fail(err, TJ_ERR_NOMEM, ir_ops[q->op].name, "out of memory");
	rt_arena_free(&mem);
	return u != NULL;
}

/* ---- running it ---- */
typedef struct args { const void **ext; uint64_t *num; rt_buffer **buf; } args; /* buf: references */

static bool bind(tj_ctx *c, rt_arena *mem, int nsrc, tj_tensor *const *src, ir_op op, args *a)
{
	size_t n = (size_t)nsrc + 2;
	a->ext = rt_arena_alloc(mem, n * sizeof *a->ext);
	a->num = rt_arena_alloc(mem, n * sizeof *a->num);
	a->buf = rt_arena_alloc(mem, n * sizeof *a->buf);
	jit_taken *cell = rt_arena_alloc(mem, n * sizeof *cell);
	if (!a->ext || !a->num || !a->buf || !cell) return false;
	for (int k = 0; k < nsrc; k++)
		if (!rt_is_number(src[k]) && src[k]->kind == RT_CELL) cell[k].cell = rt_held_of(src[k]);
	jit_take_cells(c, cell, (uint32_t)nsrc);
	for (int k = 0; k < nsrc; k++) {
		bool number = rt_is_number(src[k]);
		if (number) a->num[k] = rt_number_bits(src[k]);
		else a->buf[k] = cell[k].cell ? cell[k].buf : rt_buffer_ref(src[k]->buf);
		if (!number) a->ext[k] = cell[k].cell ? cell[k].data : src[k]->data;
	}
	if (ir_ops[op].flags & IR_RNG) {
		a->num[nsrc] = c->rt.key;
		a->num[nsrc + 1] = c->rt.ordinal++;
	}
	return true;
}

static bool same_values(tj_ctx *c, const rt_layout *l, rt_buffer *got, rt_buffer *want, const char *what, rt_err *err)
{
	void *seen[2] = { NULL, NULL };
	const void *is = rt_tensor_see(c->rt.pool, l, got, got->data, &seen[0], err),
		   *was = is ? rt_tensor_see(c->rt.pool, l, want, want->data, &seen[1], err) : NULL;
	bool ok = was && jit_audit_values((tj_dtype)l->dtype, l->numel, is, was, what, err);
	for (int i = 0; i < 2; i++) rt_free(seen[i]);
	return ok;
}

/* TJ_AUDIT: compares the first results of compiled code with those of the evaluator. */
static bool audited(tj_ctx *c, const asked *q, const taken *u, const args *a, rt_buffer *const *got, rt_err *err)
{
	const rt_layout *l[IR_MOST_RESULTS] = { NULL };
	if (lo_bounded((ir_op)q->op, (tj_dtype)u->layout[0]->dtype, u->layout[0]->device, c->settings)) return true;
	asked again = *q;
	again.site = NULL;
	rt_exec *x = build(c, EVALUATE, &again, l, err);
	if (!x) return false;
	rt_buffer *want[IR_MOST_RESULTS] = { NULL };
	void *to[IR_MOST_RESULTS] = { NULL };
	bool ok = true;
	for (int i = 0; ok && i < x->nout; i++) ok = (want[i] = rt_buffer_on(&c->rt, l[i]->device, (size_t)l[i]->bytes)) != NULL;
	for (int i = 0; ok && i < x->nout; i++) to[i] = want[i]->data;
	rt_run r = jit_run(c, a->ext, a->num, to, err);
	ok = ok && jit_run_on_devices(x, &r, (uint32_t)q->nsrc, a->buf, want) == TJ_OK;
	for (int i = 0; ok && i < x->nout; i++) /* a view is not computed */
		ok = u->exec->out[i].same_ext >= 0 || same_values(c, l[i], got[i], want[i], ir_ops[q->op].name, err);
	if (!ok) rt_fail(err, TJ_ERR_NOMEM, "audit", "out of memory");
	for (int i = 0; i < x->nout; i++) rt_buffer_unref(want[i], c->rt.allocator);
	rt_exec_unref(x);
	drop_layouts(l);
	return ok;
}

/* The buffer and data of each output: new, or those of the operand that it is a view of. */
static bool make_room(tj_ctx *c, const asked *q, const taken *u, const args *a, rt_buffer **b, void **data)
{
	for (int i = 0; i < u->exec->nout; i++) {
		const rt_out *o = &u->exec->out[i];
		const rt_layout *l = u->layout[i];
		b[i] = o->same_ext >= 0 ? rt_buffer_ref(a->buf[o->same_ext]) : rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
		if (!b[i]) {
			while (i--) rt_buffer_unref(b[i], c->rt.allocator);
			return jit_error(c, q->site, TJ_ERR_NOMEM, ir_ops[q->op].name, NULL, "no memory for %lld bytes", (long long)l->bytes), false;
		}
		data[i] = b[i]->data;
		if (o->same_ext >= 0) data[i] = (char *)(uintptr_t)a->ext[o->same_ext] + o->offset * (int64_t)tj_dtype_size((tj_dtype)l->dtype);
	}
	return true;
}

/* All outputs are views of operands. */
static bool nothing_to_do(const rt_exec *x)
{
	for (int i = 0; i < x->nout; i++)
		if (x->out[i].same_ext < 0) return false;
	return true;
}

static void run(tj_ctx *c, const asked *q, const taken *u, const args *a, tj_tensor **out)
{
	rt_err err = { 0 };
	rt_buffer *b[IR_MOST_RESULTS];
	void *data[IR_MOST_RESULTS] = { NULL };
	if (!make_room(c, q, u, a, b, data)) return;
	rt_run r = jit_run(c, a->ext, a->num, data, &err);
	r.site = q->site;
	tj_status st = TJ_OK;
	if (!nothing_to_do(u->exec))
		st = RT_LIKELY(!u->exec->devices) ? u->exec->run(u->exec, &r)
		                                  : jit_run_on_devices(u->exec, &r, (uint32_t)q->nsrc, a->buf, b);
	if (st != TJ_OK || (u->audit && !nothing_to_do(u->exec) && !audited(c, q, u, a, b, &err))) {
		for (int i = 0; i < u->exec->nout; i++) rt_buffer_unref(b[i], c->rt.allocator);
		if (!err.late) { /* all sites share the kernels */
			err.site = NULL;
			if (err.code == TJ_ERR_INDEX) rt_site_tell(&err, q->site);
		}
		jit_report(c, q->site, &err);
		return;
	}
	for (int i = 0; i < u->exec->nout; i++) {
		tj_tensor *t = jit_new_value(c, c->rt.scope, rt_layout_ref(u->layout[i]), b[i], data[i]);
		out[i] = t ? t : jit_error(c, q->site, TJ_ERR_NOMEM, ir_ops[q->op].name, NULL, "out of memory");
	}
}

static void each(tj_ctx *c, const asked *q, tj_tensor **out)
{
	rt_err err = { 0 };
	rt_arena mem = { 0 };
	args a = { 0 };
	taken u;
	asked plain;
	const bool named = ir_ops[q->op].flags & IR_FAULT && rt_site_find(q->site);
	if (named) plain = *q, plain.site = "?"; /* another site with these kernels has another error */
	if (!find(c, named ? &plain : q, &u, &err)) {
		err.site = NULL;
		jit_report(c, q->site, &err);
		return;
	}
	if (bind(c, &mem, q->nsrc, q->src, q->op, &a)) run(c, q, &u, &a, out);
	else jit_error(c, q->site, TJ_ERR_NOMEM, ir_ops[q->op].name, NULL, "out of memory");
	for (int k = 0; a.buf && k < q->nsrc; k++)
		if (a.buf[k]) rt_buffer_unref(a.buf[k], c->rt.allocator);
	rt_exec_unref(u.exec);
	drop_layouts(u.layout);
	rt_arena_free(&mem);
}

void jit_eager(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, uint32_t want,
               tj_tensor **out)
{
	rt_frame frame;
	const bool profiled = jit_watches(c);
	for (int i = 0, k = 0; want >> k; k++)
		if (want >> k & 1) out[i++] = &c->rt.poison;
	if (profiled) jit_watch_begin(c, &frame, JIT_NO_FUNCTION);
	else if (jit_recorder(c)) jit_watch_no_more(c);
	each(c, &(asked){ site, op, want, nsrc, nattr, src, attr }, out);
	if (profiled) jit_watch_end(c, &frame);
}
