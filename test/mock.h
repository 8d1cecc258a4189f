/* mock: a device without hardware. What holds on it will hold on a GPU:
 *
 *   its memory   an address range that the host cannot touch (PROT_NONE); kernels and copies see it through a second mapping
 *   its queues   run as late as they may: at a wait, a read, or when another queue waits for them; then in order
 *   its faults   are found when the kernel runs, which is later than the call that launched it
 *   its kernels  scalar C text, compiled by the system's C compiler
 *
 * What a GPU would get wrong in silence ends the process with a message: a host address that a kernel or copy follows, memory that is
 * used after it was freed. */
#ifndef TJ_TEST_MOCK_H
#define TJ_TEST_MOCK_H

#include "lower/lower.h"

int mock_device(void);          /* its number in runtime/device.h, added by the first call: "mock:0" */
uint64_t mock_launches(void);   /* kernels that have run */
uint64_t mock_pending(void);    /* pieces of work that wait in all queues */
rt_entry mock_kernel(const char *text, rt_err *err); /* C text of a function mock_entry, compiled once; NULL: err says why */
extern const struct lo_target mock_target;

#endif
