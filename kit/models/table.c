/* SPDX-License-Identifier: MIT */
/* table: ops.def as rows, which are found by domain and name. */
#include "kit/models/models.h"

const ox_row ox_rows[] = {
#define OX(domain, name, since, least, most, out, attrs, reads, fold, fn) \
	{ domain, name, since, least, most, out, attrs, reads, fold, fn },
#include "kit/models/ops.def"
#undef OX
	{ NULL, NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL },
};

const ox_row *ox_find_row(const char *domain, const char *name)
{
	for (const ox_row *r = ox_rows; r->name; r++)
		if (!strcmp(r->name, name) && !strcmp(r->domain, domain)) return r;
	return NULL;
}

bool tj_onnx_supports(int i, const char **domain, const char **op, const char **since)
{
	for (const ox_row *r = ox_rows; r->name; r++) {
		if (i--) continue;
		*domain = r->domain;
		*op = r->name;
		*since = r->since;
		return true;
	}
	return false;
}
