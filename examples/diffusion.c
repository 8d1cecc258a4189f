/* SPDX-License-Identifier: MIT */
/* A diffusion model of the digits of digits.c (Ho, Jain and Abbeel, "Denoising Diffusion Probabilistic Models", 2020): a network learns to
 * tell how much noise is in a picture; pictures are made of noise alone, in 100 steps that each take a little away.
 *
 *   build/examples/diffusion [samples.png]      the file gets 96 pictures
 *
 * The loss is the mean squared error of the noise; an answer of 0 has 1. The samples' mean and deviation of pixels are compared with the
 * data's. The averages of the parameters make the samples. */
#include <tjdata.h>
#include <tjfiles.h>
#include <tjnn.h>

#include <math.h>
#include <time.h>

enum { ALL = 1797, TRAINED = 1437, PIXELS = 64, HIDDEN = 256, WAVES = 32, TIMES = 100, BATCH = 128, STEPS = 3000 };
enum { DOWN = 6, ACROSS = 16, ZOOM = 4, SEED = 1 };

typedef struct net {
	tjnn_linear in, time, hidden, out;
	tjnn_norm norm1, norm2;
	tjnn_optim *optim;
} net;

static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_linear_layer(w, "in", &m->in, PIXELS, HIDDEN, true);
	tjnn_linear_layer(w, "time", &m->time, 2 * WAVES, HIDDEN, true);
	tjnn_layer_norm_layer(w, "norm1", &m->norm1, TJ_SHAPE(HIDDEN), true);
	tjnn_linear_layer(w, "hidden", &m->hidden, HIDDEN, HIDDEN, true);
	tjnn_layer_norm_layer(w, "norm2", &m->norm2, TJ_SHAPE(HIDDEN), true);
	tjnn_linear_layer(w, "out", &m->out, HIDDEN, PIXELS, true);
}

/* The part of a picture's variance that is left after t of 100 steps, from nearly 1 to 0: Nichol and Dhariwal's cosine, 2021. */
static tj_tensor *left_after(tj_tensor *t) { return tj_square(tj_cos(tj_mul(t, tj_f(acos(-1) / 2 / (TIMES + 1))))); }

/* x f32 [N,64], t f32 [N,1]: the noise in x after t steps. Sines of many frequencies tell t. */
static tj_tensor *noise_in(const net *m, tj_tensor *x, tj_tensor *t)
{
	tj_tensor *frequency = tj_exp(tj_mul(tj_arange(TJ_F32, 0, WAVES, 1), tj_f(-log(TIMES) / WAVES)));
	tj_tensor *angle = tj_mul(t, frequency), *h = tjnn_linear_apply(&m->in, x);
	h = tj_add(h, tjnn_linear_apply(&m->time, tj_cat(TJ_LIST(tj_sin(angle), tj_cos(angle)), 1)));
	h = tj_silu(tjnn_norm_apply(&m->norm1, h, true));
	h = tj_add(h, tj_silu(tjnn_norm_apply(&m->norm2, tjnn_linear_apply(&m->hidden, h), true)));
	return tjnn_linear_apply(&m->out, h);
}

/* x f32 [N,64], from -1 to 1; each picture gets noise of a random number of steps */
static tj_tensor *loss_of(const net *m, tj_tensor *x)
{
	tj_tensor *t = tj_randint(TJ_F32, TJ_SHAPE(tj_dim(x, 0), 1), 1, TIMES + 1), *noise = tj_randn_like(x), *left = left_after(t);
	tj_tensor *noisy = tj_add(tj_mul(x, tj_sqrt(left)), tj_mul(noise, tj_sqrt(tj_sub(tj_f(1), left))));
	return tj_mse_loss(noise_in(m, noisy, t), noise, TJ_LOSS_MEAN);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	out[0] = loss_of(m, in[0]);
	tjnn_optim_step(m->optim, out[0]);
}

static void evaluate(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = loss_of(self, in[0]); }

/* in: x f32 [N,64], t, a number; out: a draw of x one step earlier */
static void earlier(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *t = tj_cast(in[1], TJ_F32), *left = left_after(t), *before = left_after(tj_sub(t, tj_f(1)));
	tj_tensor *keep = tj_div(left, before), *noise = noise_in(self, x, tj_reshape(t, TJ_SHAPE(1, 1)));
	tj_tensor *clean = tj_div(tj_sub(x, tj_mul(noise, tj_sqrt(tj_sub(tj_f(1), left)))), tj_sqrt(left));
	clean = tj_clamp(clean, tj_f(-1), tj_f(1));
	tj_tensor *mean = tj_add(tj_mul(clean, tj_mul(tj_sqrt(before), tj_sub(tj_f(1), keep))),
	                         tj_mul(x, tj_mul(tj_sqrt(keep), tj_sub(tj_f(1), before))));
	tj_tensor *variance = tj_div(tj_mul(tj_sub(tj_f(1), before), tj_sub(tj_f(1), keep)), tj_sub(tj_f(1), left));
	out[0] = tj_add(tj_div(mean, tj_sub(tj_f(1), left)), tj_mul(tj_sqrt(variance), tj_randn_like(x)));
}

/* Pictures f32 [DOWN * ACROSS,64] as rows, with a border each: u8 [DOWN * 10 * ZOOM,ACROSS * 10 * ZOOM] */
static tj_tensor *sheet(tj_tensor *x)
{
	x = tj_cast(tj_round(tj_mul(tj_add(x, tj_f(1)), tj_f(127.5))), TJ_U8);
	x = tj_pad(tj_reshape(x, TJ_SHAPE(DOWN, ACROSS, 8, 8)), TJ_SHAPE(1, 1, 1, 1), TJ_PAD_CONSTANT, tj_i(0));
	x = tj_reshape(tj_permute(x, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(DOWN * 10, ACROSS * 10));
	return tj_repeat_interleave(tj_repeat_interleave(x, ZOOM, 0), ZOOM, 1);
}

static double mean_of(tj_tensor *x) { return tj_item(tj_mean(x, TJ_ALL, false)); }
static double deviation_of(tj_tensor *x) { return tj_item(tj_std(x, TJ_ALL, 1, false)); }

int main(int argc, char **argv)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = SEED));
	tj_npz *file = tj_npz_open(c, "examples/data/digits.npz");
	tj_tensor *x = tj_index_select(tj_npz_get(file, "images"), 0, tj_randperm(ALL));
	tj_npz_close(file);
	x = tj_sub(tj_mul(tj_cast(tj_reshape(x, TJ_SHAPE(ALL, PIXELS)), TJ_F32), tj_f(1. / 8)), tj_f(1));
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(tj_narrow(x, 0, 0, TRAINED)));
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = SEED, .drop_last = true));

	net m = { .optim = NULL };
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = SEED));
	m.optim = tjnn_optim_open(model, tjnn_adamw(2e-3), TJ_OPTS(tjnn_optim_opts, .ema = 0.995));
	tj_fn *learn = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 1));
	tj_fn *test = tj_compile(c, evaluate, &m, TJ_OPTS(tj_compile_opts, .name = "evaluate", .nin = 1, .nout = 1));
	tj_fn *back = tj_compile(c, earlier, &m, TJ_OPTS(tj_compile_opts, .name = "earlier", .nin = 2, .nout = 1));

	const tjnn_schedule rate = tjnn_cosine(STEPS, 0);
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = STEPS, .model = model, .optim = m.optim, .loader = loader,
	                                         .schedule = &rate, .seed = SEED));
	const clock_t begin = clock();
	for (tj_tensor *batch[1]; tjnn_run_next(run, batch, 1);) tjnn_run_log(run, "loss", tj_item(tj_call1(learn, TJ_LIST(batch[0]))));
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;

	tjnn_optim_swap(m.optim); /* the averages */
	const double loss = tj_item(tj_call1(test, TJ_LIST(tj_narrow(x, 0, TRAINED, ALL - TRAINED))));
	tj_tensor *made = tj_normal(TJ_F32, TJ_SHAPE(DOWN * ACROSS, PIXELS));
	for (int t = TIMES; t > 0; t--) made = tj_call1(back, TJ_LIST(made, tj_f(t)));
	if (argc > 1) tj_png_save(sheet(made), argv[1]);
	const double mean = mean_of(made), deviation = deviation_of(made);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	fprintf(stderr, "time: %.1f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
	printf("%d steps, seed %d: error of the noise in held-out digits %.3f\n", STEPS, SEED, loss);
	printf("pixels of samples: mean %.2f, deviation %.2f; of the data: %.2f, %.2f\n", mean, deviation, mean_of(x), deviation_of(x));
	tjnn_optim_close(m.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return loss > 0.3 || fabs(mean - mean_of(x)) > 0.1;
}
