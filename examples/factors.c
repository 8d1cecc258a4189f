/* SPDX-License-Identifier: MIT */
/* Matrix factorisation: who likes what, from a table of ratings. A user and a film have 4 numbers each, whose products are the taste; both
 * have a number of their own, too (Koren, Bell and Volinsky, "Matrix Factorization Techniques for Recommender Systems", 2009).
 *
 *   build/examples/factors [ratings.csv]      columns user, film and rating, in random order; the last tenth is held out
 *
 * Without a file it makes one: 400 users, 150 films, 12,000 ratings that follow from 3 numbers each and noise of deviation 0.3. */
#define _POSIX_C_SOURCE 200809L
#include <tjdata.h>
#include <tjnn.h>

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 4, BATCH = 256, STEPS = 2000, SEED = 1 };

typedef struct model {
	int64_t users, films;
	double mean; /* of the ratings */
	tjnn_embedding user, film, user_bias, film_bias;
	tjnn_optim *optim;
} model;

static void layers(tjnn_walk *w, void *self)
{
	model *m = self;
	tjnn_embedding_layer(w, "user", &m->user, m->users, WIDTH, -1);
	tjnn_embedding_layer(w, "film", &m->film, m->films, WIDTH, -1);
	tjnn_embedding_layer(w, "user_bias", &m->user_bias, m->users, 1, -1);
	tjnn_embedding_layer(w, "film_bias", &m->film_bias, m->films, 1, -1);
}

/* in: users, films, ratings, all [N]; out: the mean squared error */
static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *taste = tj_mul(tjnn_embedding_apply(&m->user, in[0]), tjnn_embedding_apply(&m->film, in[1]));
	tj_tensor *bias = tj_add(tjnn_embedding_apply(&m->user_bias, in[0]), tjnn_embedding_apply(&m->film_bias, in[1]));
	tj_tensor *guess = tj_add(tj_add(tj_sum(taste, TJ_AXES(1), false), tj_squeeze(bias, TJ_AXES(1))), tj_f(m->mean));
	out[0] = tj_mse_loss(guess, in[2], TJ_LOSS_MEAN);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	evaluate(out, in, self);
	tjnn_optim_step(m->optim, out[0]);
}

/* ---- a table ---- */
static uint64_t draw(uint64_t *s) { return (*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) >> 33; }
static double normal(uint64_t *s) /* nearly */
{
	double sum = -6;
	for (int i = 0; i < 12; i++) sum += (double)draw(s) * 0x1p-31;
	return sum;
}

static bool make_table(char *path)
{
	enum { USERS = 400, FILMS = 150, RATINGS = 12000, TRUE_WIDTH = 3 };
	static double user[USERS][TRUE_WIDTH + 1], film[FILMS][TRUE_WIDTH + 1];
	uint64_t s = SEED;
	const int fd = mkstemp(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) return false;
	for (int k = 0; k <= TRUE_WIDTH; k++) {
		for (int i = 0; i < USERS; i++) user[i][k] = 0.6 * normal(&s);
		for (int i = 0; i < FILMS; i++) film[i][k] = 0.6 * normal(&s);
	}
	fputs("user,film,rating\n", f);
	for (int i = 0; i < RATINGS; i++) {
		const uint64_t u = draw(&s) % USERS, v = draw(&s) % FILMS;
		double rating = 3 + user[u][TRUE_WIDTH] + film[v][TRUE_WIDTH] + 0.3 * normal(&s);
		for (int k = 0; k < TRUE_WIDTH; k++) rating += user[u][k] * film[v][k];
		fprintf(f, "user%d,\"Film, part %d\",%.2f\n", (int)u, (int)v, rating);
	}
	return !fclose(f);
}

int main(int argc, char **argv)
{
	char own[] = "/tmp/factors-XXXXXX";
	if (argc < 2 && !make_table(own)) return perror(own), 1;
	tj_ctx *c = tj_open(NULL);
	tj_csv *table = tj_csv_open(c, argc > 1 ? argv[1] : own, NULL);
	tj_tensor *user = tj_csv_categories(table, tj_csv_find(table, "user")), *film = tj_csv_categories(table, tj_csv_find(table, "film"));
	tj_tensor *rating = tj_csv_numbers(table, tj_csv_find(table, "rating"), TJ_F32);
	const int64_t n = tj_csv_rows(table), trained = n * 9 / 10;
	tj_csv_close(table);
	if (argc < 2) remove(own);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;

	tj_tensor *part[2][3], *all[] = { user, film, rating };
	for (int i = 0; i < 3; i++) {
		part[0][i] = tj_narrow(all[i], 0, 0, trained);
		part[1][i] = tj_narrow(all[i], 0, trained, n - trained);
	}
	tj_list held_out = TJ_LIST(part[1][0], part[1][1], part[1][2]);
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(part[0][0], part[0][1], part[0][2]));
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = SEED, .drop_last = true));

	model m = { .users = tj_item_i(tj_amax(user, TJ_ALL, false)) + 1, .films = tj_item_i(tj_amax(film, TJ_ALL, false)) + 1,
		    .mean = tj_item(tj_mean(part[0][2], TJ_ALL, false)) };
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED));
	tjnn_reset(model, "*", tjnn_normal(0, 0.1));
	tjnn_rule rule = tjnn_adamw(2e-2);
	rule.weight_decay = 0.1;
	m.optim = tjnn_optim_open(model, rule, NULL);
	tj_fn *learn = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 3, .nout = 1));
	tj_fn *test = tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 3, .nout = 1));

	const tjnn_schedule rate = tjnn_cosine(STEPS, 0);
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = STEPS, .model = model, .optim = m.optim, .loader = loader,
	                                         .schedule = &rate, .seed = SEED, .smaller_is_better = true));
	const clock_t begin = clock();
	double error = 0;
	for (tj_tensor *batch[3]; tjnn_run_next(run, batch, 3);) {
		tjnn_run_log(run, "loss", tj_item(tj_call1(learn, TJ_LIST(batch[0], batch[1], batch[2]))));
		if (tjnn_run_every(run, STEPS / 10)) tjnn_run_score(run, "held_out", error = sqrt(tj_item(tj_call1(test, held_out))));
	}
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;

	const double without = tj_item(tj_std(part[1][2], TJ_ALL, 1, false));
	fprintf(stderr, "time: %.1f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
	printf("%lld ratings of %lld films by %lld users\n", (long long)n, (long long)m.films, (long long)m.users);
	printf("%d steps, seed %d: error of held-out ratings %.3f; their deviation is %.3f\n", STEPS, SEED, error, without);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return !(error < without / 2);
}
