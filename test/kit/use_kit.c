/* SPDX-License-Identifier: MIT */
/* A program of a user of the kit, for test/install.sh. */
#include <stdio.h>
#include <tjdata.h>
#include <tjdist.h>
#include <tjfiles.h>
#include <tjnn.h>

typedef struct net { tjnn_linear out; } net;
typedef struct train { net net; tjnn_optim *optim; } train;

static void layers(tjnn_walk *w, void *self) { tjnn_linear_layer(w, "out", &((net *)self)->out, 3, 1, true); }
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	train *t = self;
	out[0] = tj_mse_loss(tjnn_linear_apply(&t->net.out, in[0]), in[1], TJ_LOSS_MEAN);
	tjnn_optim_step(t->optim, out[0]);
}

int main(void)
{
	const float x[] = { 1, 2, 3, 3, 2, 1, 0, 1, 0 }, y[] = { 6, 6, 1 };
	tj_ctx *c = tj_open(NULL);
	train t = { .optim = NULL };
	tjnn_model *m = tjnn_open(c, layers, &t.net, NULL);
	t.optim = tjnn_optim_open(m, tjnn_adamw(0.1), NULL);
	tj_fn *f = tj_compile(c, step, &t, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 2, .nout = 1));
	tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 3), x), tj_from_data(c, TJ_F32, TJ_SHAPE(3, 1), y)));
	tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 3, .shuffle = true));
	tjnn_run *r = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = 300, .model = m, .optim = t.optim, .loader = l, .quiet = true));
	tj_tensor *b[2];
	double loss = 1;
	while (tjnn_run_next(r, b, 2)) tjnn_run_log(r, "loss", loss = tj_item(tj_call1(f, TJ_LIST(b[0], b[1]))));
	if (tjnn_run_close(r) != TJ_OK || tj_check(c) != TJ_OK) tj_perror(c, stderr), loss = 1;
	printf("loss %g\n", loss);
	tj_loader_close(l);
	tj_dataset_free(d);
	tjnn_optim_close(t.optim);
	tjnn_close(m);
	tj_close(c);
	return !(loss < 1e-2);
}
