/* SPDX-License-Identifier: MIT */
/* Random loops for `fuzz -grad`: a while with a limit, a scan, or a scan whose number of turns is counted; often one in another one. Their
 * values become outputs, so the gradients go through them. */
#include "ir/region.h"
#include "test/fuzz.h"

#include <stdlib.h>

enum { MOST_TURNS = 4, CARRIES = 2 };

typedef struct loop {
	gen *G;
	ir_builder b;
	ir_ref x;                /* a float: its type is that of the carries, but for the counter */
	ir_frame *home;          /* of x */
} loop;

static ir_graph *here(const loop *l) { return l->b.at->g; }
static ir_ref whole(const loop *l, int64_t v) { return ir_const_i(here(l), TJ_I64, 0, NULL, v); }
static ir_ref captured(loop *l) { return ir_build_use(&l->b, l->home, l->x); }

/* Some ops on values of one shape. Their results stay small, so that gradients do not all become infinite. */
static ir_ref body_ops(loop *l, ir_ref h, ir_ref other)
{
	static const ir_op one[] = { IR_sin, IR_tanh, IR_sigmoid, IR_cos, IR_relu, IR_neg, IR_abs },
			   two[] = { IR_add, IR_mul, IR_sub, IR_maximum };
	ir_graph *g = here(l);
	for (int k = 1 + (int)gen_below(l->G, 4); k > 0; k--) {
		const int rank = ir_at(g, h)->rank;
		switch (gen_below(l->G, 4)) {
		case 0: h = ir_op2(g, two[gen_below(l->G, 4)], h, other, "fuzz.c:2"); break;
		case 1: h = ir_op2(g, two[gen_below(l->G, 4)], h, captured(l), "fuzz.c:3"); break;
		case 2:
			if (rank) {
				const int axis = (int)gen_below(l->G, rank);
				other = ir_reduce(g, gen_chance(l->G, 50) || !ir_dims(g, ir_at(g, h))[axis] ? IR_mean : IR_amax, h, 1u << axis, true, "fuzz.c:4");
			}
			break;
		default: h = ir_op1(g, one[gen_below(l->G, RT_COUNT(one))], h, "fuzz.c:5");
		}
	}
	return ir_op1(g, IR_tanh, h, "fuzz.c:6");
}

static ir_ref make(loop *l, ir_ref first, int depth);

/* The value after one turn. */
static ir_ref one_turn(loop *l, ir_ref h, ir_ref other, int depth)
{
	if (depth < 2 && gen_chance(l->G, 25)) h = make(l, h, depth + 1);
	return body_ops(l, h, other);
}

static bool any(const loop *l, ir_ref h, ir_ref *go)
{
	ir_graph *g = here(l);
	const ir_ref above = ir_op2(g, IR_lt, h, ir_const_f(g, (tj_dtype)ir_at(g, h)->dtype, 0, NULL, 0.7), "fuzz.c:7");
	const int rank = ir_at(g, above)->rank;
	*go = rank ? ir_reduce(g, IR_any, above, (1u << rank) - 1, false, "fuzz.c:8") : above;
	return *go != IR_NONE;
}

/* counter, h | a slice of ys for each of them. Ends after `turns`, often earlier. */
static ir_ref make_while(loop *l, ir_ref h, int depth)
{
	const int64_t turns = gen_below(l->G, MOST_TURNS + 1), most = turns + gen_below(l->G, 3), limit = most ? most : 1;
	const int ys = (int)gen_below(l->G, 3);
	const ir_ref src[] = { whole(l, 0), h };
	if (!ir_build_open(&l->b, IR_while, 2, src, (int64_t[]){ limit, ys }, "fuzz.c:9") || !ir_build_enter(&l->b)) return IR_NONE;
	ir_ref in[2] = { ir_build_input(&l->b, 0, NULL), ir_build_input(&l->b, 1, NULL) },
	       go = ir_op2(here(l), IR_lt, in[0], whole(l, turns), "fuzz.c:10"), more;
	if (gen_chance(l->G, 50) && any(l, in[1], &more)) go = ir_op2(here(l), IR_logical_and, go, more, "fuzz.c:11");
	if (!ir_build_yield(&l->b, 1, &go) || !ir_build_enter(&l->b)) return IR_NONE;
	for (int k = 0; k < 2; k++) in[k] = ir_build_input(&l->b, k, NULL);
	ir_ref out[4] = { ir_op2(here(l), IR_add, in[0], whole(l, 1), "fuzz.c:12") };
	out[1] =
		one_turn(l, in[1],
	                 gen_chance(l->G, 50) ? ir_cast(here(l), in[0], (tj_dtype)ir_at(here(l), in[1])->dtype, NULL) : captured(l), depth);
	out[2] = gen_chance(l->G, 50) ? in[1] : out[1];
	out[3] = in[0];
	return ir_build_yield(&l->b, 2 + ys, out) ? ir_build_close(&l->b) : IR_NONE;
}

/* h | xs | a slice of ys. */
static ir_ref make_scan(loop *l, ir_ref h, int depth)
{
	const int64_t length = gen_below(l->G, MOST_TURNS + 1);
	const bool counted = gen_chance(l->G, 50);
	ir_meta m = ir_meta_of(here(l), h);
	if (m.rank == TJ_MAX_RANK) return IR_NONE;
	memmove(m.dim + 1, m.dim, sizeof *m.dim * m.rank++);
	m.dim[0] = length;
	const ir_ref wide = ir_expand(here(l), h, m.rank, m.dim, NULL),
		     src[] = { h, ir_op1(here(l), IR_sin, wide, NULL), whole(l, gen_below(l->G, MOST_TURNS + 2) - 1) };
	if (!ir_build_open(&l->b, IR_scan, 2 + counted, src, (int64_t[]){ 1, 1, length, gen_chance(l->G, 50), counted }, "fuzz.c:13") ||
	    !ir_build_enter(&l->b))
		return IR_NONE;
	const ir_ref in[] = { ir_build_input(&l->b, 0, NULL), ir_build_input(&l->b, 1, NULL) };
	ir_ref out[2] = { one_turn(l, in[0], in[1], depth) };
	out[1] = gen_chance(l->G, 50) ? in[0] : ir_op2(here(l), IR_mul, in[1], out[0], "fuzz.c:14");
	return ir_build_yield(&l->b, 2, out) ? ir_build_close(&l->b) : IR_NONE;
}

/* Its last value, often with something of its ys. */
static ir_ref make(loop *l, ir_ref first, int depth)
{
	const bool scan = gen_chance(l->G, 40);
	const ir_ref r = scan ? make_scan(l, first, depth) : make_while(l, first, depth);
	if (r == IR_NONE) return IR_NONE;
	const int carries = scan ? 1 : 2, results = ir_flow_results(here(l), ir_at(here(l), r));
	ir_ref h = ir_get(here(l), r, carries - 1, NULL);
	for (int i = carries; i < results; i++) {
		ir_ref y = ir_get(here(l), r, i, NULL);
		if (ir_at(here(l), y)->dtype != ir_at(here(l), h)->dtype || gen_chance(l->G, 30)) continue;
		h = ir_op2(here(l), IR_add, h, ir_reduce(here(l), IR_sum, y, 1, false, "fuzz.c:15"), "fuzz.c:16");
	}
	return h;
}

void fuzz_loop(gen *G, ir_ref x)
{
	loop l = { .G = G, .x = x };
	if (!rt_is_float((tj_dtype)ir_at(G->g, x)->dtype) || ir_at(G->g, x)->rank == TJ_MAX_RANK || ir_at(G->g, x)->weak) return;
	ir_build_begin(&l.b, G->g);
	l.home = l.b.at;
	const ir_ref r = make(&l, x, 0);
	if (r == IR_NONE || !ir_ret(G->g, r)) {
		fprintf(stderr, "%s: %s\n", G->g->err.op, ir_build_error(&l.b)->message);
		abort();
	}
	for (ir_ref k = x; k < G->g->node.n; k++) { /* ys as they are, so that slices without a turn are compared, too */
		const ir_node *n = ir_at(G->g, k);
		if (n->op == IR_get && ir_is_flow(ir_at(G->g, ir_src(G->g, n, 0))->op) && gen_chance(G, 30)) ir_ret(G->g, k);
	}
	ir_build_end(&l.b);
}
