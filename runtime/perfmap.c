/* SPDX-License-Identifier: MIT */
/* perfmap: names of code for perf, one a line: "address size name", in hex. perf reads the file when it reports, so it stays after the
 * process. It cannot be told that code is gone: of two lines for one address the later one holds. */
#include "runtime/file.h"
#include "runtime/tools.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fd = -1;
static bool failed;

/* When this process began, in seconds since 1970; 0: not known. */
static time_t began(void)
{
	char text[1024];
	unsigned long long ticks = 0;
	struct timespec now, up;
	FILE *f = fopen("/proc/self/stat", "re");
	const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	if (f) fclose(f);
	text[n] = 0;
	const char *end = strrchr(text, ')'); /* of the program's name, which may have any characters */
	if (!end || sscanf(end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &ticks) != 1) return 0;
	if (clock_gettime(CLOCK_REALTIME, &now) || clock_gettime(CLOCK_BOOTTIME, &up)) return 0;
	return now.tv_sec - up.tv_sec + (time_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* Another compiler of this process may write to the same file, so it is only appended to. What is older than the process is an earlier
 * one's with the same number. */
static int open_map(void)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	const int to = rt_tool_file(path, O_WRONLY | O_APPEND);
	if (to >= 0 && !fstat(to, &st) && st.st_size && st.st_mtime < began() - 1 && ftruncate(to, 0)) {} /* then old names stay */
	return to;
}

void rt_perfmap_add(const rt_told *t)
{
	rt_text lines = { 0 };
	if (fd < 0 && !failed) failed = (fd = open_map()) < 0;
	if (fd < 0) return;
	for (uint32_t i = 0; i < t->debug->npiece; i++) {
		const rt_piece *p = &t->debug->piece[i];
		rt_putf(&lines, "%llx %x ", (unsigned long long)(uintptr_t)(t->code + p->at), p->bytes);
		rt_put_tool_name(&lines, p);
		rt_puts(&lines, "\n");
	}
	if (!lines.oom && !rt_write_all(fd, lines.s, lines.n)) {
		rt_warn(NULL, "/tmp/perf-%d.map cannot be written; perf does not learn of more code", (int)getpid());
		close(fd);
		fd = -1, failed = true;
	}
	rt_text_free(&lines);
}

void rt_perfmap_forked(void)
{
	if (fd >= 0) close(fd);
	fd = -1, failed = false;
}
