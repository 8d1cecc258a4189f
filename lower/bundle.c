/* SPDX-License-Identifier: MIT */
/* bundle: neighbouring kernels that run in one region of the team.
 *
 *   k3   q = x @ wq             one region: units of k3, then units of k4, then units of k5. The threads meet once,
 *   k4   k = x @ wk      =>     not three times; and who computed a part of q finds x in its cache for k and v.
 *   k5   v = x @ wv
 *
 * requires ordered steps with kernels, and aliases found; sets `bundle` and `follows` of steps
 *
 * A kernel joins the steps before it if it reads nothing that they write, or only rows that it can follow (follow.c). It does not if it
 * writes over an external that one of them reads, can fail, or would make the plan need more memory: temporaries that die within a
 * bundle live until its end. */
#include "lower/low.h"

enum { PIECES = 16, MORE = 8, FEW = 1 << 18 }; /* pieces wanted for each thread; temporaries may grow by an eighth and so many bytes */

typedef struct bundles {
	lo_low *L;
	uint32_t *written, *read; /* by buffer: 1 + the last step that writes it, reads it. For written: the first of those that it follows */
	uint32_t first;           /* step of the bundle that grows */
	uint32_t leader;          /* of its last step: the first of those that it follows, or itself */
	int64_t bytes;            /* of the temporaries that are alive while it runs */
	int64_t *alive, most;     /* the same by step, if all ran alone; the most of them */
	double ns;
} bundles;

static bool may_start(const lo_low *L, const lo_step *s)
{
	return s->kind == LO_STEP_KERNEL && L->group.v[s->group]->device == RT_CPU && !s->built->k.fault_site.n &&
	       s->built->nbuf <= RT_FEW_OPERANDS;
}

/* The step writes over a buffer that a step of the bundle reads; it may do so with what it follows row by row. */
static bool writes_over(const bundles *x, const lo_step *s)
{
	for (uint32_t i = 0; i < s->writes.n; i++) {
		const uint32_t e = x->L->buf.v[s->writes.v[i]].over;
		if (e != LO_NOBUF && x->read[e] > x->first && x->written[e] != x->leader + 1) return true;
	}
	return false;
}

/* Threads share the blocks of rows evenly: the busiest one does at most a tenth more than its share. */
static bool is_even(const lo_step *leader)
{
	lo_blocks w;
	if (!lo_walks_rows(leader->built, &w)) return false;
	const int64_t blocks = (w.rows - 1) / w.block + 1, threads = rt_team_threads(), rounds = (blocks - 1) / threads + 1;
	return 10 * (rounds * threads * w.block - w.rows) <= w.rows;
}

typedef enum joining { APART, BESIDE, FOLLOWS } joining; /* BESIDE: depends on no step of the bundle */

static joining how(const bundles *x, uint32_t i)
{
	const lo_step *s = &x->L->step.v[i], *leader = &x->L->step.v[x->leader];
	joining j = BESIDE;
	if (!may_start(x->L, s) || writes_over(x, s)) return APART;
	for (uint32_t k = 0; k < s->reads.n; k++) {
		const uint32_t w = x->written[s->reads.v[k]];
		if (w <= x->first) continue;
		if (w != x->leader + 1) return APART;
		j = FOLLOWS;
	}
	if (j == BESIDE) return rt_team_threads() > 1 ? BESIDE : APART; /* one thread would gain nothing, and need more memory */
	return is_even(leader) && lo_follows(leader, i - x->leader, s) ? FOLLOWS : APART;
}

static void add(bundles *x, uint32_t i, bool follows)
{
	lo_step *s = &x->L->step.v[i];
	s->follows = follows;
	if (!follows) x->leader = i;
	for (uint32_t k = 0; k < s->reads.n; k++) x->read[s->reads.v[k]] = i + 1;
	for (uint32_t k = 0; k < s->writes.n; k++) {
		const uint32_t e = x->L->buf.v[s->writes.v[k]].over;
		x->written[s->writes.v[k]] = x->leader + 1;
		if (e != LO_NOBUF) x->written[e] = x->leader + 1;
	}
	x->ns += (double)lo_units(&s->built->k, &s->built->s) * s->built->s.unit_ns;
}

/* ---- memory ---- */
/* Bytes of the temporaries that the step is the first to write. */
static int64_t born(const lo_low *L, uint32_t i)
{
	int64_t bytes = 0;
	for (uint32_t k = 0; k < L->step.v[i].writes.n; k++) {
		const lo_buffer *b = &L->buf.v[L->step.v[i].writes.v[k]];
		if (b->place == RT_AT_ARENA && b->device == RT_CPU && b->first == (int)i && b->over == LO_NOBUF) bytes += b->bytes;
	}
	return bytes;
}

/* alive[i]: bytes of temporaries that are alive while step i runs. Returns the most. */
static int64_t count_alive(const lo_low *L, int64_t *alive)
{
	int64_t most = 0;
	for (uint32_t b = 0; b < L->buf.n; b++) {
		const lo_buffer *x = &L->buf.v[b];
		if (x->place != RT_AT_ARENA || x->device != RT_CPU || x->first < 0) continue;
		alive[x->first + (x->over != LO_NOBUF)] += x->bytes; /* at x->first, it is counted as the buffer that it is written over */
		alive[x->last + 1] -= x->bytes;
	}
	for (uint32_t i = 0; i < L->step.n; i++) {
		if (i) alive[i] += alive[i - 1];
		if (alive[i] > most) most = alive[i];
	}
	return most;
}

/* ---- bundles ---- */
/* The number of steps of the bundle that begins at step i. */
static uint32_t grow(bundles *x, uint32_t i)
{
	uint32_t n = 1;
	x->first = i;
	x->bytes = x->alive[i];
	x->ns = 0;
	add(x, i, false);
	for (; i + n < x->L->step.n; n++) {
		const joining j = how(x, i + n);
		x->bytes += born(x->L, i + n);
		if (j == APART || x->bytes > x->most + x->most / MORE + FEW) break;
		add(x, i + n, j == FOLLOWS);
	}
	return n;
}

bool lo_bundle(lo_low *L)
{
	bundles x = { .L = L,
		      .written = lo_mem(L, sizeof *x.written * (L->buf.n + 1)),
		      .read = lo_mem(L, sizeof *x.read * (L->buf.n + 1)),
		      .alive = lo_mem(L, sizeof *x.alive * (L->step.n + 2)) };
	if (L->oom) return false;
	x.most = count_alive(L, x.alive);
	for (uint32_t i = 0, n; i < L->step.n; i += n) {
		n = may_start(L, &L->step.v[i]) ? grow(&x, i) : 1;
		L->step.v[i].bundle = n > 1 && x.ns >= RT_SERIAL_NS ? n : 0;
	}
	return true;
}

/* ---- in the plan ---- */
static double time_of(const rt_step *s, uint32_t n)
{
	double ns = 0;
	for (uint32_t k = 0; k < n; k++) ns += (double)s[k].units * s[k].unit_ns;
	return ns;
}

/* Plain steps have blocks of their grain, steps with followers blocks of rows. */
static void put_blocks(const lo_low *L, rt_step *s, uint32_t i)
{
	lo_blocks all = { 0 }, w;
	s->block_units = s->grain > 0 ? s->grain : 1;
	s->blocks = (s->units + s->block_units - 1) / s->block_units;
	while (i + s->followers + 1 < L->step.n && L->step.v[i + s->followers + 1].follows) s->followers++;
	for (uint32_t k = 0; k <= s->followers; k++) {
		if (!s->followers || !lo_walks_rows(L->step.v[i + k].built, &w)) continue;
		if (k == 0) all = w;
		s[k].blocks = (all.rows - 1) / all.block + 1;
		s[k].block_units = all.block / w.block * w.units;
	}
}

/* Pieces take about equal times; a step has at least one, and no more than it has blocks. */
static void cut(const lo_low *L, rt_step *s, uint32_t i)
{
	const uint32_t n = s->bundle;
	s->bundle_ns = time_of(s, n);
	for (uint32_t k = 0; k < n; k += 1 + s[k].followers) put_blocks(L, &s[k], i + k);
	const double piece = s->bundle_ns / (PIECES * rt_team_threads());
	for (uint32_t k = 0; k < n; k += 1 + s[k].followers) {
		const int64_t wanted = (int64_t)(time_of(&s[k], 1 + s[k].followers) / piece + 0.5);
		s[k].first_piece = s->bundle_pieces;
		s[k].pieces = wanted < s[k].blocks ? wanted : s[k].blocks;
		if (s[k].pieces < 1) s[k].pieces = 1;
		s->bundle_pieces += s[k].pieces;
	}
}

void lo_put_bundles(const lo_low *L, rt_plan *p)
{
	for (uint32_t i = 0; i < p->nstep; i++)
		if ((p->step[i].bundle = L->step.v[i].bundle)) cut(L, &p->step[i], i);
}
