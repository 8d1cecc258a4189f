/* SPDX-License-Identifier: MIT */
/* tj run: calls an exported function, or a model, with files of NumPy. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tjfiles.h>
#include <tjmodel.h>

typedef struct words { const char **v; int n; } words;
typedef struct asked {      /* what the command line says */
	const char *model;
	words in, out, scalar, state, save;
	long times;
	bool json, recompile, profile, fast;
	const char *timeline;
	tj_quantise quantise;
	int64_t group;
} asked;
typedef struct call {
	tj_ctx *c;
	tj_fn *f;
	tj_model *m;                      /* an ONNX file; NULL: an exported function */
	tj_model *exact;                  /* of --quantise: the model as it is */
	int nin, nout;
	const char **in_file, **out_file; /* by number; NULL: none */
	tj_tensor **in, **out;
	tj_scalar *scalar;
} call;

enum { TYPE = 40 + TJ_MAX_RANK * 24 };
static const char *type_of(tj_tensor *t, char type[TYPE])
{
	int n = snprintf(type, TYPE, "%s[", tj_dtype_name(tj_dtype_of(t)));
	for (int i = 0; i < tj_rank(t); i++) n += snprintf(type + n, TYPE - (size_t)n, i ? ",%lld" : "%lld", (long long)tj_dim(t, i));
	snprintf(type + n, TYPE - (size_t)n, "]");
	return type;
}

/* ---- what stands before "=" ---- */
typedef const tj_onnx_value *end_of_model(const tj_model *m, int i);

/* "3=FILE", "in3=FILE", of a model "NAME=FILE": 3. -1: the word is a FILE. -2: the user was told that no such one is there. *file: what is
 * behind. */
static int number_in(const call *x, const char *word, const char *prefix, int n, const char **file)
{
	const char *end = strrchr(word, '='), *digits = word;
	end_of_model *const of = !strcmp(prefix, "in") ? tj_model_input : tj_model_output;
	for (int i = 0; end && x->m && i < n; i++)
		if (strlen(of(x->m, i)->name) == (size_t)(end - word) && !memcmp(of(x->m, i)->name, word, (size_t)(end - word)))
			return *file = end + 1, i;
	end = strchr(word, '=');
	*file = word;
	if (!end || memchr(word, '/', (size_t)(end - word))) return -1;
	if (!strncmp(word, prefix, strlen(prefix))) digits += strlen(prefix);
	char *stop;
	const long i = strtol(digits, &stop, 10);
	*file = end + 1;
	if (isdigit((unsigned char)*digits) && stop == end && i < n) return (int)i;
	if (n)
		cli_error("%.*s is none of %s0 to %s%d%s; a file with this name is ./%s", (int)(end - word), word, prefix, prefix, n - 1,
		          x->m ? ", nor a name that tj show lists" : "", word);
	else cli_error("%.*s: the function has none", (int)(end - word), word);
	return -2;
}

/* Gives each word its place; one without a number takes the next free one. */
static bool place(const call *x, const words *w, const char *prefix, int n, const char **file)
{
	for (int k = 0; k < w->n; k++) {
		const char *name;
		int i = number_in(x, w->v[k], prefix, n, &name);
		if (i == -2) return false;
		for (; i == -1 || (i < n && name == w->v[k] && file[i]);) i++;
		if (i >= n) return cli_error("%s: the function has only %d of them", w->v[k], n), false;
		if (file[i]) return cli_error("%s%d has two files, %s and %s", prefix, i, file[i], name), false;
		file[i] = name;
	}
	return true;
}

/* ---- arguments ---- */
static bool is_number(const char *text, bool whole, tj_scalar *s)
{
	char *end;
	errno = 0;
	if (whole) *s = TJ_I(strtoll(text, &end, 10));
	else *s = TJ_F(strtod(text, &end));
	if (*text && !*end && (!errno || !whole)) return true;
	cli_error("%s is no %s", text, whole ? "integer" : "number");
	return false;
}

static int load(call *x, int i)
{
	const char *type = "", *from = x->in_file[i];
	tj_scalar s;
	char of_model[TYPE];
	if (x->m) type = cli_model_type(tj_model_input(x->m, i), of_model, sizeof of_model);
	else tj_fn_argument(x->f, i, &type);
	const bool whole = !strcmp(type, "int"), number = whole || !strcmp(type, "float");
	if (!from) return cli_error("argument %d, %s, is missing: -i %d=%s", i, type, i, number ? "NUMBER" : "FILE"), CLI_USAGE;
	if (!number) {
		x->in[i] = tj_npy_load(x->c, from);
		return tj_is_poison(x->in[i]) ? cli_failed(x->c) : CLI_OK;
	}
	if (!is_number(from, whole, &s)) return CLI_USAGE;
	x->in[i] = whole ? tj_i(s.i) : tj_f(s.f);
	return CLI_OK;
}

static int load_scalars(call *x, const words *w)
{
	tj_scalar s;
	int n = 0;
	for (; tj_fn_scalar(x->f, n, &s); n++)
		if (n < w->n && !is_number(w->v[n], s.kind == TJ_SCALAR_I, &x->scalar[n])) return CLI_USAGE;
	x->scalar[w->n] = tj_scalar_end();
	if (n == w->n) return CLI_OK;
	cli_error("the function takes %d scalars, and %d are given: --scalar NUMBER", n, w->n);
	return CLI_USAGE;
}

static int prepare(call *x, const asked *a)
{
	while (x->m ? tj_model_input(x->m, x->nin) != NULL : tj_fn_argument(x->f, x->nin, NULL)) x->nin++;
	if (x->m) while (tj_model_output(x->m, x->nout)) x->nout++;
	else x->nout = tj_fn_results(x->f);
	x->in_file = calloc((size_t)x->nin + 1, sizeof *x->in_file);
	x->out_file = calloc((size_t)x->nout + 1, sizeof *x->out_file);
	x->in = calloc((size_t)x->nin + 1, sizeof *x->in);
	x->out = calloc((size_t)x->nout + 1, sizeof *x->out);
	x->scalar = calloc((size_t)a->scalar.n + 1, sizeof *x->scalar);
	if (!x->in_file || !x->out_file || !x->in || !x->out || !x->scalar) return cli_error("out of memory"), CLI_FAILED;
	if (!place(x, &a->in, "in", x->nin, x->in_file) || !place(x, &a->out, "out", x->nout, x->out_file)) return CLI_USAGE;
	for (int i = 0; i < x->nin; i++) {
		const int status = load(x, i);
		if (status != CLI_OK) return status;
	}
	x->in[x->nin] = TJ_END;
	return load_scalars(x, &a->scalar);
}

/* ---- results ---- */
static json_t *tensor_data(const char *name, tj_tensor *t, const char *file)
{
	char type[TYPE];
	return json_pack("{s:o, s:s, s:o}", "name", cli_string(name), "type", type_of(t, type), "file", cli_string(file));
}

static int save(call *x, json_t *list, const char *name, tj_tensor *t, const char *file)
{
	if (file && tj_npy_save(t, file) != TJ_OK) return cli_failed(x->c);
	json_array_append_new(list, tensor_data(name, t, file));
	return CLI_OK;
}

static int save_results(call *x, json_t *list)
{
	int status = CLI_OK;
	for (int i = 0; status == CLI_OK && i < x->nout; i++) {
		char name[24];
		snprintf(name, sizeof name, "out%d", i);
		status = save(x, list, x->m ? tj_model_output(x->m, i)->name : name, x->out[i], x->out_file[i]);
	}
	return status;
}

/* ---- variables ---- */
static const char *variable_name(const void *f, int i)
{
	const char *name = NULL;
	return tj_fn_variable((tj_fn *)(uintptr_t)f, i, &name, NULL, NULL) ? name : NULL;
}

static int set_variable(call *x, json_t *list, const char *name, tj_tensor *cell, const char *file)
{
	char is[TYPE], want[TYPE];
	tj_tensor *t = tj_npy_load(x->c, file);
	(void)list;
	if (tj_is_poison(t)) return cli_failed(x->c);
	if (strcmp(type_of(t, is), type_of(cell, want))) return cli_error("%s is %s, and %s is %s", file, is, name, want), CLI_FAILED;
	return tj_assign(cell, t) == TJ_OK ? CLI_OK : cli_failed(x->c);
}

/* Each word is NAME=FILE. use: what to do; NULL: only the names are looked at. */
static int each_variable(call *x, const words *w, json_t *list, int (*use)(call *, json_t *, const char *, tj_tensor *, const char *))
{
	int status = CLI_OK;
	for (int k = 0; status == CLI_OK && k < w->n; k++) {
		const char *file = strchr(w->v[k], '=');
		char *name = file ? strndup(w->v[k], (size_t)(file - w->v[k])) : NULL;
		tj_tensor *cell = NULL;
		if (!name) return cli_error("%s has no form NAME=FILE", w->v[k]), CLI_USAGE;
		for (int i = 0; variable_name(x->f, i); i++)
			if (!cell && !strcmp(variable_name(x->f, i), name)) tj_fn_variable(x->f, i, NULL, &cell, NULL);
		if (!cell) status = cli_unknown("variable", name, variable_name, x->f);
		else if (use) status = use(x, list, name, cell, file + 1);
		free(name);
	}
	return status;
}

/* ---- times ---- */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_time(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int measure(call *x, long times, json_t *to)
{
	double *us = malloc((size_t)times * sizeof *us), all = 0;
	tj_status st = TJ_OK;
	if (!us) return cli_error("out of memory"), CLI_FAILED;
	cli_progress("calling it %ld times", times);
	for (long i = 0; st == TJ_OK && i < times; i++) {
		tj_scope *s = tj_push(x->c);
		const double begin = now();
		st = tj_call_ex(x->f, x->out, x->in, x->scalar);
		all += us[i] = now() - begin;
		tj_pop(s);
	}
	cli_progress(NULL);
	if (st == TJ_OK) {
		qsort(us, (size_t)times, sizeof *us, by_time);
		json_object_set_new(to, "time", json_pack("{s:I, s:f, s:f, s:f}", "calls", (json_int_t)times, "best_us", us[0], "median_us",
		                                          (us[(times - 1) / 2] + us[times / 2]) / 2, "mean_us", all / (double)times));
	}
	free(us);
	return st == TJ_OK ? CLI_OK : cli_failed(x->c);
}

/* ---- the command ---- */
static void print_tensors(const json_t *list)
{
	size_t i;
	json_t *t;
	json_array_foreach(list, i, t) {
		const char *type = json_string_value(json_object_get(t, "type")), *file = json_string_value(json_object_get(t, "file"));
		char *text = NULL;
		if (asprintf(&text, "%-22s %s", type, file ? file : "is not saved") < 0) return;
		cli_row(json_string_value(json_object_get(t, "name")), text);
		free(text);
	}
}

static void print_loss(const json_t *q)
{
	size_t i;
	json_t *t;
	char text[120];
	if (!json_is_object(q)) return;
	snprintf(text, sizeof text, "%lld weights, %.1f KiB instead of %.1f", (long long)json_integer_value(json_object_get(q, "weights")),
	         (double)json_integer_value(json_object_get(q, "bytes")) / 1024,
	         (double)json_integer_value(json_object_get(q, "float_bytes")) / 1024);
	cli_row("quantised", text);
	json_array_foreach(json_object_get(q, "loss"), i, t)
		cli_row(json_string_value(json_object_get(t, "name")), json_string_value(json_object_get(t, "loss")));
}

static void print(const json_t *d)
{
	const json_t *t = json_object_get(d, "time");
	char text[120];
	print_tensors(json_object_get(d, "results"));
	print_tensors(json_object_get(d, "state"));
	print_loss(json_object_get(d, "quantised"));
	if (!json_is_object(t)) return;
	snprintf(text, sizeof text, "best %.2f, median %.2f, mean %.2f us of %lld calls", json_real_value(json_object_get(t, "best_us")),
	         json_real_value(json_object_get(t, "median_us")), json_real_value(json_object_get(t, "mean_us")),
	         (long long)json_integer_value(json_object_get(t, "calls")));
	cli_row("time", text);
}

/* ---- --quantise ---- */
static bool read_quantise(const char *word, asked *a)
{
	static const char *const names[] = { [TJ_QUANTISE_DYNAMIC] = "dynamic", [TJ_QUANTISE_I8] = "i8", [TJ_QUANTISE_I4] = "i4" };
	const char *colon = strchr(word, ':');
	const size_t n = colon ? (size_t)(colon - word) : strlen(word);
	tj_scalar group = TJ_I(0);
	if (colon && !is_number(colon + 1, true, &group)) return false;
	for (int k = TJ_QUANTISE_DYNAMIC; k <= TJ_QUANTISE_I4; k++)
		if (strlen(names[k]) == n && !memcmp(names[k], word, n)) a->quantise = (tj_quantise)k;
	a->group = group.i;
	if (a->quantise && group.i >= 0 && (!group.i || a->quantise != TJ_QUANTISE_DYNAMIC)) return true;
	return cli_error("%s is none of dynamic, i8, i4, i8:GROUP and i4:GROUP", word), false;
}

/* What became smaller, and how far the results are from those of the model as it is. */
static int compare(call *x, const asked *a, json_t *to)
{
	json_int_t weights = 0, bytes = 0, before = 0;
	json_t *loss = json_array();
	for (const tj_quantised *q; (q = tj_model_quantised(x->m, (int)weights)); weights++)
		bytes += (json_int_t)q->bytes, before += (json_int_t)q->float_bytes;
	json_object_set_new(to, "quantised", json_pack("{s:I, s:I, s:I, s:o}", "weights", weights, "bytes", bytes, "float_bytes", before,
	                                               "loss", loss));
	x->exact = tj_onnx_open(x->c, a->model, TJ_OPTS(tj_onnx_opts, .mode = TJ_DIRECT));
	tj_tensor **out = calloc((size_t)x->nout + 1, sizeof *out);
	tj_status st = x->exact && out ? tj_call(tj_model_fn(x->exact), out, x->in) : TJ_ERR_NOMEM;
	for (int i = 0; st == TJ_OK && i < x->nout; i++) {
		tj_difference d = { 0 };
		char text[240];
		st = tj_difference_add(&d, out[i], x->out[i]);
		tj_difference_text(&d, text, sizeof text);
		json_array_append_new(loss, json_pack("{s:o, s:s}", "name", cli_string(tj_model_output(x->m, i)->name), "loss", text));
	}
	free(out);
	return st == TJ_OK ? CLI_OK : cli_failed(x->c);
}

static int work(call *x, const asked *a, json_t *d)
{
	if (a->fast && !cli_is_model(a->model))
		return cli_error("--fast is for models: an exported function has the numerics that it was compiled with"), CLI_USAGE;
	if (a->quantise && !cli_is_model(a->model)) return cli_error("--quantise is for models, *.onnx"), CLI_USAGE;
	if (cli_is_model(a->model)) {
		x->m = tj_onnx_open(x->c, a->model,
		                    TJ_OPTS(tj_onnx_opts, .mode = TJ_DIRECT, .numerics = a->fast ? TJ_FAST : TJ_STRICT,
		                            .on_refused = cli_model_refused, .quantise = a->quantise, .quantise_group = a->group));
		x->f = tj_model_fn(x->m);
	} else x->f = tj_import(x->c, a->model, TJ_OPTS(tj_import_opts, .recompile = a->recompile));
	if (!x->f) return cli_failed(x->c);
	int status = each_variable(x, &a->save, NULL, NULL);
	if (status == CLI_OK) status = each_variable(x, &a->state, NULL, NULL);
	if (status == CLI_OK) status = prepare(x, a);
	if (status == CLI_OK) status = each_variable(x, &a->state, NULL, set_variable);
	if (status != CLI_OK) return status;
	if (tj_call_ex(x->f, x->out, x->in, x->scalar) != TJ_OK) return cli_failed(x->c);
	status = save_results(x, json_object_get(d, "results"));
	if (status == CLI_OK && a->quantise) status = compare(x, a, d);
	if (status == CLI_OK) status = each_variable(x, &a->save, json_object_get(d, "state"), save);
	if (status == CLI_OK && a->times) status = measure(x, a->times, d);
	return status;
}

/* By line, which for a model is a node; then by kernel. */
static int show_profile(tj_ctx *c, const asked *a)
{
	if (tj_profile_end(c, a->profile ? TJ_OPTS(tj_profile_view, .by = TJ_BY_LINE, .top = 30, .out = stdout) : NULL) != TJ_OK)
		return cli_failed(c);
	if (!a->profile) return CLI_OK;
	putchar('\n');
	return tj_profile_show(c, TJ_OPTS(tj_profile_view, .top = 30, .rows_only = true, .out = stdout)) == TJ_OK ? CLI_OK : cli_failed(c);
}

/* Is a word "-", or "NAME=-"? */
static bool any_dash(const words *w)
{
	bool any = false;
	for (int i = 0; i < w->n; i++) {
		const char *file = strchr(w->v[i], '=');
		any = any || !strcmp(file ? file + 1 : w->v[i], "-");
	}
	return any;
}

static bool to_stdout(const asked *a) { return any_dash(&a->out) || any_dash(&a->save); }

static int call_it(const asked *a)
{
	call x = { .c = tj_open(NULL) };
	const bool profile = a->profile || a->timeline;
	json_t *d = json_pack("{s:o, s:[], s:[], s:n, s:n}", "file", cli_string(a->model), "results", "state", "time", "quantised");
	if (!x.c || !d) return json_decref(d), cli_error("out of memory"), CLI_FAILED;
	int status = CLI_OK;
	if (profile && tj_profile_begin(x.c, TJ_OPTS(tj_profile_opts, .timeline = a->timeline)) != TJ_OK) status = cli_failed(x.c);
	if (status == CLI_OK) status = work(&x, a, d);
	if (status == CLI_OK && a->json) cli_put_json(json_incref(d));
	else if (status == CLI_OK && !to_stdout(a)) print(d);
	if (status == CLI_OK && profile) status = show_profile(x.c, a);
	json_decref(d);
	tj_model_close(x.m);
	tj_model_close(x.exact);
	tj_close(x.c);
	free(x.in_file);
	free(x.out_file);
	free(x.in);
	free(x.out);
	free(x.scalar);
	return status;
}

static bool read_words(cli_words *w, asked *a)
{
	enum { INPUT, OUTPUT, SCALAR, TIME, STATE, SAVE, QUANTISE, RECOMPILE, FAST, PROFILE, TIMELINE, JSON, MOST = 100000000 };
	words *const list[] = { [INPUT] = &a->in,  [OUTPUT] = &a->out,  [SCALAR] = &a->scalar,
		                [TIME] = NULL,     [STATE] = &a->state, [SAVE] = &a->save };
	for (int k; (k = cli_next(w)) != CLI_END;) {
		tj_scalar n;
		if (k == CLI_WRONG) return false;
		if (k == CLI_WORD && a->model) return cli_error("run takes one FILE, and has %s, too", w->value), false;
		if (k == CLI_WORD) a->model = w->value;
		else if (k == RECOMPILE) a->recompile = true;
		else if (k == FAST) a->fast = true;
		else if (k == PROFILE) a->profile = true;
		else if (k == TIMELINE) a->timeline = w->value;
		else if (k == JSON) a->json = true;
		else if (k == QUANTISE) {
			if (!read_quantise(w->value, a)) return false;
		} else if (k != TIME) list[k]->v[list[k]->n++] = w->value;
		else if (!is_number(w->value, true, &n)) return false;
		else if (n.i < 1 || n.i > MOST) return cli_error("time is 1 to %d calls", MOST), false;
		else a->times = (long)n.i;
	}
	if (!a->model) return cli_error("run needs a FILE: tj help run"), false;
	if (to_stdout(a) && (a->json || a->times || a->profile))
		return cli_error("stdout gets an array, so --json, --time and --profile have no place there"), false;
	if (a->json && a->profile) return cli_error("--profile prints text, no JSON"), false;
	return true;
}

static int run(cli_words *w)
{
	size_t n = 0;
	while (w->word[n]) n++;
	const char **v = calloc(5 * (n + 1), sizeof *v); /* more than all words */
	if (!v) return cli_error("out of memory"), CLI_FAILED;
	asked a = { .in.v = v, .out.v = v + n, .scalar.v = v + 2 * n, .state.v = v + 3 * n, .save.v = v + 4 * n };
	const int status = read_words(w, &a) ? call_it(&a) : CLI_USAGE;
	free(v);
	return status;
}

const cli_command cli_run = {
	.name = "run",
	.words = "FILE",
	.line = "calls an exported function or an ONNX model with files of NumPy",
	.help = "FILE is what tj_export() wrote; its code runs, so it must be one that you trust. Or it is a model, *.onnx, and nothing of it is\n"
		"trusted. Arguments and results are numbered from 0: 0=FILE, in0=FILE or out0=FILE names one, of a model also NAME=FILE, and a FILE\n"
		"alone is the next; - is stdin or stdout. An argument that is a number is given as one. tj show FILE says what it takes. The times are\n"
		"those of calls after the first, whose results and state are saved.",
	.option = (const cli_option[]){ { 'i', "input", "FILE", "an argument, .npy" },
	                                { 'o', "output", "FILE", "where a result goes, .npy" },
	                                { 0, "scalar", "NUMBER", "the next scalar" },
	                                { 0, "time", "N", "call it N times more: best, median and mean time" },
	                                { 's', "state", "NAME=FILE", "a variable before the call, .npy" },
	                                { 'S', "save-state", "NAME=FILE", "where a variable goes after the call, .npy" },
	                                { 'q', "quantise", "KIND", "small weights: dynamic, i8, i4, i8:GROUP, i4:GROUP; prints what that costs" },
	                                { 0, "recompile", NULL, "compile what the file has no code for" },
	                                { 0, "fast", NULL, "of a model: TJ_FAST, whose results may differ a little and take less time" },
	                                { 0, "profile", NULL, "print where the time went, by line or node and by kernel" },
	                                { 0, "timeline", "FILE", "a timeline of all calls for Perfetto, .json" },
	                                { 0, "json", NULL, "print JSON" },
	                                { 0 } },
	.run = run,
};
