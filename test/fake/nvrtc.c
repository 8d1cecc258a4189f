/* An NVRTC without a GPU: libnvrtc.so.13 for tests. It compiles the text that the real one gets with the C++ compiler of the system, after
 * device.h; its "cubin" is a shared object. Behind each kernel it adds a function that calls it with a pointer to its arguments. */
#include "test/fake/fake.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
typedef struct program { char *text, *log; int arch; struct fake_cubin *cubin; } program;

EXPORT const char *nvrtcGetErrorString(int code);
EXPORT int nvrtcCreateProgram(program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(program **p);
EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *bytes);
EXPORT int nvrtcGetProgramLog(program *p, char *log);
EXPORT int nvrtcGetCUBINSize(program *p, size_t *bytes);
EXPORT int nvrtcGetCUBIN(program *p, char *cubin);

enum { COMPILATION = 6, INVALID_OPTION = 5 };
const char *nvrtcGetErrorString(int code) { return code == COMPILATION ? "NVRTC_ERROR_COMPILATION" : code ? "NVRTC_ERROR" : "NVRTC_SUCCESS"; }

int nvrtcCreateProgram(program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names)
{
	(void)name, (void)n, (void)headers, (void)names;
	*p = calloc(1, sizeof **p);
	(*p)->text = strdup(text);
	return 0;
}

int nvrtcDestroyProgram(program **p)
{
	free((*p)->text);
	free((*p)->log);
	free((*p)->cubin);
	free(*p);
	*p = NULL;
	return 0;
}

/* The folder of the sources: this library is in <build>/test/fake. */
static const char *include_folder(void) { return getenv("FAKE_CUDA_SOURCE") ? getenv("FAKE_CUDA_SOURCE") : FAKE_SOURCE; }

static void put_calls(FILE *f, const char *text)
{
	static const char mark[] = "__launch_bounds__(";
	for (const char *at = strstr(text, mark); at; at = strstr(at + 1, mark)) {
		char name[128];
		int threads;
		if (sscanf(at, "__launch_bounds__(%d) %127[A-Za-z0-9_](", &threads, name) != 2) continue;
		fprintf(f, "extern \"C\" { void %s__run(void *a) { %s(*(%s_args *)a); } extern const size_t %s__bytes = sizeof(%s_args); extern const int %s__threads = %d; }\n", name, name,
		        name, name, name, name, threads);
	}
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

int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
	char folder[] = "/tmp/fake-nvrtc-XXXXXX", command[1024], path[128];
	for (int i = 0; i < n; i++) sscanf(options[i], "--gpu-architecture=sm_%d", &p->arch);
	if (!p->arch || !mkdtemp(folder)) return INVALID_OPTION;
	snprintf(path, sizeof path, "%s/k.cc", folder);
	FILE *f = fopen(path, "w");
	fprintf(f, "#include \"test/fake/device.h\"\n%s", p->text);
	put_calls(f, p->text);
	fclose(f);
	snprintf(command, sizeof command, "g++ -std=c++17 -O0 -w -ffp-contract=off -fno-math-errno -mfma -mf16c -fno-strict-aliasing -fwrapv -shared -fPIC -I%s -o %s/k.so %s 2> %s/log", include_folder(), folder,
	         path, folder);
	const int failed = system(command);
	size_t bytes;
	snprintf(path, sizeof path, "%s/log", folder);
	p->log = file_text(path, &bytes);
	snprintf(path, sizeof path, "%s/k.so", folder);
	char *code = failed ? NULL : file_text(path, &bytes);
	if (code) {
		p->cubin = calloc(1, sizeof *p->cubin + bytes);
		*p->cubin = (struct fake_cubin){ .magic = FAKE_MAGIC, .arch = p->arch, .bytes = bytes };
		memcpy(p->cubin->code, code, bytes);
		free(code);
	}
	if (!getenv("FAKE_CUDA_KEEP")) {
		snprintf(command, sizeof command, "rm -r %s", folder);
		if (system(command)) return COMPILATION;
	}
	return p->cubin ? 0 : COMPILATION;
}

int nvrtcGetProgramLogSize(program *p, size_t *bytes) { return *bytes = p->log ? strlen(p->log) + 1 : 1, 0; }
int nvrtcGetProgramLog(program *p, char *log) { return strcpy(log, p->log ? p->log : ""), 0; }
int nvrtcGetCUBINSize(program *p, size_t *bytes) { return *bytes = sizeof *p->cubin + p->cubin->bytes, 0; }
int nvrtcGetCUBIN(program *p, char *cubin) { return memcpy(cubin, p->cubin, sizeof *p->cubin + p->cubin->bytes), 0; }
