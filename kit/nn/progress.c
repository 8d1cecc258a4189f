/* SPDX-License-Identifier: MIT */
/* The progress of a run: one line of a terminal that is painted again, plain lines elsewhere. */
#include "kit/nn/nn.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

double nn_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void nn_progress_open(nn_progress *p, FILE *to, int64_t first, int64_t steps)
{
	*p = (nn_progress){ .to = to, .terminal = to && isatty(fileno(to)), .first = first, .steps = steps, .began = nn_seconds() };
	if (to && first) fprintf(to, "going on at step %lld of %lld\n", (long long)first, (long long)steps);
}

/* Replaces the value of this name, or adds it where there is room. */
void nn_progress_metric(nn_progress *p, const char *name, double value)
{
	char all[sizeof p->metrics] = "", one[80];
	size_t at = 0;
	bool met = false;
	snprintf(one, sizeof one, "%s %.4g", name, value);
	for (const char *s = p->metrics; *s;) {
		const size_t n = strcspn(s, " "), each = n + 1 + strcspn(s + n + 1, " ");
		const bool same = n == strlen(name) && !strncmp(s, name, n);
		at += (size_t)snprintf(all + at, sizeof all - at, "%s%.*s", at ? "  " : "", same ? (int)strlen(one) : (int)each,
		                       same ? one : s);
		met |= same;
		s += each;
		s += strspn(s, " ");
		if (at >= sizeof all) return;
	}
	if (!met && at + strlen(one) + 2 < sizeof all) snprintf(all + at, sizeof all - at, "%s%s", at ? "  " : "", one);
	memcpy(p->metrics, all, sizeof all);
}

static void print_time(FILE *to, double seconds)
{
	const long s = lround(seconds);
	if (s >= 3600)
		fprintf(to, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
	else
		fprintf(to, "%ld:%02ld", s / 60, s % 60);
}

static void paint(const nn_progress *p, int64_t done, double rate)
{
	const double spent = nn_seconds() - p->began, speed = spent > 0 ? (double)(done - p->first) / spent : 0;
	fprintf(p->to, "%sstep %lld/%lld", p->terminal ? "\r\033[K" : "", (long long)done, (long long)p->steps);
	if (*p->metrics) fprintf(p->to, "  %s", p->metrics);
	if (!isnan(rate)) fprintf(p->to, "  rate %.3g", rate);
	fprintf(p->to, "  %.*f steps/s  ", speed < 10 ? 1 : 0, speed);
	print_time(p->to, spent);
	if (done < p->steps && speed > 0) {
		fprintf(p->to, ", ");
		print_time(p->to, (double)(p->steps - done) / speed);
		fprintf(p->to, " left");
	}
	if (!p->terminal) fputc('\n', p->to);
	fflush(p->to);
}

void nn_progress_step(nn_progress *p, int64_t done, double rate)
{
	const double now = nn_seconds();
	const int64_t part = p->steps > 20 ? p->steps / 20 : 1;
	if (!p->to || (p->terminal ? now - p->painted < 0.1 : done % part != 0)) return;
	p->painted = now;
	paint(p, done, rate);
}

void nn_progress_end(nn_progress *p, int64_t done, const char *why)
{
	if (!p->to) return;
	if (p->terminal) paint(p, done, NAN);
	if (p->terminal) fputc('\n', p->to);
	if (*why) fprintf(p->to, "stopped after step %lld: %s\n", (long long)done, why);
	fflush(p->to);
}
