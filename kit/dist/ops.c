/* SPDX-License-Identifier: MIT */
/* Collectives as host calls. What a call needs to know beside x comes as numbers behind it: the reduction or rank, and the address of its
 * line, which is a text of the program. */
#include "kit/dist/dist.h"

#include <stdio.h>

typedef enum which {
	ALL_REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	BROADCAST,
	SEND,
	RECV,
	BARRIER,
	START_REDUCE,
	START_GATHER,
	WAIT,
	TO_RANKS,
	FROM_RANKS,
	OF_BROADCAST,
	FUNCTIONS
} which;
_Static_assert(FUNCTIONS <= 16, "tj_comm.function");

/* ---- what host calls get ---- */
static int64_t number(const tj_host_value *v) { return *(const int64_t *)v->data; }

/* in: x, the reduction or rank, the line. */
static dist_header header(dist_kind kind, const tj_host_value *in)
{
	dist_header h = { .kind = kind, .dtype = in[0].dtype, .bytes = in[0].bytes };
	const char *site = (const char *)(uintptr_t)number(&in[2]);
	snprintf(h.site, sizeof h.site, "%s", site ? site : "?");
	if (kind == DIST_ALL_REDUCE || kind == DIST_REDUCE_SCATTER) h.how = (uint32_t)number(&in[1]);
	if (kind == DIST_BROADCAST) h.root = (uint32_t)number(&in[1]);
	return h;
}

static bool closed(const tj_comm *w, char *why)
{
	if (w->closed) snprintf(why, TJ_HOST_WHY, "the communicator is closed");
	return w->closed;
}

static tj_status told(bool ok) { return ok ? TJ_OK : TJ_ERR_STATE; }

static tj_status run(tj_comm *w, dist_kind kind, const tj_host_value *in, const tj_host_value *out, char *why)
{
	dist_header h = header(kind, in);
	if (closed(w, why)) return TJ_ERR_STATE;
	if (kind == DIST_RECV) h.bytes = out->bytes, h.dtype = out->dtype;
	const size_t in_bytes = kind == DIST_RECV || kind == DIST_BARRIER ? 0 : in[0].bytes;
	const size_t out_bytes = kind == DIST_SEND || kind == DIST_BARRIER ? 0 : out->bytes;
	if (kind == DIST_BARRIER) h.bytes = 0;
	dist_job *j = dist_start(w, &h, (int)number(&in[1]), in[0].data, in_bytes, out_bytes);
	if (!j) return snprintf(why, TJ_HOST_WHY, "out of memory"), TJ_ERR_NOMEM;
	if (kind == DIST_SEND || kind == DIST_BARRIER) memset(out->data, 0, out->bytes);
	return told(dist_finish(w, j, out->data, why));
}

#define FUNCTION(name, kind) \
	static tj_status name(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why) \
	{ \
		(void)nin; \
		return run(env, kind, in, out, why); \
	}
FUNCTION(all_reduce, DIST_ALL_REDUCE)
FUNCTION(reduce_scatter, DIST_REDUCE_SCATTER)
FUNCTION(all_gather, DIST_ALL_GATHER)
FUNCTION(broadcast, DIST_BROADCAST)
FUNCTION(send, DIST_SEND)
FUNCTION(recv, DIST_RECV)
FUNCTION(barrier, DIST_BARRIER)

static tj_status start(tj_comm *w, dist_kind kind, const tj_host_value *in, const tj_host_value *out, char *why)
{
	const dist_header h = header(kind, in);
	if (closed(w, why)) return TJ_ERR_STATE;
	const size_t bytes = kind == DIST_ALL_GATHER ? in[0].bytes * (size_t)w->size : in[0].bytes;
	dist_job *j = dist_start(w, &h, 0, in[0].data, in[0].bytes, bytes);
	if (!j) return snprintf(why, TJ_HOST_WHY, "out of memory"), TJ_ERR_NOMEM;
	*(int64_t *)out->data = j->ticket;
	return TJ_OK;
}
static tj_status start_reduce(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)nin;
	return start(env, DIST_ALL_REDUCE, in, out, why);
}
static tj_status start_gather(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)nin;
	return start(env, DIST_ALL_GATHER, in, out, why);
}

static tj_status wait_for(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	tj_comm *w = env;
	(void)nin;
	if (closed(w, why)) return TJ_ERR_STATE;
	dist_job *j = dist_find(w, number(&in[0]));
	if (!j) return snprintf(why, TJ_HOST_WHY, "there is no such ticket, or it was used before"), TJ_ERR_ARG;
	if (j->out_bytes != out->bytes)
		return snprintf(why, TJ_HOST_WHY, "the result has %zu bytes, %zu are asked for", j->out_bytes, out->bytes), TJ_ERR_SHAPE;
	if (j->h.dtype != (uint32_t)out->dtype)
		return snprintf(why, TJ_HOST_WHY, "the result is %s, %s is asked for", tj_dtype_name((tj_dtype)j->h.dtype),
		                tj_dtype_name(out->dtype)),
		       TJ_ERR_DTYPE;
	return told(dist_finish(w, j, out->data, why));
}

/* ---- gradients ---- */
static tj_status copied(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	(void)env, (void)nin, (void)why;
	memcpy(out->data, in[0].data, out->bytes);
	return TJ_OK;
}

/* A reduction's gradient is the same reduction of the gradients. */
static tj_status of_all_reduce(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	if (dist_sums((uint32_t)number(&in[1]))) return all_reduce(env, nin, in, out, why);
	return snprintf(why, TJ_HOST_WHY, "products, maxima and minima over ranks have no gradient"), TJ_ERR_STATE;
}
static tj_status of_reduce_scatter(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	const tj_comm *w = env;
	if (!dist_sums((uint32_t)number(&in[1]))) return of_all_reduce(env, nin, in, out, why);
	const tj_status st = all_gather(env, nin, in, out, why);
	if (st == TJ_OK && number(&in[1]) == TJ_REDUCE_MEAN)
		dist_divide(out->dtype, out->data, out->bytes / tj_dtype_size(out->dtype), w->size);
	return st;
}
/* Root's x went to all ranks. */
static tj_status of_broadcast(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why)
{
	const tj_comm *w = env;
	const int64_t sum = TJ_REDUCE_SUM;
	tj_host_value at[3] = { in[0], in[1], in[2] };
	at[1].data = (void *)(uintptr_t)&sum;
	const tj_status st = all_reduce(env, nin, at, out, why);
	if (st == TJ_OK && number(&in[1]) != w->rank) memset(out->data, 0, out->bytes);
	return st;
}

static bool add(const char *site, tj_comm *w, which i, const char *name, tj_host_fn *f, int64_t gradient, bool early)
{
	w->function[i] = tj_host_function(w->ctx, name, f, TJ_OPTS(tj_host_opts, .env = w, .gradient = gradient, .early = early));
	return w->function[i] != 0;
}

bool dist_register(const char *site, tj_comm *w)
{
	const int64_t g_reduce = tj_host_function(w->ctx, "all_reduce", of_all_reduce, TJ_OPTS(tj_host_opts, .env = w));
	const int64_t g_scatter = tj_host_function(w->ctx, "reduce_scatter", of_reduce_scatter, TJ_OPTS(tj_host_opts, .env = w));
	const int64_t g_gather = tj_host_function(w->ctx, "all_gather", reduce_scatter, TJ_OPTS(tj_host_opts, .env = w));
	const int64_t g_copy = tj_host_function(w->ctx, "from_ranks", copied, NULL);
	return g_reduce && g_scatter && g_gather && g_copy && add(site, w, OF_BROADCAST, "broadcast", of_broadcast, 0, false) &&
	       add(site, w, ALL_REDUCE, "all_reduce", all_reduce, g_reduce, false) &&
	       add(site, w, REDUCE_SCATTER, "reduce_scatter", reduce_scatter, g_scatter, false) &&
	       add(site, w, ALL_GATHER, "all_gather", all_gather, g_gather, false) &&
	       add(site, w, BROADCAST, "broadcast", broadcast, w->function[OF_BROADCAST], false) &&
	       add(site, w, SEND, "send", send, 0, false) && add(site, w, RECV, "recv", recv, 0, false) &&
	       add(site, w, BARRIER, "barrier", barrier, 0, false) && add(site, w, START_REDUCE, "all_reduce", start_reduce, 0, true) &&
	       add(site, w, START_GATHER, "all_gather", start_gather, 0, true) && add(site, w, WAIT, "wait", wait_for, 0, false) &&
	       add(site, w, TO_RANKS, "to_ranks", copied, g_reduce, false) &&
	       add(site, w, FROM_RANKS, "from_ranks", all_reduce, g_copy, false) &&
	       (w->registered = tj_host_function(w->ctx, "comm", copied, TJ_OPTS(tj_host_opts, .env = w, .free = dist_forget)));
}

/* ---- ops ---- */
static tj_tensor *bad_operand(const char *site, const char *op, const tj_comm *w, const tj_tensor *x)
{
	if (!w) return tj_fail(TJ_ERR_ARG, op, "did tj_comm_open() fail?", "no communicator");
	if (!x || tj_rank(x) < 0) return x && tj_is_poison(x) ? (tj_tensor *)(uintptr_t)x : tj_fail(TJ_ERR_ARG, op, "", "x is no tensor");
	return NULL;
}

static tj_tensor *bad_rank(const char *site, const char *op, const tj_comm *w, int rank, bool other)
{
	if (rank >= 0 && rank < w->size && !(other && rank == w->rank)) return NULL;
	return tj_fail(TJ_ERR_ARG, op, other ? "another rank, from 0 on" : "from 0 on", "rank %d of %d", rank, w->size);
}

typedef struct sizes {
	int64_t dim[TJ_MAX_RANK + 1];
} sizes;
static sizes shape_of(const tj_tensor *x)
{
	sizes s;
	const int n = tj_rank(x);
	for (int i = 0; i < n; i++) s.dim[i] = tj_dim(x, i);
	s.dim[n] = TJ_END_DIM;
	return s;
}

static tj_tensor *call(const char *site, const tj_comm *w, which f, tj_dtype dtype, tj_dims dims, tj_tensor *x, int64_t more)
{
	return tj_host_call(dtype, dims, w->function[f], TJ_LIST(x, tj_i(more), tj_i((int64_t)(uintptr_t)site)));
}

static tj_tensor *same_shape(const char *site, const char *op, const tj_comm *w, which f, tj_tensor *x, int64_t more)
{
	tj_tensor *bad = bad_operand(site, op, w, x);
	if (bad) return bad;
	const sizes s = shape_of(x);
	return call(site, w, f, tj_dtype_of(x), s.dim, x, more);
}

static tj_tensor *bad_reduction(const char *site, const char *op, tj_tensor *x, tj_reduction how)
{
	if ((unsigned)how > TJ_REDUCE_AMIN) return tj_fail(TJ_ERR_ARG, op, "", "no kind of tj_reduction");
	if (how == TJ_REDUCE_MEAN && x && tj_rank(x) >= 0 && tj_dtype_of(x) < TJ_F16)
		return tj_fail(TJ_ERR_DTYPE, op, "cast it, or take the sum", "a mean of %s", tj_dtype_name(tj_dtype_of(x)));
	return NULL;
}

tj_tensor *tj_all_reduce_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how)
{
	tj_tensor *bad = bad_reduction(site, "all_reduce", x, how);
	return bad ? bad : same_shape(site, "all_reduce", w, ALL_REDUCE, x, how);
}

tj_tensor *tj_reduce_scatter_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how)
{
	tj_tensor *bad = bad_operand(site, "reduce_scatter", w, x);
	if (bad || (bad = bad_reduction(site, "reduce_scatter", x, how))) return bad;
	if (tj_rank(x) < 1 || tj_dim(x, 0) % w->size)
		return tj_fail(TJ_ERR_SHAPE, "reduce_scatter", "pad it", "axis 0 of x is no multiple of %d ranks", w->size);
	sizes s = shape_of(x);
	s.dim[0] /= w->size;
	return call(site, w, REDUCE_SCATTER, tj_dtype_of(x), s.dim, x, how);
}

static tj_tensor *gather(const char *site, tj_comm *w, tj_tensor *x, bool whole)
{
	tj_tensor *bad = bad_operand(site, "all_gather", w, x);
	if (bad) return bad;
	if (tj_rank(x) < 1) return tj_fail(TJ_ERR_SHAPE, "all_gather", "tj_unsqueeze(x, 0)", "x has no axis");
	sizes s = shape_of(x);
	s.dim[0] *= w->size;
	return whole ? call(site, w, ALL_GATHER, tj_dtype_of(x), s.dim, x, 0) : call(site, w, START_GATHER, TJ_I64, TJ_0D, x, 0);
}
tj_tensor *tj_all_gather_at(const char *site, tj_comm *w, tj_tensor *x) { return gather(site, w, x, true); }
tj_tensor *tj_all_gather_start_at(const char *site, tj_comm *w, tj_tensor *x) { return gather(site, w, x, false); }

tj_tensor *tj_broadcast_at(const char *site, tj_comm *w, tj_tensor *x, int root)
{
	tj_tensor *bad = w ? bad_rank(site, "broadcast", w, root, false) : NULL;
	return bad ? bad : same_shape(site, "broadcast", w, BROADCAST, x, root);
}

tj_tensor *tj_send_at(const char *site, tj_comm *w, tj_tensor *x, int to)
{
	tj_tensor *bad = bad_operand(site, "send", w, x);
	if (bad || (bad = bad_rank(site, "send", w, to, true))) return bad;
	return call(site, w, SEND, TJ_I64, TJ_0D, x, to);
}

tj_tensor *tj_recv_at(const char *site, tj_comm *w, tj_dtype dtype, tj_dims shape, int from)
{
	if (!w) return tj_fail(TJ_ERR_ARG, "recv", "did tj_comm_open() fail?", "no communicator");
	tj_tensor *bad = bad_rank(site, "recv", w, from, true);
	return bad ? bad : call(site, w, RECV, dtype, shape, tj_i(0), from);
}

tj_status tj_barrier_at(const char *site, tj_comm *w)
{
	if (!w) return tj_fail(TJ_ERR_ARG, "barrier", "did tj_comm_open() fail?", "no communicator"), TJ_ERR_ARG;
	return tj_is_poison(call(site, w, BARRIER, TJ_I64, TJ_0D, tj_i(0), 0)) ? TJ_ERR_STATE : TJ_OK;
}

tj_tensor *tj_all_reduce_start_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how)
{
	tj_tensor *bad = bad_operand(site, "all_reduce", w, x);
	if (bad || (bad = bad_reduction(site, "all_reduce", x, how))) return bad;
	return call(site, w, START_REDUCE, TJ_I64, TJ_0D, x, how);
}

tj_tensor *tj_wait_at(const char *site, tj_comm *w, tj_tensor *ticket, tj_dtype dtype, tj_dims shape)
{
	tj_tensor *bad = bad_operand(site, "wait", w, ticket);
	return bad ? bad : tj_host_call(dtype, shape, w->function[WAIT], TJ_LIST(ticket));
}

tj_tensor *tj_to_ranks_at(const char *site, tj_comm *w, tj_tensor *x)
{
	return same_shape(site, "to_ranks", w, TO_RANKS, x, TJ_REDUCE_SUM);
}
tj_tensor *tj_from_ranks_at(const char *site, tj_comm *w, tj_tensor *x)
{
	return same_shape(site, "from_ranks", w, FROM_RANKS, x, TJ_REDUCE_SUM);
}
