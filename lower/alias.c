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

/* out, with elements of the same size, may share in's memory: every load of `in` is at the index of every store to `out`, and comes first. */
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

/* The only step that writes buf, if it is a kernel from which on nothing can fail; else -1. */
static int writer_of(const lo_low *L, uint32_t buf, int safe_from)
{
	int at = -1;
	for (uint32_t i = 0; i < L->step.n; i++) {
		if (!lo_touches(&L->step.v[i], buf, true)) continue;
		if (at >= 0) return -1;
		at = (int)i;
	}
	return at >= safe_from && L->step.v[at].kind == LO_STEP_KERNEL ? at : -1;
}

static bool readers_allow(const lo_low *L, uint32_t ext, uint32_t out, int writer)
{
	if (L->buf.v[ext].last > writer) return false;
	const lo_built *b = L->step.v[writer].built;
	uint32_t in = kernel_buf(b, ext, LO_IN), to = kernel_buf(b, out, LO_OUT);
	return in == LO_NOREF || may_share(&b->k, in, to);
}

/* Every input node of the external shows all of it, row-major, and no output is a view of it. */
static bool plain(const lo_low *L, ir_ref out, int slot)
{
	bool found = false;
	for (ir_ref r = 0; r < L->g->node.n; r++) {
		const ir_node *n = lo_node(L, r), *o = lo_node(L, out);
		const int64_t *attr = ir_attr(L->g, n);
		int64_t stride[TJ_MAX_RANK];
		if (n->op != IR_input || attr[0] != slot) continue;
		if (n->dtype != o->dtype || n->rank != o->rank) return false;
		ir_contiguous(n->rank, lo_dim(L, r), stride);
		for (int i = 0; i < n->rank; i++)
			if (lo_dim(L, r)[i] != lo_dim(L, out)[i] || (lo_dim(L, r)[i] > 1 && attr[2 + i] != stride[i]))
				return false;
		found = true;
	}
	for (uint32_t i = 0; i < L->g->out.n; i++)
		if (L->out[i].same_ext == slot || L->out[i].alias_ext == slot) return false;
	return found;
}

/* Writes output o, whose buffer is out, over the external if that is safe. */
static bool try_slot(lo_low *L, uint32_t o, uint32_t out, int writer, int slot)
{
	uint32_t b = 0;
	if (!plain(L, L->g->out.v[o], slot)) return false;
	while (b < L->buf.n && (L->buf.v[b].place != RT_AT_EXT || L->buf.v[b].index != (uint32_t)slot)) b++;
	const bool read = b < L->buf.n;
	if (read && !readers_allow(L, b, out, writer)) return false;
	if (read) L->buf.v[out].over = b;
	L->out[o].alias_ext = slot;
	return true;
}

static int first_safe(const lo_low *L)
{
	int i = (int)L->step.n;
	while (i > 0) {
		const lo_step *s = &L->step.v[i - 1];
		if (s->kind == LO_STEP_CALL || s->kind == LO_STEP_FLOW || (s->kind == LO_STEP_LIBRARY && ir_ops[lo_node(L, s->ref)->op].flags & IR_FAULT) || (s->built && s->built->k.fault_site.n)) break;
		i--;
	}
	return i;
}

static void find(lo_low *L, uint32_t o, uint32_t buf, int safe)
{
	int writer = writer_of(L, buf, safe), want = L->o->into ? L->o->into[o] : -1;
	if (writer < 0) return;
	if (L->o->into) {
		if (want >= 0) try_slot(L, o, buf, writer, want);
		return;
	}
	for (uint32_t i = 0; i < L->step.v[writer].reads.n; i++) {
		const lo_buffer *b = &L->buf.v[L->step.v[writer].reads.v[i]];
		if (b->place == RT_AT_EXT && try_slot(L, o, buf, writer, (int)b->index)) return;
	}
}

void lo_find_aliases(lo_low *L)
{
	int safe = first_safe(L);
	for (uint32_t b = 0; b < L->buf.n; b++)
		if (L->buf.v[b].place == RT_AT_OUT) find(L, L->buf.v[b].index, b, safe);
}

/* ---- temporaries ---- */
/* Kernel step i may write buffer `to` over buffer `from`. */
static bool may_reuse(const lo_low *L, int i, uint32_t from, uint32_t to)
{
	const lo_buffer *a = &L->buf.v[from], *b = &L->buf.v[to];
	const lo_built *x = L->step.v[i].built;
	if (a->place != RT_AT_ARENA || a->device != b->device || a->last != i || a->first == i || a->bytes != b->bytes) return false;
	const uint32_t in = kernel_buf(x, from, LO_IN), out = kernel_buf(x, to, LO_OUT);
	return in != LO_NOREF && out != LO_NOREF && tj_dtype_size((tj_dtype)x->k.buf.v[in].dtype) == tj_dtype_size((tj_dtype)x->k.buf.v[out].dtype) && may_share(&x->k, in, out);
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
