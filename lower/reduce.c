/* reduce: every reduction over one group of adjacent axes.
 *
 * requires a decomposed graph; keeps values bit for bit: groups go innermost first, as in the evaluator
 *
 *   %1 = sum f32[4] %0 axes=0,2      =>      %1 = sum f32[2,4,1] %0 keepdim=1 axes=2       (rows)
 *                                            %2 = sum f32[1,4,1] %1 keepdim=1 axes=0       (columns)
 *                                            %3 = reshape f32[4] %2
 *
 * A reduction over no elements is a constant, one over no axes a cast. */
#include "lower/low.h"

void lo_reduced_axes(const lo_low *L, ir_ref r, int *lo, int *hi, bool *keepdim)
{
	const ir_node *n = lo_node(L, r);
	uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(L->g, n), lo_node(L, ir_src(L->g, n, 0))->rank);
	*lo = set ? __builtin_ctz(set) : 0;
	*hi = set ? 32 - __builtin_clz(set) : 0;
	*keepdim = ir_attr(L->g, n)[0] != 0;
}

static bool reduces(const ir_node *n)
{
	return ir_ops[n->op].opclass == IR_REDUCE_ || ir_ops[n->op].opclass == IR_ARG;
}

static ir_ref neutral(ir_graph *to, const ir_graph *from, const ir_node *n)
{
	double one = n->op == IR_prod || n->op == IR_all;
	if (rt_is_float((tj_dtype)n->dtype)) return ir_const_f(to, (tj_dtype)n->dtype, n->rank, ir_dims(from, n), one);
	return ir_const_i(to, (tj_dtype)n->dtype, n->rank, ir_dims(from, n), (int64_t)one);
}

static ir_ref split(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r), *x = ir_at(from, ir_src(from, n, 0));
	uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(from, n), x->rank);
	if (ir_numel(from, ir_src(from, n, 0)) == 0) return neutral(to, from, n);
	if (!set && ir_ops[n->op].opclass == IR_ARG) return ir_const_i(to, TJ_I64, n->rank, ir_dims(from, n), 0);
	if (!set) return ir_reshape(to, ir_cast(to, src[0], (tj_dtype)n->dtype, n->site), n->rank, ir_dims(from, n), n->site);
	uint32_t low = set & -set, plus = set + low;
	if (!(plus & set)) return ir_copy(to, from, r, src); /* one run of ones */
	ir_ref v = src[0];
	for (int hi = x->rank; set; ) {
		while (hi > 0 && !(set >> (hi - 1) & 1)) hi--;
		uint32_t run = 0;
		for (int i = hi - 1; i >= 0 && (set >> i & 1); i--) run |= 1u << i;
		v = ir_reduce(to, (ir_op)n->op, v, run, true, n->site);
		set &= ~run;
	}
	return ir_reshape(to, v, n->rank, ir_dims(from, n), n->site);
}

tj_status lo_split_reductions(const ir_graph *from, ir_graph *to, rt_err *err)
{
	uint32_t n = from->node.n;
	ir_ref *map = rt_alloc(sizeof *map * (n + 1)), *src = rt_alloc(sizeof *src * (from->refs.n + 1));
	bool *live = rt_alloc(n + 1), ok = map && src && live;
	if (!ok) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	else ir_live(from, live);
	for (ir_ref r = 0; ok && r < n; r++) {
		const ir_node *x = ir_at(from, r);
		map[r] = IR_NONE;
		if (!live[r]) continue;
		for (int k = 0; k < x->nsrc; k++) src[k] = map[ir_src(from, x, k)];
		bool empty = reduces(x) && ir_numel(from, r) == 0;
		map[r] = reduces(x) && !empty ? split(to, from, r, src) : ir_copy(to, from, r, src);
		ok = map[r] != IR_NONE;
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = ir_ret(to, map[from->out.v[i]]);
	rt_free(map);
	rt_free(src);
	rt_free(live);
	if (ok) return TJ_OK;
	if (to->err.code == TJ_OK) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (err && err->code == TJ_OK) *err = to->err;
	return to->err.code;
}
