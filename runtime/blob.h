/* SPDX-License-Identifier: MIT */
/* blob: machine code as bytes, and how it gets into memory. A blob is code that imports nothing and may lie at any address that is a
 * multiple of RT_BLOB_ALIGN; its constants lie behind it. */
#ifndef TJ_RUNTIME_BLOB_H
#define TJ_RUNTIME_BLOB_H

#include "runtime/exec.h"

enum { RT_BLOB_ALIGN = 64 };
typedef struct rt_blob {
	const unsigned char *code;
	size_t bytes;        /* 0: there is none */
	uint32_t entry;      /* offset of the function */
	uint32_t debug_bytes; /* 0: tools are not told of it */
	const void *debug;   /* what they are told (debug.h) */
} rt_blob;
/* Copies n blobs into new memory and makes it executable, no longer writable. Sets code of each blob to a copy that lives as long, and fn.
 * The memory is freed with the last reference. Tools are told of it (tools.h); `debug` stays the caller's. NULL: err is set. */
rt_shared *rt_code_map(int n, rt_blob *blob, rt_entry *fn, rt_err *err);

/* The blob whose function is fn, among those that `code` has in memory; false: rt_code_map() did not make it, or it has no such function.
 */
bool rt_code_find(const rt_shared *code, rt_entry fn, rt_blob *blob);

#endif
