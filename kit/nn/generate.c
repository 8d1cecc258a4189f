/* SPDX-License-Identifier: MIT */
/* Language models at work: a draw from logits, and a text that goes on draw by draw. */
#include "kit/nn/nn.h"

/* ---- one draw ---- */
static const char *misfit(const tjnn_sample_opts *o)
{
	if (!(o->temperature >= 0)) return ".temperature is 0 or more";
	if (o->top_k < 0) return ".top_k is 0 or more";
	return o->top_p >= 0 && o->top_p <= 1 ? NULL : ".top_p is from 0 to 1";
}

tj_tensor *tjnn_sample_at(const char *site, tj_tensor *logits, const tjnn_sample_opts *opts)
{
	KIT_OPTIONS(tjnn_sample_opts, o, opts, tj_fail(TJ_ERR_ARG, "tjnn_sample", "", "wrong options"))
	if (!logits || tj_is_poison(logits)) return logits ? logits : tj_fail(TJ_ERR_ARG, "tjnn_sample", "", "no logits");
	const char *why = misfit(&o);
	if (why) return tj_fail(TJ_ERR_ARG, "tjnn_sample", "", "%s", why);
	if (tj_rank(logits) < 1) return tj_fail(TJ_ERR_SHAPE, "tjnn_sample", "[...,vocabulary]", "the logits have no axis");
	if (o.greedy) return tj_argmax(logits, -1, false);
	const int64_t all = tj_dim(logits, -1), k = o.top_k && o.top_k < all ? o.top_k : all;
	const bool sorted = k < all || (o.top_p > 0 && o.top_p < 1);
	tj_tensor *x = tj_dtype_of(logits) == TJ_F64 ? logits : tj_cast(logits, TJ_F32), *index = NULL;
	if (o.temperature > 0) x = tj_div(x, tj_f(o.temperature));
	if (sorted) x = tj_topk(x, k, -1, true, &index);
	tj_tensor *p = tj_softmax(x, -1);
	if (o.top_p > 0 && o.top_p < 1) p = tj_where(tj_lt(tj_sub(tj_cumsum(p, -1), p), tj_f(o.top_p)), p, tj_f(0)); /* the first one stays */
	tj_tensor *draw = tj_multinomial(tj_reshape(p, TJ_SHAPE(-1, k)), 1, true);
	if (tj_is_poison(draw)) return draw;
	if (sorted) draw = tj_gather(tj_reshape(index, TJ_SHAPE(-1, k)), 1, draw);
	int64_t shape[TJ_MAX_RANK + 1];
	const int rank = tj_rank(logits) - 1;
	for (int i = 0; i < rank; i++) shape[i] = tj_dim(logits, i);
	shape[rank] = TJ_END_DIM;
	return tj_reshape(draw, shape);
}

/* ---- a text ---- */
struct tjnn_generator {
	tj_ctx *ctx;
	nn_life *life;
	tj_body *body;
	void *self;
	tjnn_generator_opts o;
	tj_fn *f;
	const char *site; /* of the running call */
};

/* in: ids [N,L], the place whose logits count; out: ids [N] */
static void draw_next(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tjnn_generator *g = self;
	const char *site = g->site;
	tj_tensor *logits = NULL;
	g->body(&logits, in, g->self);
	if (!logits || tj_is_poison(logits) || tj_rank(logits) != 3 || tj_dim(logits, 1) != tj_dim(in[0], 1)) {
		out[0] = logits && tj_is_poison(logits) ? logits
		                                        : tj_fail(TJ_ERR_SHAPE, "tjnn_generate", "[N,places,vocabulary], for ids [N,places]",
		                                                  "the body gives no logits for each place");
		return;
	}
	out[0] = tjnn_sample(tj_reshape(tj_index_select(logits, 1, in[1]), TJ_SHAPE(tj_dim(logits, 0), tj_dim(logits, 2))), &g->o.sample);
}

tjnn_generator *tjnn_generator_open_at(const char *site, tj_ctx *c, tj_body *body, void *self, const tjnn_generator_opts *opts)
{
	static const char op[] = "tjnn_generator_open";
	KIT_OPTIONS(tjnn_generator_opts, o, opts, NULL)
	const char *why = !c ? "no context" : !body ? "no body" : misfit(&o.sample);
	if (!why && (o.context < 0 || !o.caches == !o.context)) why = "either .caches are given, or .context is 1 or more";
	if (why) return tj_fail(TJ_ERR_ARG, op, "", "%s", why), NULL;
	tjnn_generator *g = calloc(1, sizeof *g);
	if (!g) return tj_fail(TJ_ERR_NOMEM, op, "", "out of memory"), NULL;
	*g = (tjnn_generator){ .ctx = c, .body = body, .self = self, .o = o, .site = site, .life = nn_life_begin(site, c, NULL) };
	if (g->life) g->f = tj_compile(c, draw_next, g, TJ_OPTS(tj_compile_opts, .name = "generate", .nin = 2, .nout = 1));
	if (g->f) return g;
	tjnn_generator_close(g);
	return NULL;
}

void tjnn_generator_close_at(const char *site, tjnn_generator *g)
{
	if (!g) return;
	if (g->f && !nn_life_gone(g->life)) tj_fn_free(g->f);
	nn_life_end(site, g->life);
	free(g);
}

typedef struct text {
	int64_t *id; /* [rows,room] */
	int64_t rows, n, room;
	int64_t *window; /* [rows,room]: what the body gets */
	bool *ended;     /* by row */
} text;

static void free_text(text *t)
{
	free(t->id);
	free(t->window);
	free(t->ended);
}

static tj_status take_prompt(const char *site, const tjnn_generator *g, tj_tensor *prompt, int64_t more, text *t)
{
	static const char op[] = "tjnn_generate";
	if (!prompt || tj_is_poison(prompt) || tj_rank(prompt) != 2 || tj_dtype_of(prompt) >= TJ_F16 || tj_numel(prompt) < 1)
		return tj_fail(TJ_ERR_SHAPE, op, "integers [N,L], one of them at least", "that is no prompt"), TJ_ERR_SHAPE;
	*t = (text){ .rows = tj_dim(prompt, 0), .n = tj_dim(prompt, 1) };
	int64_t ids, wide = g->o.context;
	if (more < 0 || __builtin_add_overflow(t->n, more, &t->room) || __builtin_mul_overflow(t->room, t->rows, &ids) || ids > INT64_MAX / 16)
		return tj_fail(TJ_ERR_ARG, op, "", "%lld more ids", (long long)more), TJ_ERR_ARG;
	if (wide < t->n) wide = t->n;
	t->id = malloc((size_t)ids * sizeof *t->id);
	t->window = calloc((size_t)(wide * t->rows), sizeof *t->window);
	t->ended = calloc((size_t)t->rows, sizeof *t->ended);
	if (!t->id || !t->window || !t->ended) return tj_fail(TJ_ERR_NOMEM, op, "", "out of memory"), TJ_ERR_NOMEM;
	const tj_status st = tj_read(tj_cast(prompt, TJ_I64), t->window, (size_t)(t->rows * t->n) * sizeof *t->id);
	for (int64_t i = 0; i < t->rows; i++) memcpy(t->id + i * t->room, t->window + i * t->n, (size_t)t->n * sizeof *t->id);
	return st;
}

/* The ids from `from` on; without a cache padded to the context: places behind the last one change nothing before them. */
static tj_tensor *window_of(const char *site, const tjnn_generator *g, text *t, int64_t from, int64_t *last)
{
	const int64_t most = g->o.context, begin = most && t->n > most ? t->n - most : from, n = t->n - begin, width = most ? most : n;
	for (int64_t i = 0; i < t->rows; i++) memcpy(t->window + i * width, t->id + i * t->room + begin, (size_t)n * sizeof *t->id);
	*last = n - 1;
	return tj_from_data(g->ctx, TJ_I64, TJ_SHAPE(t->rows, width), t->window);
}

/* Adds a column; true: all rows have ended. */
static bool add_ids(const tjnn_generator *g, text *t, const int64_t *next)
{
	bool all = g->o.stops;
	for (int64_t i = 0; i < t->rows; i++) {
		t->id[i * t->room + t->n] = t->ended[i] ? g->o.stop : next[i];
		t->ended[i] = t->ended[i] || (g->o.stops && next[i] == g->o.stop);
		all = all && t->ended[i];
	}
	t->n++;
	return all;
}

static tj_status go_on(const char *site, const tjnn_generator *g, text *t)
{
	int64_t *next = malloc((size_t)t->rows * sizeof *next), from = 0, last;
	bool end = !next;
	tj_status st = next ? TJ_OK : TJ_ERR_NOMEM;
	if (!next) tj_fail(st, "tjnn_generate", "", "out of memory");
	while (!end && t->n < t->room) {
		tj_scope *s = tj_push(g->ctx);
		tj_tensor *ids = window_of(site, g, t, from, &last);
		ids = tj_call1(g->f, TJ_LIST(ids, tj_from_data(g->ctx, TJ_I64, TJ_SHAPE(1), &last)));
		st = tj_is_poison(ids) ? TJ_ERR_STATE : tj_read(ids, next, (size_t)t->rows * sizeof *next);
		tj_pop(s);
		if (st != TJ_OK) break;
		from = g->o.caches ? t->n : 0;
		end = add_ids(g, t, next);
		if (g->o.each && !g->o.each(g->o.env, next, t->rows)) end = true;
	}
	free(next);
	return st;
}

tj_tensor *tjnn_generate_at(const char *site, tjnn_generator *g, tj_tensor *prompt, int64_t more, uint64_t seed)
{
	static const char op[] = "tjnn_generate";
	text t = { 0 };
	if (!g) return tj_fail(TJ_ERR_ARG, op, "did tjnn_generator_open() fail?", "no generator");
	if (nn_life_gone(g->life)) return tj_fail(TJ_ERR_STATE, op, "", "the context was closed");
	if (tj_in_body(tj_ctx_current())) return tj_fail(TJ_ERR_STATE, op, "call it when tj_call() has returned", "tjnn_generate() in a body");
	g->site = site;
	tj_status st = take_prompt(site, g, prompt, more, &t);
	for (tjnn_kv_cache *const *k = g->o.caches; st == TJ_OK && k && *k; k++) st = tjnn_kv_cache_clear(*k);
	if (st == TJ_OK) {
		tj_seed(g->ctx, seed);
		st = go_on(site, g, &t);
	}
	for (int64_t i = 1; st == TJ_OK && i < t.rows; i++) memmove(t.id + i * t.n, t.id + i * t.room, (size_t)t.n * sizeof *t.id);
	tj_tensor *y = st == TJ_OK ? tj_from_data(g->ctx, TJ_I64, TJ_SHAPE(t.rows, t.n), t.id) : tj_fail(st, op, "", "%s", tj_strerror(st));
	free_text(&t);
	return y;
}
