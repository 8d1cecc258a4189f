/* SPDX-License-Identifier: MIT */
/* Settings of a context: what its library calls may do. A change gives every function another key, so plans made under the old settings are
 * kept and found again. */
#include "jit/call.h"
#include "jit/claim.h"
#include "runtime/matmul.h"
#include "runtime/settings.h"

static uint32_t packed(const tj_settings *s)
{
	static const uint32_t products[] = { [TJ_PRODUCTS_OWN] = RT_PRODUCTS_OWN, [TJ_PRODUCTS_LIBRARY] = RT_PRODUCTS_LIBRARY };
	static const uint32_t attention[] = { [TJ_ATTENTION_MATH] = RT_ATTENTION_MATH,
		                              [TJ_ATTENTION_FUSED] = RT_ATTENTION_FUSED,
		                              [TJ_ATTENTION_LIBRARY] = RT_ATTENTION_LIBRARY };
	return (s->allow_tf32 ? RT_ALLOW_TF32 : 0) | (s->allow_reduced_precision ? RT_ALLOW_REDUCED : 0) |
	       (s->allow_nondeterministic ? RT_ALLOW_NONDETERMINISTIC : 0) | (s->no_split_sums ? RT_NO_SPLIT_SUMS : 0) |
	       (s->autotune ? RT_AUTOTUNE : 0) | (s->no_epilogues ? RT_NO_EPILOGUES : 0) | products[s->products] | attention[s->attention];
}

/* A new field begins behind the padding of the struct as it was, which an older program may have left undefined. */
_Static_assert(offsetof(tj_settings, threads) == 32, "see above");

static bool refuse(tj_ctx *c, const char *site, const char *allowed, const char *field, int64_t value)
{
	jit_error(c, site, TJ_ERR_ARG, "set_settings", allowed, "%s is %lld", field, (long long)value);
	return false;
}

static bool accepts(tj_ctx *c, const char *site, const tj_settings *s)
{
	const int team = rt_team_size(c->engine->rt.team);
	if ((unsigned)s->products > TJ_PRODUCTS_LIBRARY)
		return refuse(c, site, "TJ_PRODUCTS_AUTO, TJ_PRODUCTS_OWN or TJ_PRODUCTS_LIBRARY", ".products", (int)s->products);
	if ((unsigned)s->attention > TJ_ATTENTION_LIBRARY)
		return refuse(c, site, "TJ_ATTENTION_AUTO, TJ_ATTENTION_MATH, TJ_ATTENTION_FUSED or TJ_ATTENTION_LIBRARY", ".attention",
		              (int)s->attention);
	if (s->threads < 0 || s->threads > team) {
		jit_error(c, site, TJ_ERR_ARG, "set_settings",
		          "TJ_THREADS=n, or .threads of the first tj_open() of the process, makes a larger team",
		          ".threads is %lld, and must be 0 to %d: the team has %d thread%s", (long long)s->threads, team, team,
		          team == 1 ? "" : "s");
		return false;
	}
	if (!s->flush_denormal) return true;
	jit_error(c, site, TJ_ERR_ARG, "set_settings", "false is the only value: leave it out",
	          ".flush_denormal is true: results would differ from the evaluator's, which keeps subnormal numbers");
	return false;
}

tj_status tj_set_settings_at(const char *site, tj_ctx *c, const tj_settings *s)
{
	JIT_COME_IN(in, c, site);
	JIT_OPTIONS(tj_settings, all, s);
	if (!in || jit_refuses_in_body(c, site, "set_settings")) return TJ_ERR_STATE;
	if (jit_odd_size(all.size)) return jit_error(c, site, TJ_ERR_ARG, "set_settings", JIT_SIZES, all.size), TJ_ERR_ARG;
	if (!accepts(c, site, &all)) return TJ_ERR_ARG;
	c->settings = packed(&all);
	c->rt.run.singly = all.no_graphs;
	c->rt.run.threads = (int)all.threads;
	for (uint32_t i = 0; i < c->memo.n; i++)
		if (c->memo.v[i]) c->memo.v[i]->last = NULL; /* its key has other settings */
	return TJ_OK;
}

tj_status tj_get_settings_at(const char *site, tj_ctx *c, tj_settings *out)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "get_settings")) return TJ_ERR_STATE;
	if (!jit_has_room(c, site, "get_settings", out, out ? out->size : 0, "tj_settings s = { .size = sizeof s };")) return TJ_ERR_ARG;
	const uint32_t s = c->settings;
	const tj_settings all = { .size = out->size,
		                  .allow_tf32 = s & RT_ALLOW_TF32,
		                  .allow_reduced_precision = s & RT_ALLOW_REDUCED,
		                  .allow_nondeterministic = s & RT_ALLOW_NONDETERMINISTIC,
		                  .no_split_sums = s & RT_NO_SPLIT_SUMS,
		                  .autotune = s & RT_AUTOTUNE,
		                  .products = s & RT_PRODUCTS_OWN       ? TJ_PRODUCTS_OWN
		                              : s & RT_PRODUCTS_LIBRARY ? TJ_PRODUCTS_LIBRARY
		                                                        : TJ_PRODUCTS_AUTO,
		                  .attention = s & RT_ATTENTION_MATH      ? TJ_ATTENTION_MATH
		                               : s & RT_ATTENTION_FUSED   ? TJ_ATTENTION_FUSED
		                               : s & RT_ATTENTION_LIBRARY ? TJ_ATTENTION_LIBRARY
		                                                          : TJ_ATTENTION_AUTO,
		                  .no_graphs = c->rt.run.singly,
		                  .no_epilogues = s & RT_NO_EPILOGUES,
		                  .threads = c->rt.run.threads };
	memcpy(out, &all, all.size < sizeof all ? all.size : sizeof all);
	return TJ_OK;
}

tj_library tj_product_library_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_numerics numerics)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "product_library")) return (tj_library){ 0 };
	if ((unsigned)dtype >= TJ_DTYPE_COUNT || dtype == TJ_BOOL || (unsigned)numerics > TJ_FAST) {
		jit_error(c, site, TJ_ERR_ARG, "product_library", "a dtype such as TJ_F32, and TJ_STRICT or TJ_FAST",
		          "matmul has no such dtype or numerics");
		return (tj_library){ 0 };
	}
	if (!strcmp(c->engine->backend_name, "eval")) return (tj_library){ "tjit", TJ_VERSION, "the evaluator computes everything, as requested" };
	bool library;
	const char *why = lo_products_by(dtype, numerics == TJ_FAST, c->settings, &library);
	return library ? (tj_library){ "oneDNN", rt_onednn_version(), why } : (tj_library){ "tjit", TJ_VERSION, why };
}
