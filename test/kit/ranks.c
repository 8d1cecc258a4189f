/* SPDX-License-Identifier: MIT */
/* What test/ranks.sh runs with 1, 2 and 4 ranks:
 *   ranks check            every collective, its values, gradients, bits
 *   ranks differ N         the ranks ask for other things: each must get an error
 *   ranks die              rank 1 ends in the middle
 * It prints lines "ok NAME" or "FAILED NAME" for rank 0, and for the others only what failed. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tjdist.h>
#include <tjnn.h>
#include <unistd.h>

static int rank, size, failures;
static tj_comm *w;

static void verdict(bool ok, const char *name)
{
	if (!ok) failures++;
	if (!ok)
		printf("FAILED %s on rank %d\n", name, rank);
	else if (!rank)
		printf("ok %s\n", name);
	fflush(stdout);
}

static bool is(tj_tensor *t, int64_t n, double (*want)(int64_t i))
{
	if (tj_is_poison(t) || tj_numel(t) != n) return false;
	const double *v = tj_data(tj_cast(t, TJ_F64));
	for (int64_t i = 0; i < n; i++)
		if (v[i] != want(i)) return printf("element %d is %.17g, not %.17g\n", (int)i, v[i], want(i)), false;
	return true;
}

/* Rank r has x[i] = (r + 1) * (i + 1). */
static tj_tensor *mine(tj_dtype t, int64_t n)
{
	double v[64];
	for (int64_t i = 0; i < n; i++) v[i] = (double)((rank + 1) * (i + 1));
	return tj_cast(tj_from_data(tj_ctx_current(), TJ_F64, TJ_SHAPE(n), v), t);
}
static double all_of(int n) { return n * (n + 1) / 2.; }
static double sum_of(int64_t i) { return (double)(i + 1) * all_of(size); }
static double mean_of(int64_t i) { return sum_of(i) / size; }
static double most_of(int64_t i) { return (double)(i + 1) * size; }
static double least_of(int64_t i) { return (double)(i + 1); }
static double part_of_sum(int64_t i) { return sum_of(rank * 5 + i); }
static double gathered(int64_t i) { return (double)((i / 5 + 1) * (i % 5 + 1)); }
static double of_last(int64_t i) { return (double)(size * (i + 1)); }
static double of_before(int64_t i) { return (double)(((rank + size - 1) % size + 1) * (i + 1)); }

static void check_dtypes(void)
{
	static const tj_dtype of[] = { TJ_U8, TJ_I8, TJ_I16, TJ_I32, TJ_I64, TJ_F16, TJ_BF16, TJ_F32, TJ_F64 };
	for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
		char name[40];
		snprintf(name, sizeof name, "all_reduce of %s", tj_dtype_name(of[k]));
		tj_tensor *x = mine(of[k], 11);
		verdict(is(tj_all_reduce(w, x, TJ_REDUCE_SUM), 11, sum_of) && is(tj_all_reduce(w, x, TJ_REDUCE_AMAX), 11, most_of) &&
		                is(tj_all_reduce(w, x, TJ_REDUCE_AMIN), 11, least_of) &&
		                (of[k] < TJ_F16 || is(tj_all_reduce(w, x, TJ_REDUCE_MEAN), 11, mean_of)),
		        name);
	}
	verdict(is(tj_all_reduce(w, mine(TJ_F32, 1), TJ_REDUCE_SUM), 1, sum_of), "fewer elements than ranks");
	verdict(tj_numel(tj_all_reduce(w, tj_zeros(TJ_F32, TJ_SHAPE(0)), TJ_REDUCE_SUM)) == 0, "no elements");
}

/* The others, outside of compiled functions. */
static void check_each(void)
{
	verdict(is(tj_reduce_scatter(w, mine(TJ_F32, 5 * size), TJ_REDUCE_SUM), 5, part_of_sum), "reduce_scatter");
	verdict(is(tj_all_gather(w, mine(TJ_F32, 5)), 5 * size, gathered), "all_gather");
	verdict(is(tj_broadcast(w, mine(TJ_I32, 5), size - 1), 5, of_last), "broadcast");
	verdict(tj_barrier(w) == TJ_OK, "barrier");
	if (size == 1) return;
	const int to = (rank + 1) % size, from = (rank + size - 1) % size;
	tj_tensor *y = NULL;
	if (rank % 2 == 0) tj_send(w, mine(TJ_F32, 7), to);
	y = tj_recv(w, TJ_F32, TJ_SHAPE(7), from);
	if (rank % 2) tj_send(w, mine(TJ_F32, 7), to);
	verdict(is(y, 7, of_before), "send and recv");
}

/* ---- in a compiled function, with gradients ---- */
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0], *s = tj_all_reduce(w, tj_square(x), TJ_REDUCE_SUM);
	tj_tensor *ticket = tj_all_reduce_start(w, x, TJ_REDUCE_MEAN), *loss = tj_sum(s, TJ_ALL, false), *g;
	tj_tensor *parts = tj_sum(tj_square(tj_all_gather(w, x)), TJ_ALL, false), *h;
	tj_grad(&g, loss, TJ_LIST(x), NULL);
	tj_grad(&h, parts, TJ_LIST(x), NULL);
	out[0] = tj_wait(w, ticket, TJ_F32, TJ_SHAPE(5));
	out[1] = g;
	out[2] = h;
	out[3] = tj_from_ranks(w, tj_mul(tj_to_ranks(w, x), tj_f(2)));
	tj_grad(&out[4], tj_sum(tj_mul(out[3], x), TJ_ALL, false), TJ_LIST(x), NULL);
}
static double of_loss(int64_t i) { return (double)(2 * size * (rank + 1) * (i + 1)); }
static double twice_sum(int64_t i) { return 2 * sum_of(i); }

static void check_compiled(tj_ctx *c)
{
	tj_tensor *out[5];
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "body", .nin = 1, .nout = 5));
	for (int i = 0; i < 4; i++) {
		tj_scope *s = tj_push(c);
		if (tj_call(f, out, TJ_LIST(mine(TJ_F32, 5))) != TJ_OK) tj_perror(c, stdout);
		verdict(is(out[0], 5, mean_of), "in two steps");
		verdict(is(out[1], 5, of_loss), "gradient of all_reduce");
		verdict(is(out[2], 5, of_loss), "gradient of all_gather");
		verdict(is(out[3], 5, twice_sum), "from_ranks");
		tj_pop(s);
	}
}

/* ---- layers that are cut: values and gradients of the whole ones ---- */
typedef struct pair {
	tjnn_parallel up, down;
	tjnn_linear whole_up, whole_down;
	tjnn_model *cut, *whole;
} pair;
enum { IN = 5, HIDDEN = 8, OUT = 3 };
static void cut_layers(tjnn_walk *l, void *self)
{
	pair *p = self;
	tjnn_columns_layer(l, "up", &p->up, w, IN, HIDDEN, true);
	tjnn_rows_layer(l, "down", &p->down, w, HIDDEN, OUT, true);
}
static void whole_layers(tjnn_walk *l, void *self)
{
	pair *p = self;
	tjnn_linear_layer(l, "up", &p->whole_up, IN, HIDDEN, true);
	tjnn_linear_layer(l, "down", &p->whole_down, HIDDEN, OUT, true);
}
/* out: twice the result, the gradient by x, and by this rank's part of the weights */
static void both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	pair *p = self;
	const int64_t own = HIDDEN / size;
	tj_tensor *y = tjnn_parallel_apply(&p->down, tj_tanh(tjnn_parallel_apply(&p->up, in[0])));
	tj_tensor *z = tjnn_linear_apply(&p->whole_down, tj_tanh(tjnn_linear_apply(&p->whole_up, in[0]))), *g[3];
	tj_grad(out, tj_sum(tj_square(y), TJ_ALL, false), TJ_LIST(in[0], p->up.weight, p->down.weight), NULL);
	tj_grad(g, tj_sum(tj_square(z), TJ_ALL, false), TJ_LIST(in[0], p->whole_up.weight, p->whole_down.weight), NULL);
	g[1] = tj_slice(g[1], 0, rank * own, (rank + 1) * own, 1);
	g[2] = tj_slice(g[2], 1, rank * own, (rank + 1) * own, 1);
	for (int i = 0; i < 3; i++) out[i] = tj_amax(tj_abs(tj_sub(out[i], g[i])), TJ_ALL, false);
	out[3] = tj_amax(tj_abs(tj_sub(y, z)), TJ_ALL, false);
}

static void check_parallel(tj_ctx *c)
{
	static const char *const name[] = { "gradient by x", "gradient of columns", "gradient of rows", "columns and rows" };
	pair p = { .cut = NULL };
	tj_tensor *out[4];
	p.cut = tjnn_open(c, cut_layers, &p, TJ_OPTS(tjnn_open_opts, .seed = 3, .dtype = TJ_F64));
	p.whole = tjnn_open(c, whole_layers, &p, TJ_OPTS(tjnn_open_opts, .seed = 3, .dtype = TJ_F64));
	tj_tensor *x = tj_sin(tj_reshape(tj_arange(TJ_F64, 0, 4 * IN, 1), TJ_SHAPE(4, IN)));
	if (!p.cut ||
	    tj_call(tj_compile(c, both, &p, TJ_OPTS(tj_compile_opts, .name = "both", .nin = 1, .nout = 4)), out, TJ_LIST(x)) != TJ_OK) {
		verdict(false, "layers that are cut");
		return;
	}
	for (int i = 0; i < 4; i++) verdict(tj_item(out[i]) < 1e-14, name[i]);
	tjnn_close(p.cut);
	tjnn_close(p.whole);
}

/* ---- bits: the sum of one process that adds the same tensors in the order of the ranks ---- */
static void check_bits(tj_ctx *c)
{
	enum { N = 100003 };
	float *v = malloc(N * sizeof *v), *sum = calloc(N, sizeof *sum);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < N; i++) sum[i] += (float)sin(i * 0.37 + r) * powf(10, (float)((i + r) % 7 - 3));
	for (int i = 0; i < N; i++) v[i] = (float)sin(i * 0.37 + rank) * powf(10, (float)((i + rank) % 7 - 3));
	tj_tensor *y = tj_all_reduce(w, tj_from_data(c, TJ_F32, TJ_SHAPE(N), v), TJ_REDUCE_SUM);
	verdict(!tj_is_poison(y) && !memcmp(tj_data(y), sum, N * sizeof *sum), "bits of a sum");
	free(v);
	free(sum);
}

static int check(tj_ctx *c)
{
	check_dtypes();
	check_each();
	check_compiled(c);
	check_bits(c);
	if (HIDDEN % size == 0) check_parallel(c);
	verdict(tj_is_poison(tj_all_reduce(w, mine(TJ_I32, 2), TJ_REDUCE_MEAN)) && tj_check(c) == TJ_ERR_DTYPE,
	        "a mean of integers is refused");
	verdict(tj_is_poison(tj_send(w, mine(TJ_I32, 2), rank)) && tj_check(c) == TJ_ERR_ARG, "a message to itself is refused");
	tj_tensor *ticket = tj_all_reduce_start(w, mine(TJ_F32, 4), TJ_REDUCE_SUM);
	verdict(tj_is_poison(tj_wait(w, ticket, TJ_F64, TJ_SHAPE(2))) && tj_check(c) == TJ_ERR_DTYPE, "another dtype than that of the ticket");
	verdict(!tj_is_poison(tj_wait(w, ticket, TJ_F32, TJ_SHAPE(4))) && tj_check(c) == TJ_OK, "the ticket is good after that");
	verdict(tj_comm_rank(NULL) == 0 && tj_comm_size(NULL) == 1 && tj_comm_bytes(NULL) == 0, "no communicator is one process");
	if (tj_check(c) != TJ_OK) tj_perror(c, stdout), failures++;
	return failures != 0;
}

static void summing(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_all_reduce(w, in[0], TJ_REDUCE_SUM); }

/* A function may be called after its communicator was closed: it says so. */
static int close_early(tj_ctx *c)
{
	tj_fn *f = tj_compile(c, summing, NULL, TJ_OPTS(tj_compile_opts, .name = "summing", .nin = 1, .nout = 1));
	tj_call1(f, TJ_LIST(mine(TJ_F32, 4)));
	if (tj_comm_close(w) != TJ_OK) tj_check(c), tj_perror(c, stdout), failures++;
	verdict(tj_check(c) == TJ_OK, "closing");
	const bool poison = tj_is_poison(tj_call1(f, TJ_LIST(mine(TJ_F32, 4))));
	verdict(poison && tj_check(c) == TJ_ERR_STATE && strstr(tj_last_error(c)->message, "is closed"), "a call after the close");
	w = NULL;
	return failures != 0;
}

/* Rank 1 does something else than the others; what is printed begins with the rank. */
static int differ(tj_ctx *c, int how)
{
	tj_tensor *x = mine(TJ_F32, rank == 1 && how == 0 ? 6 : 5);
	if (rank == 1 && how == 1)
		tj_all_gather(w, x);
	else if (rank == 1 && how == 2)
		tj_recv(w, TJ_F32, TJ_SHAPE(5), 0);
	else if (rank == 1 && how == 3)
		tj_all_reduce(w, x, TJ_REDUCE_AMAX);
	else if (!(rank == 1 && how == 4))
		tj_all_reduce(w, x, TJ_REDUCE_SUM); /* 4: rank 1 has one less */
	if (how == 4) tj_barrier(w);
	tj_status st = tj_check(c);
	if (st == TJ_OK) tj_comm_close(w), st = tj_check(c), w = NULL;
	printf("rank %d: %s: %s\n", rank, tj_strerror(st), st == TJ_OK ? "" : tj_last_error(c)->message);
	return st == TJ_OK;
}

static int die(void)
{
	if (rank == 1) raise(SIGKILL);
	tj_all_reduce(w, mine(TJ_F32, 5), TJ_REDUCE_SUM);
	printf("rank %d goes on\n", rank);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "check";
	tj_ctx *c = tj_open(NULL);
	w = tj_comm_open(c, getenv("RANKS_TRANSPORT") ? getenv("RANKS_TRANSPORT") : "mpi", NULL);
	if (!w) return tj_check(c), tj_perror(c, stdout), 1;
	rank = tj_comm_rank(w);
	size = tj_comm_size(w);
	int rc = !strcmp(mode, "check") ? check(c) | close_early(c) : !strcmp(mode, "differ") ? differ(c, atoi(argv[2])) : die();
	if (w && tj_comm_close(w) != TJ_OK && !strcmp(mode, "check")) tj_check(c), tj_perror(c, stdout), rc = 1;
	tj_close(c);
	return rc;
}
