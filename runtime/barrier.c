/* SPDX-License-Identifier: MIT */
/* barrier: membarrier(2), or a full fence on both sides where the kernel has none. */
#include "runtime/barrier.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

bool rt_barrier_free;

static void enroll(void)
{
	rt_barrier_free = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void rt_barrier_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, enroll);
}

void rt_barrier_heavy(void)
{
	if (rt_barrier_free) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	else rt_barrier_full();
}
