/* SPDX-License-Identifier: MIT */
/* Strided copies, compared with a plain loop. */
#include "runtime/bytes.h"

#include "test/kit.h"

enum { MOST = 4096 };

static uint32_t state = 7;
static int64_t pick(int64_t n) { return (int64_t)((state = state * 1664525u + 1013904223u) >> 8) % n; }

/* Strides that keep every element apart, axes in any order, some backwards; *first: offset of element 0. */
static int64_t scatter_axes(int rank, const int64_t *dim, int64_t gap, int64_t *stride, int64_t *first)
{
	int order[8];
	int64_t span = gap;
	*first = 0;
	for (int i = 0; i < rank; i++) order[i] = i;
	for (int i = rank; i-- > 1;) {
		int k = (int)pick(i + 1), t = order[i];
		order[i] = order[k];
		order[k] = t;
	}
	for (int i = 0; i < rank; i++) {
		int d = order[i];
		stride[d] = span;
		span *= dim[d] ? dim[d] : 1;
		if (pick(3) || dim[d] < 2) continue;
		*first += stride[d] * (dim[d] - 1);
		stride[d] = -stride[d];
	}
	return span;
}

static void random_copies(void **s)
{
	(void)s;
	static unsigned char from[8 * MOST], to[8 * MOST], want[8 * MOST];
	for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 131 >> 3);
	for (int round = 0, done = 0; done < 4000; round++) {
		const int rank = (int)pick(5);
		const size_t size = (size_t)1 << pick(4);
		int64_t dim[8], fs[8] = { 0 }, ts[8] = { 0 }, ff, tf, n = 1;
		for (int d = 0; d < rank; d++) n *= dim[d] = pick(40) ? 1 + pick(pick(4) ? 7 : 40) : 0;
		if (scatter_axes(rank, dim, 1 + pick(3), fs, &ff) > MOST || scatter_axes(rank, dim, 1 + pick(3), ts, &tf) > MOST) continue;
		if (pick(8) == 0 && rank) fs[pick(rank)] = 0, ff = 0; /* one element read again and again; the others stay in place */
		for (int d = 0; d < rank; d++)
			if (fs[d] < 0 && ff == 0) fs[d] = -fs[d];
		memset(to, 0xEE, sizeof to);
		memset(want, 0xEE, sizeof want);
		for (int64_t i = 0; i < n; i++) {
			int64_t f = ff, t = tf, rest = i;
			for (int d = rank; d-- > 0; rest /= dim[d]) f += rest % dim[d] * fs[d], t += rest % dim[d] * ts[d];
			memcpy(want + t * (int64_t)size, from + f * (int64_t)size, size);
		}
		rt_copy_strided(rank, dim, size, from + ff * (int64_t)size, fs, to + tf * (int64_t)size, ts);
		assert_memory_equal(to, want, sizeof to); /* and nothing else was written */
		memset(to, 0xEE, sizeof to);
		rt_pack(rank, dim, size, from + ff * (int64_t)size, fs, to);
		for (int64_t i = 0; i < n; i++) {
			int64_t f = ff, rest = i;
			for (int d = rank; d-- > 0; rest /= dim[d]) f += rest % dim[d] * fs[d];
			assert_memory_equal(to + i * (int64_t)size, from + f * (int64_t)size, size);
		}
		assert_int_equal(to[n * (int64_t)size], 0xEE);
		done++;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(random_copies) };
	return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
