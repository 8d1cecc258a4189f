/* SPDX-License-Identifier: MIT */
/* dist: what the files of this folder share. */
#ifndef TJ_KIT_DIST_H
#define TJ_KIT_DIST_H

#include "kit/dist/transport.h"
#include "kit/kit.h"

#include <pthread.h>
#include <tjdist.h>

/* ---- jobs ---- */
typedef enum dist_kind {
	DIST_CLOSE,
	DIST_BARRIER,
	DIST_ALL_REDUCE,
	DIST_REDUCE_SCATTER,
	DIST_ALL_GATHER,
	DIST_BROADCAST,
	DIST_SEND,
	DIST_RECV
} dist_kind;

/* What ranks compare before data move. */
typedef struct dist_header {
	uint32_t kind, dtype, how, root; /* root: of a broadcast; of send and receive 0 */
	uint64_t bytes, number;          /* of x, where all ranks have the same; of the collective: from 0 */
	char site[96];                   /* "train.c:41" */
	char poison[DIST_WHY];           /* the rank has given up, and why; empty: it has not */
} dist_header;

typedef struct dist_job {
	struct dist_job *next;
	dist_header h;
	int peer; /* of send and receive */
	size_t in_bytes, out_bytes;
	int64_t ticket;
	bool done;
	char why[DIST_WHY]; /* empty: it went well */
	unsigned char *out; /* behind `in`, in the same block */
	unsigned char in[];
} dist_job;

struct tj_comm {
	tj_ctx *ctx;
	const dist_transport *transport;
	void *state, *library; /* of the transport; of dlopen() */
	int rank, size;
	pthread_t thread;
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	dist_job *first, *last; /* jobs in the order of their start; done ones stay until they are taken */
	dist_job *next;         /* the first one that is not done */
	int64_t tickets;
	bool opened, stop;
	bool registered;        /* host functions have it: it lives until the last tj_close(), so that they can say that it is closed */
	bool closed, forgotten; /* by tj_comm_close(); by the last tj_close() */
	char why[DIST_WHY];    /* why it is of no use any more; empty: it is fine */
	uint64_t number, sent; /* of the thread: collectives so far; bytes */
	int64_t function[16];  /* ops.c: numbers of host functions */
};

/* ---- comm.c ---- */
/* Puts a copy of x into the queue. NULL: out of memory. */
dist_job *dist_start(tj_comm *w, const dist_header *h, int peer, const void *x, size_t in_bytes, size_t out_bytes);
/* Waits for the job, copies its result and frees it. false: why says what went wrong. */
bool dist_finish(tj_comm *w, dist_job *j, void *out, char *why);
dist_job *dist_find(tj_comm *w, int64_t ticket); /* NULL: there is none, or it was taken */

void dist_forget(void *env); /* w is not called any more: the last tj_close() */

/* ---- ops.c ---- */
bool dist_register(const char *site, tj_comm *w); /* makes the host functions */

/* ---- collect.c ---- */
bool dist_run(tj_comm *w, dist_job *j); /* in the thread of w. false: j->why says why */
const char *dist_kind_name(uint32_t kind);

/* ---- reduce.c ---- */
static inline bool dist_sums(uint32_t how) { return how == TJ_REDUCE_SUM || how == TJ_REDUCE_MEAN; }
/* to = to (how) from, n elements; a mean is a sum. false: the dtype has no such reduction. */
bool dist_combine(tj_dtype t, uint32_t how, void *to, const void *from, size_t n);
void dist_divide(tj_dtype t, void *x, size_t n, int by);

#endif
