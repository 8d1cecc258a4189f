/* SPDX-License-Identifier: MIT */
/* tools: tells debuggers and profilers of code that was made at run time, if the environment asks for it.
 *
 *   TJ_PERF=map        names, for perf                     /tmp/perf-PID.map        perfmap.c
 *   TJ_PERF=jitdump    and code, lines, how to unwind      jit-PID.dump             jitdump.c
 *   TJ_GDB=1           an ELF file in memory               __jit_debug_descriptor   gdbjit.c
 *
 * With any of them the C library's unwinder is told, too (unwind.c). Without any nothing of this runs. */
#ifndef TJ_RUNTIME_TOOLS_H
#define TJ_RUNTIME_TOOLS_H

#include "runtime/debug.h"
#include "runtime/log.h"

enum { RT_TOOL_MAP = 1, RT_TOOL_JITDUMP = 2, RT_TOOL_GDB = 4 };
unsigned rt_tools(void); /* those that the environment asks for, when it is first called; 0: none */
void rt_tools_check(const rt_log_to *log); /* warns of values that it does not know */

/* Code that tools know. It is told once, after it is in its place, and forgotten before its memory is freed. */
typedef struct rt_told rt_told;
struct rt_told {
	rt_told *next, *prev;
	const unsigned char *code;
	size_t bytes;
	const rt_debug *debug;   /* in mem */
	rt_arena mem;
	struct rt_gdb_entry *gdb;
	bool unwound;
	void *frames;            /* unwind.c */
};
/* debug: as of rt_debug_put(); it is copied. unwound: the process's unwinder knows the code already. NULL: no tool asks, or there is no
 * memory; rt_forget() takes it. */
rt_told *rt_tell(const void *code, size_t bytes, const void *debug, size_t debug_bytes, bool unwound);
void rt_forget(rt_told *t);
/* A plug-in has its own copy of these functions, and tells through those of the library. */
typedef struct rt_teller {
	rt_told *(*tell)(const void *code, size_t bytes, const void *debug, size_t debug_bytes, bool unwound);
	void (*forget)(rt_told *t);
} rt_teller;
extern const rt_teller rt_own_teller;
void rt_tell_through(const rt_teller *t);

/* ---- toolfile.c ---- */
void rt_put_tool_name(rt_text *t, const rt_piece *p); /* "tj_step_k0:relu+add", without characters that end a line */
int rt_tool_file(const char *path, int flags); /* opens a new file or one of this user; -1: a warning was written */

/* The tools. Their functions are called one at a time. */
/* ---- perfmap.c ---- */
void rt_perfmap_add(const rt_told *t);
void rt_perfmap_forked(void);

/* ---- jitdump.c ---- */
void rt_jitdump_add(const rt_told *t);
void rt_jitdump_forked(void);

/* ---- gdbjit.c ---- */
void rt_gdb_add(rt_told *t);
void rt_gdb_remove(rt_told *t);

/* ---- unwind.c ---- */
void rt_unwind_add(rt_told *t);
void rt_unwind_remove(rt_told *t);

/* ---- frames.c ---- */
/* Appends .eh_frame of the pieces of code that lies at `code`; it ends with a zero word, and may lie anywhere. */
void rt_put_frames(rt_text *out, const rt_debug *d, uintptr_t code);
/* The same of one piece, whose code lies `before` bytes before what is appended: with relative addresses. */
void rt_put_piece_frames(rt_text *out, const rt_piece *p, size_t before);

/* ---- debugelf.c: an object file for gdb, rt_alloc'ed; NULL: out of memory ---- */
void *rt_debug_elf(const rt_told *t, size_t *bytes);

#endif
