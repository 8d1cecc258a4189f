/* SPDX-License-Identifier: MIT */
/* walk: the body of a model. It walks the nodes in their order; what it knows of values stays on the host, the rest are ops of <tj.h>. */
#include "kit/models/models.h"

#include <stdarg.h>

/* ---- attributes ---- */
static const ox_attr *named(const ox_attr *v, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(v[i].name, name)) return &v[i];
	return NULL;
}

/* The attribute that stands for `a` where the function that runs was called. */
static const ox_attr *resolved(const ox_frame *f, const ox_attr *a)
{
	while (a && a->ref && f) {
		const char *const ref = a->ref;
		a = named(f->call->attr, f->call->nattr, ref);
		if (!a) a = named(f->fn->preset, f->fn->npreset, ref);
		f = f->up;
	}
	return a && !a->ref ? a : NULL;
}

const ox_attr *ox_attribute(const ox_call *o, const char *name) { return resolved(o->r->frame, named(o->n->attr, o->n->nattr, name)); }

int64_t ox_int(const ox_call *o, const char *name, int64_t preset)
{
	const ox_attr *a = ox_attribute(o, name);
	return a && a->type == OX_A_INT ? a->i : preset;
}

double ox_float(const ox_call *o, const char *name, double preset)
{
	const ox_attr *a = ox_attribute(o, name);
	return a && a->type == OX_A_FLOAT ? (double)a->f : preset;
}

const char *ox_string(const ox_call *o, const char *name, const char *preset)
{
	const ox_attr *a = ox_attribute(o, name);
	return a && a->type == OX_A_STRING ? a->s : preset;
}

bool ox_is(const ox_call *o, const char *name, const char *preset, const char *value) { return !strcmp(ox_string(o, name, preset), value); }

const int64_t *ox_ints(const ox_call *o, const char *name, int64_t *n)
{
	const ox_attr *a = ox_attribute(o, name);
	const bool there = a && a->type == OX_A_INTS;
	*n = there ? a->n : 0;
	return there ? a->ints : NULL;
}

/* ---- values ---- */
tj_tensor *ox_fail(const ox_call *o, tj_status code, const char *hint, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	o->r->failed = true;
	return tj_fail_at(o->site, code, o->n->row->name, hint, "%s", text);
}

void *ox_room(const ox_call *o, size_t bytes)
{
	void *p = ox_take(&o->r->arena, bytes);
	if (!p) ox_fail(o, TJ_ERR_NOMEM, NULL, "out of memory");
	return p;
}

ox_host *ox_new_host(ox_arena *a, tj_dtype dtype, int rank, const int64_t *dim)
{
	ox_host *h = ox_take(a, sizeof *h);
	if (!h) return NULL;
	*h = (ox_host){ .dtype = dtype, .rank = rank, .n = 1 };
	for (int i = 0; i < rank; i++) h->n *= h->dim[i] = dim[i];
	h->dim[rank] = TJ_END_DIM;
	const bool floats = dtype == TJ_F32 || dtype == TJ_F64 || dtype == TJ_F16 || dtype == TJ_BF16;
	void *v = ox_take(a, (size_t)h->n * 8);
	if (floats)
		h->f = v;
	else
		h->i = v;
	return v ? h : NULL;
}

static void put_element(const ox_host *h, int64_t k, unsigned char *to)
{
	const size_t size = tj_dtype_size(h->dtype);
	if (h->i) { /* little endian: the low bytes come first */
		memcpy(to, &h->i[k], size);
		return;
	}
	const float f = (float)h->f[k];
	const tj_f16 half = tj_to_f16(h->f[k]);
	const tj_bf16 brain = tj_to_bf16(h->f[k]);
	memcpy(to,
	       h->dtype == TJ_F32   ? (const void *)&f
	       : h->dtype == TJ_F64 ? (const void *)&h->f[k]
	       : h->dtype == TJ_F16 ? (const void *)&half
	                            : &brain,
	       size);
}

tj_tensor *ox_tensor_of(ox_run *r, ox_value *v, const char *site)
{
	if (v->t || !v->h) return v->t;
	const size_t size = tj_dtype_size(v->h->dtype);
	unsigned char *data = ox_take(&r->arena, (size_t)v->h->n * size);
	if (!data) return r->failed = true, v->t = tj_fail_at(site, TJ_ERR_NOMEM, "onnx", NULL, "out of memory");
	for (int64_t k = 0; k < v->h->n; k++) put_element(v->h, k, data + (size_t)k * size);
	tj_tensor *t = tj_constant_at(site, r->c, v->h->dtype, v->h->dim, data);
	if (!r->region) v->t = t; /* what a callback makes is gone when it ends */
	return t;
}

const ox_host *ox_host_of(ox_run *r, ox_value *v, const char *site)
{
	int64_t dim[TJ_MAX_RANK + 1];
	if (v->h || !v->t || r->failed) return v->h;
	const int64_t n = tj_numel(v->t), rank = ox_dims_of(v->t, dim);
	const tj_dtype dtype = tj_dtype_of(v->t);
	if (n < 0 || n > OX_HOST_MOST)
		return r->failed = true,
		       tj_fail_at(site, TJ_ERR_LIMIT, "onnx", NULL, "the host reads up to %d elements, not %lld", OX_HOST_MOST,
		                  (long long)n),
		       NULL;
	const size_t bytes = (size_t)n * tj_dtype_size(dtype);
	void *data = ox_take(&r->arena, bytes);
	if (!data || tj_read_at(site, v->t, data, bytes) != TJ_OK) return r->failed = true, NULL;
	v->h = ox_host_of_bytes(&r->arena, dtype, (int)rank, dim, data);
	if (!v->h) r->failed = true;
	return v->h;
}

bool ox_has(const ox_call *o, int k) { return k < o->n->nin && o->n->in[k] >= 0; }

ox_value *ox_in(const ox_call *o, int k) { return &o->r->v[o->n->in[k]]; }

tj_tensor *ox_t(const ox_call *o, int k) { return ox_has(o, k) ? ox_tensor_of(o->r, ox_in(o, k), o->site) : NULL; }

const ox_host *ox_h(const ox_call *o, int k) { return ox_has(o, k) ? ox_host_of(o->r, ox_in(o, k), o->site) : NULL; }

bool ox_wants(const ox_call *o, int k) { return k < o->n->nout && o->n->out[k] >= 0; }

void ox_put(const ox_call *o, int k, tj_tensor *t)
{
	if (k < o->n->nout) o->out[k] = (ox_value){ .t = t };
}

/* ---- nodes ---- */
static bool all_known(const ox_call *o)
{
	for (int k = 0; k < o->n->nin; k++)
		if (o->n->in[k] >= 0 && !ox_in(o, k)->h) return false;
	return true;
}

static bool call_function(ox_run *r, const ox_node *n, ox_value *out)
{
	const ox_frame frame = { r->frame, n, n->fn };
	for (int i = 0; i < n->fn->nin; i++) r->v[n->fn->in[i].value] = i < n->nin && n->in[i] >= 0 ? r->v[n->in[i]] : (ox_value){ 0 };
	r->frame = &frame;
	const bool ok = ox_walk(r, n->fn);
	r->frame = frame.up;
	for (int i = 0; ok && i < n->nout && i < n->fn->nout; i++) out[i] = r->v[n->fn->out[i].value];
	return ok;
}

static bool is_bad(const ox_value *v) { return v->t && tj_is_poison(v->t); }

static bool run_row(ox_run *r, const ox_node *n, ox_value *out)
{
	ox_call o = { r, n, n->site, out };
	if (n->row->folds && all_known(&o) && ox_fold(&o)) return !r->failed;
	for (int k = 0; k < n->nin; k++)
		if (ox_has(&o, k) && is_bad(ox_in(&o, k))) return false;
	tj_tensor *t = n->row->fn(&o, n->site);
	if (t && n->nout) out[0] = (ox_value){ .t = t };
	for (int k = 0; k < n->nout; k++)
		if (is_bad(&out[k])) r->failed = true;
	return !r->failed;
}

bool ox_walk(ox_run *r, const ox_graph *g)
{
	for (int i = 0; i < g->nnode && !r->failed; i++) {
		const ox_node *n = &g->node[i];
		if (n->nout && n->out[0] >= 0 && r->m->literal[n->out[0]]) continue; /* a Constant */
		ox_value *out = ox_take(&r->arena, (size_t)n->nout * sizeof *out);
		if (!out)
			r->failed = true, tj_fail_at(n->site, TJ_ERR_NOMEM, "onnx", NULL, "out of memory");
		else if (!(n->fn ? call_function(r, n, out) : run_row(r, n, out)))
			r->failed = true;
		for (int k = 0; out && k < n->nout; k++)
			if (n->out[k] >= 0) r->v[n->out[k]] = out[k];
	}
	return !r->failed;
}

/* ---- the body ---- */
static bool prepare(ox_run *r, tj_tensor *const *in)
{
	tj_model *m = r->m;
	r->v = ox_take(&r->arena, (size_t)m->nvalue * sizeof *r->v);
	if (!r->v) return tj_fail_at(m->base, TJ_ERR_NOMEM, "onnx", NULL, "out of memory"), false;
	for (int i = 0; i < m->nvalue; i++)
		if (m->literal[i]) r->v[i] = (ox_value){ .t = m->literal[i]->t, .h = m->literal[i]->host };
	for (int i = 0; i < m->nin; i++) r->v[m->in_value[i]] = (ox_value){ .t = in[i] };
	return true;
}

void ox_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_model *m = self;
	ox_run r = { .m = m, .c = tj_ctx_current() };
	const bool ok = prepare(&r, in) && ox_walk(&r, m->graph);
	for (int i = 0; i < m->graph->nout; i++) {
		out[i] = ok ? ox_tensor_of(&r, &r.v[m->graph->out[i].value], m->base) : NULL;
		if (!out[i])
			out[i] = tj_fail_at(m->base, TJ_ERR_STATE, "onnx", NULL, "the output %.100s is no tensor", m->graph->out[i].name);
	}
	ox_arena_free(&r.arena);
}
