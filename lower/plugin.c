/* SPDX-License-Identifier: MIT */
/* plugin: the plug-ins that compile kernels, opened when something must be compiled. */
#include "lower/target.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN "libtj-llvm.so"
#define ROOM 160 /* MiB of address space that must be free: when LLVM gets no memory, it ends the process */
#define LEVELS 3 /* how many parent directories are searched for the plug-in: programs in a build tree, PREFIX/bin */

typedef const lo_backend *entry(void);

/* Where the plug-in is in a directory: in a build tree, beside an installed library, and below the prefix of an installed program. */
static const char *const places[] = { "", "/tjit", "/lib/tjit", "/lib64/tjit", "/lib/x86_64-linux-gnu/tjit" };
/* For programs that have the library in themselves, and are elsewhere. */
static const char *const prefixes[] = { "/usr/local", "/usr" };

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

/* owner: of the library, who must own the plug-in unless root does: a directory above may belong to everybody. */
static void *open_in(const char *dir, size_t n, uid_t owner)
{
	void *h = NULL;
	for (size_t i = 0; !h && i < sizeof places / sizeof *places; i++) {
		char path[PATH_MAX];
		struct stat st;
		const int len = snprintf(path, sizeof path, "%.*s%s/" PLUGIN, (int)n, dir, places[i]);
		if (len <= 0 || (size_t)len >= sizeof path || stat(path, &st) || (st.st_uid && st.st_uid != owner)) continue;
		h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!h) note_error();
	}
	return h;
}

/* The path of the library or the executable that holds this function. The loader knows the executable by argv[0] only, which is what the
 * caller of the program chose. */
static bool find_self(char self[PATH_MAX])
{
	Dl_info info;
	void *here = NULL;
	struct link_map *map = NULL;
	const lo_backend *(*f)(const char *, const char **) = lo_backend_find;
	memcpy(&here, &f, sizeof here);
	if (!dladdr1(here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
	return realpath(map->l_name && *map->l_name ? map->l_name : "/proc/self/exe", self);
}

/* Beside the library or the executable, then in the directories above it. */
static void *open_beside(void)
{
	char self[PATH_MAX];
	struct stat st;
	void *h = NULL;
	if (!find_self(self) || stat(self, &st)) return NULL;
	size_t n = strlen(self);
	for (int up = 0; !h && up <= LEVELS; up++) {
		while (n > 0 && self[n - 1] != '/') n--;
		if (n <= 1) break;
		h = open_in(self, --n, st.st_uid);
	}
	return h;
}

static void *open_any(void)
{
	void *h = open_beside();
	if (!h) h = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
	if (!h) note_error();
	for (size_t i = 0; !h && i < sizeof prefixes / sizeof *prefixes; i++) h = open_in(prefixes[i], strlen(prefixes[i]), 0);
	return h;
}

/* NULL and why_not if it was made for another library: what is in it is not looked at then. */
static const lo_backend *backend_of(void *h)
{
	const uint64_t *number = dlsym(h, "tj_llvm_number");
	struct link_map *map = NULL;
	const char *path = !dlinfo(h, RTLD_DI_LINKMAP, &map) && map ? map->l_name : PLUGIN;
	if (!number || number[0] != TJ_VERSION_NUMBER || number[1] != LO_ABI) {
		const uint64_t v = number ? number[0] : 0;
		snprintf(why_not, sizeof why_not, "llvm: %.120s has version %d.%d.%d%s, and this library needs that of its own build, %s", path,
		         (int)(v / 1000000), (int)(v / 1000 % 1000), (int)(v % 1000), v == TJ_VERSION_NUMBER ? " of another build" : "", TJ_VERSION);
		return NULL;
	}
	void *f = dlsym(h, "tj_llvm_backend");
	entry *get = NULL;
	memcpy(&get, &f, sizeof f);
	return get ? get() : NULL;
}

static void open_llvm(void)
{
	if (!rt_has_room((size_t)ROOM << 20)) {
		snprintf(why_not, sizeof why_not, "llvm: not enough address space for LLVM (%d MiB)", ROOM);
		return;
	}
	void *h = open_any();
	const lo_backend *b = h ? backend_of(h) : NULL;
	if (!b) return;
	if (b->use_gate) b->use_gate(rt_fork_enter, rt_fork_leave); /* the plug-in has its own copy of the run time, with another gate */
	const char *missing = b->missing ? b->missing() : NULL;
	if (!missing && !atexit(end)) llvm = b; /* runs before LLVM's own exit handlers, which were registered earlier */
	else snprintf(why_not, sizeof why_not, "llvm: %s", missing ? missing : "no memory");
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
