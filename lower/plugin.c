/* SPDX-License-Identifier: MIT */
/* plugin: the plug-ins that compile kernels, opened when something must be compiled. */
#include "lower/target.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define PLUGIN "libtj-llvm.so"
#define ROOM 160 /* MiB of address space that must be free: when LLVM gets no memory, it ends the process */
#define LEVELS 3 /* how many parent directories are searched for the plug-in, for programs in a build tree */

typedef const lo_backend *entry(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const lo_backend *llvm;
static char why_not[256];
static atomic_bool ending; /* true while the process exits: LLVM's own handlers follow */

static void end(void) { atomic_store(&ending, true); }
bool lo_backend_gone(void) { return atomic_load_explicit(&ending, memory_order_relaxed); }

/* Keeps the first reason: that a file exists but cannot be loaded says more than that another path does not exist. */
static void note_error(void)
{
	const char *e = dlerror();
	if (!*why_not) snprintf(why_not, sizeof why_not, "llvm: %s", e ? e : PLUGIN " not found");
}

static void *open_in(const char *dir, size_t n)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof path, "%.*s/" PLUGIN, (int)n, dir);
	if (len <= 0 || (size_t)len >= sizeof path || access(path, F_OK)) return NULL;
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) note_error();
	return h;
}

/* Beside the library or the executable that holds this function, then in the directories above it. */
static void *open_beside(void)
{
	Dl_info info;
	char self[PATH_MAX];
	void *here = NULL, *h = NULL;
	const lo_backend *(*f)(const char *, const char **) = lo_backend_find;
	memcpy(&here, &f, sizeof here);
	if (!dladdr(here, &info) || !info.dli_fname || !realpath(info.dli_fname, self)) return NULL;
	size_t n = strlen(self);
	for (int up = 0; !h && up <= LEVELS; up++) {
		while (n > 0 && self[n - 1] != '/') n--;
		if (n <= 1) break;
		h = open_in(self, --n);
	}
	return h;
}

static void open_llvm(void)
{
	if (!rt_has_room((size_t)ROOM << 20)) {
		snprintf(why_not, sizeof why_not, "llvm: not enough address space for LLVM (%d MiB)", ROOM);
		return;
	}
	void *h = open_beside();
	if (!h) h = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		note_error();
		return;
	}
	void *f = dlsym(h, "tj_llvm_backend");
	entry *get = NULL;
	memcpy(&get, &f, sizeof f);
	const lo_backend *b = get ? get() : NULL;
	if (b && b->abi != LO_ABI) b = NULL;
	if (b && b->use_gate) b->use_gate(rt_fork_enter, rt_fork_leave); /* the plug-in has its own copy of the run time, with another gate */
	const char *missing = b && b->missing ? b->missing() : NULL;
	if (b && !missing && !atexit(end)) llvm = b; /* runs before LLVM's own exit handlers, which were registered earlier */
	else snprintf(why_not, sizeof why_not, "llvm: %s", missing ? missing : PLUGIN " has another version than this library");
}

const lo_backend *lo_backend_find(const char *name, const char **why)
{
	if (strcmp(name, "llvm")) {
		if (why) *why = "no such back end";
		return NULL;
	}
	if (lo_backend_gone()) {
		if (why) *why = "the process ends";
		return NULL;
	}
	rt_fork_enter(); /* no fork() while it opens: a child finds it open, or not begun */
	pthread_once(&once, open_llvm);
	rt_fork_leave();
	if (!llvm && why) *why = why_not;
	return llvm;
}
