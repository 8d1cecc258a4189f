/* SPDX-License-Identifier: MIT */
#include "runtime/host.h"

#include "runtime/fork.h"

typedef struct entry {
	rt_host h;
	const void *owner;
} entry; /* owner NULL: dropped */

static struct {
	rt_vec(entry) all;
} table; /* by number - 1 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int64_t rt_host_add(const void *owner, const rt_host *h)
{
	entry e = { *h, owner };
	e.h.name = rt_strdup(h->name);
	rt_lock(&lock);
	const int64_t n = e.h.name && rt_push(&table.all, e) ? (int64_t)table.all.n : 0;
	rt_unlock(&lock);
	if (!n) rt_free(e.h.name);
	return n;
}

bool rt_host_find(int64_t number, rt_host *out)
{
	rt_lock(&lock);
	const bool found = number > 0 && number <= (int64_t)table.all.n && table.all.v[number - 1].owner;
	if (found) *out = table.all.v[number - 1].h;
	rt_unlock(&lock);
	return found;
}

bool rt_host_is_of(const void *owner, int64_t number)
{
	rt_lock(&lock);
	const bool is = number > 0 && number <= (int64_t)table.all.n && table.all.v[number - 1].owner == owner;
	rt_unlock(&lock);
	return is;
}

void rt_host_drop(const void *owner)
{
	for (uint32_t i = 0;; i++) {
		entry gone = { 0 };
		rt_lock(&lock);
		const bool more = i < table.all.n;
		if (more && table.all.v[i].owner == owner) {
			gone = table.all.v[i];
			table.all.v[i] = (entry){ 0 };
		}
		rt_unlock(&lock);
		if (!more) return;
		if (gone.h.free) gone.h.free(gone.h.env); /* the program's: not under the lock */
		rt_free(gone.h.name);
	}
}
