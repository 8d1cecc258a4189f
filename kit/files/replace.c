/* SPDX-License-Identifier: MIT */
/* replace: the one writer of files. What is written goes to a file beside the old one, is brought to the disk, and is then renamed over it,
 * so that at no time, also when the machine stops, there is a file with a part of it. */
#include "kit/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

bool kit_put(void *out, const void *data, size_t bytes, kit_why *w)
{
	kit_out *o = out;
	if (bytes && fwrite(data, 1, bytes, o->f) != bytes) return kit_no_io(w);
	o->at += bytes;
	return true;
}

bool kit_patch(kit_out *o, uint64_t at, const void *data, size_t bytes, kit_why *w)
{
	if (fseeko(o->f, (off_t)at, SEEK_SET) || fwrite(data, 1, bytes, o->f) != bytes || fseeko(o->f, (off_t)o->at, SEEK_SET))
		return kit_no_io(w);
	return true;
}

typedef struct place { char *folder, *beside, *real; } place; /* real: what the link, if it is one, leads to */

/* The next name to try; each is another one. */
static bool name_beside(place *p, kit_why *w)
{
	uint64_t r = 0;
	if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) return kit_no_io(w);
	free(p->beside);
	p->beside = NULL;
	if (asprintf(&p->beside, "%s/.tj-%016llx", p->folder, (unsigned long long)r) >= 0) return true;
	p->beside = NULL;
	return kit_no_memory(w);
}

/* A file without a name, where the file system has them: nothing of it stays when the process is killed. Else p->beside has its name. */
static int create(place *p, kit_why *w)
{
	int fd = access("/proc/self/fd", X_OK) ? -1 : open(p->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	while (fd < 0) {
		if (!name_beside(p, w)) return -1;
		fd = open(p->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd < 0 && errno != EEXIST) return kit_no_io(w), -1;
	}
	return fd;
}

/* Gives a file without a name one. */
static bool link_beside(int fd, place *p, kit_why *w)
{
	char open_file[40];
	snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fd);
	while (!p->beside) {
		if (!name_beside(p, w)) return false;
		if (!linkat(AT_FDCWD, open_file, AT_FDCWD, p->beside, AT_SYMLINK_FOLLOW)) return true;
		const bool again = errno == EEXIST;
		if (!again) kit_no_io(w);
		free(p->beside);
		p->beside = NULL;
		if (!again) return false;
	}
	return true;
}

static bool flush_folder(const char *folder, kit_why *w)
{
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) return errno == EACCES || kit_no_io(w); /* one may be written, and not be read */
	const bool ok = !fsync(fd) || errno == EINVAL || errno == EROFS || kit_no_io(w); /* some file systems cannot */
	close(fd);
	return ok;
}

static bool fill(int fd, place *p, const struct stat *old, bool (*write)(void *env, kit_out *o, kit_why *w), void *env, kit_why *w)
{
	kit_out o = { .f = fdopen(fd, "wb") };
	if (!o.f) return close(fd), kit_no_io(w);
	bool ok = write(env, &o, w);
	if (ok && fflush(o.f)) ok = kit_no_io(w);
	if (ok && old && fchmod(fd, old->st_mode & 07777)) ok = kit_no_io(w);
	if (ok && fsync(fd)) ok = kit_no_io(w);
	ok = ok && link_beside(fd, p, w);
	if (fclose(o.f) && ok) ok = kit_no_io(w);
	return ok;
}

static bool rename_over(place *p, const struct stat *old, bool (*write)(void *env, kit_out *o, kit_why *w), void *env, kit_why *w)
{
	const int fd = create(p, w);
	if (fd < 0) return false;
	if (fill(fd, p, old, write, env, w) && (!rename(p->beside, p->real) || kit_no_io(w))) return flush_folder(p->folder, w);
	if (p->beside) unlink(p->beside);
	return false;
}

/* A device or a pipe, which nothing can replace. */
static bool write_into(const char *path, bool (*write)(void *env, kit_out *o, kit_why *w), void *env, kit_why *w)
{
	kit_out o = { .f = fopen(path, "wbe") };
	if (!o.f) return kit_no_io(w);
	bool ok = write(env, &o, w);
	if (ok && fflush(o.f)) ok = kit_no_io(w);
	if (fclose(o.f) && ok) ok = kit_no_io(w);
	return ok;
}

bool kit_replace(const char *path, bool (*write)(void *env, kit_out *o, kit_why *w), void *env, kit_why *w)
{
	struct stat s;
	if (!path || !*path) return kit_no(w, TJ_ERR_ARG, "the path is %s", path ? "empty" : "NULL");
	const bool there = !stat(path, &s);
	if (there && S_ISDIR(s.st_mode)) return errno = EISDIR, kit_no_io(w);
	if (there && !S_ISREG(s.st_mode)) return write_into(path, write, env, w);
	place p = { .real = there ? realpath(path, NULL) : strdup(path) };
	if (!p.real) return kit_no_io(w);
	const char *slash = strrchr(p.real, '/');
	p.folder = !slash ? strdup(".") : strndup(p.real, slash == p.real ? 1 : (size_t)(slash - p.real));
	const bool ok = p.folder ? rename_over(&p, there ? &s : NULL, write, env, w) : kit_no_memory(w);
	free(p.beside);
	free(p.folder);
	free(p.real);
	return ok;
}
