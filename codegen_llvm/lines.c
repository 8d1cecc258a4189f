/* SPDX-License-Identifier: MIT */
/* lines: lines of C in the text, if tools are told of code. What writes a kernel leaves comments; before LLVM reads the text they become
 * metadata.
 *
 *   define void @"tj_f_k0"(..) #0 {           define void @"tj_f_k0"(..) #0 !dbg !12 {
 *   entry:                                    entry:
 *   ; of tj_f_k0
 *   ; ops relu+add
 *   ; main 1                                  what belongs to no op is of the first site
 *   ; site train.c:8
 *   ; site train.c:9
 *     %x = load ..                     =>       %x = load .., !dbg !13
 *   ;@2
 *     %y = fadd ..                              %y = fadd .., !dbg !14
 *   ;@0
 */
#include "codegen_llvm/cg.h"

#include <stdlib.h>

static const char SITE[] = "; site ", MAIN[] = "; main ", OPS[] = "; ops ", MARK[] = ";@";
enum { UNIT = 2, FIRST = 5 /* numbers of metadata: of the unit; of the first function. 0 and 1 are parallel.c's, 3 and 4 the unit's */ };

/* ---- comments ---- */
static void put_plain(rt_text *t, const char *s)
{
	for (; *s; s++) rt_putn(t, (unsigned char)*s < ' ' ? "?" : s, 1);
	rt_puts(t, "\n");
}

void cg_put_sites(const lo_kernel *k, bool named, rt_text *t)
{
	if (!k->site.n) return;
	if (named) rt_putf(t, "; of %s\n", k->name);
	rt_puts(t, OPS);
	lo_put_ops(k, t);
	rt_putf(t, "\n%s%u\n", MAIN, lo_main_site(k));
	for (uint32_t i = 0; i < k->site.n; i++) {
		rt_puts(t, SITE);
		put_plain(t, k->site.v[i].at ? k->site.v[i].at : "?");
	}
}

void cg_mark_site(const cg *c, uint32_t site)
{
	if (c->k->site.n) rt_putf(c->out, "%s%u\n", MARK, site);
}

const char *cg_ops_in(const char *text, size_t *n)
{
	const char *at = strstr(text, OPS);
	if (!at) return NULL;
	at += sizeof OPS - 1;
	*n = strcspn(at, "\n");
	return at;
}

/* ---- metadata ---- */
typedef struct place { const char *file; size_t n; unsigned line; unsigned node; } place; /* of a site; node 0: not written yet */
typedef struct writer {
	cg_lines *all;
	rt_text *out;
	rt_vec(place) site;
	uint32_t main, now;      /* as lo_ins.site */
	unsigned function, file; /* nodes: of the function, of its file */
} writer;

static unsigned next(writer *w) { return w->all->n++; }

static void put_string(rt_text *t, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || (unsigned char)s[i] > '~' || s[i] == '"' || s[i] == '\\') rt_putf(t, "\\%02X", (unsigned char)s[i]);
		else rt_putn(t, &s[i], 1);
}

static unsigned put_file(writer *w, const place *p)
{
	const unsigned node = next(w);
	rt_putf(&w->all->text, "!%u = !DIFile(filename: \"", node);
	put_string(&w->all->text, p->file, p->n);
	rt_puts(&w->all->text, "\", directory: \"\")\n");
	return node;
}

/* "train.c:8"; what has no number at its end has line 0. */
static place place_of(const char *s, size_t n)
{
	size_t colon = n;
	while (colon && s[colon - 1] >= '0' && s[colon - 1] <= '9') colon--;
	if (colon == n || colon < 2 || s[colon - 1] != ':') return (place){ .file = s, .n = n };
	const unsigned long line = strtoul(s + colon, NULL, 10);
	return (place){ .file = s, .n = colon - 1, .line = line <= INT32_MAX ? (unsigned)line : 0 };
}

static const place *site_at(const writer *w, uint32_t site)
{
	static const place none = { .file = "?", .n = 1 };
	return site && site <= w->site.n ? &w->site.v[site - 1] : &none;
}

static bool same_file(const place *a, const place *b) { return a->n == b->n && !memcmp(a->file, b->file, a->n); }

/* The node of a site's line. */
static unsigned location(writer *w, uint32_t site)
{
	const place *p = site_at(w, site), *main = site_at(w, w->main);
	unsigned scope = w->function;
	if (!site || site > w->site.n) return location(w, w->main ? w->main : 1);
	if (p->node) return p->node;
	if (!same_file(p, main)) {
		const unsigned file = put_file(w, p);
		scope = next(w);
		rt_putf(&w->all->text, "!%u = !DILexicalBlockFile(scope: !%u, file: !%u, discriminator: 0)\n", scope, w->function, file);
	}
	const unsigned node = w->site.v[site - 1].node = next(w);
	rt_putf(&w->all->text, "!%u = !DILocation(line: %u, scope: !%u)\n", node, p->line, scope);
	return node;
}

static void put_function(writer *w, const char *name, size_t n)
{
	const place *main = site_at(w, w->main);
	w->file = put_file(w, main);
	w->function = next(w);
	rt_putf(&w->all->text, "!%u = distinct !DISubprogram(name: \"", w->function);
	put_string(&w->all->text, name, n);
	rt_putf(&w->all->text, "\", scope: !%u, file: !%u, line: %u, scopeLine: %u, type: !4, "
	        "spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !%u)\n",
	        w->file, w->file, main->line, main->line, UNIT);
}

/* ---- from comments to metadata ---- */
static void read_sites(writer *w, const char *text)
{
	const char *main = strstr(text, MAIN);
	if (main) w->main = (uint32_t)strtoul(main + sizeof MAIN - 1, NULL, 10);
	for (const char *at = strstr(text, SITE); at; at = strstr(at, SITE)) {
		at += sizeof SITE - 1;
		if (!rt_push(&w->site, place_of(at, strcspn(at, "\n")))) w->all->text.oom = true;
	}
}

/* define void @"name"(..) #0 { */
static void put_head(writer *w, const char *line, size_t n)
{
	const char *name = memchr(line, '@', n), *quote = name && name[1] == '"' ? name + 2 : name ? name + 1 : line;
	put_function(w, quote, strcspn(quote, "\"("));
	rt_putn(w->out, line, n - 1);
	rt_putf(w->out, "!dbg !%u {\n", w->function);
}

static void put_line(writer *w, const char *line, size_t n)
{
	if (!strncmp(line, MARK, sizeof MARK - 1)) {
		w->now = (uint32_t)strtoul(line + sizeof MARK - 1, NULL, 10);
		return;
	}
	if (*line == ';') return;
	if (!strncmp(line, "define ", 7) && line[n - 1] == '{') {
		put_head(w, line, n);
		return;
	}
	rt_putn(w->out, line, n);
	if (n > 2 && line[0] == ' ' && line[1] == ' ') rt_putf(w->out, ", !dbg !%u", location(w, w->now));
	rt_puts(w->out, "\n");
}

void cg_put_with_lines(rt_text *out, const char *text, cg_lines *all)
{
	writer w = { .all = all, .out = out };
	size_t n;
	if (!cg_ops_in(text, &n)) {
		rt_puts(out, text);
		return;
	}
	if (!all->n) all->n = FIRST;
	read_sites(&w, text);
	for (; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		put_line(&w, text, n);
	}
	rt_vec_free(&w.site);
}

void cg_put_line_table(rt_text *out, cg_lines *all)
{
	if (!all->n) return;
	rt_puts(out, rt_str(&all->text));
	rt_putf(out, "!%u = distinct !DICompileUnit(language: DW_LANG_C99, file: !3, isOptimized: true, emissionKind: LineTablesOnly)\n", UNIT);
	rt_puts(out, "!3 = !DIFile(filename: \"tjit\", directory: \"\")\n!4 = !DISubroutineType(types: !1)\n");
	rt_putf(out, "!llvm.dbg.cu = !{ !%u }\n", UNIT);
	rt_putf(out, "!llvm.module.flags = !{ !%u, !%u }\n", all->n, all->n + 1);
	rt_putf(out, "!%u = !{ i32 7, !\"Dwarf Version\", i32 4 }\n!%u = !{ i32 2, !\"Debug Info Version\", i32 3 }\n", all->n, all->n + 1);
	out->oom |= all->text.oom;
	rt_text_free(&all->text);
}
