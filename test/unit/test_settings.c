/* SPDX-License-Identifier: MIT */
/* Settings of a context: each changes a call that is made, is a part of keys, and is explained. */
#include "test/kit.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }

static void set(tj_ctx *c, tj_settings s)
{
	s.size = sizeof s;
	assert_int_equal(tj_set_settings(c, &s), TJ_OK);
}

static tj_settings get(tj_ctx *c)
{
	tj_settings s = { .size = sizeof s };
	assert_int_equal(tj_get_settings(c, &s), TJ_OK);
	return s;
}

static bool explains(tj_fn *f, const char *what)
{
	char *text = kit_explain(f);
	const bool found = strstr(text, what) != NULL;
	free(text);
	return found;
}

static uint64_t recordings(tj_fn *f)
{
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	return s.recordings;
}

static void note(void *self, const tj_reason *why) { snprintf(self, 200, "%s: %s -> %s", why->kind, why->expected, why->found); }

enum { M = 64, N = 600 };

static tj_tensor *operand(tj_ctx *c, int64_t rows)
{
	float *x = malloc((size_t)rows * N * sizeof *x);
	for (int i = 0; i < rows * N; i++) x[i] = (float)(i % 7 - 3);
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(rows, N), x);
	free(x);
	return t;
}

/* Who computes a product: kernels and the library give the same for small integers. */
static void who_computes_products(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		char why[200] = "";
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, product, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "product", .nin = 2, .nout = 1, .mode = (tj_mode)mode,
		                              .on_recompile = note, .on_recompile_self = why));
		tj_tensor *a = operand(c, M), *b = operand(c, N);
		const float first = ((const float *)tj_data(tj_call1(f, TJ_LIST(a, b))))[5];
		assert_false(explains(f, "dnnl_sgemm"));
		assert_int_equal(recordings(f), 1);
		set(c, (tj_settings){ .products = TJ_PRODUCTS_LIBRARY });
		assert_true(((const float *)tj_data(tj_call1(f, TJ_LIST(a, b))))[5] == first);
		assert_int_equal(recordings(f), 2);
		assert_string_equal(why, "settings: default -> library products");
		if (explains(f, "dnnl_sgemm")) assert_true(explains(f, "the context's settings prefer the library"));
		else printf("SKIP who_computes_products: oneDNN is missing, or the evaluator computes\n");
		set(c, (tj_settings){ 0 });
		for (int i = 0; i < 3; i++) assert_true(((const float *)tj_data(tj_call1(f, TJ_LIST(a, b))))[5] == first);
		set(c, (tj_settings){ .products = TJ_PRODUCTS_LIBRARY });
		for (int i = 0; i < 3; i++) assert_true(((const float *)tj_data(tj_call1(f, TJ_LIST(a, b))))[5] == first);
		assert_int_equal(recordings(f), 2); /* both are known */
		set(c, (tj_settings){ .products = TJ_PRODUCTS_OWN });
		assert_true(((const float *)tj_data(tj_call1(f, TJ_LIST(a, b))))[5] == first);
		assert_int_equal(recordings(f), 3);
		assert_true(((const float *)tj_data(tj_matmul(a, b)))[5] == first);
		kit_ok(c);
		tj_close(c);
	}
}

/* Each setting that changes code is a part of keys, and has a name in the reason; the others trace nothing again. */
static void each_is_named(void **s)
{
	static const struct { tj_settings set; const char *name; /* NULL: no code depends on it */
	} cases[] = {
		{ { .allow_tf32 = true }, "TF32" },
		{ { .allow_reduced_precision = true }, "reduced precision" },
		{ { .allow_nondeterministic = true }, "any order of sums" },
		{ { .no_split_sums = true }, "no split sums" },
		{ { .autotune = true }, "autotune" },
		{ { .no_epilogues = true }, "no epilogues" },
		{ { .products = TJ_PRODUCTS_OWN }, "own products" },
		{ { .products = TJ_PRODUCTS_LIBRARY }, "library products" },
		{ { .attention = TJ_ATTENTION_MATH }, "attention by ops" },
		{ { .attention = TJ_ATTENTION_FUSED }, "attention in blocks" },
		{ { .attention = TJ_ATTENTION_LIBRARY }, "library attention" },
		{ { .no_graphs = true }, NULL },
		{ { .threads = 1 }, NULL },
	};
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *a = operand(c, 2), *b = operand(c, N);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char why[200] = "", want[200] = "";
		tj_fn *f = tj_compile(c, product, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "named", .nin = 2, .nout = 1, .on_recompile = note, .on_recompile_self = why));
		set(c, (tj_settings){ 0 });
		tj_call1(f, TJ_LIST(a, b));
		set(c, cases[i].set);
		tj_call1(f, TJ_LIST(a, b));
		if (cases[i].name) snprintf(want, sizeof want, "settings: default -> %s", cases[i].name);
		assert_string_equal(why, want);
		assert_int_equal(recordings(f), cases[i].name ? 2 : 1);
		assert_true(!cases[i].name || explains(f, cases[i].name));
	}
	kit_ok(c);
	tj_close(c);
}

static void read_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const tj_settings zero = get(c);
	assert_false(zero.allow_tf32 || zero.allow_reduced_precision || zero.allow_nondeterministic || zero.no_graphs ||
	             zero.no_epilogues || zero.products != TJ_PRODUCTS_AUTO);
	set(c, (tj_settings){ .allow_tf32 = true,
	                      .allow_nondeterministic = true,
	                      .products = TJ_PRODUCTS_LIBRARY,
	                      .no_graphs = true,
	                      .no_epilogues = true,
	                      .attention = TJ_ATTENTION_FUSED });
	tj_ctx *clone = tj_ctx_clone(c);
	tj_settings x = get(c), y = get(clone);
	assert_true(x.allow_tf32 && !x.allow_reduced_precision && x.allow_nondeterministic && x.no_graphs && x.no_epilogues &&
	            x.products == TJ_PRODUCTS_LIBRARY && x.attention == TJ_ATTENTION_FUSED);
	assert_true(y.allow_tf32 && y.allow_nondeterministic && y.no_graphs && y.products == TJ_PRODUCTS_LIBRARY);
	set(clone, (tj_settings){ .allow_reduced_precision = true });
	assert_true(get(clone).allow_reduced_precision && !get(clone).allow_tf32 && get(c).allow_tf32);
	assert_int_equal(tj_set_settings(c, NULL), TJ_OK);
	assert_false(get(c).allow_tf32 || get(c).no_graphs || get(c).no_epilogues);
	assert_int_equal(tj_get_settings(c, &(tj_settings){ 0 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "size is 0");
	tj_close(clone);
	tj_close(c);
}

/* A wrong value changes nothing, and the error lists the right ones. */
static void wrong_values(void **s)
{
	static const struct { tj_settings set; const char *message, *hint;
	} wrong[] = {
		{ { .products = (tj_products)0x41 }, ".products is 65", "TJ_PRODUCTS_AUTO, TJ_PRODUCTS_OWN or TJ_PRODUCTS_LIBRARY" },
		{ { .attention = (tj_attention)0x41 },
		  ".attention is 65",
		  "TJ_ATTENTION_AUTO, TJ_ATTENTION_MATH, TJ_ATTENTION_FUSED or TJ_ATTENTION_LIBRARY" },
		{ { .threads = -1 }, ".threads is -1, and must be 0 to ", "TJ_THREADS=n" },
		{ { .threads = INT64_MAX }, ".threads is 9223372036854775807, and must be 0 to ", "first tj_open()" },
		{ { .flush_denormal = true }, "results would differ from the evaluator's", "false is the only value" },
	};
	(void)s;
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		tj_settings bad = wrong[i].set;
		bad.size = sizeof bad;
		bad.allow_tf32 = true;
		assert_int_equal(tj_set_settings(c, &bad), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, wrong[i].message);
		assert_non_null(strstr(tj_last_error(c)->hint, wrong[i].hint));
		assert_false(get(c).allow_tf32);
	}
	tj_close(c);
}

/* A program that was built with an earlier header has a shorter struct. */
static void earlier_struct(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_settings set = { .size = offsetof(tj_settings, threads), .allow_tf32 = true, .threads = -5, .flush_denormal = true };
	assert_int_equal(tj_set_settings(c, &set), TJ_OK);
	set.allow_tf32 = false;
	assert_int_equal(tj_get_settings(c, &set), TJ_OK);
	assert_true(set.allow_tf32 && set.threads == -5 && set.flush_denormal);
	tj_close(c);
}

/* ---- threads: in a process of their own, which makes a team of 3 ---- */
enum { TEAM = 3 };
/* ms of CPU time of each thread that the team has made, in order; returns their number. */
static int team_ms(double ms[TEAM])
{
	int n = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *d; tasks && n < TEAM && (d = readdir(tasks));) {
		char path[300], name[32] = "";
		unsigned long long ns = 0;
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
		FILE *f = fopen(path, "r");
		const bool team = f && fgets(name, sizeof name, f) && !strcmp(name, "tj-team\n");
		if (f) fclose(f);
		snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", d->d_name);
		if (!team || !(f = fopen(path, "r"))) continue;
		if (fscanf(f, "%llu", &ns) == 1) ms[n++] = (double)ns / 1e6;
		fclose(f);
	}
	if (tasks) closedir(tasks);
	return n;
}

static void heavy(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(tj_exp(tj_sin(in[0])), TJ_ALL, false);
}

/* The threads of the team that compute, and the sum, with so many allowed: 0, or more than 1, waits until another one has computed. */
static bool computes(tj_ctx *c, tj_fn *f, tj_tensor *x, int allowed, float *sum)
{
	enum { LONG_MS = 20, TURNS = 3000 };
	double ms[TEAM] = { 0 }, first[TEAM] = { 0 };
	const int wanted = allowed ? allowed - 1 : TEAM - 1, made = team_ms(first);
	bool one_more = wanted == 0;
	set(c, (tj_settings){ .threads = allowed });
	for (int i = 0; i < TURNS && (i < 20 || !one_more); i++) {
		*sum = (float)tj_item(tj_call1(f, TJ_LIST(x)));
		team_ms(ms);
		one_more |= wanted && ms[wanted - 1] - first[wanted - 1] > LONG_MS;
	}
	for (int i = wanted; i < made; i++)
		if (ms[i] - first[i] > LONG_MS / 2) return false; /* it may have been spinning, for less than 1 ms */
	return one_more && get(c).threads == allowed && (allowed != 1 || made == team_ms(ms));
}

static bool of_a_team(void)
{
	setenv("TJ_THREADS", "3", 1);
	alarm(60);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
	tj_tensor *x = tj_uniform(TJ_F32, TJ_SHAPE(1 << 20));
	tj_fn *f = kit_fn(c, "heavy", heavy, NULL, 1, 1);
	float sum[6];
	bool ok = computes(c, f, x, 1, sum), known;
	double ms[TEAM];
	ok &= team_ms(ms) == 0; /* none was made */
	ok &= computes(c, f, x, 2, sum + 1) & computes(c, f, x, 0, sum + 2) & computes(c, f, x, 2, sum + 3);
	known = recordings(f) == 1;
	tj_ctx *clone = tj_ctx_clone(c), *later = tj_open(TJ_OPTS(tj_open_opts, .threads = 2)),
	       *all = tj_open(TJ_OPTS(tj_open_opts, .threads = 3));
	ok &= get(clone).threads == 2 && get(later).threads == 2 && get(all).threads == 0;
	ok &= tj_set_settings(c, TJ_OPTS(tj_settings, .threads = 4)) == TJ_ERR_ARG && tj_check(c) == TJ_ERR_ARG &&
	      !strcmp(tj_last_error(c)->message, ".threads is 4, and must be 0 to 3: the team has 3 threads");
	ok &= sum[0] == sum[1] && sum[0] == sum[2] && sum[0] == sum[3];
	return ok && known;
}

static void threads(void **s)
{
	int status = -1;
	(void)s;
	const pid_t child = fork();
	if (!child) _exit(!of_a_team());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- TJ_LOG=library ---- */
static char said[1 << 14];
static void keep(void *self, const char *line)
{
	(void)self;
	const size_t n = strlen(said);
	snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void library_log(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .log_to = keep));
	set(c, (tj_settings){ .products = TJ_PRODUCTS_LIBRARY });
	if (strcmp(tj_product_library(c, TJ_F32, TJ_STRICT).name, "oneDNN") || kit_elsewhere()) {
		tj_close(c);
		SKIP("oneDNN is missing");
	}
	tj_fn *f = kit_fn(c, "product", product, NULL, 2, 1);
	tj_tensor *a = operand(c, M), *b = operand(c, N);
	tj_call1(f, TJ_LIST(a, b));
	assert_string_equal(said, "");
	assert_int_equal(tj_log_topics(c, "library"), TJ_OK); /* a region of the program */
	tj_call1(f, TJ_LIST(a, tj_transpose(b, 0, 1)));
	assert_non_null(strstr(said, "library: [product] oneDNN "));
	assert_non_null(strstr(said, ": dnnl_sgemm, m 64, n 600, k 600, b transposed, batch 1, "));
	assert_non_null(strstr(said, " ms\n"));
	said[0] = 0;
	tj_log_topics(c, "library,@other");
	tj_call1(f, TJ_LIST(a, b));
	assert_string_equal(said, "");
	tj_log_topics(c, "library,@product");
	tj_call1(f, TJ_LIST(a, b));
	assert_non_null(strstr(said, "dnnl_sgemm"));
	said[0] = 0;
	tj_log_topics(c, "");
	tj_call1(f, TJ_LIST(a, b));
	assert_string_equal(said, "");
	kit_ok(c);
	tj_close(c);
}

static void who(tj_ctx *c, tj_products products, tj_dtype t, tj_numerics n, const char *name, const char *why)
{
	set(c, (tj_settings){ .products = products });
	const tj_library l = tj_product_library(c, t, n);
	if (products == TJ_PRODUCTS_LIBRARY && !strcmp(l.name, "tjit") && strstr(l.why, "missing"))
		name = "tjit", why = "switched off"; /* no oneDNN here */
	assert_string_equal(l.name, name);
	if (!strstr(l.why, why)) fail_msg("\"%s\" is not in \"%s\"", why, l.why);
	if (!strcmp(name, "tjit")) assert_string_equal(l.version, TJ_VERSION);
	else if (l.version) assert_true(l.version[0] >= '1' && l.version[0] <= '9');
}

static void product_library(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	who(c, TJ_PRODUCTS_LIBRARY, TJ_F32, TJ_FAST, "tjit", "the evaluator computes everything");
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
	who(c, TJ_PRODUCTS_AUTO, TJ_F32, TJ_STRICT, "tjit", "the evaluator's bits");
	who(c, TJ_PRODUCTS_AUTO, TJ_F32, TJ_FAST, "tjit", "oneDNN was measured to be quicker");
	who(c, TJ_PRODUCTS_AUTO, TJ_I8, TJ_STRICT, "tjit", "no library");
	who(c, TJ_PRODUCTS_OWN, TJ_F32, TJ_FAST, "tjit", "prefer the kernels of tjit");
	who(c, TJ_PRODUCTS_LIBRARY, TJ_F32, TJ_STRICT, "oneDNN", "prefer the library");
	who(c, TJ_PRODUCTS_LIBRARY, TJ_F64, TJ_FAST, "tjit", "f32 only");
	assert_true(!tj_product_library(c, (tj_dtype)99, TJ_FAST).name);
	kit_error(c, TJ_ERR_ARG, "no such dtype");
	assert_true(!tj_product_library(c, TJ_BOOL, TJ_FAST).name);
	kit_error(c, TJ_ERR_ARG, "no such dtype");
	tj_close(c);
}

static void libraries(void **s)
{
	(void)s;
	int n = 0;
	for (const tj_library *l = tj_libraries(); l->name; l++, n++) {
		assert_true((l->version != NULL) != (l->why != NULL));
		if (!strcmp(l->name, "LLVM") && l->version) assert_true(l->version[0] >= '1' && l->version[0] <= '9');
		if (l->why) assert_true(strlen(l->why) > 10);
	}
	assert_int_equal(n, 6);
}

static void machine(void **s)
{
	(void)s;
	const tj_machine *m = tj_this_machine();
	assert_ptr_equal(m, tj_this_machine());
	assert_true(!strcmp(m->capability, "AVX512") || !strcmp(m->capability, "AVX2") || !strcmp(m->capability, "DEFAULT"));
	assert_int_equal(m->vector_bits == 512, !strcmp(m->capability, "AVX512"));
	assert_true(m->cpus >= 1 && m->allowed >= 1 && m->allowed <= m->cpus && m->quota >= 0 && m->family >= 6);
	assert_true(m->cache[0] <= m->cache[1] || !m->cache[1]);
	assert_true(m->cpu[0] != ' ' && tj_threads() >= 1);
}

static void sets(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)(tj_set_settings(self, NULL) == TJ_ERR_STATE);
	out[0] = in[0];
}

static void not_in_a_body(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_call1(kit_fn(c, "sets", sets, c, 1, 1), TJ_LIST(F32(c, 1)));
	kit_error(c, TJ_ERR_STATE, "not allowed in a body");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads),      cmocka_unit_test(who_computes_products), cmocka_unit_test(read_back),
		cmocka_unit_test(wrong_values), cmocka_unit_test(earlier_struct),        cmocka_unit_test(libraries),
		cmocka_unit_test(library_log),  cmocka_unit_test(product_library),       cmocka_unit_test(not_in_a_body),
		cmocka_unit_test(machine),      cmocka_unit_test(each_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
