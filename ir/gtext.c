/* SPDX-License-Identifier: MIT */
/* gtext: prints a graph and parses it back.
 *
 *   %0 = input f32[4,8] slot=0                   also strides=1,4 if not row-major
 *   %1 = num f64 slot=0                          a type without brackets: a number
 *   %2 = const f32[] 0x1p-1                      floats in hex, exact
 *   %3 = data i32[3] {1,2,3}                     above 64 elements: hash=..., found in g->data
 *   %4 = sum f32[4] %0 keepdim=0 axes=1  # a.c:9 attributes by class (classes.def), TJ_END_DIM as `end`; after # the site
 *   ret %4
 *   %5 = add f32[4] %0 %4 mode=fast              the mode; none in strict mode, and none if the node computes nothing
 *   %5 = max_with_indices %0 keepdim=0 axis=1    a node with several results has no type (tuple.c)
 *   %6 = cond %7 %0                              after control flow come its regions (flow.c), each up to its ret
 *
 * The parser appends nodes as written (raw): it casts, folds and merges nothing, so a printed graph parses back exactly. Lines that
 * start with # are comments. */
#include "ir/ir.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { INLINE_MAX = 64, NUMBER_MAX = 1 << 24 };

/* ---- printing ---- */
static void put_int(rt_text *t, int64_t v)
{
	if (v == TJ_END_DIM) rt_puts(t, "end");
	else rt_putf(t, "%lld", (long long)v);
}

static void put_list(rt_text *t, const char *name, int n, const int64_t *v)
{
	for (int i = 0; i < n; i++) {
		if (i) rt_puts(t, ",");
		else rt_putf(t, " %s=", name);
		put_int(t, v[i]);
	}
}

static void put_element(rt_text *t, tj_dtype dtype, const void *bytes, int64_t i)
{
	ir_scalar s = ir_load(dtype, (const char *)bytes + i * (int64_t)tj_dtype_size(dtype));
	if (rt_is_float(dtype)) rt_put_float(t, ir_cast_scalar(s, dtype, TJ_F64).d);
	else put_int(t, s.i);
}

static void put_data(const ir_graph *g, const ir_node *n, rt_text *t)
{
	const ir_blob *b = &g->data.v[ir_attr(g, n)[0]];
	int64_t numel = b->nbytes / (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	if (numel > INLINE_MAX) {
		rt_putf(t, " hash=%016llx", (unsigned long long)b->hash);
		return;
	}
	rt_puts(t, " {");
	for (int64_t i = 0; i < numel; i++) {
		if (i) rt_puts(t, ",");
		put_element(t, (tj_dtype)n->dtype, b->bytes, i);
	}
	rt_puts(t, "}");
}

static void put_const(const ir_graph *g, const ir_node *n, rt_text *t)
{
	ir_scalar v = ir_const_value(g, n);
	rt_puts(t, " ");
	if (!rt_is_float((tj_dtype)n->dtype)) put_int(t, v.i);
	else rt_put_float(t, rt_dtype_class((tj_dtype)n->dtype) == RT_F ? (double)v.f : v.d);
}

static void put_input(const ir_graph *g, const ir_node *n, rt_text *t)
{
	const int64_t *attr = ir_attr(g, n);
	int64_t plain[TJ_MAX_RANK];
	rt_putf(t, " slot=%lld", (long long)attr[0]);
	if (attr[1]) rt_puts(t, " constant=1");
	ir_contiguous(n->rank, ir_dims(g, n), plain);
	if (n->rank && memcmp(plain, attr + 2, sizeof *plain * n->rank) != 0)
		put_list(t, "strides", n->rank, attr + 2);
}

void ir_put_attrs(const ir_graph *g, const ir_node *n, rt_text *t)
{
	const int64_t *attr = ir_attr(g, n);
	const ir_classinfo *c = &ir_classes[ir_ops[n->op].opclass];
	if (n->op == IR_input) put_input(g, n, t);
	else if (n->op == IR_num) put_list(t, "slot", 1, attr);
	else if (n->op == IR_const) put_const(g, n, t);
	else if (n->op == IR_data) put_data(g, n, t);
	else if (n->op == IR_get || n->op == IR_mark) put_list(t, "i", 1, attr);
	else if (ir_is_flow(n->op))
		for (int k = 0, skip = ir_flow_info(n->op)->nregion; k < ir_flow_info(n->op)->nattr; k++) {
			if (k < ir_flow_info(n->op)->needed || attr[skip + k]) put_list(t, ir_flow_info(n->op)->attr[k], 1, attr + skip + k);
		}
	else
		for (int k = 0; c->attr[k].name; k++) {
			if (c->attr[k].kind == 'd') rt_putf(t, " %s=%s", c->attr[k].name, tj_dtype_name((tj_dtype)attr[k]));
			else if (c->attr[k].kind == '@') rt_putf(t, " %s=%s", c->attr[k].name, rt_device_name((int)attr[k]));
			else put_list(t, c->attr[k].name, c->attr[k].kind == '*' ? n->nattr - k : 1, attr + k);
		}
}

static void put_args(const ir_graph *g, const ir_node *n, rt_text *t)
{
	for (int k = 0; k < n->nsrc; k++) rt_putf(t, " %%%u", ir_src(g, n, k));
	ir_put_attrs(g, n, t);
	if (n->mode & IR_FAST) rt_puts(t, " mode=fast");
}

static void put_ret(const ir_graph *g, rt_text *t)
{
	for (uint32_t i = 0; i < g->out.n; i++) rt_putf(t, " %%%u", g->out.v[i]);
}

static void print(const ir_graph *g, rt_text *t, int indent);

static void put_regions(const ir_graph *g, const ir_node *n, rt_text *t, int indent)
{
	for (int k = 0; ir_is_flow(n->op) && k < ir_flow_info(n->op)->nregion; k++) {
		rt_putf(t, "%*s%s:\n", indent + 2, "", ir_flow_info(n->op)->region[k]);
		print(ir_flow_region(g, n, k), t, indent + 4);
	}
}

static void print(const ir_graph *g, rt_text *t, int indent)
{
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		ir_meta m = ir_meta_of(g, r);
		rt_putf(t, "%*s%%%u = %s", indent, "", r, ir_ops[n->op].name);
		if (!ir_is_tuple(n)) {
			rt_puts(t, " ");
			ir_put_meta(t, &m);
		}
		put_args(g, n, t);
		if (n->site) rt_putf(t, "  # %s", n->site);
		rt_puts(t, "\n");
		put_regions(g, n, t, indent);
	}
	if (!g->out.n) return;
	rt_putf(t, "%*sret", indent, "");
	put_ret(g, t);
	rt_puts(t, "\n");
}

void ir_print(const ir_graph *g, rt_text *t) { print(g, t, 0); }

void ir_dump(const ir_graph *g)
{
	rt_text t = { 0 };
	ir_print(g, &t);
	fputs(rt_str(&t), stderr);
	rt_text_free(&t);
}

/* ---- the table that people read ---- */
enum { CELLS = 6 };

/* Prints a row with each cell padded to the width of its column; without t, only widens the columns. */
static void put_row(rt_text *t, int *width, const char *const *cell)
{
	for (int i = 0; i < CELLS; i++) {
		int n = (int)strlen(cell[i]);
		if (n > width[i]) width[i] = n;
		if (t && i + 1 < CELLS) rt_putf(t, "%-*s  ", width[i], cell[i]);
	}
	if (!t) return;
	rt_puts(t, cell[CELLS - 1]);
	while (t->n && t->s[t->n - 1] == ' ') t->n--;
	rt_puts(t, "\n");
}

static const char *opcode(const ir_node *n)
{
	if (n->op == IR_input || n->op == IR_num) return "placeholder";
	return ir_is_leaf(n->op) ? "get_attr" : "call_function";
}

static void put_node_row(const ir_graph *g, ir_ref r, rt_text *t, int *width)
{
	const ir_node *n = ir_at(g, r);
	ir_meta m = ir_meta_of(g, r);
	rt_text args = { 0 }, shape = { 0 };
	char name[16];
	snprintf(name, sizeof name, "%%%u", r);
	put_args(g, n, &args);
	if (!ir_is_tuple(n)) ir_put_meta(&shape, &m);
	const char *a = rt_str(&args);
	put_row(t, width,
	        (const char *[]){ opcode(n), name, ir_ops[n->op].name, a + (*a == ' '), rt_str(&shape),
	                           n->site ? n->site : "" });
	rt_text_free(&args);
	rt_text_free(&shape);
}

static void table(const ir_graph *g, rt_text *t)
{
	int width[CELLS] = { 0 };
	rt_text out = { 0 };
	put_ret(g, &out);
	for (int pass = 0; pass < 2; pass++) {
		rt_text *to = pass ? t : NULL;
		put_row(to, width, (const char *[]){ "opcode", "name", "target", "args", "shape", "site" });
		for (ir_ref r = 0; r < g->node.n; r++) put_node_row(g, r, to, width);
		put_row(to, width, (const char *[]){ "output", "output", "output", out.n ? out.s + 1 : "", "", "" });
	}
	rt_text_free(&out);
}

/* After the table comes one table for each region of control flow. */
void ir_table(const ir_graph *g, rt_text *t)
{
	table(g, t);
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		for (int k = 0; ir_is_flow(n->op) && k < ir_flow_info(n->op)->nregion; k++) {
			rt_putf(t, "\n%s of %s %%%u:\n", ir_flow_info(n->op)->region[k], ir_ops[n->op].name, r);
			ir_table(ir_flow_region(g, n, k), t);
		}
	}
}

/* ---- parsing ---- */
typedef struct parser {
	const char *at, *line; /* next character; beginning of its line */
	int lineno;
	ir_graph *g;
	rt_err *err;
	rt_vec(ir_ref) names; /* nodes by the number after % */
	int depth;            /* number of regions around this text */
	const struct parser *outer;
	bool ended;           /* a ret was read */
} parser;

RT_PRINTF(2, 3)
static bool fail(parser *p, const char *fmt, ...)
{
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	rt_fail(p->err, TJ_ERR_PARSE, "parse", "line %d, column %d: %s", p->lineno, (int)(p->at - p->line) + 1,
	        what);
	return false;
}

static bool nomem(parser *p) { return rt_fail(p->err, TJ_ERR_NOMEM, "parse", "out of memory"), false; }

static void blanks(parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') p->at++;
}

/* Skips this literal text if it comes next. */
static bool accept(parser *p, const char *s)
{
	size_t n = strlen(s);
	if (strncmp(p->at, s, n) != 0) return false;
	p->at += n;
	return true;
}

static bool expect(parser *p, const char *s) { return accept(p, s) || fail(p, "`%s` expected", s); }

static size_t word(parser *p, const char **s)
{
	*s = p->at;
	while (isalnum((unsigned char)*p->at) || *p->at == '_') p->at++;
	return (size_t)(p->at - *s);
}

static bool integer(parser *p, int64_t *v)
{
	char *end;
	if (accept(p, "end")) return *v = TJ_END_DIM, true;
	if (!isdigit((unsigned char)*p->at) && *p->at != '-') return fail(p, "a number expected");
	errno = 0;
	*v = strtoll(p->at, &end, 10);
	if (errno || end == p->at) return fail(p, "not a 64-bit number");
	p->at = end;
	return true;
}

static bool integers(parser *p, int64_t *v, int most, int *n)
{
	*n = 0;
	do {
		if (*n == most) return fail(p, "too many numbers, at most %d", most);
		if (!integer(p, &v[(*n)++])) return false;
	} while (accept(p, ","));
	return true;
}

static bool dtype(parser *p, int64_t *v)
{
	const char *s, *start = p->at;
	size_t n = word(p, &s);
	*v = rt_dtype_parse(s, n);
	if (*v >= 0) return true;
	p->at = start;
	if (!n) return fail(p, "a dtype expected");
	fail(p, "%.*s is not a dtype", (int)(n < 32 ? n : 32), s);
	rt_hint(p->err, "%s", rt_dtype_advice(s, n));
	return false;
}

/* cpu, cuda:0 */
static bool device(parser *p, int64_t *v)
{
	size_t n = 0;
	while (isalnum((unsigned char)p->at[n]) || p->at[n] == ':' || p->at[n] == '_') n++;
	*v = rt_device_parse(p->at, n);
	if (*v < 0) return fail(p, "no such device");
	p->at += n;
	return true;
}

/* f32[4,8], f32[4,8]@cuda:0, f32[], f64 */
static bool sizes(parser *p, ir_meta *m);
static bool type(parser *p, ir_meta *m)
{
	int64_t t;
	if (!dtype(p, &t)) return false;
	*m = (ir_meta){ .dtype = (uint8_t)t, .weak = true };
	if (!accept(p, "[")) return true;
	m->weak = false;
	if (!sizes(p, m)) return false;
	if (!accept(p, "@")) return true;
	if (!device(p, &t)) return false;
	m->device = (uint8_t)t;
	return true;
}

/* The sizes, up to the closing bracket. */
static bool sizes(parser *p, ir_meta *m)
{
	int rank = 0;
	if (accept(p, "]")) return true;
	if (!integers(p, m->dim, TJ_MAX_RANK, &rank)) return false;
	m->rank = (uint8_t)rank;
	int64_t numel;
	if (!rt_numel(rank, m->dim, &numel)) return fail(p, "a size is negative, or the number of elements overflows");
	return expect(p, "]");
}

static bool reference(parser *p, ir_ref *r)
{
	const char *start = p->at;
	int64_t k;
	if (!expect(p, "%") || !integer(p, &k)) return false;
	*r = k >= 0 && k < p->names.n ? p->names.v[k] : IR_NONE;
	if (*r != IR_NONE) return true;
	p->at = start;
	return fail(p, "%%%lld is not defined above", (long long)k);
}

/* Operands are in a growing list: an op may have any number. */
typedef rt_vec(ir_ref) ref_list;

static bool operands(parser *p, ref_list *src)
{
	for (blanks(p); *p->at == '%'; blanks(p)) {
		ir_ref r;
		if (!reference(p, &r)) return false;
		if (!rt_push(src, r)) return nomem(p);
	}
	return true;
}

/* Skips `name=` if it comes next; the caller reads the value. */
static bool key(parser *p, const char *name)
{
	blanks(p);
	size_t n = strlen(name);
	if (strncmp(p->at, name, n) != 0 || p->at[n] != '=') return false;
	p->at += n + 1;
	return true;
}

static bool attributes(parser *p, ir_op op, int64_t *attr, int *nattr)
{
	const ir_classinfo *c = &ir_classes[ir_ops[op].opclass];
	*nattr = 0;
	for (int k = 0; c->attr[k].name; k++) {
		char kind = c->attr[k].kind;
		int n = 1;
		if (!key(p, c->attr[k].name)) {
			if (kind == '*') continue;
			return fail(p, "`%s=` expected", c->attr[k].name);
		}
		if (kind == 'd'   ? !dtype(p, attr + k)
		    : kind == '@' ? !device(p, attr + k)
		    : kind == 'i' ? !integer(p, attr + k)
		                  : !integers(p, attr + k, TJ_MAX_RANK, &n))
			return false;
		*nattr += n;
	}
	return true;
}

/* ---- leaves ---- */
static bool parse_input(parser *p, const ir_meta *m, ir_ref *r)
{
	int64_t slot, constant = 0, stride[TJ_MAX_RANK];
	int n = 0;
	if (!key(p, "slot")) return fail(p, "`slot=` expected");
	if (!integer(p, &slot)) return false;
	if (key(p, "constant") && !integer(p, &constant)) return false;
	ir_contiguous(m->rank, m->dim, stride);
	if (key(p, "strides") && !integers(p, stride, TJ_MAX_RANK, &n)) return false;
	if (n && n != m->rank) return fail(p, "%d strides for %d axes", n, m->rank);
	*r = ir_input(p->g, (int)slot, m, stride, NULL);
	if (*r != IR_NONE) p->g->ints.v[ir_at(p->g, *r)->attr + 1] = constant;
	return true;
}

static bool parse_num(parser *p, const ir_meta *m, ir_ref *r)
{
	int64_t slot;
	if (m->dtype != TJ_F64 && m->dtype != TJ_I64) return fail(p, "a number must be f64 or i64");
	if (!key(p, "slot")) return fail(p, "`slot=` expected");
	if (!integer(p, &slot)) return false;
	*r = ir_num_(p->g, (tj_dtype)m->dtype, (int)slot, NULL);
	return true;
}

static bool real(parser *p, double *v)
{
	char *end;
	*v = rt_read_float(p->at, &end);
	if (end == p->at) return fail(p, "a number expected");
	p->at = end;
	return true;
}

static bool parse_const(parser *p, const ir_meta *m, ir_ref *r)
{
	double d;
	int64_t i;
	blanks(p);
	if (rt_is_float((tj_dtype)m->dtype)) {
		if (!real(p, &d)) return false;
		*r = ir_const_f(p->g, (tj_dtype)m->dtype, m->rank, m->dim, d);
	} else {
		if (!integer(p, &i)) return false;
		*r = ir_const_i(p->g, (tj_dtype)m->dtype, m->rank, m->dim, i);
	}
	return true;
}

static bool element(parser *p, tj_dtype t, unsigned char *to)
{
	double d = 0;
	int64_t i = 0;
	if (rt_is_float(t) ? !real(p, &d) : !integer(p, &i)) return false;
	ir_scalar s = { .i = i };
	if (rt_is_float(t)) s = ir_cast_scalar((ir_scalar){ .d = d }, TJ_F64, t);
	ir_store(t, to, s);
	return true;
}

static bool find_hash(parser *p, const ir_meta *m, int64_t nbytes, ir_ref *r)
{
	unsigned long long hash = strtoull(p->at, NULL, 16);
	for (const parser *q = p; q; q = q->outer)
		for (uint32_t i = 0; i < q->g->data.n; i++)
			if (q->g->data.v[i].hash == hash && q->g->data.v[i].nbytes == nbytes) {
				while (isxdigit((unsigned char)*p->at)) p->at++;
				*r = ir_data_(p->g, m, q->g->data.v[i].bytes, NULL);
				return true;
			}
	return fail(p, "no data with this hash and size is known");
}

static bool parse_data(parser *p, const ir_meta *m, ir_ref *r)
{
	int64_t numel = 0;
	size_t size = tj_dtype_size((tj_dtype)m->dtype);
	unsigned char buf[INLINE_MAX * 8];
	rt_numel(m->rank, m->dim, &numel);
	if (key(p, "hash")) return find_hash(p, m, numel * (int64_t)size, r);
	if (numel > INLINE_MAX) return fail(p, "more than %d elements must be given by their hash", INLINE_MAX);
	if (!expect(p, "{")) return false;
	for (int64_t i = 0; i < numel; i++)
		if ((i && !expect(p, ",")) || !element(p, (tj_dtype)m->dtype, buf + (size_t)i * size)) return false;
	if (!expect(p, "}")) return false;
	*r = ir_data_(p->g, m, buf, NULL);
	return true;
}

/* ---- lines ---- */
static bool mode(parser *p, ir_op op)
{
	if (!key(p, "mode")) return true;
	p->g->mode = IR_FAST;
	if (!accept(p, "fast")) return fail(p, "no such mode");
	return ir_has_mode(op) || fail(p, "%s computes nothing: it has no mode", ir_ops[op].name);
}

static bool parse_op(parser *p, ir_op op, ir_ref *r)
{
	int64_t attr[4 + TJ_MAX_RANK];
	int nattr;
	ref_list src = { 0 };
	bool ok = operands(p, &src) && attributes(p, op, attr, &nattr) && mode(p, op);
	if (ok) *r = ir_emit(p->g, op, (int)src.n, src.v, nattr, attr, NULL);
	p->g->mode = 0;
	rt_vec_free(&src);
	return ok;
}

static bool parse_get(parser *p, ir_ref *r)
{
	ir_ref src;
	int64_t i;
	blanks(p);
	if (!reference(p, &src)) return false;
	if (!key(p, "i")) return fail(p, "`i=` expected");
	if (!integer(p, &i)) return false;
	*r = ir_get(p->g, src, i >= 0 && i < UINT16_MAX ? (int)i : -1, NULL);
	return true;
}

static bool op_name(parser *p, ir_op *op)
{
	const char *s, *start = p->at;
	size_t n = word(p, &s);
	for (int k = 0; k < IR_OP_COUNT; k++)
		if (strlen(ir_ops[k].name) == n && !strncmp(ir_ops[k].name, s, n)) {
			*op = (ir_op)k;
			return true;
		}
	p->at = start;
	return fail(p, "no op named `%.*s`", (int)n, s);
}

/* Reports an error of the op itself, with line and column in front. */
static bool op_failed(parser *p)
{
	const rt_err *e = &p->g->err;
	rt_fail(p->err, e->code, e->op, "line %d, column %d: %s", p->lineno, (int)(p->at - p->line) + 1,
	        e->message);
	if (e->hint[0]) rt_hint(p->err, "%s", e->hint);
	return false;
}

static bool check_type(parser *p, ir_ref r, const ir_meta *declared)
{
	ir_node *n = &p->g->node.v[r];
	if (ir_created(p->g, r)) n->device = declared->device;
	ir_meta m = ir_meta_of(p->g, r);
	if (m.dtype != declared->dtype || m.device != declared->device || m.rank != declared->rank ||
	    memcmp(m.dim, declared->dim, sizeof *m.dim * m.rank) != 0) {
		rt_text t = { 0 };
		m.weak = declared->weak && m.rank == 0;
		ir_put_meta(&t, &m);
		fail(p, "the result is %s", rt_str(&t));
		rt_text_free(&t);
		return false;
	}
	n->weak = declared->weak;
	return true;
}

static bool bind(parser *p, int64_t number, ir_ref r)
{
	while (p->names.n <= number)
		if (!rt_push(&p->names, IR_NONE)) return nomem(p);
	p->names.v[number] = r;
	return true;
}

/* ---- control flow ---- */
static bool parse_line(parser *p);
static bool site_text(parser *p, const char **site);

static bool flow_attributes(parser *p, ir_op op, int64_t *attr)
{
	const ir_flowinfo *info = ir_flow_info(op);
	for (int k = 0; k < info->nattr; k++) {
		attr[k] = 0;
		if (!key(p, info->attr[k])) {
			if (k < info->needed) return fail(p, "`%s=` expected", info->attr[k]);
		} else if (!integer(p, &attr[k])) return false;
	}
	return true;
}

static bool next_line(parser *p)
{
	if (*p->at) p->at++;
	p->line = p->at;
	p->lineno++;
	return true;
}

/* `name:` and the lines after it, up to a ret. */
static bool parse_region(parser *p, const char *name, ir_graph *g)
{
	parser in = *p;
	in.names.v = NULL;
	in.names.n = in.names.cap = 0;
	in.g = g;
	in.outer = p;
	in.ended = false;
	g->raw = true;
	if (++in.depth > IR_MAX_NEST) return fail(p, "regions are nested more than %d deep", IR_MAX_NEST);
	blanks(&in);
	bool ok = expect(&in, name) && expect(&in, ":");
	blanks(&in);
	ok = ok && (*in.at == '\n' || fail(&in, "end of line expected")) && next_line(&in);
	while (ok && !in.ended) ok = *in.at ? parse_line(&in) : fail(&in, "`ret` of the region expected");
	g->raw = false;
	rt_vec_free(&in.names);
	p->at = in.at;
	p->line = in.line;
	p->lineno = in.lineno;
	return ok;
}

/* op operands attributes  # site; then the regions */
static bool parse_flow(parser *p, ir_op op, ir_ref *r)
{
	const ir_flowinfo *info = ir_flow_info(op);
	ir_graph *region[2] = { ir_region_new(), ir_region_new() };
	int64_t attr[IR_FLOW_ATTRS];
	const char *site = NULL;
	ref_list src = { 0 };
	bool ok = (region[0] && region[1]) || nomem(p);
	ok = ok && operands(p, &src) && flow_attributes(p, op, attr) && site_text(p, &site) && next_line(p);
	for (int k = 0; ok && k < info->nregion; k++) ok = parse_region(p, info->region[k], region[k]);
	if (ok) *r = ir_flow(p->g, op, (int)src.n, src.v, region, attr, site);
	if (ok && *r != IR_NONE && !ir_flow_check(p->g, *r, p->err)) ok = false;
	ir_region_unref(region[0]);
	ir_region_unref(region[1]);
	rt_vec_free(&src);
	return ok;
}

/* %N = op type operands attributes  # site */
static bool parse_node(parser *p)
{
	int64_t number;
	ir_op op = IR_OPS;
	ir_meta m;
	ir_ref r = IR_NONE;
	if (!expect(p, "%") || !integer(p, &number)) return false;
	if (number < 0 || number >= NUMBER_MAX) return fail(p, "the number of the node is out of range");
	if (number < p->names.n && p->names.v[number] != IR_NONE)
		return fail(p, "%%%lld is defined twice", (long long)number);
	blanks(p);
	if (!expect(p, "=")) return false;
	blanks(p);
	const char *start = p->at;
	if (!op_name(p, &op)) return false;
	if (ir_is_flow(op)) return parse_flow(p, op, &r) && (r != IR_NONE || op_failed(p)) && bind(p, number, r);
	blanks(p);
	if (ir_ops[op].nresult > 1) return parse_op(p, op, &r) && (r != IR_NONE || (p->at = start, op_failed(p))) && bind(p, number, r);
	const char *type_at = p->at;
	if (!type(p, &m)) return false;
	blanks(p);
	bool ok = op == IR_input   ? parse_input(p, &m, &r)
	          : op == IR_get   ? parse_get(p, &r)
	          : op == IR_num   ? parse_num(p, &m, &r)
	          : op == IR_const ? parse_const(p, &m, &r)
	          : op == IR_data  ? parse_data(p, &m, &r)
	                           : parse_op(p, op, &r);
	if (!ok) return false;
	const char *end = p->at;
	p->at = start;
	if (r == IR_NONE) return op_failed(p);
	p->at = type_at;
	if (!check_type(p, r, &m)) return false;
	p->at = end;
	return bind(p, number, r);
}

static bool parse_ret(parser *p)
{
	p->ended = true;
	for (blanks(p); *p->at == '%'; blanks(p)) {
		ir_ref r;
		if (!reference(p, &r)) return false;
		if (!ir_ret(p->g, r)) return nomem(p);
	}
	return true;
}

/* The text after # on a line; NULL: there is none. */
static bool site_text(parser *p, const char **site)
{
	blanks(p);
	*site = NULL;
	if (*p->at != '#') return *p->at == '\n' || !*p->at || fail(p, "end of line expected");
	const char *end = p->at + strcspn(p->at, "\n");
	for (p->at++; *p->at == ' '; p->at++) {}
	size_t n = end > p->at ? (size_t)(end - p->at) : 0;
	while (n && isspace((unsigned char)p->at[n - 1])) n--;
	if (n) {
		char *s = rt_arena_alloc(&p->g->mem, n + 1);
		if (!s) return nomem(p);
		memcpy(s, p->at, n);
		*site = s;
	}
	p->at = end;
	return true;
}

/* The text after # on the line of a node is its site. */
static bool parse_site(parser *p, bool node)
{
	const char *site;
	if (!site_text(p, &site)) return false;
	if (node && site) p->g->node.v[p->g->node.n - 1].site = site;
	return true;
}

/* parse_node() reads more than one line for control flow: then site and regions are done. */
static bool parse_line(parser *p)
{
	bool node = false;
	p->line = p->at;
	blanks(p);
	if (*p->at == '%') {
		const char *was = p->line;
		node = true;
		if (!parse_node(p)) return false;
		if (p->line != was) return true;
	} else if (accept(p, "ret")) {
		if (!parse_ret(p)) return false;
	} else if (*p->at != '#' && *p->at != '\n' && *p->at) {
		return fail(p, "`%%N = op ...` or `ret ...` expected");
	}
	if (!parse_site(p, node)) return false;
	if (*p->at) p->at++;
	p->lineno++;
	return true;
}

tj_status ir_parse(ir_graph *g, const char *text, rt_err *err)
{
	rt_err own = { 0 };
	parser p = { .at = text, .line = text, .lineno = 1, .g = g, .err = err ? err : &own };
	bool raw = g->raw, ok = true;
	g->raw = true;
	while (ok && *p.at) ok = parse_line(&p);
	g->raw = raw;
	rt_vec_free(&p.names);
	return ok ? TJ_OK : p.err->code;
}
