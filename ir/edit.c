/* SPDX-License-Identifier: MIT */
/* edit: the graph as a list of nodes that passes of users change. The changed list is emitted into a new graph, so it is
 * simplified; then it is verified.
 *
 *   ir_graph -> tj_graph: a list in order, uses counted -> insert, replace, erase -> ir_graph
 *
 * The first mistake of a pass is kept in the graph and ends the compile. */
#include "ir/edit.h"

/* ---- making it ---- */
static tj_node *new_node(tj_graph *g, int nsrc, int nattr)
{
	tj_node *n = rt_arena_alloc(&g->mem, sizeof *n);
	if (n) n->src = rt_arena_alloc(&g->mem, ((size_t)nsrc + 1) * sizeof *n->src);
	if (n) n->attr = rt_arena_alloc(&g->mem, ((size_t)nattr + 1) * sizeof *n->attr);
	if (!n || !n->src || !n->attr) {
		rt_fail(&g->err, TJ_ERR_NOMEM, "pass", "out of memory");
		return NULL;
	}
	n->g = g;
	n->nsrc = nsrc;
	n->nattr = nattr;
	n->from = n->ref = IR_NONE;
	return n;
}

/* Links a node in front of `before`; NULL: at the end. */
static void link_node(tj_graph *g, tj_node *n, tj_node *before)
{
	n->next = before;
	n->prev = before ? before->prev : g->last;
	*(n->prev ? &n->prev->next : &g->first) = n;
	*(before ? &before->prev : &g->last) = n;
}

static tj_node *import(tj_graph *g, const ir_graph *from, ir_ref r, tj_node *const *map)
{
	const ir_node *x = ir_at(from, r);
	tj_node *n = new_node(g, x->nsrc, x->nattr);
	if (!n) return NULL;
	n->op = x->op;
	n->from = r;
	n->meta = ir_meta_of(from, r);
	n->site = x->site;
	n->mode = x->mode;
	for (int k = 0; k < x->nsrc; k++) {
		n->src[k] = map[ir_src(from, x, k)];
		n->src[k]->uses++;
	}
	if (x->nattr) memcpy(n->attr, ir_attr(from, x), x->nattr * sizeof *n->attr);
	link_node(g, n, NULL);
	return n;
}

bool ir_edit_begin(tj_graph *g, const ir_graph *from)
{
	*g = (tj_graph){ .from = from };
	tj_node **map = rt_arena_alloc(&g->mem, (from->node.n + 1) * sizeof *map);
	bool *live = rt_arena_alloc(&g->mem, from->node.n + 1);
	g->nout = (int)from->out.n;
	g->out = rt_arena_alloc(&g->mem, (from->out.n + 1) * sizeof *g->out);
	if (!map || !live || !g->out || !ir_live(from, live)) return false;
	for (ir_ref r = 0; r < from->node.n; r++)
		if (live[r] && !(map[r] = import(g, from, r, map))) return false;
	for (int i = 0; i < g->nout; i++) {
		g->out[i] = map[from->out.v[i]];
		g->out[i]->uses++;
	}
	return true;
}

void ir_edit_free(tj_graph *g)
{
	for (tj_graph *r = g->inside; r; r = r->beside) ir_edit_free(r);
	if (g->own) ir_graph_free(g->own);
	rt_free(g->own);
	rt_arena_free(&g->mem);
}

/* ---- reading it as a whole ---- */
/* Emits node r of `from` once more; a known number as a constant, a composite that does not stay as its parts. */
static ir_ref read_node(const tj_graph *g, ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src, const bool *stays)
{
	const ir_node *n = ir_at(from, r);
	const ir_reading *q = g->reading;
	if (stays)
		return ir_is_composite(n->op, (tj_dtype)n->dtype) && !stays[r] ? ir_decompose(to, from, r, src) : ir_copy(to, from, r, src);
	const uint32_t slot = n->op == IR_num ? (uint32_t)ir_attr(from, n)[0] : 0;
	if (n->op != IR_num || slot >= q->nnumber || q->number[slot].kind != IR_FROM_NUMBER) return ir_copy(to, from, r, src);
	if (n->dtype == TJ_I64) return ir_const_i(to, TJ_I64, 0, NULL, (int64_t)q->number[slot].bits);
	double v;
	memcpy(&v, &q->number[slot].bits, sizeof v);
	return ir_const_f(to, (tj_dtype)n->dtype, 0, NULL, v);
}

static bool read_nodes(const tj_graph *g, ir_graph *to, const ir_graph *from, const bool *stays)
{
	rt_arena mem = { 0 };
	bool *live = rt_arena_alloc(&mem, from->node.n + 1);
	ir_ref *map = rt_arena_alloc(&mem, ((size_t)from->node.n + 1) * sizeof *map),
	       *src = rt_arena_alloc(&mem, ((size_t)from->refs.n + 1) * sizeof *src);
	bool ok = live && map && src && ir_live(from, live);
	for (ir_ref r = 0; ok && r < from->node.n; r++) {
		if (!live[r]) continue;
		for (int k = 0; k < ir_at(from, r)->nsrc; k++) src[k] = map[ir_src(from, ir_at(from, r), k)];
		ok = (map[r] = read_node(g, to, from, r, src, stays)) != IR_NONE;
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = ir_ret(to, map[from->out.v[i]]);
	if (!ok) rt_fail(&to->err, TJ_ERR_NOMEM, "graph", "out of memory");
	rt_arena_free(&mem);
	return ok;
}

static bool edit_again(tj_graph *g, const ir_graph *from)
{
	tj_graph old = *g;
	const bool ok = ir_edit_begin(g, from);
	g->reading = old.reading;
	g->own = old.own;
	g->up = old.up, g->beside = old.beside, g->flow = old.flow, g->which = old.which;
	old.own = NULL;
	ir_edit_free(&old); /* with regions that .keeps asked for */
	return ok;
}

/* Which composites stay, by node of g->own. */
static const bool *ask(tj_graph *g)
{
	bool *stays = rt_arena_alloc(&g->mem, g->own->node.n + 1);
	for (tj_node *n = g->first; n && stays; n = n->next)
		stays[n->from] = !g->reading->keeps || !ir_is_composite(n->op, (tj_dtype)n->meta.dtype) || g->reading->keeps(g->reading->self, n);
	return stays;
}

/* Two passes: what decides about a composite may be a number. */
bool ir_edit_read(tj_graph *g, const ir_graph *from, const ir_reading *r)
{
	*g = (tj_graph){ .reading = r };
	ir_graph *numbers = rt_calloc(sizeof *numbers), *parts = rt_calloc(sizeof *parts);
	const bool *stays = NULL;
	if (numbers) ir_graph_init(numbers);
	if (parts) ir_graph_init(parts);
	g->own = numbers;
	bool ok = numbers && parts && read_nodes(g, numbers, from, NULL) && edit_again(g, numbers) && (stays = ask(g)) &&
	          read_nodes(g, parts, numbers, stays);
	if (ok) {
		g->own = parts;
		ok = edit_again(g, parts);
		ir_graph_free(numbers);
		rt_free(numbers);
	} else {
		if (numbers && numbers->err.code != TJ_OK)
			g->err = numbers->err;
		else if (parts)
			g->err = parts->err;
		if (parts) ir_graph_free(parts);
		rt_free(parts);
	}
	return ok;
}

/* The graph is made when it is first asked for, and freed with g. */
tj_graph *tj_node_region(tj_node *n, int k)
{
	if (!n || !ir_is_flow(n->op) || n->from == IR_NONE || k < 0 || k >= ir_flow_info(n->op)->nregion) return NULL;
	for (tj_graph *r = n->g->inside; r; r = r->beside)
		if (r->flow == n && r->which == k) return r;
	tj_graph *r = rt_arena_alloc(&n->g->mem, sizeof *r);
	const ir_graph *from = ir_flow_region(n->g->from, ir_at(n->g->from, n->from), k);
	if (!r) return NULL;
	const bool ok = n->g->reading ? ir_edit_read(r, from, n->g->reading) : ir_edit_begin(r, from);
	if (!ok) {
		if (n->g->err.code == TJ_OK) n->g->err = r->err;
		ir_edit_free(r);
		return NULL;
	}
	r->up = n->g, r->flow = n, r->which = k;
	r->beside = n->g->inside;
	n->g->inside = r;
	return r;
}

const char *tj_node_source(const tj_node *n, int *index)
{
	static const char *const names[] = { NULL, "argument", "variable", "scalar", "number", "operand" };
	ir_source s = { 0 };
	const int slot = tj_node_slot(n);
	if (slot < 0) return NULL;
	const ir_reading *q = n->g->reading;
	if (n->op == IR_input && n->g->up)
		s = (ir_source){ .kind = IR_FROM_OPERAND, .index = (uint32_t)slot + (n->g->flow->op == IR_cond) };
	else if (q && n->op == IR_input && (uint32_t)slot < q->ninput)
		s = q->input[slot];
	else if (q && n->op == IR_num && (uint32_t)slot < q->nnumber)
		s = q->number[slot];
	if (index) *index = (int)s.index;
	return names[s.kind];
}

/* ---- giving it back ---- */
static ir_ref emit_node(const tj_graph *g, ir_graph *to, tj_node *n, ir_ref *src)
{
	if (n->bytes) return ir_data_(to, &n->meta, n->bytes, n->site);
	for (int k = 0; k < n->nsrc; k++) src[k] = n->src[k]->ref;
	if (n->op == IR_get) return ir_get(to, src[0], (int)n->attr[0], n->site);
	if (n->op >= IR_OPS) return ir_copy(to, g->from, n->from, src);
	to->mode = n->mode;
	return ir_emit(to, (ir_op)n->op, n->nsrc, src, n->nattr, n->attr, n->site);
}

/* Checks that operands stand before their users. */
static bool in_order(tj_graph *g, const tj_node *n)
{
	for (int k = 0; k < n->nsrc; k++) {
		if (n->src[k]->ref != IR_NONE) continue;
		rt_fail(&g->err, TJ_ERR_ARG, "pass", "operand %d of %s comes after it: insert the operand before", k, ir_ops[n->op].name);
		return false;
	}
	return true;
}

/* Marks the nodes that the outputs need. Gives the largest number of operands of a node. */
static int mark_live(tj_graph *g)
{
	int most = 0;
	for (tj_node *n = g->first; n; n = n->next) {
		n->ref = IR_NONE;
		n->live = false;
	}
	for (int i = 0; i < g->nout; i++) g->out[i]->live = true;
	for (tj_node *n = g->last; n; n = n->prev) {
		most = n->nsrc > most ? n->nsrc : most;
		for (int k = 0; k < n->nsrc; k++) n->src[k]->live |= n->live;
	}
	return most;
}

bool ir_edit_end(tj_graph *g, ir_graph *to)
{
	int most = mark_live(g);
	ir_ref *src = rt_arena_alloc(&g->mem, ((size_t)most + 1) * sizeof *src);
	for (tj_node *n = g->first; n && src && g->err.code == TJ_OK; n = n->next) {
		if (!n->live) continue;
		if (!in_order(g, n)) break;
		n->ref = emit_node(g, to, n, src);
		if (n->ref == IR_NONE) g->err = to->err;
	}
	for (int i = 0; i < g->nout && g->err.code == TJ_OK; i++)
		if (g->out[i]->ref == IR_NONE || !ir_ret(to, g->out[i]->ref)) rt_fail(&g->err, TJ_ERR_ARG, "pass", "output %d was erased", i);
	if (!src) rt_fail(&g->err, TJ_ERR_NOMEM, "pass", "out of memory");
	return g->err.code == TJ_OK && ir_verify(to, &g->err) == TJ_OK;
}

/* ---- looking at it ---- NULL, which tj_graph_insert() gives after an error, has no inputs, no sizes and no data. */
tj_node *tj_graph_first(const tj_graph *g) { return g ? g->first : NULL; }
tj_node *tj_node_next(const tj_node *n) { return n ? n->next : NULL; }
int tj_graph_outputs(const tj_graph *g) { return g ? g->nout : 0; }
tj_node *tj_graph_output(const tj_graph *g, int i) { return i >= 0 && i < tj_graph_outputs(g) ? g->out[i] : NULL; }
int tj_node_inputs(const tj_node *n) { return n ? n->nsrc : 0; }
tj_node *tj_node_input(const tj_node *n, int k) { return k >= 0 && k < tj_node_inputs(n) ? n->src[k] : NULL; }
int tj_node_uses(const tj_node *n) { return n ? n->uses : 0; }
static int regions(const tj_node *n) { return ir_is_flow(n->op) ? ir_flow_info(n->op)->nregion : 0; }
int tj_node_attrs(const tj_node *n) { return n && (n->op < IR_OPS || n->op == IR_get || ir_is_flow(n->op)) ? n->nattr - regions(n) : 0; }
int64_t tj_node_attr(const tj_node *n, int k) { return k >= 0 && k < tj_node_attrs(n) ? n->attr[regions(n) + k] : 0; }
tj_dtype tj_node_dtype(const tj_node *n) { return n ? (tj_dtype)n->meta.dtype : TJ_F32; }
tj_device tj_node_device(const tj_node *n) { return n ? n->meta.device : -1; }
int tj_node_rank(const tj_node *n) { return n ? n->meta.rank : -1; }
tj_numerics tj_node_numerics(const tj_node *n) { return n && n->mode & IR_FAST ? TJ_FAST : TJ_STRICT; }
const char *tj_node_site(const tj_node *n) { return n && n->site ? n->site : "?"; }

int64_t tj_node_dim(const tj_node *n, int axis)
{
	int rank = tj_node_rank(n);
	if (axis < 0) axis += rank;
	return axis >= 0 && axis < rank ? n->meta.dim[axis] : -1;
}

const char *tj_node_op(const tj_node *n)
{
	if (!n) return "?";
	if (n->bytes || n->op == IR_data || n->op == IR_const) return "constant";
	if (n->op == IR_num) return "number";
	return ir_ops[n->op].name;
}

int tj_node_slot(const tj_node *n) { return n && (n->op == IR_input || n->op == IR_num) ? (int)n->attr[0] : -1; }

/* An input's attributes are slot, offset, strides. */
const int64_t *tj_node_strides(const tj_node *n) { return n && n->op == IR_input ? n->attr + 2 : NULL; }

static void *fill(tj_node *n)
{
	int64_t numel = 1;
	size_t size = tj_dtype_size(tj_node_dtype(n));
	rt_numel(n->meta.rank, n->meta.dim, &numel);
	char *p = rt_arena_alloc(&n->g->mem, (size_t)numel * size + 1);
	const ir_scalar s = ir_const_value(n->g->from, ir_at(n->g->from, n->from));
	for (int64_t i = 0; p && i < numel; i++) ir_store(tj_node_dtype(n), p + (size_t)i * size, s);
	return p;
}

const void *tj_node_data(tj_node *n)
{
	if (!n) return NULL;
	if (n->bytes) return n->bytes;
	if (n->op == IR_data) return n->g->from->data.v[n->attr[0]].bytes;
	return n->op == IR_const ? fill(n) : NULL;
}

void tj_graph_print(tj_graph *g, FILE *out, tj_dump_what what)
{
	ir_graph flat;
	rt_text t = { 0 };
	if (!g || !out) return;
	rt_err was = g->err;
	ir_graph_init(&flat);
	flat.off = IR_OFF_FOLD | IR_OFF_CSE;
	if (ir_edit_end(g, &flat)) (what == TJ_DUMP_TABLE ? ir_table : what == TJ_DUMP_DOT ? ir_dot : ir_print)(&flat, &t);
	else rt_putf(&t, "%s\n", g->err.message);
	g->err = was;
	fputs(rt_str(&t), out);
	rt_text_free(&t);
	ir_graph_free(&flat);
}

/* ---- changing it ---- */

/* The node is in the list; else an error. what: the call and the operand, for the message. */
static bool stands(tj_graph *g, const tj_node *n, const char *what)
{
	if (!g) return false; /* there is no graph to keep an error */
	if (n && !n->erased) return true;
	rt_fail(&g->err, TJ_ERR_ARG, "pass", "%s: %s", what, n ? "the node was erased" : "the node is NULL");
	return false;
}

static int op_named(const char *name)
{
	for (int op = 0; name && op < IR_OPS; op++)
		if (!strcmp(ir_ops[op].name, name)) return op;
	return name && !strcmp(name, ir_ops[IR_get].name) ? IR_get : -1;
}

/* ---- nodes with several results ---- */
static bool is_tuple(const tj_node *n) { return ir_ops[n->op].nresult != 1; }

static int results(const tj_node *n)
{
	return ir_is_flow(n->op) ? ir_flow_results(n->g->from, ir_at(n->g->from, n->from)) : ir_ops[n->op].nresult;
}

static bool result_type(const tj_node *n, int i, ir_meta *m, rt_err *err)
{
	ir_meta src[IR_MOST_SOURCES];
	if (i < 0 || i >= results(n) || (!ir_is_flow(n->op) && n->nsrc > IR_MOST_SOURCES))
		return rt_fail(err, TJ_ERR_ARG, "pass", "%s has no result %d", tj_node_op(n), i), false;
	if (ir_is_flow(n->op)) return *m = ir_flow_result(n->g->from, ir_at(n->g->from, n->from), i), true;
	for (int k = 0; k < n->nsrc; k++) src[k] = n->src[k]->meta;
	return ir_infer_result((ir_op)n->op, i, n->nsrc, src, n->nattr, n->attr, m, err) == TJ_OK;
}

/* Both have the same types in all their results. */
static bool alike(const tj_node *a, const tj_node *b)
{
	rt_err err = { 0 };
	if (is_tuple(a) != is_tuple(b) || (is_tuple(a) && results(a) != results(b))) return false;
	for (int i = 0; is_tuple(a) && i < results(a); i++) {
		ir_meta x, y;
		if (!result_type(a, i, &x, &err) || !result_type(b, i, &y, &err) || !ir_same_type(&x, &y)) return false;
	}
	return ir_same_type(&a->meta, &b->meta);
}

/* The type of the inserted node. */
static bool type_of(tj_graph *g, ir_op op, tj_node *const *inputs, int n, const int64_t *attrs, int nattr, ir_meta *m)
{
	if (op == IR_get) {
		if (n == 1 && nattr == 1 && is_tuple(inputs[0]))
			return result_type(inputs[0], attrs[0] >= 0 && attrs[0] < UINT16_MAX ? (int)attrs[0] : -1, m, &g->err);
		return rt_fail(&g->err, TJ_ERR_ARG, "pass", "insert get: it needs a node with several results, and the number of one of them"), false;
	}
	ir_meta *meta = rt_arena_alloc(&g->mem, ((size_t)n + 1) * sizeof *meta);
	if (!meta) return rt_fail(&g->err, TJ_ERR_NOMEM, "pass", "out of memory"), false;
	for (int k = 0; k < n; k++) {
		if (is_tuple(inputs[k]))
			return rt_fail(&g->err, TJ_ERR_ARG, "pass", "insert %s: operand %d has several results: insert a get",
			               ir_ops[op].name, k),
			       false;
		meta[k] = inputs[k]->meta;
	}
	return ir_infer(op, n, meta, nattr, attrs, m, NULL, NULL, NULL, &g->err) == TJ_OK;
}

/* What is wrong with the lists of an insert; NULL: nothing. */
static const char *bad_lists(tj_node *const *inputs, int n, const int64_t *attrs, int nattr)
{
	if (n < 0) return "the number of inputs is negative";
	if (nattr < 0) return "the number of attributes is negative";
	if (n && !inputs) return "the list of inputs is NULL";
	return nattr && !attrs ? "the list of attributes is NULL" : NULL;
}

tj_node *tj_graph_insert(tj_graph *g, tj_node *before, const char *op, tj_node *const *inputs, int n, const int64_t *attrs, int nattr)
{
	int o = op_named(op);
	const char *wrong = bad_lists(inputs, n, attrs, nattr);
	if (!g || (before && !stands(g, before, "insert"))) return NULL;
	if (wrong) return rt_fail(&g->err, TJ_ERR_ARG, "pass", "insert %s: %s", op ? op : "NULL", wrong), NULL;
	if (o < 0) return rt_fail(&g->err, TJ_ERR_ARG, "pass", "insert: no op is called \"%s\"", op ? op : "NULL"), NULL;
	tj_node *x = new_node(g, n, nattr);
	if (!x) return NULL;
	for (int k = 0; k < n; k++) {
		if (!stands(g, inputs[k], "insert, an operand")) return NULL;
		x->src[k] = inputs[k];
	}
	if (!type_of(g, (ir_op)o, inputs, n, attrs, nattr, &x->meta)) return NULL;
	for (int k = 0; k < n; k++) inputs[k]->uses++;
	if (nattr) memcpy(x->attr, attrs, (size_t)nattr * sizeof *attrs);
	x->op = (uint16_t)o;
	x->site = before ? before->site : NULL;
	x->mode = before && ir_has_mode(o) ? before->mode : 0;
	link_node(g, x, before);
	return x;
}

tj_node *tj_graph_insert_constant(tj_graph *g, tj_node *before, tj_dtype dtype, tj_dims shape, const void *data)
{
	tj_node *x = g ? new_node(g, 0, 0) : NULL;
	int64_t numel = 0;
	if (!x || (before && !stands(g, before, "insert_constant"))) return NULL;
	x->meta.dtype = (uint8_t)dtype;
	if (before) x->meta.device = before->meta.device;
	for (; shape && shape[x->meta.rank] != TJ_END_DIM && x->meta.rank < TJ_MAX_RANK; x->meta.rank++)
		x->meta.dim[x->meta.rank] = shape[x->meta.rank];
	bool ends = shape && shape[x->meta.rank] == TJ_END_DIM;
	if ((unsigned)dtype >= TJ_DTYPE_COUNT) {
		rt_fail(&g->err, TJ_ERR_DTYPE, "pass", "insert_constant: %d is not a dtype", (int)dtype);
		return rt_hint(&g->err, "%s", rt_dtype_advice(NULL, 0)), NULL;
	}
	if (!ends || !data || !rt_numel(x->meta.rank, x->meta.dim, &numel))
		return rt_fail(&g->err, TJ_ERR_ARG, "pass", "insert_constant: a shape and data are needed"), NULL;
	x->bytes = rt_arena_alloc(&g->mem, (size_t)numel * tj_dtype_size(dtype) + 1);
	if (!x->bytes) return rt_fail(&g->err, TJ_ERR_NOMEM, "pass", "out of memory"), NULL;
	memcpy(x->bytes, data, (size_t)numel * tj_dtype_size(dtype));
	x->op = IR_data;
	x->site = before ? before->site : NULL;
	link_node(g, x, before);
	return x;
}

bool tj_graph_replace(tj_graph *g, tj_node *old, tj_node *with)
{
	if (!stands(g, old, "replace") || !stands(g, with, "replace")) return false;
	if (!alike(old, with)) {
		rt_fail(&g->err, TJ_ERR_ARG, "pass", "replace: %s and %s differ in dtype, shape or device", tj_node_op(old), tj_node_op(with));
		return false;
	}
	g->changed |= old != with && old->uses;
	for (tj_node *n = g->first; n; n = n->next)
		for (int k = 0; k < n->nsrc; k++)
			if (n->src[k] == old && n != with) n->src[k] = with, old->uses--, with->uses++;
	for (int i = 0; i < g->nout; i++)
		if (g->out[i] == old) g->out[i] = with, old->uses--, with->uses++;
	return true;
}

void tj_graph_keeps_values(tj_graph *g)
{
	if (g) g->keeps_values = true;
}

bool tj_graph_erase(tj_graph *g, tj_node *n)
{
	if (!stands(g, n, "erase")) return false;
	if (n->uses) return rt_fail(&g->err, TJ_ERR_ARG, "pass", "erase: %s still has %d uses", tj_node_op(n), n->uses), false;
	n->erased = true;
	for (int k = 0; k < n->nsrc; k++) n->src[k]->uses--;
	*(n->prev ? &n->prev->next : &g->first) = n->next;
	*(n->next ? &n->next->prev : &g->last) = n->prev;
	return true;
}
