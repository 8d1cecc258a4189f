/* SPDX-License-Identifier: MIT */
/* recipe: made by passes, printed, and parsed. */
#include "codegen_llvm/recipe.h"

#include <errno.h>
#include <stdlib.h>

/* ---- making ---- */
/* What parts of rows leave lies side by side; what parts of columns leave, as rows of columns. */
static bool is_known(const lo_kernel *k, const lo_schedule *s, const lo_ins *in)
{
	if (in->op != LO_PART) return true;
	const lo_index *x = &k->index.v[in->index];
	const int64_t last = k->dim[k->ndim - 1];
	return in->imm < LO_RED_ARGMAX && (s->vec == LO_VEC_R ? x->rcoef == 1 : x->coef[k->ndim - 1] == 1 || last == 1);
}

static bool is_column(const lo_ins *in) { return in->tree == LO_TREE_COLUMN || in->tree == LO_TREE_PAIRS; }

static bool has_order(const lo_ins *in)
{
	return (in->op == LO_REDUCE || in->op == LO_PART) && in->tree != LO_TREE_NONE && in->imm <= LO_RED_MIN && rt_is_float((tj_dtype)in->dtype);
}

/* Lanes go along the dimension that the reductions' tree prescribes; reductions without an order follow the schedule. */
static tj_status choose_form(cg_recipe *h, rt_err *err)
{
	const lo_kernel *k = h->k;
	bool row = false, column = false;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (!is_known(k, h->s, in)) return rt_fail(err, TJ_ERR_COMPILE, "codegen", "kernel %s has parts of a search, or scattered ones", k->name);
		row |= has_order(in) && !is_column(in);
		column |= has_order(in) && is_column(in);
	}
	if (row && column) return rt_fail(err, TJ_ERR_COMPILE, "codegen", "kernel %s mixes row and column trees", k->name);
	if (h->s->vec == LO_VEC_NONE) return rt_fail(err, TJ_ERR_COMPILE, "codegen", "the schedule of kernel %s has no lanes", k->name);
	for (uint32_t i = 0; i < h->s->kept.n; i++)
		if (h->s->kept.v[i].where != LO_SCRATCH)
			return rt_fail(err, TJ_ERR_COMPILE, "codegen", "kernel %s keeps a row elsewhere than in scratch memory", k->name);
	h->form = k->reduces && (row || (h->s->vec == LO_VEC_R && !column)) ? CG_ALONG_R : CG_ALONG_D;
	return TJ_OK;
}

/* A product whose columns lie in words (LO_WORDS) multiplies such words. */
static bool reads_words(const cg_recipe *h)
{
	const cg_product *p = h->product;
	return !p || !p->x.words || p->steps == lo_word_steps(lo_word_of(h->k, &p->x));
}

static tj_status begin(cg_recipe *h, const lo_kernel *k, const lo_schedule *s, int bits, rt_err *err)
{
	*h = (cg_recipe){ .k = k, .s = s, .bits = bits, .asked = -1, .asks = -1 };
	h->of = rt_calloc((k->ins.n + 1) * sizeof *h->of);
	h->loop_lanes = rt_calloc((k->section.n + 1) * sizeof *h->loop_lanes);
	h->loop_tails = rt_calloc((k->section.n + 1) * sizeof *h->loop_tails);
	return h->of && h->loop_lanes && h->loop_tails ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
}

/* What follows from the choices for single instructions. */
static void sum_up(cg_recipe *h)
{
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		h->streams |= h->of[i].streamed;
		h->copies_tail |= h->of[i].copied;
		if (h->of[i].rare) h->of[h->of[i].rare].branches = true;
	}
}

static void choose_rest(cg_recipe *h)
{
	cg_find_places(h);
	cg_find_aside(h);
	cg_find_overlap(h);
	cg_find_lanes(h);
	cg_find_wide(h);
	cg_find_tiles(h);
	cg_find_tail(h);
	cg_find_rare(h);
	cg_find_later(h);
	cg_find_beside(h);
	cg_find_streams(h);
	cg_find_ahead(h);
	cg_find_ports(h);
	cg_find_copies(h);
	cg_find_structs(h);
	cg_find_accesses(h);
	sum_up(h);
}

tj_status cg_recipe_make(cg_recipe *h, const lo_kernel *k, const lo_schedule *s, int bits, rt_err *err)
{
	tj_status st = begin(h, k, s, bits, err);
	if (st == TJ_OK) st = choose_form(h, err);
	if (st != TJ_OK) return st;
	cg_find_product(h);
	if (!h->oom && !reads_words(h))
		return rt_fail(err, TJ_ERR_COMPILE, "codegen", "kernel %s reads words, which vectors of %d bits do not multiply", k->name, bits);
	if (!h->oom) choose_rest(h);
	return h->oom ? rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory") : TJ_OK;
}

static void drop_product(cg_product *p)
{
	for (int o = 0; p && o < 2; o++) {
		rt_vec_free(&p->operand[o].other);
		rt_vec_free(&p->operand[o].scalar);
	}
	rt_free(p);
}

void cg_recipe_free(cg_recipe *h)
{
	drop_product(h->product);
	rt_vec_free(&h->structs);
	rt_free(h->loop_tails);
	rt_free(h->loop_lanes);
	rt_free(h->of);
}

/* ---- words ---- */
static const char *const form_name[] = { "along d", "along r", "wide", "tiles", "product" };
static const char *const span_name[] = { "main", "tail", "guard_main", "guard_tail" };

/* A line that names the instructions in which a field has this value; `at` is where the field is, in bytes. */
static const struct set { const char *name; size_t at; uint8_t value; } sets[] = {
#define SET(name, field, value) { #name, offsetof(cg_choice, field), value }
	SET(unit, place, CG_UNIT), SET(pre, place, CG_PRE), SET(body, place, CG_BODY), SET(varies, varies, true),
	SET(near, access, CG_NEAR), SET(far, access, CG_FAR), SET(fields, access, CG_FIELD), SET(table, access, CG_TABLE),
	SET(tiled, access, CG_TILED), SET(masked_near, masked, CG_NEAR), SET(masked_far, masked, CG_FAR),
	SET(masked_fields, masked, CG_FIELD), SET(masked_table, masked, CG_TABLE), SET(masked_tiled, masked, CG_TILED),
	SET(aside, aside, true), SET(later, later, true), SET(streamed, streamed, true), SET(copied, copied, true),
#undef SET
};
_Static_assert(sizeof(bool) == 1, "fields of a set are bytes");
static uint8_t *field_of(cg_choice *x, const struct set *s) { return (uint8_t *)x + s->at; }

/* ---- printing ---- */
/* head %1..%3 %7: the instructions for which has() is true, on a line or several. */
typedef bool has_fn(const cg_recipe *h, uint32_t i, const void *with);
static void put_refs(const cg_recipe *h, const char *head, has_fn *has, const void *with, rt_text *t)
{
	enum { LONG = 100 }; /* columns */
	const uint32_t n = h->k->ins.n;
	size_t begin = 0; /* of the line; 0: there is none */
	for (uint32_t i = 0; i < n; i++) {
		if (!has(h, i, with)) continue;
		const uint32_t first = i;
		while (i + 1 < n && has(h, i + 1, with)) i++;
		if (begin && t->n - begin > LONG) rt_puts(t, "\n"), begin = 0;
		if (!begin) begin = t->n, rt_puts(t, head);
		rt_putf(t, i > first ? " %%%u..%%%u" : " %%%u", first, i);
	}
	if (begin) rt_puts(t, "\n");
}

static bool in_set(const cg_recipe *h, uint32_t i, const void *with)
{
	const struct set *s = with;
	return *field_of(&h->of[i], s) == s->value;
}

static bool is_rare(const cg_recipe *h, uint32_t i, const void *with) { return h->of[i].rare == *(const uint32_t *)with; }
static bool has_tile(const cg_recipe *h, uint32_t i, const void *with) { return h->of[i].tile == *(const int *)with; }

static void put_struct(const cg_struct *s, rt_text *t)
{
	rt_putf(t, "  structure %s %s:", s->store ? "store" : "load", tj_dtype_name(s->dtype));
	for (int f = 0; f < s->n; f++)
		if (s->field[f] == LO_NOREF) rt_puts(t, " -");
		else rt_putf(t, " %%%u", s->field[f]);
	rt_puts(t, "\n");
}

static void put_product(const cg_product *p, rt_text *t)
{
#define GROUP(name) rt_puts(t, "\n  product " #name);
#define NUMBER(type, name) if (p->name) rt_putf(t, " " #name "=%lld", (long long)p->name);
#define FLAG(name) if (p->name) rt_puts(t, " " #name);
#define DTYPE(name) rt_putf(t, " " #name "=%s", tj_dtype_name(p->name));
#define REF(name) if (p->name != LO_NOREF) rt_putf(t, " " #name "=%%%u", p->name);
#include "codegen_llvm/product.def"
	rt_puts(t, "\n  product heights");
	for (int i = 0; i < p->nrows; i++) rt_putf(t, " %d", p->rows[i]);
	rt_puts(t, "\n");
}

static void put_lanes(const cg_recipe *h, rt_text *t)
{
	const bool span[] = { h->span.main, h->span.tail, h->span.guard_main, h->span.guard_tail };
	if (cg_rows(h)) {
		rt_puts(t, "  lanes");
		for (uint32_t s = 0; s < h->k->section.n; s++) rt_putf(t, " %d", h->loop_lanes[s]);
		rt_puts(t, " tail");
		for (uint32_t s = 0; s < h->k->section.n; s++) rt_putf(t, " %d", h->loop_tails[s]);
		rt_puts(t, "\n");
		return;
	}
	rt_putf(t, "  lanes %d tail %d\n  loops", h->lanes, h->tail_lanes);
	for (size_t i = 0; i < RT_COUNT(span); i++)
		if (span[i]) rt_putf(t, " %s", span_name[i]);
	rt_puts(t, "\n");
}

void cg_recipe_print(const cg_recipe *h, rt_text *t)
{
	char head[40];
	rt_putf(t, "recipe %d bits %s", h->bits, form_name[h->form]);
	if (h->product) put_product(h->product, t);
	else rt_puts(t, "\n");
	put_lanes(h, t);
	if (h->form == CG_TILES) rt_putf(t, "  across d%d\n", h->tile_dim);
	if (h->asks >= 0) rt_putf(t, "  prefetch %d in %d\n", h->asked, h->asks);
	if (h->overlaps) rt_puts(t, "  overlap\n");
	if (h->exact) rt_puts(t, "  exact\n");
	if (h->beside) rt_putf(t, "  beside %d\n", h->beside);
	if (h->halves) rt_putf(t, "  multipliers %d\n", h->halves);
	for (size_t i = 0; i < RT_COUNT(sets); i++) {
		snprintf(head, sizeof head, "  %s", sets[i].name);
		put_refs(h, head, in_set, &sets[i], t);
	}
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		if (!h->of[i].branches) continue;
		snprintf(head, sizeof head, "  rare %%%u:", i);
		put_refs(h, head, is_rare, &i, t);
	}
	for (int n = 1; n <= CG_MOST_TILED; n++) {
		snprintf(head, sizeof head, "  tile %d:", n);
		put_refs(h, head, has_tile, &n, t);
	}
	for (uint32_t i = 0; i < h->structs.n; i++) put_struct(&h->structs.v[i], t);
}

/* ---- parsing ---- */
typedef struct in { const char *s; int line; bool bad; } in; /* s: what is still to be read */

static void skip(in *p) { p->s += strspn(p->s, " "); }
static void sign(in *p, char c)
{
	if (*p->s == c) p->s++;
	else p->bad = true;
}
static bool at_end(in *p) { return skip(p), *p->s == '\n' || !*p->s; }

/* Takes the word if it is next. */
static bool is(in *p, const char *word)
{
	const size_t n = strlen(word);
	skip(p);
	if (strncmp(p->s, word, n) || (p->s[n] && !strchr(" \n:=", p->s[n]))) return false;
	p->s += n;
	return true;
}

static int64_t number(in *p, int64_t least, int64_t most)
{
	char *end;
	skip(p);
	errno = 0;
	const long long v = strtoll(p->s, &end, 10);
	if (end == p->s || errno || v < least || v > most) p->bad = true;
	p->s = end;
	return p->bad ? least : v;
}

static uint32_t ref(in *p, const cg_recipe *h)
{
	skip(p);
	if (*p->s != '%' || !h->k->ins.n) { p->bad = true; return 0; }
	p->s++;
	return (uint32_t)number(p, 0, (int64_t)h->k->ins.n - 1);
}

static tj_dtype dtype(in *p)
{
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		if (is(p, tj_dtype_name((tj_dtype)t))) return (tj_dtype)t;
	p->bad = true;
	return TJ_F32;
}

/* Calls take() for each instruction of the rest of the line. */
typedef void take_fn(cg_recipe *h, uint32_t i, const void *with);
static void refs(in *p, cg_recipe *h, take_fn *take, const void *with)
{
	while (!p->bad && !at_end(p)) {
		uint32_t i = ref(p, h), last = i;
		if (!strncmp(p->s, "..", 2)) p->s += 2, last = ref(p, h);
		for (; !p->bad && i <= last; i++) take(h, i, with);
	}
}

static void take_set(cg_recipe *h, uint32_t i, const void *with)
{
	const struct set *s = with;
	*field_of(&h->of[i], s) = s->value;
}

static void take_rare(cg_recipe *h, uint32_t i, const void *with) { h->of[i].rare = *(const uint32_t *)with; }
static void take_tile(cg_recipe *h, uint32_t i, const void *with) { h->of[i].tile = *(const uint8_t *)with; }

static void parse_struct(in *p, cg_recipe *h)
{
	cg_struct s = { .first = LO_NOREF };
	s.store = is(p, "store");
	if (!s.store && !is(p, "load")) p->bad = true;
	s.dtype = dtype(p);
	sign(p, ':');
	for (; !p->bad && !at_end(p); s.n++) {
		if (s.n == CG_FIELDS) { p->bad = true; return; }
		s.field[s.n] = is(p, "-") ? LO_NOREF : ref(p, h);
		if (s.field[s.n] == LO_NOREF) continue;
		h->of[s.field[s.n]].field = h->structs.n + 1;
		if (s.first == LO_NOREF || s.field[s.n] < s.first) s.first = s.field[s.n];
		if (s.field[s.n] > s.last) s.last = s.field[s.n];
	}
	if (s.first == LO_NOREF) p->bad = true;
	else if (!rt_push(&h->structs, s)) h->oom = true;
}

static bool parse_field(in *p, const cg_recipe *h, cg_product *x)
{
#define GROUP(name)
#define NUMBER(type, name) if (is(p, #name)) return sign(p, '='), x->name = (type)number(p, 0, INT32_MAX), true;
#define FLAG(name) if (is(p, #name)) return x->name = true;
#define DTYPE(name) if (is(p, #name)) return sign(p, '='), x->name = dtype(p), true;
#define REF(name) if (is(p, #name)) return sign(p, '='), x->name = ref(p, h), true;
#include "codegen_llvm/product.def"
	return false;
}

/* What is of the kernel is found in the kernel. */
static bool begin_product(cg_recipe *h)
{
	lo_tiles x;
	if (h->product) return true;
	if (h->form != CG_PRODUCT || !lo_tiles_of(h->k, &x)) return false;
	if (!(h->product = rt_calloc(sizeof *h->product))) { h->oom = true; return false; }
	h->product->x = x;
	h->product->direct = LO_NOREF;
	cg_find_operands(h);
	return true;
}

static void parse_heights(in *p, cg_product *x)
{
	for (; !p->bad && !at_end(p); x->nrows++) {
		if (x->nrows == CG_MOST_TILES) p->bad = true;
		else x->rows[x->nrows] = (int)number(p, 1, INT16_MAX);
	}
}

static void parse_product(in *p, cg_recipe *h)
{
	static const char *const group[] = {
#define GROUP(name) #name,
#define NUMBER(type, name)
#define FLAG(name)
#define DTYPE(name)
#define REF(name)
#include "codegen_llvm/product.def"
	};
	size_t g = 0;
	p->bad = !begin_product(h);
	if (p->bad) return;
	if (is(p, "heights")) {
		parse_heights(p, h->product);
		return;
	}
	while (g < RT_COUNT(group) && !is(p, group[g])) g++;
	p->bad = g == RT_COUNT(group);
	while (!p->bad && !at_end(p)) p->bad |= !parse_field(p, h, h->product);
}

static void parse_lanes(in *p, cg_recipe *h)
{
	enum { MOST = 1024 };
	h->lanes = 1;
	for (uint32_t s = 0; cg_rows(h) && s < h->k->section.n; s++) h->loop_lanes[s] = (int)number(p, 1, MOST);
	if (!cg_rows(h)) h->lanes = (int)number(p, 1, MOST);
	p->bad |= !is(p, "tail");
	if (!cg_rows(h)) h->tail_lanes = (int)number(p, 1, h->lanes);
	for (uint32_t s = 0; cg_rows(h) && s < h->k->section.n; s++) h->loop_tails[s] = (int)number(p, 1, h->loop_lanes[s]);
}

static void parse_loops(in *p, cg_recipe *h)
{
	bool *span[] = { &h->span.main, &h->span.tail, &h->span.guard_main, &h->span.guard_tail };
	while (!p->bad && !at_end(p)) {
		size_t i = 0;
		while (i < RT_COUNT(span) && !is(p, span_name[i])) i++;
		if (i < RT_COUNT(span)) *span[i] = true;
		else p->bad = true;
	}
}

static void parse_rare(in *p, cg_recipe *h)
{
	const uint32_t select = ref(p, h);
	sign(p, ':');
	refs(p, h, take_rare, &select);
}

static void parse_tile(in *p, cg_recipe *h)
{
	const uint8_t n = (uint8_t)number(p, 1, CG_MOST_TILED);
	sign(p, ':');
	refs(p, h, take_tile, &n);
}

static void parse_line(in *p, cg_recipe *h)
{
	const int sections = (int)h->k->section.n;
	for (size_t i = 0; i < RT_COUNT(sets); i++)
		if (is(p, sets[i].name)) {
			refs(p, h, take_set, &sets[i]);
			return;
		}
	if (is(p, "lanes")) parse_lanes(p, h);
	else if (is(p, "loops")) parse_loops(p, h);
	else if (is(p, "product")) parse_product(p, h);
	else if (is(p, "across")) {
		p->s += strspn(p->s, " d");
		h->tile_dim = (int)number(p, 0, h->k->ndim - 1);
	} else if (is(p, "prefetch")) {
		h->asked = (int)number(p, 0, sections - 1);
		p->bad |= !is(p, "in");
		h->asks = (int)number(p, 0, sections - 1);
	} else if (is(p, "overlap")) h->overlaps = true;
	else if (is(p, "exact")) h->exact = true;
	else if (is(p, "beside")) h->beside = (int)number(p, 2, CG_MOST_BESIDE);
	else if (is(p, "multipliers")) h->halves = (int)number(p, 1, 2);
	else if (is(p, "rare")) parse_rare(p, h);
	else if (is(p, "tile")) parse_tile(p, h);
	else if (is(p, "structure")) parse_struct(p, h);
	else p->bad = true;
}

static void parse_head(in *p, cg_recipe *h)
{
	size_t f = 0;
	p->bad |= !is(p, "recipe");
	h->bits = (int)number(p, 128, 512);
	p->bad |= !is(p, "bits");
	while (f < RT_COUNT(form_name) && !is(p, form_name[f])) f++;
	p->bad |= f == RT_COUNT(form_name);
	h->form = (cg_form)f;
}

tj_status cg_recipe_parse(cg_recipe *h, const lo_kernel *k, const lo_schedule *s, const char *text, rt_err *err)
{
	in p = { .s = text, .line = 1 };
	tj_status st = begin(h, k, s, 0, err);
	if (st != TJ_OK) return st;
	parse_head(&p, h);
	while (!p.bad && !h->oom && at_end(&p) && *p.s) {
		p.s++, p.line++;
		if (!at_end(&p)) parse_line(&p, h);
	}
	if (h->oom) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (!p.bad && at_end(&p) && !*p.s) return sum_up(h), TJ_OK;
	return rt_fail(err, TJ_ERR_PARSE, "recipe", "line %d of the recipe of %s cannot be read: `%.*s`", p.line, k->name, (int)strcspn(p.s, "\n"),
	               p.s);
}
