/* SPDX-License-Identifier: MIT */
/* Which models are open, which fields they have, and whether their engine is still there: the last tj_close() drops a tensor that each of
 * them holds. */
#include "kit/nn/nn.h"

struct nn_life {
	atomic_bool ended;   /* the owner was closed */
	atomic_bool gone;    /* the engine was closed before that */
	atomic_int holders;  /* the owner, the tensor, and whoever waits for the end */
	tj_tensor *held;
	nn_life *next;       /* in `all` */
	uintptr_t *field;    /* addresses of a model's fields, rising */
	size_t n;
};
static nn_life *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(nn_life *l)
{
	if (atomic_fetch_sub(&l->holders, 1) > 1) return;
	free(l->field);
	free(l);
}

static void unlist(nn_life *l)
{
	pthread_mutex_lock(&lock);
	for (nn_life **at = &all; *at; at = &(*at)->next)
		if (*at == l) {
			*at = l->next;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static void engine_closed(void *env) /* or nn_life_end() was called */
{
	nn_life *l = env;
	if (!atomic_load(&l->ended)) atomic_store(&l->gone, true);
	unlist(l);
	drop(l);
}

static int by_address(const void *a, const void *b)
{
	const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
	return (x > y) - (x < y);
}

static bool list_fields(nn_life *l, const nn_slots *s)
{
	l->field = malloc(((size_t)s->n + 1) * sizeof *l->field);
	if (!l->field) return false;
	for (int64_t i = 0; i < s->n; i++) l->field[l->n++] = (uintptr_t)s->at[i].var;
	qsort(l->field, l->n, sizeof *l->field, by_address);
	return true;
}

nn_life *nn_life_begin(const char *site, tj_ctx *c, const nn_slots *s)
{
	static const unsigned char nothing = 0;
	nn_life *l = calloc(1, sizeof *l);
	if (!l || (s && !list_fields(l, s))) return free(l), tj_fail(TJ_ERR_NOMEM, "tjnn_open", "", "out of memory"), NULL;
	atomic_store(&l->holders, 2);
	tj_scope *scope = tj_push(c);
	tj_tensor *t = tj_wrap_on(c, TJ_CPU, TJ_U8, TJ_SHAPE(1), NULL, &nothing, engine_closed, l);
	l->held = tj_is_poison(t) ? NULL : tj_retain(t);
	tj_pop(scope);
	if (!l->held) return free(l->field), free(l), NULL;
	pthread_mutex_lock(&lock);
	l->next = all;
	all = l;
	pthread_mutex_unlock(&lock);
	return l;
}

bool nn_life_gone(const nn_life *l) { return l && atomic_load(&l->gone); }
bool nn_life_over(const nn_life *l) { return nn_life_gone(l) || (l && atomic_load(&l->ended)); }

nn_life *nn_life_hold(nn_life *l)
{
	atomic_fetch_add(&l->holders, 1);
	return l;
}

void nn_life_drop(nn_life *l)
{
	if (l) drop(l);
}

void nn_life_end(const char *site, nn_life *l)
{
	if (!l) return;
	unlist(l);
	atomic_store(&l->ended, true);
	if (!nn_life_gone(l)) tj_release(l->held);
	drop(l);
}

/* The first field that is not before `at`. */
static size_t first_from(const nn_life *l, uintptr_t at)
{
	size_t low = 0, high = l->n;
	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		if (l->field[mid] < at) low = mid + 1;
		else high = mid;
	}
	return low;
}

bool nn_is_taken(const void *m, size_t bytes)
{
	const uintptr_t at = (uintptr_t)m;
	bool taken = false;
	pthread_mutex_lock(&lock);
	for (const nn_life *l = all; l && !taken; l = l->next) {
		const size_t i = first_from(l, at);
		taken = i < l->n && l->field[i] - at < bytes;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}
