/* SPDX-License-Identifier: MIT */
/* fuzz_counts: how often random graphs use each op with each dtype.
 *
 * A step counts twice: as a use of the dtype of its first operand that is a tensor, as the graph has it, before promotion (an op on numbers
 * alone has none), and as a use of the dtype of its result (of several results: the first). Which dtypes an op takes and gives follows from
 * its type rule; creation ops take none. */
#include "test/fuzz.h"

#include "ir/rules.h"

enum { BOOLS = 1u << TJ_BOOL, I64S = 1u << TJ_I64, INTS = 1u << TJ_U8 | 1u << TJ_I8 | 1u << TJ_I16 | 1u << TJ_I32 | I64S,
	   FLOATS = 1u << TJ_F16 | 1u << TJ_BF16 | 1u << TJ_F32 | 1u << TJ_F64, ANY = BOOLS | INTS | FLOATS };

static ir_type_rule rule_of(ir_op op) { return (ir_type_rule)(ir_ops[op].nresult > 1 ? ir_ops[op].result[0].type : ir_ops[op].type); }

unsigned fuzz_dtypes(ir_op op, fuzz_side side)
{
	static const struct { unsigned taken, given;
	} of[] = {
		[IR_TYPE_PROMOTE] = { ANY, ANY },
		[IR_TYPE_NUMERIC] = { INTS | FLOATS, INTS | FLOATS },
		[IR_TYPE_FLOAT] = { ANY, FLOATS },
		[IR_TYPE_LERP] = { ANY, FLOATS },
		[IR_TYPE_NORM] = { ANY, FLOATS },
		[IR_TYPE_FLOATONLY] = { FLOATS, FLOATS },
		[IR_TYPE_BITS] = { BOOLS | INTS, BOOLS | INTS },
		[IR_TYPE_INTEGER] = { INTS, INTS },
		[IR_TYPE_COMPARE] = { ANY, BOOLS },
		[IR_TYPE_LOGIC] = { ANY, BOOLS },
		[IR_TYPE_WHERE] = { ANY, ANY },
		[IR_TYPE_ATTR] = { ANY, ANY },
		[IR_TYPE_NUMBERS] = { 0, INTS | FLOATS },
		[IR_TYPE_RANDOM] = { 0, FLOATS },
		[IR_TYPE_SAME] = { ANY, ANY },
		[IR_TYPE_SUM] = { ANY, I64S | FLOATS },
		[IR_TYPE_ARG] = { ANY, I64S },
		[IR_TYPE_INDEX] = { ANY, ANY },
		[IR_TYPE_LOSS] = { FLOATS, FLOATS },
		[IR_TYPE_SCATTER] = { ANY, ANY },
		[IR_TYPE_ONE_HOT] = { INTS, I64S },
		[IR_TYPE_FIRST] = { ANY, ANY },
		[IR_TYPE_FILLED] = { ANY, ANY },
		[IR_TYPE_WITH] = { ANY, ANY },
		[IR_TYPE_CLOSE] = { ANY, BOOLS },
		[IR_TYPE_DOUBLE] = { ANY, 1u << TJ_F64 },
		[IR_TYPE_SEARCH] = { ANY, I64S },
		[IR_TYPE_CSR] = { I64S, ANY },
		[IR_TYPE_FULL] = { ANY, ANY },
	};
	const ir_type_rule r = rule_of(op);
	if (side == FUZZ_GIVEN) return of[r].given;
	return gen_creates(op) && r != IR_TYPE_ONE_HOT && r != IR_TYPE_FULL ? 0 : of[r].taken;
}

/* -1: no operand is a tensor, or the result is a number. */
static int used(const gen *G, const gen_step *s, fuzz_side side)
{
	if (side == FUZZ_GIVEN && ir_ops[s->op].nresult == 1) return ir_at(G->g, s->result)->weak ? -1 : ir_at(G->g, s->result)->dtype;
	for (int k = 0; k < s->nsrc; k++)
		if (!ir_at(G->g, s->src[k])->weak) return ir_at(G->g, s->src[k])->dtype; /* first results of several have the dtype of the operand */
	return -1;
}

void fuzz_count_dtypes(const gen *G, fuzz_mix *m)
{
	for (uint32_t i = 0; i < G->step.n; i++)
		for (int side = 0; side < FUZZ_SIDES && G->step.v[i].op < IR_OPS; side++) {
			const int t = used(G, &G->step.v[i], (fuzz_side)side);
			if (t >= 0) m->use[side][G->step.v[i].op][t]++;
		}
}

/* A line for each op and side, then the pairs with fewer than 100 uses in 100,000 graphs. */
void fuzz_print_dtypes(const fuzz_mix *m)
{
	static const char *const sides[FUZZ_SIDES] = { "takes", "gives" };
	const uint64_t least = (m->graphs + 999) / 1000;
	int below = 0, pairs = 0;
	for (int op = 0; op < IR_OPS; op++)
		for (int side = 0; side < FUZZ_SIDES; side++) {
			const unsigned all = fuzz_dtypes((ir_op)op, (fuzz_side)side);
			if (all) printf("%s %s", ir_ops[op].name, sides[side]);
			for (int t = 0; t < TJ_DTYPE_COUNT; t++)
				if (all >> t & 1) printf(" %s %llu", tj_dtype_name((tj_dtype)t), (unsigned long long)m->use[side][op][t]);
			if (all) printf("\n");
		}
	printf("below %llu:", (unsigned long long)least);
	for (int op = 0; op < IR_OPS; op++)
		for (int side = 0; side < FUZZ_SIDES; side++)
			for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
				if (!(fuzz_dtypes((ir_op)op, (fuzz_side)side) >> t & 1)) continue;
				pairs++;
				if (m->use[side][op][t] >= least) continue;
				printf("%s %s %s %s %llu", below++ ? "," : "", ir_ops[op].name, sides[side], tj_dtype_name((tj_dtype)t),
				       (unsigned long long)m->use[side][op][t]);
			}
	printf("\n%d of %d pairs of op and dtype have fewer than %llu uses\n", below, pairs, (unsigned long long)least);
}
