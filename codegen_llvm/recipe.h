/* SPDX-License-Identifier: MIT */
/* recipe: how a kernel becomes code on a machine: all of it is decided before a line of text is written. A recipe prints and parses, as
 * kernels do:
 *
 *   recipe 512 bits along d                what lanes run along, and what a unit's loops are: cg_form
 *     lanes 32 tail 16                     of the vectors in the main loop, and in the tail; along r, of each section
 *     loops main tail guard_tail           that a row of a unit needs, and which of them may be empty
 *     overlap                              the tail is a vector that ends where the row ends (overlap.c)
 *     exact                                the tail has as many lanes as are left
 *     beside 8                             chunks of r that go through their rows together (beside.c)
 *     multipliers 1                        of the two halves of each sum's vectors, as many are written as x * 1 + y (ports.c)
 *     body %1..%4 %6                       where values are computed; what is not named: in the entry
 *     varies %1..%4                        what differs from lane to lane
 *     far %4                               accesses that gather or scatter; others: cg_access
 *     aside %4                             loads from copies that the entry made, side by side (aside.c)
 *     later %3                             maxima whose test for NaN their reader makes (nan.c)
 *     streamed %6                          stores that bypass the caches
 *     rare %3: %1 %2                       values behind the branch of a select
 *     structure load f32: %1 %2 -          fields of an array of structures, in the order of memory
 *
 * Passes make it, in the order of recipe.c, a file for each mechanism; what writes the text reads it, and decides nothing. */
#ifndef TJ_CODEGEN_LLVM_RECIPE_H
#define TJ_CODEGEN_LLVM_RECIPE_H

#include "lower/target.h"

/* What the lanes of vectors run along, and what a unit's loops are. */
typedef enum cg_form {
	CG_ALONG_D,  /* the last outer dimension: a unit's block of it, a vector at a time */
	CG_ALONG_R,  /* the reduced index */
	CG_WIDE,     /* the last outer dimension, the loop over r outside (wide.c) */
	CG_TILES,    /* the last outer dimension, several rows together (tile.c) */
	CG_PRODUCT   /* a matrix product (product.c) */
} cg_form;

typedef enum cg_place { CG_ENTRY, CG_UNIT, CG_PRE, CG_BODY } cg_place; /* where a value is computed, see cg.h */

/* How the lanes of a load or a store lie in memory. */
typedef enum cg_access {
	CG_ADJACENT,
	CG_NEAR,     /* a few elements apart: whole vectors, shuffled (stride.c) */
	CG_FAR,      /* anywhere: a gather, a scatter */
	CG_FIELD,    /* a field of a structure (structs.c) */
	CG_TABLE,    /* in a table of 256 bytes, which permutations of registers read */
	CG_TILED     /* in a tile (tile.c) */
} cg_access;
enum { CG_NEAR_STEP = 4 }; /* largest step between lanes that are NEAR, in elements */

typedef struct cg_choice {  /* of an instruction */
	uint8_t place;          /* cg_place */
	bool varies;            /* from lane to lane */
	uint8_t access, masked; /* LOAD, STORE of vectors: cg_access; the same where lanes may be absent */
	uint8_t tile;           /* number of the tile that the load reads; 0: none */
	bool streamed;          /* a store that bypasses the caches */
	bool aside;             /* a load from a copy of what lies a few places apart (aside.c) */
	bool later;             /* a maximum or minimum whose test for NaN its reader makes (nan.c) */
	bool copied;            /* an access that the tail makes to a copy on the stack (stage.c) */
	uint32_t rare;          /* the select whose rare operand alone needs it (rare.c); 0: none */
	bool branches;          /* a select that has a rare operand */
	uint32_t field;         /* 1 + the structure that the access is a field of; 0: none */
} cg_choice;

/* Accesses to all fields of a structure, in an array of such (structs.c). */
enum { CG_FIELDS = 16 };
typedef struct cg_struct {
	int n;              /* elements of a structure */
	tj_dtype dtype;
	bool store;
	uint32_t first, last; /* the access that loads all fields; that stores them */
	uint32_t field[CG_FIELDS]; /* by place in the structure: the access; LO_NOREF: none */
} cg_struct;

/* the loops that a range needs; guard: that loop may be empty */
typedef struct cg_span { bool main, tail, guard_main, guard_tail; } cg_span;

enum { CG_MOST_BESIDE = 8 };
enum { CG_MOST_TILED = 2 }; /* loads that read tiles: a tile takes 32 or 64 KiB of stack */

/* ---- products ---- */
enum {
	CG_MOST_TILES = 4,
	CG_PAGE = 4096 /* bytes: addresses a multiple of it apart share a set of the first cache */
};
typedef rt_vec(uint32_t) cg_refs;

typedef struct cg_operand { /* what its value is computed from, besides lo_tiles.load */
	cg_refs other;          /* loads */
	cg_refs scalar;         /* NUM, SIZE */
} cg_operand;
typedef struct cg_product {
	/* Of the kernel: */
	lo_tiles x;
	cg_operand operand[2];
	/* Decided: */
#define GROUP(name)
#define NUMBER(type, name) type name;
#define FLAG(name) bool name;
#define DTYPE(name) tj_dtype name;
#define REF(name) uint32_t name;
#include "codegen_llvm/product.def"
	int rows[CG_MOST_TILES], nrows; /* the numbers of rows for which there is a tile; rising */
} cg_product;

/* ---- a recipe ---- */
typedef struct cg_recipe {
	/* What it is for: */
	const lo_kernel *k;
	const lo_schedule *s;
	int bits;               /* of a vector register */
	/* What is decided: */
	cg_form form;
	int lanes, tail_lanes;  /* of the vectors along d, and of those in the tail */
	int *loop_lanes;        /* by section: of the vectors along r in its loop */
	int *loop_tails;        /* the same of the one behind the loop */
	cg_span span;           /* along d: the loops that a row of a unit needs */
	cg_choice *of;          /* by instruction */
	bool overlaps;          /* the tail is a vector that ends where the row ends (overlap.c) */
	bool exact;             /* the tail has as many lanes as are left, all present; then tail_lanes is their number */
	bool copies_tail;       /* the tail is the main loop once more, on copies (stage.c) */
	bool streams;           /* there are streamed stores */
	int tile_dim;           /* TILES: the outer dimension along which tiled loads are contiguous */
	rt_vec(cg_struct) structs;
	int asked, asks;        /* asked: the section whose loads are prefetched. asks: the section that prefetches; -1: none does */
	int beside;             /* along d: chunks of r that a loop over r takes side by side; 0: one (beside.c) */
	int halves;             /* how many halves of each sum's vectors the multipliers compute: 0, 1 or 2 (ports.c) */
	cg_product *product;    /* PRODUCT */
	bool oom;
} cg_recipe;

static inline bool cg_rows(const cg_recipe *h) { return h->form == CG_ALONG_R; }
static inline int cg_lanes_of(const cg_recipe *h, const lo_section *s)
{
	return cg_rows(h) ? h->loop_lanes[s - h->k->section.v] : h->lanes;
}

static inline int cg_tail_of(const cg_recipe *h, const lo_section *s)
{
	return cg_rows(h) ? h->loop_tails[s - h->k->section.v] : h->tail_lanes;
}

/* Of vectors of so many lanes: as many as one register holds. */
static inline int cg_lanes_in_register(int bits, int lanes, tj_dtype t)
{
	const int n = bits / 8 / (int)tj_dtype_size(t);
	return lanes < n ? lanes : n;
}

/* ---- recipe.c ---- */
/* On an error, too, cg_recipe_free() ends it. Kernel and schedule must stay. */
tj_status cg_recipe_make(cg_recipe *h, const lo_kernel *k, const lo_schedule *s, int bits, rt_err *err);
tj_status cg_recipe_parse(cg_recipe *h, const lo_kernel *k, const lo_schedule *s, const char *text, rt_err *err);
void cg_recipe_print(const cg_recipe *h, rt_text *out);
void cg_recipe_free(cg_recipe *h);

/* Below, cg_find_*() are passes: each sets the fields that it names. The rest are questions about a kernel. */

/* ---- choose.c ---- */
void cg_find_product(cg_recipe *h);   /* PRODUCT, product */
/* elements of t so many from each other are a multiple of so many bytes apart, or may be */
bool cg_lie_apart(int64_t step, tj_dtype t, int64_t bytes);
bool cg_known_rows(const cg_recipe *h); /* how many rows a block has is known */
bool cg_columns_exceed(const cg_recipe *h, int64_t most); /* the columns are known to have more than so many bytes */
int cg_few_rows(const cg_recipe *h);  /* at most this many rows read columns in place */
int cg_even_rows(const cg_product *p, int64_t n); /* how many rows the tiles of n rows have, or one less */
void cg_block_rows(const cg_recipe *h, int64_t *all, int64_t *last); /* with known rows: those of the last block, and of each other one */
int cg_strip_rows(const cg_recipe *h); /* a block has all rows; how many may be a symbol in the schedule */

/* ---- operand.c ---- */
void cg_find_operands(cg_recipe *h);  /* product->operand, which is of the kernel */
/* elements from row to row (o 0), or from column to column (1), of that operand's main load */
int64_t cg_item_step(const cg_recipe *h, int o);
int64_t cg_r_step(const cg_recipe *h, int o); /* elements from r to r */
tj_dtype cg_item_dtype(const cg_recipe *h, int o); /* as that operand lies in memory */
bool cg_computes(const cg_recipe *h, int o); /* it is not just loaded */
bool cg_is_grouped(const cg_recipe *h, int o); /* even its main load reads groups of r, or jumps: that is one of the other loads then */
bool cg_items_adjacent(const cg_recipe *h, int o); /* vectors of items can be loaded: each load has steps of 0 or 1, the main one of 1 */
bool cg_steps_adjacent(const cg_recipe *h, int o); /* vectors of steps of r can be loaded */

/* ---- words.c ---- */
int cg_word_steps(const cg_recipe *h); /* the field `steps` */

/* ---- dots.c ---- */
int cg_byte_chunk(const cg_recipe *h); /* the field `chunk` */
int cg_byte_columns(const cg_recipe *h); /* the field `width`: of a tile that has all rows */

/* ---- pairs.c ---- */
bool cg_pairs(const cg_recipe *h);    /* the field `pairs` */
bool cg_row_words(const cg_recipe *h); /* rows are words as they lie in memory, and are read from there */

/* ---- place.c ---- */
void cg_find_places(cg_recipe *h);    /* place, varies */
/* accesses kept rows, one for each lane along d: elements r of all lanes lie side by side */
bool cg_lane_rows(const cg_recipe *h, const lo_ins *in);
/* LOAD, STORE: elements from one lane to the next, dyn not counted; a size. in_loop: in a loop over r */
int64_t cg_lane_coef(const cg_recipe *h, const lo_ins *in, bool in_loop);
bool cg_dyn_varies(const cg_recipe *h, const lo_ins *in); /* the dynamic part differs from lane to lane */
uint32_t cg_index_of(const lo_kernel *k, const lo_ins *in); /* of an access with a dynamic part: what that was widened from */
/* Elements of a small table that a permutation of registers reads: up to 256 bytes (AVX-512 VBMI), or up to 32 elements of four bytes.
 * The index was checked against that size, or it is a byte. 0: it is none. */
int cg_table_size(const cg_recipe *h, const lo_ins *in);
bool cg_sums_bytes(const cg_recipe *h, const lo_ins *in); /* along r, eight bytes to a lane of i64 */
bool cg_nan_test(const lo_kernel *k, const lo_ins *in); /* a test for NaN that its select does in one instruction */

/* ---- aside.c ---- */
void cg_find_aside(cg_recipe *h);     /* aside; before the lanes, which then see adjacent elements */

/* ---- overlap.c ---- */
void cg_find_overlap(cg_recipe *h);   /* overlaps; before the lanes, of which it then takes no more than a row has */

/* ---- small.c ---- */
bool cg_takes_small(const cg_recipe *h, const lo_ins *in); /* of vectors: its operands are i64 that are computed as i32 */

/* ---- lanes.c ---- */
void cg_find_lanes(cg_recipe *h);     /* lanes, loop_lanes */
void cg_find_tail(cg_recipe *h);      /* tail_lanes, loop_tails, span; once the form is known */

/* ---- wide.c, tile.c: forms ---- */
void cg_find_wide(cg_recipe *h);      /* WIDE, and its lanes */
void cg_find_tiles(cg_recipe *h);     /* TILES, tile, tile_dim */

/* ---- beside.c ---- */
void cg_find_beside(cg_recipe *h);    /* beside; once form and lanes are known */

/* ---- rare.c, nan.c, ahead.c, ports.c, stage.c, structs.c, access.c: mechanisms ---- */
void cg_find_later(cg_recipe *h);     /* later; behind rare */
void cg_find_rare(cg_recipe *h);      /* rare */
void cg_find_ahead(cg_recipe *h);     /* asked, asks */
void cg_find_ports(cg_recipe *h);     /* halves */
void cg_find_copies(cg_recipe *h);    /* copied */
void cg_find_structs(cg_recipe *h);   /* field, structs */
void cg_find_accesses(cg_recipe *h);  /* access, masked */

/* ---- stream.c ---- */
void cg_find_streams(cg_recipe *h);   /* streamed */
bool cg_is_far(const cg_recipe *h);   /* the kernel touches more bytes than the caches hold */

/* ---- reduce.c ---- */
bool cg_same_search(const lo_kernel *k, uint32_t first, uint32_t i); /* an instruction in [first, i) searches for the same element as i */

#endif
