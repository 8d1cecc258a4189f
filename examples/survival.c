/* SPDX-License-Identifier: MIT */
/* Logistic regression on a table: who survives, by age, dose and ward. L-BFGS finds the maximum of the likelihood in f64.
 *
 *   build/examples/survival [patients.csv]      columns age, dose, ward ("north" or "south"), survived (0 or 1); age may be empty
 *
 * Without a file it makes one: 2,000 patients who are drawn by known coefficients, which are printed beside those that it finds. */
#define _POSIX_C_SOURCE 200809L
#include <tjdata.h>
#include <tjnn.h>

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 3, SEED = 1 };
static const double known[COLUMNS + 1] = { -0.8 /* for ten years */, 1.5, 0.5 /* south */, 0.2 /* the constant */ };

static void layers(tjnn_walk *w, void *self) { tjnn_linear_layer(w, "score", self, COLUMNS, 1, true); }

static tj_tensor *score(const tjnn_linear *m, tj_tensor *x) { return tj_squeeze(tjnn_linear_apply(m, x), TJ_AXES(1)); }

/* in: x [N,COLUMNS], survived [N]; out: minus the mean logarithm of the likelihood */
static void loss(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_binary_cross_entropy_with_logits(score(self, in[0]), in[1], NULL);
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *right = tj_eq(tj_gt(score(self, in[0]), tj_f(0)), tj_gt(in[1], tj_f(0.5)));
	out[0] = tj_mean(tj_cast(right, TJ_F64), TJ_ALL, false);
}

/* ---- a table ---- */
static double draw(uint64_t *s) /* from 0 to 1 */
{
	*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(*s >> 33) * 0x1p-31;
}

static bool make_table(char *path)
{
	uint64_t s = SEED;
	const int fd = mkstemp(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) return false;
	fputs("age,dose,ward,survived\n", f);
	for (int i = 0; i < 2000; i++) {
		const int age = 20 + (int)(draw(&s) * 60), dose = (int)(draw(&s) * 21), south = draw(&s) < 0.4, lost = draw(&s) < 0.02;
		const double logit = known[0] * (age - 50) / 10. + known[1] * dose / 10. + known[2] * south + known[3];
		if (!lost) fprintf(f, "%d", age);
		fprintf(f, ",%.1f,%s,%d\n", dose / 10., south ? "south" : "north", draw(&s) < 1 / (1 + exp(-logit)));
	}
	return !fclose(f);
}

int main(int argc, char **argv)
{
	char own[] = "/tmp/survival-XXXXXX";
	if (argc < 2 && !make_table(own)) return perror(own), 1;
	tj_ctx *c = tj_open(NULL);
	tj_csv *table = tj_csv_open(c, argc > 1 ? argv[1] : own, TJ_OPTS(tj_csv_opts, .fill = true, .empty = 50));
	tj_tensor *age = tj_csv_numbers(table, tj_csv_find(table, "age"), TJ_F64);
	tj_tensor *dose = tj_csv_numbers(table, tj_csv_find(table, "dose"), TJ_F64);
	tj_tensor *ward = tj_cast(tj_csv_categories(table, tj_csv_find(table, "ward")), TJ_F64);
	tj_tensor *survived = tj_csv_numbers(table, tj_csv_find(table, "survived"), TJ_F64);
	const int64_t n = tj_csv_rows(table);
	tj_csv_close(table);
	if (argc < 2) remove(own);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	tj_tensor *x = tj_stack(TJ_LIST(tj_div(tj_sub(age, tj_f(50)), tj_f(10)), dose, ward), 1);

	tjnn_linear m;
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED, .dtype = TJ_F64));
	tjnn_lbfgs *search = tjnn_lbfgs_open(model, loss, &m, 2, NULL);
	tj_fn *test = tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 2, .nout = 1));
	const clock_t begin = clock();
	const double last = tjnn_lbfgs_step(search, TJ_LIST(x, survived)), right = tj_item(tj_call1(test, TJ_LIST(x, survived)));
	fprintf(stderr, "time: %.3f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);

	double w[COLUMNS + 1], worst = 0;
	tj_read(m.weight, w, COLUMNS * sizeof *w);
	tj_read(m.bias, w + COLUMNS, sizeof *w);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	printf("%lld patients, seed %d: loss %.4f after %lld evaluations; %.1f %% are told right\n", (long long)n, SEED, last,
	       (long long)tjnn_lbfgs_evaluations(search), 100 * right);
	static const char *const name[] = { "ten years", "dose", "south", "constant" };
	for (int i = 0; i <= COLUMNS; i++) {
		printf("%-10s %6.3f", name[i], w[i]);
		if (argc < 2) printf("   drawn with %4.1f", known[i]);
		putchar('\n');
		worst = fmax(worst, fabs(w[i] - known[i]));
	}
	tjnn_lbfgs_close(search);
	tjnn_close(model);
	tj_close(c);
	return argc < 2 && worst > 0.25;
}
