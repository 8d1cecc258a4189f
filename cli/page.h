/* SPDX-License-Identifier: MIT */
/* page: the page of a report, whose sources are in report/. */
#ifndef TJ_CLI_PAGE_H
#define TJ_CLI_PAGE_H

/* In the order in which they stand in the page; the scripts use what is above them. */
/* clang-format off */
#define CLI_PAGE(X) \
	X(html, "page.html") X(css, "page.css") \
	X(base, "base.js") X(model, "model.js") X(layout, "layout.js") X(graph, "graph.js") X(kernels, "kernels.js") \
	X(memory, "memory.js") X(traces, "traces.js") X(overview, "overview.js") X(compare, "compare.js") X(search, "search.js") \
	X(main, "main.js")
/* clang-format on */
typedef struct cli_part { const char *file, *text, *end; } cli_part;
const cli_part *cli_page_part(int i); /* NULL behind the last one */

#endif
