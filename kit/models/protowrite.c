/* SPDX-License-Identifier: MIT */
/* protowrite: protobuf's wire format, into a buffer that grows. */
#include "kit/models/write.h"

void ow_put(ow_bytes *b, const void *data, size_t n)
{
	if (b->oom || !n) return;
	if (n > b->room - b->n) {
		size_t room = b->room ? b->room : 1024;
		while (room - b->n < n && room <= SIZE_MAX / 4) room *= 2;
		unsigned char *v = room - b->n < n ? NULL : realloc(b->v, room);
		if (!v) {
			b->oom = true;
			return;
		}
		b->v = v;
		b->room = room;
	}
	memcpy(b->v + b->n, data, n);
	b->n += n;
}

static int varint(uint64_t v, unsigned char to[10])
{
	int n = 0;
	for (; v > 127; v >>= 7) to[n++] = (unsigned char)(v | 128);
	to[n++] = (unsigned char)v;
	return n;
}

void ow_put_varint(ow_bytes *b, uint64_t v)
{
	unsigned char t[10];
	ow_put(b, t, (size_t)varint(v, t));
}

static void key(ow_bytes *b, uint32_t field, int type) { ow_put_varint(b, (uint64_t)field << 3 | (unsigned)type); }

void ow_put_int(ow_bytes *b, uint32_t field, int64_t v)
{
	key(b, field, 0);
	ow_put_varint(b, (uint64_t)v);
}

void ow_put_float(ow_bytes *b, uint32_t field, float v)
{
	key(b, field, 5);
	ow_put(b, &v, sizeof v);
}

void ow_put_bytes(ow_bytes *b, uint32_t field, const void *data, size_t n)
{
	key(b, field, 2);
	ow_put_varint(b, n);
	ow_put(b, data, n);
}

void ow_put_text(ow_bytes *b, uint32_t field, const char *s) { ow_put_bytes(b, field, s, strlen(s)); }

size_t ow_open(ow_bytes *b, uint32_t field)
{
	key(b, field, 2);
	return b->n;
}

/* The length comes before the message, so the message makes room for it. */
void ow_close(ow_bytes *b, size_t at)
{
	unsigned char t[10];
	if (b->oom) return;
	const size_t length = b->n - at, n = (size_t)varint(length, t);
	ow_put(b, t, n);
	if (b->oom) return;
	memmove(b->v + at + n, b->v + at, length);
	memcpy(b->v + at, t, n);
}
