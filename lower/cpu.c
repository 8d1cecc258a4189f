/* cpu: the choices of a schedule for CPUs. */
#include "ir/tree.h"
#include "lower/low.h"

enum { UNIT_BYTES = 16 << 10, LANES = 64 };
static const double UNIT_NS = 10e3;
enum { FEWEST_CHUNKS = 4, MOST_CHUNKS = 64, PARTS = 32 };

/* ---- cost ---- */
static int64_t magnitude(int64_t x)
{
	return x < 0 ? -x : x;
}

typedef struct cost {
	double point, row;
	int store_size;
} cost; /* ns for an outer index, for an element of r */

static double ins_ns(const lo_kernel *k, const lo_schedule *s, const lo_ins *i)
{
	if (i->op != LO_LOAD && i->op != LO_STORE) return 0.012;
	const lo_index *x = &k->index.v[i->index];
	int64_t step = magnitude(s->vec == LO_VEC_R ? x->rcoef : x->coef[k->ndim - 1]);
	return i->dyn != LO_NOREF || step > 1 ? 1.0
	       : step                         ? 0.02 * (double)tj_dtype_size((tj_dtype)i->dtype)
	                                      : 0.01;
}

static cost cost_of(const lo_kernel *k, const lo_schedule *sched)
{
	cost c = { 0, 0, 1 };
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = 0; i < k->section.v[s].count; i++) {
			const lo_ins *x = &k->ins.v[k->section.v[s].first + i];
			*(k->section.v[s].loop ? &c.row : &c.point) += ins_ns(k, sched, x);
			if (x->op == LO_STORE && (int)tj_dtype_size((tj_dtype)x->dtype) > c.store_size)
				c.store_size = (int)tj_dtype_size((tj_dtype)x->dtype);
		}
	return c;
}

/* 512 bytes of a row take 0.6 of the time of 256; a quarter of a long row lets the code generator walk along rows. */
static int64_t columns_to_unit(const lo_kernel *k, int64_t last)
{
	int loops = 0;
	for (uint32_t s = 0; s < k->section.n; s++) loops += k->section.v[s].loop;
	if (loops == 1 && last >= 32 * LANES && k->red >= LANES) return last >= 64 * LANES ? 16 * LANES : 8 * LANES;
	return last >= 8 * LANES ? 2 * LANES : LANES;
}

void lo_set_units(const lo_kernel *k, lo_schedule *s)
{
	cost c = cost_of(k, s);
	double each = c.point + c.row * (double)(k->reduces ? k->red : 0) + 0.01;
	int64_t last = k->dim[k->ndim - 1];
	s->block = 1;
	if (s->vec != LO_VEC_R) {
		int64_t by_bytes = UNIT_BYTES / c.store_size, by_ns = (int64_t)(UNIT_NS / each);
		s->block = by_bytes < by_ns ? by_bytes : by_ns;
		int64_t least = k->reduces ? columns_to_unit(k, last) : LANES;
		s->block = s->block / least * least;
		if (s->block < least) s->block = least;
		if (s->block > last) s->block = last;
	}
	s->unit_ns = each * (double)s->block + 2;
}

/* ---- parts of r ---- */
/* Elements to a part: enough parts for any team, and enough to a part for its lanes not to count. */
int64_t lo_part_of(const lo_kernel *k, int64_t lanes)
{
	int64_t chunk = (lanes > 1 ? lanes : IR_TREE_LANES(sizeof(float))) * IR_TREE_ROWS, chunks = MOST_CHUNKS;
	while (chunks > FEWEST_CHUNKS && k->red / (chunk * chunks) < PARTS) chunks /= 2;
	return chunk * chunks;
}
