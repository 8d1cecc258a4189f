/* SPDX-License-Identifier: MIT */
/* products: matrix products, and the libraries that compute them beside tjit. */
#ifndef TJ_BENCH_PRODUCTS_H
#define TJ_BENCH_PRODUCTS_H

#include "bench/bench.h"

/* C = A B for each of `batch` pairs: A [m,k], B [k,n]; row-major, without gaps. */
typedef struct product {
	tj_dtype dtype;       /* of A and B. TJ_I8: C is i32. Else C has this dtype */
	int64_t batch;        /* 0: one pair, of rank 2 */
	int64_t m, k, n;
	bool transposed;      /* B is stored as [n,k] */
	bool fast;            /* in tjit the function is TJ_FAST */
} product;
static inline int64_t product_pairs(const product *p) { return p->batch ? p->batch : 1; }

/* What a peer needs for a call. */
typedef struct product_call {
	product p;
	const void *a, *b;
	void *c;              /* the peer's result */
	void *own;            /* the peer's own data: a kernel, packed weights */
} product_call;

typedef struct product_peer {
	const char *name;
	bool packs;                    /* it rearranges B once; the time of that does not count */
	bool (*open)(product_call *u); /* false: the peer has no such product */
	void (*run)(void *call);        /* call: the product_call */
	void (*close)(product_call *u); /* NULL: nothing to free */
} product_peer;

/* ---- blas.c ---- */
enum { PRODUCT_PEERS = 4 };
extern const product_peer product_peers[PRODUCT_PEERS];
void product_limit_peers(int bits);         /* before any call: the libraries use no more than AVX2 when bits is 256 */
void product_open_peers(int bits, int threads); /* opens what is installed */
void product_about_peers(char *text, size_t room); /* which libraries, which kernels; for a person */

#endif
