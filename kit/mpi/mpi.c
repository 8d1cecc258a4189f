/* SPDX-License-Identifier: MIT */
/* The plug-ins for MPI: libtj-mpi.so, which is opened when a communicator of the name "mpi" is, and libtj-mpi-abi.so, for "mpi-abi", over
 * any MPI that has the standard ABI. One thread of the process calls MPI. */
#include "kit/dist/transport.h"

#ifdef TJ_MPI_ABI
#include "kit/mpi/abi.h"
#else
#include <mpi.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 7, PIECE = 1 << 30 /* bytes of a message; MPI counts in int */ };

typedef struct state {
	MPI_Comm comm;
	MPI_Request *request;
	int room;
	bool opened;
} state;

static bool failed(int rc, const char *what, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "?";
	int n;
	if (rc == MPI_SUCCESS) return false;
	MPI_Error_string(rc, text, &n);
	snprintf(why, DIST_WHY, "%s: %.200s", what, text);
	return true;
}

static void *mpi_open(int *rank, int *size, char *why)
{
	int was, level, finalized;
#ifdef TJ_MPI_ABI
	if (!load_mpi(why, DIST_WHY)) return NULL;
#endif
	state *s = calloc(1, sizeof *s);
	if (!s) return snprintf(why, DIST_WHY, "out of memory"), NULL;
	MPI_Finalized(&finalized);
	MPI_Initialized(&was);
	if (finalized) return snprintf(why, DIST_WHY, "MPI was closed before, and can be opened once in a process"), free(s), NULL;
	if (!was && failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", why)) return free(s), NULL;
	if (was) {
		MPI_Query_thread(&level);
		if (level < MPI_THREAD_SERIALIZED)
			return snprintf(why, DIST_WHY, "the program has opened MPI without MPI_THREAD_SERIALIZED"), free(s), NULL;
	}
	s->opened = !was;
	if (failed(MPI_Comm_dup(MPI_COMM_WORLD, &s->comm), "MPI_Comm_dup", why)) return free(s), NULL;
	MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(s->comm, rank);
	MPI_Comm_size(s->comm, size);
	return s;
}

static bool make_room(state *s, int n, char *why)
{
	if (n <= s->room) return true;
	MPI_Request *more = realloc(s->request, (size_t)n * sizeof *more);
	if (!more) return snprintf(why, DIST_WHY, "out of memory"), false;
	s->request = more;
	s->room = n;
	return true;
}

/* Posts a part in pieces; *n counts requests. */
static bool post(state *s, const dist_part *p, bool send, int *n, char *why)
{
	for (size_t at = 0; at < p->bytes; at += PIECE) {
		const int bytes = p->bytes - at < PIECE ? (int)(p->bytes - at) : PIECE;
		char *data = (char *)p->data + at;
		if (!make_room(s, *n + 1, why)) return false;
		const int rc = send ? MPI_Isend(data, bytes, MPI_BYTE, p->peer, TAG, s->comm, &s->request[*n])
		                    : MPI_Irecv(data, bytes, MPI_BYTE, p->peer, TAG, s->comm, &s->request[*n]);
		if (failed(rc, send ? "MPI_Isend" : "MPI_Irecv", why)) return false;
		++*n;
	}
	return true;
}

/* Looks again and again, but leaves the core to the plan more and more. */
static bool finish(state *s, int n, char *why)
{
	for (int done = 0, turn = 0;; turn++) {
		if (failed(MPI_Testall(n, s->request, &done, MPI_STATUSES_IGNORE), "MPI_Testall", why)) return false;
		if (done) return true;
		if (turn > 50) nanosleep(&(struct timespec){ .tv_nsec = turn < 1000 ? 5000 : 100000 }, NULL);
	}
}

static bool mpi_exchange(void *t, int nsend, const dist_part *send, int nrecv, const dist_part *recv, char *why)
{
	state *s = t;
	int n = 0;
	bool ok = true;
	for (int i = 0; ok && i < nrecv; i++) ok = post(s, &recv[i], false, &n, why);
	for (int i = 0; ok && i < nsend; i++) ok = post(s, &send[i], true, &n, why);
	return ok && finish(s, n, why);
}

static void mpi_close(void *t)
{
	state *s = t;
	MPI_Comm_free(&s->comm);
	if (s->opened) MPI_Finalize();
	free(s->request);
	free(s);
}

__attribute__((visibility("default"))) const dist_transport *tj_dist_transport(void);
const dist_transport *tj_dist_transport(void)
{
	static const dist_transport t = { DIST_NUMBER, mpi_open, mpi_exchange, mpi_close };
	return &t;
}
