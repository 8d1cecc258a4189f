/* SPDX-License-Identifier: MIT */
/* view: values as strides over buffers, for readers that are not generated kernels.
 *
 * requires lo_val of every node; lo_need() marks values that must own a buffer; the other functions mark nothing
 *
 *   %1 = transpose f32[8,4] %0 axes=0,1      =>     %0, offset 0, strides 1 8
 *   %2 = slice f32[4,4] %1 0 0 8 2           =>     %0, offset 0, strides 2 8
 *
 * A reshape that strides cannot express owns a buffer: it is computed as a copy. */
#include "lower/low.h"

#include <stdlib.h>

uint32_t lo_new_buf(lo_low *L, lo_buffer b)
{
	b.first = b.last = -1;
	b.over = LO_NOBUF;
	if (rt_push(&L->buf, b)) return L->buf.n - 1;
	L->oom = true;
	return LO_NOBUF;
}

/* ---- strides of a view from those of its operand ---- */
static bool reshape_strides(int rank, const int64_t *dim, const int64_t *from, int orank, const int64_t *odim,
                            int64_t *stride)
{
	int i = 0, j = 0;
	while (j < orank) {
		if (odim[j] == 1) { stride[j++] = 0; continue; }
		while (i < rank && dim[i] == 1) i++;
		int i1 = i + 1, j1 = j + 1;
		int64_t a = i < rank ? dim[i] : 1, b = odim[j];
		while (a != b) {
			if (a < b) {
				if (i1 >= rank) return false;
				a *= dim[i1++];
			} else {
				if (j1 >= orank) return false;
				b *= odim[j1++];
			}
		}
		for (int k = i, last = -1; k < i1; k++) { /* the strides must be those of one axis: each is the size times the stride of the next */
			if (dim[k] == 1) continue;
			if (last >= 0 && from[last] != dim[k] * from[k]) return false;
			last = k;
		}
		int inner = i1 - 1;
		while (inner > i && dim[inner] == 1) inner--;
		int64_t s = from[inner];
		for (int k = j1 - 1; k >= j; k--) {
			stride[k] = s;
			s *= odim[k];
		}
		i = i1;
		j = j1;
	}
	return true;
}

static void expand_strides(const lo_low *L, ir_ref src, int orank, lo_access *a)
{
	const ir_node *s = lo_node(L, src);
	const int64_t *dim = lo_dim(L, src);
	int lead = orank - s->rank;
	int64_t old[TJ_MAX_RANK];
	memcpy(old, a->stride, sizeof old);
	for (int i = 0; i < orank; i++) a->stride[i] = i < lead || dim[i - lead] == 1 ? 0 : old[i - lead];
}

/* a is the access of the operand and becomes the view's. */
static bool apply_view(const lo_low *L, ir_ref r, lo_access *a)
{
	const ir_node *n = lo_node(L, r);
	ir_ref src = ir_src(L->g, n, 0);
	const int64_t *attr = ir_attr(L->g, n), *dim = lo_dim(L, src);
	int64_t old[TJ_MAX_RANK];
	memcpy(old, a->stride, sizeof old);
	switch (n->op) {
	case IR_optimization_barrier: return true;
	case IR_expand: expand_strides(L, src, n->rank, a); return true;
	case IR_permute:
		for (int i = 0; i < n->rank; i++) a->stride[i] = old[attr[i]];
		return true;
	case IR_transpose:
		if (!n->rank) return true;
		a->stride[attr[0]] = old[attr[1]];
		a->stride[attr[1]] = old[attr[0]];
		return true;
	case IR_unfold:
		a->stride[attr[0]] *= attr[2];
		a->stride[n->rank - 1] = old[attr[0]] * attr[3];
		return true;
	case IR_slice:
		a->offset += attr[1] * old[attr[0]];
		a->stride[attr[0]] *= attr[3];
		return true;
	case IR_flip:
		for (int i = 0; i < n->rank; i++) {
			bool flipped = n->nattr == 0;
			for (int k = 0; k < n->nattr; k++) flipped |= attr[k] == i;
			if (!flipped) continue;
			a->offset += (dim[i] - 1) * old[i];
			a->stride[i] = -old[i];
		}
		return true;
	default: /* reshape, squeeze, unsqueeze */
		return reshape_strides(lo_node(L, src)->rank, dim, old, n->rank, lo_dim(L, r), a->stride);
	}
}

static void base_access(const lo_low *L, ir_ref r, lo_access *a)
{
	const ir_node *n = lo_node(L, r);
	*a = (lo_access){ .base = r, .leaf = L->val[r].how == LO_LEAF && !L->val[r].own };
	if (n->op == IR_input && !L->val[r].own)
		memcpy(a->stride, ir_attr(L->g, n) + 2, sizeof *a->stride * n->rank);
	else if (n->op != IR_const || L->val[r].own) ir_contiguous(n->rank, lo_dim(L, r), a->stride);
}

/* Walks down through views to the value that has or must get a buffer. A view that strides cannot express ends the walk: it
 * must own a buffer. false: the walk ended at such a view, not at a leaf or a computed value. */
static bool walk(const lo_low *L, ir_ref r, lo_access *a)
{
	ir_ref chain[64];
	int depth = 0;
	ir_ref at = r;
	while (L->val[at].how == LO_VIEW && !L->val[at].own && depth < (int)RT_COUNT(chain)) {
		chain[depth++] = at;
		at = ir_src(L->g, lo_node(L, at), 0);
	}
	bool through = L->val[at].how != LO_VIEW;
	base_access(L, at, a);
	while (depth-- > 0) {
		if (apply_view(L, chain[depth], a)) continue;
		through = false;
		base_access(L, chain[depth], a);
	}
	if (!ir_numel(L->g, r)) a->offset = 0; /* what has no elements lies anywhere, but an address must be in memory */
	return through;
}

void lo_access_of(const lo_low *L, ir_ref r, lo_access *a)
{
	walk(L, r, a);
}

/* Values between r and its operand's memory may have got buffers since r was decided: those that read r's operand through them do not know.
 */
void lo_operand_of(const lo_low *L, ir_ref r, int k, lo_access *a)
{
	if (L->val[r].operand) *a = L->val[r].operand[k];
	else lo_access_of(L, ir_src(L->g, lo_node(L, r), k), a);
}

void lo_need(lo_low *L, const lo_access *a)
{
	if (L->val[a->base].how != LO_LEAF) L->val[a->base].own = true;
}

const lo_content *lo_content_of(const lo_opts *o, const ir_graph *g, const ir_node *input)
{
	const int64_t slot = ir_attr(g, input)[0];
	return input->device == RT_CPU && slot < o->ncontent && o->content[slot].id ? &o->content[slot] : NULL;
}

bool lo_seen_input(const lo_low *L, ir_ref r, lo_access *a)
{
	const ir_node *n = walk(L, r, a) ? lo_node(L, a->base) : NULL;
	const lo_content *known = n && n->op == IR_input ? lo_content_of(L->o, L->g, n) : NULL;
	return n && n->op == IR_input && !(known && known->held);
}

/* ---- inputs by slot ---- */
typedef struct numbered { int64_t slot; ir_ref input; } numbered;

static int by_slot(const void *a, const void *b)
{
	const numbered *x = a, *y = b;
	return x->slot != y->slot ? (x->slot > y->slot) - (x->slot < y->slot) : (x->input > y->input) - (x->input < y->input);
}

bool lo_sort_inputs(lo_low *L)
{
	numbered *all = rt_alloc(sizeof *all * (L->g->node.n + 1u));
	for (ir_ref r = 0; all && r < L->g->node.n; r++)
		if (lo_node(L, r)->op == IR_input) all[L->ninput++] = (numbered){ ir_attr(L->g, lo_node(L, r))[0], r };
	if (L->ninput) qsort(all, L->ninput, sizeof *all, by_slot);
	L->input = lo_mem(L, sizeof *L->input * (L->ninput + 1u));
	for (uint32_t i = 0; L->input && i < L->ninput; i++) L->input[i] = all[i].input;
	rt_free(all);
	return all && L->input;
}

uint32_t lo_inputs_of(const lo_low *L, int64_t slot, uint32_t *n)
{
	uint32_t low = 0, high = L->ninput;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (ir_attr(L->g, lo_node(L, L->input[middle]))[0] < slot) low = middle + 1;
		else high = middle;
	}
	for (*n = 0; low + *n < L->ninput && ir_attr(L->g, lo_node(L, L->input[low + *n]))[0] == slot; ++*n) {}
	return low;
}

/* ---- buffers ---- */
/* All inputs of an external have one buffer, which the first of them keeps. */
static uint32_t input_buf(lo_low *L, ir_ref r, int64_t bytes)
{
	const ir_node *n = lo_node(L, r);
	const int64_t slot = ir_attr(L->g, n)[0];
	uint32_t many, *leaf = &L->val[L->input[lo_inputs_of(L, slot, &many)]].leaf;
	if (*leaf != LO_NOBUF) return *leaf;
	const lo_content *at = lo_content_of(L->o, L->g, n), known = at ? *at : (lo_content){ 0 };
	return *leaf = lo_new_buf(L, (lo_buffer){ .place = known.held ? RT_AT_CONST : RT_AT_EXT,
	                                          .device = n->device,
	                                          .index = (uint32_t)slot,
	                                          .bytes = bytes,
	                                          .data = known.data,
	                                          .content = known.id,
	                                          .cell = known.cell,
	                                          .held = known.held != NULL });
}

static uint32_t leaf_buf(lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	const int64_t *attr = ir_attr(L->g, n);
	size_t size = tj_dtype_size((tj_dtype)n->dtype);
	int64_t bytes = ir_numel(L->g, r) * (int64_t)size;
	if (n->op == IR_input) return input_buf(L, r, bytes);
	if (n->op == IR_data) {
		const ir_blob *b = &L->g->data.v[attr[0]];
		return lo_new_buf(L, (lo_buffer){ .place = RT_AT_CONST, .device = n->device, .data = b->bytes, .bytes = b->nbytes });
	}
	if (n->op == IR_num) return lo_new_buf(L, (lo_buffer){ .place = RT_AT_NUM, .index = (uint32_t)attr[0], .bytes = bytes });
	int64_t *one = lo_mem(L, sizeof *one);
	if (!one) return LO_NOBUF;
	ir_store((tj_dtype)n->dtype, one, ir_const_value(L->g, n));
	return lo_new_buf(L, (lo_buffer){ .place = RT_AT_CONST, .device = n->device, .data = one, .bytes = (int64_t)size });
}

uint32_t lo_leaf_buf(lo_low *L, ir_ref r)
{
	lo_val *v = &L->val[r];
	if (v->leaf == LO_NOBUF) v->leaf = leaf_buf(L, r);
	return v->leaf;
}

uint32_t lo_buf_of(lo_low *L, ir_ref r)
{
	lo_val *v = &L->val[r];
	if (v->buf != LO_NOBUF) return v->buf;
	if (v->how == LO_LEAF && !v->own) return lo_leaf_buf(L, r);
	int64_t bytes = ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, r)->dtype);
	v->own = true;
	return v->buf = lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA, .device = lo_node(L, r)->device, .bytes = bytes });
}

uint32_t lo_buf_at(lo_low *L, const lo_access *a) { return a->leaf ? lo_leaf_buf(L, a->base) : lo_buf_of(L, a->base); }

lo_dest *lo_add_dest(lo_low *L, ir_ref r, uint32_t buf, ir_ref node, int64_t offset, const int64_t *stride)
{
	const ir_node *n = lo_node(L, r);
	lo_dest *d = lo_mem(L, sizeof *d);
	if (!d) return NULL;
	*d = (lo_dest){ .next = L->val[r].dest, .buf = buf, .node = node, .offset = offset };
	if (stride) memcpy(d->stride, stride, sizeof *stride * n->rank);
	else ir_contiguous(n->rank, lo_dim(L, r), d->stride);
	L->val[r].dest = d;
	return d;
}
