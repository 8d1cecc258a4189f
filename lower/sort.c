/* SPDX-License-Identifier: MIT */
/* sort, topk, take_sorted: radix sorts and selections of ours. Elements become unsigned keys that are in the order wanted; equal elements
 * have equal keys, and the sort is stable. What is sorted is
 *
 *   keys of up to 32 bits     key << 32 | index
 *   keys of 64 bits           pairs of key and index
 *   values only               keys alone, from which the elements are made again; not if there is a -0.0, which has the key of 0.0
 *
 * A radix sort counts the digits of all keys first, then moves the keys once for each digit that differs. topk sorts fewer elements: of a
 * long line only those that are not behind an element of a sample; of these only those whose highest digits are not behind those of element
 * k.
 *
 * take_sorted of few places does not sort: it counts the keys below elements of a sample, which is quick, until two neighbours of the
 * sample have the place between them. It looks for the element in the few that are between these. */
#include "lower/library.h"

#include <stdatomic.h>

enum {
	FEW = 40,               /* up to so many elements are inserted one by one */
	DIGIT = 8, MASK = 255,
	MOST_DIGITS = 8,
	LONG = 11, LEVELS = 2,  /* bits of a digit that topk counts, and how many of them */
	FEW_PLACES = 4,         /* up to so many places of a line are looked for one by one; twice as many if keys have 64 bits */
	PATIENCE = 48,          /* a selection that took so many steps sorts what is left */
	MOST_SAMPLES = 256,     /* elements of a long line between which a place is looked for */
	SAMPLE = 1024, LOOK = 16 /* elements that give topk a bound; elements that are compared with it at a time */
};

typedef struct pair { uint64_t key; int64_t at; } pair;

/* ---- sorts of n elements by the bits lo..hi - 1 of their keys: a, or its copy, is the result ---- */
#define RADIX(name, E, KEY) \
	static void name##_insert(E *a, int64_t n) \
	{ \
		for (int64_t i = 1; i < n; i++) { \
			const E x = a[i]; \
			int64_t k = i; \
			for (; k > 0 && KEY(a[k - 1]) > KEY(x); k--) a[k] = a[k - 1]; \
			a[k] = x; \
		} \
	} \
	static inline void name##_count(const E *a, int64_t n, int lo, int digits, uint32_t count[2][MOST_DIGITS][MASK + 1]) \
	{ \
		for (int64_t i = 0; i < n; i++) { \
			uint64_t x = KEY(a[i]) >> lo; \
			for (int d = 0; d < digits; d++, x >>= DIGIT) count[i & 1][d][x & MASK]++; \
		} \
	} \
	static E *name(E *a, E *copy, int64_t n, int lo, int hi) \
	{ \
		if (n <= FEW) return name##_insert(a, n), a; \
		uint32_t count[2][MOST_DIGITS][MASK + 1] = { \
			0 \
		}; /* of elements with even and odd index: equal digits in a row do not wait for each other */ \
		const int digits = (hi - lo) / DIGIT; \
		switch (digits) { \
		case 1: name##_count(a, n, lo, 1, count); break; \
		case 2: name##_count(a, n, lo, 2, count); break; \
		case 4: name##_count(a, n, lo, 4, count); break; \
		default: name##_count(a, n, lo, 8, count); break; \
		} \
		for (int d = 0; d < digits; d++) { \
			uint32_t *c = count[0][d], *odd = count[1][d], sum = 0; \
			const int down = lo + d * DIGIT; \
			const uint64_t first = KEY(a[0]) >> down & MASK; \
			if (c[first] + odd[first] == n) continue; \
			for (int b = 0; b <= MASK; b++) { \
				const uint32_t own = c[b] + odd[b]; \
				c[b] = sum; \
				sum += own; \
			} \
			for (int64_t i = 0; i < n; i++) copy[c[KEY(a[i]) >> down & MASK]++] = a[i]; \
			E *const other = a; \
			a = copy; \
			copy = other; \
		} \
		return a; \
	}
/* Moves the elements that may be among the first k to the front, in their order. Returns their number. */
#define SELECT(name, E, KEY)                                                                             \
	static int64_t name(E *a, int64_t n, int64_t k, int lo, int hi)                             \
	{                                                                                                    \
		uint64_t prefix = 0;                                                                             \
		int64_t less = 0; /* elements whose digits so far are below the prefix */                        \
		for (int level = 0; level < LEVELS && n > FEW && 2 * k < n && hi > lo; level++) {                \
			const int bits = hi - lo < LONG ? hi - lo : LONG, down = hi - bits;                          \
			const uint64_t mask = (1u << bits) - 1;                                                      \
			uint32_t count[1 << LONG] = { 0 };                                                           \
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
	static inline K name(K u)                                                             \
	{                                                                              \
		const K sign = (K)1 << (width - 1), all = sign | (sign - 1);               \
		const K none = u == sign ? 0 : u, k = none ^ (none & sign ? all : sign);   \
		return ((u & ~sign) > inf ? all : k) << up;                                \
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
	int64_t (*upto)(const void *x, int64_t step, int64_t n, bool down, const void *last,
	                void *entries); /* the same for elements that are not behind an entry. Their number */
	void (*back)(const void *keys, int64_t n, bool down, void *y, int64_t step);
	void (*pick)(const void *x, int64_t step, const void *entries, int64_t n, void *y); /* the elements of the entries */
} code;

#define PUT_PACKED(k, i) (uint64_t)(k) << 32 | (uint64_t)(i)
#define AT_PACKED(e) (int64_t)((e) & UINT32_MAX)
#define KEY_PACKED(e) (uint32_t)((e) >> 32)
#define PUT_PAIR(k, i) (pair){ k, i }
#define AT_PAIR(e) (e).at
#define WIDE __attribute__((target("avx2")))
#define ALONE(name, target, U, K, minus_zero, key)                                                         \
	target static bool name(const void *from, int64_t step, int64_t n, bool down, void *keys)              \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const K flip = down ? (K)-1 : 0;                                                                   \
		K *k = keys, found = 0;                                                                            \
		if (step == 1)                                                                                     \
			for (int64_t i = 0; i < n; i++) {                                                              \
				found |= minus_zero && x[i] == (U)(minus_zero) ? 1 : 0;                                    \
				k[i] = key(x[i]) ^ flip;                                                                   \
			}                                                                                              \
		else                                                                                               \
			for (int64_t i = 0; i < n; i++) {                                                              \
				found |= minus_zero && x[i * step] == (U)(minus_zero) ? 1 : 0;                             \
				k[i] = key(x[i * step]) ^ flip;                                                            \
			}                                                                                              \
		return !found;                                                                                     \
	}
#define CODE(name, U, K, E, PUT, AT, KEY, minus_zero, key, of)                                                  \
	ALONE(name##_alone_plain, , U, K, minus_zero, key)                                                     \
	ALONE(name##_alone_wide, WIDE, U, K, minus_zero, key)                                                  \
	static bool name##_alone(const void *x, int64_t step, int64_t n, bool down, void *keys)                \
	{                                                                                                      \
		return (__builtin_cpu_supports("avx2") ? name##_alone_wide : name##_alone_plain)(x, step, n, down, keys); \
	}                                                                                                      \
	static void name##_indexed(const void *from, int64_t step, int64_t n, bool down, void *entries)        \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const K flip = down ? (K)-1 : 0;                                                                   \
		E *e = entries;                                                                                    \
		if (step == 1)                                                                                     \
			for (int64_t i = 0; i < n; i++) e[i] = PUT(key(x[i]) ^ flip, i);                               \
		else for (int64_t i = 0; i < n; i++) e[i] = PUT(key(x[i * step]) ^ flip, i);                            \
	}                                                                                                      \
	static int64_t name##_upto(const void *from, int64_t step, int64_t n, bool down, const void *last, void *entries) \
	{                                                                                                      \
		const U *x = from;                                                                                 \
		const K flip = down ? (K)-1 : 0, most = KEY(*(const E *)last);                                     \
		E *e = entries;                                                                                    \
		int64_t m = 0, i = 0;                                                                              \
		for (; i + LOOK <= n; i += LOOK) {                                                                 \
			K any = 0;                                                                                     \
			if (step == 1)                                                                                 \
				for (int l = 0; l < LOOK; l++) any |= (key(x[i + l]) ^ flip) <= most ? (K)1 : (K)0;        \
			for (int l = 0; (any || step != 1) && l < LOOK; l++) {                                         \
				const K k = key(x[(i + l) * step]) ^ flip;                                                 \
				e[m] = PUT(k, i + l);                                                                      \
				m += k <= most;                                                                            \
			}                                                                                              \
		}                                                                                                  \
		for (; i < n; i++) {                                                                               \
			const K k = key(x[i * step]) ^ flip;                                                           \
			e[m] = PUT(k, i);                                                                              \
			m += k <= most;                                                                                \
		}                                                                                                  \
		return m;                                                                                          \
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
#define CODE_32(name, U, minus_zero, of) CODE(name, U, uint32_t, uint64_t, PUT_PACKED, AT_PACKED, KEY_PACKED, minus_zero, key_##name, of)
#define CODE_64(name, minus_zero, of) CODE(name, uint64_t, uint64_t, pair, PUT_PAIR, AT_PAIR, FIRST, minus_zero, key_##name, of)
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

#define OF(name, bits) { bits, name##_alone, name##_indexed, name##_upto, name##_back, name##_pick }
static const code codes[] = {
	[TJ_BOOL] = OF(truth, 8), [TJ_U8] = OF(u8, 8),    [TJ_I8] = OF(i8, 8),      [TJ_I16] = OF(i16, 16), [TJ_I32] = OF(i32, 32),
	[TJ_I64] = OF(i64, 64),   [TJ_F16] = OF(f16, 16), [TJ_BF16] = OF(bf16, 16), [TJ_F32] = OF(f32, 32), [TJ_F64] = OF(f64, 64)
};

/* ---- where the elements are that a sorted line has at some places ---- */
#define BELOW(name, K, target)                                                                       \
	target static int64_t name(const K *k, int64_t n, K x)                                           \
	{                                                                                                \
		K sum = 0;                                                                                   \
		for (int64_t i = 0; i < n; i++) sum += k[i] < x ? 1 : 0;                                     \
		return (int64_t)sum;                                                                         \
	}
/* Element `place` of a, sorted. Moves elements. */
#define NTH(name, K, bits, sort)                                                                     \
	static int64_t name##_part(K *a, int64_t n, K x, bool with) /* moves those below x to the front; with: and those equal to it */ \
	{                                                                                                \
		int64_t m = 0;                                                                               \
		for (int64_t i = 0; i < n; i++) {                                                            \
			const K v = a[i];                                                                        \
			a[i] = a[m];                                                                             \
			a[m] = v;                                                                                \
			m += with ? v <= x : v < x;                                                              \
		}                                                                                            \
		return m;                                                                                    \
	}                                                                                                \
	static K name##_middle(K x, K y, K z)                                                            \
	{                                                                                                \
		const K low = x < y ? x : y, high = x < y ? y : x, most = high < z ? high : z;               \
		return low > most ? low : most;                                                              \
	}                                                                                                \
	static K name(K *a, K *copy, int64_t n, int64_t place)                                           \
	{                                                                                                \
		for (int step = 0; n > FEW / 4; step++) {                                                    \
			if (step == PATIENCE) return sort(a, copy, n, 0, bits)[place];                           \
			const K x = name##_middle(a[n / 4], a[n / 2], a[3 * n / 4]);                             \
			int64_t m = name##_part(a, n, x, false);                                                 \
			if (!m && place < (m = name##_part(a, n, x, true))) return x; /* x is the least */       \
			if (place < m) n = m;                                                                    \
			else a += m, n -= m, place -= m;                                                         \
		}                                                                                            \
		sort##_insert(a, n);                                                                         \
		return a[place];                                                                             \
	}
static int samples_of(int64_t n) { return n < 64 ? 0 : n < 512 ? MOST_SAMPLES / 16 : n < 8192 ? MOST_SAMPLES / 8 : MOST_SAMPLES; }
/* A line of n keys, and an ascending sample of it. found: the indices of the elements at m places. copy: room for 2n keys; keys: for n
 * indices behind them. */
#define CHOOSE(name, K, bits, sort)                                                                  \
	BELOW(name##_below, K, )                                                                         \
	BELOW(name##_below_wide, K, WIDE)                                                                \
	NTH(name##_nth, K, bits, sort)                                                                   \
	/* The last element of the sample that has no more than `place` keys below it; -1: none. below: of each; -1: not counted yet. */ \
	static int name##_last(const K *k, int64_t n, const K *sample, int samples, int64_t *below, int64_t place) \
	{                                                                                                \
		const bool wide = __builtin_cpu_supports("avx2");                                            \
		int low = -1, high = samples, i = (int)(place * samples / n), step = 1;                      \
		while (high - low > 1) {                                                                     \
			if (below[i] < 0) below[i] = (wide ? name##_below_wide : name##_below)(k, n, sample[i]); \
			const bool up = below[i] <= place;                                                       \
			if (up) low = i;                                                                         \
			else high = i;                                                                           \
			i = up ? i + step : i - step;                                                            \
			if (i <= low || i >= high) i = low + (high - low) / 2;                                   \
			step *= 2;                                                                               \
		}                                                                                            \
		return low;                                                                                  \
	}                                                                                                \
	static int64_t name##_between(const K *k, int64_t n, K low, K high, uint32_t *at)                \
	{                                                                                                \
		int64_t m = 0;                                                                               \
		const K span = high - low;                                                                   \
		for (int64_t i = 0; i < n; i++) {                                                            \
			at[m] = (uint32_t)i;                                                                     \
			m += (K)(k[i] - low) <= span;                                                            \
		}                                                                                            \
		return m;                                                                                    \
	}                                                                                                \
	/* The index of the element that has the place among the n candidates at[]: of equal ones the first is first. */ \
	static int64_t name##_among(const K *k, const uint32_t *at, int64_t n, K *few, K *copy, int64_t place) \
	{                                                                                                \
		int64_t i = 0;                                                                               \
		for (; i < n; i++) few[i] = k[at[i]];                                                        \
		const K x = name##_nth(few, copy, n, place);                                                 \
		for (i = 0; i < n; i++) place -= k[at[i]] < x;                                               \
		for (i = 0; k[at[i]] != x || place--; i++) {}                                                \
		return at[i];                                                                                \
	}                                                                                                \
	static void name(void *keys, void *copy, int64_t n, const int64_t *place, int64_t step, int64_t m, int64_t *found) \
	{                                                                                                \
		K *k = keys, *few = copy, some[MOST_SAMPLES], spare[MOST_SAMPLES];                         \
		uint32_t *const at = (uint32_t *)(void *)(k + n);                                            \
		int64_t below[MOST_SAMPLES], count = 0;                                                      \
		const int samples = samples_of(n);                                                           \
		const int64_t part = samples ? n / samples : 1;                                              \
		for (int i = 0; i < samples; i++) {                                                          \
			some[i] = k[i * part + i % part];                                                        \
			below[i] = -1;                                                                           \
		}                                                                                            \
		const K *sample = sort(some, spare, samples, 0, bits);                                       \
		for (int64_t j = 0, had = -2; j < m; j++) {                                                  \
			const int i = name##_last(k, n, sample, samples, below, place[j * step]);                \
			const K first = i < 0 ? 0 : sample[i], last = i + 1 < samples ? sample[i + 1] - 1 : (K)-1; \
			if (i != had) count = name##_between(k, n, first, last, at);                             \
			found[j] = name##_among(k, at, count, few, few + n, place[j * step] - (i < 0 ? 0 : below[i])); \
			had = i;                                                                                 \
		}                                                                                            \
	}
CHOOSE(choose_32, uint32_t, 32, sort_32)
CHOOSE(choose_64, uint64_t, 64, sort_64)

/* ---- a line ---- */
typedef struct walk {
	const code *code;
	const char *x;
	char *y;
	size_t size, result;       /* bytes of an element of x and y */
	int64_t n, k, inner;       /* k: elements of a line of y */
	bool down, indices;
	char *scratch;             /* of each thread: two lines of entries */
} walk;

static size_t entry(const walk *w) { return w->code->bits > 32 ? sizeof(pair) : sizeof(uint64_t); }

static size_t line_bytes(const walk *w) { return ((size_t)w->n * entry(w) + RT_LINE - 1) / RT_LINE * RT_LINE; }

/* Without their indices the sorted elements are those of the keys. */
static bool sort_alone(const walk *w, const char *x, char *y, void *a, void *copy)
{
	const int bits = w->code->bits;
	void *keys = w->inner == 1 && bits >= 32 ? y : a;
	if (w->indices || w->k < w->n || !w->code->alone(x, w->inner, w->n, w->down, keys)) return false;
	const void *sorted = bits > 32 ? (void *)sort_64(keys, copy, w->n, 0, 64) : (void *)sort_32(keys, copy, w->n, 32 - bits, 32);
	w->code->back(sorted, w->n, w->down, y, w->inner);
	return true;
}

static void put_indices(const walk *w, const void *sorted, int64_t *y)
{
	for (int64_t i = 0; i < w->k; i++)
		y[i * w->inner] = w->code->bits > 32 ? ((const pair *)sorted)[i].at : AT_PACKED(((const uint64_t *)sorted)[i]);
}

static void *sort_entries(const walk *w, void *a, void *copy, int64_t n)
{
	const int hi = 64, lo = hi - w->code->bits;
	return w->code->bits > 32 ? (void *)sort_pairs(a, copy, n, lo, hi) : (void *)sort_64(a, copy, n, lo, hi);
}

/* Writes the entries that are not behind an element of a sample, which is likely to be behind element k. Returns their number; 0: there are
 * too few. */
static int64_t bounded(const walk *w, const char *x, void *a, void *copy)
{
	const int64_t rank = 4 + 2 * w->k * SAMPLE / w->n;
	if (rank >= SAMPLE / 8 || w->n < 4 * SAMPLE) return 0;
	w->code->indexed(x, w->inner * (w->n / SAMPLE), SAMPLE, w->down, copy);
	const char *sorted = sort_entries(w, copy, a, SAMPLE);
	pair last;
	memcpy(&last, sorted + (size_t)rank * entry(w), entry(w));
	const int64_t n = w->code->upto(x, w->inner, w->n, w->down, &last, a);
	return n < w->k ? 0 : n;
}

/* Writes the entries that may be among the first k to `a`. Returns their number. */
static int64_t candidates(const walk *w, const char *x, void *a, void *copy)
{
	const int hi = 64, lo = hi - w->code->bits;
	int64_t n = bounded(w, x, a, copy);
	if (!n) w->code->indexed(x, w->inner, n = w->n, w->down, a);
	return w->code->bits > 32 ? select_pairs(a, n, w->k, lo, hi) : select_64(a, n, w->k, lo, hi);
}

static void sort_line(const walk *w, const char *x, char *y, void *a, void *copy)
{
	if (sort_alone(w, x, y, a, copy)) return;
	const void *sorted = sort_entries(w, a, copy, candidates(w, x, a, copy));
	if (w->indices) put_indices(w, sorted, (int64_t *)(void *)y);
	else w->code->pick(x, w->inner, sorted, w->k, y);
}

/* Units: the lines. Neighbouring ones, if the axis is not the last, read the same cache lines. */
static void run_lines(void *env, int thread, int64_t begin, int64_t end)
{
	const walk *w = env;
	char *a = w->scratch + 2 * line_bytes(w) * (size_t)thread;
	for (int64_t l = begin; l < end; l++) {
		const int64_t o = l / w->inner, j = l % w->inner;
		sort_line(w, w->x + (o * w->n * w->inner + j) * (int64_t)w->size, w->y + (o * w->k * w->inner + j) * (int64_t)w->result, a,
		          a + line_bytes(w));
	}
}

/* ---- a line of take_sorted ---- */
typedef struct taking {
	walk of;                   /* x; k: places of a line */
	const int64_t *place;
	int rank, axis;
	int64_t dim[TJ_MAX_RANK];  /* of the places and the result */
	int64_t x[TJ_MAX_RANK + 1], y[TJ_MAX_RANK + 1]; /* strides of x; of the places and the result */
	atomic_bool bad;           /* a place is out of range */
} taking;

static void copy_element(char *to, const char *from, size_t size)
{
	switch (size) {
	case 1: *to = *from; break;
	case 2: memcpy(to, from, 2); break;
	case 4: memcpy(to, from, 4); break;
	default: memcpy(to, from, 8); break;
	}
}

static void put_taken(const walk *w, const char *x, int64_t from, char *y)
{
	if (w->indices) memcpy(y, &from, sizeof from);
	else copy_element(y, x + from * w->inner * (int64_t)w->size, w->size);
}

static void take_few(const walk *w, const char *x, const int64_t *place, char *y, int64_t step, char *a, char *copy)
{
	int64_t found[2 * FEW_PLACES];
	w->code->alone(x, w->inner, w->n, false, a);
	(w->code->bits > 32 ? choose_64 : choose_32)(a, copy, w->n, place, step, w->k, found);
	for (int64_t i = 0; i < w->k; i++) put_taken(w, x, found[i], y + i * step * (int64_t)w->result);
}

static void take_many(const walk *w, const char *x, const int64_t *place, char *y, int64_t step, char *a, char *copy)
{
	w->code->indexed(x, w->inner, w->n, false, a);
	const void *sorted = sort_entries(w, a, copy, w->n);
	for (int64_t i = 0; i < w->k; i++) {
		const int64_t p = place[i * step];
		put_taken(w, x, w->code->bits > 32 ? ((const pair *)sorted)[p].at : AT_PACKED(((const uint64_t *)sorted)[p]),
		          y + i * step * (int64_t)w->result);
	}
}

static bool few_places(const walk *w) { return w->k <= (w->code->bits > 32 ? 2 : 1) * FEW_PLACES && w->n > FEW; }

static void take_line(taking *t, const char *x, const int64_t *place, char *y, char *a)
{
	const walk *w = &t->of;
	const int64_t step = t->y[t->axis];
	for (int64_t i = 0; i < w->k; i++)
		if (place[i * step] < 0 || place[i * step] >= w->n) {
			atomic_store_explicit(&t->bad, true, memory_order_relaxed);
			return;
		}
	(few_places(w) ? take_few : take_many)(w, x, place, y, step, a, a + line_bytes(w));
}

/* Units: the lines of the result. */
static void take_lines(void *env, int thread, int64_t begin, int64_t end)
{
	taking *t = env;
	const walk *w = &t->of;
	for (int64_t l = begin; l < end; l++) {
		int64_t rest = l, x = 0, y = 0;
		for (int d = t->rank; d-- > 0;) {
			if (d == t->axis) continue;
			x += rest % t->dim[d] * t->x[d];
			y += rest % t->dim[d] * t->y[d];
			rest /= t->dim[d];
		}
		take_line(t, w->x + x * (int64_t)w->size, t->place + y, w->y + y * (int64_t)w->result, w->scratch + 2 * line_bytes(w) * (size_t)thread);
	}
}

/* ---- the step ---- */
static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = ir_ops[lo_node(L, s->ref)->op].name;
	return lo_put_operands(L, p, s, t);
}

/* Shares out the lines; ns: of one. */
static tj_status run_walk(walk *w, int64_t lines, double ns, void (*unit)(void *env, int thread, int64_t begin, int64_t end), void *env,
                          ir_op op, rt_run *r)
{
	if (w->n > UINT32_MAX) return rt_fail(r->err, TJ_ERR_LIMIT, ir_ops[op].name, "the axis has more than 2^32 - 1 elements");
	w->scratch = rt_pool_scratch(r->pool, lines > 1 && r->team ? rt_team_size(r->team) : 1, 2 * line_bytes(w));
	if (!w->scratch) return rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
	if (lines == 1) unit(env, 0, 0, 1);
	else rt_team_run(r, lines, ns < 2e3 ? (int64_t)(2e3 / ns) + 1 : 1, ns * (double)lines, unit, env);
	return TJ_OK;
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	const ir_meta *m = &e->src[0].meta;
	const tj_dtype t = (tj_dtype)m->dtype;
	const bool all = e->op == IR_sort;
	int64_t outer = 1;
	walk w = { .code = &codes[t],
		   .x = buf[0],
		   .y = buf[1],
		   .size = tj_dtype_size(t),
		   .n = 1,
		   .inner = 1,
		   .down = e->attr[all ? 1 : 2] != 0,
		   .indices = e->which == 1 };
	w.result = w.indices ? sizeof(int64_t) : w.size;
	for (int i = 0; i < m->rank; i++) *(i < e->attr[0] ? &outer : i > e->attr[0] ? &w.inner : &w.n) *= m->dim[i];
	w.k = all ? w.n : e->attr[1];
	if (outer * w.inner * w.k == 0) return TJ_OK;
	return run_walk(&w, outer * w.inner, (double)w.n * (all ? 10 : 4), run_lines, &w, e->op, r);
}

static tj_status take(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	const ir_meta *m = &e->src[0].meta, *p = &e->src[1].meta;
	const tj_dtype t = (tj_dtype)m->dtype;
	taking x = {
		.of = { .code = &codes[t], .x = buf[0], .y = buf[2], .size = tj_dtype_size(t), .n = 1, .k = 1, .indices = e->which == 1 },
		.place = buf[1],
		.rank = p->rank,
		.axis = (int)e->attr[0]
	};
	int64_t lines = 1;
	for (int i = 0; i < p->rank; i++) *(i == x.axis ? &x.of.k : &lines) *= x.dim[i] = p->dim[i];
	if (lines * x.of.k == 0) return TJ_OK;
	ir_contiguous(m->rank, m->dim, x.x);
	ir_contiguous(p->rank, p->dim, x.y);
	if (!m->rank) x.x[0] = x.y[0] = 1;
	else x.of.n = m->dim[x.axis];
	x.of.inner = x.x[x.axis];
	x.of.result = x.of.indices ? sizeof(int64_t) : x.of.size;
	const double ns = (double)x.of.n * (few_places(&x.of) ? 0.2 + 0.5 * (double)x.of.k : 10);
	const tj_status st = x.of.n ? run_walk(&x.of, lines, ns, take_lines, &x, e->op, r) : TJ_OK;
	return st == TJ_OK && (x.bad || !x.of.n) ? rt_fault_fail(&(rt_fault){ e->site, ir_ops[e->op].name, TJ_ERR_INDEX, x.of.n }, r->err) : st;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it moves elements by their values";
}

const lo_routine lo_sort = { .op = IR_sort, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why };
const lo_routine lo_topk = { .op = IR_topk, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why };
const lo_routine lo_take_sorted = { .op = IR_take_sorted, .takes = lo_takes_row_major, .make = make, .code = { take, NULL }, .why = why };
