/* SPDX-License-Identifier: MIT */
/* products: random graphs around matrix products, compiled and compared with the evaluator, bit for bit. Fast products of bf16 must be
 * within the bound of docs/NUMERICS.md; what follows them is compared bit for bit.
 *
 *   products [-n cases] [-s first seed] [-t seconds] [-w 512|256|128|rotate] [-threads n] [-j processes] [-v]
 *
 * A case is one to four products of operands of any layout, with views and ops in front of them and ops behind them (products.h). It runs
 * in one thread and by a team; the team of a process has 1 to 4 threads, by the seed. Most operands and results end at a page that
 * cannot be accessed, or begin behind one. Some cases run again at other sizes, or with rows that lie elsewhere, with shared code.
 *
 * -t: ends after so many seconds. -threads: every team has this size. -v: prints the graphs first.
 *
 * A failing case is made simpler while it fails in the same way; its graph is printed. `products -n 1 -s SEED` runs it again. */
#include "test/products.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 24, PATIENCE_S = 60, HELD_FROM = 3000, TEAMS = 4 };

static struct {
	int n, seconds, width[3], nwidth, threads, processes;
	uint64_t seed;
	bool verbose;
} opt = { .n = 400, .seed = 1, .processes = 1 };

static int width_of(uint64_t seed) { return opt.width[seed % (uint64_t)opt.nwidth]; }
static int threads_of(uint64_t seed) { return opt.threads ? opt.threads : 1 + (int)(seed / BATCH % TEAMS); }

/* ---- memory that children share with their parent ---- */
typedef struct board { /* of one child */
	uint64_t seed;       /* of the case that runs */
	prod_mix mix;
	char why[900];       /* what went wrong; "": nothing so far */
} board;

typedef struct totals { /* of all processes */
	prod_mix mix;
	uint64_t passed, failed;
} totals;

static void *share(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) return p;
	perror("products");
	exit(2);
}

/* ---- one case ---- */
static board *here;                 /* of this process; the handler of signals writes to it */
static const gen *running;
static const gen_out *results;

static bool describe(char *to, size_t size, const char *at, const char *begin, const char *end, const char *what, uint32_t i)
{
	if (at < begin - 4096 || at >= end + 4096) return false;
	if (at >= end) snprintf(to, size, ", %lld bytes behind the end of %s %u", (long long)(at - end), what, i);
	else snprintf(to, size, ", %lld bytes in front of %s %u", (long long)(begin - at), what, i);
	return true;
}

/* Says which operand or result the access missed. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	char where[200] = "";
	const char *at = info->si_addr;
	bool known = false;
	(void)context;
	for (uint32_t i = 0; running && i < running->slot.n && !known; i++) {
		const gen_slot *s = &running->slot.v[i];
		known = describe(where, sizeof where, at, (char *)s->map + 4096, (char *)s->map + s->mapped - 4096, "external", i);
	}
	for (uint32_t i = 0; results && results->map && i < results->n && !known; i++)
		known = describe(where, sizeof where, at, (char *)results->map[i] + 4096,
		                 (char *)results->map[i] + results->mapped[i] - 4096, "result", i);
	snprintf(here->why, sizeof here->why, "%s at %p%s", strsignal(sig), (const void *)at, where);
	_exit(1);
}

static void catch_faults(void)
{
	struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGBUS, &a, NULL);
}

static void compare(gen *G, const gen_out *want, const gen_out *got, const char *name, rt_text *why)
{
	for (uint32_t i = 0; i < got->n; i++) {
		const ir_ref r = G->g->out.v[i];
		const tj_dtype t = (tj_dtype)ir_at(G->g, r)->dtype;
		int64_t at = 0;
		if (gen_same(t, want->data[i], got->data[i], ir_numel(G->g, r), &at)) continue;
		rt_putf(why, "values differ, %s: result %u (%%%u %s), element %lld is ", name, i, r, ir_ops[ir_at(G->g, r)->op].name, (long long)at);
		gen_put_element(why, t, got->data[i], at);
		rt_puts(why, ", the evaluator has ");
		gen_put_element(why, t, want->data[i], at);
		return;
	}
}

/* want: made by the first run. near: some products are only near the evaluator's, which then continues with the results of this run. */
static void run_once(gen *G, const prod_case *c, const gen_how *how, bool near, gen_out *want, rt_text *why)
{
	gen_out got;
	rt_err err = { 0 };
	char name[48], lib[200];
	uint32_t bad;
	const bool first = !want->n;
	snprintf(name, sizeof name, "%d bits, %d thread%s%s", width_of(here->seed), how->team ? how->threads : 1, how->team ? "s" : "",
	         how->in_place ? ", in place" : "");
	if (!gen_out_at(&got, G->g, c->place) || (first && !gen_out_new(want, G->g))) abort();
	results = &got;
	tj_status st = gen_run(G, how, &got, &err);
	results = NULL;
	if (st != TJ_OK) rt_putf(why, "error, %s: %s: %s", name, err.op ? err.op : "?", err.message);
	else if ((first || near) && gen_oracle(G, false, &got, want, &err) != TJ_OK)
		rt_putf(why, "error of the evaluator: %s: %s", err.op ? err.op : "?", err.message);
	else if (!gen_margins_ok(&got, &bad)) rt_putf(why, "writes outside of its destination, %s: result %u", name, bad);
	else if (!gen_lib_ok(G, &got, lib, sizeof lib)) rt_putf(why, "product, %s: %s", name, lib);
	else compare(G, want, &got, name, why);
	gen_out_free(&got);
}

/* By one thread and by the team, or in the other order; the second run has the code of the first one. */
static void run_both(gen *G, const prod_case *c, lo_family *family, prod_mix *mix, rt_text *why)
{
	gen_out want = { 0 };
	const uint32_t nout = G->g->out.n;
	const int threads = threads_of(here->seed);
	const int64_t fixed[] = { c->n, c->k, c->n2, c->heads, c->batch[0], c->batch[PROD_BATCH - 1] };
	gen_keep_lib(G);
	const bool near = G->g->out.n != nout;
	for (int i = 0; i < (threads > 1 ? 2 : 1) && !why->n; i++) {
		gen_how how = { .target = &lo_cpu,
			        .family = family,
			        .symbols = c->symbols,
			        .off = c->unfused ? LO_OFF(FUSE) | LO_OFF(EPILOGUE) : 0,
			        .threads = threads };
		if (c->rows_move)
			how.moving = (lo_moving){ .moving = &c->m,
				                  .nmoving = 1,
				                  .fixed = fixed,
				                  .nfixed = RT_COUNT(fixed),
				                  .always = c->resized || c->seed % 2 };
		how.team = threads > 1 && c->team_first == (i == 0);
		how.in_place = c->in_place && i == (threads > 1);
		run_once(G, c, &how, near, &want, why);
		mix->runs++;
	}
	gen_out_free(&want);
}

static void run_graph(const prod_case *c, lo_family *family, prod_mix *mix, rt_text *why)
{
	gen G;
	ir_graph g;
	gen_init(&G, &g, c->seed);
	running = &G;
	prod_graph(&G, c);
	prod_count(c, &G, mix);
	if (g.err.code != TJ_OK || !g.out.n) rt_putf(why, "no graph: %s", g.err.message);
	else run_both(&G, c, family, mix, why);
	running = NULL;
	gen_free(&G);
}

static void run_case(const prod_case *c, rt_text *why)
{
	char width[16];
	prod_case other = *c;
	lo_family *family = lo_family_new();
	if (!family) abort();
	snprintf(width, sizeof width, "%d", width_of(here->seed));
	setenv("TJ_CPU", width, 1);
	alarm(PATIENCE_S);
	run_graph(c, family, &here->mix, why);
	for (int i = 0; i < (c->rows_move ? 4 : 2) && c->again && !why->n; i++) {
		prod_other_sizes(&other);
		run_graph(&other, family, &(prod_mix){ 0 }, why);
		if (why->n) rt_putf(why, " (size number %d: %lld x %lld x %lld)", i + 1, (long long)other.m, (long long)other.n, (long long)other.k);
	}
	lo_family_free(family);
}

/* ---- children: a crash is a failure like another ---- */
/* Runs f in a child; b->why says how it ended if it did not end well. */
static void in_child(board *b, void (*f)(const prod_case *c, int n), const prod_case *c, int n)
{
	int status = 0;
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		here = b;
		catch_faults();
		f(c, n);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (*b->why || (WIFEXITED(status) && !WEXITSTATUS(status))) return;
	const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	snprintf(b->why, sizeof b->why, "%s", sig == SIGALRM ? "does not end" : sig ? strsignal(sig) : "the process exits");
}

static void keep_why(rt_text *why)
{
	snprintf(here->why, sizeof here->why, "%s", rt_str(why));
	rt_text_free(why);
}

/* The cases from here->seed on, up to the first failure. */
static void run_cases(const prod_case *c, int n)
{
	(void)c;
	for (; n > 0 && !*here->why; n--) {
		rt_text why = { 0 };
		prod_case x;
		prod_draw(&x, here->seed);
		run_case(&x, &why);
		if (why.n) keep_why(&why);
		else here->seed++;
	}
}

static void run_given(const prod_case *c, int n)
{
	rt_text why = { 0 };
	(void)n;
	run_case(c, &why);
	keep_why(&why);
}

/* ---- making a failing case simpler ---- */
static bool same_kind(const char *a, const char *b) { return !strncmp(a, b, strcspn(a, ", ")); }

static bool fails(const prod_case *c, uint64_t seed, board *b, char *why, size_t size)
{
	b->seed = seed;
	b->why[0] = 0;
	in_child(b, run_given, c, 1);
	if (!*b->why || !same_kind(why, b->why)) return false;
	snprintf(why, size, "%s", b->why);
	return true;
}

static void print_graph(const prod_case *c)
{
	static const char *const place[] = { "anywhere", "at the end of a page", "at the start of a page" };
	gen G;
	ir_graph g;
	rt_text t = { 0 };
	gen_init(&G, &g, c->seed);
	prod_graph(&G, c);
	ir_print(&g, &t);
	printf("# %lld x %lld x %lld; operands and results %s%s%s%s\n", (long long)c->m, (long long)c->n, (long long)c->k, place[c->place],
	       c->unfused ? "; unfused" : "", c->symbols ? "; sizes are arguments" : "", c->fast ? "; fast" : "");
	fputs(rt_str(&t), stdout);
	fflush(stdout);
	rt_text_free(&t);
	gen_free(&G);
}

static void report(uint64_t seed, const char *first)
{
	prod_case c;
	board *b = share(sizeof *b);
	char why[sizeof b->why];
	prod_draw(&c, seed);
	snprintf(why, sizeof why, "%s", first);
	printf("FAIL seed %llu: %s\n", (unsigned long long)seed, first);
	if (!fails(&c, seed, b, why, sizeof why)) printf("     passes when it runs alone\n");
	else
		for (bool changed = true; changed;) {
			changed = false;
			for (int way = 0; way < PROD_WAYS; way++) {
				prod_case simple = c;
				if (!prod_simplify(&simple, way) || !fails(&simple, seed, b, why, sizeof why)) continue;
				c = simple;
				changed = true;
			}
		}
	printf("     simplest: %s\n", why);
	print_graph(&c);
	munmap(b, sizeof *b);
}

/* ---- all cases ---- */
static void add_mix(prod_mix *all, const prod_mix *m)
{
	uint64_t *a = (uint64_t *)all;
	const uint64_t *b = (const uint64_t *)m;
	for (size_t i = 0; i < sizeof *m / sizeof *a; i++) __atomic_fetch_add(&a[i], b[i], __ATOMIC_RELAXED);
}

static void progress(const totals *t, time_t begin)
{
	static time_t last;
	const time_t now = time(NULL);
	if (!isatty(1) || now == last) return;
	last = now;
	printf("\r%6llu cases, %llu failed, %lld s ", (unsigned long long)(t->passed + t->failed), (unsigned long long)t->failed,
	       (long long)(now - begin));
	fflush(stdout);
}

/* The seeds first..end - 1 in a child; another child continues behind a failure. */
static void run_batch(uint64_t first, uint64_t end, totals *t)
{
	board *b = share(sizeof *b);
	for (b->seed = first; b->seed < end;) {
		const uint64_t from = b->seed;
		in_child(b, run_cases, NULL, (int)(end - b->seed));
		__atomic_fetch_add(&t->passed, b->seed - from, __ATOMIC_RELAXED);
		if (!*b->why) break;
		__atomic_fetch_add(&t->failed, 1, __ATOMIC_RELAXED);
		report(b->seed++, b->why);
		b->why[0] = 0;
	}
	add_mix(&t->mix, &b->mix);
	munmap(b, sizeof *b);
}

/* Every batch number `which` modulo the number of processes. Batches begin at multiples of BATCH, so a seed always has the same team. */
static void run_share(int which, totals *t, time_t begin)
{
	const uint64_t stop = opt.seed + (uint64_t)opt.n;
	for (uint64_t at = opt.seed, end; at < stop; at = end) {
		end = at / BATCH * BATCH + BATCH;
		if (end > stop) end = stop;
		if (opt.seconds && time(NULL) - begin >= opt.seconds) return;
		if (at / BATCH % (uint64_t)opt.processes == (uint64_t)which) run_batch(at, end, t);
		if (!which) progress(t, begin);
	}
}

/* ---- the mix ---- */
static void put_count(int *col, const char *name, uint64_t n)
{
	const char *sep = *col ? ", " : "  ";
	if (*col > 110) {
		sep = ",\n  ";
		*col = 0;
	}
	*col += printf("%s%s %llu", sep, name, (unsigned long long)n);
}

static void print_mix(const prod_mix *m)
{
	const double n = m->cases ? (double)m->cases : 1;
	const char *const *after;
	const int ops = prod_after_ops(&after);
	int col = 0;
	printf("mix: %llu cases, %.1f products and %.1f runs each\n", (unsigned long long)m->cases, (double)m->products / n, (double)m->runs / n);
	const struct { const char *name; uint64_t n;
	} share[] = { { "empty", m->empty },
		      { "vectors", m->vectors },
		      { "batches", m->batches },
		      { "k > 256", m->chunks },
		      { "large", m->large },
		      { "views", m->views },
		      { "ops in front", m->ahead },
		      { "odd layouts", m->odd },
		      { "constants", m->constants },
		      { "mixed dtypes", m->casts },
		      { "special values", m->special },
		      { "several results", m->kept },
		      { "guard pages", m->guarded },
		      { "shared code", m->sizes },
		      { "fast", m->fast },
		      { "kernels side by side", m->beside },
		      { "kernels that follow", m->follow } };
	for (size_t i = 0; i < RT_COUNT(share); i++) printf("%s %s %.0f%%", i ? "," : " ", share[i].name, 100 * (double)share[i].n / n);
	printf("\n");
	for (int i = 0; i < PROD_KINDS; i++) put_count(&col, prod_kind_name[i], m->kind[i]);
	printf("\n");
	col = 0;
	for (int i = 0; i < TJ_DTYPE_COUNT; i++) put_count(&col, tj_dtype_name((tj_dtype)i), m->dtype[i]);
	printf("\n");
	col = 0;
	for (int i = 0; i < ops; i++) put_count(&col, after[i], m->after[i]);
	printf("\n");
}

/* What a long run must have met; gives the number of things that it has not met. */
static int check_mix(const prod_mix *m)
{
	const char *const *after;
	const int ops = prod_after_ops(&after);
	const uint64_t often = m->cases / 50;
	int bad = 0;
	if (m->cases < HELD_FROM) return 0;
#define HOLD(what, count) \
	if ((count) < often) printf("FAIL the mix: %s: %llu\n", what, (unsigned long long)(count)), bad++
	for (int i = 0; i < ops; i++) HOLD(after[i], m->after[i]);
	for (int i = 0; i < PROD_KINDS; i++) HOLD(prod_kind_name[i], m->kind[i]);
	for (int i = 0; i < TJ_DTYPE_COUNT; i++)
		if (i != TJ_BOOL) HOLD(tj_dtype_name((tj_dtype)i), m->dtype[i]);
	HOLD("k > 256", m->chunks);
	HOLD("ops in front", m->ahead);
	HOLD("vectors", m->vectors);
	HOLD("batches", m->batches);
	HOLD("shared code", m->sizes);
	HOLD("fast", m->fast);
	HOLD("kernels side by side", m->beside);
	HOLD("kernels that follow", m->follow);
#undef HOLD
	return bad;
}

/* ---- options ---- */
static int usage(void)
{
	fprintf(stderr, "usage: products [-n cases] [-s first seed] [-t seconds] [-w 512|256|128|rotate] [-threads n] [-j processes] [-v]\n");
	return 2;
}

static void run_all(totals *t)
{
	const time_t begin = time(NULL);
	for (int i = 1; i < opt.processes; i++)
		if (!fork()) {
			run_share(i, t, begin);
			_exit(0);
		}
	run_share(0, t, begin);
	while (wait(NULL) > 0) {}
	if (isatty(1)) printf("\r%60s\r", "");
}

int main(int argc, char **argv)
{
	static const int widths[] = { 512, 256, 128 };
	const char *why = "";
	bool counted = false;
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (!strcmp(argv[i], "-n") && more) opt.n = atoi(argv[++i]), counted = true;
		else if (!strcmp(argv[i], "-s") && more) opt.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "-t") && more) opt.seconds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-w") && more) opt.width[0] = atoi(argv[++i]), opt.nwidth = opt.width[0] != 0;
		else if (!strcmp(argv[i], "-threads") && more) opt.threads = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-j") && more) opt.processes = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-v")) opt.verbose = true;
		else return usage();
	}
	if (opt.seconds && !counted) opt.n = 1 << 30;
	if (opt.processes < 1) opt.processes = 1;
	if (!opt.nwidth) memcpy(opt.width, widths, sizeof widths), opt.nwidth = (int)RT_COUNT(widths);
	if (!lo_backend_find("llvm", &why)) {
		printf("FAIL no back end: %s\n0 passed, 1 failed, 0 skipped\n", why);
		return 1;
	}
	for (int i = 0; opt.verbose && i < opt.n; i++) {
		prod_case c;
		prod_draw(&c, opt.seed + (uint64_t)i);
		print_graph(&c);
	}
	totals *t = share(sizeof *t);
	run_all(t);
	print_mix(&t->mix);
	t->failed += (uint64_t)check_mix(&t->mix);
	printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)t->passed, (unsigned long long)t->failed);
	return t->failed != 0;
}
