/* SPDX-License-Identifier: MIT */
/* tjmodel.h - models of other programs: ONNX files as functions, functions as ONNX files. Part of libtjkit.
 *
 *   tj_model *m = tj_onnx_open(c, "net.onnx", NULL);
 *   tj_tensor *y[1];
 *   tj_call(tj_model_fn(m), y, TJ_LIST(x));                        // an ordinary function: traced, guarded, compiled
 *   tj_model_close(m);
 *
 * The function.  Its body walks the nodes of the graph and calls ops of <tj.h>. So its results are those of these ops, sizes may vary, and
 *   tj_explain(), tj_dump(), tj_export() and TJ_PROFILE work as for any function; where a line of C would stand, they name the node:
 *   "net.onnx:/layer1/Conv (Conv)". Values that follow from shapes and constants are computed on the host while it is traced. Where a node
 *   needs the values of a tensor that depends on data (a shape, a number of turns), the host reads it, which is a boundary.
 * Reading.  The file is mapped and checked whole; initializers lie over the map, without a copy. External data is read only from the folder
 *   of the model, and never through a link. Memory is taken only for what is in the file.
 * Supported.  The default domain, opsets 7 to 28, and functions that the file itself defines; docs/MODELS.md lists the ops. All that a file
 *   needs beyond that is refused when it is opened, in one error that counts it; .on_refused gets each.
 * Errors.  As in <tjfiles.h>. An error of an op names its node.
 * Threads.  The function may be called from every clone of its context. Open and close serve one thread, and so does what makes or writes
 *   something (tj_quantise_weight(), tj_model_initializer(), tj_model_compare(), tj_onnx_write()); several may ask the other questions at
 *   once. A tj_difference serves one thread. */
#ifndef TJ_MODEL_H
#define TJ_MODEL_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tj_model tj_model;

/* ---- weights of small integers -------------------------------------------------------------------- */

/* How a weight of f32, k of whose elements make one result, becomes small integers and scales. Integers are symmetric: there is no zero
 * point.
 *   DYNAMIC  i8, one scale for each column: the largest magnitude / 127. Each row of x becomes i8 by the same rule when the function runs,
 *            and the product is one of integers: exact, and several times as fast as one of floats. This is torchao's
 *            Int8DynamicActivationInt8WeightConfig, and quantize_dynamic() of onnxruntime with a scale for each row and column.
 *   I8       i8; x stays f32. A product reads the integers and multiplies by the scales as it goes: a quarter of the memory, and of the
 *            time where that is memory's, as when a model decodes a token at a time.
 *   I4       -8 to 7, two of them in a byte, a scale for each group: the element of the largest magnitude / -8, as Q4_0 of ggml, with
 *            scales of f32. An eighth of the memory. A byte has elements j and j + k / 2. */
typedef enum tj_quantise { TJ_QUANTISE_NONE, TJ_QUANTISE_DYNAMIC, TJ_QUANTISE_I8, TJ_QUANTISE_I4 } tj_quantise;

typedef struct tj_weight {
	tj_quantise how;
	bool transposed;      /* the sizes are [..., n, k], as a linear layer of PyTorch has them, else [..., k, n] */
	int64_t group;        /* elements along k that share a scale; 0: all */
	int64_t k, n;
	tj_tensor *values;    /* i8 in the sizes of the weight; I4: u8 with k / 2 */
	tj_tensor *scale;     /* f32 [..., n]; of groups in the sizes of the weight with k / group */
} tj_weight;

/* w: f32 with two or more axes, computed on the host. group: 0, or of I8 and I4 a number that divides k (k / 2 of I4), 32, 64 or 128 as a
 * rule; I4 takes 32 for 0. DYNAMIC: k is 131,072 at most, since i32 must hold the sum. The tensors of *out are in the innermost open scope;
 * NaN and infinity are refused (TJ_ERR_ARG). On error they are NULL. */
TJ_API tj_status tj_quantise_weight_at(const char *site, tj_tensor *w, bool transposed, tj_quantise how, int64_t group, tj_weight *out);
/* x [..., k] times the weight, f32 [..., n], in bodies and outside. The pointers of w may be cells, or variables that are frozen: then the
 * plan packs the integers. */
TJ_API tj_tensor *tj_weight_matmul_at(const char *site, tj_tensor *x, const tj_weight *w);
#define tj_quantise_weight(w, transposed, how, group, out) tj_quantise_weight_at(TJ_SITE, w, transposed, how, group, out)
#define tj_weight_matmul(x, w) tj_weight_matmul_at(TJ_SITE, x, w)

/* How far results are from those they stand for, over as many calls as are added. */
typedef struct tj_difference {
	int64_t calls, elements;
	double largest, sum;          /* of |got - want| */
	double errors, wanted, got;   /* sums of squares: of got - want, of want, of got */
	double both;                  /* the sum of got * want */
	int64_t rows, same;           /* rows: along the last axis, of two or more numbers; same: their largest element is at the same place */
} tj_difference;

/* Adds the elements of two tensors of one shape, floats or integers. {0} is no difference yet. */
TJ_API tj_status tj_difference_add_at(const char *site, tj_difference *d, tj_tensor *want, tj_tensor *got);
/* "largest 0.012, mean 0.0011, relative 0.0034, cosine 0.99999, same largest element in 99.2 % of 128 rows". relative: the root of the
 * squares of errors by that of the squares of `want`. Returns the length without the 0, as snprintf(). */
TJ_API int tj_difference_text(const tj_difference *d, char *text, size_t room);
#define tj_difference_add(d, want, got) tj_difference_add_at(TJ_SITE, d, want, got)

/* ---- ONNX files ----------------------------------------------------------------------------------- */

/* opts of tj_onnx_open(); all may be 0. */
typedef struct tj_onnx_opts {
	size_t size;
	const char *name;      /* of the function; NULL: that of the file */
	tj_mode mode;          /* TJ_VERIFY: the nodes are walked at each call. TJ_DIRECT: once for each combination of sizes */
	tj_numerics numerics;
	tj_dynamic dynamic;
	bool no_shapes;        /* sizes that the file names are not told to tj_compile() as .shapes: each is found to vary when it does */
	const char *sizes;     /* bounds of sizes that the file names, as in .shapes of tj_compile_opts: "batch in 1..8; H in 16..64; H%16==0".
	                        * tj_export() tries all of them: without bounds it begins at 0, where most models fail. NULL: none. With
	                        * .no_shapes it is an error */
	void (*on_refused)(void *self, const char *line); /* gets each reason for which the file is refused; NULL: nobody */
	void *on_refused_self;
	tj_quantise quantise;  /* weights of MatMul, Gemm, RNN, GRU, LSTM, and with DYNAMIC of Conv with windows of 1: those that are constants
	                        * of f32 with 1024 or more elements, all finite, become small integers. tj_model_quantised() lists
	                        * them. They are made when the file is opened, and are in memory beside its map */
	int64_t quantise_group; /* of I8 and I4, as in tj_quantise_weight(). Where it does not divide k, the group is the next smaller number that
	                         * does; if that is below 16, I4 becomes I8, and all of k has one scale */
	const char *const *quantise_except; /* names of nodes whose weights stay, ended by NULL; one that is not there is an error. NULL: none */
} tj_onnx_opts;

/* NULL on error. The model keeps its file mapped. */
TJ_API tj_model *tj_onnx_open_at(const char *site, tj_ctx *c, const char *path, const tj_onnx_opts *opts);
#define tj_onnx_open(c, path, opts) tj_onnx_open_at(TJ_SITE, c, path, opts)
/* Frees the function, too: no call of it may run. Before the last tj_close(), which frees the names of nodes that errors have. */
TJ_API void tj_model_close(tj_model *m);

/* The function: as many arguments as the model has inputs that are no initializers, in their order. */
TJ_API tj_fn *tj_model_fn(const tj_model *m);

/* An input or an output. All texts live as long as the model. */
typedef struct tj_onnx_value {
	const char *name;
	tj_dtype dtype;
	int rank;                            /* -1: the file does not say */
	int64_t dim[TJ_MAX_RANK + 1];        /* -1: not fixed. TJ_END_DIM follows */
	const char *symbol[TJ_MAX_RANK];     /* the name of a size that is not fixed; NULL: it has none */
} tj_onnx_value;
/* NULL: there is no i-th. */
TJ_API const tj_onnx_value *tj_model_input(const tj_model *m, int i);
TJ_API const tj_onnx_value *tj_model_output(const tj_model *m, int i);

/* The i-th key of metadata_props, and its value; false: there is none. */
TJ_API bool tj_model_metadata(const tj_model *m, int i, const char **key, const char **value);

/* What the file says of itself; "" where it says nothing. */
typedef struct tj_onnx_about {
	size_t size;                         /* set by the caller: so many bytes are filled */
	int64_t ir, opset, version;  /* opset: of the default domain */
	const char *producer, *producer_version, *domain, *graph, *doc;
	int64_t nodes, initializers;         /* of all graphs */
	uint64_t weight_bytes;               /* of the initializers */
} tj_onnx_about;
/* Does nothing if one of them is NULL. */
TJ_API void tj_model_about(const tj_model *m, tj_onnx_about *out);

/* The i-th op that the model uses, by name, and how many of its nodes are of it; NULL: there are fewer. */
typedef struct tj_onnx_count { const char *op; int64_t nodes; } tj_onnx_count;
TJ_API const tj_onnx_count *tj_model_op(const tj_model *m, int i);

/* The i-th weight that is quantised. NULL: there is no i-th. */
typedef struct tj_quantised {
	const char *node, *op;       /* the first node that uses it */
	tj_quantise how;             /* I8 where I4 was asked for and k has no group for it */
	int64_t group, k, n;
	uint64_t bytes, float_bytes; /* of integers and scales, and of the weight in the file */
} tj_quantised;
TJ_API const tj_quantised *tj_model_quantised(const tj_model *m, int i);

/* Calls both models, as one with and one without .quantise, with batches of a loader of <tjdata.h>, whose fields are the inputs: its next
 * epoch, or `batches` of it if that is above 0. Adds the differences of each output to d, which has one for each. Fields beyond the inputs
 * are not used. The result is that of tj_check(). */
typedef struct tj_loader tj_loader;
TJ_API tj_status tj_model_compare_at(const char *site, const tj_model *want, const tj_model *got, tj_loader *data, int64_t batches,
                                     tj_difference *d);
#define tj_model_compare(want, got, data, batches, d) tj_model_compare_at(TJ_SITE, want, got, data, batches, d)

/* The i-th initializer of the graph, and its name. It lives as long as the model, or, of a small list of integers, in the innermost scope.
 * NULL: there are fewer. Poison: its dtype is none of tjit's. */
TJ_API tj_tensor *tj_model_initializer_at(const char *site, const tj_model *m, int i, const char **name);
#define tj_model_initializer(m, i, name) tj_model_initializer_at(TJ_SITE, m, i, name)

/* The i-th op that tj_onnx_open() supports: its domain ("" is the default one), its name and the versions of the opset that changed it,
 * "1,6,13"; false: there are fewer. Needs no model. */
TJ_API bool tj_onnx_supports(int i, const char **domain, const char **op, const char **since);

/* Writing: a compiled function as an ONNX file of opset 18, IR version 8, which ONNX Runtime since 1.14 loads.
 *
 *   tj_onnx_write(f, "net.onnx", NULL);                    // f was called, or .shapes says all of its arguments
 *
 * The body is run as tj_export() runs it, on the same conditions, and nothing is computed. Each op becomes the node of ONNX that computes
 *   the same, or several of them: docs/MODELS.md lists them, with those that round otherwise. What ONNX cannot express (random numbers,
 *   functions of the program, some special functions) is refused, all of it at once, with its lines.
 * Sizes that .shapes names become sizes with names in the file, which nodes compute with; the range of a size is not written.
 * Variables are initializers with their content. A variable that the body assigns is an input, too, with its content as the preset, and an
 *   output "name_next" with the new content.
 * The file takes the place of an older one when all of it is on the disk. Equal functions give equal bytes. */
typedef struct tj_onnx_write_opts {
	size_t size;
	const char *name;        /* of the graph; NULL: that of the function */
	tj_list inputs;          /* tensors as a call gets them: their dtypes and shapes count. NULL: as in tj_graph_opts */
	const tj_scalar *scalars;
	const char *const *input_names;  /* ended by NULL; what is missing: as in .shapes, or "input0", ... */
	const char *const *output_names; /* the same; "output0", ... */
	const char *const *names; /* of .state, then of .freeze, ended by NULL; what is missing: "variable0", ... */
	bool static_sizes;       /* all sizes are those of .inputs or of the last call */
	bool external;           /* variables go to "path.data" beside the file; they do in any case if the file would have 2 GB or more */
	bool finite;             /* a promise: no value is NaN. Leaves out the nodes that take care of NaN in maxima and pools */
	void (*on_refused)(void *self, const char *line); /* gets each reason for which the function is refused; NULL: nobody */
	void *on_refused_self;
} tj_onnx_write_opts;
TJ_API tj_status tj_onnx_write_at(const char *site, tj_fn *f, const char *path, const tj_onnx_write_opts *opts);
#define tj_onnx_write(f, path, opts) tj_onnx_write_at(TJ_SITE, f, path, opts)

/* The i-th op that tj_onnx_write() knows, and the ONNX op that does its work; "": none, it is refused. false: there are fewer. Composites
 * that are not listed are written as their parts. */
TJ_API bool tj_onnx_writes(int i, const char **op, const char **becomes);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
