/* SPDX-License-Identifier: MIT */
/* A graph from its text, for tests of passes; the test fails when the text does not parse. */
#ifndef TEST_PARSED_H
#define TEST_PARSED_H

#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline ir_graph parsed(const char *text)
{
	ir_graph g;
	rt_err err = { 0 };
	ir_graph_init(&g);
	if (ir_parse(&g, text, &err) != TJ_OK) fail_msg("%s", err.message);
	return g;
}

#endif
