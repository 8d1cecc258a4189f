/* cg: LLVM text from kernels. Private to the plug-in.
 *
 * A kernel becomes one function over its units. Values that are the same for all lanes are scalars and are computed as far
 * out as they can be; the rest are vectors of `lanes` elements. Text goes to the place where a value is computed:
 *
 *   entry     constants and numbers, once for a call
 *   unit      what depends on the outer indices only, once for a unit
 *   pre       before the loop of a section (lanes along r)
 *   body      the rest: inside the vector loop (lanes along d) or the section's loop
 *
 * The body is written twice where lanes may be absent: unmasked for the main loop, masked for the tail. */
#ifndef TJ_CODEGEN_LLVM_CG_H
#define TJ_CODEGEN_LLVM_CG_H

#include "lower/target.h"

typedef enum cg_place { CG_ENTRY, CG_UNIT, CG_PRE, CG_BODY } cg_place;

typedef struct cg_str { char s[48]; } cg_str;

typedef struct cg_num { /* an i64 that is the same for all units */
	bool known;
	int64_t v;          /* known */
	cg_str s;           /* a literal, or its name */
} cg_num;

typedef struct cg_val {
	cg_str name;        /* "%v3", or a literal */
	bool vec, literal;
	uint8_t place;
	cg_str wide;        /* the scalar in all lanes ... */
	uint32_t wide_key;  /* ... of this section; 0: not there */
} cg_val;

/* A reduction of the section at hand. */
typedef struct cg_acc {
	uint32_t ins;       /* whose operand it takes, each step */
	uint32_t index, element; /* arg: the instructions whose values are the index and the element; LO_NOREF: nobody wants it */
	lo_red red;         /* of one that looks for an element: ARGMAX or ARGMIN */
	tj_dtype dtype;     /* of the values reduced */
	bool ordered, arg;
	tj_dtype index_dtype; /* arg: of the indices while they are compared */
	int lanes;          /* of the accumulator */
	bool memory;        /* it lies in an array, because it has more lanes than the body */
	int64_t chunk;      /* ordered: values of r to a chunk */
	cg_num nchunk, last; /* how many chunks, and how many the last part has */
	bool fresh;         /* each step is a chunk: the accumulator starts anew, and stays in registers */
	bool part;          /* what is left are lanes, stored */
	cg_str state, istate, stack; /* arrays: the accumulator (and its indices) across chunks, the counter's blocks */
	cg_str at, stack_at; /* wide: where those of this vector are; else the same */
	cg_num step;        /* elements from block to block */
	cg_str now, inow;   /* the accumulator's value at this point of the text */
	cg_str first, first_element; /* the section's values when r is one chunk */
} cg_acc;

typedef struct cg {
	const lo_kernel *k;
	const lo_schedule *s;
	int bits;           /* of a vector register */
	int lanes;          /* of a vector at this point */
	int tail_lanes;     /* of a vector behind the last whole one */
	bool rows;          /* lanes along r; else along the last outer dimension */
	cg_num block;       /* positions of the last dimension to a unit */
	cg_val *val;        /* by instruction */
	uint8_t *place;     /* by instruction: cg_place */
	uint8_t *varies;    /* by instruction: differs between lanes */
	rt_text entry, unit, pre, body;
	rt_text *out;       /* where text goes now */
	const char *copy;   /* suffix of names: main loop and tail define the same values */
	uint32_t tmp, key;  /* last temporary; the section, for cg_val.wide_key */
	bool in_loop, masked;
	cg_str mask;        /* when masked: which lanes are there */
	cg_str at;          /* index along the lanes' dimension of lane 0 */
	cg_str r;           /* lanes along d: r */
	cg_str unit_index;  /* number of the unit among the outer indices */
	cg_str block_label; /* the basic block that text goes to */
	rt_vec(cg_acc) acc;
	uint8_t *tile;      /* by instruction: number of the tile that the load is served from; 0: none */
	int tile_dim;       /* the outer dimension along which tiled loads are contiguous */
	cg_str tile_row, tile_lo; /* of the element in the tile: offset of its row; first column */
	bool wide;          /* columns: r outside, vectors inside ... */
	bool wide_now;      /* ... at this point of the text; for columns behind the last vector as usual */
	unsigned wide_id;
	cg_str wide_lo, wide_stop, wide_off; /* its columns; of the vector at hand, from the first one on */
	uint32_t *rare;     /* by instruction: the select that alone needs it, and seldom; or 0 */
	bool far;           /* the kernel touches more than the caches hold */
	uint8_t *stream;    /* by instruction: a store that had best pass the caches by */
	cg_str stray;       /* all that moves those stores, in bytes, or-ed: below a line in no bit, or they do not stream */
	bool streams, stream_copy; /* there are some; the text at hand is the copy in which they do */
	const lo_section *asked, *asks; /* loops over a row: what `asked` loads `asks` asks for beforehand; NULL, or one loop in both parts */
	int halves;         /* of each sum that the multipliers compute: 0, 1, 2 */
	cg_str one[2];      /* 1 for them, of f32 and f64 */
	const char *next_unit; /* where the loop over units goes on */
	rt_text phi, step;  /* what units hand on to one another: their indices, when division by extents would cost */
	bool oom;
	rt_err *err;
} cg;

/* ---- kernel.c ---- */
tj_status cg_kernel(const lo_kernel *k, const lo_schedule *s, int bits, rt_text *out, rt_err *err); /* appends the function */
void cg_put_dims(const cg *c, rt_text *t, int from, int to, cg_str number); /* %d(from)..%d(to-1) out of their row-major number */
typedef struct cg_span { bool main, tail, guard_main, guard_tail; } cg_span; /* what a range needs; guard: it may be empty */
void cg_vectors(cg *c, cg_str lo, cg_str hi, cg_span s); /* the sections, for the vectors of lo..hi */

/* ---- wide.c: reductions of columns, many to a unit ---- */
void cg_find_wide(cg *c);
void cg_wide_open(cg *c);  /* a loop over the vectors of the unit */
void cg_wide_close(cg *c);

/* ---- rare.c: what a select seldom needs ---- */
void cg_find_rare(cg *c);
bool cg_has_rare(const cg *c, uint32_t select); /* at this point of the text it is written with a branch */
void cg_rare(cg *c, uint32_t select, void (*put)(cg *c, uint32_t ins)); /* put writes an instruction */

/* ---- stream.c: stores that pass the caches by ---- */
void cg_find_streams(cg *c); /* and whether it is far */
bool cg_streams_in(const cg *c, const lo_section *s);
bool cg_streaming(const cg *c, uint32_t store); /* this copy of it does */

/* ---- ahead.c: asking for memory beforehand ---- */
void cg_find_ahead(cg *c);
void cg_ask_ahead(cg *c, const lo_section *s); /* in a step of the section's loop */

/* ---- tile.c: element-wise kernels that read across rows ---- */
enum { CG_TILE_COLS = 64 };
bool cg_tiles(cg *c);     /* marks the loads that are better served from tiles */
void cg_along_tiles(cg *c);

/* ---- place.c, lanes.c: where each value is computed, and how many lanes there are ---- */
void cg_place_all(cg *c);
int cg_base_lanes(const cg *c);
int cg_tail_lanes(const cg *c); /* once c->lanes is known */
int cg_section_lanes(const cg *c, const lo_section *s);
bool cg_lane_rows(const cg *c, const lo_ins *in);    /* of scratch where lanes go along d: element r of all lanes' rows, side by side */
int64_t cg_lane_coef(const cg *c, const lo_ins *in); /* of LOAD and STORE: elements from lane to lane, without dyn; a size */

/* ---- size.c: sizes, and what follows from them; unknown ones are computed in the entry ---- */
void cg_entry_sizes(cg *c);
cg_num cg_lit(int64_t v);
cg_num cg_size(int64_t size);                         /* a literal or a symbol of the kernel */
cg_str cg_int(int64_t size);                          /* its text */
cg_num cg_add(cg *c, cg_num a, cg_num b);
cg_num cg_sub(cg *c, cg_num a, cg_num b);
cg_num cg_mul(cg *c, cg_num a, cg_num b);
cg_num cg_div_up(cg *c, cg_num a, cg_num b);          /* ceil(a / b) */
cg_num cg_last_part(cg *c);                           /* where the last part of r begins; 0 without parts */
cg_num cg_round_down(cg *c, cg_num a, int64_t pow2);  /* to a multiple */

/* ---- value.c: names, types, broadcasts ---- */
cg_str cg_fmt(const char *fmt, ...) RT_PRINTF(1, 2);
cg_str cg_tmp(cg *c);                                 /* a new name */
cg_str cg_type(tj_dtype t, int lanes);                /* "float", "<16 x float>"; one lane is a scalar */
cg_str cg_mem_type(tj_dtype t, int lanes);            /* the same, in memory: bool is i8 */
cg_str cg_mangle(tj_dtype t, int lanes);              /* "v16f32" */
cg_str cg_mem_mangle(tj_dtype t, int lanes);
cg_str cg_literal(tj_dtype t, int64_t bits, int lanes);
void cg_label(cg *c, cg_str name);
void cg_jump(cg *c, cg_str to);                       /* and goes on there */
cg_str cg_use(cg *c, uint32_t ins, bool vec);         /* the operand, in all lanes when vec */
cg_str cg_splat(cg *c, const char *type, cg_str scalar, int lanes); /* at the current place */
/* name = put of the operands, n lanes at a time; n divides lanes. first: the part's first lane. */
typedef void cg_part_fn(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first);
void cg_by_parts(cg *c, cg_str name, tj_dtype t, int lanes, int n, int nsrc, const cg_str *src, cg_part_fn *put);
void cg_iota(rt_text *t, const char *type, int64_t step, int lanes); /* "<i64 0, i64 1, ...>" */
void cg_def(cg *c, uint32_t ins, cg_str name, bool vec);

/* ---- point.c: primitives ---- */
void cg_point(cg *c, uint32_t ins);
bool cg_nan_test(const cg *c, const lo_ins *in);      /* x == x, for which a select has an instruction */
cg_str cg_select_mask(cg *c, tj_dtype t, cg_str value, cg_str other); /* absent lanes become other */

/* ---- ports.c: sums that the multipliers compute ---- */
void cg_find_ports(cg *c);
bool cg_balances(const cg *c, const lo_ins *in);      /* a sum that is written that way */
void cg_balanced(cg *c, cg_str name, const lo_ins *in, const cg_str *src);

/* ---- access.c: loads, stores, faults ---- */
void cg_entry_field(cg *c, const char *name, size_t offset); /* %name: the pointer at that offset of rt_kargs */
void cg_entry_bufs(cg *c);
void cg_unit_bases(cg *c);                            /* the address of each access, as far as the outer indices give it */
cg_str cg_address(cg *c, uint32_t ins);               /* of lane 0's element, without a dynamic part that differs between lanes */
void cg_prefetch(cg *c, cg_str p, int bytes);         /* the line at p + bytes, into the second cache */
void cg_load(cg *c, uint32_t ins);
void cg_store(cg *c, uint32_t ins);
void cg_fault(cg *c, uint32_t ins);

/* ---- reduce.c: accumulators ---- */
bool cg_acc_begin(cg *c, const lo_section *s);        /* finds the section's reductions; true: they take several chunks */
cg_str cg_identity(const cg_acc *a, int lanes);
void cg_acc_update(cg *c, cg_acc *a);                 /* takes the value of this step of r */
void cg_acc_place(cg *c, cg_acc *a);                  /* wide: finds the arrays of this vector */
void cg_acc_reset(cg *c, cg_acc *a);                  /* stores the neutral element */
void cg_acc_load(cg *c, cg_acc *a);                   /* chunks: goes on where the last step stopped */
void cg_acc_flush(cg *c, cg_acc *a, cg_str step, int64_t width, cg_num nstep); /* ends a step; width: values of r in it */
void cg_acc_end(cg *c, cg_acc *a, bool chunked);      /* defines the section's value */
void cg_acc_end_short(cg *c, cg_acc *a);              /* r was one chunk; what comes next is the text for several */
cg_str cg_acc_value(cg *c, cg_acc *a, bool chunked);  /* its lanes put together, arg: the index, and a->now is the element; a part's are stored */
void cg_acc_join(cg *c, const cg_acc *a, cg_str brief, cg_str value, cg_str from); /* value, and a->now, came from there, or the short ones from brief */
bool cg_same_search(const lo_kernel *k, uint32_t first, uint32_t i); /* i looks for the element that an instruction from `first` on looks for */

/* ---- section.c ---- */
void cg_section(cg *c, const lo_section *s);

/* ---- target.c: the CPU, and a thread's own LLVM ---- */
struct cg_target;
const char *cg_missing(void);
int cg_width(void); /* bits of a vector: the CPU's, or TJ_CPU, read at each call */
struct cg_target *cg_target_get(int bits, rt_err *err); /* of this thread; NULL on error */
/* An LLVMMemoryBufferRef, and its size. */
tj_status cg_object_of(struct cg_target *t, const char *text, size_t n, void **object, size_t *bytes, rt_err *err);
char *cg_assembly_of(struct cg_target *t, const char *text, size_t n, rt_err *err); /* rt_alloc'ed; NULL on error */
const char *cg_layout(const struct cg_target *t);

/* ---- elf.c, link.c: objects to code ---- */
/* The name of a symbol that the ELF object needs from elsewhere, or NULL; "?" when it is not an object we know. */
const char *cg_imports(const void *object, size_t bytes);
typedef struct cg_library cg_library; /* the code of one object */
/* Takes the object and finds n functions in it; NULL on error. */
cg_library *cg_link(void *object, int n, const char *const *name, rt_entry *fn, rt_err *err);
void cg_unlink(cg_library *l);

/* ---- cache.c: kernels that exist ---- */
typedef struct cg_object cg_object;   /* code with kernels in it, used by any number of plans */
typedef struct cg_key { const char *text; size_t n; int bits; } cg_key; /* what a kernel is: its text without its name */
cg_object *cg_find(cg_key key, rt_entry *fn); /* with a reference; NULL when there is none */
cg_object *cg_keep(cg_library *l, size_t bytes, int n, const cg_key *key, const rt_entry *fn); /* with a reference; NULL: out of memory */
void cg_drop(cg_object *o);
size_t cg_object_bytes(const cg_object *o);

/* ---- build.c: the new kernels of a plan, on several threads when there are many ---- */
typedef struct cg_unit { /* a kernel of a plan */
	rt_text text;       /* its function */
	cg_key key;
	int same;           /* an earlier kernel that equals it, or -1 */
	bool there;         /* found among those that exist */
} cg_unit;
enum { CG_PARTS = 8 };    /* objects to a plan, at most */
void cg_put_head(rt_text *out, const lo_compile *job, const struct cg_target *t, int bits);
void cg_put_foot(rt_text *out, int bits);
tj_status cg_build(lo_compile *job, const cg_unit *u, int bits, cg_object **made /* CG_PARTS of them */, rt_err *err);

#endif
