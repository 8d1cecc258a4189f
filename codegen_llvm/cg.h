/* SPDX-License-Identifier: MIT */
/* cg: LLVM text from kernels. Private to the plug-in.
 *
 * A kernel becomes one function over its units. A value that is the same for all lanes is a scalar, computed in the outermost
 * place that is possible; any other value is a vector of `lanes` elements. Each value is computed in one of these places:
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

#include "lower/target.h"

typedef enum cg_place { CG_ENTRY, CG_UNIT, CG_PRE, CG_BODY } cg_place;

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
	struct cg_object *object; /* the code that it is in; a reference */
} cg_own;
typedef rt_vec(cg_own) cg_owns;

/* Accesses to all fields of a structure, in an array of such (structs.c). */
enum { CG_FIELDS = 16, CG_WIDEST = 64 /* of a register */ };
typedef struct cg_struct {
	int n;              /* elements of a structure */
	tj_dtype dtype;
	bool store;
	uint32_t first, last; /* the access that loads all fields; that stores them */
	uint32_t field[CG_FIELDS]; /* by place in the structure: the access; LO_NOREF: none */
	cg_str part[CG_FIELDS]; /* the values, in the copy of the text that is being written */
} cg_struct;

typedef struct cg {
	const lo_kernel *k;
	const lo_schedule *s;
	int bits;           /* of a vector register */
	int lanes;          /* of the vectors at this point of the text */
	int tail_lanes;     /* of the vectors in the tail */
	bool rows;          /* lanes along r; else along the last outer dimension */
	cg_num block;       /* indices of the last dimension per unit */
	cg_val *val;        /* by instruction */
	uint8_t *place;     /* by instruction: cg_place */
	uint8_t *varies;    /* by instruction: differs between lanes */
	rt_text entry, unit, pre, body;
	rt_text *out;       /* where text goes now */
	const char *copy;   /* suffix of names, because main loop and tail define the same values */
	rt_text own, *around; /* the function of its own that is being written; where text went before */
	uint32_t around_tmp;
	cg_str around_label;
	uint32_t tmp, key;  /* tmp: number of the last temporary. key: number of the section, for cg_val.wide_key */
	bool in_loop, masked;
	cg_str mask;        /* masked: which lanes are present */
	cg_str at;          /* index of lane 0 along the lanes' dimension */
	cg_str r;           /* lanes along d: the index r */
	cg_str unit_index;  /* number of the unit, parts of r not counted */
	cg_str block_label; /* label of the basic block that is being written */
	rt_vec(cg_acc) acc;
	uint8_t *tile;      /* by instruction: number of the tile that the load reads; 0: none */
	int tile_dim;       /* the outer dimension along which tiled loads are contiguous */
	cg_str tile_row, tile_lo; /* tiled loads: offset of the current row in the tile; column at which the tile begins */
	bool wide;          /* column reductions: the loop over r is outside, the loop over vectors inside it (wide.c) */
	bool wide_now;      /* the text at this point is in that form; false in the tail */
	unsigned wide_id;
	cg_str wide_lo, wide_stop, wide_off; /* wide: first column, last + 1; offset of the current vector from the first column */
	uint32_t *together; /* by instruction: 1 + the structure that the access is a field of; 0: none */
	rt_vec(cg_struct) structs;
	uint32_t *rare;     /* by instruction: the select whose rare operand alone needs it (rare.c); 0: none */
	bool far;           /* the kernel touches more bytes than the caches hold */
	uint8_t *stream;    /* by instruction: a store that should bypass the caches */
	cg_str stray;       /* OR of all byte offsets of the streamed stores; a bit below 64 set means unaligned, and the plain loop runs */
	bool streams, stream_copy; /* streams: the kernel has streamed stores. stream_copy: the current copy of the loop uses them */
	const lo_section *asked, *asks; /* asked: the loop whose loads are prefetched. asks: the loop that prefetches; NULL: none does */
	uint8_t *staged;    /* by instruction: an access that the tail makes to a copy on the stack (stage.c) */
	bool stages, stage_copy; /* stages: the kernel has such a tail. stage_copy: the current copy of the loop runs on %q, not on %p */
	bool stage_out;     /* true: results are copied back now; false: inputs are copied in */
	int halves;         /* how many halves of each sum's vectors the multipliers compute: 0, 1 or 2 (ports.c) */
	cg_str one[2];      /* the factor 1 of those sums, as f32 and f64 */
	cg_owns *owns;      /* the functions that kernels of the job call */
	struct cg_product *product; /* the matrix product that the kernel computes; NULL: none */
	cg_str sums, sums_lo; /* product: address of the current row of sums, and the column at which it begins */
	const char *next_unit; /* operands of the add that gives the next unit's number */
	rt_text phi, step;  /* phis and updates of outer indices that units count, where division by extents would be slow */
	bool oom;
	rt_err *err;
} cg;

/* ---- kernel.c ---- */
/* appends the function; adds to owns what it calls */
tj_status cg_kernel(const lo_kernel *k, const lo_schedule *s, int bits, cg_owns *owns, rt_text *out, rt_err *err);
void cg_put_dims(const cg *c, rt_text *t, int from, int to, cg_str number); /* computes %d(from)..%d(to-1) from their row-major number */
/* the loops that a range needs; guard: that loop may be empty */
typedef struct cg_span { bool main, tail, guard_main, guard_tail; } cg_span;
void cg_vectors(cg *c, cg_str lo, cg_str hi, cg_span s); /* writes the sections for the vectors of lo..hi */
void cg_row(cg *c, cg_str lo, cg_str hi, cg_span s); /* the same inside a loop over rows, with the values of the row before the vectors */

/* ---- own.c ---- */
void cg_begin_own(cg *c, rt_text *parameters);   /* text now goes to a function of the kernel's own; frees parameters */
cg_str cg_end_own(cg *c);                        /* text goes where it went before; returns the name of the function, "@..." */
void cg_drop_owns(cg_owns *owns);
void cg_put_declared(rt_text *out, const cg_owns *owns); /* declarations, for kernels that call them */

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
cg_str cg_first_lanes(cg *c, cg_str n, int lanes);          /* a mask of the first n lanes; n may be negative, or larger than lanes */
/* sum + a * b: fused for floats, wrapping for integers */
cg_str cg_multiply_add(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b, cg_str sum);
cg_str cg_sum(cg *c, tj_dtype t, int lanes, cg_str a, cg_str b);

/* ---- choose.c: how a matrix product is computed ---- */
bool cg_find_product(cg *c);           /* sets product; false: out of memory */
bool cg_reads_words(const cg *c);      /* if the product's columns lie in words (LO_WORDS), they are those that it multiplies */
void cg_drop_product(struct cg_product *p);

/* ---- product.c: matrix products ---- */
void cg_along_product(cg *c, cg_span s); /* a unit; s: the vectors of a row of its block */

/* ---- wide.c: reductions of columns, many to a unit ---- */
void cg_find_wide(cg *c);
void cg_wide_open(cg *c);  /* a loop over the vectors of the unit */
void cg_wide_close(cg *c);

/* ---- rare.c: selects whose last operand is rarely needed ---- */
void cg_find_rare(cg *c);
bool cg_has_rare(const cg *c, uint32_t select); /* the select is written with a branch at this point of the text */
void cg_rare(cg *c, uint32_t select, void (*put)(cg *c, uint32_t ins)); /* put writes an instruction */

/* ---- stream.c: stores that bypass the caches ---- */
void cg_find_streams(cg *c); /* sets stream, streams, stray and far */
bool cg_streams_in(const cg *c, const lo_section *s); /* the section has streamed stores */
bool cg_streaming(const cg *c, uint32_t store); /* the store is streamed in the current copy of the loop */

/* ---- stage.c: tails that run the main loop once more, on copies ---- */
void cg_find_staged(cg *c); /* sets staged and stages; once c->lanes and c->tail_lanes are known */
void cg_stage_open(cg *c, cg_str lo, cg_str stop); /* the block before the loop: %from..%to is its range, %second is true for the copies */
void cg_stage_tail(cg *c, cg_str stop, cg_str hi); /* after the loop: what copies stop..hi; text continues at %whole */

/* ---- ahead.c: prefetches ---- */
void cg_find_ahead(cg *c);
void cg_ask_ahead(cg *c, const lo_section *s); /* writes the prefetches of one step of the section's loop */

/* ---- tile.c: element-wise kernels that read across rows ---- */
enum { CG_TILE_COLS = 64 };
bool cg_tiles(cg *c);     /* marks the loads that should read from tiles */
void cg_along_tiles(cg *c);

/* ---- place.c, lanes.c: where each value is computed, and how many lanes there are ---- */
void cg_place_all(cg *c);
/* A load of bytes at a byte: a table of 256, as the index is not checked. A permutation of registers reads it (AVX-512 VBMI). */
bool cg_is_table(const cg *c, const lo_ins *in);
bool cg_sums_bytes(const cg *c, const lo_ins *in); /* along r, eight bytes to a lane of i64 */
int cg_base_lanes(const cg *c);
int cg_tail_lanes(const cg *c); /* once c->lanes is known */
int cg_lanes_in_register(const cg *c, tj_dtype t); /* of the vectors at this point of the text: as many as one register holds */
int cg_section_lanes(const cg *c, const lo_section *s);
/* accesses kept rows, one for each lane along d: elements r of all lanes lie side by side */
bool cg_lane_rows(const cg *c, const lo_ins *in);
int64_t cg_lane_coef(const cg *c, const lo_ins *in); /* LOAD, STORE: elements from one lane to the next, dyn not counted; a size */

/* ---- size.c: sizes and arithmetic on them; what is not known is computed in the entry ---- */
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
bool cg_nan_test(const cg *c, const lo_ins *in);      /* a test for NaN that its select does in one instruction */
cg_str cg_select_mask(cg *c, tj_dtype t, cg_str value, cg_str other); /* value, with `other` in absent lanes */

/* ---- ports.c: additions written as x * 1 + y, for idle multipliers ---- */
void cg_find_ports(cg *c);
bool cg_balances(const cg *c, const lo_ins *in);      /* an addition that is written that way */
void cg_balanced(cg *c, cg_str name, const lo_ins *in, const cg_str *src);

/* ---- access.c: loads, stores, faults ---- */
void cg_entry_field(cg *c, const char *name, size_t offset); /* %name: the pointer at that offset of rt_kargs */
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
enum { CG_NEAR = 4 }; /* largest step between lanes that are loaded as vectors, in elements */
bool cg_strides_along(const cg *c, tj_dtype t, int64_t step); /* cg_load_along() can load them */
void cg_load_along(cg *c, cg_str name, tj_dtype t, cg_str p, int64_t step); /* name: lane l has the element at p + l * step */

/* ---- structs.c: arrays of structures ---- */
void cg_find_structs(cg *c); /* sets together and structs; once c->lanes is known */
cg_struct *cg_struct_of(cg *c, uint32_t access); /* NULL: at this point of the text the access stands alone */
static inline bool cg_touches(const cg_struct *s, uint32_t access) { return access == (s->store ? s->last : s->first); } /* memory */
/* at: the address of lane 0's element, if the access touches memory. Bools are bytes. */
cg_str cg_load_field(cg *c, cg_struct *s, uint32_t load, cg_str at);
void cg_store_field(cg *c, cg_struct *s, uint32_t store, cg_str at, cg_str value);

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
bool cg_same_search(const lo_kernel *k, uint32_t first, uint32_t i); /* an instruction in [first, i) searches for the same element as i */

/* ---- section.c ---- */
void cg_section(cg *c, const lo_section *s);

/* ---- target.c: the CPU, and a thread's own LLVM ---- */
struct cg_target;
const char *cg_missing(void);
struct cg_target *cg_target_get(int bits, rt_err *err); /* this thread's; NULL on error */
/* Compiles text to *object, an LLVMMemoryBufferRef of *bytes bytes. */
tj_status cg_object_of(struct cg_target *t, const char *text, size_t n, void **object, size_t *bytes, rt_err *err);
void cg_drop_file(void *object); /* an object that was not linked */
char *cg_assembly_of(struct cg_target *t, const char *text, size_t n, rt_err *err); /* rt_alloc'ed; NULL on error */
const char *cg_layout(const struct cg_target *t);

/* ---- elf.c, link.c: objects to code ---- */
/* The name of a symbol that the ELF object imports and owns has not; NULL: none; "?": not an object that we can read. */
const char *cg_imports(const void *object, size_t bytes, const cg_owns *owns);
typedef struct cg_library cg_library; /* the code of one object */
void cg_open_linker(void); /* cg_link() does it; before, by a thread that has time */
/* Takes the object, which may call owns, and finds n functions in it; NULL on error. */
cg_library *cg_link(void *object, int n, const char *const *name, rt_entry *fn, const cg_owns *owns, rt_err *err);
void cg_unlink(cg_library *l);

/* ---- cache.c: kernels that are compiled already ---- */
typedef struct cg_object cg_object;   /* code with kernels in it, used by any number of plans */
typedef struct cg_key { const char *text; size_t n; int bits; } cg_key; /* what a kernel is: its text without its name */
cg_object *cg_find(cg_key key, rt_entry *fn); /* with a reference; NULL when there is none */
/* with a reference; NULL: out of memory */
cg_object *cg_keep(cg_library *l, size_t bytes, int n, const cg_key *key, const rt_entry *fn, const cg_owns *owns);
void cg_drop(cg_object *o);
size_t cg_object_bytes(const cg_object *o);

/* ---- parallel.c: the new functions of a plan, on several threads ---- */
typedef struct cg_unit { /* a kernel of a plan */
	rt_text text;       /* its function */
	cg_key key;
	int same;           /* an earlier kernel that equals it, or -1 */
	bool there;         /* found in the cache */
} cg_unit;
enum { CG_BATCHES = 2, CG_PARTS = 8 }; /* batches of a plan; most objects of one */
void cg_put_head(rt_text *out, const lo_compile *job, const struct cg_target *t, int bits);
void cg_put_foot(rt_text *out, int bits);
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
