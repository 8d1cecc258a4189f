/* SPDX-License-Identifier: MIT */
/* access: loads, stores and faults.
 *
 * Each access has a base address per unit; a loop adds the term of r. Adjacent lanes are one vector load or store, masked in
 * the tail, unless that overlaps (overlap.c); fields of structures are taken apart by shuffles (structs.c); loads of lanes a few
 * elements apart are vectors, shuffled (stride.c); lanes further apart are a gather or a scatter. For absent lanes a gather in the tail
 * reads the element of one that is present, so it needs no mask. */
#include "codegen_llvm/cg.h"

#include <stdlib.h>

/* ---- how lanes lie ---- */
/* A vector in the middle must not reach beyond the last element. */
static bool is_near(const cg_recipe *h, const lo_ins *in, int64_t step, int lanes)
{
	return in->op == LO_LOAD && !lo_is_sym(step) && llabs(step) <= CG_NEAR_STEP &&
	       cg_lanes_in_register(h->bits, lanes, (tj_dtype)in->dtype) >= llabs(step) - 1;
}

static cg_access access_at(const cg_recipe *h, uint32_t i, bool in_loop, int lanes, bool masked)
{
	const lo_ins *in = &h->k->ins.v[i];
	const int64_t step = cg_lane_coef(h, in, in_loop);
	const bool masks = !masked || h->bits == 512 || tj_dtype_size((tj_dtype)in->dtype) >= 4; /* AVX2: of four and eight bytes only */
	if (h->of[i].tile) return CG_TILED;
	if (h->of[i].field && masks) return CG_FIELD;
	if (cg_table_size(h, in) && (in->dtype == TJ_U8 ? lanes <= 64 : lanes == 16)) return CG_TABLE;
	if (cg_dyn_varies(h, in)) return CG_FAR;
	if (step == 1) return CG_ADJACENT;
	return step != 0 && masks && is_near(h, in, step, lanes) ? CG_NEAR : CG_FAR;
}

void cg_find_accesses(cg_recipe *h)
{
	for (const lo_section *s = h->k->section.v; s < h->k->section.v + h->k->section.n; s++)
		for (uint32_t i = s->first; i < s->first + s->count; i++) {
			const lo_ins *in = &h->k->ins.v[i];
			const int lanes = cg_lanes_of(h, s), last = cg_tail_of(h, s);
			if ((in->op != LO_LOAD && in->op != LO_STORE) || lanes == 1 || (in->op == LO_LOAD && !h->of[i].varies)) continue;
			h->of[i].access = access_at(h, i, s->loop, lanes, false);
			h->of[i].masked = access_at(h, i, s->loop, last, !h->overlaps && !h->exact);
		}
}

/* ---- addresses ---- */
void cg_entry_bufs(cg *c)
{
	_Static_assert(offsetof(rt_kargs, buf) == 0, "bufs are at %a itself");
	rt_puts(&c->entry, "  %bufs = load ptr, ptr %a, align 8\n");
	cg_entry_field(c, "num", offsetof(rt_kargs, num));
	cg_entry_field(c, "fault", offsetof(rt_kargs, fault));
	cg_entry_field(c, "scratch", offsetof(rt_kargs, scratch));
	for (uint32_t i = 0; i < c->k->buf.n; i++) {
		const lo_buf *b = &c->k->buf.v[i];
		if (b->role == LO_KEPT) {
			rt_putf(&c->entry, "  %%b%u = getelementptr i8, ptr %%scratch, i64 %s\n", i, cg_int(lo_kept_at(c->s, i)->offset).s);
			continue;
		}
		rt_putf(&c->entry, "  %%ab%u = getelementptr ptr, ptr %%bufs, i64 %u\n", i, i);
		rt_putf(&c->entry, "  %%b%u = load ptr, ptr %%ab%u, align 8\n", i, i);
	}
}

/* Number of outer indices that are fixed in a unit: with lanes along d, the vector loop adds the last one. */
static int fixed_dims(const cg *c) { return cg_rows(c->how) ? c->k->ndim : c->k->ndim - 1; }

void cg_unit_bases(cg *c)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if ((in->op != LO_LOAD && in->op != LO_STORE && in->op != LO_PART) || c->how->of[i].tile) continue;
		if (c->how->of[i].aside) {
			rt_putf(&c->unit, "  %%p%u = getelementptr i8, ptr %s, i64 0\n", i, cg_aside(c, i).s);
			continue;
		}
		const lo_index *x = &c->k->index.v[in->index];
		cg_str at = cg_int(x->offset);
		for (int d = 0; d < fixed_dims(c); d++) {
			if (!x->coef[d] || c->k->dim[d] == 1) continue;
			cg_str term = cg_tmp(c), sum = cg_tmp(c);
			rt_putf(&c->unit, "  %s = mul i64 %%d%d, %s\n", term.s, d, cg_int(x->coef[d]).s);
			rt_putf(&c->unit, "  %s = add i64 %s, %s\n", sum.s, at.s, term.s);
			at = sum;
		}
		rt_putf(&c->unit, "  %%p%u = getelementptr %s, ptr %%b%u, i64 %s\n", i,
				cg_mem_type((tj_dtype)in->dtype, 1).s, in->buf, at.s);
	}
}

/* ptr + index * coef elements */
static cg_str step_ptr(cg *c, cg_str p, tj_dtype t, cg_str index, int64_t coef)
{
	if (!coef) return p;
	return cg_elem(c, t, p, coef == 1 ? index : cg_op(c, "mul", index, cg_int(coef)));
}

static cg_str tile_address(cg *c, uint32_t i)
{
	cg_str column = cg_tmp(c), at = cg_tmp(c);
	rt_putf(c->out, "  %s = sub i64 %s, %s\n  %s = add i64 %s, %s\n", column.s, c->at.s, c->tile_lo.s, at.s,
			column.s, c->tile_row.s);
	return step_ptr(c, cg_fmt("%%tile%u", c->how->of[i].tile), (tj_dtype)c->k->ins.v[i].dtype, at, 1);
}

static bool dyn_varies(const cg *c, const lo_ins *in) { return cg_dyn_varies(c->how, in) && c->lanes > 1; }

cg_str cg_address(cg *c, uint32_t i)
{
	if (c->how->of[i].tile) return tile_address(c, i);
	const lo_ins *in = &c->k->ins.v[i];
	const lo_index *x = &c->k->index.v[in->index];
	tj_dtype t = (tj_dtype)in->dtype;
	int64_t coef = cg_lane_coef(c->how, in, c->in_loop);
	cg_str p = cg_fmt(c->stage_copy && c->how->of[i].copied ? "%%q%u" : "%%p%u", i);
	if (cg_lane_rows(c->how, in)) return step_ptr(c, p, t, c->r, c->lanes);
	if (in->dyn != LO_NOREF && !dyn_varies(c, in))
		p = step_ptr(c, p, t, cg_use(c, in->dyn, false), in->dyn_stride);
	if (!cg_rows(c->how) && c->in_loop) p = step_ptr(c, p, t, c->r, x->rcoef);
	return step_ptr(c, p, t, c->at, coef);
}

/* The vector of l * coef for each lane l, of type `it`: a literal, or the name of a vector computed in the entry. */
static cg_str lane_steps(cg *c, const char *it, int64_t coef)
{
	rt_text t = { 0 };
	cg_str name = cg_tmp(c);
	cg_iota(&t, it, lo_is_sym(coef) ? 1 : coef, c->lanes);
	if (lo_is_sym(coef)) {
		rt_text *now = c->out;
		c->out = &c->entry;
		cg_str all = cg_splat(c, it, cg_int(coef), c->lanes);
		c->out = now;
		rt_putf(&c->entry, "  %s = mul <%d x %s> %s, %s\n", name.s, c->lanes, it, all.s, rt_str(&t));
	} else rt_putf(c->out, "  %s = add <%d x %s> zeroinitializer, %s\n", name.s, c->lanes, it, rt_str(&t));
	c->oom |= t.oom;
	rt_text_free(&t);
	return name;
}

/* Vector of addresses: lane l at p + l * coef + dyn[l] * dyn_stride. */
static cg_str addresses(cg *c, uint32_t i, bool store)
{
	const lo_ins *in = &c->k->ins.v[i];
	int64_t coef = cg_lane_coef(c->how, in, c->in_loop);
	int n = c->lanes;
	cg_str p = cg_address(c, i), ps = cg_tmp(c);
	bool small = !lo_is_sym(coef) && coef < INT32_MAX / 256 && coef > -INT32_MAX / 256 && !dyn_varies(c, in);
	const char *it = small ? "i32" : "i64";
	cg_str off = lane_steps(c, it, coef);
	if (dyn_varies(c, in)) {
		cg_str dyn = cg_tmp(c), sum = cg_tmp(c), stride = cg_splat(c, it, cg_int(in->dyn_stride), n);
		rt_putf(c->out, "  %s = mul <%d x i64> %s, %s\n", dyn.s, n, cg_use(c, in->dyn, true).s, stride.s);
		rt_putf(c->out, "  %s = add <%d x i64> %s, %s\n", sum.s, n, dyn.s, off.s);
		off = sum;
	}
	if (c->masked && !store) {
		cg_str first = cg_tmp(c);
		rt_putf(c->out, "  %s = extractelement <%d x %s> %s, i64 %d\n", first.s, n, it, off.s, c->laps ? n - 1 : 0);
		off = cg_select_mask(c, small ? TJ_I32 : TJ_I64, off, cg_splat(c, it, first, n));
	}
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, <%d x %s> %s\n", ps.s,
			cg_mem_type((tj_dtype)in->dtype, 1).s, p.s, n, it, off.s);
	return ps;
}

static void prefetch(cg *c, cg_str p, int bytes, int locality)
{
	cg_str at = cg_tmp(c);
	rt_putf(c->out, "  %s = getelementptr i8, ptr %s, i64 %d\n", at.s, p.s, bytes);
	rt_putf(c->out, "  call void @llvm.prefetch.p0(ptr %s, i32 0, i32 %d, i32 1)\n", at.s, locality);
}

void cg_prefetch(cg *c, cg_str p, int bytes) { prefetch(c, p, bytes, 2); }
void cg_prefetch_near(cg *c, cg_str p, int bytes) { prefetch(c, p, bytes, 3); }

/* Register k of a table of `size` elements, n to a register; the last one may have fewer. */
static cg_str table_part(cg *c, tj_dtype t, cg_str p, int k, int n, int size)
{
	const cg_str at = cg_elem(c, t, p, cg_int(n * k)), left = cg_int(size - n * k);
	return size - n * k >= n ? cg_read(c, t, n, at) : cg_read_some(c, t, n, at, cg_first_lanes(c, left, n));
}

/* The index of a table as integers of type t. */
static cg_str table_index(cg *c, uint32_t i, tj_dtype t)
{
	const uint32_t x = cg_index_of(c->k, &c->k->ins.v[i]);
	const cg_str to = cg_tmp(c);
	cg_convert(c, to, (tj_dtype)c->k->ins.v[x].dtype, t, c->lanes, cg_use(c, x, true));
	return to;
}

/* Up to 256 bytes: permutations of one register, or of two; of more, the index's highest bit chooses. */
static void load_bytes(cg *c, uint32_t i, int size, cg_str to)
{
	const cg_str p = cg_fmt("%%p%u", i), index = cg_resized(c, TJ_U8, table_index(c, i, TJ_U8), c->lanes, 64), high = cg_tmp(c);
	cg_str part[4] = { { "" } }, half[2], all;
	for (int k = 0; 64 * k < size; k++) part[k] = table_part(c, TJ_U8, p, k, 64, size);
	for (int k = 0; 128 * k < size; k++)
		half[k] = cg_x86_pick_byte(c, part[2 * k], 128 * k + 64 < size ? part[2 * k + 1] : part[2 * k], index);
	all = half[0];
	if (size > 128) {
		all = cg_tmp(c);
		rt_putf(c->out, "  %s = icmp slt <64 x i8> %s, zeroinitializer\n", high.s, index.s);
		rt_putf(c->out, "  %s = select <64 x i1> %s, <64 x i8> %s, <64 x i8> %s\n", all.s, high.s, half[1].s, half[0].s);
	}
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", to.s, cg_type(TJ_U8, c->lanes).s, cg_resized(c, TJ_U8, all, 64, c->lanes).s,
	        cg_type(TJ_U8, c->lanes).s);
}

/* Up to 32 elements of four bytes: a permutation of two registers. */
static void load_table(cg *c, uint32_t i, cg_str to)
{
	const tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	const int size = cg_table_size(c->how, &c->k->ins.v[i]);
	if (t == TJ_U8) {
		load_bytes(c, i, size, to);
		return;
	}
	const cg_str p = cg_fmt("%%p%u", i), index = table_index(c, i, TJ_I32), low = table_part(c, t, p, 0, 16, size);
	cg_x86_pick_word(c, to, t, low, size > 16 ? table_part(c, t, p, 1, 16, size) : low, index);
}

static void load_adjacent(cg *c, uint32_t i, cg_str to)
{
	const tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	const int n = c->lanes, size = (int)tj_dtype_size(t);
	const cg_str type = cg_mem_type(t, n), p = cg_address(c, i);
	/* A tiled loop reads a short piece of each of many rows: too short for the hardware prefetcher. */
	if (c->tile_row.s[0] && !c->how->of[i].tile) cg_prefetch(c, p, CG_TILE_COLS * size);
	if (!c->masked || c->laps) rt_putf(c->out, "  %s = load %s, ptr %s, align %d\n", to.s, type.s, p.s, size);
	else
		rt_putf(c->out, "  %s = call %s @llvm.masked.load.%s.p0(ptr %s, i32 %d, <%d x i1> %s, %s zeroinitializer)\n", to.s, type.s,
		        cg_mem_mangle(t, n).s, p.s, size, n, c->mask.s, type.s);
}

static void gather(cg *c, uint32_t i, cg_str to)
{
	const tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	const int n = c->lanes;
	const cg_str type = cg_mem_type(t, n), ps = addresses(c, i, false);
	rt_putf(c->out, "  %s = call %s @llvm.masked.gather.%s.v%dp0(<%d x ptr> %s, i32 %d, <%d x i1> splat (i1 true), %s poison)\n", to.s,
	        type.s, cg_mem_mangle(t, n).s, n, n, ps.s, (int)tj_dtype_size(t), n, type.s);
}

static cg_access access_of(const cg *c, uint32_t i)
{
	const cg_choice *x = &c->how->of[i];
	return (cg_access)(c->masked || c->exact ? x->masked : x->access);
}

static cg_str lane_0(cg *c, uint32_t i) { return cg_touches(cg_struct_of(c, i), i) ? cg_address(c, i) : (cg_str){ "" }; }

/* Writes to `to`, or returns another name. */
static cg_str load_vector(cg *c, uint32_t i, cg_str to)
{
	const lo_ins *in = &c->k->ins.v[i];
	const tj_dtype t = in->dtype == TJ_BOOL ? TJ_U8 : (tj_dtype)in->dtype;
	switch (access_of(c, i)) {
	case CG_FIELD: return cg_load_field(c, i, lane_0(c, i));
	case CG_TABLE: load_table(c, i, to); break;
	case CG_NEAR: cg_load_along(c, to, t, cg_address(c, i), cg_lane_coef(c->how, in, c->in_loop)); break;
	case CG_FAR: gather(c, i, to); break;
	default: load_adjacent(c, i, to);
	}
	return to;
}

void cg_load(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	tj_dtype t = (tj_dtype)in->dtype;
	bool vec = c->how->of[i].varies && c->lanes > 1;
	int lanes = vec ? c->lanes : 1;
	cg_str name = cg_fmt("%%v%u%s", i, c->how->of[i].place == CG_BODY ? c->copy : ""),
		   raw = t == TJ_BOOL ? cg_tmp(c) : name;
	if (vec) raw = load_vector(c, i, raw);
	else
		rt_putf(c->out, "  %s = load %s, ptr %s, align %d\n", raw.s, cg_mem_type(t, 1).s, cg_address(c, i).s, (int)tj_dtype_size(t));
	if (t != TJ_BOOL) name = raw;
	else
		rt_putf(c->out, "  %s = icmp ne %s %s, %s\n", name.s, cg_mem_type(t, lanes).s, raw.s, cg_literal(TJ_U8, 0, lanes).s);
	cg_def(c, i, name, vec);
}

static cg_str to_memory(cg *c, tj_dtype t, int lanes, cg_str v)
{
	if (t != TJ_BOOL) return v;
	cg_str byte = cg_tmp(c);
	rt_putf(c->out, "  %s = zext %s %s to %s\n", byte.s, cg_type(t, lanes).s, v.s, cg_mem_type(t, lanes).s);
	return byte;
}

static void scatter(cg *c, uint32_t i, cg_str v)
{
	const tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	const int n = c->lanes;
	const cg_str ps = addresses(c, i, true);
	rt_putf(c->out, "  call void @llvm.masked.scatter.%s.v%dp0(%s %s, <%d x ptr> %s, i32 %d, <%d x i1> %s)\n", cg_mem_mangle(t, n).s, n,
	        cg_mem_type(t, n).s, v.s, n, ps.s, (int)tj_dtype_size(t), n, c->masked ? c->mask.s : "splat (i1 true)");
}

static void store_adjacent(cg *c, uint32_t i, cg_str v)
{
	const tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	const int n = c->lanes, size = (int)tj_dtype_size(t);
	const cg_str p = cg_address(c, i), type = cg_mem_type(t, n);
	if (c->laps) v = cg_keep_absent(c, t == TJ_BOOL ? TJ_U8 : t, n, v, p, c->mask);
	if (!c->masked && c->stream_copy && c->how->of[i].streamed)
		rt_putf(c->out, "  store %s %s, ptr %s, align 64, !nontemporal !0\n", type.s, v.s, p.s);
	else if (!c->masked || c->laps || n == 1) rt_putf(c->out, "  store %s %s, ptr %s, align %d\n", type.s, v.s, p.s, size);
	else
		rt_putf(c->out, "  call void @llvm.masked.store.%s.p0(%s %s, ptr %s, i32 %d, <%d x i1> %s)\n", cg_mem_mangle(t, n).s, type.s, v.s,
		        p.s, size, n, c->mask.s);
}

void cg_store(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	const int n = c->lanes;
	const cg_str v = to_memory(c, (tj_dtype)in->dtype, n, cg_use(c, in->src[0], n > 1));
	const cg_access how = n > 1 ? access_of(c, i) : CG_ADJACENT;
	if (how == CG_FIELD) cg_store_field(c, i, lane_0(c, i), v);
	else if (how == CG_FAR) scatter(c, i, v);
	else store_adjacent(c, i, v);
}

void cg_fault(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	bool vec = c->how->of[i].varies && c->lanes > 1;
	cg_str hit = cg_use(c, in->src[0], vec), old = cg_tmp(c), none = cg_tmp(c), now = cg_tmp(c);
	unsigned id = c->tmp;
	if (vec) {
		cg_str bits = cg_tmp(c), any = cg_tmp(c);
		hit = cg_select_mask(c, TJ_BOOL, hit, cg_literal(TJ_BOOL, 0, c->lanes));
		rt_putf(c->out, "  %s = bitcast <%d x i1> %s to i%d\n", bits.s, c->lanes, hit.s, c->lanes);
		rt_putf(c->out, "  %s = icmp ne i%d %s, 0\n", any.s, c->lanes, bits.s);
		hit = any;
	}
	rt_putf(c->out, "  br i1 %s, label %%fault%u, label %%sound%u\n", hit.s, id, id);
	cg_label(c, cg_fmt("fault%u", id));
	rt_putf(c->out, "  %s = load i32, ptr %%fault, align 4\n", old.s);
	rt_putf(c->out, "  %s = icmp eq i32 %s, 0\n", none.s, old.s);
	rt_putf(c->out, "  %s = select i1 %s, i32 %lld, i32 %s\n", now.s, none.s, (long long)in->imm + 1, old.s);
	rt_putf(c->out, "  store i32 %s, ptr %%fault, align 4\n", now.s);
	cg_jump(c, cg_fmt("sound%u", id));
}
