/* policy: the choices that differ from CPU to CPU: which code computes a product, how it is cut into parts, and how long it takes.
 * A policy is a constant. It follows from the target of lowering (lower/target.h), or from the CPU itself. */
#ifndef TJ_RUNTIME_POLICY_H
#define TJ_RUNTIME_POLICY_H

#include <stdint.h>

typedef struct rt_policy {
	int bits;                /* of a vector of the tiles; the CPU must have them */

	/* Tiles or the library. */
	int64_t few_rows;        /* tiles take products of up to so many rows, with any B */
	int64_t small_b;         /* bytes; tiles take such a B, with any number of rows */
	double tiny;             /* m * n * k; with fewer than 4 columns tiles take no more */

	/* Tiles or strips. */
	int64_t second_cache;    /* bytes of B that one thread can keep near */
	int64_t near_rows;       /* from so many rows on tiles hide the time that the third cache takes */
	int64_t far_rows;        /* up to so many rows strips are faster than the library, over a B in memory; at most RT_STRIP_ROWS */
	int64_t strips_from;     /* bytes of B from which on strips run; 0: as the three figures above say */

	/* Parts. */
	double parallel_ns;      /* a shorter product is one part */
	int64_t tile_rows;       /* of a part for tiles */
	int64_t library_rows;    /* of a part for the library; 0: a part for each thread, of the larger operand */
	int64_t library_most;    /* more rows than so many to a thread go to the library in one part for each thread */

	/* Estimates, of one thread. */
	double gflops;           /* f32, in the library and in tiles */
	double gflops64;         /* f64, in tiles */
	double gflops_loops;
	double near_gbytes;      /* it reads B from a cache */
	double far_gbytes;       /* it reads B from memory */
} rt_policy;

enum { RT_STRIP_ROWS = 16 }; /* the stack has room for so many */

extern const rt_policy rt_policy_256, rt_policy_512; /* CPUs with AVX2; with AVX-512 */
const rt_policy *rt_policy_here(void); /* this CPU's; TJ_CPU=256 asks for the narrow one */

#endif
