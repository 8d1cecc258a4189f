/* SPDX-License-Identifier: MIT */
/* exec: what a compiled segment is at run time. Knows no op.
 *
 * An executable reads externals (operands from outside the segment) and numbers, and writes destinations. A plan is the
 * executable that lowering builds: an array of steps over one table of buffers. */
#ifndef TJ_RUNTIME_EXEC_H
#define TJ_RUNTIME_EXEC_H

#include "runtime/device.h"
#include "runtime/json.h"

/* ---- the kernel ABI: the arguments of generated code. Code generators find fields by offsetof(). ---- */
typedef struct rt_kargs {
	void *const *buf;    /* one pointer per kernel buffer, to the element with index 0 */
	const uint64_t *num; /* run-time numbers: the bits of an f64 or of an i64 */
	int32_t *fault;      /* 0, or 1 + the index of a fault; written by a plain store */
	void *scratch;       /* scratch memory of this thread, 64-byte aligned; NULL when the kernel needs none */
	const int64_t *size; /* values of the kernel's symbols */
} rt_kargs;
/* Runs units begin..end-1; units are independent of each other. */
typedef void rt_kernel_fn(const rt_kargs *a, int64_t begin, int64_t end);

/* ---- plan.c: what several plans use: code, packed constants; freed with its last reference. ---- */
typedef struct rt_shared {
	int refs;
	size_t bytes;
	void (*destroy)(struct rt_shared *x);
} rt_shared;
rt_shared *rt_shared_ref(rt_shared *x);
void rt_shared_unref(rt_shared *x);

/* ---- plan.c: one run ---- */
typedef struct rt_run {
	struct rt_team *team;     /* NULL: serial */
	int threads;              /* at most so many of the team take part, the caller included; 0: all */
	struct rt_pool *pool;     /* arenas and scratch of the context */
	const void *const *ext;   /* externals, by slot: pointer to element 0 of the view */
	const uint64_t *num;      /* numbers, by slot */
	void *const *out;         /* destinations, row-major contiguous, by output; never alias an external
	                           * unless the executable said so (alias_ext) */
	const char *site;         /* line of the program that asks, for faults on other devices; NULL: that of the op in the plan */
	bool profile;             /* measure each step, and tell the pool's recorder */
	bool singly;              /* a device launches kernels one by one, not as graphs */
	const struct rt_log_to *log; /* for warnings; NULL: they go to stderr */
	rt_err *err;
	char *const *arena;       /* by device: arena_bytes of memory; NULL: the pool's arenas. A region gets a part of its plan's arena */
} rt_run;

/* An output of an executable. */
typedef struct rt_out {
	int alias_ext;   /* external slot whose buffer may be the destination, or -1 */
	int same_ext;    /* external slot of which the output is a view of equal dtype: nothing is computed; or -1 */
	int64_t offset;  /* with same_ext: elements from the external's element 0 */
	int rank;        /* with same_ext: rank, sizes and strides (elements) of the view */
	int64_t dim[TJ_MAX_RANK], stride[TJ_MAX_RANK];
} rt_out;

typedef struct rt_full {     /* the step at which the temporaries alive take most bytes, on all devices together */
	const char *step;        /* its name; NULL: there are no temporaries */
	size_t bytes;            /* of these temporaries */
	uint32_t kept;           /* those that the step itself does not use: computed before it, read after it */
	size_t kept_bytes;
} rt_full;

typedef struct rt_exec {
	int refs;                /* atomic */
	int nout;
	rt_out *out;             /* nout of them */
	tj_status (*run)(const struct rt_exec *x, rt_run *r); /* fills every out whose same_ext < 0; in default modes (RT_DEFAULT_MODES) */
	void (*print)(const struct rt_exec *x, rt_text *t, tj_dump_what what);
	void (*destroy)(struct rt_exec *x);
	bool devices;            /* it has steps or temporaries on devices other than the CPU */
	int late_faults;         /* the device, not the CPU, on which its kernels may find a fault; RT_CPU: none; -1: several */
	uint64_t replays;        /* atomic: rows of its kernels that a device started as one */
	uint32_t kernels, library_calls, eval_steps; /* kernels: also those that stand by for a library call (rt_step.rest) */
	uint32_t compiled;       /* kernels whose code was made for this executable; the code of the others existed */
	uint32_t loaded;         /* kernels whose code was in the disk cache */
	size_t code_bytes;
	size_t bytes;            /* of its own memory, without code and packed constants */
	size_t room;             /* of these, what its steps and buffers use: what a plan for other sizes may ask for from the start */
	size_t packed_bytes;     /* of constants that it has in panels (LO_PANELS) */
	size_t known_bytes;      /* of values computed from constants when it was made */
	size_t arena_bytes[RT_DEVICES]; /* bytes of temporaries, by device */
	rt_full full;
	uint32_t recomputed;     /* values that kernels compute again where they read them late, instead of keeping them (lower/recompute.c) */
	uint64_t moved;          /* sum of its steps' */
	double lower_ms, codegen_ms; /* lower_ms: from the trace or the graph to the plan, without codegen_ms */
} rt_exec;
rt_exec *rt_exec_ref(rt_exec *x);
void rt_exec_unref(rt_exec *x);

/* ---- plan.c: a plan is steps over buffers ---- */
typedef enum rt_place { RT_AT_EXT, RT_AT_OUT, RT_AT_ARENA, RT_AT_CONST, RT_AT_NUM } rt_place;
typedef struct rt_pbuf { /* a buffer of the plan */
	uint8_t place, device;
	uint32_t index;      /* external slot, or number of the output, constant or number; ARENA: device */
	int64_t offset;      /* ARENA: bytes from the arena's start */
	int64_t bytes;
} rt_pbuf;
typedef struct rt_at {   /* an operand of a step: a part of a buffer, at address table[place][index] + offset */
	uint32_t buf;        /* number of the plan's buffer */
	uint32_t place, index;
	int64_t offset;      /* bytes */
} rt_at;

enum { RT_FEW_OPERANDS = 32, RT_FEW_NUMBERS = 64 }; /* arrays of these sizes are put on the stack */
typedef enum rt_step_kind { RT_STEP_KERNEL, RT_STEP_ROUTINE, RT_STEP_FLOW, RT_STEP_COPY } rt_step_kind;
typedef struct rt_routine { /* C code that computes a step */
	tj_status (*run)(const void *self, void *const *buf, rt_run *r);
	void (*drop)(void *self); /* frees the memory of self that is not the plan's; self may be NULL. drop NULL: nothing to free */
} rt_routine;
typedef struct rt_time { uint64_t runs, ns; } rt_time; /* atomic; ns: the sum */
typedef struct rt_fact { /* an op of a step; name: of ops.def */
	const char *name, *site; /* site: the line of the program; NULL: not known */
	float share;             /* of the step's work, as far as it can be told without measuring; all of them add up to 1 */
} rt_fact;
typedef struct rt_facts { /* what a step computes, for people: lower/facts.c */
	int64_t read, written;   /* bytes of its operands and results, each element once */
	double flops;            /* additions, multiplications and the like; 0: not known, or none */
	double wide;             /* those of f64, which take twice the time */
	uint32_t nop;
	rt_fact *op;             /* in the order of the program */
} rt_facts;
typedef struct rt_step {
	uint8_t kind;
	const char *name;        /* "k0", "dnnl_sgemm", "eval nonzero" */
	uint32_t nbuf;
	rt_at *at;               /* nbuf of them */
	rt_time *time;           /* profile.c */
	const rt_facts *facts;   /* what it computes */
	/* KERNEL */
	uint8_t device;          /* KERNEL, COPY, ROUTINE: the device that runs it */
	rt_entry fn;
	int64_t units;           /* 0: nothing to do */
	double unit_ns;          /* estimated ns of a unit: units * unit_ns decides on the use of the team and on the size of pieces */
	int64_t grain;           /* this many neighbouring units should go to one thread: they read the same cache lines */
	size_t scratch;          /* bytes for each thread */
	size_t shared;           /* bytes for each unit; 0 on the CPU */
	int64_t moved;           /* bytes that it reads from memory and writes to it, as its target says; 0 on the CPU */
	const int64_t *size;     /* values of the kernel's symbols */
	uint32_t nsize;
	uint32_t nnum;           /* not on the CPU: operands may point to the first nnum numbers of the plan */
	const uint32_t *number;  /* by number of the kernel: its slot among the plan's numbers; at most RT_FEW_NUMBERS of them */
	uint32_t nnumber;        /* 0: the kernel's numbers are the plan's */
	const rt_fault *fault; /* faults of the kernel; rt_kargs.fault k means fault[k - 1] */
	uint32_t nfault;
	/* KERNEL, on the CPU, in a bundle */
	uint32_t bundle; /* this many steps from here on run in one region (bundle.c); they have no faults, and few operands. 0: no bundle
	                    begins here */
	double bundle_ns;        /* their time */
	int64_t bundle_pieces;   /* number of pieces of the region */
	uint32_t followers;      /* this many steps after it go through their blocks together with it; 0 for these themselves */
	int64_t blocks, block_units; /* number of blocks; units of a block, fewer in the last one */
	int64_t first_piece, pieces; /* these pieces of the region are blocks of this step and its followers */
	bool over;               /* KERNEL: it may write over an external (rt_out.alias_ext); no step from it on has faults */
	/* ROUTINE */
	const rt_routine *routine;
	void *self;              /* first argument of routine->run */
	struct rt_step *rest;    /* a kernel that `self` may launch; its operands are the last of this step's. NULL: none */
	/* FLOW */
	struct rt_flow *flow;
	/* COPY: copies buf[0], with strides, to buf[1], row-major on `device` */
	const struct rt_elements *copy;
} rt_step;

typedef struct rt_plan {
	rt_exec exec;
	rt_arena mem;            /* memory of the plan, this struct included */
	uint64_t serial;         /* of the plans of the process */
	uint32_t nbuf, nstep;
	rt_pbuf *buf;
	const void **constant;   /* by slot: the constant's elements, in mem or on a device */
	size_t many;             /* offset in the CPU's arena of the operands' addresses, for steps of more than RT_FEW_OPERANDS */
	rt_step *step;
	uint32_t nshared;
	rt_shared **shared;      /* references to the code of its kernels, and to packed constants */
	char *kernel_text, *code_text, *assembly_text; /* for dumps; NULL when not kept */
	void (*drop)(struct rt_plan *p); /* frees memory of steps that is not in mem; may be NULL */
} rt_plan;
uint64_t rt_plan_serial(void); /* a new one */
tj_status rt_plan_run(const rt_exec *x, rt_run *r); /* exec.run of a plan */
void rt_plan_print(const rt_exec *x, rt_text *t, tj_dump_what what);
/* An array of the steps of x, which rt_plan_run() runs, with their times, for reports. */
void rt_plan_data(const rt_exec *x, rt_json *j, const char *key);
void rt_plan_destroy(rt_exec *x);
/* buf: addresses of the operands. table: pointers by place and index. */
static inline void rt_operands(const rt_step *s, const void *const *const *table, void **buf)
{
	for (uint32_t i = 0; i < s->nbuf; i++) buf[i] = (void *)((uintptr_t)table[s->at[i].place][s->at[i].index] + s->at[i].offset);
}
/* The kernel's numbers, from all those of the plan; few: room for RT_FEW_NUMBERS. */
static inline const uint64_t *rt_numbers(const rt_step *s, const uint64_t *num, uint64_t *few)
{
	for (uint32_t i = 0; i < s->nnumber; i++) few[i] = num[s->number[i]];
	return s->nnumber ? few : num;
}
/* Puts a kernel into the queue of its device, which is not the CPU. buf: its operands. */
tj_status rt_step_launch(const rt_step *s, void *const *buf, rt_run *r);

/* ---- bundle.c ---- */
tj_status rt_bundle_run(const rt_step *s, const void *const *const *table, rt_run *r); /* runs s->bundle steps, from s on */
/* the same; adds to spent, by step, the ns of all threads */
tj_status rt_bundle_measure(const rt_step *s, const void *const *const *table, rt_run *r, int64_t *spent);

/* ---- control.c: control flow is a step whose regions are plans of their own. Regions read and write only buffers of the step,
 * and use the numbers of its plan. ---- */
typedef enum rt_flow_kind { RT_COND, RT_WHILE, RT_SCAN } rt_flow_kind;
typedef struct rt_flow_bufs { /* the step's buffers, in this order; each field is the number of the first one of its kind */
	uint32_t operand;        /* by slot of the regions; COND: the predicate is the buffer before them */
	uint32_t result;
	uint32_t second;         /* workspace, as all that follow: a second buffer for each carry */
	uint32_t truth;          /* one byte: result of the condition */
	uint32_t arena;          /* arena of the regions, on the CPU */
	uint32_t pointers;       /* array of addresses: of the regions' slots, then of their results */
	uint32_t copies;         /* row-major copies of operands; then the regions' arenas on other devices, rt_flow.narena of them */
} rt_flow_bufs;
static inline rt_flow_bufs rt_flow_order(rt_flow_kind kind, uint32_t nslot, uint32_t nresult, uint32_t ncarry)
{
	uint32_t operand = kind == RT_COND, result = operand + nslot, second = result + nresult, truth = second + ncarry;
	return (rt_flow_bufs){ operand, result, second, truth, truth + 1, truth + 2, truth + 3 };
}
typedef struct rt_packed { /* an operand that is not row-major, so that it is copied */
	int device, rank;
	size_t size;             /* bytes of an element */
	int64_t dim[TJ_MAX_RANK], stride[TJ_MAX_RANK];
} rt_packed;
typedef struct rt_flow {
	uint8_t kind;
	bool reverse, counted;   /* counted: slot ncarry + nxs has the number of turns, an int64_t */
	uint32_t nslot, ncarry, nxs, nresult;
	int64_t turns;           /* SCAN: number of turns, the most if counted; WHILE: the most, 0: no limit */
	int64_t *bytes;          /* bytes of each result (of ys: of one slice), then of a slice of each of xs */
	bool *clear;             /* by result, of ys: slices whose turns did not run are set to 0; else nothing reads them */
	uint8_t *device;         /* of each result */
	uint32_t npack;
	uint8_t narena, arena_on[RT_DEVICES]; /* devices other than the CPU on which regions have temporaries */
	rt_packed **pack;        /* by slot; NULL: not copied. The copies are in the order of slots */
	rt_exec *region[2];      /* references held. They store every output, except a carry that is returned unchanged */
	const char *site;
} rt_flow;
tj_status rt_flow_run(const rt_flow *f, void *const *buf, rt_run *r);
/* How many turns of a counted scan run: no number makes it leave its slices. */
static inline int64_t rt_flow_limited(int64_t count, int64_t turns) { return count < 0 ? 0 : count < turns ? count : turns; }
tj_status rt_flow_limit(int64_t turns, const char *site, rt_err *err); /* the error of a while that does not end */

/* ---- pool.c: memory that a context lends to its runs: one arena, and scratch per thread. Grows, never shrinks. */
typedef struct rt_pool rt_pool;
rt_pool *rt_pool_new(void);
void rt_pool_free(rt_pool *p);
/* of the context: what its runs tell while they are measured; NULL, as at first: nothing */
struct rt_recorder *rt_pool_recorder(const rt_pool *p);
void rt_pool_record(rt_pool *p, struct rt_recorder *r);
void *rt_pool_arena(rt_pool *p, size_t bytes);              /* 64-byte aligned; contents undefined; valid until the next call */
void *rt_pool_scratch(rt_pool *p, int threads, size_t bytes); /* threads * round_up(bytes, 64) bytes */
/* On each device other than the CPU: a queue and an arena, made at the first use.
 *
 * A queue is in doubt when a kernel that may find a fault was put into it after the last wait. Before an action that cannot be
 * undone, rt_pool_settle() waits: before a value is retained, or the host reads. Commits of cells can be undone (jit/undo.h). The
 * values that the queue computed from the failed launch up to the wait that reported it are lost, and every later use of one is
 * an error. */
rt_queue *rt_pool_queue(rt_pool *p, int device, rt_err *err); /* NULL: err is set */
void *rt_pool_arena_on(rt_pool *p, int device, size_t bytes);
size_t rt_pool_held(const rt_pool *p, int device); /* bytes of its arena; 0 for the CPU, whose arena does not count as used */
void rt_pool_empty(rt_pool *p, int device); /* frees arena and scratch; no run is under way */
void rt_pool_doubt(rt_pool *p, int device);
tj_status rt_pool_settle(rt_pool *p, int device, rt_err *err); /* waits if the queue is in doubt; the error is the fault */
tj_status rt_pool_settle_all(rt_pool *p, rt_err *err);
tj_status rt_pool_sync(rt_pool *p, rt_err *err); /* waits for all queues; the error is the first fault */
bool rt_pool_lost(const rt_pool *p, int device, rt_mark m);    /* is a value whose last write has mark m lost? */
int rt_pool_in_doubt(const rt_pool *p); /* the device whose queue is in doubt; RT_CPU: none; -1: several are */
bool rt_pool_failed(const rt_pool *p);  /* a wait would report a fault, which has been found already; does not wait */
rt_mark rt_pool_flag(rt_pool *p, int device); /* flags the end of the work that its queue has now */
bool rt_pool_passed(rt_pool *p, int device, rt_mark m); /* waits for the work up to there; false: a fault was found. By any thread */
/* Called at the end of each wait for a queue in doubt. failed: serial of the launch that found a fault; 0: none did. RT_CPU: memory is
 * short. */
typedef void rt_settled(void *env, int device, uint64_t failed);
/* memory is short: waits, so that what is kept for work in doubt can be freed. Reports no fault: a later wait will */
void rt_pool_relax(rt_pool *p);
void rt_pool_when_settled(rt_pool *p, rt_settled *f, void *env);

/* ---- the machine ---- */
#define RT_THIRD_CACHE (16 << 20) /* working sets above this are taken to live in memory (an L3 of 32 MiB, shared) */

/* ---- cores.c ---- */
int rt_affinity(void);    /* CPUs that the process may run on */
double rt_quota(const char *cgroup); /* CPUs' worth of time that it gets; 0: no limit. cgroup: the folder of the quota, "/sys/fs/cgroup" */
int rt_cores(const char *cgroup); /* cores that the process may use: both */
int rt_wanted_bits(void); /* of vectors: 512, 256 or 128 by TJ_CPU; 0: it is not set, or has another value */
bool rt_half_words(void); /* the CPU converts f16 from and to f32: F16C */

/* ---- features.c ---- */
const char *rt_cpu_missing(void); /* what the CPU lacks that all code needs; NULL: nothing */
bool rt_wide_cpu(void);   /* the CPU has AVX-512 with F, BW, CD, DQ and VL: x86-64-v4 */
int rt_vector_bits(void); /* of vectors in code: TJ_CPU, read at each call, or what the CPU has */
/* Code with vectors of 512 bits is for x86-64-v4, other code for x86-64-v3. These features are used besides, if the CPU has them, by code
 * that computes with bytes or with bf16; their names are LLVM's. So most code runs on all CPUs of a level. */
enum { RT_USES_BYTES = 1, RT_USES_BF16 = 2, RT_USES = 4 /* combinations of these */ };
#define RT_FEATURES(X)                                                                                                          \
	X(VBMI, "avx512vbmi", RT_USES_BYTES) X(VBMI2, "avx512vbmi2", RT_USES_BYTES) X(BITALG, "avx512bitalg", RT_USES_BYTES)         \
	X(VNNI, "avx512vnni", RT_USES_BYTES) X(GFNI, "gfni", RT_USES_BYTES) X(BF16, "avx512bf16", RT_USES_BF16)
enum {
#define X(feature, name, uses) RT_FEATURE_##feature,
	RT_FEATURES(X)
#undef X
#define X(feature, name, uses) RT_HAS_##feature = 1 << RT_FEATURE_##feature,
	RT_FEATURES(X)
#undef X
};
typedef struct rt_cpu { int bits; uint32_t features; } rt_cpu; /* what code may use: width of vectors, RT_HAS_ */
/* From now on this thread lowers and compiles for that CPU, as far as the functions of this file tell; .bits 0: for the one that it runs
 * on. Returns what was set before. */
rt_cpu rt_cpu_as(rt_cpu cpu);
rt_cpu rt_cpu_now(void);
const char *rt_feature_name(int i);         /* NULL: there are fewer */
uint32_t rt_features_for(unsigned uses);    /* all that code of this kind may use */
uint32_t rt_features(int bits);             /* those that the CPU has and code of this width uses */
bool rt_byte_words(void); /* code multiplies four i8 at a time: the CPU has VNNI, and vectors have 512 bits */

/* ---- bf16.c ---- */
bool rt_bf16_pairs(void); /* code multiplies two bf16 at a time: the CPU has vdpbf16ps, and vectors have 512 bits */
/* and it is two multiply-adds: of the upper halves of its words, then of the lower ones, unless one is subnormal */
bool rt_bf16_in_order(void);

/* ---- team.c: the one pool of threads, made by the first region (one rt_team_run()). It serves one caller at a time: a caller that
 * finds it taken runs serially, with the same bits; so does a region inside a region. The child of a fork() makes its own threads.
 * If some threads cannot be created, a warning says so, and regions run on the others. ---- */
typedef struct rt_team rt_team;
rt_team *rt_team_get(int threads); /* one per process; the first call sets the number of threads; 0: one per core */
int rt_team_threads(void); /* those of the team; the machine's cores if there is no team yet */
int rt_team_size(const rt_team *t); /* wanted number of threads; thread numbers are below it */
#define RT_SERIAL_NS 4e3         /* less work than this does not pay for a region */
/* Runs f(env, thread, begin, end) over [0, n) in pieces. total_ns: estimated time on one thread; below RT_SERIAL_NS it runs serially,
 * and a longer time makes more pieces. A piece has at least grain units, unless a thread would then have fewer than a few pieces.
 * The caller has set MXCSR; other threads set it for themselves. Uses only on->team, on->threads and on->log. */
void rt_team_run(const rt_run *on, int64_t n, int64_t grain, double total_ns, void (*f)(void *env, int thread, int64_t begin, int64_t end),
                 void *env);

#endif
