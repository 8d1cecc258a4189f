/* SPDX-License-Identifier: MIT */
/* fail: calls that must fail.  FAKE_CUDA_FAIL=function:n[:code[:on]]: the n-th call of that function of the driver or of NVRTC fails with
 * the code (999, unknown, is the default) and does nothing else; with `on` all later calls of it do, too. */
#include "test/fake/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hits, waits;

__attribute__((visibility("default"))) int fake_failures(void);
int fake_failures(void) { return hits; } /* calls that failed so far, for tests */

int fake_failed_waits(void) { return waits; }

int fake_injected(const char *function, int *code)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int calls;
	const char *s = getenv("FAKE_CUDA_FAIL");
	char name[64], on[8] = "";
	int n = 1, hit;
	*code = 999;
	if (!s || sscanf(s, "%63[^:]:%d:%d:%7s", name, &n, code, on) < 1 || strcmp(name, function) != 0) return 0;
	pthread_mutex_lock(&lock);
	calls++;
	hit = calls == n || (calls > n && *on);
	hits += hit;
	waits += hit && (strstr(function, "Synchronize") || strstr(function, "Push"));
	pthread_mutex_unlock(&lock);
	return hit;
}
