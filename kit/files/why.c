/* SPDX-License-Identifier: MIT */
/* why: errors of functions that do not report themselves, since they run in threads without a context, or do not know the name of the file.
 */
#include "kit/files/files.h"

#include <errno.h>
#include <stdarg.h>

bool kit_no(kit_why *w, tj_status code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	w->code = code;
	vsnprintf(w->text, sizeof w->text, fmt, ap);
	va_end(ap);
	return false;
}

bool kit_no_io(kit_why *w)
{
	char text[128];
	const int e = errno;
	return kit_no(w, e == ENOMEM ? TJ_ERR_NOMEM : TJ_ERR_IO, "%s", strerror_r(e, text, sizeof text));
}

bool kit_no_memory(kit_why *w)
{
	return kit_no(w, TJ_ERR_NOMEM, "out of memory");
}

tj_tensor *kit_report(const char *site, const char *op, const char *path, const kit_why *w)
{
	return tj_fail_at(site, w->code, op, NULL, "%s%s%s", path ? path : "", path ? ": " : "", w->text);
}
