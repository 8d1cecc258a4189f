/* SPDX-License-Identifier: MIT */
/* Notes: the compiler reports each decision as text in tj_explain(), as a struct to a callback and as a line of the log, with
 * the file:line of the user and a hint. Guards that the user drops, and the audit of them. */
#include "test/kit.h"

#include "jit/ctx.h"
#include "runtime/matmul.h"

#include <stdatomic.h>

/* ---- what was told ---- */
typedef struct note {
	char kind[24], site[64], expected[64], found[64], hint[256], text[600];
	int arg, dim, event, state, trace, segment;
} note;
typedef struct told { int n; note v[64]; } told;

static void tell(void *self, const tj_reason *r)
{
	told *t = self;
	if (t->n == 64) t->n = 0;
	note *n = &t->v[t->n++];
	*n = (note){ .arg = r->arg, .dim = r->dim, .event = r->event, .state = r->state, .trace = r->trace, .segment = r->segment };
	snprintf(n->kind, sizeof n->kind, "%s", r->kind);
	snprintf(n->site, sizeof n->site, "%s", r->site);
	snprintf(n->expected, sizeof n->expected, "%s", r->expected);
	snprintf(n->found, sizeof n->found, "%s", r->found);
	snprintf(n->hint, sizeof n->hint, "%s", r->hint);
	snprintf(n->text, sizeof n->text, "%s", r->text);
}

static char log_text[1 << 17];
static void keep_line(void *self, const char *line)
{
	(void)self;
	size_t n = strlen(log_text);
	snprintf(log_text + n, sizeof log_text - n, "%s\n", line);
}

static told reasons, notes;
static tj_ctx *open_logged(const char *topics, int audit)
{
	log_text[0] = 0;
	reasons.n = notes.n = 0;
	return tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = topics, .log_to = keep_line, .audit = audit));
}

#define FN(c, body, self, nin, nout, ...) \
	tj_compile(c, body, self, \
	           TJ_OPTS(tj_compile_opts, #body, nin, nout, .on_recompile = tell, .on_recompile_self = &reasons, .on_note = tell, \
	                   .on_note_self = &notes, __VA_ARGS__))

static char *explained(tj_fn *f)
{
	static char *s;
	free(s);
	return s = kit_explain(f);
}

static void contains(const char *text, const char *part)
{
	if (!strstr(text, part)) fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* The last note of this kind; it must name a place. */
static const note *find(const told *t, const char *kind)
{
	for (int i = t->n; i-- > 0;)
		if (!strcmp(t->v[i].kind, kind)) {
			contains(t->v[i].site, "test_notes.c:");
			assert_null(strstr(t->v[i].text, "unknown"));
			return &t->v[i];
		}
	fail_msg("nothing was told of \"%s\"", kind);
	return NULL;
}

/* The text of a note is in tj_explain() and in the log, too. */
static void everywhere(tj_fn *f, const note *n, const char *part)
{
	contains(n->text, part);
	contains(explained(f), part);
	contains(log_text, part);
}

static bool llvm(void) { return !strcmp(kit_backend, "llvm"); }

/* ---- recompiles ---- */
typedef struct model { tj_tensor *w; int n; } model;
static void scaled(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], ((model *)self)->w); }
static void state(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("recompiles", 0);
	model m = { tj_param(c, TJ_F32, TJ_SHAPE(2)), 0 };
	tj_fn *f = FN(c, scaled, &m, 1, 1, .mode = TJ_DIRECT, .state = TJ_VARS(&m.w));
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	m.w = tj_param(c, TJ_F32, TJ_SHAPE(1));
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	const note *n = find(&reasons, "capture");
	assert_int_equal(n->state, 0);
	assert_int_equal(n->arg, 1);
	assert_int_equal(n->dim, 0);
	assert_string_equal(n->expected, "2");
	assert_string_equal(n->found, "1");
	assert_int_equal(n->trace, 0);
	assert_int_equal(n->segment, 0);
	everywhere(f, n, "operand 1 of mul (state variable 0), dim 0: capture differs in size: expected 2, found 1");
	contains(log_text, "recompiles: [scaled/0/0] ");
	kit_ok(c);
	tj_close(c);
}

static void argument(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("recompiles,guards,cache", 0);
	model m = { kit_param(c, 2), 0 };
	tj_fn *f = FN(c, scaled, &m, 1, 1, .max_entries = 2, .dynamic = TJ_DYNAMIC_OFF);
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	const note *n = find(&reasons, "size");
	assert_int_equal(n->arg, 0);
	everywhere(f, n, "argument 0: dim 0 was 2, is 3 (trace 0); pad the argument to one size");
	contains(log_text, "recompiles: [scaled/1] ");
	contains(log_text, "guards: [scaled/1] argument 0 is f32[3]");
	contains(log_text, "guards: [scaled/1/0] mul at ");
	contains(log_text, "cache: [scaled/1] new signature, 1 arguments");
	tj_call1(f, TJ_LIST(F32(c, 1)));
	everywhere(f, find(&reasons, "eviction"), "raise .max_entries, or pad");
	contains(log_text, "cache: [scaled/0] evicted");
	kit_ok(c);
	tj_close(c);
}

/* The first other size is compiled for, those after it find its code; thousands of them are one screen. */
static void sizes(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("recompiles,guards,cache,dynamic", 0);
	model m = { kit_param(c, 2), 0 };
	tj_fn *f = FN(c, scaled, &m, 1, 1, .mode = TJ_VERIFY);
	for (int i = 2; i < 12; i++) tj_call1(f, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(i), tj_f(1))));
	assert_int_equal(reasons.n, 1);
	everywhere(f, find(&reasons, "size"), "argument 0: dim 0 was 2, is 3 (trace 0); from now on the size is an argument of the code");
	contains(explained(f), "signature 0: f32[s0_0]; 10 sizes, which share code");
	contains(explained(f), "and 7 more sizes: 0 calls hit them");
	contains(log_text, "dynamic: [scaled/0] test/unit/test_notes.c:");
	contains(log_text, ": f32[s0_0]\n");
	contains(log_text, "cache: [scaled/0.3] new size, 1 arguments");
	contains(log_text, "guards: [scaled/0.3] argument 0 is f32[5]");
	kit_ok(c);
	tj_close(c);
}

/* An event that does not match leaves the trace where it stands: what matched so far is shared. */
static void chooses(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_abs(in[0]);
	out[0] = ((model *)self)->n ? tj_neg(y) : tj_square(y);
}
static void side_exit(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("recompiles", 0);
	model m = { 0 };
	tj_fn *f = FN(c, chooses, &m, 1, 1, .mode = TJ_VERIFY);
	for (m.n = 0; m.n < 2; m.n++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	const note *n = find(&reasons, "op");
	assert_int_equal(n->event, 1);
	assert_int_equal(n->segment, 0);
	everywhere(f, n, "event 1: op differs: expected square at test/unit/test_notes.c:");
	contains(n->hint, "tj_where()");
	contains(explained(f), "1 side exits");
	assert_int_equal(kit_stats(f).side_exits, 1);
	kit_ok(c);
	tj_close(c);
}

/* The short sum becomes additions, and each of their operands is stored for the same reason: one line. */
static void distances(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *q = tj_sum(tj_square(tj_sub(tj_unsqueeze(in[0], 1), tj_unsqueeze(in[0], 0))), TJ_AXES(2), false);
	out[0] = tj_sum(tj_exp(tj_neg(q)), TJ_ALL, false);
	out[1] = tj_amax(q, TJ_ALL, false);
}
static void alike(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, distances, NULL, 1, 2, .mode = TJ_VERIFY);
	tj_tensor *y[2];
	tj_call(f, y, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(256, 8), tj_f(1))));
	const char *text = explained(f);
	if (!strcmp(kit_backend, "llvm")) {
		contains(text, ", 256.0 KiB (8 times)\n");
		contains(text, "fusion: sub at ");
		assert_null(strstr(strstr(text, "fusion: sub at ") + 1, "fusion: sub at "));
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- boundaries, and what they cost ---- */
static void late(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *b = tj_mul(in[0], tj_f(2)), *u = tj_neg(b);
	if (tj_truth(tj_gt(tj_sum(u, TJ_ALL, false), tj_f(1e9)))) u = tj_abs(u);
	out[0] = tj_add(b, u); /* b had a reader at the boundary, and was not kept */
}
static void boundaries(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, late, NULL, 1, 1, .mode = TJ_VERIFY);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 0, 0);
	const note *n = find(&notes, "boundary");
	assert_int_equal(n->segment, 0);
	contains(n->text, "truth ends segment 0: the pending ops run here, and");
	contains(n->text, "bytes) are stored");
	contains(n->hint, "tj_where()");
	contains(explained(f), "truth ends segment 0");
	contains(log_text, "plan: [late/0/0] ");
	n = find(&notes, "recompute");
	everywhere(f, n, "mul at test/unit/test_notes.c:");
	everywhere(f, n, "was not kept at the boundary at test/unit/test_notes.c:");
	contains(explained(f), "recomputed 1 times");
	for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	assert_int_equal(kit_stats(f).recomputed, 1);
	kit_ok(c);
	tj_close(c);
}

static void reads_item(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_mul(in[0], tj_f(tj_item(tj_sum(in[0], TJ_ALL, false))));
}
static void other_boundaries(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("", 0);
	tj_fn *f = FN(c, reads_item, NULL, 1, 1, .mode = TJ_VERIFY);
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	contains(find(&notes, "boundary")->hint, "0-d tensor");
	contains(explained(f), "item ends segment 0");
	kit_ok(c);
	tj_close(c);
}

/* ---- what lowering decided ---- */
static void rows_and_columns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *e = tj_exp(in[0]);
	out[0] = tj_div(e, tj_sum(e, TJ_AXES(1), true));
	out[1] = tj_sum(tj_mul(out[0], in[0]), TJ_AXES(0), false);
}
static void fusion_refused(void **s)
{
	(void)s;
	if (!llvm()) return; /* nothing is fused */
	tj_ctx *c = open_logged("fusion", 0);
	tj_tensor *out[2];
	tj_fn *f = FN(c, rows_and_columns, NULL, 1, 2, .mode = TJ_VERIFY);
	tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(64, 32), tj_f(0.5))));
	const note *n = find(&notes, "fusion");
	contains(n->text, "is not part of the kernel that computes");
	contains(n->hint, "memory");
	everywhere(f, n, strstr(n->text, "is not part"));
	contains(log_text, "fusion: [rows_and_columns/0/0] group");
	contains(log_text, "fusion: [rows_and_columns/0/0] test/unit/test_notes.c:");
	kit_ok(c);
	tj_close(c);
}

static void differences(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_cast(in[0], TJ_F32), *left = tj_slice(x, 0, 0, 63, 1), *right = tj_slice(x, 0, 1, 64, 1);
	out[0] = tj_mul(tj_sub(right, left), tj_add(right, left));
}
static void repeated(void **s)
{
	(void)s;
	if (!llvm()) return; /* nothing is fused */
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, differences, NULL, 1, 1, .mode = TJ_VERIFY);
	tj_call1(f, TJ_LIST(tj_full(TJ_U8, TJ_SHAPE(64), tj_i(7))));
	const note *n = find(&notes, "memory");
	everywhere(f, n, "is computed again in the kernel that computes ");
	contains(n->text, "it is read at 2 places there, and its 256 bytes need not be stored");
	kit_ok(c);
	tj_close(c);
}

/* ---- what is stored, and why ---- */
/* Calls a function of f32[n,n], which says `why` in a note of the kind. */
static void told_of(tj_ctx *c, tj_body *body, int64_t n, int nout, const char *kind, const char *why)
{
	tj_tensor *out[2];
	tj_fn *f = FN(c, body, NULL, 1, nout, .mode = TJ_VERIFY);
	notes.n = 0;
	tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(n, n), tj_f(0.5))));
	everywhere(f, find(&notes, kind), why);
	kit_ok(c);
}

static tj_tensor *part(tj_tensor *x, int axis, int64_t i) { return tj_slice(x, axis, i, 252 + i, 1); }
static void costly(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *e = tj_exp(in[0]);
	out[0] = tj_add(part(e, 0, 0), tj_add(part(e, 0, 1), tj_add(part(e, 0, 2), part(e, 0, 3))));
}
static void whole_too(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_neg(in[0]), *p = tj_matmul(x, x);
	out[0] = tj_add(part(x, 0, 0), part(x, 0, 1));
	out[1] = p;
}
static void two_axes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *e = tj_exp(in[0]);
	out[0] = tj_sum(e, TJ_AXES(0), false);
	out[1] = tj_sum(tj_exp(e), TJ_AXES(1), false);
}
static void sorts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(tj_sort(tj_neg(in[0]), 1, false, NULL));
}
static void gathered(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_index_select(tj_exp(in[0]), 0, tj_argmax(in[0], 1, false));
}
static void beside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_cat(TJ_LIST(tj_exp(in[0]), in[0]), 0);
	out[0] = tj_sum(x, TJ_AXES(1), false);
}
static void multiplied(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_exp(in[0]);
	out[0] = tj_matmul(x, in[0]);
}
static void across(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_transpose(in[0], 0, 1);
	out[0] = tj_div(x, tj_sum(tj_exp(x), TJ_AXES(1), true));
}
static void small(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_sort(tj_neg(in[0]), 1, false, NULL), tj_sort(tj_exp(in[0]), 1, false, NULL));
}

static void stored(void **s)
{
	(void)s;
	if (!llvm()) return; /* the evaluator stores all */
	tj_ctx *c = open_logged("fusion,plan", 0);
	told_of(c, costly, 256, 1, "fusion",
	        ": it is read at 4 places there, and not computed at each: that costs about 10 instructions at each place, and at most 8 for "
	        "each element may be added; fewer places, or fewer instructions, would avoid it; its values go through memory between two "
	        "kernels, 256.0 KiB");
	told_of(c, whole_too, 256, 2, "fusion",
	        ": it is read at 2 places there, and not computed at each: it is read as a whole, too: as an output, or by an op that reads "
	        "memory; its values go through memory between two kernels, 256.0 KiB");
	told_of(c, two_axes, 256, 2, "stored", "is stored, 256.0 KiB, for sum at test/unit/test_notes.c:");
	contains(log_text, " from it: one of them reduces rows, the other one columns\n");
	told_of(c, sorts, 256, 1, "stored", ": a routine computes it, and stores its result");
	contains(log_text, "is stored, 256.0 KiB, for sort at test/unit/test_notes.c:");
	contains(log_text, ": a routine computes that, and reads its operands from memory\n");
	told_of(c, gathered, 256, 1, "stored", ": that reads it at indices which are known only when it runs");
	told_of(c, beside, 256, 1, "stored", "is stored, 512.0 KiB, for sum at test/unit/test_notes.c:");
	contains(log_text, ": its operands are stored side by side\n");
	told_of(c, multiplied, 256, 1, "fusion",
	        ": a matrix product computes only a few plain ops on arguments as it reads an operand; its values go through memory between two "
	        "kernels, 256.0 KiB");
	told_of(c, across, 1024, 1, "stored", ": rows of it, as that reads them, have no one stride, or their elements lie far apart");
	told_of(c, small, 16, 1, "stored", "is stored, 4.0 KiB, and so are 3 more of less than 64 KiB");
	tj_close(c);
}

static void draws_ints(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_scatter_add(in[0], 0, in[1], in[0]);
}
static void evaluator(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, draws_ints, NULL, 2, 1, .mode = TJ_VERIFY);
	tj_call1(f, TJ_LIST(F32(c, 1, 2), tj_from_data(c, TJ_I64, TJ_SHAPE(2), ((int64_t[]){ 0, 0 }))));
	if (llvm()) everywhere(f, find(&notes, "library"), "is computed by own loops: it follows the order of the index");
	else everywhere(f, find(&notes, "evaluator"), "is computed by the evaluator: it was requested, or there is no back end");
	contains(explained(f), llvm() ? "back end: llvm, " : "back end: the evaluator (as requested)");
	kit_ok(c);
	tj_close(c);
}

/* An op without elements to gather from has no kernel. */
static void gathers(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_index_select(in[0], 1, in[1]); }
static void op_without_kernel(void **s)
{
	(void)s;
	if (!llvm()) return;
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, gathers, NULL, 2, 1, .mode = TJ_VERIFY);
	const int64_t at[1] = { 0 };
	tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 0), at), tj_from_data(c, TJ_I64, TJ_SHAPE(1), at)));
	everywhere(f, find(&notes, "evaluator"), "is computed by the evaluator: it reads from a tensor without elements; it runs on one thread");
	(void)tj_check(c); /* the index is out of range */
	tj_close(c);
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }
static void call_product(tj_fn *f, tj_dtype t)
{
	tj_call1(f, TJ_LIST(tj_full(t, TJ_SHAPE(4, 8), tj_f(1)), tj_full(t, TJ_SHAPE(8, 16), tj_f(1))));
}

/* A product is a kernel like others. If the settings prefer the library, its reason is told, or the reason against it. */
static void library(void **s)
{
	(void)s;
	if (!llvm()) return;
	static const tj_dtype lacking[] = { TJ_F64, TJ_BF16, TJ_I32 };
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, product, NULL, 2, 1, .mode = TJ_VERIFY);
	call_product(f, TJ_F32);
	call_product(f, TJ_F64);
	assert_int_equal(notes.n, 0);
	tj_set_settings(c, TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_LIBRARY));
	for (size_t i = 0; i < RT_COUNT(lacking); i++) {
		notes.n = 0;
		call_product(f, lacking[i]);
		assert_int_equal(notes.n, 1);
		everywhere(f, find(&notes, "library"), "is computed by a kernel: oneDNN is asked for products of f32 only");
	}
	call_product(f, TJ_F32);
	const note *n = find(&notes, "library");
	assert_string_equal(n->expected, "matmul");
	if (!strcmp(n->found, "dnnl_sgemm")) everywhere(f, n, "is computed by dnnl_sgemm: the context's settings prefer the library");
	else everywhere(f, n, "is computed by a kernel: oneDNN is missing or switched off");
	kit_ok(c);
	tj_close(c);
}

/* A fast product of bf16 has instructions of its own where the CPU has them, unless it has one row and plain columns. */
static void fast_product(void **s)
{
	(void)s;
	if (!llvm()) return;
	tj_ctx *c = open_logged("plan", 0);
	tj_fn *f = FN(c, product, NULL, 2, 1, .mode = TJ_VERIFY, .numerics = TJ_FAST);
	tj_tensor *row = tj_full(TJ_BF16, TJ_SHAPE(1, 8), tj_f(1)), *b = tj_full(TJ_BF16, TJ_SHAPE(8, 16), tj_f(1));
	call_product(f, TJ_F32);
	tj_call1(f, TJ_LIST(row, b));
	assert_int_equal(notes.n, 0);
	call_product(f, TJ_BF16);
	if (rt_bf16_pairs())
		everywhere(f, find(&notes, "library"),
		           "is computed by a kernel that multiplies two bf16 at a time (vdpbf16ps): TJ_FAST allows its order");
	else assert_int_equal(notes.n, 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- direct mode and budgets ---- */
static void halves(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	while (tj_truth(tj_gt(x, tj_f(1)))) x = tj_mul(x, tj_f(0.5));
	out[0] = x;
}
static void key_refused(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("recompiles", 0);
	tj_fn *f = FN(c, halves, NULL, 1, 1, .mode = TJ_DIRECT);
	tj_call1(f, TJ_LIST(F32(c, 1 << 20)));
	const note *n = find(&reasons, "direct");
	contains(n->hint, "tj_where()");
	everywhere(f, n, "a call of this key has more than 16 segments; its body runs on every call");
	kit_ok(c);
	tj_close(c);
}

static void slices(tj_tensor **out, tj_tensor *const *in, void *self)
{
	int64_t at = ((model *)self)->n;
	out[0] = tj_slice(in[0], 0, at, at + 1, 1);
}
static void budget(void **s)
{
	(void)s;
	if (llvm()) return; /* hundreds of compiles */
	tj_ctx *c = open_logged("recompiles,cache", 0);
	model m = { 0 };
	tj_fn *f = FN(c, slices, &m, 1, 1, .mode = TJ_VERIFY);
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(300), tj_f(1));
	for (m.n = 0; m.n < 260; m.n++) tj_call1(f, TJ_LIST(x));
	const note *n = find(&reasons, "budget");
	assert_int_equal(n->trace, 0);
	contains(n->hint, "make the value a tensor or a number");
	everywhere(f, n, "trace 0 has more than 256 segments: it is dropped");
	contains(log_text, "cache: [slices/0] dropped: more than 256 segments");
	kit_ok(c);
	tj_close(c);
}

/* ---- counts ---- */
static void counts(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("", 0);
	model m = { kit_param(c, 2), 0 };
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_fn *f = FN(c, scaled, &m, 1, 1, .mode = (tj_mode)mode, .state = TJ_VARS(&m.w));
		tj_tensor *x = F32(c, 1, 2), *y = F32(c, 1, 2, 3);
		for (int i = 0; i < 6; i++) tj_call1(f, TJ_LIST(x)); /* 1 new, 5 as before */
		for (int i = 0; i < 2; i++) tj_call1(f, TJ_LIST(y)); /* 1 new, 1 as before */
		for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(x)); /* 1 by key, 2 as before */
		tj_ctx *d = kit_clone(c);
		for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(F32(d, 1, 2))); /* 1 by another's key, 2 as before */
		tj_close(d);
		tj_ctx_use(c);
		tj_stats n = kit_stats(f);
		assert_int_equal(n.calls, 14);
		assert_int_equal(n.hits_last, 10);
		assert_int_equal(n.hits_key, 1);
		assert_int_equal(n.hits_table, 1);
		assert_int_equal(n.signatures, 2);
		assert_int_equal(n.hits, 12);
		assert_int_equal(n.direct, mode == TJ_DIRECT ? 11 : 0);
		contains(
			explained(f),
			"10 the same one as the call before, 1 by a key of their context, 1 by a key of another context, 2 with a new signature, 0 nested");
		contains(explained(f), "trace 0: 11 calls hit it"); /* direct calls, too */
		contains(explained(f), "trace 0.1: 1 calls hit it");
		contains(explained(f), "code generation ");
	}
	kit_ok(c);
	tj_close(c);
}

static void guard_times(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .time_guards = true));
	tj_fn *f = kit_fn(c, "late", late, NULL, 1, 1);
	for (int i = 0; i < 20; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	tj_stats n = kit_stats(f);
	assert_int_equal(n.checks, 19);
	assert_int_equal(n.events, 6 * 19); /* the calls that recorded nothing */
	assert_true(n.check_ns > 0 && n.check_ns < 1e6 && n.event_ns > 0 && n.event_ns < 1e7);
	contains(explained(f), "ns to compare a key");
	tj_close(c);
}

/* ---- guards dropped on purpose ---- */
typedef struct filter { const char *drop; int seen, droppable; char all[4096]; } filter;
static bool keep_all_but(void *self, const tj_guard *g)
{
	filter *x = self;
	size_t n = strlen(x->all);
	snprintf(x->all + n, sizeof x->all - n, "%s: %s\n", g->kind, g->text);
	contains(g->site, "test_notes.c:");
	x->seen++;
	x->droppable += g->droppable;
	return !x->drop || strcmp(g->kind, x->drop);
}
#define FILTERED(c, body, self, nin, ...) FN(c, body, self, nin, 1, .guard_filter = keep_all_but, .guard_filter_self = &x, __VA_ARGS__)

static const note *unguarded(tj_fn *f, const char *part)
{
	const note *n = find(&reasons, "unguarded");
	for (int i = 0; i < reasons.n; i++)
		if (!strcmp(reasons.v[i].kind, "unguarded") && strstr(reasons.v[i].text, part)) n = &reasons.v[i];
	contains(n->hint, ".guard_filter");
	contains(n->site, "test_notes.c:");
	contains(n->text, part);
	contains(explained(f), part);
	return n;
}

static void drop_attribute(void **s)
{
	(void)s;
	for (int audit = 0; audit < 2; audit++) {
		filter x = { .drop = "attribute" };
		model m = { 0 };
		tj_ctx *c = open_logged("", audit);
		tj_fn *f = FILTERED(c, slices, &m, 1, .mode = TJ_VERIFY);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 1);
		contains(x.all, "attribute: slice at test/unit/test_notes.c:");
		contains(x.all, "capture: slice at ");
		assert_int_equal(x.droppable, 4);
		m.n = 1;
		for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 1); /* as declared: it does not matter */
		assert_int_equal(kit_stats(f).plans, 1);
		contains(explained(f), "guard dropped by .guard_filter: slice at ");
		assert_int_equal(reasons.n, audit); /* told once */
		if (audit) assert_int_equal(unguarded(f, "attribute 1 of slice at test/unit/test_notes.c:")->dim, 1);
		if (audit) unguarded(f, "was 0, is 1");
		tj_call1(f, TJ_LIST(F32(c, 1, 2))); /* other guards stand */
		assert_int_equal(kit_stats(f).plans, 2);
		kit_ok(c);
		tj_close(c);
	}
}

static void drop_nothing(void **s)
{
	(void)s;
	filter x = { .drop = NULL };
	model m = { 0 };
	tj_ctx *c = open_logged("", 1);
	tj_fn *f = FILTERED(c, slices, &m, 1, .mode = TJ_VERIFY);
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	m.n = 1;
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 2);
	assert_string_equal(find(&reasons, "attribute")->found, "1");
	x.drop = "capture"; /* must stand: memory would not be safe */
	m.n = 0;
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 4))), 4);
	assert_int_equal(kit_stats(f).plans, 3);
	kit_ok(c);
	tj_close(c);
}

static void drop_constant(void **s)
{
	(void)s;
	for (int k = 0; k < 4; k++) {
		int audit = k & 1, direct = k >> 1;
		filter x = { .drop = "constant" };
		tj_ctx *c = open_logged("", audit);
		model m = { kit_param(c, 3), 0 };
		tj_fn *f = FILTERED(c, scaled, &m, 1, .mode = direct ? TJ_DIRECT : TJ_VERIFY, .freeze = TJ_VARS(&m.w));
		for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 3, 6);
		tj_write(m.w, (float[]){ 5 }, 4);
		for (int i = 0; i < 3; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
		if (!audit) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 3, 6); /* the folded value stays */
		assert_int_equal(kit_stats(f).plans, 1);
		contains(x.all, "constant: mul at ");
		if (direct) contains(x.all, "constant: argument 1 is constant #");
		if (audit) unguarded(f, "was ");
		else assert_int_equal(reasons.n, 0);
		(void)tj_check(c);
		tj_close(c);
	}
}

static void drop_constant_argument(void **s)
{
	(void)s;
	filter x = { .drop = "constant" };
	tj_ctx *c = open_logged("", 1);
	model m = { kit_param(c, 3), 0 };
	tj_fn *f = FILTERED(c, scaled, &m, 1, .mode = TJ_VERIFY);
	tj_tensor *a = tj_constant(c, TJ_F32, TJ_SHAPE(1), (float[]){ 2 }), *b = tj_constant(c, TJ_F32, TJ_SHAPE(1), (float[]){ 9 });
	assert_f32(tj_call1(f, TJ_LIST(a)), 6);
	assert_f32(tj_call1(f, TJ_LIST(a)), 6);
	assert_int_equal(reasons.n, 0);
	assert_f32(tj_call1(f, TJ_LIST(b)), 6);
	assert_int_equal(kit_stats(f).plans, 1);
	assert_int_equal(kit_stats(f).entries, 1);
	unguarded(f, "the content of argument 0 was ");
	kit_ok(c);
	tj_close(c);
}

static void adds_scalar(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_i(tj_arg_i(0))); }
static void drop_scalar(void **s)
{
	(void)s;
	for (int k = 0; k < 4; k++) {
		int audit = (k & 1) * 2, direct = k >> 1;
		filter x = { .drop = "scalar" };
		tj_ctx *c = open_logged("", audit);
		tj_tensor *y = NULL;
		tj_fn *f = FILTERED(c, adds_scalar, NULL, 1, .mode = direct ? TJ_DIRECT : TJ_VERIFY);
		for (int i = 0; i < 6; i++) {
			assert_int_equal(tj_call_ex(f, &y, TJ_LIST(F32(c, 1)), TJ_SCALARS(TJ_I(i < 2 ? 7 : 8))), TJ_OK);
			if (!direct) assert_f32(y, i < 2 ? 8 : 9); /* the body runs: sound */
			else if (!audit) assert_f32(y, 8);
		}
		assert_int_equal(kit_stats(f).entries, 1);
		contains(x.all, "scalar: int scalar 0 is 7");
		contains(explained(f), "guard dropped by .guard_filter: int scalar 0 is 7");
		if (audit) unguarded(f, "int scalar 0 was 7, is 8");
		kit_ok(c);
		tj_close(c);
	}
}

static double factor[2];
static void loops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
	for (int i = 0; i < 2; i++) out[0] = tj_mul(out[0], tj_f(factor[i]));
}
static void drop_numbers(void **s)
{
	(void)s;
	for (int audit = 0; audit < 2; audit++) {
		filter x = { .drop = "numbers" };
		tj_ctx *c = open_logged("", audit);
		tj_fn *f = FILTERED(c, loops, NULL, 1, .mode = TJ_VERIFY);
		factor[0] = factor[1] = 2;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), 4);
		contains(x.all, "numbers: mul at ");
		factor[0] = factor[1] = 3;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), 9);
		assert_int_equal(reasons.n, 0);
		factor[1] = 5;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), 9); /* the first is taken for all */
		assert_int_equal(kit_stats(f).plans, 1);
		if (audit) unguarded(f, "a number of mul at test/unit/test_notes.c:");
		if (audit) unguarded(f, "was 3, is 5");
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- a back end that is not there ---- */
static const lo_backend *nowhere(const char *name, const char **why)
{
	(void)name;
	*why = "nowhere to be found";
	return NULL;
}

static int times(const char *text, const char *part)
{
	int n = 0;
	for (; (text = strstr(text, part)) != NULL; text++) n++;
	return n;
}

static void square(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[0]); }
static void plus_itself(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], in[0]); }

/* It is missed when the first kernel must be compiled, and told once. */
static void no_back_end(void **s)
{
	(void)s;
	if (strcmp(kit_backend, "llvm")) return;
	tj_ctx *c = open_logged(NULL, 0);
	const lo_target *cpu = jit_target(c->engine);
	assert_ptr_equal(cpu, &lo_cpu);
	lo_target t = *cpu;
	t.find = nowhere;
	c->engine->target = &t;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 }));
	tj_fn *f = FN(c, square, NULL, 1, 1, .mode = TJ_VERIFY), *g = FN(c, plus_itself, NULL, 1, 1, .mode = TJ_VERIFY),
	      *h = FN(c, late, NULL, 1, 1, .mode = TJ_VERIFY);
	if (rt_onednn()) { /* a product of the library needs no kernel */
		tj_set_settings(c, TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_LIBRARY));
		assert_f32(tj_call1(f, TJ_LIST(x)), 7, 10, 15, 22);
		assert_int_equal(times(log_text, "nowhere"), 0);
	} else printf("SKIP no_back_end: oneDNN is missing\n");
	for (int i = 0; i < 2; i++) assert_f32(tj_call1(g, TJ_LIST(x)), 2, 4, 6, 8);
	tj_call1(h, TJ_LIST(x));
	for (int i = 0; i < 4; i++) assert_f32(tj_add(x, x), 2, 4, 6, 8); /* compiled when it comes again */
	kit_ok(c);
	assert_int_equal(times(log_text, "back end llvm: nowhere to be found; the evaluator runs instead"), 1);
	assert_null(jit_target(c->engine));
	contains(explained(g), "back end: the evaluator");
	tj_close(c);
	log_text[0] = 0;
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = "none", .log_to = keep_line));
	g = FN(c, plus_itself, NULL, 1, 1, .mode = TJ_VERIFY);
	for (int i = 0; i < 2; i++) assert_f32(tj_call1(g, TJ_LIST(F32(c, 1, 2))), 2, 4);
	assert_int_equal(times(log_text, "back end none: no such back end; the evaluator runs instead"), 1);
	tj_close(c);
}

/* ---- the log ---- */
static void topics(void **s)
{
	(void)s;
	tj_ctx *c = open_logged("help", 0);
	static const char *const all[] = { "graph", "guards", "recompiles", "fusion", "kernels", "code",
		                           "plan",  "cache",  "dynamic",    "perf",   "@name" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) contains(log_text, all[i]);
	tj_close(c);
	/* every line says of which function, trace and segment it is */
	c = open_logged("all", 0);
	tj_fn *f = FN(c, late, NULL, 1, 1, .mode = TJ_VERIFY);
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	for (char *line = strtok(log_text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strstr(line, ": [late/0") && !strstr(line, ": [late/1")) fail_msg("%s", line);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state),
		cmocka_unit_test(argument),
		cmocka_unit_test(sizes),
		cmocka_unit_test(side_exit),
		cmocka_unit_test(alike),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(other_boundaries),
		cmocka_unit_test(fusion_refused),
		cmocka_unit_test(repeated), cmocka_unit_test(stored),
		cmocka_unit_test(evaluator),
		cmocka_unit_test(op_without_kernel),
		cmocka_unit_test(library),
		cmocka_unit_test(fast_product),
		cmocka_unit_test(key_refused),
		cmocka_unit_test(budget),
		cmocka_unit_test(counts),
		cmocka_unit_test(guard_times),
		cmocka_unit_test(drop_attribute),
		cmocka_unit_test(drop_nothing),
		cmocka_unit_test(drop_constant),
		cmocka_unit_test(drop_constant_argument),
		cmocka_unit_test(drop_scalar),
		cmocka_unit_test(drop_numbers),
		cmocka_unit_test(no_back_end),
		cmocka_unit_test(topics),
	};
	KIT_RUN(tests);
}
