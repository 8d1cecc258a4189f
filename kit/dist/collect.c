/* SPDX-License-Identifier: MIT */
/* Collectives over a transport. Ranks first compare what each asks for. Sums: every rank gets its part of all x, adds these in the order of
 * the ranks, and sends the result to all: 2 (size - 1) / size of x go out from each rank, the least there can be. */
#include "kit/dist/dist.h"

#include <stdio.h>
#include <stdlib.h>

const char *dist_kind_name(uint32_t kind)
{
	static const char *const name[] = { "close", "barrier", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv" };
	return kind < sizeof name / sizeof *name ? name[kind] : "?";
}

/* ---- headers ---- */
static bool alike(const dist_header *a, const dist_header *b)
{
	const bool pair = (a->kind == DIST_SEND && b->kind == DIST_RECV) || (a->kind == DIST_RECV && b->kind == DIST_SEND);
	return (pair || a->kind == b->kind) && a->dtype == b->dtype && a->how == b->how && a->root == b->root && a->bytes == b->bytes;
}

static void asks(int rank, const dist_header *h, char *to, size_t room)
{
	static const char *const how[] = { "", " (product)", " (mean)", " (amax)", " (amin)" };
	snprintf(to, room, "rank %d asks for %s%s of %llu bytes of %s at %.95s", rank, dist_kind_name(h->kind),
	         h->how < 5 ? how[h->how] : "", (unsigned long long)h->bytes,
	         h->kind <= DIST_BARRIER ? "nothing" : tj_dtype_name((tj_dtype)h->dtype), h->site);
}

/* The other rank's header says something else: why. */
static bool differs(const tj_comm *w, const dist_job *j, int peer, const dist_header *h, char *why)
{
	if (*h->poison) return snprintf(why, DIST_WHY, "%.*s", DIST_WHY - 1, h->poison), true;
	if (alike(&j->h, h)) return false;
	char mine[160], its[160];
	asks(w->rank, &j->h, mine, sizeof mine);
	asks(peer, h, its, sizeof its);
	snprintf(why, DIST_WHY, "the ranks differ: %.110s; %.110s", w->rank < peer ? mine : its, w->rank < peer ? its : mine);
	return true;
}

/* Tells all ranks that wait for this one, or will, to give up. Nobody waits for the answer. */
static void poison(tj_comm *w, const char *why)
{
	char ignored[DIST_WHY];
	dist_part *to = calloc((size_t)w->size, sizeof *to);
	dist_header h = { .kind = DIST_CLOSE };
	int n = 0;
	snprintf(h.poison, sizeof h.poison, "%s", why);
	for (int i = 0; to && i < w->size; i++)
		if (i != w->rank) to[n++] = (dist_part){ i, &h, sizeof h };
	if (to) w->transport->exchange(w->state, n, to, 0, NULL, ignored);
	free(to);
}

/* Exchanges headers with all ranks, or with one. */
static bool agree(tj_comm *w, dist_job *j)
{
	const bool pair = j->h.kind == DIST_SEND || j->h.kind == DIST_RECV;
	const int n = pair ? 1 : w->size - 1;
	dist_header *h = calloc((size_t)n + 1, sizeof *h);
	dist_part *to = calloc(2 * (size_t)n + 1, sizeof *to), *from = to + n;
	bool ok = h && to;
	for (int i = 0, peer = 0; ok && i < n; i++, peer++) {
		if (!pair && peer == w->rank) peer++;
		to[i] = (dist_part){ pair ? j->peer : peer, &j->h, sizeof j->h };
		from[i] = (dist_part){ pair ? j->peer : peer, &h[i], sizeof *h };
	}
	if (!ok) snprintf(j->why, DIST_WHY, "out of memory");
	ok = ok && w->transport->exchange(w->state, n, to, n, from, j->why);
	for (int i = 0; ok && i < n; i++) ok = !differs(w, j, from[i].peer, &h[i], j->why);
	free(h);
	free(to);
	return ok;
}

/* ---- data ---- */
typedef struct cut {
	size_t from, n;
} cut; /* elements of a part */
static cut part_of(size_t n, int i, int parts)
{
	const size_t from = n / (size_t)parts * (size_t)i + n % (size_t)parts * (size_t)i / (size_t)parts;
	const size_t to = n / (size_t)parts * ((size_t)i + 1) + n % (size_t)parts * ((size_t)i + 1) / (size_t)parts;
	return (cut){ from, to - from };
}

static bool move(tj_comm *w, dist_job *j, int nsend, const dist_part *send, int nrecv, const dist_part *recv)
{
	for (int i = 0; i < nsend; i++) w->sent += send[i].bytes;
	return w->transport->exchange(w->state, nsend, send, nrecv, recv, j->why);
}

/* Adds part `rank` of x of all ranks, in their order, into `to`. */
static bool reduce_part(tj_comm *w, dist_job *j, unsigned char *to)
{
	const tj_dtype t = (tj_dtype)j->h.dtype;
	const size_t each = tj_dtype_size(t), n = j->in_bytes / each;
	const cut mine = part_of(n, w->rank, w->size);
	unsigned char *all = malloc(mine.n * each * (size_t)w->size + 1);
	dist_part *parts = calloc(2 * (size_t)w->size, sizeof *parts);
	int ns = 0, nr = 0;
	bool ok = all && parts;
	if (!ok) snprintf(j->why, DIST_WHY, "out of memory");
	for (int i = 0; ok && i < w->size; i++) {
		const cut c = part_of(n, i, w->size);
		unsigned char *at = all + (size_t)i * mine.n * each;
		if (i == w->rank)
			memcpy(at, j->in + mine.from * each, mine.n * each);
		else {
			parts[ns++] = (dist_part){ i, j->in + c.from * each, c.n * each };
			parts[w->size + nr++] = (dist_part){ i, at, mine.n * each };
		}
	}
	ok = ok && move(w, j, ns, parts, nr, parts + w->size);
	const bool sums = dist_sums(j->h.how);
	if (ok) memset(to, 0, mine.n * each); /* a sum begins with 0, as one process begins it */
	if (ok && !sums) memcpy(to, all, mine.n * each);
	for (int i = !sums; ok && i < w->size; i++)
		if (!dist_combine(t, j->h.how, to, all + (size_t)i * mine.n * each, mine.n))
			ok = !snprintf(j->why, DIST_WHY, "%s has no such reduction", tj_dtype_name(t));
	if (ok && j->h.how == TJ_REDUCE_MEAN) dist_divide(t, to, mine.n, w->size);
	free(all);
	free(parts);
	return ok;
}

/* The parts of all ranks, of `total` elements of this size, into their places in out; this rank's is there. */
static bool gather_parts(tj_comm *w, dist_job *j, size_t each, size_t total)
{
	dist_part *parts = calloc(2 * (size_t)w->size, sizeof *parts);
	int n = 0;
	if (!parts) return snprintf(j->why, DIST_WHY, "out of memory"), false;
	const cut mine = part_of(total, w->rank, w->size);
	for (int i = 0; i < w->size; i++) {
		const cut c = part_of(total, i, w->size);
		if (i == w->rank) continue;
		parts[n] = (dist_part){ i, j->out + mine.from * each, mine.n * each };
		parts[w->size + n++] = (dist_part){ i, j->out + c.from * each, c.n * each };
	}
	const bool ok = move(w, j, n, parts, n, parts + w->size);
	free(parts);
	return ok;
}

static bool broadcast(tj_comm *w, dist_job *j)
{
	const int root = (int)j->h.root;
	memcpy(j->out, j->in, j->in_bytes);
	if (w->rank != root) return move(w, j, 0, NULL, 1, &(dist_part){ root, j->out, j->out_bytes });
	dist_part *parts = calloc((size_t)w->size, sizeof *parts);
	int n = 0;
	if (!parts) return snprintf(j->why, DIST_WHY, "out of memory"), false;
	for (int i = 0; i < w->size; i++)
		if (i != root) parts[n++] = (dist_part){ i, j->in, j->in_bytes };
	const bool ok = move(w, j, n, parts, 0, NULL);
	free(parts);
	return ok;
}

static bool data(tj_comm *w, dist_job *j)
{
	const size_t each = j->h.kind > DIST_BARRIER ? tj_dtype_size((tj_dtype)j->h.dtype) : 1;
	switch (j->h.kind) {
	case DIST_ALL_REDUCE: {
		const size_t n = j->in_bytes / each;
		return reduce_part(w, j, j->out + part_of(n, w->rank, w->size).from * each) && gather_parts(w, j, each, n);
	}
	case DIST_REDUCE_SCATTER: return reduce_part(w, j, j->out);
	case DIST_ALL_GATHER:
		memcpy(j->out + (size_t)w->rank * j->in_bytes, j->in, j->in_bytes);
		return !j->in_bytes || gather_parts(w, j, j->in_bytes, (size_t)w->size);
	case DIST_BROADCAST: return broadcast(w, j);
	case DIST_SEND: return move(w, j, 1, &(dist_part){ j->peer, j->in, j->in_bytes }, 0, NULL);
	case DIST_RECV: return move(w, j, 0, NULL, 1, &(dist_part){ j->peer, j->out, j->out_bytes });
	default: return true;
	}
}

bool dist_run(tj_comm *w, dist_job *j)
{
	j->h.number = w->number++;
	if (*w->why) return snprintf(j->why, DIST_WHY, "%s", w->why), false;
	if (agree(w, j) && data(w, j)) return true;
	poison(w, j->why);
	return false;
}
