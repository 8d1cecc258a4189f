/* SPDX-License-Identifier: MIT */
/* live: what processes with TJ_LIVE=1 show of themselves. */
#ifndef TJ_CLI_LIVE_H
#define TJ_CLI_LIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum cli_live_state { CLI_LIVE, CLI_LIVE_GONE /* the process ended */, CLI_LIVE_ODD /* it is no such file */ } cli_live_state;

/* Calls f for each such file of the user, or of all users if this one is root; f returns false to end. Files of processes that are gone are
 * removed. fd is closed behind f. */
void cli_live_each(bool (*f)(void *env, int fd, long pid, cli_live_state s), void *env);
/* The counters as they are now: an object that has all that docs/DEBUGGING.md names. NULL: the process did not answer in so many ns. */
json_t *cli_live_read(int fd, uint64_t wait_ns);
json_t *cli_live_parse(const char *text, size_t n); /* NULL: not such an object */
uint64_t cli_live_now(void); /* ns */
void cli_live_sleep(uint64_t ns);

#endif
