/* SPDX-License-Identifier: MIT */
/* Checkpoints and runs: what fits and what does not, values, the best score, the end of patience, metrics, event files, progress. */
#include "test/kit.h"

#include <math.h>
#include <tjfiles.h>
#include <tjnn.h>
#include <unistd.h>

typedef struct net {
	tjnn_linear a, b;
	tj_tensor *shared;
	bool more, wide;
} net;
static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_linear_layer(w, "a", &m->a, m->wide ? 4 : 3, 2, true);
	tjnn_shared(w, "tied", &m->shared, &m->a.weight);
	if (m->more) tjnn_linear_layer(w, "b", &m->b, 2, 1, false);
}

static const char *temporary(const char *name)
{
	static char path[2][200];
	static int n;
	char *p = path[n++ % 2];
	snprintf(p, sizeof path[0], "/tmp/tj-test-run-%d-%s", (int)getpid(), name);
	return p;
}

/* ---- loading ---- */
static void note(void *env, const char *name, const char *what) { sprintf((char *)env + strlen(env), "%s %s; ", name, what); }

static void test_load(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	net from = { .more = true }, to = { .more = true };
	int64_t epoch = 12, epoch2 = 0;
	double best = 0.75, best2 = 0;
	const char *path = temporary("load.safetensors");
	char text[1000] = "";
	tjnn_model *m = tjnn_open(c, layers, &from, TJ_OPTS(tjnn_open_opts, .seed = 1)), *n = tjnn_open(c, layers, &to, NULL);
	const tjnn_value values[] = { { "epoch", &epoch, NULL, NULL }, { "best", NULL, &best, NULL }, { NULL, NULL, NULL, NULL } };
	const tjnn_value values2[] = { { "epoch", &epoch2, NULL, NULL }, { "best", NULL, &best2, NULL }, { NULL, NULL, NULL, NULL } };
	assert_int_equal(tjnn_save(m, NULL, values, path), TJ_OK);
	assert_int_equal(tjnn_load(n, NULL, values2, path, NULL), TJ_OK);
	kit_ok(c);
	assert_true(epoch2 == 12 && best2 == 0.75);
	assert_memory_equal(tj_data(from.a.weight), tj_data(to.a.weight), 6 * sizeof(float));
	assert_memory_equal(tj_data(to.shared), tj_data(to.a.weight), 6 * sizeof(float));
	tj_safetensors *s = tj_safetensors_open(c, path);
	assert_int_equal(tj_safetensors_count(s), 5); /* the shared one is there once */
	assert_null(tj_safetensors_find(s, "tied"));
	tj_safetensors_close(s);
	tjnn_close(n);
	/* nothing is written when something does not fit */
	net other = { .wide = true };
	n = tjnn_open(c, layers, &other, NULL);
	float bias[2], after[2];
	tj_read(other.a.bias, bias, sizeof bias);
	assert_int_equal(tjnn_load(n, NULL, NULL, path, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "a.weight is f32[2,4], the file has f32[2,3]; b.weight is unexpected");
	tj_read(other.a.bias, after, sizeof after);
	assert_memory_equal(bias, after, sizeof bias);
	assert_int_equal(tjnn_load(n, NULL, NULL, path, TJ_OPTS(tjnn_load_opts, .partial = true, .report = note, .env = text)), TJ_OK);
	assert_string_equal(text, "a.weight is f32[2,4], the file has f32[2,3]; b.weight is unexpected; ");
	tj_read(other.a.bias, after, sizeof after);
	assert_memory_equal(tj_data(from.a.bias), after, sizeof after);
	assert_int_equal(tjnn_load(n, NULL, values2, path, NULL), TJ_ERR_ARG);
	tj_check(c);
	assert_int_equal(tjnn_load(n, NULL, NULL, temporary("none"), NULL) == TJ_OK, 0);
	kit_error(c, TJ_ERR_IO, "");
	tjnn_close(n);
	/* dtypes */
	net half = { .more = true };
	n = tjnn_open(c, layers, &half, TJ_OPTS(tjnn_open_opts, .dtype = TJ_BF16));
	assert_int_equal(tjnn_load(n, NULL, NULL, path, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "a.weight is bf16[2,3], the file has f32[2,3]");
	assert_int_equal(tjnn_load(n, NULL, NULL, path, TJ_OPTS(tjnn_load_opts, .cast = true)), TJ_OK);
	kit_ok(c);
	tjnn_close(n);
	tjnn_close(m);
	unlink(path);
	tj_close(c);
}

/* ---- the optimiser, with the scale of f16 gradients ---- */
typedef struct train {
	net net;
	tjnn_optim *optim;
} train;
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	train *t = self;
	out[0] = tj_mean(tj_square(tj_cast(tjnn_linear_apply(&t->net.a, in[0]), TJ_F32)), TJ_ALL, false);
	tjnn_optim_step(t->optim, out[0]);
}

static void test_scaler(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const char *path = temporary("scaler.safetensors");
	float w[2][6];
	for (int turn = 0; turn < 2; turn++) {
		tj_scaler s;
		train t = { .net.more = false };
		tj_scaler_init(c, &s, TJ_OPTS(tj_scaler_opts, .init = turn ? 1 : 1 << 20, .interval = 3));
		tjnn_model *m = tjnn_open(c, layers, &t.net, TJ_OPTS(tjnn_open_opts, .seed = (uint64_t)turn, .dtype = TJ_F16));
		t.optim = tjnn_optim_open(m, tjnn_adamw(0.01), TJ_OPTS(tjnn_optim_opts, .scaler = &s));
		tj_fn *f = kit_fn(c, "step", step, &t, 1, 1);
		if (turn) assert_int_equal(tjnn_load(m, t.optim, NULL, path, NULL), TJ_OK);
		if (turn) assert_true(tj_item(s.scale) < 1 << 20 && tj_item(s.scale) > 1); /* the first ones overflowed */
		for (int i = 0; i < 8; i++) {
			if (i == 5 && !turn) assert_int_equal(tjnn_save(m, t.optim, NULL, path), TJ_OK);
			if (i >= 5 || !turn) tj_call1(f, TJ_LIST(tj_cast(tj_mul(F32(c, 1, 2, 3), tj_f(40)), TJ_F16)));
		}
		tj_read(tj_cast(t.net.a.weight, TJ_F32), w[turn], sizeof w[turn]);
		kit_ok(c);
		tj_fn_free(f);
		tjnn_optim_close(t.optim);
		tjnn_close(m);
	}
	assert_memory_equal(w[0], w[1], sizeof w[0]);
	unlink(path);
	tj_close(c);
}

/* ---- runs ---- */
/* Little-endian numbers of an event file, and its checksums. */
static uint32_t crc32c(const unsigned char *p, size_t n)
{
	uint32_t c = 0xFFFFFFFF;
	for (size_t i = 0; i < n; i++)
		for (int k = (c ^= p[i], 0); k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82F63B78 : c >> 1;
	c = ~c;
	return (c >> 15 | c << 17) + 0xA282EAD8;
}

static int records_of(const char *path, char *last)
{
	unsigned char b[1024];
	FILE *f = fopen(path, "rb");
	uint64_t n;
	uint32_t sum;
	int count = 0;
	assert_non_null(f);
	while (fread(&n, 8, 1, f) == 1) {
		assert_int_equal(fread(&sum, 4, 1, f), 1);
		assert_int_equal(sum, crc32c((const unsigned char *)&n, 8));
		assert_true(n < sizeof b && fread(b, 1, n, f) == n && fread(&sum, 4, 1, f) == 1);
		assert_int_equal(sum, crc32c(b, n));
		memcpy(last, b, n);
		count++;
	}
	fclose(f);
	return count;
}

static char *contents(const char *path)
{
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	char *text = calloc(1, 1 << 16);
	text[fread(text, 1, (1 << 16) - 1, f)] = 0;
	fclose(f);
	return text;
}

static void shell(const char *fmt, const char *arg)
{
	char line[500];
	snprintf(line, sizeof line, fmt, arg, arg);
	assert_int_equal(system(line), 0);
}

static tjnn_run_opts run_opts(tjnn_model *m, const char *folder)
{
	return (tjnn_run_opts){ .steps = 10, .model = m, .folder = folder, .save_every = 4, .keep = 2, .tensorboard = true, .quiet = true };
}

static void test_run(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	net n = { .more = true };
	const char *folder = temporary("run");
	char last[1024], path[300];
	tjnn_model *m = tjnn_open(c, layers, &n, NULL);
	tjnn_run_opts o = run_opts(m, folder);
	tjnn_run *r = tjnn_run_open(c, &o);
	kit_ok(c);
	int steps = 0;
	while (tjnn_run_next(r, NULL, 0)) {
		assert_int_equal(tjnn_run_step(r), steps++);
		tjnn_run_log(r, "loss", 1. / steps);
		if (tjnn_run_every(r, 4)) assert_true(tjnn_run_score(r, "accuracy", steps == 8 ? 0.9 : 0.5) == (steps <= 8));
		if (steps == 6) tjnn_run_stop(r);
	}
	assert_int_equal(steps, 6);
	assert_true(tjnn_run_best(r) == 0.5);
	assert_int_equal(tjnn_run_close(r), TJ_OK);
	/* it goes on behind the last checkpoint, which the end has made; no other run may */
	r = tjnn_run_open(c, &o);
	kit_ok(c);
	assert_null(tjnn_run_open(c, &o));
	kit_error(c, TJ_ERR_STATE, "another run is at work there");
	assert_true(tjnn_run_best(r) == 0.5);
	while (tjnn_run_next(r, NULL, 0)) {
		assert_int_equal(tjnn_run_step(r), steps++);
		tjnn_run_log(r, "loss", 1. / steps);
		if (tjnn_run_every(r, 4)) tjnn_run_score(r, "accuracy", steps == 8 ? 0.9 : 0.5);
	}
	assert_true(steps == 10 && tjnn_run_best(r) == 0.9);
	assert_int_equal(tjnn_run_close(r), TJ_OK);
	snprintf(path, sizeof path, "%s/metrics.csv", folder);
	char *text = contents(path), *line = text;
	for (int i = 0; i < 14; i++) line = strchr(line, '\n') + 1; /* a header, ten losses, three scores */
	assert_int_equal(*line, 0);
	assert_non_null(strstr(text, "\n7,"));
	assert_non_null(strstr(text, ",accuracy,0.9\n"));
	free(text);
	shell("ls %s | grep -c 'step-.*safetensors' | grep -qx 2 && test -f %s/best.safetensors", folder);
	shell("cat %s/events* >%s/all", folder);
	snprintf(path, sizeof path, "%s/all", folder);
	assert_int_equal(records_of(path, last), 8 + 8);
	shell("rm -r %s", folder);
	/* patience, and the first error ends a run */
	o = run_opts(m, NULL);
	o.patience = 2, o.steps = 100, o.smaller_is_better = true;
	r = tjnn_run_open(c, &o);
	for (steps = 0; tjnn_run_next(r, NULL, 0); steps++) tjnn_run_score(r, "loss", steps < 5 ? 10 - steps : 6);
	assert_int_equal(steps, 8);
	assert_int_equal(tjnn_run_close(r), TJ_OK);
	r = tjnn_run_open(c, &o);
	for (steps = 0; tjnn_run_next(r, NULL, 0); steps++)
		if (steps == 3) tj_add(F32(c, 1, 2), F32(c, 1, 2, 3));
	assert_int_equal(steps, 4);
	assert_int_equal(tjnn_run_close(r), TJ_ERR_SHAPE);
	assert_non_null(strstr(tj_last_error(c)->message, "f32[2]"));
	tj_tensor *batch[1];
	r = tjnn_run_open(c, &o);
	assert_false(tjnn_run_next(r, batch, 1));
	assert_int_equal(tjnn_run_close(r), TJ_ERR_ARG);
	assert_non_null(strstr(tj_last_error(c)->message, "no loader"));
	assert_null(tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = 5)));
	kit_error(c, TJ_ERR_ARG, "no model");
	o.folder = "/proc/nowhere/x";
	assert_null(tjnn_run_open(c, &o));
	kit_error(c, TJ_ERR_IO, "/proc/nowhere/x");
	r = tjnn_run_open(c, &o); /* a program that does not look at r sees the error at the end */
	assert_false(tjnn_run_next(r, NULL, 0) || tjnn_run_interrupted(r));
	assert_true(isnan(tjnn_run_best(r)));
	assert_int_equal(tjnn_run_close(r), TJ_ERR_IO);
	tjnn_close(m);
	tj_close(c);
}

static void test_progress(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	net n = { .more = true };
	char *text = NULL;
	size_t bytes = 0;
	tjnn_model *m = tjnn_open(c, layers, &n, NULL);
	tjnn_run_opts o = run_opts(m, NULL);
	FILE *f = tmpfile();
	o.quiet = false, o.progress = f, o.steps = 40;
	tjnn_run *r = tjnn_run_open(c, &o);
	while (tjnn_run_next(r, NULL, 0)) {
		tjnn_run_log(r, "loss", 1.5);
		tjnn_run_log(r, "accuracy", (double)tjnn_run_step(r));
		if (tjnn_run_step(r) == 20) tjnn_run_stop(r);
	}
	assert_int_equal(tjnn_run_close(r), TJ_OK);
	bytes = (size_t)ftell(f);
	text = calloc(1, bytes + 1);
	rewind(f);
	assert_int_equal(fread(text, 1, bytes, f), bytes);
	assert_non_null(strstr(text, "step 2/40  loss 1.5  accuracy 1  "));
	assert_non_null(strstr(text, "step 20/40  loss 1.5  accuracy 19  "));
	assert_non_null(strstr(text, " left\n"));
	assert_non_null(strstr(text, "stopped after step 21: asked to\n"));
	assert_null(strchr(text, '\r'));
	free(text);
	fclose(f);
	tjnn_close(m);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_load), cmocka_unit_test(test_scaler), cmocka_unit_test(test_run),
		                            cmocka_unit_test(test_progress) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
