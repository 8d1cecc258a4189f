/* SPDX-License-Identifier: MIT */
/* library: shared libraries that are opened by name when first needed. */
#include "kit/files/files.h"

#include <dlfcn.h>

void *kit_library(const char *name, const char *package, const char *const *functions, void *to, kit_why *w)
{
	void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!so) return kit_no(w, TJ_ERR_IO, "%s cannot be opened (on Debian it is in the package %s): %.200s", name, package, dlerror()), NULL;
	for (; *functions; functions++) {
		void *f = dlsym(so, *functions);
		if (!f) return kit_no(w, TJ_ERR_IO, "%s lacks %s()", name, *functions), dlclose(so), NULL;
		memcpy(to, &f, sizeof f);
		to = (char *)to + sizeof f;
	}
	return so;
}
