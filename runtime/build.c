/* SPDX-License-Identifier: MIT */
/* build: which build this is. The Makefile hashes all sources that decide on code. */
#include "runtime/store.h"

#include "build.inc"

const char *rt_build(void) { return RT_BUILD; }
