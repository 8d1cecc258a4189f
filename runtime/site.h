/* SPDX-License-Identifier: MIT */
/* site: sites that explain an index that is out of range, made by tj_site_for(). Such a site is a string of its own with the text of the
 * caller's line, so it goes through traces, graphs and plans as any site does; the run that finds the fault looks it up. */
#ifndef TJ_RUNTIME_SITE_H
#define TJ_RUNTIME_SITE_H

#include "runtime/base.h"

typedef struct rt_site {
	struct rt_site *next;             /* of the same bucket */
	const char *text;                 /* the site */
	const char *op, *message, *hint;  /* of the error */
	bool sized;                       /* the size of the axis follows the message */
} rt_site;

const rt_site *rt_site_find(const char *site); /* by address; NULL: tj_site_for() did not make it */
/* e is of an index that a run found out of range: gives it the texts of the site, if tj_site_for() made it. */
void rt_site_tell(rt_err *e, const char *site);

#endif
