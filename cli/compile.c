/* SPDX-License-Identifier: MIT */
/* tj compile: an exported function as an object file and a C header. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "out/my-model.v2.tjx" is my_model_v2; a digit at the front gets a '_'. The caller frees it. */
static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
	const int n = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
	char *name = NULL;
	if (asprintf(&name, "%s%.*s", isdigit((unsigned char)*base) ? "_" : "", n, base) < 0) return NULL;
	for (char *s = name; *s; s++)
		if (*s & 0x80 || !isalnum((unsigned char)*s)) *s = '_';
	return name;
}

static json_t *written(const char *path)
{
	struct stat s;
	return path && !stat(path, &s) ? json_pack("{s:o, s:I}", "path", cli_string(path), "bytes", (json_int_t)s.st_size) : json_null();
}

static void print_written(const json_t *d, const char *what)
{
	char size[32];
	const json_t *f = json_object_get(d, what);
	if (!json_is_object(f)) return;
	cli_put_bytes(size, json_integer_value(json_object_get(f, "bytes")));
	printf("%s: %s\n", json_string_value(json_object_get(f, "path")), size);
}

static int compile(const char *model, const char *object, const char *header, const char *name, bool json)
{
	tj_ctx *c = tj_open(NULL);
	if (!c) return cli_error("out of memory"), CLI_FAILED;
	cli_progress("compiling %s", model);
	int status = CLI_OK;
	if (tj_export_object(c, model, object, TJ_OPTS(tj_object_opts, .name = name, .header = header)) != TJ_OK) status = cli_failed(c);
	cli_progress(NULL);
	tj_close(c);
	if (status != CLI_OK) return status;
	json_t *d = json_pack("{s:o, s:o, s:o}", "name", cli_string(name), "object", written(object), "header", written(header));
	if (json) return cli_put_json(d);
	print_written(d, "object");
	print_written(d, "header");
	json_decref(d);
	return CLI_OK;
}

static int run(cli_words *w)
{
	enum { OUTPUT, HEADER, NAME, JSON };
	const char *model = NULL, *value[JSON + 1] = { NULL };
	bool json = false;
	for (int k; (k = cli_next(w)) != CLI_END;) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k == CLI_WORD && model) return cli_error("compile takes one FILE, and has %s, too", w->value), CLI_USAGE;
		if (k == CLI_WORD) model = w->value;
		else if (k == JSON) json = true;
		else value[k] = w->value;
	}
	if (!model || !value[OUTPUT]) {
		cli_error("compile needs %s: tj help compile", !model ? "a FILE" : "an output, -o FILE");
		return CLI_USAGE;
	}
	char *made = value[NAME] ? NULL : name_of(model);
	if (!value[NAME] && !made) return cli_error("out of memory"), CLI_FAILED;
	const int status = compile(model, value[OUTPUT], value[HEADER], made ? made : value[NAME], json);
	free(made);
	return status;
}

const cli_command cli_compile = {
	.name = "compile",
	.words = "FILE -o OBJECT",
	.line = "makes an object file and a C header of an exported function",
	.help = "FILE is what tj_export() wrote. A program includes the header and links OBJECT with libtjrt.a, and nothing else of tjit. All\n"
		"names in both begin with NAME, by default the name of FILE. What no kernel computes, as a sort, is refused.",
	.option = (const cli_option[]){ { 'o', "output", "FILE", "the object file" },
	                                { 0, "header", "FILE", "the header" },
	                                { 0, "name", "NAME", "a name in C" },
	                                { 0, "json", NULL, "print JSON" },
	                                { 0 } },
	.run = run,
};
