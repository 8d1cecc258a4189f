/* SPDX-License-Identifier: MIT */
/* tj_fail(): errors of functions that are not the library's own. */
#include "jit/claim.h"

#include <stdarg.h>

tj_tensor *tj_fail_at(const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...)
{
	va_list ap;
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, op ? op : "fail");
	if (jit_refuses(c, site, "fail")) return &c->rt.poison;
	if ((int)code <= TJ_OK || code >= TJ_STATUS_COUNT || !op || !fmt)
		return jit_error(c, site, TJ_ERR_ARG, "fail", "", "code is no error, or op or fmt is NULL");
	va_start(ap, fmt);
	tj_tensor *poison = jit_verror(c, site, code, op, hint, fmt, ap);
	va_end(ap);
	return poison;
}
