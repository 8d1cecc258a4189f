/* SPDX-License-Identifier: MIT */
/* Norms: one struct, whose kind says over what. */
#include "kit/nn/nn.h"

#include <float.h>

/* false: the walk has failed */
static bool begin(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, tjnn_norm_kind kind, tj_dims shape, int64_t groups)
{
	int n = 0;
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return false;
	m->kind = kind;
	m->groups = groups;
	m->eps = kind == TJNN_RMS_NORM ? 0 : 1e-5;
	m->momentum = 0.1;
	for (; shape && n < TJ_MAX_RANK && shape[n] != TJ_END_DIM; n++) m->shape[n] = shape[n];
	m->shape[n] = TJ_END_DIM;
	if (n) return tjnn_enter(w, "%s", name), true;
	tj_fail(TJ_ERR_ARG, "tjnn_norm_layer", "TJ_SHAPE(width)", "%s is over no axes", name);
	nn_walk_failed(w);
	return false;
}

static void parameters(const char *site, tjnn_walk *w, tjnn_norm *m, tj_dims shape, bool weight, bool bias)
{
	if (weight) tjnn_param(w, "weight", &m->weight, shape, tjnn_constant(1));
	if (bias) tjnn_param(w, "bias", &m->bias, shape, tjnn_constant(0));
}

void tjnn_batch_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t channels)
{
	if (!begin(site, w, name, m, TJNN_BATCH_NORM, TJ_SHAPE(channels), 0)) return;
	parameters(site, w, m, m->shape, true, true);
	tjnn_buffer(w, "running_mean", &m->running_mean, tjnn_walk_dtype(w), m->shape, 0);
	tjnn_buffer(w, "running_var", &m->running_var, tjnn_walk_dtype(w), m->shape, 1);
	tjnn_buffer(w, "num_batches_tracked", &m->num_batches_tracked, TJ_I64, TJ_0D, 0);
	tjnn_leave(w);
}

void tjnn_instance_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t channels, bool affine)
{
	if (!begin(site, w, name, m, TJNN_INSTANCE_NORM, TJ_SHAPE(channels), 0)) return;
	parameters(site, w, m, m->shape, affine, affine);
	tjnn_leave(w);
}

void tjnn_group_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t groups, int64_t channels)
{
	if (!begin(site, w, name, m, TJNN_GROUP_NORM, TJ_SHAPE(channels), groups)) return;
	parameters(site, w, m, m->shape, true, true);
	tjnn_leave(w);
}

void tjnn_layer_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, tj_dims shape, bool bias)
{
	if (!begin(site, w, name, m, TJNN_LAYER_NORM, shape, 0)) return;
	parameters(site, w, m, shape, true, bias);
	tjnn_leave(w);
}

void tjnn_rms_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, tj_dims shape)
{
	if (!begin(site, w, name, m, TJNN_RMS_NORM, shape, 0)) return;
	parameters(site, w, m, shape, true, false);
	tjnn_leave(w);
}

/* ---- apply ---- */
/* PyTorch's default for rms_norm: of the dtype in which it is computed. */
static double epsilon_of(tj_tensor *x) { return tj_dtype_of(x) == TJ_F64 ? DBL_EPSILON : FLT_EPSILON; }

static tj_tensor *batch_norm(const char *site, const tjnn_norm *m, tj_tensor *x, bool training)
{
	if (training && m->num_batches_tracked) tj_assign(m->num_batches_tracked, tj_add(m->num_batches_tracked, tj_i(1)));
	return tj_batch_norm(x, m->running_mean, m->running_var, m->weight, m->bias,
	                     TJ_OPTS(tj_norm_opts, .training = training, .momentum = m->momentum, .eps = m->eps));
}

tj_tensor *tjnn_norm_apply_at(const char *site, const tjnn_norm *m, tj_tensor *x, bool training)
{
	if (!m || (m->kind == TJNN_BATCH_NORM && !m->running_mean)) return nn_unvisited(site, m, "tjnn_norm_apply");
	switch (m->kind) {
	case TJNN_BATCH_NORM: return batch_norm(site, m, x, training);
	case TJNN_INSTANCE_NORM: return tj_instance_norm(x, NULL, NULL, m->weight, m->bias, TJ_OPTS(tj_norm_opts, .eps = m->eps));
	case TJNN_GROUP_NORM: return tj_group_norm(x, m->groups, m->weight, m->bias, m->eps);
	case TJNN_LAYER_NORM: return tj_layer_norm_over(x, m->shape, m->weight, m->bias, m->eps);
	case TJNN_RMS_NORM: return tj_rms_norm_over(x, m->shape, m->weight, m->eps == 0 ? epsilon_of(x) : m->eps);
	}
	return tj_fail(TJ_ERR_ARG, "tjnn_norm_apply", "", "no kind of tjnn_norm_kind");
}
