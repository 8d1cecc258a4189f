/* SPDX-License-Identifier: MIT */
/* known: what depends on constants alone is computed once, when a plan is made, and not at each call.
 *
 * requires nothing; changes no op
 *
 *   %0 = input f32[9,9] slot=0          (constant)
 *   %1 = input f32[5,9] slot=1
 *   %2 = matmul f32[9,9] %0 %0                           %0 = input f32[9,9] slot=2      (computed beforehand)
 *   %3 = matmul f32[5,9] %1 %2               =>          %1 = input f32[5,9] slot=1
 *                                                        %3 = matmul f32[5,9] %1 %0
 *
 * Constants are externals whose content a guard checks (lo_opts.content), and data of the graph. What is computed from them is a plan of
 * its own, which runs at once; the plans of a function share its results (shelf.c). A value that takes more memory than the constants it is
 * made of stays what it is, unless it is made by a product or a reduction, which no reader would compute again: weights that are stored in
 * bytes are still read as bytes, and widened by the kernel of the product. */
#include "lower/known.h"
#include "lower/low.h"
#include "runtime/alloc.h"

enum {
	MOST_GROWTH = 8,     /* of what a product or a reduction makes, over the constants */
	LEAST_FILLED = 4096  /* bytes that a product would store of one number */
};

typedef struct made { ir_ref r; rt_shared *x; } made;

typedef struct pass {
	const ir_graph *g;
	const lo_opts *o;
	lo_builder *build;
	rt_arena mem;
	bool *known, *heavy;    /* by node: depends on constants alone; a product or a reduction is among what it is made of */
	int64_t *room;          /* by node: at least as many bytes as these constants have */
	bool *seen, *wanted;    /* by node: somebody reads it; it is computed beforehand */
	bool *filled;           /* by node: one number, which a product reads as many elements */
	bool *in;               /* by node: of the cones at hand */
	ir_ref *map, *src;
	uint64_t *id;           /* room for the ids of a label */
	int64_t first;          /* slot of the first of them */
	rt_vec(made) made;
} pass;

/* ---- what is known ---- */
static const lo_content *content_of(const pass *p, const ir_node *n)
{
	return n->op == IR_input ? lo_content_of(p->o, p->g, n) : NULL;
}

static bool is_leaf(int op) { return op == IR_const || op == IR_data; }

/* An op that only computes its result, and cannot fail. */
static bool is_plain(const ir_node *n)
{
	const int flags = ir_ops[n->op].flags;
	if (n->op >= IR_OPS || n->device != RT_CPU || n->nsrc == 0 || n->weak || ir_is_tuple(n) || n->alone) return false;
	if (flags & (IR_RNG | IR_FAULT | IR_EFFECT)) return false;
	return flags & (IR_POINT | IR_VIEW | IR_REDUCE) || n->op == IR_matmul || n->op == IR_cat;
}

static int64_t bytes_of(const pass *p, ir_ref r)
{
	return ir_numel(p->g, r) * (int64_t)tj_dtype_size((tj_dtype)ir_at(p->g, r)->dtype);
}

/* One number as the elements of a tensor. */
static bool is_filled(const ir_graph *g, const ir_node *n)
{
	return (n->op == IR_const && n->rank) || (n->op == IR_expand && ir_at(g, ir_src(g, n, 0))->op == IR_const);
}

/* Something may be computed beforehand. Most graphs have nothing. */
static bool has_constants(const ir_graph *g, const lo_opts *o)
{
	bool any = false;
	for (uint32_t i = 0; i < o->ncontent && !any; i++) any = o->content[i].id != 0;
	for (ir_ref r = 0; r < g->node.n && !any; r++) any = ir_at(g, r)->op == IR_data || is_filled(g, ir_at(g, r));
	return any;
}

static int64_t sum(int64_t a, int64_t b) { return a < INT64_MAX / 4 - b ? a + b : b; }

static void find_known(pass *p)
{
	for (ir_ref r = 0; r < p->g->node.n; r++) {
		const ir_node *n = ir_at(p->g, r);
		p->known[r] = is_leaf(n->op) || content_of(p, n) || is_plain(n);
		p->heavy[r] = n->op == IR_matmul || ir_ops[n->op].flags & IR_REDUCE;
		p->room[r] = n->op == IR_data || content_of(p, n) || is_filled(p->g, n) ? bytes_of(p, r) : 0;
		for (int k = 0; k < n->nsrc; k++) {
			const ir_ref x = ir_src(p->g, n, k);
			p->known[r] &= p->known[x];
			p->heavy[r] |= p->heavy[x];
			p->room[r] = sum(p->room[x], p->room[r]);
		}
	}
}

static bool computes(const pass *p, ir_ref r) { return ir_at(p->g, r)->op < IR_OPS && !(ir_ops[ir_at(p->g, r)->op].flags & IR_VIEW); }

/* Marks what the marked ones of the first n nodes are made of. */
static void mark_cones(const pass *p, uint32_t n)
{
	for (ir_ref r = n; r-- > 0;)
		for (int k = 0; p->in[r] && k < ir_at(p->g, r)->nsrc; k++) p->in[ir_src(p->g, ir_at(p->g, r), k)] = true;
}

static void mark_cone(const pass *p, ir_ref last)
{
	memset(p->in, 0, last + 1u);
	p->in[last] = true;
	mark_cones(p, last + 1);
}

/* Bytes of the constants that r is made of, each once. */
static int64_t made_of(const pass *p, ir_ref r)
{
	int64_t bytes = 0;
	mark_cone(p, r);
	for (ir_ref x = 0; x <= r; x++) {
		const ir_node *n = ir_at(p->g, x);
		const bool counts = p->in[x] && (n->op == IR_data || content_of(p, n) || (p->heavy[r] && is_filled(p->g, n)));
		if (counts) bytes = sum(bytes, bytes_of(p, x));
	}
	return bytes;
}

/* The constants are not known to be few before they are counted: p->room has one as often as there are ways to it. */
static bool is_worth(const pass *p, ir_ref r)
{
	const int64_t own = bytes_of(p, r), most = p->heavy[r] ? MOST_GROWTH : 1;
	return own > 0 && own / most <= p->room[r] && own / most <= made_of(p, r);
}

/* A product would store what it reads of one number, at each call. */
static void find_filled(pass *p, const ir_node *product)
{
	for (int k = 0; product->op == IR_matmul && k < 2; k++) {
		ir_ref r = ir_src(p->g, product, k);
		while (p->known[r] && ir_ops[ir_at(p->g, r)->op].flags & IR_VIEW && !is_filled(p->g, ir_at(p->g, r))) r = ir_src(p->g, ir_at(p->g, r), 0);
		p->filled[r] |= p->known[r] && is_filled(p->g, ir_at(p->g, r)) && bytes_of(p, r) >= LEAST_FILLED;
	}
}

/* Of a known value that is read: the value is computed beforehand, or else what it is computed from. true: there is something. */
static bool find_wanted(pass *p, const bool *live)
{
	bool any = false;
	for (ir_ref r = p->g->node.n; r-- > 0;) {
		const ir_node *n = ir_at(p->g, r);
		if (!live[r] || (p->known[r] && !p->seen[r])) continue;
		if (!p->known[r]) find_filled(p, n);
		p->wanted[r] = p->known[r] && (p->filled[r] || (computes(p, r) && is_worth(p, r)));
		any |= p->wanted[r];
		for (int k = 0; !p->wanted[r] && k < n->nsrc; k++) p->seen[ir_src(p->g, n, k)] = true;
	}
	return any;
}

/* ---- a label: all that a value is made of ---- */
static void put(rt_text *t, const void *p, size_t bytes) { rt_putn(t, p, bytes); }

static void put_node(const pass *p, ir_ref r, rt_text *t)
{
	const ir_node *n = ir_at(p->g, r);
	const uint32_t head[] = { n->op, n->mode, n->dtype, n->rank, n->weak, n->nsrc, n->nattr };
	const int slot = n->op == IR_input; /* the content stands for it */
	put(t, head, sizeof head);
	put(t, ir_dims(p->g, n), n->rank * sizeof(int64_t));
	for (int k = 0; k < n->nsrc; k++) put(t, &p->map[ir_src(p->g, n, k)], sizeof *p->map);
	if (n->op == IR_data) {
		uint64_t hash[2];
		const ir_blob *b = &p->g->data.v[ir_attr(p->g, n)[0]];
		rt_hash128(b->bytes, (size_t)b->nbytes, hash);
		put(t, hash, sizeof hash);
	} else if (n->nattr > slot) put(t, ir_attr(p->g, n) + slot, (size_t)(n->nattr - slot) * sizeof(int64_t));
}

/* *readable: the bytes of all constants are there. *cell: one of them may change. */
static void label_of(pass *p, ir_ref last, rt_text *form, lo_label *k, bool *readable, bool *cell)
{
	uint32_t number = 0;
	*k = (lo_label){ .place = rt_hash(NULL, 0, 1), .content = p->id };
	rt_puts(form, "value "); /* so that it is no form of panels */
	*readable = true, *cell = false;
	mark_cone(p, last);
	for (ir_ref r = 0; r <= last; r++) {
		const lo_content *c = p->in[r] ? content_of(p, ir_at(p->g, r)) : NULL;
		if (!p->in[r]) continue;
		put_node(p, r, form);
		p->map[r] = number++;
		if (!c) continue;
		p->id[k->ncontent++] = c->id;
		k->place = rt_hash(ir_attr(p->g, ir_at(p->g, r)), sizeof(int64_t), k->place);
		*readable &= c->data != NULL;
		*cell |= c->cell;
	}
	k->form = form->s, k->bytes = form->n;
}

/* ---- the plan that computes them ---- */
typedef struct job { ir_graph g; rt_vec(made) made; } job;

/* The value is on the shelf, or will be computed by the job. */
static bool obtain(pass *p, ir_ref r, job *j)
{
	rt_text form = { 0 };
	lo_label k;
	bool readable, cell;
	label_of(p, r, &form, &k, &readable, &cell);
	made m = { r, form.oom ? NULL : lo_shelf_find(p->o->shelf, &k) };
	bool ok = !form.oom;
	if (ok && m.x) ok = rt_push(&p->made, m);
	else if (ok && readable && (!cell || p->o->sealed || lo_shelf_takes(p->o->shelf, &k)))
		ok = (m.x = lo_copy_new(&k, (size_t)bytes_of(p, r))) && rt_push(&j->made, m);
	if (!ok && m.x) rt_shared_unref(m.x);
	rt_text_free(&form);
	return ok;
}

static bool copy_cones(pass *p, job *j)
{
	memset(p->in, 0, p->g->node.n);
	for (uint32_t i = 0; i < j->made.n; i++) p->in[j->made.v[i].r] = true;
	mark_cones(p, p->g->node.n);
	for (ir_ref r = 0; r < p->g->node.n; r++) {
		if (!p->in[r]) continue;
		for (int k = 0; k < ir_at(p->g, r)->nsrc; k++) p->src[k] = p->map[ir_src(p->g, ir_at(p->g, r), k)];
		if ((p->map[r] = ir_copy(&j->g, p->g, r, p->src)) == IR_NONE) return false;
	}
	for (uint32_t i = 0; i < j->made.n; i++)
		if (!ir_ret(&j->g, p->map[j->made.v[i].r])) return false;
	return true;
}

/* The kernels of the job are no others of the function: what code a plan gets must not depend on them. Contents are read once, so they get
 * no panels. */
static lo_opts opts_of(const pass *p, const char *name)
{
	return (lo_opts){ .name = name,
		          .target = p->o->target,
		          .settings = p->o->settings,
		          .int_div_zero = p->o->int_div_zero,
		          .off = p->o->off | LO_OFF(KNOWN),
		          .store = p->o->store,
		          .sealed = p->o->sealed };
}

static bool build(const pass *p, const job *j, const lo_opts *o, rt_exec **x)
{
	rt_err ignored = { 0 };
	*x = NULL;
	return p->build(&j->g, o, x, &ignored) == TJ_OK;
}

/* A plan that this CPU can run. Code for another one is made first, if that is asked for: an exported function has it, and its plans depend
 * on the values, so these must be computed everywhere: by the evaluator, where there is no code. */
static bool build_here(const pass *p, const job *j, rt_exec **x)
{
	rt_text name = { 0 };
	rt_putf(&name, "%s_known", p->o->name ? p->o->name : "f");
	lo_opts o = opts_of(p, rt_str(&name));
	bool ok = build(p, j, &o, x);
	const rt_cpu asked = rt_cpu_as((rt_cpu){ 0 }), own = rt_cpu_now();
	if (asked.bits > own.bits || asked.features & ~own.features) {
		if (ok) rt_exec_unref(*x);
		o.store = NULL;
		o.sealed = false;
		ok = build(p, j, &o, x);
	}
	o.target = NULL;
	o.sealed = false;
	ok = ok || build(p, j, &o, x);
	rt_cpu_as(asked);
	rt_text_free(&name);
	return ok;
}

static bool run(const pass *p, const job *j, const rt_exec *x)
{
	rt_err ignored = { 0 };
	const void **ext = rt_calloc(sizeof *ext * (p->o->ncontent + 1u));
	void **out = rt_calloc(sizeof *out * (j->made.n + 1u));
	rt_pool *pool = rt_pool_new();
	bool ok = ext && out && pool;
	for (uint32_t i = 0; ok && i < p->o->ncontent; i++) ext[i] = p->o->content[i].data;
	for (uint32_t i = 0; ok && i < j->made.n; i++) {
		out[i] = lo_copy_data(j->made.v[i].x);
		ok = x->out[i].same_ext < 0;
	}
	rt_run r = p->o->run ? *p->o->run : (rt_run){ 0 };
	r.pool = pool, r.ext = ext, r.num = NULL, r.out = out, r.err = &ignored, r.profile = false;
	ok = ok && x->run(x, &r) == TJ_OK;
	if (pool) rt_pool_free(pool);
	rt_free(out);
	rt_free(ext);
	return ok;
}

/* Moves the values of the job to those that are made. If there is no memory for them, the calls compute them. */
static void compute(pass *p, job *j)
{
	rt_exec *x = NULL;
	bool ok = !j->made.n || (copy_cones(p, j) && build_here(p, j, &x) && run(p, j, x));
	if (x) rt_exec_unref(x);
	for (uint32_t i = 0; i < j->made.n; i++) {
		rt_shared *c = j->made.v[i].x;
		if (ok && p->o->shelf) lo_shelf_keep(p->o->shelf, c);
		if (!ok || !rt_push(&p->made, j->made.v[i])) rt_shared_unref(c);
	}
}

/* ---- the graph that reads them ---- */
static tj_status rewrite(pass *p, ir_graph *to)
{
	for (ir_ref r = 0; r < p->g->node.n; r++) p->map[r] = IR_NONE;
	for (uint32_t i = 0; i < p->made.n; i++) {
		const ir_ref r = p->made.v[i].r;
		const ir_meta m = ir_meta_of(p->g, r);
		p->map[r] = ir_input(to, (int)(p->first + i), &m, NULL, ir_at(p->g, r)->site);
	}
	for (ir_ref r = 0; r < p->g->node.n; r++) {
		const ir_node *n = ir_at(p->g, r);
		if (p->map[r] != IR_NONE) continue;
		for (int k = 0; k < n->nsrc; k++) p->src[k] = p->map[ir_src(p->g, n, k)];
		if ((p->map[r] = ir_copy(to, p->g, r, p->src)) == IR_NONE) return to->err.code;
	}
	for (uint32_t i = 0; i < p->g->out.n; i++)
		if (!ir_ret(to, p->map[p->g->out.v[i]])) return to->err.code;
	return TJ_OK;
}

/* The contents of the options, and those of the values made. */
static bool put_contents(const pass *p, lo_knowns *k)
{
	const uint32_t n = (uint32_t)p->first + p->made.n;
	k->content = rt_calloc(sizeof *k->content * (n + 1u));
	if (!k->content) return false;
	if (p->o->ncontent) memcpy(k->content, p->o->content, sizeof *k->content * p->o->ncontent);
	for (uint32_t i = 0; i < p->made.n; i++) {
		rt_shared *x = p->made.v[i].x;
		k->content[p->first + i] = (lo_content){ .id = lo_copy_id(x), .data = lo_copy_data(x), .held = x };
		if (!rt_push(&k->held, rt_shared_ref(x))) return rt_shared_unref(x), false;
	}
	k->ncontent = n;
	return true;
}

static bool open_pass(pass *p)
{
	const uint32_t n = p->g->node.n;
	p->known = rt_arena_alloc(&p->mem, 6 * (size_t)n);
	p->room = rt_arena_alloc(&p->mem, sizeof *p->room * n);
	p->map = rt_arena_alloc(&p->mem, sizeof *p->map * n);
	p->src = rt_arena_alloc(&p->mem, sizeof *p->src * (p->g->refs.n + 1));
	p->id = rt_arena_alloc(&p->mem, sizeof *p->id * n);
	if (!p->known || !p->room || !p->map || !p->src || !p->id) return false;
	memset(p->known, 0, 6 * (size_t)n);
	p->heavy = p->known + n, p->seen = p->heavy + n, p->wanted = p->seen + n, p->filled = p->wanted + n;
	p->in = p->filled + n;
	p->first = p->o->ncontent > p->o->carries ? p->o->ncontent : p->o->carries;
	for (ir_ref r = 0; r < n; r++)
		if (ir_at(p->g, r)->op == IR_input && ir_attr(p->g, ir_at(p->g, r))[0] >= p->first) p->first = ir_attr(p->g, ir_at(p->g, r))[0] + 1;
	return true;
}

tj_status lo_find_known(const ir_graph *from, ir_graph *to, const lo_opts *o, lo_builder *builder, lo_knowns *k, bool *did, rt_err *err)
{
	pass p = { .g = from, .o = o, .build = builder };
	job j = { 0 };
	tj_status st = TJ_OK;
	*did = false;
	if (!has_constants(from, o)) return TJ_OK;
	ir_graph_init(&j.g);
	bool *live = rt_arena_alloc(&p.mem, from->node.n), ok = live && open_pass(&p);
	if (ok) ir_live(from, live), find_known(&p);
	if (ok && find_wanted(&p, live)) {
		for (ir_ref r = 0; ok && r < from->node.n; r++)
			if (p.wanted[r]) ok = obtain(&p, r, &j);
		compute(&p, &j);
	}
	if (ok && p.made.n) {
		*did = true;
		st = rewrite(&p, to);
		if (st != TJ_OK) *err = to->err;
		ok = put_contents(&p, k);
	}
	for (uint32_t i = 0; i < p.made.n; i++) rt_shared_unref(p.made.v[i].x);
	rt_vec_free(&p.made);
	rt_vec_free(&j.made);
	ir_graph_free(&j.g);
	rt_arena_free(&p.mem);
	return ok ? st : rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
}

void lo_knowns_free(lo_knowns *k)
{
	for (uint32_t i = 0; i < k->held.n; i++) rt_shared_unref(k->held.v[i]);
	rt_vec_free(&k->held);
	rt_free(k->content);
}
