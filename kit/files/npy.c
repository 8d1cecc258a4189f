/* SPDX-License-Identifier: MIT */
/* npy: files of NumPy.
 *
 *   "\x93NUMPY"  2 bytes: version  2 bytes (version 1) or 4: length of the header, little endian
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     and blanks up to a newline: the header, a Python literal
 *   the elements
 *
 * A file may come from anywhere, so nothing in it is believed: the header is short, products of sizes are checked, and elements are read
 * as they come. */
#include "kit/files/files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MAGIC = 6, PREFIX = 8, LONGEST_HEADER = 1 << 16, ALIGN = 64, CHUNK = 1 << 20 };
static const char magic[] = "\x93NUMPY";

/* bf16 is no dtype of NumPy: its arrays become two bytes without a type, V2, when they are saved. */
static const struct { const char *name; tj_dtype dtype; } types[] = {
	{ "b1", TJ_BOOL }, { "u1", TJ_U8 },  { "i1", TJ_I8 },  { "i2", TJ_I16 }, { "i4", TJ_I32 },
	{ "i8", TJ_I64 },  { "f2", TJ_F16 }, { "V2", TJ_BF16 }, { "f4", TJ_F32 }, { "f8", TJ_F64 },
};
enum { TYPES = sizeof types / sizeof *types };

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

static bool read_dtype(text *t, kit_npy *a, kit_why *w)
{
	char s[32] = "";
	skip_blanks(t);
	if (t->s < t->end && *t->s == '[')
		return kit_no(w, TJ_ERR_DTYPE, "it has records (a structured dtype); save each field as an array of its own");
	if (string(t, s, sizeof s) && !strcmp(s, "|O")) return kit_no(w, TJ_ERR_DTYPE, "it has Python objects (dtype object)");
	if (strlen(s) < 3) return kit_no(w, TJ_ERR_PARSE, "its dtype is no text like '<f4'");
	const bool bytes = !strcmp(s + 1, "b1") || !strcmp(s + 1, "u1") || !strcmp(s + 1, "i1");
	if (*s == '>' && !bytes)
		return kit_no(w, TJ_ERR_DTYPE, "it is big endian (%s); a.astype(a.dtype.newbyteorder('<')) of NumPy turns the bytes", s);
	if (!strchr("<|=>", *s)) return kit_no(w, TJ_ERR_PARSE, "the byte order of its dtype %s is not known", s);
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(s + 1, types[i].name)) return a->dtype = types[i].dtype, true;
	if (s[1] == 'u')
		return kit_no(w, TJ_ERR_DTYPE, "its dtype %s is not one of tjit; i32 holds all values of u16, i64 those of u32", s);
	return kit_no(w, TJ_ERR_DTYPE, "its dtype %s is not one of tjit: bool, u8, i8, i16, i32, i64, f16, bf16 (V2), f32, f64", s);
}

static bool read_shape(text *t, kit_npy *a, kit_why *w)
{
	if (!accept(t, '(')) return kit_no(w, TJ_ERR_PARSE, "its shape is no tuple");
	for (a->rank = 0; !accept(t, ')'); a->rank++) {
		if (a->rank == TJ_MAX_RANK) return kit_no(w, TJ_ERR_PARSE, "it has more than %d axes", TJ_MAX_RANK);
		if (!size(t, &a->dim[a->rank])) return kit_no(w, TJ_ERR_PARSE, "a size of its shape is no number, or too large");
		if (!accept(t, ',') && (t->s == t->end || *t->s != ')' || !a->rank)) return kit_no(w, TJ_ERR_PARSE, "its shape is no tuple");
	}
	return true;
}

static bool read_dict(text *t, kit_npy *a, bool *fortran, kit_why *w)
{
	enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
	int had = 0;
	if (!accept(t, '{')) return kit_no(w, TJ_ERR_PARSE, "its header is no dictionary");
	while (!accept(t, '}')) {
		char key[32];
		if (!string(t, key, sizeof key) || !accept(t, ':')) return kit_no(w, TJ_ERR_PARSE, "its header is no dictionary");
		const int k = !strcmp(key, "descr") ? DESCR : !strcmp(key, "fortran_order") ? ORDER : !strcmp(key, "shape") ? SHAPE : 0;
		if (!k || had & k) return kit_no(w, TJ_ERR_PARSE, "its header has the key %s%s", key, k ? " twice" : ", which is not known");
		had |= k;
		if (k == DESCR && !read_dtype(t, a, w)) return false;
		if (k == SHAPE && !read_shape(t, a, w)) return false;
		if (k == ORDER && !(*fortran = accept_word(t, "True")) && !accept_word(t, "False"))
			return kit_no(w, TJ_ERR_PARSE, "fortran_order is neither True nor False");
		if (accept(t, ',')) continue;
		if (!accept(t, '}')) return kit_no(w, TJ_ERR_PARSE, "its header is no dictionary");
		break;
	}
	skip_blanks(t);
	if (t->s != t->end) return kit_no(w, TJ_ERR_PARSE, "something follows its header");
	return had == ALL || kit_no(w, TJ_ERR_PARSE, "its header lacks %s", !(had & DESCR) ? "descr" : !(had & SHAPE) ? "shape" : "fortran_order");
}

/* Sets strides and bytes. */
static bool lay_out(kit_npy *a, bool fortran, kit_why *w)
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
	if (!fits) return kit_no(w, TJ_ERR_PARSE, "its shape is too large");
	a->bytes = empty ? 0 : (size_t)all;
	a->dim[a->rank] = a->stride[a->rank] = TJ_END_DIM;
	return true;
}


/* What is read ends here: an error of the file, unless the source has one. */
static bool ends(kit_why *w, const char *what)
{
	return w->code == TJ_OK && kit_no(w, TJ_ERR_PARSE, "%s", what);
}

static size_t take(kit_source *s, void *to, size_t bytes, kit_why *w)
{
	const size_t n = s->read(s->env, to, bytes, w);
	if (s->left >= 0) s->left -= (int64_t)n;
	return n;
}

static bool read_header(kit_source *s, kit_npy *a, kit_why *w)
{
	unsigned char first[PREFIX + 4];
	if (take(s, first, PREFIX, w) != PREFIX || memcmp(first, magic, MAGIC) != 0) return ends(w, "it is no .npy file");
	const int version = first[MAGIC];
	if (version < 1 || version > 3 || first[MAGIC + 1])
		return kit_no(w, TJ_ERR_PARSE, "it has version %d.%d; 1.0, 2.0 and 3.0 are known", version, first[MAGIC + 1]);
	const size_t size_bytes = version == 1 ? 2 : 4;
	uint32_t n = 0;
	if (take(s, first + PREFIX, size_bytes, w) != size_bytes) return ends(w, "it ends in its header");
	for (size_t i = size_bytes; i--;) n = n << 8 | first[PREFIX + i];
	if (n > LONGEST_HEADER)
		return kit_no(w, TJ_ERR_PARSE, "its header is said to have %lu bytes, more than any array needs", (unsigned long)n);
	char *header = malloc(n + 1);
	if (!header) return kit_no_memory(w);
	bool fortran = false;
	text t = { header, header + n };
	const bool ok = take(s, header, n, w) == n ? read_dict(&t, a, &fortran, w) : ends(w, "it ends in its header");
	free(header);
	return ok && lay_out(a, fortran, w);
}

/* ---- the elements ---- */
static bool ends_early(const kit_npy *a, size_t n, kit_why *w)
{
	if (w->code != TJ_OK) return false;
	return kit_no(w, TJ_ERR_PARSE, "it ends too early: its shape needs %zu bytes, and has %zu", a->bytes, n);
}

/* When it is not known how many bytes are left, memory grows with what has come. */
static bool read_data(kit_source *s, kit_npy *a, kit_why *w)
{
	char more;
	size_t n = 0, room = s->left >= 0 || a->bytes < CHUNK ? a->bytes : CHUNK;
	if (s->left >= 0 && (uint64_t)s->left < a->bytes) return ends_early(a, (size_t)s->left, w);
	if (!(a->data = malloc(room ? room : 1))) return kit_no_memory(w);
	while ((n += take(s, (char *)a->data + n, room - n, w)) == room && room < a->bytes) {
		room = room < a->bytes / 2 ? 2 * room : a->bytes;
		void *larger = realloc(a->data, room);
		if (!larger) return kit_no_memory(w);
		a->data = larger;
	}
	if (n < a->bytes) return ends_early(a, n, w);
	if (take(s, &more, 1, w)) return kit_no(w, TJ_ERR_PARSE, "something follows its %zu bytes of elements", a->bytes);
	return w->code == TJ_OK;
}

bool kit_npy_read(kit_source *s, kit_npy *out, kit_why *w)
{
	*out = (kit_npy){ 0 };
	w->code = TJ_OK;
	if (read_header(s, out, w) && read_data(s, out, w)) return kit_make_bools(out->dtype, out->data, out->bytes), true;
	free(out->data);
	out->data = NULL;
	return false;
}

static size_t read_stream(void *f, void *to, size_t bytes, kit_why *w)
{
	const size_t n = fread(to, 1, bytes, f);
	if (n < bytes && ferror(f)) kit_no_io(w);
	return n;
}

kit_source kit_source_of(FILE *f)
{
	struct stat s;
	const off_t at = ftello(f);
	const bool known = at >= 0 && fileno(f) >= 0 && !fstat(fileno(f), &s) && S_ISREG(s.st_mode) && s.st_size >= at;
	return (kit_source){ .read = read_stream, .env = f, .left = known ? (int64_t)(s.st_size - at) : -1 };
}

tj_tensor *tj_npy_load_at(const char *site, tj_ctx *c, const char *path)
{
	kit_npy a;
	kit_why w = { 0 };
	FILE *f = path && !strcmp(path, "-") ? stdin : path ? fopen(path, "rbe") : NULL;
	if (!path) kit_no(&w, TJ_ERR_ARG, "the path is NULL");
	else if (!f) kit_no_io(&w);
	kit_source s = { 0 };
	if (f) s = kit_source_of(f);
	const bool ok = f && kit_npy_read(&s, &a, &w);
	if (f && f != stdin) fclose(f);
	return ok ? kit_give(site, c, a.dtype, a.dim, a.stride, a.data) : kit_report(site, "npy_load", path, &w);
}

/* ---- writing ---- */
static const char *name_of(tj_dtype t)
{
	for (int i = 0; i < TYPES; i++)
		if (types[i].dtype == t) return types[i].name;
	return "";
}

/* Version 1 is enough for 16 axes. NumPy has room for the first size to grow. */
size_t kit_npy_header(tj_dtype dtype, int rank, const int64_t *dim, char to[KIT_NPY_HEADER])
{
	enum { GROWS = 21 };
	_Static_assert(PREFIX + 2 + 64 + TJ_MAX_RANK * 24 + GROWS + ALIGN <= KIT_NPY_HEADER, "all sizes fit");
	size_t at = PREFIX + 2;
	at += (size_t)snprintf(to + at, KIT_NPY_HEADER - at, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
	                       tj_dtype_size(dtype) > 1 ? '<' : '|', name_of(dtype));
	for (int i = 0; i < rank; i++)
		at += (size_t)snprintf(to + at, KIT_NPY_HEADER - at, "%s%lld%s", i ? ", " : "", (long long)dim[i], rank == 1 ? "," : "");
	at += (size_t)snprintf(to + at, KIT_NPY_HEADER - at, "), }%*s", rank ? GROWS - snprintf(NULL, 0, "%lld", (long long)dim[0]) : 0, "");
	while ((at + 1) % ALIGN) to[at++] = ' ';
	to[at++] = '\n';
	memcpy(to, magic, MAGIC);
	to[MAGIC] = 1;
	to[MAGIC + 1] = 0;
	to[PREFIX] = (char)((at - PREFIX - 2) & 255);
	to[PREFIX + 1] = (char)((at - PREFIX - 2) >> 8);
	return at;
}

typedef struct output { const char *site; tj_tensor *t; } output;

static bool write_npy(void *env, kit_out *o, kit_why *w)
{
	const output *u = env;
	char header[KIT_NPY_HEADER];
	kit_tensor t;
	kit_buffer b = { 0 };
	const bool ok = kit_describe(u->site, u->t, &t, w) && kit_fetch(u->site, &t, &b, w) &&
	                kit_put(o, header, kit_npy_header(t.dtype, t.rank, t.dim, header), w) && kit_put(o, b.data, t.bytes, w);
	free(b.data);
	return ok;
}

tj_status tj_npy_save_at(const char *site, tj_tensor *t, const char *path)
{
	kit_why w = { 0 };
	output u = { site, t };
	kit_out out = { .f = stdout };
	const bool ok = !path || strcmp(path, "-") ? kit_replace(path, write_npy, &u, &w)
	                                            : write_npy(&u, &out, &w) && (!fflush(stdout) || kit_no_io(&w));
	if (ok) return TJ_OK;
	if (*w.text) kit_report(site, "npy_save", path, &w);
	return w.code;
}
