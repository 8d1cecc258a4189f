/* sort, topk: radix sorts of ours. Elements become unsigned keys that are in the order wanted; equal elements have equal keys, and the sort is
 * stable. What is sorted is
 *
 *   keys of up to 32 bits     key << 32 | index
 *   keys of 64 bits           pairs of key and index
 *   values only               keys alone, from which the elements are made again: of 32 and 64 bits, without a -0.0, which has the key of 0.0
 *
 * A radix sort counts the digits of all keys first, then moves the keys once for each digit that differs. topk counts the highest digit, and sorts
 * only the elements up to the digit of the last one wanted. */
#include "lower/library.h"

#include <stdatomic.h>

enum {
	FEW = 40,                      /* up to so many elements are inserted one by one */
	NARROW = 8, WIDE = 11,         /* bits of a digit */
	MANY = 4096,                   /* from so many elements on, digits are wide */
	MOST_DIGITS = 8, LEVELS = 2    /* digits that topk counts */
};

typedef struct pair { uint64_t key; int64_t at; } pair;

/* ---- sorts of n elements by the bits lo..hi - 1 of their keys: a, or its copy, is the result ---- */
#define RADIX(name, E, KEY)                                                                              \
	static void name##_insert(E *a, int64_t n)                                                           \
	{                                                                                                    \
		for (int64_t i = 1; i < n; i++) {                                                                \
			const E x = a[i];                                                                            \
			int64_t k = i;                                                                               \
			for (; k > 0 && KEY(a[k - 1]) > KEY(x); k--) a[k] = a[k - 1];                                \
			a[k] = x;                                                                                    \
		}                                                                                                \
	}                                                                                                    \
	static E *name(E *a, E *copy, int64_t n, int lo, int hi)                                             \
	{                                                                                                    \
		if (n <= FEW) return name##_insert(a, n), a;                                                     \
		const int bits = n < MANY ? NARROW : WIDE, digits = (hi - lo + bits - 1) / bits;                 \
		const uint64_t mask = (1u << bits) - 1;                                                          \
		uint32_t count[MOST_DIGITS][1 << WIDE];                                                            \
		for (int d = 0; d < digits; d++) memset(count[d], 0, sizeof *count[d] << bits);                  \
		for (int64_t i = 0; i < n; i++)                                                                  \
			for (int d = 0; d < digits; d++) count[d][KEY(a[i]) >> (lo + d * bits) & mask]++;            \
		for (int d = 0; d < digits; d++) {                                                               \
			uint32_t *c = count[d], sum = 0;                                                             \
			if (c[KEY(a[0]) >> (lo + d * bits) & mask] == n) continue;                                   \
			for (uint64_t b = 0; b <= mask; b++) {                                                       \
				const uint32_t own = c[b];                                                               \
				c[b] = sum;                                                                              \
				sum += own;                                                                              \
			}                                                                                            \
			for (int64_t i = 0; i < n; i++) copy[c[KEY(a[i]) >> (lo + d * bits) & mask]++] = a[i];       \
			E *const other = a;                                                                          \
			a = copy;                                                                                    \
			copy = other;                                                                                \
		}                                                                                                \
		return a;                                                                                        \
	}
/* Moves the elements that may be among the first k to the front, in their order. Returns their number. */
#define SELECT(name, E, KEY)                                                                             \
	static int64_t name(E *a, int64_t n, int64_t k, int lo, int hi)                             \
	{                                                                                                    \
		uint64_t prefix = 0;                                                                             \
		int64_t less = 0; /* elements whose digits so far are below the prefix */                        \
		for (int level = 0; level < LEVELS && n > FEW && 2 * k < n && hi > lo; level++) {                \
			const int bits = hi - lo < WIDE ? hi - lo : WIDE, down = hi - bits;                          \
			const uint64_t mask = (1u << bits) - 1;                                                      \
			uint32_t count[1 << WIDE] = { 0 };                                                           \
			int64_t m = 0;                                                                               \
			for (int64_t i = 0; i < n; i++) {                                                            \
				const uint64_t x = KEY(a[i]) >> down;                                                    \
				if (!level || x >> bits == prefix) count[x & mask]++;                                    \
			}                                                                                            \
			prefix <<= bits;                                                                             \
			while (less + count[prefix & mask] < k) less += count[prefix++ & mask];                      \
			for (int64_t i = 0; i < n; i++) {                                                            \
				const E x = a[i];                                                                        \
				a[m] = x;                                                                                \
				m += KEY(x) >> down <= prefix;                                                           \
			}                                                                                            \
			n = m;                                                                                       \
			hi = down;                                                                                   \
		}                                                                                                \
		return n;                                                                                        \
	}
#define WHOLE(x) (uint64_t)(x)
#define FIRST(x) (x).key
RADIX(sort_32, uint32_t, WHOLE)
RADIX(sort_64, uint64_t, WHOLE)
RADIX(sort_pairs, pair, FIRST)
SELECT(select_64, uint64_t, WHOLE)
SELECT(select_pairs, pair, FIRST)

/* ---- keys, of the bits u of an element: the highest `bits` of 32 or 64 ---- */
static uint32_t key_u8(uint32_t u) { return u << 24; }
static uint32_t key_truth(uint32_t u) { return (uint32_t)(u != 0) << 24; }
static uint32_t key_i8(uint32_t u) { return (u ^ 0x80) << 24; }
static uint32_t key_i16(uint32_t u) { return (u ^ 0x8000) << 16; }
static uint32_t key_i32(uint32_t u) { return u ^ 0x80000000u; }
static uint64_t key_i64(uint64_t u) { return u ^ (uint64_t)INT64_MIN; }
/* A negative float has all bits flipped, so that larger magnitudes are smaller; another one the sign. NaN has the last key. */
#define FLOAT_KEY(name, K, width, inf, up)                                         \
	static K name(K u)                                                             \
	{                                                                              \
		const K sign = (K)1 << (width - 1), all = sign | (sign - 1);               \
		if ((u & ~sign) > inf) return all << up;                                   \
		if (u == sign) u = 0;                                                      \
		return (u & sign ? ~u & all : u | sign) << up;                             \
	}
FLOAT_KEY(key_f16, uint32_t, 16, 0x7c00, 16)
FLOAT_KEY(key_bf16, uint32_t, 16, 0x7f80, 16)
FLOAT_KEY(key_f32, uint32_t, 32, 0x7f800000, 0)
FLOAT_KEY(key_f64, uint64_t, 64, 0x7ff0000000000000, 0)
/* Back: the bits of the element. */
static uint32_t of_u8(uint32_t k) { return k >> 24; }
static uint32_t of_i8(uint32_t k) { return k >> 24 ^ 0x80; }
static uint32_t of_i16(uint32_t k) { return k >> 16 ^ 0x8000; }
static uint32_t of_i32(uint32_t k) { return key_i32(k); }
static uint64_t of_i64(uint64_t k) { return key_i64(k); }
static uint32_t of_f16(uint32_t k) { return k >> 31 ? k >> 16 ^ 0x8000 : ~k >> 16; }
static uint32_t of_f32(uint32_t k) { return k >> 31 ? k ^ 0x80000000u : ~k; }
static uint64_t of_f64(uint64_t k) { return k >> 63 ? k ^ (uint64_t)INT64_MIN : ~k; }

typedef struct code { /* how a dtype is sorted */
	int bits;
	bool (*alone)(const void *x, int64_t step, int64_t n, bool down, void *keys);     /* writes the keys; false: there is a -0.0 */
	void (*indexed)(const void *x, int64_t step, int64_t n, bool down, void *entries);
	void (*back)(const void *keys, int64_t n, bool down, void *y, int64_t step);
	void (*pick)(const void *x, int64_t step, const void *entries, int64_t n, void *y); /* the elements of the entries */
} code;

#define PUT_PACKED(k, i) (uint64_t)(k) << 32 | (uint64_t)(i)
#define AT_PACKED(e) (int64_t)((e) & UINT32_MAX)
#define PUT_PAIR(k, i) (pair){ k, i }
#define AT_PAIR(e) (e).at
#define CODE(name, U, K, E, PUT, AT, minus_zero, key, of)                                                  \
	static bool name##_alone(const void *from, int64_t step, int64_t n, bool down, void *keys)             \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const K flip = down ? (K)-1 : 0;                                                                   \
		K *k = keys;                                                                                       \
		bool found = false;                                                                                \
		for (int64_t i = 0; i < n; i++) {                                                                  \
			found |= minus_zero && x[i * step] == (U)(minus_zero);                                         \
			k[i] = key(x[i * step]) ^ flip;                                                                \
		}                                                                                                  \
		return !found;                                                                                     \
	}                                                                                                      \
	static void name##_indexed(const void *from, int64_t step, int64_t n, bool down, void *entries)        \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const K flip = down ? (K)-1 : 0;                                                                   \
		E *e = entries;                                                                                    \
		for (int64_t i = 0; i < n; i++) e[i] = PUT(key(x[i * step]) ^ flip, i);                            \
	}                                                                                                      \
	static void name##_back(const void *keys, int64_t n, bool down, void *to, int64_t step)                \
	{                                                                                                      \
		const K *k = keys, flip = down ? (K)-1 : 0;                                                        \
		U *y = to;                                                                                         \
		for (int64_t i = 0; i < n; i++) y[i * step] = (U)of(k[i] ^ flip);                                  \
	}                                                                                                      \
	static void name##_pick(const void *from, int64_t step, const void *entries, int64_t n, void *to)      \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const E *e = entries;                                                                              \
		U *y = to;                                                                                         \
		for (int64_t i = 0; i < n; i++) y[i * step] = x[AT(e[i]) * step];                                  \
	}
#define CODE_32(name, U, minus_zero, of) CODE(name, U, uint32_t, uint64_t, PUT_PACKED, AT_PACKED, minus_zero, key_##name, of)
#define CODE_64(name, minus_zero, of) CODE(name, uint64_t, uint64_t, pair, PUT_PAIR, AT_PAIR, minus_zero, key_##name, of)
CODE_32(truth, uint8_t, 0, of_u8)
CODE_32(u8, uint8_t, 0, of_u8)
CODE_32(i8, uint8_t, 0, of_i8)
CODE_32(i16, uint16_t, 0, of_i16)
CODE_32(i32, uint32_t, 0, of_i32)
CODE_32(f16, uint16_t, 0x8000, of_f16)
CODE_32(bf16, uint16_t, 0x8000, of_f16)
CODE_32(f32, uint32_t, 0x80000000u, of_f32)
CODE_64(i64, 0, of_i64)
CODE_64(f64, (uint64_t)INT64_MIN, of_f64)

#define OF(name, bits) { bits, name##_alone, name##_indexed, name##_back, name##_pick }
static const code codes[] = { [TJ_BOOL] = OF(truth, 8), [TJ_U8] = OF(u8, 8), [TJ_I8] = OF(i8, 8), [TJ_I16] = OF(i16, 16), [TJ_I32] = OF(i32, 32), [TJ_I64] = OF(i64, 64),
	                          [TJ_F16] = OF(f16, 16), [TJ_BF16] = OF(bf16, 16), [TJ_F32] = OF(f32, 32), [TJ_F64] = OF(f64, 64) };

/* ---- a line ---- */
typedef struct walk {
	const code *code;
	const char *x;
	char *y;
	size_t size, result;       /* bytes of an element of x and y */
	int64_t n, k, inner;       /* k: elements of a line of y */
	bool down, indices;
	atomic_bool failed;        /* out of memory */
} walk;

static size_t entry(const walk *w) { return w->code->bits > 32 ? sizeof(pair) : sizeof(uint64_t); }

/* Without their indices the sorted elements are those of the keys. */
static bool sort_alone(const walk *w, const char *x, char *y, void *a, void *copy)
{
	const int bits = w->code->bits;
	if (w->indices || w->k < w->n || !w->code->alone(x, w->inner, w->n, w->down, a)) return false;
	const void *sorted = bits > 32 ? (void *)sort_64(a, copy, w->n, 0, 64) : (void *)sort_32(a, copy, w->n, 32 - bits, 32);
	w->code->back(sorted, w->n, w->down, y, w->inner);
	return true;
}

static void put_indices(const walk *w, const void *sorted, int64_t *y)
{
	for (int64_t i = 0; i < w->k; i++) y[i * w->inner] = w->code->bits > 32 ? ((const pair *)sorted)[i].at : AT_PACKED(((const uint64_t *)sorted)[i]);
}

static void sort_line(const walk *w, const char *x, char *y, void *a, void *copy)
{
	const int bits = w->code->bits, hi = 64, lo = 64 - bits;
	if (sort_alone(w, x, y, a, copy)) return;
	w->code->indexed(x, w->inner, w->n, w->down, a);
	const int64_t n = bits > 32 ? select_pairs(a, w->n, w->k, lo, hi) : select_64(a, w->n, w->k, lo, hi);
	const void *sorted = bits > 32 ? (void *)sort_pairs(a, copy, n, lo, hi) : (void *)sort_64(a, copy, n, lo, hi);
	if (w->indices) put_indices(w, sorted, (int64_t *)(void *)y);
	else w->code->pick(x, w->inner, sorted, w->k, y);
}

/* Units: the lines. Neighbouring ones, if the axis is not the last, read the same cache lines. */
static void run_lines(void *env, int thread, int64_t begin, int64_t end)
{
	walk *w = env;
	(void)thread;
	char *a = rt_alloc(2 * (size_t)w->n * entry(w));
	if (!a) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
	for (int64_t l = begin; a && l < end; l++) {
		const int64_t o = l / w->inner, j = l % w->inner;
		sort_line(w, w->x + (o * w->n * w->inner + j) * (int64_t)w->size, w->y + (o * w->k * w->inner + j) * (int64_t)w->result, a, a + (size_t)w->n * entry(w));
	}
	rt_free(a);
}

/* ---- the step ---- */
static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = ir_ops[lo_node(L, s->ref)->op].name;
	return lo_put_operands(L, p, s, t);
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	const ir_meta *m = &e->src[0].meta;
	const tj_dtype t = (tj_dtype)m->dtype;
	const bool all = e->op == IR_sort;
	int64_t outer = 1;
	walk w = { .code = &codes[t], .x = buf[0], .y = buf[1], .size = tj_dtype_size(t), .n = 1, .inner = 1, .down = e->attr[all ? 1 : 2] != 0, .indices = e->which == 1 };
	w.result = w.indices ? sizeof(int64_t) : w.size;
	for (int i = 0; i < m->rank; i++) *(i < e->attr[0] ? &outer : i > e->attr[0] ? &w.inner : &w.n) *= m->dim[i];
	w.k = all ? w.n : e->attr[1];
	if (outer * w.inner * w.k == 0) return TJ_OK;
	if (w.n > UINT32_MAX) return rt_fail(r->err, TJ_ERR_LIMIT, ir_ops[e->op].name, "the axis has more than 2^32 - 1 elements");
	const double ns = (double)w.n * (all ? 10 : 4); /* of a line */
	rt_team_run(r, outer * w.inner, ns < 2e3 ? (int64_t)(2e3 / ns) + 1 : 1, ns * (double)(outer * w.inner), run_lines, &w);
	return atomic_load(&w.failed) ? rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[e->op].name, "out of memory") : TJ_OK;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it moves elements by their values";
}

const lo_routine lo_sort = { .op = IR_sort, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why };
const lo_routine lo_topk = { .op = IR_topk, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why };
