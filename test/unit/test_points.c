/* SPDX-License-Identifier: MIT */
/* Parts of numbers and other functions of math.h and NumPy: functions/points.c. */
#include "test/unit/literals.h"

static tj_tensor *other; /* a further result */
static tj_tensor *second(tj_tensor *(*f)(const char *site, tj_tensor *x, tj_tensor **other), tj_tensor *x)
{
	return f("test/unit/points.inc:0", x, &other), other;
}

#define ROWS "test/unit/points.inc"
#include "test/unit/rows.h"

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS };
	KIT_RUN(tests);
}
