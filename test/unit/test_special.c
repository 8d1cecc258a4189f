/* SPDX-License-Identifier: MIT */
/* Special functions and windows: the rows of ops.def from erfc to i1e, gcd, lcm, and functions/special.c, functions/incomplete.c,
 * functions/polynomials.c. */
#define ROWS "test/unit/special.inc"
#include "test/unit/rows.h"

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS };
	KIT_RUN(tests);
}
