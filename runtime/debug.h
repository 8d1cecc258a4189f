/* SPDX-License-Identifier: MIT */
/* debug: what debuggers and profilers are told of a blob of code: the functions in it, the lines of C, and how to unwind. As bytes it is
 * kept beside the code, also on disk, so it is checked whole before it is used. */
#ifndef TJ_RUNTIME_DEBUG_H
#define TJ_RUNTIME_DEBUG_H

#include "runtime/base.h"

typedef struct rt_piece { /* a function */
	uint32_t at, bytes;      /* where it is in the blob */
	const char *name, *ops;  /* "tj_step_k0", "relu+add"; ops may be "" */
	const unsigned char *cfa; /* instructions of a DWARF frame description, after those of RT_DEBUG_CIE */
	uint32_t ncfa;           /* 0: how to unwind is not known */
} rt_piece;
typedef struct rt_line_row { uint32_t at, file, line; } rt_line_row; /* from byte `at` on, code is of that line; 0: of none */
typedef struct rt_debug {
	uint32_t npiece, nrow, nfile;
	rt_piece *piece;         /* by rising place; the first is the kernel */
	rt_line_row *row;             /* by rising place */
	const char **file;
} rt_debug;

void rt_debug_put(rt_text *out, const rt_debug *d); /* appends the bytes */
/* Reads the bytes of a blob of `code` bytes. The strings and cfa lie in `bytes`, which must live as long; the arrays are in mem. False:
 * they are damaged, or there is no memory. */
bool rt_debug_get(rt_arena *mem, const void *bytes, size_t n, size_t code, rt_debug *d);
/* The instructions are of the simple kinds that compiled code has: no expression, which would compute addresses. */
bool rt_cfa_is_simple(const unsigned char *cfa, size_t n);
/* Where a reader of code of `bytes` bytes finds a piece and its rows: d->row[*first .. *end). */
void rt_debug_rows(const rt_debug *d, const rt_piece *p, uint32_t *first, uint32_t *end);

#endif
