/* SPDX-License-Identifier: MIT */
/* ranking: the algorithm of a product. cuBLASLt's heuristic ranks its algorithms for a shape, a layout and an alignment. The first one, or
 * the one that tuning.c found to be the fastest, is kept under the key of the product and its epilogue: equal ones of other plans do not
 * ask again. */
#include "runtime/cublas.h"

#include <stdio.h>

/* ---- values of the library's types and attributes ---- */
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };                                     /* cudaDataType */
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77 };                   /* cublasComputeType_t */
enum { OP_T = 1 };
enum { PRODUCT_TRANSA = 3, PRODUCT_TRANSB = 4, PRODUCT_EPILOGUE = 7, PRODUCT_BIAS = 8 };
enum { LAYOUT_BATCH_COUNT = 5, LAYOUT_BATCH_OFFSET = 6 };
enum { WANT_WORKSPACE = 1, WANT_REDUCTION = 3, WANT_ALIGN_A = 5, WANT_ALIGN_B = 6, WANT_ALIGN_C = 7, WANT_ALIGN_D = 8 };
enum { SPLIT_NONE = 0, SPLIT_IN_PLACE = 1, SPLIT_COMPUTE = 2, SPLIT_OUTPUT = 4 };          /* how partial sums over k are kept */
enum { CONFIG_ID = 0, CONFIG_TILE = 1, CONFIG_SPLIT = 2, CONFIG_STAGES = 6 };

static int type_of(int64_t t) { return t == TJ_F64 ? R_64F : t == TJ_F16 ? R_16F : t == TJ_BF16 ? R_16BF : R_32F; }
static int compute_of(const rt_lt_key *k)
{
	return k->dtype == TJ_F64 ? COMPUTE_64F : k->dtype == TJ_F32 && k->tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
}

static uint32_t splits_of(const rt_lt_key *k)
{
	if (k->no_parts) return SPLIT_NONE;
	const bool wide = k->reduced || k->dtype == TJ_F64 || k->dtype == TJ_F32; /* the dtype of the result may hold parts */
	return SPLIT_COMPUTE | (wide ? SPLIT_OUTPUT : 0) | (wide && k->any_order ? SPLIT_IN_PLACE : 0);
}

/* ---- descriptors ---- */
static int make_layout(const rt_lt *lt, void **layout, const rt_lt_key *k, int64_t rows, int64_t cols, int64_t ld, int64_t step)
{
	const int32_t batch = (int32_t)k->batch;
	int e = lt->cublasLtMatrixLayoutCreate(layout, type_of(k->dtype), (uint64_t)rows, (uint64_t)cols, ld);
	if (!e) e = lt->cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_COUNT, &batch, sizeof batch);
	return e ? e : lt->cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_OFFSET, &step, sizeof step);
}

int rt_lt_set_bias(const rt_lt_call *x, const void *bias)
{
	return x->lt->cublasLtMatmulDescSetAttribute(x->product, PRODUCT_BIAS, &bias, sizeof bias);
}

/* The heuristic takes the alignment of the bias from its address, and does not read there. So the address that it gets is the alignment. */
static int set_epilogue(const rt_lt *lt, rt_lt_call *x)
{
	const uint32_t epilogue = (uint32_t)x->key.epilogue;
	const int e = epilogue ? lt->cublasLtMatmulDescSetAttribute(x->product, PRODUCT_EPILOGUE, &epilogue, sizeof epilogue) : 0;
	return e || !(epilogue & RT_LT_BIAS) ? e : rt_lt_set_bias(x, (const void *)(uintptr_t)x->key.bias_align);
}

static int describe(const rt_lt *lt, rt_lt_call *x)
{
	const rt_lt_key *k = &x->key;
	const int32_t ta = k->a_transposed ? OP_T : 0, tb = k->b_transposed ? OP_T : 0;
	int e = lt->cublasLtMatmulDescCreate(&x->product, compute_of(k), k->dtype == TJ_F64 ? R_64F : R_32F);
	if (!e) e = lt->cublasLtMatmulDescSetAttribute(x->product, PRODUCT_TRANSA, &ta, sizeof ta);
	if (!e) e = lt->cublasLtMatmulDescSetAttribute(x->product, PRODUCT_TRANSB, &tb, sizeof tb);
	if (!e) e = set_epilogue(lt, x);
	if (!e) e = make_layout(lt, &x->a, k, ta ? k->k : k->m, ta ? k->m : k->k, k->lda, k->a_step);
	if (!e) e = make_layout(lt, &x->b, k, tb ? k->n : k->k, tb ? k->k : k->n, k->ldb, k->b_step);
	return e ? e : make_layout(lt, &x->c, k, k->m, k->n, k->m, k->c_step);
}

/* ---- the heuristic ---- */
static int ask(const rt_lt *lt, void *handle, rt_lt_call *x)
{
	const rt_lt_key *k = &x->key;
	const uint64_t workspace = (uint64_t)k->workspace;
	const uint32_t splits = splits_of(k), align[] = { (uint32_t)k->a_align, (uint32_t)k->b_align, (uint32_t)k->c_align, (uint32_t)k->c_align };
	void *want = NULL;
	int found = 0, e = lt->cublasLtMatmulPreferenceCreate(&want);
	if (e) return e;
	e = lt->cublasLtMatmulPreferenceSetAttribute(want, WANT_WORKSPACE, &workspace, sizeof workspace);
	if (!e) e = lt->cublasLtMatmulPreferenceSetAttribute(want, WANT_REDUCTION, &splits, sizeof splits);
	for (int i = 0; i < 4 && !e; i++) e = lt->cublasLtMatmulPreferenceSetAttribute(want, WANT_ALIGN_A + i, &align[i], sizeof align[i]);
	if (!e)
		e = lt->cublasLtMatmulAlgoGetHeuristic(handle, x->product, x->a, x->b, x->c, x->c, want, k->tries > 1 ? (int)k->tries : 1,
		                                       x->option, &found);
	lt->cublasLtMatmulPreferenceDestroy(want);
	for (int i = 0; i < found && !e; i++) /* those that can be used move to the front */
		if (!x->option[i].state) x->option[x->noption++] = x->option[i];
	return e ? e : x->noption ? 0 : found ? x->option[0].state : RT_LT_NOT_SUPPORTED;
}

static int check(const rt_lt *lt, void *handle, rt_lt_call *x, const rt_lt_call *plain)
{
	rt_lt_choice *o = &x->option[0];
	if (plain->why) return RT_LT_NOT_SUPPORTED;
	x->choice = plain->choice;
	const int e = lt->cublasLtMatmulAlgoCheck(handle, x->product, x->a, x->b, x->c, x->c, &plain->choice.algorithm, o);
	o->algorithm = plain->choice.algorithm;
	if (e || o->state) return e ? e : o->state;
	x->noption = 1;
	return o->workspace <= (size_t)x->key.workspace ? 0 : RT_LT_NOT_SUPPORTED;
}

static int setting(const rt_lt *lt, const rt_lt_call *x, int attribute)
{
	int32_t v = 0;
	size_t written = 0;
	return lt->cublasLtMatmulAlgoConfigGetAttribute(&x->choice.algorithm, attribute, &v, sizeof v, &written) ? 0 : v;
}

#define LIBRARY "cublasLt"
#define WITH LIBRARY ", with "
const char *rt_lt_name(int64_t epilogue)
{
	switch (epilogue) {
	case 0: return LIBRARY;
	case RT_LT_BIAS: return WITH "bias";
	case RT_LT_RELU: return WITH "ReLU";
	case RT_LT_GELU: return WITH "GELU";
	case RT_LT_BIAS | RT_LT_RELU: return WITH "bias and ReLU";
	default: return WITH "bias and GELU";
	}
}

static const char *name_of(int64_t epilogue) { return rt_lt_name(epilogue) + (epilogue ? sizeof WITH - 1 : 0); } /* "bias and GELU" */

static void describe_choice(rt_lt_call *x)
{
	const rt_lt *lt = x->lt;
	const int v = (int)x->key.version, split = setting(lt, x, CONFIG_SPLIT); /* 130100: 13.1.0 */
	int n = snprintf(x->text, sizeof x->text, LIBRARY " %d.%d.%d, algorithm %d, tile %d, stages %d", v / 10000, v / 100 % 100, v % 100,
	                 setting(lt, x, CONFIG_ID), setting(lt, x, CONFIG_TILE), setting(lt, x, CONFIG_STAGES));
	if (split > 1) n += snprintf(x->text + n, sizeof x->text - (size_t)n, ", k in %d parts", split);
	if (x->key.epilogue) snprintf(x->text + n, sizeof x->text - (size_t)n, ", with %s", name_of(x->key.epilogue));
}

/* ---- answers that are kept ---- */
enum { MOST = 1024 }; /* answers; then new ones replace the oldest */
typedef struct answer { rt_lt_key key; rt_lt_choice choice; int status; char text[sizeof ((rt_lt_call *)0)->text]; } answer;
static struct { pthread_mutex_t lock; answer *v; uint32_t n, next; } answers = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* NULL: there is none. The lock is held. */
static answer *known_answer(const rt_lt_key *k)
{
	for (uint32_t i = 0; i < answers.n; i++)
		if (memcmp(&answers.v[i].key, k, sizeof *k) == 0) return &answers.v[i];
	return NULL;
}

static bool recall(rt_lt_call *x, const rt_lt_call *plain, int *status)
{
	rt_lock(&answers.lock);
	const answer *a = known_answer(&x->key);
	if (a && plain && memcmp(&a->choice.algorithm, &plain->choice.algorithm, sizeof a->choice.algorithm) != 0) a = NULL;
	if (a) {
		x->choice = a->choice;
		memcpy(x->text, a->text, sizeof x->text);
		*status = a->status;
	}
	rt_unlock(&answers.lock);
	return a != NULL;
}

static void keep(const rt_lt_call *x, int status)
{
	rt_lock(&answers.lock);
	if (!answers.v) answers.v = rt_alloc(MOST * sizeof *answers.v);
	if (answers.v) {
		answer *const known = known_answer(&x->key), *const a = known ? known : &answers.v[answers.next];
		*a = (answer){ .key = x->key, .choice = x->choice, .status = status };
		memcpy(a->text, x->text, sizeof a->text);
		if (!known) answers.next = (answers.next + 1) % MOST;
		if (!known && answers.n < MOST) answers.n++;
	}
	rt_unlock(&answers.lock);
}

/* ---- one call ---- */
void rt_lt_choose(rt_lt_call *x, int option, double us, double first_us)
{
	x->choice = x->option[option];
	describe_choice(x);
	const size_t n = strlen(x->text);
	if (us > 0 && first_us > 0)
		snprintf(x->text + n, sizeof x->text - n, " (the fastest of %d that were timed: %.1f us; the heuristic's first: %.1f us)",
		         x->noption, us, first_us);
	x->noption = 1;
	keep(x, 0);
}

void rt_lt_weigh(rt_lt_call *x, double us, double apart_us)
{
	const size_t n = strlen(x->text);
	const bool apart = apart_us >= 0 && (us < 0 || apart_us < us);
	if (apart && us < 0)
		snprintf(x->text, sizeof x->text, "a kernel of its own computes %s: cuBLASLt refuses the call with it",
		         name_of(x->key.epilogue));
	else if (apart)
		snprintf(x->text, sizeof x->text, "a kernel of its own computes %s: product and kernel took %.1f us, one call %.1f us",
		         name_of(x->key.epilogue), apart_us, us);
	else if (apart_us >= 0) snprintf(x->text + n, sizeof x->text - n, "; one call took %.1f us, product and kernel %.1f us", us, apart_us);
	x->why = apart ? x->text : NULL;
	keep(x, apart ? RT_LT_NOT_SUPPORTED : 0);
}

static void refuse(rt_lt_call *x, int status)
{
	const int64_t e = x->key.epilogue;
	snprintf(x->text, sizeof x->text, "%s%s%scuBLASLt has no algorithm for it: %s", e ? "a kernel of its own computes " : "",
	         e ? name_of(e) : "", e ? ": " : "", x->lt->cublasLtGetStatusName(status));
	x->why = x->text;
}

rt_lt_call *rt_lt_call_new(const rt_lt *lt, void *handle, const rt_lt_key *key, const rt_lt_call *plain, rt_err *err)
{
	rt_lt_call *x = rt_calloc(sizeof *x);
	if (!x) {
		rt_fail(err, TJ_ERR_NOMEM, "matmul", "out of memory");
		return NULL;
	}
	x->lt = lt;
	x->key = *key;
	int status = describe(lt, x);
	if (status) refuse(x, status);
	else if (recall(x, plain, &status)) x->why = status ? x->text : NULL;
	else if ((status = plain ? check(lt, handle, x, plain) : ask(lt, handle, x))) {
		refuse(x, status);
		keep(x, status);
	} else if (x->noption == 1) rt_lt_choose(x, 0, 0, 0);
	return x;
}

void rt_lt_call_free(rt_lt_call *x)
{
	if (x->product) x->lt->cublasLtMatmulDescDestroy(x->product);
	void *const layout[] = { x->a, x->b, x->c };
	for (int i = 0; i < 3; i++)
		if (layout[i]) x->lt->cublasLtMatrixLayoutDestroy(layout[i]);
	rt_free(x);
}
