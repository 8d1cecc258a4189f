/* SPDX-License-Identifier: MIT */
/* tjrt: runs models that `tj compile` made into an object file. A program links the object and libtjrt.a, and nothing else of tjit.
 *
 * The header that belongs to the object has functions with the model's own names and types; they call the functions below. A model has no
 * state of its own and no heap: what it needs besides inputs and outputs is the workspace. So several threads may run it at a time, each
 * with a workspace of its own, and several models may be in one program. It runs on the thread that calls it. */
#ifndef TJRT_H
#define TJRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	TJRT_OK,
	TJRT_SIZES,              /* a size is not among those that the model was made for */
	TJRT_CPU,                /* the model has no code for this CPU */
	TJRT_FAULT,              /* a division by zero, or an index out of range; see tjrt_site() */
	TJRT_DATA                /* this is no model, or one of another version of tjrt */
};
/* data, code: the two arrays of the object. sizes: of the model's symbols, in their order. */
/* bytes of workspace that a run at these sizes needs, aligned to 64; 0: such a run is not possible */
size_t tjrt_workspace_bytes(const void *data, const int64_t *sizes);
/* in: the inputs, row-major. out: where the results go, row-major; they overlap nothing else. number: the bits of the model's numbers, of a
 * double or of an int64_t. Returns TJRT_OK, or what is wrong; then out is undefined. */
int tjrt_run(const void *data, const void *code, const int64_t *sizes, const void *const *in, const uint64_t *number, void *const *out,
             void *workspace);
const char *tjrt_site(const void *data, const void *workspace); /* after TJRT_FAULT: the line of the source that found it, "net.c:12" */
const char *tjrt_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
