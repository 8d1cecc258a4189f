/* SPDX-License-Identifier: MIT */
/* Programs: a body that was exported asks for its events again. */
#include "jit/program.h"
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"

#include <math.h>

jit_program *jit_program_new(void)
{
	rt_arena mem = { 0 };
	jit_program *p = rt_arena_alloc(&mem, sizeof *p);
	if (p) p->mem = mem;
	return p;
}

void jit_program_free(jit_program *p)
{
	if (!p) return;
	rt_vec_free(&p->symbol);
	rt_vec_free(&p->arg);
	rt_vec_free(&p->scalar);
	rt_vec_free(&p->result);
	rt_vec_free(&p->var);
	rt_vec_free(&p->number);
	rt_vec_free(&p->step);
	rt_vec_free(&p->out);
	rt_arena mem = p->mem; /* holds p itself */
	rt_arena_free(&mem);
}

void jit_programs_free(jit_program *p)
{
	for (jit_program *next; p; p = next) {
		next = p->next;
		jit_program_free(p);
	}
}

/* ---- sizes ---- */
/* What overflows is no size of anything: ops refuse it. */
int64_t jit_psize_at(const jit_psize *s, const int64_t *symbol)
{
	int64_t v = s->times;
	if (s->i < 0) return s->more;
	if (__builtin_mul_overflow(v, symbol[s->i], &v) || (s->j >= 0 && __builtin_mul_overflow(v, symbol[s->j], &v)) ||
	    __builtin_add_overflow(v, s->more, &v))
		return INT64_MIN;
	return v / s->part - (v % s->part < 0);
}

static uint64_t float_bits(double d)
{
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

uint64_t jit_pnumber_bits(const jit_pnumber *n, const int64_t *symbol)
{
	const int64_t v = n->kind >= JIT_PN_SIZE ? jit_psize_at(&n->size, symbol) : 0;
	switch (n->kind) {
	case JIT_PN_SIZE: return (uint64_t)v;
	case JIT_PN_REAL: return float_bits((double)v);
	case JIT_PN_INVERSE: return float_bits(1 / (double)v);
	case JIT_PN_INVERSE32: return float_bits((double)(1 / (float)v));
	case JIT_PN_ROOT: return float_bits(sqrt((double)v));
	case JIT_PN_INVERSE_ROOT: return float_bits(1 / sqrt((double)v));
	default: return n->bits;
	}
}

static bool admits(const jit_program *p, const int64_t *symbol)
{
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const gd_symbol *s = &p->symbol.v[i];
		if (symbol[i] < s->least || symbol[i] > s->most || (s->mod > 1 && symbol[i] % s->mod != s->rest)) return false;
	}
	return true;
}

static int64_t step_of(const gd_symbol *s) { return s->mod > 1 ? s->mod : 1; }
int64_t jit_symbol_size(const gd_symbol *s, int64_t i)
{
	const int64_t mod = step_of(s);
	return s->least + ((s->rest - s->least) % mod + mod) % mod + i * mod;
}

int64_t jit_symbol_count(const gd_symbol *s)
{
	const int64_t first = jit_symbol_size(s, 0), steps = first > s->most ? -1 : (s->most - first) / step_of(s);
	return steps >= JIT_P_FAR ? JIT_P_FAR : steps + 1; /* without a limit there are INT64_MAX steps */
}

/* ---- arguments ---- */
static bool fits(const jit_parg *a, const tj_tensor *t, const int64_t *symbol)
{
	if (jit_is_number(t) != (a->kind != GD_VALUE)) return false;
	if (a->kind != GD_VALUE) return true;
	if (t->dtype != a->dtype || t->rank != a->rank) return false;
	for (int d = 0; d < a->rank; d++)
		if (a->dim[d].part && jit_psize_at(&a->dim[d], symbol) != t->layout->dim[d]) return false;
	return true;
}

/* The sizes of the call, by symbol; -1: none of its dimensions is that symbol alone. False: an argument does not fit. */
static bool bind(const jit_program *p, tj_tensor *const *in, int64_t *symbol, uint32_t *bad)
{
	for (uint32_t i = 0; i < p->symbol.n; i++) symbol[i] = -1;
	for (uint32_t i = 0; i < p->arg.n; i++) {
		const jit_parg *a = &p->arg.v[i];
		*bad = i;
		for (int d = 0; !jit_is_number(in[i]) && d < a->rank && d < in[i]->rank; d++)
			if (a->dim[d].i >= 0 && symbol[a->dim[d].i] < 0) symbol[a->dim[d].i] = in[i]->layout->dim[d];
		if (!fits(a, in[i], symbol)) return false;
	}
	*bad = p->arg.n;
	return admits(p, symbol);
}

void jit_put_psize(const jit_program *p, const jit_psize *s, rt_text *t)
{
	if (s->i < 0) {
		if (s->part) rt_putf(t, "%lld", (long long)s->more);
		else rt_puts(t, "_");
		return;
	}
	if (s->times != 1) rt_putf(t, "%lld*", (long long)s->times);
	rt_puts(t, p->symbol.v[s->i].name);
	if (s->j >= 0) rt_putf(t, "*%s", p->symbol.v[s->j].name);
	if (s->more) rt_putf(t, "%+lld", (long long)s->more);
	if (s->part != 1) rt_putf(t, "/%lld", (long long)s->part);
}

void jit_put_parg(const jit_program *p, const jit_parg *a, rt_text *t)
{
	if (a->kind != GD_VALUE) {
		rt_puts(t, a->kind == GD_INT ? "int" : "float");
		return;
	}
	rt_putf(t, "%s[", tj_dtype_name((tj_dtype)a->dtype));
	for (int d = 0; d < a->rank; d++) {
		if (d) rt_puts(t, ",");
		jit_put_psize(p, &a->dim[d], t);
	}
	rt_puts(t, "]");
}

void jit_put_pvar(const jit_pvar *v, rt_text *t)
{
	rt_putf(t, "%s[", tj_dtype_name((tj_dtype)v->dtype));
	for (int d = 0; d < v->rank; d++) rt_putf(t, d ? ",%lld" : "%lld", (long long)v->dim[d]);
	rt_puts(t, "]");
}

/* Of a call of the program itself that of its import: an act does not know the line of its call. */
static const char *line_of(const jit_act *a) { return a->callers.n ? a->callers.v[0].site : a->fn->site; }

/* A call that the file does not admit: what was exported, and what differs. */
static void refuse(jit_act *a, const jit_program *p, tj_tensor *const *in, uint32_t bad)
{
	rt_text was = { 0 }, is = { 0 };
	for (uint32_t i = 0; i < p->arg.n; i++) {
		if (i) rt_puts(&was, ", ");
		jit_put_parg(p, &p->arg.v[i], &was);
	}
	for (uint32_t i = 0; i < p->symbol.n; i++)
		rt_putf(&was, "; %s in %lld..%lld", p->symbol.v[i].name, (long long)p->symbol.v[i].least, (long long)p->symbol.v[i].most);
	for (uint32_t i = 0; i < p->arg.n; i++) {
		const ir_meta m = jit_meta(in[i]);
		if (i) rt_puts(&is, ", ");
		if (m.weak) rt_puts(&is, m.dtype == TJ_I64 ? "int" : "float");
		else ir_put_meta(&is, &m);
	}
	jit_error(a->ctx, line_of(a), TJ_ERR_SHAPE, p->name,
	          "export it with these sizes, too: .shapes names what may vary",
	          bad < p->arg.n ? "exported for (%s), called with (%s): argument %u differs" : "exported for (%s), called with (%s)",
	          rt_str(&was), rt_str(&is), bad);
	rt_text_free(&was);
	rt_text_free(&is);
	a->failed = true;
}

/* The events were written down for these values of the ints. */
static bool ints_fit(jit_act *a, const jit_program *p)
{
	const tj_scalar *s = a->scalars;
	for (uint32_t i = 0; i < p->scalar.n; i++) {
		const tj_scalar *was = &p->scalar.v[i];
		const bool given = s && s->kind != TJ_SCALAR_END;
		if (was->kind == TJ_SCALAR_I && !(given && s->kind == TJ_SCALAR_I && s->i == was->i)) {
			jit_error(a->ctx, line_of(a), TJ_ERR_ARG, p->name,
			          "an int keeps its value; export the function for each", "scalar %u was the int %lld when it was exported, and is %s",
			          i, (long long)was->i, !given ? "missing" : s->kind == TJ_SCALAR_I ? "another one" : "a float");
			a->failed = true;
			return false;
		}
		s += given;
	}
	return true;
}

/* ---- events ---- */
typedef struct run {
	jit_act *a;
	const jit_program *p;
	tj_tensor *const *in;
	tj_tensor **value;   /* by event */
	tj_tensor **number;  /* NULL: not needed so far */
	int64_t symbol[JIT_P_SYMBOLS];
} run;

static tj_tensor *number_of(run *r, uint32_t i)
{
	const jit_pnumber *n = &r->p->number.v[i];
	tj_tensor *src[3], *t;
	if (r->number[i]) return r->number[i];
	if (n->kind == JIT_PN_ARG) t = r->in[n->index];
	else if (n->kind == JIT_PN_SCALAR) t = tj_arg_f_at(NULL, (int)n->index);
	else if (n->kind == JIT_PN_COMPUTED) {
		for (int k = 0; k < n->nsrc; k++) src[k] = number_of(r, n->src[k]);
		t = jit_event(NULL, n->op, n->nsrc, src, 0, NULL);
	} else {
		const uint64_t bits = jit_pnumber_bits(n, r->symbol);
		double d;
		memcpy(&d, &bits, sizeof d);
		t = n->kind == JIT_PN_INT || n->kind == JIT_PN_SIZE ? rt_number_i((int64_t)bits) : rt_number_f(d);
	}
	return r->number[i] = t;
}

static tj_tensor *operand(run *r, const jit_poperand *o)
{
	switch (o->kind) {
	case JIT_P_VALUE: return r->value[o->index];
	case JIT_P_ARG: return r->in[o->index];
	case JIT_P_VAR: return r->p->cell[o->index];
	default: return number_of(r, o->index);
	}
}

/* The IR_get events behind event i, of a row that gives n results: their values go to value[]. Returns how many there are. */
static uint32_t gets(const run *r, uint32_t i, uint32_t n, tj_tensor ***to)
{
	const jit_pstep *s = &r->p->step.v[i + 1];
	uint32_t k = 0;
	for (uint32_t w = 0; w < n; w++) to[w] = NULL;
	for (; i + 1 + k < r->p->step.n && s[k].op == IR_get; k++)
		if (s[k].attr[0].more < n) to[s[k].attr[0].more] = &r->value[i + 1 + k];
		else r->a->failed = true;
	return k;
}

static uint32_t several(run *r, uint32_t i, tj_tensor *const *src, const int64_t *attr)
{
	const jit_pstep *s = &r->p->step.v[i];
	const uint32_t n = ir_ops[s->op].nresult;
	tj_tensor **to[IR_MOST_RESULTS], *first;
	const uint32_t k = gets(r, i, n, to);
	first = jit_events(s->site, s->op, s->nsrc, src, s->nattr, attr, (int)n - 1, to + 1);
	if (to[0]) *to[0] = first;
	return k;
}

/* Gradients, or the derivative along tangents. */
static uint32_t derive(run *r, uint32_t i, tj_tensor **src, const int64_t *attr)
{
	const jit_pstep *s = &r->p->step.v[i];
	const bool grad = s->op == JIT_GRAD;
	const uint32_t first = grad && attr[0] ? 2 : 1, n = grad ? s->nsrc - first : 1u;
	tj_tensor ***to = rt_arena_alloc(&r->a->mem, (n + 1) * sizeof *to), **made = rt_arena_alloc(&r->a->mem, (n + 1) * sizeof *made);
	if (!to || !made) return r->a->failed = true, 0;
	const uint32_t k = gets(r, i, n, to);
	src[s->nsrc] = TJ_END;
	if (grad) {
		const tj_grad_opts o = { .size = sizeof o,
			                 .cotangent = attr[0] ? src[1] : NULL,
			                 .unused = attr[1] ? TJ_UNUSED_ZEROS : TJ_UNUSED_ERROR };
		if (tj_grad_at(s->site, made, src[0], src + first, &o) != TJ_OK) r->a->failed = true;
	} else {
		const uint32_t half = (s->nsrc - 1u) / 2;
		tj_tensor **wrt = rt_arena_alloc(&r->a->mem, (half + 1) * sizeof *wrt);
		if (!wrt) return r->a->failed = true, 0;
		memcpy(wrt, src + 1, half * sizeof *wrt);
		wrt[half] = TJ_END;
		made[0] = tj_jvp_at(s->site, src[0], wrt, src + 1 + half, attr[0] ? TJ_UNUSED_ZEROS : TJ_UNUSED_ERROR);
	}
	for (uint32_t w = 0; w < n && !r->a->failed; w++)
		if (to[w]) *to[w] = made[w];
	return k;
}

/* ---- ops with callbacks ---- */
static bool ask_all(run *r, uint32_t from, uint32_t end);

/* The callbacks of a row: events first[] to yield[], without these. */
typedef struct row {
	run *r;
	int n;
	uint32_t callback[2], yield[2];
} row;

/* The arguments, the events and the results of a callback. */
static void call_back(const row *w, int which, tj_tensor **out, tj_tensor *const *in)
{
	run *r = w->r;
	const jit_pstep *s = r->p->step.v, *y = &s[w->yield[which]];
	uint32_t i = w->callback[which] + 1, nin = 0;
	while (in[nin] != TJ_END) nin++;
	for (; s[i].op == JIT_PARAM; i++)
		if (s[i].attr[0].more < nin) r->value[i] = in[s[i].attr[0].more];
	bool ok = ask_all(r, i, w->yield[which]);
	for (int k = 0; ok && k < y->nsrc; k++) ok = (out[k] = operand(r, &y->src[k])) != NULL;
	if (!ok) r->a->failed = true;
}

static void first_callback(tj_tensor **out, tj_tensor *const *in, void *self) { call_back(self, 0, out, in); }
static void second_callback(tj_tensor **out, tj_tensor *const *in, void *self) { call_back(self, 1, out, in); }

/* False: the row has another number of callbacks, or one has no end. */
static bool find_callbacks(row *w, uint32_t i)
{
	const jit_program *p = w->r->p;
	for (int k = 0; k < w->n; k++) {
		uint32_t depth = 0;
		if (++i >= p->step.n || p->step.v[i].op != JIT_CALLBACK) return false;
		w->callback[k] = i;
		for (; i < p->step.n; i++) {
			depth += p->step.v[i].op == JIT_CALLBACK;
			if (p->step.v[i].op == JIT_YIELD && !--depth) break;
		}
		if (i >= p->step.n) return false;
		w->yield[k] = i;
	}
	return true;
}

/* src: of the op, ended by TJ_END. */
static tj_status call_op(const row *w, const jit_pstep *s, tj_tensor **src, const int64_t *attr, uint32_t n, tj_tensor **out)
{
	void *self = (void *)(uintptr_t)w;
	switch (s->op) {
	case IR_cond: return tj_cond_at(s->site, out, (int)n, src[0], first_callback, second_callback, src + 1, self);
	case IR_while:
		return tj_while_at(s->site, out, first_callback, second_callback, src, self, TJ_OPTS(tj_while_opts, .max_turns = attr[0]));
	case IR_scan: {
		tj_tensor **xs = rt_arena_alloc(&w->r->a->mem, ((size_t)s->nsrc + 1) * sizeof *xs);
		if (!xs) return TJ_ERR_NOMEM;
		memcpy(xs, src + attr[0], ((size_t)s->nsrc - (size_t)attr[0] + 1) * sizeof *xs);
		src[attr[0]] = TJ_END;
		return tj_scan_at(s->site, out, out + attr[0], (int)n - (int)attr[0], first_callback, src, xs, self,
		                  TJ_OPTS(tj_scan_opts, .length = attr[2], .reverse = attr[3] != 0));
	}
	case JIT_VMAP: return tj_vmap_at(s->site, out, (int)n, first_callback, src, self, NULL);
	case JIT_CUSTOM: return tj_custom_grad_at(s->site, out, (int)n, first_callback, second_callback, src, self);
	default: return tj_checkpoint_at(s->site, out, (int)n, first_callback, src, self);
	}
}

/* Returns how many events the row has behind event i. */
static uint32_t flow(run *r, uint32_t i, tj_tensor **src, const int64_t *attr)
{
	const jit_pstep *s = &r->p->step.v[i];
	row w = { .r = r, .n = s->op == IR_cond || s->op == IR_while || s->op == JIT_CUSTOM ? 2 : 1 };
	if (!find_callbacks(&w, i)) return r->a->failed = true, 0;
	const uint32_t n = s->op == IR_while ? s->nsrc : r->p->step.v[w.yield[0]].nsrc, last = w.yield[w.n - 1];
	tj_tensor ***to = rt_arena_alloc(&r->a->mem, (n + 1) * sizeof *to), **out = rt_arena_alloc(&r->a->mem, (n + 1) * sizeof *out);
	src[s->nsrc] = TJ_END;
	if (!to || !out || (s->op == IR_scan && attr[0] > n) || (s->op == IR_cond && !s->nsrc)) return r->a->failed = true, 0;
	if (call_op(&w, s, src, attr, n, out) != TJ_OK) r->a->failed = true;
	for (uint32_t k = i + 1; k <= last; k++) r->value[k] = NULL; /* values of callbacks end with them */
	const uint32_t k = gets(r, last, n, to);
	for (uint32_t v = 0; v < n && !r->a->failed; v++)
		if (to[v]) *to[v] = out[v];
	return last - i + k;
}

static bool has_callbacks(int op) { return ir_is_flow(op) || op == JIT_VMAP || op == JIT_CUSTOM || op == JIT_CHECKPOINT; }

/* ---- one event ---- */
/* Asks for event i; *more: how many of the next ones it has asked for, too. */
static bool ask(run *r, uint32_t i, uint32_t *more)
{
	jit_act *a = r->a;
	const jit_pstep *s = &r->p->step.v[i];
	tj_tensor **src = rt_arena_alloc(&a->mem, (s->nsrc + 1u) * sizeof *src);
	int64_t *attr = rt_arena_alloc(&a->mem, (s->nattr + 1u) * sizeof *attr);
	if (!src || !attr) return false;
	for (int k = 0; k < s->nsrc; k++)
		if (!(src[k] = operand(r, &s->src[k]))) return false;
	for (int k = 0; k < s->nattr; k++) attr[k] = jit_psize_at(&s->attr[k], r->symbol);
	a->mode = s->mode;
	if (s->op == JIT_ASSIGN) return tj_assign_at(s->site, src[1], src[0]) == TJ_OK;
	if (has_callbacks(s->op)) return *more = flow(r, i, src, attr), !a->failed;
	if (s->op >= IR_OPS && s->op != JIT_GRAD && s->op != JIT_JVP) return false; /* a part of a row stands alone */
	if (s->op == JIT_GRAD || s->op == JIT_JVP) return *more = derive(r, i, src, attr), !a->failed;
	if (ir_ops[s->op].nresult > 1) return *more = several(r, i, src, attr), !a->failed;
	r->value[i] = jit_event(s->site, s->op, s->nsrc, src, s->nattr, attr);
	return rt_is_number(r->value[i]) || r->value[i]->kind != RT_POISON; /* of numbers alone it is a number */
}

static bool ask_all(run *r, uint32_t from, uint32_t end)
{
	bool ok = true;
	for (uint32_t i = from, more = 0; ok && i < end; i += 1 + more, more = 0) ok = ask(r, i, &more) && !r->a->failed;
	return ok;
}

static bool results_fit(run *r, tj_tensor *const *out)
{
	for (uint32_t i = 0; i < r->p->result.n; i++) {
		if (fits(&r->p->result.v[i], out[i], r->symbol)) continue;
		jit_error(r->a->ctx, line_of(r->a), TJ_ERR_STATE, r->p->name, "tj_export() writes such files",
		          "result %u has another type than the file says", i);
		return false;
	}
	return true;
}

void jit_program_body(tj_tensor **out, tj_tensor *const *in, void *program)
{
	const jit_program *p = program;
	jit_act *a = jit_active(jit_thread_ctx);
	run r = { .a = a, .p = p, .in = in };
	uint32_t bad;
	const uint8_t mode = a->mode;
	if (!bind(p, in, r.symbol, &bad)) {
		refuse(a, p, in, bad);
		return;
	}
	if (!ints_fit(a, p)) return;
	r.value = rt_arena_alloc(&a->mem, (p->step.n + 1) * sizeof *r.value);
	r.number = rt_arena_alloc(&a->mem, (p->number.n + 1) * sizeof *r.number);
	bool ok = r.value && r.number;
	if (ok) memset(r.number, 0, (p->number.n + 1) * sizeof *r.number);
	if (ok) memset(r.value, 0, (p->step.n + 1) * sizeof *r.value);
	ok = ok && ask_all(&r, 0, p->step.n);
	a->mode = mode;
	for (uint32_t i = 0; ok && i < p->out.n; i++) ok = (out[i] = operand(&r, &p->out.v[i])) != NULL;
	if (ok && results_fit(&r, out)) return;
	if (a->ctx->rt.err.code == TJ_OK)
		jit_error(a->ctx, NULL, TJ_ERR_STATE, p->name, "tj_export() writes such files", "the program of the file asks for what does not exist");
	a->failed = true;
}
