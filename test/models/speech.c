/* SPDX-License-Identifier: MIT */
/* speech: writes a WAV file with what sounds like two words: vowels, as pulses through three resonances, with hissing between them.
 *   speech FILE [RATE [CHANNELS]]
 * The second channel is silent. Formants are those of Peterson and Barney (1952). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const struct vowel { double formant[3], from, to; } vowels[] = {
	{ { 730, 1090, 2440 }, 120, 140 }, { { 270, 2290, 3010 }, 140, 130 }, { { 570, 840, 2410 }, 130, 125 }, { { 530, 1840, 2480 }, 125, 150 },
	{ { 300, 870, 2240 }, 140, 100 },  { { 730, 1090, 2440 }, 110, 130 }, { { 530, 1840, 2480 }, 130, 90 },
};
static FILE *out;
static int rate = 16000, channels = 1;
static double phase, memory[3][2];
static uint32_t seed = 1;

static double noise(void) { return (double)((seed = seed * 1664525u + 1013904223u) >> 8) / 0x1p23 - 1; }

static void put(uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) fputc((int)(v >> 8 * i & 255), out);
}

static void sample(double x)
{
	put((uint32_t)(int)lrint(fmax(-1, fmin(1, x)) * 32767) & 0xffff, 2);
	for (int i = 1; i < channels; i++) put(0, 2);
}

static void say(const struct vowel *v, int n)
{
	static const double width[3] = { 60, 90, 120 };
	for (int i = 0; i < n; i++) {
		const double t = (double)i / n;
		phase += (v->from + (v->to - v->from) * t) / rate;
		double y = noise() * 0.01 + (phase >= 1);
		phase -= phase >= 1;
		for (int k = 0; k < 3; k++) {
			const double pi = 3.14159265358979323846, r = exp(-pi * width[k] / rate), c = 2 * r * cos(2 * pi * v->formant[k] / rate);
			y = (1 - c + r * r) * y + c * memory[k][0] - r * r * memory[k][1];
			memory[k][1] = memory[k][0], memory[k][0] = y;
		}
		sample(y * 0.6 * fmin(1, 8 * fmin(t, 1 - t)));
	}
}

static void hiss(int n)
{
	double last = 0;
	for (int i = 0; i < n; i++) {
		const double w = noise(), t = (double)i / n;
		sample((w - last) * 0.01 * fmin(1, 4 * fmin(t, 1 - t)));
		last = w;
	}
}

int main(int argc, char **argv)
{
	if (argc < 2 || !(out = fopen(argv[1], "wb"))) return fprintf(stderr, "speech FILE [RATE [CHANNELS]]\n"), 2;
	if (argc > 2) rate = atoi(argv[2]);
	if (argc > 3) channels = atoi(argv[3]);
	const int quiet = rate * 6 / 10, hissing = rate / 20, voice = rate * 14 / 100, count = sizeof vowels / sizeof *vowels;
	const uint32_t bytes = (uint32_t)(3 * quiet + 2 * count * (hissing + voice)) * 2 * (uint32_t)channels;
	fwrite("RIFF", 1, 4, out), put(36 + bytes, 4), fwrite("WAVEfmt ", 1, 8, out), put(16, 4), put(1, 2);
	put((uint32_t)channels, 2), put((uint32_t)rate, 4), put((uint32_t)(rate * channels * 2), 4), put(2u * (uint32_t)channels, 2), put(16, 2);
	fwrite("data", 1, 4, out), put(bytes, 4);
	for (int word = 0; word < 3; word++) {
		for (int i = 0; i < quiet; i++) sample(noise() * 0.0005);
		for (int i = 0; i < count && word < 2; i++) hiss(hissing), say(&vowels[i], voice);
	}
	return fclose(out) != 0;
}
