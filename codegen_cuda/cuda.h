/* cuda: NVIDIA GPUs, as the rest of the library sees them. */
#ifndef TJ_CODEGEN_CUDA_CUDA_H
#define TJ_CODEGEN_CUDA_CUDA_H

#include "lower/target.h"

extern const lo_target cu_target;
const lo_backend *cu_find(const char *name, const char **why); /* opens NVRTC; NULL: *why says what is missing */

#endif
