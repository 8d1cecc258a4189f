/* SPDX-License-Identifier: MIT */
/* suite: runs the cases of a table: all of them in turn, small ones beside the evaluator, or those that a driver names. */
#include "bench/bench.h"

#include <string.h>

static int all(const bench_suite *s, tj_ctx *c, const bench_suite_opts *o)
{
	int passed = 0, failed = 0;
	for (int i = 0; i < s->n; i++) {
		if (!o->want(o->env, s->name(i))) continue;
		bool good = true;
		if (o->quick) good = s->quick(i);
		else {
			void *job = s->open(c, i);
			if (o->write) good = s->write(job, o->write);
			else s->put(job, o->seconds, o->json);
			s->close(job);
			if (tj_check(c) != TJ_OK) good = false, tj_perror(c, stderr);
		}
		passed += good, failed += !good;
	}
	if (o->quick || failed) printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}

/* The last case stays open, so that a driver can time it in turns with other programs. */
static int serve(const bench_suite *s, tj_ctx *c)
{
	char line[256], name[128];
	double seconds;
	void *job = NULL;
	int at = -1;
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "state", 5)) { bench_state(stdout, true), fflush(stdout); continue; }
		if (sscanf(line, "%127s %lf", name, &seconds) != 2) break;
		if (job && strcmp(s->name(at), name) != 0) s->close(job), job = NULL;
		for (int i = 0; i < s->n && !job; i++)
			if (!strcmp(s->name(i), name)) job = s->open(c, at = i);
		if (job) s->put(job, seconds, true);
		else printf("{\"peer\": \"tjit\", \"case\": \"%s\", \"error\": \"no such case\"}\n", name), fflush(stdout);
	}
	if (job) s->close(job);
	return 0;
}

int bench_run_suite(const bench_suite *s, const bench_suite_opts *o)
{
	for (int i = 0; o->list && i < s->n; i++) s->list(i);
	if (o->list) return 0;
	hand_wake();
	tj_ctx *c = tj_open(NULL);
	const int rc = o->serve ? serve(s, c) : all(s, c, o);
	tj_close(c);
	return rc;
}
