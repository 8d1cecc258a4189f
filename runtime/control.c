/* SPDX-License-Identifier: MIT */
/* control: runs control flow: cond runs one of two plans, while runs a plan as long as another one gives true, scan runs a plan
 * for each slice.
 *
 * A carry alternates between the result's buffer and a second one, so a turn allocates nothing and never overwrites its input.
 * Slices of xs are pointers into xs; slices of ys are written directly into the result. Those whose turns do not run are cleared at the
 * end, unless nothing reads them: so the cost of a loop that ends early does not depend on its limit. */
#include "runtime/bytes.h"

typedef struct run {
	const rt_flow *f;
	rt_run *r;
	const void **ext;        /* by slot */
	void *const *result;
	void **out;              /* destinations of the next turn */
	void *const *second;     /* second buffer of each carry */
	uint8_t *truth;          /* result of the condition */
	char *arena[RT_DEVICES]; /* arenas of the regions, by device */
} run;

tj_status rt_flow_limit(int64_t turns, const char *site, rt_err *err)
{
	tj_status s = rt_fail(err, TJ_ERR_LIMIT, "while", "the condition still holds after %lld turns", (long long)turns);
	rt_hint(err, "raise .max_turns, or let the body make the condition false");
	if (err && !err->site) err->site = site;
	return s;
}

static tj_status run_region(const run *w, int k, void *const *out)
{
	rt_run r = *w->r;
	r.ext = w->ext;
	r.out = out;
	r.arena = w->arena;
	const rt_exec *x = w->f->region[k];
	return x->run(x, &r);
}

/* ---- operands ---- */
static tj_status bind(run *w, void *const *operand, void *const *copies)
{
	tj_status st = TJ_OK;
	for (uint32_t k = 0; k < w->f->nslot; k++) {
		w->ext[k] = operand[k];
		if (!w->f->pack[k]) continue;
		const rt_packed *p = w->f->pack[k];
		const rt_elements e = { p->device, p->rank, p->size, p->dim, p->stride, operand[k] };
		if (st == TJ_OK) st = rt_bytes_copy(w->r->pool, &e, p->device, *copies, w->r->err);
		w->ext[k] = *copies++;
	}
	return st;
}

/* ---- carries ---- */
static bool stays(const run *w, int k, uint32_t i) { return w->f->region[k]->out[i].same_ext == (int)i; }

static void aim(run *w, int k)
{
	for (uint32_t i = 0; i < w->f->ncarry; i++)
		w->out[i] = stays(w, k, i) || w->ext[i] == w->result[i] ? w->second[i] : w->result[i];
}

static void move_on(run *w, int k)
{
	for (uint32_t i = 0; i < w->f->ncarry; i++)
		if (!stays(w, k, i)) w->ext[i] = w->out[i];
}

static tj_status deliver(run *w)
{
	tj_status st = TJ_OK;
	for (uint32_t i = 0; i < w->f->ncarry && st == TJ_OK; i++) {
		const rt_elements e = { w->f->device[i], 1, 1, &w->f->bytes[i], NULL, w->ext[i] };
		if (w->ext[i] != w->result[i]) st = rt_bytes_copy(w->r->pool, &e, w->f->device[i], w->result[i], w->r->err);
	}
	return st;
}

/* ---- slices of ys ---- */
static void aim_slices(run *w, int64_t t)
{
	for (uint32_t i = w->f->ncarry; i < w->f->nresult; i++) w->out[i] = (char *)w->result[i] + t * w->f->bytes[i];
}

/* Turns up to this one have run. */
static tj_status clear_rest(run *w, int64_t turns)
{
	const rt_flow *f = w->f;
	tj_status st = TJ_OK;
	for (uint32_t i = f->ncarry; i < f->nresult && st == TJ_OK && turns < f->turns; i++)
		if (f->clear[i])
			st = rt_bytes_zero(w->r->pool, f->device[i], (char *)w->result[i] + turns * f->bytes[i],
			                   (size_t)((f->turns - turns) * f->bytes[i]), w->r->err);
	return st;
}

/* ---- while, scan, cond ---- */
static tj_status run_while(run *w)
{
	int64_t turn = 0;
	void *truth = w->truth;
	for (;; turn++) {
		tj_status st = run_region(w, 0, &truth);
		if (st != TJ_OK) return st;
		if (!*w->truth) break;
		if (w->f->turns && turn == w->f->turns) return rt_flow_limit(turn, w->f->site, w->r->err);
		aim(w, 1);
		aim_slices(w, turn);
		if ((st = run_region(w, 1, w->out)) != TJ_OK) return st;
		move_on(w, 1);
	}
	const tj_status st = clear_rest(w, turn);
	return st == TJ_OK ? deliver(w) : st;
}

static tj_status run_scan(run *w)
{
	const rt_flow *f = w->f;
	const int64_t *slice = f->bytes + f->nresult;
	const void **xs = w->ext + f->ncarry;
	const int64_t turns = f->counted ? rt_flow_limited(*(const int64_t *)xs[f->nxs], f->turns) : f->turns, last = turns - 1;
	for (uint32_t i = 0; i < f->nxs && f->reverse && turns; i++) xs[i] = (const char *)xs[i] + last * slice[i];
	for (int64_t turn = 0; turn < turns; turn++) {
		int64_t t = f->reverse ? last - turn : turn;
		aim(w, 0);
		aim_slices(w, t);
		tj_status st = run_region(w, 0, w->out);
		if (st != TJ_OK) return st;
		move_on(w, 0);
		for (uint32_t i = 0; i < f->nxs; i++) xs[i] = (const char *)xs[i] + (f->reverse ? -slice[i] : slice[i]);
	}
	const tj_status st = clear_rest(w, turns);
	return st == TJ_OK ? deliver(w) : st;
}

tj_status rt_flow_run(const rt_flow *f, void *const *buf, rt_run *r)
{
	const rt_flow_bufs at = rt_flow_order((rt_flow_kind)f->kind, f->nslot, f->nresult, f->ncarry);
	run w = { .f = f,
		  .r = r,
		  .result = buf + at.result,
		  .second = buf + at.second,
		  .truth = buf[at.truth],
		  .arena = { buf[at.arena] },
		  .ext = buf[at.pointers] };
	w.out = (void **)buf[at.pointers] + f->nslot;
	for (uint32_t i = 0; i < f->narena; i++) w.arena[f->arena_on[i]] = buf[at.copies + f->npack + i];
	tj_status st = bind(&w, buf + at.operand, buf + at.copies);
	if (st != TJ_OK) return st;
	switch ((rt_flow_kind)f->kind) {
	case RT_COND: return run_region(&w, !*(const uint8_t *)buf[0], w.result);
	case RT_WHILE: return run_while(&w);
	case RT_SCAN: return run_scan(&w);
	}
	return TJ_OK;
}
