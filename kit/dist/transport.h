/* SPDX-License-Identifier: MIT */
/* transport: what moves bytes between ranks. A plug-in exports tj_dist_transport(); collectives are made of exchange() alone. All of it is
 * called by one thread, the one that called open(). */
#ifndef TJ_KIT_TRANSPORT_H
#define TJ_KIT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

enum { DIST_NUMBER = 1, /* of this header; a plug-in of another one is refused */ DIST_WHY = 256 };

typedef struct dist_part {
	int peer;
	void *data;
	size_t bytes;
} dist_part;

typedef struct dist_transport {
	int number; /* DIST_NUMBER */
	void *(*open)(int *rank, int *size, char *why);
	/* All sends and receives at once; returns when all are done. Messages between two ranks arrive in the order in which they were
	 * sent. */
	bool (*exchange)(void *t, int nsend, const dist_part *send, int nrecv, const dist_part *recv, char *why);
	void (*close)(void *t);
} dist_transport;

typedef const dist_transport *dist_transport_fn(void); /* tj_dist_transport */

#endif
