/* SPDX-License-Identifier: MIT */
/* own: functions that kernels call, of their own. Their text does not depend on the kernel, so equal ones, in one plan or in several, are
 * compiled once (backend.c). A kernel imports them by name, so it need not wait for them before it is linked. */
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
	rt_putf(c->out, "(%s) #%u {\nentry:\n", rt_str(parameters), lo_uses(c->k));
	cg_put_sites(c->k, false, c->out);
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

/* A definition begins "define void @name(parameters) #0 {"; the number says what it may use (parallel.c). */
void cg_put_declared(rt_text *out, const cg_owns *owns)
{
	static const char define[] = "define ", end[] = ") #";
	for (uint32_t i = 0; i < owns->n; i++) {
		const char *head = rt_str(&owns->v[i].text) + sizeof define - 1;
		rt_puts(out, "declare ");
		rt_putn(out, head, (size_t)(strstr(head, end) + 1 - head));
		rt_puts(out, "\n");
	}
	if (owns->n) rt_puts(out, "\n");
}
