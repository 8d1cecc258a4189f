/* SPDX-License-Identifier: MIT */
/* Reports as data: whole JSON whatever names are, all functions, guards, reasons and kernels in it, room for texts, files at the end of a
 * process. The page is tested by report.sh and report.py. */
#include "test/kit.h"

#include "runtime/alloc.h"
#include "runtime/json.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a reader of JSON that owes nothing to the writer: RFC 8259, by hand ---- */
typedef struct reader { const unsigned char *at, *end; int deep; } reader;
static bool value(reader *r);

static void blanks(reader *r)
{
	while (r->at < r->end && strchr(" \t\n\r", *r->at)) r->at++;
}
static bool is(reader *r, char c)
{
	blanks(r);
	if (r->at >= r->end || *r->at != (unsigned char)c) return false;
	r->at++;
	return true;
}
/* The bytes of a character of more than one byte: no overlong form, no surrogate, nothing above U+10FFFF. */
static bool wide(reader *r)
{
	const unsigned char first = *r->at;
	const int n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	uint32_t c = first & (0xffu >> (n + 1));
	if (first < 0xc2 || first > 0xf4 || r->end - r->at < n) return false;
	for (int i = 1; i < n; i++) {
		if (r->at[i] >> 6 != 2) return false;
		c = c << 6 | (r->at[i] & 63u);
	}
	r->at += n;
	return n == 2 ? c >= 0x80 : n == 3 ? c >= 0x800 && (c < 0xd800 || c > 0xdfff) : c >= 0x10000 && c <= 0x10ffff;
}
static bool string(reader *r)
{
	if (!is(r, '"')) return false;
	while (r->at < r->end && *r->at != '"') {
		if (*r->at < ' ') return false;
		if (*r->at >= 0x80) {
			if (!wide(r)) return false;
		} else if (*r->at != '\\') r->at++;
		else if (r->end - r->at < 2) return false;
		else if (r->at[1] == 'u') {
			for (int i = 2; i < 6; i++)
				if (r->end - r->at < 6 || !strchr("0123456789abcdefABCDEF", r->at[i])) return false;
			r->at += 6;
		} else if (strchr("\"\\/bfnrt", r->at[1])) r->at += 2;
		else return false;
	}
	return r->at++ < r->end;
}
static bool digits(reader *r)
{
	const unsigned char *first = r->at;
	while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
	return r->at > first;
}
static bool number(reader *r)
{
	if (r->at < r->end && *r->at == '-') r->at++;
	const bool zero = r->at < r->end && *r->at == '0';
	const unsigned char *first = r->at;
	if (!digits(r) || (zero && r->at > first + 1)) return false;
	if (r->at < r->end && *r->at == '.' && (r->at++, !digits(r))) return false;
	if (r->at < r->end && (*r->at | 32) == 'e') {
		r->at++;
		if (r->at < r->end && strchr("+-", *r->at)) r->at++;
		return digits(r);
	}
	return true;
}
static bool word(reader *r, const char *w)
{
	const size_t n = strlen(w);
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n)) return false;
	r->at += n;
	return true;
}
static bool list(reader *r, bool object)
{
	const char close = object ? '}' : ']';
	r->at++;
	if (is(r, close)) return true;
	do {
		blanks(r);
		if (object && (!string(r) || !is(r, ':'))) return false;
		if (!value(r)) return false;
	} while (is(r, ','));
	return is(r, close);
}
static bool value(reader *r)
{
	blanks(r);
	if (r->at >= r->end || r->deep > 64) return false;
	bool ok;
	r->deep++;
	switch (*r->at) {
	case '{': ok = list(r, true); break;
	case '[': ok = list(r, false); break;
	case '"': ok = string(r); break;
	case 't': ok = word(r, "true"); break;
	case 'f': ok = word(r, "false"); break;
	case 'n': ok = word(r, "null"); break;
	default: ok = number(r);
	}
	r->deep--;
	return ok;
}
static bool is_json(const char *s)
{
	reader r = { (const unsigned char *)s, (const unsigned char *)s + strlen(s), 0 };
	if (!value(&r)) return false;
	blanks(&r);
	return r.at == r.end;
}

/* ---- files ---- */
static char folder[] = "/tmp/tjit-report-XXXXXX";
static const char *in_folder(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}
static char *read_file(const char *name) /* the caller frees it; NULL: there is none */
{
	FILE *f = fopen(in_folder(name), "rb");
	struct stat st;
	if (!f) return NULL;
	assert_int_equal(fstat(fileno(f), &st), 0);
	char *s = calloc(1, (size_t)st.st_size + 1);
	assert_int_equal(fread(s, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	return s;
}
static int files(void) /* how many there are; removes them */
{
	int n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.') n++, unlink(in_folder(e->d_name));
	closedir(d);
	return n;
}
static char *reported(tj_ctx *c, const tj_report_opts *o)
{
	assert_int_equal(tj_report(c, in_folder("r.json"), o), TJ_OK);
	kit_ok(c);
	char *s = read_file("r.json");
	assert_non_null(s);
	assert_int_equal(files(), 1); /* nothing is left beside it */
	if (!is_json(s)) fail_msg("no JSON: %s", s);
	return s;
}
static int times(const char *s, const char *part)
{
	int n = 0;
	for (; (s = strstr(s, part)); s += strlen(part)) n++;
	return n;
}
static void has(const char *s, const char *part)
{
	if (!strstr(s, part)) fail_msg("no %s in %s", part, s);
}

/* ---- programs ---- */
static void smooth(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(tj_mul(in[0], tj_f(2)), -1);
}
static void choosing(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_relu(in[0]);
	out[0] = tj_truth(tj_gt(tj_sum(y, TJ_ALL, false), tj_f(3))) ? tj_exp(y) : tj_neg(y);
}
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(0.5)), in[1]);
	out[1] = tj_exp(out[0]);
}
static void scanning(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *carry[1], *ys[1];
	const tj_status st = tj_scan(carry, ys, 1, turn, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(0))), TJ_LIST(in[0]), NULL, NULL);
	out[0] = st == TJ_OK ? ys[0] : tj_neg(in[0]);
}

/* ---- what is in it ---- */
static void every_part(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "smooth", smooth, NULL, 1, 1), *g = kit_fn(c, "choosing", choosing, NULL, 1, 1),
	      *h = kit_fn(c, "scanning", scanning, NULL, 1, 1);
	for (int i = 0; i < 2; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	tj_call1(f, TJ_LIST(tj_cast(F32(c, 1, 2, 3), TJ_F64)));
	for (int i = 0; i < 3; i++) tj_call1(g, TJ_LIST(F32(c, (float)i, 2)));
	tj_call1(h, TJ_LIST(F32(c, 1, 2, 3, 4)));
	kit_ok(c);
	char *r = reported(c, NULL);
	has(r, "{\"schema\":\"tjit report\",\"version\":1,");
	has(r, "\"name\":\"smooth\"");
	has(r, "\"name\":\"choosing\"");
	has(r, "\"name\":\"scanning\"");
	has(r, "\"kind\":\"dtype\"");
	has(r, "\"expected\":\"f32\",\"found\":\"f64\",\"argument\":0,");
	has(r, "\"cure\":\"cast the argument with tj_cast() before the call\"");
	has(r, "argument 0 is f32[3]");
	has(r, "\"ends_in\":\"truth\"");
	has(r, "\"boundary_cure\":\"tj_where() chooses without a boundary\"");
	has(r, "\"branches\":[{\"value\":true,\"times\":1,");
	has(r, "\"op\":\"softmax\",\"type\":\"f32[3]\"");
	has(r, "\"regions\":[{\"nodes\":[");
	has(r, "\"calls\":3,\"hits\":1,");
	char *explained = kit_explain(g);
	assert_non_null(strstr(explained, "boundary at "));
	free(explained);
	if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) {
		tj_fn *const all[] = { f, g, h };
		int kernels = 0;
		for (int i = 0; i < 3; i++) {
			char *dumped = kit_dump(all[i], TJ_DUMP_KERNELS);
			kernels += times(dumped, "kernel tj_");
			free(dumped);
		}
		assert_true(kernels > 3);
		assert_int_equal(times(r, "\"kernel\":\"kernel tj_"), kernels);
		has(r, "define void @\\\"tj_smooth_k0\\\"");
		has(r, "\"assembly\":\"");
		has(r, "\"name\":\"LLVM\",\"version\":\"");
	}
	free(r);
	tj_close(c);
}

/* Each guard that tj_explain() prints, but attributes, which the events have. */
static void every_guard(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *g = kit_fn(c, "choosing", choosing, NULL, 1, 1);
	for (int i = 0; i < 3; i++) tj_call1(g, TJ_LIST(F32(c, (float)i, 2)));
	char *r = reported(c, NULL), *told = kit_explain(g);
	int guards = 0;
	for (char *line = strtok(told, "\n"); line; line = strtok(NULL, "\n")) {
		char *text = strstr(line, "guard: ");
		if (!text || strstr(line, " has attributes ")) continue;
		guards++;
		has(r, text + strlen("guard: "));
	}
	assert_true(guards >= 3);
	free(told);
	free(r);
	tj_close(c);
}

/* ---- names ---- */
#define HOSTILE "a\"b\\</script><!--<img src=x onerror=1>\x01\x1f\x7f\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82:7"
static void hostile_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp_at(HOSTILE, tj_mul_at(HOSTILE "\n", in[0], tj_f(3)));
}
static void hostile_names(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile_at(HOSTILE, c, hostile_body, NULL, TJ_OPTS(tj_compile_opts, .name = "</script>\xff" "é", .nin = 1, .nout = 1));
	setenv("TJ_HOSTILE", HOSTILE "\r\t", 1);
	for (int i = 2; i < 4; i++) tj_call1_at(HOSTILE, f, (tj_tensor *[]){ tj_full(TJ_F32, TJ_SHAPE(i), tj_f(1)), TJ_END });
	kit_ok(c);
	char *r = reported(c, NULL);
	assert_null(strchr(r, '<')); /* so it can stand in a page as it is */
	has(r, "\"name\":\"\\u003c/script>\\ufffd\xc3\xa9\"");
	has(r, "a\\\"b\\\\\\u003c/script>\\u003c!--\\u003cimg src=x onerror=1>\\u0001\\u001f\\u007f\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd");
	has(r, "TJ_HOSTILE=a");
	unsetenv("TJ_HOSTILE");
	free(r);
	tj_close(c);
}

/* ---- the writer ---- */
static void numbers(void **s)
{
	(void)s;
	rt_json j = { 0 };
	rt_json_open(&j, NULL, '[');
	const double v[] = { 0, -0.0, 1.5, 1e300, -2.5e-7, INFINITY };
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) rt_json_number(&j, NULL, v[i]);
	rt_json_count(&j, NULL, UINT64_MAX);
	rt_json_int(&j, NULL, INT64_MIN);
	rt_json_str(&j, NULL, NULL);
	rt_json_bool(&j, NULL, true);
	rt_json_open(&j, NULL, '{');
	rt_json_close(&j, '}');
	rt_json_close(&j, ']');
	assert_string_equal(j.text.s, "[0,-0,1.5,1e+300,-2.5e-07,null,9223372036854775807,-9223372036854775808,null,true,{}]");
	assert_true(is_json(j.text.s));
	rt_text_free(&j.text);
}

/* All bytes, and all pairs of one byte and another: the text is JSON, and shorter than six times as long. */
static void bytes(void **s)
{
	(void)s;
	for (int a = 0; a < 256; a++)
		for (int b = 0; b < 256; b++) {
			const char from[] = { (char)a, (char)b, (char)0xa9, 'x' };
			rt_json j = { 0 };
			rt_json_strn(&j, NULL, from, sizeof from);
			if (!is_json(j.text.s) || strchr(j.text.s, '<')) fail_msg("%02x %02x: %s", a, b, j.text.s);
			rt_text_free(&j.text);
		}
}

/* ---- room ---- */
static size_t text_bytes(const char *r) /* of what stands behind these keys, escapes as they are */
{
	static const char *const keys[] = { "\"kernel\":\"", "\"code\":\"", "\"assembly\":\"" };
	size_t sum = 0;
	for (size_t i = 0; i < 3; i++)
		for (const char *at = r; (at = strstr(at, keys[i]));)
			for (at += strlen(keys[i]); *at != '"'; at++, sum++)
				if (*at == '\\') at++;
	return sum;
}

static void room_for_texts(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "smooth", smooth, NULL, 1, 1);
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	char *all = reported(c, NULL), *few = reported(c, TJ_OPTS(tj_report_opts, .text_bytes = 2000)),
	     *none = reported(c, TJ_OPTS(tj_report_opts, .no_code = true));
	if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) {
		assert_true(text_bytes(all) > 4000);
		assert_null(strstr(all, "_cut\""));
		assert_true(text_bytes(few) <= 2000 && text_bytes(few) > 500);
		has(few, "\"assembly_cut\":");
		has(none, "\"kernel\":\"kernel tj_smooth_k0");
		assert_null(strstr(none, "\"code\":"));
		assert_null(strstr(none, "\"assembly\":"));
	}
	free(all);
	free(few);
	free(none);
	tj_close(c);
}

/* A report adds nothing to what the function knows: the next size is found, or compiled, as without one. */
static void changes_nothing(void **s)
{
	(void)s;
	uint64_t compiled[2];
	for (int with = 0; with < 2; with++) {
		tj_ctx *c = kit_open();
		tj_fn *f = kit_fn(c, "smooth", smooth, NULL, 1, 1);
		for (int n = 2; n < 7; n++) {
			tj_call1(f, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(n), tj_f(1))));
			if (with) free(reported(c, NULL));
		}
		compiled[with] = kit_stats(f).compiled;
		kit_ok(c);
		tj_close(c);
	}
	assert_int_equal(compiled[0], compiled[1]);
}

/* ---- errors ---- */
static void reporting(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_exp(in[0]);
	*(tj_status *)self = tj_report(tj_ctx_current(), in_folder("body.json"), NULL);
}
static void refused(void **s)
{
	(void)s;
	tj_status inside = TJ_OK;
	tj_ctx *c = kit_open();
	assert_int_equal(tj_report(c, "/nowhere/of/this/name/r.json", NULL), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere/of/this/name/r.json: No such file or directory");
	assert_int_equal(tj_report(c, NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "path is NULL");
	assert_int_equal(tj_report(c, "", NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "path is empty");
	assert_int_equal(tj_report(c, in_folder("r.json"), &(tj_report_opts){ .size = 5 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 5");
	tj_call1(kit_fn(c, "reporting", reporting, &inside, 1, 1), TJ_LIST(F32(c, 1)));
	assert_int_equal(inside, TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "tj_report() is not allowed in a body");
	assert_int_equal(files(), 0);
	tj_close(c);
}

static void out_of_memory(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_call1(kit_fn(c, "smooth", smooth, NULL, 1, 1), TJ_LIST(F32(c, 1, 2, 3)));
	free(reported(c, TJ_OPTS(tj_report_opts, .no_code = true)));
	int failed = 0;
	for (int k = 0; k < 2000; k += 1 + k / 40) {
		rt_alloc_fail_at(k);
		const tj_status st = tj_report(c, in_folder("r.json"), TJ_OPTS(tj_report_opts, .no_code = true));
		rt_alloc_fail_at(-1);
		char *r = read_file("r.json");
		if (st == TJ_ERR_NOMEM) kit_error(c, TJ_ERR_NOMEM, "out of memory"), failed++;
		else assert_int_equal(st, TJ_OK);
		assert_true(st == TJ_OK ? r != NULL && is_json(r) : r == NULL);
		free(r);
		files();
	}
	assert_true(failed > 30);
	kit_ok(c);
	tj_close(c);
}

/* ---- TJ_REPORT ---- */
/* The file whose name begins so: a number follows, of the engine in its process. */
static char *read_first(const char *begin)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	char *r = NULL;
	while (!r && (e = readdir(dir)))
		if (!strncmp(e->d_name, begin, strlen(begin))) r = read_file(e->d_name);
	closedir(dir);
	return r;
}

static void moving(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const int64_t at = *(int64_t *)self;
	out[0] = tj_exp(tj_slice(in[0], 0, at, at + 2, 1));
}

/* A function that is traced on each call is not compiled on each call for its texts. */
static void traced_again(void **s)
{
	(void)s;
	enum { CALLS = 12, TEXTS = 8 };
	char *r;
	int64_t at;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .report = in_folder("again.json")));
	tj_fn *f = kit_fn(c, "moving", moving, &at, 1, 1);
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(2 * CALLS), tj_f(1));
	for (at = 0; at < CALLS; at++) tj_call1(f, TJ_LIST(x));
	const tj_stats n = kit_stats(f);
	assert_int_equal(n.plans, CALLS);
	kit_ok(c);
	tj_close(c);
	assert_non_null(r = read_first("again."));
	assert_true(is_json(r));
	if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) {
		assert_true(n.shared >= CALLS - 2);
		assert_int_equal(times(r, "\"kernel\":\"kernel tj_"), CALLS);
		assert_int_equal(times(r, "\"assembly\":\""), TEXTS);
	}
	free(r);
	files();
}

static void when_it_closes(void **s)
{
	(void)s;
	char path[300];
	snprintf(path, sizeof path, "%s/run-%%p.json", folder);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .report = path)), *d = tj_ctx_clone(c);
	tj_fn *f = kit_fn(c, "freed", smooth, NULL, 1, 1);
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	tj_fn_free(f);
	tj_call1(kit_fn(c, "kept", smooth, NULL, 1, 1), TJ_LIST(F32(c, 1, 2, 3)));
	kit_ok(c);
	tj_close(d);
	assert_int_equal(files(), 0); /* the engine lives */
	fflush(NULL);
	if (fork() == 0) exit(0); /* a child does not write the report of its parent */
	wait(NULL);
	assert_int_equal(files(), 0);
	tj_close(c);
	char begin[64], *r;
	snprintf(begin, sizeof begin, "run-%d.", (int)getpid());
	assert_non_null(r = read_first(begin));
	assert_true(is_json(r));
	has(r, "\"name\":\"freed\"");
	has(r, "\"name\":\"kept\"");
	if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) assert_int_equal(times(r, "\"assembly\":\""), 2);
	free(r);
	files();
}

/* A process that ends without closing: its exit handlers come before those of LLVM. */
static void when_it_exits(void **s)
{
	(void)s;
	char path[300];
	int status;
	snprintf(path, sizeof path, "%s/exit.json", folder);
	fflush(NULL);
	const pid_t child = fork();
	if (!child) {
		setenv("TJ_REPORT", path, 1);
		tj_ctx *c = kit_open();
		tj_call1(kit_fn(c, "first", smooth, NULL, 1, 1), TJ_LIST(F32(c, 1, 2, 3)));
		tj_ctx *d = kit_open();
		tj_call1(kit_fn(d, "second", smooth, NULL, 1, 1), TJ_LIST(F32(d, 1, 2, 3)));
		exit(tj_check(c) || tj_check(d));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	int found = 0;
	DIR *dir = opendir(folder);
	for (struct dirent *e; (e = readdir(dir));) {
		if (strncmp(e->d_name, "exit.", 5)) continue;
		char *r = read_file(e->d_name);
		assert_true(is_json(r));
		found |= strstr(r, "\"name\":\"first\"") ? 1 : strstr(r, "\"name\":\"second\"") ? 2 : 0;
		if (!strcmp(kit_backend, "llvm") && !kit_elsewhere()) has(r, "\"assembly\":\"");
		free(r);
	}
	closedir(dir);
	assert_int_equal(found, 3);
	assert_int_equal(files(), 2);
}

static char warned[512];
static void note(void *self, const char *line)
{
	(void)self;
	if (strstr(line, "TJ_REPORT")) snprintf(warned, sizeof warned, "%s", line);
}
static void cannot_write(void **s)
{
	(void)s;
	*warned = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .report = "/nowhere/of/this/name/r.json", .log_to = note));
	tj_call1(kit_fn(c, "smooth", smooth, NULL, 1, 1), TJ_LIST(F32(c, 1, 2)));
	tj_close(c);
	has(warned, "TJ_REPORT: /nowhere/of/this/name/r");
	has(warned, "No such file or directory");
}

int main(void)
{
	assert_non_null(mkdtemp(folder));
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part),      cmocka_unit_test(every_guard),    cmocka_unit_test(hostile_names), cmocka_unit_test(numbers),
		cmocka_unit_test(bytes),           cmocka_unit_test(room_for_texts), cmocka_unit_test(changes_nothing), cmocka_unit_test(refused),
		cmocka_unit_test(out_of_memory),   cmocka_unit_test(when_it_closes), cmocka_unit_test(when_it_exits), cmocka_unit_test(cannot_write),
		cmocka_unit_test(traced_again),
	};
	int failed = 0;
	kit_backend = "eval", failed += cmocka_run_group_tests_name("eval", tests, NULL, NULL);
	kit_backend = "llvm", failed += cmocka_run_group_tests_name("llvm", tests, NULL, NULL);
	rmdir(folder);
	return failed != 0;
}
