/* SPDX-License-Identifier: MIT */
/* storeformat: the bytes of an entry of the disk cache, checked and made. */
#include "runtime/store.h"

static const char MAGIC[8] = { 't', 'j', 'c', 'a', 'c', 'h', 'e', '\n' };
enum { FORMAT = 1, BUILD = RT_BUILD_BYTES };

typedef struct head { /* all little-endian, as the machine is */
	char magic[8];
	uint32_t format, kind;
	char build[BUILD];
	uint64_t key, body;  /* bytes */
	uint64_t sum[2];     /* of all that follows, and of this head with a sum of 0 */
} head;
_Static_assert(sizeof(head) == 80, "no padding is written");

void rt_checksum(const void *bytes, size_t n, size_t front, uint64_t sum[2])
{
	unsigned char h[RT_LARGEST_HEAD] = { 0 };
	uint64_t of[4];
	memcpy(h, bytes, front - 2 * sizeof *sum);
	rt_hash128(h, front, of);
	rt_hash128((const unsigned char *)bytes + front, n - front, of + 2);
	rt_hash128(of, sizeof of, sum);
}

rt_miss rt_store_check(const void *bytes, size_t n, int *kind, rt_span *key, rt_span *body)
{
	const unsigned char *at = bytes;
	uint64_t sum[2];
	head h;
	*kind = -1;
	if (n < sizeof h) return RT_MISS_LENGTH;
	memcpy(&h, at, sizeof h);
	if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) return RT_MISS_MAGIC;
	if (h.format != FORMAT) return RT_MISS_FORMAT;
	if (h.key > n || h.body > n || h.key + h.body != n - sizeof h) return RT_MISS_LENGTH;
	rt_checksum(at, n, sizeof h, sum);
	if (memcmp(sum, h.sum, sizeof sum) != 0) return RT_MISS_CHECKSUM;
	if (memcmp(h.build, rt_build(), BUILD) != 0) return RT_MISS_BUILD;
	if (h.kind >= RT_STORE_KINDS) return RT_MISS_FORMAT;
	*kind = (int)h.kind;
	*key = (rt_span){ at + sizeof h, (size_t)h.key };
	*body = (rt_span){ at + sizeof h + h.key, (size_t)h.body };
	return RT_MISS_ABSENT;
}

unsigned char *rt_store_entry_of(rt_store_kind kind, rt_span key, rt_span body, size_t *n)
{
	head h = { .format = FORMAT, .kind = kind, .key = key.bytes, .body = body.bytes };
	*n = sizeof h + key.bytes + body.bytes;
	unsigned char *bytes = *n <= RT_STORE_LARGEST ? rt_alloc(*n) : NULL;
	if (!bytes) return NULL;
	memcpy(h.magic, MAGIC, sizeof MAGIC);
	memcpy(h.build, rt_build(), BUILD);
	memcpy(bytes, &h, sizeof h);
	memcpy(bytes + sizeof h, key.at, key.bytes);
	memcpy(bytes + sizeof h + key.bytes, body.at, body.bytes);
	rt_checksum(bytes, *n, sizeof h, h.sum);
	memcpy(bytes, &h, sizeof h);
	return bytes;
}
