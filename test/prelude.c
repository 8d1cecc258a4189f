/* prelude: conversions on a device, which are PTX there, against the CPU's:  prelude [-d device] [-n chunks]
 *
 * All f16 and all bf16 to f32; all f32, in 4096 chunks, to f16 and bf16. -n: only so many chunks, spread evenly. */
#include <tj.h>

#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 4096, CHUNK = 1 << 20 };

static void widen(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cast(in[0], TJ_F32), out[1] = tj_cast(in[1], TJ_F32); }
static void narrow(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cast(in[0], TJ_F16), out[1] = tj_cast(in[0], TJ_BF16); }

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
	bool ok = check_wide(c, to);
	passed += ok;
	for (int i = 0; ok && i < n; i++, passed += ok) ok = check_narrow(c, from, (uint32_t)((int64_t)i * CHUNKS / n));
	if (tj_check(c) != TJ_OK) tj_perror(c, stdout), ok = false;
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, !ok);
	return !ok;
}
