/* SPDX-License-Identifier: MIT */
/* target: a machine that runs kernels, as far as lowering must know it: limits, figures, and the decisions that differ from machine to
 * machine. A target is a constant for the life of the process, and may be defined anywhere; nothing of it needs a compiler. Its address
 * is a part of the key under which code is shared, so each device has a target of its own: rt_device_add() refuses a second device with
 * the same one. */
#ifndef TJ_LOWER_TARGET_H
#define TJ_LOWER_TARGET_H

#include "lower/lower.h"

struct lo_target {
	const char *name;        /* in the text of schedules: "cpu" */

	/* The back end. find() may open a plug-in, so it is called only when a kernel must be compiled. It returns NULL and sets *why when
	 * the back end is missing; then the evaluator runs the graph. */
	const char *backend;     /* "llvm" */
	const lo_backend *(*find)(const char *backend, const char **why);
	/* All that the code of a kernel depends on, as text; NULL: code is not kept for other processes (stored.c). */
	void (*key)(const lo_kernel *k, const lo_schedule *s, rt_text *t);
	/* Makes the code of a job of what the disk cache has, without the back end; false: something is missing. NULL: there is no other way
	 * than key. */
	bool (*recall)(lo_compile *job);

	/* Routines (library.h), ended by NULL; or NULL: none. What neither a kernel nor a routine of the device computes moves to the CPU, with
	 * copies. */
	const struct lo_routine *const *library;

	/* What one kernel may compute. */
	int weight; /* most work; fuse.c counts 1 for a plain op, 4 for a reduction or an op that may fault, 10 for a transcendental one, 20
	               for a random one */
	int members;             /* most values */
	int redundant;           /* most plain ops that it may compute more than once for an element */
	int64_t few_rows;        /* fewer rows than this cannot keep all threads busy */
	int64_t long_row; /* elements; the sum of a longer row is not fused into its reader when rows are few: the reader would lose its
	                     threads */
	int64_t split_row;       /* elements; threads share a reduction of at least this length when rows are few */
	int64_t few_columns;     /* fewer columns than this cannot keep all threads busy; 0: threads share no columns */
	int64_t split_column;    /* elements; threads share a reduction of columns of at least this length when they are few */
	bool part_blocks;        /* a unit has a part of a block of columns; else of one column */
	bool splits_searches;    /* threads share searches (argmax), too */
	int64_t far_step;        /* elements; a row lies across memory when its elements are at least this far apart */
	int64_t unrolled_row;    /* elements; a last dimension of at most so many becomes instructions (unroll.c) */
	int64_t transposed;      /* elements; a value of at least this size is transposed before a kernel reads rows across it */

	/* Parts of values (short.c, border.c). */
	int64_t least_part;      /* elements; an axis is taken apart if each part has so many */
	int64_t least_border;    /* elements; a value of at least this size is cut at the edges of what it reads */
	int64_t least_axis;      /* the same of the axis that is cut */

	/* Values kept between loops. */
	int64_t kept_bytes;      /* most bytes of a kept row, or of kept_rows such rows together */
	int64_t shared_bytes;    /* most bytes of the kept rows of a unit that live in LO_SHARED */
	int kept_rows;           /* how many kept rows lie side by side where lanes go along d */

	/* Units. */
	int64_t unit_bytes;      /* most bytes that a unit stores */
	double unit_ns;          /* most time that a unit takes */
	int lanes;               /* a block is a multiple of it; a power of two */
	int tile_rows;           /* rows that one tile covers where lanes step from row to row of a buffer; a power of two */

	/* Estimated times in ns, for one element. */
	double op_ns;            /* an instruction other than a load or a store */
	double byte_ns;          /* a load or store of adjacent elements, per byte */
	double same_ns;          /* a load of a value that is the same for all lanes */
	double far_ns;           /* a load or store of elements that are not adjacent */
	double fma_ns;           /* a multiplication and addition of f32 in a matrix product; 0: kernels compute no products */

	/* Matrix products. */
	bool flat_tiles; /* a tile goes across dimensions: the rows of a product are numbered through, and its columns; code is made for one
	                    size of tiles */
	int64_t window_row; /* elements; windows are read where they lie if their rows have so many adjacent ones, else they are stored. 0:
	                       always */

	/* Parts of r that threads share. */
	int64_t parts;           /* least number of parts wanted */
	int64_t least_chunks, most_chunks; /* chunks of the tree per part; powers of two */
	double join_ns, lane_ns; /* time to combine parts: per outer index, and per lane of a part */

	/* Working sets at which other code is generated. */
	int64_t strip_elems;     /* elements; from here on several registers go down columns side by side */
	int64_t far_elems;       /* elements; from here on code is written for memory rather than for caches */
	int64_t far_bytes;       /* bytes; a kernel that touches as many or more is taken to work in memory, not in caches */

	/* Values that a late reader computes again, or that are stored again for it (recompute.c). */
	int again_after;         /* a value would be kept over at least so many products and calls */
	int stored_after;        /* the same for a value that is stored again, which costs a store */
	int64_t again_bytes;     /* bytes; a smaller value is in caches, where loading it is cheaper than a transcendental function */
	int again_work;          /* most work, counted as in weight, for each byte of an element of such a value */

	/* Decisions. */
	lo_vec (*vec)(const lo_target *t, bool reduces, bool column); /* column: reductions are of the column class */
	lo_where (*keep)(const lo_target *t, lo_vec vec, int64_t row,
	                 size_t *room); /* where a kept row of `row` bytes lives; *room: bytes it takes */
	void (*units)(const lo_target *t, const lo_kernel *k, lo_schedule *s); /* sets block and unit_ns */
	void (*tiles)(const lo_target *t, const lo_kernel *k, lo_schedule *s); /* of a product: sets block, rows, scratch and unit_ns */
	/* part: elements of r per part; 0: parts do not pay. column: reductions are of the column class. lanes: what each reduction leaves
	 * of a part */
	int64_t (*part)(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes);
	int64_t (*moved)(const lo_kernel *k, const lo_schedule *s); /* bytes that a run reads from memory and writes to it; NULL: not known */
};

/* ---- schedule.c: decisions that targets share ---- */
/* threads share a reduction over red elements, for each of `outer` indices */
bool lo_is_shared(const lo_target *t, bool column, int64_t outer, int64_t red);
lo_vec lo_vec_of_tree(const lo_target *t, bool reduces, bool column); /* vec: lanes along r for row trees, else along d */
/* part: t->parts of them if chunks allow, long enough to pay for storing lanes. Of rows */
int64_t lo_enough_parts(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes);

/* ---- cpu.c ---- */
extern const lo_target lo_cpu; /* compiled by "llvm" */
const lo_target *lo_target_find(const char *backend, const char **why); /* a built-in target, by its back end; NULL: none, *why says why */

#endif
