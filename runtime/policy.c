/* policy: measured figures. 512 bits: Zen 4, two threads, oneDNN 2.6; for the measurements see gemm.c and parts.c.
 * 256 bits: the same machine, with the library limited to AVX2. There parts of 64 rows do not pay, because the library packs the other
 * operand for each part: the transformer block takes 34.4 ms in halves, 43.4 ms in parts of 64 rows, 42.2 ms in parts of 128.
 * And tiles are faster for up to 128 rows: [m,768] x [768,3072] takes 1.59 ms (m = 32), 5.7 ms (128) and 8.5 ms (384) in the
 * library; 1.00, 4.2 and 11.6 ms in tiles. */
#include "runtime/policy.h"

#include <stdlib.h>
#include <string.h>

const rt_policy rt_policy_512 = {
	.bits = 512,
	.few_rows = 12, .small_b = 1 << 20, .tiny = 1000,
	.second_cache = 1 << 20, .near_rows = 4, .far_rows = 16,
	.parallel_ns = 15e3, .tile_rows = 24, .library_rows = 64, .library_most = 256,
	.gflops = 100, .gflops64 = 35, .gflops_loops = 4, .near_gbytes = 50, .far_gbytes = 15,
};

const rt_policy rt_policy_256 = {
	.bits = 256,
	.few_rows = 128, .small_b = 1 << 20, .tiny = 1000,
	.second_cache = 1 << 20, .near_rows = 4, .far_rows = 16,
	.parallel_ns = 15e3, .tile_rows = 24, .library_rows = 0, .library_most = 256,
	.gflops = 100, .gflops64 = 35, .gflops_loops = 4, .near_gbytes = 50, .far_gbytes = 15,
};

int rt_wanted_bits(void)
{
	const char *want = getenv("TJ_CPU");
	for (int bits = 128; want && bits <= 512; bits *= 2)
		if (atoi(want) == bits && strlen(want) == 3) return bits;
	return 0;
}

const rt_policy *rt_policy_here(void)
{
	const int wanted = rt_wanted_bits();
	return __builtin_cpu_supports("avx512f") && wanted != 128 && wanted != 256 ? &rt_policy_512 : &rt_policy_256;
}
