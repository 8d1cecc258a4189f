/* SPDX-License-Identifier: MIT */
/* fuzz -layers: random programs of the functions that are made of ops (functions/): convolutions, norms, losses, statistics, indexing and
 * so on.
 *
 * A program has 2 to 6 steps. A step is a function, its first operand (an earlier value, or a new operand) and a seed. From the seed and
 * the shapes of its operands it draws all the rest, so every machine that runs the program makes the same calls. (Another compiler may draw
 * arguments of a call in another order: then a seed is another program.) Operands that no step computes are arguments or captured tensors
 * of any layout, or cells. A program runs with new data, and at other sizes. One of eight has large sizes, and a team. First its functions
 * run one after the other, in the evaluator; then inside compiled functions of both modes and of both back ends. All results agree bit for
 * bit, cells included; an error is the same error. Some programs have .autocast: then the evaluator's function is the first. -grad: the
 * compiled functions also give gradients of the sum of all floats by up to four arguments; these are compared with the evaluator's. The
 * functions are in fuzz_calls.c.
 *
 * With TJ_DEVICE operands are on that device; on a GPU a library computes products and convolutions of floats, so their results may differ.
 *
 * A failing program is cut to its first steps; they and the graphs of its function are printed. */
#include "test/fuzz_layers.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_STEPS = 6, CALLS = 4, TRIES = 60 };
/* elements of new operands, and of results; of programs with large sizes */
enum { ROOM = 700, MOST_RESULT = 4000, LARGE_ROOM = 6000, MOST_LARGE = 60000 };

typedef struct step {
	int fn;             /* a row of layer_rows */
	int x;              /* the value that is its first operand; -1: a new operand, which it draws */
	uint64_t seed;
} step;

typedef struct program {
	gen G;              /* draws the program, and holds the data of operands as slots */
	ir_graph g;         /* nothing reads it */
	uint64_t seed;
	step step[MOST_STEPS];
	int nstep, nout, ran; /* ran: the steps up to the first that failed, in the run that makes operands */
	int64_t size[LAYER_SIZES];
	uint32_t slot[LAYER_OPERANDS]; /* the data of each operand */
	bool cell[LAYER_OPERANDS];
	int noperand;
	bool direct, dynamic, large;
	tj_dtype low;       /* .autocast; TJ_BOOL: none */
} program;

/* ---- operands ---- */
static const int64_t *ended(const ir_meta *m, int64_t *room)
{
	memcpy(room, m->dim, sizeof *room * m->rank);
	room[m->rank] = TJ_END_DIM;
	return room;
}

/* The operand in the context of the machine: a copy, or a view of the slot's memory with its strides. */
static tj_tensor *tensor_of(machine *m, int k)
{
	const program *p = m->p;
	const gen_slot *s = &p->G.slot.v[p->slot[k]];
	int64_t dim[TJ_MAX_RANK + 1], stride[TJ_MAX_RANK + 1] = { 0 };
	ended(&s->meta, dim);
	memcpy(stride, s->stride, sizeof *stride * s->meta.rank);
	stride[s->meta.rank] = TJ_END_DIM;
	if ((p->seed + (uint64_t)k) % 3 && !p->cell[k] && !getenv("TJ_DEVICE"))
		return tj_wrap(m->c, (tj_dtype)s->meta.dtype, dim, stride, s->data, NULL, NULL);
	void *flat = gen_flat(s);
	tj_tensor *t = p->cell[k] ? tj_param(m->c, (tj_dtype)s->meta.dtype, dim) : tj_from_data(m->c, (tj_dtype)s->meta.dtype, dim, flat);
	if (p->cell[k]) tj_write(t, flat, (size_t)tj_numel(t) * tj_dtype_size((tj_dtype)s->meta.dtype));
	free(flat);
	return t;
}

static void new_operand(machine *m, int k, const wanted *w, int rank)
{
	program *p = m->p;
	const uint64_t key[2] = { p->seed, (uint64_t)k };
	p->G.layout = rt_hash(key, sizeof key, 5) % 5 < 2 ? GEN_ROW
	                                                  : (int)(rt_hash(key, sizeof key, 6) % GEN_LAYOUTS); /* stays from call to call */
	gen_input(&p->G, w->dtype, rank, w->shape, w->content, w->lo, w->hi);
	p->slot[k] = p->G.slot.n - 1;
	p->cell[k] = w->cell;
	p->noperand = k + 1;
	m->own[k] = tensor_of(m, k);
}

tj_tensor *layer_operand(machine *m, wanted w)
{
	program *p = m->p;
	int rank = 0;
	const int k = m->next++;
	while (w.shape[rank] != TJ_END_DIM) rank++;
	if (k >= LAYER_OPERANDS) return m->lost = true, tj_i(0);
	if (m->makes) new_operand(m, k, &w, rank);
	const ir_meta *have = k < p->noperand ? &p->G.slot.v[p->slot[k]].meta : NULL;
	const bool casts = p->low != TJ_BOOL && have && rt_is_float((tj_dtype)have->dtype) && rt_is_float(w.dtype);
	if (!have || (have->dtype != w.dtype && !casts) || have->rank != rank ||
	    (rank && memcmp(have->dim, w.shape, sizeof *w.shape * (size_t)rank)))
		return m->lost = true, tj_i(0);
	if (!m->in || k % 2 || p->cell[k]) return m->own[k];
	if (rt_is_float((tj_dtype)have->dtype) && m->nwrt < LAYER_GRADS) m->wrt[m->nwrt++] = m->in[k / 2];
	return m->in[k / 2];
}

int64_t layer_size(machine *m) { return m->p->size[gen_below(&m->dice, LAYER_SIZES)]; }

/* ---- a step ---- */
static bool fits(const machine *m, const layer_row *row, tj_tensor *x)
{
	return tj_rank(x) >= row->least && tj_rank(x) <= row->most && row->dtypes >> tj_dtype_of(x) & 1 &&
	       tj_numel(x) <= (m->p->large ? MOST_LARGE : MOST_RESULT);
}

static tj_tensor *first_operand(machine *m, const layer_row *row)
{
	static const tj_dtype often[] = { TJ_F32, TJ_F32, TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_I64, TJ_I32 };
	int64_t shape[TJ_MAX_RANK + 1], n = 1;
	tj_dtype t;
	for (int tries = 0;; tries++) {
		t = gen_chance(&m->dice, 60) ? often[gen_below(&m->dice, RT_COUNT(often))] : (tj_dtype)gen_below(&m->dice, TJ_DTYPE_COUNT);
		if (row->dtypes >> t & 1) break;
	}
	const int rank = row->least + (int)gen_below(&m->dice, row->most - row->least + 1);
	for (int i = 0; i < rank; i++) {
		shape[i] = layer_size(m);
		if (n * shape[i] > (m->p->large ? LARGE_ROOM : ROOM)) shape[i] = 1 + gen_below(&m->dice, 3);
		n *= shape[i] ? shape[i] : 1;
	}
	shape[rank] = TJ_END_DIM;
	return layer_of(m, t, shape);
}

/* False: its result is poison. */
static bool run_step(machine *m, const step *s)
{
	m->dice.rng = s->seed;
	const layer_row *row = &layer_rows[s->fn];
	const bool there = s->x >= 0 && s->x < m->nvalue &&
	                   fits(m, row, m->value[s->x]); /* at another size the value may have another rank, or be too large */
	tj_tensor *x = row->most < 0 ? NULL : there ? m->value[s->x] : first_operand(m, row);
	tj_tensor *y = row->call(m, x);
	if (m->nvalue < LAYER_VALUES) m->value[m->nvalue++] = y;
	for (int i = 0; i < m->nvalue; i++)
		if (tj_is_poison(m->value[i])) return false;
	return !m->lost;
}

void layer_also(machine *m, tj_tensor *y)
{
	if (m->nvalue < LAYER_VALUES - 1) m->value[m->nvalue++] = y;
}

static int choose_x(program *p, const machine *m, const layer_row *row)
{
	for (int tries = 0; tries < 6 && m->nvalue; tries++) {
		const int back = gen_chance(&p->G, 60) && m->nvalue > 2 ? 2 : m->nvalue, i = m->nvalue - 1 - (int)gen_below(&p->G, back);
		if (fits(m, row, m->value[i])) return i;
	}
	return -1;
}

static void start_machine(machine *m, tj_tensor *const *in)
{
	m->next = m->nvalue = m->nwrt = 0;
	m->in = in;
	m->lost = false;
}

/* Adds a step that gives no error, and sometimes one that does, as the last one. */
static bool add_step(program *p, machine *m)
{
	for (int tries = 0; tries < TRIES; tries++) {
		step s = { .fn = (int)gen_below(&p->G, layer_row_count), .seed = gen_next(&p->G) };
		const layer_row *row = &layer_rows[s.fn];
		const int next = m->next, nvalue = m->nvalue, noperand = p->noperand;
		s.x = row->most < 0 ? -1 : choose_x(p, m, row);
		bool ok = run_step(m, &s);
		bool large = false;
		for (int i = nvalue; i < m->nvalue && ok; i++) large |= tj_numel(m->value[i]) > (p->large ? MOST_LARGE : MOST_RESULT);
		const bool failed = tj_check(m->c) != TJ_OK || !ok;
		if (!large && !m->lost && (!failed || gen_chance(&p->G, 4))) {
			p->step[p->nstep++] = s;
			return !failed;
		}
		m->next = next;
		m->nvalue = nvalue;
		p->noperand = noperand;
		m->lost = false;
	}
	return false;
}

static bool is_large(uint64_t seed) { return seed % 8 == 3; }

static void make(program *p, uint64_t seed, machine *m)
{
	static const int64_t sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17 }, large[] = { 31, 33, 64, 65, 129, 200 };
	*p = (program){ .seed = seed, .large = is_large(seed) };
	gen *G = &p->G;
	gen_init(G, &p->g, seed * 0x2545F4914F6CDD1Du + 17);
	for (int i = 0; i < LAYER_SIZES; i++)
		p->size[i] = p->large && gen_chance(G, 50) ? large[gen_below(G, RT_COUNT(large))]
		             : gen_chance(G, 2)            ? 0
		                                           : sizes[gen_below(G, RT_COUNT(sizes))];
	p->direct = gen_chance(G, 50);
	p->dynamic = gen_chance(G, 40);
	if (gen_chance(G, 15)) p->low = gen_chance(G, 50) ? TJ_F16 : TJ_BF16;
	m->p = p;
	m->makes = true;
	start_machine(m, NULL);
	for (int k = 2 + (int)gen_below(G, MOST_STEPS - 1); k > 0 && add_step(p, m); k--) continue;
	p->nout = m->nvalue;
}

/* ---- machines ---- */
/* The gradients of the sum of all floats by some arguments; zeros in place of those that there are not. */
static void gradients(machine *m, tj_tensor **out)
{
	tj_tensor *y = NULL;
	for (int i = 0; i < LAYER_GRADS; i++) out[i] = tj_full(TJ_F32, TJ_SHAPE(1), tj_i(0));
	for (int i = 0; i < m->nvalue; i++) {
		if (!rt_is_float(tj_dtype_of(m->value[i]))) continue;
		tj_tensor *s = tj_sum(tj_cast(m->value[i], TJ_F32), TJ_ALL, false);
		y = y ? tj_add(y, s) : s;
	}
	m->wrt[m->nwrt] = TJ_END;
	if (y && m->nwrt) tj_grad(out, y, m->wrt, TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	machine *m = self;
	program *p = m->p;
	start_machine(m, in);
	int done = 0;
	while (done < (m->makes ? p->nstep : p->ran) && run_step(m, &p->step[done++])) continue;
	if (m->makes) p->ran = done;
	for (int i = 0; i < p->nout; i++)
		out[i] = i < m->nvalue ? m->value[i] : m->nvalue ? m->value[m->nvalue - 1] : tj_full(TJ_F32, TJ_SHAPE(1), tj_i(0));
	if (fuzz_opt.grad && m->f) gradients(m, out + p->nout);
}

typedef struct result { ir_meta meta; void *data; } result;
typedef struct outcome { /* of a call */
	tj_status status;
	char message[200];
	result of[LAYER_VALUES + LAYER_OPERANDS + LAYER_GRADS]; /* the outputs, then the cells, then the gradients */
	int n;
} outcome;

static void keep(outcome *o, tj_tensor *t)
{
	result *r = &o->of[o->n++];
	*r = (result){ .meta = { .dtype = (uint8_t)tj_dtype_of(t), .rank = (uint8_t)tj_rank(t) } };
	for (int i = 0; i < r->meta.rank; i++) r->meta.dim[i] = tj_dim(t, i);
	const size_t bytes = (size_t)tj_numel(t) * tj_dtype_size(tj_dtype_of(t));
	const void *d = tj_data(t);
	r->data = malloc(bytes + 1);
	if (!r->data) abort();
	if (bytes) memcpy(r->data, d, bytes);
}

static void forget(outcome *o)
{
	for (int i = 0; i < o->n; i++) free(o->of[i].data);
	*o = (outcome){ 0 };
}

static void note_error(outcome *o, tj_ctx *c)
{
	o->status = tj_check(c);
	const tj_error *e = tj_last_error(c);
	if (o->status != TJ_OK && e) snprintf(o->message, sizeof o->message, "%s: %s", e->op, e->message);
}

/* Results, cells, gradients. Reading a value may find an error, too. */
static void look(machine *m, tj_tensor **out, outcome *o)
{
	const program *p = m->p;
	note_error(o, m->c);
	for (int i = 0; i < p->nout && o->status == TJ_OK; i++) keep(o, out[i]);
	for (int k = 0; k < p->noperand && o->status == TJ_OK; k++)
		if (p->cell[k]) keep(o, m->own[k]);
	for (int i = 0; fuzz_opt.grad && m->f && i < LAYER_GRADS && o->status == TJ_OK; i++) keep(o, out[p->nout + i]);
	if (o->status == TJ_OK) note_error(o, m->c);
}

static bool is_fault(tj_status st) { return st == TJ_ERR_INDEX || st == TJ_ERR_DIV; }

static void compare(const program *p, const outcome *want, const outcome *got, const char *who, const char *first, int nth, rt_text *why)
{
	if (why->n || (is_fault(want->status) && got->status == TJ_OK))
		return; /* unused elements may be left out, and their faults: docs/NUMERICS.md */
	if (got->status != want->status && !(is_fault(got->status) && is_fault(want->status)))
		rt_putf(why, "\"%s\" %s, %s \"%s\" %s", tj_strerror(got->status), got->message, first, tj_strerror(want->status), want->message);
	for (int i = 0; i < want->n && want->status == TJ_OK && !why->n; i++) {
		const result *a = &got->of[i], *b = &want->of[i];
		const tj_dtype t = (tj_dtype)b->meta.dtype;
		int64_t n = 0, at = 0;
		rt_numel(b->meta.rank, b->meta.dim, &n);
		if (memcmp(&a->meta, &b->meta, sizeof a->meta)) rt_putf(why, "%s %d has another type", i < p->nout ? "output" : "cell or gradient", i);
		else if (!gen_same(t, a->data, b->data, n, &at)) {
			rt_putf(why, "%s %d, element %lld is ", i < p->nout ? "output" : "cell or gradient", i, (long long)at);
			gen_put_element(why, t, a->data, at);
			rt_putf(why, ", %s it is ", first);
			gen_put_element(why, t, b->data, at);
		}
	}
	if (why->n) rt_putf(why, " (%s, call %d)", who, nth);
}

enum { ONE_BY_ONE, IN_EVALUATOR, COMPILED, DIRECT, SINGLE, MACHINES };
typedef struct fixture {
	tj_ctx *eval, *llvm;
	machine m[MACHINES];
	tj_tensor **var[MACHINES][LAYER_OPERANDS + LAYER_SIZES + 1];
} fixture;

static void open_machine(fixture *x, int i, program *p, const char *name)
{
	machine *m = &x->m[i];
	*m = (machine){ .p = p, .c = i <= IN_EVALUATOR || !x->llvm ? x->eval : x->llvm, .name = name, .makes = i == ONE_BY_ONE };
	for (int k = 0; k < LAYER_OPERANDS; k++) x->var[i][k] = &m->own[k];
	for (int k = 0; k < LAYER_SIZES; k++) x->var[i][LAYER_OPERANDS + k] = &m->size[k]; /* the body reads them */
	x->var[i][LAYER_OPERANDS + LAYER_SIZES] = TJ_END_VAR;
	if (i == ONE_BY_ONE || i == SINGLE) return;
	tj_ctx_use(m->c);
	m->f = tj_compile(m->c, body, m,
	                  TJ_OPTS(tj_compile_opts, .name = "layers", .nin = LAYER_OPERANDS / 2,
	                          .nout = p->nout + (fuzz_opt.grad ? LAYER_GRADS : 0), .mode = i == DIRECT ? TJ_DIRECT : TJ_VERIFY,
	                          .state = i == DIRECT ? x->var[i] : NULL, .autocast = p->low,
	                          .dynamic = p->dynamic ? TJ_DYNAMIC_ON : TJ_DYNAMIC_AUTO));
	if (!m->f) abort();
}

static void open_contexts(fixture *x, uint64_t seed, const char *log)
{
	*x = (fixture){ .eval = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval")) };
	if (fuzz_opt.llvm) x->llvm = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .log = log, .threads = is_large(seed) ? 3 : 0));
	if (!x->eval || (fuzz_opt.llvm && !x->llvm)) abort();
	tj_ctx_use(x->eval);
	x->m[ONE_BY_ONE].c = x->eval;
}

/* The operands in the context of this machine, also those that another size or call has no use for. */
static void give_operands(machine *m, tj_tensor **in)
{
	const program *p = m->p;
	tj_tensor *none = tj_full(TJ_F32, TJ_SHAPE(1), tj_i(0));
	for (int k = 0; k < LAYER_OPERANDS; k++) m->own[k] = k < p->noperand ? tensor_of(m, k) : none;
	for (int k = 0; k < LAYER_OPERANDS; k += 2) in[k / 2] = p->cell[k] && k < p->noperand ? none : m->own[k];
	for (int k = 0; k < LAYER_SIZES; k++) m->size[k] = tj_i(p->size[k]);
	in[LAYER_OPERANDS / 2] = TJ_END;
}

static void release_cells(machine *m)
{
	for (int k = 0; k < m->p->noperand; k++)
		if (m->p->cell[k]) tj_release(m->own[k]);
}

static void run_machine(machine *m, outcome *o, int nth)
{
	tj_tensor *out[LAYER_VALUES + LAYER_GRADS] = { 0 }, *in[LAYER_OPERANDS / 2 + 1];
	tj_ctx_use(m->c);
	tj_scope *s = tj_push(m->c);
	tj_seed(m->c, m->p->seed + (uint64_t)nth);
	if (!m->makes) give_operands(m, in);
	if (m->f) tj_call(m->f, out, in);
	else body(out, NULL, m);
	look(m, out, o);
	release_cells(m);
	if (m->lost) o->status = TJ_ERR_STATE, snprintf(o->message, sizeof o->message, "the calls differ from those of the first run");
	tj_pop(s);
}

/* Other values for one or two sizes; the last call has the first ones again. */
static void next_size(program *p, const int64_t *base, int nth)
{
	memcpy(p->size, base, sizeof p->size);
	if (nth != 2) return;
	for (int k = 1 + (int)gen_below(&p->G, 2); k > 0; k--)
		p->size[gen_below(&p->G, LAYER_SIZES)] = gen_chance(&p->G, 10) ? 1 : 2 + gen_below(&p->G, p->large ? 80 : 9);
}

/* Outside of compiled functions there are no gradients, and no .autocast: then the evaluator's function has the results to compare with. */
static bool only_compiled(const program *p) { return fuzz_opt.grad || p->low != TJ_BOOL; }

static bool used(const program *p, int i, int nth)
{
	if (i == SINGLE) return nth == 0 && p->seed % 4 == 0 && !only_compiled(p);
	if (i == IN_EVALUATOR) return only_compiled(p) || p->seed % 3 == 0;
	return i != DIRECT || p->direct;
}

static void check_program(program *p, fixture *x, rt_text *why, fuzz_mix *mix)
{
	static const char *const names[MACHINES] = { "one by one", "compiled for the evaluator", "compiled", "direct",
		                                     "one by one, each compiled" };
	int64_t base[LAYER_SIZES];
	memcpy(base, p->size, sizeof base);
	for (int i = 0; i < MACHINES; i++) open_machine(x, i, p, names[i]);
	for (int nth = 0; nth < CALLS && !why->n; nth++) {
		outcome want = { 0 }, got = { 0 };
		const char *first = names[ONE_BY_ONE];
		next_size(p, base, nth);
		run_machine(&x->m[0], &want, nth);
		for (int i = 1; i < MACHINES && !why->n; i++) {
			if (!used(p, i, nth)) continue;
			run_machine(&x->m[i], &got, nth);
			if (i > IN_EVALUATOR || p->low == TJ_BOOL) compare(p, &want, &got, names[i], first, nth, why);
			if (i == IN_EVALUATOR && only_compiled(p)) {
				outcome was = want;
				want = got;
				got = was;
				first = names[i];
			}
			forget(&got);
		}
		if (mix) mix->calls++, mix->branches += want.status != TJ_OK;
		forget(&want);
	}
	tj_stats st = { .size = sizeof st };
	for (int i = 0; i < MACHINES && mix; i++) {
		if (!x->m[i].f) continue;
		tj_fn_stats(x->m[i].f, &st);
		mix->direct += st.direct;
		mix->compiled += st.compiled;
		mix->shared += st.shared;
	}
}

static void use_width(uint64_t seed)
{
	char s[16];
	snprintf(s, sizeof s, "%d", fuzz_opt.width[seed % (uint64_t)fuzz_opt.nwidth]);
	setenv("TJ_CPU", s, 1);
}

static void close_contexts(fixture *x)
{
	if (x->llvm) tj_close(x->llvm);
	tj_close(x->eval);
}

/* ---- runs ---- */
void fuzz_layers_batch(uint64_t seed, int n, int fd)
{
	fuzz_result r = { .ok = true };
	alarm(120);
	for (int i = 0; i < n; i++) {
		program p;
		fixture x;
		rt_text why = { 0 };
		use_width(seed + (uint64_t)i);
		open_contexts(&x, seed + (uint64_t)i, NULL);
		make(&p, seed + (uint64_t)i, &x.m[ONE_BY_ONE]);
		r.mix.graphs++;
		r.mix.steps += (uint64_t)p.nstep;
		r.mix.inputs += (uint64_t)p.noperand;
		for (int k = 0; k < p.nstep; k++) r.mix.layer[p.step[k].fn]++;
		check_program(&p, &x, &why, &r.mix);
		r.ok &= !why.n;
		rt_text_free(&why);
		close_contexts(&x);
		gen_free(&p.G);
	}
	_exit(write(fd, &r, sizeof r) != (ssize_t)sizeof r);
}

typedef struct subject { uint64_t seed; int steps; bool log; } subject; /* steps: of the program, at most */

static void check_child(void *env, rt_text *why)
{
	const subject *s = env;
	program p;
	fixture x;
	use_width(s->seed);
	open_contexts(&x, s->seed, s->log ? "graph" : NULL);
	make(&p, s->seed, &x.m[ONE_BY_ONE]);
	if (s->steps < p.nstep) p.nstep = s->steps;
	for (int k = 0; k < p.nstep && s->log; k++)
		fprintf(stderr, "step %d: %s of %s %d\n", k, layer_rows[p.step[k].fn].name, p.step[k].x < 0 ? "a new operand" : "value", p.step[k].x);
	check_program(&p, &x, why, NULL);
}

bool fuzz_layers_alone(uint64_t seed)
{
	subject s = { .seed = seed, .steps = MOST_STEPS };
	fuzz_verdict v = fuzz_in_child(check_child, &s);
	if (v.ok) return true;
	while (s.steps > 1) {
		s.steps--;
		fuzz_verdict w = fuzz_in_child(check_child, &s);
		if (!w.ok) {
			v = w;
			continue;
		}
		s.steps++;
		break;
	}
	printf("FAIL -layers%s seed %llu: %s\n", fuzz_opt.grad ? " -grad" : "", (unsigned long long)seed, v.why);
	s.log = true;
	fuzz_in_child(check_child, &s); /* prints the program */
	return false;
}

/* Which functions the programs called. */
int fuzz_print_layers(const fuzz_mix *m)
{
	int col = 0, never = 0;
	printf("mix: %llu programs, %.1f functions each; %llu operands; %llu calls, %llu of them errors; %llu calls skipped the body; %llu "
	       "kernels compiled, %llu shared\n",
	       (unsigned long long)m->graphs, (double)m->steps / (m->graphs ? (double)m->graphs : 1), (unsigned long long)m->inputs,
	       (unsigned long long)m->calls, (unsigned long long)m->branches, (unsigned long long)m->direct,
	       (unsigned long long)m->compiled, (unsigned long long)m->shared);
	for (int i = 0; i < layer_row_count && m->graphs > 9; i++) {
		col += printf("%s%s %llu", col ? ", " : "  ", layer_rows[i].name, (unsigned long long)m->layer[i]);
		if (col > 120) printf(",\n"), col = 0;
	}
	printf("\n");
	for (int i = 0; i < layer_row_count && m->steps >= 60 * (uint64_t)layer_row_count; i++)
		if (!m->layer[i]) printf("FAIL the mix: %s was never called\n", layer_rows[i].name), never++;
	return never;
}
