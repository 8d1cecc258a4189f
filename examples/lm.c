/* SPDX-License-Identifier: MIT */
/* The GPT of gpt.c, made with the kit: its blocks, optimiser, schedule, loader and run are those of <tjnn.h> and <tjdata.h>.
 *
 *   build/examples/lm [--bf16] [--bpe] [text file] [steps] [device] [seed] [folder]
 *
 * --bpe: of tokens, byte pairs that are learned from the text, not of its characters. folder: for checkpoints and metrics.csv; a second
 * run goes on from there. The rest is as in gpt.c. */
#include <tjdata.h>
#include <tjnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 64, WIDTH = 128, BLOCKS = 4, HEADS = 4, BATCH = 32, SAMPLE = 300, TOKENS = 1024 };

typedef struct gpt {
	int64_t symbols; /* characters, or tokens */
	tjnn_embedding token;
	tj_tensor *place; /* [CONTEXT,WIDTH] */
	tjnn_encoder_block block[BLOCKS];
	tjnn_norm norm;
	tjnn_linear head;
	tjnn_optim *optim;
} gpt;

static void layers(tjnn_walk *w, void *self)
{
	gpt *m = self;
	tjnn_embedding_layer(w, "token", &m->token, m->symbols, WIDTH, -1);
	tjnn_param(w, "place", &m->place, TJ_SHAPE(CONTEXT, WIDTH), tjnn_normal(0, 0.02));
	for (int i = 0; i < BLOCKS; i++) {
		tjnn_encoder_block_layer(w, tjnn_name(w, "blocks.%d", i), &m->block[i],
		                         TJ_OPTS(tjnn_block_opts, .width = WIDTH, .heads = HEADS, .gelu = true, .norm_first = true));
	}
	tjnn_layer_norm_layer(w, "norm", &m->norm, TJ_SHAPE(WIDTH), true);
	tjnn_linear_layer(w, "head", &m->head, WIDTH, m->symbols, false);
}

/* ids [N,CONTEXT]; returns [N * CONTEXT,symbols] */
static tj_tensor *logits(const gpt *m, tj_tensor *ids)
{
	tj_tensor *x = tj_add(tjnn_embedding_apply(&m->token, ids), m->place);
	for (int i = 0; i < BLOCKS; i++) x = tjnn_encoder_block_apply(&m->block[i], x, TJ_OPTS(tjnn_attend, .causal = true), true);
	return tj_reshape(tjnn_linear_apply(&m->head, tjnn_norm_apply(&m->norm, x, true)), TJ_SHAPE(-1, m->symbols));
}

/* in: ids [N,CONTEXT], those that follow; out: the loss */
static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_cross_entropy(logits(self, in[0]), tj_reshape(in[1], TJ_SHAPE(-1)));
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const gpt *m = self;
	evaluate(out, in, self);
	tjnn_optim_step(m->optim, out[0]);
}

/* in: ids [1,CONTEXT]; out: these without the first, and a draw of the one that follows */
static void next_symbol(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *last = tj_narrow(logits(self, in[0]), 0, CONTEXT - 1, 1);
	out[0] = tj_cat(TJ_LIST(tj_narrow(in[0], 1, 1, CONTEXT - 1), tj_multinomial(tj_softmax(last, 1), 1, true)), 1);
}

static double held_out_loss(tj_ctx *c, tj_fn *test, tj_tensor *ids)
{
	tj_dataset *data = tj_dataset_windows(c, ids, CONTEXT, 0);
	tj_loader *l = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .drop_last = true, .epochs = 1));
	double mean;
	tjnn_evaluate(test, l, &mean, 1, NULL);
	tj_loader_close(l);
	tj_dataset_free(data);
	return mean;
}

/* A text as numbers of its characters, or of tokens. */
typedef struct source { tj_tensor *ids, *letters; tj_bpe *bpe; int64_t bytes, symbols; } source;
static source read_text(tj_ctx *c, const char *path, bool tokens)
{
	source s = { 0 };
	tj_tensor *text = tj_text_map(c, path);
	if (tj_is_poison(text)) return s;
	s.bytes = tj_numel(text);
	if (tokens) s.bpe = tj_bpe_train(c, tj_data(text), (size_t)s.bytes, TOKENS);
	if (tokens) s.ids = tj_bpe_encode(s.bpe, tj_data(text), (size_t)s.bytes);
	else s.letters = tj_unique_all(text, NULL, &s.ids, NULL);
	s.symbols = tokens ? tj_bpe_count(s.bpe) : tj_dim(s.letters, 0);
	return s;
}

static void print_sample(tj_fn *next, tj_tensor *window, const source *s)
{
	const char *letter = s->letters ? tj_data(s->letters) : NULL;
	for (int i = 0; i < SAMPLE && !tj_is_poison(window); i++) {
		window = tj_call1(next, TJ_LIST(window));
		const int64_t id = tj_item_i(tj_select(tj_select(window, 0, 0), 0, CONTEXT - 1));
		size_t bytes = 1;
		const char *token = s->bpe ? tj_bpe_token(s->bpe, id, &bytes) : letter + id;
		if (token) fwrite(token, 1, bytes, stdout);
	}
	putchar('\n');
}

typedef struct options { const char *text, *device, *folder; int64_t steps; uint64_t seed; tj_dtype dtype; bool tokens; } options;
static options read_options(int argc, char **argv)
{
	options o = { "/usr/share/common-licenses/GPL-3", "cpu", NULL, 300, 1, TJ_F32, false };
	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++)
		if (!strcmp(argv[1], "--bf16")) o.dtype = TJ_BF16;
		else if (!strcmp(argv[1], "--bpe")) o.tokens = true;
		else fprintf(stderr, "lm: %s is no option\n", argv[1]), exit(2);
	if (argc > 1) o.text = argv[1];
	if (argc > 2) o.steps = atoll(argv[2]);
	if (argc > 3) o.device = strcmp(argv[3], "cuda") ? argv[3] : "cuda:0";
	if (argc > 4) o.seed = (uint64_t)atoll(argv[4]);
	if (argc > 5) o.folder = argv[5];
	return o;
}

static tj_fn *compile(tj_ctx *c, gpt *m, tj_body *body, const char *name, int nin, tj_dtype dtype)
{
	return tj_compile(c, body, m, TJ_OPTS(tj_compile_opts, .name = name, .nin = nin, .nout = 1, .autocast = dtype,
	                                      .numerics = dtype == TJ_F32 ? TJ_STRICT : TJ_FAST));
}

static double now(void)
{
	struct timespec t;
	timespec_get(&t, TIME_UTC);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	const options o = read_options(argc, argv);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = o.device, .seed = o.seed));
	const source s = read_text(c, o.text, o.tokens);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	const int64_t n = tj_dim(s.ids, 0), trained = n * 9 / 10;
	tj_tensor *held_out = tj_narrow(s.ids, 0, trained, n - trained);
	tj_dataset *data = tj_dataset_windows(c, tj_narrow(s.ids, 0, 0, trained), CONTEXT, 1);
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = o.seed, .drop_last = true));

	gpt m = { .symbols = s.symbols };
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = o.seed));
	static const char *const small[] = { "token.weight", "head.weight", "*proj*weight", "*.linear?.weight" };
	for (int i = 0; i < 4; i++) tjnn_reset(model, small[i], tjnn_normal(0, 0.02));
	m.optim = tjnn_optim_open(model, tjnn_adamw(2e-3), NULL);
	tj_fn *learn = compile(c, &m, step, "step", 2, o.dtype), *test = compile(c, &m, evaluate, "evaluate", 2, o.dtype),
	      *next = compile(c, &m, next_symbol, "next_symbol", 1, o.dtype);
	printf("%s: %lld %s, %lld different; the last tenth is held out\n", o.text, (long long)n, o.tokens ? "tokens" : "characters",
	       (long long)m.symbols);

	tjnn_schedule rate = tjnn_linear_from(1, 0.1, o.steps);
	rate.warmup = 20;
	rate.warmup_from = 0.05;
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = o.steps, .model = model, .optim = m.optim, .loader = loader,
	                                         .schedule = &rate, .seed = o.seed, .folder = o.folder));
	const double begin = now();
	double first = 0, after = begin;
	for (tj_tensor *batch[2]; tjnn_run_next(run, batch, 2);) {
		const double loss = tj_item(tj_call1(learn, TJ_LIST(batch[0], batch[1])));
		tjnn_run_log(run, "loss", loss);
		if (!first) first = loss, after = now();
	}
	const double end = now();
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;
	const double held = held_out_loss(c, test, held_out);
	printf("trained %lld steps in %.1f s; held-out loss %.4f nats a character\n\n", (long long)o.steps, end - begin,
	       held * (double)n / (double)s.bytes);
	print_sample(next, tj_unsqueeze(tj_narrow(held_out, 0, 0, CONTEXT), 0), &s);
	tj_stats of = { .size = sizeof of };
	tj_fn_stats(learn, &of);
	printf("\nthe step: %llu plan, %llu fused kernels, %llu library calls, %llu evaluator steps; first call %.0f ms, then %.1f ms\n",
	       (unsigned long long)of.plans, (unsigned long long)of.kernels, (unsigned long long)of.library_calls,
	       (unsigned long long)of.eval_steps, (after - begin) * 1e3, (end - after) * 1e3 / (double)(o.steps - 1));
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_bpe_close(s.bpe);
	tj_close(c);
	return !(held < first);
}
