/* SPDX-License-Identifier: MIT */
/* ONNX files that a test writes, field by field. */
#ifndef TJ_TEST_ONNXFILE_H
#define TJ_TEST_ONNXFILE_H

#include "test/kit/hostile.h"

#include <tjmodel.h>

/* ---- protobuf: messages are built from inside ---- */
typedef struct msg {
	unsigned char v[6000];
	size_t n;
} msg;

static inline void put_byte(msg *m, uint64_t b)
{
	assert_true(m->n < sizeof m->v);
	m->v[m->n++] = (unsigned char)b;
}

static inline void put_varint(msg *m, uint64_t v)
{
	for (; v > 127; v >>= 7) put_byte(m, 128 | (v & 127));
	put_byte(m, v);
}

static inline void put_int(msg *m, int field, int64_t v) { put_varint(m, (uint64_t)field << 3), put_varint(m, (uint64_t)v); }

static inline void put_bytes(msg *m, int field, const void *v, size_t n)
{
	put_varint(m, (uint64_t)field << 3 | 2);
	put_varint(m, n);
	for (size_t i = 0; i < n; i++) put_byte(m, ((const unsigned char *)v)[i]);
}

static inline void put_text(msg *m, int field, const char *s) { put_bytes(m, field, s, strlen(s)); }
static inline void put_msg(msg *m, int field, const msg *inner) { put_bytes(m, field, inner->v, inner->n); }

/* Words of a text, each as one field. */
static inline void put_words(msg *m, int field, const char *words)
{
	for (size_t n; *words; words += n + (words[n] != 0)) {
		n = strcspn(words, " ");
		put_bytes(m, field, words, n == 1 && *words == '_' ? 0 : n);
	}
}

static inline msg an_int(const char *name, int64_t v)
{
	msg a = { .n = 0 };
	put_text(&a, 1, name), put_int(&a, 20, 2), put_int(&a, 3, v);
	return a;
}

static inline msg a_graph(const char *name, const msg *g)
{
	msg a = { .n = 0 };
	put_text(&a, 1, name), put_int(&a, 20, 5), put_msg(&a, 6, g);
	return a;
}

static inline msg tensor(const char *name, int type, tj_dims dim, const void *data, size_t bytes)
{
	msg t = { .n = 0 };
	for (int i = 0; dim[i] != TJ_END_DIM; i++) put_int(&t, 1, dim[i]);
	put_int(&t, 2, type), put_text(&t, 8, name), put_bytes(&t, 9, data, bytes);
	return t;
}

static inline void put_node(msg *g, const char *op, const char *name, const char *in, const char *out, int nattr, const msg *attr)
{
	msg n = { .n = 0 };
	put_words(&n, 1, in), put_words(&n, 2, out), put_text(&n, 3, name), put_text(&n, 4, op);
	for (int i = 0; i < nattr; i++) put_msg(&n, 5, &attr[i]);
	put_msg(g, 1, &n);
}

/* A value of f32 (or another type); sizes of -1 have the name "n". */
static inline void put_value(msg *g, int field, const char *name, int type, tj_dims dim)
{
	msg v = { .n = 0 }, t = { .n = 0 }, s = { .n = 0 }, k = { .n = 0 };
	for (int i = 0; dim[i] != TJ_END_DIM; i++) {
		msg d = { .n = 0 };
		if (dim[i] < 0)
			put_text(&d, 2, "n");
		else
			put_int(&d, 1, dim[i]);
		put_msg(&s, 1, &d);
	}
	put_int(&t, 1, type), put_msg(&t, 2, &s), put_msg(&k, 1, &t);
	put_text(&v, 1, name), put_msg(&v, 2, &k), put_msg(g, field, &v);
}

static inline msg model(const msg *g, int64_t opset)
{
	msg m = { .n = 0 }, o = { .n = 0 }, p = { .n = 0 };
	put_int(&m, 1, 8), put_text(&m, 2, "test"), put_msg(&m, 7, g);
	put_int(&o, 2, opset), put_msg(&m, 8, &o);
	put_text(&p, 1, "who"), put_text(&p, 2, "test_onnx"), put_msg(&m, 14, &p);
	return m;
}

/* A file in memory, without the limits that broken files are read under. */
static inline hostile *good_file(void)
{
	hostile *h = hostile_begin(1);
	setrlimit(RLIMIT_AS, &h->was);
	return h;
}

static inline void file_of(hostile *h, const msg *m)
{
	memcpy(h->v, m->v, m->n);
	h->n = m->n;
	hostile_put(h);
}

static inline tj_model *opened(tj_ctx *c, hostile *h, const msg *m)
{
	file_of(h, m);
	tj_model *model = tj_onnx_open(c, h->path, NULL);
	kit_ok(c);
	assert_non_null(model);
	return model;
}

enum { FLOAT = 1, UINT16 = 4, INT64 = 7, STRING = 8, BOOLEAN = 9 };

#endif
