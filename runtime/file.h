/* SPDX-License-Identifier: MIT */
/* file: reads and writes all of so many bytes, also when the system does it in parts or a signal comes between; replaces files. */
#ifndef TJ_RUNTIME_FILE_H
#define TJ_RUNTIME_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* False: errno says why; rt_read_all() leaves it as it was where the file ends before n bytes. */
bool rt_read_all(int fd, void *to, size_t n);
bool rt_write_all(int fd, const void *from, size_t n);
/* Writes a new file, beside, and renames it, so that path is the old file or the new one and never a part of it. sync: also after a crash
 * of the machine. False: errno says why, and beside is gone. */
bool rt_replace_file(const char *path, const char *beside, mode_t mode, bool sync, const void *bytes, size_t n);

#endif
