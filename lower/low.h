/* SPDX-License-Identifier: MIT */
/* low: what the passes of lower/ share while one graph is lowered. Private to this folder.
 *
 * Each node of the graph has a lo_val that says how its value comes about. Values that are not computed where they are
 * read live in buffers; a buffer is written by steps (a kernel, a library call, an evaluator call) and read by others.
 *
 * A group becomes a kernel. Its index space is a set of atoms, loop variables of a fixed extent; some of them together
 * are the reduced index r. The index of a value in a group is a map: one affine expression over atoms for each axis of
 * the value. Views only change maps; a reshape may split an atom in two, which rewrites all maps of the group. */
#ifndef TJ_LOWER_LOW_H
#define TJ_LOWER_LOW_H

#include "lower/target.h"

#define LO_ATOMS 16
#define LO_NOGROUP UINT32_MAX
#define LO_NOBUF UINT32_MAX

typedef enum lo_how {
	LO_LEAF,    /* input, num, const, data */
	LO_VIEW,    /* seen through another map or other strides, unless it owns a buffer */
	LO_FUSE,    /* a kernel may compute it */
	LO_LIB,     /* a routine of the target computes it, see library.h */
	LO_CALL,    /* the evaluator computes it */
	LO_CAT      /* concatenation: its operands are stored side by side in its buffer */
} lo_how;

typedef struct lo_expr { int64_t off, c[LO_ATOMS]; } lo_expr; /* off + sum c[a] * atom a */
typedef struct lo_map {
	struct lo_map *next; /* of the same group */
	int rank;
	lo_expr e[];
} lo_map;

/* A value as strides over a buffer: what libraries, the evaluator and a gather's table take. */
typedef struct lo_access {
	ir_ref base;             /* the node whose buffer it is */
	bool leaf;               /* base is a leaf: its own memory, not its row-major copy */
	int64_t offset;          /* elements */
	int64_t stride[TJ_MAX_RANK];
} lo_access;

typedef enum lo_from {       /* how a kernel gets a value */
	LO_FROM_LATER,           /* not decided yet: values are decided after their readers */
	LO_FROM_CONST,
	LO_FROM_NUM,
	LO_FROM_LOAD,            /* out of a buffer */
	LO_FROM_OP,              /* computed in the kernel at the map */
	LO_FROM_VIEW             /* a view of src[0]: got as src[0] is */
} lo_from;

/* How a group gets a value at a map. The questions in reach.c return one; it is binding once the group takes the reader, and the builder
 * follows it. Splits and merges rewrite its map like every map of the group. */
typedef struct lo_use {
	struct lo_use *next;     /* of the same value */
	uint32_t group;
	ir_ref value;
	lo_map *map;
	uint8_t from;
	bool solid;              /* a view whose index into its operand is not affine: read the operand's buffer in row-major order */
	bool again;              /* OP: of a value that another group computes, too (recompute.c) */
	bool late;               /* LOAD: from lo_val.late */
	bool leaf; /* LOAD: rather read the leaf's own memory than its row-major copy; the builder knows whether that has an index
	              (kvalue.c) */
	ir_ref base;             /* LOAD, solid: the node whose buffer is read; else IR_NONE */
	struct lo_use **src;     /* OP, VIEW, and LATER of a view: how the operands are got */
	lo_access *table;        /* OP that gathers: its table; src[0] is NULL */
} lo_use;

typedef struct lo_dest { /* one more place where the value must be stored */
	struct lo_dest *next;
	uint32_t buf;
	ir_ref node;         /* the node that owns buf; IR_NONE: an output's buffer */
	int64_t offset;      /* elements */
	int64_t stride[TJ_MAX_RANK];
} lo_dest;

typedef struct lo_val {
	uint8_t how;
	bool own;            /* it needs a buffer of its own */
	bool apart;          /* no group of its readers computes it */
	bool light;          /* recomputed wherever it is read: numbers, indices, a little arithmetic */
	bool copied;         /* a leaf that is read from a row-major copy */
	bool solid;          /* a view that a group reads out of its operand's buffer */
	uint32_t buf;        /* its own buffer */
	uint32_t late;       /* a second one: another group stores the value again, for readers far behind (recompute.c). LO_NOBUF: none */
	uint32_t leaf;       /* the buffer of an input or of constant data */
	uint32_t group;      /* the group that computes it */
	lo_use *made;        /* how that group computes it */
	lo_use *use;         /* how each group that reads it gets it; not kept for light values */
	lo_access *operand;  /* how a step that is no kernel reads its operands; NULL: not decided, or a kernel computes it */
	lo_use *number;      /* of numbers alone: how every group computes it; NULL: not asked yet, or it is something else */
	lo_dest *dest;
	const char *refused; /* why its readers' groups refused to compute it; NULL: none was asked, or one computes it */
	uint32_t refused_by; /* the group that gave that reason */
	const char *parted;  /* why two groups that read it did not merge, the last such pair; NULL: none was tried */
	uint32_t parts[2];   /* that pair */
} lo_val;

typedef struct lo_panels { /* a view of a constant, which is stored in panels (LO_PANELS, LO_WORDS). No padding: compared as bytes */
	size_t size;             /* bytes of an element */
	int64_t rows, columns, panel; /* rows: indices of r, or groups of them. panel: columns of one; 0: a plain matrix, row-major */
	int64_t offset, row, column; /* of the view; elements */
	int64_t word;            /* lo_word */
} lo_panels;

typedef struct lo_buffer {
	uint8_t place, device; /* rt_place; the device that holds its bytes */
	uint32_t index;      /* see rt_pbuf */
	const void *data;    /* RT_AT_CONST; RT_AT_EXT: the content that the external always has, or NULL */
	uint64_t content;    /* RT_AT_EXT: lo_content.id; else 0 */
	bool cell;           /* RT_AT_EXT: lo_content.cell */
	bool held;           /* RT_AT_CONST: the plan keeps data as it is (lo_content.held), without a copy */
	const lo_panels *panels; /* RT_AT_CONST: how data is stored; NULL: as it is */
	int64_t bytes, offset;
	uint32_t over;       /* it is written over this buffer, which nothing reads afterwards; LO_NOBUF: over none */
	int first, last;     /* live range: the step that writes it, the last step that reads it; -1: none. A bundle counts as its first step */
} lo_buffer;

typedef struct lo_save { /* a store of a group */
	ir_ref value;
	lo_map *map;
	const lo_dest *dest;
	const lo_use *from;
} lo_save;

typedef struct lo_ahead { ir_ref ref; int operand; } lo_ahead; /* operand: of the product */

typedef struct lo_group {
	int natom;
	int64_t ext[LO_ATOMS];
	bool isr[LO_ATOMS];          /* the atom is a part of r */
	int64_t rstride[LO_ATOMS];   /* atoms of r: r = sum rstride * atom */
	bool reduces, column;        /* reduces: r exists. column: its reductions are of the column class */
	bool classed;                /* column is valid: the group has a reduction */
	bool product;                /* it computes a matrix product over r, and no reduction */
	const lo_map *columns;       /* of that product: the map of its result, whose last axis has its columns; NULL: it has none */
	rt_vec(lo_ahead) ahead;      /* what its product computes as it reads its operands; members, too */
	int64_t red;                 /* extent of r */
	lo_map *maps;
	rt_vec(ir_ref) member;       /* users before operands */
	ir_ref first;                /* the member that comes first in the graph */
	rt_vec(lo_use *) again;      /* values of other groups that it computes, too; no members: they have one map */
	rt_vec(lo_save) save;
	int weight, redundant, reductions; /* weight, redundant: what the limits in lo_target count */
	uint8_t device;              /* the device that its kernel runs on */
	uint32_t merged;             /* the group that it was merged into, or LO_NOGROUP */
	ir_ref place;                /* in the line of paths.c: that of one member */
	int64_t window_row;          /* of its target */
} lo_group;

/* All values in an order in which operands come before their users; each group is in one place (paths.c). */
typedef struct lo_late { uint64_t label; ir_ref place; } lo_late;
typedef struct lo_line {
	uint64_t *label;             /* by place, which is the number of a node: rises along the line */
	ir_ref *prev, *next;
	rt_vec(lo_late) late;        /* found by the last search: must move when its result is used */
	uint64_t visits;             /* places that searches have visited */
} lo_line;

/* lo_val.refused of a value that its reader's kernel reads at several maps */
#define LO_TORN "the kernel reads it at several indices: it is stored and loaded"

/* A value that is read at several places; reader: one of those that read it. why: why repeat.c does not compute it at each; NULL: it does.
 * work: of an element, with what leads to it; most: if that is why, how much may be added for each element; else 0. */
typedef struct lo_repeated {
	const char *op, *site, *reader, *reader_site, *why;
	int64_t bytes;
	int places, work, most;
} lo_repeated;
typedef struct lo_repeats { rt_vec(lo_repeated) of; } lo_repeats;

typedef enum lo_kind { LO_STEP_KERNEL, LO_STEP_LIBRARY, LO_STEP_CALL, LO_STEP_COPY, LO_STEP_FLOW, LO_STEP_TO } lo_kind;
typedef struct lo_step {
	uint8_t kind;
	uint32_t group;          /* KERNEL; LIBRARY with an epilogue: of its kernel */
	ir_ref ref;              /* LIBRARY, CALL, FLOW, TO: the node; COPY: the value */
	const lo_dest *dest;     /* COPY */
	uint32_t work[RT_DEVICES]; /* FLOW: workspaces on devices other than the CPU, or LO_NOBUF. LIBRARY: on its device, if the routine
	                              has one */
	const char *name;
	struct lo_built *built;  /* KERNEL; LIBRARY with an epilogue: the kernel that computes the same */
	const struct lo_epilogue *epilogue; /* LIBRARY: what its call computes besides the node (library.h); NULL: nothing */
	const char *apart;       /* LIBRARY: why the kernel after it is no epilogue; NULL: it is one, or there is none that could be */
	uint32_t bundle; /* KERNEL: this many steps from here on run in one region (bundle.c); 0: none, or a step before this one says so */
	bool follows;            /* in a bundle: it goes through rows together with the step before it (follow.c) */
	rt_vec(uint32_t) reads, writes; /* buffers */
} lo_step;

typedef struct lo_texts {    /* of a step's kernel; NULL: none */
	const char *kernel, *code, *assembly; /* code, assembly: NULL if the kernel shares them */
	uint32_t shares;         /* the step whose kernel it shares code with; its own number: none */
} lo_texts;

typedef struct lo_low {
	const ir_graph *g;
	const lo_opts *o;
	rt_err *err;
	rt_arena mem;
	bool oom;
	bool devices;            /* some value is not on the CPU */
	bool sites;              /* kernels note where their instructions come from (sites.c) */
	const lo_repeats *repeats; /* what repeat.c did; NULL: nobody asks */
	const ir_graph *asked;   /* the graph before lo_assign_devices; g itself if that did not run */
	lo_val *val;             /* by node */
	uint32_t *user, *nuser;  /* users of node r: user[nuser[r] .. nuser[r + 1]) */
	ir_ref *input;           /* all inputs, by rising slot */
	uint32_t ninput;
	uint32_t numbers;        /* one more than the greatest slot of a number; 0 if all values are on the CPU */
	uint32_t *stamp, now;    /* visited marks of searches */
	uint32_t *time;          /* by node: how many products and calls come before it in the graph */
	rt_vec(lo_group *) group;
	lo_line line;
	ir_ref at;               /* the value that is being decided; those behind it are */
	const char *why;         /* the last refusal of a group */
	const char *missing;     /* why the target's back end is not there; NULL: it is, or was not needed */
	rt_vec(lo_buffer) buf;
	rt_vec(lo_step) step;
	rt_exec *(*region)[2];   /* by node: plans of the regions of control flow, see flowstep.c; NULL: not made */
	rt_out *out;             /* in the plan's memory */
	int64_t arena_bytes[RT_DEVICES];
	rt_full full;            /* without the step's name */
	uint32_t full_step;      /* its number */
	uint32_t recomputed;     /* see rt_exec */
	lo_texts *text;          /* by step; lo_opts.keep_each, else NULL */
} lo_low;

static inline const ir_node *lo_node(const lo_low *L, ir_ref r) { return ir_at(L->g, r); }
/* operands that are read; the other one only comes earlier */
static inline int lo_nread(const ir_node *n) { return n->op == IR_optimization_barrier ? 1 : n->nsrc; }
static inline const int64_t *lo_dim(const lo_low *L, ir_ref r) { return ir_dims(L->g, ir_at(L->g, r)); }
static inline bool lo_computed(const lo_low *L, ir_ref r)
{
	return L->val[r].how != LO_LEAF && L->val[r].how != LO_VIEW;
}
/* The target of a device. NULL: the device computes nothing; values are copied to the CPU's evaluator (devices.c). */
static inline const lo_target *lo_target_on(const lo_opts *o, int device)
{
	return device == RT_CPU || !o->target ? o->target : rt_device_at(device)->target;
}
static inline const lo_target *lo_target_of(const lo_low *L, ir_ref r) { return lo_target_on(L->o, lo_node(L, r)->device); }
/* ---- low.c ---- */
void *lo_mem(lo_low *L, size_t bytes); /* zeroed memory that lives as long as L; out of memory: NULL, and L->oom is set */
void lo_touch(lo_low *L, lo_step *s, uint32_t buf, bool write); /* s reads or writes buf */
bool lo_touches(const lo_step *s, uint32_t buf, bool write);
char *lo_take_text(rt_text *t, rt_arena *mem); /* the text as a string of mem; frees t. NULL: out of memory */
void lo_hold(rt_plan *p, rt_shared *x); /* the plan takes over the caller's reference; x may be NULL */
rt_at *lo_step_operands(rt_plan *p, rt_step *t, uint32_t n); /* n zeroed operands; the caller fills in buffers and offsets */

/* What the step of r, which is no kernel, reads as operand k: a scatter of the CPU reads its index as it is, not cast to i64. */
ir_ref lo_step_reads(const lo_low *L, ir_ref r, int k);

/* ---- view.c: strides through views ---- */
void lo_access_of(const lo_low *L, ir_ref r, lo_access *a); /* the value as strides over a buffer, as far as is decided; marks nothing */
void lo_operand_of(const lo_low *L, ir_ref r, int k, lo_access *a); /* operand k of r, as was decided with r */
void lo_need(lo_low *L, const lo_access *a);            /* marks that a->base must own a buffer */
/* what is known of the content of an input; NULL: nothing */
const lo_content *lo_content_of(const lo_opts *o, const ir_graph *g, const ir_node *input);
bool lo_seen_input(const lo_low *L, ir_ref r, lo_access *a); /* r is an input seen through strides: *a */
uint32_t lo_buf_of(lo_low *L, ir_ref r);  /* the buffer of a leaf or of a value that owns one */
uint32_t lo_buf_at(lo_low *L, const lo_access *a); /* the buffer that it reads */
uint32_t lo_leaf_buf(lo_low *L, ir_ref r); /* the leaf's own buffer, even if the leaf has a copy */
uint32_t lo_new_buf(lo_low *L, lo_buffer b);
bool lo_sort_inputs(lo_low *L);           /* fills L->input; false: out of memory */
/* the inputs that show external `slot`: *n from the returned index of L->input on */
uint32_t lo_inputs_of(const lo_low *L, int64_t slot, uint32_t *n);
lo_dest *lo_add_dest(lo_low *L, ir_ref r, uint32_t buf, ir_ref node, int64_t offset,
                     const int64_t *stride /* NULL: row-major */);

/* ---- affine.c: maps ---- */
lo_map *lo_map_new(lo_low *L, lo_group *G, int rank);
bool lo_map_equal(const lo_group *G, const lo_map *a, const lo_map *b);
lo_map *lo_map_identity(lo_low *L, lo_group *G, ir_ref r); /* adds an atom for each axis; NULL: too many */
/* The map of a view's operand, from the view's; NULL when it is not affine. May split atoms of G. */
lo_map *lo_map_view(lo_low *L, lo_group *G, ir_ref view, const lo_map *m);
/* The map of operand k of a node that broadcasts its operands. */
lo_map *lo_map_broadcast(lo_low *L, lo_group *G, ir_ref operand, const lo_map *m);
/* The map of the operand of a reduction from the map of its result; r stands for the reduced axes [lo, hi). */
lo_map *lo_map_reduced(lo_low *L, lo_group *G, ir_ref operand, int lo, int hi, bool keepdim, const lo_map *m);
/* Row-major index (or index by strides) of a map, as one expression. */
lo_expr lo_linear(const lo_group *G, const lo_map *m, const int64_t *stride);
bool lo_in_r(const lo_group *G, const lo_expr *e);          /* depends on r */
bool lo_map_in_r(const lo_group *G, const lo_map *m);
bool lo_fits_r(const lo_group *G, const lo_expr *e);        /* is affine in r as a whole */
bool lo_r_term(const lo_group *G, const lo_expr *e, int64_t *coef, int64_t *group); /* depends on r as coef * (r / group) */
/* the part of e in r as coef * r and jumps; false: it is not that */
bool lo_r_jumps(const lo_group *G, const lo_expr *e, int64_t *coef, struct lo_jump *jump);
bool lo_split(lo_group *G, int atom, int64_t low);          /* ext = hi * low */
bool lo_add_atom(lo_group *G, int64_t ext, bool isr, int64_t rstride);
/* The number of terms of e, and their atoms in order[] by rising coefficient, if e counts 0..n-1 without gaps; else -1. */
int lo_radix(const lo_group *G, const lo_expr *e, int64_t n, int *order);
int64_t lo_outer(const lo_group *G);                        /* product of the extents of atoms outside r */

/* ---- reduce.c ---- */
/* Copies the graph so that each reduction is over one run of adjacent axes and over at least one element, and gathers
 * come before the arithmetic on what they read. The copy may hold nodes that no output needs. */
tj_status lo_plain(const ir_graph *from, ir_graph *to, rt_err *err);
void lo_reduced_axes(const lo_low *L, ir_ref r, int *lo, int *hi, bool *keepdim);

/* ---- border.c ---- */
/* Copies the graph so that what reads beyond an edge is computed apart from the interior. The copy may hold nodes that no output needs.
 * *did: there is such a value; else nothing is copied. */
tj_status lo_border(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, rt_err *err);

/* ---- narrow.c ---- */
/* IR_NONE: that is not possible, or saves nothing */
ir_ref lo_narrow(ir_graph *g, ir_ref x, tj_dtype t); /* x cast to t, computed in t */
ir_ref lo_narrow_distance(ir_graph *g, ir_ref x); /* |x|, a difference, computed in bytes */

/* ---- short.c ---- */
/* The same so that values along an axis of a few elements are computed one by one. */
tj_status lo_short(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, rt_err *err);

/* ---- repeat.c ---- */
/* The same so that values which are read at several places are computed at each. told: may be NULL; gets those values. */
tj_status lo_repeat(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, lo_repeats *told, rt_err *err);

/* ---- classify.c ---- */
lo_how lo_how_of(const ir_graph *g, const ir_node *n, const lo_opts *o); /* who could compute the node on its device */
void lo_classify(lo_low *L);  /* who could compute each value */
bool lo_is_gather(ir_op op);

/* ---- products.c: matrix products as kernels ---- */
bool lo_is_product(const lo_low *L, ir_ref r);         /* a kernel computes matmul r */
/* The map of operand k of product r from the map of its result; r of the group stands for the summed axis. */
lo_map *lo_map_product(lo_low *L, lo_group *G, ir_ref r, int k, const lo_map *m);
/* a cast that is one conversion, which loses nothing: a product does it while it reads */
bool lo_widens(const ir_graph *g, ir_ref cast);
tj_dtype lo_product_dtype(tj_dtype t);                 /* the dtype in which products with results of dtype t add up */
void lo_tile_units(const lo_target *t, const lo_kernel *k, lo_schedule *s); /* sets rows, block, scratch and unit_ns of a schedule TILE */

/* ---- turn.c ---- */
/* lanes go along the rows of a product of few columns; false: k is as it was */
bool lo_turn_product(const lo_target *target, lo_kernel *k);

/* ---- panels.c ---- */
/* A product that reads the columns of a constant reads them from panels. buf: by kernel buffer, number in L->buf. false: out of memory. */
bool lo_read_panels(lo_low *L, lo_kernel *k, uint32_t *buf);
/* the elements of such a buffer, in panels; the plan holds them. NULL: out of memory */
void *lo_store_panels(lo_low *L, rt_plan *p, const lo_buffer *b);

/* ---- reach.c: questions about a group ---- */
lo_group *lo_group_at(const lo_low *L, uint32_t *id); /* follows merges */
lo_expr lo_row_major(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m); /* the row-major index of r's element at m */
/* The offset of the element that gather r reads from its table, without the term of the indexed axis; *dyn_stride: that axis' stride. */
lo_expr lo_gather_base(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m, const lo_access *table, int64_t *dyn_stride);

/* The group stores the value again, for readers far behind the one that computes it first (recompute.c). */
static inline bool lo_is_late(const lo_low *L, const lo_save *s) { return L->val[s->value].late == s->dest->buf; }

/* ---- fuse.c ---- */
bool lo_group_all(lo_low *L); /* decides for every value which group or step computes it; false: out of memory */

/* ---- lower.c ---- */
/* for region k of a node of control flow; .name as in o */
lo_opts lo_region_opts(const ir_graph *g, const ir_node *n, int k, const lo_opts *o);
/* Lowers up to the groups (or, if steps is set, up to the steps) and calls visit. */
tj_status lo_dry_run(const ir_graph *g, const lo_opts *o, bool steps, void (*visit)(lo_low *L, void *env), void *env, rt_err *err);

/* ---- order.c ---- */
bool lo_make_steps(lo_low *L); /* steps in an order in which all reads follow their writes */

/* ---- unroll.c ---- */
bool lo_unroll_row(lo_kernel *k, int64_t most); /* most: of the target. false: out of memory */

/* ---- kbuild.c ---- */
typedef struct lo_fault { const char *op; int64_t size; } lo_fault; /* what the error message names besides site and status */
typedef struct lo_built {
	lo_kernel k;
	lo_schedule s;
	uint32_t *buf;           /* by kernel buffer, the KEPT ones left out: number in lo_low.buf */
	uint32_t nbuf;
	lo_fault *fault;         /* by fault number, as k.fault_site */
	bool turned, panels;     /* a product: what turn.c and panels.c did, which depends on the number of rows */
	bool rows_move;          /* a product: the number of its rows changes from call to call */
} lo_built;
bool lo_build_kernel(lo_low *L, lo_step *s); /* fills reads, writes, built; false: out of memory */
/* The product of step s, whose number of rows moves, as calls with few or with many rows will want it. NULL: it is that kernel, or out of
 * memory. */
lo_built *lo_build_other(lo_low *L, lo_step *s);

/* ---- share.c ---- */
void lo_share(lo_low *L, const lo_target *t, uint32_t step); /* splits a long reduction of few rows into two kernels, two steps */

/* ---- flowstep.c: control flow ---- */
bool lo_flow_takes(const lo_low *L, ir_ref r, const lo_access *a); /* the step can use this operand as it lies; else it must own a buffer */
void lo_add_flow(lo_low *L, ir_ref r);
bool lo_put_flow(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);
void lo_count_regions(rt_plan *p); /* adds the regions' kernels and times to the plan's */

/* ---- devices.c ---- */
bool lo_stays(const ir_graph *g, const ir_node *n, const lo_opts *o); /* the node's device computes it; else the CPU must */
/* Copies the graph; ops that their device does not compute move to the CPU, with copies of their operands and results. */
tj_status lo_assign_devices(const ir_graph *from, ir_graph *to, const lo_opts *o, rt_err *err);

/* ---- memory.c ---- */
void lo_live_ranges(lo_low *L); /* sets first and last of all buffers */
bool lo_layout(lo_low *L); /* gives each temporary an offset in the arena, by live ranges */

/* ---- alias.c ---- */
bool lo_find_aliases(lo_low *L); /* outputs that may overwrite an external: sets alias_ext and over; false: out of memory */
bool lo_find_reuse(lo_low *L);   /* temporaries that may overwrite another one: sets over; false: out of memory */

/* ---- follow.c: kernels that go through rows together ---- */
typedef struct lo_blocks { int64_t rows, block, units; } lo_blocks; /* rows; rows of a block; units of a block, which are neighbours */
bool lo_walks_rows(const lo_built *b, lo_blocks *w); /* false: its units do not go through rows in order */
/* Step s reads what the n steps from `first` on write, if at all, only in the block of rows that it computes itself. Its blocks are
 * those of `first`, or parts of them. */
bool lo_follows(const lo_step *first, uint32_t n, const lo_step *s);

/* ---- bundle.c ---- */
bool lo_bundle(lo_low *L); /* finds neighbouring kernels that can run in one region; false: out of memory */
void lo_put_bundles(const lo_low *L, rt_plan *p); /* cuts them into pieces */

/* ---- facts.c ---- */
bool lo_put_facts(lo_low *L, rt_plan *p); /* what each step of p computes, for people; false: out of memory */

/* ---- plan.c ---- */
tj_status lo_make_plan(lo_low *L, rt_plan *p);

/* ---- code.c ---- */
void lo_add_text(rt_plan *p, char **all, const char *more); /* of a plan for several targets: *all, then more. more NULL: nothing */
tj_status lo_generate(lo_low *L, rt_plan *p); /* gives every kernel of the plan its code */

#endif
