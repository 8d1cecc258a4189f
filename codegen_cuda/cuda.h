/* SPDX-License-Identifier: MIT */
/* cuda: NVIDIA GPUs, as the rest of the library sees them. */
#ifndef TJ_CODEGEN_CUDA_CUDA_H
#define TJ_CODEGEN_CUDA_CUDA_H

#include "lower/target.h"

const lo_target *cu_target(int gpu, int arch); /* of GPU 0, 1 ...; arch: 90 for sm_90 */
const char *cu_open(void); /* adds the devices cuda:0 ...; NULL, or what is missing. For rt_device_on_demand() */
bool cu_recall(lo_compile *job);                             /* without NVRTC: from the disk cache; false: something is not there */
const lo_backend *cu_find(const char *name, const char **why); /* opens NVRTC; NULL: *why says what is missing */

#endif
