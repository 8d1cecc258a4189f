/* SPDX-License-Identifier: MIT */
/* gpucompile: the time from a call to machine code. Each round compiles a function whose text is new to the process, which keeps the code
 * of texts that it has met. */
#include "bench/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, BITS = 4 }; /* BITS: rounds at most, as a power of two */

/* The case behind a few ops that differ from round to round. */
typedef struct fresh { const gpu_case *of; int round; } fresh;
BODY(vary)
{
	const fresh *x = self;
	tj_tensor *all[GPU_IN];
	memcpy(all, in, (size_t)x->of->nin * sizeof *all);
	for (int i = 0; i < BITS; i++) all[0] = x->round >> i & 1 ? tj_minimum(all[0], tj_f(4 + i)) : tj_maximum(all[0], tj_f(-4 - i));
	x->of->body(out, all, NULL);
}

/* code_ms: to code, their sum */
typedef struct round_time { double first_ms, trace_ms, lower_ms, codegen_ms, code_ms; int kernels, compiled; } round_time;

static bool compile_round(const gpu_job *j, fresh *x, round_time *r)
{
	tj_tensor *out[GPU_OUT];
	tj_scope *s = tj_push(j->c);
	gpu_job one = *j;
	one.f = gpu_function(j->c, x->of, vary, x->of->nin, x);
	const double begin = bench_now();
	const bool ok = gpu_call(&one, out) && tj_sync(j->c) == TJ_OK;
	tj_stats n = { .size = sizeof n };
	*r = (round_time){ .first_ms = (bench_now() - begin) * 1e3 };
	tj_fn_stats(one.f, &n);
	r->trace_ms = n.trace_ms, r->lower_ms = n.lower_ms, r->codegen_ms = n.codegen_ms;
	r->code_ms = n.trace_ms + n.lower_ms + n.codegen_ms;
	r->kernels = (int)n.kernels, r->compiled = (int)n.compiled;
	tj_fn_free(one.f);
	tj_pop(s);
	if (ok && !r->compiled) fprintf(stderr, "%s: no kernel was compiled\n", x->of->name);
	return ok && r->compiled;
}

static int by_code(const void *a, const void *b)
{
	return bench_by_size(&((const round_time *)a)->code_ms, &((const round_time *)b)->code_ms);
}

static void put(const gpu_case *g, const round_time *r, double slowest_ms, bool json)
{
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"gpu_%s\", \"kernels\": %d, \"compiled\": %d, \"code_ms\": %.2f, \"kernel_ms\": %.2f, "
	              "\"trace_ms\": %.3f, "
	              "\"lower_ms\": %.3f, \"codegen_ms\": %.2f, \"slowest_ms\": %.2f, \"first_ms\": %.2f}\n"
	            : "%-24s %3d kernels, %d compiled: %.2f ms to code, %.2f ms a compiled kernel (trace %.3f, lower %.3f, code generation "
	              "%.2f); slowest of the rounds "
	              "%.2f ms; first call %.2f ms\n",
	       g->name, r->kernels, r->compiled, r->code_ms, r->code_ms / r->compiled, r->trace_ms, r->lower_ms, r->codegen_ms, slowest_ms,
	       r->first_ms);
	fflush(stdout);
}

bool gpu_compile_times(tj_ctx *c, tj_device device, const gpu_case *g, const bench_gpu_opts *o)
{
	gpu_job j;
	round_time r[ROUNDS];
	tj_scope *s = tj_push(c);
	bool ok = gpu_open(&j, c, g, o->small ? g->small : g->p, device);
	for (int i = 0; i < ROUNDS && ok; i++) ok = compile_round(&j, &(fresh){ g, i }, &r[i]);
	if (ok) {
		qsort(r, ROUNDS, sizeof *r, by_code);
		put(g, &r[ROUNDS / 2], r[ROUNDS - 1].code_ms, o->json);
	}
	tj_fn_free(j.f);
	tj_pop(s);
	tj_empty_cache(c, device);
	return ok;
}

/* ---- the test: rounds have different texts, and the CPU's results ---- */
static char *text_of(tj_fn *f)
{
	char *text = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&text, &n);
	if (!m) return NULL;
	tj_dump(f, TJ_DUMP_CODE, m);
	fclose(m);
	return text;
}

static bool test_round(const gpu_job *j, fresh *x, char **text)
{
	gpu_job there = *j;
	tj_tensor *got[GPU_OUT], *want[GPU_OUT];
	there.f = gpu_function(j->c, x->of, vary, x->of->nin, x);
	bool ok = gpu_call(&there, got);
	*text = ok ? text_of(there.f) : NULL; /* of the GPU alone: the CPU is next */
	gpu_job here = there;
	for (int k = 0; k < x->of->nin; k++) here.in[k] = tj_to(there.in[k], TJ_CPU);
	ok = ok && gpu_call(&here, want);
	for (int i = 0; ok && i < x->of->nout; i++) ok = gpu_same(got[i], want[i], x->of->flops ? 0.05 : 0);
	if (!ok) printf("FAIL %s: differs from the CPU\n", x->of->name);
	tj_fn_free(there.f);
	return ok;
}

bool gpu_test_compile(tj_ctx *c, tj_device device, const gpu_case *g)
{
	gpu_job j;
	round_time r;
	char *text[ROUNDS] = { NULL };
	tj_scope *s = tj_push(c);
	bool ok = gpu_open(&j, c, g, g->small, device) && compile_round(&j, &(fresh){ g, 0 }, &r);
	for (int i = 0; i < ROUNDS && ok; i++) {
		ok = test_round(&j, &(fresh){ g, i }, &text[i]);
		for (int k = 0; k < i && ok; k++)
			if (!text[i] || !strcmp(text[i], text[k])) printf("FAIL %s: rounds %d and %d have one text\n", g->name, k, i), ok = false;
	}
	for (int i = 0; i < ROUNDS; i++) free(text[i]);
	tj_fn_free(j.f);
	tj_pop(s);
	return ok;
}
