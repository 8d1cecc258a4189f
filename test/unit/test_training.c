/* Training steps: the losses of the first 20 steps are PyTorch's. */
#include "bench/models.h"
#include "test/kit.h"

#include <math.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_pytorch) };
	KIT_RUN(tests);
}
