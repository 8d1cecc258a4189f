/* SPDX-License-Identifier: MIT */
/* tjdlpack.h - tensors for other libraries of the process, and theirs for tjit, without a copy: DLPack 1. Part of libtjkit.
 *
 *   DLManagedTensorVersioned *m = tj_to_dlpack(y);                 // for a consumer: NumPy, PyTorch, JAX, ...
 *   tj_tensor *x = tj_from_dlpack(c, theirs);                      // of a producer
 *   if (tj_is_poison(x)) theirs->deleter(theirs);                  // after an error it is still the caller's
 *
 * The structs are those of dlpack.h, in the same words; a program that includes that file, too, includes it before this one.
 *
 * Ownership.  A tensor that is exported lives until the deleter is called, once, by any thread, and before the last tj_close(). What is
 *   imported belongs to the tensor: the deleter is called by the thread that drops the last tensor over the memory, or not at all after an
 *   error. It must not call tjit.
 * Memory.  tjit never writes into memory that it shares, and trusts that nobody else does: what is exported has the flag for read-only
 *   memory; what is imported must not be written as long as the tensor is used.
 * Errors.  The current context keeps the first one; the function returns NULL or poison. */
#ifndef TJ_DLPACK_H
#define TJ_DLPACK_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_ /* dlpack.h has the same */
typedef struct { uint32_t major, minor; } DLPackVersion;
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType; /* others exist */
typedef struct { int32_t device_type /* of DLDeviceType */, device_id; } DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 } DLDataTypeCode; /* others exist */
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape, *strides; /* strides: in elements; NULL: row-major */
	uint64_t byte_offset;     /* from data to the first element */
} DLTensor;
typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
} DLManagedTensor;
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;
#endif

/* Version 1.0, row-major, on the CPU. A tensor that does not lie so, and a number, is copied, which the flags say. Not in a body. */
TJ_API DLManagedTensorVersioned *tj_to_dlpack_at(const char *site, tj_tensor *t);
/* For consumers that know no flags, and may write: always a copy. */
TJ_API DLManagedTensor *tj_to_dlpack_legacy_at(const char *site, tj_tensor *t);
/* A tensor over the memory, with its strides, in the innermost open scope of c, on the device that it has: the CPU, or a GPU of tjit.
 * Refused are another major version, vectors as elements (lanes), dtypes that tjit does not have, more than TJ_MAX_RANK axes, addresses
 * that are not aligned to an element, and bools that are not 0 or 1. Work of the producer on a GPU must be done. */
TJ_API tj_tensor *tj_from_dlpack_at(const char *site, tj_ctx *c, DLManagedTensorVersioned *m);
TJ_API tj_tensor *tj_from_dlpack_legacy_at(const char *site, tj_ctx *c, DLManagedTensor *m);
#define tj_to_dlpack(t) tj_to_dlpack_at(TJ_SITE, t)
#define tj_to_dlpack_legacy(t) tj_to_dlpack_legacy_at(TJ_SITE, t)
#define tj_from_dlpack(c, m) tj_from_dlpack_at(TJ_SITE, c, m)
#define tj_from_dlpack_legacy(c, m) tj_from_dlpack_legacy_at(TJ_SITE, c, m)

#ifdef __cplusplus
}
#endif
#endif
