/* SPDX-License-Identifier: MIT */
/* gdbjit: gdb's interface for code that is made at run time ("JIT Interface" in gdb's manual): a list of object files in memory. gdb has a
 * breakpoint in __jit_debug_register_code(), and reads the list when that is called, or when it attaches. LLDB does the same. */
#include "runtime/tools.h"

struct rt_gdb_entry { /* gdb's jit_code_entry */
	struct rt_gdb_entry *next, *prev;
	const char *file;
	uint64_t bytes;
};
enum { NO_ACTION, REGISTER, UNREGISTER };
struct descriptor { /* gdb's jit_descriptor */
	uint32_t version, action;
	struct rt_gdb_entry *relevant, *first;
};

/* gdb looks for these two names in each file of the process. They are weak: a program that has a compiler of its own in it, as LLVM, may
 * define them, too, and then both share one list. */
#define SHARED __attribute__((weak, visibility("protected")))
SHARED extern struct descriptor __jit_debug_descriptor;
SHARED struct descriptor __jit_debug_descriptor = { 1, NO_ACTION, NULL, NULL };
SHARED void __jit_debug_register_code(void);
SHARED __attribute__((noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }

static void act(uint32_t action, struct rt_gdb_entry *e)
{
	struct descriptor *d = &__jit_debug_descriptor;
	d->action = action;
	d->relevant = e;
	__jit_debug_register_code();
	d->action = NO_ACTION;
	d->relevant = NULL;
}

void rt_gdb_add(rt_told *t)
{
	struct descriptor *d = &__jit_debug_descriptor;
	struct rt_gdb_entry *e = rt_calloc(sizeof *e);
	size_t bytes = 0;
	void *file = e ? rt_debug_elf(t, &bytes) : NULL;
	if (!file) {
		rt_free(e);
		return;
	}
	*e = (struct rt_gdb_entry){ .next = d->first, .file = file, .bytes = bytes };
	if (e->next) e->next->prev = e;
	d->first = t->gdb = e;
	act(REGISTER, e);
}

void rt_gdb_remove(rt_told *t)
{
	struct descriptor *d = &__jit_debug_descriptor;
	struct rt_gdb_entry *e = t->gdb;
	if (e->next) e->next->prev = e->prev;
	if (e->prev) e->prev->next = e->next;
	else d->first = e->next;
	act(UNREGISTER, e);
	rt_free((void *)(uintptr_t)e->file);
	rt_free(e);
	t->gdb = NULL;
}
