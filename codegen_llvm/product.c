/* SPDX-License-Identifier: MIT */
/* product: matrix products, for schedules TILE.
 *
 *   for each unit: a block of the result, rows x columns
 *     for each chunk of r:
 *       pack the rows          by tiles of `most` rows:       [r][most], or as rows; maybe by the tiles of the first panel
 *       pack the columns       by panels of `width` columns:  [r][width]
 *       for each panel, for each tile: the sums of tile x panel in registers, over the chunk; then added to those of the block
 *     for each row of the block: the point sections, whose vectors load the sums
 *
 * Packing is left out where it does not pay: few tiles read whole panels in place; few panels read rows in place; and the sums go straight
 * to the result where the kernel does no more than store them.
 *
 * Functions that kernels share pack an operand (one for each) and compute a tile (one for each number of rows). A product with one row, or
 * a few, whose columns are adjacent in memory is computed in strips: several rows of the right operand are added to the sums at a time,
 * from end to end, because memory is read fastest in sequence. Each sum is one chain of fused multiply-adds in each chunk, whatever the
 * walk.
 *
 * Packed rows and columns that are absent repeat the last one, are 0, or, as bytes, are what was there before; their sums are never stored.
 */
#include "codegen_llvm/product.h"

/* ---- a unit ---- */
typedef struct unit {
	cg_str lo, hi, columns, row0, rows; /* of the block */
	cg_str a, b;                        /* first element of the rows, and of the columns, at r = 0 */
	cg_str packed, panels;              /* scratch memory: packed rows; packed columns, or the strip's sums of a chunk */
	cg_str sums, pitch;                 /* of the block: in scratch memory, or the result itself */
	cg_str out, out_pitch;              /* partly, late: the result, for whole panels in the last chunk */
	cg_str fit[2];                      /* pairs.c: of the packed rows and columns of a chunk */
} unit;

static cg_str first_element(cg *c, const lo_ins *in, cg_str row0, cg_str lo)
{
	const lo_index *x = &c->k->index.v[in->index];
	cg_str sum = cg_int(x->offset);
	for (int d = 0; d < c->k->ndim; d++) {
		if (!x->coef[d] || c->k->dim[d] == 1) continue;
		cg_str i = d == cg_product_of(c)->x.row ? row0 : d == c->k->ndim - 1 ? lo : cg_fmt("%%d%d", d);
		sum = cg_op(c, "add", sum, cg_op(c, "mul", i, cg_int(x->coef[d])));
	}
	return cg_elem(c, (tj_dtype)in->dtype, cg_fmt("%%b%u", in->buf), sum);
}

/* Where the other loads of both operands begin, and their scalars. */
static void put_operands(cg *c, const unit *u)
{
	for (int o = 0; o < 2; o++) {
		const cg_operand *x = &cg_product_of(c)->operand[o];
		for (uint32_t i = 0; i < x->other.n; i++) c->product->first[o][i] = first_element(c, &c->k->ins.v[x->other.v[i]], u->row0, u->lo);
		for (uint32_t i = 0; i < x->scalar.n; i++)
			if (!o || !lo_needed(&cg_product_of(c)->x.needs[0], x->scalar.v[i])) cg_point(c, x->scalar.v[i]);
	}
}

/* Piece `number` of an extent: *from, *to. */
static void piece(cg *c, cg_str number, cg_num size, cg_num extent, cg_str *from, cg_str *to)
{
	*from = cg_hide(c, cg_op(c, "mul", number, size.s)); /* else LLVM searches long for a quicker form of each loop over pieces */
	*to = cg_hide(c, cg_least(c, cg_op(c, "add", *from, size.s), extent.s));
}

static unit put_unit(cg *c)
{
	const cg_product *p = cg_product_of(c);
	const lo_kernel *k = c->k;
	const int last = k->ndim - 1;
	cg_num rows = cg_size(c->s->rows), extent = p->x.row < 0 ? cg_lit(1) : cg_size(k->dim[p->x.row]);
	cg_num across = cg_div_up(c, cg_size(k->dim[last]), c->block), down = cg_div_up(c, extent, rows);
	unit u = { 0 };
	const cg_str number = cg_hide(c, cg_fmt("%%u"));
	cg_str rest = cg_op(c, "udiv", number, across.s), to;
	piece(c, cg_op(c, "urem", number, across.s), c->block, cg_size(k->dim[last]), &u.lo, &u.hi);
	piece(c, cg_op(c, "urem", rest, down.s), rows, extent, &u.row0, &to);
	rest = cg_op(c, "udiv", rest, down.s);
	for (int d = last - 1; d >= 0; d--) {
		if (d == p->x.row) continue;
		rt_putf(c->out, "  %%d%d = urem i64 %s, %s\n", d, rest.s, cg_int(k->dim[d]).s);
		rest = cg_op(c, "udiv", rest, cg_int(k->dim[d]));
	}
	u.columns = cg_op(c, "sub", u.hi, u.lo);
	u.rows = cg_op(c, "sub", to, u.row0);
	u.a = first_element(c, &k->ins.v[p->x.load[0]], u.row0, u.lo);
	if (!p->x.panels) u.b = first_element(c, &k->ins.v[p->x.load[1]], u.row0, u.lo);
	put_operands(c, &u);
	const cg_num up = cg_mul(c, cg_add(c, cg_div_up(c, rows, cg_lit(LO_TILE_ROWS)), cg_lit(1)), cg_lit(LO_TILE_ROWS * LO_ROW_ROOM));
	u.packed = cg_fmt("%%scratch");
	if (cg_has_steps(c->how, p->x.load[1])) {
		c->product->steps = u.packed;
		u.packed = cg_elem(c, TJ_I64, u.packed, cg_int(LO_TILE_STEPS));
	}
	u.panels = cg_elem(c, p->t, u.packed, cg_add(c, up, cg_lit(LO_TILE_SLACK)).s);
	for (int o = 0; p->ordered && o < 2; o++)
		u.fit[o] = cg_elem(c, TJ_I16, u.panels, cg_int(o - 2)); /* the last bytes of what lies between the two */
	if (p->across)
		u.panels = cg_elem(c, p->t, u.packed,
		                   cg_op(c, "add", cg_op(c, "mul", cg_int(p->most), cg_int(k->red)), cg_int(LO_TILE_SLACK)));
	u.sums = cg_elem(c, p->t, u.panels,
	                 cg_add(c,
	                        p->x.strips ? cg_mul(c, c->product->pitch, cg_lit(cg_strip_rows(c->how)))
	                                    : cg_mul(c, p->lone ? cg_lit(LO_TILE_COLUMNS) : c->product->pitch, cg_lit(LO_TILE_PANEL)),
	                        cg_lit(LO_TILE_SLACK))
	                         .s);
	u.pitch = c->product->pitch.s;
	if (p->direct == LO_NOREF) return u;
	const lo_ins *out = &k->ins.v[p->direct];
	u.out = first_element(c, out, u.row0, u.lo);
	u.out_pitch = p->x.row < 0 ? cg_int(0) : cg_int(k->index.v[out->index].coef[p->x.row]);
	if (!p->partly && !p->late) u.sums = u.out, u.pitch = u.out_pitch;
	return u;
}

/* The address of an operand's element: row or column `item` of the block, step k of r. */
static cg_str operand_at(cg *c, const unit *u, int o, cg_str item, cg_str k)
{
	cg_str at = cg_op(c, "add", cg_op(c, "mul", item, cg_int(cg_item_step(c->how, o))), cg_op(c, "mul", k, cg_int(cg_r_step(c->how, o))));
	return cg_elem(c, cg_item_dtype(c->how, o), o ? u->b : u->a, at);
}

static void call_tile(cg *c, const cg_str *name, cg_str q, const char *arguments)
{
	const cg_product *p = cg_product_of(c);
	const unsigned id = ++c->tmp;
	for (int i = 0; i < p->nrows; i++) {
		if (i < p->nrows - 1) {
			cg_str is = cg_cmp(c, "eq", q, cg_int(p->rows[i]));
			rt_putf(c->out, "  br i1 %s, label %%tile%u.%d, label %%other%u.%d\n", is.s, id, i, id, i);
			cg_label(c, cg_fmt("tile%u.%d", id, i));
		}
		rt_putf(c->out, "  call void %s(%s)\n  br label %%tiled%u\n", name[i].s, arguments, id);
		if (i < p->nrows - 1) cg_label(c, cg_fmt("other%u.%d", id, i));
	}
	cg_label(c, cg_fmt("tiled%u", id));
}

/* a chunk of r: its first r, their number, whether it is the first one, the last one; cg_fits() */
typedef struct part { cg_str k, nk, first, last, fits; } part;
typedef struct plan {
	cg_str rows, full;      /* the first `full` tiles of a block have so many rows */
	cg_str n;               /* number of tiles. With known rows, those behind the full ones have a row less; */
	cg_str next;            /* else there are at most two: one of so many rows, and one of as few as a tile has */
	cg_str packs;           /* whether all columns are packed */
} plan;
typedef struct tile { cg_str row, n; } tile;         /* its first row, how many it has */
typedef struct panel {
	cg_str j, y, step;      /* its first column, the address of its elements, elements from r to r (stored panels: to the next one) */
	cg_str copy;            /* where its tile writes the columns, which it reads as they lie; empty: nowhere */
	bool wide;              /* for the wide tile */
} panel;

static void call(cg *c, cg_str name, rt_text *arguments)
{
	rt_putf(c->out, "  call void %s(%s)\n", name.s, rt_str(arguments));
	c->oom |= arguments->oom;
	rt_text_free(arguments);
}

/* Packs n items of operand o, from `item` on. */
static void call_pack(cg *c, const unit *u, int o, cg_str to, cg_str item, cg_str n, const part *k)
{
	rt_text t = { 0 };
	rt_putf(&t, "ptr %s, ptr %s, i64 %s, i64 %s, i64 %s, i64 %s", to.s, operand_at(c, u, o, item, k->k).s, n.s, k->nk.s,
	        cg_int(cg_item_step(c->how, o)).s, cg_int(cg_r_step(c->how, o)).s);
	cg_put_arguments(c, o, item, k->k, &t);
	if (cg_product_of(c)->ordered) rt_putf(&t, ", ptr %s", u->fit[o].s);
	call(c, c->product->pack[o], &t);
}

/* Elements of a stored panel (LO_PANELS, LO_WORDS) for a chunk, with the room behind them. */
static cg_str panel_size(cg *c, const part *k)
{
	return cg_op(c, "mul", cg_op(c, "add", cg_words(c, k->nk), cg_int(1)), cg_int(cg_product_of(c)->panel));
}

/* The first stored panel of a chunk. */
static cg_str first_panel(cg *c, const part *k)
{
	const cg_product *p = cg_product_of(c);
	const cg_num own = cg_lit(p->panel), columns = cg_mul(c, cg_div_up(c, cg_size(c->k->dim[c->k->ndim - 1]), own), own);
	const cg_str rows = cg_op(c, "add", cg_op(c, "udiv", k->k, cg_int(p->steps)), cg_op(c, "udiv", k->k, cg_int(p->chunk)));
	return cg_elem(c, p->yt, cg_fmt("%%b%u", c->k->ins.v[p->x.load[1]].buf), cg_op(c, "mul", rows, columns.s));
}

/* A constant's columns from j on, in its panels; blocks begin with whole ones. */
static cg_str stored_panel(cg *c, const unit *u, const part *k, cg_str j)
{
	const cg_product *p = cg_product_of(c);
	cg_str column = cg_op(c, "add", u->lo, j), number = cg_op(c, "udiv", column, cg_int(p->panel)),
	       within = cg_op(c, "and", column, cg_int(p->panel - 1));
	return cg_elem(c, p->yt, first_panel(c, k), cg_op(c, "add", cg_op(c, "mul", number, panel_size(c, k)), within));
}

/* The panel that begins at column j. Where columns are read in place, only a panel that is not whole is packed. */
static panel put_panel(cg *c, const unit *u, const part *k, const plan *t, cg_str j)
{
	const cg_product *p = cg_product_of(c);
	if (p->x.panels) return (panel){ .j = j, .y = stored_panel(c, u, k, j), .step = panel_size(c, k) };
	if (p->unpacked) return (panel){ .j = j, .y = operand_at(c, u, 1, j, k->k), .step = cg_int(cg_r_step(c->how, 1)) };
	panel x = { .j = j, .y = cg_elem(c, p->yt, u->panels, cg_op(c, "mul", j, cg_int(LO_TILE_PANEL))), .step = cg_int(p->width) };
	const unsigned id = ++c->tmp;
	if (!p->in_place) return x;
	const cg_str sk = cg_int(cg_r_step(c->how, 1)), n = cg_op(c, "sub", u->columns, j);
	cg_str whole = cg_cmp(c, "sge", n, cg_int(p->width)), there = cg_choose(c, t->packs, "i1", cg_fmt("true"), whole),
	       here = cg_choose(c, t->packs, "i1", cg_fmt("false"), whole);
	cg_str start = operand_at(c, u, 1, j, k->k);
	x.y = cg_choose(c, t->packs, "ptr", x.y, u->panels);
	rt_putf(c->out, "  br i1 %s, label %%panel%u, label %%pack%u\n", there.s, id, id);
	cg_label(c, cg_fmt("pack%u", id));
	call_pack(c, u, 1, x.y, j, n, k);
	cg_jump(c, cg_fmt("panel%u", id));
	x.y = cg_choose(c, here, "ptr", start, x.y);
	x.step = cg_choose(c, here, "i64", sk, x.step);
	return x;
}

static plan known_tiles(cg *c, cg_str rows)
{
	int64_t all, last;
	cg_block_rows(c->how, &all, &last);
	plan t = { .rows = cg_int(cg_even_rows(cg_product_of(c), all)) };
	if (all != last) t.rows = cg_choose(c, cg_cmp(c, "eq", rows, cg_int(all)), "i64", t.rows, cg_int(cg_even_rows(cg_product_of(c), last)));
	const cg_str less = cg_op(c, "sub", t.rows, cg_int(1));
	t.n = cg_op(c, "udiv", cg_op(c, "add", rows, less), t.rows);
	t.full = cg_op(c, "sub", rows, cg_op(c, "mul", t.n, less));
	return t;
}

/* Tiles as large as can be, then smaller ones, of which the last one has at most one row that is absent; a few rows are one tile, which
 * reads columns once. Rows are packed then, and sums have room for absent ones. */
static plan any_tiles(cg *c, cg_str rows)
{
	const cg_product *p = cg_product_of(c);
	plan t = { .rows = cg_int(p->most), .next = cg_int(p->rows[0]) };
	t.full = cg_op(c, "udiv", cg_op(c, "add", rows, cg_int(1)), t.rows);
	const cg_str left = cg_op(c, "sub", rows, cg_op(c, "mul", t.full, t.rows)); /* or -1 */
	const cg_str small = cg_cmp(c, "eq", t.full, cg_int(0));
	for (int i = 1; i < p->nrows; i++) {
		const cg_str least = cg_choose(c, small, "i64", cg_int(p->rows[i - 1] + 1), cg_int(p->rows[i] - 1));
		t.next = cg_choose(c, cg_cmp(c, "sge", left, least), "i64", cg_int(p->rows[i]), t.next);
	}
	const cg_str one = cg_choose(c, cg_cmp(c, "sgt", left, cg_int(0)), "i64", cg_int(1), cg_int(0)),
		     two = cg_choose(c, cg_cmp(c, "sgt", left, t.next), "i64", cg_int(1), cg_int(0));
	t.n = cg_op(c, "add", t.full, cg_op(c, "add", one, two));
	return t;
}

static tile tile_at(cg *c, const plan *t, cg_str i)
{
	const cg_str full = cg_cmp(c, "slt", i, t->full), before = cg_least(c, i, t->full);
	if (cg_known_rows(c->how)) {
		const cg_str less = cg_op(c, "sub", t->rows, cg_int(1));
		return (tile){ cg_op(c, "add", cg_op(c, "mul", i, less), before), cg_choose(c, full, "i64", t->rows, less) };
	}
	const cg_str last = cg_cmp(c, "sgt", i, t->full);
	const cg_str n = cg_choose(c, full, "i64", t->rows, cg_choose(c, last, "i64", cg_int(cg_product_of(c)->rows[0]), t->next));
	return (tile){ cg_op(c, "add", cg_op(c, "mul", before, t->rows), cg_choose(c, last, "i64", t->next, cg_int(0))), n };
}

static bool packs_rows(const cg_product *p) { return !p->rows_in_place && !p->copies_rows; }

/* The packed rows number i. */
static cg_str packed_panel(cg *c, const unit *u, cg_str i)
{
	const cg_product *p = cg_product_of(c);
	return cg_elem(c, p->t, u->packed, cg_op(c, "mul", i, cg_int((int64_t)LO_ROW_ROOM * p->most)));
}

/* Where the rows of tile i are packed. Without known rows the tiles behind the full ones share what is packed last. */
static cg_str packed_rows(cg *c, const unit *u, const plan *t, cg_str i, const tile *at)
{
	const cg_product *p = cg_product_of(c);
	if (cg_known_rows(c->how)) return packed_panel(c, u, i);
	const cg_str number = cg_least(c, i, t->full), row = cg_op(c, "sub", at->row, cg_op(c, "mul", number, t->rows));
	return cg_elem(c, p->t, packed_panel(c, u, number), cg_op(c, "mul", row, cg_int(p->rows_apart ? LO_ROW_ROOM : 1)));
}

/* Calls one of the tiles in `name` and goes on at label done%id, if `is` has this value. */
static void call_if(cg *c, cg_str is, bool value, const char *label, unsigned id, const cg_str *name, cg_str q, const char *arguments)
{
	const cg_str call = cg_fmt("%s%u", label, id), skip = cg_fmt("%s.not%u", label, id);
	rt_putf(c->out, "  br i1 %s, label %%%s, label %%%s\n", is.s, value ? call.s : skip.s, value ? skip.s : call.s);
	cg_label(c, call);
	call_tile(c, name, q, arguments);
	rt_putf(c->out, "  br label %%done%u\n", id);
	cg_label(c, skip);
}

static cg_str sums_at(cg *c, cg_str sums, cg_str pitch, cg_str row, cg_str column)
{
	return cg_elem(c, cg_product_of(c)->t, sums, cg_op(c, "add", column, cg_op(c, "mul", row, pitch)));
}

/* partly, late: whether the sums of a panel go straight to the result in this chunk. */
static cg_str is_direct(cg *c, const unit *u, const part *k, const panel *y)
{
	const cg_product *p = cg_product_of(c);
	if (!p->partly) return k->last;
	const cg_str whole = cg_cmp(c, "sge", cg_op(c, "sub", u->columns, y->j), cg_int(p->width));
	return p->late ? cg_choose(c, whole, "i1", k->last, cg_fmt("false")) : whole;
}

/* Tile number i, against a panel. */
static void put_tile(cg *c, const unit *u, const part *k, const plan *t, const panel *y, cg_str i)
{
	const cg_product *p = cg_product_of(c);
	const bool copy = y->copy.s[0];
	const tile at = tile_at(c, t, i);
	const cg_str x = p->rows_in_place ? operand_at(c, u, 0, at.row, k->k) : packed_rows(c, u, t, i, &at);
	const cg_str row = cg_int(cg_item_step(c->how, 0));
	const cg_str before = sums_at(c, u->sums, u->pitch, at.row, y->j);
	cg_str sums = before, pitch = u->pitch;
	if (p->partly || p->late) {
		const cg_str direct = is_direct(c, u, k, y);
		sums = cg_choose(c, direct, "ptr", sums_at(c, u->out, u->out_pitch, at.row, y->j), before);
		pitch = cg_choose(c, direct, "i64", u->out_pitch, u->pitch);
	}
	rt_text arguments = { 0 };
	const unsigned id = ++c->tmp;
	rt_putf(&arguments, "ptr %s, ptr %s, i64 %s, i64 %s, ptr %s, i64 %s, i1 %s", x.s, y->y.s, y->step.s, k->nk.s, sums.s, pitch.s, k->first.s);
	if (cg_row_is_argument(p)) rt_putf(&arguments, ", i64 %s", row.s);
	if (p->late) rt_putf(&arguments, ", ptr %s, i64 %s", before.s, u->pitch.s);
	if (p->copies_rows)
		rt_putf(&arguments, ", i64 %s, ptr %s", row.s,
		        cg_choose(c, cg_cmp(c, "eq", y->j, cg_int(0)), "ptr", operand_at(c, u, 0, at.row, k->k), cg_fmt("null")).s);
	if (copy || p->one_tile) rt_putf(&arguments, ", ptr %s", copy ? y->copy.s : "null");
	if (copy || !p->columns_computed) cg_put_arguments(c, 1, y->j, k->k, &arguments);
	if (p->ordered) call_if(c, k->fits, false, "apart", id, c->product->apart_tile, at.n, rt_str(&arguments));
	if (p->edge && !copy) {
		rt_text some = { 0 };
		const cg_str have = cg_op(c, "sub", u->columns, y->j);
		rt_putf(&some, p->masked ? "%s, i64 %s" : "%s", rt_str(&arguments), have.s);
		call_if(c, cg_cmp(c, "slt", have, cg_int(p->width)), true, "edge", id, c->product->edge_tile, at.n, rt_str(&some));
		c->oom |= some.oom;
		rt_text_free(&some);
	}
	if (y->wide) rt_putf(c->out, "  call void %s(%s)\n", c->product->wide_tile.s, rt_str(&arguments));
	else call_tile(c, copy && !p->one_tile ? c->product->copy_tile : c->product->tile, at.n, rt_str(&arguments));
	cg_jump(c, cg_fmt("done%u", id));
	c->oom |= arguments.oom;
	rt_text_free(&arguments);
}

/* The panel that begins at column j, as a copy that the first tile makes. *next: the first tile that is still to do. */
static panel copy_panel(cg *c, const unit *u, const part *k, const plan *t, cg_str j, cg_str *next)
{
	const cg_product *p = cg_product_of(c);
	const panel there = { .j = j, .y = operand_at(c, u, 1, j, k->k), .step = cg_int(cg_r_step(c->how, 1)), .copy = u->panels },
		    copy = { .j = j, .y = u->panels, .step = cg_int(p->width) };
	const cg_str n = cg_op(c, "sub", u->columns, j), whole = cg_cmp(c, "sge", n, cg_int(p->width));
	const unsigned id = ++c->tmp;
	if (!p->unpacked) {
		rt_putf(c->out, "  br i1 %s, label %%whole%u, label %%part%u\n", whole.s, id, id);
		cg_label(c, cg_fmt("part%u", id));
		call_pack(c, u, 1, copy.y, j, n, k);
		rt_putf(c->out, "  br label %%copied%u\n", id);
		cg_label(c, cg_fmt("whole%u", id));
	}
	put_tile(c, u, k, t, &there, cg_int(0));
	if (!p->unpacked) cg_jump(c, cg_fmt("copied%u", id));
	*next = p->unpacked ? cg_int(1) : cg_choose(c, whole, "i64", cg_int(1), cg_int(0));
	return copy;
}

/* The panel that begins at column j, packed. */
static panel pack_panel(cg *c, const unit *u, const part *k, cg_str j)
{
	const cg_str width = cg_int(cg_product_of(c)->width);
	call_pack(c, u, 1, u->panels, j, cg_least(c, cg_op(c, "sub", u->columns, j), width), k);
	return (panel){ .j = j, .y = u->panels, .step = width };
}

static void pack_rows(cg *c, const unit *u, const part *k, const plan *t)
{
	const cg_str all = cg_int(cg_product_of(c)->most),
		     panels = cg_known_rows(c->how) ? t->n : cg_op(c, "udiv", cg_op(c, "add", u->rows, cg_int(cg_product_of(c)->most - 1)), all);
	cg_loop i = cg_open(c, "t", cg_int(0), panels, cg_int(1), false);
	const cg_str number = cg_hide(c, i.i);
	tile x;
	if (cg_known_rows(c->how)) x = tile_at(c, t, number);
	else {
		x.row = cg_op(c, "mul", number, all);
		x.n = cg_least(c, cg_op(c, "sub", u->rows, x.row), all);
	}
	call_pack(c, u, 0, packed_panel(c, u, number), x.row, x.n, k);
	cg_close(c, &i);
}

static void pack_columns(cg *c, const unit *u, const part *k, const plan *t)
{
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%columns%u, label %%panels%u\n", t->packs.s, id, id);
	cg_label(c, cg_fmt("columns%u", id));
	call_pack(c, u, 1, u->panels, cg_int(0), u->columns, k);
	cg_jump(c, cg_fmt("panels%u", id));
}

/* A block of few rows, which is one tile, reads long pieces of memory, in place. Two rows are computed like four, which pays if columns lie
 * a multiple of a page apart, or may do. The first column that is left; of more rows 0. */
static cg_str put_wide(cg *c, const unit *u, const part *k, const plan *t)
{
	const cg_product *p = cg_product_of(c);
	const cg_str width = cg_int((int64_t)CG_WIDE_VECS * p->w), whole = cg_op(c, "sub", u->columns, cg_op(c, "urem", u->columns, width));
	const bool apart = cg_lie_apart(cg_r_step(c->how, 1), cg_item_dtype(c->how, 1), CG_PAGE);
	const cg_str more = cg_choose(c, cg_cmp(c, "sgt", u->rows, cg_int(apart ? 0 : CG_WIDE_ROWS / 2)), "i64", whole, cg_int(0));
	const cg_str stop = cg_choose(c, cg_cmp(c, "sle", u->rows, cg_int(CG_WIDE_ROWS)), "i64", more, cg_int(0));
	cg_loop j = cg_open(c, "j", cg_int(0), stop, width, true);
	const cg_str column = cg_hide(c, j.i);
	const panel y = { .j = column, .y = operand_at(c, u, 1, column, k->k), .step = cg_int(cg_r_step(c->how, 1)), .wide = true };
	put_tile(c, u, k, t, &y, cg_int(0));
	cg_close(c, &j);
	return stop;
}

/* Each panel stays in the first cache while all tiles read it. */
static void put_by_panels(cg *c, const unit *u, const part *k, const plan *t)
{
	const cg_product *p = cg_product_of(c);
	const cg_str from = p->wide ? put_wide(c, u, k, t) : cg_int(0);
	cg_loop j = cg_open(c, "j", from, u->columns, cg_int(p->width), p->wide);
	cg_str next = cg_int(0), column = cg_hide(c, j.i);
	const panel y = p->copies ? copy_panel(c, u, k, t, column, &next)
	                : p->each ? pack_panel(c, u, k, column)
	                          : put_panel(c, u, k, t, column);
	cg_loop i = cg_open(c, "t", next, t->n, cg_int(1), p->copies);
	put_tile(c, u, k, t, &y, cg_hide(c, i.i));
	cg_close(c, &i);
	cg_close(c, &j);
}

/* Results are stored row by row. */
static void put_by_rows(cg *c, const unit *u, const part *k, const plan *t)
{
	cg_loop i = cg_open(c, "t", cg_int(0), t->n, cg_int(1), false);
	const cg_str number = cg_hide(c, i.i);
	cg_loop j = cg_open(c, "j", cg_int(0), u->columns, cg_int(cg_product_of(c)->width), false);
	const panel y = put_panel(c, u, k, t, cg_hide(c, j.i));
	put_tile(c, u, k, t, &y, number);
	cg_close(c, &j);
	cg_close(c, &i);
}

static void put_tiles(cg *c, const unit *u)
{
	const cg_product *p = cg_product_of(c);
	const cg_num red = cg_size(c->k->red);
	plan t = cg_known_rows(c->how) ? known_tiles(c, u->rows) : any_tiles(c, u->rows);
	t.packs = p->lone ? cg_fmt("false") : p->in_place ? cg_cmp(c, "sgt", u->rows, cg_int(cg_few_rows(c->how))) : cg_fmt("true");
	cg_loop r = cg_open(c, "chunk", cg_int(0), red.s, cg_int(p->chunk), false);
	const cg_str first = cg_hide(c, r.i); /* of what does not take long LLVM need not find a quicker form: that takes long */
	part k = { .k = first, .nk = cg_least(c, cg_op(c, "sub", red.s, first), cg_int(p->chunk)), .first = cg_cmp(c, "eq", first, cg_int(0)) };
	k.last = cg_cmp(c, "sle", cg_op(c, "sub", red.s, first), cg_int(p->chunk));
	for (int o = 0; p->ordered && o < (p->x.words ? 1 : 2); o++) cg_write(c, TJ_I16, 1, cg_int(-1), u->fit[o]);
	if (cg_has_steps(c->how, p->x.load[1])) cg_put_steps(c, k.k, k.nk);
	if (packs_rows(p)) pack_rows(c, u, &k, &t);
	if (!p->lone) pack_columns(c, u, &k, &t);
	if (p->ordered)
		k.fits = cg_fits(c, u->fit[0],
		                 p->x.words ? cg_elem(c, p->yt, first_panel(c, &k), cg_op(c, "sub", panel_size(c, &k), cg_int(p->panel)))
		                            : u->fit[1]);
	if (p->rows_first) put_by_rows(c, u, &k, &t);
	else put_by_panels(c, u, &k, &t);
	cg_close(c, &r);
}

/* Panel by panel, each with all of r. */
static void put_across(cg *c, const unit *u)
{
	const cg_product *p = cg_product_of(c);
	const cg_str nk = cg_int(c->k->red), x = p->rows_in_place ? u->a : u->packed;
	const part all = { .k = cg_int(0), .nk = nk, .first = cg_fmt("true") };
	if (!p->rows_in_place) call_pack(c, u, 0, x, cg_int(0), u->rows, &all);
	cg_str q = cg_int(p->rows[p->nrows - 1]);
	for (int i = p->nrows - 2; i >= 0; i--) q = cg_choose(c, cg_cmp(c, "sle", u->rows, cg_int(p->rows[i])), "i64", cg_int(p->rows[i]), q);
	cg_loop j = cg_open(c, "j", cg_int(0), u->columns, cg_int(p->width), false);
	cg_str lacks = cg_op(c, "sub", cg_op(c, "add", j.i, cg_int(p->width)), u->columns),
	       skip = cg_choose(c, cg_cmp(c, "sgt", lacks, cg_int(0)), "i64", lacks, cg_int(0));
	cg_str from = p->ragged ? cg_op(c, "sub", j.i, skip) : j.i;
	rt_text t = { 0 };
	rt_putf(&t, "ptr %s, ptr %s, i64 %s, i64 %s, ptr %s, i64 %s, i64 %s", x.s, operand_at(c, u, 1, from, cg_int(0)).s,
	        cg_int(cg_item_step(c->how, 1)).s, nk.s, cg_elem(c, p->t, u->sums, from).s, u->pitch.s, skip.s);
	cg_put_arguments(c, 1, from, cg_int(0), &t);
	call_tile(c, c->product->tile, q, rt_str(&t));
	c->oom |= t.oom;
	rt_text_free(&t);
	cg_close(c, &j);
}

/* Bytes of few rows: a chunk of r, the columns from j on. A strip gets the elements from row to row of B, and the number of columns; a tile
 * those from column to column, and the pitch of the sums. */
static void call_bytes(cg *c, const unit *u, cg_str name, const part *k, cg_str j, int64_t step, cg_str n)
{
	rt_text t = { 0 };
	rt_putf(&t, "ptr %s, ptr %s, i64 %s, i64 %s, ptr %s, i64 %s, i1 %s", u->packed.s, operand_at(c, u, 1, j, k->k).s, cg_int(step).s, k->nk.s,
	        cg_elem(c, TJ_I32, u->sums, j).s, n.s, k->first.s);
	call(c, name, &t);
}

/* Columns [from, to), n at a time. */
static void put_byte_tiles(cg *c, const unit *u, cg_str name, const part *k, cg_str from, cg_str to, int n)
{
	cg_loop j = cg_open(c, "j", from, to, cg_int(n), true);
	call_bytes(c, u, name, k, j.i, cg_item_step(c->how, 1), u->pitch);
	cg_close(c, &j);
}

static void put_bytes(cg *c, const unit *u)
{
	const cg_product *p = cg_product_of(c);
	const cg_num red = cg_size(c->k->red);
	cg_loop r = cg_open(c, "chunk", cg_int(0), red.s, cg_int(p->chunk), false);
	const part k = { .k = r.i, .nk = cg_least(c, cg_op(c, "sub", red.s, r.i), cg_int(p->chunk)), .first = cg_cmp(c, "eq", r.i, cg_int(0)) };
	const cg_str whole = cg_op(c, "and", u->columns, cg_int(-p->width));
	call_pack(c, u, 0, u->packed, cg_int(0), u->rows, &k);
	if (p->x.strips) call_bytes(c, u, c->product->strip, &k, cg_int(0), cg_r_step(c->how, 1), u->columns);
	else {
		put_byte_tiles(c, u, c->product->tile[0], &k, cg_int(0), whole, p->width);
		put_byte_tiles(c, u, c->product->edge_tile[0], &k, whole, u->columns, 1);
	}
	cg_close(c, &r);
	if (p->x.strips) rt_putf(c->out, "  call void %s(ptr %s, i64 %s)\n", c->product->strip_step.s, u->sums.s, u->columns.s);
}

static void call_strip(cg *c, const unit *u, cg_str name, cg_str k, cg_str sums, cg_str first)
{
	const cg_str sx = cg_int(cg_r_step(c->how, 0)), sy = cg_int(cg_r_step(c->how, 1)), x = operand_at(c, u, 0, cg_int(0), k),
		     y = operand_at(c, u, 1, cg_int(0), k);
	rt_text t = { 0 };
	rt_putf(&t, "ptr %s, i64 %s, ptr %s, i64 %s, ptr %s, i64 %s, i1 %s, i64 %s, i64 %s", x.s, sx.s, y.s, sy.s, sums.s, u->columns.s,
	        first.s, u->pitch.s, cg_int(cg_item_step(c->how, 0)).s);
	for (int o = 0; o < 2; o++) cg_put_arguments(c, o, cg_int(0), k, &t);
	call(c, name, &t);
}

/* The sums of the first chunk are those of the block; the sums of a later one lie in u->panels and are then added. */
static void put_strips(cg *c, const unit *u)
{
	const cg_product *p = cg_product_of(c);
	const cg_num red = cg_size(c->k->red);
	cg_loop chunk = cg_open(c, "chunk", cg_int(0), red.s, cg_int(IR_CHAIN), false);
	cg_str nk = cg_least(c, cg_op(c, "sub", red.s, chunk.i), cg_int(IR_CHAIN)), first = cg_cmp(c, "eq", chunk.i, cg_int(0));
	cg_str sums = cg_choose(c, first, "ptr", u->sums, u->panels), whole = cg_op(c, "and", nk, cg_int(-p->strip_steps));
	cg_loop k = cg_open(c, "k", cg_int(0), whole, cg_int(p->strip_steps), true);
	call_strip(c, u, c->product->strip, cg_op(c, "add", chunk.i, k.i), sums, cg_cmp(c, "eq", k.i, cg_int(0)));
	cg_close(c, &k);
	cg_loop s = cg_open(c, "k", whole, nk, cg_int(1), true);
	call_strip(c, u, c->product->strip_step, cg_op(c, "add", chunk.i, s.i), sums, cg_cmp(c, "eq", s.i, cg_int(0)));
	cg_close(c, &s);
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%added%u, label %%later%u\n", first.s, id, id);
	cg_label(c, cg_fmt("later%u", id));
	for (int i = 0; i < cg_strip_rows(c->how); i++) {
		const cg_str row = cg_op(c, "mul", u->pitch, cg_int(i));
		cg_loop j = cg_open(c, "j", cg_int(0), u->columns, cg_int(p->w), false);
		const cg_str at = cg_op(c, "add", row, j.i), q = cg_elem(c, p->t, u->sums, at),
			     more = cg_read(c, p->t, p->w, cg_elem(c, p->t, u->panels, at));
		cg_write(c, p->t, p->w, cg_sum(c, p->t, p->w, cg_read(c, p->t, p->w, q), more), q);
		cg_close(c, &j);
	}
	cg_jump(c, cg_fmt("added%u", id));
	cg_close(c, &chunk);
}

/* ---- the rest of the kernel ---- */
/* The point sections, row by row, from column lo of the block on. */
static void put_rows(cg *c, const unit *u, cg_str lo, cg_span span)
{
	const cg_product *p = cg_product_of(c);
	cg_loop row = cg_open(c, "row", cg_int(0), u->rows, cg_int(1), false);
	const cg_str i = cg_hide(c, row.i);
	if (p->x.row >= 0) rt_putf(c->out, "  %%d%d = add i64 %s, %s\n", p->x.row, u->row0.s, i.s);
	c->sums = cg_elem(c, p->t, u->sums, cg_op(c, "mul", i, u->pitch));
	c->sums_lo = u->lo;
	cg_row(c, cg_op(c, "add", u->lo, lo), u->hi, span);
	cg_close(c, &row);
}

static cg_str put_pack(cg *c, int o, int width)
{
	const cg_product *p = cg_product_of(c);
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %to, ptr %from, i64 %n, i64 %nk, i64 %si, i64 %sk");
	cg_put_parameters(c, o, &parameters);
	if (p->ordered) rt_puts(&parameters, ", ptr %fit");
	cg_begin_own(c, &parameters);
	cg_open_fit(c);
	if (p->bytes) cg_pack_bytes(c);
	else if (p->pairs && !(o && p->lone)) cg_pack_pairs(c, o, width);
	else if (p->steps > 1 && !p->pairs) cg_pack_words(c, o, width);
	else if (!o && p->rows_apart) cg_pack_apart(c);
	else cg_pack(c, o, width);
	cg_close_fit(c);
	return cg_end_own(c);
}

static void put_byte_functions(cg *c)
{
	struct cg_writer *w = c->product;
	w->pack[0] = put_pack(c, 0, 1);
	if (w->p.x.strips) {
		w->strip = cg_put_byte_strip(c);
		w->strip_step = cg_put_byte_order(c);
		return;
	}
	w->tile[0] = cg_put_byte_tile(c, w->p.width, w->p.asks_columns);
	w->edge_tile[0] = cg_put_byte_tile(c, 1, false);
}

/* Its vectors may be narrower: what writes a tile finds their lanes in cg_product.w. */
static cg_str put_edge_tile(cg *c, int rows)
{
	cg_product *p = &c->product->p;
	p->w = p->edge_lanes;
	const cg_str name = cg_put_tile(c, rows, p->edge, CG_EDGE_TILE);
	p->w = c->how->product->w;
	return name;
}

static void put_functions(cg *c)
{
	struct cg_writer *w = c->product;
	const cg_product *p = &w->p;
	if (p->bytes) {
		put_byte_functions(c);
		return;
	}
	if (p->x.strips) {
		w->strip = cg_put_strip(c, p->strip_steps);
		w->strip_step = cg_put_strip(c, 1);
		return;
	}
	if (packs_rows(p)) w->pack[0] = put_pack(c, 0, p->most);
	if (p->across) {
		for (int i = 0; i < p->nrows; i++) w->tile[i] = cg_put_across(c, p->rows[i]);
		return;
	}
	if (!p->unpacked) w->pack[1] = put_pack(c, 1, p->width);
	for (int i = 0; i < p->nrows; i++) {
		w->tile[i] = cg_put_tile(c, p->rows[i], p->vecs, CG_PLAIN_TILE);
		if (p->edge) w->edge_tile[i] = put_edge_tile(c, p->rows[i]);
		if (p->ordered) w->apart_tile[i] = cg_put_tile(c, p->rows[i], p->vecs, CG_APART_TILE);
		if (p->copies && !p->one_tile) w->copy_tile[i] = cg_put_tile(c, p->rows[i], p->vecs, CG_COPY_TILE);
	}
	if (p->wide) w->wide_tile = cg_put_tile(c, CG_WIDE_ROWS, CG_WIDE_VECS, CG_WIDE_TILE);
}

static void write_unit(cg *c)
{
	struct cg_writer *w = c->product;
	const cg_product *p = &w->p;
	w->pitch = cg_add(c, cg_mul(c, cg_div_up(c, c->block, cg_lit(LO_TILE_COLUMNS)), cg_lit(LO_TILE_COLUMNS)), cg_lit(LO_TILE_COLUMNS));
	if (!p->square) put_functions(c);
	const unit u = put_unit(c);
	if (p->square) cg_multiply_square(c, u.a, u.b, u.sums);
	else if (p->bytes) put_bytes(c, &u);
	else if (p->x.strips) put_strips(c, &u);
	else if (p->across) put_across(c, &u);
	else put_tiles(c, &u);
	if (p->direct == LO_NOREF) put_rows(c, &u, cg_int(0), c->how->span);
	else if (p->partly)
		put_rows(c, &u, cg_op(c, "sub", u.columns, cg_op(c, "urem", u.columns, cg_int(p->width))),
		         (cg_span){ p->width > c->lanes, true, true, true });
}

void cg_along_product(cg *c)
{
	struct cg_writer w = { .p = *c->how->product, .memo = rt_calloc((c->k->ins.n + 1) * sizeof *w.memo) };
	c->product = &w;
	if (w.memo) write_unit(c);
	else c->oom = true;
	rt_free(w.memo);
	c->product = NULL;
}
