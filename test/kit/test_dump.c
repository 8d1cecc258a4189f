/* SPDX-License-Identifier: MIT */
/* The reader of dumps of TJ_REPORT in the command tj: a good dump is taken, each field that the page needs is asked for, and random changes
 * give an answer, with words. */
#include "cli/report.h"
#undef TJ_SITE
#define TJ_SITE __FILE__ ":" TJ_STR(__LINE__)
#include "test/kit/hostile.h"

/* What the command would print. */
static char said[1024];
void cli_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(said, sizeof said, fmt, ap);
	va_end(ap);
}

static bool takes(const char *dump)
{
	*said = 0;
	const bool ok = report_is_whole("run.json", dump);
	if (ok == (*said != 0)) fail_msg("%s, and it said \"%s\"", ok ? "taken" : "refused", said);
	return ok;
}

/* ---- a dump ---- */
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(0.5)), in[1]);
	out[1] = tj_exp(out[0]);
}
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *carry[1], *ys[1];
	if (tj_scan(carry, ys, 1, turn, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(0))), TJ_LIST(tj_relu(in[0])), self, NULL) != TJ_OK) ys[0] = in[0];
	out[0] = tj_truth(tj_gt(carry[0], tj_f(1))) ? tj_softmax(ys[0], 0) : tj_neg(ys[0]);
}

static char *dump;
static int make_dump(void **s)
{
	(void)s;
	char path[] = "/tmp/tjit-dump-XXXXXX";
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .profile = true));
	tj_fn *f = kit_fn(c, "body", body, NULL, 1, 1);
	for (int i = 0; i < 2; i++) tj_call1(f, TJ_LIST(F32(c, (float)i, 2)));
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	assert_int_equal(tj_report(c, path, TJ_OPTS(tj_report_opts, .text_bytes = 600)), TJ_OK);
	kit_ok(c);
	tj_close(c);
	close(fd); /* of the file that the report has replaced */
	FILE *r = fopen(path, "r");
	assert_non_null(r);
	dump = calloc(1, 1 << 18);
	assert_true(fread(dump, 1, (1 << 18) - 1, r) > 1000);
	fclose(r);
	unlink(path);
	return 0;
}
static int drop_dump(void **s)
{
	(void)s;
	free(dump);
	return 0;
}

/* ---- good and bad ones ---- */
static void good(void **s)
{
	(void)s;
	if (!takes(dump)) fail_msg("%s", said);
}

/* Every prefix that leaves something out is refused. */
static void cut_off(void **s)
{
	(void)s;
	const size_t n = strlen(dump);
	for (size_t i = 0; i + 2 < n; i += 1 + i / 64) {
		const char was = dump[i];
		dump[i] = 0;
		assert_false(takes(dump));
		assert_non_null(strstr(said, "it is no whole JSON: line "));
		dump[i] = was;
	}
}

/* Calls see for each field of each kind of object, after it has changed it; puts it back. of: the field that has the object */
typedef void see_change(json_t *root, const char *key, const char *what);
static json_t *met; /* "of.key" of fields that were changed */
static void each_value(json_t *root, json_t *at, const char *of, see_change *see)
{
	const char *next_key;
	json_t *v, *was;
	void *next;
	size_t i;
	json_object_foreach_safe(at, next, next_key, v) {
		char path[128], key[64];
		snprintf(key, sizeof key, "%s", next_key); /* which is gone when the field is */
		snprintf(path, sizeof path, "%.60s.%s", of, key);
		if (json_object_get(met, path)) {
			each_value(root, v, key, see);
			continue;
		}
		json_object_set_new(met, path, json_true());
		json_t *const other[] = { json_null(),  json_integer(-1), json_integer(1 << 30), json_string("x"),
			                  json_array(), json_object(),    json_true() };
		for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
			was = json_incref(json_object_get(at, key));
			json_object_set_new(at, key, other[k]);
			see(root, key, "changed");
			json_object_set_new(at, key, was);
		}
		was = json_incref(json_object_get(at, key));
		json_object_del(at, key);
		see(root, key, "missing");
		json_object_set_new(at, key, was);
		each_value(root, was, key, see);
	}
	json_array_foreach(at, i, v) each_value(root, v, of, see);
}

static unsigned refused, taken;
static void count(json_t *root, const char *key, const char *what)
{
	static const char *const needed[] = { "functions", "nodes", "src", "op", "steps", "reads", "stats", "calls", "machine", "guards",
	                                      "schema", "traces", "told", "environment" };
	char *text = json_dumps(root, JSON_COMPACT);
	const bool ok = takes(text);
	*(ok ? &taken : &refused) += 1;
	for (size_t i = 0; ok && !strcmp(what, "missing") && i < sizeof needed / sizeof *needed; i++)
		if (!strcmp(key, needed[i]) && strcmp(key, "steps")) fail_msg("taken without %s", key);
	free(text);
}

static void each_field(void **s)
{
	(void)s;
	json_t *root = json_loads(dump, 0, NULL);
	json_t *functions = json_object_get(root, "functions");
	assert_int_equal(json_array_size(functions), 1);
	refused = taken = 0;
	met = json_object();
	each_value(root, root, "", count);
	json_decref(met);
	json_decref(root);
	if (refused < taken || refused < 500) fail_msg("%u refused, %u taken", refused, taken);
}

/* Numbers of nodes, steps and buffers beyond the end. */
static void beyond(void **s)
{
	(void)s;
	static const char *const keys[] = { "\"step\":", "\"src\":[", "\"out\":[", "\"reads\":[", "\"node\":", "\"last\":", "\"shares\":" };
	const size_t n = strlen(dump);
	char *more = malloc(n + 16);
	int tried = 0;
	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
		for (const char *at = dump; (at = strstr(at, keys[k]));) {
			const size_t before = (size_t)((at += strlen(keys[k])) - dump);
			if (*at < '0' || *at > '9') continue;
			sprintf(more, "%.*s7777%s", (int)before, dump, dump + before); /* 3 becomes 77773 */
			if (strncmp(dump + before - strlen(keys[k]) - 10, "\"memory\":{", 10)) {
				assert_false(takes(more));
				assert_non_null(strstr(said, "names a node, a step or a buffer that is not there"));
				tried++;
			}
		}
	free(more);
	assert_true(tried > 10);
}

/* Operands come before their users: no circle, which would hang the drawing of the graph. */
static void circle(void **s)
{
	(void)s;
	json_t *root = json_loads(dump, 0, NULL), *at = root;
	static const char *const way[] = { "functions", "signatures", "traces", "segments" };
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) at = json_array_get(json_object_get(at, way[i]), 0);
	at = json_object_get(json_object_get(json_object_get(at, "plan"), "lowered"), "nodes");
	for (int from = 0; from < 2; from++) {
		json_object_set_new(json_array_get(at, 1), "src", json_pack("[i]", from));
		char *text = json_dumps(root, 0);
		assert_int_equal(takes(text), from == 0);
		free(text);
	}
	json_decref(root);
}

static void other_files(void **s)
{
	(void)s;
	static const struct { const char *text, *says; } bad[] = {
		{ "", "it is no whole JSON" },
		{ "[]", "\"schema\" is not \"tjit report\"" },
		{ "{}", "\"schema\" is not \"tjit report\"" },
		{ "{\"schema\":\"tjit report\"}", "version is not an integer" },
		{ "{\"schema\":\"tjit report\",\"version\":2}", "it has version 2 of the schema, and this command reads version 1" },
		{ "{\"schema\":\"tjit report\",\"version\":1}", "tjit is missing" },
		{ "{\"schema\":\"tjit report\",\"version\":1,\"version\":1}", "duplicate object key" },
		{ "{\"schema\":\"tjit report\",\"version\":1} x", "end of file expected" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_false(takes(bad[i].text));
		if (!strstr(said, bad[i].says)) fail_msg("%s: %s", bad[i].text, said);
	}
	char *deep = malloc(100001);
	memset(deep, '[', 100000);
	deep[100000] = 0;
	assert_false(takes(deep));
	free(deep);
}

/* ---- random changes ---- */
static void random_bytes(void **s)
{
	(void)s;
	hostile *h = hostile_begin(7);
	const size_t n = strlen(dump);
	char *text = malloc(n + 1);
	for (long turn = hostile_turns(400); turn > 0; turn--) {
		memcpy(text, dump, n + 1);
		for (uint64_t k = 1 + hostile_random(h) % 4; k > 0; k--) {
			const size_t at = hostile_random(h) % n, from = hostile_random(h) % n, some = 1 + hostile_random(h) % 24;
			if (hostile_random(h) % 3) text[at] = "0129-\"{}[],:.eatx\\ \xff"[hostile_random(h) % 20];
			else if (at + some < n && from + some < n) memmove(text + at, text + from, some);
		}
		takes(text);
	}
	free(text);
	hostile_end(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),   cmocka_unit_test(cut_off),     cmocka_unit_test(each_field),
		cmocka_unit_test(beyond), cmocka_unit_test(circle),      cmocka_unit_test(other_files), cmocka_unit_test(random_bytes),
	};
	return cmocka_run_group_tests(tests, make_dump, drop_dump);
}
