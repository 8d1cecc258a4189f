/* SPDX-License-Identifier: MIT */
/* dwarf: what an object says of a function: its lines of C (.debug_line, version 4) and how to unwind (.eh_frame), as tools are told of it
 * (runtime/debug.h). The object is LLVM's own, and is read with all checks: what does not fit is left out. */
#include "codegen_llvm/cg.h"
#include "runtime/debug.h"

#include <elf.h>

typedef struct object {
	const unsigned char *base;
	size_t bytes;
	const Elf64_Shdr *section;
	uint32_t nsection;
	const Elf64_Sym *symbol;
	uint64_t nsymbol;
	rt_span strings, section_names;
	const Elf64_Sym *function;
	rt_arena mem;
	uint32_t entry;          /* of the function in the blob */
	rt_vec(rt_piece) piece;
	rt_vec(rt_line_row) row;
	rt_vec(const char *) file;
	bool oom;
} object;

/* ---- the object ---- */
static rt_span span_of(const object *o, const Elf64_Shdr *s)
{
	if (s->sh_type == SHT_NOBITS || s->sh_offset > o->bytes || s->sh_size > o->bytes - s->sh_offset) return (rt_span){ 0 };
	return (rt_span){ o->base + s->sh_offset, s->sh_size };
}

static const char *string_in(rt_span s, uint64_t at)
{
	const char *text = s.at;
	return at < s.bytes && memchr(text + at, 0, s.bytes - at) ? text + at : "";
}

static bool open_object(object *o)
{
	const Elf64_Ehdr *h = (const void *)o->base;
	if (o->bytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_shentsize != sizeof(Elf64_Shdr)) return false;
	if (h->e_shoff > o->bytes || (uint64_t)h->e_shnum * sizeof(Elf64_Shdr) > o->bytes - h->e_shoff) return false;
	if (h->e_shstrndx >= h->e_shnum) return false;
	o->section = (const void *)(o->base + h->e_shoff);
	o->nsection = h->e_shnum;
	o->section_names = span_of(o, &o->section[h->e_shstrndx]);
	for (uint32_t i = 0; i < o->nsection; i++) {
		const Elf64_Shdr *s = &o->section[i];
		if (s->sh_type != SHT_SYMTAB || s->sh_link >= o->nsection) continue;
		const rt_span table = span_of(o, s);
		o->symbol = table.at;
		o->nsymbol = table.bytes / sizeof *o->symbol;
		o->strings = span_of(o, &o->section[s->sh_link]);
	}
	return o->symbol != NULL;
}

/* 0: there is none. */
static uint32_t section_named(const object *o, const char *name)
{
	for (uint32_t i = 1; i < o->nsection; i++)
		if (!strcmp(string_in(o->section_names, o->section[i].sh_name), name)) return i;
	return 0;
}

static const Elf64_Sym *find_function(const object *o, const char *name)
{
	for (uint64_t i = 1; i < o->nsymbol; i++)
		if (o->symbol[i].st_shndx != SHN_UNDEF && !strcmp(string_in(o->strings, o->symbol[i].st_name), name)) return &o->symbol[i];
	return NULL;
}

/* The place that the relocation of `section` at `at` names, as an offset in the function's section; false: none there. */
static bool target_at(const object *o, uint32_t section, uint64_t at, uint64_t *to)
{
	for (uint32_t i = 1; i < o->nsection; i++) {
		const Elf64_Shdr *s = &o->section[i];
		if (s->sh_type != SHT_RELA || s->sh_info != section) continue;
		const rt_span table = span_of(o, s);
		const Elf64_Rela *r = table.at;
		for (uint64_t k = 0; k < table.bytes / sizeof *r; k++) {
			const uint64_t symbol = ELF64_R_SYM(r[k].r_info);
			if (r[k].r_offset != at || symbol >= o->nsymbol || o->symbol[symbol].st_shndx != o->function->st_shndx) continue;
			*to = o->symbol[symbol].st_value + (uint64_t)r[k].r_addend;
			return true;
		}
	}
	return false;
}

/* ---- bytes ---- */
typedef struct reader { const unsigned char *base, *at, *end; bool bad; } reader;

static uint64_t number(reader *r, size_t n)
{
	uint64_t x = 0;
	if (n > (size_t)(r->end - r->at)) {
		r->bad = true;
		return 0;
	}
	memcpy(&x, r->at, n);
	r->at += n;
	return x;
}

static uint64_t leb(reader *r, bool is_signed)
{
	uint64_t x = 0;
	unsigned shift = 0;
	for (;; shift += 7) {
		const uint64_t byte = number(r, 1);
		if (r->bad || shift > 56) break;
		x |= (byte & 0x7f) << shift;
		if (byte & 0x80) continue;
		if (is_signed && byte & 0x40) x |= ~(uint64_t)0 << (shift + 7);
		return x;
	}
	r->bad = true;
	return 0;
}

static const char *string(reader *r)
{
	const unsigned char *end = r->bad ? NULL : memchr(r->at, 0, (size_t)(r->end - r->at));
	const char *s = (const char *)r->at;
	if (!end) {
		r->bad = true;
		return "";
	}
	r->at = end + 1;
	return s;
}

/* ---- lines ---- */
enum { COPY = 1, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, NEGATE_STMT, BASIC_BLOCK, CONST_ADD_PC, FIXED_ADVANCE_PC, PROLOGUE_END,
       EPILOGUE_BEGIN, SET_ISA, OPCODES, END_SEQUENCE = 1, SET_ADDRESS, FILES = 256 };
typedef struct program { /* of lines, as it runs */
	reader r;
	uint32_t section;
	uint64_t least, base, range;
	int64_t line_base;
	uint64_t address, file, line; /* address: in the function's section, if here */
	bool here;
	uint32_t nfile, to[FILES];    /* by file, from 1: its number in o->file, + 1 */
	const char *name[FILES];
} program;

static void read_files(object *o, program *p)
{
	const char *folder[FILES] = { "" };
	uint32_t n = 1;
	for (const char *s; *(s = string(&p->r)) && n < FILES;) folder[n++] = s;
	for (const char *s; *(s = string(&p->r));) {
		const uint64_t in = leb(&p->r, false);
		leb(&p->r, false), leb(&p->r, false);
		if (p->r.bad || p->nfile + 1 >= FILES) return;
		const size_t room = strlen(s) + strlen(in < n ? folder[in] : "") + 2;
		char *path = rt_arena_alloc(&o->mem, room);
		if (!path) o->oom = true;
		else snprintf(path, room, "%s%s%s", in < n ? folder[in] : "", in && in < n ? "/" : "", s);
		p->name[++p->nfile] = path;
	}
}

/* The header; sets where the program ends. */
static bool read_head(object *o, program *p)
{
	static const unsigned char operands[] = { 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	reader *r = &p->r;
	const uint64_t length = number(r, 4);
	if (r->bad || length > (size_t)(r->end - r->at)) return false;
	r->end = r->at + length;
	if (number(r, 2) != 4) return false;
	const uint64_t head = number(r, 4);
	if (r->bad || head > (size_t)(r->end - r->at)) return false;
	const unsigned char *first = r->at + head;
	p->least = number(r, 1), number(r, 2); /* operations of an instruction, default of is_stmt */
	p->line_base = (int8_t)number(r, 1), p->range = number(r, 1), p->base = number(r, 1);
	if (p->base != OPCODES || !p->range || !p->least) return false;
	for (unsigned i = 1; i < OPCODES; i++)
		if (number(r, 1) != operands[i]) return false;
	read_files(o, p);
	r->at = first;
	return !r->bad;
}

static uint32_t file_of(object *o, program *p)
{
	if (!p->file || p->file > p->nfile || !p->name[p->file]) return 0;
	if (p->to[p->file]) return p->to[p->file] - 1;
	if (!rt_push(&o->file, p->name[p->file])) o->oom = true;
	else p->to[p->file] = o->file.n;
	return o->file.n ? o->file.n - 1 : 0;
}

/* A row of the table; rows of one line follow each other as one. A later row of one address replaces the earlier one. */
static void emit(object *o, program *p)
{
	const uint64_t from = p->address - o->function->st_value;
	if (!p->here || from >= o->function->st_size || p->line > INT32_MAX) return;
	const rt_line_row row = { o->entry + (uint32_t)from, file_of(o, p), (uint32_t)p->line };
	rt_line_row *last = o->row.n ? &o->row.v[o->row.n - 1] : NULL;
	if (last && (row.at < last->at || (last->file == row.file && last->line == row.line))) return;
	if (last && last->at == row.at) *last = row;
	else if (o->file.n && !rt_push(&o->row, row)) o->oom = true;
}

static void restart(program *p) { p->file = p->line = 1, p->address = 0, p->here = false; }

static void extended(object *o, program *p)
{
	const uint64_t n = leb(&p->r, false);
	if (p->r.bad || !n || n > (size_t)(p->r.end - p->r.at)) {
		p->r.bad = true;
		return;
	}
	const unsigned char *next = p->r.at + n;
	const uint64_t op = number(&p->r, 1);
	if (op == END_SEQUENCE) restart(p);
	if (op == SET_ADDRESS && n == 9) p->here = target_at(o, p->section, (uint64_t)(p->r.at - p->r.base), &p->address);
	p->r.at = next;
}

static void step(object *o, program *p)
{
	const uint64_t op = number(&p->r, 1);
	if (op >= p->base) {
		p->address += (op - p->base) / p->range * p->least;
		p->line += (uint64_t)(p->line_base + (int64_t)((op - p->base) % p->range));
		emit(o, p);
		return;
	}
	switch (op) {
	case 0: extended(o, p); break;
	case COPY: emit(o, p); break;
	case ADVANCE_PC: p->address += leb(&p->r, false) * p->least; break;
	case ADVANCE_LINE: p->line += leb(&p->r, true); break;
	case SET_FILE: p->file = leb(&p->r, false); break;
	case SET_COLUMN: case SET_ISA: leb(&p->r, false); break;
	case CONST_ADD_PC: p->address += (255 - p->base) / p->range * p->least; break;
	case FIXED_ADVANCE_PC: p->address += number(&p->r, 2); break;
	default: break; /* those without operands */
	}
}

static void read_lines(object *o)
{
	const uint32_t section = section_named(o, ".debug_line");
	const rt_span s = section ? span_of(o, &o->section[section]) : (rt_span){ 0 };
	program *p = s.bytes ? rt_arena_alloc(&o->mem, sizeof *p) : NULL;
	if (!p) return;
	p->r = (reader){ .base = s.at, .at = s.at, .end = (const unsigned char *)s.at + s.bytes };
	p->section = section;
	restart(p);
	if (!read_head(o, p)) return;
	while (!p->r.bad && p->r.at < p->r.end) step(o, p);
}

/* ---- frames ---- */
/* What a common entry must say for runtime/frames.c to say it again: from its version on. */
static const unsigned char common[] = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1 };

static bool is_common(rt_span s, uint64_t at)
{
	const unsigned char *p = (const unsigned char *)s.at + at;
	uint32_t length;
	if (at > s.bytes || s.bytes - at < 8 + sizeof common) return false;
	memcpy(&length, p, sizeof length);
	if (length < 4 + sizeof common || length > s.bytes - at - 4 || memcmp(p + 8, common, sizeof common) != 0) return false;
	for (uint32_t i = 4 + sizeof common; i < length; i++)
		if (p[4 + i]) return false; /* not DW_CFA_nop */
	return true;
}

/* Of the description at r, which ends at r->end; false: it is another function's. */
static bool read_frame(const object *o, reader *r, uint32_t section, rt_span s, rt_piece *p)
{
	const uint64_t at = (uint64_t)(r->at - r->base), back = number(r, 4);
	uint64_t to = 0;
	if (!back || back > at || !is_common(s, at - back)) return false;
	if (!target_at(o, section, at + 4, &to) || to != o->function->st_value) return false;
	number(r, 4);
	if (number(r, 4) != o->function->st_size || number(r, 1) || r->bad || !rt_cfa_is_simple(r->at, (size_t)(r->end - r->at))) return false;
	p->cfa = r->at;
	p->ncfa = (uint32_t)(r->end - r->at);
	return true;
}

static void read_frames(const object *o, rt_piece *p)
{
	const uint32_t section = section_named(o, ".eh_frame");
	const rt_span s = section ? span_of(o, &o->section[section]) : (rt_span){ 0 };
	reader all = { .base = s.at, .at = s.at, .end = (const unsigned char *)s.at + s.bytes };
	while (s.bytes && all.at < all.end) {
		const uint64_t length = number(&all, 4);
		if (all.bad || !length || length > (size_t)(all.end - all.at)) return;
		reader one = { .base = s.at, .at = all.at, .end = all.at + length };
		if (read_frame(o, &one, section, s, p)) return;
		all.at += length;
	}
}

/* ---- functions of its own that a blob has, too ---- */
/* "tj_step_k0.part1": a copy belongs to its kernel. */
static const char *part_name(object *o, const char *kernel)
{
	const size_t room = strlen(kernel) + 20;
	char *name = rt_arena_alloc(&o->mem, room);
	if (name) snprintf(name, room, "%s.part%u", kernel, o->piece.n);
	else o->oom = true;
	return name;
}

static void add_own(object *o, const char *kernel, const rt_blob *b, uint64_t at)
{
	rt_debug d;
	const uint32_t files = o->file.n;
	if (!b->debug_bytes || !rt_debug_get(&o->mem, b->debug, b->debug_bytes, b->bytes, &d)) return;
	for (uint32_t i = 0; i < d.nfile; i++) o->oom |= !rt_push(&o->file, d.file[i]);
	for (uint32_t i = 0; i < d.npiece; i++) {
		rt_piece p = d.piece[i];
		p.at += (uint32_t)at;
		p.name = part_name(o, kernel);
		o->oom |= !p.name || !rt_push(&o->piece, p);
	}
	for (uint32_t i = 0; i < d.nrow; i++) {
		rt_line_row row = { d.row[i].at + (uint32_t)at, d.row[i].file + files, d.row[i].line };
		o->oom |= !rt_push(&o->row, row);
	}
}

static void read_all(object *o, const char *name, const char *text, const cg_owns *owns, const uint64_t *own_at)
{
	size_t n;
	const char *ops = cg_ops_in(text, &n);
	char *copy = rt_arena_alloc(&o->mem, n + 1);
	if (!copy) {
		o->oom = true;
		return;
	}
	memcpy(copy, ops, n);
	rt_piece p = { .at = o->entry, .bytes = (uint32_t)o->function->st_size, .name = name, .ops = copy };
	read_frames(o, &p);
	read_lines(o);
	o->oom |= !rt_push(&o->piece, p);
	for (uint32_t i = 0; own_at && i < owns->n; i++)
		if (own_at[i]) add_own(o, name, &owns->v[i].blob, own_at[i]);
}

void cg_debug_of(const void *bytes, size_t n, const char *name, const char *text, uint32_t entry, const cg_owns *owns,
                 const uint64_t *own_at, rt_text *out)
{
	object o = { .base = bytes, .bytes = n, .entry = entry };
	size_t ops;
	if (!cg_ops_in(text, &ops) || !open_object(&o)) return;
	if ((o.function = find_function(&o, name)) != NULL && o.function->st_size) read_all(&o, name, text, owns, own_at);
	const rt_debug d = { .npiece = o.piece.n, .nrow = o.row.n, .nfile = o.file.n, .piece = o.piece.v, .row = o.row.v, .file = o.file.v };
	if (d.npiece && !o.oom) rt_debug_put(out, &d);
	if (out->oom) rt_text_free(out);
	rt_vec_free(&o.piece);
	rt_vec_free(&o.row);
	rt_vec_free(&o.file);
	rt_arena_free(&o.mem);
}
