/* SPDX-License-Identifier: MIT */
/* A test that cannot run here prints the reason; test/run.sh shows the line. */
#ifndef TJ_TEST_SKIP_H
#define TJ_TEST_SKIP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* `make check` and `make test` set TEST_SAMPLE: every third case of a long table runs, in `make test-all` each one. */
static inline bool left_out(unsigned long i) { return i % 3 && getenv("TEST_SAMPLE"); }

#define SKIP(why) (printf("SKIP %s: %s\n", __func__, why), fflush(stdout), skip())

#endif
