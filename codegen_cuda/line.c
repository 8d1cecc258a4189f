/* SPDX-License-Identifier: MIT */
/* line: one line of text, indented by the braces before it. */
#include "codegen_cuda/cu.h"

#include <stdarg.h>

void cu_line(cu *c, const char *fmt, ...)
{
	char line[600];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	const size_t n = strlen(line);
	if (line[0] == '}') c->indent--;
	for (int i = 0; i < c->indent; i++) rt_puts(c->out, "\t");
	rt_puts(c->out, line);
	if (n > 1 && line[n - 1] == '\n' && line[n - 2] == '{') c->indent++;
}
