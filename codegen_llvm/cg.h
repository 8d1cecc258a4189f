/* SPDX-License-Identifier: MIT */
/* cg: LLVM text from kernels and their recipes. Private to the plug-in.
 *
 * A kernel becomes one function over its units. How, its recipe says (recipe.h); what writes the text looks it up. A value that is the
 * same for all lanes is a scalar, computed in the outermost place that is possible; any other value is a vector of `lanes` elements. Each
 * value is computed in one of these places:
 *
 *   entry     constants and numbers, once for a call
 *   unit      values that depend on the outer indices only, once for a unit
 *   pre       before the loop of a section (lanes along r)
 *   body      the rest: inside the vector loop (lanes along d) or the section's loop
 *
 * Where the last vector may have absent lanes, the body is written again, masked, for the tail; or the main loop runs once more on
 * copies (stage.c). */
#ifndef TJ_CODEGEN_LLVM_CG_H
#define TJ_CODEGEN_LLVM_CG_H

#include "codegen_llvm/recipe.h"

typedef struct cg_str { char s[48]; } cg_str;

typedef struct cg_num { /* an i64 that is the same for all units */
	bool known;
	int64_t v;          /* the value; valid if known */
	cg_str s;           /* the literal, or the name of the value */
} cg_num;

typedef struct cg_val {
	cg_str name;        /* "%v3", or a literal */
	bool vec, literal;
	uint8_t place;
	cg_str wide;        /* a vector with the scalar in all lanes */
	uint32_t wide_key;  /* the section (cg.key) in which `wide` is valid; 0: none */
} cg_val;

/* The accumulator of a reduction in the section that is being written. */
typedef struct cg_acc {
	uint32_t ins;       /* the REDUCE or PART; the accumulator takes its operand in each step */
	uint32_t index, element; /* arg: the instructions that give the index and the element; LO_NOREF: nobody reads it */
	lo_red red;         /* arg: ARGMAX or ARGMIN */
	tj_dtype dtype;     /* of the reduced values */
	bool ordered, arg;  /* ordered: it follows the tree. arg: it is a search */
	tj_dtype index_dtype; /* arg: dtype of the indices while they are compared */
	int lanes;          /* of the accumulator */
	bool twice;         /* r is a step and a tail, and each updates half of the lanes */
	bool memory;        /* it lies in an array, because it has more lanes than the body */
	int64_t chunk;      /* ordered: values of r per chunk */
	cg_num nchunk, last; /* number of chunks (of a part, with parts); number of chunks of the last part */
	bool fresh;         /* each step is one chunk: the accumulator starts from the identity and stays in registers */
	bool part;          /* a PART: its lanes are stored at the end */
	bool bytes;         /* it adds bytes, of which eight go to a lane */
	cg_str state, istate, stack; /* arrays: the accumulator between chunks, its indices, and the stack of finished blocks */
	cg_str at, stack_at; /* where state and stack of this vector begin; with `wide` inside those arrays */
	cg_num step;        /* elements from one block of the stack to the next */
	cg_str now, inow;   /* names of the accumulator and its indices at this point of the text */
	cg_str first, first_element; /* the results on the path where r is one chunk */
} cg_acc;

/* A function that kernels call, of their own: equal ones are compiled once, and shared. Its name is CG_OWN and a hash of its text. */
#define CG_OWN "tj.own."
typedef struct cg_own {
	cg_str name;
	rt_text text;
	rt_entry fn;        /* once it is compiled */
	rt_blob blob;       /* the same; none if ORC linked it */
	struct cg_object *object; /* the code that it is in; a reference */
} cg_own;
typedef rt_vec(cg_own) cg_owns;

typedef struct cg_constant { uint8_t dtype; int64_t bits; } cg_constant; /* in memory, in all lanes of a register */
enum { CG_WIDEST = 64 /* lanes of a register */ };

typedef struct cg {
	const cg_recipe *how;
	const lo_kernel *k; /* k, s, bits: those of the recipe */
	const lo_schedule *s;
	int bits;
	int lanes;          /* of the vectors at this point of the text */
	int whole;          /* along r: of those in the loop, while the tail is written, too */
	bool behind;        /* along r: the tail is written */
	cg_num block;       /* indices of the last dimension per unit */
	cg_val *val;        /* by instruction */
	rt_text entry, unit, pre, body;
	rt_text *out;       /* where text goes now */
	const char *copy;   /* suffix of names, because main loop and tail define the same values */
	rt_text own, *around; /* the function of its own that is being written; where text went before */
	uint32_t around_tmp;
	cg_str around_label;
	uint32_t tmp, key;  /* tmp: number of the last temporary. key: number of the section, for cg_val.wide_key */
	bool in_loop, masked;
	cg_str mask;        /* masked: which lanes are present */
	bool exact;         /* the tail is written, and no lane is absent (recipe.h) */
	bool laps;          /* masked: the first lanes are absent, and all may be loaded (overlap.c) */
	cg_str at;          /* index of lane 0 along the lanes' dimension */
	cg_str r;           /* lanes along d: the index r */
	cg_str unit_index;  /* number of the unit, parts of r not counted */
	cg_str block_label; /* label of the basic block that is being written */
	rt_vec(cg_acc) acc;
	uint32_t acc_from;  /* in a group of chunks: the first accumulator of the chunk whose text is written */
	cg_str tile_row, tile_lo; /* tiled loads: offset of the current row in the tile; column at which the tile begins */
	bool wide_now;      /* WIDE: the text at this point is in that form; false in the tail */
	unsigned wide_id;
	cg_str wide_lo, wide_stop, wide_off; /* wide: first column, last + 1; offset of the current vector from the first column */
	cg_str (*part)[CG_FIELDS]; /* by structure, by field: the values, in the copy of the text that is being written */
	bool stream_copy;   /* the current copy of the loop has streamed stores */
	bool stage_copy;    /* the current copy of the loop runs on copies: on %q, not on %p (stage.c) */
	bool stage_out;     /* true: results are copied back now; false: inputs are copied in */
	cg_str one[2];      /* the factor 1 of the sums that multipliers compute, as f32 and f64 (ports.c) */
	cg_owns *owns;      /* the functions that kernels of the job call */
	struct cg_writer *product; /* of a matrix product (product.h) */
	cg_str sums, sums_lo; /* product: address of the current row of sums, and the column at which it begins */
	const char *next_unit; /* operands of the add that gives the next unit's number */
	rt_text phi, step;  /* phis and updates of outer indices that units count, where division by extents would be slow */
	bool oom;
	rt_err *err;
} cg;

/* ---- kernel.c ---- */
/* appends the function; adds to owns what it calls */
tj_status cg_kernel(const cg_recipe *how, cg_owns *owns, rt_text *out, rt_err *err);

/* ---- vectors.c ---- */
void cg_vectors(cg *c, cg_str lo, cg_str hi, cg_span s); /* writes the sections for the vectors of lo..hi */
void cg_row(cg *c, cg_str lo, cg_str hi, cg_span s); /* the same inside a loop over rows, with the values of the row before the vectors */

/* ---- overlap.c ---- */
/* The elements stop..hi of the row lo..hi. */
void cg_exact_tail(cg *c, cg_str stop);
void cg_overlapped_tail(cg *c, cg_str lo, cg_str stop, cg_str hi, const cg_span *s);

/* ---- own.c ---- */
void cg_begin_own(cg *c, rt_text *parameters);   /* text now goes to a function of the kernel's own; frees parameters */
cg_str cg_end_own(cg *c);                        /* text goes where it went before; returns the name of the function, "@..." */
void cg_drop_owns(cg_owns *owns);
void cg_put_declared(rt_text *out, const cg_owns *owns); /* declarations, for kernels that call them */

/* ---- lines.c: lines of C, if kernels have sites ---- */
void cg_put_sites(const lo_kernel *k, bool named, rt_text *t); /* at the start of a function; named: with the kernel's name */
void cg_mark_site(const cg *c, uint32_t site); /* text that follows is of this site (lo_ins.site); 0: of none */
const char *cg_ops_in(const char *text, size_t *n); /* the ops that the function's text names; NULL: it has no sites */
typedef struct cg_lines { rt_text text; unsigned n; } cg_lines; /* metadata of a module, and the next number; starts as zeros */
void cg_put_with_lines(rt_text *out, const char *text, cg_lines *all);
void cg_put_line_table(rt_text *out, cg_lines *all); /* at the end of the module; frees what all has */

/* ---- write.c: arithmetic on indices, loops, loads and stores at computed addresses ---- */
/* i: the index. once: it is known to run once, and is no loop */
typedef struct cg_loop { cg_str i, step, to, head, latch, done; bool once; } cg_loop;
cg_str cg_op(cg *c, const char *name, cg_str a, cg_str b);  /* of i64: "add" .. */
cg_str cg_cmp(cg *c, const char *how, cg_str a, cg_str b);  /* of i64: "slt" .. */
cg_str cg_choose(cg *c, cg_str when, const char *type, cg_str a, cg_str b);
cg_str cg_least(cg *c, cg_str a, cg_str b);
/* text until cg_close() is the body. guard: the range may be empty */
cg_loop cg_open(cg *c, const char *name, cg_str from, cg_str to, cg_str step, bool guard);
void cg_close(cg *c, const cg_loop *l);
cg_str cg_hide(cg *c, cg_str x); /* x, about which LLVM knows nothing */
cg_str cg_elem(cg *c, tj_dtype t, cg_str base, cg_str index); /* the address of an element */
cg_str cg_read(cg *c, tj_dtype t, int lanes, cg_str p);
void cg_write(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p);
cg_str cg_read_some(cg *c, tj_dtype t, int lanes, cg_str p, cg_str mask); /* absent lanes are 0 */
void cg_write_some(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p, cg_str mask);
/* v, with what is at p in the lanes that the mask leaves out */
cg_str cg_keep_absent(cg *c, tj_dtype t, int lanes, cg_str v, cg_str p, cg_str mask);
cg_str cg_first_lanes(cg *c, cg_str n, int lanes);          /* a mask of the first n lanes; n may be negative, or larger than lanes */
/* sum + a * b: fused for floats, wrapping for integers */
cg_str cg_multiply_add(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b, cg_str sum);
cg_str cg_sum(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b);
void cg_put_dims(const cg *c, rt_text *t, int from, int to, cg_str number); /* computes %d(from)..%d(to-1) from their row-major number */

/* ---- product.c: matrix products ---- */
void cg_along_product(cg *c); /* a unit */

/* ---- wide.c: reductions of columns, many to a unit ---- */
void cg_wide_open(cg *c);  /* a loop over the vectors of the unit */
void cg_wide_close(cg *c);

/* ---- rare.c: selects whose last operand is rarely needed ---- */
void cg_rare(cg *c, uint32_t select, void (*put)(cg *c, uint32_t ins)); /* put writes an instruction */

/* ---- nan.c: maxima and minima that test for NaN at the end ---- */
bool cg_put_extreme(cg *c, uint32_t ins); /* false: it is none of those */

/* ---- stream.c: stores that bypass the caches ---- */
void cg_put_streams(cg *c); /* in the entry: %nt, whether streamed stores meet whole lines */

/* ---- stage.c: tails that run the main loop once more, on copies ---- */
void cg_stage_open(cg *c, cg_str lo, cg_str stop); /* the block before the loop: %from..%to is its range, %second is true for the copies */
void cg_stage_tail(cg *c, cg_str stop, cg_str hi); /* after the loop: what copies stop..hi; text continues at %whole */

/* ---- ahead.c: prefetches ---- */
void cg_ask_ahead(cg *c, const lo_section *s); /* writes the prefetches of one step of the section's loop */

/* ---- tile.c: element-wise kernels that read across rows ---- */
enum { CG_TILE_COLS = 64 };
void cg_along_tiles(cg *c);

/* ---- size.c: sizes and arithmetic on them; what is not known is computed in the entry ---- */
void cg_entry_field(cg *c, const char *name, size_t offset); /* %name: the pointer at that offset of rt_kargs */
void cg_entry_sizes(cg *c);
cg_num cg_lit(int64_t v);
cg_num cg_size(int64_t size);                         /* a literal or a symbol of the kernel */
cg_str cg_int(int64_t size);                          /* its text */
cg_num cg_add(cg *c, cg_num a, cg_num b);
cg_num cg_sub(cg *c, cg_num a, cg_num b);
cg_num cg_mul(cg *c, cg_num a, cg_num b);
cg_num cg_div_up(cg *c, cg_num a, cg_num b);          /* ceil(a / b) */
cg_num cg_last_part(cg *c);                           /* the r at which the last part begins; 0 without parts */
cg_num cg_round_down(cg *c, cg_num a, int64_t pow2);  /* to a multiple of pow2 */

/* ---- value.c: names, types, broadcasts ---- */
cg_str cg_fmt(const char *fmt, ...) RT_PRINTF(1, 2);
cg_str cg_tmp(cg *c);                                 /* a new name */
cg_str cg_type(tj_dtype t, int lanes);                /* "float", "<16 x float>"; one lane is a scalar */
cg_str cg_mem_type(tj_dtype t, int lanes);            /* the same, in memory: bool is i8 */
cg_str cg_mangle(tj_dtype t, int lanes);              /* "v16f32" */
cg_str cg_mem_mangle(tj_dtype t, int lanes);
cg_str cg_literal(tj_dtype t, int64_t bits, int lanes);
void cg_label(cg *c, cg_str name);
void cg_jump(cg *c, cg_str to);                       /* writes a branch to the label, then the label: text continues there */
cg_str cg_use(cg *c, uint32_t ins, bool vec);         /* the value as an operand; vec: as a vector */
cg_str cg_resized(cg *c, tj_dtype t, cg_str v, int from, int to); /* the first lanes of v, or v and lanes that are not defined */
cg_str cg_splat(cg *c, const char *type, cg_str scalar, int lanes); /* the scalar in all lanes; text goes to the current place */
/* Computes name from src, n lanes at a time; n divides lanes. put writes one such part; first: its first lane. */
typedef void cg_part_fn(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first);
void cg_by_parts(cg *c, cg_str name, tj_dtype t, int lanes, int n, int nsrc, const cg_str *src, cg_part_fn *put);
void cg_iota(rt_text *t, const char *type, int64_t step, int lanes); /* "<i64 0, i64 1, ...>" */
void cg_def(cg *c, uint32_t ins, cg_str name, bool vec);

/* ---- point.c: primitives ---- */
void cg_point(cg *c, uint32_t ins);
/* a primitive of operands src, which have `lanes` lanes each */
void cg_prim(cg *c, cg_str name, const lo_ins *in, int lanes, const cg_str *src);
void cg_convert(cg *c, cg_str name, tj_dtype from, tj_dtype to, int lanes, cg_str v); /* LO_CONVERT */
cg_str cg_select_mask(cg *c, tj_dtype t, cg_str value, cg_str other); /* value, with `other` in absent lanes */

/* ---- constants.c: operands in memory ---- */
/* src: the operands of an instruction on vectors, of which one may become another name */
void cg_operands_in_memory(cg *c, const lo_ins *in, cg_str *src);
void cg_put_constants(rt_text *out); /* defines those that the functions in the text name */

/* ---- small.c: i64 that fit into 32 bits ---- */
void cg_put_small(cg *c, cg_str name, const lo_ins *in);

/* ---- x86.c: instructions by their names ---- */
void cg_x86_fence(rt_text *t);                        /* streamed stores before all later ones */
cg_str cg_x86_pick_byte(cg *c, cg_str low, cg_str high, cg_str index); /* 64 bytes of 128, by the low 7 bits of each index */
void cg_x86_pick_word(cg *c, cg_str name, tj_dtype t, cg_str low, cg_str high, cg_str index); /* 16 of 32 elements of 4 bytes */
cg_str cg_x86_sum_bytes(cg *c, int n, cg_str bytes);  /* of n bytes, eight to a lane of i64 */
void cg_x86_scale(cg *c, cg_str name, tj_dtype t, int n, cg_str x, cg_str power);   /* x * 2^floor(power); AVX-512 */
void cg_x86_keep_nan(cg *c, cg_str name, tj_dtype t, int n, cg_str other, cg_str x); /* x where it is a NaN, else other; AVX-512 */
void cg_x86_fix(cg *c, cg_str name, tj_dtype t, int n, cg_str x);  /* LO_FIX, of a register or less */
cg_str cg_x86_dot_bytes(cg *c, cg_str sum, cg_str bytes, cg_str signed_bytes); /* four products to a lane of i32; 512 bits */
cg_str cg_x86_dot_i16(cg *c, int n, cg_str sum, cg_str a, cg_str b); /* two products to each of n lanes of i32 */
cg_str cg_x86_dot_bf16(cg *c, cg_str sum, cg_str x, cg_str y); /* two products to a lane of f32; 512 bits */

/* ---- ports.c: additions written as x * 1 + y, for idle multipliers ---- */
bool cg_balances(const cg *c, const lo_ins *in);      /* an addition that is written that way */
void cg_balanced(cg *c, cg_str name, const lo_ins *in, const cg_str *src);

/* ---- access.c: loads, stores, faults ---- */
void cg_entry_bufs(cg *c);
void cg_unit_bases(cg *c);                            /* by access: the part of its address that depends on outer indices only */
/* address of lane 0's element; leaves out a dynamic part that differs between lanes */
cg_str cg_address(cg *c, uint32_t ins);
void cg_prefetch(cg *c, cg_str p, int bytes);         /* prefetches the line at p + bytes into the second-level cache */
void cg_prefetch_near(cg *c, cg_str p, int bytes);    /* into the first one */
void cg_load(cg *c, uint32_t ins);
void cg_store(cg *c, uint32_t ins);
void cg_fault(cg *c, uint32_t ins);

/* ---- stride.c: loads of elements that are not far apart ---- */
void cg_load_along(cg *c, cg_str name, tj_dtype t, cg_str p, int64_t step); /* name: lane l has the element at p + l * step */

/* ---- aside.c: copies of elements that lie a few places apart ---- */
void cg_put_aside(cg *c);                             /* in the entry: makes them */
cg_str cg_aside(const cg *c, uint32_t load);          /* the one that the load reads */

/* ---- structs.c: arrays of structures ---- */
const cg_struct *cg_struct_of(const cg *c, uint32_t access); /* of a FIELD */
static inline bool cg_touches(const cg_struct *s, uint32_t access) { return access == (s->store ? s->last : s->first); } /* memory */
/* at: the address of lane 0's element, if the access touches memory. Bools are bytes. */
cg_str cg_load_field(cg *c, uint32_t load, cg_str at);
void cg_store_field(cg *c, uint32_t store, cg_str at, cg_str value);

/* ---- reduce.c: accumulators ---- */
bool cg_acc_begin(cg *c, const lo_section *s);        /* finds the section's reductions; true: some need several chunks */
void cg_acc_update(cg *c, cg_acc *a);                 /* takes the value of this step of r */
void cg_acc_place(cg *c, cg_acc *a);                  /* wide: addresses this vector's part of the arrays */
void cg_acc_reset(cg *c, cg_acc *a);                  /* stores the identity */
void cg_acc_load(cg *c, cg_acc *a);                   /* chunks: loads the state that the last step left */
void cg_acc_flush(cg *c, cg_acc *a, cg_str step, int64_t width, cg_num nstep); /* ends a step of `width` values of r */
void cg_acc_end(cg *c, cg_acc *a, bool chunked);      /* defines the reduction's value */
void cg_acc_end_short(cg *c, cg_acc *a);              /* ends the text for one chunk; the text for several comes next */
/* combines the lanes. arg: gives the index, and a->now is the element. PART: stores lanes */
cg_str cg_acc_value(cg *c, cg_acc *a, bool chunked);
/* joins value and a->now (from `from`) with a->first (from brief) */
void cg_acc_join(cg *c, const cg_acc *a, cg_str brief, cg_str value, cg_str from);

/* Between the two each chunk of a group has accumulators of its own, one chunk's behind the other's. */
void cg_acc_open_group(cg *c);
void cg_acc_close_group(cg *c, cg_str number);        /* number: of the group */

/* ---- section.c ---- */
void cg_section(cg *c, const lo_section *s);
void cg_sections(cg *c); /* all sections, at this point */

/* ---- target.c: the CPU, and a thread's own LLVM ---- */
struct cg_target;
struct cg_target *cg_target_get(int bits, rt_err *err); /* this thread's; NULL on error */
/* Compiles text to *object, an LLVMMemoryBufferRef of *bytes bytes. */
tj_status cg_object_of(struct cg_target *t, const char *text, size_t n, void **object, size_t *bytes, rt_err *err);
const void *cg_file_bytes(void *object);
void cg_drop_file(void *object); /* an object that was not linked */
char *cg_assembly_of(struct cg_target *t, const char *text, size_t n, rt_err *err); /* rt_alloc'ed; NULL on error */
const char *cg_layout(const struct cg_target *t);
const char *cg_tuning(const struct cg_target *t); /* the CPU whose timing code is made for, as LLVM names it */

/* ---- cut.c, dwarf.c, elf.c, orc.c, link.c: objects to code ---- */
/* The function as a blob whose bytes the caller frees. own_at: of each of owns, where it is in the blob; 0: it is not. */
tj_status cg_cut(const void *object, size_t bytes, const char *name, const cg_owns *owns, rt_blob *blob, uint64_t *own_at, rt_err *err);
/* Appends what tools are told of the function (runtime/debug.h), if its text has sites. entry: its place in the blob. own_at: as above;
 * NULL: owns are elsewhere. */
void cg_debug_of(const void *object, size_t bytes, const char *name, const char *text, uint32_t entry, const cg_owns *owns,
                 const uint64_t *own_at, rt_text *out);
/* The name of a symbol that the ELF object imports and owns has not; NULL: none; "?": not an object that we can read. */
const char *cg_imports(const void *object, size_t bytes, const cg_owns *owns);
typedef struct cg_dylib cg_dylib; /* the code of one object, as ORC has it */
void cg_orc_open(void);
cg_dylib *cg_orc_link(void *object, int n, const char *const *name, rt_entry *fn, const cg_owns *owns, rt_err *err); /* takes the object */
void cg_orc_unlink(cg_dylib *l);
typedef struct cg_library cg_library; /* the code of one object */
void cg_open_linker(void); /* cg_link() does it; before, by a thread that has time */
/* Takes the object, which may call owns, and finds n functions in it, and their blobs unless ORC links; NULL on error. text: of each
 * function, as it was written. */
cg_library *cg_link(void *object, size_t bytes, int n, const char *const *name, const char *const *text, rt_blob *blob, rt_entry *fn,
                    const cg_owns *owns, rt_err *err);
void cg_unlink(cg_library *l);

/* ---- cache.c: kernels that are compiled already ---- */
typedef struct cg_object cg_object;   /* code with kernels in it, used by any number of plans */
typedef struct cg_key { const char *text; size_t n; uint64_t machine; } cg_key; /* a kernel: its text without its name; for what CPU */
cg_object *cg_find(cg_key key, rt_entry *fn, rt_blob *blob); /* with a reference; NULL when there is none */
/* with a reference; NULL: out of memory */
cg_object *cg_keep(cg_library *l, size_t bytes, int n, const cg_key *key, const rt_entry *fn, const rt_blob *blob,
                   const cg_owns *owns);
void cg_drop(cg_object *o);
size_t cg_object_bytes(const cg_object *o);

/* ---- parallel.c: the new functions of a plan, on several threads ---- */
typedef struct cg_unit { /* a kernel of a plan */
	rt_text text;       /* its function */
	rt_text recipe;     /* for dumps */
	cg_key key;
	int same;           /* an earlier kernel that equals it, or -1 */
	bool there;         /* found in the cache */
} cg_unit;
enum { CG_BATCHES = 2, CG_PARTS = 8 }; /* batches of a plan; most objects of one */
void cg_put_head(rt_text *out, const lo_compile *job, const struct cg_target *t, int bits);
void cg_put_foot(rt_text *out, const struct cg_target *t, int bits, bool tables); /* tables: how to unwind */
typedef struct cg_batch { /* functions, in objects that are compiled at the same time */
	lo_compile *job;
	const cg_unit *unit;
	const cg_owns *owns; /* what they call */
	int parts;
	struct cg_part *part;
} cg_batch;
/* Compiles the new functions of n batches; then each is linked, after those that its functions call. */
tj_status cg_generate(cg_batch *b, int n, int bits, rt_err *err);
tj_status cg_finish(cg_batch *b, cg_object **made /* CG_PARTS of them */, rt_err *err); /* sets job->fn of its new functions */
void cg_drop_batch(cg_batch *b);

#endif
