/* SPDX-License-Identifier: MIT */
/* Hostile files: random changes of a good one. KIT_TURNS says how many; under the address sanitizer run it with
 * ASAN_OPTIONS=max_allocation_size_mb=64, without it the address space is limited: memory is taken only for what is there. */
#ifndef TJ_TEST_HOSTILE_H
#define TJ_TEST_HOSTILE_H

#include "test/kit.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HOSTILE_MOST = 1 << 14 };
typedef struct hostile {
	uint64_t r;
	int fd;
	char path[40]; /* the name of a file in memory */
	unsigned char v[HOSTILE_MOST];
	size_t n;
	struct rlimit was;
} hostile;

static inline uint64_t hostile_random(hostile *h)
{
	h->r ^= h->r << 13, h->r ^= h->r >> 7, h->r ^= h->r << 17;
	return h->r * 2685821657736338717u >> 16;
}

static inline long hostile_turns(long usual)
{
	const char *turns = getenv("KIT_TURNS");
	return turns ? atol(turns) : usual;
}

static inline hostile *hostile_begin(uint64_t seed)
{
	enum { MORE = 192 << 20 }; /* bytes: what the library itself may still take */
	hostile *h = calloc(1, sizeof *h);
	assert_non_null(h);
	h->r = seed * 2654435761u + 88172645463325252u;
	h->fd = memfd_create("hostile", 0);
	assert_true(h->fd >= 0);
	snprintf(h->path, sizeof h->path, "/proc/self/fd/%d", h->fd);
	getrlimit(RLIMIT_AS, &h->was);
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	if (!SANITIZED && f && fscanf(f, "%lu", &pages) == 1)
		setrlimit(RLIMIT_AS, &(struct rlimit){ pages * 4096 + MORE, h->was.rlim_max });
	if (f) fclose(f);
	return h;
}

static inline void hostile_end(hostile *h)
{
	setrlimit(RLIMIT_AS, &h->was);
	close(h->fd);
	free(h);
}

static inline void hostile_put(hostile *h)
{
	assert_int_equal(ftruncate(h->fd, 0), 0);
	assert_int_equal(pwrite(h->fd, h->v, h->n, 0), (ssize_t)h->n);
}

/* Moves bytes: a piece is repeated, or taken out. */
static inline void hostile_move(hostile *h, bool repeat)
{
	if (h->n < 2) return;
	const size_t at = hostile_random(h) % h->n, most = h->n - at, n = 1 + hostile_random(h) % (most < 40 ? most : 40);
	if (repeat && h->n + n <= HOSTILE_MOST) {
		memmove(h->v + at + n, h->v + at, h->n - at);
		h->n += n;
	} else if (!repeat) {
		memmove(h->v + at, h->v + at + n, h->n - at - n);
		h->n -= n;
	}
}

static inline void hostile_change(hostile *h, const char *likely, size_t within)
{
	static const char *const numbers[] = { "4294967296", "9223372036854775807", "-1", "99999999999999999999", "0", "18446744073709551615" };
	const size_t most = within && within < h->n ? within : h->n, at = most ? hostile_random(h) % most : 0;
	const uint64_t r = hostile_random(h);
	if (!h->n) return;
	switch (hostile_random(h) % 10) {
	case 0: h->n = r % h->n; break;
	case 1: h->v[at] ^= (unsigned char)(1 << r % 8); break;
	case 2: h->v[at] = (unsigned char)r; break;
	case 3: case 4: h->v[at] = (unsigned char)likely[r % strlen(likely)]; break;
	case 5: for (size_t i = at; i < h->n && i < at + (r & 1 ? 4 : 8); i++) h->v[i] = r & 2 ? 255 : (unsigned char)(r >> 8 * (i - at)); break;
	case 6: hostile_move(h, true); break;
	case 7: hostile_move(h, false); break;
	case 8: for (size_t i = at; i < h->n && i < at + 2; i++) h->v[i] = 0; break;
	default: {
		const char *t = numbers[r % (sizeof numbers / sizeof *numbers)];
		const size_t n = strlen(t);
		if (h->n + n > HOSTILE_MOST) break;
		memmove(h->v + at + n, h->v + at, h->n - at);
		memcpy(h->v + at, t, n);
		h->n += n;
	}
	}
}

/* One to four changes of `good`, most of them in its first `within` bytes (0: everywhere), to likely bytes among others. */
static inline void hostile_make(hostile *h, const void *good, size_t n, size_t within, const char *likely)
{
	assert_true(n <= HOSTILE_MOST);
	memcpy(h->v, good, n);
	h->n = n;
	for (uint64_t k = hostile_random(h) % 4 + 1; k; k--) hostile_change(h, likely, hostile_random(h) % 8 ? within : 0);
	hostile_put(h);
}

/* A refused file gives one error, and never for want of memory. */
static inline void hostile_refused(tj_ctx *c)
{
	const tj_status status = tj_check(c);
	if (status == TJ_OK || status == TJ_ERR_NOMEM) fail_msg("a refused file gives: %s", tj_strerror(status));
}

#endif
