/* SPDX-License-Identifier: MIT */
/* ir: the graph IR. One op per line, SSA, hash-consed; emitting simplifies. First the types, then the prototypes by file.
 *
 *   %0 = input f32[4,8] slot=0
 *   %1 = num f64 slot=0
 *   %2 = cast f32[] %1 dtype=f32
 *   %3 = add f32[4,8] %0 %2
 *   ret %3
 */
#ifndef TJ_IR_IR_H
#define TJ_IR_IR_H

#include "runtime/device.h"
#include "ir/classes.def"

/* ---- ops ---- */
typedef enum ir_op {
#define OP(name, ...) IR_##name,
#include "ir/ops.def"
#undef OP
	IR_OPS,            /* count of the public ops; after them come leaves, control flow and get */
	IR_input = IR_OPS, /* external value.  attr: slot, constant?, then strides[rank]; elements from data of the slot */
	IR_num,            /* run-time number, 0-d f64 or i64.  attr: slot */
	IR_const,          /* one value, any shape.  attr: the bits (int64_t, or of the double it is exact in) */
	IR_data,           /* constant data, row-major.  attr: index into g->data */
	IR_mark, /* its operand, as a value of its own: not folded, not merged. attr: a number of its own. Copies of a graph leave it out */
	IR_cond, /* control flow, see flow.c: a node that holds regions; its results are read by get */
	IR_while,
	IR_scan,
	IR_get, /* one result of a node that has several.  attr: which */
	IR_OP_COUNT
} ir_op;
static inline bool ir_is_leaf(int op) { return op >= IR_input && op <= IR_data; }
static inline bool ir_is_flow(int op) { return op >= IR_cond && op <= IR_scan; }

/* MODES  Bits that say how a node may be computed. A node gets the mode of the function whose body recorded it, and keeps it through all
 * passes. Nodes that compute nothing (leaves, views, to, control flow, get) have no mode, so equal ones merge always. Text: mode=fast */
enum { IR_FAST = 1, /* TJ_FAST: the result may differ from the evaluator's, see lower/fast.c */ IR_MODES = 2 };

enum { /* flags of ops.def */
	IR_POINT = 1, IR_VIEW = 2, IR_MATH = 4, IR_REDUCE = 8, IR_COMPOSITE = 16, IR_LIB = 32, IR_RNG = 64, IR_FAULT = 128,
	IR_ACCUM = 256, /* it accumulates over elements: narrow operands are widened, and the result is rounded once */
	IR_LOW = 512, IR_HIGH = 1024, IR_WIDEST = 2048, /* the classes of autocast.c */
	IR_EFFECT = 4096 /* it does more than compute: never dropped, repeated or put in another order */
};

/* NUMBERS  A node is weak when it is a num, or a POINT op of weak operands only. A weak node is f64, i64 or bool; any other
 * op of a number takes it as f32 (a float) or i64. Text writes the type of a weak node without brackets: f64, not f64[].
 */
typedef enum ir_opclass { /* what an op's C function takes, and so what a node's attributes are: the table is classes.def */
#define ROW(op, enumerator, ...) enumerator,
	IR_CLASSES(ROW)
#undef ROW
	IR_LEAF, IR_FLOW, IR_GET, /* not in the table: nodes that are not ops of ops.def */
} ir_opclass;

typedef struct ir_resultinfo { const char *name; uint8_t type, shape; } ir_resultinfo; /* one of several results; rules as below */
typedef struct ir_opinfo {
	const char *name, *doc;
	uint8_t opclass;  /* ir_opclass */
	uint8_t nsrc;     /* operands; 255: any number */
	uint16_t flags;
	uint8_t math;     /* bit RT_I, RT_F, RT_D: ir/math.inc has it */
	uint8_t type, shape; /* rules, private to infer.c */
	uint8_t grad;        /* rule of gradients, private to grad.c and vjp.c */
	uint8_t nresult;     /* number of results; control flow: 0, the regions say how many */
	const ir_resultinfo *result; /* one for each result if nresult > 1; else NULL */
} ir_opinfo;
extern const ir_opinfo ir_ops[IR_OP_COUNT];
/* The op faults on integers when the divisor is 0: POINT rows of ops.def with FAULT. */
static inline bool ir_divides(int op) { return (ir_ops[op].flags & (IR_POINT | IR_FAULT)) == (IR_POINT | IR_FAULT); }

/* The op is computed by simpler ones: all of a COMPOSITE, and nextafter of narrow floats, whose neighbours are not those of f32. */
static inline bool ir_is_composite(int op, tj_dtype result)
{
	return ir_ops[op].flags & IR_COMPOSITE || (op == IR_nextafter && rt_is_narrow(result));
}

enum { IR_CLASS_ATTRS = 4, IR_MOST_ORDER = 30 /* of polygamma */ };
typedef struct ir_classinfo { /* attributes, from classes.def; LEAF, FLOW and GET have none here */
	uint8_t nattr;        /* attributes, the list not counted */
	bool list;            /* a list of axes or sizes follows, up to TJ_MAX_RANK long */
	uint8_t numbers;      /* operands that are C numbers, the last ones */
	struct { const char *name; char kind; } attr[IR_CLASS_ATTRS + 1]; /* kind: d dtype, @ device, i int, * the list; ended by a NULL name */
} ir_classinfo;
extern const ir_classinfo ir_classes[IR_GET + 1];

/* ---- the type of a value ---- */
typedef struct ir_meta {
	uint8_t dtype, rank;
	bool weak;            /* a number: takes part in promotion by category only */
	uint8_t device;       /* where its bytes are (runtime/device.h); of a number RT_CPU */
	int64_t dim[TJ_MAX_RANK];
} ir_meta;

enum { IR_MOST_RESULTS = 4, IR_MOST_SOURCES = 4 }; /* most results, and most operands, of an op that has several results */
#define IR_TUPLE ((ir_meta){ .dtype = TJ_BOOL, .rank = 1 }) /* the type of a node that has several results: bool[0] */

/* One value, by class of the dtype: bool and integers in i. */
typedef union ir_scalar { int64_t i; float f; double d; } ir_scalar;

/* ---- the graph ---- */
typedef uint32_t ir_ref; /* index of a node; operands have smaller indices than their user */
#define IR_NONE UINT32_MAX /* what emit returns on error or when out of memory; accepted as operand, passed on */

typedef struct ir_node {
	uint16_t op;
	uint8_t dtype, rank;
	uint16_t nsrc, nattr;
	uint32_t src;         /* g->refs[src .. src+nsrc) */
	uint32_t attr;        /* g->ints[attr .. attr+nattr) */
	uint32_t shape;       /* g->ints[shape .. shape+rank) */
	uint8_t weak, device; /* a number; where its bytes are: as in ir_meta */
	uint8_t alone;        /* 1 + i: this node is result i of an op that has several (ir_alone()); 0: any other node */
	uint8_t mode;         /* bits: IR_FAST */
	const char *site;     /* source location, for messages. Not part of the CSE key; all fields above are (src, attr, shape by content) */
} ir_node;

typedef struct ir_blob { void *bytes; int64_t nbytes; uint64_t hash; } ir_blob;

/* Test switches. FOLD: no folding, except rules that only choose a spelling. CSE: no common-subexpression elimination. */
enum { IR_OFF_FOLD = 1, IR_OFF_CSE = 2 };
typedef struct ir_graph {
	rt_vec(ir_node) node;
	rt_vec(ir_ref) refs;
	rt_vec(int64_t) ints;
	rt_vec(ir_ref) out;   /* what the graph returns, in order; a ref may repeat */
	rt_vec(ir_blob) data;
	rt_vec(struct ir_custom *) custom; /* custom.c; while gradients are made */
	rt_vec(struct ir_graph *) region; /* regions of its control-flow nodes, as references; a region in this list is never changed */
	int owners;           /* a region's reference count; atomic */
	rt_arena mem;
	uint32_t *cse, ncse;  /* open-addressed table of node indices + 1 */
	uint32_t *blob, nblob; /* the same of indices in data */
	rt_err err;           /* first error of emit; code TJ_OK while all is well */
	uint32_t nfold, ncsehit; /* simplifications done */
	uint8_t mode;         /* mode of the nodes to be emitted: the caller of emit sets it; ir_copy() and its like use the node's */
	bool raw;             /* append nodes as given: no fold, no CSE (text parser only) */
	uint8_t off;          /* passes switched off for tests: IR_OFF_*, and LO_OFF() of lower/lower.h */
} ir_graph;

static inline const ir_node *ir_at(const ir_graph *g, ir_ref r) { return &g->node.v[r]; }
static inline ir_ref ir_src(const ir_graph *g, const ir_node *n, int k) { return g->refs.v[n->src + (uint32_t)k]; }
static inline const int64_t *ir_attr(const ir_graph *g, const ir_node *n) { return g->ints.v + n->attr; }
static inline const int64_t *ir_dims(const ir_graph *g, const ir_node *n) { return g->ints.v + n->shape; }
/* The node has several results: they are read by get. Its own type is bool[0], so it takes no memory. */
static inline bool ir_is_tuple(const ir_node *n) { return ir_ops[n->op].nresult != 1 && !n->alone; }
static inline bool ir_has_mode(int op) { return op < IR_OPS && op != IR_to && !(ir_ops[op].flags & IR_VIEW); }
static inline int ir_which(const ir_node *n) { return n->alone ? n->alone - 1 : 0; } /* which of the op's results the node is */

/* ---- infer.c: type and shape rules. Checks everything that does not depend on data. ---- */
/* Result dtype and shape of an op (one that has several results: bool[0]) from its operands and raw attributes; attributes as the user gave
 * them (negative axes, -1 sizes). On error fills err (op, message with operand dtypes and shapes, hint). Also gives, when norm is not NULL,
 * the normalised attributes (room for nattr + TJ_MAX_RANK), and when want is not NULL the dtype that each operand must be cast to (room for
 * nsrc). */
tj_status ir_infer(ir_op op, int nsrc, const ir_meta *src, int nattr, const int64_t *attr,
                   ir_meta *out, int64_t *norm, int *nnorm, uint8_t *want, rt_err *err);
/* of result `which` */
tj_status ir_infer_result(ir_op op, int which, int nsrc, const ir_meta *src, int nattr, const int64_t *attr, ir_meta *out, rt_err *err);
tj_dtype ir_promote(const ir_meta *a, int n); /* PyTorch's rule */
void ir_put_meta(rt_text *t, const ir_meta *m); /* f32[4,8]; a number: f64 */
/* The axes that a REDUCE, ARG or VAR op over `rank` axes removes, as bits; from normalised attributes. */
uint32_t ir_reduced(ir_op op, int nattr, const int64_t *attr, int rank);

/* ---- autocast.c: mixed precision ---- */
/* The dtype to which .autocast `low` (TJ_F16, TJ_BF16) casts the operands of op for which ir_autocasts() is true; TJ_BOOL: none is cast. */
tj_dtype ir_autocast(ir_op op, tj_dtype low, int nsrc, const ir_meta *src);
static inline bool ir_autocasts(const ir_meta *src, tj_dtype to)
{
	return to != TJ_BOOL && !src->weak && rt_is_float((tj_dtype)src->dtype) && src->dtype != to;
}

/* ---- graph.c ---- */
int64_t ir_numel(const ir_graph *g, ir_ref r);
bool ir_created(const ir_graph *g, ir_ref r); /* a tensor made from no tensor: it may be on any device */
void ir_graph_init(ir_graph *g);
void ir_graph_free(ir_graph *g);
void ir_graph_seal(ir_graph *g); /* call after the last emit: frees what only emitting needs */
typedef struct ir_packed ir_packed; /* a finished graph in one block, a fifth of its size */
ir_packed *ir_pack(ir_graph *g); /* takes over what g has, and leaves it empty; NULL: out of memory, g stays */
void ir_unpacked(ir_packed *p, ir_graph *g); /* g shows the graph as long as p lives; it is only read, and not freed */
size_t ir_packed_bytes(const ir_packed *p);
void ir_packed_free(ir_packed *p);
ir_meta ir_meta_of(const ir_graph *g, ir_ref r);
bool ir_same_type(const ir_meta *a, const ir_meta *b); /* dtype, device and sizes */
ir_scalar ir_const_value(const ir_graph *g, const ir_node *n); /* of an IR_const */
/* marks nodes whose bits may differ from the evaluator's: fast nodes and all that depend on them; room for node.n */
void ir_inexact(const ir_graph *g, bool *inexact);
bool ir_live(const ir_graph *g, bool *live); /* which nodes the outputs need; room for node.n */
void ir_contiguous(int rank, const int64_t *dim, int64_t *stride); /* row-major strides, in elements */

/* ---- emit.c: infer, insert the casts that promotion needs, fold, CSE, append ---- */
/* Emits node r of `from`, whose operands are src in g: leaves with their slots and data. */
ir_ref ir_copy(ir_graph *g, const ir_graph *from, ir_ref r, const ir_ref *src);
ir_ref ir_emit(ir_graph *g, ir_op op, int nsrc, const ir_ref *src, int nattr, const int64_t *attr, const char *site);
/* Appends a node as given, unless an equal one exists: nothing is checked or folded. */
ir_ref ir_append(ir_graph *g, ir_op op, const ir_meta *m, int nsrc, const ir_ref *src, int nattr, const int64_t *attr, const char *site);
ir_ref ir_input(ir_graph *g, int slot, const ir_meta *m, const int64_t *stride /* NULL: contiguous */, const char *site);
ir_ref ir_num_(ir_graph *g, tj_dtype dtype /* F64 or I64 */, int slot, const char *site);
ir_ref ir_const_f(ir_graph *g, tj_dtype dtype, int rank, const int64_t *dim, double value);
ir_ref ir_const_i(ir_graph *g, tj_dtype dtype, int rank, const int64_t *dim, int64_t value);
ir_ref ir_data_(ir_graph *g, const ir_meta *m, const void *bytes, const char *site); /* copies */
bool ir_ret(ir_graph *g, ir_ref r);
/* Emits, for lowering, a node that has only result `which` of r of `from`, an op with several results; operands are src in g. */
ir_ref ir_alone(ir_graph *g, const ir_graph *from, ir_ref r, int which, const ir_ref *src);
/* the same, of any op */
ir_ref ir_alone_of(ir_graph *g, ir_op op, int which, int nsrc, const ir_ref *src, int nattr, const int64_t *attr, const char *site);
/* r as a value of its own, by which gradients can be asked for: what is computed from it is not merged with what is computed from an equal
 * value. id: no other mark of the graph has it. */
ir_ref ir_mark(ir_graph *g, ir_ref r, int64_t id);
ir_ref ir_leaf(ir_graph *g, const ir_meta *m, const char *site); /* a new value of this type that stands for one that is given later */
/* Shorthand for decompositions and passes. */
ir_ref ir_op1(ir_graph *g, ir_op op, ir_ref a, const char *site);
ir_ref ir_op2(ir_graph *g, ir_op op, ir_ref a, ir_ref b, const char *site);
ir_ref ir_operand(ir_graph *g, ir_op op, ir_ref a, tj_dtype to, const char *site); /* a as an operand of op, which wants this dtype */
ir_ref ir_cast(ir_graph *g, ir_ref a, tj_dtype dtype, const char *site);
ir_ref ir_to(ir_graph *g, ir_ref a, int device, const char *site);
ir_ref ir_keep_device(ir_graph *g, ir_ref a, const ir_node *like); /* a, which a pass made for the node, on that node's device */
ir_ref ir_reduce(ir_graph *g, ir_op op, ir_ref a, uint32_t axes /* bits */, bool keepdim, const char *site);
ir_ref ir_reshape(ir_graph *g, ir_ref a, int rank, const int64_t *dim, const char *site);
ir_ref ir_expand(ir_graph *g, ir_ref a, int rank, const int64_t *dim, const char *site);

/* ---- fold.c: the rules. Each has a counter by name, for the tests. ---- */
/* A simpler equal of the node about to be appended, or IR_NONE. */
ir_ref ir_fold(ir_graph *g, const ir_node *n);
int ir_fold_rules(const char *const **names, const uint64_t **fired); /* how many; process-wide counters */

/* ---- decomp.c ---- */
/* Emits the decomposition of node r of `from`, whose operands are src in g. */
ir_ref ir_decompose(ir_graph *g, const ir_graph *from, ir_ref r, const ir_ref *src);
/* the erf of gelu or the tanh of gelu_tanh, as the decomposition has it; x: f32 or f64 */
ir_ref ir_gelu_gate(ir_graph *g, ir_op op, ir_ref x, const char *site);

/* ---- grad.c: gradients, as nodes of the same graph ---- */
typedef struct ir_grad_ask {
	ir_ref y, cotangent;  /* y: a float. cotangent: of y's dtype and shape; IR_NONE: ones */
	int n;
	const ir_ref *wrt;    /* n floats */
	bool zeros;           /* a value that y does not depend on has a gradient of zeros; else it is an error */
	bool none;            /* such a value gets IR_NONE instead */
	bool keep;            /* nothing is computed again for it: checkpoints are as other values */
	const char *site;
} ir_grad_ask;
bool ir_grad(ir_graph *g, const ir_grad_ask *q, ir_ref *out); /* out[i]: of the dtype and shape of wrt[i]. false: g->err says why */

/* the derivative of y along tangent[i] of wrt[i], of y's type; no cotangent */
bool ir_jvp(ir_graph *g, const ir_grad_ask *q, const ir_ref *tangent, ir_ref *out);

/* ---- custom.c: values whose gradient the user gives ---- */
typedef struct ir_custom {
	int nin, nout;
	ir_ref *in;           /* what they were computed from */
	ir_ref *out;          /* the values, as others use them: marks */
	ir_ref *leaf;         /* ir_leaf() that stands for the gradient by out[i] */
	ir_ref *grad; /* by in[i], computed from the leaves; of its type. IR_NONE, as at first: in[i] has no gradient. The caller sets it */
	bool again;           /* checkpoint.c: nothing is given by the user; the values are computed once more, from in[]. No leaf, no grad */
	const char *site;
} ir_custom;
/* for these values; of the graph. NULL: an error */
ir_custom *ir_custom_new(ir_graph *g, int nin, const ir_ref *in, int nout, const ir_ref *value, const char *site);
const ir_custom *ir_custom_of(const ir_graph *g, ir_ref r); /* what r is an out[] of; NULL: nothing */
/* to[i]: out[i], computed from with[] in place of the leaves */
bool ir_replace(ir_graph *g, int n, const ir_ref *leaf, const ir_ref *with, int nout, const ir_ref *out, ir_ref *to);

ir_ref ir_again(ir_graph *g, ir_ref r, const ir_ref *src); /* emits node r once more, with other operands; of a mark src[0] */

/* ---- checkpoint.c: values that are computed again for their gradient ---- */
/* by the nodes from `first` on. NULL: an error */
ir_custom *ir_checkpoint_new(ir_graph *g, ir_ref first, int nout, const ir_ref *value, const char *site);
/* for other values, computed from other in[] */
ir_custom *ir_checkpoint_like(ir_graph *g, const ir_custom *from, const ir_ref *in, const ir_ref *value);
/* Emits its values again, to be computed after `after`: value[i] is out[i], computed from barrier[k], which has the value of from[k]; k <
 * *n. Both lists are in g->mem. */
bool ir_checkpoint_again(ir_graph *g, const ir_custom *c, ir_ref after, ir_ref *value, int *n, ir_ref **from, ir_ref **barrier);

/* ---- marks.c: these records in regions ---- */
typedef struct ir_record_pair { const ir_custom *from; ir_custom *to; } ir_record_pair;
typedef struct ir_recopy { /* a copy that keeps records. map: by node of from; all of them are IR_NONE at first */
	const ir_graph *from;
	ir_graph *to;
	ir_ref *map, *src;
	rt_vec(ir_record_pair) pair;
} ir_recopy;
bool ir_recopy_open(ir_recopy *k, const ir_graph *from, ir_graph *to, ir_ref *map);
bool ir_recopy_node(ir_recopy *k, ir_ref r); /* nodes in order; one whose map is set stays as it is */
bool ir_recopy_close(ir_recopy *k, bool ok); /* ok, after the last node */
tj_status ir_pass_lean(const ir_graph *from, ir_graph *to, rt_err *err); /* as ir_pass_dce(), but with records */
bool ir_drop_records(ir_graph *g); /* in all its regions, on any level; false: g->err */

/* ---- vmap.c: what was computed for one example, for a batch of them ---- */
typedef struct ir_vmap_ask {
	int64_t n;            /* examples */
	int nin, nout;
	const ir_ref *leaf;   /* ir_leaf() that stands for an example of in[i] */
	const ir_ref *in;     /* axis 0 counts the examples */
	const ir_ref *out;    /* what was computed from the leaves and from other values, which are the same for all examples */
	const char *site;
} ir_vmap_ask;
/* to[i]: out[i] of all examples, along a new axis 0; with batched (NULL, or by output) one that depends on no leaf stays as it is. false:
 * g->err says why. */
bool ir_vmap(ir_graph *g, const ir_vmap_ask *q, ir_ref *to, bool *batched);

/* ---- inner.c: values inside a node, for which the graph has no node ---- */
/* composite r into an empty graph: node k is step k, leaves are its operands */
bool ir_steps(ir_graph *to, const ir_graph *from, ir_ref r);
/* Emits step `step` of composite r, or takes result `step` of a node that has several. */
ir_ref ir_inner(ir_graph *g, ir_ref r, uint32_t step);

/* ---- flow.c: control flow. A region is a graph whose input slot k is operand k of its node (cond: k + 1, behind the
 * predicate; scan: of xs a slice); numbers in it are those of the graph around. ---- */
/*   op      attributes                                      operands                        regions
 *   cond    {then, else}                                    bool[], then any                then, else: the same outputs
 *   while   {cond, body, most turns or 0, ys}               carries, captures               cond: bool[]; body: the new carries, then a
 *           slice of each ys
 *   scan    {body, carries, xs, length, reverse, counted}   carries, xs, count?, captures   body: the new carries, then a slice of each ys
 * A region's attribute is its index in g->region. ys have their slices along a new axis 0: those of a scan have `length`; those of a
 * while, which
 * then has a limit, have as many as it may have turns. counted is 0 or 1: the operand behind xs, an i64[] on the CPU, says how many
 * turns run, at most
 * `length`: those of the slices before it, in reverse, too. A slice of ys whose turn did not run is 0. Gradients of a while need both
 * (vjpflow.c). */
enum { IR_MAX_NEST = 64, IR_FLOW_ATTRS = 5 };
typedef struct ir_flowinfo { /* nattr: without the regions. needed: the attributes from this one on are 0 unless text has them */
	uint8_t nregion, nattr, needed;
	const char *region[2], *attr[IR_FLOW_ATTRS];
} ir_flowinfo;
const ir_flowinfo *ir_flow_info(int op);
ir_graph *ir_region_new(void); /* one reference; NULL: out of memory */
ir_graph *ir_region_ref(ir_graph *r); /* one reference more */
void ir_region_unref(ir_graph *r);
/* The node; attr without the regions. Takes references of its own. */
ir_ref ir_flow(ir_graph *g, ir_op op, int nsrc, const ir_ref *src, ir_graph *const *region, const int64_t *attr, const char *site);
ir_ref ir_flow_copy(ir_graph *g, const ir_graph *from, const ir_node *n, const ir_ref *src); /* of a control-flow node */
ir_graph *ir_flow_region(const ir_graph *g, const ir_node *n, int k);
int ir_flow_results(const ir_graph *g, const ir_node *n);
int ir_flow_carries(const ir_graph *g, const ir_node *n); /* of a cond 0 */
int64_t ir_flow_turns(const ir_graph *g, const ir_node *n); /* slices of ys: the length of a scan, the most turns of a while */
/* the operand that says how many turns run; IR_NONE: a scan without one, a while, a cond */
ir_ref ir_flow_count(const ir_graph *g, const ir_node *n);
/* carry k of a while or scan is an i64[]: 0 before the first turn, then 1 more in each */
bool ir_is_counter(const ir_graph *g, const ir_node *n, int k);
ir_meta ir_flow_result(const ir_graph *g, const ir_node *n, int i);
bool ir_flow_check(const ir_graph *g, ir_ref r, rt_err *err); /* of a control-flow node, regions included */
/* A node of its regions, on any level, passes the test. */
bool ir_flow_has(const ir_graph *g, const ir_node *n, bool (*test)(const ir_graph *g, ir_ref r, const void *env), const void *env);
bool ir_same_graph(const ir_graph *a, const ir_graph *b); /* equal except for sites */

/* ---- tuple.c: nodes with several results, control flow among them ---- */
int ir_results(const ir_graph *g, const ir_node *n);
ir_meta ir_result(const ir_graph *g, const ir_node *n, int i);
ir_ref ir_get(ir_graph *g, ir_ref tuple, int i, const char *site);
bool ir_get_check(const ir_graph *g, ir_ref r, rt_err *err);

/* ---- dce.c, decomp.c: passes from one graph into a new one, through ir_emit, so the result is simplified. Sites are borrowed: literals,
 * or strings of the graph that was parsed, which then must stay. ---- */
/* Copies what the outputs need (DCE). Fills map[old] = new when map is not NULL. */
tj_status ir_pass_dce(const ir_graph *from, ir_graph *to, ir_ref *map, rt_err *err);
/* The same; also decomposes composites, except nodes that the back end takes: claim() says so. */
tj_status ir_pass_decomp(const ir_graph *from, ir_graph *to, bool (*claim)(const ir_graph *g, ir_ref r), rt_err *err);

/* ---- gtext.c ---- */
void ir_put_attrs(const ir_graph *g, const ir_node *n, rt_text *t); /* " keepdim=0 axes=1"; nothing if it has none */
void ir_print(const ir_graph *g, rt_text *t);  /* parses back exactly */
void ir_table(const ir_graph *g, rt_text *t);  /* a table for people: opcode, name, target, args, shape, site */
tj_status ir_parse(ir_graph *g, const char *text, rt_err *err); /* message names line and column */
void ir_dump(const ir_graph *g);               /* to stderr, for gdb */
/* ---- dot.c ---- */
void ir_dot(const ir_graph *g, rt_text *t);    /* for Graphviz */

/* ---- verify.c ---- */
tj_status ir_verify(const ir_graph *g, rt_err *err);

/* ---- eval.c: the oracle ---- */
/* A value on the host: any strides, in elements. */
typedef struct ir_value {
	ir_meta meta;
	void *data;             /* element 0 of the view */
	int64_t stride[TJ_MAX_RANK];
} ir_value;
typedef struct ir_eval_opts {
	bool int_div_zero;      /* integer division by zero gives 0 instead of an error */
} ir_eval_opts;
/* One op; out->data has room for the result, row-major; out->meta is filled. attr: normalised. The operands have
 * the dtypes that ir_infer wants. */
tj_status ir_eval_op(ir_op op, int which /* of several results */, const int64_t *attr, int nattr, int nsrc, const ir_value *src,
                     ir_value *out, const ir_eval_opts *o, const char *site, rt_err *err);
/* A whole graph. given: NULL, or for each node row-major data to use instead of computing the node, or NULL; so a test can use the
 * results of library nodes. out: row-major destinations, one per g->out, allocated by the caller. */
tj_status ir_eval(const ir_graph *g, const void *const *ext, const uint64_t *num, const void *const *given,
                  void *const *out, const ir_eval_opts *o, rt_err *err);

/* flow.c: a control-flow node; out: a row-major destination for each result. */
tj_status ir_eval_flow(const ir_graph *g, ir_ref r, const ir_value *src, const uint64_t *num, void *const *out,
                       const ir_eval_opts *o, rt_err *err);

/* ---- sized.c: ops whose result's size depends on data: first count, then write to row-major memory of that size ---- */
int64_t ir_count_nonzero(const ir_value *x);
void ir_nonzero(const ir_value *x, int64_t count, int64_t *out);                          /* [count, rank] */
void ir_places(const ir_value *mask, int64_t count, int64_t *out);                        /* the row-major indices of true elements */
/* x and mask have one shape; broadcast ones have strides of 0 */
void ir_masked_select(const ir_value *x, const ir_value *mask, int64_t count, void *out);
/* sorted values. NaNs are last, each a value of its own. 0.0 equals -0.0: the first one that occurs stands for both */
typedef struct ir_unique {
	int64_t n, count;       /* elements, values */
	tj_dtype dtype;
	bool minus_zero;
	uint64_t *keys, *key;   /* keys: memory for 2 n keys; key: the half of it with the sorted keys */
	int64_t *indices, *index; /* the same for the positions of the elements; NULL: not wanted */
} ir_unique;
bool ir_unique_sort(ir_unique *u, const ir_value *x, bool indexed); /* false: out of memory */
/* first: position of the first element of each value; inverse: by element, the number of its value; counts: elements of each value.
 * Each may be NULL: not wanted; they need `indexed`. */
void ir_unique_write(const ir_unique *u, void *value, int64_t *first, int64_t *inverse, int64_t *counts);
void ir_unique_free(ir_unique *u);

/* ---- tree.c: the fixed order of reductions, as plain loops, for the evaluator ---- */
float ir_tree_f(const float *x, int64_t n, int64_t stride, float (*f)(float, float), float init, bool column);
double ir_tree_d(const double *x, int64_t n, int64_t stride, double (*f)(double, double), double init, bool column);

/* ---- element.c: any non-zero byte of a bool is true; integers wrap to the width ---- */
ir_scalar ir_load(tj_dtype t, const void *p);
/* t can hold the number, rounded or with its fraction cut off: it does not wrap, saturate or become infinite */
bool ir_holds(tj_dtype t, ir_scalar number, bool is_int);
void ir_store(tj_dtype t, void *p, ir_scalar s);

/* ---- point.c: ir/math.inc on plain numbers ---- */
/* A POINT op on one element of each operand, computed in the dtype `compute`. Comparisons give 0 or 1 in i. The caller checks for
 * division of integers by zero. */
typedef ir_scalar ir_point_fn(const ir_scalar *src, tj_dtype compute);
ir_point_fn *ir_point_get(ir_op op, rt_class cls); /* NULL: not for that class */
ir_scalar ir_cast_scalar(ir_scalar v, tj_dtype from, tj_dtype to); /* saturation, NaN gives 0, any non-zero is true */
ir_scalar ir_random(ir_op op, tj_dtype dtype, uint64_t key, uint64_t ordinal, uint64_t index); /* uniform, normal */

#endif
