/* SPDX-License-Identifier: MIT */
/* Buffers between pages that may not be touched. */
#ifndef TJ_TEST_FENCE_H
#define TJ_TEST_FENCE_H

#include "test/kit.h"

#include <sys/mman.h>

typedef struct fenced { char *map; size_t bytes, total; void *data; } fenced; /* the last byte of data lies in front of such a page */

static inline fenced fence(size_t bytes)
{
	size_t page = 4096, body = (bytes + page - 1) / page * page;
	fenced f = { .bytes = bytes, .total = body + 2 * page };
	f.map = mmap(NULL, f.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f.map != MAP_FAILED);
	mprotect(f.map, page, PROT_NONE);
	mprotect(f.map + page + body, page, PROT_NONE);
	f.data = f.map + page + body - bytes;
	return f;
}

static inline void unfence(fenced f) { munmap(f.map, f.total); }

#endif
