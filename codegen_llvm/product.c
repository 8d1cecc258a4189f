/* product: matrix products, for schedules TILE.
 *
 *   for each unit: a block of the result, rows x columns
 *     for each chunk of r:
 *       pack the rows          by tiles of `most` rows:       [r][most]
 *       pack the columns       by panels of `width` columns:  [r][width]
 *       for each panel, for each tile: the sums of tile x panel in registers, over the chunk; then added to those of the block
 *     for each row of the block: the point sections, whose vectors load the sums
 *
 * Packing is left out where it does not pay: few tiles read whole panels in place; few panels read rows in place; and the sums go straight
 * to the result where the kernel does no more than store them.
 *
 * Functions of its own pack an operand (one for each) and compute a tile (one for each number of rows). A product with one row whose
 * columns are adjacent in memory is computed in strips: several rows of the right operand are added to the sums at a time, from end to
 * end, because memory is read fastest in sequence. Each sum is one chain of fused multiply-adds in each chunk, whatever the walk.
 *
 * Packed rows and columns that are absent repeat the last one, or are 0; their sums are never stored. */
#include "codegen_llvm/cg.h"
#include "ir/tree.h"

#include <stdlib.h>

enum {
	STEPS = 16, FEW_STEPS = 8, /* strips: steps of r that are added at a time; FEW where their rows share a set of the first cache */
	AHEAD = 256,   /* strips: elements; distance of prefetches */
	FEW_ROWS_512 = 72, FEW_ROWS = 24, /* at most this many rows read columns in place, with 512 bits and with less */
	FEW_COLUMNS = 96, /* rows are read in place for blocks of at most this many columns */
	NEAR = 16, NEAR_VECS = 3, /* tiles: steps of r; distance of prefetches. Wider tiles do without */
	ROWS_AHEAD = 8, /* packing: rows; distance of prefetches */
	CACHED = 64,   /* packing: steps of r whose packed columns stay in the first cache */
	MOST_TILES = 4, MOST_VECS = 8,
	PAGE = 4096,   /* bytes: addresses a multiple of it apart share a set of the first cache */
	PANEL = IR_CHAIN + 1 /* rows of a packed panel: a multiple of a page from panel to panel would put their rows into one set of the cache */
};

struct cg_product {
	lo_tiles x;
	tj_dtype t;             /* of the sums */
	int w, vecs, width;     /* lanes of a vector; vectors and columns of a panel */
	int most;               /* rows of the largest tile */
	int rows[MOST_TILES], nrows; /* the numbers of rows for which there is a tile; rising */
	bool rows_in_place;     /* rows are not packed */
	uint32_t direct;        /* the store that is all that the point sections do: tiles write there; LO_NOREF: none */
	bool narrow;            /* the last panel may have one vector of columns alone */
	bool lone;              /* never more than one panel is packed at a time */
	bool one_chunk;         /* r is no longer than a chunk */
	cg_num pitch;           /* of the sums of the block */
	rt_text inner;          /* the functions of its own */
};

/* ---- small loops: index from..to, by step ---- */
typedef struct loop { cg_str i, step, to, head, latch, done; } loop;

static loop open(cg *c, const char *name, cg_str from, cg_str to, cg_str step, bool guard)
{
	const unsigned id = ++c->tmp;
	loop l = { cg_fmt("%%%s%u", name, id), step, to, cg_fmt("%s%u.head", name, id), cg_fmt("%s%u.latch", name, id), cg_fmt("%s%u.done", name, id) };
	const cg_str before = c->block_label;
	if (guard) rt_putf(c->out, "  %s.some = icmp slt i64 %s, %s\n  br i1 %s.some, label %%%s, label %%%s\n", l.i.s, from.s, to.s, l.i.s, l.head.s, l.done.s);
	else rt_putf(c->out, "  br label %%%s\n", l.head.s);
	cg_label(c, l.head);
	rt_putf(c->out, "  %s = phi i64 [ %s, %%%s ], [ %s.next, %%%s ]\n", l.i.s, from.s, before.s, l.i.s, l.latch.s);
	return l;
}

static void close(cg *c, const loop *l)
{
	cg_jump(c, l->latch);
	rt_putf(c->out, "  %s.next = add i64 %s, %s\n  %s.more = icmp slt i64 %s.next, %s\n  br i1 %s.more, label %%%s, label %%%s\n", l->i.s, l->i.s, l->step.s, l->i.s,
	        l->i.s, l->to.s, l->i.s, l->head.s, l->done.s);
	cg_label(c, l->done);
}

static cg_str op(cg *c, const char *name, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s i64 %s, %s\n", r.s, name, a.s, b.s);
	return r;
}

static cg_str lit(int64_t v) { return cg_fmt("%lld", (long long)v); }

static cg_str cmp(cg *c, const char *how, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp %s i64 %s, %s\n", r.s, how, a.s, b.s);
	return r;
}

static cg_str choose(cg *c, cg_str when, const char *type, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = select i1 %s, %s %s, %s %s\n", r.s, when.s, type, a.s, type, b.s);
	return r;
}

static cg_str least(cg *c, cg_str a, cg_str b)
{
	cg_str less = cg_tmp(c), r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp slt i64 %s, %s\n  %s = select i1 %s, i64 %s, i64 %s\n", less.s, a.s, b.s, r.s, less.s, a.s, b.s);
	return r;
}

static cg_str at(cg *c, tj_dtype t, cg_str base, cg_str index)
{
	cg_str p = cg_tmp(c);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", p.s, cg_mem_type(t, 1).s, base.s, index.s);
	return p;
}

static cg_str load(cg *c, tj_dtype t, int lanes, cg_str p)
{
	cg_str v = cg_tmp(c);
	rt_putf(c->out, "  %s = load %s, ptr %s, align %d\n", v.s, cg_type(t, lanes).s, p.s, (int)tj_dtype_size(t));
	return v;
}

static void store(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p)
{
	rt_putf(c->out, "  store %s %s, ptr %s, align %d\n", cg_type(t, lanes).s, v.s, p.s, (int)tj_dtype_size(t));
}

static cg_str load_some(cg *c, tj_dtype t, int lanes, cg_str p, cg_str mask)
{
	cg_str v = cg_tmp(c), type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = call %s @llvm.masked.load.%s.p0(ptr %s, i32 %d, <%d x i1> %s, %s zeroinitializer)\n", v.s, type.s, cg_mangle(t, lanes).s, p.s,
	        (int)tj_dtype_size(t), lanes, mask.s, type.s);
	return v;
}

/* The first n of the lanes; n may be larger than their number, or negative. */
static cg_str first_lanes(cg *c, cg_str n, int lanes)
{
	cg_str low = cg_tmp(c), mask = cg_tmp(c);
	rt_putf(c->out, "  %s = trunc i64 %s to i32\n", low.s, n.s);
	cg_str all = cg_splat(c, "i32", low, lanes);
	rt_putf(c->out, "  %s = icmp sgt <%d x i32> %s, ", mask.s, lanes, all.s);
	cg_iota(c->out, "i32", 1, lanes);
	rt_puts(c->out, "\n");
	return mask;
}

/* sum + a * b: fused for floats, wrapping for integers. */
static cg_str multiply_add(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b, cg_str sum)
{
	cg_str r = cg_tmp(c), type = cg_type(t, lanes);
	if (rt_is_float(t))
		rt_putf(c->out, "  %s = call %s @llvm.fma.%s(%s %s, %s %s, %s %s)\n", r.s, type.s, cg_mangle(t, lanes).s, type.s, a.s, type.s, b.s, type.s, sum.s);
	else rt_putf(c->out, "  %s.m = mul %s %s, %s\n  %s = add %s %s, %s.m\n", r.s, type.s, a.s, b.s, r.s, type.s, sum.s, r.s);
	return r;
}

static cg_str add(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, rt_is_float(t) ? "fadd" : "add", cg_type(t, lanes).s, a.s, b.s);
	return r;
}

/* What was loaded for operand o, converted as the loop says. */
static cg_str converted(cg *c, int o, int lanes, cg_str loaded)
{
	const struct cg_product *p = c->product;
	const int before = c->lanes;
	char copy[24];
	if (p->x.value[o] == p->x.load[o]) return loaded;
	snprintf(copy, sizeof copy, ".c%u", ++c->tmp);
	c->copy = copy;
	c->lanes = lanes;
	const uint8_t was = c->varies[p->x.load[o]];
	cg_val *v = &c->val[p->x.load[o]], old = *v;
	*v = (cg_val){ .name = loaded, .vec = lanes > 1, .place = CG_BODY };
	for (uint32_t i = p->x.load[o]; i <= p->x.value[o]; i++) {
		bool mine = i == p->x.load[o];
		for (uint32_t k = p->x.value[o]; !mine && c->k->ins.v[k].op == LO_CONVERT; k = c->k->ins.v[k].src[0]) mine = k == i;
		if (!mine) continue;
		c->varies[i] = lanes > 1;
		c->place[i] = CG_BODY;
		if (i != p->x.load[o]) cg_point(c, i);
	}
	cg_str r = c->val[p->x.value[o]].name;
	*v = old;
	c->varies[p->x.load[o]] = was;
	c->lanes = before;
	c->copy = "";
	return r;
}

/* ---- functions of its own ---- */
/* Their names begin with 16 characters that cg_kernel() replaces by a hash of the text, so that kernels of one module differ in them. */
static void begin(cg *c, rt_text *t, const char *name, int number, const char *arguments)
{
	c->out = t;
	rt_putf(t, "define internal void @" CG_OWN ".%s%d(%s) #0 {\nentry:\n", name, number, arguments);
	c->block_label = cg_fmt("entry");
}

static void end(cg *c) { rt_puts(c->out, "  ret void\n}\n\n"); }

/* Panels of items that are adjacent in memory, row by row of r. */
static void pack_along(cg *c, int o, int width)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[o]].dtype;
	const int vecs = (width + p->w - 1) / p->w;
	cg_str mask[MOST_VECS], rest = op(c, "urem", cg_fmt("%%n"), lit(width)), whole = op(c, "sub", cg_fmt("%%n"), rest);
	for (int v = 0; v < vecs; v++) mask[v] = first_lanes(c, op(c, "sub", rest, lit((int64_t)v * p->w)), p->w);
	loop k = open(c, "k", lit(0), cg_fmt("%%nk"), lit(1), true);
	cg_str row = at(c, from, cg_fmt("%%from"), op(c, "mul", k.i, cg_fmt("%%sk"))), to = at(c, p->t, cg_fmt("%%to"), op(c, "mul", k.i, lit(width)));
	cg_str some = cg_tmp(c), q, x;
	if (width % p->w == 0) {
		loop j = open(c, "j", lit(0), whole, lit(width), true);
		q = at(c, from, row, j.i);
		cg_str far = at(c, from, q, op(c, "mul", cg_fmt("%%sk"), lit(ROWS_AHEAD)));
		for (int v = 0; o && v < vecs; v += 64 / (p->w * (int)tj_dtype_size(from)) ? 64 / (p->w * (int)tj_dtype_size(from)) : 1) cg_prefetch(c, far, v * p->w * (int)tj_dtype_size(from));
		x = at(c, p->t, to, op(c, "mul", j.i, lit(PANEL)));
		for (int v = 0; v < vecs; v++)
			store(c, p->t, p->w, converted(c, o, p->w, load(c, from, p->w, at(c, from, q, lit((int64_t)v * p->w)))), at(c, p->t, x, lit((int64_t)v * p->w)));
		close(c, &j);
	} else { /* one panel: some lanes of its last vector are not its own */
		whole = lit(0);
		for (int v = 0; v < vecs; v++) mask[v] = first_lanes(c, op(c, "sub", cg_fmt("%%n"), lit((int64_t)v * p->w)), p->w);
		rest = cg_fmt("%%n");
	}
	rt_putf(c->out, "  %s = icmp sgt i64 %s, 0\n  br i1 %s, label %%some, label %%none\n", some.s, rest.s, some.s);
	cg_label(c, cg_fmt("some"));
	q = at(c, from, row, whole);
	x = at(c, p->t, to, op(c, "mul", whole, lit(PANEL)));
	for (int v = 0; v < vecs; v++)
		store(c, p->t, p->w, converted(c, o, p->w, load_some(c, from, p->w, at(c, from, q, lit((int64_t)v * p->w)), mask[v])), at(c, p->t, x, lit((int64_t)v * p->w)));
	cg_jump(c, cg_fmt("none"));
	close(c, &k);
}

/* The 16 bytes of lane group `group` of v. */
static void store_group(cg *c, tj_dtype t, int lanes, int n, cg_str v, int group, cg_str p)
{
	cg_str part = cg_tmp(c);
	if (n == lanes) part = v;
	else {
		rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", part.s, cg_type(t, lanes).s, v.s, cg_type(t, lanes).s, n);
		for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", group * n + i);
		rt_puts(c->out, ">\n");
	}
	store(c, t, n, part, p);
}

/* Swaps: in each group of n lanes, takes the lanes low.. of x and of y in turn, `size` at a time. One instruction. */
static cg_str interleave(cg *c, tj_dtype t, int lanes, int n, cg_str x, cg_str y, int low, int size)
{
	cg_str r = cg_tmp(c), type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, x.s, type.s, y.s, lanes);
	for (int l = 0; l < lanes; l++) {
		const int in = l % n, from = l - in + low + in / (2 * size) * size + in % size;
		rt_putf(c->out, "%si32 %d", l ? ", " : "", in / size % 2 ? lanes + from : from);
	}
	rt_puts(c->out, ">\n");
	return r;
}

/* n vectors, each w steps of r of one item, become w times n items side by side: in 16 bytes at p, p + width and so on. */
static void put_square(cg *c, tj_dtype t, int w, int n, cg_str *v, cg_str p, int width)
{
	cg_str r[4];
	if (n == 2) r[0] = interleave(c, t, w, n, v[0], v[1], 0, 1), r[1] = interleave(c, t, w, n, v[0], v[1], 1, 1);
	else {
		cg_str low[2], high[2];
		for (int i = 0; i < 2; i++) {
			low[i] = interleave(c, t, w, n, v[2 * i], v[2 * i + 1], 0, 1);
			high[i] = interleave(c, t, w, n, v[2 * i], v[2 * i + 1], 2, 1);
		}
		for (int i = 0; i < 2; i++) {
			r[i] = interleave(c, t, w, n, low[0], low[1], 2 * i, 2);
			r[2 + i] = interleave(c, t, w, n, high[0], high[1], 2 * i, 2);
		}
	}
	for (int k = 0; k < w; k++) store_group(c, t, w, n, r[k % n], k / n, at(c, t, p, lit((int64_t)k * width)));
}

/* w steps of r of a few items, from k on; stop: the first step that is not there, NULL: it is behind them. */
static void pack_square(cg *c, int o, int width, const cg_str *item, cg_str to, cg_str k, const cg_str *stop)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[o]].dtype;
	const int n = 16 / (int)tj_dtype_size(p->t);
	cg_str v[4], mask;
	if (stop) mask = first_lanes(c, op(c, "sub", *stop, k), p->w);
	for (int i = 0; i < n; i++) {
		cg_str q = at(c, from, item[i], k);
		if (o) cg_prefetch(c, q, CACHED * (int)tj_dtype_size(from));
		v[i] = converted(c, o, p->w, stop ? load_some(c, from, p->w, q, mask) : load(c, from, p->w, q));
	}
	put_square(c, p->t, p->w, n, v, at(c, p->t, to, op(c, "mul", k, lit(width))), width);
}

/* Panels of items whose steps of r are adjacent. A few items at a time, from the last ones of a panel down: where `width` is no multiple of
 * their number, they write into the next step of the first ones. */
static void pack_across(cg *c, int o, int width)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[o]].dtype;
	const int n = 16 / (int)tj_dtype_size(p->t), groups = (width + n - 1) / n;
	cg_str item[4], last = op(c, "sub", cg_fmt("%%n"), lit(1));
	loop j = open(c, "j", lit(0), cg_fmt("%%n"), lit(width), false);
	cg_str panel = at(c, p->t, cg_fmt("%%to"), op(c, "mul", j.i, lit(PANEL)));
	loop b = open(c, "b", lit(0), cg_fmt("%%nk"), lit(CACHED), true);
	cg_str stop = least(c, op(c, "add", b.i, lit(CACHED)), cg_fmt("%%nk")), whole = op(c, "add", b.i, op(c, "and", op(c, "sub", stop, b.i), lit(-p->w)));
	loop g = open(c, "g", lit(0), lit(groups), lit(1), false);
	cg_str first = op(c, "mul", op(c, "sub", lit(groups - 1), g.i), lit(n)), to = at(c, p->t, panel, first), some = cg_tmp(c);
	for (int i = 0; i < n; i++) item[i] = at(c, from, cg_fmt("%%from"), op(c, "mul", least(c, op(c, "add", op(c, "add", j.i, first), lit(i)), last), cg_fmt("%%si")));
	const bool masked = p->x.load[o] == p->x.value[o]; /* a masked load costs no more, but for dtypes that are converted */
	loop k = open(c, "k", b.i, masked ? stop : whole, lit(p->w), true);
	pack_square(c, o, width, item, to, k.i, masked ? &stop : NULL);
	close(c, &k);
	if (!masked) {
		rt_putf(c->out, "  %s = icmp slt i64 %s, %s\n  br i1 %s, label %%left, label %%even\n", some.s, whole.s, stop.s, some.s);
		cg_label(c, cg_fmt("left"));
		pack_square(c, o, width, item, to, whole, &stop);
		cg_jump(c, cg_fmt("even"));
	}
	close(c, &g);
	close(c, &b);
	close(c, &j);
}

static void pack_singly(cg *c, int o, int width)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[o]].dtype;
	cg_str last = op(c, "sub", cg_fmt("%%n"), lit(1));
	loop j = open(c, "j", lit(0), cg_fmt("%%n"), lit(width), false);
	loop k = open(c, "k", lit(0), cg_fmt("%%nk"), lit(1), true);
	cg_str row = at(c, from, cg_fmt("%%from"), op(c, "mul", k.i, cg_fmt("%%sk")));
	cg_str to = at(c, p->t, cg_fmt("%%to"), op(c, "add", op(c, "mul", k.i, lit(width)), op(c, "mul", j.i, lit(PANEL))));
	loop i = open(c, "i", lit(0), lit(width), lit(1), false);
	cg_str x = load(c, from, 1, at(c, from, row, op(c, "mul", least(c, op(c, "add", i.i, j.i), last), cg_fmt("%%si"))));
	store(c, p->t, 1, converted(c, o, 1, x), at(c, p->t, to, i.i));
	close(c, &i);
	close(c, &k);
	close(c, &j);
}

static int64_t item_step(const cg *c, int o)
{
	const struct cg_product *p = c->product;
	const lo_index *x = &c->k->index.v[c->k->ins.v[p->x.load[o]].index];
	return o ? x->coef[c->k->ndim - 1] : p->x.row < 0 ? 0 : x->coef[p->x.row];
}

static int64_t r_step(const cg *c, int o) { return c->k->index.v[c->k->ins.v[c->product->x.load[o]].index].rcoef; }

static int few_rows(const cg *c) { return c->bits == 512 ? FEW_ROWS_512 : FEW_ROWS; }

/* Steps of r in a strip: as many as registers allow, unless rows are a multiple of a page apart, or may be. */
static int steps_of(const cg *c)
{
	const int64_t row = r_step(c, 1), size = (int64_t)tj_dtype_size(c->product->t);
	return c->bits < 512 || lo_is_sym(row) || row * size % PAGE == 0 ? FEW_STEPS : STEPS;
}

/* The columns are known to fill more than the caches. */
static bool from_memory(const cg *c)
{
	const int64_t row = r_step(c, 1);
	return !lo_is_sym(row) && !lo_is_sym(c->k->red) && row * c->k->red * (int64_t)tj_dtype_size(c->product->t) > RT_THIRD_CACHE;
}

/* Packs n items (rows or columns) of operand o, nk steps of r: panels [nk][width], PANEL * width elements from one to the next. si, sk:
 * elements from item to item, and from r to r. Rows come panel by panel. */
static void put_pack(cg *c, int o, int width)
{
	begin(c, &c->product->inner, "pack", o, "ptr %to, ptr %from, i64 %n, i64 %nk, i64 %si, i64 %sk");
	if (item_step(c, o) == 1) pack_along(c, o, width);
	else if (r_step(c, o) == 1) pack_across(c, o, width);
	else pack_singly(c, o, width);
	end(c);
}

/* sums (row i at %sums + i * %pitch) = or += packed rows times columns, over nk steps of r. */
static void put_tile(cg *c, int rows, int vecs)
{
	const struct cg_product *p = c->product;
	const int n = rows * vecs;
	cg_str type = cg_type(p->t, p->w), sum[LO_TILE_ROWS * MOST_VECS], next[LO_TILE_ROWS * MOST_VECS], y[MOST_VECS];
	const cg_str row_step = p->rows_in_place ? cg_int(item_step(c, 0)) : lit(1), r = p->rows_in_place ? cg_int(r_step(c, 0)) : lit(p->most);
	rt_text head = { 0 };
	begin(c, &c->product->inner, vecs < p->vecs ? "narrow" : "tile", rows, "ptr %x, ptr %y, i64 %step, i64 %nk, ptr %sums, i64 %pitch, i1 %first");
	rt_text *text = c->out;
	rt_putf(text, "  %%near = mul i64 %%step, %d\n", NEAR);
	rt_puts(text, "  %any = icmp sgt i64 %nk, 0\n  br i1 %any, label %loop, label %out\nloop:\n");
	for (int i = 0; i < n; i++) sum[i] = cg_fmt("%%s%d", i);
	c->out = &head;
	for (int v = 0; v < vecs; v++) y[v] = load(c, p->t, p->w, at(c, p->t, cg_fmt("%%ya"), lit((int64_t)v * p->w)));
	cg_str near = at(c, p->t, cg_fmt("%%ya"), cg_fmt("%%near"));
	for (int v = 0; vecs <= NEAR_VECS && v < vecs; v += 64 / (p->w * (int)tj_dtype_size(p->t))) cg_prefetch(c, near, v * p->w * (int)tj_dtype_size(p->t));
	for (int i = 0; i < rows; i++) {
		cg_str x = cg_splat(c, cg_type(p->t, 1).s, load(c, p->t, 1, at(c, p->t, cg_fmt("%%xa"), cg_fmt("%lld", atoll(row_step.s) * i))), p->w);
		for (int v = 0; v < vecs; v++) next[i * vecs + v] = multiply_add(c, p->t, p->w, x, y[v], sum[i * vecs + v]);
	}
	rt_puts(text, "  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]\n  %xa = phi ptr [ %x, %entry ], [ %xb, %loop ]\n  %ya = phi ptr [ %y, %entry ], [ %yb, %loop ]\n");
	for (int i = 0; i < n; i++) rt_putf(text, "  %s = phi %s [ zeroinitializer, %%entry ], [ %s, %%loop ]\n", sum[i].s, type.s, next[i].s);
	rt_puts(text, rt_str(&head));
	c->oom |= head.oom;
	rt_text_free(&head);
	c->out = text;
	rt_putf(text, "  %%xb = getelementptr %s, ptr %%xa, i64 %s\n  %%yb = getelementptr %s, ptr %%ya, i64 %%step\n", cg_type(p->t, 1).s, r.s, cg_type(p->t, 1).s);
	rt_puts(text, "  %k.next = add i64 %k, 1\n  %more = icmp slt i64 %k.next, %nk\n  br i1 %more, label %loop, label %out\nout:\n");
	for (int i = 0; i < n; i++) rt_putf(text, "  %%e%d = phi %s [ zeroinitializer, %%entry ], [ %s, %%loop ]\n", i, type.s, next[i].s);
	for (int i = 0; i < rows; i++) {
		cg_str row = at(c, p->t, cg_fmt("%%sums"), op(c, "mul", cg_fmt("%%pitch"), lit(i)));
		for (int v = 0; v < vecs; v++) {
			cg_str q = at(c, p->t, row, lit((int64_t)v * p->w)), e = cg_fmt("%%e%d", i * vecs + v), both;
			if (!p->one_chunk) {
				both = cg_tmp(c);
				rt_putf(text, "  %s.sum = select i1 %%first, %s %s, %s %s\n", both.s, type.s, e.s, type.s, add(c, p->t, p->w, load(c, p->t, p->w, q), e).s);
				e = cg_fmt("%s.sum", both.s);
			}
			store(c, p->t, p->w, e, q);
		}
	}
	end(c);
}

/* The vector of sums from j on, of one row, plus `steps` steps of r. mask: the columns that there are; NULL: all. */
static void strip_vector(cg *c, int steps, const cg_str *x, const cg_str *row, cg_str j, const cg_str *mask)
{
	const struct cg_product *p = c->product;
	cg_str next = mask ? j : choose(c, cmp(c, "slt", op(c, "add", j, lit(AHEAD)), cg_fmt("%%n")), "i64", lit(AHEAD), op(c, "add", op(c, "sub", op(c, "mul", cg_fmt("%%sy"), lit(steps)), cg_fmt("%%n")), lit(AHEAD)));
	cg_str q = at(c, p->t, cg_fmt("%%sums"), j), sum = cg_tmp(c), type = cg_type(p->t, p->w), old = load(c, p->t, p->w, q);
	rt_putf(c->out, "  %s = select i1 %%first, %s zeroinitializer, %s %s\n", sum.s, type.s, type.s, old.s);
	for (int s = 0; s < steps; s++) {
		cg_str y = at(c, p->t, row[s], j);
		if (!mask && from_memory(c)) cg_prefetch(c, at(c, p->t, y, next), 0);
		sum = multiply_add(c, p->t, p->w, x[s], mask ? load_some(c, p->t, p->w, y, *mask) : load(c, p->t, p->w, y), sum);
	}
	store(c, p->t, p->w, sum, q);
}

static void put_strip(cg *c, int steps)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[0]].dtype;
	cg_str x[STEPS], row[STEPS], some = cg_tmp(c);
	begin(c, &c->product->inner, "strip", steps, "ptr %x, i64 %sx, ptr %y, i64 %sy, ptr %sums, i64 %n, i1 %first");
	for (int s = 0; s < steps; s++) {
		cg_str v = converted(c, 0, 1, load(c, from, 1, at(c, from, cg_fmt("%%x"), op(c, "mul", cg_fmt("%%sx"), lit(s)))));
		x[s] = cg_splat(c, cg_type(p->t, 1).s, v, p->w);
		row[s] = at(c, p->t, cg_fmt("%%y"), op(c, "mul", cg_fmt("%%sy"), lit(s)));
	}
	cg_str whole = op(c, "and", cg_fmt("%%n"), lit(-p->w)), left = op(c, "sub", cg_fmt("%%n"), whole);
	loop j = open(c, "j", lit(0), whole, lit(p->w), true);
	strip_vector(c, steps, x, row, j.i, NULL);
	close(c, &j);
	rt_putf(c->out, "  %s = icmp sgt i64 %s, 0\n  br i1 %s, label %%left, label %%over\n", some.s, left.s, some.s);
	cg_label(c, cg_fmt("left"));
	cg_str mask = first_lanes(c, left, p->w);
	strip_vector(c, steps, x, row, whole, &mask);
	cg_jump(c, cg_fmt("over"));
	end(c);
}

/* ---- a unit ---- */
typedef struct unit {
	cg_str lo, hi, columns, row0, rows; /* of the block */
	cg_str a, b;                        /* first element of the rows, and of the columns, at r = 0 */
	cg_str packed, panels;              /* scratch memory: packed rows; packed columns, or the strip's sums of a chunk */
	cg_str sums, pitch;                 /* of the block: in scratch memory, or the result itself */
} unit;

static cg_str first_element(cg *c, const lo_ins *in, cg_str row0, cg_str lo)
{
	const lo_index *x = &c->k->index.v[in->index];
	cg_str sum = cg_int(x->offset);
	for (int d = 0; d < c->k->ndim; d++) {
		if (!x->coef[d] || c->k->dim[d] == 1) continue;
		cg_str i = d == c->product->x.row ? row0 : d == c->k->ndim - 1 ? lo : cg_fmt("%%d%d", d);
		sum = op(c, "add", sum, op(c, "mul", i, cg_int(x->coef[d])));
	}
	return at(c, (tj_dtype)in->dtype, cg_fmt("%%b%u", in->buf), sum);
}

/* Piece `number` of an extent: *from, *to. */
static void piece(cg *c, cg_str number, cg_num size, cg_num extent, cg_str *from, cg_str *to)
{
	*from = op(c, "mul", number, size.s);
	*to = least(c, op(c, "add", *from, size.s), extent.s);
}

static unit put_unit(cg *c)
{
	const struct cg_product *p = c->product;
	const lo_kernel *k = c->k;
	const int last = k->ndim - 1;
	cg_num rows = cg_size(c->s->rows), extent = p->x.row < 0 ? cg_lit(1) : cg_size(k->dim[p->x.row]);
	cg_num across = cg_div_up(c, cg_size(k->dim[last]), c->block), down = cg_div_up(c, extent, rows);
	unit u = { 0 };
	cg_str rest = op(c, "udiv", cg_fmt("%%u"), across.s), to;
	piece(c, op(c, "urem", cg_fmt("%%u"), across.s), c->block, cg_size(k->dim[last]), &u.lo, &u.hi);
	piece(c, op(c, "urem", rest, down.s), rows, extent, &u.row0, &to);
	rest = op(c, "udiv", rest, down.s);
	for (int d = last - 1; d >= 0; d--) {
		if (d == p->x.row) continue;
		rt_putf(c->out, "  %%d%d = urem i64 %s, %s\n", d, rest.s, cg_int(k->dim[d]).s);
		rest = op(c, "udiv", rest, cg_int(k->dim[d]));
	}
	u.columns = op(c, "sub", u.hi, u.lo);
	u.rows = op(c, "sub", to, u.row0);
	u.a = first_element(c, &k->ins.v[p->x.load[0]], u.row0, u.lo);
	u.b = first_element(c, &k->ins.v[p->x.load[1]], u.row0, u.lo);
	const cg_num up = cg_mul(c, cg_div_up(c, rows, cg_lit(LO_TILE_ROWS)), cg_lit(LO_TILE_ROWS * IR_CHAIN));
	u.packed = cg_fmt("%%scratch");
	u.panels = at(c, p->t, u.packed, cg_add(c, up, cg_lit(LO_TILE_SLACK)).s);
	u.sums = at(c, p->t, u.panels, cg_add(c, p->x.strips ? p->pitch : cg_mul(c, p->lone ? cg_lit(LO_TILE_COLUMNS) : p->pitch, cg_lit(PANEL)), cg_lit(LO_TILE_SLACK)).s);
	u.pitch = p->pitch.s;
	if (p->direct == LO_NOREF) return u;
	const lo_ins *out = &k->ins.v[p->direct];
	u.sums = first_element(c, out, u.row0, u.lo);
	u.pitch = p->x.row < 0 ? lit(0) : cg_int(k->index.v[out->index].coef[p->x.row]);
	return u;
}

/* Tiles have as many rows as there are: what is not packed must not be read beyond its last row. */
static bool exact(const struct cg_product *p) { return p->rows_in_place || p->direct != LO_NOREF; }

/* How many rows the tiles of `rows` rows have: as equal as can be, and one of p->rows. */
static cg_str tile_rows(cg *c, cg_str rows)
{
	const struct cg_product *p = c->product;
	cg_str tiles = op(c, "udiv", op(c, "add", rows, lit(p->most - 1)), lit(p->most));
	cg_str even = op(c, "udiv", op(c, "sub", op(c, "add", rows, tiles), lit(1)), tiles), r = lit(p->rows[p->nrows - 1]);
	for (int i = p->nrows - 2; i >= 0; i--) r = choose(c, cmp(c, "sle", even, lit(p->rows[i])), "i64", lit(p->rows[i]), r);
	return r;
}

static void call_tile(cg *c, const char *name, cg_str q, const char *arguments)
{
	const struct cg_product *p = c->product;
	const unsigned id = ++c->tmp;
	for (int i = 0; i < p->nrows; i++) {
		if (i < p->nrows - 1) {
			cg_str is = cmp(c, "eq", q, lit(p->rows[i]));
			rt_putf(c->out, "  br i1 %s, label %%tile%u.%d, label %%other%u.%d\n", is.s, id, i, id, i);
			cg_label(c, cg_fmt("tile%u.%d", id, i));
		}
		rt_putf(c->out, "  call void @" CG_OWN ".%s%d(%s)\n  br label %%tiled%u\n", name, p->rows[i], arguments, id);
		if (i < p->nrows - 1) cg_label(c, cg_fmt("other%u.%d", id, i));
	}
	cg_label(c, cg_fmt("tiled%u", id));
}

/* The panel of columns from j on, against all tiles of rows. */
static void put_panel(cg *c, const unit *u, cg_str j, cg_str k0, cg_str nk, cg_str q, cg_str tiles, cg_str first, cg_str packs)
{
	const struct cg_product *p = c->product;
	const cg_str si = cg_int(item_step(c, 1)), sk = cg_int(r_step(c, 1));
	cg_str y = at(c, p->t, u->panels, p->x.in_place ? choose(c, packs, "i64", op(c, "mul", j, lit(PANEL)), lit(0)) : op(c, "mul", j, lit(PANEL))), step = lit(p->width);
	const unsigned id = ++c->tmp;
	if (p->x.in_place) { /* the last panel is packed, unless it is whole */
		cg_str n = op(c, "sub", u->columns, j), whole = cmp(c, "sge", n, lit(p->width)), here = cg_tmp(c), last = cg_tmp(c), start = at(c, p->t, u->b, op(c, "add", j, op(c, "mul", k0, sk)));
		rt_putf(c->out, "  %s = select i1 %s, i1 false, i1 %s\n", here.s, packs.s, whole.s);
		rt_putf(c->out, "  %s = select i1 %s, i1 true, i1 %s\n  br i1 %s, label %%panel%u, label %%pack%u\n", last.s, packs.s, whole.s, last.s, id, id);
		cg_label(c, cg_fmt("pack%u", id));
		rt_putf(c->out, "  call void @" CG_OWN ".pack1(ptr %s, ptr %s, i64 %s, i64 %s, i64 %s, i64 %s)\n", y.s, start.s, n.s, nk.s, si.s, sk.s);
		cg_jump(c, cg_fmt("panel%u", id));
		y = choose(c, here, "ptr", start, y);
		step = choose(c, here, "i64", sk, step);
	}
	loop t = open(c, "t", lit(0), tiles, lit(1), false);
	cg_str row = op(c, "mul", t.i, q), n = least(c, op(c, "sub", u->rows, row), q), x;
	if (p->rows_in_place) x = at(c, p->t, u->a, op(c, "add", op(c, "mul", row, cg_int(item_step(c, 0))), op(c, "mul", k0, cg_int(r_step(c, 0)))));
	else x = at(c, p->t, u->packed, op(c, "mul", t.i, lit((int64_t)IR_CHAIN * p->most)));
	cg_str sums = at(c, p->t, u->sums, op(c, "add", j, op(c, "mul", row, u->pitch)));
	rt_text arguments = { 0 };
	rt_putf(&arguments, "ptr %s, ptr %s, i64 %s, i64 %s, ptr %s, i64 %s, i1 %s", x.s, y.s, step.s, nk.s, sums.s, u->pitch.s, first.s);
	const unsigned which = ++c->tmp;
	if (p->narrow) {
		cg_str few = cmp(c, "sle", op(c, "sub", u->columns, j), lit(p->w));
		rt_putf(c->out, "  br i1 %s, label %%narrow%u, label %%wide%u\n", few.s, which, which);
		cg_label(c, cg_fmt("narrow%u", which));
		call_tile(c, "narrow", exact(p) ? n : q, rt_str(&arguments));
		rt_putf(c->out, "  br label %%both%u\n", which);
		cg_label(c, cg_fmt("wide%u", which));
	}
	call_tile(c, "tile", exact(p) ? n : q, rt_str(&arguments));
	if (p->narrow) cg_jump(c, cg_fmt("both%u", which));
	rt_text_free(&arguments);
	close(c, &t);
}

static void pack_rows(cg *c, const unit *u, cg_str k0, cg_str nk, cg_str q, cg_str tiles)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[0]].dtype;
	const cg_str si = cg_int(item_step(c, 0)), sk = cg_int(r_step(c, 0));
	loop t = open(c, "t", lit(0), tiles, lit(1), false);
	cg_str row = op(c, "mul", t.i, q), to = at(c, p->t, u->packed, op(c, "mul", t.i, lit((int64_t)IR_CHAIN * p->most)));
	cg_str start = at(c, from, u->a, op(c, "add", op(c, "mul", row, si), op(c, "mul", k0, sk))), n = least(c, op(c, "sub", u->rows, row), q);
	rt_putf(c->out, "  call void @" CG_OWN ".pack0(ptr %s, ptr %s, i64 %s, i64 %s, i64 %s, i64 %s)\n", to.s, start.s, n.s, nk.s, si.s, sk.s);
	close(c, &t);
}

static void put_tiles(cg *c, const unit *u)
{
	const struct cg_product *p = c->product;
	const tj_dtype from = (tj_dtype)c->k->ins.v[p->x.load[1]].dtype;
	const cg_num red = cg_size(c->k->red);
	const cg_str si = cg_int(item_step(c, 1)), sk = cg_int(r_step(c, 1));
	cg_str q = tile_rows(c, u->rows), tiles = op(c, "udiv", op(c, "sub", op(c, "add", u->rows, q), lit(1)), q);
	cg_str packs = p->x.in_place ? cmp(c, "sgt", u->rows, lit(few_rows(c))) : cg_fmt("true");
	loop k = open(c, "chunk", lit(0), red.s, lit(IR_CHAIN), false);
	cg_str nk = least(c, op(c, "sub", red.s, k.i), lit(IR_CHAIN)), first = cmp(c, "eq", k.i, lit(0));
	if (!p->rows_in_place) pack_rows(c, u, k.i, nk, q, tiles);
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%columns%u, label %%panels%u\n", packs.s, id, id);
	cg_label(c, cg_fmt("columns%u", id));
	cg_str start = at(c, from, u->b, op(c, "mul", k.i, sk));
	rt_putf(c->out, "  call void @" CG_OWN ".pack1(ptr %s, ptr %s, i64 %s, i64 %s, i64 %s, i64 %s)\n", u->panels.s, start.s, u->columns.s, nk.s, si.s, sk.s);
	cg_jump(c, cg_fmt("panels%u", id));
	loop j = open(c, "j", lit(0), u->columns, lit(p->width), false);
	put_panel(c, u, j.i, k.i, nk, q, tiles, first, packs);
	close(c, &j);
	close(c, &k);
}

static void call_strip(cg *c, const unit *u, int steps, cg_str k, cg_str sums, cg_str first)
{
	const struct cg_product *p = c->product;
	const cg_str sx = cg_int(r_step(c, 0)), sy = cg_int(r_step(c, 1));
	cg_str x = at(c, (tj_dtype)c->k->ins.v[p->x.load[0]].dtype, u->a, op(c, "mul", k, sx)), y = at(c, p->t, u->b, op(c, "mul", k, sy));
	rt_putf(c->out, "  call void @" CG_OWN ".strip%d(ptr %s, i64 %s, ptr %s, i64 %s, ptr %s, i64 %s, i1 %s)\n", steps, x.s, sx.s, y.s, sy.s, sums.s, u->columns.s, first.s);
}

/* The sums of the first chunk are those of the block; the sums of a later one lie in u->panels and are then added. */
static void put_strips(cg *c, const unit *u)
{
	const struct cg_product *p = c->product;
	const cg_num red = cg_size(c->k->red);
	loop chunk = open(c, "chunk", lit(0), red.s, lit(IR_CHAIN), false);
	cg_str nk = least(c, op(c, "sub", red.s, chunk.i), lit(IR_CHAIN)), first = cmp(c, "eq", chunk.i, lit(0));
	cg_str sums = choose(c, first, "ptr", u->sums, u->panels), whole = op(c, "and", nk, lit(-steps_of(c)));
	loop k = open(c, "k", lit(0), whole, lit(steps_of(c)), true);
	call_strip(c, u, steps_of(c), op(c, "add", chunk.i, k.i), sums, cmp(c, "eq", k.i, lit(0)));
	close(c, &k);
	loop s = open(c, "k", whole, nk, lit(1), true);
	call_strip(c, u, 1, op(c, "add", chunk.i, s.i), sums, cmp(c, "eq", s.i, lit(0)));
	close(c, &s);
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%added%u, label %%later%u\n", first.s, id, id);
	cg_label(c, cg_fmt("later%u", id));
	loop j = open(c, "j", lit(0), u->columns, lit(p->w), false);
	cg_str q = at(c, p->t, u->sums, j.i), more = load(c, p->t, p->w, at(c, p->t, u->panels, j.i));
	store(c, p->t, p->w, add(c, p->t, p->w, load(c, p->t, p->w, q), more), q);
	close(c, &j);
	cg_jump(c, cg_fmt("added%u", id));
	close(c, &chunk);
}

/* ---- the rest of the kernel ---- */
/* The point sections, row by row. Values of a row are met while its vectors are written, but their text comes before the vectors. */
static void put_rows(cg *c, const unit *u, cg_span span)
{
	struct cg_product *p = c->product;
	loop row = open(c, "row", lit(0), u->rows, lit(1), false);
	if (p->x.row >= 0) rt_putf(c->out, "  %%d%d = add i64 %s, %s\n", p->x.row, u->row0.s, row.i.s);
	c->sums = at(c, p->t, u->sums, op(c, "mul", row.i, u->pitch));
	c->sums_lo = u->lo;
	rt_text *text = c->out, vectors = { 0 };
	cg_unit_bases(c);
	c->out = &vectors;
	cg_vectors(c, u->lo, u->hi, span);
	c->out = text;
	rt_puts(text, rt_str(&c->unit));
	rt_puts(text, rt_str(&vectors));
	c->oom |= vectors.oom | c->unit.oom;
	rt_text_free(&vectors);
	rt_text_free(&c->unit);
	close(c, &row);
}

/* Adds a number of rows to the sorted list. */
static void add_rows(struct cg_product *p, int rows)
{
	int i = p->nrows;
	for (int k = 0; k < p->nrows; k++)
		if (p->rows[k] == rows) return;
	for (; i > 0 && p->rows[i - 1] > rows; i--) p->rows[i] = p->rows[i - 1];
	p->rows[i] = rows;
	p->nrows++;
}

static bool known_rows(const cg *c, const struct cg_product *p) { return !lo_is_sym(c->s->rows) && (p->x.row < 0 || !lo_is_sym(c->k->dim[p->x.row])); }

/* The numbers of rows of tiles: with known sizes those that occur, else a few, which are rounded up to. */
static void choose_tiles(cg *c, struct cg_product *p)
{
	static const int some_512[] = { 2, 4, 8, 12 }, some[] = { 1, 2, 4, 6 };
	const int64_t rows = c->s->rows, extent = p->x.row < 0 ? 1 : c->k->dim[p->x.row];
	for (int i = 0; !known_rows(c, p) && i < 4; i++) add_rows(p, c->bits == 512 ? some_512[i] : some[i]);
	for (int i = 0; known_rows(c, p) && i < 2; i++) {
		const int64_t n = i ? extent % rows : rows, tiles = (n + p->most - 1) / p->most, q = tiles ? (n + tiles - 1) / tiles : 0;
		if (n) add_rows(p, (int)q);
		if (n && exact(p)) add_rows(p, (int)(n - (tiles - 1) * q));
	}
}

/* Few rows read columns in place, as wide as registers allow: a wide panel reads longer pieces of memory. */
static int vectors(const cg *c, const struct cg_product *p)
{
	const int64_t last = c->k->dim[c->k->ndim - 1], rows = c->s->rows;
	const int registers = c->bits == 512 ? 24 : 12, most = c->bits == 512 ? MOST_VECS : MOST_VECS / 2;
	if (!lo_is_sym(last) && last <= p->w) return 1;
	if (!known_rows(c, p) || lo_is_sym(last)) return 2;
	if (!p->x.in_place || rows > registers / 2) return last == 3 * p->w ? 3 : 2;
	int vecs = registers / (int)rows > most ? most : registers / (int)rows;
	while (vecs > 2 && (int64_t)vecs * p->w > last) vecs--;
	return vecs;
}

/* The store of the product, if the point sections do nothing else and tiles can write whole panels there. */
static uint32_t find_direct(const cg *c, const struct cg_product *p)
{
	const lo_kernel *k = c->k;
	const int64_t last = k->dim[k->ndim - 1];
	uint32_t found = LO_NOREF;
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = k->section.v[s].first; !k->section.v[s].loop && i < k->section.v[s].first + k->section.v[s].count; i++) {
			const lo_ins *in = &k->ins.v[i];
			if (found != LO_NOREF || in->op != LO_STORE || in->src[0] != p->x.dot || in->dyn != LO_NOREF || k->index.v[in->index].coef[k->ndim - 1] != 1) return LO_NOREF;
			found = i;
		}
	bool whole = !p->x.strips && known_rows(c, p) && !lo_is_sym(last) && !lo_is_sym(c->s->block) && last % p->width == 0 && c->s->block % p->width == 0;
	if (!whole || found == LO_NOREF || p->one_chunk || p->x.row < 0) return whole ? found : LO_NOREF;
	const int64_t pitch = k->index.v[k->ins.v[found].index].coef[p->x.row]; /* sums a page apart would leave the first cache from chunk to chunk */
	return lo_is_sym(pitch) || pitch * (int64_t)tj_dtype_size(p->t) % PAGE == 0 ? LO_NOREF : found;
}

/* Rows are read in place where few columns use them, and where their distance is a part of the text. */
static bool reads_rows(const cg *c, const struct cg_product *p)
{
	const lo_index *x = &c->k->index.v[c->k->ins.v[p->x.load[0]].index];
	return known_rows(c, p) && !lo_is_sym(c->s->block) && c->s->block <= FEW_COLUMNS && p->x.load[0] == p->x.value[0] && !lo_is_sym(x->rcoef) &&
	       (p->x.row < 0 || !lo_is_sym(x->coef[p->x.row]));
}

/* With known sizes: a block has a last panel of which one vector is enough. */
static bool has_narrow(const cg *c, const struct cg_product *p)
{
	const int64_t last = c->k->dim[c->k->ndim - 1], block = c->s->block;
	if (lo_is_sym(last) || lo_is_sym(block) || p->vecs == 1) return false;
	const int64_t rest[] = { (last < block ? last : block) % p->width, last % block % p->width };
	return (rest[0] && rest[0] <= p->w) || (rest[1] && rest[1] <= p->w);
}

bool cg_find_product(cg *c)
{
	struct cg_product **p = &c->product;
	lo_tiles x;
	if (c->s->vec != LO_VEC_TILE || !lo_tiles_of(c->k, &x)) return true;
	if (!(*p = rt_calloc(sizeof **p))) return false;
	(*p)->x = x;
	(*p)->t = (tj_dtype)c->k->ins.v[x.dot].dtype;
	(*p)->w = c->bits / (int)(8 * tj_dtype_size((*p)->t));
	(*p)->vecs = vectors(c, *p);
	(*p)->most = (c->bits == 512 ? 2 * LO_TILE_ROWS : LO_TILE_ROWS) / ((*p)->vecs < 2 ? 2 : (*p)->vecs);
	(*p)->width = (*p)->vecs * (*p)->w;
	(*p)->one_chunk = !lo_is_sym(c->k->red) && c->k->red <= IR_CHAIN;
	(*p)->direct = find_direct(c, *p);
	(*p)->rows_in_place = reads_rows(c, *p);
	(*p)->lone = x.in_place && known_rows(c, *p) && c->s->rows <= few_rows(c);
	(*p)->narrow = has_narrow(c, *p);
	choose_tiles(c, *p);
	return true;
}

void cg_drop_product(struct cg_product *p)
{
	if (p) rt_text_free(&p->inner);
	rt_free(p);
}

void cg_along_product(cg *c, cg_span span)
{
	struct cg_product *p = c->product;
	p->pitch = cg_add(c, cg_mul(c, cg_div_up(c, c->block, cg_lit(LO_TILE_COLUMNS)), cg_lit(LO_TILE_COLUMNS)), cg_lit(LO_TILE_COLUMNS));
	const unit u = put_unit(c);
	if (p->x.strips) put_strips(c, &u);
	else put_tiles(c, &u);
	if (p->direct == LO_NOREF) put_rows(c, &u, span);
	rt_text *text = c->out;
	const cg_str label = c->block_label;
	if (p->x.strips) {
		put_strip(c, steps_of(c));
		put_strip(c, 1);
	} else {
		if (!p->rows_in_place) put_pack(c, 0, p->most);
		put_pack(c, 1, p->width);
		for (int i = 0; i < p->nrows; i++) put_tile(c, p->rows[i], p->vecs);
		for (int i = 0; p->narrow && i < p->nrows; i++) put_tile(c, p->rows[i], 1);
	}
	c->out = text;
	c->block_label = label;
}

void cg_put_own(const cg *c, rt_text *out)
{
	if (c->product) rt_puts(out, rt_str(&c->product->inner));
}
