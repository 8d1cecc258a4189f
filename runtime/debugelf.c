/* SPDX-License-Identifier: MIT */
/* debugelf: an object file that describes code in memory: names, lines, frames. It has no code: .text says where that is. */
#include "runtime/tools.h"

#include <elf.h>

enum { NULL_SECTION, TEXT, FRAMES, SYMBOLS, STRINGS, ABBREVIATIONS, INFO, LINES, NAMES, SECTIONS };
static const char *const section_name[] = { "",	        ".text",         ".eh_frame",   ".symtab",     ".strtab",
	                                    ".debug_abbrev", ".debug_info", ".debug_line", ".shstrtab" };
typedef struct object { rt_text part[SECTIONS]; Elf64_Shdr section[SECTIONS]; const rt_told *t; } object;

/* ---- numbers ---- */
static void put(rt_text *t, uint64_t x, size_t bytes) { rt_putn(t, (const char *)&x, bytes); }
static void put_name(rt_text *t, const char *s) { rt_putn(t, s, strlen(s) + 1); }

static void put_uleb(rt_text *t, uint64_t x)
{
	do put(t, (x & 0x7f) | (x > 0x7f) << 7, 1);
	while (x >>= 7);
}

static void put_sleb(rt_text *t, int64_t x)
{
	for (;;) {
		const unsigned low = (unsigned)x & 0x7f;
		x >>= 7; /* keeps the sign */
		const bool last = (x == 0 && !(low & 0x40)) || (x == -1 && low & 0x40);
		put(t, low | (last ? 0 : 0x80), 1);
		if (last) return;
	}
}

/* Writes the length of what follows a field of 4 bytes at `at`. */
static void set_length(rt_text *t, size_t at)
{
	const uint32_t n = (uint32_t)(t->n - at - 4);
	if (!t->oom) memcpy(t->s + at, &n, sizeof n);
}

/* ---- symbols ---- */
static void put_symbol(object *o, const char *name, unsigned info, uint16_t section, uint64_t value, uint64_t bytes)
{
	const Elf64_Sym s = { .st_name = (uint32_t)o->part[STRINGS].n, .st_info = (unsigned char)info, .st_shndx = section, .st_value = value,
		              .st_size = bytes };
	put_name(&o->part[STRINGS], name);
	rt_putn(&o->part[SYMBOLS], (const char *)&s, sizeof s);
}

static void put_symbols(object *o)
{
	const rt_debug *d = o->t->debug;
	put(&o->part[STRINGS], 0, 1);
	rt_putn(&o->part[SYMBOLS], (const char *)&(Elf64_Sym){ 0 }, sizeof(Elf64_Sym));
	for (uint32_t i = 0; i < d->npiece; i++)
		put_symbol(o, d->piece[i].name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), TEXT, d->piece[i].at, d->piece[i].bytes);
}

/* ---- DWARF 4 ---- */
enum { /* the names are DWARF's */
	TAG_compile_unit = 0x11, TAG_subprogram = 0x2e, AT_name = 0x03, AT_stmt_list = 0x10, AT_low_pc = 0x11, AT_high_pc = 0x12,
	AT_language = 0x13, AT_decl_file = 0x3a, AT_decl_line = 0x3b, AT_external = 0x3f, FORM_addr = 0x01, FORM_data2 = 0x05,
	FORM_data4 = 0x06, FORM_data8 = 0x07, FORM_string = 0x08, FORM_flag_present = 0x19, FORM_sec_offset = 0x17, LANG_C99 = 0x0c
};

static void put_abbreviations(rt_text *t)
{
	static const unsigned char unit[] = { 1, TAG_compile_unit, 1, AT_name, FORM_string, AT_language, FORM_data2, AT_stmt_list, FORM_sec_offset,
		                              AT_low_pc, FORM_addr, AT_high_pc, FORM_data8, 0, 0 };
	static const unsigned char function[] = { 2, TAG_subprogram, 0, AT_name, FORM_string, AT_external, FORM_flag_present, AT_decl_file,
		                                  FORM_data4, AT_decl_line, FORM_data4, AT_low_pc, FORM_addr, AT_high_pc, FORM_data8, 0, 0 };
	rt_putn(t, (const char *)unit, sizeof unit);
	rt_putn(t, (const char *)function, sizeof function);
	put(t, 0, 1);
}

static void put_function(rt_text *t, const rt_told *of, const rt_piece *p)
{
	const rt_debug *d = of->debug;
	uint32_t first, end;
	rt_debug_rows(d, p, &first, &end);
	while (first < end && !d->row[first].line) first++;
	put_uleb(t, 2);
	put_name(t, p->name);
	put(t, first < end ? d->row[first].file + 1 : 1, 4);
	put(t, first < end ? d->row[first].line : 0, 4);
	put(t, (uintptr_t)of->code + p->at, 8);
	put(t, p->bytes, 8);
}

static void put_info(rt_text *t, const rt_told *of)
{
	const rt_debug *d = of->debug;
	const rt_piece *last = &d->piece[d->npiece - 1];
	put(t, 0, 4);
	put(t, 4, 2); /* version */
	put(t, 0, 4); /* abbreviations */
	put(t, 8, 1); /* bytes of an address */
	put_uleb(t, 1);
	put_name(t, d->nfile ? d->file[0] : d->piece[0].name);
	put(t, LANG_C99, 2);
	put(t, 0, 4); /* lines */
	put(t, (uintptr_t)of->code, 8);
	put(t, last->at + last->bytes, 8);
	for (uint32_t i = 0; i < d->npiece; i++) put_function(t, of, &d->piece[i]);
	put(t, 0, 1);
	set_length(t, 0);
}

/* ---- lines ---- */
enum { LNS_copy = 1, LNS_advance_pc, LNS_advance_line, LNS_set_file, LNE_end_sequence = 1, LNE_set_address, OPCODE_BASE = 13 };

static void put_line_head(rt_text *t, const rt_debug *d)
{
	static const unsigned char operands[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 }; /* of the standard opcodes */
	put(t, 4, 2); /* version */
	const size_t length = t->n;
	put(t, 0, 4);
	put(t, 1, 1); /* least bytes of an instruction */
	put(t, 1, 1); /* operations in one */
	put(t, 1, 1); /* rows begin statements */
	put(t, (uint8_t)-5, 1), put(t, 14, 1); /* for special opcodes, which are not used */
	put(t, OPCODE_BASE, 1);
	rt_putn(t, (const char *)operands, sizeof operands);
	put(t, 0, 1); /* folders: none; files have their path */
	for (uint32_t i = 0; i < d->nfile; i++) {
		put_name(t, d->file[i]);
		put(t, 0, 3); /* folder, time, length */
	}
	put(t, 0, 1);
	set_length(t, length);
}

/* A piece is a sequence of its own. */
static void put_rows(rt_text *t, const rt_told *of, const rt_piece *p)
{
	const rt_debug *d = of->debug;
	uint32_t first, end, at = p->at, file = 0;
	int64_t line = 1;
	rt_debug_rows(d, p, &first, &end);
	if (first == end) return;
	put(t, 0, 1), put_uleb(t, 9), put(t, LNE_set_address, 1), put(t, (uintptr_t)of->code + p->at, 8);
	for (uint32_t i = first; i < end; i++) {
		const rt_line_row *r = &d->row[i];
		if (r->at != at) put(t, LNS_advance_pc, 1), put_uleb(t, r->at - at);
		if (r->file != file) put(t, LNS_set_file, 1), put_uleb(t, r->file + 1);
		if (r->line != line) put(t, LNS_advance_line, 1), put_sleb(t, (int64_t)r->line - line);
		put(t, LNS_copy, 1);
		at = r->at, file = r->file, line = r->line;
	}
	put(t, LNS_advance_pc, 1), put_uleb(t, p->at + p->bytes - at);
	put(t, 0, 1), put_uleb(t, 1), put(t, LNE_end_sequence, 1);
}

static void put_lines(rt_text *t, const rt_told *of)
{
	put(t, 0, 4);
	put_line_head(t, of->debug);
	for (uint32_t i = 0; i < of->debug->npiece; i++) put_rows(t, of, &of->debug->piece[i]);
	set_length(t, 0);
}

/* ---- the file ---- */
static void fill(object *o)
{
	put_symbols(o);
	rt_put_frames(&o->part[FRAMES], o->t->debug, (uintptr_t)o->t->code);
	put_abbreviations(&o->part[ABBREVIATIONS]);
	put_info(&o->part[INFO], o->t);
	if (o->t->debug->nrow) put_lines(&o->part[LINES], o->t);
	for (int i = 0; i < SECTIONS; i++) {
		Elf64_Shdr *s = &o->section[i];
		*s = (Elf64_Shdr){ .sh_name = (uint32_t)o->part[NAMES].n, .sh_type = i ? SHT_PROGBITS : SHT_NULL, .sh_addralign = i ? 1 : 0 };
		put_name(&o->part[NAMES], section_name[i]);
	}
	Elf64_Shdr *text = &o->section[TEXT], *symbols = &o->section[SYMBOLS];
	*text = (Elf64_Shdr){ .sh_name = text->sh_name, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		              .sh_addr = (uintptr_t)o->t->code, .sh_size = o->t->bytes, .sh_addralign = 16 };
	o->section[FRAMES].sh_flags = SHF_ALLOC;
	o->section[FRAMES].sh_addralign = 8;
	symbols->sh_type = SHT_SYMTAB, symbols->sh_link = STRINGS, symbols->sh_info = 1, symbols->sh_entsize = sizeof(Elf64_Sym);
	symbols->sh_addralign = 8;
	o->section[STRINGS].sh_type = o->section[NAMES].sh_type = SHT_STRTAB;
}

void *rt_debug_elf(const rt_told *t, size_t *bytes)
{
	object o = { .t = t };
	rt_text file = { 0 };
	Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE },
		         .e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_ehsize = sizeof h, .e_shentsize = sizeof(Elf64_Shdr),
		         .e_shnum = SECTIONS, .e_shstrndx = NAMES };
	fill(&o);
	rt_putn(&file, (const char *)&h, sizeof h);
	for (int i = 1; i < SECTIONS; i++) {
		put(&file, 0, -file.n & 7);
		o.section[i].sh_offset = file.n;
		if (i != TEXT) o.section[i].sh_size = o.part[i].n;
		rt_putn(&file, rt_str(&o.part[i]), o.part[i].n);
		file.oom |= o.part[i].oom;
		rt_text_free(&o.part[i]);
	}
	put(&file, 0, -file.n & 7);
	h.e_shoff = file.n;
	rt_putn(&file, (const char *)o.section, sizeof o.section);
	*bytes = file.n;
	if (file.oom) rt_text_free(&file);
	else memcpy(file.s, &h, sizeof h);
	return file.s;
}
