/* SPDX-License-Identifier: MIT */
/* file: reads and writes all of so many bytes, also when the system does it in parts or a signal comes between. */
#ifndef TJ_RUNTIME_FILE_H
#define TJ_RUNTIME_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* False: errno says why; rt_read_all() leaves it as it was where the file ends before n bytes. */
bool rt_read_all(int fd, void *to, size_t n);
bool rt_write_all(int fd, const void *from, size_t n);

#endif
