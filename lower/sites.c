/* SPDX-License-Identifier: MIT */
/* sites: which op and which line of C each instruction of a kernel comes from, for debuggers and profilers. Only noted if one is told of
 * code (runtime/tools.h): then kernels share code only if their lines are the same, too. */
#include "lower/symbol.h"

static bool same(const lo_site *a, const char *op, const char *at)
{
	return a->op == op && (a->at == at || (a->at && at && !strcmp(a->at, at)));
}

/* As lo_ins.site; 0: out of memory. */
static uint32_t find(lo_kernel *k, const char *op, const char *at)
{
	for (uint32_t i = k->site.n; i-- > 0;)
		if (same(&k->site.v[i], op, at)) return i + 1;
	return rt_push(&k->site, ((lo_site){ op, at })) ? k->site.n : 0;
}

void lo_note_site(lo_kernel *k, uint32_t from, const ir_node *n, bool *oom)
{
	uint32_t site = 0;
	if (n->op == IR_input || n->op == IR_const || n->op == IR_num) return; /* read where the op is that computes with it */
	for (uint32_t i = from; i < k->ins.n; i++) {
		if (k->ins.v[i].site) continue;
		if (!site && !(site = find(k, ir_ops[n->op].name, n->site))) *oom = true;
		k->ins.v[i].site = site;
	}
}

bool lo_copy_sites(lo_kernel *to, const lo_kernel *from)
{
	for (uint32_t i = 0; i < from->site.n; i++)
		if (!rt_push(&to->site, from->site.v[i])) return false;
	return true;
}

uint32_t lo_main_site(const lo_kernel *k)
{
	uint32_t first = 0;
	for (uint32_t i = 0; k->site.n && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op == LO_REDUCE && in->imm == LO_RED_DOT) return in->site;
		if (!first && in->op != LO_CONST && in->op != LO_NUM && in->op != LO_SIZE) first = in->site;
	}
	return first;
}

/* Each op once, up to MOST of them. */
void lo_put_ops(const lo_kernel *k, rt_text *t)
{
	enum { MOST = 8 };
	int n = 0;
	for (uint32_t i = 0; i < k->site.n; i++) {
		bool met = false;
		for (uint32_t j = 0; j < i; j++) met |= k->site.v[j].op == k->site.v[i].op;
		if (met) continue;
		if (n++ == MOST) {
			rt_puts(t, "+..");
			return;
		}
		rt_putf(t, "%s%s", n > 1 ? "+" : "", k->site.v[i].op);
	}
}

void lo_put_sites(const lo_kernel *k, rt_text *t)
{
	if (!k->site.n) return;
	rt_putf(t, "  of %s\n", k->name);
	for (uint32_t i = 0; i < k->site.n; i++) rt_putf(t, "  site %s %s\n", k->site.v[i].op, k->site.v[i].at ? k->site.v[i].at : "?");
	for (uint32_t i = 0; i < k->ins.n; i++) rt_putf(t, " %u", k->ins.v[i].site);
	rt_puts(t, "\n");
}

bool lo_site_words(const lo_kernel *k, lo_words *w)
{
	if (!k->site.n) return true;
	uint64_t hash = 0;
	for (uint32_t i = 0; i < k->site.n; i++) {
		const char *op = k->site.v[i].op, *at = k->site.v[i].at ? k->site.v[i].at : "?";
		hash = rt_hash(at, strlen(at), rt_hash(op, strlen(op), hash));
	}
	bool ok = rt_push(w, hash);
	for (uint32_t i = 0; ok && i < k->ins.n; i++) ok = rt_push(w, k->ins.v[i].site);
	return ok;
}
