/* SPDX-License-Identifier: MIT */
/* models: an ONNX file as data (wire.c, decode.c, link.c), and the body that walks it (walk.c) by the table of ops (ops.def).
 * kit/models/README.md has the picture. */
#ifndef TJ_KIT_MODELS_H
#define TJ_KIT_MODELS_H

#include <tjmodel.h>

#include "kit/files/files.h"
#include "kit/kit.h"

#include <stdlib.h>

/* ---- arena.c: memory that is freed at once ---- */
typedef struct ox_arena { struct ox_block *block; } ox_arena;
void *ox_take(ox_arena *a, size_t bytes); /* zeros, aligned for any type; NULL: out of memory */
void ox_arena_free(ox_arena *a);

/* ---- wire.c: protobuf's wire format, read in place ---- */
typedef struct ox_wire { const unsigned char *at, *end; } ox_wire;
typedef struct ox_field {
	uint32_t number;
	int type;                /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
	uint64_t value;          /* of types 0, 1, 5 */
	ox_wire bytes;           /* of type 2 */
} ox_field;
bool ox_next(ox_wire *w, ox_field *f, kit_why *why); /* false: the end, or why->code is set */
bool ox_varint(ox_wire *w, uint64_t *v);             /* false: it is cut or longer than ten bytes */
static inline size_t ox_bytes(ox_wire w) { return (size_t)(w.end - w.at); }

/* ---- the model as data ---- */
/* Element types of TensorProto, by its numbers. */
enum { OX_FLOAT = 1, OX_UINT8, OX_INT8, OX_UINT16, OX_INT16, OX_INT32, OX_INT64, OX_STRING, OX_BOOL, OX_FLOAT16, OX_DOUBLE, OX_UINT32,
       OX_UINT64, OX_COMPLEX64, OX_COMPLEX128, OX_BFLOAT16 };
bool ox_dtype(int64_t type, tj_dtype *dtype); /* false: tjit does not have it */
int64_t ox_type_of(tj_dtype dtype);
const char *ox_type_name(int64_t type);

/* A small tensor whose elements the host knows. */
typedef struct ox_host {
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows */
	int64_t n;
	int64_t *i;                   /* elements of integers and bool; else NULL */
	double *f;                    /* elements of floats; else NULL */
} ox_host;
enum { OX_HOST_MOST = 1024 };         /* elements of an ox_host: enough for shapes, few enough to compute at every call */

typedef struct ox_tensor {
	const char *name;
	int64_t type;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows */
	const unsigned char *data;    /* row-major, little endian; in the map, or in the arena */
	size_t bytes;
	const char *location;         /* external data: a file in the folder of the model; NULL: none */
	int64_t offset, length;       /* length -1: up to its end */
	kit_map *map;                 /* what holds data; NULL: the arena does */
	tj_tensor *t;                 /* retained; NULL: not made yet */
	const ox_host *host;          /* NULL: it has more than OX_HOST_MOST elements, or a dtype of 16 bits */
	struct ox_quantised *small[2];    /* quantised, [1]: transposed; NULL: not */
} ox_tensor;

typedef struct ox_attr {
	const char *name, *ref;       /* ref: the attribute of the function whose value it takes; NULL: none */
	int type;                     /* AttributeProto.AttributeType; see ox_attr_letter() */
	int64_t i;
	float f;
	const char *s;
	ox_tensor *t;
	struct ox_graph *g;
	int64_t *ints;
	float *floats;
	const char **strings;
	int64_t n;                    /* of ints, floats, strings */
} ox_attr;
enum { OX_A_FLOAT = 1, OX_A_INT, OX_A_STRING, OX_A_TENSOR, OX_A_GRAPH, OX_A_FLOATS, OX_A_INTS, OX_A_STRINGS, OX_A_TENSORS, OX_A_GRAPHS };

typedef struct ox_info {              /* ValueInfoProto */
	const char *name;
	int64_t type;                 /* of the elements; 0: it is no tensor, or is not known */
	const char *kind;             /* "tensor", "sequence", "optional", ... */
	int rank;                     /* -1: not known */
	int64_t dim[TJ_MAX_RANK + 1]; /* -1: not known */
	const char *symbol[TJ_MAX_RANK]; /* name of a size that is not known; NULL: it has none */
	int value;
	bool initialized;             /* of an input: an initializer has its name */
} ox_info;

typedef struct ox_node {
	const char *name, *op, *domain;
	const char **in_name, **out_name;
	int *in, *out;                /* numbers of values; -1: left out */
	int nin, nout;
	ox_attr *attr;
	int nattr;
	int opset;                    /* of its domain */
	const struct ox_row *row;     /* NULL: a local function */
	struct ox_graph *fn;
	const char *site;             /* "model.onnx:/layer1/Conv (Conv)"; lives as long as the engine */
	const tj_weight *weight[2];   /* inputs 1 and 2, quantised; NULL: they are not */
} ox_node;

typedef struct ox_graph {             /* GraphProto; also FunctionProto */
	const char *name, *domain;
	struct ox_graph *parent;
	ox_node *node;
	ox_tensor *init;
	ox_info *in, *out, *info;
	int nnode, ninit, nin, nout, ninfo;
	ox_attr *preset;              /* of a function: attributes with values that a call may leave out */
	int npreset;
	struct ox_import *import;     /* of a function */
	int nimport;
	int state;                    /* of a function while linking: 0 not seen, 1 on the way, 2 done */
	int64_t nodes;                /* of a function: that one call of it walks, also in functions that it calls */
} ox_graph;

typedef struct ox_import { const char *domain; int64_t version; } ox_import;
typedef struct ox_pair { const char *key, *value; } ox_pair;

struct tj_model {
	tj_ctx *c;
	char *path;
	const char *base;             /* name of the file without its folder */
	kit_map *map;
	ox_arena arena;
	ox_arena *lines;              /* sites, which errors may still name when the model is closed: they live as long as the engine */
	int64_t ir;
	const char *producer, *producer_version, *domain, *doc;
	int64_t version;
	ox_import *import;
	int nimport;
	ox_pair *meta;
	int nmeta;
	ox_graph *graph;
	ox_graph *fn;                 /* local functions */
	int nfn;
	int nvalue;                   /* of all graphs */
	ox_tensor **literal;          /* by value: an initializer or the value of a Constant; NULL: neither */
	const ox_node **maker;        /* by value: the node that makes it; NULL: none */
	tj_tensor ***freeze;
	int nfreeze;
	struct ox_quantised *small;   /* quantised weights: a list, in the order of the nodes */
	tj_fn *f;
	tj_onnx_value *in, *out;
	int nin, nout;                /* inputs that are no initializers */
	int *in_value;
	tj_onnx_count *count;
	int ncount;
	char *shapes;
};

/* ---- decode.c, external.c ---- */
bool ox_decode(tj_model *m, ox_wire w, kit_why *why);
bool ox_literal(tj_model *m, ox_tensor *t, kit_why *why); /* finds the data of a tensor in another file, and its host values */
kit_map *ox_external(const char *model, const char *location, kit_why *why);
const ox_host *ox_host_of_bytes(ox_arena *a, tj_dtype dtype, int rank, const int64_t *dim, const void *data);

/* ---- link.c: names become numbers of values; what is not supported ---- */
typedef struct ox_refusals {
	int n;
	void (*tell)(void *self, const char *line);
	void *self;
	char first[400];
} ox_refusals;
bool ox_link(tj_model *m, ox_refusals *r, kit_why *why); /* true: r->n may be above 0 */
void ox_refuse(ox_refusals *r, const ox_node *n, const char *fmt, ...) TJ_PRINTF(3, 4);

/* ---- quantise.c ---- */
enum { OX_MOST_K = 131072, OX_USUAL_GROUP = 32 }; /* of DYNAMIC: OX_MOST_K * 127 * 127 < 2^31; of I4 */
typedef struct ox_quantised {
	struct ox_quantised *next;
	tj_weight w;                  /* its tensors are retained */
	tj_quantised about;
} ox_quantised;
bool ox_quantise(const char *site, tj_model *m, const tj_onnx_opts *o); /* after the weights are made; false: reported */

/* ---- quantised.c ---- */
/* x as i32 from -127 to 127 with a scale for each row along `axis`. */
tj_tensor *ox_rounded(const char *site, tj_tensor *x, int axis, tj_tensor **scale);

/* ---- the body ---- */
typedef struct ox_value {
	tj_tensor *t;                 /* NULL: not made of the host value yet */
	const ox_host *h;             /* NULL: the host does not know it; without t, too, the value is absent */
} ox_value;
typedef struct ox_run {
	tj_model *m;
	tj_ctx *c;
	ox_arena arena;
	ox_value *v;                  /* by number of the value */
	const struct ox_frame *frame; /* the local function that runs */
	bool region;                  /* in a callback of control flow, whose tensors end with it: values of the host keep none */
	bool failed;
} ox_run;
typedef struct ox_frame { const struct ox_frame *up; const ox_node *call; const ox_graph *fn; } ox_frame;
typedef struct ox_call {
	ox_run *r;
	const ox_node *n;
	const char *site;
	ox_value *out;                /* n->nout of them */
} ox_call;
typedef tj_tensor *ox_fn(ox_call *o, const char *site); /* the first result; others in o->out. NULL: o->out[0] is set */

typedef bool ox_folder(ox_call *o); /* all inputs are known. true: o->out are known, too; false: the op computes them */

typedef struct ox_row {
	const char *domain, *name, *since; /* since: the versions at which the op changed, "1,6,13" */
	int in_least, in_most, out_most;
	const char *attrs;            /* "axis:i keepdims:i"; letters: ox_attr_letter() */
	uint32_t reads;               /* bit k: the host reads input k; bit 31: the op runs graphs */
	ox_folder *fold;              /* of fold.c; NULL: none */
	ox_fn *fn;
} ox_row;
extern const ox_row ox_rows[];        /* ends with a row without a name */
const ox_row *ox_find_row(const char *domain, const char *name);
char ox_attr_letter(int type);        /* i f s t g, I F S T G for lists; '?' */

/* ---- walk.c ---- */
tj_body ox_body;
bool ox_walk(ox_run *r, const ox_graph *g); /* false: failed, reported */
const ox_attr *ox_attribute(const ox_call *o, const char *name);
int64_t ox_int(const ox_call *o, const char *name, int64_t preset);
int ox_small(const ox_call *o, const char *name, int preset); /* the same, within the limits of int32_t */
double ox_float(const ox_call *o, const char *name, double preset);
const char *ox_string(const ox_call *o, const char *name, const char *preset);
bool ox_is(const ox_call *o, const char *name, const char *preset, const char *value); /* the attribute has this value */
const int64_t *ox_ints(const ox_call *o, const char *name, int64_t *n); /* NULL: not given */
bool ox_has(const ox_call *o, int k);       /* input k is given */
ox_value *ox_in(const ox_call *o, int k);   /* of an input that is given */
tj_tensor *ox_t(const ox_call *o, int k);   /* as a tensor; NULL: left out */
const ox_host *ox_h(const ox_call *o, int k); /* known values; if need be a boundary reads them. NULL: left out, or failed */
bool ox_number(const ox_call *o, int k, int64_t *to); /* one known integer, or a float without its fraction; false: it is none, reported */
tj_tensor *ox_fail(const ox_call *o, tj_status code, const char *hint, const char *fmt, ...) TJ_PRINTF(4, 5);
tj_tensor *ox_tensor_of(ox_run *r, ox_value *v, const char *site);
const ox_host *ox_host_of(ox_run *r, ox_value *v, const char *site);
void ox_put(const ox_call *o, int k, tj_tensor *t);  /* result k, if it is wanted */
bool ox_wants(const ox_call *o, int k);
ox_host *ox_new_host(ox_arena *a, tj_dtype dtype, int rank, const int64_t *dim);
void *ox_room(const ox_call *o, size_t bytes);       /* of the run; NULL: failed */

/* ---- fold.c ---- */
ox_folder ox_fold_cast, ox_fold_cast_like, ox_fold_concat, ox_fold_constant_of_shape, ox_fold_expand, ox_fold_gather, ox_fold_identity,
	ox_fold_many, ox_fold_negative, ox_fold_not, ox_fold_range, ox_fold_reduce, ox_fold_reshape, ox_fold_round_down_or_up, ox_fold_size,
	ox_fold_slice, ox_fold_split, ox_fold_squeeze, ox_fold_unsqueeze, ox_fold_where;

/* The functions of the table; several rows may have one. */
#define OX(domain, name, since, least, most, out, attrs, reads, fold, fn) ox_fn fn;
#include "kit/models/ops.def"
#undef OX

/* ---- shapes.c: what many ops use ---- */
int ox_axis(int64_t axis, int rank);
tj_tensor *ox_broadcast_to(const char *site, tj_tensor *x, int rank, const int64_t *dim);
bool ox_is_float(tj_tensor *t);
tj_tensor *ox_like(const char *site, tj_tensor *x, tj_tensor *like); /* cast to the dtype of like */
tj_tensor *ox_scalar(const char *site, tj_dtype dtype, double v);    /* 0-d */
int64_t ox_dims_of(tj_tensor *t, int64_t dim[TJ_MAX_RANK + 1]);      /* the shape, ended; returns the rank */
/* [n] along an axis of a tensor of this rank: [1,..,n,..,1]; an error: there is no such axis */
tj_tensor *ox_along(const char *site, tj_tensor *x, int axis, int rank);
tj_tensor *ox_transposed(const char *site, tj_tensor *x); /* the last two axes are swapped */
/* windows.c: the convolution of a node, without its bias */
tj_tensor *ox_convolve(ox_call *o, const char *site, tj_tensor *x, tj_tensor *weight);
tj_tensor *ox_negative_index(const char *site, tj_tensor *index, int64_t n); /* negative ones count from the end */

#endif
