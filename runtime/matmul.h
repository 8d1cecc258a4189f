/* matmul: declarations shared by the files that compute matrix products. A product is computed in one of four ways (rt_way):
 *
 *   policy.c    the figures of a CPU                    matmul.c   chooses the way; gives its name and the reason
 *   parts.c     tiles and the library, part by part     panels.c   f16 and bf16, panel by panel
 *   gemm.c      tiles and strips, on one thread         onednn.c   the library, on one thread
 *   loops.c     any dtype, in the order of k */
#ifndef TJ_RUNTIME_MATMUL_H
#define TJ_RUNTIME_MATMUL_H

#include "runtime/gemm.h"

typedef enum rt_way { RT_LOOPS, RT_TILES, RT_LIBRARY, RT_PANELS } rt_way;

struct rt_matmul {
	rt_matmul_desc d;
	rt_gemm gemm;            /* the same product as d, for one batch */
	rt_panels panels;        /* RT_PANELS */
	rt_way way;
	double ns;               /* estimated time of one batch on one thread */
	int64_t offsets[];       /* element offsets of the batches: of all a, then all b, then all c */
};

typedef struct rt_operands { const void *a, *b; void *c; } rt_operands;

static inline int64_t rt_batch_at(const int64_t *offset, int64_t i) { return offset ? offset[i] : 0; }

/* ---- onednn.c ---- */
bool rt_onednn(void);                                   /* is oneDNN available? The first call opens it */
bool rt_onednn_version(int v[3]);                       /* false: it is not available, or does not say */
bool rt_onednn_takes(const rt_gemm *g);                 /* can it compute these strides? */
bool rt_onednn_run(const rt_gemm *g, const float *a, const float *b, float *c); /* on this thread, between begin and end; false: out of memory */
int rt_onednn_begin(void);                              /* until end, oneDNN computes on the calling thread alone */
void rt_onednn_end(int before);                         /* before: the result of begin */

/* ---- parts.c, panels.c, loops.c: each way, with a team ---- */
tj_status rt_parts_run(const rt_matmul *m, rt_operands x, const rt_run *r);  /* TILES, LIBRARY */
tj_status rt_panels_run(const rt_matmul *m, rt_operands x, const rt_run *r); /* PANELS */
tj_status rt_loops_run(const rt_matmul *m, rt_operands x, const rt_run *r);  /* LOOPS */

#endif
