/* SPDX-License-Identifier: MIT */
/* A pass of your own: (x + c1) + c2 becomes x + (c1 + c2), as torch.fx users know it. The graph is shown before and after. */
#include <tj.h>

#include <string.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor **c = self;
	out[0] = tj_tanh(tj_add(tj_add(in[0], c[0]), c[1]));
}

static bool is(const tj_node *n, const char *op) { return strcmp(tj_node_op(n), op) == 0; }

/* n is (x + c1) + c2, both constants are f32 of one shape, and nothing else uses x + c1. */
static bool fits(tj_node *n)
{
	if (!is(n, "add") || !is(tj_node_input(n, 1), "constant")) return false;
	tj_node *inner = tj_node_input(n, 0);
	return is(inner, "add") && tj_node_uses(inner) == 1 && is(tj_node_input(inner, 1), "constant") && tj_node_dtype(n) == TJ_F32 &&
	       tj_node_rank(tj_node_input(inner, 1)) == 1 && tj_node_rank(tj_node_input(n, 1)) == 1 &&
	       tj_node_dim(tj_node_input(inner, 1), 0) == tj_node_dim(tj_node_input(n, 1), 0) && tj_node_dim(tj_node_input(n, 1), 0) <= 64;
}

static tj_status fold_additions(tj_graph *g, void *self)
{
	int *folded = self;
	for (tj_node *n = tj_graph_first(g), *next; n; n = next) {
		next = tj_node_next(n);
		if (!fits(n)) continue;
		tj_node *inner = tj_node_input(n, 0);
		const float *a = tj_node_data(tj_node_input(inner, 1)), *b = tj_node_data(tj_node_input(n, 1));
		int64_t size = tj_node_dim(tj_node_input(n, 1), 0);
		float sum[64];
		for (int64_t i = 0; i < size; i++) sum[i] = a[i] + b[i];
		tj_node *both[2] = { tj_node_input(inner, 0), tj_graph_insert_constant(g, n, TJ_F32, TJ_SHAPE(size), sum) };
		tj_graph_replace(g, n, tj_graph_insert(g, n, "add", both, 2, NULL, 0));
		tj_graph_erase(g, n);
		tj_graph_erase(g, inner);
		++*folded;
	}
	return TJ_OK;
}

int main(void)
{
	const float x[] = { 0, 0.5f, 1 }, c1[] = { 0.25f, 0.5f, 0.75f }, c2[] = { 1, 0, -1 };
	int folded = 0;
	const tj_pass passes[] = { { "fold_additions", fold_additions, &folded }, { 0 } };
	tj_ctx *c = tj_open(NULL);
	tj_tensor *consts[2] = { tj_constant(c, TJ_F32, TJ_SHAPE(3), c1), tj_constant(c, TJ_F32, TJ_SHAPE(3), c2) };
	tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(3), x);
	for (int with = 0; with < 2; with++) {
		tj_fn *f = tj_compile(c, body, consts, TJ_OPTS(tj_compile_opts, .name = "biased", .nin = 1, .nout = 1, .passes = with ? passes : NULL));
		const float *y = tj_data(tj_call1(f, TJ_LIST(in)));
		printf("%s the pass: %g %g %g\n", with ? "with" : "without", (double)y[0], (double)y[1], (double)y[2]);
		tj_dump(f, TJ_DUMP_TABLE, stdout);
	}
	printf("%d addition folded\n", folded);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
