/* SPDX-License-Identifier: MIT */
/* A short training that test/trained.sh kills, continues, and runs with other numbers of workers and ranks: the last parameters must have
 * the same bits.
 *
 *   trained [--mpi] [--spread] [--weights] [--workers N] [--accumulate N] [--steps N] [--rule adamw|sgd|lion] [--sleep us] FOLDER
 * OUT.safetensors
 *
 * It has dropout, a batch norm unless there are ranks or sums of gradients, averages, a schedule, and values of its own. --weights: only
 * the parameters are written at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tjdata.h>
#include <tjdist.h>
#include <tjnn.h>
#include <unistd.h>

enum { ITEMS = 195 /* 24 whole batches, which 2 and 4 ranks divide */, INPUTS = 12, BATCH = 8 };

typedef struct net {
	tjnn_linear up, down;
	tjnn_norm norm;
	tjnn_embedding table;
	bool plain;
} net;
typedef struct train {
	net net;
	tjnn_optim *optim;
} train;

static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_embedding_layer(w, "table", &m->table, 5, INPUTS, -1);
	tjnn_linear_layer(w, "up", &m->up, INPUTS, 24, true);
	if (!m->plain) tjnn_batch_norm_layer(w, "norm", &m->norm, 24);
	tjnn_linear_layer(w, "down", &m->down, 24, 3, true);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	train *t = self;
	net *m = &t->net;
	tj_tensor *x = tj_add(in[0], tjnn_embedding_apply(&m->table, in[2]));
	x = tjnn_linear_apply(&m->up, x);
	if (!m->plain) x = tjnn_norm_apply(&m->norm, x, true);
	out[0] = tj_cross_entropy(tjnn_linear_apply(&m->down, tj_relu(tj_dropout(x, 0.2, true))), in[1]);
	tjnn_optim_step(t->optim, out[0]);
}

/* Item i: numbers that follow from i and, as an augmentation, from its random bits. */
static int64_t length(void *self) { return (void)self, ITEMS; }
static bool item(void *self, int64_t i, tj_sample *s)
{
	float *x = tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(INPUTS));
	int64_t *y = tj_sample_put(s, 1, TJ_I64, TJ_0D), *k = tj_sample_put(s, 2, TJ_I64, TJ_0D);
	(void)self;
	if (!x || !y || !k) return false;
	for (int j = 0; j < INPUTS; j++) x[j] = (float)((i * 31 + j * 7) % 17 - 8) / 8 + (float)(tj_sample_random(s) % 100) / 1000;
	*y = i % 3;
	*k = i % 5;
	return true;
}

typedef struct options {
	bool mpi, spread, weights;
	int64_t workers, accumulate, steps, sleep;
	const char *rule, *folder, *out;
} options;

static options read_options(int argc, char **argv)
{
	options o = { .steps = 60, .rule = "adamw", .accumulate = 1 };
	int i = 1;
	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--mpi"))
			o.mpi = true;
		else if (!strcmp(argv[i], "--spread"))
			o.spread = true;
		else if (!strcmp(argv[i], "--weights"))
			o.weights = true;
		else if (i + 1 == argc)
			exit(2);
		else if (!strcmp(argv[i], "--workers"))
			o.workers = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--accumulate"))
			o.accumulate = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--steps"))
			o.steps = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--sleep"))
			o.sleep = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--rule"))
			o.rule = argv[++i];
		else
			exit(2);
	}
	if (i + 2 != argc) exit(2);
	o.folder = strcmp(argv[i], "-") ? argv[i] : NULL;
	o.out = argv[i + 1];
	return o;
}

static tjnn_rule rule_of(const char *name)
{
	return !strcmp(name, "sgd") ? tjnn_sgd(0.1) : !strcmp(name, "lion") ? tjnn_lion(1e-3) : tjnn_adamw(1e-2);
}

int main(int argc, char **argv)
{
	const options o = read_options(argc, argv);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = 1));
	tj_comm *w = o.mpi ? tj_comm_open(c, "mpi", NULL) : NULL;
	train t = { .net.plain = o.mpi || o.accumulate > 1 };
	tjnn_model *m = tjnn_open(c, layers, &t.net, TJ_OPTS(tjnn_open_opts, .seed = 7));
	t.optim = tjnn_optim_open(m, rule_of(o.rule),
	                          TJ_OPTS(tjnn_optim_opts, .comm = w, .spread = o.spread, .accumulate = o.accumulate, .ema = 0.9,
	                                  .clip_norm = 1, .bucket_bytes = 600));
	tj_fn *f = tj_compile(c, step, &t, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 3, .nout = 1));
	const tj_dataset d = { .length = length, .item = item };
	tj_loader *l = tj_loader_open(c, &d,
	                              TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = 3, .workers = (int)o.workers,
	                                      .drop_last = true, .rank = w ? tj_comm_rank(w) : 0, .ranks = w ? tj_comm_size(w) : 1));
	double sum = 0;
	int64_t seen = 0;
	const tjnn_value values[] = { { "sum", NULL, &sum, NULL }, { "seen", &seen, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	tjnn_schedule s = tjnn_cosine(o.steps / o.accumulate, 1e-4);
	s.warmup = 5;
	tjnn_run *r = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = o.steps, .model = m, .optim = t.optim, .loader = l, .schedule = &s,
	                                       .seed = 5, .values = values, .folder = o.folder, .save_every = 7, .keep = 2, .quiet = true,
	                                       .tensorboard = true));
	tj_tensor *b[3];
	while (r && tjnn_run_next(r, b, 3)) {
		const double loss = tj_item(tj_call1(f, TJ_LIST(b[0], b[1], b[2])));
		sum += loss;
		seen += tj_dim(b[0], 0);
		tjnn_run_log(r, "loss", loss);
		if (o.sleep) usleep((useconds_t)o.sleep);
	}
	const bool whole = r && !tjnn_run_interrupted(r);
	tj_status st = r ? tjnn_run_close(r) : TJ_ERR_STATE;
	if (st == TJ_OK && whole && !o.weights) st = tjnn_save(m, t.optim, values, o.out);
	if (st == TJ_OK && whole && o.weights && (!w || !tj_comm_rank(w))) st = tjnn_save(m, NULL, NULL, o.out);
	if (st != TJ_OK) tj_check(c), tj_perror(c, stderr);
	tj_loader_close(l);
	tjnn_optim_close(t.optim);
	tjnn_close(m);
	tj_comm_close(w);
	tj_close(c);
	return st != TJ_OK;
}
