/* SPDX-License-Identifier: MIT */
/* ptext: a program as text and back; program.h has an example. The text comes from a file, so it is not trusted: what it names must exist,
 * and each event has as many operands and attributes as its op takes. What sizes and dtypes fit is checked when the events are asked for,
 * as with a body in C. */
#include "jit/handle.h"
#include "jit/program.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { VERSION = 1, MINOR = 1 }; /* 1.0 has no results */

static const char *const number_name[] = {
	[JIT_PN_INT] = "int", [JIT_PN_FLOAT] = "float", [JIT_PN_SIZE] = "size", [JIT_PN_REAL] = "real", [JIT_PN_INVERSE] = "inverse",
	[JIT_PN_INVERSE32] = "inverse32", [JIT_PN_ROOT] = "root", [JIT_PN_INVERSE_ROOT] = "inverse_root", [JIT_PN_ARG] = "argument",
	[JIT_PN_SCALAR] = "scalar", [JIT_PN_COMPUTED] = "op"
};

/* ---- printing ---- */
static void put_operand(const jit_poperand *o, rt_text *t)
{
	static const char mark[] = { [JIT_P_VALUE] = ' ', [JIT_P_ARG] = 'a', [JIT_P_VAR] = 'v', [JIT_P_NUMBER] = 'n' };
	if (o->kind == JIT_P_VALUE) rt_putf(t, " %u", o->index);
	else rt_putf(t, " %c%u", mark[o->kind], o->index);
}

static void put_number(const jit_program *p, uint32_t i, rt_text *t)
{
	const jit_pnumber *n = &p->number.v[i];
	double d;
	rt_putf(t, "number %u %s ", i, number_name[n->kind]);
	memcpy(&d, &n->bits, sizeof d);
	switch (n->kind) {
	case JIT_PN_INT: rt_putf(t, "%lld", (long long)n->bits); break;
	case JIT_PN_FLOAT: rt_putf(t, "%llx ", (unsigned long long)n->bits), rt_put_float(t, d); break;
	case JIT_PN_ARG: case JIT_PN_SCALAR: rt_putf(t, "%u", n->index); break;
	case JIT_PN_COMPUTED:
		rt_puts(t, jit_event_name(n->op));
		for (int k = 0; k < n->nsrc; k++) rt_putf(t, " %u", n->src[k]);
		break;
	default: jit_put_psize(p, &n->size, t);
	}
	rt_puts(t, "\n");
}

static void put_step(const jit_program *p, uint32_t i, rt_text *t)
{
	const jit_pstep *s = &p->step.v[i];
	rt_putf(t, "%u %s", i, jit_event_name(s->op));
	for (int k = 0; k < s->nsrc; k++) put_operand(&s->src[k], t);
	rt_puts(t, " :");
	for (int k = 0; k < s->nattr; k++) rt_puts(t, " "), jit_put_psize(p, &s->attr[k], t);
	rt_putf(t, " / %u %s\n", s->mode, s->site ? s->site : "?");
}

static void put_var(const jit_program *p, uint32_t i, rt_text *t)
{
	const jit_pvar *v = &p->var.v[i];
	rt_putf(t, "variable %u %s ", i, v->cell ? "cell" : "weight");
	jit_put_pvar(v, t);
	rt_putf(t, " at %zu %s\n", v->at, v->name ? v->name : "?");
}

void jit_program_print(const jit_program *p, rt_text *t)
{
	rt_putf(t, "program %d.%d\nfunction outputs %u int_div_zero %u %s\n", VERSION, MINOR, p->nout, p->int_div_zero, p->name);
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const gd_symbol *s = &p->symbol.v[i];
		rt_putf(t, "symbol %s least %lld most %lld mod %lld rest %lld\n", s->name, (long long)s->least, (long long)s->most,
		        (long long)s->mod, (long long)s->rest);
	}
	for (uint32_t i = 0; i < p->arg.n; i++) rt_putf(t, "argument %u ", i), jit_put_parg(p, &p->arg.v[i], t), rt_puts(t, "\n");
	for (uint32_t i = 0; i < p->scalar.n; i++)
		if (p->scalar.v[i].kind == TJ_SCALAR_I) rt_putf(t, "scalar %u int %lld\n", i, (long long)p->scalar.v[i].i);
		else rt_putf(t, "scalar %u float\n", i);
	for (uint32_t i = 0; i < p->result.n; i++) rt_putf(t, "result %u ", i), jit_put_parg(p, &p->result.v[i], t), rt_puts(t, "\n");
	for (uint32_t i = 0; i < p->var.n; i++) put_var(p, i, t);
	for (uint32_t i = 0; i < p->number.n; i++) put_number(p, i, t);
	for (uint32_t i = 0; i < p->step.n; i++) put_step(p, i, t);
	rt_puts(t, "return");
	for (uint32_t i = 0; i < p->out.n; i++) put_operand(&p->out.v[i], t);
	rt_puts(t, "\n");
}

/* ---- parsing ---- */
typedef struct parser {
	const char *at, *end;
	int line;
	jit_program *p;
	size_t room;
	rt_err *err;
} parser;

static bool fail(parser *r, const char *what)
{
	rt_fail(r->err, TJ_ERR_PARSE, "import", "line %d: %s near `%.20s`", r->line, what, r->at);
	return false;
}
static bool nomem(parser *r) { return rt_fail(r->err, TJ_ERR_NOMEM, "import", "out of memory"), false; }

static void blanks(parser *r)
{
	while (*r->at == ' ') r->at++;
}

/* The word that comes next, if it is this one. */
static bool accept(parser *r, const char *word)
{
	const size_t n = strlen(word);
	blanks(r);
	if (strncmp(r->at, word, n) != 0 || isalnum((unsigned char)r->at[n]) || r->at[n] == '_') return false;
	r->at += n;
	return true;
}
static bool expect(parser *r, const char *word) { return accept(r, word) || fail(r, word); }

static bool accept_char(parser *r, char c)
{
	if (*r->at != c) return false;
	r->at++;
	return true;
}

static bool integer(parser *r, int64_t *v)
{
	char *end;
	errno = 0;
	blanks(r);
	*v = strtoll(r->at, &end, 10);
	if (*r->at == '\n' || end == r->at || errno) return fail(r, "an integer is missing");
	r->at = end;
	return true;
}

static bool count(parser *r, int64_t most, uint32_t *v)
{
	int64_t i;
	if (!integer(r, &i)) return false;
	if (i < 0 || i >= most) return fail(r, "a number is out of range");
	*v = (uint32_t)i;
	return true;
}

/* "i" must be the next index. */
static bool index_is(parser *r, uint32_t i)
{
	uint32_t v;
	return count(r, UINT32_MAX, &v) && (v == i || fail(r, "numbers must follow each other"));
}

static bool end_line(parser *r)
{
	blanks(r);
	if (*r->at != '\n') return fail(r, "the end of the line is missing");
	r->at++;
	r->line++;
	return true;
}

/* The rest of the line. */
static bool rest(parser *r, const char **s)
{
	blanks(r);
	const char *end = strchr(r->at, '\n');
	if (!end) return fail(r, "the line has no end");
	char *copy = rt_arena_alloc(&r->p->mem, (size_t)(end - r->at) + 1);
	if (!copy) return nomem(r);
	memcpy(copy, r->at, (size_t)(end - r->at));
	for (char *c = copy; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
	*s = copy;
	r->at = end;
	return end_line(r);
}

static size_t identifier(const parser *r)
{
	size_t n = 0;
	if (isalpha((unsigned char)*r->at) || *r->at == '_')
		while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
	return n;
}

static int8_t symbol(parser *r)
{
	const size_t n = identifier(r);
	for (uint32_t i = 0; n && i < r->p->symbol.n; i++) {
		if (strlen(r->p->symbol.v[i].name) != n || strncmp(r->p->symbol.v[i].name, r->at, n) != 0) continue;
		r->at += n;
		return (int8_t)i;
	}
	return -1;
}

/* [times*]S[*S][+more][/part], or a number */
static bool size(parser *r, jit_psize *s)
{
	*s = (jit_psize){ .times = 1, .part = 1, .i = -1, .j = -1 };
	blanks(r);
	if (!isalpha((unsigned char)*r->at) && *r->at != '_') {
		if (!integer(r, &s->more)) return false;
		if (!accept_char(r, '*')) return true;
		s->times = s->more;
		s->more = 0;
	}
	if ((s->i = symbol(r)) < 0) return fail(r, "no such symbol");
	if (accept_char(r, '*') && (s->j = symbol(r)) < 0) return fail(r, "no such symbol");
	if ((*r->at == '+' || *r->at == '-') && !integer(r, &s->more)) return false;
	if (accept_char(r, '/') && !integer(r, &s->part)) return false;
	return s->part > 0 || fail(r, "a size is divided by less than 1");
}

static bool dtype(parser *r, uint8_t *t)
{
	size_t n = 0;
	blanks(r);
	while (isalnum((unsigned char)r->at[n])) n++;
	const int d = rt_dtype_parse(r->at, n);
	if (d < 0) return fail(r, "no dtype");
	*t = (uint8_t)d;
	r->at += n;
	return true;
}

/* open: a size may be "_". */
static bool shape(parser *r, uint8_t *rank, jit_psize *dim, bool open)
{
	if (!accept_char(r, '[')) return fail(r, "[ is missing");
	for (*rank = 0; !accept_char(r, ']');) {
		if (*rank == TJ_MAX_RANK) return fail(r, "too many axes");
		if (*rank && !accept_char(r, ',')) return fail(r, ", is missing");
		if (open && accept(r, "_")) dim[(*rank)++] = (jit_psize){ .i = -1, .j = -1 };
		else if (!size(r, &dim[(*rank)++])) return false;
	}
	return true;
}

static bool read_symbol(parser *r)
{
	gd_symbol s = { 0 };
	blanks(r);
	const size_t n = identifier(r);
	if (!n || n >= sizeof s.name || r->p->symbol.n == JIT_P_SYMBOLS || symbol(r) >= 0) return fail(r, "no name of a symbol");
	memcpy(s.name, r->at, n);
	r->at += n;
	if (!expect(r, "least") || !integer(r, &s.least) || !expect(r, "most") || !integer(r, &s.most) || !expect(r, "mod") ||
	    !integer(r, &s.mod) || !expect(r, "rest") || !integer(r, &s.rest))
		return false;
	if (s.least < 0 || s.most < s.least || s.mod < 0 || s.rest < 0) return fail(r, "no range");
	return end_line(r) && (rt_push(&r->p->symbol, s) || nomem(r));
}

static bool type(parser *r, jit_parg *a, bool open)
{
	*a = (jit_parg){ .kind = GD_VALUE };
	if (accept(r, "int")) a->kind = GD_INT;
	else if (accept(r, "float")) a->kind = GD_FLOAT;
	else if (!dtype(r, &a->dtype) || !shape(r, &a->rank, a->dim, open)) return false;
	return end_line(r);
}

static bool read_argument(parser *r)
{
	jit_parg a;
	return index_is(r, r->p->arg.n) && type(r, &a, false) && (rt_push(&r->p->arg, a) || nomem(r));
}

static bool read_result(parser *r)
{
	jit_parg a;
	return index_is(r, r->p->result.n) && type(r, &a, true) && (rt_push(&r->p->result, a) || nomem(r));
}

static bool read_scalar(parser *r)
{
	tj_scalar s = TJ_F(0);
	if (!index_is(r, r->p->scalar.n) || r->p->scalar.n == GD_MAX_SCALARS) return fail(r, "too many scalars");
	if (accept(r, "int")) {
		s.kind = TJ_SCALAR_I;
		if (!integer(r, &s.i)) return false;
	} else if (!expect(r, "float")) return false;
	return end_line(r) && (rt_push(&r->p->scalar, s) || nomem(r));
}

static bool read_var(parser *r)
{
	jit_pvar v = { 0 };
	jit_psize dim[TJ_MAX_RANK];
	int64_t at, numel;
	if (!index_is(r, r->p->var.n)) return false;
	if (accept(r, "cell")) v.cell = true;
	else if (!expect(r, "weight")) return false;
	if (!dtype(r, &v.dtype) || !shape(r, &v.rank, dim, false) || !expect(r, "at") || !integer(r, &at)) return false;
	for (int d = 0; d < v.rank; d++) {
		if (!jit_pconst(&dim[d])) return fail(r, "a variable has a size that varies");
		v.dim[d] = dim[d].more;
	}
	if (!rt_numel(v.rank, v.dim, &numel)) return fail(r, "no shape");
	v.at = (size_t)at;
	if (at < 0 || v.at > r->room || (uint64_t)numel > r->room / tj_dtype_size((tj_dtype)v.dtype))
		return fail(r, "a variable is larger than the file");
	v.bytes = (size_t)numel * tj_dtype_size((tj_dtype)v.dtype);
	if (v.bytes > r->room - v.at) return fail(r, "a variable is larger than the file");
	return rest(r, &v.name) && (rt_push(&r->p->var, v) || nomem(r));
}

static int event_named(const parser *r, size_t *n)
{
	*n = 0;
	while (isalnum((unsigned char)r->at[*n]) || r->at[*n] == '_') ++*n;
	for (int op = 0; op <= JIT_RETURN; op++) {
		const char *name = op < IR_OP_COUNT || op > JIT_EVENT_BASE ? jit_event_name(op) : NULL;
		if (name && strlen(name) == *n && !strncmp(name, r->at, *n)) return op;
	}
	return -1;
}

static bool number_kind(parser *r, uint8_t *kind)
{
	for (uint8_t i = 0; i < RT_COUNT(number_name); i++)
		if (accept(r, number_name[i])) return *kind = i, true;
	return fail(r, "no kind of a number");
}

static bool read_computed(parser *r, jit_pnumber *n)
{
	size_t len;
	blanks(r);
	const int op = event_named(r, &len);
	if (op < 0 || op >= IR_OPS || !(ir_ops[op].flags & IR_POINT) || ir_ops[op].nsrc > 3 || ir_classes[ir_ops[op].opclass].nattr)
		return fail(r, "no op of numbers");
	r->at += len;
	n->op = (uint16_t)op;
	for (n->nsrc = 0; n->nsrc < ir_ops[op].nsrc; n->nsrc++)
		if (!count(r, r->p->number.n, &n->src[n->nsrc])) return false;
	return true;
}

static bool read_bits(parser *r, uint64_t *bits)
{
	char *end;
	errno = 0;
	blanks(r);
	*bits = strtoull(r->at, &end, 16);
	if (end == r->at || errno || *r->at == '-') return fail(r, "the bits of a float are missing");
	while (*end && *end != '\n') end++; /* the same for people */
	r->at = end;
	return true;
}

static bool read_number(parser *r)
{
	jit_pnumber n = { 0 };
	int64_t i = 0;
	bool ok = index_is(r, r->p->number.n) && number_kind(r, &n.kind);
	if (!ok) return false;
	switch (n.kind) {
	case JIT_PN_INT: ok = integer(r, &i), n.bits = (uint64_t)i; break;
	case JIT_PN_FLOAT: ok = read_bits(r, &n.bits); break;
	case JIT_PN_ARG:
		ok = count(r, r->p->arg.n, &n.index) && (r->p->arg.v[n.index].kind != GD_VALUE || fail(r, "that argument is no number"));
		break;
	case JIT_PN_SCALAR:
		ok = count(r, r->p->scalar.n, &n.index) &&
		     (r->p->scalar.v[n.index].kind == TJ_SCALAR_F || fail(r, "that scalar is no float"));
		break;
	case JIT_PN_COMPUTED: ok = read_computed(r, &n); break;
	default: ok = size(r, &n.size);
	}
	if (ok && n.kind == JIT_PN_INT && (i > RT_INT_MAX || i < -RT_INT_MAX)) return fail(r, "an integer is too large");
	return ok && end_line(r) && (rt_push(&r->p->number, n) || nomem(r));
}

/* ---- events ---- */
/* Event i has a value of its own. */
static bool has_value(const jit_program *p, uint32_t i)
{
	const int op = p->step.v[i].op;
	return op == IR_get || op == JIT_PARAM || (op < IR_OPS && ir_ops[op].nresult == 1);
}

static bool operand(parser *r, jit_poperand *o)
{
	const jit_program *p = r->p;
	blanks(r);
	const char mark = *r->at;
	if (mark != 'a' && mark != 'v' && mark != 'n') {
		o->kind = JIT_P_VALUE;
		return count(r, p->step.n, &o->index) && (has_value(p, o->index) || fail(r, "that event has no value"));
	}
	r->at++;
	o->kind = mark == 'a' ? JIT_P_ARG : mark == 'v' ? JIT_P_VAR : JIT_P_NUMBER;
	if (!count(r, mark == 'a' ? p->arg.n : mark == 'v' ? p->var.n : p->number.n, &o->index)) return false;
	return mark != 'a' || p->arg.v[o->index].kind == GD_VALUE || fail(r, "that argument is a number");
}

/* How many results the row has in which a get stands next; 0: none. */
static uint32_t row_results(const jit_program *p)
{
	uint32_t i = p->step.n;
	while (i && p->step.v[i - 1].op == IR_get) i--;
	if (!i) return 0;
	const jit_pstep *s = &p->step.v[i - 1];
	if (s->op == JIT_YIELD) return UINT16_MAX; /* of the op that it belongs to: checked when that runs */
	if (s->op == JIT_JVP) return 1;
	if (s->op == JIT_GRAD) return s->nsrc - (s->attr[0].more ? 2u : 1u);
	return s->op < IR_OPS && ir_ops[s->op].nresult > 1 ? ir_ops[s->op].nresult : 0;
}

static bool as_many(parser *r, const jit_pstep *s)
{
	const ir_classinfo *k = s->op < IR_OPS ? &ir_classes[ir_ops[s->op].opclass] : NULL;
	for (int i = 0; s->op >= IR_OPS && i < s->nattr; i++)
		if (!jit_pconst(&s->attr[i]) && !(s->op == IR_scan && i == 2) && s->op != JIT_VMAP) return fail(r, "that attribute does not vary");
	switch (s->op) {
	case JIT_ASSIGN:
		if (s->nsrc != 2 || s->nattr || s->src[1].kind == JIT_P_VALUE || s->src[1].kind == JIT_P_NUMBER)
			return fail(r, "an assign takes a value and a cell");
		return true;
	case JIT_GRAD:
		return (s->nattr == 2 && s->nsrc >= (s->attr[0].more ? 3 : 2)) || fail(r, "a grad takes a value and tensors");
	case JIT_JVP:
		return (s->nattr == 1 && s->nsrc >= 3 && s->nsrc % 2 == 1) || fail(r, "a jvp takes a value, tensors and tangents");
	case IR_get:
		if (s->nsrc || s->nattr != 1) return fail(r, "a get has one attribute");
		return (s->attr[0].more >= 0 && s->attr[0].more < row_results(r->p)) || fail(r, "no such result");
	case IR_cond: return (s->nsrc && !s->nattr) || fail(r, "a cond takes a condition");
	case IR_while: return (s->nsrc && s->nattr == 1) || fail(r, "a while takes carries, and has a limit");
	case IR_scan:
		return (s->nattr == 4 && s->attr[0].more >= 0 && s->attr[1].more >= 0 && s->attr[0].more <= s->nsrc &&
		        s->attr[1].more == s->nsrc - s->attr[0].more) ||
		       fail(r, "a scan takes carries and sequences");
	case JIT_VMAP: return (s->nsrc && s->nattr == 1) || fail(r, "a vmap takes tensors, and has a number of examples");
	case JIT_CUSTOM: return (s->nsrc && !s->nattr) || fail(r, "a custom_grad takes tensors");
	case JIT_CHECKPOINT: return (!s->nsrc && !s->nattr) || fail(r, "a checkpoint takes nothing");
	case JIT_CALLBACK: return !s->nsrc || fail(r, "a callback takes nothing");
	case JIT_PARAM: return (!s->nsrc && s->nattr == 1 && s->attr[0].more >= 0) || fail(r, "a parameter has a number");
	case JIT_YIELD: return !s->nattr || fail(r, "a yield has no attributes");
	default: break;
	}
	if (!k) return fail(r, "no event that a file may have");
	const int drawn = ir_ops[s->op].flags & IR_RNG ? 2 : 0; /* the graph adds key and ordinal */
	if (ir_ops[s->op].nsrc != 255 && s->nsrc != ir_ops[s->op].nsrc - drawn) return fail(r, "another number of operands");
	if (!s->nsrc && ir_ops[s->op].nsrc == 255) return fail(r, "no operands");
	if (s->nattr < k->nattr || s->nattr > k->nattr + (k->list ? TJ_MAX_RANK : 0)) return fail(r, "another number of attributes");
	for (int i = 0; i < k->nattr; i++)
		if (k->attr[i].kind == '@' && (!jit_pconst(&s->attr[i]) || s->attr[i].more != TJ_CPU))
			return fail(r, "another device than the CPU");
	return true;
}

/* Reads items up to a mark, which stands alone. */
static bool operands(parser *r, jit_pstep *s)
{
	rt_vec(jit_poperand) all = { 0 };
	jit_poperand o = { 0 };
	bool ok = true;
	for (blanks(r); ok && *r->at != ':'; blanks(r)) {
		ok = operand(r, &o) && (all.n < UINT16_MAX || fail(r, "too many operands"));
		if (ok && !rt_push(&all, o)) ok = nomem(r);
	}
	s->nsrc = (uint16_t)all.n;
	if (ok && !(s->src = rt_arena_alloc(&r->p->mem, (all.n + 1) * sizeof *s->src))) ok = nomem(r);
	if (ok && all.n) memcpy(s->src, all.v, all.n * sizeof *s->src);
	rt_vec_free(&all);
	return ok && (accept_char(r, ':') || fail(r, ": is missing"));
}

static bool attributes(parser *r, jit_pstep *s)
{
	jit_psize all[IR_CLASS_ATTRS + TJ_MAX_RANK + 3];
	for (blanks(r); *r->at != '/'; blanks(r)) {
		if (s->nattr == RT_COUNT(all)) return fail(r, "too many attributes");
		if (!size(r, &all[s->nattr++])) return false;
	}
	r->at++;
	if (!(s->attr = rt_arena_alloc(&r->p->mem, (s->nattr + 1u) * sizeof *s->attr))) return nomem(r);
	if (s->nattr) memcpy(s->attr, all, s->nattr * sizeof *all);
	return true;
}

static bool read_step(parser *r)
{
	jit_pstep s = { 0 };
	uint32_t mode;
	size_t n;
	if (!index_is(r, r->p->step.n)) return false;
	blanks(r);
	const int op = event_named(r, &n);
	if (op < 0) return fail(r, "no op");
	s.op = (uint16_t)op;
	r->at += n;
	if (!operands(r, &s) || !attributes(r, &s) || !count(r, 256, &mode) || !rest(r, &s.site)) return false;
	s.mode = (uint8_t)mode;
	if (s.mode & ~(JIT_AUTOCAST | (IR_MODES - 1)) || (s.mode & JIT_AUTOCAST) == JIT_AUTOCAST) return fail(r, "no mode");
	if (!as_many(r, &s)) return false;
	return rt_push(&r->p->step, s) || nomem(r);
}

static bool read_return(parser *r)
{
	jit_poperand o;
	for (blanks(r); *r->at != '\n'; blanks(r)) {
		if (!operand(r, &o)) return false;
		if (!rt_push(&r->p->out, o)) return nomem(r);
	}
	const bool as_many = r->p->out.n == r->p->nout && (r->p->result.n == r->p->nout || !r->p->result.n);
	return (as_many || fail(r, "another number of results")) && end_line(r);
}

static bool read_head(parser *r)
{
	uint32_t major, minor, div;
	if (!expect(r, "program") || !count(r, INT32_MAX, &major) || !(accept_char(r, '.') || fail(r, ". is missing")) ||
	    !count(r, INT32_MAX, &minor))
		return false;
	if (major != VERSION || minor > MINOR) {
		rt_fail(r->err, TJ_ERR_PARSE, "import",
		        "the file has version %u.%u of the format, and this library, " TJ_VERSION ", reads up to %d.%d", major, minor,
		        VERSION, MINOR);
		return false;
	}
	if (!end_line(r) || !expect(r, "function") || !expect(r, "outputs") || !count(r, UINT16_MAX, &r->p->nout) ||
	    !expect(r, "int_div_zero") || !count(r, TJ_ZERO + 1, &div))
		return false;
	r->p->int_div_zero = (uint8_t)div;
	return rest(r, &r->p->name);
}

static bool read_all(parser *r)
{
	static bool (*const part[])(parser *) = { read_symbol, read_argument, read_scalar, read_result, read_var, read_number };
	static const char *const word[] = { "symbol", "argument", "scalar", "result", "variable", "number" };
	if (!read_head(r)) return false;
	for (size_t i = 0; i < RT_COUNT(word); i++)
		while (accept(r, word[i]))
			if (!part[i](r)) return false;
	while (isdigit((unsigned char)*r->at))
		if (!read_step(r)) return false;
	if (!expect(r, "return") || !read_return(r)) return false;
	return r->at == r->end || fail(r, "the end of the text is missing");
}

jit_program *jit_program_parse(const char *text, size_t n, size_t room, rt_err *err)
{
	parser r = { .at = text, .end = text + n, .line = 1, .p = jit_program_new(), .room = room, .err = err };
	if (!r.p) return rt_fail(err, TJ_ERR_NOMEM, "import", "out of memory"), NULL;
	if (strlen(text) == n ? read_all(&r) : fail(&r, "a zero stands in the text")) return r.p;
	jit_program_free(r.p);
	return NULL;
}
