/* SPDX-License-Identifier: MIT */
/* unwind: tells the unwinder of the process (libgcc_s, which backtrace(3) and exceptions use) how to unwind through generated code. */
#include "runtime/tools.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*add_frames)(void *frames), (*remove_frames)(void *frames);

/* The C library opens it, too, when backtrace() is first called. */
static void open_unwinder(void)
{
	void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL), *add = NULL, *take = NULL;
	if (library) add = dlsym(library, "__register_frame"), take = dlsym(library, "__deregister_frame");
	if (!add || !take) {
		rt_warn(NULL, "libgcc_s.so.1 is not there (package libgcc-s1); backtrace() ends at compiled code");
		return;
	}
	memcpy(&add_frames, &add, sizeof add);
	memcpy(&remove_frames, &take, sizeof take);
}

void rt_unwind_add(rt_told *t)
{
	rt_text frames = { 0 };
	bool any = false;
	for (uint32_t i = 0; i < t->debug->npiece; i++) any |= t->debug->piece[i].ncfa != 0;
	pthread_once(&once, open_unwinder);
	if (!any || !add_frames) return;
	rt_put_frames(&frames, t->debug, (uintptr_t)t->code);
	if (frames.oom) {
		rt_text_free(&frames);
		return;
	}
	t->frames = frames.s;
	add_frames(t->frames);
}

void rt_unwind_remove(rt_told *t)
{
	if (t->frames) remove_frames(t->frames);
	rt_free(t->frames);
	t->frames = NULL;
}
