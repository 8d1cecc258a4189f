/* SPDX-License-Identifier: MIT */
/* itt: ranges as tasks of Intel's Instrumentation and Tracing Technology. What a program links is small: it opens the collector that the
 * profiler names, and hands it a table of function pointers to fill. The layout of the table is Intel's (ittnotify_config.h, version 3). */
#include "runtime/itt.h"
#include "runtime/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct id { unsigned long long d1, d2, d3; } id;
typedef struct domain { /* __itt_domain */
	volatile int flags;
	const char *name;
	void *wide;
	int extra1;
	void *extra2;
	struct domain *next;
} domain;
typedef struct handle { /* __itt_string_handle */
	const char *name;
	void *wide;
	int extra1;
	void *extra2;
	struct handle *next;
} handle;
typedef struct api { /* __itt_api_info */
	const char *name;
	void **function;
	void *init, *none; /* none: what *function is where the collector has none */
	int group;
} api;
typedef struct global { /* __itt_global */
	unsigned char magic[8];
	unsigned long version_major, version_minor, version_build;
	volatile long api_initialized, mutex_initialized, counter;
	pthread_mutex_t mutex;
	void *library, *error_handler;
	const char **path;
	api *list;
	struct global *next;
	void *threads;
	domain *domains;
	handle *strings;
	int state;
	void *counters;
	unsigned int events;
	void *histograms;
} global;

static void *create_domain, *create_string, *begin_task, *end_task;
enum { GROUP_ALL = -1 };
static api list[] = { { "__itt_domain_create", &create_domain, NULL, NULL, GROUP_ALL },
	              { "__itt_string_handle_create", &create_string, NULL, NULL, GROUP_ALL },
	              { "__itt_task_begin", &begin_task, NULL, NULL, GROUP_ALL },
	              { "__itt_task_end", &end_task, NULL, NULL, GROUP_ALL },
	              { NULL, NULL, NULL, NULL, 0 } };
static global itt = { .magic = { 0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30 },
	              .version_major = 3,
	              .version_minor = 23,
	              .version_build = 20180723,
	              .mutex = PTHREAD_MUTEX_INITIALIZER,
	              .list = list };
static domain *ours; /* NULL: there is no collector */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void (*begin)(const domain *d, id task, id parent, handle *name);
static void (*end)(const domain *d);

static void open_collector(void)
{
	const char *path = secure_getenv("INTEL_LIBITTNOTIFY64");
	void (*init)(global *, int) = NULL;
	domain *(*create)(const char *) = NULL;
	if (!path || !*path) return;
	itt.library = dlopen(path, RTLD_LAZY);
	void *f = itt.library ? dlsym(itt.library, "__itt_api_init") : NULL;
	if (!f) {
		rt_warn(NULL, "INTEL_LIBITTNOTIFY64=%s is not a collector that can be opened; it gets no ranges", path);
		return;
	}
	memcpy(&init, &f, sizeof init);
	itt.api_initialized = itt.mutex_initialized = 1;
	init(&itt, GROUP_ALL);
	memcpy(&begin, &begin_task, sizeof begin);
	memcpy(&end, &end_task, sizeof end);
	memcpy(&create, &create_domain, sizeof create);
	if (begin && end && create && create_string) ours = create("tjit");
}

/* ---- names ---- */
enum { BUCKETS = 512, MOST = 4096 };
typedef struct known { struct known *next; handle *handle; char name[]; } known;
static struct { pthread_mutex_t lock; known *bucket[BUCKETS]; int n; } names = { .lock = PTHREAD_MUTEX_INITIALIZER };

static known *add(known **bucket, const char *name)
{
	const size_t n = strlen(name) + 1;
	handle *(*create)(const char *) = NULL;
	known *k = names.n < MOST ? rt_alloc(sizeof *k + n) : NULL;
	memcpy(&create, &create_string, sizeof create);
	if (!k) return NULL;
	memcpy(k->name, name, n);
	k->handle = create(k->name);
	k->next = *bucket;
	names.n++;
	return *bucket = k;
}

/* Of one name always the same one; NULL: there are too many. */
static handle *handle_of(const char *name)
{
	known **bucket = &names.bucket[rt_hash(name, strlen(name), 0) % BUCKETS];
	rt_lock(&names.lock);
	known *k = *bucket;
	while (k && strcmp(k->name, name) != 0) k = k->next;
	if (!k) k = add(bucket, name);
	handle *h = k ? k->handle : NULL;
	rt_unlock(&names.lock);
	return h;
}

void rt_itt_begin(const char *name)
{
	const id none = { 0, 0, 0 };
	pthread_once(&once, open_collector);
	if (ours) begin(ours, none, none, handle_of(name));
}

void rt_itt_end(void)
{
	if (ours) end(ours);
}
