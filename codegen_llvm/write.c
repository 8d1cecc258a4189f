/* SPDX-License-Identifier: MIT */
/* write: lines that several files write: arithmetic on indices, loops, loads and stores at computed addresses. */
#include "codegen_llvm/cg.h"

#include <stdlib.h>

/* ---- arithmetic: what is known is computed now, so that LLVM has less to do ---- */
static bool is_number(cg_str s, int64_t *v)
{
	char *end;
	*v = strtoll(s.s, &end, 10);
	return end != s.s && !*end;
}

static cg_str number(int64_t v) { return cg_fmt("%lld", (long long)v); }

/* a op b as a number or as one of the operands; NULL: as neither. */
static const cg_str *simpler(const char *name, const cg_str *a, const cg_str *b, cg_str *known)
{
	int64_t x, y;
	const bool left = is_number(*a, &x), right = is_number(*b, &y), add = !strcmp(name, "add"), mul = !strcmp(name, "mul");
	if (left && !x && add) return b;
	if (left && x == 1 && mul) return b;
	if (right && !y && (add || !strcmp(name, "sub"))) return a;
	if (right && y == 1 && (mul || !strcmp(name, "udiv"))) return a;
	if (right && y == 1 && !strcmp(name, "urem")) *known = number(0);
	else if (((left && !x) || (right && !y)) && mul) *known = number(0);
	else if (!left || !right || x < 0 || y < 0) return NULL;
	else if (add) *known = number(x + y);
	else if (mul) *known = number(x * y);
	else if (!strcmp(name, "sub")) *known = number(x - y);
	else if (!strcmp(name, "udiv") && y) *known = number(x / y);
	else if (!strcmp(name, "urem") && y) *known = number(x % y);
	else return NULL;
	return known;
}

cg_str cg_op(cg *c, const char *name, cg_str a, cg_str b)
{
	cg_str known;
	const cg_str *same = simpler(name, &a, &b, &known);
	if (same) return *same;
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s i64 %s, %s\n", r.s, name, a.s, b.s);
	return r;
}

static bool holds(const char *how, int64_t x, int64_t y)
{
	if (!strcmp(how, "eq")) return x == y;
	if (!strcmp(how, "ne")) return x != y;
	if (!strcmp(how, "slt")) return x < y;
	return !strcmp(how, "sle") ? x <= y : !strcmp(how, "sgt") ? x > y : x >= y;
}

cg_str cg_cmp(cg *c, const char *how, cg_str a, cg_str b)
{
	int64_t x, y;
	if (is_number(a, &x) && is_number(b, &y)) return cg_fmt(holds(how, x, y) ? "true" : "false");
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp %s i64 %s, %s\n", r.s, how, a.s, b.s);
	return r;
}

cg_str cg_choose(cg *c, cg_str when, const char *type, cg_str a, cg_str b)
{
	if (!strcmp(when.s, "true") || !strcmp(a.s, b.s)) return a;
	if (!strcmp(when.s, "false")) return b;
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = select i1 %s, %s %s, %s %s\n", r.s, when.s, type, a.s, type, b.s);
	return r;
}

cg_str cg_least(cg *c, cg_str a, cg_str b) { return cg_choose(c, cg_cmp(c, "slt", a, b), "i64", a, b); }

/* ---- loops ---- */
cg_loop cg_open(cg *c, const char *name, cg_str from, cg_str to, cg_str step, bool guard)
{
	const unsigned id = ++c->tmp;
	cg_loop l = { cg_fmt("%%%s%u", name, id),    step, to, cg_fmt("%s%u.head", name, id), cg_fmt("%s%u.latch", name, id),
		      cg_fmt("%s%u.done", name, id), false };
	const cg_str before = c->block_label;
	int64_t first, stop, by;
	if (is_number(from, &first) && is_number(to, &stop) && is_number(step, &by) && first < stop && first + by >= stop)
		return (cg_loop){ .i = from, .once = true };
	if (guard)
		rt_putf(c->out, "  %s.some = icmp slt i64 %s, %s\n  br i1 %s.some, label %%%s, label %%%s\n", l.i.s, from.s, to.s, l.i.s,
		        l.head.s, l.done.s);
	else rt_putf(c->out, "  br label %%%s\n", l.head.s);
	cg_label(c, l.head);
	rt_putf(c->out, "  %s = phi i64 [ %s, %%%s ], [ %s.next, %%%s ]\n", l.i.s, from.s, before.s, l.i.s, l.latch.s);
	return l;
}

void cg_close(cg *c, const cg_loop *l)
{
	if (l->once) return;
	cg_jump(c, l->latch);
	rt_putf(c->out, "  %s.next = add i64 %s, %s\n  %s.more = icmp slt i64 %s.next, %s\n  br i1 %s.more, label %%%s, label %%%s\n",
	        l->i.s, l->i.s, l->step.s, l->i.s, l->i.s, l->to.s, l->i.s, l->head.s, l->done.s);
	cg_label(c, l->done);
}

cg_str cg_hide(cg *c, cg_str x)
{
	int64_t known;
	if (is_number(x, &known)) return x;
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = call i64 asm sideeffect \"\", \"=r,0\"(i64 %s)\n", r.s, x.s);
	return r;
}

/* ---- elements and vectors ---- */
cg_str cg_elem(cg *c, tj_dtype t, cg_str base, cg_str index)
{
	if (!strcmp(index.s, "0")) return base;
	cg_str p = cg_tmp(c);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", p.s, cg_mem_type(t, 1).s, base.s, index.s);
	return p;
}

cg_str cg_read(cg *c, tj_dtype t, int lanes, cg_str p)
{
	cg_str v = cg_tmp(c);
	rt_putf(c->out, "  %s = load %s, ptr %s, align %d\n", v.s, cg_type(t, lanes).s, p.s, (int)tj_dtype_size(t));
	return v;
}

void cg_write(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p)
{
	rt_putf(c->out, "  store %s %s, ptr %s, align %d\n", cg_type(t, lanes).s, v.s, p.s, (int)tj_dtype_size(t));
}

cg_str cg_read_some(cg *c, tj_dtype t, int lanes, cg_str p, cg_str mask)
{
	cg_str v = cg_tmp(c), type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = call %s @llvm.masked.load.%s.p0(ptr %s, i32 %d, <%d x i1> %s, %s zeroinitializer)\n", v.s, type.s,
	        cg_mangle(t, lanes).s, p.s, (int)tj_dtype_size(t), lanes, mask.s, type.s);
	return v;
}

void cg_write_some(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p, cg_str mask)
{
	rt_putf(c->out, "  call void @llvm.masked.store.%s.p0(%s %s, ptr %s, i32 %d, <%d x i1> %s)\n", cg_mangle(t, lanes).s,
	        cg_type(t, lanes).s, v.s, p.s, (int)tj_dtype_size(t), lanes, mask.s);
}

cg_str cg_keep_absent(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p, cg_str mask)
{
	const cg_str old = cg_read(c, t, lanes, p), r = cg_tmp(c), type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = select <%d x i1> %s, %s %s, %s %s\n", r.s, lanes, mask.s, type.s, v.s, type.s, old.s);
	return r;
}

cg_str cg_first_lanes(cg *c, cg_str n, int lanes)
{
	cg_str low = cg_tmp(c), mask = cg_tmp(c);
	rt_putf(c->out, "  %s = trunc i64 %s to i32\n", low.s, n.s);
	cg_str all = cg_splat(c, "i32", low, lanes);
	rt_putf(c->out, "  %s = icmp sgt <%d x i32> %s, ", mask.s, lanes, all.s);
	cg_iota(c->out, "i32", 1, lanes);
	rt_puts(c->out, "\n");
	return mask;
}

cg_str cg_multiply_add(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b, cg_str sum)
{
	cg_str r = cg_tmp(c), type = cg_type(t, lanes);
	if (rt_is_float(t))
		rt_putf(c->out, "  %s = call %s @llvm.fma.%s(%s %s, %s %s, %s %s)\n", r.s, type.s, cg_mangle(t, lanes).s, type.s, a.s,
		        type.s, b.s, type.s, sum.s);
	else rt_putf(c->out, "  %s.m = mul %s %s, %s\n  %s = add %s %s, %s.m\n", r.s, type.s, a.s, b.s, r.s, type.s, sum.s, r.s);
	return r;
}

cg_str cg_sum(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, rt_is_float(t) ? "fadd" : "add", cg_type(t, lanes).s, a.s, b.s);
	return r;
}

void cg_put_dims(const cg *c, rt_text *t, int from, int to, cg_str number)
{
	for (int d = to - 1; d > from; d--) {
		cg_str rest = cg_fmt("%%n%d", d), ext = cg_int(c->k->dim[d]);
		rt_putf(t, "  %%d%d = urem i64 %s, %s\n", d, number.s, ext.s);
		rt_putf(t, "  %s = udiv i64 %s, %s\n", rest.s, number.s, ext.s);
		number = rest;
	}
	if (to > from) rt_putf(t, "  %%d%d = add i64 %s, 0\n", from, number.s);
}
