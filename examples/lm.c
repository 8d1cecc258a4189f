/* SPDX-License-Identifier: MIT */
/* The GPT of gpt.c, made with the kit: its blocks, optimiser, schedule, loader and run are those of <tjnn.h> and <tjdata.h>.
 *
 *   build/examples/lm [--bf16] [text file] [steps] [device] [seed] [folder]
 *
 * folder: for checkpoints and metrics.csv; a second run goes on from there. The rest is as in gpt.c. */
#include <tjdata.h>
#include <tjnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 64, WIDTH = 128, BLOCKS = 4, HEADS = 4, BATCH = 32, SAMPLE = 300 };

typedef struct gpt {
	int64_t characters;
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
	tjnn_embedding_layer(w, "token", &m->token, m->characters, WIDTH, -1);
	tjnn_param(w, "place", &m->place, TJ_SHAPE(CONTEXT, WIDTH), tjnn_normal(0, 0.02));
	for (int i = 0; i < BLOCKS; i++) {
		tjnn_encoder_block_layer(w, tjnn_name(w, "blocks.%d", i), &m->block[i],
		                         TJ_OPTS(tjnn_block_opts, .width = WIDTH, .heads = HEADS, .gelu = true, .norm_first = true));
	}
	tjnn_layer_norm_layer(w, "norm", &m->norm, TJ_SHAPE(WIDTH), true);
	tjnn_linear_layer(w, "head", &m->head, WIDTH, m->characters, false);
}

/* ids [N,CONTEXT]; returns [N * CONTEXT,characters] */
static tj_tensor *logits(const gpt *m, tj_tensor *ids)
{
	tj_tensor *x = tj_add(tjnn_embedding_apply(&m->token, ids), m->place);
	for (int i = 0; i < BLOCKS; i++) x = tjnn_encoder_block_apply(&m->block[i], x, TJ_OPTS(tjnn_attend, .causal = true), true);
	return tj_reshape(tjnn_linear_apply(&m->head, tjnn_norm_apply(&m->norm, x, true)), TJ_SHAPE(-1, m->characters));
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
static void next_char(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *last = tj_narrow(logits(self, in[0]), 0, CONTEXT - 1, 1);
	out[0] = tj_cat(TJ_LIST(tj_narrow(in[0], 1, 1, CONTEXT - 1), tj_multinomial(tj_softmax(last, 1), 1, true)), 1);
}

static double held_out_loss(tj_ctx *c, tj_fn *test, tj_tensor *ids)
{
	tj_dataset *data = tj_dataset_windows(c, ids, CONTEXT, 0);
	tj_loader *l = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .drop_last = true, .epochs = 1));
	double sum = 0, n = 0;
	tj_scope *s = tj_push(c);
	for (tj_tensor *batch[2]; tj_loader_next(l, batch, 2); n++) {
		sum += tj_item(tj_call1(test, TJ_LIST(batch[0], batch[1])));
		tj_pop(s);
		s = tj_push(c);
	}
	tj_pop(s);
	tj_loader_close(l);
	tj_dataset_free(data);
	return sum / n;
}

static void print_sample(tj_fn *next, tj_tensor *window, tj_tensor *letters)
{
	const uint8_t *letter = tj_data(letters);
	for (int i = 0; letter && i < SAMPLE; i++) {
		window = tj_call1(next, TJ_LIST(window));
		putchar(letter[tj_item_i(tj_select(tj_select(window, 0, 0), 0, CONTEXT - 1))]);
	}
	putchar('\n');
}

typedef struct options { const char *text, *device, *folder; int64_t steps; uint64_t seed; tj_dtype dtype; } options;
static options read_options(int argc, char **argv)
{
	options o = { "/usr/share/common-licenses/GPL-3", "cpu", NULL, 300, 1, TJ_F32 };
	if (argc > 1 && !strcmp(argv[1], "--bf16")) o.dtype = TJ_BF16, argc--, argv++;
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
	tj_tensor *ids, *letters = tj_unique_all(tj_text_map(c, o.text), NULL, &ids, NULL);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	const int64_t n = tj_dim(ids, 0), trained = n * 9 / 10;
	tj_tensor *held_out = tj_narrow(ids, 0, trained, n - trained);
	tj_dataset *data = tj_dataset_windows(c, tj_narrow(ids, 0, 0, trained), CONTEXT, 1);
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = o.seed, .drop_last = true));

	gpt m = { .characters = tj_dim(letters, 0) };
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = o.seed));
	static const char *const small[] = { "token.weight", "head.weight", "*proj*weight", "*.linear?.weight" };
	for (int i = 0; i < 4; i++) tjnn_reset(model, small[i], tjnn_normal(0, 0.02));
	m.optim = tjnn_optim_open(model, tjnn_adamw(2e-3), NULL);
	tj_fn *learn = compile(c, &m, step, "step", 2, o.dtype), *test = compile(c, &m, evaluate, "evaluate", 2, o.dtype),
	      *next = compile(c, &m, next_char, "next_char", 1, o.dtype);
	printf("%s: %lld characters, %lld different; the last tenth is held out\n", o.text, (long long)n, (long long)m.characters);

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
	printf("trained %lld steps in %.1f s; held-out loss %.4f nats a character\n\n", (long long)o.steps, end - begin, held);
	print_sample(next, tj_unsqueeze(tj_narrow(held_out, 0, 0, CONTEXT), 0), letters);
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(learn, &s);
	printf("\nthe step: %llu plan, %llu fused kernels, %llu library calls, %llu evaluator steps; first call %.0f ms, then %.1f ms\n",
	       (unsigned long long)s.plans, (unsigned long long)s.kernels, (unsigned long long)s.library_calls,
	       (unsigned long long)s.eval_steps, (after - begin) * 1e3, (end - after) * 1e3 / (double)(o.steps - 1));
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return !(held < first);
}
