/* policy: the choices that differ from CPU to CPU: which code computes a product, how it is cut into parts, and how long it takes.
 * A policy is a constant. It follows from the target of lowering (lower/target.h), or from the CPU itself. */
#ifndef TJ_RUNTIME_POLICY_H
#define TJ_RUNTIME_POLICY_H

#include <stdint.h>

typedef struct rt_policy {
	int bits;                /* vector width of the tiles; the CPU must have it */

	/* Tiles or the library. */
	int64_t few_rows;        /* tiles compute products of up to this many rows, with any B */
	int64_t small_b;         /* bytes; tiles compute products with a B up to this size, and any number of rows */
	double tiny;             /* m * n * k; products of fewer than 4 columns use tiles only up to this */

	/* Tiles or strips. */
	int64_t second_cache;    /* bytes of B that fit the second cache of a thread */
	int64_t near_rows;       /* from this many rows on, tiles hide the latency of the third cache */
	int64_t far_rows;        /* up to this many rows, strips over a B in memory are faster than the library; at most RT_STRIP_ROWS */
	int64_t strips_from;     /* bytes; strips are used for a larger B; 0: the three figures above decide */

	/* Parts. */
	double parallel_ns;      /* a product whose estimated time is shorter is one part */
	int64_t tile_rows;       /* rows of a part for tiles */
	int64_t library_rows;    /* rows of a part for the library; 0: the larger operand is cut into one part for each thread */
	int64_t library_most;    /* with more rows per thread than this, the library gets one part for each thread */

	/* Estimates, for one thread. */
	double gflops;           /* f32, in the library and in tiles */
	double gflops64;         /* f64, in tiles */
	double gflops_loops;
	double near_gbytes;      /* GB/s, reading B from a cache */
	double far_gbytes;       /* GB/s, reading B from memory */
} rt_policy;

enum { RT_STRIP_ROWS = 16 }; /* the most rows of strips: their sums are on the stack */

extern const rt_policy rt_policy_256, rt_policy_512; /* CPUs with AVX2; with AVX-512 */
int rt_wanted_bits(void);              /* 512, 256 or 128 by TJ_CPU; 0: it is not set, or has another value */
const rt_policy *rt_policy_here(void); /* this CPU's; TJ_CPU=256 or 128 gives rt_policy_256 */

#endif
