/* SPDX-License-Identifier: MIT */
/* fuzz -api -grad: random programs that ask for gradients, with values that C reads on the way: numbers, branches, loops. Each runs several
 * times, with other data each time, on several machines: compiled functions in both modes and on both back ends, audited ones among them.
 * Beside these one that reads nothing: C knows its numbers and decisions from the machine that ran before it. All results must agree bit
 * for bit, cells included. */
#include "test/fuzz.h"

#include <tj.h>

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 3, MOST_STEPS = 24, MOST_VALUES = 72, MOST_OUT = 12, ARGS = 2, CELLS = 2, BY = 3, RUNS = 4, TURNS = 3 };

typedef enum kind { ONE, TWO, TOTAL, FLIP, PRODUCT, ITEM, TRUTH, LOOP, DATA, ASSIGN, GRAD, JVP, SCAN, WHILE, COND, AGAIN, KINDS } kind;

/* Operands: a value by its number; below 0: -1 - number of a cell. */
typedef struct step {
	kind kind;
	int a, b, op, cell, out; /* out: number of the first value that it makes */
	int n, by[BY];           /* GRAD: by what */
	double limit;
	bool off;
} step;

typedef struct program {
	gen G;                   /* only draws */
	ir_graph g;
	step step[MOST_STEPS];
	int nstep, nvalue, nout, out[MOST_OUT];
	bool vector[MOST_VALUES]; /* [N]; else a scalar */
	int born[MOST_VALUES];   /* the step that makes it; arguments: -1 */
	int assigned[CELLS];     /* the last step that assigned it; -1: none */
	tj_dtype dtype;
} program;

typedef struct reads { double v[MOST_STEPS * (TURNS + 2)]; int n; } reads; /* what C has read */

typedef struct machine {
	program *p;
	tj_ctx *c;
	tj_fn *f;
	const char *name;
	tj_tensor *v[MOST_VALUES], *cell[CELLS];
	bool blind;
	reads *log;
	int next;                /* in the log */
} machine;

/* ---- programs ---- */
static int value_before(program *p, int n)
{
	return n <= ARGS || gen_chance(&p->G, 60) ? n - 1 - (int)gen_below(&p->G, n < 4 ? n : 4) : (int)gen_below(&p->G, n);
}
static int operand(program *p, int n) { return gen_chance(&p->G, 15) ? -1 - (int)gen_below(&p->G, CELLS) : value_before(p, n); }
static bool is_vector(const program *p, int r) { return r < 0 || p->vector[r]; }

static void add_value(program *p, bool vector)
{
	p->born[p->nvalue] = p->nstep;
	p->vector[p->nvalue++] = vector;
}

/* By a cell only if its present value is the one from which y may have been computed. */
static bool may_ask(const program *p, int by, int y)
{
	if (by >= 0) return by < p->nvalue;
	return y >= 0 && p->assigned[-1 - by] < p->born[y];
}

static void make_request(program *p, step *s)
{
	for (int tries = 0; s->a < ARGS; tries++) s->a = tries < 20 ? value_before(p, p->nvalue) : p->nvalue - 1;
	for (int k = 1 + (int)gen_below(&p->G, s->kind == JVP ? 1 : BY); k > 0; k--) {
		const int by = gen_chance(&p->G, 25) ? -1 - (int)gen_below(&p->G, CELLS) : (int)gen_below(&p->G, s->a + 1);
		bool twice = !may_ask(p, by, s->a);
		for (int i = 0; i < s->n; i++) twice |= s->by[i] == by;
		if (!twice) s->by[s->n++] = by;
	}
	if (!s->n) s->by[s->n++] = 0;
	if (s->kind == JVP) add_value(p, is_vector(p, s->a));
	for (int i = 0; s->kind == GRAD && i < s->n; i++) add_value(p, is_vector(p, s->by[i]));
}

static void add_step(program *p)
{
	gen *G = &p->G;
	step s = { .kind = (kind)gen_below(G, KINDS),
		   .a = operand(p, p->nvalue),
		   .b = operand(p, p->nvalue),
		   .op = (int)gen_below(G, 8),
		   .out = p->nvalue,
		   .limit = (double)gen_below(G, 5) - 2 };
	if (gen_chance(G, 20)) s.kind = GRAD;
	if (p->nvalue == ARGS) s.kind = ONE;
	s.cell = (int)gen_below(G, CELLS);
	if (s.kind == GRAD || s.kind == JVP) make_request(p, &s);
	else if (s.kind == ASSIGN) {
		if (!is_vector(p, s.a)) return;
		p->assigned[s.cell] = p->nstep;
	} else if (s.kind != DATA)
		add_value(p, s.kind == TOTAL                       ? false
		             : s.kind == PRODUCT || s.kind == FLIP ? true
		                                                   : is_vector(p, s.a) || (s.kind == TWO && is_vector(p, s.b)));
	p->step[p->nstep++] = s;
}

static void make(program *p, uint64_t seed)
{
	*p = (program){ .assigned = { -1, -1 } };
	gen_init(&p->G, &p->g, seed * 0x2545F4914F6CDD1Du + 7);
	p->dtype = gen_chance(&p->G, 60) ? TJ_F64 : TJ_F32;
	for (int i = 0; i < ARGS; i++) {
		add_value(p, true);
		p->born[i] = -1;
	}
	const int n = 5 + (int)gen_below(&p->G, MOST_STEPS - 5);
	while (p->nstep < n && p->nvalue + BY < MOST_VALUES) add_step(p);
	for (int i = p->nvalue - 1; i >= 0 && p->nout < MOST_OUT; i--) p->out[p->nout++] = i;
}

/* ---- what C reads ---- */
static double seen(machine *m, double now)
{
	reads *l = m->log;
	if (m->blind) return m->next < l->n ? l->v[m->next++] : 0;
	if (l->n < (int)RT_COUNT(l->v)) l->v[l->n++] = now;
	return now;
}
static double read_item(machine *m, tj_tensor *t) { return seen(m, m->blind ? 0 : tj_item(tj_sum(t, TJ_ALL, false))); }
static bool read_truth(machine *m, tj_tensor *t, double limit)
{
	return seen(m, m->blind ? 0 : tj_truth(tj_any(tj_gt(t, tj_f(limit)), TJ_ALL, false))) != 0;
}

/* ---- a run ---- */
static tj_tensor *at(machine *m, int r) { return r < 0 ? m->cell[-1 - r] : m->v[r]; }

static tj_tensor *one(int op, tj_tensor *x)
{
	switch (op) {
	case 0: return tj_sin(x);
	case 1: return tj_tanh(x);
	case 2: return tj_mul(x, x);
	case 3: return tj_relu(x);
	case 4: return tj_exp(tj_tanh(x));
	case 5: return tj_sub(x, tj_mean(x, TJ_ALL, false));
	case 6: return tj_softmax(x, 0);
	default: return tj_cos(x);
	}
}
static tj_tensor *two(int op, tj_tensor *x, tj_tensor *y)
{
	return op & 4 ? tj_maximum(x, y) : op & 2 ? tj_mul(x, y) : op & 1 ? tj_sub(x, y) : tj_add(x, y);
}

typedef struct inside { const step *s; tj_tensor *other; } inside;
static void in_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const inside *w = self;
	out[0] = tj_tanh(two(w->s->op, in[0], one(7 - w->s->op, w->other)));
}
static void in_counted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	in_turn(out, in, self);
	out[1] = tj_add(in[1], tj_i(1));
}
static void in_test(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const inside *w = self;
	out[0] = tj_logical_and(tj_lt(in[1], tj_i(TURNS)), tj_any(tj_lt(in[0], tj_f(w->s->limit * 0.3)), TJ_ALL, false));
}
static void in_other(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = one(((const inside *)self)->s->op, in[0]); }

static tj_tensor *looped(machine *m, const step *s, tj_tensor *x)
{
	for (int k = 0; k < TURNS; k++) {
		if (!(read_item(m, x) > s->limit)) break;
		x = tj_sub(one(s->op, x), tj_f(0.25));
	}
	return x;
}

static void request(machine *m, const step *s)
{
	tj_tensor *by[BY + 1], *y = at(m, s->a);
	for (int i = 0; i < s->n; i++) by[i] = at(m, s->by[i]);
	by[s->n] = TJ_END;
	if (s->kind == JVP) m->v[s->out] = tj_jvp(y, by, by, TJ_UNUSED_ZEROS);
	else tj_grad(&m->v[s->out], tj_sum(y, TJ_ALL, false), by, TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void run_step(machine *m, const step *s)
{
	tj_tensor *x = at(m, s->a), *y = at(m, s->b), **to = &m->v[s->out], *both[2];
	inside w = { s, x };
	switch (s->kind) {
	case ONE: *to = is_vector(m->p, s->a) || s->op != 6 ? one(s->op, x) : tj_sin(x); break;
	case TWO: *to = two(s->op, x, y); break;
	case TOTAL: *to = tj_sum(x, TJ_ALL, false); break;
	case FLIP: *to = is_vector(m->p, s->a) ? tj_flip(x, TJ_AXES(0)) : tj_expand(x, TJ_SHAPE(N)); break;
	case PRODUCT: *to = tj_sum(tj_mul(tj_reshape(m->cell[s->cell], TJ_SHAPE(N, 1)), x), TJ_AXES(1), false); break;
	case ITEM: *to = tj_mul(x, tj_f(tanh(read_item(m, x)))); break;
	case TRUTH: *to = read_truth(m, x, s->limit) ? tj_mul(x, tj_f(0.5)) : tj_sin(x); break;
	case LOOP: *to = looped(m, s, x); break;
	case DATA: read_item(m, x); break;
	case ASSIGN: tj_assign(m->cell[s->cell], tj_tanh(x)); break;
	case GRAD: case JVP: request(m, s); break;
	case SCAN: tj_scan(to, NULL, 0, in_turn, TJ_LIST(x), TJ_NONE, &w, TJ_OPTS(tj_scan_opts, .length = TURNS)); break;
	case WHILE:
		tj_while(both, in_test, in_counted, TJ_LIST(x, tj_i(0)), &w, TJ_OPTS(tj_while_opts, .max_turns = TURNS));
		*to = both[0];
		break;
	case COND: tj_cond(to, 1, tj_any(tj_gt(x, tj_f(s->limit)), TJ_ALL, false), in_turn, in_other, TJ_LIST(x), &w); break;
	case AGAIN: tj_checkpoint(to, 1, in_other, TJ_LIST(x), &w); break;
	case KINDS: break;
	}
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	machine *m = self;
	const program *p = m->p;
	m->next = 0;
	if (!m->blind) m->log->n = 0;
	for (int i = 0; i < ARGS; i++) m->v[i] = in[i];
	for (int i = 0; i < p->nstep; i++) {
		if (!p->step[i].off) run_step(m, &p->step[i]);
		else
			for (int k = p->step[i].out; k < p->nvalue && p->born[k] == i; k++) m->v[k] = p->vector[k] ? in[0] : tj_sum(in[0], TJ_ALL, false);
	}
	for (int i = 0; i < p->nout; i++) out[i] = m->v[p->out[i]];
}

/* ---- machines ---- */
static const struct { const char *name, *backend; tj_mode mode; bool blind; int audit;
} kinds[] = {
	{ "by the evaluator", "eval", TJ_VERIFY, false, 0 },
	{ "without reads", NULL, TJ_VERIFY, true, 0 },
	{ "compiled", NULL, TJ_VERIFY, false, 1 },
	{ "direct", NULL, TJ_DIRECT, false, 2 },
};
enum { MACHINES = RT_COUNT(kinds) };

static bool open_machine(machine *m, program *p, int k, reads *l)
{
	*m = (machine){ .p = p, .name = kinds[k].name, .blind = kinds[k].blind, .log = l };
	m->c = tj_open(TJ_OPTS(tj_open_opts, .backend = kinds[k].backend, .audit = kinds[k].audit));
	if (!m->c) return false;
	for (int i = 0; i < CELLS; i++) {
		const double first[2][N] = { { 0.5, -0.25, 0.75 }, { -1, 0.5, 0.125 } };
		m->cell[i] = tj_param(m->c, p->dtype, TJ_SHAPE(N));
		float narrow[N];
		for (int e = 0; e < N; e++) narrow[e] = (float)first[i][e];
		tj_write(m->cell[i], p->dtype == TJ_F64 ? (const void *)first[i] : narrow, N * tj_dtype_size(p->dtype));
	}
	m->f = tj_compile(m->c, body, m,
	                  TJ_OPTS(tj_compile_opts, .name = "f", .nin = ARGS, .nout = p->nout, .mode = kinds[k].mode,
	                          .state = TJ_VARS(&m->cell[0], &m->cell[1])));
	return m->f != NULL;
}

typedef struct results { tj_status st; double v[MOST_OUT + CELLS][N]; char message[300]; } results;

static void put(machine *m, tj_tensor *t, double *to)
{
	float narrow[N];
	const size_t n = (size_t)tj_numel(t);
	if (m->p->dtype == TJ_F64) tj_read(t, to, n * sizeof *to);
	else {
		tj_read(t, narrow, n * sizeof *narrow);
		for (size_t i = 0; i < n; i++) to[i] = (double)narrow[i];
	}
}

static void run_machine(machine *m, double x[ARGS][N], results *r)
{
	tj_tensor *in[ARGS + 1], *out[MOST_OUT];
	*r = (results){ 0 };
	tj_ctx_use(m->c);
	tj_scope *s = tj_push(m->c);
	for (int i = 0; i < ARGS; i++) in[i] = tj_cast(tj_from_data(m->c, TJ_F64, TJ_SHAPE(N), x[i]), m->p->dtype);
	in[ARGS] = TJ_END;
	tj_call(m->f, out, in);
	r->st = tj_check(m->c);
	if (r->st != TJ_OK) snprintf(r->message, sizeof r->message, "%s: %s", tj_last_error(m->c)->site, tj_last_error(m->c)->message);
	for (int i = 0; r->st == TJ_OK && i < m->p->nout; i++) put(m, out[i], r->v[i]);
	for (int i = 0; i < CELLS; i++) put(m, m->cell[i], r->v[MOST_OUT + i]);
	tj_pop(s);
}

static bool alike(double a, double b) { return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)); }

/* By a cell that was assigned after the value had been computed from it. Whether it was is known to a machine that reads more, or less. */
static bool is_refused(const results *r) { return r->st == TJ_ERR_STATE && strstr(r->message, "then assigned at"); }

static void compare(const program *p, const results *a, const results *b, const char *who, int run, rt_text *why)
{
	if (a->st != b->st)
		rt_putf(why, "%s, call %d: \"%s\" %s; by the evaluator \"%s\" %s", who, run, tj_strerror(b->st), b->message,
		        tj_strerror(a->st), a->message);
	for (int i = 0; i < MOST_OUT + CELLS && !why->n; i++)
		for (int e = 0; e < N && !why->n; e++)
			if (!alike(a->v[i][e], b->v[i][e]))
				rt_putf(why, "%s, call %d: %s %d, element %d is %.17g, by the evaluator %.17g", who, run,
				        i < MOST_OUT ? "value" : "cell", i < MOST_OUT ? p->out[i] : i - MOST_OUT, e, b->v[i][e],
				        a->v[i][e]);
}

static void check(program *p, rt_text *why, fuzz_mix *mix)
{
	machine m[MACHINES];
	reads read = { .n = 0 }, other = { .n = 0 };
	double x[ARGS][N];
	for (int k = 0; k < MACHINES; k++)
		if (!open_machine(&m[k], p, k, k < 2 ? &read : &other)) abort();
	for (int run = 0; run < RUNS && !why->n; run++) {
		results first, r;
		bool refused;
		for (int i = 0; i < ARGS * N && run != 1; i++) x[i / N][i % N] = (double)(gen_below(&p->G, 4001) - 2000) / 1000;
		run_machine(&m[0], x, &first);
		refused = is_refused(&first);
		for (int k = 1; k < MACHINES && !why->n; k++) {
			run_machine(&m[k], x, &r);
			refused |= is_refused(&r);
			if (!refused) compare(p, &first, &r, m[k].name, run, why);
		}
		if (mix) mix->calls++;
		if (mix) mix->sized += refused;
		if (refused) break; /* the cells differ from here on */
		if (mix) mix->branches += (uint64_t)read.n;
	}
	for (int k = 0; k < MACHINES; k++) {
		tj_stats st = { .size = sizeof st };
		tj_fn_stats(m[k].f, &st);
		if (mix) mix->direct += st.direct, mix->audits += st.audits;
		tj_close(m[k].c);
	}
}

/* ---- runs ---- */
void fuzz_reads_batch(uint64_t seed, int n, int fd)
{
	fuzz_result r = { .ok = true };
	alarm(120);
	for (int i = 0; i < n; i++) {
		program p;
		rt_text why = { 0 };
		make(&p, seed + (uint64_t)i);
		check(&p, &why, &r.mix);
		for (int k = 0; k < p.nstep; k++)
			r.mix.steps++, r.mix.flows += p.step[k].kind >= SCAN, r.mix.assigns += p.step[k].kind == ASSIGN,
				r.mix.varied += p.step[k].kind == GRAD;
		r.mix.graphs++;
		r.ok &= !why.n;
		rt_text_free(&why);
		gen_free(&p.G);
	}
	_exit(write(fd, &r, sizeof r) != (ssize_t)sizeof r);
}

static void check_child(void *env, rt_text *why)
{
	program *p = env;
	check(p, why, NULL);
}

static void print_program(const program *p)
{
	static const char *const name[KINDS] = { "one",  "two",    "total", "flip", "product", "item",  "truth", "loop",
		                                 "data", "assign", "grad",  "jvp",  "scan",    "while", "cond",  "checkpoint" };
	printf("  %s\n", tj_dtype_name(p->dtype));
	for (int i = 0; i < p->nstep; i++) {
		const step *s = &p->step[i];
		if (s->off) continue;
		printf("  step %d: v%d = %s v%d v%d op %d cell %d limit %g", i, s->out, name[s->kind], s->a, s->b, s->op, s->cell, s->limit);
		for (int k = 0; k < s->n; k++) printf("%s v%d", k ? "," : " by", s->by[k]);
		printf("\n");
	}
	for (int i = 0; i < p->nout; i++) printf("  out v%d\n", p->out[i]);
}

/* Drops outputs and steps that the failure does not need. */
static void reduce(program *p, fuzz_verdict *v)
{
	for (int i = 0; i < p->nout && p->nout > 1;) {
		const int was = p->out[i];
		p->out[i] = p->out[--p->nout];
		const fuzz_verdict w = fuzz_in_child(check_child, p);
		if (!w.ok) *v = w;
		else p->nout++, p->out[p->nout - 1] = p->out[i], p->out[i++] = was;
	}
	for (int i = p->nstep - 1; i >= 0; i--) {
		p->step[i].off = true;
		const fuzz_verdict w = fuzz_in_child(check_child, p);
		if (w.ok) p->step[i].off = false;
		else *v = w;
	}
}

bool fuzz_reads_alone(uint64_t seed)
{
	program p;
	make(&p, seed);
	fuzz_verdict v = fuzz_in_child(check_child, &p);
	if (!v.ok) {
		reduce(&p, &v);
		printf("FAIL -api -grad seed %llu: %s\n", (unsigned long long)seed, v.why);
		print_program(&p);
	}
	gen_free(&p.G);
	return v.ok;
}
