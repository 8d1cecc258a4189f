/* SPDX-License-Identifier: MIT */
/* lower: from the graph to kernels and a plan. This header has the types of the kernel IR, then the prototypes by file.
 *
 * A kernel walks an index space: outer dimensions d0..d(n-1), and, when it reduces, one more, r. Its body is a
 * list of sections: a `point` section runs once for each outer index, a `loop` section once for each r inside it.
 * Values are SSA; a value of a loop leaves it only through `reduce` or `store`.
 *
 *   kernel k0                                softmax over [4096,1024]
 *     schedule cpu vec=r ns=0x1.6p+9
 *     buf b0 f32 in
 *     buf b1 f32 out
 *     dim 4096
 *     red 1024
 *     loop
 *       %0 = load f32 b0 [0 + 1024*d0 + 1*r]
 *       %1 = reduce f32 max row %0
 *     loop
 *       %2 = load f32 b0 [0 + 1024*d0 + 1*r]
 *       %3 = sub f32 %2 %1
 *       ...                                  exp, out of ir/math.inc
 *       %9 = reduce f32 add row %8
 *     loop
 *       ...
 *       store b1 [0 + 1024*d0 + 1*r] %20
 *
 * A schedule says how a machine runs the kernel: which dimension becomes vector lanes, what a unit of work is, and where
 * values live between loops. The bits that a kernel computes do not depend on its schedule. */
#ifndef TJ_LOWER_LOWER_H
#define TJ_LOWER_LOWER_H

#include "ir/ir.h"
#include "ir/tree.h"
#include "runtime/blob.h"
#include "runtime/json.h"
#include "runtime/store.h"
#include "runtime/tools.h"

typedef enum lo_op {
#define PRIM(name, ...) LO_##name,
#include "ir/prims.def"
#undef PRIM
	LO_PRIMS,
	LO_CONST = LO_PRIMS, /* bits in imm, by dtype: f32 as float bits, f64 as double bits, ints sign-extended */
	LO_NUM,              /* run-time number: imm is the slot of rt_kargs.num; dtype f64 or i64 */
	LO_SIZE,             /* a constant that depends on sizes: imm is a symbol; its value holds the bits, as the imm of CONST does */
	LO_INDEX,            /* i64: the index along dimension imm (LO_R for r) */
	LO_LOAD,             /* of buf, at index + dyn * dyn_stride */
	LO_STORE,            /* src[0] to buf at index (+ dyn) */
	LO_REDUCE, /* reduces src[0] (DOT: src[0] * src[1]) over r, in a loop; imm: lo_red. Its value is read after the loop, as a point
	              value */
	LO_PART,   /* reduces src[0] over one part of r (see lo_schedule) down to lo_part_lanes() lanes: those that the tree still has
	            * before it halves them. Stores them to buf at index, in which r is lanes * number of the part + lane. imm, tree: as
	            * for REDUCE; an index that a search finds counts from the start of r. No value */
	LO_FAULT,  /* src[0] bool: when true, the run fails with fault imm (index into the kernel's faults) */
	LO_OP_COUNT
} lo_op;

/* Reductions. ADD MUL MAX MIN follow the tree given by `tree`; AND, OR and the searches (ARGMAX and later) need no order.
 * Arithmetic is the prim's (MAX: a > b || a != a ? a : b). ARGMAX/ARGMIN: src[0] the value, result i64 index along r of the
 * first extremum, NaN most extreme; ATMAX/ATMIN: the value there. DOT is a matrix product, in the order CHAIN or FAST. */
typedef enum lo_red {
	LO_RED_ADD, LO_RED_MUL, LO_RED_MAX, LO_RED_MIN, LO_RED_AND, LO_RED_OR, LO_RED_DOT, LO_RED_ARGMAX, LO_RED_ARGMIN, LO_RED_ATMAX, LO_RED_ATMIN
} lo_red; /* ARGMAX and later are searches: they look for one element */
/* its value is the index of that element */
static inline bool lo_is_index(int64_t red) { return red == LO_RED_ARGMAX || red == LO_RED_ARGMIN; }
typedef enum lo_tree { /* the fixed order of a reduction, see ir/tree.h */
	LO_TREE_ROW, LO_TREE_COLUMN, LO_TREE_NONE,
	/* For what LO_PART stored: */
	LO_TREE_PARTS, /* the row tree, with chunks of one row of lanes */
	LO_TREE_PAIRS, /* the column tree, with chunks of one element: adjacent pairs only */
	/* Of DOT: chunks of IR_CHAIN elements. In a chunk fma(a, b, sum), from 0 on; the chunks are added in order. Integers wrap. */
	LO_TREE_CHAIN,
	/* Of DOT, for numbers that were widened from bf16 to f32: any order, and nothing subnormal is kept (docs/NUMERICS.md). CHAIN is one */
	LO_TREE_FAST
} lo_tree;

#define LO_MAXDIM TJ_MAX_RANK
#define LO_R (-1)
#define LO_JUMPS 3
#define LO_NOREF UINT32_MAX

/* A size in a kernel (an extent, a coefficient, an offset) is a literal or a symbol (s0, s1 and so on). The value of a symbol is an
 * argument of the code, rt_kargs.size, so kernels that differ only in it share code. lo_kernel.size holds the values for this kernel. */
#define LO_SYM(i) (INT64_MIN + (int64_t)(i))
static inline bool lo_is_sym(int64_t size) { return size < INT64_MIN + (1 << 20); }

typedef struct lo_ins {
	uint8_t op, dtype;      /* dtype: of the result; STORE: of the element */
	uint8_t tree;           /* REDUCE */
	uint8_t nsrc;
	uint32_t src[3];        /* instructions below this one */
	int64_t imm;            /* by op, see lo_op. SELECT: 1 if the condition is nearly always true; compute src[2] behind a branch */
	uint32_t buf;           /* LOAD, STORE */
	uint32_t index;         /* LOAD, STORE: k->index[] */
	uint32_t dyn;           /* LOAD, STORE: i64 value added to the index, times dyn_stride; or LO_NOREF */
	uint32_t site;          /* k->site[site - 1]: the op that it computes; 0: not known. See sites.c */
	int64_t dyn_stride;
} lo_ins;

typedef struct lo_index {   /* offset + sum coef[i] * d(i) + rcoef * r, in elements */
	int64_t offset, rcoef;
	int64_t group;          /* in the loop of a product: rcoef * (r / group) instead, as of a scale for each `group` indices; 0: plain */
	struct lo_jump { int64_t every, by; } jump[LO_JUMPS]; /* in the loop of a product: plus by * (r / every), as of windows; every 0: none */
	int64_t coef[LO_MAXDIM];
} lo_index;

static inline bool lo_jumps(const lo_index *x) { return x->jump[0].every != 0; }

/* KEPT: a row that one loop stores and later loops read. Each outer index has its own; the index is r alone. Kept buffers come last.
 * PANELS: an input that holds the columns of a matrix product, [r][columns], in the order in which tiles read them: chunks of r;
 * of each, panels of a few columns; of each, one index of r after the other, and room for one more: panels
 * a multiple of a page apart would share a set of the cache. Its load has the index of a row-major matrix; lo_panels_at() is the number of
 * the element in memory.
 * WORDS: panels of words (lo_word) instead of single elements. */
typedef enum lo_role { LO_IN, LO_OUT, LO_KEPT, LO_PANELS, LO_WORDS } lo_role;
static inline bool lo_in_panels(int role) { return role == LO_PANELS || role == LO_WORDS; }
/* what lies in a word of 32 bits: steps of r of one column, as an instruction multiplies them; those behind the last r are 0 */
typedef enum lo_word {
	LO_SINGLE,
	LO_BYTES,  /* four i8, with 128 added to each */
	LO_PAIRS,  /* two bf16 */
	LO_TURNED  /* two bf16, the second step of r first. The first 16 bits of a panel's room tell how small numbers of the chunk are: the least
	            * magnitude that is not 0, less one in the last place */
} lo_word;
/* of a chunk: with a row for the sums of their bytes, and what a last vector writes too much, it fits where IR_CHAIN words do */
enum { LO_BYTE_WORDS = IR_CHAIN - 16 };
static inline int lo_word_steps(lo_word w) { return w == LO_SINGLE ? 1 : w == LO_BYTES ? 4 : 2; }
/* steps of r */
static inline int64_t lo_word_chunk(lo_word w) { return w == LO_BYTES ? 4 * LO_BYTE_WORDS : w == LO_PAIRS ? 2 * IR_CHAIN : IR_CHAIN; }
static inline int64_t lo_panel_columns(int64_t columns, int64_t panel) { return (columns + panel - 1) / panel * panel; }
static inline int64_t lo_panels_at(int64_t red, int64_t columns, int64_t panel, lo_word w, int64_t r, int64_t c)
{
	const int64_t steps = lo_word_steps(w), chunk = lo_word_chunk(w), number = r / chunk, left = red - number * chunk,
		      rows = ((left < chunk ? left : chunk) + steps - 1) / steps;
	const int64_t word = number * (chunk / steps + 1) * lo_panel_columns(columns, panel) + c / panel * panel * (rows + 1) +
	                     r % chunk / steps * panel + c % panel;
	return word * steps + (w == LO_TURNED ? 1 - r % 2 : r % steps);
}
typedef struct lo_buf {
	uint8_t dtype, role;
	int64_t elems;          /* KEPT: length of the row; PANELS, WORDS: columns of a panel, a power of two */
	bool aligned;           /* element 0 is 64-byte aligned */
} lo_buf;

typedef struct lo_section {
	bool loop;              /* over r; else point */
	uint32_t first, count;  /* instructions */
} lo_section;

typedef struct lo_site { const char *op, *at; } lo_site; /* of an instruction: the op, and its line of C, "file:line"; at may be NULL */

typedef struct lo_kernel {
	const char *name;       /* tj_<fn>_k0: a symbol users can break on */
	int ndim;               /* outer dimensions; at least 1 (of extent 1 when there is none) */
	int64_t dim[LO_MAXDIM];
	bool reduces;
	int64_t red;            /* extent of r */
	bool few;               /* of a product's rows there are at most lo_most_few(), even if their number is a symbol */
	rt_vec(lo_buf) buf;
	rt_vec(lo_section) section;
	rt_vec(lo_ins) ins;
	rt_vec(lo_index) index;
	rt_vec(const char *) fault_site; /* by fault number */
	rt_vec(uint8_t) fault_code;      /* tj_status, beside fault_site */
	rt_vec(int64_t) size;   /* the value of each symbol of the kernel and of its schedule */
	rt_vec(lo_site) site;   /* ops that it computes; none unless debuggers or profilers are told of code (runtime/tools.h) */
} lo_kernel;

/* ---- kir.c ---- */
void lo_kernel_free(lo_kernel *k);
uint32_t lo_append(lo_kernel *k, lo_ins i); /* LO_NOREF: out of memory */
static inline int64_t lo_size(const lo_kernel *k, int64_t size) { return lo_is_sym(size) ? k->size.v[size - LO_SYM(0)] : size; }
int64_t lo_part_lanes(const lo_ins *in);      /* in: PART or REDUCE. Lanes of the row tree; 1 for columns, and when order does not matter */
int64_t lo_identity(lo_red red, tj_dtype t);  /* an element that changes no result (-0.0 for sums), as the imm of CONST */

/* ---- schedule.c: how a machine runs a kernel ---- */
typedef enum lo_vec {
	LO_VEC_D,                /* lanes along the last outer dimension: element-wise kernels, reductions of columns */
	LO_VEC_R,                /* lanes along r: the reduced axis is contiguous */
	LO_VEC_NONE,             /* no lanes: one index at a time */
	LO_VEC_TILE              /* a matrix product (lo_tiles_of): lanes along the last outer dimension, several rows at a time */
} lo_vec;
typedef enum lo_where {      /* where a value lives that several loops read */
	LO_SCRATCH,              /* in memory of the thread: rt_kargs.scratch */
	LO_REGISTERS,
	LO_SHARED,               /* in memory that the threads of one unit share */
	LO_RECOMPUTED            /* nowhere: each loop computes it, and the kernel has no buffer for it */
} lo_where;
typedef struct lo_kept {
	uint32_t buf;            /* of the kernel, of role KEPT */
	uint8_t where;           /* lo_where, not RECOMPUTED */
	int64_t offset;          /* SCRATCH, SHARED: bytes from the start of that memory */
} lo_kept;
typedef struct lo_target lo_target; /* target.h */
typedef struct lo_schedule {
	const lo_target *target; /* the machine it is for */
	uint8_t vec;             /* lo_vec */
	int64_t block;           /* indices of the last outer dimension per unit; 1 with VEC_R */
	int64_t rows; /* TILE: indices of the product's row dimension per unit; else 0. With flat_tiles of the target rows and block count
	                 across dimensions */
	int64_t part; /* indices of r per unit: 2^k chunks of the tree; the kernel then has PART, not REDUCE. 0: a unit takes all of r */
	int64_t grain;           /* how many neighbouring units read the same cache lines: one thread should run them together */
	double unit_ns;          /* estimated time of a unit */
	size_t scratch;          /* bytes for each thread */
	size_t shared;           /* bytes for each unit */
	rt_vec(lo_kept) kept;    /* one for each KEPT buffer, in their order */
} lo_schedule;
void lo_schedule_free(lo_schedule *s);
/* prod(dim[..n-2]) * ceil(last / block) * number of parts; TILE: with ceil(rows / s->rows) for the rows */
int64_t lo_units(const lo_kernel *k, const lo_schedule *s);
int64_t lo_extent(const lo_kernel *k, uint64_t dims); /* the product of the dimensions with these bits */
int64_t lo_parts(const lo_kernel *k, const lo_schedule *s); /* number of parts of r; 1: r is not split */
int64_t lo_grain(const lo_kernel *k, const lo_schedule *s); /* computes the field `grain` from the kernel's accesses */
const lo_kept *lo_kept_at(const lo_schedule *s, uint32_t buf); /* where the KEPT buffer lives; NULL: the schedule does not name it */
size_t lo_kept_room(size_t bytes); /* what lo_keep() takes for them */
/* Adds a KEPT buffer of `bytes` bytes to s, at a multiple of 64. false: out of memory. */
bool lo_keep(lo_schedule *s, uint32_t buf, lo_where where, size_t bytes);

/* ---- products.c: the matrix product of a kernel with the schedule TILE ---- */
enum { LO_AHEAD_LOADS = 4, LO_AHEAD_MOST = 512 }; /* most loads that an operand is computed from; most instructions of the loop */
/* a set of the loop's instructions, the first one and later */
typedef struct lo_needs { uint32_t first; uint64_t bit[LO_AHEAD_MOST / 64]; } lo_needs;
static inline bool lo_needed(const lo_needs *n, uint32_t i)
{
	return i >= n->first && n->bit[(i - n->first) / 64] >> (i - n->first) % 64 & 1;
}
static inline void lo_need_too(lo_needs *n, uint32_t i)
{
	if (i >= n->first) n->bit[(i - n->first) / 64] |= (uint64_t)1 << (i - n->first) % 64;
}
typedef struct lo_tiles {
	uint32_t dot;            /* the REDUCE */
	uint32_t value[2];       /* its operands: [0] of the rows; [1] of the columns, which alone may depend on the last dimension */
	uint32_t load[2];        /* what these are, or are computed from: the load that has most of the operand's indices */
	lo_needs needs[2];       /* what these are computed from */
	bool plain[2];           /* loaded, and converted at most */
	int row;                 /* the outer dimension of the rows; -1: there is one row */
	uint64_t rows, columns;  /* bits of dimensions: those that the rows alone depend on, and the columns alone. Others are batch axes */
	bool reads_rows;         /* rows lie so that tiles can read them in place */
	bool adjacent;           /* columns are adjacent in memory, for the main load */
	bool windows;            /* they are adjacent, but r jumps */
	bool flat;               /* along columns the other loads have steps of 0 or 1 */
	bool panels;             /* columns lie in panels (PANELS, WORDS) */
	bool words;              /* of words */
	bool strips;             /* one row or a few, and adjacent columns that lie in rows */
	bool across; /* few rows, and columns whose steps of r are adjacent. Sizes are known; but the kernel may say that rows are `few`,
	              * and of bytes only the number of rows must be known */
	bool bytes;              /* i8 times i8 with sums of i32: machines multiply several steps of r at once */
	bool pairs;              /* bf16 times bf16 in the order FAST, no strips: machines multiply two steps of r at once */
	bool ordered;            /* the same in strict order, for words, and for more rows than a tile has: this machine adds in that order
	                            (rt_bf16_in_order()) */
} lo_tiles;
bool lo_tiles_of(const lo_kernel *k, lo_tiles *t); /* false: no such product */
int64_t lo_lanes(const lo_kernel *k, const lo_tiles *t); /* sums in a vector */
/* Most rows of a tile that transposes columns in vectors of so many lanes: as many as there are registers beside a square, and fewer with
 * conversions, which need some, too. */
int64_t lo_most_across(const lo_tiles *t, int64_t lanes);
/* such a tile for 2, 4 and so on up to so many rows is all that is compiled for a number that is a symbol */
int64_t lo_most_few(const lo_kernel *k, const lo_tiles *t);
bool lo_few_rows(const lo_kernel *k); /* the kernel, whose sizes are known, may say `few` */
lo_word lo_word_of(const lo_kernel *k, const lo_tiles *t); /* of which words panels of its columns are, on this machine, or should be */
/* a load of bf16 whose steps of r are all of one length, widened to f32, and no more */
bool lo_widens_bf16(const lo_kernel *k, uint32_t value);
bool lo_multiplies_bf16(const lo_kernel *k, const lo_ins *dot); /* both operands are such values */
bool lo_is_flat(const lo_kernel *k, uint32_t i);  /* no load with other steps than 0 and 1 along the last dimension */
/* Scratch memory of a unit, in elements of the product's dtype: packed rows; packed columns, or the strip's sums of a chunk; the
 * sums. There is room for one tile of rows more, and for one panel of columns more, than the block has. */
enum {
	LO_TILE_ROWS = 12,
	LO_TILE_COLUMNS = 128, /* most rows of a tile, and columns of a panel: room is counted in multiples of these */
	LO_TILE_PANEL =
		IR_CHAIN +
		1, /* rows of a packed panel: if panels were a multiple of a page apart, their rows would share a set of the cache */
	LO_ROW_ROOM = IR_CHAIN + 16, /* elements from row to row of packed rows that lie as rows: for the same reason */
	LO_TILE_STEPS = 2 * IR_CHAIN, /* most steps of r in a chunk of which there is a table */
	LO_TILE_SLACK = 64
};

/* ---- ktext.c, kverify.c ---- */
/* A kernel and its schedule as one text. It parses back exactly, given the target that it was printed for. */
void lo_print(const lo_kernel *k, const lo_schedule *s, rt_text *t);
/* Without what no code depends on: kernels of equal texts share code. */
void lo_print_code(const lo_kernel *k, const lo_schedule *s, rt_text *t);
tj_status lo_parse(lo_kernel *k, lo_schedule *s, const lo_target *target, const char *text, rt_arena *names, rt_err *err);
tj_status lo_verify(const lo_kernel *k, const lo_schedule *s, rt_err *err);
void lo_dump(const lo_kernel *k, const lo_schedule *s);

/* ---- math.c: ir/math.inc over instruction ids ---- */
/* Appends the instructions of a POINT op of ops.def on operands of its compute dtype; LO_NOREF when out of memory. */
uint32_t lo_point(lo_kernel *k, ir_op op, tj_dtype compute, tj_dtype result, const uint32_t *src);
uint32_t lo_cast(lo_kernel *k, uint32_t src, tj_dtype to); /* with the semantics of casts: saturation, NaN gives 0 */
/* uniform or normal: element `index` of the draw `ordinal` under `key`, all three i64. */
uint32_t lo_random(lo_kernel *k, ir_op op, tj_dtype dtype, uint32_t key, uint32_t ordinal, uint32_t index);
bool lo_random_has(ir_op op, tj_dtype dtype);

/* ---- symbol.c: sizes to symbols and back ---- */
/* The class of the amount of work, 0 to 2: large kernels get other code. With lanes along r, classes 0 and 1 are one; the code of
 * tiles is one for all. */
unsigned lo_amount(const lo_kernel *k, const lo_schedule *s);
bool lo_all_symbols(lo_kernel *k, lo_schedule *s); /* every size that may be a symbol becomes one; false: out of memory */
void lo_no_symbols(lo_kernel *k, lo_schedule *s);  /* every symbol becomes its value */

/* ---- family.c: kernels that differ in sizes alone share code ---- */
typedef struct lo_family lo_family; /* the shared code of one function; thread-safe */
typedef struct lo_family_count { uint32_t compiled, shared, widened; } lo_family_count; /* kernels; widened: compiled with more symbols */
typedef struct lo_moving {        /* which sizes of a call change; sizes are told apart by their values */
	const int64_t *moving, *fixed;/* sizes that change from call to call; sizes that do not */
	int nmoving, nfixed;
	bool always;                  /* moving sizes are symbols already in the first code, not from the second size on */
	bool all;                     /* every size that may be a symbol is one */
} lo_moving;
lo_family *lo_family_new(void);
void lo_family_free(lo_family *f);         /* plans keep the code that they run */
lo_family_count lo_family_counts(lo_family *f);
/* Private to lower/: */
typedef struct lo_kin lo_kin;
uint32_t lo_family_round(lo_family *f);    /* a new number for a lowering that begins */
/* kin describes k. Looks for code that fits: *fn and *code (a reference) are set, or left NULL; then compile k and call lo_family_add().
 * Marks in kin which sizes are symbols of that code. false: out of memory. */
bool lo_family_meet(lo_family *f, uint32_t round, lo_kernel *k, lo_schedule *s, const lo_moving *moving, lo_kin *kin, rt_entry *fn,
                    rt_shared **code);
bool lo_moves(const lo_moving *m, int64_t v); /* v is a multiple of a size that moves, and is no product of sizes that stay */
void lo_family_twins(lo_family *f, uint32_t n); /* counts n kernels that run the code of another kernel of their plan */
void lo_family_add(lo_family *f, lo_kin *kin, rt_entry fn, rt_shared *code); /* kin now belongs to the family */
void lo_kin_free(lo_kin *kin);

/* ---- sites.c: which ops and lines of C kernels come from; only if tools are told of code ---- */
/* instructions from `from` on that have no site get that of n */
void lo_note_site(lo_kernel *k, uint32_t from, const ir_node *n, bool *oom);
bool lo_copy_sites(lo_kernel *to, const lo_kernel *from); /* false: out of memory */
uint32_t lo_main_site(const lo_kernel *k); /* as lo_ins.site: of the kernel as a whole; 0: there are no sites */
void lo_put_ops(const lo_kernel *k, rt_text *t);          /* "relu+sigmoid+add" */
void lo_put_sites(const lo_kernel *k, rt_text *t);        /* for keys: the name, and the site of each instruction */

/* ---- codekey.c ---- */
unsigned lo_uses(const lo_kernel *k); /* what its code may use of a CPU beyond the level of its vectors: RT_USES_BYTES, RT_USES_BF16 */
void lo_code_key(const lo_kernel *k, const lo_schedule *s, rt_text *t);

/* ---- shelf.c: what is made of constants once ---- */
typedef struct lo_shelf lo_shelf;          /* the copies that plans of one function share; thread-safe */
lo_shelf *lo_shelf_new(void);
void lo_shelf_free(lo_shelf *s);           /* plans keep the copies that they read */

/* ---- plugin.c: who compiles kernels ---- */
typedef struct lo_compile {       /* a request: the kernels of one plan become one object */
	const lo_kernel *const *kernel;
	const lo_schedule *const *schedule; /* of each kernel */
	int nkernel;
	const char *name;
	rt_cpu cpu;                   /* to make code for */
	rt_store *store;              /* the disk cache; NULL: none */
	bool keep_text;               /* fill text, for dumps */
	bool keep_assembly;           /* fill assembly: costs one more run of the code generator */
	bool only_text;               /* with keep_text: no code is needed, fn may stay as it is */
	/* results */
	rt_entry *fn;            /* one for each kernel; the caller's array */
	rt_blob *blob;                /* the same, or NULL: code that another process can load, valid as long as `code`; none if bytes is 0 */
	rt_shared *code;
	char *text, *assembly;        /* rt_alloc'ed or NULL: source text (.ll, .cu), and the assembly made from it */
	double codegen_ms;
} lo_compile;
/* The shape of what a plug-in and the library hand each other, as a number. */
#define LO_ABI \
	((((((sizeof(lo_kernel) * 256 + sizeof(lo_schedule)) * 256 + sizeof(lo_ins)) * 256 + LO_OP_COUNT) * 256 + sizeof(lo_compile)) * \
	          256 + \
	  sizeof(lo_target)) * \
	         256 + \
	 sizeof(lo_backend))
typedef struct lo_backend {
	const char *name;             /* "llvm" */
	const char *(*missing)(void); /* NULL: it works on this machine; else why it does not */
	tj_status (*compile)(lo_compile *job, rt_err *err); /* thread-safe */
	int (*width)(void);           /* vector bits in use */
	/* May be NULL. Called once, first: the back end calls enter and leave around work that a fork() must wait for. */
	void (*use_gate)(void (*enter)(void), void (*leave)(void));
	/* May be NULL. Called once, too: the back end's own copy of runtime/tools.c tells tools of code through this. */
	void (*use_teller)(const rt_teller *t);
	const char *version;          /* of the compiler: "19.1.4" */
	const char *(*build)(void);   /* rt_build() of the plug-in: only code of the library's own build is kept for other processes; NULL: none */
	/* May be NULL. For tests: what is decided for a kernel on that CPU (codegen_llvm/recipe.h), and the code that follows;
	 * given: a recipe as text, or NULL: it is made. Appends to both texts. */
	tj_status (*recipe)(const lo_kernel *k, const lo_schedule *s, rt_cpu cpu, const char *given, rt_text *recipe, rt_text *code, rt_err *err);
} lo_backend;
bool lo_backend_gone(void); /* the process is exiting: nothing can be compiled any more, so the evaluator runs */
const lo_backend *lo_backend_find(const char *name, const char **why); /* "llvm": opens libtj-llvm.so. NULL: not there; *why says why */
/* The symbols of the plug-in: const uint64_t tj_llvm_number[2], TJ_VERSION_NUMBER and LO_ABI where it was compiled, which is looked at
 * first; const lo_backend *tj_llvm_backend(void). */

/* ---- facts.c: accesses to memory ---- */
/* How many elements the access reaches. Those of views that overlap are not more than lie between the first and the last one. loop: it is
 * in a loop */
int64_t lo_reach(const lo_kernel *k, const lo_schedule *s, const lo_ins *in, bool loop);
/* one from `first` on, before i, reads or writes the same elements */
bool lo_repeats_access(const lo_kernel *k, uint32_t first, uint32_t i);

/* ---- lower.c ---- */
/* Passes that tests can switch off by name; no result depends on them.
 *  fold   simplify           sink   gather before arithmetic    merge  groups that read one value        reuse  memory of temporaries
 *  cse    merge equal nodes  fuse   several ops in one kernel   alias  write outputs over externals      epilogue  kernels in calls of a
 *         library
 *  panels constants as tiles read them                bundle  kernels in one region             recompute  late readers compute values
 *                                                     again
 *  loops  one loop for several, and only what is read of its results
 *  turn   lanes along the rows of products of few columns
 *  short  values along an axis of a few elements are taken apart
 *  border edges are computed apart from the interior
 *  repeat values that are read at several places are computed at each */
/* clang-format off */
#define LO_PASSES(X) \
	X(FOLD, "fold") X(CSE, "cse") X(SINK, "sink") X(FUSE, "fuse") X(MERGE, "merge") X(ALIAS, "alias") X(REUSE, "reuse") \
	X(EPILOGUE, "epilogue") X(PANELS, "panels") X(BUNDLE, "bundle") X(RECOMPUTE, "recompute") X(LOOPS, "loops") X(TURN, "turn") \
	X(SHORT, "short") X(BORDER, "border") X(REPEAT, "repeat") X(KNOWN, "known")
/* clang-format on */
enum {
#define X(name, text) LO_PASS_##name,
	LO_PASSES(X)
#undef X
	LO_PASS_COUNT
};
#define LO_OFF(name) (1u << LO_PASS_##name)

typedef struct lo_content {       /* what an external always holds when a plan runs */
	uint64_t id;                  /* another one whenever the elements differ; 0: the content is not known */
	const void *data;             /* element 0; read while lowering. NULL: a copy is used if the shelf has one */
	bool cell;                    /* the external may get another content, and the function another plan */
	rt_shared *held;              /* it is no external of the plan, but a value computed while lowering (known.c); NULL: it is one */
} lo_content;
struct lo_low;
typedef struct lo_opts {
	const char *name;             /* of the function: kernels are tj_<name>_k0 ... */
	const lo_target *target;      /* NULL: every node runs in the evaluator */
	const char **missing;         /* may be NULL; gets the reason when the target's back end is missing and the evaluator runs the plan */
	uint32_t settings;            /* rt_setting */
	bool int_div_zero;            /* see tj_int_div_zero */
	bool keep_text; /* keep text of kernels and code, for dumps: lowering takes several times as long; adds nothing to the family */
	bool keep_assembly;           /* with keep_text */
	bool keep_each;               /* with keep_text: kernels are compiled one by one, so that each text is that of one kernel; of those that
	                               * share code, one is. The plan has no code, and cannot run */
	void (*see)(void *env, struct lo_low *L, const rt_plan *p); /* NULL, or called with each plan that is made, first with those of regions;
	                               * without keep_text no kernel of them is compiled */
	void *see_env;
	uint32_t off;                 /* passes switched off: LO_OFF() */
	rt_store *store;              /* code that other processes compiled, and will find; NULL: none */
	bool sealed;                  /* code that is not in the store is an error: nothing is compiled */
	lo_family *family;            /* kernels share its code, and new code is added to it; NULL: none */
	lo_moving moving;
	const lo_content *content;    /* by external slot; NULL: no content is known */
	uint32_t ncontent;
	size_t room;                  /* bytes that a plan of this form took (rt_exec.room); 0: not known */
	const rt_run *run;            /* a template for the plan that computes what depends on such contents alone; NULL: one thread does */
	lo_shelf *shelf;              /* copies of these contents are shared, and counted; NULL: each plan has its own */
	bool to_cpu;                  /* a region whose outputs the host reads: copy them to the CPU */
	bool store_all;               /* a region: store every output, also one that is an input seen through strides; exception: carries */
	uint32_t carries;             /* number of carries, the first outputs; output i that is input slot i is not stored */
	const int *into;              /* by output: the external slot to write it over if possible (the cell it is assigned to), or -1;
	                               * NULL: any slot will do. rt_out.alias_ext says what was possible */
} lo_opts;
/* Lowers a graph: decompose, DCE, fuse, build kernels and library steps, lay out memory, compile. Does not change g. Opens the target's
 * back end only when a kernel must be compiled. */
tj_status lo_build(const ir_graph *g, const lo_opts *o, rt_exec **out, rt_err *err);

/* ---- devices.c ---- */
bool lo_on_devices(const ir_graph *g); /* some value is not on the CPU */

/* ---- library.c ---- */
static inline bool lo_becomes_product(ir_op op) { return op == IR_matmul || op == IR_conv || op == IR_conv_transpose; }
/* Results of op on a device may be near the evaluator's, not equal to them, since a routine of that device or of the CPU computes it; t:
 * their dtype. */
bool lo_bounded(ir_op op, tj_dtype t, int device, uint32_t settings); /* settings: rt_setting */

/* ---- cpuproducts.c ---- */
/* Who computes products of the CPU with results of dtype t: *library: oneDNN; else kernels. Returns the reason. Opens oneDNN if the
 * settings prefer it. */
const char *lo_products_by(tj_dtype t, bool fast, uint32_t settings, bool *library);
/* why kernels of the CPU convert the operands of products of t to f32; NULL: they need not */
const char *lo_widened(tj_dtype t, bool fast);

/* ---- notes.c: what lowering decided, and why, for people. The graph is lowered once more, up to the steps. ---- */
typedef enum lo_note_kind {
	LO_NOTE_FUSION,    /* a value is stored because the kernels that read it refused to compute it */
	LO_NOTE_MEMORY,    /* a kernel that reads a value late computes it again, so that it need not be kept; or at each of several
	                    places that read it, so that it need not be stored */
	LO_NOTE_STORED,    /* a value is stored for another reason; or small ones are, together */
	LO_NOTE_EVALUATOR, /* an op that no kernel computes */
	LO_NOTE_LIBRARY, /* a routine was chosen, or a kernel because the routine that the settings prefer cannot compute the op; or a fast
	                    product has instructions of its own */
	LO_NOTE_DEVICE   /* an op that its device does not compute: the CPU does, and each call copies operands and result */
} lo_note_kind;
typedef struct lo_note {
	lo_note_kind kind;
	const char *op, *site;          /* the node */
	const char *other, *other_site; /* FUSION: an op of the kernel that refused; MEMORY: of the late one; STORED: a reader; LIBRARY: the
	                                   routine */
	const char *why, *hint;
	int64_t bytes;                  /* FUSION, STORED: that are stored */
} lo_note;
typedef void lo_tell(void *self, const lo_note *n);
/* Calls tell for each note. x: the plan made from g; its steps say which routines were chosen. */
tj_status lo_notes(const ir_graph *g, const lo_opts *o, const rt_exec *x, lo_tell *tell, void *self, rt_err *err);

/* ---- data.c: a plan as data, for reports. The graph is lowered once more. ---- */
typedef struct lo_data_opts {
	bool texts;              /* of kernels and their code, too: each kernel is compiled once more */
	size_t most;             /* bytes of one text; more is cut off */
	size_t *left;            /* bytes of all texts that there is room for; goes down */
} lo_data_opts;
/* Appends an object to `to`: nodes with the steps that compute them, steps with texts of their kernels, buffers and when they live. */
tj_status lo_put_data(const ir_graph *g, const lo_opts *o, const lo_data_opts *d, rt_json *to, const char *key, rt_err *err);

/* ---- show.c ---- */
/* fusion for Graphviz: a box for each kernel */
tj_status lo_dot_groups(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err);
/* Fusion as text, for tests and tjc: one line a group. */
tj_status lo_print_groups(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err);
/* steps in order, kernels whole; compiles nothing */
tj_status lo_print_kernels(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err);
/* one line a step; those that run in one region are indented */
tj_status lo_print_steps(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err);
/* the temporaries, and from which step to which they live */
tj_status lo_print_memory(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err);

#endif
