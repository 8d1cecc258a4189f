/* SPDX-License-Identifier: MIT */
/* tj-bench: times the cases, hand-written code and the limits of the machine, all in turns in one process.
 *
 *   tj-bench [--json] [--quick] [--seconds s] [--state] [--sizes] [REGEX]    one line for each case and each of others[]
 *   tj-bench --device cuda:0 [--json] [--quick] [--small] [--seconds s] [REGEX]    the cases of gpucases.c on a GPU
 *   tj-bench --products [--threads N] [--quick] [--json] [--seconds s] [REGEX]    matrix products beside other libraries (products.c)
 *   tj-bench --products --any N [...]                              the same for N products of any sizes, always the same ones
 *   tj-bench --products --list                                     the shapes of the products as JSON, for peers.py
 *   tj-bench --lowering [--quick] [--json] [--seconds s] [REGEX]    tracing and lowering of large graphs (lowering.c)
 *   tj-bench --train [--quick] [--json] [--seconds s] [REGEX]      training steps (train.c); --list: their sizes as JSON
 *   tj-bench --layers [--quick] [--json] [--seconds s] [REGEX]     layers of networks (layers.c); --list: their operands as JSON
 *   tj-bench --loops [--quick] [--json] [--seconds s] [REGEX]      functions beside loops in C (loops.c); --list: their operands as JSON;
 *                                                                  --write FOLDER: the results of the loops, a file each
 *   tj-bench --many [N] [--json]                                   one function at N sizes (many.c)
 *   tj-bench [--products|--train|--layers|--loops] --serve         reads lines "case seconds", answers each with JSON
 *
 * With --products, --only TEXT chooses names that contain it, --quick takes fewer rounds, and TJ_CPU=256 binds the libraries, too.
 * --sizes also times each case with the sizes as arguments of the code (TJ_DYNAMIC_ON).
 * --quick runs everything else once, then compares every case with the hand-written code at a small size; fails when they differ.
 * On a GPU, --quick compares them with the CPU, and --small times those small sizes: that ends on a fake GPU, too (test/fake). */
#include "bench/bench.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

static void put_json(const bench_report *r)
{
	printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.4g, \"median_us\": %.4g, \"first_ms\": %.3g", r->name, r->us,
	       r->median_us, r->first_ms);
	if (r->verify_us > 0) printf(", \"verify_us\": %.4g", r->verify_us);
	if (r->fast_us > 0) printf(", \"fast_us\": %.4g", r->fast_us);
	if (r->rate > 0) printf(", \"%s\": %.1f", r->flops ? "GF/s" : "GB/s", r->rate);
	if (r->limit > 0) printf(", \"limit_%%\": %.0f", 100 * r->limit);
	printf(", \"hand_us\": %.4g, \"vs_hand\": %.3g", r->hand_us, r->vs_hand);
	if (r->sizes_us > 0) printf(", \"dynamic_us\": %.4g, \"vs_dynamic\": %.3g", r->sizes_us, r->us / r->sizes_us);
	if (r->packed_us > 0) printf(", \"packed_us\": %.4g, \"vs_packed\": %.3g", r->packed_us, r->vs_packed);
	printf(", \"error\": %.1e}\n", r->error);
	fflush(stdout);
}

static void put_text(const bench_report *r)
{
	char rate[32] = "", limit[16] = "";
	if (r->rate > 0) snprintf(rate, sizeof rate, "%.1f %s", r->rate, r->flops ? "GF/s" : "GB/s");
	if (r->limit > 0) snprintf(limit, sizeof limit, "%.0f %%", 100 * r->limit);
	printf("%-27s %11.3f %12s %7s %9.1f %11.3f %7.2fx", r->name, r->us, rate, limit, r->first_ms, r->hand_us, r->vs_hand);
	if (r->verify_us > 0) printf("  %.0f ns, in verify mode %.0f", r->us * 1e3, r->verify_us * 1e3);
	if (r->fast_us > 0) printf("  TJ_FAST %.3f us, %.2fx", r->fast_us, r->hand_us / r->fast_us);
	if (r->sizes_us > 0) printf("  dynamic %.3f us, %.2fx", r->sizes_us, r->us / r->sizes_us);
	if (r->packed_us > 0) printf("  packed %.1f us, %.2fx", r->packed_us, r->vs_packed);
	printf("\n");
	fflush(stdout);
}

static void put_header(void)
{
	printf("%-27s %11s %12s %7s %9s %11s %8s\n", "case", "us", "rate", "limit", "first ms", "hand us", "vs hand");
}


typedef struct options {
	long long many;
	bool json, quick, small, serve, state, sizes, products, lowering, train, layers, loops, list;
	int threads;         /* for products; 0: TJ_THREADS, or all */
	int any;             /* products: bench_product_opts.any */
	double seconds;      /* time for each case */
	const char *pattern, *device; /* device NULL: the CPU */
	const char *only;    /* products: a part of the names; "": all */
	const char *write;   /* loops: a folder for the results of the loops in C; NULL: none */
	char start[4096];    /* path of the program `start`, beside this one */
} options;

static bool fine(tj_ctx *c)
{
	if (tj_check(c) == TJ_OK) return true;
	tj_perror(c, stderr);
	return false;
}

/* ---- processes: the smallest program, from fork to its first result ---- */
enum { STARTS = 9 };

static bool spawn(const options *o, int length, double *ms, double *mib, double *compile_ms)
{
	char command[4200];
	double at = 0, value, begin = bench_now();
	snprintf(command, sizeof command, "exec %s %d", o->start, length);
	FILE *f = popen(command, "r");
	bool good = f && fscanf(f, "%lf %lf %lf %lf", &at, mib, compile_ms, &value) == 4;
	*ms = (at - begin) * 1e3;
	return (f && pclose(f) == 0) && good;
}

static double middle(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, bench_by_size);
	return v[n / 2];
}

static bool run_start(const options *o, const char *name, int length)
{
	double ms[STARTS], mib[STARTS], compile[STARTS];
	for (int i = 0; i < STARTS; i++)
		if (!spawn(o, length, &ms[i], &mib[i], &compile[i])) return false;
	printf(o->json ? "{\"peer\": \"tjit\", \"case\": \"%s\", \"ops\": %d, \"start_ms\": %.1f, \"resident_MiB\": %.0f, \"compile_ms\": %.2f}\n"
	               : "%s (%d ops): first result %.1f ms after the process began, %.0f MiB resident, compiling took %.2f ms\n",
	       name, length, middle(ms, STARTS), middle(mib, STARTS), middle(compile, STARTS));
	return true;
}

static bool run_starts(tj_ctx *c, const options *o)
{
	(void)c;
	return run_start(o, "start", 1) && run_start(o, "start15", 15);
}

/* ---- compile times in a process that has compiled before ---- */
enum { KERNELS = 24, OPS = 15 };

/* A function of OPS ops; the bits of *self choose them, so that each number gives another function. */
static void further(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const int *which = self;
	tj_tensor *x = tj_exp(in[0]);
	for (int i = 1; i < OPS; i++) {
		tj_tensor *y = i % 2 ? in[1] : tj_f(0.25 * i);
		switch (*which >> i % 5 & 3) {
		case 0: x = tj_add(x, y); break;
		case 1: x = tj_mul(x, y); break;
		case 2: x = tj_maximum(x, y); break;
		case 3: x = tj_sub(y, x); break;
		}
	}
	out[0] = x;
}

static bool run_compile(tj_ctx *c, const options *o)
{
	double ms[KERNELS], code[KERNELS];
	static float v[4096];
	for (int i = 0; i < KERNELS; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4096), v);
		tj_fn *f = tj_compile(c, further, &i, TJ_OPTS(tj_compile_opts, .name = "further", .nin = 2, .nout = 1));
		double begin = bench_now();
		tj_call1(f, TJ_LIST(x, x));
		ms[i] = (bench_now() - begin) * 1e3;
		tj_stats n = { .size = sizeof n };
		tj_fn_stats(f, &n);
		code[i] = n.codegen_ms;
		tj_fn_free(f);
		tj_pop(s);
	}
	printf(o->json ? "{\"peer\": \"tjit\", \"case\": \"compile\", \"ops\": %d, \"first_ms\": %.2f, \"codegen_ms\": %.2f}\n"
	               : "compile: a further kernel of %d float ops %.2f ms from call to result (%.2f of it code generation)\n",
	       OPS, middle(ms, KERNELS), middle(code, KERNELS));
	return fine(c);
}

/* ---- verify mode: events of a long body, with views and captures ---- */
enum { EVENTS = 120, CALLS = 20000 };

static void eventful(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *const *weight = self;
	for (int i = 0; i < EVENTS / 10; i++) {
		x = tj_maximum(tj_mul(x, weight[i]), tj_f(0.5 + i));
		x = tj_transpose(tj_neg(tj_transpose(x, 0, 1)), 0, 1);
		tj_tensor *row = tj_reshape(tj_slice(x, 0, 0, 1, 1), TJ_SHAPE(4));
		x = tj_abs(tj_sub(tj_add(x, row), in[1]));
	}
	out[0] = tj_tanh(x);
}

/* Time of an event, the code of the body included, without boundaries. */
static bool run_match(tj_ctx *current, const options *o)
{
	static const float v[16];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .time_guards = true));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4, 4), v), *weight[EVENTS / 10];
	for (int i = 0; i < EVENTS / 10; i++) weight[i] = tj_from_data(c, TJ_F32, TJ_SHAPE(4, 4), v);
	tj_fn *f = tj_compile(c, eventful, weight, TJ_OPTS(tj_compile_opts, .name = "eventful", .nin = 2, .nout = 1));
	for (int i = 0; i < CALLS; i++) {
		tj_scope *s = tj_push(c);
		tj_call1(f, TJ_LIST(x, x));
		tj_pop(s);
	}
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	printf(o->json ? "{\"peer\": \"tjit\", \"case\": \"match_120\", \"event_ns\": %.2f}\n"
	               : "match_120: %.2f ns an event in verify mode, the body's own code with it\n", n.event_ns);
	bool good = fine(c);
	if (n.events < (uint64_t)EVENTS * (CALLS - 1)) good = false, fprintf(stderr, "%llu events were matched\n", (unsigned long long)n.events);
	tj_close(c);
	tj_ctx_use(current);
	return good;
}

/* ---- changing batch size: the network of mlp_32x784x256x10 with batches of 1 to 64 ---- */
enum { BATCHES = 64, SWEEPS = 50 };

static void network(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_relu(tj_add(tj_matmul(in[0], in[1]), in[2]));
	out[0] = tj_add(tj_matmul(h, in[3]), in[4]);
}

/* Measures the time of all first calls, and of a call when all sizes have been seen. */
static void sweep(tj_ctx *c, tj_fn *f, tj_tensor *const *x, tj_tensor *const *w, double *first_ms, double *us)
{
	for (int turn = 0; turn <= SWEEPS + 1; turn++) {
		double begin = bench_now();
		for (int b = 0; b < BATCHES; b++) {
			tj_scope *s = tj_push(c);
			tj_call1(f, TJ_LIST(x[b], w[0], w[1], w[2], w[3]));
			tj_pop(s);
		}
		double took = bench_now() - begin;
		if (!turn) *first_ms = took * 1e3;
		else if (turn == 1 || took * 1e6 / BATCHES < *us) *us = took * 1e6 / BATCHES;
	}
}

static bool run_sweep(tj_ctx *c, const options *o)
{
	static float v[784 * 256];
	double first[2], us[2];
	tj_stats n = { .size = sizeof n };
	tj_scope *s = tj_push(c);
	tj_tensor *x[BATCHES], *w[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(784, 256), v), tj_from_data(c, TJ_F32, TJ_SHAPE(256), v),
		                            tj_from_data(c, TJ_F32, TJ_SHAPE(256, 10), v), tj_from_data(c, TJ_F32, TJ_SHAPE(10), v) };
	for (int b = 0; b < BATCHES; b++) x[b] = tj_from_data(c, TJ_F32, TJ_SHAPE(b + 1, 784), v);
	for (int fixed = 0; fixed < 2; fixed++) {
		tj_fn *f = tj_compile(c, network, NULL, TJ_OPTS(tj_compile_opts, .name = "network", .nin = 5, .nout = 1, .mode = TJ_DIRECT,
		                                               .dynamic = fixed ? TJ_DYNAMIC_OFF : TJ_DYNAMIC_AUTO));
		sweep(c, f, x, w, &first[fixed], &us[fixed]);
		if (!fixed) tj_fn_stats(f, &n);
		tj_fn_free(f);
	}
	tj_pop(s);
	printf(o->json ? "{\"peer\": \"tjit\", \"case\": \"batch_sweep_1_64\", \"us\": %.2f, \"first_ms\": %.1f, \"compiles\": %d, "
	                 "\"static_us\": %.2f, \"static_first_ms\": %.1f}\n"
	               : "batch_sweep_1_64: %.2f us a call, all first calls %.1f ms, %d compiles; with code for each size %.2f us and %.1f ms\n",
	       us[0], first[0], (int)n.compiles, us[1], first[1]);
	return fine(c);
}

/* ---- the three ways to run ---- */
static const struct other {
	const char *name;
	bool (*run)(tj_ctx *c, const options *o);
} others[] = { { "start", run_starts }, { "compile", run_compile }, { "match_120", run_match }, { "batch_sweep_1_64", run_sweep } };

/* Returns the number of cases that passed. */
static int run_others(tj_ctx *c, const regex_t *want, const options *o, int *failed)
{
	int passed = 0;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (regexec(want, others[i].name, 0, NULL, 0)) continue;
		bool good = others[i].run(c, o);
		if (!good) fprintf(stderr, "%s failed\n", others[i].name);
		passed += good, *failed += !good;
	}
	return passed;
}

static int quick(tj_ctx *c, const regex_t *want, const options *o)
{
	int failed = 0, passed = run_others(c, want, o, &failed);
	for (int i = 0; i < bench_ncases; i++) {
		const bench_case *b = &bench_cases[i];
		if (regexec(want, b->name, 0, NULL, 0)) continue;
		bench_job *u = bench_open(c, b, true, true);
		double e = bench_error(u);
		bool good = e <= b->tolerance;
		if (!good) printf("FAIL %s: differs from the hand-written code by %g, allowed %g\n", b->name, e, b->tolerance);
		passed += good, failed += !good;
		bench_close(u);
	}
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}

static bool run_case(tj_ctx *c, const bench_case *b, const options *o)
{
	bench_job *u = bench_open(c, b, false, o->sizes);
	bench_report r = bench_time(u, o->seconds);
	(o->json ? put_json : put_text)(&r);
	bench_close(u);
	if (r.error <= b->tolerance) return true;
	fprintf(stderr, "%s differs from the hand-written code by %g\n", b->name, r.error);
	return false;
}

static int all(tj_ctx *c, const regex_t *want, const options *o)
{
	bool header = o->json;
	int failed = 0;
	if (o->state || !*o->pattern) bench_state(stdout, o->json);
	int passed = run_others(c, want, o, &failed);
	for (int i = 0; i < bench_ncases; i++) {
		if (regexec(want, bench_cases[i].name, 0, NULL, 0)) continue;
		if (!header) put_header(), header = true;
		bool good = run_case(c, &bench_cases[i], o);
		passed += good, failed += !good;
	}
	if (!passed && !failed) fprintf(stderr, "no case matches '%s'\n", o->pattern);
	return failed || !passed;
}

/* The last case stays open, so that a driver can time it in turns with other programs. */
static int serve(tj_ctx *c, const options *o)
{
	char line[256], name[128];
	bench_job *u = NULL;
	const bench_case *open = NULL;
	double seconds;
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "state", 5)) { bench_state(stdout, true), fflush(stdout); continue; }
		if (sscanf(line, "%127s %lf", name, &seconds) != 2) break;
		const bench_case *b = NULL;
		for (int i = 0; i < bench_ncases; i++)
			if (!strcmp(name, bench_cases[i].name)) b = &bench_cases[i];
		if (!b) {
			printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"error\": \"no such case\"}\n", name), fflush(stdout);
			continue;
		}
		if (b != open && u) bench_close(u), u = NULL;
		if (!u) u = bench_open(c, b, false, false);
		open = b;
		bench_report r = bench_time(u, seconds);
		put_json(&r);
	}
	if (u) bench_close(u);
	return o->quick;
}

static bool parse(int argc, char **argv, options *o)
{
	*o = (options){ .seconds = 1, .pattern = "", .only = "" };
	const char *slash = strrchr(argv[0], '/');
	snprintf(o->start, sizeof o->start, "%.*stj-start", slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) o->json = true;
		else if (!strcmp(argv[i], "--quick")) o->quick = true;
		else if (!strcmp(argv[i], "--small")) o->small = true;
		else if (!strcmp(argv[i], "--serve")) o->serve = true;
		else if (!strcmp(argv[i], "--state")) o->state = true;
		else if (!strcmp(argv[i], "--sizes")) o->sizes = true;
		else if (!strcmp(argv[i], "--products")) o->products = true;
		else if (!strcmp(argv[i], "--lowering")) o->lowering = true;
		else if (!strcmp(argv[i], "--train")) o->train = true;
		else if (!strcmp(argv[i], "--layers")) o->layers = true;
		else if (!strcmp(argv[i], "--loops")) o->loops = true;
		else if (!strcmp(argv[i], "--list")) o->list = true;
		else if (!strcmp(argv[i], "--many")) o->many = i + 1 < argc && atoll(argv[i + 1]) > 0 ? atoll(argv[++i]) : 100000;
		else if (!strcmp(argv[i], "--threads") && i + 1 < argc) o->threads = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--any") && i + 1 < argc) o->any = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc) o->only = argv[++i];
		else if (!strcmp(argv[i], "--write") && i + 1 < argc) o->write = argv[++i];
		else if (!strcmp(argv[i], "--device") && i + 1 < argc) o->device = argv[++i];
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) o->seconds = atof(argv[++i]);
		else if (argv[i][0] != '-') o->pattern = argv[i];
		else return false;
	}
	if (o->write && !o->loops) return false;
	return o->products || !((o->list && !o->train && !o->layers && !o->loops) || o->threads || o->any || *o->only);
}

typedef struct choice { const regex_t *want; const char *only; } choice;

static bool chosen(void *env, const char *name)
{
	const choice *x = env;
	return strstr(name, x->only) && !regexec(x->want, name, 0, NULL, 0);
}

int main(int argc, char **argv)
{
	options o;
	regex_t want;
	setenv("TJ_CACHE", "off", 0); /* first calls are cold unless told otherwise */
	if (!parse(argc, argv, &o) || regcomp(&want, o.pattern, REG_EXTENDED | REG_NOSUB)) {
		fprintf(stderr, "tj-bench [--json] [--quick] [--serve] [--state] [--sizes] [--seconds s] [--device cuda [--small]] [REGEX]\n"
		                "tj-bench --products [--json] [--quick] [--serve] [--list] [--any N] [--threads N] [--only TEXT] [--seconds s] [REGEX]\n"
		                "tj-bench --lowering [--json] [--quick] [--seconds s] [REGEX]\n"
		                "tj-bench --train [--json] [--quick] [--serve] [--list] [--seconds s] [REGEX]\n"
		                "tj-bench --layers [--json] [--quick] [--serve] [--list] [--seconds s] [REGEX]\n"
		                "tj-bench --loops [--json] [--quick] [--serve] [--list] [--write FOLDER] [--seconds s] [REGEX]\n"
		                "tj-bench --many [N] [--json]\n");
		return 2;
	}
	if (o.device) return bench_gpu(&(bench_gpu_opts){ o.device, o.pattern, o.seconds, o.quick, o.small, o.json });
	if (o.products)
		return bench_products(&(bench_product_opts){ chosen, &(choice){ &want, o.only }, o.seconds, o.threads, o.any, o.quick,
		                                             o.json, o.serve, o.list });
	if (o.lowering) return bench_lowering(&(bench_lowering_opts){ chosen, &(choice){ &want, "" }, o.seconds, o.quick, o.json });
	const bench_suite_opts suite = { chosen, &(choice){ &want, "" }, o.seconds, o.quick, o.json, o.serve, o.list, o.write };
	if (o.train) return bench_train(&suite);
	if (o.layers) return bench_layers(&suite);
	if (o.loops) return bench_loops(&suite);
	if (o.many) return bench_many(o.many, o.json);
	hand_wake();
	tj_ctx *c = tj_open(NULL);
	int rc = o.quick ? quick(c, &want, &o) : o.serve ? serve(c, &o) : all(c, &want, &o);
	regfree(&want);
	tj_close(c);
	return rc;
}
