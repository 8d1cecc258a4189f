/* exec: what a compiled segment is at run time. Knows no op.
 *
 * An executable takes externals (operands from outside the segment), numbers, and destinations, and fills the
 * destinations. A plan is the executable that lowering builds: an array of steps over one table of buffers. */
#ifndef TJ_RUNTIME_EXEC_H
#define TJ_RUNTIME_EXEC_H

#include "runtime/device.h"

/* ---- the kernel ABI: what generated code sees. A code generator takes offsets by offsetof(). ---- */
typedef struct rt_kargs {
	void *const *buf;    /* one pointer per kernel buffer, at the element that index 0 means */
	const uint64_t *num; /* run-time numbers: the bits of an f64 or of an i64 */
	int32_t *fault;      /* 0, or the first fault: 1 + index of the fault site; written with an atomic-free store */
	void *scratch;       /* scratch bytes of this thread, 64-byte aligned, or NULL when the kernel asks for none */
	const int64_t *size; /* of the kernel's symbols */
} rt_kargs;
/* Runs units begin..end-1; units are independent of each other. */
typedef void rt_kernel_fn(const rt_kargs *a, int64_t begin, int64_t end);

/* ---- plan.c: code: executable memory that holds kernels; freed when the last plan, and whoever shares it, drops it. ---- */
typedef struct rt_code {
	int refs;
	size_t bytes;
	void (*destroy)(struct rt_code *code);
} rt_code;
rt_code *rt_code_ref(rt_code *code);
void rt_code_unref(rt_code *code);

/* ---- plan.c: one run ---- */
typedef struct rt_run {
	struct rt_team *team;     /* NULL: serial */
	struct rt_pool *pool;     /* arenas and scratch of the context */
	const void *const *ext;   /* externals, by slot: pointer to element 0 of the view */
	const uint64_t *num;      /* numbers, by slot */
	void *const *out;         /* destinations, row-major contiguous, by output; never alias an external
	                           * unless the executable said so (alias_ext) */
	const struct rt_log_to *log; /* for warnings; NULL: they go to stderr */
	rt_err *err;
	char *const *arena;       /* by device, of arena_bytes; NULL: the pool's. A region runs in a part of its plan's */
} rt_run;

/* An output of an executable. */
typedef struct rt_out {
	int alias_ext;   /* external slot whose buffer may serve as destination, or -1 */
	int same_ext;    /* output is external slot same_ext seen through (dtype-equal) strides: nothing is computed; or -1 */
	int64_t offset;  /* with same_ext: elements from the external's element 0 */
	int rank;        /* with same_ext: the view's layout */
	int64_t dim[TJ_MAX_RANK], stride[TJ_MAX_RANK];
} rt_out;

typedef struct rt_exec {
	int refs;                /* atomic */
	int nout;
	rt_out *out;             /* nout of them */
	tj_status (*run)(const struct rt_exec *x, rt_run *r); /* fills every out whose same_ext < 0; in default modes (RT_DEFAULT_MODES) */
	void (*print)(const struct rt_exec *x, rt_text *t, tj_dump_what what);
	void (*destroy)(struct rt_exec *x);
	bool devices;            /* it has steps on devices other than the CPU ... */
	bool late_faults;        /* and kernels among them that may find a fault */
	uint32_t kernels, library_calls, eval_steps;
	uint32_t compiled;       /* kernels whose code was made for it; that of the others existed */
	size_t code_bytes;
	size_t arena_bytes[RT_DEVICES]; /* of temporaries, by device */
	double lower_ms, codegen_ms;
} rt_exec;
rt_exec *rt_exec_ref(rt_exec *x);
void rt_exec_unref(rt_exec *x);

/* ---- plan.c: a plan is steps over buffers ---- */
typedef enum rt_place { RT_AT_EXT, RT_AT_OUT, RT_AT_ARENA, RT_AT_CONST, RT_AT_NUM } rt_place;
typedef struct rt_pbuf { /* a buffer of the plan */
	uint8_t place, device;
	uint32_t slot;       /* external slot, output, constant or number; ARENA: device */
	int64_t offset;      /* bytes: into the arena */
	int64_t bytes;
} rt_pbuf;
typedef struct rt_at {   /* an operand of a step: a part of a buffer, found at table[place][slot] + offset */
	uint32_t buf;        /* of the plan */
	uint32_t place, slot;
	int64_t offset;      /* bytes */
} rt_at;

enum { RT_FEW_OPERANDS = 32, RT_FEW_NUMBERS = 64 }; /* fit the stack */
typedef enum rt_step_kind { RT_STEP_KERNEL, RT_STEP_ROUTINE, RT_STEP_FLOW, RT_STEP_COPY } rt_step_kind;
typedef struct rt_routine { /* C code that computes a step, over host buffers */
	tj_status (*run)(const void *self, void *const *buf, rt_run *r);
	void (*drop)(void *self); /* frees what self holds beyond the plan's memory; takes NULL. NULL: nothing to free */
} rt_routine;
typedef struct rt_step {
	uint8_t kind;
	const char *name;        /* "k0", "dnnl_sgemm", "eval nonzero" */
	uint32_t nbuf;
	rt_at *at;               /* nbuf of them */
	/* KERNEL */
	uint8_t device;          /* KERNEL, COPY: who runs it */
	rt_entry fn;
	int64_t units;           /* 0: nothing to do */
	double unit_ns;          /* estimated cost of a unit: units * unit_ns decides about the team and its pieces */
	int64_t grain;           /* units that are better not parted: what they read shares cache lines */
	size_t scratch;          /* bytes for each thread */
	const int64_t *size;     /* of the kernel's symbols */
	uint32_t nsize;
	uint32_t nnum;           /* DEVICE: of the plan's numbers, the first so many may be read */
	const uint32_t *number;  /* slots of the plan's numbers that are the kernel's 0, 1, ..., at most RT_FEW_NUMBERS of them */
	uint32_t nnumber;        /* 0: the kernel takes those of the plan */
	const rt_fault *fault; /* by what the kernel wrote - 1 */
	uint32_t nfault;
	/* ROUTINE */
	const rt_routine *routine;
	void *self;              /* what the routine was made with */
	/* FLOW */
	struct rt_flow *flow;
	/* COPY: buf[0], by strides, to buf[1], row-major, on `device` */
	const struct rt_elements *copy;
} rt_step;

typedef struct rt_plan {
	rt_exec exec;
	rt_arena mem;            /* everything the plan points to */
	uint32_t nbuf, nstep;
	rt_pbuf *buf;
	const void **constant;   /* bytes in mem */
	size_t many;             /* where in the arena the pointers of a step of more than RT_FEW_OPERANDS are */
	rt_step *step;
	uint32_t ncode;
	rt_code **code;          /* references to what its kernels are in */
	char *kernel_text, *code_text, *assembly_text; /* for dumps; NULL when not kept */
	void (*drop)(struct rt_plan *p); /* frees what steps hold beyond mem; may be NULL */
} rt_plan;
tj_status rt_plan_run(const rt_exec *x, rt_run *r); /* exec.run of a plan */
void rt_plan_print(const rt_exec *x, rt_text *t, tj_dump_what what);
void rt_plan_destroy(rt_exec *x);

/* ---- flow.c: control flow is a step whose regions are plans of their own. Regions read and write only the step's buffers, and
 * take the step's numbers. ---- */
typedef enum rt_flow_kind { RT_COND, RT_WHILE, RT_SCAN } rt_flow_kind;
typedef struct rt_flow_bufs { /* the order of the step's buffers: the number of the first of each sort */
	uint32_t operand;        /* by slot of the regions; in front of them the predicate (COND) */
	uint32_t result;
	uint32_t second;         /* from here on workspace: another buffer for each carry */
	uint32_t truth;          /* one byte: what a condition gave */
	uint32_t arena;          /* of the regions */
	uint32_t pointers;       /* for the regions' slots, then for their results */
	uint32_t copies;         /* of operands that are not row-major; behind them the regions' arenas on other devices, as many as rt_flow.narena */
} rt_flow_bufs;
static inline rt_flow_bufs rt_flow_order(rt_flow_kind kind, uint32_t nslot, uint32_t nresult, uint32_t ncarry)
{
	uint32_t operand = kind == RT_COND, result = operand + nslot, second = result + nresult, truth = second + ncarry;
	return (rt_flow_bufs){ operand, result, second, truth, truth + 1, truth + 2, truth + 3 };
}
typedef struct rt_packed { /* an operand that is not row-major is copied */
	int device, rank;
	size_t size;             /* of an element */
	int64_t dim[TJ_MAX_RANK], stride[TJ_MAX_RANK];
} rt_packed;
typedef struct rt_flow {
	uint8_t kind;
	bool reverse;
	uint32_t nslot, ncarry, nxs, nresult;
	int64_t turns;           /* SCAN: all of them; WHILE: the most, 0 for any number */
	int64_t *bytes;          /* of each result; SCAN: of a slice of ys; then of each slice of xs */
	uint8_t *device;         /* of each result */
	uint32_t npack;
	uint8_t narena, arena_on[RT_DEVICES]; /* devices other than the CPU on which regions have temporaries */
	rt_packed **pack;        /* by slot, NULL: as it is; the copies lie in order */
	rt_exec *region[2];      /* references held. Outputs are stored, but for a carry that is the input of its own slot */
	const char *site;
} rt_flow;
tj_status rt_flow_run(const rt_flow *f, void *const *buf, rt_run *r);
tj_status rt_flow_limit(int64_t turns, const char *site, rt_err *err); /* the error of a while that does not end */

/* ---- pool.c: what a context lends to runs: one arena, scratch per thread. Grows, never shrinks by itself. */
typedef struct rt_pool rt_pool;
rt_pool *rt_pool_new(void);
void rt_pool_free(rt_pool *p);
void *rt_pool_arena(rt_pool *p, size_t bytes);              /* 64-byte aligned; contents undefined; until the next call */
void *rt_pool_scratch(rt_pool *p, int threads, size_t bytes); /* threads * round_up(bytes, 64) */
/* On devices that are not the CPU: a queue and an arena for each, made when they are first asked for.
 *
 * Doubt: a kernel that may find a fault was put into the queue, and nobody has waited since. Whatever cannot be undone waits
 * first: rt_pool_settle() before cells are committed, before a value is retained, and before the host reads. So a fault that is
 * found late undoes nothing. What it spoils are the values that its queue computed from the launch that failed up to the
 * wait that told of it: they are lost, and every later use of one is an error. */
rt_queue *rt_pool_queue(rt_pool *p, int device, rt_err *err); /* NULL: told */
void *rt_pool_arena_on(rt_pool *p, int device, size_t bytes);
void rt_pool_doubt(rt_pool *p, int device);
tj_status rt_pool_settle(rt_pool *p, int device, rt_err *err); /* waits, if there is doubt; the error is the fault */
tj_status rt_pool_settle_all(rt_pool *p, rt_err *err);
bool rt_pool_lost(const rt_pool *p, int device, rt_mark m);    /* what was written up to that moment is lost */

/* ---- the machine ---- */
#define RT_THIRD_CACHE (16 << 20) /* bytes that stay in a third cache of, say, 32 MiB that others use, too; what is more is in memory */

/* ---- cores.c ---- */
int rt_cores(const char *cgroup); /* that the process may use; cgroup: the folder where its CPU quota is, "/sys/fs/cgroup" */

/* ---- team.c: the one pool of threads, made by the first region. One caller at a time has it: who finds it taken runs serial,
 * with the same bits; so does a region inside a region. The child of a fork() makes its own. When not all threads can be created, a warning
 * says so, and regions run on those that there are. ---- */
typedef struct rt_team rt_team;
rt_team *rt_team_get(int threads); /* process-wide; threads counts at the first call; 0: as many as cores */
int rt_team_size(const rt_team *t); /* as wanted; thread numbers are below it */
#define RT_SERIAL_NS 10e3        /* less work than this does not pay for a region */
/* fn over [0, n) in pieces: f(env, thread, begin, end). Serial when total_ns is below RT_SERIAL_NS; the longer it is, the more pieces,
 * but of not fewer than grain units where that leaves each thread several. The caller has set MXCSR; other threads set it for
 * themselves. Uses only on->team and on->log. */
void rt_team_run(const rt_run *on, int64_t n, int64_t grain, double total_ns, void (*f)(void *env, int thread, int64_t begin, int64_t end), void *env);

/* ---- matmul.c: C[b] = A[b] * B[b] for b in batches; row-major C ---- */
typedef struct rt_matmul rt_matmul;
typedef struct rt_matmul_desc {
	tj_dtype dtype;          /* any. F32, F16, BF16: bounded; others have the evaluator's bits: F64 by tiles of ours, integers by loops */
	int64_t m, n, k, batch;
	int64_t a_row, a_col;    /* element strides of A[m,k]; one of them is 1 */
	int64_t b_row, b_col;    /* of B[k,n] */
	int64_t c_row;           /* of C[m,n]; columns are adjacent */
	const int64_t *a_batch, *b_batch, *c_batch; /* element offset of each batch, or NULL when batch == 1 */
	const struct rt_policy *policy; /* policy.h; NULL: this CPU's */
} rt_matmul_desc;
rt_matmul *rt_matmul_new(const rt_matmul_desc *d, rt_err *err);
void rt_matmul_free(rt_matmul *m);
tj_status rt_matmul_run(const rt_matmul *m, const void *a, const void *b, void *c, rt_run *r);
const char *rt_matmul_name(const rt_matmul *m); /* "dnnl_sgemm", "own tiles", ... */
const char *rt_matmul_why(const rt_matmul *m, const char **hint); /* why that one and not another */

#endif
