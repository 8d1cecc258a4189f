/* SPDX-License-Identifier: MIT */
/* Settings of a context: each changes a call that is made, is a part of keys, and is explained. */
#include "test/kit.h"

#include <stdlib.h>

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
	tj_settings bad = { .size = sizeof bad };
	memset(&bad.products, 0x41, sizeof bad.products);
	assert_int_equal(tj_set_settings(c, &bad), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".products is");
	bad.products = TJ_PRODUCTS_AUTO;
	memset(&bad.attention, 0x41, sizeof bad.attention);
	assert_int_equal(tj_set_settings(c, &bad), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".attention is");
	assert_int_equal(tj_get_settings(c, &(tj_settings){ 0 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "size is 0");
	tj_close(clone);
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
	assert_int_equal(n, 5);
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
		cmocka_unit_test(who_computes_products), cmocka_unit_test(read_back),     cmocka_unit_test(libraries),
		cmocka_unit_test(product_library),       cmocka_unit_test(not_in_a_body),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
