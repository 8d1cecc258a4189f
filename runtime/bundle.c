/* SPDX-License-Identifier: MIT */
/* bundle: kernels that run in one region. Its pieces are blocks of the first kernel and of those that follow it, then blocks of the next
 * one, and so on. */
#include "runtime/exec.h"
#include "runtime/ring.h"

typedef struct bundle {
	const rt_step *step;
	const void *const *const *table;
	const rt_run *run;
	char *scratch;           /* of thread 0 */
	size_t scratch_step;
	int64_t *spent;          /* ns of all threads, by step; used by run_pieces_measured() */
} bundle;

static void run_units(const bundle *x, const rt_step *s, int thread, int64_t begin, int64_t end)
{
	void *buf[RT_FEW_OPERANDS];
	uint64_t few[RT_FEW_NUMBERS];
	int32_t fault = 0; /* none of these kernels has one */
	rt_operands(s, x->table, buf);
	const rt_kargs a = { buf, rt_numbers(s, x->run->num, few), &fault,
		             x->scratch ? x->scratch + (size_t)thread * x->scratch_step : NULL, s->size };
	((rt_kernel_fn *)s->fn)(&a, begin, end);
}

/* Blocks of step s, and with each one those of its followers. */
static inline __attribute__((always_inline)) void run_blocks(const bundle *x, const rt_step *s, int thread, int64_t begin, int64_t end,
                                                               bool measure)
{
	const int64_t turn = s->followers ? 1 : end - begin;
	for (int64_t b = begin; b < end; b += turn)
		for (const rt_step *i = s; i <= s + s->followers; i++) {
			const int64_t last = (b + turn) * i->block_units, start = measure ? rt_now_ns() : 0;
			run_units(x, i, thread, b * i->block_units, last < i->units ? last : i->units);
			if (measure) __atomic_add_fetch(&x->spent[i - x->step], rt_now_ns() - start, __ATOMIC_RELAXED);
		}
}

static inline __attribute__((always_inline)) void run_range(const bundle *x, int thread, int64_t begin, int64_t end, bool measure)
{
	for (const rt_step *s = x->step, *last = s + s->bundle; s < last; s += 1 + s->followers) {
		const int64_t from = begin - s->first_piece, to = end - s->first_piece;
		if (from >= s->pieces) continue;
		if (to <= 0) break;
		run_blocks(x, s, thread, from > 0 ? from * s->blocks / s->pieces : 0, to < s->pieces ? to * s->blocks / s->pieces : s->blocks,
		           measure);
	}
}

static void run_pieces(void *env, int thread, int64_t begin, int64_t end) { run_range(env, thread, begin, end, false); }
static void run_pieces_measured(void *env, int thread, int64_t begin, int64_t end) { run_range(env, thread, begin, end, true); }

/* Scratch memory of the thread that needs most. */
static size_t scratch_of(const rt_step *s)
{
	size_t most = 0;
	for (const rt_step *last = s + s->bundle; s < last; s++)
		if (s->scratch > most) most = s->scratch;
	return (most + 63) / 64 * 64;
}

tj_status rt_bundle_run(const rt_step *s, const void *const *const *table, rt_run *r)
{
	bundle x = { .step = s, .table = table, .run = r, .scratch_step = scratch_of(s) };
	if (x.scratch_step && !(x.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), x.scratch_step)))
		return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory for scratch rows");
	rt_team_run(r, s->bundle_pieces, 1, s->bundle_ns, run_pieces, &x);
	return TJ_OK;
}

tj_status rt_bundle_measure(const rt_step *s, const void *const *const *table, rt_run *r, int64_t *spent)
{
	bundle x = { .step = s, .table = table, .run = r, .scratch_step = scratch_of(s), .spent = spent };
	if (x.scratch_step && !(x.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), x.scratch_step)))
		return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory for scratch rows");
	rt_team_run(r, s->bundle_pieces, 1, s->bundle_ns, run_pieces_measured, &x);
	return TJ_OK;
}
