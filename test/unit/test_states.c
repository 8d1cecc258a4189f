/* SPDX-License-Identifier: MIT */
/* States: what computes each op on each target. docs/OPS.md has the list, and this test compares it with the code. When it differs, the
 * test prints it as it should be. */
#include "codegen_cuda/cu.h"
#include "lower/library.h"
#include "test/gen.h"
#include "test/kit.h"

enum { KERNEL = 1, PRODUCT = 2, LOOP = 4, CALL = 8 }; /* bits: ways in which the steps of an op are computed */

static int way_of(const ir_graph *g, ir_ref r, const lo_opts *o)
{
	const ir_node *n = ir_at(g, r);
	if (ir_ops[n->op].opclass == IR_LEAF || n->op == IR_get) return 0;
	if (n->op == IR_matmul) return PRODUCT;
	const lo_how how = n->op == IR_take_sorted && !lo_routine_of(o->target, IR_take_sorted)
	                           ? LO_LIB
	                           : lo_how_of(g, n, o); /* lower/devices.c sorts instead */
	return how == LO_LIB ? LOOP : how == LO_CALL ? CALL : KERNEL;
}

/* The ways of all operands that the op takes, after it has been decomposed. */
static int ways(ir_op op, const lo_target *t)
{
	const lo_opts o = { .name = "state", .target = t };
	int bits = 0;
	for (int dtype = 0; dtype < TJ_DTYPE_COUNT; dtype++)
		for (int rank = 0; rank <= 4; rank++) {
			gen G;
			ir_graph g, to;
			rt_err err = { 0 };
			gen_init(&G, &g, (uint64_t)(17 * dtype + rank + 1));
			ir_ref r = IR_NONE;
			for (int tries = 0; tries < 4 && r == IR_NONE; tries++) {
				const int64_t dim[] = { tries ? 1 : 2, 3, 4, 5 };
				r = gen_op(&G, op, gen_creates(op) ? IR_NONE : gen_input_any(&G, (tj_dtype)dtype, rank, dim));
			}
			ir_graph_init(&to);
			if (r != IR_NONE && ir_ret(&g, r) && ir_pass_decomp(&g, &to, NULL, &err) == TJ_OK)
				for (ir_ref i = 0; i < to.node.n; i++) /* its operand may have been made by a product */
					if (ir_ops[op].flags & IR_COMPOSITE || ir_at(&to, i)->op == op) bits |= way_of(&to, i, &o);
			if (err.code != TJ_OK) fail_msg("%s: %s", ir_ops[op].name, err.message);
			ir_graph_free(&to);
			gen_free(&G);
			ir_graph_free(&g);
		}
	return bits;
}

static void put(rt_text *t, const char *name) { rt_putf(t, "%s`%s`", t->n ? ", " : "", name); }

/* An entry of the list: who computes these ops on the CPU, and on CUDA. */
static void put_entry(rt_text *t, const char *who, const char *cpu, const char *gpu)
{
	cpu = *cpu ? cpu : "nothing";
	gpu = *gpu ? gpu : "nothing";
	if (!strcmp(cpu, gpu)) rt_putf(t, "- **%s**: on both %s ", who, cpu);
	else rt_putf(t, "- **%s**: on the CPU %s; on CUDA %s ", who, cpu, gpu);
}

/* The ops of the list for one target. */
typedef struct cells { rt_text product, loop, moved; } cells;
static cells cells_of(const lo_target *t)
{
	cells c = { 0 };
	for (int op = 0; op < IR_OPS; op++) {
		if (op == IR_to) continue; /* a copy between devices */
		const int bits = ways((ir_op)op, t);
		if (bits & PRODUCT) put(&c.product, ir_ops[op].name);
		if (bits & LOOP) put(&c.loop, ir_ops[op].name);
		if (bits & CALL) put(&c.moved, ir_ops[op].name);
	}
	return c;
}

static void list_is_that_of_the_code(void **state)
{
	(void)state;
	cells cpu = cells_of(&lo_cpu), gpu = cells_of(&cu_model);
	rt_text want = { 0 };
	put_entry(&want, "a product of matrices", rt_str(&cpu.product), rt_str(&gpu.product));
	put_entry(&want, "a loop of tjit", rt_str(&cpu.loop), rt_str(&gpu.loop));
	put_entry(&want, "the CPU, with copies", "", rt_str(&gpu.moved));
	put_entry(&want, "the evaluator", rt_str(&cpu.moved), "");
	char *text = calloc(1, 1 << 20);
	FILE *f = fopen("docs/OPS.md", "r"); /* tests run in the root of the repository */
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	char *to = text;
	for (const char *from = text; *from; from++) /* as one line */
		if (*from != '\n' && *from != ' ') *to++ = *from;
		else if (to > text && to[-1] != ' ') *to++ = ' ';
	*to = 0;
	if (!strstr(text, rt_str(&want))) fail_msg("the list of docs/OPS.md should be:\n%s", rt_str(&want));
	free(text);
	rt_text_free(&want);
	for (int i = 0; i < 2; i++) {
		cells *c = i ? &cpu : &gpu;
		rt_text_free(&c->product);
		rt_text_free(&c->loop);
		rt_text_free(&c->moved);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(list_is_that_of_the_code) };
	KIT_RUN(tests);
}
