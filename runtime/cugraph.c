/* SPDX-License-Identifier: MIT */
/* cugraph: neighbouring launches of a plan as one CUDA graph, which the driver starts much faster than each kernel alone.
 *
 *   begin(plan, step)      launches are gathered:   k0(0x10, 0x20)  k1(0x20, 0x30)  k2(0x30, 0x40)
 *   end   first runs       they are put into the stream one by one
 *         then             they become the nodes of a graph, in a row; arguments are words that the graph copies
 *         later            a node whose words, grid or function differ from the last run's gets the new ones; then the graph is launched
 *
 * A queue keeps graphs by plan and first step, MOST of them; the one that was not used for the longest time goes first. */
#include "runtime/cudriver.h"
#include "runtime/fork.h"

enum { MOST = 64, RUNS_BEFORE = 3, MOST_NODES = 4096 };

typedef struct node { rt_culaunch launch; uint32_t at; rt_cuobj node; } node; /* at: of its words */
typedef struct nodes { rt_vec(node) node; rt_vec(uint64_t) word; } nodes;

typedef struct graph {
	uint64_t plan;
	uint32_t step, runs;
	uint64_t used;               /* turn of its last run */
	bool refused;                /* the driver did not make it */
	rt_cuobj graph, exec;        /* NULL: not made yet */
	nodes has;                   /* what the nodes have now */
} graph;

struct rt_cugraphs {
	pthread_mutex_t lock;        /* of the table: plans are freed by any thread */
	uint64_t turn;
	bool open;                   /* between begin and end */
	uint64_t plan;
	uint32_t step;
	nodes now;                   /* what was gathered */
	uint32_t n;
	graph table[MOST];
};

/* ---- gathering ---- */
bool rt_cugraph_gathers(const rt_queue *q) { return q->graphs->open; }

void rt_cugraph_begin(rt_queue *q, uint64_t plan, uint32_t step)
{
	struct rt_cugraphs *s = q->graphs;
	s->open = true;
	s->plan = plan;
	s->step = step;
	s->now.node.n = s->now.word.n = 0;
}

void rt_cugraph_abandon(rt_queue *q) { q->graphs->open = false; }

tj_status rt_cugraph_add(rt_queue *q, const rt_culaunch *l, const uint64_t *word, rt_err *err)
{
	nodes *to = &q->graphs->now;
	bool ok = rt_push(&to->node, ((node){ *l, to->word.n, NULL }));
	for (uint32_t i = 0; ok && i < l->nword; i++) ok = rt_push(&to->word, word[i]);
	return ok ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "cuda", "out of memory");
}

/* ---- one by one ---- */
static tj_status launch_each(rt_queue *q, nodes *now, rt_err *err)
{
	tj_status st = TJ_OK;
	for (uint32_t i = 0; i < now->node.n && st == TJ_OK; i++) {
		const rt_culaunch *l = &now->node.v[i].launch;
		void *words = &now->word.v[now->node.v[i].at];
		st = RT_CU_TRY(q->gpu, cuLaunchKernel, (l->function, l->blocks, 1, 1, l->threads, 1, 1, l->shared, q->stream, &words, NULL), err);
	}
	return st;
}

/* ---- graphs ---- */
static void drop(graph *g)
{
	if (g->exec) rt_cu.cuGraphExecDestroy(g->exec);
	if (g->graph) rt_cu.cuGraphDestroy(g->graph);
	rt_vec_free(&g->has.node);
	rt_vec_free(&g->has.word);
	*g = (graph){ 0 };
}

static graph *find(struct rt_cugraphs *s)
{
	graph *oldest = &s->table[0];
	for (uint32_t i = 0; i < s->n; i++) {
		graph *g = &s->table[i];
		if (g->plan == s->plan && g->step == s->step) return g;
		if (g->used < oldest->used) oldest = g;
	}
	if (s->n < MOST) oldest = &s->table[s->n++];
	drop(oldest);
	oldest->plan = s->plan;
	oldest->step = s->step;
	return oldest;
}

/* words: a variable that lives as long as the result. */
static rt_cunode described(const rt_culaunch *l, uint64_t *word, void **words)
{
	*words = word;
	return (rt_cunode){ .function = l->function,
		            .x = l->blocks,
		            .y = 1,
		            .z = 1,
		            .threads_x = l->threads,
		            .threads_y = 1,
		            .threads_z = 1,
		            .shared = l->shared,
		            .param = words };
}

static bool make(graph *g, nodes *now)
{
	rt_cuobj last = NULL;
	void *words;
	bool ok = now->node.n <= MOST_NODES && !rt_cu.cuGraphCreate(&g->graph, 0);
	for (uint32_t i = 0; ok && i < now->node.n; i++) {
		node *k = &now->node.v[i];
		const rt_cunode d = described(&k->launch, &now->word.v[k->at], &words);
		ok = !rt_cu.cuGraphAddKernelNode(&k->node, g->graph, i ? &last : NULL, i ? 1 : 0, &d);
		last = k->node;
	}
	return ok && !rt_cu.cuGraphInstantiateWithFlags(&g->exec, g->graph, 0);
}

static bool same(const graph *g, const nodes *now, uint32_t i)
{
	const node *had = &g->has.node.v[i], *has = &now->node.v[i];
	const rt_culaunch *a = &had->launch, *b = &has->launch;
	return a->function == b->function && a->blocks == b->blocks && a->shared == b->shared && a->nword == b->nword &&
	       !memcmp(&g->has.word.v[had->at], &now->word.v[has->at], a->nword * sizeof(uint64_t));
}

/* Nodes of the graph get the arguments of this run. */
static bool patch(graph *g, nodes *now)
{
	void *words;
	if (g->has.node.n != now->node.n) return false;
	for (uint32_t i = 0; i < now->node.n; i++) {
		node *k = &now->node.v[i];
		k->node = g->has.node.v[i].node;
		if (same(g, now, i)) continue;
		const rt_cunode d = described(&k->launch, &now->word.v[k->at], &words);
		if (rt_cu.cuGraphExecKernelNodeSetParams(g->exec, k->node, &d)) return false;
	}
	return true;
}

/* The graph holds what was gathered; false: it cannot. */
static bool ready(graph *g, nodes *now)
{
	if (g->refused || (!g->exec && g->runs++ < RUNS_BEFORE)) return false;
	const uint64_t plan = g->plan;
	const uint32_t step = g->step;
	if (g->exec ? patch(g, now) : make(g, now)) {
		const nodes had = g->has;
		g->has = *now;
		*now = had;
		return true;
	}
	const bool made = g->exec != NULL;
	drop(g); /* with another number of nodes it is made anew */
	*g = (graph){ .plan = plan, .step = step, .refused = !made };
	return false;
}

tj_status rt_cugraph_end(rt_queue *q, bool *replayed, rt_err *err)
{
	struct rt_cugraphs *s = q->graphs;
	*replayed = false;
	if (!s->open) return TJ_OK;
	s->open = false;
	if (s->now.node.n < 2) return launch_each(q, &s->now, err);
	rt_lock(&s->lock);
	graph *g = find(s);
	g->used = ++s->turn;
	*replayed = ready(g, &s->now);
	tj_status st = *replayed ? RT_CU_TRY(q->gpu, cuGraphLaunch, (g->exec, q->stream), err) : launch_each(q, &s->now, err);
	rt_unlock(&s->lock);
	return st;
}

void rt_cugraph_forget(rt_queue *q, uint64_t plan)
{
	struct rt_cugraphs *s = q->graphs;
	rt_lock(&s->lock);
	for (uint32_t i = 0; i < s->n; i++)
		if (s->table[i].plan == plan) drop(&s->table[i]);
	rt_unlock(&s->lock);
}

struct rt_cugraphs *rt_cugraph_new(void)
{
	struct rt_cugraphs *s = rt_calloc(sizeof *s);
	if (s) pthread_mutex_init(&s->lock, NULL);
	return s;
}

void rt_cugraph_free(struct rt_cugraphs *s)
{
	if (!s) return;
	for (uint32_t i = 0; i < s->n; i++) drop(&s->table[i]);
	pthread_mutex_destroy(&s->lock);
	rt_vec_free(&s->now.node);
	rt_vec_free(&s->now.word);
	rt_free(s);
}
