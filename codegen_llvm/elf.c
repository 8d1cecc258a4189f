/* SPDX-License-Identifier: MIT */
/* elf: finds symbols that an object imports. A kernel may import only functions of its own (own.c). */
#include "codegen_llvm/cg.h"

#include <elf.h>

static bool has_own(const cg_owns *owns, const char *name)
{
	for (uint32_t i = 0; i < owns->n; i++)
		if (!strcmp(owns->v[i].name.s, name)) return true;
	return false;
}

static const char *undefined(const unsigned char *base, size_t bytes, const Elf64_Shdr *table,
							 const Elf64_Shdr *names, const cg_owns *owns)
{
	size_t n = table->sh_size / sizeof(Elf64_Sym);
	if (table->sh_offset > bytes || table->sh_size > bytes - table->sh_offset) return "?";
	if (names->sh_offset > bytes || names->sh_size > bytes - names->sh_offset) return "?";
	for (size_t i = 1; i < n; i++) {
		Elf64_Sym sym;
		memcpy(&sym, base + table->sh_offset + i * sizeof sym, sizeof sym);
		if (sym.st_shndx != SHN_UNDEF) continue;
		const char *name = sym.st_name < names->sh_size ? (const char *)base + names->sh_offset + sym.st_name : "?";
		if (!has_own(owns, name)) return name;
	}
	return NULL;
}

const char *cg_imports(const void *object, size_t bytes, const cg_owns *owns)
{
	const unsigned char *base = object;
	Elf64_Ehdr h;
	if (bytes < sizeof h) return "?";
	memcpy(&h, base, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
		h.e_shentsize != sizeof(Elf64_Shdr))
		return "?";
	if (h.e_shoff > bytes || (size_t)h.e_shnum * sizeof(Elf64_Shdr) > bytes - h.e_shoff) return "?";
	for (size_t i = 0; i < h.e_shnum; i++) {
		Elf64_Shdr s, names;
		memcpy(&s, base + h.e_shoff + i * sizeof s, sizeof s);
		if (s.sh_type != SHT_SYMTAB || s.sh_link >= h.e_shnum) continue;
		memcpy(&names, base + h.e_shoff + s.sh_link * sizeof names, sizeof names);
		return undefined(base, bytes, &s, &names, owns);
	}
	return "?";
}
