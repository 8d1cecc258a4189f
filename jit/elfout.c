/* SPDX-License-Identifier: MIT */
/* elfout: writes an ELF object with a section of code and one of data, a symbol at the start of each, and no relocations. */
#include "jit/object.h"

#include <elf.h>

enum { TEXT = 1, DATA, STACK, SYMBOLS, STRINGS, NAMES, SECTIONS, ALIGN = 64 };
static const char names[] = "\0.text\0.rodata\0.note.GNU-stack\0.symtab\0.strtab\0.shstrtab";
enum { TEXT_NAME = 1, DATA_NAME = 7, STACK_NAME = 15, SYMBOLS_NAME = 31, STRINGS_NAME = 39, NAMES_NAME = 47 };

static size_t rounded(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static size_t put(unsigned char *file, size_t *at, const void *bytes, size_t n)
{
	const size_t here = *at;
	if (n) memcpy(file + here, bytes, n);
	*at = rounded(here + n);
	return here;
}

unsigned char *jit_elf_write(const char *name, rt_span code, rt_span data, size_t *n)
{
	rt_text strings = { 0 };
	rt_putn(&strings, "", 1);
	rt_putf(&strings, "%s_code", name);
	rt_putn(&strings, "", 1);
	const size_t second = strings.n;
	rt_putf(&strings, "%s_data", name);
	rt_putn(&strings, "", 1);
	const Elf64_Sym symbol[3] = {
		{ 0 },
		{ .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = TEXT, .st_size = code.bytes },
		{ .st_name = (Elf64_Word)second, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = DATA, .st_size = data.bytes },
	};
	size_t at = rounded(sizeof(Elf64_Ehdr));
	*n = at + rounded(code.bytes) + rounded(data.bytes) + rounded(sizeof symbol) + rounded(strings.n) + rounded(sizeof names) +
	     SECTIONS * sizeof(Elf64_Shdr);
	unsigned char *file = strings.oom ? NULL : rt_calloc(*n);
	if (file) {
		const size_t c = put(file, &at, code.at, code.bytes), d = put(file, &at, data.at, data.bytes), y = put(file, &at, symbol, sizeof symbol),
			     s = put(file, &at, strings.s, strings.n), m = put(file, &at, names, sizeof names);
		const Elf64_Shdr section[SECTIONS] = {
			[TEXT] = { TEXT_NAME, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, c, code.bytes, 0, 0, ALIGN, 0 },
			[DATA] = { DATA_NAME, SHT_PROGBITS, SHF_ALLOC, 0, d, data.bytes, 0, 0, ALIGN, 0 },
			[STACK] = { STACK_NAME, SHT_PROGBITS, 0, 0, at, 0, 0, 0, 1, 0 },
			[SYMBOLS] = { SYMBOLS_NAME, SHT_SYMTAB, 0, 0, y, sizeof symbol, STRINGS, 1, 8, sizeof *symbol },
			[STRINGS] = { STRINGS_NAME, SHT_STRTAB, 0, 0, s, strings.n, 0, 0, 1, 0 },
			[NAMES] = { NAMES_NAME, SHT_STRTAB, 0, 0, m, sizeof names, 0, 0, 1, 0 },
		};
		const Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			                  .e_type = ET_REL,
			                  .e_machine = EM_X86_64,
			                  .e_version = EV_CURRENT,
			                  .e_shoff = at,
			                  .e_ehsize = sizeof head,
			                  .e_shentsize = sizeof *section,
			                  .e_shnum = SECTIONS,
			                  .e_shstrndx = NAMES };
		memcpy(file, &head, sizeof head);
		memcpy(file + at, section, sizeof section);
	}
	rt_text_free(&strings);
	return file;
}
