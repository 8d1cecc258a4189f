/* SPDX-License-Identifier: MIT */
/* toolfile: files that profilers read, and names in them. */
#include "runtime/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void rt_put_tool_name(rt_text *t, const rt_piece *p)
{
	const size_t from = t->n;
	rt_putf(t, "%s%s%s", p->name, *p->ops ? ":" : "", p->ops);
	for (size_t i = from; i < t->n; i++)
		if ((unsigned char)t->s[i] < ' ') t->s[i] = '?';
}

/* The file may be there: of an earlier process with this number, or of another compiler in this one. It is used only if it is a plain file
 * of this user, so that nobody else has chosen where the text goes. */
int rt_tool_file(const char *path, int flags)
{
	struct stat st;
	const int fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0) rt_warn(NULL, "%s: %s; perf does not learn of compiled code", path, strerror(errno));
	else if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1) return fd;
	else rt_warn(NULL, "%s is not a plain file of this user; perf does not learn of compiled code", path);
	if (fd >= 0) close(fd);
	return -1;
}
