/* SPDX-License-Identifier: MIT */
/* module: shared objects as modules; what a launch needs, and what it is refused for. */
#include "test/fake/driver.h"

#include <dlfcn.h>
#include <fenv.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module { void *library; char *image, *image_end; bool loaded; struct module *next; }; /* image: an address in it, then its start */
struct function { module *m; void (*run)(void *); size_t bytes, shared; int threads; char name[128]; struct function *next; };
static module *modules;
static function *functions;

/* ---- loading ---- */
static int find_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	module *m = arg;
	const uintptr_t in = (uintptr_t)m->image;
	uintptr_t from = UINTPTR_MAX, to = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD) continue;
		if (info->dlpi_addr + p->p_vaddr < from) from = info->dlpi_addr + p->p_vaddr;
		if (info->dlpi_addr + p->p_vaddr + p->p_memsz > to) to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	if (in < from || in >= to) return 0;
	m->image = (char *)from;
	m->image_end = (char *)to;
	return 1;
}

int fake_module_load(void **out, const void *image)
{
	const struct fake_cubin *c = image;
	if (memcmp(c->magic, FAKE_MAGIC, sizeof c->magic) != 0) return INVALID_IMAGE;
	if (c->ptx ? c->arch > fake_limits()->arch : c->arch != fake_limits()->arch) return NO_BINARY;
	module *m = calloc(1, sizeof *m);
	m->library = dlopen(c->path, RTLD_NOW | RTLD_LOCAL);
	if (!m->library) fake_die("%s", dlerror());
	*(struct fake_hooks *)dlsym(m->library, "fake_hooks") = fake_hooks_of_fibers;
	m->image = dlsym(m->library,
	                 "fake_place"); /* not in the walk: there it would wait for another thread's dlopen(), which waits for the walk */
	dl_iterate_phdr(find_image, m);
	m->loaded = true;
	m->next = modules;
	modules = m;
	*out = m;
	return SUCCESS;
}

int fake_module_unload(void *mod)
{
	module *m = mod;
	if (!m || !m->loaded) return INVALID_HANDLE;
	const char *user = fake_user_of_module(m);
	if (user) fake_die("a module is unloaded, but %s runs its code, and the host does not know that it is done", user);
	m->loaded = false; /* the structs stay, so that a later use is found */
	dlclose(m->library);
	return SUCCESS;
}

static void *symbol_of(const module *m, const char *name, const char *suffix)
{
	char s[200];
	snprintf(s, sizeof s, "%s%s", name, suffix);
	return dlsym(m->library, s);
}

int fake_module_function(void **out, void *mod, const char *name)
{
	module *m = mod;
	if (!m || !m->loaded) return INVALID_HANDLE;
	void *run = symbol_of(m, name, "__run");
	if (!run) return NOT_FOUND;
	function *f = calloc(1, sizeof *f);
	memcpy(&f->run, &run, sizeof run);
	f->m = m;
	f->bytes = *(size_t *)symbol_of(m, name, "__bytes");
	f->threads = *(int *)symbol_of(m, name, "__threads");
	f->shared = SHARED_UNASKED;
	snprintf(f->name, sizeof f->name, "%s", name);
	f->next = functions;
	functions = f;
	*out = f;
	return SUCCESS;
}

int fake_modules(void)
{
	int n = 0;
	for (const module *m = modules; m; m = m->next) n += m->loaded;
	return n;
}

const module *fake_module_of(const function *f) { return f->m; }

/* ---- functions ---- */
int fake_function_shared(void *fn, int bytes)
{
	function *f = fn;
	if (!f || !f->m->loaded) return INVALID_HANDLE;
	if (bytes < 0 || (size_t)bytes > fake_limits()->shared) return INVALID_VALUE;
	f->shared = (size_t)bytes > SHARED_UNASKED ? (size_t)bytes : SHARED_UNASKED;
	return SUCCESS;
}

/* The compiler gives each thread as many registers as its launch bounds leave. */
static int registers(const function *f)
{
	const int n = REGISTERS / ((f->threads + WARP - 1) / WARP * WARP) / 8 * 8;
	return n < 255 ? n : 255;
}

int fake_function_attribute(int *value, int attribute, void *fn)
{
	enum { MOST = 0, SHARED = 1, CONST = 2, LOCAL = 3, REGS = 4, PTX = 5, BINARY = 6, DYNAMIC = 8 };
	const function *f = fn;
	if (!f || !f->m->loaded) return INVALID_HANDLE;
	switch (attribute) {
	case MOST: *value = f->threads; break;
	case SHARED: case CONST: case LOCAL: *value = 0; break;
	case REGS: *value = registers(f); break;
	case PTX: case BINARY: *value = fake_limits()->arch; break;
	case DYNAMIC: *value = (int)f->shared; break;
	default: return INVALID_VALUE;
	}
	return SUCCESS;
}

int fake_launch_check(const function *f, struct fake_xyz grid, struct fake_xyz n, size_t shared, size_t *bytes)
{
	const uint64_t threads = (uint64_t)n.x * n.y * n.z;
	if (!f || !f->m->loaded) return INVALID_HANDLE;
	*bytes = f->bytes;
	if (!grid.x || !grid.y || !grid.z || grid.x > INT32_MAX || grid.y > MOST_YZ || grid.z > MOST_YZ) return INVALID_VALUE;
	if (!threads || n.x > MOST_THREADS || n.y > MOST_THREADS || n.z > 64 || threads > MOST_THREADS) return INVALID_VALUE;
	if (shared > f->shared) return INVALID_VALUE;
	if (threads > (uint64_t)f->threads || (threads + WARP - 1) / WARP * WARP * (uint64_t)registers(f) > REGISTERS) return TOO_MANY_RESOURCES;
	return SUCCESS;
}

/* ---- running ---- */
/* Addresses of the device become those of the second mapping. Arguments are words of 64 bits. */
static void translate(const function *f, uint64_t *word)
{
	for (size_t i = 0; i < f->bytes / 8; i++)
		if (fake_is_there(word[i])) word[i] = (uintptr_t)fake_there(word[i], 1);
}

static void print(const function *f, struct fake_xyz grid, struct fake_xyz n, const uint64_t *word)
{
	fprintf(stderr, "%s: %ux%ux%u blocks of %ux%ux%u, arguments", f->name, grid.x, grid.y, grid.z, n.x, n.y, n.z);
	for (size_t i = 0; i < f->bytes / 8; i++) fprintf(stderr, " %#llx", (unsigned long long)word[i]);
	fputc('\n', stderr);
}

void fake_launch_run(const function *f, struct fake_xyz grid, struct fake_xyz n, size_t shared, void *arguments)
{
	char *memory = dlsym(f->m->library, "tj_shared");
	struct fake_place *place = dlsym(f->m->library, "fake_place");
	const task t = { f->run, arguments, f->bytes, n, shared, memory, f->m->image, f->m->image_end, place, f->name };
	const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, first = fake_random() % blocks;
	if (getenv("FAKE_CUDA_LOG")) print(f, grid, n, arguments);
	translate(f, arguments);
	fenv_t of_caller; /* its rounding, its exceptions: a GPU knows nothing of them */
	fegetenv(&of_caller);
	fesetenv(FE_DFL_ENV);
	fake_race_launch();
	place->grid = grid;
	place->size = n;
	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t b = (first + i) % blocks; /* no order of blocks may be relied on */
		place->block = (struct fake_xyz){ (unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y) };
		memset(memory, 0xCD, shared);
		fake_run_block(&t);
	}
	fesetenv(&of_caller);
}
