/* SPDX-License-Identifier: MIT */
/* The log: topics chosen by name, lines handed to the user's function or to stderr. */
#include "runtime/log.h"

static const struct { const char *name, *doc; } topics[RT_LOG_COUNT] = {
#define X(NAME, text, doc) { text, doc },
	RT_LOG_MAP(X)
#undef X
};

/* Writing is a cancellation point. Cancelling is disabled here, because a thread must not end in the middle of a call. */
static void emit(const rt_log_to *l, const char *line)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (l && l->to) l->to(l->self, line);
	else fprintf(stderr, "%s\n", line);
	pthread_setcancelstate(cancel, NULL);
}

static void help(const rt_log_to *l)
{
	char line[128];
	for (int i = 0; i < RT_LOG_COUNT; i++) {
		snprintf(line, sizeof line, "TJ_LOG %-11s %s", topics[i].name, topics[i].doc);
		emit(l, line);
	}
	emit(l, "TJ_LOG @name       only the lines of that function");
}

static int topic_of(const char *s, size_t n)
{
	for (int i = 0; i < RT_LOG_COUNT; i++)
		if (strlen(topics[i].name) == n && !memcmp(topics[i].name, s, n)) return i;
	return -1;
}

bool rt_log_parse(rt_log_to *l, const char *s, rt_err *err)
{
	uint32_t bits = 0;
	char only[sizeof l->only] = "";
	for (size_t n; s && *s; s += n + (s[n] == ',')) {
		n = strcspn(s, ",");
		int t = topic_of(s, n);
		if (t >= 0) bits |= 1u << t;
		else if (n == 3 && !memcmp(s, "all", 3)) bits = (1u << RT_LOG_COUNT) - 1;
		else if (n == 4 && !memcmp(s, "help", 4)) help(l);
		else if (*s == '@' && n < sizeof only) snprintf(only, sizeof only, "%.*s", (int)n - 1, s + 1);
		else if (n) {
			rt_fail(err, TJ_ERR_ARG, "log", "no topic is called \"%.*s\"", (int)n, s);
			rt_hint(err, "TJ_LOG=help lists the topics");
			return false;
		}
	}
	l->topics = bits;
	memcpy(l->only, only, sizeof only);
	return true;
}

/* Is the line of the function l->only? Lines begin with [function/entry/segment], or with a shorter form of it. */
static bool wanted(const rt_log_to *l, const char *line)
{
	size_t n = strlen(l->only);
	return !n || (*line == '[' && !strncmp(line + 1, l->only, n) && (line[1 + n] == ']' || line[1 + n] == '/'));
}

void rt_log(const rt_log_to *l, rt_topic t, const char *fmt, ...)
{
	if (!rt_logs(l, t)) return;
	char line[1024];
	int n = snprintf(line, sizeof line, "%s: ", topics[t].name);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	va_end(ap);
	if (wanted(l, line + n)) emit(l, line);
}

void rt_warn(const rt_log_to *l, const char *fmt, ...)
{
	char line[512] = "tjit: ";
	size_t n = strlen(line);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - n, fmt, ap);
	va_end(ap);
	emit(l, line);
}

void rt_log_text(const rt_log_to *l, rt_topic t, const char *where, const char *text)
{
	if (!rt_logs(l, t) || !text) return;
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		rt_log(l, t, "[%s] %.*s", where, (int)n, text);
	}
}
