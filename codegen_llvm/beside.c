/* SPDX-License-Identifier: MIT */
/* beside: reductions of few columns take several chunks of r side by side.
 *
 *   for each 8 chunks:                     instead of    for each chunk:
 *     for each row of a chunk:                             for each row of the chunk:
 *       that row of each of the 8 chunks                     the row
 *     the 8 results, adjacent ones in pairs                the result to the stack
 *
 * The rows of a chunk are added in order, so with few columns, of which all fit into a register, each addition waits for the one before
 * it. The chunks of a group have accumulators of their own, and leave one block of the tree. The chunks behind the last whole group are
 * taken one by one. docs/notes/loops.md has the measurements. */
#include "codegen_llvm/recipe.h"
#include "ir/tree.h"

enum {
	BYTES = 128,   /* of the accumulators of one sum, in all chunks */
	LEAST = 4,     /* chunks; fewer gain nothing */
	MOST_WORK = 96 /* instructions of the body, in all chunks */
};

/* Instructions of the body; 0: chunks cannot go side by side. */
static int work_of(const cg_recipe *h, const lo_section *s, int *sums, int *bytes)
{
	int work = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		const bool reduces = in->op == LO_REDUCE || in->op == LO_PART;
		const int size = h->lanes * (int)tj_dtype_size((tj_dtype)in->dtype);
		if (in->op == LO_STORE || in->op == LO_FAULT || h->of[i].rare) return 0;
		if (reduces && (in->imm >= LO_RED_ARGMAX || in->tree >= LO_TREE_PARTS)) return 0;
		*sums += reduces;
		work += h->of[i].place == CG_BODY;
		if (h->of[i].place == CG_BODY && size > *bytes) *bytes = size;
	}
	return work;
}

/* As many chunks as hide the time of an addition, while their accumulators fit into the registers. Rows of 64 bytes arrive no faster than
 * they are added. */
static int chunks_of(const cg_recipe *h, const lo_section *s)
{
	int sums = 0, bytes = 1, n = CG_MOST_BESIDE;
	const int work = work_of(h, s, &sums, &bytes);
	if (!work || !sums) return 0;
	while (n > 1 && (n * bytes > BYTES || n * sums > 2 * CG_MOST_BESIDE || n * work > MOST_WORK)) n /= 2;
	return n < LEAST ? 0 : n;
}

void cg_find_beside(cg_recipe *h)
{
	int least = CG_MOST_BESIDE;
	if (h->form != CG_ALONG_D || !h->k->reduces || h->s->scratch) return;
	for (uint32_t s = 0; s < h->k->section.n; s++) {
		if (!h->k->section.v[s].loop) continue;
		const int n = chunks_of(h, &h->k->section.v[s]);
		if (n < least) least = n;
	}
	const int64_t r = h->s->part ? h->s->part : lo_size(h->k, h->k->red);
	if (least && r >= 2 * least * IR_TREE_COLUMN_ROWS) h->beside = least;
}
