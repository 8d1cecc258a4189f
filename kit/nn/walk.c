/* SPDX-License-Identifier: MIT */
/* Walks: a layers function names its parameters and buffers, one after the other, below the names of the modules around. */
#include "kit/nn/nn.h"

#include <stdarg.h>
#include <stdio.h>

struct tjnn_walk {
	nn_slots *slots;
	tj_dtype dtype;       /* of parameters */
	char prefix[NN_NAME]; /* the names of the modules around, each with its dot */
	size_t end[NN_DEPTH]; /* of the prefix around each of them */
	int depth;
	bool failed; /* an error was reported; what follows is not looked at */
	bool opens;  /* a model opens: structs are made */
	char name[NN_NAME];   /* of tjnn_name() */
};

int64_t nn_slots_find(const nn_slots *s, const char *name) { return kit_text_find(&s->names, name, strlen(name)); }

int64_t nn_slots_of_field(const nn_slots *s, tj_tensor *const *var)
{
	const int64_t *i = kit_number_find(&s->fields, (uint64_t)(uintptr_t)var);
	return i ? *i : -1;
}

bool nn_slots_add(nn_slots *all, tjnn_slot s)
{
	if (all->n == all->room) {
		const int64_t room = all->room ? 2 * all->room : 32;
		tjnn_slot *more = realloc(all->at, (size_t)room * sizeof *more);
		if (!more) return false;
		all->at = more;
		all->room = room;
	}
	if (!(s.name = strdup(s.name))) return false;
	all->at[all->n++] = s;
	return kit_text_put(&all->names, s.name, strlen(s.name)) >= 0 &&
	       kit_number_put(&all->fields, (uint64_t)(uintptr_t)s.var, all->n - 1);
}

void nn_slots_free(nn_slots *s)
{
	for (int64_t i = 0; i < s->n; i++) free((void *)(uintptr_t)s->at[i].name);
	free(s->at);
	free(s->fields.v);
	kit_texts_free(&s->names);
	*s = (nn_slots){ 0 };
}

tj_dtype tjnn_walk_dtype(const tjnn_walk *w) { return w->dtype; }
void nn_walk_failed(tjnn_walk *w) { w->failed = true; }

static void nomem(const char *site, tjnn_walk *w)
{
	w->failed = true;
	tj_fail(TJ_ERR_NOMEM, "tjnn_walk", "", "out of memory");
}

static bool bad_name(const char *site, tjnn_walk *w, const char *name)
{
	if (w->failed) return true;
	const bool text = name && *name, utf8 = text && kit_is_utf8(name, strlen(name));
	if (utf8 && strlen(w->prefix) + strlen(name) < NN_NAME - 1 && strcmp(name, "__metadata__")) return false;
	w->failed = true;
	if (text && !utf8)
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "checkpoints have names in UTF-8", "a name below \"%s\" is no UTF-8", w->prefix);
	else if (text && !strcmp(name, "__metadata__"))
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "safetensors has it for a purpose of its own", "a layer has the name %s", name);
	else if (!text)
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "each layer has a name", "a name below \"%s\" is empty", w->prefix);
	else
		tj_fail(TJ_ERR_LIMIT, "tjnn_walk", "shorten it", "the name %s%s has more than %d characters", w->prefix, name, NN_NAME - 2);
	return true;
}

/* A model opens: memory of a layer or field that another open model has. */
static bool in_another_model(const char *site, tjnn_walk *w, const char *name, const void *m, size_t size)
{
	if (!w->opens || !nn_is_taken(m, size)) return false;
	w->failed = true;
	tj_fail(TJ_ERR_STATE, "tjnn_open", "close the other one first with tjnn_close(); each model has a struct of its own",
	        "%s is in a struct that another model has", name);
	return true;
}

bool nn_walk_struct(const char *site, tjnn_walk *w, const char *name, void *m, size_t size)
{
	if (bad_name(site, w, name) || (m && in_another_model(site, w, name, m, size))) return false;
	if (m && w->opens) memset(m, 0, size);
	if (m) return true;
	w->failed = true;
	tj_fail(TJ_ERR_ARG, "tjnn_walk", "pass the address of a field of the module", "%s%s has no struct", w->prefix, name);
	return false;
}

/* of a parameter or buffer, with its variable */
static bool bad_leaf(const char *site, tjnn_walk *w, const char *name, tj_tensor **var)
{
	if (bad_name(site, w, name)) return true;
	if (var && !strchr(name, '.')) return false;
	w->failed = true;
	if (!var)
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "pass the address of a field of the module", "%s%s has no variable", w->prefix, name);
	else
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "tjnn_enter() puts a name and a dot in front", "the name %s has a dot", name);
	return true;
}

static bool bad_shape(const char *site, tjnn_walk *w, const char *name, tj_dims shape, tjnn_slot *s)
{
	for (; shape && shape[s->rank] != TJ_END_DIM && s->rank < TJ_MAX_RANK && shape[s->rank] >= 0; s->rank++)
		s->dim[s->rank] = shape[s->rank];
	s->dim[s->rank] = TJ_END_DIM;
	if (!shape || shape[s->rank] == TJ_END_DIM) return false;
	w->failed = true;
	if (s->rank == TJ_MAX_RANK)
		tj_fail(TJ_ERR_SHAPE, "tjnn_walk", "", "%s%s has more than %d axes", w->prefix, name, TJ_MAX_RANK);
	else
		tj_fail(TJ_ERR_SHAPE, "tjnn_walk", "sizes are 0 or more", "axis %d of %s%s has size %lld", s->rank, w->prefix, name,
		        (long long)shape[s->rank]);
	return true;
}

/* The slot, under its full name, behind the others. */
static void add(const char *site, tjnn_walk *w, const char *name, tjnn_slot s)
{
	nn_slots *all = w->slots;
	char full[NN_NAME];
	snprintf(full, sizeof full, "%s%s", w->prefix, name);
	if (nn_slots_find(all, full) >= 0) {
		w->failed = true;
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "layers of one module have different names", "there are two of the name %s", full);
		return;
	}
	const int64_t other = s.same_as ? -1 : nn_slots_of_field(all, s.var);
	if (other >= 0) {
		w->failed = true;
		tj_fail(TJ_ERR_ARG, "tjnn_walk", "each layer has a struct of its own; tjnn_shared() gives one parameter two names",
		        "%s is in the same field as %s", full, all->at[other].name);
		return;
	}
	if (in_another_model(site, w, full, s.var, sizeof *s.var)) return;
	s.name = full;
	if (!nn_slots_add(all, s)) nomem(site, w);
}

void tjnn_param_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_dims shape, tjnn_init init)
{
	tjnn_slot s = { .var = var, .dtype = w->dtype, .init = init };
	if (bad_leaf(site, w, name, var) || bad_shape(site, w, name, shape, &s)) return;
	const char *why = nn_misfit(&s, init);
	if (why) {
		w->failed = true;
		tj_fail(TJ_ERR_ARG, "tjnn_param", "", "the initial value of %s%s: %s", w->prefix, name, why);
		return;
	}
	add(site, w, name, s);
}

void tjnn_buffer_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_dtype dtype, tj_dims shape, double value)
{
	tjnn_slot s = { .var = var, .buffer = true, .dtype = dtype, .init = tjnn_constant(value) };
	if (bad_leaf(site, w, name, var) || bad_shape(site, w, name, shape, &s)) return;
	add(site, w, name, s);
}

void tjnn_shared_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_tensor **of)
{
	if (bad_leaf(site, w, name, var)) return;
	const int64_t i = nn_slots_of_field(w->slots, of);
	if (i >= 0) {
		tjnn_slot s = w->slots->at[i];
		if (!s.same_as) s.same_as = s.name; /* lives as long as this slot */
		s.var = var;
		add(site, w, name, s);
		return;
	}
	w->failed = true;
	tj_fail(TJ_ERR_ARG, "tjnn_shared", "name the other one first", "%s%s is to be the same as a field that this walk has not named",
	        w->prefix, name);
}

void tjnn_enter_at(const char *site, tjnn_walk *w, const char *fmt, ...)
{
	char name[NN_NAME];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(name, sizeof name, fmt, ap);
	va_end(ap);
	if (bad_name(site, w, name)) return;
	if (w->depth == NN_DEPTH) {
		w->failed = true;
		tj_fail(TJ_ERR_LIMIT, "tjnn_enter", "each tjnn_enter() needs its tjnn_leave()", "more than %d modules within each other",
		        NN_DEPTH);
		return;
	}
	w->end[w->depth++] = strlen(w->prefix);
	strcat(strcat(w->prefix, name), ".");
}

const char *tjnn_name(tjnn_walk *w, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(w->name, sizeof w->name, fmt, ap);
	va_end(ap);
	return w->name;
}

void tjnn_leave_at(const char *site, tjnn_walk *w)
{
	if (w->failed) return;
	if (w->depth) {
		w->prefix[w->end[--w->depth]] = 0;
		return;
	}
	w->failed = true;
	tj_fail(TJ_ERR_STATE, "tjnn_leave", "each tjnn_leave() needs its tjnn_enter()", "no module was entered");
}

void tjnn_child_at(const char *site, tjnn_walk *w, const char *name, tjnn_layers *layers, void *self)
{
	tjnn_enter_at(site, w, "%s", name ? name : "");
	if (w->failed) return;
	const int depth = w->depth;
	if (layers) layers(w, self);
	else if (!w->failed) {
		w->failed = true;
		tj_fail(TJ_ERR_ARG, "tjnn_child", "", "%s has no layers function", name);
	}
	if (!w->failed && w->depth != depth) {
		w->failed = true;
		tj_fail(TJ_ERR_STATE, "tjnn_child", "each tjnn_enter() needs its tjnn_leave()",
		        "the layers of %s end within another module", name);
	}
	tjnn_leave_at(site, w);
}

tj_status nn_walk(const char *site, tjnn_layers *layers, void *self, tj_dtype dtype, bool opens, nn_slots *out)
{
	*out = (nn_slots){ 0 };
	tjnn_walk w = { .slots = out, .dtype = dtype, .opens = opens };
	layers(&w, self);
	if (!w.failed && w.depth) {
		w.failed = true;
		tj_fail(TJ_ERR_STATE, "tjnn_walk", "each tjnn_enter() needs its tjnn_leave()", "the walk ends within %s", w.prefix);
	}
	if (w.failed) nn_slots_free(out);
	return w.failed ? TJ_ERR_ARG : TJ_OK;
}

tj_status tjnn_visit_at(const char *site, tjnn_layers *layers, void *self, void (*see)(void *env, const tjnn_slot *slot), void *env)
{
	nn_slots s;
	const tj_status st = nn_walk(site, layers, self, TJ_F32, false, &s);
	for (int64_t i = 0; i < s.n; i++) see(env, &s.at[i]);
	nn_slots_free(&s);
	return st;
}
