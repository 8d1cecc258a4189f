/* SPDX-License-Identifier: MIT */
/* tjdist.h - many processes that compute together: collectives as ops of a graph. Part of libtjkit.
 *
 *   tj_comm *w = tj_comm_open(c, "mpi", NULL);                   // started by mpirun -n 4; "self": one process
 *   tj_tensor *y = tj_all_reduce(w, x, TJ_REDUCE_SUM);           // in the body of a compiled function, or outside
 *   ...
 *   tj_comm_close(w);
 *
 * Order.  Collectives of a call are host calls (tj_host_call() of <tj.h>): they run in the order of their lines, each once. All ranks must
 *   ask for the same ones, in the same order, with the same shapes. Before data move the ranks compare what each asks for; a difference is
 *   an error on all of them that names both ops and lines, never a hang. Afterwards the communicator is of no use, except to be closed.
 * Bits.  Sums are made in the order of the ranks, ((0 + x0) + x1) + ..., in the dtype of the tensor, whatever the number of elements: so
 *   they are the same on all ranks, and equal to those of one process that adds the same tensors one by one.
 * Two steps.  tj_all_reduce_start() returns at once; a thread of the communicator moves the data while the plan goes on, until
 *   tj_wait().
 * Gradients.  Those of sums and means, gathers and scatters are collectives, too. There are none of products, maxima, minima, send and
 *   receive, nor of the two steps. In callbacks (tj_vmap(), tj_scan(), ...) all of them are refused.
 * Ends.  A rank that dies ends the job: mpirun ends the others. Start it again from the last checkpoint, also with another number of ranks.
 * Threads.  A communicator belongs to the context that it was opened with, and to its clones; one call at a time may use it. */
#ifndef TJ_DIST_H
#define TJ_DIST_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tj_comm tj_comm;

typedef struct tj_comm_opts {
	size_t size;
	const char *plugin; /* path of the plug-in; NULL: libtj-NAME.so beside the library, in tjit/ there, or as the loader finds it */
} tj_comm_opts;

/* name: "mpi" (Open MPI), "mpi-abi" (any MPI with the standard ABI of MPI 5, as MPICH 5), or "self" for one process that is rank 0 of 1.
 * Opens the plug-in and MPI, which can be opened once in a process. NULL on error. Close it before the last tj_close(); what was
 * compiled with it fails afterwards. */
TJ_API tj_comm *tj_comm_open_at(const char *site, tj_ctx *c, const char *name, const tj_comm_opts *opts);
/* Waits until all ranks close. NULL is fine. An error if the ranks differ. */
TJ_API tj_status tj_comm_close_at(const char *site, tj_comm *w);
TJ_API int tj_comm_rank(const tj_comm *w);  /* 0 .. size - 1; of NULL 0 */
TJ_API int tj_comm_size(const tj_comm *w);  /* of NULL 1 */
TJ_API uint64_t tj_comm_bytes(const tj_comm *w); /* sent by this rank so far, without headers */

/* x of all ranks, element by element; of x's shape. how: tj_reduction of <tj.h>; a mean of floats only. bool: as u8. */
TJ_API tj_tensor *tj_all_reduce_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how);
/* The same, but rank r has part r of the result along axis 0, which all ranks divide. */
TJ_API tj_tensor *tj_reduce_scatter_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how);
/* x of all ranks, one behind the other along axis 0. */
TJ_API tj_tensor *tj_all_gather_at(const char *site, tj_comm *w, tj_tensor *x);
/* x of rank root; the others pass a tensor of its type. */
TJ_API tj_tensor *tj_broadcast_at(const char *site, tj_comm *w, tj_tensor *x, int root);
/* To another rank, which receives it. The result of send is a number that says nothing; it need not be used. */
TJ_API tj_tensor *tj_send_at(const char *site, tj_comm *w, tj_tensor *x, int to);
TJ_API tj_tensor *tj_recv_at(const char *site, tj_comm *w, tj_dtype dtype, tj_dims shape, int from);
/* Ends when all ranks have come here. Outside of compiled functions, or as a host call in one. */
TJ_API tj_status tj_barrier_at(const char *site, tj_comm *w);
#define tj_comm_open(c, name, opts) tj_comm_open_at(TJ_SITE, c, name, opts)
#define tj_comm_close(w) tj_comm_close_at(TJ_SITE, w)
#define tj_all_reduce(w, x, how) tj_all_reduce_at(TJ_SITE, w, x, how)
#define tj_reduce_scatter(w, x, how) tj_reduce_scatter_at(TJ_SITE, w, x, how)
#define tj_all_gather(w, x) tj_all_gather_at(TJ_SITE, w, x)
#define tj_broadcast(w, x, root) tj_broadcast_at(TJ_SITE, w, x, root)
#define tj_send(w, x, to) tj_send_at(TJ_SITE, w, x, to)
#define tj_recv(w, dtype, shape, from) tj_recv_at(TJ_SITE, w, dtype, shape, from)
#define tj_barrier(w) tj_barrier_at(TJ_SITE, w)

/* In two steps: *ticket is for tj_wait(), once, in the same call. */
TJ_API tj_tensor *tj_all_reduce_start_at(const char *site, tj_comm *w, tj_tensor *x, tj_reduction how); /* the ticket, i64 [] */
TJ_API tj_tensor *tj_all_gather_start_at(const char *site, tj_comm *w, tj_tensor *x);
TJ_API tj_tensor *tj_wait_at(const char *site, tj_comm *w, tj_tensor *ticket, tj_dtype dtype, tj_dims shape); /* of the result */
#define tj_all_reduce_start(w, x, how) tj_all_reduce_start_at(TJ_SITE, w, x, how)
#define tj_all_gather_start(w, x) tj_all_gather_start_at(TJ_SITE, w, x)
#define tj_wait(w, ticket, dtype, shape) tj_wait_at(TJ_SITE, w, ticket, dtype, shape)

/* For layers that are cut into parts, one for each rank (Shoeybi and others, "Megatron-LM", 2019). to_ranks: x itself, whose gradients are
 * summed over the ranks. from_ranks: the sum of all x, whose gradient goes to each of them as it is. */
TJ_API tj_tensor *tj_to_ranks_at(const char *site, tj_comm *w, tj_tensor *x);
TJ_API tj_tensor *tj_from_ranks_at(const char *site, tj_comm *w, tj_tensor *x);
#define tj_to_ranks(w, x) tj_to_ranks_at(TJ_SITE, w, x)
#define tj_from_ranks(w, x) tj_from_ranks_at(TJ_SITE, w, x)

#ifdef __cplusplus
}
#endif
#endif
