/* SPDX-License-Identifier: MIT */
/* The kernels of the mock device: prints kernel IR as scalar C, one index at a time, for the C compiler of the system. Reductions,
 * conversions and other operations that are no plain C call functions of this file. */
#include "test/mock.h"
#include "lower/target.h"
#include "test/unit/interp.h"

#include <dlfcn.h>
#include <unistd.h>

/* ---- what kernels call ---- */
typedef ir_scalar mock_scalar;
#pragma GCC visibility push(default)
mock_scalar mock_load(int dtype, const void *p);
void mock_store(int dtype, void *p, mock_scalar v);
mock_scalar mock_convert(mock_scalar v, int from, int to);
mock_scalar mock_bitcast(mock_scalar v, int from, int to);
mock_scalar mock_fix(mock_scalar v, int dtype);
mock_scalar mock_op(int op, int dtype, mock_scalar a, mock_scalar b, mock_scalar c);
mock_scalar mock_reduce(int red, int tree, int dtype, const mock_scalar *row, int64_t n);
void mock_part(int red, int tree, int dtype, const mock_scalar *row, int64_t n, void *to, int64_t step, int64_t part, int64_t each);
mock_scalar *mock_rows(int64_t n);
#pragma GCC visibility pop

mock_scalar mock_load(int dtype, const void *p) { return ir_load((tj_dtype)dtype, p); }
void mock_store(int dtype, void *p, mock_scalar v) { ir_store((tj_dtype)dtype, p, v); }
mock_scalar mock_convert(mock_scalar v, int from, int to) { return interp_convert(v, (tj_dtype)from, (tj_dtype)to); }
mock_scalar mock_fix(mock_scalar v, int dtype) { return interp_fix(v, (tj_dtype)dtype); }
mock_scalar mock_bitcast(mock_scalar v, int from, int to) { return interp_bitcast(v, (tj_dtype)from, (tj_dtype)to); }
mock_scalar *mock_rows(int64_t n) { return malloc(sizeof(mock_scalar) * (size_t)(n + 1)); }

mock_scalar mock_op(int op, int dtype, mock_scalar a, mock_scalar b, mock_scalar c)
{
	const lo_ins i = { .op = (uint8_t)op };
	switch (rt_dtype_class((tj_dtype)dtype)) {
	case RT_I: return interp_int(&i, (tj_dtype)dtype, a.i, b.i);
	case RT_F: return interp_f(&i, a.f, b.f, c.f);
	default: return interp_d(&i, a.d, b.d, c.d);
	}
}

/* A kernel with the operand of one reduction; the interpreter looks at nothing else. */
static lo_kernel around(lo_ins *ins, int red, int tree, int dtype, int64_t n)
{
	lo_kernel k = { .red = n };
	ins[0] = (lo_ins){ .dtype = (uint8_t)dtype };
	ins[1] = (lo_ins){ .op = LO_REDUCE, .dtype = (uint8_t)dtype, .imm = red, .tree = (uint8_t)tree, .nsrc = 1 };
	k.ins.v = ins;
	k.ins.n = 2;
	return k;
}

mock_scalar mock_reduce(int red, int tree, int dtype, const mock_scalar *row, int64_t n)
{
	lo_ins ins[2];
	const lo_kernel k = around(ins, red, tree, dtype, n);
	return (tree >= LO_TREE_PARTS ? interp_parts : interp_reduce)(&k, &ins[1], row);
}

/* to: where r of the PART's index is 0; step: its coefficient; each: the length of a part */
void mock_part(int red, int tree, int dtype, const mock_scalar *row, int64_t n, void *to, int64_t step, int64_t part, int64_t each)
{
	lo_ins ins[2];
	lo_kernel k = around(ins, red, tree, dtype, n);
	if (red == LO_RED_ARGMAX || red == LO_RED_ARGMIN) ins[1].dtype = TJ_I64;
	lo_buf b = { .dtype = ins[1].dtype, .role = LO_OUT };
	lo_index at = { .rcoef = step };
	const rt_kargs a = { .buf = &to };
	const lo_schedule s = { .part = each };
	k.ndim = 1;
	k.buf.v = &b;
	k.index.v = &at;
	ins[1].dyn = LO_NOREF;
	interp m = { .k = &k, .s = &s, .a = &a, .part = part };
	interp_part(&m, &ins[1], row, n);
}

/* ---- printing ---- */
static const char prelude[] =
	"typedef long i64; typedef union { i64 i; float f; double d; } S;\n"
	"typedef struct { void *const *buf; const unsigned long *num; int *fault; char *scratch; const i64 *size; char *shared; } args;\n"
	"extern S mock_load(int, const void *); extern void mock_store(int, void *, S); extern S mock_convert(S, int, int); extern S "
	"mock_bitcast(S, int, int); extern S mock_fix(S, int);\n"
	"extern S mock_op(int, int, S, S, S); extern S mock_reduce(int, int, int, const S *, i64); extern void mock_part(int, int, int, const S "
	"*, i64, void *, i64, i64, i64);\n"
	"extern S *mock_rows(i64); extern void free(void *); extern void abort(void);\n";

typedef struct printer {
	const lo_kernel *k;
	const lo_schedule *s;
	rt_text *t;
} printer;

static void put_size(printer *p, int64_t v)
{
	if (lo_is_sym(v)) rt_putf(p->t, "a->size[%lld]", (long long)(v - LO_SYM(0)));
	else rt_putf(p->t, "%lldL", (long long)v);
}

static void put_at(printer *p, const lo_ins *in)
{
	const lo_index *x = &p->k->index.v[in->index];
	put_size(p, x->offset);
	for (int i = 0; i < p->k->ndim; i++)
		if (x->coef[i]) rt_puts(p->t, " + "), put_size(p, x->coef[i]), rt_putf(p->t, " * d%d", i);
	if (x->rcoef)
		rt_puts(p->t, " + "), put_size(p, x->rcoef), rt_puts(p->t, " * (r / "), put_size(p, x->group ? x->group : 1),
			rt_puts(p->t, ")");
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++)
		rt_puts(p->t, " + "), put_size(p, x->jump[j].by), rt_putf(p->t, " * (r / %lld)", (long long)x->jump[j].every);
	if (in->dyn != LO_NOREF) rt_putf(p->t, " + v%u.i * ", in->dyn), put_size(p, in->dyn_stride);
}

/* The address of an element. */
static void put_place(printer *p, const lo_ins *in)
{
	const lo_buf *b = &p->k->buf.v[in->buf];
	const lo_kept *x = b->role == LO_KEPT ? lo_kept_at(p->s, in->buf) : NULL;
	if (x && x->where == LO_REGISTERS) rt_putf(p->t, "(char *)kept%u", in->buf);
	else if (x) rt_putf(p->t, "(a->%s + ", x->where == LO_SHARED ? "shared" : "scratch"), put_size(p, x->offset), rt_puts(p->t, ")");
	else rt_putf(p->t, "(char *)a->buf[%u]", in->buf);
	rt_puts(p->t, " + (");
	put_at(p, in);
	rt_putf(p->t, ") * %zu", tj_dtype_size((tj_dtype)in->dtype));
}

static char class_letter(int dtype)
{
	rt_class c = rt_dtype_class((tj_dtype)dtype);
	return c == RT_I ? 'i' : c == RT_F ? 'f' : 'd';
}

/* Plain C where C means the same, else a call of a function. */
static bool put_plain(printer *p, uint32_t id, const lo_ins *in, int dtype)
{
	static const char *const word[LO_PRIMS] = { [LO_ADD] = "+", [LO_SUB] = "-", [LO_MUL] = "*", [LO_DIV] = "/", [LO_EQ] = "==", [LO_NE] = "!=",
		                                        [LO_LT] = "<", [LO_LE] = "<=", [LO_GT] = ">", [LO_GE] = ">=" };
	const char c = class_letter(dtype), *w = in->op < LO_PRIMS ? word[in->op] : NULL;
	const bool truth = in->op >= LO_EQ && in->op <= LO_GE;
	if (!w || (c == 'i' && !truth) || (dtype != TJ_F32 && dtype != TJ_F64 && c != 'i')) return false;
	rt_putf(p->t, "v%u.%c = v%u.%c %s v%u.%c;\n", id, truth ? 'i' : c, in->src[0], c, w, in->src[1], c);
	return true;
}

static unsigned bits_of(float f)
{
	unsigned u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static void put_ins(printer *p, uint32_t id)
{
	const lo_ins *in = &p->k->ins.v[id];
	const int dtype = in->nsrc ? p->k->ins.v[in->src[0]].dtype : in->dtype;
	switch (in->op) {
	case LO_CONST:
		if (in->dtype == TJ_F16 || in->dtype == TJ_BF16)
			rt_putf(p->t, "v%u.f = ((union { unsigned u; float f; }){ 0x%xu }).f;\n", id,
			        bits_of(ir_load((tj_dtype)in->dtype, &in->imm).f)); /* inf and NaN are no literals */
		else
			rt_putf(p->t, "v%u.i = %lldL + %lldL;\n", id, (long long)(in->imm / 2),
			        (long long)(in->imm - in->imm / 2)); /* LONG_MIN is no literal */
		return;
	case LO_NUM: rt_putf(p->t, "v%u.i = (i64)a->num[%lld];\n", id, (long long)in->imm); return;
	case LO_SIZE: rt_putf(p->t, "v%u.i = a->size[%lld];\n", id, (long long)in->imm); return;
	case LO_INDEX:
		if (in->imm == LO_R) rt_putf(p->t, "v%u.i = r;\n", id);
		else rt_putf(p->t, "v%u.i = d%d;\n", id, (int)in->imm);
		return;
	case LO_LOAD: rt_putf(p->t, "v%u = mock_load(%d, ", id, in->dtype), put_place(p, in), rt_puts(p->t, ");\n"); return;
	case LO_STORE: rt_putf(p->t, "mock_store(%d, ", in->dtype), put_place(p, in), rt_putf(p->t, ", v%u);\n", in->src[0]); return;
	case LO_FAULT: rt_putf(p->t, "if (v%u.i && !*a->fault) *a->fault = %d;\n", in->src[0], (int)in->imm + 1); return;
	case LO_SELECT: rt_putf(p->t, "v%u = v%u.i ? v%u : v%u;\n", id, in->src[0], in->src[1], in->src[2]); return;
	case LO_CONVERT: rt_putf(p->t, "v%u = mock_convert(v%u, %d, %d);\n", id, in->src[0], dtype, in->dtype); return;
	case LO_FIX: rt_putf(p->t, "v%u = mock_fix(v%u, %d);\n", id, in->src[0], dtype); return;
	case LO_BITCAST: rt_putf(p->t, "v%u = mock_bitcast(v%u, %d, %d);\n", id, in->src[0], dtype, in->dtype); return;
	case LO_REDUCE: case LO_PART: rt_putf(p->t, "row%u[r - from] = v%u;\n", id, in->src[0]); return;
	default: break;
	}
	if (put_plain(p, id, in, dtype)) return;
	const uint32_t src[3] = { in->nsrc > 0 ? in->src[0] : 0, in->nsrc > 1 ? in->src[1] : 0, in->nsrc > 2 ? in->src[2] : 0 };
	rt_putf(p->t, "v%u = mock_op(%d, %d, v%u, v%u, v%u);\n", id, in->op, dtype, src[0], src[1], src[2]);
}

static bool gathers(const lo_ins *in) { return in->op == LO_REDUCE || in->op == LO_PART; }

/* The values of a loop are kept for its reductions, which are computed after it. */
static void put_loop(printer *p, const lo_section *s)
{
	for (uint32_t i = s->first; i < s->first + s->count; i++)
		if (gathers(&p->k->ins.v[i])) rt_putf(p->t, "S *row%u = mock_rows(to - from);\n", i);
	rt_puts(p->t, "for (r = from; r < to; r++) {\n");
	for (uint32_t i = s->first; i < s->first + s->count; i++) put_ins(p, i);
	rt_puts(p->t, "}\nr = 0;\n");
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &p->k->ins.v[i];
		const int dtype = in->nsrc ? p->k->ins.v[in->src[0]].dtype : in->dtype;
		if (!gathers(in)) continue;
		if (in->op == LO_REDUCE) rt_putf(p->t, "v%u = mock_reduce(%d, %d, %d, row%u, to - from);\n", i, (int)in->imm, in->tree, dtype, i);
		else {
			rt_putf(p->t, "mock_part(%d, %d, %d, row%u, to - from, ", (int)in->imm, in->tree, dtype, i), put_place(p, in), rt_puts(p->t, ", ");
			put_size(p, p->k->index.v[in->index].rcoef), rt_puts(p->t, ", part, each);\n");
		}
		rt_putf(p->t, "free(row%u);\n", i);
	}
}

static void put_kernel(printer *p)
{
	const lo_kernel *k = p->k;
	const int last = k->ndim - 1;
	rt_puts(p->t, prelude);
	rt_puts(p->t, "void mock_entry(const args *a, i64 begin, i64 end)\n{\n");
	for (uint32_t i = 0; i < k->buf.n; i++)
		if (k->buf.v[i].role != LO_KEPT && k->buf.v[i].aligned)
			rt_putf(p->t, "if ((unsigned long)a->buf[%u] %% 64) abort(); /* said to be aligned */\n", i);
	for (uint32_t i = 0; i < p->s->kept.n; i++) {
		const uint32_t b = p->s->kept.v[i].buf;
		if (p->s->kept.v[i].where == LO_REGISTERS) rt_putf(p->t, "i64 kept%u[", b), put_size(p, k->buf.v[b].elems), rt_puts(p->t, "];\n");
	}
	for (int i = 0; i < k->ndim; i++) rt_putf(p->t, "const i64 n%d = ", i), put_size(p, k->dim[i]), rt_puts(p->t, ";\n");
	rt_puts(p->t, "const i64 red = "), put_size(p, k->reduces ? k->red : 1);
	rt_puts(p->t, ", block = "), put_size(p, p->s->block);
	rt_puts(p->t, ", each = "), put_size(p, p->s->part);
	rt_putf(p->t, ", parts = each ? (red - 1) / each + 1 : 1, pieces = (n%d - 1) / block + 1;\n", last);
	for (uint32_t i = 0; i < k->ins.n; i++) rt_putf(p->t, "S v%u = { 0 };\n", i);
	for (int i = 0; i < k->ndim; i++) rt_putf(p->t, "i64 d%d;\n", i);
	rt_puts(p->t, "i64 r = 0;\nfor (i64 u = begin; u < end; u++) {\n"
	              "const i64 part = u % parts, w = u / parts, from = part * each, to = each && from + each < red ? from + each : red;\n"
	              "i64 rest = w / pieces; const i64 first = w % pieces * block;\n");
	rt_putf(p->t, "const i64 behind = first + block < n%d ? first + block : n%d;\n", last, last);
	for (int i = last - 1; i >= 0; i--) rt_putf(p->t, "d%d = rest %% n%d; rest /= n%d;\n", i, i, i);
	rt_putf(p->t, "for (d%d = first; d%d < behind; d%d++) {\n", last, last, last);
	for (uint32_t i = 0; i < k->section.n; i++) {
		const lo_section *s = &k->section.v[i];
		rt_puts(p->t, "{\n");
		if (s->loop) put_loop(p, s);
		else for (uint32_t j = 0; j < s->count; j++) put_ins(p, s->first + j);
		rt_puts(p->t, "}\n");
	}
	rt_puts(p->t, "}\n}\n}\n");
}

/* ---- compiling ---- */
typedef struct known { uint64_t hash[2]; rt_entry entry; } known;
static struct { pthread_mutex_t lock; rt_vec(known) known; } codes = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The text is control flow; mock_op() and others compute. tcc takes 5 ms for it, gcc 50. */
static const char *compiler(void)
{
	return access("/usr/bin/tcc", X_OK) == 0 ? "tcc" : "cc -O0";
}

/* Compiles the text; leaves the library `so`. */
static bool compile_text(const char *text, const char *so)
{
	char path[] = "/tmp/mock-XXXXXX.c", made[600], command[1400];
	int fd = mkstemps(path, 2);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
	bool ok = f && fputs(text, f) >= 0;
	if (f) fclose(f);
	snprintf(made, sizeof made, "%.500s-%d", so, (int)getpid());
	snprintf(command, sizeof command, "%s -w -shared -fPIC -o %s %s", compiler(), made, path);
	ok = ok && system(command) == 0 && rename(made, so) == 0;
	if (ok) unlink(path); /* else it is there to be looked at */
	return ok;
}

/* TEST_OBJECTS: a folder in which the libraries stay for other programs. */
static rt_entry build(const char *text, const uint64_t *hash, rt_err *err)
{
	const char *folder = getenv("TEST_OBJECTS");
	char so[560];
	if (folder) snprintf(so, sizeof so, "%.500s/mock-%016llx%016llx.so", folder, (unsigned long long)hash[0], (unsigned long long)hash[1]);
	else snprintf(so, sizeof so, "/tmp/mock-%d-%016llx.so", (int)getpid(), (unsigned long long)hash[0]);
	const bool ok = (folder && access(so, R_OK) == 0) || compile_text(text, so);
	void *library = ok ? dlopen(so, RTLD_NOW) : NULL;
	rt_entry entry = NULL;
	void *symbol = library ? dlsym(library, "mock_entry") : NULL;
	memcpy(&entry, &symbol, sizeof entry);
	if (!entry) rt_fail(err, TJ_ERR_COMPILE, "mock", "a kernel does not compile, see /tmp/mock-*.c");
	if (!folder) unlink(so);
	return entry;
}

rt_entry mock_kernel(const char *text, rt_err *err)
{
	known k;
	rt_hash128(text, strlen(text), k.hash);
	pthread_mutex_lock(&codes.lock);
	for (uint32_t i = 0; i < codes.known.n; i++)
		if (!memcmp(codes.known.v[i].hash, k.hash, sizeof k.hash)) {
			k.entry = codes.known.v[i].entry;
			pthread_mutex_unlock(&codes.lock);
			return k.entry;
		}
	k.entry = build(text, k.hash, err);
	if (k.entry) rt_push(&codes.known, k);
	pthread_mutex_unlock(&codes.lock);
	return k.entry;
}

/* ---- the target ---- */
static void drop_code(rt_shared *code) { free(code); }

static tj_status compile(lo_compile *job, rt_err *err)
{
	rt_text all = { 0 };
	for (int i = 0; i < job->nkernel; i++) {
		rt_text t = { 0 };
		printer p = { job->kernel[i], job->schedule[i], &t };
		put_kernel(&p);
		job->fn[i] = mock_kernel(rt_str(&t), err);
		rt_puts(&all, rt_str(&t));
		rt_text_free(&t);
		if (!job->fn[i]) {
			rt_text_free(&all);
			return err->code;
		}
	}
	job->code = calloc(1, sizeof *job->code);
	*job->code = (rt_shared){ .refs = 1, .bytes = all.n, .destroy = drop_code };
	if (job->keep_text) job->text = rt_strdup(rt_str(&all));
	rt_text_free(&all);
	return TJ_OK;
}

static const lo_backend *find(const char *backend, const char **why)
{
	static const lo_backend b = { .name = "mock", .compile = compile, .width = interp_width };
	(void)backend, (void)why;
	return &b;
}

/* Differs from the CPU on purpose: smaller kernels, other units, other parts, kept rows in each kind of memory. */
static lo_where keep(const lo_target *t, lo_vec v, int64_t row, size_t *room)
{
	(void)v;
	enum { FEW = 1024, MORE = 2048 };
	*room = (size_t)row;
	return row <= FEW ? LO_REGISTERS : row <= MORE ? LO_SHARED : row <= t->kept_bytes ? LO_SCRATCH : LO_RECOMPUTED;
}

static void units(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	const int64_t last = k->dim[k->ndim - 1];
	s->block = s->vec == LO_VEC_R ? 1 : last < t->lanes ? last : t->lanes;
	s->unit_ns = 1;
}

static int64_t part(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes)
{
	(void)k;
	return column ? IR_TREE_COLUMN_ROWS * t->least_chunks
	              : (lanes > 1 ? lanes : IR_TREE_LANES(sizeof(float))) * IR_TREE_ROWS * t->least_chunks;
}

const lo_target mock_target = {
	.name = "mock",
	.backend = "mock",
	.find = find,
	.weight = 40,
	.members = 12,
	.least_part = 8,
	.least_border = 256,
	.least_axis = 8,
	.redundant = 2,
	.few_rows = 4,
	.long_row = 1 << 12,
	.split_row = 1 << 13,
	.few_columns = 8,
	.split_column = 1 << 8,
	.splits_searches = true,
	.far_step = 8,
	.transposed = 1 << 10,
	.kept_bytes = 4096,
	.shared_bytes = INT64_MAX,
	.kept_rows = 1,
	.unit_bytes = 1024,
	.unit_ns = 1e3,
	.lanes = 16,
	.tile_rows = 8,
	.op_ns = 0.01,
	.byte_ns = 0.01,
	.same_ns = 0.01,
	.far_ns = 0.01,
	.parts = 4,
	.least_chunks = 2,
	.most_chunks = 4,
	.join_ns = 1,
	.lane_ns = 1,
	.strip_elems = 1 << 20,
	.far_elems = 1 << 20,
	.far_bytes = 1 << 20,
	.again_after = 1,
	.stored_after = 3,
	.again_work = 24,
	.vec = lo_vec_of_tree,
	.keep = keep,
	.units = units,
	.part = part,
};
