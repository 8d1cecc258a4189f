/* SPDX-License-Identifier: MIT */
/* arena: memory that is freed at once. */
#include "kit/models/models.h"

enum { BLOCK = 16384, ALIGN = 16 };
struct ox_block {
	struct ox_block *next;
	size_t used, room;
	_Alignas(ALIGN) unsigned char v[];
};

void *ox_take(ox_arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX / 2) return NULL;
	bytes = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
	struct ox_block *b = a->block;
	if (!b || b->room - b->used < bytes) {
		const size_t room = bytes > BLOCK ? bytes : BLOCK;
		b = calloc(1, sizeof *b + room);
		if (!b) return NULL;
		b->room = room;
		b->next = a->block;
		a->block = b;
	}
	void *p = b->v + b->used;
	b->used += bytes;
	return p;
}

void ox_arena_free(ox_arena *a)
{
	while (a->block) {
		struct ox_block *b = a->block;
		a->block = b->next;
		free(b);
	}
}
