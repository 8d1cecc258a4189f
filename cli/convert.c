/* SPDX-License-Identifier: MIT */
/* tj convert: a file in another format, by the ends of the two names. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tjfiles.h>
#include <tjmodel.h>

typedef enum format { TJX, ONNX, SAFETENSORS, NPZ, NPY, GGUF, FORMATS } format;
static const char *const format_name[] = { "tjx", "onnx", "safetensors", "npz", "npy", "gguf" };

typedef struct job {
	const char *from, *to, *sizes, *type, *cpus;
	const char *like[65]; /* files with arguments, whose dtypes and sizes count */
	int nlike;
	tj_tensor *input[65]; /* as the model's inputs, ended by TJ_END; unused without -i */
	bool external, finite, fixed, json;
	format in, out;
	tj_ctx *c;
	char **names; /* tensors that are to be written */
	tj_tensor **tensor;
	int64_t n, room;
	tj_model *model; /* open files: tensors lie over their maps */
	tj_safetensors *safe;
	tj_npz *npz;
	tj_gguf *gguf;
} job;

static format format_of(const char *path)
{
	const char *dot = strrchr(path, '.');
	int f = 0;
	while (f < FORMATS && (!dot || strcmp(dot + 1, format_name[f]))) f++;
	return (format)f;
}

/* A program, or a model, into tensors: only of a model, its initializers. */
static bool is_possible(format in, format out) { return out > ONNX ? in != TJX : in <= ONNX && !(in == TJX && out == TJX); }

static int impossible(const job *j)
{
	if (j->in == FORMATS || j->out == FORMATS)
		cli_error("%s: its name ends in none of .tjx, .onnx, .safetensors, .npz, .npy, .gguf", j->in == FORMATS ? j->from : j->to);
	else
		cli_error("a .%s cannot become a .%s", format_name[j->in], format_name[j->out]);
	for (int f = 0; f < FORMATS; f++) {
		char list[128];
		int n = 0;
		for (int t = 0; t < FORMATS; t++)
			if (is_possible((format)f, (format)t)) n += snprintf(list + n, sizeof list - (size_t)n, " .%s", format_name[t]);
		cli_error(".%s becomes%s", format_name[f], list);
	}
	return CLI_USAGE;
}

/* ---- functions ---- */
static int write_onnx(job *j, tj_fn *f)
{
	const char *in[64 + 1] = { NULL }, *out[64 + 1] = { NULL };
	const tj_onnx_value *v;
	for (int i = 0; j->model && i < 64 && (v = tj_model_input(j->model, i)); i++) in[i] = v->name;
	for (int i = 0; j->model && i < 64 && (v = tj_model_output(j->model, i)); i++) out[i] = v->name;
	cli_progress("writing %s", j->to);
	const tj_onnx_write_opts o = { .size = sizeof o,
		                       .input_names = in,
		                       .output_names = out,
		                       .external = j->external,
		                       .finite = j->finite,
		                       .inputs = j->nlike ? j->input : NULL,
		                       .static_sizes = j->fixed,
		                       .on_refused = cli_model_refused };
	return tj_onnx_write(f, j->to, &o) == TJ_OK ? CLI_OK : cli_failed(j->c);
}

static int of_export(job *j)
{
	cli_progress("reading %s", j->from);
	tj_fn *f = tj_import(j->c, j->from, TJ_OPTS(tj_import_opts, .recompile = true));
	return f ? write_onnx(j, f) : cli_failed(j->c);
}

static int of_model(job *j)
{
	if (j->out == ONNX) return write_onnx(j, tj_model_fn(j->model));
	cli_progress("compiling %s", j->to);
	const tj_export_opts o = { .size = sizeof o, .cpus = j->cpus, .inputs = j->nlike ? j->input : NULL };
	return tj_export(tj_model_fn(j->model), j->to, &o) == TJ_OK ? CLI_OK : cli_failed(j->c);
}

/* Which input the word NAME=FILE is for; the next one without a name. */
static int place_of(const job *j, const char *word, int next, const char **file)
{
	const char *equals = strchr(word, '=');
	const tj_onnx_value *v;
	*file = word;
	for (int i = 0; equals && (v = tj_model_input(j->model, i)); i++)
		if (strlen(v->name) == (size_t)(equals - word) && !strncmp(v->name, word, (size_t)(equals - word)))
			return *file = equals + 1, i;
	return next;
}

static int load_inputs(job *j)
{
	int n = 0;
	while (tj_model_input(j->model, n)) n++;
	if (!j->nlike) return CLI_OK;
	for (int k = 0, next = 0; k < j->nlike; k++) {
		const char *file;
		const int i = place_of(j, j->like[k], next, &file);
		if (i >= n || i >= 64) return cli_error("%s: the model has only %d inputs", j->like[k], n), CLI_USAGE;
		j->input[i] = tj_npy_load(j->c, file);
		if (tj_is_poison(j->input[i])) return cli_failed(j->c);
		for (next = 0; next < n && next < 64 && j->input[next];) next++;
	}
	for (int i = 0; i < n; i++)
		if (i >= 64 || !j->input[i])
			return cli_error("input %s is missing: -i %s=FILE", tj_model_input(j->model, i)->name,
			                 tj_model_input(j->model, i)->name),
			       CLI_USAGE;
	j->input[n] = TJ_END;
	return CLI_OK;
}

/* ---- tensors ---- */
static bool add(job *j, const char *name, tj_tensor *t)
{
	if (j->n + 1 >= j->room) {
		const int64_t room = j->room ? 2 * j->room : 64;
		char **names = realloc(j->names, (size_t)room * sizeof *names);
		if (names) j->names = names;
		tj_tensor **tensor = names ? realloc(j->tensor, (size_t)room * sizeof *tensor) : NULL;
		if (!tensor) return cli_error("out of memory"), false;
		j->tensor = tensor;
		j->room = room;
	}
	j->names[j->n] = strdup(name);
	j->tensor[j->n] = t;
	if (!j->names[j->n]) return cli_error("out of memory"), false;
	j->names[++j->n] = NULL;
	j->tensor[j->n] = TJ_END;
	return true;
}

static int take(job *j, const char *name, tj_tensor *t)
{
	return tj_is_poison(t) ? cli_failed(j->c) : add(j, name, t) ? CLI_OK : CLI_FAILED;
}

static int take_initializers(job *j)
{
	const char *name = "";
	tj_tensor *t;
	int status = CLI_OK;
	for (int i = 0; status == CLI_OK && (t = tj_model_initializer(j->model, i, &name)); i++) status = take(j, name, t);
	return status;
}

static int take_safetensors(job *j)
{
	int status = (j->safe = tj_safetensors_open(j->c, j->from)) ? CLI_OK : cli_failed(j->c);
	for (int64_t i = 0; status == CLI_OK && i < tj_safetensors_count(j->safe); i++) {
		const char *name = tj_safetensors_at(j->safe, i)->name;
		status = take(j, name, tj_safetensors_get(j->safe, name));
	}
	return status;
}

static int take_npz(job *j)
{
	int status = (j->npz = tj_npz_open(j->c, j->from)) ? CLI_OK : cli_failed(j->c);
	for (int64_t i = 0; status == CLI_OK && i < tj_npz_count(j->npz); i++)
		status = take(j, tj_npz_name(j->npz, i), tj_npz_get(j->npz, tj_npz_name(j->npz, i)));
	return status;
}

static int take_gguf(job *j)
{
	int status = (j->gguf = tj_gguf_open(j->c, j->from)) ? CLI_OK : cli_failed(j->c);
	for (int64_t i = 0; status == CLI_OK && i < tj_gguf_count(j->gguf); i++) {
		const char *name = tj_gguf_at(j->gguf, i)->name;
		cli_progress("%s: tensor %lld of %lld", j->from, (long long)i + 1, (long long)tj_gguf_count(j->gguf));
		status = take(j, name, tj_gguf_get(j->gguf, name));
	}
	return status;
}

static int take_all(job *j)
{
	char name[256];
	const char *slash = strrchr(j->from, '/'), *base = slash ? slash + 1 : j->from;
	cli_progress("reading %s", j->from);
	switch (j->in) {
	case ONNX: return take_initializers(j);
	case SAFETENSORS: return take_safetensors(j);
	case NPZ: return take_npz(j);
	case GGUF: return take_gguf(j);
	default:
		snprintf(name, sizeof name, "%.*s", (int)(strlen(base) - strlen(".npy")), base);
		return take(j, *name ? name : "x", tj_npy_load(j->c, j->from));
	}
}

/* Blocks of GGUF have 32 elements of the last axis; vectors stay as they are. */
static bool has_blocks(tj_tensor *t)
{
	const tj_dtype d = tj_dtype_of(t);
	return tj_rank(t) >= 2 && tj_dim(t, -1) > 0 && tj_dim(t, -1) % 32 == 0 && (d == TJ_F32 || d == TJ_F16 || d == TJ_BF16);
}

static bool is_block(const char *type) { return type && (!strcmp(type, "Q8_0") || !strcmp(type, "Q4_0")); }

/* Floats in the dtype that --type names. */
static int cast_all(job *j, const char **types)
{
	const tj_dtype to = !j->type ? TJ_F32 : !strcmp(j->type, "F16") ? TJ_F16 : !strcmp(j->type, "BF16") ? TJ_BF16 : TJ_F32;
	for (int64_t i = 0; j->type && i < j->n; i++) {
		const bool blocks = is_block(j->type) && has_blocks(j->tensor[i]);
		if (blocks) types[i] = j->type;
		if (tj_dtype_of(j->tensor[i]) < TJ_F16 || (is_block(j->type) && !blocks)) continue;
		j->tensor[i] = tj_cast(j->tensor[i], to);
		if (tj_is_poison(j->tensor[i])) return cli_failed(j->c);
	}
	return CLI_OK;
}

static int put_all(job *j)
{
	const char **types = calloc((size_t)j->n + 1, sizeof *types), *const *names = (const char *const *)j->names;
	int status = types ? cast_all(j, types) : (cli_error("out of memory"), CLI_FAILED);
	cli_progress("writing %s", j->to);
	if (status == CLI_OK && j->out == NPY && j->n != 1)
		status = (cli_error("a .npy has one tensor, and %s has %lld: write a .npz", j->from, (long long)j->n), CLI_FAILED);
	if (status == CLI_OK && !j->n && j->out != NPY) status = (cli_error("%s has no tensors", j->from), CLI_FAILED);
	tj_status st = TJ_OK;
	if (status == CLI_OK)
		st = j->out == SAFETENSORS ? tj_safetensors_save(j->to, names, j->tensor, NULL)
		     : j->out == NPZ       ? tj_npz_save(j->to, names, j->tensor, false)
		     : j->out == NPY       ? tj_npy_save(j->tensor[0], j->to)
		                           : tj_gguf_save(j->to, names, j->tensor, types, NULL);
	free(types);
	return st == TJ_OK ? status : cli_failed(j->c);
}

static int tensors(job *j)
{
	const int status = take_all(j);
	return status == CLI_OK ? put_all(j) : status;
}

/* ---- the command ---- */
static int tell(const job *j)
{
	struct stat s = { 0 };
	char size[32];
	if (stat(j->to, &s)) return CLI_OK;
	if (j->json)
		return cli_put_json(json_pack("{s:o, s:s, s:o, s:s, s:I, s:o}", "from", cli_string(j->from), "from_format",
		                              format_name[j->in], "to", cli_string(j->to), "to_format", format_name[j->out], "bytes",
		                              (json_int_t)s.st_size, "tensors", j->out > ONNX ? json_integer(j->n) : json_null()));
	cli_put_bytes(size, (long long)s.st_size);
	printf("%s: %s\n", j->to, size);
	return CLI_OK;
}

static void drop(job *j)
{
	for (int64_t i = 0; i < j->n; i++) free(j->names[i]);
	free(j->names);
	free(j->tensor);
	if (j->model) tj_model_close(j->model);
	tj_safetensors_close(j->safe);
	tj_npz_close(j->npz);
	tj_gguf_close(j->gguf);
}

static int convert(job *j)
{
	int status = CLI_OK;
	if (!(j->c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval")))) return cli_error("out of memory"), CLI_FAILED;
	tj_scope *s = tj_push(j->c);
	if (j->in == ONNX) {
		const tj_onnx_opts o = { .size = sizeof o, .mode = TJ_DIRECT, .sizes = j->sizes, .on_refused = cli_model_refused };
		cli_progress("reading %s", j->from);
		if (!(j->model = tj_onnx_open(j->c, j->from, &o)))
			status = cli_failed(j->c);
		else
			status = load_inputs(j);
	}
	if (status == CLI_OK) status = j->out > ONNX ? tensors(j) : j->in == TJX ? of_export(j) : of_model(j);
	cli_progress(NULL);
	if (status == CLI_OK) status = tell(j);
	if (s) tj_pop(s);
	drop(j);
	tj_close(j->c);
	return status;
}

static int check(job *j)
{
	static const char *const types[] = { "F32", "F16", "BF16", "Q8_0", "Q4_0", NULL };
	if (!j->to) return cli_error("convert needs two files, IN and OUT: tj help convert"), CLI_USAGE;
	j->in = format_of(j->from);
	j->out = format_of(j->to);
	if (j->in == FORMATS || j->out == FORMATS || !is_possible(j->in, j->out)) return impossible(j);
	int t = 0;
	while (j->type && types[t] && strcmp(types[t], j->type)) t++;
	if (j->type && !types[t]) return cli_error("--type: there is no %s; F32, F16, BF16, and for .gguf Q8_0, Q4_0", j->type), CLI_USAGE;
	if (j->type && j->out <= ONNX) return cli_error("--type is for files of tensors"), CLI_USAGE;
	if (is_block(j->type) && j->out != GGUF) return cli_error("--type %s is for .gguf", j->type), CLI_USAGE;
	if (j->nlike && (j->in != ONNX || j->out > ONNX)) return cli_error("-i is for .onnx files that become functions"), CLI_USAGE;
	if (j->sizes && j->in != ONNX) return cli_error("--sizes is for .onnx files that are read"), CLI_USAGE;
	if ((j->external || j->finite || j->fixed) && j->out != ONNX)
		return cli_error("--external, --finite and --fixed are for .onnx files that are written"), CLI_USAGE;
	if (j->cpus && j->out != TJX) return cli_error("--cpus is for .tjx files"), CLI_USAGE;
	return CLI_OK;
}

static int run(cli_words *w)
{
	enum { INPUT, SIZES, TYPE, CPUS, EXTERNAL, FINITE, FIXED, JSON };
	job j = { 0 };
	for (int k; (k = cli_next(w)) != CLI_END;) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k == CLI_WORD && j.to) return cli_error("convert takes two files, and has %s, too", w->value), CLI_USAGE;
		if (k == CLI_WORD)
			*(j.from ? &j.to : &j.from) = w->value;
		else if (k == INPUT && j.nlike == 64)
			return cli_error("more than 64 inputs"), CLI_USAGE;
		else if (k == INPUT)
			j.like[j.nlike++] = w->value;
		else if (k == SIZES)
			j.sizes = w->value;
		else if (k == TYPE)
			j.type = w->value;
		else if (k == CPUS)
			j.cpus = w->value;
		else
			*(k == EXTERNAL ? &j.external : k == FINITE ? &j.finite : k == FIXED ? &j.fixed : &j.json) = true;
	}
	const int status = check(&j);
	return status == CLI_OK ? convert(&j) : status;
}

const cli_command cli_convert = {
	.name = "convert",
	.words = "IN OUT",
	.line = "writes a file in another format: functions, models, tensors",
	.help = "The ends of the names say the formats. A .tjx becomes a .onnx, a .onnx a .tjx or another .onnx. Files of tensors\n"
		"(.safetensors, .npz, .npy, .gguf) become each other, and a .onnx any of them, with its initializers. Blocks of GGUF become f32.\n"
		"Nothing of IN runs. OUT takes the place of an older file when all of it is on the disk.",
	.option = (const cli_option[]){ { 'i', "input", "[NAME=]FILE", "a .npy like an input of a .onnx: its sizes count" },
	                                { 0, "sizes", "TEXT", "bounds of sizes that a .onnx names: \"batch in 1..8\"" },
	                                { 0, "type", "TYPE", "floats as F32, F16, BF16, and in .gguf Q8_0, Q4_0" },
	                                { 0, "cpus", "LIST", "for which CPUs a .tjx has code; \"\": none" },
	                                { 0, "external", NULL, "weights of a .onnx beside it" },
	                                { 0, "finite", NULL, "no value is NaN: fewer nodes in a .onnx" },
	                                { 0, "fixed", NULL, "no size of a .onnx varies" },
	                                { 0, "json", NULL, "print JSON" },
	                                { 0 } },
	.run = run,
};
