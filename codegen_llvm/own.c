/* own: functions that kernels call, of their own. Their text does not depend on the kernel, so equal ones, in one plan or in several, are
 * compiled once (backend.c). The text of a kernel has their names; what is compiled has their addresses. */
#include "codegen_llvm/cg.h"

enum { HASH = 16 }; /* hexadecimal digits */

/* name: what follows the "@". */
static const cg_own *own_of(const cg_owns *owns, const char *name)
{
	for (uint32_t i = 0; i < owns->n; i++)
		if (!strncmp(owns->v[i].name.s, name, sizeof CG_OWN - 1 + HASH)) return &owns->v[i];
	return NULL;
}

void cg_begin_own(cg *c, rt_text *parameters)
{
	c->around = c->out;
	c->around_tmp = c->tmp;
	c->around_label = c->block_label;
	c->own = (rt_text){ 0 };
	c->out = &c->own;
	c->tmp = 0; /* names in the text do not depend on what the kernel has before */
	rt_putf(c->out, "(%s) #0 {\nentry:\n", rt_str(parameters));
	c->oom |= parameters->oom;
	rt_text_free(parameters);
	c->block_label = cg_fmt("entry");
}

static cg_str add(cg *c, const char *body, size_t n)
{
	cg_own o = { .name = cg_fmt(CG_OWN "%016llx", (unsigned long long)rt_hash(body, n, 0)) };
	if (own_of(c->owns, o.name.s)) return o.name;
	rt_putf(&o.text, "define void @%s%s", o.name.s, body);
	if (o.text.oom || !rt_push(c->owns, o)) {
		rt_text_free(&o.text);
		c->oom = true;
	}
	return o.name;
}

cg_str cg_end_own(cg *c)
{
	rt_puts(c->out, "  ret void\n}\n\n");
	const cg_str name = add(c, rt_str(&c->own), c->own.n);
	c->oom |= c->own.oom;
	rt_text_free(&c->own);
	c->out = c->around;
	c->tmp = c->around_tmp;
	c->block_label = c->around_label;
	return cg_fmt("@%s", name.s);
}

void cg_drop_owns(cg_owns *owns)
{
	for (uint32_t i = 0; i < owns->n; i++) {
		rt_text_free(&owns->v[i].text);
		if (owns->v[i].object) cg_drop(owns->v[i].object);
	}
	rt_vec_free(owns);
}

void cg_put_linked(rt_text *out, const char *text, const cg_owns *owns)
{
	for (const char *at; owns->n && (at = strstr(text, "@" CG_OWN)) != NULL; text = at + sizeof CG_OWN + HASH) {
		const cg_own *o = own_of(owns, at + 1);
		rt_putn(out, text, (size_t)(at - text));
		rt_putf(out, "inttoptr (i64 %llu to ptr)", (unsigned long long)(o ? (uintptr_t)o->fn : 0));
	}
	rt_puts(out, text);
}
