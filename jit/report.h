/* SPDX-License-Identifier: MIT */
/* report: what TJ_REPORT keeps while an engine lives, and writes when it ends. */
#ifndef TJ_JIT_REPORT_H
#define TJ_JIT_REPORT_H

#include "jit/ctx.h"
#include "jit/note.h"

/* reportfile.c. e->report may be NULL: nothing is kept, and nothing is written. */
struct jit_reporting *jit_report_new(const char *path); /* "%p" in path becomes the number of the process. NULL: out of memory */
void jit_report_keep(tj_fn *f);            /* f is about to be freed: writes down what there is to say */
void jit_report_settings(const tj_ctx *c); /* c is about to be freed */
void jit_report_end(jit_engine *e);        /* the engine is about to be freed: writes the file */

#endif
