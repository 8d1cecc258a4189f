/* SPDX-License-Identifier: MIT */
/* suite: runs the cases that cases.py or real.py wrote, or those whose names contain a word, and tells which agree, differ, fail and are
 * refused.
 *   suite FOLDER [LEFT [WORD]]
 * How a case is compared stands in cases.txt: "values", element by element; "scaled", the absolute bound times the largest element, and
 * integers equal; "shapes".
 * LEFT: a file whose lines begin with the names of cases that need not agree, "-" for none. One that is not there and does not agree, or is
 * there and agrees, makes the program fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tjfiles.h>
#include <tjmodel.h>

enum { MOST = 160, PATH = 300 };
typedef struct example {
	int number, nin, nout;
	char name[200], how[16];
	double rtol, atol;
} example;
typedef enum verdict { AGREES, DIFFERS, FAILS, REFUSED, VERDICTS } verdict;

static double at(const void *v, tj_dtype t, int64_t k)
{
	switch (t) {
	case TJ_F32: return (double)((const float *)v)[k];
	case TJ_F64: return ((const double *)v)[k];
	case TJ_F16: return (double)tj_from_f16(((const tj_f16 *)v)[k]);
	case TJ_BF16: return (double)tj_from_bf16(((const tj_bf16 *)v)[k]);
	case TJ_I64: return (double)((const int64_t *)v)[k];
	case TJ_I32: return ((const int32_t *)v)[k];
	case TJ_I16: return ((const int16_t *)v)[k];
	case TJ_I8: return ((const int8_t *)v)[k];
	default: return ((const uint8_t *)v)[k];
	}
}

static bool same_type(tj_tensor *a, tj_tensor *b)
{
	bool same = tj_rank(a) == tj_rank(b) && tj_dtype_of(a) == tj_dtype_of(b);
	for (int i = 0; same && i < tj_rank(a); i++) same = tj_dim(a, i) == tj_dim(b, i);
	return same;
}

/* Of the finite elements, and 1 at least; for 16 bits 20 times as much. Integers must be equal: 0. */
static double largest(const void *v, tj_dtype t, int64_t n)
{
	double most = 1;
	if (t < TJ_F16) return 0;
	for (int64_t i = 0; i < n; i++)
		if (isfinite(at(v, t, i)) && fabs(at(v, t, i)) > most) most = fabs(at(v, t, i));
	return t == TJ_F16 || t == TJ_BF16 ? 20 * most : most;
}

static bool agrees(const example *e, int k, tj_tensor *y, tj_tensor *want, char *why)
{
	if (!same_type(y, want)) {
		int n = sprintf(why, "output %d is %s[", k, tj_dtype_name(tj_dtype_of(y)));
		for (int i = 0; i < tj_rank(y); i++) n += sprintf(why + n, i ? ",%lld" : "%lld", (long long)tj_dim(y, i));
		n += sprintf(why + n, "], not %s[", tj_dtype_name(tj_dtype_of(want)));
		for (int i = 0; i < tj_rank(want); i++) n += sprintf(why + n, i ? ",%lld" : "%lld", (long long)tj_dim(want, i));
		strcpy(why + n, "]");
		return false;
	}
	const void *a = tj_data(y), *b = tj_data(want);
	const tj_dtype t = tj_dtype_of(y);
	const double most = strcmp(e->how, "scaled") ? 1 : largest(b, t, tj_numel(y));
	const double last = t == TJ_BF16 ? 0x1p-7 : t == TJ_F16 ? 0x1p-10 : 0; /* one unit of the last place of 16 bits */
	for (int64_t i = 0; strcmp(e->how, "shapes") && i < tj_numel(y); i++) {
		const double p = at(a, t, i), q = at(b, t, i);
		if (p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= e->atol * most + fmax(e->rtol, last) * fabs(q)) continue;
		sprintf(why, "output %d, element %lld: %.9g, not %.9g", k, (long long)i, p, q);
		return false;
	}
	return true;
}

static void told(void *env, const char *line)
{
	char *why = env;
	if (!*why) snprintf(why, 600, "%s", line);
}

static verdict run(tj_ctx *c, const char *folder, const example *e, char *why)
{
	char path[PATH];
	tj_tensor *in[MOST + 1], *out[MOST];
	verdict v = AGREES;
	*why = 0;
	snprintf(path, sizeof path, "%s/%d/model.onnx", folder, e->number);
	tj_model *m = tj_onnx_open(c, path, TJ_OPTS(tj_onnx_opts, .on_refused = told, .on_refused_self = why));
	if (!m) {
		if (tj_check(c) != TJ_OK && !*why) snprintf(why, 600, "%s", tj_last_error(c)->message);
		return REFUSED;
	}
	for (int k = 0; k < e->nin; k++) {
		snprintf(path, sizeof path, "%s/%d/in%d.npy", folder, e->number, k);
		in[k] = tj_npy_load(c, path);
	}
	in[e->nin] = TJ_END;
	if (tj_call(tj_model_fn(m), out, in) != TJ_OK) {
		tj_check(c);
		const tj_error *x = tj_last_error(c);
		snprintf(why, 600, "%s: %s: %s", x->site, x->op, x->message);
		v = FAILS;
	}
	for (int k = 0; v == AGREES && k < e->nout; k++) {
		snprintf(path, sizeof path, "%s/%d/out%d.npy", folder, e->number, k);
		if (!agrees(e, k, out[k], tj_npy_load(c, path), why)) v = DIFFERS;
	}
	if (tj_check(c) != TJ_OK && v == AGREES) v = FAILS, snprintf(why, 600, "%s", tj_last_error(c)->message);
	tj_model_close(m);
	return v;
}

/* Is the case in the list? */
static bool is_left(FILE *list, const char *name)
{
	char line[700];
	const size_t n = strlen(name);
	if (!list) return false;
	rewind(list);
	while (fgets(line, sizeof line, list))
		if (!strncmp(line, name, n) && line[n] == ':') return true;
	return false;
}

int main(int argc, char **argv)
{
	static const char *const words[VERDICTS] = { "agrees", "differs", "fails", "refused" };
	int count[VERDICTS] = { 0 };
	char path[PATH], why[700];
	if (argc < 2) return fprintf(stderr, "suite FOLDER [LEFT [WORD]]\n"), 2;
	FILE *list = argc > 2 && strcmp(argv[2], "-") ? fopen(argv[2], "r") : NULL;
	int surprises = 0;
	snprintf(path, sizeof path, "%s/cases.txt", argv[1]);
	FILE *f = fopen(path, "r");
	tj_ctx *c = tj_open(NULL);
	if (!f || !c) return fprintf(stderr, "%s cannot be read\n", path), 2;
	for (example e; fscanf(f, "%d %199s %d %d %lf %lf %15s", &e.number, e.name, &e.nin, &e.nout, &e.rtol, &e.atol, e.how) == 7;) {
		if (argc > 3 && !strstr(e.name, argv[3])) continue;
		tj_scope *s = tj_push(c);
		const verdict v = run(c, argv[1], &e, why);
		tj_pop(s);
		count[v]++;
		const bool left = is_left(list, e.name);
		surprises += left == (v == AGREES);
		if (v != AGREES && !left)
			printf("%-8s %s: %s\n", words[v], e.name, why);
		else if (v == AGREES && left)
			printf("agrees   %s, which %s lists\n", e.name, argv[2]);
		fflush(stdout);
	}
	for (int v = 0; v < VERDICTS; v++)
		printf("%d %s%s", count[v],
		       v == AGREES    ? "agree"
		       : v == DIFFERS ? "differ"
		       : v == FAILS   ? "fail"
		                      : "are refused",
		       v + 1 < VERDICTS ? ", " : "\n");
	fclose(f);
	tj_close(c);
	if (list) fclose(list);
	return surprises || !count[AGREES];
}
