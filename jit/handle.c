/* Handles: checking operands, new tensors, properties of tensors, values for the host. */
#include "jit/jit.h"

#include <stdlib.h>

/* ---- admission: every operand of every event passes here ---- */

static tj_tensor *bad(tj_ctx *c, const char *site, const char *op, int k, tj_status code, const char *hint, const char *what)
{
	return jit_error(c, site, code, op, hint, "operand %d %s", k, what);
}

/* The handle that operand k stands for now; poison after an error. */
static tj_tensor *admit(tj_ctx *c, const char *site, const char *op, int k, tj_tensor *t)
{
	jit_act *a = c->active ? &c->act : NULL;
	if (!t) return bad(c, site, op, k, TJ_ERR_ARG, "a tensor was not set, or tj_compile() or tj_param() failed before", "is NULL");
	if (t == TJ_END) return bad(c, site, op, k, TJ_ERR_ARG, NULL, "is TJ_END");
	if (rt_is_number(t)) return t;
	if (t->kind == RT_POISON) return &c->rt.poison;
	if (t->kind == RT_LATE) { /* note where the number comes from; then use it like any other number */
		if (a && a->learn) a->learn->src.v[k] = t->seq;
		return (tj_tensor *)(uintptr_t)t->seg;
	}
	if (t->kind == RT_DEAD) return bad(c, site, op, k, TJ_ERR_DEAD, "keep it with tj_escape() or tj_retain()", "was used after its scope was popped");
	if (t->engine != &c->engine->rt) return bad(c, site, op, k, TJ_ERR_FOREIGN, "copy it with tj_data() and tj_from_data()", "belongs to another engine");
	if (t->ctx && t->ctx != c)
		return bad(c, site, op, k, TJ_ERR_FOREIGN, "keep it with tj_retain(): retained tensors belong to the engine", "is a temporary of another context");
	if (t->kind == RT_PENDING && (!a || t->seg < a->serial))
		return bad(c, site, op, k, TJ_ERR_DEAD, "return it in out[], or keep it with tj_retain()", "is a temporary of a call that has ended");
	if (t->kind == RT_PENDING && a->closed.n && t->seg == a->seg && jit_closed(a, t->seq))
		return bad(c, site, op, k, TJ_ERR_DEAD, "return it in out[] of the callback", "is a value of a callback that has returned");
	return t->kind == RT_CELL && a && a->assigned.n ? jit_version(a, t) : t;
}

jit_admit jit_admit_all(tj_ctx *c, const char *site, const char *op, int nsrc, tj_tensor *const *src, tj_tensor **in)
{
	jit_admit r = JIT_OK;
	if (RT_UNLIKELY(c->busy)) {
		jit_error(c, site, TJ_ERR_STATE, op, "use another context there, made by tj_ctx_clone(), or do it after the call",
		          "the context is used in a function that one of its own calls called back");
		for (int k = 0; k < nsrc; k++) in[k] = &c->rt.poison;
		return JIT_POISON;
	}
	if (RT_UNLIKELY(c->active && c->act.learn)) jit_learn_operands(&c->act, nsrc);
	for (int k = 0; k < nsrc; k++) {
		in[k] = admit(c, site, op, k, src[k]);
		if (!rt_is_number(in[k]) && in[k]->kind == RT_POISON) r = JIT_POISON;
	}
	if (RT_UNLIKELY(r == JIT_POISON) && !c->active && c->rt.err.code == TJ_OK)
		jit_error(c, site, TJ_ERR_ARG, op, "look at tj_check() before you use the tensor", "an operand is poison: the op that should have made it failed, and that error was checked before");
	return r;
}

ir_meta jit_meta(const tj_tensor *t)
{
	ir_meta m = { 0 };
	if (rt_is_number(t)) {
		m.weak = true;
		m.dtype = rt_is_int_number(t) ? TJ_I64 : TJ_F64;
		return m;
	}
	return jit_layout_meta(t->layout);
}

ir_meta jit_layout_meta(const rt_layout *l)
{
	ir_meta m = { .dtype = l->dtype, .rank = l->rank, .device = l->device };
	memcpy(m.dim, l->dim, l->rank * sizeof *m.dim);
	return m;
}

/* ---- making values ---- */
static tj_tensor *fill_value(tj_tensor *t, const rt_layout *layout, rt_buffer *buf, void *data)
{
	const rt_head head = { RT_VALUE, layout->dtype, layout->rank, 0, 0 };
	memcpy(t, &head, sizeof head);
	t->seg = 0;
	t->layout = layout;
	t->buf = buf;
	t->data = data;
	return t;
}

tj_tensor *jit_new_value(tj_ctx *c, tj_scope *s, const rt_layout *layout, rt_buffer *buf, void *data)
{
	tj_tensor *t = rt_raw_handle(&c->rt, s);
	if (RT_LIKELY(t != NULL)) return fill_value(t, layout, buf, data);
	rt_layout_unref(layout);
	rt_buffer_unref(buf, c->rt.cache);
	return NULL;
}

tj_tensor *jit_share(tj_ctx *c, tj_scope *s, const tj_tensor *t)
{
	tj_tensor *h = rt_handle(&c->rt, s);
	if (!h) return NULL;
	*h = *t;
	h->ctx = c;
	h->row_major = NULL;
	h->flags &= (uint8_t)~(RT_HEAP | RT_BORROWED);
	if (t->kind == RT_PENDING) return h;
	rt_layout_ref(h->layout);
	if (h->buf) rt_buffer_ref(h->buf);
	return h;
}

/* Rank of a list of sizes; -1 when a size is negative or there are too many. */
static int read_shape(tj_dims shape, int64_t *dim)
{
	int rank = 0;
	if (!shape) return -1;
	for (; shape[rank] != TJ_END_DIM; rank++) {
		if (rank == TJ_MAX_RANK || shape[rank] < 0) return -1;
		dim[rank] = shape[rank];
	}
	return rank;
}

static const rt_layout *new_layout(tj_ctx *c, const char *site, const char *op, tj_dtype dtype, int device, tj_dims shape)
{
	int64_t dim[TJ_MAX_RANK];
	if ((unsigned)dtype >= TJ_DTYPE_COUNT) {
		jit_error(c, site, TJ_ERR_DTYPE, op, "TJ_F32, TJ_I64, ...", "%d is not a dtype", (int)dtype);
		return NULL;
	}
	int rank = read_shape(shape, dim);
	if (rank < 0) {
		jit_error(c, site, TJ_ERR_SHAPE, op, "TJ_SHAPE(2, 3), TJ_0D", "not a shape: NULL, a negative size, or more than %d sizes", TJ_MAX_RANK);
		return NULL;
	}
	const rt_layout *l = rt_layout_get(&c->engine->rt.layouts, dtype, device, rank, dim, NULL);
	if (!l) jit_error(c, site, TJ_ERR_SHAPE, op, NULL, "the number of bytes overflows");
	return l;
}

static tj_tensor *from_data(const char *site, tj_ctx *c, const char *op, tj_dtype dtype, tj_dims shape, const void *data, uint8_t flags)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context();
	jit_active(c);
	const rt_layout *l = new_layout(c, site, op, dtype, c->engine->device, shape);
	if (!l) return &c->rt.poison;
	if (!data && l->numel) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_ARG, op, "tj_full() makes a tensor of one value", "data is NULL");
	}
	rt_err err = { 0 };
	rt_buffer *b = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	if (!b) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_NOMEM, op, NULL, "no memory for %lld bytes", (long long)l->bytes);
	}
	tj_status st = rt_buffer_write(c->rt.pool, b, data, (size_t)l->bytes, &err);
	tj_tensor *t = jit_new_value(c, c->rt.scope, l, b, b->data);
	if (st != TJ_OK) return jit_report(c, site, &err);
	if (!t) return jit_error(c, site, TJ_ERR_NOMEM, op, NULL, "out of memory");
	t->flags = flags;
	if (flags & RT_CONSTANT) t->seg = jit_constant_id(c->engine, l, data);
	return t;
}

tj_tensor *tj_from_data_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "from_data", dtype, shape, data, 0);
}

tj_tensor *tj_constant_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data)
{
	return from_data(site, c, "constant", dtype, shape, data, RT_CONSTANT);
}

/* What is wrong with memory to be wrapped; NULL: nothing. The offset of an element must be within the largest possible C object. */
static const char *bad_memory(const rt_layout *l, tj_dims strides, const void *data)
{
	int64_t span = 0, part;
	if (!data && l->numel) return "data is NULL";
	if ((uintptr_t)data % tj_dtype_size((tj_dtype)l->dtype)) return "the memory is not aligned to its elements";
	for (int d = 0; strides && d < l->rank; d++) {
		if (strides[d] == TJ_END_DIM) return "there are fewer strides than sizes: give one for each axis, in elements; NULL means row-major";
		if (l->numel && (__builtin_mul_overflow(l->dim[d] - 1, llabs(strides[d]), &part) || __builtin_add_overflow(span, part, &span)))
			return "the strides reach too far: the offset of an element overflows";
	}
	if (strides && strides[l->rank] != TJ_END_DIM) return "there are more strides than sizes";
	return span > INT64_MAX / 16 ? "the strides reach too far: the offset of an element overflows" : NULL;
}

tj_tensor *tj_wrap_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, tj_dims strides, const void *data, void (*release)(void *env), void *env)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context();
	jit_active(c);
	const rt_layout *l = new_layout(c, site, "wrap", dtype, RT_CPU, shape), *strided;
	if (!l) return &c->rt.poison;
	const char *wrong = bad_memory(l, strides, data);
	if (wrong) {
		rt_layout_unref(l);
		return jit_error(c, site, TJ_ERR_ARG, "wrap", NULL, "%s", wrong);
	}
	strided = strides ? rt_layout_get(&c->engine->rt.layouts, dtype, RT_CPU, l->rank, l->dim, strides) : rt_layout_ref(l);
	rt_layout_unref(l);
	rt_buffer *b = strided ? rt_buffer_borrow((void *)(uintptr_t)data, release, env) : NULL;
	tj_scope *s = c->rt.scope;
	tj_tensor *t = b ? rt_raw_handle(&c->rt, s) : NULL;
	if (t) return fill_value(t, strided, b, b->data);
	rt_layout_unref(strided);
	rt_free(b); /* without calling release(): the memory stays that of the caller */
	return jit_error(c, site, TJ_ERR_NOMEM, "wrap", NULL, "out of memory");
}

tj_tensor *tj_param_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape)
{
	JIT_COME_IN(in, c, site);
	if (!in) return jit_no_context();
	if (jit_active(c)) return jit_error(c, site, TJ_ERR_STATE, "param", "make cells before the call", "a cell cannot be made in a body");
	const rt_layout *l = new_layout(c, site, "param", dtype, c->engine->device, shape);
	if (!l) return &c->rt.poison;
	rt_err err = { 0 };
	rt_buffer *b = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	bool zero = b && rt_buffer_zero(c->rt.pool, b, (size_t)l->bytes, &err) == TJ_OK;
	rt_held *h = zero ? rt_held_new(&c->engine->rt) : NULL;
	if (!h) {
		rt_buffer_unref(b, c->rt.cache);
		rt_layout_unref(l);
		return err.code ? jit_report(c, site, &err) : jit_error(c, site, TJ_ERR_NOMEM, "param", NULL, "out of memory");
	}
	h->t.kind = RT_CELL;
	h->t.dtype = l->dtype;
	h->t.rank = l->rank;
	h->t.layout = l;
	h->t.buf = b;
	h->t.data = b->data;
	return &h->t;
}

/* ---- properties ---- */
static bool is_number(const tj_tensor *t) { return rt_is_number(t) || (t && t != TJ_END && t->kind == RT_LATE); }
static bool is_tensor(const tj_tensor *t) { return t && t != TJ_END && !rt_is_number(t) && t->layout; }

int tj_rank(const tj_tensor *t)
{
	if (is_number(t)) return 0;
	return is_tensor(t) ? t->rank : -1;
}

int64_t tj_dim(const tj_tensor *t, int axis)
{
	if (!is_tensor(t)) return -1;
	if (axis < 0) axis += t->rank;
	return axis >= 0 && axis < t->rank ? t->layout->dim[axis] : -1;
}

int64_t tj_numel(const tj_tensor *t)
{
	if (is_number(t)) return 1;
	return is_tensor(t) ? t->layout->numel : -1;
}

tj_dtype tj_dtype_of(const tj_tensor *t)
{
	if (rt_is_number(t)) return rt_is_int_number(t) ? TJ_I64 : TJ_F64; /* a late number has its own dtype */
	return t && t != TJ_END ? (tj_dtype)t->dtype : TJ_F32;
}

tj_device tj_device_of(const tj_tensor *t)
{
	if (is_number(t)) return TJ_CPU;
	return is_tensor(t) ? t->layout->device : -1;
}

tj_device tj_find_device(const char *name) { return name ? rt_device_parse(name, strlen(name)) : -1; }
const char *tj_device_name(tj_device device) { return rt_device_name(device); }

bool tj_is_poison(const tj_tensor *t) { return !t || t == TJ_END || (!rt_is_number(t) && t->kind == RT_POISON); }

/* ---- values for the host ---- */

/* Direct mode cannot know what the body does with a value that it reads, except a truth: a truth is always a boundary, also of a computed value. */
static bool learn_read(jit_act *a, const char *site, int event, tj_tensor *const *in)
{
	if (event != JIT_TRUTH) jit_learn_stop(a, site ? site : "?", "%s at %s gives a value to C", jit_event_name(event), site ? site : "?");
	else if (in[0]->kind != RT_PENDING || in[0]->seg != a->seg) return !a->failed && jit_boundary(a, site, event, 1, in);
	return true;
}

/* A value that C reads. own: NULL, or a reference on buf to drop after reading, since another thread may commit to the cell meanwhile. */
typedef struct reached { const rt_layout *layout; void *data; rt_buffer *buf, *own; } reached;

static void read_end(tj_ctx *c, reached *r)
{
	if (r->own) rt_buffer_unref(r->own, c->rt.cache);
	r->own = NULL;
}

static bool reach_cell(jit_act *a, const char *site, int event, tj_tensor *t, reached *r)
{
	jit_taken k = { .cell = rt_held_of(t) };
	if (a && !jit_read_cell(a, &k)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(event), NULL, "out of memory"), false;
	if (!a) jit_take_cell(&k);
	*r = (reached){ t->layout, k.data, k.buf, a ? NULL : k.buf };
	return true;
}

/* Makes the data of a value available; in a body this may run a boundary. */
static bool reach(tj_ctx *c, const char *site, int event, tj_tensor *t, reached *r)
{
	*r = (reached){ 0 };
	jit_act *a = jit_active(c);
	tj_tensor *in[1];
	if (jit_admit_all(c, site, jit_event_name(event), 1, &t, in) == JIT_POISON) return false;
	if (RT_UNLIKELY(a && a->callback.n) && jit_in_callback(c, site, jit_event_name(event), "branch with tj_cond() or tj_where(), loop with tj_while(); or read it before")) return false;
	if (RT_UNLIKELY(a && a->learn) && !learn_read(a, site, event, in)) return false;
	if (in[0]->kind == RT_CELL) return reach_cell(a, site, event, in[0], r);
	if (in[0]->kind != RT_PENDING) {
		*r = (reached){ in[0]->layout, in[0]->data, in[0]->buf, NULL };
		return true;
	}
	if (a->failed) return false;
	if (in[0]->seg == a->seg && !jit_boundary(a, site, event, 1, in)) return false;
	return (jit_find_value(a, in[0], &r->layout, &r->buf, &r->data) && r->data) || (jit_recover(a, in[0]) && jit_find_value(a, in[0], &r->layout, &r->buf, &r->data));
}

/* Keeps a row-major copy on the CPU while a scope lives: in the handle of a temporary; for a cell or a retained tensor, which
 * other threads and later versions share, in a new handle of the innermost scope. */
static const void *keep_copy(tj_ctx *c, tj_tensor *t, const rt_layout *l, rt_buffer *copy)
{
	if (!(t->flags & RT_HEAP)) {
		t->row_major = copy;
		return copy->data;
	}
	const rt_layout *plain = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)l->dtype, RT_CPU, l->rank, l->dim, NULL);
	tj_tensor *h = plain ? jit_new_value(c, c->rt.scope, plain, copy, copy->data) : NULL;
	if (!plain) rt_buffer_unref(copy, c->rt.cache);
	return h ? h->data : NULL;
}

static const void *row_major(tj_ctx *c, const char *site, tj_tensor *t)
{
	reached r;
	if (!reach(c, site, JIT_DATA, t, &r)) return NULL;
	const rt_layout *l = r.layout;
	const void *p = NULL;
	rt_err err = { 0 };
	if (l->contiguous && l->device == RT_CPU) p = r.data; /* of a cell: valid until its next commit */
	else if (t->row_major && !(t->flags & RT_HEAP)) p = ((rt_buffer *)t->row_major)->data;
	else {
		rt_buffer *copy = rt_buffer_new(c->rt.cache, (size_t)l->bytes);
		if (copy && rt_tensor_read(c->rt.pool, l, r.buf, r.data, copy->data, &err) == TJ_OK) p = keep_copy(c, t, l, copy);
		else rt_buffer_unref(copy, c->rt.cache);
		if (!p) rt_fail(&err, TJ_ERR_NOMEM, "data", "out of memory");
	}
	read_end(c, &r);
	if (!p) jit_report(c, site, &err);
	return p;
}

const void *tj_data_at(const char *site, tj_tensor *t)
{
	static const double zeros[2];
	JIT_CURRENT(c, site);
	if (!c) return zeros;
	if (is_number(t)) {
		jit_error(c, site, TJ_ERR_ARG, "data", "tj_item() gives its value", "a number has no memory");
		return zeros;
	}
	const void *p = row_major(c, site, t);
	return p ? p : zeros;
}

tj_status tj_read_at(const char *site, tj_tensor *t, void *dst, size_t bytes)
{
	JIT_CURRENT(c, site);
	if (!c) return TJ_ERR_STATE;
	if (is_number(t) || !dst) {
		jit_error(c, site, TJ_ERR_ARG, "read", NULL, dst ? "a number has no memory" : "dst is NULL");
		return TJ_ERR_ARG;
	}
	reached r;
	if (!reach(c, site, JIT_DATA, t, &r)) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	rt_err err = { 0 };
	if (bytes == (size_t)r.layout->bytes) rt_tensor_read(c->rt.pool, r.layout, r.buf, r.data, dst, &err);
	else rt_fail(&err, TJ_ERR_SHAPE, "read", "dst has %zu bytes, the tensor %lld", bytes, (long long)r.layout->bytes);
	read_end(c, &r);
	if (err.code != TJ_OK) jit_report(c, site, &err);
	return err.code;
}

/* Reads the one element of a tensor that is not on the CPU. */
static bool read_element(tj_ctx *c, const char *site, const reached *r, ir_scalar *s)
{
	uint64_t bits = 0;
	rt_err err = { 0 };
	if (rt_tensor_read(c->rt.pool, r->layout, r->buf, r->data, &bits, &err) != TJ_OK) return jit_report(c, site, &err), false;
	*s = ir_load((tj_dtype)r->layout->dtype, &bits);
	return true;
}

/* Reads the one element of t; false on error. */
static bool one_element(tj_ctx *c, const char *site, int event, tj_tensor *t, ir_scalar *s, tj_dtype *dtype)
{
	reached r;
	if (!reach(c, site, event, t, &r)) return false;
	bool one = r.layout->numel == 1;
	*dtype = (tj_dtype)r.layout->dtype;
	if (one && RT_LIKELY(r.layout->device == RT_CPU)) *s = ir_load(*dtype, r.data);
	else if (one) one = read_element(c, site, &r, s);
	else
		jit_error(c, site, TJ_ERR_SHAPE, jit_event_name(event), "reduce it first, or read it with tj_data()",
		          "the tensor must have one element, it has %lld", (long long)r.layout->numel);
	read_end(c, &r);
	return one;
}

/* C reads a late number, which may differ in the next call: direct mode cannot know what C does with it. */
static tj_tensor *unbox(tj_ctx *c, const char *site, int event, tj_tensor *t)
{
	if (rt_is_number(t) || !t || t == TJ_END || t->kind != RT_LATE) return t;
	if (c->active && c->act.learn) jit_learn_stop(&c->act, site ? site : "?", "%s at %s gives a number of the call to C", jit_event_name(event), site ? site : "?");
	return (tj_tensor *)(uintptr_t)t->seg;
}

static bool element_as(const char *site, int event, tj_tensor *t, tj_dtype to, ir_scalar *out)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_dtype from;
	if (!c) return false;
	t = unbox(c, site, event, t);
	if (rt_is_number(t)) {
		ir_scalar s;
		if (rt_is_int_number(t)) s.i = rt_int_of(t);
		else s.d = rt_float_of(t);
		*out = ir_cast_scalar(s, rt_is_int_number(t) ? TJ_I64 : TJ_F64, to);
		return true;
	}
	ir_scalar s;
	if (!one_element(c, site, event, t, &s, &from)) return false;
	*out = ir_cast_scalar(s, from, to);
	return true;
}

double tj_item_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	return element_as(site, JIT_ITEM, t, TJ_F64, &s) ? s.d : __builtin_nan("");
}

int64_t tj_item_i_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	return element_as(site, JIT_ITEM, t, TJ_I64, &s) ? s.i : 0;
}

/* Truths for a body that goes on after an error; they change, so that its loops end. */
static bool any_bit(tj_ctx *c)
{
	static const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
	c->rt.serial++;
	return rt_hash(&c->rt.serial, 8, odd) & 1;
}

bool tj_truth_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	JIT_CURRENT(c, site);
	if (!c) return false;
	if (!element_as(site, JIT_TRUTH, t, TJ_BOOL, &s)) return any_bit(c);
	jit_follow(c, t, s.i != 0);
	if (c->active && c->act.learn && c->act.done.n) c->act.done.v[c->act.done.n - 1].bit = s.i != 0;
	return s.i != 0;
}
