/* SPDX-License-Identifier: MIT */
/* Training on many ranks: gradients are summed in buckets while the rest of them is still computed; optimisers whose state is spread over
 * the ranks share what they have moved. */
#include "kit/nn/nn.h"

enum { FIRST_BUCKET = 1 << 20, BUCKET = 25 << 20 }; /* bytes, as PyTorch's DistributedDataParallel has them */

static int64_t bytes_of(const tj_tensor *t) { return tj_numel(t) * (int64_t)tj_dtype_size(tj_dtype_of(t)); }

int64_t nn_of_first(const char *site, tj_ctx *c, tj_comm *w, int64_t x, int64_t bad)
{
	if (!w) return x;
	tj_scope *s = tj_push(c);
	tj_tensor *t = tj_broadcast(w, tj_from_data_on(c, TJ_CPU, TJ_I64, TJ_0D, &x), 0);
	x = tj_is_poison(t) ? bad : tj_item_i(t);
	tj_pop(s);
	return x;
}

/* ---- several tensors of one dtype as one ---- */
/* n tensors, one behind the other, and zeros up to `length` elements. */
static tj_tensor *joined(const char *site, tj_tensor *const *t, int64_t n, tj_dtype dtype, int64_t length)
{
	tj_tensor **part = malloc((size_t)(n + 2) * sizeof *part), *all;
	int64_t used = 0, k = 0;
	if (!part) return tj_fail(TJ_ERR_NOMEM, "tjnn_optim_step", "", "out of memory");
	for (; k < n; k++) {
		part[k] = tj_reshape(t[k], TJ_SHAPE(-1));
		used += tj_numel(t[k]);
	}
	if (used < length) part[k++] = tj_full(dtype, TJ_SHAPE(length - used), tj_f(0));
	part[k] = TJ_END;
	all = k ? tj_cat(part, 0) : tj_full(dtype, TJ_SHAPE(0), tj_f(0));
	free(part);
	return all;
}

/* Elements from *at on, in the shape of `like`. */
static tj_tensor *apart(const char *site, tj_tensor *all, int64_t *at, tj_tensor *like)
{
	int64_t shape[TJ_MAX_RANK + 1];
	const int rank = tj_rank(like);
	const int64_t from = *at;
	for (int i = 0; i < rank; i++) shape[i] = tj_dim(like, i);
	shape[rank] = TJ_END_DIM;
	*at += tj_numel(like);
	return tj_reshape(tj_slice(all, 0, from, *at, 1), shape);
}

/* ---- gradients ---- */
typedef struct bucket {
	int64_t first, end, elements;
	tj_dtype dtype;
	tj_tensor *ticket;
} bucket; /* of the list from its end */

/* Gradients of the last parameters are there first. */
static int64_t fill_buckets(tj_tensor *const *g, int64_t n, int64_t most, bucket *b)
{
	int64_t count = 0, bytes = 0;
	for (int64_t i = 0; i < n; i++) {
		tj_tensor *t = g[n - 1 - i];
		const int64_t room = count > 1 ? most : most < FIRST_BUCKET ? most : FIRST_BUCKET;
		if (!count || bytes >= room || b[count - 1].dtype != tj_dtype_of(t)) {
			b[count++] = (bucket){ .first = i, .dtype = tj_dtype_of(t) };
			bytes = 0;
		}
		b[count - 1].end = i + 1;
		b[count - 1].elements += tj_numel(t);
		bytes += bytes_of(t);
	}
	return count;
}

bool nn_reduce_gradients(const char *site, tj_comm *w, tj_tensor **g, int64_t n, int64_t bucket_bytes)
{
	bucket *b = calloc((size_t)n + 1, sizeof *b);
	tj_tensor **list = malloc((size_t)(n + 1) * sizeof *list);
	const bool ok = b && list;
	const int64_t count = ok ? fill_buckets(g, n, bucket_bytes > 0 ? bucket_bytes : BUCKET, b) : 0;
	for (int64_t k = 0; k < count; k++) {
		for (int64_t i = b[k].first; i < b[k].end; i++) list[i - b[k].first] = g[n - 1 - i];
		tj_tensor *all = joined(site, list, b[k].end - b[k].first, b[k].dtype, 0);
		b[k].ticket = tj_all_reduce_start(w, all, TJ_REDUCE_SUM);
	}
	for (int64_t k = 0; k < count; k++) {
		int64_t at = 0;
		tj_tensor *all = tj_wait(w, b[k].ticket, b[k].dtype, TJ_SHAPE(b[k].elements));
		all = tj_div(all, tj_f((double)tj_comm_size(w)));
		for (int64_t i = b[k].first; i < b[k].end; i++) g[n - 1 - i] = apart(site, all, &at, g[n - 1 - i]);
	}
	free(b);
	free(list);
	if (!ok) tj_fail(TJ_ERR_NOMEM, "tjnn_optim_step", "", "out of memory");
	return ok;
}

/* ---- parameters that one rank has moved ---- */
void nn_find_owners(const tjnn_model *m, int ranks, int *owner)
{
	double all = 0, before = 0;
	for (int64_t i = 0; i < m->nparams; i++) all += (double)bytes_of(m->params[i]);
	for (int64_t i = 0; i < m->nparams; i++) {
		const double middle = before + (double)bytes_of(m->params[i]) / 2;
		owner[i] = all > 0 ? (int)(middle / all * ranks) : 0;
		before += (double)bytes_of(m->params[i]);
	}
}

/* Elements of this dtype that the rank has. */
static int64_t elements_of(const tjnn_model *m, const int *owner, int rank, tj_dtype t)
{
	int64_t n = 0;
	for (int64_t i = 0; i < m->nparams; i++)
		if (owner[i] == rank && tj_dtype_of(m->params[i]) == t) n += tj_numel(m->params[i]);
	return n;
}

bool nn_share_moved(const char *site, tj_comm *w, const tjnn_model *m, const int *owner, tj_tensor **moved)
{
	tj_tensor **own = malloc((size_t)(m->nparams + 1) * sizeof *own);
	if (!own) return tj_fail(TJ_ERR_NOMEM, "tjnn_optim_step", "", "out of memory"), false;
	for (tj_dtype t = TJ_F16; t <= TJ_F64; t++) {
		int64_t most = 0, n = 0;
		for (int r = 0; r < tj_comm_size(w); r++) {
			const int64_t each = elements_of(m, owner, r, t);
			if (each > most) most = each;
		}
		if (!most) continue;
		for (int64_t i = 0; i < m->nparams; i++)
			if (owner[i] == tj_comm_rank(w) && tj_dtype_of(m->params[i]) == t) own[n++] = moved[i];
		tj_tensor *all = tj_all_gather(w, joined(site, own, n, t, most));
		for (int r = 0; r < tj_comm_size(w); r++) {
			int64_t at = r * most;
			for (int64_t i = 0; i < m->nparams; i++)
				if (owner[i] == r && tj_dtype_of(m->params[i]) == t) moved[i] = apart(site, all, &at, m->params[i]);
		}
	}
	free(own);
	return true;
}
