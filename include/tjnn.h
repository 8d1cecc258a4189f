/* SPDX-License-Identifier: MIT */
/* tjnn.h - modules, optimisers and training for tj.h. Link with -ltjkit -ltj.
 *
 * What a user writes, for a network that learns to tell digits apart:
 *
 *   typedef struct net { tjnn_conv conv; tjnn_norm norm; tjnn_linear out; } net;
 *
 *   static void layers(tjnn_walk *w, void *self)        // as __init__() in PyTorch: the layers, with their names and sizes
 *   {
 *       net *m = self;
 *       tjnn_conv_layer(w, "conv", &m->conv, 1, 16, TJ_SHAPE(3, 3), true, NULL);
 *       tjnn_batch_norm_layer(w, "norm", &m->norm, 16);
 *       tjnn_linear_layer(w, "out", &m->out, 16 * 3 * 3, 10, true);
 *   }
 *
 *   static tj_tensor *forward(net *m, tj_tensor *x, bool training)
 *   {
 *       x = tj_relu(tjnn_norm_apply(&m->norm, tjnn_conv_apply(&m->conv, x), training));
 *       x = tj_max_pool2d(x, TJ_SHAPE(2, 2), NULL);
 *       return tjnn_linear_apply(&m->out, tj_flatten(x, 1, -1));
 *   }
 *
 *   static void step(tj_tensor **out, tj_tensor *const *in, void *self)  // forward, gradients and update are one plan
 *   {
 *       train *t = self;
 *       out[0] = tj_cross_entropy(forward(t->net, in[0], true), in[1]);
 *       tjnn_optim_step(t->optim, out[0]);
 *   }
 *
 *   tjnn_model *model = tjnn_open(c, layers, &net, NULL);             // makes the parameters: PyTorch's initial distributions
 *   tjnn_optim *optim = tjnn_optim_open(model, tjnn_adamw(1e-3), NULL); // PyTorch's defaults
 *   tj_fn *f = tj_compile(c, step, &train, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 2, .nout = 1));
 *
 * A module is a plain struct whose fields hold tensors; its layers function walks over them. Everything else is made from that walk:
 * initial values, counts, the summary, optimisers, checkpoints. Names are those of PyTorch's state_dict: "conv.weight".
 *
 * Ownership.  The struct is the caller's; it must live as long as the tjnn_model, which owns the cells in its fields. tjnn_optim_close(),
 *   then tjnn_close(), then tj_close(). In another order nothing is lost: each handle has to be closed once, and is good for nothing else
 *   when what it stands on was closed before.
 * Errors.  As in tj.h: the current context keeps the first one; the function returns poison, NULL or a status. So it is enough to look
 *   once, at the end: a model, an optimiser, a run or a layer may be NULL everywhere, which is another error, or no answer.
 * Threads.  A model and its optimiser belong to one thread at a time. apply functions of a model may run in several threads, each with a
 *   context of its own, while none trains.
 */
#ifndef TJNN_H
#define TJNN_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tj_comm tj_comm;     /* <tjdist.h> */
typedef struct tj_loader tj_loader; /* <tjdata.h> */

/* ---- initial values -------------------------------------------------------------------------------- */

/* How a parameter begins. The values depend on the seed and the name of the parameter alone: a layer that is added changes no other. fan_in
 * and fan_out are PyTorch's: for [O,I,...] I and O, times the product of what follows; the tensor needs two axes then. */
typedef enum tjnn_init_kind {
	TJNN_CONSTANT,        /* a everywhere */
	TJNN_UNIFORM,         /* from a to b */
	TJNN_NORMAL,          /* mean a, standard deviation b */
	TJNN_TRUNC_NORMAL,    /* the same within two deviations of the mean; drawn again outside of them */
	TJNN_KAIMING_UNIFORM, /* within +-gain * sqrt(3 / fan_in); He and others, 2015 */
	TJNN_KAIMING_NORMAL,  /* deviation gain / sqrt(fan_in) */
	TJNN_XAVIER_UNIFORM,  /* within +-gain * sqrt(6 / (fan_in + fan_out)); Glorot and Bengio, 2010 */
	TJNN_XAVIER_NORMAL,   /* deviation gain * sqrt(2 / (fan_in + fan_out)) */
	TJNN_ORTHOGONAL,      /* rows, or columns if there are more rows, of length gain at right angles; Saxe and others, 2013 */
	TJNN_EYE,             /* gain on the diagonal of a matrix, 0 beside it */
	TJNN_DIRAC            /* [O,I,...]: a convolution that hands its channels on: 1 at the centre of [i,i], 0 elsewhere */
} tjnn_init_kind;
typedef struct tjnn_init {
	tjnn_init_kind kind;
	double a, b;
	int64_t zeroed;   /* a row of zeros all the same: its index + 1; 0: none */
	int part, parts;  /* the values of part 0 .. parts - 1 of a parameter that is `parts` times as long along this axis; parts 0: of all */
	int axis;
} tjnn_init;
static inline tjnn_init tjnn_constant(double value) { tjnn_init i = { TJNN_CONSTANT, value, 0, 0, 0, 0, 0 }; return i; }
static inline tjnn_init tjnn_uniform(double from, double to) { tjnn_init i = { TJNN_UNIFORM, from, to, 0, 0, 0, 0 }; return i; }
static inline tjnn_init tjnn_normal(double mean, double deviation) { tjnn_init i = { TJNN_NORMAL, mean, deviation, 0, 0, 0, 0 }; return i; }
static inline tjnn_init tjnn_trunc_normal(double mean, double deviation)
{
	tjnn_init i = { TJNN_TRUNC_NORMAL, mean, deviation, 0, 0, 0, 0 };
	return i;
}
static inline tjnn_init tjnn_scaled(tjnn_init_kind kind, double gain) /* the kinds with a gain */
{
	tjnn_init i = { kind, gain, 0, 0, 0, 0, 0 };
	return i;
}

/* ---- walks and models ------------------------------------------------------------------------------- */

/* A parameter or a buffer, as a walk sees it. Valid while the model is open; in tjnn_visit() during the call. */
typedef struct tjnn_slot {
	const char *name;     /* "blocks.0.attn.in_proj_weight" */
	tj_tensor **var;      /* the field of the struct */
	bool buffer;          /* no gradient; saved with the model */
	const char *same_as;  /* the slot whose tensor this one shares; NULL: none */
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows */
	tjnn_init init;
} tjnn_slot;

typedef struct tjnn_walk tjnn_walk;
typedef void tjnn_layers(tjnn_walk *w, void *self); /* names the layers of a module, in the same order each time */

/* For layers of your own: called in a layers function. name: without dots; the walk puts the names of the modules around in front. dtype of
 * a parameter: that of the model. */
TJ_API void tjnn_param_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_dims shape, tjnn_init init);
TJ_API void tjnn_buffer_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_dtype dtype, tj_dims shape, double value);
TJ_API tj_dtype tjnn_walk_dtype(const tjnn_walk *w); /* of the parameters, for buffers that go with them */
/* var is *of, which this walk has named before: one parameter with two names, as an embedding and the layer that reads it back. */
TJ_API void tjnn_shared_at(const char *site, tjnn_walk *w, const char *name, tj_tensor **var, tj_tensor **of);
/* Names between these begin with this one and a dot. */
TJ_API void tjnn_enter_at(const char *site, tjnn_walk *w, const char *fmt, ...) TJ_PRINTF(3, 4);
TJ_API void tjnn_leave_at(const char *site, tjnn_walk *w);
TJ_API void tjnn_child_at(const char *site, tjnn_walk *w, const char *name, tjnn_layers *layers, void *self); /* enter, layers, leave */
/* A name made of a number, for layers in a list: tjnn_linear_layer(w, tjnn_name(w, "blocks.%d", i), ...). Valid until the next one. */
TJ_API const char *tjnn_name(tjnn_walk *w, const char *fmt, ...) TJ_PRINTF(2, 3);
#define tjnn_param(w, name, var, shape, init) tjnn_param_at(TJ_SITE, w, name, var, shape, init)
#define tjnn_buffer(w, name, var, dtype, shape, value) tjnn_buffer_at(TJ_SITE, w, name, var, dtype, shape, value)
#define tjnn_shared(w, name, var, of) tjnn_shared_at(TJ_SITE, w, name, var, of)
#define tjnn_enter(w, ... /* fmt, ... */) tjnn_enter_at(TJ_SITE, w, __VA_ARGS__)
#define tjnn_leave(w) tjnn_leave_at(TJ_SITE, w)
#define tjnn_child(w, name, layers, self) tjnn_child_at(TJ_SITE, w, name, layers, self)

/* Calls see for each parameter and buffer, in the order of the walk. Needs no model and makes nothing. */
TJ_API tj_status tjnn_visit_at(const char *site, tjnn_layers *layers, void *self, void (*see)(void *env, const tjnn_slot *slot), void *env);
#define tjnn_visit(layers, self, see, env) tjnn_visit_at(TJ_SITE, layers, self, see, env)

typedef struct tjnn_model tjnn_model;
typedef struct tjnn_open_opts {
	size_t size;
	uint64_t seed;     /* of the initial values; 0 is an ordinary seed */
	tj_dtype dtype;    /* of the parameters: a float; TJ_BOOL, which is 0: f32 */
	const char *device; /* "cpu", "cuda:0"; NULL: that of the context */
} tjnn_open_opts;
/* Makes the cells of all fields; what the structs had before does not matter. NULL on error, with NULL in the fields: two equal names, a
 * name that is no UTF-8, two names for a field without tjnn_shared(), a size below 0, an initial value that does not fit to its shape, out
 * of memory; a field that another open model has, which keeps it. Not in a body. */
TJ_API tjnn_model *tjnn_open_at(const char *site, tj_ctx *c, tjnn_layers *layers, void *self, const tjnn_open_opts *opts);
TJ_API void tjnn_close_at(const char *site, tjnn_model *m); /* releases the cells; NULL is fine */
TJ_API int64_t tjnn_count(const tjnn_model *m);                           /* of slots */
TJ_API const tjnn_slot *tjnn_at(const tjnn_model *m, int64_t i);          /* NULL: out of range */
TJ_API const tjnn_slot *tjnn_find(const tjnn_model *m, const char *name); /* NULL: there is none */
TJ_API int64_t tjnn_numel(const tjnn_model *m, bool trainable); /* elements of parameters, shared ones once; of those not frozen */
TJ_API tj_vars tjnn_vars(const tjnn_model *m);                            /* all fields, for .state or .freeze of tj_compile_opts */
TJ_API tj_list tjnn_params(const tjnn_model *m); /* the parameters that are not frozen, for tj_grad(); until the next
                                                  * tjnn_freeze() */
/* Parameters whose names match get no gradient and no update, or get them again. pattern: of fnmatch(3): "encoder.*"; a shared one
 * has several names. How many match; -1 on error: none does. Not in a body. An open optimiser goes along: a parameter that is frozen keeps
 * its state, and one that gets gradients again counts its own steps, as in PyTorch. Functions in direct mode, and the .state of those that
 * are compiled, are as before: compile them anew. Thaw what a checkpoint has state for before it is loaded. */
TJ_API int64_t tjnn_freeze_at(const char *site, tjnn_model *m, const char *pattern, bool frozen);
TJ_API bool tjnn_frozen(const tjnn_model *m, const char *name);
/* New initial values for parameters whose names match, as when the model was opened. How many match; -1 on error, as when
 * the value does not fit to one of them: then nothing is written. Not in a body. */
TJ_API int64_t tjnn_reset_at(const char *site, tjnn_model *m, const char *pattern, tjnn_init init);
TJ_API tj_ctx *tjnn_context(const tjnn_model *m);
/* A table: name, shape, dtype, elements, and the sums. */
TJ_API void tjnn_summary(const tjnn_model *m, FILE *f);
#define tjnn_open(c, layers, self, opts) tjnn_open_at(TJ_SITE, c, layers, self, opts)
#define tjnn_close(m) tjnn_close_at(TJ_SITE, m)
#define tjnn_freeze(m, pattern, frozen) tjnn_freeze_at(TJ_SITE, m, pattern, frozen)
#define tjnn_reset(m, pattern, init) tjnn_reset_at(TJ_SITE, m, pattern, init)

/* ---- layers ----------------------------------------------------------------------------------------- */

/* Each has a struct, NAME_layer(), which a layers function calls, and NAME_apply(), which a body calls. Formulas, defaults and initial
 * distributions are those of PyTorch's module of the same name (2.9). Fields that are no tensors are set by NAME_layer(). */

/* x W' + b: [...,I] -> [...,O]. weight and bias begin within +-1 / sqrt(I). */
typedef struct tjnn_linear { tj_tensor *weight /* [O,I] */, *bias /* [O]; NULL: none */; } tjnn_linear;
TJ_API void tjnn_linear_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_linear *m, int64_t in, int64_t out, bool bias);
TJ_API tj_tensor *tjnn_linear_apply_at(const char *site, const tjnn_linear *m, tj_tensor *x);
#define tjnn_linear_layer(w, name, m, in, out, bias) tjnn_linear_layer_at(TJ_SITE, w, name, m, in, out, bias)
#define tjnn_linear_apply(m, x) tjnn_linear_apply_at(TJ_SITE, m, x)

/* Rows of a table: integers [...] -> [...,width]. The weight is normal. Row `padding` (-1: none) begins with zeros and has no gradient. */
typedef struct tjnn_embedding { tj_tensor *weight /* [rows,width] */; int64_t padding; } tjnn_embedding;
TJ_API void tjnn_embedding_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_embedding *m, int64_t rows, int64_t width,
                                    int64_t padding);
TJ_API tj_tensor *tjnn_embedding_apply_at(const char *site, const tjnn_embedding *m, tj_tensor *index);
#define tjnn_embedding_layer(w, name, m, rows, width, padding) tjnn_embedding_layer_at(TJ_SITE, w, name, m, rows, width, padding)
#define tjnn_embedding_apply(m, index) tjnn_embedding_apply_at(TJ_SITE, m, index)

/* Convolution over 1 to 3 axes, as many as kernel has: [N,in,...] -> [N,out,...]. opts may be NULL. weight is [out,in / groups,...], of a
 * transposed one [in,out / groups,...]; weight and bias begin within +-1 / sqrt(fan_in). */
typedef struct tjnn_conv {
	tj_tensor *weight, *bias; /* bias [out]; NULL: none */
	int axes;
	bool transposed;
	tj_conv_opts opts;
} tjnn_conv;
TJ_API void tjnn_conv_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_conv *m, int64_t in, int64_t out, tj_dims kernel,
                               bool bias, const tj_conv_opts *opts);
TJ_API void tjnn_conv_transpose_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_conv *m, int64_t in, int64_t out,
                                         tj_dims kernel, bool bias, const tj_conv_opts *opts);
TJ_API tj_tensor *tjnn_conv_apply_at(const char *site, const tjnn_conv *m, tj_tensor *x);
#define tjnn_conv_layer(w, name, m, in, out, kernel, bias, opts) tjnn_conv_layer_at(TJ_SITE, w, name, m, in, out, kernel, bias, opts)
#define tjnn_conv_transpose_layer(w, name, m, in, out, kernel, bias, opts) \
	tjnn_conv_transpose_layer_at(TJ_SITE, w, name, m, in, out, kernel, bias, opts)
#define tjnn_conv_apply(m, x) tjnn_conv_apply_at(TJ_SITE, m, x)

/* Norms; one struct, one apply. weight begins with 1, bias with 0. batch: of [N,C,...] over all but C, with running statistics; training
 * says which are used, and moves them. instance: each example by itself, without parameters unless affine. group: of [N,C,...] by groups of
 * channels. layer, rms: over the last axes, of this shape. eps and momentum are 1e-5 (rms, 0: the dtype's epsilon)
 * and 0.1; a layers function may change them behind the call. */
typedef enum tjnn_norm_kind { TJNN_BATCH_NORM, TJNN_INSTANCE_NORM, TJNN_GROUP_NORM, TJNN_LAYER_NORM, TJNN_RMS_NORM } tjnn_norm_kind;
typedef struct tjnn_norm {
	tj_tensor *weight, *bias;
	tj_tensor *running_mean, *running_var, *num_batches_tracked; /* of batch norms */
	double eps, momentum;
	tjnn_norm_kind kind;
	int64_t groups;
	int64_t shape[TJ_MAX_RANK + 1];
} tjnn_norm;
TJ_API void tjnn_batch_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t channels);
TJ_API void tjnn_instance_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t channels, bool affine);
TJ_API void tjnn_group_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, int64_t groups, int64_t channels);
TJ_API void tjnn_layer_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, tj_dims shape, bool bias);
TJ_API void tjnn_rms_norm_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_norm *m, tj_dims shape);
TJ_API tj_tensor *tjnn_norm_apply_at(const char *site, const tjnn_norm *m, tj_tensor *x, bool training);
#define tjnn_batch_norm_layer(w, name, m, channels) tjnn_batch_norm_layer_at(TJ_SITE, w, name, m, channels)
#define tjnn_instance_norm_layer(w, name, m, channels, affine) tjnn_instance_norm_layer_at(TJ_SITE, w, name, m, channels, affine)
#define tjnn_group_norm_layer(w, name, m, groups, channels) tjnn_group_norm_layer_at(TJ_SITE, w, name, m, groups, channels)
#define tjnn_layer_norm_layer(w, name, m, shape, bias) tjnn_layer_norm_layer_at(TJ_SITE, w, name, m, shape, bias)
#define tjnn_rms_norm_layer(w, name, m, shape) tjnn_rms_norm_layer_at(TJ_SITE, w, name, m, shape)
#define tjnn_norm_apply(m, x, training) tjnn_norm_apply_at(TJ_SITE, m, x, training)

/* Linear layers that are cut into parts, one for each rank of a communicator (Shoeybi and others, "Megatron-LM", 2019). columns: a rank has
 * some of the outputs, [...,in] -> [...,out / ranks]. rows: it has some of the inputs, [...,in / ranks] -> [...,out], which all ranks get.
 * A columns layer, what goes element by element, and a rows layer are one product of two layers with one sum over the ranks forward and one
 * back. The parts begin as those of a tjnn_linear of this name, and their checkpoints are one for each rank. */
typedef struct tjnn_parallel {
	tj_tensor *weight, *bias; /* the bias of rows is whole in each rank */
	tj_comm *comm;
	bool rows;
} tjnn_parallel;
TJ_API void tjnn_columns_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_parallel *m, tj_comm *comm, int64_t in,
                                  int64_t out, bool bias);
TJ_API void tjnn_rows_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_parallel *m, tj_comm *comm, int64_t in, int64_t out,
                               bool bias);
TJ_API tj_tensor *tjnn_parallel_apply_at(const char *site, const tjnn_parallel *m, tj_tensor *x);
#define tjnn_columns_layer(w, name, m, comm, in, out, bias) tjnn_columns_layer_at(TJ_SITE, w, name, m, comm, in, out, bias)
#define tjnn_rows_layer(w, name, m, comm, in, out, bias) tjnn_rows_layer_at(TJ_SITE, w, name, m, comm, in, out, bias)
#define tjnn_parallel_apply(m, x) tjnn_parallel_apply_at(TJ_SITE, m, x)

/* Attention of several heads: [N,L,width] -> the same. As nn.MultiheadAttention with batch_first, and its names; with fewer heads of keys
 * and values (kv_heads) in_proj has fewer rows, q's first. rotary: positions turn pairs of q and k (tjnn_rotary()). */
typedef struct tjnn_attention_layer_opts {
	size_t size;
	int64_t kv_heads;   /* divides heads; 0: as many */
	double rotary;      /* the base, as 10000; 0: none */
	bool no_bias;
} tjnn_attention_layer_opts;
typedef struct tjnn_attention {
	tj_tensor *in_proj_weight;  /* [(heads + 2 kv_heads) * width / heads,width]; begins as Xavier's uniform */
	tj_tensor *in_proj_bias;    /* zeros; NULL: none */
	tjnn_linear out_proj;       /* [width,width]; its bias begins with zeros */
	int64_t width, heads, kv_heads;
	double rotary;
} tjnn_attention;
/* Keys and values of the places so far, for decoding one place after the other. The cells are the caller's: tjnn_kv_cache_close(). */
typedef struct tjnn_kv_cache {
	tj_tensor *k, *v;    /* [N,kv_heads,places,width / heads] */
	tj_tensor *length;   /* i64 []: places that are filled */
} tjnn_kv_cache;
typedef struct tjnn_attend {
	size_t size;
	tj_tensor *mask;      /* as in tj_attention_opts, for scores [N,heads,L,S] */
	tj_tensor *padding;   /* bool [N,S], true: this key is padding */
	bool causal;
	double dropout;       /* of the weights; a training alone sets it */
	tjnn_kv_cache *cache; /* x is what follows: it sees the places in the cache and, causally, itself; then it is in the cache, too. A
	                       * place too many is an error of the run. Neither .mask nor .padding then */
} tjnn_attend;
TJ_API void tjnn_attention_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_attention *m, int64_t width, int64_t heads,
                                    const tjnn_attention_layer_opts *opts);
TJ_API tj_tensor *tjnn_attention_apply_at(const char *site, const tjnn_attention *m, tj_tensor *q, tj_tensor *k, tj_tensor *v,
                                          const tjnn_attend *opts); /* k, v [N,S,width]; for self-attention q, three times */
/* x [...,L,E], E even: elements i and i + E / 2 of place p are turned by p * base^(-2 i / E); the first place is `first`, an integer
 * without axes. Su and others, "RoFormer", 2021, in the order of LLaMA. */
TJ_API tj_tensor *tjnn_rotary_at(const char *site, tj_tensor *x, tj_tensor *first, double base);
TJ_API tj_status tjnn_kv_cache_open_at(const char *site, tj_ctx *c, tjnn_kv_cache *k, const tjnn_attention *m, int64_t batch,
                                       int64_t places);
TJ_API tj_status tjnn_kv_cache_clear_at(const char *site, tjnn_kv_cache *k); /* length 0; not in a body */
TJ_API void tjnn_kv_cache_close_at(const char *site, tjnn_kv_cache *k);
#define tjnn_attention_layer(w, name, m, width, heads, opts) tjnn_attention_layer_at(TJ_SITE, w, name, m, width, heads, opts)
#define tjnn_attention_apply(m, q, k, v, opts) tjnn_attention_apply_at(TJ_SITE, m, q, k, v, opts)
#define tjnn_rotary(x, first, base) tjnn_rotary_at(TJ_SITE, x, first, base)
#define tjnn_kv_cache_open(c, k, m, batch, places) tjnn_kv_cache_open_at(TJ_SITE, c, k, m, batch, places)
#define tjnn_kv_cache_clear(k) tjnn_kv_cache_clear_at(TJ_SITE, k)
#define tjnn_kv_cache_close(k) tjnn_kv_cache_close_at(TJ_SITE, k)

/* Blocks of transformers: attention and two linear layers, each with a norm and a residual. As nn.TransformerEncoderLayer and
 * nn.TransformerDecoderLayer with batch_first, and their names. An encoder block with .causal and .norm_first is one of a GPT. */
typedef struct tjnn_block_opts {
	size_t size;
	int64_t width, heads, hidden; /* hidden: of the linear layers; 0: 4 * width */
	double dropout;
	bool gelu;                    /* else relu */
	bool norm_first;
	bool no_bias;
	double eps;                   /* of the norms; 0: 1e-5 */
	int64_t kv_heads;
	double rotary;                /* both as in tjnn_attention_layer_opts */
} tjnn_block_opts;
typedef struct tjnn_encoder_block {
	tjnn_attention self_attn;
	tjnn_linear linear1, linear2;
	tjnn_norm norm1, norm2;
	tjnn_block_opts opts;
} tjnn_encoder_block;
typedef struct tjnn_decoder_block {
	tjnn_attention self_attn, multihead_attn;
	tjnn_linear linear1, linear2;
	tjnn_norm norm1, norm2, norm3;
	tjnn_block_opts opts;
} tjnn_decoder_block;
TJ_API void tjnn_encoder_block_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_encoder_block *m,
                                        const tjnn_block_opts *opts);
TJ_API void tjnn_decoder_block_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_decoder_block *m,
                                        const tjnn_block_opts *opts);
/* x [N,L,width]; attend may be NULL; its dropout is that of the block. */
TJ_API tj_tensor *tjnn_encoder_block_apply_at(const char *site, const tjnn_encoder_block *m, tj_tensor *x, const tjnn_attend *attend,
                                              bool training);
/* memory [N,S,width]: what the encoder made. attend: for x itself; of_memory: for the memory. */
TJ_API tj_tensor *tjnn_decoder_block_apply_at(const char *site, const tjnn_decoder_block *m, tj_tensor *x, tj_tensor *memory,
                                              const tjnn_attend *attend, const tjnn_attend *of_memory, bool training);
#define tjnn_encoder_block_layer(w, name, m, opts) tjnn_encoder_block_layer_at(TJ_SITE, w, name, m, opts)
#define tjnn_decoder_block_layer(w, name, m, opts) tjnn_decoder_block_layer_at(TJ_SITE, w, name, m, opts)
#define tjnn_encoder_block_apply(m, x, attend, training) tjnn_encoder_block_apply_at(TJ_SITE, m, x, attend, training)
#define tjnn_decoder_block_apply(m, x, memory, attend, of_memory, training) \
	tjnn_decoder_block_apply_at(TJ_SITE, m, x, memory, attend, of_memory, training)

/* Recurrent networks, by tj_scan(): nn.RNN, nn.GRU, nn.LSTM, and their names (weight_ih_l0, ..., bias_hh_l1_reverse). All begin within
 * +-1 / sqrt(hidden). x [N,T,in] -> [N,T,hidden], or twice as wide with .both. */
typedef enum tjnn_cell_kind { TJNN_RNN_TANH, TJNN_RNN_RELU, TJNN_GRU, TJNN_LSTM } tjnn_cell_kind;
enum { TJNN_MOST_CELLS = 16 };
typedef struct tjnn_recurrent_opts {
	size_t size;
	int64_t layers;     /* 0: 1. layers, times two with .both, are at most TJNN_MOST_CELLS */
	bool both;          /* also from the end to the begin */
	bool time_first;    /* x is [T,N,in], and so is the result */
	bool no_bias;
	double dropout;     /* of the results of all layers but the last */
} tjnn_recurrent_opts;
typedef struct tjnn_recurrent {
	tj_cell cell[TJNN_MOST_CELLS]; /* by layer; with .both the one that goes backward follows */
	tjnn_cell_kind kind;
	int64_t in, hidden;
	tjnn_recurrent_opts opts;
} tjnn_recurrent;
typedef struct tjnn_carry { tj_tensor *h, *c; } tjnn_carry; /* [layers,N,hidden], layers times two with .both; c: of LSTM alone */
TJ_API void tjnn_recurrent_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_recurrent *m, tjnn_cell_kind kind, int64_t in,
                                    int64_t hidden, const tjnn_recurrent_opts *opts);
/* *carry: the state before the first step, NULL in it for zeros; then the state after the last one. carry may be NULL. */
TJ_API tj_tensor *tjnn_recurrent_apply_at(const char *site, const tjnn_recurrent *m, tj_tensor *x, tjnn_carry *carry, bool training);
#define tjnn_recurrent_layer(w, name, m, kind, in, hidden, opts) tjnn_recurrent_layer_at(TJ_SITE, w, name, m, kind, in, hidden, opts)
#define tjnn_recurrent_apply(m, x, carry, training) tjnn_recurrent_apply_at(TJ_SITE, m, x, carry, training)

/* A chain of layers as a table; the names are those of nn.Sequential, "0.weight", below the name of the layer.
 *
 *   static const tjnn_spec net[] = {
 *       { .kind = TJNN_CONV2D, .in = 1, .out = 16, .kernel = 3, .padding = 1 }, { .kind = TJNN_BATCH, .out = 16 },
 *       { .kind = TJNN_RELU }, { .kind = TJNN_MAX_POOL2D, .kernel = 2 }, { .kind = TJNN_FLATTEN },
 *       { .kind = TJNN_LINEAR, .in = 16 * 4 * 4, .out = 10 }, { .kind = TJNN_END_SPEC }
 *   };
 */
typedef enum tjnn_spec_kind {
	TJNN_END_SPEC, TJNN_LINEAR, TJNN_EMBEDDING /* in: rows */, TJNN_CONV1D, TJNN_CONV2D, TJNN_CONV_TRANSPOSE2D,
	TJNN_BATCH /* norm of out channels */, TJNN_GROUP /* of out channels, in groups */, TJNN_LAYER /* over the last axis of out */,
	TJNN_RMS /* likewise */, TJNN_DROPOUT /* with probability p */, TJNN_RELU, TJNN_GELU, TJNN_SILU, TJNN_TANH, TJNN_SIGMOID,
	TJNN_FLATTEN /* all but the first axis */, TJNN_MAX_POOL2D, TJNN_AVG_POOL2D, TJNN_MEAN2D /* over the two last axes */,
	TJNN_CALL /* x = call(x, self, training) */,
	TJNN_RESIDUAL /* x + the next n layers of x; their names are "4.0", "4.1", ... */
} tjnn_spec_kind;
typedef struct tjnn_spec {
	tjnn_spec_kind kind;
	int64_t in, out, kernel, stride, padding, groups;
	bool no_bias;
	double p;
	int n;
	tj_tensor *(*call)(tj_tensor *x, void *self, bool training);
	void *self;
} tjnn_spec;
enum { TJNN_MOST_STEPS = 64 };
typedef struct tjnn_sequential {
	const tjnn_spec *spec; /* the caller's, up to TJNN_END_SPEC */
	union { tjnn_linear linear; tjnn_embedding embedding; tjnn_conv conv; tjnn_norm norm; } step[TJNN_MOST_STEPS];
} tjnn_sequential;
TJ_API void tjnn_sequential_layer_at(const char *site, tjnn_walk *w, const char *name, tjnn_sequential *m, const tjnn_spec *spec);
TJ_API tj_tensor *tjnn_sequential_apply_at(const char *site, const tjnn_sequential *m, tj_tensor *x, bool training);
#define tjnn_sequential_layer(w, name, m, spec) tjnn_sequential_layer_at(TJ_SITE, w, name, m, spec)
#define tjnn_sequential_apply(m, x, training) tjnn_sequential_apply_at(TJ_SITE, m, x, training)

/* ---- optimisers ------------------------------------------------------------------------------------- */

/* How a parameter moves. tjnn_adamw(lr) and its like fill one with PyTorch's defaults (2.9; Lion: Optax's); then fields may be changed:
 *   tjnn_rule r = tjnn_sgd(0.1); r.momentum = 0.9; r.nesterov = true;
 * A field that the method does not use says nothing. */
typedef enum tjnn_method {
	TJNN_SGD, TJNN_ADAM, TJNN_ADAMW, TJNN_ADAMAX, TJNN_NADAM, TJNN_RMSPROP, TJNN_ADAGRAD, TJNN_ADADELTA, TJNN_LION, TJNN_MUON
} tjnn_method;
typedef struct tjnn_rule {
	tjnn_method method;
	double lr;                     /* the rate at first; tjnn_optim_set_rate() and schedules change it while the program runs */
	double weight_decay;           /* ADAMW, LION, MUON: the parameter shrinks by lr * weight_decay; else it is added to the gradient */
	double momentum, dampening;    /* SGD, RMSPROP, MUON; dampening: SGD */
	double beta1, beta2;           /* ADAM, ADAMW, ADAMAX, NADAM, LION; of MUON for parameters that are no matrices */
	double alpha;                  /* RMSPROP: smoothing; ADADELTA: rho */
	double eps;
	double momentum_decay;         /* NADAM */
	double lr_decay;               /* ADAGRAD: the rate is lr / (1 + (t - 1) * lr_decay) */
	double initial;                /* ADAGRAD: of the sum of squares */
	bool nesterov;                 /* SGD, MUON */
	bool amsgrad;                  /* ADAM, ADAMW */
	bool centered;                 /* RMSPROP */
	bool decoupled;                /* NADAM: as ADAMW's decay */
	bool maximize;                 /* goes up the gradient */
	int newton_schulz;             /* MUON: iterations, computed in f32 (PyTorch: bf16). Parameters that are no matrices go by ADAMW */
	double reserved[4];            /* 0 */
} tjnn_rule;
TJ_API tjnn_rule tjnn_sgd(double lr);
TJ_API tjnn_rule tjnn_adam(double lr);
TJ_API tjnn_rule tjnn_adamw(double lr);
TJ_API tjnn_rule tjnn_adamax(double lr);
TJ_API tjnn_rule tjnn_nadam(double lr);
TJ_API tjnn_rule tjnn_rmsprop(double lr);
TJ_API tjnn_rule tjnn_adagrad(double lr);
TJ_API tjnn_rule tjnn_adadelta(double lr);
TJ_API tjnn_rule tjnn_lion(double lr);
TJ_API tjnn_rule tjnn_muon(double lr);

/* Parameters that go by a rule of their own: those whose names match pattern, of fnmatch(3), and for which match() is true. Either may be
 * NULL, which every parameter fits; the list of groups ends in one where both are. A group that no parameter fits, frozen ones included, is
 * an error of tjnn_optim_open(). match() is called there, and when a parameter is thawed. */
typedef struct tjnn_group {
	const char *pattern;
	tjnn_rule rule;
	bool (*match)(void *env, const tjnn_slot *slot);
	void *env;
} tjnn_group;
/* For .match: two axes or more, as weights of layers have, which decay where biases and norms do not. */
TJ_API bool tjnn_is_matrix(void *env, const tjnn_slot *slot);
typedef struct tjnn_optim_opts {
	size_t size;
	const tjnn_group *groups;  /* a parameter belongs to the first one that it fits; the list is copied */
	double clip_norm;          /* gradients are scaled so that the norm over all of them is at most this; 0: no limit */
	double clip_value;         /* each element of a gradient is kept within +- this; 0: no limit */
	int64_t accumulate;        /* parameters move at every n-th step, by the mean of n gradients; 0: 1 */
	double ema;                /* a moving average of the parameters: ema * average + (1 - ema) * parameter; 0: none */
	tj_comm *comm;             /* <tjdist.h>: gradients are those of all ranks, their mean. With .accumulate it is taken at each step */
	int64_t bucket_bytes;      /* gradients that are sent at once; 0: 25 MiB, the first 1 MiB */
	bool spread;               /* .comm: each rank has the state of some parameters, moves these, and sends them to the others (ZeRO, 1) */
	const tj_scaler *scaler;   /* of f16 gradients; a step whose gradients are not finite is left out. It must live as long */
} tjnn_optim_opts;
typedef struct tjnn_optim tjnn_optim;
/* Makes the cells of its state for the parameters that are not frozen. opts may be NULL. One optimiser a model. NULL on error. */
TJ_API tjnn_optim *tjnn_optim_open_at(const char *site, tjnn_model *m, tjnn_rule rule, const tjnn_optim_opts *opts);
TJ_API void tjnn_optim_close_at(const char *site, tjnn_optim *o); /* NULL is fine */
/* In the body of a compiled function: the gradient of loss (one element) by all parameters, clipped, accumulated; then they move. All of it
 * is in the plan of the function, and the rates are read when it runs. */
TJ_API tj_status tjnn_optim_step_at(const char *site, tjnn_optim *o, tj_tensor *loss);
/* The same for gradients of your own, one for each of tjnn_params(). */
TJ_API tj_status tjnn_optim_update_at(const char *site, tjnn_optim *o, tj_list grad);
/* The rate of group i of .groups, or of the first rule (-1). Not in a body. */
TJ_API tj_status tjnn_optim_set_rate_at(const char *site, tjnn_optim *o, int64_t group, double lr);
TJ_API double tjnn_optim_rate(const tjnn_optim *o, int64_t group);
TJ_API int64_t tjnn_optim_steps_at(const char *site, tjnn_optim *o); /* how often parameters moved. Waits for the device */
/* Variables that hold its cells and those of the model, for .state of a function that is not called after tjnn_optim_close(). */
TJ_API tj_vars tjnn_optim_vars(const tjnn_optim *o);
/* Puts the averages in place of the parameters, and back: evaluate and save in between. Steps in between are an error. */
TJ_API tj_status tjnn_optim_swap_at(const char *site, tjnn_optim *o);
#define tjnn_optim_open(m, rule, opts) tjnn_optim_open_at(TJ_SITE, m, rule, opts)
#define tjnn_optim_close(o) tjnn_optim_close_at(TJ_SITE, o)
#define tjnn_optim_step(o, loss) tjnn_optim_step_at(TJ_SITE, o, loss)
#define tjnn_optim_update(o, grad) tjnn_optim_update_at(TJ_SITE, o, grad)
#define tjnn_optim_set_rate(o, group, lr) tjnn_optim_set_rate_at(TJ_SITE, o, group, lr)
#define tjnn_optim_steps(o) tjnn_optim_steps_at(TJ_SITE, o)
#define tjnn_optim_swap(o) tjnn_optim_swap_at(TJ_SITE, o)

/* L-BFGS with a line search for the strong Wolfe conditions: few parameters, a loss without noise. The loop is in C, over f64 copies of the
 * parameters; loss is a body with nin arguments and one result, which is compiled with its gradient. A step makes up to .iterations of them
 * and returns the loss at the end, where the parameters are then; NaN on error. The zeros of opts mean PyTorch's defaults. */
typedef struct tjnn_lbfgs_opts {
	size_t size;
	double lr;               /* 1: of the first trial of a search */
	int64_t iterations;      /* 20 */
	int64_t history;         /* 100 */
	double tolerance_grad;   /* 1e-7: of the largest element; then it is a minimum */
	double tolerance_change; /* 1e-9: of the loss and of parameters */
} tjnn_lbfgs_opts;
typedef struct tjnn_lbfgs tjnn_lbfgs;
TJ_API tjnn_lbfgs *tjnn_lbfgs_open_at(const char *site, tjnn_model *m, tj_body *loss, void *self, int nin, const tjnn_lbfgs_opts *opts);
TJ_API void tjnn_lbfgs_close_at(const char *site, tjnn_lbfgs *o);
TJ_API double tjnn_lbfgs_step_at(const char *site, tjnn_lbfgs *o, tj_list in); /* not in a body */
TJ_API int64_t tjnn_lbfgs_evaluations(const tjnn_lbfgs *o);                     /* of loss and gradient, so far */
#define tjnn_lbfgs_open(m, loss, self, nin, opts) tjnn_lbfgs_open_at(TJ_SITE, m, loss, self, nin, opts)
#define tjnn_lbfgs_close(o) tjnn_lbfgs_close_at(TJ_SITE, o)
#define tjnn_lbfgs_step(o, in) tjnn_lbfgs_step_at(TJ_SITE, o, in)

/* ---- schedules -------------------------------------------------------------------------------------- */

/* A rate as a function of the step, from 0 on, and of the rate of the rule: PyTorch's schedulers in closed form. Plain values: nothing is
 * owned, any thread may ask. .warmup steps come before, in which the rate goes linearly from .warmup_from to 1 times the first rate:
 * a cosine over a run of n steps with a warm-up is tjnn_cosine(n - warmup, min). */
typedef enum tjnn_schedule_kind {
	TJNN_RATE_KEEP, TJNN_RATE_FACTOR, TJNN_RATE_STEPS, TJNN_RATE_MILESTONES, TJNN_RATE_EXPONENTIAL, TJNN_RATE_COSINE, TJNN_RATE_RESTARTS,
	TJNN_RATE_LINEAR, TJNN_RATE_POLYNOMIAL, TJNN_RATE_ONE_CYCLE
} tjnn_schedule_kind;
enum { TJNN_MOST_MILESTONES = 16 };
typedef struct tjnn_schedule {
	tjnn_schedule_kind kind;
	int64_t warmup;
	double warmup_from;
	int64_t steps;                            /* the length, or a period */
	double a, b, c;                           /* as the functions below say */
	int64_t milestone[TJNN_MOST_MILESTONES];
	int milestones;
} tjnn_schedule;
TJ_API tjnn_schedule tjnn_keep(void);                                                /* lr */
TJ_API tjnn_schedule tjnn_factor(double factor, int64_t steps);                      /* ConstantLR: lr * factor, then lr */
TJ_API tjnn_schedule tjnn_steps(int64_t every, double gamma);                        /* StepLR: times gamma at every .. steps */
TJ_API tjnn_schedule tjnn_milestones(const int64_t *at, int n, double gamma);        /* MultiStepLR; n at most TJNN_MOST_MILESTONES */
TJ_API tjnn_schedule tjnn_exponential(double gamma);                                 /* ExponentialLR */
TJ_API tjnn_schedule tjnn_cosine(int64_t steps, double min);                         /* CosineAnnealingLR */
TJ_API tjnn_schedule tjnn_restarts(int64_t first, int64_t times, double min); /* CosineAnnealingWarmRestarts: first, first * times .. */
TJ_API tjnn_schedule tjnn_linear_from(double from, double to, int64_t steps);        /* LinearLR: factors of lr */
TJ_API tjnn_schedule tjnn_polynomial(int64_t steps, double power);                   /* PolynomialLR */
/* OneCycleLR with max = lr: from lr / 25 to lr in 30 % of the steps, then to lr / 250000, along cosines. .a, .b, .c: 25, 1e4, 0.3 */
TJ_API tjnn_schedule tjnn_one_cycle(int64_t steps);
TJ_API double tjnn_schedule_at(const tjnn_schedule *s, double lr, int64_t step);
/* Sets the rates of all groups to those of this step. Not in a body. */
TJ_API tj_status tjnn_schedule_set_at(const char *site, const tjnn_schedule *s, tjnn_optim *o, int64_t step);
#define tjnn_schedule_set(s, o, step) tjnn_schedule_set_at(TJ_SITE, s, o, step)

/* ReduceLROnPlateau: the rates are multiplied by factor when the metric has not become better for more than `patience` looks. */
typedef struct tjnn_plateau {
	double factor, threshold, min;      /* 0: 0.1, 1e-4, 0 */
	int64_t patience, cooldown;         /* 0: 10, 0 */
	bool larger_is_better, absolute;    /* absolute: better by threshold, not by the part threshold */
	double best;                        /* state, 0 at first */
	int64_t bad, cooling, looks;
} tjnn_plateau;
TJ_API tj_status tjnn_plateau_look_at(const char *site, tjnn_plateau *p, tjnn_optim *o, double metric); /* not in a body */
#define tjnn_plateau_look(p, o, metric) tjnn_plateau_look_at(TJ_SITE, p, o, metric)

/* ---- evaluation ------------------------------------------------------------------------------------- */

typedef struct tjnn_evaluate_opts {
	size_t size;
	tjnn_optim *averages; /* its averages are in place of the parameters meanwhile; NULL: the parameters as they are */
	tj_comm *comm;        /* all ranks call it, each with a loader of its own items, and get the means over all. NULL: one process */
} tjnn_evaluate_opts;
/* means[0 .. n - 1]: the means over all items of a loader, from its begin on, of the n metrics (1 to 64) that f gives for a batch as one
 * tensor of n elements, as tj_stack(TJ_LIST(loss, accuracy), 0): each is the mean over its batch, and counts by the number of its items. f
 * gets all fields of the batch, and is compiled from a body of its own, whose layers do not train. The next epoch of the loader is 0 or 1.
 * Works with the current context. Zeros after an error. Not in a body. */
TJ_API tj_status tjnn_evaluate_at(const char *site, tj_fn *f, tj_loader *l, double *means, int n, const tjnn_evaluate_opts *opts);
#define tjnn_evaluate(f, l, means, n, opts) tjnn_evaluate_at(TJ_SITE, f, l, means, n, opts)

/* ---- language models -------------------------------------------------------------------------------- */

/* How one of many is drawn by its logit: as the warpers of transformers, in their order: temperature, top_k, top_p. */
typedef struct tjnn_sample_opts {
	size_t size;
	bool greedy;        /* the largest logit, the first of equal ones */
	double temperature; /* logits are divided by it; 0: 1 */
	int64_t top_k;      /* only the k largest; 0: all */
	double top_p;       /* only the most probable, until the sum of those before is p or more (nucleus); 0 and 1: all */
} tjnn_sample_opts;
/* Logits [...,V] -> ids [...], i64. Draws a random number of the context, unless greedy. In a body, or outside. */
TJ_API tj_tensor *tjnn_sample_at(const char *site, tj_tensor *logits, const tjnn_sample_opts *opts);
#define tjnn_sample(logits, opts) tjnn_sample_at(TJ_SITE, logits, opts)

/* A text that goes on. The body is the model: in[0] ids i64 [N,L], out[0] logits [N,L,V], causal. It gets, with .caches, the prompt, and
 * then each id alone, and has the earlier ones in these caches by .cache of tjnn_attend; else the last .context ids, padded at the end. */
typedef struct tjnn_generator_opts {
	size_t size;
	tjnn_sample_opts sample;
	tjnn_kv_cache *const *caches; /* NULL at its end: they are cleared at each begin; the list lives as long as the generator */
	int64_t context;              /* places that the model has; without .caches */
	bool stops;
	int64_t stop;                 /* .stops: a row that has drawn this id is filled with it; when all have, that is the end */
	bool (*each)(void *env, const int64_t *ids, int64_t n); /* the n ids of each place, as they are drawn; false: the end. NULL: none */
	void *env;
} tjnn_generator_opts;
typedef struct tjnn_generator tjnn_generator;
TJ_API tjnn_generator *tjnn_generator_open_at(const char *site, tj_ctx *c, tj_body *body, void *self, const tjnn_generator_opts *opts);
/* prompt: integers [N,L]. Returns i64 [N,L + more], or fewer after a stop. Seeds the context: one seed, one text. Not in a body. */
TJ_API tj_tensor *tjnn_generate_at(const char *site, tjnn_generator *g, tj_tensor *prompt, int64_t more, uint64_t seed);
TJ_API void tjnn_generator_close_at(const char *site, tjnn_generator *g); /* NULL is fine */
#define tjnn_generator_open(c, body, self, opts) tjnn_generator_open_at(TJ_SITE, c, body, self, opts)
#define tjnn_generate(g, prompt, more, seed) tjnn_generate_at(TJ_SITE, g, prompt, more, seed)
#define tjnn_generator_close(g) tjnn_generator_close_at(TJ_SITE, g)

/* ---- checkpoints ------------------------------------------------------------------------------------ */

/* A number or a cell of the program's own that a checkpoint has: one of the three pointers is set. The list ends in one without name. */
typedef struct tjnn_value { const char *name; int64_t *i; double *f; tj_tensor **cell; } tjnn_value;

/* One safetensors file: the model's slots under their names, as PyTorch reads and writes them (load_state_dict(), strict=False if there is
 * more); the optimiser's cells as "optim.KIND.NAME"; values as "state.NAME". Shared parameters are there once. The old file stays until the
 * new one is on the disk. optim and values may be NULL. With a communicator in the optimiser all ranks call it, and rank 0 writes. Not in a
 * body. */
TJ_API tj_status tjnn_save_at(const char *site, const tjnn_model *m, const tjnn_optim *o, const tjnn_value *values, const char *path);
typedef struct tjnn_load_opts {
	size_t size;
	bool partial;      /* what is missing or does not fit stays as it is */
	bool cast;         /* another float dtype is converted */
	void (*report)(void *env, const char *name, const char *what); /* "missing", "unexpected", "is f32[3,4], the file has f32[4,4]" */
	void *env;
} tjnn_load_opts;
/* Everything fits, and is then written; or nothing is, and the error lists what does not: missing, unexpected, of another shape or dtype.
 * What the file has beside a model (optim.*, state.*) is not unexpected when optim or values are NULL. */
TJ_API tj_status tjnn_load_at(const char *site, tjnn_model *m, tjnn_optim *o, const tjnn_value *values, const char *path,
                              const tjnn_load_opts *opts);
#define tjnn_save(m, o, values, path) tjnn_save_at(TJ_SITE, m, o, values, path)
#define tjnn_load(m, o, values, path, opts) tjnn_load_at(TJ_SITE, m, o, values, path, opts)

/* ---- runs ------------------------------------------------------------------------------------------- */

/* What a training loop needs beside the step itself:
 *
 *   tjnn_run *r = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = 1000, .model = model, .optim = optim, .loader = loader,
 *                                          .folder = "run"));
 *   while (tjnn_run_next(r, batch, 2)) {       // goes on where the last checkpoint in the folder was made; a batch of the loader
 *       tjnn_run_log(r, "loss", tj_item(tj_call1(f, TJ_LIST(batch[0], batch[1]))));
 *       if (tjnn_run_every(r, 100)) tjnn_run_score(r, "accuracy", evaluate(...)); // keeps the best; stops when it is long ago
 *   }
 *   if (tjnn_run_close(r) != TJ_OK) tj_perror(c, stderr);
 *
 * A run that was killed at any moment and is started again has the bits of one that never was, if the steps depend on nothing but the
 * model, the optimiser, the batches, .values and tjit's random numbers: before each step these begin anew, from .seed, the number of the
 * step and the rank. Each step has a scope of its own, which the next tjnn_run_next() pops. What the options name lives until
 * tjnn_run_close(). */
typedef struct tjnn_run_opts {
	size_t size;
	int64_t steps;                 /* in all, those before a restart included */
	tjnn_model *model;
	tjnn_optim *optim;             /* NULL: the program moves the parameters */
	tj_loader *loader;             /* of the batches; NULL: tjnn_run_next() is asked for none */
	const tjnn_schedule *schedule; /* of the rates, by the number of moves; NULL: they stay */
	const tjnn_value *values;      /* of the program's own, for checkpoints */
	uint64_t seed;
	const char *folder;            /* for step-N.safetensors, best.safetensors, metrics.csv; made if it is not there; one run at a time.
	                                * NULL: nothing is kept */
	int64_t save_every;            /* steps between checkpoints; 0: a tenth of them, at least 1 */
	int keep;                      /* the last checkpoints that are kept; 0: 3 */
	bool restart;                  /* do not go on from a checkpoint */
	bool tensorboard;              /* events.out.tfevents.* in the folder, too */
	bool smaller_is_better;        /* of the score */
	int64_t patience;              /* scores that may be no better than the best, before the run stops; 0: any number */
	FILE *progress;                /* a line that is painted again on a terminal, else a line now and then. NULL: stderr */
	bool quiet;                    /* no progress */
} tjnn_run_opts;
typedef struct tjnn_run tjnn_run;
/* NULL on error. Then tjnn_run_next() gives false, and tjnn_run_close() the error. */
TJ_API tjnn_run *tjnn_run_open_at(const char *site, tj_ctx *c, const tjnn_run_opts *opts);
/* Begins a step. false: all steps are made, the score has not become better for .patience, Ctrl-C was pressed (a second time ends the
 * process), tjnn_run_stop(), or there is an error. batch and room are those of tj_loader_next(); NULL: the loader is not asked. */
TJ_API bool tjnn_run_next_at(const char *site, tjnn_run *r, tj_tensor **batch, int room);
TJ_API int64_t tjnn_run_step(const tjnn_run *r);                      /* from 0 */
TJ_API bool tjnn_run_every(const tjnn_run *r, int64_t n);             /* this step is the n-th, 2n-th, ..., or the last one */
TJ_API void tjnn_run_log_at(const char *site, tjnn_run *r, const char *name, double value);   /* of this step: progress, CSV, TensorBoard */
/* The same; the best one so far is kept in best.safetensors: the model alone (its averages, if the optimiser has them). True: it is. */
TJ_API bool tjnn_run_score_at(const char *site, tjnn_run *r, const char *name, double value);
TJ_API double tjnn_run_best(const tjnn_run *r);                       /* NaN: there was no score */
TJ_API void tjnn_run_stop(tjnn_run *r);                               /* after this step */
TJ_API bool tjnn_run_interrupted(const tjnn_run *r);                  /* by Ctrl-C */
/* Saves what was not saved, unless there was an error, and frees r. The first error of the run, or TJ_OK. */
TJ_API tj_status tjnn_run_close_at(const char *site, tjnn_run *r);
#define tjnn_run_open(c, opts) tjnn_run_open_at(TJ_SITE, c, opts)
#define tjnn_run_next(r, batch, room) tjnn_run_next_at(TJ_SITE, r, batch, room)
#define tjnn_run_log(r, name, value) tjnn_run_log_at(TJ_SITE, r, name, value)
#define tjnn_run_score(r, name, value) tjnn_run_score_at(TJ_SITE, r, name, value)
#define tjnn_run_close(r) tjnn_run_close_at(TJ_SITE, r)

#ifdef __cplusplus
}
#endif
#endif
