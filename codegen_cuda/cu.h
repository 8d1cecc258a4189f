/* SPDX-License-Identifier: MIT */
/* cu: from scheduled kernels to CUDA C, and through NVRTC to code of a device. Headers and prototypes of codegen_cuda/.
 *
 * A kernel's units are shared out in one of five ways:
 *
 *   points   no reduction    a thread takes a unit: `elems` adjacent elements of the last dimension
 *   tiles    no reduction    a block takes 32 by 32 elements, where loads and stores go along different dimensions (tile.c)
 *   rows     vec=r           `warps` warps take a unit, a row. The lanes of the row tree take 512 bytes (ir/tree.h): 16 bytes for each
 *                            thread of a warp. So a warp reads one row of lanes at a time, and each warp takes 2^k neighbouring chunks:
 *
 *                              row   | chunk 0 | chunk 1 | chunk 2 | chunk 3 | chunk 4 ...       per = 2, warps = 4
 *                              warp  |         0         |         1         |    2
 *
 *                            A row shorter than 512 bytes takes `span` threads, and a warp 32 / span of them.
 *   columns  vec=d           a unit is one column. A warp reads 32 adjacent columns, row by row; `warps` warps share the rows as above.
 *                            Of few columns a warp reads `span` adjacent ones in 32 / span rows: then `warps` are such parts of a warp.
 *                            Few long columns are split in parts (lower/share.c): a unit is one part of one column, and
 *                            neighbouring units are neighbouring columns
 *   product  vec=tile        a block takes a tile of the result of a matrix product (product.c)
 *
 * Blocks walk over the units with a stride of the whole grid, so any grid gives the same result. A block that has fewer units left than it
 * can take has some that are not `live`: they load nothing and store nothing, but all threads reach each barrier and each shuffle. */
#ifndef TJ_CODEGEN_CUDA_CU_H
#define TJ_CODEGEN_CUDA_CU_H

#include "lower/library.h"
#include "lower/target.h"
#include "runtime/cuda.h"

enum {
	CU_WARP = 32, CU_THREADS = 256, CU_MOST_WARPS = 16, CU_UNKNOWN_WARPS = 8, /* UNKNOWN: of a unit whose length is an argument */
	CU_MOST_PER = 16,        /* chunks that a warp takes in a pass */
	CU_LEVELS = 20,          /* of the stack of passes (tj_levels in prelude.c) */
	CU_SIDE = 32, CU_PITCH = CU_SIDE + 1, /* of a tile: its elements, and those from row to row */
	CU_HELD = 6,             /* rows of inputs that a kernel holds */
	CU_REGISTER_ROWS = 2,    /* rows of lanes that a warp holds in registers, at most */
	CU_SECTOR = 32,          /* bytes that memory reads at once, at least */
	CU_REGISTER_BYTES = 1024, /* of a kept row that stays in registers, at most */
	CU_RESERVED = 40 << 10   /* bytes of a block's shared memory that are not for kept rows */
};

typedef enum cu_walk { CU_POINTS, CU_TILES, CU_ROWS, CU_COLUMNS, CU_PRODUCT } cu_walk;
/* ins: the first load; kept: the KEPT buffer whose place it uses, or LO_NOREF */
typedef struct cu_held { uint32_t ins, kept; size_t offset; } cu_held;

/* How the text of a kernel uses a GPU; the launch needs it, too. */
struct cu;
typedef struct cu_shape {
	cu_walk walk;
	int elems;          /* adjacent elements that a thread takes at a time */
	int warps, span;    /* warps that share a unit; threads that share a row of lanes, or read adjacent columns */
	int threads;        /* of a block */
	int units;          /* that a block works on at the same time */
	size_t own;         /* bytes of shared memory for each unit, before those of its kept rows */
	int64_t step;       /* rows: elements that a warp reads at a time; columns: 1 */
	int64_t chunk;      /* elements of the largest chunk of the kernel's trees */
	int per;            /* chunks that a warp takes; 0: as many as needed, known at run time */
	int rows;           /* rows of lanes that a warp walks in a chunk */
	bool whole;         /* the length is a multiple of elems */
	bool in_registers;  /* rows that are read twice, and kept rows, stay in registers */
	int side;           /* tiles: the dimension along which the loads go */
	int nheld;          /* rows that are read twice */
	cu_held held[CU_HELD];
} cu_shape;

typedef struct cu_params { rt_vec(rt_cuda_param) param; } cu_params;

typedef struct cu_module {   /* a program that is loaded, and its kernels in order */
	rt_shared code;
	int gpu;
	void *module;
	uint32_t n;
	cu_params *params;           /* of each kernel */
	char *key;                   /* cache.c: its text; NULL: it is not in the cache */
	uint64_t hash;
	struct cu_module *next;
	rt_cuda_kernel kernel[];
} cu_module;

/* The target of a GPU. */
typedef struct cu_gpu { lo_target target; int number; } cu_gpu;
static inline int cu_number(const lo_target *t) { return ((const cu_gpu *)t)->number; }

/* ---- module.c ---- */
/* From the disk cache, if store is not NULL, else compiled; compile: false: an error instead. Has room for n kernels, whose params are
 * empty. NULL: an error */
cu_module *cu_module_load(const char *text, int gpu, uint32_t n, rt_store *store, bool compile, rt_err *err);
void cu_module_keep(cu_module *m, const char *key); /* puts it into the cache; out of memory: an equal program will be compiled again */
/* A module with one kernel, `name`, of a program that is not printed from the kernel IR; a reference. how: its threads, units and own.
 * params are taken over; none of them: out of memory. *compiled: it was not in the cache. */
cu_module *cu_module_of(const lo_target *t, const char *text, const char *name, const rt_cuda_kernel *how, cu_params params,
                        rt_store *store, bool *compiled, rt_err *err);

/* ---- cache.c ---- */
cu_module *cu_cached(int gpu, const char *key); /* a reference; NULL: there is none */
void cu_cache(cu_module *m, char *key);          /* takes over key */
void cu_uncache(cu_module *m);

/* ---- shape.c ---- */
cu_shape cu_shape_of(const lo_kernel *k, const lo_schedule *s);
size_t cu_join_bytes(const cu_shape *x); /* of a unit's shared memory, for what warps give each other */
size_t cu_stack_bytes(const cu_shape *x); /* likewise, for the stack of passes of one reduction */
const cu_held *cu_held_at(const lo_kernel *k, const cu_shape *x, const lo_ins *in); /* the held row that a load reads; NULL: none */
bool cu_is_tiled(const struct cu *c, const lo_ins *in);
size_t cu_tile_bytes(const lo_ins *in); /* of the load's tile */
int cu_elems(const lo_kernel *k); /* elements that a thread takes in a kernel without reductions; schedules have it as `block` */
int64_t cu_least_load(const lo_kernel *k); /* bytes of the narrowest element that it loads; 8: it loads nothing */
/* elements to a chunk of the tree of a REDUCE or PART; 0: order does not matter */
int64_t cu_chunk_of(const lo_kernel *k, const lo_ins *in);

/* ---- traffic.c ---- */
int64_t cu_moved(const lo_kernel *k, const lo_schedule *s); /* bytes that a run reads from memory and writes to it */

/* ---- target.c ---- */
extern const lo_target cu_model; /* without .find, and without what cu_fit_target() sets */
void cu_fit_target(lo_target *t, int arch); /* the figures that differ between GPUs; arch: 90 for sm_90 */

/* ---- printing a kernel ---- */
typedef struct cu {
	const lo_kernel *k;
	const lo_schedule *s;
	cu_shape shape;
	bool narrow;             /* all indices and unit numbers fit 31 bits */
	const lo_section *at;    /* the section being printed */
	bool in_elems;           /* inside of the loop over `elems` elements: names of loads and stores have an index */
	int unroll;              /* rows: rows of lanes that are loaded before the first of them is used; names of loads have a second index q */
	const bool *used;        /* by instruction: its value is read */
	rt_text *out;
	int indent;
} cu;

/* Threads share a unit: not all units are live, and one thread stores. */
static inline bool cu_shares(const cu *c) { return c->k->reduces && c->shape.walk != CU_PRODUCT; }

/* ---- line.c ---- */
void cu_line(cu *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* one line; { and } at its ends move the indentation */

/* ---- kernel.c ---- */
void cu_kernel(const lo_kernel *k, const lo_schedule *s, rt_text *out); /* the text of one kernel; its name is k->name */
bool cu_params_of(const lo_kernel *k, cu_params *p);                    /* the caller frees p->param; false: out of memory */

/* ---- prelude.c ---- */
void cu_prelude(const char *kernels, rt_text *out); /* the functions that the texts of these kernels call */

/* ---- launch.c: steps whose kernels are written by hand ---- */
typedef struct cu_written {      /* such a kernel */
	const char *name;
	unsigned threads, units; /* of a block; that it works on at the same time */
	size_t own;              /* bytes of shared memory for each of these units */
	uint32_t operands, words; /* of the step; sizes */
	bool faults;
} cu_written;
typedef struct cu_launch { int64_t units; const int64_t *size; } cu_launch; /* size: in memory of the plan */
typedef struct cu_along { int64_t outer, n, inner; } cu_along;
/* Makes t a kernel of one launch, or of none, or a routine of several, which cu_run_launches() runs. t has its operands already. */
bool cu_put_launches(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t, const cu_written *w, const rt_text *text, int n,
                     const cu_launch *launch);
tj_status cu_run_launches(const void *self, void *const *buf, rt_run *r);
void cu_written_text(const char *kernel, const rt_text *types, rt_text *out); /* the program: prelude, types, kernel */
bool cu_takes_row_major(const lo_low *L, ir_ref r, int k, const lo_access *a);
const char *cu_lacks(tj_dtype t);
int64_t cu_inverse(int64_t b);                      /* the bits of 1 / b, which tj_div() takes */
const char *cu_unsigned(tj_dtype t);                 /* "unsigned short", of the size of an element */
int64_t cu_bytes_of(const lo_call *e);              /* bytes of its operands and of its result */
cu_along cu_along_axis(const ir_meta *m, int64_t axis); /* the sizes before, of, and behind an axis */

/* ---- scatter.c, cumulate.c, search.c, sort.c: their programs, and the kernels in these ---- */
enum { CU_SCATTERS = 5, CU_CUMULATES = 5, CU_SORTS = 2 };
/* the first is scatter_add */
extern const lo_routine cu_scatter[CU_SCATTERS], cu_cumulate[CU_CUMULATES], cu_sort[CU_SORTS], cu_searchsorted;
cu_written cu_scatter_text(ir_op op, tj_dtype t, rt_text *out);
cu_written cu_cumulate_text(ir_op op, int which, tj_dtype t, bool staged, rt_text *out);
cu_written cu_search_text(tj_dtype t, rt_text *out);
cu_written cu_sort_text(int which, tj_dtype t, rt_text *out);

/* ---- value.c ---- */
const char *cu_type(tj_dtype t);   /* of values: "float" */
const char *cu_memory(tj_dtype t); /* of elements in memory: "unsigned char" for bool */
void cu_value(cu *c, uint32_t i);  /* a line that defines v<i>; not for loads, stores and reductions */
void cu_size(cu *c, int64_t size); /* a literal, or a symbol's argument */
void cu_bits(rt_text *out, tj_dtype t, int64_t bits);   /* a literal, by the bits of LO_CONST */
void cu_prim(rt_text *out, lo_op op, tj_dtype t, const char *const src[3]);

/* ---- access.c ---- */
void cu_held_rows(cu *c);          /* declares the rows that stay in registers, at the start of a unit */
bool cu_loads_early(const cu *c);  /* the section has loads that need no value of it */
void cu_declare_loads(cu *c);      /* their arrays */
void cu_early_loads(cu *c);        /* as whole vectors where possible */
void cu_declare_stores(cu *c);
void cu_late_stores(cu *c);
void cu_load(cu *c, uint32_t i);
void cu_store(cu *c, uint32_t i);

void cu_pointer(cu *c, const lo_ins *in); /* the address of one element */

/* ---- tile.c ---- */
void cu_tiles(cu *c, void (*body)(cu *c)); /* the walk over tiles */

/* ---- product.c ---- */
void cu_tile_units(const lo_target *t, const lo_kernel *k, lo_schedule *s); /* chooses a tile: rows and block */
size_t cu_product_bytes(const lo_kernel *k, const lo_schedule *s);         /* of a block's shared memory */
void cu_product(cu *c, void (*instruction)(cu *c, uint32_t i));            /* the walk over tiles */

/* ---- reduce.c ---- */
void cu_acc_begin(cu *c);          /* declares the accumulators of the section */
void cu_acc_update(cu *c, uint32_t i);
void cu_acc_row(cu *c);            /* a row of lanes is complete */
void cu_acc_flush(cu *c);          /* a chunk is complete */
void cu_acc_pass(cu *c);           /* a pass is complete */
void cu_acc_end(cu *c);            /* v<i> is the result of REDUCE i; the lanes of PARTs are stored */
#endif
