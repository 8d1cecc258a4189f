/* SPDX-License-Identifier: MIT */
/* toolkit: opens libraries of the CUDA toolkit by name: first in the folder TJ_CUDA_PATH (a toolkit, or a folder that has the `nvidia` of
 * Python wheels), then where the system's loader looks. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>

static void *open_in(const char *path, const char *folder, const char *name)
{
	char file[512];
	const int n = snprintf(file, sizeof file, "%s%s/%s", path, folder, name);
	return n > 0 && (size_t)n < sizeof file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Name i of n, the newest first. A driver for CUDA 12 cannot load what libraries of CUDA 13 make: then the oldest first. */
static const char *choice(const char *const *name, size_t n, size_t i)
{
	const int driver = rt_cuda_version();
	return name[driver && driver < 13000 ? n - 1 - i : i];
}

void *rt_toolkit_open(const char *const *name, const char *wheel)
{
	const char *const folders[] = { "", "/lib64", "/lib", "/nvidia/cu13/lib", wheel };
	const char *path = getenv("TJ_CUDA_PATH");
	void *library = NULL;
	size_t n = 0;
	while (name[n]) n++;
	for (size_t i = 0; i < n && !library; i++)
		for (size_t f = 0; path && f < RT_COUNT(folders) && !library; f++) library = open_in(path, folders[f], choice(name, n, i));
	for (size_t i = 0; i < n && !library; i++) library = dlopen(choice(name, n, i), RTLD_NOW | RTLD_LOCAL);
	return library;
}
