/* SPDX-License-Identifier: MIT */
/* gpuproducts: a case with one product, computed in several ways, in turns: as it is; with the fastest of the algorithms that cuBLASLt's
 * heuristic proposes (tj_settings.autotune), in place of its first; with a kernel of its own behind the product; and the product alone,
 * with the fastest algorithm, which is the limit. */
#include "bench/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS = 3 };

static const struct { const char *key, *text; bool autotune, no_epilogues, plain; } kinds[GPU_WAYS] = {
	[GPU_PLAIN] = { "plain", "product alone, autotuned", .autotune = true, .plain = true },
	[GPU_TUNED] = { "tuned", "autotuned", .autotune = true },
	[GPU_APART] = { "without_epilogue", "with a kernel after it", .no_epilogues = true },
};

/* The part of the explanation between "is computed by" and the reason, which a colon begins. Text in parentheses may have colons. */
static void copy_way(const char *from, char *to, size_t room)
{
	size_t n = 0;
	for (int depth = 0; from[n] && from[n] != '\n' && n < room - 1 && (depth || strncmp(from + n, ": ", 2) != 0); n++) {
		depth += (from[n] == '(') - (from[n] == ')');
		to[n] = from[n] == '"' ? '\'' : from[n];
	}
	to[n] = 0;
}

static void tell_product(gpu_way *w)
{
	static const char before[] = "is computed by ";
	char *text = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&text, &n);
	if (!m) return;
	tj_explain(w->job.f, m);
	fclose(m);
	const char *at = strstr(text, before);
	if (at) copy_way(at + sizeof before - 1, w->how, sizeof w->how);
	free(text);
}

static bool prepare(gpu_way *w)
{
	tj_tensor *out[GPU_OUT];
	tj_set_settings(w->job.c, &w->settings);
	const bool ok = gpu_call(&w->job, out) && tj_sync(w->job.c) == TJ_OK;
	if (ok) tell_product(w);
	return ok;
}

bool gpu_open_ways(gpu_ways *w, const gpu_job *j, const gpu_case *g)
{
	*w = (gpu_ways){ .self = { .job = *j, .settings = { .size = sizeof(tj_settings) } }, .n = g->body == g->plain ? GPU_PLAIN + 1 : GPU_WAYS };
	bool ok = prepare(&w->self);
	for (int i = 0; i < w->n; i++) {
		gpu_way *const x = &w->other[i];
		const int nin = kinds[i].plain ? 2 : g->nin;
		*x = (gpu_way){
			.job = *j,
			.settings = { .size = sizeof(tj_settings), .autotune = kinds[i].autotune, .no_epilogues = kinds[i].no_epilogues }
		};
		x->job.in[nin] = TJ_END;
		x->job.f = gpu_function(j->c, g, kinds[i].plain ? g->plain : g->body, nin, NULL);
		ok = ok && prepare(x);
	}
	return ok;
}

void gpu_close_ways(gpu_ways *w)
{
	for (int i = 0; i < w->n; i++) tj_fn_free(w->other[i].job.f);
	tj_set_settings(w->self.job.c, NULL);
}

static bool time_way(gpu_way *w, double seconds)
{
	tj_set_settings(w->job.c, &w->settings);
	const double us = gpu_time(&w->job, seconds) * 1e6;
	if (us > 0 && (!w->us || us < w->us)) w->us = us;
	return us > 0;
}

/* In turns: products heat the GPU, and its clock falls. */
bool gpu_time_ways(gpu_ways *w, double seconds)
{
	bool ok = true;
	for (int turn = 0; turn < TURNS && ok; turn++) {
		ok = time_way(&w->self, seconds / TURNS);
		for (int i = 0; i < w->n && ok; i++) ok = time_way(&w->other[i], seconds / TURNS);
	}
	return ok;
}

static bool test_way(gpu_way *w, const char *name, const char *text, double tolerance)
{
	gpu_job here = w->job;
	tj_tensor *got[GPU_OUT], *want[GPU_OUT];
	for (int k = 0; here.in[k] != TJ_END; k++) here.in[k] = tj_to(here.in[k], TJ_CPU);
	tj_set_settings(w->job.c, &w->settings);
	const bool ok = gpu_call(&w->job, got) && gpu_call(&here, want) && gpu_same(got[0], want[0], tolerance);
	if (!ok) printf("FAIL %s, %s: differs from the CPU\n", name, text);
	else if (!*w->how) printf("FAIL %s, %s: tj_explain() does not say what computes the product\n", name, text);
	return ok && *w->how;
}

bool gpu_test_ways(gpu_ways *w, const char *name, double tolerance)
{
	bool ok = test_way(&w->self, name, "as it is", tolerance);
	for (int i = 0; i < w->n; i++) ok = test_way(&w->other[i], name, kinds[i].text, tolerance) && ok;
	return ok;
}

void gpu_put_ways(const gpu_ways *w, bool json)
{
	const double limit = w->other[GPU_PLAIN].us;
	if (json) printf(", \"product\": \"%s\", \"of_plain\": %.3f", w->self.how, limit / w->self.us);
	else printf("; %3.0f %% of the best plain product; %s", 100 * limit / w->self.us, w->self.how);
	for (int i = 0; i < w->n; i++) {
		const gpu_way *x = &w->other[i];
		const char *const key = kinds[i].key;
		if (!json) printf("\n  %-22s %12.2f us %3.0f %%; %s", kinds[i].text, x->us, 100 * limit / x->us, x->how);
		else printf(", \"%s_us\": %.3f, \"%s_product\": \"%s\"", key, x->us, key, x->how);
		if (json && i != GPU_PLAIN) printf(", \"%s_of_plain\": %.3f", key, limit / x->us);
	}
}
