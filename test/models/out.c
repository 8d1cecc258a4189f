/* SPDX-License-Identifier: MIT */
/* out: functions as ONNX files, for test/models/out.py, and back as functions: each op with each dtype, some shapes and special values,
 * then random graphs. onnx-out FOLDER [-n NTH] [-g GRAPHS] [-s SEED] [-d] [WORD] Each case is written to FOLDER/N/model.onnx, read again by
 * tj_onnx_open(), and computed by the evaluator; the results must have the bits of the function, but for those ops whose formula in ONNX
 * rounds otherwise. -d: its arguments and results are written, too, as in0.npy, out0.npy, ..., and the cases are listed in
 * FOLDER/cases.txt. -n: only every NTH shape. WORD: of the names of cases. */
#include "jit/event.h"
#include "jit/handle.h"
#include "test/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tjfiles.h>
#include <tjmodel.h>

enum { MOST = 64, PATH = 400, MAX_DIM = 5 };
static const double ANY = 4096;
static struct {
	const char *folder, *word;
	int nth, graphs;
	uint64_t seed;
	bool data;
	FILE *list;
	int written, refused, same, near, differ, failed;
} opt = { .nth = 1 };

/* ---- the body: the steps of a generator ---- */
static const ir_node *at(const gen *G, ir_ref r) { return ir_at(G->g, r); }

/* What is no result of a step: an input, a number, a constant. */
static tj_tensor *leaf(const gen *G, ir_ref r, tj_tensor *const *in)
{
	const ir_node *n = at(G, r);
	int64_t dim[TJ_MAX_RANK + 1];
	memcpy(dim, ir_dims(G->g, n), n->rank * sizeof *dim);
	dim[n->rank] = TJ_END_DIM;
	if (n->op == IR_input) return in[ir_attr(G->g, n)[0]];
	if (n->op == IR_num) {
		const uint64_t bits = G->num.v[ir_attr(G->g, n)[0]];
		double d;
		memcpy(&d, &bits, sizeof d);
		return n->dtype == TJ_I64 ? rt_number_i((int64_t)bits) : rt_number_f(d);
	}
	if (n->op == IR_data) return tj_constant(tj_ctx_current(), (tj_dtype)n->dtype, dim, G->g->data.v[ir_attr(G->g, n)[0]].bytes);
	const ir_scalar s = ir_const_value(G->g, n);
	const double v = n->dtype == TJ_F64 ? s.d : n->dtype >= TJ_F16 ? (double)s.f : 0;
	if (n->weak) return n->dtype == TJ_I64 ? rt_number_i(s.i) : rt_number_f(v);
	return tj_full((tj_dtype)n->dtype, dim, n->dtype >= TJ_F16 ? rt_number_f(v) : rt_number_i(s.i));
}

static tj_tensor *operand(const gen *G, tj_tensor **value, ir_ref r, tj_tensor *const *in)
{
	return value[r] ? value[r] : (value[r] = leaf(G, r, in));
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const gen *G = self;
	tj_tensor **value = calloc(G->g->node.n + 1, sizeof *value), **parts = calloc((G->step.n + 1) * IR_MOST_RESULTS, sizeof *parts);
	if (!value || !parts) abort();
	for (uint32_t i = 0; i < G->step.n; i++) {
		const gen_step *s = &G->step.v[i];
		tj_tensor *src[8], **to[IR_MOST_RESULTS];
		if (s->op == IR_get) {
			for (uint32_t k = i; k-- > 0;)
				if (G->step.v[k].result == s->src[0] && G->step.v[k].op != IR_get) {
					value[s->result] = parts[k * IR_MOST_RESULTS + (uint32_t)s->attr[0]];
					break;
				}
			continue;
		}
		for (int k = 0; k < s->nsrc; k++) src[k] = operand(G, value, s->src[k], in);
		const int n = ir_ops[s->op].nresult;
		for (int k = 1; k < n; k++) to[k - 1] = &parts[i * IR_MOST_RESULTS + (uint32_t)k];
		tj_tensor *y = n > 1 ? jit_events("out.c:1", s->op, s->nsrc, src, s->nattr, s->attr, n - 1, to)
		                     : jit_event("out.c:1", s->op, s->nsrc, src, s->nattr, s->attr);
		if (n > 1)
			parts[i * IR_MOST_RESULTS] = y;
		else
			value[s->result] = y;
	}
	for (uint32_t i = 0; i < G->g->out.n; i++) out[i] = operand(G, value, G->g->out.v[i], in);
	free(value);
	free(parts);
}

/* ---- one case ---- */
/* Ops whose formula in ONNX is not that of tjit: how far their results may be off, in units of the last place. */
static double ulps_of(ir_op op)
{
	switch (op) {
	case IR_erfc:
	case IR_ndtr: return 16;
	case IR_sinc:
	case IR_cbrt: return 256; /* f64: near the zeros, of tiny numbers */
	case IR_logaddexp:
	case IR_logaddexp2: return 64;
	case IR_fma: return 0x1p24; /* f64 is rounded twice */
	case IR_logsigmoid:
	case IR_selu:
	case IR_xlog1py:
	case IR_softplus:
	case IR_mish:
	case IR_elu:
	case IR_celu:
	case IR_expm1:
	case IR_log1p:
	case IR_log2:
	case IR_log10:
	case IR_exp2:
	case IR_ldexp:
	case IR_hypot:
	case IR_linear_recurrence:
	case IR_logcumsumexp: return 4;
	case IR_tan: return 4096; /* near a pole */
	case IR_sinh:
	case IR_cosh:
	case IR_asinh:
	case IR_acosh:
	case IR_atanh:
	case IR_atan2:
	case IR_rsqrt: return 16;
	default: return 0;
	}
}

static double ulps(const gen *G)
{
	double most = 0;
	for (uint32_t i = 0; i < G->step.n; i++) most = fmax(most, ulps_of(G->step.v[i].op));
	return G->step.n > 3 && most ? ANY : most; /* what follows may make any difference of it */
}

static double element(const void *v, tj_dtype t, int64_t k)
{
	switch (t) {
	case TJ_F32: return (double)((const float *)v)[k];
	case TJ_F64: return ((const double *)v)[k];
	case TJ_F16: return (double)tj_from_f16(((const tj_f16 *)v)[k]);
	case TJ_BF16: return (double)tj_from_bf16(((const tj_bf16 *)v)[k]);
	default: return NAN;
	}
}

/* 0: the same bits; 1: near; 2: not. */
static int differs(const char *name, int k, tj_tensor *y, tj_tensor *want, double most)
{
	bool same = tj_rank(y) == tj_rank(want) && tj_dtype_of(y) == tj_dtype_of(want);
	for (int d = 0; same && d < tj_rank(y); d++) same = tj_dim(y, d) == tj_dim(want, d);
	if (!same)
		return printf("DIFF %s: output %d has another type: %s rank %d, not %s rank %d\n", name, k, tj_dtype_name(tj_dtype_of(y)),
		              tj_rank(y), tj_dtype_name(tj_dtype_of(want)), tj_rank(want)),
		       2;
	const tj_dtype t = tj_dtype_of(y);
	const void *a = tj_data(y), *b = tj_data(want);
	const double unit = t == TJ_F64 ? 0x1p-52 : t == TJ_F32 ? 0x1p-23 : t == TJ_F16 ? 0x1p-10 : 0x1p-7;
	int64_t i = 0;
	if (!a || !b) return printf("DIFF %s: no result\n", name), 2;
	if (gen_same(t, a, b, tj_numel(y), &i)) return 0;
	for (int64_t j = 0; j < tj_numel(y); j++) {
		const double p = element(a, t, j), q = element(b, t, j);
		if (!rt_is_float(t) && !memcmp((const char *)a + j * (int64_t)tj_dtype_size(t),
		                               (const char *)b + j * (int64_t)tj_dtype_size(t), tj_dtype_size(t)))
			continue;
		if (p == q || (isnan(p) && isnan(q)) || most == ANY ||
		    fabs(p - q) <= most * unit * fmax(fabs(q), t == TJ_F64 ? 1e-290 : 1e-36))
			continue;
		rt_text s = { 0 };
		gen_put_element(&s, t, a, j);
		rt_puts(&s, ", not ");
		gen_put_element(&s, t, b, j);
		printf("DIFF %s: output %d, element %lld is %s\n", name, k, (long long)j, rt_str(&s));
		rt_text_free(&s);
		return 2;
	}
	return most ? 1 : (printf("DIFF %s: output %d: the sign of a zero, element %lld\n", name, k, (long long)i), 2);
}

static void refusal(void *self, const char *line)
{
	char *why = self;
	if (!*why) snprintf(why, PATH, "%s", line);
}

static void save(const char *folder, const char *what, int k, tj_tensor *t)
{
	char path[PATH + 40];
	snprintf(path, sizeof path, "%s/%s%d.npy", folder, what, k);
	if (tj_npy_save(t, path) != TJ_OK) exit(2);
}

/* Writes the function, reads it, compares. */
static void round_trip(tj_ctx *c, gen *G, const char *name, tj_fn *f, tj_list in, tj_tensor **want)
{
	char folder[PATH], path[PATH + 20], why[PATH] = "";
	tj_tensor *out[MOST];
	const int n = (int)G->g->out.n;
	snprintf(folder, sizeof folder, "%s/%d", opt.folder, opt.written);
	snprintf(path, sizeof path, "%s/model.onnx", folder);
	mkdir(folder, 0777);
	if (tj_onnx_write(f, path, TJ_OPTS(tj_onnx_write_opts, .inputs = in, .on_refused = refusal, .on_refused_self = why)) != TJ_OK) {
		tj_check(c);
		if (*why)
			opt.refused++;
		else
			opt.failed++, printf("FAIL %s: not written: %s\n", name, tj_last_error(c)->message);
		tj_check(c);
		return;
	}
	tj_model *m = tj_onnx_open(c, path, NULL);
	int worst = 0;
	if (!m || tj_call(tj_model_fn(m), out, in) != TJ_OK) {
		opt.failed++;
		tj_check(c);
		printf("FAIL %s: %s: %s at %s: %s\n", name, m ? "not run" : "not read", tj_last_error(c)->op, tj_last_error(c)->site,
		       tj_last_error(c)->message);
		tj_check(c);
	} else {
		for (int k = 0; k < n && worst < 2; k++) {
			const int d = differs(name, k, out[k], want[k], ulps(G));
			worst = d > worst ? d : worst;
		}
		opt.same += worst == 0, opt.near += worst == 1, opt.differ += worst == 2;
	}
	if (m) tj_model_close(m);
	if (opt.data) {
		for (int k = 0; in[k] != TJ_END; k++) save(folder, "in", k, in[k]);
		for (int k = 0; k < n; k++) save(folder, "out", k, want[k]);
		fprintf(opt.list, "%d %u %d %g %s\n", opt.written, G->slot.n, n, ulps(G), name);
	}
	opt.written++;
}

static void run_case(gen *G, const char *name)
{
	tj_ctx *c = tj_ctx_current();
	tj_tensor *in[MOST + 1], *out[MOST];
	if (G->slot.n > MOST || G->g->out.n > MOST || !G->g->out.n) return;
	tj_scope *s = tj_push(c);
	for (uint32_t i = 0; i < G->slot.n; i++) {
		const gen_slot *x = &G->slot.v[i];
		int64_t dim[TJ_MAX_RANK + 1];
		memcpy(dim, x->meta.dim, x->meta.rank * sizeof *dim);
		dim[x->meta.rank] = TJ_END_DIM;
		void *flat = gen_flat(x);
		in[i] = tj_from_data(c, (tj_dtype)x->meta.dtype, dim, flat);
		free(flat);
	}
	in[G->slot.n] = TJ_END;
	for (uint32_t i = 0; i < G->step.n; i++) { /* as the op wants it */
		const ir_node *x = G->step.v[i].nsrc ? at(G, G->step.v[i].src[0]) : NULL;
		if (x && G->step.v[i].op == IR_searchsorted && x->op == IR_input && x->rank)
			in[ir_attr(G->g, x)[0]] = tj_sort(in[ir_attr(G->g, x)[0]], -1, false, NULL);
	}
	tj_fn *f = tj_compile(c, body, G,
	                      TJ_OPTS(tj_compile_opts, .name = "f", .nin = (int)G->slot.n, .nout = (int)G->g->out.n,
	                              .int_div_zero = G->zeros ? TJ_ZERO : TJ_ERROR));
	if (f && tj_call(f, out, in) == TJ_OK)
		round_trip(c, G, name, f, in, out);
	else if (tj_check(c) && strcmp(tj_last_error(c)->op, "return") && tj_last_error(c)->code != TJ_ERR_INDEX)
		printf("note %s: %s: %s\n", name, tj_last_error(c)->op, tj_last_error(c)->message);
	tj_check(c);
	if (f) tj_fn_free(f);
	tj_pop(s);
}

/* ---- each op ---- */
static const struct {
	int rank;
	int64_t dim[MAX_DIM];
} shapes[] = {
	{ 0, { 0 } },    { 1, { 0 } },       { 2, { 0, 3 } },   { 2, { 1, 1 } },       { 1, { 7 } },
	{ 2, { 3, 5 } }, { 3, { 2, 3, 4 } }, { 2, { 16, 17 } }, { 4, { 2, 3, 5, 6 } }, { 5, { 2, 1, 3, 2, 4 } },
};

static void one_op(ir_op op, tj_dtype t, int shape, int turn)
{
	static const gen_content contents[] = { GEN_SPECIAL, GEN_PLAIN, GEN_FIRST, GEN_LAST, GEN_NEGZERO, GEN_INTS };
	char name[128];
	gen G;
	ir_graph g;
	snprintf(name, sizeof name, "%s %s #%d.%d", ir_ops[op].name, tj_dtype_name(t), shape, turn);
	if (opt.word && !strstr(name, opt.word)) return;
	gen_init(&G, &g, rt_hash(name, strlen(name), opt.seed));
	G.layout = GEN_ROW;
	G.most = 1 << 14;
	G.numbers = turn % 2;
	G.content = contents[(shape + turn + (int)op) % (int)RT_COUNT(contents)];
	if (op == IR_prod || op == IR_mean || op == IR_conv_transpose)
		G.content = GEN_PLAIN; /* their order decides between a number and NaN */
	ir_ref r = IR_NONE;
	for (int tries = 0; tries < 8 && r == IR_NONE; tries++)
		r = gen_op(&G, op, gen_creates(op) ? IR_NONE : gen_input_any(&G, t, shapes[shape].rank, shapes[shape].dim));
	if (r != IR_NONE) {
		if (!ir_ret(&g, r)) abort();
		for (int j = 0; j < G.nalso; j++)
			if (!ir_ret(&g, G.also[j])) abort();
		run_case(&G, name);
	}
	gen_free(&G);
}

static void each_op(void)
{
	for (int op = 0; op < IR_OPS; op++) {
		if (ir_ops[op].flags & (IR_RNG | IR_EFFECT)) continue;
		const int before = opt.written, refused = opt.refused;
		for (int t = 0; t < TJ_DTYPE_COUNT; t++)
			for (int s = 0; s < (int)RT_COUNT(shapes); s++)
				for (int turn = 0; turn < 2; turn++)
					if ((op + t + s + turn) % opt.nth == 0 && !(gen_creates((ir_op)op) && s > 5))
						one_op((ir_op)op, (tj_dtype)t, s, turn);
		if (!opt.word && opt.written == before && opt.refused == refused)
			printf("FAIL %s: no case of it\n", ir_ops[op].name), opt.failed++;
	}
}

/* ---- random graphs ---- */
static bool fits(const gen *G)
{
	for (uint32_t i = 0; i < G->step.n; i++) {
		const char *op, *becomes;
		for (int k = 0; tj_onnx_writes(k, &op, &becomes); k++)
			if (!*becomes && !strcmp(op, ir_ops[G->step.v[i].op].name)) return false;
	}
	return true;
}

static void random_graphs(void)
{
	const int first = opt.written;
	for (uint64_t seed = opt.seed; opt.written - first < opt.graphs && seed < opt.seed + 50 * (uint64_t)opt.graphs; seed++) {
		char name[64];
		gen G;
		ir_graph g;
		snprintf(name, sizeof name, "graph %llu", (unsigned long long)seed);
		gen_init(&G, &g, seed);
		fuzz_graph(&G, seed);
		if ((!opt.word || strstr(name, opt.word)) && fits(&G)) run_case(&G, name);
		gen_free(&G);
	}
}

int main(int argc, char **argv)
{
	char path[PATH];
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (!strcmp(argv[i], "-n") && more)
			opt.nth = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-g") && more)
			opt.graphs = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-s") && more)
			opt.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "-d"))
			opt.data = true;
		else if (!opt.folder)
			opt.folder = argv[i];
		else
			opt.word = argv[i];
	}
	if (!opt.folder || opt.nth < 1) return fprintf(stderr, "usage: onnx-out FOLDER [-n NTH] [-g GRAPHS] [-s SEED] [-d] [WORD]\n"), 2;
	mkdir(opt.folder, 0777);
	snprintf(path, sizeof path, "%s/cases.txt", opt.folder);
	if (opt.data && !(opt.list = fopen(path, "w"))) return perror(path), 2;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	if (!c) return 2;
	if (!opt.graphs || !opt.word) each_op();
	random_graphs();
	if (opt.list) fclose(opt.list);
	printf("%d written: %d with the same bits, %d near, %d differ; %d refused, %d failed\n", opt.written, opt.same, opt.near,
	       opt.differ, opt.refused, opt.failed);
	tj_close(c);
	return opt.differ || opt.failed;
}
