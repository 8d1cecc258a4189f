/* SPDX-License-Identifier: MIT */
/* traffic: how many bytes a kernel moves between the memory of the GPU and its chip.
 *
 * Counted are the elements that each loop reads and writes, each once: caches hold an element for the other units and instructions that
 * read it in the same loop. What a later loop reads again counts again, unless the kernel holds the row (hold_rows() in shape.c). Rows that
 * are kept between loops stay on the chip. A gather counts an element for each index that it reads. */
#include "codegen_cuda/cu.h"

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* How many elements the access reaches. Those of views that overlap are not more than lie between the first and the last one. */
static int64_t reach(const lo_kernel *k, const lo_schedule *s, const lo_ins *in, bool loop)
{
	const lo_index *x = &k->index.v[in->index];
	const bool anywhere = in->dyn != LO_NOREF;
	const int64_t red = in->op == LO_PART ? lo_parts(k, s) * lo_part_lanes(in) : loop ? lo_size(k, k->red) : 1;
	int64_t n = 1, far = 1;
	for (int d = 0; d <= k->ndim; d++) {
		const int64_t coef = lo_size(k, d < k->ndim ? x->coef[d] : x->rcoef), size = d < k->ndim ? lo_size(k, k->dim[d]) : red;
		if (coef || anywhere || !size) n *= size;
		far += magnitude(coef) * (size - 1);
	}
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) far += magnitude(lo_size(k, x->jump[j].by)) * ((red - 1) / x->jump[j].every);
	return anywhere || n < far ? n : far;
}

/* An earlier load of the same section reads the same elements. */
static bool is_repeated(const lo_kernel *k, const lo_section *s, uint32_t i)
{
	const lo_ins *in = &k->ins.v[i];
	for (uint32_t j = s->first; j < i; j++) {
		const lo_ins *x = &k->ins.v[j];
		if (x->op == in->op && x->buf == in->buf && x->dyn == in->dyn && x->dyn_stride == in->dyn_stride &&
		    !memcmp(&k->index.v[x->index], &k->index.v[in->index], sizeof(lo_index)))
			return true;
	}
	return false;
}

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
			if ((h && h->ins != i) || (in->op == LO_LOAD && is_repeated(k, x, i))) continue;
			bytes += reach(k, s, in, x->loop) * (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		}
	}
	return bytes;
}
