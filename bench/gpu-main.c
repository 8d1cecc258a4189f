/* SPDX-License-Identifier: MIT */
/* tj-gpu: the cases of gpu.c alone, for machines that lack oneDNN:
 *   tj-gpu [--device cuda] [--json] [--quick] [--small] [--seconds s] [REGEX]      as `tj-bench --device cuda` */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	bench_gpu_opts o = { .device = "cuda", .pattern = "", .seconds = 0.2 };
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick")) o.quick = true;
		else if (!strcmp(argv[i], "--small")) o.small = true;
		else if (!strcmp(argv[i], "--json")) o.json = true;
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) o.seconds = atof(argv[++i]);
		else if (!strcmp(argv[i], "--device") && i + 1 < argc) o.device = argv[++i];
		else if (argv[i][0] != '-') o.pattern = argv[i];
		else return fprintf(stderr, "tj-gpu [--device cuda] [--json] [--quick] [--small] [--seconds s] [REGEX]\n"), 2;
	}
	return bench_gpu(&o);
}
