/* SPDX-License-Identifier: MIT */
/* ktext: a kernel with its schedule as text and back.
 *
 *   kernel tj_f_k0
 *     size s0 784                                    a symbol, and its value here; s0 then stands for a size anywhere
 *     schedule cpu vec=r ns=0x1p+5 scratch=4160      the target, then fields of lo_schedule; defaults (block=1, part=0) are left out
 *     keep b1 scratch at=0                           where a kept buffer lies; `registers` have no at
 *     buf b0 f32 in aligned
 *     buf b1 f32 kept elems=1024
 *     dim 4096
 *     few rows                                       of a product
 *     red 1024
 *     fault 3 train.c:41                             status, then the site to the end of the line
 *     point
 *       %0 = const f32 0x1p-1
 *       %1 = num f64 2                                slot 2; `size f32 s0`: the bits are the value of s0
 *       %2 = index i64 d0
 *     loop
 *       %3 = load f32 b0 [0 + 1024*d0 + 1*r] + %2*64  the dynamic part: value * dyn_stride
 *       %4 = reduce f32 max row %3
 *       %5 = select f32 %0 %3 %4 mostly               the condition is nearly always true
 *       store b1 [0 + 1*r] %3
 *       part add row b2 [0 + 512*d0 + 1*r] %3         in a schedule with parts
 *       fault 0 %5                                    when %5 is true
 *
 * Stores and faults use up a % number, too: it is the instruction's index. */
#include "lower/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

static const char *const op_name[LO_OP_COUNT] = {
#define PRIM(name, ...) [LO_##name] = #name,
#include "ir/prims.def"
#undef PRIM
	[LO_CONST] = "const", [LO_NUM] = "num", [LO_SIZE] = "size", [LO_INDEX] = "index", [LO_LOAD] = "load",
	[LO_STORE] = "store", [LO_REDUCE] = "reduce", [LO_PART] = "part", [LO_FAULT] = "fault",
};
static const uint8_t prim_nsrc[LO_PRIMS] = {
#define PRIM(name, nsrc, ...) [LO_##name] = nsrc,
#include "ir/prims.def"
#undef PRIM
};
static const char *const red_name[] = { "add", "mul", "max", "min", "and", "or", "dot", "argmax", "argmin", "atmax", "atmin" };
static const char *const tree_name[] = { "row", "column", "none", "parts", "pairs", "chain", "fast" };
static const char *const role_name[] = { "in", "out", "kept", "panels", "words" };
static const char *const vec_name[] = { "d", "r", "none", "tile" };
static const char *const where_name[] = { "scratch", "registers", "shared" };

/* ---- printing ---- */
static void put_size(rt_text *t, int64_t size)
{
	if (lo_is_sym(size)) rt_putf(t, "s%lld", (long long)(size - LO_SYM(0)));
	else rt_putf(t, "%lld", (long long)size);
}

static void put_named(rt_text *t, const char *name, int64_t size)
{
	rt_puts(t, name);
	put_size(t, size);
}

static void put_index(const lo_kernel *k, const lo_ins *in, rt_text *t)
{
	const lo_index *x = &k->index.v[in->index];
	rt_putf(t, " b%u", in->buf);
	put_named(t, " [", x->offset);
	for (int i = 0; i < k->ndim; i++) {
		if (!x->coef[i]) continue;
		put_named(t, " + ", x->coef[i]);
		rt_putf(t, "*d%d", i);
	}
	if (x->rcoef) {
		put_named(t, " + ", x->rcoef);
		rt_puts(t, "*r");
		if (x->group) put_named(t, "/", x->group);
	}
	for (int i = 0; i < LO_JUMPS && x->jump[i].every; i++) {
		put_named(t, " + ", x->jump[i].by);
		rt_putf(t, "*(r/%lld)", (long long)x->jump[i].every);
	}
	rt_puts(t, "]");
	if (in->dyn == LO_NOREF) return;
	rt_putf(t, " + %%%u", in->dyn);
	put_named(t, "*", in->dyn_stride);
}

/* Floats in hex; a NaN other than the plain one as its bits. */
static void put_const(const lo_ins *in, rt_text *t)
{
	float f;
	double d;
	uint32_t bits = (uint32_t)in->imm;
	memcpy(&f, &bits, sizeof f);
	memcpy(&d, &in->imm, sizeof d);
	if (in->dtype == TJ_F32) d = (double)f;
	if (rt_is_narrow((tj_dtype)in->dtype)) d = (double)ir_load((tj_dtype)in->dtype, &in->imm).f;
	if (!rt_is_float((tj_dtype)in->dtype)) rt_putf(t, " %lld", (long long)in->imm);
	else if (d != d) rt_putf(t, " bits=%lld", (long long)in->imm);
	else {
		rt_puts(t, " ");
		rt_put_float(t, d);
	}
}

static void put_ins(const lo_kernel *k, uint32_t i, rt_text *t)
{
	const lo_ins *in = &k->ins.v[i];
	rt_puts(t, "    ");
	if (in->op == LO_STORE) rt_puts(t, "store");
	else if (in->op == LO_PART) rt_putf(t, "part %s %s", red_name[in->imm], tree_name[in->tree]);
	else if (in->op == LO_FAULT) rt_putf(t, "fault %lld", (long long)in->imm);
	else {
		rt_putf(t, "%%%u = ", i);
		for (const char *s = op_name[in->op]; *s; s++) rt_putf(t, "%c", tolower((unsigned char)*s));
		rt_putf(t, " %s", tj_dtype_name((tj_dtype)in->dtype));
	}
	if (in->op == LO_LOAD || in->op == LO_STORE || in->op == LO_PART) put_index(k, in, t);
	else if (in->op == LO_CONST) put_const(in, t);
	else if (in->op == LO_NUM) rt_putf(t, " %lld", (long long)in->imm);
	else if (in->op == LO_SIZE) rt_putf(t, " s%lld", (long long)in->imm);
	else if (in->op == LO_INDEX && in->imm == LO_R) rt_puts(t, " r");
	else if (in->op == LO_INDEX) rt_putf(t, " d%lld", (long long)in->imm);
	else if (in->op == LO_REDUCE) rt_putf(t, " %s %s", red_name[in->imm], tree_name[in->tree]);
	for (int s = 0; s < in->nsrc; s++) rt_putf(t, " %%%u", in->src[s]);
	if (in->op == LO_SELECT && in->imm) rt_puts(t, " mostly");
	rt_puts(t, "\n");
}

/* code: without what no code depends on: names, sites, estimates, values of symbols. */
static void put_schedule(const lo_schedule *s, bool code, rt_text *t)
{
	rt_putf(t, "  schedule %s vec=%s", s->target->name, vec_name[s->vec]);
	if (s->block != 1) put_named(t, " block=", s->block);
	if (s->rows) put_named(t, " rows=", s->rows);
	if (s->part) rt_putf(t, " part=%lld", (long long)s->part);
	if (s->grain != 1 && !code) rt_putf(t, " grain=%lld", (long long)s->grain);
	if (s->unit_ns != 0 && !code) {
		rt_puts(t, " ns=");
		rt_put_float(t, s->unit_ns);
	}
	if (s->scratch) rt_putf(t, " scratch=%zu", s->scratch);
	if (s->shared) rt_putf(t, " shared=%zu", s->shared);
	rt_puts(t, "\n");
	for (uint32_t i = 0; i < s->kept.n; i++) {
		const lo_kept *x = &s->kept.v[i];
		rt_putf(t, "  keep b%u %s", x->buf, where_name[x->where]);
		if (x->where != LO_REGISTERS) put_named(t, " at=", x->offset);
		rt_puts(t, "\n");
	}
}

static void put_sizes(const lo_kernel *k, const lo_schedule *s, bool code, rt_text *t)
{
	if (code) rt_putf(t, "  sizes %u amount %u\n", k->size.n, lo_amount(k, s));
	for (uint32_t i = 0; i < k->size.n && !code; i++) rt_putf(t, "  size s%u %lld\n", i, (long long)k->size.v[i]);
}

static void put_head(const lo_kernel *k, const lo_schedule *s, bool code, rt_text *t)
{
	rt_putf(t, "kernel %s\n", code ? "" : k->name);
	put_sizes(k, s, code, t);
	put_schedule(s, code, t);
	for (uint32_t i = 0; i < k->buf.n; i++) {
		const lo_buf *b = &k->buf.v[i];
		rt_putf(t, "  buf b%u %s %s", i, tj_dtype_name((tj_dtype)b->dtype), role_name[b->role]);
		if (b->role >= LO_KEPT) put_named(t, " elems=", b->elems);
		rt_puts(t, b->aligned ? " aligned\n" : "\n");
	}
	for (int i = 0; i < k->ndim; i++) {
		put_named(t, "  dim ", k->dim[i]);
		rt_puts(t, "\n");
	}
	if (k->few) rt_puts(t, "  few rows\n");
	if (k->reduces) {
		put_named(t, "  red ", k->red);
		rt_puts(t, "\n");
	}
	for (uint32_t i = 0; i < k->fault_site.n; i++)
		if (k->fault_site.v[i] && !code) rt_putf(t, "  fault %d %s\n", k->fault_code.v[i], k->fault_site.v[i]);
		else rt_putf(t, "  fault %d\n", k->fault_code.v[i]);
}

static void put_all(const lo_kernel *k, const lo_schedule *s, bool code, rt_text *t)
{
	put_head(k, s, code, t);
	for (uint32_t n = 0; n < k->section.n; n++) {
		const lo_section *sec = &k->section.v[n];
		rt_puts(t, sec->loop ? "  loop\n" : "  point\n");
		for (uint32_t i = 0; i < sec->count; i++) put_ins(k, sec->first + i, t);
	}
}

void lo_print(const lo_kernel *k, const lo_schedule *s, rt_text *t) { put_all(k, s, false, t); }
void lo_print_code(const lo_kernel *k, const lo_schedule *s, rt_text *t) { put_all(k, s, true, t); }

void lo_dump(const lo_kernel *k, const lo_schedule *s)
{
	rt_text t = { 0 };
	lo_print(k, s, &t);
	fputs(rt_str(&t), stderr);
	rt_text_free(&t);
}

/* ---- parsing ---- */
typedef struct parser {
	const char *at;
	int line;
	lo_kernel *k;
	lo_schedule *s;
	rt_arena *names;
	rt_err *err;
} parser;

static bool fail(parser *p, const char *what)
{
	rt_fail(p->err, TJ_ERR_PARSE, "kernel", "line %d: %s near `%.20s`", p->line, what, p->at);
	return false;
}
static bool nomem(parser *p) { return rt_fail(p->err, TJ_ERR_NOMEM, "kernel", "out of memory"), false; }

static void blanks(parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') p->at++;
}

/* If s comes next, skips it and the blanks around it. */
static bool accept(parser *p, const char *s)
{
	size_t n = strlen(s);
	blanks(p);
	if (strncmp(p->at, s, n) != 0 ||
		(n > 1 && isalpha((unsigned char)s[n - 1]) && isalnum((unsigned char)p->at[n])))
		return false;
	p->at += n;
	blanks(p);
	return true;
}
static bool expect(parser *p, const char *s) { return accept(p, s) || fail(p, s); }

static bool integer(parser *p, int64_t *v)
{
	char *end;
	errno = 0;
	blanks(p);
	*v = strtoll(p->at, &end, 10);
	if (end == p->at || errno) return fail(p, "a number is missing");
	p->at = end;
	return true;
}

static bool symbol(parser *p, int64_t *i)
{
	return expect(p, "s") && integer(p, i) && (*i >= 0 && *i < UINT16_MAX ? true : fail(p, "no such size"));
}

/* A literal or a symbol. */
static bool size(parser *p, int64_t *v)
{
	blanks(p);
	if (*p->at != 's') return integer(p, v);
	if (!symbol(p, v)) return false;
	*v = LO_SYM(*v);
	return true;
}

static bool ref(parser *p, uint32_t *r)
{
	int64_t v;
	if (!expect(p, "%") || !integer(p, &v)) return false;
	if (v < 0 || v >= p->k->ins.n) return fail(p, "a value from above is needed");
	*r = (uint32_t)v;
	return true;
}

/* Reads one of the words in list, ignoring case; *which: its index. */
static bool word(parser *p, const char *const *list, int n, int *which)
{
	size_t len = 0;
	blanks(p);
	while (isalnum((unsigned char)p->at[len]) || p->at[len] == '_') len++;
	for (int i = 0; i < n; i++) {
		if (strlen(list[i]) != len || strncasecmp(list[i], p->at, len) != 0) continue;
		*which = i;
		p->at += len;
		return true;
	}
	return fail(p, "unknown word");
}

static bool dtype(parser *p, uint8_t *t)
{
	size_t len = 0;
	blanks(p);
	while (isalnum((unsigned char)p->at[len])) len++;
	int d = rt_dtype_parse(p->at, len);
	if (d < 0) return fail(p, len ? "not a dtype" : "a dtype is missing");
	p->at += len;
	*t = (uint8_t)d;
	return true;
}

static bool end_line(parser *p)
{
	blanks(p);
	if (*p->at && *p->at != '\n') return fail(p, "end of line expected");
	while (*p->at == '\n') {
		p->at++;
		p->line++;
		const char *s = p->at;
		blanks(p);
		if (*p->at != '\n' && *p->at) { p->at = s; break; }
	}
	return true;
}

/* Text up to the end of the line or, for a word, to the next blank. */
static bool text(parser *p, bool line, const char **out)
{
	size_t n = 0;
	char *s;
	blanks(p);
	while (p->at[n] && p->at[n] != '\n' && (line || p->at[n] != ' ')) n++;
	if (!(s = rt_arena_alloc(p->names, n + 1))) return nomem(p);
	memcpy(s, p->at, n);
	p->at += n;
	*out = s;
	return true;
}

static bool real(parser *p, double *v)
{
	char *end;
	blanks(p);
	*v = rt_read_float(p->at, &end);
	if (end == p->at) return fail(p, "a number is missing");
	p->at = end;
	return true;
}

static bool parse_bytes(parser *p, const char *name, size_t *bytes)
{
	int64_t v = 0;
	if (accept(p, name) && !integer(p, &v)) return false;
	*bytes = (size_t)v;
	return v >= 0 || fail(p, "a number of bytes is negative");
}

static bool parse_keep(parser *p)
{
	int64_t buf;
	int where;
	lo_kept x = { 0 };
	if (!expect(p, "b") || !integer(p, &buf) || !word(p, where_name, RT_COUNT(where_name), &where)) return false;
	if (where != LO_REGISTERS && (!expect(p, "at=") || !size(p, &x.offset))) return false;
	if (buf < 0 || buf >= UINT32_MAX) return fail(p, "no such buffer");
	x.buf = (uint32_t)buf;
	x.where = (uint8_t)where;
	return (rt_push(&p->s->kept, x) || nomem(p)) && end_line(p);
}

static bool parse_schedule(parser *p)
{
	lo_schedule *s = p->s;
	const char *target;
	int vec;
	s->block = s->grain = 1;
	if (!expect(p, "schedule") || !text(p, false, &target)) return false;
	if (strcmp(target, s->target->name) != 0) return fail(p, "a schedule of another target");
	if (!expect(p, "vec=") || !word(p, vec_name, RT_COUNT(vec_name), &vec)) return false;
	s->vec = (uint8_t)vec;
	if (accept(p, "block=") && !size(p, &s->block)) return false;
	if (accept(p, "rows=") && !size(p, &s->rows)) return false;
	if (accept(p, "part=") && !integer(p, &s->part)) return false;
	if (accept(p, "grain=") && !integer(p, &s->grain)) return false;
	if (accept(p, "ns=") && !real(p, &s->unit_ns)) return false;
	if (!parse_bytes(p, "scratch=", &s->scratch) || !parse_bytes(p, "shared=", &s->shared) || !end_line(p)) return false;
	while (accept(p, "keep"))
		if (!parse_keep(p)) return false;
	return true;
}

static bool parse_buf(parser *p)
{
	int64_t n;
	int role;
	lo_buf b = { 0 };
	if (!expect(p, "b") || !integer(p, &n) || !dtype(p, &b.dtype) || !word(p, role_name, RT_COUNT(role_name), &role))
		return false;
	if (n != p->k->buf.n) return fail(p, "buffers out of order");
	b.role = (uint8_t)role;
	if (role >= LO_KEPT && (!expect(p, "elems=") || !size(p, &b.elems))) return false;
	b.aligned = accept(p, "aligned");
	return (rt_push(&p->k->buf, b) || nomem(p)) && end_line(p);
}

static bool parse_fault(parser *p)
{
	int64_t code;
	const char *site = NULL;
	if (!integer(p, &code)) return false;
	blanks(p);
	if (*p->at != '\n' && *p->at && !text(p, true, &site)) return false;
	if (!rt_push(&p->k->fault_code, (uint8_t)code) || !rt_push(&p->k->fault_site, site)) return nomem(p);
	return end_line(p);
}

static bool parse_index(parser *p, lo_ins *in)
{
	int64_t v, d;
	int jumps = 0;
	lo_index x = { 0 };
	if (!expect(p, "b") || !integer(p, &v) || !expect(p, "[") || !size(p, &x.offset)) return false;
	in->buf = (uint32_t)v;
	while (accept(p, "+")) {
		if (!size(p, &v) || !expect(p, "*")) return false;
		if (accept(p, "(r/")) {
			if (jumps == LO_JUMPS) return fail(p, "too many jumps");
			x.jump[jumps].by = v;
			if (!integer(p, &x.jump[jumps++].every) || !expect(p, ")")) return false;
		} else if (accept(p, "r")) {
			x.rcoef = v;
			if (accept(p, "/") && !integer(p, &x.group)) return false;
		} else {
			if (!expect(p, "d") || !integer(p, &d)) return false;
			if (d < 0 || d >= LO_MAXDIM) return fail(p, "no such dimension");
			x.coef[d] = v;
		}
	}
	if (!expect(p, "]")) return false;
	if (accept(p, "+") && (!ref(p, &in->dyn) || !expect(p, "*") || !size(p, &in->dyn_stride)))
		return false;
	in->index = p->k->index.n;
	return rt_push(&p->k->index, x) || nomem(p);
}

static bool parse_const(parser *p, lo_ins *in)
{
	double d;
	if (accept(p, "bits=") || !rt_is_float((tj_dtype)in->dtype)) return integer(p, &in->imm);
	if (!real(p, &d)) return false;
	float f = (float)d;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	memcpy(&in->imm, &d, sizeof d);
	if (in->dtype == TJ_F32) in->imm = bits;
	if (rt_is_narrow((tj_dtype)in->dtype)) {
		in->imm = 0;
		ir_store((tj_dtype)in->dtype, &in->imm, ir_cast_scalar((ir_scalar){ .d = d }, TJ_F64, (tj_dtype)in->dtype));
	}
	return true;
}

static bool parse_red(parser *p, lo_ins *in)
{
	int which;
	if (!word(p, red_name, RT_COUNT(red_name), &which)) return false;
	in->imm = which;
	if (!word(p, tree_name, RT_COUNT(tree_name), &which)) return false;
	in->tree = (uint8_t)which;
	return true;
}

static bool parse_detail(parser *p, lo_ins *in)
{
	switch (in->op) {
	case LO_CONST: return parse_const(p, in);
	case LO_NUM: return integer(p, &in->imm);
	case LO_SIZE: return symbol(p, &in->imm);
	case LO_INDEX:
		in->imm = LO_R;
		return accept(p, "r") || (expect(p, "d") && integer(p, &in->imm));
	case LO_LOAD: return parse_index(p, in);
	case LO_REDUCE:
		if (!parse_red(p, in)) return false;
		in->nsrc = in->imm == LO_RED_DOT ? 2 : 1;
		return true;
	default:
		in->nsrc = prim_nsrc[in->op];
		return true;
	}
}

static bool parse_ins(parser *p)
{
	int op;
	int64_t n;
	lo_ins in = { .dyn = LO_NOREF };
	bool part = accept(p, "part");
	if (part || accept(p, "store")) {
		in.op = part ? LO_PART : LO_STORE;
		in.nsrc = 1;
		if ((part && !parse_red(p, &in)) || !parse_index(p, &in)) return false;
		if (in.buf >= p->k->buf.n) return fail(p, "no such buffer");
		in.dtype = p->k->buf.v[in.buf].dtype;
	} else if (accept(p, "fault")) {
		in.op = LO_FAULT;
		in.dtype = TJ_BOOL;
		in.nsrc = 1;
		if (!integer(p, &in.imm)) return false;
	} else {
		if (!expect(p, "%") || !integer(p, &n) || !expect(p, "=") || !word(p, op_name, LO_OP_COUNT, &op) ||
			!dtype(p, &in.dtype))
			return false;
		if (n != p->k->ins.n) return fail(p, "values out of order");
		in.op = (uint8_t)op;
		if (!parse_detail(p, &in)) return false;
	}
	for (int s = 0; s < in.nsrc; s++)
		if (!ref(p, &in.src[s])) return false;
	if (in.op == LO_SELECT) in.imm = accept(p, "mostly");
	return (rt_push(&p->k->ins, in) || nomem(p)) && end_line(p);
}

static bool parse_section(parser *p, bool loop)
{
	lo_section s = { .loop = loop, .first = p->k->ins.n };
	if (!end_line(p)) return false;
	for (;;) {
		const char *back = p->at;
		bool more = *p->at && !accept(p, "loop") && !accept(p, "point") && !accept(p, "kernel");
		p->at = back;
		if (!more) break;
		if (!parse_ins(p)) return false;
	}
	s.count = p->k->ins.n - s.first;
	return rt_push(&p->k->section, s) || nomem(p);
}

/* The values of symbols; they come before any line that uses a symbol. */
static bool parse_size(parser *p)
{
	int64_t i, v;
	if (!expect(p, "s") || !integer(p, &i) || !integer(p, &v)) return false;
	if (i != p->k->size.n) return fail(p, "sizes out of order");
	return (rt_push(&p->k->size, v) || nomem(p)) && end_line(p);
}

static bool parse(parser *p)
{
	lo_kernel *k = p->k;
	if (!expect(p, "kernel") || !text(p, false, &k->name) || !end_line(p)) return false;
	while (accept(p, "size"))
		if (!parse_size(p)) return false;
	if (!parse_schedule(p)) return false;
	while (accept(p, "buf"))
		if (!parse_buf(p)) return false;
	while (accept(p, "dim")) {
		if (k->ndim == LO_MAXDIM) return fail(p, "too many dimensions");
		if (!size(p, &k->dim[k->ndim++]) || !end_line(p)) return false;
	}
	if ((k->few = accept(p, "few rows")) && !end_line(p)) return false;
	if ((k->reduces = accept(p, "red")) && (!size(p, &k->red) || !end_line(p))) return false;
	while (accept(p, "fault"))
		if (!parse_fault(p)) return false;
	for (;;) {
		if (accept(p, "loop")) { if (!parse_section(p, true)) return false; }
		else if (accept(p, "point")) { if (!parse_section(p, false)) return false; }
		else break;
	}
	blanks(p);
	return !*p->at || fail(p, "end of text expected");
}

tj_status lo_parse(lo_kernel *k, lo_schedule *s, const lo_target *target, const char *src, rt_arena *names, rt_err *err)
{
	parser p = { .at = src, .line = 1, .k = k, .s = s, .names = names, .err = err };
	*k = (lo_kernel){ 0 };
	*s = (lo_schedule){ .target = target };
	while (*p.at == '\n' || *p.at == ' ') p.line += *p.at++ == '\n';
	if (parse(&p)) return TJ_OK;
	lo_kernel_free(k);
	lo_schedule_free(s);
	*k = (lo_kernel){ 0 };
	*s = (lo_schedule){ 0 };
	return err->code;
}
