/* SPDX-License-Identifier: MIT */
/* A text model of characters by an LSTM. The text is cut into 16 streams, which are read side by side, 32 characters a step. The state goes
 * on to the next step in cells, and no gradient does: truncated backpropagation through time.
 *
 *   build/examples/text_lstm [text file] [steps] [folder]      folder: for checkpoints; a second run goes on from there
 *
 * The last tenth of the text is held out. The perplexity is how many characters the model hesitates between, on average. */
#include <tjdata.h>
#include <tjnn.h>

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { STREAMS = 16, WINDOW = 32, WIDTH = 128, SAMPLE = 300, SEED = 1 };

typedef struct model {
	int64_t characters;
	tjnn_embedding table;
	tjnn_recurrent lstm;
	tjnn_linear out;
	tjnn_optim *optim;
	tjnn_carry streams, one; /* cells: the state of training, and that of one text */
} model;

static void layers(tjnn_walk *w, void *self)
{
	model *m = self;
	tjnn_embedding_layer(w, "table", &m->table, m->characters, WIDTH, -1);
	tjnn_recurrent_layer(w, "lstm", &m->lstm, TJNN_LSTM, WIDTH, WIDTH, NULL);
	tjnn_linear_layer(w, "out", &m->out, WIDTH, m->characters, true);
}

/* ids [N,T]; moves the state on; returns logits [N * T,characters] */
static tj_tensor *logits(const model *m, tj_tensor *ids, const tjnn_carry *state, tj_tensor *keep, bool training)
{
	tjnn_carry carry = { tj_mul(state->h, keep), tj_mul(state->c, keep) };
	tj_tensor *x = tjnn_recurrent_apply(&m->lstm, tjnn_embedding_apply(&m->table, ids), &carry, training);
	tj_assign(state->h, carry.h);
	tj_assign(state->c, carry.c);
	x = tj_reshape(x, TJ_SHAPE(-1, WIDTH));
	return tjnn_linear_apply(&m->out, tj_dropout(x, 0.2, training));
}

/* in: characters [1,N,T], those that follow them, 0 to forget the state, else 1; out: the loss */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	out[0] = tj_cross_entropy(logits(m, tj_squeeze(in[0], TJ_AXES(0)), &m->streams, in[2], true), tj_reshape(in[1], TJ_SHAPE(-1)));
	tjnn_optim_step(m->optim, out[0]);
}

/* The same for a text [1,T] */
static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	out[0] = tj_cross_entropy(logits(m, in[0], &m->one, in[2], false), tj_reshape(in[1], TJ_SHAPE(-1)));
}

/* in: a character [1,1]; out: a draw of the next one [1,1] */
static void next_char(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	out[0] = tj_multinomial(tj_softmax(logits(m, in[0], &m->one, tj_f(1), false), 1), 1, true);
}

/* n characters from `first` on as [windows,streams,WINDOW] */
static tj_tensor *windows(tj_tensor *ids, int64_t first, int64_t n)
{
	return tj_permute(tj_reshape(tj_narrow(ids, 0, first, n), TJ_SHAPE(STREAMS, -1, WINDOW)), TJ_AXES(1, 0, 2));
}

static double held_out_loss(tj_ctx *c, tj_fn *test, tj_tensor *ids, int64_t from)
{
	double sum = 0, n = 0;
	for (int64_t at = from; at + 8 * WINDOW < tj_dim(ids, 0); at += 8 * WINDOW, n++) {
		tj_scope *s = tj_push(c);
		tj_tensor *text[2];
		for (int i = 0; i < 2; i++) text[i] = tj_unsqueeze(tj_narrow(ids, 0, at + i, 8 * WINDOW), 0);
		sum += tj_item(tj_call1(test, TJ_LIST(text[0], text[1], tj_f(at > from))));
		tj_pop(s);
	}
	return sum / n;
}

static void print_sample(tj_ctx *c, tj_fn *next, tj_tensor *letters)
{
	const uint8_t *letter = tj_data(letters);
	int64_t id = 0; /* the first one by its byte: the end of a line */
	for (int i = 0; letter && i < SAMPLE; i++) {
		tj_scope *s = tj_push(c);
		id = tj_item_i(tj_call1(next, TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(1, 1), &id))));
		tj_pop(s);
		putchar(letter[id]);
	}
	putchar('\n');
}

static tj_fn *compile(tj_ctx *c, model *m, tj_body *body, const char *name, int nin)
{
	return tj_compile(c, body, m, TJ_OPTS(tj_compile_opts, .name = name, .nin = nin, .nout = 1));
}

int main(int argc, char **argv)
{
	const int64_t steps = argc > 2 ? atoll(argv[2]) : 300;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = SEED));
	tj_tensor *ids, *letters = tj_unique_all(tj_text_map(c, argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3"), NULL, &ids, NULL);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	const int64_t n = tj_dim(ids, 0), turns = n * 9 / 10 / (STREAMS * WINDOW), trained = turns * STREAMS * WINDOW;
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(windows(ids, 0, trained), windows(ids, 1, trained)));
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = 1));

	model m = { .characters = tj_dim(letters, 0) };
	tj_tensor **cell[] = { &m.streams.h, &m.streams.c, &m.one.h, &m.one.c };
	for (int i = 0; i < 4; i++) *cell[i] = tj_param(c, TJ_F32, TJ_SHAPE(1, i < 2 ? STREAMS : 1, WIDTH));
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED));
	m.optim = tjnn_optim_open(model, tjnn_adamw(5e-3), TJ_OPTS(tjnn_optim_opts, .clip_norm = 1));
	tj_fn *learn = compile(c, &m, step, "step", 3), *test = compile(c, &m, evaluate, "evaluate", 3),
	      *next = compile(c, &m, next_char, "next_char", 1);

	const tjnn_value state[] = { { .name = "h", .cell = cell[0] }, { .name = "c", .cell = cell[1] }, { .name = NULL } };
	tjnn_schedule rate = tjnn_cosine(steps, 0);
	rate.warmup = 20;
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = steps, .model = model, .optim = m.optim, .loader = loader,
	                                         .schedule = &rate, .seed = SEED, .values = state, .folder = argc > 3 ? argv[3] : NULL));
	const clock_t begin = clock();
	for (tj_tensor *batch[2]; tjnn_run_next(run, batch, 2);) {
		tj_tensor *keep = tj_f(tjnn_run_step(run) % turns != 0);
		tjnn_run_log(run, "loss", tj_item(tj_call1(learn, TJ_LIST(batch[0], batch[1], keep))));
	}
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;

	fprintf(stderr, "time: %.1f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
	const double loss = held_out_loss(c, test, ids, trained);
	printf("%lld characters, %lld different; %lld steps, seed %d: perplexity of the held-out text %.2f\n\n", (long long)n,
	       (long long)m.characters, (long long)steps, SEED, exp(loss));
	print_sample(c, next, letters);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return !(loss < log((double)m.characters) / 1.5);
}
