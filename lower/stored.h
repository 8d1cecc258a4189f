/* SPDX-License-Identifier: MIT */
/* stored: the code of some kernels in the disk cache. */
#ifndef TJ_LOWER_STORED_H
#define TJ_LOWER_STORED_H

#include "lower/lower.h"

typedef struct lo_stored {
	rt_store *store;
	int n;
	const lo_kernel *const *kernel;
	rt_text key[]; /* of each kernel */
} lo_stored;
bool lo_own_build(const lo_backend *b); /* of the library's build: other processes may use its code */
/* For n kernels of one target. NULL: the disk cache is not used for them. */
lo_stored *lo_stored_open(rt_store *s, const lo_target *t, int n, const lo_kernel *const *k, const lo_schedule *const *how);
void lo_stored_close(lo_stored *x); /* x may be NULL */
/* Sets fn of each kernel whose code is there, and code to a reference that holds it; both are NULL of the others. Code that is in memory
 * for an equal kernel of another function is not read again. */
void lo_stored_load(lo_stored *x, rt_entry *fn, rt_shared **code);
/* of the i-th kernel, k: its code, which is at fn, for other functions and processes */
void lo_stored_keep(lo_stored *x, int i, const lo_kernel *k, const rt_blob *blob, rt_entry fn, rt_shared *code);

#endif
