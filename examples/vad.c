/* SPDX-License-Identifier: MIT */
/* Voice activity: where does a recording have speech? The model is silero-vad (MIT), which `make models` fetches.
 *
 *   build/examples/vad sound.wav [picture.png]     PCM of 16 bits; the picture gets the wave and the probability of speech
 *
 * The model reads chunks of 32 ms, each behind the last 4 ms of the one before, and a state goes on from chunk to chunk: a microphone
 * could deliver them. From probabilities to segments: as get_speech_timestamps() of the package silero-vad 6.2, with its defaults. */
#include <tjdata.h>
#include <tjfiles.h>
#include <tjmodel.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const MODEL = "build/models/onnx/silero_vad.onnx";
static const double SPEECH = 0.5, SILENCE = 0.35; /* probabilities: from the first on speech begins, below the second it may end */
static const double SHORTEST = 0.25, GAP = 0.1, MARGIN = 0.03; /* seconds */
enum { ACROSS = 1000, WAVE = 160, CHANCE = 80, LOWEST = 4000, HIGHEST = 384000, LONGEST_KERNEL = 1000 };

typedef struct sound { int rate, channels; int64_t frames; const unsigned char *pcm; } sound;
typedef struct segment { double begin, end; } segment; /* in seconds */

static unsigned number(const unsigned char *p, int bytes) { return bytes ? p[0] + (number(p + 1, bytes - 1) << 8) : 0; }

/* A RIFF file is a list of chunks: a name, a length, its bytes. NULL, or what is wrong. */
static const char *read_wav(const unsigned char *p, int64_t n, sound *s)
{
	*s = (sound){ 0 };
	if (n < 12 || memcmp(p, "RIFF", 4) || memcmp(p + 8, "WAVE", 4)) return "it is no WAV file";
	for (int64_t at = 12; n - at >= 8;) {
		const unsigned char *chunk = p + at + 8;
		const int64_t said = number(p + at + 4, 4), bytes = said < n - at - 8 ? said : n - at - 8;
		if (!memcmp(p + at, "fmt ", 4) && bytes >= 16) {
			const unsigned format = number(chunk, 2); /* 0xfffe: the number stands further on */
			s->channels = (int)number(chunk + 2, 2), s->rate = (int)number(chunk + 4, 4);
			if ((format == 0xfffe && bytes >= 26 ? number(chunk + 24, 2) : format) != 1 || number(chunk + 14, 2) != 16)
				return "only PCM of 16 bits is read";
		} else if (!memcmp(p + at, "data", 4)) {
			if (!s->channels) return "its format does not stand before its data";
			if (s->rate < LOWEST || s->rate > HIGHEST) return "its rate is not from 4,000 to 384,000";
			s->pcm = chunk, s->frames = bytes / (2 * s->channels);
			return s->frames ? NULL : "it has no samples";
		}
		at += 8 + said + (said & 1);
	}
	return "it has no samples";
}

/* All channels as one, f32 [frames]. */
static tj_tensor *mono(tj_ctx *c, const sound *s)
{
	tj_tensor *x = tj_wrap(c, TJ_U8, TJ_SHAPE(s->frames, s->channels, 2), NULL, (void *)s->pcm, NULL, NULL);
	tj_tensor *low = tj_cast(tj_select(x, 2, 0), TJ_F32), *high = tj_cast(tj_cast(tj_select(x, 2, 1), TJ_I8), TJ_F32);
	return tj_mul(tj_mean(tj_add(tj_mul(high, tj_f(256)), low), TJ_AXES(1), false), tj_f(1. / 32768));
}

/* x [n] at another rate, by a filter for each place between two samples: torchaudio.functional.resample(), sinc_interp_hann. */
static tj_tensor *resampled(tj_ctx *c, tj_tensor *x, int from, int to)
{
	const double pi = 3.14159265358979323846, base = 0.99 * (from < to ? from : to);
	const int64_t width = (int64_t)ceil(6. * from / base), taps = 2 * width + from, n = tj_numel(x);
	float *k = malloc((size_t)(to * taps) * sizeof *k);
	if (!k) return tj_fail(TJ_ERR_NOMEM, "resampled", NULL, "out of memory");
	for (int64_t i = 0; i < to * taps; i++) {
		const double t = fmax(-6, fmin(6, ((double)(i % taps - width) / from - (double)(i / taps) / to) * base));
		k[i] = (float)((t == 0 ? 1 : sin(pi * t) / (pi * t)) * pow(cos(pi * t / 12), 2) * base / from);
	}
	tj_tensor *filters = tj_from_data(c, TJ_F32, TJ_SHAPE(to, 1, taps), k);
	free(k);
	x = tj_pad(tj_reshape(x, TJ_SHAPE(1, 1, n)), TJ_SHAPE(width, width + from), TJ_PAD_CONSTANT, tj_f(0));
	x = tj_conv1d(x, filters, NULL, TJ_OPTS(tj_conv_opts, .stride = { from }));
	return tj_slice(tj_ravel(tj_transpose(x, 1, 2)), 0, 0, (n * to + from - 1) / from, 1);
}

/* p[n]: the probability that each chunk of x is speech. */
static void listen(tj_ctx *c, tj_fn *model, const float *x, int64_t samples, int rate, float *p, int64_t n)
{
	const int chunk = rate / 1000 * 32, before = rate / 1000 * 4;
	float *window = calloc((size_t)(before + chunk), sizeof *window); /* silence comes before the first chunk */
	tj_tensor *state = tj_retain(tj_zeros(TJ_F32, TJ_SHAPE(2, 1, 128)));
	if (!window) memset(p, 0, (size_t)n * sizeof *p), tj_fail(TJ_ERR_NOMEM, "listen", NULL, "out of memory");
	for (int64_t i = 0; window && i < n; i++) {
		tj_scope *s = tj_push(c);
		const int64_t left = samples - i * chunk, here = left < chunk ? left : chunk;
		memset(window + before, 0, (size_t)chunk * sizeof *x);
		memcpy(window + before, x + i * chunk, (size_t)here * sizeof *x);
		tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(1, before + chunk), window), *out[2];
		tj_call(model, out, TJ_LIST(in, state, tj_i(rate)));
		p[i] = (float)tj_item(out[0]);
		tj_release(state);
		state = tj_retain(out[1]);
		memcpy(window, window + chunk, (size_t)before * sizeof *x);
		tj_pop(s);
	}
	tj_release(state);
	free(window);
}

/* Segments of p[n] into s, as many as there are; half of n have room. */
static int segments(const float *p, int64_t n, double chunk, double length, segment *s)
{
	int count = 0;
	double begin = -1, end = -1; /* -1: none */
	for (int64_t i = 0; i < n; i++) {
		const double now = (double)i * chunk;
		if (p[i] >= SPEECH) {
			end = -1;
			if (begin < 0) begin = now;
		} else if (begin >= 0 && p[i] < SILENCE) {
			if (end < 0) end = now;
			if (now - end < GAP) continue;
			if (end - begin > SHORTEST) s[count++] = (segment){ begin, end };
			begin = end = -1;
		}
	}
	if (begin >= 0 && length - begin > SHORTEST) s[count++] = (segment){ begin, length };
	for (int i = 0; i < count; i++) { /* room on both sides, half of the gap where two are near */
		const double gap = i + 1 < count ? s[i + 1].begin - s[i].end : INFINITY, room = fmin(MARGIN, gap / 2);
		if (i == 0) s[i].begin = fmax(0, s[i].begin - MARGIN);
		s[i].end = fmin(length, s[i].end + room);
		if (i + 1 < count) s[i + 1].begin -= room;
	}
	return count;
}

static void draw(tj_ctx *c, const char *path, const float *x, int64_t samples, const float *p, int64_t n)
{
	static unsigned char dot[WAVE + CHANCE][ACROSS][3];
	memset(dot, 255, sizeof dot);
	for (int64_t at = 0; at < ACROSS; at++) {
		const float chance = p[at * n / ACROSS];
		float high = 0;
		for (int64_t i = at * samples / ACROSS; i < (at + 1) * samples / ACROSS; i++) high = fmaxf(high, fabsf(x[i]));
		for (int y = 0; y < WAVE; y++)
			if (abs(y - WAVE / 2) <= (float)(WAVE / 2) * high) memcpy(dot[y][at], chance >= SPEECH ? "\x20\x80\x30" : "\xa0\xa0\xa0", 3);
		for (int y = 0; y < CHANCE; y++)
			if (y >= (float)CHANCE * (1 - chance)) memcpy(dot[WAVE + y][at], "\x40\x60\xc0", 3);
	}
	tj_png_save(tj_from_data(c, TJ_U8, TJ_SHAPE(WAVE + CHANCE, ACROSS, 3), dot), path);
}

int main(int argc, char **argv)
{
	if (argc < 2) return fprintf(stderr, "vad sound.wav [picture.png]\n"), 2;
	tj_ctx *c = tj_open(NULL);
	tj_tensor *file = tj_text_map(c, argv[1]);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	sound s;
	const char *wrong = read_wav(tj_data(file), tj_numel(file), &s);
	if (wrong) return fprintf(stderr, "%s: %s\n", argv[1], wrong), 1;
	tj_model *model = tj_onnx_open(c, MODEL, NULL);
	if (!model) return tj_perror(c, stderr), fprintf(stderr, "`make models` fetches the model\n"), 1;

	const int rate = s.rate < 16000 ? 8000 : 16000;
	int common = s.rate;
	for (int b = rate; b;) { const int rest = common % b; common = b, b = rest; }
	if (s.rate / common > LONGEST_KERNEL)
		return fprintf(stderr, "%s: a rate of %d does not become %d: their common divisor is too small\n", argv[1], s.rate, rate), 1;
	tj_tensor *t = mono(c, &s);
	if (s.rate != rate) t = resampled(c, t, s.rate / common, rate / common);
	const int64_t samples = tj_numel(t), chunk = rate / 1000 * 32, n = (samples + chunk - 1) / chunk;
	const float *x = tj_data(t);
	float *p = malloc((size_t)n * sizeof *p);
	segment *found = malloc((size_t)(n / 2 + 1) * sizeof *found);
	if (!x || !p || !found) return tj_perror(c, stderr), 1;

	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	listen(c, tj_model_fn(model), x, samples, rate, p, n);
	clock_gettime(CLOCK_MONOTONIC, &b);
	const double length = (double)samples / rate;
	const int count = segments(p, n, 0.032, length, found);
	double mean = 0;
	for (int64_t i = 0; i < n; i++) mean += p[i] / (double)n;
	printf("silero_vad: %.2f s at %d, %d channel%s; mean probability of speech %.3f\n", length, s.rate, s.channels, s.channels > 1 ? "s" : "",
	       mean);
	for (int i = 0; i < count; i++) printf("speech from %.2f s to %.2f s\n", found[i].begin, found[i].end);
	if (argc > 2) draw(c, argv[2], x, samples, p, n);
	printf("time: %.1f ms\n", (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	const bool failed = tj_check(c) != TJ_OK;
	if (failed) tj_perror(c, stderr);
	free(p), free(found);
	tj_model_close(model);
	tj_close(c);
	return failed;
}
