/* SPDX-License-Identifier: MIT */
/* writeflow: control flow as If and Loop. A callback becomes a graph whose outer values are used by name, as ONNX allows. */
#include "kit/models/write.h"

static void *room(ow *w, int n, size_t size)
{
	void *p = ox_take(&w->mem, ((size_t)n + 1) * size);
	if (!p) kit_no_memory(&w->why);
	return p;
}

/* Writes the nodes of a callback to w->body; operand: by operand of the node around it. out: its outputs. */
static bool region(ow *w, tj_graph *g, const ow_v *operand, ow_v *out)
{
	int k;
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n)) { /* it may be written more than once */
		ow_node *x = ow_of(w, n);
		const char *source = tj_node_source(n, &k);
		if (!x) return false;
		x->value = source && !strcmp(source, "operand") ? operand[k] : 0;
		x->result = NULL, x->nresult = 0;
	}
	if (!ow_write_graph(w, g)) return false;
	for (int i = 0; i < tj_graph_outputs(g); i++) out[i] = ow_value_of(w, tj_graph_output(g, i));
	return true;
}

/* A value of the graph that is written now, as outputs of graphs must be. */
static ow_v own(ow *w, ow_v v) { return ow_op1(w, "Identity", v); }

static ow_v *results(ow *w, tj_node *n, tj_graph *body)
{
	const int k = tj_graph_outputs(body);
	ow_v *out = room(w, k, sizeof *out);
	for (int i = 0; out && i < k; i++) {
		out[i] = ow_new_value(w, NULL, tj_node_dtype(tj_graph_output(body, i)));
		ow_result(w, n, i, out[i]);
	}
	return out;
}

static bool branch(ow *w, tj_graph *g, const ow_v *x, const char *name, ow_bytes *to)
{
	const int n = tj_graph_outputs(g);
	ow_bytes *outer = w->body;
	ow_v *out = room(w, n, sizeof *out);
	w->body = to;
	bool ok = out && region(w, g, x, out);
	for (int i = 0; ok && i < n; i++) out[i] = own(w, out[i]);
	w->body = outer;
	ow_put_text(to, 2, name);
	for (int i = 0; ok && i < n; i++) ow_put_info(w, to, 12, out[i], tj_graph_output(g, i), -1);
	return ok;
}

ow_v ow_cond(ow *w, tj_node *n, const ow_v *x)
{
	tj_graph *yes = tj_node_region(n, 0), *no = tj_node_region(n, 1);
	ow_bytes g[2] = { { 0 }, { 0 } };
	ow_v *out = yes ? results(w, n, yes) : NULL;
	if (out && no && branch(w, yes, x, "then", &g[0]) && branch(w, no, x, "else", &g[1])) {
		const ow_v c = ow_convert(w, x[0], TJ_BOOL);
		w->at = n;
		ow_attr_graph(w, "then_branch", &g[0]);
		ow_attr_graph(w, "else_branch", &g[1]);
		ow_emit(w, "If", 1, &c, tj_graph_outputs(yes), out);
	}
	free(g[0].v);
	free(g[1].v);
	return 0;
}

/* ---- loops ---- */
typedef struct loop {
	tj_node *n;
	tj_graph *body, *cond; /* cond NULL: a scan */
	const ow_v *x;
	int nsrc, nout, carries, xs;
	bool reverse;
	ow_v most; /* turns; 0: no limit */
} loop;

/* The graph of a turn: its number and the condition, then the carries; outputs: the condition, the new carries, the slices. */
static bool turn(ow *w, loop *l, ow_bytes *g)
{
	ow_bytes *outer = w->body;
	ow_v *operand = room(w, l->nsrc, sizeof *operand), *out = room(w, l->nout, sizeof *out), *in = room(w, l->carries, sizeof *in),
	     go[1] = { 0 };
	const ow_v i = ow_new_value(w, NULL, TJ_I64), c = ow_new_value(w, NULL, TJ_BOOL);
	if (!operand || !out || !in) return false;
	for (int k = 0; k < l->nsrc; k++) operand[k] = k < l->carries ? ow_new_value(w, NULL, ow_dtype(w, l->x[k])) : l->x[k];
	for (int k = 0; k < l->carries; k++) in[k] = operand[k];
	w->body = g;
	ow_v at = i;
	if (l->reverse) at = ow_op2(w, "Sub", ow_op2(w, "Sub", l->most, ow_const_int(w, TJ_I64, 1)), i);
	for (int k = l->carries; k < l->carries + l->xs; k++) {
		ow_attr_int(w, "axis", 0);
		operand[k] = ow_op2(w, "Gather", l->x[k], at);
	}
	bool ok = region(w, l->body, operand, out);
	for (int k = 0; ok && k < l->nout; k++) out[k] = own(w, out[k]);
	if (ok && l->cond) {
		for (int k = 0; k < l->carries; k++) operand[k] = out[k];
		ok = region(w, l->cond, operand, go);
	} else
		go[0] = c;
	if (ok) go[0] = own(w, go[0]);
	w->body = outer;
	ow_put_text(g, 2, tj_node_op(l->n));
	ow_put_info(w, g, 11, i, NULL, -1);
	ow_put_info(w, g, 11, c, NULL, -1);
	for (int k = 0; ok && k < l->carries; k++) ow_put_info(w, g, 11, in[k], tj_node_input(l->n, k), -1);
	if (ok) ow_put_info(w, g, 12, go[0], NULL, -1);
	for (int k = 0; ok && k < l->nout; k++) ow_put_info(w, g, 12, out[k], tj_graph_output(l->body, k), -1);
	return ok;
}

/* The slices of turns that did not run are 0. */
static ow_v padded(ow *w, ow_v v, int rank, ow_v all)
{
	const tj_dtype t = ow_dtype(w, v), as = t == TJ_F16 || t == TJ_BF16 ? TJ_F32 : t == TJ_I16 ? TJ_I32 : t;
	int64_t zeros[2 * TJ_MAX_RANK] = { 0 };
	ow_attr_int(w, "start", 0);
	ow_attr_int(w, "end", 1);
	const ow_v count = ow_op(w, "Shape", TJ_I64, 1, &v), missing = ow_op2(w, "Sub", all, count);
	ow_v part[3] = { ow_i64s(w, zeros, rank), missing, rank > 1 ? ow_i64s(w, zeros, rank - 1) : 0 };
	ow_attr_int(w, "axis", 0);
	const ow_v pads = ow_op(w, "Concat", TJ_I64, rank > 1 ? 3 : 2, part), in[] = { ow_cast(w, v, as), pads };
	ow_attr_text(w, "mode", "constant");
	return ow_cast(w, ow_op(w, "Pad", as, 2, in), t);
}

static ow_v reversed(ow *w, ow_v v) { return ow_slice(w, v, 0, ow_i64(w, -1), ow_i64(w, INT64_MIN), ow_i64(w, -1)); }

static void run_loop(ow *w, loop *l, ow_v all)
{
	ow_bytes g = { 0 };
	ow_v *in = room(w, l->carries + 2, sizeof *in), *out = room(w, l->nout, sizeof *out), go[1] = { 0 };
	bool ok = in && out && (!l->cond || region(w, l->cond, l->x, go));
	if (!l->cond) go[0] = ow_const_int(w, TJ_BOOL, 1);
	if (ok && turn(w, l, &g)) {
		in[0] = l->most;
		in[1] = go[0];
		for (int k = 0; k < l->carries; k++) in[2 + k] = l->x[k];
		for (int k = 0; k < l->nout; k++) out[k] = ow_new_value(w, NULL, tj_node_dtype(tj_graph_output(l->body, k)));
		w->at = l->n;
		ow_attr_graph(w, "body", &g);
		ow_emit(w, "Loop", 2 + l->carries, in, l->nout, out);
		for (int k = l->carries; k < l->nout; k++) {
			if (l->reverse) out[k] = reversed(w, out[k]);
			if (all) out[k] = padded(w, out[k], tj_node_rank(tj_graph_output(l->body, k)) + 1, all);
		}
		for (int k = 0; k < l->nout; k++) ow_result(w, l->n, k, out[k]);
	}
	free(g.v);
}

/* Attributes: most turns or 0, number of slices. */
ow_v ow_while(ow *w, tj_node *n, const ow_v *x)
{
	loop l = { .n = n, .cond = tj_node_region(n, 0), .body = tj_node_region(n, 1), .x = x, .nsrc = tj_node_inputs(n) };
	if (!l.cond || !l.body) return kit_no_memory(&w->why), 0;
	l.nout = tj_graph_outputs(l.body);
	l.carries = l.nout - (int)tj_node_attr(n, 1);
	const ow_v most = tj_node_attr(n, 0) ? ow_attr_value(w, n, 0) : 0;
	l.most = most ? ow_squeeze(w, most, (int64_t[]){ 0 }, 1) : 0;
	run_loop(w, &l, most);
	return 0;
}

/* Attributes: carries, xs, slices, reverse, counted. */
ow_v ow_scan_row(ow *w, tj_node *n, const ow_v *x)
{
	loop l = { .n = n, .body = tj_node_region(n, 0), .x = x, .nsrc = tj_node_inputs(n) };
	if (!l.body) return kit_no_memory(&w->why), 0;
	l.nout = tj_graph_outputs(l.body);
	l.carries = (int)tj_node_attr(n, 0);
	l.xs = (int)tj_node_attr(n, 1);
	l.reverse = tj_node_attr(n, 3) != 0;
	const bool counted = tj_node_attr(n, 4) != 0;
	const ow_v all = ow_attr_value(w, n, 2);
	l.most = ow_squeeze(w, all, (int64_t[]){ 0 }, 1);
	if (counted)
		l.most = ow_op2(w, "Min", ow_op2(w, "Max", ow_cast(w, x[l.carries + l.xs], TJ_I64), ow_const_int(w, TJ_I64, 0)), l.most);
	run_loop(w, &l, counted ? all : 0);
	return 0;
}
