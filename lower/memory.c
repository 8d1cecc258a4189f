/* SPDX-License-Identifier: MIT */
/* memory: where in the arena of its device each temporary lies.
 *
 * requires ordered steps, and their bundles; sets offset of RT_AT_ARENA buffers, first and last of all, and what explanations say about
 * memory
 *
 * Walks the steps: what a step writes gets the smallest free block that is large enough, what it reads last becomes
 * free after it. The steps of a bundle run at the same time, and are treated as one. Two buffers that are alive in one step never
 * overlap. All offsets are multiples of 64. */
#include "lower/low.h"

typedef struct hole { int64_t at, bytes; } hole;
typedef struct space { rt_vec(hole) hole; int64_t end; } space; /* holes by rising offset, never adjacent */

/* The number of steps that run at the same time, from step i on. */
static uint32_t together(const lo_low *L, uint32_t i) { return L->step.v[i].bundle ? L->step.v[i].bundle : 1; }

static void live_at(lo_low *L, const lo_step *s, int time)
{
	for (uint32_t k = 0; k < s->writes.n; k++) {
		lo_buffer *b = &L->buf.v[s->writes.v[k]];
		if (b->first < 0) b->first = time;
		b->last = time;
	}
	for (uint32_t k = 0; k < s->reads.n; k++) L->buf.v[s->reads.v[k]].last = time;
}

void lo_live_ranges(lo_low *L)
{
	for (uint32_t b = 0; b < L->buf.n; b++) L->buf.v[b].first = L->buf.v[b].last = -1;
	for (uint32_t i = 0; i < L->step.n; i += together(L, i))
		for (uint32_t k = 0; k < together(L, i); k++) live_at(L, &L->step.v[i + k], (int)i);
}

static int64_t take(space *p, int64_t bytes)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < p->hole.n; i++)
		if (p->hole.v[i].bytes >= bytes && (best == UINT32_MAX || p->hole.v[i].bytes < p->hole.v[best].bytes))
			best = i;
	if (best == UINT32_MAX) {
		int64_t at = p->end;
		if (p->hole.n && p->hole.v[p->hole.n - 1].at + p->hole.v[p->hole.n - 1].bytes == p->end)
			at = p->hole.v[--p->hole.n].at;
		p->end = at + bytes;
		return at;
	}
	hole *h = &p->hole.v[best];
	int64_t at = h->at;
	h->at += bytes;
	h->bytes -= bytes;
	if (!h->bytes) memmove(h, h + 1, sizeof *h * (--p->hole.n - best));
	return at;
}

static bool give(space *p, int64_t at, int64_t bytes)
{
	uint32_t i = 0;
	while (i < p->hole.n && p->hole.v[i].at < at) i++;
	bool left = i > 0 && p->hole.v[i - 1].at + p->hole.v[i - 1].bytes == at;
	bool right = i < p->hole.n && p->hole.v[i].at == at + bytes;
	if (left && right) {
		p->hole.v[i - 1].bytes += bytes + p->hole.v[i].bytes;
		memmove(&p->hole.v[i], &p->hole.v[i + 1], sizeof(hole) * (--p->hole.n - i));
	} else if (left) {
		p->hole.v[i - 1].bytes += bytes;
	} else if (right) {
		p->hole.v[i].at = at;
		p->hole.v[i].bytes += bytes;
	} else {
		if (!rt_reserve(&p->hole, 1)) return false;
		memmove(&p->hole.v[i + 1], &p->hole.v[i], sizeof(hole) * (p->hole.n++ - i));
		p->hole.v[i] = (hole){ at, bytes };
	}
	return true;
}

static int64_t room(const lo_buffer *b)
{
	return b->bytes ? (b->bytes + RT_LINE - 1) / RT_LINE * RT_LINE : RT_LINE;
}

static void take_all(lo_low *L, space *on, const lo_step *s, int time)
{
	for (uint32_t k = 0; k < s->writes.n; k++) {
		lo_buffer *b = &L->buf.v[s->writes.v[k]];
		if (b->place != RT_AT_ARENA || b->first != time) continue;
		if (b->over != LO_NOBUF) {
			b->offset = L->buf.v[b->over].offset;
			L->buf.v[b->over].last = -2 - time; /* freed with b */
		} else b->offset = take(&on[b->device], room(b));
		b->first = -2 - time; /* marks the buffer as placed: another step of the bundle may write it, too */
	}
}

static bool give_all(lo_low *L, space *on, const lo_step *s, int time)
{
	bool ok = true;
	for (int w = 0; w < 2; w++) {
		const uint32_t n = w ? s->writes.n : s->reads.n;
		for (uint32_t k = 0; ok && k < n; k++) {
			lo_buffer *b = &L->buf.v[w ? s->writes.v[k] : s->reads.v[k]];
			if (b->place != RT_AT_ARENA || b->last != time || b->first == -1 || L->o->off & LO_OFF(REUSE)) continue;
			ok = give(&on[b->device], b->offset, room(b));
			b->last = -2 - time; /* marks the buffer as freed, so that it is freed only once */
		}
	}
	return ok;
}

/* Nothing is read before it is written: else the plan is wrong, and a kernel would read memory that nobody has filled. */
static bool is_written(lo_low *L, const lo_step *s)
{
	for (uint32_t k = 0; k < s->reads.n; k++) {
		const lo_buffer *b = &L->buf.v[s->reads.v[k]];
		if (b->place != RT_AT_ARENA || !b->bytes || b->first != -1) continue;
		rt_fail(L->err, TJ_ERR_COMPILE, "lower", "a step reads b%u before any step has written it", s->reads.v[k]);
		return false;
	}
	return true;
}

/* ---- the fullest step ---- */
/* The last step at which the buffer takes memory of its own: not that of a kernel that writes its result over it. */
static int last_alone(const lo_low *L, const int *taken, uint32_t b)
{
	return taken[b] ? taken[b] - 2 : L->buf.v[b].last;
}

/* taken: by buffer, 1 + the step that writes another one over it; 0: none. */
static void find_fullest(lo_low *L)
{
	int64_t *change = lo_mem(L, sizeof *change * (L->step.n + 2)), now = 0, most = 0;
	int *taken = lo_mem(L, sizeof *taken * (L->buf.n + 1));
	if (L->oom) return;
	for (uint32_t i = 0; i < L->buf.n; i++)
		if (L->buf.v[i].place == RT_AT_ARENA && L->buf.v[i].over != LO_NOBUF) taken[L->buf.v[i].over] = 1 + L->buf.v[i].first;
	for (uint32_t i = 0; i < L->buf.n; i++) {
		const lo_buffer *b = &L->buf.v[i];
		if (b->place != RT_AT_ARENA || b->first < 0) continue;
		change[b->first] += b->bytes;
		change[last_alone(L, taken, i) + 1] -= b->bytes;
	}
	for (uint32_t i = 0; i < L->step.n; i++) {
		now += change[i];
		if (now <= most) continue;
		most = now;
		L->full_step = i;
	}
	L->full.bytes = (size_t)most;
	for (uint32_t i = 0; i < L->buf.n; i++) {
		const lo_buffer *b = &L->buf.v[i];
		if (b->place != RT_AT_ARENA || b->first < 0 || b->first >= (int)L->full_step || last_alone(L, taken, i) <= (int)L->full_step) continue;
		L->full.kept++;
		L->full.kept_bytes += (size_t)b->bytes;
	}
}

bool lo_layout(lo_low *L)
{
	space on[RT_DEVICES] = { 0 };
	bool ok = true;
	lo_live_ranges(L);
	for (uint32_t i = 0, n; ok && i < L->step.n; i += n) {
		n = together(L, i);
		for (uint32_t k = 0; k < n; k++) take_all(L, on, &L->step.v[i + k], (int)i);
		for (uint32_t k = 0; ok && k < n; k++) ok = is_written(L, &L->step.v[i + k]);
		for (uint32_t k = 0; ok && k < n; k++) ok = give_all(L, on, &L->step.v[i + k], (int)i);
	}
	for (uint32_t i = 0; i < L->buf.n; i++) {
		lo_buffer *b = &L->buf.v[i];
		if (b->first < -1) b->first = -2 - b->first;
		if (b->last < -1) b->last = -2 - b->last;
	}
	for (int d = 0; d < RT_DEVICES; d++) {
		L->arena_bytes[d] = on[d].end;
		rt_vec_free(&on[d].hole);
	}
	if (ok) find_fullest(L);
	return ok && !L->oom;
}
