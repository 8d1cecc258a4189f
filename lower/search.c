/* SPDX-License-Identifier: MIT */
/* searchsorted: bisections of ours. Operands are row-major: sorted [outer or 1, n], values [outer, m]. */
#include "lower/library.h"

typedef struct walk {
	const char *sorted, *values;
	int64_t *y;
	int64_t n, m, own;         /* own: elements from one row of sorted to the next; 0: all values have the same one */
	tj_dtype dtype;
	bool right;
} walk;

/* NaN counts as largest. */
#define BEFORE(a, b) ((a) < (b) || ((a) == (a) && (b) != (b)))
#define SEARCH(name, T, VALUE)                                                                                \
	static void name(const walk *w, int64_t begin, int64_t end)                                               \
	{                                                                                                         \
		for (int64_t i = begin; i < end; i++) {                                                               \
			const T *s = (const T *)(const void *)w->sorted + i / w->m * w->own;                              \
			const T x = ((const T *)(const void *)w->values)[i];                                              \
			int64_t lo = 0, hi = w->n;                                                                        \
			while (lo < hi) {                                                                                 \
				const int64_t mid = lo + (hi - lo) / 2;                                                       \
				const bool up = w->right ? !BEFORE(VALUE(x), VALUE(s[mid])) : BEFORE(VALUE(s[mid]), VALUE(x)); \
				if (up) lo = mid + 1;                                                                         \
				else hi = mid;                                                                                \
			}                                                                                                 \
			w->y[i] = lo;                                                                                     \
		}                                                                                                     \
	}
#define ITSELF(x) x
#define TRUTH(x) (x != 0)
SEARCH(search_bool, uint8_t, TRUTH)
SEARCH(search_u8, uint8_t, ITSELF)
SEARCH(search_i8, int8_t, ITSELF)
SEARCH(search_i16, int16_t, ITSELF)
SEARCH(search_i32, int32_t, ITSELF)
SEARCH(search_i64, int64_t, ITSELF)
SEARCH(search_f16, tj_f16, tj_from_f16)
SEARCH(search_bf16, tj_bf16, tj_from_bf16)
SEARCH(search_f32, float, ITSELF)
SEARCH(search_f64, double, ITSELF)

static void run_values(void *env, int thread, int64_t begin, int64_t end)
{
	static void (*const search[])(const walk *w, int64_t begin, int64_t end) = {
		[TJ_BOOL] = search_bool, [TJ_U8] = search_u8, [TJ_I8] = search_i8, [TJ_I16] = search_i16, [TJ_I32] = search_i32, [TJ_I64] = search_i64,
		[TJ_F16] = search_f16, [TJ_BF16] = search_bf16, [TJ_F32] = search_f32, [TJ_F64] = search_f64
	};
	const walk *w = env;
	(void)thread;
	search[w->dtype](w, begin, end);
}

static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = "searchsorted";
	return lo_put_operands(L, p, s, t);
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	const ir_meta *s = &e->src[0].meta, *v = &e->src[1].meta;
	walk w = { .sorted = buf[0],
		   .values = buf[1],
		   .y = buf[2],
		   .n = s->dim[s->rank - 1],
		   .m = v->rank ? v->dim[v->rank - 1] : 1,
		   .dtype = (tj_dtype)v->dtype,
		   .right = e->attr[0] != 0 };
	int64_t all = 1;
	for (int i = 0; i < v->rank; i++) all *= v->dim[i];
	w.own = s->rank > 1 ? w.n : 0;
	double ns = 2; /* of a value */
	for (int64_t n = w.n; n > 1; n /= 2) ns += 3;
	if (all) rt_team_run(r, all, 256, ns * (double)all, run_values, &w);
	return TJ_OK;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "each step of a search needs the one before it";
}

const lo_routine lo_searchsorted = { .op = IR_searchsorted, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why };
