/* SPDX-License-Identifier: MIT */
/* half: rounds to f16, bf16 and f32; results are float. */
#ifndef TJ_RUNTIME_HALF_H
#define TJ_RUNTIME_HALF_H

#include "runtime/base.h"

/* v, rounded once to the dtype t (f16, bf16 or f32). */
float rt_round_f(tj_dtype t, double v);
float rt_round_i(tj_dtype t, int64_t v);

#endif
