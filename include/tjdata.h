/* SPDX-License-Identifier: MIT */
/* tjdata.h - data for training: data sets, a loader that fills batches ahead in threads, readers, a tokeniser. Part of libtjkit.
 *
 *   tj_tensor *x = tj_idx_load(c, "train-images-idx3-ubyte.gz"), *y = tj_idx_load(c, "train-labels-idx1-ubyte.gz");
 *   tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(x, y));
 *   tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 64, .shuffle = true, .workers = 2, .epochs = 3));
 *   for (int epoch = 0; epoch < 3; epoch++) {
 *           tj_tensor *batch[2];                         // u8 [64,28,28], u8 [64]
 *           for (;;) {
 *                   tj_scope *s = tj_push(c);
 *                   bool more = tj_loader_next(l, batch, 2); // false: the end of the epoch, or an error
 *                   if (more) step(batch[0], batch[1]);
 *                   tj_pop(s);                           // gives the memory of the batch back to the loader
 *                   if (!more) break;
 *           }
 *   }
 *   tj_loader_close(l);
 *   tj_dataset_free(d);
 *   if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
 *
 * A data set of your own is two functions. It says how many items it has, and fills one: it asks for the memory of each field.
 *
 *   static int64_t length(void *self) { return ((struct waves *)self)->n; }
 *   static bool item(void *self, int64_t index, tj_sample *s)
 *   {
 *           float *x = tj_sample_put(s, 0, TJ_F32, TJ_SHAPE(512));
 *           int64_t *label = tj_sample_put(s, 1, TJ_I64, TJ_0D);
 *           if (!x || !label) return false;
 *           if (!read_wave(self, index, x, label)) return tj_sample_fail(s, "wave %lld is damaged", (long long)index);
 *           return true;
 *   }
 *   const tj_dataset waves = { .self = &w, .length = length, .item = item };
 *   tj_loader *l = tj_loader_open(c, &waves, TJ_OPTS(tj_loader_opts, .batch = 32, .pad = true));
 *
 * Ownership.  Tensors are in the innermost open scope of c, on the CPU. A data set, its data and its options' lists outlive the loader;
 *   batches outlive it on their own. Texts that a handle gives live as long as the handle.
 * Errors.  Those of <tj.h>: the current context keeps the first one; the function returns poison, NULL, false or a status. All handles
 *   may be NULL where they are closed. Readers take nothing from a file on trust, see <tjfiles.h>.
 * Threads.  A loader and a reader serve one thread at a time. Items are filled in the loader's threads, several at once: item() must not
 *   change what it shares, and does not call tjit, but functions tj_sample_*(), tj_bpe_ids() and tj_bpe_text(). A loader must not be used
 *   in the child of a fork(). */
#ifndef TJ_DATA_H
#define TJ_DATA_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets ------------------------------------------------------------------------------------ */

enum { TJ_SAMPLE_FIELDS = 8 };
typedef struct tj_sample tj_sample; /* one item that is being filled */

typedef struct tj_dataset {
	size_t size;                                               /* of this struct, or 0 */
	void *self;                                                /* the first argument of the functions */
	int64_t (*length)(void *self);                             /* asked once, when a loader opens */
	bool (*item)(void *self, int64_t index, tj_sample *s);     /* false: an error */
	void (*free)(void *self);                                  /* by tj_dataset_free(); NULL: nothing is to do */
} tj_dataset;

/* Memory for a field of the item, row-major; the caller fills it, all of it. Fields are numbered from 0, and all items have the same ones.
 * The memory is that of the batch where that is possible. NULL: an error, which the sample keeps. */
TJ_API void *tj_sample_put(tj_sample *s, int field, tj_dtype dtype, tj_dims shape);
/* The item has an error; the message says which. Returns false, for item() to return. */
TJ_API bool tj_sample_fail(tj_sample *s, const char *fmt, ...) TJ_PRINTF(2, 3);
/* Random bits for augmentation: the sequence depends only on the loader's seed, the epoch and the index of the item. */
TJ_API uint64_t tj_sample_random(tj_sample *s);
/* A field that was put: in the function of tj_dataset_map(). NULL: there is none. shape lives as long as the sample. */
TJ_API void *tj_sample_get(const tj_sample *s, int field, tj_dtype *dtype, tj_dims *shape);

/* Ready data sets. NULL after an error; tj_dataset_free() frees them, and no loader uses them any more. */
TJ_API void tj_dataset_free(tj_dataset *d);
/* Item i has the i-th element along axis 0 of each of up to 8 tensors, which it keeps. */
TJ_API tj_dataset *tj_dataset_arrays_at(const char *site, tj_ctx *c, tj_list tensors);
/* Pieces of a text of token ids, a tensor [n] of integers. Item i has two fields, i64 [length]: the ids from i * stride on, and those one
 * further, which are to be predicted. stride 0: length. */
TJ_API tj_dataset *tj_dataset_windows_at(const char *site, tj_ctx *c, tj_tensor *ids, int64_t length, int64_t stride);
/* Items first, first + step, ..., so many as count, of another data set, which outlives it. count -1: up to its end. */
TJ_API tj_dataset *tj_dataset_part_at(const char *site, const tj_dataset *of, int64_t first, int64_t count, int64_t step);
/* Items index[0 .. count - 1], PyTorch's Subset. The list is copied; an index may come several times. */
TJ_API tj_dataset *tj_dataset_subset_at(const char *site, const tj_dataset *of, const int64_t *index, int64_t count);
/* PyTorch's random_split: n data sets in out[], 1 to 64, which have each item once, drawn by seed. Either fraction[n] is given, with the
 * sum 1 (rounded down; what is left goes to the first ones, one to each), or length[n], with the sum of all items; the other one is NULL.
 * After an error all of out[] is NULL. */
TJ_API tj_status tj_dataset_split_at(const char *site, const tj_dataset *of, int n, const double *fraction, const int64_t *length,
                                     uint64_t seed, tj_dataset **out);
/* Items of another data set, each changed by a function: it reads the fields of `in` and puts those of `out`. */
typedef bool tj_sample_map(void *env, const tj_sample *in, tj_sample *out);
TJ_API tj_dataset *tj_dataset_map_at(const char *site, const tj_dataset *of, tj_sample_map *map, void *env);
#define tj_dataset_arrays(c, tensors) tj_dataset_arrays_at(TJ_SITE, c, tensors)
#define tj_dataset_windows(c, ids, length, stride) tj_dataset_windows_at(TJ_SITE, c, ids, length, stride)
#define tj_dataset_part(of, first, count, step) tj_dataset_part_at(TJ_SITE, of, first, count, step)
#define tj_dataset_subset(of, index, count) tj_dataset_subset_at(TJ_SITE, of, index, count)
#define tj_dataset_split(of, n, fraction, length, seed, out) tj_dataset_split_at(TJ_SITE, of, n, fraction, length, seed, out)
#define tj_dataset_map(of, map, env) tj_dataset_map_at(TJ_SITE, of, map, env)

/* ---- the loader ----------------------------------------------------------------------------------- */

typedef struct tj_loader_opts {
	size_t size;
	int64_t batch;         /* items of a batch; 0: 1. The last one of an epoch may have fewer */
	bool shuffle;          /* else the order of the data set */
	uint64_t seed;         /* of the order, and of tj_sample_random() */
	int workers;           /* threads that fill batches; 0: tj_loader_next() fills them */
	int prefetch;          /* batches that are filled before they are asked for; 0: twice the workers */
	bool drop_last;        /* an epoch has only full batches, and each rank has the same number of them */
	bool pad;              /* items whose fields differ in size are padded to the largest of the batch, on each axis at its end */
	double pad_values[TJ_SAMPLE_FIELDS]; /* what is put there */
	uint32_t pad_fields;   /* 1 << field for each field that is padded; 0: all */
	tj_dims buckets;       /* rising sizes, or NULL: axis 0 of a padded field gets the smallest of them that holds the batch's largest item,
	                        * so that a compiled function sees few sizes. An item above the last of them is an error */
	int rank, ranks;       /* this process is rank 0 .. ranks - 1; ranks 0: 1. All ranks cut one order into the same batches of
	                        * .batch items, and rank r has the batches r, r + ranks, ... */
	int64_t epochs;        /* 0: without end */
} tj_loader_opts;

typedef struct tj_loader tj_loader;
TJ_API tj_loader *tj_loader_open_at(const char *site, tj_ctx *c, const tj_dataset *d, const tj_loader_opts *opts);
/* The next batch: batch[f] is field f of its items, stacked along a new axis 0. batch has room for `room` tensors: items with more fields
 * are an error, and where they have fewer, NULL follows. false: the epoch is over, and the next call begins the next one; all epochs are
 * over; or an error, which names the item. After an error it stays false until tj_loader_seek(). Batches come in one order, whatever the
 * number of workers. */
TJ_API bool tj_loader_next_at(const char *site, tj_loader *l, tj_tensor **batch, int room);
TJ_API int64_t tj_loader_batches(const tj_loader *l); /* of an epoch, for this rank */
/* The place of the next batch, and the way back there, at once: the order is a function of seed, epoch and index. epoch and batch count
 * from 0; batch may be tj_loader_batches(), the end. A loader with the same options over the same data continues where another stopped. */
TJ_API void tj_loader_tell(const tj_loader *l, int64_t *epoch, int64_t *batch);
TJ_API tj_status tj_loader_seek_at(const char *site, tj_loader *l, int64_t epoch, int64_t batch);
TJ_API void tj_loader_close(tj_loader *l); /* at any time; waits for the items that are being filled */
#define tj_loader_open(c, d, opts) tj_loader_open_at(TJ_SITE, c, d, opts)
#define tj_loader_next(l, batch, room) tj_loader_next_at(TJ_SITE, l, batch, room)
#define tj_loader_seek(l, epoch, batch) tj_loader_seek_at(TJ_SITE, l, epoch, batch)
/* The item at a place of an epoch's order of n items: the order of a loader with .shuffle. */
TJ_API int64_t tj_shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t place);

/* ---- readers -------------------------------------------------------------------------------------- */

/* A file of the MNIST family, raw or gz: u8, i8, i16, i32, f32 or f64, with the shape of the file. */
TJ_API tj_tensor *tj_idx_load_at(const char *site, tj_ctx *c, const char *path);
/* All bytes of a file, u8 [n], over a map of it. */
TJ_API tj_tensor *tj_text_map_at(const char *site, tj_ctx *c, const char *path);
#define tj_idx_load(c, path) tj_idx_load_at(TJ_SITE, c, path)
#define tj_text_map(c, path) tj_text_map_at(TJ_SITE, c, path)

/* CSV (RFC 4180): records end in CRLF or LF; a cell may stand in quotes, "" being a quote in it. All records have the same number of cells.
 * A byte order mark is skipped. */
typedef struct tj_csv tj_csv;
typedef struct tj_csv_opts {
	size_t size;
	char separator;  /* 0: ',' */
	bool no_header;  /* the first record is data, too; else it has the names of the columns */
	bool fill;       /* an empty cell, and a NaN, of a column of numbers becomes .empty; else it is an error that names line and column */
	double empty;
} tj_csv_opts;
TJ_API tj_csv *tj_csv_open_at(const char *site, tj_ctx *c, const char *path, const tj_csv_opts *opts);
TJ_API int64_t tj_csv_rows(const tj_csv *t);
TJ_API int64_t tj_csv_columns(const tj_csv *t);
TJ_API const char *tj_csv_name(const tj_csv *t, int64_t column);              /* NULL: there is none */
TJ_API int64_t tj_csv_find(const tj_csv *t, const char *name);                /* the column of that name; -1: none has it */
TJ_API const char *tj_csv_cell(const tj_csv *t, int64_t row, int64_t column); /* without its quotes; NULL: there is none */
/* The numbers of a column, [rows], as f32, f64 or i64, with a point whatever the locale. i64 takes whole numbers only. */
TJ_API tj_tensor *tj_csv_numbers_at(const char *site, const tj_csv *t, int64_t column, tj_dtype dtype);
/* The numbers, i64 [rows], of the texts of a column: its different texts are sorted by their bytes and counted from 0. */
TJ_API tj_tensor *tj_csv_categories_at(const char *site, tj_csv *t, int64_t column);
TJ_API const char *tj_csv_category(const tj_csv *t, int64_t column, int64_t i); /* its text; NULL: there is none, or none was asked for */
TJ_API void tj_csv_close(tj_csv *t);
#define tj_csv_open(c, path, opts) tj_csv_open_at(TJ_SITE, c, path, opts)
#define tj_csv_numbers(t, column, dtype) tj_csv_numbers_at(TJ_SITE, t, column, dtype)
#define tj_csv_categories(t, column) tj_csv_categories_at(TJ_SITE, t, column)

/* A folder of PNG and JPEG files (.png, .jpg, .jpeg). Each folder in it is a class: its files are the items of the class, both sorted by
 * name. Without any, the files of the folder itself are of class 0. Item: u8 [H,W,channels], and the class, i64 []. */
typedef struct tj_images tj_images;
TJ_API tj_images *tj_images_open_at(const char *site, tj_ctx *c, const char *folder, int channels); /* channels 0: 3 */
TJ_API const tj_dataset *tj_images_dataset(const tj_images *m);
TJ_API const char *tj_images_class(const tj_images *m, int64_t i);  /* its name; NULL: there is none */
TJ_API const char *tj_images_path(const tj_images *m, int64_t i);   /* the file of item i; NULL: there is none */
TJ_API void tj_images_close(tj_images *m);
#define tj_images_open(c, folder, channels) tj_images_open_at(TJ_SITE, c, folder, channels)

/* ---- the tokeniser: byte pairs, as GPT-2 has them ------------------------------------------------- */

/* A text is cut into words, then bytes of a word are merged in the order of training. Words are those of GPT-2's pattern: 's 't 're 've 'm
 * 'll 'd, letters, digits, other characters (each with a blank before them), and blanks, in all scripts. libpcre2-8.so.0 (Debian:
 * libpcre2-8-0) says what they are; without it a text beyond ASCII is an error. Every text is decoded to what it was, also one that is no
 * UTF-8. Ids are i32. */
typedef struct tj_bpe tj_bpe;
/* Of a text, up to `vocabulary` tokens (at least 256, the bytes; fewer when no pair comes twice). The same text gives the same tokens. */
TJ_API tj_bpe *tj_bpe_train_at(const char *site, tj_ctx *c, const char *text, size_t bytes, int64_t vocabulary);
/* GPT-2's files: {"token": id, ...}, and a line "left right" for each merge. */
TJ_API tj_bpe *tj_bpe_open_at(const char *site, tj_ctx *c, const char *encoder_json, const char *vocab_bpe);
TJ_API tj_status tj_bpe_save_at(const char *site, const tj_bpe *b, const char *encoder_json, const char *vocab_bpe);
TJ_API int64_t tj_bpe_count(const tj_bpe *b);
TJ_API const char *tj_bpe_token(const tj_bpe *b, int64_t id, size_t *bytes); /* its bytes, not a string; NULL: there is none */
TJ_API tj_tensor *tj_bpe_encode_at(const char *site, const tj_bpe *b, const char *text, size_t bytes); /* i32 [n] */
/* A string with a 0 behind its bytes, which free() frees; NULL: an id has no token, or out of memory. bytes may be NULL. */
TJ_API char *tj_bpe_decode_at(const char *site, const tj_bpe *b, tj_tensor *ids, size_t *bytes);
/* The same without tjit, for items of data sets. Both return how many ids or bytes there are, and write those that there is room for; -1:
 * an id has no token, or out of memory. */
TJ_API int64_t tj_bpe_ids(const tj_bpe *b, const char *text, size_t bytes, int32_t *ids, int64_t room);
TJ_API int64_t tj_bpe_text(const tj_bpe *b, const int32_t *ids, int64_t n, char *text, int64_t room);
TJ_API void tj_bpe_close(tj_bpe *b);
#define tj_bpe_train(c, text, bytes, vocabulary) tj_bpe_train_at(TJ_SITE, c, text, bytes, vocabulary)
#define tj_bpe_open(c, encoder_json, vocab_bpe) tj_bpe_open_at(TJ_SITE, c, encoder_json, vocab_bpe)
#define tj_bpe_save(b, encoder_json, vocab_bpe) tj_bpe_save_at(TJ_SITE, b, encoder_json, vocab_bpe)
#define tj_bpe_encode(b, text, bytes) tj_bpe_encode_at(TJ_SITE, b, text, bytes)
#define tj_bpe_decode(b, ids, bytes) tj_bpe_decode_at(TJ_SITE, b, ids, bytes)

/* ---- tokenizer.json ------------------------------------------------------------------------------- */

/* A tokeniser as the package tokenizers saves it, with that package's ids: models BPE (GPT-2, Llama, with or without byte_fallback) and
 * WordPiece (BERT); normalisers BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace; pre-tokenizers
 * ByteLevel, Split, Whitespace, WhitespaceSplit, BertPreTokenizer, Metaspace, Punctuation, Digits; the decoders for these;
 * TemplateProcessing, BertProcessing and RobertaProcessing; added tokens. What is not known is refused by name, and so is a token with a
 * zero in it. Truncation and padding are not done. libpcre2-8.so.0 is opened for patterns, libutf8proc for normalisers (Debian:
 * libpcre2-8-0, libutf8proc2 or 3). Texts are UTF-8; a byte that belongs to no character counts as U+FFFD. A handle may be used by several
 * threads at once. */
typedef struct tj_tokenizer tj_tokenizer;
TJ_API tj_tokenizer *tj_tokenizer_open_at(const char *site, tj_ctx *c, const char *path);
TJ_API int64_t tj_tokenizer_count(const tj_tokenizer *t);                           /* the largest id + 1 */
TJ_API const char *tj_tokenizer_token(const tj_tokenizer *t, int64_t id);           /* as in the file; NULL: there is none */
TJ_API int64_t tj_tokenizer_id(const tj_tokenizer *t, const char *token);           /* -1: there is none */
/* i32 [n]. special: with what the post-processor puts around a text, as [CLS] and [SEP]. Added tokens in the text are found in any case. */
TJ_API tj_tensor *tj_tokenizer_encode_at(const char *site, const tj_tokenizer *t, const char *text, size_t bytes, bool special);
/* A string with a 0 behind its bytes, which free() frees; NULL: an id has no token, or out of memory. special: with special tokens. Bytes
 * that are no UTF-8, as of a part of a character, stay as they are. bytes may be NULL. */
TJ_API char *tj_tokenizer_decode_at(const char *site, const tj_tokenizer *t, tj_tensor *ids, bool special, size_t *bytes);
/* The same without tjit, for items of data sets. Returns how many ids there are, and writes those that there is room for; -1: an error. */
TJ_API int64_t tj_tokenizer_ids(const tj_tokenizer *t, const char *text, size_t bytes, bool special, int32_t *ids, int64_t room);
TJ_API void tj_tokenizer_close(tj_tokenizer *t);
#define tj_tokenizer_open(c, path) tj_tokenizer_open_at(TJ_SITE, c, path)
#define tj_tokenizer_encode(t, text, bytes, special) tj_tokenizer_encode_at(TJ_SITE, t, text, bytes, special)
#define tj_tokenizer_decode(t, ids, special, bytes) tj_tokenizer_decode_at(TJ_SITE, t, ids, special, bytes)

#ifdef __cplusplus
}
#endif
#endif
