/* SPDX-License-Identifier: MIT */
/* map: a whole file in memory, read only, which tensors may outlive its handle on. */
#include "kit/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct kit_map {
	atomic_int holders;
	void *data; /* NULL: the file is empty */
	size_t bytes;
};

/* A fifo is not waited for. */
static kit_map *map(int fd, kit_why *w)
{
	struct stat s;
	if (fstat(fd, &s)) return kit_no_io(w), NULL;
	if (!S_ISREG(s.st_mode)) return kit_no(w, TJ_ERR_IO, "it is no regular file"), NULL;
	kit_map *m = malloc(sizeof *m);
	if (!m) return kit_no_memory(w), NULL;
	*m = (kit_map){ .bytes = (size_t)s.st_size };
	atomic_init(&m->holders, 1);
	if (!m->bytes) return m;
	m->data = mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (m->data != MAP_FAILED) return m;
	kit_no_io(w);
	free(m);
	return NULL;
}

kit_map *kit_map_open(const char *path, kit_why *w)
{
	if (!path) return kit_no(w, TJ_ERR_ARG, "the path is NULL"), NULL;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) return kit_no_io(w), NULL;
	kit_map *m = map(fd, w);
	close(fd);
	return m;
}

const void *kit_map_data(const kit_map *m, size_t *bytes)
{
	*bytes = m->bytes;
	return m->data ? m->data : "";
}

kit_map *kit_map_hold(kit_map *m)
{
	atomic_fetch_add(&m->holders, 1);
	return m;
}

void kit_map_drop(void *map)
{
	kit_map *m = map;
	if (!m || atomic_fetch_sub(&m->holders, 1) > 1) return;
	if (m->data) munmap(m->data, m->bytes);
	free(m);
}
