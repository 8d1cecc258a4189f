/* SPDX-License-Identifier: MIT */
/* npy: files of NumPy, versions 1 to 3. */
#ifndef TJ_CLI_NPY_H
#define TJ_CLI_NPY_H

#include <stdio.h>
#include <tj.h>

/* An array as it lies in the file: its elements, in an order that the strides give. */
typedef struct npy_array {
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1], stride[TJ_MAX_RANK + 1]; /* of elements; lists of <tj.h>: TJ_END_DIM follows */
	size_t bytes;
	void *data;              /* npy_free() frees it */
} npy_array;
enum { NPY_WHY = 200 };

/* false: why says what is wrong with the file. Memory is taken only for bytes that are there. What follows the array is an error. */
bool npy_read(FILE *f, npy_array *out, char why[NPY_WHY]);
/* Writes version 1. The data are row-major. */
bool npy_write(FILE *f, tj_dtype dtype, int rank, const int64_t *dim, const void *data, char why[NPY_WHY]);
void npy_free(npy_array *a);

/* The same for tensors and the names of files, "-" being stdin or stdout. An output replaces the file only when all of it was written. */
tj_tensor *npy_load(tj_ctx *c, const char *path, char why[NPY_WHY]); /* NULL: why says what is wrong; tj_check() is TJ_OK then */
bool npy_save(tj_ctx *c, const char *path, tj_tensor *t, char why[NPY_WHY]);

#endif
