/* SPDX-License-Identifier: MIT */
/* loops: control flow that computes once, and only what is read. */
#ifndef TJ_LOWER_LOOPS_H
#define TJ_LOWER_LOOPS_H

#include "ir/ir.h"

bool lo_has_flow(const ir_graph *g);
/* Copies the graph. Changes no value. */
tj_status lo_loops(const ir_graph *from, ir_graph *to, rt_err *err);

#endif
