/* matmul: what the files of a product share. Who computes it is a way:
 *
 *   policy.c    the figures of a CPU                    matmul.c   the product: its way, why, its batches
 *   parts.c     tiles and the library, part by part     panels.c   f16 and bf16, panel by panel
 *   gemm.c      tiles and strips, on one thread         onednn.c   the library, on one thread
 *   loops.c     any dtype, in the order of k */
#ifndef TJ_RUNTIME_MATMUL_H
#define TJ_RUNTIME_MATMUL_H

#include "runtime/gemm.h"

typedef enum rt_way { RT_LOOPS, RT_TILES, RT_LIBRARY, RT_PANELS } rt_way;

struct rt_matmul {
	rt_matmul_desc d;
	rt_gemm gemm;            /* d again, for the tiles */
	rt_panels panels;
	rt_way way;
	double ns;               /* estimate of a product, on one thread */
	int64_t offsets[];       /* a, b, c of each batch */
};

typedef struct rt_operands { const void *a, *b; void *c; } rt_operands;

static inline int64_t rt_batch_at(const int64_t *offset, int64_t i) { return offset ? offset[i] : 0; }

/* ---- onednn.c ---- */
bool rt_onednn(void);                                   /* it is there; opens it at the first call */
bool rt_onednn_takes(const rt_gemm *g);                 /* the strides fit */
bool rt_onednn_run(const rt_gemm *g, const float *a, const float *b, float *c); /* on this thread, between begin and end; false: out of memory */
int rt_onednn_begin(void);                              /* oneDNN computes on this thread alone ... */
void rt_onednn_end(int before);                         /* ... up to here; before: what begin gave */

/* ---- parts.c, panels.c, loops.c: the ways, in a team ---- */
tj_status rt_parts_run(const rt_matmul *m, rt_operands x, const rt_run *r);  /* TILES, LIBRARY */
tj_status rt_panels_run(const rt_matmul *m, rt_operands x, const rt_run *r); /* PANELS */
tj_status rt_loops_run(const rt_matmul *m, rt_operands x, const rt_run *r);  /* LOOPS */

#endif
