/* matmul: chooses the way in which a product is computed. f32 with few rows or a small B uses our tiles (gemm.c), other f32 uses
 * oneDNN; without oneDNN, tiles compute all that they can. f16 and bf16 are computed by panels of f32. f64 uses tiles and integers
 * use loops; both add in the order of k, as the evaluator does. The policy (policy.h) has the limits between tiles and oneDNN.
 *
 * The result is the same for one shape, one policy and one team size: these alone decide how a product is cut into parts, and it
 * does not matter which thread computes a part. */
#include "runtime/matmul.h"
#include "runtime/settings.h"

#include <math.h>

static rt_way choose(const rt_gemm *g, tj_dtype t, uint32_t settings)
{
	const bool library = !(settings & RT_PRODUCTS_OWN) && rt_onednn() && rt_onednn_takes(g), wanted = settings & RT_PRODUCTS_LIBRARY;
	if (rt_dtype_class(t) == RT_D && rt_gemm64_takes(g)) return RT_TILES;
	if (rt_dtype_class(t) != RT_F) return RT_LOOPS;
	if (rt_is_narrow(t)) return RT_PANELS;
	if (rt_gemm_wants(g) && !(wanted && library)) return RT_TILES;
	if (library) return RT_LIBRARY;
	return rt_gemm_takes(g) ? RT_TILES : RT_LOOPS;
}

/* Number of different operands in a batch with these offsets; equal offsets are adjacent. */
static int64_t distinct(const int64_t *offset, int64_t batch)
{
	int64_t n = 1;
	for (int64_t i = 1; offset && i < batch; i++) n += offset[i] != offset[i - 1];
	return n;
}

/* Estimated ns of a product on one thread. */
static double estimate(const rt_matmul_desc *d, bool loops)
{
	const rt_policy *p = d->policy;
	double size = (double)d->n * (double)d->k, flops = 2 * (double)d->m * size, bytes = (double)tj_dtype_size(d->dtype) * size;
	bool in_memory = bytes * (double)distinct(d->b_batch, d->batch) > RT_THIRD_CACHE;
	return fmax(flops / (loops ? p->gflops_loops : d->dtype == TJ_F64 ? p->gflops64 : p->gflops), bytes / (in_memory ? p->far_gbytes : p->near_gbytes));
}

rt_matmul *rt_matmul_new(const rt_matmul_desc *d, rt_err *err)
{
	int64_t nb = d->batch > 1 || d->a_batch ? d->batch : 0;
	rt_matmul *m = rt_alloc(sizeof *m + 3 * (size_t)nb * sizeof(int64_t));
	if (!m) {
		rt_fail(err, TJ_ERR_NOMEM, "matmul", "out of memory");
		return NULL;
	}
	m->d = *d;
	if (!m->d.policy) m->d.policy = rt_policy_here();
	m->gemm = (rt_gemm){ d->m, d->n, d->k, d->a_row, d->a_col, d->b_row, d->c_row, m->d.policy, d->b_col, false };
	m->way = choose(&m->gemm, d->dtype, d->settings);
	if (m->way == RT_PANELS) m->panels = rt_panels_of(d);
	m->ns = estimate(&m->d, m->way == RT_LOOPS);
	const int64_t *from[3] = { d->a_batch, d->b_batch, d->c_batch };
	const int64_t **to[3] = { &m->d.a_batch, &m->d.b_batch, &m->d.c_batch };
	for (int k = 0; k < 3; k++) {
		if (!nb) { *to[k] = NULL; continue; }
		for (int64_t i = 0; i < nb; i++) m->offsets[k * nb + i] = rt_batch_at(from[k], i);
		*to[k] = m->offsets + k * nb;
	}
	return m;
}

void rt_matmul_free(rt_matmul *m)
{
	rt_free(m);
}

const char *rt_matmul_name(const rt_matmul *m)
{
	if (m->way == RT_LIBRARY) return "dnnl_sgemm";
	if (m->way == RT_TILES) return "own tiles";
	if (m->way == RT_PANELS) return "panels of f32";
	return m->d.dtype == TJ_F32 && !rt_onednn() ? "own loops (oneDNN is missing)" : "own loops";
}

const char *rt_matmul_why(const rt_matmul *m, const char **hint)
{
	*hint = "";
	if (m->d.dtype == TJ_F64 && m->way == RT_TILES) return "tiles of f64 add in the order of k, as the evaluator does";
	if (rt_dtype_class(m->d.dtype) != RT_F) {
		*hint = "cast the operands to f32 if that is exact enough";
		return "oneDNN computes f32, own tiles f32 and f64 with AVX2; other products are loops that add in the order of k, as the evaluator does";
	}
	if (m->way == RT_PANELS) {
		*hint = "if the operands are used often, keep a copy of them in f32: that saves the conversion";
		return "operands of f16 and bf16 are converted to f32 panel by panel, oneDNN or own tiles compute the product, and each element is rounded once";
	}
	if (m->way != RT_PANELS && m->d.settings & (m->way == RT_LIBRARY ? RT_PRODUCTS_LIBRARY : RT_PRODUCTS_OWN)) return "the context's settings prefer it";
	if (m->way == RT_LIBRARY) return "the right operand is large and the left one has many rows, so the packing of oneDNN pays; own tiles compute products with few rows or a small right operand";
	if (m->way == RT_TILES && rt_gemm_wants(&m->gemm)) return "few rows, or a right operand of at most 1 MiB: the packing of oneDNN would not pay";
	*hint = rt_onednn() ? "pass row-major operands or transposes of them" : "install oneDNN (libdnnl), and leave TJ_ONEDNN unset";
	if (m->way == RT_TILES) return rt_onednn() ? "oneDNN does not support these strides" : "oneDNN is missing or switched off";
	return rt_onednn() ? "neither oneDNN nor own tiles support these strides" : "oneDNN is missing or switched off, and own tiles do not support these strides on this CPU";
}

tj_status rt_matmul_run(const rt_matmul *m, const void *a, const void *b, void *c, rt_run *r)
{
	const rt_operands x = { a, b, c };
	switch (m->way) {
	case RT_LOOPS: return rt_loops_run(m, x, r);
	case RT_PANELS: return rt_panels_run(m, x, r);
	default: return rt_parts_run(m, x, r);
	}
}
