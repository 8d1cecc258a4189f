/* SPDX-License-Identifier: MIT */
/* Linear layers, embeddings and convolutions. */
#include "kit/nn/nn.h"

#include <math.h>

/* ---- linear ---- */
/* PyTorch draws the weight by Kaiming with gain 1 / sqrt(3), which is the same. */
tjnn_init nn_within(double fan_in)
{
	const double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
	return tjnn_uniform(-bound, bound);
}

tj_tensor *nn_unvisited(const char *site, const void *m, const char *op)
{
	if (!m) return tj_fail(TJ_ERR_ARG, op, "pass the address of a field of the module", "the layer is NULL");
	return tj_fail(TJ_ERR_STATE, op, "tjnn_open() makes the parameters", "no walk has visited this layer");
}

void nn_linear(const char *site, tjnn_walk *w, const char *name, tjnn_linear *m, int64_t in, int64_t out, bool bias, tjnn_init of_bias)
{
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	tjnn_enter(w, "%s", name);
	tjnn_param(w, "weight", &m->weight, TJ_SHAPE(out, in), nn_within((double)in));
	if (bias) tjnn_param(w, "bias", &m->bias, TJ_SHAPE(out), of_bias);
	tjnn_leave(w);
}

void tjnn_linear_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_linear *m, int64_t in, int64_t out, bool bias)
{
	nn_linear(site, w, name, m, in, out, bias, nn_within((double)in));
}

tj_tensor *tjnn_linear_apply_at(const char *site, const tjnn_linear *m, tj_tensor *x)
{
	return m && m->weight ? tj_linear(x, m->weight, m->bias) : nn_unvisited(site, m, "tjnn_linear_apply");
}

/* ---- embedding ---- */
void tjnn_embedding_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_embedding *m, int64_t rows, int64_t width,
                             int64_t padding)
{
	tjnn_init init = tjnn_normal(0, 1);
	if (padding >= 0) init.zeroed = padding + 1;
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->padding = padding;
	tjnn_enter(w, "%s", name);
	tjnn_param(w, "weight", &m->weight, TJ_SHAPE(rows, width), init);
	tjnn_leave(w);
}

tj_tensor *tjnn_embedding_apply_at(const char *site, const tjnn_embedding *m, tj_tensor *index)
{
	if (!m || !m->weight) return nn_unvisited(site, m, "tjnn_embedding_apply");
	tj_tensor *y = tj_embedding(m->weight, index);
	if (m->padding < 0) return y;
	return tj_where(tj_unsqueeze(tj_eq(index, tj_i(m->padding)), -1), tj_stop_gradient(y), y);
}

/* ---- convolutions ---- */
static void conv_layer(const char *site, tjnn_walk *w, const char *name, tjnn_conv *m, tj_dims channels, tj_dims kernel, bool bias,
                       const tj_conv_opts *opts, bool transposed)
{
	int64_t shape[TJ_MAX_RANK + 1], field = 1;
	NN_OPTIONS(tj_conv_opts, o, opts)
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->opts = o;
	m->transposed = transposed;
	const int64_t groups = m->opts.groups > 0 ? m->opts.groups : 1;
	for (m->axes = 0; kernel && m->axes < 3 && kernel[m->axes] != TJ_END_DIM; m->axes++) field *= shape[2 + m->axes] = kernel[m->axes];
	if (!m->axes || kernel[m->axes] != TJ_END_DIM || channels[0] % groups || channels[1] % groups) {
		tj_fail(TJ_ERR_ARG, "tjnn_conv_layer", "kernel: 1 to 3 sizes; channels: multiples of .groups",
		        "%s: %lld to %lld channels in %lld groups", name, (long long)channels[0], (long long)channels[1],
		        (long long)groups);
		nn_walk_failed(w);
		return;
	}
	tjnn_enter(w, "%s", name);
	shape[0] = transposed ? channels[0] : channels[1];
	shape[1] = (transposed ? channels[1] : channels[0]) / groups;
	shape[2 + m->axes] = TJ_END_DIM;
	const double fan_in = (double)shape[1] * (double)field;
	tjnn_param(w, "weight", &m->weight, shape, nn_within(fan_in));
	if (bias) tjnn_param(w, "bias", &m->bias, TJ_SHAPE(channels[1]), nn_within(fan_in));
	tjnn_leave(w);
}

void tjnn_conv_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_conv *m, int64_t in, int64_t out, tj_dims kernel, bool bias,
                        const tj_conv_opts *opts)
{
	conv_layer(site, w, name, m, TJ_SHAPE(in, out), kernel, bias, opts, false);
}

void tjnn_conv_transpose_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_conv *m, int64_t in, int64_t out, tj_dims kernel,
                                  bool bias, const tj_conv_opts *opts)
{
	conv_layer(site, w, name, m, TJ_SHAPE(in, out), kernel, bias, opts, true);
}

tj_tensor *tjnn_conv_apply_at(const char *site, const tjnn_conv *m, tj_tensor *x)
{
	static tj_tensor *(*const conv[2][3])(const char *, tj_tensor *, tj_tensor *, tj_tensor *, const tj_conv_opts *) = {
		{ tj_conv1d_at, tj_conv2d_at, tj_conv3d_at }, { tj_conv_transpose1d_at, tj_conv_transpose2d_at, tj_conv_transpose3d_at }
	};
	if (!m || m->axes < 1 || m->axes > 3) return nn_unvisited(site, m, "tjnn_conv_apply");
	return conv[m->transposed][m->axes - 1](site, x, m->weight, m->bias, &m->opts);
}
