/* SPDX-License-Identifier: MIT */
/* write: a function as an ONNX file. onnxwrite.c visits its graphs and writes the file, sizes.c finds how numbers follow from sizes,
 * the rows of written.def say what an op becomes. */
#ifndef TJ_KIT_WRITE_H
#define TJ_KIT_WRITE_H

#include "kit/models/models.h"

enum { OW_OPSET = 18, OW_IR = 8 };

/* ---- protowrite.c: protobuf's wire format ---- */
typedef struct ow_bytes {
	unsigned char *v;
	size_t n, room;
	bool oom;                     /* something is missing */
} ow_bytes;
void ow_put(ow_bytes *b, const void *data, size_t n);
void ow_put_varint(ow_bytes *b, uint64_t v);
void ow_put_int(ow_bytes *b, uint32_t field, int64_t v);
void ow_put_float(ow_bytes *b, uint32_t field, float v);
void ow_put_bytes(ow_bytes *b, uint32_t field, const void *data, size_t n);
void ow_put_text(ow_bytes *b, uint32_t field, const char *s);
size_t ow_open(ow_bytes *b, uint32_t field); /* what follows is a message, up to ow_close(b, the returned value) */
void ow_close(ow_bytes *b, size_t at);

/* ---- sizes.c: numbers that differ between graphs of a function at several sizes ---- */
enum { OW_SYMBOLS = 8, OW_SAMPLES = 32 };
/* An integer of the sizes S: more + sum of times[i] * S[i] + by * prod of S[i]^power[i], over part, rounded down. */
typedef struct ow_size {
	int64_t times[OW_SYMBOLS], more, by, part;
	uint8_t power[OW_SYMBOLS];
} ow_size;
/* A number of the graph: that integer n, or for a float 1 / n, sqrt(n), 1 / sqrt(n). */
typedef enum ow_form { OW_INTEGER, OW_REAL, OW_INVERSE, OW_ROOT, OW_INVERSE_ROOT } ow_form;
typedef struct ow_number {
	ow_form form;
	ow_size size;
} ow_number;
typedef struct ow_samples {
	int n, symbols;
	int64_t size[OW_SAMPLES][OW_SYMBOLS]; /* by sample and symbol */
} ow_samples;
/* false: no such expression gives v[k] at sample k */
bool ow_fit(const ow_samples *s, const int64_t *v, ow_size *out);
bool ow_fit_float(const ow_samples *s, tj_dtype dtype, const double *v, ow_number *out);
bool ow_same_size(const ow_size *a, const ow_size *b);

/* ---- the writer ---- */
typedef int ow_v;                     /* a value of the file; 0: left out */
typedef struct ow_value {
	const char *name;
	tj_dtype dtype;
	bool used;                    /* a node has it as an input */
} ow_value;
typedef struct ow_initializer {
	ow_v value;
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK];
	size_t bytes;
	const void *data;             /* or: */
	tj_tensor *t;
	uint64_t at;                  /* external: where in the file beside it */
} ow_initializer;
typedef struct ow_node {              /* what the writer knows of a node of the graph */
	const tj_node *n;
	ow_v value;                   /* 0: not written yet */
	ow_v *result;                 /* of a node with several results: nresult of them */
	int nresult;
	int first;                    /* of its numbers in ow.number */
} ow_node;
typedef struct ow_known_size { ow_size size; ow_v value; } ow_known_size;

typedef struct ow {
	const char *site;
	tj_ctx *c;
	tj_fn *f;
	tj_onnx_write_opts o;
	kit_why why;
	ox_arena mem;
	ow_samples samples;
	const char *symbol[OW_SYMBOLS];
	uint64_t *skeleton;           /* what must be equal in all graphs */
	size_t nskeleton, skeleton_room, seen;
	int64_t *number[OW_SAMPLES];  /* by sample: dims, attributes, elements of constants */
	size_t nnumber[OW_SAMPLES], number_room[OW_SAMPLES];
	ow_node *node;                /* hash table by address, of the graph that is visited */
	size_t nnode, node_room;
	ow_value *value;
	int nvalue, value_room;
	ow_initializer *init;
	int ninit, init_room;
	ow_known_size *size;
	int nsize, size_room;
	ow_bytes top, before, *body;  /* nodes: of the graph, those that compute sizes, and of the graph that is written now */
	ow_bytes attrs;               /* of the node to be written next */
	ow_bytes in, out;
	const tj_node *at;            /* the node that is written */
	int counter;
	int refused;
	char first[400];
	ow_v *argument, *variable;    /* by number; 0: not used yet */
	int nargument, nvariable;
	ow_v symbol_value[OW_SYMBOLS];
} ow;

/* onnxwrite.c */
ow_node *ow_of(ow *w, const tj_node *n);
void ow_refuse(ow *w, const tj_node *n, const char *fmt, ...) TJ_PRINTF(3, 4);
bool ow_keeps(void *self, const tj_node *n);
bool ow_write_graph(ow *w, tj_graph *g); /* all nodes that its outputs need */
ow_v ow_value_of(ow *w, tj_node *n);
const char *ow_name_new(ow *w, const char *fmt, ...) TJ_PRINTF(2, 3);
ow_v ow_new_value(ow *w, const char *name, tj_dtype dtype);

static inline bool ow_is_float(tj_dtype t) { return t >= TJ_F16; }

/* emit.c: nodes of the file. Attributes come before their node. */
void ow_attr_int(ow *w, const char *name, int64_t v);
void ow_attr_float(ow *w, const char *name, double v);
void ow_attr_text(ow *w, const char *name, const char *v);
void ow_attr_ints(ow *w, const char *name, const int64_t *v, int n);
void ow_attr_graph(ow *w, const char *name, const ow_bytes *graph);
/* A ValueInfoProto: its name and dtype; the caller writes a shape. */
typedef struct ow_info { size_t value, type, tensor; } ow_info;
ow_info ow_open_info(ow *w, ow_bytes *to, uint32_t field, ow_v v);
void ow_close_info(ow_bytes *to, ow_info i);
/* With the shape of `like`, without axis `without` (-1: with all); sizes that vary are left open. like NULL: 0-d */
void ow_put_info(ow *w, ow_bytes *to, uint32_t field, ow_v v, tj_node *like, int without);
void ow_emit(ow *w, const char *op, int n, const ow_v *in, int nout, ow_v *out); /* out: values that exist */
ow_v ow_op(ow *w, const char *op, tj_dtype dtype, int n, const ow_v *in);        /* a new value */
ow_v ow_op1(ow *w, const char *op, ow_v a);   /* of the operand's dtype; of a comparison bool */
ow_v ow_op2(ow *w, const char *op, ow_v a, ow_v b);
ow_v ow_where(ow *w, ow_v c, ow_v a, ow_v b); /* also of dtypes for which runtimes have none */
ow_v ow_cast(ow *w, ow_v a, tj_dtype to);     /* as ONNX has it: out of range it is undefined */
static inline ow_v ow_back(ow *w, const tj_node *n, ow_v v) { return ow_cast(w, v, tj_node_dtype(n)); } /* to the dtype of the node */
ow_v ow_convert(ow *w, ow_v a, tj_dtype to);  /* as tjit has it: saturates, NaN gives 0 */
ow_v ow_i64s(ow *w, const int64_t *v, int n); /* [n] */
ow_v ow_i64(ow *w, int64_t v);                /* [1] */
ow_v ow_const(ow *w, tj_dtype dtype, double v); /* 0-d */
ow_v ow_const_int(ow *w, tj_dtype dtype, int64_t v);
ow_v ow_initializer_of(ow *w, tj_dtype dtype, int rank, const int64_t *dim, const void *data, size_t bytes);
tj_dtype ow_dtype(const ow *w, ow_v v);
/* sizes of nodes */
int64_t ow_dim(const tj_node *n, int axis);
bool ow_dim_varies(ow *w, tj_node *n, int axis, ow_size *out);    /* false: it is ow_dim() */
bool ow_attr_varies(ow *w, tj_node *n, int k, ow_size *out);
ow_v ow_size_value(ow *w, const ow_size *s);                      /* i64[1] */
ow_v ow_dim_value(ow *w, tj_node *n, int axis);                   /* i64[1] */
ow_v ow_attr_value(ow *w, tj_node *n, int k);                     /* i64[1] */
ow_v ow_shape_value(ow *w, tj_node *n);                           /* i64[rank] */
void ow_put_size(const ow *w, const ow_size *s, char *to, size_t room); /* "2*B+1" */
/* shapes of values */
ow_v ow_reshape(ow *w, ow_v v, const int64_t *dim, int n);        /* -1: what is left; 0: as it is */
ow_v ow_unsqueeze(ow *w, ow_v v, const int64_t *axis, int n);
ow_v ow_squeeze(ow *w, ow_v v, const int64_t *axis, int n);
ow_v ow_slice(ow *w, ow_v v, int axis, ow_v from, ow_v to, ow_v step);
ow_v ow_reduce(ow *w, const char *op, ow_v v, const int64_t *axis, int n, bool keep);
ow_v ow_range(ow *w, ow_v n);                                     /* n: i64[1]; i64[n] */

/* ---- rows: written.def ---- */
typedef ow_v ow_fn(ow *w, tj_node *n, const ow_v *x);             /* 0: it was refused, or results are set */
enum { OW_F32 = 1, OW_F64 = 2, OW_I32 = 4, OW_I64 = 8, OW_I8 = 16, OW_I16 = 32, OW_BOOL = 64 };
typedef struct ow_row {
	const char *name, *becomes;
	int types;                    /* dtypes that runtimes compute it in; others are widened */
	ow_fn *fn;
} ow_row;
extern const ow_row ow_rows[];        /* ends with a row without a name */
const ow_row *ow_find_row(const char *name);
const ow_row *ow_row_of(const tj_node *n);
ow_v ow_work(ow *w, const ow_row *r, ow_v v);                     /* v in a dtype of the row */
void ow_result(ow *w, const tj_node *n, int k, ow_v v);           /* result k of a node that has several */
#define OW(name, becomes, types, fn) ow_fn fn;
#include "kit/models/written.def"
#undef OW
ow_v ow_floor_quotient(ow *w, ow_v a, ow_v b);                    /* of integers; 0 where b is 0 */

#endif
