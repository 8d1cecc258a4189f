/* SPDX-License-Identifier: MIT */
/* Products and einsum: functions/algebra.c, functions/einsum.c. */
#define ROWS "test/unit/algebra.inc"
#include "test/unit/rows.h"

/* A chain of matrices: in order it costs 100 * 2 * 100 + 100 * 100 * 3, from the end 2 * 100 * 3 + 100 * 2 * 3. */
static void path(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *a = tj_full(TJ_F32, S(100, 2), tj_f(1)), *b = tj_full(TJ_F32, S(2, 100), tj_f(1)), *d = tj_full(TJ_F32, S(100, 3), tj_f(1));
	char text[200], cut[10];
	int n = tj_einsum_path("ij,jk,kl->il", TJ_LIST(a, b, d), NULL, text, sizeof text);
	assert_int_equal(n, strlen(text));
	assert_string_equal(text, "1 2: jk,kl->jl 600\n0 1: ij,jl->il 600\n1200 multiplications\n");
	tj_einsum_path("ij,jk,kl->il", TJ_LIST(a, b, d), TJ_OPTS(tj_einsum_opts, .path = TJ_PATH_IN_ORDER), text, sizeof text);
	assert_string_equal(text, "0 1: ij,jk->ik 20000\n0 2: ik,kl->il 30000\n50000 multiplications\n");
	assert_int_equal(tj_einsum_path("ij,jk,kl->il", TJ_LIST(a, b, d), NULL, cut, sizeof cut), n);
	assert_string_equal(cut, "1 2: jk,k");
	kit_ok(c);
	assert_int_equal(tj_einsum_path("ij,jk,kl->il", TJ_LIST(a, b), NULL, text, sizeof text), -1);
	kit_error(c, TJ_ERR_ARG, "more labels than operands");
	assert_string_equal(text, "");
	tj_close(c);
}

/* The best of all paths against a search through all of them, for random equations. */
static uint64_t seed = 3;
static int below(int n) { return seed = seed * 6364136223846793005u + 1442695040888963407u, (int)((seed >> 33) % (uint64_t)n); }

static double cheapest(int n, const unsigned *set, unsigned keep, const int *size)
{
	double best = n < 2 ? 0 : -1;
	for (int a = 0; a < n; a++)
		for (int b = a + 1; b < n; b++) {
			unsigned next[8], rest = keep;
			double cost = 1;
			int m = 0;
			for (int k = 0; k < n; k++)
				if (k != a && k != b) rest |= next[m++] = set[k];
			for (int i = 0; i < 8; i++)
				if ((set[a] | set[b]) >> i & 1) cost *= size[i];
			next[m++] = (set[a] | set[b]) & rest;
			cost += cheapest(m, next, keep, size);
			if (best < 0 || cost < best) best = cost;
		}
	return best;
}

static void optimal(void **state)
{
	(void)state;
	for (int turn = 0; turn < 40; turn++) {
		tj_ctx *c = kit_open();
		const int n = 2 + below(4);
		unsigned set[8], keep = 0, all = 0;
		int size[8], at = 0;
		char equation[100], text[400];
		tj_tensor *list[9];
		for (int i = 0; i < 8; i++) size[i] = 2 + below(4);
		for (int k = 0; k < n; k++) {
			int64_t dim[9];
			int rank = 0;
			all |= set[k] = (unsigned)below(256) & (unsigned)below(256);
			if (k) equation[at++] = ',';
			for (int i = 0; i < 8; i++)
				if (set[k] >> i & 1) equation[at++] = (char)('a' + i), dim[rank++] = size[i];
			dim[rank] = TJ_END_DIM;
			list[k] = tj_full(TJ_F32, dim, tj_f(1));
		}
		list[n] = TJ_END;
		keep = all & (unsigned)below(256);
		at += snprintf(equation + at, 3, "->");
		for (int i = 0; i < 8; i++)
			if (keep >> i & 1) equation[at++] = (char)('a' + i);
		equation[at] = 0;
		for (int k = 0; k < n; k++) { /* letters that only one operand has are summed before */
			unsigned others = keep;
			for (int j = 0; j < n; j++) others |= j == k ? 0 : set[j];
			set[k] &= others;
		}
		tj_einsum_path(equation, list, NULL, text, sizeof text);
		kit_ok(c);
		const char *last = text;
		for (const char *p = text; (p = strchr(p, '\n')) && p[1]; p++) last = p + 1;
		if (strtod(last, NULL) != cheapest(n, set, keep, size)) fail_msg("%s: %s, not %g", equation, text, cheapest(n, set, keep, size));
		tj_item(tj_sum(tj_einsum(equation, list, NULL), TJ_ALL, false));
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { ROWS_TESTS, cmocka_unit_test(path), cmocka_unit_test(optimal) };
	KIT_RUN(tests);
}
