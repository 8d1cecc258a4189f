/* write: lines that several files write: arithmetic on indices, loops, loads and stores at computed addresses. */
#include "codegen_llvm/cg.h"

cg_str cg_op(cg *c, const char *name, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s i64 %s, %s\n", r.s, name, a.s, b.s);
	return r;
}

cg_str cg_cmp(cg *c, const char *how, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp %s i64 %s, %s\n", r.s, how, a.s, b.s);
	return r;
}

cg_str cg_choose(cg *c, cg_str when, const char *type, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = select i1 %s, %s %s, %s %s\n", r.s, when.s, type, a.s, type, b.s);
	return r;
}

cg_str cg_least(cg *c, cg_str a, cg_str b) { return cg_choose(c, cg_cmp(c, "slt", a, b), "i64", a, b); }

/* ---- loops ---- */
cg_loop cg_open(cg *c, const char *name, cg_str from, cg_str to, cg_str step, bool guard)
{
	const unsigned id = ++c->tmp;
	cg_loop l = { cg_fmt("%%%s%u", name, id), step, to, cg_fmt("%s%u.head", name, id), cg_fmt("%s%u.latch", name, id), cg_fmt("%s%u.done", name, id) };
	const cg_str before = c->block_label;
	if (guard) rt_putf(c->out, "  %s.some = icmp slt i64 %s, %s\n  br i1 %s.some, label %%%s, label %%%s\n", l.i.s, from.s, to.s, l.i.s, l.head.s, l.done.s);
	else rt_putf(c->out, "  br label %%%s\n", l.head.s);
	cg_label(c, l.head);
	rt_putf(c->out, "  %s = phi i64 [ %s, %%%s ], [ %s.next, %%%s ]\n", l.i.s, from.s, before.s, l.i.s, l.latch.s);
	return l;
}

void cg_close(cg *c, const cg_loop *l)
{
	cg_jump(c, l->latch);
	rt_putf(c->out, "  %s.next = add i64 %s, %s\n  %s.more = icmp slt i64 %s.next, %s\n  br i1 %s.more, label %%%s, label %%%s\n", l->i.s, l->i.s, l->step.s, l->i.s,
	        l->i.s, l->to.s, l->i.s, l->head.s, l->done.s);
	cg_label(c, l->done);
}

/* ---- elements and vectors ---- */
cg_str cg_elem(cg *c, tj_dtype t, cg_str base, cg_str index)
{
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
	rt_putf(c->out, "  %s = call %s @llvm.masked.load.%s.p0(ptr %s, i32 %d, <%d x i1> %s, %s zeroinitializer)\n", v.s, type.s, cg_mangle(t, lanes).s, p.s,
	        (int)tj_dtype_size(t), lanes, mask.s, type.s);
	return v;
}

void cg_write_some(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p, cg_str mask)
{
	rt_putf(c->out, "  call void @llvm.masked.store.%s.p0(%s %s, ptr %s, i32 %d, <%d x i1> %s)\n", cg_mangle(t, lanes).s, cg_type(t, lanes).s, v.s, p.s,
	        (int)tj_dtype_size(t), lanes, mask.s);
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
		rt_putf(c->out, "  %s = call %s @llvm.fma.%s(%s %s, %s %s, %s %s)\n", r.s, type.s, cg_mangle(t, lanes).s, type.s, a.s, type.s, b.s, type.s, sum.s);
	else rt_putf(c->out, "  %s.m = mul %s %s, %s\n  %s = add %s %s, %s.m\n", r.s, type.s, a.s, b.s, r.s, type.s, sum.s, r.s);
	return r;
}

cg_str cg_sum(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, rt_is_float(t) ? "fadd" : "add", cg_type(t, lanes).s, a.s, b.s);
	return r;
}
