/* SPDX-License-Identifier: MIT */
/* traffic: how many bytes a kernel moves between the memory of the GPU and its chip.
 *
 * Counted are the elements that each loop reads and writes, each once: caches hold an element for the other units and instructions that
 * read it in the same loop. What a later loop reads again counts again, unless the kernel holds the row (hold_rows() in shape.c). Rows that
 * are kept between loops stay on the chip. A gather counts an element for each index that it reads. */
#include "codegen_cuda/cu.h"

int64_t cu_moved(const lo_kernel *k, const lo_schedule *s)
{
	const cu_shape shape = cu_shape_of(k, s);
	const lo_section all = { false, 0, k->ins.n };
	int64_t bytes = 0;
	for (uint32_t n = 0; n < (k->reduces ? k->section.n : 1); n++) {
		const lo_section *x = k->reduces ? &k->section.v[n] : &all;
		for (uint32_t i = x->first; i < x->first + x->count; i++) {
			const lo_ins *in = &k->ins.v[i];
			if ((in->op != LO_LOAD && in->op != LO_STORE && in->op != LO_PART) || k->buf.v[in->buf].role == LO_KEPT) continue;
			const cu_held *h = in->op == LO_LOAD ? cu_held_at(k, &shape, in) : NULL;
			if ((h && h->ins != i) || (in->op == LO_LOAD && lo_repeats_access(k, x->first, i))) continue;
			bytes += lo_reach(k, s, in, x->loop) * (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		}
	}
	return bytes;
}
