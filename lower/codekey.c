/* SPDX-License-Identifier: MIT */
/* codekey: what code fits a kernel, as text: the kernel and its schedule without what no code is made of (names, sites, estimates) and
 * without the values of symbols (code for one size of a form fits all, family.c); the width of vectors, and what of the CPU it may use.
 * Code made for one of two kernels with equal texts fits the other, in any process. */
#include "lower/target.h"

#include <stdlib.h>

static unsigned uses_of(tj_dtype t) { return t == TJ_BF16 ? RT_USES_BF16 : tj_dtype_size(t) == 1 ? RT_USES_BYTES : 0; }

unsigned lo_uses(const lo_kernel *k)
{
	unsigned uses = 0;
	for (uint32_t i = 0; i < k->buf.n; i++) uses |= uses_of((tj_dtype)k->buf.v[i].dtype);
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].dtype != TJ_BOOL) uses |= uses_of((tj_dtype)k->ins.v[i].dtype);
	return uses;
}

void lo_code_key(const lo_kernel *k, const lo_schedule *s, rt_text *t)
{
	const char *codegen = getenv("TJ_CODEGEN");
	const int bits = rt_vector_bits();
	const unsigned uses = lo_uses(k);
	const uint32_t has = rt_features(bits) & rt_features_for(uses);
	rt_putf(t, "x86-64-v%d %d bits", bits == 512 ? 4 : 3, bits);
	for (int i = 0; rt_feature_name(i); i++)
		if (has >> i & 1) rt_putf(t, " +%s", rt_feature_name(i));
	if (uses & RT_USES_BF16 && rt_bf16_in_order()) rt_puts(t, " bf16-in-order");
	if (codegen && !strcmp(codegen, "fast")) rt_puts(t, " fast");
	rt_puts(t, "\n");
	lo_print_code(k, s, t);
	lo_put_sites(k, t);
}
