/* SPDX-License-Identifier: MIT */
/* mock: a device without hardware, as strict as a GPU:
 *
 *   its memory   an address range that the host cannot access (PROT_NONE); kernels and copies use a second mapping of it
 *   its queues   run as late as possible: at a wait, a read, or when another queue waits for them; then in order
 *   its faults   are found when the kernel runs, later than the call that launched it
 *   its kernels  scalar C text, compiled by the C compiler of the system
 *
 * Errors that a GPU might not report end the process with a message: a kernel or a copy that uses a host address, a use of memory
 * after it was freed. */
#ifndef TJ_TEST_MOCK_H
#define TJ_TEST_MOCK_H

#include "lower/lower.h"

typedef struct mock_kargs { rt_kargs k; void *shared; } mock_kargs; /* shared: of a unit; units run one after the other */

int mock_device(void);          /* the device number of "mock:0" (runtime/device.h); the first call adds the device */
uint64_t mock_launches(void);   /* number of kernels that have run */
uint64_t mock_pending(void);    /* number of pieces of work that wait in all queues */
rt_entry mock_kernel(const char *text, rt_err *err); /* text: C of a function mock_entry, compiled once; NULL: err says why */
extern const struct lo_target mock_target;

#endif
