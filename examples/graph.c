/* SPDX-License-Identifier: MIT */
/* graph: a network on a graph. Zachary's karate club (1977): 34 members, 78 friendships; the club splits in two. The network knows the side
 * of the instructor (member 0) and of the officer (member 33), and learns the side of all others from who is a friend of whom: two layers
 * of Kipf and Welling (arXiv:1609.02907), y = A x W, with A = D^-1/2 (friendships + I) D^-1/2 as a sparse matrix.
 *
 *   build/examples/graph [steps] */
#include <stdio.h>
#include <stdlib.h>
#include <tj.h>

enum { MEMBERS = 34, FRIENDS = 78, PLACES = 2 * FRIENDS + MEMBERS, WIDTH = 16 };

/* clang-format off */
static const int pair[FRIENDS][2] = {
	{0,1}, {0,2}, {0,3}, {0,4}, {0,5}, {0,6}, {0,7}, {0,8}, {0,10}, {0,11}, {0,12}, {0,13}, {0,17}, {0,19}, {0,21}, {0,31},
	{1,2}, {1,3}, {1,7}, {1,13}, {1,17}, {1,19}, {1,21}, {1,30}, {2,3}, {2,7}, {2,8}, {2,9}, {2,13}, {2,27}, {2,28}, {2,32},
	{3,7}, {3,12}, {3,13}, {4,6}, {4,10}, {5,6}, {5,10}, {5,16}, {6,16}, {8,30}, {8,32}, {8,33}, {9,33}, {13,33},
	{14,32}, {14,33}, {15,32}, {15,33}, {18,32}, {18,33}, {19,33}, {20,32}, {20,33}, {22,32}, {22,33},
	{23,25}, {23,27}, {23,29}, {23,32}, {23,33}, {24,25}, {24,27}, {24,31}, {25,31}, {26,29}, {26,33}, {27,33},
	{28,31}, {28,33}, {29,32}, {29,33}, {30,32}, {30,33}, {31,32}, {31,33}, {32,33}
};
static const int64_t side[MEMBERS] = { 0,0,0,0,0,0,0,0,0,1,0,0,0,0,1,1,0,0,1,0,1,0,1,1,1,1,1,1,1,1,1,1,1,1 };
/* clang-format on */

typedef struct model { tj_tensor *offsets, *columns, *values, *in, *out; } model; /* a sparse matrix, two cells of weights */

/* Both directions of each friendship, and each member beside itself; each row by the roots of both degrees. */
static void connect(tj_ctx *c, model *m)
{
	int64_t row[PLACES], column[PLACES];
	for (int i = 0; i < FRIENDS; i++)
		for (int d = 0; d < 2; d++) row[2 * i + d] = pair[i][d], column[2 * i + d] = pair[i][1 - d];
	for (int i = 0; i < MEMBERS; i++) row[2 * FRIENDS + i] = column[2 * FRIENDS + i] = i;
	tj_tensor *r = tj_from_data(c, TJ_I64, TJ_SHAPE(PLACES), row), *k = tj_from_data(c, TJ_I64, TJ_SHAPE(PLACES), column);
	tj_tensor *offsets, *columns;
	tj_tensor *ones = tj_csr_from_coo(r, k, tj_ones(TJ_F32, TJ_SHAPE(PLACES)), MEMBERS, MEMBERS, &offsets, &columns);
	tj_tensor *root = tj_rsqrt(tj_csr_sum(offsets, columns, ones, MEMBERS, 1));
	tj_tensor *by_row = tj_csr_mask(offsets, columns, tj_unsqueeze(root, 1));
	tj_tensor *by_column = tj_csr_mask(offsets, columns, tj_unsqueeze(root, 0));
	m->offsets = tj_retain(offsets);
	m->columns = tj_retain(columns);
	m->values = tj_retain(tj_mul(tj_mul(ones, by_row), by_column));
}

static tj_tensor *layer(const model *m, tj_tensor *x, tj_tensor *w)
{
	return tj_csr_matmul(m->offsets, m->columns, m->values, x ? tj_matmul(x, w) : w); /* x NULL: each member is a feature of its own */
}
static tj_tensor *network(const model *m) { return layer(m, tj_tanh(layer(m, NULL, m->in)), m->out); }

/* A step of gradient descent; out: the loss of the two members whose side is known. */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *known = tj_index_select(network(m), 0, in[0]), *grad[2];
	out[0] = tj_cross_entropy(known, in[1]);
	if (tj_grad(grad, out[0], TJ_LIST(m->in, m->out), NULL) != TJ_OK) return;
	tj_assign(m->in, tj_sub(m->in, tj_mul(grad[0], tj_f(0.5))));
	tj_assign(m->out, tj_sub(m->out, tj_mul(grad[1], tj_f(0.5))));
}

static void sides(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	out[0] = tj_argmax(network(self), 1, false);
}

static tj_tensor *weights(tj_ctx *c, int64_t rows, int64_t columns)
{
	tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(rows, columns));
	tj_assign(w, tj_mul(tj_normal(TJ_F32, TJ_SHAPE(rows, columns)), tj_f(0.3)));
	return w;
}

int main(int argc, char **argv)
{
	const int steps = argc > 1 ? atoi(argv[1]) : 150;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = 7));
	if (!c) return 1;
	model m;
	connect(c, &m);
	m.in = weights(c, MEMBERS, WIDTH);
	m.out = weights(c, WIDTH, 2);
	tj_fn *learn = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 2, .nout = 1));
	tj_fn *look = tj_compile(c, sides, &m, TJ_OPTS(tj_compile_opts, .name = "sides", .nin = 0, .nout = 1));
	tj_tensor *known = tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 0, 33 });
	tj_tensor *want = tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 0, 1 });
	double first = 0, last = 0;
	for (int i = 0; i < steps; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *loss;
		if (tj_call(learn, &loss, TJ_LIST(known, want)) != TJ_OK) break;
		last = tj_item(loss);
		if (i == 0) first = last;
		tj_pop(s);
	}
	tj_tensor *found;
	int right = 0;
	if (tj_call(look, &found, TJ_NONE) == TJ_OK) {
		const int64_t *v = tj_data(found);
		for (int i = 0; i < MEMBERS; i++) right += v[i] == side[i];
	}
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	printf("two sides are known; the loss falls from %.2f to %.2f\n", first, last);
	printf("%d of %d members are on the side that they chose\n", right, MEMBERS);
	tj_close(c);
	return right < 31 || !(last < first / 4);
}
