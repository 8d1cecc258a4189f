/* SPDX-License-Identifier: MIT */
/* mutate: runs the models that mutate.py writes to its input, each with the number of its bytes (8, little endian) in front, on random
 * inputs. One byte for each goes to its output: o it ran, r it was refused, e an error, b an error that is none of the model's. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tjmodel.h>
#include <unistd.h>

enum { MOST_IN = 16, MOST_OUT = 64, MOST_ELEMENTS = 1 << 18, SECONDS = 20, TURNS = 100 };

static uint64_t state;
static uint64_t random64(void)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state * 2685821657736338717u;
}

/* Mostly small numbers: they are sizes, axes and indices, too. */
static double number(void)
{
	static const double odd[] = { 0, -1, 1, INFINITY, -INFINITY, NAN, 1e30, -1e30, 0x1p31, 0x1p63, -0x1p63, 1e-40 };
	const uint64_t r = random64() >> 8;
	return r % 16 ? (double)(int64_t)(r >> 8 & 7) - 1 + (r & 64 ? 0.5 : 0) : odd[(r >> 4) % (sizeof odd / sizeof *odd)];
}

static tj_tensor *input(tj_ctx *c, const tj_onnx_value *v)
{
	int64_t dim[TJ_MAX_RANK + 1], n = 1;
	const int rank = v->rank < 0 ? (int)(random64() >> 8) & 3 : v->rank;
	for (int i = 0; i < rank; i++) {
		dim[i] = v->rank >= 0 && v->dim[i] >= 0 ? v->dim[i] : (int64_t)(random64() >> 8) % 4;
		if (__builtin_mul_overflow(n, dim[i], &n) || n > MOST_ELEMENTS) return NULL;
	}
	dim[rank] = TJ_END_DIM;
	double *data = malloc((size_t)n * sizeof *data + 1);
	for (int64_t i = 0; i < n; i++) data[i] = number();
	tj_tensor *t = tj_cast(tj_from_data(c, TJ_F64, dim, data), v->dtype);
	free(data);
	return t;
}

static volatile unsigned sum;
static char run(tj_ctx *c, const char *path)
{
	tj_tensor *in[MOST_IN + 1], *out[MOST_OUT];
	int nin = 0, nout = 0;
	tj_model *m = tj_onnx_open(c, path, NULL);
	if (!m) return tj_check(c) == TJ_ERR_NOMEM ? 'b' : 'r';
	while (tj_model_output(m, nout)) nout++;
	bool ok = nout <= MOST_OUT;
	for (const tj_onnx_value *v; ok && (v = tj_model_input(m, nin)); nin++) ok = nin < MOST_IN && (in[nin] = input(c, v));
	in[ok ? nin : 0] = TJ_END;
	char verdict = 'e';
	if (ok && tj_call(tj_model_fn(m), out, in) == TJ_OK) {
		verdict = 'o';
		for (int i = 0; i < nout; i++) {
			const unsigned char *v = tj_data(out[i]);
			const size_t bytes = v ? (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i])) : 0;
			for (size_t k = 0; k < bytes; k += 1 + bytes / 4096) sum += v[k];
		}
	}
	tj_check(c);
	tj_model_close(m);
	return verdict;
}

static bool read_all(void *to, size_t n)
{
	for (ssize_t k; n; n -= (size_t)k, to = (char *)to + k)
		if ((k = read(0, to, n)) <= 0) return false;
	return true;
}

int main(void)
{
	tj_ctx *c = NULL;
	char path[40];
	const int fd = memfd_create("model", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (uint64_t n, turn = 0; read_all(&n, sizeof n); turn++) {
		unsigned char *v = malloc(n + 1);
		if (!v || !read_all(v, n) || ftruncate(fd, 0) || pwrite(fd, v, n, 0) != (ssize_t)n) return 2;
		state = n * 88172645463325252u + 1;
		for (uint64_t i = 0; i < n; i++) state = (state ^ v[i]) * 1099511628211u;
		state |= 1;
		free(v);
		if (turn % TURNS == 0) {
			if (c) tj_close(c);
			c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		}
		alarm(SECONDS); /* ends the program: the model took too long */
		tj_scope *s = tj_push(c);
		const char verdict = run(c, path);
		tj_pop(s);
		alarm(0);
		if (write(1, &verdict, 1) != 1) return 2;
	}
	if (c) tj_close(c);
	return 0;
}
