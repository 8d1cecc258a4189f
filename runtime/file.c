/* SPDX-License-Identifier: MIT */
#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool rt_read_all(int fd, void *to, size_t n)
{
	for (char *at = to; n;) {
		const ssize_t got = read(fd, at, n);
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

bool rt_write_all(int fd, const void *from, size_t n)
{
	for (const char *at = from; n;) {
		const ssize_t put = write(fd, at, n);
		if (put < 0 && errno == EINTR) continue;
		if (put <= 0) return false;
		at += put;
		n -= (size_t)put;
	}
	return true;
}

bool rt_replace_file(const char *path, const char *beside, mode_t mode, bool sync, const void *bytes, size_t n)
{
	const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0) return false;
	bool ok = rt_write_all(fd, bytes, n) && (!sync || !fsync(fd));
	int why = errno;
	if (close(fd) && ok) ok = false, why = errno;
	if (ok && rename(beside, path)) ok = false, why = errno;
	if (!ok) unlink(beside);
	errno = why;
	return ok;
}
