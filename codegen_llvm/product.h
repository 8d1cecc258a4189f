/* SPDX-License-Identifier: MIT */
/* product: shared by the files that write matrix products.
 *
 *   choose.c    what is packed, how large tiles are, where sums go
 *   product.c   a unit: its tiles or strips, then its rows
 *   operand.c   how operands lie in memory, and what is converted as they are read
 *   pack.c      the functions that pack an operand
 *   words.c     products of bytes: how they are packed and multiplied
 *   dots.c      the same for few rows, which read columns as they lie
 *   pairs.c     the same for products of bf16 that multiply two steps at a time
 *   sums.c      the functions that compute a tile, and a strip (few rows)
 *   square.c    small square matrices in whole registers
 *   across.c    tiles of few rows that transpose columns as they read them
 *
 * These functions are shared by kernels (own.c): sizes are their arguments. */
#ifndef TJ_CODEGEN_LLVM_PRODUCT_H
#define TJ_CODEGEN_LLVM_PRODUCT_H

#include "codegen_llvm/cg.h"

enum {
	CG_WIDE_ROWS = 4, CG_WIDE_VECS = 6, CG_MOST_VECS = 8, CG_MOST_LANES = 16
};

/* A place in an operand, inside a function: items or steps of r from here on, and what the main load has there. */
typedef struct cg_at {
	int lanes;
	bool along_r;           /* lanes are steps of r of one item; else items at one step */
	cg_str item, k, loaded; /* counted from the function's addresses */
	const cg_str *mask;     /* the lanes that there are; NULL: all */
	const cg_str *step;     /* cg_main_step() at k, computed once for many items; NULL: compute it */
} cg_at;

/* What is known while a product is written. */
struct cg_writer {
	cg_product p;           /* the recipe's, as the function sees it that is being written: an edge tile has other lanes */
	struct { cg_str name; uint32_t round; } *memo; /* by instruction: its value in the current round of cg_computed() */
	uint32_t round;
	cg_str first[2][2 * LO_AHEAD_LOADS]; /* of each other load of an operand: the address at the first item of the block, r = 0 */
	cg_num pitch;           /* of the sums of the block */
	cg_str steps;           /* where the main load of the columns jumps: a table in scratch, elements from r = 0 to each step of a chunk */
	/* Names of the functions that it calls: */
	cg_str pack[2], tile[CG_MOST_TILES], edge_tile[CG_MOST_TILES], strip,
		strip_step; /* tiles by number in `rows`; of dots.c: the first ones */
	cg_str apart_tile[CG_MOST_TILES], copy_tile[CG_MOST_TILES], wide_tile;
};
static inline const cg_product *cg_product_of(const cg *c) { return &c->product->p; }

/* ---- operand.c ---- */
bool cg_has_steps(const cg_recipe *h, uint32_t load); /* functions find its steps of r in a table */
void cg_put_steps(cg *c, cg_str first, cg_str n);     /* writes the table of the steps first .. first + n */
cg_str cg_main_step(cg *c, int o, cg_str k); /* of such a load: elements from step 0 to step k */
cg_str cg_main_row(cg *c, int o, cg_str k); /* the address of step k of the first item, in a function that packs */
void cg_put_parameters(const cg *c, int o, rt_text *t); /* of a function that computes the operand */
/* for a function that begins at that item of the block and at that r */
void cg_put_arguments(cg *c, int o, cg_str item, cg_str k, rt_text *t);
cg_str cg_computed(cg *c, int o, const cg_at *at); /* operand o there */
void cg_read_as_it_lies(cg *c, bool on);           /* columns, in what follows: as they lie, even if the first tile copies them */
/* a vector of columns at p, as tiles and strips multiply them; sets lanes and loaded itself */
cg_str cg_columns(cg *c, cg_str p, cg_at at);

/* The address of item n < CG_MULTIPLES of items `bytes` bytes apart, as one base register and one of CG_STRIDES: 1, 3, 5 and 7 times the
 * distance, which an address also doubles and quadruples. Where LLVM sees a loop move the base, it keeps each address in a register of its
 * own: hide it. */
enum { CG_STRIDES = 4, CG_MULTIPLES = 8 };
void cg_strides(cg *c, cg_str bytes, cg_str *stride);
cg_str cg_multiple(cg *c, cg_str base, const cg_str *stride, int n);
/* In a function that packs: the numbers and the addresses of n items from `first` on; behind the last one they repeat it. */
void cg_put_items(cg *c, int o, cg_str first, int n, cg_str last, cg_str *number, cg_str *item);

/* ---- pack.c ---- */
/* The body of the function that packs n items (rows or columns) of operand o, nk steps of r: panels [nk][width], LO_TILE_PANEL * width
 * elements from one to the next. si, sk: elements from item to item, and from r to r. Rows come one panel at a time. */
void cg_pack(cg *c, int o, int width);
void cg_pack_apart(cg *c);                                /* the same of rows, for rows_apart: of one tile */
void cg_turn_square(cg *c, tj_dtype t, int w, cg_str *v); /* w vectors, each w steps of r of one item, become w steps of the items */
/* n vectors, each w steps of r of one item, in groups of n lanes: lane group g of vector k becomes n items at step g * n + k. */
void cg_turn_groups(cg *c, tj_dtype t, int w, int n, cg_str *v);
/* Vectors of w steps of r of one item each, `items` of them, become items side by side, at p, p + width and so on. 16 bytes of items at a
 * time, or a vector of them, which writes each line of the packed operand once. */
void cg_put_square(cg *c, tj_dtype t, int w, int items, cg_str *v, cg_str p, int width);

/* ---- words.c ---- */
cg_str cg_words(cg *c, cg_str nk);                 /* how many elements nk steps of r are packed into */
cg_str cg_widen(cg *c, int lanes, cg_str bytes, bool columns); /* bytes, one step after the other, as they lie in words */
cg_str cg_multiply_words(cg *c, cg_str columns, cg_str rows, cg_str sum);
void cg_pack_words(cg *c, int o, int width);       /* as cg_pack(), in words */

/* ---- dots.c: products of bytes with few rows ---- */
void cg_pack_bytes(cg *c);        /* as cg_pack(), of rows, in the layout that the functions below read */
/* Names of functions. r: a chunk of it. */
/* sums (row i at %sums + i * %pitch) = or += rows times columns. %step: elements from column to column. ask: it prefetches as many columns
 * behind them. */
cg_str cg_put_byte_tile(cg *c, int columns, bool ask);
cg_str cg_put_byte_strip(cg *c);             /* sums of one row = or += r; in an order of their own */
cg_str cg_put_byte_order(cg *c);             /* puts these sums in order */

/* ---- pairs.c ---- */
cg_str cg_row_word(cg *c, int row);                /* the word of a tile's row that lies in memory, at %xa */
cg_str cg_multiply_pairs(cg *c, cg_str x, cg_str y, cg_str sum);
cg_str cg_half_of(cg *c, cg_str words, bool upper); /* one of two bf16 in each word, as f32 */
/* Ordered: how small packed numbers are, in %fit of the rows and of the columns. A function that packs lowers them. */
void cg_open_fit(cg *c);                           /* in a function that packs: what comes first, */
void cg_close_fit(cg *c);                          /* and last */
cg_str cg_fits(cg *c, cg_str rows, cg_str columns); /* no sum can be subnormal, and no number is */
void cg_pack_pairs(cg *c, int o, int width);       /* as cg_pack(), in words; between cg_open_fit() and cg_close_fit() if ordered */
/* In a tile, columns that are not packed: what comes first; then their words in step %k of the loop. at: the address of a column, at the
 * current r. */
void cg_open_pairs(cg *c, int vecs);
void cg_pair_columns(cg *c, int vecs, cg_str (*at)(cg *c, int column), cg_str *y);

/* ---- sums.c ---- */
/* Names of functions: */
typedef enum cg_tile {
	CG_PLAIN_TILE,
	CG_EDGE_TILE,   /* of a panel that is not whole; masked: %have columns */
	CG_APART_TILE,  /* ordered: with multiply-adds of f32 */
	CG_WIDE_TILE,   /* see cg_product.wide */
	CG_COPY_TILE    /* reads columns as they lie, and writes them to %copy as packing does */
} cg_tile;
/* sums (row i at %sums + i * %pitch) = or += rows times columns, over nk steps of r. %step: see struct panel */
cg_str cg_put_tile(cg *c, int rows, int vecs, cg_tile how);
/* %row: elements from row to row, of a tile that reads them in place; after those of every tile */
bool cg_row_is_argument(const cg_product *p);
cg_str cg_put_strip(cg *c, int steps);         /* sums (row i at %sums + i * %pitch) = or += steps of r */

/* ---- square.c ---- */
bool cg_is_square(const cg_recipe *h);             /* the field `square` */
void cg_multiply_square(cg *c, cg_str a, cg_str b, cg_str out); /* addresses of both operands and of the result */

/* ---- across.c ---- */
/* The name of a function: sums (row i at %sums + i * %pitch) = rows times a panel of columns, over all nk steps of r; those of the first
 * %skip columns are not stored. %step: elements from column to column. */
cg_str cg_put_across(cg *c, int rows);

#endif
