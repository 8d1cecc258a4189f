/* loops: products of any dtype and any strides, by plain loops. */
#include "runtime/matmul.h"

typedef struct product { const rt_matmul *m; rt_operands x; } product;

/* Rows [begin, end) of all products, batch after batch. Each element is added in the order of k, so the bits do not depend on
 * how rows are divided. */
#define OWN(name, T, ACC)                                                                                         \
	static void name(void *env, int thread, int64_t begin, int64_t end)                                           \
	{                                                                                                             \
		const product *j = env;                                                                                       \
		const rt_matmul_desc *d = &j->m->d;                                                                       \
		(void)thread;                                                                                             \
		for (int64_t row = begin; row < end; row++) {                                                             \
			int64_t i = row / d->m, r = row % d->m;                                                               \
			const T *a = (const T *)j->x.a + rt_batch_at(d->a_batch, i) + r * d->a_row, *b = (const T *)j->x.b + rt_batch_at(d->b_batch, i); \
			T *c = (T *)j->x.c + rt_batch_at(d->c_batch, i) + r * d->c_row;                                                  \
			for (int64_t n = 0; n < d->n; n++) c[n] = 0;                                                          \
			for (int64_t k = 0; k < d->k; k++) {                                                                  \
				ACC x = (ACC)a[k * d->a_col];                                                                     \
				const T *y = b + k * d->b_row;                                                                    \
				for (int64_t n = 0; n < d->n; n++) c[n] = (T)((ACC)c[n] + x * (ACC)y[n * d->b_col]);              \
			}                                                                                                     \
		}                                                                                                         \
	}
OWN(own_f32, float, float)
OWN(own_f64, double, double)
OWN(own_i64, uint64_t, uint64_t)
OWN(own_i32, uint32_t, uint32_t)
OWN(own_i16, uint16_t, uint32_t)
OWN(own_i8, uint8_t, uint32_t)

typedef void loops(void *env, int thread, int64_t begin, int64_t end);
static loops *loops_of(tj_dtype t)
{
	static loops *const by_size[] = { [1] = own_i8, [2] = own_i16, [4] = own_i32, [8] = own_i64 };
	if (rt_dtype_class(t) == RT_F) return own_f32;
	return rt_dtype_class(t) == RT_D ? own_f64 : by_size[tj_dtype_size(t)];
}

tj_status rt_loops_run(const rt_matmul *m, rt_operands x, const rt_run *r)
{
	rt_team_run(r, m->d.batch * m->d.m, 1, m->ns * (double)m->d.batch, loops_of(m->d.dtype), &(product){ m, x });
	return TJ_OK;
}
