/* SPDX-License-Identifier: MIT */
/* heap: a binary heap in an array of the caller, v[0 .. *n). v[0] comes before all others. */
#ifndef TJ_KIT_HEAP_H
#define TJ_KIT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Defines NAME_push() and NAME_pop() for elements of TYPE; BEFORE(env, &a, &b) is their order. The array has room for one more element
 * when NAME_push() is called, and has one at least when NAME_pop() is. */
#define KIT_HEAP(NAME, TYPE, BEFORE, ENV) \
	static void NAME##_push(TYPE *v, size_t *n, TYPE x, ENV env) \
	{ \
		size_t i = (*n)++; \
		for (; i && BEFORE(env, &x, &v[(i - 1) / 2]); i = (i - 1) / 2) v[i] = v[(i - 1) / 2]; \
		v[i] = x; \
	} \
	static TYPE NAME##_pop(TYPE *v, size_t *n, ENV env) \
	{ \
		const TYPE top = v[0], x = v[--*n]; \
		size_t i = 0; \
		for (size_t k; (k = 2 * i + 1) < *n; i = k) { \
			if (k + 1 < *n && BEFORE(env, &v[k + 1], &v[k])) k++; \
			if (!BEFORE(env, &v[k], &x)) break; \
			v[i] = v[k]; \
		} \
		v[i] = x; \
		return top; \
	}

/* A pair of tokens that may be merged: the lowest rank first, then the leftmost. */
typedef struct kit_merge_place { int64_t rank; int32_t at, left, right; } kit_merge_place;
static inline bool kit_is_merged_before(const void *env, const kit_merge_place *a, const kit_merge_place *b)
{
	(void)env;
	return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

#endif
