/* SPDX-License-Identifier: MIT */
/* debug: facts about code as bytes and back.
 *
 *   magic  pieces  rows  files  bytes of strings  |  pieces, 6 words each  |  rows, 3 words  |  files, 1 word  |  strings and cfa
 *
 * Words have 32 bits; strings are named by their offset, and end with 0. */
#include "runtime/debug.h"

enum { MAGIC = 0x31646a74 /* "tjd1" */, HEAD = 5, PIECE = 6, ROW = 3, FILE_WORDS = 1, MOST = 1 << 20 };

/* ---- to bytes ---- */
static void put_word(rt_text *t, size_t x)
{
	const uint32_t word = (uint32_t)x;
	rt_putn(t, (const char *)&word, sizeof word);
}

/* Appends a string to the strings; returns its offset. */
static size_t put_string(rt_text *strings, const char *s)
{
	const size_t at = strings->n;
	rt_putn(strings, s, strlen(s) + 1);
	return at;
}

void rt_debug_put(rt_text *out, const rt_debug *d)
{
	rt_text body = { 0 }, strings = { 0 };
	for (uint32_t i = 0; i < d->npiece; i++) {
		const rt_piece *p = &d->piece[i];
		put_word(&body, p->at), put_word(&body, p->bytes);
		put_word(&body, put_string(&strings, p->name)), put_word(&body, put_string(&strings, p->ops));
		put_word(&body, strings.n), put_word(&body, p->ncfa);
		if (p->ncfa) rt_putn(&strings, (const char *)p->cfa, p->ncfa);
	}
	for (uint32_t i = 0; i < d->nrow; i++) put_word(&body, d->row[i].at), put_word(&body, d->row[i].file), put_word(&body, d->row[i].line);
	for (uint32_t i = 0; i < d->nfile; i++) put_word(&body, put_string(&strings, d->file[i]));
	rt_putn(&strings, "", 1); /* so that the last byte is 0, whatever cfa is */
	put_word(out, MAGIC), put_word(out, d->npiece), put_word(out, d->nrow), put_word(out, d->nfile), put_word(out, strings.n);
	rt_putn(out, rt_str(&body), body.n);
	rt_putn(out, rt_str(&strings), strings.n);
	out->oom |= body.oom | strings.oom;
	rt_text_free(&body);
	rt_text_free(&strings);
}

/* ---- frame descriptions ---- */
/* A LEB128 number of at most five bytes. */
static bool skip_leb(const unsigned char *p, size_t n, size_t *at)
{
	for (int i = 0; i < 5 && *at < n; i++)
		if (!(p[(*at)++] & 0x80)) return true;
	return false;
}

bool rt_cfa_is_simple(const unsigned char *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		const unsigned op = p[at++];
		size_t fixed = 0;
		int lebs = 0;
		switch (op >> 6) {
		case 1: case 3: break;     /* advance_loc, restore */
		case 2: lebs = 1; break;   /* offset */
		default:
			switch (op) {
			case 0x00: case 0x0a: case 0x0b: break; /* nop, remember_state, restore_state */
			case 0x02: fixed = 1; break;            /* advance_loc1 */
			case 0x03: fixed = 2; break;
			case 0x04: fixed = 4; break;
			case 0x0c: lebs = 2; break;             /* def_cfa */
			case 0x0d: case 0x0e: case 0x2e: lebs = 1; break; /* def_cfa_register, def_cfa_offset, GNU_args_size */
			default: return false;
			}
		}
		if (fixed > n - at) return false;
		at += fixed;
		while (lebs--)
			if (!skip_leb(p, n, &at)) return false;
	}
	return true;
}

/* ---- from bytes ---- */
typedef struct reader { const unsigned char *at; const char *strings; size_t nstring; bool bad; } reader;

static uint32_t word(reader *r)
{
	uint32_t x;
	memcpy(&x, r->at, sizeof x);
	r->at += sizeof x;
	return x;
}

/* The last byte of the strings is 0. */
static const char *string(reader *r)
{
	const uint32_t at = word(r);
	if (at < r->nstring) return r->strings + at;
	r->bad = true;
	return "";
}

static void get_piece(reader *r, rt_piece *p, uint32_t from, size_t code)
{
	p->at = word(r), p->bytes = word(r);
	p->name = string(r), p->ops = string(r);
	const uint32_t cfa = word(r);
	p->ncfa = word(r);
	p->cfa = (const unsigned char *)r->strings + cfa;
	r->bad |= p->at < from || p->at > code || p->bytes > code - p->at || !p->bytes || !*p->name;
	r->bad |= cfa > r->nstring || p->ncfa > r->nstring - cfa;
	if (!r->bad && !rt_cfa_is_simple(p->cfa, p->ncfa)) r->bad = true;
}

static bool get_all(reader *r, rt_debug *d, size_t code)
{
	for (uint32_t i = 0, end = 0; i < d->npiece && !r->bad; i++) {
		get_piece(r, &d->piece[i], end, code);
		end = d->piece[i].at + d->piece[i].bytes;
	}
	for (uint32_t i = 0, from = 0; i < d->nrow && !r->bad; i++) {
		d->row[i].at = word(r), d->row[i].file = word(r), d->row[i].line = word(r);
		r->bad |= d->row[i].at < from || d->row[i].at >= code || d->row[i].file >= d->nfile || d->row[i].line > INT32_MAX;
		from = d->row[i].at;
	}
	for (uint32_t i = 0; i < d->nfile && !r->bad; i++) d->file[i] = string(r);
	return !r->bad;
}

bool rt_debug_get(rt_arena *mem, const void *bytes, size_t n, size_t code, rt_debug *d)
{
	reader r = { .at = bytes };
	*d = (rt_debug){ 0 };
	if (n < HEAD * sizeof(uint32_t) || word(&r) != MAGIC) return false;
	d->npiece = word(&r), d->nrow = word(&r), d->nfile = word(&r);
	r.nstring = word(&r);
	if (!d->npiece || d->npiece > MOST || d->nrow > MOST || d->nfile > MOST || code > UINT32_MAX) return false;
	const size_t words = (size_t)HEAD + (size_t)d->npiece * PIECE + (size_t)d->nrow * ROW + (size_t)d->nfile * FILE_WORDS;
	if (!r.nstring || n != words * sizeof(uint32_t) + r.nstring) return false;
	r.strings = (const char *)bytes + words * sizeof(uint32_t);
	if (r.strings[r.nstring - 1]) return false;
	d->piece = rt_arena_alloc(mem, d->npiece * sizeof *d->piece);
	d->row = rt_arena_alloc(mem, (d->nrow + 1) * sizeof *d->row);
	d->file = rt_arena_alloc(mem, (d->nfile + 1) * sizeof *d->file);
	return d->piece && d->row && d->file && get_all(&r, d, code);
}

void rt_debug_rows(const rt_debug *d, const rt_piece *p, uint32_t *first, uint32_t *end)
{
	uint32_t i = 0;
	while (i < d->nrow && d->row[i].at < p->at) i++;
	*first = i;
	while (i < d->nrow && d->row[i].at < p->at + p->bytes) i++;
	*end = i;
}
