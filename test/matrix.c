/* SPDX-License-Identifier: MIT */
/* matrix: every op of ir/ops.def x dtype x shape x layout x executor, against the evaluator, bit for bit.
 *
 *   matrix [-w 512|256|128|all|rotate] [-d device] [-f] [-z] [-n n] [-q] [-s seed] [REGEX]      REGEX: of case names, as in "softmax f32
 * \[3,5\]"
 *
 * -z: every size is an argument of the code, so that the shapes of an op share code. -w rotate: each width has a third of the cases of
 * an op. -n: only every n-th case. Many cases of an op are outputs of one graph, so that they need one compile. An op without cases
 * fails. A case that the evaluator refuses at run time (class FAULT) must be refused with the same code. test/matrix.expect lists cases
 * that are known to fail; if one of them passes, that is a failure, too. Each op runs in its own process, so that a crash is a failed
 * case. nonzero, masked_select and unique are not in the table: test/unit/test_sized.c and fuzz -api test them. */
#include "test/gen.h"

#include <errno.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPREAD = GEN_LAYOUTS /* of one number */, MAX_DIM = 6, CHUNK = 160, WORKERS = 2, PATIENCE_S = 180 };

/* ---- shapes ---- */
typedef struct shape { int rank; int64_t dim[MAX_DIM]; bool reductions; } shape;
static const shape shapes[] = {
	{ 0, { 0 }, false },
	{ 1, { 0 }, false },
	{ 2, { 0, 3 }, false },
	{ 1, { 1 }, false },
	{ 2, { 1, 1 }, false },
	{ 1, { 7 }, false },
	{ 1, { 33 }, false },
	{ 2, { 3, 5 }, false },
	{ 3, { 2, 3, 4 }, false },
	{ 1, { 65 }, false },
	{ 2, { 16, 129 }, false },
	{ 2, { 5, 1 }, false },
	{ 3, { 1, 17, 1 }, false },
	{ 4, { 2, 0, 3, 2 }, false },
	{ 5, { 2, 1, 3, 2, 9 }, false },
	{ 2, { 64, 64 }, false },
	{ 1, { 16 }, false },
	{ 2, { 40, 3 }, false },
	{ 3, { 2, 1, 64 }, false },
	{ 6, { 2, 3, 1, 2, 2, 3 }, false },
	{ 1, { 127 }, true },
	{ 1, { 128 }, true },
	{ 1, { 129 }, true },
	{ 1, { 2048 }, true },
	{ 1, { 2049 }, true },
	{ 2, { 3, 5000 }, true },
	{ 2, { 700, 9 }, true },
	{ 3, { 33, 7, 65 }, true },
	{ 1, { 70001 }, true },
	{ 2, { 32, 2 }, true },
	{ 2, { 33, 2 }, true },
	{ 3, { 3, 200, 3 }, true },
};

static bool for_op(const shape *s, ir_op op)
{
	bool long_ones = (ir_ops[op].flags & IR_REDUCE) || op == IR_mean || op == IR_var || op == IR_softmax || op == IR_log_softmax ||
	                 op == IR_layer_norm || op == IR_rms_norm;
	return !s->reductions || long_ones;
}

/* ---- cases ---- */
typedef struct kase { /* one output */
	ir_op op;
	tj_dtype dtype;
	int shape, layout;
	gen_content content;
	uint32_t want;      /* op with several results: a bit for each that is used; else 0 */
	int fault;          /* 0: none; else 1 + where the bad value goes */
	char name[96];
} kase;
typedef rt_vec(kase) kases;

static struct {
	int width[3], nwidth, nth;
	bool quiet, full, sizes, rotate;
	const char *device; /* NULL: the CPU */
	uint64_t seed;
	regex_t re;
	bool filtered;
	const lo_target *llvm;
	char **expect;
	int nexpect;
} opt;

static const char *const content_name[GEN_CONTENTS] = { "plain", "special", "first", "last", "negzero", "ints" };

static void name_case(kase *k)
{
	rt_text t = { 0 };
	const shape *s = &shapes[k->shape];
	rt_putf(&t, "%s %s [", ir_ops[k->op].name, tj_dtype_name(k->dtype));
	for (int i = 0; i < s->rank; i++) rt_putf(&t, "%s%lld", i ? "," : "", (long long)s->dim[i]);
	rt_putf(&t, "] %s %s", k->layout == SPREAD ? "number" : gen_layout_name[k->layout], content_name[k->content]);
	for (int i = 0; i < ir_ops[k->op].nresult && k->want; i++)
		if (k->want >> i & 1) rt_putf(&t, " %s", ir_ops[k->op].result[i].name);
	if (k->fault) rt_putf(&t, " fault%d", k->fault);
	snprintf(k->name, sizeof k->name, "%s", rt_str(&t));
	rt_text_free(&t);
}

static void add_case(kases *list, kase k)
{
	name_case(&k);
	if (opt.filtered && regexec(&opt.re, k.name, 0, NULL, 0) != 0) return;
	if (!rt_push(list, k)) abort();
}

static gen_content content_for(ir_op op, int64_t n, int turn)
{
	static const gen_content reduced[] = { GEN_PLAIN, GEN_FIRST, GEN_LAST, GEN_NEGZERO, GEN_SPECIAL, GEN_PLAIN };
	if (ir_ops[op].flags & IR_LIB) return turn % 2 ? GEN_INTS : GEN_PLAIN;
	if (ir_ops[op].flags & (IR_REDUCE | IR_COMPOSITE)) return reduced[turn % (int)RT_COUNT(reduced)];
	return n >= 64 ? GEN_SPECIAL : turn % 3 == 2 ? GEN_PLAIN : GEN_SPECIAL;
}

/* Each subset of the results in turn. */
static uint32_t wanted(ir_op op, int turn) { return ir_ops[op].nresult > 1 ? 1 + (uint32_t)turn % ((1u << ir_ops[op].nresult) - 1) : 0; }

/* One layout for each shape, which also differs by dtype and op; -f: all layouts. */
static void cases_of(ir_op op, kases *list)
{
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (int s = 0; s < (int)RT_COUNT(shapes); s++) {
			int64_t n = 0;
			rt_numel(shapes[s].rank, shapes[s].dim, &n);
			if (!for_op(&shapes[s], op) || (gen_creates(op) && s > 5)) continue;
			for (int l = 0; l < GEN_LAYOUTS; l++) {
				if (!opt.full && l != (s + t + (int)op + (int)opt.seed) % GEN_LAYOUTS) continue;
				add_case(list, (kase){ .op = op,
				                       .dtype = (tj_dtype)t,
				                       .shape = s,
				                       .layout = l,
				                       .content = content_for(op, n, s + t + l),
				                       .want = wanted(op, s / 2 + t) });
			}
		}
}

/* Operands that are numbers, 0-d or expanded: leaves without memory of their own. */
static void numbers_of(ir_op op, kases *list)
{
	static const tj_dtype types[] = { TJ_I64, TJ_F32 };
	if (gen_creates(op) && op != IR_full && op != IR_one_hot) return;
	for (int t = 0; t < (int)RT_COUNT(types); t++)
		for (int s = 0; s < (int)RT_COUNT(shapes); s++)
			if (!shapes[s].reductions && (opt.full || s == 0 || (s + t + (int)op + (int)opt.seed) % 3 == 0))
				add_case(list, (kase){ .op = op, .dtype = types[t], .shape = s, .layout = SPREAD, .content = GEN_PLAIN, .want = wanted(op, s) });
}

/* Faults: an index out of range, an integer division by zero. Each is a graph of its own. */
static void faults_of(ir_op op, kases *list)
{
	static const int sizes[] = { 0, 3, 5, 6, 7, 10 };
	bool divides = ir_ops[op].flags & IR_POINT;
	if (!(ir_ops[op].flags & IR_FAULT)) return;
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (int s = 0; s < (int)RT_COUNT(sizes); s++) {
			if (divides && rt_is_float((tj_dtype)t)) continue;
			if (!opt.full && !divides && t != TJ_F32 && t != TJ_I64) continue;
			for (int where = 1; where <= 3; where++)
				if (opt.full || (where + s + t) % 2)
					add_case(list, (kase){ .op = op, .dtype = (tj_dtype)t, .shape = sizes[s], .layout = (s + t) % 2 ? GEN_ROW : GEN_STEP2,
					                       .content = GEN_PLAIN, .fault = where });
		}
}

/* ---- making the output of a case ---- */
static ir_ref apply(gen *G, const kase *k)
{
	const shape *s = &shapes[k->shape];
	int64_t dim[MAX_DIM];
	memcpy(dim, s->dim, sizeof dim);
	G->rng = rt_hash(k->name, strlen(k->name), opt.seed);
	G->layout = k->layout == SPREAD ? -1 : k->layout;
	G->content = k->content;
	G->want = k->want;
	for (int tries = 0; tries < 8; tries++) {
		if (tries >= 2 && k->op == IR_expand && s->rank) dim[gen_below(G, s->rank)] = 1; /* an axis that can be expanded */
		G->spread = k->layout == SPREAD ? 100 : 0;
		ir_ref x = gen_creates(k->op) ? IR_NONE : gen_input_any(G, k->dtype, s->rank, dim);
		G->spread /= 2;
		ir_ref r = gen_op(G, k->op, x);
		if (r != IR_NONE) return r;
	}
	return IR_NONE;
}

/* ---- verdicts ---- */
typedef struct tally { int passed, failed; uint8_t ran[IR_OPS]; } tally;
typedef struct report { tally t; rt_text text; } report;

static bool expected(const char *name)
{
	for (int i = 0; i < opt.nexpect; i++)
		if (!strncmp(opt.expect[i], name, strlen(opt.expect[i]))) return true;
	return false;
}

RT_PRINTF(5, 6)
static void verdict(report *rep, const kase *k, const char *where, bool ok, const char *fmt, ...)
{
	char name[160], why[400];
	va_list ap;
	snprintf(name, sizeof name, "%s %s", k->name, where);
	bool known = expected(name);
	rep->t.ran[k->op] = 1;
	if (ok != known) {
		rep->t.passed++;
		return;
	}
	rep->t.failed++;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	rt_putf(&rep->text, "FAIL %s: %s\n", name, known ? "passes, but is listed in test/matrix.expect" : why);
}

/* ---- one graph of cases on one executor ---- */
typedef struct executor { char name[24]; gen_how how; int width; } executor;

static lo_family *family;

static executor executor_at(int i)
{
	executor e = { .name = "eval" };
	if (i == 0) return e;
	if (opt.device) snprintf(e.name, sizeof e.name, "%s", opt.device);
	else {
		e.width = opt.width[i - 1];
		snprintf(e.name, sizeof e.name, "llvm%d", e.width);
	}
	e.how.device = opt.device ? gen_device(opt.device) : RT_CPU;
	e.how.target = opt.llvm;
	if (opt.sizes && !family) family = lo_family_new(); /* of this op's process */
	e.how.family = family;
	e.how.symbols = opt.sizes;
	return e;
}

static int executors(void) { return 1 + (opt.device ? 1 : opt.llvm ? opt.nwidth : 0); }

static void use_width(int width)
{
	char s[16];
	snprintf(s, sizeof s, "%d", width);
	if (width) setenv("TJ_CPU", s, 1);
}

static void compare(gen *G, const kase *k, uint32_t out, const gen_out *want, const gen_out *got, const char *where, report *rep)
{
	ir_ref r = G->g->out.v[out];
	tj_dtype t = (tj_dtype)ir_at(G->g, r)->dtype;
	int64_t at = 0;
	rt_text a = { 0 }, b = { 0 };
	bool ok = gen_same(t, want->data[out], got->data[out], ir_numel(G->g, r), &at);
	if (!ok) {
		gen_put_element(&a, t, got->data[out], at);
		gen_put_element(&b, t, want->data[out], at);
	}
	verdict(rep, k, where, ok, "element %lld is %s, the evaluator has %s", (long long)at, rt_str(&a), rt_str(&b));
	rt_text_free(&a);
	rt_text_free(&b);
}

static void run_on(gen *G, const kase *k, const uint32_t *out, uint32_t n, const executor *e, report *rep)
{
	gen_out got, want;
	rt_err err = { 0 };
	char why[200] = "";
	uint32_t bad = UINT32_MAX;
	use_width(e->width);
	if (!gen_out_new(&got, G->g) || !gen_out_new(&want, G->g)) abort();
	tj_status st = gen_run(G, &e->how, &got, &err);
	if (st == TJ_OK && (st = gen_oracle(G, false, &got, &want, &err)) != TJ_OK) snprintf(why, sizeof why, "evaluator: ");
	if (st == TJ_OK) gen_margins_ok(&got, &bad);
	for (uint32_t i = 0; i < n; i++) {
		if (out[i] == UINT32_MAX) continue;
		uint32_t results = k[i].want ? (uint32_t)__builtin_popcount(k[i].want) : 1;
		if (st != TJ_OK) verdict(rep, &k[i], e->name, false, "%s%s: %s", why, err.op ? err.op : "?", err.message);
		else if (bad >= out[i] && bad - out[i] < results) verdict(rep, &k[i], e->name, false, "writes outside of its destination");
		else
			for (uint32_t j = 0; j < results; j++) compare(G, &k[i], out[i] + j, &want, &got, e->name, rep);
	}
	if (st == TJ_OK && n && !gen_lib_ok(G, &got, why, sizeof why)) verdict(rep, &k[0], e->name, false, "in this group: %s", why);
	gen_out_free(&got);
	gen_out_free(&want);
}

/* If compiling a graph fails as a whole, it is halved. */
static void run_group(const kase *k, uint32_t n, report *rep);

/* *x: the plan that was built, or NULL. While it exists, the first executor need not compile its kernels again. */
static bool builds(gen *G, rt_exec **x)
{
	executor e = executor_at(1);
	rt_err err = { 0 };
	lo_opts o = { .name = "t", .target = opt.llvm, .family = e.how.family, .moving.all = e.how.symbols };
	use_width(e.width);
	return lo_build(G->g, &o, x, &err) == TJ_OK;
}

/* Without elements any index is a fault, and there is nothing else to compute. */
/* Their loops are the evaluator's own: docs/OPS.md has the list (test_states). */
static bool is_factor(int op)
{
	return op == IR_cholesky || op == IR_solve_lower || op == IR_lu_packed || op == IR_qr_packed || op == IR_eigh_packed ||
	       op == IR_svd_packed;
}

static bool is_empty(const gen *G) { return ir_numel(G->g, G->step.v[G->step.n - 1].src[0]) == 0; }

static void run_group(const kase *k, uint32_t n, report *rep)
{
	gen G;
	ir_graph g;
	uint32_t *out = calloc(n, sizeof *out), used = 0;
	gen_init(&G, &g, 1);
	for (uint32_t i = 0; i < n; i++) {
		ir_ref r = apply(&G, &k[i]);
		out[i] = r == IR_NONE ? UINT32_MAX : g.out.n;
		used += r != IR_NONE;
		if (r != IR_NONE && !ir_ret(&g, r)) abort();
		for (int j = 0; r != IR_NONE && j < G.nalso; j++)
			if (!ir_ret(&g, G.also[j])) abort();
	}
	rt_text why = { 0 };
	if (used && !gen_folds_ok(&G, &why)) verdict(rep, &k[0], "simplified", false, "in this group: %s", rt_str(&why));
	rt_text_free(&why);
	gen_keep_lib(&G);
	rt_exec *built = NULL;
	bool halve = used && n > 1 && opt.llvm && !opt.device && (!builds(&G, &built) || built->eval_steps);
	if (used && n == 1 && opt.llvm && !opt.device && builds(&G, &built) && built->eval_steps && !is_empty(&G) && !is_factor(k->op))
		verdict(rep, k, "compiled", false, "the evaluator computes a step of it");
	for (int e = 0; used && !halve && e < executors(); e++) {
		executor x = executor_at(e);
		run_on(&G, k, out, n, &x, rep);
	}
	if (built) rt_exec_unref(built);
	gen_free(&G);
	free(out);
	if (!halve) return;
	run_group(k, n / 2, rep);
	run_group(k + n / 2, n - n / 2, rep);
}

/* ---- faults ---- */
static int index_operand(ir_op op) { return op == IR_one_hot ? 0 : 1; }

/* Puts a bad value into the operand that the op checks; false: the operand has no elements. */
static bool spoil(gen *G, const kase *k)
{
	const gen_step *s = &G->step.v[G->step.n - 1];
	bool divides = ir_ops[k->op].flags & IR_POINT;
	const ir_node *n = ir_at(G->g, s->src[divides ? 1 : index_operand(k->op)]);
	int64_t numel = 0, at = 0;
	if (n->op != IR_input) return false;
	gen_slot *x = &G->slot.v[ir_attr(G->g, n)[0]];
	rt_numel(x->meta.rank, x->meta.dim, &numel);
	if (!numel || rt_is_float((tj_dtype)x->meta.dtype)) return false;
	if (k->fault == 2)
		for (int i = 0; i < x->meta.rank; i++) at += (x->meta.dim[i] - 1) * x->stride[i]; /* the last element */
	int64_t v = divides ? 0 : k->fault == 1 ? -1 : k->fault == 2 ? 100000 : INT32_MIN;
	size_t size = tj_dtype_size((tj_dtype)x->meta.dtype); /* the low bytes */
	memcpy((char *)x->data + at * (int64_t)size, &v, size);
	return true;
}

static void run_fault(const kase *k, report *rep)
{
	gen G;
	ir_graph g;
	gen_out want, got;
	gen_init(&G, &g, 1);
	G.numbers = false;
	ir_ref r = apply(&G, k);
	if (r == IR_NONE || ir_numel(&g, r) == 0 || !spoil(&G, k) || !ir_ret(&g, r)) {
		gen_free(&G);
		return;
	}
	for (int zero = 0; zero <= (ir_ops[k->op].flags & IR_POINT ? 1 : 0); zero++)
		for (int e = 0; e < executors(); e++) {
			executor x = executor_at(e);
			rt_err a = { 0 }, b = { 0 };
			x.how.int_div_zero = zero;
			use_width(x.width);
			if (!gen_out_new(&got, &g) || !gen_out_new(&want, &g)) abort();
			tj_status st = gen_oracle(&G, zero, NULL, &want, &a), su = gen_run(&G, &x.how, &got, &b);
			bool site = !b.site || !a.site || !strcmp(a.site, b.site), op = !a.op || !b.op || !strcmp(a.op, b.op);
			if (st != su)
				verdict(rep, k, x.name, false, "\"%s\" %s, the evaluator has \"%s\"", tj_strerror(su), b.message, tj_strerror(st));
			else if (st != TJ_OK) verdict(rep, k, x.name, site && op, "%s at %s, the evaluator has %s at %s", b.op, b.site, a.op, a.site);
			else compare(&G, k, 0, &want, &got, x.name, rep);
			gen_out_free(&got);
			gen_out_free(&want);
		}
	gen_free(&G);
}

/* ---- processes ---- */
typedef struct work { const kase *k; uint32_t n; bool faults; pid_t pid; int fd, width; } work; /* width: the only one, or 0 */

static void child(const work *w)
{
	report rep = { 0 };
	alarm(PATIENCE_S);
	if (w->width) opt.width[0] = w->width, opt.nwidth = 1;
	if (w->faults)
		for (uint32_t i = 0; i < w->n; i++) run_fault(&w->k[i], &rep);
	else run_group(w->k, w->n, &rep);
	FILE *f = fdopen(w->fd, "wb");
	if (!f || fwrite(&rep.t, sizeof rep.t, 1, f) != 1 || fputs(rt_str(&rep.text), f) < 0 || fclose(f)) _exit(3);
	_exit(0);
}

static void start(work *w)
{
	fflush(stdout);
	w->fd = memfd_create("matrix", 0);
	w->pid = fork();
	if (w->fd < 0 || w->pid < 0) {
		perror("matrix");
		exit(2);
	}
	if (!w->pid) child(w);
}

static bool collect(work *w, int status, tally *all)
{
	tally t;
	char buf[4096];
	ssize_t n;
	bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0 && pread(w->fd, &t, sizeof t, 0) == (ssize_t)sizeof t;
	lseek(w->fd, sizeof t, SEEK_SET);
	while (ok && (n = read(w->fd, buf, sizeof buf)) > 0) fwrite(buf, 1, (size_t)n, stdout);
	close(w->fd);
	w->pid = 0;
	if (!ok) return false;
	all->passed += t.passed;
	all->failed += t.failed;
	for (int i = 0; i < IR_OPS; i++) all->ran[i] |= t.ran[i];
	return true;
}

/* After a crash: halves the cases until the failing one is found. */
static void bisect(work w, int status, tally *all)
{
	if (w.n == 1) {
		report rep = { 0 };
		const char *how = WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "does not end" : strsignal(WTERMSIG(status)) : "exits";
		verdict(&rep, w.k, "any", false, "%s", how);
		fputs(rt_str(&rep.text), stdout);
		all->passed += rep.t.passed;
		all->failed += rep.t.failed;
		all->ran[w.k->op] = 1;
		rt_text_free(&rep.text);
		return;
	}
	work half[2] = { { w.k, w.n / 2, w.faults, 0, -1, w.width }, { w.k + w.n / 2, w.n - w.n / 2, w.faults, 0, -1, w.width } };
	for (int i = 0; i < 2; i++) {
		int st = 0;
		start(&half[i]);
		waitpid(half[i].pid, &st, 0);
		if (!collect(&half[i], st, all)) bisect(half[i], st, all);
	}
}

static void finish_one(work *w, tally *all)
{
	int status = 0;
	pid_t pid = wait(&status);
	for (int i = 0; i < WORKERS; i++)
		if (w[i].pid == pid && pid > 0 && !collect(&w[i], status, all)) bisect(w[i], status, all);
}

static void submit(work *pool, work w, tally *all)
{
	for (;;) {
		for (int i = 0; i < WORKERS; i++)
			if (!pool[i].pid) {
				pool[i] = w;
				start(&pool[i]);
				return;
			}
		finish_one(pool, all);
	}
}

static void progress(int op, const tally *all)
{
	if (opt.quiet || !isatty(1)) return;
	printf("\r%3d/%d  %-16s %6d passed, %d failed  ", op + 1, IR_OPS, ir_ops[op].name, all->passed, all->failed);
	fflush(stdout);
}

static void submit_chunks(work *pool, const kase *k, uint32_t n, bool faults, int width, tally *all)
{
	for (uint32_t at = 0; at < n; at += CHUNK) submit(pool, (work){ k + at, n - at < CHUNK ? n - at : CHUNK, faults, 0, -1, width }, all);
}

/* -w rotate: each width runs every third case. first: the width of the first case. */
static void submit_list(work *pool, kases *l, bool faults, int first, tally *all)
{
	kases dealt = { 0 };
	uint32_t widths = (uint32_t)opt.nwidth, kept = 0;
	for (uint32_t k = 0; k < l->n; k++)
		if ((k + (uint32_t)first) % (uint32_t)opt.nth == 0 || l->n < (uint32_t)opt.nth) l->v[kept++] = l->v[k];
	l->n = kept;
	if (!opt.rotate) {
		submit_chunks(pool, l->v, l->n, faults, 0, all);
		return;
	}
	for (uint32_t i = 0; i < widths; i++)
		for (uint32_t k = i; k < l->n; k += widths)
			if (!rt_push(&dealt, l->v[k])) abort();
	rt_vec_free(l);
	*l = dealt;
	for (uint32_t i = 0, at = 0, n; i < widths; i++, at += n) {
		n = (l->n + widths - 1 - i) / widths;
		submit_chunks(pool, l->v + at, n, faults, opt.width[((uint32_t)first + i) % widths], all);
	}
}

/* The cases of ops that none has run of. */
static void run_those_left(tally *all)
{
	work pool[WORKERS] = { { 0 } };
	kases list[2][IR_OPS];
	memset(list, 0, sizeof list);
	for (int op = 0; op < IR_OPS; op++) {
		if (all->ran[op]) continue;
		cases_of((ir_op)op, &list[0][op]);
		numbers_of((ir_op)op, &list[0][op]);
		faults_of((ir_op)op, &list[1][op]);
		for (int f = 0; f < 2; f++) submit_list(pool, &list[f][op], f == 1, op + f, all);
		progress(op, all);
	}
	for (int i = 0; i < WORKERS; i++)
		while (pool[i].pid) finish_one(pool, all);
	for (int op = 0; op < IR_OPS; op++) {
		rt_vec_free(&list[0][op]);
		rt_vec_free(&list[1][op]);
	}
}

static void run_all(tally *all)
{
	run_those_left(all);
	if (opt.nth > 7) { /* few shapes fit some ops: every n-th case of these may be none that runs */
		opt.nth = 7;
		run_those_left(all);
	}
	if (!opt.quiet && isatty(1)) printf("\r%60s\r", "");
	for (int op = 0; op < IR_OPS && !opt.filtered; op++)
		if (!all->ran[op] && !(ir_ops[op].flags & IR_EFFECT)) {
			printf("FAIL %s: no case runs it\n", ir_ops[op].name);
			all->failed++;
		}
}

/* ---- options ---- */
static void read_expected(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "#\n")] = 0;
		size_t n = strlen(line);
		while (n && line[n - 1] == ' ') line[--n] = 0;
		if (!n) continue;
		opt.expect = realloc(opt.expect, sizeof *opt.expect * (size_t)(opt.nexpect + 1));
		if (!opt.expect || !(opt.expect[opt.nexpect++] = strdup(line))) abort();
	}
	if (f) fclose(f);
}

/* Without -w: one width, another one every day. */
static void widths(const char *s)
{
	static const int all[] = { 512, 256, 128 };
	opt.nwidth = 0;
	opt.rotate = s && !strcmp(s, "rotate");
	if (opt.rotate || (s && !strcmp(s, "all"))) {
		memcpy(opt.width, all, sizeof all);
		opt.nwidth = 3;
	} else opt.width[opt.nwidth++] = s ? atoi(s) : all[time(NULL) / 86400 % 3];
}

static int usage(void)
{
	fprintf(stderr, "usage: matrix [-w 512|256|128|all|rotate] [-d device] [-f] [-z] [-n n] [-q] [-s seed] [REGEX]\n"
	                "  -f  every layout for every shape     -z  sizes as arguments of the code     -e  only the evaluator's plans\n"
	                "  -d  on this device (cuda:0, mock:0) instead of the CPU\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *w = NULL, *why = "not asked for";
	bool only_eval = false;
	int o;
	while ((o = getopt(argc, argv, "w:s:n:d:fqez")) != -1) {
		if (o == 'w') w = optarg;
		else if (o == 's') opt.seed = strtoull(optarg, NULL, 0);
		else if (o == 'n') opt.nth = atoi(optarg);
		else if (o == 'f') opt.full = true;
		else if (o == 'z') opt.sizes = true;
		else if (o == 'q') opt.quiet = true;
		else if (o == 'e') only_eval = true;
		else if (o == 'd') gen_on_gpu = !strncmp(opt.device = optarg, "cuda", 4);
		else return usage();
	}
	if (opt.nth < 1) opt.nth = 1;
	widths(w);
	if (optind < argc) {
		opt.filtered = true;
		if (regcomp(&opt.re, argv[optind], REG_EXTENDED | REG_NOSUB)) return usage();
	}
	read_expected("test/matrix.expect");
	if (!only_eval && !(opt.llvm = lo_backend_find("llvm", &why) ? &lo_cpu : NULL)) {
		printf("FAIL no back end: %s\n0 passed, 1 failed, 0 skipped\n", why);
		return 1;
	}
	tally all = { 0 };
	run_all(&all);
	printf("%d passed, %d failed, 0 skipped\n", all.passed, all.failed);
	return all.failed != 0;
}
