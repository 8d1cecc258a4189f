/* A test that cannot run here says why; test/run.sh shows the line. */
#ifndef TJ_TEST_SKIP_H
#define TJ_TEST_SKIP_H

#include <stdio.h>

#define SKIP(why) (printf("SKIP %s: %s\n", __func__, why), fflush(stdout), skip())

#endif
