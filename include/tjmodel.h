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
 * Threads.  The function may be called from every clone of its context. Open and close serve one thread. */
#ifndef TJ_MODEL_H
#define TJ_MODEL_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tj_model tj_model;

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
	const char *const *input_names, *const *output_names; /* ended by NULL; what is missing: as in .shapes, or "input0", "output0", ... */
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
