/* SPDX-License-Identifier: MIT */
/* report: what TJ_REPORT keeps while an engine lives, and writes when it ends. */
#ifndef TJ_JIT_REPORT_H
#define TJ_JIT_REPORT_H

#include "jit/ctx.h"
#include "jit/note.h"

/* reportfile.c. e->report may be NULL: nothing is kept, and nothing is written. */
/* "%p" in path becomes the number of the process. NULL: out of memory. */
struct jit_reporting *jit_report_new(jit_engine *e, const char *path);
void jit_report_plan(tj_fn *f, jit_plan *p); /* p was made: keeps it as data, with its texts. What runs at exit must not use LLVM */
void jit_report_keep(tj_fn *f);            /* f is about to be freed: writes down what there is to say */
void jit_report_settings(const tj_ctx *c); /* c is about to be freed */
void jit_report_end(jit_engine *e);        /* the engine is about to be freed: writes the file */

#endif
