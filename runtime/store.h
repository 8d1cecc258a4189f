/* SPDX-License-Identifier: MIT */
/* store: the disk cache. An entry is an immutable file with a key and a body, opened by a name that is made of the key. Folders have 256
 * subfolders, each with its share of the size that all may have. What a file says is checked whole before it is used; every oddity is a
 * miss. Knows nothing of what is stored.
 *
 *   folder/ab/cdef0123456789abcdef0123456789abcd.code       32 digits of XXH3 (128 bits) of kind, build and key
 *     magic  format  kind  build  bytes of key  bytes of body  checksum  |  key  |  body */
#ifndef TJ_RUNTIME_STORE_H
#define TJ_RUNTIME_STORE_H

#include "runtime/log.h"

/* Why an entry was not used. */
#define RT_MISS_MAP(X)                                                                       \
	X(ABSENT,   "absent",   "there is no such entry")                                        \
	X(OFF,      "off",      "the cache is switched off, or its folder may not be used")      \
	X(DENIED,   "denied",   "the file cannot be read, is no plain file, or is another user's") \
	X(LENGTH,   "length",   "the file is shorter or longer than it says")                    \
	X(MAGIC,    "magic",    "it is no entry of a cache")                                     \
	X(FORMAT,   "format",   "an entry of another version of the format")                     \
	X(BUILD,    "build",    "an entry of another build of the library")                      \
	X(CHECKSUM, "checksum", "the file is damaged")                                           \
	X(KEY,      "key",      "an entry of another key")                                       \
	X(CONTENT,  "content",  "the body is not what its kind needs")                           \
	X(MEMORY,   "memory",   "out of memory")
typedef enum rt_miss {
#define X(NAME, text, doc) RT_MISS_##NAME,
	RT_MISS_MAP(X)
#undef X
	RT_MISSES
} rt_miss;
/* Kinds of entries. */
#define RT_STORE_KINDS_MAP(X) X(CODE, "code") X(CUBIN, "cubin")
typedef enum rt_store_kind {
#define X(NAME, text) RT_STORE_##NAME,
	RT_STORE_KINDS_MAP(X)
#undef X
	RT_STORE_KINDS
} rt_store_kind;

/* ---- storenames.c ---- */
const char *rt_miss_name(rt_miss m);
const char *rt_miss_text(rt_miss m);
const char *rt_store_kind_name(int kind); /* NULL: there is no such kind */

typedef struct rt_span { const void *at; size_t bytes; } rt_span;
typedef struct rt_store rt_store;
typedef struct rt_store_counts {
	uint64_t hits, stored, failed; /* failed: entries that could not be written */
	uint64_t miss[RT_MISSES];
	uint64_t read_bytes, written_bytes;
} rt_store_counts;

/* ---- storedir.c: which folder, and whether it may be used ---- */
/* told: "off", "0", a folder, "ro:folder"; NULL or "": TJ_CACHE, else $XDG_CACHE_HOME/tjit or $HOME/.cache/tjit. Nothing is opened yet.
 * log must live as long as the store. NULL: out of memory. */
rt_store *rt_store_new(const char *told, const rt_log_to *log);
void rt_store_free(rt_store *s);
const char *rt_store_folder(rt_store *s);  /* looks for it at the first call; NULL: the cache is off, see rt_store_why() */
const char *rt_store_why(rt_store *s);     /* why it is off, or why nothing is written; NULL: it is used */
bool rt_store_writes(rt_store *s);
bool rt_store_used(rt_store *s);           /* it has a folder, or is in memory */

/* ---- storeformat.c ---- */
enum { RT_STORE_LARGEST = 64 << 20 /* bytes of an entry */, RT_BUILD_BYTES = 32 };
/* Checks the bytes of an entry; sets kind, key and body unless it is a miss. RT_MISS_ABSENT: it is whole. */
rt_miss rt_store_check(const void *bytes, size_t n, int *kind, rt_span *key, rt_span *body);
/* The bytes of an entry, to be freed by rt_free(); NULL: out of memory, or too large. */
unsigned char *rt_store_entry_of(rt_store_kind kind, rt_span key, rt_span body, size_t *n);

/* The checksum of a file of n bytes, whose head ends with its room: counted as 0 there. The head has at most RT_LARGEST_HEAD bytes. */
enum { RT_LARGEST_HEAD = 128 };
void rt_checksum(const void *bytes, size_t n, size_t head, uint64_t sum[2]);

/* ---- storememory.c: entries of a file of another kind, or for one ---- */
/* An empty store without a folder. next: where it looks for what it has not, and puts new entries; NULL: nowhere. keeps: it takes new
 * entries itself. NULL: out of memory. */
rt_store *rt_store_in_memory(rt_store *next, bool keeps, const rt_log_to *log);
/* Adds the bytes of an entry, which must live as long as the store; RT_MISS_ABSENT: it was added. */
rt_miss rt_store_add(rt_store *s, const void *bytes, size_t n);
bool rt_store_find(const rt_store *s, rt_store_kind kind, rt_span key, rt_span *body);
bool rt_store_take(rt_store *s, rt_store_kind kind, rt_span key, rt_span body); /* a copy */

/* ---- store.c ---- */
/* *file: the memory of the whole file, to be freed by rt_free(); *body lies in it. False: a miss, which is counted and logged. */
bool rt_store_get(rt_store *s, rt_store_kind kind, rt_span key, void **file, rt_span *body);
void rt_store_miss(rt_store *s, rt_store_kind kind, rt_span key, rt_miss why); /* the body was not what it should be */
/* Writes an entry, or leaves all as it was. An error is told once. */
void rt_store_put(rt_store *s, rt_store_kind kind, rt_span key, rt_span body);
rt_store_counts rt_store_count(rt_store *s);
rt_miss rt_store_read(const char *path, void **file, size_t *bytes); /* RT_MISS_ABSENT: *file is set */

/* ---- build.c ---- */
const char *rt_build(void); /* which build of the library this is: 32 digits, a hash of its sources and of LLVM's version */

/* ---- storesweep.c ---- */
void rt_store_sweep(rt_store *s, const char *subfolder); /* to its share: the entries that were used least recently go */
typedef struct rt_file { char *path; size_t bytes; int64_t used; /* nanoseconds since 1970 */ } rt_file;
typedef rt_vec(rt_file) rt_files;
/* Adds the entries of a subfolder to all; removes what a killed process left behind, or with everything also new temporary files. */
bool rt_store_list(const char *subfolder, bool everything, rt_files *all);
void rt_files_free(rt_files *all);

/* ---- storewalk.c: all entries ---- */
typedef struct rt_store_entry {
	const char *path;
	size_t bytes;
	int64_t used;            /* seconds since 1970: when it was last read or written */
	rt_miss miss;            /* RT_MISS_ABSENT: it is whole, or was not read */
	int kind;                /* -1: not known */
	rt_span key;             /* if it was read */
} rt_store_entry;
typedef bool rt_store_visit(void *env, const rt_store_entry *e); /* false: ends the walk */
tj_status rt_store_walk(rt_store *s, bool read, rt_store_visit *f, void *env, rt_err *err);
/* Removes entries, and files that a killed process left behind. *n: how many, *bytes: their size. */
tj_status rt_store_clear(rt_store *s, uint64_t *n, uint64_t *bytes, rt_err *err);

/* ---- private to these files ---- */
enum {
	RT_STORE_FANOUT = 256,
	RT_STORE_AGE = 3600  /* seconds: a hit notes its time no more often; older temporary files were left behind */
};
typedef struct rt_kept { /* an entry in memory */
	uint64_t hash;
	const unsigned char *bytes;
	size_t n;
	rt_store_kind kind;
	rt_span key, body;
	bool owned;
} rt_kept;
struct rt_store {
	const rt_log_to *log;
	bool in_memory, keeps;   /* see rt_store_in_memory(); then lock guards `entry` */
	rt_store *next;
	rt_vec(rt_kept) entry;
	char *told;
	pthread_mutex_t lock;
	bool looked, writes;
	char *folder;
	char why[256];
	size_t most;             /* bytes that all entries may have */
	struct rt_codes *codes;  /* code that was read or compiled, by key (codes.h); NULL: the store is in memory itself */
	_Atomic uint64_t hits, stored, failed, miss[RT_MISSES], read_bytes, written_bytes;
	atomic_bool told_of_damage, told_of_writing;
};

#endif
