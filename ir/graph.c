/* SPDX-License-Identifier: MIT */
/* graph: the container, and questions about its nodes. emit.c appends nodes. */
#include "ir/ir.h"

void ir_graph_init(ir_graph *g) { *g = (ir_graph){ 0 }; }

void ir_graph_free(ir_graph *g)
{
	for (uint32_t i = 0; i < g->data.n; i++) rt_free(g->data.v[i].bytes);
	for (uint32_t i = 0; i < g->region.n; i++) ir_region_unref(g->region.v[i]);
	rt_vec_free(&g->node);
	rt_vec_free(&g->refs);
	rt_vec_free(&g->ints);
	rt_vec_free(&g->out);
	rt_vec_free(&g->data);
	rt_vec_free(&g->region);
	rt_vec_free(&g->custom);
	rt_free(g->cse);
	rt_free(g->blob);
	rt_arena_free(&g->mem);
	*g = (ir_graph){ 0 };
}

static void fit(void **v, uint32_t *cap, uint32_t n, size_t elem)
{
	void *p = n < *cap && n ? rt_realloc(*v, n * elem) : NULL;
	if (!p) return; /* the block keeps its size */
	*v = p;
	*cap = n;
}

void ir_graph_seal(ir_graph *g)
{
	rt_free(g->cse);
	rt_free(g->blob);
	g->cse = g->blob = NULL;
	g->ncse = g->nblob = 0;
	fit((void **)&g->node.v, &g->node.cap, g->node.n, sizeof *g->node.v);
	fit((void **)&g->refs.v, &g->refs.cap, g->refs.n, sizeof *g->refs.v);
	fit((void **)&g->ints.v, &g->ints.cap, g->ints.n, sizeof *g->ints.v);
	fit((void **)&g->out.v, &g->out.cap, g->out.n, sizeof *g->out.v);
}

/* ---- packed ---- */
struct ir_packed {
	uint32_t nnode, nrefs, nints, nout;
	rt_vec(ir_blob) data;
	rt_vec(struct ir_graph *) region;
	rt_arena mem;
	_Alignas(8) unsigned char bytes[]; /* ints, nodes, refs, outputs */
};

ir_packed *ir_pack(ir_graph *g)
{
	const size_t ints = g->ints.n * sizeof *g->ints.v, nodes = g->node.n * sizeof *g->node.v;
	const size_t refs = g->refs.n * sizeof *g->refs.v, outs = g->out.n * sizeof *g->out.v;
	ir_packed *p = rt_calloc(sizeof *p + ints + nodes + refs + outs);
	if (!p) return NULL;
	p->nnode = g->node.n, p->nrefs = g->refs.n, p->nints = g->ints.n, p->nout = g->out.n;
	if (ints) memcpy(p->bytes, g->ints.v, ints);
	if (nodes) memcpy(p->bytes + ints, g->node.v, nodes);
	if (refs) memcpy(p->bytes + ints + nodes, g->refs.v, refs);
	if (outs) memcpy(p->bytes + ints + nodes + refs, g->out.v, outs);
	memcpy(&p->data, &g->data, sizeof p->data);
	memcpy(&p->region, &g->region, sizeof p->region);
	p->mem = g->mem;
	memset(&g->data, 0, sizeof g->data);
	memset(&g->region, 0, sizeof g->region);
	g->mem = (rt_arena){ 0 };
	ir_graph_free(g);
	return p;
}

void ir_unpacked(ir_packed *p, ir_graph *g)
{
	ir_graph_init(g);
	g->node.n = p->nnode, g->refs.n = p->nrefs, g->ints.n = p->nints, g->out.n = p->nout;
	g->ints.v = (int64_t *)(void *)p->bytes;
	g->node.v = (ir_node *)(void *)(g->ints.v + p->nints);
	g->refs.v = (ir_ref *)(void *)(g->node.v + p->nnode);
	g->out.v = g->refs.v + p->nrefs;
	memcpy(&g->data, &p->data, sizeof p->data);
	memcpy(&g->region, &p->region, sizeof p->region);
}

size_t ir_packed_bytes(const ir_packed *p)
{
	size_t bytes = sizeof *p + p->nints * sizeof(int64_t) + p->nnode * sizeof(ir_node) + (p->nrefs + p->nout) * sizeof(ir_ref);
	for (uint32_t i = 0; i < p->data.n; i++) bytes += (size_t)p->data.v[i].nbytes;
	return bytes + p->mem.total;
}

void ir_packed_free(ir_packed *p)
{
	if (!p) return;
	ir_graph g;
	ir_graph_init(&g);
	memcpy(&g.data, &p->data, sizeof p->data);
	memcpy(&g.region, &p->region, sizeof p->region);
	g.mem = p->mem;
	ir_graph_free(&g);
	rt_free(p);
}

ir_meta ir_meta_of(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	ir_meta m = { .dtype = n->dtype, .rank = n->rank, .weak = n->weak, .device = n->device };
	if (n->rank) memcpy(m.dim, ir_dims(g, n), sizeof *m.dim * n->rank);
	return m;
}

bool ir_created(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	bool made = !n->weak && !n->alone && n->op != IR_input && n->op != IR_num && n->op != IR_get && !ir_is_flow(n->op);
	for (int k = 0; made && k < n->nsrc; k++) made = ir_at(g, ir_src(g, n, k))->weak;
	return made;
}

int64_t ir_numel(const ir_graph *g, ir_ref r)
{
	int64_t n = 0;
	rt_numel(ir_at(g, r)->rank, ir_dims(g, ir_at(g, r)), &n);
	return n;
}

ir_scalar ir_const_value(const ir_graph *g, const ir_node *n)
{
	int64_t bits = ir_attr(g, n)[0];
	double d;
	memcpy(&d, &bits, sizeof d);
	switch (rt_dtype_class((tj_dtype)n->dtype)) {
	case RT_F: return (ir_scalar){ .f = (float)d };
	case RT_D: return (ir_scalar){ .d = d };
	default: return (ir_scalar){ .i = bits };
	}
}

void ir_contiguous(int rank, const int64_t *dim, int64_t *stride)
{
	int64_t step = 1;
	for (int i = rank - 1; i >= 0; i--) {
		stride[i] = step;
		step *= dim[i] > 0 ? dim[i] : 1;
	}
}

static bool is_fast(const ir_graph *g, ir_ref r, const void *env) { return (void)env, ir_at(g, r)->mode & IR_FAST; }

void ir_inexact(const ir_graph *g, bool *inexact)
{
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		inexact[r] = ir_is_flow(n->op) ? ir_flow_has(g, n, is_fast, NULL) : is_fast(g, r, NULL);
		for (int k = 0; k < n->nsrc; k++) inexact[r] |= inexact[ir_src(g, n, k)];
	}
}

bool ir_same_type(const ir_meta *a, const ir_meta *b)
{
	return a->dtype == b->dtype && a->device == b->device && a->rank == b->rank &&
	       (!a->rank || !memcmp(a->dim, b->dim, sizeof *a->dim * a->rank));
}

bool ir_live(const ir_graph *g, bool *live)
{
	if (g->node.n) memset(live, 0, sizeof *live * g->node.n);
	for (uint32_t i = 0; i < g->out.n; i++)
		if (g->out.v[i] != IR_NONE) live[g->out.v[i]] = true;
	for (uint32_t r = g->node.n; r-- > 0;) {
		const ir_node *n = ir_at(g, r);
		for (int k = 0; live[r] && k < n->nsrc; k++) live[ir_src(g, n, k)] = true;
	}
	return g->out.n > 0;
}
