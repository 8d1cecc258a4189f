/* SPDX-License-Identifier: MIT */
/* cheader: the C header of an object file: functions with the model's own names and types, which call those of tjrt.h. */
#include "jit/object.h"

#include <ctype.h>

bool jit_is_c_name(const char *s)
{
	if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
	while (isalnum((unsigned char)*s) || *s == '_') s++;
	return !*s;
}

static const char *type_of(uint8_t dtype)
{
	static const char *const type[TJ_DTYPE_COUNT] = {
		[TJ_BOOL] = "bool", [TJ_U8] = "uint8_t", [TJ_I8] = "int8_t", [TJ_I16] = "int16_t", [TJ_I32] = "int32_t", [TJ_I64] = "int64_t",
		[TJ_F16] = "uint16_t", [TJ_BF16] = "uint16_t", [TJ_F32] = "float", [TJ_F64] = "double"
	};
	return type[dtype];
}

/* The names of variables may be anything: what C does not take becomes _. */
static void put_name(const char *s, rt_text *t)
{
	if (isdigit((unsigned char)*s) || !*s) rt_puts(t, "_");
	for (; *s; s++) rt_putn(t, isalnum((unsigned char)*s) ? s : "_", 1);
}

static void put_sizes(const jit_program *p, rt_text *t)
{
	for (uint32_t i = 0; i < p->symbol.n; i++) rt_putf(t, "int64_t %s, ", p->symbol.v[i].name);
}

static void put_size_array(const jit_program *p, rt_text *t)
{
	rt_puts(t, "	const int64_t sizes[] = { ");
	for (uint32_t i = 0; i < p->symbol.n; i++) rt_putf(t, "%s, ", p->symbol.v[i].name);
	rt_puts(t, "0 };\n");
}

static void put_comment(const jit_iface *x, rt_text *t)
{
	const jit_program *p = x->p;
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const gd_symbol *s = &p->symbol.v[i];
		rt_putf(t, " *   %s: %lld to %lld", s->name, (long long)jit_symbol_size(s, 0), (long long)jit_symbol_size(s, jit_symbol_count(s) - 1));
		if (s->mod > 1) rt_putf(t, ", in steps of %lld", (long long)s->mod);
		rt_puts(t, "\n");
	}
	for (uint32_t i = 0; i < p->arg.n; i++) rt_putf(t, " *   in%u: ", i), jit_put_parg(p, &p->arg.v[i], t), rt_puts(t, "\n");
	for (uint32_t i = 0; i < p->scalar.n; i++)
		if (p->scalar.v[i].kind == TJ_SCALAR_F) rt_putf(t, " *   scalar%u: a number\n", i);
	for (uint32_t i = 0; i < p->var.n; i++) {
		if (!p->var.v[i].cell) continue;
		rt_puts(t, " *   ");
		put_name(p->var.v[i].name, t);
		rt_puts(t, ": ");
		jit_put_pvar(&p->var.v[i], t);
		rt_puts(t, ", a state");
		if (x->assigned_of[i] != UINT32_MAX) rt_puts(t, "; its next value goes to "), put_name(p->var.v[i].name, t), rt_puts(t, "_next");
		rt_puts(t, "\n");
	}
	for (uint32_t i = 0; i < p->nout; i++)
		rt_putf(t, " *   out%u: %s, %d axes\n", i, tj_dtype_name((tj_dtype)x->result[i].dtype), x->result[i].rank);
}

static void put_parameters(const jit_iface *x, rt_text *t)
{
	const jit_program *p = x->p;
	put_sizes(p, t);
	for (uint32_t i = 0; i < p->arg.n; i++)
		if (p->arg.v[i].kind == GD_VALUE) rt_putf(t, "const %s *in%u, ", type_of(p->arg.v[i].dtype), i);
		else rt_putf(t, "%s in%u, ", p->arg.v[i].kind == GD_INT ? "int64_t" : "double", i);
	for (uint32_t i = 0; i < p->scalar.n; i++)
		if (p->scalar.v[i].kind == TJ_SCALAR_F) rt_putf(t, "double scalar%u, ", i);
	for (uint32_t i = 0; i < p->var.n; i++)
		if (p->var.v[i].cell) rt_putf(t, "const %s *", type_of(p->var.v[i].dtype)), put_name(p->var.v[i].name, t), rt_puts(t, ", ");
	for (uint32_t i = 0; i < p->nout; i++) rt_putf(t, "%s *out%u, ", type_of(x->result[i].dtype), i);
	for (uint32_t k = 0; k < p->var.n; k++) /* in the order in which they are assigned */
		for (uint32_t i = 0; i < p->var.n; i++)
			if (x->assigned_of[i] == k) rt_putf(t, "%s *", type_of(p->var.v[i].dtype)), put_name(p->var.v[i].name, t), rt_puts(t, "_next, ");
	rt_puts(t, "void *workspace");
}

static void put_arrays(const jit_iface *x, rt_text *t)
{
	const jit_program *p = x->p;
	uint32_t n = 0;
	rt_puts(t, "	const void *const in[] = { ");
	for (uint32_t i = 0; i < p->arg.n; i++)
		if (p->arg.v[i].kind == GD_VALUE) rt_putf(t, "in%u, ", i);
	for (uint32_t i = 0; i < p->var.n; i++)
		if (p->var.v[i].cell) put_name(p->var.v[i].name, t), rt_puts(t, ", ");
	rt_puts(t, "0 };\n	void *const out[] = { ");
	for (uint32_t i = 0; i < p->nout; i++) rt_putf(t, "out%u, ", i);
	for (uint32_t k = 0; k < p->var.n; k++)
		for (uint32_t i = 0; i < p->var.n; i++)
			if (x->assigned_of[i] == k) put_name(p->var.v[i].name, t), rt_puts(t, "_next, ");
	rt_puts(t, "0 };\n");
	for (uint32_t i = 0; i < p->arg.n; i++) n += p->arg.v[i].kind != GD_VALUE;
	rt_putf(t, "	uint64_t number[%u] = { 0 };\n", n + p->scalar.n + 1);
	n = 0;
	for (uint32_t i = 0; i < p->arg.n; i++)
		if (p->arg.v[i].kind != GD_VALUE) rt_putf(t, "	memcpy(&number[%u], &in%u, sizeof number[0]);\n", n++, i);
	for (uint32_t i = 0; i < p->scalar.n; i++)
		if (p->scalar.v[i].kind == TJ_SCALAR_F) rt_putf(t, "	memcpy(&number[%u], &scalar%u, sizeof number[0]);\n", n + i, i);
}

void jit_c_header(const jit_iface *x, rt_text *t)
{
	const char *n = x->name;
	rt_putf(t, "/* Made by tjit " TJ_VERSION " of the function %s. Link the object file and libtjrt.a (-ltjrt).\n *\n", x->p->name);
	put_comment(x, t);
	rt_puts(t, " *\n * All tensors are row-major. Results must not overlap anything else. Returns TJRT_OK, or what is wrong (tjrt.h). */\n");
	rt_putf(t, "#ifndef %s_MODEL_H\n#define %s_MODEL_H\n\n#include <stdbool.h>\n#include <string.h>\n#include <tjrt.h>\n\n", n, n);
	rt_puts(t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
	rt_putf(t, "extern const unsigned char %s_data[], %s_code[];\n#ifdef __cplusplus\n}\n#endif\n\n", n, n);
	rt_putf(t, "/* bytes of memory that a run needs for itself; 0: it is not possible at these sizes, or on this CPU */\nstatic inline size_t "
	           "%s_workspace_bytes(", n);
	for (uint32_t i = 0; i < x->p->symbol.n; i++) rt_putf(t, "%sint64_t %s", i ? ", " : "", x->p->symbol.v[i].name);
	rt_puts(t, x->p->symbol.n ? ")\n{\n" : "void)\n{\n");
	put_size_array(x->p, t);
	rt_putf(t, "	return tjrt_workspace_bytes(%s_data, sizes);\n}\n\nstatic inline int %s_run(", n, n);
	put_parameters(x, t);
	rt_puts(t, ")\n{\n");
	put_size_array(x->p, t);
	put_arrays(x, t);
	rt_putf(t, "	return tjrt_run(%s_data, %s_code, sizes, in, number, out, workspace);\n}\n\n#endif\n", n, n);
}
