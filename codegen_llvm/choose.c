/* SPDX-License-Identifier: MIT */
/* choose: how a product is computed: what is packed, how large tiles are, and where sums go. */
#include "codegen_llvm/product.h"

enum {
	ALL_ROWS = 1 << 20,
	FEW_ROWS = 72,
	FEW_ROWS_APART = 24, /* APART: steps of r lie a multiple of a page apart, and leave the first cache from tile to tile */
	ACROSS_COLUMNS = 16, /* columns of a panel that tiles of 256 bits transpose (across.c), if one row leaves enough registers and they
	                        come from memory: streams that a processor follows well */
	FEW_TILES = 2,
	FEW_STEPS = 32, /* of r */
	MANY_CHAINS =
		16, /* sums in registers with which a tile that is not as large as can be is as fast: 5 x 2 of 6 x 2 take a tenth longer */
	LEAST_LANES = 4,     /* of a vector */
	STRIP_STEPS = 16, FEW_STRIP_STEPS = 8, /* of r, added at a time; FEW where rows of B share a set of the first cache */
	STRIP_NUMBERS = 24, /* strips of several rows: most numbers of A that are in registers */
	FEW_PAIRS = 4,       /* more rows of bf16 are quicker with instructions for pairs */
	NEAR_SUMS = 1 << 16, /* bytes: sums of a block that stay in a near cache from chunk to chunk, beside the operands */
	FEW_COLUMNS = 96     /* rows are read in place for blocks of at most this many columns */
};

bool cg_lie_apart(int64_t step, tj_dtype t, int64_t bytes) { return lo_is_sym(step) || step * (int64_t)tj_dtype_size(t) % bytes == 0; }

bool cg_known_rows(const cg_recipe *h)
{
	return !lo_is_sym(h->s->rows) && (h->product->x.row < 0 || !lo_is_sym(h->k->dim[h->product->x.row]));
}

/* At most this many rows read columns in place, each tile for itself. More read a copy of the panel that the first tile makes; or all
 * columns are packed beforehand, if the rows are not known: then it pays to read the panel from the second cache, as tiles of 512 bits take
 * longer than that, unless its rows do not begin with a cache line, or lie a multiple of a page apart and so share few sets of that cache.
 * Columns that are computed are computed again for each tile. */
int cg_few_rows(const cg_recipe *h)
{
	const bool apart = cg_lie_apart(cg_r_step(h, 1), h->product->t, CG_PAGE), lines = cg_lie_apart(cg_r_step(h, 1), h->product->t, RT_LINE);
	if (cg_computes(h, 1)) return LO_TILE_ROWS;
	if (cg_known_rows(h)) return FEW_TILES * LO_TILE_ROWS;
	if (h->bits == 512) return lines && !apart ? ALL_ROWS : FEW_ROWS;
	return apart ? FEW_ROWS_APART : FEW_ROWS;
}

/* As many sums as registers allow. Tiles of one vector of columns read little more than a number for each multiply-add then; but not of
 * rows that share one set or two of the first cache, and not of sizes that vary, for which there are few tiles. */
static int most_rows(const cg_recipe *h, const cg_product *p)
{
	const int sums = h->bits == 512 ? 2 * LO_TILE_ROWS : LO_TILE_ROWS;
	if (p->across) return (int)(cg_known_rows(h) ? h->s->rows : lo_most_few(h->k, &p->x));
	const bool few = !cg_known_rows(h) || cg_lie_apart(cg_item_step(h, 0), cg_item_dtype(h, 0), CG_PAGE / 2);
	return sums / (p->vecs == 1 && few ? 2 : p->vecs);
}

/* How many rows the tiles of n rows have: the same in all, which takes one function, if they still have enough chains of multiply-adds;
 * else as equal as can be. Packed rows have room for tiles that are as large as can be. */
int cg_even_rows(const cg_product *p, int64_t n)
{
	for (int q = p->most; p->rows_in_place && q > 1 && (q == p->most || q * p->vecs >= MANY_CHAINS); q--)
		if (n % q == 0) return q;
	const int64_t tiles = (n + p->most - 1) / p->most;
	return (int)((n + tiles - 1) / tiles);
}

/* The rows of a block that is not the last one, and of the last one. */
void cg_block_rows(const cg_recipe *h, int64_t *all, int64_t *last)
{
	const int64_t extent = h->product->x.row < 0 ? 1 : h->k->dim[h->product->x.row];
	*all = extent < h->s->rows ? extent : h->s->rows;
	*last = extent % h->s->rows ? extent % h->s->rows : *all;
}

/* Adds a number of rows to the sorted list. */
static void add_rows(cg_product *p, int rows)
{
	int i = p->nrows;
	for (int k = 0; k < p->nrows; k++)
		if (p->rows[k] == rows) return;
	for (; i > 0 && p->rows[i - 1] > rows; i--) p->rows[i] = p->rows[i - 1];
	p->rows[i] = rows;
	p->nrows++;
}

/* The numbers of rows of tiles: with known sizes those that occur, else a few, which are rounded up to. */
static void choose_tiles(cg_recipe *h, cg_product *p)
{
	static const int wide[CG_MOST_TILES] = { 2, 4, 8, 12 }, narrow[CG_MOST_TILES] = { 1, 2, 4, 6 };
	const int *some = p->across || h->bits == 512 ? wide : narrow;
	int64_t n[2];
	for (int i = 0; !cg_known_rows(h) && i < CG_MOST_TILES && some[i] <= p->most; i++) add_rows(p, some[i]);
	if (!cg_known_rows(h)) return;
	cg_block_rows(h, &n[0], &n[1]);
	for (int i = 0; i < 2; i++) {
		const int q = n[i] ? cg_even_rows(p, n[i]) : 0;
		if (q) add_rows(p, q);
		if (q && n[i] % q) add_rows(p, q - 1);
	}
}

/* It is known that no tile of this many columns lacks some. */
static bool fill_blocks(const cg_recipe *h, int columns)
{
	const int64_t last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	return !lo_is_sym(last) && !lo_is_sym(block) && last % columns == 0 && block % columns == 0;
}

/* With known sizes: some panels of so many columns are whole in each block. */
static bool known_panels(const cg_recipe *h, int columns)
{
	const int64_t last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	return !lo_is_sym(last) && !lo_is_sym(block) && last >= columns && block >= columns;
}

/* Tiles of this many columns read a part of a stored panel, or some panels that are all there. */
static bool fits_panels(const cg_recipe *h, int columns)
{
	const int64_t own = h->product->panel;
	return own % columns == 0 || (columns % own == 0 && fill_blocks(h, columns));
}

bool cg_columns_exceed(const cg_recipe *h, int64_t most)
{
	const int64_t red = h->k->red, columns = h->k->dim[h->k->ndim - 1];
	return !lo_is_sym(red) && !lo_is_sym(columns) && red * columns * (int64_t)tj_dtype_size(cg_item_dtype(h, 1)) > most;
}

/* Memory is read fastest from end to end: panel by panel. */
static bool from_memory(const cg_recipe *h, const cg_product *p) { return p->x.panels && cg_columns_exceed(h, RT_THIRD_CACHE); }

/* Few rows read columns in place, as wide as registers allow: a wide panel reads longer pieces of memory. */
static int vectors(const cg_recipe *h, const cg_product *p)
{
	const int64_t last = h->k->dim[h->k->ndim - 1], rows = h->s->rows;
	const int registers = h->bits == 512 ? 32 : 16, most = h->bits == 512 || rows == 1 ? CG_MOST_VECS : CG_MOST_VECS / 2;
	if (!lo_is_sym(last) && last <= p->w) return 1;
	if (!cg_known_rows(h) || lo_is_sym(last)) return 2;
	if (!p->x.adjacent || rows > 3 * registers / 8 || from_memory(h, p)) return last == 3 * p->w && !p->x.panels ? 3 : 2;
	int fit = 2;
	for (int vecs = 3; vecs <= most && (rows == 1 || (rows + 1) * vecs <= registers - 2); vecs++) /* the sums, a row of columns */
		if (p->x.panels ? fits_panels(h, vecs * p->w) : fill_blocks(h, vecs * p->w)) fit = vecs;
	return fit;
}

/* Rows of the store lie a multiple of so many bytes apart, or may do. */
static bool lies_apart(const cg_recipe *h, const cg_product *p, uint32_t store, int64_t bytes)
{
	if (p->across || p->x.row < 0) return false;
	return cg_lie_apart(h->k->index.v[h->k->ins.v[store].index].coef[p->x.row], p->t, bytes);
}

/* The store of the product, if the point sections do nothing else and tiles can write whole panels there. */
static uint32_t find_direct(const cg_recipe *h, const cg_product *p)
{
	const lo_kernel *k = h->k;
	uint32_t found = LO_NOREF;
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = k->section.v[s].first; !k->section.v[s].loop && i < k->section.v[s].first + k->section.v[s].count; i++) {
			const lo_ins *in = &k->ins.v[i];
			if (found != LO_NOREF || in->op != LO_STORE || in->src[0] != p->x.dot || in->dyn != LO_NOREF ||
			    k->index.v[in->index].coef[k->ndim - 1] != 1)
				return LO_NOREF;
			found = i;
		}
	if (found == LO_NOREF || p->x.strips || !cg_known_rows(h)) return LO_NOREF;
	if (p->bytes) return !p->one_chunk && lies_apart(h, p, found, CG_PAGE) ? LO_NOREF : found;
	return p->across || (p->edge && (p->masked || p->rest)) || known_panels(h, p->width) ? found : LO_NOREF;
}

/* Few columns read any rows in place whose distance is a part of the text. */
static bool reads_rows(const cg_recipe *h, const cg_product *p)
{
	const lo_index *x = &h->k->index.v[h->k->ins.v[p->x.load[0]].index];
	if (p->across) return p->x.row < 0 && !cg_computes(h, 0) && !cg_is_grouped(h, 0) && !lo_is_sym(x->rcoef);
	if (p->pairs) return !p->ordered && cg_known_rows(h) && cg_row_words(h);
	if (p->x.reads_rows) return cg_known_rows(h) && !cg_computes(h, 0);
	return cg_known_rows(h) && !lo_is_sym(h->s->block) && h->s->block <= FEW_COLUMNS && !cg_computes(h, 0) && !cg_is_grouped(h, 0) &&
	       !lo_is_sym(x->rcoef) && (p->x.row < 0 || !lo_is_sym(x->coef[p->x.row]));
}

/* Plain rows are copied as they are, or words of bytes as they lie: nothing is transposed, and tiles can copy numbers. */
static bool has_rows_apart(const cg_recipe *h, const cg_product *p)
{
	return !p->rows_in_place && !p->across && !p->bytes && p->x.row >= 0 && (p->steps == 4 || !cg_computes(h, 0)) &&
	       !cg_is_grouped(h, 0) && cg_r_step(h, 0) == 1;
}

/* Lanes of a vector, of at most w, for so many columns. Fewer than a register has, if half of them would be idle: vectors of 256 bits are
 * multiplied in half the time of those of 512 (Zen 4), or in the same, and a transposed square needs fewer instructions. */
static int fewest_lanes(int w, int64_t columns)
{
	while (w / 2 >= LEAST_LANES && columns <= w / 2) w /= 2;
	return w;
}

static int lanes(const cg_recipe *h, const cg_product *p)
{
	const int64_t last = h->k->dim[h->k->ndim - 1];
	const lo_tiles *x = &p->x;
	const int w = h->bits / (int)(8 * tj_dtype_size(p->t));
	return h->bits < 512 || lo_is_sym(last) || x->strips || x->bytes || x->pairs || x->ordered || x->words ? w : fewest_lanes(w, last);
}

/* With known sizes: the panels of blocks that are not whole (edge, masked, rest). Without masks tiles of their own pay where a block needs
 * fewer vectors, or where the columns are stored in pieces. */
static void find_edge(const cg_recipe *h, cg_product *p)
{
	const int64_t last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	if (p->across || p->x.strips || p->bytes || lo_is_sym(last) || lo_is_sym(block) || block == 0 || !cg_known_rows(h)) return;
	const int64_t rest[] = { (last < block ? last : block) % p->width, last % block % p->width }, most = rest[0] > rest[1] ? rest[0] : rest[1];
	const int vecs = (int)((most + p->w - 1) / p->w);
	p->masked = h->bits == 512 && !p->ordered;
	if (h->bits < 512 && p->one_chunk && (rest[0] == 0 || rest[1] == 0 || rest[0] == rest[1])) p->rest = (int)most;
	if (p->masked || p->rest || vecs < p->vecs) p->edge = vecs;
	p->edge_lanes = p->masked && p->steps == 1 && most > 0 ? fewest_lanes(p->w, most) : p->w;
}

static bool has_all_rows(const cg_recipe *h, const cg_product *p)
{
	return cg_known_rows(h) && h->s->rows == (p->x.row < 0 ? 1 : h->k->dim[p->x.row]);
}

/* Tiles transpose columns. */
static bool is_across(const cg_recipe *h, const cg_product *p)
{
	if (!p->x.across || p->x.bytes || !cg_steps_adjacent(h, 1)) return false;
	return cg_known_rows(h) ? has_all_rows(h, p) && h->s->rows <= (cg_pairs(h) ? FEW_PAIRS : lo_most_across(&p->x, p->w)) : h->k->few;
}

/* So many columns keep a line each in the first cache, which has 8 in each of 64 sets: those 4 KiB apart share one set, those 2 KiB apart
 * two. */
static int columns_in_sets(const cg_recipe *h)
{
	enum { WAYS = 8, MOST_SETS = 4 };
	int sets = 1;
	while (sets < MOST_SETS && !cg_lie_apart(cg_item_step(h, 1), cg_item_dtype(h, 1), CG_PAGE / sets)) sets *= 2;
	return sets * WAYS;
}

/* A vector of sums of floats is one chain of multiply-adds, and its columns wait for it: few rows need more vectors, and more rows leave no
 * registers for them. Columns a multiple of a page apart share few sets of the first cache. */
static int across_vectors(const cg_recipe *h, const cg_product *p)
{
	const int64_t rows = cg_known_rows(h) ? h->s->rows : LO_TILE_ROWS, last = h->k->dim[h->k->ndim - 1];
	const bool near = !cg_lie_apart(cg_item_step(h, 1), cg_item_dtype(h, 1), CG_PAGE) && !cg_columns_exceed(h, RT_THIRD_CACHE / 4 * 3),
		   waits = near && rt_is_float(p->t);
	int vecs;
	if (h->bits == 512) vecs = rows <= 2 && near ? 2 : 1;
	else if (rows == 1) vecs = waits ? 4 : ACROSS_COLUMNS / p->w;
	else vecs = waits && rows <= (cg_computes(h, 1) ? 3 : 4) ? 2 : 1;
	while (vecs > 1 && ((vecs - 1) * p->w >= last || (h->bits < 512 && vecs * p->w > columns_in_sets(h)))) vecs--;
	return vecs;
}

/* The sums of a block leave the near caches before the tile comes again. With 256 bits, tiles that copy rows have no register left for
 * their address. */
static bool has_far_sums(const cg_recipe *h, const cg_product *p)
{
	const int64_t columns = h->s->block;
	if (p->across || p->bytes || p->x.strips || (h->bits < 512 && p->copies_rows)) return false;
	return !cg_known_rows(h) || lo_is_sym(columns) || h->s->rows * columns * (int64_t)tj_dtype_size(p->t) > NEAR_SUMS;
}

/* ---- the fields of a product, each group from those before it ---- */
int cg_strip_rows(const cg_recipe *h) { return h->product->x.row < 0 ? 1 : (int)h->k->dim[h->product->x.row]; }

/* Steps of r in a strip: as many as registers allow, unless rows of B are a multiple of a page apart, or may be. */
static int strip_steps(const cg_recipe *h)
{
	const bool apart = cg_lie_apart(cg_r_step(h, 1), cg_item_dtype(h, 1), CG_PAGE);
	const int most = h->bits < 512 || apart ? FEW_STRIP_STEPS : STRIP_STEPS, rows = cg_strip_rows(h);
	int steps = rows == 1 ? most : most / 2;
	while (rows > 1 && steps * rows > (h->bits == 512 ? STRIP_NUMBERS : STRIP_NUMBERS / 3)) steps /= 2;
	return steps;
}

/* What is multiplied at a time. */
static void find_tile(const cg_recipe *h, cg_product *p)
{
	const lo_tiles *x = &p->x;
	p->t = (tj_dtype)h->k->ins.v[x->dot].dtype;
	p->w = lanes(h, p);
	p->panel = h->k->buf.v[h->k->ins.v[x->load[1]].buf].elems;
	p->across = is_across(h, p);
	p->ordered = x->ordered && h->bits == 512;
	p->pairs = p->ordered || (cg_pairs(h) && !p->across && (!x->panels || x->words));
	p->bytes = x->bytes && (x->strips || (x->across && has_all_rows(h, p)));
	p->steps = cg_word_steps(h);
	p->strip_steps = x->strips ? strip_steps(h) : 0;
	p->vecs = p->across ? across_vectors(h, p) : vectors(h, p);
	p->most = most_rows(h, p);
	p->width = p->bytes ? cg_byte_columns(h) : p->vecs * p->w;
	p->chunk = p->bytes   ? cg_byte_chunk(h)
	           : x->bytes ? p->steps * LO_BYTE_WORDS
	                      : lo_word_chunk(p->ordered ? LO_TURNED
	                                      : p->pairs ? LO_PAIRS
	                                                 : LO_SINGLE);
	p->one_chunk = !lo_is_sym(h->k->red) && h->k->red <= p->chunk;
}

/* Where sums go. Sums whose rows lie a page apart would leave the first cache from chunk to chunk; with few steps tiles store more than
 * they multiply. */
static void find_sums(const cg_recipe *h, cg_product *p)
{
	const int64_t last = h->k->dim[h->k->ndim - 1];
	find_edge(h, p);
	p->direct = find_direct(h, p);
	p->square = cg_is_square(h);
	const bool direct = p->direct != LO_NOREF;
	p->late = direct && !p->one_chunk && lies_apart(h, p, p->direct, CG_PAGE);
	p->rows_first = direct && p->one_chunk && lies_apart(h, p, p->direct, CG_PAGE / 2) && h->k->red <= FEW_STEPS && !p->x.panels &&
	                h->s->rows > p->most;
	p->partly = direct && !p->square && !p->across && !p->bytes && !p->masked && !p->rest && !fill_blocks(h, p->width);
	p->lanes = p->across && last < p->width ? (int)last : p->width;
	p->ragged = p->across && p->lanes == p->width && !fill_blocks(h, p->width);
}

static void find_rows(const cg_recipe *h, cg_product *p)
{
	const int64_t red = h->k->red;
	p->rows_in_place = reads_rows(h, p);
	p->rows_apart = has_rows_apart(h, p);
	p->copies_rows = p->rows_apart && p->steps == 1 && cg_known_rows(h) && !lo_is_sym(red) && red > 0 && red % p->w == 0; /* whole vectors */
}

static void find_columns(const cg_recipe *h, cg_product *p)
{
	const lo_tiles *x = &p->x;
	const bool whole = fill_blocks(h, p->width),
		   reads = x->plain[1] || (cg_items_adjacent(h, 1) && whole); /* tiles can read any columns that the product has */
	const bool few_rows = cg_few_rows(h) == ALL_ROWS || (cg_known_rows(h) && h->s->rows <= cg_few_rows(h));
	const bool few = few_rows && !p->rows_first && !p->ordered && (p->steps == 1 || p->pairs) && x->adjacent && reads;
	const bool many = !few && !p->rows_first && !p->across && !x->panels && !x->strips && p->steps == 1 && cg_known_rows(h);
	p->copies = many && x->adjacent && reads;
	p->each = many && x->windows && cg_items_adjacent(h, 1);
	p->one_tile = p->copies && p->copies_rows && !cg_computes(h, 1); /* columns and their copy are read alike */
	p->lone = x->panels || few || p->across || p->copies || p->each;
	p->in_place = !p->across && !p->rows_first && !p->each && (p->lone || (x->adjacent && !cg_computes(h, 1)));
	p->wide = h->bits == 512 && !cg_known_rows(h) && x->adjacent && reads && !x->panels && p->steps == 1 && !cg_computes(h, 1);
	p->columns_computed = (!p->lone || p->copies || p->each || x->words) && !x->strips;
	p->yt = p->columns_computed ? p->t : cg_item_dtype(h, 1);
	p->unpacked = x->panels || p->across || ((few || p->copies) && whole) || (few && p->masked && p->edge && p->steps == 1);
}

/* Columns are read from end to end, and known to have more than so many bytes. */
static bool asks_panels(const cg_recipe *h, int64_t most) { return cg_item_step(h, 1) == h->k->red && cg_columns_exceed(h, most); }

/* What is prefetched. */
static void find_prefetches(const cg_recipe *h, cg_product *p)
{
	p->asks_sums = has_far_sums(h, p);
	p->asks_columns = (p->across && asks_panels(h, RT_THIRD_CACHE)) || (p->bytes && asks_panels(h, RT_THIRD_CACHE / 4));
}

void cg_find_product(cg_recipe *h)
{
	lo_tiles x;
	if (h->s->vec != LO_VEC_TILE || !lo_tiles_of(h->k, &x)) return;
	cg_product *p = h->product = rt_calloc(sizeof *p);
	if (!p) { h->oom = true; return; }
	h->form = CG_PRODUCT;
	p->x = x;
	cg_find_operands(h);
	find_tile(h, p);
	find_sums(h, p);
	find_rows(h, p);
	find_columns(h, p);
	find_prefetches(h, p);
	choose_tiles(h, p);
}
