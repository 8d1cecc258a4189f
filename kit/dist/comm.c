/* SPDX-License-Identifier: MIT */
/* Communicators: a thread that runs jobs one after the other, in the order of their start, which is the same on all ranks. */
#include "kit/dist/dist.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one process ---- */
static void *self_open(int *rank, int *size, char *why)
{
	*rank = 0;
	*size = 1;
	return why; /* it has no state; anything but NULL */
}
static bool self_exchange(void *t, int nsend, const dist_part *send, int nrecv, const dist_part *recv, char *why)
{
	(void)t, (void)send, (void)recv, (void)why;
	return !nsend && !nrecv;
}
static void self_close(void *t) { (void)t; }
static const dist_transport self = { DIST_NUMBER, self_open, self_exchange, self_close };

/* ---- the queue ---- */
dist_job *dist_start(tj_comm *w, const dist_header *h, int peer, const void *x, size_t in_bytes, size_t out_bytes)
{
	dist_job *j = malloc(sizeof *j + in_bytes + out_bytes + 128);
	if (!j) return NULL;
	*j = (dist_job){ .h = *h, .peer = peer, .in_bytes = in_bytes, .out_bytes = out_bytes };
	j->out = j->in + (in_bytes + 63) / 64 * 64;
	if (in_bytes) memcpy(j->in, x, in_bytes);
	pthread_mutex_lock(&w->lock);
	j->ticket = ++w->tickets;
	*(w->last ? &w->last->next : &w->first) = j;
	w->last = j;
	if (!w->next) w->next = j;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return j;
}

dist_job *dist_find(tj_comm *w, int64_t ticket)
{
	pthread_mutex_lock(&w->lock);
	dist_job *j = w->first;
	while (j && j->ticket != ticket) j = j->next;
	pthread_mutex_unlock(&w->lock);
	return j;
}

static void take(tj_comm *w, dist_job *j)
{
	dist_job *before = NULL;
	for (dist_job *k = w->first; k != j; k = k->next) before = k;
	*(before ? &before->next : &w->first) = j->next;
	if (w->last == j) w->last = before;
}

bool dist_finish(tj_comm *w, dist_job *j, void *out, char *why)
{
	pthread_mutex_lock(&w->lock);
	while (!j->done) pthread_cond_wait(&w->changed, &w->lock);
	take(w, j);
	pthread_mutex_unlock(&w->lock);
	const bool ok = !*j->why;
	if (ok && j->out_bytes) memcpy(out, j->out, j->out_bytes);
	if (!ok) snprintf(why, DIST_WHY, "%s", j->why);
	free(j);
	return ok;
}

/* ---- the thread ---- */
static void run_one(tj_comm *w, dist_job *j)
{
	pthread_mutex_unlock(&w->lock);
	const bool ok = dist_run(w, j);
	pthread_mutex_lock(&w->lock);
	if (!ok && !*w->why) snprintf(w->why, sizeof w->why, "%s", j->why);
	j->done = true;
	w->next = j->next;
	pthread_cond_broadcast(&w->changed);
}

static void *work(void *env)
{
	tj_comm *w = env;
	pthread_mutex_lock(&w->lock);
	w->state = w->transport->open(&w->rank, &w->size, w->why);
	w->opened = true;
	pthread_cond_broadcast(&w->changed);
	while (w->state && !(w->stop && !w->next)) {
		if (w->next)
			run_one(w, w->next);
		else
			pthread_cond_wait(&w->changed, &w->lock);
	}
	if (w->state) w->transport->close(w->state);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* ---- the plug-in ---- */
static void *open_library(const char *name, const tj_comm_opts *o, char *why)
{
	static const char *const places[] = { "", "tjit/", "../", "../../", "../lib/tjit/", "../lib/" };
	Dl_info me;
	char path[4096];
	void *l = NULL;
	if (o->plugin) l = dlopen(o->plugin, RTLD_NOW | RTLD_LOCAL);
	const char *slash = !o->plugin && dladdr((void *)(uintptr_t)&self, &me) ? strrchr(me.dli_fname, '/') : NULL;
	for (size_t i = 0; !l && slash && i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%.*s%slibtj-%s.so", (int)(slash - me.dli_fname) + 1, me.dli_fname, places[i], name);
		l = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	snprintf(path, sizeof path, "libtj-%s.so", name);
	if (!l && !o->plugin) l = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!l) snprintf(why, DIST_WHY, "%s", dlerror());
	return l;
}

static const dist_transport *find_transport(const char *name, const tj_comm_opts *o, void **library, char *why)
{
	*library = NULL;
	if (!strcmp(name, "self")) return &self;
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name)) return snprintf(why, DIST_WHY, "no such name"), NULL;
	if (!(*library = open_library(name, o, why))) return NULL;
	dist_transport_fn *f;
	*(void **)&f = dlsym(*library, "tj_dist_transport");
	const dist_transport *t = f ? f() : NULL;
	if (t && t->number == DIST_NUMBER) return t;
	snprintf(why, DIST_WHY, "the plug-in is of another version");
	dlclose(*library);
	return NULL;
}

/* ---- opening and closing ---- */
static void free_comm(tj_comm *w)
{
	for (dist_job *j = w->first, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	free(w); /* the library stays: MPI has threads of its own */
}

void dist_forget(void *env)
{
	tj_comm *w = env;
	w->forgotten = true;
	if (w->closed) free_comm(w);
}

tj_comm *tj_comm_open_at(const char *site, tj_ctx *c, const char *name, const tj_comm_opts *opts)
{
	KIT_OPTIONS(tj_comm_opts, o, opts, NULL)
	char why[DIST_WHY] = "";
	void *library;
	tj_comm *w = c && name ? calloc(1, sizeof *w) : NULL;
	if (!w)
		return tj_fail(c && name ? TJ_ERR_NOMEM : TJ_ERR_ARG, "tj_comm_open", "", "%s",
		               !c      ? "no context"
		               : !name ? "no name"
		                       : "out of memory"),
		       NULL;
	w->ctx = c;
	if (!(w->transport = find_transport(name, &o, &library, why))) {
		tj_fail(TJ_ERR_IO, "tj_comm_open", "\"mpi\" needs libtj-mpi.so and Open MPI (Debian: libtjkit0-openmpi)", "\"%s\": %s", name,
		        why);
		free(w);
		return NULL;
	}
	w->library = library;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	bool ok = !pthread_create(&w->thread, NULL, work, w);
	if (ok) {
		pthread_mutex_lock(&w->lock);
		while (!w->opened) pthread_cond_wait(&w->changed, &w->lock);
		pthread_mutex_unlock(&w->lock);
		if (!w->state) pthread_join(w->thread, NULL);
	}
	if (ok && w->state && dist_register(site, w)) return w;
	tj_fail(TJ_ERR_IO, "tj_comm_open", "", "\"%s\": %s", name, *w->why ? w->why : "no thread can be made");
	if (ok && w->state)
		tj_comm_close(w);
	else
		free_comm(w);
	return NULL;
}

tj_status tj_comm_close_at(const char *site, tj_comm *w)
{
	if (!w) return TJ_OK;
	char why[DIST_WHY] = "";
	dist_header h = { .kind = DIST_CLOSE };
	snprintf(h.site, sizeof h.site, "%s", site);
	dist_job *j = dist_start(w, &h, 0, NULL, 0, 0);
	const bool ok = j && dist_finish(w, j, NULL, why);
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	if (!ok) tj_fail(TJ_ERR_STATE, "tj_comm_close", "all ranks ask for the same collectives", "%s", why);
	w->closed = true;
	if (!w->registered || w->forgotten) free_comm(w);
	return ok ? TJ_OK : TJ_ERR_STATE;
}

int tj_comm_rank(const tj_comm *w) { return w ? w->rank : 0; }
int tj_comm_size(const tj_comm *w) { return w ? w->size : 1; }
uint64_t tj_comm_bytes(const tj_comm *w) { return w ? w->sent : 0; }
