/* SPDX-License-Identifier: MIT */
/* kit: what all parts of libtjkit share. Its files include <tj.h>, the headers of the kit and nothing of the library's inside. */
#ifndef TJ_KIT_H
#define TJ_KIT_H

#include <tj.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Errors are reported at the line that called the function of the kit, which each has as its parameter `site`: the macros over ops pass
 * that on. */
#undef TJ_SITE
#define TJ_SITE site

/* A copy of the options that the caller gave, whose struct may be older and so shorter than ours; zeros without any. The function returns
 * `bad` if the struct never had this size. */
#define KIT_OPTIONS(type, o, opts, bad)                                                                                    \
	type o = { 0 };                                                                                                    \
	if (opts) {                                                                                                        \
		if ((opts)->size % 8 || (opts)->size == 8) {                                                               \
			tj_fail_at(site, TJ_ERR_ARG, #type, "set .size to sizeof(" #type "), as TJ_OPTS() does, or to 0",  \
			           "no struct of this name has %zu bytes", (opts)->size);                                  \
			return bad;                                                                                        \
		}                                                                                                          \
		memcpy(&o, opts, (opts)->size && (opts)->size < sizeof o ? (opts)->size : sizeof o);                       \
	}

#endif
