/* SPDX-License-Identifier: MIT */
/* note: what the user is told: messages, decisions, the texts of a plan. */
#ifndef TJ_JIT_NOTE_H
#define TJ_JIT_NOTE_H

#include "jit/fn.h"

/* note.c: messages to the log, to the user's functions and for tj_explain() */
enum { JIT_WHERE = 160 };
/* writes "f/0.2/1", at most JIT_WHERE bytes; segment -1: none */
char *jit_where(char *to, const tj_fn *f, const jit_entry *e, int segment);
/* A message without a place: expected and found are "", numbers are -1. The caller adds what is known. */
tj_reason jit_new_reason(const char *fn, const char *kind, const char *site, const char *hint, const char *text);
void jit_reason(tj_fn *f, const tj_reason *r);               /* .on_recompile */
void jit_note(tj_fn *f, rt_topic topic, const tj_reason *n); /* .on_note */
void jit_tell(tj_fn *f, rt_topic topic, const tj_reason *n); /* the same, but not kept for tj_explain() */
/* writes both with as many digits as make them differ */
void jit_put_numbers(char *was, char *is, size_t room, bool is_int, uint64_t before, uint64_t now);

/* decision.c: what was compiled */
/* reports what was compiled; the caller holds no lock */
void jit_tell_segment(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p);
void jit_put_decisions(tj_fn *f, const jit_plan *p, rt_text *t); /* a line each */
void jit_each_decision(tj_fn *f, const jit_plan *p, lo_tell *see, void *self); /* what is seen lives until see returns */
const char *jit_decision_kind(const lo_note *n); /* "fusion" */
void jit_put_decision(const lo_note *n, rt_text *t); /* what comes behind "softmax at a.c:7 " */
void jit_put_boundary(const jit_node *b, const jit_plan *p, rt_text *t); /* what the boundary cost; nothing at a return */

const char *jit_way_around(int op); /* what to do instead of an event that is a boundary */

/* explain.c */
/* The events of a segment up to its boundary b, by number; the caller frees the list. NULL: no memory. */
const jit_node **jit_events_of(const jit_node *b);
void jit_put_attr(const jit_node *n, int k, rt_text *t); /* attribute k of an event: a dtype and a device by name */
void jit_put_operand(const jit_node *n, int k, rt_text *t); /* "%3", "ext0", "float1" */

/* dump.c */
const lo_opts *jit_again(tj_fn *f, const jit_plan *p, lo_opts *o); /* options to lower the graph of p once more as it was lowered */
void jit_put_plan(tj_fn *f, const jit_plan *p, tj_dump_what what, rt_text *t); /* any dump but the trace */
void jit_log_plan(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p); /* the log, and a folder of TJ_DUMP */

/* report.c */
typedef struct jit_room { /* of texts in a report */
	bool texts;              /* there are some; false: nothing is compiled */
	bool kept;               /* of plans the data that TJ_REPORT has kept is taken, where there is some */
	size_t each, left;       /* bytes: the most of one text; of all together, what is left */
} jit_room;
/* Appends an object. Takes the locks of f. */
void jit_report_fn(tj_fn *f, jit_room *room, rt_json *j);
/* Appends the plan as data. A kernel is compiled once more for its texts. */
void jit_report_lowered(tj_fn *f, const jit_plan *p, jit_room *room, rt_json *j, const char *key);

/* symbols.c */
void jit_put_general(tj_fn *f, const jit_general *g, rt_text *t);

#endif
