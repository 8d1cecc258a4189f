/* SPDX-License-Identifier: MIT */
/* onnxwrite: a function as an ONNX file. tj_graph_of() shows its graphs at several sizes; all of them must have one form, and each number
 * in them must follow from the sizes (sizes.c). With the last graph the nodes are written, then the file.
 *
 *   graphs -> skeleton, numbers -> rows of written.def -> nodes, initializers -> ModelProto */
#include "kit/models/write.h"

#include <stdarg.h>

/* ---- values ---- */
const char *ow_name_new(ow *w, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	char *s = n < 0 ? NULL : ox_take(&w->mem, (size_t)n + 1);
	if (s) vsnprintf(s, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return s ? s : (kit_no_memory(&w->why), "");
}

ow_v ow_new_value(ow *w, const char *name, tj_dtype dtype)
{
	if (w->nvalue == w->value_room) {
		const int room = w->value_room ? 2 * w->value_room : 256;
		ow_value *v = realloc(w->value, (size_t)room * sizeof *v);
		if (!v) return kit_no_memory(&w->why), 0;
		w->value = v;
		w->value_room = room;
		if (!w->nvalue) w->value[w->nvalue++] = (ow_value){ .name = "" }; /* 0 is none */
	}
	w->value[w->nvalue] = (ow_value){ .name = name ? name : ow_name_new(w, "%%%d", w->nvalue), .dtype = dtype };
	return w->nvalue++;
}

void ow_refuse(ow *w, const tj_node *n, const char *fmt, ...)
{
	char what[256], line[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	snprintf(line, sizeof line, "%s at %s %s", tj_node_op(n), tj_node_site(n), what);
	if (!w->refused++) memcpy(w->first, line, sizeof line);
	if (w->o.on_refused) w->o.on_refused(w->o.on_refused_self, line);
}

/* ---- nodes of the graph, by address ---- */
static size_t place(const ow *w, const tj_node *n)
{
	size_t i = ((uintptr_t)n >> 4) * 0x9E3779B97F4A7C15u % w->node_room;
	while (w->node[i].n && w->node[i].n != n) i = (i + 1) % w->node_room;
	return i;
}

ow_node *ow_of(ow *w, const tj_node *n)
{
	ow_node *x = n && w->node_room ? &w->node[place(w, n)] : NULL;
	if (x && x->n) return x;
	kit_no(&w->why, TJ_ERR_STATE, "a node is in no graph that was seen");
	return NULL;
}

static ow_node *add_node(ow *w, const tj_node *n)
{
	if (2 * (w->nnode + 1) > w->node_room) {
		const size_t room = w->node_room ? 2 * w->node_room : 1024, old = w->node_room;
		ow_node *was = w->node, *v = calloc(room, sizeof *v);
		if (!v) return kit_no_memory(&w->why), NULL;
		w->node = v;
		w->node_room = room;
		for (size_t i = 0; i < old; i++)
			if (was[i].n) w->node[place(w, was[i].n)] = was[i];
		free(was);
	}
	ow_node *x = &w->node[place(w, n)];
	*x = (ow_node){ .n = n };
	w->nnode++;
	return x;
}

/* ---- the form of a graph, and its numbers ---- */
static bool number(ow *w, int64_t v)
{
	const int k = w->samples.n;
	if (w->nnumber[k] == w->number_room[k]) {
		const size_t room = w->number_room[k] ? 2 * w->number_room[k] : 4096;
		int64_t *p = realloc(w->number[k], room * sizeof *p);
		if (!p) return kit_no_memory(&w->why);
		w->number[k] = p;
		w->number_room[k] = room;
	}
	w->number[k][w->nnumber[k]++] = v;
	return true;
}

/* A part of the form: kept of the first graph, compared in the others. */
static bool part(ow *w, const tj_node *n, uint64_t v)
{
	if (!w->samples.n) {
		if (w->nskeleton == w->skeleton_room) {
			const size_t room = w->skeleton_room ? 2 * w->skeleton_room : 4096;
			uint64_t *p = realloc(w->skeleton, room * sizeof *p);
			if (!p) return kit_no_memory(&w->why);
			w->skeleton = p;
			w->skeleton_room = room;
		}
		w->skeleton[w->nskeleton++] = v;
		return true;
	}
	if (w->seen < w->nskeleton && w->skeleton[w->seen++] == v) return true;
	return kit_no(&w->why, TJ_ERR_STATE, "%s at %s: the function computes other things at other sizes; write it with .static_sizes",
	              tj_node_op(n), tj_node_site(n));
}

static uint64_t hash(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = 0xCBF29CE484222325u;
	for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
	return h;
}

static int64_t elements(const tj_node *n)
{
	int64_t k = 1;
	for (int d = 0; d < tj_node_rank(n); d++) k *= tj_node_dim(n, d);
	return k;
}

/* All elements are equal. */
static bool is_splat(const tj_node *n, const unsigned char *p)
{
	const size_t size = tj_dtype_size(tj_node_dtype(n));
	const int64_t k = elements(n);
	return k && !memcmp(p, p + size, (size_t)(k - 1) * size);
}

enum { MOST_NUMBERS = 4096 }; /* elements of a constant that may follow from sizes */

static int64_t element(tj_dtype t, const unsigned char *p)
{
	int64_t v = 0;
	float f;
	double d;
	switch (t) {
	case TJ_F32: memcpy(&f, p, sizeof f), d = (double)f, memcpy(&v, &d, sizeof v); return v;
	case TJ_I32: {
		int32_t i;
		memcpy(&i, p, sizeof i);
		return i;
	}
	default: memcpy(&v, p, tj_dtype_size(t)); return v;
	}
}

static bool see_constant(ow *w, tj_node *n)
{
	const unsigned char *p = tj_node_data(n);
	const tj_dtype t = tj_node_dtype(n);
	const size_t size = tj_dtype_size(t);
	const int64_t k = elements(n);
	if (!p) return kit_no_memory(&w->why);
	if (!k) return part(w, n, 1);
	if (is_splat(n, p)) return part(w, n, 2) && number(w, element(t, p));
	if (k > MOST_NUMBERS || (t != TJ_I64 && t != TJ_I32)) return part(w, n, 3) && part(w, n, hash(p, (size_t)k * size));
	bool ok = part(w, n, 4) && part(w, n, (uint64_t)k);
	for (int64_t i = 0; ok && i < k; i++) ok = number(w, element(t, p + (size_t)i * size));
	return ok;
}

static bool see_graph(ow *w, tj_graph *g);

static bool see_node(ow *w, tj_node *n)
{
	const char *op = tj_node_op(n);
	int index = 0;
	const char *source = tj_node_source(n, &index);
	ow_node *x = add_node(w, n);
	if (!x) return false;
	x->first = (int)w->nnumber[w->samples.n];
	x->value = (ow_v)w->nnode; /* its number, until nodes are written */
	bool ok = part(w, n, hash(op, strlen(op))) && part(w, n, (uint64_t)tj_node_dtype(n) << 8 | (unsigned)tj_node_rank(n)) &&
	          part(w, n, (uint64_t)(unsigned)tj_node_inputs(n) << 32 | (unsigned)tj_node_attrs(n));
	if (ok && source) ok = part(w, n, hash(source, strlen(source)) + (unsigned)index);
	for (int k = 0; ok && k < tj_node_inputs(n); k++) {
		const ow_node *y = ow_of(w, tj_node_input(n, k));
		ok = y && part(w, n, (uint64_t)y->value);
	}
	for (int d = 0; ok && d < tj_node_rank(n); d++) ok = number(w, tj_node_dim(n, d));
	for (int k = 0; ok && k < tj_node_attrs(n); k++) ok = number(w, tj_node_attr(n, k));
	if (ok && !strcmp(op, "constant")) ok = see_constant(w, n);
	tj_graph *r;
	for (int k = 0; ok && (r = tj_node_region(n, k)); k++) ok = see_graph(w, r);
	return ok;
}

static bool see_graph(ow *w, tj_graph *g)
{
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n))
		if (!see_node(w, n)) return false;
	for (int i = 0; i < tj_graph_outputs(g); i++) {
		const ow_node *x = ow_of(w, tj_graph_output(g, i));
		if (!x || !part(w, tj_graph_output(g, i), (uint64_t)x->value)) return false;
	}
	return true;
}

static bool see_sizes(ow *w, tj_graph *g)
{
	tj_graph_size s;
	int i = 0;
	if (w->samples.n == OW_SAMPLES) return kit_no(&w->why, TJ_ERR_LIMIT, "too many sizes vary");
	for (; tj_graph_size_of(g, i, &s); i++) {
		if (i == OW_SYMBOLS) return kit_no(&w->why, TJ_ERR_LIMIT, "more than %d sizes vary", OW_SYMBOLS);
		w->samples.size[w->samples.n][i] = s.value;
		w->symbol[i] = ow_name_new(w, "%s", s.name);
	}
	w->samples.symbols = i;
	return true;
}

/* ---- leaves ---- */
static ow_v variable(ow *w, int i) { return i >= 0 && i < w->nvariable ? w->variable[i] : 0; }

/* Its value stays 0 when it differs between sizes in a way that no expression gives; what uses it is refused then. */
static void put_constant(ow *w, tj_node *n, ow_node *x)
{
	const unsigned char *p = tj_node_data(n);
	const tj_dtype t = tj_node_dtype(n);
	const size_t size = tj_dtype_size(t);
	const int64_t k = elements(n);
	int64_t dim[TJ_MAX_RANK];
	ow_size s;
	bool varies = false;
	for (int d = 0; d < tj_node_rank(n); d++) dim[d] = tj_node_dim(n, d), varies |= ow_dim_varies(w, n, d, &s);
	const size_t at = (size_t)x->first + (size_t)tj_node_rank(n) + (size_t)tj_node_attrs(n);
	const bool splat = k && is_splat(n, p);
	bool differs = false;
	for (int j = 1; splat && j < w->samples.n; j++) differs |= w->number[j][at] != w->number[0][at];
	if (!splat && varies) return;
	if (!splat && k && k <= MOST_NUMBERS && (t == TJ_I64 || t == TJ_I32))
		for (int64_t i = 0; i < k; i++)
			for (int j = 1; j < w->samples.n; j++)
				if (w->number[j][at + (size_t)i] != w->number[0][at + (size_t)i]) return;
	if (!splat || (!varies && !differs && k * (int64_t)size <= 64)) {
		x->value = ow_initializer_of(w, t, tj_node_rank(n), dim, p, (size_t)k * size);
		return;
	}
	ow_v v = ow_initializer_of(w, t, 0, NULL, p, size);
	if (differs) {
		ow_number q = { .form = OW_INTEGER };
		int64_t ints[OW_SAMPLES];
		double floats[OW_SAMPLES];
		for (int j = 0; j < w->samples.n; j++) ints[j] = w->number[j][at], memcpy(&floats[j], &ints[j], sizeof floats[j]);
		const bool real = t == TJ_F32 || t == TJ_F64, whole = t == TJ_I64 || t == TJ_I32;
		if (real ? !ow_fit_float(&w->samples, t, floats, &q) : !whole || !ow_fit(&w->samples, ints, &q.size)) return;
		v = ow_squeeze(w, ow_size_value(w, &q.size), (int64_t[]){ 0 }, 1);
		v = ow_cast(w, v, real ? TJ_F64 : t);
		if (q.form >= OW_ROOT) v = ow_op1(w, "Sqrt", v);
		if (q.form == OW_INVERSE || q.form == OW_INVERSE_ROOT) v = ow_op1(w, "Reciprocal", v);
		v = ow_cast(w, v, t);
	}
	if (tj_node_rank(n)) {
		const ow_v shape = ow_shape_value(w, n);
		v = ow_op2(w, "Expand", v, shape);
	}
	x->value = v;
}

static void put_leaf(ow *w, tj_node *n, ow_node *x)
{
	int i = -1;
	const char *source = tj_node_source(n, &i);
	if (!source) return; /* what uses it is refused */
	if (!strcmp(source, "argument") && i < w->nargument)
		x->value = w->argument[i];
	else if (!strcmp(source, "variable"))
		x->value = variable(w, i);
	else
		ow_refuse(w, n, "is a number that the call gives: pass it as a tensor");
}

/* ---- nodes ---- */
/* Rows that ask for their attributes as values; in others they may not vary. */
static bool attrs_may_vary(const char *op)
{
	static const char *const ops[] = { "reshape", "expand", "slice",   "unfold", "topk", "arange",
		                           "eye",     "full",   "one_hot", "while",  "scan" };
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(op, ops[i])) return true;
	return false;
}

static bool attrs_fixed(ow *w, tj_node *n)
{
	ow_size s;
	for (int k = 0; k < tj_node_attrs(n) && !attrs_may_vary(tj_node_op(n)); k++)
		if (ow_attr_varies(w, n, k, &s))
			return ow_refuse(w, n, "has an attribute that varies with the sizes; write it with .static_sizes"), false;
	return true;
}

void ow_result(ow *w, const tj_node *n, int k, ow_v v)
{
	ow_node *x = ow_of(w, n);
	if (!x) return;
	if (k >= x->nresult) {
		const int room = k < 8 ? 16 : 2 * k;
		ow_v *r = ox_take(&w->mem, (size_t)room * sizeof *r); /* zeroed: no value */
		if (!r) {
			kit_no_memory(&w->why);
			return;
		}
		if (x->nresult) memcpy(r, x->result, (size_t)x->nresult * sizeof *r);
		x->result = r, x->nresult = room;
	}
	x->result[k] = v;
}

/* It has no elements at any size: a constant. Runtimes differ in what they do with such tensors. */
static bool is_empty(ow *w, tj_node *n)
{
	ow_size s;
	bool empty = false;
	for (int d = 0; d < tj_node_rank(n); d++) {
		if (ow_dim_varies(w, n, d, &s)) return false;
		empty |= !tj_node_dim(n, d);
	}
	return empty;
}

static void put_empty(ow *w, tj_node *n, ow_node *x)
{
	int64_t dim[TJ_MAX_RANK] = { 0 };
	for (int d = 0; d < tj_node_rank(n); d++) dim[d] = tj_node_dim(n, d);
	x->value = ow_initializer_of(w, tj_node_dtype(n), tj_node_rank(n), dim, NULL, 0);
}

/* Its own type is empty; "get" nodes have those of its results. */
static bool is_tuple(const tj_node *n)
{
	static const char *const ops[] = {
		"cond", "while", "scan", "sort", "topk", "take_sorted", "cummax", "cummin", "max_with_indices", "min_with_indices"
	};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(tj_node_op(n), ops[i])) return true;
	return false;
}

/* All of its results are empty: its gets are constants. */
static bool gives_nothing(ow *w, tj_node *n)
{
	static const char *const ops[] = { "sort", "topk", "cummax", "cummin" };
	bool several = false;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) several |= !strcmp(tj_node_op(n), ops[i]);
	return several && is_empty(w, tj_node_input(n, 0));
}

static bool put_node(ow *w, tj_node *n)
{
	const char *op = tj_node_op(n);
	const ow_row *r = ow_find_row(op);
	const int k = tj_node_inputs(n);
	ow_v *in = ox_take(&w->mem, ((size_t)k + 1) * sizeof *in);
	ow_node *x = ow_of(w, n);
	if (!in || !x) return in ? false : kit_no_memory(&w->why);
	if (x->value || x->result) return true;
	w->at = n;
	if (!strcmp(op, "input") || !strcmp(op, "number"))
		put_leaf(w, n, x);
	else if (!strcmp(op, "constant"))
		put_constant(w, n, x);
	else if (gives_nothing(w, n))
		ow_result(w, n, 3, 0);
	else if (is_empty(w, n) && (!r || r->fn != ow_no) && !is_tuple(n))
		put_empty(w, n, x);
	else if (!strcmp(op, "get")) {
		const ow_node *of = ow_of(w, tj_node_input(n, 0));
		const int64_t which = tj_node_attr(n, 0);
		x->value = of && which >= 0 && which < of->nresult ? of->result[which] : 0;
	} else if (!r)
		ow_refuse(w, n, "has no row in the table of ops");
	else {
		bool all = attrs_fixed(w, n);
		for (int i = 0; i < k; i++) {
			tj_node *a = tj_node_input(n, i);
			all &= (in[i] = ow_value_of(w, a)) != 0;
			if (!strcmp(tj_node_op(a), "number") && !tj_node_source(a, NULL) && r->fn != ow_no)
				ow_refuse(w, n, "takes a number that is computed from numbers of the call: pass it as a tensor");
			if (!in[i] && !strcmp(tj_node_op(a), "constant"))
				ow_refuse(w, n, "takes a constant that no expression of the sizes gives; write it with .static_sizes");
		}
		if (r->fn == ow_no) r->fn(w, n, in), all = false;
		if (tj_node_device(n) != TJ_CPU)
			ow_refuse(w, n, "is computed on a GPU: write the function of a context for the CPU"), all = false;
		const ow_v v = all ? r->fn(w, n, in) : 0; /* after a refusal what depends on it is left out */
		x = ow_of(w, n);
		if (v) x->value = v;
	}
	return w->why.code == TJ_OK;
}

ow_v ow_value_of(ow *w, tj_node *n)
{
	const ow_node *x = ow_of(w, n);
	return x ? x->value ? x->value : x->result ? x->result[0] : 0 : 0;
}

bool ow_write_graph(ow *w, tj_graph *g)
{
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n))
		if (!put_node(w, n)) return false;
	return true;
}

/* ---- inputs, outputs, variables ---- */
static const char *given(const char *const *names, int i)
{
	for (int k = 0; names && names[k]; k++)
		if (k == i) return names[i];
	return NULL;
}

static bool is_name(ow *w, const char *name)
{
	for (int i = 1; i < w->nvalue; i++)
		if (!strcmp(w->value[i].name, name)) return true;
	return false;
}

/* `name`, or if another value has it, with a number behind it. */
static ow_v named(ow *w, const char *name, tj_dtype t)
{
	const char *s = ow_name_new(w, "%s", name);
	for (int k = 2; w->why.code == TJ_OK && is_name(w, s); k++) s = ow_name_new(w, "%s_%d", name, k);
	return ow_new_value(w, s, t);
}

static void value_info(ow *w, ow_bytes *to, uint32_t field, ow_v v, int rank, const int64_t *dim, const char *const *symbol)
{
	const ow_info i = ow_open_info(w, to, field, v);
	const size_t shape = ow_open(to, 2);
	for (int d = 0; d < rank; d++) {
		const size_t one = ow_open(to, 1);
		if (symbol[d])
			ow_put_text(to, 2, symbol[d]);
		else
			ow_put_int(to, 1, dim[d]);
		ow_close(to, one);
	}
	ow_close(to, shape);
	ow_close_info(to, i);
}

/* The size as a value: that of an argument which has it. */
static void size_of_argument(ow *w, int i, int axis, int symbol)
{
	if (w->symbol_value[symbol]) return;
	w->body = &w->before;
	ow_attr_int(w, "start", axis);
	ow_attr_int(w, "end", axis + 1);
	w->symbol_value[symbol] = ow_op(w, "Shape", TJ_I64, 1, &w->argument[i]);
	w->body = &w->top;
}

static bool put_arguments(ow *w, tj_graph *g)
{
	tj_graph_value a;
	int n = 0;
	while (tj_graph_argument(g, n, &a)) n++;
	if (!(w->argument = ox_take(&w->mem, ((size_t)n + 1) * sizeof *w->argument))) return kit_no_memory(&w->why);
	for (w->nargument = 0; w->nargument < n; w->nargument++) {
		const int i = w->nargument;
		const char *symbol[TJ_MAX_RANK] = { NULL }, *name = given(w->o.input_names, i);
		tj_graph_argument(g, i, &a);
		if (!name) name = *a.name ? a.name : ow_name_new(w, "input%d", i);
		w->argument[i] = named(w, name, a.dtype);
		for (int d = 0; d < a.rank; d++) {
			if (a.vary[d] < 0) continue;
			symbol[d] = w->symbol[a.vary[d]];
			size_of_argument(w, i, d, a.vary[d]);
		}
		value_info(w, &w->in, 11, w->argument[i], a.rank < 0 ? 0 : a.rank, a.dim, symbol);
	}
	return true;
}

static bool put_variables(ow *w, tj_graph *g)
{
	tj_graph_value a;
	int n = 0;
	const char *none[TJ_MAX_RANK] = { NULL };
	while (tj_graph_variable(g, n, &a)) n++;
	if (!(w->variable = ox_take(&w->mem, ((size_t)n + 1) * sizeof *w->variable))) return kit_no_memory(&w->why);
	w->nvariable = n;
	w->init = calloc((size_t)n + 64, sizeof *w->init);
	w->init_room = n + 64;
	if (!w->init) return kit_no_memory(&w->why);
	for (int i = 0; i < n; i++) {
		kit_tensor t;
		const char *name = given(w->o.names, i);
		tj_graph_variable(g, i, &a);
		if (!name) name = *a.name ? a.name : ow_name_new(w, "variable%d", i);
		if (!kit_describe(w->site, a.t, &t, &w->why)) return false;
		w->variable[i] = named(w, name, a.dtype);
		ow_initializer *x = &w->init[w->ninit++];
		*x = (ow_initializer){ .value = w->variable[i], .dtype = a.dtype, .rank = a.rank, .bytes = t.bytes, .t = a.t };
		memcpy(x->dim, a.dim, (size_t)a.rank * sizeof *a.dim);
		for (int k = 0; k < tj_graph_outputs(g); k++)
			if (tj_graph_assigns(g, k) == i)
				w->value[w->variable[i]].used = true, value_info(w, &w->in, 11, w->variable[i], a.rank, a.dim, none);
	}
	return true;
}

static void put_outputs(ow *w, tj_graph *g)
{
	char size[200];
	for (int i = 0; i < tj_graph_outputs(g); i++) {
		tj_node *n = tj_graph_output(g, i);
		const ow_v v = ow_value_of(w, n);
		const int of = tj_graph_assigns(g, i);
		const char *symbol[TJ_MAX_RANK] = { NULL }, *name = of < 0 ? given(w->o.output_names, i) : NULL;
		int64_t dim[TJ_MAX_RANK];
		ow_size s;
		if (!v && !w->refused) ow_refuse(w, n, "is an output that no expression of the sizes, or of numbers of the call, gives");
		if (!v) continue;
		if (of >= 0) name = ow_name_new(w, "%s_next", w->value[w->variable[of]].name);
		ow_v out = named(w, name ? name : ow_name_new(w, "output%d", i), tj_node_dtype(n));
		for (int d = 0; d < tj_node_rank(n); d++) {
			dim[d] = ow_dim(n, d);
			if (!ow_dim_varies(w, n, d, &s)) continue;
			ow_put_size(w, &s, size, sizeof size);
			symbol[d] = ow_name_new(w, "%s", size);
		}
		w->at = n;
		ow_emit(w, "Identity", 1, &v, 1, &out);
		value_info(w, &w->out, 12, out, tj_node_rank(n), dim, symbol);
	}
}

static bool put_all(ow *w, tj_graph *g)
{
	for (size_t i = 0; i < w->node_room; i++) w->node[i].value = 0;
	w->body = &w->top;
	if (!put_arguments(w, g) || !put_variables(w, g) || !ow_write_graph(w, g)) return false;
	put_outputs(w, g);
	int used = 0;
	for (int i = 0; i < w->ninit; i++)
		if (w->value[w->init[i].value].used) w->init[used++] = w->init[i];
	w->ninit = used;
	if (w->top.oom || w->before.oom || w->in.oom || w->out.oom) return kit_no_memory(&w->why);
	return w->why.code == TJ_OK;
}

/* ---- the file ---- */
enum { ALIGN = 4096 };
static const uint64_t MOST_BYTES = 0x7FFFFFFF - (1 << 20); /* of a protobuf message, with some room */

/* What comes before raw_data. */
static void tensor_head(const ow *w, const ow_initializer *x, ow_bytes *to, const char *location)
{
	char n[2][24];
	for (int d = 0; d < x->rank; d++) ow_put_int(to, 1, x->dim[d]);
	ow_put_int(to, 2, ox_type_of(x->dtype));
	ow_put_text(to, 8, w->value[x->value].name);
	if (!location || !x->t) return;
	snprintf(n[0], sizeof n[0], "%llu", (unsigned long long)x->at);
	snprintf(n[1], sizeof n[1], "%zu", x->bytes);
	const char *pair[3][2] = { { "location", location }, { "offset", n[0] }, { "length", n[1] } };
	for (int i = 0; i < 3; i++) {
		const size_t at = ow_open(to, 13);
		ow_put_text(to, 1, pair[i][0]);
		ow_put_text(to, 2, pair[i][1]);
		ow_close(to, at);
	}
	ow_put_int(to, 14, 1); /* EXTERNAL */
}

static size_t varint_bytes(uint64_t v)
{
	size_t n = 1;
	for (; v > 127; v >>= 7) n++;
	return n;
}

static bool inside(const ow_initializer *x, const char *location) { return !location || !x->t; }

/* Bytes of the message of a tensor. */
static uint64_t tensor_bytes(const ow *w, const ow_initializer *x, ow_bytes *scratch, const char *location)
{
	scratch->n = 0;
	tensor_head(w, x, scratch, location);
	return scratch->n + (inside(x, location) ? 1 + varint_bytes(x->bytes) + x->bytes : 0);
}

typedef struct job {
	ow *w;
	const char *name, *location; /* location: of external data; NULL: none */
	uint64_t bytes;              /* of the graph */
	ow_bytes scratch;
	kit_buffer buffer;
} job;

static bool put_data(job *j, const ow_initializer *x, kit_out *o, kit_why *why)
{
	kit_tensor t;
	if (!x->t) return kit_put(o, x->data, x->bytes, why);
	return kit_describe(j->w->site, x->t, &t, why) && kit_fetch(j->w->site, &t, &j->buffer, why) &&
	       kit_put(o, j->buffer.data, x->bytes, why);
}

static bool put_scratch(job *j, kit_out *o, kit_why *why)
{
	if (j->scratch.oom) return kit_no_memory(why);
	const bool ok = kit_put(o, j->scratch.v, j->scratch.n, why);
	j->scratch.n = 0;
	return ok;
}

static bool put_tensor(job *j, const ow_initializer *x, kit_out *o, kit_why *why)
{
	const uint64_t bytes = tensor_bytes(j->w, x, &j->scratch, j->location);
	ow_bytes head = { 0 };
	ow_put_varint(&head, 5 << 3 | 2);
	ow_put_varint(&head, bytes);
	ow_put(&head, j->scratch.v, j->scratch.n);
	if (inside(x, j->location)) {
		ow_put_varint(&head, 9 << 3 | 2);
		ow_put_varint(&head, x->bytes);
	}
	head.oom |= j->scratch.oom;
	const bool ok = !head.oom ? kit_put(o, head.v, head.n, why) : kit_no_memory(why);
	free(head.v);
	j->scratch.n = 0;
	return ok && (!inside(x, j->location) || put_data(j, x, o, why));
}

static uint64_t graph_bytes(job *j)
{
	const ow *w = j->w;
	uint64_t n = w->before.n + w->top.n + w->in.n + w->out.n + 1 + varint_bytes(strlen(j->name)) + strlen(j->name);
	for (int i = 0; i < w->ninit; i++) {
		const uint64_t t = tensor_bytes(w, &w->init[i], &j->scratch, j->location);
		n += 1 + varint_bytes(t) + t;
	}
	return n;
}

static bool write_model(void *env, kit_out *o, kit_why *why)
{
	job *j = env;
	ow *w = j->w;
	ow_bytes *b = &j->scratch;
	b->n = 0;
	ow_put_int(b, 1, OW_IR);
	ow_put_text(b, 2, "tjit");
	ow_put_text(b, 3, TJ_VERSION);
	ow_put_varint(b, 7 << 3 | 2);
	ow_put_varint(b, j->bytes);
	if (!put_scratch(j, o, why) || !kit_put(o, w->before.v, w->before.n, why) || !kit_put(o, w->top.v, w->top.n, why)) return false;
	ow_put_text(b, 2, j->name);
	if (!put_scratch(j, o, why)) return false;
	for (int i = 0; i < w->ninit; i++)
		if (!put_tensor(j, &w->init[i], o, why)) return false;
	if (!kit_put(o, w->in.v, w->in.n, why) || !kit_put(o, w->out.v, w->out.n, why)) return false;
	const size_t at = ow_open(b, 8);
	ow_put_int(b, 2, OW_OPSET);
	ow_close(b, at);
	return put_scratch(j, o, why);
}

static bool write_data(void *env, kit_out *o, kit_why *why)
{
	job *j = env;
	static const char zeros[ALIGN];
	for (int i = 0; i < j->w->ninit; i++) {
		const ow_initializer *x = &j->w->init[i];
		if (!x->t) continue;
		if (!kit_put(o, zeros, (size_t)(x->at - o->at), why) || !put_data(j, x, o, why)) return false;
	}
	return true;
}

/* Weights beside the file: each begins at a page. */
static bool write_external(job *j, const char *path)
{
	ow *w = j->w;
	uint64_t at = 0;
	char *beside = ox_take(&w->mem, strlen(path) + 6);
	if (!beside) return kit_no_memory(&w->why);
	strcat(strcpy(beside, path), ".data");
	j->location = strrchr(beside, '/') ? strrchr(beside, '/') + 1 : beside;
	for (int i = 0; i < w->ninit; i++) {
		if (!w->init[i].t) continue;
		w->init[i].at = at = (at + ALIGN - 1) / ALIGN * ALIGN;
		at += w->init[i].bytes;
	}
	return kit_replace(beside, write_data, j, &w->why);
}

static bool write_file(ow *w, const char *path, const char *name)
{
	job j = { .w = w, .name = name };
	j.bytes = graph_bytes(&j);
	bool ok = (!w->o.external && j.bytes <= MOST_BYTES) || write_external(&j, path);
	if (ok && j.location) j.bytes = graph_bytes(&j);
	if (ok && j.bytes > MOST_BYTES) ok = kit_no(&w->why, TJ_ERR_LIMIT, "the graph is too large: protobuf allows 2 GB");
	ok = ok && kit_replace(path, write_model, &j, &w->why);
	free(j.scratch.v);
	free(j.buffer.data);
	return ok;
}

/* ---- the function ---- */
typedef struct visitor {
	ow *w;
	const char *path;
} visitor;

static bool refused(ow *w)
{
	if (!w->refused) return false;
	if (w->refused == 1)
		kit_no(&w->why, TJ_ERR_ARG, "%s", w->first);
	else
		kit_no(&w->why, TJ_ERR_ARG, "%s; and %d more", w->first, w->refused - 1);
	return true;
}

static tj_status visit(void *self, tj_graph *g)
{
	visitor *v = self;
	ow *w = v->w;
	free(w->node);
	w->node = NULL;
	w->nnode = w->node_room = w->seen = 0;
	bool ok = see_sizes(w, g) && see_graph(w, g);
	w->samples.n++;
	if (ok && tj_graph_last(g)) ok = put_all(w, g) && !refused(w) && write_file(w, v->path, w->o.name ? w->o.name : tj_graph_name(g));
	return ok ? TJ_OK : w->why.code ? w->why.code : TJ_ERR_STATE;
}

static bool keeps(void *self, const tj_node *n) { return ow_keeps(((visitor *)self)->w, n); }

static void drop(ow *w)
{
	for (int k = 0; k < OW_SAMPLES; k++) free(w->number[k]);
	free(w->skeleton);
	free(w->node);
	free(w->value);
	free(w->init);
	free(w->size);
	free(w->top.v);
	free(w->before.v);
	free(w->attrs.v);
	free(w->in.v);
	free(w->out.v);
	ox_arena_free(&w->mem);
}

tj_status tj_onnx_write_at(const char *site, tj_fn *f, const char *path, const tj_onnx_write_opts *opts)
{
	KIT_OPTIONS(tj_onnx_write_opts, o, opts, TJ_ERR_ARG);
	ow w = { .site = site, .f = f, .o = o };
	visitor v = { &w, path };
	if (!path) return tj_fail_at(site, TJ_ERR_ARG, "onnx_write", "tj_onnx_write(f, \"net.onnx\", NULL)", "path is NULL"), TJ_ERR_ARG;
	const tj_graph_opts q = {
		.size = sizeof q, .inputs = o.inputs, .scalars = o.scalars, .keeps = keeps, .self = &v, .static_sizes = o.static_sizes
	};
	const tj_status st = tj_graph_of_at(site, f, visit, &q);
	if (st != TJ_OK && w.why.code != TJ_OK && *w.why.text) kit_report(site, "onnx_write", path, &w.why);
	drop(&w);
	return st;
}
