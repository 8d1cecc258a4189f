/* SPDX-License-Identifier: MIT */
/* cli: the command tj. It uses <tj.h> and jansson, and nothing else of the library. */
#ifndef TJ_CLI_H
#define TJ_CLI_H

#include <jansson.h>
#include <tj.h>

/* Exit codes. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* ---- options.c: the words of a command line ---- */
typedef struct cli_option {
	char letter;              /* 0: it has none */
	const char *name, *value; /* value: what stands behind it, "FILE"; NULL: nothing */
	const char *doc;
} cli_option;
typedef struct cli_words {
	const char *command;
	const cli_option *option; /* ends with one without a name */
	char *const *word;        /* ends with NULL */
	const char *value;        /* of what cli_next() returned last */
	bool plain;               /* after "--": no word is an option */
} cli_words;
enum { CLI_END = -1, CLI_WORD = -2, CLI_WRONG = -3 };
int cli_next(cli_words *w); /* number of the option; CLI_WORD: another word; CLI_END; CLI_WRONG: the user was told what is wrong */
/* The name that is most like the word: a few letters differ. NULL: none is. next(env, i): name i, NULL behind the last one. */
const char *cli_nearest(const char *word, const char *(*next)(const void *env, int i), const void *env);
/* "there is no command inof; did you mean info?" Returns CLI_USAGE. */
int cli_unknown(const char *what, const char *word, const char *(*next)(const void *env, int i), const void *env);

/* ---- tj.c: the commands ---- */
typedef struct cli_command {
	const char *name, *words; /* words: what follows the name and the options, "[SECTION...]" */
	const char *line;         /* what it does, in a line */
	const char *help;         /* more of it */
	const cli_option *option;
	int (*run)(cli_words *w); /* an exit code */
} cli_command;
extern const cli_command cli_cache, cli_compile, cli_convert, cli_help, cli_info, cli_report, cli_run, cli_show, cli_top;
const cli_command *cli_command_at(int i); /* NULL behind the last one */
const cli_command *cli_find(const char *name);
const char *cli_command_name(const void *unused, int i);

/* ---- output.c ---- */
typedef enum cli_style { CLI_PLAIN, CLI_TITLE, CLI_NAME, CLI_TYPE, CLI_DIM, CLI_BAD } cli_style;
/* The escape sequence of a style for stdout; "" unless it is a terminal and NO_COLOR is not set. */
const char *cli_style_of(cli_style s);
void cli_row(const char *name, const char *text); /* "  name    text" */
void cli_put_bytes(char to[32], long long bytes);  /* "412 KiB" */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "tj: ...", to stderr */
int cli_failed(tj_ctx *c); /* the library's error, with its hint; returns CLI_FAILED */
/* "tj: ...", in one line of a terminal, which the next one replaces; nothing where stderr is none. NULL: long work is over. */
void cli_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
json_t *cli_string(const char *s); /* bytes that are not UTF-8 become '?'; NULL: null */
int cli_put_json(json_t *j);       /* prints it, and takes its reference */
/* The exit code of the program: CLI_FAILED, with a message, when stdout did not take all that was printed. */
int cli_finish(int status);

/* ---- cache.c, for tj info ---- */
json_t *cli_cache_data(tj_ctx *c);
void cli_print_cache(const json_t *d);

/* ---- showmodel.c, for tj run ---- */
struct tj_onnx_value;
bool cli_is_model(const char *path); /* by its name: *.onnx */
const char *cli_model_type(const struct tj_onnx_value *v, char *to, size_t room); /* "f32[batch,3,?]" */
void cli_model_refused(void *unused, const char *line); /* to stderr */

/* ---- text.c ---- */
char *cli_read(const char *path); /* all of a file, "-": stdin; NULL: the user was told why not. The caller frees it */
/* The next line of *s, which moves behind it; its newline becomes 0. NULL: there is none. */
char *cli_line(char **s);

#endif
