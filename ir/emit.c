/* SPDX-License-Identifier: MIT */
/* emit: the only way into a graph. An op is inferred, its operands are cast as promotion requires, then the node
 * is folded (fold.c), looked up among equal nodes (CSE), and appended only if it is new.
 *
 * While a node is made, its operands and attributes are at the ends of g->refs and g->ints; if it folds or has an
 * equal, these are cut back. On an error or out of memory emit returns IR_NONE, and g->err keeps the first error;
 * with IR_NONE as an operand it returns IR_NONE. */
#include "ir/ir.h"

static ir_ref fail(ir_graph *g, tj_status code, const char *op, const char *what, const char *site)
{
	if (g->err.code == TJ_OK) {
		rt_fail(&g->err, code, op, "%s", what);
		g->err.site = site;
	}
	return IR_NONE;
}

static ir_ref nomem(ir_graph *g, const char *site)
{
	return fail(g, TJ_ERR_NOMEM, "graph", "out of memory", site);
}

/* ---- CSE ---- */
/* Hashes the CSE key of a node: the fields that equal nodes share, by content. */
static uint64_t hash_node(const ir_graph *g, const ir_node *n)
{
	uint64_t head = (uint64_t)n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->rank << 24 | (uint64_t)n->weak << 32 |
	                (uint64_t)n->device << 40 | (uint64_t)n->alone << 48 | (uint64_t)n->mode << 56;
	uint64_t h = rt_hash(&head, sizeof head, n->nsrc);
	if (n->nsrc) h = rt_hash(g->refs.v + n->src, sizeof(ir_ref) * n->nsrc, h);
	if (n->nattr) h = rt_hash(ir_attr(g, n), sizeof(int64_t) * n->nattr, h);
	if (n->rank) h = rt_hash(ir_dims(g, n), sizeof(int64_t) * n->rank, h);
	return h;
}

static bool equal(const ir_graph *g, const ir_node *a, const ir_node *b)
{
	return a->op == b->op && a->dtype == b->dtype && a->rank == b->rank && a->weak == b->weak && a->device == b->device &&
	       a->alone == b->alone && a->mode == b->mode && a->nsrc == b->nsrc && a->nattr == b->nattr &&
	       (!a->nsrc || !memcmp(g->refs.v + a->src, g->refs.v + b->src, sizeof(ir_ref) * a->nsrc)) &&
	       (!a->nattr || !memcmp(ir_attr(g, a), ir_attr(g, b), sizeof(int64_t) * a->nattr)) &&
	       (!a->rank || !memcmp(ir_dims(g, a), ir_dims(g, b), sizeof(int64_t) * a->rank));
}

/* The slot of a node that equals n, or the empty slot where n belongs. */
static uint32_t *find(const ir_graph *g, const ir_node *n)
{
	uint32_t mask = g->ncse - 1, i = (uint32_t)hash_node(g, n) & mask;
	while (g->cse[i] && !equal(g, n, ir_at(g, g->cse[i] - 1))) i = (i + 1) & mask;
	return &g->cse[i];
}

/* At most half full. */
static bool grow_cse(ir_graph *g)
{
	if (g->ncse / 2 > g->node.n) return true;
	uint32_t n = g->ncse ? g->ncse * 2 : 64, *old = g->cse, nold = g->ncse;
	uint32_t *table = rt_calloc(sizeof *table * n);
	if (!table) return false;
	g->cse = table;
	g->ncse = n;
	for (uint32_t i = 0; i < nold; i++)
		if (old[i]) *find(g, ir_at(g, old[i] - 1)) = old[i];
	rt_free(old);
	return true;
}

/* ---- staging a node: it is complete, but may still be folded away ---- */
/* Puts operands, attributes and sizes at the ends of the lists. */
static bool stage(ir_graph *g, ir_node *n, const ir_ref *src, const int64_t *attr, const ir_meta *m)
{
	if (!rt_reserve(&g->refs, n->nsrc) || !rt_reserve(&g->ints, (uint32_t)n->nattr + m->rank)) return false;
	n->dtype = m->dtype;
	n->rank = m->rank;
	n->weak = m->weak;
	n->device = m->device;
	n->mode = ir_has_mode(n->op) ? g->mode : 0;
	n->src = g->refs.n;
	n->attr = g->ints.n;
	n->shape = g->ints.n + n->nattr;
	if (n->nsrc) memcpy(g->refs.v + n->src, src, sizeof *src * n->nsrc);
	if (n->nattr) memcpy(g->ints.v + n->attr, attr, sizeof *attr * n->nattr);
	if (n->rank) memcpy(g->ints.v + n->shape, m->dim, sizeof *m->dim * n->rank);
	g->refs.n += n->nsrc;
	g->ints.n += (uint32_t)n->nattr + n->rank;
	return true;
}

/* Removes a staged node, unless folding has appended others after it. */
static void unstage(ir_graph *g, const ir_node *n)
{
	if (g->refs.n == n->src + n->nsrc) g->refs.n = n->src;
	if (g->ints.n == n->shape + n->rank) g->ints.n = n->attr;
}

static ir_ref append(ir_graph *g, const ir_node *n)
{
	if (g->raw) return rt_push(&g->node, *n) ? g->node.n - 1 : nomem(g, n->site);
	if (g->off & IR_OFF_CSE) return rt_push(&g->node, *n) ? g->node.n - 1 : nomem(g, n->site);
	if (!grow_cse(g)) return nomem(g, n->site);
	uint32_t *slot = find(g, n);
	if (*slot) {
		g->ncsehit++;
		unstage(g, n);
		return *slot - 1;
	}
	if (!rt_push(&g->node, *n)) return nomem(g, n->site);
	*slot = g->node.n;
	return g->node.n - 1;
}

static ir_ref append_new(ir_graph *g, ir_node n, const ir_meta *m, const ir_ref *src, const int64_t *attr)
{
	if (g->err.code != TJ_OK) return IR_NONE;
	if (!stage(g, &n, src, attr, m)) return nomem(g, n.site);
	return append(g, &n);
}

ir_ref ir_append(ir_graph *g, ir_op op, const ir_meta *m, int nsrc, const ir_ref *src, int nattr, const int64_t *attr, const char *site)
{
	return append_new(g, (ir_node){ .op = (uint16_t)op, .nsrc = (uint16_t)nsrc, .nattr = (uint16_t)nattr, .site = site }, m, src, attr);
}

ir_ref ir_alone_of(ir_graph *g, ir_op op, int which, int nsrc, const ir_ref *src, int nattr, const int64_t *attr, const char *site)
{
	ir_meta in[IR_MOST_SOURCES], m;
	for (int k = 0; k < nsrc; k++) in[k] = ir_meta_of(g, src[k]);
	if (ir_infer_result(op, which, nsrc, in, nattr, attr, &m, &g->err) != TJ_OK) return IR_NONE;
	return append_new(
		g,
		(ir_node){
			.op = (uint16_t)op, .nsrc = (uint16_t)nsrc, .nattr = (uint16_t)nattr, .alone = (uint8_t)(which + 1), .site = site },
		&m, src, attr);
}

ir_ref ir_alone(ir_graph *g, const ir_graph *from, ir_ref r, int which, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r);
	g->mode = n->mode;
	return ir_alone_of(g, (ir_op)n->op, which, n->nsrc, src, n->nattr, ir_attr(from, n), n->site);
}

static ir_ref leaf(ir_graph *g, ir_op op, const ir_meta *m, int nattr, const int64_t *attr, const char *site)
{
	return ir_append(g, op, m, 0, NULL, nattr, attr, site);
}

/* ---- ops ---- */
typedef struct operands {
	ir_ref small[8], *src;
	ir_meta small_meta[8], *meta;
	uint8_t small_want[8], *want;
	void *heap;
} operands;

/* Room for n operands: the array itself, or one block beside it. */
static bool make_room(operands *o, int n)
{
	o->heap = NULL;
	o->src = o->small;
	o->meta = o->small_meta;
	o->want = o->small_want;
	if (n <= (int)RT_COUNT(o->small)) return true;
	size_t each = sizeof *o->meta + sizeof *o->src + sizeof *o->want;
	o->meta = o->heap = rt_alloc(each * (size_t)n);
	if (!o->heap) return false;
	o->src = (ir_ref *)(o->meta + n);
	o->want = (uint8_t *)(o->src + n);
	return true;
}

/* Casts an operand. An int number as a bound of narrower integers (minimum, maximum, fmin, fmax, clamp) is first limited to their
 * range, so it bounds them as its exact value would. For other ops it wraps. */
ir_ref ir_operand(ir_graph *g, ir_op op, ir_ref a, tj_dtype to, const char *site)
{
	const ir_node *n = ir_at(g, a);
	bool bounds = op == IR_minimum || op == IR_maximum || op == IR_clamp || op == IR_fmin || op == IR_fmax;
	if (bounds && n->weak && n->dtype == TJ_I64 && rt_dtype_cat(to) == RT_INT && to != TJ_I64) {
		ir_ref least = ir_const_i(g, TJ_I64, 0, NULL, rt_dtype_min(to)), most = ir_const_i(g, TJ_I64, 0, NULL, rt_dtype_max(to));
		a = ir_emit(g, IR_clamp, 3, (ir_ref[]){ a, least, most }, 0, NULL, site);
	}
	return ir_cast(g, a, to, site);
}

/* Casts operands to the dtypes that the op wants. In a raw graph they have them already. */
static bool cast_operands(ir_graph *g, ir_op op, operands *o, int n, const char *site)
{
	for (int k = 0; k < n; k++) {
		if (o->want[k] == o->meta[k].dtype) continue;
		if (g->raw) {
			rt_fail(&g->err, TJ_ERR_DTYPE, ir_ops[op].name, "operand %d is %s, the op takes %s", k,
			        tj_dtype_name((tj_dtype)o->meta[k].dtype), tj_dtype_name((tj_dtype)o->want[k]));
			return false;
		}
		o->src[k] = ir_operand(g, op, o->src[k], (tj_dtype)o->want[k], site);
		if (o->src[k] == IR_NONE) return false;
	}
	return true;
}

/* The same value on the wanted device. */
static ir_ref on_device(ir_graph *g, ir_ref a, int device, const char *site)
{
	return a == IR_NONE || ir_at(g, a)->weak || ir_at(g, a)->device == device ? a : ir_to(g, a, device, site);
}

ir_ref ir_keep_device(ir_graph *g, ir_ref a, const ir_node *like) { return on_device(g, a, like->device, like->site); }

/* The value is computed from constants and numbers alone. */
static bool rootless(const ir_graph *g, ir_ref r, int depth)
{
	const ir_node *n = ir_at(g, r);
	bool so = n->op != IR_input && n->op != IR_get && !ir_is_flow(n->op) && depth < 16;
	for (int k = 0; so && k < n->nsrc; k++) so = rootless(g, ir_src(g, n, k), depth + 1);
	return so;
}

/* Moves operands that may be on any device to the device of the result: values made from no tensor, and 0-d tensors of the CPU. In a raw
 * graph they are there already. */
static bool bring_operands(ir_graph *g, ir_op op, operands *o, int n, const char *site)
{
	int device = RT_CPU;
	for (int k = 0; k < n; k++)
		if (o->meta[k].device != RT_CPU) device = o->meta[k].device;
	for (int k = 0; k < n && op != IR_to && device != RT_CPU && !g->raw; k++) {
		if (o->meta[k].device != RT_CPU || o->meta[k].weak || (o->meta[k].rank && !rootless(g, o->src[k], 0))) continue;
		o->src[k] = on_device(g, o->src[k], device, site);
		if (o->src[k] == IR_NONE) return false;
		o->meta[k] = ir_meta_of(g, o->src[k]);
	}
	return true;
}

/* Of gather, index_select, scatter and its like: an operand without axes stands for one with an axis of size 1. Where such operands are
 * beside others, they get this axis, so that nothing behind this function meets them. */
static bool is_uneven(ir_op op, const operands *o, int n)
{
	const int class = ir_ops[op].opclass;
	bool flat = false, lines = false;
	if (class != IR_INDEX && class != IR_SCATTER) return false;
	for (int k = 0; k < n; k++) {
		flat |= !o->meta[k].rank;
		lines |= o->meta[k].rank;
	}
	return op == IR_index_select ? !o->meta[0].rank : flat && lines;
}

static ir_ref emit_even(ir_graph *g, ir_op op, int nsrc, operands *o, const int64_t *axis, const ir_meta *out, const char *site)
{
	for (int k = 0; k < nsrc; k++)
		if (!o->meta[k].rank) o->src[k] = ir_reshape(g, o->src[k], 1, (int64_t[]){ 1 }, site);
	const ir_ref y = ir_emit(g, op, nsrc, o->src, 1, axis, site);
	return y == IR_NONE || out->rank ? y : ir_reshape(g, y, 0, NULL, site);
}

static ir_ref emit(ir_graph *g, ir_op op, int nsrc, operands *o, int nattr, const int64_t *attr,
                   const char *site)
{
	int64_t norm[3 * TJ_MAX_RANK];
	int nnorm = 0;
	ir_meta out;
	if (!bring_operands(g, op, o, nsrc, site)) return IR_NONE;
	if (ir_infer(op, nsrc, o->meta, nattr, attr, &out, norm, &nnorm, o->want, &g->err) != TJ_OK) {
		g->err.site = site;
		return IR_NONE;
	}
	if (!cast_operands(g, op, o, nsrc, site)) return IR_NONE;
	if (is_uneven(op, o, nsrc)) return emit_even(g, op, nsrc, o, norm, &out, site);
	ir_node n = { .op = (uint16_t)op, .nsrc = (uint16_t)nsrc, .nattr = (uint16_t)nnorm, .site = site };
	if (!stage(g, &n, o->src, norm, &out)) return nomem(g, site);
	if (!g->raw) {
		ir_ref simpler = ir_fold(g, &n);
		if (g->err.code != TJ_OK) return IR_NONE;
		if (simpler != IR_NONE) {
			g->nfold++;
			unstage(g, &n);
			return on_device(g, simpler, out.device, site);
		}
	}
	return append(g, &n);
}

static bool one_value_each(ir_graph *g, ir_op op, int nsrc, const ir_ref *src, const char *site)
{
	for (int k = 0; k < nsrc; k++)
		if (ir_is_tuple(ir_at(g, src[k])))
			return fail(g, TJ_ERR_ARG, ir_ops[op].name, "an operand has several results: pick one with get", site) != IR_NONE;
	return true;
}

ir_ref ir_emit(ir_graph *g, ir_op op, int nsrc, const ir_ref *src, int nattr, const int64_t *attr,
               const char *site)
{
	operands o;
	if (g->err.code != TJ_OK) return IR_NONE;
	for (int k = 0; k < nsrc; k++)
		if (src[k] == IR_NONE) return IR_NONE;
	if (nsrc > UINT16_MAX) return fail(g, TJ_ERR_LIMIT, ir_ops[op].name, "too many operands", site);
	if (!make_room(&o, nsrc)) return nomem(g, site);
	for (int k = 0; k < nsrc; k++) {
		o.src[k] = src[k];
		o.meta[k] = ir_meta_of(g, src[k]);
	}
	ir_ref r = one_value_each(g, op, nsrc, src, site) ? emit(g, op, nsrc, &o, nattr, attr, site) : IR_NONE;
	rt_free(o.heap);
	return r;
}

/* ---- leaves ---- */
ir_ref ir_input(ir_graph *g, int slot, const ir_meta *m, const int64_t *stride, const char *site)
{
	int64_t attr[2 + TJ_MAX_RANK] = { slot, 0 };
	ir_meta strong = *m;
	strong.weak = false;
	if (stride) memcpy(attr + 2, stride, sizeof *stride * m->rank);
	else ir_contiguous(m->rank, m->dim, attr + 2);
	return leaf(g, IR_input, &strong, 2 + m->rank, attr, site);
}

ir_ref ir_num_(ir_graph *g, tj_dtype dtype, int slot, const char *site)
{
	ir_meta m = { .dtype = (uint8_t)dtype, .weak = true };
	return leaf(g, IR_num, &m, 1, (int64_t[]){ slot }, site);
}

static ir_ref constant(ir_graph *g, tj_dtype dtype, int rank, const int64_t *dim, ir_scalar v)
{
	rt_class cls = rt_dtype_class(dtype);
	ir_meta m = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };
	double d = cls == RT_F ? (double)v.f : v.d;
	if (d != d) d = __builtin_nan(""); /* one NaN, so that text is exact */
	if (cls != RT_I) memcpy(&v.i, &d, sizeof d);
	if (rank) memcpy(m.dim, dim, sizeof *dim * (size_t)rank);
	return leaf(g, IR_const, &m, 1, &v.i, NULL);
}

ir_ref ir_const_f(ir_graph *g, tj_dtype dtype, int rank, const int64_t *dim, double value)
{
	return constant(g, dtype, rank, dim, ir_cast_scalar((ir_scalar){ .d = value }, TJ_F64, dtype));
}

ir_ref ir_const_i(ir_graph *g, tj_dtype dtype, int rank, const int64_t *dim, int64_t value)
{
	return constant(g, dtype, rank, dim, ir_cast_scalar((ir_scalar){ .i = value }, TJ_I64, dtype));
}

/* The slot of the blob with these bytes, or the empty slot where it belongs. */
static uint32_t *find_blob(const ir_graph *g, const void *bytes, int64_t nbytes, uint64_t hash)
{
	uint32_t mask = g->nblob - 1, i = (uint32_t)hash & mask;
	for (; g->blob[i]; i = (i + 1) & mask) {
		const ir_blob *b = &g->data.v[g->blob[i] - 1];
		if (b->hash == hash && b->nbytes == nbytes && !memcmp(b->bytes, bytes, (size_t)nbytes)) break;
	}
	return &g->blob[i];
}

/* At most half full. */
static bool grow_blobs(ir_graph *g)
{
	uint32_t n = g->nblob ? g->nblob : 16;
	while (n / 2 <= g->data.n) n *= 2;
	if (n == g->nblob) return true;
	uint32_t *table = rt_calloc(sizeof *table * n);
	if (!table) return false;
	rt_free(g->blob);
	g->blob = table;
	g->nblob = n;
	for (uint32_t i = 0; i < g->data.n; i++) *find_blob(g, g->data.v[i].bytes, g->data.v[i].nbytes, g->data.v[i].hash) = i + 1;
	return true;
}

/* The blob with these bytes, added when it is new. UINT32_MAX: out of memory. */
static uint32_t intern(ir_graph *g, const void *bytes, int64_t nbytes)
{
	if (!grow_blobs(g)) return UINT32_MAX;
	uint64_t hash = rt_hash(bytes, (size_t)nbytes, 0);
	uint32_t *slot = find_blob(g, bytes, nbytes, hash);
	if (*slot) return *slot - 1;
	ir_blob b = { rt_alloc((size_t)nbytes), nbytes, hash };
	if (!b.bytes) return UINT32_MAX;
	memcpy(b.bytes, bytes, (size_t)nbytes);
	if (rt_push(&g->data, b)) return (*slot = g->data.n) - 1;
	rt_free(b.bytes);
	return UINT32_MAX;
}

/* One element is a constant that rules can see. */
static ir_ref one_element(ir_graph *g, const ir_meta *m, const void *bytes)
{
	return constant(g, (tj_dtype)m->dtype, m->rank, m->dim, ir_load((tj_dtype)m->dtype, bytes));
}

ir_ref ir_data_(ir_graph *g, const ir_meta *m, const void *bytes, const char *site)
{
	int64_t n = 0;
	ir_meta strong = *m;
	strong.weak = false;
	if (g->err.code != TJ_OK) return IR_NONE;
	rt_numel(m->rank, m->dim, &n);
	if (n == 1) return ir_to(g, one_element(g, m, bytes), m->device, site);
	uint32_t blob = intern(g, bytes, n * (int64_t)tj_dtype_size((tj_dtype)m->dtype));
	return blob == UINT32_MAX ? nomem(g, site) : leaf(g, IR_data, &strong, 1, (int64_t[]){ blob }, site);
}

bool ir_ret(ir_graph *g, ir_ref r)
{
	if (r == IR_NONE || g->err.code != TJ_OK) return false;
	return rt_push(&g->out, r) || (nomem(g, NULL), false);
}

/* ---- shorthand ---- */
ir_ref ir_op1(ir_graph *g, ir_op op, ir_ref a, const char *site)
{
	return ir_emit(g, op, 1, &a, 0, NULL, site);
}
ir_ref ir_op2(ir_graph *g, ir_op op, ir_ref a, ir_ref b, const char *site)
{
	return ir_emit(g, op, 2, (ir_ref[]){ a, b }, 0, NULL, site);
}
ir_ref ir_cast(ir_graph *g, ir_ref a, tj_dtype dtype, const char *site)
{
	return ir_emit(g, IR_cast, 1, &a, 1, (int64_t[]){ dtype }, site);
}

ir_ref ir_to(ir_graph *g, ir_ref a, int device, const char *site)
{
	return ir_emit(g, IR_to, 1, &a, 1, (int64_t[]){ device }, site);
}

ir_ref ir_reduce(ir_graph *g, ir_op op, ir_ref a, uint32_t axes, bool keepdim, const char *site)
{
	int64_t attr[1 + TJ_MAX_RANK] = { keepdim };
	int n = 1;
	for (int i = 0; i < TJ_MAX_RANK; i++)
		if (axes >> i & 1) attr[n++] = i;
	return ir_emit(g, op, 1, &a, n, attr, site);
}

ir_ref ir_reshape(ir_graph *g, ir_ref a, int rank, const int64_t *dim, const char *site)
{
	return ir_emit(g, IR_reshape, 1, &a, rank, dim, site);
}

ir_ref ir_expand(ir_graph *g, ir_ref a, int rank, const int64_t *dim, const char *site)
{
	return ir_emit(g, IR_expand, 1, &a, rank, dim, site);
}

static ir_ref copy_leaf(ir_graph *g, const ir_graph *from, const ir_node *n, const ir_meta *m)
{
	const int64_t *attr = ir_attr(from, n);
	if (n->op == IR_data) return ir_data_(g, m, from->data.v[attr[0]].bytes, n->site);
	return leaf(g, (ir_op)n->op, m, n->nattr, attr, n->site);
}

ir_ref ir_copy(ir_graph *g, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r);
	const int64_t *attr = ir_attr(from, n);
	ir_meta m = ir_meta_of(from, r);
	if (ir_is_leaf(n->op)) return copy_leaf(g, from, n, &m);
	if (n->op == IR_get) return ir_get(g, src[0], (int)attr[0], n->site);
	if (n->op == IR_mark) return src[0];
	if (n->op >= IR_OPS) return ir_flow_copy(g, from, n, src);
	g->mode = n->mode;
	ir_ref copy = ir_emit(g, (ir_op)n->op, n->nsrc, src, n->nattr, attr, n->site);
	return ir_keep_device(g, copy, n);
}

ir_ref ir_mark(ir_graph *g, ir_ref r, int64_t id)
{
	if (r == IR_NONE) return r;
	const ir_meta m = ir_meta_of(g, r);
	return ir_append(g, IR_mark, &m, 1, &r, 1, &id, ir_at(g, r)->site);
}

/* The ids of marks of events and externals are small. */
ir_ref ir_leaf(ir_graph *g, const ir_meta *m, const char *site)
{
	ir_ref r = ir_const_f(g, (tj_dtype)m->dtype, m->rank, m->dim, 0);
	if (r != IR_NONE && ir_at(g, r)->device != m->device) r = ir_to(g, r, m->device, site);
	const int64_t id = INT64_MIN + (int64_t)g->node.n;
	return r == IR_NONE ? r : ir_append(g, IR_mark, m, 1, &r, 1, &id, site);
}
