/* SPDX-License-Identifier: MIT */
/* A variational autoencoder on the digits of digits.c (Kingma and Welling, "Auto-Encoding Variational Bayes", 2014): a picture becomes a
 * normal distribution over 8 numbers, a draw from it becomes a picture again.
 *
 *   build/examples/vae [samples.png]      the file gets 96 pictures that the decoder makes of random numbers
 *
 * The loss is the negative ELBO, an upper bound on the nats that a picture costs, grey being a probability. For comparison: its cost when
 * each pixel has a mean of its own and does not depend on the others. */
#include <tjdata.h>
#include <tjfiles.h>
#include <tjnn.h>

#include <time.h>

enum { ALL = 1797, TRAINED = 1437, PIXELS = 64, LATENT = 8, HIDDEN = 256, BATCH = 64, EPOCHS = 60, STEPS = EPOCHS * (TRAINED / BATCH) };
enum { DOWN = 6, ACROSS = 16, ZOOM = 4, SEED = 1 };

typedef struct net { tjnn_sequential encoder, decoder; tjnn_optim *optim; } net;

static void layers(tjnn_walk *w, void *self)
{
	static const tjnn_spec encoder[] = {
		{ .kind = TJNN_LINEAR, .in = PIXELS, .out = HIDDEN },
		{ .kind = TJNN_SILU },
		{ .kind = TJNN_LINEAR, .in = HIDDEN, .out = 2 * LATENT },
		{ .kind = TJNN_END_SPEC },
	}, decoder[] = {
		{ .kind = TJNN_LINEAR, .in = LATENT, .out = HIDDEN },
		{ .kind = TJNN_SILU },
		{ .kind = TJNN_LINEAR, .in = HIDDEN, .out = PIXELS },
		{ .kind = TJNN_END_SPEC },
	};
	net *m = self;
	tjnn_sequential_layer(w, "encoder", &m->encoder, encoder);
	tjnn_sequential_layer(w, "decoder", &m->decoder, decoder);
}

/* The nats of all pixels of a picture, on average over the pictures. */
static tj_tensor *nats(tj_tensor *logits, tj_tensor *x)
{
	tj_tensor *each = tj_binary_cross_entropy_with_logits(logits, x, TJ_OPTS(tj_loss_opts, .reduction = TJ_LOSS_NONE));
	return tj_mean(tj_sum(each, TJ_AXES(1), false), TJ_ALL, false);
}

static tj_tensor *negative_elbo(const net *m, tj_tensor *x, bool training)
{
	tj_tensor *part[2];
	tj_chunk(tjnn_sequential_apply(&m->encoder, x, training), 2, 1, part);
	tj_tensor *mean = part[0], *log_var = part[1];
	tj_tensor *z = tj_add(mean, tj_mul(tj_exp(tj_mul(log_var, tj_f(0.5))), tj_randn_like(mean)));
	tj_tensor *kl = tj_sub(tj_add(tj_square(mean), tj_exp(log_var)), tj_add(log_var, tj_f(1)));
	return tj_add(nats(tjnn_sequential_apply(&m->decoder, z, training), x),
	              tj_mul(tj_mean(tj_sum(kl, TJ_AXES(1), false), TJ_ALL, false), tj_f(0.5)));
}

/* in: x f32 [N,64], from 0 to 1; out: the loss */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	out[0] = negative_elbo(m, in[0], true);
	tjnn_optim_step(m->optim, out[0]);
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = negative_elbo(self, in[0], false); }

/* in: pictures for training, held-out ones; out: the nats of the latter when each pixel has the mean of the former */
static void means(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *p = tj_clamp(tj_mean(in[0], TJ_AXES(0), true), tj_f(1e-4), tj_f(1 - 1e-4));
	(void)self;
	out[0] = nats(tj_add(tj_zeros_like(in[1]), tj_log(tj_div(p, tj_sub(tj_f(1), p)))), in[1]);
}

/* out: u8 [DOWN * 10 * ZOOM,ACROSS * 10 * ZOOM], rows of pictures with a border each */
static void sheet(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	(void)in;
	tj_tensor *x = tj_sigmoid(tjnn_sequential_apply(&m->decoder, tj_normal(TJ_F32, TJ_SHAPE(DOWN * ACROSS, LATENT)), false));
	x = tj_cast(tj_round(tj_mul(x, tj_f(255))), TJ_U8);
	x = tj_pad(tj_reshape(x, TJ_SHAPE(DOWN, ACROSS, 8, 8)), TJ_SHAPE(1, 1, 1, 1), TJ_PAD_CONSTANT, tj_i(0));
	x = tj_reshape(tj_permute(x, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(DOWN * 10, ACROSS * 10));
	out[0] = tj_repeat_interleave(tj_repeat_interleave(x, ZOOM, 0), ZOOM, 1);
}

int main(int argc, char **argv)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = SEED));
	tj_npz *file = tj_npz_open(c, "examples/data/digits.npz");
	tj_tensor *x = tj_index_select(tj_npz_get(file, "images"), 0, tj_randperm(ALL));
	tj_npz_close(file);
	x = tj_mul(tj_cast(tj_reshape(x, TJ_SHAPE(ALL, PIXELS)), TJ_F32), tj_f(1. / 16));
	tj_tensor *train = tj_narrow(x, 0, 0, TRAINED), *held_out = tj_narrow(x, 0, TRAINED, ALL - TRAINED);
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(train));
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = SEED, .drop_last = true));

	net m;
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED));
	m.optim = tjnn_optim_open(model, tjnn_adamw(3e-3), NULL);
	tj_fn *learn = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 1));
	tj_fn *test = tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 1, .nout = 1));
	tj_fn *alone = tj_compile(c, means, NULL, TJ_OPTS(tj_compile_opts, .name = "means", .nin = 2, .nout = 1));
	tj_fn *draw = tj_compile(c, sheet, &m, TJ_OPTS(tj_compile_opts, .name = "sheet", .nout = 1));

	const tjnn_schedule rate = tjnn_cosine(STEPS, 0);
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = STEPS, .model = model, .optim = m.optim, .loader = loader,
	                                         .schedule = &rate, .seed = SEED, .smaller_is_better = true));
	const clock_t begin = clock();
	double elbo = 0;
	for (tj_tensor *batch[1]; tjnn_run_next(run, batch, 1);) {
		tjnn_run_log(run, "loss", tj_item(tj_call1(learn, TJ_LIST(batch[0]))));
		if (tjnn_run_every(run, STEPS / 10)) tjnn_run_score(run, "held_out", elbo = tj_item(tj_call1(test, TJ_LIST(held_out))));
	}
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;

	const double plain = tj_item(tj_call1(alone, TJ_LIST(train, held_out)));
	if (argc > 1) tj_png_save(tj_call1(draw, TJ_NONE), argv[1]);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	fprintf(stderr, "time: %.1f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
	printf("%d steps, seed %d: negative ELBO of the held-out digits %.2f nats; by the means of pixels %.2f\n", STEPS, SEED, elbo, plain);
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return !(elbo < plain - 2);
}
