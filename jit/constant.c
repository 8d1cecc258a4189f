/* SPDX-License-Identifier: MIT */
/* Constants: tensors whose content may be folded into code. They are identified by content: a body that makes a constant of
 * equal bytes in every call always gets the same constant, and nothing is compiled again. */
#include "jit/handle.h"

enum { MOST = 4096 }; /* known constants; beyond that all are forgotten, and each one that comes again costs a new trace */

void jit_constants_free(jit_engine *e) { gd_table_free(&e->constants); }

/* The key: dtype, sizes, hash of the bytes. */
static uint32_t make_key(const rt_layout *l, const void *data, uint32_t *word)
{
	uint64_t hash[2];
	uint32_t n = 0;
	rt_hash128(data, (size_t)l->bytes, hash);
	word[n++] = l->dtype;
	word[n++] = l->rank;
	memcpy(word + n, l->dim, l->rank * sizeof *l->dim);
	n += 2 * l->rank;
	memcpy(word + n, hash, sizeof hash);
	return n + 4;
}

uint64_t jit_constant_id(jit_engine *e, const rt_layout *l, const void *data)
{
	uint32_t word[2 + 2 * TJ_MAX_RANK + 4], n = make_key(l, data, word);
	rt_lock(&e->rt.lock);
	uint64_t id = (uint64_t)(uintptr_t)gd_find(&e->constants, word, n);
	if (!id) {
		id = atomic_fetch_add(&e->rt.serial, 1);
		if (e->constants.n >= MOST) gd_table_free(&e->constants);
		gd_insert(&e->constants, word, n, (void *)(uintptr_t)id); /* out of memory: the next equal constant gets another id */
	}
	rt_unlock(&e->rt.lock);
	return id;
}
