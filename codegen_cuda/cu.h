/* cu: from scheduled kernels to CUDA C, and through NVRTC to code of a device. Headers and prototypes of codegen_cuda/.
 *
 * A kernel's units are shared out in one of two ways:
 *
 *   lanes  vec=d   a thread takes a unit: `block` adjacent elements of the last dimension, or one column of a reduction
 *   rows   vec=r   `warps` warps take a unit, a row. The lanes of the row tree take 512 bytes (ir/tree.h): 16 bytes for each
 *                  thread of a warp. So a warp reads one row of lanes at a time, and each warp takes 2^k neighbouring chunks.
 *
 * Blocks walk over the units with a stride of the whole grid, so any grid gives the same result. */
#ifndef TJ_CODEGEN_CUDA_CU_H
#define TJ_CODEGEN_CUDA_CU_H

#include "lower/target.h"
#include "runtime/cuda.h"

enum { CU_WARP = 32, CU_THREADS = 256, CU_MOST_WARPS = 16 };

/* How the text of a kernel uses a GPU; the launch needs it, too. */
typedef struct cu_shape {
	bool rows;
	int elems;          /* adjacent elements that a thread takes at a time */
	int warps;          /* rows: warps that share a unit; lanes: 0 */
	int threads;        /* of a block */
	int units;          /* that a block works on at the same time */
	size_t own;         /* bytes of shared memory for each unit, before those of its kept rows */
	int64_t step;       /* rows: elements that a warp reads at a time */
	int64_t chunk;      /* rows: elements of the largest chunk of the kernel's trees */
} cu_shape;

typedef struct cu_params { rt_vec(rt_cuda_param) param; } cu_params;

/* ---- shape.c ---- */
cu_shape cu_shape_of(const lo_kernel *k, const lo_schedule *s);
int64_t cu_chunk_of(const lo_kernel *k, const lo_ins *in); /* elements to a chunk of the tree of a REDUCE or PART; 0: order does not matter */

/* ---- target.c ---- */
extern const lo_target cu_model; /* without .find */
int cu_elems(const lo_kernel *k); /* elements that a thread takes in a kernel without reductions; schedules have it as `block` */

/* ---- printing a kernel ---- */
typedef struct cu {
	const lo_kernel *k;
	const lo_schedule *s;
	cu_shape shape;
	bool narrow;             /* all indices and unit numbers fit 31 bits */
	const lo_section *at;    /* the section being printed */
	bool in_elems;           /* inside of the loop over `elems` elements: names of loads and stores have an index */
	rt_text *out;
	int indent;
} cu;

/* ---- line.c ---- */
void cu_line(cu *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* one line; { and } at its ends move the indentation */

/* ---- kernel.c ---- */
void cu_kernel(const lo_kernel *k, const lo_schedule *s, rt_text *out); /* the text of one kernel; its name is k->name */
void cu_prelude(rt_text *out);                                          /* what the texts of all kernels need, once in a program */
bool cu_params_of(const lo_kernel *k, cu_params *p);                    /* the caller frees p->param; false: out of memory */

/* ---- value.c ---- */
const char *cu_type(tj_dtype t);   /* of values: "float" */
const char *cu_memory(tj_dtype t); /* of elements in memory: "unsigned char" for bool */
void cu_value(cu *c, uint32_t i);  /* a line that defines v<i>; not for loads, stores and reductions */
void cu_size(cu *c, int64_t size); /* a literal, or a symbol's argument */
void cu_bits(rt_text *out, tj_dtype t, int64_t bits);   /* a literal, by the bits of LO_CONST */
void cu_prim(rt_text *out, lo_op op, tj_dtype t, const char *const src[3]);

/* ---- access.c ---- */
void cu_early_loads(cu *c);        /* loads of the section that need no value of it, as whole vectors where possible */
void cu_declare_stores(cu *c);
void cu_late_stores(cu *c);
void cu_part_pointer(cu *c, const lo_ins *in); /* where the lanes of part 0 go */
void cu_load(cu *c, uint32_t i);
void cu_store(cu *c, uint32_t i);

/* ---- reduce.c ---- */
void cu_acc_begin(cu *c);          /* declares the accumulators of the section */
void cu_acc_update(cu *c, uint32_t i);
void cu_acc_row(cu *c);            /* a row of lanes is complete */
void cu_acc_flush(cu *c);          /* a chunk is complete */
void cu_acc_end(cu *c);            /* v<i> is the result of REDUCE i; the lanes of PARTs are stored */
#endif
