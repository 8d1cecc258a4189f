/* SPDX-License-Identifier: MIT */
/* cut: takes a function out of an ELF object, with the constants that it reads and the functions of its own that it calls, as one blob
 * whose addresses are all relative.
 *
 *   .text       k0 | k1 | k2                 code of k1, at the same place in a line
 *   .rodata.cst64   of k0 | of k1 | of k2    =>    the functions that k1 calls (blobs)
 *   .rodata.cst4    of k0 | of k1                  of each section, the constants of k1
 *
 * LLVM writes the constants of a function next to each other, so a range of each section is enough. */
#include "codegen_llvm/cg.h"

#include <elf.h>

enum { RANGES = 24 }; /* sections with constants */

typedef struct range { /* of a section: what the function reads, and where it is in the blob */
	uint32_t section;
	uint64_t from, to, at;
} range;

typedef struct cut {
	const unsigned char *base;
	size_t bytes;
	const Elf64_Shdr *section;
	uint32_t nsection;
	const Elf64_Sym *symbol;
	uint32_t nsymbol;
	const char *names;
	size_t names_bytes;
	const cg_owns *owns;
	const Elf64_Sym *function;
	range range[RANGES];
	int nrange;
	uint64_t *own_at;    /* by function of owns: where it is in the blob; 0: it is not called */
	uint64_t end;        /* of the blob */
} cut;

/* ---- the object ---- */
static bool inside(const cut *c, uint64_t offset, uint64_t bytes) { return offset <= c->bytes && bytes <= c->bytes - offset; }

static bool read_symbols(cut *c)
{
	for (uint32_t i = 0; i < c->nsection; i++) {
		const Elf64_Shdr *s = &c->section[i];
		if (s->sh_type != SHT_SYMTAB) continue;
		if (s->sh_link >= c->nsection || !inside(c, s->sh_offset, s->sh_size)) return false;
		const Elf64_Shdr *names = &c->section[s->sh_link];
		if (!inside(c, names->sh_offset, names->sh_size) || !names->sh_size || c->base[names->sh_offset + names->sh_size - 1]) return false;
		c->symbol = (const void *)(c->base + s->sh_offset);
		c->nsymbol = (uint32_t)(s->sh_size / sizeof *c->symbol);
		c->names = (const char *)c->base + names->sh_offset;
		c->names_bytes = names->sh_size;
		return true;
	}
	return false;
}

static bool open_object(cut *c)
{
	const Elf64_Ehdr *h = (const void *)c->base;
	if (c->bytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_shentsize != sizeof(Elf64_Shdr)) return false;
	if (!inside(c, h->e_shoff, (uint64_t)h->e_shnum * sizeof *c->section)) return false;
	c->section = (const void *)(c->base + h->e_shoff);
	c->nsection = h->e_shnum;
	return read_symbols(c);
}

static const char *name_of(const cut *c, const Elf64_Sym *s) { return s->st_name < c->names_bytes ? c->names + s->st_name : ""; }

static bool find_function(cut *c, const char *name)
{
	for (uint32_t i = 1; i < c->nsymbol; i++) {
		const Elf64_Sym *s = &c->symbol[i];
		if (s->st_shndx == SHN_UNDEF || s->st_shndx >= c->nsection || strcmp(name_of(c, s), name) != 0) continue;
		const Elf64_Shdr *text = &c->section[s->st_shndx];
		c->function = s;
		return inside(c, text->sh_offset, text->sh_size) && s->st_size && s->st_value <= text->sh_size &&
		       s->st_size <= text->sh_size - s->st_value;
	}
	return false;
}

/* ---- relocations ---- */
/* Of the function's code, from *i on; NULL: no more. */
static const Elf64_Rela *next_relocation(const cut *c, uint32_t *section, uint64_t *i)
{
	for (; *section < c->nsection; ++*section, *i = 0) {
		const Elf64_Shdr *s = &c->section[*section];
		if (s->sh_type != SHT_RELA || s->sh_info != c->function->st_shndx || !inside(c, s->sh_offset, s->sh_size)) continue;
		const Elf64_Rela *r = (const void *)(c->base + s->sh_offset);
		for (const uint64_t n = s->sh_size / sizeof *r; *i < n; ++*i)
			if (r[*i].r_offset - c->function->st_value < c->function->st_size) return &r[(*i)++];
	}
	return NULL;
}

static int own_of(const cut *c, const Elf64_Sym *s)
{
	for (uint32_t i = 0; i < c->owns->n; i++)
		if (!strcmp(c->owns->v[i].name.s, name_of(c, s))) return (int)i;
	return -1;
}

static const Elf64_Sym *symbol_of(const cut *c, const Elf64_Rela *r)
{
	const uint64_t i = ELF64_R_SYM(r->r_info);
	return i < c->nsymbol ? &c->symbol[i] : NULL;
}

static range *range_of(cut *c, uint32_t section)
{
	for (int i = 0; i < c->nrange; i++)
		if (c->range[i].section == section) return &c->range[i];
	return NULL;
}

/* The addend counts from the end of the instruction: 4 bytes of the field, and up to 4 more. */
static bool widen(cut *c, const Elf64_Sym *s, int64_t addend)
{
	const Elf64_Shdr *of = &c->section[s->st_shndx];
	const uint64_t unit = of->sh_flags & SHF_MERGE && of->sh_entsize ? of->sh_entsize : of->sh_size, last = s->st_value + (uint64_t)addend + 8,
		       first = last < 4 ? 0 : last - 4;
	if (!(of->sh_flags & SHF_ALLOC) || of->sh_flags & (SHF_WRITE | SHF_EXECINSTR) || of->sh_type != SHT_PROGBITS) return false;
	if (!inside(c, of->sh_offset, of->sh_size) || first >= of->sh_size) return false;
	uint64_t from = first / unit * unit, to = (last / unit + 1) * unit;
	if (to > of->sh_size) to = of->sh_size;
	range *x = range_of(c, s->st_shndx);
	if (!x && c->nrange == RANGES) return false;
	if (!x) *(x = &c->range[c->nrange++]) = (range){ .section = s->st_shndx, .from = from, .to = to };
	if (from < x->from) x->from = from;
	if (to > x->to) x->to = to;
	return true;
}

/* Sections that constants are read from must have no relocations of their own. */
static bool relocated(const cut *c, uint32_t section)
{
	for (uint32_t i = 0; i < c->nsection; i++)
		if (c->section[i].sh_type == SHT_RELA && c->section[i].sh_info == section && c->section[i].sh_size) return true;
	return false;
}

/* Finds all that the code refers to. */
static const char *survey(cut *c)
{
	uint32_t section = 0;
	uint64_t i = 0;
	for (const Elf64_Rela *r; (r = next_relocation(c, &section, &i));) {
		const Elf64_Sym *s = symbol_of(c, r);
		const uint64_t type = ELF64_R_TYPE(r->r_info);
		if (!s || (type != R_X86_64_PC32 && type != R_X86_64_PLT32)) return "a relocation of an unknown kind";
		if (r->r_offset - c->function->st_value > c->function->st_size - 4) return "a relocation beyond its function";
		const int own = s->st_shndx == SHN_UNDEF ? own_of(c, s) : -1;
		if (own >= 0) c->own_at[own] = 1;
		else if (s->st_shndx == SHN_UNDEF || s->st_shndx >= c->nsection) return name_of(c, s);
		else if (!widen(c, s, r->r_addend) || relocated(c, s->st_shndx)) return "data that is no constant";
	}
	return NULL;
}

/* ---- the blob ---- */
static uint64_t rounded(uint64_t n, uint64_t align) { return align > 1 ? (n + align - 1) / align * align : n; }

/* False: a section wants more alignment than a blob has. */
static bool lay_out(cut *c, uint64_t entry)
{
	c->end = entry + c->function->st_size;
	for (uint32_t i = 0; i < c->owns->n; i++) {
		if (!c->own_at[i]) continue;
		c->own_at[i] = c->end = rounded(c->end, RT_BLOB_ALIGN);
		c->end += c->owns->v[i].blob.bytes;
	}
	for (int i = 0; i < c->nrange; i++) {
		const uint64_t align = c->section[c->range[i].section].sh_addralign;
		if (align > RT_BLOB_ALIGN) return false;
		c->end = rounded(c->end, RT_BLOB_ALIGN) + c->range[i].from % RT_BLOB_ALIGN;
		c->range[i].at = c->end;
		c->end += c->range[i].to - c->range[i].from;
	}
	return true;
}

static void fill(const cut *c, unsigned char *to, uint64_t entry)
{
	const Elf64_Shdr *text = &c->section[c->function->st_shndx];
	memcpy(to + entry, c->base + text->sh_offset + c->function->st_value, c->function->st_size);
	for (uint32_t i = 0; i < c->owns->n; i++)
		if (c->own_at[i]) memcpy(to + c->own_at[i], c->owns->v[i].blob.code, c->owns->v[i].blob.bytes);
	for (int i = 0; i < c->nrange; i++) {
		const range *x = &c->range[i];
		memcpy(to + x->at, c->base + c->section[x->section].sh_offset + x->from, x->to - x->from);
	}
}

static void relocate(cut *c, unsigned char *to, uint64_t entry)
{
	uint32_t section = 0;
	uint64_t i = 0;
	for (const Elf64_Rela *r; (r = next_relocation(c, &section, &i));) {
		const Elf64_Sym *s = symbol_of(c, r);
		const uint64_t field = entry + r->r_offset - c->function->st_value;
		const int own = s->st_shndx == SHN_UNDEF ? own_of(c, s) : -1;
		const range *x = own < 0 ? range_of(c, s->st_shndx) : NULL;
		const uint64_t target = x ? x->at + s->st_value - x->from : c->own_at[own] + c->owns->v[own].blob.entry;
		const uint32_t value = (uint32_t)(target + (uint64_t)r->r_addend - field);
		memcpy(to + field, &value, sizeof value);
	}
}

static tj_status cut_out(cut *c, const char *name, rt_blob *blob, rt_err *err)
{
	const char *what = !open_object(c) ? "not an object that we can read" : !find_function(c, name) ? "no such function" : survey(c);
	if (what) return rt_fail(err, TJ_ERR_COMPILE, "link", "%s: %s", name, what);
	const uint64_t entry = c->function->st_value % RT_BLOB_ALIGN; /* loops stay where they begin in a line */
	if (!lay_out(c, entry)) return rt_fail(err, TJ_ERR_COMPILE, "link", "%s: alignment", name);
	unsigned char *to = rt_calloc(c->end);
	if (!to) return rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
	fill(c, to, entry);
	relocate(c, to, entry);
	*blob = (rt_blob){ .code = to, .bytes = c->end, .entry = (uint32_t)entry };
	return TJ_OK;
}

tj_status cg_cut(const void *object, size_t bytes, const char *name, const cg_owns *owns, rt_blob *blob, uint64_t *own_at, rt_err *err)
{
	cut c = { .base = object, .bytes = bytes, .owns = owns, .own_at = own_at };
	for (uint32_t i = 0; i < owns->n; i++) own_at[i] = 0;
	return cut_out(&c, name, blob, err);
}
