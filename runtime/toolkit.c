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

void *rt_toolkit_open(const char *const *name, const char *wheel)
{
	const char *const folders[] = { "", "/lib64", "/lib", "/nvidia/cu13/lib", wheel };
	const char *path = getenv("TJ_CUDA_PATH");
	void *library = NULL;
	for (size_t f = 0; path && f < RT_COUNT(folders) && !library; f++)
		for (size_t n = 0; name[n] && !library; n++) library = open_in(path, folders[f], name[n]);
	for (size_t n = 0; name[n] && !library; n++) library = dlopen(name[n], RTLD_NOW | RTLD_LOCAL);
	return library;
}
