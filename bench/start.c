/* SPDX-License-Identifier: MIT */
/* start: the smallest program. It tells its parent, tj-bench, when the first result was ready, how much memory was resident
 * then, and how long compiling took. An argument is the number of ops of the function. */
#include <tj.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int length = 1;

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_f(1));
	if (length > 1) out[0] = tj_exp(tj_neg(out[0]));
	for (int i = 3; i < length; i++) out[0] = i % 2 ? tj_mul(out[0], in[0]) : tj_maximum(out[0], tj_f(0.5));
}

static double resident_mib(void)
{
	char line[256];
	double kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "VmRSS:", 6)) kib = atof(line + 6);
	if (f) fclose(f);
	return kib / 1024;
}

int main(int argc, char **argv)
{
	if (argc > 1) length = atoi(argv[1]);
	static float x[4096];
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "start", .nin = 1, .nout = 1));
	const float *y = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4096), x))));
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	printf("%.6f %.2f %.3f %g\n", (double)t.tv_sec + (double)t.tv_nsec * 1e-9, resident_mib(), s.lower_ms + s.codegen_ms,
	       y ? (double)y[0] : 0);
	int bad = tj_check(c) != TJ_OK;
	if (bad) tj_perror(c, stderr);
	tj_close(c);
	return bad;
}
