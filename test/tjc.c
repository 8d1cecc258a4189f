/* SPDX-License-Identifier: MIT */
/* tjc: parses IR text, runs passes, prints the result. For tests and for looking at a graph.
 *
 *   tjc -p dce,decomp file.tj      the graph after the passes
 *   tjc -t file.tj                 as a table
 *   tjc -k kernels.txt             kernels, parsed and verified
 *   tjc -g file.tj...              checks golden files; -w rewrites their expected blocks
 *
 * A golden file holds the input and the expected output:
 *
 *   # run: fold
 *   %0 = input f32[4] slot=0
 *   ...
 *   # >>> after fold
 *   ...
 *   # <<<
 *
 * A block `# >>> after X` holds the text after pass X; the block `# >>> error` holds the first error instead.
 */
#include "lower/loops.h"
#include "lower/target.h"
#include "test/mock.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_PASSES = 15 };

/* ---- passes: from one graph into another, and/or text of their own ---- */
typedef struct pass {
	const char *name;
	tj_status (*run)(const ir_graph *from, ir_graph *to, rt_text *t,
	                 rt_err *err); /* prints the text of the block to t */
	bool prints; /* t is filled by run; to is not used */
} pass;

static tj_status run_dce(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)t;
	return ir_pass_dce(from, to, NULL, err);
}

static tj_status run_decomp(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)t;
	return ir_pass_decomp(from, to, NULL, err);
}

static tj_status run_parse(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to, (void)err;
	ir_print(from, t);
	return TJ_OK;
}

static tj_status run_table(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to, (void)err;
	ir_table(from, t);
	return TJ_OK;
}

/* dce emits every node again, so it folds and merges; a second run drops the nodes that folding left unused. */
static tj_status run_fold(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	ir_graph mid;
	(void)t;
	ir_graph_init(&mid);
	tj_status st = ir_pass_dce(from, &mid, NULL, err);
	if (st == TJ_OK) st = ir_pass_dce(&mid, to, NULL, err);
	ir_graph_free(&mid);
	return st;
}

/* Returns the outputs, then the gradients of the first one by all inputs that are floats. */
static tj_status run_grad(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	ir_ref *map = calloc(from->node.n + 1, sizeof *map), *wrt = calloc(from->node.n + 1, sizeof *wrt),
	       *out = calloc(from->node.n + 1, sizeof *out);
	(void)t;
	tj_status st = map && wrt && out ? ir_pass_dce(from, to, map, err) : TJ_ERR_NOMEM;
	if (st == TJ_OK) {
		ir_grad_ask q = { .y = to->out.v[0], .cotangent = IR_NONE, .wrt = wrt, .zeros = true, .site = "tjc" };
		for (ir_ref r = 0; r < to->node.n; r++)
			if (ir_at(to, r)->op == IR_input && rt_is_float((tj_dtype)ir_at(to, r)->dtype)) wrt[q.n++] = r;
		if (!ir_grad(to, &q, out)) *err = to->err;
		for (int i = 0; i < q.n && to->err.code == TJ_OK; i++) ir_ret(to, out[i]);
		st = to->err.code;
	}
	free(map);
	free(wrt);
	free(out);
	return st;
}

static tj_status run_loops(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)t;
	return lo_loops(from, to, err);
}

static tj_status run_groups(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to;
	return lo_print_groups(from, &lo_cpu, t, err);
}

static tj_status run_kernels(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to;
	return lo_print_kernels(from, &lo_cpu, t, err);
}

static tj_status run_steps(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to;
	return lo_print_steps(from, &lo_cpu, t, err);
}

static tj_status run_memory(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	(void)to;
	return lo_print_memory(from, &lo_cpu, t, err);
}

/* Parses kernels, each from a line `kernel ...` on, and skips the text between them; then f. Cuts the text. */
typedef tj_status kernel_fn(const lo_kernel *k, const lo_schedule *s, rt_text *t, rt_err *err);
static tj_status each_kernel(char *text, kernel_fn *f, rt_text *t, rt_err *err)
{
	rt_arena names = { 0 };
	tj_status st = TJ_OK;
	char *next;
	for (char *at = !strncmp(text, "kernel ", 7) ? text : strstr(text, "\nkernel "); st == TJ_OK && at; at = next) {
		lo_kernel k;
		lo_schedule s;
		at += *at == '\n';
		next = strstr(at, "\nkernel ");
		if (next) *next++ = 0;
		st = lo_parse(&k, &s, &lo_cpu, at, &names, err);
		if (st == TJ_OK) st = lo_verify(&k, &s, err);
		if (st == TJ_OK) st = f(&k, &s, t, err);
		lo_kernel_free(&k);
		lo_schedule_free(&s);
	}
	rt_arena_free(&names);
	return st;
}

static tj_status put_recipes(const lo_kernel *k, const lo_schedule *s, rt_text *t, rt_err *err)
{
	const char *why;
	const lo_backend *llvm = lo_backend_find("llvm", &why);
	rt_text code = { 0 };
	tj_status st = llvm ? TJ_OK : rt_fail(err, TJ_ERR_COMPILE, "tjc", "%s", why);
	for (int bits = 512; st == TJ_OK && bits >= 256; bits /= 2) {
		const rt_cpu cpu = { bits, bits == 512 ? rt_features_for(~0u) : 0 };
		st = llvm->recipe(k, s, cpu, NULL, t, &code, err);
	}
	rt_text_free(&code);
	return st;
}

/* What is decided for the code of each kernel, with vectors of 512 bits, on a CPU that has all features, and of 256 bits. */
static tj_status run_recipes(const ir_graph *from, ir_graph *to, rt_text *t, rt_err *err)
{
	rt_text all = { 0 };
	(void)to;
	tj_status st = lo_print_kernels(from, &lo_cpu, &all, err);
	if (st == TJ_OK && all.s) st = each_kernel(all.s, put_recipes, t, err);
	rt_text_free(&all);
	return st;
}

static const pass passes[] = {
	{ "parse", run_parse, true },
	{ "table", run_table, true },
	{ "fold", run_fold, false },
	{ "dce", run_dce, false },
	{ "decomp", run_decomp, false },
	{ "grad", run_grad, false },
	{ "loops", run_loops, false },
	{ "groups", run_groups, true },
	{ "kernels", run_kernels, true },
	{ "steps", run_steps, true },
	{ "memory", run_memory, true },
	{ "recipes", run_recipes, true },
};

static const pass *find_pass(const char *s, size_t n)
{
	for (size_t i = 0; i < RT_COUNT(passes); i++)
		if (strlen(passes[i].name) == n && !strncmp(passes[i].name, s, n)) return &passes[i];
	return NULL;
}

static void put_error(rt_text *t, const rt_err *e)
{
	rt_putf(t, "%s: %s", e->op, e->message);
	rt_putf(t, " [%s]\n", tj_strerror(e->code));
	if (e->hint[0]) rt_putf(t, "hint: %s\n", e->hint);
}

static void put_block(rt_text *out, const char *title, const rt_text *body)
{
	rt_putf(out, "# >>> %s\n%s# <<<\n", title, rt_str(body));
}

/* Runs the named passes over the text; each one's result becomes a block. False: the last one failed, err
 * says why. */
static bool run_passes(const char *text, const char *list, rt_text *out, rt_err *err)
{
	ir_graph g[MAX_PASSES + 1]; /* all of them stay: the later ones borrow the sites of the first */
	int cur = 0;
	for (int i = 0; i <= MAX_PASSES; i++) ir_graph_init(&g[i]);
	tj_status st = ir_parse(&g[0], text, err);
	if (st == TJ_OK) st = ir_verify(&g[0], err);
	while (st == TJ_OK && *list && cur < MAX_PASSES) {
		size_t n = strcspn(list, ",");
		const pass *p = find_pass(list, n);
		rt_text body = { 0 };
		char title[64];
		if (!p) {
			st = rt_fail(err, TJ_ERR_ARG, "tjc", "no pass named `%.*s`", (int)n, list);
			break;
		}
		st = p->run(&g[cur], &g[cur + 1], &body, err);
		if (st == TJ_OK && !p->prints) {
			st = ir_verify(&g[++cur], err);
			ir_print(&g[cur], &body);
		}
		snprintf(title, sizeof title, "after %s", p->name);
		if (st == TJ_OK) put_block(out, title, &body);
		rt_text_free(&body);
		list += n + (list[n] == ',');
	}
	for (int i = 0; i <= MAX_PASSES; i++) ir_graph_free(&g[i]);
	return st == TJ_OK;
}

/* ---- files ---- */
static char *slurp(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t n = 0, cap = 1 << 20;
	char *s = malloc(cap);
	if (f && s) n = fread(s, 1, cap - 1, f);
	if (!f || !s) {
		fprintf(stderr, "tjc: %s: cannot be read\n", path);
		exit(2);
	}
	fclose(f);
	s[n] = 0;
	return s;
}

/* The words after `# run:`; "" if there is no such line. */
static void run_line(const char *text, char *list, size_t size)
{
	const char *s = strstr(text, "# run:");
	size_t n = 0;
	list[0] = 0;
	if (!s) return;
	for (s += 6; *s == ' '; s++) {}
	n = strcspn(s, " \n");
	if (n < size) memcpy(list, s, n), list[n] = 0;
}

/* 0: as expected (or rewritten), 1: differs */
static int golden(const char *path, bool rewrite)
{
	char *text = slurp(path), *blocks = strstr(text, "# >>> "), list[200];
	rt_text want = { 0 }, got = { 0 }, body = { 0 };
	rt_err err = { 0 };
	rt_puts(&want, blocks ? blocks : "");
	if (blocks) *blocks = 0;
	run_line(text, list, sizeof list);
	if (!run_passes(text, list, &got, &err)) {
		put_error(&body, &err);
		put_block(&got, "error", &body);
	}
	int differs = strcmp(rt_str(&want), rt_str(&got)) != 0;
	if (differs && rewrite) {
		FILE *f = fopen(path, "wb");
		if (!f || fputs(text, f) < 0 || fputs(rt_str(&got), f) < 0 || fclose(f)) exit(2);
	} else if (differs) {
		printf("--- %s: expected\n%s+++ got\n%s", path, rt_str(&want), rt_str(&got));
	}
	rt_text_free(&want);
	rt_text_free(&got);
	rt_text_free(&body);
	free(text);
	return differs && !rewrite;
}

static int show(const char *path, const char *list)
{
	char *text = slurp(path);
	rt_text out = { 0 };
	rt_err err = { 0 };
	bool ok = run_passes(text, list, &out, &err);
	if (!ok) put_error(&out, &err);
	fputs(rt_str(&out), stdout);
	rt_text_free(&out);
	free(text);
	return !ok;
}

static tj_status put_kernel(const lo_kernel *k, const lo_schedule *s, rt_text *t, rt_err *err)
{
	(void)err;
	lo_print(k, s, t);
	return TJ_OK;
}

static int show_kernels(const char *path)
{
	char *text = slurp(path);
	rt_text out = { 0 };
	rt_err err = { 0 };
	const bool ok = each_kernel(text, put_kernel, &out, &err) == TJ_OK;
	if (!ok) put_error(&out, &err);
	fputs(rt_str(&out), stdout);
	rt_text_free(&out);
	free(text);
	return !ok;
}

int main(int argc, char **argv)
{
	const char *list = "fold";
	bool check = false, rewrite = false, kernels = false;
	int i = 1, bad = 0;
	mock_device(); /* texts may name it */
	rt_team_get(2); /* else blocks, and what runs together, would depend on the machine */
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "-g")) check = true;
		else if (!strcmp(argv[i], "-w")) check = rewrite = true;
		else if (!strcmp(argv[i], "-t")) list = "table";
		else if (!strcmp(argv[i], "-k")) kernels = true;
		else if (!strcmp(argv[i], "-p") && i + 1 < argc) list = argv[++i];
		else i = argc;
	}
	if (i >= argc) {
		fprintf(stderr, "usage: tjc [-t] [-p pass,pass] file.tj | tjc -k kernels.txt | tjc -g|-w file.tj...\npasses:");
		for (size_t k = 0; k < RT_COUNT(passes); k++) fprintf(stderr, " %s", passes[k].name);
		fprintf(stderr, "\n");
		return 2;
	}
	for (; i < argc; i++) bad |= kernels ? show_kernels(argv[i]) : check ? golden(argv[i], rewrite) : show(argv[i], list);
	return bad;
}
