/* SPDX-License-Identifier: MIT */
/* log: writes the lines of the topics that TJ_LOG names. */
#ifndef TJ_RUNTIME_LOG_H
#define TJ_RUNTIME_LOG_H

#include "runtime/base.h"

/* The one table of topics. */
#define RT_LOG_MAP(X)                                                     \
	X(GRAPH,      "graph",      "each graph as it is compiled")           \
	X(GUARDS,     "guards",     "each guard as it is installed")          \
	X(RECOMPILES, "recompiles", "why a call was traced again")             \
	X(FUSION,     "fusion",     "which ops became one kernel")                 \
	X(KERNELS,    "kernels",    "kernel IR")                              \
	X(CODE,       "code",       "LLVM text")                              \
	X(PLAN,       "plan",       "steps and memory of each plan")          \
	X(CACHE,      "cache",      "entries made and evicted")               \
	X(DYNAMIC,    "dynamic",    "sizes that became arguments of code")     \
	X(PERF,       "perf",       "time of each phase of a compile") \
	X(LIBRARY,    "library",    "each call of oneDNN and cuBLASLt, and what cuBLASLt says of itself")

typedef enum rt_topic {
#define X(NAME, text, doc) RT_LOG_##NAME,
	RT_LOG_MAP(X)
#undef X
	RT_LOG_COUNT
} rt_topic;

enum { RT_LOG_NAME = 64 }; /* bytes of the name of a function in a line */
typedef struct rt_log_to {
	uint32_t topics; /* one bit for each rt_topic */
	char only[RT_LOG_NAME]; /* only lines of this function are written; "": of all functions */
	void (*to)(void *self, const char *line);
	void *self;
} rt_log_to;

/* "graph,guards"; "@name": only lines of that function; "help" prints the list */
bool rt_log_parse(rt_log_to *l, const char *topics, rt_err *err);
static inline bool rt_logs(const rt_log_to *l, rt_topic t) { return l && l->topics >> t & 1; }
void rt_log(const rt_log_to *l, rt_topic t, const char *fmt, ...) RT_PRINTF(3, 4); /* a line, without newline */
void rt_warn(const rt_log_to *l, const char *fmt, ...) RT_PRINTF(2, 3); /* written whatever the topics are; l NULL: to stderr */
void rt_log_text(const rt_log_to *l, rt_topic t, const char *where, const char *text); /* writes each line of text as "[where] line" */

#endif
