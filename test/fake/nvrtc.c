/* SPDX-License-Identifier: MIT */
/* An NVRTC without a GPU: libnvrtc.so.13 for tests. It compiles the text that the real one gets with the C++ compiler of the system, after
 * device.h; its "cubin" names a shared object. Behind each kernel it adds a function that calls it with a pointer to its arguments.
 *
 * Objects are kept in the folder TEST_OBJECTS, or in `cache` beside this library, under the hash of everything that they are made of. They
 * are compiled for the thread sanitizer and for checks of undefined behaviour, whose functions are in device.c. FAKE_CUDA_KEEP=1: the
 * program is kept, too.
 * FAKE_NVRTC_NEWEST=90: it knows no newer architecture. */
#include "test/fake/fake.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define EXPORT __attribute__((visibility("default")))
typedef struct program { char *text, *log; int arch; struct fake_cubin cubin; } program;

EXPORT const char *nvrtcGetErrorString(int code);
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(program **p);
EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *bytes);
EXPORT int nvrtcGetProgramLog(program *p, char *log);
EXPORT int nvrtcGetCUBINSize(program *p, size_t *bytes);
EXPORT int nvrtcGetCUBIN(program *p, char *cubin);
EXPORT int nvrtcGetPTXSize(program *p, size_t *bytes);
EXPORT int nvrtcGetPTX(program *p, char *ptx);
EXPORT int nvrtcGetNumSupportedArchs(int *n);
EXPORT int nvrtcGetSupportedArchs(int *arch);

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };
#define FAILS(name)                                                                                                    \
	do {                                                                                                               \
		int code_;                                                                                                     \
		if (fake_injected(#name, &code_)) return code_;                                                                \
	} while (0)

const char *nvrtcGetErrorString(int code)
{
	static const char *const names[] = { "NVRTC_SUCCESS",
		                             "NVRTC_ERROR_OUT_OF_MEMORY",
		                             "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
		                             "NVRTC_ERROR_INVALID_INPUT",
		                             "NVRTC_ERROR_INVALID_PROGRAM",
		                             "NVRTC_ERROR_INVALID_OPTION",
		                             "NVRTC_ERROR_COMPILATION" };
	return code >= 0 && code <= COMPILATION ? names[code] : "NVRTC_ERROR unknown";
}

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }

/* ---- architectures ---- */
static const int archs[] = { 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121 };
int nvrtcGetNumSupportedArchs(int *n)
{
	const char *newest = getenv("FAKE_NVRTC_NEWEST");
	for (*n = 0; *n < (int)(sizeof archs / sizeof *archs) && (!newest || archs[*n] <= atoi(newest)); ++*n) {}
	return 0;
}

int nvrtcGetSupportedArchs(int *arch)
{
	int n;
	nvrtcGetNumSupportedArchs(&n);
	memcpy(arch, archs, (size_t)n * sizeof *arch);
	return 0;
}

static bool knows(int arch)
{
	int n;
	nvrtcGetNumSupportedArchs(&n);
	for (int i = 0; i < n; i++)
		if (archs[i] == arch) return true;
	return false;
}

int nvrtcCreateProgram(program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names)
{
	FAILS(nvrtcCreateProgram);
	(void)name, (void)headers, (void)names;
	if (!text || n) return INVALID_INPUT;
	*p = calloc(1, sizeof **p);
	(*p)->text = strdup(text);
	return 0;
}

int nvrtcDestroyProgram(program **p)
{
	FAILS(nvrtcDestroyProgram);
	free((*p)->text);
	free((*p)->log);
	free(*p);
	*p = NULL;
	return 0;
}

/* ---- files ---- */
/* The folder of this library: <build>/test/fake. */
static void own_folder(char *to, size_t size)
{
	Dl_info info;
	char *end;
	if (!dladdr((void *)(uintptr_t)own_folder, &info)) info.dli_fname = "./x";
	snprintf(to, size, "%s", info.dli_fname);
	if ((end = strrchr(to, '/'))) *end = 0;
	else snprintf(to, size, ".");
}

static char *file_text(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *s = NULL;
	*n = 0;
	if (!f) return NULL;
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	s = calloc(1, *n + 1);
	if (fread(s, 1, *n, f) != *n) *n = 0;
	fclose(f);
	return s;
}

/* ---- compiling ---- */
static void put_calls(FILE *f, const char *text)
{
	static const char mark[] = "__launch_bounds__(";
	for (const char *at = strstr(text, mark); at; at = strstr(at + 1, mark)) {
		char name[128];
		int threads;
		const char *end = strchr(at, ')');
		if (sscanf(at, "__launch_bounds__(%d", &threads) != 1 || !end || sscanf(end, ") %127[A-Za-z0-9_](", name) != 1) continue;
		fprintf(f, "static_assert(sizeof(%s_args) <= 32764, \"Formal parameter space overflowed\");\n", name); /* 4096 before CUDA 12.1 */
		fprintf(f,
		        "extern \"C\" { void %s__run(void *a) { %s(*(%s_args *)a); } extern const size_t %s__bytes = sizeof(%s_args); extern const int "
		        "%s__threads = %d; }\n",
		        name, name, name, name, name, name, threads);
	}
}

#define COMPILER \
	"g++ -std=c++17 -O0 -w -nostdinc -ffp-contract=%s -fno-math-errno -mfma -mf16c -fno-strict-aliasing -fPIC -fno-exceptions " \
	"-fno-asynchronous-unwind-tables " \
	"-fsanitize=thread --param tsan-instrument-func-entry-exit=0 " \
	"-fsanitize=shift,signed-integer-overflow,integer-divide-by-zero,bounds,float-cast-overflow -fno-sanitize-recover=all -I%s -c -o %s.o " \
	"%s.cc 2> %s.log"
/* -Bsymbolic: a program with sanitizers of its own has functions of the same names. */
#define LINKER "ld -shared -s -Bsymbolic --hash-style=gnu --build-id=none -o %s.so %s.o %s/device.o -lm -lc 2>> %s.log"

/* Leaves path.so; else path.log says why not. The names in the way are of this call. */
static bool build(const program *p, const char *folder, const char *path, bool contracts)
{
	char name[600], command[4096];
	snprintf(name, sizeof name, "%s.cc", path);
	FILE *f = fopen(name, "w");
	if (!f) return false;
	fprintf(f, "#include \"test/fake/device.h\"\n#line 1\n%s", p->text);
	put_calls(f, p->text);
	fclose(f);
	const char *source = getenv("FAKE_CUDA_SOURCE") ? getenv("FAKE_CUDA_SOURCE") : FAKE_SOURCE;
	snprintf(command, sizeof command, COMPILER " && " LINKER, contracts ? "fast" : "off", source, path, path, path, path, path, folder, path);
	return system(command) == 0;
}

static void remove_files(const char *path)
{
	static const char *const suffixes[] = { ".cc", ".o", ".log" };
	char name[600];
	for (size_t i = getenv("FAKE_CUDA_KEEP") ? 1 : 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
		unlink(name);
	}
}

/* What objects are made of besides the text: device.h, device.o, the options. */
static uint64_t hash_of_rest(const char *folder)
{
	static const char fixed[] = COMPILER LINKER;
	char name[600];
	size_t n;
	uint64_t h = XXH3_64bits(fixed, sizeof fixed);
	for (int i = 0; i < 2; i++) {
		if (i) snprintf(name, sizeof name, "%s/device.o", folder);
		else snprintf(name, sizeof name, "%s/test/fake/device.h", FAKE_SOURCE);
		char *s = file_text(name, &n);
		h = XXH3_64bits_withSeed(s ? s : "", n, h);
		free(s);
	}
	return h;
}

/* An option of ours that the real NVRTC knows, too. */
static bool take_option(program *p, const char *o, bool *contracts)
{
	static const char *const known[] = { "--std=c++17",     "--minimal",           "--modify-stack-limit=false",
		                             "--fmad=false",    "--fmad=true",         "--ftz=false",
		                             "--prec-div=true", "--prec-sqrt=true",    "--disable-warnings",
		                             "-lineinfo",       "--generate-line-info" };
	p->cubin.ptx |= !strncmp(o, "--gpu-architecture=compute_", 27);
	if (sscanf(o, "--gpu-architecture=sm_%d", &p->arch) == 1 || sscanf(o, "--gpu-architecture=compute_%d", &p->arch) == 1)
		return knows(p->arch);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(o, known[i])) {
			if (!strcmp(o, "--fmad=true")) *contracts = true;
			return true;
		}
	return false;
}

int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
	FAILS(nvrtcCompileProgram);
	char folder[300], objects[400], path[540], to[520];
	size_t bytes;
	bool contracts = false;
	for (int i = 0; i < n; i++)
		if (!take_option(p, options[i], &contracts)) return INVALID_OPTION;
	if (!p->arch) return INVALID_OPTION;
	own_folder(folder, sizeof folder);
	const XXH128_hash_t h = XXH3_128bits_withSeed(p->text, strlen(p->text), hash_of_rest(folder) + contracts);
	if (getenv("TEST_OBJECTS")) snprintf(objects, sizeof objects, "%s", getenv("TEST_OBJECTS"));
	else snprintf(objects, sizeof objects, "%s/cache", folder);
	mkdir(objects, 0777);
	snprintf(to, sizeof to, "%s/%016llx%016llx.so", objects, (unsigned long long)h.high64, (unsigned long long)h.low64);
	p->cubin = (struct fake_cubin){ .magic = FAKE_MAGIC, .arch = p->arch, .ptx = p->cubin.ptx };
	snprintf(p->cubin.path, sizeof p->cubin.path, "%.511s", to);
	if (!access(to, R_OK)) return 0;
	snprintf(path, sizeof path, "%s-%d-%lx", to, (int)getpid(), (unsigned long)(uintptr_t)p);
	const bool ok = build(p, folder, path, contracts);
	char made[600];
	snprintf(made, sizeof made, "%s.log", path);
	p->log = file_text(made, &bytes);
	snprintf(made, sizeof made, "%s.so", path);
	if (ok) rename(made, to);
	remove_files(path);
	return ok ? 0 : COMPILATION;
}

/* ---- results ---- */
int nvrtcGetProgramLogSize(program *p, size_t *bytes)
{
	FAILS(nvrtcGetProgramLogSize);
	return *bytes = p->log ? strlen(p->log) + 1 : 1, 0;
}

int nvrtcGetProgramLog(program *p, char *log)
{
	FAILS(nvrtcGetProgramLog);
	return strcpy(log, p->log ? p->log : ""), 0;
}

int nvrtcGetCUBINSize(program *p, size_t *bytes)
{
	FAILS(nvrtcGetCUBINSize);
	return *bytes = p->cubin.ptx ? 0 : sizeof p->cubin, *p->cubin.path ? 0 : INVALID_PROGRAM;
}

int nvrtcGetCUBIN(program *p, char *cubin)
{
	FAILS(nvrtcGetCUBIN);
	if (p->cubin.ptx) return INVALID_PROGRAM;
	return memcpy(cubin, &p->cubin, sizeof p->cubin), 0;
}

int nvrtcGetPTXSize(program *p, size_t *bytes)
{
	return *bytes = sizeof p->cubin, *p->cubin.path && p->cubin.ptx ? 0 : INVALID_PROGRAM;
}

int nvrtcGetPTX(program *p, char *ptx) { return memcpy(ptx, &p->cubin, sizeof p->cubin), 0; }
