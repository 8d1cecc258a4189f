/* SPDX-License-Identifier: MIT */
/* A convolutional network that reads digits: the program to begin with.
 *
 *   build/examples/digits [folder]      folder: for checkpoints, the best weights and metrics.csv; a second run goes on from there
 *
 * The data: 1,797 pictures of 8 x 8 pixels, from 0 to 16, written by 13 people; one fifth is held out. "Optical Recognition of Handwritten
 * Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0, in the selection of scikit-learn's load_digits(). */
#include <tjdata.h>
#include <tjfiles.h>
#include <tjnn.h>

#include <time.h>

enum { ALL = 1797, TRAINED = 1437, BATCH = 64, EPOCHS = 20, STEPS = EPOCHS * (TRAINED / BATCH), SEED = 1 };

typedef struct train { tjnn_sequential net; tjnn_optim *optim; } train;

static void layers(tjnn_walk *w, void *self)
{
	static const tjnn_spec net[] = {
		{ .kind = TJNN_CONV2D, .in = 1, .out = 16, .kernel = 3, .padding = 1, .no_bias = true },
		{ .kind = TJNN_BATCH, .out = 16 },
		{ .kind = TJNN_RELU },
		{ .kind = TJNN_CONV2D, .in = 16, .out = 32, .kernel = 3, .padding = 1, .no_bias = true },
		{ .kind = TJNN_BATCH, .out = 32 },
		{ .kind = TJNN_RELU },
		{ .kind = TJNN_MAX_POOL2D, .kernel = 2 },
		{ .kind = TJNN_FLATTEN },
		{ .kind = TJNN_DROPOUT, .p = 0.25 },
		{ .kind = TJNN_LINEAR, .in = 32 * 4 * 4, .out = 10 },
		{ .kind = TJNN_END_SPEC },
	};
	tjnn_sequential_layer(w, "net", &((train *)self)->net, net);
}

static tj_tensor *forward(const train *t, tj_tensor *pictures, bool training) /* u8 [N,8,8] -> f32 [N,10] */
{
	tj_tensor *x = tj_mul(tj_cast(tj_unsqueeze(pictures, 1), TJ_F32), tj_f(1. / 16));
	return tjnn_sequential_apply(&t->net, x, training);
}

/* Both: pictures and labels in; out the loss, the share of right answers. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const train *t = self;
	out[0] = tj_cross_entropy(forward(t, in[0], true), in[1]);
	tjnn_optim_step(t->optim, out[0]);
}

static void score(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *guess = tj_argmax(forward(self, in[0], false), 1, false);
	out[0] = tj_mean(tj_cast(tj_eq(guess, in[1]), TJ_F32), TJ_ALL, false);
}

int main(int argc, char **argv)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = SEED));
	tj_npz *file = tj_npz_open(c, "examples/data/digits.npz");
	tj_tensor *mixed = tj_randperm(ALL); /* a writer's digits stand together in the file */
	tj_tensor *x = tj_index_select(tj_npz_get(file, "images"), 0, mixed), *y = tj_index_select(tj_npz_get(file, "labels"), 0, mixed);
	tj_npz_close(file);
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(tj_narrow(x, 0, 0, TRAINED), tj_narrow(y, 0, 0, TRAINED)));
	tj_loader *loader = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = BATCH, .shuffle = true, .seed = SEED, .drop_last = true));

	train t;
	tjnn_model *model = tjnn_open(c, layers, &t, TJ_OPTS(tjnn_open_opts, .seed = SEED));
	t.optim = tjnn_optim_open(model, tjnn_adamw(1e-2), NULL);
	tj_fn *learn = tj_compile(c, step, &t, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 2, .nout = 1));
	tj_fn *test = tj_compile(c, score, &t, TJ_OPTS(tj_compile_opts, .name = "score", .nin = 2, .nout = 1));
	tj_list held_out = TJ_LIST(tj_narrow(x, 0, TRAINED, ALL - TRAINED), tj_narrow(y, 0, TRAINED, ALL - TRAINED));

	const tjnn_schedule rate = tjnn_one_cycle(STEPS);
	tjnn_run *run = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = STEPS, .model = model, .optim = t.optim, .loader = loader,
	                                         .schedule = &rate, .seed = SEED, .folder = argc > 1 ? argv[1] : NULL));
	const clock_t begin = clock();
	for (tj_tensor *batch[2]; tjnn_run_next(run, batch, 2);) {
		tjnn_run_log(run, "loss", tj_item(tj_call1(learn, TJ_LIST(batch[0], batch[1]))));
		if (tjnn_run_every(run, STEPS / EPOCHS)) tjnn_run_score(run, "right", tj_item(tj_call1(test, held_out)));
	}
	if (tjnn_run_close(run) != TJ_OK) return tj_perror(c, stderr), 1;

	const double right = tj_item(tj_call1(test, held_out));
	fprintf(stderr, "time: %.1f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
	printf("%lld parameters, %d steps, seed %d: %.1f %% of the held-out digits are right\n", (long long)tjnn_numel(model, true), STEPS, SEED,
	       100 * right);
	tjnn_optim_close(t.optim);
	tjnn_close(model);
	tj_loader_close(loader);
	tj_dataset_free(data);
	tj_close(c);
	return right < 0.985;
}
