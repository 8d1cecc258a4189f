/* SPDX-License-Identifier: MIT */
/* Statistics, sorted values, counts, series: functions/statistics.c, functions/quantiles.c, functions/counts.c, functions/series.c. */
#include "test/unit/literals.h"

/* The second result of a function. */
static tj_tensor *mean_of(tj_tensor *x, bool std, bool keepdim)
{
	tj_tensor *mean;
	return std ? tj_std_mean(x, TJ_AXES(-1), 1, keepdim, &mean) : tj_var_mean(x, TJ_AXES(-1), 1, keepdim, &mean), mean;
}

static tj_tensor *most_of(tj_tensor *x)
{
	tj_tensor *most;
	return tj_aminmax(x, TJ_ALL, false, &most), most;
}

static tj_tensor *index_of(tj_tensor *(*f)(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices), tj_tensor *x,
                           int64_t axis, bool keepdim)
{
	tj_tensor *index;
	return f("test_statistics.c:0", x, axis, keepdim, &index), index;
}

static tj_tensor *kth_index(tj_tensor *x, int64_t k, int64_t axis)
{
	tj_tensor *index;
	return tj_kthvalue(x, k, axis, false, &index), index;
}

static tj_tensor *run(tj_tensor *x, int which)
{
	tj_tensor *inverse, *counts, *values = tj_unique_consecutive(x, &inverse, &counts);
	return which == 0 ? values : which == 1 ? inverse : counts;
}

#define ROWS "test/unit/statistics.inc"
#include "test/unit/rows.h"

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS };
	KIT_RUN(tests);
}
