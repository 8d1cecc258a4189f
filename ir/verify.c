/* SPDX-License-Identifier: MIT */
/* verify: checks a graph against these rules. An error names the node, the rule and the types.
 *
 *   operands stand before their user, and there are as many as the op takes
 *   dtype, shape and attributes are those that ir_infer gives; operands have the dtypes that it wants
 *   nodes that compute nothing have no mode
 *   leaves have their attributes, data has its bytes; outputs exist
 *   only `get` uses a node that has several results
 *   regions are valid graphs, and their inputs and outputs have the types that their node needs
 */
#include "ir/ir.h"

RT_PRINTF(4, 5)
static bool fail(const ir_graph *g, ir_ref r, rt_err *err, const char *fmt, ...)
{
	char what[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	const ir_node *n = ir_at(g, r);
	rt_fail(err, TJ_ERR_STATE, n->op < IR_OP_COUNT ? ir_ops[n->op].name : "node", "%%%u: %s", r, what);
	return false;
}

static bool leaf_ok(const ir_graph *g, ir_ref r, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	int64_t numel, want = n->op == IR_input ? 2 + n->rank : 1;
	if (n->nsrc || n->nattr != want)
		return fail(g, r, err, "a leaf has no operands and %d attributes", (int)want);
	if (n->op == IR_num && (n->rank || !n->weak || (n->dtype != TJ_F64 && n->dtype != TJ_I64)))
		return fail(g, r, err, "a number must be 0-d, f64 or i64");
	if (!rt_numel(n->rank, ir_dims(g, n), &numel)) return fail(g, r, err, "a size is negative, or the number of elements overflows");
	if (n->op != IR_data) return true;
	int64_t blob = ir_attr(g, n)[0];
	if (blob < 0 || blob >= g->data.n ||
	    g->data.v[blob].nbytes != numel * (int64_t)tj_dtype_size((tj_dtype)n->dtype))
		return fail(g, r, err, "its data has another size");
	return true;
}

static bool same_as_inferred(const ir_graph *g, ir_ref r, const ir_meta *m, const int64_t *norm, int nnorm,
                             rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	if (m->dtype != n->dtype || m->rank != n->rank || (m->device != n->device && !ir_created(g, r)) ||
	    (n->rank && memcmp(m->dim, ir_dims(g, n), sizeof *m->dim * n->rank))) {
		rt_text t = { 0 };
		ir_meta have = ir_meta_of(g, r);
		ir_put_meta(&t, &have);
		rt_puts(&t, ", its operands give ");
		ir_put_meta(&t, m);
		fail(g, r, err, "is %s", rt_str(&t));
		rt_text_free(&t);
		return false;
	}
	if (nnorm != n->nattr || (nnorm && memcmp(norm, ir_attr(g, n), sizeof *norm * (size_t)nnorm)))
		return fail(g, r, err, "attributes are not in normal form");
	return true;
}

static bool op_ok(const ir_graph *g, ir_ref r, ir_meta *src, uint8_t *want, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	int64_t norm[3 * TJ_MAX_RANK];
	int nnorm;
	ir_meta m;
	rt_err own = { 0 };
	for (int k = 0; k < n->nsrc; k++) {
		if (ir_src(g, n, k) >= r) return fail(g, r, err, "operand %d is not defined above", k);
		if (ir_is_tuple(ir_at(g, ir_src(g, n, k)))) return fail(g, r, err, "operand %d has several results", k);
		src[k] = ir_meta_of(g, ir_src(g, n, k));
	}
	if (ir_infer((ir_op)n->op, n->nsrc, src, n->nattr, ir_attr(g, n), &m, norm, &nnorm, want, &own) != TJ_OK)
		return fail(g, r, err, "%s", own.message);
	for (int k = 0; k < n->nsrc; k++)
		if (want[k] != src[k].dtype)
			return fail(g, r, err, "operand %d is %s, the op takes %s", k,
			            tj_dtype_name((tj_dtype)src[k].dtype), tj_dtype_name((tj_dtype)want[k]));
	return same_as_inferred(g, r, &m, norm, nnorm, err);
}

static bool flow_ok(const ir_graph *g, ir_ref r, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	for (int k = 0; k < n->nsrc; k++)
		if (ir_src(g, n, k) >= r) return fail(g, r, err, "operand %d is not defined above", k);
	return n->op == IR_mark || (n->op == IR_get ? ir_get_check(g, r, err) : ir_flow_check(g, r, err));
}

/* An empty range may start anywhere. */
static bool inside(uint32_t start, uint32_t n, uint32_t end) { return !n || (uint64_t)start + n <= end; }

static bool node_ok(const ir_graph *g, ir_ref r, ir_meta *src, uint8_t *want, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	if (n->op >= IR_OP_COUNT || n->dtype >= TJ_DTYPE_COUNT || n->rank > TJ_MAX_RANK)
		return fail(g, r, err, "no such op, dtype or rank");
	if (!inside(n->src, n->nsrc, g->refs.n) || !inside(n->attr, n->nattr, g->ints.n) ||
	    !inside(n->shape, n->rank, g->ints.n))
		return fail(g, r, err, "operands, attributes or sizes lie outside the graph");
	if (n->mode >= IR_MODES || (n->mode && !ir_has_mode(n->op))) return fail(g, r, err, "no such mode");
	if (n->op < IR_OPS) return op_ok(g, r, src, want, err);
	return ir_is_leaf(n->op) ? leaf_ok(g, r, err) : flow_ok(g, r, err);
}

tj_status ir_verify(const ir_graph *g, rt_err *err)
{
	rt_err own = { 0 };
	uint32_t most = 1;
	bool ok = true;
	if (!err) err = &own;
	for (ir_ref r = 0; r < g->node.n; r++) most = ir_at(g, r)->nsrc > most ? ir_at(g, r)->nsrc : most;
	ir_meta *src = rt_alloc((sizeof *src + 1) * most);
	if (!src) return rt_fail(err, TJ_ERR_NOMEM, "verify", "out of memory");
	for (ir_ref r = 0; ok && r < g->node.n; r++) ok = node_ok(g, r, src, (uint8_t *)(src + most), err);
	for (uint32_t i = 0; ok && i < g->out.n; i++)
		if (g->out.v[i] >= g->node.n || ir_is_tuple(ir_at(g, g->out.v[i]))) {
			rt_fail(err, TJ_ERR_STATE, "ret", g->out.v[i] >= g->node.n ? "output %u is not a node" : "output %u has several results", i);
			ok = false;
		}
	rt_free(src);
	return ok ? TJ_OK : err->code;
}
