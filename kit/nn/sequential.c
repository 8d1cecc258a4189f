/* SPDX-License-Identifier: MIT */
/* Chains of layers, described by a table. */
#include "kit/nn/nn.h"

#include <stdio.h>

static tj_conv_opts conv_opts(const tjnn_spec *s)
{
	tj_conv_opts o = { .size = sizeof o, .groups = s->groups };
	for (int i = 0; i < 3; i++) {
		o.stride[i] = s->stride ? s->stride : 1;
		o.padding[i] = s->padding;
	}
	return o;
}

/* ---- the walk ---- */
static void visit(const char *site, tjnn_walk *w, const char *name, tjnn_sequential *m, int i)
{
	const tjnn_spec *s = &m->spec[i];
	const tj_conv_opts conv = conv_opts(s);
	const bool bias = !s->no_bias;
	switch (s->kind) {
	case TJNN_LINEAR: tjnn_linear_layer(w, name, &m->step[i].linear, s->in, s->out, bias); break;
	case TJNN_EMBEDDING: tjnn_embedding_layer(w, name, &m->step[i].embedding, s->in, s->out, -1); break;
	case TJNN_CONV1D: tjnn_conv_layer(w, name, &m->step[i].conv, s->in, s->out, TJ_SHAPE(s->kernel), bias, &conv); break;
	case TJNN_CONV2D: tjnn_conv_layer(w, name, &m->step[i].conv, s->in, s->out, TJ_SHAPE(s->kernel, s->kernel), bias, &conv); break;
	case TJNN_CONV_TRANSPOSE2D:
		tjnn_conv_transpose_layer(w, name, &m->step[i].conv, s->in, s->out, TJ_SHAPE(s->kernel, s->kernel), bias, &conv);
		break;
	case TJNN_BATCH: tjnn_batch_norm_layer(w, name, &m->step[i].norm, s->out); break;
	case TJNN_GROUP: tjnn_group_norm_layer(w, name, &m->step[i].norm, s->groups, s->out); break;
	case TJNN_LAYER: tjnn_layer_norm_layer(w, name, &m->step[i].norm, TJ_SHAPE(s->out), bias); break;
	case TJNN_RMS: tjnn_rms_norm_layer(w, name, &m->step[i].norm, TJ_SHAPE(s->out)); break;
	default: break;
	}
}

/* Specs [from,to), numbered from 0; a residual's own are a level below it. */
static void visit_all(const char *site, tjnn_walk *w, tjnn_sequential *m, int from, int to)
{
	char name[16];
	for (int i = from, number = 0; i < to; i++, number++) {
		snprintf(name, sizeof name, "%d", number);
		visit(site, w, name, m, i);
		if (m->spec[i].kind != TJNN_RESIDUAL) continue;
		if (m->spec[i].n < 1 || i + m->spec[i].n >= to) {
			tj_fail(TJ_ERR_ARG, "tjnn_sequential_layer", ".n counts the specs that follow",
			        "layer %d: a residual over %d specs, %d follow", i, m->spec[i].n, to - i - 1);
			nn_walk_failed(w);
			return;
		}
		tjnn_enter(w, "%s", name);
		visit_all(site, w, m, i + 1, i + 1 + m->spec[i].n);
		tjnn_leave(w);
		i += m->spec[i].n;
	}
}

static int count(const tjnn_spec *s)
{
	int n = 0;
	while (n <= TJNN_MOST_STEPS && s[n].kind != TJNN_END_SPEC) n++;
	return n;
}

void tjnn_sequential_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_sequential *m, const tjnn_spec *spec)
{
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	const int n = spec ? count(spec) : 0;
	if (!spec || n > TJNN_MOST_STEPS) {
		tj_fail(TJ_ERR_LIMIT, "tjnn_sequential_layer", "end the list in { TJNN_END_SPEC }; make two chains of a long one",
		        spec ? "%s has more than %d layers" : "%s has no list of up to %d layers", name, TJNN_MOST_STEPS);
		nn_walk_failed(w);
		return;
	}
	m->spec = spec;
	tjnn_enter(w, "%s", name);
	visit_all(site, w, m, 0, n);
	tjnn_leave(w);
}

/* ---- apply ---- */
static tj_tensor *pooled(const char *site, const tjnn_spec *s, tj_tensor *x)
{
	tj_pool_opts o = { .size = sizeof o };
	for (int i = 0; i < 2; i++) {
		o.stride[i] = s->stride;
		o.padding[i] = s->padding;
	}
	return s->kind == TJNN_MAX_POOL2D ? tj_max_pool2d(x, TJ_SHAPE(s->kernel, s->kernel), &o)
	                                  : tj_avg_pool2d(x, TJ_SHAPE(s->kernel, s->kernel), &o);
}

static tj_tensor *apply(const char *site, const tjnn_sequential *m, int i, tj_tensor *x, bool training)
{
	const tjnn_spec *s = &m->spec[i];
	switch (s->kind) {
	case TJNN_END_SPEC:
	case TJNN_RESIDUAL: return x;
	case TJNN_LINEAR: return tjnn_linear_apply(&m->step[i].linear, x);
	case TJNN_EMBEDDING: return tjnn_embedding_apply(&m->step[i].embedding, x);
	case TJNN_CONV1D:
	case TJNN_CONV2D:
	case TJNN_CONV_TRANSPOSE2D: return tjnn_conv_apply(&m->step[i].conv, x);
	case TJNN_BATCH:
	case TJNN_GROUP:
	case TJNN_LAYER:
	case TJNN_RMS: return tjnn_norm_apply(&m->step[i].norm, x, training);
	case TJNN_DROPOUT: return training ? tj_dropout(x, s->p, true) : x;
	case TJNN_RELU: return tj_relu(x);
	case TJNN_GELU: return tj_gelu(x);
	case TJNN_SILU: return tj_silu(x);
	case TJNN_TANH: return tj_tanh(x);
	case TJNN_SIGMOID: return tj_sigmoid(x);
	case TJNN_FLATTEN: return tj_flatten(x, 1, -1);
	case TJNN_MAX_POOL2D:
	case TJNN_AVG_POOL2D: return pooled(site, s, x);
	case TJNN_MEAN2D: return tj_mean(x, TJ_AXES(-2, -1), false);
	case TJNN_CALL:
		if (s->call) return s->call(x, s->self, training);
		return tj_fail(TJ_ERR_ARG, "tjnn_sequential_apply", "set .call of its spec", "layer %d has no function", i);
	}
	return tj_fail(TJ_ERR_ARG, "tjnn_sequential_apply", "", "layer %d has no kind of tjnn_spec_kind", i);
}

static tj_tensor *apply_all(const char *site, const tjnn_sequential *m, int from, int to, tj_tensor *x, bool training)
{
	for (int i = from; i < to; i++) {
		const int n = m->spec[i].kind == TJNN_RESIDUAL ? m->spec[i].n : 0;
		x = n ? tj_add(x, apply_all(site, m, i + 1, i + 1 + n, x, training)) : apply(site, m, i, x, training);
		i += n;
	}
	return x;
}

tj_tensor *tjnn_sequential_apply_at(const char *site, const tjnn_sequential *m, tj_tensor *x, bool training)
{
	if (!m || !m->spec) return nn_unvisited(site, m, "tjnn_sequential_apply");
	return apply_all(site, m, 0, count(m->spec), x, training);
}
