/* SPDX-License-Identifier: MIT */
/* Dumps on disk, the log and its filter; what explanations say about memory. */
#include "test/kit.h"

#include <dirent.h>
#include <unistd.h>

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(tj_mul(in[0], tj_f(2)), -1);
}

static char *read_file(const char *folder, const char *sub, const char *name)
{
	char path[1024];
	static char text[1 << 16];
	snprintf(path, sizeof path, "%s/%s/%s", folder, sub, name);
	FILE *f = fopen(path, "r");
	if (!f) return NULL;
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return text;
}

/* What build/tjc makes of a dump. */
static const char *parsed_by_tjc(const char *flag, const char *folder, const char *sub, const char *name)
{
	static char text[1 << 16];
	char command[2048], self[1024];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0; /* build/test/unit/test_explain */
	for (int up = 0; up < 3; up++)
		if (strrchr(self, '/')) *strrchr(self, '/') = 0;
	snprintf(command, sizeof command, "%s/tjc %s %s/%s/%s", self, flag, folder, sub, name);
	FILE *p = popen(command, "r");
	assert_non_null(p);
	text[fread(text, 1, sizeof text - 1, p)] = 0;
	assert_int_equal(pclose(p), 0);
	return text;
}

static void remove_all(const char *folder)
{
	char path[1024];
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.') continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (unlink(path)) remove_all(path);
	}
	if (d) closedir(d);
	rmdir(folder);
}

static void dumps_to_a_folder(void **s)
{
	(void)s;
	char folder[] = "/tmp/tjit-dump-XXXXXX";
	assert_non_null(mkdtemp(folder));
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .dump = folder));
	tj_fn *f = kit_fn(c, "soft/max", body, NULL, 1, 1);
	for (int i = 0; i < 2; i++) tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	kit_ok(c);
	static char graph[1 << 14];
	snprintf(graph, sizeof graph, "%s", read_file(folder, "0000-soft-max-0-0", "graph.tj"));
	assert_non_null(strstr(graph, "softmax f32[2]"));
	assert_non_null(strstr(read_file(folder, "0001-soft-max-0.1-0", "graph.txt"), "call_function"));
	assert_non_null(strstr(read_file(folder, "0001-soft-max-0.1-0", "graph.dot"), "digraph"));
	assert_non_null(strstr(read_file(folder, "0001-soft-max-0.1-0", "plan.txt"), "plan:"));
	if (!strcmp(kit_backend, "llvm")) {
		assert_non_null(strstr(read_file(folder, "0000-soft-max-0-0", "kernels.txt"), "kernel"));
		assert_non_null(strstr(read_file(folder, "0000-soft-max-0-0", "code.ll"), "define"));
		assert_non_null(strstr(read_file(folder, "0000-soft-max-0-0", "code.s"), "tj_soft/max_k0"));
		static char kernels[1 << 14];
		snprintf(kernels, sizeof kernels, "%s", read_file(folder, "0000-soft-max-0-0", "kernels.txt"));
		assert_string_equal(parsed_by_tjc("-k", folder, "0000-soft-max-0-0", "kernels.txt"), kernels);
	}
	assert_non_null(strstr(read_file(folder, "0001-soft-max-0.1-0", "fusion.txt"), "group"));
	assert_non_null(strstr(read_file(folder, "0001-soft-max-0.1-0", "fusion.dot"), "subgraph cluster0"));
	assert_non_null(strstr(parsed_by_tjc("-p parse", folder, "0000-soft-max-0-0", "graph.tj"), graph));
	assert_null(read_file(folder, "0002-soft-max-0.2-0", "graph.tj"));
	tj_close(c);
	remove_all(folder);
}

static int lines, theirs;
static void count_lines(void *self, const char *line)
{
	(void)self;
	lines++;
	theirs += strstr(line, "[wanted") != NULL;
}

static void log_of_one_function(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = "graph,guards,perf,@wanted", .log_to = count_lines));
	lines = theirs = 0;
	tj_call1(kit_fn(c, "other", body, NULL, 1, 1), TJ_LIST(F32(c, 1, 2)));
	tj_call1(kit_fn(c, "wanted_too", body, NULL, 1, 1), TJ_LIST(F32(c, 1, 2)));
	assert_int_equal(lines, 0);
	tj_call1(kit_fn(c, "wanted", body, NULL, 1, 1), TJ_LIST(F32(c, 1, 2)));
	assert_true(lines >= 3);
	assert_int_equal(lines, theirs);
	assert_int_equal(tj_log_topics(c, "graph"), TJ_OK);
	tj_call1(kit_fn(c, "other", body, NULL, 1, 1), TJ_LIST(F32(c, 1, 2)));
	assert_true(lines > theirs);
	kit_ok(c);
	tj_close(c);
}

/* Attributes are shown as the user wrote them. */
static void narrows(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_cast(tj_slice(in[0], 0, 1, TJ_END_DIM, 1), TJ_I8);
}
static void attributes_have_names(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "narrows", narrows, NULL, 1, 1);
	tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)));
	char *told = kit_explain(f), *trace = kit_dump(f, TJ_DUMP_TRACE);
	if (!strstr(told, "has attributes i8") || !strstr(told, "has attributes 0, 1, end, 1")) fail_msg("%s", told);
	if (!strstr(trace, "{i8}") || !strstr(trace, "{0,1,end,1}")) fail_msg("%s", trace);
	free(told);
	free(trace);
	kit_ok(c);
	tj_close(c);
}

/* ---- memory ---- */
enum { LAYERS = 4, ROWS = 2048, WIDTH = 128 };

/* self: the weights. Trains layers of gelu: backward reads the products, and, of the layers but the first, their operands. */
static void train(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *const *w = self, *x = in[0], *grad[LAYERS];
	for (int i = 0; i < LAYERS; i++) x = tj_gelu(tj_matmul(x, w[i]));
	out[0] = tj_mean(tj_square(tj_sub(x, in[1])), TJ_ALL, false);
	if (tj_grad(grad, out[0], w, NULL) != TJ_OK) return;
	for (int i = 0; i < LAYERS; i++) tj_assign(w[i], tj_sub(w[i], tj_mul(grad[i], tj_f(0.125))));
}

static void fill(float *v, int64_t n)
{
	uint32_t r = 1;
	for (int64_t i = 0; i < n; i++) v[i] = (float)((r = r * 1664525 + 1013904223) >> 8) * 0x1p-25f - 0.25f;
}

/* 1 + erf of each layer is computed again from the product, and with it the operand of the next layer, which is stored again. So at the
 * last layer the products of all layers and its own operand are alive, of a mebibyte each. The bits are the evaluator's, which runs first,
 * and keeps everything. */
static void what_backward_keeps(void **s)
{
	(void)s;
	static float v[ROWS * WIDTH], was[LAYERS][WIDTH * WIDTH];
	const size_t bytes = sizeof was[0];
	tj_ctx *c = kit_open();
	tj_tensor *w[LAYERS + 1];
	fill(v, ROWS * WIDTH);
	for (int i = 0; i < LAYERS; i++) {
		w[i] = tj_param(c, TJ_F32, TJ_SHAPE(WIDTH, WIDTH));
		tj_write(w[i], v + 100 * i, bytes);
	}
	w[LAYERS] = TJ_END;
	tj_fn *f = kit_fn(c, "train", train, w, 2, 1);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, WIDTH), v);
	tj_call1(f, TJ_LIST(x, x));
	const bool llvm = !strcmp(kit_backend, "llvm");
	for (int i = 0; i < LAYERS; i++) {
		if (llvm) assert_memory_equal(tj_data(w[i]), was[i], bytes);
		else memcpy(was[i], tj_data(w[i]), bytes);
	}
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	char *told = kit_explain(f), line[200];
	snprintf(line, sizeof line, "memory: at most %llu bytes of temporaries at once, in step ", (unsigned long long)n.peak_bytes);
	if (!strstr(told, line)) fail_msg("\"%s\" is not in:\n%s", line, told);
	snprintf(line, sizeof line, "; kept %llu values over it, %llu bytes", (unsigned long long)n.kept_values, (unsigned long long)n.kept_bytes);
	if (!strstr(told, line) != !n.kept_values) fail_msg("\"%s\" is not in, or is:\n%s", line, told);
	snprintf(line, sizeof line, "; computed %llu values again", (unsigned long long)n.computed_again);
	if (!strstr(told, line) != !n.computed_again) fail_msg("\"%s\" is not in, or is:\n%s", line, told);
	if (llvm) {
		assert_in_range(n.kept_values, LAYERS - 1,
		                2 * LAYERS - 3); /* kernels of one region count as one step, and the number of threads decides which are */
		assert_int_equal(n.kept_bytes, n.kept_values << 20);
		assert_in_range(n.peak_bytes, (LAYERS + 1) << 20, ((LAYERS + 1) << 20) + (1 << 17));
		/* mul, erf and add; for the operands of the layers but the last ones, two more mul. Those of the last layer are used at once. */
		assert_int_equal(n.computed_again, 3 * (LAYERS - 1) + 2 * (LAYERS - 2));
		if (!strstr(told, "memory: erf at") || !strstr(told, "is computed again in the kernel that computes")) fail_msg("%s", told);
	} else assert_int_equal(n.computed_again, 0);
	free(told);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(dumps_to_a_folder), cmocka_unit_test(log_of_one_function),
		                            cmocka_unit_test(attributes_have_names), cmocka_unit_test(what_backward_keeps) };
	KIT_RUN(tests);
}
