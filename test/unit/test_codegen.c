/* SPDX-License-Identifier: MIT */
/* codegen: kernels as text, compiled at each vector width and compared, bit for bit, with a plain interpreter of the
 * kernel IR. Each buffer ends before a page that cannot be accessed, so that accesses beyond its end fault. */
#include "lower/lower.h"
#include "runtime/alloc.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#include "test/skip.h"
#include "test/unit/fence.h"
#include "test/unit/interp.h"

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* Numbers of all kinds; moderate ones when `mild`, so that sums stay finite and conversions in range. */
static void fill(tj_dtype t, void *p, int64_t n, bool mild)
{
	static const double odd[] = { 0,     -0.0,   1,      -1, INFINITY, -INFINITY,   NAN,
								  1e-40, -1e-42, 3.4e38, -7, 0.5,      2147483648.0 };
	static const int64_t ints[] = { 0, 1, -1, 7, -7, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
	for (int64_t i = 0; i < n; i++) {
		double x = (double)(int64_t)(rnd() >> 20) / (double)(1ull << 42) - 2;
		int64_t v = rnd() % 4 ? (int64_t)(rnd() % 200) - 100 : ints[rnd() % RT_COUNT(ints)];
		if (mild) v = (int64_t)(rnd() % 90) + 1;
		if (!mild && rnd() % 4 == 0) x = odd[rnd() % RT_COUNT(odd)];
		if (t == TJ_BOOL) v = (int64_t)(mild ? rnd() % 2 : rnd() % 3 * 85);
		if (t == TJ_F32) ((float *)p)[i] = (float)x;
		else if (t == TJ_F64) ((double *)p)[i] = x;
		else if (t == TJ_I32) ((int32_t *)p)[i] = (int32_t)v;
		else if (t == TJ_I64) ((int64_t *)p)[i] = v;
		else if (t == TJ_I16) ((int16_t *)p)[i] = (int16_t)v;
		else if (rt_is_narrow(t)) ir_store(t, (char *)p + 2 * i, ir_cast_scalar((ir_scalar){ .d = x }, TJ_F64, t));
		else ((uint8_t *)p)[i] = (uint8_t)v;
	}
}

static ir_scalar load_value(tj_dtype t, const void *p, int64_t at)
{
	return ir_load(t, (const char *)p + at * (int64_t)tj_dtype_size(t));
}

static bool same(tj_dtype t, const void *a, const void *b, int64_t n)
{
	if (!rt_is_float(t)) return memcmp(a, b, (size_t)n * tj_dtype_size(t)) == 0;
	for (int64_t i = 0; i < n; i++) {
		ir_scalar x = load_value(t, a, i), y = load_value(t, b, i);
		bool single = rt_dtype_class(t) == RT_F, nx = single ? x.f != x.f : x.d != x.d, ny = single ? y.f != y.f : y.d != y.d;
		if (nx != ny ||
			(!nx && memcmp((const char *)a + (size_t)i * tj_dtype_size(t),
						   (const char *)b + (size_t)i * tj_dtype_size(t), tj_dtype_size(t)) != 0)) {
			print_message("element %lld: %a (interpreter) and %a\n", (long long)i,
						  single ? (double)x.f : x.d, single ? (double)y.f : y.d);
			return false;
		}
	}
	return true;
}

/* ---- compile and compare ---- */
static const lo_backend *llvm;
static const int widths[] = { 512, 256, 128 };
/* A sanitizer checks the code generator, not the generated code: one width of each kernel is enough. */
static bool one_width(void) { return SANITIZED || left_out(1); }
static double slowest, total_ms;
static int compiled, count;

static void set_width(int bits)
{
	char s[8];
	snprintf(s, sizeof s, "%d", bits);
	setenv("TJ_CPU", s, 1);
}

/* A recipe is all that the code depends on: printed and parsed it is the same, and so is the code. */
static void check_recipe(const lo_kernel *k, const lo_schedule *s)
{
	rt_err err = { 0 };
	rt_text how[2] = { 0 }, code[2] = { 0 };
	for (int i = 0; i < 2; i++)
		if (llvm->recipe(k, s, rt_cpu_now(), i ? how[0].s : NULL, &how[i], &code[i], &err) != TJ_OK)
			fail_msg("%s\n%s", err.message, rt_str(&how[0]));
	assert_string_equal(rt_str(&how[0]), rt_str(&how[1]));
	assert_string_equal(rt_str(&code[0]), rt_str(&code[1]));
	for (int i = 0; i < 2; i++) rt_text_free(&how[i]), rt_text_free(&code[i]);
}

/* What the key of the disk cache leaves out: estimates, on which no code depends, and the values of symbols, as long as the amount of work
 * is of the same class: code for one size of a form is code for all. */
static void check_key(const lo_kernel *k, const lo_schedule *s)
{
	lo_kernel other = *k;
	lo_schedule by = *s;
	rt_err err = { 0 };
	rt_text key[3] = { 0 }, how[2] = { 0 }, code[2] = { 0 };
	int64_t sizes[64];
	if (k->size.n > RT_COUNT(sizes)) return;
	by.unit_ns = by.unit_ns * 2 + 1;
	by.grain++;
	other.size.v = sizes;
	for (uint32_t i = 0; i < k->size.n; i++) sizes[i] = k->size.v[i] + (k->size.v[i] > 2);
	lo_code_key(k, s, &key[0]);
	lo_code_key(k, &by, &key[1]);
	lo_code_key(&other, s, &key[2]);
	assert_string_equal(rt_str(&key[0]), rt_str(&key[1]));
	assert_int_equal(!strcmp(rt_str(&key[0]), rt_str(&key[2])), lo_amount(k, s) == lo_amount(&other, s));
	if (llvm->recipe(k, s, rt_cpu_now(), NULL, &how[0], &code[0], &err) != TJ_OK ||
	    llvm->recipe(k, &by, rt_cpu_now(), NULL, &how[1], &code[1], &err) != TJ_OK)
		fail_msg("%s", err.message);
	assert_string_equal(rt_str(&code[0]), rt_str(&code[1]));
	for (int i = 0; i < 2; i++) rt_text_free(&how[i]), rt_text_free(&code[i]);
	for (int i = 0; i < 3; i++) rt_text_free(&key[i]);
}

/* text: NULL, or gets the LLVM text, which the caller frees. */
static rt_kernel_fn *compile(const lo_kernel *k, const lo_schedule *s, rt_shared **code, char **text)
{
	rt_err err = { 0 };
	rt_entry fn = NULL;
	lo_compile job = { .kernel = &k, .schedule = &s, .nkernel = 1, .name = "test", .keep_text = true, .fn = &fn };
	if (llvm->compile(&job, &err) != TJ_OK) {
		lo_dump(k, s);
		print_message("%s\n%s\n", err.message, job.text ? job.text : "");
		fail();
	}
	if (text) *text = job.text;
	else rt_free(job.text);
	*code = job.code;
	check_recipe(k, s);
	check_key(k, s);
	compiled++;
	total_ms += job.codegen_ms;
	if (job.codegen_ms > slowest) slowest = job.codegen_ms;
	return (rt_kernel_fn *)fn;
}

typedef struct env {
	lo_kernel k;
	lo_schedule s;
	rt_arena names;
	int64_t elems[8];     /* of each buffer */
	fenced init[8], want[8], got[8];
	void *scratch;
	uint64_t num[4];
	int32_t fault;        /* the interpreter's */
	bool mild;
} env;

static bool unaliased(const lo_buf *b) { return b->role != LO_KEPT; }

static void make_buffers(env *e)
{
	for (uint32_t i = 0; i < e->k.buf.n; i++) {
		tj_dtype t = (tj_dtype)e->k.buf.v[i].dtype;
		size_t bytes = (size_t)e->elems[i] * tj_dtype_size(t);
		if (!unaliased(&e->k.buf.v[i])) continue;
		e->init[i] = fence(bytes);
		e->want[i] = fence(bytes);
		e->got[i] = fence(bytes);
		fill(t, e->init[i].data, e->elems[i], e->mild);
		memcpy(e->want[i].data, e->init[i].data, bytes);
	}
	e->scratch = rt_alloc_aligned(64, e->s.scratch + 64);
	e->num[0] = 0x3ff8000000000000u; /* 1.5 */
	e->num[1] = 3;
}

static void args(env *e, fenced *of, rt_kargs *a, void **bufs, int32_t *fault)
{
	for (uint32_t i = 0; i < e->k.buf.n; i++) bufs[i] = of[i].data;
	*a = (rt_kargs){ .buf = bufs, .num = e->num, .fault = fault, .scratch = e->scratch };
}

static void parse(env *e, const char *text)
{
	rt_err err = { 0 };
	rt_text again = { 0 };
	lo_kernel k2;
	lo_schedule s2;
	if (lo_parse(&e->k, &e->s, &lo_cpu, text, &e->names, &err) != TJ_OK || lo_verify(&e->k, &e->s, &err) != TJ_OK) {
		print_message("%s\n%s\n", text, err.message);
		fail();
	}
	lo_print(&e->k, &e->s, &again);
	assert_int_equal(lo_parse(&k2, &s2, &lo_cpu, again.s, &e->names, &err), TJ_OK);
	rt_text twice = { 0 };
	lo_print(&k2, &s2, &twice);
	assert_string_equal(again.s, twice.s);
	lo_kernel_free(&k2);
	lo_schedule_free(&s2);
	rt_text_free(&again);
	rt_text_free(&twice);
}

/* Runs the units in three pieces, to test that kernels respect the range. */
static void run_pieces(env *e, rt_kernel_fn *fn, const rt_kargs *a)
{
	int64_t n = lo_units(&e->k, &e->s), first = n / 3, second = n / 2;
	fn(a, 0, first);
	fn(a, second, n);
	fn(a, first, second);
}

static void compare(env *e, const char *text, int bits, bool symbols)
{
	rt_shared *code;
	rt_kargs a;
	void *bufs[8] = { 0 };
	int32_t fault = 0;
	set_width(bits);
	rt_err err = { 0 };
	if (symbols && (!lo_all_symbols(&e->k, &e->s) || lo_verify(&e->k, &e->s, &err) != TJ_OK)) fail_msg("%s", err.message);
	rt_kernel_fn *fn = compile(&e->k, &e->s, &code, NULL);
	for (uint32_t i = 0; i < e->k.buf.n; i++)
		if (unaliased(&e->k.buf.v[i])) memcpy(e->got[i].data, e->init[i].data, e->got[i].bytes);
	args(e, e->got, &a, bufs, &fault);
	a.size = e->k.size.v;
	run_pieces(e, fn, &a);
	bool ok = (fault != 0) == (e->fault != 0);
	for (uint32_t i = 0; i < e->k.buf.n; i++)
		if (unaliased(&e->k.buf.v[i]))
			ok &= same((tj_dtype)e->k.buf.v[i].dtype, e->want[i].data, e->got[i].data, e->elems[i]);
	if (!ok) {
		print_message("%d bits%s differ:\n%s\n", bits, symbols ? " and symbols" : "", text);
		fail();
	}
	if (symbols) lo_no_symbols(&e->k, &e->s);
	rt_shared_unref(code);
}

/* The kernel and its results by the interpreter. elems: of each buffer, in order. */
static void open_env(env *e, const char *text, const int64_t *elems)
{
	rt_kargs a;
	void *bufs[8] = { 0 };
	parse(e, text);
	for (uint32_t i = 0; i < e->k.buf.n; i++) e->elems[i] = elems[i];
	make_buffers(e);
	args(e, e->want, &a, bufs, &e->fault);
	interp_units(&e->k, &e->s, &a, 0, lo_units(&e->k, &e->s));
}

static void close_env(env *e)
{
	for (uint32_t i = 0; i < e->k.buf.n; i++) {
		if (!unaliased(&e->k.buf.v[i])) continue;
		unfence(e->init[i]);
		unfence(e->want[i]);
		unfence(e->got[i]);
	}
	rt_free(e->scratch);
	lo_kernel_free(&e->k);
	lo_schedule_free(&e->s);
	rt_arena_free(&e->names);
}

static void check_some(const char *text, bool mild, int nwidth, const int64_t *elems)
{
	env e = { .mild = mild };
	open_env(&e, text, elems);
	for (int w = 0; w < nwidth; w++)
		if (!one_width() || w == (int)(count % (unsigned)nwidth)) compare(&e, text, widths[w], false);
	if (++count % 3 == 0) compare(&e, text, widths[count / 3 % 3], true);
	close_env(&e);
}
#define check(text, mild, ...) check_some(text, mild, 3, (const int64_t[]){ __VA_ARGS__ })

RT_PRINTF(1, 2)
static const char *textf(const char *fmt, ...)
{
	static char s[8192];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s, sizeof s, fmt, ap);
	va_end(ap);
	return s;
}

/* ---- point kernels ---- */
typedef struct prim { const char *name, *types, *result; int nsrc; const char *ints, *floats; } prim;
static const prim prims[] = {
#define PRIM(name, nsrc, types, result, i, f, ...) { #name, #types, #result, nsrc, i, f },
#include "ir/prims.def"
#undef PRIM
};

static void each_primitive(void **state)
{
	static const int sizes[] = { 1, 5, 37, 300 };
	(void)state;
	for (size_t p = 0; p < RT_COUNT(prims); p++)
		for (int t = TJ_U8; t < TJ_DTYPE_COUNT; t++) {
			const prim *o = &prims[p];
			if (rt_is_narrow((tj_dtype)t)) continue; /* nothing is computed in it */
			if (t == TJ_I8 && p % 3) continue;       /* a sample: i8 is like u8 except for its sign */
			const char *dt = tj_dtype_name((tj_dtype)t), *res = o->result[0] == 'B' ? "bool" : dt;
			bool f = rt_is_float((tj_dtype)t), shift = strstr(o->name, "SH"),
				 div = !strcmp(o->name, "DIV") || !strcmp(o->name, "REM"), scale = !strcmp(o->name, "SCALE");
			if (o->result[0] == 'O' || o->result[0] == 'L' || !(f ? o->floats : o->ints)) continue;
			int n = sizes[(p + (size_t)t) % RT_COUNT(sizes)];
			char second[160] = "";
			if (shift)
				snprintf(second, sizeof second, "  %%3 = const %s %d\n      %%4 = and %s %%1 %%3\n", dt,
						 8 * (int)tj_dtype_size((tj_dtype)t) - 1, dt);
			else if (scale)
				snprintf(second, sizeof second, "  %%3 = const %s 60\n      %%4 = mul %s %%1 %%3\n      %%5 = rint %s %%4\n", dt, dt, dt);
			else
				snprintf(second, sizeof second, "  %%3 = const %s 3\n      %%4 = %s %s %%1 %s\n", dt,
						 f ? "add" : "or", dt, "%3");
			char operands[32];
			const char *two = scale ? "%5" : shift || (div && !f) ? "%4" : "%1";
			snprintf(operands, sizeof operands, "%%0 %s %s", o->nsrc > 1 ? two : "", o->nsrc > 2 ? "%2" : "");
			check(
				textf(
					"kernel k\n schedule cpu vec=d block=256\n buf b0 %s in\n buf b1 %s in\n buf b2 %s in\n buf b3 %s out\n dim %d\n point\n"
					"  %%0 = load %s b0 [0 + 1*d0]\n  %%1 = load %s b1 [0 + 1*d0]\n  %%2 = load %s b2 [0 + 1*d0]\n%s"
					"  %%%d = %s %s %s\n  store b3 [0 + 1*d0] %%%d\n",
					dt, dt, dt, res, n, dt, dt, dt, second, 5 + scale, o->name, res, operands, 5 + scale),
				scale || (div && !f), n, n, n, n);
		}
}

static void each_conversion(void **state)
{
	(void)state;
	for (int from = 0; from < TJ_DTYPE_COUNT; from++)
		for (int to = 0; to < TJ_DTYPE_COUNT; to++) {
			const char *a = tj_dtype_name((tj_dtype)from), *b = tj_dtype_name((tj_dtype)to);
			if ((rt_is_narrow((tj_dtype)from) && to != TJ_F32 && to != from) ||
			    (rt_is_narrow((tj_dtype)to) && from != TJ_F32 && to != from))
				continue;
			bool narrow = rt_is_float((tj_dtype)from) && !rt_is_float((tj_dtype)to) && to != TJ_BOOL,
				 positive = narrow && to == TJ_U8;
			char abs[48] = "";
			if (positive) snprintf(abs, sizeof abs, "  %%1 = abs %s %%0\n", a);
			check(
				textf(
					"kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 %s out\n dim 131\n point\n  %%0 = load %s b0 [0 + 1*d0]\n%s"
					"  %%%d = convert %s %%%d\n  store b1 [0 + 1*d0] %%%d\n",
					a, b, a, abs, positive + 1, b, positive, positive + 1),
				narrow, 131, 131);
		}
}

static void tails(void **state)
{
	(void)state;
	for (int n = 1; n <= 70; n++)
		check_some(
			textf(
				"kernel k\n schedule cpu vec=d block=64\n buf b0 f32 in\n buf b1 f32 in\n buf b2 f32 out\n dim 3\n dim %d\n point\n"
				"  %%0 = load f32 b0 [0 + %d*d0 + 1*d1]\n  %%1 = load f32 b1 [0 + 1*d0]\n  %%2 = mul f32 %%0 %%1\n"
				"  %%3 = num f64 0\n  %%4 = convert f32 %%3\n  %%5 = add f32 %%2 %%4\n  store b2 [0 + %d*d0 + 1*d1] %%5\n",
				n, n, n),
			false, n % 5 ? 1 : 3, (const int64_t[]){ 3 * n, 3, 3 * n });
}

static void layouts(void **state)
{
	static const int64_t coef[] = { 0, 1, 2, 3, 4, 5, -1, -2, -3, -4, 130, 100000 };
	static const char *const types[] = { "bool", "u8", "i32", "i64", "f32", "f64", "bf16" };
	(void)state;
	for (size_t t = 0; t < RT_COUNT(types); t++)
		for (size_t i = 0; i < RT_COUNT(coef); i++) {
			int64_t n = 45, c = coef[i], offset = c < 0 ? -c * (n - 1) : 0,
					room = (c < 0 ? -c : c) * (n - 1) + 1;
			check(
				textf(
					"kernel k\n schedule cpu vec=d block=32\n buf b0 %s in\n buf b1 %s out\n dim 45\n point\n  %%0 = load %s b0 [%lld + %lld*d0]\n"
					"  store b1 [0 + 1*d0] %%0\n",
					types[t], types[t], types[t], (long long)offset, (long long)c),
				false, room, n);
			if (c)
				check(
					textf(
						"kernel k\n schedule cpu vec=d block=32\n buf b0 %s in\n buf b1 %s out\n dim 45\n point\n  %%0 = load %s b0 [0 + 1*d0]\n"
						"  store b1 [%lld + %lld*d0] %%0\n",
						types[t], types[t], types[t], (long long)offset, (long long)c),
					false, n, room);
		}
}

/* Loads a few elements apart: vectors, which must not reach beyond the first or the last element. */
static void steps(void **state)
{
	static const int64_t coef[] = { 2, 3, 4, -1, -2, -3, -4 };
	static const char *const types[] = { "f32", "f64", "bf16", "u8" };
	static const int sizes[] = { 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 45, 64, 67 };
	(void)state;
	for (size_t s = 0; s < RT_COUNT(sizes); s++)
		for (size_t i = 0; i < RT_COUNT(coef); i++) {
			const int n = sizes[s];
			const char *t = types[(s + i) % RT_COUNT(types)];
			const int64_t c = coef[i], room = (c < 0 ? -c : c) * (n - 1) + 1, offset = c < 0 ? room - 1 : 0;
			check(
				textf(
					"kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 %s out\n dim 2\n dim %d\n point\n"
					"  %%0 = load %s b0 [%lld + %lld*d0 + %lld*d1]\n  store b1 [0 + %d*d0 + 1*d1] %%0\n",
					t, t, n, t, (long long)offset, (long long)room, (long long)c, n),
				false, 2 * room, 2 * n);
			check(
				textf(
					"kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f32 out\n dim 2\n red %d\n loop\n"
					"  %%0 = load f32 b0 [%lld + %lld*d0 + %lld*r]\n  %%1 = reduce f32 add row %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
					n, (long long)offset, (long long)room, (long long)c),
				true, 2 * room, 2);
		}
}

/* Products that read windows where they lie: an operand that jumps every few steps of r. It has columns, rows, or rows that are converted.
 */
static void jumps(void **state)
{
	static const struct {
		int rows, columns, red, a, b;
	} shapes[] = { { 7, 40, 45, 3, 9 }, { 1, 33, 300, 5, 50 }, { 30, 130, 261, 3, 9 }, { 3, 5, 8, 2, 4 }, { 64, 100, 36, 3, 0 } };
	static const char *const types[] = { "f32", "f64", "i32", "bf16", "i8" };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(shapes) * RT_COUNT(types); i++) {
		const char *t = types[i % RT_COUNT(types)], *to = i % RT_COUNT(types) > 2 ? i % RT_COUNT(types) == 3 ? "f32" : "i32" : t;
		const int s = (int)(i / RT_COUNT(types)), m = shapes[s].rows, n = shapes[s].columns, k = shapes[s].red, a = shapes[s].a,
			  b = shapes[s].b, width = n + 9;
		const bool rows = (i + i / RT_COUNT(types)) & 1, wide = strcmp(t, to) != 0;
		char jump[64] = "", convert[96] = "", operand[2][160];
		const int longest = k + width * (k / a) + 40 * (b ? k / b : 0);
		snprintf(jump, sizeof jump, " + %d*(r/%d)", width, a);
		if (b) snprintf(jump + strlen(jump), sizeof jump - strlen(jump), " + 40*(r/%d)", b);
		snprintf(operand[rows], sizeof operand[0], "%%0 = load %s b0 [0 + 1*d%d + 1*r%s]", t, rows ? 0 : 1, jump);
		snprintf(operand[!rows], sizeof operand[0],
		         rows ? "%%1 = load %s b1 [0 + 1*d1 + %d*r]" : "%%1 = load %s b1 [0 + %d*d0 + 1*r]", t, rows ? n : k);
		if (wide) snprintf(convert, sizeof convert, "  %%2 = convert %s %%0\n  %%3 = convert %s %%1\n", to, to);
		check(textf("kernel k\n schedule cpu vec=tile block=32 rows=12 scratch=%d\n buf b0 %s in\n buf b1 %s in\n buf b2 %s out\n dim %d\n"
		            " dim %d\n red %d\n loop\n  %s\n  %s\n%s"
		            "  %%%d = reduce %s dot chain %%%d %%%d\n point\n  store b2 [0 + %d*d0 + 1*d1] %%%d\n",
		            1 << 20, t, t, to, m, n, k, operand[rows], operand[!rows], convert, wide ? 4 : 2, to,
		            wide ? (rows ? 2 : 3) : !rows, wide ? (rows ? 3 : 2) : rows, n, wide ? 4 : 2),
		      true, longest + (rows ? m : n), rows ? k * n : m * k, m * n);
	}
}

/* Columns are stored [n,k], and the number of rows is the only symbol. */
static void few_rows(void **state)
{
	static const int columns[] = { 17, 33, 64 }, red[] = { 1, 7, 300, 513 };
	(void)state;
	for (int i = 0; i < 7 * 3 * 4 * 2; i++) {
		if (one_width() && (i + i / 2 + i / 14) % 2) continue;
		env e = { .mild = true };
		const char *t = i % 2 ? "f64" : "f32";
		const int m = 2 + i / 2 % 7, n = columns[i / 14 % 3], k = red[i / 42];
		const char *text = textf(
			"kernel k\n schedule cpu vec=tile block=32 rows=%d scratch=%d\n buf b0 %s in\n buf b1 %s in\n buf b2 %s out\n dim %d\n dim %d\n"
			" few rows\n red %d\n loop\n"
			"  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n  %%1 = load %s b1 [0 + %d*d1 + 1*r]\n  %%2 = reduce %s dot chain %%0 %%1\n point\n"
			"  store b2 [0 + %d*d0 + 1*d1] %%2\n",
			m, 1 << 20, t, t, t, m, n, k, t, k, t, k, t, n);
		open_env(&e, text, (const int64_t[]){ m * k, n * k, m * n });
		if (!rt_push(&e.k.size, m)) fail();
		e.k.dim[0] = e.s.rows = LO_SYM(0);
		for (int w = 0; w < 3; w++)
			if (!one_width() || w == i % 3) compare(&e, text, widths[w], false);
		close_env(&e);
	}
}

static void gathers(void **state)
{
	(void)state;
	for (int n = 1; n < 40; n += 6) {
		/* rows of a table: the index is one for all lanes */
		check(
			textf(
				"kernel k\n schedule cpu vec=d block=64\n buf b0 i64 in\n buf b1 f32 in\n buf b2 f32 out\n dim 5\n dim %d\n point\n"
				"  %%0 = load i64 b0 [0 + 1*d0]\n  %%1 = load f32 b1 [0 + 1*d1] + %%0*%d\n  store b2 [0 + %d*d0 + 1*d1] %%1\n",
				n, n, n),
			true, 5, 91 * n, 5 * n);
		/* an index for each lane, and stores to places given by one */
		check(
			textf(
				"kernel k\n schedule cpu vec=d block=64\n buf b0 i64 in\n buf b1 f32 in\n buf b2 f32 out\n dim %d\n point\n"
				"  %%0 = load i64 b0 [0 + 1*d0]\n  %%1 = load f32 b1 [2] + %%0*3\n  store b2 [0 + 1*d0] %%1\n",
				n),
			true, n, 91 * 3, n);
		check(
			textf(
				"kernel k\n schedule cpu vec=d block=64\n buf b0 u8 in\n buf b1 i64 out\n dim %d\n point\n  %%0 = load u8 b0 [0 + 1*d0]\n"
				"  %%1 = convert i64 %%0\n  %%2 = index i64 d0\n  store b1 [0] + %%1*1 %%2\n",
				n),
			true, n, 91);
	}
}

static void indices(void **state)
{
	(void)state;
	check("kernel k\n schedule cpu vec=d block=16\n buf b0 i64 out\n buf b1 f64 out\n dim 2\n dim 3\n dim 21\n point\n  %0 = index i64 d0\n"
	      "  %1 = index i64 d1\n"
	      "  %2 = index i64 d2\n  %3 = const i64 100\n  %4 = mul i64 %0 %3\n  %5 = add i64 %4 %1\n  %6 = mul i64 %5 %3\n  %7 = add i64 %6 %2\n"
	      "  store b0 [0 + 63*d0 + 21*d1 + 1*d2] %7\n  %9 = num i64 1\n  %10 = mul i64 %7 %9\n  %11 = convert f64 %10\n"
	      "  store b1 [0 + 63*d0 + 21*d1 + 1*d2] %11\n",
	      false, 126, 126);
}

static void faults(void **state)
{
	(void)state;
	for (int n = 1; n < 50; n++)
		for (int at = -1; at < 3; at++)
			check_some(
				textf("kernel k\n schedule cpu vec=d block=16\n buf b0 f32 in\n buf b1 f32 out\n dim %d\n fault 3 a.c:7\n point\n"
				      "  %%0 = load f32 b0 [0 + 1*d0]\n"
			              "  %%1 = index i64 d0\n  %%2 = const i64 %d\n  %%3 = eq bool %%1 %%2\n  fault 0 %%3\n  store b1 [0 + 1*d0] %%0\n",
			              n,
			              at < 0    ? 1000
			              : at == 0 ? n - 1
			              : at == 1 ? n
			                        : n / 2),
				false, n == 17 ? 3 : 1, (const int64_t[]){ n, n });
}

/* A long chain runs on several vectors side by side. */
static void chains(void **state)
{
	(void)state;
	for (int n = 4000; n < 4200; n += 49) {
		char ops[2048];
		size_t at = 0;
		for (int i = 0; i < 25; i++)
			at += (size_t)snprintf(ops + at, sizeof ops - at, "  %%%d = %s f32 %%%d %%0\n", i + 2,
								   i % 2 ? "add" : "mul", i + 1);
		check(
			textf(
				"kernel k\n schedule cpu vec=d block=1024\n buf b0 f32 in\n buf b1 f32 out\n dim %d\n point\n  %%0 = const f32 0x1.1p+0\n"
				"  %%1 = load f32 b0 [0 + 1*d0]\n%s  store b1 [0 + 1*d0] %%26\n",
				n, ops),
			false, n, n);
	}
}

/* Sums, maxima and few products, side by side: halves of the sums, all or none are products with one, which has the same bits
 * for zeros of both signs, infinities, NaN and subnormals. */
static void balanced(void **state)
{
	static const char *const types[] = { "f32", "f64" };
	(void)state;
	for (int products = 0; products <= 12; products += 4)
		for (size_t t = 0; t < RT_COUNT(types); t++)
			for (int n = 8192; n < 8400; n += 101) {
				char ops[4096];
				size_t at = 0;
				int v = 1;
				for (int i = 0; i < 12; i++, v++) {
					at += (size_t)snprintf(ops + at, sizeof ops - at, "  %%%d = %s %s %%%d %%%d\n", v + 1, i % 3 == 1 ? "sub" : "add", types[t], v, i % 2);
					if (i < products) at += (size_t)snprintf(ops + at, sizeof ops - at, "  %%%d = mul %s %%%d %%0\n", v + 2, types[t], v + 1), v++;
					if (!products || i % 4 == 3)
						at += (size_t)snprintf(
							ops + at, sizeof ops - at,
							"  %%%d = gt bool %%0 %%%d\n  %%%d = select %s %%%d %%0 %%%d\n  %%%d = eq bool %%0 %%0\n  %%%d = select %s %%%d %%%d %%0\n",
							v + 2, v + 1, v + 3, types[t], v + 2, v + 1, v + 4, v + 5, types[t], v + 4, v + 3),
							v += 4;
				}
				check(textf("kernel k\n schedule cpu vec=d block=4096\n buf b0 %s in\n buf b1 %s in\n buf b2 %s out\n dim %d\n point\n"
				            "  %%0 = load %s b0 [0 + 1*d0]\n"
				            "  %%1 = load %s b1 [0 + 1*d0]\n%s  store b2 [0 + 1*d0] %%%d\n",
				            types[t], types[t], types[t], n, types[t], types[t], ops, v),
				      false, n, n, n);
			}
}

/* Loads across rows are served from tiles: rows and columns of all remainders, two tiled loads, outer and middle dimensions,
 * several units to a row. */
static void tiles(void **state)
{
	static const int sizes[][2] = { { 8, 8 },    { 9, 70 },   { 32, 64 },  { 33, 65 }, { 100, 17 },
									{ 40, 200 }, { 65, 130 }, { 129, 65 }, { 260, 20 } };
	static const char *const types[] = { "i32", "i64", "f32", "f64" };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(sizes); i++)
		for (size_t t = 0; t < RT_COUNT(types); t++) {
			int n = sizes[i][0], m = sizes[i][1];
			const char *dt = types[t];
			for (int block = 64; block <= 256; block *= 4)
				check(
					textf(
						"kernel k\n schedule cpu vec=d block=%d\n buf b0 %s in\n buf b1 %s in\n buf b2 %s out\n dim %d\n dim %d\n point\n"
						"  %%0 = load %s b0 [0 + 1*d0 + %d*d1]\n  %%1 = load %s b1 [0 + 1*d0]\n  %%2 = load %s b0 [%d + 1*d0 + -%d*d1]\n"
						"  %%3 = sub %s %%0 %%1\n  %%4 = add %s %%3 %%2\n  store b2 [0 + %d*d0 + 1*d1] %%4\n",
						block, dt, dt, dt, n, m, dt, n, dt, dt, n * (m - 1), n, dt, dt, m),
					false, (int64_t)n * m, n, (int64_t)n * m);
			check(
				textf(
					"kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 %s out\n dim 2\n dim %d\n dim 3\n dim %d\n point\n"
					"  %%0 = load %s b0 [0 + %d*d0 + 1*d1 + %d*d2 + %d*d3]\n  store b1 [0 + %d*d0 + %d*d1 + %d*d2 + 1*d3] %%0\n",
					dt, dt, n, m, dt, 3 * n * m, n * m, n, 3 * n * m, 3 * m, m),
				false, 6ll * n * m, 6ll * n * m);
		}
}

/* The constant is more than 64 lanes of bytes wide, and half the values are small. */
static void bytes_only(void **state)
{
	(void)state;
	for (int n = 1; n < 300; n += 37)
		check(textf("kernel k\n schedule cpu vec=d block=128\n buf b0 u8 in\n buf b1 bool in\n buf b2 u8 out\n dim %d\n point\n"
		            "  %%0 = load u8 b0 [0 + 1*d0]\n"
		            "  %%1 = load bool b1 [0 + 1*d0]\n  %%2 = const u8 7\n  %%3 = add u8 %%0 %%2\n  %%4 = select u8 %%1 %%3 %%2\n"
		            "  store b2 [0 + 1*d0] %%4\n",
		            n),
		      false, n, n, n);
}

/* ---- reductions ---- */
static const char *const reds[] = { "add", "mul", "max", "min" };

static void row(int n, const char *red, const char *t, bool mild, int nwidth)
{
	check_some(
		textf(
			"kernel k\n schedule cpu vec=r\n buf b0 %s in\n buf b1 %s out\n dim 2\n red %d\n loop\n  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n"
			"  %%1 = reduce %s %s row %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
			t, t, n, t, n, t, red),
		mild, nwidth, (const int64_t[]){ 2 * n, 2 });
}

/* The same with work before the sum, so that the accumulator lies in memory. */
static void long_row(int n, const char *t, int nwidth)
{
	check_some(
		textf("kernel k\n schedule cpu vec=r\n buf b0 %s in\n buf b1 %s out\n buf b2 %s out\n dim 2\n red %d\n loop\n"
		      "  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n"
	              "  %%1 = mul %s %%0 %%0\n  %%2 = add %s %%1 %%0\n  %%3 = mul %s %%2 %%0\n  %%4 = add %s %%3 %%1\n  %%5 = mul %s %%4 %%0\n"
	              "  %%6 = add %s %%5 %%1\n  %%7 = mul %s %%6 %%0\n  %%8 = add %s %%7 %%1\n  %%9 = reduce %s add row %%8\n"
	              "  %%10 = reduce %s max row %%0\n point\n  store b1 [0 + 1*d0] %%9\n  store b2 [0 + 1*d0] %%10\n",
	              t, t, t, n, t, n, t, t, t, t, t, t, t, t, t, t),
		true, nwidth, (const int64_t[]){ 2 * n, 2, 2 });
}

static void column(int n, int width, const char *red, const char *t, bool mild, int nwidth)
{
	check_some(
		textf(
			"kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 %s out\n dim %d\n red %d\n loop\n  %%0 = load %s b0 [0 + 1*d0 + %d*r]\n"
			"  %%1 = reduce %s %s column %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
			t, t, width, n, t, width, t, red),
		mild, nwidth, (const int64_t[]){ (int64_t)width * n, width });
}

static const int big[] = { 2047, 2048, 2049, 2050, 4096, 5000, 6143, 6145, 70000 };

static void rows(void **state)
{
	(void)state;
	for (int n = 1; n <= 300; n++)
		row(n, reds[n % 4 == 3 ? 2 : 0], n % 3 ? "f32" : "f64", true, n % 8 ? 1 : 3);
	for (size_t i = 0; i < RT_COUNT(big); i++)
		for (int t = 0; t < 2; t++) row(big[i], "add", t ? "f64" : "f32", true, 3);
	for (int r = 0; r < 4; r++)
		for (int n = 1; n < 5000; n = 2 * n + 1) row(n, reds[r], r % 2 ? "f64" : "f32", false, 2);
}

static void long_rows(void **state)
{
	(void)state;
	for (int n = 1; n <= 300; n += n < 40 ? 1 : 13) long_row(n, n % 3 ? "f32" : "f64", n % 8 ? 1 : 3);
	for (size_t i = 0; i < RT_COUNT(big); i++) long_row(big[i], i % 2 ? "f64" : "f32", 3);
}

/* Values that a select seldom needs are computed behind a branch: for columns with a scalar of the loop on both sides of it, rows
 * with a tail, element by element, and a select inside such a value of another select. */
static void seldom(void **state)
{
	(void)state;
	for (int n = 1; n < 200; n = 3 * n + 2) {
		check(textf("kernel k\n schedule cpu vec=d block=64\n buf b0 f32 in\n buf b1 f32 in\n buf b2 f32 out\n dim %d\n red 9\n loop\n"
		            "  %%0 = load f32 b0 [0 + 1*d0 + %d*r]\n  %%1 = load f32 b1 [0 + 1*r]\n  %%2 = const f32 0x0p+0\n"
		            "  %%3 = lt bool %%0 %%2\n  %%4 = mul f32 %%0 %%1\n  %%5 = add f32 %%4 %%0\n  %%6 = select f32 %%3 %%0 %%5 mostly\n"
		            "  %%7 = mul f32 %%6 %%1\n  %%8 = reduce f32 add column %%7\n point\n  store b2 [0 + 1*d0] %%8\n",
		            n, n),
		      true, 9 * n, 9, n);
		check(textf("kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f32 out\n buf b2 f32 out\n dim 2\n red %d\n loop\n"
		            "  %%0 = load f32 b0 [0 + %d*d0 + 1*r]\n  %%1 = const f32 0x1p+0\n  %%2 = lt bool %%0 %%1\n"
		            "  %%3 = sqrt f32 %%0\n  %%4 = eq bool %%2 %%2\n  %%5 = mul f32 %%3 %%3\n  %%6 = lt bool %%5 %%0\n"
		            "  %%7 = add f32 %%5 %%1\n  %%8 = select f32 %%6 %%3 %%7 mostly\n  %%9 = select f32 %%2 %%0 %%8 mostly\n"
		            "  store b1 [0 + %d*d0 + 1*r] %%9\n  %%11 = reduce f32 add row %%9\n point\n  store b2 [0 + 1*d0] %%11\n",
		            n, n, n),
		      n % 2, 2 * n, 2 * n, 2);
		check(textf("kernel k\n schedule cpu vec=d block=128\n buf b0 f64 in\n buf b1 f64 out\n dim %d\n point\n  %%0 = load f64 b0 [0 + 1*d0]\n"
		            "  %%1 = eq bool %%0 %%0\n  %%2 = abs f64 %%0\n  %%3 = select f64 %%1 %%0 %%2 mostly\n  store b1 [0 + 1*d0] %%3\n",
		            n),
		      false, n, n);
	}
}

/* Kernels that touch more than the caches hold, with buffers that begin at a cache line and with ones that do not: fenced
 * ones end at a page. */
static void streams(void **state)
{
	(void)state;
	for (int off = 0; off <= 8; off += 8) {
		int n = (2 << 20) + 48, rows = 2056;
		check_some(textf("kernel k\n schedule cpu vec=d block=4096\n buf b0 f32 in\n buf b1 f32 out\n buf b2 u8 out\n dim %d\n point\n"
		                 "  %%0 = load f32 b0 [0 + 1*d0]\n  %%1 = neg f32 %%0\n  store b1 [0 + 1*d0] %%1\n  %%3 = const u8 3\n"
		                 "  store b2 [0 + 1*d0] %%3\n", n),
		           false, off ? 1 : 3, (const int64_t[]){ n + off, n + off, n + off });
		check_some(textf("kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f32 out\n buf b2 f32 out\n dim %d\n red 1024\n loop\n"
		                 "  %%0 = load f32 b0 [0 + 1024*d0 + 1*r]\n  %%1 = reduce f32 max row %%0\n loop\n"
		                 "  %%2 = load f32 b0 [0 + 1024*d0 + 1*r]\n  %%3 = sub f32 %%2 %%1\n  store b1 [0 + 1024*d0 + 1*r] %%3\n"
		                 "  %%5 = reduce f32 add row %%3\n point\n  store b2 [0 + 1*d0] %%5\n loop\n"
		                 "  %%7 = load f32 b1 [0 + 1024*d0 + 1*r]\n  %%8 = mul f32 %%7 %%5\n  store b1 [0 + 1024*d0 + 1*r] %%8\n",
		                 rows),
		           true, off ? 1 : 3, (const int64_t[]){ 1024 * rows + off, 1024 * rows + off, rows });
		check_some(textf("kernel k\n schedule cpu vec=d block=1024\n buf b0 f32 in\n buf b1 f32 out\n dim 1024\n dim %d\n point\n"
		                 "  %%0 = load f32 b0 [0 + 1*d0 + 1024*d1]\n  store b1 [0 + %d*d0 + 1*d1] %%0\n", rows, rows),
		           false, off ? 1 : 3, (const int64_t[]){ 1024 * rows + off, 1024 * rows + off });
	}
}

static int prefetches(const char *text)
{
	env e = { 0 };
	rt_shared *code;
	char *llvm_text;
	int n = 0;
	parse(&e, text);
	compile(&e.k, &e.s, &code, &llvm_text);
	for (const char *at = llvm_text; (at = strstr(at, "call void @llvm.prefetch")) != NULL; at++) n++;
	rt_free(llvm_text);
	rt_shared_unref(code);
	lo_kernel_free(&e.k);
	lo_schedule_free(&e.s);
	rt_arena_free(&e.names);
	return n;
}

/* loops over rows of n elements, step elements apart */
static int asks(int loops, int rows, int n, int step)
{
	char text[2048];
	size_t at = (size_t)snprintf(text, sizeof text,
	                             "kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f32 out\n dim %d\n red %d\n", rows, n);
	for (int i = 0; i < loops; i++)
		at += (size_t)snprintf(
			text + at, sizeof text - at,
			" loop\n  %%%d = load f32 b0 [0 + %d*d0 + 1*r]\n  %%%d = %s f32 %%%d %%%d\n  %%%d = reduce f32 add row %%%d\n",
			3 * i, step, 3 * i + 1, i ? "sub" : "mul", 3 * i, i ? 3 * i - 1 : 0, 3 * i + 2, 3 * i + 1);
	snprintf(text + at, sizeof text - at, " point\n  store b1 [0 + 1*d0] %%%d\n", 3 * loops - 1);
	return prefetches(text);
}

/* The second loop over a row prefetches the next row, if a row has at most 32 KiB; a single loop prefetches the next page. Rows that
 * come from memory are prefetched, each line once. */
static void next_rows(void **state)
{
	set_width(512);
	(void)state;
	int lines = llvm->width() == 512 ? 8 : 4; /* 128 elements a step, or 64 */
	assert_int_equal(asks(2, 8192, 1024, 1024), lines);
	assert_int_equal(asks(3, 8192, 1024, 1024), lines);
	assert_int_equal(asks(2, 1024, 1024, 1024), 0);
	assert_int_equal(asks(1, 8192, 1024, 1024), lines);
	assert_int_equal(asks(1, 512, 16384, 16384), lines);
	assert_int_equal(asks(1, 512, 16384, 20000), lines);
	assert_int_equal(asks(1, 8192, 1024, 4096), 0);
	assert_int_equal(asks(1, 1024, 1024, 1024), 0);
	assert_int_equal(asks(2, 512, 16384, 16384), 0);
	assert_int_equal(asks(2, 8192, 1024, 0), 0);
	static const char weighted[] =
		"kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f32 in\n buf b2 f32 out\n dim 8192\n red 1024\n loop\n"
		"  %0 = load f32 b0 [0 + 1024*d0 + 1*r]\n  %1 = load f32 b1 [0 + 1*r]\n  %2 = mul f32 %0 %1\n"
		"  %3 = reduce f32 add row %2\n point\n  store b2 [0 + 1*d0] %3\n";
	assert_int_equal(prefetches(weighted), lines); /* operands that are the same for all rows are near */
}

static int64_t grain(const char *text)
{
	env e = { 0 };
	parse(&e, text);
	int64_t n = lo_grain(&e.k, &e.s);
	lo_kernel_free(&e.k);
	lo_schedule_free(&e.s);
	rt_arena_free(&e.names);
	return n;
}

/* Units that read the same lines of a buffer stay together: 128 rows of a transpose, with all units of a row. */
static void grains(void **state)
{
	(void)state;
#define COPY(dims, at) \
	"kernel k\n schedule cpu vec=d block=256\n buf b0 f32 in\n buf b1 f32 out\n" dims " point\n  %0 = load f32 b0 [" at \
	"]\n  store b1 [0 + 1*d0] %0\n"
	assert_int_equal(grain(COPY(" dim 512\n dim 256\n", "0 + 256*d0 + 1*d1")), 1);
	assert_int_equal(grain(COPY(" dim 512\n dim 256\n", "0 + 1*d0 + 512*d1")), 128);
	assert_int_equal(grain(COPY(" dim 512\n dim 1000\n", "0 + 1*d0 + 512*d1")), 4 * 128);
	assert_int_equal(grain(COPY(" dim 512\n dim 3\n dim 256\n", "0 + 1*d0 + 512*d1 + 1536*d2")), 3 * 128);
#undef COPY
}

/* Rows in parts: each unit computes one part, then the partial results are combined. */
static void parts(void **state)
{
	static const int sizes[] = { 16384, 16385, 18431, 18433, 24575, 24577, 26000, 40961 };
	(void)state;
	for (size_t i = 0; i < 2 * RT_COUNT(sizes); i++) {
		int lanes = i % 2 ? 64 : 128, part = i % 4 < 2 ? 8192 : 16 * lanes << i % 3; /* a chunk of the tree, or two, or four */
		int n = sizes[i / 2], np = (n + part - 1) / part;
		const char *t = i % 2 ? "f64" : "f32", *a = i % 3 ? "add" : "max", *b = i % 5 ? "mul" : "min";
		check(textf("kernel k\n schedule cpu vec=r part=%d\n buf b0 %s in\n buf b1 %s out\n buf b2 %s out\n dim 2\n red %d\n loop\n"
		            "  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n  part %s row b1 [0 + %d*d0 + 1*r] %%0\n  %%2 = mul %s %%0 %%0\n"
		            "  part %s row b2 [0 + %d*d0 + 1*r] %%2\n",
		            part, t, t, t, n, t, n, a, np * lanes, t, b, np * lanes),
		      i % 4 != 0, 2 * n, 2 * np * lanes, 2 * np * lanes);
		check(textf("kernel k\n schedule cpu vec=r part=%d\n buf b0 i32 in\n buf b1 i32 out\n dim 2\n red %d\n loop\n"
		            "  %%0 = load i32 b0 [0 + %d*d0 + 1*r]\n  part %s none b1 [0 + %d*d0 + 1*r] %%0\n",
		            part, n, n, a, np),
		      false, 2 * n, 2 * np);
		for (int r = lanes; r < 80 * lanes; r = 2 * r + lanes)
			check(textf("kernel k\n schedule cpu vec=r\n buf b0 %s in\n buf b1 %s out\n dim 3\n red %d\n loop\n"
			            "  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n  %%1 = reduce %s %s parts %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
			            t, t, r, t, r, t, a),
			      true, 3 * r, 3);
	}
}

static void columns(void **state)
{
	(void)state;
	for (int n = 1; n <= 300; n += n < 70 ? 1 : 17)
		column(n, 1 + n * 7 % 90, reds[n % 4 == 3 ? 2 : 0], n % 3 ? "f32" : "f64", true, n % 8 ? 1 : 3);
	for (size_t i = 0; i < RT_COUNT(big); i++) column(big[i], 20, "add", i % 2 ? "f64" : "f32", true, 3);
	for (int w = 1; w < 300; w += 23) column(40, w, "max", "f32", false, 3);
}

/* Chunks of few columns go side by side, in whole groups; with none, one, several behind the last group, and a chunk that ends early. */
static void few_columns(void **state)
{
	static const int sizes[] = { 255, 256, 257, 511, 512, 513, 544, 600, 767, 768, 769, 1000, 2048, 5001 };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(sizes); i++) {
		const int n = sizes[i];
		for (int w = 1; w <= 9; w++) column(n, w, reds[w % 3 ? 0 : 2], w % 2 ? "f32" : "f64", true, 3);
		column(n, 3, "max", "i32", false, 3);
		check(textf("kernel k\n schedule cpu vec=d block=5\n buf b0 f32 in\n buf b1 f32 out\n buf b2 bool out\n dim 2\n dim 5\n red %d\n"
		            " loop\n  %%0 = load f32 b0 [0 + %d*d0 + 1*d1 + 5*r]\n  %%1 = mul f32 %%0 %%0\n"
		            "  %%2 = lt bool %%1 %%0\n  %%3 = reduce f32 add column %%1\n"
		            "  %%4 = reduce bool and none %%2\n point\n  store b1 [0 + 5*d0 + 1*d1] %%3\n  store b2 [0 + 5*d0 + 1*d1] %%4\n",
		            n, 5 * n),
		      true, 10 * n, 10, 10);
	}
}

/* Columns in parts: a unit has a part of its columns. The last part may be short, and may have no whole group of chunks. */
static void parts_of_columns(void **state)
{
	static const int sizes[] = { 1024, 1025, 1300, 1536, 1567, 2047, 4001 };
	(void)state;
	for (size_t i = 0; i < 2 * RT_COUNT(sizes); i++) {
		const int n = sizes[i / 2], part = i % 3 ? 512 : 32 << i % 2, np = (n + part - 1) / part, w = 1 + (int)i % 7, block = i % 4 ? w : 2;
		const char *t = i % 2 ? "f64" : "f32", *a = i % 3 ? "add" : "max";
		check(textf("kernel k\n schedule cpu vec=d block=%d part=%d\n buf b0 %s in\n buf b1 %s out\n buf b2 %s out\n dim 2\n dim %d\n red %d\n"
		            " loop\n  %%0 = load %s b0 [0 + %d*d0 + 1*d1 + %d*r]\n  part %s column b1 [0 + %d*d0 + 1*d1 + %d*r] %%0\n"
		            "  %%2 = mul %s %%0 %%0\n  part add column b2 [0 + %d*d0 + 1*d1 + %d*r] %%2\n",
		            block < w ? block : w, part, t, t, t, w, n, t, n * w, w, a, w, 2 * w, t, w, 2 * w),
		      true, 2 * n * w, 2 * np * w, 2 * np * w);
		check(textf("kernel k\n schedule cpu vec=d block=%d part=%d\n buf b0 bool in\n buf b1 bool out\n dim %d\n red %d\n loop\n"
		            "  %%0 = load bool b0 [0 + 1*d0 + %d*r]\n  part or none b1 [0 + 1*d0 + %d*r] %%0\n", w, part, w, n, w, w),
		      false, n * w, np * w);
		for (int r = 1; r < 70; r = 2 * r + (int)i % 3)
			check(textf("kernel k\n schedule cpu vec=d block=%d\n buf b0 %s in\n buf b1 %s out\n dim %d\n red %d\n loop\n"
			            "  %%0 = load %s b0 [0 + 1*d0 + %d*r]\n  %%1 = reduce %s %s pairs %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
			            w, t, t, w, r, t, w, t, a),
			      true, r * w, w);
	}
}

/* Many columns in a unit: whole blocks, a block that ends early, columns after the last vector. */
static void wide_columns(void **state)
{
	static const int widths_[] = { 512, 1024, 1030, 1536 + 31, 2048 };
	(void)state;
	for (size_t i = 0; i < 2 * RT_COUNT(widths_); i++) {
		int w = widths_[i / 2], n = 64 + 37 * (int)i;
		const char *t = i % 2 ? "f64" : "f32";
		check(textf("kernel k\n schedule cpu vec=d block=%d\n buf b0 %s in\n buf b1 %s in\n buf b2 %s out\n dim 2\n dim %d\n red %d\n point\n"
		            "  %%0 = load %s b1 [0 + 1*d0]\n loop\n  %%1 = load %s b0 [0 + %d*d0 + 1*d1 + %d*r]\n"
		            "  %%2 = mul %s %%1 %%0\n  %%3 = reduce %s add column %%2\n  %%4 = reduce %s %s column %%1\n point\n"
		            "  %%5 = load %s b1 [2 + 1*d1]\n  %%6 = add %s %%3 %%5\n  %%7 = sub %s %%6 %%4\n  store b2 [0 + %d*d0 + 1*d1] %%7\n",
		            i % 3 ? 512 : 1024, t, t, t, w, n, t, t, w * n, w, t, t, t, i % 4 ? "max" : "mul", t, t, t, w),
		      true, 2 * (int64_t)w * n, w + 2, 2 * w);
	}
}

static void integer_reductions(void **state)
{
	static const char *const types[] = { "u8", "i32", "i64" };
	(void)state;
	for (size_t t = 0; t < RT_COUNT(types); t++)
		for (int r = 0; r < 4; r++) {
			row(1 + 37 * r, reds[r], types[t], false, 3);
			row(5000, reds[r], types[t], false, 1);
			column(1 + 21 * r, 70, reds[r], types[t], false, 3);
		}
}

static void any_all(void **state)
{
	(void)state;
	for (int n = 1; n < 400; n += 13) {
		check(textf("kernel k\n schedule cpu vec=r\n buf b0 bool in\n buf b1 bool out\n buf b2 bool out\n dim 4\n red %d\n loop\n"
		            "  %%0 = load bool b0 [0 + %d*d0 + 1*r]\n"
		            "  %%1 = reduce bool and none %%0\n  %%2 = reduce bool or none %%0\n point\n  store b1 [0 + 1*d0] %%1\n"
		            "  store b2 [0 + 1*d0] %%2\n",
		            n, n),
		      true, 4 * n, 4, 4);
		check(textf("kernel k\n schedule cpu vec=d block=64\n buf b0 bool in\n buf b1 bool out\n buf b2 bool out\n dim %d\n red 5\n loop\n"
		            "  %%0 = load bool b0 [0 + %d*r + 1*d0]\n"
		            "  %%1 = reduce bool and none %%0\n  %%2 = reduce bool or none %%0\n point\n  store b1 [0 + 1*d0] %%1\n"
		            "  store b2 [0 + 1*d0] %%2\n",
		            n, n),
		      true, 5 * n, n, n);
	}
}

static void arg_reductions(void **state)
{
	static const char *const types[] = { "u8", "i32", "i64", "f32", "f64" };
	(void)state;
	for (size_t t = 0; t < RT_COUNT(types); t++)
		for (int n = 1; n < 300; n = n * 3 / 2 + 1)
			for (int mild = 0; mild < 2; mild++) {
				const char *dt = types[t];
				check_some(
					textf("kernel k\n schedule cpu vec=r\n buf b0 %s in\n buf b1 i64 out\n buf b2 i64 out\n dim 5\n red %d\n loop\n"
					      "  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n"
				              "  %%1 = reduce i64 argmax none %%0\n  %%2 = reduce i64 argmin none %%0\n point\n  store b1 [0 + 1*d0] %%1\n"
				              "  store b2 [0 + 1*d0] %%2\n",
				              dt, n, dt, n),
					mild, n % 2 ? 3 : 1, (const int64_t[]){ 5 * n, 5, 5 });
				check_some(
					textf("kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 i64 out\n dim 21\n red %d\n loop\n"
					      "  %%0 = load %s b0 [0 + 21*r + 1*d0]\n"
				              "  %%1 = reduce i64 argmin none %%0\n point\n  store b1 [0 + 1*d0] %%1\n",
				              dt, n, dt),
					mild, n % 2 ? 3 : 1, (const int64_t[]){ 21 * n, 21 });
				if (mild == n % 2) continue;
				check_some(/* element and index of one search, the index twice; the element of another one alone */
				           textf("kernel k\n schedule cpu vec=r\n buf b0 %s in\n buf b1 %s out\n buf b2 i64 out\n dim 5\n red %d\n loop\n"
				                 "  %%0 = load %s b0 [0 + %d*d0 + 1*r]\n"
				                 "  %%1 = reduce %s atmin none %%0\n  %%2 = reduce %s atmax none %%0\n  %%3 = reduce i64 argmax none %%0\n"
				                 "  %%4 = reduce i64 argmax none %%0\n"
				                 " point\n  %%5 = %s %s %%1 %%2\n  %%6 = add i64 %%3 %%4\n  store b1 [0 + 1*d0] %%5\n  store b2 [0 + 1*d0] %%6\n",
				                 dt, dt, n, dt, n, dt, dt, n % 2 ? "add" : "sub", dt),
				           mild, n % 2 ? 3 : 1, (const int64_t[]){ 5 * n, 5, 5 });
				check_some(
					textf("kernel k\n schedule cpu vec=d block=64\n buf b0 %s in\n buf b1 i64 out\n buf b2 %s out\n dim 21\n red %d\n loop\n"
					      "  %%0 = load %s b0 [0 + 21*r + 1*d0]\n"
				              "  %%1 = reduce i64 argmin none %%0\n  %%2 = reduce %s atmin none %%0\n point\n  store b1 [0 + 1*d0] %%1\n"
				              "  store b2 [0 + 1*d0] %%2\n",
				              dt, dt, n, dt, dt),
					mild, n % 2 ? 3 : 1, (const int64_t[]){ 21 * n, 21, 21 });
			}
}

/* Several loops, a kept row, values between loops, mixed dtypes, strided rows, an arg beside a sum of many chunks. */
static void whole_kernels(void **state)
{
	static const int sizes[] = { 1, 7, 16, 17, 100, 1000, 1500, 2049, 5000 };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(sizes); i++) {
		int n = sizes[i];
		check(textf("kernel k\n schedule cpu vec=r scratch=%d\n keep b3 scratch at=64\n buf b0 f32 in\n buf b1 f32 out\n buf b2 f32 in\n"
		            " buf b3 f32 kept elems=%d\n dim 3\n red %d\n loop\n"
		            "  %%0 = load f32 b0 [0 + %d*d0 + 1*r]\n  %%1 = reduce f32 max row %%0\n point\n  %%2 = const f32 0x1p-1\n"
		            "  %%3 = mul f32 %%1 %%2\n loop\n"
		            "  %%4 = load f32 b0 [0 + %d*d0 + 1*r]\n  %%5 = sub f32 %%4 %%3\n  %%6 = mul f32 %%5 %%5\n  store b3 [0 + 1*r] %%6\n"
		            "  %%8 = reduce f32 add row %%6\n"
		            " loop\n  %%9 = load f32 b3 [0 + 1*r]\n  %%10 = div f32 %%9 %%8\n  %%11 = load f32 b2 [0 + 1*r]\n  %%12 = mul f32 %%10 %%11\n"
		            "  store b1 [0 + %d*d0 + 1*r] %%12\n",
		            4 * n + 64, n, n, n, n, n),
		      true, 3 * n, 3 * n, n, 0);
		check(textf("kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f64 out\n buf b2 f32 out\n buf b3 i64 out\n dim 2\n red %d\n"
		            " loop\n  %%0 = load f32 b0 [1 + 1*d0 + 2*r]\n"
		            "  %%1 = convert f64 %%0\n  %%2 = reduce f64 add row %%1\n  %%3 = reduce f32 add row %%0\n"
		            "  %%4 = reduce i64 argmax none %%0\n"
		            "  %%5 = reduce f32 atmax none %%0\n point\n  %%6 = add f32 %%3 %%5\n"
		            "  store b1 [0 + 1*d0] %%2\n  store b2 [0 + 1*d0] %%6\n  store b3 [0 + 1*d0] %%4\n",
		            n),
		      true, 2 * n + 1, 2, 2, 2);
		check(textf("kernel k\n schedule cpu vec=r\n buf b0 f32 in\n buf b1 f64 out\n buf b2 f32 out\n dim 2\n red %d\n loop\n"
		            "  %%0 = load f32 b0 [0 + %d*d0 + 1*r]\n"
		            "  %%1 = convert f64 %%0\n  %%2 = reduce f64 add row %%1\n  %%3 = reduce f32 add row %%0\n point\n"
		            "  store b1 [0 + 1*d0] %%2\n  store b2 [0 + 1*d0] %%3\n",
		            n, n),
		      true, 2 * n, 2, 2);
		for (int wide = 0; wide < 2 && n <= 1500; wide++) /* columns that keep their values between loops; wide: several registers side by side */
			check(textf("kernel k\n schedule cpu vec=d block=64 scratch=%d\n keep b2 scratch at=64\n keep b3 scratch at=%d\n buf b0 f32 in\n"
			            " buf b1 f32 out\n buf b2 f64 kept elems=%d\n buf b3 f32 kept elems=%d\n dim 2\n dim %d\n red %d\n loop\n"
			            "  %%0 = load f32 b0 [0 + %d*d0 + 1*d1 + %d*r]\n  %%1 = convert f64 %%0\n  %%2 = mul f64 %%1 %%1\n  store b2 [0 + 1*r] %%2\n"
			            "  %%4 = mul f32 %%0 %%0\n  store b3 [0 + 1*r] %%4\n  %%6 = reduce f32 add column %%4\n"
			            " loop\n  %%7 = load f64 b2 [0 + 1*r]\n  %%8 = convert f32 %%7\n  %%9 = load f32 b3 [0 + 1*r]\n  %%10 = add f32 %%8 %%9\n"
			            "  %%11 = div f32 %%10 %%6\n"
			            "  store b1 [0 + %d*d0 + 1*d1 + %d*r] %%11\n",
			            12 * n * 32 + 128, 8 * n * 32 + 128, n, n, wide ? 135 : 7, n, (wide ? 135 : 7) * n, wide ? 135 : 7,
			            (wide ? 135 : 7) * n, wide ? 135 : 7),
			      true, 2 * (wide ? 135 : 7) * n, 2 * (wide ? 135 : 7) * n, 0, 0);
		/* columns, centred: two loops over r for each vector of columns */
		check(textf("kernel k\n schedule cpu vec=d block=64\n buf b0 f32 in\n buf b1 f32 out\n dim 2\n dim 70\n red %d\n loop\n"
		            "  %%0 = load f32 b0 [0 + %d*d0 + 1*d1 + 70*r]\n"
		            "  %%1 = reduce f32 add column %%0\n point\n  %%2 = num f64 0\n  %%3 = convert f32 %%2\n  %%4 = mul f32 %%1 %%3\n loop\n"
		            "  %%5 = load f32 b0 [0 + %d*d0 + 1*d1 + 70*r]\n  %%6 = sub f32 %%5 %%4\n  store b1 [0 + %d*d0 + 1*d1 + 70*r] %%6\n",
		            n, 70 * n, 70 * n, 70 * n),
		      true, 140 * n, 140 * n);
		/* a gather along r, and the index of r */
		check(textf("kernel k\n schedule cpu vec=r\n buf b0 i64 in\n buf b1 f32 in\n buf b2 f32 out\n buf b3 i64 out\n dim 2\n red %d\n"
		            " fault 3\n loop\n  %%0 = load i64 b0 [0 + 1*r]\n"
		            "  %%1 = const i64 200\n  %%2 = gt bool %%0 %%1\n  fault 0 %%2\n  %%4 = load f32 b1 [0 + 1*d0] + %%0*2\n"
		            "  %%5 = reduce f32 add row %%4\n"
		            "  %%6 = index i64 r\n  %%7 = index i64 d0\n  %%8 = add i64 %%6 %%7\n  %%9 = reduce i64 add none %%8\n point\n"
		            "  store b2 [0 + 1*d0] %%5\n  store b3 [0 + 1*d0] %%9\n",
		            n),
		      true, n, 200, 2, 2);
	}
}

/* ---- what kernels are as code ---- */
static void compile_time(void **state)
{
	static const char *const text =
		"kernel k\n schedule cpu vec=d block=1024\n buf b0 f32 in\n buf b1 f32 in\n buf b2 f32 out\n dim 1000001\n point\n"
		"  %0 = load f32 b0 [0 + 1*d0]\n"
		"  %1 = load f32 b1 [0 + 1*d0]\n  %2 = mul f32 %0 %1\n  %3 = add f32 %2 %0\n  %4 = mul f32 %3 %1\n  %5 = sub f32 %4 %0\n"
		"  %6 = mul f32 %5 %5\n"
		"  %7 = add f32 %6 %1\n  %8 = div f32 %7 %3\n  %9 = fma f32 %8 %7 %6\n  %10 = fma f32 %9 %8 %6\n  %11 = fma f32 %10 %9 %6\n"
		"  %12 = sqrt f32 %11\n"
		"  %13 = floor f32 %12\n  %14 = add f32 %13 %11\n  store b2 [0 + 1*d0] %14\n";
	env e = { 0 };
	double best = 1e9;
	(void)state;
	parse(&e, text);
	for (size_t w = 0; w < RT_COUNT(widths); w++) {
		set_width(widths[w]);
		for (int i = 0; i < 5; i++) {
			rt_shared *code;
			double start = rt_now_ms();
			compile(&e.k, &e.s, &code, NULL);
			double ms = rt_now_ms() - start;
			if (ms < best) best = ms;
			rt_shared_unref(code);
		}
		print_message("a kernel of 15 ops, %d bits: %.2f ms\n", widths[w], best);
		best = 1e9;
	}
	lo_kernel_free(&e.k);
	lo_schedule_free(&e.s);
	rt_arena_free(&e.names);
}

static const char *scale(const char *name, const char *factor)
{
	return textf(
		"kernel %s\n schedule cpu vec=d block=64\n buf b0 f32 in\n buf b1 f32 out\n dim 100\n point\n  %%0 = load f32 b0 [0 + 1*d0]\n"
		"  %%1 = const f32 %s\n  %%2 = mul f32 %%0 %%1\n  store b1 [0 + 1*d0] %%2\n",
		name, factor);
}

/* Equal kernels are one function, in a plan and between plans; code is freed with its last user. */
static void equal_kernels(void **state)
{
	lo_kernel k[3];
	lo_schedule s[3];
	rt_arena names = { 0 };
	rt_err err = { 0 };
	rt_entry fn[2][3];
	rt_shared *code[2];
	(void)state;
	set_width(512);
	assert_int_equal(lo_parse(&k[0], &s[0], &lo_cpu, scale("a", "0x1.8p+1"), &names, &err), TJ_OK);
	assert_int_equal(lo_parse(&k[1], &s[1], &lo_cpu, scale("b", "0x1.8p+2"), &names, &err), TJ_OK);
	assert_int_equal(lo_parse(&k[2], &s[2], &lo_cpu, scale("c", "0x1.8p+1"), &names, &err), TJ_OK);
	for (int i = 0; i < 2; i++) {
		lo_compile job = { .kernel = (const lo_kernel *[]){ &k[0], &k[1], &k[2] },
						   .schedule = (const lo_schedule *[]){ &s[0], &s[1], &s[2] },
						   .nkernel = 3,
						   .fn = fn[i],
						   .keep_text = true };
		assert_int_equal(llvm->compile(&job, &err), TJ_OK);
		assert_non_null(strstr(job.text, "; c is a"));
		rt_free(job.text);
		code[i] = job.code;
		assert_true(fn[i][0] == fn[i][2] && fn[i][0] != fn[i][1] && fn[i][0] == fn[0][0] &&
					fn[i][1] == fn[0][1]);
	}
	rt_shared_unref(code[0]);
	float x[100] = { 2, 4 }, y[100];
	int32_t fault = 0;
	rt_kargs a = { .buf = (void *[]){ x, y }, .fault = &fault };
	((rt_kernel_fn *)fn[1][2])(&a, 0, 2);
	assert_true(y[0] == 6 && y[1] == 12 && y[99] == 0);
	rt_shared_unref(code[1]);
	for (int i = 0; i < 3; i++) lo_kernel_free(&k[i]), lo_schedule_free(&s[i]);
	rt_arena_free(&names);
}

/* Many kernels are compiled in parts, by several threads. */
static void many_kernels(void **state)
{
	enum { N = 11 };
	lo_kernel k[N];
	lo_schedule s[N];
	const lo_kernel *list[N];
	const lo_schedule *how[N];
	rt_arena names = { 0 };
	rt_err err = { 0 };
	rt_entry fn[N];
	(void)state;
	set_width(512);
	for (int i = 0; i < N; i++) {
		char name[16], factor[16];
		snprintf(name, sizeof name, "k%d", i);
		snprintf(factor, sizeof factor, "%d", i % 7);
		assert_int_equal(lo_parse(&k[i], &s[i], &lo_cpu, scale(name, factor), &names, &err), TJ_OK);
		list[i] = &k[i];
		how[i] = &s[i];
	}
	lo_compile job = { .kernel = list, .schedule = how, .nkernel = N, .fn = fn };
	assert_int_equal(llvm->compile(&job, &err), TJ_OK);
	for (int i = 0; i < N; i++) {
		float x[100] = { 2, 4 }, y[100];
		int32_t fault = 0;
		rt_kargs a = { .buf = (void *[]){ x, y }, .fault = &fault };
		((rt_kernel_fn *)fn[i])(&a, 0, 2);
		assert_true(y[0] == 2 * (float)(i % 7) && y[1] == 4 * (float)(i % 7));
		lo_kernel_free(&k[i]);
		lo_schedule_free(&s[i]);
	}
	rt_shared_unref(job.code);
	rt_arena_free(&names);
}

typedef struct worker { pthread_t id; int number; bool ok; } worker;

static void *compile_many(void *arg)
{
	worker *w = arg;
	w->ok = true;
	for (int i = 0; i < 12; i++) {
		char text[400];
		float x[100] = { 2, 4 }, y[100];
		int32_t fault = 0, factor = i % 3 ? i : 100 * w->number + i; /* some of them in all threads */
		lo_kernel k;
		lo_schedule s;
		const lo_kernel *one = &k;
		const lo_schedule *how = &s;
		rt_arena names = { 0 };
		rt_err err = { 0 };
		rt_entry fn;
		lo_compile job = { .kernel = &one, .schedule = &how, .nkernel = 1, .fn = &fn };
		rt_kargs a = { .buf = (void *[]){ x, y }, .fault = &fault };
		snprintf(
			text, sizeof text,
			"kernel k\n schedule cpu vec=d block=64\n buf b0 f32 in\n buf b1 f32 out\n dim 100\n point\n  %%0 = load f32 b0 [0 + 1*d0]\n"
			"  %%1 = const f32 %d\n  %%2 = mul f32 %%0 %%1\n  store b1 [0 + 1*d0] %%2\n",
			(int)factor);
		w->ok &= lo_parse(&k, &s, &lo_cpu, text, &names, &err) == TJ_OK && llvm->compile(&job, &err) == TJ_OK;
		if (!w->ok) return NULL;
		((rt_kernel_fn *)fn)(&a, 0, 2);
		w->ok &= y[1] == 4 * (float)factor && y[99] == 0;
		rt_shared_unref(job.code);
		lo_kernel_free(&k);
		lo_schedule_free(&s);
		rt_arena_free(&names);
	}
	return NULL;
}

static void threads(void **state)
{
	worker w[8] = { 0 };
	(void)state;
	set_width(512);
	for (int i = 0; i < 8; i++) {
		w[i].number = i + 1;
		pthread_create(&w[i].id, NULL, compile_many, &w[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(w[i].id, NULL);
		assert_true(w[i].ok);
	}
}

static int start(void **state)
{
	const char *why = "?";
	(void)state;
	llvm = lo_backend_find("llvm", &why);
	if (!llvm) print_message("skipped: %s\n", why);
	return 0;
}

/* ---- text in a locale that writes 1,5 ---- */
static bool comma_locale(void)
{
	char folder[] = "/tmp/tj_locale_XXXXXX", command[400];
	assert_non_null(mkdtemp(folder));
	snprintf(command, sizeof command,
			 "cd %s && printf 'LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n' >from && "
			 "localedef -c -i ./from -f UTF-8 ./comma >log 2>&1; test -e comma/LC_NUMERIC",
			 folder);
	bool made = !system(command);
	setenv("LOCPATH", folder, 1);
	made = made && setlocale(LC_NUMERIC, "comma");
	unsetenv("LOCPATH");
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
	return made;
}

static void same_in_every_locale(void **state)
{
	const char *graph = "%0 = const f32[] 0x1.8p+1\nret %0\n", *kernel = scale("a", "0x1.8p+1");
	rt_text t = { 0 }, u = { 0 };
	rt_arena names = { 0 };
	rt_err err = { 0 };
	lo_kernel k;
	lo_schedule s;
	ir_graph g;
	(void)state;
	if (!comma_locale()) SKIP("localedef cannot make a locale with a decimal comma");
	ir_graph_init(&g);
	rt_putf(&t, "%.1f", 1.5);
	assert_string_equal(rt_str(&t), "1,5"); /* the locale is in use */
	rt_text_free(&t);
	assert_int_equal(ir_parse(&g, graph, &err), TJ_OK);
	ir_print(&g, &t);
	assert_non_null(strstr(rt_str(&t), "0x1.8p+1"));
	assert_int_equal(lo_parse(&k, &s, &lo_cpu, kernel, &names, &err), TJ_OK);
	lo_print(&k, &s, &u);
	setlocale(LC_NUMERIC, "C");
	assert_non_null(strstr(rt_str(&u), "0x1.8p+1"));
	rt_text_free(&t);
	rt_text_free(&u);
	lo_kernel_free(&k);
	lo_schedule_free(&s);
	rt_arena_free(&names);
	ir_graph_free(&g);
}

static int finish(void **state)
{
	(void)state;
	unsetenv("TJ_CPU");
	print_message("%d kernels, %.2f ms each, slowest %.1f ms\n", compiled,
				  total_ms / (compiled ? compiled : 1), slowest);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_primitive), cmocka_unit_test(each_conversion),
		cmocka_unit_test(tails),          cmocka_unit_test(layouts),
		cmocka_unit_test(steps),
		cmocka_unit_test(jumps),
		cmocka_unit_test(few_rows), cmocka_unit_test(gathers),        cmocka_unit_test(indices),
		cmocka_unit_test(faults),         cmocka_unit_test(bytes_only),
		cmocka_unit_test(chains),         cmocka_unit_test(balanced),
		cmocka_unit_test(tiles),
		cmocka_unit_test(rows),           cmocka_unit_test(long_rows),
		cmocka_unit_test(seldom),         cmocka_unit_test(streams),
		cmocka_unit_test(next_rows), cmocka_unit_test(grains),      cmocka_unit_test(parts),
		cmocka_unit_test(columns),        cmocka_unit_test(wide_columns),
		cmocka_unit_test(few_columns),    cmocka_unit_test(parts_of_columns),
		cmocka_unit_test(integer_reductions),
		cmocka_unit_test(any_all),        cmocka_unit_test(arg_reductions),
		cmocka_unit_test(whole_kernels),  cmocka_unit_test(equal_kernels),
		cmocka_unit_test(many_kernels),   cmocka_unit_test(threads),
		cmocka_unit_test(compile_time),   cmocka_unit_test(same_in_every_locale),
	};
	return cmocka_run_group_tests(tests, start, finish);
}
