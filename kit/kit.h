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

/* How many tensors come before TJ_END; of NULL none. */
static inline int64_t kit_length(tj_list l)
{
	int64_t n = 0;
	while (l && l[n] != TJ_END) n++;
	return n;
}

/* true, after an error: no options struct of this name ever had this size. */
static inline bool kit_bad_size(const char *site, const char *type, size_t size)
{
	if (size % 8 == 0 && size != 8) return false;
	tj_fail_at(site, TJ_ERR_ARG, type, "set .size to sizeof, as TJ_OPTS() does, or to 0", "no such struct has %zu bytes", size);
	return true;
}

/* A copy of the options that the caller gave, whose struct may be older and so shorter than ours; zeros without any. */
#define KIT_COPIED(type, o, opts) \
	type o = { 0 }; \
	if (opts) memcpy(&o, opts, (opts)->size && (opts)->size < sizeof o ? (opts)->size : sizeof o); \
	o.size = sizeof o
/* The same; the function returns `bad` if the size is wrong. */
#define KIT_OPTIONS(type, o, opts, bad) \
	if ((opts) && kit_bad_size(site, #type, (opts)->size)) return bad; \
	KIT_COPIED(type, o, opts);

#endif
