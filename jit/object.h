/* SPDX-License-Identifier: MIT */
/* object: an exported function as an object file; private to object.c, cheader.c and elfout.c. */
#ifndef TJ_JIT_OBJECT_H
#define TJ_JIT_OBJECT_H

#include "jit/program.h"

/* cheader.c: the header of the object, for C11 and C++17 */
typedef struct jit_iface {  /* what the functions of the header take */
	const char *name;       /* prefix of all names */
	const jit_program *p;
	const uint32_t *assigned_of; /* by variable: its number among the assigned ones; UINT32_MAX: it is not assigned */
	const ir_meta *result;  /* types at the least sizes, p->nout of them; sizes vary */
} jit_iface;
void jit_c_header(const jit_iface *x, rt_text *t);
bool jit_is_c_name(const char *s);

/* elfout.c: an object file with the symbols NAME_code and NAME_data; NULL: out of memory */
unsigned char *jit_elf_write(const char *name, rt_span code, rt_span data, size_t *n);

#endif
