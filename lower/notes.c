/* SPDX-License-Identifier: MIT */
/* notes: what lowering decided, and why: values that are stored, or that a kernel computes again, ops without a kernel, routines that were
 * chosen or are missing. None of it is stored: each request lowers the graph once more, up to the steps. */
#include "lower/library.h"

enum { SMALL = 64 << 10 }; /* bytes; stored values of less are told of together */

typedef struct notes {
	const rt_plan *plan; /* NULL: the program's own back end runs it, not a plan */
	lo_tell *tell;
	void *self;
	uint32_t routine, product, flow; /* how many such steps of the plan were visited */
} notes;

static lo_note of_node(const lo_low *L, lo_note_kind kind, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	return (lo_note){ .kind = kind, .op = ir_ops[n->op].name, .site = n->site, .other = "", .why = "", .hint = "" };
}

/* ---- what is stored ---- */
/* Bytes of memory that r takes between two steps; 0: none of its own. */
static int64_t stored(const lo_low *L, ir_ref r)
{
	const uint32_t b = L->val[r].buf;
	return b != LO_NOBUF && L->buf.v[b].place == RT_AT_ARENA ? L->buf.v[b].bytes : 0;
}

/* Why repeat.c left r whole; NULL: it did not look at it, or values that look like r had different reasons. */
static const lo_repeated *left_whole(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	const int64_t bytes = ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	const lo_repeated *of = NULL;
	for (uint32_t i = 0; L->repeats && i < L->repeats->of.n; i++) {
		const lo_repeated *x = &L->repeats->of.v[i];
		if (x->bytes != bytes || x->site != n->site || strcmp(x->op, ir_ops[n->op].name) != 0) continue;
		if (!x->why || (of && (of->why != x->why || of->places != x->places || of->work != x->work))) return NULL;
		of = x;
	}
	return of;
}

static void put_whole(const lo_repeated *x, rt_text *why)
{
	rt_putf(why, "it is read at %d places there, and not computed at each: ", x->places);
	if (x->most)
		rt_putf(why,
		        "that costs about %d instructions at each place, and at most %d for each element may be added; fewer places, or fewer "
		        "instructions, would avoid it",
		        x->work, x->most);
	else rt_puts(why, x->why);
}

/* r joined no group that reads it: tells the reason that the last of them gave. false: it did. */
static bool tell_refused(lo_low *L, const notes *t, ir_ref r)
{
	lo_val *v = &L->val[r];
	lo_note n = of_node(L, LO_NOTE_FUSION, r);
	uint32_t by = v->refused_by;
	const lo_group *G = lo_group_at(L, &by);
	if (by == v->group || !G->member.n) return false; /* merged since */
	const lo_repeated *x = strcmp(v->refused, LO_TORN) ? NULL : left_whole(L, r);
	const ir_node *o = lo_node(L, G->member.v[0]);
	rt_text why = { 0 };
	if (x) put_whole(x, &why);
	n.other = ir_ops[o->op].name;
	n.other_site = o->site;
	n.why = x && !why.oom ? rt_str(&why) : v->refused;
	n.hint = "its values go through memory between two kernels";
	n.bytes = stored(L, r);
	t->tell(t->self, &n);
	rt_text_free(&why);
	return true;
}

/* The member of the group that reads r, perhaps through views; IR_NONE: none does. */
static ir_ref reader_in(const lo_low *L, const lo_group *G, ir_ref r)
{
	for (uint32_t i = 0; i < G->member.n; i++)
		for (int k = 0; k < lo_node(L, G->member.v[i])->nsrc; k++) {
			ir_ref s = ir_src(L->g, lo_node(L, G->member.v[i]), k);
			while (s != r && L->val[s].how == LO_VIEW) s = ir_src(L->g, lo_node(L, s), 0);
			if (s == r) return G->member.v[i];
		}
	return IR_NONE;
}

static ir_ref reader_of(const lo_low *L, const lo_step *s, ir_ref r)
{
	return s->kind == LO_STEP_KERNEL ? reader_in(L, L->group.v[s->group], r) : s->ref;
}

static const char *in_memory(const lo_step *s)
{
	switch ((lo_kind)s->kind) {
	case LO_STEP_LIBRARY: return "a routine computes that, and reads its operands from memory";
	case LO_STEP_CALL: return "the evaluator computes that, and reads its operands from memory";
	case LO_STEP_FLOW: return "control flow gets its operands in memory";
	case LO_STEP_TO: return "it is copied to another device";
	default: return NULL;
	}
}

/* Why r, which only kernels read, is not computed in theirs. by: one of the readers. */
static const char *from_kernel(lo_low *L, ir_ref r, ir_ref by)
{
	const lo_val *v = &L->val[r];
	if (v->how == LO_LIB) return "a routine computes it, and stores its result";
	if (v->how == LO_CALL && ir_is_flow(lo_node(L, r)->op)) return "control flow stores its results";
	if (v->how == LO_CALL) return "the evaluator computes it, and stores its result";
	if (v->how == LO_CAT) return "its operands are stored side by side";
	if (v->how == LO_VIEW) return "rows of it, as that reads them, have no one stride, or their elements lie far apart";
	const lo_use *made = by == IR_NONE ? NULL : L->val[by].made;
	if (made && made->table && made->table->base == r) return "that reads it at indices which are known only when it runs";
	return "that is in another kernel than the one that computes it";
}

/* Names the two readers that did not become one kernel, and why; false: they did since, or none were tried. */
static bool put_parted(lo_low *L, ir_ref r, lo_note *n, rt_text *why)
{
	const lo_val *v = &L->val[r];
	uint32_t a = v->parts[0], b = v->parts[1];
	if (!v->parted) return false;
	const lo_group *A = lo_group_at(L, &a), *B = lo_group_at(L, &b);
	const ir_ref x = a == b ? IR_NONE : reader_in(L, A, r), y = reader_in(L, B, r);
	if (x == IR_NONE || y == IR_NONE) return false;
	n->other = ir_ops[lo_node(L, x)->op].name;
	n->other_site = lo_node(L, x)->site;
	const char *site = lo_node(L, y)->site;
	rt_putf(why, "another kernel computes %s at %s from it: ", ir_ops[lo_node(L, y)->op].name, site ? site : "?");
	rt_puts(why, v->parted);
	return true;
}

static void tell_stored(lo_low *L, const notes *t, ir_ref r)
{
	lo_note n = of_node(L, LO_NOTE_STORED, r);
	const lo_step *by = NULL;
	rt_text why = { 0 };
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		if (lo_touches(s, L->val[r].buf, false) && (!by || !in_memory(by))) by = s;
	}
	if (!by) return;
	const ir_ref reader = reader_of(L, by, r);
	n.other = reader == IR_NONE ? "a copy of it" : ir_ops[lo_node(L, reader)->op].name;
	n.other_site = reader == IR_NONE ? n.site : lo_node(L, reader)->site;
	n.bytes = stored(L, r);
	if (in_memory(by)) rt_puts(&why, in_memory(by));
	else if (L->val[r].how != LO_FUSE || !put_parted(L, r, &n, &why)) rt_puts(&why, from_kernel(L, r, reader));
	n.why = rt_str(&why);
	t->tell(t->self, &n);
	rt_text_free(&why);
}

/* Small values that nothing else is said of, in one note, which names the first. */
static void tell_small(lo_low *L, const notes *t, ir_ref first, int count, int64_t bytes)
{
	lo_note n = of_node(L, LO_NOTE_STORED, first);
	rt_text why = { 0 };
	if (count < 2) {
		if (count) tell_stored(L, t, first);
		return;
	}
	rt_putf(&why, "and so %s %d more of less than %d KiB", count > 2 ? "are" : "is", count - 1, SMALL >> 10);
	n.why = rt_str(&why);
	n.bytes = bytes;
	t->tell(t->self, &n);
	rt_text_free(&why);
}

static void tell_memory(lo_low *L, const notes *t)
{
	ir_ref first = 0;
	int64_t sum = 0;
	int count = 0;
	for (ir_ref r = 0; r < L->g->node.n; r++) {
		const int64_t bytes = stored(L, r);
		if ((L->val[r].refused && tell_refused(L, t, r)) || !bytes || !lo_target_of(L, r)) continue;
		if (bytes >= SMALL) {
			tell_stored(L, t, r);
			continue;
		}
		if (!count++) first = r;
		sum += bytes;
	}
	tell_small(L, t, first, count, sum);
}

/* ---- memory ---- */
static void tell_again(const lo_low *L, const notes *t, const lo_group *G)
{
	for (uint32_t i = 0; i < G->again.n && G->member.n; i++) {
		const ir_ref r = G->again.v[i]->value;
		const ir_node *o = lo_node(L, G->member.v[0]);
		lo_note n = of_node(L, LO_NOTE_MEMORY, r);
		rt_text why = { 0 };
		n.other = ir_ops[o->op].name;
		n.other_site = o->site;
		rt_putf(&why, "its %lld bytes need not be kept until then",
		        (long long)(ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, r)->dtype)));
		n.why = why.oom ? "it need not be kept until then" : rt_str(&why);
		t->tell(t->self, &n);
		rt_text_free(&why);
	}
}

static void tell_repeated(const lo_low *L, const notes *t)
{
	for (uint32_t i = 0; L->repeats && i < L->repeats->of.n; i++) {
		const lo_repeated *x = &L->repeats->of.v[i];
		if (x->why) continue;
		lo_note n = { .kind = LO_NOTE_MEMORY, .op = x->op, .site = x->site, .other = x->reader, .other_site = x->reader_site, .hint = "" };
		rt_text why = { 0 };
		rt_putf(&why, "it is read at %d places there, and its %lld bytes need not be stored", x->places, (long long)x->bytes);
		n.why = why.oom ? "it need not be stored" : rt_str(&why);
		t->tell(t->self, &n);
		rt_text_free(&why);
	}
}

/* ---- evaluator ---- */
static const char *without_kernel(const ir_node *n)
{
	const ir_opinfo *info = &ir_ops[n->op];
	if (info->flags & IR_POINT) return "no kernel computes it for this dtype";
	if (info->flags & IR_RNG) return "kernels draw floats only";
	if (lo_is_gather((ir_op)n->op)) return "it reads from a tensor without elements";
	return "no kernel can index its operands";
}

static void tell_call(lo_low *L, const notes *t, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	lo_note note = of_node(L, LO_NOTE_EVALUATOR, r);
	note.other = "evaluator";
	note.why = without_kernel(n);
	note.hint = "it runs on one thread, element by element; cast its operands to f32, or compute it from other ops";
	t->tell(t->self, &note);
}

/* ---- devices ---- */
/* Node n of a graph is on a device that does not compute it, so lo_assign_devices moved it to the CPU. */
static void tell_moved(const lo_low *L, const notes *t, const ir_node *n)
{
	const char *device = rt_device_at(n->device)->name;
	lo_note note = { .kind = LO_NOTE_DEVICE, .op = ir_ops[n->op].name, .site = n->site, .other = "CPU", .other_site = "" };
	rt_text why = { 0 };
	const lo_target *target = lo_target_on(L->o, n->device);
	const bool many = n->op == IR_matmul && n->rank == TJ_MAX_RANK;
	const char *lacks = many ? "kernels have sixteen dimensions, and a product needs one more than its result has axes"
	                    : lo_is_gather((ir_op)n->op) ? without_kernel(n)
	                                                 : lo_lacks(target, (ir_op)n->op, (tj_dtype)n->dtype);
	if (!target) rt_putf(&why, "no back end computes on %s", device);
	else if (lacks) rt_puts(&why, lacks);
	else rt_putf(&why, "no kernel of %s computes it on this dtype or layout", device);
	note.why = why.oom ? "its device has no kernel for it" : rt_str(&why);
	note.hint = "each call copies its operands to the host and its result back: cast them to f32, or compute it from other ops";
	t->tell(t->self, &note);
	rt_text_free(&why);
}

static void tell_devices(const lo_low *L, const notes *t)
{
	const ir_graph *g = L->asked;
	bool *live = rt_alloc(g->node.n + 1u);
	if (live && g != L->g && ir_live(g, live))
		for (ir_ref r = 0; r < g->node.n; r++) {
			const ir_node *n = ir_at(g, r);
			const bool created = n->op == IR_const || n->op == IR_data;
			if (live[r] && !created && !lo_stays(g, n, L->o)) tell_moved(L, t, n);
		}
	rt_free(live);
}

/* ---- library ---- */
/* The plan has routines and control flow in the order of L's steps. */
static const rt_step *next_step(const rt_plan *p, uint32_t *at)
{
	return p && *at < p->nstep ? &p->step[(*at)++] : NULL;
}

static void tell_library(lo_low *L, notes *t, const lo_step *l)
{
	const lo_routine *x = lo_routine_of(lo_target_of(L, l->ref), (ir_op)lo_node(L, l->ref)->op);
	const rt_step *s;
	lo_note n = of_node(L, LO_NOTE_LIBRARY, l->ref);
	do s = next_step(t->plan, &t->routine);
	while (s && s->routine != &x->code);
	if (!s) return;
	x->why(s, &n);
	if (l->apart && !*n.hint) n.hint = l->apart;
	t->tell(t->self, &n);
}

/* A kernel computes product r, although a routine does others, or the settings prefer one. A plan that was made before anybody knew that
 * the library lacks something still has the routine's step. */
static void tell_kernel(const lo_low *L, notes *t, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	const lo_target *target = lo_target_of(L, r);
	const lo_routine *x = lo_routine_of(target, (ir_op)n->op);
	if (!x || (x->when && !(x->when & L->o->settings))) return;
	lo_note note = of_node(L, LO_NOTE_LIBRARY, r);
	note.other = "a kernel";
	note.why = lo_rather(target, L->g, n, L->o->settings);
	const rt_step *s = NULL;
	if (note.why == lo_lacks(target, (ir_op)n->op, (tj_dtype)n->dtype))
		do s = next_step(t->plan, &t->product);
		while (s && s->routine != &x->code);
	if (s) x->why(s, &note);
	if (note.why) t->tell(t->self, &note);
}

/* The kernel of the step computes a product of bf16 two steps at a time. */
static void tell_pairs(const lo_low *L, const notes *t, const lo_step *s)
{
	lo_tiles x;
	const lo_group *G = L->group.v[s->group];
	if (!G->product || !rt_bf16_pairs() || !lo_tiles_of(&s->built->k, &x) || !(x.pairs || x.ordered)) return;
	for (uint32_t i = 0; i < G->member.n; i++) {
		if (!lo_is_product(L, G->member.v[i])) continue;
		lo_note n = of_node(L, LO_NOTE_LIBRARY, G->member.v[i]);
		n.other = "a kernel that multiplies two bf16 at a time (vdpbf16ps)";
		n.why = x.pairs ? "TJ_FAST allows its order of the sum, and that subnormal numbers become 0"
		                : "this CPU adds them in the order of strict mode";
		t->tell(t->self, &n);
	}
}

static void tell_regions(lo_low *L, notes *t, ir_ref r)
{
	const rt_step *s;
	do s = next_step(t->plan, &t->flow);
	while (s && s->kind != RT_STEP_FLOW);
	for (int k = 0; s && k < ir_flow_info(lo_node(L, r)->op)->nregion; k++) {
		const lo_opts o = lo_region_opts(L->g, lo_node(L, r), k, L->o);
		lo_notes(ir_flow_region(L->g, lo_node(L, r), k), &o, s->flow->region[k], t->tell, t->self, L->err);
	}
}

static void visit(lo_low *L, void *env)
{
	notes *t = env;
	tell_memory(L, t);
	for (uint32_t i = 0; i < L->group.n; i++)
		if (L->group.v[i]->merged == LO_NOGROUP) tell_again(L, t, L->group.v[i]);
	tell_repeated(L, t);
	for (ir_ref r = 0; r < L->g->node.n; r++)
		if (lo_is_product(L, r)) tell_kernel(L, t, r);
	tell_devices(L, t);
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		if (!L->o->target) {
			t->tell(t->self, &(lo_note){ LO_NOTE_EVALUATOR, "every op", lo_node(L, s->ref)->site, "evaluator", NULL,
			                             "it was requested, or there is no back end: tj_backends() says why", "", 0 });
			return;
		}
		if (s->kind == LO_STEP_KERNEL) tell_pairs(L, t, s);
		if (s->kind == LO_STEP_CALL) tell_call(L, t, s->ref);
		if (s->kind == LO_STEP_LIBRARY) tell_library(L, t, s);
		if (s->kind == LO_STEP_FLOW) tell_regions(L, t, s->ref);
	}
}

tj_status lo_notes(const ir_graph *g, const lo_opts *o, const rt_exec *x, lo_tell *tell, void *self, rt_err *err)
{
	notes t = { .tell = tell, .self = self };
	if (x->run != rt_plan_run) return TJ_OK; /* the program's own back end decided */
	t.plan = (const rt_plan *)x;
	rt_err own = { 0 };
	tj_status st = lo_dry_run(g, o, true, visit, &t, &own);
	return st == TJ_OK ? st : rt_fail(err, st, "lower", "%s", own.message);
}
