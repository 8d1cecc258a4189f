/* SPDX-License-Identifier: MIT */
/* Proving: the programs of one body at many sizes become one program, whose sizes are expressions. An expression is found from the
 * programs, and holds for each of them: that is the proof. What no expression gives depends on a size in a way that a file cannot keep.
 *
 *   reshape 0 : 7 64        B = 7
 *   reshape 0 : 9 64        B = 9          =>   reshape 0 : B 64 */
#include "jit/program.h"

#include <math.h>

typedef struct proof {
	jit_program *p;
	uint32_t n, nsymbol;
	jit_program *const *at;
	const int64_t *const *sizes;
	rt_err *err;
} proof;

/* ---- expressions ---- */
static bool holds(const proof *f, const jit_psize *s, const int64_t *v)
{
	for (uint32_t k = 0; k < f->n; k++)
		if (jit_psize_at(s, f->sizes[k]) != v[k]) return false;
	return true;
}

/* times * S + more, from two combinations at which S differs. */
static bool linear(const proof *f, int i, const int64_t *v, jit_psize *s)
{
	for (uint32_t k = 1; k < f->n; k++) {
		const int64_t run = f->sizes[k][i] - f->sizes[0][i], rise = v[k] - v[0];
		if (!run) continue;
		if (rise % run) return false;
		*s = (jit_psize){ rise / run, v[0] - rise / run * f->sizes[0][i], 1, (int8_t)i, -1 };
		return s->times && holds(f, s, v);
	}
	return false;
}

/* times * S * T + more. */
static bool product(const proof *f, int i, int j, const int64_t *v, jit_psize *s)
{
	for (uint32_t k = 1; k < f->n; k++) {
		const int64_t run = f->sizes[k][i] * f->sizes[k][j] - f->sizes[0][i] * f->sizes[0][j], rise = v[k] - v[0];
		if (!run) continue;
		if (rise % run) return false;
		*s = (jit_psize){ rise / run, v[0] - rise / run * f->sizes[0][i] * f->sizes[0][j], 1, (int8_t)i, (int8_t)j };
		return s->times && holds(f, s, v);
	}
	return false;
}

/* (S + more) / part, as of windows with a stride. */
static bool quotient(const proof *f, int i, const int64_t *v, jit_psize *s)
{
	enum { PARTS = 64 };
	for (int64_t part = 2; part <= PARTS; part++)
		for (int64_t rest = 0; rest < part; rest++) {
			*s = (jit_psize){ 1, v[0] * part + rest - f->sizes[0][i], part, (int8_t)i, -1 };
			if (holds(f, s, v)) return true;
		}
	return false;
}

static bool express(const proof *f, const int64_t *v, jit_psize *s)
{
	bool same = true;
	for (uint32_t k = 1; k < f->n; k++) same &= v[k] == v[0];
	if (same) return *s = (jit_psize){ .more = v[0], .part = 1, .i = -1, .j = -1 }, true;
	for (int i = 0; i < (int)f->nsymbol; i++)
		if (linear(f, i, v, s)) return true;
	for (int i = 0; i < (int)f->nsymbol; i++)
		for (int j = i; j < (int)f->nsymbol; j++)
			if (product(f, i, j, v, s)) return true;
	for (int i = 0; i < (int)f->nsymbol; i++)
		if (quotient(f, i, v, s)) return true;
	return false;
}

/* ---- numbers ---- */
static int64_t rounded(double d) { return d > -1e15 && d < 1e15 ? (int64_t)floor(d + 0.5) : INT64_MIN; }

/* The size that gives the float under this kind; checked by computing the float again. */
static int64_t size_of(uint8_t kind, double d)
{
	switch (kind) {
	case JIT_PN_REAL: return rounded(d);
	case JIT_PN_INVERSE: case JIT_PN_INVERSE32: return rounded(1 / d);
	case JIT_PN_ROOT: return rounded(d * d);
	default: return rounded(1 / (d * d));
	}
}

static bool express_float(const proof *f, const uint64_t *bits, int64_t *v, jit_pnumber *n)
{
	static const uint8_t kinds[] = { JIT_PN_REAL, JIT_PN_INVERSE, JIT_PN_INVERSE32, JIT_PN_ROOT, JIT_PN_INVERSE_ROOT };
	for (size_t c = 0; c < RT_COUNT(kinds); c++) {
		jit_pnumber as = { .kind = kinds[c] };
		bool ok = true;
		for (uint32_t k = 0; k < f->n; k++) {
			double d;
			memcpy(&d, &bits[k], sizeof d);
			v[k] = size_of(as.kind, d);
		}
		if (!express(f, v, &as.size)) continue;
		for (uint32_t k = 0; ok && k < f->n; k++) ok = jit_pnumber_bits(&as, f->sizes[k]) == bits[k];
		if (ok) return *n = as, true;
	}
	return false;
}

/* ---- programs ---- */
static bool differ(const proof *f, uint32_t i, const char *what)
{
	const jit_pstep *s = &f->p->step.v[i];
	rt_fail(f->err, TJ_ERR_SHAPE, "export", "%s at %s: %s", jit_event_name(s->op), s->site ? s->site : "?", what);
	rt_hint(f->err, "make these sizes `static` in .shapes, and export the function for each, or compute the same for all sizes");
	f->err->site = s->site;
	return false;
}

static bool same_operands(const jit_poperand *a, const jit_poperand *b, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		if (a[k].kind != b[k].kind || a[k].index != b[k].index) return false;
	return true;
}

static bool same_events(const proof *f, const jit_program *x)
{
	const jit_program *p = f->p;
	for (uint32_t i = 0; i < p->step.n && i < x->step.n; i++) {
		const jit_pstep *s = &p->step.v[i], *o = &x->step.v[i];
		if (s->op != o->op || s->mode != o->mode || s->nsrc != o->nsrc || s->nattr != o->nattr)
			return differ(f, i, "at other sizes the body asks for another op");
		if (!same_operands(s->src, o->src, s->nsrc)) return differ(f, i, "at other sizes the op has other operands");
	}
	if (p->step.n != x->step.n)
		return differ(f, p->step.n < x->step.n ? p->step.n - (p->step.n > 0) : x->step.n,
		              "at other sizes the body asks for more ops, or fewer");
	if (p->out.n != x->out.n || p->var.n != x->var.n || p->number.n != x->number.n || p->arg.n != x->arg.n)
		return rt_fail(f->err, TJ_ERR_SHAPE, "export", "at other sizes the body reads other tensors or numbers"), false;
	if (!same_operands(p->out.v, x->out.v, p->out.n))
		return rt_fail(f->err, TJ_ERR_SHAPE, "export", "at other sizes the body returns other values"), false;
	return true;
}

static bool prove_attributes(const proof *f, int64_t *v)
{
	for (uint32_t i = 0; i < f->p->step.n; i++) {
		jit_pstep *s = &f->p->step.v[i];
		for (int a = 0; a < s->nattr; a++) {
			for (uint32_t k = 0; k < f->n; k++) v[k] = f->at[k]->step.v[i].attr[a].more;
			if (!express(f, v, &s->attr[a]))
				return differ(f, i, "a number of it depends on the sizes in a way that cannot be exported");
		}
	}
	return true;
}

static bool prove_numbers(const proof *f, int64_t *v, uint64_t *bits)
{
	for (uint32_t i = 0; i < f->p->number.n; i++) {
		jit_pnumber *n = &f->p->number.v[i];
		bool same = true, varies = false;
		for (uint32_t k = 0; k < f->n; k++) {
			const jit_pnumber *o = &f->at[k]->number.v[i];
			same &= o->kind == n->kind && o->op == n->op && o->index == n->index;
			bits[k] = o->bits;
			varies |= bits[k] != bits[0];
			v[k] = (int64_t)bits[k];
		}
		if (same && !varies) continue;
		jit_pnumber as = { .kind = JIT_PN_SIZE };
		if (same && n->kind == JIT_PN_INT && express(f, v, &as.size)) *n = as;
		else if (same && n->kind == JIT_PN_FLOAT && express_float(f, bits, v, &as)) *n = as;
		else {
			rt_fail(f->err, TJ_ERR_SHAPE, "export",
			        "a number of the body depends on the sizes in a way that cannot be exported");
			return false;
		}
	}
	return true;
}

static bool prove_arguments(const proof *f, int64_t *v)
{
	for (uint32_t i = 0; i < f->p->arg.n; i++)
		for (int d = 0; d < f->p->arg.v[i].rank; d++) {
			for (uint32_t k = 0; k < f->n; k++) v[k] = f->at[k]->arg.v[i].dim[d].more;
			if (!express(f, v, &f->p->arg.v[i].dim[d]))
				return rt_fail(f->err, TJ_ERR_SHAPE, "export", "the sizes of argument %u are of no form", i), false;
		}
	return true;
}

/* A size of no form is left out: the function is the same without it. */
static bool prove_results(const proof *f, int64_t *v)
{
	for (uint32_t i = 0; i < f->p->result.n; i++) {
		jit_parg *a = &f->p->result.v[i];
		for (uint32_t k = 1; k < f->n; k++) {
			const jit_parg *o = &f->at[k]->result.v[i];
			if (o->kind != a->kind || o->dtype != a->dtype || o->rank != a->rank)
				return rt_fail(f->err, TJ_ERR_SHAPE, "export", "result %u has another type at other sizes", i), false;
		}
		for (int d = 0; d < a->rank; d++) {
			for (uint32_t k = 0; k < f->n; k++) v[k] = f->at[k]->result.v[i].dim[d].more;
			if (!express(f, v, &a->dim[d])) a->dim[d] = (jit_psize){ .i = -1, .j = -1 };
		}
	}
	return true;
}

bool jit_prove(jit_program *p, uint32_t n, jit_program *const *at, const int64_t *const *sizes, rt_err *err)
{
	const proof f = { p, n, p->symbol.n, at, sizes, err };
	int64_t *v = rt_alloc((n + 1) * sizeof *v);
	uint64_t *bits = rt_alloc((n + 1) * sizeof *bits);
	bool ok = v && bits;
	if (!ok) rt_fail(err, TJ_ERR_NOMEM, "export", "out of memory");
	for (uint32_t k = 1; ok && k < n; k++) ok = same_events(&f, at[k]);
	ok = ok && prove_arguments(&f, v) && prove_numbers(&f, v, bits) && prove_attributes(&f, v) && prove_results(&f, v);
	rt_free(v);
	rt_free(bits);
	return ok;
}
