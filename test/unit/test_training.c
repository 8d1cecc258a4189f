/* SPDX-License-Identifier: MIT */
/* Training steps: the losses of the first 20 steps are PyTorch's; the bits are the same in every run, with any number of threads. */
#include "bench/models.h"
#include "test/kit.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 20 };
#define CLOSE 1e-9

static const struct { const char *name; double loss[STEPS]; } recorded[] = {
#include "test/unit/losses.inc"
};

static void follow(const model_kind *kind, const double *want)
{
	tj_ctx *c = kit_open();
	model *m = model_open(c, kind, true, TJ_F64);
	tj_fn *f = kit_fn(c, kind->name, model_step, m, 2, 1);
	for (int i = 0; i < STEPS; i++) {
		tj_scope *s = tj_push(c);
		const double loss = tj_item(tj_call1(f, m->list));
		kit_ok(c);
		if (!(fabs(loss - want[i]) <= CLOSE)) fail_msg("%s: the loss of step %d is %.17g, not %.17g", kind->name, i, loss, want[i]);
		tj_pop(s);
	}
	assert_int_equal(kit_stats(f).plans, 1);
	model_close(m);
	tj_close(c);
}

static void losses_are_those_of_pytorch(void **state)
{
	(void)state;
	int followed = 0, networks = 0;
	for (int i = 0; i < model_nkinds; i++) {
		networks += model_kinds[i].loss != NULL;
		for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++)
			if (!strcmp(model_kinds[i].name, recorded[k].name)) follow(&model_kinds[i], recorded[k].loss), followed++;
	}
	assert_int_equal(followed, networks);
}

/* ---- determinism: products are our own kernels, so the number of threads does not matter, either ---- */
enum { FEW = 3, KINDS = 32 };
typedef struct bits { uint64_t of[KINDS]; bool ok; } bits;

static uint64_t mixed(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;
	for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3;
	return h;
}

/* All parameters after a few steps, and the losses. */
static bool train(tj_ctx *c, const model_kind *kind, uint64_t *to)
{
	model *m = model_open(c, kind, true, TJ_F32);
	tj_fn *f = kit_fn(c, kind->name, model_step, m, 2, 1);
	for (int i = 0; i < FEW; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *loss = tj_call1(f, m->list);
		if (tj_is_poison(loss)) return false;
		*to = mixed(*to, tj_data(loss), (size_t)tj_numel(loss) * sizeof(float));
		tj_pop(s);
	}
	for (int i = 0; i < m->n; i++) *to = mixed(*to, tj_data(m->param[i]), (size_t)tj_numel(m->param[i]) * sizeof(float));
	const bool ok = tj_check(c) == TJ_OK;
	model_close(m);
	return ok;
}

/* In a process of its own, since a process has one team. */
static bits trained_by(int threads)
{
	bits b = { { 0 }, false };
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	const pid_t pid = fork();
	if (!pid) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .threads = threads));
		b.ok = c != NULL;
		for (int i = 0; b.ok && i < model_nkinds && i < KINDS; i++) b.ok = train(c, &model_kinds[i], &b.of[i]);
		if (c) tj_close(c);
		_exit(write(pipes[1], &b, sizeof b) != (ssize_t)sizeof b);
	}
	close(pipes[1]);
	const bool got = pid > 0 && read(pipes[0], &b, sizeof b) == (ssize_t)sizeof b;
	close(pipes[0]);
	if (pid > 0) waitpid(pid, NULL, 0);
	if (!got || !b.ok) fail_msg("training with %d threads failed", threads);
	return b;
}

/* Runs first: nothing has begun a team in this process. */
static void same_bits_with_any_threads(void **state)
{
	(void)state;
	static const int threads[] = { 1, 2, 3, 7, 1 };
	const bits want = trained_by(threads[0]);
	for (size_t t = 1; t < sizeof threads / sizeof *threads; t++) {
		const bits got = trained_by(threads[t]);
		for (int i = 0; i < model_nkinds; i++)
			if (got.of[i] != want.of[i]) fail_msg("%s: other bits with %d threads", model_kinds[i].name, threads[t]);
	}
}

int main(void)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(same_bits_with_any_threads) },
				tests[] = { cmocka_unit_test(losses_are_those_of_pytorch) };
	kit_backend = "llvm";
	if (cmocka_run_group_tests_name("threads", first, NULL, NULL)) return 1;
	KIT_RUN(tests);
}
