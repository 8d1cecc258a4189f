/* SPDX-License-Identifier: MIT */
/* products: matrix products as kernels.
 *
 *   %2 = matmul f32[8,64] %0 %1          loop                                         r: the summed axis
 *   %4 = add f32[8,64] %2 %3       =>      %0 = load f32 b0 [0 + 32*d0 + 1*r]         rows: indexed by d0
 *                                          %1 = load f32 b1 [0 + 1*d1 + 64*r]         columns: indexed by d1, the last dimension
 *                                          %2 = reduce f32 dot chain %0 %1
 *                                        point
 *                                          %3 = load f32 b2 [0 + 1*d1]
 *                                          ...
 *
 * An operand may also be computed as it is read: the loop has a few plain ops on several loads (fuse.c, join_ahead).
 *
 * A unit computes a block of the result, s->rows x s->block. Either operand may be that of the columns: what counts is the dimension
 * along which the kernel stores adjacent elements. An outer dimension that neither is rows' nor the last one is a batch axis. */
#include "lower/low.h"
#include "lower/target.h"

/* ---- fusion ---- */
bool lo_is_product(const lo_low *L, ir_ref r) { return lo_node(L, r)->op == IR_matmul && L->val[r].how == LO_FUSE; }

/* The summed axis, as r of the group. */
static lo_expr summed(const lo_group *G)
{
	lo_expr e = { 0 };
	for (int a = 0; a < G->natom; a++)
		if (G->isr[a]) e.c[a] = G->rstride[a];
	return e;
}

lo_map *lo_map_product(lo_low *L, lo_group *G, ir_ref r, int k, const lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	const ir_ref src = ir_src(L->g, n, k);
	const int rank = lo_node(L, src)->rank, left = lo_node(L, ir_src(L->g, n, 0))->rank > 1, right = lo_node(L, ir_src(L->g, n, 1))->rank > 1;
	const int batch = m->rank - left - right, own = rank > 2 ? rank - 2 : 0; /* batch axes of the result; of the operand */
	lo_map *o = lo_map_new(L, G, rank);
	if (!o) return NULL;
	for (int i = 0; i < own; i++) o->e[i] = m->e[batch - own + i];
	if (k == 0 && left) o->e[own] = m->e[batch];
	if (k == 1 && right) o->e[rank - 1] = m->e[batch + left];
	o->e[k == 0 ? rank - 1 : own] = summed(G);
	for (int i = 0; i < rank; i++)
		if (lo_dim(L, src)[i] == 1) o->e[i] = (lo_expr){ 0 };
	return o;
}

bool lo_widens(const ir_graph *g, ir_ref cast)
{
	const ir_node *n = ir_at(g, cast);
	if (n->op != IR_cast) return false;
	const tj_dtype from = (tj_dtype)ir_at(g, ir_src(g, n, 0))->dtype, to = (tj_dtype)n->dtype;
	if (rt_is_narrow(from)) return to == TJ_F32;
	return rt_dtype_cat(from) == RT_INT && rt_dtype_cat(to) == RT_INT && tj_dtype_size(from) < tj_dtype_size(to);
}

/* Products of small integers wrap like those of i32. */
tj_dtype lo_product_dtype(tj_dtype t)
{
	if (rt_is_float(t)) return rt_compute_dtype(t);
	return tj_dtype_size(t) < tj_dtype_size(TJ_I32) ? TJ_I32 : t;
}

/* ---- the product of a kernel ---- */
enum {
	STRIP_ROWS = 4,        /* most rows of a strip */
	STRIP_VECTORS = 4, STRIP_BYTES = 1 << 16, /* of more than one row: smaller B's are read more quickly by tiles */
	ACROSS_ROOM = 1 << 18  /* elements of rows that are packed over all of r: they stay in the second cache */
};

static const lo_index *index_of(const lo_kernel *k, uint32_t load) { return &k->index.v[k->ins.v[load].index]; }

static bool is_even(const lo_index *x) { return !x->group && !lo_jumps(x); } /* steps of r are all of one length */

/* The instructions of the loop that a value is computed from. */
static lo_needs needs_of(const lo_kernel *k, uint32_t first, uint32_t value)
{
	lo_needs n = { .first = first };
	lo_need_too(&n, value);
	for (uint32_t i = value + 1; i-- > first;)
		for (int s = 0; lo_needed(&n, i) && s < k->ins.v[i].nsrc; s++) lo_need_too(&n, k->ins.v[i].src[s]);
	return n;
}

typedef struct side { /* what an operand is computed from */
	lo_needs needs;
	uint32_t load;
	int most;             /* how many indices that load has */
	uint64_t dims;        /* on which some load depends */
	bool plain;
} side;

static side survey(const lo_kernel *k, uint32_t first, uint32_t value)
{
	side s = { .needs = needs_of(k, first, value), .load = LO_NOREF, .most = -1, .plain = true };
	for (uint32_t i = first; i <= value; i++) {
		if (!lo_needed(&s.needs, i)) continue;
		s.plain &= k->ins.v[i].op == LO_LOAD || k->ins.v[i].op == LO_CONVERT;
		if (k->ins.v[i].op != LO_LOAD) continue;
		const lo_index *x = index_of(k, i);
		int n = (x->rcoef != 0) + (x->rcoef && !x->group);
		for (int d = 0; d < k->ndim; d++) {
			if (!x->coef[d] || k->dim[d] == 1) continue;
			s.dims |= (uint64_t)1 << d;
			n++;
		}
		if (n <= s.most) continue;
		s.most = n;
		s.load = i;
	}
	return s;
}

bool lo_is_flat(const lo_kernel *k, uint32_t i)
{
	const int64_t step = k->ins.v[i].op == LO_LOAD ? index_of(k, i)->coef[k->ndim - 1] : 0;
	return step == 0 || step == 1;
}

/* The rows of a tile are read in place: their distance is known, and few of them share a set of the first cache. */
static bool reads_rows(const lo_kernel *k, const lo_tiles *t)
{
	enum { SETS = 64, MOST_IN_A_SET = 4 };
	const lo_index *x = index_of(k, t->load[0]);
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)k->ins.v[t->load[0]].dtype), pitch = t->row < 0 ? 0 : x->coef[t->row];
	int in_set[SETS] = { 0 }, most = 0;
	if (t->value[0] != t->load[0] || x->rcoef != 1 || !is_even(x) || lo_is_sym(pitch) || (t->row >= 0 && lo_is_sym(k->dim[t->row])))
		return false;
	for (int64_t row = 0; row < LO_TILE_ROWS; row++)
		for (int64_t line = 0; line < IR_CHAIN * size / RT_LINE; line++) {
			int *n = &in_set[(uint64_t)(row * pitch * size / RT_LINE + line) % SETS];
			if (++*n > most) most = *n;
		}
	return most <= MOST_IN_A_SET;
}

static bool are_bytes(const lo_kernel *k, const lo_tiles *t)
{
	bool all = k->ins.v[t->dot].dtype == TJ_I32;
	for (int i = 0; i < 2; i++) all &= t->plain[i] && is_even(index_of(k, t->load[i])) && k->ins.v[t->load[i]].dtype == TJ_I8;
	return all;
}

int64_t lo_lanes(const lo_kernel *k, const lo_tiles *t)
{
	return rt_vector_bits() / 8 / (int64_t)tj_dtype_size((tj_dtype)k->ins.v[t->dot].dtype);
}

/* One row, or a few: columns are multiplied as they lie. For vectors of 512 bits tiles read as fast, if B is near and its rows are whole
 * panels. */
static bool is_strip(const lo_kernel *k, const lo_tiles *t)
{
	const int64_t last = k->dim[k->ndim - 1], size = (int64_t)tj_dtype_size((tj_dtype)k->ins.v[t->dot].dtype), lanes = lo_lanes(k, t);
	const bool wide = rt_vector_bits() == 512;
	if (k->red == 0 || !t->adjacent || !t->flat || t->panels) return false;
	if (t->row < 0) return true;
	if (t->bytes || t->value[1] != t->load[1] || lo_is_sym(k->dim[t->row]) || lo_is_sym(last) || lo_is_sym(k->red) ||
	    k->dim[t->row] > (wide ? STRIP_ROWS - 1 : STRIP_ROWS))
		return false;
	if (last <= STRIP_VECTORS * lanes || k->red * last * size <= STRIP_BYTES) return false;
	return !wide || last % (2 * lanes) || k->red * last * size > RT_THIRD_CACHE / 4 * 3;
}

int64_t lo_most_across(const lo_tiles *t, int64_t lanes)
{
	const int64_t registers = rt_vector_bits() == 512 ? 32 : 16, room = (registers - lanes) / (t->value[1] != t->load[1] ? 2 : 1);
	return room < LO_TILE_ROWS ? room : LO_TILE_ROWS;
}

int64_t lo_most_few(const lo_kernel *k, const lo_tiles *t)
{
	int64_t few = 8;
	while (few > lo_most_across(t, lo_lanes(k, t))) few /= 2;
	return few;
}

static bool is_across(const lo_kernel *k, const lo_tiles *t)
{
	const int64_t extent = t->row < 0 ? 1 : k->dim[t->row], rows = lo_is_sym(extent) && k->few ? lo_most_few(k, t) : extent,
		      columns = k->dim[k->ndim - 1];
	if (t->adjacent || t->panels || index_of(k, t->load[1])->rcoef != 1 || !is_even(index_of(k, t->load[1])) || lo_is_sym(rows)) return false;
	if (t->bytes) return rows > 0 && rows <= LO_TILE_ROWS && k->red != 0;
	if (lo_is_sym(columns) || lo_is_sym(k->red)) return false;
	return rows > 0 && rows <= LO_TILE_ROWS && columns > 0 && k->red > 0 && k->red <= ACROSS_ROOM / rows;
}

/* Adjacent items whose steps of r jump. */
static bool are_windows(const lo_kernel *k, const lo_index *x) { return x->coef[k->ndim - 1] == 1 && lo_jumps(x) && !x->group; }

bool lo_widens_bf16(const lo_kernel *k, uint32_t value)
{
	const lo_ins *x = value == LO_NOREF ? NULL : &k->ins.v[value]; /* memory may have run out */
	if (!x || x->op != LO_CONVERT || x->dtype != TJ_F32) return false;
	const lo_ins *load = &k->ins.v[x->src[0]];
	const lo_index *at = &k->index.v[load->index];
	return load->op == LO_LOAD && load->dtype == TJ_BF16 && (is_even(at) || are_windows(k, at));
}

bool lo_multiplies_bf16(const lo_kernel *k, const lo_ins *dot) { return lo_widens_bf16(k, dot->src[0]) && lo_widens_bf16(k, dot->src[1]); }

static bool adds_in_order(const lo_kernel *k, const lo_ins *dot)
{
	return dot->tree != LO_TREE_FAST && lo_multiplies_bf16(k, dot) && rt_bf16_in_order();
}

/* Fewer rows wait for memory, not for multiply-adds or for columns to be packed. */
static bool is_ordered(const lo_kernel *k, const lo_tiles *t)
{
	const bool many = t->row >= 0 && !k->few && (lo_is_sym(k->dim[t->row]) || k->dim[t->row] > LO_TILE_ROWS);
	return (t->words || (many && !t->panels)) && adds_in_order(k, &k->ins.v[t->dot]);
}

lo_word lo_word_of(const lo_kernel *k, const lo_tiles *t)
{
	if (t->bytes) return rt_byte_words() ? LO_BYTES : LO_SINGLE;
	if (adds_in_order(k, &k->ins.v[t->dot])) return LO_TURNED;
	return k->ins.v[t->dot].tree == LO_TREE_FAST && rt_bf16_pairs() ? LO_PAIRS : LO_SINGLE;
}

bool lo_tiles_of(const lo_kernel *k, lo_tiles *t)
{
	const int last = k->ndim - 1;
	*t = (lo_tiles){ .dot = LO_NOREF, .row = -1 };
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_REDUCE && k->ins.v[i].imm == LO_RED_DOT) t->dot = i;
	if (t->dot == LO_NOREF) return false;
	const lo_ins *dot = &k->ins.v[t->dot];
	const lo_section *loop = k->section.v;
	while (t->dot >= loop->first + loop->count) loop++;
	if (loop->count > LO_AHEAD_MOST) return false;
	const side of[2] = { survey(k, loop->first, dot->src[0]), survey(k, loop->first, dot->src[1]) };
	if (of[0].load == LO_NOREF || of[1].load == LO_NOREF) return false;
	const bool swapped = !(of[1].dims >> last & 1);
	for (int i = 0; i < 2; i++) {
		const side *s = &of[i != swapped];
		t->value[i] = dot->src[i != swapped];
		t->load[i] = s->load;
		t->plain[i] = s->plain;
		t->needs[i] = s->needs;
	}
	const side *rows = &of[swapped], *columns = &of[!swapped];
	for (int d = 0; d < last; d++)
		if (!(columns->dims >> d & 1) && k->dim[d] != 1) t->row = d;
	for (int d = 0; d <= last; d++) {
		if (columns->dims >> d & 1) t->columns |= (uint64_t)!(rows->dims >> d & 1) << d;
		else t->rows |= (rows->dims >> d & 1) << d;
	}
	t->flat = true;
	for (uint32_t i = 0; i < t->dot; i++) t->flat &= i == t->load[1] || lo_is_flat(k, i) || !lo_needed(&t->needs[1], i);
	t->adjacent = index_of(k, columns->load)->coef[last] == 1 && is_even(index_of(k, columns->load));
	t->windows = are_windows(k, index_of(k, columns->load));
	const int role = k->buf.v[k->ins.v[columns->load].buf].role;
	t->words = role == LO_WORDS;
	t->panels = lo_in_panels(role);
	t->bytes = are_bytes(k, t);
	t->strips = is_strip(k, t);
	t->across = is_across(k, t);
	t->pairs = dot->tree == LO_TREE_FAST && !t->strips;
	t->ordered = is_ordered(k, t);
	t->reads_rows = t->pairs || (!t->across && reads_rows(k, t));
	return !(rows->dims >> last & 1);
}

/* Columns so few that they change places with more rows (turn.c) are packed in no time. */
bool lo_few_rows(const lo_kernel *k)
{
	enum { COLUMNS = 16 };
	lo_tiles t;
	if (!lo_tiles_of(k, &t) || !t.across || t.row < 0 || t.bytes || k->ins.v[t.dot].tree == LO_TREE_FAST) return false;
	const int64_t most = lo_most_few(k, &t);
	return k->dim[k->ndim - 1] > COLUMNS && k->dim[t.row] <= most && k->red <= ACROSS_ROOM / most;
}

/* ---- units ---- */
/* WIDE: a multiple of the panels of few rows */
enum { MOST_ROWS = 384, MOST_COLUMNS = 512, WIDE = 1536, STRIP = 2048, LONG_STRIP = 4096, COLUMNS = 32 };

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t div_up(int64_t n, int64_t by) { return n > 0 ? (n - 1) / by + 1 : 0; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Into how many pieces an extent is cut: of about `most` or less, and at least `few`. */
static int64_t pieces(int64_t extent, int64_t most, int64_t few)
{
	const int64_t n = div_up(extent, most + most / 8);
	return n > few ? n : few;
}

/* The size of one of n equal pieces, each but the last a multiple of `of`. */
static int64_t piece(int64_t extent, int64_t of, int64_t n) { return extent <= of ? extent : least(up(div_up(extent, n), of), extent); }

typedef struct blocks { int64_t rows, columns; } blocks; /* of one */

/* Time of a block, in elements of the result. Packing an element takes as long as PACK of them; reading one of the columns, READ; one of
 * windows, COPY. Tiles compute whole panels, and half a one at the end. */
static int64_t block_cost(const lo_tiles *x, const lo_kernel *k, blocks b)
{
	enum { PACK = 24, COPY = 16, READ = 8 };
	const int64_t half = x->strips || x->bytes || x->across ? 1 : lo_lanes(k, x), rest = b.columns % (2 * half);
	const int64_t columns = b.columns - rest +
	                        (rest > half ? 2 * half
	                         : rest      ? half
	                                     : 0),
		      read = x->adjacent || x->panels ? READ
	                     : x->windows             ? COPY
	                                              : PACK;
	return b.rows * columns + (x->reads_rows ? 0 : PACK * b.rows) + read * b.columns;
}

/* When the last thread is done, if each takes the next block as soon as it can. The last of every `across` blocks is narrower. */
static int64_t makespan(int64_t down, int64_t across, int64_t all, int64_t narrow, int threads)
{
	enum { MOST_THREADS = 64, MOST_ROUNDS = 8 };
	int64_t busy[MOST_THREADS] = { 0 }, last = 0;
	if (threads > MOST_THREADS || down * across > MOST_ROUNDS * threads) return down * ((across - 1) * all + narrow) / threads + all / 2;
	for (int64_t i = 0; i < down * across; i++) {
		int next = 0;
		for (int t = 1; t < threads; t++)
			if (busy[t] < busy[next]) next = t;
		busy[next] += i % across == across - 1 ? narrow : all;
		if (busy[next] > last) last = busy[next];
	}
	return last;
}

static int64_t cost(const lo_tiles *x, const lo_kernel *k, int64_t m, int64_t n, int64_t outer, int threads, blocks b)
{
	const int64_t across = div_up(n, b.columns), narrow = block_cost(x, k, (blocks){ b.rows, n - (across - 1) * b.columns });
	return makespan(outer * div_up(m, b.rows), across, block_cost(x, k, b), narrow, threads);
}

/* Blocks are large, so that packing an operand is a small part of the work; but there are `few` or more of them, so that threads share
 * them. */
static blocks cut(const lo_tiles *x, const lo_kernel *k, int64_t m, int64_t n, int64_t outer, int64_t few, int threads)
{
	const int64_t most = x->strips ? (x->bytes ? LONG_STRIP : STRIP) : m <= LO_TILE_ROWS && (x->adjacent || x->across) ? WIDE : MOST_COLUMNS;
	const int64_t most_rows =
		x->panels ? MOST_ROWS / 2
			  : MOST_ROWS; /* no block packs panels that are stored; then its sums may stay in the second cache */
	blocks best = { 0 };
	few = div_up(few, outer);
	const int64_t least_down = pieces(m, most_rows, 1),
		      most_down = x->across || x->strips ? least_down : pieces(m, most_rows, few) + threads - 1;
	for (int64_t down = least_down; down <= most_down && down <= m; down++) {
		const int64_t rows = piece(m, div_up(m, MOST_ROWS) <= threads && down > 1 ? 1 : LO_TILE_ROWS, down),
			      across = pieces(n, most, div_up(few, div_up(m, rows)));
		for (int more = 0; more < threads; more++) {
			blocks b = { rows, piece(n, COLUMNS, across + more) };
			if (most == WIDE && div_up(n, up(b.columns, LO_TILE_COLUMNS)) == div_up(n, b.columns))
				b.columns = least(up(b.columns, LO_TILE_COLUMNS), n); /* whole panels, the widest that tiles have */
			if (!best.rows || cost(x, k, m, n, outer, threads, b) < cost(x, k, m, n, outer, threads, best)) best = b;
		}
	}
	return best;
}

void lo_tile_units(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	lo_tiles x;
	if (!lo_tiles_of(k, &x)) return; /* the verifier tells */
	const int64_t last = k->dim[k->ndim - 1], m = x.row < 0 ? 1 : k->dim[x.row], red = k->red > 0 ? k->red : 1;
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)k->ins.v[x.dot].dtype);
	const double fma = t->fma_ns * (double)size / 4 *
	                   (x.bytes                                        ? 0.33
	                    : x.pairs || x.ordered                         ? 0.5
	                    : rt_is_float((tj_dtype)k->ins.v[x.dot].dtype) ? 1
	                                                                   : 2);
	const double element =
		(double)red * (m == 1 ? t->byte_ns * (double)(x.bytes ? 1 : size) : fma); /* one row: reading the columns takes longer */
	int64_t outer = 1;
	for (int d = 0; d < k->ndim - 1; d++)
		if (d != x.row) outer *= k->dim[d];
	const double all = element * (double)m * (double)last * (double)outer;
	const int threads = all < RT_SERIAL_NS ? 1 : rt_team_threads();
	const bool few_blocks = x.strips || x.bytes || x.ordered ||
	                        m <= LO_TILE_ROWS; /* where a product takes little time, packing is a large part of it */
	const blocks b = cut(&x, k, m, last, outer, threads == 1 || few_blocks || all < 150 * RT_SERIAL_NS ? threads : 4 * threads, threads);
	s->rows = b.rows;
	s->block = b.columns;
	const int64_t rows = up(s->rows, LO_TILE_ROWS) + LO_TILE_ROWS,
		      columns = up(s->block, LO_TILE_COLUMNS) +
	                        LO_TILE_COLUMNS; /* strips of some rows are tiles if the code has symbols for sizes */
	s->scratch = (size_t)((LO_ROW_ROOM * rows + (x.strips && x.row < 0 ? 1 : LO_TILE_PANEL) * columns + rows * columns +
	                       3 * LO_TILE_SLACK + (x.across && !x.bytes ? (k->few ? lo_most_few(k, &x) : m) * red : 0)) *
	                      size);
	if (lo_jumps(index_of(k, x.load[1]))) s->scratch += sizeof(int64_t) * LO_TILE_STEPS;
	s->unit_ns = element * (double)(s->rows * s->block) + 20;
}
