/* SPDX-License-Identifier: MIT */
/* alias: outputs that may be written over the memory of an external, and temporaries that may be written over another one.
 *
 * requires ordered steps with kernels, and live ranges; sets alias_ext of outputs, over of buffers
 *
 * For an external it is safe under three conditions. The external has the output's dtype, shape and row-major layout. Every reader of it is
 * an earlier step, or is the writing kernel and reads exactly the index that it writes. Nothing can fail from the first write
 * on, because a failed run must leave every external as it was. For a temporary it is enough that the writing kernel is its last reader. */
#include "lower/low.h"

static int section_of(const lo_kernel *k, uint32_t ins)
{
	for (uint32_t s = 0; s < k->section.n; s++)
		if (ins < k->section.v[s].first + k->section.v[s].count) return (int)s;
	return -1;
}

/* A product may keep its sums in the result from chunk to chunk, and reads its operands again for each. */
static bool is_operand(const lo_kernel *k, uint32_t ins)
{
	lo_tiles x;
	return lo_tiles_of(k, &x) && ins < x.dot;
}

/* out, with elements of the same size, may share in's memory: every load of `in` is at the index of every store to `out`, and comes first.
 */
static bool may_share(const lo_kernel *k, uint32_t in, uint32_t out)
{
	for (uint32_t s = 0; s < k->ins.n; s++) {
		const lo_ins *store = &k->ins.v[s];
		if (store->op != LO_STORE || store->buf != out) continue;
		for (uint32_t l = 0; l < k->ins.n; l++) {
			const lo_ins *load = &k->ins.v[l];
			if (load->op != LO_LOAD || load->buf != in) continue;
			if (l > s || section_of(k, l) > section_of(k, s) || load->dyn != LO_NOREF || is_operand(k, l)) return false;
			if (memcmp(&k->index.v[load->index], &k->index.v[store->index], sizeof(lo_index))) return false;
		}
	}
	return true;
}

static uint32_t kernel_buf(const lo_built *b, uint32_t buf, lo_role role)
{
	for (uint32_t i = 0; i < b->nbuf; i++)
		if (b->buf[i] == buf && b->k.buf.v[i].role == role) return i;
	return LO_NOREF;
}

/* ---- outputs over externals ---- */
enum { NO_STEP = -1, SEVERAL = -2 };

typedef struct outputs {
	lo_low *L;
	int safe;                /* the first step from which on nothing can fail */
	int *writer;             /* by buffer: the only step that writes it, NO_STEP or SEVERAL */
	bool *seen;              /* by index of the external's first input in L->input: an output is a view of it, or is written over it */
} outputs;

static bool look(outputs *x, lo_low *L)
{
	uint32_t n;
	*x = (outputs){ .L = L, .writer = lo_mem(L, sizeof *x->writer * (L->buf.n + 1)), .seen = lo_mem(L, L->ninput + 1) };
	if (L->oom) return false;
	for (uint32_t b = 0; b < L->buf.n; b++) x->writer[b] = NO_STEP;
	for (uint32_t i = 0; i < L->step.n; i++)
		for (uint32_t k = 0; k < L->step.v[i].writes.n; k++) {
			int *w = &x->writer[L->step.v[i].writes.v[k]];
			*w = *w == NO_STEP ? (int)i : SEVERAL;
		}
	for (uint32_t i = 0; i < L->g->out.n; i++)
		if (L->out[i].same_ext >= 0) x->seen[lo_inputs_of(L, L->out[i].same_ext, &n)] = true;
	return true;
}

static bool readers_allow(const lo_low *L, uint32_t ext, uint32_t out, int writer)
{
	if (L->buf.v[ext].last > writer) return false;
	const lo_built *b = L->step.v[writer].built;
	uint32_t in = kernel_buf(b, ext, LO_IN), to = kernel_buf(b, out, LO_OUT);
	return in == LO_NOREF || may_share(&b->k, in, to);
}

/* Every one of these inputs, which show one external, shows all of it, row-major. */
static bool plain(const lo_low *L, ir_ref out, const ir_ref *input, uint32_t n)
{
	const ir_node *o = lo_node(L, out);
	for (uint32_t k = 0; k < n; k++) {
		const ir_node *x = lo_node(L, input[k]);
		const int64_t *dim = ir_dims(L->g, x), *attr = ir_attr(L->g, x);
		int64_t stride[TJ_MAX_RANK];
		if (x->dtype != o->dtype || x->rank != o->rank) return false;
		ir_contiguous(x->rank, dim, stride);
		for (int i = 0; i < x->rank; i++)
			if (dim[i] != lo_dim(L, out)[i] || (dim[i] > 1 && attr[2 + i] != stride[i])) return false;
	}
	return n > 0;
}

/* Writes output o, whose buffer is out, over the external if that is safe. */
static bool try_slot(outputs *x, uint32_t o, uint32_t out, int writer, int slot)
{
	lo_low *L = x->L;
	uint32_t n, first = lo_inputs_of(L, slot, &n);
	if (x->seen[first] || !plain(L, L->g->out.v[o], L->input + first, n)) return false;
	const uint32_t b = L->val[L->input[first]].leaf;
	if (b != LO_NOBUF && !readers_allow(L, b, out, writer)) return false;
	if (b != LO_NOBUF) L->buf.v[out].over = b;
	L->out[o].alias_ext = slot;
	return x->seen[first] = true;
}

/* What r is a view of. whole: looks only through views that show all of their operand. */
static ir_ref seen_through(const lo_low *L, ir_ref r, bool whole)
{
	while (ir_ops[lo_node(L, r)->op].flags & IR_VIEW && !(whole && lo_node(L, r)->op == IR_slice)) r = ir_src(L->g, lo_node(L, r), 0);
	return r;
}

static int64_t indexed(const lo_low *L, const ir_node *n)
{
	return lo_dim(L, ir_src(L->g, n, 0))[n->op == IR_embedding ? 0 : ir_attr(L->g, n)[0]];
}

/* Step i is a scatter_add, as of the gradient of an embedding, and a kernel before it fails if one of these indices is out of range. */
static bool is_checked(const lo_low *L, int i)
{
	const ir_node *n = lo_node(L, L->step.v[i].ref);
	if (n->op != IR_scatter_add || n->device != RT_CPU) return false;
	const ir_ref index = seen_through(L, ir_src(L->g, n, 1), false);
	for (int k = 0; k < i; k++) {
		const lo_group *G = L->step.v[k].kind == LO_STEP_KERNEL ? L->group.v[L->step.v[k].group] : NULL;
		for (uint32_t m = 0; G && m < G->member.n; m++) {
			const ir_node *by = lo_node(L, G->member.v[m]);
			if (lo_is_gather((ir_op)by->op) && seen_through(L, ir_src(L->g, by, 1), true) == index && indexed(L, by) == indexed(L, n)) return true;
		}
	}
	return false;
}

static bool may_fail(const lo_low *L, int i)
{
	const lo_step *s = &L->step.v[i];
	if (s->kind == LO_STEP_LIBRARY && ir_ops[lo_node(L, s->ref)->op].flags & IR_FAULT) return !is_checked(L, i);
	return s->kind == LO_STEP_CALL || s->kind == LO_STEP_FLOW || (s->built && s->built->k.fault_site.n);
}

static int first_safe(const lo_low *L)
{
	int i = (int)L->step.n;
	while (i > 0 && !may_fail(L, i - 1)) i--;
	return i;
}

static void find(outputs *x, uint32_t o, uint32_t buf)
{
	const lo_low *L = x->L;
	const int writer = x->writer[buf], want = L->o->into ? L->o->into[o] : -1;
	if (writer < x->safe || L->step.v[writer].kind != LO_STEP_KERNEL) return;
	if (L->o->into) {
		if (want >= 0) try_slot(x, o, buf, writer, want);
		return;
	}
	for (uint32_t i = 0; i < L->step.v[writer].reads.n; i++) {
		const lo_buffer *b = &L->buf.v[L->step.v[writer].reads.v[i]];
		if (b->place == RT_AT_EXT && try_slot(x, o, buf, writer, (int)b->index)) return;
	}
}

bool lo_find_aliases(lo_low *L)
{
	outputs x;
	if (!look(&x, L)) return false;
	x.safe = first_safe(L);
	for (uint32_t b = 0; b < L->buf.n; b++)
		if (L->buf.v[b].place == RT_AT_OUT) find(&x, L->buf.v[b].index, b);
	return true;
}

/* ---- temporaries ---- */
/* Kernel step i may write buffer `to` over buffer `from`. */
static bool may_reuse(const lo_low *L, int i, uint32_t from, uint32_t to)
{
	const lo_buffer *a = &L->buf.v[from], *b = &L->buf.v[to];
	const lo_built *x = L->step.v[i].built;
	if (a->place != RT_AT_ARENA || a->device != b->device || a->last != i || a->first == i || a->bytes != b->bytes) return false;
	const uint32_t in = kernel_buf(x, from, LO_IN), out = kernel_buf(x, to, LO_OUT);
	return in != LO_NOREF && out != LO_NOREF &&
	       tj_dtype_size((tj_dtype)x->k.buf.v[in].dtype) == tj_dtype_size((tj_dtype)x->k.buf.v[out].dtype) && may_share(&x->k, in, out);
}

bool lo_find_reuse(lo_low *L)
{
	bool *taken = lo_mem(L, L->buf.n + 1);
	uint32_t *writers = lo_mem(L, sizeof *writers * (L->buf.n + 1));
	if (L->oom) return false;
	for (uint32_t i = 0; i < L->step.n; i++)
		for (uint32_t k = 0; k < L->step.v[i].writes.n; k++) writers[L->step.v[i].writes.v[k]]++;
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		for (uint32_t w = 0; s->kind == LO_STEP_KERNEL && w < s->writes.n; w++) {
			lo_buffer *to = &L->buf.v[s->writes.v[w]];
			for (uint32_t r = 0; to->place == RT_AT_ARENA && writers[s->writes.v[w]] == 1 && to->over == LO_NOBUF && r < s->reads.n; r++) {
				const uint32_t from = s->reads.v[r];
				if (taken[from] || !may_reuse(L, (int)i, from, s->writes.v[w])) continue;
				to->over = from;
				taken[from] = true;
			}
		}
	}
	return true;
}
