/* SPDX-License-Identifier: MIT */
/* page: the files of report/, as they are, in this program. */
#include "cli/page.h"

#include <stddef.h>

/* The path is that from the root of the source, where make runs. */
#define X(name, file) \
	__asm__(".section .rodata\n.global cli_page_" #name "\n.global cli_page_" #name "_end\n" \
	        "cli_page_" #name ":\n.incbin \"report/" file "\"\ncli_page_" #name "_end:\n.byte 0\n.previous\n"); \
	extern const char cli_page_##name[], cli_page_##name##_end[];
CLI_PAGE(X)
#undef X

const cli_part *cli_page_part(int i)
{
	static const cli_part part[] = {
#define X(name, file) { file, cli_page_##name, cli_page_##name##_end },
		CLI_PAGE(X)
#undef X
	};
	return i < (int)(sizeof part / sizeof *part) ? &part[i] : NULL;
}
