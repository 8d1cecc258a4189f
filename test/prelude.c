/* SPDX-License-Identifier: MIT */
/* prelude: what is PTX on a GPU, against plain C:  prelude [-d device] [-n chunks]
 *
 * Conversions: all f16 and all bf16 to f32; all f32, in 4096 chunks, to f16 and bf16. -n: only so many chunks, spread evenly.
 * Stores of 16 bytes, and of 8 (i8): rows of 64 elements begin at multiples of these; most rows of 63 do not, and are stored element by
 * element. */
#include <tj.h>

#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 4096, CHUNK = 1 << 20, ROWS = 300, WIDE = 64, ODD = 63 };

static void widen(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_cast(in[0], TJ_F32), out[1] = tj_cast(in[1], TJ_F32);
}
static void narrow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_cast(in[0], TJ_F16), out[1] = tj_cast(in[0], TJ_BF16);
}

static void mask(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_bitwise_xor(in[0], in[1]); }

static bool is_nan16(uint16_t h, int mantissa) { return (h & 0x7fff) > (0x7fff >> mantissa << mantissa); }

static bool check_wide(tj_ctx *c, tj_fn *f)
{
	static uint16_t h[1 << 16];
	static float got[2][1 << 16];
	tj_tensor *out[2];
	for (int i = 0; i < 1 << 16; i++) h[i] = (uint16_t)i;
	tj_scope *s = tj_push(c);
	tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F16, TJ_SHAPE(1 << 16), h), tj_from_data(c, TJ_BF16, TJ_SHAPE(1 << 16), h)));
	for (int k = 0; k < 2; k++)
		if (tj_read(out[k], got[k], sizeof got[k]) != TJ_OK) return false;
	tj_pop(s);
	for (int i = 0; i < 1 << 16; i++)
		for (int k = 0; k < 2; k++) {
			const float want = k ? tj_from_bf16((tj_bf16){ h[i] }) : tj_from_f16((tj_f16){ h[i] });
			if (want != want ? got[k][i] == got[k][i] : memcmp(&got[k][i], &want, 4) != 0) {
				printf("%s %04x gives %a, not %a\n", k ? "bf16" : "f16", i, got[k][i], want);
				return false;
			}
		}
	return true;
}

static bool check_narrow(tj_ctx *c, tj_fn *f, uint32_t chunk)
{
	static float x[CHUNK];
	static uint16_t got[2][CHUNK];
	tj_tensor *out[2];
	for (uint32_t i = 0; i < CHUNK; i++) {
		const uint32_t bits = chunk * (uint32_t)CHUNK + i;
		memcpy(&x[i], &bits, 4);
	}
	tj_scope *s = tj_push(c);
	tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(CHUNK), x)));
	for (int k = 0; k < 2; k++)
		if (tj_read(out[k], got[k], sizeof got[k]) != TJ_OK) return false;
	tj_pop(s);
	for (uint32_t i = 0; i < CHUNK; i++)
		for (int k = 0; k < 2; k++) {
			const uint16_t want = k ? tj_to_bf16(x[i]).bits : tj_to_f16(x[i]).bits;
			const int mantissa = k ? 7 : 10;
			if (is_nan16(want, mantissa) ? !is_nan16(got[k][i], mantissa) : got[k][i] != want) {
				printf("%a gives %s %04x, not %04x\n", x[i], k ? "bf16" : "f16", got[k][i], want);
				return false;
			}
		}
	return true;
}

/* Byte b of the element in row r and column i. The mask is row ROWS. */
static uint8_t byte_at(int r, int i, size_t size, size_t b)
{
	const uint32_t x = ((uint32_t)(r * WIDE + i) * (uint32_t)size + (uint32_t)b + 1) * 2654435761u;
	return (uint8_t)(x >> 24);
}

static void fill(uint8_t *x, int first, int rows, int columns, size_t size)
{
	for (int r = first; r < first + rows; r++)
		for (int i = 0; i < columns; i++)
			for (size_t b = 0; b < size; b++) *x++ = byte_at(r, i, size, b);
}

/* All rows share one mask, so lowering cannot join them to one long row. */
static bool check_stores(tj_ctx *c, tj_fn *f, tj_dtype t, int columns)
{
	static uint8_t x[ROWS * WIDE * 8], y[WIDE * 8], got[sizeof x];
	const size_t size = tj_dtype_size(t), bytes = (size_t)ROWS * (size_t)columns * size;
	fill(x, 0, ROWS, columns, size);
	fill(y, ROWS, 1, columns, size);
	tj_scope *s = tj_push(c);
	tj_tensor *out = tj_call1(f, TJ_LIST(tj_from_data(c, t, TJ_SHAPE(ROWS, columns), x), tj_from_data(c, t, TJ_SHAPE(columns), y)));
	const bool read = tj_read(out, got, bytes) == TJ_OK;
	tj_pop(s);
	for (size_t i = 0; read && i < bytes; i++) {
		const uint8_t want = x[i] ^ y[i % ((size_t)columns * size)];
		if (got[i] == want) continue;
		printf("%s: byte %zu of row %zu, of %d elements, is %02x, not %02x\n", tj_dtype_name(t), i % ((size_t)columns * size),
		       i / ((size_t)columns * size), columns, got[i], want);
		return false;
	}
	return read;
}

/* A kernel of the function has the stores that are PTX on a GPU. */
static bool has_stores(tj_fn *f)
{
	char *text = NULL;
	size_t n = 0, found = 0;
	FILE *to = open_memstream(&text, &n);
	if (!to) return false;
	tj_dump(f, TJ_DUMP_CODE, to);
	fclose(to);
	for (const char *s = text; (s = strstr(s, "tj_store<false>(b")); s++) found++;
	if (!found) printf("no kernel has stores of 16 bytes\n");
	free(text);
	return found > 0;
}

static bool check_all_stores(tj_ctx *c, const char *device, int *passed)
{
	static const tj_dtype dtype[] = { TJ_I8, TJ_I16, TJ_I32, TJ_I64 };
	tj_fn *f = tj_compile(c, mask, NULL, TJ_OPTS(tj_compile_opts, .name = "mask", .nin = 2, .nout = 1));
	for (int i = 0; i < 4; i++, ++*passed)
		if (!check_stores(c, f, dtype[i], WIDE) || !check_stores(c, f, dtype[i], ODD)) return false;
	return strncmp(device, "cuda", 4) != 0 || has_stores(f);
}

int main(int argc, char **argv)
{
	const char *device = "cpu";
	int n = CHUNKS, passed = 0;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-d")) device = argv[i + 1];
		else if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);
	}
	if (tj_find_device(device) < 0 || n < 1 || n > CHUNKS) {
		fprintf(stderr, "prelude [-d device] [-n chunks]: no device %s, or not 1 to %d chunks\n", device, CHUNKS);
		return 2;
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	tj_fn *to = tj_compile(c, widen, NULL, TJ_OPTS(tj_compile_opts, .name = "widen", .nin = 2, .nout = 2, .mode = TJ_DIRECT));
	tj_fn *from = tj_compile(c, narrow, NULL, TJ_OPTS(tj_compile_opts, .name = "narrow", .nin = 1, .nout = 2, .mode = TJ_DIRECT));
	bool ok = check_all_stores(c, device, &passed) && check_wide(c, to);
	passed += ok;
	for (int i = 0; ok && i < n; i++, passed += ok) ok = check_narrow(c, from, (uint32_t)((int64_t)i * CHUNKS / n));
	if (tj_check(c) != TJ_OK) tj_perror(c, stdout), ok = false;
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, !ok);
	return !ok;
}
