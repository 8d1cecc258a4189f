/* SPDX-License-Identifier: MIT */
/* epilogue: a product and the kernel after it become one step, the call of a library that computes both.
 *
 * requires steps made, with kernels built, and not ordered; the step keeps the kernel, for a library that refuses the call
 *
 *   library matmul                         library matmul, bias, relu
 *   kernel                           =>      or, decided by the run time: library matmul, then the kernel, in place
 *     %0 = load b0 [16*d0 + 1*d1]
 *     %1 = load b1 [1*d1]
 *     %2 = add %0 %1
 *     ...                                  relu
 *     store b2 [16*d0 + 1*d1]
 *
 * Nothing else may read the product. The kernel must compute activation(product + bias), or one half of that, and no more; it must read
 * and write the product row by row, and the bias along each row. Ops are compared in the graph, places in the kernel. */
#include "lower/library.h"
#include "runtime/settings.h"

typedef struct tail {        /* what a kernel computes of a product */
	ir_ref product, sum;     /* sum: product + bias, or IR_NONE */
	lo_activation activation;
	uint32_t bias;           /* the buffer of the bias; LO_NOBUF: none */
	int64_t bias_at;         /* elements */
} tail;

/* ---- ops ---- */
static ir_ref behind_views(const lo_low *L, ir_ref r)
{
	while (L->val[r].how == LO_VIEW) r = ir_src(L->g, lo_node(L, r), 0);
	return r;
}

/* r is computed as node `at` of t, whose only input is *x. Marks what is computed. */
static bool computes(lo_low *L, ir_ref r, const ir_graph *t, ir_ref at, ir_ref *x)
{
	const ir_node *want = ir_at(t, at), *n = lo_node(L, r = behind_views(L, r));
	if (want->op == IR_input) {
		if (*x == IR_NONE) *x = r;
		return *x == r;
	}
	if (n->op != want->op || n->dtype != want->dtype || n->nsrc != want->nsrc || n->nattr != want->nattr) return false;
	if (n->nattr && memcmp(ir_attr(L->g, n), ir_attr(t, want), sizeof(int64_t) * n->nattr) != 0) return false;
	L->stamp[r] = L->now;
	for (int k = 0; k < n->nsrc; k++)
		if (!computes(L, ir_src(L->g, n, k), t, ir_src(t, want, k), x)) return false;
	return true;
}

/* The operand of the GELU that r is, by the definition of that composite; IR_NONE: r is none. */
static ir_ref gelu_of(lo_low *L, ir_ref r)
{
	ir_graph one, steps;
	ir_ref x = IR_NONE;
	const ir_meta m = ir_meta_of(L->g, r);
	ir_graph_init(&one);
	ir_graph_init(&steps);
	one.off = steps.off = L->g->off;
	bool ok = ir_ret(&one, ir_op1(&one, IR_gelu_tanh, ir_input(&one, 0, &m, NULL, NULL), NULL));
	ok = ok && ir_pass_decomp(&one, &steps, NULL, NULL) == TJ_OK && computes(L, r, &steps, steps.out.v[0], &x);
	ir_graph_free(&one);
	ir_graph_free(&steps);
	return ok ? x : IR_NONE;
}

static bool has_member(const lo_low *L, const lo_group *G, ir_op op)
{
	for (uint32_t i = 0; i < G->member.n; i++)
		if (lo_node(L, G->member.v[i])->op == op) return true;
	return false;
}

/* Strips the activation, if there is one: returns its operand. */
static ir_ref activation_of(lo_low *L, const lo_group *G, ir_ref r, lo_activation *a)
{
	const ir_ref x = has_member(L, G, IR_tanh) ? gelu_of(L, r) : IR_NONE;
	*a = x != IR_NONE ? LO_ACT_GELU : LO_ACT_NONE;
	if (x != IR_NONE) return x;
	if (lo_node(L, r)->op != IR_relu) return r;
	*a = LO_ACT_RELU;
	L->stamp[r] = L->now;
	return behind_views(L, ir_src(L->g, lo_node(L, r), 0));
}

/* The group computes nothing but what is marked. */
static bool all_marked(const lo_low *L, const lo_group *G)
{
	for (uint32_t i = 0; i < G->member.n; i++) {
		const ir_ref r = G->member.v[i];
		if (L->val[r].how != LO_VIEW && L->stamp[r] != L->now) return false;
	}
	return true;
}

static bool is_product(const lo_low *L, ir_ref r)
{
	const lo_routine *x = L->val[r].how == LO_LIB ? lo_routine_of(lo_target_of(L, r), (ir_op)lo_node(L, r)->op) : NULL;
	return x && x->epilogues;
}

/* ---- places ---- */
/* Elements with this index are visited one after the other, all n of them. */
static bool in_order(const lo_kernel *k, const lo_index *x, int64_t n)
{
	int64_t step = 1;
	for (int d = k->ndim - 1; d >= 0; d--) {
		if (k->dim[d] > 1 && x->coef[d] != step) return false;
		step *= k->dim[d];
	}
	return step == n && !x->offset && !x->rcoef;
}

/* `all` numbers elements in order: x is the number within its row of n elements, plus an offset. A dimension goes along a row, or from row
 * to row. */
static bool along_rows(const lo_kernel *k, const lo_index *all, const lo_index *x, int64_t n)
{
	for (int d = 0; d < k->ndim; d++) {
		const int64_t step = all->coef[d];
		if (k->dim[d] <= 1) continue;
		if (step < n ? step * k->dim[d] > n || x->coef[d] != step : step % n || x->coef[d]) return false;
	}
	return !x->rcoef;
}

typedef struct accesses { const lo_ins *product, *bias, *store; } accesses;

/* The kernel loads each element of `buf` once, one element of another buffer at the most, and stores one value. */
static bool accesses_of(const lo_built *b, uint32_t buf, accesses *a)
{
	*a = (accesses){ NULL, NULL, NULL };
	for (uint32_t i = 0; i < b->k.ins.n; i++) {
		const lo_ins *in = &b->k.ins.v[i], **to;
		if (in->op == LO_FAULT || in->op == LO_NUM || in->op == LO_REDUCE || in->op == LO_PART) return false;
		if (in->op != LO_LOAD && in->op != LO_STORE) continue;
		to = in->op == LO_STORE ? &a->store : b->buf[in->buf] == buf ? &a->product : &a->bias;
		if (*to || in->dyn != LO_NOREF) return false;
		*to = in;
	}
	return a->product && a->store;
}

/* Product, bias and result lie as the library wants them. Fills in the bias. */
static bool lies_so(lo_low *L, const lo_built *b, tail *x)
{
	const ir_node *n = lo_node(L, x->product);
	const lo_kernel *k = &b->k;
	accesses a;
	if (!accesses_of(b, L->val[x->product].buf, &a) || (a.bias != NULL) != (x->sum != IR_NONE)) return false;
	if (a.product->dtype != n->dtype || a.store->dtype != n->dtype || (a.bias && a.bias->dtype != n->dtype)) return false;
	const lo_index *all = &k->index.v[a.store->index];
	if (!in_order(k, all, ir_numel(L->g, x->product)) || memcmp(all, &k->index.v[a.product->index], sizeof *all) != 0) return false;
	x->bias = a.bias ? b->buf[a.bias->buf] : LO_NOBUF;
	x->bias_at = a.bias ? k->index.v[a.bias->index].offset : 0;
	lo_product p;
	lo_product_of(L, x->product, &p);
	return !a.bias || (L->buf.v[x->bias].place != RT_AT_NUM && along_rows(k, all, &k->index.v[a.bias->index], p.n));
}

/* ---- what a step's kernel computes ---- */
/* Operand k of the member is read from memory as it is. */
static bool is_loaded(const lo_low *L, ir_ref r, int k)
{
	const lo_use *u = L->val[r].made ? L->val[r].made->src[k] : NULL;
	while (u && u->from == LO_FROM_VIEW) u = u->src[0];
	return u && u->from == LO_FROM_LOAD;
}

static bool tail_of(lo_low *L, const lo_step *s, tail *x)
{
	const lo_group *G = L->group.v[s->group];
	if (G->reduces || G->save.n != 1 || !G->member.n) return false;
	L->now++;
	const ir_ref r = activation_of(L, G, behind_views(L, G->save.v[0].value), &x->activation);
	const ir_node *n = lo_node(L, r);
	const bool sum = n->op == IR_add;
	x->sum = sum ? r : IR_NONE;
	if (sum) L->stamp[r] = L->now;
	if (!all_marked(L, G) || (!sum && !x->activation)) return false;
	for (int k = 0; k < (sum ? 2 : 1); k++) {
		x->product = sum ? behind_views(L, ir_src(L->g, n, k)) : r;
		if (is_product(L, x->product) && (!sum || is_loaded(L, r, !k)) && lies_so(L, s->built, x)) return true;
	}
	return false;
}

/* ---- whether it may be an epilogue ---- */
static bool is_fast(const lo_low *L, ir_ref r) { return lo_node(L, r)->mode & IR_FAST; }

static bool is_strict(const lo_low *L, const lo_group *G, const tail *x)
{
	bool fast = is_fast(L, x->product);
	for (uint32_t i = 0; i < G->member.n; i++) fast |= is_fast(L, G->member.v[i]);
	return !fast;
}

/* A library adds a bias of f32 or f64 to the sum, which has that dtype, and rounds once, as the kernel does. All else gives other bits. */
static const char *other_bits(const lo_low *L, const lo_group *G, const tail *x)
{
	const bool narrow = rt_is_narrow((tj_dtype)lo_node(L, x->product)->dtype);
	bool fast = !narrow || (is_fast(L, x->product) && (x->sum == IR_NONE || is_fast(L, x->sum)));
	for (uint32_t i = 0; i < G->member.n; i++) {
		const ir_ref r = G->member.v[i];
		fast &= L->val[r].how == LO_VIEW || r == x->sum || is_fast(L, r);
	}
	if (fast) return NULL;
	if (narrow)
		return "a kernel of its own computes what follows: each op rounds to the dtype, the library would round once; TJ_FAST allows that";
	return x->activation == LO_ACT_RELU ? "a kernel of its own computes what follows: the library may make 0 of NaN; TJ_FAST allows that"
	                                    : "a kernel of its own computes what follows: the library's GELU has other bits; TJ_FAST allows them";
}

static const char *refusal(const lo_low *L, const lo_group *G, const tail *x, uint32_t readers)
{
	const lo_val *v = &L->val[x->product];
	if (L->o->settings & RT_NO_EPILOGUES) return "a kernel of its own computes what follows: the context's settings ask for it";
	if (readers > 1 || v->dest || L->buf.v[v->buf].place != RT_AT_ARENA)
		return "a kernel of its own computes what follows: the product is needed without it, too";
	return other_bits(L, G, x);
}

/* An activation or the sum with a vector follows the product: a reader may wonder why the call does not compute it. */
static bool might_follow(const lo_low *L, ir_ref r, int64_t columns)
{
	for (uint32_t i = L->nuser[r]; i < L->nuser[r + 1]; i++) {
		const ir_ref u = L->user[i];
		const ir_node *n = lo_node(L, u);
		if (L->val[u].how == LO_VIEW && might_follow(L, u, columns)) return true;
		if (n->op == IR_relu) return true;
		for (int k = 0; n->op == IR_add && k < 2; k++)
			if (behind_views(L, ir_src(L->g, n, k)) != behind_views(L, r) && ir_numel(L->g, ir_src(L->g, n, k)) == columns) return true;
	}
	return false;
}

static void tell_apart(lo_low *L, lo_step *s)
{
	lo_product p;
	lo_product_of(L, s->ref, &p);
	if (might_follow(L, s->ref, p.n))
		s->apart =
			"a kernel of its own computes what follows: one call can add a bias of adjacent elements, then compute ReLU or GELU in its tanh form, "
			"and no more";
}

/* ---- joining ---- */
static lo_step *step_of(lo_low *L, ir_ref product)
{
	for (uint32_t i = 0; i < L->step.n; i++)
		if (L->step.v[i].kind == LO_STEP_LIBRARY && L->step.v[i].ref == product) return &L->step.v[i];
	return NULL;
}

static void drop(lo_step *s)
{
	rt_vec_free(&s->reads);
	rt_vec_free(&s->writes);
	*s = (lo_step){ .ref = IR_NONE };
}

/* The step writes the kernel's result, and the kernel reads the product from there. */
static void join(lo_low *L, lo_step *to, lo_step *kernel, const tail *x)
{
	lo_built *b = kernel->built;
	lo_val *v = &L->val[x->product];
	const uint32_t was = v->buf, now = kernel->writes.v[0];
	lo_epilogue *e = lo_mem(L, sizeof *e);
	if (!e) return;
	*e = (lo_epilogue){ .exact = is_strict(L, L->group.v[kernel->group], x), .biased = x->bias != LO_NOBUF, .activation = x->activation };
	if (e->biased) e->bias = (rt_at){ .buf = x->bias, .offset = x->bias_at * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, x->product)->dtype) };
	for (uint32_t i = 0; i < b->nbuf; i++)
		if (b->buf[i] == was) {
			b->buf[i] = now;
			b->k.buf.v[i].aligned = L->buf.v[now].place == RT_AT_ARENA;
		}
	if (e->biased) lo_touch(L, to, x->bias, false);
	for (uint32_t i = 0; i < to->writes.n; i++)
		if (to->writes.v[i] == was) to->writes.v[i] = now;
	v->buf = now;
	to->built = b;
	to->group = kernel->group;
	to->epilogue = e;
	drop(kernel);
}

/* Number of steps that read each buffer. */
static uint32_t *count_readers(lo_low *L)
{
	uint32_t *n = lo_mem(L, sizeof *n * (L->buf.n + 1));
	for (uint32_t i = 0; n && i < L->step.n; i++)
		for (uint32_t k = 0; k < L->step.v[i].reads.n; k++) n[L->step.v[i].reads.v[k]]++;
	return n;
}

static bool has_products(const lo_low *L)
{
	for (uint32_t i = 0; i < L->step.n; i++)
		if (L->step.v[i].kind == LO_STEP_LIBRARY && is_product(L, L->step.v[i].ref)) return true;
	return false;
}

void lo_join_epilogues(lo_low *L)
{
	if (!has_products(L)) return;
	uint32_t *readers = L->oom ? NULL : count_readers(L), n = 0;
	for (uint32_t i = 0; readers && i < L->step.n && !L->oom; i++) {
		lo_step *s = &L->step.v[i], *to;
		tail x;
		if (s->kind != LO_STEP_KERNEL || !s->built || !tail_of(L, s, &x) || !(to = step_of(L, x.product)) || to->epilogue) continue;
		to->apart = refusal(L, L->group.v[s->group], &x, readers[L->val[x.product].buf]);
		if (!to->apart) join(L, to, s, &x);
	}
	for (uint32_t i = 0; i < L->step.n && !L->oom; i++) {
		lo_step *s = &L->step.v[i];
		if (s->kind == LO_STEP_LIBRARY && is_product(L, s->ref) && !s->epilogue && !s->apart) tell_apart(L, s);
	}
	for (uint32_t i = 0; i < L->step.n; i++) /* without the kernels that were joined */
		if (L->step.v[i].kind != LO_STEP_KERNEL || L->step.v[i].built) L->step.v[n++] = L->step.v[i];
	L->step.n = n;
}
