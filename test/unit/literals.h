/* SPDX-License-Identifier: MIT */
/* Tensors of literals, for tables of tests; c is the context. */
#ifndef TJ_TEST_LITERALS_H
#define TJ_TEST_LITERALS_H

#include "test/kit.h"

#include <math.h>

#define LIT(dtype, ctype, shape, ...) tj_from_data(c, dtype, shape, (ctype[]){ __VA_ARGS__ })
#define FS(shape, ...) LIT(TJ_F32, float, shape, __VA_ARGS__)
#define DS(shape, ...) LIT(TJ_F64, double, shape, __VA_ARGS__)
#define IS(shape, ...) LIT(TJ_I64, int64_t, shape, __VA_ARGS__)
#define WS(shape, ...) LIT(TJ_I32, int32_t, shape, __VA_ARGS__)
#define BS(shape, ...) LIT(TJ_BOOL, uint8_t, shape, __VA_ARGS__)
#define S TJ_SHAPE

#endif
