/* SPDX-License-Identifier: MIT */
/* A back end of your own, written with tj.h alone: it compiles graphs of element-wise f32 ops over equal shapes to a list of steps,
 * and leaves every other graph to LLVM. */
#include <tj.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef float op_fn(float a, float b);
static float add(float a, float b) { return a + b; }
static float sub(float a, float b) { return a - b; }
static float mul(float a, float b) { return a * b; }
static float neg(float a, float b) { return (void)b, -a; }
static float tanh_(float a, float b) { return (void)b, tanhf(a); }
static const struct {
	const char *name;
	op_fn *fn;
} known[] = { { "add", add }, { "sub", sub }, { "mul", mul }, { "neg", neg }, { "tanh", tanh_ } };

/* One step: fn over two earlier values, or a leaf. */
enum { MAX_STEPS = 64 };
typedef struct step { op_fn *fn; int src[2], slot; bool number; } step;
typedef struct program { int n, nout, out[8]; int64_t numel; step s[MAX_STEPS]; } program;

static int place_of(const tj_graph *g, const tj_node *n)
{
	int i = 0;
	for (const tj_node *m = tj_graph_first(g); m != n; m = tj_node_next(m)) i++;
	return i;
}

static int64_t numel_of(const tj_node *n)
{
	int64_t k = 1;
	for (int i = 0; i < tj_node_rank(n); i++) k *= tj_node_dim(n, i);
	return k;
}

/* A leaf or an op that this back end knows; false: it does not. */
static bool translate(const tj_graph *g, const tj_node *n, const program *p, step *s)
{
	const char *op = tj_node_op(n);
	s->slot = tj_node_slot(n);
	s->number = strcmp(op, "number") == 0;
	if (s->number) return tj_node_dtype(n) == TJ_F64;
	if (strcmp(op, "cast") == 0) { /* a cast of a number: run() converts it to float anyway */
		*s = p->s[place_of(g, tj_node_input(n, 0))];
		return s->number;
	}
	if (tj_node_dtype(n) != TJ_F32 || numel_of(n) != p->numel) return false;
	if (strcmp(op, "input") == 0) return tj_node_rank(n) == 1 && tj_node_strides(n)[0] == 1;
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (strcmp(op, known[k].name) == 0) s->fn = known[k].fn;
	for (int k = 0; k < 2; k++) s->src[k] = place_of(g, tj_node_input(n, k < tj_node_inputs(n) ? k : 0));
	return s->fn != NULL;
}

static tj_status run(void *env, const tj_run *r)
{
	const program *p = env;
	float v[MAX_STEPS];
	for (int64_t i = 0; i < p->numel; i++) {
		for (int k = 0; k < p->n; k++) {
			const step *s = &p->s[k];
			double number = 0;
			if (s->number) memcpy(&number, &r->number[s->slot], sizeof number);
			v[k] = s->number ? (float)number : s->fn ? s->fn(v[s->src[0]], v[s->src[1]]) : ((const float *)r->in[s->slot])[i];
		}
		for (int k = 0; k < p->nout; k++) ((float *)r->out[k])[i] = v[p->out[k]];
	}
	return TJ_OK;
}

static tj_status closures(void *self, tj_graph *g, tj_compiled *out)
{
	int *taken = self;
	program *p = calloc(1, sizeof *p);
	if (!p) return TJ_ERR_NOMEM;
	p->nout = tj_graph_outputs(g);
	p->numel = p->nout && p->nout <= 8 ? numel_of(tj_graph_output(g, 0)) : 0;
	bool all = p->numel > 0;
	for (tj_node *n = tj_graph_first(g); n && all; n = tj_node_next(n))
		all = p->n < MAX_STEPS && translate(g, n, p, &p->s[p->n]) && p->n++ >= 0;
	for (int k = 0; all && k < p->nout; k++) {
		p->out[k] = place_of(g, tj_graph_output(g, k));
		all = numel_of(tj_graph_output(g, k)) == p->numel;
	}
	if (!all) {
		free(p); /* out->run stays NULL: the next back end gets the graph */
		return TJ_OK;
	}
	*out = (tj_compiled){ run, free, p };
	++*taken;
	return TJ_OK;
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_tanh(tj_sub(tj_mul(in[0], tj_f(0.5)), in[1]));
	if (tj_rank(in[0]) == 2) out[0] = tj_sum(out[0], TJ_AXES(0), false); /* this back end does not take it */
}

int main(void)
{
	const float x[] = { 1, 2, 3, 4 }, y[] = { 0, 1, 1, 2 };
	int taken = 0;
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, body, NULL,
	                      TJ_OPTS(tj_compile_opts, .name = "body", .nin = 2, .nout = 1, .backend = closures, .backend_self = &taken));
	const float *a = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4), x), tj_from_data(c, TJ_F32, TJ_SHAPE(4), y))));
	printf("vector: %.4f %.4f %.4f %.4f, graphs taken: %d\n", (double)a[0], (double)a[1], (double)a[2], (double)a[3], taken);
	const float *b = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x), tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), y))));
	printf("matrix: %.4f %.4f, graphs taken: %d\n", (double)b[0], (double)b[1], taken);
	tj_dump(f, TJ_DUMP_PLAN, stdout);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
