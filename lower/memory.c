/* memory: where in the arena of its device each temporary lies.
 *
 * requires ordered steps; sets offset of RT_AT_ARENA buffers, first and last of all
 *
 * Walks the steps: what a step writes gets the smallest free block that is large enough, what it reads last becomes
 * free after it. Two buffers that are alive in one step never overlap. All offsets are multiples of 64. */
#include "lower/low.h"

typedef struct hole { int64_t at, bytes; } hole;
typedef struct space { rt_vec(hole) hole; int64_t end; } space; /* holes by rising offset, never adjacent */

static void ranges(lo_low *L)
{
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		for (uint32_t k = 0; k < s->writes.n; k++) {
			lo_buffer *b = &L->buf.v[s->writes.v[k]];
			if (b->first < 0) b->first = (int)i;
			b->last = (int)i;
		}
		for (uint32_t k = 0; k < s->reads.n; k++) L->buf.v[s->reads.v[k]].last = (int)i;
	}
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

bool lo_layout(lo_low *L)
{
	space on[RT_DEVICES] = { 0 };
	bool ok = true;
	ranges(L);
	for (uint32_t i = 0; ok && i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		for (uint32_t k = 0; k < s->writes.n; k++) {
			lo_buffer *b = &L->buf.v[s->writes.v[k]];
			if (b->place == RT_AT_ARENA && b->first == (int)i) b->offset = take(&on[b->device], room(b));
		}
		for (int w = 0; w < 2; w++) {
			uint32_t n = w ? s->writes.n : s->reads.n;
			for (uint32_t k = 0; ok && k < n; k++) {
				lo_buffer *b = &L->buf.v[w ? s->writes.v[k] : s->reads.v[k]];
				if (b->place != RT_AT_ARENA || b->last != (int)i || b->first < 0 || L->o->off & LO_OFF(REUSE)) continue;
				ok = give(&on[b->device], b->offset, room(b));
				b->last = -2 - b->last; /* marks the buffer as freed, so that it is freed only once */
			}
		}
	}
	for (uint32_t i = 0; i < L->buf.n; i++)
		if (L->buf.v[i].last < -1) L->buf.v[i].last = -2 - L->buf.v[i].last;
	for (int d = 0; d < RT_DEVICES; d++) {
		L->arena_bytes[d] = on[d].end;
		rt_vec_free(&on[d].hole);
	}
	if (!ok) L->oom = true;
	return ok;
}
