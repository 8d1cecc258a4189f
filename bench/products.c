/* SPDX-License-Identifier: MIT */
/* products: tj-bench --products. Times matrix products in tjit and in the libraries of blas.c, in turns in one process.
 *
 * tjit gets both operands as inputs; and, as "frozen", B as a tensor in .freeze, whose content it may rearrange once. So the libraries with
 * plain operands are compared with the first, and all libraries, packed weights included, with the better of both. A ratio is the median,
 * over undisturbed rounds, of the ratio of two times of one round. "read" reads the bytes of B: a limit for products of one row. */
#include "bench/products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS, FROZEN, PEERS, READ_B = PEERS + PRODUCT_PEERS, WAYS, WORST = 5, WORST_OF_ANY = 40, SAMPLES = 200 };

/* ---- the table ---- */
#define F32(m, k, n) { TJ_F32, 0, m, k, n, false, false }
#define F32_NK(m, k, n) { TJ_F32, 0, m, k, n, true, false }
#define BATCH(b, m, k, n) { TJ_F32, b, m, k, n, false, false }
#define F64(m, k, n) { TJ_F64, 0, m, k, n, false, false }
#define BF16(m, k, n) { TJ_BF16, 0, m, k, n, false, false }
#define FAST(m, k, n) { TJ_BF16, 0, m, k, n, false, true }
#define FAST_NK(m, k, n) { TJ_BF16, 0, m, k, n, true, true }
#define I8(m, k, n) { TJ_I8, 0, m, k, n, false, false }
#define I8_NK(m, k, n) { TJ_I8, 0, m, k, n, true, false }
static const product products[] = {
	/* transformers */
	F32(1, 768, 768),
	F32(12, 768, 768),
	F32(128, 768, 768),
	F32(4096, 768, 768),
	F32(4, 768, 2304),
	F32(77, 768, 2304),
	F32(384, 768, 2304),
	F32(1, 768, 3072),
	F32(2, 768, 3072),
	F32(3, 768, 3072),
	F32(8, 768, 3072),
	F32(16, 768, 3072),
	F32(17, 768, 3072),
	F32(32, 768, 3072),
	F32(128, 768, 3072),
	F32(1024, 768, 3072),
	F32(1, 3072, 768),
	F32(7, 3072, 768),
	F32(64, 3072, 768),
	F32(384, 3072, 768),
	F32(1, 4096, 4096),
	F32(4, 4096, 4096),
	F32(16, 4096, 4096),
	F32(128, 4096, 4096),
	F32(2, 1024, 4096),
	F32(32, 1024, 4096),
	F32(1024, 1024, 4096),
	/* perceptrons */
	F32(1, 784, 256),
	F32(32, 784, 256),
	F32(128, 784, 256),
	F32(4096, 784, 256),
	F32(32, 256, 10),
	F32(4096, 256, 10),
	F32(3, 512, 512),
	F32(12, 512, 512),
	F32(77, 512, 512),
	/* odd and prime */
	F32(17, 77, 131),
	F32(77, 77, 131),
	F32(7, 331, 257),
	F32(128, 331, 257),
	F32(16, 1009, 509),
	F32(384, 1009, 509),
	/* squares */
	F32(16, 16, 16),
	F32(32, 32, 32),
	F32(48, 48, 48),
	F32(64, 64, 64),
	F32(128, 128, 128),
	F32(256, 256, 256),
	F32(512, 512, 512),
	F32(1024, 1024, 1024),
	/* B stored as [n,k] */
	F32_NK(1, 768, 3072),
	F32_NK(1, 4096, 4096),
	F32_NK(8, 768, 768),
	F32_NK(32, 1024, 4096),
	F32_NK(128, 768, 768),
	F32_NK(384, 3072, 768),
	F32_NK(77, 331, 257),
	/* batches */
	BATCH(4096, 16, 16, 16),
	BATCH(512, 32, 32, 32),
	BATCH(96, 64, 64, 64),
	BATCH(8, 128, 128, 128),
	BATCH(12, 384, 64, 384),
	BATCH(12, 384, 384, 64),
	BATCH(96, 1, 64, 384),
	{ TJ_F32, 12, 384, 64, 384, true, false },
	/* other dtypes */
	F64(1, 1024, 1024),
	F64(16, 512, 512),
	F64(128, 768, 768),
	F64(77, 331, 257),
	F64(64, 64, 64),
	F64(512, 512, 512),
	BF16(1, 768, 3072),
	BF16(1, 4096, 4096),
	BF16(32, 768, 3072),
	BF16(128, 768, 768),
	BF16(512, 512, 512),
	FAST(1, 768, 3072),
	FAST(1, 4096, 4096),
	FAST(4, 4096, 4096),
	FAST(8, 768, 3072),
	FAST(32, 768, 3072),
	FAST(128, 768, 768),
	FAST(512, 512, 512),
	FAST(384, 3072, 768),
	FAST(77, 331, 257),
	FAST_NK(1, 4096, 4096),
	FAST_NK(8, 768, 768),
	FAST_NK(128, 768, 768),
	I8(1, 1024, 1024),
	I8(1, 4096, 4096),
	I8(32, 768, 768),
	I8(128, 768, 768),
	I8(128, 768, 3072),
	I8(256, 256, 256),
	I8_NK(1, 1024, 1024),
	I8_NK(1, 4096, 4096),
	I8_NK(4, 1024, 1024),
	I8_NK(8, 768, 768),
	I8_NK(128, 768, 768),
};
enum { PRODUCTS = sizeof products / sizeof *products };

static double flops(const product *p) { return 2.0 * (double)product_pairs(p) * (double)p->m * (double)p->k * (double)p->n; }
static tj_dtype result_dtype(const product *p) { return p->dtype == TJ_I8 ? TJ_I32 : p->dtype; }

/* Products with one line in the summary. */
static const char *kind_of(const product *p) { return p->fast ? "fast" : tj_dtype_name(p->dtype); }

/* For example bf16_fast_32x768x3072, f32_b12_384x64x384_nk: m x k x n, and nk when B is stored as [n,k]. */
static void name_product(const product *p, char name[64])
{
	int n = snprintf(name, 64, "%s%s_", tj_dtype_name(p->dtype), p->fast ? "_fast" : "");
	if (p->batch) n += snprintf(name + n, 64 - (size_t)n, "b%d_", (int)p->batch);
	snprintf(name + n, 64 - (size_t)n, "%dx%dx%d%s", (int)p->m, (int)p->k, (int)p->n, p->transposed ? "_nk" : "");
}

/* ---- any sizes ---- */
static uint32_t draw(uint32_t *seed)
{
	*seed ^= *seed << 13, *seed ^= *seed >> 17, *seed ^= *seed << 5;
	return *seed >> 8;
}

/* What no table thinks of: sizes that people have, and one more and one less, of f32, with any other. */
static product any_product(uint32_t *seed)
{
	static const int16_t size[] = { 1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  12,  13,   15,   16,   17,  20,
		                        24,  25,  31,  32,  33,  40,  48,  50,  63,  64,  65,  80,   96,   100,  127, 128,
		                        129, 200, 255, 256, 257, 300, 400, 500, 512, 700, 768, 1000, 1024, 2000, 3000 };
	enum { SIZES = sizeof size / sizeof *size };
	const double most = 2e8, large = 4e6; /* multiply-adds; elements of an operand or of the result */
	product p;
	do {
		p = (product){ .dtype = TJ_F32, .m = size[draw(seed) % SIZES], .k = size[draw(seed) % SIZES], .n = size[draw(seed) % SIZES] };
		p.transposed = draw(seed) % 2;
	} while ((double)p.m * (double)p.k * (double)p.n > most || (double)p.m * (double)p.k > large || (double)p.k * (double)p.n > large ||
	         (double)p.m * (double)p.n > large);
	return p;
}

/* ---- setting up a product ---- */
typedef struct job {
	const product *p;
	char name[64];
	tj_ctx *c;
	tj_scope *scope;             /* holds the operands */
	tj_tensor *a, *b;
	tj_fn *f, *frozen;
	double first_ms;             /* the first call of f: trace and compile */
	product_call call[PRODUCT_PEERS];
	bool open[PRODUCT_PEERS];
	bool wrong;                  /* a result of tjit */
} job;

static double random_value(void) /* -1 to 1; exact in bf16 */
{
	static uint32_t seed = 2463534242u;
	return ((int)(draw(&seed) >> 16) - 128) / 128.0;
}

static void set(void *to, tj_dtype t, int64_t i, double v)
{
	switch (t) {
	case TJ_F64: ((double *)to)[i] = v; break;
	case TJ_BF16: ((tj_bf16 *)to)[i] = tj_to_bf16(v); break;
	case TJ_I8: ((int8_t *)to)[i] = (int8_t)(v * 64); break; /* more than 7 bits: oneDNN's sums of two saturate on AVX2 */
	default: ((float *)to)[i] = (float)v;
	}
}

static double get(const void *from, tj_dtype t, int64_t i)
{
	switch (t) {
	case TJ_F64: return ((const double *)from)[i];
	case TJ_BF16: return (double)tj_from_bf16(((const tj_bf16 *)from)[i]);
	case TJ_I8: return ((const int8_t *)from)[i];
	case TJ_I32: return ((const int32_t *)from)[i];
	default: return (double)((const float *)from)[i];
	}
}

static tj_tensor *operand(const job *j, int64_t rows, int64_t cols)
{
	const product *p = j->p;
	const int64_t n = product_pairs(p) * rows * cols;
	void *v = bench_room(n * (int64_t)tj_dtype_size(p->dtype));
	for (int64_t i = 0; i < n; i++) set(v, p->dtype, i, random_value());
	tj_tensor *t = tj_from_data(j->c, p->dtype, p->batch ? TJ_SHAPE(p->batch, rows, cols) : TJ_SHAPE(rows, cols), v);
	free(v);
	return t;
}

static tj_tensor *multiply(const product *p, tj_tensor *a, tj_tensor *b)
{
	if (p->dtype == TJ_I8) a = tj_cast(a, TJ_I32), b = tj_cast(b, TJ_I32);
	return tj_matmul(a, p->transposed ? tj_transpose(b, -1, -2) : b);
}

static void inputs_body(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = multiply(((const job *)self)->p, in[0], in[1]); }
static void frozen_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = multiply(((const job *)self)->p, in[0], ((const job *)self)->b);
}

static tj_tensor *call_tjit(const job *j, bool frozen)
{
	return frozen ? tj_call1(j->frozen, TJ_LIST(j->a)) : tj_call1(j->f, TJ_LIST(j->a, j->b));
}

static void run_tjit(const job *j, bool frozen)
{
	tj_scope *s = tj_push(j->c);
	call_tjit(j, frozen);
	tj_pop(s);
}

static void run_inputs(void *env) { run_tjit(env, false); }
static void run_frozen(void *env) { run_tjit(env, true); }

static volatile uint64_t sink;
static void run_read(void *env)
{
	const job *j = env;
	sink = hand_sum(tj_data(j->b), (size_t)(product_pairs(j->p) * j->p->k * j->p->n) * tj_dtype_size(j->p->dtype));
}

/* Compares some elements of a result with sums in f64. A sum of k products errs by at most k eps; bf16 rounds it to 8 bits. */
static bool right(const job *j, const void *c)
{
	const product *p = j->p;
	const double eps = p->dtype == TJ_F64 ? 1e-15 : p->dtype == TJ_I8 ? 0 : 1e-6;
	const void *a = tj_data(j->a), *b = tj_data(j->b);
	for (int s = 0; c && s < SAMPLES; s++) {
		const int64_t at = (int64_t)((uint64_t)s * 2654435761u % (uint64_t)(product_pairs(p) * p->m * p->n)), row = at / p->n, col = at % p->n;
		const int64_t from = row / p->m * p->k * p->n + (p->transposed ? col * p->k : col), step = p->transposed ? 1 : p->n;
		double want = 0;
		for (int64_t i = 0; i < p->k; i++) want += get(a, p->dtype, row * p->k + i) * get(b, p->dtype, from + i * step);
		const double allowed = eps * (double)p->k + (p->dtype == TJ_BF16 ? fabs(want) / 200 : 0);
		if (!(fabs(get(c, result_dtype(p), at) - want) <= allowed)) return false;
	}
	return c;
}

static bool check(const job *j, const char *who, const void *c)
{
	if (right(j, c)) return true;
	fprintf(stderr, "%s: %s computes a wrong result\n", j->name, who);
	return false;
}

static void close_peer(job *j, int i)
{
	if (j->open[i] && product_peers[i].close) product_peers[i].close(&j->call[i]);
	free(j->call[i].c);
	j->call[i].c = NULL;
}

/* A peer whose result is wrong is left out. */
static void open_peers(job *j)
{
	const product *p = j->p;
	for (int i = 0; i < PRODUCT_PEERS; i++) {
		product_call *u = &j->call[i];
		*u = (product_call){ .p = *p, .a = tj_data(j->a), .b = tj_data(j->b) };
		if (!(j->open[i] = product_peers[i].open(u))) continue;
		u->c = bench_room(product_pairs(p) * p->m * p->n * (int64_t)tj_dtype_size(result_dtype(p)));
		product_peers[i].run(u);
		if (check(j, product_peers[i].name, u->c)) continue;
		close_peer(j, i);
		j->open[i] = false;
	}
}

static void check_tjit(job *j, bool frozen)
{
	tj_scope *s = tj_push(j->c);
	if (!check(j, frozen ? "tjit (frozen)" : "tjit", tj_data(call_tjit(j, frozen)))) j->wrong = true;
	tj_pop(s);
}

static job *open_job(tj_ctx *c, const product *p)
{
	job *j = calloc(1, sizeof *j);
	if (!j) exit(2);
	j->p = p, j->c = c;
	name_product(p, j->name);
	j->scope = tj_push(c);
	j->a = operand(j, p->m, p->k);
	j->b = tj_retain(p->transposed ? operand(j, p->n, p->k) : operand(j, p->k, p->n)); /* retained, so that .freeze can tell its content */
	j->f = tj_compile(c, inputs_body, j,
	                  TJ_OPTS(tj_compile_opts, .name = "product", .nin = 2, .nout = 1, .mode = TJ_DIRECT,
	                          .numerics = p->fast ? TJ_FAST : TJ_STRICT));
	const double begin = bench_now();
	run_inputs(j);
	j->first_ms = (bench_now() - begin) * 1e3;
	check_tjit(j, false);
	j->frozen = tj_compile(c, frozen_body, j, TJ_OPTS(tj_compile_opts, .name = "product", .nin = 1, .nout = 1, .mode = TJ_DIRECT,
	                                                .freeze = TJ_VARS(&j->b), .numerics = p->fast ? TJ_FAST : TJ_STRICT));
	check_tjit(j, true);
	open_peers(j);
	return j;
}

static void close_job(job *j)
{
	for (int i = 0; i < PRODUCT_PEERS; i++) close_peer(j, i);
	tj_fn_free(j->f);
	tj_fn_free(j->frozen);
	tj_release(j->b);
	tj_pop(j->scope);
	free(j);
}

/* ---- timing ---- */
typedef struct report {
	const char *name, *kind;
	double us[WAYS];               /* the quickest tenth; 0: not timed */
	double first_ms, gflops;       /* of tjit with inputs */
	double peak;                   /* share of the peak, for f32 and f64; else 0 */
	double read;                   /* m == 1: time to read B, divided by ours; else 0 */
	double vs_plain, vs_best;      /* time of the fastest peer divided by ours; 0: no peer has such a product */
	const char *plain, *best;      /* the name of that peer */
	bool wrong;
} report;

/* The machine as this run found it. */
typedef struct machine {
	int threads, bits;
	double peak_f32, peak_f64;     /* flops per second */
} machine;

/* The median of x / y over the rounds in which no other program disturbed one of the two; if there are none, the ratio of the quickest. */
#define QUIET 1.5
static double ratio(const bench_variant *x, const bench_variant *y, int rounds)
{
	double r[BENCH_MOST];
	int n = 0;
	for (int i = 0; i < rounds; i++)
		if (x->us[i] < QUIET * x->quick && y->us[i] < QUIET * y->quick) r[n++] = x->us[i] / y->us[i];
	if (!n) return x->quick / y->quick;
	qsort(r, (size_t)n, sizeof *r, bench_by_size);
	return (r[n / 2] + r[(n - 1) / 2]) / 2;
}

static const char *const way_names[WAYS] = { [INPUTS] = "tjit", [FROZEN] = "frozen", [READ_B] = "read" };
static const char *way_name(int w) { return w >= PEERS && w < READ_B ? product_peers[w - PEERS].name : way_names[w]; }

static int list_ways(job *j, bench_variant v[WAYS], int way[WAYS])
{
	int n = 0;
	for (int w = 0; w < WAYS; w++) {
		const int i = w - PEERS;
		if (w == INPUTS) v[n] = (bench_variant){ .run = run_inputs, .env = j };
		else if (w == FROZEN) v[n] = (bench_variant){ .run = run_frozen, .env = j };
		else if (w == READ_B && j->p->m == 1) v[n] = (bench_variant){ .run = run_read, .env = j };
		else if (i >= 0 && i < PRODUCT_PEERS && j->open[i]) v[n] = (bench_variant){ .run = product_peers[i].run, .env = &j->call[i] };
		else continue;
		way[n++] = w;
	}
	return n;
}

/* The index of the fastest peer; -1: none. */
static int fastest(const bench_variant *v, const int *way, int n, bool packs)
{
	int best = -1;
	for (int i = 0; i < n; i++) {
		const int peer = way[i] - PEERS;
		if (peer < 0 || peer >= PRODUCT_PEERS || (product_peers[peer].packs && !packs)) continue;
		if (best < 0 || v[i].quick < v[best].quick) best = i;
	}
	return best;
}

static report time_job(job *j, const machine *m, double seconds, int least)
{
	static bench_variant v[WAYS];
	int way[WAYS];
	const int n = list_ways(j, v, way), rounds = bench_turns(v, n, seconds, least);
	const int plain = fastest(v, way, n, false), best = fastest(v, way, n, true);
	const double peak = j->p->dtype == TJ_F32 ? m->peak_f32 : j->p->dtype == TJ_F64 ? m->peak_f64 : 0;
	const bench_variant *ours = v[FROZEN].quick < v[INPUTS].quick ? &v[FROZEN] : &v[INPUTS];
	report r = { .name = j->name,
		     .kind = kind_of(j->p),
		     .first_ms = j->first_ms,
		     .gflops = flops(j->p) / v[INPUTS].quick * 1e-3,
		     .wrong = j->wrong };
	for (int i = 0; i < n; i++) r.us[way[i]] = v[i].quick;
	if (peak > 0) r.peak = r.gflops * 1e9 / peak;
	if (r.us[READ_B] > 0) r.read = ratio(&v[n - 1], &v[INPUTS], rounds);
	if (plain >= 0) r.plain = way_name(way[plain]), r.vs_plain = ratio(&v[plain], &v[INPUTS], rounds);
	if (best >= 0) r.best = way_name(way[best]), r.vs_best = ratio(&v[best], ours, rounds);
	return r;
}

/* ---- what is printed ---- */
static void put_json(const report *r)
{
	printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.4g, \"first_ms\": %.3g, \"GF/s\": %.1f", r->name, r->us[INPUTS],
	       r->first_ms, r->gflops);
	for (int w = FROZEN; w < WAYS; w++)
		if (r->us[w] > 0) printf(", \"%s_us\": %.4g", way_name(w), r->us[w]);
	if (r->peak > 0) printf(", \"peak_%%\": %.0f", 100 * r->peak);
	if (r->read > 0) printf(", \"read_%%\": %.0f", 100 * r->read);
	if (r->plain) printf(", \"plain\": \"%s\", \"vs_plain\": %.3f", r->plain, r->vs_plain);
	if (r->best) printf(", \"best\": \"%s\", \"vs_best\": %.3f", r->best, r->vs_best);
	printf("%s}\n", r->wrong ? ", \"wrong\": true" : "");
	fflush(stdout);
}

static void put_number(double v, int width, const char *format)
{
	char text[32] = "";
	if (v > 0) snprintf(text, sizeof text, format, v);
	printf(" %*s", width, text);
}

static void put_text(const report *r)
{
	printf("%-24s", r->name);
	for (int w = 0; w < WAYS; w++) put_number(r->us[w], 10, r->us[w] < 10 ? "%.3f" : r->us[w] < 1000 ? "%.1f" : "%.0f");
	put_number(r->gflops, 7, "%.1f");
	put_number(100 * r->peak, 5, "%.0f %%");
	put_number(100 * r->read, 5, "%.0f %%");
	put_number(r->vs_plain, 6, "%.2f");
	printf(" %-8s", r->plain ? r->plain : "");
	put_number(r->vs_best, 6, "%.2f");
	printf(" %s%s\n", r->best ? r->best : "", r->wrong ? "  WRONG RESULT" : "");
	fflush(stdout);
}

static void put_header(const machine *m, bool json)
{
	char about[256];
	double load = 0;
	product_about_peers(about, sizeof about);
	if (getloadavg(&load, 1) != 1) load = -1;
	if (json) {
		printf("{\"products\": true, \"threads\": %d, \"bits\": %d, \"fma_f32_GF/s\": %.1f, \"fma_f64_GF/s\": %.1f, \"load\": %.2f, \"peers\": "
		       "\"%s\"}\n",
		       m->threads, m->bits, m->peak_f32 * 1e-9, m->peak_f64 * 1e-9, load, about);
		return;
	}
	printf("threads: %d; fma peak with %d bits: f32 %.0f GF/s, f64 %.0f GF/s; load %.2f; %s\n", m->threads, m->bits, m->peak_f32 * 1e-9,
	       m->peak_f64 * 1e-9, load, about);
	printf("%-24s", "us a call");
	for (int w = 0; w < WAYS; w++) printf(" %10s", way_name(w));
	printf(" %7s %5s %5s %-15s %s\n", "GF/s", "peak", "read", "     vs plain", "      vs best");
}

static int by_ratio(const void *a, const void *b)
{
	return bench_by_size(&((const report *)a)->vs_best, &((const report *)b)->vs_best);
}

/* One line for the products of a kind, or of all (NULL). Within NEAR of the best peer is noise on a shared machine. */
#define NEAR 0.95
static void put_mean(const report *r, int n, const char *kind, bool json)
{
	double plain = 0, best = 0;
	int compared = 0, short_plain = 0, short_best = 0, far = 0;
	for (int i = 0; i < n; i++) {
		if (!r[i].best || !r[i].plain || (kind && strcmp(kind, r[i].kind) != 0)) continue;
		compared++;
		plain += log(r[i].vs_plain), best += log(r[i].vs_best);
		short_plain += r[i].vs_plain < 1, short_best += r[i].vs_best < 1, far += r[i].vs_best < NEAR;
	}
	if (!compared) return;
	printf(json ? "{\"summary\": \"%s\", \"products\": %d, \"vs_plain\": %.3f, \"short_of_plain\": %d, \"vs_best\": %.3f, "
	              "\"short_of_best\": %d, "
	              "\"below_%g\": %d}\n"
	            : "%-4s %2d products, geometric means: %.3f x the best with plain operands (%d short), %.3f x the best of all (%d short; "
	              "below %g: %d)\n",
	       kind ? kind : "all", compared, exp(plain / compared), short_plain, exp(best / compared), short_best, NEAR, far);
}

/* Puts the reports in order of vs_best. */
static void put_summary(report *r, int n, int worst, bool json)
{
	static const char *const kinds[] = { "f32", "f64", "bf16", "fast", "i8" };
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) put_mean(r, n, kinds[i], json);
	put_mean(r, n, NULL, json);
	qsort(r, (size_t)n, sizeof *r, by_ratio);
	printf(json ? "{\"worst\": [" : "worst:");
	for (int i = 0, k = 0; i < n && k < worst; i++) {
		if (!r[i].best) continue;
		if (json) printf("%s\"%s\"", k ? ", " : "", r[i].name);
		else printf("%s %s %.2f (%s)", k ? "," : "", r[i].name, r[i].vs_best, r[i].best);
		k++;
	}
	printf(json ? "]}\n" : "\n");
}

/* The table, for bench/peers.py. */
static int list(void)
{
	for (int i = 0; i < PRODUCTS; i++) {
		const product *p = &products[i];
		char name[64];
		name_product(p, name);
		printf("{\"case\": \"%s\", \"dtype\": \"%s\", \"batch\": %d, \"m\": %d, \"k\": %d, \"n\": %d, \"transposed\": %s}\n", name,
		       tj_dtype_name(p->dtype), (int)p->batch, (int)p->m, (int)p->k, (int)p->n, p->transposed ? "true" : "false");
	}
	return 0;
}

/* ---- the ways to run ---- */
enum { LEAST_ROUNDS = 11, QUICK_ROUNDS = 5, PEAK_TURNS = 5 };

static machine look(int threads)
{
	const char *want = getenv("TJ_CPU");
	machine m = { .threads = threads, .bits = __builtin_cpu_supports("avx512f") && !(want && atoi(want) < 512) ? 512 : 256 };
	if (!m.threads) m.threads = atoi(getenv("TJ_THREADS") ? getenv("TJ_THREADS") : "0");
	if (m.threads < 1) m.threads = hand_team();
	return m;
}

static int all(tj_ctx *c, const machine *m, const bench_product_opts *o)
{
	const int most = o->any > 0 ? o->any : PRODUCTS;
	report *r = calloc((size_t)most, sizeof *r);
	char (*names)[64] = calloc((size_t)most, sizeof *names);
	uint32_t seed = 1;
	int n = 0, wrong = 0;
	if (!r || !names) exit(2);
	put_header(m, o->json);
	for (int i = 0; i < most; i++) {
		const product any = any_product(&seed), *p = o->any > 0 ? &any : &products[i];
		name_product(p, names[n]);
		if (!o->want(o->env, names[n])) continue;
		job *j = open_job(c, p);
		r[n] = time_job(j, m, o->quick ? o->seconds / 8 : o->seconds, o->quick ? QUICK_ROUNDS : LEAST_ROUNDS);
		r[n].name = names[n];
		close_job(j);
		(o->json ? put_json : put_text)(&r[n]);
		wrong += r[n++].wrong;
	}
	if (!n) fprintf(stderr, "no product matches\n");
	put_summary(r, n, o->any > 0 ? WORST_OF_ANY : WORST, o->json);
	free(r), free(names);
	return wrong || !n;
}

/* The last product stays open, so that a driver can time it in turns with other programs. */
static int serve(tj_ctx *c, const machine *m)
{
	char line[256], name[128], here[64];
	double seconds;
	job *j = NULL;
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "state", 5)) { put_header(m, true), fflush(stdout); continue; }
		if (sscanf(line, "%127s %lf", name, &seconds) != 2) break;
		if (j && strcmp(j->name, name) != 0) close_job(j), j = NULL;
		for (int i = 0; i < PRODUCTS && !j; i++)
			if (name_product(&products[i], here), !strcmp(here, name)) j = open_job(c, &products[i]);
		if (j) put_json(&(report[]){ time_job(j, m, seconds, QUICK_ROUNDS) }[0]);
		else printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"error\": \"no such product\"}\n", name), fflush(stdout);
	}
	if (j) close_job(j);
	return 0;
}

int bench_products(const bench_product_opts *o)
{
	machine m = look(o->threads);
	char threads[16];
	if (o->list) return list();
	snprintf(threads, sizeof threads, "%d", m.threads);
	setenv("TJ_THREADS", threads, 1);
	hand_threads(m.threads);
	product_limit_peers(m.bits);
	product_open_peers(m.bits, m.threads);
	for (int turn = 0; turn < PEAK_TURNS; turn++) {
		m.peak_f32 = fmax(m.peak_f32, hand_peak(m.bits, TJ_F32));
		m.peak_f64 = fmax(m.peak_f64, hand_peak(m.bits, TJ_F64));
	}
	hand_wake();
	tj_ctx *c = tj_open(NULL);
	const int rc = !c ? 1 : o->serve ? serve(c, &m) : all(c, &m, o);
	tj_close(c);
	return rc;
}
