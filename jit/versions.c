/* SPDX-License-Identifier: MIT */
/* Versions: the libraries that tjit opens by name, which of them are there, and why the others are not. */
#include "codegen_cuda/cuda.h"
#include "jit/ctx.h"
#include "runtime/cublas.h"
#include "runtime/cuda.h"
#include "runtime/matmul.h"
#include "runtime/lapack.h"

enum { LLVM, ONEDNN, DRIVER, NVRTC, CUBLASLT, LAPACK, LIBRARIES };

static void put_llvm(tj_library *l, char *version, size_t room)
{
	const lo_backend *b = lo_backend_find("llvm", &l->why);
	snprintf(version, room, "%s", b ? b->version : "");
}

static void put_onednn(tj_library *l, char *version, size_t room)
{
	const char *v = rt_onednn_version();
	if (!v) l->why = "libdnnl.so.2 (or .3) is not there, or TJ_ONEDNN=off: kernels compute all products";
	else snprintf(version, room, "%s", v);
}

static void put_driver(tj_library *l, char *version, size_t room)
{
	rt_device_on_demand(cu_open);
	l->why = rt_device_missing();
	const int v = l->why ? 0 : rt_cuda_version(); /* 13000: 13.0 */
	if (v) snprintf(version, room, "%d.%d", v / 1000, v % 1000 / 10);
}

static void put_nvrtc(tj_library *l, char *version, size_t room)
{
	int v[2];
	l->why = rt_nvrtc_missing();
	if (!l->why && rt_nvrtc_version(v)) snprintf(version, room, "%d.%d", v[0], v[1]);
}

static void put_cublaslt(tj_library *l, char *version, size_t room)
{
	const rt_lt *lt = rt_lt_get(&l->why);
	const int v = lt ? (int)lt->cublasLtGetVersion() : 0; /* 130100: 13.1.0 */
	if (lt) snprintf(version, room, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
	if (lt) l->why = NULL;
}

static void put_lapack(tj_library *l, char *version, size_t room)
{
	l->why = rt_lapack_missing();
	if (!l->why) snprintf(version, room, "%s", rt_lapack_version());
}

tj_library tj_linalg_library(void)
{
	const char *choice = rt_linalg_choice();
	if (!strcmp(choice, "own")) return (tj_library){ "tjit", TJ_VERSION, "the process chose its own rotations" };
	const char *why = rt_lapack_missing();
	if (!why) return (tj_library){ "LAPACK", rt_lapack_version(), !strcmp(choice, "auto") ? "it is there" : "the process chose it" };
	return !strcmp(choice, "auto") ? (tj_library){ "tjit", TJ_VERSION, why } : (tj_library){ NULL, NULL, why };
}

const tj_library *tj_libraries(void)
{
	static tj_library list[LIBRARIES + 1];
	static char version[LIBRARIES][32];
	static bool known;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const struct { const char *name; void (*put)(tj_library *l, char *version, size_t room);
	} all[LIBRARIES] = {
		[LLVM] = { "LLVM", put_llvm },    [ONEDNN] = { "oneDNN", put_onednn },       [DRIVER] = { "CUDA driver", put_driver },
		[NVRTC] = { "NVRTC", put_nvrtc }, [CUBLASLT] = { "cuBLASLt", put_cublaslt },
		[LAPACK] = { "LAPACK", put_lapack },
	};
	rt_lock(&lock);
	for (int i = 0; !known && i < LIBRARIES; i++) {
		list[i] = (tj_library){ all[i].name, version[i], NULL };
		all[i].put(&list[i], version[i], sizeof version[i]);
		if (list[i].why) list[i].version = NULL;
	}
	known = true;
	rt_unlock(&lock);
	return list;
}
