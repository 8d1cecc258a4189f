/* SPDX-License-Identifier: MIT */
/* kvalue: makes the instructions for the values of a group.
 *
 * requires every lo_use of the group settled; a value has one instruction in a section */
#include "lower/fuse.h"
#include "lower/kbuild.h"

/* ---- where a value comes from ---- */
lo_mem_info *lo_member(lo_builder *B, ir_ref r)
{
	uint32_t lo = 0, hi = B->nmem;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (B->mem[mid].ref < r) lo = mid + 1;
		else hi = mid;
	}
	return lo < B->nmem && B->mem[lo].ref == r ? &B->mem[lo] : NULL;
}

/* The load reads the leaf's own memory, by the input's strides, not its row-major copy: as it would rather do, if the group has an index
 * there. Asked only now, because a group may get an r after its operands are settled. */
static bool reads_leaf(const lo_builder *B, const lo_use *u)
{
	const ir_node *n = lo_node(B->L, u->value);
	if (u->late || n->op != IR_input || !B->L->val[u->value].own) return u->leaf;
	const lo_expr e = u->leaf ? lo_linear(B->G, u->map, ir_attr(B->L->g, n) + 2) : lo_row_major(B->L, B->G, u->value, u->map);
	return lo_has_index(B->G, &e) == u->leaf;
}

static lo_expr load_index(const lo_builder *B, const lo_use *u, bool leaf)
{
	const ir_node *n = lo_node(B->L, u->value);
	return leaf && n->op == IR_input ? lo_linear(B->G, u->map, ir_attr(B->L->g, n) + 2) : lo_row_major(B->L, B->G, u->value, u->map);
}

lo_source lo_source_of(lo_builder *B, const lo_use *u)
{
	while (u->from == LO_FROM_VIEW) u = u->src[0];
	lo_source s = { .from = (lo_from)u->from, .ref = u->value, .map = u->map, .use = u };
	if (s.from != LO_FROM_LOAD) return s;
	const bool leaf = reads_leaf(B, u);
	s.buf = u->late ? B->L->val[u->base].late : leaf ? lo_leaf_buf(B->L, u->base) : lo_buf_of(B->L, u->base);
	s.at = load_index(B, u, leaf);
	return s;
}

int lo_operands(lo_builder *B, const lo_use *u, lo_source *s)
{
	int count = 0;
	for (int k = 0; k < lo_node(B->L, u->value)->nsrc; k++)
		if (u->src[k]) s[count++] = lo_source_of(B, u->src[k]);
	return count;
}

bool lo_source_in_r(const lo_builder *B, const lo_source *s)
{
	if (s->from == LO_FROM_LOAD) return lo_in_r(B->G, &s->at);
	return s->from == LO_FROM_OP && lo_map_in_r(B->G, s->map);
}

bool lo_heavy(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	return ir_ops[n->op].flags & (IR_MATH | IR_RNG) || lo_is_gather((ir_op)n->op);
}

/* ---- instructions ---- */
uint32_t lo_add(lo_builder *B, lo_ins i)
{
	uint32_t id = lo_append(B->k, i);
	if (id == LO_NOREF) B->L->oom = true;
	return id;
}

static uint32_t prim(lo_builder *B, lo_op op, tj_dtype t, int n, uint32_t a, uint32_t b, uint32_t c)
{
	return lo_add(B,
	              (lo_ins){ .op = (uint8_t)op, .dtype = (uint8_t)t, .nsrc = (uint8_t)n, .src = { a, b, c } });
}

static uint32_t constant(lo_builder *B, tj_dtype t, int64_t bits)
{
	return lo_add(B, (lo_ins){ .op = LO_CONST, .dtype = (uint8_t)t, .imm = bits });
}

static int64_t const_bits(const lo_low *L, const ir_node *n)
{
	ir_scalar v = ir_const_value(L->g, n);
	int64_t bits = 0;
	if (!rt_is_float((tj_dtype)n->dtype)) return v.i;
	ir_store((tj_dtype)n->dtype, &bits, v); /* little endian: the low bytes */
	return bits;
}

/* Turns an expression over atoms into one over the kernel's dimensions. */
static lo_index index_of(lo_builder *B, const lo_expr *e)
{
	const lo_group *G = B->G;
	lo_index x = { .offset = e->off };
	if (!rt_push(&B->seen, *e)) B->L->oom = true;
	if (!lo_r_term(G, e, &x.rcoef, &x.group)) {
		x.group = 0;
		lo_r_jumps(G, e, &x.rcoef, x.jump);
	}
	if (x.group == 1) x.group = 0;
	for (int d = 0; d < B->ndim; d++)
		if (B->inner[d] >= 0) x.coef[d] = e->c[B->inner[d]];
	return x;
}

static uint32_t put_index(lo_builder *B, const lo_expr *e)
{
	lo_index x = index_of(B, e);
	for (uint32_t i = 0; i < B->k->index.n; i++)
		if (!memcmp(&B->k->index.v[i], &x, sizeof x)) return i;
	if (!rt_push(&B->k->index, x)) B->L->oom = true;
	return B->k->index.n - 1;
}

/* The value of an index expression, in i64. */
static uint32_t index_value(lo_builder *B, const lo_expr *e)
{
	lo_index x = index_of(B, e);
	uint32_t sum = LO_NOREF;
	for (int d = -1; d < B->ndim; d++) {
		int64_t c = d < 0 ? x.rcoef : x.coef[d];
		if (!c) continue;
		uint32_t i = lo_add(B, (lo_ins){ .op = LO_INDEX, .dtype = TJ_I64, .imm = d < 0 ? LO_R : d });
		if (c != 1) i = prim(B, LO_MUL, TJ_I64, 2, i, constant(B, TJ_I64, c), 0);
		sum = sum == LO_NOREF ? i : prim(B, LO_ADD, TJ_I64, 2, sum, i, 0);
	}
	if (sum == LO_NOREF) return constant(B, TJ_I64, x.offset);
	return x.offset ? prim(B, LO_ADD, TJ_I64, 2, sum, constant(B, TJ_I64, x.offset), 0) : sum;
}

uint32_t lo_kbuf(lo_builder *B, uint32_t buf, tj_dtype t, lo_role role)
{
	for (uint32_t i = 0; i < B->kbuf.n; i++)
		if (buf != LO_NOBUF && B->kbuf.v[i] == buf && B->k->buf.v[i].role == role) return i;
	lo_buf kb = { .dtype = (uint8_t)t, .role = (uint8_t)role };
	if (buf != LO_NOBUF)
		kb.aligned = B->L->buf.v[buf].place == RT_AT_ARENA || B->L->buf.v[buf].place == RT_AT_CONST;
	if (!rt_push(&B->k->buf, kb) || !rt_push(&B->kbuf, buf)) B->L->oom = true;
	return B->k->buf.n - 1;
}

static uint32_t load(lo_builder *B, uint32_t kbuf, tj_dtype t, const lo_expr *e, uint32_t dyn,
                     int64_t dyn_stride)
{
	return lo_add(B, (lo_ins){ .op = LO_LOAD,
	                           .dtype = (uint8_t)t,
	                           .buf = kbuf,
	                           .index = put_index(B, e),
	                           .dyn = dyn,
	                           .dyn_stride = dyn_stride });
}

void lo_store(lo_builder *B, uint32_t kbuf, const lo_expr *e, uint32_t v, tj_dtype t)
{
	lo_add(B, (lo_ins){ .op = LO_STORE,
	                    .dtype = (uint8_t)t,
	                    .nsrc = 1,
	                    .src = { v },
	                    .buf = kbuf,
	                    .index = put_index(B, e),
	                    .dyn = LO_NOREF });
}

/* ---- ops ---- */
static void fault(lo_builder *B, const ir_node *n, uint32_t when, tj_status code, int64_t size)
{
	lo_kernel *k = B->k;
	lo_add(B, (lo_ins){ .op = LO_FAULT, .dtype = TJ_BOOL, .nsrc = 1, .src = { when }, .imm = k->fault_site.n });
	if (!rt_push(&k->fault_site, n->site) || !rt_push(&k->fault_code, (uint8_t)code) ||
	    !rt_push(&B->fault, ((lo_fault){ ir_ops[n->op].name, size })))
		B->L->oom = true;
}

/* Integer division. Division by zero is never executed: it is a fault, or gives 0. */
static uint32_t divide(lo_builder *B, const ir_node *n, tj_dtype t, uint32_t *src)
{
	uint32_t zero = constant(B, t, 0), is = prim(B, LO_EQ, TJ_BOOL, 2, src[1], zero, 0);
	if (!B->L->o->int_div_zero) fault(B, n, is, TJ_ERR_DIV, 0);
	src[1] = prim(B, LO_SELECT, t, 3, is, constant(B, t, 1), src[1]);
	uint32_t q = lo_point(B->k, (ir_op)n->op, t, (tj_dtype)n->dtype, src);
	return B->L->o->int_div_zero ? prim(B, LO_SELECT, (tj_dtype)n->dtype, 3, is, zero, q) : q;
}

/* Compares integers of a dtype t narrower than i64 with a run-time number n. The result is that of an i64 comparison, but it is
 * made in t, with near(n), the value of t that is nearest to n:
 *
 *   x < n   =>   x < near(n) or n > most        x == n   =>   x == near(n) and near(n) == n
 *
 * The terms in n alone are computed once, before the loop. LO_NOREF: the operands are not of this kind. */
static uint32_t compare_narrow(lo_builder *B, const ir_node *n, const uint32_t *src)
{
	static const lo_op mirror[] = { LO_EQ, LO_NE, LO_GT, LO_GE, LO_LT, LO_LE }, flag[] = { LO_EQ, LO_NE, LO_GT, LO_GE, LO_LT, LO_LE };
	if (n->op < IR_eq || n->op > IR_ge) return LO_NOREF;
	int right = B->k->ins.v[src[1]].op == LO_NUM, which = n->op - IR_eq;
	uint32_t num = src[right];
	const lo_ins x = B->k->ins.v[src[!right]];
	if (B->k->ins.v[num].op != LO_NUM || B->k->ins.v[num].dtype != TJ_I64 || x.op != LO_CONVERT) return LO_NOREF;
	tj_dtype t = (tj_dtype)B->k->ins.v[x.src[0]].dtype;
	if (rt_dtype_cat(t) != RT_INT || t == TJ_I64) return LO_NOREF;
	if (!right) which = mirror[which] - LO_EQ;
	uint32_t least = constant(B, TJ_I64, rt_dtype_min(t)), most = constant(B, TJ_I64, rt_dtype_max(t));
	uint32_t low = prim(B, LO_LT, TJ_BOOL, 2, num, least, 0), high = prim(B, LO_GT, TJ_BOOL, 2, num, most, 0);
	uint32_t near = prim(B, LO_SELECT, TJ_I64, 3, low, least, prim(B, LO_SELECT, TJ_I64, 3, high, most, num));
	uint32_t edge = which < 2 ? near : which == 2 || which == 5 ? most : least; /* the bound that n is compared with */
	uint32_t alone = prim(B, flag[which], TJ_BOOL, 2, num, edge, 0);
	uint32_t here = prim(B, (lo_op)(LO_EQ + which), TJ_BOOL, 2, x.src[0], lo_cast(B->k, near, t), 0);
	bool either = which == 1 || which == 2 || which == 4; /* !=, <, > are true if `here` or `alone` is; ==, <=, >= need both */
	return prim(B, either ? LO_OR : LO_AND, TJ_BOOL, 2, here, alone, 0);
}

static uint32_t point(lo_builder *B, const ir_node *n, uint32_t *src)
{
	if (n->op == IR_cast || n->op == IR_full) return lo_cast(B->k, src[0], (tj_dtype)n->dtype);
	uint32_t narrow = compare_narrow(B, n, src);
	if (narrow != LO_NOREF) return narrow;
	tj_dtype compute = (tj_dtype)B->k->ins.v[src[n->op == IR_where]].dtype;
	if (rt_dtype_class(compute) == RT_I && ir_divides(n->op)) return divide(B, n, compute, src);
	uint32_t fast = n->mode & IR_FAST ? lo_fast_point(B->L, B->k, n, compute, src) : LO_NOREF;
	return fast != LO_NOREF ? fast : lo_point(B->k, (ir_op)n->op, compute, (tj_dtype)n->dtype, src);
}

/* An index that was widened from bytes or bools is less than size, whatever it is. */
static bool is_in_range(const lo_builder *B, uint32_t index, int64_t size)
{
	const lo_ins *in = &B->k->ins.v[index];
	if (in->op != LO_CONVERT || in->dtype != TJ_I64 || lo_moves(&B->L->o->moving, size)) return false;
	const uint8_t from = B->k->ins.v[in->src[0]].dtype;
	return (from == TJ_U8 && size > UINT8_MAX) || (from == TJ_BOOL && size > 1);
}

/* An index that was widened is compared with the size before that, if its dtype has the size. */
static uint32_t unwidened(const lo_builder *B, uint32_t i, int64_t size)
{
	const lo_ins *in = &B->k->ins.v[i];
	if (in->op != LO_CONVERT || lo_moves(&B->L->o->moving, size)) return i;
	const tj_dtype t = (tj_dtype)B->k->ins.v[in->src[0]].dtype;
	return rt_dtype_cat(t) == RT_INT && size <= rt_dtype_max(t) ? in->src[0] : i;
}

/* An index operand as i64 in [0, size). If it is out of range, the run faults and 0 is used. */
static uint32_t checked(lo_builder *B, const ir_node *n, uint32_t index, int64_t size)
{
	uint32_t i = lo_cast(B->k, index, TJ_I64);
	if (is_in_range(B, i, size)) return i;
	i = unwidened(B, i, size);
	const tj_dtype t = (tj_dtype)B->k->ins.v[i].dtype;
	uint32_t zero = constant(B, t, 0), bad = prim(B, LO_GE, TJ_BOOL, 2, i, constant(B, t, size), 0);
	if (rt_is_signed(t)) bad = prim(B, LO_OR, TJ_BOOL, 2, prim(B, LO_LT, TJ_BOOL, 2, i, zero, 0), bad, 0);
	fault(B, n, bad, TJ_ERR_INDEX, size);
	return lo_cast(B->k, prim(B, LO_SELECT, t, 3, bad, zero, i), TJ_I64);
}

static uint32_t gather(lo_builder *B, const lo_source *s, uint32_t index)
{
	lo_low *L = B->L;
	const ir_node *n = lo_node(L, s->ref);
	ir_ref table = ir_src(L->g, n, 0);
	const lo_use *u = s->use;
	int64_t stride, axis = n->op == IR_embedding ? 0 : ir_attr(L->g, n)[0];
	int64_t size = lo_node(L, table)->rank ? lo_dim(L, table)[axis] : 1;
	lo_expr e = lo_gather_base(L, B->G, s->ref, s->map, u->table, &stride);
	uint32_t kbuf = lo_kbuf(B, lo_buf_at(L, u->table), (tj_dtype)n->dtype, LO_IN);
	return load(B, kbuf, (tj_dtype)n->dtype, &e, checked(B, n, index, size), stride);
}

static uint32_t create(lo_builder *B, const lo_source *s)
{
	const ir_node *n = lo_node(B->L, s->ref);
	const int64_t *attr = ir_attr(B->L->g, n);
	if (n->op == IR_eye) {
		uint32_t row = index_value(B, &s->map->e[0]), col = index_value(B, &s->map->e[1]);
		return lo_cast(B->k, prim(B, LO_EQ, TJ_BOOL, 2, row, col, 0), (tj_dtype)n->dtype);
	}
	uint32_t i = index_value(B, &s->map->e[0]);
	if (attr[3] != 1) i = prim(B, LO_MUL, TJ_I64, 2, i, constant(B, TJ_I64, attr[3]), 0);
	if (attr[1]) i = prim(B, LO_ADD, TJ_I64, 2, i, constant(B, TJ_I64, attr[1]), 0);
	return lo_cast(B->k, i, (tj_dtype)n->dtype);
}

static uint32_t one_hot(lo_builder *B, const lo_source *s, uint32_t index)
{
	const ir_node *n = lo_node(B->L, s->ref);
	uint32_t i = checked(B, n, index, ir_attr(B->L->g, n)[0]);
	uint32_t j = index_value(B, &s->map->e[s->map->rank - 1]);
	return lo_cast(B->k, prim(B, LO_EQ, TJ_BOOL, 2, i, j, 0), (tj_dtype)n->dtype);
}

static uint32_t op(lo_builder *B, const lo_source *s)
{
	const ir_node *n = lo_node(B->L, s->ref);
	lo_source from[3];
	uint32_t src[3] = { 0 };
	const lo_mem_info *m = n->op == IR_matmul ? lo_member(B, s->ref) : NULL;
	if (m && m->product != LO_NOREF) return lo_cast(B->k, m->product, (tj_dtype)n->dtype);
	if (ir_ops[n->op].flags & IR_REDUCE || m) { /* the loop of the reduction comes earlier and has recorded its value */
		rt_fail(B->L->err, TJ_ERR_COMPILE, "lower", "a kernel reads a %s before it is computed", ir_ops[n->op].name);
		return LO_NOREF;
	}
	int count = lo_operands(B, s->use, from);
	for (int k = 0; k < count; k++)
		if ((src[k] = lo_value(B, &from[k])) == LO_NOREF) return LO_NOREF;
	if (n->op == IR_arange || n->op == IR_eye) return create(B, s);
	if (lo_is_gather((ir_op)n->op)) return gather(B, s, src[0]);
	if (n->op == IR_one_hot) return one_hot(B, s, src[0]);
	if (ir_ops[n->op].flags & IR_RNG) {
		lo_expr e = lo_row_major(B->L, B->G, s->ref, s->map);
		return lo_random(B->k, (ir_op)n->op, (tj_dtype)n->dtype, src[0], src[1], index_value(B, &e));
	}
	return point(B, n, src);
}

/* ---- values ---- */
static bool same(const lo_builder *B, const lo_made *m, const lo_source *s)
{
	if (s->from == LO_FROM_LOAD) return m->buf == s->buf && !memcmp(&m->at, &s->at, sizeof m->at);
	return m->buf == LO_NOBUF && m->ref == s->ref &&
	       (s->from != LO_FROM_OP || lo_map_equal(B->G, m->map, s->map));
}

/* The loop of a product has all that its operands are computed from: tiles read them there. */
static bool in_reach(const lo_builder *B, const lo_made *m) { return m->loop == B->loop || (m->loop == 0 && !(B->loop && B->G->product)); }

static uint32_t known(const lo_builder *B, const lo_source *s)
{
	for (uint32_t i = 0; i < B->made.n; i++) {
		const lo_made *m = &B->made.v[i];
		if (in_reach(B, m) && same(B, m, s)) return m->ins;
	}
	return LO_NOREF;
}

lo_made *lo_remember(lo_builder *B, const lo_source *s, uint32_t ins, bool everywhere)
{
	lo_made m = { .ref = s->ref, .map = s->map, .buf = LO_NOBUF, .loop = everywhere ? 0 : B->loop, .ins = ins };
	if (s->from == LO_FROM_LOAD) {
		m.buf = s->buf;
		m.at = s->at;
	}
	if (rt_push(&B->made, m)) return &B->made.v[B->made.n - 1];
	B->L->oom = true;
	return NULL;
}

static lo_expr r_alone(const lo_group *G)
{
	lo_expr e = { 0 };
	for (int a = 0; a < G->natom; a++)
		if (G->isr[a]) e.c[a] = G->rstride[a];
	return e;
}

/* The value of a kept row: loaded if an earlier loop stored it, else computed and stored for later loops. */
static uint32_t through_kept(lo_builder *B, const lo_source *s, const lo_mem_info *m)
{
	lo_expr e = r_alone(B->G);
	tj_dtype t = (tj_dtype)lo_node(B->L, s->ref)->dtype;
	if (B->loop != __builtin_ctzll(m->need)) return load(B, m->kept, t, &e, LO_NOREF, 0);
	uint32_t v = op(B, s);
	if (v != LO_NOREF) lo_store(B, m->kept, &e, v, t);
	return v;
}

uint32_t lo_value(lo_builder *B, const lo_source *s)
{
	uint32_t v = known(B, s);
	const uint32_t first = B->k->ins.n;
	const lo_low *L = B->L;
	const ir_node *n = lo_node(L, s->ref);
	if (v != LO_NOREF) return v;
	switch (s->from) {
	case LO_FROM_LATER: case LO_FROM_VIEW: break; /* settled, and looked through */
	case LO_FROM_CONST: v = constant(B, (tj_dtype)n->dtype, const_bits(L, n)); break;
	case LO_FROM_NUM:
		v = lo_add(B, (lo_ins){ .op = LO_NUM, .dtype = n->dtype, .imm = ir_attr(L->g, n)[0] });
		break;
	case LO_FROM_LOAD:
		v = load(B, lo_kbuf(B, s->buf, (tj_dtype)n->dtype, LO_IN), (tj_dtype)n->dtype, &s->at, LO_NOREF, 0);
		break;
	case LO_FROM_OP: {
		const lo_mem_info *m = lo_member(B, s->ref);
		bool keep = m && m->kept != LO_NOREF && B->loop && lo_source_in_r(B, s);
		v = keep ? through_kept(B, s, m) : op(B, s);
		if (RT_UNLIKELY(L->sites)) lo_note_site(B->k, first, n, &B->L->oom);
	}
	}
	if (v != LO_NOREF) lo_remember(B, s, v, false);
	else if (B->L->err->code == TJ_OK) B->L->oom = true;
	return v;
}
