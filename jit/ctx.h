/* SPDX-License-Identifier: MIT */
/* ctx: contexts and the engine that they share; errors; the target of lowering. */
#ifndef TJ_JIT_CTX_H
#define TJ_JIT_CTX_H

#include "jit/act.h"
#include "jit/undo.h"
#include "runtime/profile.h"

struct tj_ctx {
	rt_ctx rt;               /* first, so that a tj_ctx is an rt_ctx */
	struct jit_engine *engine;
	jit_act act;             /* its arrays are kept between calls */
	bool active;
	_Atomic(jit_thread *) owner;  /* the thread that used the context last */
	_Atomic(const char *) last_call; /* line of the last tj_call() */
	atomic_flag claim_lock;  /* held by a thread that takes the context over */
	atomic_uint
		alone; /* rt_fork_depth() while a run relies on this being the only context of the engine; any other value: no run does */
	const tj_into *into;     /* by output: memory of the caller for the results of the running call; NULL: memory of the library */
	uint32_t busy; /* number of running user functions that the library called (passes, hooks, filters, log); they may not use the
	                  context */
	jit_learn learn;
	rt_vec(tj_tensor *) late; /* numbers computed by the running direct call */
	rt_vec(jit_taken) taken;  /* contents that the running call sees until its end, by argument, then state: of a function with .freeze,
	                           * or of a direct  call beside other contexts. Else empty */
	bool taken_alone;        /* .freeze: taken while no other context existed, so only frozen ones were taken */
	unsigned long long taken_at; /* taken_alone: the value of commits_ended then */
	rt_vec(jit_memo *) memo; /* by tj_fn.index */
	rt_vec(struct jit_outside *) outside; /* functions compiled for control flow that stands outside of compiled functions */
	rt_vec(struct jit_between *) between; /* functions of lines that called tj_trace_begin() */
	jit_undos undo;          /* undo.c */
	uint32_t settings;       /* rt_setting */
	uint32_t ordinal;        /* number of the context in its engine; seeds its random numbers */
	struct tj_ctx *former;   /* current when this one was opened, and still open; NULL: none. Under open_lock (ctx.c), as the list is */
	struct rt_recorder *recorder; /* profiling.c; NULL: none yet */
	unsigned profiles;       /* jit_engine.profiles when it was made */
	rt_frame open_frame;     /* of the code between tj_trace_begin() and tj_trace_end() */
	const void *opener;      /* the thread that opened it, as an address that is its own; NULL: it is a clone */
	struct tj_ctx *prev, *next; /* list of all open contexts of the process */
};

enum { JIT_WATCH_GUARDS = 1, JIT_WATCH_PROFILE = 2 };
typedef struct jit_engine {
	rt_engine rt;            /* first */
	int device;              /* device on which new tensors are made */
	char *backend_name;
	const lo_target *target; /* target of lowering; NULL: the evaluator runs everything */
	bool target_found;
	pthread_mutex_t target_lock;
	tj_fn *fns;              /* under rt.lock */
	uint64_t *used;          /* bit set of used function indices; under rt.lock */
	uint32_t nused;          /* words in `used` */
	uint32_t audit;
	bool timed;              /* TJ_TIME_GUARDS */
	bool profile;            /* TJ_PROFILE=1 */
	_Atomic(unsigned char) watch; /* what calls must do besides: JIT_WATCH_. All calls read it */
	atomic_uint profiles;    /* counts the changes of `profiling` */
	rt_profile *profiling;   /* the running or the last profile; NULL: there was none. Under rt.lock */
	void (*log_to)(void *self, const char *line);
	void *log_self;
	char *dump;              /* TJ_DUMP: a folder; NULL: none */
	struct jit_reporting *report; /* TJ_REPORT; NULL: none */
	rt_store *store;         /* the disk cache */
	struct jit_program *programs; /* of imported functions, freed ones too: errors and traces name their lines. Under rt.lock */
	atomic_uint dumped;
	rt_vec(tj_pass) pass;    /* passes of every function; under rt.lock */
	uint64_t seed;
	atomic_uint clones;
	struct jit_eager *eager;
	gd_table constants;      /* content of a constant -> its serial; under rt.lock */
	struct jit_engine *prev, *next; /* list of all engines of the process */
} jit_engine;

/* A relaxed load of e->watch. Compilers make two instructions of one; this is in every call. */
static inline bool jit_watched(const jit_engine *e)
{
	bool yes;
	__asm__("cmpb $0, %1" : "=@ccne"(yes) : "m"(e->watch));
	return yes;
}
static inline jit_memo *jit_memo_of(const tj_ctx *c, const tj_fn *f)
{
	jit_memo *s = f->index < c->memo.n ? c->memo.v[f->index] : NULL;
	return s && s->fn == f ? s : NULL;
}
/* The arguments for running an executable in the context. */
static inline rt_run jit_run(const tj_ctx *c, const void *const *ext, const uint64_t *num, void *const *out, rt_err *err)
{
	rt_run r = c->rt.run;
	r.ext = ext;
	r.num = num;
	r.out = out;
	r.err = err;
	return r;
}

/* A copy of the options of a caller, whose struct may be older and so shorter than ours; o.size is then the caller's. Zeros without any. */
#define JIT_OPTIONS(type, o, opts) \
	type o = { 0 }; \
	if (opts) memcpy(&o, opts, (opts)->size && (opts)->size < sizeof o ? (opts)->size : sizeof o)
/* No struct of options ever had this .size: they grow by whole words, and none is a size alone. 0 means all fields. */
static inline bool jit_odd_size(size_t size) { return size % sizeof size || size == sizeof size; }
#define JIT_SIZES "TJ_OPTS() sets it; 0 means all fields", ".size is %zu, which the struct never had" /* hint and message of jit_error() */

/* error.c */
extern _Thread_local tj_ctx *jit_thread_ctx __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* Whether a struct that a function is to fill can be: `size` is its .size, which only the program knows. Else the error is reported. */
bool jit_has_room(tj_ctx *c, const char *site, const char *op, const void *out, size_t size, const char *hint);
/* returns poison */
tj_tensor *jit_error(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...) RT_PRINTF(6, 7);
tj_tensor *jit_verror(tj_ctx *c, const char *site, tj_status code, const char *op, const char *hint, const char *fmt, va_list ap)
	RT_PRINTF(6, 0);
tj_tensor *jit_report(tj_ctx *c, const char *site, const rt_err *e); /* the same, from an rt_err */
/* reports a missing context to the innermost context that the thread is inside of, else to the thread; returns NULL */
tj_ctx *jit_missing(const char *site);
/* The poison that op at site returns after jit_missing(), whose error gets the name of the op. */
tj_tensor *jit_no_context(const char *site, const char *op);
/* An error that no context can keep: the thread does, if it is the first one. All are literals. */
void jit_missed(tj_status code, const char *site, const char *op, const char *message, const char *hint);
tj_status jit_take_missed(tj_ctx *c); /* the thread's error, which it forgets; c, if not NULL, has it as the last one from now on */
/* reports that op is refused while a user function is called back; returns true */
bool jit_refuse(tj_ctx *c, const char *site, const char *op);

/* lowering.c */
int jit_device(const char *name); /* number of the device; -1: there is none. Looks for GPUs only when one is named */
bool jit_device_exists(tj_ctx *c, const char *site, const char *op, tj_device device); /* else the error is reported */
const char *jit_device_why(const char *name); /* why there is none, or what to do */
const lo_target *jit_target(jit_engine *e); /* NULL: the evaluator */
const lo_backend *jit_backend(jit_engine *e); /* opens the back end of the target; NULL: it is missing, or the user chose the evaluator */
const lo_opts *jit_lower_opts(tj_fn *f, jit_engine *e, uint32_t settings, lo_opts *o); /* f NULL: an op outside of functions */
/* Calls lo_build(). When the back end is missing, warns once for each engine; from then on the evaluator runs all its plans. */
tj_status jit_lower(jit_engine *e, const ir_graph *g, lo_opts *o, rt_exec **out, rt_err *err);

#endif
