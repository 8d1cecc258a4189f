/* SPDX-License-Identifier: MIT */
/* lower: from a graph to a plan, pass by pass.
 *
 *   graph -> decomposed, DCE   ir_pass_decomp
 *         -> known values      known.c    what depends on constants alone is computed at once
 *         -> plain reductions  reduce.c   one group of adjacent axes each
 *         -> borders           border.c   edges of what rolls and pads are computed apart
 *         -> short axes        short.c    values along an axis of a few elements are taken apart
 *         -> repeat            repeat.c   values that are read at several places are computed at each
 *         -> groups            fuse.c     which group or step computes each value, and how it gets its operands
 *         -> steps             order.c    with kernels from kbuild.c, long reductions shared out by share.c, kernels joined to library
 *                                         calls by epilogue.c; control flow is a step, too (flowstep.c)
 *         -> aliases           alias.c    outputs that are written over an external
 *         -> bundles           bundle.c   steps that run at the same time
 *         -> offsets           memory.c
 *         -> plan              plan.c
 *         -> code              code.c     by the back end, all kernels in one job */
#include "lower/known.h"
#include "lower/loops.h"
#include "lower/low.h"

#include <ctype.h>

static tj_status nomem(rt_err *err)
{
	return rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
}

/* ---- the context of one lowering ---- */
static bool find_users(lo_low *L)
{
	const ir_graph *g = L->g;
	uint32_t n = g->node.n, total = 0, *at;
	L->nuser = lo_mem(L, sizeof *L->nuser * (n + 2));
	if (!L->nuser) return false;
	for (ir_ref r = 0; r < n; r++)
		for (int k = 0; k < ir_at(g, r)->nsrc; k++, total++) L->nuser[ir_src(g, ir_at(g, r), k) + 2]++;
	for (ir_ref r = 0; r < n; r++) L->nuser[r + 2] += L->nuser[r + 1];
	L->user = lo_mem(L, sizeof *L->user * (total + 1));
	if (!L->user) return false;
	at = L->nuser + 1; /* filling advances each start to the start of the next node, so begin one entry further on */
	for (ir_ref r = 0; r < n; r++)
		for (int k = 0; k < ir_at(g, r)->nsrc; k++) L->user[at[ir_src(g, ir_at(g, r), k)]++] = r;
	return true;
}

static bool open_low(lo_low *L)
{
	uint32_t n = L->g->node.n;
	L->val = lo_mem(L, sizeof *L->val * (n + 1));
	L->stamp = lo_mem(L, sizeof *L->stamp * (n + 1));
	if (!L->val || !L->stamp) return false;
	for (ir_ref r = 0; r < n; r++) L->val[r].buf = L->val[r].late = L->val[r].leaf = LO_NOBUF, L->val[r].group = LO_NOGROUP;
	return find_users(L) && lo_sort_inputs(L);
}

static void close_low(lo_low *L)
{
	for (uint32_t i = 0; i < L->step.n; i++) {
		rt_vec_free(&L->step.v[i].reads);
		rt_vec_free(&L->step.v[i].writes);
		if (!L->step.v[i].built) continue;
		lo_kernel_free(&L->step.v[i].built->k);
		lo_schedule_free(&L->step.v[i].built->s);
	}
	for (uint32_t i = 0; i < L->group.n; i++) {
		rt_vec_free(&L->group.v[i]->member);
		rt_vec_free(&L->group.v[i]->ahead);
		rt_vec_free(&L->group.v[i]->again);
		rt_vec_free(&L->group.v[i]->save);
	}
	rt_vec_free(&L->step);
	rt_vec_free(&L->line.late);
	rt_vec_free(&L->group);
	rt_vec_free(&L->buf);
	rt_arena_free(&L->mem);
}

/* ---- outputs ---- */
/* Output i is a carry that the region returns unchanged. */
static bool stays(const lo_low *L, uint32_t i)
{
	const ir_node *n = lo_node(L, L->g->out.v[i]);
	return i < L->o->carries && n->op == IR_input && ir_attr(L->g, n)[0] == (int64_t)i;
}

/* Gives each output its place: an external seen through strides, the value's own buffer, or a buffer of the output's own into
 * which the value is stored as well. */
static bool place_outputs(lo_low *L)
{
	for (uint32_t i = 0; i < L->g->out.n; i++) {
		ir_ref r = L->g->out.v[i];
		const ir_node *n = lo_node(L, r);
		rt_out *o = &L->out[i];
		lo_access a;
		*o = (rt_out){ .alias_ext = -1, .same_ext = -1 };
		if ((!L->o->store_all || stays(L, i)) && lo_seen_input(L, r, &a)) {
			o->same_ext = (int)ir_attr(L->g, lo_node(L, a.base))[0];
			o->offset = a.offset;
			o->rank = n->rank;
			memcpy(o->dim, lo_dim(L, r), sizeof *o->dim * n->rank);
			memcpy(o->stride, a.stride, sizeof *o->stride * n->rank);
			continue;
		}
		lo_val *v = &L->val[r];
		int64_t bytes = ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)n->dtype);
		uint32_t b = lo_new_buf(L, (lo_buffer){ .place = RT_AT_OUT, .device = n->device, .index = i, .bytes = bytes });
		if (b == LO_NOBUF) return false;
		if (v->how == LO_LEAF || v->buf != LO_NOBUF) lo_add_dest(L, r, b, IR_NONE, 0, NULL);
		else {
			v->buf = b;
			v->own = true;
		}
	}
	return !L->oom;
}

/* ---- the whole ---- */
static rt_plan *new_plan(int nout, size_t room)
{
	rt_arena mem = { 0 };
	rt_arena_room(&mem, room);
	rt_plan *p = rt_arena_alloc(&mem, sizeof *p);
	rt_out *out = p ? rt_arena_alloc(&mem, sizeof *out * (size_t)nout) : NULL;
	if (!out) {
		rt_arena_free(&mem);
		return NULL;
	}
	p->mem = mem;
	p->serial = rt_plan_serial();
	p->exec = (rt_exec){ .refs = 1,
		                 .nout = nout,
		                 .out = out,
		                 .run = rt_plan_run,
		                 .print = rt_plan_print,
		                 .destroy = rt_plan_destroy };
	return p;
}

/* Replaces characters that a symbol name or a line of kernel text cannot have. */
static void make_symbol(rt_text *t)
{
	for (char *p = t->s; p && *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("_-./", *p)) *p = '_';
}

/* Kernels are numbered in the order in which they run, and their schedules are complete. */
static tj_status finish_kernels(lo_low *L)
{
	for (uint32_t i = 0, n = 0; i < L->step.n; i++) {
		if (!L->step.v[i].built) continue;
		lo_kernel *k = &L->step.v[i].built->k;
		lo_schedule *s = &L->step.v[i].built->s;
		rt_text t = { 0 };
		rt_putf(&t, "tj_%s_k%u", L->o->name ? L->o->name : "f", n++);
		make_symbol(&t);
		k->name = lo_take_text(&t, &L->mem);
		if (!k->name) return nomem(L->err);
		s->grain = lo_grain(k, s);
		if (lo_verify(k, s, L->err) != TJ_OK) return L->err->code;
	}
	return TJ_OK;
}

static bool make_steps(lo_low *L)
{
	if (!lo_make_steps(L)) return false;
	lo_live_ranges(L);
	if (!(L->o->off & LO_OFF(ALIAS)) && !lo_find_aliases(L)) return false;
	if (!(L->o->off & LO_OFF(REUSE)) && !lo_find_reuse(L)) return false;
	if (!(L->o->off & LO_OFF(BUNDLE)) && !lo_bundle(L)) return false;
	return lo_layout(L);
}

static tj_status lower(lo_low *L, rt_plan *p)
{
	if (!open_low(L)) return nomem(L->err);
	lo_classify(L);
	if (!place_outputs(L) || !lo_group_all(L) || !make_steps(L)) return L->err->code != TJ_OK ? L->err->code : nomem(L->err);
	if (finish_kernels(L) != TJ_OK) return L->err->code;
	if (lo_make_plan(L, p) != TJ_OK || lo_generate(L, p) != TJ_OK) return L->err->code;
	if (L->o->see) L->o->see(L->o->see_env, L, p);
	return TJ_OK;
}

_Static_assert(LO_OFF(FOLD) == IR_OFF_FOLD && LO_OFF(CSE) == IR_OFF_CSE, "one set of bits");

/* Decomposed, with loops that compute only what is read, with plain reductions only, without borders and short axes, in `to`, which is
 * empty. known: what the graph reads besides, as o says then; the caller frees it. told: as for lo_repeat(). */
static tj_status prepare(const ir_graph *g, ir_graph *to, lo_opts *o, lo_knowns *known, lo_repeats *told, rt_err *err)
{
	enum { DECOMPOSED, KNOWN, LOOPS, PLAIN, BORDER, SHORT, REPEAT, STAGES };
	ir_graph stage[STAGES], *now = &stage[DECOMPOSED];
	bool did = false;
	for (int i = 0; i < STAGES; i++) ir_graph_init(&stage[i]), stage[i].off = (uint8_t)o->off;
	tj_status st = ir_pass_decomp(g, now, NULL, err);
	if (st == TJ_OK && o->target && !(o->off & LO_OFF(KNOWN))) st = lo_find_known(now, &stage[KNOWN], o, lo_build, known, &did, err);
	if (did) now = &stage[KNOWN], did = false, o->content = known->content, o->ncontent = known->ncontent;
	if (st == TJ_OK && !(o->off & LO_OFF(LOOPS)) && lo_has_flow(now)) {
		st = lo_loops(now, &stage[LOOPS], err);
		now = &stage[LOOPS];
	}
	if (st == TJ_OK) st = lo_plain(now, &stage[PLAIN], err);
	now = &stage[PLAIN];
	if (st == TJ_OK && o->target && !(o->off & LO_OFF(BORDER))) st = lo_border(now, &stage[BORDER], o, &did, err);
	if (did) now = &stage[BORDER], did = false;
	if (st == TJ_OK && o->target && !(o->off & LO_OFF(SHORT))) st = lo_short(now, &stage[SHORT], o, &did, err);
	if (did) now = &stage[SHORT], did = false;
	if (st == TJ_OK && o->target && !(o->off & LO_OFF(REPEAT))) st = lo_repeat(now, &stage[REPEAT], o, &did, told, err);
	if (did) now = &stage[REPEAT];
	*to = *now;
	ir_graph_init(now);
	for (int i = 0; i < STAGES; i++) ir_graph_free(&stage[i]);
	return st;
}

/* Exported files have code that depends on no line: what is in them must be found with tools and without. */
static bool tools_ask(const lo_opts *o) { return rt_tools() && !(o->store && o->store->in_memory); }

/* Returns flat if it is on the CPU only, else `placed`, made from it. The caller frees placed in any case. NULL: an error. */
static const ir_graph *place(const ir_graph *flat, ir_graph *placed, const lo_opts *o, rt_err *err)
{
	ir_graph_init(placed);
	placed->off = flat->off;
	if (!lo_on_devices(flat) && !o->to_cpu) return flat;
	return lo_assign_devices(flat, placed, o, err) == TJ_OK ? placed : NULL;
}

/* ---- regions of control flow: graphs of their own, lowered first ---- */
lo_opts lo_region_opts(const ir_graph *g, const ir_node *n, int k, const lo_opts *o)
{
	const bool loop = n->op == IR_scan || (n->op == IR_while && k == 1);
	lo_opts inner = *o;
	inner.into = NULL;
	inner.content = NULL;
	inner.ncontent = 0;
	inner.store_all = true;
	inner.to_cpu = n->op == IR_while && k == 0;
	inner.off |= LO_OFF(ALIAS); /* a region never writes over its inputs: turns alternate between two buffers */
	inner.carries = loop ? (uint32_t)ir_flow_carries(g, n) : 0;
	return inner;
}

static tj_status lower_region(const ir_graph *g, ir_ref r, int k, const lo_opts *o, rt_exec **out, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	rt_text name = { 0 };
	lo_opts inner = lo_region_opts(g, n, k, o);
	rt_putf(&name, "%s_%s%u_%s", o->name ? o->name : "f", ir_ops[n->op].name, r, ir_flow_info(n->op)->region[k]);
	inner.name = rt_str(&name);
	tj_status st = lo_build(ir_flow_region(g, n, k), &inner, out, err);
	rt_text_free(&name);
	return st;
}

static tj_status lower_regions(const ir_graph *g, const lo_opts *o, rt_exec *(**region)[2], rt_err *err)
{
	bool any = false;
	for (ir_ref r = 0; r < g->node.n; r++) any |= ir_is_flow(ir_at(g, r)->op);
	if (!any) return TJ_OK;
	bool *live = rt_alloc(g->node.n + 1u);
	*region = rt_calloc(sizeof **region * (g->node.n + 1u));
	tj_status st = TJ_OK;
	if (!live || !*region) st = rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
	else ir_live(g, live);
	for (ir_ref r = 0; st == TJ_OK && r < g->node.n; r++)
		for (int k = 0; st == TJ_OK && live[r] && ir_is_flow(ir_at(g, r)->op) && k < ir_flow_info(ir_at(g, r)->op)->nregion; k++)
			st = lower_region(g, r, k, o, &(*region)[r][k], err);
	rt_free(live);
	return st;
}

static void free_regions(const ir_graph *g, rt_exec *(*region)[2])
{
	for (ir_ref r = 0; region && r < g->node.n; r++)
		for (int k = 0; k < 2; k++) rt_exec_unref(region[r][k]);
	rt_free(region);
}

/* ---- one graph ---- */
/* Makes a plan for the plain graph `flat`; lowers its regions with the options `inner`. *missing: why a back end that it needs is missing.
 */
static tj_status build_plan(const ir_graph *flat, const lo_opts *o, const lo_opts *inner, rt_plan *p, const char **missing, rt_err *err)
{
	rt_exec *(*region)[2] = NULL;
	ir_graph placed;
	const ir_graph *there = place(flat, &placed, o, err);
	tj_status st = there ? lower_regions(there, inner, &region, err) : err->code;
	lo_low L = { .g = there, .o = o, .err = err, .region = region, .out = p->exec.out, .asked = flat, .devices = lo_on_devices(flat) };
	L.sites = tools_ask(o);
	if (st == TJ_OK) st = lower(&L, p);
	*missing = L.missing;
	close_low(&L);
	if (there) free_regions(there, region);
	ir_graph_free(&placed);
	return st;
}

/* Only a kernel that must be compiled opens a back end. If that is missing, the plan is made anew for the evaluator. */
static tj_status build_without(const ir_graph *flat, const lo_opts *o, rt_plan **p, const char *missing, rt_err *err)
{
	lo_opts plain = *o;
	plain.target = NULL;
	if (o->missing) *o->missing = missing;
	*err = (rt_err){ 0 };
	rt_exec_unref(&(*p)->exec);
	*p = new_plan((int)flat->out.n, 0);
	return *p ? build_plan(flat, &plain, lo_on_devices(flat) ? &plain : o, *p, &missing, err) : nomem(err);
}

static tj_status build(const ir_graph *g, const lo_opts *asked, rt_exec **out, rt_err *err)
{
	lo_opts completed = *asked, *o = &completed;
	lo_knowns known = { 0 };
	double t0 = rt_now_ms();
	rt_err own = { 0 };
	const char *missing = NULL;
	if (!err) err = &own;
	ir_graph flat;
	ir_graph_init(&flat);
	rt_plan *p = new_plan((int)g->out.n, o->room);
	tj_status st = p ? prepare(g, &flat, o, &known, NULL, err) : nomem(err);
	if (st == TJ_OK) st = build_plan(&flat, o, o, p, &missing, err);
	if (st != TJ_OK && missing) st = build_without(&flat, o, &p, missing, err);
	ir_graph_free(&flat);
	lo_knowns_free(&known);
	if (st != TJ_OK) {
		if (p) rt_exec_unref(&p->exec);
		return st;
	}
	p->exec.bytes = p->mem.total;
	p->exec.room = rt_arena_used(&p->mem);
	lo_count_regions(p);
	p->exec.lower_ms = rt_now_ms() - t0 - p->exec.codegen_ms;
	*out = &p->exec;
	return TJ_OK;
}

typedef struct building { const ir_graph *g; const lo_opts *o; rt_exec **out; rt_err *err; tj_status st; } building;

static void build_there(void *p)
{
	building *b = p;
	b->st = build(b->g, b->o, b->out, b->err);
}

/* The error when no stack is large enough. */
static tj_status no_stack(rt_err *err)
{
	rt_fail(err, TJ_ERR_NOMEM, "compile",
	        "compiling needs %d KiB of stack, this thread has %zu KiB left, and no thread with a larger stack could be created",
	        RT_LEAST_STACK >> 10, rt_stack_left() >> 10);
	rt_hint(err, "give the thread a larger stack: pthread_attr_setstacksize()");
	return TJ_ERR_NOMEM;
}

/* Lowering and LLVM recurse deeply: if the stack is small, another thread with a larger one does the work. */
tj_status lo_build(const ir_graph *g, const lo_opts *o, rt_exec **out, rt_err *err)
{
	building b = { g, o, out, err, TJ_OK };
	return rt_with_stack(build_there, &b) ? b.st : no_stack(err);
}

/* ---- up to the steps, without compiling ---- */
static tj_status dry_run(lo_low *L, bool steps)
{
	if (!open_low(L)) return nomem(L->err);
	lo_classify(L);
	bool ok = place_outputs(L) && lo_group_all(L) && (!steps || make_steps(L));
	if (ok) return steps ? finish_kernels(L) : TJ_OK;
	return L->err->code != TJ_OK ? L->err->code : nomem(L->err);
}

typedef struct rehearsal {
	const ir_graph *g;
	const lo_opts *o;
	bool steps;
	void (*visit)(lo_low *L, void *env);
	void *env;
	rt_err *err;
	tj_status st;
} rehearsal;

static void rehearse_there(void *p)
{
	rehearsal *r = p;
	ir_graph flat;
	lo_repeats repeats = { 0 };
	lo_knowns known = { 0 };
	lo_opts o = *r->o;
	ir_graph_init(&flat);
	rt_out *out = rt_alloc(sizeof *out * ((size_t)r->g->out.n + 1));
	r->st = out ? prepare(r->g, &flat, &o, &known, &repeats, r->err) : nomem(r->err);
	if (r->st == TJ_OK) {
		ir_graph placed;
		const ir_graph *there = place(&flat, &placed, &o, r->err);
		lo_low L = { .g = there, .o = &o, .err = r->err, .out = out, .asked = &flat, .devices = lo_on_devices(&flat), .repeats = &repeats };
		r->st = there ? dry_run(&L, r->steps) : r->err->code;
		if (r->st == TJ_OK) r->visit(&L, r->env);
		if (there) close_low(&L);
		ir_graph_free(&placed);
	}
	rt_free(out);
	rt_vec_free(&repeats.of);
	ir_graph_free(&flat);
	lo_knowns_free(&known);
}

tj_status lo_dry_run(const ir_graph *g, const lo_opts *o, bool steps, void (*visit)(lo_low *L, void *env), void *env, rt_err *err)
{
	rehearsal r = { g, o, steps, visit, env, err, TJ_OK };
	return rt_with_stack(rehearse_there, &r) ? r.st : no_stack(err);
}
