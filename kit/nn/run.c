/* SPDX-License-Identifier: MIT */
/* Runs: what a training loop needs beside its step. The state is a function of the number of the step: the rate, the random numbers and the
 * place in the data are set from it, so a run that goes on from a checkpoint makes the same steps. */
#include "kit/nn/nn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tjdata.h>
#include <unistd.h>

struct tjnn_run {
	tj_ctx *ctx;
	nn_life *life, *of_model, *of_optim; /* of_optim: NULL without one */
	tjnn_run_opts o;
	int64_t step, next;   /* the one that runs, and the one to begin next */
	int64_t epoch, batch; /* of the loader, after the step that runs */
	int64_t ranks;        /* that the batches of the loader go to; of a checkpoint after it was read */
	int64_t saved;        /* step of the last checkpoint; -1: none */
	double best;
	int64_t scores, bad; /* scores so far; those since the best */
	bool stopped, failed;
	tj_status error;    /* that the context had, if it failed */
	const char *why;    /* what stopped it */
	tjnn_value *values; /* of the run, then the program's */
	nn_progress progress;
	nn_metrics metrics;
	tj_scope *scope; /* of the running step; NULL: none */
	tj_comm *comm;   /* of the optimiser; NULL: one process */
	int lock;        /* the folder, opened and locked; -1: none */
	struct sigaction before;
};

/* A signal belongs to the process, and so does this: the kit's only variable. Counts Ctrl-C; the second one ends the process. */
static volatile sig_atomic_t interrupts;
static void interrupted(int number)
{
	if (interrupts++) {
		signal(number, SIG_DFL);
		raise(number);
	}
}

/* ---- checkpoints in the folder ---- */
static bool path_of(const tjnn_run *r, int64_t step, char *to, size_t room)
{
	return snprintf(to, room, "%s/step-%09lld.safetensors", r->o.folder, (long long)step) < (int)room;
}

static int64_t step_of(const char *name) /* -1: no checkpoint */
{
	long long step;
	int end = 0;
	return sscanf(name, "step-%9lld.safetensors%n", &step, &end) == 1 && end && !name[end] && step >= 0 ? step : -1;
}

/* The greatest step below `below` that the folder has a checkpoint of; -1: none. */
static int64_t newest(const tjnn_run *r, int64_t below)
{
	int64_t most = -1;
	DIR *d = opendir(r->o.folder);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		const int64_t step = step_of(e->d_name);
		if (step > most && step < below) most = step;
	}
	if (d) closedir(d);
	return most;
}

static bool is_first(const tjnn_run *r) { return !tj_comm_rank(r->comm); } /* it writes the folder */

static int64_t newest_of_first(const char *site, const tjnn_run *r, int64_t below)
{
	return nn_of_first(site, r->ctx, r->comm, newest(r, below), -1);
}

static void remove_old(const tjnn_run *r)
{
	char path[4096];
	int64_t at = INT64_MAX;
	for (int i = 0; i < r->o.keep && at >= 0; i++) at = newest(r, at);
	while (at > 0 && (at = newest(r, at)) >= 0)
		if (path_of(r, at, path, sizeof path)) unlink(path);
}

static tj_status save(const char *site, tjnn_run *r)
{
	char path[4096];
	if (!r->o.folder || r->saved == r->next) return TJ_OK;
	if (!path_of(r, r->next, path, sizeof path))
		return tj_fail(TJ_ERR_IO, "tjnn_run", "", "the name of the folder is too long"), TJ_ERR_IO;
	nn_metrics_flush(&r->metrics); /* what is before a checkpoint is in the files when it is there */
	const tj_status st = tjnn_save(r->o.model, r->o.optim, r->values, path);
	if (st != TJ_OK) return st;
	r->saved = r->next;
	if (is_first(r)) remove_old(r);
	return TJ_OK;
}

/* Goes on from the newest checkpoint that is whole. A damaged one is told, and an older one is taken; a sound one of another model is an
 * error. */
static tj_status restore(const char *site, tjnn_run *r)
{
	char path[4096];
	for (int64_t step = newest_of_first(site, r, INT64_MAX); step >= 0; step = newest_of_first(site, r, step)) {
		if (!path_of(r, step, path, sizeof path)) break;
		const tj_status st = tjnn_load(r->o.model, r->o.optim, r->values, path, NULL);
		if (st == TJ_OK) {
			const int64_t ranks = tj_comm_size(r->comm);
			r->saved = r->next;
			r->batch = r->batch * r->ranks / ranks; /* another number of ranks goes on near there */
			r->ranks = ranks;
			if (is_first(r)) remove_old(r); /* what a kill has left */
			return r->o.loader ? tj_loader_seek(r->o.loader, r->epoch, r->batch) : TJ_OK;
		}
		if (tj_check(r->ctx) != TJ_ERR_PARSE) {
			const tj_error *e = tj_last_error(r->ctx);
			tj_fail(e->code, "tjnn_run_open", ".restart begins anew; another folder keeps both", "%s", e->message);
			return st;
		}
		if (!r->o.quiet) fprintf(r->o.progress, "%s is damaged: %s\n", path, tj_last_error(r->ctx)->message);
	}
	return TJ_OK;
}

/* ---- opening ---- */
static bool make_values(tjnn_run *r)
{
	size_t n = 0;
	while (r->o.values && r->o.values[n].name) n++;
	const tjnn_value own[] = { { "run.step", &r->next, NULL, NULL },     { "run.epoch", &r->epoch, NULL, NULL },
		                   { "run.batch", &r->batch, NULL, NULL },   { "run.ranks", &r->ranks, NULL, NULL },
		                   { "run.scores", &r->scores, NULL, NULL }, { "run.bad", &r->bad, NULL, NULL },
		                   { "run.best", NULL, &r->best, NULL } };
	enum { OWN = sizeof own / sizeof *own };
	r->values = calloc(n + OWN + 1, sizeof *r->values);
	if (!r->values) return false;
	memcpy(r->values, own, sizeof own);
	if (n) memcpy(r->values + OWN, r->o.values, n * sizeof *r->values);
	return true;
}

/* Two runs in one folder would replace each other's checkpoints. The system drops the lock when the process ends, however it does. */
static tj_status lock_folder(const char *site, tjnn_run *r)
{
	r->lock = open(r->o.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->lock < 0 || !flock(r->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return TJ_OK; /* not all file systems have locks */
	tj_fail(TJ_ERR_STATE, "tjnn_run_open", "each run has a folder of its own", "%s: another run is at work there", r->o.folder);
	return TJ_ERR_STATE;
}

static tj_status open_folder(const char *site, tjnn_run *r)
{
	if (!r->o.folder) return TJ_OK;
	if (is_first(r) && mkdir(r->o.folder, 0777) && errno != EEXIST) {
		tj_fail(TJ_ERR_IO, "tjnn_run_open", "", "%s: %s", r->o.folder, strerror(errno));
		return TJ_ERR_IO;
	}
	tj_status st = is_first(r) ? lock_folder(site, r) : TJ_OK;
	if (st == TJ_OK && !r->o.restart) st = restore(site, r);
	if (st == TJ_OK && is_first(r)) st = nn_metrics_open(site, &r->metrics, r->o.folder, r->next, r->o.tensorboard);
	return st;
}

static void free_run(tjnn_run *r)
{
	if (!r) return;
	if (r->lock >= 0) close(r->lock);
	nn_life_end("tjnn_run_close()", r->life);
	nn_life_drop(r->of_model);
	nn_life_drop(r->of_optim);
	free(r->values);
	free(r);
}

tjnn_run *tjnn_run_open_at(const char *site, tj_ctx *c, const tjnn_run_opts *opts)
{
	KIT_OPTIONS(tjnn_run_opts, o, opts, NULL)
	if (nn_refuses(site, o.model, "tjnn_run_open", false) || (o.optim && nn_optim_refuses(site, o.optim, "tjnn_run_open"))) return NULL;
	if (!c || o.steps < 0 || o.save_every < 0 || o.keep < 0 || o.patience < 0) {
		tj_fail(TJ_ERR_ARG, "tjnn_run_open", "", "%s", c ? "numbers are 0 or more" : "no context");
		return NULL;
	}
	if (!o.save_every) o.save_every = o.steps >= 10 ? o.steps / 10 : 1;
	if (!o.keep) o.keep = 3;
	if (!o.progress) o.progress = stderr;
	tjnn_run *r = calloc(1, sizeof *r);
	if (r) *r = (tjnn_run){ .ctx = c, .o = o, .step = -1, .saved = -1, .best = NAN, .why = "", .lock = -1 };
	if (r && o.optim) r->comm = nn_optim_comm(o.optim);
	if (r) r->ranks = tj_comm_size(r->comm);
	if (r && o.loader) tj_loader_tell(o.loader, &r->epoch, &r->batch);
	tj_ctx *was = tj_ctx_use(c);
	bool ok = r && make_values(r) && (r->life = nn_life_begin(site, c, NULL));
	if (!ok) tj_fail(TJ_ERR_NOMEM, "tjnn_run_open", "", "out of memory");
	if (ok) r->of_model = nn_life_hold(o.model->life);
	if (ok && o.optim) r->of_optim = nn_life_hold(nn_optim_life(o.optim));
	ok = ok && open_folder(site, r) == TJ_OK;
	tj_ctx_use(was ? was : c);
	if (!ok) {
		free_run(r);
		return NULL;
	}
	interrupts = 0;
	const struct sigaction on = { .sa_handler = interrupted };
	sigaction(SIGINT, &on, &r->before);
	nn_progress_open(&r->progress, o.quiet || !is_first(r) ? NULL : o.progress, r->next, o.steps);
	return r;
}

/* ---- steps ---- */
/* n ranks take the numbers that one process takes in n steps, as the batches. */
static uint64_t seed_of(const tjnn_run *r)
{
	const int64_t ranks = tj_comm_size(r->comm), rank = tj_comm_rank(r->comm);
	uint64_t z = r->o.seed + UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(r->step * ranks + rank + 1);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	return z ^ (z >> 27);
}

static bool next_batch(const char *site, tjnn_run *r, tj_tensor **batch, int room)
{
	if (!batch) return true;
	if (!r->o.loader)
		return tj_fail(TJ_ERR_ARG, "tjnn_run_next", "set .loader of tjnn_run_opts, or pass NULL", "the run has no loader"), false;
	bool more = tj_loader_next(r->o.loader, batch, room);
	if (!more && tj_loader_batches(r->o.loader) > 0) more = tj_loader_next(r->o.loader, batch, room); /* the first one of the next epoch */
	if (!more) r->why = "the loader has no more batches";
	tj_loader_tell(r->o.loader, &r->epoch, &r->batch);
	return more;
}

/* Ends the step that runs; r->next is the step behind it. */
static bool end_step(const char *site, tjnn_run *r)
{
	if (!r->scope) return true;
	tj_pop(r->scope);
	r->scope = NULL;
	r->next = r->step + 1;
	nn_progress_step(&r->progress, r->next, r->o.optim ? tjnn_optim_rate(r->o.optim, -1) : NAN);
	return r->next % r->o.save_every || save(site, r) == TJ_OK;
}

/* An error of the program's step ends the run, too; and so does the end of what it stands on. */
static bool failed(const char *site, tjnn_run *r)
{
	if (nn_life_gone(r->life)) r->scope = NULL, r->ctx = NULL;
	if ((nn_life_over(r->of_model) || nn_life_over(r->of_optim)) && !r->failed) {
		tj_fail(TJ_ERR_STATE, "tjnn_run", "tjnn_run_close() comes before tjnn_optim_close(), tjnn_close() and tj_close()",
		        "the model, the optimiser or the context of the run was closed");
		r->error = TJ_ERR_STATE;
		r->failed = true;
	}
	const tj_status st = r->ctx ? tj_check(r->ctx) : TJ_OK;
	if (st == TJ_OK) return r->failed;
	if (!r->failed) r->error = st;
	return r->failed = true;
}

/* One rank that stops stops all. */
static void stop_together(const char *site, tjnn_run *r)
{
	const int64_t mine = r->stopped;
	tj_scope *s = tj_push(r->ctx);
	tj_tensor *any = tj_all_reduce(r->comm, tj_from_data_on(r->ctx, TJ_CPU, TJ_I64, TJ_0D, &mine), TJ_REDUCE_AMAX);
	if (!tj_is_poison(any) && tj_item_i(any)) {
		if (!r->stopped) r->why = "another rank has stopped";
		r->stopped = true;
	}
	tj_pop(s);
}

bool tjnn_run_next_at(const char *site, tjnn_run *r, tj_tensor **batch, int room)
{
	if (!r) return tj_fail(TJ_ERR_ARG, "tjnn_run_next", "did tjnn_run_open() fail?", "no run"), false;
	if (failed(site, r)) return false;
	if (!end_step(site, r)) return !failed(site, r);
	if (interrupts) r->stopped = true, r->why = "interrupted";
	if (tj_comm_size(r->comm) > 1) stop_together(site, r);
	if (r->stopped || r->next >= r->o.steps) return false;
	r->step = r->next;
	r->scope = tj_push(r->ctx);
	tj_seed(r->ctx, seed_of(r));
	if (r->o.schedule && r->o.optim) tjnn_schedule_set(r->o.schedule, r->o.optim, r->step / nn_optim_accumulates(r->o.optim));
	if (next_batch(site, r, batch, room) && !failed(site, r)) return true;
	tj_pop(r->scope);
	r->scope = NULL;
	return false;
}

int64_t tjnn_run_step(const tjnn_run *r) { return r ? r->step : 0; }
bool tjnn_run_every(const tjnn_run *r, int64_t n) { return r && n > 0 && ((r->step + 1) % n == 0 || r->step + 1 == r->o.steps); }
double tjnn_run_best(const tjnn_run *r) { return r ? r->best : NAN; }
bool tjnn_run_interrupted(const tjnn_run *r) { return r && interrupts && r->stopped; }

void tjnn_run_stop(tjnn_run *r)
{
	if (!r) return;
	r->stopped = true;
	r->why = "asked to";
}

/* ---- metrics ---- */
void tjnn_run_log_at(const char *site, tjnn_run *r, const char *name, double value)
{
	(void)site;
	if (!r || !name) return;
	nn_metrics_value(&r->metrics, r->step, name, value);
	nn_progress_metric(&r->progress, name, value);
}

static tj_status save_best(const char *site, tjnn_run *r)
{
	char path[4096];
	if (!r->o.folder || snprintf(path, sizeof path, "%s/best.safetensors", r->o.folder) >= (int)sizeof path) return TJ_OK;
	const bool swap = r->o.optim && nn_optim_averages(r->o.optim) && !nn_optim_swapped(r->o.optim);
	if (swap) tjnn_optim_swap(r->o.optim);
	const tj_status st = is_first(r) ? tjnn_save(r->o.model, NULL, NULL, path) : TJ_OK;
	if (swap) tjnn_optim_swap(r->o.optim);
	return st;
}

bool tjnn_run_score_at(const char *site, tjnn_run *r, const char *name, double value)
{
	if (!r) return false;
	tjnn_run_log(r, name, value);
	const bool better = !isnan(value) && (!r->scores || isnan(r->best) || (r->o.smaller_is_better ? value < r->best : value > r->best));
	r->scores++;
	r->bad = better ? 0 : r->bad + 1;
	if (better) {
		r->best = value;
		save_best(site, r);
	} else if (r->o.patience && r->bad > r->o.patience) {
		r->stopped = true;
		r->why = "the score has not become better";
	}
	return better;
}

tj_status tjnn_run_close_at(const char *site, tjnn_run *r)
{
	if (!r) return tj_check(tj_ctx_current());
	if (!failed(site, r) && end_step(site, r)) save(site, r);
	failed(site, r);
	const tj_status st = r->error;
	nn_progress_end(&r->progress, r->next, r->failed ? "there was an error" : r->why);
	nn_metrics_close(&r->metrics);
	sigaction(SIGINT, &r->before, NULL);
	if (r->scope) tj_pop(r->scope);
	free_run(r);
	return st;
}
