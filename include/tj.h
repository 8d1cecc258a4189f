/* SPDX-License-Identifier: MIT */
/* tj.h - torch.compile for C: trace a C function over tensors, guard the trace, run fused kernels.
 *
 * A body is an ordinary C function. tj_compile() wraps it, tj_call() runs it. The first call records the ops of the
 * body, lowers them to fused kernels and compiles these in this process. Later calls compare the ops of the body with
 * the record and run the kernels. A call that differs from the record is traced again, and tj_explain() says why.
 *
 * Ownership.  The result of an op belongs to the innermost open scope of its context and dies with it
 *   (tj_push/tj_pop); t = tj_escape(t) moves it to the parent of its scope, t = tj_retain(t) keeps it until tj_release().
 *   Cells (tj_param) belong to the engine and live until tj_release() or the last tj_close(). The last tj_close() of an
 *   engine frees all that is left, so it comes last: tj_pop(), tj_release() and tj_fn_free() before it, and no tensor,
 *   function or scope of the engine is used behind it. A second tj_close() of one context is an error that the library
 *   cannot see. In C++ a global that holds a tensor or a function must be destroyed before the context is closed: make it
 *   a member behind the context, in one object.
 * Errors.  Nothing aborts. An op that fails returns a poison tensor, ops on poison return poison, and the
 *   context keeps the first error until tj_check(). A use without a context is an error of the thread.
 * Threads.  A context serves one thread at a time; tj_ctx_clone() makes one for another thread over the
 *   same engine. Functions, cells and retained tensors may be used from every clone. A context may be handed to
 *   another thread while none of its calls runs. If two threads use one context at the same time, the second is
 *   refused, and the error names the calls of both. A fork() waits while other threads compile. Its child may use the
 *   contexts of the thread that forked, as that thread could.
 * Cells and threads.  A segment is the part of a call between two boundaries. All cells that it is the first to use
 *   have the values of one commit; in direct mode, all cells of the call have. So a reader of a and b never sees half of a
 *   call that assigns both. A function with .freeze sees the cells in .freeze, in .state and among its arguments as of one
 *   commit, the last one before the call; a cell that its body captures undeclared may be of a later one.
 *   If two calls assign one cell at the same time, the second fails and commits nothing.
 *   When C reads a cell in a body (tj_item(), ...), the cell keeps that value for the rest of the call.
 * Leaving a body.  Return from it. If a longjmp(), a C++ exception or the end of the thread leaves a body, the next use
 *   of the context notices: the call is dropped, and the error is TJ_ERR_BODY. An error in a body fails the call, even
 *   when the body clears it by tj_check().
 * Callbacks.  Passes, back ends and their run(), .guard_filter, .on_recompile, .on_note and .log_to are called while their
 *   context is at work. They may call tj_explain(), tj_dump() and tj_fn_stats() of any function; tj_check(),
 *   tj_last_error() and tj_perror() of any context; tj_ctx_use() and tj_ctx_current(); and what needs no context: numbers,
 *   properties of tensors, devices, dtypes, tj_backends(), the graph that they get. Every other function is refused with
 *   the running context: TJ_ERR_STATE, poison or NULL. So are tj_fn_free() and tj_release() while that context is
 *   current. A refused call may make the running call fail; if that returns TJ_OK, tj_check() still gives the error of
 *   the refused call.
 *   A callback may use a context of its own, for example a clone that was made before the call: it may even call the
 *   function that is running. It makes the former context current before it returns. It must not wait for another
 *   thread that uses the engine: that thread may wait for the compile, and both would wait forever. A callback must
 *   return: a longjmp() out of it leaves locks taken.
 * Order.  C leaves the evaluation order of nested arguments to the compiler. Values do not depend on it, but the
 *   numbering of random ops does: write two random ops of one expression as two statements.
 */
#ifndef TJ_H
#define TJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define TJ_API __attribute__((visibility("default")))
#define TJ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TJ_API
#define TJ_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. A release with another major version has another soname: libtj.so.<major>. */
#define TJ_VERSION_MAJOR 0
#define TJ_VERSION_MINOR 1
#define TJ_VERSION_PATCH 0
#define TJ_VERSION "0.1.0"
#define TJ_VERSION_NUMBER (TJ_VERSION_MAJOR * 1000000 + TJ_VERSION_MINOR * 1000 + TJ_VERSION_PATCH) /* 0.1.0 is 1000 */
/* That of the library that the program has loaded, as TJ_VERSION and as TJ_VERSION_NUMBER. Any thread may ask, at any time; the string is
 * never NULL and never freed. */
TJ_API const char *tj_version(void);
TJ_API int tj_version_number(void);

#define TJ_MAX_RANK 16

/* ---- dtypes -------------------------------------------------------------------------------------- */

/* The 16 bits of a float that C has no type for everywhere. f16: 5 bits of exponent, 11 of mantissa (IEEE binary16).
 * bf16: 8 and 8, the upper half of an f32. */
typedef struct tj_f16 { uint16_t bits; } tj_f16;
typedef struct tj_bf16 { uint16_t bits; } tj_bf16;

/* The one table of dtypes: name, text, C type, category. Promotion gives a dtype of the operands' highest category. Use i32 for u16 and
 * i64 for u32, which hold all of their values, and two floats for a complex number (docs/OPS.md, "Dtypes that are not there"). */
#define TJ_DTYPE_MAP(X)                 \
	X(BOOL, "bool", uint8_t,  BOOL)     \
	X(U8,   "u8",   uint8_t,  INT)      \
	X(I8,   "i8",   int8_t,   INT)      \
	X(I16,  "i16",  int16_t,  INT)      \
	X(I32,  "i32",  int32_t,  INT)      \
	X(I64,  "i64",  int64_t,  INT)      \
	X(F16,  "f16",  tj_f16,   FLOAT)    \
	X(BF16, "bf16", tj_bf16,  FLOAT)    \
	X(F32,  "f32",  float,    FLOAT)    \
	X(F64,  "f64",  double,   FLOAT)

/* What tj_pad() puts at the ends of an axis: a value; the elements beside the end, mirrored; the element at the end; those of the other
 * end. */
typedef enum tj_pad_mode { TJ_PAD_CONSTANT, TJ_PAD_REFLECT, TJ_PAD_REPLICATE, TJ_PAD_CIRCULAR } tj_pad_mode;

typedef enum tj_dtype {
#define X(name, text, ctype, cat) TJ_##name,
	TJ_DTYPE_MAP(X)
#undef X
	TJ_DTYPE_COUNT
} tj_dtype;

TJ_API const char *tj_dtype_name(tj_dtype dtype); /* "f32"; "?" if dtype is invalid */
TJ_API size_t tj_dtype_size(tj_dtype dtype);      /* bytes of an element; 0 if dtype is invalid */
TJ_API tj_f16 tj_to_f16(double value);            /* rounded once, to nearest, ties to even; beyond the range: inf */
TJ_API tj_bf16 tj_to_bf16(double value);
TJ_API float tj_from_f16(tj_f16 value);           /* exact */
TJ_API float tj_from_bf16(tj_bf16 value);

/* ---- devices ------------------------------------------------------------------------------------- */

/* Where the bytes of a tensor are, and what computes with them. New tensors are on the device tj_open_opts.device;
 * tj_to() copies them to another one. All operands of an op must be on one device, except that numbers and 0-d tensors
 * of the CPU may be used with any. */
typedef int tj_device;
enum { TJ_CPU = 0 }; /* the environment variable TJ_CPU is something else: the width of its vectors */

/* Names, NULL-terminated; name i is that of device i. When no GPU can be used, the last one says why: "cuda: libcuda.so.1 is not
 * there: ...". The first call, and the first device name that begins with "cuda", look for GPUs (opening the driver takes some 100 ms). */
TJ_API const char *const *tj_devices(void);
TJ_API tj_device tj_find_device(const char *name);       /* "cpu", "cuda:0", ...; -1: there is none of that name */
TJ_API const char *tj_device_name(tj_device device);     /* "?" if there is no such device */

/* ---- errors -------------------------------------------------------------------------------------- */

/* The one table of status codes. */
#define TJ_STATUS_MAP(X)                                                  \
	X(OK,          "ok")                                                  \
	X(ERR_ARG,     "invalid argument")                                    \
	X(ERR_SHAPE,   "shapes do not fit")                                   \
	X(ERR_DTYPE,   "dtype not accepted")                                  \
	X(ERR_INDEX,   "index out of range")                                  \
	X(ERR_DIV,     "integer division by zero")                            \
	X(ERR_LIMIT,   "limit exceeded")                                      \
	X(ERR_DEVICE,  "operands on different devices, or no such device")    \
	X(ERR_STATE,   "wrong place or time for this call")                   \
	X(ERR_FOREIGN, "tensor belongs to another context")                   \
	X(ERR_DEAD,    "tensor used after its scope was popped or after its release") \
	X(ERR_NOMEM,   "out of memory")                                       \
	X(ERR_COMPILE, "code generation failed")                              \
	X(ERR_PARSE,   "text does not parse")                                 \
	X(ERR_BODY,    "function body did not return")                        \
	X(ERR_IO,      "file or folder cannot be read or written")            \
	X(ERR_SINGULAR, "matrix is singular, or not positive definite")

typedef enum tj_status {
#define X(name, text) TJ_##name,
	TJ_STATUS_MAP(X)
#undef X
	TJ_STATUS_COUNT
} tj_status;

typedef struct tj_ctx tj_ctx;       /* the library's state for one thread */
typedef struct tj_tensor tj_tensor; /* a handle: a value, a cell, or a number in the handle's own bits */
typedef struct tj_fn tj_fn;         /* a compiled function */
typedef struct tj_scope tj_scope;   /* an open scope */

/* Everything known about an error. Valid until the context's next error or tj_close(). */
typedef struct tj_error {
	tj_status code;
	const char *op;      /* "matmul", or the name of the call */
	const char *message; /* "inner dimensions differ: f32[64,128] x f32[256,10] (128 and 256)" */
	const char *site;    /* "train.c:41"; callers follow, innermost first */
	const char *hint;    /* how to avoid it, or "" */
} tj_error;

TJ_API const char *tj_strerror(tj_status status);
/* The first error since the last check, and forgets it. If the context has none: the first error of this thread that no context could keep,
 * since the thread used none. NULL instead of c: only such an error. */
TJ_API tj_status tj_check(tj_ctx *c);
TJ_API const tj_error *tj_last_error(tj_ctx *c);   /* the error that the last tj_check() of c, or of NULL, returned; NULL: none */
/* prints the error that tj_check() would return, else that one: site: op: message, then the hint */
TJ_API void tj_perror(tj_ctx *c, FILE *f);

/* The caller's file:line. A macro over each function that may fail passes it. */
#define TJ_STR_(x) #x
#define TJ_STR(x) TJ_STR_(x)
#define TJ_SITE __FILE__ ":" TJ_STR(__LINE__)

/* An error of a function of your own, reported like that of an op: the current context keeps it, if it is the first one, and a call whose
 * body runs fails. Returns poison, for your function to return. code: not TJ_OK. site and op live as long as the context. hint: how to
 * avoid it, or NULL. */
TJ_API tj_tensor *tj_fail_at(const char *site, tj_status code, const char *op, const char *hint, const char *fmt, ...) TJ_PRINTF(5, 6);
#define tj_fail(code, op, hint, ... /* fmt, ... */) tj_fail_at(TJ_SITE, code, op, hint, __VA_ARGS__)

/* For a function of your own that gives an index to ops: a site with the text of `site`, to be passed as the first argument of
 * tj_gather_at() and its like. When the index is out of range, which is found when the op runs, the error has this op, message and hint,
 * not those of tj_gather(). A message that ends with a blank is followed by the size of the axis. The texts are copied; the result lives
 * as long as the process. `site` itself: out of memory, or it is of tj_site_for(), so the outermost function names itself. */
TJ_API const char *tj_site_for(const char *site, const char *op, const char *message, const char *hint);

/* ---- lists, shapes, option structs --------------------------------------------------------------- */

/* A list of sizes or axes ends in TJ_END_DIM, a list of tensors in TJ_END; a NULL in a list of tensors is an error. The
 * macros below append the end and evaluate each argument once. An empty list is TJ_0D (sizes, axes) or TJ_NONE (tensors);
 * TJ_ALL means all axes. In C, TJ_SHAPE() and the other list macros need at least one argument.
 * TJ_OPTS() makes a struct of options; fields that are left out are 0. A .size of 0 means all fields; one that is 8 or no multiple
 * of 8 is an error; nothing beyond the struct is read. Of a struct that a function fills, 0 is an error, too: nothing beyond the
 * program's struct is written. */
#define TJ_END_DIM INT64_MIN

typedef const int64_t *tj_dims;          /* sizes or axes, up to TJ_END_DIM */
typedef tj_tensor *const *tj_list;       /* tensors, up to TJ_END */
typedef tj_tensor **const *tj_vars;      /* addresses of variables that hold tensors, up to TJ_END_VAR; NULL: none */
TJ_API extern const int64_t tj_no_dims[1];
TJ_API extern tj_tensor *const tj_no_tensors[1];
#define TJ_0D tj_no_dims      /* the shape of a 0-d tensor; no axes */
#define TJ_NONE tj_no_tensors /* the empty list */

#ifndef __cplusplus /* in C++: at the end of this file */
#define TJ_ALL ((tj_dims)0)                     /* all axes */
#define TJ_END ((tj_tensor *)(uintptr_t)8)      /* reserved handle; never a tensor */
#define TJ_END_VAR ((tj_tensor **)(uintptr_t)8)
#define TJ_SHAPE(...) ((const int64_t[]){ __VA_ARGS__, TJ_END_DIM })
#define TJ_AXES(...) ((const int64_t[]){ __VA_ARGS__, TJ_END_DIM })
#define TJ_LIST(...) ((tj_tensor *const[]){ __VA_ARGS__, TJ_END })
#define TJ_VARS(...) ((tj_tensor **const[]){ __VA_ARGS__, TJ_END_VAR })
#define TJ_SCALARS(...) ((const tj_scalar[]){ __VA_ARGS__, tj_scalar_end() })
#define TJ_OPTS(type, ...) (&(const type){ .size = sizeof(type), __VA_ARGS__ })
#endif

/* ---- contexts ------------------------------------------------------------------------------------ */

typedef struct tj_open_opts {
	size_t size;
	uint64_t seed;         /* of the random numbers; 0 is an ordinary seed */
	const char *log;       /* like TJ_LOG, which it overrides: "graph,guards,recompiles"; "@name": only that function's lines */
	void (*log_to)(void *self, const char *line); /* default: stderr */
	void *log_self;
	const char *backend;   /* "llvm" or "eval"; default: TJ_BACKEND, else the first that is available */
	int threads;           /* team size; 0: TJ_THREADS, else the cores that the process may use. The first tj_open() of the process makes
	                        * the team; a later one with fewer threads uses so many of it, see tj_settings.threads */
	bool check;            /* like TJ_CHECK=1: always find uses of popped tensors, and writes of a body beyond out[] */
	const char *dump;      /* like TJ_DUMP: a folder; each compile makes a numbered folder in it: graph, fusion, kernels, code, plan */
	int audit;             /* like TJ_AUDIT=n: every n-th call that could skip the body runs it and compares. Also compares with the evaluator:
	                        * the first values of each plan and of each op outside of functions. 0: never */
	const char *device;    /* like TJ_DEVICE: the device of new tensors; default "cpu". If there is none of that name, a warning says why, and
	                        * it is the CPU */
	bool profile;          /* like TJ_PROFILE=1 (other values: tj_profile_begin()): measure each step; TJ_DUMP_PLAN shows the times. On a GPU
	                        * by events: calls then wait for each kernel. NVIDIA's profilers get a range (NVTX) for each function and step */
	bool time_guards;      /* like TJ_TIME_GUARDS=1: measure the time of guards, for tj_fn_stats() and tj_explain() */
	const char *cache;     /* like TJ_CACHE: the folder of compiled kernels; "off": none; "ro:folder": nothing is written there. Default:
	                        * $XDG_CACHE_HOME/tjit, else $HOME/.cache/tjit */
	const char *report;    /* like TJ_REPORT: a file, written when the last context is closed or the process exits, see tj_report(). %p in it
	                        * becomes the number of the process; the second engine of a process writes run.2.json for run.json */
	const char *linalg;    /* like TJ_LINALG, for the whole process: who computes eigenvalues and singular values. "lapack": liblapack.so.3 (or
	                        * libopenblas.so.0); without it they are errors. "own": rotations of tjit. "auto": LAPACK if it is there */
} tj_open_opts;

TJ_API tj_ctx *tj_open(const tj_open_opts *opts); /* becomes the thread's current context; NULL when out of memory */
/* A context for another thread, on the same engine. It is current in no thread until tj_ctx_use(). Waits while another
 * thread runs or commits a direct call of c. NULL: out of memory, called in a callback of c, or (in a thread that does not own c) a GPU has
 * found a fault in the work of c that nobody was told of yet: tj_check(c) says so, and then which. */
TJ_API tj_ctx *tj_ctx_clone(tj_ctx *c);
TJ_API tj_ctx *tj_ctx_use(tj_ctx *c);             /* makes c the thread's current context; returns the former one */
TJ_API tj_ctx *tj_ctx_current(void);
TJ_API bool tj_in_body(tj_ctx *c);                /* a body runs, or what tj_trace_begin() has begun; for libraries over this one */
/* Frees all of c; the last one frees the engine. If c is current in this thread and the thread opened it, the context that was current
 * before that tj_open() becomes current again, if it is still open; else none is. */
TJ_API void tj_close(tj_ctx *c);
TJ_API void tj_seed_at(const char *site, tj_ctx *c, uint64_t seed); /* restarts the random numbers: key and ordinal */
#define tj_seed(c, seed) tj_seed_at(TJ_SITE, c, seed)

/* What library calls may do, for all functions and ops of a context; zero is the default. Traces and plans belong to the settings under
 * which they were made, so a change compiles once ("settings" in tj_explain) and costs nothing when it comes again. A clone begins with the
 * settings of its context. Not in a body. */
typedef enum tj_products { TJ_PRODUCTS_AUTO, TJ_PRODUCTS_OWN, TJ_PRODUCTS_LIBRARY } tj_products;
typedef enum tj_attention { TJ_ATTENTION_AUTO, TJ_ATTENTION_MATH, TJ_ATTENTION_FUSED, TJ_ATTENTION_LIBRARY } tj_attention;
typedef struct tj_settings {
	size_t size;
	bool allow_tf32;              /* GPU: operands of f32 products may be rounded to TF32, 10 bits of mantissa; several times as fast */
	bool allow_reduced_precision; /* GPU: partial sums of f16 and bf16 products may be rounded to the dtype; default: sums are f32 */
	bool allow_nondeterministic;  /* a library may add in an order that changes from run to run */
	bool no_split_sums;           /* GPU: the sums of a product are not split into parts; slower when they are long and few */
	bool autotune;                /* GPU: the first run of a product (and of a bias and activation with it) times some ways and keeps the
	                               * fastest; then another process may get other bits */
	tj_products products;         /* who computes matrix products. OWN: kernels of tjit, with the evaluator's bits. LIBRARY: on the CPU oneDNN
	                               * those of f32, on a GPU cuBLASLt those of floats, if it is there, in its own order of summation: the error
	                               * is bounded. AUTO: on the CPU like OWN today, in TJ_FAST as well, and tj_product_library() says why; on a
	                               * GPU docs/CUDA.md has a table */
	bool no_graphs;               /* GPU: launch kernels one by one, not as CUDA graphs */
	bool no_epilogues;            /* GPU: the bias and the activation after a product are a kernel of their own */
	tj_attention attention;       /* how tj_scaled_dot_product_attention() works. MATH: with all scores at once. FUSED: in blocks of rows,
	                               * never all scores of a head. LIBRARY: there is none today, so like AUTO. AUTO: FUSED for large scores.
	                               * tj_attention_method() says which, and why */
	int64_t threads;              /* at most so many threads of the team compute for this context, the caller included; 0: all. The team is
	                               * one for the process: TJ_THREADS, or .threads of the first tj_open(), says how many it has, and more is an
	                               * error. Results do not depend on it, and nothing is compiled again */
	bool flush_denormal;          /* always refused: subnormal numbers would become 0, and the evaluator, which defines all results, keeps
	                               * them. Kernels do, too, whatever the mode of the calling thread is */
} tj_settings;
TJ_API tj_status tj_set_settings_at(const char *site, tj_ctx *c, const tj_settings *s); /* NULL: the default */
TJ_API tj_status tj_get_settings_at(const char *site, tj_ctx *c, tj_settings *out);      /* out->size set by the caller */
#define tj_set_settings(c, s) tj_set_settings_at(TJ_SITE, c, s)
#define tj_get_settings(c, out) tj_get_settings_at(TJ_SITE, c, out)

/* ---- scopes and lifetimes ------------------------------------------------------------------------ */

TJ_API tj_scope *tj_push_at(const char *site, tj_ctx *c);
TJ_API void tj_pop_at(const char *site, tj_scope *s);           /* frees the tensors of s and of scopes opened since */
TJ_API tj_tensor *tj_escape_at(const char *site, tj_tensor *t); /* t in the parent of its scope; use the returned handle from now on */
TJ_API tj_tensor *tj_retain_at(const char *site, tj_tensor *t); /* a reference to t until tj_release(); use the returned handle */
TJ_API void tj_release_at(const char *site, tj_tensor *t);      /* gives back one reference to a retained tensor or a cell */
#define tj_push(c) tj_push_at(TJ_SITE, c)
#define tj_pop(s) tj_pop_at(TJ_SITE, s)
#define tj_escape(t) tj_escape_at(TJ_SITE, t)
#define tj_retain(t) tj_retain_at(TJ_SITE, t)
#define tj_release(t) tj_release_at(TJ_SITE, t)

/* ---- numbers ------------------------------------------------------------------------------------- */

/* A number is a handle that holds its value in its own bits; nothing is allocated. Any operand may be a number. Promotion
 * and guards look at its category (int or float), never at its value, which is a run-time argument of the code. */
TJ_API tj_tensor *tj_f(double value); /* its dtype beside tensors, in views and in reductions: docs/NUMERICS.md */
TJ_API tj_tensor *tj_i_at(const char *site, int64_t value); /* |value| <= 2^51, else poison; tj_from_data() takes larger ones */
#define tj_i(value) tj_i_at(TJ_SITE, value)

/* ---- tensors ------------------------------------------------------------------------------------- */

/* New tensors copy data: row-major, product of the sizes elements, host memory. */
TJ_API tj_tensor *tj_from_data_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data);
/* may be folded, and copied as a weight in .freeze */
TJ_API tj_tensor *tj_constant_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, const void *data);
/* A tensor over your memory, without a copy. data points to its first element and is aligned to the element's size. strides:
 * in elements, one for each axis, of any sign; elements may overlap; NULL: row-major. tjit reads the memory and never writes
 * it. The memory must stay valid and unchanged until tjit calls release(env), or until the last tj_close() when release is
 * NULL. release() is called once, by the thread that drops the last tensor over the memory; views of the tensor and cells that
 * hold it count. It must not call tjit. After an error it is not called. */
TJ_API tj_tensor *tj_wrap_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape, tj_dims strides, const void *data,
                             void (*release)(void *env), void *env);
#define tj_wrap(c, dtype, shape, strides, data, release, env) tj_wrap_at(TJ_SITE, c, dtype, shape, strides, data, release, env)
/* data may be a compound literal with commas: (float[]){ 1, 2 }. */
#define tj_from_data(c, dtype, shape, ...) tj_from_data_at(TJ_SITE, c, dtype, shape, __VA_ARGS__)
#define tj_constant(c, dtype, shape, ...) tj_constant_at(TJ_SITE, c, dtype, shape, __VA_ARGS__)

/* The same on a given device, not on that of the context. data of tj_wrap_on() is an address on that device; work that is in other
 * streams must not write there while tjit may read it. release() is called when the device has read it for the last time. */
TJ_API tj_tensor *tj_from_data_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, const void *data);
TJ_API tj_tensor *tj_constant_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, const void *data);
TJ_API tj_tensor *tj_wrap_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape, tj_dims strides,
                                const void *data, void (*release)(void *env), void *env);
#define tj_from_data_on(c, device, dtype, shape, ...) tj_from_data_on_at(TJ_SITE, c, device, dtype, shape, __VA_ARGS__)
#define tj_constant_on(c, device, dtype, shape, ...) tj_constant_on_at(TJ_SITE, c, device, dtype, shape, __VA_ARGS__)
#define tj_wrap_on(c, device, dtype, shape, strides, data, release, env) \
	tj_wrap_on_at(TJ_SITE, c, device, dtype, shape, strides, data, release, env)
/* Ops without tensor operands make their result on the device of the context. These make it on another one; nothing is copied in
 * compiled functions. */
#define tj_full_on(device, dtype, shape, value) tj_to(tj_full(dtype, shape, value), device)
#define tj_arange_on(device, dtype, start, stop, step) tj_to(tj_arange(dtype, start, stop, step), device)
#define tj_eye_on(device, dtype, n, m) tj_to(tj_eye(dtype, n, m), device)
#define tj_uniform_on(device, dtype, shape) tj_to(tj_uniform(dtype, shape), device)
#define tj_normal_on(device, dtype, shape) tj_to(tj_normal(dtype, shape), device)

TJ_API int tj_rank(const tj_tensor *t);                 /* 0 for numbers; -1 if t is no tensor */
TJ_API int64_t tj_dim(const tj_tensor *t, int axis);    /* negative axes count from the end; -1 out of range */
TJ_API int64_t tj_numel(const tj_tensor *t);
TJ_API tj_device tj_device_of(const tj_tensor *t);   /* TJ_CPU for numbers; -1 if t has no device */
TJ_API tj_dtype tj_dtype_of(const tj_tensor *t);
TJ_API bool tj_is_poison(const tj_tensor *t);

/* Values. In a body each of these is a boundary: all pending ops run first. */
/* row-major, valid until the scope pops or the cell's next commit. On error 16 zero bytes, whatever the shape: look at tj_is_poison() or
 * tj_check() before you read more */
TJ_API const void *tj_data_at(const char *site, tj_tensor *t);
TJ_API double tj_item_at(const char *site, tj_tensor *t);      /* of a 0-d or one-element tensor; NaN on error */
TJ_API int64_t tj_item_i_at(const char *site, tj_tensor *t);
TJ_API bool tj_truth_at(const char *site, tj_tensor *t);       /* t != 0 */
/* row-major; bytes: the size of t. dst may be NULL for 0 bytes */
TJ_API tj_status tj_read_at(const char *site, tj_tensor *t, void *dst, size_t bytes);
#define tj_data(t) tj_data_at(TJ_SITE, t)
#define tj_item(t) tj_item_at(TJ_SITE, t)
#define tj_item_i(t) tj_item_i_at(TJ_SITE, t)
#define tj_truth(t) tj_truth_at(TJ_SITE, t)
#define tj_read(t, dst, bytes) tj_read_at(TJ_SITE, t, dst, bytes)

/* Ops whose result's size depends on data. In a body each is a boundary, too, and runs on the host. The ops after it are
 * traced once for each size; all sizes share the code. A function in direct mode that uses one of these runs its body. */
/* i64 [count, rank]: where x is not 0, in row-major order */
TJ_API tj_tensor *tj_nonzero_at(const char *site, tj_tensor *x);
/* 1-d: x where the bool mask is true, in row-major order of the shape that both broadcast to */
TJ_API tj_tensor *tj_masked_select_at(const char *site, tj_tensor *x, tj_tensor *mask);
/* 1-d: the different values of x, sorted, then every NaN of x. 0.0 and -0.0 are equal: the first in x is taken */
TJ_API tj_tensor *tj_unique_at(const char *site, tj_tensor *x);
/* As tj_unique(), with up to three more results, i64 (NULL: not wanted). indices: where each value stands first in x, flattened.
 * inverse: for each element of x, the place of its value in the result. counts: how often x has each value. */
TJ_API tj_tensor *tj_unique_all_at(const char *site, tj_tensor *x, tj_tensor **indices, tj_tensor **inverse, tj_tensor **counts);
#define tj_nonzero(x) tj_nonzero_at(TJ_SITE, x) /* tj_nonzero([[0, 5], [6, 0]]) = [[0, 1], [1, 0]] */
#define tj_masked_select(x, mask) tj_masked_select_at(TJ_SITE, x, mask) /* tj_masked_select([1, 2, 3], [true, false, true]) = [1, 3] */
#define tj_unique(x) tj_unique_at(TJ_SITE, x) /* tj_unique([2, 1, 2]) = [1, 2] */
#define tj_unique_all(x, indices, inverse, counts) tj_unique_all_at(TJ_SITE, x, indices, inverse, counts)
/* tj_unique_all([2, 1, 2], &indices, &inverse, &counts) = [1, 2], [1, 0], [1, 0, 1], [1, 2] */

/* Cells: the only mutable tensors. Inside a compiled function, later ops see an assigned value at once. All assigns
 * commit together at the end of the outermost call; a call that fails commits nothing. On a GPU the failure may be found after
 * tj_call() has returned: then what that call and those after it have committed is undone, their outputs are lost (each use is an
 * error), and the next wait reports it: tj_sync(), reading a value, or a call. tj_check() reports it, too, once the GPU has found it.
 * Random numbers that these calls have drawn are not drawn again. */
/* zeros; released by tj_release() or the last tj_close() */
TJ_API tj_tensor *tj_param_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims shape);
TJ_API tj_status tj_assign_at(const char *site, tj_tensor *cell, tj_tensor *value); /* value is cast and broadcast to the cell */
TJ_API tj_status tj_write_at(const char *site, tj_tensor *cell, const void *data, size_t bytes); /* not in a body */
TJ_API tj_tensor *tj_param_on_at(const char *site, tj_ctx *c, tj_device device, tj_dtype dtype, tj_dims shape);
#define tj_param(c, dtype, shape) tj_param_at(TJ_SITE, c, dtype, shape)
#define tj_param_on(c, device, dtype, shape) tj_param_on_at(TJ_SITE, c, device, dtype, shape)
#define tj_assign(cell, value) tj_assign_at(TJ_SITE, cell, value)
#define tj_write(cell, ...) tj_write_at(TJ_SITE, cell, __VA_ARGS__) /* data may be a compound literal: tj_write(w, (float[]){ 1, 2 }, 8) */

/* ---- GPUs, beside other libraries of the process ------------------------------------------------------- */

/* Work on a GPU waits in a queue, one for each context and GPU: a call returns before it is done. tj_sync() returns when all work of
 * the context has run, and reports the first fault of it. Not in a body. */
TJ_API tj_status tj_sync_at(const char *site, tj_ctx *c);
#define tj_sync(c) tj_sync_at(TJ_SITE, c)
/* The queue of the context on a GPU, a CUstream: work that you put there runs after all that tjit has put there so far. Instead,
 * tjit can put its work into a stream of yours, of the GPU's primary context; it must live until the next tj_set_stream() or the
 * tj_close() of the context, and be one that was made, not a default stream of the driver. NULL: a stream of the context's own, as in
 * the beginning. tj_stream() is NULL on error, and for the CPU. Not in a body. */
TJ_API void *tj_stream_at(const char *site, tj_ctx *c, tj_device device);
TJ_API tj_status tj_set_stream_at(const char *site, tj_ctx *c, tj_device device, void *stream);
#define tj_stream(c, device) tj_stream_at(TJ_SITE, c, device)
#define tj_set_stream(c, device, stream) tj_set_stream_at(TJ_SITE, c, device, stream)
/* The address of the elements on the tensor's own device, row-major; on the CPU it is tj_data(). The elements are there in the order of
 * tj_stream(). Valid as long as tj_data(). In a body it is a boundary. NULL on error. */
TJ_API const void *tj_device_data_at(const char *site, tj_tensor *t);
#define tj_device_data(t) tj_device_data_at(TJ_SITE, t)

/* Memory of a device, in bytes, of all contexts of the process. On the CPU only tensors are counted, on GPUs temporaries, too. */
typedef struct tj_memory {
	size_t size;
	uint64_t allocated;   /* got from the device */
	uint64_t cached;      /* of these: kept by this context for its next tensors */
	uint64_t peak;        /* the most that was allocated since the start or the last tj_reset_peak() */
	uint64_t limit;       /* of tj_limit_memory(); 0: none */
	uint64_t allocations; /* number of them */
	uint64_t free, total; /* of a GPU, whatever process uses it; 0 on the CPU */
} tj_memory;
TJ_API tj_status tj_memory_stats_at(const char *site, tj_ctx *c, tj_device device, tj_memory *out); /* out->size set by the caller */
/* An allocation that would pass the limit is out of memory: first the context frees what it keeps and tries again, then the call fails. */
TJ_API tj_status tj_limit_memory_at(const char *site, tj_ctx *c, tj_device device, uint64_t bytes);
/* frees what this context keeps for its next tensors and temporaries. Not in a body */
TJ_API tj_status tj_empty_cache_at(const char *site, tj_ctx *c, tj_device device);
TJ_API tj_status tj_reset_peak_at(const char *site, tj_ctx *c, tj_device device);
#define tj_memory_stats(c, device, out) tj_memory_stats_at(TJ_SITE, c, device, out)
#define tj_limit_memory(c, device, bytes) tj_limit_memory_at(TJ_SITE, c, device, bytes)
#define tj_empty_cache(c, device) tj_empty_cache_at(TJ_SITE, c, device)
#define tj_reset_peak(c, device) tj_reset_peak_at(TJ_SITE, c, device)

/* ---- compiled functions -------------------------------------------------------------------------- */

/* A body gets nin placeholders in `in` and sets each of out[0..nout-1]. It runs once per call. */
typedef void tj_body(tj_tensor **out, tj_tensor *const *in, void *self);

/* TJ_VERIFY: the body runs on every call and is compared with the trace: right for any C function.
 * TJ_DIRECT: the body runs once for each combination of layouts, declared state and declared ints, then it is skipped. You
 * declare by this that the body depends on nothing but its arguments, .state and the scalars of tj_call_ex(). tjit finds
 * undeclared tensors, host reads and effects that outlive the call (tj_retain, tj_escape, tj_seed): it reports them once and
 * keeps the function in verify mode. A call of more than 16 segments runs its body, too. A body must not compare handles of
 * numbers. tjit cannot see that a C variable changed: TJ_AUDIT=n runs the body on every n-th call and compares. */
typedef enum tj_mode { TJ_VERIFY, TJ_DIRECT } tj_mode;
/* TJ_STRICT: compiled code gives the evaluator's bits. TJ_FAST: a product and a sum may be rounded together, once (fma);
 * minimum, maximum and clamp need not look for NaN; a library may compute a matrix product of floats in its own order of
 * summation; a kernel may multiply two bf16 of a matrix product at a time; a convolution of 3 x 3 may be computed by tiles
 * (Winograd); a GPU's library may compute a bias and ReLU or tj_gelu_tanh() in its call for a matrix product. The ops of a nested
 * call's body follow the nested function's setting. A value that depends on no fast op has the evaluator's bits. Only a fast
 * product and a fast sum are rounded together. */
typedef enum tj_numerics { TJ_STRICT, TJ_FAST } tj_numerics;
/* an integer division by zero is an error, or 0; the outermost call decides */
typedef enum tj_int_div_zero { TJ_ERROR, TJ_ZERO } tj_int_div_zero;

/* How the code depends on the sizes of arguments. AUTO: the first call makes code for its sizes; when a size changes, new code is
 * made once that takes this size as an argument. ON: all sizes are arguments of the code from the start. OFF: each size has its own
 * code. Except with OFF, a new size is traced (the body runs and is recorded, some 10 us for an op) but compiles nothing, unless it is
 * 0 or 1, which have code of their own since size 1 broadcasts, or changes a size that had stayed the same. OFF overrides .shapes. */
typedef enum tj_dynamic { TJ_DYNAMIC_AUTO, TJ_DYNAMIC_OFF, TJ_DYNAMIC_ON } tj_dynamic;

/* Passed to .on_recompile: why a call was traced again. Passed to .on_note: another decision. Strings are valid during the
 * callback. What it may call: see Callbacks above. Any thread that calls the function may run it. */
typedef struct tj_reason {
	const char *fn;       /* name of the function */
	const char *kind;     /* "size", "dtype", "rank", "stride", "cell", "alias", "capture", "op", "numerics", "autocast", "attribute",
	                       * "branch", ...; "direct": the function, or one key of it, stays in verify mode; "impure": it went back to verify
	                       * mode; "eviction", "budget": a trace was dropped; "unguarded": a guard that .guard_filter dropped would have
	                       * failed.
	                       * For .on_note: "boundary", "recompute", "fusion", "memory", "evaluator", "device", "library", "nested",
	                       * "autocast" */
	int arg, dim;         /* argument and dimension, or -1 */
	int event;            /* number of the event in its segment, or -1 */
	const char *expected; /* in the nearest trace; of a decision the op */
	const char *found;    /* in this call; of a decision the other op, or what computes it */
	const char *site;     /* the user's file:line */
	const char *hint;     /* how to avoid it */
	const char *text;     /* all of the above in one line */
	int state;            /* number of the declared variable that differs, or -1 */
	/* Of a failed guard: the trace that the call followed, and the segment that it left. Of a new signature: its own number; the text
	 * says of which trace it differs. Of a new size: the signature. Of a note: what was compiled. Else -1 */
	int trace, segment;
} tj_reason;

/* A new guard, passed to .guard_filter. Strings are valid during the callback. */
typedef struct tj_guard {
	const char *fn;
	const char *kind;     /* "argument", "constant", "scalar": before the body; "capture", "constant", "numerics", "autocast",
	                       * "attribute", "numbers": at an event */
	int arg;              /* number of the argument, scalar, or operand of the event, or -1; from .nin on: declared variables */
	int dim;              /* number of the attribute, or -1 */
	int event;            /* number of the event in its segment; -1: checked before the body */
	const char *site;     /* the user's file:line of the call or of the event */
	const char *text;     /* "slice at a.c:7: attribute 1 is 0" */
	bool droppable;       /* false: it is kept, whatever the filter returns */
} tj_guard;

/* ---- your own passes and back ends --------------------------------------------------------------- */

/* The graph of a segment: a list of nodes, operands before their users. It is valid during the callback, which may change it.
 * Afterwards the graph is simplified and verified. The first mistake of a callback ends the compile with an error.
 * All functions take a NULL node: it has no inputs, no uses, no attributes, no data, rank -1 and the op "?". */
typedef struct tj_graph tj_graph;
typedef struct tj_node tj_node;
TJ_API tj_node *tj_graph_first(const tj_graph *g);          /* NULL: the graph is empty */
TJ_API tj_node *tj_node_next(const tj_node *n);             /* NULL after the last one */
TJ_API int tj_graph_outputs(const tj_graph *g);
TJ_API tj_node *tj_graph_output(const tj_graph *g, int i);
/* An op of docs/OPS.md, or "input", "number", "constant". A node with several results (some ops, and "cond", "while", "scan") is
 * used by "get" nodes only. A "get" has one attribute, the number of the result, and can be inserted like an op. */
TJ_API const char *tj_node_op(const tj_node *n);
TJ_API int tj_node_inputs(const tj_node *n);
TJ_API tj_node *tj_node_input(const tj_node *n, int k);
TJ_API int tj_node_uses(const tj_node *n);                  /* number of uses by nodes and outputs */
/* number of axes, sizes, dtypes, in the order of docs/OPS.md; axes are positive */
TJ_API int tj_node_attrs(const tj_node *n);
TJ_API int64_t tj_node_attr(const tj_node *n, int k);
TJ_API tj_dtype tj_node_dtype(const tj_node *n);
TJ_API tj_device tj_node_device(const tj_node *n);          /* where its value is computed and lies */
TJ_API int tj_node_rank(const tj_node *n);
TJ_API int64_t tj_node_dim(const tj_node *n, int axis);     /* -1 out of range */
TJ_API const char *tj_node_site(const tj_node *n);          /* the user's file:line */
/* .numerics of the function whose body has the op; an inserted node takes `before`'s */
TJ_API tj_numerics tj_node_numerics(const tj_node *n);
TJ_API int tj_node_slot(const tj_node *n);                  /* index of an input in tj_run.in, of a number in tj_run.number; else -1 */
TJ_API const int64_t *tj_node_strides(const tj_node *n);    /* of an input, in elements; else NULL */
TJ_API const void *tj_node_data(tj_node *n);                /* of a constant, row-major; else NULL */
/* NULL on error */
TJ_API tj_node *tj_graph_insert(tj_graph *g, tj_node *before, const char *op, tj_node *const *inputs, int n, const int64_t *attrs,
                                int nattr);
/* copies; it is on the device of `before` */
TJ_API tj_node *tj_graph_insert_constant(tj_graph *g, tj_node *before, tj_dtype dtype, tj_dims shape, const void *data);
/* in every use of old, except by `with` itself; dtypes, shapes and devices must be equal */
TJ_API bool tj_graph_replace(tj_graph *g, tj_node *old, tj_node *with);
TJ_API bool tj_graph_erase(tj_graph *g, tj_node *n);        /* n must have no uses */
/* A promise: what the callback changes keeps all values, but for rounding. The graph has gradients as nodes, and these are of the values
 * that the body computes. So without the promise a callback that has replaced a node in use makes tj_grad() and tj_jvp() of the function
 * errors. */
TJ_API void tj_graph_keeps_values(tj_graph *g);

/* The graph of callback k of control flow: "cond" has then and else, "while" condition and body, "scan" its body. It is only read. Its
 * "input" nodes stand for operands of the node, or in a scan for slices of them: tj_node_source(). NULL: there is none. Attributes of
 * "while": most turns or 0, number of results behind the carries; of "scan": carries, xs, slices, reverse, 1 if the operand behind xs
 * says how many turns run. */
TJ_API tj_graph *tj_node_region(tj_node *n, int k);
/* What an "input" or a "number" is, and its index there: in a callback "operand", of the node around it. In a graph of tj_graph_of() also
 * "argument", "variable", "scalar". NULL: not known, as for numbers that are computed from numbers of the call, and for random numbers. */
TJ_API const char *tj_node_source(const tj_node *n, int *index);

/* A pass returns TJ_OK, or an error that ends the compile. It runs once for each plan, in the thread that compiles it. */
typedef tj_status tj_pass_fn(tj_graph *g, void *self);
typedef struct tj_pass { const char *name; tj_pass_fn *run; void *self; } tj_pass;
TJ_API tj_status tj_add_pass(tj_ctx *c, const tj_pass *pass); /* for every function of the engine, before its own passes */

/* Your back end sets out->run; or it leaves out->run NULL, and the context's back end compiles the graph, changed or not. */
typedef struct tj_run {
	const void *const *in;    /* by slot: element 0 of each input */
	const uint64_t *number;   /* by slot: the bits of a double, or of an int64_t when the number's dtype is i64 */
	void *const *out;         /* by output: where to write it, row-major; overlaps no input */
} tj_run;
typedef struct tj_compiled {
	tj_status (*run)(void *env, const tj_run *r); /* may run in several threads at once */
	void (*free)(void *env);  /* called when the plan is freed, maybe under locks of tjit: it must not call tjit. May be NULL */
	void *env;
} tj_compiled;
typedef tj_status tj_backend_fn(void *self, tj_graph *g, tj_compiled *out);

typedef struct tj_named_hook { const char *name; tj_body *hook; void *self; } tj_named_hook; /* see tj_grad_name() */

typedef struct tj_compile_opts {
	size_t size;
	const char *name;      /* shown in dumps, logs and names of kernels */
	int nin, nout;
	tj_mode mode;
	tj_numerics numerics;
	tj_int_div_zero int_div_zero;
	tj_dynamic dynamic;
	const char *shapes;    /* the sizes of the arguments, in order: "x: f32[B,S,256], m: bool[B,1,S,S]; B in 1..512; S%16==0". Equal names
	                        * are equal sizes. A named size is an argument of the code from the start. `_`: any size, or any argument;
	                        * `w: static`: each of its shapes is a signature of its own. A call that does not fit fails and says where.
	                        * Arguments behind the last one that it names are as with `_`. NULL: none */
	int max_entries;       /* the most argument signatures kept, and unless .dynamic is OFF 16 times as many sizes; 0: as many as .max_bytes
	                        * holds */
	void (*on_recompile)(void *self, const tj_reason *why);
	void *on_recompile_self;
	const tj_pass *passes; /* of this function; the list ends in one without .run, and is copied. NULL: none */
	tj_backend_fn *backend; /* called for each plan whose tensors are all on the CPU, after the passes; NULL: the context's back end */
	void *backend_self;
	tj_vars state;         /* DIRECT: variables that hold tensors which the body uses; read on every call. The value of a number is part
	                        * of the key, so pass numbers that change often by tj_call_ex(). The list is copied; the variables must live as
	                        * long as the function */
	tj_vars freeze;        /* like .state, for cells and retained tensors, but the content may be folded into the code: after a write the
	                        * function is traced again. A weight of a matrix product is copied into the order in which the code reads it:
	                        * tj_explain() says how many bytes these copies have. A cell that is written often (8 times) is not copied again */
	void (*on_note)(void *self, const tj_reason *note); /* decisions of a compile: boundaries, refused fusions, evaluator steps, ops moved to
	                                                     * the CPU, library calls */
	void *on_note_self;
	/* Called once for each guard; true keeps it. A dropped guard is not checked: the compiled code runs whatever the value is.
	 * You then declare that the result is right. Memory stays safe: op, operands, dtypes, sizes and strides are always checked.
	 * These may be dropped:
	 *   "constant"   the content of a tj_constant() or of a tensor in .freeze: the folded values stay. There is one guard on the
	 *                argument or variable (direct mode uses only this one), and one on the first event that reads the tensor
	 *   "scalar"     the value of an int of tj_call_ex(): the trace of its first value is used. A body that runs gets the real value
	 *   "attribute"  an int of an op (axis, start of a slice, ...): the recorded value is used, also for the shape of the result
	 *   "numbers"    numbers of one line that were equal when recorded: the first one is used for all
	 * Under TJ_AUDIT every call that runs the body also checks dropped guards; the first failure is reported as "unguarded". */
	bool (*guard_filter)(void *self, const tj_guard *guard);
	void *guard_filter_self;
	/* Mixed precision, for TJ_BF16 and TJ_F16: matrix products of f32 take and give this dtype; sums, norms, softmax, losses, exp() and its
	 * like are computed in f32; the flags of docs/OPS.md, LOW and HIGH, say which. All other ops take what they get. tj_dtype_of()
	 * tells. f64 stays. An op has the setting of the function whose body calls it; a nested function that leaves it out has that of its
	 * caller, and TJ_F32 is none. Gradients have the dtype of what they are asked for. Ops outside of compiled functions have none. */
	tj_dtype autocast;     /* tj_autocast_dtype() tells a body; losses, norms and distances made of ops ask it, and give f32 */
	const tj_named_hook *grad_hooks; /* for the values that its call names, see tj_grad_name(); the list ends in one without .name, and is
	                                  * copied, but not the names. NULL: none */
	/* Memory for the traces of all signatures and sizes, their plans and what direct mode keeps, in bytes; 0: 128 MiB. Code that sizes share
	 * and packed weights are not counted. When it is full, a trace that was not used lately is dropped for each new one: it will be traced
	 * again, but code for its sizes stays. tj_stats.bytes says how much is used: 4 to 5 KiB for a size of a function of six ops. */
	size_t max_bytes;
} tj_compile_opts;

/* Scalars of a call, 32 at most: declared, where a C variable would be captured. The body reads a TJ_F() by tj_arg_f and
 * a TJ_I() by tj_arg_i; the other way round is an error. */
typedef enum tj_scalar_kind { TJ_SCALAR_END, TJ_SCALAR_F, TJ_SCALAR_I } tj_scalar_kind;
typedef struct tj_scalar {
	tj_scalar_kind kind;
	double f;
	int64_t i;
} tj_scalar;
static inline tj_scalar TJ_F(double f) { tj_scalar s = { TJ_SCALAR_F, f, 0 }; return s; }
static inline tj_scalar TJ_I(int64_t i) { tj_scalar s = { TJ_SCALAR_I, 0, i }; return s; }
static inline tj_scalar tj_scalar_end(void) { tj_scalar s = { TJ_SCALAR_END, 0, 0 }; return s; }

TJ_API tj_dtype tj_autocast_dtype(void); /* the .autocast of ops that are called here: TJ_BF16 or TJ_F16; TJ_F32: none */
TJ_API tj_fn *tj_compile_at(const char *site, tj_ctx *c, tj_body *body, void *self, const tj_compile_opts *opts); /* NULL on error */
TJ_API void tj_fn_free_at(const char *site, tj_fn *f); /* only while no call of f runs; the last tj_close() frees f, too */
/* In the current context of the thread, which may be another one of the engine in which f was compiled. On failure out and all cells are
 * untouched. */
TJ_API tj_status tj_call_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in);
TJ_API tj_tensor *tj_call1_at(const char *site, tj_fn *f, tj_list in);               /* nout == 1; poison on failure */
/* tj_call_ex() with outputs in your memory. Output i is written row-major to into[i].data (NULL: memory of tjit); into[i].bytes must be
 * its size. out[i] is a tensor over that memory, under the rules of tj_wrap(). The output is computed there when the memory is aligned to
 * 64 bytes and no argument uses it, else copied there at the end of the call, so it may be the memory of an argument made by tj_wrap(),
 * if no other tensor over it is read afterwards. No two of into[] may overlap. After an error the content is undefined. Not in a
 * body. scalars may be NULL. The memory may be that of a GPU: then .device says so, and the output is there when tj_sync() has returned
 * or, for other work, in the order of tj_stream(). */
typedef struct tj_into { void *data; size_t bytes; tj_device device; } tj_into;
TJ_API tj_status tj_call_into_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in, const tj_scalar *scalars,
                                 const tj_into *into /* one for each output */);
TJ_API tj_status tj_call_ex_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in, const tj_scalar *scalars);
/* the k-th scalar of the running call, as a number: its value is bound at run time */
TJ_API tj_tensor *tj_arg_f_at(const char *site, int k);
/* the k-th scalar of the running call, as a C integer: its value is part of the key */
TJ_API int64_t tj_arg_i_at(const char *site, int k);
#define tj_compile(c, body, self, opts) tj_compile_at(TJ_SITE, c, body, self, opts)
#define tj_fn_free(f) tj_fn_free_at(TJ_SITE, f)
#define tj_call(f, out, in) tj_call_at(TJ_SITE, f, out, in)
#define tj_call1(f, in) tj_call1_at(TJ_SITE, f, in)
#define tj_call_into(f, out, in, scalars, ... /* into */) tj_call_into_at(TJ_SITE, f, out, in, scalars, __VA_ARGS__)
#define tj_call_ex(f, out, in, scalars) tj_call_ex_at(TJ_SITE, f, out, in, scalars)
#define tj_arg_f(k) tj_arg_f_at(TJ_SITE, k)
#define tj_arg_i(k) tj_arg_i_at(TJ_SITE, k)

/* Between these two lines the ops of c are as in the body of a compiled function: nothing is computed until a value is read or the trace
 * ends, tj_grad() is possible, and what is assigned to cells is committed at the end, all or nothing. The trace belongs to the line that
 * begins it: when the line runs again, the ops are matched and the kernels are replayed. keep[]: n tensors that outlive the trace; each is
 * replaced by its value in the scope around. All others end with it.
 *
 *   tj_trace_begin(c, NULL);
 *   tj_tensor *loss = tj_mean(tj_square(tj_sub(tj_matmul(x, w), y)), TJ_ALL, false), *g;
 *   tj_grad(&g, loss, TJ_LIST(w), NULL);
 *   tj_assign(w, tj_sub(w, tj_mul(g, tj_f(0.1))));
 *   if (tj_trace_end(c, &loss, 1) != TJ_OK) ...
 *
 * opts, read when the line runs for the first time: .name, .numerics, .dynamic, .autocast, .passes, ...; what is about bodies and arguments
 * is not used. Returns the function that stands for the line, for tj_explain(), tj_dump() and tj_fn_stats(); it is freed with c, or when 64
 * other lines were used since. NULL on error. Not in a body, and only one at a time. tj_trace_end() ends it in any case; on failure all of
 * keep[] are poison, and cells are what they were. A trace that was left (by longjmp, say) is dropped, with TJ_ERR_BODY, when its line
 * begins again, and by tj_close(). The function is not for tj_fn_free(). */
TJ_API tj_fn *tj_trace_begin_at(const char *site, tj_ctx *c, const tj_compile_opts *opts);
TJ_API tj_status tj_trace_end_at(const char *site, tj_ctx *c, tj_tensor **keep, int n);
#define tj_trace_begin(c, opts) tj_trace_begin_at(TJ_SITE, c, opts)
#define tj_trace_end(c, keep, n) tj_trace_end_at(TJ_SITE, c, keep, n)

/* ---- control flow in the graph ------------------------------------------------------------------- */

/* A C `if` or loop on a value (tj_truth) is a boundary; these ops stay in one plan. Their callbacks are bodies: they get
 * placeholders in `in` and set `out`. A callback runs once per call of the op, whatever the number of turns, and its ops are
 * traced and guarded like all others. It may use any tensor and contain these ops, but must not read a value (tj_truth,
 * tj_item, tj_data), assign a cell, retain a tensor or draw random numbers. The ops work outside of compiled functions, too. On
 * failure the context has the error, its status is returned, and the results are poison. */

/* out[] are the results of then_ when pred is true, else those of else_; only these are computed. pred: one element of any
 * dtype. Both callbacks get `in` and set nout tensors of equal dtypes and shapes. A number among them becomes f32 or i64. */
TJ_API tj_status tj_cond_at(const char *site, tj_tensor **out, int nout, tj_tensor *pred, tj_body *then_, tj_body *else_, tj_list in,
                            void *self);

/* while (cond(carry)) carry = body(carry): init is the first list of carries, out[] the last. cond sets out[0], one element. body
 * sets as many tensors as init has, each of its carry's dtype and shape. A number in init becomes f32 or i64, 0-d; tj_cast() gives
 * it another dtype. */
typedef struct tj_while_opts {
	size_t size;
	int64_t max_turns;     /* it is an error when cond is still true after this many turns; 0: no limit. Gradients need a limit */
} tj_while_opts;
TJ_API tj_status tj_while_at(const char *site, tj_tensor **out, tj_body *cond, tj_body *body, tj_list init, void *self,
                             const tj_while_opts *opts);

/* Runs body for each slice of xs along axis 0. body gets the carries, then the slices; it sets the new carries, then one slice
 * of each of ys. carry[] are the last carries; ys[0..nys-1] are the slices, stacked along a new axis 0. There may be 0 turns. */
typedef struct tj_scan_opts {
	size_t size;
	int64_t length;        /* number of turns when xs is TJ_NONE; else 0 or the size of axis 0 of xs */
	bool reverse;          /* from the last slice to the first; ys stay in the order of xs */
} tj_scan_opts;
TJ_API tj_status tj_scan_at(const char *site, tj_tensor **carry, tj_tensor **ys, int nys, tj_body *body, tj_list init, tj_list xs,
                            void *self, const tj_scan_opts *opts);
#define tj_cond(out, nout, pred, then_, else_, in, self) tj_cond_at(TJ_SITE, out, nout, pred, then_, else_, in, self)
#define tj_while(out, cond, body, init, self, opts) tj_while_at(TJ_SITE, out, cond, body, init, self, opts)
#define tj_scan(carry, ys, nys, body, init, xs, self, opts) tj_scan_at(TJ_SITE, carry, ys, nys, body, init, xs, self, opts)

/* ---- gradients ------------------------------------------------------------------------------------ */

/* grad[i] is the gradient of y by wrt[i]: a tensor of its dtype, shape and device. y: a float of one element, or .cotangent is set. wrt:
 * floats that the body computed, arguments, parameters. The gradients are ordinary values of the call: they can be read, assigned,
 * and have gradients of their own. Each op has the rule that docs/OPS.md names; at ties, at zeros and for NaN they are PyTorch's, with a
 * few exceptions that are listed there.
 *
 * Each tensor of wrt is itself: another one that was computed in the same way has a gradient of its own. An argument of the outermost call
 * is a tensor of its own, even if the caller passed one tensor twice; but a cell is that cell. So are the arguments of callbacks of
 * tj_cond(), tj_while() and tj_scan(), those of tj_vmap() that have examples, and what a backward gets: by them a gradient is the partial
 * derivative. Nested calls, tj_checkpoint() and a forward of tj_custom_grad() get the tensors themselves: where in[1] was computed from
 * in[0], the gradient by in[0] there includes the way through in[1]. A cell that was assigned is the tensor that was assigned to it;
 * gradients pass from one to the other. Results of tj_unique() have no gradient, those of tj_masked_select() have one. A fault of an op
 * whose value nothing uses, not even the gradient, is not reported.
 *
 * Only in the body of a compiled function, between tj_trace_begin() and tj_trace_end(), and in callbacks. Between wrt and y C may have read
 * values, branched and looped: each way through the body has a plan of its own. But values of scopes that were popped are gone, and a cell
 * of wrt must not have been assigned after y was computed from it: the call fails and names the line. Gradients pass through tj_cond(),
 * tj_scan() and, if it has .max_turns, tj_while(); without, it is an error. On the way back these compute their values again. But loops
 * keep the carries of all turns in memory, and what products and convolutions computed in the body; a body that is a tj_checkpoint()
 * computes these again, too. A while has room for those of .max_turns turns, but only turns that run touch it, and only they are walked
 * back. On failure the context has the error, its status is returned, and all grad[i] are poison. A value that y does not depend on is
 * found when the call runs: then the call fails.
 *
 * In a callback of tj_cond(), tj_while() or tj_scan() y depends on what the callback was given and has computed, in this turn. A tensor of
 * wrt from outside of it must not have another way to y, as a carry or another value from outside would be: then the call fails. */
typedef enum tj_unused { TJ_UNUSED_ERROR, TJ_UNUSED_ZEROS } tj_unused;
typedef struct tj_grad_opts {
	size_t size;
	tj_tensor *cotangent;  /* of y's dtype and shape: the gradient of some scalar by y. NULL: 1 */
	tj_unused unused;      /* of a tensor that y does not depend on: an error, or zeros */
	tj_list add_to;        /* one tensor for each gradient, which is added to it; NULL: none */
} tj_grad_opts;
TJ_API tj_status tj_grad_at(const char *site, tj_tensor **grad, tj_tensor *y, tj_list wrt, const tj_grad_opts *opts);
#define tj_grad(grad, y, wrt, opts) tj_grad_at(TJ_SITE, grad, y, wrt, opts)

/* The derivative of y along tangents of wrt (the Jacobian of y by wrt, times the tangents), of y's dtype and shape. tangents: for each
 * tensor of wrt one of its dtype and shape. It takes a few times as long as computing y, whatever the number of elements; tj_grad() is for
 * few elements of y and many of wrt, this is for the reverse. What is said of tj_grad() holds here, too. After an error it is poison. */
TJ_API tj_tensor *tj_jvp_at(const char *site, tj_tensor *y, tj_list wrt, tj_list tangents, tj_unused unused);
#define tj_jvp(y, wrt, tangents, unused) tj_jvp_at(TJ_SITE, y, wrt, tangents, unused)

/* out[] = forward(in), with a gradient of the user's. backward gets in, then out, then the gradients by out, and sets one for each tensor
 * of in, of its shape (of an integer anything of its type; another float is cast to its dtype). What forward uses beside in counts as
 * constant. backward is traced once, whether a gradient is asked or not; its ops have gradients as usual, so higher orders and tj_jvp()
 * follow from it. in: tensors, no numbers. In backward each is a tensor of its own, so tj_grad() there gives partial derivatives, also
 * where one of in was computed from another one, or is passed twice. Not in backward; in all other callbacks it may be used. In forward
 * it is for gradients that are asked for there: any other takes backward. Outside of compiled functions it is forward(in). */
TJ_API tj_status tj_custom_grad_at(const char *site, tj_tensor **out, int nout, tj_body *forward, tj_body *backward, tj_list in,
                                   void *self);
#define tj_custom_grad(out, nout, forward, backward, in, self) tj_custom_grad_at(TJ_SITE, out, nout, forward, backward, in, self)
/* x, whose gradient goes through hook on its way back: in[0] is the sum of what has come from x's users, in[1] x; out[0] is what goes on.
 * Outside of compiled functions it is x itself. Where loops, branches and checkpoints compute x once more for a gradient of a gradient, the
 * hook also gets what comes through that value, by itself: a hook that is not linear, such as a clip, then sees two sums instead of one. */
TJ_API tj_tensor *tj_grad_hook_at(const char *site, tj_tensor *x, tj_body *hook, void *self);
#define tj_grad_hook(x, hook, self) tj_grad_hook_at(TJ_SITE, x, hook, self)
/* x, under a name that lasts until the call ends, so that code elsewhere, as a layer's, need not know who looks at its gradients.
 * .grad_hooks of the function that is called hook it: those whose name is equal, or equal with any characters for each `*`, in their order.
 * (In nested calls these are the outermost function's, between tj_trace_begin() and tj_trace_end() those of its opts.) Without a hook it is
 * x itself. tj_grad_named() is the last value with exactly this name, to be asked for: tj_grad(&g, loss,
 * TJ_LIST(tj_grad_named("block1.out")), NULL). What a callback computes, as of tj_cond() or tj_checkpoint(), does not exist behind it, so
 * there it is an error: return it in out[] of the callback. */
TJ_API tj_tensor *tj_grad_name_at(const char *site, tj_tensor *x, const char *name);
TJ_API tj_tensor *tj_grad_named_at(const char *site, const char *name);
#define tj_grad_name(x, name) tj_grad_name_at(TJ_SITE, x, name)
#define tj_grad_named(name) tj_grad_named_at(TJ_SITE, name)
/* out[] = body(in), but a gradient keeps nothing of what body computed on the way: it computes it once more, from in and whatever else
 * body uses, when it is needed. So a network takes the memory of its largest part and of the values between the parts, for up to a third
 * more time. The results have the same bits; the parts of a gradient are added in another order, so gradients agree up to rounding. body
 * is traced once; checkpoints may be nested, and what holds for gradients holds inside, too. Random numbers are those of the first time.
 * In the body of a loop, see tj_grad(): with a checkpoint in it, a loop keeps its carries only. For tj_jvp(), and outside of compiled
 * functions, it is body(in). On failure the context has the error, its status is returned, and the results are poison. */
TJ_API tj_status tj_checkpoint_at(const char *site, tj_tensor **out, int nout, tj_body *body, tj_list in, void *self);
#define tj_checkpoint(out, nout, body, in, self) tj_checkpoint_at(TJ_SITE, out, nout, body, in, self)

/* ---- one example, a batch of them ---- */

/* Runs body for all examples at once. body is written for one: it gets operand i without the axis that counts the examples, and sets
 * out[]; out[i] has all results, along a new axis 0. Each example has the bits that it would have alone. body may use any other tensor,
 * which is the same for all examples, and may call compiled functions, this function, tj_custom_grad(), tj_checkpoint(), and tj_grad() and
 * tj_jvp() also for values that were computed before: so Jacobians, Hessians and the gradients of single examples are made. What callbacks
 * of tj_scan() must not do, it must not do either.
 *
 * A tj_cond() whose predicate differs between examples computes both of its sides, and a fault in either is an error. A tj_while() runs
 * until all examples have ended; one that has ended is computed on and its new values are dropped, but a fault among them is an error, and
 * where their derivative is infinite or NaN, gradients are NaN. At least one operand has examples, and all have as many; there may be 0.
 * The axis takes one of TJ_MAX_RANK. On failure the context has the error, its status is returned, and the results are poison. */
#define TJ_UNMAPPED INT32_MIN
typedef struct tj_vmap_opts {
	size_t size;
	const int *in_axes;    /* by operand: the axis that counts the examples, from the end if negative; TJ_UNMAPPED: body gets all of it. NULL:
	                        * 0 for all */
	const int *out_axes;   /* by result: where that axis goes. NULL: 0 for all */
} tj_vmap_opts;
TJ_API tj_status tj_vmap_at(const char *site, tj_tensor **out, int nout, tj_body *body, tj_list in, void *self, const tj_vmap_opts *opts);
#define tj_vmap(out, nout, body, in, self, opts) tj_vmap_at(TJ_SITE, out, nout, body, in, self, opts)

/* ---- functions of the program in a graph ------------------------------------------------------------ */

/* A C function as an op: tj_host_call(dtype, shape, function, list) is a tensor of this dtype and shape, which the function fills when the
 * plan runs. All host calls of a call run in the order of their lines, each exactly once, whatever else is merged, dropped or reordered,
 * and whether the result is used or not: so a function may send, print or count. Between two of them other work may run. An error of the
 * function fails the call; what it has done outside stays done.
 *
 *   static tj_status sum_of_all(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why) { ... }
 *   int64_t f = tj_host_function(c, "sum_of_all", sum_of_all, TJ_OPTS(tj_host_opts, .env = env));
 *   tj_tensor *y = tj_host_call(TJ_F32, TJ_SHAPE(8), f, TJ_LIST(x));
 *
 * Not in callbacks (of tj_cond(), tj_scan(), tj_vmap(), tj_checkpoint(), ...), where it would run any number of times; not in exported
 * functions. On a GPU operands come to the host for it, and the result goes back. */
typedef struct tj_host_value {
	tj_dtype dtype;
	int rank;
	const int64_t *dim;
	void *data;          /* row-major; in[]: not to be written */
	size_t bytes;
} tj_host_value;
enum { TJ_HOST_WHY = 256 }; /* bytes of an error's message */
/* Not TJ_OK: an error, whose message is `why`; empty: that of the status. It must not call tjit with the context that runs, nor leave by a
 * longjmp(). Calls of several contexts may run at the same time. */
typedef tj_status tj_host_fn(void *env, int nin, const tj_host_value *in, const tj_host_value *out, char *why);
typedef struct tj_host_opts {
	size_t size;
	void *env;
	void (*free)(void *env); /* called by the last tj_close(); NULL: nothing is to do */
	bool early;              /* it starts something and returns: it runs as soon as its operands are there, before work of earlier lines */
	int64_t gradient;        /* a function that computes the gradient by the first operand, of its dtype and shape: it gets the gradient by
	                          * the result, then the other operands. Its calls come in an order that follows from the graph. 0: none */
} tj_host_opts;
/* The number of a function, for tj_host_call() with every context of the engine until the last tj_close(). 0 on error, as when it has no
 * name or .gradient is no function of the engine; then .free is not called. name: that of the op in errors. Not in a body. */
TJ_API int64_t tj_host_function_at(const char *site, tj_ctx *c, const char *name, tj_host_fn *call, const tj_host_opts *opts);
#define tj_host_function(c, name, call, opts) tj_host_function_at(TJ_SITE, c, name, call, opts)

/* ---- loss scaling --------------------------------------------------------------------------------- */

/* Small gradients become 0 in f16. So the loss is multiplied by `scale` before its gradients are computed, and the gradients are divided by
 * it. If one of them is not finite, the step is left out and the scale becomes smaller; after `interval` good steps in a row it grows. As
 * PyTorch's GradScaler, but all of it is ops of the step: the host reads nothing. bf16 has the range of f32 and needs none of this.
 *
 *   tj_grad(g, tj_scale_loss(&s, loss), TJ_LIST(w), NULL);
 *   tj_tensor *finite = tj_unscale(&s, g, 1);
 *   tj_assign(w, tj_where(finite, tj_sub(w, tj_mul(g[0], rate)), w));
 *   tj_scaler_update(&s, finite);
 *
 * In direct mode .state lists &s.scale and &s.good. */
typedef struct tj_scaler {
	tj_tensor *scale;  /* cell f32[] */
	tj_tensor *good;   /* cell i64[]: good steps since the scale changed or a step was left out */
	double growth, backoff;
	int64_t interval;
} tj_scaler;
typedef struct tj_scaler_opts { /* 0: the default */
	size_t size;
	double init;       /* the first scale; positive, 65536 */
	double growth;     /* the scale is multiplied by it after `interval` good steps; 1 or more, 2 */
	double backoff;    /* the scale is multiplied by it when a step is left out; above 0, below 1, 0.5 */
	int64_t interval;  /* 2000 */
} tj_scaler_opts;
/* Makes both cells on the device of the context: tj_release() them, or the last tj_close() does. opts may be NULL. Not in a body. On error
 * both are poison. */
TJ_API tj_status tj_scaler_init_at(const char *site, tj_ctx *c, tj_scaler *s, const tj_scaler_opts *opts);
/* loss * scale; a loss of f16 or bf16 becomes f32 */
TJ_API tj_tensor *tj_scale_loss_at(const char *site, const tj_scaler *s, tj_tensor *loss);
/* Replaces each of n gradients by itself / scale, of its shape; f16 and bf16 become f32. Returns bool[]: all their elements are finite. On
 * error poison, and the gradients are what they were. */
TJ_API tj_tensor *tj_unscale_at(const char *site, const tj_scaler *s, tj_tensor **grad, int n);
/* assigns scale and good; once a step. finite: one element */
TJ_API tj_status tj_scaler_update_at(const char *site, const tj_scaler *s, tj_tensor *finite);
#define tj_scaler_init(c, s, opts) tj_scaler_init_at(TJ_SITE, c, s, opts)
#define tj_scale_loss(s, loss) tj_scale_loss_at(TJ_SITE, s, loss)
#define tj_unscale(s, grad, n) tj_unscale_at(TJ_SITE, s, grad, n)
#define tj_scaler_update(s, finite) tj_scaler_update_at(TJ_SITE, s, finite)

/* ---- looking inside ------------------------------------------------------------------------------ */

typedef struct tj_stats {
	size_t size;
	uint64_t calls, hits, recordings, side_exits, boundaries, recomputed;
	uint64_t failures;       /* without those that a GPU finds after the call has returned */
	uint64_t entries, segments, plans, kernels, library_calls, eval_steps, evictions;
	uint64_t code_bytes;
	double trace_ms, lower_ms, codegen_ms; /* total time: of recordings; from these to plans, gradients and passes with it; of the code
	                                        * generator */
	uint64_t direct, audits; /* calls that skipped the body; direct calls that ran it to compare */
	uint64_t sizes;          /* keys that differ from their entry in sizes alone */
	uint64_t compiles, compiled, shared; /* runs of the code generator; kernels that it made code for; kernels that use code made before. The
	                                      * sum of .compiled, .shared and .loaded is .kernels: code for other sizes that is made at the same
	                                      * time counts when a kernel uses it */
	/* How calls found their trace. The sum of these and of the calls that .shapes refused is .calls. A call with an invalid
	 * list of arguments (NULL, too few) is not counted. */
	uint64_t hits_last;      /* same key as the context's call before */
	uint64_t hits_key;       /* a key that the context had met */
	uint64_t hits_table;     /* a key that only another context had met */
	uint64_t signatures;     /* a new signature */
	uint64_t nested;         /* calls inside a body, traced through */
	/* Measured under TJ_TIME_GUARDS=1, else 0. */
	uint64_t checks, events; /* keys compared with the last one; events matched in a body */
	double check_ns, event_ns; /* mean time of a check and of an event; an event includes the body's own code */
	uint64_t replays;        /* rows of kernels that a GPU ran as one CUDA graph, in the plans that exist now */
	uint64_t moved_bytes;    /* bytes that the GPU's kernels of these plans read from its memory and write to it, in one run of each */
	/* Memory. Of the plan with the most temporaries (values between kernels; not arguments, results and cells) among those that exist now, at
	 * the step at which most of them are alive: */
	uint64_t peak_bytes;     /* their bytes, on all devices */
	uint64_t kept_bytes, kept_values; /* those that the step does not use itself: they are kept for later ones, as forward keeps values for
	                                   * backward */
	uint64_t computed_again; /* values of these plans that are not kept: steps that read them late compute them again, with the same bits */
	uint64_t bytes;          /* of all traces and plans that are kept: what .max_bytes bounds */
	uint64_t replayed;       /* direct mode: calls at new sizes that did not run the body, see .shapes */
	uint64_t loaded;         /* kernels whose code was in the disk cache */
} tj_stats;

/* A profile: where the time goes, by kernel, line, op or function, how far each is from what the machine can do, and what the library does
 * besides (docs/PROFILING.md).
 *
 *   tj_profile_begin(c, NULL);
 *   ...                                                    calls, of c and of all its clones, in any thread
 *   tj_profile_end(c, TJ_OPTS(tj_profile_view, .by = TJ_BY_LINE, .top = 20, .out = stdout));
 *
 * TJ_PROFILE=file of the environment does it for a whole process: the tables by line and by kernel, when the process ends; in a file whose
 * name ends in .json the timeline; TJ_PROFILE=table.txt,trace.json both. A profile of the program's own replaces that of the environment
 * in its engine, from then on. A child of fork() begins with empty counts, and without a timeline.
 *
 * A kernel of a GPU is measured by events, so calls wait for each. Kernels that share a region of the team share its time as its threads
 * did. Calls that run already when a profile begins are not in it. */
typedef struct tj_profile_opts {
	size_t size;
	const char *timeline;    /* a file for Perfetto or chrome://tracing, in Chrome's trace format: threads, contexts, queues of GPUs, phases of
	                          * compiles, memory. It is written while the program runs; a process that is killed leaves a valid beginning */
	int64_t timeline_bytes;  /* most bytes of it in an hour; half of them may come at once. Beyond that, spans are left out for a while.
	                          * 0: 1 GiB */
	bool no_limits;          /* do not measure what the machine can do: a tenth of a second in the first profile of the process */
} tj_profile_opts;
typedef enum tj_profile_by { TJ_BY_KERNEL, TJ_BY_LINE, TJ_BY_OP, TJ_BY_FUNCTION } tj_profile_by;
/* greatest first, NAME: in the order of letters. LOSS: the time beyond the machine's limit */
typedef enum tj_profile_sort {
	TJ_SORT_SELF, TJ_SORT_TOTAL, TJ_SORT_CALLS, TJ_SORT_MEAN, TJ_SORT_BYTES, TJ_SORT_FLOPS, TJ_SORT_LOSS, TJ_SORT_NAME
} tj_profile_sort;
/* STEP: what .by names. HOST: work of the library; memory is that of a segment's temporaries */
typedef enum tj_profile_kind { TJ_ROW_STEP, TJ_ROW_HOST, TJ_ROW_MEMORY } tj_profile_kind;
typedef struct tj_profile_row {
	size_t size;
	tj_profile_kind kind;
	tj_device device;
	const char *name;        /* "tj_net_k0", "net.c:6", "matmul", "net"; HOST: "tracing"; MEMORY: the function */
	const char *function;    /* KERNEL: of this function; else "" */
	const char *where;       /* KERNEL: "matmul add at net.c:6, exp at net.c:7"; LINE: "matmul add"; MEMORY: the line that ends the segments */
	uint64_t calls;          /* runs of the steps; FUNCTION: calls of it */
	double self_ms, total_ms; /* self: without steps inside of it (control flow). LINE, OP: the part of each kernel's time that its work for
	                          * the line or op is likely to take. FUNCTION: self is the time of its steps, total that of its calls */
	double least_us, mean_us, most_us; /* of a call; LINE, OP: only the mean, of self */
	double share;            /* of self_ms of all STEP rows; 0 to 1 */
	double read_bytes, written_bytes; /* of all calls: elements of operands and results, each once a call */
	double flops;            /* of all calls: additions, multiplications, roots and the like; a multiply-add is two */
	double limit;            /* what these bytes and flops take on this machine at least, as a part of self_ms: 1 is as fast as it can be,
	                          * more than 1 if instructions for narrow dtypes help. 0: not known */
	uint64_t memory;         /* MEMORY: bytes */
} tj_profile_row;
typedef struct tj_profile_view {
	size_t size;
	tj_profile_by by;
	tj_profile_sort sort;
	int top;                 /* at most so many STEP rows; 0: all */
	bool rows_only;          /* STEP rows alone */
	FILE *out;               /* gets a table as text; NULL: none */
	const char *path;        /* a file that gets it; NULL: none */
	bool (*visit)(void *self, const tj_profile_row *row); /* gets each row until it returns false: STEP, then HOST, then MEMORY. What a row
	                          * points to is valid until visit returns. It may not use the context. NULL: none */
	void *self;
} tj_profile_view;
/* For all contexts of the engine of c, from their next calls on. One at a time; not in a body. Another thread may end it. */
TJ_API tj_status tj_profile_begin_at(const char *site, tj_ctx *c, const tj_profile_opts *opts);
/* Ends it, then shows it, if view is not NULL. It can be shown again until the next one begins. */
TJ_API tj_status tj_profile_end_at(const char *site, tj_ctx *c, const tj_profile_view *view);
/* The running profile so far, or the last one. view NULL: nothing is shown; the result tells whether there is one. */
TJ_API tj_status tj_profile_show_at(const char *site, tj_ctx *c, const tj_profile_view *view);
#define tj_profile_begin(c, opts) tj_profile_begin_at(TJ_SITE, c, opts)
#define tj_profile_end(c, view) tj_profile_end_at(TJ_SITE, c, view)
#define tj_profile_show(c, view) tj_profile_show_at(TJ_SITE, c, view)

/* GRAPH, TABLE: the traced graph; DOT: the same for Graphviz. FUSION, FUSION_DOT: which ops became one kernel. KERNELS: kernel IR;
 * CODE: LLVM text, for a GPU CUDA C; ASSEMBLY: machine code of the CPU's kernels. PLAN: the steps. TRACE: the events that calls are matched
 * against. SYMBOLS: the graph of each signature; sizes are expressions that hold for all sizes met so far. Only tj_dump() has it. */
typedef enum tj_dump_what {
	TJ_DUMP_GRAPH, TJ_DUMP_TABLE, TJ_DUMP_KERNELS, TJ_DUMP_CODE, TJ_DUMP_PLAN, TJ_DUMP_TRACE, TJ_DUMP_DOT, TJ_DUMP_FUSION,
	TJ_DUMP_FUSION_DOT, TJ_DUMP_ASSEMBLY, TJ_DUMP_SYMBOLS
} tj_dump_what;

TJ_API void tj_graph_print(tj_graph *g, FILE *out, tj_dump_what what); /* TJ_DUMP_TABLE, TJ_DUMP_GRAPH, TJ_DUMP_DOT */
TJ_API void tj_explain(tj_fn *f, FILE *out);                   /* traces, guards, hits, recompiles and their reasons */
TJ_API void tj_dump(tj_fn *f, tj_dump_what what, FILE *out);   /* every plan of f, in the order of compilation */
/* out->size set by the caller: so many bytes are filled; 0: all of this header's struct */
TJ_API void tj_fn_stats(tj_fn *f, tj_stats *out);
TJ_API tj_status tj_log_topics(tj_ctx *c, const char *topics); /* replaces the topics; "help" lists them */
TJ_API const char *const *tj_backends(void);                   /* names, NULL-terminated; a missing one has its reason: "llvm: ..." */

/* Writes what the engine of c knows of its functions as a file of JSON (docs/REPORT.md): traces with their guards, why calls were traced
 * again, graphs with the kernels that compute them, texts of kernels and their code, memory, times, settings and versions.
 * `tj report FILE -o run.html` makes a page of it. For its texts each kernel goes through LLVM once more: 2 to 5 ms
 * each. Not in a body. Other threads may call functions meanwhile, but not free any. TJ_ERR_IO: the file cannot be written. */
typedef struct tj_report_opts {
	size_t size;
	uint64_t text_bytes;   /* room for the texts of kernels, their code and its assembly, all together; 0: 8 MiB. What has no room is left
	                        * out, and the report says so */
	bool no_code;          /* nothing is compiled for the report: it has the kernels' own text, but neither code nor assembly */
} tj_report_opts;
TJ_API tj_status tj_report_at(const char *site, tj_ctx *c, const char *path, const tj_report_opts *opts); /* opts may be NULL */
#define tj_report(c, path, opts) tj_report_at(TJ_SITE, c, path, opts)

/* Export: a function becomes a file that another program calls, without its body, without tracing it and without a compiler
 * (docs/EXPORT.md).
 *
 *   tj_export(f, "step.tjx", NULL);                        // f was called, so its sizes are known; nothing is computed
 *   tj_fn *g = tj_import(c, "step.tjx", NULL);             // elsewhere: called like any other function, with the same bits
 *
 * The body runs once for each combination of the sizes that .shapes names (up to .most), without computing anything; what it asks for is
 * written down with expressions over these sizes. It must not look at values (tj_truth(), tj_item(), tj_data()), and all that it reads must
 * be an argument, declared in .state or .freeze, retained, or a parameter. Anything else is an error that names the line. */
typedef struct tj_export_opts {
	size_t size;
	tj_list inputs;          /* tensors as a call gets them: their dtypes and shapes count. NULL: those of the last signature of f;
	                          * if it was never called, those of .shapes, which must say them all */
	const tj_scalar *scalars; /* as a call gets them; a TJ_I() keeps its value. NULL: none */
	const char *const *names; /* of .state, then of .freeze, ended by NULL. NULL: "state0", "state1" ... What else the body reads is
	                           * "captured0", ... */
	const char *cpus;        /* "x86-64-v3,x86-64-v4,native": for which CPUs code is in the file. NULL: the first two; "": none */
	uint32_t most;           /* most combinations of sizes to try; 0: 1024. Calls at others are refused */
} tj_export_opts;
TJ_API tj_status tj_export_at(const char *site, tj_fn *f, const char *path, const tj_export_opts *opts);
typedef struct tj_import_opts {
	size_t size;
	bool recompile; /* if the file has no code for this CPU, or of another build: compile, or let the evaluator run. Else that is
	                 * an error, with what the file has */
	const char *name;        /* of the function; NULL: as in the file */
} tj_import_opts;
/* The code in the file runs in this process: import only what you trust. NULL on error. */
TJ_API tj_fn *tj_import_at(const char *site, tj_ctx *c, const char *path, const tj_import_opts *opts);
/* Copies what it needs of bytes. */
TJ_API tj_fn *tj_import_memory_at(const char *site, tj_ctx *c, const void *bytes, size_t n, const tj_import_opts *opts);
/* The i-th variable of an imported function: its name, and its cell, which tj_read() reads and tj_write() writes. weight: plans may have
 * copies of its content; a write makes new ones. Both are valid until f is freed. False: there are fewer. */
TJ_API bool tj_fn_variable(tj_fn *f, int i, const char **name, tj_tensor **cell, bool *weight);
/* What an imported function takes and gives. type: "f32[B,784]", or "int" or "float" for a number; it lives as long as f. False: there are
 * fewer arguments. */
TJ_API bool tj_fn_argument(tj_fn *f, int i, const char **type);
/* The i-th scalar of its tj_call_ex(): TJ_SCALAR_F takes any value, TJ_SCALAR_I only .i. False: there are fewer. */
TJ_API bool tj_fn_scalar(tj_fn *f, int i, tj_scalar *scalar);
/* Number of its results; -1: f was not imported. What these four functions tell never changes, so any thread may ask until f is freed. */
TJ_API int tj_fn_results(tj_fn *f);
/* What is in an exported function. Its file is read and checked, and nothing of it is run. visit gets these parts in this order, until it
 * returns false; what it gets is valid until then:
 *   "file"      name: the version of tjit that wrote it; text: its build; count: 1 if this library runs code of that build; bytes: of all
 *   "function"  name; count: its results
 *   "size"      name; text: "1..64", or "4..64; B%4==0"
 *   "argument"  name: its number; text as by tj_fn_argument()
 *   "scalar"    name: its number; text: "float", or "int 3", the only value that it takes
 *   "result"    name: its number; text as of an argument; "_": a size that the file does not know. None: the file is of version 1.0
 *   "state", "weight": a variable: name; text: "f32[784,256]"; bytes
 *   "cpu"       text: "512 bits +avx512bf16", what its kernels need; count, bytes: of these
 *   "program"   text: the lines of docs/EXPORT.md; count: its events */
typedef struct tj_export_part {
	const char *kind, *name, *text; /* never NULL */
	uint64_t count, bytes;
} tj_export_part;
typedef bool tj_export_visit(void *env, const tj_export_part *part);
TJ_API tj_status tj_export_walk_at(const char *site, tj_ctx *c, const char *path, tj_export_visit *visit, void *env);
#define tj_export_walk(c, path, visit, env) tj_export_walk_at(TJ_SITE, c, path, visit, env)
/* Makes an object file and a C header of an exported function, for programs without libtj: they link the object and libtjrt.a
 * (tjrt.h, docs/EXPORT.md). All plans of the file must be kernels; what a routine of the library computes, as a sort, is refused. */
typedef struct tj_object_opts {
	size_t size;
	const char *name;        /* prefix of all names in the object and the header; a name in C */
	const char *header;      /* path of the header; NULL: none */
} tj_object_opts;
TJ_API tj_status tj_export_object_at(const char *site, tj_ctx *c, const char *path /* of the exported function */, const char *object,
                                     const tj_object_opts *opts);
#define tj_export_object(c, path, object, opts) tj_export_object_at(TJ_SITE, c, path, object, opts)
#define tj_export(f, path, opts) tj_export_at(TJ_SITE, f, path, opts)
#define tj_import(c, path, opts) tj_import_at(TJ_SITE, c, path, opts)
#define tj_import_memory(c, bytes, n, opts) tj_import_memory_at(TJ_SITE, c, bytes, n, opts)

/* The graph of a whole function, for programs that write it in another format. The body is run as tj_export() runs it, on the same
 * conditions, and nothing is computed. visit() gets a graph, with gradients and batches expanded, as nodes of passes (above): numbers that
 * the body names are constants, and composites for which .keeps is false are replaced by their parts. Its outputs are the results, then the
 * new contents of variables. If .shapes names sizes, visit() is called with the graphs at several combinations of them: at first those of
 * .inputs or of the last call, else small ones, then others near them, so that each number that depends on sizes shows how. It may call
 * what it likes; changes of a graph have no effect. The graph and all that it has are valid until visit() returns. */
typedef struct tj_graph_opts {
	size_t size;
	tj_list inputs;          /* as in tj_export_opts. NULL: those of the last signature, or of the file, or of .shapes if it says all */
	const tj_scalar *scalars;
	bool (*keeps)(void *self, const tj_node *n); /* a composite op. NULL: all stay */
	void *self;              /* of .keeps and visit() */
	bool static_sizes;       /* only the first graph, at the sizes of .inputs: sizes that .shapes names do not vary */
} tj_graph_opts;
/* What a graph of tj_graph_of() says of its function. */
typedef struct tj_graph_value { /* an argument or a variable */
	const char *name;        /* in .shapes, or of a variable of an imported function; "": none */
	tj_dtype dtype;
	int rank;                /* -1: an argument that is a number; dtype TJ_I64 or TJ_F64 */
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows */
	int vary[TJ_MAX_RANK];   /* which size that varies it is; -1: none */
	tj_tensor *t;            /* of a variable: tj_read() reads it */
	bool weight;             /* it is in .freeze, or no parameter, and not assigned */
} tj_graph_value;
typedef struct tj_graph_size { const char *name; int64_t value, least, most; } tj_graph_size; /* value: in this graph */
TJ_API const char *tj_graph_name(const tj_graph *g);         /* of the function; "": it is the graph of a pass */
TJ_API bool tj_graph_argument(const tj_graph *g, int i, tj_graph_value *out);  /* false: there are fewer, as in the next two */
/* those of .state, then of .freeze, then what else the body reads */
TJ_API bool tj_graph_variable(const tj_graph *g, int i, tj_graph_value *out);
TJ_API bool tj_graph_size_of(const tj_graph *g, int i, tj_graph_size *out);
TJ_API int tj_graph_assigns(const tj_graph *g, int output); /* the variable whose new content the output is; -1: a result */
TJ_API bool tj_graph_last(const tj_graph *g);                /* no visit with another graph follows */
typedef tj_status tj_graph_visit(void *self, tj_graph *g);   /* an error ends tj_graph_of(), which returns it */
TJ_API tj_status tj_graph_of_at(const char *site, tj_fn *f, tj_graph_visit *visit, const tj_graph_opts *opts);
#define tj_graph_of(f, visit, opts) tj_graph_of_at(TJ_SITE, f, visit, opts)

/* The disk cache: compiled kernels, which later processes find without a compiler (docs/CACHE.md). */
typedef struct tj_cache_info {
	size_t size;             /* set by the caller: so many bytes are filled */
	const char *folder;      /* NULL: the cache is off */
	const char *why;         /* why it is off, or why nothing is written; NULL: it is used */
	bool writes;
	uint64_t hits, misses, stored, failed; /* of the contexts of this engine: kernels found, not found, written, that could not be written */
	uint64_t read_bytes, written_bytes, most_bytes; /* most_bytes: what all entries may have; TJ_CACHE_MB sets it */
} tj_cache_info;
TJ_API tj_status tj_cache_info_at(const char *site, tj_ctx *c, tj_cache_info *out);
/* The i-th reason for a miss: its name, what it means, how often it came. False: there are fewer reasons. */
TJ_API bool tj_cache_miss(tj_ctx *c, int i, const char **name, const char **why, uint64_t *n);
typedef struct tj_cache_entry {
	const char *path, *kind; /* kind NULL: not known, since the file was not read or is damaged */
	const char *about;       /* for what machine it is, and what it computes: text of several lines; NULL as kind */
	const char *miss, *why;  /* why no process of this build can use it; NULL: it can, or it was not read */
	uint64_t bytes;
	int64_t used;            /* when it was read or written last, in seconds since 1970; exact to an hour */
} tj_cache_entry;
/* Visits all entries, until visit returns false; verify: reads and checks them. What visit gets is valid until it returns; it must not use
 * c. */
typedef bool tj_cache_visit(void *env, const tj_cache_entry *e);
TJ_API tj_status tj_cache_walk_at(const char *site, tj_ctx *c, bool verify, tj_cache_visit *visit, void *env);
TJ_API tj_status tj_cache_clear_at(const char *site, tj_ctx *c, uint64_t *files, uint64_t *bytes); /* removes all entries; says how many */
#define tj_cache_info(c, out) tj_cache_info_at(TJ_SITE, c, out)
#define tj_cache_walk(c, verify, visit, env) tj_cache_walk_at(TJ_SITE, c, verify, visit, env)
#define tj_cache_clear(c, files, bytes) tj_cache_clear_at(TJ_SITE, c, files, bytes)

/* Prints counters for Prometheus, in its text exposition format 0.0.4: of the functions of the engine (calls, hits, recordings, side exits,
 * compile time, traces), of memory by device, and of the disk cache. Functions of one name and line are added up. In a thread of its own it
 * takes a clone of a context. TJ_ERR_IO: out did not take it all. */
TJ_API tj_status tj_metrics_at(const char *site, tj_ctx *c, FILE *out);
#define tj_metrics(c, out) tj_metrics_at(TJ_SITE, c, out)

/* Libraries that tjit opens by name when it needs them: LLVM, oneDNN, CUDA driver, NVRTC, cuBLASLt, LAPACK; the list ends with a name of
 * NULL. version NULL: it cannot be used, and why says the reason. Opens all of them the first time (up to some seconds). */
typedef struct tj_library { const char *name, *version, *why; } tj_library;
TJ_API const tj_library *tj_libraries(void);
/* The machine; the struct lives as long as the process, and later versions may append fields. */
typedef struct tj_machine {
	const char *cpu;          /* "AMD EPYC 9R14"; "" if the CPU does not say */
	int family, model, stepping; /* as the CPU counts them */
	const char *capability;   /* the vectors that kernels use: "AVX512" or "AVX2"; "DEFAULT": none, so the evaluator computes everything */
	int vector_bits;          /* of kernels; TJ_CPU lowers it */
	int cpus, allowed;        /* online; on which the process may run */
	double quota;             /* CPUs' worth of time that its container gives it, 1.5; 0: no limit */
	int64_t cache[3];         /* bytes of the caches of levels 1 (data), 2 and 3; 0: not known */
} tj_machine;
TJ_API const tj_machine *tj_this_machine(void);
/* Threads of the team of the process, the caller included. Before the first tj_open(): the cores that the process may use. */
TJ_API int tj_threads(void);
/* Who computes eigenvalues and singular values: name is "tjit" or "LAPACK", version that of it, and why the reason. Opens LAPACK, unless
 * the process chose "own" (tj_open_opts.linalg). name NULL: "lapack" was chosen, and it is not there. */
TJ_API tj_library tj_linalg_library(void);
/* Who computes matrix products with results of this dtype on the CPU, in functions with these numerics, under the settings of c: name is
 * "tjit" or "oneDNN" (NULL: refused, see tj_check()), version that of it (NULL: it does not say), and why the reason. Opens oneDNN only if
 * the settings prefer it; a product whose operands it does not take is copied for it. The plans of a function: tj_explain(). */
TJ_API tj_library tj_product_library_at(const char *site, tj_ctx *c, tj_dtype dtype, tj_numerics numerics);
#define tj_product_library(c, dtype, numerics) tj_product_library_at(TJ_SITE, c, dtype, numerics)

/* ---- ops ----------------------------------------------------------------------------------------- */
/* Written by ir/opdoc.c from ir/ops.def; `make gen`. Each op is a function, and a macro over it that adds the
 * caller's file:line. Shapes broadcast as in NumPy, dtypes promote as in PyTorch. An op with several results returns the
 * first; its last parameters, of type tj_tensor **, receive the others. NULL: that result is not wanted.
 *
 * The comment behind a macro, or below it, is an example, which the tests run: a call and its results, with tensors in brackets. [1, 2] is
 * i64, [1., 2.] f32, [true, false] bool, and f16[1., 2.] has the dtype in front of it. Numbers are rounded to four digits behind the
 * point. */
/* >>> ops */

/* a + b; logical or for bool; a C number is converted to the dtype of the tensors (wraps or rounds), as in all arithmetic */
TJ_API tj_tensor *tj_add(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_add_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_add(a, b) tj_add_at(TJ_SITE, a, b) /* tj_add([1, 2], [10, 20]) = [11, 22] */

/* a - b; not for bool */
TJ_API tj_tensor *tj_sub(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_sub_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_sub(a, b) tj_sub_at(TJ_SITE, a, b) /* tj_sub([5, 7], [1, 2]) = [4, 5] */

/* a * b; logical and for bool */
TJ_API tj_tensor *tj_mul(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_mul_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_mul(a, b) tj_mul_at(TJ_SITE, a, b) /* tj_mul([2, 3], [4, 5]) = [8, 15] */

/* a / b, true division: int / int is a float */
TJ_API tj_tensor *tj_div(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_div_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_div(a, b) tj_div_at(TJ_SITE, a, b) /* tj_div([1, 3], [2, 2]) = [0.5, 1.5] */

/* the floor of the exact quotient, as in Python: 1 // -inf is -1, inf // 2 is NaN; integers: MIN / -1 wraps, / 0 is an error */
TJ_API tj_tensor *tj_floor_divide(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_floor_divide_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_floor_divide(a, b) tj_floor_divide_at(TJ_SITE, a, b) /* tj_floor_divide([7, -7], [2, 2]) = [3, -4] */

/* a - floor_divide(a, b) * b; has the sign of the divisor, also when it is zero */
TJ_API tj_tensor *tj_remainder(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_remainder_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_remainder(a, b) tj_remainder_at(TJ_SITE, a, b) /* tj_remainder([7, -7], [3, 3]) = [1, 2] */

/* a / b rounded toward zero; floats: the quotient is rounded to the dtype, then its fraction is cut off */
TJ_API tj_tensor *tj_trunc_divide(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_trunc_divide_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_trunc_divide(a, b) tj_trunc_divide_at(TJ_SITE, a, b) /* tj_trunc_divide([7, -7], [2, 2]) = [3, -3] */

/* a - n * b, where n is the exact quotient a / b cut to an integer; has the sign of the dividend; exact for floats */
TJ_API tj_tensor *tj_fmod(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_fmod_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_fmod(a, b) tj_fmod_at(TJ_SITE, a, b) /* tj_fmod([7, -7], [3, 3]) = [1, -1] */

/* a to the power b; integers wrap, and negative exponents give 0, 1 or -1 */
TJ_API tj_tensor *tj_pow(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_pow_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_pow(a, b) tj_pow_at(TJ_SITE, a, b) /* tj_pow([2, 3], [10, 2]) = [1024, 9] */

/* the smaller; NaN if either is NaN; a C number beyond the range of the dtype counts as the nearest value of the dtype, inf for floats */
TJ_API tj_tensor *tj_minimum(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_minimum_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_minimum(a, b) tj_minimum_at(TJ_SITE, a, b) /* tj_minimum([1., nan], [2., 2.]) = [1., nan] */

/* the larger; NaN if either is NaN; a C number beyond the range of the dtype counts as the nearest value of the dtype, inf for floats */
TJ_API tj_tensor *tj_maximum(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_maximum_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_maximum(a, b) tj_maximum_at(TJ_SITE, a, b) /* tj_maximum([1., nan], [2., 2.]) = [2., nan] */

/* the smaller; the other one if one is NaN; C numbers count as in minimum */
TJ_API tj_tensor *tj_fmin(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_fmin_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_fmin(a, b) tj_fmin_at(TJ_SITE, a, b) /* tj_fmin([1., nan], [2., 2.]) = [1., 2.] */

/* the larger; the other one if one is NaN; C numbers count as in maximum */
TJ_API tj_tensor *tj_fmax(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_fmax_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_fmax(a, b) tj_fmax_at(TJ_SITE, a, b) /* tj_fmax([1., nan], [2., 2.]) = [2., 2.] */

/* sqrt(a^2 + b^2) without overflow; inf if either is infinite, NaN or not */
TJ_API tj_tensor *tj_hypot(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_hypot_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_hypot(a, b) tj_hypot_at(TJ_SITE, a, b) /* tj_hypot([3., 5.], [4., 12.]) = [5., 13.] */

/* |a| with the sign of b, also of a zero; a NaN counts as positive */
TJ_API tj_tensor *tj_copysign(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_copysign_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_copysign(a, b) tj_copysign_at(TJ_SITE, a, b) /* tj_copysign([3., 3.], [1., -0.]) = [3., -3.] */

/* the value next to a in the direction of b */
TJ_API tj_tensor *tj_nextafter(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_nextafter_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_nextafter(a, b) tj_nextafter_at(TJ_SITE, a, b) /* tj_nextafter([16777216., 16777216.], [inf, 0.]) = [16777218., 16777215.] */

/* 0 below 0, 1 above, b where a is 0; NaN stays, as in NumPy (PyTorch: 0) */
TJ_API tj_tensor *tj_heaviside(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_heaviside_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_heaviside(a, b) tj_heaviside_at(TJ_SITE, a, b) /* tj_heaviside([-2., 0., 2.], tj_f(0.5)) = [0., 0.5, 1.] */

/* a * 2^b, rounded once if b is whole */
TJ_API tj_tensor *tj_ldexp(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_ldexp_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_ldexp(a, b) tj_ldexp_at(TJ_SITE, a, b) /* tj_ldexp([1., 3.], [3, -1]) = [8., 1.5] */

/* a * b + c, rounded once; f16 and bf16: computed in f32, then rounded */
TJ_API tj_tensor *tj_fma(tj_tensor *a, tj_tensor *b, tj_tensor *c);
TJ_API tj_tensor *tj_fma_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c);
#define tj_fma(a, b, c) tj_fma_at(TJ_SITE, a, b, c) /* tj_fma([2., 3.], [4., 5.], tj_f(1)) = [9., 16.] */

/* -a */
TJ_API tj_tensor *tj_neg(tj_tensor *x);
TJ_API tj_tensor *tj_neg_at(const char *site, tj_tensor *x);
#define tj_neg(x) tj_neg_at(TJ_SITE, x) /* tj_neg([1, -2]) = [-1, 2] */

/* |a|; MIN wraps to itself */
TJ_API tj_tensor *tj_abs(tj_tensor *x);
TJ_API tj_tensor *tj_abs_at(const char *site, tj_tensor *x);
#define tj_abs(x) tj_abs_at(TJ_SITE, x) /* tj_abs([-3, 4]) = [3, 4] */

/* -1, 0 or 1; NaN and signed zero stay */
TJ_API tj_tensor *tj_sign(tj_tensor *x);
TJ_API tj_tensor *tj_sign_at(const char *site, tj_tensor *x);
#define tj_sign(x) tj_sign_at(TJ_SITE, x) /* tj_sign([-3., 0., 5.]) = [-1., 0., 1.] */

/* 1 / a */
TJ_API tj_tensor *tj_reciprocal(tj_tensor *x);
TJ_API tj_tensor *tj_reciprocal_at(const char *site, tj_tensor *x);
#define tj_reciprocal(x) tj_reciprocal_at(TJ_SITE, x) /* tj_reciprocal([2., 4.]) = [0.5, 0.25] */

/* a * a */
TJ_API tj_tensor *tj_square(tj_tensor *x);
TJ_API tj_tensor *tj_square_at(const char *site, tj_tensor *x);
#define tj_square(x) tj_square_at(TJ_SITE, x) /* tj_square([-3, 4]) = [9, 16] */

/* the largest integer <= a */
TJ_API tj_tensor *tj_floor(tj_tensor *x);
TJ_API tj_tensor *tj_floor_at(const char *site, tj_tensor *x);
#define tj_floor(x) tj_floor_at(TJ_SITE, x) /* tj_floor([1.5, -1.5]) = [1., -2.] */

/* the smallest integer >= a */
TJ_API tj_tensor *tj_ceil(tj_tensor *x);
TJ_API tj_tensor *tj_ceil_at(const char *site, tj_tensor *x);
#define tj_ceil(x) tj_ceil_at(TJ_SITE, x) /* tj_ceil([1.5, -1.5]) = [2., -1.] */

/* the nearest integer, ties to even */
TJ_API tj_tensor *tj_round(tj_tensor *x);
TJ_API tj_tensor *tj_round_at(const char *site, tj_tensor *x);
#define tj_round(x) tj_round_at(TJ_SITE, x) /* tj_round([0.5, 1.5, 2.4]) = [0., 2., 2.] */

/* rounded toward zero */
TJ_API tj_tensor *tj_trunc(tj_tensor *x);
TJ_API tj_tensor *tj_trunc_at(const char *site, tj_tensor *x);
#define tj_trunc(x) tj_trunc_at(TJ_SITE, x) /* tj_trunc([1.7, -1.7]) = [1., -1.] */

/* a - trunc(a) */
TJ_API tj_tensor *tj_frac(tj_tensor *x);
TJ_API tj_tensor *tj_frac_at(const char *site, tj_tensor *x);
#define tj_frac(x) tj_frac_at(TJ_SITE, x) /* tj_frac([1.75, -1.75]) = [0.75, -0.75] */

/* a & b */
TJ_API tj_tensor *tj_bitwise_and(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_bitwise_and_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_bitwise_and(a, b) tj_bitwise_and_at(TJ_SITE, a, b) /* tj_bitwise_and([12, 10], [10, 6]) = [8, 2] */

/* a | b */
TJ_API tj_tensor *tj_bitwise_or(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_bitwise_or_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_bitwise_or(a, b) tj_bitwise_or_at(TJ_SITE, a, b) /* tj_bitwise_or([12, 10], [10, 6]) = [14, 14] */

/* a ^ b */
TJ_API tj_tensor *tj_bitwise_xor(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_bitwise_xor_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_bitwise_xor(a, b) tj_bitwise_xor_at(TJ_SITE, a, b) /* tj_bitwise_xor([12, 10], [10, 6]) = [6, 12] */

/* ~a; logical not for bool */
TJ_API tj_tensor *tj_bitwise_not(tj_tensor *x);
TJ_API tj_tensor *tj_bitwise_not_at(const char *site, tj_tensor *x);
#define tj_bitwise_not(x) tj_bitwise_not_at(TJ_SITE, x) /* tj_bitwise_not([0, 5]) = [-1, -6] */

/* a << b; 0 when b < 0 or b >= width; a C number is first wrapped to the dtype */
TJ_API tj_tensor *tj_shift_left(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_shift_left_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_shift_left(a, b) tj_shift_left_at(TJ_SITE, a, b) /* tj_shift_left([1, 3], [4, 1]) = [16, 6] */

/* a >> b; a signed dtype keeps the sign; when b < 0 or b >= width, the result is -1 for a < 0, else 0; a C number is first wrapped to the
 * dtype */
TJ_API tj_tensor *tj_shift_right(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_shift_right_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_shift_right(a, b) tj_shift_right_at(TJ_SITE, a, b) /* tj_shift_right([16, -3], [2, 1]) = [4, -2] */

/* the number of bits that are 1 in |a|; the dtype stays */
TJ_API tj_tensor *tj_bitwise_count(tj_tensor *x);
TJ_API tj_tensor *tj_bitwise_count_at(const char *site, tj_tensor *x);
#define tj_bitwise_count(x) tj_bitwise_count_at(TJ_SITE, x) /* tj_bitwise_count([7, 8]) = [3, 1] */

/* the greatest common divisor, 0 or more; gcd(0, a) is |a|; MIN counts as its absolute value, which wraps to it */
TJ_API tj_tensor *tj_gcd(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_gcd_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_gcd(a, b) tj_gcd_at(TJ_SITE, a, b) /* tj_gcd([12, 9], [18, 6]) = [6, 3] */

/* the least common multiple of |a| and |b|; wraps */
TJ_API tj_tensor *tj_lcm(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_lcm_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_lcm(a, b) tj_lcm_at(TJ_SITE, a, b) /* tj_lcm([4, 6], [6, 9]) = [12, 18] */

/* a == b; an int C number is compared with integers by its exact value, as in all comparisons */
TJ_API tj_tensor *tj_eq(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_eq_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_eq(a, b) tj_eq_at(TJ_SITE, a, b) /* tj_eq([1, 2], [1, 3]) = [true, false] */

/* a != b; true for NaN */
TJ_API tj_tensor *tj_ne(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_ne_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_ne(a, b) tj_ne_at(TJ_SITE, a, b) /* tj_ne([1, 2], [1, 3]) = [false, true] */

/* a < b */
TJ_API tj_tensor *tj_lt(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_lt_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_lt(a, b) tj_lt_at(TJ_SITE, a, b) /* tj_lt([1, 2, 3], tj_i(2)) = [true, false, false] */

/* a <= b */
TJ_API tj_tensor *tj_le(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_le_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_le(a, b) tj_le_at(TJ_SITE, a, b) /* tj_le([1, 2, 3], tj_i(2)) = [true, true, false] */

/* a > b */
TJ_API tj_tensor *tj_gt(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_gt_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_gt(a, b) tj_gt_at(TJ_SITE, a, b) /* tj_gt([1, 2, 3], tj_i(2)) = [false, false, true] */

/* a >= b */
TJ_API tj_tensor *tj_ge(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_ge_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_ge(a, b) tj_ge_at(TJ_SITE, a, b) /* tj_ge([1, 2, 3], tj_i(2)) = [false, true, true] */

/* a != 0 and b != 0 */
TJ_API tj_tensor *tj_logical_and(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_logical_and_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_logical_and(a, b) tj_logical_and_at(TJ_SITE, a, b) /* tj_logical_and([0, 1, 2], [1, 0, 3]) = [false, false, true] */

/* a != 0 or b != 0 */
TJ_API tj_tensor *tj_logical_or(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_logical_or_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_logical_or(a, b) tj_logical_or_at(TJ_SITE, a, b) /* tj_logical_or([0, 1, 0], [1, 0, 0]) = [true, true, false] */

/* a != 0 xor b != 0 */
TJ_API tj_tensor *tj_logical_xor(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_logical_xor_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_logical_xor(a, b) tj_logical_xor_at(TJ_SITE, a, b) /* tj_logical_xor([0, 1, 2], [1, 0, 3]) = [true, true, false] */

/* a == 0 */
TJ_API tj_tensor *tj_logical_not(tj_tensor *x);
TJ_API tj_tensor *tj_logical_not_at(const char *site, tj_tensor *x);
#define tj_logical_not(x) tj_logical_not_at(TJ_SITE, x) /* tj_logical_not([0, 5]) = [true, false] */

/* a is NaN */
TJ_API tj_tensor *tj_isnan(tj_tensor *x);
TJ_API tj_tensor *tj_isnan_at(const char *site, tj_tensor *x);
#define tj_isnan(x) tj_isnan_at(TJ_SITE, x) /* tj_isnan([1., nan, inf]) = [false, true, false] */

/* a is +inf or -inf */
TJ_API tj_tensor *tj_isinf(tj_tensor *x);
TJ_API tj_tensor *tj_isinf_at(const char *site, tj_tensor *x);
#define tj_isinf(x) tj_isinf_at(TJ_SITE, x) /* tj_isinf([1., nan, -inf]) = [false, false, true] */

/* a is neither NaN nor infinite */
TJ_API tj_tensor *tj_isfinite(tj_tensor *x);
TJ_API tj_tensor *tj_isfinite_at(const char *site, tj_tensor *x);
#define tj_isfinite(x) tj_isfinite_at(TJ_SITE, x) /* tj_isfinite([1., nan, inf]) = [true, false, false] */

/* a has a sign; true for -0.0, false for every NaN */
TJ_API tj_tensor *tj_signbit(tj_tensor *x);
TJ_API tj_tensor *tj_signbit_at(const char *site, tj_tensor *x);
#define tj_signbit(x) tj_signbit_at(TJ_SITE, x) /* tj_signbit([1., -0., -2.]) = [false, true, true] */

/* e to the power a */
TJ_API tj_tensor *tj_exp(tj_tensor *x);
TJ_API tj_tensor *tj_exp_at(const char *site, tj_tensor *x);
#define tj_exp(x) tj_exp_at(TJ_SITE, x) /* tj_exp([0., 1.]) = [1., 2.7183] */

/* natural logarithm; NaN below 0 */
TJ_API tj_tensor *tj_log(tj_tensor *x);
TJ_API tj_tensor *tj_log_at(const char *site, tj_tensor *x);
#define tj_log(x) tj_log_at(TJ_SITE, x) /* tj_log([1., 10.]) = [0., 2.3026] */

/* square root, correctly rounded */
TJ_API tj_tensor *tj_sqrt(tj_tensor *x);
TJ_API tj_tensor *tj_sqrt_at(const char *site, tj_tensor *x);
#define tj_sqrt(x) tj_sqrt_at(TJ_SITE, x) /* tj_sqrt([4., 9.]) = [2., 3.] */

/* 1 / sqrt(a) */
TJ_API tj_tensor *tj_rsqrt(tj_tensor *x);
TJ_API tj_tensor *tj_rsqrt_at(const char *site, tj_tensor *x);
#define tj_rsqrt(x) tj_rsqrt_at(TJ_SITE, x) /* tj_rsqrt([4., 0.25]) = [0.5, 2.] */

/* hyperbolic tangent */
TJ_API tj_tensor *tj_tanh(tj_tensor *x);
TJ_API tj_tensor *tj_tanh_at(const char *site, tj_tensor *x);
#define tj_tanh(x) tj_tanh_at(TJ_SITE, x) /* tj_tanh([0., 1.]) = [0., 0.7616] */

/* 1 / (1 + exp(-a)) */
TJ_API tj_tensor *tj_sigmoid(tj_tensor *x);
TJ_API tj_tensor *tj_sigmoid_at(const char *site, tj_tensor *x);
#define tj_sigmoid(x) tj_sigmoid_at(TJ_SITE, x) /* tj_sigmoid([0., 1.]) = [0.5, 0.7311] */

/* error function */
TJ_API tj_tensor *tj_erf(tj_tensor *x);
TJ_API tj_tensor *tj_erf_at(const char *site, tj_tensor *x);
#define tj_erf(x) tj_erf_at(TJ_SITE, x) /* tj_erf([0., 1.]) = [0., 0.8427] */

/* sine; any finite argument */
TJ_API tj_tensor *tj_sin(tj_tensor *x);
TJ_API tj_tensor *tj_sin_at(const char *site, tj_tensor *x);
#define tj_sin(x) tj_sin_at(TJ_SITE, x) /* tj_sin([0., 1.5708]) = [0., 1.] */

/* cosine; any finite argument */
TJ_API tj_tensor *tj_cos(tj_tensor *x);
TJ_API tj_tensor *tj_cos_at(const char *site, tj_tensor *x);
#define tj_cos(x) tj_cos_at(TJ_SITE, x) /* tj_cos([0., 3.1416]) = [1., -1.] */

/* exp(a) - 1 without cancellation */
TJ_API tj_tensor *tj_expm1(tj_tensor *x);
TJ_API tj_tensor *tj_expm1_at(const char *site, tj_tensor *x);
#define tj_expm1(x) tj_expm1_at(TJ_SITE, x) /* tj_expm1([0., 1.]) = [0., 1.7183] */

/* log(1 + a) without cancellation */
TJ_API tj_tensor *tj_log1p(tj_tensor *x);
TJ_API tj_tensor *tj_log1p_at(const char *site, tj_tensor *x);
#define tj_log1p(x) tj_log1p_at(TJ_SITE, x) /* tj_log1p([0., 1.]) = [0., 0.6931] */

/* 2 to the power a */
TJ_API tj_tensor *tj_exp2(tj_tensor *x);
TJ_API tj_tensor *tj_exp2_at(const char *site, tj_tensor *x);
#define tj_exp2(x) tj_exp2_at(TJ_SITE, x) /* tj_exp2([3., -1.]) = [8., 0.5] */

/* logarithm to the base 2; NaN below 0 */
TJ_API tj_tensor *tj_log2(tj_tensor *x);
TJ_API tj_tensor *tj_log2_at(const char *site, tj_tensor *x);
#define tj_log2(x) tj_log2_at(TJ_SITE, x) /* tj_log2([8., 0.5]) = [3., -1.] */

/* logarithm to the base 10; NaN below 0 */
TJ_API tj_tensor *tj_log10(tj_tensor *x);
TJ_API tj_tensor *tj_log10_at(const char *site, tj_tensor *x);
#define tj_log10(x) tj_log10_at(TJ_SITE, x) /* tj_log10([1000., 0.1]) = [3., -1.] */

/* cube root, also of negative numbers */
TJ_API tj_tensor *tj_cbrt(tj_tensor *x);
TJ_API tj_tensor *tj_cbrt_at(const char *site, tj_tensor *x);
#define tj_cbrt(x) tj_cbrt_at(TJ_SITE, x) /* tj_cbrt([8., -27.]) = [2., -3.] */

/* tangent; any finite argument */
TJ_API tj_tensor *tj_tan(tj_tensor *x);
TJ_API tj_tensor *tj_tan_at(const char *site, tj_tensor *x);
#define tj_tan(x) tj_tan_at(TJ_SITE, x) /* tj_tan([0., 0.7854]) = [0., 1.] */

/* arc sine; NaN beyond -1 .. 1 */
TJ_API tj_tensor *tj_asin(tj_tensor *x);
TJ_API tj_tensor *tj_asin_at(const char *site, tj_tensor *x);
#define tj_asin(x) tj_asin_at(TJ_SITE, x) /* tj_asin([0., 1.]) = [0., 1.5708] */

/* arc cosine; NaN beyond -1 .. 1 */
TJ_API tj_tensor *tj_acos(tj_tensor *x);
TJ_API tj_tensor *tj_acos_at(const char *site, tj_tensor *x);
#define tj_acos(x) tj_acos_at(TJ_SITE, x) /* tj_acos([1., 0.]) = [0., 1.5708] */

/* arc tangent */
TJ_API tj_tensor *tj_atan(tj_tensor *x);
TJ_API tj_tensor *tj_atan_at(const char *site, tj_tensor *x);
#define tj_atan(x) tj_atan_at(TJ_SITE, x) /* tj_atan([0., 1.]) = [0., 0.7854] */

/* hyperbolic sine */
TJ_API tj_tensor *tj_sinh(tj_tensor *x);
TJ_API tj_tensor *tj_sinh_at(const char *site, tj_tensor *x);
#define tj_sinh(x) tj_sinh_at(TJ_SITE, x) /* tj_sinh([0., 1.]) = [0., 1.1752] */

/* hyperbolic cosine */
TJ_API tj_tensor *tj_cosh(tj_tensor *x);
TJ_API tj_tensor *tj_cosh_at(const char *site, tj_tensor *x);
#define tj_cosh(x) tj_cosh_at(TJ_SITE, x) /* tj_cosh([0., 1.]) = [1., 1.5431] */

/* inverse hyperbolic sine */
TJ_API tj_tensor *tj_asinh(tj_tensor *x);
TJ_API tj_tensor *tj_asinh_at(const char *site, tj_tensor *x);
#define tj_asinh(x) tj_asinh_at(TJ_SITE, x) /* tj_asinh([0., 1.]) = [0., 0.8814] */

/* inverse hyperbolic cosine; NaN below 1 */
TJ_API tj_tensor *tj_acosh(tj_tensor *x);
TJ_API tj_tensor *tj_acosh_at(const char *site, tj_tensor *x);
#define tj_acosh(x) tj_acosh_at(TJ_SITE, x) /* tj_acosh([1., 2.]) = [0., 1.317] */

/* inverse hyperbolic tangent; NaN beyond -1 .. 1 */
TJ_API tj_tensor *tj_atanh(tj_tensor *x);
TJ_API tj_tensor *tj_atanh_at(const char *site, tj_tensor *x);
#define tj_atanh(x) tj_atanh_at(TJ_SITE, x) /* tj_atanh([0., 0.5]) = [0., 0.5493] */

/* the angle of the point (b, a): the arc tangent of a / b in the right quadrant */
TJ_API tj_tensor *tj_atan2(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_atan2_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_atan2(a, b) tj_atan2_at(TJ_SITE, a, b) /* tj_atan2([1., -1.], [1., -1.]) = [0.7854, -2.3562] */

/* sin(pi a) / (pi a), 1 at 0; near 0 its gradient loses digits */
TJ_API tj_tensor *tj_sinc(tj_tensor *x);
TJ_API tj_tensor *tj_sinc_at(const char *site, tj_tensor *x);
#define tj_sinc(x) tj_sinc_at(TJ_SITE, x) /* tj_sinc([0., 0.5, 1.]) = [1., 0.6366, 0.] */

/* 1 - erf(a), also where that is small */
TJ_API tj_tensor *tj_erfc(tj_tensor *x);
TJ_API tj_tensor *tj_erfc_at(const char *site, tj_tensor *x);
#define tj_erfc(x) tj_erfc_at(TJ_SITE, x) /* tj_erfc([0., 1.]) = [1., 0.1573] */

/* exp(a^2) * erfc(a), also where erfc(a) is 0 */
TJ_API tj_tensor *tj_erfcx(tj_tensor *x);
TJ_API tj_tensor *tj_erfcx_at(const char *site, tj_tensor *x);
#define tj_erfcx(x) tj_erfcx_at(TJ_SITE, x) /* tj_erfcx([0., 1.]) = [1., 0.4276] */

/* the number whose erf is a; inf at 1, NaN beyond -1 .. 1 */
TJ_API tj_tensor *tj_erfinv(tj_tensor *x);
TJ_API tj_tensor *tj_erfinv_at(const char *site, tj_tensor *x);
#define tj_erfinv(x) tj_erfinv_at(TJ_SITE, x) /* tj_erfinv([0., 0.5]) = [0., 0.4769] */

/* the probability that a normally distributed number is below a */
TJ_API tj_tensor *tj_ndtr(tj_tensor *x);
TJ_API tj_tensor *tj_ndtr_at(const char *site, tj_tensor *x);
#define tj_ndtr(x) tj_ndtr_at(TJ_SITE, x) /* tj_ndtr([0., 1.]) = [0.5, 0.8413] */

/* its logarithm, also where ndtr(a) is 0 */
TJ_API tj_tensor *tj_log_ndtr(tj_tensor *x);
TJ_API tj_tensor *tj_log_ndtr_at(const char *site, tj_tensor *x);
#define tj_log_ndtr(x) tj_log_ndtr_at(TJ_SITE, x) /* tj_log_ndtr([0., -10.]) = [-0.6931, -53.2313] */

/* the number whose ndtr is a; NaN beyond 0 .. 1 */
TJ_API tj_tensor *tj_ndtri(tj_tensor *x);
TJ_API tj_tensor *tj_ndtri_at(const char *site, tj_tensor *x);
#define tj_ndtri(x) tj_ndtri_at(TJ_SITE, x) /* tj_ndtri([0.5, 0.975]) = [0., 1.96] */

/* log |gamma(a)|; inf at 0 and at negative integers */
TJ_API tj_tensor *tj_lgamma(tj_tensor *x);
TJ_API tj_tensor *tj_lgamma_at(const char *site, tj_tensor *x);
#define tj_lgamma(x) tj_lgamma_at(TJ_SITE, x) /* tj_lgamma([1., 5.]) = [0., 3.1781] */

/* the gamma function, as in C: (a - 1)! of a whole number; NaN at negative integers */
TJ_API tj_tensor *tj_tgamma(tj_tensor *x);
TJ_API tj_tensor *tj_tgamma_at(const char *site, tj_tensor *x);
#define tj_tgamma(x) tj_tgamma_at(TJ_SITE, x) /* tj_tgamma([0.5, 5.]) = [1.7725, 24.] */

/* the derivative of log(gamma(a)); inf or -inf at 0, NaN at negative integers */
TJ_API tj_tensor *tj_digamma(tj_tensor *x);
TJ_API tj_tensor *tj_digamma_at(const char *site, tj_tensor *x);
#define tj_digamma(x) tj_digamma_at(TJ_SITE, x) /* tj_digamma([1., 2.]) = [-0.5772, 0.4228] */

/* the n-th derivative of digamma, n from 0 to 30; from n = 1 on inf or -inf at 0 and at negative integers; computed in f64 */
TJ_API tj_tensor *tj_polygamma(int64_t n, tj_tensor *x);
TJ_API tj_tensor *tj_polygamma_at(const char *site, int64_t n, tj_tensor *x);
#define tj_polygamma(n, x) tj_polygamma_at(TJ_SITE, n, x) /* tj_polygamma(1, [1., 2.]) = [1.6449, 0.6449] */

/* the modified Bessel function of order 0; infinities give infinity (PyTorch: NaN in f16 and bf16) */
TJ_API tj_tensor *tj_i0(tj_tensor *x);
TJ_API tj_tensor *tj_i0_at(const char *site, tj_tensor *x);
#define tj_i0(x) tj_i0_at(TJ_SITE, x) /* tj_i0([0., 1.]) = [1., 1.2661] */

/* i0(a) * exp(-|a|) */
TJ_API tj_tensor *tj_i0e(tj_tensor *x);
TJ_API tj_tensor *tj_i0e_at(const char *site, tj_tensor *x);
#define tj_i0e(x) tj_i0e_at(TJ_SITE, x) /* tj_i0e([0., 1.]) = [1., 0.4658] */

/* the modified Bessel function of order 1 */
TJ_API tj_tensor *tj_i1(tj_tensor *x);
TJ_API tj_tensor *tj_i1_at(const char *site, tj_tensor *x);
#define tj_i1(x) tj_i1_at(TJ_SITE, x) /* tj_i1([0., 1.]) = [0., 0.5652] */

/* i1(a) * exp(-|a|) */
TJ_API tj_tensor *tj_i1e(tj_tensor *x);
TJ_API tj_tensor *tj_i1e_at(const char *site, tj_tensor *x);
#define tj_i1e(x) tj_i1e_at(TJ_SITE, x) /* tj_i1e([0., 1.]) = [0., 0.2079] */

/* a * (pi / 180) */
TJ_API tj_tensor *tj_deg2rad(tj_tensor *x);
TJ_API tj_tensor *tj_deg2rad_at(const char *site, tj_tensor *x);
#define tj_deg2rad(x) tj_deg2rad_at(TJ_SITE, x) /* tj_deg2rad([180., 90.]) = [3.1416, 1.5708] */

/* a * (180 / pi) */
TJ_API tj_tensor *tj_rad2deg(tj_tensor *x);
TJ_API tj_tensor *tj_rad2deg_at(const char *site, tj_tensor *x);
#define tj_rad2deg(x) tj_rad2deg_at(TJ_SITE, x) /* tj_rad2deg([0., 1.]) = [0., 57.2958] */

/* a itself; not for bool */
TJ_API tj_tensor *tj_positive(tj_tensor *x);
TJ_API tj_tensor *tj_positive_at(const char *site, tj_tensor *x);
#define tj_positive(x) tj_positive_at(TJ_SITE, x) /* tj_positive([1, -2]) = [1, -2] */

/* log(exp(a) + exp(b)) without overflow */
TJ_API tj_tensor *tj_logaddexp(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_logaddexp_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_logaddexp(a, b) tj_logaddexp_at(TJ_SITE, a, b) /* tj_logaddexp([0., 1.], [0., 1.]) = [0.6931, 1.6931] */

/* log2(2^a + 2^b) without overflow */
TJ_API tj_tensor *tj_logaddexp2(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_logaddexp2_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_logaddexp2(a, b) tj_logaddexp2_at(TJ_SITE, a, b) /* tj_logaddexp2([0., 3.], [0., 3.]) = [1., 4.] */

/* a * log(b); 0 where a is 0, unless b is NaN */
TJ_API tj_tensor *tj_xlogy(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_xlogy_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_xlogy(a, b) tj_xlogy_at(TJ_SITE, a, b) /* tj_xlogy([2., 0.], [1., 0.]) = [0., 0.] */

/* a * log1p(b); 0 where a is 0, unless b is NaN */
TJ_API tj_tensor *tj_xlog1py(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_xlog1py_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_xlog1py(a, b) tj_xlog1py_at(TJ_SITE, a, b) /* tj_xlog1py([2., 0.], [0., -1.]) = [0., 0.] */

/* a to the power b, computed in f64 */
TJ_API tj_tensor *tj_float_power(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_float_power_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_float_power(a, b) tj_float_power_at(TJ_SITE, a, b) /* tj_float_power([2, 3], [3, -1]) = f64[8., 0.3333] */

/* a + c * (b - a); b - (b - a) * (1 - c) where |c| >= 0.5, so that both ends are exact */
TJ_API tj_tensor *tj_lerp(tj_tensor *a, tj_tensor *b, tj_tensor *c);
TJ_API tj_tensor *tj_lerp_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c);
#define tj_lerp(a, b, c) tj_lerp_at(TJ_SITE, a, b, c) /* tj_lerp([0., 10.], [1., 20.], tj_f(0.25)) = [0.25, 12.5] */

/* a + value * b * c */
TJ_API tj_tensor *tj_addcmul(tj_tensor *a, tj_tensor *b, tj_tensor *c, double value);
TJ_API tj_tensor *tj_addcmul_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c, double value);
#define tj_addcmul(a, b, c, value) tj_addcmul_at(TJ_SITE, a, b, c, value) /* tj_addcmul([1., 2.], [3., 4.], [5., 6.], 0.5) = [8.5, 14.] */

/* a + value * b / c */
TJ_API tj_tensor *tj_addcdiv(tj_tensor *a, tj_tensor *b, tj_tensor *c, double value);
TJ_API tj_tensor *tj_addcdiv_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c, double value);
#define tj_addcdiv(a, b, c, value) tj_addcdiv_at(TJ_SITE, a, b, c, value) /* tj_addcdiv([1., 2.], [3., 4.], [2., 8.], 2) = [4., 3.] */

/* a == b, or |a - b| <= atol + rtol * |b| and finite; equal_nan: or both NaN */
TJ_API tj_tensor *tj_isclose(tj_tensor *a, tj_tensor *b, double rtol, double atol, bool equal_nan);
TJ_API tj_tensor *tj_isclose_at(const char *site, tj_tensor *a, tj_tensor *b, double rtol, double atol, bool equal_nan);
#define tj_isclose(a, b, rtol, atol, equal_nan) tj_isclose_at(TJ_SITE, a, b, rtol, atol, equal_nan)
/* tj_isclose([1., 2.], [1.01, 2.5], 0.02, 0, false) = [true, false] */

/* the numbers in place of NaN, inf and -inf; posinf and neginf beyond the dtype (INFINITY) mean its largest and least value */
TJ_API tj_tensor *tj_nan_to_num(tj_tensor *x, double nan, double posinf, double neginf);
TJ_API tj_tensor *tj_nan_to_num_at(const char *site, tj_tensor *x, double nan, double posinf, double neginf);
#define tj_nan_to_num(x, nan, posinf, neginf) tj_nan_to_num_at(TJ_SITE, x, nan, posinf, neginf)
/* tj_nan_to_num([nan, inf, -inf, 1.], 0, 9, -9) = [0., 9., -9., 1.] */

/* b where a != 0, else c */
TJ_API tj_tensor *tj_where(tj_tensor *a, tj_tensor *b, tj_tensor *c);
TJ_API tj_tensor *tj_where_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c);
#define tj_where(a, b, c) tj_where_at(TJ_SITE, a, b, c) /* tj_where([true, false], [1, 2], [10, 20]) = [1, 20] */

/* minimum(maximum(a, b), c); C numbers count as in minimum */
TJ_API tj_tensor *tj_clamp(tj_tensor *a, tj_tensor *b, tj_tensor *c);
TJ_API tj_tensor *tj_clamp_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c);
#define tj_clamp(a, b, c) tj_clamp_at(TJ_SITE, a, b, c) /* tj_clamp([-5, 3, 9], tj_i(0), tj_i(5)) = [0, 3, 5] */

/* maximum(a, 0) */
TJ_API tj_tensor *tj_relu(tj_tensor *x);
TJ_API tj_tensor *tj_relu_at(const char *site, tj_tensor *x);
#define tj_relu(x) tj_relu_at(TJ_SITE, x) /* tj_relu([-1., 2.]) = [0., 2.] */

/* a * sigmoid(a) */
TJ_API tj_tensor *tj_silu(tj_tensor *x);
TJ_API tj_tensor *tj_silu_at(const char *site, tj_tensor *x);
#define tj_silu(x) tj_silu_at(TJ_SITE, x) /* tj_silu([0., 1.]) = [0., 0.7311] */

/* a * (1 + erf(a / sqrt(2))) / 2 */
TJ_API tj_tensor *tj_gelu(tj_tensor *x);
TJ_API tj_tensor *tj_gelu_at(const char *site, tj_tensor *x);
#define tj_gelu(x) tj_gelu_at(TJ_SITE, x) /* tj_gelu([0., 1.]) = [0., 0.8413] */

/* a * (1 + tanh(sqrt(2/pi) * (a + 0.044715 a^3))) / 2 */
TJ_API tj_tensor *tj_gelu_tanh(tj_tensor *x);
TJ_API tj_tensor *tj_gelu_tanh_at(const char *site, tj_tensor *x);
#define tj_gelu_tanh(x) tj_gelu_tanh_at(TJ_SITE, x) /* tj_gelu_tanh([0., 1.]) = [0., 0.8412] */

/* hardtanh(a, 0, 6) */
TJ_API tj_tensor *tj_relu6(tj_tensor *x);
TJ_API tj_tensor *tj_relu6_at(const char *site, tj_tensor *x);
#define tj_relu6(x) tj_relu6_at(TJ_SITE, x) /* tj_relu6([-1, 3, 8]) = [0, 3, 6] */

/* a above 0, else alpha * a */
TJ_API tj_tensor *tj_leaky_relu(tj_tensor *x, double alpha);
TJ_API tj_tensor *tj_leaky_relu_at(const char *site, tj_tensor *x, double alpha);
#define tj_leaky_relu(x, alpha) tj_leaky_relu_at(TJ_SITE, x, alpha) /* tj_leaky_relu([-2., 3.], 0.1) = [-0.2, 3.] */

/* a above 0, else b * a; b has one element, or one for each index of axis 1 */
TJ_API tj_tensor *tj_prelu(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_prelu_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_prelu(a, b) tj_prelu_at(TJ_SITE, a, b) /* tj_prelu([[-2., 3.]], [0.5, 0.1]) = [[-1., 3.]] */

/* a above 0, else alpha * (exp(a) - 1) */
TJ_API tj_tensor *tj_elu(tj_tensor *x, double alpha);
TJ_API tj_tensor *tj_elu_at(const char *site, tj_tensor *x, double alpha);
#define tj_elu(x, alpha) tj_elu_at(TJ_SITE, x, alpha) /* tj_elu([-1., 2.], 1) = [-0.6321, 2.] */

/* 1.0507009873554805 * elu(a, 1.6732632423543772) */
TJ_API tj_tensor *tj_selu(tj_tensor *x);
TJ_API tj_tensor *tj_selu_at(const char *site, tj_tensor *x);
#define tj_selu(x) tj_selu_at(TJ_SITE, x) /* tj_selu([-1., 1.]) = [-1.1113, 1.0507] */

/* a above 0, else alpha * (exp(a / alpha) - 1) */
TJ_API tj_tensor *tj_celu(tj_tensor *x, double alpha);
TJ_API tj_tensor *tj_celu_at(const char *site, tj_tensor *x, double alpha);
#define tj_celu(x, alpha) tj_celu_at(TJ_SITE, x, alpha) /* tj_celu([-2., 1.], 2) = [-1.2642, 1.] */

/* a * tanh(log(1 + exp(a))) */
TJ_API tj_tensor *tj_mish(tj_tensor *x);
TJ_API tj_tensor *tj_mish_at(const char *site, tj_tensor *x);
#define tj_mish(x) tj_mish_at(TJ_SITE, x) /* tj_mish([0., 1.]) = [0., 0.8651] */

/* log(1 + exp(alpha * a)) / alpha, and a where alpha * a is above beta; usual values are 1 and 20 */
TJ_API tj_tensor *tj_softplus(tj_tensor *x, double alpha, double beta);
TJ_API tj_tensor *tj_softplus_at(const char *site, tj_tensor *x, double alpha, double beta);
#define tj_softplus(x, alpha, beta) tj_softplus_at(TJ_SITE, x, alpha, beta) /* tj_softplus([0., 30.], 1, 20) = [0.6931, 30.] */

/* a / (1 + |a|) */
TJ_API tj_tensor *tj_softsign(tj_tensor *x);
TJ_API tj_tensor *tj_softsign_at(const char *site, tj_tensor *x);
#define tj_softsign(x) tj_softsign_at(TJ_SITE, x) /* tj_softsign([-1., 3.]) = [-0.5, 0.75] */

/* log(sigmoid(a)) without overflow */
TJ_API tj_tensor *tj_logsigmoid(tj_tensor *x);
TJ_API tj_tensor *tj_logsigmoid_at(const char *site, tj_tensor *x);
#define tj_logsigmoid(x) tj_logsigmoid_at(TJ_SITE, x) /* tj_logsigmoid([0., -100.]) = [-0.6931, -100.] */

/* a - tanh(a) */
TJ_API tj_tensor *tj_tanhshrink(tj_tensor *x);
TJ_API tj_tensor *tj_tanhshrink_at(const char *site, tj_tensor *x);
#define tj_tanhshrink(x) tj_tanhshrink_at(TJ_SITE, x) /* tj_tanhshrink([0., 1.]) = [0., 0.2384] */

/* 0 from -alpha to alpha, else a */
TJ_API tj_tensor *tj_hardshrink(tj_tensor *x, double alpha);
TJ_API tj_tensor *tj_hardshrink_at(const char *site, tj_tensor *x, double alpha);
#define tj_hardshrink(x, alpha) tj_hardshrink_at(TJ_SITE, x, alpha) /* tj_hardshrink([-1., 0.3, 2.], 0.5) = [-1., 0., 2.] */

/* 0 from -alpha to alpha, else a moved by alpha towards 0 */
TJ_API tj_tensor *tj_softshrink(tj_tensor *x, double alpha);
TJ_API tj_tensor *tj_softshrink_at(const char *site, tj_tensor *x, double alpha);
#define tj_softshrink(x, alpha) tj_softshrink_at(TJ_SITE, x, alpha) /* tj_softshrink([-1., 0.3, 2.], 0.5) = [-0.5, 0., 1.5] */

/* a limited to alpha .. beta; the gradient is 0 at the limits, too */
TJ_API tj_tensor *tj_hardtanh(tj_tensor *x, double alpha, double beta);
TJ_API tj_tensor *tj_hardtanh_at(const char *site, tj_tensor *x, double alpha, double beta);
#define tj_hardtanh(x, alpha, beta) tj_hardtanh_at(TJ_SITE, x, alpha, beta) /* tj_hardtanh([-3., 0.5, 3.], -1, 1) = [-1., 0.5, 1.] */

/* hardtanh(a + 3, 0, 6) / 6 */
TJ_API tj_tensor *tj_hardsigmoid(tj_tensor *x);
TJ_API tj_tensor *tj_hardsigmoid_at(const char *site, tj_tensor *x);
#define tj_hardsigmoid(x) tj_hardsigmoid_at(TJ_SITE, x) /* tj_hardsigmoid([-3., 0., 3.]) = [0., 0.5, 1.] */

/* a * hardtanh(a + 3, 0, 6) / 6 */
TJ_API tj_tensor *tj_hardswish(tj_tensor *x);
TJ_API tj_tensor *tj_hardswish_at(const char *site, tj_tensor *x);
#define tj_hardswish(x) tj_hardswish_at(TJ_SITE, x) /* tj_hardswish([-1., 1., 3.]) = [-0.3333, 0.6667, 3.] */

/* a above alpha, else beta */
TJ_API tj_tensor *tj_threshold(tj_tensor *x, double alpha, double beta);
TJ_API tj_tensor *tj_threshold_at(const char *site, tj_tensor *x, double alpha, double beta);
#define tj_threshold(x, alpha, beta) tj_threshold_at(TJ_SITE, x, alpha, beta) /* tj_threshold([1, 5], 2, -1) = [-1, 5] */

/* the first half of an axis times the sigmoid of its second half */
TJ_API tj_tensor *tj_glu(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_glu_at(const char *site, tj_tensor *x, int axis);
#define tj_glu(x, axis) tj_glu_at(TJ_SITE, x, axis) /* tj_glu([1., 2., 0., 0.], 0) = [0.5, 1.] */

/* converts to another dtype; float to int truncates and saturates, NaN gives 0; int to int wraps */
TJ_API tj_tensor *tj_cast(tj_tensor *x, tj_dtype dtype);
TJ_API tj_tensor *tj_cast_at(const char *site, tj_tensor *x, tj_dtype dtype);
#define tj_cast(x, dtype) tj_cast_at(TJ_SITE, x, dtype) /* tj_cast([1.9, -1.9, nan], TJ_I32) = i32[1, -1, 0] */

/* copies to another device; on its own device it is the operand itself */
TJ_API tj_tensor *tj_to(tj_tensor *x, tj_device device);
TJ_API tj_tensor *tj_to_at(const char *site, tj_tensor *x, tj_device device);
#define tj_to(x, device) tj_to_at(TJ_SITE, x, device) /* tj_to([1, 2], TJ_CPU) = [1, 2] */

/* the same elements in row-major order; one size may be -1; a C number becomes f32 or i64, as in all views and reductions */
TJ_API tj_tensor *tj_reshape(tj_tensor *x, tj_dims shape);
TJ_API tj_tensor *tj_reshape_at(const char *site, tj_tensor *x, tj_dims shape);
#define tj_reshape(x, shape) tj_reshape_at(TJ_SITE, x, shape) /* tj_reshape([1, 2, 3, 4], TJ_SHAPE(2, -1)) = [[1, 2], [3, 4]] */

/* broadcasts to a shape; -1 keeps a size */
TJ_API tj_tensor *tj_expand(tj_tensor *x, tj_dims shape);
TJ_API tj_tensor *tj_expand_at(const char *site, tj_tensor *x, tj_dims shape);
#define tj_expand(x, shape) tj_expand_at(TJ_SITE, x, shape) /* tj_expand([[1], [2]], TJ_SHAPE(-1, 3)) = [[1, 1, 1], [2, 2, 2]] */

/* result axis i is operand axis axes[i] */
TJ_API tj_tensor *tj_permute(tj_tensor *x, tj_dims axes);
TJ_API tj_tensor *tj_permute_at(const char *site, tj_tensor *x, tj_dims axes);
#define tj_permute(x, axes) tj_permute_at(TJ_SITE, x, axes) /* tj_permute([[1, 2, 3]], TJ_AXES(1, 0)) = [[1], [2], [3]] */

/* swaps two axes */
TJ_API tj_tensor *tj_transpose(tj_tensor *x, int a, int b);
TJ_API tj_tensor *tj_transpose_at(const char *site, tj_tensor *x, int a, int b);
#define tj_transpose(x, a, b) tj_transpose_at(TJ_SITE, x, a, b) /* tj_transpose([[1, 2], [3, 4]], 0, 1) = [[1, 3], [2, 4]] */

/* drops axes of size 1; TJ_ALL drops every one */
TJ_API tj_tensor *tj_squeeze(tj_tensor *x, tj_dims axes);
TJ_API tj_tensor *tj_squeeze_at(const char *site, tj_tensor *x, tj_dims axes);
#define tj_squeeze(x, axes) tj_squeeze_at(TJ_SITE, x, axes) /* tj_squeeze([[1, 2]], TJ_AXES(0)) = [1, 2] */

/* a new axis of size 1 */
TJ_API tj_tensor *tj_unsqueeze(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_unsqueeze_at(const char *site, tj_tensor *x, int axis);
#define tj_unsqueeze(x, axis) tj_unsqueeze_at(TJ_SITE, x, axis) /* tj_unsqueeze([1, 2], 1) = [[1], [2]] */

/* start:stop:step along an axis by Python's rules, negative steps too; TJ_END_DIM: open end */
TJ_API tj_tensor *tj_slice(tj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
TJ_API tj_tensor *tj_slice_at(const char *site, tj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
#define tj_slice(x, axis, start, stop, step) tj_slice_at(TJ_SITE, x, axis, start, stop, step)
/* tj_slice([0, 1, 2, 3, 4], 0, 1, TJ_END_DIM, 2) = [1, 3] */

/* reverses axes */
TJ_API tj_tensor *tj_flip(tj_tensor *x, tj_dims axes);
TJ_API tj_tensor *tj_flip_at(const char *site, tj_tensor *x, tj_dims axes);
#define tj_flip(x, axes) tj_flip_at(TJ_SITE, x, axes) /* tj_flip([1, 2, 3], TJ_AXES(0)) = [3, 2, 1] */

/* the windows along an axis: window i has the elements i * step + j * dilation, j < size, along a new last axis */
TJ_API tj_tensor *tj_unfold(tj_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);
TJ_API tj_tensor *tj_unfold_at(const char *site, tj_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);
#define tj_unfold(x, axis, size, step, dilation) tj_unfold_at(TJ_SITE, x, axis, size, step, dilation)
/* tj_unfold([1, 2, 3, 4], 0, 2, 1, 1) = [[1, 2], [2, 3], [3, 4]] */

/* a itself. What is computed from it is not merged with what is computed from a, and is computed after b: again, instead of being kept
 * until then */
TJ_API tj_tensor *tj_optimization_barrier(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_optimization_barrier_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_optimization_barrier(a, b) tj_optimization_barrier_at(TJ_SITE, a, b) /* tj_optimization_barrier([1, 2], [3, 4]) = [1, 2] */

/* y[i] = x[i - n] along an axis; what leaves at one end comes in at the other */
TJ_API tj_tensor *tj_roll(tj_tensor *x, int64_t n, int axis);
TJ_API tj_tensor *tj_roll_at(const char *site, tj_tensor *x, int64_t n, int axis);
#define tj_roll(x, n, axis) tj_roll_at(TJ_SITE, x, n, axis) /* tj_roll([[1, 2], [3, 4], [5, 6]], 1, 0) = [[5, 6], [1, 2], [3, 4]] */

/* each slice along an axis n times, one after the other */
TJ_API tj_tensor *tj_repeat_interleave(tj_tensor *x, int64_t n, int axis);
TJ_API tj_tensor *tj_repeat_interleave_at(const char *site, tj_tensor *x, int64_t n, int axis);
#define tj_repeat_interleave(x, n, axis) tj_repeat_interleave_at(TJ_SITE, x, n, axis)
/* tj_repeat_interleave([[1, 2]], 2, 1) = [[1, 1, 2, 2]] */

/* x as a whole, shape[i] times along axis i; a list with more entries than axes adds axes in front, one with fewer is for the last axes */
TJ_API tj_tensor *tj_tile(tj_tensor *x, tj_dims shape);
TJ_API tj_tensor *tj_tile_at(const char *site, tj_tensor *x, tj_dims shape);
#define tj_tile(x, shape) tj_tile_at(TJ_SITE, x, shape) /* tj_tile([1, 2], TJ_SHAPE(2)) = [1, 2, 1, 2] */

/* pads: for each of the last axes how many elements come before and behind, in the order of the axes, as in NumPy (PyTorch: the last axis
 * first); fewer than 0: so many go. TJ_PAD_CONSTANT: of that value; in the other modes value is not used, and may be NULL */
TJ_API tj_tensor *tj_pad(tj_tensor *x, tj_dims pads, tj_pad_mode mode, tj_tensor *value);
TJ_API tj_tensor *tj_pad_at(const char *site, tj_tensor *x, tj_dims pads, tj_pad_mode mode, tj_tensor *value);
#define tj_pad(x, pads, mode, value) tj_pad_at(TJ_SITE, x, pads, mode, value)
/* tj_pad([1, 2], TJ_SHAPE(1, 2), TJ_PAD_CONSTANT, tj_i(0)) = [0, 1, 2, 0, 0] */

/* the elements of the last two axes with column - row <= diagonal, else 0 */
TJ_API tj_tensor *tj_tril(tj_tensor *x, int64_t diagonal);
TJ_API tj_tensor *tj_tril_at(const char *site, tj_tensor *x, int64_t diagonal);
#define tj_tril(x, diagonal) tj_tril_at(TJ_SITE, x, diagonal) /* tj_tril([[1, 2], [3, 4]], 0) = [[1, 0], [3, 4]] */

/* the elements of the last two axes with column - row >= diagonal, else 0 */
TJ_API tj_tensor *tj_triu(tj_tensor *x, int64_t diagonal);
TJ_API tj_tensor *tj_triu_at(const char *site, tj_tensor *x, int64_t diagonal);
#define tj_triu(x, diagonal) tj_triu_at(TJ_SITE, x, diagonal) /* tj_triu([[1, 2], [3, 4]], 0) = [[1, 2], [0, 4]] */

/* the elements with index on axis b - index on axis a = diagonal, as a new last axis */
TJ_API tj_tensor *tj_diagonal(tj_tensor *x, int64_t diagonal, int a, int b);
TJ_API tj_tensor *tj_diagonal_at(const char *site, tj_tensor *x, int64_t diagonal, int a, int b);
#define tj_diagonal(x, diagonal, a, b) tj_diagonal_at(TJ_SITE, x, diagonal, a, b) /* tj_diagonal([[1, 2], [3, 4]], 0, 0, 1) = [1, 4] */

/* the last axis on a diagonal of two new last axes of the least size, 0 elsewhere */
TJ_API tj_tensor *tj_diag_embed(tj_tensor *x, int64_t diagonal);
TJ_API tj_tensor *tj_diag_embed_at(const char *site, tj_tensor *x, int64_t diagonal);
#define tj_diag_embed(x, diagonal) tj_diag_embed_at(TJ_SITE, x, diagonal) /* tj_diag_embed([1, 2], 0) = [[1, 0], [0, 2]] */

/* c where b != 0, else a; in the dtype of a */
TJ_API tj_tensor *tj_masked_fill(tj_tensor *a, tj_tensor *b, tj_tensor *c);
TJ_API tj_tensor *tj_masked_fill_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *c);
#define tj_masked_fill(a, b, c) tj_masked_fill_at(TJ_SITE, a, b, c) /* tj_masked_fill([1, 2], [true, false], tj_i(9)) = [9, 2] */

/* joins along an axis */
TJ_API tj_tensor *tj_cat(tj_list list, int axis);
TJ_API tj_tensor *tj_cat_at(const char *site, tj_list list, int axis);
#define tj_cat(list, axis) tj_cat_at(TJ_SITE, list, axis) /* tj_cat(TJ_LIST([1, 2], [3]), 0) = [1, 2, 3] */

/* joins along a new axis */
TJ_API tj_tensor *tj_stack(tj_list list, int axis);
TJ_API tj_tensor *tj_stack_at(const char *site, tj_list list, int axis);
#define tj_stack(list, axis) tj_stack_at(TJ_SITE, list, axis) /* tj_stack(TJ_LIST([1, 2], [3, 4]), 0) = [[1, 2], [3, 4]] */

/* the sum; integers and bool give i64 */
TJ_API tj_tensor *tj_sum(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_sum_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_sum(x, axes, keepdim) tj_sum_at(TJ_SITE, x, axes, keepdim) /* tj_sum([[1, 2], [3, 4]], TJ_AXES(0), false) = [4, 6] */

/* the product; integers and bool give i64 */
TJ_API tj_tensor *tj_prod(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_prod_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_prod(x, axes, keepdim) tj_prod_at(TJ_SITE, x, axes, keepdim) /* tj_prod([[1, 2], [3, 4]], TJ_AXES(1), false) = [2, 12] */

/* sum / n; an error for integers */
TJ_API tj_tensor *tj_mean(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_mean_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_mean(x, axes, keepdim) tj_mean_at(TJ_SITE, x, axes, keepdim) /* tj_mean([1., 2., 6.], TJ_ALL, false) = 3. */

/* the largest; NaN if any element is NaN; either zero when zeros of both signs are largest; an error over no elements */
TJ_API tj_tensor *tj_amax(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_amax_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_amax(x, axes, keepdim) tj_amax_at(TJ_SITE, x, axes, keepdim) /* tj_amax([[1, 5], [7, 2]], TJ_AXES(1), false) = [5, 7] */

/* the smallest; NaN if any element is NaN; either zero when zeros of both signs are smallest; an error over no elements */
TJ_API tj_tensor *tj_amin(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_amin_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_amin(x, axes, keepdim) tj_amin_at(TJ_SITE, x, axes, keepdim) /* tj_amin([[1, 5], [7, 2]], TJ_AXES(1), true) = [[1], [2]] */

/* whether any element is not 0 */
TJ_API tj_tensor *tj_any(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_any_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_any(x, axes, keepdim) tj_any_at(TJ_SITE, x, axes, keepdim) /* tj_any([[0, 1], [0, 0]], TJ_AXES(1), false) = [true, false] */

/* whether no element is 0 */
TJ_API tj_tensor *tj_all(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_all_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_all(x, axes, keepdim) tj_all_at(TJ_SITE, x, axes, keepdim) /* tj_all([[1, 2], [0, 3]], TJ_AXES(1), false) = [true, false] */

/* log(sum(exp(a))) without overflow; -inf when every element is -inf, and over no elements */
TJ_API tj_tensor *tj_logsumexp(tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_logsumexp_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
#define tj_logsumexp(x, axes, keepdim) tj_logsumexp_at(TJ_SITE, x, axes, keepdim) /* tj_logsumexp([100., 100.], TJ_ALL, false) = 100.6931 */

/* index of the first largest element; NaN counts as largest; axis TJ_END_DIM: in the flattened operand */
TJ_API tj_tensor *tj_argmax(tj_tensor *x, int64_t axis, bool keepdim);
TJ_API tj_tensor *tj_argmax_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim);
#define tj_argmax(x, axis, keepdim) tj_argmax_at(TJ_SITE, x, axis, keepdim) /* tj_argmax([3, 7, 7], 0, false) = 1 */

/* index of the first smallest element; NaN counts as smallest; axis TJ_END_DIM: in the flattened operand */
TJ_API tj_tensor *tj_argmin(tj_tensor *x, int64_t axis, bool keepdim);
TJ_API tj_tensor *tj_argmin_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim);
#define tj_argmin(x, axis, keepdim) tj_argmin_at(TJ_SITE, x, axis, keepdim) /* tj_argmin([3, 1, 1], 0, false) = 1 */

/* the largest element along an axis, and the index of the first such; NaN counts as largest; axis TJ_END_DIM: in the flattened operand.
 * Returns the values; NULL for indices if not wanted */
TJ_API tj_tensor *tj_max_with_indices(tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
TJ_API tj_tensor *tj_max_with_indices_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
#define tj_max_with_indices(x, axis, keepdim, indices) tj_max_with_indices_at(TJ_SITE, x, axis, keepdim, indices)
/* tj_max_with_indices([3, 7, 7], 0, false, &indices) = 7, 1 */

/* the smallest element along an axis, and the index of the first such; NaN counts as smallest; axis TJ_END_DIM: in the flattened operand.
 * Returns the values; NULL for indices if not wanted */
TJ_API tj_tensor *tj_min_with_indices(tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
TJ_API tj_tensor *tj_min_with_indices_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
#define tj_min_with_indices(x, axis, keepdim, indices) tj_min_with_indices_at(TJ_SITE, x, axis, keepdim, indices)
/* tj_min_with_indices([3, 1, 1], 0, false, &indices) = 1, 1 */

/* variance: (sum (a - mean)^2 - (sum (a - mean))^2 / n) / max(n - correction, 0) */
TJ_API tj_tensor *tj_var(tj_tensor *x, tj_dims axes, double correction, bool keepdim);
TJ_API tj_tensor *tj_var_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim);
#define tj_var(x, axes, correction, keepdim) tj_var_at(TJ_SITE, x, axes, correction, keepdim)
/* tj_var([1., 2., 3.], TJ_ALL, 1, false) = 1. */

/* the sum of the diagonal of a matrix; integers and bool give i64 */
TJ_API tj_tensor *tj_trace(tj_tensor *x);
TJ_API tj_tensor *tj_trace_at(const char *site, tj_tensor *x);
#define tj_trace(x) tj_trace_at(TJ_SITE, x) /* tj_trace([[1, 2], [3, 4]]) = 5 */

/* x[0] + ... + x[i]; integers and bool give i64 */
TJ_API tj_tensor *tj_cumsum(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_cumsum_at(const char *site, tj_tensor *x, int axis);
#define tj_cumsum(x, axis) tj_cumsum_at(TJ_SITE, x, axis) /* tj_cumsum([1, 2, 3], 0) = [1, 3, 6] */

/* x[0] * ... * x[i]; integers and bool give i64 */
TJ_API tj_tensor *tj_cumprod(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_cumprod_at(const char *site, tj_tensor *x, int axis);
#define tj_cumprod(x, axis) tj_cumprod_at(TJ_SITE, x, axis) /* tj_cumprod([1, 2, 3], 0) = [1, 2, 6] */

/* the largest of x[0] to x[i], and the index of the last such; NaN counts as largest. Returns the values; NULL for indices if not wanted */
TJ_API tj_tensor *tj_cummax(tj_tensor *x, int axis, tj_tensor **indices);
TJ_API tj_tensor *tj_cummax_at(const char *site, tj_tensor *x, int axis, tj_tensor **indices);
#define tj_cummax(x, axis, indices) tj_cummax_at(TJ_SITE, x, axis, indices)
/* tj_cummax([1, 3, 2, 3], 0, &indices) = [1, 3, 3, 3], [0, 1, 1, 3] */

/* the smallest of x[0] to x[i], and the index of the last such; NaN counts as smallest. Returns the values; NULL for indices if not
 * wanted */
TJ_API tj_tensor *tj_cummin(tj_tensor *x, int axis, tj_tensor **indices);
TJ_API tj_tensor *tj_cummin_at(const char *site, tj_tensor *x, int axis, tj_tensor **indices);
#define tj_cummin(x, axis, indices) tj_cummin_at(TJ_SITE, x, axis, indices)
/* tj_cummin([3, 1, 2, 1], 0, &indices) = [3, 1, 1, 1], [0, 1, 1, 3] */

/* the discrete Fourier transform of pairs (real, imaginary) along the last axis, which `axis` does not count: the sum over j of x[j] exp(-2
 * pi i j k / n), without a factor; tj_fft() has PyTorch's arguments */
TJ_API tj_tensor *tj_dft(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_dft_at(const char *site, tj_tensor *x, int axis);
#define tj_dft(x, axis) tj_dft_at(TJ_SITE, x, axis)
/* tj_dft([[1., 0.], [2., 0.], [3., 0.], [4., 0.]], 0) = [[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]] */

/* the same with exp(2 pi i j k / n); n times the inverse of dft */
TJ_API tj_tensor *tj_inverse_dft(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_inverse_dft_at(const char *site, tj_tensor *x, int axis);
#define tj_inverse_dft(x, axis) tj_inverse_dft_at(TJ_SITE, x, axis)
/* tj_inverse_dft([[4., 0.], [0., 0.], [0., 0.], [0., 0.]], 0) = [[4., 0.], [4., 0.], [4., 0.], [4., 0.]] */

/* dft of real numbers: of n along the axis, the first n / 2 + 1 results, as pairs along a new last axis; the others are their conjugates */
TJ_API tj_tensor *tj_rdft(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_rdft_at(const char *site, tj_tensor *x, int axis);
#define tj_rdft(x, axis) tj_rdft_at(TJ_SITE, x, axis) /* tj_rdft([1., 2., 3., 4.], 0) = [[10., 0.], [-2., 2.], [-2., 0.]] */

/* inverse_dft to n real numbers: n times the inverse of rdft; the first imaginary part counts as 0, and of an even n the last one */
TJ_API tj_tensor *tj_inverse_rdft(tj_tensor *x, int64_t n, int axis);
TJ_API tj_tensor *tj_inverse_rdft_at(const char *site, tj_tensor *x, int64_t n, int axis);
#define tj_inverse_rdft(x, n, axis) tj_inverse_rdft_at(TJ_SITE, x, n, axis)
/* tj_inverse_rdft([[10., 0.], [-2., 2.], [-2., 0.]], 4, 0) = [4., 8., 12., 16.] */

/* log(exp(x[0]) + ... + exp(x[i])) without overflow */
TJ_API tj_tensor *tj_logcumsumexp(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_logcumsumexp_at(const char *site, tj_tensor *x, int axis);
#define tj_logcumsumexp(x, axis) tj_logcumsumexp_at(TJ_SITE, x, axis) /* tj_logcumsumexp([0., 0., 0.], 0) = [0., 0.6931, 1.0986] */

/* y[i] = a[i] * y[i - 1] + b[i], rounded once; y[0] is b[0]. a and b have one shape */
TJ_API tj_tensor *tj_linear_recurrence(tj_tensor *a, tj_tensor *b, int axis);
TJ_API tj_tensor *tj_linear_recurrence_at(const char *site, tj_tensor *a, tj_tensor *b, int axis);
#define tj_linear_recurrence(a, b, axis) tj_linear_recurrence_at(TJ_SITE, a, b, axis)
/* tj_linear_recurrence([0., 2., 2.], [1., 1., 1.], 0) = [1., 3., 7.] */

/* sorts along an axis, stable; indices says where each element was. Returns the values; NULL for indices if not wanted */
TJ_API tj_tensor *tj_sort(tj_tensor *x, int axis, bool descending, tj_tensor **indices);
TJ_API tj_tensor *tj_sort_at(const char *site, tj_tensor *x, int axis, bool descending, tj_tensor **indices);
#define tj_sort(x, axis, descending, indices) tj_sort_at(TJ_SITE, x, axis, descending, indices)
/* tj_sort([3, 1, 2], 0, false, &indices) = [1, 2, 3], [1, 2, 0] */

/* the indices of sort, stable */
TJ_API tj_tensor *tj_argsort(tj_tensor *x, int axis, bool descending);
TJ_API tj_tensor *tj_argsort_at(const char *site, tj_tensor *x, int axis, bool descending);
#define tj_argsort(x, axis, descending) tj_argsort_at(TJ_SITE, x, axis, descending) /* tj_argsort([3, 1, 2], 0, false) = [1, 2, 0] */

/* the first k elements of the sorted axis, descending if largest; indices says where each was. Returns the values; NULL for indices if not
 * wanted */
TJ_API tj_tensor *tj_topk(tj_tensor *x, int64_t k, int axis, bool largest, tj_tensor **indices);
TJ_API tj_tensor *tj_topk_at(const char *site, tj_tensor *x, int64_t k, int axis, bool largest, tj_tensor **indices);
#define tj_topk(x, k, axis, largest, indices) tj_topk_at(TJ_SITE, x, k, axis, largest, indices)
/* tj_topk([3, 1, 2], 2, 0, true, &indices) = [3, 2], [0, 2] */

/* the elements that ascending sort has at the places place[..i..] of the axis, and where each was, without sorting all of it if they are
 * few; place is an index as that of gather, with as many axes as x. Returns the values; NULL for indices if not wanted */
TJ_API tj_tensor *tj_take_sorted(tj_tensor *x, tj_tensor *place, int axis, tj_tensor **indices);
TJ_API tj_tensor *tj_take_sorted_at(const char *site, tj_tensor *x, tj_tensor *place, int axis, tj_tensor **indices);
#define tj_take_sorted(x, place, axis, indices) tj_take_sorted_at(TJ_SITE, x, place, axis, indices)
/* tj_take_sorted([3, 1, 2], [2, 0], 0, &indices) = [3, 1], [0, 1] */

/* the index at which each value would be inserted into sorted, an ascending last axis, to keep it so: before the elements equal to it, or
 * behind them if right. sorted is 1-d, or has the leading sizes of values */
TJ_API tj_tensor *tj_searchsorted(tj_tensor *sorted, tj_tensor *values, bool right);
TJ_API tj_tensor *tj_searchsorted_at(const char *site, tj_tensor *sorted, tj_tensor *values, bool right);
#define tj_searchsorted(sorted, values, right) tj_searchsorted_at(TJ_SITE, sorted, values, right)
/* tj_searchsorted([1, 3, 5], [3, 4], false) = [1, 2] */

/* L, lower triangular, of a symmetric positive definite matrix a = L L', in the last two axes; the lower triangle of a is read. Another
 * matrix is an error with its number in the batch */
TJ_API tj_tensor *tj_cholesky(tj_tensor *x);
TJ_API tj_tensor *tj_cholesky_at(const char *site, tj_tensor *x);
#define tj_cholesky(x) tj_cholesky_at(TJ_SITE, x) /* tj_cholesky([[4., 2.], [2., 5.]]) = [[2., 0.], [1., 2.]] */

/* x of a x = b; a [...,n,n] is lower triangular, what is above its diagonal is not read; b [...,n,k]; the other sizes are equal. unit: the
 * diagonal counts as 1. A 0 on the diagonal gives inf or NaN */
TJ_API tj_tensor *tj_solve_lower(tj_tensor *a, tj_tensor *b, bool unit);
TJ_API tj_tensor *tj_solve_lower_at(const char *site, tj_tensor *a, tj_tensor *b, bool unit);
#define tj_solve_lower(a, b, unit) tj_solve_lower_at(TJ_SITE, a, b, unit)
/* tj_solve_lower([[2., 0.], [1., 4.]], [[2.], [9.]], false) = [[1.], [2.]] */

/* a [...,m,n] = P L U with partial pivoting, as [...,m,n + 1]: U on and above the diagonal, L below it, without its diagonal of ones; in
 * the last column for each row of L U the row of a that it is. tj_lu() takes it apart */
TJ_API tj_tensor *tj_lu_packed(tj_tensor *x);
TJ_API tj_tensor *tj_lu_packed_at(const char *site, tj_tensor *x);
#define tj_lu_packed(x) tj_lu_packed_at(TJ_SITE, x) /* tj_lu_packed([[1., 2.], [2., 6.]]) = [[2., 6., 1.], [0.5, -1., 0.]] */

/* a [...,m,n] = Q R by Householder's reflections, as [...,m + n,k], k = min(m, n): Q, and below it R'; the diagonal of R has the sign
 * opposite to that of the pivot. tj_qr() takes it apart */
TJ_API tj_tensor *tj_qr_packed(tj_tensor *x);
TJ_API tj_tensor *tj_qr_packed_at(const char *site, tj_tensor *x);
#define tj_qr_packed(x) tj_qr_packed_at(TJ_SITE, x) /* tj_qr_packed([[3.], [4.]]) = [[-0.6], [-0.8], [-5.]] */

/* eigenvectors of a symmetric matrix a [...,n,n], whose lower triangle is read, and below them the eigenvalues, ascending: a = V diag(l)
 * V', as [...,n + 1,n]; the sign of a vector: docs/LINALG.md. inf or NaN in a matrix gives NaN. zero: in gradients, terms between equal
 * eigenvalues are 0, not inf or NaN. tj_eigh() takes it apart */
TJ_API tj_tensor *tj_eigh_packed(tj_tensor *x, bool zero);
TJ_API tj_tensor *tj_eigh_packed_at(const char *site, tj_tensor *x, bool zero);
#define tj_eigh_packed(x, zero) tj_eigh_packed_at(TJ_SITE, x, zero)
/* tj_eigh_packed([[2., 0.], [0., 1.]], false) = [[0., 1.], [1., 0.], [1., 2.]] */

/* a [...,m,n] = U diag(s) V', as [...,m + n + 1,k], k = min(m, n): U, V, and below them the singular values, descending; the sign of a pair
 * of vectors: docs/LINALG.md. inf or NaN in a matrix gives NaN. zero: as in tj_eigh_packed(). tj_svd() takes it apart */
TJ_API tj_tensor *tj_svd_packed(tj_tensor *x, bool zero);
TJ_API tj_tensor *tj_svd_packed_at(const char *site, tj_tensor *x, bool zero);
#define tj_svd_packed(x, zero) tj_svd_packed_at(TJ_SITE, x, zero) /* tj_svd_packed([[3.], [4.]], false) = [[0.6], [0.8], [1.], [5.]] */

/* matrix product; batch axes broadcast; 1-d operands as in NumPy; integers keep their dtype and wrap (cast i8 to i32 first), bf16 and f16
 * add in f32 and round once; the order of its sums is in NUMERICS.md */
TJ_API tj_tensor *tj_matmul(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_matmul_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_matmul(a, b) tj_matmul_at(TJ_SITE, a, b) /* tj_matmul([[1, 2], [3, 4]], [[5], [6]]) = [[17], [39]] */

/* y[i,:] = sum over e from offsets[i] to before offsets[i + 1] of a[e] * b[columns[e],:], added in this order: offsets [...,m + 1], columns
 * and a [...,s], b [...,n,k], with equal leading sizes. Offsets ascend, within 0 and s; else it is an error, as a column out of range is.
 * tj_csr_matmul() takes more */
TJ_API tj_tensor *tj_csr_product(tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_csr_product_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b);
#define tj_csr_product(offsets, columns, a, b) tj_csr_product_at(TJ_SITE, offsets, columns, a, b)
/* tj_csr_product([0, 1, 3], [1, 0, 1], [5., 6., 7.], [[1.], [10.]]) = [[50.], [76.]] */

/* y[columns[e],:] = sum over the elements e of row i of a[e] * b[i,:], rows in their order: as csr_product, but b is [...,m,k], y
 * [...,n,k] */
TJ_API tj_tensor *tj_csr_product_transposed(tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b, int64_t n);
TJ_API tj_tensor *tj_csr_product_transposed_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b,
                                               int64_t n);
#define tj_csr_product_transposed(offsets, columns, a, b, n) tj_csr_product_transposed_at(TJ_SITE, offsets, columns, a, b, n)
/* tj_csr_product_transposed([0, 1, 3], [1, 0, 1], [5., 6., 7.], [[1.], [10.]], 2) = [[60.], [75.]] */

/* y[e] = sum over k of a[i,k] * b[columns[e],k] for the elements e of row i, 0 for those of no row: a [...,m,k], b [...,n,k], y [...,s]. 16
 * partial sums, of every 16th product, whose halves are then added */
TJ_API tj_tensor *tj_csr_sampled_product(tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_csr_sampled_product_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b);
#define tj_csr_sampled_product(offsets, columns, a, b) tj_csr_sampled_product_at(TJ_SITE, offsets, columns, a, b)
/* tj_csr_sampled_product([0, 1, 2], [1, 0], [[1., 2.], [3., 4.]], [[1., 2.], [10., 20.]]) = [50., 11.] */

/* cross-correlation: y[n,o,i] = sum over c, j of x[n,c,i * stride + j * dilation - pad] * weight[o,c,j]; x is [N,C,...], weight [O,C /
 * groups,...]; group g of the channels o takes group g of the channels c. Padding counts as 0, so an infinite weight over it gives NaN */
TJ_API tj_tensor *tj_conv(tj_tensor *x, tj_tensor *weight, int64_t groups, tj_dims window);
TJ_API tj_tensor *tj_conv_at(const char *site, tj_tensor *x, tj_tensor *weight, int64_t groups, tj_dims window);
#define tj_conv(x, weight, groups, window) tj_conv_at(TJ_SITE, x, weight, groups, window)
/* tj_conv([[[1., 2., 3., 4.]]], [[[1., -1.]]], 1, TJ_SHAPE(1, 1, 0, 0)) = [[[-1., -1., -1.]]] */

/* the gradient of conv by x: element i of x adds x[n,c,i] * weight[c,o,j] to y[n,o,i * stride + j * dilation - pad]; weight is [C,O /
 * groups,...]. Where no element is it counts as 0, so an infinite weight may give NaN */
TJ_API tj_tensor *tj_conv_transpose(tj_tensor *x, tj_tensor *weight, int64_t groups, tj_dims window);
TJ_API tj_tensor *tj_conv_transpose_at(const char *site, tj_tensor *x, tj_tensor *weight, int64_t groups, tj_dims window);
#define tj_conv_transpose(x, weight, groups, window) tj_conv_transpose_at(TJ_SITE, x, weight, groups, window)
/* tj_conv_transpose([[[1., 2.]]], [[[1., 10.]]], 1, TJ_SHAPE(1, 1, 0, 0)) = [[[1., 12., 20.]]] */

/* the largest element of each window; NaN if any is NaN; padding counts as the least value. ceil: also the last window that only begins
 * inside. The gradient goes to the first largest element */
TJ_API tj_tensor *tj_max_pool(tj_tensor *x, tj_dims window, bool ceil);
TJ_API tj_tensor *tj_max_pool_at(const char *site, tj_tensor *x, tj_dims window, bool ceil);
#define tj_max_pool(x, window, ceil) tj_max_pool_at(TJ_SITE, x, window, ceil)
/* tj_max_pool([[[1., 3., 2., 4.]]], TJ_SHAPE(2, 2, 1, 0, 0), false) = [[[3., 4.]]] */

/* the sum of each window, padded with zeros, / divisor; 0: / the number of elements and of zeros that were asked for; -1: / the number of
 * elements */
TJ_API tj_tensor *tj_avg_pool(tj_tensor *x, tj_dims window, bool ceil, int64_t divisor);
TJ_API tj_tensor *tj_avg_pool_at(const char *site, tj_tensor *x, tj_dims window, bool ceil, int64_t divisor);
#define tj_avg_pool(x, window, ceil, divisor) tj_avg_pool_at(TJ_SITE, x, window, ceil, divisor)
/* tj_avg_pool([[[1., 3., 2., 4.]]], TJ_SHAPE(2, 2, 1, 0, 0), false, 0) = [[[2., 3.]]] */

/* y[..i..] = a[..index[..i..]..] along an axis; without axes a or the index counts as [1], also in the next ones */
TJ_API tj_tensor *tj_gather(tj_tensor *x, int axis, tj_tensor *index);
TJ_API tj_tensor *tj_gather_at(const char *site, tj_tensor *x, int axis, tj_tensor *index);
#define tj_gather(x, axis, index) tj_gather_at(TJ_SITE, x, axis, index) /* tj_gather([[1, 2], [3, 4]], 1, [[1], [0]]) = [[2], [3]] */

/* the slices index[] along an axis; of a 0-d a the one element, 0-d */
TJ_API tj_tensor *tj_index_select(tj_tensor *x, int axis, tj_tensor *index);
TJ_API tj_tensor *tj_index_select_at(const char *site, tj_tensor *x, int axis, tj_tensor *index);
#define tj_index_select(x, axis, index) tj_index_select_at(TJ_SITE, x, axis, index)
/* tj_index_select([10, 20, 30], 0, [2, 0]) = [30, 10] */

/* a[index, :]; has the shape of the index and one more axis */
TJ_API tj_tensor *tj_embedding(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_embedding_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_embedding(a, b) tj_embedding_at(TJ_SITE, a, b) /* tj_embedding([[1., 2.], [3., 4.]], [1, 0]) = [[3., 4.], [1., 2.]] */

/* y is a copy of a; then y[..index[..i..]..] += src[..i..] in the order of the index. All have one rank; along no axis is the index longer
 * than src, nor, but for the given axis, than a: elements of src beyond the index are not used */
TJ_API tj_tensor *tj_scatter_add(tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_scatter_add_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
#define tj_scatter_add(x, axis, index, src) tj_scatter_add_at(TJ_SITE, x, axis, index, src)
/* tj_scatter_add([0, 0, 0], 0, [1, 1, 2], [5, 6, 7]) = [0, 11, 7] */

/* as scatter_add, but src[..i..] takes the place of the element: of several for one element the last in the order of the index stays, and
 * has the gradient */
TJ_API tj_tensor *tj_scatter(tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_scatter_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
#define tj_scatter(x, axis, index, src) tj_scatter_at(TJ_SITE, x, axis, index, src)
/* tj_scatter([0, 0, 0], 0, [1, 1, 2], [5, 6, 7]) = [0, 6, 7] */

/* as scatter_add, but the element is multiplied by src[..i..] */
TJ_API tj_tensor *tj_scatter_prod(tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_scatter_prod_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
#define tj_scatter_prod(x, axis, index, src) tj_scatter_prod_at(TJ_SITE, x, axis, index, src)
/* tj_scatter_prod([1, 1, 1], 0, [1, 1, 2], [5, 6, 7]) = [1, 30, 7] */

/* as scatter_add, but the larger of the element and src[..i..] stays; NaN counts as largest; those that are equal share the gradient */
TJ_API tj_tensor *tj_scatter_amax(tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_scatter_amax_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
#define tj_scatter_amax(x, axis, index, src) tj_scatter_amax_at(TJ_SITE, x, axis, index, src)
/* tj_scatter_amax([0, 0, 9], 0, [1, 1, 2], [5, 6, 7]) = [0, 6, 9] */

/* as scatter_add, but the smaller of the element and src[..i..] stays; NaN counts as smallest; those that are equal share the gradient */
TJ_API tj_tensor *tj_scatter_amin(tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_scatter_amin_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
#define tj_scatter_amin(x, axis, index, src) tj_scatter_amin_at(TJ_SITE, x, axis, index, src)
/* tj_scatter_amin([9, 9, 0], 0, [1, 1, 2], [5, 6, 7]) = [9, 5, 0] */

/* 1 at the index, else 0, along a new last axis of size n; the dtype is i64 */
TJ_API tj_tensor *tj_one_hot(tj_tensor *index, int64_t n);
TJ_API tj_tensor *tj_one_hot_at(const char *site, tj_tensor *index, int64_t n);
#define tj_one_hot(index, n) tj_one_hot_at(TJ_SITE, index, n) /* tj_one_hot([2, 0], 3) = [[0, 0, 1], [1, 0, 0]] */

/* every element is a number or a 0-d tensor; a number that the dtype cannot hold is an error */
TJ_API tj_tensor *tj_full(tj_dtype dtype, tj_dims shape, tj_tensor *value);
TJ_API tj_tensor *tj_full_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *value);
#define tj_full(dtype, shape, value) tj_full_at(TJ_SITE, dtype, shape, value) /* tj_full(TJ_F32, TJ_SHAPE(2), tj_f(0.5)) = [0.5, 0.5] */

/* start, start + step, ... before stop; a value beyond the range of the dtype is an error */
TJ_API tj_tensor *tj_arange(tj_dtype dtype, int64_t start, int64_t stop, int64_t step);
TJ_API tj_tensor *tj_arange_at(const char *site, tj_dtype dtype, int64_t start, int64_t stop, int64_t step);
#define tj_arange(dtype, start, stop, step) tj_arange_at(TJ_SITE, dtype, start, stop, step) /* tj_arange(TJ_I64, 1, 6, 2) = [1, 3, 5] */

/* 1 on the diagonal, else 0 */
TJ_API tj_tensor *tj_eye(tj_dtype dtype, int64_t n, int64_t m);
TJ_API tj_tensor *tj_eye_at(const char *site, tj_dtype dtype, int64_t n, int64_t m);
#define tj_eye(dtype, n, m) tj_eye_at(TJ_SITE, dtype, n, m) /* tj_eye(TJ_I64, 2, 3) = [[1, 0, 0], [0, 1, 0]] */

/* random numbers in [0, 1), from Philox */
TJ_API tj_tensor *tj_uniform(tj_dtype dtype, tj_dims shape);
TJ_API tj_tensor *tj_uniform_at(const char *site, tj_dtype dtype, tj_dims shape);
#define tj_uniform(dtype, shape) tj_uniform_at(TJ_SITE, dtype, shape) /* tj_floor(tj_uniform(TJ_F32, TJ_SHAPE(3))) = [0., 0., 0.] */

/* normally distributed random numbers, mean 0, variance 1, from Philox */
TJ_API tj_tensor *tj_normal(tj_dtype dtype, tj_dims shape);
TJ_API tj_tensor *tj_normal_at(const char *site, tj_dtype dtype, tj_dims shape);
#define tj_normal(dtype, shape) tj_normal_at(TJ_SITE, dtype, shape) /* tj_isfinite(tj_normal(TJ_F32, TJ_SHAPE(2))) = [true, true] */

/* the result of a C function of the program, see tj_host_function() */
TJ_API tj_tensor *tj_host_call(tj_dtype dtype, tj_dims shape, int64_t function, tj_list in);
TJ_API tj_tensor *tj_host_call_at(const char *site, tj_dtype dtype, tj_dims shape, int64_t function, tj_list in);
#define tj_host_call(dtype, shape, function, in) tj_host_call_at(TJ_SITE, dtype, shape, function, in)
/* no example: the function is the program's */

/* exp(a - max) / sum */
TJ_API tj_tensor *tj_softmax(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_softmax_at(const char *site, tj_tensor *x, int axis);
#define tj_softmax(x, axis) tj_softmax_at(TJ_SITE, x, axis) /* tj_softmax([0., 0., 0., 0.], 0) = [0.25, 0.25, 0.25, 0.25] */

/* a - max - log(sum(exp(a - max))) */
TJ_API tj_tensor *tj_log_softmax(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_log_softmax_at(const char *site, tj_tensor *x, int axis);
#define tj_log_softmax(x, axis) tj_log_softmax_at(TJ_SITE, x, axis) /* tj_log_softmax([1., 1.], 0) = [-0.6931, -0.6931] */

/* softmax(-a) */
TJ_API tj_tensor *tj_softmin(tj_tensor *x, int axis);
TJ_API tj_tensor *tj_softmin_at(const char *site, tj_tensor *x, int axis);
#define tj_softmin(x, axis) tj_softmin_at(TJ_SITE, x, axis) /* tj_softmin([0., 0., 1000.], 0) = [0.5, 0.5, 0.] */

/* a / max(sqrt(sum(a^2)), eps) along an axis */
TJ_API tj_tensor *tj_normalize(tj_tensor *x, int axis, double eps);
TJ_API tj_tensor *tj_normalize_at(const char *site, tj_tensor *x, int axis, double eps);
#define tj_normalize(x, axis, eps) tj_normalize_at(TJ_SITE, x, axis, eps) /* tj_normalize([3., 4.], 0, 1e-12) = [0.6, 0.8] */

/* (a - mean) / sqrt(var + eps) * weight + bias over the last axis */
TJ_API tj_tensor *tj_layer_norm(tj_tensor *x, tj_tensor *weight, tj_tensor *bias, double eps);
TJ_API tj_tensor *tj_layer_norm_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, double eps);
#define tj_layer_norm(x, weight, bias, eps) tj_layer_norm_at(TJ_SITE, x, weight, bias, eps)
/* tj_layer_norm([1., 2., 3.], [1., 1., 1.], [0., 0., 10.], 1e-5) = [-1.2247, 0., 11.2247] */

/* a / sqrt(mean(a^2) + eps) * weight over the last axis */
TJ_API tj_tensor *tj_rms_norm(tj_tensor *x, tj_tensor *weight, double eps);
TJ_API tj_tensor *tj_rms_norm_at(const char *site, tj_tensor *x, tj_tensor *weight, double eps);
#define tj_rms_norm(x, weight, eps) tj_rms_norm_at(TJ_SITE, x, weight, eps) /* tj_rms_norm([3., 4.], [1., 10.], 1e-6) = [0.8485, 11.3137] */

/* the operand itself, as a constant for tj_grad(): its gradient is 0 */
TJ_API tj_tensor *tj_stop_gradient(tj_tensor *x);
TJ_API tj_tensor *tj_stop_gradient_at(const char *site, tj_tensor *x);
#define tj_stop_gradient(x) tj_stop_gradient_at(TJ_SITE, x) /* tj_stop_gradient([1., 2.]) = [1., 2.] */

/* mean over rows of -log_softmax(a)[target]; a is [N,C], target [N] */
TJ_API tj_tensor *tj_cross_entropy(tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_cross_entropy_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_cross_entropy(a, b) tj_cross_entropy_at(TJ_SITE, a, b) /* tj_cross_entropy([[0., 0.], [0., 0.]], [0, 1]) = 0.6931 */
/* <<< ops */

/* ==== functions that are made of the ops above (functions/) ==== */

/* ---- reading and writing by index ------------------------------------------------------------------ */

/* Indices are integers of any width, or bool as 0 and 1; those out of range are an error. In the functions marked *, negative ones count
 * from the end. Of several sources for one element the last stays, or they are added in the order of the index: so the result is always
 * the same. src has the dtype of x. */
typedef enum tj_reduction { TJ_REDUCE_SUM, TJ_REDUCE_PROD, TJ_REDUCE_MEAN, TJ_REDUCE_AMAX, TJ_REDUCE_AMIN } tj_reduction;
/* tj_scatter_add() and its like, chosen by `how`. Without include_self the elements of x that get a source do not count. A mean of integers
 * is rounded down. */
TJ_API tj_tensor *tj_scatter_reduce_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src, tj_reduction how,
                                       bool include_self);
#define tj_scatter_reduce(x, axis, index, src, how, include_self) tj_scatter_reduce_at(TJ_SITE, x, axis, index, src, how, include_self)
/* tj_scatter_reduce([1, 2, 3], 0, [0, 0, 2], [5, 7, 9], TJ_REDUCE_MEAN, false) = [6, 2, 9] */
/* The index is 1-d or 0-d; 0-d x and src count as [1]. Slice index[i] of an axis of x is added to, becomes, or is joined with slice i of
 * src; or becomes a value *. */
TJ_API tj_tensor *tj_index_add_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_index_copy_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src);
TJ_API tj_tensor *tj_index_reduce_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src, tj_reduction how,
                                     bool include_self);
TJ_API tj_tensor *tj_index_fill_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *value);
#define tj_index_add(x, axis, index, src) tj_index_add_at(TJ_SITE, x, axis, index, src)
/* tj_index_add([1, 2, 3], 0, [2, 0], [10, 20]) = [21, 2, 13] */
#define tj_index_copy(x, axis, index, src) tj_index_copy_at(TJ_SITE, x, axis, index, src)
/* tj_index_copy([1, 2, 3], 0, [2, 0], [10, 20]) = [20, 2, 10] */
#define tj_index_reduce(x, axis, index, src, how, include_self) tj_index_reduce_at(TJ_SITE, x, axis, index, src, how, include_self)
/* tj_index_reduce([1, 2, 3], 0, [2, 2], [10, 20], TJ_REDUCE_AMAX, true) = [1, 2, 20] */
#define tj_index_fill(x, axis, index, value) tj_index_fill_at(TJ_SITE, x, axis, index, value)
/* tj_index_fill([1, 2, 3], 0, [0, -1], tj_i(9)) = [9, 2, 9] */
/* * x[i, j, ...], as in NumPy: the indices broadcast to one shape, which stands in the place of the axes that they are for: `axes`, or the
 * first ones (TJ_ALL). If these axes are not adjacent, it comes first. A bool mask counts for as many axes as it has, and gives its true
 * elements, as tj_nonzero() does: in a body, a boundary. index_put: x with `values`, which broadcast to the shape of tj_index(), at these
 * places; accumulate: added.
 *
 *   y = tj_index(x, TJ_ALL, TJ_LIST(rows, columns));        x[rows, columns]
 *   y = tj_index(x, TJ_AXES(1), TJ_LIST(i));                x[:, i]            */
TJ_API tj_tensor *tj_index_at(const char *site, tj_tensor *x, tj_dims axes, tj_list indices);
TJ_API tj_tensor *tj_index_put_at(const char *site, tj_tensor *x, tj_dims axes, tj_list indices, tj_tensor *values, bool accumulate);
#define tj_index(x, axes, indices) tj_index_at(TJ_SITE, x, axes, indices)
/* tj_index([[1, 2], [3, 4]], TJ_ALL, TJ_LIST([0, 1], [1, 1])) = [2, 4] */
#define tj_index_put(x, axes, indices, values, accumulate) tj_index_put_at(TJ_SITE, x, axes, indices, values, accumulate)
/* tj_index_put([[1, 2], [3, 4]], TJ_ALL, TJ_LIST([0, 1], [1, 1]), tj_i(9), false) = [[1, 9], [3, 9]] */
/* * By an index into all elements of x in row-major order. take has the shape of the index; src has one element for each of the index. */
TJ_API tj_tensor *tj_take_at(const char *site, tj_tensor *x, tj_tensor *index);
TJ_API tj_tensor *tj_put_at(const char *site, tj_tensor *x, tj_tensor *index, tj_tensor *src, bool accumulate);
#define tj_take(x, index) tj_take_at(TJ_SITE, x, index) /* tj_take([[1, 2], [3, 4]], [3, 0]) = [4, 1] */
#define tj_put(x, index, src, accumulate) tj_put_at(TJ_SITE, x, index, src, accumulate)
/* tj_put([[1, 2], [3, 4]], [3, 0], [30, 10], false) = [[10, 2], [3, 30]] */
/* * tj_gather() whose operands broadcast, but for the axis. TJ_END_DIM: by a 1-d index into all elements. */
TJ_API tj_tensor *tj_take_along_dim_at(const char *site, tj_tensor *x, tj_tensor *index, int64_t axis);
#define tj_take_along_dim(x, index, axis) tj_take_along_dim_at(TJ_SITE, x, index, axis)
/* tj_take_along_dim([[3, 1], [5, 7]], [[1, 0]], 1) = [[1, 3], [7, 5]] */
/* x; where the bool mask is true, the elements of src, in their order. Too few of them are an error. */
TJ_API tj_tensor *tj_masked_scatter_at(const char *site, tj_tensor *x, tj_tensor *mask, tj_tensor *src);
#define tj_masked_scatter(x, mask, src) tj_masked_scatter_at(TJ_SITE, x, mask, src)
/* tj_masked_scatter([1, 2, 3], [true, false, true], [10, 20]) = [10, 2, 20] */
/* * Index i of an axis, without that axis; `length` elements of an axis. */
TJ_API tj_tensor *tj_select_at(const char *site, tj_tensor *x, int axis, int64_t i);
TJ_API tj_tensor *tj_narrow_at(const char *site, tj_tensor *x, int axis, int64_t start, int64_t length);
#define tj_select(x, axis, i) tj_select_at(TJ_SITE, x, axis, i) /* tj_select([[1, 2], [3, 4]], 1, -1) = [2, 4] */
#define tj_narrow(x, axis, start, length) tj_narrow_at(TJ_SITE, x, axis, start, length) /* tj_narrow([1, 2, 3, 4], 0, 1, 2) = [2, 3] */
/* x with src in the place of what tj_slice() (of a positive step), tj_select() or tj_diagonal() shows. src broadcasts to its shape. */
TJ_API tj_tensor *tj_slice_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int axis, int64_t start, int64_t stop, int64_t step);
TJ_API tj_tensor *tj_select_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int axis, int64_t i);
TJ_API tj_tensor *tj_diagonal_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int64_t diagonal, int a, int b);
#define tj_slice_scatter(x, src, axis, start, stop, step) tj_slice_scatter_at(TJ_SITE, x, src, axis, start, stop, step)
/* tj_slice_scatter([1, 2, 3, 4], [10, 20], 0, 1, 3, 1) = [1, 10, 20, 4] */
#define tj_select_scatter(x, src, axis, i) tj_select_scatter_at(TJ_SITE, x, src, axis, i)
/* tj_select_scatter([[1, 2], [3, 4]], [10, 20], 0, 1) = [[1, 2], [10, 20]] */
#define tj_diagonal_scatter(x, src, diagonal, a, b) tj_diagonal_scatter_at(TJ_SITE, x, src, diagonal, a, b)
/* tj_diagonal_scatter([[1, 2], [3, 4]], [10, 20], 0, 0, 1) = [[10, 2], [3, 20]] */

/* The coordinates of places that count the elements of a tensor of this shape row by row: out[i] along axis i, i64, of the shape of the
 * index. The inverse of NumPy's ravel_multi_index(). A place out of range is an error. Returns the number of axes, 0 after an error. */
TJ_API int tj_unravel_index_at(const char *site, tj_tensor *index, tj_dims shape, tj_tensor **out);
#define tj_unravel_index(index, shape, out) tj_unravel_index_at(TJ_SITE, index, shape, out)
/* tj_unravel_index([5, 0, 3], TJ_SHAPE(2, 3), out) = [1, 0, 1], [2, 0, 0] */
/* tj_nonzero() and tj_unique() in results of `size` rows, so that they stay in the graph: what does not fit is left out, what is missing is
 * `fill` (PyTorch: -1; JAX: fill_value). count: how many rows are real, a 0-d i64; it may be NULL. Values have no gradient. */
TJ_API tj_tensor *tj_nonzero_static_at(const char *site, tj_tensor *x, int64_t size, int64_t fill, tj_tensor **count);
TJ_API tj_tensor *tj_unique_static_at(const char *site, tj_tensor *x, int64_t size, tj_tensor *fill, tj_tensor **count);
#define tj_nonzero_static(x, size, fill, count) tj_nonzero_static_at(TJ_SITE, x, size, fill, count)
/* tj_nonzero_static([[0, 5], [6, 0]], 3, -1, &count) = [[0, 1], [1, 0], [-1, -1]], 2 */
#define tj_unique_static(x, size, fill, count) tj_unique_static_at(TJ_SITE, x, size, fill, count)
/* tj_unique_static([3, 1, 3], 4, tj_i(9), &count) = [1, 3, 9, 9], 2 */

/* ---- shapes and joins ------------------------------------------------------------------------------ */

/* Views, under the names of PyTorch and NumPy. */
/* axis from[i] becomes axis to[i]; the others keep their order */
TJ_API tj_tensor *tj_movedim_at(const char *site, tj_tensor *x, tj_dims from, tj_dims to);
#define tj_moveaxis(x, from, to) tj_movedim(x, from, to) /* tj_moveaxis([[[1, 2, 3]]], TJ_AXES(2), TJ_AXES(0)) = [[[1]], [[2]], [[3]]] */
#define tj_swapaxes(x, a, b) tj_transpose(x, a, b) /* tj_swapaxes([[1, 2, 3]], 0, 1) = [[1], [2], [3]] */
#define tj_broadcast_to(x, shape) tj_expand(x, shape) /* tj_broadcast_to([1, 2], TJ_SHAPE(2, 2)) = [[1, 2], [1, 2]] */
#define tj_ravel(x) tj_reshape(x, TJ_SHAPE(-1)) /* tj_ravel([[1, 2], [3, 4]]) = [1, 2, 3, 4] */
#define tj_fliplr(x) tj_flip(x, TJ_AXES(1)) /* tj_fliplr([[1, 2], [3, 4]]) = [[2, 1], [4, 3]] */
#define tj_flipud(x) tj_flip(x, TJ_AXES(0)) /* tj_flipud([[1, 2], [3, 4]]) = [[3, 4], [1, 2]] */
#define tj_argwhere(x) tj_nonzero(x) /* tj_argwhere([[0, 5], [6, 0]]) = [[0, 1], [1, 0]] */
TJ_API tj_tensor *tj_atleast_1d_at(const char *site, tj_tensor *x);
TJ_API tj_tensor *tj_atleast_2d_at(const char *site, tj_tensor *x); /* [n] as [1,n] */
TJ_API tj_tensor *tj_atleast_3d_at(const char *site, tj_tensor *x); /* [n] as [1,n,1], [m,n] as [m,n,1] */
/* these axes and those between them as one; 0-d as [1] */
TJ_API tj_tensor *tj_flatten_at(const char *site, tj_tensor *x, int first, int last);
TJ_API tj_tensor *tj_unflatten_at(const char *site, tj_tensor *x, int axis, tj_dims sizes); /* an axis as several; one size may be -1 */
TJ_API tj_tensor *tj_expand_as_at(const char *site, tj_tensor *x, tj_tensor *like);
TJ_API tj_tensor *tj_view_as_at(const char *site, tj_tensor *x, tj_tensor *like);
/* turns the plane of two axes k times, from a towards b */
TJ_API tj_tensor *tj_rot90_at(const char *site, tj_tensor *x, int k, int a, int b);
TJ_API tj_tensor *tj_diag_at(const char *site, tj_tensor *x, int64_t diagonal); /* the diagonal of a matrix; the matrix of a diagonal */
TJ_API tj_tensor *tj_diagflat_at(const char *site, tj_tensor *x, int64_t diagonal); /* the matrix whose diagonal has all elements of x */
TJ_API tj_tensor *tj_block_diag_at(const char *site, tj_list list); /* the matrix with these matrices on its diagonal */
TJ_API tj_tensor *tj_hstack_at(const char *site, tj_list list); /* along axis 1; 1-d ones along axis 0 */
TJ_API tj_tensor *tj_vstack_at(const char *site, tj_list list); /* of tj_atleast_2d(), along axis 0 */
TJ_API tj_tensor *tj_dstack_at(const char *site, tj_list list); /* of tj_atleast_3d(), along axis 2 */
TJ_API tj_tensor *tj_column_stack_at(const char *site, tj_list list); /* 1-d ones as columns, along axis 1 */
#define tj_movedim(x, from, to) tj_movedim_at(TJ_SITE, x, from, to)
/* tj_movedim([[[1, 2]], [[3, 4]]], TJ_AXES(0), TJ_AXES(2)) = [[[1, 3], [2, 4]]] */
#define tj_atleast_1d(x) tj_atleast_1d_at(TJ_SITE, x) /* tj_atleast_1d(tj_i(3)) = [3] */
#define tj_atleast_2d(x) tj_atleast_2d_at(TJ_SITE, x) /* tj_atleast_2d([1, 2]) = [[1, 2]] */
#define tj_atleast_3d(x) tj_atleast_3d_at(TJ_SITE, x) /* tj_atleast_3d([1, 2]) = [[[1], [2]]] */
#define tj_flatten(x, first, last) tj_flatten_at(TJ_SITE, x, first, last) /* tj_flatten([[[1, 2]], [[3, 4]]], 1, 2) = [[1, 2], [3, 4]] */
#define tj_unflatten(x, axis, sizes) tj_unflatten_at(TJ_SITE, x, axis, sizes)
/* tj_unflatten([1, 2, 3, 4], 0, TJ_SHAPE(2, -1)) = [[1, 2], [3, 4]] */
#define tj_expand_as(x, like) tj_expand_as_at(TJ_SITE, x, like) /* tj_expand_as([1, 2], [[0, 0], [0, 0]]) = [[1, 2], [1, 2]] */
#define tj_view_as(x, like) tj_view_as_at(TJ_SITE, x, like) /* tj_view_as([1, 2, 3, 4], [[0, 0], [0, 0]]) = [[1, 2], [3, 4]] */
#define tj_rot90(x, k, a, b) tj_rot90_at(TJ_SITE, x, k, a, b) /* tj_rot90([[1, 2], [3, 4]], 1, 0, 1) = [[2, 4], [1, 3]] */
#define tj_diag(x, diagonal) tj_diag_at(TJ_SITE, x, diagonal) /* tj_diag([1, 2], 0) = [[1, 0], [0, 2]] */
#define tj_diagflat(x, diagonal) tj_diagflat_at(TJ_SITE, x, diagonal) /* tj_diagflat([[1, 2]], 1) = [[0, 1, 0], [0, 0, 2], [0, 0, 0]] */
#define tj_block_diag(list) tj_block_diag_at(TJ_SITE, list) /* tj_block_diag(TJ_LIST([[1, 2]], [[3]])) = [[1, 2, 0], [0, 0, 3]] */
#define tj_hstack(list) tj_hstack_at(TJ_SITE, list) /* tj_hstack(TJ_LIST([1, 2], [3])) = [1, 2, 3] */
#define tj_vstack(list) tj_vstack_at(TJ_SITE, list) /* tj_vstack(TJ_LIST([1, 2], [3, 4])) = [[1, 2], [3, 4]] */
#define tj_dstack(list) tj_dstack_at(TJ_SITE, list) /* tj_dstack(TJ_LIST([1, 2], [3, 4])) = [[[1, 3], [2, 4]]] */
#define tj_column_stack(list) tj_column_stack_at(TJ_SITE, list) /* tj_column_stack(TJ_LIST([1, 2], [3, 4])) = [[1, 3], [2, 4]] */
/* PyTorch's Tensor.repeat(): x as a whole, counts[i] times along axis i; as tj_tile(), but there is a count for each axis of x at least.
 * NumPy's repeat() is tj_repeat_interleave(). */
TJ_API tj_tensor *tj_repeat_at(const char *site, tj_tensor *x, tj_dims counts);
#define tj_repeat(x, counts) tj_repeat_at(TJ_SITE, x, counts) /* tj_repeat([1, 2], TJ_SHAPE(2, 2)) = [[1, 2, 1, 2], [1, 2, 1, 2]] */
/* Several results, in out[]. They return how many; 0 after an error, and then each of them is poison. */
TJ_API int tj_split_at(const char *site, tj_tensor *x, tj_dims sizes, int axis, tj_tensor **out); /* parts of these sizes */
/* at most n parts of one size, but for the last: size / n, rounded up. What is left of out becomes NULL */
TJ_API int tj_chunk_at(const char *site, tj_tensor *x, int n, int axis, tj_tensor **out);
/* tj_select() of each index of an axis of size n */
TJ_API int tj_unbind_at(const char *site, tj_tensor *x, int axis, int n, tj_tensor **out);
TJ_API int tj_broadcast_tensors_at(const char *site, tj_list list, tj_tensor **out);
/* out[i]: operand i, 1-d, along axis i of all of them; xy: the first two along axes 1 and 0 */
TJ_API int tj_meshgrid_at(const char *site, tj_list list, bool xy, tj_tensor **out);
#define tj_split(x, sizes, axis, out) tj_split_at(TJ_SITE, x, sizes, axis, out)
/* tj_split([1, 2, 3], TJ_SHAPE(1, 2), 0, out) = [1], [2, 3] */
#define tj_chunk(x, n, axis, out) tj_chunk_at(TJ_SITE, x, n, axis, out) /* tj_chunk([1, 2, 3, 4, 5], 2, 0, out) = [1, 2, 3], [4, 5] */
#define tj_unbind(x, axis, n, out) tj_unbind_at(TJ_SITE, x, axis, n, out) /* tj_unbind([[1, 2], [3, 4]], 1, 2, out) = [1, 3], [2, 4] */
#define tj_broadcast_tensors(list, out) tj_broadcast_tensors_at(TJ_SITE, list, out)
/* tj_broadcast_tensors(TJ_LIST([1, 2], [[3], [4]]), out) = [[1, 2], [1, 2]], [[3, 3], [4, 4]] */
#define tj_meshgrid(list, xy, out) tj_meshgrid_at(TJ_SITE, list, xy, out)
/* tj_meshgrid(TJ_LIST([1, 2], [3, 4]), false, out) = [[1, 1], [2, 2]], [[3, 4], [3, 4]] */

/* Made of numbers, on the device of the context. linspace: n numbers from start to stop, both exact, computed in f64 and rounded once;
 * logspace: base to their power. */
TJ_API tj_tensor *tj_linspace_at(const char *site, tj_dtype dtype, double start, double stop, int64_t n);
TJ_API tj_tensor *tj_logspace_at(const char *site, tj_dtype dtype, double start, double stop, int64_t n, double base);
#define tj_linspace(dtype, start, stop, n) tj_linspace_at(TJ_SITE, dtype, start, stop, n)
/* tj_linspace(TJ_F32, 0, 1, 5) = [0., 0.25, 0.5, 0.75, 1.] */
#define tj_logspace(dtype, start, stop, n, base) tj_logspace_at(TJ_SITE, dtype, start, stop, n, base)
/* tj_logspace(TJ_F32, 0, 2, 3, 10) = [1., 10., 100.] */
/* i64 [2,n]: rows and columns of the elements that tj_tril() and tj_triu() keep, row by row. */
TJ_API tj_tensor *tj_tril_indices_at(const char *site, int64_t rows, int64_t columns, int64_t offset);
TJ_API tj_tensor *tj_triu_indices_at(const char *site, int64_t rows, int64_t columns, int64_t offset);
/* [n,k]: each choice of one element of each of k 1-d tensors; of one tensor, itself */
TJ_API tj_tensor *tj_cartesian_prod_at(const char *site, tj_list list);
/* [n,r]: each choice of r elements of a 1-d x, in order of their places */
TJ_API tj_tensor *tj_combinations_at(const char *site, tj_tensor *x, int r, bool with_replacement);
/* [...,n]: the powers n - 1 to 0 of each element, or 0 to n - 1; integers become i64 */
TJ_API tj_tensor *tj_vander_at(const char *site, tj_tensor *x, int64_t n, bool increasing);
#define tj_tril_indices(rows, columns, offset) tj_tril_indices_at(TJ_SITE, rows, columns, offset)
/* tj_tril_indices(2, 2, 0) = [[0, 1, 1], [0, 0, 1]] */
#define tj_triu_indices(rows, columns, offset) tj_triu_indices_at(TJ_SITE, rows, columns, offset)
/* tj_triu_indices(2, 2, 0) = [[0, 0, 1], [0, 1, 1]] */
#define tj_cartesian_prod(list) tj_cartesian_prod_at(TJ_SITE, list)
/* tj_cartesian_prod(TJ_LIST([1, 2], [3, 4])) = [[1, 3], [1, 4], [2, 3], [2, 4]] */
#define tj_combinations(x, r, with_replacement) tj_combinations_at(TJ_SITE, x, r, with_replacement)
/* tj_combinations([1, 2, 3], 2, false) = [[1, 2], [1, 3], [2, 3]] */
#define tj_vander(x, n, increasing) tj_vander_at(TJ_SITE, x, n, increasing) /* tj_vander([2, 3], 3, false) = [[4, 2, 1], [9, 3, 1]] */

/* ---- statistics ------------------------------------------------------------------------------------ */

/* As in PyTorch. Results that are optional (NULL: not wanted) are the last parameters. An axis that may be TJ_END_DIM: then all elements
 * are one line. */
/* sqrt(tj_var()); at 0 its gradient is 0 */
TJ_API tj_tensor *tj_std_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim);
/* the variance */
TJ_API tj_tensor *tj_var_mean_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim, tj_tensor **mean);
TJ_API tj_tensor *tj_std_mean_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim, tj_tensor **mean);
/* tj_amin(), and tj_amax() */
TJ_API tj_tensor *tj_aminmax_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim, tj_tensor **most);
TJ_API tj_tensor *tj_nansum_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim); /* NaN counts as 0 */
/* of what is not NaN; NaN, if there is nothing else */
TJ_API tj_tensor *tj_nanmean_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_count_nonzero_at(const char *site, tj_tensor *x, tj_dims axes);
/* Of [variables, observations], or of observations of one variable. Of one variable it is 0-d. Integers become f32. 1 is the usual
 * correction. Weights of the observations (NULL: 1): fweights say how often each occurred, aweights how much it counts. fweights are
 * integers; a weight below 0 is an error, an index out of range. */
TJ_API tj_tensor *tj_cov_at(const char *site, tj_tensor *x, double correction, tj_tensor *fweights, tj_tensor *aweights);
TJ_API tj_tensor *tj_corrcoef_at(const char *site, tj_tensor *x);
#define tj_std(x, axes, correction, keepdim) tj_std_at(TJ_SITE, x, axes, correction, keepdim)
/* tj_std([1., 3., 5.], TJ_ALL, 1, false) = 2. */
#define tj_var_mean(x, axes, correction, keepdim, mean) tj_var_mean_at(TJ_SITE, x, axes, correction, keepdim, mean)
/* tj_var_mean([1., 3., 5.], TJ_ALL, 1, false, &mean) = 4., 3. */
#define tj_std_mean(x, axes, correction, keepdim, mean) tj_std_mean_at(TJ_SITE, x, axes, correction, keepdim, mean)
/* tj_std_mean([1., 3., 5.], TJ_ALL, 1, false, &mean) = 2., 3. */
#define tj_aminmax(x, axes, keepdim, most) tj_aminmax_at(TJ_SITE, x, axes, keepdim, most)
/* tj_aminmax([3, 1, 2], TJ_ALL, false, &most) = 1, 3 */
#define tj_nansum(x, axes, keepdim) tj_nansum_at(TJ_SITE, x, axes, keepdim) /* tj_nansum([1., nan, 2.], TJ_ALL, false) = 3. */
#define tj_nanmean(x, axes, keepdim) tj_nanmean_at(TJ_SITE, x, axes, keepdim) /* tj_nanmean([1., nan, 2.], TJ_ALL, false) = 1.5 */
#define tj_count_nonzero(x, axes) tj_count_nonzero_at(TJ_SITE, x, axes) /* tj_count_nonzero([0, 5, 6], TJ_ALL) = 2 */
#define tj_cov(x, correction, fweights, aweights) tj_cov_at(TJ_SITE, x, correction, fweights, aweights)
/* tj_cov([[1., 2., 3.], [3., 2., 1.]], 1, NULL, NULL) = [[1., -1.], [-1., 1.]] */
#define tj_corrcoef(x) tj_corrcoef_at(TJ_SITE, x) /* tj_corrcoef([[1., 2., 3.], [6., 4., 2.]]) = [[1., -1.], [-1., 1.]] */
/* Norms: p is 2, 1, INFINITY (the largest |x|), -INFINITY (the least), 0 (how many are not 0), or sum(|x|^p)^(1/p). At 0 the gradient is 0.
 * Integers become f32. */
TJ_API tj_tensor *tj_norm_at(const char *site, tj_tensor *x, double p, tj_dims axes, bool keepdim);
TJ_API tj_tensor *tj_dist_at(const char *site, tj_tensor *a, tj_tensor *b, double p); /* the norm of a - b */
/* the norm of a - b + eps along the last axis */
TJ_API tj_tensor *tj_pairwise_distance_at(const char *site, tj_tensor *a, tj_tensor *b, double p, double eps, bool keepdim);
/* slices of an axis whose norm is above `most` are scaled to it */
TJ_API tj_tensor *tj_renorm_at(const char *site, tj_tensor *x, double p, int axis, double most);
/* [...,M,N]: the norms between the rows of a [...,M,K] and of b [...,N,K]. EXACT sums powers of differences, without a loss. PRODUCT takes
 * a matrix product for p = 2, sqrt(|a|^2 + |b|^2 - 2 ab), which is faster for many rows but cancels: squares have an error of some units of
 * the last place of |a|^2 + |b|^2, so in f32 a distance below about 1e-3 of the size of its points is noise, and that of a point to itself
 * need not be 0. AUTO is PyTorch's choice: PRODUCT from 26 rows of a or b on. With .autocast all are EXACT. */
typedef enum tj_cdist_mode { TJ_CDIST_EXACT, TJ_CDIST_PRODUCT, TJ_CDIST_AUTO } tj_cdist_mode;
TJ_API tj_tensor *tj_cdist_at(const char *site, tj_tensor *a, tj_tensor *b, double p, tj_cdist_mode mode);
TJ_API tj_tensor *tj_pdist_at(const char *site, tj_tensor *x, double p); /* 1-d: those between rows i < j of a matrix */
/* sum(tj_normalize(a) * tj_normalize(b)) along an axis */
TJ_API tj_tensor *tj_cosine_similarity_at(const char *site, tj_tensor *a, tj_tensor *b, int axis, double eps);
#define tj_norm(x, p, axes, keepdim) tj_norm_at(TJ_SITE, x, p, axes, keepdim) /* tj_norm([3., 4.], 2, TJ_ALL, false) = 5. */
#define tj_dist(a, b, p) tj_dist_at(TJ_SITE, a, b, p) /* tj_dist([1., 2.], [4., 6.], 2) = 5. */
#define tj_pairwise_distance(a, b, p, eps, keepdim) tj_pairwise_distance_at(TJ_SITE, a, b, p, eps, keepdim)
/* tj_pairwise_distance([[1., 2.]], [[4., 6.]], 2, 0, false) = [5.] */
#define tj_renorm(x, p, axis, most) tj_renorm_at(TJ_SITE, x, p, axis, most)
/* tj_renorm([[3., 4.], [0., 1.]], 2, 0, 1) = [[0.6, 0.8], [0., 1.]] */
#define tj_cdist(a, b, p, mode) tj_cdist_at(TJ_SITE, a, b, p, mode)
/* tj_cdist([[0., 0.]], [[3., 4.], [0., 1.]], 2, TJ_CDIST_EXACT) = [[5., 1.]] */
#define tj_pdist(x, p) tj_pdist_at(TJ_SITE, x, p) /* tj_pdist([[0., 0.], [3., 4.], [0., 1.]], 2) = [5., 1., 4.2426] */
#define tj_cosine_similarity(a, b, axis, eps) tj_cosine_similarity_at(TJ_SITE, a, b, axis, eps)
/* tj_cosine_similarity([1., 0.], [1., 1.], 0, 1e-8) = 0.7071 */

/* Of sorted values. NaN is largest: a median, quantile or k-th value that meets it is NaN; `nan` leaves it out. Equal values keep their
 * order in `indices`. */
typedef enum tj_interpolation { TJ_LINEAR, TJ_LOWER, TJ_HIGHER, TJ_NEAREST, TJ_MIDPOINT } tj_interpolation;
/* the lower one of two in the middle; the index of NaN is its first */
TJ_API tj_tensor *tj_median_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
TJ_API tj_tensor *tj_nanmedian_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
/* the k-th smallest, from 1 */
TJ_API tj_tensor *tj_kthvalue_at(const char *site, tj_tensor *x, int64_t k, int64_t axis, bool keepdim, tj_tensor **indices);
/* the most frequent value, the smallest of several; its last index */
TJ_API tj_tensor *tj_mode_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices);
#define tj_median(x, axis, keepdim, indices) tj_median_at(TJ_SITE, x, axis, keepdim, indices)
/* tj_median([3, 1, 2, 4], 0, false, &indices) = 2, 2 */
#define tj_nanmedian(x, axis, keepdim, indices) tj_nanmedian_at(TJ_SITE, x, axis, keepdim, indices)
/* tj_nanmedian([3., nan, 1.], 0, false, &indices) = 1., 2 */
#define tj_kthvalue(x, k, axis, keepdim, indices) tj_kthvalue_at(TJ_SITE, x, k, axis, keepdim, indices)
/* tj_kthvalue([30, 10, 20], 2, 0, false, &indices) = 20, 2 */
#define tj_mode(x, axis, keepdim, indices) tj_mode_at(TJ_SITE, x, axis, keepdim, indices)
/* tj_mode([1, 2, 2, 3], 0, false, &indices) = 2, 2 */
/* q: a number or 0-d, or 1-d: then the results stand along a new first axis. Between two values as `how` says. A q beyond 0 to 1 is an
 * error of the index. */
TJ_API tj_tensor *tj_quantile_at(const char *site, tj_tensor *x, tj_tensor *q, int64_t axis, bool keepdim, tj_interpolation how);
TJ_API tj_tensor *tj_nanquantile_at(const char *site, tj_tensor *x, tj_tensor *q, int64_t axis, bool keepdim, tj_interpolation how);
#define tj_quantile(x, q, axis, keepdim, how) tj_quantile_at(TJ_SITE, x, q, axis, keepdim, how)
/* tj_quantile([1., 2., 3.], tj_f(0.25), TJ_END_DIM, false, TJ_LINEAR) = 1.5 */
#define tj_nanquantile(x, q, axis, keepdim, how) tj_nanquantile_at(TJ_SITE, x, q, axis, keepdim, how)
/* tj_nanquantile([1., nan, 3.], tj_f(0.5), TJ_END_DIM, false, TJ_LINEAR) = 2. */

/* Counts of a 1-d x of integers from 0; weights: what each adds (NULL: 1; integers become f64). length: of the result; then a larger x is
 * an error of the index. 0: the largest x and 1, at least minlength: in a body it is a boundary. */
TJ_API tj_tensor *tj_bincount_at(const char *site, tj_tensor *x, tj_tensor *weights, int64_t minlength, int64_t length);
/* counts, in the dtype of x, of bins of one width; an equal low and high: those of x. What lies beyond does not count */
TJ_API tj_tensor *tj_histc_at(const char *site, tj_tensor *x, int64_t bins, double low, double high);
#define tj_bincount(x, weights, minlength, length) tj_bincount_at(TJ_SITE, x, weights, minlength, length)
/* tj_bincount([0, 2, 2], NULL, 0, 4) = [1, 0, 2, 0] */
#define tj_histc(x, bins, low, high) tj_histc_at(TJ_SITE, x, bins, low, high) /* tj_histc([0., 1., 1., 4.], 4, 0, 4) = [1., 2., 0., 1.] */
/* Counts, or sums of weights, from each edge to the next, which counts only for the last bin; density: divided by their sum and the
 * widths. */
TJ_API tj_tensor *tj_histogram_at(const char *site, tj_tensor *x, tj_tensor *edges, tj_tensor *weights, bool density);
/* bins + 1 edges, for tj_histogram(); low and high both 0: those of x */
TJ_API tj_tensor *tj_histogram_bin_edges_at(const char *site, tj_tensor *x, int64_t bins, double low, double high);
#define tj_bucketize(x, boundaries, right) tj_searchsorted(boundaries, x, right) /* tj_bucketize([3, 4], [1, 3, 5], false) = [1, 2] */
/* 0-d bool: all of tj_isclose() */
TJ_API tj_tensor *tj_allclose_at(const char *site, tj_tensor *a, tj_tensor *b, double rtol, double atol, bool equal_nan);
TJ_API tj_tensor *tj_equal_at(const char *site, tj_tensor *a, tj_tensor *b); /* 0-d bool: one shape, and all elements are equal */
/* whether each element is one of the tests; NaN is none */
TJ_API tj_tensor *tj_isin_at(const char *site, tj_tensor *x, tj_tensor *tests, bool invert);
/* Of points x [...,n], in the bins of a grid: edges has an ascending 1-d tensor for each of n axes. A point beside the grid does not count.
 * As PyTorch's histogramdd() with edges. */
TJ_API tj_tensor *tj_histogramdd_at(const char *site, tj_tensor *x, tj_list edges, tj_tensor *weights, bool density);
#define tj_histogramdd(x, edges, weights, density) tj_histogramdd_at(TJ_SITE, x, edges, weights, density)
/* tj_histogramdd([[0.5, 1.], [1.5, 1.], [0.5, 1.]], TJ_LIST([0., 1., 2.], [0., 2.]), NULL, false) = [[2.], [1.]] */
#define tj_histogram(x, edges, weights, density) tj_histogram_at(TJ_SITE, x, edges, weights, density)
/* tj_histogram([0.5, 1.5, 2.], [0., 1., 2.], NULL, false) = [1., 2.] */
#define tj_histogram_bin_edges(x, bins, low, high) tj_histogram_bin_edges_at(TJ_SITE, x, bins, low, high)
/* tj_histogram_bin_edges([1., 5.], 2, 0, 0) = [1., 3., 5.] */
#define tj_allclose(a, b, rtol, atol, equal_nan) tj_allclose_at(TJ_SITE, a, b, rtol, atol, equal_nan)
/* tj_allclose([1., 2.], [1., 2.0001], 1e-3, 0, false) = true */
#define tj_equal(a, b) tj_equal_at(TJ_SITE, a, b) /* tj_equal([1, 2], [1, 3]) = false */
#define tj_isin(x, tests, invert) tj_isin_at(TJ_SITE, x, tests, invert) /* tj_isin([1, 2, 3], [3, 1], false) = [true, false, true] */
/* 1-d: one element of each run of equal ones of x, flattened. inverse: the run of each element; counts: how long each is. In a body it is a
 * boundary. */
TJ_API tj_tensor *tj_unique_consecutive_at(const char *site, tj_tensor *x, tj_tensor **inverse, tj_tensor **counts);
#define tj_unique_consecutive(x, inverse, counts) tj_unique_consecutive_at(TJ_SITE, x, inverse, counts)
/* tj_unique_consecutive([1, 1, 2, 1], &inverse, &counts) = [1, 2, 1], [0, 0, 1, 2], [2, 1, 1] */

/* Along an axis. spacing: the distance, a number; or coordinates, 1-d or of the shape of y. */
/* the n-th difference of neighbours, of x with `before` and `after` joined to it (NULL: nothing); of bool: whether they differ */
TJ_API tj_tensor *tj_diff_at(const char *site, tj_tensor *x, int n, int axis, tj_tensor *before, tj_tensor *after);
TJ_API tj_tensor *tj_trapezoid_at(const char *site, tj_tensor *y, tj_tensor *spacing, int axis); /* the integral of y by trapezoids */
/* up to each element but the first */
TJ_API tj_tensor *tj_cumulative_trapezoid_at(const char *site, tj_tensor *y, tj_tensor *spacing, int axis);
/* slopes: of the second order inside, of edge_order 1 or 2 at both ends; as in NumPy */
TJ_API tj_tensor *tj_gradient_at(const char *site, tj_tensor *x, tj_tensor *spacing, int axis, int edge_order);
#define tj_diff(x, n, axis, before, after) tj_diff_at(TJ_SITE, x, n, axis, before, after)
/* tj_diff([1, 4, 9], 1, 0, NULL, NULL) = [3, 5] */
#define tj_trapezoid(y, spacing, axis) tj_trapezoid_at(TJ_SITE, y, spacing, axis) /* tj_trapezoid([1., 2., 3.], tj_f(2), 0) = 8. */
#define tj_cumulative_trapezoid(y, spacing, axis) tj_cumulative_trapezoid_at(TJ_SITE, y, spacing, axis)
/* tj_cumulative_trapezoid([1., 2., 3.], tj_f(2), 0) = [3., 8.] */
#define tj_gradient(x, spacing, axis, edge_order) tj_gradient_at(TJ_SITE, x, spacing, axis, edge_order)
/* tj_gradient([1., 4., 9., 16.], tj_f(1), 0, 1) = [3., 4., 6., 7.] */

/* ---- products -------------------------------------------------------------------------------------- */

/* The sums of tj_matmul() have its order (docs/NUMERICS.md), the others that of tj_sum(). */
/* tj_matmul() of two matrices, of a matrix and a vector, of two batches of matrices, of two vectors */
TJ_API tj_tensor *tj_mm_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_mv_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_bmm_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_dot_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_vdot_at(const char *site, tj_tensor *a, tj_tensor *b); /* of all elements, in row-major order */
/* sum(a * b) along an axis, in the dtype of a * b */
TJ_API tj_tensor *tj_vecdot_at(const char *site, tj_tensor *a, tj_tensor *b, int axis);
TJ_API tj_tensor *tj_inner_at(const char *site, tj_tensor *a, tj_tensor *b); /* over the last axes of both */
TJ_API tj_tensor *tj_outer_at(const char *site, tj_tensor *a, tj_tensor *b); /* [m,n]: each element of a times each of b */
TJ_API tj_tensor *tj_kron_at(const char *site, tj_tensor *a, tj_tensor *b); /* the Kronecker product: each element of a times all of b */
TJ_API tj_tensor *tj_cross_at(const char *site, tj_tensor *a, tj_tensor *b, int axis); /* the vector product along an axis of size 3 */
/* the sum over axis axes_a[i] of a and axes_b[i] of b, for each i, which have one size, or one of them size 1; then the other axes of a,
 * and of b */
TJ_API tj_tensor *tj_tensordot_at(const char *site, tj_tensor *a, tj_tensor *b, tj_dims axes_a, tj_dims axes_b);
#define tj_mm(a, b) tj_mm_at(TJ_SITE, a, b) /* tj_mm([[1, 2], [3, 4]], [[5], [6]]) = [[17], [39]] */
#define tj_mv(a, b) tj_mv_at(TJ_SITE, a, b) /* tj_mv([[1, 2], [3, 4]], [5, 6]) = [17, 39] */
#define tj_bmm(a, b) tj_bmm_at(TJ_SITE, a, b) /* tj_bmm([[[1, 2]], [[3, 4]]], [[[5], [6]], [[7], [8]]]) = [[[17]], [[53]]] */
#define tj_dot(a, b) tj_dot_at(TJ_SITE, a, b) /* tj_dot([1, 2], [3, 4]) = 11 */
#define tj_vdot(a, b) tj_vdot_at(TJ_SITE, a, b) /* tj_vdot([1, 2], [3, 4]) = 11 */
#define tj_vecdot(a, b, axis) tj_vecdot_at(TJ_SITE, a, b, axis) /* tj_vecdot([[1, 2], [3, 4]], [[5, 6], [7, 8]], 1) = [17, 53] */
#define tj_inner(a, b) tj_inner_at(TJ_SITE, a, b) /* tj_inner([1, 2], [[3, 4], [5, 6]]) = [11, 17] */
#define tj_outer(a, b) tj_outer_at(TJ_SITE, a, b) /* tj_outer([1, 2], [3, 4]) = [[3, 4], [6, 8]] */
#define tj_kron(a, b) tj_kron_at(TJ_SITE, a, b) /* tj_kron([1, 2], [1, 10]) = [1, 10, 2, 20] */
#define tj_cross(a, b, axis) tj_cross_at(TJ_SITE, a, b, axis) /* tj_cross([1, 0, 0], [0, 1, 0], 0) = [0, 0, 1] */
#define tj_tensordot(a, b, axes_a, axes_b) tj_tensordot_at(TJ_SITE, a, b, axes_a, axes_b)
/* tj_tensordot([[1, 2], [3, 4]], [5, 6], TJ_AXES(0), TJ_AXES(0)) = [23, 34] */
/* beta * x + alpha * the product, to which x broadcasts; x does not count if beta is 0. addbmm: the sum of all products of the batch. addr
 * of bools is bool if beta is 0 or 1 and alpha is 1, else i64: beta and alpha are numbers, not bools. */
TJ_API tj_tensor *tj_addmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha);
TJ_API tj_tensor *tj_addmv_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha);
TJ_API tj_tensor *tj_addr_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha);
TJ_API tj_tensor *tj_addbmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha);
TJ_API tj_tensor *tj_baddbmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha);
/* the product of up to 64 matrices in the cheapest order; the first and the last may be vectors */
TJ_API tj_tensor *tj_multi_dot_at(const char *site, tj_list list);
#define tj_chain_matmul(list) tj_multi_dot(list) /* tj_chain_matmul(TJ_LIST([[1, 2]], [[3], [4]], [[2]])) = [[22]] */
TJ_API tj_tensor *tj_matrix_power_at(const char *site, tj_tensor *x, int n); /* n is 0 or more */
/* of the last two axes. 0: Frobenius; 1, -1: the largest, least sum of |x| in a column; INFINITY, -INFINITY: in a row; 2, -2: the largest,
 * least singular value */
TJ_API tj_tensor *tj_matrix_norm_at(const char *site, tj_tensor *x, double p, bool keepdim);
#define tj_addmm(x, a, b, beta, alpha) tj_addmm_at(TJ_SITE, x, a, b, beta, alpha)
/* tj_addmm([[1.]], [[1., 2.]], [[3.], [4.]], 10, 1) = [[21.]] */
#define tj_addmv(x, a, b, beta, alpha) tj_addmv_at(TJ_SITE, x, a, b, beta, alpha) /* tj_addmv([1.], [[1., 2.]], [3., 4.], 1, 2) = [23.] */
#define tj_addr(x, a, b, beta, alpha) tj_addr_at(TJ_SITE, x, a, b, beta, alpha) /* tj_addr([[0., 1.]], [1.], [3., 4.], 1, 1) = [[3., 5.]] */
#define tj_addbmm(x, a, b, beta, alpha) tj_addbmm_at(TJ_SITE, x, a, b, beta, alpha)
/* tj_addbmm([[1.]], [[[1.]], [[2.]]], [[[3.]], [[4.]]], 1, 1) = [[12.]] */
#define tj_baddbmm(x, a, b, beta, alpha) tj_baddbmm_at(TJ_SITE, x, a, b, beta, alpha)
/* tj_baddbmm([[[1.]], [[2.]]], [[[1.]], [[2.]]], [[[3.]], [[4.]]], 1, 1) = [[[4.]], [[10.]]] */
#define tj_multi_dot(list) tj_multi_dot_at(TJ_SITE, list) /* tj_multi_dot(TJ_LIST([[1, 2]], [[3], [4]], [[2]])) = [[22]] */
#define tj_matrix_power(x, n) tj_matrix_power_at(TJ_SITE, x, n) /* tj_matrix_power([[1, 1], [0, 1]], 3) = [[1, 3], [0, 1]] */
#define tj_matrix_norm(x, p, keepdim) tj_matrix_norm_at(TJ_SITE, x, p, keepdim) /* tj_matrix_norm([[1., -2.], [3., 4.]], 1, false) = 6. */

/* Sums of products in Einstein's notation, as in NumPy and PyTorch: a letter for each axis of each operand; the axes of the result behind
 * "->", or without it the letters that are there once, in the order of the alphabet. A letter twice in an operand is its diagonal; "..."
 * are further axes, which broadcast. Axes of size 1 broadcast, too.
 *
 *   y = tj_einsum("bij,bjk->bik", TJ_LIST(a, b), NULL);        products of matrices
 *   y = tj_einsum("...ii", TJ_LIST(a), NULL);                  diagonals
 *
 * Operands are joined pair by pair. A pair with common letters that the rest does not need, and at least one that only one of both has, is
 * a product of tj_matmul(); else it is a product element by element and tj_sum(). Before that, letters that nothing else has are summed.
 * Each step has the dtype of its operands, so narrow floats are rounded after each. The path says which pairs: by the number of
 * multiplications the best one (AUTO: for up to 8 operands), the one whose next result is smallest beside its operands (AUTO: for more), or
 * the first operand with the second, then the third, and so on. */
typedef enum tj_path { TJ_PATH_AUTO, TJ_PATH_GREEDY, TJ_PATH_OPTIMAL, TJ_PATH_IN_ORDER } tj_path;
typedef struct tj_einsum_opts {
	size_t size;
	tj_path path;
} tj_einsum_opts;
TJ_API tj_tensor *tj_einsum_at(const char *site, const char *equation, tj_list list, const tj_einsum_opts *opts);
#define tj_einsum(equation, list, opts) tj_einsum_at(TJ_SITE, equation, list, opts)
/* tj_einsum("ij,j->i", TJ_LIST([[1, 2], [3, 4]], [5, 6]), NULL) = [17, 39] */
/* The path as text, up to `size` bytes: a line "0 2: ij,jk->ik 60" for each pair (the second joins the first, whose number it has then),
 * and the sum of multiplications. Returns the length of the whole text, as snprintf() does; -1 on error. */
TJ_API int tj_einsum_path_at(const char *site, const char *equation, tj_list list, const tj_einsum_opts *opts, char *text, size_t size);
#define tj_einsum_path(equation, list, opts, text, size) tj_einsum_path_at(TJ_SITE, equation, list, opts, text, size)
/* no example: its result is text */

/* ---- parts of numbers, functions of math.h ------------------------------------------------------------ */

/* As in C and NumPy, element by element; exact. Integers become f32, unless it says otherwise. frexp: x = m 2^e, 0.5 <= |m| < 1; e is i32,
 * and 0 where x is 0, infinite or NaN. modf: the part behind the point, with the sign of x, and what tj_trunc() gives. logb: the exponent e
 * of |x| = m 2^e, 1 <= m < 2, as a float; -inf at 0. ilogb: as i32; the least i32 at 0 and NaN, the largest of infinities. remainder_ieee
 * is C's remainder(): a - n b, n the whole number nearest to the exact quotient, the even one of two; tj_remainder() is Python's.
 * tj_round() rounds ties to even, as C's rint() does. */
TJ_API tj_tensor *tj_fdim_at(const char *site, tj_tensor *a, tj_tensor *b); /* a - b, or 0 where a <= b; integers stay, and wrap */
/* tj_floor_divide() and tj_remainder(); integers stay */
TJ_API tj_tensor *tj_divmod_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor **remainder);
TJ_API tj_tensor *tj_remainder_ieee_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_frexp_at(const char *site, tj_tensor *x, tj_tensor **exponent);
TJ_API tj_tensor *tj_modf_at(const char *site, tj_tensor *x, tj_tensor **whole);
TJ_API tj_tensor *tj_logb_at(const char *site, tj_tensor *x);
TJ_API tj_tensor *tj_ilogb_at(const char *site, tj_tensor *x);
/* the distance to the next number away from 0, with the sign of x, as in NumPy */
TJ_API tj_tensor *tj_spacing_at(const char *site, tj_tensor *x);
TJ_API tj_tensor *tj_isposinf_at(const char *site, tj_tensor *x); /* x is +inf */
TJ_API tj_tensor *tj_isneginf_at(const char *site, tj_tensor *x); /* x is -inf */
/* tj_round(x * 10^decimals) / 10^decimals, as PyTorch's round(); decimals may be below 0. Integers stay: the nearest multiple, exact */
TJ_API tj_tensor *tj_round_decimals_at(const char *site, tj_tensor *x, int decimals);
#define tj_fdim(a, b) tj_fdim_at(TJ_SITE, a, b) /* tj_fdim([3., 1., -inf], [1., 3., -inf]) = [2., 0., 0.] */
#define tj_divmod(a, b, remainder) tj_divmod_at(TJ_SITE, a, b, remainder) /* tj_divmod([7, -7], [3, 3], &remainder) = [2, -3], [1, 2] */
#define tj_remainder_ieee(a, b) tj_remainder_ieee_at(TJ_SITE, a, b) /* tj_remainder_ieee([5., 7., 6.], [3., 4., 4.]) = [-1., -1., -2.] */
#define tj_frexp(x, exponent) tj_frexp_at(TJ_SITE, x, exponent) /* tj_frexp([6., -0.25, 0.], &exponent) = [0.75, -0.5, 0.], i32[3, -1, 0] */
#define tj_modf(x, whole) tj_modf_at(TJ_SITE, x, whole) /* tj_modf([2.5, -1.25], &whole) = [0.5, -0.25], [2., -1.] */
#define tj_logb(x) tj_logb_at(TJ_SITE, x) /* tj_logb([1., 10., 0.]) = [0., 3., -inf] */
#define tj_ilogb(x) tj_ilogb_at(TJ_SITE, x) /* tj_ilogb([1., 10., 0.25]) = i32[0, 3, -2] */
#define tj_spacing(x) tj_spacing_at(TJ_SITE, x) /* tj_spacing([16777216., -4194304.]) = [2., -0.5] */
#define tj_isposinf(x) tj_isposinf_at(TJ_SITE, x) /* tj_isposinf([1., inf, -inf]) = [false, true, false] */
#define tj_isneginf(x) tj_isneginf_at(TJ_SITE, x) /* tj_isneginf([1., inf, -inf]) = [false, false, true] */
#define tj_round_decimals(x, decimals) tj_round_decimals_at(TJ_SITE, x, decimals)
/* tj_round_decimals([1.25, 2.75, 1.26], 1) = [1.2, 2.8, 1.3] */
#define tj_sgn(x) tj_sign(x) /* tj_sgn([-3., 0., 5.]) = [-1., 0., 1.] */

/* ---- special functions, windows -------------------------------------------------------------------- */

/* tj_lgamma(), tj_digamma(), tj_polygamma(), tj_erfc(), tj_erfinv(), tj_ndtr(), tj_i0() and their like are ops: above. */
TJ_API tj_tensor *tj_entr_at(const char *site, tj_tensor *x); /* -x log(x); 0 at 0, -inf below */
/* log(x / (1 - x)), of x limited to eps .. 1 - eps; an eps below 0 does not limit */
TJ_API tj_tensor *tj_logit_at(const char *site, tj_tensor *x, double eps);
/* log of the gamma function of p x p matrices, for x > (p - 1) / 2 */
TJ_API tj_tensor *tj_multigammaln_at(const char *site, tj_tensor *x, int p);
/* The incomplete gamma functions, scipy's gammainc and gammaincc: the integral of t^(a - 1) e^-t / gamma(a) from 0 to x, and from x on. NaN
 * below 0. Computed in f64, to about 6e-14 of a result above 1e-12 and 5e-13 of the smallest ones (measured against mpmath, with a up to
 * 1e4), also where a is 1e10; rounded once. The gradient by x is right to any order, that by a is NaN (PyTorch: an error). Not in
 * `backward` of tj_custom_grad(). */
TJ_API tj_tensor *tj_igamma_at(const char *site, tj_tensor *a, tj_tensor *x);
TJ_API tj_tensor *tj_igammac_at(const char *site, tj_tensor *a, tj_tensor *x);
/* Hurwitz: the sum of (q + k)^-s, k from 0 on, for s > 1; q may be down to -12 if s is whole. tj_zeta(s, tj_f(1)) is Riemann's. In f64,
 * within 5e-15 of SciPy; rounded once */
TJ_API tj_tensor *tj_zeta_at(const char *site, tj_tensor *s, tj_tensor *q);
#define tj_igamma(a, x) tj_igamma_at(TJ_SITE, a, x) /* tj_igamma([1., 2.], [1., 2.]) = [0.6321, 0.594] */
#define tj_igammac(a, x) tj_igammac_at(TJ_SITE, a, x) /* tj_igammac([1., 2.], [1., 2.]) = [0.3679, 0.406] */
#define tj_zeta(s, q) tj_zeta_at(TJ_SITE, s, q) /* tj_zeta([2., 4.], tj_f(1)) = [1.6449, 1.0823] */
#define tj_entr(x) tj_entr_at(TJ_SITE, x) /* tj_entr([0., 0.5, -1.]) = [0., 0.3466, -inf] */
#define tj_logit(x, eps) tj_logit_at(TJ_SITE, x, eps) /* tj_logit([0.5, 0.9], -1) = [0., 2.1972] */
#define tj_multigammaln(x, p) tj_multigammaln_at(TJ_SITE, x, p) /* tj_multigammaln([2., 3.], 1) = [0., 0.6931] */

/* Orthogonal polynomials of degree n, 0 to 128, by their recurrences: PyTorch's special.* of the same names, for one n. Integers become
 * f32; f16 and bf16 are rounded once. chebyshev t, u: p[k + 1] = 2 x p[k] - p[k - 1], p[0] = 1, p[1] = x or 2 x; v, w: p[1] = 2 x - 1 or 2
 * x + 1; shifted: of 2 x - 1. hermite h: 2 x p[k] - 2 k p[k - 1]; he: x p[k] - k p[k - 1]. laguerre: ((2 k + 1 - x) p[k] - k p[k - 1]) / (k
 * + 1). legendre: ((2 k + 1) x p[k] - k p[k - 1]) / (k + 1). */
TJ_API tj_tensor *tj_chebyshev_polynomial_t_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_chebyshev_polynomial_u_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_chebyshev_polynomial_v_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_chebyshev_polynomial_w_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_shifted_chebyshev_polynomial_t_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_shifted_chebyshev_polynomial_u_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_shifted_chebyshev_polynomial_v_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_shifted_chebyshev_polynomial_w_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_hermite_polynomial_h_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_hermite_polynomial_he_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_laguerre_polynomial_l_at(const char *site, tj_tensor *x, int n);
TJ_API tj_tensor *tj_legendre_polynomial_p_at(const char *site, tj_tensor *x, int n);
#define tj_chebyshev_polynomial_t(x, n) tj_chebyshev_polynomial_t_at(TJ_SITE, x, n)
/* tj_chebyshev_polynomial_t([0.5, 2.], 3) = [-1., 26.] */
#define tj_chebyshev_polynomial_u(x, n) tj_chebyshev_polynomial_u_at(TJ_SITE, x, n)
/* tj_chebyshev_polynomial_u([0.5, 2.], 3) = [-1., 56.] */
#define tj_chebyshev_polynomial_v(x, n) tj_chebyshev_polynomial_v_at(TJ_SITE, x, n)
/* tj_chebyshev_polynomial_v([0.5, 2.], 3) = [-1., 41.] */
#define tj_chebyshev_polynomial_w(x, n) tj_chebyshev_polynomial_w_at(TJ_SITE, x, n)
/* tj_chebyshev_polynomial_w([0.5, 2.], 3) = [-1., 71.] */
#define tj_shifted_chebyshev_polynomial_t(x, n) tj_shifted_chebyshev_polynomial_t_at(TJ_SITE, x, n)
/* tj_shifted_chebyshev_polynomial_t([1., 2.], 3) = [1., 99.] */
#define tj_shifted_chebyshev_polynomial_u(x, n) tj_shifted_chebyshev_polynomial_u_at(TJ_SITE, x, n)
/* tj_shifted_chebyshev_polynomial_u([1., 2.], 3) = [4., 204.] */
#define tj_shifted_chebyshev_polynomial_v(x, n) tj_shifted_chebyshev_polynomial_v_at(TJ_SITE, x, n)
/* tj_shifted_chebyshev_polynomial_v([0.5, 2.], 3) = [1., 169.] */
#define tj_shifted_chebyshev_polynomial_w(x, n) tj_shifted_chebyshev_polynomial_w_at(TJ_SITE, x, n)
/* tj_shifted_chebyshev_polynomial_w([0.5, 2.], 3) = [-1., 239.] */
#define tj_hermite_polynomial_h(x, n) tj_hermite_polynomial_h_at(TJ_SITE, x, n) /* tj_hermite_polynomial_h([0.5, 2.], 3) = [-5., 40.] */
#define tj_hermite_polynomial_he(x, n) tj_hermite_polynomial_he_at(TJ_SITE, x, n)
/* tj_hermite_polynomial_he([0.5, 2.], 3) = [-1.375, 2.] */
#define tj_laguerre_polynomial_l(x, n) tj_laguerre_polynomial_l_at(TJ_SITE, x, n)
/* tj_laguerre_polynomial_l([0.5, 2.], 3) = [-0.1458, -0.3333] */
#define tj_legendre_polynomial_p(x, n) tj_legendre_polynomial_p_at(TJ_SITE, x, n)
/* tj_legendre_polynomial_p([0.5, 2.], 3) = [-0.4375, 17.] */

/* n values of a window on the device of the context, computed in f64 and rounded once. periodic: as if it had n + 1 values, of which the
 * last is left out: for transforms. Else the first and the last are equal. One value is 1. */
TJ_API tj_tensor *tj_hann_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic);
/* alpha - beta cos(2 pi i / (n - 1)); 0.54 and 0.46 are usual */
TJ_API tj_tensor *tj_hamming_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double alpha, double beta);
TJ_API tj_tensor *tj_blackman_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic);
TJ_API tj_tensor *tj_nuttall_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic);
/* a[0] - a[1] cos(x) + a[2] cos(2 x) - ... */
TJ_API tj_tensor *tj_general_cosine_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, const double *a, int count);
TJ_API tj_tensor *tj_bartlett_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic);
TJ_API tj_tensor *tj_kaiser_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double beta);
TJ_API tj_tensor *tj_gaussian_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double std);
TJ_API tj_tensor *tj_exponential_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double tau);
TJ_API tj_tensor *tj_cosine_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic);
#define tj_hann_window(dtype, n, periodic) tj_hann_window_at(TJ_SITE, dtype, n, periodic)
/* tj_hann_window(TJ_F32, 4, true) = [0., 0.5, 1., 0.5] */
#define tj_hamming_window(dtype, n, periodic, alpha, beta) tj_hamming_window_at(TJ_SITE, dtype, n, periodic, alpha, beta)
/* tj_hamming_window(TJ_F32, 4, true, 0.54, 0.46) = [0.08, 0.54, 1., 0.54] */
#define tj_blackman_window(dtype, n, periodic) tj_blackman_window_at(TJ_SITE, dtype, n, periodic)
/* tj_blackman_window(TJ_F32, 4, true) = [0., 0.34, 1., 0.34] */
#define tj_nuttall_window(dtype, n, periodic) tj_nuttall_window_at(TJ_SITE, dtype, n, periodic)
/* tj_nuttall_window(TJ_F32, 4, true) = [0.0004, 0.227, 1., 0.227] */
#define tj_general_cosine_window(dtype, n, periodic, a, count) tj_general_cosine_window_at(TJ_SITE, dtype, n, periodic, a, count)
/* tj_general_cosine_window(TJ_F32, 4, true, ((double[]){ 0.5, 0.5 }), 2) = [0., 0.5, 1., 0.5] */
#define tj_bartlett_window(dtype, n, periodic) tj_bartlett_window_at(TJ_SITE, dtype, n, periodic)
/* tj_bartlett_window(TJ_F32, 4, true) = [0., 0.5, 1., 0.5] */
#define tj_kaiser_window(dtype, n, periodic, beta) tj_kaiser_window_at(TJ_SITE, dtype, n, periodic, beta)
/* tj_kaiser_window(TJ_F32, 3, false, 1) = [0.7898, 1., 0.7898] */
#define tj_gaussian_window(dtype, n, periodic, std) tj_gaussian_window_at(TJ_SITE, dtype, n, periodic, std)
/* tj_gaussian_window(TJ_F32, 3, false, 1) = [0.6065, 1., 0.6065] */
#define tj_exponential_window(dtype, n, periodic, tau) tj_exponential_window_at(TJ_SITE, dtype, n, periodic, tau)
/* tj_exponential_window(TJ_F32, 3, false, 1) = [0.3679, 1., 0.3679] */
#define tj_cosine_window(dtype, n, periodic) tj_cosine_window_at(TJ_SITE, dtype, n, periodic)
/* tj_cosine_window(TJ_F32, 2, false) = [0.7071, 0.7071] */

/* ==== layers: functions that are made of the ones above (functions/) ==== */

/* ---- linear algebra ---------------------------------------------------------------------------------- */

/* torch.linalg's functions on matrices, the last two axes of f32 or f64 (f16 and bf16 are computed in f32); the others are a batch, and
 * broadcast. b: [...,n,k], or a vector [n] or [...,n] with a's batch. They have gradients of any order; docs/LINALG.md says how they are
 * computed.
 *
 * solve: a x = b, a singular matrix is an error. solve_triangular: a is triangular, the other triangle is not read; unit: its diagonal
 * counts as ones. cholesky_solve: l l' x = b. inv, det, slogdet: its first result is the sign. lu: p, l and u of a = p l u. lu_solve: with
 * tj_lu_packed(a), for several b. qr: q, and r. lstsq: the x with the least |a x - b|, of an a of full rank; if a has fewer rows than
 * columns, the shortest x of those with a x = b. matrix_exp. */
TJ_API tj_tensor *tj_solve_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_solve_triangular_at(const char *site, tj_tensor *a, tj_tensor *b, bool upper, bool unit);
TJ_API tj_tensor *tj_cholesky_solve_at(const char *site, tj_tensor *b, tj_tensor *l);
TJ_API tj_tensor *tj_inv_at(const char *site, tj_tensor *a);
TJ_API tj_tensor *tj_det_at(const char *site, tj_tensor *a);
TJ_API tj_tensor *tj_slogdet_at(const char *site, tj_tensor *a, tj_tensor **logabsdet);
TJ_API tj_tensor *tj_lu_at(const char *site, tj_tensor *a, tj_tensor **l, tj_tensor **u);
TJ_API tj_tensor *tj_lu_solve_at(const char *site, tj_tensor *packed, tj_tensor *b);
TJ_API tj_tensor *tj_qr_at(const char *site, tj_tensor *a, tj_tensor **r);
TJ_API tj_tensor *tj_lstsq_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_matrix_exp_at(const char *site, tj_tensor *a);
#define tj_solve(a, b) tj_solve_at(TJ_SITE, a, b) /* tj_solve([[2., 1.], [1., 3.]], [5., 10.]) = [1., 3.] */
#define tj_solve_triangular(a, b, upper, unit) tj_solve_triangular_at(TJ_SITE, a, b, upper, unit)
/* tj_solve_triangular([[2., 1.], [9., 4.]], [4., 8.], true, false) = [1., 2.] */
#define tj_cholesky_solve(b, l) tj_cholesky_solve_at(TJ_SITE, b, l) /* tj_cholesky_solve([4., 10.], [[2., 0.], [0., 5.]]) = [1., 0.4] */
#define tj_inv(a) tj_inv_at(TJ_SITE, a) /* tj_inv([[2., 0.], [0., 4.]]) = [[0.5, 0.], [0., 0.25]] */
#define tj_det(a) tj_det_at(TJ_SITE, a) /* tj_det([[0., 2.], [3., 1.]]) = -6. */
#define tj_slogdet(a, logabsdet) tj_slogdet_at(TJ_SITE, a, logabsdet)
/* tj_slogdet([[0., 1.], [1., 0.]], &logabsdet) = -1., 0. */
#define tj_lu(a, l, u) tj_lu_at(TJ_SITE, a, l, u)
/* tj_lu([[0., 2.], [4., 0.]], &l, &u) = [[0., 1.], [1., 0.]], [[1., 0.], [0., 1.]], [[4., 0.], [0., 2.]] */
#define tj_lu_solve(packed, b) tj_lu_solve_at(TJ_SITE, packed, b)
/* tj_lu_solve(tj_lu_packed([[2., 1.], [1., 3.]]), [5., 10.]) = [1., 3.] */
#define tj_qr(a, r) tj_qr_at(TJ_SITE, a, r) /* tj_qr([[3.], [4.]], &r) = [[-0.6], [-0.8]], [[-5.]] */
#define tj_lstsq(a, b) tj_lstsq_at(TJ_SITE, a, b) /* tj_lstsq([[1., 0.], [1., 1.], [1., 2.]], [1., 3., 5.]) = [1., 2.] */
#define tj_matrix_exp(a) tj_matrix_exp_at(TJ_SITE, a) /* tj_matrix_exp([[0., 0.], [0., 0.]]) = [[1., 0.], [0., 1.]] */

/* ---- Fourier transforms, complex numbers, signals ---------------------------------------------------- */

/* Complex numbers are pairs, real and imaginary part, along a last axis of size 2, as PyTorch's view_as_real(); docs/FFT.md says why. Axes
 * and sizes of what takes or gives pairs are those of the complex numbers: the axis of the pairs is not counted.
 *
 * complex: pairs of two parts, which broadcast. real_part, imag_part, conj. complex_abs: hypot(re, im). angle: atan2(im, re). polar: abs
 * cos(angle) and abs sin(angle). complex_mul: (x u - y v, x v + y u). complex_div: by Smith's algorithm, without overflow between.
 * complex_exp. */
TJ_API tj_tensor *tj_complex_at(const char *site, tj_tensor *re, tj_tensor *im);
TJ_API tj_tensor *tj_real_part_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_imag_part_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_conj_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_complex_abs_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_angle_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_polar_at(const char *site, tj_tensor *abs, tj_tensor *angle);
TJ_API tj_tensor *tj_complex_exp_at(const char *site, tj_tensor *z);
TJ_API tj_tensor *tj_complex_mul_at(const char *site, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_complex_div_at(const char *site, tj_tensor *a, tj_tensor *b);
#define tj_complex(re, im) tj_complex_at(TJ_SITE, re, im) /* tj_complex([1., 2.], [3., 4.]) = [[1., 3.], [2., 4.]] */
#define tj_real_part(z) tj_real_part_at(TJ_SITE, z) /* tj_real_part([[1., 3.], [2., 4.]]) = [1., 2.] */
#define tj_imag_part(z) tj_imag_part_at(TJ_SITE, z) /* tj_imag_part([[1., 3.], [2., 4.]]) = [3., 4.] */
#define tj_conj(z) tj_conj_at(TJ_SITE, z) /* tj_conj([1., 3.]) = [1., -3.] */
#define tj_complex_abs(z) tj_complex_abs_at(TJ_SITE, z) /* tj_complex_abs([3., 4.]) = 5. */
#define tj_angle(z) tj_angle_at(TJ_SITE, z) /* tj_angle([[1., 0.], [0., 2.]]) = [0., 1.5708] */
#define tj_polar(abs, angle) tj_polar_at(TJ_SITE, abs, angle) /* tj_polar([2.], [0.]) = [[2., 0.]] */
#define tj_complex_exp(z) tj_complex_exp_at(TJ_SITE, z) /* tj_complex_exp([0., 0.]) = [1., 0.] */
#define tj_complex_mul(a, b) tj_complex_mul_at(TJ_SITE, a, b) /* tj_complex_mul([1., 2.], [3., 4.]) = [-5., 10.] */
#define tj_complex_div(a, b) tj_complex_div_at(TJ_SITE, a, b) /* tj_complex_div([-5., 10.], [3., 4.]) = [1., 2.] */

/* Between equal eigenvalues or singular values vectors are not determined, and the gradient through them is inf or NaN, as in PyTorch; or,
 * with ZERO, the terms between values that differ by no more than rounding (max(m, n) eps times the largest) are 0. Gradients of values
 * alone are right in any case. */
typedef enum tj_degenerate { TJ_DEGENERATE_INF, TJ_DEGENERATE_ZERO } tj_degenerate;
typedef struct tj_spectral_opts {
	size_t size;
	bool upper;               /* eigh, eigvalsh: the upper triangle is read, not the lower one */
	tj_degenerate degenerate;
} tj_spectral_opts;
/* A singular value, or the absolute value of an eigenvalue, counts as 0 if it is no larger than atol or rtol times the largest, whichever
 * is more. Both 0: rtol is max(m, n) eps of the dtype. */
typedef struct tj_rank_opts {
	size_t size;
	double atol, rtol;
	bool hermitian;           /* x is symmetric; its lower triangle is read */
} tj_rank_opts;

/* Eigenvalues and singular values of matrices [...,m,n], of f32 and f64; f16 and bf16 are computed in f32. LAPACK or rotations of tjit
 * compute them (tj_open_opts.linalg); docs/LINALG.md has the sign of vectors. inf or NaN in a matrix gives NaN; an iteration that does not
 * converge is an error with the number of the matrix. opts: NULL for the defaults.
 * eigh: a symmetric [...,n,n] as V diag(l) V': l, ascending, [...,n]; *vectors, if it is not NULL: V, in columns. eigvalsh: l alone. svd: U
 * diag(s) V': U [...,m,k], k = min(m, n); *s: descending, [...,k]; *vt: V' [...,k,n]; either may be NULL. svdvals: s alone.
 * matrix_rank: i64. pinv: the pseudo-inverse [...,n,m]; its gradient takes the rank as constant. matrix_cond: p is 2: the largest singular
 * value by the least; -2: the reverse; 0: by Frobenius norms, of a square matrix. nuclear_norm: the sum of singular values. */
TJ_API tj_tensor *tj_eigh_at(const char *site, tj_tensor *x, const tj_spectral_opts *opts, tj_tensor **vectors);
TJ_API tj_tensor *tj_eigvalsh_at(const char *site, tj_tensor *x, const tj_spectral_opts *opts);
TJ_API tj_tensor *tj_svd_at(const char *site, tj_tensor *x, const tj_spectral_opts *opts, tj_tensor **s, tj_tensor **vt);
TJ_API tj_tensor *tj_svdvals_at(const char *site, tj_tensor *x);
TJ_API tj_tensor *tj_pinv_at(const char *site, tj_tensor *x, const tj_rank_opts *opts);
TJ_API tj_tensor *tj_matrix_rank_at(const char *site, tj_tensor *x, const tj_rank_opts *opts);
TJ_API tj_tensor *tj_matrix_cond_at(const char *site, tj_tensor *x, double p);
TJ_API tj_tensor *tj_nuclear_norm_at(const char *site, tj_tensor *x, bool keepdim);
#define tj_eigh(x, opts, vectors) tj_eigh_at(TJ_SITE, x, opts, vectors)
/* tj_eigh([[2., 0.], [0., 1.]], NULL, &vectors) = [1., 2.], [[0., 1.], [1., 0.]] */
#define tj_eigvalsh(x, opts) tj_eigvalsh_at(TJ_SITE, x, opts)
/* tj_eigvalsh([[2., 1.], [0., 2.]], TJ_OPTS(tj_spectral_opts, .upper = true)) = [1., 3.] */
#define tj_svd(x, opts, s, vt) tj_svd_at(TJ_SITE, x, opts, s, vt)
/* tj_svd([[3.], [4.]], NULL, &s, &vt) = [[0.6], [0.8]], [5.], [[1.]] */
#define tj_svdvals(x) tj_svdvals_at(TJ_SITE, x) /* tj_svdvals([[3., 0.], [0., -4.]]) = [4., 3.] */
#define tj_pinv(x, opts) tj_pinv_at(TJ_SITE, x, opts) /* tj_pinv([[2., 0.], [0., 0.]], NULL) = [[0.5, 0.], [0., 0.]] */
#define tj_matrix_rank(x, opts) tj_matrix_rank_at(TJ_SITE, x, opts) /* tj_matrix_rank([[1., 2.], [2., 4.]], NULL) = 1 */
#define tj_matrix_cond(x, p) tj_matrix_cond_at(TJ_SITE, x, p) /* tj_matrix_cond([[4., 0.], [0., -2.]], 2) = 2. */
#define tj_nuclear_norm(x, keepdim) tj_nuclear_norm_at(TJ_SITE, x, keepdim) /* tj_nuclear_norm([[4., 0.], [0., -2.]], false) = 6. */

/* The factor of a transform of n elements, and of its inverse: 1 and 1 / n; 1 / sqrt(n) both; 1 / n and 1. */
typedef enum tj_fft_norm { TJ_FFT_BACKWARD, TJ_FFT_ORTHO, TJ_FFT_FORWARD } tj_fft_norm;

/* torch.fft's functions. n: the operand is cut to so many elements, or zeros come behind it; 0: it stays. fft, ifft: pairs to pairs.
 * rfft: real numbers to the first n / 2 + 1 results, of which the others are the conjugates. irfft: such pairs to n real numbers; 0: 2
 * (pairs - 1). hfft: such pairs, of a signal, to its real spectrum; ihfft: back. fftn, ifftn, rfftn, irfftn: along several axes, the
 * last of them by rfft or irfft; fft2, ifft2, rfft2, irfft2: along the last two. sizes: one for each axis, or NULL; axes: TJ_ALL: all,
 * or with sizes as many of the last ones. For f32 and f64; f16 and bf16 are computed in f32, integers as f32.
 * fftfreq: 0, 1, ..., then the negative ones, over n d. rfftfreq: those of rfft. fftshift: frequency 0 comes into the middle; TJ_ALL:
 * along all axes, also that of pairs if there is one. */
TJ_API tj_tensor *tj_fft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_ifft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_rfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_irfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_hfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_ihfft_at(const char *site, tj_tensor *x, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_fftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims axes, tj_fft_norm norm);
TJ_API tj_tensor *tj_ifftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims axes, tj_fft_norm norm);
TJ_API tj_tensor *tj_rfftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims axes, tj_fft_norm norm);
TJ_API tj_tensor *tj_irfftn_at(const char *site, tj_tensor *x, tj_dims sizes, tj_dims axes, tj_fft_norm norm);
TJ_API tj_tensor *tj_fft2_at(const char *site, tj_tensor *x, tj_fft_norm norm);
TJ_API tj_tensor *tj_ifft2_at(const char *site, tj_tensor *x, tj_fft_norm norm);
TJ_API tj_tensor *tj_rfft2_at(const char *site, tj_tensor *x, tj_fft_norm norm);
TJ_API tj_tensor *tj_irfft2_at(const char *site, tj_tensor *x, tj_fft_norm norm);
TJ_API tj_tensor *tj_fftfreq_at(const char *site, tj_dtype dtype, int64_t n, double d);
TJ_API tj_tensor *tj_rfftfreq_at(const char *site, tj_dtype dtype, int64_t n, double d);
TJ_API tj_tensor *tj_fftshift_at(const char *site, tj_tensor *x, tj_dims axes);
TJ_API tj_tensor *tj_ifftshift_at(const char *site, tj_tensor *x, tj_dims axes);
#define tj_fft(x, n, axis, norm) tj_fft_at(TJ_SITE, x, n, axis, norm)
/* tj_fft([[1., 0.], [2., 0.], [3., 0.], [4., 0.]], 0, -1, TJ_FFT_BACKWARD) = [[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]] */
#define tj_ifft(x, n, axis, norm) tj_ifft_at(TJ_SITE, x, n, axis, norm)
/* tj_ifft([[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]], 0, 0, TJ_FFT_BACKWARD) = [[1., 0.], [2., 0.], [3., 0.], [4., 0.]] */
#define tj_rfft(x, n, axis, norm) tj_rfft_at(TJ_SITE, x, n, axis, norm)
/* tj_rfft([1., 2., 3.], 4, -1, TJ_FFT_BACKWARD) = [[6., 0.], [-2., -2.], [2., 0.]] */
#define tj_irfft(x, n, axis, norm) tj_irfft_at(TJ_SITE, x, n, axis, norm)
/* tj_irfft([[10., 0.], [-2., 2.], [-2., 0.]], 0, -1, TJ_FFT_BACKWARD) = [1., 2., 3., 4.] */
#define tj_hfft(x, n, axis, norm) tj_hfft_at(TJ_SITE, x, n, axis, norm)
/* tj_hfft([[1., 0.], [2., 0.], [3., 0.]], 0, -1, TJ_FFT_BACKWARD) = [8., -2., 0., -2.] */
#define tj_ihfft(x, n, axis, norm) tj_ihfft_at(TJ_SITE, x, n, axis, norm)
/* tj_ihfft([8., -2., 0., -2.], 0, -1, TJ_FFT_BACKWARD) = [[1., -0.], [2., -0.], [3., -0.]] */
#define tj_fftn(x, sizes, axes, norm) tj_fftn_at(TJ_SITE, x, sizes, axes, norm)
/* tj_fftn([[[1., 0.], [2., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[3., 0.], [-1., 0.]]] */
#define tj_ifftn(x, sizes, axes, norm) tj_ifftn_at(TJ_SITE, x, sizes, axes, norm)
/* tj_ifftn([[[3., 0.], [-1., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[1., 0.], [2., 0.]]] */
#define tj_rfftn(x, sizes, axes, norm) tj_rfftn_at(TJ_SITE, x, sizes, axes, norm)
/* tj_rfftn([[1., 2.], [3., 4.]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]] */
#define tj_irfftn(x, sizes, axes, norm) tj_irfftn_at(TJ_SITE, x, sizes, axes, norm)
/* tj_irfftn([[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[1., 2.], [3., 4.]] */
#define tj_fft2(x, norm) tj_fft2_at(TJ_SITE, x, norm)
/* tj_fft2([[[1., 0.], [2., 0.]], [[3., 0.], [4., 0.]]], TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]] */
#define tj_ifft2(x, norm) tj_ifft2_at(TJ_SITE, x, norm)
/* tj_ifft2([[[4., 0.], [0., 0.]], [[0., 0.], [0., 0.]]], TJ_FFT_BACKWARD) = [[[1., 0.], [1., 0.]], [[1., 0.], [1., 0.]]] */
#define tj_rfft2(x, norm) tj_rfft2_at(TJ_SITE, x, norm)
/* tj_rfft2([[1., 2.], [3., 4.]], TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]] */
#define tj_irfft2(x, norm) tj_irfft2_at(TJ_SITE, x, norm)
/* tj_irfft2([[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]], TJ_FFT_BACKWARD) = [[1., 2.], [3., 4.]] */
#define tj_fftfreq(dtype, n, d) tj_fftfreq_at(TJ_SITE, dtype, n, d) /* tj_fftfreq(TJ_F32, 4, 0.5) = [0., 0.5, -1., -0.5] */
#define tj_rfftfreq(dtype, n, d) tj_rfftfreq_at(TJ_SITE, dtype, n, d) /* tj_rfftfreq(TJ_F32, 4, 0.5) = [0., 0.5, 1.] */
#define tj_fftshift(x, axes) tj_fftshift_at(TJ_SITE, x, axes) /* tj_fftshift([0., 1., -2., -1.], TJ_ALL) = [-2., -1., 0., 1.] */
#define tj_ifftshift(x, axes) tj_ifftshift_at(TJ_SITE, x, axes) /* tj_ifftshift([-1., 0., 1.], TJ_ALL) = [0., 1., -1.] */

typedef struct tj_stft_opts {
	size_t size;
	int64_t hop;           /* from window to window; 0: n / 4 */
	int64_t length;        /* of the window, in the middle of the n elements; 0: n */
	tj_tensor *window;     /* f32 or f64 [length]; NULL: ones */
	bool not_centred;      /* the first window begins at element 0; else n / 2 elements are put before and behind the signal: */
	bool zeros;            /* zeros, not the signal, mirrored */
	bool both_sides;       /* all n frequencies, not n / 2 + 1 */
	bool normalized;       /* times 1 / sqrt(n) */
} tj_stft_opts;
typedef enum tj_convolve_mode { TJ_CONVOLVE_FULL, TJ_CONVOLVE_SAME, TJ_CONVOLVE_VALID } tj_convolve_mode;

/* stft: [n] or [N,n] to pairs [frequencies,windows,2], [N,...], as torch.stft(). istft: back to so many elements, 0: all that there are,
 * with the same options; an element without a window over it is an error. dct, idct: of type 2 or 3, as scipy.fft.dct: 2 sum of
 * x[j] cos(pi k (2j + 1) / 2n), and x[0] + 2 sum of x[j] cos(pi (2k + 1) j / 2n). hilbert: the analytic signal, as pairs; n as in tj_fft().
 * fft_convolve: along the last axis, by transforms; the others broadcast. FULL: n + m - 1 elements, SAME: the n in the middle, VALID: those
 * that need no zeros. It takes O(n log n), but its error is relative to the largest result, not to each. */
TJ_API tj_tensor *tj_stft_at(const char *site, tj_tensor *x, int64_t n, const tj_stft_opts *opts);
TJ_API tj_tensor *tj_istft_at(const char *site, tj_tensor *x, int64_t n, int64_t length, const tj_stft_opts *opts);
TJ_API tj_tensor *tj_dct_at(const char *site, tj_tensor *x, int type, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_idct_at(const char *site, tj_tensor *x, int type, int64_t n, int axis, tj_fft_norm norm);
TJ_API tj_tensor *tj_hilbert_at(const char *site, tj_tensor *x, int64_t n, int axis);
TJ_API tj_tensor *tj_fft_convolve_at(const char *site, tj_tensor *x, tj_tensor *kernel, tj_convolve_mode mode);
#define tj_stft(x, n, opts) tj_stft_at(TJ_SITE, x, n, opts)
/* tj_stft([1., 2., 3., 4.], 2, TJ_OPTS(tj_stft_opts, .hop = 2, .not_centred = true)) = [[[3., 0.], [7., 0.]], [[-1., 0.], [-1., 0.]]] */
#define tj_istft(x, n, length, opts) tj_istft_at(TJ_SITE, x, n, length, opts)
/* tj_istft([[[3., 0.]], [[-1., 0.]]], 2, 0, TJ_OPTS(tj_stft_opts, .hop = 2, .not_centred = true)) = [1., 2.] */
#define tj_dct(x, type, n, axis, norm) tj_dct_at(TJ_SITE, x, type, n, axis, norm)
/* tj_dct([1., 2., 3.], 2, 0, -1, TJ_FFT_BACKWARD) = [12., -3.4641, 0.] */
#define tj_idct(x, type, n, axis, norm) tj_idct_at(TJ_SITE, x, type, n, axis, norm)
/* tj_idct([12., -3.4641016, 0.], 2, 0, -1, TJ_FFT_BACKWARD) = [1., 2., 3.] */
#define tj_hilbert(x, n, axis) tj_hilbert_at(TJ_SITE, x, n, axis)
/* tj_hilbert([1., 0., -1., 0.], 0, -1) = [[1., 0.], [0., 1.], [-1., 0.], [0., -1.]] */
#define tj_fft_convolve(x, kernel, mode) tj_fft_convolve_at(TJ_SITE, x, kernel, mode)
/* tj_round(tj_fft_convolve([1., 2., 3.], [1., 1.], TJ_CONVOLVE_FULL)) = [1., 3., 5., 3.] */

/* ---- sparse matrices --------------------------------------------------------------------------------- */

/* A sparse matrix [m,n] is plain tensors, so that functions, files, tj_vmap() and plans take it like others; docs/SPARSE.md is a guide.
 *
 *   rows (CSR)     offsets [m + 1], columns [size], values [size]: row i has the elements offsets[i] to before offsets[i + 1]
 *   triples (COO)  row [size], column [size], values [size], in any order
 *
 * Indices are integers of any width, i64 where they are results. Offsets ascend from 0 to at most size: what is behind offsets[m] is in
 * no row, counts for nothing, and its results are 0, but its column is in range. Elements of one place count as their sum. Other
 * indices are a TJ_ERR_INDEX when the function runs. What is added to one element is added in the order of `values`. Gradients are by
 * values and by dense operands, of any order. f16 and bf16 are computed in f32 and rounded once. Scalars and matrices of the same
 * places need no function: tj_mul(values, tj_f(2)), tj_add(values, other_values).
 *
 * csr_from_dense: the elements that are not 0, in a body a boundary as tj_nonzero() is. csr_from_dense_static: in `size` places, in the
 * graph; more elements are an error. csr_from_coo: sorted, with the elements of one place added; in as many places, in the graph, so
 * the last ones may be in no row. coo_coalesce: the same as triples, without unused places: a boundary. csr_rows: the row of each of
 * size elements, m: none; with it a CSR matrix is a COO matrix. csr_transpose: [n,m]; elements of one place stay several. */
TJ_API tj_tensor *tj_csr_from_dense_at(const char *site, tj_tensor *x, tj_tensor **offsets, tj_tensor **columns);
TJ_API tj_tensor *tj_csr_from_dense_static_at(const char *site, tj_tensor *x, int64_t size, tj_tensor **offsets, tj_tensor **columns);
TJ_API tj_tensor *tj_csr_from_coo_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n,
                                     tj_tensor **offsets, tj_tensor **columns);
TJ_API tj_tensor *tj_coo_coalesce_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n,
                                     tj_tensor **rows, tj_tensor **columns);
TJ_API tj_tensor *tj_csr_rows_at(const char *site, tj_tensor *offsets, int64_t size);
TJ_API tj_tensor *tj_csr_to_dense_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n);
TJ_API tj_tensor *tj_coo_to_dense_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n);
TJ_API tj_tensor *tj_csr_transpose_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n,
                                      tj_tensor **offsets_t, tj_tensor **columns_t);
#define tj_csr_from_dense(x, offsets, columns) tj_csr_from_dense_at(TJ_SITE, x, offsets, columns)
/* tj_csr_from_dense([[0, 5], [6, 0]], &offsets, &columns) = [5, 6], [0, 1, 2], [1, 0] */
#define tj_csr_from_dense_static(x, size, offsets, columns) tj_csr_from_dense_static_at(TJ_SITE, x, size, offsets, columns)
/* tj_csr_from_dense_static([[0, 5], [6, 0]], 3, &offsets, &columns) = [5, 6, 0], [0, 1, 2], [1, 0, 0] */
#define tj_csr_from_coo(row, column, values, m, n, offsets, columns) \
	tj_csr_from_coo_at(TJ_SITE, row, column, values, m, n, offsets, columns)
/* tj_csr_from_coo([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2, &offsets, &columns) = [5, 16, 0], [0, 1, 2], [1, 0, 0] */
#define tj_coo_coalesce(row, column, values, m, n, rows, columns) tj_coo_coalesce_at(TJ_SITE, row, column, values, m, n, rows, columns)
/* tj_coo_coalesce([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2, &rows, &columns) = [5, 16], [0, 1], [1, 0] */
#define tj_csr_rows(offsets, size) tj_csr_rows_at(TJ_SITE, offsets, size) /* tj_csr_rows([0, 1, 3], 4) = [0, 1, 1, 2] */
#define tj_csr_to_dense(offsets, columns, values, n) tj_csr_to_dense_at(TJ_SITE, offsets, columns, values, n)
/* tj_csr_to_dense([0, 1, 2], [1, 0], [5, 6], 2) = [[0, 5], [6, 0]] */
#define tj_coo_to_dense(row, column, values, m, n) tj_coo_to_dense_at(TJ_SITE, row, column, values, m, n)
/* tj_coo_to_dense([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2) = [[0, 5], [16, 0]] */
#define tj_csr_transpose(offsets, columns, values, n, offsets_t, columns_t) \
	tj_csr_transpose_at(TJ_SITE, offsets, columns, values, n, offsets_t, columns_t)
/* tj_csr_transpose([0, 2, 3], [0, 1, 1], [5, 6, 7], 2, &offsets, &columns) = [5, 6, 7], [0, 1, 3], [0, 0, 1] */

/* a: the sparse matrix [m,n]. csr_matmul, coo_matmul: a b for b [n,k] or [n] -> [m,k] or [m]. csr_matmul_transposed: a' b for b [m,k] or
 * [m] -> [n,k] or [n]. csr_sampled_matmul: the elements of a b at the places of a pattern, a [m,k], b [k,n] -> [size]; PyTorch's
 * torch.sparse.sampled_addmm() with beta 0. csr_mask: the elements of x there, [m,n], or [m,1] or [1,n] for one value a row or a column
 * -> [size]. csr_sum: of each row (axis 1) or column (0). csr_softmax, csr_log_softmax: over the elements of each row, those that are
 * not there count as -inf; torch.sparse.softmax(). */
TJ_API tj_tensor *tj_csr_matmul_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, tj_tensor *b);
TJ_API tj_tensor *tj_csr_matmul_transposed_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n,
                                              tj_tensor *b);
TJ_API tj_tensor *tj_coo_matmul_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, tj_tensor *b);
TJ_API tj_tensor *tj_csr_sampled_matmul_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b);
TJ_API tj_tensor *tj_csr_mask_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *x);
TJ_API tj_tensor *tj_csr_sum_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n, int axis);
TJ_API tj_tensor *tj_csr_softmax_at(const char *site, tj_tensor *offsets, tj_tensor *values);
TJ_API tj_tensor *tj_csr_log_softmax_at(const char *site, tj_tensor *offsets, tj_tensor *values);
#define tj_csr_matmul(offsets, columns, values, b) tj_csr_matmul_at(TJ_SITE, offsets, columns, values, b)
/* tj_csr_matmul([0, 1, 3], [1, 0, 1], [5., 6., 7.], [1., 10.]) = [50., 76.] */
#define tj_csr_matmul_transposed(offsets, columns, values, n, b) tj_csr_matmul_transposed_at(TJ_SITE, offsets, columns, values, n, b)
/* tj_csr_matmul_transposed([0, 1, 3], [1, 0, 1], [5., 6., 7.], 2, [1., 10.]) = [60., 75.] */
#define tj_coo_matmul(row, column, values, m, b) tj_coo_matmul_at(TJ_SITE, row, column, values, m, b)
/* tj_coo_matmul([1, 0, 1], [0, 1, 1], [6., 5., 7.], 2, [1., 10.]) = [50., 76.] */
#define tj_csr_sampled_matmul(offsets, columns, a, b) tj_csr_sampled_matmul_at(TJ_SITE, offsets, columns, a, b)
/* tj_csr_sampled_matmul([0, 1, 2], [1, 0], [[1., 2.], [3., 4.]], [[1., 10.], [2., 20.]]) = [50., 11.] */
#define tj_csr_mask(offsets, columns, x) tj_csr_mask_at(TJ_SITE, offsets, columns, x)
/* tj_csr_mask([0, 1, 2], [1, 0], [[1, 2], [3, 4]]) = [2, 3] */
#define tj_csr_sum(offsets, columns, values, n, axis) tj_csr_sum_at(TJ_SITE, offsets, columns, values, n, axis)
/* tj_csr_sum([0, 1, 3], [1, 0, 1], [5, 6, 7], 2, 1) = [5, 13] */
#define tj_csr_softmax(offsets, values) tj_csr_softmax_at(TJ_SITE, offsets, values)
/* tj_csr_softmax([0, 1, 3], [5., 6., 6.]) = [1., 0.5, 0.5] */
#define tj_csr_log_softmax(offsets, values) tj_csr_log_softmax_at(TJ_SITE, offsets, values)
/* tj_csr_log_softmax([0, 1, 3], [5., 6., 6.]) = [0., -0.6931, -0.6931] */

/* Segment i is the slices offsets[i] to before offsets[i + 1] of x, along axis 0; x [n,...] -> [m,...]. An empty one is 0, with
 * TJ_REDUCE_PROD 1; of floats, with MEAN NaN, with AMAX -inf, with AMIN inf. A mean of integers is rounded down. torch.segment_reduce(). */
TJ_API tj_tensor *tj_segment_reduce_at(const char *site, tj_tensor *x, tj_tensor *offsets, tj_reduction how);
#define tj_segment_reduce(x, offsets, how) tj_segment_reduce_at(TJ_SITE, x, offsets, how)
/* tj_segment_reduce([1, 2, 3, 4], [0, 1, 1, 4], TJ_REDUCE_SUM) = [1, 0, 9] */

/* Weights of which at most two of each four along the last axis are not 0. prune_2_4: the two with the largest |w| stay, the first ones
 * of equals, and NaN counts as largest; the gradient goes to them. compress_2_4: the two of each four that prune_2_4 keeps, [...,n] ->
 * [...,n / 2], and their places: index u8 [...,n / 8], four bits for each four weights, the first place in the lower two of them; n is
 * a multiple of 8. decompress_2_4: back. linear_2_4: tj_linear(x, decompressed, bias): the product computes with the zeros, the weights
 * take 17 / 32 (f16, bf16: 9 / 16) of their memory. */
TJ_API tj_tensor *tj_prune_2_4_at(const char *site, tj_tensor *w);
TJ_API tj_tensor *tj_compress_2_4_at(const char *site, tj_tensor *w, tj_tensor **index);
TJ_API tj_tensor *tj_decompress_2_4_at(const char *site, tj_tensor *values, tj_tensor *index);
TJ_API tj_tensor *tj_linear_2_4_at(const char *site, tj_tensor *x, tj_tensor *values, tj_tensor *index, tj_tensor *bias);
#define tj_prune_2_4(w) tj_prune_2_4_at(TJ_SITE, w) /* tj_prune_2_4([1., -4., 3., 0.5]) = [0., -4., 3., 0.] */
#define tj_compress_2_4(w, index) tj_compress_2_4_at(TJ_SITE, w, index)
/* tj_compress_2_4([1., -4., 3., 0.5, 7., 0., 0., 8.], &index) = [-4., 3., 7., 8.], u8[201] */
#define tj_decompress_2_4(values, index) tj_decompress_2_4_at(TJ_SITE, values, index)
/* tj_decompress_2_4([-4., 3., 7., 8.], u8[201]) = [0., -4., 3., 0., 7., 0., 0., 8.] */
#define tj_linear_2_4(x, values, index, bias) tj_linear_2_4_at(TJ_SITE, x, values, index, bias)
/* tj_linear_2_4([[1., 1., 1., 1., 1., 1., 1., 1.]], [[-4., 3., 7., 8.]], u8[[201]], NULL) = [[14.]] */

/* ---- linear layers, cells, bags of embeddings -------------------------------------------------------- */

/* linear: x W' + b for x [...,I], W [O,I], b [O] or NULL. bilinear: y[o] = sum over i, j of a[i] W[o,i,j] b[j], + bias; W [O,I,J]; of
 * integers of one dtype it has that dtype.
 *
 * Cells: one step of a recurrent network, for tj_scan() or a loop. x [N,I] and h [N,H], or both without N; the result is the next h.
 * Weights as PyTorch has them: the gates lie one after the other, in lstm_cell input, forget, cell, output; in gru_cell reset, update,
 * new. */
typedef struct tj_cell {
	tj_tensor *w_ih;         /* [gates * H, I] */
	tj_tensor *w_hh;         /* [gates * H, H] */
	tj_tensor *b_ih, *b_hh;  /* [gates * H], or NULL */
} tj_cell;
TJ_API tj_tensor *tj_linear_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias);
TJ_API tj_tensor *tj_bilinear_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor *weight, tj_tensor *bias);
TJ_API tj_tensor *tj_rnn_tanh_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w);
TJ_API tj_tensor *tj_rnn_relu_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w);
TJ_API tj_tensor *tj_gru_cell_at(const char *site, tj_tensor *x, tj_tensor *h, const tj_cell *w);
TJ_API tj_tensor *tj_lstm_cell_at(const char *site, tj_tensor *x, tj_tensor *h, tj_tensor *c, const tj_cell *w, tj_tensor **c_next);
#define tj_linear(x, weight, bias) tj_linear_at(TJ_SITE, x, weight, bias)
/* tj_linear([[1., 2.]], [[3., 4.], [5., 6.]], [10., 20.]) = [[21., 37.]] */
#define tj_bilinear(a, b, weight, bias) tj_bilinear_at(TJ_SITE, a, b, weight, bias)
/* tj_bilinear([[1., 2.]], [[3.]], [[[1.], [10.]]], NULL) = [[63.]] */
#define tj_rnn_tanh_cell(x, h, w) tj_rnn_tanh_cell_at(TJ_SITE, x, h, w)
/* tj_rnn_tanh_cell([[1.]], [[2.]], (&(tj_cell){ [[1.]], [[-0.5]], NULL, NULL })) = [[0.]] */
#define tj_rnn_relu_cell(x, h, w) tj_rnn_relu_cell_at(TJ_SITE, x, h, w)
/* tj_rnn_relu_cell([[1.]], [[2.]], (&(tj_cell){ [[1.]], [[3.]], NULL, NULL })) = [[7.]] */
#define tj_gru_cell(x, h, w) tj_gru_cell_at(TJ_SITE, x, h, w)
/* tj_gru_cell([[0.]], [[2.]], (&(tj_cell){ [[0.], [0.], [0.]], [[0.], [0.], [0.]], NULL, NULL })) = [[1.]] */
#define tj_lstm_cell(x, h, c, w, c_next) tj_lstm_cell_at(TJ_SITE, x, h, c, w, c_next)
/* tj_lstm_cell([[0.]], [[0.]], [[2.]], (&(tj_cell){ [[0.], [0.], [0.], [0.]], [[0.], [0.], [0.], [0.]], NULL, NULL }), &c_next) =
 * [[0.3808]], [[1.]] */

/* Sums of embeddings: for each bag of the index one row of the weight's width. The index, integers, is [bags, elements], or [elements]
 * with .offsets. An empty bag gives 0. Of equal largest elements the first has the gradient; with .offsets they share it. opts may be
 * NULL. */
typedef enum tj_bag_mode { TJ_BAG_SUM, TJ_BAG_MEAN, TJ_BAG_MAX } tj_bag_mode;
typedef struct tj_bag_opts {
	size_t size;
	tj_bag_mode mode;
	tj_tensor *offsets;    /* [bags]: where each bag begins; the first is 0, and they ascend. NULL: bags are rows */
	tj_tensor *weights;    /* of the elements, for sums; of the index's shape. NULL: 1 */
	bool pads;             /* elements that are padding_index do not count, not even in a mean */
	int64_t padding_index;
} tj_bag_opts;
TJ_API tj_tensor *tj_embedding_bag_at(const char *site, tj_tensor *index, tj_tensor *weight, const tj_bag_opts *opts);
#define tj_embedding_bag(index, weight, opts) tj_embedding_bag_at(TJ_SITE, index, weight, opts)
/* tj_embedding_bag([[0, 1]], [[1., 2.], [3., 4.]], TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MEAN)) = [[2., 3.]] */

/* ---- norms ------------------------------------------------------------------------------------------ */

/* (x - mean) / sqrt(var + eps) * weight + bias, as in PyTorch. x is [N,C,...]. weight, bias: [C], or NULL. f16 and bf16 are computed in f32
 * and rounded once.
 *
 * batch_norm: with the mean and variance of each channel of x if .training, else with the running ones. running_mean, running_var: cells of
 * [C]; a training moves them to the new ones by .momentum; their variance is that of a sample (n - 1). NULL in a training: none are kept.
 * instance_norm: each example has a mean and variance of its own. With running ones, they are used as in batch_norm; NULL: always those of
 * x. */
typedef struct tj_norm_opts {
	size_t size;
	bool training;
	double momentum; /* 0: 0.1 */
	double eps;      /* 0: 1e-5 */
} tj_norm_opts;
TJ_API tj_tensor *tj_batch_norm_at(const char *site, tj_tensor *x, tj_tensor *running_mean, tj_tensor *running_var, tj_tensor *weight,
                                   tj_tensor *bias, const tj_norm_opts *opts);
TJ_API tj_tensor *tj_instance_norm_at(const char *site, tj_tensor *x, tj_tensor *running_mean, tj_tensor *running_var, tj_tensor *weight,
                                      tj_tensor *bias, const tj_norm_opts *opts);
/* Channels of one group have a common mean and variance in each example. */
TJ_API tj_tensor *tj_group_norm_at(const char *site, tj_tensor *x, int64_t groups, tj_tensor *weight, tj_tensor *bias, double eps);
/* tj_layer_norm() and tj_rms_norm() over several last axes, which have the sizes `shape`, PyTorch's normalized_shape. weight, bias: of
 * these sizes, or NULL. */
TJ_API tj_tensor *tj_layer_norm_over_at(const char *site, tj_tensor *x, tj_dims shape, tj_tensor *weight, tj_tensor *bias, double eps);
TJ_API tj_tensor *tj_rms_norm_over_at(const char *site, tj_tensor *x, tj_dims shape, tj_tensor *weight, double eps);
/* x is a float, [N,C,...]. x / (k + alpha * the mean of the squares of `size` channels around, zeros beyond the first and last)^beta.
 * PyTorch's values: 1e-4, 0.75, 1 */
TJ_API tj_tensor *tj_local_response_norm_at(const char *site, tj_tensor *x, int64_t size, double alpha, double beta, double k);
#define tj_batch_norm(x, running_mean, running_var, weight, bias, opts) \
	tj_batch_norm_at(TJ_SITE, x, running_mean, running_var, weight, bias, opts)
/* tj_batch_norm([[1.], [3.]], NULL, NULL, NULL, [10.], TJ_OPTS(tj_norm_opts, .training = true, .eps = 1e-9)) = [[9.], [11.]] */
#define tj_instance_norm(x, running_mean, running_var, weight, bias, opts) \
	tj_instance_norm_at(TJ_SITE, x, running_mean, running_var, weight, bias, opts)
/* tj_instance_norm([[[1., 3.]]], NULL, NULL, NULL, NULL, TJ_OPTS(tj_norm_opts, .eps = 1e-9)) = [[[-1., 1.]]] */
#define tj_group_norm(x, groups, weight, bias, eps) tj_group_norm_at(TJ_SITE, x, groups, weight, bias, eps)
/* tj_group_norm([[1., 3.]], 1, NULL, NULL, 1e-9) = [[-1., 1.]] */
#define tj_layer_norm_over(x, shape, weight, bias, eps) tj_layer_norm_over_at(TJ_SITE, x, shape, weight, bias, eps)
/* tj_layer_norm_over([[1., 3.]], TJ_SHAPE(1, 2), NULL, NULL, 1e-9) = [[-1., 1.]] */
#define tj_rms_norm_over(x, shape, weight, eps) tj_rms_norm_over_at(TJ_SITE, x, shape, weight, eps)
/* tj_rms_norm_over([[3., 4.]], TJ_SHAPE(1, 2), NULL, 1e-9) = [[0.8485, 1.1314]] */
#define tj_local_response_norm(x, size, alpha, beta, k) tj_local_response_norm_at(TJ_SITE, x, size, alpha, beta, k)
/* tj_local_response_norm([[[2.]]], 1, 1, 1, 1) = [[[0.4]]] */

/* ---- attention -------------------------------------------------------------------------------------- */

/* softmax(q k' * scale + mask) v, PyTorch's scaled_dot_product_attention(). q [...,H,L,E], k [...,H,S,E], v [...,H,S,V] -> [...,H,L,V],
 * with any leading axes, or none. The heads of k and v may be fewer: those of q are a multiple, and head h of q uses head h / (multiple),
 * as with PyTorch's enable_gqa. A row of q that takes part with no key at all gives 0, and its gradient is 0.
 *
 * Scores of more than 8 MiB, or of more than 1 MiB for a head, are made in blocks of rows, of about 4 MiB and at most a quarter of a head:
 * then memory grows with L + S, not with L * S, and a gradient computes the blocks again. Of a causal block no keys are read that none of
 * its rows sees. A row has the same bits in any block. The setting .attention asks for one block, or for blocks of at most half of a head
 * at any size. f16 and bf16 scores are rounded to their dtype. */
typedef struct tj_attention_opts {
	size_t size;
	tj_tensor *mask;       /* bool: true takes part, the opposite of .padding below; a float: is added to the scores. It broadcasts to
	                        * [...,H,L,S]. NULL: none */
	bool causal;           /* row i of q takes part with keys 0 to i + causal_offset; both masks hold if there are two */
	int64_t causal_offset; /* as many keys come before the first row of q: S - L when these rows are the last ones */
	double scale;          /* 0: 1 / sqrt(E) */
	double dropout;        /* of the weights, with this probability; for a training alone */
	int64_t method;        /* a tj_attention, for this call in place of the setting .attention; TJ_ATTENTION_AUTO: as the setting says */
} tj_attention_opts;
TJ_API tj_tensor *tj_scaled_dot_product_attention_at(const char *site, tj_tensor *q, tj_tensor *k, tj_tensor *v,
                                                     const tj_attention_opts *opts);
#define tj_scaled_dot_product_attention(q, k, v, opts) tj_scaled_dot_product_attention_at(TJ_SITE, q, k, v, opts)
/* tj_scaled_dot_product_attention([[1.], [0.]], [[0.], [0.]], [[2.], [4.]], NULL) = [[3.], [3.]] */

/* How tj_scaled_dot_product_attention() computes q and k of these shapes under the settings of the thread's context: TJ_ATTENTION_MATH or
 * _FUSED. *why, if it is not NULL, gets the reason, a constant string. TJ_ATTENTION_AUTO on an error. */
TJ_API tj_attention tj_attention_method_at(const char *site, tj_tensor *q, tj_tensor *k, const char **why);
#define tj_attention_method(q, k, why) tj_attention_method_at(TJ_SITE, q, k, why) /* no example: its result is no tensor */
/* Whether the method can compute q and k of these shapes. false: *why gets the reason, and the setting .attention that asks for it is like
 * MATH for one row of q, else like AUTO. */
TJ_API bool tj_attention_available_at(const char *site, tj_attention method, tj_tensor *q, tj_tensor *k, const char **why);
#define tj_attention_available(method, q, k, why) tj_attention_available_at(TJ_SITE, method, q, k, why) /* no example: as above */
/* The same for all operands and options of a call, as PyTorch's can_use_flash_attention() and can_use_cudnn_attention() ask. false: *why
 * gets the first reason: what the operands have that the method cannot take (device, dtype, axes, widths, mask), or that it is not
 * there. MATH takes all. LIBRARY stands for cuDNN on NVIDIA GPUs, which is not called today: the reasons before that say what would be
 * in its way. */
TJ_API bool tj_attention_can_use_at(const char *site, tj_attention method, tj_tensor *q, tj_tensor *k, tj_tensor *v,
                                    const tj_attention_opts *opts, const char **why);
#define tj_attention_can_use(method, q, k, v, opts, why) tj_attention_can_use_at(TJ_SITE, method, q, k, v, opts, why)
/* no example: as above */

/* PyTorch's nn.MultiheadAttention with batch_first: q [N,L,E], k and v [N,S,E], or all without N -> q's shape. tj_linear() of q, k and v by
 * the three parts of in_weight [3 E,E]; tj_scaled_dot_product_attention() of heads of width E / heads; tj_linear() by out_weight [E,E]. If
 * q, k and v are one tensor, the first three are one product. A mask says what takes part, as it does above; PyTorch's masks of this
 * function say what does not. */
typedef struct tj_multi_head_opts {
	size_t size;
	tj_tensor *in_bias, *out_bias; /* [3 E], [E]; NULL: none */
	tj_tensor *mask;               /* as in tj_attention_opts, for scores [N,heads,L,S] */
	tj_tensor *padding;            /* bool [N,S] or [S], true: this key is padding, and takes no part, as PyTorch's key_padding_mask; in .mask
	                                * true takes part */
	bool causal;                   /* row i of q takes part with keys 0 to i */
	double dropout;                /* of the weights, for a training alone */
	tj_tensor *bias_k, *bias_v;    /* [E]: one more key and its value, the same for all, which every row sees; NULL: none */
} tj_multi_head_opts;
TJ_API tj_tensor *tj_multi_head_attention_at(const char *site, tj_tensor *q, tj_tensor *k, tj_tensor *v, int heads, tj_tensor *in_weight,
                                             tj_tensor *out_weight, const tj_multi_head_opts *opts);
#define tj_multi_head_attention(q, k, v, heads, in_weight, out_weight, opts) \
	tj_multi_head_attention_at(TJ_SITE, q, k, v, heads, in_weight, out_weight, opts)
/* tj_multi_head_attention([[0.]], [[0.], [0.]], [[2.], [4.]], 1, [[1.], [1.], [10.]], [[0.5]], NULL) = [[15.]] */

/* ---- losses ----------------------------------------------------------------------------------------- */

/* As in PyTorch. x and target have one shape, which is not broadcast; a target without axes counts for all elements. f16 and bf16 are
 * computed in f32, and the result, of x's dtype, is rounded once. Integers count as f32 in poisson_nll, margin_ranking, cosine_embedding
 * and triplet_margin, and are errors in the others. A mean over nothing is NaN. BATCHMEAN: the sum, divided by the size of axis 0.
 * The reduction r is the last argument of each, also of kl_div, huber, smooth_l1 and ctc, where PyTorch has another one behind it. */
typedef enum tj_loss_reduction { TJ_LOSS_MEAN, TJ_LOSS_SUM, TJ_LOSS_NONE, TJ_LOSS_BATCHMEAN } tj_loss_reduction;

/* smooth_l1: d^2 / 2 / beta, from |d| = beta on |d| - beta / 2. huber: d^2 / 2, from delta on delta * (|d| - delta / 2). kl_div: x are
 * logarithms; target * (log(target) - x). poisson_nll: exp(x) - target * x if log_input, else x - target * log(x + eps); full: and
 * log(target!) by Stirling's formula. gaussian_nll: the variance has x's shape, one number for a row, or no axis; it is at least eps. In
 * the losses with margins the targets are 1 and -1. cosine_embedding, triplet_margin: of rows, the last axis; p is the norm of a distance,
 * swap takes the smaller one of anchor - negative and positive - negative. */
TJ_API tj_tensor *tj_mse_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r);
TJ_API tj_tensor *tj_l1_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r);
TJ_API tj_tensor *tj_smooth_l1_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double beta, tj_loss_reduction r);
TJ_API tj_tensor *tj_huber_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double delta, tj_loss_reduction r);
TJ_API tj_tensor *tj_kl_div_at(const char *site, tj_tensor *x, tj_tensor *target, bool log_target, tj_loss_reduction r);
TJ_API tj_tensor *tj_poisson_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, bool log_input, bool full, double eps,
                                         tj_loss_reduction r);
TJ_API tj_tensor *tj_gaussian_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_tensor *var, bool full, double eps,
                                          tj_loss_reduction r);
TJ_API tj_tensor *tj_hinge_embedding_loss_at(const char *site, tj_tensor *x, tj_tensor *target, double margin, tj_loss_reduction r);
TJ_API tj_tensor *tj_soft_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r);
TJ_API tj_tensor *tj_margin_ranking_loss_at(const char *site, tj_tensor *x, tj_tensor *other, tj_tensor *target, double margin,
                                            tj_loss_reduction r);
TJ_API tj_tensor *tj_cosine_embedding_loss_at(const char *site, tj_tensor *x, tj_tensor *other, tj_tensor *target, double margin,
                                              tj_loss_reduction r);
TJ_API tj_tensor *tj_triplet_margin_loss_at(const char *site, tj_tensor *anchor, tj_tensor *positive, tj_tensor *negative, double margin,
                                            double p, bool swap, tj_loss_reduction r);
#define tj_mse_loss(x, target, r) tj_mse_loss_at(TJ_SITE, x, target, r) /* tj_mse_loss([1., 2.], [2., 4.], TJ_LOSS_MEAN) = 2.5 */
#define tj_l1_loss(x, target, r) tj_l1_loss_at(TJ_SITE, x, target, r) /* tj_l1_loss([1., 2.], [2., 4.], TJ_LOSS_MEAN) = 1.5 */
#define tj_smooth_l1_loss(x, target, beta, r) tj_smooth_l1_loss_at(TJ_SITE, x, target, beta, r)
/* tj_smooth_l1_loss([0., 3.], [1., 0.], 2, TJ_LOSS_NONE) = [0.25, 2.] */
#define tj_huber_loss(x, target, delta, r) tj_huber_loss_at(TJ_SITE, x, target, delta, r)
/* tj_huber_loss([0., 3.], [1., 0.], 2, TJ_LOSS_NONE) = [0.5, 4.] */
#define tj_kl_div(x, target, log_target, r) tj_kl_div_at(TJ_SITE, x, target, log_target, r)
/* tj_kl_div([0., 0.], [1., 2.], false, TJ_LOSS_NONE) = [0., 1.3863] */
#define tj_poisson_nll_loss(x, target, log_input, full, eps, r) tj_poisson_nll_loss_at(TJ_SITE, x, target, log_input, full, eps, r)
/* tj_poisson_nll_loss([1., 2.], [3., 4.], false, false, 0, TJ_LOSS_NONE) = [1., -0.7726] */
#define tj_gaussian_nll_loss(x, target, var, full, eps, r) tj_gaussian_nll_loss_at(TJ_SITE, x, target, var, full, eps, r)
/* tj_gaussian_nll_loss([1., 2.], [3., 4.], [1., 1.], false, 1e-6, TJ_LOSS_NONE) = [2., 2.] */
#define tj_hinge_embedding_loss(x, target, margin, r) tj_hinge_embedding_loss_at(TJ_SITE, x, target, margin, r)
/* tj_hinge_embedding_loss([0.3, 0.3], [1., -1.], 1, TJ_LOSS_NONE) = [0.3, 0.7] */
#define tj_soft_margin_loss(x, target, r) tj_soft_margin_loss_at(TJ_SITE, x, target, r)
/* tj_soft_margin_loss([0., 1.], [1., -1.], TJ_LOSS_NONE) = [0.6931, 1.3133] */
#define tj_margin_ranking_loss(x, other, target, margin, r) tj_margin_ranking_loss_at(TJ_SITE, x, other, target, margin, r)
/* tj_margin_ranking_loss([1., 1.], [3., 3.], [1., -1.], 0.5, TJ_LOSS_NONE) = [2.5, 0.] */
#define tj_cosine_embedding_loss(x, other, target, margin, r) tj_cosine_embedding_loss_at(TJ_SITE, x, other, target, margin, r)
/* tj_cosine_embedding_loss([[1., 0.]], [[0., 1.]], [1.], 0, TJ_LOSS_NONE) = [1.] */
#define tj_triplet_margin_loss(anchor, positive, negative, margin, p, swap, r) \
	tj_triplet_margin_loss_at(TJ_SITE, anchor, positive, negative, margin, p, swap, r)
/* tj_triplet_margin_loss([[0., 0.]], [[3., 4.]], [[0., 1.]], 1, 2, false, TJ_LOSS_MEAN) = 5. */

typedef struct tj_loss_opts {
	size_t size;
	tj_loss_reduction reduction;
	tj_tensor *weight;      /* of elements: broadcasts to the losses; of classes: [C]. NULL: 1 */
	tj_tensor *pos_weight;  /* of binary_cross_entropy_with_logits: of the positive part; broadcasts to x */
	bool ignore;            /* targets that are ignore_index count for nothing. Without it each target must be a class */
	int64_t ignore_index;
	double label_smoothing; /* of cross_entropy_loss: this part of each target is spread evenly over all classes */
} tj_loss_opts;
/* binary_cross_entropy: x are probabilities; a logarithm below -100 counts as -100, with gradient 0. Classes: x is [N,C], [N,C,...] or [C],
 * target, integers, has no axis of classes; of cross_entropy_loss it may be a float of x's shape: probabilities. A mean over classes is
 * divided by the weights of the targets that count; of probabilities, by their number of rows. multilabel_margin: the target has classes of
 * x's shape; a -1 ends those of a row. opts may be NULL. */
TJ_API tj_tensor *tj_binary_cross_entropy_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts);
TJ_API tj_tensor *tj_binary_cross_entropy_with_logits_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts);
TJ_API tj_tensor *tj_nll_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts);
TJ_API tj_tensor *tj_cross_entropy_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts);
TJ_API tj_tensor *tj_multi_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, int p, double margin,
                                          const tj_loss_opts *opts);
TJ_API tj_tensor *tj_multilabel_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, tj_loss_reduction r);
TJ_API tj_tensor *tj_multilabel_soft_margin_loss_at(const char *site, tj_tensor *x, tj_tensor *target, const tj_loss_opts *opts);
#define tj_binary_cross_entropy(x, target, opts) tj_binary_cross_entropy_at(TJ_SITE, x, target, opts)
/* tj_binary_cross_entropy([0.5, 0.5], [1., 0.], NULL) = 0.6931 */
#define tj_binary_cross_entropy_with_logits(x, target, opts) tj_binary_cross_entropy_with_logits_at(TJ_SITE, x, target, opts)
/* tj_binary_cross_entropy_with_logits([0., 0.], [1., 0.], NULL) = 0.6931 */
#define tj_nll_loss(x, target, opts) tj_nll_loss_at(TJ_SITE, x, target, opts)
/* tj_nll_loss([[-1., -2.], [-3., -4.]], [0, 1], NULL) = 2.5 */
#define tj_cross_entropy_loss(x, target, opts) tj_cross_entropy_loss_at(TJ_SITE, x, target, opts)
/* tj_cross_entropy_loss([[0., 0.], [0., 0.]], [0, 1], TJ_OPTS(tj_loss_opts, .reduction = TJ_LOSS_SUM)) = 1.3863 */
#define tj_multi_margin_loss(x, target, p, margin, opts) tj_multi_margin_loss_at(TJ_SITE, x, target, p, margin, opts)
/* tj_multi_margin_loss([[1., 2., 0.]], [1], 1, 1.5, NULL) = 0.1667 */
#define tj_multilabel_margin_loss(x, target, r) tj_multilabel_margin_loss_at(TJ_SITE, x, target, r)
/* tj_multilabel_margin_loss([[1., 2., 0.]], [[0, -1, 0]], TJ_LOSS_MEAN) = 0.6667 */
#define tj_multilabel_soft_margin_loss(x, target, opts) tj_multilabel_soft_margin_loss_at(TJ_SITE, x, target, opts)
/* tj_multilabel_soft_margin_loss([[0., 0.]], [[1., 0.]], NULL) = 0.6931 */

/* x [steps,N,classes]: logarithms of probabilities. targets [N,labels], of which target_lengths [N] count (or [labels], one target behind
 * the other), as input_lengths [N] of the steps; all integers. A target that needs more steps than there are has an infinite loss, or 0
 * and no gradient with zero_infinity. The mean is that of each loss / its number of labels. The gradient is that by x; PyTorch's takes x
 * for a log_softmax and adds what cancels behind it. */
TJ_API tj_tensor *tj_ctc_loss_at(const char *site, tj_tensor *x, tj_tensor *targets, tj_tensor *input_lengths, tj_tensor *target_lengths,
                                 int64_t blank, bool zero_infinity, tj_loss_reduction r);
#define tj_ctc_loss(x, targets, input_lengths, target_lengths, blank, zero_infinity, r) \
	tj_ctc_loss_at(TJ_SITE, x, targets, input_lengths, target_lengths, blank, zero_infinity, r)
/* tj_ctc_loss([[[-1., -2.]], [[-1., -2.]]], [[1]], [2], [1], 0, false, TJ_LOSS_SUM) = 2.138 */

/* ---- random numbers, dropout -------------------------------------------------------------------------- */

/* Made of tj_uniform() and tj_normal(): each call takes one ordinal of the context, so the numbers are the same for any device, number of
 * threads and layout, and a gradient sees those that forward saw. Not in callbacks that forbid random numbers.
 *
 * Dropout: each element is 0 with probability p, else x / (1 - p). What is dropped is 0 even if x is NaN there. p is a number of the run:
 * another p is no other trace. If training is false it is x itself. tj_dropout1d(), 2d, 3d drop whole channels of [N,C,...] or [C,...],
 * with so many axes behind. alpha_dropout keeps mean 0 and variance 1 of what tj_selu() gives; feature_alpha_dropout drops channels of
 * [N,C,...] so. */
TJ_API tj_tensor *tj_dropout_at(const char *site, tj_tensor *x, double p, bool training);
TJ_API tj_tensor *tj_dropout1d_at(const char *site, tj_tensor *x, double p, bool training);
TJ_API tj_tensor *tj_dropout2d_at(const char *site, tj_tensor *x, double p, bool training);
TJ_API tj_tensor *tj_dropout3d_at(const char *site, tj_tensor *x, double p, bool training);
TJ_API tj_tensor *tj_alpha_dropout_at(const char *site, tj_tensor *x, double p, bool training);
TJ_API tj_tensor *tj_feature_alpha_dropout_at(const char *site, tj_tensor *x, double p, bool training);
#define tj_dropout(x, p, training) tj_dropout_at(TJ_SITE, x, p, training) /* tj_dropout([1., 2.], 0.5, false) = [1., 2.] */
#define tj_dropout1d(x, p, training) tj_dropout1d_at(TJ_SITE, x, p, training) /* tj_dropout1d([[[1., 2.]]], 1, true) = [[[0., 0.]]] */
#define tj_dropout2d(x, p, training) tj_dropout2d_at(TJ_SITE, x, p, training) /* tj_dropout2d([[[[1., 2.]]]], 1, true) = [[[[0., 0.]]]] */
#define tj_dropout3d(x, p, training) tj_dropout3d_at(TJ_SITE, x, p, training)
/* tj_dropout3d([[[[[1., 2.]]]]], 1, true) = [[[[[0., 0.]]]]] */
#define tj_alpha_dropout(x, p, training) tj_alpha_dropout_at(TJ_SITE, x, p, training) /* tj_alpha_dropout([1., 2.], 0, true) = [1., 2.] */
#define tj_feature_alpha_dropout(x, p, training) tj_feature_alpha_dropout_at(TJ_SITE, x, p, training)
/* tj_feature_alpha_dropout([[[1., 2.]]], 0, true) = [[[1., 2.]]] */

/* bernoulli: 1 with probability p, else 0, in the given dtype. p: a number, or a tensor that is broadcast to shape (NULL: the shape of p);
 * below 0 and NaN count as 0, above 1 as 1. randint: integers from low to high - 1, as any dtype that holds them; low and high are at most
 * 2^51 from 0. randperm: i64, 0 to n - 1 in random order. exponential: mean 1 / rate. random_normal, random_uniform: with mean and standard
 * deviation, or from low to high; each a number, or a tensor that is broadcast; rounding can give high itself. */
TJ_API tj_tensor *tj_bernoulli_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *p);
TJ_API tj_tensor *tj_randint_at(const char *site, tj_dtype dtype, tj_dims shape, int64_t low, int64_t high);
TJ_API tj_tensor *tj_randperm_at(const char *site, int64_t n);
TJ_API tj_tensor *tj_exponential_at(const char *site, tj_dtype dtype, tj_dims shape, double rate);
TJ_API tj_tensor *tj_random_normal_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *mean, tj_tensor *std);
TJ_API tj_tensor *tj_random_uniform_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *low, tj_tensor *high);
/* geometric: the number of trials up to the first success, 1 or more, each with probability p; an integer dtype limits it to its range.
 * cauchy: median + sigma tan(pi (u - 1/2)). log_normal: the exponential of normally distributed numbers, whose mean and deviation are
 * given. */
TJ_API tj_tensor *tj_geometric_at(const char *site, tj_dtype dtype, tj_dims shape, double p);
TJ_API tj_tensor *tj_cauchy_at(const char *site, tj_dtype dtype, tj_dims shape, double median, double sigma);
TJ_API tj_tensor *tj_log_normal_at(const char *site, tj_dtype dtype, tj_dims shape, double mean, double std);
#define tj_geometric(dtype, shape, p) tj_geometric_at(TJ_SITE, dtype, shape, p) /* tj_geometric(TJ_I64, TJ_SHAPE(3), 1) = [1, 1, 1] */
#define tj_cauchy(dtype, shape, median, sigma) tj_cauchy_at(TJ_SITE, dtype, shape, median, sigma)
/* tj_isfinite(tj_cauchy(TJ_F32, TJ_SHAPE(2), 0, 1)) = [true, true] */
#define tj_log_normal(dtype, shape, mean, std) tj_log_normal_at(TJ_SITE, dtype, shape, mean, std)
/* tj_ge(tj_log_normal(TJ_F32, TJ_SHAPE(2), 0, 1), tj_f(0)) = [true, true] */
/* gumbel_softmax: softmax((logits + g) / tau) along an axis, g = -log(-log(u)): a choice by softmax(logits), made smooth. hard: exactly
 * one-hot, the choice, with the gradient of the smooth one. rrelu: x above 0, below it x times a slope that is drawn from low to high for
 * each element; without training the slope is their mean. Both of floats. */
TJ_API tj_tensor *tj_gumbel_softmax_at(const char *site, tj_tensor *logits, double tau, bool hard, int64_t axis);
TJ_API tj_tensor *tj_rrelu_at(const char *site, tj_tensor *x, double low, double high, bool training);
#define tj_gumbel_softmax(logits, tau, hard, axis) tj_gumbel_softmax_at(TJ_SITE, logits, tau, hard, axis)
/* tj_gumbel_softmax([0., 1000.], 1, true, 0) = [0., 1.] */
#define tj_rrelu(x, low, high, training) tj_rrelu_at(TJ_SITE, x, low, high, training)
/* tj_rrelu([-4., 2.], 0.25, 0.75, false) = [-2., 2.] */
/* n outcomes, i64, for each row of p, whose last axis has weights: at least 0, finite, not all 0, of any sum; else it is an error, an index
 * out of range. Without replacement no outcome comes twice; if fewer than n have a weight above 0, others follow. */
TJ_API tj_tensor *tj_multinomial_at(const char *site, tj_tensor *p, int64_t n, bool replacement);
#define tj_bernoulli(dtype, shape, p) tj_bernoulli_at(TJ_SITE, dtype, shape, p) /* tj_bernoulli(TJ_I64, TJ_SHAPE(3), tj_f(1)) = [1, 1, 1] */
#define tj_randint(dtype, shape, low, high) tj_randint_at(TJ_SITE, dtype, shape, low, high)
/* tj_randint(TJ_I64, TJ_SHAPE(3), 5, 6) = [5, 5, 5] */
#define tj_randperm(n) tj_randperm_at(TJ_SITE, n) /* tj_sort(tj_randperm(4), 0, false, NULL) = [0, 1, 2, 3] */
#define tj_exponential(dtype, shape, rate) tj_exponential_at(TJ_SITE, dtype, shape, rate)
/* tj_ge(tj_exponential(TJ_F32, TJ_SHAPE(2), 1), tj_f(0)) = [true, true] */
#define tj_random_normal(dtype, shape, mean, std) tj_random_normal_at(TJ_SITE, dtype, shape, mean, std)
/* tj_random_normal(TJ_F32, TJ_SHAPE(2), tj_f(5), tj_f(0)) = [5., 5.] */
#define tj_random_uniform(dtype, shape, low, high) tj_random_uniform_at(TJ_SITE, dtype, shape, low, high)
/* tj_floor(tj_random_uniform(TJ_F64, TJ_SHAPE(2), tj_f(3), tj_f(4))) = f64[3., 3.] */
#define tj_multinomial(p, n, replacement) tj_multinomial_at(TJ_SITE, p, n, replacement) /* tj_multinomial([0., 1., 0.], 2, true) = [1, 1] */

/* Of the dtype, shape and device of x, whose elements are not used. rand_like: as tj_uniform(), randn_like: as tj_normal(). */
TJ_API tj_tensor *tj_full_like_at(const char *site, tj_tensor *x, tj_tensor *value);
TJ_API tj_tensor *tj_rand_like_at(const char *site, tj_tensor *x);
TJ_API tj_tensor *tj_randn_like_at(const char *site, tj_tensor *x);
#define tj_full_like(x, value) tj_full_like_at(TJ_SITE, x, value) /* tj_full_like([1, 2], tj_i(7)) = [7, 7] */
#define tj_rand_like(x) tj_rand_like_at(TJ_SITE, x) /* tj_floor(tj_rand_like([1., 2.])) = [0., 0.] */
#define tj_randn_like(x) tj_randn_like_at(TJ_SITE, x) /* tj_isfinite(tj_randn_like([1., 2.])) = [true, true] */
#define tj_zeros_like(x) tj_full_like(x, tj_i(0)) /* tj_zeros_like([1, 2]) = [0, 0] */
#define tj_ones_like(x) tj_full_like(x, tj_i(1)) /* tj_ones_like([1, 2]) = [1, 1] */
#define tj_zeros(dtype, shape) tj_full(dtype, shape, tj_i(0)) /* tj_zeros(TJ_F32, TJ_SHAPE(2)) = [0., 0.] */
#define tj_ones(dtype, shape) tj_full(dtype, shape, tj_i(1)) /* tj_ones(TJ_F32, TJ_SHAPE(2)) = [1., 1.] */

/* ---- convolution and pooling ---------------------------------------------------------------------- */

/* As in PyTorch. x is [N,C,...] with 1, 2 or 3 axes behind the channels, or [C,...] for one example. Fields that are 0 have their default.
 * For the same number on all axes there is TJ_EACH(2). An entry for an axis that x has not is not used.
 *
 *   y = tj_conv2d(x, weight, bias, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2), .padding = TJ_EACH(1)));
 *   y = tj_max_pool2d(tj_relu(y), TJ_SHAPE(3, 3), TJ_OPTS(tj_pool_opts, .stride = TJ_EACH(2), .padding = TJ_EACH(1)));
 *
 * A convolution is a product of the weight [O, C / groups * places] and the windows, in which the sums go over channel, then place: what
 * docs/NUMERICS.md says of products holds. If each channel is a group of its own, the products of the places are added one after the other,
 * as in average pools whose windows share elements. */
#define TJ_EACH(n) { n, n, n }
typedef struct tj_conv_opts {
	size_t size;
	int64_t stride[3], padding[3], dilation[3]; /* stride and dilation: 1 */
	int64_t groups;            /* 1 */
	bool same;                 /* padding that gives the result the size of x; for stride 1 */
	tj_pad_mode padding_mode;  /* with what is padded; TJ_PAD_CONSTANT: zeros */
	int64_t output_padding[3]; /* of tj_conv_transpose*d(): so much longer is the result, at its end */
} tj_conv_opts;
/* weight: [O, C / groups, kernel...] of tj_conv*d(), [C, O / groups, kernel...] of tj_conv_transpose*d(). bias: [O], or NULL. opts may be
 * NULL. */
TJ_API tj_tensor *tj_conv1d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tj_conv2d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tj_conv3d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tj_conv_transpose1d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tj_conv_transpose2d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tj_conv_transpose3d_at(const char *site, tj_tensor *x, tj_tensor *weight, tj_tensor *bias, const tj_conv_opts *opts);
#define tj_conv1d(x, weight, bias, opts) tj_conv1d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv1d([[[1., 2., 3.]]], [[[1., -1.]]], [10.], NULL) = [[[9., 9.]]] */
#define tj_conv2d(x, weight, bias, opts) tj_conv2d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv2d([[[[1., 2.], [3., 4.]]]], [[[[1., 1.], [1., 1.]]]], NULL, NULL) = [[[[10.]]]] */
#define tj_conv3d(x, weight, bias, opts) tj_conv3d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv3d([[[[[1., 2.]]]]], [[[[[10.]]]]], NULL, NULL) = [[[[[10., 20.]]]]] */
#define tj_conv_transpose1d(x, weight, bias, opts) tj_conv_transpose1d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv_transpose1d([[[1., 2.]]], [[[1., 10.]]], NULL, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2))) = [[[1., 10., 2., 20.]]] */
#define tj_conv_transpose2d(x, weight, bias, opts) tj_conv_transpose2d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv_transpose2d([[[[1., 2.]]]], [[[[1.], [10.]]]], NULL, NULL) = [[[[1., 2.], [10., 20.]]]] */
#define tj_conv_transpose3d(x, weight, bias, opts) tj_conv_transpose3d_at(TJ_SITE, x, weight, bias, opts)
/* tj_conv_transpose3d([[[[[1., 2.]]]]], [[[[[1., 10.]]]]], NULL, NULL) = [[[[[1., 12., 20.]]]]] */

typedef struct tj_pool_opts {
	size_t size;
	int64_t stride[3];     /* the size of the window */
	int64_t padding[3];    /* at most half of the window */
	int64_t dilation[3];   /* 1 */
	bool ceil;             /* also the last window that begins inside of x or its padding, but ends behind it */
	bool exclude_padding;  /* of tj_avg_pool*d(): the sum is divided by the number of elements of x in the window, not by that of places that
	                        * were asked for */
	int64_t divisor;       /* of tj_avg_pool*d(): by this number instead of either */
} tj_pool_opts;
/* kernel: the sizes of the window. Padding is never the largest, and counts as 0 in a mean. NaN is the largest; of equal ones the first has
 * the gradient. opts may be NULL. */
TJ_API tj_tensor *tj_max_pool1d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_max_pool2d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_max_pool3d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_avg_pool1d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_avg_pool2d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_avg_pool3d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
#define tj_max_pool1d(x, kernel, opts) tj_max_pool1d_at(TJ_SITE, x, kernel, opts)
/* tj_max_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL) = [[[3., 4.]]] */
#define tj_max_pool2d(x, kernel, opts) tj_max_pool2d_at(TJ_SITE, x, kernel, opts)
/* tj_max_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL) = [[[[4.]]]] */
#define tj_max_pool3d(x, kernel, opts) tj_max_pool3d_at(TJ_SITE, x, kernel, opts)
/* tj_max_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL) = [[[[[2., 4.]]]]] */
#define tj_avg_pool1d(x, kernel, opts) tj_avg_pool1d_at(TJ_SITE, x, kernel, opts)
/* tj_avg_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL) = [[[2., 3.]]] */
#define tj_avg_pool2d(x, kernel, opts) tj_avg_pool2d_at(TJ_SITE, x, kernel, opts)
/* tj_avg_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL) = [[[[2.5]]]] */
#define tj_avg_pool3d(x, kernel, opts) tj_avg_pool3d_at(TJ_SITE, x, kernel, opts)
/* tj_avg_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL) = [[[[[1.5, 3.5]]]]] */
/* Pools whose result has the given sizes: window i of n goes from i * size / n, rounded down, to (i + 1) * size / n, rounded up. Sizes of 1
 * pool whole axes: global pooling. */
TJ_API tj_tensor *tj_adaptive_max_pool1d_at(const char *site, tj_tensor *x, tj_dims sizes);
TJ_API tj_tensor *tj_adaptive_max_pool2d_at(const char *site, tj_tensor *x, tj_dims sizes);
TJ_API tj_tensor *tj_adaptive_max_pool3d_at(const char *site, tj_tensor *x, tj_dims sizes);
TJ_API tj_tensor *tj_adaptive_avg_pool1d_at(const char *site, tj_tensor *x, tj_dims sizes);
TJ_API tj_tensor *tj_adaptive_avg_pool2d_at(const char *site, tj_tensor *x, tj_dims sizes);
TJ_API tj_tensor *tj_adaptive_avg_pool3d_at(const char *site, tj_tensor *x, tj_dims sizes);
#define tj_adaptive_max_pool1d(x, sizes) tj_adaptive_max_pool1d_at(TJ_SITE, x, sizes)
/* tj_adaptive_max_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2)) = [[[3., 4.]]] */
#define tj_adaptive_max_pool2d(x, sizes) tj_adaptive_max_pool2d_at(TJ_SITE, x, sizes)
/* tj_adaptive_max_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2)) = [[[[2., 4.]]]] */
#define tj_adaptive_max_pool3d(x, sizes) tj_adaptive_max_pool3d_at(TJ_SITE, x, sizes)
/* tj_adaptive_max_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1)) = [[[[[4.]]]]] */
#define tj_adaptive_avg_pool1d(x, sizes) tj_adaptive_avg_pool1d_at(TJ_SITE, x, sizes)
/* tj_adaptive_avg_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2)) = [[[2., 3.]]] */
#define tj_adaptive_avg_pool2d(x, sizes) tj_adaptive_avg_pool2d_at(TJ_SITE, x, sizes)
/* tj_adaptive_avg_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2)) = [[[[1.5, 3.5]]]] */
#define tj_adaptive_avg_pool3d(x, sizes) tj_adaptive_avg_pool3d_at(TJ_SITE, x, sizes)
/* tj_adaptive_avg_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1)) = [[[[[2.5]]]]] */

/* ---- shuffles, columns, more pools ------------------------------------------------------------------ */

/* pixel_shuffle: [...,C * r * r,H,W] -> [...,C,H * r,W * r]; pixel_unshuffle is its inverse. channel_shuffle: channel g * n + i of
 * [N,C,...] comes to i * groups + g. im2col: the windows of [N,C,H,W] as columns [N,C * places,windows], PyTorch's nn.Unfold (tj_unfold()
 * is its Tensor.unfold()); col2im, its nn.Fold, adds columns to a picture of the given size. Of the options they have stride (1 without),
 * padding and dilation. Each may be without N. */
TJ_API tj_tensor *tj_pixel_shuffle_at(const char *site, tj_tensor *x, int64_t factor);
TJ_API tj_tensor *tj_pixel_unshuffle_at(const char *site, tj_tensor *x, int64_t factor);
TJ_API tj_tensor *tj_channel_shuffle_at(const char *site, tj_tensor *x, int64_t groups);
TJ_API tj_tensor *tj_im2col_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_col2im_at(const char *site, tj_tensor *x, tj_dims size, tj_dims kernel, const tj_pool_opts *opts);
#define tj_pixel_shuffle(x, factor) tj_pixel_shuffle_at(TJ_SITE, x, factor)
/* tj_pixel_shuffle([[[1]], [[2]], [[3]], [[4]]], 2) = [[[1, 2], [3, 4]]] */
#define tj_pixel_unshuffle(x, factor) tj_pixel_unshuffle_at(TJ_SITE, x, factor)
/* tj_pixel_unshuffle([[[1, 2], [3, 4]]], 2) = [[[1]], [[2]], [[3]], [[4]]] */
#define tj_channel_shuffle(x, groups) tj_channel_shuffle_at(TJ_SITE, x, groups)
/* tj_channel_shuffle([[[1], [2], [3], [4]]], 2) = [[[1], [3], [2], [4]]] */
#define tj_im2col(x, kernel, opts) tj_im2col_at(TJ_SITE, x, kernel, opts)
/* tj_im2col([[[[1, 2], [3, 4]]]], TJ_SHAPE(1, 2), NULL) = [[[1, 3], [2, 4]]] */
#define tj_fold(x, size, kernel, opts) tj_col2im(x, size, kernel, opts)
/* tj_fold([[[1., 3.], [2., 4.]]], TJ_SHAPE(2, 2), TJ_SHAPE(1, 2), NULL) = [[[[1., 2.], [3., 4.]]]] */
#define tj_col2im(x, size, kernel, opts) tj_col2im_at(TJ_SITE, x, size, kernel, opts)
/* tj_col2im([[[1., 3.], [2., 4.]]], TJ_SHAPE(2, 2), TJ_SHAPE(1, 2), NULL) = [[[[1., 2.], [3., 4.]]]] */

/* lp_pool: (the sum of x^p in each window)^(1 / p), with gradient 0 where it is 0. max_pool with indices: of each largest element its place
 * in the picture, i64, counted row by row. max_unpool puts elements back there, zeros elsewhere; size: that of the picture. */
TJ_API tj_tensor *tj_lp_pool1d_at(const char *site, tj_tensor *x, double p, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_max_pool1d_with_indices_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts,
                                                tj_tensor **indices);
TJ_API tj_tensor *tj_adaptive_max_pool1d_with_indices_at(const char *site, tj_tensor *x, tj_dims sizes, tj_tensor **indices);
TJ_API tj_tensor *tj_max_unpool1d_at(const char *site, tj_tensor *x, tj_tensor *indices, tj_dims size);
#define tj_lp_pool1d(x, p, kernel, opts) tj_lp_pool1d_at(TJ_SITE, x, p, kernel, opts)
/* tj_lp_pool1d([[[3., 4.]]], 2, TJ_SHAPE(2), NULL) = [[[5.]]] */
#define tj_max_pool1d_with_indices(x, kernel, opts, indices) tj_max_pool1d_with_indices_at(TJ_SITE, x, kernel, opts, indices)
/* tj_max_pool1d_with_indices([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL, &indices) = [[[3., 4.]]], [[[1, 3]]] */
#define tj_adaptive_max_pool1d_with_indices(x, sizes, indices) tj_adaptive_max_pool1d_with_indices_at(TJ_SITE, x, sizes, indices)
/* tj_adaptive_max_pool1d_with_indices([[[1., 3., 2., 4.]]], TJ_SHAPE(2), &indices) = [[[3., 4.]]], [[[1, 3]]] */
#define tj_max_unpool1d(x, indices, size) tj_max_unpool1d_at(TJ_SITE, x, indices, size)
/* tj_max_unpool1d([[[3., 4.]]], [[[1, 3]]], TJ_SHAPE(4)) = [[[0., 3., 0., 4.]]] */
TJ_API tj_tensor *tj_lp_pool2d_at(const char *site, tj_tensor *x, double p, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_max_pool2d_with_indices_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts,
                                                tj_tensor **indices);
TJ_API tj_tensor *tj_adaptive_max_pool2d_with_indices_at(const char *site, tj_tensor *x, tj_dims sizes, tj_tensor **indices);
TJ_API tj_tensor *tj_max_unpool2d_at(const char *site, tj_tensor *x, tj_tensor *indices, tj_dims size);
#define tj_lp_pool2d(x, p, kernel, opts) tj_lp_pool2d_at(TJ_SITE, x, p, kernel, opts)
/* tj_lp_pool2d([[[[3.], [4.]]]], 2, TJ_SHAPE(2, 1), NULL) = [[[[5.]]]] */
#define tj_max_pool2d_with_indices(x, kernel, opts, indices) tj_max_pool2d_with_indices_at(TJ_SITE, x, kernel, opts, indices)
/* tj_max_pool2d_with_indices([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL, &indices) = [[[[4.]]]], [[[[3]]]] */
#define tj_adaptive_max_pool2d_with_indices(x, sizes, indices) tj_adaptive_max_pool2d_with_indices_at(TJ_SITE, x, sizes, indices)
/* tj_adaptive_max_pool2d_with_indices([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2), &indices) = [[[[2., 4.]]]], [[[[2, 3]]]] */
#define tj_max_unpool2d(x, indices, size) tj_max_unpool2d_at(TJ_SITE, x, indices, size)
/* tj_max_unpool2d([[[[4.]]]], [[[[3]]]], TJ_SHAPE(2, 2)) = [[[[0., 0.], [0., 4.]]]] */
TJ_API tj_tensor *tj_lp_pool3d_at(const char *site, tj_tensor *x, double p, tj_dims kernel, const tj_pool_opts *opts);
TJ_API tj_tensor *tj_max_pool3d_with_indices_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts,
                                                tj_tensor **indices);
TJ_API tj_tensor *tj_adaptive_max_pool3d_with_indices_at(const char *site, tj_tensor *x, tj_dims sizes, tj_tensor **indices);
TJ_API tj_tensor *tj_max_unpool3d_at(const char *site, tj_tensor *x, tj_tensor *indices, tj_dims size);
#define tj_lp_pool3d(x, p, kernel, opts) tj_lp_pool3d_at(TJ_SITE, x, p, kernel, opts)
/* tj_lp_pool3d([[[[[3., 4.]]]]], 2, TJ_SHAPE(1, 1, 2), NULL) = [[[[[5.]]]]] */
#define tj_max_pool3d_with_indices(x, kernel, opts, indices) tj_max_pool3d_with_indices_at(TJ_SITE, x, kernel, opts, indices)
/* tj_max_pool3d_with_indices([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL, &indices) = [[[[[2., 4.]]]]], [[[[[2, 3]]]]] */
#define tj_adaptive_max_pool3d_with_indices(x, sizes, indices) tj_adaptive_max_pool3d_with_indices_at(TJ_SITE, x, sizes, indices)
/* tj_adaptive_max_pool3d_with_indices([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1), &indices) = [[[[[4.]]]]], [[[[[3]]]]] */
#define tj_max_unpool3d(x, indices, size) tj_max_unpool3d_at(TJ_SITE, x, indices, size)
/* tj_max_unpool3d([[[[[4.]]]]], [[[[[1]]]]], TJ_SHAPE(1, 1, 2)) = [[[[[0., 4.]]]]] */

/* ---- pictures of other sizes, places of pictures ------------------------------------------------------ */

/* As in PyTorch. DEFAULT: NEAREST of tj_interpolate(), LINEAR of tj_grid_sample(). LINEAR is bilinear or trilinear if there are so many
 * axes. */
typedef enum tj_sampling {
	TJ_SAMPLE_DEFAULT, TJ_SAMPLE_NEAREST, TJ_SAMPLE_NEAREST_EXACT, TJ_SAMPLE_LINEAR, TJ_SAMPLE_CUBIC, TJ_SAMPLE_AREA
} tj_sampling;

/* x [N,C,...] with 1, 2 or 3 axes behind the channels, in other sizes: `size`, or NULL and .scale, a factor for each axis; then the size is
 * rounded down, and places are counted with the factor itself. NEAREST takes any dtype; without .scale it decides by integers alone, where
 * PyTorch rounds to f32. f16 and bf16 are computed in f32. opts may be NULL. */
typedef struct tj_interpolate_opts {
	size_t size;
	tj_sampling mode;
	bool align_corners; /* the first and last elements stay where they are; of LINEAR and CUBIC */
	bool antialias;     /* a smaller picture is made of all elements, not of those next to its places; of LINEAR and CUBIC */
	double scale[3];    /* of each axis, instead of its size. LINEAR and antialias copy an axis that keeps its size, as in PyTorch, whatever
	                     * the scale */
} tj_interpolate_opts;

/* The elements of x [N,C,H,W] or [N,C,D,H,W] at the places grid [N,...,2 or 3], which are (W, H) or (W, H, D) from -1 to 1, in the shape
 * [N,C,...]. NEAREST, LINEAR, or CUBIC for two axes. padding: what is beside x: TJ_PAD_CONSTANT zeros, TJ_PAD_REPLICATE, TJ_PAD_REFLECT.
 * opts may be NULL. */
typedef struct tj_grid_sample_opts {
	size_t size;
	tj_sampling mode;
	tj_pad_mode padding;
	bool align_corners; /* -1 and 1 are the middles of the first and last elements; else their outer edges */
} tj_grid_sample_opts;
/* affine_grid: places for tj_grid_sample() that theta [N,2,3] or [N,3,4] maps those of a result of the given size (N, C, H, W; N, C, D, H,
 * W) to. */
TJ_API tj_tensor *tj_interpolate_at(const char *site, tj_tensor *x, tj_dims size, const tj_interpolate_opts *opts);
TJ_API tj_tensor *tj_grid_sample_at(const char *site, tj_tensor *x, tj_tensor *grid, const tj_grid_sample_opts *opts);
TJ_API tj_tensor *tj_affine_grid_at(const char *site, tj_tensor *theta, tj_dims size, bool align_corners);
#define tj_interpolate(x, size, opts) tj_interpolate_at(TJ_SITE, x, size, opts)
/* tj_interpolate([[[1., 2.]]], TJ_SHAPE(4), NULL) = [[[1., 1., 2., 2.]]] */
#define tj_grid_sample(x, grid, opts) tj_grid_sample_at(TJ_SITE, x, grid, opts)
/* tj_grid_sample([[[[1., 3.]]]], [[[[0., 0.]]]], NULL) = [[[[2.]]]] */
#define tj_affine_grid(theta, size, align_corners) tj_affine_grid_at(TJ_SITE, theta, size, align_corners)
/* tj_affine_grid([[[1., 0., 0.], [0., 1., 0.]]], TJ_SHAPE(1, 1, 1, 2), true) = [[[[-1., 0.], [1., 0.]]]] */

#ifdef __cplusplus
} /* extern "C" */

/* C++11 and later. What differs from C:
 *   The list macros make temporaries, which live to the end of the full expression. A list with a name is an `auto`, not a tj_dims or
 * tj_list:
 *     auto shape = TJ_SHAPE(2, 3);
 *   They may be empty: TJ_SHAPE() is like TJ_0D. Tensors that are not there are nullptr, not NULL.
 *   There is no TJ_OPTS, which names fields. Set them one by one: tj_compile_opts o = {}; o.size = sizeof o; o.nin = 1; f = tj_compile(c,
 * body, self, &o);
 *   There are no compound literals: the data of tj_from_data() and its like is an array with a name.
 *   TJ_EACH() is for int64_t a[3] = TJ_EACH(2), not for a field.
 *   A dtype, mode or other enum is no int: static_cast<tj_dtype>(i). */
#define TJ_ALL (static_cast<tj_dims>(nullptr))
#define TJ_END (reinterpret_cast<tj_tensor *>(static_cast<uintptr_t>(8)))
#define TJ_END_VAR (reinterpret_cast<tj_tensor **>(static_cast<uintptr_t>(8)))
namespace tj {
template <unsigned N> struct dims {
	int64_t v[N + 1];
	operator tj_dims() const { return v; }
};
template <unsigned N> struct list {
	tj_tensor *v[N + 1];
	operator tj_list() const { return v; }
};
template <unsigned N> struct vars {
	tj_tensor **v[N + 1];
	operator tj_vars() const { return v; }
};
template <unsigned N> struct scalars {
	tj_scalar v[N + 1];
	operator const tj_scalar *() const { return v; }
};
template <class... T> dims<sizeof...(T)> make_dims(T... t) { return {{ static_cast<int64_t>(t)..., TJ_END_DIM }}; }
template <class... T> list<sizeof...(T)> make_list(T... t) { return {{ static_cast<tj_tensor *>(t)..., TJ_END }}; }
template <class... T> vars<sizeof...(T)> make_vars(T... t) { return {{ t..., TJ_END_VAR }}; }
template <class... T> scalars<sizeof...(T)> make_scalars(T... t) { return {{ t..., tj_scalar_end() }}; }
} // namespace tj
#define TJ_SHAPE(...) (tj::make_dims(__VA_ARGS__))
#define TJ_AXES(...) (tj::make_dims(__VA_ARGS__))
#define TJ_LIST(...) (tj::make_list(__VA_ARGS__))
#define TJ_VARS(...) (tj::make_vars(__VA_ARGS__))
#define TJ_SCALARS(...) (tj::make_scalars(__VA_ARGS__))
#endif

#endif
