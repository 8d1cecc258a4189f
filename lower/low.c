/* SPDX-License-Identifier: MIT */
/* low: functions on lo_low that several passes use. */
#include "lower/low.h"

void *lo_mem(lo_low *L, size_t bytes)
{
	void *p = rt_arena_alloc(&L->mem, bytes ? bytes : 1);
	if (!p) L->oom = true;
	return p;
}

bool lo_touches(const lo_step *s, uint32_t buf, bool write)
{
	const uint32_t n = write ? s->writes.n : s->reads.n;
	for (uint32_t i = 0; i < n; i++)
		if ((write ? s->writes.v : s->reads.v)[i] == buf) return true;
	return false;
}

void lo_touch(lo_low *L, lo_step *s, uint32_t buf, bool write)
{
	if (lo_touches(s, buf, write)) return;
	if (write ? !rt_push(&s->writes, buf) : !rt_push(&s->reads, buf)) L->oom = true;
}

rt_at *lo_step_operands(rt_plan *p, rt_step *t, uint32_t n)
{
	t->nbuf = n;
	return t->at = rt_arena_alloc(&p->mem, sizeof *t->at * (n + 1));
}

/* Adjacent kernels mostly come from the same object, so only the last reference is compared. */
void lo_hold(rt_plan *p, rt_shared *x)
{
	if (p->nshared && p->shared[p->nshared - 1] == x) rt_shared_unref(x);
	else if (x) p->shared[p->nshared++] = x;
}

char *lo_take_text(rt_text *t, rt_arena *mem)
{
	char *s = t->oom ? NULL : rt_arena_strdup(mem, rt_str(t));
	rt_text_free(t);
	return s;
}

ir_ref lo_step_reads(const lo_low *L, ir_ref r, int k)
{
	const ir_node *n = lo_node(L, r);
	const ir_ref src = ir_src(L->g, n, k);
	const ir_node *c = lo_node(L, src);
	if (ir_ops[n->op].opclass != IR_SCATTER || k != 1 || L->val[r].how != LO_LIB || n->device != RT_CPU || c->op != IR_cast) return src;
	return rt_is_float((tj_dtype)lo_node(L, ir_src(L->g, c, 0))->dtype) ? src : ir_src(L->g, c, 0);
}
