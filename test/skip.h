/* SPDX-License-Identifier: MIT */
/* A test that cannot run here prints the reason; test/run.sh shows the line. */
#ifndef TJ_TEST_SKIP_H
#define TJ_TEST_SKIP_H

#include <stdio.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#define SKIP(why) (printf("SKIP %s: %s\n", __func__, why), fflush(stdout), skip())

#endif
