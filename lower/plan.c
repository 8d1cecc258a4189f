/* plan: from ordered steps and placed buffers to what the run time executes.
 *
 * requires lo_layout; the plan keeps nothing of the graph: everything is copied into its memory */
#include "lower/fuse.h"
#include "runtime/bytes.h"

#define LINE 64

/* Constants of another device than the CPU are brought there by a pool of their own. */
static bool upload(lo_low *L, rt_plan *p, uint32_t i)
{
	const lo_buffer *b = &L->buf.v[i];
	const rt_device *d = rt_device_at(b->device);
	rt_pool *pool = rt_pool_new();
	void *there = pool ? d->alloc(d->self, (size_t)b->bytes + 1) : NULL;
	bool ok = there && rt_bytes_write(pool, b->device, there, b->data, (size_t)b->bytes, L->err) == TJ_OK;
	p->constant[p->buf[i].slot] = there; /* the plan's, also after an error */
	rt_pool_free(pool); /* waits */
	return ok;
}

static bool copy_consts(lo_low *L, rt_plan *p, uint32_t i)
{
	const lo_buffer *b = &L->buf.v[i];
	if (b->place != RT_AT_CONST) return true;
	if (b->device != RT_CPU) return upload(L, p, i);
	char *bytes = rt_arena_alloc(&p->mem, (size_t)b->bytes + LINE);
	if (!bytes) return false;
	bytes += (LINE - (uintptr_t)bytes % LINE) % LINE;
	if (b->bytes) memcpy(bytes, b->data, (size_t)b->bytes);
	p->constant[p->buf[i].slot] = bytes;
	return true;
}

static bool put_bufs(lo_low *L, rt_plan *p)
{
	p->nbuf = L->buf.n;
	p->buf = rt_arena_alloc(&p->mem, sizeof *p->buf * L->buf.n);
	p->constant = rt_arena_alloc(&p->mem, sizeof *p->constant * (L->buf.n + 1));
	if (!p->buf || !p->constant) return false;
	for (uint32_t i = 0, nconst = 0; i < L->buf.n; i++) {
		const lo_buffer *b = &L->buf.v[i];
		uint32_t slot = b->place == RT_AT_CONST ? nconst++ : b->place == RT_AT_ARENA ? b->device : b->slot;
		p->buf[i] = (rt_pbuf){ .place = b->place, .device = b->device, .slot = slot, .offset = b->offset, .bytes = b->bytes };
		if (!copy_consts(L, p, i)) return false;
	}
	return true;
}

/* Operands name buffers and offsets into them; now that these have their places, the operands have theirs. */
static void place_operands(rt_plan *p)
{
	for (uint32_t s = 0; s < p->nstep; s++)
		for (uint32_t i = 0; i < p->step[s].nbuf; i++) {
			rt_at *a = &p->step[s].at[i];
			const rt_pbuf *b = &p->buf[a->buf];
			a->place = b->place;
			a->slot = b->place == RT_AT_NUM ? 0 : b->slot; /* the numbers are one array */
			if (b->place == RT_AT_ARENA) a->offset += b->offset;
			if (b->place == RT_AT_NUM) a->offset += (int64_t)(b->slot * sizeof(uint64_t));
		}
}

rt_at *lo_step_operands(rt_plan *p, rt_step *t, uint32_t n)
{
	t->nbuf = n;
	return t->at = rt_arena_alloc(&p->mem, sizeof *t->at * (n + 1));
}

/* ---- calls into the evaluator ---- */
typedef struct call_env {
	ir_op op;
	int which;          /* of several results */
	int nattr, nsrc;
	int64_t *attr;
	ir_value *src;      /* without data */
	ir_eval_opts opts;
	const char *site;
	int rank;           /* COPY: of the value, and strides of its destination */
	int64_t stride[TJ_MAX_RANK];
} call_env;

static void bind(const call_env *e, void *const *buf, ir_value *src)
{
	for (int k = 0; k < e->nsrc; k++) {
		src[k] = e->src[k];
		src[k].data = buf[k];
	}
}

static tj_status call_op(void *env, void *const *buf, rt_err *err)
{
	const call_env *e = env;
	ir_value few[8], *src = few, out = { .data = buf[e->nsrc] };
	if (e->nsrc > (int)RT_COUNT(few) && !(src = rt_alloc(sizeof *src * (size_t)e->nsrc)))
		return rt_fail(err, TJ_ERR_NOMEM, ir_ops[e->op].name, "out of memory");
	bind(e, buf, src);
	tj_status st = ir_eval_op(e->op, e->which, e->attr, e->nattr, e->nsrc, src, &out, &e->opts, e->site, err);
	if (src != few) rt_free(src);
	return st;
}

static tj_status call_scatter_add(void *env, void *const *buf, rt_err *err)
{
	const call_env *e = env;
	ir_value src[3];
	bind(e, buf, src);
	return lo_scatter_add(e->attr[0], src, buf[3], e->site, err);
}

/* A value into a place with strides. */
static tj_status call_copy(void *env, void *const *buf, rt_err *err)
{
	const call_env *e = env;
	ir_value v;
	(void)err;
	bind(e, buf, &v);
	rt_copy_strided(e->rank, v.meta.dim, tj_dtype_size((tj_dtype)v.meta.dtype), v.data, v.stride, buf[1], e->stride);
	return TJ_OK;
}

static const char *keep(rt_plan *p, const char *s)
{
	return s ? rt_arena_strdup(&p->mem, s) : NULL;
}

static call_env *new_env(lo_low *L, rt_plan *p, ir_ref r, int nsrc)
{
	const ir_node *n = lo_node(L, r);
	call_env *e = rt_arena_alloc(&p->mem, sizeof *e);
	if (!e) return NULL;
	*e = (call_env){ .op = (ir_op)n->op, .which = ir_which(n), .nattr = n->nattr, .nsrc = nsrc, .rank = n->rank };
	e->opts.int_div_zero = L->o->int_div_zero;
	e->attr = rt_arena_alloc(&p->mem, sizeof *e->attr * (n->nattr + 1u));
	e->src = rt_arena_alloc(&p->mem, sizeof *e->src * ((size_t)nsrc + 1));
	e->site = keep(p, n->site);
	if (!e->attr || !e->src || (n->site && !e->site)) return NULL;
	if (n->nattr) memcpy(e->attr, ir_attr(L->g, n), sizeof *e->attr * n->nattr);
	return e;
}

/* Operand k of the step is value r. */
static void put_operand(lo_low *L, call_env *e, int k, ir_ref r, rt_at *at)
{
	lo_access a;
	lo_access_of(L, r, &a);
	e->src[k].meta = ir_meta_of(L->g, r);
	memcpy(e->src[k].stride, a.stride, sizeof a.stride);
	at[k].buf = lo_buf_of(L, a.base);
	at[k].offset = a.offset * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, a.base)->dtype);
}

static const char *eval_name(rt_plan *p, const char *op)
{
	rt_text t = { 0 };
	rt_putf(&t, "eval %s", op);
	char *s = rt_arena_strdup(&p->mem, rt_str(&t));
	rt_text_free(&t);
	return s;
}

static bool put_call(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_node *n = lo_node(L, s->ref);
	call_env *e = new_env(L, p, s->ref, n->nsrc);
	rt_at *at = lo_step_operands(p, t, n->nsrc + 1u);
	if (!e || !at) return false;
	at[n->nsrc].buf = lo_buf_of(L, s->ref);
	for (int k = 0; k < n->nsrc; k++) put_operand(L, e, k, ir_src(L->g, n, k), at);
	t->kind = RT_STEP_CALL;
	t->env = e;
	if (n->op == IR_scatter_add && L->o->target) {
		t->call = call_scatter_add;
		t->name = "scatter_add";
		p->exec.library_calls++;
		return true;
	}
	t->call = call_op;
	t->name = eval_name(p, ir_ops[n->op].name);
	p->exec.eval_steps++;
	return t->name != NULL;
}

/* A step that copies value src; at[1], its destination, is left. */
static bool put_elements(lo_low *L, rt_plan *p, ir_ref src, rt_step *t)
{
	const ir_node *n = lo_node(L, src);
	const size_t size = tj_dtype_size((tj_dtype)n->dtype);
	lo_access a;
	rt_elements *e = rt_arena_alloc(&p->mem, sizeof *e);
	int64_t *dims = rt_arena_alloc(&p->mem, sizeof *dims * 2 * (n->rank + 1u));
	rt_at *at = lo_step_operands(p, t, 2);
	if (!e || !dims || !at) return false;
	lo_access_of(L, src, &a);
	if (n->rank) {
		memcpy(dims, lo_dim(L, src), sizeof *dims * n->rank);
		memcpy(dims + n->rank, a.stride, sizeof *dims * n->rank);
	}
	*e = (rt_elements){ .device = L->buf.v[lo_buf_of(L, a.base)].device, .rank = n->rank, .size = size, .dim = dims, .stride = dims + n->rank };
	at[0] = (rt_at){ .buf = lo_buf_of(L, a.base), .offset = a.offset * (int64_t)size };
	t->kind = RT_STEP_COPY;
	t->copy = e;
	return !L->oom;
}

/* From one device to another one, or a copy on one device. */
static bool put_to(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	if (!put_elements(L, p, ir_src(L->g, lo_node(L, s->ref), 0), t)) return false;
	t->at[1].buf = lo_buf_of(L, s->ref);
	t->device = lo_node(L, s->ref)->device;
	t->name = "to";
	return true;
}

/* Without kernels of its device: an output that is stored once more, row-major. */
static bool put_device_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	if (!put_elements(L, p, s->ref, t)) return false;
	t->at[1] = (rt_at){ .buf = s->dest->buf, .offset = s->dest->offset * (int64_t)t->copy->size };
	t->device = L->buf.v[s->dest->buf].device;
	t->name = "copy";
	return true;
}

static bool put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	if (L->buf.v[s->dest->buf].device != RT_CPU) return put_device_copy(L, p, s, t);
	size_t size = tj_dtype_size((tj_dtype)lo_node(L, s->ref)->dtype);
	call_env *e = new_env(L, p, s->ref, 1);
	rt_at *at = lo_step_operands(p, t, 2);
	if (!e || !at) return false;
	memcpy(e->stride, s->dest->stride, sizeof e->stride);
	put_operand(L, e, 0, s->ref, at);
	at[1] = (rt_at){ .buf = s->dest->buf, .offset = s->dest->offset * (int64_t)size };
	t->kind = RT_STEP_CALL;
	t->call = call_copy;
	t->env = e;
	t->name = "copy";
	p->exec.eval_steps++;
	return true;
}

/* ---- matmul ---- */
typedef struct side { /* an operand as [batch..., rows, cols] */
	int rank;
	int64_t dim[TJ_MAX_RANK + 1], stride[TJ_MAX_RANK + 1];
} side;

static side as_matrix(const lo_low *L, ir_ref r, const lo_access *a, bool left)
{
	const ir_node *n = lo_node(L, r);
	side s = { .rank = n->rank };
	memcpy(s.dim, lo_dim(L, r), sizeof *s.dim * n->rank);
	memcpy(s.stride, a->stride, sizeof *s.stride * n->rank);
	if (n->rank > 1) return s;
	s.rank = 2;
	s.dim[left] = lo_dim(L, r)[0];
	s.stride[left] = a->stride[0];
	s.dim[!left] = 1;
	s.stride[!left] = left ? s.dim[1] : 1;
	return s;
}

/* Offsets of each batch of an operand that broadcasts to the batch axes. */
static bool batch_offsets(const side *s, int nbatch, const int64_t *dim, int64_t batch, int64_t *offset)
{
	int lead = nbatch - (s->rank - 2);
	bool any = false;
	for (int64_t b = 0; b < batch; b++) {
		int64_t left = b, at = 0;
		for (int i = nbatch - 1; i >= 0; i--) {
			if (i >= lead && s->dim[i - lead] != 1) at += left % dim[i] * s->stride[i - lead];
			left /= dim[i];
		}
		offset[b] = at;
		any |= at != 0;
	}
	return any;
}

/* One unit stride, and rows that do not overlap: what dnnl_sgemm takes. Other dtypes run loops of ours, over
 * any strides. */
bool lo_matmul_takes(const lo_low *L, ir_ref r, const lo_access *a, bool left)
{
	const ir_node *n = lo_node(L, r);
	if (n->dtype != TJ_F32 || ir_numel(L->g, r) == 0) return true;
	side s = as_matrix(L, r, a, left);
	int64_t rows = s.dim[s.rank - 2], cols = s.dim[s.rank - 1], row = s.stride[s.rank - 2],
	        col = s.stride[s.rank - 1];
	return ((col == 1 || cols == 1) && (rows == 1 || row >= cols)) ||
	       ((row == 1 || rows == 1) && (cols == 1 || col >= rows));
}

static bool put_matmul(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_node *n = lo_node(L, s->ref);
	int64_t batch = 1, bdim[TJ_MAX_RANK];
	lo_access acc[2];
	side m[2];
	size_t size = tj_dtype_size((tj_dtype)n->dtype);
	rt_at *at = lo_step_operands(p, t, 3);
	if (!at) return false;
	for (int k = 0; k < 2; k++) {
		ir_ref r = ir_src(L->g, n, k);
		lo_access_of(L, r, &acc[k]);
		m[k] = as_matrix(L, r, &acc[k], k == 0);
		at[k] = (rt_at){ .buf = lo_buf_of(L, acc[k].base), .offset = acc[k].offset * (int64_t)size };
	}
	int nbatch = (m[0].rank > m[1].rank ? m[0].rank : m[1].rank) - 2;
	for (int i = 0; i < nbatch; i++) batch *= bdim[i] = lo_dim(L, s->ref)[i];
	at[2].buf = lo_buf_of(L, s->ref);
	int ra = m[0].rank, rb = m[1].rank;
	rt_matmul_desc d = {
		.dtype = (tj_dtype)n->dtype,
		.m = m[0].dim[ra - 2],
		.n = m[1].dim[rb - 1],
		.k = m[0].dim[ra - 1],
		.batch = batch,
		.a_row = m[0].stride[ra - 2],
		.a_col = m[0].stride[ra - 1],
		.b_row = m[1].stride[rb - 2],
		.b_col = m[1].stride[rb - 1],
	};
	d.c_row = d.n;
	int64_t *off = rt_alloc(sizeof *off * (3 * (size_t)batch + 1));
	if (!off) return false;
	batch_offsets(&m[0], nbatch, bdim, batch, off);
	batch_offsets(&m[1], nbatch, bdim, batch, off + batch);
	for (int64_t b = 0; b < batch; b++) off[2 * batch + b] = b * d.m * d.n;
	if (batch != 1) {
		d.a_batch = off;
		d.b_batch = off + batch;
		d.c_batch = off + 2 * batch;
	}
	t->kind = RT_STEP_MATMUL;
	t->matmul = rt_matmul_new(&d, L->err);
	t->name = t->matmul ? rt_matmul_name(t->matmul) : "matmul";
	rt_free(off);
	p->exec.library_calls++;
	return t->matmul != NULL;
}

/* ---- kernels ---- */
static bool put_faults(rt_plan *p, const lo_built *b, rt_step *t)
{
	uint32_t n = b->k.fault_site.n;
	rt_fault *f = rt_arena_alloc(&p->mem, sizeof *f * (n + 1));
	if (!f) return false;
	for (uint32_t i = 0; i < n; i++)
		f[i] = (rt_fault){ keep(p, b->k.fault_site.v[i]), b->fault[i].op, (tj_status)b->k.fault_code.v[i], b->fault[i].size };
	t->fault = f;
	t->nfault = n;
	return true;
}

/* One more than the greatest slot of a number. */
static uint32_t numbers_of(const lo_low *L)
{
	uint32_t n = 0;
	for (ir_ref r = 0; r < L->g->node.n; r++)
		if (lo_node(L, r)->op == IR_num && ir_attr(L->g, lo_node(L, r))[0] >= n) n = (uint32_t)ir_attr(L->g, lo_node(L, r))[0] + 1;
	return n;
}

static bool put_kernel(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const lo_built *b = s->built;
	rt_at *at = lo_step_operands(p, t, b->nbuf);
	t->device = (uint8_t)lo_group_device(L, L->group.v[s->group]);
	t->nnum = t->device == RT_CPU ? 0 : numbers_of(L);
	if (!at || !put_faults(p, b, t)) return false;
	for (uint32_t i = 0; i < b->nbuf; i++) at[i].buf = b->buf[i];
	t->kind = RT_STEP_KERNEL;
	t->units = lo_units(&b->k, &b->s);
	t->unit_ns = b->s.unit_ns;
	t->grain = b->s.grain;
	t->scratch = b->s.scratch;
	t->name = rt_arena_strdup(&p->mem, b->k.name);
	p->exec.kernels++;
	return t->name != NULL;
}

/* Behind the temporaries of the CPU, room for the pointers of the step that has the most. */
static void place_many(rt_plan *p, const int64_t *arena_bytes)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < p->nstep; i++)
		if (p->step[i].nbuf > most) most = p->step[i].nbuf;
	for (int d = 0; d < RT_DEVICES; d++) p->exec.arena_bytes[d] = (size_t)arena_bytes[d];
	p->many = (p->exec.arena_bytes[RT_CPU] + LINE - 1) / LINE * LINE;
	if (most > RT_FEW_OPERANDS) p->exec.arena_bytes[RT_CPU] = p->many + most * sizeof(void *);
}

static void note_devices(rt_plan *p)
{
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_step *t = &p->step[i];
		p->exec.devices |= t->device != RT_CPU || (t->copy && t->copy->device != RT_CPU);
		p->exec.late_faults |= t->device != RT_CPU && t->nfault;
		for (int k = 0; t->flow && k < 2; k++) {
			if (!t->flow->region[k]) continue;
			p->exec.devices |= t->flow->region[k]->devices;
			p->exec.late_faults |= t->flow->region[k]->late_faults;
		}
	}
}

tj_status lo_make_plan(lo_low *L, rt_plan *p)
{
	bool ok = true;
	p->step = rt_arena_alloc(&p->mem, sizeof *p->step * (L->step.n + 1));
	if (!p->step) return rt_fail(L->err, TJ_ERR_NOMEM, "lower", "out of memory");
	for (uint32_t i = 0; ok && i < L->step.n; i++) {
		rt_step *t = &p->step[p->nstep++];
		switch ((lo_kind)L->step.v[i].kind) {
		case LO_STEP_KERNEL: ok = put_kernel(L, p, &L->step.v[i], t); break;
		case LO_STEP_MATMUL: ok = put_matmul(L, p, &L->step.v[i], t); break;
		case LO_STEP_CALL: ok = put_call(L, p, &L->step.v[i], t); break;
		case LO_STEP_COPY: ok = put_copy(L, p, &L->step.v[i], t); break;
		case LO_STEP_TO: ok = put_to(L, p, &L->step.v[i], t); break;
		case LO_STEP_FLOW: ok = lo_put_flow(L, p, &L->step.v[i], t); break;
		}
	}
	place_many(p, L->arena_bytes);
	if (ok && put_bufs(L, p) && !L->oom) {
		place_operands(p);
		note_devices(p);
		return TJ_OK;
	}
	return rt_fail(L->err, TJ_ERR_NOMEM, "lower", "out of memory");
}
