/* SPDX-License-Identifier: MIT */
/* Checks of functions that are made of ops (functions/): gradients against finite differences to the third order, compiled code against the
 * evaluator, a batch against its examples. */
#ifndef TJ_TEST_LAYERS_H
#define TJ_TEST_LAYERS_H

#include "test/kit.h"

#include <math.h>

enum { LAYER_MOST = 6, LAYER_ORDERS = 3 };

/* One case: a body with one result, and its operands. Floats among them get gradients unless they are `fixed`. */
typedef struct layer {
	tj_body *body;
	void *self;
	int nin;
	tj_tensor *in[LAYER_MOST];
	bool fixed[LAYER_MOST];
	tj_tensor *direction[LAYER_MOST]; /* in which operands move; NULL: fixed */
	int orders;                       /* 0: all three */
} layer;

/* Elements between -1.2 and 1.2 that have no order; test/known.py has the same ones. */
static inline double layer_value(int64_t i, int salt) { return (double)((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100; }
static __attribute__((noinline, unused)) tj_tensor *layer_tensor(tj_ctx *c, tj_dtype dtype, tj_dims shape, int salt)
{
	int64_t n = 1;
	for (int i = 0; shape[i] != TJ_END_DIM; i++) n *= shape[i];
	double *v = malloc(sizeof *v * (size_t)(n + 1));
	for (int64_t i = 0; i < n; i++) v[i] = layer_value(i, salt);
	tj_tensor *t = tj_cast(tj_from_data(c, TJ_F64, shape, v), dtype);
	free(v);
	return t;
}

static inline bool layer_float(const tj_tensor *t) { return tj_dtype_of(t) >= TJ_F16; }
static inline tj_tensor *layer_like(tj_tensor *x, int salt)
{
	const tj_tensor *const t = x;
	int64_t shape[TJ_MAX_RANK + 1];
	for (int i = 0; i < tj_rank(t); i++) shape[i] = tj_dim(t, i);
	shape[tj_rank(t)] = TJ_END_DIM;
	return layer_tensor(tj_ctx_current(), tj_dtype_of(t), shape, salt);
}

/* out[2k]: a number F_k that is made of the derivatives of order k; out[2k + 1]: its derivative in the direction, by a gradient. */
static __attribute__((unused)) void layer_derivatives(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	tj_tensor *wrt[LAYER_MOST + 1], *direction[LAYER_MOST], *g[LAYER_MOST], *f = NULL;
	int n = 0, salt = 50;
	for (int i = 0; i < l->nin; i++)
		if (l->direction[i]) direction[n] = in[l->nin + i], wrt[n++] = in[i];
	wrt[n] = TJ_END;
	l->body(&f, in, l->self);
	if (!tj_is_poison(f)) f = tj_sum(tj_mul(f, layer_like(f, salt++)), TJ_ALL, false);
	for (int k = 0; k < (l->orders ? l->orders : LAYER_ORDERS); k++) {
		tj_tensor *d = tj_f(0), *next = tj_f(0);
		tj_grad(g, f, wrt, TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
		for (int i = 0; i < n; i++) {
			d = tj_add(d, tj_sum(tj_mul(g[i], direction[i]), TJ_ALL, false));
			next = tj_add(next, tj_sum(tj_mul(g[i], layer_like(wrt[i], salt++)), TJ_ALL, false));
		}
		out[2 * k] = f;
		out[2 * k + 1] = d;
		f = next;
	}
}

/* The derivatives of the case at in + h * direction. */
static inline void layer_at(tj_fn *f, const layer *l, double h, double *out)
{
	tj_tensor *in[2 * LAYER_MOST + 1], *y[2 * LAYER_ORDERS];
	for (int i = 0; i < l->nin; i++) {
		in[i] = l->direction[i] ? tj_add(l->in[i], tj_mul(l->direction[i], tj_f(h))) : l->in[i];
		in[l->nin + i] = l->direction[i] ? l->direction[i] : tj_f(0);
	}
	in[2 * l->nin] = TJ_END;
	if (tj_call(f, y, in) != TJ_OK) kit_ok(tj_ctx_current());
	for (int k = 0; k < 2 * (l->orders ? l->orders : LAYER_ORDERS); k++) out[k] = tj_item(y[k]);
}

static __attribute__((noinline, unused)) void layer_gradients(const layer *of, const char *what)
{
	const double h = 1e-3;
	double at[4][2 * LAYER_ORDERS], here[2 * LAYER_ORDERS];
	layer l = *of;
	tj_ctx *c = tj_ctx_current();
	const int orders = l.orders ? l.orders : LAYER_ORDERS;
	for (int i = 0; i < l.nin; i++) l.direction[i] = layer_float(l.in[i]) && !l.fixed[i] ? layer_like(l.in[i], 40 + i) : NULL;
	tj_fn *f = tj_compile(c, layer_derivatives, &l, TJ_OPTS(tj_compile_opts, .name = "derivatives", .nin = 2 * l.nin, .nout = 2 * orders));
	layer_at(f, &l, 0, here);
	for (int i = 0; i < 4; i++) layer_at(f, &l, (i < 2 ? i - 2 : i - 1) * h, at[i]);
	for (int k = 0; k < orders; k++) {
		const double d = (at[0][2 * k] - 8 * at[1][2 * k] + 8 * at[2][2 * k] - at[3][2 * k]) / (12 * h), got = here[2 * k + 1];
		if (!(fabs(d - got) <= 2e-6 * (1 + fabs(d)))) fail_msg("%s: order %d: %.12g, by differences %.12g", what, k + 1, got, d);
	}
	tj_fn_free(f);
}

/* ---- compiled and evaluated ---- */
static __attribute__((unused)) void layer_with_gradients(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	tj_tensor *wrt[LAYER_MOST + 1];
	int n = 0;
	for (int i = 0; i < l->nin; i++)
		if (layer_float(l->in[i]) && !l->fixed[i]) wrt[n++] = in[i];
	wrt[n] = TJ_END;
	l->body(&out[0], in, l->self);
	if (n && !tj_is_poison(out[0]))
		tj_grad(out + 1, tj_sum(tj_mul(tj_cast(out[0], TJ_F64), layer_like(tj_cast(out[0], TJ_F64), 60)), TJ_ALL, false), wrt,
		        TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static inline bool layer_equal(tj_dtype t, const char *a, const char *b, int64_t n)
{
	const size_t each = tj_dtype_size(t);
	for (int64_t i = 0; i < n; i++, a += each, b += each) {
		float f, g;
		double d, e;
		if (!memcmp(a, b, each)) continue;
		if (t == TJ_F32) memcpy(&f, a, 4), memcpy(&g, b, 4), d = f, e = g;
		else if (t == TJ_F64) memcpy(&d, a, 8), memcpy(&e, b, 8);
		else if (t == TJ_F16) d = tj_from_f16(*(const tj_f16 *)a), e = tj_from_f16(*(const tj_f16 *)b);
		else if (t == TJ_BF16) d = tj_from_bf16(*(const tj_bf16 *)a), e = tj_from_bf16(*(const tj_bf16 *)b);
		else return false;
		if (d == d || e == e) return false;
	}
	return true;
}

/* Runs the case, with its gradients, on both back ends, and with sizes as arguments of the code: equal bits. Returns the evaluator steps of
 * the compiled plans. */
static __attribute__((noinline, unused)) uint64_t layer_compiled(const layer *of, const char *what)
{
	tj_ctx *was = tj_ctx_current();
	static const char *const name[] = { "eval", "llvm", "llvm" };
	void *data[3][1 + LAYER_MOST] = { { NULL } };
	const void *given[LAYER_MOST];
	uint64_t steps = 0;
	for (int i = 0; i < of->nin; i++) given[i] = tj_data(of->in[i]); /* while their context is the current one */
	for (int b = 0; b < 3; b++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = name[b]));
		layer l = *of;
		tj_tensor *in[LAYER_MOST + 1], *y[1 + LAYER_MOST];
		int n = 1;
		for (int i = 0; i < l.nin; i++) {
			int64_t shape[TJ_MAX_RANK + 1];
			for (int k = 0; k < tj_rank(of->in[i]); k++) shape[k] = tj_dim(of->in[i], k);
			shape[tj_rank(of->in[i])] = TJ_END_DIM;
			in[i] = l.in[i] = tj_from_data(c, tj_dtype_of(of->in[i]), shape, given[i]);
			n += layer_float(l.in[i]) && !l.fixed[i];
		}
		in[l.nin] = TJ_END;
		tj_fn *f = tj_compile(c, layer_with_gradients, &l,
		                      TJ_OPTS(tj_compile_opts, .name = "layer", .nin = l.nin, .nout = n,
		                              .dynamic = b == 2 ? TJ_DYNAMIC_ON : TJ_DYNAMIC_AUTO));
		if (tj_call(f, y, in) != TJ_OK) kit_ok(c);
		for (int i = 0; i < n; i++) {
			const size_t bytes = tj_dtype_size(tj_dtype_of(y[i])) * (size_t)tj_numel(y[i]);
			data[b][i] = malloc(bytes + 1);
			assert_int_equal(tj_read(y[i], data[b][i], bytes), TJ_OK);
			if (b && !layer_equal(tj_dtype_of(y[i]), data[0][i], data[b][i], tj_numel(y[i])))
				fail_msg("%s: result %d of the compiled code differs from the evaluator's", what, i);
		}
		if (b) steps += kit_stats(f).eval_steps;
		kit_ok(c);
		tj_close(c);
	}
	for (int b = 0; b < 3; b++)
		for (int i = 0; i <= LAYER_MOST; i++) free(data[b][i]);
	tj_ctx_use(was);
	return steps;
}

/* ---- a batch ---- */
static __attribute__((unused)) void layer_mapped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	tj_tensor *of[LAYER_MOST + 1];
	memcpy(of, in, sizeof *of * (size_t)l->nin);
	of[l->nin] = TJ_END;
	tj_vmap(out, 1, l->body, of, l->self, NULL);
}

/* Two examples by tj_vmap(): each has the bits that it has alone. */
static __attribute__((noinline, unused)) void layer_batch(const layer *of, const char *what)
{
	layer l = *of;
	tj_tensor *in[LAYER_MOST + 1], *one[2][LAYER_MOST + 1], *y, *alone;
	for (int i = 0; i < l.nin; i++) {
		one[0][i] = l.in[i];
		one[1][i] = layer_float(l.in[i]) ? tj_mul(l.in[i], tj_f(-0.75)) : l.in[i];
		in[i] = tj_stack(TJ_LIST(one[0][i], one[1][i]), 0);
	}
	in[l.nin] = one[0][l.nin] = one[1][l.nin] = TJ_END;
	tj_fn *f = tj_compile(tj_ctx_current(), layer_mapped, &l, TJ_OPTS(tj_compile_opts, .name = "mapped", .nin = l.nin, .nout = 1));
	tj_fn *g = tj_compile(tj_ctx_current(), l.body, l.self, TJ_OPTS(tj_compile_opts, .name = "alone", .nin = l.nin, .nout = 1));
	if (tj_call(f, &y, in) != TJ_OK) kit_ok(tj_ctx_current());
	for (int k = 0; k < 2; k++) {
		if (tj_call(g, &alone, one[k]) != TJ_OK) kit_ok(tj_ctx_current());
		const size_t bytes = tj_dtype_size(tj_dtype_of(alone)) * (size_t)tj_numel(alone);
		if (tj_numel(y) != 2 * tj_numel(alone) ||
		    !layer_equal(tj_dtype_of(y), (const char *)tj_data(y) + (size_t)k * bytes, tj_data(alone), tj_numel(alone)))
			fail_msg("%s: example %d of a batch differs from it alone", what, k);
	}
}

/* All checks; the compiled code has no step of the evaluator. */
static __attribute__((noinline, unused)) void layer_check(const layer *l, const char *what)
{
	if (!strcmp(kit_backend, "eval")) layer_gradients(l, what), layer_batch(l, what);
	else if (layer_compiled(l, what)) fail_msg("%s: a step of the evaluator", what);
}

/* ---- values ---- */
static __attribute__((noinline, unused)) void layer_near(tj_tensor *y, int64_t n, const double *want, double relative, const char *what)
{
	if (tj_is_poison(y)) kit_ok(tj_ctx_current());
	if (tj_numel(y) != n) fail_msg("%s: %lld elements, not %lld", what, (long long)tj_numel(y), (long long)n);
	const double *v = tj_data(tj_cast(y, TJ_F64));
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(v[i] - want[i]) <= relative * (1 + fabs(want[i])) || (v[i] != v[i] && want[i] != want[i]) || v[i] == want[i]))
			fail_msg("%s: element %lld is %.15g, not %.15g", what, (long long)i, v[i], want[i]);
}

/* The next error: its code, the name of the function, a part of its message, and a hint. */
#define LAYER_REFUSED(y, status, name, text)                                                         \
	do {                                                                                         \
		assert_true(tj_is_poison(y));                                                        \
		kit_error(tj_ctx_current(), TJ_ERR_##status, text);                                  \
		assert_string_equal(tj_last_error(tj_ctx_current())->op, name);                      \
		if (!*tj_last_error(tj_ctx_current())->hint) fail_msg("no hint for \"%s\"", text);   \
	} while (0)

#endif
