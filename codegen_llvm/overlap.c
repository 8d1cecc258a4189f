/* SPDX-License-Identifier: MIT */
/* overlap: the tail of a row is one more vector, which ends where the row ends.
 *
 *   a row of 11, vectors of 4     0 1 2 3 | 4 5 6 7 | 8 9 10
 *   the last vector                               7 8 9 10      stores 8, 9 and 10
 *
 * For bytes and pairs of bytes below 512 bits: AVX2 masks elements of four and eight bytes only, and of a masked access to others LLVM
 * makes a branch for each lane. The game of life, 1,024 x 1,024 bytes: 196 to 77 us, code generation 126 to 33 ms (Zen 3, two threads).
 *
 * Here absent lanes are the first ones, and loads need no mask: these elements are of the same row, so no other thread writes them. But if
 * an output lies over an input, they may have been written already. What such lanes compute counts for nothing: stores keep what is in
 * memory, and faults, divisors and gathers leave these lanes out. A row shorter than a vector is computed one element at a time. */
#include "codegen_llvm/cg.h"

static bool is_access(const lo_ins *in) { return in->op == LO_LOAD || in->op == LO_STORE; }

void cg_find_overlap(cg_recipe *h)
{
	bool narrow = false;
	if (h->bits == 512 || h->form != CG_ALONG_D || h->k->reduces) return;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (h->of[i].place != CG_BODY || !is_access(in)) continue;
		if (h->k->buf.v[in->buf].role != (in->op == LO_LOAD ? LO_IN : LO_OUT)) return;
		narrow |= tj_dtype_size((tj_dtype)in->dtype) < sizeof(float) && (in->op == LO_STORE || h->of[i].varies);
	}
	h->overlaps = narrow;
}

/* Vectors from `from` on: the last one begins earlier. */
static void put_last(cg *c, cg_str from, cg_str hi)
{
	const char *type = c->lanes <= 16 ? "i32" : "i16";
	const cg_str most = cg_op(c, "sub", hi, cg_int(c->lanes));
	c->at = cg_least(c, from, most);
	rt_putf(c->out, "  %%absent = sub i64 %s, %s\n  %%absent.n = trunc i64 %%absent to %s\n", from.s, c->at.s, type);
	const cg_str all = cg_splat(c, type, cg_fmt("%%absent.n"), c->lanes);
	c->mask = cg_fmt("%%mask");
	rt_putf(c->out, "  %%mask = icmp uge <%d x %s> ", c->lanes, type);
	cg_iota(c->out, type, 1, c->lanes);
	rt_putf(c->out, ", %s\n", all.s);
	c->copy = ".t";
	c->masked = c->laps = true;
	cg_sections(c);
	c->masked = c->laps = false;
}

static void last_vectors(cg *c, cg_str stop, cg_str hi)
{
	const cg_loop l = cg_open(c, "last", stop, hi, cg_int(c->lanes), false);
	put_last(c, cg_hide(c, l.i), hi);
	cg_close(c, &l);
}

/* one element at a time */
static void single(cg *c, cg_str lo, cg_str hi)
{
	const cg_loop l = cg_open(c, "single", lo, hi, cg_int(1), true);
	c->at = cg_hide(c, l.i);
	c->copy = ".f";
	cg_sections(c);
	cg_close(c, &l);
}

static void with_lanes(cg *c, int lanes, void (*put)(cg *c, cg_str from, cg_str to), cg_str from, cg_str to)
{
	const int were = c->lanes;
	if (lanes != were) c->lanes = lanes, c->key++; /* broadcasts have other lanes, and are made anew */
	put(c, from, to);
	if (lanes != were) c->lanes = were, c->key++;
}

static void exact(cg *c, cg_str stop, cg_str hi)
{
	(void)hi;
	c->at = stop;
	c->copy = ".t";
	c->exact = true;
	cg_sections(c);
	c->exact = false;
}

void cg_exact_tail(cg *c, cg_str stop) { with_lanes(c, c->how->tail_lanes, exact, stop, stop); }

void cg_overlapped_tail(cg *c, cg_str lo, cg_str stop, cg_str hi, const cg_span *s)
{
	const int n = c->how->tail_lanes;
	if (s->guard_tail) {
		rt_putf(c->out, "  %%left = icmp slt i64 %s, %s\n  br i1 %%left, label %%tail, label %%whole\n", stop.s, hi.s);
		cg_label(c, cg_fmt("tail"));
	}
	if (s->guard_main) {
		rt_putf(c->out, "  %%room = sub i64 %s, %s\n  %%enough = icmp sge i64 %%room, %d\n", hi.s, lo.s, n);
		rt_puts(c->out, "  br i1 %enough, label %overlap, label %few\n");
		cg_label(c, cg_fmt("few"));
		with_lanes(c, 1, single, lo, hi);
		rt_puts(c->out, "  br label %whole\n");
		cg_label(c, cg_fmt("overlap"));
	}
	with_lanes(c, n, last_vectors, stop, hi);
	if (s->guard_tail || s->guard_main) cg_jump(c, cg_fmt("whole"));
}
