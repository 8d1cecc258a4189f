/* SPDX-License-Identifier: MIT */
/* graph: CUDA graphs of kernels in a row. A graph that can be launched has arguments of its own. */
#include "test/fake/driver.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 4096 };
typedef struct node { const struct node *of; fake_kernel k; void *args; } node; /* of: the node of the graph that this one is a copy of */
typedef struct graph { node *node[MOST_NODES]; unsigned n; bool runs, dropped; struct graph *next; } graph;
static graph *graphs;                    /* structs stay for ever, as in stream.c */

static graph *new_graph(bool runs)
{
	graph *g = calloc(1, sizeof *g);
	g->runs = runs;
	g->next = graphs;
	return graphs = g;
}

int fake_graph(void **g) { return *g = new_graph(false), SUCCESS; }

static int set(node *n, const fake_kernel *k)
{
	size_t bytes = 0;
	const int code = k->extra || k->kernel || k->context ? INVALID_VALUE
	                                                     : fake_launch_check(k->function, k->grid, k->threads, k->shared, &bytes);
	if (code) return code;
	free(n->args);
	n->k = *k;
	n->args = memcpy(malloc(bytes + 1), k->param[0], bytes);
	n->k.bytes = bytes;
	return SUCCESS;
}

int fake_graph_add(void **out, void *h, void *const *after, size_t n, const fake_kernel *k)
{
	graph *g = h;
	if (!g || g->dropped || g->runs || g->n == MOST_NODES) return INVALID_VALUE;
	if (n != (g->n > 0) || (n && after[0] != g->node[g->n - 1])) return INVALID_VALUE; /* only rows */
	node *x = calloc(1, sizeof *x);
	const int code = set(x, k);
	if (code) return free(x), code;
	*out = g->node[g->n++] = x;
	return SUCCESS;
}

int fake_graph_instantiate(void **out, void *h)
{
	const graph *g = h;
	if (!g || g->dropped || g->runs) return INVALID_VALUE;
	graph *x = new_graph(true);
	for (unsigned i = 0; i < g->n; i++) {
		node *n = x->node[x->n++] = malloc(sizeof *n);
		*n = *g->node[i];
		n->of = g->node[i];
		n->args = memcpy(malloc(n->k.bytes + 1), g->node[i]->args, n->k.bytes);
	}
	*out = x;
	return SUCCESS;
}

int fake_graph_set(void *h, const void *of, const fake_kernel *k)
{
	graph *x = h;
	for (unsigned i = 0; x && x->runs && !x->dropped && i < x->n; i++)
		if (x->node[i]->of == of) return set(x->node[i], k);
	return INVALID_VALUE;
}

int fake_graph_launch(void *h, void *s)
{
	const graph *x = h;
	if (!x || !x->runs || x->dropped) return INVALID_VALUE;
	for (unsigned i = 0; i < x->n; i++) {
		const fake_kernel *k = &x->node[i]->k;
		const int code = fake_put_launch(s, k->function, k->grid, k->threads, k->shared, &x->node[i]->args);
		if (code) return code;
	}
	return SUCCESS;
}

int fake_graph_drop(void *h, bool runs)
{
	graph *g = h;
	if (!g || g->dropped || g->runs != runs) return INVALID_VALUE;
	for (unsigned i = 0; i < g->n; i++) {
		free(g->node[i]->args);
		free(g->node[i]);
	}
	g->n = 0;
	g->dropped = true;
	return SUCCESS;
}
