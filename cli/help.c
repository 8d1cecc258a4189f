/* SPDX-License-Identifier: MIT */
/* tj help: the commands, and the options of one. */
#include "cli/cli.h"

#include <string.h>

static void list(void)
{
	const cli_command *c;
	printf("%stj%s COMMAND: tjit %s, torch.compile for C\n\n", cli_style_of(CLI_TITLE), cli_style_of(CLI_PLAIN), tj_version());
	for (int i = 0; (c = cli_command_at(i)); i++)
		printf("  %s%-10s%s %s\n", cli_style_of(CLI_NAME), c->name, cli_style_of(CLI_PLAIN), c->line);
	printf("\ntj help COMMAND, or tj COMMAND --help, says more. tj --version prints the version.\n"
	       "The exit code is 0, or 1: it failed, or 2: the command line is wrong.\n");
}

static void put_option(const cli_option *o)
{
	char left[64];
	snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : "", o->letter ? o->letter : ' ', o->letter ? ", " : "   ", o->name,
	         o->value ? " " : "", o->value ? o->value : "");
	printf("  %s%-28s%s %s\n", cli_style_of(CLI_NAME), left, cli_style_of(CLI_PLAIN), o->doc);
}

static void one(const cli_command *c)
{
	printf("%stj %s%s%s%s%s\n%s.\n\n%s\n", cli_style_of(CLI_TITLE), c->name, c->option ? " [OPTION...]" : "", *c->words ? " " : "",
	       c->words, cli_style_of(CLI_PLAIN), c->line, c->help);
	if (c->option) putchar('\n');
	for (const cli_option *o = c->option; o && o->name; o++) put_option(o);
}

static int run(cli_words *w)
{
	const cli_command *c;
	bool any = false;
	for (int k; (k = cli_next(w)) != CLI_END; any = true) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (!(c = cli_find(w->value))) return cli_unknown("command", w->value, cli_command_name, NULL);
		if (any) putchar('\n');
		one(c);
	}
	if (!any) list();
	return CLI_OK;
}

const cli_command cli_help = { .name = "help",
	                       .words = "[COMMAND...]",
	                       .line = "lists the commands, or says more of one",
	                       .help = "Without a COMMAND it lists all of them.",
	                       .run = run };
