/* tj-gpu: the cases of gpu.c alone, for machines that lack oneDNN:  tj-gpu --device cuda [--json] [--quick] [--seconds s] [REGEX] */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *device = "cuda", *pattern = "";
	bool quick = false, json = false;
	double seconds = 0.2;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick")) quick = true;
		else if (!strcmp(argv[i], "--json")) json = true;
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = atof(argv[++i]);
		else if (!strcmp(argv[i], "--device") && i + 1 < argc) device = argv[++i];
		else if (argv[i][0] != '-') pattern = argv[i];
		else return fprintf(stderr, "tj-gpu [--device cuda] [--json] [--quick] [--seconds s] [REGEX]\n"), 2;
	}
	return bench_gpu(device, pattern, seconds, quick, json);
}
