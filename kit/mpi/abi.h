/* SPDX-License-Identifier: MIT */
/* MPI's standard ABI (MPI 5.0, chapter "Application Binary Interface"): what mpi.c uses of it, found in libmpi_abi.so when it is opened. */
#ifndef TJ_KIT_MPI_ABI_H
#define TJ_KIT_MPI_ABI_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_STATUSES_IGNORE ((void *)0)
enum { MPI_SUCCESS = 0, MPI_MAX_ERROR_STRING = 512, MPI_THREAD_FUNNELED = 1024, MPI_THREAD_SERIALIZED = 2048 };

#define MPI_FUNCTIONS(X)                                                                                       \
	X(Error_string, (int, char *, int *)) X(Finalized, (int *)) X(Initialized, (int *)) X(Query_thread, (int *)) \
	X(Init_thread, (int *, char ***, int, int *)) X(Comm_dup, (MPI_Comm, MPI_Comm *))                            \
	X(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler)) X(Comm_rank, (MPI_Comm, int *))                           \
	X(Comm_size, (MPI_Comm, int *)) X(Comm_free, (MPI_Comm *)) X(Finalize, (void))                               \
	X(Isend, (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))                               \
	X(Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))                                     \
	X(Testall, (int, MPI_Request *, int *, void *))

static struct {
#define X(name, parameters) int (*name) parameters;
	MPI_FUNCTIONS(X)
#undef X
} abi; /* filled once, by the thread that opens MPI */

#define MPI_Error_string abi.Error_string
#define MPI_Finalized abi.Finalized
#define MPI_Initialized abi.Initialized
#define MPI_Query_thread abi.Query_thread
#define MPI_Init_thread abi.Init_thread
#define MPI_Comm_dup abi.Comm_dup
#define MPI_Comm_set_errhandler abi.Comm_set_errhandler
#define MPI_Comm_rank abi.Comm_rank
#define MPI_Comm_size abi.Comm_size
#define MPI_Comm_free abi.Comm_free
#define MPI_Finalize abi.Finalize
#define MPI_Isend abi.Isend
#define MPI_Irecv abi.Irecv
#define MPI_Testall abi.Testall

static bool load_mpi(char *why, size_t room)
{
	static const char *const names[] = { "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so" };
	void *l = NULL;
	for (int i = 0; i < 3 && !l; i++) l = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
	if (!l) return snprintf(why, room, "%s", dlerror()), false;
#define X(name, parameters) \
	if (!(*(void **)&abi.name = dlsym(l, "MPI_" #name))) return snprintf(why, room, "libmpi_abi.so has no MPI_%s", #name), false;
	MPI_FUNCTIONS(X)
#undef X
	return true;
}

#endif
