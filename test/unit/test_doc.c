/* SPDX-License-Identifier: MIT */
/* The examples of include/tj.h, which test/doc.awk makes a table of: each runs at once, by the evaluator and compiled, and its values are
 * those of the header. A number of a result is rounded to four digits behind the point. As in PyTorch, [1, 2] is i64, [1., 2.] f32 and
 * [true, false] bool. */
#include "test/kit.h"

#include <math.h>

enum { MOST = 6, MOST_ELEMENTS = 64 };
typedef struct doc { const char *text; tj_body *body; const char *in[MOST + 1], *out[MOST + 1]; } doc;
#include "doc.inc"

/* ---- tensors as text ---- */
typedef struct literal { tj_dtype dtype; int rank; int64_t dim[TJ_MAX_RANK + 1]; int n; double v[MOST_ELEMENTS]; } literal;

static const char *parse_element(const char *s, literal *l)
{
	char *end;
	const bool is = *s == 't', word = is || !strncmp(s, "false", 5);
	if (l->n == MOST_ELEMENTS) fail_msg("too many elements: %s", s);
	l->v[l->n++] = word ? is : strtod(s, &end);
	return word ? s + (is ? 4 : 5) : end;
}

static const char *parse_list(const char *s, literal *l, int depth)
{
	if (*s != '[') return parse_element(s, l);
	int64_t n = 0;
	for (s++; *s != ']'; n++) {
		const char *from = s;
		s = parse_list(s, l, depth + 1);
		if (s == from) fail_msg("no tensor: %s", s);
		if (*s == ',') s += 2;
	}
	l->dim[depth] = n;
	if (depth >= l->rank) l->rank = depth + 1;
	return s + 1;
}

static tj_dtype parse_dtype(const char **s)
{
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		const char *name = tj_dtype_name(t);
		if (!strncmp(*s, name, strlen(name))) return *s += strlen(name) + ((*s)[strlen(name)] == ' '), (tj_dtype)t;
	}
	return strpbrk(*s, "tf") && !strstr(*s, "inf") ? TJ_BOOL : strpbrk(*s, "0123456789") && !strpbrk(*s, ".n") ? TJ_I64 : TJ_F32;
}

static literal parse(const char *s)
{
	literal l = { .rank = 0 };
	l.dtype = parse_dtype(&s);
	s = parse_list(s, &l, 0);
	if (*s) fail_msg("behind a tensor: %s", s);
	l.dim[l.rank] = TJ_END_DIM;
	return l;
}

static tj_tensor *tensor_of(tj_ctx *c, const char *text)
{
	const literal l = parse(text);
	return tj_cast(tj_from_data(c, TJ_F64, l.dim, l.v), l.dtype);
}

/* ---- results ---- */
static bool as_written(double got, double want)
{
	return want != want ? got != got : got == want ? signbit(got) == signbit(want) : fabs(got - want) <= 0.500001e-4;
}

static void put_element(FILE *f, tj_dtype t, double v)
{
	char s[64];
	if (t == TJ_BOOL) snprintf(s, sizeof s, v ? "true" : "false");
	else if (t < TJ_F16 || !isfinite(v)) snprintf(s, sizeof s, "%.17g", v == v ? v : NAN);
	else {
		snprintf(s, sizeof s, "%.4f", v);
		while (s[strlen(s) - 1] == '0') s[strlen(s) - 1] = 0;
	}
	fputs(s, f);
}

static const double *put(FILE *f, tj_tensor *t, int axis, const double *v)
{
	if (axis == tj_rank(t)) return put_element(f, tj_dtype_of(t), *v), v + 1;
	for (int64_t i = 0; i < tj_dim(t, axis); i++) {
		fputs(i ? ", " : "[", f);
		v = put(f, t, axis + 1, v);
	}
	return fputs(tj_dim(t, axis) ? "]" : "[]", f), v;
}

static bool equal(tj_tensor *t, const double *v, const literal *l)
{
	bool same = tj_rank(t) == l->rank && tj_dtype_of(t) == l->dtype;
	for (int i = 0; same && i < l->rank; i++) same = tj_dim(t, i) == l->dim[i];
	for (int i = 0; same && i < l->n; i++) same = as_written(v[i], l->v[i]);
	return same;
}

static int differs(tj_tensor *t, const doc *d, int k, const char *how)
{
	const literal l = parse(d->out[k]);
	const double *v = tj_data(tj_cast(t, TJ_F64));
	if (v && equal(t, v, &l)) return 0;
	printf("%s\n\t%s: %s ", d->text, how, tj_dtype_name(tj_dtype_of(t)));
	if (v) put(stdout, t, 0, v);
	printf("\n");
	return 1;
}

/* ---- an example ---- */
typedef enum way { AT_ONCE, EVALUATED, COMPILED, WAYS } way;

/* The results of an example in out[], of a fresh context's numbers; how many are not those of the header. */
static int run(tj_ctx *c, const doc *d, way w, tj_tensor **out)
{
	static const char *const how[] = { "at once", "evaluated", "compiled" };
	tj_tensor *in[MOST + 1];
	int nin = 0, nout = 0, bad = 0;
	tj_seed(c, 0);
	for (; d->in[nin]; nin++) in[nin] = tensor_of(c, d->in[nin]);
	in[nin] = TJ_END;
	while (d->out[nout]) nout++;
	if (w == AT_ONCE) d->body(out, in, NULL);
	else tj_call(kit_fn(c, "doc", d->body, NULL, nin, nout), out, in);
	for (int k = 0; k < nout; k++) bad += differs(out[k], d, k, how[w]);
	if (tj_check(c) != TJ_OK) return printf("%s\n\t%s: %s\n", d->text, how[w], tj_last_error(c)->message), bad + 1;
	return bad;
}

static const void *bits(tj_ctx *c, tj_tensor *t) { return tj_ctx_use(c), tj_data(t); }

/* a of the context c[0], b of c[1], equal as written. */
static int bits_differ(tj_ctx *const *c, const doc *d, tj_tensor *a, tj_tensor *b)
{
	const size_t size = (size_t)tj_numel(a) * tj_dtype_size(tj_dtype_of(a));
	if (!memcmp(bits(c[0], a), bits(c[1], b), size)) return 0;
	return printf("%s\n\tcompiled: other bits than the evaluator's\n", d->text), 1;
}

static int check_doc(tj_ctx *const *c, const doc *d)
{
	int bad = 0;
	tj_tensor *out[WAYS][MOST];
	tj_scope *s[WAYS];
	if (!d->body) return printf("%s\n", d->text), 1;
	for (int w = 0; w < WAYS; w++) {
		tj_ctx_use(c[w]);
		s[w] = tj_push(c[w]);
		if (!bad) bad = run(c[w], d, w, out[w]);
	}
	for (int k = 0; !bad && d->out[k]; k++) bad = bits_differ(c + EVALUATED, d, out[EVALUATED][k], out[COMPILED][k]);
	for (int w = 0; w < WAYS; w++) tj_pop(s[w]);
	return bad > 0;
}

static void examples(void **state)
{
	tj_ctx *c[WAYS];
	int bad = 0;
	(void)state;
	for (int w = 0; w < WAYS; w++) c[w] = tj_open(TJ_OPTS(tj_open_opts, .backend = w == COMPILED ? "llvm" : "eval"));
	for (size_t i = 0; i < sizeof docs / sizeof docs[0]; i++) bad += check_doc(c, &docs[i]);
	for (int w = 0; w < WAYS; w++) tj_close(c[w]);
	if (bad) fail_msg("%d of %zu examples", bad, sizeof docs / sizeof docs[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(examples) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
