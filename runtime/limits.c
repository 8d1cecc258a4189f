/* SPDX-License-Identifier: MIT */
/* limits: what the machine can do at most: how fast all threads together read memory, near and far, and how fast they multiply and add.
 *
 * Each figure is the best of a few tries, so that another program on the machine spoils none. Measured by loops over registers, written for
 * each width of vectors: what a compiler makes of plain C would measure the compiler. */
#include "runtime/profile.h"

#include "runtime/alloc.h"

#include <immintrin.h>
#include <time.h>
#include <unistd.h>

enum {
	FAR_TRIES = 4, TRIES = 24,
	ALONE_MOST = 20, REST_NS = 5 * 1000 * 1000,
	NEAR_MOST = 2 << 20, NEAR_LEAST = 64 << 10, /* bytes for a thread, from half of its second cache */
	MIDDLE = RT_THIRD_CACHE / 2, FAR = 128 << 20,
	PASS = 32 << 20,     /* bytes that a try reads at least */
	MULTIPLIES = 1 << 17 /* of a register, in a try */
};

typedef struct job {
	const char *from;
	int64_t each;        /* bytes of a thread */
	int64_t passes;
	void (*f)(const struct job *j, int64_t i);
	atomic_ullong seen;  /* keeps the compiler from dropping the work */
	atomic_int helped;   /* parts that threads of the team did */
} job;

/* ---- loops ---- */
#define READ(name, isa, V, step, load, mix, fold) \
	static __attribute__((target(isa))) uint64_t name(const char *at, int64_t n) \
	{ \
		V a = load(at), b = a, c = a, d = a; \
		for (const char *end = at + n; at < end; at += 4 * (step)) { \
			a = mix(a, load(at)), b = mix(b, load(at + (step))); \
			c = mix(c, load(at + 2 * (step))), d = mix(d, load(at + 3 * (step))); \
		} \
		a = mix(mix(a, b), mix(c, d)); \
		return (uint64_t)fold; \
	}
#define LOAD512(p) _mm512_load_si512((const void *)(p))
#define LOAD256(p) _mm256_load_si256((const __m256i *)(const void *)(p))
#define LOAD128(p) _mm_load_si128((const __m128i *)(const void *)(p))
READ(read_512, "avx512f", __m512i, 64, LOAD512, _mm512_xor_si512, _mm512_reduce_or_epi64(a))
READ(read_256, "avx2", __m256i, 32, LOAD256, _mm256_xor_si256, _mm256_extract_epi64(a, 0))
READ(read_128, "sse4.1", __m128i, 16, LOAD128, _mm_xor_si128, _mm_extract_epi64(a, 0))

/* Twelve chains: a result takes four clocks, and two start in each. */
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FIRST(k) V a##k = SET((float)k);
#define NEXT(k) a##k = MULTIPLY_ADD(a##k, by, plus);
#define LAST(k) plus = MULTIPLY_ADD(a##k, by, plus);
#define MULTIPLY(name, isa, first) \
	static __attribute__((target(isa))) float name(float x) \
	{ \
		V by = SET(x), plus = SET(1 - x); \
		TWELVE(FIRST) \
		for (int i = 0; i < MULTIPLIES; i++) { TWELVE(NEXT) } \
		TWELVE(LAST) \
		return first(plus); \
	}
#define V __m512
#define SET _mm512_set1_ps
#define MULTIPLY_ADD _mm512_fmadd_ps
MULTIPLY(multiply_512, "avx512f", _mm512_cvtss_f32)
#undef V
#undef SET
#undef MULTIPLY_ADD
#define V __m256
#define SET _mm256_set1_ps
#define MULTIPLY_ADD _mm256_fmadd_ps
MULTIPLY(multiply_256, "avx2,fma", _mm256_cvtss_f32)
#undef V
#undef SET
#undef MULTIPLY_ADD

static void read_part(const job *j, int64_t i)
{
	const char *at = j->from + i * j->each;
	const int bits = rt_vector_bits();
	uint64_t sum = 0;
	for (int64_t k = 0; k < j->passes; k++)
		sum ^= bits == 512 ? read_512(at, j->each) : bits == 256 ? read_256(at, j->each) : read_128(at, j->each);
	atomic_fetch_xor_explicit(&((job *)(uintptr_t)j)->seen, sum, memory_order_relaxed);
}

static void multiply_part(const job *j, int64_t i)
{
	const float x = 1 - (float)(i + 1) * 0x1p-20f, y = rt_vector_bits() == 512 ? multiply_512(x) : multiply_256(x);
	atomic_fetch_xor_explicit(&((job *)(uintptr_t)j)->seen, (uint64_t)y, memory_order_relaxed);
}

static void clear_part(const job *j, int64_t i) { memset((char *)(uintptr_t)j->from + i * j->each, 1, (size_t)j->each); }

static void run_parts(void *env, int thread, int64_t begin, int64_t end)
{
	job *j = env;
	if (thread) atomic_fetch_add_explicit(&j->helped, 1, memory_order_relaxed);
	for (int64_t i = begin; i < end; i++) j->f(j, i);
}

/* ns of the fastest of a few tries. On a busy machine the team rests for some time (team.c): then a try does not count, unless there are
 * too many of these. */
static double try(const rt_run *r, job *j, int threads, int tries)
{
	double best = 0;
	for (int k = 0, alone = 0; k < tries; k++) {
		const int64_t start = rt_now_ns();
		atomic_store(&j->helped, 0);
		rt_team_run(r, threads, 1, 1e9, run_parts, j);
		const double ns = (double)(rt_now_ns() - start);
		if (threads > 1 && !atomic_load(&j->helped) && alone++ < ALONE_MOST) {
			nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
			k--;
		} else if (best <= 0 || ns < best) best = ns;
	}
	return best;
}

/* ---- the figures ---- */
static void measure_reads(const rt_run *r, rt_limits *l)
{
	const long second = sysconf(_SC_LEVEL2_CACHE_SIZE);
	const int64_t near = second / 2 < NEAR_LEAST ? NEAR_LEAST : second / 2 > NEAR_MOST ? NEAR_MOST : second / 2;
	const int64_t all[RT_LEVELS] = { near * l->threads, MIDDLE, FAR };
	char *memory = rt_alloc_data(FAR);
	if (!memory) return;
	for (int i = RT_LEVELS; i-- > 0;) {
		const int64_t each = all[i] / l->threads / 256 * 256;
		job j = { .from = memory, .each = each, .f = clear_part };
		try(r, &j, l->threads, 1);
		j.f = read_part;
		j.passes = all[i] < PASS ? PASS / all[i] : 1;
		l->bytes[i] = i == RT_FAR ? INT64_MAX : i == RT_MIDDLE ? RT_THIRD_CACHE : 2 * all[i];
		l->byte_ns[i] = try(r, &j, l->threads, i == RT_FAR ? FAR_TRIES : TRIES) / ((double)each * l->threads * (double)j.passes);
		if (i < RT_FAR && l->byte_ns[i] > l->byte_ns[i + 1]) l->byte_ns[i] = l->byte_ns[i + 1]; /* other programs were in the way */
	}
	rt_free(memory);
}

static rt_limits measure(const rt_run *r, int threads)
{
	rt_limits l = { .threads = threads };
	const double start = rt_now_ms();
	measure_reads(r, &l);
	if (rt_vector_bits() >= 256) {
		job j = { .f = multiply_part };
		const double lanes = rt_vector_bits() / 32;
		l.flop_ns = try(r, &j, threads, TRIES) / (2.0 * 12 * MULTIPLIES * lanes * threads);
	}
	l.ms = rt_now_ms() - start;
	return l;
}

rt_limits rt_limits_of(const rt_run *r)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static rt_limits last;
	const int team = rt_team_size(r->team), threads = r->threads && r->threads < team ? r->threads : team;
	RT_DEFAULT_MODES;
	rt_lock(&lock);
	if (last.threads != threads || !last.byte_ns[RT_FAR]) last = measure(r, threads);
	const rt_limits l = last;
	rt_unlock(&lock);
	return l;
}
