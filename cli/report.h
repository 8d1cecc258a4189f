/* SPDX-License-Identifier: MIT */
/* report: dumps of TJ_REPORT (docs/REPORT.md). */
#ifndef TJ_CLI_REPORT_H
#define TJ_CLI_REPORT_H

#include "cli/cli.h"

/* reportcheck.c */
bool report_is_whole(const char *path, const char *dump); /* false: the user was told what is wrong with it */

#endif
