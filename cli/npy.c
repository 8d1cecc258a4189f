/* SPDX-License-Identifier: MIT */
/* npy: files of NumPy.
 *
 *   "\x93NUMPY"  2 bytes: version  2 bytes (version 1) or 4: length of the header, little endian
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     and blanks up to a newline: the header, a Python literal
 *   the elements
 *
 * A file may come from anywhere, so nothing in it is believed: the header is short, products of sizes are checked, and elements are read
 * as they come. */
#include "cli/npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 6, PREFIX = 8, LONGEST_HEADER = 1 << 16, ALIGN = 64, CHUNK = 1 << 20 };
static const char magic[] = "\x93NUMPY";

/* bf16 is no dtype of NumPy: its arrays become two bytes without a type, V2, when they are saved. */
static const struct { const char *name; tj_dtype dtype; } types[] = {
	{ "b1", TJ_BOOL }, { "u1", TJ_U8 },  { "i1", TJ_I8 },  { "i2", TJ_I16 }, { "i4", TJ_I32 },
	{ "i8", TJ_I64 },  { "f2", TJ_F16 }, { "V2", TJ_BF16 }, { "f4", TJ_F32 }, { "f8", TJ_F64 },
};
enum { TYPES = sizeof types / sizeof *types };

static bool __attribute__((format(printf, 2, 3))) no(char why[NPY_WHY], const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, NPY_WHY, fmt, ap);
	va_end(ap);
	return false;
}

/* ---- the header ---- */
typedef struct text { const char *s, *end; } text; /* what is left of the header */

static void skip_blanks(text *t)
{
	while (t->s < t->end && strchr(" \t\r\n", *t->s) && *t->s) t->s++;
}

static bool accept(text *t, char c)
{
	skip_blanks(t);
	if (t->s == t->end || *t->s != c) return false;
	t->s++;
	return true;
}

static bool accept_word(text *t, const char *word)
{
	const size_t n = strlen(word);
	skip_blanks(t);
	if ((size_t)(t->end - t->s) < n || memcmp(t->s, word, n) != 0) return false;
	t->s += n;
	return true;
}

/* 'text' or "text", without escapes */
static bool string(text *t, char *to, size_t room)
{
	skip_blanks(t);
	if (t->s == t->end || (*t->s != '\'' && *t->s != '"')) return false;
	const char quote = *t->s++, *close = memchr(t->s, quote, (size_t)(t->end - t->s));
	const size_t n = close ? (size_t)(close - t->s) : 0;
	if (!close || n >= room || memchr(t->s, '\\', n)) return false;
	memcpy(to, t->s, n);
	to[n] = 0;
	t->s = close + 1;
	return true;
}

/* A size of 0 or more. Python 2 wrote 3L for 3. */
static bool size(text *t, int64_t *out)
{
	int64_t n = 0;
	skip_blanks(t);
	const char *first = t->s;
	for (; t->s < t->end && *t->s >= '0' && *t->s <= '9'; t->s++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *t->s - '0', &n)) return false;
	*out = n;
	if (t->s == first) return false;
	if (t->s < t->end && *t->s == 'L') t->s++;
	return true;
}

static bool read_dtype(text *t, npy_array *a, char why[NPY_WHY])
{
	char s[32] = "";
	skip_blanks(t);
	if (t->s < t->end && *t->s == '[') return no(why, "it has records (a structured dtype); save each field as an array of its own");
	if (string(t, s, sizeof s) && !strcmp(s, "|O")) return no(why, "it has Python objects (dtype object)");
	if (strlen(s) < 3) return no(why, "its dtype is no text like '<f4'");
	const bool bytes = !strcmp(s + 1, "b1") || !strcmp(s + 1, "u1") || !strcmp(s + 1, "i1");
	if (*s == '>' && !bytes)
		return no(why, "it is big endian (%s); a.astype(a.dtype.newbyteorder('<')) of NumPy turns the bytes", s);
	if (!strchr("<|=>", *s)) return no(why, "the byte order of its dtype %s is not known", s);
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(s + 1, types[i].name)) return a->dtype = types[i].dtype, true;
	if (s[1] == 'u') return no(why, "its dtype %s is not one of tjit; i32 holds all values of u16, i64 those of u32", s);
	return no(why, "its dtype %s is not one of tjit: bool, u8, i8, i16, i32, i64, f16, bf16 (V2), f32, f64", s);
}

static bool read_shape(text *t, npy_array *a, char why[NPY_WHY])
{
	if (!accept(t, '(')) return no(why, "its shape is no tuple");
	for (a->rank = 0; !accept(t, ')'); a->rank++) {
		if (a->rank == TJ_MAX_RANK) return no(why, "it has more than %d axes", TJ_MAX_RANK);
		if (!size(t, &a->dim[a->rank])) return no(why, "a size of its shape is no number, or too large");
		if (!accept(t, ',') && (t->s == t->end || *t->s != ')' || !a->rank)) return no(why, "its shape is no tuple");
	}
	return true;
}

static bool read_dict(text *t, npy_array *a, bool *fortran, char why[NPY_WHY])
{
	enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
	int had = 0;
	if (!accept(t, '{')) return no(why, "its header is no dictionary");
	while (!accept(t, '}')) {
		char key[32];
		if (!string(t, key, sizeof key) || !accept(t, ':')) return no(why, "its header is no dictionary");
		const int k = !strcmp(key, "descr") ? DESCR : !strcmp(key, "fortran_order") ? ORDER : !strcmp(key, "shape") ? SHAPE : 0;
		if (!k || had & k) return no(why, "its header has the key %s%s", key, k ? " twice" : ", which is not known");
		had |= k;
		if (k == DESCR && !read_dtype(t, a, why)) return false;
		if (k == SHAPE && !read_shape(t, a, why)) return false;
		if (k == ORDER && !(*fortran = accept_word(t, "True")) && !accept_word(t, "False"))
			return no(why, "fortran_order is neither True nor False");
		if (accept(t, ',')) continue;
		if (!accept(t, '}')) return no(why, "its header is no dictionary");
		break;
	}
	skip_blanks(t);
	if (t->s != t->end) return no(why, "something follows its header");
	return had == ALL || no(why, "its header lacks %s", !(had & DESCR) ? "descr" : !(had & SHAPE) ? "shape" : "fortran_order");
}

/* Sets strides and bytes. */
static bool lay_out(npy_array *a, bool fortran, char why[NPY_WHY])
{
	int64_t n = 1, all = (int64_t)tj_dtype_size(a->dtype);
	bool fits = true, empty = false;
	for (int k = 0; k < a->rank; k++) {
		const int i = fortran ? k : a->rank - 1 - k;
		a->stride[i] = n;
		empty |= a->dim[i] == 0;
		if (a->dim[i] == 0) continue; /* the other sizes must fit all the same */
		fits = fits && !__builtin_mul_overflow(n, a->dim[i], &n) && !__builtin_mul_overflow(all, a->dim[i], &all);
	}
	if (!fits) return no(why, "its shape is too large");
	a->bytes = empty ? 0 : (size_t)all;
	a->dim[a->rank] = a->stride[a->rank] = TJ_END_DIM;
	return true;
}

static bool read_header(FILE *f, npy_array *a, char why[NPY_WHY])
{
	unsigned char first[PREFIX + 4];
	if (fread(first, 1, PREFIX, f) != PREFIX || memcmp(first, magic, MAGIC) != 0) return no(why, "it is no .npy file");
	const int version = first[MAGIC];
	if (version < 1 || version > 3 || first[MAGIC + 1])
		return no(why, "it has version %d.%d; 1.0, 2.0 and 3.0 are known", version, first[MAGIC + 1]);
	const size_t size_bytes = version == 1 ? 2 : 4;
	uint32_t n = 0;
	if (fread(first + PREFIX, 1, size_bytes, f) != size_bytes) return no(why, "it ends in its header");
	for (size_t i = size_bytes; i--;) n = n << 8 | first[PREFIX + i];
	if (n > LONGEST_HEADER) return no(why, "its header is said to have %lu bytes, more than any array needs", (unsigned long)n);
	char *header = malloc(n + 1);
	if (!header) return no(why, "out of memory");
	bool fortran = false;
	text t = { header, header + n };
	const bool ok = fread(header, 1, n, f) == n ? read_dict(&t, a, &fortran, why) : no(why, "it ends in its header");
	free(header);
	return ok && lay_out(a, fortran, why);
}

/* ---- the elements ---- */
/* How many bytes are left in a regular file; -1: it is none. */
static int64_t left_in(FILE *f)
{
	struct stat s;
	const long at = ftell(f);
	return at < 0 || fileno(f) < 0 || fstat(fileno(f), &s) || !S_ISREG(s.st_mode) || s.st_size < at ? -1 : (int64_t)(s.st_size - at);
}

/* Of a file that is no regular one memory grows with what has come. */
static bool read_data(FILE *f, npy_array *a, char why[NPY_WHY])
{
	const int64_t left = left_in(f);
	size_t n = 0, room = left >= 0 || a->bytes < CHUNK ? a->bytes : CHUNK;
	if (left >= 0 && (uint64_t)left < a->bytes)
		return no(why, "it ends too early: its shape needs %zu bytes, %lld are left", a->bytes, (long long)left);
	if (!(a->data = malloc(room ? room : 1))) return no(why, "out of memory");
	while ((n += fread((char *)a->data + n, 1, room - n, f)) == room && room < a->bytes) {
		room = room < a->bytes / 2 ? 2 * room : a->bytes;
		void *more = realloc(a->data, room);
		if (!more) return no(why, "out of memory");
		a->data = more;
	}
	if (ferror(f)) return no(why, "%s", strerror(errno));
	if (n < a->bytes) return no(why, "it ends too early: its shape needs %zu bytes, and has %zu", a->bytes, n);
	return fgetc(f) == EOF || no(why, "something follows its %zu bytes of elements", a->bytes);
}

/* true is any byte but 0 in NumPy, and 1 in tjit. */
static void make_bools(npy_array *a)
{
	unsigned char *b = a->data;
	for (size_t i = 0; a->dtype == TJ_BOOL && i < a->bytes; i++) b[i] = b[i] != 0;
}

bool npy_read(FILE *f, npy_array *out, char why[NPY_WHY])
{
	*out = (npy_array){ 0 };
	if (read_header(f, out, why) && read_data(f, out, why)) return make_bools(out), true;
	npy_free(out);
	return false;
}

void npy_free(npy_array *a)
{
	free(a->data);
	a->data = NULL;
}

/* ---- writing ---- */
static const char *name_of(tj_dtype t)
{
	for (int i = 0; i < TYPES; i++)
		if (types[i].dtype == t) return types[i].name;
	return NULL;
}

bool npy_write(FILE *f, tj_dtype dtype, int rank, const int64_t *dim, const void *data, char why[NPY_WHY])
{
	enum { GROWS = 21, LINE = 64 + TJ_MAX_RANK * 24 + GROWS + ALIGN }; /* NumPy has room for the first size to grow */
	char h[PREFIX + 2 + LINE]; /* version 1 is enough for 16 axes */
	size_t count = 1, at = PREFIX + 2;
	if (!name_of(dtype) || rank < 0 || rank > TJ_MAX_RANK) return no(why, "no such dtype or rank");
	at += (size_t)snprintf(h + at, LINE, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", tj_dtype_size(dtype) > 1 ? '<' : '|',
	                       name_of(dtype));
	for (int i = 0; i < rank; i++) {
		at += (size_t)snprintf(h + at, sizeof h - at, "%s%lld%s", i ? ", " : "", (long long)dim[i], rank == 1 ? "," : "");
		count *= (size_t)dim[i];
	}
	at += (size_t)snprintf(h + at, sizeof h - at, "), }%*s", rank ? GROWS - snprintf(NULL, 0, "%lld", (long long)dim[0]) : 0, "");
	while ((at + 1) % ALIGN) h[at++] = ' ';
	h[at++] = '\n';
	memcpy(h, magic, MAGIC);
	h[MAGIC] = 1;
	h[MAGIC + 1] = 0;
	h[PREFIX] = (char)((at - PREFIX - 2) & 255);
	h[PREFIX + 1] = (char)((at - PREFIX - 2) >> 8);
	if (fwrite(h, 1, at, f) == at && fwrite(data, tj_dtype_size(dtype), count, f) == count && !fflush(f)) return true;
	return no(why, "%s", strerror(errno));
}

/* ---- tensors ---- */
static tj_tensor *tensor_of(tj_ctx *c, const npy_array *a, char why[NPY_WHY])
{
	tj_tensor *t = tj_wrap(c, a->dtype, a->dim, a->stride, a->data, free, a->data); /* tjit frees the data */
	if (tj_check(c) == TJ_OK) return t;
	free(a->data); /* after an error it is not called */
	no(why, "%s", tj_last_error(c)->message);
	return NULL;
}

tj_tensor *npy_load(tj_ctx *c, const char *path, char why[NPY_WHY])
{
	npy_array a;
	FILE *f = strcmp(path, "-") ? fopen(path, "rbe") : stdin;
	const bool ok = f ? npy_read(f, &a, why) : no(why, "%s", strerror(errno));
	if (f && f != stdin) fclose(f);
	return ok ? tensor_of(c, &a, why) : NULL;
}

static bool write_tensor(tj_ctx *c, FILE *f, tj_tensor *t, char why[NPY_WHY])
{
	int64_t dim[TJ_MAX_RANK];
	const void *data = tj_data(t);
	if (tj_check(c) != TJ_OK) return no(why, "%s", tj_last_error(c)->message);
	for (int i = 0; i < tj_rank(t); i++) dim[i] = tj_dim(t, i);
	return npy_write(f, tj_dtype_of(t), tj_rank(t), dim, data, why);
}

static mode_t mode_of_new_files(void)
{
	const mode_t mask = umask(0);
	umask(mask);
	return 0666 & ~mask;
}

/* Through a file beside it. */
static bool replace(tj_ctx *c, const char *path, mode_t mode, tj_tensor *t, char why[NPY_WHY])
{
	char *beside = NULL;
	if (asprintf(&beside, "%s.XXXXXX", path) < 0) return no(why, "out of memory");
	const int fd = mkstemp(beside);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
	bool ok = f ? write_tensor(c, f, t, why) : no(why, "%s", strerror(errno));
	if (f && fclose(f) && ok) ok = no(why, "%s", strerror(errno));
	if (ok && (chmod(beside, mode) || rename(beside, path))) ok = no(why, "%s", strerror(errno));
	if (!ok && fd >= 0) unlink(beside);
	free(beside);
	return ok;
}

bool npy_save(tj_ctx *c, const char *path, tj_tensor *t, char why[NPY_WHY])
{
	struct stat s;
	if (!strcmp(path, "-")) return write_tensor(c, stdout, t, why);
	if (stat(path, &s)) return replace(c, path, mode_of_new_files(), t, why);
	if (S_ISREG(s.st_mode)) {
		char *real = realpath(path, NULL); /* a link stays one */
		const bool ok = replace(c, real ? real : path, s.st_mode & 07777, t, why);
		free(real);
		return ok;
	}
	FILE *f = fopen(path, "wbe"); /* a device or a pipe */
	bool ok = f ? write_tensor(c, f, t, why) : no(why, "%s", strerror(errno));
	if (f && fclose(f) && ok) ok = no(why, "%s", strerror(errno));
	return ok;
}
