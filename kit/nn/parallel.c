/* SPDX-License-Identifier: MIT */
/* Linear layers whose weights are cut into parts, one for each rank. */
#include "kit/nn/nn.h"

static tjnn_init part_of(tjnn_init init, const tj_comm *c, int axis)
{
	init.part = tj_comm_rank(c);
	init.parts = tj_comm_size(c);
	init.axis = axis;
	return init;
}

static bool misfit(const char *site, tjnn_walk *w, const char *name, const tj_comm *c, int64_t cut)
{
	if (c && cut % tj_comm_size(c) == 0) return false;
	tj_fail(TJ_ERR_ARG, "tjnn_parallel", "the ranks divide it", "%s: %s", name,
	        c ? "what is cut is no multiple of the ranks" : "no communicator");
	nn_walk_failed(w);
	return true;
}

void tjnn_columns_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_parallel *m, tj_comm *comm, int64_t in, int64_t out,
                           bool bias)
{
	if (misfit(site, w, name, comm, out)) return;
	const int64_t own = out / tj_comm_size(comm);
	const tjnn_init init = part_of(nn_within((double)in), comm, 0);
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->comm = comm;
	m->rows = false;
	tjnn_enter(w, "%s", name);
	tjnn_param(w, "weight", &m->weight, TJ_SHAPE(own, in), init);
	if (bias) tjnn_param(w, "bias", &m->bias, TJ_SHAPE(own), init);
	tjnn_leave(w);
}

void tjnn_rows_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_parallel *m, tj_comm *comm, int64_t in, int64_t out,
                        bool bias)
{
	if (misfit(site, w, name, comm, in)) return;
	if (!nn_walk_struct(site, w, name, m, sizeof *m)) return;
	m->comm = comm;
	m->rows = true;
	tjnn_enter(w, "%s", name);
	tjnn_param(w, "weight", &m->weight, TJ_SHAPE(out, in / tj_comm_size(comm)), part_of(nn_within((double)in), comm, 1));
	if (bias) tjnn_param(w, "bias", &m->bias, TJ_SHAPE(out), nn_within((double)in));
	tjnn_leave(w);
}

tj_tensor *tjnn_parallel_apply_at(const char *site, const tjnn_parallel *m, tj_tensor *x)
{
	if (!m || !m->comm) return nn_unvisited(site, m, "tjnn_parallel_apply");
	if (!m->rows) return tj_linear(tj_to_ranks(m->comm, x), m->weight, m->bias);
	tj_tensor *y = tj_from_ranks(m->comm, tj_linear(x, m->weight, NULL));
	return m->bias ? tj_add(y, m->bias) : y;
}
