/* SPDX-License-Identifier: MIT */
/* program: what the body of a function asks for, as data: an exported function. Running a program asks for the same events, in the same
 * order; everything else (traces, guards, plans, direct mode) is as with a body in C.
 *
 *   function step inputs 2 outputs 1 scalars 0            text of a program (ptext.c)
 *   symbol B least 1 most 64
 *   argument 0 f32[B,784]
 *   argument 1 float
 *   variable 0 weight f32[784,256] w
 *   variable 1 cell f32[256] sum
 *   result 0 f32[B,256]
 *   number 0 float 0x1p-1
 *   number 1 argument 1
 *   number 2 inverse B                                    1 / B
 *   0 matmul a0 v0 : / net.c:12                           event 0: operands : attributes / mode and line
 *   1 mul 0 n2 : / net.c:13
 *   2 assign 1 v1 : / net.c:14
 *   return 1
 *
 * The program was compared with the body at all sizes that the ranges of its symbols allow (prove.c). */
#ifndef TJ_JIT_PROGRAM_H
#define TJ_JIT_PROGRAM_H

#include "guards/guards.h"
#include "jit/ctx.h"

typedef enum jit_pkind { JIT_P_VALUE, JIT_P_ARG, JIT_P_VAR, JIT_P_NUMBER } jit_pkind;
typedef struct jit_poperand { uint8_t kind; uint32_t index; } jit_poperand; /* VALUE: number of the event */

/* A size: (times * S[i] * S[j] + more) / part, rounded down; i, j: symbols, or -1: none. Without symbols it is `more`. */
typedef struct jit_psize { int64_t times, more, part; int8_t i, j; } jit_psize; /* part 0: "_", a result's that no expression gives */
static inline bool jit_pconst(const jit_psize *s) { return s->i < 0; }

typedef enum jit_pnumber_kind {
	JIT_PN_INT,
	JIT_PN_FLOAT, /* bits */
	JIT_PN_SIZE,  /* an integer: size */
	JIT_PN_REAL,
	JIT_PN_INVERSE,
	JIT_PN_INVERSE32,
	JIT_PN_ROOT,
	JIT_PN_INVERSE_ROOT, /* floats of a size n: n, 1/n, 1/n of f32, sqrt(n), 1/sqrt(n) */
	JIT_PN_ARG,
	JIT_PN_SCALAR,  /* index */
	JIT_PN_COMPUTED /* op of earlier numbers */
} jit_pnumber_kind;
typedef struct jit_pnumber {
	uint8_t kind, nsrc;
	uint16_t op;
	uint32_t index, src[3];
	uint64_t bits;
	jit_psize size;
} jit_pnumber;

typedef struct jit_pstep {  /* an event */
	uint16_t op, nsrc, nattr;
	uint8_t mode;
	jit_poperand *src;
	jit_psize *attr;
	const char *site;
} jit_pstep;

typedef struct jit_parg {   /* of the function; also a result of it */
	uint8_t kind;           /* gd_kind: a tensor, GD_VALUE; or a number */
	uint8_t dtype, rank;
	jit_psize dim[TJ_MAX_RANK];
} jit_parg;

typedef struct jit_pvar {   /* a tensor that the body reads: its content is in the file, or comes from the program */
	const char *name;
	uint8_t dtype, rank;
	bool cell;              /* it may be written; else its content never changes */
	int64_t dim[TJ_MAX_RANK];
	size_t at, bytes;       /* of its content, in the data of the file */
} jit_pvar;

enum { JIT_P_SYMBOLS = 8 };
typedef struct jit_program {
	rt_arena mem;           /* holds all of it, this struct included */
	const char *name;
	uint32_t nout;
	uint8_t int_div_zero;
	rt_vec(gd_symbol) symbol;
	rt_vec(jit_parg) arg;
	rt_vec(tj_scalar) scalar;
	rt_vec(jit_parg) result; /* as many as out; none: the file is of version 1.0 */
	rt_vec(jit_pvar) var;
	rt_vec(jit_pnumber) number;
	rt_vec(jit_pstep) step;
	rt_vec(jit_poperand) out;
	/* of an imported function: */
	struct jit_program *next; /* jit_engine.programs */
	const char **type;      /* by argument: its text */
	tj_tensor **cell;       /* by variable */
	tj_tensor ***address;   /* of these, ended by TJ_END_VAR: cells, then weights */
} jit_program;

/* program.c */
jit_program *jit_program_new(void); /* NULL: out of memory */
void jit_program_free(jit_program *p);
void jit_programs_free(jit_program *p); /* the list */
int64_t jit_psize_at(const jit_psize *s, const int64_t *symbol);
uint64_t jit_pnumber_bits(const jit_pnumber *n, const int64_t *symbol); /* of one that is no argument, no scalar, and not computed */
void jit_program_body(tj_tensor **out, tj_tensor *const *in, void *program); /* a tj_body */
void jit_put_psize(const jit_program *p, const jit_psize *s, rt_text *t);
void jit_put_parg(const jit_program *p, const jit_parg *a, rt_text *t); /* "f32[B,784]" */

void jit_put_pvar(const jit_pvar *v, rt_text *t); /* "f32[784,256]" */

/* The sizes of a symbol: their number, JIT_P_FAR if it is larger; and the i-th one. */
enum { JIT_P_FAR = 1 << 20 };
int64_t jit_symbol_count(const gd_symbol *s);
int64_t jit_symbol_size(const gd_symbol *s, int64_t i);

/* ptext.c */
void jit_program_print(const jit_program *p, rt_text *t);
/* text: n bytes, and a zero behind them. room: bytes of the file's data. NULL: err says what is wrong in which line */
jit_program *jit_program_parse(const char *text, size_t n, size_t room, rt_err *err);

/* capture.c */
/* The running call is one segment that direct mode could skip. False: the error, of `op`, is reported. */
bool jit_is_whole(jit_act *a, const char *site, const char *op);
/* Runs the body of f for its events alone: nothing is computed, committed or kept. `of` tells in the program which tensors its variables
 * are; NULL: the error is reported. scalars may be NULL. */
typedef rt_vec(tj_tensor *) jit_handles;
jit_program *jit_capture(tj_ctx *c, const char *site, tj_fn *f, tj_tensor *const *in, const tj_scalar *scalars, jit_handles *of);

/* prove.c */
/* Finds the sizes in the program of expressions over symbols: at[i] has the program at the i-th combination of sizes, all of one form.
 * False: err names the first event that differs in another way. */
bool jit_prove(jit_program *p, uint32_t n, jit_program *const *at, const int64_t *const *sizes, rt_err *err);

/* package.c: the file of an exported function: its program as text, the contents of its variables, its code.
 *
 *   head | text, a zero | data | for each CPU: width, features, number of entries; then size and bytes of each entry (runtime/store.h) */
enum { JIT_PACK_ALIGN = 64, JIT_PACK_CPUS = 8 };
typedef struct jit_pack {
	rt_span text, data;
	int ncpu;
	struct { rt_cpu cpu; uint32_t n; rt_span entries; } cpu[JIT_PACK_CPUS];
	char build[33], version[16]; /* of the library that wrote it */
} jit_pack;
/* The bytes of a file, to be freed by rt_free(). code: by CPU, a store in memory. NULL: out of memory */
unsigned char *jit_pack_write(rt_span text, rt_span data, int ncpu, const rt_cpu *cpu, rt_store *const *code, size_t *n);
bool jit_pack_read(const void *bytes, size_t n, jit_pack *p, rt_err *err); /* what p has lies in bytes, which begin at a multiple of 8 */
/* The file is the old one or the new one, never a part of it. */
bool jit_write_file(const char *path, const void *bytes, size_t n, rt_err *err);
bool jit_pack_entry(rt_span *entries, rt_span *entry); /* takes the first one off; false: there is none, or it is cut off */

/* import.c */
void *jit_read_file(const char *path, size_t *n, rt_err *err); /* all of it, to be freed by rt_free(); NULL: err is set */
bool jit_take_code(rt_store *s, rt_span entries,
                   uint32_t n); /* copies entries of a file into a store; false: out of memory, or they are cut off */

void jit_put_cpu(const rt_cpu *cpu, rt_text *t); /* "512 bits +avx512bf16" */

/* contents.c */
/* False: err says what is wrong with the bytes, which begin at a multiple of 8. */
bool jit_walk_pack(const void *bytes, size_t n, tj_export_visit *visit, void *env, rt_err *err);

/* call.c */
/* As tj_call(), up to the return: then see() gets the results as the return would, and all is dropped. */
typedef bool jit_see(void *env, jit_act *a, uint32_t n, tj_tensor *const *res);
tj_status jit_call_dry(tj_ctx *c, const char *site, tj_fn *f, tj_list in, const tj_scalar *scalars, jit_see *see, void *env);

#endif
