/* SPDX-License-Identifier: MIT */
#include "runtime/file.h"

#include <errno.h>
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
