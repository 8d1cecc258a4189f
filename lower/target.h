/* target: a machine that runs kernels, as far as lowering must know it: limits, figures, and the decisions that differ from machine to
 * machine. A target is a constant for the life of the process, and may be defined anywhere; nothing of it needs a compiler. Its address
 * is a part of the key under which code is shared. */
#ifndef TJ_LOWER_TARGET_H
#define TJ_LOWER_TARGET_H

#include "lower/lower.h"

struct lo_target {
	const char *name;        /* in the text of schedules: "cpu" */
	int device;              /* kind of device whose memory the kernels read and write; 0: the host's */

	/* The back end. find() is called when a kernel must be compiled, not before: it may open a plug-in. NULL, and why: it is not there, and
	 * the evaluator runs the graph. */
	const char *backend;     /* "llvm" */
	const lo_backend *(*find)(const char *backend, const char **why);

	/* Ops that code written beforehand computes there (library.h); NULL at the end. What neither a kernel nor a routine of the device computes is
	 * the CPU's, with copies. NULL: no routine. */
	const struct lo_routine *const *library;
	const struct rt_policy *(*policy)(void); /* of products (runtime/policy.h) */

	/* What one kernel may compute. */
	int weight;              /* most work: a plain op counts 1, a transcendental one 10 */
	int members;             /* most values */
	int redundant;           /* most plain ops that it may compute more often than they have elements */
	int64_t few_rows;        /* fewer rows than this cannot keep all threads busy */
	int64_t long_row;        /* elements; the sum of a longer row is not fused into its reader when rows are few: the reader would lose its threads */
	int64_t split_row;       /* elements; threads share a reduction of so many when rows are few */
	int64_t far_step;        /* elements; a row whose elements lie so far apart, or farther, is gathered */
	int64_t transposed;      /* elements; a kernel transposes a value of so many before rows are read across it */

	/* Values kept between loops. */
	int64_t kept_bytes;      /* most bytes of a kept row, or of the kept rows that lie side by side */
	int kept_rows;           /* rows that lie side by side where lanes go along d */

	/* Units. */
	int64_t unit_bytes;      /* that a unit stores, at most */
	double unit_ns;          /* that a unit takes, at most */
	int lanes;               /* a block is a multiple of it; a power of two */
	int tile_rows;           /* rows that code takes together where lanes step from row to row of a buffer; a power of two */

	/* Estimated times in ns, for one element. */
	double op_ns;            /* any instruction but a load or a store */
	double byte_ns;          /* of a load or a store of adjacent elements, for each byte */
	double same_ns;          /* of a load of what is the same for all lanes */
	double far_ns;           /* of a load or a store of elements that are not adjacent */

	/* Parts of r that threads share. */
	int64_t parts;           /* wanted, at least */
	int64_t least_chunks, most_chunks; /* of the row tree to a part; powers of two */
	double join_ns, lane_ns; /* time to put parts together: for an outer index, and for each lane of a part */

	/* How much there is to do, as far as code is written for it. */
	int64_t strip_elems;     /* elements from which on several registers go down columns side by side */
	int64_t far_elems;       /* elements from which on code is written for memory rather than for caches */
	int64_t far_bytes;       /* bytes that a kernel touches from which on it works in memory */

	/* Decisions. */
	lo_vec (*vec)(const lo_target *t, bool reduces, bool column); /* column: reductions are of the column class */
	lo_where (*keep)(const lo_target *t, lo_vec vec, int64_t row, size_t *room); /* where a row of so many bytes lives; the bytes it takes there */
	void (*units)(const lo_target *t, const lo_kernel *k, lo_schedule *s); /* sets block and unit_ns */
	int64_t (*part)(const lo_target *t, const lo_kernel *k, int64_t lanes); /* elements of r to a part whose reductions leave so many lanes each */
};

/* ---- cpu.c ---- */
extern const lo_target lo_cpu; /* compiled by "llvm" */
const lo_target *lo_target_find(const char *backend, const char **why); /* of those the core knows, by back end; NULL and why */

#endif
