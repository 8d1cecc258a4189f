/* SPDX-License-Identifier: MIT */
/* Checkpoints: what a model, its optimiser and the program keep, in one safetensors file. */
#include "kit/nn/nn.h"

#include <stdio.h>
#include <tjfiles.h>

/* All that is saved or loaded, in one list: slots of the model that are not shared, those of the optimiser, values. */
typedef struct item {
	const char *name;
	char state[NN_NAME + 32]; /* "state.NAME" of a value, or of what another rank has; else empty */
	tj_tensor **cell;         /* NULL: a number, or .made */
	tj_tensor *made;          /* saving: what another rank has */
	int64_t *i;
	double *f;
	tj_tensor *found; /* loading: in the file; NULL: leave it as it is */
} item;
typedef struct items {
	item *at;
	int64_t n, room;
	kit_texts names;
} items;

static bool collect_all(const char *site, const char *op, const tjnn_model *m, const tjnn_optim *o, const tjnn_value *values, items *all)
{
	const nn_slots *lists[2] = { &m->slots, o ? nn_optim_slots(o) : NULL };
	int64_t room = 3;
	for (int k = 0; k < 2; k++) room += lists[k] ? lists[k]->n : 0;
	for (const tjnn_value *v = values; v && v->name; v++) room++;
	if (o && nn_optim_spread(o)) room += NN_STATES * m->nparams;
	*all = (items){ .at = calloc((size_t)room, sizeof *all->at), .room = room };
	if (!all->at) return tj_fail(TJ_ERR_NOMEM, op, "", "out of memory"), false;
	for (int k = 0; k < 2; k++)
		for (int64_t i = 0; lists[k] && i < lists[k]->n; i++)
			if (!lists[k]->at[i].same_as)
				all->at[all->n++] = (item){ .name = lists[k]->at[i].name, .cell = lists[k]->at[i].var };
	const tj_scaler *scaler = o ? nn_optim_scaler(o) : NULL;
	if (scaler) {
		all->at[all->n++] = (item){ .name = "optim.scaler.scale", .cell = (tj_tensor **)(uintptr_t)&scaler->scale };
		all->at[all->n++] = (item){ .name = "optim.scaler.good", .cell = (tj_tensor **)(uintptr_t)&scaler->good };
	}
	for (const tjnn_value *v = values; v && v->name; v++) {
		item *one = &all->at[all->n++];
		*one = (item){ .cell = v->cell, .i = v->i, .f = v->f };
		if (snprintf(one->state, sizeof one->state, "state.%s", v->name) >= (int)sizeof one->state ||
		    (!v->cell && !v->i && !v->f)) {
			tj_fail(TJ_ERR_ARG, op, "", "the value %s has %s", v->name,
			        v->cell || v->i || v->f ? "too long a name" : "no pointer");
			return false;
		}
	}
	return true;
}
static const char *name_of(const item *i) { return i->name ? i->name : i->state; }

static bool has(const items *all, const char *name) { return kit_text_find(&all->names, name, strlen(name)) >= 0; }

static bool list_names(items *all)
{
	for (int64_t i = 0; i < all->n; i++)
		if (kit_text_put(&all->names, name_of(&all->at[i]), strlen(name_of(&all->at[i]))) < 0) return false;
	return true;
}

static void free_items(items *all)
{
	kit_texts_free(&all->names);
	free(all->at);
}

static bool collect(const char *site, const char *op, const tjnn_model *m, const tjnn_optim *o, const tjnn_value *values, items *all)
{
	if (o && nn_optim_model(o) != m) {
		tj_fail(TJ_ERR_STATE, op, "", "the optimiser is %s", nn_optim_model(o) ? "of another model" : "of a model that was closed");
		return false;
	}
	if (!collect_all(site, op, m, o, values, all)) return false;
	return list_names(all) || (tj_fail(TJ_ERR_NOMEM, op, "", "out of memory"), false);
}

/* ---- saving ---- */
static const char *const about[] = { "format", "pt", "writer", "tjit " TJ_VERSION, NULL };

static tj_tensor *tensor_of(const char *site, tj_ctx *c, const item *i)
{
	if (i->made || i->cell) return i->made ? i->made : *i->cell;
	return i->i ? tj_from_data_on(c, TJ_CPU, TJ_I64, TJ_0D, i->i) : tj_from_data_on(c, TJ_CPU, TJ_F64, TJ_0D, i->f);
}

static tj_status write_items(const char *site, tj_ctx *c, const items *all, const char *path)
{
	const char **name = malloc((size_t)(all->n + 1) * sizeof *name);
	tj_tensor **t = malloc((size_t)(all->n + 1) * sizeof *t);
	tj_status st = TJ_ERR_NOMEM;
	for (int64_t i = 0; name && t && i < all->n; i++) {
		name[i] = name_of(&all->at[i]);
		t[i] = tensor_of(site, c, &all->at[i]);
	}
	if (name && t) {
		t[all->n] = TJ_END;
		st = tj_safetensors_save(path, name, t, about);
	} else {
		tj_fail(st, "tjnn_save", "", "out of memory");
	}
	free(name);
	free(t);
	return st;
}

/* What this rank has is in the list already. */
static void add_gathered(void *env, const char *name, tj_tensor *value)
{
	items *all = env;
	if (has(all, name) || all->n == all->room) return;
	item *i = &all->at[all->n++];
	*i = (item){ .made = value };
	snprintf(i->state, sizeof i->state, "%s", name);
	kit_text_put(&all->names, i->state, strlen(i->state));
}

/* Rank 0 writes; all ranks learn whether it could. */
static tj_status write_once(const char *site, const tjnn_model *m, const tjnn_optim *o, items *all, const char *path)
{
	tj_comm *w = o ? nn_optim_comm(o) : NULL;
	if (!w) return write_items(site, m->ctx, all, path);
	nn_optim_gather(site, o, add_gathered, all);
	const tj_status mine = tj_comm_rank(w) ? TJ_OK : write_items(site, m->ctx, all, path);
	const tj_status st = (tj_status)nn_of_first(site, m->ctx, w, mine, TJ_ERR_STATE);
	if (st != TJ_OK && tj_comm_rank(w)) tj_fail(st, "tjnn_save", "", "rank 0 could not write %s", path);
	return st;
}

tj_status tjnn_save_at(const char *site, const tjnn_model *m, const tjnn_optim *o, const tjnn_value *values, const char *path)
{
	items all = { 0 };
	tj_status st = TJ_ERR_ARG;
	if (nn_refuses(site, m, "tjnn_save", false)) return TJ_ERR_STATE;
	if (!path) return tj_fail(st, "tjnn_save", "", "no path"), st;
	if (o && nn_optim_swapped(o)) {
		tj_fail(TJ_ERR_STATE, "tjnn_save", "save the model alone, or swap back", "the averages are in place of the parameters");
		return TJ_ERR_STATE;
	}
	if (collect(site, "tjnn_save", m, o, values, &all)) {
		tj_scope *s = tj_push(m->ctx);
		st = write_once(site, m, o, &all, path);
		tj_pop(s);
	}
	free_items(&all);
	return st;
}

/* ---- loading ---- */
typedef struct report {
	const tjnn_load_opts *o;
	char text[400];
	int n; /* what does not fit */
} report;

static void tell(report *r, const char *name, const char *what)
{
	const size_t at = strlen(r->text);
	if (r->o->report) r->o->report(r->o->env, name, what);
	if (r->n++ < 6 && at < sizeof r->text) snprintf(r->text + at, sizeof r->text - at, "%s%s %s", at ? "; " : "", name, what);
}

static const char *type_text(tj_dtype dtype, int rank, const int64_t *dim, char *to, size_t room)
{
	const size_t at = (size_t)snprintf(to, room, "%s", tj_dtype_name(dtype));
	nn_shape_text(rank, dim, to + at, room - at);
	return to;
}

static bool is_float(tj_dtype t) { return t >= TJ_F16; }

/* Whether the entry has the type of the item; else it is told. */
static bool fits(const item *i, const tj_safetensors_entry *e, report *r)
{
	char have[200], want[200], text[440];
	int64_t dim[TJ_MAX_RANK];
	const int rank = i->cell ? tj_rank(*i->cell) : 0;
	const tj_dtype dtype = i->cell ? tj_dtype_of(*i->cell) : i->i ? TJ_I64 : TJ_F64;
	bool same = rank == e->rank && (dtype == e->dtype || (r->o->cast && is_float(dtype) && is_float(e->dtype)));
	for (int k = 0; k < rank; k++) {
		dim[k] = tj_dim(*i->cell, k);
		same = same && dim[k] == e->dim[k];
	}
	if (same) return true;
	snprintf(text, sizeof text, "is %s, the file has %s", type_text(dtype, rank, dim, want, sizeof want),
	         type_text(e->dtype, e->rank, e->dim, have, sizeof have));
	tell(r, name_of(i), text);
	return false;
}

static void match(const char *site, items *all, const tj_safetensors *file, const tjnn_model *m, const tjnn_optim *o,
                  const tjnn_value *values, report *r)
{
	for (int64_t i = 0; i < all->n; i++) {
		const tj_safetensors_entry *e = tj_safetensors_find(file, name_of(&all->at[i]));
		if (!e)
			tell(r, name_of(&all->at[i]), "is missing");
		else if (fits(&all->at[i], e, r))
			all->at[i].found = tj_safetensors_get(file, e->name);
	}
	for (int64_t i = 0; i < tj_safetensors_count(file); i++) {
		const char *name = tj_safetensors_at(file, i)->name;
		if (((!o || nn_optim_spread(o)) && !strncmp(name, "optim.", 6)) || (!values && !strncmp(name, "state.", 6))) continue;
		if (!has(all, name) && nn_slots_find(&m->slots, name) < 0) tell(r, name, "is unexpected");
	}
}

static tj_status write_item(const char *site, const item *i)
{
	if (i->cell) return tj_assign(*i->cell, tj_to(i->found, tj_device_of(*i->cell)));
	if (i->i)
		*i->i = tj_item_i(i->found);
	else
		*i->f = tj_item(i->found);
	return TJ_OK;
}

tj_status tjnn_load_at(const char *site, tjnn_model *m, tjnn_optim *o, const tjnn_value *values, const char *path,
                       const tjnn_load_opts *opts)
{
	KIT_OPTIONS(tjnn_load_opts, how, opts, TJ_ERR_ARG)
	items all = { 0 };
	report r = { .o = &how };
	tj_status st = TJ_ERR_ARG;
	if (nn_refuses(site, m, "tjnn_load", false)) return TJ_ERR_STATE;
	if (!path) return tj_fail(st, "tjnn_load", "", "no path"), st;
	tj_safetensors *file = tj_safetensors_open(m->ctx, path);
	if (!file) return TJ_ERR_IO;
	tj_scope *s = tj_push(m->ctx);
	if (collect(site, "tjnn_load", m, o, values, &all)) {
		match(site, &all, file, m, o, values, &r);
		if (r.n && !how.partial)
			tj_fail(TJ_ERR_ARG, "tjnn_load", "set .partial of tjnn_load_opts to load what fits, .cast to convert floats",
			        "%s: %d do%s not fit: %s%s", path, r.n, r.n == 1 ? "es" : "", r.text, r.n > 6 ? "; ..." : "");
		else
			st = TJ_OK;
		for (int64_t i = 0; st == TJ_OK && i < all.n; i++)
			if (all.at[i].found) st = write_item(site, &all.at[i]);
		if (st == TJ_OK && o) st = nn_optim_read_rates(site, o);
	}
	tj_pop(s);
	free_items(&all);
	tj_safetensors_close(file);
	return st;
}
