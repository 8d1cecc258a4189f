/* SPDX-License-Identifier: MIT */
/* gpumatmul: a matrix product as calls of cuBLASLt.
 *
 * The library is column-major. Row-major C = A B lies in memory as column-major C' = B' A', so the operands change places:
 *
 *   ours     C [m, n] = A [m, k] B [k, n]           the library's    C' [n, m] = B' [n, k] A' [k, m]
 *
 * A transposed operand is one whose columns are adjacent. Batch axes become one axis with a stride for each operand: neighbouring axes are
 * merged, and those of A become rows where all batches share B. Of the axes that are left, the longest is the library's; the others are
 * loops around it.
 *
 * What follows the product row by row may be a part of the call: the epilogue, a bias along n (the library's m), then an activation. The
 * lowered plan has a kernel for the same; it runs, in place, after a plain product where the library has no such call, or where both were
 * timed and it was faster. */
#include "runtime/cublas.h"
#include "runtime/cuda.h"
#include "runtime/layout.h"
#include "runtime/log.h"

typedef struct axis { int64_t n, a, b, c; } axis; /* size; strides of A, B and C */

struct rt_blas {
	rt_blas_desc d;
	char of[RT_LOG_NAME];
	int naxis;
	axis loop[TJ_MAX_RANK];
	rt_lt_key key;               /* without version, GPU and alignments */
	int64_t a_bits, b_bits, c_bits; /* OR of all offsets from batch to batch, in bytes: they limit the alignment */
	pthread_mutex_t lock;        /* held to add a call, and while a bias is set and used */
	_Atomic(rt_lt_call *) calls;
	_Atomic(const char *) refused; /* why the CPU computes it; NULL: it does not */
	_Atomic(const char *) apart; /* why the last run did not compute the epilogue in one call; NULL: it did, or there is none */
};

/* ---- batch axes ---- */
static int axes_of(const rt_blas_desc *d, axis *x)
{
	int64_t c = d->m * d->n;
	int n = 0;
	for (int i = d->nbatch - 1; i >= 0; i--) { /* x: the innermost first */
		const axis y = { d->batch[i], d->a_step[i], d->b_step[i], c };
		axis *in = n ? &x[n - 1] : NULL;
		c *= y.n;
		if (y.n == 1) continue;
		if (in && y.a == in->n * in->a && y.b == in->n * in->b) in->n *= y.n;
		else x[n++] = y;
	}
	return n;
}

/* The innermost axis, if it is one of A alone and continues A's rows, becomes rows. */
static void to_rows(rt_blas_desc *d, axis *x, int *n)
{
	bool transposed;
	int64_t ld;
	const int64_t row = d->m == 1 ? x->a : d->a_row;
	if (!*n || x->b || x->a != d->m * row || !rt_leading(d->m * x->n, d->k, row, d->a_col, &transposed, &ld)) return;
	d->m *= x->n;
	d->a_row = row;
	memmove(x, x + 1, sizeof *x * (size_t)--*n);
}

/* Takes the longest axis that one call can walk. */
static axis take_longest(axis *x, int *n)
{
	int best = -1;
	for (int i = 0; i < *n; i++)
		if (x[i].a >= 0 && x[i].b >= 0 && x[i].n <= INT32_MAX && (best < 0 || x[i].n > x[best].n)) best = i;
	if (best < 0) return (axis){ .n = 1 };
	const axis taken = x[best];
	memmove(&x[best], &x[best + 1], sizeof *x * (size_t)(--*n - best));
	return taken;
}

static void set_key(rt_blas *x, const rt_blas_desc *d, axis batch)
{
	bool ta, tb;
	int64_t la, lb;
	rt_leading(d->m, d->k, d->a_row, d->a_col, &ta, &la);
	rt_leading(d->k, d->n, d->b_row, d->b_col, &tb, &lb);
	x->key = (rt_lt_key){ .dtype = d->dtype,
		              .tf32 = d->policy.tf32,
		              .reduced = d->policy.reduced,
		              .any_order = d->policy.any_order,
		              .no_parts = d->policy.no_parts,
		              .workspace = d->policy.workspace < RT_BLAS_WORKSPACE ? d->policy.workspace : RT_BLAS_WORKSPACE,
		              .tries = d->policy.tries < RT_LT_TRIES ? d->policy.tries : RT_LT_TRIES,
		              .m = d->n,
		              .n = d->m,
		              .k = d->k,
		              .batch = batch.n,
		              .lda = lb,
		              .ldb = la,
		              .a_transposed = tb,
		              .b_transposed = ta,
		              .a_step = batch.b,
		              .b_step = batch.a,
		              .c_step = batch.c };
}

rt_blas *rt_blas_new(const rt_blas_desc *d, rt_err *err)
{
	rt_blas *x = rt_calloc(sizeof *x);
	if (!x) {
		rt_fail(err, TJ_ERR_NOMEM, "matmul", "out of memory");
		return NULL;
	}
	rt_blas_desc rows = *d; /* with batches as rows */
	const int64_t size = (int64_t)tj_dtype_size(d->dtype);
	x->d = *d;
	snprintf(x->of, sizeof x->of, "%s", d->of ? d->of : "");
	pthread_mutex_init(&x->lock, NULL);
	x->naxis = axes_of(d, x->loop);
	to_rows(&rows, x->loop, &x->naxis);
	const axis batch = take_longest(x->loop, &x->naxis);
	set_key(x, &rows, batch);
	for (int i = -1; i < x->naxis; i++) {
		const axis *const y = i < 0 ? &batch : &x->loop[i];
		x->a_bits |= y->a * size;
		x->b_bits |= y->b * size;
		x->c_bits |= y->c * size;
	}
	return x;
}

void rt_blas_free(rt_blas *x)
{
	for (rt_lt_call *c = x ? atomic_load(&x->calls) : NULL, *next; c; c = next) {
		next = c->next;
		rt_lt_call_free(c);
	}
	if (x) pthread_mutex_destroy(&x->lock);
	rt_free(x);
}

/* ---- calls ---- */
static int64_t alignment(const void *p, int64_t bits)
{
	const uint64_t all = (uintptr_t)p | (uint64_t)bits | 256;
	return (int64_t)(all & -all);
}

static bool is_for(const rt_lt_call *c, const rt_lt_key *k)
{
	return c->key.a_align == k->a_align && c->key.b_align == k->b_align && c->key.c_align == k->c_align && c->key.epilogue == k->epilogue &&
	       c->key.bias_align == k->bias_align;
}

static const rt_lt_call *find(const rt_blas *x, const rt_lt_key *k)
{
	const rt_lt_call *c = atomic_load_explicit(&x->calls, memory_order_acquire);
	while (c && !is_for(c, k)) c = c->next;
	return c;
}

/* ---- running ---- */
typedef struct operands { const char *a, *b; char *c; void *work; const void *bias; } operands;
typedef struct place { /* where a product runs */
	rt_queue *q;
	void *stream, *handle;
	int gpu;
	rt_run *r;
	void *const *rest;           /* see rt_blas_operands */
} place;

static int multiply(const rt_lt_call *x, const place *p, operands o)
{
	static const float one = 1, zero = 0;
	static const double one64 = 1, zero64 = 0;
	const bool wide = x->key.dtype == TJ_F64;
	return x->lt->cublasLtMatmul(p->handle, x->product, wide ? (const void *)&one64 : &one, o.b, x->a, o.a, x->b,
	                             wide ? (const void *)&zero64 : &zero, o.c, x->c, o.c, x->c, &x->choice.algorithm, o.work,
	                             x->choice.workspace, p->stream);
}

/* With a bias the lock is held. */
static int multiply_all(const rt_blas *x, const rt_lt_call *call, const place *p, operands o)
{
	const int64_t size = (int64_t)tj_dtype_size(x->d.dtype);
	int64_t at[TJ_MAX_RANK] = { 0 };
	const int set = call->key.epilogue & RT_LT_BIAS ? rt_lt_set_bias(call, o.bias) : 0;
	if (set) return set;
	for (;;) {
		const int e = multiply(call, p, o);
		int i = 0;
		if (e) return e;
		for (; i < x->naxis; i++) { /* the next batch of the outer loops */
			const axis *l = &x->loop[i];
			const int64_t step = ++at[i] < l->n ? 1 : 1 - l->n;
			o.a += step * l->a * size;
			o.b += step * l->b * size;
			o.c += step * l->c * size;
			if (step == 1) break;
			at[i] = 0;
		}
		if (i == x->naxis) return 0;
	}
}

/* ---- the call for operands at these addresses ---- */
typedef struct trial { const rt_blas *x; const place *p; operands o; bool rest; } trial; /* rest: the kernel runs after the product */

static int try_it(void *env, const rt_lt_call *call)
{
	const trial *t = env;
	rt_err ignored = { 0 };
	rt_run r = *t->p->r;
	const int e = multiply_all(t->x, call, t->p, t->o);
	r.err = &ignored;
	return e || !t->rest ? e : rt_step_launch(t->x->d.rest, t->p->rest, &r) != TJ_OK;
}

static rt_lt_key key_of(const rt_blas *x, operands o, uint32_t epilogue)
{
	rt_lt_key key = x->key;
	key.a_align = alignment(o.b, x->b_bits);
	key.b_align = alignment(o.a, x->a_bits);
	key.c_align = alignment(o.c, x->c_bits);
	key.epilogue = epilogue;
	key.same_bits = epilogue && x->d.same_bits;
	key.bias_align = epilogue & RT_LT_BIAS ? alignment(o.bias, 0) : 0;
	return key;
}

/* The lock is held. NULL: err is set. */
static rt_lt_call *new_call(const rt_blas *x, const rt_lt *lt, const rt_lt_key *key, const rt_lt_call *plain, trial *t, rt_err *err)
{
	rt_lt_call *c = rt_lt_call_new(lt, t->p->handle, key, plain, err);
	if (c && c->noption > 1) rt_lt_tune(c, x->d.device, t->p->q, try_it, t);
	return c;
}

static const rt_lt_call *add(rt_blas *x, rt_lt_call *c)
{
	if (!c) return NULL;
	c->next = atomic_load(&x->calls);
	atomic_store(&x->calls, c);
	return c;
}

/* The product of the same operands without the epilogue. The lock is held. NULL: err is set. */
static const rt_lt_call *plain_of(rt_blas *x, const rt_lt *lt, rt_lt_key key, trial *t, rt_err *err)
{
	key.epilogue = key.same_bits = key.bias_align = 0;
	const rt_lt_call *c = find(x, &key);
	return c ? c : add(x, new_call(x, lt, &key, NULL, t, err));
}

/* With an epilogue. If products are timed, so are both ways to compute it. The lock is held. NULL: err is set. */
static rt_lt_call *new_whole(rt_blas *x, const rt_lt *lt, const rt_lt_key *key, trial *t, rt_err *err)
{
	const bool timed = key->tries > 1;
	const rt_lt_call *plain = timed || key->same_bits ? plain_of(x, lt, *key, t, err) : NULL;
	if (!plain && (timed || key->same_bits)) return NULL;
	rt_lt_call *c = new_call(x, lt, key, key->same_bits ? plain : NULL, t, err);
	if (!c || !c->noption || !timed || plain->why) return c; /* without options: it was chosen before, or cannot be */
	const double us = rt_lt_time(c, x->d.device, t->p->q, try_it, t);
	t->rest = true;
	rt_lt_weigh(c, us, rt_lt_time(plain, x->d.device, t->p->q, try_it, t));
	return c;
}

/* NULL: err is set. */
static const rt_lt_call *call_of(rt_blas *x, const rt_lt *lt, const place *p, operands o, uint32_t epilogue, rt_err *err)
{
	rt_lt_key key = key_of(x, o, epilogue);
	const rt_lt_call *call = find(x, &key);
	if (RT_LIKELY(call != NULL)) return call;
	key.version = (int64_t)lt->cublasLtGetVersion();
	key.gpu = p->gpu;
	rt_lock(&x->lock);
	if (!(call = find(x, &key))) {
		trial t = { x, p, o, false };
		call = add(x, epilogue ? new_whole(x, lt, &key, &t, err) : new_call(x, lt, &key, NULL, &t, err));
	}
	rt_unlock(&x->lock);
	return call;
}

static tj_status by_cpu(rt_blas *x, const char *why, const void *a, const void *b, void *c, rt_run *r)
{
	static atomic_flag told = ATOMIC_FLAG_INIT; /* once; notes and tj_explain() tell it of each product */
	atomic_store(&x->refused, why);
	if (!atomic_flag_test_and_set(&told)) rt_warn(r->log, "a product on %s is computed by the CPU: %s", rt_device_name(x->d.device), why);
	return rt_blas_on_host(&x->d, a, b, c, r);
}

static tj_status fill_zero(const rt_blas *x, rt_queue *q, void *c, rt_err *err)
{
	int64_t n = x->d.m * x->d.n * (int64_t)tj_dtype_size(x->d.dtype);
	for (int i = 0; i < x->d.nbatch; i++) n *= x->d.batch[i];
	return rt_device_at(x->d.device)->zero(q, c, (size_t)n, err);
}

static tj_status failed(const rt_blas *x, const rt_lt *lt, int e, rt_err *err)
{
	return rt_fail(err, TJ_ERR_DEVICE, "matmul", "%s: cublasLtMatmul failed: %s (%d)", rt_device_name(x->d.device),
	               lt->cublasLtGetStatusName(e), e);
}

/* Product and epilogue in one call. x->apart: why not; then nothing was done. */
static tj_status with_epilogue(rt_blas *x, const rt_lt *lt, const place *p, operands o, bool *whole, rt_err *err)
{
	const bool biased = x->d.epilogue & RT_LT_BIAS;
	const char *apart = biased && (uintptr_t)o.bias % RT_LT_BIAS_ALIGN
	                            ? "a kernel of its own adds the bias: cuBLASLt wants its address to be a multiple of 16"
	                            : NULL;
	const rt_lt_call *call = apart ? NULL : call_of(x, lt, p, o, x->d.epilogue, err);
	int e = 0;
	if (!apart && !call) return err->code;
	if (call && !(apart = call->why)) {
		if (biased) rt_lock(&x->lock);
		e = multiply_all(x, call, p, o);
		if (biased) rt_unlock(&x->lock);
		if (e == RT_LT_NOT_SUPPORTED) apart = "a kernel of its own computes what follows: cuBLASLt refuses the algorithm that it ranks first";
	}
	atomic_store(&x->apart, apart);
	*whole = !apart;
	return apart || !e ? TJ_OK : failed(x, lt, e, err);
}

/* *why: why the library cannot compute it; then nothing was done. */
static tj_status plain(rt_blas *x, const rt_lt *lt, const place *p, operands o, const char **why, rt_err *err)
{
	const rt_lt_call *call = call_of(x, lt, p, o, 0, err);
	if (!call) return err->code;
	*why = call->why;
	const int e = call->why ? 0 : multiply_all(x, call, p, o);
	if (e == RT_LT_NOT_SUPPORTED)
		*why = "cuBLASLt refuses the algorithm that it ranks first: CUBLAS_STATUS_NOT_SUPPORTED"; /* it promises no better */
	return e && !*why ? failed(x, lt, e, err) : TJ_OK;
}

static void log_call(const rt_blas *x, const rt_log_to *log)
{
	int64_t batch = 1;
	for (int i = 0; i < x->d.nbatch; i++) batch *= x->d.batch[i];
	rt_log(log, RT_LOG_LIBRARY, "[%s] %s: m %lld, n %lld, k %lld, %s, batch %lld", x->of, rt_blas_name(x), (long long)x->d.m,
	       (long long)x->d.n, (long long)x->d.k, tj_dtype_name(x->d.dtype), (long long)batch);
}

/* *whole: the epilogue is computed, too. */
static tj_status by_library(rt_blas *x, const rt_lt *lt, place p, operands o, bool *whole, const char **why, rt_err *err)
{
	tj_status st = rt_cuda_enter(p.q, &p.stream, &p.gpu, err);
	if (st != TJ_OK) return st;
	p.handle = rt_lt_handle(p.gpu, why);
	if (p.handle && x->d.epilogue) st = with_epilogue(x, lt, &p, o, whole, err);
	if (p.handle && !*whole && st == TJ_OK) st = plain(x, lt, &p, o, why, err);
	rt_cuda_leave();
	return st;
}

tj_status rt_blas_run(rt_blas *x, const rt_blas_operands *at, rt_run *r)
{
	const char *why = NULL;
	bool whole = false;
	rt_queue *q = rt_pool_queue(r->pool, x->d.device, r->err);
	if (!q) return r->err->code;
	const rt_lt *lt = x->d.k ? rt_lt_get(&why) : NULL;
	const operands o = { at->a, at->b, at->c, (void *)(((uintptr_t)at->work + 255) & ~(uintptr_t)255), at->bias };
	tj_status st = x->d.k ? TJ_OK : fill_zero(x, q, at->c, r->err);
	if (lt) {
		rt_lt_listen(lt, r->log);
		st = by_library(x, lt, (place){ .q = q, .r = r, .rest = at->rest }, o, &whole, &why, r->err);
		rt_lt_heard(lt, r->log, x->of);
	}
	if (lt && rt_logs(r->log, RT_LOG_LIBRARY) && !why) log_call(x, r->log);
	if (st == TJ_OK && why) st = by_cpu(x, why, at->a, at->b, at->c, r);
	return st == TJ_OK && x->d.rest && !whole ? rt_step_launch(x->d.rest, at->rest, r) : st;
}

/* ---- explanations ---- */
const char *rt_blas_name(const rt_blas *x)
{
	rt_blas *const y = (rt_blas *)(uintptr_t)x;
	const bool whole = x->d.epilogue && !atomic_load(&y->apart);
	const rt_lt_call *c = atomic_load(&y->calls);
	if (atomic_load(&y->refused)) return "the CPU";
	while (c && c->next && (c->key.epilogue != 0) != whole) c = c->next;
	return c ? c->text : rt_lt_name(x->d.epilogue);
}

const char *rt_blas_why(const rt_blas *x, const char **hint)
{
	const char *refused = atomic_load(&((rt_blas *)(uintptr_t)x)->refused), *apart = atomic_load(&((rt_blas *)(uintptr_t)x)->apart);
	*hint = apart ? apart : "";
	if (refused) {
		*hint = "each call copies its operands to the host and its result back";
		return refused;
	}
	switch (x->d.dtype) {
	case TJ_F64: return "the heuristic of cuBLASLt proposes this algorithm; it adds in f64, in another order than the evaluator";
	case TJ_F32:
		return x->d.policy.tf32 ? "the heuristic of cuBLASLt proposes this algorithm; operands are rounded to TF32, as allowed"
		                        : "the heuristic of cuBLASLt proposes this algorithm; it computes in full f32, without TF32";
	default: return "the heuristic of cuBLASLt proposes this algorithm; it adds in f32 and rounds each element once";
	}
}
