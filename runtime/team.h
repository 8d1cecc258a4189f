/* team: what the drivers of libraries that bring their own threads need to know of it. */
#ifndef TJ_RUNTIME_TEAM_H
#define TJ_RUNTIME_TEAM_H

#include "runtime/exec.h"

/* The right to run more than one thread, until rt_team_give(). False: stay serial (a team of one, a forked child,
 * inside a region already, or, without wait, taken by someone else). */
bool rt_team_take(rt_team *t, bool wait);
void rt_team_give(rt_team *t);

#endif
