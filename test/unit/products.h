/* SPDX-License-Identifier: MIT */
/* Functions with products, on the CPU and on a GPU. For test_cublas.c and test_epilogues.c. */
#ifndef TJ_TEST_PRODUCTS_H
#define TJ_TEST_PRODUCTS_H

#include "runtime/cublas.h"
#include "test/kit.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>

enum { MOST = 1 << 16, OUTS = 21 };

#define NEED_GPU() do { if (tj_find_device("cuda:0") <= 0) SKIP("no GPU and no fake of one"); } while (0)

/* A counter of the fake cuBLASLt; NULL: the real one is there. */
static inline atomic_int *counter(const char *name)
{
	const char *why;
	rt_lt_get(&why);
	void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

#define NEED_FAKE() do { if (!counter("fake_cublaslt_asked")) SKIP("it needs the fake cuBLASLt"); } while (0)

/* ---- values ---- */
typedef union number { float f; uint32_t u; } number;

static inline double load(tj_dtype t, const void *p, int64_t i)
{
	switch (t) {
	case TJ_F64: return ((const double *)p)[i];
	case TJ_F32: return (double)((const float *)p)[i];
	case TJ_I32: return ((const int32_t *)p)[i];
	case TJ_BF16: return (double)(number){ .u = (uint32_t)((const uint16_t *)p)[i] << 16 }.f;
	default: {
		const uint16_t h = ((const uint16_t *)p)[i];
		const int e = h >> 10 & 31, m = h & 1023;
		const double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
		return h >> 15 ? -v : v;
	}
	}
}

/* Stores v in fewer bits than it may have: towards zero. */
static inline void store(tj_dtype t, void *p, int64_t i, double v)
{
	switch (t) {
	case TJ_F64: ((double *)p)[i] = v; break;
	case TJ_F32: ((float *)p)[i] = (float)v; break;
	case TJ_I32: ((int32_t *)p)[i] = (int32_t)v; break;
	case TJ_BF16: ((uint16_t *)p)[i] = (uint16_t)((number){ .f = (float)v }.u >> 16); break;
	default: {
		int e;
		const double m = frexp(fabs(v), &e); /* normal values of f16 only */
		((uint16_t *)p)[i] = (uint16_t)((v < 0) << 15 | (e + 14) << 10 | ((int)(m * 2048) & 1023));
	}
	}
}

/* Whole numbers from -2 to 2 but 0: sums of 64 products are exact in every dtype. Else fractions. */
static inline void fill(tj_dtype t, void *p, int64_t n, unsigned seed, bool whole)
{
	static const int wholes[] = { 1, -1, 2, -2 };
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 1103515245u + 12345u;
		const int v = (int)(seed >> 16) % 2001 - 1000;
		store(t, p, i, whole ? wholes[seed >> 24 & 3] : (v ? v : 1) / 512.0);
	}
}

/* ---- a function on two devices ---- */
typedef struct job {
	tj_body *body;
	void *self;
	int nin, nout;
	tj_dtype dtype;
	int64_t dim[3][4];
	tj_mode mode;
	tj_dynamic dynamic;
	bool fractions;
	tj_numerics numerics;
} job;
typedef struct result { char byte[OUTS][MOST]; size_t bytes[OUTS]; } result;

static inline void run(tj_ctx *c, tj_fn *f, const job *j, result *r)
{
	static _Thread_local char data[MOST * 8];
	tj_tensor *in[4] = { TJ_END, TJ_END, TJ_END, TJ_END }, *out[OUTS];
	tj_ctx_use(c);
	for (int i = 0; i < j->nin; i++) {
		int64_t n = 1, dim[5];
		int k = 0;
		for (; k < 4 && j->dim[i][k] >= 0; k++) n *= dim[k] = j->dim[i][k];
		dim[k] = TJ_END_DIM;
		fill(j->dtype, data, n, (unsigned)i + 3, !j->fractions);
		in[i] = tj_from_data(c, j->dtype, dim, data);
	}
	if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
	for (int i = 0; i < j->nout; i++) {
		r->bytes[i] = (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i]));
		assert_true(r->bytes[i] <= MOST);
		if (tj_read(out[i], r->byte[i], r->bytes[i]) != TJ_OK) fail_msg("%s", tj_last_error(c)->message);
	}
}

static inline result *on(const char *device, const job *j, int turns)
{
	result *r = calloc(1, sizeof *r);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	tj_fn *f = tj_compile(c, j->body, j->self,
	                      TJ_OPTS(tj_compile_opts, .name = "t", .nin = j->nin, .nout = j->nout, .mode = j->mode, .dynamic = j->dynamic,
	                              .numerics = j->numerics));
	for (int i = 0; i < turns; i++) run(c, f, j, r);
	kit_ok(c);
	tj_close(c);
	return r;
}

/* Equal bits on the CPU and on the GPU, whose library refuses nothing. */
static inline void same(job j)
{
	const atomic_int *refused = counter("fake_cublaslt_refused");
	const int before = refused ? *refused : 0;
	result *want = on("cpu", &j, 1), *got = on("cuda:0", &j, 2);
	assert_int_equal(refused ? *refused : 0, before);
	for (int i = 0; i < j.nout; i++) {
		assert_int_equal(got->bytes[i], want->bytes[i]);
		if (memcmp(got->byte[i], want->byte[i], got->bytes[i])) fail_msg("output %d of dtype %d differs", i, j.dtype);
	}
	free(want);
	free(got);
}

#endif
