/* Ops outside compiled functions: a one-op segment each, through the same lowering. The first runs of an op go to the
 * evaluator; one that comes again is compiled, with its sizes as arguments of the code: other sizes find it. */
#include "jit/jit.h"

enum { COMPILE_AT = 3, SWEEP_AT = 2048 };

typedef struct unit { /* an op on given layouts */
	uint32_t uses;
	rt_exec *exec;          /* the evaluator's, then the compiled one: who runs it has a reference of his own */
	bool compiled, audited;
	const rt_layout *layout;
	uint64_t stamp;
} unit;

struct jit_eager {
	pthread_mutex_t lock;
	gd_table table;
	rt_vec(unit *) unit;
	uint64_t clock, sweep;
	lo_family *family;
};

typedef struct taken { rt_exec *exec; const rt_layout *layout; bool audit; } taken; /* references; the result is to be compared */

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

static void drop(unit *u)
{
	if (u->exec) rt_exec_unref(u->exec);
	rt_layout_unref(u->layout);
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

/* Drops what was not used since the last sweep. */
static void sweep(struct jit_eager *t)
{
	if (t->unit.n < SWEEP_AT) return;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < t->unit.n; i++) {
		unit *u = t->unit.v[i];
		if (u->stamp > t->sweep && kept < SWEEP_AT / 2) t->unit.v[kept++] = u;
		else {
			gd_remove(&t->table, u);
			drop(u);
		}
	}
	t->unit.n = kept;
	t->sweep = t->clock;
}

static uint32_t make_key(rt_arena *mem, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, uint32_t **out)
{
	uint32_t n = 2 + 2 * (uint32_t)nattr + 4 * (uint32_t)nsrc, *w = *out = rt_arena_alloc(mem, n * sizeof *w);
	if (!w) return 0;
	*w++ = (uint32_t)op;
	*w++ = (uint32_t)nattr;
	if (nattr) memcpy(w, attr, (size_t)nattr * sizeof *attr);
	w += 2 * nattr;
	for (int k = 0; k < nsrc; k++, w += 4) {
		bool number = rt_is_number(src[k]);
		w[0] = number ? (rt_is_int_number(src[k]) ? GD_INT : GD_FLOAT) : GD_VALUE;
		w[1] = number ? 0 : src[k]->layout->id;
	}
	return n;
}

/* ---- the one-op graph ---- */
static bool emit_op(ir_graph *g, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, rt_arena *mem)
{
	ir_ref *in = rt_arena_alloc(mem, ((size_t)nsrc + 2) * sizeof *in);
	if (!in) return false;
	for (int k = 0; k < nsrc; k++) {
		ir_meta m = jit_meta(src[k]);
		const rt_layout *l = rt_is_number(src[k]) ? NULL : src[k]->layout;
		in[k] = l ? ir_input(g, k, &m, l->contiguous ? NULL : rt_strides(l), site) : ir_num_(g, (tj_dtype)m.dtype, k, site);
	}
	if (ir_ops[op].flags & IR_RNG)
		for (int k = 0; k < 2; k++) in[nsrc + k] = ir_num_(g, TJ_I64, nsrc + k, site);
	ir_ref r = ir_emit(g, op, nsrc + (ir_ops[op].flags & IR_RNG ? 2 : 0), in, nattr, attr, site);
	return r != IR_NONE && ir_ret(g, r);
}

/* FIRST: the evaluator's, but library ops go to the library at once. */
typedef enum maker { EVALUATE, FIRST, COMPILE } maker;

static rt_exec *build(tj_ctx *c, const char *site, maker by, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr,
                      const rt_layout **layout, rt_err *err)
{
	ir_graph g;
	rt_arena mem = { 0 };
	rt_exec *x = NULL;
	lo_opts o;
	ir_graph_init(&g);
	jit_lower_opts(NULL, c->engine, &o);
	o.name = ir_ops[op].name;
	o.family = c->engine->eager->family;
	o.moving.all = true;
	if (by == EVALUATE || (by == FIRST && !(ir_ops[op].flags & IR_LIB))) o.target = NULL;
	if (emit_op(&g, site, op, nsrc, src, nattr, attr, &mem) && jit_lower(c->engine, &g, &o, &x, err) == TJ_OK) {
		ir_meta m = ir_meta_of(&g, g.out.v[0]);
		*layout = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)m.dtype, m.device, m.rank, m.dim, x->out[0].same_ext >= 0 ? x->out[0].stride : NULL);
		if (!*layout) {
			rt_exec_unref(x);
			x = NULL;
		}
	} else if (err->code == TJ_OK) *err = g.err;
	if (!x) rt_fail(err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
	ir_graph_free(&g);
	rt_arena_free(&mem);
	return x;
}

static unit *add(struct jit_eager *t, const uint32_t *key, uint32_t n)
{
	unit *u = rt_calloc(sizeof *u);
	if (!u) return NULL;
	if (rt_reserve(&t->unit, 1) && gd_insert(&t->table, key, n, u)) return t->unit.v[t->unit.n++] = u;
	rt_free(u);
	return NULL;
}

/* The evaluator would copy its operands to the host. */
static bool on_device(int nsrc, tj_tensor *const *src)
{
	for (int k = 0; k < nsrc; k++)
		if (!rt_is_number(src[k]) && src[k]->layout->device != TJ_CPU) return true;
	return false;
}

/* Makes the unit's executable, or compiles it. False: it has none. */
static bool make(tj_ctx *c, const char *site, unit *u, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, rt_err *err)
{
	const rt_layout *l = NULL;
	bool compile = u->exec != NULL || on_device(nsrc, src);
	rt_exec *x = build(c, site, compile ? COMPILE : FIRST, op, nsrc, src, nattr, attr, &l, err);
	if (!x && !u->exec) return false;
	u->compiled = compile;
	if (!x) {
		err->code = TJ_OK; /* it stays with the evaluator */
		return true;
	}
	if (u->exec) rt_exec_unref(u->exec);
	rt_layout_unref(u->layout);
	u->exec = x;
	u->layout = l;
	return true;
}

static unit *look_up(tj_ctx *c, struct jit_eager *t, const char *site, const uint32_t *key, uint32_t n, ir_op op, int nsrc, tj_tensor *const *src,
                     int nattr, const int64_t *attr, rt_err *err)
{
	sweep(t);
	unit *u = gd_find(&t->table, key, n);
	if (!u && !(u = add(t, key, n))) return NULL;
	bool due = !u->exec || (!u->compiled && u->uses + 1 >= COMPILE_AT);
	if (!due || make(c, site, u, op, nsrc, src, nattr, attr, err)) return u;
	gd_remove(&t->table, u);
	t->unit.n--;
	drop(u);
	return NULL;
}

/* What runs an op, made or compiled when due. */
static bool find(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, taken *k, rt_err *err)
{
	struct jit_eager *t = table_of(c->engine);
	rt_arena mem = { 0 };
	uint32_t *key, n = t ? make_key(&mem, op, nsrc, src, nattr, attr, &key) : 0;
	unit *u = NULL;
	if (n) {
		rt_lock(&t->lock);
		if ((u = look_up(c, t, site, key, n, op, nsrc, src, nattr, attr, err)) != NULL) {
			u->stamp = ++t->clock;
			u->uses++;
			*k = (taken){ rt_exec_ref(u->exec), rt_layout_ref(u->layout), c->engine->audit && u->compiled && !u->audited };
			u->audited |= k->audit;
		}
		rt_unlock(&t->lock);
	}
	if (!u) rt_fail(err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
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

/* TJ_AUDIT: the first result of an op's code against the evaluator's. */
static bool audited(tj_ctx *c, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, const taken *u, const args *a, rt_buffer *got, rt_err *err)
{
	const rt_layout *l = NULL;
	tj_dtype t = (tj_dtype)u->layout->dtype;
	if (ir_ops[op].flags & IR_LIB && t == TJ_F32) return true;
	rt_exec *x = build(c, NULL, EVALUATE, op, nsrc, src, nattr, attr, &l, err);
	if (!x) return false;
	rt_buffer *want = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	void *to = want ? want->data : NULL, *seen[2] = { NULL, NULL };
	rt_run r = jit_run(c, a->ext, a->num, &to, err);
	bool ok = want && jit_run_on_devices(x, &r, (uint32_t)nsrc, a->buf, &want) == TJ_OK;
	const void *x0 = ok ? rt_tensor_see(c->rt.pool, l, got, got->data, &seen[0], err) : NULL, *x1 = x0 ? rt_tensor_see(c->rt.pool, l, want, to, &seen[1], err) : NULL;
	ok = x1 && jit_audit_values(t, l->numel, x0, x1, ir_ops[op].name, err);
	if (!ok) rt_fail(err, TJ_ERR_NOMEM, "audit", "out of memory");
	for (int i = 0; i < 2; i++) rt_free(seen[i]);
	rt_buffer_unref(want, c->rt.cache);
	rt_exec_unref(x);
	rt_layout_unref(l);
	return ok;
}

static tj_tensor *run(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, const taken *u, const args *a)
{
	const rt_out *o = &u->exec->out[0];
	rt_err err = { 0 };
	rt_buffer *b;
	void *data;
	if (o->same_ext >= 0) {
		b = rt_buffer_ref(a->buf[o->same_ext]);
		data = (char *)(uintptr_t)a->ext[o->same_ext] + o->offset * (int64_t)tj_dtype_size((tj_dtype)u->layout->dtype);
	} else {
		b = rt_buffer_on(&c->rt, u->layout->device, (size_t)u->layout->bytes);
		if (!b) return jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "no memory for %lld bytes", (long long)u->layout->bytes);
		data = b->data;
		rt_run r = jit_run(c, a->ext, a->num, &data, &err);
		tj_status st = RT_LIKELY(!u->exec->devices) ? u->exec->run(u->exec, &r) : jit_run_on_devices(u->exec, &r, (uint32_t)nsrc, a->buf, &b);
		if (st != TJ_OK || (u->audit && !audited(c, op, nsrc, src, nattr, attr, u, a, b, &err))) {
			rt_buffer_unref(b, c->rt.cache);
			err.site = NULL; /* kernels are shared by every site */
			return jit_report(c, site, &err);
		}
	}
	tj_tensor *t = jit_new_value(c, c->rt.scope, rt_layout_ref(u->layout), b, data);
	return t ? t : jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory");
}

tj_tensor *jit_eager(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	rt_err err = { 0 };
	rt_arena mem = { 0 };
	args a = { 0 };
	taken u;
	if (!find(c, site, op, nsrc, src, nattr, attr, &u, &err)) {
		err.site = NULL;
		return jit_report(c, site, &err);
	}
	tj_tensor *r = bind(c, &mem, nsrc, src, op, &a) ? run(c, site, op, nsrc, src, nattr, attr, &u, &a) : jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory");
	for (int k = 0; a.buf && k < nsrc; k++)
		if (a.buf[k]) rt_buffer_unref(a.buf[k], c->rt.cache);
	rt_exec_unref(u.exec);
	rt_layout_unref(u.layout);
	rt_arena_free(&mem);
	return r;
}
