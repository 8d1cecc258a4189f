/* SPDX-License-Identifier: MIT */
/* tj: the table of commands, and what is the same for all of them. */
#include "cli/cli.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The one table of commands; `tj help` lists them in this order. */
static const cli_command *const commands[] = { &cli_info, &cli_show, &cli_compile, &cli_convert, &cli_run, &cli_report, &cli_cache,
	                                       &cli_top, &cli_help, NULL };

const cli_command *cli_command_at(int i) { return commands[i]; }

const char *cli_command_name(const void *unused, int i)
{
	(void)unused;
	return commands[i] ? commands[i]->name : NULL;
}

const cli_command *cli_find(const char *name)
{
	for (int i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name)) return commands[i];
	return NULL;
}

/* A program may begin without stdin, stdout and stderr. Then the next file that it opens would be one of them. */
static void have_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return; /* uses fail */
}

static bool asks_for_help(char *const *word)
{
	for (; *word && strcmp(*word, "--"); word++)
		if (!strcmp(*word, "--help") || !strcmp(*word, "-h")) return true;
	return false;
}

static int run(const cli_command *c, char *const *word)
{
	static const cli_option none[] = { { 0 } };
	char *const help[] = { (char *)(uintptr_t)c->name, NULL };
	if (c != &cli_help && asks_for_help(word)) return cli_help.run(&(cli_words){ .command = "help", .option = none, .word = help });
	return c->run(&(cli_words){ .command = c->name, .option = c->option ? c->option : none, .word = word });
}

static int main_of(char *const *word)
{
	const char *first = *word;
	if (!first || !strcmp(first, "--help") || !strcmp(first, "-h")) {
		const int status = run(&cli_help, first ? word + 1 : word);
		return first ? status : CLI_USAGE;
	}
	if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
		printf("tj %s\n", tj_version());
		return CLI_OK;
	}
	const cli_command *c = cli_find(first);
	if (c) return run(c, word + 1);
	cli_unknown(*first == '-' ? "option" : "command", first, cli_command_name, NULL);
	cli_error("tj help lists the commands");
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	have_streams();
	return cli_finish(main_of(argv + (argc > 0)));
}
