/* SPDX-License-Identifier: MIT */
/* kbuild: the kernel of a group.
 *
 * requires finished groups; changes none
 *
 * A value that depends on a reduction is known only after the loop of that reduction. So each member has a phase: the number
 * of loops that come before it. Loop l+1 reduces and stores row values of phase l; the point section before it computes what
 * these need once per row. A row value that several loops need is computed again in each, or kept if that would repeat
 * transcendental maths.
 *
 *   sections of a softmax:  point {}  loop 1 { amax }  point {}  loop 2 { exp -> kept row, sum }  loop 3 { div, store }
 *
 * The kernel is built twice. First each atom is a dimension; then atoms that walk all buffers together are one dimension, and
 * the dimension along which stores are contiguous goes last. */
#include "lower/kbuild.h"

static bool failed(const lo_builder *B)
{
	return B->L->oom || B->L->err->code != TJ_OK;
}

/* ---- phases and needs ---- */
static bool reduces(const lo_builder *B, ir_ref r)
{
	return ir_ops[lo_node(B->L, r)->op].flags & IR_REDUCE || lo_is_product(B->L, r);
}

static bool gather_members(lo_builder *B)
{
	const lo_group *G = B->G;
	B->nmem = G->member.n;
	B->mem = lo_mem(B->L, sizeof *B->mem * (B->nmem + 1));
	if (!B->mem) return false;
	for (uint32_t i = 0; i < B->nmem; i++) {
		uint32_t j = i;
		for (; j > 0 && B->mem[j - 1].ref > G->member.v[i]; j--) B->mem[j] = B->mem[j - 1];
		B->mem[j] = (lo_mem_info){ .ref = G->member.v[i], .kept = LO_NOREF, .product = LO_NOREF };
		if (lo_is_product(B->L, G->member.v[i])) B->product = G->member.v[i];
	}
	return true;
}

/* The phase of a value; a light value has the highest phase of its operands. */
static int phase_of(lo_builder *B, const lo_source *s)
{
	lo_source from[3];
	int most = 0;
	if (s->from != LO_FROM_OP) return 0;
	const lo_mem_info *m = lo_member(B, s->ref);
	if (m && lo_map_equal(B->G, B->L->val[s->ref].made->map, s->map)) return m->phase;
	if (s->use == B->L->val[s->ref].number) return 0;
	int count = lo_operands(B, s->use, from);
	for (int k = 0; k < count; k++) {
		int p = phase_of(B, &from[k]);
		if (p > most) most = p;
	}
	return most;
}

static void find_phases(lo_builder *B)
{
	for (uint32_t i = 0; i < B->nmem; i++) {
		lo_mem_info *m = &B->mem[i];
		lo_source s = lo_source_of(B, B->L->val[m->ref].made), from[3];
		if (s.from != LO_FROM_OP) continue;
		if (s.ref != m->ref) { /* a view that is a member stands for its operand */
			m->phase = phase_of(B, &s);
			continue;
		}
		int count = lo_operands(B, s.use, from);
		for (int k = 0; k < count; k++) {
			int p = phase_of(B, &from[k]);
			if (p > m->phase) m->phase = p;
		}
		m->phase += reduces(B, m->ref);
	}
}

static void need(lo_builder *B, const lo_source *s, uint64_t loops)
{
	lo_source from[3];
	if (s->from != LO_FROM_OP || !loops || !lo_source_in_r(B, s)) return;
	lo_mem_info *m = lo_member(B, s->ref);
	if (m) {
		m->need |= loops;
		return;
	}
	int count = lo_operands(B, s->use, from);
	for (int k = 0; k < count; k++) need(B, &from[k], loops);
}

/* Several loops read it, and the target has room for its row. */
static bool keeps(lo_builder *B, lo_mem_info *m)
{
	const lo_target *t = B->s->target;
	int64_t row = B->G->red * (int64_t)tj_dtype_size((tj_dtype)lo_node(B->L, m->ref)->dtype);
	if (!(m->need & (m->need - 1)) || !lo_heavy(B->L, m->ref)) return false;
	m->where = t->keep(t, (lo_vec)B->s->vec, row, &m->room);
	if (m->where != LO_SHARED) return m->where != LO_RECOMPUTED;
	const bool fits = B->shared + lo_kept_room(m->room) <= (size_t)t->shared_bytes;
	if (fits) B->shared += lo_kept_room(m->room);
	return fits;
}

static void find_needs(lo_builder *B)
{
	const lo_group *G = B->G;
	for (uint32_t i = 0; i < G->save.n; i++) {
		lo_source s = lo_source_of(B, G->save.v[i].from);
		need(B, &s, (uint64_t)1 << (phase_of(B, &s) + 1));
	}
	for (uint32_t i = B->nmem; i-- > 0;) { /* users before operands */
		lo_mem_info *m = &B->mem[i];
		lo_source from[3];
		bool red = reduces(B, m->ref);
		if (B->L->val[m->ref].how == LO_VIEW) continue;
		int count = lo_operands(B, B->L->val[m->ref].made, from);
		if (!red && keeps(B, m)) m->kept = 0;
		uint64_t loops = red ? (uint64_t)1 << m->phase : m->kept != LO_NOREF ? m->need & -m->need : m->need;
		for (int k = 0; k < count; k++) need(B, &from[k], loops);
	}
}

/* ---- sections ---- */
static void begin(lo_builder *B, int loop)
{
	lo_section s = { loop > 0, B->k->ins.n, 0 };
	B->loop = loop;
	if (!rt_push(&B->k->section, s)) B->L->oom = true;
}

static void end(lo_builder *B)
{
	if (B->L->oom) return;
	lo_section *s = &B->k->section.v[B->k->section.n - 1];
	s->count = B->k->ins.n - s->first;
	if (!s->count) B->k->section.n--;
}

/* Computes the values that the coming loop needs once per row; goes through row values to their operands, without computing them. */
static void hoist(lo_builder *B, const lo_source *s, int loop)
{
	lo_source from[3];
	if (s->from == LO_FROM_CONST || s->from == LO_FROM_NUM || failed(B)) return;
	if (!lo_source_in_r(B, s)) {
		lo_value(B, s);
		return;
	}
	if (s->from == LO_FROM_LOAD) return;
	lo_mem_info *m = lo_member(B, s->ref);
	if (m) {
		if (m->hoisted == loop || (m->kept != LO_NOREF && loop != __builtin_ctzll(m->need))) return;
		m->hoisted = loop;
	}
	int count = lo_operands(B, s->use, from);
	for (int k = 0; k < count; k++) hoist(B, &from[k], loop);
}

static void save(lo_builder *B, const lo_save *s, const lo_source *from)
{
	uint32_t v = lo_value(B, from);
	const uint32_t first = B->k->ins.n;
	tj_dtype t = (tj_dtype)lo_node(B->L, s->value)->dtype;
	if (v == LO_NOREF) return;
	lo_expr e = lo_linear(B->G, s->map, s->dest->stride);
	e.off += s->dest->offset;
	lo_store(B, lo_kbuf(B, s->dest->buf, t, LO_OUT), &e, v, t);
	if (RT_UNLIKELY(B->L->sites)) lo_note_site(B->k, first, lo_node(B->L, from->ref), &B->L->oom);
}

/* -1: no reduction that kernels compute. */
static int red_of(ir_op op)
{
	switch (op) {
	case IR_sum: return LO_RED_ADD;
	case IR_prod: return LO_RED_MUL;
	case IR_amax: return LO_RED_MAX;
	case IR_amin: return LO_RED_MIN;
	case IR_all: return LO_RED_AND;
	case IR_any: return LO_RED_OR;
	case IR_argmax: return LO_RED_ARGMAX;
	case IR_max_with_indices: return LO_RED_ATMAX; /* the values */
	case IR_min_with_indices: return LO_RED_ATMIN;
	case IR_argmin: return LO_RED_ARGMIN;
	default: return -1;
	}
}

/* The product is computed in a wider dtype; who reads it casts it (lo_value). */
static void multiply(lo_builder *B, ir_ref r)
{
	const tj_dtype t = lo_product_dtype((tj_dtype)lo_node(B->L, r)->dtype);
	lo_ins in = { .op = LO_REDUCE, .dtype = (uint8_t)t, .tree = LO_TREE_CHAIN, .nsrc = 2, .imm = LO_RED_DOT };
	lo_source from[3];
	lo_operands(B, B->L->val[r].made, from);
	for (int k = 0; k < 2; k++) {
		in.src[k] = lo_value(B, &from[k]);
		if (in.src[k] == LO_NOREF) return;
	}
	for (int k = 0; k < 2; k++) in.src[k] = lo_cast(B->k, in.src[k], t);
	if (lo_node(B->L, r)->mode & IR_FAST && lo_multiplies_bf16(B->k, &in)) in.tree = LO_TREE_FAST;
	lo_member(B, r)->product = lo_add(B, in);
}

static void reduce(lo_builder *B, ir_ref r)
{
	if (lo_is_product(B->L, r)) {
		multiply(B, r);
		return;
	}
	const ir_node *n = lo_node(B->L, r);
	const lo_use *made = B->L->val[r].made;
	lo_source from = lo_source_of(B, made->src[0]), self = { .from = LO_FROM_OP, .ref = r, .map = made->map, .use = made };
	uint32_t v = lo_value(B, &from);
	if (v == LO_NOREF) return;
	int red = red_of((ir_op)n->op);
	if (red < 0) {
		rt_fail(B->L->err, TJ_ERR_COMPILE, "lower", "no kernel computes the reduction %s", ir_ops[n->op].name);
		return;
	}
	bool arg = red >= LO_RED_ARGMAX, logic = red == LO_RED_AND || red == LO_RED_OR;
	if (!arg) v = lo_cast(B->k, v, (tj_dtype)n->dtype);
	lo_tree tree = arg || logic ? LO_TREE_NONE : B->G->column ? LO_TREE_COLUMN : LO_TREE_ROW;
	v = lo_add(
	    B,
	    (lo_ins){
	        .op = LO_REDUCE, .dtype = n->dtype, .tree = (uint8_t)tree, .nsrc = 1, .src = { v }, .imm = red });
	lo_remember(B, &self, v, true);
}

typedef struct root { lo_source from; int phase; bool in_r; } root;

static void fill_loop(lo_builder *B, const root *roots, int loop, bool prepare)
{
	const lo_group *G = B->G;
	for (uint32_t i = 0; i < B->nmem; i++) {
		const lo_mem_info *m = &B->mem[i];
		if (!reduces(B, m->ref) || m->phase != loop) continue;
		lo_source from[3];
		int count = lo_operands(B, B->L->val[m->ref].made, from);
		const uint32_t before = B->k->ins.n;
		if (!prepare) reduce(B, m->ref);
		else for (int k = 0; k < count && !lo_is_product(B->L, m->ref); k++) hoist(B, &from[k], loop);
		if (RT_UNLIKELY(B->L->sites)) lo_note_site(B->k, before, lo_node(B->L, m->ref), &B->L->oom);
	}
	for (uint32_t i = 0; i < G->save.n; i++) {
		if (!roots[i].in_r || roots[i].phase + 1 != loop) continue;
		if (prepare) hoist(B, &roots[i].from, loop);
		else save(B, &G->save.v[i], &roots[i].from);
	}
}

static void make_kept(lo_builder *B)
{
	for (uint32_t i = 0; i < B->nmem; i++) {
		if (B->mem[i].kept == LO_NOREF) continue;
		tj_dtype t = (tj_dtype)lo_node(B->L, B->mem[i].ref)->dtype;
		B->mem[i].kept = lo_kbuf(B, LO_NOBUF, t, LO_KEPT);
		if (B->L->oom) return;
		lo_buf *b = &B->k->buf.v[B->mem[i].kept];
		b->elems = B->G->red;
		b->aligned = true;
		if (!lo_keep(B->s, B->mem[i].kept, B->mem[i].where, B->mem[i].room)) B->L->oom = true;
	}
}

static bool fill(lo_builder *B)
{
	const lo_group *G = B->G;
	root *roots = lo_mem(B->L, sizeof *roots * (G->save.n + 1));
	int loops = 0;
	if (!roots) return false;
	for (uint32_t i = 0; i < G->save.n; i++) {
		roots[i].from = lo_source_of(B, G->save.v[i].from);
		roots[i].phase = phase_of(B, &roots[i].from);
		roots[i].in_r = lo_source_in_r(B, &roots[i].from) || lo_map_in_r(G, G->save.v[i].map);
		int last = roots[i].phase + roots[i].in_r;
		if (last > loops) loops = last;
	}
	make_kept(B);
	for (int l = 0; l <= loops && !failed(B); l++) {
		if (l) {
			begin(B, l);
			fill_loop(B, roots, l, false);
			end(B);
		}
		begin(B, 0);
		for (uint32_t i = 0; i < G->save.n; i++)
			if (!roots[i].in_r && roots[i].phase == l) save(B, &G->save.v[i], &roots[i].from);
		if (l < loops) fill_loop(B, roots, l + 1, true);
		end(B);
	}
	return !failed(B);
}

/* ---- dimensions ---- */
static int64_t magnitude(int64_t x)
{
	return x < 0 ? -x : x;
}

/* Both operands of the product are indexed by the atom: it is a batch axis. */
static bool is_batch(const lo_builder *B, int atom)
{
	const lo_use *made = B->L->val[B->product].made;
	bool both = true;
	for (int k = 0; k < 2; k++) {
		const lo_map *m = made->src[k]->map;
		bool any = false;
		for (int i = 0; i < m->rank; i++) any |= m->e[i].c[atom] != 0;
		both &= any;
	}
	return both;
}

/* The batch axes of a product come first, so that its units go through one matrix after the other. Its lanes go along its columns or
 * rows, so one of these is last. */
static void batches_first(const lo_builder *B, int *order, int n)
{
	int other[LO_ATOMS], batches = 0, others = 0;
	for (int i = 0; i < n; i++) {
		if (is_batch(B, order[i])) order[batches++] = order[i];
		else other[others++] = order[i];
	}
	for (int i = 0; i < others; i++) order[batches + i] = other[i];
}

/* Outer atoms by falling step in the first store. */
static int order_atoms(const lo_builder *B, int *order)
{
	const lo_group *G = B->G;
	int n = 0;
	lo_expr e = { 0 };
	if (G->save.n) e = lo_linear(G, G->save.v[0].map, G->save.v[0].dest->stride);
	for (int a = 0; a < G->natom; a++) {
		if (G->isr[a] || G->ext[a] <= 1) continue;
		int i = n++;
		for (; i > 0 && magnitude(e.c[order[i - 1]]) < magnitude(e.c[a]); i--) order[i] = order[i - 1];
		order[i] = a;
	}
	if (G->product) batches_first(B, order, n);
	return n;
}

static bool together(const lo_builder *B, int outer, int inner, int64_t inner_ext)
{
	for (uint32_t i = 0; i < B->seen.n; i++)
		if (B->seen.v[i].c[outer] != B->seen.v[i].c[inner] * inner_ext) return false;
	return true;
}

/* Makes dimensions from atoms. collapse: atoms that all indices in B->seen walk together become one; else each atom is one. */
static void set_dims(lo_builder *B, bool collapse)
{
	lo_kernel *k = B->k;
	int order[LO_ATOMS], n = order_atoms(B, order), d = 0;
	int inner[LO_ATOMS];
	int64_t ext[LO_ATOMS];
	if (B->G->product && n && n < LO_ATOMS && is_batch(B, order[n - 1])) { /* a batch of inner products: each has one column */
		inner[d] = -1;
		ext[d++] = 1;
	}
	for (int i = n - 1; i >= 0; i--) { /* innermost first; d counts dimensions from the inside */
		int a = order[i];
		if (d && inner[d - 1] >= 0 && collapse && together(B, a, inner[d - 1], ext[d - 1])) {
			ext[d - 1] *= B->G->ext[a];
			continue;
		}
		inner[d] = a;
		ext[d++] = B->G->ext[a];
	}
	if (!d) {
		inner[d] = -1;
		ext[d++] = 1;
	}
	k->ndim = B->ndim = d;
	for (int i = 0; i < d; i++) {
		B->inner[i] = inner[d - 1 - i];
		k->dim[i] = ext[d - 1 - i];
	}
}

/* ---- finishing ---- */
/* Moves kept rows to the end, so that a buffer has the same number in the kernel and in its step. */
static bool number_buffers(lo_builder *B)
{
	lo_kernel *k = B->k;
	uint32_t n = k->buf.n, *to = lo_mem(B->L, sizeof *to * (n + 1)), at = 0;
	lo_buf *sorted = lo_mem(B->L, sizeof *sorted * (n + 1));
	B->b->buf = lo_mem(B->L, sizeof *B->b->buf * (n + 1));
	if (B->L->oom) return false;
	for (int kept = 0; kept < 2; kept++)
		for (uint32_t i = 0; i < n; i++) {
			if ((k->buf.v[i].role == LO_KEPT) != kept) continue;
			if (!kept) B->b->buf[B->b->nbuf++] = B->kbuf.v[i];
			to[i] = at;
			sorted[at++] = k->buf.v[i];
		}
	for (uint32_t i = 0; i < n; i++) k->buf.v[i] = sorted[i];
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_LOAD || k->ins.v[i].op == LO_STORE) k->ins.v[i].buf = to[k->ins.v[i].buf];
	for (uint32_t i = 0; i < B->s->kept.n; i++) B->s->kept.v[i].buf = to[B->s->kept.v[i].buf];
	return true;
}

static void link_step(lo_builder *B)
{
	for (uint32_t i = 0; i < B->b->nbuf; i++)
		lo_touch(B->L, B->step, B->b->buf[i], B->k->buf.v[i].role == LO_OUT);
	B->b->fault = lo_mem(B->L, sizeof *B->b->fault * (B->fault.n + 1));
	for (uint32_t i = 0; B->b->fault && i < B->fault.n; i++) B->b->fault[i] = B->fault.v[i];
}

static void reset(lo_builder *B)
{
	lo_kernel *k = B->k;
	k->buf.n = k->section.n = k->ins.n = k->index.n = k->fault_site.n = k->fault_code.n = k->site.n = 0;
	B->s->kept.n = 0;
	B->s->scratch = B->s->shared = 0;
	B->made.n = B->kbuf.n = B->fault.n = 0;
	for (uint32_t i = 0; i < B->nmem; i++) B->mem[i].hoisted = 0, B->mem[i].product = LO_NOREF;
}

/* What turn.c and panels.c do depends on the number of rows; how columns are read does, too. */
static bool arrange_product(lo_builder *B)
{
	const lo_moving *m = &B->L->o->moving;
	lo_kernel *k = B->k;
	lo_built *b = B->b;
	lo_tiles t;
	const int row = lo_tiles_of(k, &t) ? t.row : -1;
	const int64_t rows = row < 0 ? 1 : k->dim[row];
	b->rows_move = row >= 0 && m->always && lo_moves(m, rows);
	if (B->rows) k->dim[row] = B->rows;
	b->turned = !(B->L->o->off & LO_OFF(TURN)) && lo_turn_product(B->s->target, k);
	if (B->rows && b->turned) k->dim[k->ndim - 1] = rows; /* columns, which may lie in panels */
	if (!lo_read_panels(B->L, k, B->kbuf.v)) return false;
	for (uint32_t i = 0; i < k->buf.n; i++) b->panels |= lo_in_panels(k->buf.v[i].role);
	k->few = b->rows_move && !b->turned && !lo_moves(m, k->dim[k->ndim - 1]) && !lo_moves(m, k->red) && lo_few_rows(k);
	if (B->rows && !b->turned) k->dim[row] = rows;
	B->s->target->tiles(B->s->target, k, B->s);
	return true;
}

static bool build(lo_builder *B)
{
	if (!gather_members(B)) return false;
	find_phases(B);
	find_needs(B);
	set_dims(B, false);
	if (!fill(B)) return false;
	set_dims(B, true);
	reset(B);
	if (!fill(B)) return false;
	if (!B->G->product && !lo_unroll_row(B->k, B->s->target->unrolled_row)) B->L->oom = true;
	if (!B->G->product) B->s->target->units(B->s->target, B->k, B->s);
	else if (!arrange_product(B)) return false;
	return number_buffers(B);
}

/* rows: as in the builder; unless 0, the kernel is none of the step. */
static bool build_as(lo_low *L, lo_step *step, lo_built *b, int64_t rows)
{
	lo_group *G = L->group.v[step->group];
	lo_builder B = { .L = L, .G = G, .step = step, .b = b, .k = &b->k, .s = &b->s, .rows = rows };
	b->k.name = "k";
	b->k.reduces = G->reduces;
	b->k.red = G->red;
	b->s.target = lo_target_on(L->o, G->device);
	b->s.vec = (uint8_t)(G->product ? LO_VEC_TILE : b->s.target->vec(b->s.target, G->reduces, G->column));
	const bool ok = build(&B);
	if (ok && !rows) link_step(&B);
	rt_vec_free(&B.made);
	rt_vec_free(&B.seen);
	rt_vec_free(&B.kbuf);
	rt_vec_free(&B.fault);
	return ok && !failed(&B);
}

bool lo_build_kernel(lo_low *L, lo_step *step)
{
	step->built = lo_mem(L, sizeof *step->built);
	return step->built && build_as(L, step, step->built, 0);
}

lo_built *lo_build_other(lo_low *L, lo_step *step)
{
	static const int64_t few_or_many[] = { 2, 1 << 20 };
	const lo_built *b = step->built;
	for (int i = 0; i < 2 && b->rows_move; i++) {
		lo_built *o = lo_mem(L, sizeof *o);
		if (!o) return NULL;
		if (build_as(L, step, o, few_or_many[i]) && (o->turned != b->turned || o->panels != b->panels || o->k.few != b->k.few)) return o;
		lo_kernel_free(&o->k);
		lo_schedule_free(&o->s);
	}
	return NULL;
}
