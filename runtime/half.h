/* half: values that are held as float, rounded to the dtype that they are stored in. */
#ifndef TJ_RUNTIME_HALF_H
#define TJ_RUNTIME_HALF_H

#include "runtime/base.h"

/* v rounded once to f16, bf16 or f32, as a float. */
float rt_round_f(tj_dtype t, double v);
float rt_round_i(tj_dtype t, int64_t v);

#endif
